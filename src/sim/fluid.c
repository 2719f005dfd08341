/* fluid.c - flows begin and end; a flow that shares nothing gets its rate at once, the others
 * are computed together (fluid_share.c).
 *
 *     resource 3:  list = [ flow 0 hop 1 | flow 4 hop 0 | flow 2 hop 2 ]
 *     flow 2:      place[.. + 2] = 2: its index there; when it leaves, the last entry fills the gap
 *
 * A resource lists its flows, and a flow knows its index in each list, so it leaves in O(hops).
 * All that happens at one moment is collected first: flows that begin are entered only in
 * tt_sim_fluid_settle, after those that end at the same moment have left. A link that is handed
 * over is thus never counted twice, and rates are computed once per moment. A flow that is alone
 * on all its resources gets the slowest one's rate without a computation. Invariant between
 * moments: every flow has a rate, its end is in the queue under its version, and `dirty` and
 * `fresh` are empty. */
#include "sim/fluid.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

static struct tt_flow *flow_at(const struct tt_fluid *f, uint32_t i)
{
    assert(i < f->flows.len);
    return (struct tt_flow *)f->flows.data + i;
}

/* ---- resources ---- */

/* The bytes/s that a rank's links carry, outgoing or incoming. */
static double links_rate(const struct tt_sim_input *in, uint32_t rank, bool inwards)
{
    const struct tt_graph *g = &in->t->g;
    double sum = 0;
    for (uint32_t k = g->start[rank]; k < g->start[rank + 1]; k++)
        sum += in->rate[inwards ? g->id[k] ^ 1 : g->id[k]];
    return sum;
}

/* Ports matter where they carry less than the links behind them; a slowed rank's ports are
 * slower. INFINITY marks a port that never limits. Returns whether any port limits. */
static bool port_rates(struct tt_fluid *f)
{
    const struct tt_topo *t = f->in->t;
    bool any = false;
    for (uint32_t r = 0; r < t->ranks; r++)
        for (uint32_t side = 0; side < 2; side++) {
            double rate = (side ? tt_topo_ingress(t, r) : tt_topo_egress(t, r)) / f->in->slow[r];
            struct tt_res *port = &f->res[2 * (size_t)t->nlinks + side * (size_t)t->ranks + r];
            port->rate = rate < links_rate(f->in, r, side) ? rate : INFINITY;
            any = any || isfinite(port->rate);
        }
    return any;
}

static bool any_half(const struct tt_topo *t)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        if (t->links[i].half)
            return true;
    return false;
}

/* A half-duplex cable is one resource, that of its even direction. */
static uint32_t link_res(const struct tt_topo *t, uint32_t d)
{
    return t->links[d / 2].half ? d & ~1u : d;
}

/* The resources of a connection where these are not simply its links. */
static void fill_hops(struct tt_fluid *f, const struct tt_work_conn *c, struct tt_lane *l)
{
    const struct tt_topo *t = f->in->t;
    const uint32_t ports[2] = {2 * t->nlinks + c->src, 2 * t->nlinks + t->ranks + c->dst};
    uint32_t *to = f->own_hops + l->at;
    l->n = 0;
    for (uint32_t k = 0; k < c->nlinks; k++)
        to[l->n++] = link_res(t, f->in->w->path[c->path_at + k]);
    for (uint32_t k = 0; k < 2; k++)
        if (isfinite(f->res[ports[k]].rate))
            to[l->n++] = ports[k];
}

/* Without half-duplex links and limiting ports the routes themselves serve as resource lists. */
static void fill_lanes(struct tt_fluid *f)
{
    const struct tt_work *w = f->in->w;
    for (uint32_t i = 0; i < w->nconns; i++) {
        struct tt_lane *l = &f->lane[i];
        l->at = w->conn[i].path_at + (f->own_hops ? 2 * (uint64_t)i : 0);
        l->n = w->conn[i].nlinks;
        if (f->own_hops)
            fill_hops(f, &w->conn[i], l);
        l->rate = INFINITY;
        assert(l->n <= w->conn[i].nlinks + 2);
        for (uint32_t k = 0; k < l->n; k++)
            l->rate = fmin(l->rate, f->res[f->hops[l->at + k]].rate);
        f->max_hops = l->n > f->max_hops ? l->n : f->max_hops;
    }
}

static uint64_t path_length(const struct tt_work *w)
{
    return w->nconns ? w->conn[w->nconns - 1].path_at + w->conn[w->nconns - 1].nlinks : 0;
}

static bool make_lanes(struct tt_fluid *f)
{
    const struct tt_work *w = f->in->w;
    bool plain = !port_rates(f) && !any_half(f->in->t);
    f->lane = tt_zalloc((size_t)w->nconns + 1, sizeof *f->lane);
    f->own_hops =
        plain ? NULL
              : tt_alloc((size_t)path_length(w) + 2 * (size_t)w->nconns + 1, sizeof *f->own_hops);
    f->hops = plain ? w->path : f->own_hops;
    if (!f->lane || (!plain && !f->own_hops))
        return false;
    fill_lanes(f);
    f->spare = tt_zalloc((size_t)f->max_hops + 1, sizeof *f->spare);
    for (uint32_t i = 0; f->spare && i <= f->max_hops; i++)
        f->spare[i].elem = sizeof(uint32_t);
    return f->spare != NULL;
}

