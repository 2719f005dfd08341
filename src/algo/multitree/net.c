/* net.c - the capacity of a network for MultiTree in one step: slots of links, ports of ranks,
 * neighbours in the order of trial.
 *
 * The published construction assumes equal links: each carries one message per step. Here a step is
 * as long as a message takes on a link of a chosen speed, the base; a link k times as fast has k
 * slots, one slower than the base has none. Which base is best depends on the network (leave slow
 * links out, or wait for them), so the few speeds that occur are tried (multitree_make). Speeds
 * less than 1/32 apart count as equal: measured links are never exactly so.
 *
 *     mesh, v in the middle:  1       a switch with ranks 4..7, asked by 5: first 6, 7, 4 (turning
 *                           3 v 4     on from the sender, so that all ranks of a star find partners
 *                                     in every step; the published code begins with 4)
 *                             2       then its neighbouring switches
 *
 * Grids: dimension by dimension, first the lower neighbour (north, south, west, east in two
 * dimensions: the published order). Other networks: from the own number on, around. */
#include <assert.h>
#include <stdlib.h>

#include "algo/multitree/multitree.h"

enum { NONE = UINT32_MAX, NARROW = 64 }; /* up to NARROW neighbours are tried one by one */
static const double NEAR = 1.0 + 1.0 / 32;

uint32_t tt_multitree_slot(const struct tt_topo *t, uint32_t link)
{
    return t->links[link / 2].half ? link & ~1u : link;
}

static double speed(const struct tt_topo *t, uint32_t link)
{
    const struct tt_link *l = &t->links[link / 2];
    return l->bw[l->half ? 0 : link & 1];
}

bool tt_multitree_symmetric(const struct tt_topo *t)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        if (!t->links[i].half &&
            (t->links[i].bw[0] < t->links[i].bw[1] || t->links[i].bw[0] > t->links[i].bw[1]))
            return false;
    return true;
}

/* ---- speeds ---- */

/* The fastest speed that is clearly below `limit` (0: no limit); 0 when there is none. */
static double next_speed(const struct tt_topo *t, double limit)
{
    double best = 0;
    for (uint32_t d = 0; d < 2 * t->nlinks; d++) {
        double bw = speed(t, d);
        if ((limit == 0 || bw * NEAR < limit) && bw > best)
            best = bw;
    }
    return best;
}

/* The slowest that counts as equal to `top`. */
static double bottom_of(const struct tt_topo *t, double top)
{
    double low = top;
    for (uint32_t d = 0; d < 2 * t->nlinks; d++) {
        double bw = speed(t, d);
        if (bw < low && bw * NEAR >= top)
            low = bw;
    }
    return low;
}

/* When there are more speeds than entries, the last entry is the slowest: with it no link is left
 * out. */
size_t tt_multitree_bases(const struct tt_topo *t, double ret[TT_MULTITREE_BASES])
{
    size_t n = 0;
    double top = next_speed(t, 0);
    while (top > 0) {
        double last = bottom_of(t, top);
        n += n < TT_MULTITREE_BASES;
        ret[n - 1] = last;
        top = next_speed(t, last);
    }
    return n;
}

static uint32_t slots_of(double bw, double base, uint32_t most)
{
    double k = bw * NEAR / base;
    return k >= (double)most ? most : (uint32_t)k;
}

/* No link needs more slots than there are trees. */
static void set_slots(struct tt_multitree_net *n, bool inward, double base)
{
    const struct tt_topo *t = n->t;
    for (uint32_t d = 0; d < 2 * t->nlinks; d++)
        n->slots[d] = slots_of(speed(t, inward ? d ^ 1u : d), base, t->ranks);
    for (uint32_t r = 0; r < t->ranks; r++) {
        uint32_t out = slots_of(tt_topo_egress(t, r), base, t->ranks),
                 in = slots_of(tt_topo_ingress(t, r), base, t->ranks);
        n->inject[r] = inward ? in : out;
        n->eject[r] = inward ? out : in;
    }
}

/* ---- neighbours ---- */

/* The position of neighbour h of rank v: by dimension, below before above, near before far; outside
 * grids by the distance going up. */
static uint64_t place_of(const struct tt_topo *t, uint32_t v, uint32_t h)
{
    uint32_t weight = 1;
    if (v >= t->ranks || h >= t->ranks)
        return h;
    for (uint32_t d = t->ndims; d-- > 0; weight *= t->dims[d]) {
        uint32_t size = t->dims[d], x = v / weight % size, y = h / weight % size;
        if (x == y)
            continue;
        uint32_t up = (y + size - x) % size;
        bool above = up <= size / 2;
        return ((uint64_t)(2 * d + above) << 32) + (above ? up : size - up);
    }
    return (h + t->ranks - v) % t->ranks;
}

