/* pack.c - which trees carry which share of the vector: a packing close to the best one, and a
 * proof of how close.
 *
 * 1. `trees` trees of equal weight are laid one after the other, each the cheapest under lengths
 *    that grow exponentially with the load of a resource (multiplicative weights), then taken out
 *    and laid again while that spreads the load better, with ever steeper lengths.
 * 2. The best weights of these trees are a linear program (lp.c). Its prices are lengths again: a
 *    tree cheaper than they allow improves the packing and joins it (column generation, with prices
 *    pulled towards the best ones so far, which keeps them from jumping).
 * 3. The heaviest `trees` trees are kept and their weights found anew, for as long as more than
 *    that many are in use.
 *
 * Every set of lengths l proves a bound on the way: a pair that serves a share f of the vector uses
 * at least f * cheapest(l) of the network's sum of capacity * l, so that no schedule made of tree
 * pairs has a rate beyond that sum / cheapest(l). (Others may exist: a schedule need not be made of
 * trees. What holds for all is in src/bound.)
 *
 * Trees for reduce-scatter or all-gather alone have given roots and equal weights, the same number
 * for each root: step 1 alone, and the optimum is known exactly by maximum flow (src/bound/flow.c).
 *
 *     ring of 4, each cable 1 per direction:   trees 0-1-2-3, 1-2-3-0, 2-3-0-1, 3-0-1-2 of weight
 *                                              1/3: every cable is in three of them,
 *     rate 4/3; lengths 1 on all cables:       sum 4, cheapest tree 3, no more than 4/3
 *
 * All arithmetic is plain IEEE in a fixed order and the amount of work is counted: every machine
 * finds the same packing. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/forest/pack.h"

/* Work is counted in about nanoseconds: in total, and of what the planner calls an operation. */
enum { MOST_WORK = 1500000000, PER_OPERATION = 250 };
/* Trees of equal weight are taken from ENOUGH of the bound on, and preferred from PREFERRED of the
 * uneven packing's rate on; a bound below CLOSER of the former one is worth another try. */
static const double ENOUGH = 0.9965, PREFERRED = 0.988, CLOSER = 0.999;

struct tt_forest_pair *tt_forest_packer_pair(const struct tt_forest_packer *k, size_t i)
{
    return tt_vec_at(&k->pairs, i);
}

double tt_forest_packer_busiest(const struct tt_forest_packer *k, const double *load)
{
    double top = 0;
    for (uint32_t e = 0; e < k->net.nres; e++)
        top = load[e] / k->net.cap[e] > top ? load[e] / k->net.cap[e] : top;
    return top;
}

void tt_forest_packer_free_pairs(struct tt_vec *pairs)
{
    for (size_t i = 0; i < pairs->len; i++)
        tt_forest_pair_free(tt_vec_at(pairs, i));
    tt_vec_free(pairs);
}

void tt_forest_packer_reload(struct tt_forest_packer *k)
{
    memset(k->load, 0, k->net.nres * sizeof *k->load);
    for (size_t i = 0; i < k->pairs.len; i++)
        tt_forest_load(&k->net, tt_forest_packer_pair(k, i), tt_forest_packer_pair(k, i)->copies,
                       k->load);
}

/* Work of one oracle call. */
uint64_t tt_forest_packer_query_work(const struct tt_forest_packer *k, uint32_t roots)
{
    const struct tt_topo *t = k->net.t;
    uint64_t links = 8 * (uint64_t)t->nlinks, p = t->ranks;
    return k->net.even ? links : p * links / 4 + roots * p * p * 4;
}

/* False when so much work is not left; then none is. */
bool tt_forest_packer_spend(struct tt_forest_packer *k, uint64_t work)
{
    bool ok = k->work >= work;
    k->work -= ok ? work : k->work;
    return ok;
}

/* The cheapest pair under `length`; the bound that it proves is kept. */
tutti_status tt_forest_packer_ask(struct tt_forest_packer *k, const struct tt_forest_query *q,
                                  struct tt_forest_pair *ret, double *ret_cost,
                                  struct tutti_error *err)
{
    tutti_status st = tt_forest_cheapest(&k->net, q, ret, ret_cost, err);
    double sum = 0;
    if (st || k->kind != TT_FOREST_BOTH || q->shallow > 0 ||
        (!k->net.even && q->roots < k->net.t->ranks))
        return st;
    for (uint32_t e = 0; e < k->net.nres; e++)
        sum += k->net.cap[e] * q->length[e];
    if (*ret_cost > 0 && sum / *ret_cost < k->dual) {
        k->dual = sum / *ret_cost;
        for (uint32_t e = 0; e < k->net.nres; e++)
            k->best_length[e] = q->length[e] / sum;
    }
    return st;
}

/* Trees of different weights are cut in copies of about equal weight, so that fair sharing of a
 * link gives each tree its share by weight. */
