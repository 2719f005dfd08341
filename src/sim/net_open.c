/* net_open.c - builds the machine of net.c from a topology: flit times, delays, credits,
 * ejection ports.
 *
 * The clock follows from the fastest link, which moves a flit in cycles_per_flit cycles. Every
 * link has its own flit time, flit_bytes / its rate, to 1/1024 ps, so links of different speed
 * meet their bandwidth. A rank's interfaces and ejection ports are as fast as its fastest link
 * (slower by the what-if's factor). The buffer of a lane, if not given, covers the round trip
 * and one packet. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "sim/packet.h"

/* Limits that keep sums of times far from overflow: 2^44 ticks are 17 ms per flit, 2^40 ps one
 * second of latency. */
static const double max_flit_ticks = 0x1p44;
static const uint64_t max_latency_ps = UINT64_C(1) << 40;
enum { MAX_LANES = 1 << 26 };

static tutti_status flit_ticks(const struct tt_packet_net *n, double bytes_per_s, uint64_t *ret,
                               struct tutti_error *err)
{
    double ticks = (double)n->set.flit_bytes * 1e12 * TT_TICKS / bytes_per_s;
    if (!(ticks <= max_flit_ticks))
        return tt_fail(
            err, TUTTI_ERR_LIMIT,
            "a link is too slow for the packet level: a flit of %u bytes takes more than 16 ms",
            n->set.flit_bytes);
    *ret = ticks < 1 ? 1 : (uint64_t)llround(ticks);
    return TUTTI_OK;
}

/* Sets up every directed link's port; a half-duplex cable has one for both directions. */
static tutti_status open_links(struct tt_packet_net *n, struct tutti_error *err)
{
    const struct tt_topo *t = n->in->t;
    n->clock = TT_NEVER;
    for (uint32_t link = 0; link < n->nlinks2; link++) {
        const struct tt_link *cable = &t->links[link / 2];
        if (cable->latency_ps > max_latency_ps)
            return tt_fail(err, TUTTI_ERR_LIMIT,
                           "link %u: a latency above one second is too long for the packet level",
                           link / 2);
        n->link_port[link] = cable->half ? link & ~1u : link;
        tutti_status st = flit_ticks(n, n->in->rate[n->link_port[link]], &n->port[link].flit, err);
        if (st)
            return st;
        if (n->port[link].flit < n->clock)
            n->clock = n->port[link].flit;
    }
    n->clock = n->clock / n->set.cycles_per_flit;
    if (n->clock == 0)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "%u cycles per flit make the clock shorter than a femtosecond",
                       n->set.cycles_per_flit);
    return TUTTI_OK;
}

/* A lane of a link: its delays (rules 1 and 2 of packet.h), and all credits at the sender. */
static bool open_lane(struct tt_packet_net *n, uint32_t lane)
{
    struct tt_net_lane *l = &n->lane[lane];
    l->link = lane / n->set.vcs;
    const uint64_t latency = n->in->t->links[l->link / 2].latency_ps * TT_TICKS,
                   flit = n->port[n->link_port[l->link]].flit;
    l->gap = n->clock;
    l->delay = flit + latency + n->set.router_cycles * n->clock;
    l->credit_delay = latency + n->clock;
    struct tt_train room = {0, 0, n->set.buffer_flits};
    if (!room.count) {
        uint64_t packet = 1 + n->set.payload_bytes / n->set.flit_bytes;
        room.count = (l->delay + l->credit_delay - 1) / flit + 1 + packet;
    }
    return tt_sim_trains_push(&l->credits, &room);
}

/* The fastest flit time of a rank's links. */
static uint64_t rank_flit(const struct tt_packet_net *n, uint32_t rank)
{
    const struct tt_graph *g = &n->in->t->g;
    uint64_t best = TT_NEVER;
    for (uint32_t i = g->start[rank]; i < g->start[rank + 1]; i++) {
        uint64_t flit = n->port[n->link_port[g->id[i]]].flit;
        best = flit < best ? flit : best;
    }
    return best == TT_NEVER ? n->clock : best;
}