tutti_status tt_sim_fluid_open(struct tt_fluid *f, const struct tt_sim_input *in,
                               struct tt_sim_report *r, struct tutti_error *err)
{
    uint32_t arcs = 2 * in->t->nlinks;
    *f = (struct tt_fluid){.in = in, .stat = r->links, .nres = arcs + 2 * in->t->ranks};
    f->flows.elem = sizeof(struct tt_flow);
    f->rates.elem = sizeof(double);
    f->levels.elem = sizeof(struct tt_level);
    f->fresh.elem = f->place.elem = f->spare_flows.elem = f->dirty.elem = f->reached.elem =
        f->near.elem = sizeof(uint32_t);
    f->res = tt_zalloc((size_t)f->nres + 1, sizeof *f->res);
    f->active = tt_zalloc((size_t)arcs + 1, sizeof *f->active);
    f->since = tt_zalloc((size_t)arcs + 1, sizeof *f->since);
    if (!f->res || !f->active || !f->since)
        return tt_fail_memory(err, "links");
    for (uint32_t d = 0; d < arcs; d++)
        f->res[d].rate = in->rate[d];
    return make_lanes(f) ? TUTTI_OK : tt_fail_memory(err, "links");
}

void tt_sim_fluid_close(struct tt_fluid *f)
{
    for (uint32_t i = 0; f->res && i < f->nres; i++)
        free(f->res[i].list);
    for (uint32_t i = 0; f->spare && i <= f->max_hops; i++)
        tt_vec_free(&f->spare[i]);
    free(f->res);
    free(f->spare);
    free(f->lane);
    free(f->own_hops);
    free(f->active);
    free(f->since);
    struct tt_vec *vecs[] = {&f->flows,   &f->fresh, &f->place, &f->spare_flows, &f->dirty,
                             &f->reached, &f->rates, &f->near,  &f->levels};
    for (size_t i = 0; i < countof(vecs); i++)
        tt_vec_free(vecs[i]);
}

/* ---- coming and going ---- */

/* tt_vec_room appends one element; false: out of memory. */
static bool fluid_keep(struct tt_vec *v, uint32_t x)
{
    uint32_t *room = tt_vec_room(v);
    if (room)
        *room = x;
    return room != NULL;
}

static bool take_spare(struct tt_vec *v, uint32_t *ret)
{
    if (!v->len)
        return false;
    *ret = ((const uint32_t *)v->data)[--v->len];
    return true;
}

/* Takes the flow's slot and its places from the spare ones if possible, so that memory follows the
 * most flows at once, not the length of the run. */
struct tt_flow *tt_sim_fluid_begin(struct tt_fluid *f, uint32_t conn, uint64_t bytes, uint64_t now)
{
    assert(conn < f->in->w->nconns && bytes > 0);
    const struct tt_lane *l = &f->lane[conn];
    uint32_t i, place = (uint32_t)f->place.len;
    if (!take_spare(&f->spare[l->n], &place) && l->n &&
        (f->place.len + l->n > UINT32_MAX || !tt_vec_push(&f->place, NULL, l->n)))
        f->failed = true;
    if (!take_spare(&f->spare_flows, &i)) {
        i = (uint32_t)f->flows.len;
        if (!tt_vec_push(&f->flows, NULL, 1))
            f->failed = true;
    }
    if (f->failed || !fluid_keep(&f->fresh, i)) {
        f->failed = true;
        return NULL;
    }
    /* The version goes on where the slot's previous flow ended, so old events cannot match. */
    struct tt_flow *w = flow_at(f, i);
    uint64_t latency = f->in->w->conn[conn].latency_ps;
    *w = (struct tt_flow){.conn = conn,
                          .version = w->version,
                          .place = place,
                          .left = (double)bytes,
                          .updated_ps = now,
                          .start_ps = now};
    w->weight = f->in->o->sharing == TT_SIM_RTT && latency ? 1e12 / (double)latency : 1;
    return w;
}

/* Statistics per directed link: messages at once, and since when it is busy. */
static void enter_links(struct tt_fluid *f, uint32_t conn, uint64_t now)
{
    const struct tt_work_conn *c = &f->in->w->conn[conn];
    const uint32_t *path = f->in->w->path + c->path_at;
    for (uint32_t k = 0; k < c->nlinks; k++) {
        uint32_t d = path[k], n = ++f->active[d];
        if (n == 1)
            f->since[d] = now;
        if (n > f->stat[d].peak)
            f->stat[d].peak = n;
    }
}

static void leave_links(struct tt_fluid *f, uint32_t conn, uint64_t now)
{
    const struct tt_work_conn *c = &f->in->w->conn[conn];
    const uint32_t *path = f->in->w->path + c->path_at;
    for (uint32_t k = 0; k < c->nlinks; k++)
        if (--f->active[path[k]] == 0)
            f->stat[path[k]].busy_ps += now - f->since[path[k]];
}

