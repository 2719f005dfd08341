/* route.c - which links a message takes. Where the network has a closed form, it is used; each form
 * first checks that the links really are those it assumes, so that a file cannot claim a structure
 * it does not have.
 *
 *     star       up the sender's link, down the receiver's: O(1), no table
 *     fat-tree   up to the nearest common ancestor, then down: at level l the way up sets digit l
 *                of the switch number to digit l of the destination, so that each root serves few
 *                destinations and a permutation spreads over all of them: O(levels)
 *     loops      ring, dln, full (circulant) and torus, mesh, hypercube, dln2d (grid): route_loop.c
 *     shortest   everything else: route_shortest.c */
#include "topo/topo_int.h"

#include <assert.h>
#include <stdlib.h>

void tt_topo_routes_free(struct tt_routes *r)
{
    if (!r)
        return;
    tt_topo_loops_free(r);
    tt_topo_shortest_free(r);
    free(r);
}

static tutti_status fail_link(const struct tt_topo *t, const char *shape, uint32_t i,
                              const uint32_t want[2], struct tutti_error *err)
{
    char a[80], b[80], c[80], d[80];
    return tt_fail(
        err, TUTTI_ERR_MISMATCH, "link %u joins %s and %s, but link %u of a %s joins %s and %s", i,
        tt_topo_vertex_name(t, t->links[i].a, a, sizeof a),
        tt_topo_vertex_name(t, t->links[i].b, b, sizeof b), i, shape,
        tt_topo_vertex_name(t, want[0], c, sizeof c), tt_topo_vertex_name(t, want[1], d, sizeof d));
}

/* ---- star ---- */

/* Link r must be rank r's own: then routes are two link ids. */
static tutti_status make_star(const struct tt_topo *t, struct tt_routes *r, struct tutti_error *err)
{
    if (t->switches != 1 || t->nlinks != t->ranks)
        return tt_fail(
            err, TUTTI_ERR_MISMATCH,
            "%u switches and %u links for %u ranks; a star has one switch and a link per rank",
            t->switches, t->nlinks, t->ranks);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        uint32_t want[2] = {i, t->ranks};
        if (t->links[i].a != want[0] || t->links[i].b != want[1])
            return fail_link(t, "star", i, want, err);
    }
    r->max = 2;
    return TUTTI_OK;
}

/* ---- fat-tree ---- */

/* Only one arity has arity^levels ranks and levels * arity^(levels-1) switches: levels * ranks /
 * switches is the arity, so each number of levels has at most one candidate. */
static bool find_fattree(const struct tt_topo *t, struct tt_fattree *ret)
{
    for (uint32_t levels = 1; levels <= 20; levels++) {
        uint64_t arity = (uint64_t)levels * t->ranks / t->switches;
        if (arity >= 2 && tt_topo_fattree_make(arity, levels, ret) && ret->ranks == t->ranks &&
            ret->levels * ret->row == t->switches)
            return true;
    }
    return false;
}

static tutti_status make_fattree(const struct tt_topo *t, struct tt_routes *r,
                                 struct tutti_error *err)
{
    if (t->switches == 0 || !find_fattree(t, &r->fattree) || t->nlinks != r->fattree.nlinks)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "no m-ary n-level fat-tree has %u ranks (m^n), %u switches (n m^(n-1)) and "
                       "%u links (n m^n)",
                       t->ranks, t->switches, t->nlinks);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        uint32_t want[2];
        tt_topo_fattree_ends(&r->fattree, i, &want[0], &want[1]);
        if (t->links[i].a != want[0] || t->links[i].b != want[1])
            return fail_link(t, "fat-tree", i, want, err);
    }
    r->max = 2 * r->fattree.levels;
    return TUTTI_OK;
}

/* w is a switch's number in its level. Going up from level l replaces its digit l (of weight pow)
 * by that of `dst`; the way down from level l+1 to dst uses the cables of the switch of level l on
 * dst's side. Invariant: `w` is the switch of this level above src, `below` the one above dst, both
 * with the lower digits of dst; they are equal at the nearest common ancestor. */
static uint32_t route_fattree(const struct tt_fattree *f, uint32_t src, uint32_t dst,
                              uint32_t *links)
{
    uint32_t m = f->arity, level = 0, w = src / m, below = dst / m, down[20];
    links[0] = 2 * src;
    down[0] = 2 * dst + 1;
    for (uint32_t pow = 1; w != below; pow *= m) {
        assert(level + 1 < f->levels);
        uint32_t digit = dst / pow % m, first = (level + 1) * f->ranks;
        links[1 + level] = 2 * (first + w * m + digit);
        down[1 + level] = 2 * (first + below * m + digit) + 1;
        w += (digit - w / pow % m) * pow;
        below += (digit - below / pow % m) * pow;
        level++;
    }
    /* The way down was collected from its end: reverse it. */
    assert(level < f->levels);
    for (uint32_t i = 0; i <= level; i++)
        links[1 + level + i] = down[level - i];
    return 2 * (level + 1);
}

/* ---- all ---- */

/* Fails when the links are not those of the claimed routing. t->routes stays for tt_topo_free. */
tutti_status tt_topo_routes_make(struct tt_topo *t, struct tutti_error *err)
{
    t->routes = tt_zalloc(1, sizeof *t->routes);
    if (!t->routes)
        return tt_fail_memory(err, "routes");
    switch (t->routing) {
    case TT_ROUTE_STAR:
        return make_star(t, t->routes, err);
    case TT_ROUTE_FATTREE:
        return make_fattree(t, t->routes, err);
    case TT_ROUTE_GRID:
    case TT_ROUTE_CIRCULANT:
        return tt_topo_loops_make(t, t->routes, err);
    case TT_ROUTE_SHORTEST:
        break;
    }
    return tt_topo_shortest_make(t, t->routes, err);
}

uint32_t tt_topo_max_route(const struct tt_topo *t)
{
    assert(t->routes);
    return t->routes->max;
}

/* Everything that needs memory was made with the topology, except for searches per query
 * (route_shortest.c). */
tutti_status tt_topo_route(const struct tt_topo *t, uint32_t src, uint32_t dst, uint32_t *links,
                           uint32_t cap, uint32_t *ret_len, struct tutti_error *err)
{
    if (src >= t->ranks || dst >= t->ranks || src == dst)
        return tt_fail(err, TUTTI_ERR_ARG, "no route from rank %u to rank %u of %u ranks", src, dst,
                       t->ranks);
    if (cap < t->routes->max)
        return tt_fail(err, TUTTI_ERR_ARG, "room for %u links of a route; up to %u are needed", cap,
                       t->routes->max);
    switch (t->routing) {
    case TT_ROUTE_STAR:
        links[0] = 2 * src;
        links[1] = 2 * dst + 1;
        *ret_len = 2;
        return TUTTI_OK;
    case TT_ROUTE_FATTREE:
        *ret_len = route_fattree(&t->routes->fattree, src, dst, links);
        assert(*ret_len <= t->routes->max);
        return TUTTI_OK;
    case TT_ROUTE_GRID:
    case TT_ROUTE_CIRCULANT:
        *ret_len = tt_topo_loops_route(t, src, dst, links);
        assert(*ret_len <= t->routes->max);
        return TUTTI_OK;
    case TT_ROUTE_SHORTEST:
        break;
    }
    return tt_topo_shortest_route(t, src, dst, links, ret_len, err);
}
