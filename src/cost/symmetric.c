/* symmetric.c - the loads of a symmetric schedule on a rotational network, from rank 0 alone.
 *
 * If every rank does what rank 0 does, shifted, and the shift maps the network onto itself, the
 * links fall into classes that the shift maps into themselves: links of one jump (v -> v+j) of a
 * ring or loop network, or the links to (from) the switch of a star. The link of a class at
 * place v (where it starts; from the switch: where it ends) is used by rank r's copy of a
 * message if rank 0's uses the link at v-r:
 *
 *     ring of 5, every rank sends to its neighbour's neighbour:  0 -> 1 -> 2
 *     two hops of jump +1: every link +1 carries two messages
 *
 * On a torus, where a shift is one along the dimensions (shape.grid), a class is the links of
 * one dimension and direction.
 *
 * With equal chunks all links of a class carry the same, and rank 0's bytes are the answer.
 * Otherwise the copies differ in their chunks: what a class carries is a pattern (pattern.h),
 * whose largest value over all places is the load of the step. Where a pattern is too large to
 * evaluate, every message counts with the bytes of its largest copy, and the cost is an upper
 * bound (exact is false). On a torus unequal chunks always give an upper bound.
 *
 * A half-duplex cable of jump j carries the classes j and -j; the cable of jump N/2 carries its
 * own class in both directions. Cost: O(operations of rank 0 times route length + links +
 * different patterns times ranks). */

#include "cost/symmetric.h"

#include <stdlib.h>

/* Do ports limit rank 0, and thus every rank, more than its links do? */
static bool rank0_ported(const struct tt_topo *t)
{
    double out = 0, in = 0;
    for (uint32_t k = t->g.start[0]; k < t->g.start[1]; k++) {
        const struct tt_link *link = &t->links[t->g.id[k] / 2];
        uint32_t d = t->g.id[k] & 1;
        out += link->bw[link->half ? 0 : d];
        in += link->bw[link->half ? 0 : 1 - d];
    }
    return tt_topo_egress(t, 0) < out || tt_topo_ingress(t, 0) < in;
}

uint32_t tt_cost_chunks_per_rank(const struct symmetric *y)
{
    return y->bind->chunks / y->t->ranks;
}

/* Sums the elements by c % m, as prefix sums: what a chunk contributes to all ranks' copies
 * together. */
static tutti_status sum_residues(struct symmetric *y, struct tutti_error *err)
{
    uint32_t m = tt_cost_chunks_per_rank(y);
    y->residue = tt_zalloc((size_t)m + 1, sizeof *y->residue);
    if (!y->residue)
        return tt_fail_memory(err, "chunk sizes");
    for (uint32_t c = 0; m > 1 && c < y->bind->chunks; c++)
        y->residue[c % m + 1] +=
            tt_sched_bind_offset(y->bind, c + 1) - tt_sched_bind_offset(y->bind, c);
    for (uint32_t i = 1; m > 1 && i < m; i++)
        y->residue[i + 1] += y->residue[i];
    y->residue[m] = y->bind->count;
    return TUTTI_OK;
}

static bool equal_chunks(const struct tt_bind *b)
{
    return b->count % b->quantum == 0 && b->units % b->chunks == 0;
}

/* Exactness needs patterns only if chunks differ; a torus has no patterns. */
static tutti_status open_patterns(struct symmetric *y, struct tutti_error *err)
{
    struct tt_load *l = y->l;
    uint32_t n = tt_machine_count(&l->m);
    y->terms.elem = sizeof(struct tt_term);
    l->cost.exact = true;
    if (equal_chunks(y->bind))
        return TUTTI_OK;
    l->cost.exact = !y->grid;
    if (y->grid)
        return TUTTI_OK;
    y->patterned = true;
    y->class_terms = tt_zalloc((size_t)y->t->ranks + 1, sizeof *y->class_terms);
    l->patterns = tt_zalloc(1, sizeof *l->patterns);
    l->ref = tt_alloc((size_t)n + 1, sizeof *l->ref);
    if (!y->class_terms || !l->patterns || !l->ref)
        return tt_fail_memory(err, "link classes");
    for (uint32_t i = 0; i <= y->t->ranks; i++)
        y->class_terms[i].elem = sizeof(struct tt_term);
    for (uint32_t i = 0; i < n; i++)
        l->ref[i].id = TT_NO_PATTERN;
    return tt_cost_patterns_open(l->patterns, y->bind, y->t->ranks, err);
}

