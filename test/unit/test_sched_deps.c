/* The live rule as edges: drawn cases, and random slices against a naive implementation that compares every pair of operations place by
 * place. What counts is who waits for whom through any number of edges; besides, every edge must be a conflict, listed by rising `to`. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/deps.h"

enum { MAX_OPS = 24, MAX_SPANS = 4, BUFS = 5, ROUNDS = 4000 };

/* A slice being written. */
struct list {
    struct tt_op ops[MAX_OPS];
    struct tt_span spans[MAX_OPS * MAX_SPANS];
    uint32_t nops, nspans;
};

static void add(struct list *l, enum tt_op_kind kind, const struct tt_span *spans, uint32_t n)
{
    assert_true(l->nops < MAX_OPS && n <= MAX_SPANS);
    l->ops[l->nops++] = (struct tt_op){.kind = (uint8_t)kind, .span = l->nspans, .nspans = n};
    memcpy(&l->spans[l->nspans], spans, n * sizeof *spans);
    l->nspans += n;
}

static void add1(struct list *l, enum tt_op_kind kind, struct tt_span s)
{
    add(l, kind, &s, 1);
}

static struct tt_slice slice_of(const struct list *l)
{
    return (struct tt_slice){.ops = l->ops, .nops = l->nops, .spans = l->spans, .nspans = l->nspans};
}

static struct tt_vec find(struct tt_deps *d, const struct list *l)
{
    struct tt_vec edges = {.elem = sizeof(struct tt_edge)};
    struct tt_slice sl = slice_of(l);
    struct tutti_error err = {0};
    assert_int_equal(tt_sched_deps_find(d, &sl, &edges, &err), TUTTI_OK);
    return edges;
}

/* ---- the naive rule ---- */

/* Does operation i touch memory (buf, chunk), reading (1) or writing (2) it? Written from sched.h, one place at a time. */
static int touches(const struct tt_deps *d, const struct list *l, uint32_t i, uint32_t buf, uint32_t chunk)
{
    const struct tt_op *op = &l->ops[i];
    int how = 0;
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *s = &l->spans[op->span + k];
        for (uint32_t n = 0; n < s->reps * s->len; n++) {
            uint32_t c = s->first + n / s->len * s->stride + n % s->len, alias = c;
            if (d->inplace && d->shape->coll == TUTTI_ALL_TO_ALL)
                alias = c % d->shape->ranks * d->shape->ranks + c / d->shape->ranks;
            bool onto_itself = d->inplace && op->kind == TT_OP_COPY && s->buf == TT_BUF_OUT && s->src == TT_BUF_IN && alias == c;
            if (onto_itself && !(d->changed_by && d->changed_by[c] == i))
                continue;
            bool out_w = d->inplace && s->buf == TT_BUF_OUT, out_r = d->inplace && s->src == TT_BUF_OUT;
            bool at_buf = (out_w ? TT_BUF_IN : s->buf) == buf && (out_w ? alias : c) == chunk;
            bool at_src = (out_r ? TT_BUF_IN : s->src) == buf && (out_r ? alias : c) == chunk;
            if (op->kind == TT_OP_SEND)
                how |= at_buf ? 1 : 0;
            else if (op->kind != TT_OP_REDUCE || k == 0)
                how |= at_buf ? 2 : 0;
            if (op->kind == TT_OP_RECV_REDUCE || op->kind == TT_OP_COPY || (op->kind == TT_OP_REDUCE && k > 0))
                how |= at_src ? 1 : 0;
        }
    }
    return how;
}

typedef bool matrix[MAX_OPS][MAX_OPS]; /* [to][from] */

static void naive_conflicts(const struct tt_deps *d, const struct list *l, matrix ret)
{
    memset(ret, 0, sizeof(matrix));
    for (uint32_t buf = 0; buf < BUFS; buf++)
        for (uint32_t c = 0; c < d->shape->chunks; c++) {
            int how[MAX_OPS];
            for (uint32_t i = 0; i < l->nops; i++) {
                how[i] = touches(d, l, i, buf, c);
                for (uint32_t j = 0; j < i; j++)
                    if (how[i] && how[j] && (how[i] | how[j]) & 2)
                        ret[i][j] = true;
            }
        }
}

