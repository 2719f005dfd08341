/* route_loop.c - routes on products of loops: dimension order, and inside a dimension the fewest
 * links.
 *
 * A route corrects the first dimension, then the second, and so on. Inside one loop of n vertices
 * the route depends only on the offset to go, so a breadth-first search from 0 serves all vertices.
 * Ties: a positive jump before a negative one, then the neighbour that is lower as seen from vertex
 * 0 (the shorter positive, the longer negative jump). The jump n/2 counts as positive.
 *
 *     ring of 5: 0 -> 2 is +1 +1, 0 -> 3 is -1 -1.   ring of 4: 0 -> 2 is +1 +1 (tie).
 *     dln:8 (1 2 4): 0 -> 3 is +1 +2, 0 -> 7 is -1.
 *
 * Cables are ordered axis by axis, class by class (ascending jump), each class in vertex order: a
 * link's id is arithmetic and needs no table. The same order is what is checked: the jumps are read
 * off the first cable of each class, and every other cable must follow. Memory: n entries per
 * dimension. Time: search n * jumps once, then O(1) per link of a route. */
#include "topo/topo_int.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- layout ---- */

/* In a circulant network of switches the ranks' own links 0..ranks-1 come first. */
static uint32_t first_cable(const struct tt_topo *t)
{
    return t->switches ? t->ranks : 0;
}

/* The last dimension varies fastest, so strides grow from the last to the first. */
uint32_t tt_topo_axes(const struct tt_topo *t, struct tt_axis *axes)
{
    if (t->routing == TT_ROUTE_CIRCULANT) {
        uint32_t n = t->switches ? t->switches : t->ranks;
        axes[0] = (struct tt_axis){first_cable(t), n, n, 1, true};
        return 1;
    }
    uint32_t stride = 1;
    for (uint32_t d = t->ndims; d-- > 0;) {
        axes[d] = (struct tt_axis){0, t->ranks, t->dims[d], stride, t->wrap};
        stride *= t->dims[d];
    }
    return t->ndims;
}

/* Coordinates at which a cable of this class begins: 0..limit-1. A mesh of 2 and a torus of 2 are
 * the same single cable. */
static uint32_t limit_of(const struct tt_axis *x, uint32_t jump)
{
    if (!x->wrap)
        return x->n - 1;
    return 2 * jump == x->n ? x->n / 2 : x->n;
}

uint32_t tt_topo_axis_cables(const struct tt_axis *x, uint32_t jump)
{
    return x->total / x->n * limit_of(x, jump);
}

/* Cable i of a class: `inner` varies fastest, then the coordinate, then `outer`. */
void tt_topo_axis_ends(const struct tt_axis *x, uint32_t jump, uint32_t i, uint32_t *ret_a,
                       uint32_t *ret_b)
{
    assert(i < tt_topo_axis_cables(x, jump));
    uint32_t limit = limit_of(x, jump), inner = i % x->stride, c = i / x->stride % limit,
             outer = i / x->stride / limit;
    uint32_t base = x->origin + outer * x->n * x->stride + inner;
    *ret_a = base + c * x->stride;
    *ret_b = base + (c + jump) % x->n * x->stride;
}

/* The directed link from vertex v (counted from the origin) by +jump or -jump of class k. */
static uint32_t link_from(const struct tt_loop *l, uint32_t v, uint32_t k, bool back)
{
    const struct tt_axis *x = &l->axis;
    uint32_t jump = l->jump[k], limit = limit_of(x, jump), c = v / x->stride % x->n,
             outer = v / x->stride / x->n;
    uint32_t begin = back ? (c + x->n - jump) % x->n : c;
    bool reverse = back;
    if (begin >= limit) { /* the class n/2: the cable begins at the other end */
        begin -= x->n / 2;
        reverse = !back;
    }
    assert(k < l->njumps && begin < limit);
    return 2 * (l->base[k] + (outer * limit + begin) * x->stride + v % x->stride) + reverse;
}

/* ---- checking the claim ---- */

static tutti_status fail_cable(const struct tt_topo *t, uint32_t i, struct tutti_error *err)
{
    char a[80], b[80];
    return tt_fail(err, TUTTI_ERR_MISMATCH,
                   "link %u (%s to %s) does not fit: %s, jump by ascending jump, vertex by vertex",
                   i, tt_topo_vertex_name(t, t->links[i].a, a, sizeof a),
                   tt_topo_vertex_name(t, t->links[i].b, b, sizeof b),
                   t->routing == TT_ROUTE_GRID ? "the links of a grid stand dimension by dimension"
                                               : "the links of a circulant network stand");
}

