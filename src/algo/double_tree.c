/* double_tree.c - the double binary tree (NCCL's Tree; Sanders, Speck, Traeff 2009): two trees,
 * half the vector each.
 *
 * Tree 0 on labels 0..n-1: with b the lowest set bit of x, the parent of x > 0 is (x^b)|2b, or x^b
 * when that is not below n; its children are x - b/2 and x + l for the largest l <= b/2 that fits.
 * Label 0 is the root and has one child, the largest power of two below n. Odd labels are leaves. A
 * second labelling makes the ranks that are leaves in tree 0 inner in tree 1, so that (almost)
 * every rank forwards in one tree only, and all ports carry equal load. All-reduce on 5 ranks
 * (label in tree 1: rank - 1):
 *
 *     tree 0, chunk 0:   0    tree 1, chunk 1:   1    up: step = level of the sender
 *                        |                       |      0:  1->2 3->2   2->3 4->3
 *                        4                       0      1:  2->4        3->0
 *                       /                       /       2:  4->0        0->1
 *                      2                       3      down: the same reversed
 *                     / \                     / \       3:  0->4        1->0
 *                    1   3                   2   4      4:  4->2        0->3
 *                                                       5:  2->1 2->3   3->2 3->4
 *
 * The level of label x is the index of b, and levels rise strictly on the way up: all messages of
 * one level go in one step. A parent with two children receives both in scratch and adds lower +
 * own + higher label in one operation; every rank gets the root's bits. A rooted collective labels
 * from the root: it has label 0 in both trees, the others 1..n-1 in tree 0 and reversed (n odd) or
 * rotated by one (n even) in tree 1, so that again odd labels become even ones. Cost: all-reduce 2
 * ceil(log2 n) steps, at most 2 S bytes sent and received per rank (inner S/2 * 3, leaf S/2);
 * broadcast and reduce half of it; with K segments about (steps + 2K) * (alpha + S/(2K) beta). Each
 * rank waits for its children, then for its parent. */
#include "algo/algos.h"
#include "algo/phases.h"

enum { NONE = UINT32_MAX, LOWER = 0, HIGHER = 1 };
/* scratch: partial sum where OUT may not be used; messages of two children */
enum { SUM = TT_BUF_SCRATCH, FROM_CHILD };

/* One rank's place in one tree, in ranks. */
struct seat {
    uint32_t parent, kid[2];      /* NONE: absent */
    uint32_t level, kid_level[2]; /* index of the label's lowest set bit; the root: q */
};

/* The labelling of tree `tree`: rank of a label and back. `rooted`: label 0 is the root in both
 * trees. */
struct naming {
    uint32_t n, root, tree;
    bool rooted;
};

static uint32_t turn(uint32_t x, uint32_t by, uint32_t n)
{
    return (uint32_t)(((uint64_t)x + by) % n);
}

static uint32_t label_of(const struct naming *m, uint32_t rank)
{
    uint32_t n = m->n, v = turn(rank, n - m->root, n);
    if (m->tree == 0)
        return v;
    if (!m->rooted)
        return n % 2 ? turn(v, n - 1, n) : n - 1 - v;
    if (v == 0)
        return 0;
    return n % 2 ? n - v : 1 + v % (n - 1);
}

static uint32_t rank_of(const struct naming *m, uint32_t x)
{
    uint32_t n = m->n, v = x;
    if (m->tree == 1 && !m->rooted)
        v = n % 2 ? turn(x, 1, n) : n - 1 - x;
    else if (m->tree == 1 && x > 0)
        v = n % 2 ? n - x : (x == 1 ? n - 1 : x - 1);
    return turn(v, m->root, n);
}

static void seat_kid(const struct naming *m, struct seat *t, uint32_t which, uint32_t label)
{
    t->kid[which] = rank_of(m, label);
    t->kid_level[which] = (uint32_t)__builtin_ctz(label);
}

static struct seat take_seat(const struct naming *m, uint32_t rank)
{
    uint32_t x = label_of(m, rank), n = m->n;
    struct seat t = {NONE, {NONE, NONE}, tt_ceil_log2(n), {0, 0}};
    if (x == 0) {
        seat_kid(m, &t, LOWER, 1u << (t.level - 1));
        return t;
    }
    uint32_t b = x & (0u - x), up = (x ^ b) | (b << 1);
    t.level = (uint32_t)__builtin_ctz(x);
    t.parent = rank_of(m, up < n ? up : x ^ b);
    if (b > 1)
        seat_kid(m, &t, LOWER, x - b / 2);
    for (uint32_t l = b / 2; l > 0; l /= 2)
        if (x + l < n) {
            seat_kid(m, &t, HIGHER, x + l);
            break;
        }
    return t;
}

/* A rank's part in one tree: its seat and its buffers. Chunk and channel are the tree's number. */
struct part {
    struct seat seat;
    uint32_t tree;
    uint32_t acc;  /* where the sum of the own subtree goes */
    uint32_t root; /* what the root sends down: IN (broadcast) or OUT */
    uint32_t first, q;
    bool up, down;
};

static bool leaf(const struct seat *t)
{
    return t->kid[LOWER] == NONE && t->kid[HIGHER] == NONE;
}