/* The lanes of a rank's interfaces and its ejection ports. */
static void open_rank(struct tt_packet_net *n, uint32_t rank)
{
    double slowed = (double)rank_flit(n, rank) * n->in->slow[rank];
    uint64_t flit = slowed < 1                ? 1
                    : slowed > max_flit_ticks ? (uint64_t)max_flit_ticks
                                              : (uint64_t)slowed;
    for (uint32_t k = 0; k < n->set.interfaces; k++) {
        uint32_t i = rank * n->set.interfaces + k;
        struct tt_net_lane *l = &n->lane[n->nlinks2 * n->set.vcs + i];
        l->link = TT_NET_NONE;
        l->gap = flit;
        l->delay = TT_NEVER;
        n->port[n->nlinks2 + i].flit = flit;
    }
}

uint32_t tt_sim_net_ends(const struct tt_packet_net *n, uint32_t rank)
{
    uint32_t ports = n->set.own_ports ? tt_topo_ports(n->in->t, rank) : n->set.interfaces;
    return ports == 0 ? 1 : ports < n->set.interfaces ? ports : n->set.interfaces;
}

/* A message in the order of one end's program. */
struct place {
    uint64_t rank_step;
    uint32_t op, msg;
};

static int by_place(const void *x, const void *y)
{
    const struct place *a = x, *b = y;
    if (a->rank_step != b->rank_step)
        return a->rank_step < b->rank_step ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

/* A stable order independent of qsort: operations of one rank are all different. */
uint32_t *tt_sim_net_order(const struct tt_work *w, bool by_receiver, uint32_t *start)
{
    struct place *p = tt_alloc((size_t)w->nmsgs + 1, sizeof *p);
    uint32_t *order = tt_alloc((size_t)w->nmsgs + 1, sizeof *order);
    for (uint32_t i = 0; p && order && i < w->nmsgs; i++) {
        const struct tt_work_msg *m = &w->msg[i];
        uint64_t rank = by_receiver ? w->conn[m->conn].dst : w->conn[m->conn].src;
        p[i] = (struct place){rank << 32 | m->step, by_receiver ? m->recv : m->send, i};
    }
    if (p && order) {
        qsort(p, w->nmsgs, sizeof *p, by_place);
        for (uint32_t i = 0, r = 0; i <= w->nmsgs; i++) {
            uint32_t rank = i < w->nmsgs ? (uint32_t)(p[i].rank_step >> 32) : w->t->ranks;
            for (; start && r <= rank; r++)
                start[r] = i;
            order[i] = i < w->nmsgs ? p[i].msg : 0;
        }
    } else {
        free(order);
        order = NULL;
    }
    free(p);
    return order;
}

/* The index of a message's last link among its receiver's links. */
static uint32_t last_link(const struct tt_packet_net *n, const struct tt_work_conn *c)
{
    const struct tt_graph *g = &n->in->t->g;
    uint32_t out = c->nlinks ? n->in->w->path[c->path_at + c->nlinks - 1] ^ 1 : 0,
             i = g->start[c->dst];
    while (i + 1 < g->start[c->dst + 1] && g->id[i] != out)
        i++;
    return i - g->start[c->dst];
}

/* Decides which ejection port a message uses: that of the link that it arrives by; at a rank
 * with fewer ports than links, the next in turn among those received in one step (1.6 of the
 * notes on MultiTree, where all are assigned so). */
static bool open_messages(struct tt_packet_net *n)
{
    const struct tt_work *w = n->in->w;
    uint32_t *order = tt_sim_net_order(w, true, NULL);
    uint32_t rank = TT_NET_NONE, step = 0, turn = 0;
    for (uint32_t i = 0; order && i < w->nmsgs; i++) {
        const struct tt_work_conn *c = &w->conn[w->msg[order[i]].conn];
        uint32_t dst = c->dst, ends = tt_sim_net_ends(n, dst),
                 links = n->in->t->g.start[dst + 1] - n->in->t->g.start[dst];
        assert(ends > 0);
        if (dst != rank || w->msg[order[i]].step != step)
            turn = 0;
        rank = dst;
        step = w->msg[order[i]].step;
        n->eject[order[i]] = ends < links ? turn++ % ends : last_link(n, c);
    }
    free(order);
    return order != NULL;
}

/* Finds the classes that the routes need. Default: four virtual channels, or as many as there
 * are classes. Classes beyond the channels share the last one. */
static tutti_status open_channels(struct tt_packet_net *n, struct tutti_error *err)
{
    const struct tt_work *w = n->in->w;
    uint64_t paths = 0;
    for (uint32_t c = 0; c < w->nconns; c++)
        paths = w->conn[c].path_at + w->conn[c].nlinks > paths
                    ? w->conn[c].path_at + w->conn[c].nlinks
                    : paths;
    n->hop_class = tt_zalloc(paths + 1, 1);
    if (!n->hop_class)
        return tt_fail_memory(err, "virtual channels");
    tutti_status st = tt_sim_net_classes(w, n->nlinks2, n->hop_class, &n->needed, err);
    if (st)
        return st;
    if (!n->set.vcs)
        n->set.vcs = n->needed > 4 ? n->needed : 4;
    n->classes = n->needed < n->set.vcs ? n->needed : n->set.vcs;
    for (uint64_t i = 0; i < paths; i++)
        if (n->hop_class[i] >= n->classes)
            n->hop_class[i] = (uint8_t)(n->classes - 1);
    return TUTTI_OK;
}

static tutti_status net_open_allocate(struct tt_packet_net *n, struct tutti_error *err)
{
    const struct tt_work *w = n->in->w;
    n->lane = tt_zalloc(n->nlanes + 1u, sizeof *n->lane);
    n->port = tt_zalloc(n->nports + 1u, sizeof *n->port);
    n->link_port = tt_zalloc(n->nlinks2 + 1u, sizeof *n->link_port);
    n->link_flits = tt_zalloc(n->nlinks2 + 1u, sizeof *n->link_flits);
    n->held = tt_zalloc(n->nlinks2 + 1u, sizeof *n->held);
    n->peak = tt_zalloc(n->nlinks2 + 1u, sizeof *n->peak);
    n->eject = tt_zalloc(w->nmsgs + 1u, sizeof *n->eject);
    n->packets = tt_zalloc((size_t)w->nmsgs * w->segments + 1, sizeof *n->packets);
    if (!n->lane || !n->port || !n->link_port || !n->link_flits || !n->held || !n->peak ||
        !n->eject || !n->packets)
        return tt_fail_memory(err, "packet network");
    for (uint32_t i = 0; i < n->nlanes; i++)
        n->lane[i].owner = n->lane[i].port = n->lane[i].out = TT_NET_NONE;
    for (uint32_t i = 0; i < n->nports; i++) {
        n->port[i].p.lane = n->port[i].head = n->port[i].turn = TT_NET_NONE;
        n->port[i].when = TT_NEVER;
    }
    return TUTTI_OK;
}

/* Computes the numbers of lanes and ports. */
static tutti_status size_up(struct tt_packet_net *n, struct tutti_error *err)
{
    uint64_t ends = (uint64_t)n->in->t->ranks * n->set.interfaces,
             lanes = (uint64_t)n->nlinks2 * n->set.vcs + ends;
    if (lanes > MAX_LANES)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "the packet level would need %llu buffers; this build has room for %u",
                       (unsigned long long)lanes, (unsigned)MAX_LANES);
    n->nlanes = (uint32_t)lanes;
    n->nports = n->nlinks2 + (uint32_t)ends;
    return TUTTI_OK;
}

