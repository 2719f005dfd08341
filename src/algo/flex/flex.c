/* flex.c - reduce-scatter up a hierarchy and all-gather down again, with groups of any sizes and
 * uneven parts per rank (after FlexReduce, DAC 2020).
 *
 * From the ranks up, the children of every node become one group: they hold the whole vector each,
 * spread over their ranks, and exchange so that each child keeps a share of it, summed. BlueConnect
 * does this with equal groups only; here the cuts of the children are laid over each other, so that
 * every cell has one representative in every child. Hosts (2 1) of ranks 0 1 and 2, shares equal
 * per branch:
 *
 *     step 0  inside     0 <-> 1: each keeps half of the vector, chunks a b | c d
 *                        (rank 2 alone has the whole)
 *     step 1  across     halves of both: 0 keeps a, 1 keeps c, 2 keeps b and d:
 *                        0 -b-> 2   2 -a-> 0   1 -d-> 2   2 -c-> 1
 *     step 2  across     the same backwards; shares 1/4, 1/4, 1/2: every host keeps half
 *     step 3  inside     0 <-> 1
 *
 * Only the abstract of FlexReduce is public: uneven portions per learner for irregular hierarchies.
 * The rules here are our own. shares=even: every rank ends with the same (the conventional way).
 * branch: every child of a node keeps the same. optimal: the shares that need the least time when
 * reduce-scatter and all-gather overlap (shares.c has the linear program and its solution); on
 * equal links they are those of branch. Segments make the overlap: the planner finds their number,
 * and K of them come within a few waves of K of the optimum. With shares=even the phases stay apart
 * unless segments=K is given; there the vector runs in two blocks, the second one step behind, so
 * that the inner phase of one hides behind the outer phase of the other. leader (everything on the
 * first rank of a host, as Horovod does with unequal hosts) and broke (on as many ranks as the
 * smallest host has: HCCL's "broke" way) exist for comparison. A reduce-scatter or all-gather alone
 * has blocks of equal size unless shares=branch is given: optimal means even then.
 *
 * phases=direct: one step per level, at least c - 1 messages per rank. circulant: ceil(log2 c)
 * steps of one message, for small vectors on hosts that pay per message; its link loads are right
 * only with equal shares, so optimal means branch there. auto compares the time of messages
 * (latency, overhead, ports) and bytes of the two.
 *
 * Cost: 2 steps per level, all-reduce of S bytes in S * max over uplinks of load / bandwidth
 * (tt_flex_time) plus the levels' latencies; a rank waits for one representative in each sibling.
 * Sums are in the order of the children, level by level (direct): all ranks get the same bits.
 * Invariant after the reduce-scatter of a node: for every chunk one rank of its group has the sum
 * over the group. */
#include "algo/flex/flex.h"
#include "algo/algos.h"
#include "algo/phases.h"

#include <math.h>

enum { MAX_RANKS = 4096, MAX_HEIGHT = 64 };
static const uint64_t max_work = UINT64_C(1) << 27; /* chunks times nodes */

static bool has_option(const struct tt_options *o, const char *key)
{
    for (size_t i = 0; i < o->n; i++)
        if (tt_streq(o->item[i].key, key))
            return true;
    return false;
}

static enum tt_flex_shares wanted_shares(const struct tt_algo_args *a)
{
    static const char *const names[] = {[TT_FLEX_OPTIMAL] = "optimal",
                                        [TT_FLEX_EVEN] = "even",
                                        [TT_FLEX_BRANCH] = "branch",
                                        [TT_FLEX_LEADER] = "leader",
                                        [TT_FLEX_BROKE] = "broke"};
    const char *text = tt_algo_option_text(&tt_algo_flex, &a->options, "shares");
    enum tt_flex_shares shares = TT_FLEX_OPTIMAL;
    for (size_t i = 0; i < countof(names); i++)
        shares = tt_streq(text, names[i]) ? (enum tt_flex_shares)i : shares;
    return shares == TT_FLEX_OPTIMAL && a->problem.coll != TUTTI_ALLREDUCE ? TT_FLEX_EVEN : shares;
}

/* All-reduce with even shares: the phases do not overlap unless that was asked for, since overlap
 * is what makes uneven shares better. */
static bool phases_apart(const struct tt_algo_args *a)
{
    return a->problem.coll == TUTTI_ALLREDUCE && wanted_shares(a) == TT_FLEX_EVEN &&
           !has_option(&a->options, "segments");
}

/* ---- direct or circulant ---- */

static uint32_t widest(const struct tt_flex_tree *t, uint32_t height)
{
    uint32_t most = 1;
    for (uint32_t v = 0; v < t->nnodes; v++)
        if (t->node[v].height == height && t->node[v].count > most)
            most = t->node[v].count;
    return most;
}

