/* equal.c - trees of equal weight: they share links fairly without priorities, and few trees mean
 * few messages.
 *
 * 1. The trees are laid one after the other, each the cheapest under lengths that grow
 *    exponentially with the load of a resource (multiplicative weights), then taken out and laid
 *    again while that spreads the load better, with ever steeper lengths.
 * 2. Edges are exchanged one by one until no resource is beyond its limit (swap.c).
 *
 * How many trees? n trees load a resource of capacity c in whole trees: at most floor(M c) when the
 * busiest one takes the time M. The best lengths l known (pack.c) demand sum of floor(M c) l >= n *
 * cheapest(l), which gives the least M of every n before anything is laid:
 *
 *     torus 8x8, 128 cables, 63 edges per tree:    n =  2: M =  1, rate 2
 *                                                  n = 64: M = 32, rate 2
 *                                                  n = 65: M = 32, rate 2.03
 *
 * A star around every rank, which needs no pipelining, is taken where that fits. Otherwise the
 * numbers that could come near the bound are tried: few, then the number of ranks, then all. Where
 * no number up to `trees` is good enough, one of up to half as many again may be: then some trees
 * count twice.
 *
 * Trees for reduce-scatter or all-gather alone have given roots, the same number for each. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/forest/pack.h"

enum { GENTLE = 8, STEEPEST = 96, TRIES = 10, TIGHTENED = 4, BREAKPOINTS = 400 };
static const double CLEARLY = 1.001;
static const double SHALLOW = 0.2; /* see struct tt_forest_query */
/* How far below the bound a number of trees may stay because trees are whole, pass by pass; a rate
 * within REACHED of that ends the search. */
static const double ALLOWED[] = {0.002, 0.005, 0.01}, REACHED = 0.001;

/* About e^x, the same on every machine. */
static double equal_grow(double x)
{
    double y = 1 + x / 256;
    for (int i = 0; i < 8; i++)
        y *= y;
    return y;
}

/* ---- laying ---- */

static double potential(const struct tt_forest_packer *k, const double *load, double steep)
{
    double sum = 0;
    for (uint32_t e = 0; e < k->net.nres; e++)
        sum += equal_grow(steep * load[e] / k->net.cap[e]);
    return sum;
}

static void set_lengths(struct tt_forest_packer *k, double steep)
{
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->length[e] = equal_grow(steep * k->load[e] / k->net.cap[e]) / k->net.cap[e];
}

static uint32_t root_of(const struct tt_forest_packer *k, uint32_t i)
{
    uint32_t p = k->net.t->ranks;
    return k->kind == TT_FOREST_BOTH ? (uint32_t)((uint64_t)i * 0x9e3779b1u % p) : i / k->per_root;
}

/* Lays tree i, for the first time or again; a new tree is kept only if it lowers the potential. */
static tutti_status lay(struct tt_forest_packer *k, uint32_t i, bool again, double steep,
                        struct tutti_error *err)
{
    struct tt_forest_pair fresh, *old = again ? tt_forest_packer_pair(k, i) : NULL;
    struct tt_forest_query q = {.kind = k->kind,
                                .root = root_of(k, i),
                                .roots = k->kind == TT_FOREST_BOTH ? 2 : 1,
                                .length = k->length,
                                .shallow = SHALLOW};
    assert(!again || i < k->pairs.len);
    double before = again ? potential(k, k->load, steep) : 0, cost;
    if (again)
        tt_forest_load(&k->net, old, -1, k->load);
    set_lengths(k, steep);
    tutti_status st = tt_forest_packer_ask(k, &q, &fresh, &cost, err);
    if (st)
        return st;
    fresh.weight = fresh.copies = 1;
    tt_forest_load(&k->net, &fresh, 1, k->load);
    if (!again) {
        if (tt_vec_push(&k->pairs, &fresh, 1))
            return TUTTI_OK;
        tt_forest_pair_free(&fresh);
        return tt_fail_memory(err, "trees");
    }
    if (potential(k, k->load, steep) < before) {
        tt_forest_pair_free(old);
        *old = fresh;
        return TUTTI_OK;
    }
    tt_forest_load(&k->net, &fresh, -1, k->load);
    tt_forest_load(&k->net, old, 1, k->load);
    tt_forest_pair_free(&fresh);
    return TUTTI_OK;
}

