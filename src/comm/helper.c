/* helper.c - a thread that makes progress on started requests while their owner computes.
 *
 * The first request that is started creates the thread, which runs rounds (progress.c). It never
 * spins, and it sleeps whenever no request is active. Everything is guarded by the communicator's
 * lock, and the helper lets all other threads have it first (shared.c). A caller that waits for the
 * end of a request without helping (tt_comm_request_join) sleeps until the helper has finished
 * something.
 *
 * The helper decides nothing: a failure stays in the engine for the next test or wait. */
#include <assert.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "comm/comm_int.h"

enum { SLACK = 1000, SLICE = 100000 }; /* ns */

struct tt_helper {
    struct tt_comm *comm;
    pthread_t thread;
    /* Its bell is rung when there is a new request, or to end the thread. */
    struct tt_waiting waiting;
};

/* The kernel's struct sched_attr, first version. */
struct slice_attr {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
};

void tt_comm_thread_begin(void)
{
    struct slice_attr a = {.size = sizeof a, .policy = SCHED_OTHER, .runtime = SLICE};
    prctl(PR_SET_TIMERSLACK, SLACK, 0, 0, 0);
    errno = 0;
    a.nice = getpriority(PRIO_PROCESS, 0);
    if (errno == 0 && sched_getscheduler(0) == SCHED_OTHER)
        /* kernels before 6.12 ignore the slice; nothing depends on it */
        syscall(SYS_sched_setattr, 0, &a, 0);
}

static void *helper_work(void *arg)
{
    struct tt_helper *h = arg;
    pthread_setname_np(pthread_self(), "tutti-comm");
    tt_comm_thread_begin();
    while (!atomic_load(&h->waiting.stop))
        tt_comm_round(h->comm, &h->waiting);
    return NULL;
}

/* The thread blocks all signals: they are for the program's own threads. */
static bool helper_launch(struct tt_helper *h)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&h->thread, NULL, helper_work, h) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static void discard(struct tt_helper *h)
{
    if (h->waiting.bell >= 0)
        tt_fd_close(h->waiting.bell);
    free(h);
}

/* Without a thread, requests make progress in the calls of their owner only; that is not an error.
 * The release store pairs with the acquire load in tt_comm_request_join. The lock is held. */
static void helper_make(struct tt_comm *c)
{
    assert(!c->helper);
    struct tt_helper *h = tt_zalloc(1, sizeof *h);
    if (!h)
        return;
    h->comm = c;
    tt_comm_waiting_thread(c, tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), &h->waiting);
    if (h->waiting.bell >= 0 && helper_launch(h)) {
        tt_comm_sleepers_add(c, &h->waiting);
        atomic_store_explicit(&c->helper, h, memory_order_release);
        return;
    }
    discard(h);
}

void tt_comm_helper_wake(struct tt_comm *c)
{
    /* No helper: alone there is nothing to wait for; a pumping thread exists already; or MPI
     * accepts only threads of the caller. */
    if (c->size < 2 || c->pumped || c->wire.lent_threads)
        return;
    if (!c->helper)
        helper_make(c);
    struct tt_helper *h = c->helper;
    if (h)
        tt_comm_waiting_wake(c, &h->waiting);
}

void tt_comm_helper_end(struct tt_comm *c)
{
    struct tt_helper *h = c->helper;
    if (!h)
        return;
    /* stop is set before the wake-up, so the thread cannot fall asleep again without seeing it. */
    atomic_store(&h->waiting.stop, true);
    tt_comm_waiting_wake(c, &h->waiting);
    pthread_join(h->thread, NULL);
    tt_comm_enter(c);
    tt_comm_sleepers_remove(c, &h->waiting);
    c->helper = NULL;
    tt_comm_unlock(c);
    discard(h);
}