/* Edges go from smaller to larger numbers, so that one pass in order closes them. */
static void closure(uint32_t n, matrix m)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            for (uint32_t k = 0; m[i][j] && k < j; k++)
                m[i][k] = m[i][k] || m[j][k];
}

/* NULL, or what is wrong with the edges. */
static const char *objection(const struct tt_deps *d, const struct list *l, const struct tt_edge *e, size_t n)
{
    matrix want, got = {{false}};
    naive_conflicts(d, l, want);
    for (size_t i = 0; i < n; i++) {
        if (e[i].to >= l->nops || e[i].from >= e[i].to || (i && e[i].to < e[i - 1].to))
            return "an edge goes backwards or out of order";
        if (!want[e[i].to][e[i].from])
            return "an edge without a conflict";
        if (got[e[i].to][e[i].from])
            return "an edge twice";
        got[e[i].to][e[i].from] = true;
    }
    closure(l->nops, want);
    closure(l->nops, got);
    return memcmp(want, got, sizeof want) ? "a conflict is no path of edges" : NULL;
}

/* ---- drawn cases ---- */

/* want: "from>to from>to", in any order. */
static void expect_edges(struct tt_deps d, const struct list *l, const char *want)
{
    struct tt_vec edges = find(&d, l);
    const struct tt_edge *e = edges.data;
    size_t n = 0;
    assert_null(objection(&d, l, e, edges.len));
    for (const char *at = want; at && *at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL, n++) {
        bool found = false;
        for (size_t i = 0; i < edges.len; i++)
            found = found || (e[i].from == strtoul(at, NULL, 10) && e[i].to == strtoul(strchr(at, '>') + 1, NULL, 10));
        if (!found)
            fail_msg("not found: %s", at);
    }
    assert_int_equal(edges.len, n);
    tt_vec_free(&edges);
    tt_sched_deps_free(&d);
}

static const struct tt_shape allreduce = {.coll = TUTTI_ALLREDUCE, .ranks = 4, .chunks = 8, .nbufs = BUFS, .segments = 1};
static const struct tt_shape all_to_all = {.coll = TUTTI_ALL_TO_ALL, .ranks = 3, .chunks = 9, .nbufs = BUFS, .segments = 1};

/* The drawing at the top of deps.c. */
static void test_drawn(void **state)
{
    struct list l = {.nops = 0};
    add1(&l, TT_OP_SEND, tt_sched_span_range(2, 0, 4));
    add1(&l, TT_OP_RECV, tt_sched_span_range(2, 4, 2));
    add1(&l, TT_OP_SEND, tt_sched_span_range(2, 4, 4));
    add1(&l, TT_OP_RECV, tt_sched_span_range(2, 0, 8));
    expect_edges((struct tt_deps){.shape = &allreduce}, &l, "1>2 0>3 2>3");
    (void)state;
}

/* Apart, sending IN 0 and receiving OUT 0 have nothing to do with each other; in place they have. The copies of chunk 1 touch nothing in
 * place, whatever is sent of it. */
static void test_inplace(void **state)
{
    struct list l = {.nops = 0};
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_IN, 0, 2));
    add1(&l, TT_OP_RECV, tt_sched_span_range(TT_BUF_OUT, 0, 1));
    add1(&l, TT_OP_COPY, tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 1, 1));
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_OUT, 0, 2));
    expect_edges((struct tt_deps){.shape = &allreduce}, &l, "1>3 2>3");
    expect_edges((struct tt_deps){.shape = &allreduce, .inplace = true}, &l, "0>1 1>3");
    (void)state;
}

/* A mean is formed by the copy of chunk 1 only: chunks 0 and 2 of the same copy stay as they are, and nobody waits there. */
static void test_changed_copy(void **state)
{
    uint32_t changed_by[8] = {9, 1, 9, 9, 9, 9, 9, 9};
    struct list l = {.nops = 0};
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_IN, 0, 3));
    add1(&l, TT_OP_COPY, tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 3));
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_OUT, 0, 1));
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_OUT, 1, 1));
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_OUT, 2, 1));
    expect_edges((struct tt_deps){.shape = &allreduce, .inplace = true, .changed_by = changed_by}, &l, "0>1 1>3");
    expect_edges((struct tt_deps){.shape = &allreduce, .changed_by = changed_by}, &l, "1>2 1>3 1>4");
    (void)state;
}

