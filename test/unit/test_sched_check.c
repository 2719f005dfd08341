/* Well-formedness: every rule has a schedule that breaks it, and random schedules are judged as a chunk-by-chunk oracle judges them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched_int.h"

enum { RANKS = 4, CHUNKS = 8, BUFS = 4, ME = 1 };

static struct tt_shape shape_of(tutti_coll coll)
{
    return (struct tt_shape){
        .coll = coll, .ranks = RANKS, .chunks = coll == TUTTI_ALL_TO_ALL ? 16 : CHUNKS, .nbufs = BUFS, .segments = 1, .root = 2};
}

static struct tt_op op_of(enum tt_op_kind kind, uint32_t step, uint32_t peer)
{
    return (struct tt_op){.kind = (uint8_t)kind, .step = step, .peer = peer};
}

static void start(struct tt_builder *b, struct tt_shape shape)
{
    tt_sched_build_begin(b, &shape, ME);
    tt_sched_build_rank(b, ME);
}

static void add(struct tt_builder *b, struct tt_op op, struct tt_span span)
{
    tt_sched_emit(b, op, &span, 1);
}

/* Freezes and checks; the text of the flaw or "" in a static buffer, the op in *ret_op. */
static const char *verdict(struct tt_builder *b, uint64_t *ret_op)
{
    static struct tutti_error err;
    struct tt_sched *s = NULL;
    struct tt_sched_flaw where = {.rank = 99, .op = 99};
    assert_int_equal(tt_sched_build_freeze(b, &s, &err), TUTTI_OK);
    tutti_status st = tt_sched_check(s, &where, &err);
    tt_sched_free(s);
    if (ret_op)
        *ret_op = where.op;
    if (st == TUTTI_OK)
        return "";
    assert_int_equal(st, err.status);
    return err.text;
}

static void assert_bad_limit(struct tt_builder *b, const char *part)
{
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    assert_int_equal(tt_sched_build_freeze(b, &s, &err), TUTTI_OK);
    assert_int_equal(tt_sched_check(s, NULL, &err), TUTTI_ERR_LIMIT);
    assert_non_null(strstr(err.text, part));
    tt_sched_free(s);
}

static void assert_good(struct tt_builder *b)
{
    assert_string_equal(verdict(b, NULL), "");
}

static void assert_bad(struct tt_builder *b, uint64_t op, const char *part)
{
    uint64_t at;
    const char *text = verdict(b, &at);
    if (!strstr(text, part))
        fail_msg("expected '%s', got '%s'", part, text);
    assert_int_equal(at, op);
}

/* ---- one operation by itself ---- */

/* One operation after a good one; damaged behind the builder's back, which would not emit some of these. */
struct bad_op {
    struct tt_op op;
    struct tt_span span;
    const char *why;
};

static void test_single_ops(void **state)
{
    const struct bad_op cases[] = {
        {op_of(TT_OP_SEND, 5, 0), tt_sched_span_range(1, 0, 8), ""},
        {op_of(TT_OP_SEND, 5, 4), tt_sched_span_range(1, 0, 1), "peer 4 of 4"},
        {op_of(TT_OP_RECV, 5, ME), tt_sched_span_range(1, 0, 1), "oneself"},
        {op_of(TT_OP_SEND, 4, 0), tt_sched_span_range(1, 0, 1), "after an op of step 5"},
        {op_of(TT_OP_SEND, 5, 0), tt_sched_span_range(1, 7, 2), "ends at 9 of 8"},
        {op_of(TT_OP_SEND, 5, 0), tt_sched_span_range(1, UINT32_MAX, UINT32_MAX), "ends at 8589934590"},
        {op_of(TT_OP_SEND, 5, 0), {.first = 0, .len = 1, .stride = UINT32_MAX, .reps = UINT32_MAX, .buf = 1, .src = 1}, "ends at"},
        {op_of(TT_OP_SEND, 5, 0), {.first = 0, .len = 2, .stride = 1, .reps = 2, .buf = 1, .src = 1}, "stride 1"},
        {op_of(TT_OP_SEND, 5, 0), {.first = 0, .len = 1, .stride = 0, .reps = 2, .buf = 1, .src = 1}, "stride 0"},
        {op_of(TT_OP_SEND, 5, 0), tt_sched_span_range(4, 0, 1), "buffer 4 of 4"},
        {op_of(TT_OP_COPY, 5, 0), tt_sched_span_from(1, 4, 0, 1), "buffer 4 of 4"},
        {op_of(TT_OP_RECV, 5, 0), tt_sched_span_range(0, 0, 1), "writes the input"},
        {op_of(TT_OP_COPY, 5, 0), tt_sched_span_from(0, 1, 0, 1), "writes the input"},
        {op_of(TT_OP_COPY, 5, 0), tt_sched_span_range(1, 0, 1), "onto itself"},
        {op_of(TT_OP_REDUCE, 5, 0), tt_sched_span_range(1, 0, 1), "no operand"},
        {op_of(TT_OP_RECV_REDUCE, 5, 0), tt_sched_span_range(1, 0, 1), ""},
        {op_of(TT_OP_RECV_REDUCE, 5, 0), tt_sched_span_from(1, 0, 0, 1), ""},
    };
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_builder b;
        start(&b, shape_of(TUTTI_ALLREDUCE));
        add(&b, op_of(TT_OP_SEND, 5, 2), tt_sched_span_range(0, 0, 1));
        add(&b, cases[i].op, cases[i].span);
        if (*cases[i].why)
            assert_bad(&b, 1, cases[i].why);
        else
            assert_good(&b);
    }
    (void)state;
}

