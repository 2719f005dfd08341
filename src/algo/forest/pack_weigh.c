/* pack_weigh.c - the best weights of the trees that were laid, by column generation (steps 2 and 3
 * of pack.c).
 *
 * The linear program (lp.c) has a row per resource and a column per tree. Its prices are lengths:
 * when the cheapest tree under them costs less than one, it joins as a column. Prices that jump
 * find poor trees, so they are pulled towards the best ones so far (`smooth`). Afterwards the
 * heaviest trees are kept, as many as were asked for, and weighed anew. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/forest/pack.h"

enum { PRUNING = 200000000 }; /* work of it, counted as in pack.c */
/* rate and bound this close count as equal */
static const double CLOSE = 0.0005;

/* The pair's use of every resource, as a share of its capacity. */
static bool add_column(struct tt_forest_packer *k, struct tt_forest_lp *lp,
                       const struct tt_forest_pair *p)
{
    memset(k->use, 0, k->net.nres * sizeof *k->use);
    tt_forest_load(&k->net, p, 1, k->use);
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->use[e] /= k->net.cap[e];
    return tt_forest_lp_add(lp, k->use);
}

/* Gives the pairs their weights; returns the rate at which the busiest resource is full. */
static double take_weights(struct tt_forest_packer *k, const struct tt_forest_lp *lp,
                           double *weight)
{
    assert(k->pairs.len > 0);
    double sum = tt_forest_lp_weights(lp, weight);
    memset(k->load, 0, k->net.nres * sizeof *k->load);
    for (size_t i = 0; i < k->pairs.len; i++) {
        tt_forest_packer_pair(k, i)->weight = weight[i];
        tt_forest_load(&k->net, tt_forest_packer_pair(k, i), weight[i], k->load);
    }
    return sum / tt_forest_packer_busiest(k, k->load);
}

/* Prices of the program as lengths, pulled towards the best lengths so far. */
static void smooth(struct tt_forest_packer *k, const struct tt_forest_lp *lp, double pull)
{
    double sum = 0;
    tt_forest_lp_prices(lp, k->use);
    for (uint32_t e = 0; e < k->net.nres; e++)
        sum += k->use[e];
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->length[e] = (1 - pull) * k->use[e] / (sum * k->net.cap[e]) + pull * k->best_length[e];
}

/* One round of column generation; false when nothing more can be gained. */
static tutti_status generate(struct tt_forest_packer *k, struct tt_forest_lp *lp, double *pull,
                             bool *ret_more, struct tutti_error *err)
{
    struct tt_forest_pair fresh;
    struct tt_forest_query q = {
        .kind = TT_FOREST_BOTH, .roots = k->net.t->ranks, .length = k->length};
    double cost, reduced = 1;
    smooth(k, lp, *pull);
    tutti_status st = tt_forest_packer_ask(k, &q, &fresh, &cost, err);
    if (st)
        return st;
    memset(k->load, 0, k->net.nres * sizeof *k->load);
    tt_forest_load(&k->net, &fresh, 1, k->load);
    for (uint32_t e = 0; e < k->net.nres; e++) /* use[] still holds the prices */
        reduced -= k->load[e] / k->net.cap[e] * k->use[e];
    *ret_more = true;
    if (reduced <= 1e-7) { /* no cheaper by the true prices */
        tt_forest_pair_free(&fresh);
        *ret_more = *pull > 0.01;
        *pull = *pull > 0.01 ? *pull / 2 : 0;
        return TUTTI_OK;
    }
    *pull = 0.7;
    *ret_more = add_column(k, lp, &fresh);
    if (*ret_more && tt_vec_push(&k->pairs, &fresh, 1))
        return TUTTI_OK;
    tt_forest_pair_free(&fresh);
    return *ret_more ? tt_fail_memory(err, "trees") : TUTTI_OK;
}

/* Generates columns until rate and bound meet, nothing is gained, or work runs out. */
static tutti_status pack_improve(struct tt_forest_packer *k, struct tt_forest_lp *lp,
                                 double *weight, struct tutti_error *err)
{
    double pull = 0.7;
    bool more = true;
    tutti_status st = TUTTI_OK;
    tt_forest_lp_solve(lp, &k->work);
    while (more && !st &&
           tt_forest_packer_spend(k, tt_forest_packer_query_work(k, k->net.t->ranks))) {
        if (tt_forest_lp_weights(lp, weight) * (1 + CLOSE) >= k->dual)
            break;
        st = generate(k, lp, &pull, &more, err);
        if (!st && !tt_forest_lp_solve(lp, &k->work))
            more = false;
    }
    return st;
}

static int by_weight(const void *a, const void *b)
{
    double x = ((const struct tt_forest_pair *)a)->weight,
           y = ((const struct tt_forest_pair *)b)->weight;
    return x > y ? -1 : x < y;
}

/* Keeps the heaviest `most` pairs that have a weight at all. */
static void keep_heaviest(struct tt_forest_packer *k, size_t most)
{
    size_t n = 0;
    qsort(k->pairs.data, k->pairs.len, sizeof(struct tt_forest_pair), by_weight);
    while (n < k->pairs.len && n < most && tt_forest_packer_pair(k, n)->weight > 1e-9)
        n++;
    for (size_t i = n; i < k->pairs.len; i++)
        tt_forest_pair_free(tt_forest_packer_pair(k, i));
    k->pairs.len = n;
}

/* A program over the present pairs; `more`: with room for generated columns. */
static tutti_status pack_solve(struct tt_forest_packer *k, bool more, double *ret_rate,
                               struct tutti_error *err)
{
    uint32_t most = (uint32_t)k->pairs.len + (more ? TT_FOREST_GENERATED : 0);
    struct tt_forest_lp *lp = tt_forest_lp_make(k->net.nres, most);
    double *weight = tt_zalloc(most, sizeof *weight);
    tutti_status st = lp && weight ? TUTTI_OK : tt_fail_memory(err, "weights of trees");
    for (size_t i = 0; i < k->pairs.len && !st; i++)
        add_column(k, lp, tt_forest_packer_pair(k, i));
    if (!st && more)
        st = pack_improve(k, lp, weight, err);
    else if (!st)
        tt_forest_lp_solve(lp, &k->work);
    if (!st)
        *ret_rate = take_weights(k, lp, weight);
    tt_forest_lp_free(lp);
    free(weight);
    return st;
}

tutti_status tt_forest_pack_weigh(struct tt_forest_packer *k, uint32_t trees, double *ret_rate,
                                  struct tutti_error *err)
{
    size_t used = SIZE_MAX;
    tutti_status st = pack_solve(k, true, ret_rate, err);
    k->work += PRUNING; /* the packing must shrink to `trees` trees; these programs are small */
    while (!st) {
        keep_heaviest(k, used);
        used = k->pairs.len;
        if (used <= trees)
            break;
        used = used * 3 / 4 > trees ? used * 3 / 4 : trees;
        keep_heaviest(k, used);
        st = pack_solve(k, false, ret_rate, err);
    }
    return st;
}