static double slowest_link(const struct tt_topo *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->nlinks; i++)
        most = t->links[i].latency_ps > most ? t->links[i].latency_ps : most;
    return (double)most;
}

/* Picoseconds of the messages of one way up: a route of height h has 2h links. */
static double message_time(const struct tt_topo *topo, const struct tt_flex_tree *t, bool circulant)
{
    double sum = 0, link = slowest_link(topo);
    for (uint32_t h = 1; h <= t->node[0].height; h++) {
        uint32_t width = widest(t, h), messages = width - 1, steps = tt_ceil_log2(width);
        double waits = topo->ports && !circulant ? ceil((double)messages / topo->ports) : 1;
        double one =
            2.0 * h * link * waits + (double)topo->overhead_ps * (circulant ? 1 : messages);
        sum += circulant ? one * steps : one;
    }
    return sum;
}

static double bytes_of(const struct tt_problem *p)
{
    return (double)p->count * tt_sched_dtype_bytes(p->dtype);
}

/* Compares the best time of direct phases with that of circulant ones. Leaves the shares of the
 * winner in the tree. */
static bool circulant_wins(const struct tt_algo_args *a, struct tt_flex_tree *t,
                           enum tt_flex_shares shares)
{
    double direct = 2 * message_time(a->topo, t, false),
           circulant = 2 * message_time(a->topo, t, true);
    if (circulant >= direct)
        return false;
    tt_flex_share(t, shares);
    direct += 1e12 * bytes_of(&a->problem) * tt_flex_time(t, shares == TT_FLEX_OPTIMAL);
    tt_flex_share(t, shares == TT_FLEX_OPTIMAL ? TT_FLEX_BRANCH : shares);
    circulant += 1e12 * bytes_of(&a->problem) * tt_flex_time(t, false);
    return circulant < direct;
}

static void set_phases(const struct tt_algo_args *a, struct tt_flex_plan *p)
{
    const char *text = tt_algo_option_text(&tt_algo_flex, &a->options, "phases");
    bool automatic = tt_streq(text, "auto"), asked = tt_streq(text, "circulant");
    enum tt_flex_shares shares = wanted_shares(a);
    p->circulant = automatic ? circulant_wins(a, &p->tree, shares) : asked;
    tt_flex_share(&p->tree, p->circulant && shares == TT_FLEX_OPTIMAL ? TT_FLEX_BRANCH : shares);
}

/* ---- the plan ---- */

static void plan_free(struct tt_flex_plan *p)
{
    tt_flex_cells_free(&p->tree, p->cells);
    tt_flex_tree_free(&p->tree);
    tt_vec_free(&p->run);
    tt_vec_free(&p->sum);
}

static tutti_status check_size(const struct tt_flex_plan *p, struct tutti_error *why)
{
    uint64_t chunks = (uint64_t)p->cells[0].n * p->blocks;
    if (chunks * p->tree.nnodes > max_work)
        return tt_fail(
            why, TUTTI_ERR_REFUSED,
            "%llu chunks on a hierarchy of %u nodes are too many messages for one schedule",
            (unsigned long long)chunks, p->tree.nnodes);
    return TUTTI_OK;
}

/* Makes everything but the runs. */
static tutti_status plan_make(const struct tt_algo_args *a, struct tt_flex_plan *ret,
                              struct tutti_error *why)
{
    struct tt_flex_plan p = {.blocks = 1, .scatter = a->problem.coll == TUTTI_REDUCE_SCATTER};
    tutti_status st = tt_flex_tree_make(a->topo, &p.tree, why);
    if (!st && p.tree.node[0].height > MAX_HEIGHT)
        st = tt_fail(why, TUTTI_ERR_REFUSED, "the hierarchy has %u levels; at most %d are followed",
                     p.tree.node[0].height, (int)MAX_HEIGHT);
    if (!st) {
        set_phases(a, &p);
        p.blocks = phases_apart(a) && p.tree.node[0].height > 1 ? 2 : 1;
        st = tt_flex_cells_make(&p.tree, &p.cells, why);
    }
    if (!st)
        st = check_size(&p, why);
    if (!st)
        *ret = p;
    else
        plan_free(&p);
    return st;
}

static tutti_status flex_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    struct tt_flex_plan p;
    if (a->problem.ranks == 1)
        return TUTTI_OK;
    if (a->problem.ranks > MAX_RANKS)
        return tt_fail(why, TUTTI_ERR_REFUSED, "%u ranks are too many to list together: at most %d",
                       a->problem.ranks, (int)MAX_RANKS);
    tutti_status st = plan_make(a, &p, why);
    if (!st)
        plan_free(&p);
    return st;
}

/* ---- shape ---- */

