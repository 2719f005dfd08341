/* board.c - counters in a file of shared memory (board.h). */
#include "base/board.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char MAGIC[8] = "tuttop1";
enum { BOARDS_MAX = 16384 };

/* ---- the folder ---- */

/* Opens the user's folder; `make`: makes it if need be. It must be a folder of this user that
 * nobody else can open: everybody may make one of that name in /dev/shm. */
static tutti_status open_folder(bool make, char *path, size_t cap, int *ret,
                                struct tutti_error *err)
{
    struct stat s;
    snprintf(path, cap, "/dev/shm/tutti-top-%u", (unsigned)geteuid());
    if (make && mkdir(path, 0700) && errno != EEXIST)
        return tt_fail(err, TUTTI_ERR_IO, "TUTTI_TOP: cannot make %s: %s", path, strerror(errno));
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return tt_fail(err, TUTTI_ERR_IO, "cannot open %s: %s", path, strerror(errno));
    if (fstat(fd, &s) || s.st_uid != geteuid() || (s.st_mode & 077)) {
        close(fd);
        return tt_fail(err, TUTTI_ERR_IO, "%s is not this user's alone (mode 0700)", path);
    }
    *ret = fd;
    return TUTTI_OK;
}

/* ---- counting ---- */

static size_t board_bytes(uint32_t ranks)
{
    return sizeof(struct tt_board) + (size_t)ranks * sizeof(uint64_t);
}

/* A new file of the folder with `bytes` bytes, mapped. */
static struct tt_board *map_new(int folder, const char *name, size_t bytes)
{
    struct tt_board *b = MAP_FAILED;
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd >= 0 && !posix_fallocate(fd, 0, (off_t)bytes))
        b = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (fd >= 0 && b == MAP_FAILED)
        unlinkat(folder, name, 0);
    if (fd >= 0)
        close(fd);
    return b == MAP_FAILED ? NULL : b;
}

tutti_status tt_board_make(uint32_t rank, uint32_t ranks, const char *job, struct tt_board **ret,
                           char **ret_path, struct tutti_error *err)
{
    static _Atomic uint32_t made;
    char folder[64], name[48];
    struct tt_str path = {0};
    int fd = -1;
    tutti_status st = open_folder(true, folder, sizeof folder, &fd, err);
    if (st)
        return st;
    /* A process id may come back; its old file is not ours to write to. */
    snprintf(name, sizeof name, "%d-%u-%llx", (int)getpid(), atomic_fetch_add(&made, 1),
             (unsigned long long)tt_now_ns());
    struct tt_board *b = map_new(fd, name, board_bytes(ranks));
    int why = errno;
    close(fd);
    tt_str_printf(&path, "%s/%s", folder, name);
    if (!b || path.failed) {
        tt_board_free(b, path.s);
        return b ? tt_fail_memory(err, "TUTTI_TOP")
                 : tt_fail(err, TUTTI_ERR_IO, "TUTTI_TOP: cannot write in %s: %s", folder,
                           strerror(why));
    }
    b->rank = rank;
    b->ranks = ranks;
    b->pid = (int32_t)getpid();
    b->opened_ns = tt_now_ns();
    gethostname(b->host, sizeof b->host - 1);
    snprintf(b->job, sizeof b->job, "%s", job);
    atomic_thread_fence(memory_order_release);
    memcpy(b->magic, MAGIC, sizeof MAGIC); /* last: readers skip boards without it */
    *ret = b;
    *ret_path = path.s;
    return TUTTI_OK;
}

void tt_board_free(struct tt_board *b, char *path)
{
    if (path)
        unlink(path);
    free(path);
    if (b)
        munmap(b, board_bytes(b->ranks));
}

