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
#include <assert.h>

#include "cost/classes.h"
#include "cost/load.h"
#include "cost/pattern.h"

#include <stdlib.h>

enum { MAX_TERMS = 1 << 21 }; /* of one step */

struct symmetric {
    const struct tt_sched *s;
    const struct tt_topo *t;
    const struct tt_bind *bind;
    struct tt_load *l;
    bool ported;
    bool grid; /* shifts are those of a torus */
    /* chunks differ, and being exact is still possible */
    bool patterned;
    uint32_t *first_link;       /* per class: its lowest directed link; UINT32_MAX: no such class */
    uint64_t *class_bytes;      /* per class: the most on one of its links over all steps */
    struct tt_vec *class_terms; /* per class: the sum of its patterns over all steps */
    /* elements of the chunks c with c % m < i, for i = 0 .. m (m: chunks per rank) */
    uint64_t *residue;
    /* terms of the step; resources beyond the load's last are classes of half-duplex links */
    struct tt_vec terms;
    uint32_t *path, path_cap;
};

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

static uint32_t per_rank(const struct symmetric *y)
{
    return y->bind->chunks / y->t->ranks;
}

/* Sums the elements by c % m, as prefix sums: what a chunk contributes to all ranks' copies
 * together. */
static tutti_status sum_residues(struct symmetric *y, struct tutti_error *err)
{
    uint32_t m = per_rank(y);
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
    struct tt_machine m = {
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

/* ---- one operation ---- */

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
    uint32_t m = per_rank(y);
    for (uint32_t i = 0; i < w->n; i++)
        for (uint32_t k = 0; k < w->spans[i].reps; k++) {
            uint64_t a = w->spans[i].first + (uint64_t)k * w->spans[i].stride,
                     b = a + w->spans[i].len;
            sum += (unsigned __int128)(b / m - a / m) * y->bind->count + y->residue[b % m] -
                   y->residue[a % m];
        }
    return sum * y->bind->elem_bytes;
}

/* From here on the upper bounds in l->sum stand. */
static void give_up(struct symmetric *y)
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
    struct tt_places at = {.resource = resource, .first = place, .n = n};
    if (!y->patterned)
        return;
    for (uint32_t i = 0; i < w->n; i++)
        tt_cost_terms_add(y->l->patterns, &y->terms, &at, &w->spans[i], times);
    if (y->terms.len >= MAX_TERMS) {
        tt_cost_terms_join(&y->terms);
        if (y->terms.len >= MAX_TERMS / 2)
            give_up(y);
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

static tutti_status add_op(struct symmetric *y, const struct tt_slice *sl, const struct tt_op *op,
                           struct tutti_error *err)
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
        give_up(y);
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
            tutti_status st = add_op(y, &sl, &sl.ops[i], err);
            if (st)
                return st;
        }
        if (y->patterned)
            settle_step(y);
        tt_cost_load_step(l);
        if (y->patterned && tt_cost_patterns_over(l->patterns))
            give_up(y);
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
