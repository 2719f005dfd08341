/* plan.c - the common plan of all ranks of a shift halving-doubling: the grid, and the order of the
 * distances in every dimension.
 *
 * The order: message i of a reduce-scatter carries about 2^-i of the vector, so the distances that
 * cost the network least come first. The cost of a distance is how many messages a link carries
 * when every member sends that far at once. On a loop network that is exact: the route of one
 * member, its links counted by jump. Elsewhere the length of rank 0's route is used instead. The
 * distance n/2 is its own inverse: its cable carries both ends' messages, so where both directions
 * are used anyhow (direction=both) or a cable is half duplex it counts double. Of equal ones the
 * farthest comes first, since its messages have the fewest ranges of chunks.
 *
 *     dln:16,t=2 (cables 1, 4, 8), one direction: 8, 4 and 1 cost 1, 2 costs 2    ->  8 4 1 2
 *     dln:16 with direction=both: 8 costs 2                                       ->  4 2 1 8
 *     ring:16: a distance costs itself                                            ->  1 2 4 8
 *
 * Copy c begins with another of the cheapest distances, so that copies are on different cables in
 * every step. */
#include "algo/algos.h"
#include "algo/shd/shd.h"

#include <assert.h>
#include <stdlib.h>

/* ---- the grid ---- */

static void add_dim(struct tt_shd *h, uint32_t size, uint32_t weight)
{
    assert(h->ndims < countof(h->dim));
    if (size > 1)
        h->dim[h->ndims++] =
            (struct tt_shd_dim){.size = size, .weight = weight, .loop = tt_shd_loop_make(size)};
}

/* "AxB": A hosts of B ranks, or rows of B. */
static bool parse_grid(const char *text, uint32_t ranks, uint32_t *ret_inner)
{
    char *end = NULL;
    if (*text < '0' || *text > '9')
        return false;
    unsigned long a = strtoul(text, &end, 10);
    if (*end != 'x' || end[1] < '0' || end[1] > '9')
        return false;
    unsigned long b = strtoul(end + 1, &end, 10);
    if (*end || a == 0 || b == 0 || a > ranks || b > ranks || (uint64_t)a * b != ranks)
        return false;
    *ret_inner = (uint32_t)b;
    return true;
}

/* Ranks that vary fastest, 1: flat. A grid of two dimensions turns; several hosts on a position of
 * a loop network begin inside. */
static uint32_t inner_of(const struct tt_topo *t, bool *ret_turns)
{
    *ret_turns = t && t->ndims == 2;
    if (*ret_turns)
        return t->dims[1];
    bool hosts = t && t->routing == TT_ROUTE_CIRCULANT && t->switches > 0;
    return hosts ? t->ranks / t->switches : 1;
}

static tutti_status make_grid(const struct tt_algo_args *a, struct tt_shd *h,
                              struct tutti_error *err)
{
    const char *text = tt_algo_option_text(&tt_algo_shd, &a->options, "grid");
    uint32_t inner = 1;
    if (tt_streq(text, "auto"))
        inner = inner_of(a->topo, &h->turns);
    else if (!tt_streq(text, "flat") && !parse_grid(text, h->ranks, &inner))
        return tt_fail(err, TUTTI_ERR_REFUSED,
                       "grid '%s' is not AxB (or auto, flat) with A*B = %u ranks", text, h->ranks);
    add_dim(h, inner, 1);
    add_dim(h, h->ranks / inner, inner);
    return TUTTI_OK;
}

/* ---- the order ---- */

/* The coordinate of a vertex along a dimension; a switch represents all its hosts. False for
 * vertices that have none. */
static bool coordinate(const struct tt_topo *t, const struct tt_shd_dim *d, uint32_t v,
                       uint32_t *ret)
{
    uint32_t hosts = t->switches ? t->ranks / t->switches : 1;
    if (t->switches && (v < t->ranks || d->weight % hosts))
        return false;
    *ret = (t->switches ? v - t->ranks : v) / (d->weight / hosts) % d->size;
    return true;
}

/* The most links of a route that have the same jump: so many messages a link carries when all
 * members send along. */
static uint32_t most_of_a_jump(const struct tt_topo *t, const struct tt_shd_dim *d,
                               const uint32_t *route, uint32_t n)
{
    uint32_t best = 1, jumps[2 * TT_SHD_LEVELS + 2] = {0}, counts[2 * TT_SHD_LEVELS + 2] = {0},
             known = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct tt_link *link = &t->links[route[i] / 2];
        bool back = route[i] & 1;
        uint32_t from, to, k = 0;
        if (!coordinate(t, d, back ? link->b : link->a, &from) ||
            !coordinate(t, d, back ? link->a : link->b, &to))
            continue;
        uint32_t jump = to >= from ? to - from : to + (d->size - from);
        while (k < known && jumps[k] != jump)
            k++;
        if (k == countof(jumps))
            continue;
        known += k == known;
        jumps[k] = jump;
        best = ++counts[k] > best ? counts[k] : best;
    }
    return best;
}

