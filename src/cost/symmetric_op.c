/* symmetric_op.c - what one operation of rank 0 adds to the loads of its step (symmetric.c has the
 * idea): the classes of the links on its way, its ports, its additions. Where chunks differ, a
 * message adds terms of a pattern instead of bytes, until there are too many of them. */
#include <assert.h>

#include "cost/symmetric.h"

enum { MAX_TERMS = 1 << 21 }; /* of one step */

/* The spans that say which chunks an operation moves or writes. */
struct moved {
    const struct tt_span *spans;
    uint32_t n;
    uint64_t most; /* bytes of the largest copy, or more */
};

/* Two ranges that are one around the end of the vector count as one: their bound is tighter. */
static struct moved what_moves(const struct symmetric *y, const struct tt_slice *sl,
                               const struct tt_op *op)
{
    const struct tt_span *sp = sl->spans + op->span;
    uint32_t n = op->kind == TT_OP_REDUCE ? 1 : op->nspans, chunks = y->bind->chunks;
    uint64_t elems = 0;
    bool around = !y->grid && n == 2 && sp[0].reps == 1 && sp[1].reps == 1 &&
                  ((sp[0].first + sp[0].len == chunks && sp[1].first == 0) ||
                   (sp[1].first + sp[1].len == chunks && sp[0].first == 0));
    if (around)
        elems = tt_sched_bind_window_max(y->bind, (uint64_t)sp[0].len + sp[1].len);
    for (uint32_t i = 0; i < n && !around; i++)
        elems += y->grid ? tt_sched_span_chunks(&sp[i]) * tt_sched_bind_window_max(y->bind, 1)
                         : sp[i].reps * tt_sched_bind_window_max(y->bind, sp[i].len);
    if (elems > y->bind->count)
        elems = y->bind->count;
    return (struct moved){.spans = sp, .n = n, .most = elems * y->bind->elem_bytes};
}

/* Bytes of all ranks' copies together: chunk c of rank 0 becomes every chunk with the same
 * remainder modulo m. */
static unsigned __int128 all_bytes(const struct symmetric *y, const struct moved *w)
{
    unsigned __int128 sum = 0;
    uint32_t m = tt_cost_chunks_per_rank(y);
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; k < w->spans[i].reps; k++) {
            uint64_t a = w->spans[i].first + (uint64_t)k * w->spans[i].stride,
                     b = a + w->spans[i].len;
            sum += (unsigned __int128)(b / m - a / m) * y->bind->count + y->residue[b % m] -
                   y->residue[a % m];
        }
    return sum * y->bind->elem_bytes;
}

void tt_cost_give_up(struct symmetric *y)
{
    y->patterned = false;
    y->l->cost.exact = false;
}

/* Adds the operation's chunks to the terms of a resource. Merging limits their number; if that
 * does not help, patterns are given up. */
static void add_terms(struct symmetric *y, uint32_t resource, uint32_t place, uint32_t n,
                      const struct moved *w, uint64_t times)
{
    assert(n > 0 && n <= y->t->ranks && place < y->t->ranks);
    struct tt_pattern_places at = {.resource = resource, .first = place, .n = n};
    if (!y->patterned)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        tt_cost_terms_add(y->l->patterns, &y->terms, &at, &w->spans[i], times);
    if (y->terms.len >= MAX_TERMS) {
        tt_cost_terms_join(&y->terms);
        if (y->terms.len >= MAX_TERMS / 2)
            tt_cost_give_up(y);
    }
}