/* Resources: one transfer per class, then egress and ingress; one reduction; sent and received
 * messages; one count per class. Each stands for all ranks. */
static tutti_status open_load(struct symmetric *y, bool keep, struct tutti_error *err)
{
    const struct tt_topo *t = y->t;
    uint32_t classes = t->ranks + 1;
    struct tt_cost_machine m = {
        .ntransfer = classes + 2, .nreduce = 1, .nmessage = 2, .ncount = classes};
    tt_cost_machine_host(&m, t);
    m.rate = tt_alloc((size_t)classes + 2, sizeof *m.rate);
    y->first_link = tt_alloc(classes, sizeof *y->first_link);
    y->class_bytes = tt_zalloc(classes, sizeof *y->class_bytes);
    y->path_cap = tt_topo_max_route(t);
    y->path = tt_alloc((size_t)y->path_cap + 1, sizeof *y->path);
    tutti_status st = TUTTI_OK;
    if (!m.rate || !y->first_link || !y->class_bytes || !y->path)
        st = tt_fail_memory(err, "link classes");
    if (!st)
        st = tt_cost_classes_find(t, y->first_link, m.rate, err);
    if (!st)
        st = sum_residues(y, err);
    if (st) {
        free(m.rate);
        return st;
    }
    y->ported = rank0_ported(t);
    m.rate[classes] = tt_cost_rate(tt_topo_egress(t, 0));
    m.rate[classes + 1] = tt_cost_rate(tt_topo_ingress(t, 0));
    st = tt_cost_load_open(y->l, &m, keep, err);
    return st ? st : open_patterns(y, err);
}

/* ---- one step, all steps ---- */

/* Settles one resource, with n terms: its exact load in the step replaces the upper bound, and
 * its pattern is added to the link class's total. */
static void settle_resource(struct symmetric *y, const struct tt_term *terms, size_t n)
{
    struct tt_load *l = y->l;
    uint32_t resource = terms->resource, count = tt_machine_count(&l->m), classes = y->t->ranks + 1;
    struct tt_pattern_ref ref = tt_cost_patterns_find(l->patterns, terms, n);
    uint64_t most;
    if (ref.id == TT_NO_PATTERN) {
        tt_cost_give_up(y);
        return;
    }
    bool half = resource >= count;
    uint32_t cls = half ? resource - count : resource;
    if (half || (cls < classes && y->first_link[cls] != UINT32_MAX &&
                 !y->t->links[y->first_link[cls] / 2].half))
        tt_cost_terms_merge(l->patterns, &y->class_terms[cls], ref, 1);
    if (half)
        return;
    l->ref[resource] = ref;
    if (tt_cost_patterns_max(l->patterns, ref.id, &most))
        l->sum[resource] = most;
    else
        l->cost.exact = false;
}

/* Replaces the upper bounds of the step by the exact loads. */
static void settle_step(struct symmetric *y)
{
    tt_cost_terms_join(&y->terms);
    const struct tt_term *t = y->terms.data;
    for (size_t i = 0, next; i < y->terms.len && y->patterned; i = next) {
        for (next = i + 1; next < y->terms.len && t[next].resource == t[i].resource;)
            next++;
        settle_resource(y, t + i, next - i);
    }
    y->terms.len = 0;
}