static void sends_of_step(struct tt_builder *b, const struct part *p, uint32_t step)
{
    const struct seat *t = &p->seat;
    struct tt_span up = tt_sched_span_range(leaf(t) ? TT_BUF_IN : p->acc, p->tree, 1);
    struct tt_span down = tt_sched_span_range(t->parent == NONE ? p->root : TT_BUF_OUT, p->tree, 1);
    if (p->up && t->parent != NONE && step == t->level)
        tt_sched_emit_send(b, step, t->parent, (uint16_t)p->tree, &up, 1);
    for (int k = LOWER; p->down && k <= HIGHER; k++)
        if (t->kid[k] != NONE && step == p->first + p->q - 1 - t->kid_level[k])
            tt_sched_emit_send(b, step, t->kid[k], (uint16_t)p->tree, &down, 1);
}

static void receives_of_step(struct tt_builder *b, const struct part *p, uint32_t step)
{
    const struct seat *t = &p->seat;
    bool both = t->kid[LOWER] != NONE && t->kid[HIGHER] != NONE;
    for (uint32_t k = LOWER; p->up && k <= HIGHER; k++) {
        if (t->kid[k] == NONE || step != t->kid_level[k])
            continue;
        struct tt_span apart = tt_sched_span_range(FROM_CHILD + k, p->tree, 1),
                       sum = tt_sched_span_from(p->acc, TT_BUF_IN, p->tree, 1);
        if (both)
            tt_sched_emit_recv(b, step, t->kid[k], (uint16_t)p->tree, &apart, 1);
        else
            tt_sched_emit_recv_reduce(b, step, t->kid[k], (uint16_t)p->tree, &sum, 1);
    }
    struct tt_span out = tt_sched_span_range(TT_BUF_OUT, p->tree, 1);
    if (p->down && t->parent != NONE && step == p->first + p->q - 1 - t->level)
        tt_sched_emit_recv(b, step, t->parent, (uint16_t)p->tree, &out, 1);
}

static uint32_t larger(uint32_t x, uint32_t y)
{
    return x > y ? x : y;
}

static void locals_of_step(struct tt_builder *b, const struct part *p, uint32_t step)
{
    const struct seat *t = &p->seat;
    uint32_t c = p->tree;
    if (p->up && t->kid[LOWER] != NONE && t->kid[HIGHER] != NONE &&
        step == larger(t->kid_level[LOWER], t->kid_level[HIGHER])) {
        struct tt_span sum[] = {tt_sched_span_range(p->acc, c, 1),
                                tt_sched_span_from(p->acc, FROM_CHILD + LOWER, c, 1),
                                tt_sched_span_from(p->acc, TT_BUF_IN, c, 1),
                                tt_sched_span_from(p->acc, FROM_CHILD + HIGHER, c, 1)};
        tt_sched_emit_reduce(b, step, sum, countof(sum));
    }
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, c, 1);
    /* after its only message: nothing reads IN later */
    if (p->root == TT_BUF_IN && t->parent == NONE && step == p->first)
        tt_sched_emit_copy(b, step, &own, 1);
}

static struct part make_part(const struct tt_algo_args *a, uint32_t rank, uint32_t tree)
{
    const struct tt_problem *pr = &a->problem;
    bool rooted = pr->coll != TUTTI_ALLREDUCE;
    struct naming m = {pr->ranks, rooted ? pr->root : 0, tree, rooted};
    struct part p = {.seat = take_seat(&m, rank), .tree = tree, .q = tt_ceil_log2(pr->ranks)};
    p.up = pr->coll != TUTTI_BROADCAST;
    p.down = pr->coll != TUTTI_REDUCE;
    p.first = p.up ? p.q : 0;
    p.acc = pr->coll == TUTTI_REDUCE && p.seat.parent != NONE ? SUM : TT_BUF_OUT;
    p.root = p.up ? TT_BUF_OUT : TT_BUF_IN;
    return p;
}

/* Invariant before step s: every child of a level below s has delivered (up); every rank of level
 * q-1-(s-first) or more has the result. */
static void double_tree_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    if (a->problem.ranks == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    struct part p[2] = {make_part(a, rank, 0), make_part(a, rank, 1)};
    uint32_t steps = p[0].first + (p[0].down ? p[0].q : 0);
    for (uint32_t s = 0; s < steps; s++) {
        for (int t = 0; t < 2; t++)
            sends_of_step(b, &p[t], s);
        for (int t = 0; t < 2; t++)
            receives_of_step(b, &p[t], s);
        for (int t = 0; t < 2; t++)
            locals_of_step(b, &p[t], s);
    }
}

static tutti_status double_tree_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                      struct tutti_error *err)
{
    (void)err;
    bool reduces = a->problem.coll != TUTTI_BROADCAST && a->problem.ranks > 1;
    s->chunks = 2;
    s->nbufs = reduces ? FROM_CHILD + 2 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

const struct tt_algo tt_algo_double_tree = {
    .name = "double-tree",
    .desc = "double binary tree: two trees with half the vector each, pipelined; log latency at "
            "full bandwidth",
    .needs = "any number of ranks",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(BROADCAST) | TT_COLLS(REDUCE),
    .pipelined = true,
    .shape = double_tree_shape,
    .slice = double_tree_slice,
};