/* Adds a message on n neighbouring links of a class, the first at `place`. */
static void add_hops(struct symmetric *y, uint32_t cls, uint32_t place, uint32_t n,
                     const struct moved *w)
{
    const struct tt_topo *t = y->t;
    struct tt_load *l = y->l;
    assert(cls <= t->ranks && y->first_link[cls] != UINT32_MAX);
    bool half = t->links[y->first_link[cls] / 2].half,
         twice = half && cls != t->ranks && 2 * (uint64_t)cls == t->ranks;
    uint32_t resource = tt_cost_class_resource(t, cls, half);
    /* A cable of jump j is at the place where j starts, which is where -j ends. */
    uint32_t cable = half && cls < t->ranks && cls != resource
                         ? (uint32_t)(((uint64_t)place + cls) % t->ranks)
                         : place;
    uint64_t bytes;
    l->overflow |= __builtin_mul_overflow(w->most, (uint64_t)n * (twice ? 2 : 1), &bytes);
    tt_cost_load_add(l, resource, bytes);
    tt_cost_load_add(l, tt_machine_count(&l->m) + cls, n);
    y->class_bytes[cls] += w->most * n;
    if (!y->patterned)
        return;
    add_terms(y, resource, cable, n, w, 1);
    if (twice)
        add_terms(y, resource, (uint32_t)(((uint64_t)cable + cls) % t->ranks), n, w, 1);
    if (half)
        add_terms(y, tt_machine_count(&l->m) + cls, place, n, w, 1);
}

/* Adds the route of rank 0's message; consecutive hops of jump +1 or -1 are added together. */
static void add_route(struct symmetric *y, uint32_t n, const struct moved *w)
{
    const struct tt_topo *t = y->t;
    uint32_t cls = 0, first = 0, len = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t c = tt_cost_class_of(t, y->path[i]), at = tt_cost_class_place(t, y->path[i]);
        if (len > 0 && c == cls && c == 1 && (first + (uint64_t)len) % t->ranks == at) {
            len++;
        } else if (len > 0 && c == cls && c == t->ranks - 1 &&
                   (at + UINT64_C(1)) % t->ranks == first) {
            first = at;
            len++;
        } else {
            if (len > 0)
                add_hops(y, cls, first, len, w);
            cls = c;
            first = at;
            len = 1;
        }
    }
    if (len > 0)
        add_hops(y, cls, first, len, w);
}

/* All ranks have such a message: messages and bytes are totals, the rest is per rank. */
static tutti_status add_message(struct symmetric *y, const struct tt_op *op, const struct moved *w,
                                struct tutti_error *err)
{
    const struct tt_topo *t = y->t;
    struct tt_load *l = y->l;
    uint32_t n, ports = t->ranks + 1;
    tutti_status st = tt_topo_route(t, 0, op->peer, y->path, y->path_cap, &n, err);
    if (st)
        return st;
    uint64_t latency = 0;
    for (uint32_t i = 0; i < n; i++)
        latency += t->links[y->path[i] / 2].latency_ps;
    tt_cost_load_latency(l, latency);
    add_route(y, n, w);
    if (y->ported) {
        tt_cost_load_add(l, ports, w->most);
        tt_cost_load_add(l, ports + 1, w->most);
        add_terms(y, ports, 0, 1, w, 1);
        add_terms(y, ports + 1, op->peer, 1, w, 1);
    }
    if (l->m.nmessage)
        tt_cost_load_add(l, tt_machine_message(&l->m), 1);
    l->cost.messages += t->ranks;
    unsigned __int128 sum = l->cost.bytes + all_bytes(y, w);
    l->overflow |= sum > UINT64_MAX;
    l->cost.bytes = (uint64_t)sum;
    return TUTTI_OK;
}

tutti_status tt_cost_symmetric_op(struct symmetric *y, const struct tt_slice *sl,
                                  const struct tt_op *op, struct tutti_error *err)
{
    struct tt_load *l = y->l;
    bool reduces = l->m.nreduce && (op->kind == TT_OP_RECV_REDUCE || op->kind == TT_OP_REDUCE);
    if (op->kind != TT_OP_SEND && !reduces)
        return TUTTI_OK;
    struct moved w = what_moves(y, sl, op);
    if (op->kind == TT_OP_SEND)
        return add_message(y, op, &w, err);
    tt_cost_load_add(l, tt_machine_reduce(&l->m), tt_cost_reduced(op, w.most));
    add_terms(y, tt_machine_reduce(&l->m), 0, 1, &w, tt_cost_reduced(op, 1));
    return TUTTI_OK;
}
