/* multitree.c - MultiTree (Huang et al., ISCA 2021): a tree per rank, all grown together so that no
 * link is needed twice in a step.
 *
 * Chunk r is summed up along tree r and handed out along it again. The trees (grow.c) say in which
 * step which edge is used: all edges of a step go over different links. An all-gather follows them
 * as they are; a reduce-scatter runs them backwards in mirrored time, an edge of step t being used
 * from child to parent in step S-1-t, so that it is as free of contention. Mesh 2x2, S = 2 steps
 * each way:
 *
 *     0 - 1    tree 0:   0          step 0 (sums, t = 1):  chunk 0: 3->2   1: 2->3   2: 1->0   ...
 *     |   |             / \         step 1 (t = 0):        chunk 0: 2->0 1->0   1: 3->1 0->1   ...
 *     2 - 3            2   1        step 2 (t = 0):        chunk 0: 0->2 and 0->1, ...
 *                      |            step 3 (t = 1):        chunk 0: 2->3, ...
 *                      3
 *
 * Invariant of the sums: before step S-1-t a rank has added all of its subtree in tree r that
 * joined after t; its own message goes up after those of its children. Several children of a tree
 * in one step are received apart and added in one operation. Cost: 2 S steps of one chunk; S is at
 * least max over ranks of (p-1)/links, on a torus of n x n about n^2/4 (16x16: 64), on a mesh
 * n^2/2; bytes per rank 2 (p-1)/p of the vector. A rank waits for its children, then for its
 * parent, in every tree.
 *
 * Links of unequal speed: a step is as long as a message takes on a link of a chosen speed, faster
 * links carry several messages in it and slower ones none; so only there a link carries more than
 * one message in a step. Where a link is faster one way than the other, sums get trees of their
 * own. */
#include <assert.h>
#include <stdlib.h>

#include "algo/algos.h"
#include "algo/multitree/sched.h"
#include "algo/phases.h"

/* Scratch: partial sums where OUT may not be used; then messages of children that arrive
 * together. */
enum { SUM = TT_BUF_SCRATCH, FROM_CHILD };

/* ---- options ---- */

static tutti_status multitree_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    const struct tt_topo *t = a->topo;
    if (t->ranks > TT_MULTITREE_RANKS)
        return tt_fail(why, TUTTI_ERR_REFUSED,
                       "%u ranks have more pairs than a schedule can list: at most %d ranks",
                       t->ranks, (int)TT_MULTITREE_RANKS);
    if ((uint64_t)t->ranks * t->switches > UINT64_C(1) << 28)
        return tt_fail(why, TUTTI_ERR_REFUSED,
                       "%u ranks and %u switches are too many to grow trees on", t->ranks,
                       t->switches);
    return TUTTI_OK;
}

/* The most children that a rank can have in one tree and one step: the messages that it may send in
 * a step of the slowest speed. */
static uint32_t most_children(const struct tt_topo *t)
{
    double slowest = 0, most = 1;
    for (uint32_t i = 0; i < 2 * t->nlinks; i++) {
        double bw = t->links[i / 2].bw[i & 1];
        slowest = slowest == 0 || bw < slowest ? bw : slowest;
    }
    for (uint32_t r = 0; r < t->ranks && slowest > 0; r++) {
        double out = tt_topo_egress(t, r), in = tt_topo_ingress(t, r), more = out > in ? out : in;
        most = more / slowest > most ? more / slowest : most;
    }
    most = most * (1.0 + 1.0 / 32) + 1; /* slots are rounded up in the same way */
    return most < (double)t->ranks ? (uint32_t)most : t->ranks;
}

