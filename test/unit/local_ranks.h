/* Ranks of one host for tests: a body run by n processes or n threads over one shared region. A failed CHECK ends the process (and so
 * fails the test); ranks that are meant to be killed say so. */
#ifndef LOCAL_RANKS_H
#define LOCAL_RANKS_H

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(x)                                                            \
    do {                                                                    \
        if (!(x)) {                                                         \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #x); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

enum { RANKS_MAX = 16 };
typedef void rank_fn(uint32_t rank, uint32_t n, void *region, void *arg);

static void *shared_region(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(bytes && p != MAP_FAILED);
    return p;
}

/* Bit r of the result: rank r did not end by exit code 0. */
static inline unsigned run_processes(uint32_t n, size_t bytes, rank_fn *fn, void *arg)
{
    void *region = shared_region(bytes);
    pid_t pid[RANKS_MAX];
    unsigned bad = 0;

    fflush(NULL);
    for (uint32_t r = 0; r < n; r++) {
        pid[r] = fork();
        CHECK(pid[r] >= 0);
        if (pid[r] == 0) {
            fn(r, n, region, arg);
            _exit(0);
        }
    }
    for (uint32_t r = 0; r < n; r++) {
        int status;
        CHECK(waitpid(pid[r], &status, 0) == pid[r]);
        if (!WIFEXITED(status) || WEXITSTATUS(status))
            bad |= 1u << r;
    }
    munmap(region, bytes);
    return bad;
}

struct rank_thread {
    rank_fn *fn;
    void *region, *arg;
    uint32_t rank, n;
};

static inline void *rank_main(void *p)
{
    struct rank_thread *t = p;
    t->fn(t->rank, t->n, t->region, t->arg);
    return NULL;
}

static inline void run_threads(uint32_t n, size_t bytes, rank_fn *fn, void *arg)
{
    void *region = shared_region(bytes);
    struct rank_thread t[RANKS_MAX];
    pthread_t id[RANKS_MAX];

    for (uint32_t r = 0; r < n; r++) {
        t[r] = (struct rank_thread){.fn = fn, .region = region, .arg = arg, .rank = r, .n = n};
        CHECK(pthread_create(&id[r], NULL, rank_main, &t[r]) == 0);
    }
    for (uint32_t r = 0; r < n; r++)
        CHECK(pthread_join(id[r], NULL) == 0);
    munmap(region, bytes);
}
#endif
