/* progress.c - the one way to make progress: rounds, and one description of how to wait between
 * them.
 *
 *     round:  polls in a row found nothing?  --no--> poll (the engine does all that is possible)
 *                      | yes                            ^
 *                      v                                |
 *             spin, yield or sleep, as described -------+
 *
 * Four kinds of threads wait. They differ only in their description (struct tt_waiting), which is
 * made here from what is known about the communicator:
 *
 *                      before it sleeps   sleeps                                   lock is held
 *     blocking call    spins or yields    in the transport, briefly                all the time
 *       with a twin    the same           at the door (*), else bell and socket    while it polls
 *     helper           -                  at the door (*), else bell and socket    while it polls
 *     trainer's thread yields a moment    at bell and socket                       while it polls
 *                                         (*) if all ranks share one host
 *
 * Polling pays where the answer is microseconds away. A large transfer through a descriptor is a
 * long series of waits, each as long as one piece takes: there a call sleeps at once if cores are
 * shared, and soon if they are not. Nothing is lost, because the kernel receives meanwhile. Where
 * there is neither a descriptor nor a door (both kinds of links at once, MPI, a door that is
 * taken), sleeps double up to a millisecond.
 *
 * Progress for others is work too, and keeps a thread awake. Deadlines, however, count what moves
 * for the own communicator, and deadlines of messages what moves for messages: a message that never
 * comes is overdue even while a collective goes on. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "comm/comm_int.h"

/* Numbers of polls: before sleeping with a dedicated core or a shared one, the same for large
 * transfers through a descriptor, and between two checks of verdict and deadline. */
enum {
    SPINS = 2000,
    YIELDS = 100,
    MUCH_BYTES = 1 << 20,
    MUCH_SPINS = 300,
    MUCH_YIELDS = 1,
    STILL = 64
};
/* In ns. IDLE_WAIT: a call's longest sleep if it has an idle callback. PUMP_AWAKE, CALL_AWAKE,
 * CALL_AWAKE_OVER: how long threads without a descriptor yield before they sleep: the trainer's
 * thread; a call with a twin, as long as it would in the transport, and less on shared cores.
 * NAP_MIN, NAP_MAX: sleeps without a descriptor. HEAR: the longest sleep. */
enum { IDLE_WAIT = 200000, PUMP_AWAKE = 100000, CALL_AWAKE = 1000000, CALL_AWAKE_OVER = 200000 };
enum { NAP_MIN = 40000, NAP_MAX = 1000000, HEAR = 500000000 };

static void describe_naps(const struct tt_comm *c, struct tt_waiting *w)
{
    bool fd = c->wire.fd >= 0;
    w->nap_ns = fd ? TT_GLANCE_NS : NAP_MIN;
    w->nap_max_ns = fd ? TT_GLANCE_NS : NAP_MAX;
}

TT_HOT void tt_comm_waiting_call(const struct tt_comm *c, uint64_t bytes, struct tt_waiting *ret)
{
    bool fd = c->wire.fd >= 0, much = fd && bytes >= MUCH_BYTES;
    *ret = (struct tt_waiting){.call = true,
                               .yield = c->wire.oversubscribed,
                               .door = c->wire.one_host,
                               .bell = -1,
                               .working = true};
    ret->looks = ret->yield ? (much ? MUCH_YIELDS : YIELDS) : (much ? MUCH_SPINS : SPINS);
    ret->wait_ns = c->idle ? IDLE_WAIT : TT_GLANCE_NS;
    describe_naps(c, ret);
    assert(c->shared->users > 0);
    ret->beside = c->shared->users > 1;
    if (ret->beside && !fd)
        ret->awake_ns = ret->yield ? CALL_AWAKE_OVER : CALL_AWAKE;
}

void tt_comm_waiting_thread(const struct tt_comm *c, int bell, struct tt_waiting *ret)
{
    *ret = (struct tt_waiting){.looks = 1, .bell = bell, .beside = c->pumped};
    describe_naps(c, ret);
    ret->awake_ns = c->pumped && c->wire.fd < 0 ? PUMP_AWAKE : 0;
    ret->door = c->wire.one_host && !c->pumped;
    ret->quiet_ns = c->pumped ? HEAR : 0;
}

void tt_comm_waiting_begin(struct tt_comm *c, int bell, struct tt_waiting *w)
{
    tt_comm_waiting_thread(c, bell, w);
    tt_comm_enter(c);
    tt_comm_sleepers_add(c, w);
    tt_comm_unlock(c);
}

void tt_comm_waiting_end(struct tt_comm *c, struct tt_waiting *w)
{
    tt_comm_enter(c);
    tt_comm_sleepers_remove(c, w);
    tt_comm_unlock(c);
}

uint64_t tt_comm_deadline(const struct tt_comm *c, uint64_t asked_ns, uint64_t moved_ns)
{
    uint64_t since = asked_ns > moved_ns ? asked_ns : moved_ns, timeout = c->world->timeout_ns;
    return timeout < UINT64_MAX - since ? since + timeout : UINT64_MAX;
}