tutti_status tt_forest_lay(struct tt_forest_packer *k, uint32_t trees, struct tutti_error *err)
{
    uint64_t each = tt_forest_packer_query_work(k, k->kind == TT_FOREST_BOTH ? 2 : 1);
    tutti_status st = TUTTI_OK;
    memset(k->load, 0, k->net.nres * sizeof *k->load);
    for (uint32_t i = 0; i < trees && !st; i++) {
        double top = tt_forest_packer_busiest(k, k->load);
        tt_forest_packer_spend(k, each);
        st = lay(k, i, false, top > 0 ? GENTLE / top : 0, err);
    }
    for (uint32_t round = 0; round < TT_FOREST_ROUNDS && !st; round++) {
        double steep = GENTLE + (double)(STEEPEST - GENTLE) * round / (TT_FOREST_ROUNDS - 1);
        double top = tt_forest_packer_busiest(k, k->load);
        for (uint32_t i = 0; i < trees && !st && tt_forest_packer_spend(k, each); i++)
            st = lay(k, i, true, steep / top, err);
    }
    return st;
}

/* ---- given roots ---- */

/* Puts k->pairs in place of *best if their rate is clearly higher. */
static void keep_better(struct tt_forest_packer *k, double rate, double than, struct tt_vec *best,
                        double *best_rate)
{
    if (rate <= than) {
        tt_forest_packer_free_pairs(&k->pairs);
    } else {
        tt_forest_packer_free_pairs(best);
        *best = k->pairs;
        *best_rate = rate;
    }
    k->pairs = (struct tt_vec){.elem = sizeof(struct tt_forest_pair)};
}

tutti_status tt_forest_equal_rooted(struct tt_forest_packer *k, uint32_t most,
                                    struct tutti_error *err)
{
    struct tt_vec best = {.elem = sizeof(struct tt_forest_pair)};
    double best_rate = 0;
    tutti_status st = TUTTI_OK;
    for (uint32_t n = 1; n <= most && n <= 8 && !st; n++) {
        k->per_root = n;
        st = tt_forest_lay(k, n * k->net.t->ranks, err);
        double rate = st ? 0 : n * k->net.t->ranks / tt_forest_packer_busiest(k, k->load);
        keep_better(k, rate, best_rate * CLEARLY, &best, &best_rate);
    }
    k->pairs = best;
    return st;
}

/* ---- how many, when roots are free ---- */

static double equal_whole(double x)
{
    return (double)(uint64_t)(x * (1 + 1e-12) + 1e-9);
}

/* The least time M > above of the busiest resource that the best lengths allow n trees of equal
 * weight. */
static double least_top(const struct tt_forest_packer *k, uint32_t n, double above)
{
    double top = n / k->dual, need = top * (1 - 1e-9);
    for (int i = 0; i < BREAKPOINTS; i++) {
        double sum = 0, next = 1e300;
        for (uint32_t e = 0; e < k->net.nres; e++) {
            double c = k->net.cap[e], fits = equal_whole(top * c);
            sum += fits * k->best_length[e];
            next = k->best_length[e] > 0 && (fits + 1) / c < next ? (fits + 1) / c : next;
        }
        if (sum >= need && top > above * (1 + 1e-9))
            return top;
        top = next;
    }
    return top;
}

static void set_limits(struct tt_forest_packer *k, double top)
{
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->limit[e] = (uint32_t)equal_whole(top * k->net.cap[e]);
}

/* Exchanges edges until the busiest resource takes the least time possible, or the next one above
 * that. */
static tutti_status tighten(struct tt_forest_packer *k, uint32_t n, struct tutti_error *err)
{
    double top = least_top(k, n, 0);
    tutti_status st = TUTTI_OK;
    for (int i = 0; i < TIGHTENED && !st && top < tt_forest_packer_busiest(k, k->load) * (1 - 1e-9);
         i++) {
        uint64_t share = k->work / 8, left = share, excess = 0;
        set_limits(k, top);
        st = tt_forest_swap(&k->net, k->pairs.data, k->pairs.len, k->limit, &left, &excess, err);
        k->work -= share - left;
        tt_forest_packer_reload(k);
        top = least_top(k, n, top);
    }
    return st;
}

