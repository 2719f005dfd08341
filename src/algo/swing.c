/* swing.c - Swing (De Sensi et al., NSDI 2024): log steps whose distances grow slowly, for rings
 * and tori with short cables.
 *
 * In step s rank r exchanges with mate(r, s) = r + rho(s) (r even) or r - rho(s) (r odd), modulo p,
 * with rho(s) = 1 - 2 + 4 - ... +- 2^s = 1, -1, 3, -5, 11, ...: distances 1, 1, 3, 5, 11 instead of
 * 1, 2, 4, 8, 16 of the other log-step algorithms. For even p mates are mutual.
 *
 * The way of block b follows from first arrivals: b starts at rank b; in steps s = q-1 .. 0 every
 * holder passes b to its mate unless the mate has it already. That is a tree over all ranks
 * (checked for every even p when the algorithm is probed). The all-gather sends along these trees,
 * the reduce-scatter runs them backwards, so each contribution is added once, in one order: all
 * ranks get the same bits. A shift by two ranks maps the trees of even blocks onto each other, and
 * r -> 1-r maps even ones to odd ones: one tree, that of block 0, is enough. The place of rank r in
 * the tree of b is r-b (b even) or b-r (b odd). p = 4, q = 2:
 *
 *     mates         s=0: 0-1, 2-3      tree of 0   0 --s=1--> 3     arrive[] = 2, 0, 0, 1 (2: root)
 *     (rho 1, -1)   s=1: 0-3, 1-2                  |s=0       |s=0
 *                                                  1          2
 *     reduce-scatter  step 0 (s=0)  0 sends blocks 1,2 to 1, 1 sends 0,3 to 0, 2 sends 0,3 to 3,
 *                                   3 sends 1,2 to 2
 *                     step 1 (s=1)  0 sends 3 to 3, 1 sends 2 to 2, 2 sends 1 to 1, 3 sends 0 to 0
 *     all-gather      steps 2, 3: s = 1, 0, the same messages back
 *
 * Odd p: the last rank hands its data to rank p-2, whose block carries chunks p-2 and p-1, and
 * receives the result from it at the end. Cost: 2 ceil(log2 p) steps and 2(p-1)/p S sent per rank
 * for even p (every place of the tree is taken once among a rank's blocks); odd p: 2 ceil(log2
 * (p-1)) + 2 steps and S more each way between the last two ranks. On a ring of 256 the
 * reduce-scatter makes 711 block-hops per rank instead of 1024 with doubling distances. A rank
 * waits for one mate per step. Listing one rank takes O(p log p); the blocks of a message are even
 * ones, then odd ones, coded as strided spans. */
#include <assert.h>

#include "algo/algos.h"
#include "algo/phases.h"

#include <stdlib.h>
#include <string.h>

enum { NEVER = UINT8_MAX };

/* The tree of block 0 among the n (even) ranks that swing. */
struct tree {
    uint32_t ranks, n, q;
    uint8_t *arrive; /* by place: the s in which the block arrives; q at the root */
    uint8_t *low;    /* by place: the smallest s in which it passes the block on; NEVER: a leaf */
    uint32_t *holders;
};

static uint32_t mate(uint32_t n, uint32_t r, uint32_t s)
{
    assert(r < n && n % 2 == 0);
    int64_t power = 2LL << s, rho = (1 - (s % 2 ? power : -power)) / 3;
    uint32_t by = (uint32_t)((rho % n + n) % n);
    return (uint32_t)(((uint64_t)r + (r % 2 ? n - by : by)) % n);
}

static void free_tree(struct tree *t)
{
    free(t->arrive);
    free(t->low);
    free(t->holders);
}

/* Invariant: before step s holders[0..have-1] are the places that have the block. Returns how many
 * have it in the end. */
static uint32_t swing_grow(struct tree *t)
{
    uint32_t have = 1;
    t->holders[0] = 0;
    t->arrive[0] = (uint8_t)t->q;
    for (uint32_t s = t->q; s-- > 0;) {
        uint32_t old = have;
        for (uint32_t k = 0; k < old; k++) {
            uint32_t h = t->holders[k], m = mate(t->n, h, s);
            if (t->arrive[m] != NEVER)
                continue;
            t->arrive[m] = (uint8_t)s;
            t->low[h] = (uint8_t)s;
            assert(have < t->n);
            t->holders[have++] = m;
        }
    }
    return have;
}