static tutti_status multitree_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                    struct tutti_error *err)
{
    (void)err;
    s->chunks = a->problem.ranks;
    s->nbufs = tt_sched_coll_reduces(s->coll) && s->ranks > 1 ? FROM_CHILD + most_children(a->topo)
                                                              : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

/* ---- trees, and their edges by rank ---- */

static tutti_status make_lists(const struct tt_multitree_trees *f, bool by_parent,
                               struct tt_multitree_lists *ret, struct tutti_error *err)
{
    struct tt_multitree_lists l = {tt_zalloc((size_t)f->ranks + 2, sizeof(uint32_t)),
                                   tt_alloc((size_t)f->nedges + 1, sizeof(uint32_t))};
    *ret = l;
    if (!l.start || !l.edge)
        return tt_fail_memory(err, "lists of tree edges");
    for (uint32_t i = 0; i < f->nedges; i++)
        l.start[(by_parent ? f->edges[i].parent : f->edges[i].child) + 2]++;
    for (uint32_t r = 2; r < f->ranks + 2; r++)
        l.start[r] += l.start[r - 1];
    /* start[r+1] moves from the first of r to the first of r+1 */
    for (uint32_t i = 0; i < f->nedges; i++)
        l.edge[l.start[(by_parent ? f->edges[i].parent : f->edges[i].child) + 1]++] = i;
    return TUTTI_OK;
}

static struct tt_multitree_options forest_options(const struct tt_algo_args *a, bool inward)
{
    return (struct tt_multitree_options){
        .paper_ending =
            tt_streq(tt_algo_option_text(&tt_algo_multitree, &a->options, "ending"), "paper"),
        .paper_order =
            tt_streq(tt_algo_option_text(&tt_algo_multitree, &a->options, "order"), "paper"),
        .inward = inward,
    };
}

/* Are trees grown for this phase? Where links are equally fast both ways, one forest serves both
 * phases. */
static bool grows(const struct tt_algo_args *a, int phase)
{
    bool same = tt_multitree_symmetric(a->topo);
    if (phase == TT_MULTITREE_SUM)
        return tt_sched_coll_reduces(a->problem.coll) && !same;
    return tt_algo_coll_gathers(a->problem.coll) || same;
}

/* A memo for each phase. */
static_assert((int)TT_ALGO_MEMOS > (int)TT_MULTITREE_HAND, "memos are numbered by phase");
static void memos(const struct tt_algo_args *a, struct tt_synthesis *y)
{
    for (int phase = 0; phase < 2 && tt_multitree_worth_keeping(a->topo); phase++) {
        struct tt_multitree_options o = forest_options(a, phase == TT_MULTITREE_SUM);
        if (grows(a, phase))
            tt_multitree_name(a->topo, &o, y->memo[phase].name, sizeof y->memo[phase].name);
    }
}

static tutti_status get_forests(const struct tt_algo_args *a, struct tt_synthesis *y,
                                struct tt_multitree *m, struct tutti_error *err)
{
    bool sums = tt_sched_coll_reduces(a->problem.coll),
         hands = tt_algo_coll_gathers(a->problem.coll);
    tutti_status st = TUTTI_OK;
    for (int phase = 0; phase < 2 && !st; phase++) {
        struct tt_multitree_options o = forest_options(a, phase == TT_MULTITREE_SUM);
        if (grows(a, phase))
            st = tt_multitree_get(a->topo, &o, &y->memo[phase], &m->own[phase], err);
    }
    m->forest[TT_MULTITREE_SUM] =
        sums ? &m->own[grows(a, TT_MULTITREE_SUM) ? TT_MULTITREE_SUM : TT_MULTITREE_HAND] : NULL;
    m->forest[TT_MULTITREE_HAND] = hands ? &m->own[TT_MULTITREE_HAND] : NULL;
    return st;
}

static tutti_status open_trees(const struct tt_algo_args *a, struct tt_synthesis *y,
                               struct tt_multitree *m, struct tutti_error *err)
{
    *m = (struct tt_multitree){.t = a->topo};
    tutti_status st = get_forests(a, y, m, err);
    for (int phase = 0; phase < 2 && !st; phase++) {
        const struct tt_multitree_trees *f = m->forest[phase];
        if (!f)
            continue;
        m->channel[phase] = tt_zalloc((size_t)f->nedges + 1, sizeof(uint16_t));
        st = m->channel[phase] ? make_lists(f, true, &m->down[phase], err)
                               : tt_fail_memory(err, "channels");
        if (!st)
            st = make_lists(f, false, &m->up[phase], err);
    }
    return st;
}

static void close_trees(struct tt_multitree *m)
{
    for (int phase = 0; phase < 2; phase++) {
        tt_multitree_free(&m->own[phase]);
        free(m->down[phase].start);
        free(m->down[phase].edge);
        free(m->up[phase].start);
        free(m->up[phase].edge);
        free(m->channel[phase]);
    }
}

/* ---- one rank ---- */

/* What a tree's children have sent to the rank being listed. */
struct arrivals {
    uint32_t stamp; /* rank + 1 once anything was added */
    uint32_t now;   /* children in the step being listed */
    uint32_t first; /* of them: scratch used so far */
};

struct lister {
    const struct tt_multitree *m;
    struct tt_builder *b;
    struct arrivals *tree; /* per tree */
    uint32_t rank;
    bool scatter; /* no all-gather follows: OUT of foreign chunks does not exist */
};

static uint32_t sum_buffer(const struct lister *l, uint32_t tree)
{
    return l->scatter && tree != l->rank ? (uint32_t)SUM : TT_BUF_OUT;
}

static bool has_sum(const struct lister *l, uint32_t tree)
{
    return l->tree[tree].stamp == l->rank + 1;
}

/* The end of the run of edges of one rank and step that begins at list position `at`. */
static uint32_t run_end(const struct tt_multitree_trees *f, const struct tt_multitree_lists *l,
                        uint32_t at, uint32_t end)
{
    uint32_t step = f->edges[l->edge[at]].step, i = at;
    while (i < end && f->edges[l->edge[i]].step == step)
        i++;
    return i;
}

static uint32_t run_begin(const struct tt_multitree_trees *f, const struct tt_multitree_lists *l,
                          uint32_t end, uint32_t first)
{
    uint32_t step = f->edges[l->edge[end - 1]].step, i = end;
    while (i > first && f->edges[l->edge[i - 1]].step == step)
        i--;
    return i;
}

static void receive_sums(struct lister *l, uint32_t step, uint32_t from, uint32_t to)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_SUM];
    const uint32_t *list = l->m->down[TT_MULTITREE_SUM].edge;
    for (uint32_t i = from; i < to; i++)
        l->tree[f->edges[list[i]].tree].now++;
    for (uint32_t i = from; i < to; i++) {
        const struct tt_multitree_edge *e = &f->edges[list[i]];
        struct arrivals *t = &l->tree[e->tree];
        uint32_t sum = sum_buffer(l, e->tree);
        struct tt_span alone =
            tt_sched_span_from(sum, has_sum(l, e->tree) ? sum : TT_BUF_IN, e->tree, 1);
        struct tt_span apart = tt_sched_span_range(FROM_CHILD + t->first, e->tree, 1);
        if (t->now == 1)
            tt_sched_emit_recv_reduce(l->b, step, e->child,
                                      l->m->channel[TT_MULTITREE_SUM][list[i]], &alone, 1);
        else
            tt_sched_emit_recv(l->b, step, e->child, l->m->channel[TT_MULTITREE_SUM][list[i]],
                               &apart, 1);
        t->first += t->now > 1;
    }
}