/* Channels first: the number of lanes depends on them. On failure the caller frees n. */
tutti_status tt_sim_net_open(struct tt_packet_net *n, const struct tt_sim_input *in,
                             const struct tt_net_setup *set, struct tutti_error *err)
{
    *n = (struct tt_packet_net){.in = in,
                                .set = *set,
                                .nlinks2 = 2 * in->t->nlinks,
                                .news = {.elem = sizeof(struct tt_net_news)}};
    tutti_status st = open_channels(n, err);
    if (!st)
        st = size_up(n, err);
    if (!st)
        st = net_open_allocate(n, err);
    if (!st)
        st = open_links(n, err);
    if (st)
        return st;
    for (uint32_t lane = 0; lane < n->nlinks2 * n->set.vcs; lane++)
        if (!open_lane(n, lane))
            return tt_fail_memory(err, "packet network");
    for (uint32_t rank = 0; rank < in->t->ranks; rank++)
        open_rank(n, rank);
    return open_messages(n) ? TUTTI_OK : tt_fail_memory(err, "packet network");
}

void tt_sim_net_free(struct tt_packet_net *n)
{
    for (uint32_t i = 0; n->lane && i < n->nlanes; i++) {
        free(n->lane[i].flits.at);
        free(n->lane[i].credits.at);
        free(n->lane[i].packet);
    }
    free(n->lane);
    free(n->port);
    free(n->hop_class);
    free(n->link_port);
    free(n->link_flits);
    free(n->held);
    free(n->peak);
    free(n->eject);
    free(n->packets);
    free(n->agenda.at);
    tt_vec_free(&n->news);
    *n = (struct tt_packet_net){0};
}
