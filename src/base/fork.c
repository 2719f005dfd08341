/* fork.c - after fork() the child owns nothing of ours: its copies of our descriptors are closed
 * before fork() returns, so that peers see the end of the parent even though children live on.
 *
 * Descriptors are listed by number with the inode that they had. A child closes a descriptor only
 * if it still is the same file: one that was closed without our knowledge, and whose number the
 * program has used again, is left alone. (Event and epoll descriptors share one inode; they are
 * closed only by tt_fd_close.)
 *
 * The generation lies in a page that the kernel clears in every child, however that was made
 * (clone(2) runs no handlers): 0 there means a new process, which gets its number when it first
 * asks. */
#include "base/base.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* protects inodes and cap */
static ino_t *inodes;                                    /* by descriptor; 0: not ours */
static size_t cap;

/* used instead of the page where the kernel has no MADV_WIPEONFORK */
static _Atomic uint32_t unwiped;
static _Atomic uint32_t *number = &unwiped; /* this process's number; 0: not given yet */
static _Atomic uint32_t given;              /* the latest number, here or in an ancestor */

/* The lock is held across fork(), so that the child's copy of the table is consistent. */
static void before_fork(void)
{
    pthread_mutex_lock(&lock);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&lock);
}

/* Runs in the child before fork() returns there; only the forking thread exists. */
static void in_child(void)
{
    struct stat st;

    for (size_t fd = 0; fd < cap; fd++) {
        if (inodes[fd] && fstat((int)fd, &st) == 0 && st.st_ino == inodes[fd])
            close((int)fd);
        inodes[fd] = 0;
    }
    atomic_store(number, 0);
    pthread_mutex_unlock(&lock); /* this thread took it in before_fork */
}

static void fork_prepare(void)
{
    void *page = mmap(NULL, (size_t)sysconf(_SC_PAGESIZE), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page != MAP_FAILED && madvise(page, (size_t)sysconf(_SC_PAGESIZE), MADV_WIPEONFORK) == 0)
        number = page;
    else if (page != MAP_FAILED)
        munmap(page, (size_t)sysconf(_SC_PAGESIZE));
    pthread_atfork(before_fork, in_parent, in_child);
}

uint32_t tt_fork_generation(void)
{
    uint32_t none = 0;

    pthread_once(&once, fork_prepare);
    /* Two threads may race: one number wins, the other is skipped. */
    if (atomic_load(number) == 0)
        atomic_compare_exchange_strong(number, &none, atomic_fetch_add(&given, 1) + 1);
    return atomic_load(number);
}

TT_HOT bool tt_fork_foreign(uint32_t generation)
{
    /* Relaxed: the number does not change while the process lives. */
    return atomic_load_explicit(number, memory_order_relaxed) != generation;
}

/* Makes room for fd. The lock is held. */
static bool fork_grow(size_t fd)
{
    size_t n = fd < 64 ? 128 : 2 * fd;
    ino_t *more = fd < cap ? inodes : tt_resize(inodes, n, sizeof *more);

    if (!more)
        return false;
    for (size_t i = cap; fd >= cap && i < n; i++)
        more[i] = 0;
    inodes = more;
    cap = fd < cap ? cap : n;
    return true;
}

int tt_fd_own(int fd)
{
    struct stat st;

    if (fd < 0 || fstat(fd, &st) != 0)
        return fd;
    pthread_once(&once, fork_prepare);
    pthread_mutex_lock(&lock);
    if (fork_grow((size_t)fd)) /* on failure a child keeps it open, and nothing worse */
        inodes[fd] = st.st_ino ? st.st_ino : 1;
    pthread_mutex_unlock(&lock);
    return fd;
}

void tt_fd_close(int fd)
{
    if (fd < 0)
        return;
    /* Under the lock, so that a fork cannot happen between forgetting and closing. */
    pthread_mutex_lock(&lock);
    if ((size_t)fd < cap)
        inodes[fd] = 0;
    close(fd);
    pthread_mutex_unlock(&lock);
}