static tutti_status make_tree(uint32_t ranks, struct tree *ret, struct tutti_error *err)
{
    struct tree t = {.ranks = ranks, .n = ranks - ranks % 2};
    t.q = tt_ceil_log2(t.n);
    t.arrive = tt_alloc(t.n, 1);
    t.low = tt_alloc(t.n, 1);
    t.holders = tt_alloc(t.n, sizeof *t.holders);
    tutti_status status = TUTTI_OK;
    if (!t.arrive || !t.low || !t.holders) {
        status = tt_fail_memory(err, "swing");
        goto out;
    }
    memset(t.arrive, NEVER, t.n);
    memset(t.low, NEVER, t.n);
    if (swing_grow(&t) < t.n)
        status = tt_fail(err, TUTTI_ERR_REFUSED, "swing's trees do not reach all of %u ranks", t.n);
out:
    if (!status)
        *ret = t;
    else
        free_tree(&t);
    return status;
}

static uint32_t swing_place(const struct tree *t, uint32_t rank, uint32_t block)
{
    assert(rank < t->n && block < t->n);
    uint32_t from = block % 2 ? rank : block, to = block % 2 ? block : rank;
    return to >= from ? to - from : to + (t->n - from);
}

/* One rank being listed. */
struct work {
    const struct tree *tree;
    struct tt_builder *b;
    uint32_t rank;
    uint32_t base, acc; /* the own contribution; partial sums */
    bool rs, ag;
    struct tt_vec spans;
};

/* Appends a chunk, or lengthens the last span when the chunk continues its stride. Failure to
 * allocate is kept in the builder. */
static void add_chunk(struct work *w, uint32_t chunk, uint32_t buf, uint32_t src)
{
    struct tt_span *last = w->spans.len ? tt_vec_at(&w->spans, w->spans.len - 1) : NULL;
    if (last && last->buf == buf && last->src == src) {
        uint32_t end = last->first + (last->reps - 1) * last->stride;
        if (chunk > end && (last->reps == 1 || chunk - end == last->stride)) {
            last->stride = chunk - end;
            last->reps++;
            return;
        }
    }
    struct tt_span one = tt_sched_span_from(buf, src, chunk, 1);
    if (!tt_vec_push(&w->spans, &one, 1))
        w->b->status = tt_fail_memory(&w->b->err, "swing");
}

static void add_block(struct work *w, uint32_t block, uint32_t buf, uint32_t src)
{
    add_chunk(w, block, buf, src);
    if (block == w->tree->n - 1 && w->tree->n < w->tree->ranks)
        add_chunk(w, block + 1, buf, src);
}

/* The role of a message for the rank being listed. */
enum role { SCATTER_SEND, SCATTER_RECV, GATHER_SEND, GATHER_RECV };

static void add_scatter_recv(struct work *w, uint32_t block, uint32_t x, uint32_t s)
{
    bool complete = x == 0 && s == w->tree->q - 1 && !w->ag;
    uint32_t src = w->tree->low[x] == s ? w->base : w->acc;
    if (!complete) {
        add_block(w, block, w->acc, src);
        return;
    }
    add_chunk(w, block, TT_BUF_OUT, src);
    if (block == w->tree->n - 1 && w->tree->n < w->tree->ranks)
        add_chunk(w, block + 1, w->acc, src); /* of the folded rank: not for this rank's OUT */
}

/* The spans of the blocks that rank `from` hands over in step s of the reduce-scatter (and gets in
 * the all-gather), both ends alike: even blocks, then odd ones, rising. `first`: the very first
 * step, in which an all-gather reads its own block from IN. */
static void swing_collect(struct work *w, enum role role, uint32_t from, uint32_t s, bool first)
{
    const struct tree *t = w->tree;
    w->spans.len = 0;
    for (uint32_t k = 0; k < t->n; k++) {
        uint32_t block = k < t->n / 2 ? 2 * k : 2 * (k - t->n / 2) + 1;
        if (t->arrive[swing_place(t, from, block)] != s)
            continue;
        uint32_t x = swing_place(t, w->rank, block);
        uint32_t own = first && block == w->rank && !w->rs ? TT_BUF_IN : TT_BUF_OUT;
        uint32_t held = t->low[x] == NEVER ? w->base : w->acc;
        if (role == SCATTER_RECV)
            add_scatter_recv(w, block, x, s);
        else if (role == SCATTER_SEND)
            add_block(w, block, held, held);
        else
            add_block(w, block, role == GATHER_SEND ? own : TT_BUF_OUT,
                      role == GATHER_SEND ? own : TT_BUF_OUT);
    }
}

/* Invariant before s: places of a tree that arrive in steps below s have handed their sums over. */
static void scatter_step(struct work *w, uint32_t s, uint32_t step)
{
    uint32_t peer = mate(w->tree->n, w->rank, s);
    swing_collect(w, SCATTER_SEND, w->rank, s, false);
    tt_sched_emit_send(w->b, step, peer, 0, w->spans.data, w->spans.len);
    swing_collect(w, SCATTER_RECV, peer, s, false);
    tt_sched_emit_recv_reduce(w->b, step, peer, 0, w->spans.data, w->spans.len);
}

