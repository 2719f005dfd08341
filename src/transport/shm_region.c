/* shm_region.c - anonymous shared memory, found through /proc (see shm_region.h).
 *
 * Why not a POSIX shm name: a rank killed between creating and unlinking would leave it behind. Opening /proc/<pid>/fd/<n> needs the same
 * user and a common view of /proc; unlike reading another process's memory it is not affected by Yama's ptrace scope. Invariant: base is
 * NULL exactly when nothing is mapped. */
#include "transport/shm_region.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return bytes > PTRDIFF_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

static void *map(int fd, size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    return base == MAP_FAILED ? NULL : base;
}

tutti_status tt_region_make(size_t bytes, struct tt_region *ret, struct tutti_error *err)
{
    size_t size = whole_pages(bytes);
    int fd = size ? memfd_create("tutti", MFD_CLOEXEC) : -1;
    void *base = NULL;

    if (fd >= 0 && ftruncate(fd, (off_t)size) == 0)
        base = map(fd, size);
    if (!base) {
        int why = size ? errno : EINVAL;
        if (fd >= 0)
            close(fd);
        return tt_fail(err, TUTTI_ERR_MEMORY, "cannot make shared memory of %zu bytes: %s", bytes, strerror(why));
    }
    *ret = (struct tt_region){.base = base, .bytes = size, .fd = fd};
    return TUTTI_OK;
}

tutti_status tt_region_describe(const struct tt_region *r, struct tt_region_key *ret, struct tutti_error *err)
{
    struct stat st;

    if (fstat(r->fd, &st))
        return tt_fail(err, TUTTI_ERR_IO, "shared memory cannot be described: %s", strerror(errno));
    *ret = (struct tt_region_key){.bytes = r->bytes, .dev = st.st_dev, .ino = st.st_ino, .pid = (uint32_t)getpid(), .fd = r->fd};
    return TUTTI_OK;
}

static bool is_the_one(int fd, const struct tt_region_key *key)
{
    struct stat st;

    return fstat(fd, &st) == 0 && st.st_dev == key->dev && st.st_ino == key->ino && (uint64_t)st.st_size == key->bytes;
}

tutti_status tt_region_join(const struct tt_region_key *key, struct tt_region *ret, struct tutti_error *err)
{
    char path[64];
    void *base;

    snprintf(path, sizeof path, "/proc/%u/fd/%d", key->pid, key->fd);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return tt_fail(err, TUTTI_ERR_CONNECT, "shared memory of process %u: %s: %s", key->pid, path, strerror(errno));
    if (!is_the_one(fd, key)) {
        close(fd);
        return tt_fail(err, TUTTI_ERR_CONNECT, "shared memory of process %u: %s is something else", key->pid, path);
    }
    base = map(fd, (size_t)key->bytes);
    int why = errno;
    close(fd);
    if (!base)
        return tt_fail(err, TUTTI_ERR_MEMORY, "shared memory of process %u cannot be mapped: %s", key->pid, strerror(why));
    *ret = (struct tt_region){.base = base, .bytes = (size_t)key->bytes, .fd = -1};
    return TUTTI_OK;
}

void tt_region_seal(struct tt_region *r)
{
    if (r->base && r->fd >= 0)
        close(r->fd);
    r->fd = -1;
}

void tt_region_free(struct tt_region *r)
{
    tt_region_seal(r);
    if (r->base)
        munmap(r->base, r->bytes);
    r->base = NULL;
}
