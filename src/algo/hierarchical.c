/* hierarchical.c - reduce-scatter inside, all-reduce across, all-gather inside, to any depth
 * (BlueConnect, 2019).
 *
 * Levels l = 0 (innermost), 1, ... have sizes L0, L1, ... with product p, and a rank has a digit
 * for each: rank = d0 + L0 d1 + L0 L1 d2 + ... The ranks that differ only in digit d_l form a group
 * of level l. Reduce-scatter at level 0 leaves a rank with the chunks whose digit d0 is its own,
 * then level 1 leaves those whose d0 and d1 are its own, ...; the all-gather does the same
 * backwards. Chunk c belongs to rank c, so the blocks of a level are strided chunks, one span each.
 * 4 ranks as 2 hosts of 2 (levels=2x2):
 *
 *      host 0: 0 1           step 0  level 0 (inside)  0<->1: chunks {0,2} to 0, {1,3} to 1;
 *      host 1: 2 3                                     2<->3 the same
 *                            step 1  level 1 (across)  0<->2: chunk 0 to 0, 2 to 2;   1<->3: 1, 3
 *                            step 2  level 1 gathers   0<->2, 1<->3
 *                            step 3  level 0 gathers   0<->1, 2<->3
 *
 * Invariant after the reduce-scatter of level l: rank r holds, of the chunks that agree with r in
 * digits 0..l, the sum over all ranks that agree with r in digits l+1 and above. Cost: for every
 * level 2(L_l - 1) steps (inner=circulant: 2 ceil(log2 L_l)); each rank sends 2(p-1)/p of the
 * vector, but only 1/(L0..L_{l-1}) of it over links of level l: the slow outer links carry the
 * least. A rank waits for one neighbour per step. Each chunk is summed in one fixed order, so all
 * ranks get the same bits.
 *
 * Levels come from the option levels=AxB.. (innermost first), else from the topology: its tree, its
 * grid (the last dimension is the innermost), or the ranks on each switch. Groups of unequal size
 * are refused. Three or more levels with inner=circulant run rings at the middle ones of more than
 * 3 ranks, whose runs of blocks are not one strided range. */
#include <assert.h>

#include "algo/algos.h"
#include "algo/phases.h"

#include <stdlib.h>

enum { MAX_LEVELS = TT_TOPO_MAX_DIMS };

struct levels {
    uint32_t n, size[MAX_LEVELS]; /* innermost first; every size is at least 2 */
};

/* False when there are too many levels. Levels of a single member are dropped. */
static bool add_level(struct levels *v, uint32_t size)
{
    if (size == 1)
        return true;
    if (v->n == MAX_LEVELS)
        return false;
    v->size[v->n++] = size;
    return true;
}

/* Stops before it can overflow: any larger product is wrong anyway. */
static uint64_t levels_product(const struct levels *v)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < v->n && n <= UINT32_MAX; i++)
        n *= v->size[i];
    return n;
}

static void levels_reverse(struct levels *v)
{
    for (uint32_t i = 0, j = v->n; i + 1 < j; i++) {
        j--;
        uint32_t keep = v->size[i];
        v->size[i] = v->size[j];
        v->size[j] = keep;
    }
}

/* "4x8x2", each part a whole number from 1 on. */
static bool levels_from_text(const char *text, struct levels *ret)
{
    struct levels v = {0};
    for (const char *s = text;; s++) {
        char *end = NULL;
        if (*s < '0' || *s > '9')
            return false;
        unsigned long size = strtoul(s, &end, 10);
        if (size == 0 || size > UINT32_MAX || !add_level(&v, (uint32_t)size))
            return false;
        s = end;
        if (*s == '\0')
            break;
        if (*s != 'x')
            return false;
    }
    *ret = v;
    return true;
}

/* The sizes along the leftmost path; tree_is_regular decides whether they hold everywhere. */
static bool levels_from_tree(const struct tt_tree *t, struct levels *v)
{
    for (uint32_t i = 0; t->count[i] > 0; i = t->first[i])
        if (!add_level(v, t->count[i]))
            return false;
    levels_reverse(v);
    return true;
}

/* The last dimension varies fastest in the rank number, so it is the innermost level. */
static bool levels_from_grid(const struct tt_topo *t, struct levels *v)
{
    for (uint32_t d = t->ndims; d-- > 0;)
        if (!add_level(v, t->dims[d]))
            return false;
    return true;
}

/* The switch of rank r; UINT32_MAX when the rank has other neighbours. */
static uint32_t switch_of(const struct tt_topo *t, uint32_t r)
{
    uint32_t from = t->g.start[r], to = t->g.start[r + 1];
    if (from == to || t->g.head[from] < t->ranks)
        return UINT32_MAX;
    for (uint32_t k = from; k < to; k++)
        if (t->g.head[k] != t->g.head[from])
            return UINT32_MAX;
    return t->g.head[from];
}