/* The cost of each distance. Without knowledge of the network all cost the same. */
static tutti_status plan_weigh(const struct tt_topo *t, const struct tt_shd *h,
                               const struct tt_shd_dim *d, uint32_t *weight,
                               struct tutti_error *err)
{
    uint32_t *route = t ? tt_alloc((size_t)tt_topo_max_route(t) + 1, sizeof *route) : NULL;
    tutti_status st = t && !route ? tt_fail_memory(err, "shd") : TUTTI_OK;
    bool half = t && t->nlinks > 0 && t->links[0].half,
         loops = t && (t->routing == TT_ROUTE_CIRCULANT || t->routing == TT_ROUTE_GRID);
    for (uint32_t k = 0; k < d->loop.levels && !st; k++) {
        uint32_t n = 1, jump = d->loop.jump[k];
        if (t)
            st = tt_topo_route(t, 0, jump * d->weight, route, tt_topo_max_route(t), &n, err);
        weight[k] = !st && loops ? most_of_a_jump(t, d, route, n) : n;
        if (2 * (uint64_t)jump == d->size && (half || h->directions == 2))
            weight[k] *= 2;
    }
    free(route);
    return st;
}

/* Insertion keeps equal ones in their order: falling distances. */
static void sort_steps(struct tt_shd_dim *d, const uint32_t *weight)
{
    for (uint32_t i = 1; i < d->loop.levels; i++) {
        uint8_t level = d->order.step[i];
        uint32_t j = i;
        for (; j > 0 && weight[d->order.step[j - 1]] > weight[level]; j--)
            d->order.step[j] = d->order.step[j - 1];
        d->order.step[j] = level;
    }
    d->cheapest = 1;
    while (d->cheapest < d->loop.levels &&
           weight[d->order.step[d->cheapest]] == weight[d->order.step[0]])
        d->cheapest++;
}

static tutti_status make_order(const struct tt_algo_args *a, const struct tt_shd *h,
                               struct tt_shd_dim *d, struct tutti_error *err)
{
    char first = tt_algo_option_text(&tt_algo_shd, &a->options, "order")[0];
    uint32_t weight[TT_SHD_LEVELS], levels = d->loop.levels;
    for (uint32_t i = 0; i < levels; i++)
        d->order.step[i] = (uint8_t)(first == 'n' ? levels - 1 - i : i);
    d->cheapest = levels;
    if (first != 'a')
        return TUTTI_OK;
    tutti_status st = plan_weigh(a->topo, h, d, weight, err);
    if (!st)
        sort_steps(d, weight);
    return st;
}

tutti_status tt_shd_make(const struct tt_algo_args *a, struct tt_shd *ret, struct tutti_error *err)
{
    struct tt_shd h = {.ranks = a->problem.ranks};
    h.directions =
        tt_streq(tt_algo_option_text(&tt_algo_shd, &a->options, "direction"), "both") ? 2 : 1;
    h.copies = (uint32_t)tt_algo_option_number(&tt_algo_shd, &a->options, "copies", 1);
    h.parts = h.directions * h.copies;
    if ((uint64_t)h.parts * h.ranks > UINT32_MAX)
        return tt_fail(err, TUTTI_ERR_REFUSED, "too many chunks: %u parts of %u ranks", h.parts,
                       h.ranks);
    tutti_status st = make_grid(a, &h, err);
    for (uint32_t i = 0; i < h.ndims && !st; i++)
        st = make_order(a, &h, &h.dim[i], err);
    if (!st)
        *ret = h;
    return st;
}

const struct tt_shd_dim *tt_shd_phase(const struct tt_shd *h, uint32_t part, uint32_t i,
                                      struct tt_shd_order *ret)
{
    uint32_t copy = part / h->directions, turn = h->turns ? copy % h->ndims : 0,
             by = h->turns ? copy / h->ndims : copy;
    const struct tt_shd_dim *d = &h->dim[(turn + i) % h->ndims];
    *ret = d->order;
    for (uint32_t k = 0; k < d->cheapest; k++)
        ret->step[k] = d->order.step[(k + by) % d->cheapest];
    return d;
}
