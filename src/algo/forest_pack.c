/* forest_pack.c - which trees carry which share of the vector: a packing close to the best one, and a proof of how close.
 *
 * 1. `trees` trees of equal weight are laid one after the other, each the cheapest under lengths that grow exponentially with the load of a
 *    resource (multiplicative weights), then taken out and laid again while that spreads the load better, with ever steeper lengths.
 * 2. The best weights of these trees are a linear program (forest_lp.c). Its prices are lengths again: a tree cheaper than they allow
 *    improves the packing and joins it (column generation, with prices pulled towards the best ones so far, which keeps them from
 *    jumping).
 * 3. The heaviest `trees` trees are kept and their weights found anew, for as long as more than that many are in use.
 *
 * Every set of lengths l proves a bound on the way: a pair that serves a share f of the vector uses at least f * cheapest(l) of
 * the network's sum of capacity * l, so that no schedule made of tree pairs has a rate beyond that sum / cheapest(l). (Others may exist:
 * a schedule need not be made of trees. What holds for all is in src/bound.)
 *
 * Trees for reduce-scatter or all-gather alone have given roots and equal weights, the same number for each root: step 1 alone, and the
 * optimum is known exactly by maximum flow (src/bound/flow.c).
 *
 *     ring of 4, each cable 1 per direction:   trees 0-1-2-3, 1-2-3-0, 2-3-0-1, 3-0-1-2 of weight 1/3: every cable is in three of them,
 *     rate 4/3; lengths 1 on all cables:       sum 4, cheapest tree 3, no more than 4/3
 *
 * All arithmetic is plain IEEE in a fixed order and the amount of work is counted: every machine finds the same packing. */
#include <stdlib.h>
#include <string.h>

#include "algo/forest.h"

enum { ROUNDS = 12, GENTLE = 8, STEEPEST = 96, GENERATED = 600 };
/* Work is counted in about nanoseconds: of all, of pruning, and of what the planner calls an operation. */
enum { MOST_WORK = 1500000000, PRUNING = 200000000, PER_OPERATION = 250 };
static const double CLEARLY = 1.001, NEARLY = 0.997, PREFERRED = 0.985;
static const double SHALLOW = 0.2;  /* see struct tt_pack_query */
static const double CLOSE = 0.0005; /* rate and bound this close: enough */

struct packer {
    struct tt_pack_net net;
    enum tt_pack_kind kind;
    struct tt_vec pairs; /* struct tt_pack_pair */
    uint32_t per_root;   /* UP, DOWN: trees of each root */
    double *load, *length, *best_length, *use;
    double dual;   /* smallest bound so far, in units of the fastest link */
    uint64_t work; /* still allowed */
};

static struct tt_pack_pair *pair_at(const struct packer *k, size_t i)
{
    return tt_vec_at(&k->pairs, i);
}

/* About e^x, the same on every machine. */
static double grow(double x)
{
    double y = 1 + x / 256;
    for (int i = 0; i < 8; i++)
        y *= y;
    return y;
}

static double busiest(const struct packer *k, const double *load)
{
    double top = 0;
    for (uint32_t e = 0; e < k->net.nres; e++)
        top = load[e] / k->net.cap[e] > top ? load[e] / k->net.cap[e] : top;
    return top;
}

/* Work of one oracle call. */
static uint64_t query_work(const struct packer *k, uint32_t roots)
{
    const struct tt_topo *t = k->net.t;
    uint64_t links = 8 * (uint64_t)t->nlinks, p = t->ranks;
    return k->net.even ? links : p * links / 4 + roots * p * p * 4;
}

static bool spend(struct packer *k, uint64_t work)
{
    bool ok = k->work >= work;
    k->work -= ok ? work : k->work;
    return ok;
}