/* Rank 0 of 3: OUT 3 (from rank 1) lies where IN 1 (to rank 1) is, OUT 6 where IN 2 is. Chunk 0 is copied onto itself. */
static void test_all_to_all(void **state)
{
    struct list l = {.nops = 0};
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_IN, 1, 1));
    add1(&l, TT_OP_SEND, tt_sched_span_range(TT_BUF_IN, 2, 1));
    add1(&l, TT_OP_RECV, tt_sched_span_range(TT_BUF_OUT, 3, 1));
    add1(&l, TT_OP_RECV, tt_sched_span_range(TT_BUF_OUT, 6, 1));
    add1(&l, TT_OP_COPY, tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 1));
    expect_edges((struct tt_deps){.shape = &all_to_all}, &l, "");
    expect_edges((struct tt_deps){.shape = &all_to_all, .inplace = true}, &l, "0>2 1>3");
    (void)state;
}

/* Destination and operands of a reduction; accumulating in place only waits as a writer. */
static void test_reduce(void **state)
{
    const struct tt_span sum[] = {tt_sched_span_range(1, 0, 2), tt_sched_span_from(1, 2, 0, 2), tt_sched_span_from(1, 3, 0, 2)};
    struct list l = {.nops = 0};
    add1(&l, TT_OP_RECV, tt_sched_span_range(2, 0, 1));
    add1(&l, TT_OP_RECV, tt_sched_span_range(3, 1, 1));
    add(&l, TT_OP_REDUCE, sum, 3);
    add1(&l, TT_OP_RECV_REDUCE, tt_sched_span_range(1, 1, 1));
    add1(&l, TT_OP_RECV_REDUCE, tt_sched_span_from(1, 2, 0, 1));
    expect_edges((struct tt_deps){.shape = &allreduce}, &l, "0>2 1>2 2>3 0>4 2>4");
    (void)state;
}

/* The comparison used below sees each edge that nothing else replaces, and one that does not belong there. */
static void test_comparison_can_fail(void **state)
{
    struct tt_deps d = {.shape = &allreduce};
    struct list l = {.nops = 0};
    add1(&l, TT_OP_RECV, tt_sched_span_range(2, 0, 4));
    add1(&l, TT_OP_SEND, tt_sched_span_range(2, 0, 2));
    add1(&l, TT_OP_SEND, tt_sched_span_range(2, 2, 2));
    add1(&l, TT_OP_RECV, tt_sched_span_range(2, 1, 2));
    const struct tt_edge right[] = {{0, 1}, {0, 2}, {1, 3}, {2, 3}};
    assert_null(objection(&d, &l, right, 4));
    for (size_t drop = 0; drop < 4; drop++) {
        struct tt_edge e[4];
        for (size_t i = 0; i < 3; i++)
            e[i] = right[i < drop ? i : i + 1];
        assert_non_null(objection(&d, &l, e, 3));
    }
    assert_non_null(objection(&d, &l, (struct tt_edge[]){{0, 1}, {0, 2}, {1, 2}, {1, 3}, {2, 3}}, 5));
    (void)state;
}

/* ---- random slices ---- */

static struct tt_span random_span(struct tt_rng *r, uint32_t chunks)
{
    struct tt_span s = {.len = 1 + (uint32_t)tt_rng_below(r, 4), .reps = 1};
    if (s.len > chunks)
        s.len = chunks;
    s.first = (uint32_t)tt_rng_below(r, chunks - s.len + 1);
    uint32_t left = chunks - s.first - s.len;
    if (left > s.len && tt_rng_below(r, 3) == 0) {
        s.stride = s.len + (uint32_t)tt_rng_below(r, left - s.len);
        s.reps = 2 + (uint32_t)tt_rng_below(r, left / s.stride);
    }
    s.buf = s.src = (uint32_t)tt_rng_below(r, BUFS);
    return s;
}