/* Adds what came apart: own sum so far (or the input), then the children in order. */
static void add_arrivals(struct lister *l, uint32_t step, uint32_t from, uint32_t to,
                         struct tt_span *spans)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_SUM];
    const uint32_t *list = l->m->down[TT_MULTITREE_SUM].edge;
    for (uint32_t i = from; i < to; i++) {
        uint32_t tree = f->edges[list[i]].tree, sum = sum_buffer(l, tree), n = l->tree[tree].first;
        if (n > 0) {
            spans[0] = tt_sched_span_range(sum, tree, 1);
            spans[1] = tt_sched_span_from(sum, has_sum(l, tree) ? sum : TT_BUF_IN, tree, 1);
            for (uint32_t k = 0; k < n; k++)
                spans[2 + k] = tt_sched_span_from(sum, FROM_CHILD + k, tree, 1);
            tt_sched_emit_reduce(l->b, step, spans, 2 + n);
        }
        l->tree[tree] = (struct arrivals){.stamp = l->rank + 1};
    }
}

static void send_sums(struct lister *l, uint32_t step, uint32_t from, uint32_t to)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_SUM];
    const uint32_t *list = l->m->up[TT_MULTITREE_SUM].edge;
    for (uint32_t i = from; i < to; i++) {
        const struct tt_multitree_edge *e = &f->edges[list[i]];
        struct tt_span part = tt_sched_span_range(
            has_sum(l, e->tree) ? sum_buffer(l, e->tree) : TT_BUF_IN, e->tree, 1);
        tt_sched_emit_send(l->b, step, e->parent, l->m->channel[TT_MULTITREE_SUM][list[i]], &part,
                           1);
    }
}

