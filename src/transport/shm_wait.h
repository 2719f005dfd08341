/* shm_wait.h - how a rank waits for memory that another process of its host writes (inside the
 * transport module).
 *
 * Every rank has a door: one line in shared memory on which it says that it sleeps. Whoever
 * publishes something (a seq_cst store) looks at the door afterwards and rings only when its owner
 * sleeps. The owner says that it sleeps, looks once more (seq_cst loads), then sleeps. All four
 * accesses being in one total order, either the publisher sees the sleeper or the sleeper sees what
 * was published: no wake-up is lost, no fence is needed, and publishing to somebody who is awake
 * costs one load of a line that nobody writes.
 *
 * A rank may have two sleepers at its door: a call that waits for one thing, and a thread or call
 * that dozes until anything may have happened. Each sets and clears its own bits; who wakes one
 * wakes both, and each looks for itself. */
#ifndef TT_SHM_WAIT_H
#define TT_SHM_WAIT_H

#include <stdatomic.h>

#include "base/base.h"

/* Two cache lines: adjacent-line prefetchers fetch pairs, and some ARM processors have lines of 128
 * bytes. */
enum { TT_LINE = 128 };

/* What a sleeper wants to hear of. */
enum { TT_WAKE_DATA = 1, TT_WAKE_SPACE = 2, TT_WAKE_DOZER = 4 /* of everything */ };

struct tt_door {
    /* TT_WAKE_ bits; set by the owner, cleared by whoever wakes it */
    _Alignas(TT_LINE) _Atomic uint32_t sleeping;
    _Atomic uint32_t rings; /* the futex word */
};

void tt_shm_door_wake(struct tt_door *d);
static inline void tt_door_ring(struct tt_door *d, uint32_t why)
{
    if (atomic_load(&d->sleeping) & (why | TT_WAKE_DOZER))
        tt_shm_door_wake(d);
}

/* What to wait for. `ready` must use seq_cst loads for whatever peers publish; it may be called any
 * number of times. */
struct tt_wait {
    struct tt_door *door; /* one's own */
    uint32_t why;
    bool oversubscribed; /* more ranks than cores */
    /* Since when there has been nothing, 0 when something has just come: kept by the caller between
     * waits, so that one who waits in slices falls asleep as well as one who waits in one piece.
     * Set to 0 when ready. */
    uint64_t *idle_since_ns;
    bool (*ready)(void *arg);
    void *arg;
};
/* Returns true as soon as ready() does, false at deadline_ns (tt_now_ns clock; 0 only looks;
 * UINT64_MAX never). Spins briefly when there is a core per rank, then yields, then sleeps. */
bool tt_shm_wait_until(const struct tt_wait *w, uint64_t deadline_ns);

/* A sleep until anything may have happened: begin, look once more, then either end or doze (until a
 * ring after begin, or deadline_ns), which ends it. Only one thread of a rank dozes. */
uint32_t tt_shm_door_doze_begin(struct tt_door *d);
void tt_shm_door_doze(struct tt_door *d, uint32_t rings, uint64_t deadline_ns);
void tt_shm_door_doze_end(struct tt_door *d);

/* Tells the processor that this is a waiting loop. */
static inline void tt_pause(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}
#endif