static void damage_kind(struct tt_op *op, struct tt_span *s)
{
    op->kind = TT_OP_KINDS;
    (void)s;
}
static void damage_span(struct tt_op *op, struct tt_span *s)
{
    op->span = 1;
    (void)s;
}
static void damage_nspans(struct tt_op *op, struct tt_span *s)
{
    op->nspans = 0;
    (void)s;
}
static void damage_peer(struct tt_op *op, struct tt_span *s)
{
    op->kind = TT_OP_COPY;
    op->peer = 2;
    (void)s;
}
static void damage_step(struct tt_op *op, struct tt_span *s)
{
    op->step = TT_MAX_STEPS;
    (void)s;
}
static void damage_len(struct tt_op *op, struct tt_span *s)
{
    s->len = 0;
    (void)op;
}
static void damage_stride(struct tt_op *op, struct tt_span *s)
{
    s->stride = 1;
    (void)op;
}
static void damage_source(struct tt_op *op, struct tt_span *s)
{
    s->src = 2;
    (void)op;
}

/* What the builder would not build, but memory might hold. */
static void test_damaged_fields(void **state)
{
    static void (*const damages[])(struct tt_op *, struct tt_span *) = {damage_kind, damage_span, damage_nspans, damage_peer,
                                                                        damage_step, damage_len,  damage_stride, damage_source};
    for (size_t i = 0; i < countof(damages); i++) {
        struct tt_builder b;
        struct tt_sched *s = NULL;
        struct tutti_error err;
        start(&b, shape_of(TUTTI_ALLREDUCE));
        add(&b, op_of(TT_OP_SEND, 0, 2), tt_sched_span_range(1, 0, 1));
        assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
        assert_int_equal(tt_sched_check(s, NULL, NULL), TUTTI_OK);
        damages[i]((struct tt_op *)s->ops, (struct tt_span *)s->spans);
        assert_int_equal(tt_sched_check(s, NULL, &err), TUTTI_ERR_INCORRECT);
        assert_non_null(strstr(err.text, "rank 1 op 0"));
        tt_sched_free(s);
    }
    (void)state;
}