/* The number of ranks from `r` on that are on the same switch. */
static uint32_t run_on_switch(const struct tt_topo *t, uint32_t r)
{
    uint32_t n = 1, sw = switch_of(t, r);
    while (sw != UINT32_MAX && r + n < t->ranks && switch_of(t, r + n) == sw)
        n++;
    return n;
}

/* Ranks of one switch are a host; switches_are_regular decides whether all are alike. */
static bool levels_from_switches(const struct tt_topo *t, struct levels *v)
{
    uint32_t host = run_on_switch(t, 0);
    return add_level(v, host) && add_level(v, t->ranks / host);
}

/* The levels that the topology suggests, read from the surroundings of rank 0 only: cheap enough
 * for every slice. */
static bool levels_from_topo(const struct tt_topo *t, struct levels *v)
{
    if (t->tree)
        return levels_from_tree(t->tree, v);
    return t->ndims > 0 ? levels_from_grid(t, v) : levels_from_switches(t, v);
}

/* Without levels and topology there are none: the probe refuses that. */
static bool find_levels(const struct tt_algo_args *a, struct levels *ret)
{
    const char *text = tt_algo_option_text(&tt_algo_hierarchical, &a->options, "levels");
    struct levels v = {0};
    bool ok = !tt_streq(text, "auto") ? levels_from_text(text, &v)
              : a->topo               ? levels_from_topo(a->topo, &v)
                                      : true;
    if (ok)
        *ret = v;
    return ok;
}

/* Invariant: nodes lo .. hi-1 are all nodes of one depth. */
static tutti_status tree_is_regular(const struct tt_tree *t, struct tutti_error *why)
{
    uint32_t lo = 0, hi = 1;
    for (; t->count[lo] > 0; hi += (hi - lo) * t->count[lo], lo = t->first[lo]) {
        bool hosts = t->count[t->first[lo]] == 0;
        for (uint32_t i = lo; i < hi; i++) {
            if (t->count[i] == 0)
                return tt_fail(
                    why, TUTTI_ERR_REFUSED,
                    "ranks hang at different depths of the tree (rank %u is not in a group)",
                    t->rank[i]);
            if (t->count[i] != t->count[lo])
                return tt_fail(why, TUTTI_ERR_REFUSED, "%s: %u and %u",
                               hosts ? "hosts have different numbers of ranks"
                                     : "groups of one level have different numbers of members",
                               t->count[lo], t->count[i]);
        }
    }
    for (uint32_t i = lo; i < hi; i++) {
        if (t->count[i] > 0)
            return tt_fail(
                why, TUTTI_ERR_REFUSED,
                "ranks hang at different depths of the tree (rank %u is in no inner group)",
                t->rank[lo]);
        if (t->rank[i] != i - lo)
            return tt_fail(why, TUTTI_ERR_REFUSED,
                           "ranks are not numbered group by group (rank %u is at place %u)",
                           t->rank[i], i - lo);
    }
    return TUTTI_OK;
}

static tutti_status switches_are_regular(const struct tt_topo *t, struct tutti_error *why)
{
    uint32_t host = run_on_switch(t, 0);
    for (uint32_t r = 0, n; r < t->ranks; r += n) {
        n = run_on_switch(t, r);
        if (n != host)
            return tt_fail(why, TUTTI_ERR_REFUSED,
                           "switches have different numbers of ranks: %u and %u", host, n);
    }
    return TUTTI_OK;
}

static tutti_status probe_topo(const struct tt_topo *t, const struct levels *v,
                               struct tutti_error *why)
{
    tutti_status status = TUTTI_OK;
    if (t && t->tree)
        status = tree_is_regular(t->tree, why);
    else if (t && t->ndims == 0)
        status = switches_are_regular(t, why);
    if (status)
        return status;
    if (v->n < 2)
        return tt_fail(
            why, TUTTI_ERR_REFUSED,
            "%s has no levels to follow; the option levels=AxB (innermost first) sets them",
            t ? tt_topo_words(t) : "a problem without topology");
    return TUTTI_OK;
}

