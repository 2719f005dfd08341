/* helper.c - a thread that progresses started requests while their owner computes.
 *
 * It is made by the first request that is started and sleeps whenever none is under way. It never spins: after a look that found nothing
 * it sleeps until the transport's descriptor has news (TCP), or a peer rings the door in shared memory (all ranks on one host), or, where
 * there is neither (both at once, MPI), for a nap that doubles from NAP_MIN to NAP_MAX. Everything is under the communicator's lock; who
 * wants the lock says so first, and the helper lets him go ahead, because a mutex alone would let the thread that has just given it back
 * take it again and again. Who waits for the end of a request without helping (tt_request_join) sleeps until the helper has finished
 * something.
 *
 * It decides nothing: what fails stays in the engine for the next test or wait. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
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

enum { NAP_MIN = 20000, NAP_MAX = 1000000, LONG_NAP = 20000000, HEAR = 500000000, SLACK = 1000, SLICE = 100000 }; /* ns */
enum { AWAKE, ABED, DOZING };

struct tt_helper {
    struct tt_comm *comm;
    pthread_t thread;
    int bell;               /* eventfd: rung when there is a new request, or the end */
    _Atomic uint32_t want;  /* callers that wait for the lock */
    _Atomic uint32_t sleep; /* ABED: the bell wakes it; DOZING: the door */
    _Atomic bool stop;
    pthread_mutex_t news_lock;
    pthread_cond_t news;
    uint32_t waiters;  /* under news_lock, as the next */
    uint32_t finished; /* how often something was found finished */
    uint64_t told;     /* programs and operations that were finished then; under the communicator's lock */
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
    struct tt_helper *h = atomic_load_explicit(&c->helper, memory_order_acquire);
    if (!h) {
        pthread_mutex_lock(&c->lock);
        return;
    }
    atomic_fetch_add(&h->want, 1);
    pthread_mutex_lock(&c->lock);
    atomic_fetch_sub(&h->want, 1);
}

static void ring(struct tt_helper *h)
{
    uint64_t one = 1;
    uint32_t sleep = atomic_load(&h->sleep);
    if (sleep == DOZING)
        tt_direct_rouse(h->comm->wire.direct);
    if (sleep == ABED && write(h->bell, &one, sizeof one) < 0)
        assert(errno == EAGAIN); /* it has been rung already */
}

/* Whoever waits for the end of a request without helping hears of what has been finished. With the lock; true when there was something. */
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
        ring(h);
    pthread_mutex_unlock(&c->lock);
}

bool tt_comm_progress(struct tt_comm *c)
{
    bool moved = tt_engine_progress(c->engine);
    if (moved)
        c->moved_ns = tt_now_ns();
    return moved;
}

void tt_comm_nap(struct tt_comm *c, int bell, bool working, unsigned idle)
{
    int fd = working ? c->wire.fd : -1;
    uint64_t ns = !working ? (c->pumped ? HEAR : 0) : fd >= 0 ? LONG_NAP : idle < 6 ? (uint64_t)NAP_MIN << idle : NAP_MAX;
    struct pollfd p[2] = {{.fd = bell, .events = POLLIN}, {.fd = fd, .events = POLLIN}};
    struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    uint64_t rings;
    if (ppoll(p, fd >= 0 ? 2 : 1, ns ? &ts : NULL, NULL) > 0 && (p[0].revents & POLLIN) && read(bell, &rings, sizeof rings) < 0)
        assert(errno == EAGAIN || errno == EINTR);
}

/* Sleeps until there may be something to do. The bell is rung only for who has said that it sleeps. */
static void rest(struct tt_helper *h, bool working, unsigned idle)
{
    atomic_store(&h->sleep, ABED);
    if (!atomic_load(&h->stop) && (working || !atomic_load(&h->comm->started)))
        tt_comm_nap(h->comm, h->bell, working, idle);
    atomic_store(&h->sleep, AWAKE);
}

/* One look, with the lock. */
static bool look(struct tt_helper *h)
{
    bool moved = tt_comm_progress(h->comm);
    tell(h);
    return moved;
}

/* The last look before the door: true when the thread may sleep there. With the lock. */
static bool begin_doze(struct tt_helper *h, uint32_t *ret_ticket)
{
    atomic_store(&h->sleep, DOZING);
    *ret_ticket = tt_direct_doze_begin(h->comm->wire.direct);
    if (!atomic_load(&h->stop) && !look(h))
        return true;
    tt_direct_doze_end(h->comm->wire.direct);
    atomic_store(&h->sleep, AWAKE);
    return false;
}

static void *work(void *arg)
{
    struct tt_helper *h = arg;
    struct tt_comm *c = h->comm;
    unsigned idle = 0;
    pthread_setname_np(pthread_self(), "tutti-comm");
    tt_comm_thread_begin();
    while (!atomic_load(&h->stop)) {
        if (atomic_load(&h->want)) {
            sched_yield();
            continue;
        }
        uint32_t ticket;
        pthread_mutex_lock(&c->lock);
        bool working = atomic_load(&c->started) > 0 && !c->failed, moved = working && look(h);
        bool doze = working && !moved && c->wire.one_host && begin_doze(h, &ticket);
        pthread_mutex_unlock(&c->lock);
        idle = moved ? 0 : idle + 1;
        if (doze) {
            tt_direct_doze(c->wire.direct, ticket, tt_now_ns() + HEAR);
            atomic_store(&h->sleep, AWAKE);
        } else if (!moved && !(working && c->wire.one_host)) {
            rest(h, working, idle);
        }
    }
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
    if (h->bell >= 0)
        close(h->bell);
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
    h->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (h->bell >= 0 && launch(h)) {
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
        ring(h);
}

uint32_t tt_helper_finished(struct tt_comm *c)
{
    struct tt_helper *h = c->helper;
    pthread_mutex_lock(&h->news_lock);
    uint32_t finished = h->finished;
    pthread_mutex_unlock(&h->news_lock);
    return finished;
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
    atomic_store(&h->stop, true);
    ring(h);
    pthread_join(h->thread, NULL);
    c->helper = NULL;
    discard(h);
}
