/* full.c - the loads of a schedule that holds all ranks.
 *
 * Ranks list their operations by step, so the steps are walked with a calendar: each step has a
 * list of the ranks whose next operation is in it. A rank is taken off the list, its operations
 * of the step are added up, and it is put into the list of its next operation's step.
 *
 *     step      0           1           2
 *     head -> rank 2      (empty)     rank 1        next[2] = 0: rank 0 is also due in step 0
 *             -> rank 0
 *
 * This costs O(operations + ranks + steps) whatever the schedule looks like (a chain of 65,536
 * ranks has as many steps). Invariant: before step s every rank with operations left is in
 * exactly one list, of a step >= s. */
#include "cost/load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { FETCHED = 3 }; /* cache lines to prefetch: a rank has few operations in a step */

struct full {
    const struct tt_sched *s;
    const struct tt_topo *t;
    const struct tt_bind *bind;
    struct tt_load *l;
    bool ported;           /* ports are declared and may limit what links do not */
    bool routed;           /* the schedule's own routes are for this topology */
    uint32_t *head, *next; /* calendar: first rank of each step, next rank of the same step */
    uint64_t *cursor;      /* per rank: number of operations done */
    uint64_t *link_bytes;  /* per directed link, all steps */
    uint64_t *pace;        /* rate of each rank's fastest link, outgoing then incoming */
    uint32_t *path, path_cap;
};

/* Both directions of a half-duplex link share bw[0]. */
static double link_rate(const struct tt_link *link, uint32_t direction)
{
    return link->bw[link->half ? 0 : direction];
}

/* Can declared ports limit more than the links do? Not where all links are equal and each has a
 * port. */
static bool ports_bind(const struct tt_topo *t)
{
    bool alike = true;
    for (uint32_t i = 0; i < 2 * t->nlinks && alike; i++)
        alike = link_rate(&t->links[i / 2], i & 1) == t->links[0].bw[0];
    for (uint32_t r = 0; t->ports && r < t->ranks; r++)
        if (!alike || t->g.start[r + 1] - t->g.start[r] > t->ports)
            return true;
    return false;
}

/* A port is busy with a message as long as the slowest link of its route needs for it. Its load
 * is counted in bytes at the rate of the rank's fastest link (`pace`): a message at half that
 * rate counts twice. */
static void set_ports(struct full *f, struct tt_cost_machine *m)
{
    const struct tt_graph *g = &f->t->g;
    uint64_t most = (UINT64_C(1) << 62) / (f->t->ports ? f->t->ports : 1);
    for (uint32_t r = 0; r < f->t->ranks; r++)
        for (uint32_t side = 0; side < 2; side++) {
            uint32_t port = 2 * f->t->nlinks + side * f->t->ranks + r;
            uint64_t pace = 1;
            for (uint32_t k = g->start[r]; k < g->start[r + 1]; k++) {
                uint64_t rate = m->rate[g->id[k] ^ side];
                pace = rate > pace ? rate : pace;
            }
            f->pace[port - 2 * f->t->nlinks] = pace;
            m->rate[port] = (pace < most ? pace : most) * f->t->ports;
        }
}

/* Numbers the resources of load.h: directed links and ports, reductions, messages sent and
 * received, message counts of links. */
static tutti_status make_machine(struct full *f, struct tt_cost_machine *m, struct tutti_error *err)
{
    const struct tt_topo *t = f->t;
    uint64_t arcs = 2 * (uint64_t)t->nlinks,
             ntransfer = arcs + (f->ported ? 2 * (uint64_t)t->ranks : 0);
    if (ntransfer + arcs + 3 * (uint64_t)t->ranks > UINT32_MAX / 2)
        return tt_fail(err, TUTTI_ERR_LIMIT, "too many links to price");
    *m = (struct tt_cost_machine){.ntransfer = (uint32_t)ntransfer,
                                  .nreduce = t->ranks,
                                  .nmessage = 2 * t->ranks,
                                  .ncount = (uint32_t)arcs};
    tt_cost_machine_host(m, t);
    m->rate = tt_alloc((size_t)ntransfer + 1, sizeof *m->rate);
    f->pace = tt_alloc(2 * (size_t)t->ranks, sizeof *f->pace);
    if (!m->rate || !f->pace) {
        free(m->rate);
        return tt_fail_memory(err, "link rates");
    }
    for (uint32_t d = 0; d < 2 * t->nlinks; d++)
        m->rate[d] = tt_cost_rate(link_rate(&t->links[d / 2], d & 1));
    if (f->ported)
        set_ports(f, m);
    return TUTTI_OK;
}

