/* trace.c - the nodes and waits of one rank (trace.h).
 *
 * Nodes are added operation by operation, and segment by segment inside an operation. Invariant: a
 * node waits only for nodes that were added before it, so that the order of the list is one that a
 * simulator can run. */
#include "export/trace.h"

#include <assert.h>
#include <stdlib.h>

enum { NODES_MAX = 1 << 27 };

tutti_status tt_export_trace_open(const struct tt_sched *s, struct tt_trace *ret,
                                  struct tutti_error *err)
{
    *ret = (struct tt_trace){.nodes = {.elem = sizeof(struct tt_node)},
                             .waits = {.elem = sizeof(uint64_t)}};
    const uint64_t nodes = s->nops * s->shape.segments;
    if (nodes > NODES_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "%llu operations in %u segments are too many for a trace (at most %d nodes)",
                       (unsigned long long)s->nops, s->shape.segments, NODES_MAX);
    tutti_status st =
        tt_sched_bind_make(&s->shape, s->shape.count, s->shape.dtype, &ret->bind, err);
    if (!st)
        st = tt_export_program_open(s, &ret->program, err);
    if (st)
        tt_export_trace_close(ret);
    return st;
}

void tt_export_trace_close(struct tt_trace *t)
{
    tt_export_program_close(&t->program);
    tt_sched_bind_free(&t->bind);
    tt_vec_free(&t->nodes);
    tt_vec_free(&t->waits);
    free(t->done);
    free(t->before);
    *t = (struct tt_trace){0};
}

/* Bytes of segment k: whole elements, parts that differ by at most one element. */
static uint64_t segment_bytes(const struct tt_trace *t, const struct tt_op *op, uint32_t k)
{
    const uint64_t element = t->bind.elem_bytes, segments = t->program.sched->shape.segments;
    const uint64_t elements = tt_sched_bind_op_bytes(&t->bind, &t->program.slice, op) / element;
    return (elements * (k + 1) / segments - elements * k / segments) * element;
}

/* A message of the present rank, ordered by connection and direction, then as in the program. */
struct message {
    uint32_t peer, channel, sends, op;
};

static int compare_messages(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    const uint32_t kx[] = {x->peer, x->channel, x->sends, x->op},
                   ky[] = {y->peer, y->channel, y->sends, y->op};
    return tt_export_compare(kx, ky, countof(kx));
}

/* Fills before[]: the last message before each message in the same direction on its connection;
 * UINT32_MAX: none. */
static tutti_status find_before(struct tt_trace *t, struct tutti_error *err)
{
    const struct tt_slice *sl = &t->program.slice;
    struct message *all = tt_alloc((size_t)sl->nops + 1, sizeof *all);
    size_t n = 0;
    free(t->before);
    t->before = tt_alloc((size_t)sl->nops + 1, sizeof *t->before);
    if (!all || !t->before) {
        free(all);
        return tt_fail_memory(err, "connections");
    }
    for (uint32_t i = 0; i < sl->nops; i++) {
        const struct tt_op *op = &sl->ops[i];
        t->before[i] = UINT32_MAX;
        if (op->kind != TT_OP_COPY && op->kind != TT_OP_REDUCE)
            all[n++] = (struct message){op->peer, op->channel, op->kind == TT_OP_SEND, i};
    }
    qsort(all, n, sizeof *all, compare_messages);
    for (size_t k = 1; k < n; k++)
        if (all[k].peer == all[k - 1].peer && all[k].channel == all[k - 1].channel &&
            all[k].sends == all[k - 1].sends)
            t->before[all[k].op] = all[k - 1].op;
    free(all);
    return TUTTI_OK;
}

/* Waits of a node are consecutive in t->waits: they are pushed before the next node begins. */
static bool push_wait(struct tt_trace *t, struct tt_node *n, uint64_t node)
{
    n->nwaits++;
    return tt_vec_push(&t->waits, &node, 1);
}