/* The builder clears fields without a meaning, unless it is told to keep them; then they are refused. */
static void test_unused_fields(void **state)
{
    struct tt_span lone = {.first = 2, .len = 1, .stride = 7, .reps = 1, .buf = 2, .src = 2};
    struct tt_span sum[] = {tt_sched_span_from(1, 3, 2, 3), tt_sched_span_from(1, 0, 2, 3), tt_sched_span_from(1, 2, 2, 3)};
    struct tt_span stray[] = {tt_sched_span_range(1, 2, 3), tt_sched_span_from(3, 0, 2, 3)};
    const struct {
        struct tt_op op;
        const struct tt_span *spans;
        size_t n;
        const char *why;
    } cases[] = {
        {op_of(TT_OP_SEND, 0, 0), (struct tt_span[]){tt_sched_span_from(0, 2, 0, 2)}, 1, "span 0 names buffer 2 as a source"},
        {op_of(TT_OP_RECV, 0, 0), (struct tt_span[]){tt_sched_span_from(2, 0, 0, 2)}, 1, "span 0 names buffer 0 as a source"},
        {op_of(TT_OP_RECV, 0, 0), &lone, 1, "a span that is not repeated has stride 7"},
        {op_of(TT_OP_COPY, 0, 3), (struct tt_span[]){tt_sched_span_from(1, 0, 0, 2)}, 1, "peer and channel of a local operation are 0"},
        {{.kind = TT_OP_COPY, .channel = 1},
         (struct tt_span[]){tt_sched_span_from(1, 0, 0, 2)},
         1,
         "peer and channel of a local operation"},
        {op_of(TT_OP_REDUCE, 0, 0), sum, 3, "span 0 names buffer 3 as a source"},
        {op_of(TT_OP_REDUCE, 0, 0), stray, 2, "operand 1 is not on the chunks"},
    };
    for (size_t i = 0; i < countof(cases); i++)
        for (int verbatim = 0; verbatim < 2; verbatim++) {
            struct tt_builder b;
            start(&b, shape_of(TUTTI_ALLREDUCE));
            b.verbatim = verbatim;
            tt_sched_emit(&b, cases[i].op, cases[i].spans, cases[i].n);
            if (verbatim)
                assert_bad(&b, 0, cases[i].why);
            else
                assert_good(&b);
        }
    (void)state;
}

/* Where the flaw is: an operation, told without naming it twice, or what comes before all operations. */
static void test_where(void **state)
{
    struct tt_sched_flaw where = {0};
    struct tt_shape shape = shape_of(TUTTI_ALLREDUCE);
    struct tt_sched *s = NULL;
    struct tutti_error err;
    struct tt_builder b;
    for (uint32_t segments = 0; segments < 2; segments++) {
        shape.segments = segments;
        start(&b, shape);
        add(&b, op_of(TT_OP_RECV, 3, 0), tt_sched_span_range(0, 0, 2));
        assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
        assert_int_equal(tt_sched_check(s, &where, &err), TUTTI_ERR_INCORRECT);
        assert_int_equal(where.header, segments == 0);
        assert_int_equal(where.rank, segments == 0 ? 0 : ME);
        assert_string_equal(where.why, segments == 0 ? "" : "step 3, recv: writes the input");
        assert_string_equal(err.text, segments == 0 ? "segments is 0" : "rank 1 op 0 (recv, step 3): writes the input");
        tt_sched_free(s);
    }
    (void)state;
}

static void test_reduce_rules(void **state)
{
    struct tt_builder b;
    struct tt_span good[] = {tt_sched_span_range(1, 2, 3), tt_sched_span_from(1, 0, 2, 3), tt_sched_span_from(1, 2, 2, 3),
                             tt_sched_span_from(1, 1, 2, 3)};
    start(&b, shape_of(TUTTI_ALLREDUCE));
    tt_sched_emit_reduce(&b, 0, good, 4);
    assert_good(&b);
    struct tt_span shifted[] = {tt_sched_span_range(1, 2, 3), tt_sched_span_from(1, 0, 3, 3)};
    start(&b, shape_of(TUTTI_ALLREDUCE));
    tt_sched_emit_reduce(&b, 0, shifted, 2);
    assert_bad(&b, 0, "operand 1 is not on the chunks");
    struct tt_span emptied[] = {tt_sched_span_range(1, 2, 3), tt_sched_span_from(1, 0, 2, 3), tt_sched_span_from(1, 2, 2, 0)};
    start(&b, shape_of(TUTTI_ALLREDUCE));
    tt_sched_emit_reduce(&b, 0, emptied, 3);
    assert_bad(&b, 0, "empty span");
    (void)state;
}

static void test_repeats(void **state)
{
    struct tt_builder b;
    struct tt_span spans[] = {tt_sched_span_range(1, 6, 2), tt_sched_span_range(2, 0, 2), tt_sched_span_range(3, 1, 1)};
    start(&b, shape_of(TUTTI_ALLREDUCE));
    tt_sched_emit_send(&b, 0, 0, 0, spans, 2);
    tt_sched_emit_send(&b, 0, 0, 0, spans, 3);
    assert_bad(&b, 1, "span 2 repeats a chunk of span 1");
    (void)state;
}

/* ---- operations of a step against each other ---- */

