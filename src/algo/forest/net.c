/* net.c - the network as limited resources, and how trees load them.
 *
 * Even networks have one resource per cable: a tree uses both directions alike. Others have one per
 * direction. A rank whose ports carry less than its links adds one for its ports (each side its own
 * where directions differ). Where summing is slower than a rank's links (gamma), its additions are
 * a resource too: every message of an in-tree asks for those of the rank that takes it in.
 *
 *     ring of 4:                 4 resources, one per cable; tree 0-1-2-3 asks 1 of three of them
 *     star of 3 with ports of half the cables' speed:
 *                                3 cables and 3 ports; tree 1-0-2 asks 2 of cable 0 and of port 0,
 *                                1 of the others
 */
#include <stdlib.h>

#include "algo/forest/forest.h"

void tt_forest_net_close(struct tt_forest_net *n)
{
    free(n->cap);
    free(n->port[0]);
    if (n->port[1] != n->port[0])
        free(n->port[1]);
    free(n->sums);
    free(n->of_link);
    tt_forest_work_free(n->w);
    *n = (struct tt_forest_net){0};
}

bool tt_forest_is_even(const struct tt_topo *t)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        if (!t->links[i].half && t->links[i].bw[0] != t->links[i].bw[1])
            return false;
    return true;
}

bool tt_forest_undirected(const struct tt_topo *t, enum tt_pack_kind kind)
{
    return kind == TT_FOREST_BOTH && tt_forest_is_even(t) &&
           (t->ranks > TT_FOREST_UNEVEN_RANKS || !tt_forest_sums_matter(t));
}

/* What the rank's links carry away from it (out) or to it. */
static double links_carry(const struct tt_topo *t, uint32_t r, bool out)
{
    const struct tt_graph *g = &t->g;
    double sum = 0;
    for (uint32_t k = g->start[r]; k < g->start[r + 1]; k++) {
        const struct tt_link *l = &t->links[g->id[k] / 2];
        sum += l->bw[l->half ? 0 : (out ? g->id[k] : ~g->id[k]) & 1];
    }
    return sum;
}

/* Can more arrive at the rank than it can add? */
static bool sums_slower(const struct tt_topo *t, uint32_t r)
{
    double in = links_carry(t, r, false), ingress = tt_topo_ingress(t, r);
    return t->gamma * (ingress < in ? ingress : in) > 1;
}

bool tt_forest_sums_matter(const struct tt_topo *t)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        if (sums_slower(t, r))
            return true;
    return false;
}

/* Numbers the resources of the links; a half-duplex cable is one resource. */
static void number_links(struct tt_forest_net *n)
{
    for (uint32_t i = 0; i < n->t->nlinks; i++) {
        const struct tt_link *l = &n->t->links[i];
        bool one = n->even || l->half;
        n->of_link[2 * i] = n->nres;
        n->cap[n->nres++] = n->even && l->half ? l->bw[0] / 2 : l->bw[0];
        n->of_link[2 * i + 1] = one ? n->nres - 1 : n->nres;
        if (!one)
            n->cap[n->nres++] = l->bw[1];
    }
}

/* A port that carries as much as the rank's links limits nothing and gets no resource. */
static void number_ports(struct tt_forest_net *n)
{
    for (uint32_t r = 0; r < n->t->ranks; r++) {
        double out = links_carry(n->t, r, true), in = links_carry(n->t, r, false),
               egress = tt_topo_egress(n->t, r), ingress = tt_topo_ingress(n->t, r);
        n->port[0][r] = n->port[1][r] = UINT32_MAX;
        if (n->even && (egress < out || ingress < in)) {
            n->port[0][r] = n->port[1][r] = n->nres;
            n->cap[n->nres++] = egress < ingress ? egress : ingress;
            continue;
        }
        if (egress < out) {
            n->port[0][r] = n->nres;
            n->cap[n->nres++] = egress;
        }
        if (ingress < in) {
            n->port[1][r] = n->nres;
            n->cap[n->nres++] = ingress;
        }
    }
}

/* Even networks: one tree serves both phases and has no direction yet, so it is not known which
 * rank adds. */
static void number_sums(struct tt_forest_net *n)
{
    for (uint32_t r = 0; r < n->t->ranks; r++) {
        n->sums[r] = UINT32_MAX;
        if (n->even || !sums_slower(n->t, r))
            continue;
        n->sums[r] = n->nres;
        n->cap[n->nres++] = 1 / n->t->gamma;
    }
}

/* Capacities are divided by the largest, so that loads and lengths are of order one. */
tutti_status tt_forest_net_open(const struct tt_topo *t, bool even, struct tt_forest_net *ret,
                                struct tutti_error *err)
{
    struct tt_forest_net n = {.t = t, .even = even};
    n.cap = tt_alloc(2 * (size_t)t->nlinks + 3 * (size_t)t->ranks + 1, sizeof *n.cap);
    n.of_link = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *n.of_link);
    n.port[0] = tt_alloc(t->ranks, sizeof(uint32_t));
    n.port[1] = even ? n.port[0] : tt_alloc(t->ranks, sizeof(uint32_t));
    n.sums = tt_alloc(t->ranks, sizeof *n.sums);
    if (!n.cap || !n.of_link || !n.sums || !n.port[0] || !n.port[1] || !tt_forest_work_make(&n)) {
        tt_forest_net_close(&n);
        return tt_fail_memory(err, "forest");
    }
    number_links(&n);
    number_ports(&n);
    number_sums(&n);
    for (uint32_t i = 0; i < n.nres; i++)
        n.unit = n.cap[i] > n.unit ? n.cap[i] : n.unit;
    for (uint32_t i = 0; i < n.nres; i++)
        n.cap[i] /= n.unit;
    *ret = n;
    return TUTTI_OK;
}

/* ---- trees ---- */

void tt_forest_tree_free(struct tt_forest_tree *t)
{
    free(t->edges);
    free(t->links);
    *t = (struct tt_forest_tree){0};
}

void tt_forest_pair_free(struct tt_forest_pair *p)
{
    tt_forest_tree_free(&p->up);
    tt_forest_tree_free(&p->down);
}

uint32_t tt_forest_taken_in(const struct tt_forest_net *n, uint32_t r, bool up, uint32_t ret[2])
{
    uint32_t count = 0;
    if (n->port[1][r] != UINT32_MAX)
        ret[count++] = n->port[1][r];
    if (up && n->sums[r] != UINT32_MAX)
        ret[count++] = n->sums[r];
    return count;
}

/* Every link of a tree's paths, and what the ranks at both ends of every edge have to offer. */
static void load_tree(const struct tt_forest_net *n, const struct tt_forest_tree *t, bool up,
                      double by, double *load)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        load[n->of_link[t->links[i]]] += by;
    for (uint32_t i = 0; i < t->nedges; i++) {
        uint32_t out = n->port[0][t->edges[i].a], in[2];
        if (out != UINT32_MAX)
            load[out] += by;
        for (uint32_t k = tt_forest_taken_in(n, t->edges[i].b, up, in); k > 0; k--)
            load[in[k - 1]] += by;
    }
}

void tt_forest_load(const struct tt_forest_net *n, const struct tt_forest_pair *p, double by,
                    double *load)
{
    load_tree(n, &p->up, true, by, load);
    load_tree(n, &p->down, false, by, load);
}