static void random_op(struct tt_rng *r, struct list *l, uint32_t chunks)
{
    struct tt_span spans[MAX_SPANS];
    enum tt_op_kind kind = (enum tt_op_kind)tt_rng_below(r, TT_OP_KINDS);
    uint32_t n = 1 + (uint32_t)tt_rng_below(r, MAX_SPANS);
    for (uint32_t i = 0; i < n; i++) {
        spans[i] = random_span(r, chunks);
        if (l->nspans && tt_rng_below(r, 4) == 0) { /* almost what was used before */
            spans[i] = l->spans[l->nspans - 1];
            spans[i].reps = 1 + (uint32_t)tt_rng_below(r, spans[i].reps);
        }
        if (kind == TT_OP_REDUCE && i > 0) {
            spans[i] = spans[0];
            spans[i].src = (uint32_t)tt_rng_below(r, BUFS);
        } else if (kind == TT_OP_COPY || kind == TT_OP_RECV_REDUCE) {
            spans[i].src = (uint32_t)tt_rng_below(r, BUFS);
        }
        if (kind == TT_OP_COPY && tt_rng_below(r, 2))
            spans[i].buf = TT_BUF_OUT, spans[i].src = TT_BUF_IN;
    }
    add(l, kind, spans, n);
}

/* Some slices in a row with one tt_deps: what it keeps from one to the next must not show. */
static void compare_some(struct tt_rng *r, const struct tt_shape *shape, bool inplace, bool changes)
{
    uint32_t changed_by[256];
    struct tt_deps d = {.shape = shape, .inplace = inplace, .changed_by = changes ? changed_by : NULL};
    for (int i = 0; i < 3; i++) {
        struct list l = {.nops = 0};
        for (uint32_t n = (uint32_t)tt_rng_below(r, MAX_OPS + 1); n > 0; n--)
            random_op(r, &l, shape->chunks);
        for (uint32_t c = 0; c < shape->chunks; c++)
            changed_by[c] = (uint32_t)tt_rng_below(r, MAX_OPS);
        struct tt_vec edges = find(&d, &l);
        const char *why = objection(&d, &l, edges.data, edges.len);
        if (why)
            fail_msg("%s (%u chunks, collective %d, in place %d, slice %d)", why, shape->chunks, (int)shape->coll, inplace, i);
        tt_vec_free(&edges);
    }
    tt_sched_deps_free(&d);
}

static void test_random(void **state)
{
    static const tutti_coll colls[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_TO_ALL};
    struct tt_rng r;
    tt_rng_seed(&r, 15);
    for (int i = 0; i < ROUNDS; i++) {
        struct tt_shape s = {.coll = colls[tt_rng_below(&r, countof(colls))], .nbufs = BUFS, .segments = 1};
        s.ranks = 1 + (uint32_t)tt_rng_below(&r, 5);
        s.chunks = s.coll == TUTTI_ALL_TO_ALL ? s.ranks * s.ranks : 1 + (uint32_t)tt_rng_below(&r, 40);
        if (s.coll != TUTTI_ALL_TO_ALL && i % 50 == 0)
            s.chunks = 250; /* few borders among many chunks are sorted */
        compare_some(&r, &s, i % 2, i % 4 >= 2);
    }
    (void)state;
}

/* 250 chunks need at most 7 borders to be sorted: three plain ranges. */
static void test_few_borders(void **state)
{
    struct tt_shape s = allreduce;
    struct list l = {.nops = 0};
    s.chunks = 250;
    add1(&l, TT_OP_RECV, tt_sched_span_range(2, 100, 100));
    add1(&l, TT_OP_SEND, tt_sched_span_range(2, 199, 20));
    add1(&l, TT_OP_SEND, tt_sched_span_range(2, 0, 100));
    expect_edges((struct tt_deps){.shape = &s}, &l, "0>1");
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_drawn),       cmocka_unit_test(test_inplace), cmocka_unit_test(test_changed_copy),
        cmocka_unit_test(test_all_to_all),  cmocka_unit_test(test_reduce),  cmocka_unit_test(test_comparison_can_fail),
        cmocka_unit_test(test_few_borders), cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