static bool res_room(struct tt_res *r)
{
    if (r->n < r->cap)
        return true;
    struct tt_fluid_hop *more = tt_resize(r->list, r->cap ? 2 * (size_t)r->cap : 4, sizeof *more);
    if (!more)
        return false;
    r->list = more;
    r->cap = r->cap ? 2 * r->cap : 4;
    return true;
}

/* Appends the flow to the lists of its resources. */
static void fluid_enter(struct tt_fluid *f, uint32_t i)
{
    const struct tt_flow *w = flow_at(f, i);
    const struct tt_lane *l = &f->lane[w->conn];
    uint32_t *place = (uint32_t *)f->place.data + w->place;
    for (uint32_t k = 0; k < l->n && !f->failed; k++) {
        struct tt_res *r = &f->res[f->hops[l->at + k]];
        if (!res_room(r)) {
            f->failed = true;
            return;
        }
        place[k] = r->n;
        r->list[r->n++] = (struct tt_fluid_hop){i, k};
    }
}

/* Removes the flow from all lists. Where others remain, they may now get more: the resource is
 * dirty. */
static void fluid_leave(struct tt_fluid *f, const struct tt_flow *w)
{
    const struct tt_lane *l = &f->lane[w->conn];
    uint32_t *places = f->place.data;
    for (uint32_t k = 0; k < l->n; k++) {
        uint32_t id = f->hops[l->at + k];
        struct tt_res *r = &f->res[id];
        uint32_t at = places[w->place + k];
        struct tt_fluid_hop last = r->list[--r->n];
        if (!r->n)
            continue;
        r->list[at] = last;
        places[flow_at(f, last.flow)->place + last.hop] = at;
        f->failed = f->failed || !fluid_keep(&f->dirty, id);
    }
}

bool tt_sim_fluid_due(const struct tt_fluid *f, uint32_t flow, uint32_t version)
{
    return flow_at(f, flow)->version == version;
}

struct tt_flow tt_sim_fluid_end(struct tt_fluid *f, uint32_t flow, uint64_t now)
{
    struct tt_flow *w = flow_at(f, flow);
    fluid_leave(f, w);
    leave_links(f, w->conn, now);
    w->version++;
    f->failed = f->failed || !fluid_keep(&f->spare_flows, flow) ||
                !fluid_keep(&f->spare[f->lane[w->conn].n], w->place);
    return *w;
}

/* ---- rates ---- */

/* When the flow ends. Rounded up, except for what only the arithmetic added: equal flows must
 * end at the same picosecond. */
static uint64_t end_of(struct tt_fluid *f, const struct tt_flow *w)
{
    double ps = w->left > 0 ? w->left / w->rate * 1e12 : 0;
    ps = ceil(ps - (1e-3 + ps * 1e-15));
    if (!(ps < 0x1p62) || w->updated_ps > UINT64_C(1) << 62) {
        f->beyond = true;
        return w->updated_ps;
    }
    return w->updated_ps + (ps > 0 ? (uint64_t)ps : 0);
}

/* Accounts for the bytes sent so far at the old rate, then queues the new end under a new
 * version. A rate that differs by rounding only is not changed. */
static void set_rate(struct tt_fluid *f, uint32_t i, double rate, uint64_t now, struct tt_queue *q)
{
    struct tt_flow *w = flow_at(f, i);
    if (fabs(rate - w->rate) <= 1e-12 * rate)
        return;
    w->left -= w->rate * (double)(now - w->updated_ps) * 1e-12;
    w->updated_ps = now;
    w->rate = rate;
    tt_sim_queue_push(q, end_of(f, w), i, ++w->version);
}

/* Sets the flow's rate if it shares nothing; otherwise one of its shared resources becomes
 * dirty, which suffices because the others are connected with it. */
static void settle_fresh(struct tt_fluid *f, uint32_t i, uint64_t now, struct tt_queue *q)
{
    const struct tt_lane *l = &f->lane[flow_at(f, i)->conn];
    for (uint32_t k = 0; k < l->n; k++)
        if (f->res[f->hops[l->at + k]].n > 1) {
            f->failed = f->failed || !fluid_keep(&f->dirty, f->hops[l->at + k]);
            return;
        }
    set_rate(f, i, l->rate, now, q);
}

/* Enters all new flows before any rate is set, so that each sees all others of this moment. */
void tt_sim_fluid_settle(struct tt_fluid *f, uint64_t now, struct tt_queue *q)
{
    const uint32_t *fresh = f->fresh.data;
    for (size_t i = 0; i < f->fresh.len && !f->failed; i++) {
        fluid_enter(f, fresh[i]);
        enter_links(f, flow_at(f, fresh[i])->conn, now);
    }
    for (size_t i = 0; i < f->fresh.len && !f->failed; i++)
        settle_fresh(f, fresh[i], now, q);
    f->fresh.len = 0;
    if (!f->dirty.len || f->failed)
        return;
    tt_sim_fluid_share(f);
    const uint32_t *reached = f->reached.data;
    const double *rates = f->rates.data;
    for (size_t i = 0; i < f->reached.len && !f->failed; i++)
        set_rate(f, reached[i], rates[i], now, q);
}
