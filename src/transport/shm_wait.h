/* shm_wait.h - how a rank waits for memory that another process of its host writes (inside the
 * transport module).
 *
 * Every rank has a door: one line in shared memory on which it says that it sleeps. A rank that
 * publishes something checks the door of the reader afterwards, and rings only if its owner sleeps:
 *
 *     publisher   store the data's state (seq_cst)     then load `sleeping` (seq_cst) -> ring?
 *     owner       store `sleeping` (seq_cst)           then load the state (seq_cst)  -> sleep?
 *
 * All four accesses are in one total order, so either the publisher sees the sleeper or the sleeper
 * sees what was published: no wake-up is lost, no fence is needed, and publishing to a rank that is
 * awake costs one load of a line that is not being written.
 *
 * A rank may have two sleepers at its door: a call that waits for one thing, and a thread or call
 * that dozes until anything may have happened. Each sets and clears its own bits. A ring wakes
 * both, and each checks for itself. */
#ifndef TT_SHM_WAIT_H
#define TT_SHM_WAIT_H

#include <stdatomic.h>

#include "base/base.h"

/* Two cache lines: adjacent-line prefetchers fetch pairs, and some ARM processors have lines of 128
 * bytes. */
enum { TT_LINE = 128 };

/* What a sleeper wants to be woken for. */
enum { TT_WAKE_DATA = 1, TT_WAKE_SPACE = 2, TT_WAKE_DOZER = 4 /* everything */ };

struct tt_door {
    /* TT_WAKE_ bits; set by the owner, cleared by the owner or by the rank that wakes it */
    _Alignas(TT_LINE) _Atomic uint32_t sleeping;
    _Atomic uint32_t rings; /* the futex word */
};

void tt_shm_door_wake(struct tt_door *d); /* wakes all sleepers of the door */
/* Call after publishing with a seq_cst store. */
static inline void tt_door_ring(struct tt_door *d, uint32_t why)
{
    if (atomic_load(&d->sleeping) & (why | TT_WAKE_DOZER))
        tt_shm_door_wake(d);
}

/* What to wait for. `ready` must use seq_cst loads for whatever peers publish; it may be called any
 * number of times. */
struct tt_wait {
    struct tt_door *door; /* of the rank that waits */
    uint32_t why;
    bool oversubscribed; /* more ranks than cores */
    /* Since when there has been nothing; 0: something has just come. Kept by the caller between
     * waits, so that a caller that waits in slices falls asleep like one that waits in one call.
     * Set to 0 when ready. */
    uint64_t *idle_since_ns;
    bool (*ready)(void *arg);
    void *arg;
};
/* Returns true as soon as ready() does, false at deadline_ns (tt_now_ns clock; 0: polls only;
 * UINT64_MAX: no deadline). Spins briefly when there is a core per rank, then yields, then
 * sleeps. */
bool tt_shm_wait_until(const struct tt_wait *w, uint64_t deadline_ns);

/* A sleep until anything may have happened: begin (returns a ticket), check once more, then either
 * end it or doze with the ticket, until a ring since begin or deadline_ns; that ends it too. Only
 * one thread of a rank dozes. */
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