static tutti_status full_alloc(struct full *f, struct tutti_error *err)
{
    f->path_cap = tt_topo_max_route(f->t);
    f->head = tt_alloc((size_t)f->s->nsteps + 1, sizeof *f->head);
    f->next = tt_alloc(f->s->shape.ranks, sizeof *f->next);
    f->cursor = tt_zalloc(f->s->shape.ranks, sizeof *f->cursor);
    f->link_bytes = tt_zalloc(2 * (size_t)f->t->nlinks + 1, sizeof *f->link_bytes);
    f->path = tt_alloc((size_t)f->path_cap + 1, sizeof *f->path);
    if (!f->head || !f->next || !f->cursor || !f->link_bytes || !f->path)
        return tt_fail_memory(err, "walk through the schedule");
    return TUTTI_OK;
}

/* A route from a file is accepted only if it leads from src to dst without visiting a vertex
 * twice. seen[vertex] is the number of the last route that visited it, from 1. */
static tutti_status check_route(const struct tt_topo *t, const struct tt_sched_route *r,
                                uint32_t number, uint32_t *seen, struct tutti_error *err)
{
    uint32_t at = r->src;
    seen[at] = number;
    for (uint32_t i = 0; i < r->nlinks; i++) {
        uint32_t d = r->links[i];
        if (d / 2 >= t->nlinks || at != (d & 1 ? t->links[d / 2].b : t->links[d / 2].a))
            return tt_fail(err, TUTTI_ERR_MISMATCH,
                           "route %u->%u channel %u: hop %u is not a link from there", r->src,
                           r->dst, r->channel, i);
        at = d & 1 ? t->links[d / 2].a : t->links[d / 2].b;
        if (seen[at] == number)
            return tt_fail(err, TUTTI_ERR_MISMATCH,
                           "route %u->%u channel %u: hop %u leads back to where the route has been",
                           r->src, r->dst, r->channel, i);
        seen[at] = number;
    }
    if (at != r->dst)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "route %u->%u channel %u does not end at its destination", r->src, r->dst,
                       r->channel);
    return TUTTI_OK;
}

static tutti_status check_routes(const struct tt_sched *s, const struct tt_topo *t,
                                 struct tutti_error *err)
{
    uint32_t *seen = tt_zalloc((size_t)t->ranks + t->switches, sizeof *seen);
    tutti_status st = seen ? TUTTI_OK : tt_fail_memory(err, "routes");
    for (uint32_t i = 0; i < s->nroutes && !st; i++)
        st = check_route(t, &s->routes[i], i + 1, seen, err);
    free(seen);
    return st;
}

/* Finds the links of a message: the schedule's own route if it has one for this network, else
 * the network's. *ret is valid until the next call. */
static tutti_status find_route(struct full *f, uint32_t src, const struct tt_op *op,
                               const uint32_t **ret, uint32_t *ret_n, struct tutti_error *err)
{
    const struct tt_sched_route *own =
        f->routed ? tt_sched_route(f->s, src, op->peer, op->channel) : NULL;
    if (own) {
        *ret = own->links;
        *ret_n = own->nlinks;
        return TUTTI_OK;
    }
    *ret = f->path;
    return tt_topo_route(f->t, src, op->peer, f->path, f->path_cap, ret_n, err);
}

/* Rounded up, like every time. */
static void add_port(struct full *f, uint32_t port, uint64_t bytes, uint64_t slowest)
{
    assert(slowest > 0 && port < 2 * f->t->ranks);
    unsigned __int128 busy = ((unsigned __int128)bytes * f->pace[port] + slowest - 1) / slowest;
    f->l->overflow |= busy > UINT64_MAX;
    tt_cost_load_add(f->l, 2 * f->t->nlinks + port,
                     busy > UINT64_MAX ? UINT64_MAX : (uint64_t)busy);
}

/* A half-duplex link is one resource: the even id of its two directions. */
static tutti_status add_message(struct full *f, uint32_t src, const struct tt_op *op,
                                uint64_t bytes, struct tutti_error *err)
{
    const struct tt_topo *t = f->t;
    struct tt_load *l = f->l;
    const uint32_t *path;
    uint32_t n;
    tutti_status st = find_route(f, src, op, &path, &n, err);
    if (st)
        return st;
    assert(n > 0);
    uint64_t latency = 0, slowest = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        const struct tt_link *link = &t->links[path[i] / 2];
        latency += link->latency_ps;
        slowest = l->m.rate[path[i]] < slowest ? l->m.rate[path[i]] : slowest;
        tt_cost_load_add(l, link->half ? path[i] & ~1u : path[i], bytes);
        tt_cost_load_add(l, tt_machine_count(&l->m) + path[i], 1);
        f->link_bytes[path[i]] += bytes;
    }
    tt_cost_load_latency(l, latency);
    if (f->ported) {
        add_port(f, src, bytes, slowest);
        add_port(f, t->ranks + op->peer, bytes, slowest);
    }
    if (l->m.nmessage) {
        tt_cost_load_add(l, tt_machine_message(&l->m) + src, 1);
        tt_cost_load_add(l, tt_machine_message(&l->m) + t->ranks + op->peer, 1);
    }
    l->cost.messages++;
    l->overflow |= __builtin_add_overflow(l->cost.bytes, bytes, &l->cost.bytes);
    return TUTTI_OK;
}