/* The cheapest pair under `length`; what that proves is remembered. */
static tutti_status ask(struct packer *k, const struct tt_pack_query *q, struct tt_pack_pair *ret, double *ret_cost,
                        struct tutti_error *err)
{
    tutti_status st = tt_pack_cheapest(&k->net, q, ret, ret_cost, err);
    double sum = 0;
    if (st != TUTTI_OK || k->kind != TT_PACK_BOTH || q->shallow > 0 || (!k->net.even && q->roots < k->net.t->ranks))
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

/* ---- 1: equal weights ---- */

static double potential(const struct packer *k, const double *load, double steep)
{
    double sum = 0;
    for (uint32_t e = 0; e < k->net.nres; e++)
        sum += grow(steep * load[e] / k->net.cap[e]);
    return sum;
}

static void set_lengths(struct packer *k, double steep)
{
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->length[e] = grow(steep * k->load[e] / k->net.cap[e]) / k->net.cap[e];
}

static uint32_t root_of(const struct packer *k, uint32_t i)
{
    uint32_t p = k->net.t->ranks;
    return k->kind == TT_PACK_BOTH ? (uint32_t)((uint64_t)i * 0x9e3779b1u % p) : i / k->per_root;
}

/* Lays tree i, for the first time or anew; a new way is kept only if it lowers the potential. */
static tutti_status lay(struct packer *k, uint32_t i, bool again, double steep, struct tutti_error *err)
{
    struct tt_pack_pair fresh, *old = again ? pair_at(k, i) : NULL;
    struct tt_pack_query q = {
        .kind = k->kind, .root = root_of(k, i), .roots = k->kind == TT_PACK_BOTH ? 2 : 1, .length = k->length, .shallow = SHALLOW};
    double before = again ? potential(k, k->load, steep) : 0, cost;
    if (again)
        tt_pack_load(&k->net, old, -1, k->load);
    set_lengths(k, steep);
    tutti_status st = ask(k, &q, &fresh, &cost, err);
    if (st != TUTTI_OK)
        return st;
    tt_pack_load(&k->net, &fresh, 1, k->load);
    if (!again) {
        if (tt_vec_push(&k->pairs, &fresh, 1))
            return TUTTI_OK;
        tt_pack_pair_free(&fresh);
        return tt_fail_memory(err, "trees");
    }
    if (potential(k, k->load, steep) < before) {
        tt_pack_pair_free(old);
        *old = fresh;
        return TUTTI_OK;
    }
    tt_pack_load(&k->net, &fresh, -1, k->load);
    tt_pack_load(&k->net, old, 1, k->load);
    tt_pack_pair_free(&fresh);
    return TUTTI_OK;
}

static tutti_status lay_all(struct packer *k, uint32_t trees, struct tutti_error *err)
{
    uint64_t each = query_work(k, k->kind == TT_PACK_BOTH ? 2 : 1);
    tutti_status st = TUTTI_OK;
    memset(k->load, 0, k->net.nres * sizeof(*k->load));
    for (uint32_t i = 0; i < trees && st == TUTTI_OK; i++) {
        double top = busiest(k, k->load);
        spend(k, each);
        st = lay(k, i, false, top > 0 ? GENTLE / top : 0, err);
    }
    for (uint32_t round = 0; round < ROUNDS && st == TUTTI_OK; round++) {
        double steep = GENTLE + (double)(STEEPEST - GENTLE) * round / (ROUNDS - 1);
        double top = busiest(k, k->load);
        for (uint32_t i = 0; i < trees && st == TUTTI_OK && spend(k, each); i++)
            st = lay(k, i, true, steep / top, err);
    }
    return st;
}

/* ---- 2: weights ---- */

static bool add_column(struct packer *k, struct tt_pack_lp *lp, const struct tt_pack_pair *p)
{
    memset(k->use, 0, k->net.nres * sizeof(*k->use));
    tt_pack_load(&k->net, p, 1, k->use);
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->use[e] /= k->net.cap[e];
    return tt_pack_lp_add(lp, k->use);
}

/* Weights onto the pairs, scaled so that the busiest resource is just full; returns the rate. */
static double take_weights(struct packer *k, const struct tt_pack_lp *lp, double *weight)
{
    double sum = tt_pack_lp_weights(lp, weight);
    memset(k->load, 0, k->net.nres * sizeof(*k->load));
    for (size_t i = 0; i < k->pairs.len; i++) {
        pair_at(k, i)->weight = weight[i];
        tt_pack_load(&k->net, pair_at(k, i), weight[i], k->load);
    }
    return sum / busiest(k, k->load);
}

/* Prices of the program as lengths, pulled towards the best lengths so far. */
static void smooth(struct packer *k, const struct tt_pack_lp *lp, double pull)
{
    double sum = 0;
    tt_pack_lp_prices(lp, k->use);
    for (uint32_t e = 0; e < k->net.nres; e++)
        sum += k->use[e];
    for (uint32_t e = 0; e < k->net.nres; e++)
        k->length[e] = (1 - pull) * k->use[e] / (sum * k->net.cap[e]) + pull * k->best_length[e];
}

/* One round of column generation: false when nothing more is to be gained. */
static tutti_status generate(struct packer *k, struct tt_pack_lp *lp, double *pull, bool *ret_more, struct tutti_error *err)
{
    struct tt_pack_pair fresh;
    struct tt_pack_query q = {.kind = TT_PACK_BOTH, .roots = k->net.t->ranks, .length = k->length};
    double cost, reduced = 1;
    smooth(k, lp, *pull);
    tutti_status st = ask(k, &q, &fresh, &cost, err);
    if (st != TUTTI_OK)
        return st;
    memset(k->load, 0, k->net.nres * sizeof(*k->load));
    tt_pack_load(&k->net, &fresh, 1, k->load);
    for (uint32_t e = 0; e < k->net.nres; e++) /* use[] still holds the prices */
        reduced -= k->load[e] / k->net.cap[e] * k->use[e];
    *ret_more = true;
    if (reduced <= 1e-7) { /* not cheaper by the true prices */
        tt_pack_pair_free(&fresh);
        *ret_more = *pull > 0.01;
        *pull = *pull > 0.01 ? *pull / 2 : 0;
        return TUTTI_OK;
    }
    *pull = 0.7;
    *ret_more = add_column(k, lp, &fresh);
    if (*ret_more && tt_vec_push(&k->pairs, &fresh, 1))
        return TUTTI_OK;
    tt_pack_pair_free(&fresh);
    return *ret_more ? tt_fail_memory(err, "trees") : TUTTI_OK;
}

static tutti_status improve(struct packer *k, struct tt_pack_lp *lp, double *weight, struct tutti_error *err)
{
    double pull = 0.7;
    bool more = true;
    tutti_status st = TUTTI_OK;
    tt_pack_lp_solve(lp, &k->work);
    while (more && st == TUTTI_OK && spend(k, query_work(k, k->net.t->ranks))) {
        if (tt_pack_lp_weights(lp, weight) * (1 + CLOSE) >= k->dual)
            break;
        st = generate(k, lp, &pull, &more, err);
        if (st == TUTTI_OK && !tt_pack_lp_solve(lp, &k->work))
            more = false;
    }
    return st;
}

static int by_weight(const void *a, const void *b)
{
    double x = ((const struct tt_pack_pair *)a)->weight, y = ((const struct tt_pack_pair *)b)->weight;
    return x > y ? -1 : x < y;
}

/* Keeps the heaviest `most` pairs that have a weight at all. */
static void keep_heaviest(struct packer *k, size_t most)
{
    size_t n = 0;
    qsort(k->pairs.data, k->pairs.len, sizeof(struct tt_pack_pair), by_weight);
    while (n < k->pairs.len && n < most && pair_at(k, n)->weight > 1e-9)
        n++;
    for (size_t i = n; i < k->pairs.len; i++)
        tt_pack_pair_free(pair_at(k, i));
    k->pairs.len = n;
}

static tutti_status solve(struct packer *k, bool more, double *ret_rate, struct tutti_error *err)
{
    uint32_t most = (uint32_t)k->pairs.len + (more ? GENERATED : 0);
    struct tt_pack_lp *lp = tt_pack_lp_make(k->net.nres, most);
    double *weight = tt_zalloc(most, sizeof(*weight));
    tutti_status st = lp && weight ? TUTTI_OK : tt_fail_memory(err, "weights of trees");
    for (size_t i = 0; i < k->pairs.len && st == TUTTI_OK; i++)
        add_column(k, lp, pair_at(k, i));
    if (st == TUTTI_OK && more)
        st = improve(k, lp, weight, err);
    else if (st == TUTTI_OK)
        tt_pack_lp_solve(lp, &k->work);
    if (st == TUTTI_OK)
        *ret_rate = take_weights(k, lp, weight);
    tt_pack_lp_free(lp);
    free(weight);
    return st;
}

/* Weights from the program, then fewer and fewer trees until there are at most `trees`. */
static tutti_status weigh(struct packer *k, uint32_t trees, double *ret_rate, struct tutti_error *err)
{
    size_t used = SIZE_MAX;
    tutti_status st = solve(k, true, ret_rate, err);
    k->work += PRUNING; /* a packing of too many trees is of no use: these programs are small */
    while (st == TUTTI_OK) {
        keep_heaviest(k, used);
        used = k->pairs.len;
        if (used <= trees)
            break;
        used = used * 3 / 4 > trees ? used * 3 / 4 : trees;
        keep_heaviest(k, used);
        st = solve(k, false, ret_rate, err);
    }
    return st;
}

/* Trees of different weights are cut in copies of about equal weight: who shares a link fairly then gets a share by weight. */
static void make_copies(struct packer *k)
{
    double sum = 0;
    for (size_t i = 0; i < k->pairs.len; i++)
        sum += pair_at(k, i)->weight;
    for (size_t i = 0; i < k->pairs.len; i++) {
        double n = pair_at(k, i)->weight / sum * TT_PACK_COPIES;
        pair_at(k, i)->copies = n < 1.5 ? 1 : (uint32_t)n;
    }
}

/* ---- how many trees of equal weight ---- */

static void free_pairs(struct tt_vec *pairs)
{
    for (size_t i = 0; i < pairs->len; i++)
        tt_pack_pair_free(tt_vec_at(pairs, i));
    tt_vec_free(pairs);
}

/* n trees (UP, DOWN: for each root) of equal weight; they take the place of *best if their rate is clearly higher. */
static tutti_status try_equal(struct packer *k, uint32_t n, struct tt_vec *best, double *best_rate, struct tutti_error *err)
{
    uint32_t all = k->kind == TT_PACK_BOTH ? n : n * k->net.t->ranks;
    k->per_root = n;
    k->pairs = (struct tt_vec){.elem = sizeof(struct tt_pack_pair)};
    tutti_status st = lay_all(k, all, err);
    double rate = st == TUTTI_OK ? all / busiest(k, k->load) : 0;
    if (rate <= *best_rate * CLEARLY) {
        free_pairs(&k->pairs);
        return st;
    }
    for (uint32_t i = 0; i < all; i++) {
        pair_at(k, i)->weight = 1;
        pair_at(k, i)->copies = 1;
    }
    free_pairs(best);
    *best = k->pairs;
    *best_rate = rate;
    k->pairs = (struct tt_vec){.elem = sizeof(struct tt_pack_pair)};
    return st;
}

/* Few trees first, until the rate is as good as `enough`. Multiples and parts of the number of ranks suit switched networks. */
static tutti_status best_equal(struct packer *k, uint32_t most, double enough, struct tt_vec *best, double *best_rate,
                               struct tutti_error *err)
{
    uint32_t p = k->net.t->ranks;
    tutti_status st = TUTTI_OK;
    for (uint32_t n = 1; n <= most && st == TUTTI_OK && *best_rate < enough; n++) {
        bool round = n <= 4 || (n & (n - 1)) == 0 || n % 12 == 0 || n == most;
        if (k->kind == TT_PACK_BOTH ? round || n % p == 0 || n * 2 == p : n <= 8)
            st = try_equal(k, n, best, best_rate, err);
    }
    return st;
}

/* What the loads prove as lengths, so that there is a bound whatever work is left. */
static tutti_status first_bound(struct packer *k, struct tutti_error *err)
{
    struct tt_pack_query q = {.kind = TT_PACK_BOTH, .roots = k->net.t->ranks, .length = k->length};
    double cost;
    set_lengths(k, GENTLE / busiest(k, k->load));
    return ask(k, &q, NULL, &cost, err);
}

/* Allreduce: the program says what is possible; trees of equal weight are preferred when they come near it, because they need no
 * priorities on the links to run alike. */
static tutti_status pack_pairs(struct packer *k, uint32_t trees, struct tutti_error *err)
{
    struct tt_vec uneven, equal = {.elem = sizeof(struct tt_pack_pair)};
    double rate = 0, equal_rate = 0;
    tutti_status st = lay_all(k, trees, err);
    if (st == TUTTI_OK)
        st = first_bound(k, err);
    if (st == TUTTI_OK)
        st = weigh(k, trees, &rate, err);
    make_copies(k);
    uneven = k->pairs;
    if (st == TUTTI_OK)
        st = best_equal(k, trees, rate * NEARLY, &equal, &equal_rate, err);
    bool even_out = st == TUTTI_OK && equal_rate >= rate * PREFERRED;
    k->pairs = even_out ? equal : uneven;
    free_pairs(even_out ? &uneven : &equal);
    return st;
}

static tutti_status pack_rooted(struct packer *k, uint32_t trees, struct tutti_error *err)
{
    struct tt_vec best = {.elem = sizeof(struct tt_pack_pair)};
    double rate = 0;
    tutti_status st = best_equal(k, tt_pack_per_root(trees, k->net.t->ranks), 1e300, &best, &rate, err);
    k->pairs = best;
    return st;
}

/* ---- all together ---- */

uint32_t tt_pack_per_root(uint32_t trees, uint32_t ranks)
{
    uint32_t n = trees / ranks;
    return n < 1 ? 1 : n;
}

/* Work that packing may take: laying trees a few times over, and generating columns. */
static uint64_t allowance(const struct packer *k, uint32_t trees)
{
    uint32_t p = k->net.t->ranks, roots = k->kind == TT_PACK_BOTH ? 2 : 1;
    uint64_t lays = k->kind == TT_PACK_BOTH ? 5 * (uint64_t)trees : 3 * (uint64_t)p * tt_pack_per_root(trees, p);
    uint64_t work = lays * (ROUNDS + 1) * query_work(k, roots);
    if (k->kind == TT_PACK_BOTH)
        work += GENERATED * (query_work(k, p) + 8 * (uint64_t)k->net.nres * (trees + GENERATED / 2));
    return work < MOST_WORK ? work : MOST_WORK;
}

uint64_t tt_pack_work_guess(const struct tt_topo *t, enum tt_pack_kind kind, uint32_t trees)
{
    struct packer k = {.kind = kind, .net = {.t = t, .even = kind == TT_PACK_BOTH && tt_pack_is_even(t)}};
    k.net.nres = k.net.even ? t->nlinks : 2 * t->nlinks;
    return allowance(&k, trees) / PER_OPERATION;
}

static void packer_close(struct packer *k)
{
    free_pairs(&k->pairs);
    free(k->load);
    free(k->length);
    free(k->best_length);
    free(k->use);
    tt_pack_net_close(&k->net);
}

static tutti_status packer_open(struct packer *k, const struct tt_topo *t, struct tutti_error *err)
{
    tutti_status st = tt_pack_net_open(t, k->kind == TT_PACK_BOTH && tt_pack_is_even(t), &k->net, err);
    if (st != TUTTI_OK)
        return st;
    size_t n = (size_t)k->net.nres + 1;
    k->load = tt_zalloc(n, sizeof(*k->load));
    k->length = tt_zalloc(n, sizeof(*k->length));
    k->best_length = tt_zalloc(n, sizeof(*k->best_length));
    k->use = tt_zalloc(n, sizeof(*k->use));
    return k->load && k->length && k->best_length && k->use ? TUTTI_OK : tt_fail_memory(err, "forest");
}

static double copy_weight(const struct tt_pack_pair *p)
{
    return p->weight / p->copies;
}

/* Integer weights of the copies, in proportion; the heaviest gets 2^20. */
static void round_weights(struct packer *k)
{
    double most = 0;
    for (size_t i = 0; i < k->pairs.len; i++)
        most = copy_weight(pair_at(k, i)) > most ? copy_weight(pair_at(k, i)) : most;
    for (size_t i = 0; i < k->pairs.len; i++) {
        double w = copy_weight(pair_at(k, i)) / most * 0x1p20 + 0.5;
        pair_at(k, i)->parts = w < 1 ? 1 : (uint32_t)w;
    }
}

/* The rate that the integer weights allow. */
static double rounded_rate(struct packer *k)
{
    double sum = 0;
    memset(k->load, 0, k->net.nres * sizeof(*k->load));
    for (size_t i = 0; i < k->pairs.len; i++) {
        double parts = (double)pair_at(k, i)->parts * pair_at(k, i)->copies;
        sum += parts;
        tt_pack_load(&k->net, pair_at(k, i), parts, k->load);
    }
    return sum / busiest(k, k->load);
}

void tt_packing_free(struct tt_packing *p)
{
    for (uint32_t i = 0; i < p->npairs; i++)
        tt_pack_pair_free(&p->pairs[i]);
    free(p->pairs);
    *p = (struct tt_packing){0};
}

/* An out-tree used backwards is an in-tree. */
static void turn_round(struct tt_pack_pair *p)
{
    struct tt_pack_tree *t = &p->down;
    for (uint32_t i = 0; i < t->nedges; i++) {
        struct tt_pack_edge *e = &t->edges[i];
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
    p->down = (struct tt_pack_tree){0};
}

tutti_status tt_pack_make(const struct tt_topo *t, enum tt_pack_kind kind, uint32_t trees, struct tt_packing *ret, struct tutti_error *err)
{
    bool turned = kind == TT_PACK_UP && tt_pack_is_even(t); /* the same trees both ways: found once, equally good */
    struct packer k = {.kind = turned ? TT_PACK_DOWN : kind, .pairs = {.elem = sizeof(struct tt_pack_pair)}, .dual = 1e300};
    tutti_status st = packer_open(&k, t, err);
    if (st == TUTTI_OK) {
        k.work = allowance(&k, trees);
        st = kind == TT_PACK_BOTH ? pack_pairs(&k, trees, err) : pack_rooted(&k, trees, err);
    }
    if (st == TUTTI_OK) {
        round_weights(&k);
        for (size_t i = 0; i < k.pairs.len && turned; i++)
            turn_round(pair_at(&k, i));
        *ret = (struct tt_packing){.npairs = (uint32_t)k.pairs.len, .pairs = k.pairs.data, .even = k.net.even};
        ret->rate = rounded_rate(&k) * k.net.unit;
        ret->dual_rate = kind == TT_PACK_BOTH ? k.dual * k.net.unit : 0;
        k.pairs = (struct tt_vec){.elem = sizeof(struct tt_pack_pair)};
    }
    packer_close(&k);
    return st;
}