/* A tag that both ends compute alike: the message's number at its sender, times segments, plus
 * the segment. */
static uint64_t tag_of(const struct tt_trace *t, uint32_t i, uint32_t segment)
{
    const struct tt_sched *s = t->program.sched;
    const struct tt_op *op = &t->program.slice.ops[i];
    const uint64_t own = tt_export_number(s, t->program.rank, i),
                   sent = op->kind == TT_OP_SEND ? own : t->program.partner[own];
    const uint32_t sender = op->kind == TT_OP_SEND ? t->program.rank : op->peer;
    return (sent - tt_export_number(s, sender, 0)) * s->shape.segments + segment;
}

/* Adds the node of segment k of operation i, and for a receive that reduces the node of the
 * reduction. `done` then names the node after which the segment is done. */
static tutti_status add_nodes(struct tt_trace *t, uint32_t i, uint32_t k, size_t first_edge,
                              struct tutti_error *err)
{
    const struct tt_op *op = &t->program.slice.ops[i];
    const uint32_t segments = t->program.sched->shape.segments;
    const bool message = op->kind != TT_OP_COPY && op->kind != TT_OP_REDUCE;
    struct tt_node n = {.kind = !message                 ? TT_NODE_COMPUTE
                                : op->kind == TT_OP_SEND ? TT_NODE_SEND
                                                         : TT_NODE_RECV,
                        .peer = op->peer,
                        .bytes = segment_bytes(t, op, k),
                        .tag = message ? tag_of(t, i, k) : 0,
                        .op = i,
                        .segment = k,
                        .wait = t->waits.len};
    bool ok = true;
    for (size_t e = first_edge; e < t->program.edges.len; e++) {
        const struct tt_edge *edge = tt_vec_at(&t->program.edges, e);
        if (edge->to != i)
            break;
        ok = ok && push_wait(t, &n, t->done[(uint64_t)edge->from * segments + k]);
    }
    /* Messages of a connection keep their order: a segment waits for the one before it, the
     * first one for the last segment of the message before. */
    const uint32_t before = t->before[i];
    if (k > 0)
        ok = ok && push_wait(t, &n, t->done[(uint64_t)i * segments + k - 1]);
    else if (before != UINT32_MAX)
        ok = ok && push_wait(t, &n, t->done[(uint64_t)before * segments + segments - 1]);
    ok = ok && tt_vec_push(&t->nodes, &n, 1);
    if (ok && op->kind == TT_OP_RECV_REDUCE) {
        struct tt_node sum = {
            .kind = TT_NODE_COMPUTE, .bytes = n.bytes, .op = i, .segment = k, .wait = t->waits.len};
        ok = push_wait(t, &sum, t->nodes.len - 1) && tt_vec_push(&t->nodes, &sum, 1);
    }
    t->done[(uint64_t)i * segments + k] = t->nodes.len - 1;
    return ok ? TUTTI_OK : tt_fail_memory(err, "nodes");
}

tutti_status tt_export_trace_rank(struct tt_trace *t, uint32_t rank, struct tutti_error *err)
{
    const uint32_t segments = t->program.sched->shape.segments;
    tutti_status st = tt_export_program_rank(&t->program, rank, err);
    if (st)
        return st;
    t->nodes.len = t->waits.len = 0;
    free(t->done);
    t->done = tt_alloc(t->program.slice.nops * segments + 1, sizeof *t->done);
    if (!t->done)
        return tt_fail_memory(err, "nodes");
    st = find_before(t, err);
    size_t e = 0;
    for (uint32_t i = 0; !st && i < t->program.slice.nops; i++) {
        for (; e < t->program.edges.len &&
               ((struct tt_edge *)tt_vec_at(&t->program.edges, e))->to < i;
             e++)
            ;
        for (uint32_t k = 0; !st && k < segments; k++)
            st = add_nodes(t, i, k, e, err);
    }
    return st;
}