static void test_steps(void **state)
{
    struct tt_builder b;
    start(&b, shape_of(TUTTI_ALLREDUCE));
    add(&b, op_of(TT_OP_RECV, 0, 0), tt_sched_span_range(1, 0, 4));
    add(&b, op_of(TT_OP_SEND, 0, 0), tt_sched_span_range(0, 0, 4));
    assert_bad(&b, 1, "is listed after a recv");

    start(&b, shape_of(TUTTI_ALLREDUCE));
    add(&b, op_of(TT_OP_RECV, 0, 0), tt_sched_span_range(1, 0, 4));
    add(&b, op_of(TT_OP_RECV, 0, 2), tt_sched_span_range(1, 4, 4));
    add(&b, op_of(TT_OP_RECV, 0, 2), tt_sched_span_range(2, 0, 8)); /* another buffer */
    add(&b, op_of(TT_OP_RECV, 1, 2), tt_sched_span_range(1, 3, 1)); /* another step */
    add(&b, op_of(TT_OP_RECV, 1, 2), tt_sched_span_range(2, 3, 1));
    add(&b, op_of(TT_OP_COPY, 1, 0), tt_sched_span_from(2, 1, 2, 2));
    assert_bad(&b, 5, "writes what op 4 writes in the same step");

    start(&b, shape_of(TUTTI_ALLREDUCE)); /* message writes scratch, later message reads it: lockstep and live would differ */
    add(&b, op_of(TT_OP_RECV, 0, 0), tt_sched_span_range(2, 0, 4));
    add(&b, op_of(TT_OP_RECV_REDUCE, 0, 2), tt_sched_span_from(1, 2, 3, 1));
    assert_bad(&b, 1, "reads what message op 0 writes in the same step");

    start(&b, shape_of(TUTTI_ALLREDUCE)); /* reading first and writing later is fine, and so are local readers */
    add(&b, op_of(TT_OP_SEND, 0, 0), tt_sched_span_range(1, 0, 8));
    add(&b, op_of(TT_OP_RECV_REDUCE, 0, 2), tt_sched_span_from(3, 2, 3, 1));
    add(&b, op_of(TT_OP_RECV, 0, 0), tt_sched_span_range(2, 0, 4));
    add(&b, op_of(TT_OP_COPY, 0, 0), tt_sched_span_from(1, 3, 3, 1));
    add(&b, op_of(TT_OP_COPY, 0, 0), tt_sched_span_from(3, 1, 2, 1));
    assert_good(&b);
    (void)state;
}

static void test_inplace(void **state)
{
    struct tt_builder b;
    struct tt_shape shape = shape_of(TUTTI_ALLREDUCE);
    shape.inplace = true;
    start(&b, shape);
    add(&b, op_of(TT_OP_SEND, 0, 0), tt_sched_span_range(0, 0, 8));
    add(&b, op_of(TT_OP_RECV_REDUCE, 0, 0), tt_sched_span_from(1, 0, 0, 4)); /* reads and writes alike: fine */
    add(&b, op_of(TT_OP_COPY, 0, 0), tt_sched_span_from(1, 0, 4, 4));        /* nothing happens in place ... */
    add(&b, op_of(TT_OP_SEND, 1, 0), tt_sched_span_range(0, 4, 4));          /* ... so the input is still there */
    add(&b, op_of(TT_OP_SEND, 2, 0), tt_sched_span_range(0, 3, 1));
    assert_bad(&b, 4, "input that op 1 has overwritten when run in place");

    shape.inplace = false;
    start(&b, shape);
    add(&b, op_of(TT_OP_RECV, 0, 0), tt_sched_span_range(1, 0, 8));
    add(&b, op_of(TT_OP_SEND, 1, 0), tt_sched_span_range(0, 3, 1));
    assert_good(&b);

    /* All-to-all, 4 ranks, rank 1: OUT 0*4+1 (from 0) lies where IN 1*4+0 (to 0) lies, and OUT 3*4+1 where IN 1*4+3. */
    shape = shape_of(TUTTI_ALL_TO_ALL);
    assert_int_equal(tt_sched_shape_alias(&shape, 13), 7);
    for (int bad = 0; bad < 2; bad++) {
        shape.inplace = true;
        start(&b, shape);
        add(&b, op_of(TT_OP_SEND, 0, 0), tt_sched_span_range(0, 4, 1));
        add(&b, op_of(TT_OP_RECV, 0, 0), (struct tt_span){.first = 1, .len = 1, .stride = bad ? 12 : 8, .reps = 2, .buf = 1, .src = 1});
        add(&b, op_of(TT_OP_SEND, 1, 3), tt_sched_span_range(0, 7, 1));
        if (bad)
            assert_bad(&b, 2, "overwritten");
        else
            assert_good(&b);
    }
    (void)state;
}

