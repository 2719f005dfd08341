/* net.c - the network as limited resources, and how trees load them.
 *
 * Even networks have one resource per cable: a tree uses both directions alike. Others have one per
 * direction. A rank whose ports carry less than its links adds one for its ports (each side its own
 * where directions differ).
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
    const struct tt_graph *g = &n->t->g;
    for (uint32_t r = 0; r < n->t->ranks; r++) {
        double out = 0, in = 0, egress = tt_topo_egress(n->t, r),
               ingress = tt_topo_ingress(n->t, r);
        for (uint32_t k = g->start[r]; k < g->start[r + 1]; k++) {
            const struct tt_link *l = &n->t->links[g->id[k] / 2];
            out += l->bw[l->half ? 0 : g->id[k] & 1];
            in += l->bw[l->half ? 0 : ~g->id[k] & 1];
        }
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

/* Capacities are divided by the largest, so that loads and lengths are of order one. */
tutti_status tt_forest_net_open(const struct tt_topo *t, bool even, struct tt_forest_net *ret,
                                struct tutti_error *err)
{
    struct tt_forest_net n = {.t = t, .even = even};
    n.cap = tt_alloc(2 * (size_t)t->nlinks + 2 * (size_t)t->ranks + 1, sizeof *n.cap);
    n.of_link = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *n.of_link);
    n.port[0] = tt_alloc(t->ranks, sizeof(uint32_t));
    n.port[1] = even ? n.port[0] : tt_alloc(t->ranks, sizeof(uint32_t));
    if (!n.cap || !n.of_link || !n.port[0] || !n.port[1] || !tt_forest_work_make(&n)) {
        tt_forest_net_close(&n);
        return tt_fail_memory(err, "forest");
    }
    number_links(&n);
    number_ports(&n);
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

/* Every link of a tree's paths, and the ports at both ends of every edge. */
static void load_tree(const struct tt_forest_net *n, const struct tt_forest_tree *t, double by,
                      double *load)
{
    for (uint32_t i = 0; i < t->nlinks; i++)
        load[n->of_link[t->links[i]]] += by;
    for (uint32_t i = 0; i < t->nedges; i++) {
        uint32_t out = n->port[0][t->edges[i].a], in = n->port[1][t->edges[i].b];
        if (out != UINT32_MAX)
            load[out] += by;
        if (in != UINT32_MAX)
            load[in] += by;
    }
}

void tt_forest_load(const struct tt_forest_net *n, const struct tt_forest_pair *p, double by,
                    double *load)
{
    load_tree(n, &p->up, by, load);
    load_tree(n, &p->down, by, load);
}
