/* symmetric.c - the loads of a symmetric schedule on a rotational network, from rank 0 alone.
 *
 * When every rank does what rank 0 does, shifted, and the shift maps the network onto itself, the links fall into classes that the shift
 * maps into each other: links of one jump (v -> v+j) of a ring or loop network, or the links to (from) the switch of a star. Rank r's copy
 * of a message loads the copy of each of its links, so every link of a class carries the sum over the hops of rank 0's messages in this
 * class:
 *
 *   ring of 5, every rank sends to its neighbour's neighbour:  0 -> 1 -> 2   two hops of jump +1: every link +1 carries two messages
 *
 * A half-duplex cable of jump j carries the classes j and -j; the cable of jump N/2 carries its own class twice. Messages count with the
 * bytes of the largest among the ranks. Cost: O(operations of rank 0 times route length + links), for any number of ranks. */
#include "cost/load.h"

#include <stdlib.h>

struct symmetric {
    const struct tt_sched *s;
    const struct tt_topo *t;
    const struct tt_bind *bind;
    struct tt_load *l;
    bool ported;
    uint32_t *first_link;  /* per class: its lowest directed link; UINT32_MAX: no such class */
    uint64_t *class_bytes; /* per class, on one of its links, all steps */
    uint32_t *path, path_cap;
};

/* Classes: 0 to the switch, j a jump of j ranks, N from the switch. UINT32_MAX: between switches, which no rotational network has. */
static uint32_t class_of(const struct tt_topo *t, uint32_t d)
{
    uint32_t from = d & 1 ? t->links[d / 2].b : t->links[d / 2].a, to = d & 1 ? t->links[d / 2].a : t->links[d / 2].b, n = t->ranks;
    if (from < n && to < n)
        return to >= from ? to - from : to + n - from;
    return from < n ? 0 : to < n ? n : UINT32_MAX;
}

/* The resource of a class: half-duplex cables are one for both directions. */
static uint32_t resource_of(const struct tt_topo *t, uint32_t cls, bool half)
{
    if (!half)
        return cls;
    if (cls == t->ranks)
        return 0;
    return cls && cls > t->ranks - cls ? t->ranks - cls : cls;
}

/* Every rank must have exactly one link of each class it has, or "the link of this class" means nothing. */
static tutti_status find_classes(struct symmetric *y, struct tt_machine *m, struct tutti_error *err)
{
    const struct tt_topo *t = y->t;
    for (uint32_t i = 0; i <= t->ranks; i++) {
        y->first_link[i] = UINT32_MAX;
        m->rate[i] = 1;
    }
    for (uint32_t d = 2 * t->nlinks; d-- > 0;) {
        uint32_t cls = class_of(t, d);
        if (cls == UINT32_MAX)
            return tt_fail(err, TUTTI_ERR_MISMATCH, "cost by symmetry: links between switches");
        const struct tt_link *link = &t->links[d / 2];
        y->first_link[cls] = d;
        m->rate[cls] = tt_cost_rate(link->bw[link->half ? 0 : d & 1]);
        y->class_bytes[cls]++; /* the number of its links, for now */
    }
    for (uint32_t i = 0; i <= t->ranks; i++) {
        if (y->class_bytes[i] != 0 && y->class_bytes[i] != t->ranks)
            return tt_fail(err, TUTTI_ERR_MISMATCH, "cost by symmetry: parallel links");
        y->class_bytes[i] = 0;
    }
    return TUTTI_OK;
}

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

static tutti_status open_load(struct symmetric *y, bool keep, struct tutti_error *err)
{
    const struct tt_topo *t = y->t;
    uint32_t classes = t->ranks + 1;
    struct tt_machine m = {.ntransfer = classes + 2, .nreduce = 1, .nmessage = 2, .ncount = classes};
    tt_machine_host(&m, t);
    m.rate = tt_alloc((size_t)classes + 2, sizeof(*m.rate));
    y->first_link = tt_alloc(classes, sizeof(*y->first_link));
    y->class_bytes = tt_zalloc(classes, sizeof(*y->class_bytes));
    y->path_cap = tt_topo_max_route(t);
    y->path = tt_alloc((size_t)y->path_cap + 1, sizeof(*y->path));
    tutti_status st = TUTTI_OK;
    if (!m.rate || !y->first_link || !y->class_bytes || !y->path)
        st = tt_fail_memory(err, "link classes");
    if (!st)
        st = find_classes(y, &m, err);
    if (st) {
        free(m.rate);
        return st;
    }
    y->ported = rank0_ported(t);
    m.rate[classes] = tt_cost_rate(tt_topo_egress(t, 0));
    m.rate[classes + 1] = tt_cost_rate(tt_topo_ingress(t, 0));
    return tt_load_open(y->l, &m, keep, err);
}