/* Walks the edges of this rank backwards, the later of the two lists first. */
static void list_sums(struct lister *l, struct tt_span *spans)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_SUM];
    const struct tt_multitree_lists *down = &l->m->down[TT_MULTITREE_SUM],
                                    *up = &l->m->up[TT_MULTITREE_SUM];
    uint32_t d0 = down->start[l->rank], d = down->start[l->rank + 1], u0 = up->start[l->rank],
             u = up->start[l->rank + 1];
    while (d > d0 || u > u0) {
        uint32_t td = d > d0 ? f->edges[down->edge[d - 1]].step + 1 : 0,
                 tu = u > u0 ? f->edges[up->edge[u - 1]].step + 1 : 0;
        uint32_t t = (td > tu ? td : tu) - 1, step = f->steps - 1 - t;
        uint32_t df = td == t + 1 ? run_begin(f, down, d, d0) : d,
                 uf = tu == t + 1 ? run_begin(f, up, u, u0) : u;
        send_sums(l, step, uf, u);
        receive_sums(l, step, df, d);
        add_arrivals(l, step, df, d, spans);
        d = df;
        u = uf;
    }
}

static void hand_out(struct lister *l, uint32_t step, uint32_t from, uint32_t to)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_HAND];
    const uint32_t *list = l->m->down[TT_MULTITREE_HAND].edge;
    bool summed = l->m->forest[TT_MULTITREE_SUM] != NULL;
    for (uint32_t i = from; i < to; i++) {
        const struct tt_multitree_edge *e = &f->edges[list[i]];
        struct tt_span part =
            tt_sched_span_range(e->tree == l->rank && !summed ? TT_BUF_IN : TT_BUF_OUT, e->tree, 1);
        tt_sched_emit_send(l->b, step, e->child, l->m->channel[TT_MULTITREE_HAND][list[i]], &part,
                           1);
    }
}

static void take_in(struct lister *l, uint32_t step, uint32_t from, uint32_t to)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_HAND];
    const uint32_t *list = l->m->up[TT_MULTITREE_HAND].edge;
    for (uint32_t i = from; i < to; i++) {
        const struct tt_multitree_edge *e = &f->edges[list[i]];
        struct tt_span part = tt_sched_span_range(TT_BUF_OUT, e->tree, 1);
        tt_sched_emit_recv(l->b, step, e->parent, l->m->channel[TT_MULTITREE_HAND][list[i]], &part,
                           1);
    }
}