void tt_comm_on_idle(struct tt_comm *c, void (*idle)(void *ctx), void *ctx)
{
    c->idle = idle;
    c->idle_ctx = ctx;
}

/* After a verdict the buffers belong to their owners again: the transport must not write to them,
 * so the engine is not polled. */
bool tt_comm_progress(struct tt_comm *c)
{
    bool moved = !c->failed && tt_exec_engine_progress(c->engine);
    uint64_t at = tt_exec_context_moved(c->context);
    if (at != c->moved)
        c->moved_ns = tt_now_ns();
    c->moved = at;
    return moved;
}

/* Counts a poll. A wait that spins reads the clock only when it is about to sleep. One that yields
 * reads it at once, because other threads may have the core for long. */
TT_HOT void tt_comm_waiting_looked(const struct tt_comm *c, struct tt_waiting *w, bool moved)
{
    uint64_t at =
        w->message ? tt_exec_context_mailed(c->context) : tt_exec_context_moved(c->context);
    w->idle = moved ? 0 : w->idle + 1;
    w->naps = moved ? 0 : w->naps;
    w->still = at == w->moved ? w->still + 1 : 0;
    w->since_ns = w->still ? w->since_ns : 0;
    w->moved = at;
    uint32_t few = w->yield ? 1 : w->looks;
    if (w->idle == few || (!w->since_ns && (w->idle > few || w->still >= STILL))) {
        uint64_t now = tt_now_ns();
        w->idle_ns = w->idle == few ? now : w->idle_ns;
        w->since_ns = w->since_ns ? w->since_ns : now;
    }
}

/* The trainer's thread takes turns with calls. The helper comes after them, because they do its
 * work. */
static void progress_enter(struct tt_comm *c)
{
    if (!c->pumped) {
        tt_comm_enter_last(c);
        return;
    }
    if (atomic_load(&c->shared->wanted))
        sched_yield();
    tt_comm_enter(c);
}

/* A call releases the lock while it yields if a twin's thread may want it: the thread that gets the
 * core may be that one. */
static void progress_yield(struct tt_comm *c, const struct tt_waiting *w)
{
    bool apart = w->call && c->shared->users > 1;
    if (apart)
        tt_comm_apart_begin(c, w->collective);
    sched_yield();
    if (apart)
        tt_comm_apart_end(c, w->collective);
}

/* A call holds the lock already; a thread takes it for this poll. */
static void progress_look(struct tt_comm *c, struct tt_waiting *w)
{
    if (w->call) {
        tt_comm_waiting_looked(c, w, tt_exec_engine_progress(c->engine));
        return;
    }
    progress_enter(c);
    w->failed = c->failed;
    w->working = atomic_load(&c->started) > 0 && !c->failed;
    tt_comm_waiting_looked(c, w, w->working && tt_comm_progress(c));
    tt_comm_sleepers_tell(c);
    w->heard = tt_comm_news_told(c);
    tt_comm_unlock(c);
}

/* May it sleep, because nothing was finished since its last poll? Call after w->sleep is set: a
 * thread that finishes something stores `told` first and then reads `sleep`, so one of the two sees
 * the other (both are sequentially consistent). */
static bool nothing_new(struct tt_comm *c, const struct tt_waiting *w)
{
    return !atomic_load(&w->stop) && tt_comm_news_told(c) == w->heard;
}

/* Sleeps until a peer rings the door. Enters with the lock held and releases it. Peers ring only
 * after this rank has announced that it sleeps, so it polls once more after the announcement. */
static void sleep_at_door(struct tt_comm *c, struct tt_waiting *w, uint64_t ns)
{
    assert(c->wire.direct && atomic_load(&c->shared->dozing));
    atomic_store(&w->sleep, TT_AT_DOOR);
    uint32_t ticket = tt_direct_doze_begin(c->wire.direct);
    bool awake = tt_comm_progress(c);
    tt_comm_apart_begin(c, w->collective);
    if (awake || !nothing_new(c, w))
        tt_direct_doze_end(c->wire.direct);
    else
        tt_direct_doze(c->wire.direct, ticket, tt_now_ns() + ns);
    atomic_store(&w->sleep, TT_AWAKE);
    atomic_store(&c->shared->dozing, false);
}

/* Sleeps until the bell rings or the socket is readable; without the lock. */
static void sleep_at_bell(struct tt_comm *c, struct tt_waiting *w)
{
    struct pollfd p[2] = {{.fd = w->bell, .events = POLLIN},
                          {.fd = w->working ? c->wire.fd : -1, .events = POLLIN}};
    uint64_t nap = w->naps < 16 ? w->nap_ns << w->naps : w->nap_max_ns, rings;
    uint64_t ns = !w->working ? w->quiet_ns : nap < w->nap_max_ns ? nap : w->nap_max_ns;
    ns = w->call && ns > w->wait_ns ? w->wait_ns : ns;
    /* Without a bell no thread can end the sleep: keep it short. */
    ns = w->bell < 0 && ns > NAP_MAX ? NAP_MAX : ns;
    struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    atomic_store(&w->sleep, TT_AT_BELL);
    /* A request may have been started since the last poll. */
    bool same = w->working || w->failed || !atomic_load(&c->started);
    w->naps += w->working;
    if (nothing_new(c, w) && same && ppoll(p, 2, ns ? &ts : NULL, NULL) > 0 &&
        (p[0].revents & POLLIN) && read(w->bell, &rings, sizeof rings) < 0)
        assert(errno == EAGAIN || errno == EINTR);
    atomic_store(&w->sleep, TT_AWAKE);
}