/* The dims must multiply to the ranks; the product is compared after every factor. */
static tutti_status check_shape(const struct tt_topo *t, struct tutti_error *err)
{
    uint64_t product = 1;
    if (t->routing == TT_ROUTE_CIRCULANT) {
        if (t->switches && t->ranks % t->switches)
            return tt_fail(err, TUTTI_ERR_MISMATCH,
                           "%u ranks cannot be spread evenly on %u switches of a loop", t->ranks,
                           t->switches);
        return TUTTI_OK;
    }
    for (uint32_t d = 0; d < t->ndims; d++)
        if (t->dims[d] == 0 || (product *= t->dims[d]) > t->ranks)
            break;
    if (t->ndims == 0 || product != t->ranks || t->switches)
        return tt_fail(
            err, TUTTI_ERR_MISMATCH,
            "a grid needs dims whose product is the number of ranks (%u), and no switches",
            t->ranks);
    return TUTTI_OK;
}

/* In a loop of switches the first links are the ranks' own, in rank order. */
static tutti_status check_hosts(const struct tt_topo *t, struct tutti_error *err)
{
    for (uint32_t r = 0; t->switches && r < t->ranks; r++) {
        if (r >= t->nlinks)
            return tt_fail(err, TUTTI_ERR_MISMATCH,
                           "%u links for %u ranks; a loop of switches begins with a link per rank",
                           t->nlinks, t->ranks);
        if (t->links[r].a != r || t->links[r].b != t->ranks + r / (t->ranks / t->switches))
            return fail_cable(t, r, err);
    }
    return TUTTI_OK;
}

/* Appends a class; either array may be larger than the capacity says after a failure. */
static tutti_status add_class(struct tt_loop *l, uint32_t jump, uint32_t base,
                              struct tutti_error *err)
{
    if (l->njumps == l->capacity) {
        uint32_t cap = l->capacity ? 2 * l->capacity : 4;
        uint32_t *jumps = tt_resize(l->jump, cap, sizeof *jumps);
        l->jump = jumps ? jumps : l->jump;
        uint32_t *bases = tt_resize(l->base, cap, sizeof *bases);
        l->base = bases ? bases : l->base;
        if (!jumps || !bases)
            return tt_fail_memory(err, "routes");
        l->capacity = cap;
    }
    assert(l->njumps < l->capacity && (!l->njumps || jump > l->jump[l->njumps - 1]));
    l->jump[l->njumps] = jump;
    l->base[l->njumps++] = base;
    return TUTTI_OK;
}

/* Reads the class that begins with link i: the axis (not before *d) and the jump. The first cable
 * of a class always begins at the origin. False: link i begins no class. */
static bool read_class(const struct tt_topo *t, const struct tt_routes *r, uint32_t i, uint32_t *d,
                       uint32_t *jump)
{
    const struct tt_link *link = &t->links[i];
    uint32_t origin = r->loop[0].axis.origin;
    if (link->a != origin || link->b <= origin)
        return false;
    uint32_t b = link->b - origin;
    for (; *d < r->nloops; ++*d) {
        const struct tt_loop *l = &r->loop[*d];
        const struct tt_axis *x = &l->axis;
        if (b < x->stride || b / x->stride >= x->n || b % x->stride)
            continue;
        *jump = b / x->stride;
        return (x->wrap ? *jump <= x->n / 2 : *jump == 1) &&
               (l->njumps == 0 || *jump > l->jump[l->njumps - 1]);
    }
    return false;
}

/* Invariant: links before i belong to classes that are complete and in order. */
static tutti_status read_cables(const struct tt_topo *t, struct tt_routes *r,
                                struct tutti_error *err)
{
    uint32_t d = 0, jump;
    for (uint32_t i = first_cable(t); i < t->nlinks;) {
        if (!read_class(t, r, i, &d, &jump))
            return fail_cable(t, i, err);
        const struct tt_axis *x = &r->loop[d].axis;
        uint32_t count = tt_topo_axis_cables(x, jump);
        for (uint32_t k = 0; k < count; k++) {
            uint32_t a, b;
            tt_topo_axis_ends(x, jump, k, &a, &b);
            if (i + k >= t->nlinks)
                return tt_fail(err, TUTTI_ERR_MISMATCH,
                               "the link between vertices %u and %u is missing", a, b);
            if (t->links[i + k].a != a || t->links[i + k].b != b)
                return fail_cable(t, i + k, err);
        }
        tutti_status st = add_class(&r->loop[d], jump, i, err);
        if (st)
            return st;
        i += count;
    }
    return TUTTI_OK;
}

/* ---- tables of one loop ---- */

/* Breadth-first from offset 0; stops when all offsets are reached. */
static void search_loop(struct tt_loop *l, uint32_t *queue)
{
    uint32_t n = l->axis.n, head = 0, tail = 1;
    memset(l->dist, 0xff, n * sizeof *l->dist);
    l->dist[0] = queue[0] = 0;
    while (head < tail && tail < n) {
        uint32_t u = queue[head++];
        for (uint32_t k = 0; k < 2 * l->njumps; k++) {
            uint32_t v = (u + (k & 1 ? n - l->jump[k / 2] : l->jump[k / 2])) % n;
            if (l->dist[v] == UINT32_MAX) {
                l->dist[v] = l->dist[u] + 1;
                queue[tail++] = v;
            }
        }
    }
    assert(tail == n); /* connectivity was checked */
}