/* Tries n copies on at most `trees` trees. */
static tutti_status try_equal(struct tt_forest_packer *k, uint32_t n, uint32_t trees,
                              struct tt_vec *best, double *best_rate, struct tutti_error *err)
{
    uint32_t different = n < trees ? n : trees;
    tutti_status st = tt_forest_lay(k, different, err);
    assert(n - different <= different);
    for (uint32_t i = 0; i < n - different && !st; i++)
        tt_forest_packer_pair(k, i)->weight = tt_forest_packer_pair(k, i)->copies = 2;
    tt_forest_packer_reload(k);
    if (!st)
        st = tighten(k, n, err);
    keep_better(k, !st ? n / tt_forest_packer_busiest(k, k->load) : 0, *best_rate * CLEARLY, best,
                best_rate);
    return st;
}

/* A star around every rank: two steps, nothing to pipeline. Only where ranks reach each other
 * without passing through others. */
static tutti_status try_stars(struct tt_forest_packer *k, struct tt_vec *best, double *best_rate,
                              struct tutti_error *err)
{
    uint32_t p = k->net.t->ranks;
    double need = k->dual * (1 - ALLOWED[0]);
    tutti_status st = TUTTI_OK;
    memset(k->load, 0, k->net.nres * sizeof *k->load);
    for (uint32_t r = 0; r < p && !st; r++) {
        struct tt_forest_pair star = {.weight = 1, .copies = 1};
        double top = tt_forest_packer_busiest(k, k->load);
        tt_forest_packer_spend(k, tt_forest_packer_query_work(k, 1));
        set_lengths(k, top > 0 ? GENTLE / top : 0);
        st = tt_forest_star(&k->net, r, k->length, &star.down, err);
        if (!st && star.down.nedges == 0)
            break;
        if (!st && !tt_vec_push(&k->pairs, &star, 1)) {
            tt_forest_pair_free(&star);
            st = tt_fail_memory(err, "trees");
        }
        if (!st)
            tt_forest_load(&k->net, &star, 1, k->load);
    }
    bool all = !st && k->pairs.len == p;
    keep_better(k, all ? p / tt_forest_packer_busiest(k, k->load) : 0, need, best, best_rate);
    return st;
}

/* Could n trees of equal weight reach this share of the bound, and more than the best so far? */
static bool might_reach(const struct tt_forest_packer *k, uint32_t n, double part, double best_rate)
{
    double could = n / least_top(k, n, 0);
    return could >= k->dual * part && could > best_rate * CLEARLY;
}

static bool equal_tried(uint32_t n, const uint32_t *ns, uint32_t count)
{
    while (count > 0)
        if (ns[--count] == n)
            return true;
    return false;
}

/* From 0 on: half as many as ranks or fewer, as many as ranks, all numbers. */
static uint32_t equal_number(uint32_t i, uint32_t ranks)
{
    uint32_t few = ranks / 2;
    return i < few ? i + 1 : i == few ? ranks : i - few;
}

tutti_status tt_forest_equal(struct tt_forest_packer *k, uint32_t trees, struct tt_vec *best,
                             double *best_rate, struct tutti_error *err)
{
    uint32_t p = k->net.t->ranks, most = trees + trees / 2, ns[TRIES], tries = 0;
    tutti_status st = TUTTI_OK;
    if (k->net.even && p <= trees && best->len == 0)
        st = try_stars(k, best, best_rate, err);
    for (size_t pass = 0; pass < countof(ALLOWED) && !st; pass++) {
        double part = 1 - ALLOWED[pass];
        for (uint32_t i = 0; i < most + p / 2 + 1 && tries < TRIES; i++) {
            uint32_t n = equal_number(i, p);
            if (*best_rate >= k->dual * (part - REACHED))
                return TUTTI_OK;
            if (n > most || !might_reach(k, n, part, *best_rate) || equal_tried(n, ns, tries))
                continue;
            ns[tries++] = n;
            st = try_equal(k, n, trees, best, best_rate, err);
            if (st)
                return st;
        }
    }
    return TUTTI_OK;
}