/* Walks the edges of this rank forwards, from step `first` on. */
static void list_hands(struct lister *l, uint32_t first)
{
    const struct tt_multitree_trees *f = l->m->forest[TT_MULTITREE_HAND];
    const struct tt_multitree_lists *down = &l->m->down[TT_MULTITREE_HAND],
                                    *up = &l->m->up[TT_MULTITREE_HAND];
    uint32_t d = down->start[l->rank], d1 = down->start[l->rank + 1], u = up->start[l->rank],
             u1 = up->start[l->rank + 1];
    while (d < d1 || u < u1) {
        uint32_t td = d < d1 ? f->edges[down->edge[d]].step : UINT32_MAX,
                 tu = u < u1 ? f->edges[up->edge[u]].step : UINT32_MAX;
        uint32_t t = td < tu ? td : tu, dn = td == t ? run_end(f, down, d, d1) : d,
                 un = tu == t ? run_end(f, up, u, u1) : u;
        hand_out(l, first + t, d, dn);
        take_in(l, first + t, u, un);
        d = dn;
        u = un;
    }
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, l->rank, 1);
    if (!l->m->forest[TT_MULTITREE_SUM]) /* after the last message that reads it */
        tt_sched_emit_copy(l->b, first + f->steps - 1, &own, 1);
}

static void list_ranks(const struct tt_multitree *m, bool scatter, struct tt_builder *b)
{
    uint32_t n = m->t->ranks,
             first = m->forest[TT_MULTITREE_SUM] ? m->forest[TT_MULTITREE_SUM]->steps : 0;
    uint64_t phases = m->forest[TT_MULTITREE_SUM] && m->forest[TT_MULTITREE_HAND] ? 2 : 1,
             ops = 2 * phases * n * n;
    struct lister l = {.m = m, .b = b, .tree = tt_zalloc(n, sizeof *l.tree), .scatter = scatter};
    struct tt_span *spans = tt_alloc((size_t)n + 2, sizeof *spans);
    if (!l.tree || !spans)
        b->status = tt_fail_memory(&b->err, "multitree");
    tt_sched_build_reserve(b, ops, ops);
    for (uint32_t r = 0; r < n && !b->status; r++) {
        tt_sched_build_rank(b, r);
        l.rank = r;
        if (m->forest[TT_MULTITREE_SUM])
            list_sums(&l, spans);
        if (m->forest[TT_MULTITREE_HAND])
            list_hands(&l, first);
    }
    free(l.tree);
    free(spans);
}

static void multitree_build(const struct tt_algo_args *a, struct tt_synthesis *y,
                            struct tt_builder *b)
{
    struct tt_multitree m;
    if (a->problem.ranks == 1) {
        tt_sched_build_rank(b, 0);
        tt_algo_emit_alone(b);
        return;
    }
    tutti_status st = open_trees(a, y, &m, &b->err);
    if (!st)
        tt_multitree_routes(&m, b);
    else
        b->status = st;
    if (!b->status)
        list_ranks(&m, a->problem.coll == TUTTI_REDUCE_SCATTER, b);
    close_trees(&m);
}

/* Growing an edge, listing its four operations and routing its messages. */
static uint64_t estimate_ops(const struct tt_algo_args *a)
{
    return 16 * (uint64_t)a->problem.ranks;
}

static const struct tt_algo_option options[] = {
    {.key = "ending",
     .values = "fixed|paper",
     .desc = "when a step of growing ends: no tree can grow; paper: the last root's cannot (as "
             "published)"},
    {.key = "order",
     .values = "natural|paper",
     .desc =
         "in which order roots take turns: by number; paper: as published, by a mistaken distance"},
    {.key = NULL},
};

const struct tt_algo tt_algo_multitree = {
    .name = "multitree",
    .desc = "a tree per rank, grown together link by link and step by step: no contention on any "
            "network (ISCA 2021)",
    .needs = "any number of ranks up to 4096, on a given network of any kind",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .needs_topo = true,
    .options = options,
    .probe = multitree_probe,
    .shape = multitree_shape,
    .build = multitree_build,
    .any_size = true,
    .memos = memos,
    .estimate_ops = estimate_ops,
};