/* The deadline of a call; threads have none. */
static uint64_t deadline_of(const struct tt_comm *c, const struct tt_waiting *w)
{
    return w->call && w->since_ns ? tt_comm_deadline(c, 0, w->since_ns) : UINT64_MAX;
}

/* Before a sleep: is there a verdict, has the deadline passed? The helper does not check: a failure
 * stays for the next test or wait. */
static tutti_status progress_check(struct tt_comm *c, const struct tt_waiting *w)
{
    if (!w->call && !c->pumped)
        return TUTTI_OK;
    if (!w->call)
        tt_comm_enter(c);
    tutti_status st = tt_comm_verdict(c);
    if (!w->call)
        tt_comm_unlock(c);
    return !st && tt_now_ns() >= deadline_of(c, w) ? TUTTI_ERR_TIMEOUT : st;
}

/* For a thread, which does not hold the lock. Only one thread can sleep at the door; the others use
 * bells. */
static void sleep_thread(struct tt_comm *c, struct tt_waiting *w)
{
    if (w->working && w->door && !atomic_exchange(&c->shared->dozing, true)) {
        progress_enter(c);
        sleep_at_door(c, w, HEAR);
    } else {
        sleep_at_bell(c, w);
    }
}

/* For a call with a twin, whose threads must be able to start requests meanwhile and may finish
 * this one. */
static void sleep_apart(struct tt_comm *c, struct tt_waiting *w)
{
    assert(w->call && c->shared->users > 1);
    tt_comm_sleepers_tell(c);
    tt_comm_sleepers_add(c, w);
    w->bell = tt_comm_bell_take(c->shared);
    w->heard = tt_comm_news_told(c);
    if (w->door && !atomic_exchange(&c->shared->dozing, true)) {
        sleep_at_door(c, w, w->wait_ns);
    } else {
        tt_comm_apart_begin(c, w->collective);
        sleep_at_bell(c, w);
    }
    tt_comm_apart_end(c, w->collective);
    tt_comm_sleepers_remove(c, w);
    tt_comm_bell_give(c->shared, w->bell);
}

/* The polls have found nothing for long enough: check, call the idle callback, sleep. */
static tutti_status progress_rest(struct tt_comm *c, struct tt_waiting *w)
{
    uint64_t deadline = deadline_of(c, w), until;
    tutti_status st = progress_check(c, w);
    if (st)
        return st;
    if (w->call && c->idle)
        c->idle(c->idle_ctx);
    if (!w->call) {
        sleep_thread(c, w);
    } else if (c->shared->users > 1) {
        sleep_apart(c, w);
    } else {
        until = tt_now_ns() + w->wait_ns;
        c->wire.transport->ops->wait(c->wire.transport, until < deadline ? until : deadline);
    }
    return TUTTI_OK;
}

/* Has it polled often and long enough? */
static bool tired(const struct tt_waiting *w)
{
    return w->idle >= w->looks &&
           (!w->awake_ns || !w->working || tt_now_ns() - w->idle_ns >= w->awake_ns);
}

TT_HOT tutti_status tt_comm_round(struct tt_comm *c, struct tt_waiting *w)
{
    tutti_status st = TUTTI_OK;
    if (tired(w))
        st = progress_rest(c, w);
    else if (w->beside && w->still && w->still % STILL == 0) /* work of others keeps it awake */
        st = progress_check(c, w);
    else if (w->idle && (w->yield || w->idle >= w->looks))
        progress_yield(c, w);
    if (!st)
        progress_look(c, w);
    return st;
}

/* `sleep` was stored before the sleeper checked for news; see nothing_new. */
void tt_comm_waiting_wake(struct tt_comm *c, struct tt_waiting *w)
{
    uint64_t one = 1;
    uint32_t sleep = atomic_load(&w->sleep);
    if (sleep == TT_AT_DOOR)
        tt_direct_rouse(c->wire.direct);
    if (sleep == TT_AT_BELL && w->bell >= 0 && write(w->bell, &one, sizeof one) < 0)
        assert(errno == EAGAIN); /* its counter is full: it has been rung */
}

void tt_comm_pump_begin(struct tt_comm *c)
{
    c->pumped = true;
}

/* Never blocks: if another thread holds the lock, that thread makes progress. */
void tt_comm_pump(struct tt_comm *c)
{
    if (!tt_comm_enter_now(c))
        return;
    if (atomic_load(&c->started) && !c->failed)
        tt_comm_progress(c);
    tt_comm_unlock(c);
}