/* The first hop towards `offset`: positive jumps from the shortest on, then negative ones from the
 * longest on. */
static uint16_t first_hop(const struct tt_loop *l, uint32_t offset)
{
    uint32_t n = l->axis.n, want = l->dist[offset] - 1;
    for (uint32_t k = 0; k < l->njumps; k++)
        if (l->dist[(offset + n - l->jump[k]) % n] == want)
            return (uint16_t)(2 * k);
    uint32_t k = l->njumps - 1;
    while (l->dist[(offset + l->jump[k]) % n] != want) {
        assert(k > 0); /* the search reached every offset by some jump */
        k--;
    }
    return (uint16_t)(2 * k + 1);
}

/* A line needs no table: the way is along the coordinate. */
static tutti_status make_tables(struct tt_loop *l, struct tutti_error *err)
{
    uint32_t n = l->axis.n;
    if (!l->axis.wrap)
        return TUTTI_OK;
    l->dist = tt_alloc(n, sizeof *l->dist);
    l->next = tt_zalloc(n, sizeof *l->next);
    uint32_t *queue = tt_alloc(n, sizeof *queue);
    if (!l->dist || !l->next || !queue) {
        free(queue);
        return tt_fail_memory(err, "routes");
    }
    /* n/2 jumps of n cables: the limit on links allows about 5800 */
    assert(l->njumps <= UINT16_MAX / 2);
    search_loop(l, queue);
    for (uint32_t o = 1; o < n; o++)
        l->next[o] = first_hop(l, o);
    free(queue);
    return TUTTI_OK;
}

/* The longest route along this loop. */
static uint32_t longest(const struct tt_loop *l)
{
    uint32_t max = l->axis.wrap ? 0 : l->axis.n - 1;
    for (uint32_t o = 0; l->axis.wrap && o < l->axis.n; o++)
        max = l->dist[o] > max ? l->dist[o] : max;
    return max;
}

/* The order matters: axes need a valid shape, classes need axes, tables need classes. */
tutti_status tt_topo_loops_make(const struct tt_topo *t, struct tt_routes *r,
                                struct tutti_error *err)
{
    struct tt_axis axes[TT_TOPO_MAX_DIMS];
    tutti_status st = check_shape(t, err);
    if (!st)
        st = check_hosts(t, err);
    if (st)
        return st;
    r->nloops = tt_topo_axes(t, axes);
    for (uint32_t d = 0; d < r->nloops; d++)
        r->loop[d].axis = axes[d];
    st = read_cables(t, r, err);
    r->max = t->switches ? 2 : 0;
    for (uint32_t d = 0; d < r->nloops && !st; d++) {
        st = make_tables(&r->loop[d], err);
        if (!st)
            r->max += longest(&r->loop[d]);
    }
    return st;
}

void tt_topo_loops_free(struct tt_routes *r)
{
    for (uint32_t d = 0; d < r->nloops; d++) {
        free(r->loop[d].jump);
        free(r->loop[d].base);
        free(r->loop[d].next);
        free(r->loop[d].dist);
    }
}

/* ---- routes ---- */

uint32_t tt_topo_loop_distance(const struct tt_loop *l, uint32_t from, uint32_t to)
{
    if (l->axis.wrap)
        return l->dist[(to + l->axis.n - from) % l->axis.n];
    return from > to ? from - to : to - from;
}

/* Moves *v along this loop until its coordinate equals that of `to`; returns the links taken. */
static uint32_t route_loop_along(const struct tt_loop *l, uint32_t *v, uint32_t to, uint32_t *links)
{
    const struct tt_axis *x = &l->axis;
    uint32_t c = *v / x->stride % x->n, end = to / x->stride % x->n, len = 0;
    *v -= c * x->stride;
    while (c != end) {
        uint32_t hop = x->wrap ? l->next[(end + x->n - c) % x->n] : c > end;
        bool back = hop & 1;
        assert(hop / 2 < l->njumps);
        links[len++] = link_from(l, *v + c * x->stride, hop / 2, back);
        c = (c + (back ? x->n - l->jump[hop / 2] : l->jump[hop / 2])) % x->n;
    }
    *v += end * x->stride;
    return len;
}

/* With switches v and to are positions; the ranks' own links are the first and the last. */
uint32_t tt_topo_loops_route(const struct tt_topo *t, uint32_t src, uint32_t dst, uint32_t *links)
{
    uint32_t len = 0, per = t->switches ? t->ranks / t->switches : 1, v = src / per, to = dst / per;
    if (t->switches)
        links[len++] = 2 * src;
    for (uint32_t d = 0; d < t->routes->nloops; d++)
        len += route_loop_along(&t->routes->loop[d], &v, to, links + len);
    assert(v == to && len <= t->routes->max);
    if (t->switches)
        links[len++] = 2 * dst + 1;
    return len;
}
