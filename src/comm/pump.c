/* pump.c - progress by a thread of the caller's own instead of the helper's: the trainer chains reduce-scatter, update and all-gather, so
 * its thread must hear of completions at once, and two threads on one engine would only take turns at its lock. */
#include "comm/parts.h"

enum { LOOKS = 2, LOOK_NS = 50000 };

void tt_comm_pump_begin(struct tt_comm *c)
{
    c->pumped = true;
}

tutti_status tt_comm_pump(struct tt_comm *c, bool *ret_moved)
{
    tt_comm_lock(c);
    tutti_status st = tt_comm_verdict(c);
    *ret_moved = !st && atomic_load(&c->started) && tt_comm_progress(c);
    tt_comm_unlock(c);
    return st;
}

/* Shared memory has no descriptor: in a stream the next piece is microseconds away and a nap would lose it, so the first rests look on. The
 * bell is heard at the next nap. */
void tt_comm_rest(struct tt_comm *c, int bell, unsigned idle)
{
    struct tt_transport *t = c->wire.transport;
    bool working = atomic_load(&c->started) > 0;
    if (working && idle <= LOOKS && tt_transport_fd(t) < 0)
        t->ops->wait(t, tt_now_ns() + LOOK_NS);
    else
        tt_comm_nap(c, bell, working, idle > LOOKS ? idle - LOOKS : 0);
}

uint64_t tt_comm_timeout_ns(const struct tt_comm *c)
{
    return c->world->timeout_ns;
}