static void add(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

void tt_board_count(struct tt_board *b, const struct tt_record_event *e)
{
    const uint64_t ns = e->end_ns - e->start_ns;
    switch ((enum tt_record_kind)e->kind) {
    case TT_RECORD_CALL:
        add(&b->calls, 1);
        add(&b->call_bytes, e->bytes);
        add(&b->call_ns, ns);
        break;
    case TT_RECORD_WAIT:
        add(&b->waits, 1);
        add(&b->wait_ns, ns);
        break;
    case TT_RECORD_SEND:
        add(&b->sent_bytes, e->bytes);
        break;
    case TT_RECORD_RECEIVE:
        add(&b->received_bytes, e->bytes);
        break;
    case TT_RECORD_IDLE:
        add(&b->idle_ns, ns);
        if (e->peer < b->ranks)
            add(&b->idle_for[e->peer], ns);
        break;
    case TT_RECORD_STEP: /* a step's launches are calls, too */
    case TT_RECORD_GRADIENTS:
    case TT_RECORD_LAUNCH:
    case TT_RECORD_EXPOSED:
    case TT_RECORD_KINDS:
        break;
    }
}

/* ---- looking ---- */

/* The copy of a file; NULL: it is none of ours, or not complete. */
static struct tt_board *read_board(int folder, const char *name)
{
    struct stat s;
    struct tt_board *b = NULL;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    bool good = !fstat(fd, &s) && S_ISREG(s.st_mode) && s.st_uid == geteuid() &&
                s.st_size >= (off_t)sizeof *b && s.st_size <= (off_t)board_bytes(TT_BOARD_RANKS);
    if (good)
        b = malloc((size_t)s.st_size);
    good = b && pread(fd, b, (size_t)s.st_size, 0) == (ssize_t)s.st_size &&
           !memcmp(b->magic, MAGIC, sizeof MAGIC) && b->ranks <= TT_BOARD_RANKS &&
           board_bytes(b->ranks) == (size_t)s.st_size && b->rank < b->ranks && b->pid > 0;
    close(fd);
    if (good) {
        b->host[TT_BOARD_HOST - 1] = b->job[TT_BOARD_JOB - 1] = 0;
        return b;
    }
    free(b);
    return NULL;
}

static bool is_alive(int32_t pid)
{
    return !kill((pid_t)pid, 0) || errno == EPERM;
}

static int compare_boards(const void *a, const void *b)
{
    const struct tt_board *x = *(struct tt_board *const *)a, *y = *(struct tt_board *const *)b;
    int job = strcmp(x->job, y->job);
    if (job)
        return job;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    return x->pid < y->pid ? -1 : x->pid > y->pid;
}

/* Adds the boards of a folder to the list. */
static tutti_status list_folder(int folder, DIR *dir, struct tt_vec *list, struct tutti_error *err)
{
    const struct dirent *entry;
    while ((entry = readdir(dir)) && list->len < BOARDS_MAX) {
        struct tt_board *b = entry->d_name[0] == '.' ? NULL : read_board(folder, entry->d_name);
        if (!b)
            continue;
        if (!is_alive(b->pid)) {
            unlinkat(folder, entry->d_name, 0);
            free(b);
        } else if (!tt_vec_push(list, &b, 1)) {
            free(b);
            return tt_fail_memory(err, "boards");
        }
    }
    return TUTTI_OK;
}

tutti_status tt_board_list(struct tt_board ***ret, size_t *ret_n, struct tutti_error *err)
{
    char path[64];
    int fd = -1;
    struct tt_vec list = {.elem = sizeof(struct tt_board *)};
    *ret = NULL;
    *ret_n = 0;
    /* No folder: nobody has counted since the machine started. */
    snprintf(path, sizeof path, "/dev/shm/tutti-top-%u", (unsigned)geteuid());
    if (access(path, F_OK) && errno == ENOENT)
        return TUTTI_OK;
    tutti_status st = open_folder(false, path, sizeof path, &fd, err);
    if (st)
        return st;
    DIR *dir = fdopendir(dup(fd));
    st =
        dir ? list_folder(fd, dir, &list, err) : tt_fail(err, TUTTI_ERR_IO, "cannot list %s", path);
    if (dir)
        closedir(dir);
    close(fd);
    if (st) {
        for (size_t i = 0; i < list.len; i++)
            free(*(struct tt_board **)tt_vec_at(&list, i));
        tt_vec_free(&list);
        return st;
    }
    if (list.len)
        qsort(list.data, list.len, sizeof(struct tt_board *), compare_boards);
    *ret = list.data;
    *ret_n = list.len;
    return TUTTI_OK;
}