/* ---- places and shapes ---- */

static bool oracle_places(const struct tt_shape *s, uint32_t rank, const struct tt_span *span, bool input)
{
    for (uint32_t i = 0; i < span->reps; i++)
        for (uint32_t k = 0; k < span->len; k++) {
            uint32_t c = span->first + i * span->stride + k;
            if (!(input ? tt_sched_shape_has_input(s, rank, c) : tt_sched_shape_has_output(s, rank, c)))
                return false;
        }
    return true;
}

static bool random_span(struct tt_rng *rng, uint32_t chunks, struct tt_span *s)
{
    *s = (struct tt_span){.reps = tt_rng_below(rng, 2) ? 1 : 1 + (uint32_t)tt_rng_below(rng, 5)};
    s->len = 1 + (uint32_t)tt_rng_below(rng, 3);
    s->stride = s->reps > 1 ? s->len + (uint32_t)tt_rng_below(rng, 5) : 0;
    uint64_t extent = (uint64_t)s->stride * (s->reps - 1) + s->len;
    if (extent > chunks)
        return false;
    s->first = (uint32_t)tt_rng_below(rng, chunks - extent + 1);
    return true;
}

static void compare_places(struct tt_rng *rng, const struct tt_shape *s)
{
    struct tt_places p;
    struct tutti_error err;
    assert_int_equal(tt_sched_places_make(s, &p, &err), TUTTI_OK);
    for (int i = 0; i < 400; i++) {
        struct tt_span span;
        uint32_t rank = (uint32_t)tt_rng_below(rng, RANKS);
        if (!random_span(rng, s->chunks, &span))
            continue;
        assert_int_equal(tt_sched_places_input(&p, rank, &span), oracle_places(s, rank, &span, true));
        assert_int_equal(tt_sched_places_output(&p, rank, &span), oracle_places(s, rank, &span, false));
    }
    tt_sched_places_free(&p);
}

static void test_places(void **state)
{
    uint32_t owner[CHUNKS] = {3, 3, 0, 1, 1, 3, 1, 2};
    struct tt_rng rng;
    tt_rng_seed(&rng, 5);
    for (int c = 0; c < (int)TUTTI_COLL_COUNT; c++) {
        struct tt_shape s = shape_of((tutti_coll)c);
        compare_places(&rng, &s);
        s.owner = owner;
        if (c != TUTTI_ALL_TO_ALL)
            compare_places(&rng, &s);
    }
    /* The table of sched.h, spot by spot, at rank 1 of 4 with root 2 and 2 chunks per rank. */
    struct tt_shape ag = shape_of(TUTTI_ALL_GATHER), bc = shape_of(TUTTI_BROADCAST), a2a = shape_of(TUTTI_ALL_TO_ALL);
    assert_true(tt_sched_shape_has_input(&ag, 1, 3) && !tt_sched_shape_has_input(&ag, 1, 4) && tt_sched_shape_has_output(&ag, 1, 7));
    assert_true(tt_sched_shape_has_input(&bc, 2, 0) && !tt_sched_shape_has_input(&bc, 1, 0) && tt_sched_shape_has_output(&bc, 1, 0));
    assert_true(tt_sched_shape_has_input(&a2a, 1, 6) && !tt_sched_shape_has_input(&a2a, 1, 9) && tt_sched_shape_has_output(&a2a, 1, 9));

    struct tt_builder b;
    start(&b, shape_of(TUTTI_REDUCE_SCATTER));
    add(&b, op_of(TT_OP_RECV, 0, 0), tt_sched_span_range(1, 2, 2));
    add(&b, op_of(TT_OP_SEND, 1, 0), tt_sched_span_range(1, 2, 3));
    assert_bad(&b, 1, "uses output (chunks from 2) that this rank of a reduce-scatter does not have");
    start(&b, shape_of(TUTTI_BROADCAST));
    add(&b, op_of(TT_OP_SEND, 0, 0), tt_sched_span_range(0, 2, 2));
    assert_bad(&b, 0, "reads input");
    (void)state;
}

