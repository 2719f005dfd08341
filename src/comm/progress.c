/* progress.c - the one way to make progress: rounds, and one description of how to wait between them.
 *
 *     round:  looks in a row found nothing?  --no--> look (the engine does all that has become possible)
 *                      | yes                            ^
 *                      v                                |
 *             spin, yield or sleep, as described -------+
 *
 * Three sorts of threads wait. They differ in their description (struct tt_waiting), which is made here from what is known of the
 * communicator, and in nothing else:
 *
 *                      before it sleeps    sleeps                                          lock
 *     blocking call    spins or yields     in the transport, short naps                    held all the time
 *     helper           -                   at the door (one host), else bell and socket    held while it looks
 *     trainer's thread -                   twice in the transport, then bell and socket    held while it looks
 *
 * Looking pays where the answer is microseconds away. Much data through a descriptor is a long row of waits, each as long as a piece is
 * under way: there a call sleeps at once when cores are shared, and soon when they are not. Nothing is lost, because the kernel receives
 * meanwhile. Where there is neither a descriptor nor a door (both at once, MPI) the naps of threads double up to a millisecond. */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <unistd.h>

#include "comm/parts.h"

enum { SPINS = 2000, YIELDS = 100, MUCH_BYTES = 1 << 20, MUCH_SPINS = 300, MUCH_YIELDS = 1, PUMP_WAITS = 2 };
/* In ns. Sleeps in the transport: of a call with an idle callback, of the trainer's thread. Naps without descriptor. The longest sleep. */
enum { IDLE_WAIT = 200000, PUMP_WAIT = 50000, NAP_MIN = 40000, NAP_MAX = 1000000, HEAR = 500000000 };
enum { AWAKE, AT_BELL, AT_DOOR };

void tt_waiting_call(const struct tt_comm *c, struct tt_engine *e, uint64_t bytes, struct tt_waiting *ret)
{
    bool much = c->wire.fd >= 0 && bytes >= MUCH_BYTES;
    *ret = (struct tt_waiting){.engine = e, .call = true, .yield = c->wire.oversubscribed, .waits = UINT32_MAX, .bell = -1};
    ret->looks = ret->yield ? (much ? MUCH_YIELDS : YIELDS) : (much ? MUCH_SPINS : SPINS);
    ret->wait_ns = c->idle ? IDLE_WAIT : TT_GLANCE_NS;
}

