/* helper.c - a thread that progresses started requests while their owner computes, and the communicator's lock.
 *
 * The thread is made by the first request that is started, and runs rounds (progress.c). It never spins, and it sleeps whenever no request
 * is under way. Everything is under the communicator's lock. A caller that wants the lock says so first, and the helper lets it go ahead.
 * A caller that waits for the end of a request without helping (tt_request_join) sleeps until the helper has finished something.
 *
 * The helper decides nothing: what fails stays in the engine for the next test or wait. */
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

#include "comm/parts.h"

enum { SLACK = 1000, SLICE = 100000 }; /* ns */

struct tt_helper {
    struct tt_comm *comm;
    pthread_t thread;
    struct tt_waiting waiting; /* its bell is the helper's: rung when there is a new request, or the end */
    pthread_mutex_t news_lock;
    pthread_cond_t news;
    uint32_t waiters;          /* under news_lock, which also changes the next */
    _Atomic uint32_t finished; /* how often something was found finished */
    uint64_t told;             /* programs and operations that were finished then; under the communicator's lock */
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
        syscall(SYS_sched_setattr, 0, &a, 0); /* kernels before 6.12 ignore the slice, and nothing depends on it */
}

void tt_comm_lock(struct tt_comm *c)
{
    if (pthread_mutex_trylock(&c->lock) == 0)
        return;
    atomic_fetch_add(&c->wanted, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&c->wanted, 1);
}

/* A caller that waits for the end of a request without helping hears of what has been finished. With the lock; true when there was
 * something. */
static bool tell(struct tt_helper *h)
{
    const struct tt_comm *c = h->comm;
    uint64_t finished = tt_engine_finished(c->engine);
    if (finished == h->told)
        return false;
    h->told = finished;
    pthread_mutex_lock(&h->news_lock);
    h->finished++;
    if (h->waiters)
        pthread_cond_broadcast(&h->news);
    pthread_mutex_unlock(&h->news_lock);
    return true;
}

/* What a caller has finished may have been what the next operation in the queue, which is the helper's, waited for. */
void tt_comm_unlock(struct tt_comm *c)
{
    struct tt_helper *h = atomic_load_explicit(&c->helper, memory_order_relaxed);
    if (h && tell(h) && c->wire.one_host && atomic_load(&c->started) > 0)
        tt_waiting_wake(c, &h->waiting);
    pthread_mutex_unlock(&c->lock);
}

static void *work(void *arg)
{
    struct tt_helper *h = arg;
    pthread_setname_np(pthread_self(), "tutti-comm");
    tt_comm_thread_begin();
    while (!atomic_load(&h->waiting.stop))
        tt_comm_round(h->comm, &h->waiting);
    return NULL;
}

/* The thread takes no signals: they are the program's. */
static bool launch(struct tt_helper *h)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool ok = pthread_create(&h->thread, NULL, work, h) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return ok;
}

static void discard(struct tt_helper *h)
{
    pthread_cond_destroy(&h->news);
    pthread_mutex_destroy(&h->news_lock);
    if (h->waiting.bell >= 0)
        tt_fd_close(h->waiting.bell);
    free(h);
}

/* Without a thread requests progress in the calls of their owner, as they did before: not an error. */
static void make(struct tt_comm *c)
{
    struct tt_helper *h = tt_zalloc(1, sizeof *h);
    if (!h)
        return;
    h->comm = c;
    pthread_mutex_init(&h->news_lock, NULL);
    pthread_cond_init(&h->news, NULL);
    tt_waiting_thread(c, tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), &h->waiting);
    if (h->waiting.bell >= 0 && launch(h)) {
        atomic_store_explicit(&c->helper, h, memory_order_release);
        return;
    }
    discard(h);
}

void tt_helper_wake(struct tt_comm *c)
{
    if (c->size < 2 || c->pumped || c->wire.lent_threads)
        return;
    if (!c->helper)
        make(c);
    struct tt_helper *h = c->helper;
    if (h)
        tt_waiting_wake(c, &h->waiting);
}

uint32_t tt_helper_finished(struct tt_comm *c)
{
    struct tt_helper *h = c->helper;
    return atomic_load(&h->finished);
}

void tt_helper_await(struct tt_comm *c, uint32_t seen, uint64_t until_ns)
{
    struct tt_helper *h = c->helper;
    struct timespec t = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    int late = 0;
    pthread_mutex_lock(&h->news_lock);
    h->waiters++;
    while (h->finished == seen && !late)
        late = pthread_cond_clockwait(&h->news, &h->news_lock, CLOCK_MONOTONIC, &t);
    h->waiters--;
    pthread_mutex_unlock(&h->news_lock);
}

void tt_helper_end(struct tt_comm *c)
{
    struct tt_helper *h = c->helper;
    if (!h)
        return;
    atomic_store(&h->waiting.stop, true);
    tt_waiting_wake(c, &h->waiting);
    pthread_join(h->thread, NULL);
    c->helper = NULL;
    discard(h);
}
