/* stats.c - measures which peers are waited for, which come late and which send slowly.
 *
 * The clock is read only when there is nothing to do. An idle time begins with a poll that finds
 * nothing and ends after the next poll that finds something, whose first event names who was waited
 * for.
 *
 *     poll: nothing    poll: nothing    poll: events of rank 2, rank 1
 *          |---------- idle ------------|      wait_ns of rank 2 += idle
 *
 * `late` is the idle time of a request before anything of it came from a peer: a peer that computes
 * longer. `recv` is the time from the first to the last piece of a request of several pieces: a
 * peer, or a network, that sends slowly. */
#include <assert.h>

#include "exec/exec_int.h"

/* An idle time that is just ending has not been added to idle_ns yet: the peer is noted in `late`
 * and gets it when the poll is over (tt_exec_stats_looked). */
void tt_exec_stats_arrived(struct tt_engine *e, struct tt_xlink *l, uint32_t bytes)
{
    struct tt_peer_stats *s = &l->pe->stats;
    s->bytes_in += bytes;
    if (!l->heard) {
        l->heard = true;
        assert(e->idle_ns >= l->program->idle_ns);
        s->late_ns += e->idle_ns - l->program->idle_ns;
        if (e->idle_since && e->nlate < TT_XEVENTS)
            e->late[e->nlate++] = s;
        l->first_ns = l->in_pieces > 1 ? tt_now_ns() : 0;
        l->first_bytes = bytes;
    } else if (l->in_left == 0) {
        assert(l->in_bytes >= l->first_bytes);
        s->recv_ns += tt_now_ns() - l->first_ns;
        s->recv_bytes += l->in_bytes - l->first_bytes;
    }
}

void tt_exec_engine_record(struct tt_engine *e, struct tt_record *r)
{
    e->record = r;
}

void tt_exec_stats_piece(const struct tt_xlink *l, enum tt_record_kind kind,
                         const struct tt_xnote *n)
{
    const struct tt_context *x = l->program->context;
    tt_record_note(x->engine->record,
                   &(struct tt_record_event){.start_ns = n->start_ns,
                                             .end_ns = tt_now_ns(),
                                             .bytes = n->bytes,
                                             .peer = l->pe->world,
                                             .comm = (uint32_t)x->key,
                                             .seq = l->program->seq,
                                             .message = n->channel << 24 | n->message,
                                             .piece = n->part,
                                             .kind = (uint8_t)kind,
                                             .plan = TT_RECORD_NO_PLAN});
}

/* An idle time that has just ended, with something of the peer. */
static void note_idle(struct tt_engine *e, const struct tt_xpeer *pe, uint64_t ns)
{
    uint64_t now = tt_now_ns();
    tt_record_note(e->record, &(struct tt_record_event){.start_ns = now - ns,
                                                        .end_ns = now,
                                                        .peer = pe->world,
                                                        .comm = (uint32_t)pe->context->key,
                                                        .kind = TT_RECORD_IDLE,
                                                        .plan = TT_RECORD_NO_PLAN});
}

/* Ends the idle time, if one has begun, and returns it; 0: there was none. */
static uint64_t end_idle(struct tt_engine *e)
{
    uint64_t ns = e->idle_since ? tt_now_ns() - e->idle_since : 0;
    e->idle_since = 0;
    e->idle_ns += ns;
    return ns;
}

/* Idle time counts only while a program runs. */
TT_HOT void tt_exec_stats_looked(struct tt_engine *e, size_t nevents)
{
    if (nevents == 0) {
        if (e->idle_since == 0 && e->nrunning)
            e->idle_since = tt_now_ns();
        return;
    }
    if (e->idle_since == 0)
        return;
    uint64_t ns = end_idle(e);
    struct tt_context *x = tt_exec_context_find(e, e->events[0].tag.comm);
    struct tt_xpeer *pe = x ? tt_exec_context_sender(x, e->events[0].peer) : NULL;
    if (pe)
        pe->stats.wait_ns += ns;
    if (pe && e->record)
        note_idle(e, pe, ns);
    while (e->nlate > 0)
        e->late[--e->nlate]->late_ns += ns;
}

/* A box completes by its last rank, which is both waited for and late. Peers were made when the
 * program was prepared; none is made here, since nothing may be allocated while a request runs
 * (box_missing may be this rank itself, when no rank was waited for). */
TT_HOT void tt_exec_stats_boxed(struct tt_context *x)
{
    uint64_t ns = end_idle(x->engine);
    struct tt_xpeer *pe = x->box_missing < x->n ? x->peers[x->box_missing] : NULL;
    if (!pe)
        return;
    pe->stats.wait_ns += ns;
    pe->stats.late_ns += ns;
    if (x->engine->record)
        note_idle(x->engine, pe, ns);
}

/* Idle time before a start is no wait for the program that is started. */
TT_HOT void tt_exec_stats_start(struct tt_engine *e, struct tt_program *p)
{
    end_idle(e);
    p->idle_ns = e->idle_ns;
    p->context->still_ns = 0;
}

void tt_exec_context_stats(const struct tt_context *x, uint32_t rank, struct tt_peer_stats *ret)
{
    assert(rank < x->n);
    *ret = x->peers[rank] ? x->peers[rank]->stats : (struct tt_peer_stats){0};
}