void tt_waiting_thread(const struct tt_comm *c, int bell, struct tt_waiting *ret)
{
    bool fd = c->wire.fd >= 0;
    *ret = (struct tt_waiting){.engine = c->engine, .looks = 1, .wait_ns = PUMP_WAIT, .bell = bell};
    ret->waits = c->pumped && !fd ? PUMP_WAITS : 0;
    ret->door = c->wire.one_host && !c->pumped;
    ret->nap_ns = fd ? TT_GLANCE_NS : NAP_MIN;
    ret->nap_max_ns = fd ? TT_GLANCE_NS : NAP_MAX;
    ret->quiet_ns = c->pumped ? HEAR : 0;
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

/* After a verdict buffers are their owners' again: the transport must not write what still comes for them. */
bool tt_comm_progress(struct tt_comm *c)
{
    bool moved = !c->failed && tt_engine_progress(c->engine);
    if (moved)
        c->moved_ns = tt_now_ns();
    return moved;
}

/* A wait that spins reads the clock when it is about to sleep. One that yields reads it at once: others may have the core for long. */
static void count(struct tt_waiting *w, bool moved)
{
    w->idle = moved ? 0 : w->idle + 1;
    if (w->idle == (w->yield ? 1 : w->looks))
        w->since_ns = tt_now_ns();
}

/* Callers go first: a mutex alone would let the thread that has just given it back take it again and again. */
static void lock_last(struct tt_comm *c)
{
    while (atomic_load(&c->wanted))
        sched_yield();
    pthread_mutex_lock(&c->lock);
}

static void look(struct tt_comm *c, struct tt_waiting *w)
{
    if (w->call) {
        count(w, tt_engine_progress(w->engine));
        return;
    }
    lock_last(c);
    w->failed = c->failed;
    w->working = atomic_load(&c->started) > 0 && !c->failed;
    count(w, w->working && tt_comm_progress(c));
    tt_comm_unlock(c);
}

/* Until a peer rings the door. Peers ring only after this rank has said that it sleeps, so it looks once more after saying so. */
static void sleep_at_door(struct tt_comm *c, struct tt_waiting *w)
{
    lock_last(c);
    atomic_store(&w->sleep, AT_DOOR);
    uint32_t ticket = tt_direct_doze_begin(c->wire.direct);
    bool awake = atomic_load(&w->stop) || tt_comm_progress(c);
    if (awake)
        tt_direct_doze_end(c->wire.direct);
    tt_comm_unlock(c);
    if (!awake)
        tt_direct_doze(c->wire.direct, ticket, tt_now_ns() + HEAR);
    atomic_store(&w->sleep, AWAKE);
}

/* Until the bell rings or the network has news. `before`: rests in a row. */
static void sleep_at_bell(struct tt_comm *c, struct tt_waiting *w, unsigned before)
{
    struct pollfd p[2] = {{.fd = w->bell, .events = POLLIN}, {.fd = w->working ? c->wire.fd : -1, .events = POLLIN}};
    uint64_t nap = before < 16 ? w->nap_ns << before : w->nap_max_ns, rings;
    uint64_t ns = !w->working ? w->quiet_ns : nap < w->nap_max_ns ? nap : w->nap_max_ns;
    struct timespec ts = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    atomic_store(&w->sleep, AT_BELL);
    bool same = w->working || w->failed || !atomic_load(&c->started);
    if (!atomic_load(&w->stop) && same && ppoll(p, 2, ns ? &ts : NULL, NULL) > 0 && (p[0].revents & POLLIN) &&
        read(w->bell, &rings, sizeof rings) < 0)
        assert(errno == EAGAIN || errno == EINTR);
    atomic_store(&w->sleep, AWAKE);
}

/* Before a sleep: is there a verdict, has the deadline passed? The helper does not ask: what fails stays for the next test or wait. */
static tutti_status check(struct tt_comm *c, const struct tt_waiting *w, uint64_t deadline)
{
    if (!w->call && !c->pumped)
        return TUTTI_OK;
    if (!w->call)
        lock_last(c);
    tutti_status st = tt_comm_verdict(c);
    if (!w->call)
        tt_comm_unlock(c);
    return !st && tt_now_ns() >= deadline ? TUTTI_ERR_TIMEOUT : st;
}

static tutti_status rest(struct tt_comm *c, struct tt_waiting *w)
{
    unsigned before = w->idle - w->looks;
    uint64_t deadline = w->call ? tt_comm_deadline(c, 0, w->since_ns) : UINT64_MAX;
    tutti_status st = check(c, w, deadline);
    if (st)
        return st;
    if (w->call && c->idle)
        c->idle(c->idle_ctx);
    uint64_t until = tt_now_ns() + w->wait_ns;
    if ((w->call || w->working) && before < w->waits)
        c->wire.transport->ops->wait(c->wire.transport, until < deadline ? until : deadline);
    else if (w->working && w->door)
        sleep_at_door(c, w);
    else
        sleep_at_bell(c, w, before - (w->working ? w->waits : 0));
    return TUTTI_OK;
}

tutti_status tt_comm_round(struct tt_comm *c, struct tt_waiting *w)
{
    tutti_status st = TUTTI_OK;
    if (w->idle >= w->looks)
        st = rest(c, w);
    else if (w->idle && w->yield)
        sched_yield();
    if (!st)
        look(c, w);
    return st;
}

void tt_waiting_wake(struct tt_comm *c, struct tt_waiting *w)
{
    uint64_t one = 1;
    uint32_t sleep = atomic_load(&w->sleep);
    if (sleep == AT_DOOR)
        tt_direct_rouse(c->wire.direct);
    if (sleep == AT_BELL && write(w->bell, &one, sizeof one) < 0)
        assert(errno == EAGAIN); /* it has been rung already */
}

void tt_comm_pump_begin(struct tt_comm *c)
{
    c->pumped = true;
}

void tt_comm_pump(struct tt_comm *c)
{
    tt_comm_lock(c);
    if (atomic_load(&c->started) && !c->failed)
        tt_comm_progress(c);
    tt_comm_unlock(c);
}