/* Adds up a rank's operations of this step and advances its cursor. */
static tutti_status add_rank(struct full *f, uint32_t rank, uint32_t step, struct tutti_error *err)
{
    struct tt_slice sl = tt_sched_slice(f->s, rank);
    struct tt_load *l = f->l;
    uint64_t i = f->cursor[rank];
    tutti_status st = TUTTI_OK;
    for (; i < sl.nops && sl.ops[i].step == step && !st; i++) {
        const struct tt_op *op = &sl.ops[i];
        if (op->kind == TT_OP_SEND)
            st = add_message(f, rank, op, tt_sched_bind_op_bytes(f->bind, &sl, op), err);
        else if (l->m.nreduce && op->kind != TT_OP_RECV && op->kind != TT_OP_COPY)
            tt_cost_load_add(l, tt_machine_reduce(&l->m) + rank,
                             tt_cost_reduced(op, tt_sched_bind_op_bytes(f->bind, &sl, op)));
    }
    f->cursor[rank] = i;
    return st;
}

/* Puts the rank into the list of its next operation's step, if it has one left. */
static void calendar_put(struct full *f, uint32_t rank)
{
    struct tt_slice sl = tt_sched_slice(f->s, rank);
    if (f->cursor[rank] >= sl.nops)
        return;
    uint32_t step = sl.ops[f->cursor[rank]].step;
    assert(step < f->s->nsteps);
    f->next[rank] = f->head[step];
    f->head[step] = rank;
}

/* Ranks are far apart in memory: while one is processed, the spans of the next and the
 * operations of the one after that are prefetched. */
static void fetch_ahead(const struct full *f, uint32_t next)
{
    struct tt_slice sl = tt_sched_slice(f->s, next);
    const char *spans = (const char *)&sl.spans[sl.ops[f->cursor[next]].span];
    uint32_t after = f->next[next];
    for (int i = 0; i < FETCHED; i++)
        __builtin_prefetch(spans + 64 * i);
    if (after == UINT32_MAX)
        return;
    sl = tt_sched_slice(f->s, after);
    for (int i = 0; i < FETCHED; i++)
        __builtin_prefetch((const char *)&sl.ops[f->cursor[after]] + 64 * i);
}

/* `after` is read before calendar_put overwrites next[r]. Ranks are entered in reverse, so that
 * lists begin with the lowest. */
static tutti_status full_walk(struct full *f, struct tutti_error *err)
{
    memset(f->head, 0xff, ((size_t)f->s->nsteps + 1) * sizeof *f->head);
    for (uint32_t r = f->s->shape.ranks; r-- > 0;)
        calendar_put(f, r);
    for (uint32_t step = 0; step < f->s->nsteps; step++) {
        for (uint32_t r = f->head[step], after; r != UINT32_MAX; r = after) {
            after = f->next[r];
            if (after != UINT32_MAX)
                fetch_ahead(f, after);
            tutti_status st = add_rank(f, r, step, err);
            if (st)
                return st;
            calendar_put(f, r);
        }
        tt_cost_load_step(f->l);
    }
    return TUTTI_OK;
}

/* Finds the directed link with the most bytes per bandwidth; the lowest id among equals. */
static void find_busiest(struct full *f)
{
    struct tt_cost *c = &f->l->cost;
    uint64_t rate = 1;
    for (uint32_t d = 0; d < 2 * f->t->nlinks; d++)
        if (tt_slower(f->link_bytes[d], f->l->m.rate[d], c->busiest_bytes, rate)) {
            c->busiest_link = d;
            c->busiest_bytes = f->link_bytes[d];
            rate = f->l->m.rate[d];
        }
}

tutti_status tt_cost_load_full(const struct tt_sched *s, const struct tt_topo *t,
                               const struct tt_bind *b, bool keep, struct tt_load *l,
                               struct tutti_error *err)
{
    struct full f = {.s = s, .t = t, .bind = b, .l = l, .ported = ports_bind(t)};
    struct tt_cost_machine m;
    f.routed = s->nroutes > 0 && s->shape.topo_hash == t->hash;
    assert(s->first_rank == 0 && s->nslices == s->shape.ranks);
    tutti_status st = make_machine(&f, &m, err);
    if (!st)
        st = tt_cost_load_open(l, &m, keep, err);
    if (st) {
        free(f.pace);
        return st;
    }
    if (f.routed)
        st = check_routes(s, t, err);
    if (!st)
        st = full_alloc(&f, err);
    if (!st)
        st = full_walk(&f, err);
    if (!st)
        find_busiest(&f);
    l->cost.exact = true;
    free(f.head);
    free(f.next);
    free(f.cursor);
    free(f.link_bytes);
    free(f.path);
    free(f.pace);
    if (st)
        tt_cost_load_close(l);
    return st;
}
