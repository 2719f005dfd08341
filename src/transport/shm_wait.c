/* shm_wait.c - spin, yield, sleep: the one waiting loop of the shared-memory transport and of
 * direct access.
 *
 *     core per rank      poll 256 times -> spin with pauses to 5 us -> yield to 1 ms   -> sleep
 *     oversubscribed     poll once      ->                             yield to 0.2 ms -> sleep
 *
 * With a core per rank an answer is usually nanoseconds away. With more ranks than cores the
 * awaited rank needs this core: yield at once. A longer wait ends in a futex on the own door, so
 * that a late peer costs no core time.
 *
 * Invariant: a sleeper has set its bit on its door before it checked for the last time
 * (shm_wait.h). */
#include <assert.h>

#include "transport/shm_wait.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
    LOOKS = 256,           /* polls before the clock is read for the first time */
    LOOKS_PER_PAUSED = 16, /* polls with pauses between two readings of the clock */
    /* Then yield: if no other thread wants the core that is as good as spinning; if the awaited
     * peer does, it is the only way to make progress. */
    SPIN_NS = 5 * 1000,
    /* Then sleep. With a core per rank, waking up costs more than yielding on an idle core. */
    AWAKE_NS = 1000 * 1000,
    /* The same with more ranks than cores: sleepers let the kernel spread the other ranks. */
    AWAKE_OVER_NS = 200 * 1000
};

/* Of several ranks that find the sleeper only one makes the system call: the one that clears the
 * bits. The new value of `rings` also stops a sleeper that is just about to sleep. */
void tt_shm_door_wake(struct tt_door *d)
{
    if (!atomic_exchange(&d->sleeping, 0))
        return; /* another rank wakes it */
    atomic_fetch_add(&d->rings, 1);
    syscall(SYS_futex, (uint32_t *)&d->rings, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* Sleeps until `rings` is no longer the value given, or the deadline. */
static void futex_sleep(struct tt_door *d, uint32_t rings, uint64_t deadline_ns)
{
    struct timespec t = {.tv_sec = (time_t)(deadline_ns / 1000000000u),
                         .tv_nsec = (long)(deadline_ns % 1000000000u)};

    /* FUTEX_WAIT_BITSET takes an absolute time of the clock of tt_now_ns. A changed word, a signal
     * and the deadline all return alike: the caller checks again. */
    syscall(SYS_futex, (uint32_t *)&d->rings, FUTEX_WAIT_BITSET, rings,
            deadline_ns == UINT64_MAX ? NULL : &t, NULL, FUTEX_BITSET_MATCH_ANY);
}

/* `rings` is read before the bit is set: a ring after that changes it, and the futex does not
 * sleep. The bit is set anew in each round, because the ring that woke us has cleared it. */
static bool sleep_until(const struct tt_wait *w, uint64_t deadline_ns)
{
    bool ready;

    for (;;) {
        uint32_t rings = atomic_load(&w->door->rings);
        atomic_fetch_or(&w->door->sleeping, w->why);
        ready = w->ready(w->arg);
        if (ready || tt_now_ns() >= deadline_ns)
            break;
        futex_sleep(w->door, rings, deadline_ns);
    }
    atomic_fetch_and(&w->door->sleeping, ~w->why);
    return ready;
}

/* The checks that follow may use weaker loads than those of a wait, hence the fence. */
uint32_t tt_shm_door_doze_begin(struct tt_door *d)
{
    uint32_t rings = atomic_load(&d->rings);

    atomic_fetch_or(&d->sleeping, TT_WAKE_DOZER);
    atomic_thread_fence(memory_order_seq_cst);
    return rings;
}

void tt_shm_door_doze(struct tt_door *d, uint32_t rings, uint64_t deadline_ns)
{
    futex_sleep(d, rings, deadline_ns);
    tt_shm_door_doze_end(d);
}

void tt_shm_door_doze_end(struct tt_door *d)
{
    atomic_fetch_and(&d->sleeping, ~(uint32_t)TT_WAKE_DOZER);
}

/* Polls with pauses, without system calls; false: the time is over. */
static bool spin(const struct tt_wait *w, uint64_t end_ns)
{
    do {
        for (int i = 0; i < LOOKS_PER_PAUSED; i++) {
            tt_pause();
            if (w->ready(w->arg))
                return true;
        }
    } while (tt_now_ns() < end_ns);
    return false;
}

/* Polls, giving the core away in between; false: the time is over. */
static bool shm_wait_yield(const struct tt_wait *w, uint64_t end_ns)
{
    do {
        sched_yield();
        if (w->ready(w->arg))
            return true;
    } while (tt_now_ns() < end_ns);
    return false;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The stages of a wait that has lasted since start_ns, in one call or in several. */
static bool wait_on(const struct tt_wait *w, uint64_t start_ns, uint64_t deadline_ns)
{
    uint64_t spin_end = earlier(deadline_ns, start_ns + SPIN_NS);
    uint64_t awake_end =
        earlier(deadline_ns, start_ns + (w->oversubscribed ? AWAKE_OVER_NS : AWAKE_NS));
    uint64_t now = tt_now_ns();

    if (!w->oversubscribed && now < spin_end && spin(w, spin_end))
        return true;
    if (now < awake_end && shm_wait_yield(w, awake_end))
        return true;
    return sleep_until(w, deadline_ns);
}

/* A wait that continues an earlier one polls once only: it has spun before. */
bool tt_shm_wait_until(const struct tt_wait *w, uint64_t deadline_ns)
{
    assert(w->why != 0); /* a sleeper that asks for nothing is never woken */
    int looks = w->oversubscribed || *w->idle_since_ns ? 1 : LOOKS;
    bool ready = false;

    for (int i = 0; i < looks && !ready; i++)
        ready = w->ready(w->arg);
    if (!ready && deadline_ns) {
        if (!*w->idle_since_ns)
            *w->idle_since_ns = tt_now_ns();
        ready = wait_on(w, *w->idle_since_ns, deadline_ns);
    }
    if (ready)
        *w->idle_since_ns = 0;
    return ready;
}
