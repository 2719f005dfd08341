/* disk.c - memos: what synthesisers found, kept in files. Each name is one file in
 * $XDG_CACHE_HOME/tutti/trees/ or ~/.cache/tutti/trees/.
 *
 *     | the memo's bytes | hash of them (8 bytes) |
 *
 * A damaged, foreign or oversized file counts as absent and is written again. Files appear
 * atomically (rename) and are private to their owner. When all together exceed LIMIT bytes, the
 * least recently used are removed. A memo only saves time, so every function fails silently. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cache.h"
#include "plan/plan_int.h"

static const char FOLDER[] = "trees";
enum { LIMIT = 64 << 20, NAME = sizeof(((struct tt_algo_memo *)0)->name), CHECK = 8 };

bool tt_plan_disk_path(const char *name, char *buf, size_t cap)
{
    char file[sizeof FOLDER + NAME];
    int n = snprintf(file, sizeof file, "%s/%s", FOLDER, name);
    return n > 0 && (size_t)n < sizeof file && tt_cache_path(file, buf, cap);
}

/* ---- writing ---- */

struct old_file {
    char name[NAME + 16];
    struct timespec time;
    uint64_t bytes;
};

/* Matches the names of memo files, finished ones and temporary ones left behind by a writer that
 * died. */
static bool is_ours(const char *name)
{
    return strspn(name, "0123456789abcdef") == 16 && name[16] == '-' && strlen(name) < NAME + 16;
}

/* The name breaks ties of time, so that the order does not depend on readdir. */
static int by_time(const void *pa, const void *pb)
{
    const struct old_file *a = pa, *b = pb;
    if (a->time.tv_sec != b->time.tv_sec)
        return a->time.tv_sec < b->time.tv_sec ? -1 : 1;
    if (a->time.tv_nsec != b->time.tv_nsec)
        return a->time.tv_nsec < b->time.tv_nsec ? -1 : 1;
    return strcmp(a->name, b->name);
}

/* Regular files of ours; a list cut short by lack of memory is good enough for make_room. */
static struct tt_vec list_files(int dir_fd, DIR *d)
{
    struct tt_vec all = {.elem = sizeof(struct old_file)};
    for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
        struct old_file f = {.bytes = 0};
        struct stat st;
        if (!is_ours(e->d_name) || fstatat(dir_fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
            !S_ISREG(st.st_mode))
            continue;
        snprintf(f.name, sizeof f.name, "%s", e->d_name);
        f.time = st.st_mtim;
        f.bytes = (uint64_t)st.st_size;
        if (!tt_vec_push(&all, &f, 1))
            break;
    }
    return all;
}

/* Removes the least recently used files until `more` further bytes stay within LIMIT. */
static void make_room(const char *dir, uint64_t more)
{
    DIR *d = opendir(dir);
    if (!d)
        return;
    struct tt_vec all = list_files(dirfd(d), d);
    const struct old_file *f = all.data;
    uint64_t sum = more;
    for (size_t i = 0; i < all.len; i++)
        sum += f[i].bytes;
    if (all.len > 0)
        qsort(all.data, all.len, all.elem, by_time);
    for (size_t i = 0; i < all.len && sum > LIMIT; i++) {
        unlinkat(dirfd(d), f[i].name, 0);
        sum -= f[i].bytes;
    }
    tt_vec_free(&all);
    closedir(d);
}

static bool put_memo(FILE *out, const void *ctx)
{
    const struct tt_vec *bytes = ctx;
    uint64_t check = tt_hash_bytes(0, bytes->data, bytes->len);
    return fwrite(bytes->data, 1, bytes->len, out) == bytes->len &&
           fwrite(&check, 1, CHECK, out) == CHECK;
}

void tt_plan_disk_write(const char *name, const struct tt_vec *bytes)
{
    char path[TT_DISK_PATH], dir[TT_DISK_PATH];
    /* A memo of more than half the limit would evict nearly everything else. */
    if (bytes->len + CHECK > LIMIT / 2 || !tt_plan_disk_path(name, path, sizeof path) ||
        !tt_cache_path(FOLDER, dir, sizeof dir))
        return;
    make_room(dir, bytes->len + CHECK);
    tt_cache_write(path, put_memo, bytes);
}

/* ---- reading ---- */

/* Reads the whole file if it is a regular file, owned by this user and of a plausible size. */
static bool read_file(FILE *in, struct tt_vec *ret)
{
    struct stat st;
    struct tt_vec bytes = {.elem = 1};
    if (fstat(fileno(in), &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() ||
        st.st_size <= CHECK || st.st_size > LIMIT)
        return false;
    size_t n = (size_t)st.st_size;
    if (!tt_vec_push(&bytes, NULL, n) || fread(bytes.data, 1, n, in) != n) {
        tt_vec_free(&bytes);
        return false;
    }
    futimens(fileno(in), NULL); /* touch: make_room removes it last */
    *ret = bytes;
    return true;
}

/* Removes the hash from the end; false if the other bytes do not match it. */
static bool disk_check(struct tt_vec *bytes)
{
    uint64_t hash;
    size_t n = bytes->len - CHECK;
    memcpy(&hash, (const unsigned char *)bytes->data + n, CHECK);
    bytes->len = n;
    return hash == tt_hash_bytes(0, bytes->data, n);
}

bool tt_plan_disk_read(const char *name, struct tt_vec *ret)
{
    char path[TT_DISK_PATH];
    struct tt_vec bytes = {.elem = 1};
    /* O_NOFOLLOW, O_NONBLOCK: a symbolic link is refused, and opening a FIFO does not block. */
    int fd = tt_plan_disk_path(name, path, sizeof path)
                 ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK)
                 : -1;
    FILE *in = fd < 0 ? NULL : fdopen(fd, "r");
    if (!in) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    bool ok = read_file(in, &bytes) && disk_check(&bytes);
    fclose(in);
    if (ok)
        *ret = bytes;
    else
        tt_vec_free(&bytes);
    return ok;
}