/* The bounds of a step stay valid where patterns are given up in the middle of it. */
static tutti_status symmetric_walk(struct symmetric *y, struct tutti_error *err)
{
    struct tt_slice sl = tt_sched_slice(y->s, 0);
    struct tt_load *l = y->l;
    size_t i = 0;
    for (uint32_t step = 0; step < y->s->nsteps; step++) {
        for (; i < sl.nops && sl.ops[i].step == step; i++) {
            tutti_status st = tt_cost_symmetric_op(y, &sl, &sl.ops[i], err);
            if (st)
                return st;
        }
        if (y->patterned)
            settle_step(y);
        tt_cost_load_step(l);
        if (y->patterned && tt_cost_patterns_over(l->patterns))
            tt_cost_give_up(y);
    }
    return l->patterns && l->patterns->nomem ? tt_fail_memory(err, "loads of the links") : TUTTI_OK;
}

/* ---- the busiest link ---- */

/* Sets, per class, what its busiest link carries, and the pattern of it if its links differ. */
static void find_class_bytes(struct symmetric *y, struct tt_pattern_ref *ref)
{
    for (uint32_t i = 0; i <= y->t->ranks; i++) {
        ref[i].id = TT_NO_PATTERN;
        if (!y->patterned || y->class_bytes[i] == 0)
            continue;
        ref[i] =
            tt_cost_patterns_find(y->l->patterns, y->class_terms[i].data, y->class_terms[i].len);
        if (tt_cost_patterns_max(y->l->patterns, ref[i].id, &y->class_bytes[i]))
            continue;
        ref[i].id = TT_NO_PATTERN;
        y->l->cost.exact = false;
    }
}

/* Does this link carry the most of its class? If that was declined, it is assumed to. */
static bool carries(struct symmetric *y, struct tt_pattern_ref ref, uint32_t d, uint64_t bytes)
{
    uint64_t here;
    if (tt_cost_patterns_at(y->l->patterns, ref, tt_cost_class_place(y->t, d), &here))
        return here == bytes;
    y->l->cost.exact = false;
    return true;
}

/* Finds the directed link with the most bytes per bandwidth; the lowest id among equals. */
static tutti_status find_busiest(struct symmetric *y, struct tutti_error *err)
{
    struct tt_cost *c = &y->l->cost;
    const uint64_t *rate = y->l->m.rate;
    struct tt_pattern_ref *ref = tt_alloc((size_t)y->t->ranks + 1, sizeof *ref);
    uint32_t best = 0;
    if (!ref)
        return tt_fail_memory(err, "busiest link");
    find_class_bytes(y, ref);
    for (uint32_t i = 1; i <= y->t->ranks; i++)
        if (tt_slower(y->class_bytes[i], rate[i], y->class_bytes[best], rate[best]))
            best = i;
    for (uint32_t d = 0; y->class_bytes[best] > 0 && d < 2 * y->t->nlinks; d++) {
        uint32_t cls = tt_cost_class_of(y->t, d);
        uint64_t bytes = y->class_bytes[cls];
        if (tt_slower(y->class_bytes[best], rate[best], bytes, rate[cls]))
            continue;
        if (ref[cls].id != TT_NO_PATTERN && !carries(y, ref[cls], d, bytes))
            continue;
        c->busiest_link = d;
        c->busiest_bytes = bytes;
        break;
    }
    free(ref);
    return TUTTI_OK;
}

static void close_symmetric(struct symmetric *y)
{
    for (uint32_t i = 0; y->class_terms && i <= y->t->ranks; i++)
        tt_vec_free(&y->class_terms[i]);
    free(y->class_terms);
    tt_vec_free(&y->terms);
    free(y->residue);
    free(y->first_link);
    free(y->class_bytes);
    free(y->path);
}

tutti_status tt_cost_load_symmetric(const struct tt_sched *s, const struct tt_topo *t,
                                    const struct tt_bind *b, bool keep, struct tt_load *l,
                                    struct tutti_error *err)
{
    struct symmetric y = {.s = s, .t = t, .bind = b, .l = l, .grid = !t->rotational};
    *l = (struct tt_load){0};
    tutti_status st = open_load(&y, keep, err);
    if (!st)
        st = symmetric_walk(&y, err);
    if (!st)
        st = find_busiest(&y, err);
    l->cost.by_symmetry = true;
    close_symmetric(&y);
    if (st)
        tt_cost_load_close(l);
    return st;
}