static void assert_shape(const struct tt_shape *s, tutti_status status, const char *part)
{
    struct tutti_error err = {0};
    assert_int_equal(tt_sched_shape_check(s, &err), status);
    if (!strstr(err.text, part))
        fail_msg("expected '%s', got '%s'", part, err.text);
}

static void test_shapes(void **state)
{
    struct tt_shape good = shape_of(TUTTI_ALLREDUCE), s;
    uint32_t zeros[CHUNKS] = {0}, owner[CHUNKS] = {0, 1, 2, 3, 4};
    assert_int_equal(tt_sched_shape_check(&good, NULL), TUTTI_OK);
    s = good, s.ranks = 0, assert_shape(&s, TUTTI_ERR_INCORRECT, "ranks is 0");
    s = good, s.chunks = 0, assert_shape(&s, TUTTI_ERR_INCORRECT, "chunks is 0");
    s = good, s.ranks = UINT32_MAX, assert_shape(&s, TUTTI_ERR_LIMIT, "4294967295 ranks");
    s = good, s.nbufs = 1, assert_shape(&s, TUTTI_ERR_INCORRECT, "1 buffers");
    s = good, s.nbufs = UINT32_MAX, assert_shape(&s, TUTTI_ERR_LIMIT, "buffers");
    s = good, s.segments = 0, assert_shape(&s, TUTTI_ERR_INCORRECT, "segments");
    s = good, s.segments = UINT32_MAX, assert_shape(&s, TUTTI_ERR_LIMIT, "segments");
    s = good, s.root = 4, assert_shape(&s, TUTTI_ERR_INCORRECT, "root 4 of 4");
    s = good, s.coll = TUTTI_COLL_COUNT, assert_shape(&s, TUTTI_ERR_INCORRECT, "collective");
    s = good, s.weights = zeros, assert_shape(&s, TUTTI_ERR_INCORRECT, "weights are zero");
    s = good, s.owner = owner, assert_shape(&s, TUTTI_ERR_INCORRECT, "owner 4 of chunk 4");
    s = good, s.coll = TUTTI_GATHER, s.chunks = 7, assert_shape(&s, TUTTI_ERR_INCORRECT, "multiple of 4");
    s = good, s.symmetric = true, s.chunks = 7, assert_shape(&s, TUTTI_ERR_INCORRECT, "multiple of 4");
    s = good, s.coll = TUTTI_ALL_TO_ALL, assert_shape(&s, TUTTI_ERR_INCORRECT, "ranks*ranks");
    s = good, s.coll = TUTTI_BARRIER, assert_shape(&s, TUTTI_ERR_INCORRECT, "one chunk");
    s = good, s.count = UINT64_MAX, assert_shape(&s, TUTTI_ERR_LIMIT, "elements");
    s = good, memset(s.algo, 'x', sizeof s.algo), assert_shape(&s, TUTTI_ERR_INCORRECT, "not terminated");
    (void)state;
}

static void test_routes(void **state)
{
    uint32_t link = 1;
    for (uint32_t dst = 1; dst <= RANKS; dst++) {
        struct tt_builder b;
        struct tt_sched *s = NULL;
        struct tutti_error err;
        struct tt_shape shape = shape_of(TUTTI_ALLREDUCE);
        shape.topo_hash = dst == 3 ? 0 : 7;
        start(&b, shape);
        tt_sched_build_route(&b, 1, dst, 0, &link, 1);
        assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
        assert_int_equal(tt_sched_check(s, NULL, &err), dst == 2 ? TUTTI_OK : TUTTI_ERR_INCORRECT);
        tt_sched_free(s);
    }
    (void)state;
}

/* ---- against oracles ---- */

static void test_overlap_oracle(void **state)
{
    struct tt_rng rng;
    tt_rng_seed(&rng, 3);
    int met = 0;
    for (int i = 0; i < 20000; i++) {
        struct tt_span a, b;
        uint64_t in_a = 0, in_b = 0, work = 0;
        if (!random_span(&rng, 40, &a) || !random_span(&rng, 40, &b))
            continue;
        for (uint32_t k = 0; k < a.reps * a.len; k++)
            in_a |= UINT64_C(1) << (a.first + k / a.len * a.stride + k % a.len);
        for (uint32_t k = 0; k < b.reps * b.len; k++)
            in_b |= UINT64_C(1) << (b.first + k / b.len * b.stride + k % b.len);
        assert_int_equal(tt_sched_span_overlap(&a, &b, &work), (in_a & in_b) != 0);
        met += (in_a & in_b) != 0;
    }
    assert_in_range(met, 1000, 19000);
    (void)state;
}

