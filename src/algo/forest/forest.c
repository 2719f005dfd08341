/* forest.c - a synthesiser for any network: shares of the vector travel on trees that fill the
 * links as evenly as possible.
 *
 * The vector is cut in uneven chunks, one per tree pair: a chunk is summed along an in-tree to its
 * root and handed out along an out-tree. pack.c finds few trees and their weights such that no link
 * carries more than its share; segments pipeline the chunks through the trees. After Blink (MLSys
 * 2020: trees by multiplicative weights) and ForestColl (arXiv 2402.06787: the optimum of
 * all-gather by maximum flow); the pairs with weights of their own, which beat equal shards on
 * uneven networks, are our own derivation.
 *
 *     hosts 0, 1 (speed 4) and 2 (speed 1) on a switch
 *                               tree A: 1-0-2, weight 1/2: 0 has two messages each way, 1 and 2 one
 *                               tree B: 0-1-2, weight 1/2: 1 has two
 *     host 0: 1.5 S of 4, host 1: 1.5 S of 4, host 2: S of 1: the slow host decides, T = S/1
 *     (equal shards: 4/3 S)
 *
 * A rank that adds more slowly than its links bring in (gamma) is given as few children as the rest
 * allows: its additions are packed like the bytes of a link.
 *
 * Cost: in the limit of many segments S/rate, where `tutti plan --summary` prints the rate and the
 * bound on it; steps: the heights of a tree pair; bytes per rank: as many sends of a share as it
 * has edges in the share's trees. A rank waits for its children, then its parent. Reduce-scatter
 * and all-gather: trees of equal weight, the same number for each owner. */
#include "algo/forest/forest.h"

#include <stdlib.h>

#include "algo/algos.h"
#include "algo/phases.h"

enum { MAX_LINKS = 1 << 17 };

enum tt_pack_kind tt_forest_kind_of(tutti_coll c)
{
    return !tt_algo_coll_gathers(c)    ? TT_FOREST_UP
           : !tt_sched_coll_reduces(c) ? TT_FOREST_DOWN
                                       : TT_FOREST_BOTH;
}

/* A rank behind a switch is best served by a tree of its own: more ranks, more trees. */
uint32_t tt_forest_trees(const struct tt_algo_args *a)
{
    uint32_t p = a->problem.ranks, most = p < TT_FOREST_MOST_TREES ? p : TT_FOREST_MOST_TREES;
    return (uint32_t)tt_algo_option_number(&tt_algo_forest, &a->options, "trees",
                                           most > TT_FOREST_TREES ? most : TT_FOREST_TREES);
}

static tutti_status forest_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    const struct tt_topo *t = a->topo;
    bool even = tt_forest_undirected(t, tt_forest_kind_of(a->problem.coll));
    uint32_t most = even ? TT_FOREST_RANKS : TT_FOREST_UNEVEN_RANKS;
    if (t->ranks > most)
        return tt_fail(why, TUTTI_ERR_REFUSED,
                       "%u ranks are too many to pack %strees on: at most %u", t->ranks,
                       even ? "" : "directed ", most);
    if (t->switches > 16 * TT_FOREST_RANKS || t->nlinks > MAX_LINKS)
        return tt_fail(why, TUTTI_ERR_REFUSED,
                       "%u switches and %u links are too many to pack trees on: at most %d and %d",
                       t->switches, t->nlinks, 16 * (int)TT_FOREST_RANKS, (int)MAX_LINKS);
    return TUTTI_OK;
}

/* An upper bound on the chunks: packing (build) decides how many trees are used. */
static tutti_status forest_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                 struct tutti_error *err)
{
    uint32_t trees = tt_forest_trees(a), p = a->problem.ranks;
    (void)err;
    s->chunks = trees > TT_FOREST_COPIES ? trees : TT_FOREST_COPIES;
    if (tt_forest_kind_of(s->coll) != TT_FOREST_BOTH)
        s->chunks = p * tt_forest_per_root(trees, p);
    return TUTTI_OK;
}

/* Chunks with the weights of the trees' copies. */
static bool take_weights(const struct tt_forest_packing *p, struct tt_shape *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->npairs; i++)
        n += p->pairs[i].copies;
    s->chunks = n;
    if (tt_forest_kind_of(s->coll) != TT_FOREST_BOTH)
        return true; /* equal, by the block rule */
    s->weights = tt_alloc(n, sizeof *s->weights);
    for (uint32_t i = 0, at = 0; i < p->npairs && s->weights; i++)
        for (uint32_t c = 0; c < p->pairs[i].copies; c++)
            s->weights[at++] = p->pairs[i].parts;
    return s->weights != NULL;
}

static void forest_build(const struct tt_algo_args *a, struct tt_synthesis *y, struct tt_builder *b)
{
    struct tt_forest_packing packing;
    if (a->problem.ranks == 1) {
        tt_sched_build_rank(b, 0);
        tt_algo_emit_alone(b);
        return;
    }
    b->status = tt_forest_make(a->topo, tt_forest_kind_of(a->problem.coll), tt_forest_trees(a),
                               &packing, &b->err);
    if (b->status)
        return;
    y->report = (struct tt_algo_report){.rate = packing.rate, .dual_rate = packing.dual_rate};
    if (take_weights(&packing, &b->shape))
        tt_forest_list(&packing, a, b);
    else
        b->status = tt_fail_memory(&b->err, "weights");
    tt_forest_packing_free(&packing);
}

/* Packing, counted in operations, then listing and pricing. */
static uint64_t estimate_ops(const struct tt_algo_args *a)
{
    uint32_t trees = tt_forest_trees(a), p = a->problem.ranks;
    uint64_t lists = tt_forest_kind_of(a->problem.coll) == TT_FOREST_BOTH
                         ? 2 * (uint64_t)trees
                         : p * (uint64_t)tt_forest_per_root(trees, p);
    return tt_forest_work_guess(a->topo, tt_forest_kind_of(a->problem.coll), trees) / p +
           16 * lists;
}

static const struct tt_algo_option options[] = {
    {.key = "trees",
     .values = "N",
     .desc = "at most this many trees (64, or as many as ranks up to 256)",
     .min = 1,
     .max = 1024},
    {.key = NULL},
};

const struct tt_algo tt_algo_forest = {
    .name = "forest",
    .desc = "trees packed on the network to fill its links, uneven ones too, with a bound on what "
            "any trees could reach",
    .needs = "a topology of any kind, up to 1024 ranks (192 where links differ by direction, and "
             "for reduce-scatter and all-gather)",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .needs_topo = true,
    .pipelined = true,
    .options = options,
    .probe = forest_probe,
    .shape = forest_shape,
    .build = forest_build,
    .any_size = true,
    .estimate_ops = estimate_ops,
};