static void make_copies(struct tt_forest_packer *k)
{
    double sum = 0;
    for (size_t i = 0; i < k->pairs.len; i++)
        sum += tt_forest_packer_pair(k, i)->weight;
    for (size_t i = 0; i < k->pairs.len; i++) {
        assert(sum > 0);
        double n = tt_forest_packer_pair(k, i)->weight / sum * TT_FOREST_COPIES;
        tt_forest_packer_pair(k, i)->copies = n < 1.5 ? 1 : (uint32_t)n;
    }
}

/* Bounds that simple lengths prove, so that there is a bound whatever work is left: lengths by
 * load, all cables equal, the ranks' cables alone. */
static tutti_status first_bounds(struct tt_forest_packer *k, struct tutti_error *err)
{
    struct tt_forest_query q = {
        .kind = TT_FOREST_BOTH, .roots = k->net.t->ranks, .length = k->length};
    const struct tt_topo *t = k->net.t;
    double cost, top = tt_forest_packer_busiest(k, k->load);
    tutti_status st = TUTTI_OK;
    for (int way = 0; way < 3 && !st; way++) {
        for (uint32_t e = 0; e < k->net.nres; e++)
            k->length[e] = way == 0 ? 1 : way == 1 ? k->load[e] >= 0.99 * top * k->net.cap[e] : 0;
        for (uint32_t i = 0; way == 2 && i < t->nlinks; i++)
            if (t->links[i].a < t->ranks || t->links[i].b < t->ranks)
                k->length[k->net.of_link[2 * i]] = k->length[k->net.of_link[2 * i + 1]] = 1;
        st = tt_forest_packer_ask(k, &q, NULL, &cost, err);
    }
    return st;
}

/* Moves the pairs; *pairs is empty afterwards. */
static void use_pairs(struct tt_forest_packer *k, struct tt_vec *pairs)
{
    assert(k->pairs.len == 0);
    k->pairs = *pairs;
    *pairs = (struct tt_vec){.elem = sizeof(struct tt_forest_pair)};
}

/* Allreduce. Trees of equal weight are taken when they come near the bound; otherwise the program
 * computes what is possible, they get another chance with the better bound, and are still preferred
 * when they come near that. */
static tutti_status pack_pairs(struct tt_forest_packer *k, uint32_t trees, struct tutti_error *err)
{
    struct tt_vec uneven = {.elem = sizeof(struct tt_forest_pair)}, equal = uneven, none = uneven;
    double rate = 0, equal_rate = 0;
    tutti_status st = tt_forest_lay(k, trees, err);
    if (!st)
        st = first_bounds(k, err);
    uneven = k->pairs;
    k->pairs = none;
    uint64_t later = k->work / 2;
    k->work -= later;
    if (!st)
        st = tt_forest_equal(k, trees, &equal, &equal_rate, err);
    k->work += later;
    if (!st && equal_rate < ENOUGH * k->dual) {
        double before = k->dual;
        use_pairs(k, &uneven);
        st = tt_forest_pack_weigh(k, trees, &rate, err);
        make_copies(k);
        uneven = k->pairs;
        k->pairs = none;
        if (!st && k->dual < before * CLOSER && equal_rate < PREFERRED * rate)
            st = tt_forest_equal(k, trees, &equal, &equal_rate, err);
    }
    bool even_out = !st && equal_rate >= rate * PREFERRED;
    k->pairs = even_out ? equal : uneven;
    tt_forest_packer_free_pairs(even_out ? &uneven : &equal);
    return st;
}

/* ---- all together ---- */

uint32_t tt_forest_per_root(uint32_t trees, uint32_t ranks)
{
    uint32_t n = trees / ranks;
    return n < 1 ? 1 : n;
}

/* The work that packing may take: laying trees a few times, and generating columns. */
static uint64_t allowance(const struct tt_forest_packer *k, uint32_t trees)
{
    uint32_t p = k->net.t->ranks, roots = k->kind == TT_FOREST_BOTH ? 2 : 1;
    uint64_t lays = k->kind == TT_FOREST_BOTH ? 5 * (uint64_t)trees
                                              : 3 * (uint64_t)p * tt_forest_per_root(trees, p);
    uint64_t work = lays * (TT_FOREST_ROUNDS + 1) * tt_forest_packer_query_work(k, roots);
    if (k->kind == TT_FOREST_BOTH)
        work +=
            TT_FOREST_GENERATED * (tt_forest_packer_query_work(k, p) +
                                   8 * (uint64_t)k->net.nres * (trees + TT_FOREST_GENERATED / 2));
    return work < MOST_WORK ? work : MOST_WORK;
}

uint64_t tt_forest_work_guess(const struct tt_topo *t, enum tt_pack_kind kind, uint32_t trees)
{
    struct tt_forest_packer k = {.kind = kind,
                                 .net = {.t = t, .even = tt_forest_undirected(t, kind)}};
    k.net.nres = k.net.even ? t->nlinks : 2 * t->nlinks;
    return allowance(&k, trees) / PER_OPERATION;
}

