/* ni_table.c - the schedule table that a network interface works through, derived from a rank's
 * slice. One entry per send (a gather to several receivers in one step is one entry), and a
 * no-op for every step in which others send and this rank does not.
 *
 * MultiTree on a 2x2 mesh, the tree of rank 0: 0 -> 2 and 0 -> 1 in step 0, 2 -> 3 in step 1;
 * reduce-scatter mirrors it. Rank 2's entries:
 *
 *     step 1   Reduce   flow 0   parent 0   children {3}     after 3's part was added
 *     step 3   Gather   flow 0   parent 0   children {3}     after 0 has sent it
 *
 * The children of a reduction are the ranks whose parts of the flow arrived before it. A flow is
 * named by its first chunk. */
#include <stdlib.h>

#include "sim/packet.h"

/* What a rank has received of a chunk: a list per chunk, the latest first. */
struct came {
    uint32_t from, kind, next; /* next: the one received before it, or TT_NET_NONE */
};
struct maker {
    const struct tt_work *w;
    uint32_t rank;
    struct tt_slice slice;
    uint32_t *last; /* per chunk: index of the latest in `came`, or TT_NET_NONE */
    struct tt_vec came;
    struct tt_ni_table *t;
};

static bool note_receive(struct maker *m, const struct tt_op *op)
{
    for (uint32_t i = 0; i < op->nspans; i++) {
        const struct tt_span *s = &m->slice.spans[op->span + i];
        for (uint64_t k = 0; k < (uint64_t)s->len * s->reps; k++) {
            uint32_t chunk = s->first + (uint32_t)(k / s->len) * s->stride + (uint32_t)(k % s->len);
            struct came c = {op->peer, op->kind, m->last[chunk]};
            m->last[chunk] = (uint32_t)m->came.len;
            if (!tt_vec_push(&m->came, &c, 1))
                return false;
        }
    }
    return true;
}

/* The entry's children are the last ones in the array, so that they are consecutive. */
static bool push_child(struct maker *m, struct tt_ni_entry *e, uint32_t rank)
{
    e->nchildren++;
    return tt_vec_push(&m->t->children, &rank, 1) != NULL;
}

/* The receiver will add the part up: it is the parent. */
static bool add_reduce(struct maker *m, const struct tt_op *op, uint32_t flow)
{
    struct tt_ni_entry e = {TT_NI_REDUCE, flow, op->peer, (uint32_t)m->t->children.len, 0,
                            op->step,     1};
    for (uint32_t i = m->last[flow]; i != TT_NET_NONE;) {
        const struct came *c = tt_vec_at(&m->came, i);
        if (c->kind == TT_OP_RECV_REDUCE && !push_child(m, &e, c->from))
            return false;
        i = c->next;
    }
    return tt_vec_push(&m->t->entries, &e, 1) != NULL;
}

/* A further receiver of the same flow in the same step joins the last entry. */
static bool add_gather(struct maker *m, const struct tt_op *op, uint32_t flow)
{
    struct tt_ni_entry *last =
        m->t->entries.len ? tt_vec_at(&m->t->entries, m->t->entries.len - 1) : NULL;
    if (last && last->opcode == TT_NI_GATHER && last->flow == flow && last->step == op->step) {
        last->messages++;
        return push_child(m, last, op->peer);
    }
    const struct came *c = m->last[flow] != TT_NET_NONE ? tt_vec_at(&m->came, m->last[flow]) : NULL;
    struct tt_ni_entry e = {TT_NI_GATHER, flow, TT_NET_NONE, (uint32_t)m->t->children.len, 0,
                            op->step,     1};
    if (c && c->kind == TT_OP_RECV)
        e.parent = c->from;
    return push_child(m, &e, op->peer) && tt_vec_push(&m->t->entries, &e, 1) != NULL;
}

/* Adds no-ops for the steps from *step on, before `until`, in which some rank sends. */
static bool add_noops(struct maker *m, const bool *busy, uint32_t *step, uint32_t until)
{
    for (; *step < until; ++*step) {
        struct tt_ni_entry e = {TT_NI_NOOP, TT_NET_NONE, TT_NET_NONE, 0, 0, *step, 0};
        if (busy[*step] && !tt_vec_push(&m->t->entries, &e, 1))
            return false;
    }
    return true;
}

/* `sent` has the rank's messages in the order of its sends. */
static bool ni_table_fill(struct maker *m, const bool *busy, const uint32_t *sent)
{
    const struct tt_work *w = m->w;
    uint32_t step = 0;
    for (size_t i = 0; i < m->slice.nops; i++) {
        const struct tt_op *op = &m->slice.ops[i];
        if ((op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE) && !note_receive(m, op))
            return false;
        if (op->kind != TT_OP_SEND)
            continue;
        if (!add_noops(m, busy, &step, op->step))
            return false;
        step = op->step + 1;
        uint32_t flow = m->slice.spans[op->span].first;
        const struct tt_work_op *recv = &w->op[w->msg[*sent++].recv];
        if (recv->kind == TT_OP_RECV_REDUCE ? !add_reduce(m, op, flow) : !add_gather(m, op, flow))
            return false;
    }
    return true;
}

tutti_status tt_sim_ni_facts_make(const struct tt_work *w, struct tt_ni_facts *ret,
                                  struct tutti_error *err)
{
    struct tt_ni_facts f = {.busy = tt_zalloc((size_t)w->s->nsteps + 1, sizeof *f.busy),
                            .start = tt_zalloc(w->t->ranks + 1u, sizeof *f.start)};
    if (f.busy && f.start)
        f.sent = tt_sim_net_order(w, false, f.start);
    if (!f.sent) {
        tt_sim_ni_facts_free(&f);
        return tt_fail_memory(err, "schedule tables");
    }
    for (uint32_t m = 0; m < w->nmsgs; m++)
        f.busy[w->msg[m].step] = true;
    *ret = f;
    return TUTTI_OK;
}

void tt_sim_ni_facts_free(struct tt_ni_facts *f)
{
    free(f->busy);
    free(f->sent);
    free(f->start);
}

tutti_status tt_sim_ni_table_make(const struct tt_work *w, uint32_t rank,
                                  const struct tt_ni_facts *f, struct tt_ni_table *ret,
                                  struct tutti_error *err)
{
    struct tt_ni_table t = {.entries = {.elem = sizeof(struct tt_ni_entry)},
                            .children = {.elem = sizeof(uint32_t)}};
    struct maker m = {.w = w,
                      .rank = rank,
                      .slice = tt_sched_slice(w->s, rank),
                      .came = {.elem = sizeof(struct came)},
                      .t = &t};
    m.last = tt_alloc((size_t)w->s->shape.chunks + 1, sizeof *m.last);
    for (uint32_t c = 0; m.last && c < w->s->shape.chunks; c++)
        m.last[c] = TT_NET_NONE;
    bool ok = m.last && ni_table_fill(&m, f->busy, f->sent + f->start[rank]);
    free(m.last);
    tt_vec_free(&m.came);
    if (ok) {
        *ret = t;
        return TUTTI_OK;
    }
    tt_sim_ni_table_free(&t);
    return tt_fail_memory(err, "schedule tables");
}

void tt_sim_ni_table_free(struct tt_ni_table *t)
{
    tt_vec_free(&t->entries);
    tt_vec_free(&t->children);
}