static uint32_t flex_buffers(const struct tt_flex_plan *p, tutti_coll coll)
{
    uint32_t most = 2;
    for (uint32_t v = 0; v < p->tree.nnodes; v++)
        most = p->tree.node[v].count > most ? p->tree.node[v].count : most;
    if (!tt_sched_coll_reduces(coll))
        return TT_BUF_SCRATCH;
    if (!p->circulant && most > 2)
        return TT_FLEX_ARRIVALS + most;
    return coll == TUTTI_REDUCE_SCATTER ? TT_FLEX_SUM + 1 : TT_BUF_SCRATCH;
}

/* The weights of one block, repeated. */
static tutti_status set_weights(const struct tt_flex_plan *p, struct tt_shape *s,
                                struct tutti_error *err)
{
    uint32_t n = p->cells[0].n, *one = NULL;
    tutti_status st = tt_flex_weights(&p->cells[0], &one, err);
    if (st || !one)
        return st;
    s->weights = tt_resize(one, (size_t)n * p->blocks, sizeof *one);
    if (!s->weights) {
        s->weights = one; /* for the caller to free */
        return tt_fail_memory(err, "weights");
    }
    for (uint32_t c = n; c < s->chunks; c++)
        s->weights[c] = s->weights[c - n];
    return TUTTI_OK;
}

/* Owners are declared unless they are those of the block rule. */
static tutti_status set_owners(const struct tt_flex_plan *p, struct tt_shape *s,
                               struct tutti_error *err)
{
    bool by_rule = s->chunks % s->ranks == 0;
    if (!tt_sched_coll_has_owners(s->coll))
        return TUTTI_OK;
    for (uint32_t c = 0; c < s->chunks && by_rule; c++)
        by_rule = p->cells[0].rep[c] == tt_sched_shape_owner(s, c);
    if (by_rule)
        return TUTTI_OK;
    s->owner = tt_alloc(s->chunks, sizeof *s->owner);
    if (!s->owner)
        return tt_fail_memory(err, "owners");
    for (uint32_t c = 0; c < s->chunks; c++)
        s->owner[c] = p->cells[0].rep[c];
    return TUTTI_OK;
}

static tutti_status flex_shape(const struct tt_algo_args *a, struct tt_shape *s,
                               struct tutti_error *err)
{
    struct tt_flex_plan p;
    s->chunks = 1;
    if (a->problem.ranks == 1)
        return TUTTI_OK;
    tutti_status st = plan_make(a, &p, err);
    if (st)
        return st;
    s->chunks = p.cells[0].n * p.blocks;
    s->nbufs = flex_buffers(&p, s->coll);
    st = set_weights(&p, s, err);
    if (!st)
        st = set_owners(&p, s, err);
    plan_free(&p);
    return st;
}

static void flex_build(const struct tt_algo_args *a, struct tt_synthesis *y, struct tt_builder *b)
{
    struct tt_flex_plan p;
    (void)y;
    if (a->problem.ranks == 1) {
        tt_sched_build_rank(b, 0);
        tt_algo_emit_alone(b);
        return;
    }
    b->status = plan_make(a, &p, &b->err);
    if (b->status)
        return;
    b->status = tt_flex_runs_make(&p, &b->err);
    if (!b->status)
        tt_flex_emit(&p, b);
    plan_free(&p);
}

/* Each chunk of each group is visited on the way up and down. */
static uint64_t estimate_ops(const struct tt_algo_args *a)
{
    struct tt_flex_plan p;
    uint64_t work = 4;
    if (a->problem.ranks == 1 || plan_make(a, &p, NULL))
        return work;
    work += 4 * (uint64_t)p.cells[0].n * p.blocks * p.tree.nnodes / a->problem.ranks;
    plan_free(&p);
    return work;
}

static const struct tt_algo_option options[] = {
    {.key = "shares",
     .values = "optimal|even|branch|leader|broke",
     .desc =
         "how much each rank keeps: least time with both phases overlapped; the same per rank; per "
         "branch; one or few ranks of each host"},
    {.key = "phases",
     .values = "auto|direct|circulant",
     .desc = "inside a group: one step, all with all; ceil(log2 c) steps with one "
             "partner each, for small vectors"},
    {.key = NULL},
};

const struct tt_algo tt_algo_flex = {
    .name = "flex",
    .desc = "reduce-scatter and all-gather along a hierarchy with uneven groups, links and shares "
            "(after FlexReduce, DAC 2020)",
    .needs =
        "a hierarchy: a tree, nics or star, or a file whose network is a tree; at most 4096 ranks",
    .home = "tree nics",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .needs_topo = true,
    .weighs = true,
    .pipelined = true,
    .options = options,
    .one_segment = phases_apart,
    .probe = flex_probe,
    .shape = flex_shape,
    .build = flex_build,
    .estimate_ops = estimate_ops,
};