/* Derived levels must hold for the whole topology; given ones only need the right product. */
static tutti_status hierarchical_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    const char *text = tt_algo_option_text(&tt_algo_hierarchical, &a->options, "levels");
    bool derived = tt_streq(text, "auto");
    struct levels v;
    if (derived && a->problem.ranks == 1)
        return TUTTI_OK;
    if (!find_levels(a, &v))
        return derived ? tt_fail(why, TUTTI_ERR_REFUSED, "the topology has more than %d levels",
                                 MAX_LEVELS)
                       : tt_fail(why, TUTTI_ERR_REFUSED,
                                 "levels=%s is not a list of at most %d sizes such as 4x8", text,
                                 MAX_LEVELS);
    if (derived) {
        tutti_status status = probe_topo(a->topo, &v, why);
        if (status)
            return status;
    }
    if (levels_product(&v) != a->problem.ranks)
        return tt_fail(why, TUTTI_ERR_REFUSED, "levels %s multiply to %llu, not to %u ranks", text,
                       (unsigned long long)levels_product(&v), a->problem.ranks);
    return TUTTI_OK;
}

static tutti_status hierarchical_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                       struct tutti_error *err)
{
    (void)err;
    s->chunks = a->problem.ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

/* The group of `rank` at the level whose digit has weight `weight`; below it the digits are the
 * rank's own. */
static struct tt_group level_group(uint32_t p, uint32_t rank, uint32_t weight, uint32_t size)
{
    assert(weight > 0 && size > 0);
    uint32_t me = rank / weight % size, span = weight * size;
    struct tt_group_blocks blocks = {
        .first = rank % weight, .step = weight, .len = 1, .stride = span, .reps = p / span};
    return (struct tt_group){
        .n = size, .me = me, .first = rank - me * weight, .stride = weight, .blocks = blocks};
}

/* Circulant messages carry several blocks, which must be one strided span (phases.h). */
static bool circulant_fits(const struct tt_group *g)
{
    return g->blocks.step == 1 || g->blocks.reps == 1 || g->n <= 3;
}

/* Levels upwards as reduce-scatters, then downwards as all-gathers, one after the other. The first
 * reads IN, the last reduce-scatter writes OUT, all others work in one buffer. */
static void hierarchical_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    uint32_t p = a->problem.ranks, n = 0, step = 0, weight = 1;
    bool rs = tt_sched_coll_reduces(a->problem.coll), ag = tt_algo_coll_gathers(a->problem.coll);
    bool circulant =
        tt_streq(tt_algo_option_text(&tt_algo_hierarchical, &a->options, "inner"), "circulant");
    uint32_t work = ag ? TT_BUF_OUT : TT_BUF_SCRATCH;
    struct tt_phase up[MAX_LEVELS], all[2 * MAX_LEVELS];
    struct levels v = {0};
    if (p == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    (void)find_levels(a, &v); /* the probe has accepted them */
    for (uint32_t l = 0; l < v.n; weight *= v.size[l++]) {
        struct tt_group g = level_group(p, rank, weight, v.size[l]);
        up[l] = (struct tt_phase){.kind = circulant && circulant_fits(&g) ? &tt_algo_circulant_rs
                                                                          : &tt_algo_ring_rs,
                                  .group = g,
                                  .work = work};
        up[l].in = l == 0 ? TT_BUF_IN : work;
        up[l].out = l + 1 == v.n ? TT_BUF_OUT : work;
    }
    for (uint32_t l = 0; rs && l < v.n; l++) {
        all[n] = up[l];
        all[n].step = step;
        step += tt_algo_phase_steps(&all[n++]);
    }
    for (uint32_t l = v.n; ag && l-- > 0;) {
        all[n] = up[l];
        all[n].kind =
            up[l].kind == &tt_algo_circulant_rs ? &tt_algo_circulant_ag : &tt_algo_ring_ag;
        all[n].in = rs || l + 1 < v.n ? TT_BUF_OUT : TT_BUF_IN;
        all[n].out = TT_BUF_OUT;
        all[n].step = step;
        step += tt_algo_phase_steps(&all[n++]);
    }
    assert(weight == p && n <= countof(all) && v.n <= MAX_LEVELS);
    tt_algo_phases_emit(b, all, n);
}

static const struct tt_algo_option hierarchical_options[] = {
    {.key = "levels",
     .values = "auto|AxB..",
     .desc = "group sizes, innermost first: 4x8 is 8 hosts of 4 ranks; auto: from the topology"},
    {.key = "inner", .values = "ring|circulant", .desc = "what runs inside the groups of a level"},
    {.key = NULL},
};

const struct tt_algo tt_algo_hierarchical = {
    .name = "hierarchical",
    .desc = "reduce-scatter inside, all-reduce across, all-gather inside, any depth (BlueConnect)",
    .needs = "a tree, grid or switches with equal groups, or levels=AxB",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .uses_topo = true,
    .options = hierarchical_options,
    .probe = hierarchical_probe,
    .shape = hierarchical_shape,
    .slice = hierarchical_slice,
};