/* Insertion sort, stable: parallel cables keep their order. Ranks come before switches. */
static void sort_narrow(struct tt_multitree_net *n, uint32_t v)
{
    uint32_t from = n->start[v], to = n->inner[v];
    for (uint32_t i = from + 1; i < to; i++) {
        uint32_t head = n->head[i], link = n->link[i], slot = n->slot[i], j = i;
        for (; j > from && place_of(n->t, v, n->head[j - 1]) > place_of(n->t, v, head); j--) {
            n->head[j] = n->head[j - 1];
            n->link[j] = n->link[j - 1];
            n->slot[j] = n->slot[j - 1];
        }
        n->head[j] = head;
        n->link[j] = link;
        n->slot[j] = slot;
    }
}

/* The topology lists neighbours by ascending number: ranks, then switches. */
static void list_neighbours(struct tt_multitree_net *n)
{
    const struct tt_graph *g = &n->t->g;
    for (uint32_t v = 0; v < n->vertices; v++) {
        n->start[v] = g->start[v];
        n->inner[v] = g->start[v + 1];
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            n->head[k] = g->head[k];
            n->link[k] = g->id[k];
            n->slot[k] = tt_multitree_slot(n->t, g->id[k]);
            if (k < n->inner[v] && g->head[k] >= n->ranks)
                n->inner[v] = k;
        }
        if (v < n->ranks && n->inner[v] - n->start[v] <= NARROW)
            sort_narrow(n, v);
    }
    n->start[n->vertices] = g->start[n->vertices];
}

/* Switches and ranks with many neighbours are searched by words of 64 ranks. */
static bool make_hosts(struct tt_multitree_net *n)
{
    uint32_t nwide = 0;
    for (uint32_t v = 0; v < n->vertices; v++) {
        uint32_t many = n->inner[v] - n->start[v];
        n->wide[v] = (v >= n->ranks && many > 0) || many > NARROW ? nwide++ : NONE;
    }
    n->hosts = tt_zalloc((size_t)nwide * n->words + 1, sizeof *n->hosts);
    for (uint32_t v = 0; n->hosts && v < n->vertices; v++)
        for (uint32_t k = n->start[v]; n->wide[v] != NONE && k < n->inner[v]; k++)
            n->hosts[(size_t)n->wide[v] * n->words + n->head[k] / 64] |= UINT64_C(1)
                                                                         << n->head[k] % 64;
    return n->hosts != NULL;
}

tutti_status tt_multitree_net_make(const struct tt_topo *t, const struct tt_multitree_options *o,
                                   double base, struct tt_multitree_net *ret,
                                   struct tutti_error *err)
{
    struct tt_multitree_net n = {.t = t,
                                 .ranks = t->ranks,
                                 .vertices = t->ranks + t->switches,
                                 .words = (t->ranks + 63) / 64};
    assert(base > 0);
    n.rank_order = o->paper_ending;
    n.start = tt_alloc((size_t)n.vertices + 1, sizeof *n.start);
    n.inner = tt_alloc(n.vertices, sizeof *n.inner);
    n.wide = tt_alloc(n.vertices, sizeof *n.wide);
    n.head = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *n.head);
    n.link = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *n.link);
    n.slot = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *n.slot);
    n.slots = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *n.slots);
    n.inject = tt_alloc(t->ranks, sizeof *n.inject);
    n.eject = tt_alloc(t->ranks, sizeof *n.eject);
    bool ok = n.start && n.inner && n.wide && n.head && n.link && n.slot && n.slots && n.inject &&
              n.eject;
    if (ok) {
        list_neighbours(&n);
        set_slots(&n, o->inward, base);
        ok = make_hosts(&n);
    }
    if (!ok) {
        tt_multitree_net_free(&n);
        return tt_fail_memory(err, "network of the trees");
    }
    *ret = n;
    return TUTTI_OK;
}

void tt_multitree_net_free(struct tt_multitree_net *n)
{
    free(n->start);
    free(n->inner);
    free(n->wide);
    free(n->head);
    free(n->link);
    free(n->slot);
    free(n->slots);
    free(n->inject);
    free(n->eject);
    free(n->hosts);
    *n = (struct tt_multitree_net){0};
}