struct touch {
    uint64_t chunks[BUFS]; /* bit c */
};

static uint64_t bits_of(const struct tt_span *s)
{
    uint64_t bits = 0;
    for (uint32_t i = 0; i < s->reps; i++)
        bits |= ((UINT64_C(1) << s->len) - 1) << (s->first + i * s->stride);
    return bits;
}

/* Chunk by chunk: the index of the first op that breaks a rule of check_race.c within its step, and after all steps the first that
 * breaks the in-place rule; n when none does. */
static size_t oracle(const struct tt_slice *sl, bool inplace)
{
    for (size_t i = 0; i < sl->nops; i++) {
        uint64_t seen = 0;
        for (uint32_t k = 0; k < sl->ops[i].nspans; k++) {
            uint64_t bits = bits_of(&sl->spans[sl->ops[i].span + k]);
            if (seen & bits)
                return i;
            seen |= bits;
        }
        bool last = i + 1 == sl->nops || sl->ops[i + 1].step != sl->ops[i].step;
        if (!last)
            continue;
        struct touch written = {{0}};
        size_t first = i;
        while (first > 0 && sl->ops[first - 1].step == sl->ops[i].step)
            first--;
        for (size_t j = first; j <= i; j++) {
            struct touch own = {{0}};
            for (uint32_t k = 0; k < sl->ops[j].nspans; k++) {
                const struct tt_span *s = &sl->spans[sl->ops[j].span + k];
                struct tt_access a = tt_access_of(&sl->ops[j], k, s);
                if (a.writes && written.chunks[a.to] & bits_of(s))
                    return j;
                if (a.reads && sl->ops[j].kind == TT_OP_RECV_REDUCE && written.chunks[a.from] & bits_of(s))
                    return j;
                if (a.writes)
                    own.chunks[a.to] |= bits_of(s);
            }
            for (int f = 0; f < BUFS; f++)
                written.chunks[f] |= own.chunks[f];
        }
    }
    uint64_t gone = 0;
    for (size_t i = 0; inplace && i < sl->nops; i++) {
        uint64_t now = 0;
        for (uint32_t k = 0; k < sl->ops[i].nspans; k++) {
            const struct tt_span *s = &sl->spans[sl->ops[i].span + k];
            struct tt_access a = tt_access_of(&sl->ops[i], k, s);
            if (a.reads && a.from == TT_BUF_IN && gone & bits_of(s))
                return i;
            if (a.writes && a.to == TT_BUF_OUT && !(sl->ops[i].kind == TT_OP_COPY && a.from == TT_BUF_IN))
                now |= bits_of(s);
        }
        gone |= now;
    }
    return sl->nops;
}

static void random_op(struct tt_rng *rng, struct tt_builder *b, uint32_t step, enum tt_op_kind kind)
{
    struct tt_span spans[3];
    size_t n = 1 + tt_rng_below(rng, 2);
    for (size_t i = 0; i < n; i++) {
        while (!random_span(rng, 24, &spans[i]))
            ;
        spans[i].buf = (uint32_t)tt_rng_below(rng, BUFS);
        spans[i].src = (uint32_t)tt_rng_below(rng, BUFS);
        if (kind != TT_OP_SEND && spans[i].buf == TT_BUF_IN)
            spans[i].buf = TT_BUF_OUT;
        if (kind == TT_OP_COPY && spans[i].buf == spans[i].src)
            spans[i].src = TT_BUF_IN;
    }
    tt_sched_emit(b, op_of(kind, step, 0), spans, n);
}

