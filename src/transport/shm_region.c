/* shm_region.c - anonymous shared memory, found through /proc (see shm_region.h).
 *
 * Why not a POSIX shm name: a rank killed between creating and unlinking would leave the name
 * behind. Opening /proc/<pid>/fd/<n> needs the same user and a common view of /proc.
 *
 * A joiner does not trust the key: the descriptor number may mean another file by now. It is first
 * opened with O_PATH, which has no side effects whatever it is, and compared with the key; only
 * then is it opened for use, through /proc/self/fd, and its seals are checked, so that the memory
 * cannot shrink while it is mapped.
 *
 * Invariant: base is NULL exactly when nothing is mapped. */
#include <assert.h>

#include "transport/shm_region.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* 0: too large to be rounded up. */
static size_t whole_pages(size_t bytes)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);

    return bytes > PTRDIFF_MAX - page ? 0 : (bytes + page - 1) / page * page;
}

/* NORESERVE: heaps are as large as the host's memory and mostly untouched. */
static void *map(int fd, size_t bytes)
{
    void *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);

    return base == MAP_FAILED ? NULL : base;
}

/* The size can change no more, and neither can the seals. */
enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

/* Sets the size; 0 or an errno. `ulimit -f` holds for anonymous files too, and exceeding it raises
 * SIGXFSZ, which would end the process: it is blocked, and taken back if this call raised it. */
static int set_size(int fd, size_t size)
{
    sigset_t over, old;
    int error;

    sigemptyset(&over);
    sigaddset(&over, SIGXFSZ);
    pthread_sigmask(SIG_BLOCK, &over, &old);
    error = ftruncate(fd, (off_t)size) ? errno : 0;
    if (error == EFBIG && !sigismember(&old, SIGXFSZ))
        sigtimedwait(&over, NULL, &(struct timespec){0});
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error;
}

/* Says which limit to raise, if it is one. */
static tutti_status fail_make(size_t bytes, int error, struct tutti_error *err)
{
    struct rlimit l = {0};

    if (error == EFBIG && getrlimit(RLIMIT_FSIZE, &l) == 0 && l.rlim_cur != RLIM_INFINITY)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "shared memory of %zu bytes cannot be made: files of this process may have "
                       "%llu bytes, raise ulimit -f",
                       bytes, (unsigned long long)l.rlim_cur);
    return tt_fail(err, TUTTI_ERR_MEMORY, "shared memory of %zu bytes cannot be made: %s", bytes,
                   strerror(error));
}

/* Sealed before the key exists: a joiner never sees memory whose size could change. */
tutti_status tt_shm_region_make(size_t bytes, struct tt_region *ret, struct tutti_error *err)
{
    size_t size = whole_pages(bytes);
    int fd = size ? memfd_create("tutti", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    int error = fd >= 0 ? set_size(fd, size) : size ? errno : EINVAL;
    void *base = NULL;

    if (!error && fcntl(fd, F_ADD_SEALS, SEALS))
        error = errno;
    if (!error && !(base = map(fd, size)))
        error = errno;
    if (error) {
        if (fd >= 0)
            close(fd);
        return fail_make(bytes, error, err);
    }
    *ret = (struct tt_region){.base = base, .bytes = size, .fd = tt_fd_own(fd)};
    return TUTTI_OK;
}

tutti_status tt_shm_region_describe(const struct tt_region *r, struct tt_region_key *ret,
                                    struct tutti_error *err)
{
    struct stat st;

    assert(r->base && r->fd >= 0);
    if (fstat(r->fd, &st))
        return tt_fail(err, TUTTI_ERR_IO, "shared memory cannot be described: %s", strerror(errno));
    *ret = (struct tt_region_key){.bytes = r->bytes,
                                  .dev = st.st_dev,
                                  .ino = st.st_ino,
                                  .pid = (uint32_t)getpid(),
                                  .fd = r->fd};
    return TUTTI_OK;
}

/* Does the descriptor, opened with O_PATH or not, refer to what the key says, of this user? */
static bool is_the_one(int fd, const struct tt_region_key *key)
{
    struct stat st;

    return fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_dev == key->dev &&
           st.st_ino == key->ino && (uint64_t)st.st_size == key->bytes && st.st_uid == geteuid();
}

/* A descriptor of the region, to be closed by the caller. -1: errno, or errno 0 if what is there is
 * something else. */
static int open_memory(const struct tt_region_key *key)
{
    char path[64];
    int fd, look;

    snprintf(path, sizeof path, "/proc/%u/fd/%d", key->pid, key->fd);
    look = open(path, O_PATH | O_CLOEXEC);
    if (look < 0)
        return -1;
    if (!is_the_one(look, key)) {
        close(look);
        errno = 0;
        return -1;
    }
    snprintf(path, sizeof path, "/proc/self/fd/%d", look);
    fd = open(path, O_RDWR | O_CLOEXEC);
    int seals = fd >= 0 ? fcntl(fd, F_GET_SEALS) : -1, error = fd >= 0 ? 0 : errno;
    close(look);
    if (fd >= 0 && (seals < 0 || (seals & SEALS) != SEALS)) {
        close(fd);
        fd = -1;
    }
    errno = error;
    return fd;
}

tutti_status tt_shm_region_join(const struct tt_region_key *key, struct tt_region *ret,
                                struct tutti_error *err)
{
    int fd = open_memory(key);
    void *base;

    if (fd < 0 && errno)
        return tt_fail(err, errno == EMFILE || errno == ENFILE ? TUTTI_ERR_IO : TUTTI_ERR_CONNECT,
                       "shared memory of process %u cannot be opened: %s", key->pid,
                       strerror(errno));
    if (fd < 0)
        return tt_fail(err, TUTTI_ERR_CONNECT,
                       "descriptor %d of process %u is not the shared memory it should be", key->fd,
                       key->pid);
    /* The mapping keeps the memory alive; the descriptor is not needed any more. */
    base = map(fd, (size_t)key->bytes);
    int why = errno;
    close(fd);
    if (!base)
        return tt_fail(err, TUTTI_ERR_MEMORY, "shared memory of process %u cannot be mapped: %s",
                       key->pid, strerror(why));
    *ret = (struct tt_region){.base = base, .bytes = (size_t)key->bytes, .fd = -1};
    return TUTTI_OK;
}

void tt_shm_region_seal(struct tt_region *r)
{
    if (r->base)
        tt_fd_close(r->fd);
    r->fd = -1;
}

void tt_shm_region_free(struct tt_region *r)
{
    tt_shm_region_seal(r);
    if (r->base)
        munmap(r->base, r->bytes);
    r->base = NULL;
}