/* The most bytes this operation has at any rank. Two ranges that are one around the end of the vector count as one. */
static uint64_t largest_bytes(const struct symmetric *y, const struct tt_slice *sl, const struct tt_op *op)
{
    const struct tt_span *sp = sl->spans + op->span;
    uint32_t n = op->kind == TT_OP_REDUCE ? 1 : op->nspans, chunks = y->bind->chunks;
    uint64_t elems = 0;
    bool around = n == 2 && sp[0].reps == 1 && sp[1].reps == 1 &&
                  ((sp[0].first + sp[0].len == chunks && sp[1].first == 0) || (sp[1].first + sp[1].len == chunks && sp[0].first == 0));
    if (around)
        return tt_bind_window_max(y->bind, (uint64_t)sp[0].len + sp[1].len) * y->bind->elem_bytes;
    for (uint32_t i = 0; i < n; i++)
        elems += sp[i].reps * tt_bind_window_max(y->bind, sp[i].len);
    if (elems > y->bind->count)
        elems = y->bind->count;
    return elems * y->bind->elem_bytes;
}

static tutti_status add_message(struct symmetric *y, const struct tt_op *op, uint64_t bytes, struct tutti_error *err)
{
    const struct tt_topo *t = y->t;
    struct tt_load *l = y->l;
    uint32_t n, classes = t->ranks + 1;
    tutti_status st = tt_topo_route(t, 0, op->peer, y->path, y->path_cap, &n, err);
    if (st)
        return st;
    uint64_t latency = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tt_link *link = &t->links[y->path[i] / 2];
        uint32_t cls = class_of(t, y->path[i]);
        bool twice = link->half && cls != t->ranks && 2 * (uint64_t)cls == t->ranks;
        latency += link->latency_ps;
        tt_load_add(l, resource_of(t, cls, link->half), twice ? 2 * bytes : bytes);
        tt_load_add(l, tt_machine_count(&l->m) + cls, 1);
        y->class_bytes[cls] += bytes;
    }
    tt_load_latency(l, latency);
    if (y->ported) {
        tt_load_add(l, classes, bytes);
        tt_load_add(l, classes + 1, bytes);
    }
    if (l->m.nmessage)
        tt_load_add(l, tt_machine_message(&l->m), 1);
    l->cost.messages += t->ranks;
    uint64_t all;
    l->overflow |= __builtin_mul_overflow(bytes, (uint64_t)t->ranks, &all) || __builtin_add_overflow(l->cost.bytes, all, &l->cost.bytes);
    return TUTTI_OK;
}

static tutti_status walk(struct symmetric *y, struct tutti_error *err)
{
    struct tt_slice sl = tt_sched_slice(y->s, 0);
    struct tt_load *l = y->l;
    size_t i = 0;
    for (uint32_t step = 0; step < y->s->nsteps; step++) {
        for (; i < sl.nops && sl.ops[i].step == step; i++) {
            const struct tt_op *op = &sl.ops[i];
            tutti_status st = TUTTI_OK;
            if (op->kind == TT_OP_SEND)
                st = add_message(y, op, largest_bytes(y, &sl, op), err);
            else if (l->m.nreduce && op->kind != TT_OP_RECV && op->kind != TT_OP_COPY)
                tt_load_add(l, tt_machine_reduce(&l->m), tt_cost_reduced(op, largest_bytes(y, &sl, op)));
            if (st)
                return st;
        }
        tt_load_step(l);
    }
    return TUTTI_OK;
}

static void find_busiest(struct symmetric *y)
{
    struct tt_cost *c = &y->l->cost;
    uint64_t rate = 1;
    for (uint32_t i = 0; i <= y->t->ranks; i++) {
        uint64_t bytes = y->class_bytes[i], r = y->l->m.rate[i];
        bool slower = tt_slower(bytes, r, c->busiest_bytes, rate);
        bool equal = bytes > 0 && !slower && !tt_slower(c->busiest_bytes, rate, bytes, r);
        if (slower || (equal && y->first_link[i] < c->busiest_link)) {
            c->busiest_link = y->first_link[i];
            c->busiest_bytes = bytes;
            rate = r;
        }
    }
}

tutti_status tt_cost_load_symmetric(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b, bool keep,
                                    struct tt_load *l, struct tutti_error *err)
{
    struct symmetric y = {.s = s, .t = t, .bind = b, .l = l};
    *l = (struct tt_load){0};
    tutti_status st = open_load(&y, keep, err);
    if (!st)
        st = walk(&y, err);
    if (!st) {
        find_busiest(&y);
        l->cost.by_symmetry = true;
    }
    free(y.first_link);
    free(y.class_bytes);
    free(y.path);
    if (st)
        tt_load_close(l);
    return st;
}