static void test_race_oracle(void **state)
{
    static const enum tt_op_kind order[] = {TT_OP_SEND, TT_OP_RECV, TT_OP_RECV_REDUCE, TT_OP_RECV, TT_OP_COPY};
    struct tt_rng rng;
    tt_rng_seed(&rng, 9);
    int good = 0, rounds = 20000;
    for (int round = 0; round < rounds; round++) {
        struct tt_builder b;
        struct tt_sched *s = NULL;
        struct tutti_error err;
        struct tt_sched_flaw where = {.op = 99};
        struct tt_shape shape = shape_of(TUTTI_ALLREDUCE);
        shape.chunks = 24;
        shape.inplace = round % 2;
        start(&b, shape);
        for (uint32_t step = 0; step < 3; step++)
            for (size_t k = 0; k < countof(order); k++)
                if (tt_rng_below(&rng, 4) == 0)
                    random_op(&rng, &b, step, order[k]);
        assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
        struct tt_slice sl = tt_sched_slice(s, ME);
        size_t want = oracle(&sl, shape.inplace);
        tutti_status st = tt_sched_check(s, &where, &err);
        assert_int_equal(st, want == sl.nops ? TUTTI_OK : TUTTI_ERR_INCORRECT);
        if (st != TUTTI_OK)
            assert_int_equal(where.op, want);
        good += st == TUTTI_OK;
        tt_sched_free(s);
    }
    assert_in_range(good, rounds / 10, rounds * 9 / 10);
    (void)state;
}

/* Spans with strides of their own, all interleaved in one step without ever meeting: few are judged, too many are refused, and soon. */
/* Many repetitions in few words: refused before anybody walks over them, earlier when each is looked up in a list. */
static void test_hostile_repetitions(void **state)
{
    (void)state;
    enum { LISTED = 1 << 20 };
    struct tt_span wide = {.len = 1, .stride = 2, .reps = (1u << 31) - 1, .buf = 2, .src = 2}, odd = wide;
    struct tt_builder b;
    struct tt_shape shape = shape_of(TUTTI_ALLREDUCE);
    shape.chunks = UINT32_MAX;
    start(&b, shape);
    add(&b, op_of(TT_OP_RECV, 0, 0), wide);
    assert_bad_limit(&b, "separate ranges");
    wide.reps = 1u << 26;
    start(&b, shape);
    add(&b, op_of(TT_OP_RECV, 0, 0), wide);
    assert_good(&b);
    shape = shape_of(TUTTI_ALL_GATHER);
    shape.chunks = LISTED;
    shape.owner = malloc(LISTED * sizeof *shape.owner);
    for (uint32_t c = 0; c < LISTED; c++)
        shape.owner[c] = c % 2 == 0 ? ME : 0;
    start(&b, shape);
    odd.reps = LISTED / 2;
    odd.buf = odd.src = TT_BUF_IN;
    for (uint32_t i = 0; i < 1000; i++)
        add(&b, op_of(TT_OP_SEND, i, 0), odd);
    assert_bad_limit(&b, "separate ranges");
}

static void test_hostile_strides(void **state)
{
    for (uint32_t n = 1000; n <= 16000; n += 15000) {
        struct tt_builder b;
        struct tt_sched *s = NULL;
        struct tutti_error err;
        struct tt_shape shape = shape_of(TUTTI_ALLREDUCE);
        shape.chunks = UINT32_MAX;
        start(&b, shape);
        for (uint32_t i = 0; i < n; i++)
            add(&b, op_of(TT_OP_RECV, 0, 0),
                (struct tt_span){.first = i, .len = 1, .stride = 16384 * (1 + i % 3), .reps = 80000, .buf = 1, .src = 1});
        assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
        assert_int_equal(tt_sched_check(s, NULL, &err), n == 1000 ? TUTTI_OK : TUTTI_ERR_LIMIT);
        tt_sched_free(s);
    }
    /* A billion repetitions each: parity decides at once. */
    uint64_t work = 0;
    struct tt_span odd = {.first = 1, .len = 1, .stride = 2, .reps = 1u << 30},
                   even = {.first = 0, .len = 1, .stride = 4, .reps = 1u << 29};
    assert_false(tt_sched_span_overlap(&odd, &even, &work));
    assert_in_range(work, 1, 10);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_fields),  cmocka_unit_test(test_where),           cmocka_unit_test(test_single_ops),
        cmocka_unit_test(test_damaged_fields), cmocka_unit_test(test_reduce_rules),    cmocka_unit_test(test_repeats),
        cmocka_unit_test(test_steps),          cmocka_unit_test(test_inplace),         cmocka_unit_test(test_places),
        cmocka_unit_test(test_shapes),         cmocka_unit_test(test_routes),          cmocka_unit_test(test_overlap_oracle),
        cmocka_unit_test(test_race_oracle),    cmocka_unit_test(test_hostile_strides), cmocka_unit_test(test_hostile_repetitions),
    };
    return cmocka_run_group_tests_name("sched check", tests, NULL, NULL);
}