static void packer_close(struct tt_forest_packer *k)
{
    tt_forest_packer_free_pairs(&k->pairs);
    free(k->load);
    free(k->length);
    free(k->best_length);
    free(k->use);
    free(k->limit);
    tt_forest_net_close(&k->net);
}

static tutti_status packer_open(struct tt_forest_packer *k, const struct tt_topo *t,
                                struct tutti_error *err)
{
    tutti_status st = tt_forest_net_open(t, tt_forest_undirected(t, k->kind), &k->net, err);
    if (st)
        return st;
    size_t n = (size_t)k->net.nres + 1;
    k->load = tt_zalloc(n, sizeof *k->load);
    k->length = tt_zalloc(n, sizeof *k->length);
    k->best_length = tt_zalloc(n, sizeof *k->best_length);
    k->use = tt_zalloc(n, sizeof *k->use);
    k->limit = tt_zalloc(n, sizeof *k->limit);
    return k->load && k->length && k->best_length && k->use && k->limit
               ? TUTTI_OK
               : tt_fail_memory(err, "forest");
}

static double copy_weight(const struct tt_forest_pair *p)
{
    return p->weight / p->copies;
}

/* Integer weights of the copies, in proportion; the heaviest gets 2^20. */
static void round_weights(struct tt_forest_packer *k)
{
    double most = 0;
    for (size_t i = 0; i < k->pairs.len; i++)
        most = copy_weight(tt_forest_packer_pair(k, i)) > most
                   ? copy_weight(tt_forest_packer_pair(k, i))
                   : most;
    for (size_t i = 0; i < k->pairs.len; i++) {
        double w = copy_weight(tt_forest_packer_pair(k, i)) / most * 0x1p20 + 0.5;
        tt_forest_packer_pair(k, i)->parts = w < 1 ? 1 : (uint32_t)w;
    }
}

/* The rate that the integer weights allow. */
static double rounded_rate(struct tt_forest_packer *k)
{
    double sum = 0;
    memset(k->load, 0, k->net.nres * sizeof *k->load);
    for (size_t i = 0; i < k->pairs.len; i++) {
        double parts =
            (double)tt_forest_packer_pair(k, i)->parts * tt_forest_packer_pair(k, i)->copies;
        sum += parts;
        tt_forest_load(&k->net, tt_forest_packer_pair(k, i), parts, k->load);
    }
    return sum / tt_forest_packer_busiest(k, k->load);
}

void tt_forest_packing_free(struct tt_forest_packing *p)
{
    for (uint32_t i = 0; i < p->npairs; i++)
        tt_forest_pair_free(&p->pairs[i]);
    free(p->pairs);
    *p = (struct tt_forest_packing){0};
}

/* An out-tree used backwards is an in-tree. */
static void turn_round(struct tt_forest_pair *p)
{
    struct tt_forest_tree *t = &p->down;
    for (uint32_t i = 0; i < t->nedges; i++) {
        struct tt_forest_edge *e = &t->edges[i];
        uint32_t *l = t->links + e->first, a = e->a;
        e->a = e->b;
        e->b = a;
        for (uint32_t k = 0; k < (e->n + 1) / 2; k++) {
            uint32_t x = l[k] ^ 1;
            l[k] = l[e->n - 1 - k] ^ 1;
            l[e->n - 1 - k] = x;
        }
    }
    p->up = p->down;
    p->down = (struct tt_forest_tree){0};
}

tutti_status tt_forest_make(const struct tt_topo *t, enum tt_pack_kind kind, uint32_t trees,
                            struct tt_forest_packing *ret, struct tutti_error *err)
{
    /* the same trees serve both ways: found once, equally good */
    bool turned = kind == TT_FOREST_UP && tt_forest_is_even(t) && !tt_forest_sums_matter(t);
    struct tt_forest_packer k = {.kind = turned ? TT_FOREST_DOWN : kind,
                                 .pairs = {.elem = sizeof(struct tt_forest_pair)},
                                 .dual = 1e300};
    tutti_status st = packer_open(&k, t, err);
    if (!st) {
        k.work = allowance(&k, trees);
        st = kind == TT_FOREST_BOTH
                 ? pack_pairs(&k, trees, err)
                 : tt_forest_equal_rooted(&k, tt_forest_per_root(trees, t->ranks), err);
    }
    if (!st) {
        round_weights(&k);
        for (size_t i = 0; i < k.pairs.len && turned; i++)
            turn_round(tt_forest_packer_pair(&k, i));
        *ret = (struct tt_forest_packing){
            .npairs = (uint32_t)k.pairs.len, .pairs = k.pairs.data, .even = k.net.even};
        ret->rate = rounded_rate(&k) * k.net.unit;
        ret->dual_rate = kind == TT_FOREST_BOTH ? k.dual * k.net.unit : 0;
        k.pairs = (struct tt_vec){.elem = sizeof(struct tt_forest_pair)};
    }
    packer_close(&k);
    return st;
}