/* Invariant before s: exactly the places of a tree that arrive in steps above s have the block. */
static void gather_step(struct work *w, uint32_t s, uint32_t step)
{
    uint32_t peer = mate(w->tree->n, w->rank, s);
    swing_collect(w, GATHER_SEND, peer, s, step == 0);
    tt_sched_emit_send(w->b, step, peer, 0, w->spans.data, w->spans.len);
    swing_collect(w, GATHER_RECV, w->rank, s, step == 0);
    tt_sched_emit_recv(w->b, step, peer, 0, w->spans.data, w->spans.len);
}

static void copy_own(struct work *w)
{
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, w->rank, 1);
    tt_sched_emit_copy(w->b, 0, &own, 1);
}

/* The steps of a rank that swings. `fold`: p is odd; the host also represents the rank `extra`. */
static void list_swinging(struct work *w, bool fold)
{
    const struct tree *t = w->tree;
    uint32_t p = t->ranks, extra = t->n, step = fold ? 1 : 0;
    bool host = fold && w->rank == t->n - 1;
    struct tt_span sum = tt_sched_span_from(w->acc, TT_BUF_IN, 0, p);
    struct tt_span theirs = tt_sched_span_range(w->rs ? w->acc : TT_BUF_OUT, extra, 1);
    struct tt_span result = tt_sched_span_range(TT_BUF_OUT, 0, w->rs ? p : extra);
    if (host && w->rs) {
        tt_sched_emit_recv_reduce(w->b, 0, extra, 0, &sum, 1);
        w->base = w->acc;
    } else if (host) {
        tt_sched_emit_recv(w->b, 0, extra, 0, &theirs, 1);
    }
    if (fold && !w->rs)
        copy_own(w);
    for (uint32_t s = 0; w->rs && s < t->q; s++)
        scatter_step(w, s, step++);
    for (uint32_t s = t->q; w->ag && s-- > 0;) {
        gather_step(w, s, step++);
        if (step == 1)
            copy_own(w); /* an all-gather of even p: the first step sent the own block from IN */
    }
    if (host)
        tt_sched_emit_send(w->b, step, extra, 0, w->ag ? &result : &theirs, 1);
}

static void list_folded(struct work *w)
{
    uint32_t p = w->tree->ranks, host = p - 2, q = w->tree->q;
    uint32_t last = 1 + (w->rs ? q : 0) + (w->ag ? q : 0);
    struct tt_span give = tt_sched_span_range(TT_BUF_IN, w->rs ? 0 : p - 1, w->rs ? p : 1);
    struct tt_span take = w->ag ? tt_sched_span_range(TT_BUF_OUT, 0, w->rs ? p : p - 1)
                                : tt_sched_span_range(TT_BUF_OUT, p - 1, 1);
    tt_sched_emit_send(w->b, 0, host, 0, &give, 1);
    if (!w->rs)
        copy_own(w);
    tt_sched_emit_recv(w->b, last, host, 0, &take, 1);
}

static void swing_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    struct tree t;
    struct work w = {.tree = &t, .b = b, .rank = rank, .spans = {.elem = sizeof(struct tt_span)}};
    w.rs = tt_sched_coll_reduces(a->problem.coll);
    w.ag = tt_algo_coll_gathers(a->problem.coll);
    w.acc = w.ag ? TT_BUF_OUT : TT_BUF_SCRATCH;
    w.base = TT_BUF_IN;
    if (a->problem.ranks == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    tutti_status status = make_tree(a->problem.ranks, &t, &b->err);
    if (status) {
        b->status = status;
        return;
    }
    if (rank == t.n)
        list_folded(&w);
    else
        list_swinging(&w, t.n < t.ranks);
    tt_vec_free(&w.spans);
    free_tree(&t);
}

static tutti_status swing_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    struct tree t;
    if (a->problem.ranks == 1)
        return TUTTI_OK;
    tutti_status status = make_tree(a->problem.ranks, &t, why);
    if (!status)
        free_tree(&t);
    return status;
}

static tutti_status swing_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                struct tutti_error *err)
{
    (void)err;
    s->chunks = a->problem.ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

/* Few operations, but finding the blocks of each takes p steps: budgets must count that. */
static uint64_t swing_estimate(const struct tt_algo_args *a)
{
    return (uint64_t)a->problem.ranks * (1 + tt_ceil_log2(a->problem.ranks)) / 8 + 4;
}

const struct tt_algo tt_algo_swing = {
    .name = "swing",
    .desc = "log steps with short distances 1,1,3,5,11,..: less congestion on rings and tori",
    .needs = "any number of ranks (an odd one folds its last rank)",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .probe = swing_probe,
    .shape = swing_shape,
    .slice = swing_slice,
    .estimate_ops = swing_estimate,
};
