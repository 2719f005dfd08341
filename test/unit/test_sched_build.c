/* The builder and the frozen schedule: canonical operations, slices, steps, routes, limits, hash and equality. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched.h"

static struct tt_shape shape_of(uint32_t ranks, uint32_t chunks)
{
    return (struct tt_shape){.coll = TUTTI_ALLREDUCE, .ranks = ranks, .chunks = chunks, .nbufs = 4, .segments = 1, .count = 100};
}

static void begin(struct tt_builder *b, uint32_t ranks, uint32_t chunks)
{
    struct tt_shape s = shape_of(ranks, chunks);
    tt_sched_build_begin(b, &s, 0);
}

static struct tt_sched *freeze(struct tt_builder *b)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sched_build_freeze(b, &s, &err), TUTTI_OK);
    return s;
}

static void assert_span(const struct tt_span *s, uint32_t first, uint32_t len, uint32_t stride, uint32_t reps)
{
    assert_int_equal(s->first, first);
    assert_int_equal(s->len, len);
    assert_int_equal(s->stride, stride);
    assert_int_equal(s->reps, reps);
}

static void test_canonical(void **state)
{
    struct tt_builder b;
    begin(&b, 2, 64);
    tt_sched_build_rank(&b, 0);
    struct tt_span spans[] = {
        tt_sched_span_range(1, 0, 2),
        tt_sched_span_range(1, 9, 0),                                        /* empty: dropped */
        tt_sched_span_range(1, 2, 3),                                        /* continues the first */
        {.first = 5, .len = 2, .stride = 2, .reps = 4, .buf = 1, .src = 0},  /* touching: a range, continues, too */
        {.first = 20, .len = 1, .stride = 7, .reps = 1, .buf = 1, .src = 3}, /* one repetition has no stride */
        {.first = 30, .len = 1, .stride = 2, .reps = 4, .buf = 1, .src = 1}, /* truly strided */
        {.first = 38, .len = 1, .stride = 0, .reps = 1, .buf = 1, .src = 1}, /* never joined to a strided one */
        {.first = 39, .len = 1, .stride = 0, .reps = 0, .buf = 1, .src = 1},
        {.first = 39, .len = 1, .stride = 0, .reps = 1, .buf = 2, .src = 1}, /* another buffer */
    };
    tt_sched_emit_send(&b, 3, 1, 7, spans, countof(spans));
    struct tt_sched *s = freeze(&b);
    struct tt_slice sl = tt_sched_slice(s, 0);
    assert_int_equal(sl.nops, 1);
    assert_int_equal(sl.nspans, 5);
    assert_int_equal(sl.ops[0].nspans, 5);
    assert_int_equal(sl.ops[0].channel, 7);
    assert_span(&sl.spans[0], 0, 13, 0, 1);
    assert_span(&sl.spans[1], 20, 1, 0, 1);
    assert_span(&sl.spans[2], 30, 1, 2, 4);
    assert_span(&sl.spans[3], 38, 1, 0, 1);
    assert_span(&sl.spans[4], 39, 1, 0, 1);
    for (size_t i = 0; i < sl.nspans; i++)
        assert_int_equal(sl.spans[i].src, sl.spans[i].buf);
    tt_sched_free(s);
    (void)state;
}

static void test_sources_keep_ranges_apart(void **state)
{
    struct tt_builder b;
    begin(&b, 2, 8);
    tt_sched_build_rank(&b, 0);
    struct tt_span spans[] = {tt_sched_span_from(1, 0, 0, 2), tt_sched_span_from(1, 0, 2, 2), tt_sched_span_from(1, 2, 4, 2)};
    tt_sched_emit_recv_reduce(&b, 0, 1, 0, spans, 3);
    tt_sched_emit_copy(&b, 1, spans, 3);
    struct tt_sched *s = freeze(&b);
    struct tt_slice sl = tt_sched_slice(s, 0);
    assert_int_equal(sl.nspans, 4);
    assert_span(&sl.spans[0], 0, 4, 0, 1);
    assert_span(&sl.spans[1], 4, 2, 0, 1);
    assert_int_equal(sl.spans[1].src, 2);
    assert_int_equal(sl.ops[1].span, 2);
    tt_sched_free(s);
    (void)state;
}

/* The spans of a REDUCE are positions: neither joined nor dropped, except that nothing into nothing is nothing. */
static void test_reduce(void **state)
{
    struct tt_builder b;
    begin(&b, 2, 8);
    tt_sched_build_rank(&b, 0);
    struct tt_span spans[] = {tt_sched_span_from(1, 9, 0, 2), tt_sched_span_from(7, 0, 0, 2), tt_sched_span_from(7, 2, 0, 2)};
    tt_sched_emit_reduce(&b, 0, spans, 3);
    struct tt_span none[] = {tt_sched_span_range(1, 0, 0), tt_sched_span_range(0, 0, 0)};
    tt_sched_emit_reduce(&b, 0, none, 2);
    struct tt_span follow[] = {tt_sched_span_range(1, 2, 1), tt_sched_span_range(1, 3, 1)};
    tt_sched_emit_reduce(&b, 0, follow, 2);
    struct tt_sched *s = freeze(&b);
    struct tt_slice sl = tt_sched_slice(s, 0);
    assert_int_equal(sl.nops, 2);
    assert_int_equal(sl.ops[0].nspans, 3);
    assert_int_equal(sl.spans[0].src, 1);
    assert_int_equal(sl.spans[1].buf, 1);
    assert_int_equal(sl.spans[1].src, 0);
    assert_int_equal(sl.spans[2].src, 2);
    assert_int_equal(sl.ops[1].nspans, 2);
    tt_sched_free(s);
    (void)state;
}

static void test_empty_operations_vanish(void **state)
{
    struct tt_builder b;
    begin(&b, 1, 1);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_send(&b, 0, 1, 0, NULL, 0);
    struct tt_span none = tt_sched_span_range(0, 0, 0);
    tt_sched_emit_copy(&b, 5, &none, 1);
    struct tt_sched *s = freeze(&b);
    assert_int_equal(s->nops, 0);
    assert_int_equal(s->nsteps, 0);
    assert_int_equal(s->steps, 0);
    assert_int_equal(tt_sched_slice(s, 0).nops, 0);
    tt_sched_free(s);
    (void)state;
}

/* Steps count where messages are; nsteps reaches the last operation of any kind. */
static void test_slices_and_steps(void **state)
{
    struct tt_builder b;
    struct tt_shape shape = shape_of(10, 8);
    tt_sched_build_begin(&b, &shape, 4);
    tt_sched_build_reserve(&b, 100, UINT64_MAX);
    struct tt_span x = tt_sched_span_range(1, 0, 1), y = tt_sched_span_from(1, 0, 2, 1);
    for (uint32_t r = 4; r < 7; r++) {
        tt_sched_build_rank(&b, r);
        for (uint32_t i = 0; i + 4 <= r; i++)
            tt_sched_emit_send(&b, 10 * i, 0, 0, &x, 1);
        tt_sched_emit_copy(&b, 50 + r, &y, 1);
    }
    struct tt_sched *s = freeze(&b);
    assert_int_equal(s->first_rank, 4);
    assert_int_equal(s->nslices, 3);
    assert_int_equal(s->nops, 9);
    assert_int_equal(s->nsteps, 57);
    assert_int_equal(s->steps, 3);
    assert_int_equal(tt_sched_slice(s, 4).nops, 2);
    struct tt_slice last = tt_sched_slice(s, 6);
    assert_int_equal(last.nops, 4);
    assert_int_equal(last.ops[3].kind, TT_OP_COPY);
    assert_int_equal(last.ops[3].span, 3);
    assert_int_equal(last.spans[last.ops[3].span].first, 2);
    tt_sched_free(s);
    (void)state;
}

static void test_routes(void **state)
{
    struct tt_builder b;
    begin(&b, 3, 3);
    uint32_t ab[] = {5, 6}, ba[] = {7}, other[] = {8, 9, 10};
    tt_sched_build_route(&b, 1, 0, 0, ba, 1);
    tt_sched_build_route(&b, 0, 1, 2, other, 3);
    tt_sched_build_route(&b, 0, 1, 0, ab, 2);
    tt_sched_build_route(&b, 0, 2, 0, NULL, 0);
    struct tt_sched *s = freeze(&b);
    assert_int_equal(s->nroutes, 4);
    const struct tt_sched_route *r = tt_sched_route(s, 0, 1, 2);
    assert_non_null(r);
    assert_int_equal(r->nlinks, 3);
    assert_memory_equal(r->links, other, sizeof other);
    assert_memory_equal(tt_sched_route(s, 0, 1, 0)->links, ab, sizeof ab);
    assert_int_equal(tt_sched_route(s, 1, 0, 0)->links[0], 7);
    assert_int_equal(tt_sched_route(s, 0, 2, 0)->nlinks, 0);
    assert_null(tt_sched_route(s, 0, 1, 1));
    assert_null(tt_sched_route(s, 2, 1, 0));
    tt_sched_free(s);

    struct tutti_error err;
    begin(&b, 3, 3);
    tt_sched_build_route(&b, 1, 0, 0, ba, 1);
    tt_sched_build_route(&b, 1, 0, 0, ab, 2);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "two routes from rank 1 to rank 0"));
    (void)state;
}

static void test_limits(void **state)
{
    struct tt_builder b;
    struct tutti_error err;
    struct tt_sched *s = NULL;
    struct tt_span x = tt_sched_span_range(1, 0, 1);
    struct tt_shape shape = shape_of(2, 1);
    shape.weights = tt_zalloc(1, sizeof *shape.weights); /* freed by the failing builder */
    tt_sched_build_begin(&b, &shape, 0);
    b.max_bytes = 4096;
    tt_sched_build_rank(&b, 0);
    for (uint32_t i = 0; i < 100; i++)
        tt_sched_emit_send(&b, i, 1, 0, &x, 1);
    assert_int_equal(b.status, TUTTI_ERR_LIMIT);
    size_t stopped = b.ops.len;
    tt_sched_emit_send(&b, 100, 1, 0, &x, 1);
    tt_sched_build_rank(&b, 1);
    assert_int_equal(b.ops.len, stopped);
    assert_in_range(stopped, 92, 93); /* (4096 - 16) / 44 */
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_ERR_LIMIT);
    assert_non_null(strstr(err.text, "4 KiB"));
    assert_null(s);

    begin(&b, 2, 1);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_send(&b, TT_MAX_STEPS, 1, 0, &x, 1);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_ERR_LIMIT);
    assert_non_null(strstr(err.text, "4194304"));
    (void)state;
}

static struct tt_sched *small(uint32_t step, uint32_t first, const char *algo, uint32_t link)
{
    struct tt_builder b;
    struct tt_shape shape = shape_of(2, 4);
    strcpy(shape.algo, algo);
    tt_sched_build_begin(&b, &shape, 0);
    tt_sched_build_rank(&b, 0);
    struct tt_span x = tt_sched_span_range(0, first, 1);
    tt_sched_emit_send(&b, step, 1, 0, &x, 1);
    tt_sched_build_rank(&b, 1);
    tt_sched_build_route(&b, 0, 1, 0, &link, 1);
    return freeze(&b);
}

static void test_hash_and_equal(void **state)
{
    struct tt_sched *a = small(0, 0, "x", 3), *same = small(0, 0, "x", 3), *renamed = small(0, 0, "y", 3);
    assert_true(tt_sched_equal(a, same));
    assert_int_equal(a->hash, same->hash);
    assert_false(tt_sched_equal(a, renamed));
    assert_int_equal(a->hash, renamed->hash); /* who made it is not what ranks must agree on */
    struct tt_sched *others[] = {small(1, 0, "x", 3), small(0, 1, "x", 3), small(0, 0, "x", 4)};
    for (size_t i = 0; i < countof(others); i++) {
        assert_false(tt_sched_equal(a, others[i]));
        assert_int_not_equal(a->hash, others[i]->hash);
        tt_sched_free(others[i]);
    }
    tt_sched_free(a);
    tt_sched_free(same);
    tt_sched_free(renamed);
    tt_sched_free(NULL);
    (void)state;
}

static void test_cyclic(void **state)
{
    struct tt_span out[2];
    assert_int_equal(tt_sched_span_cyclic(1, 2, 13, 3, 10, out), 1);
    assert_span(&out[0], 3, 3, 0, 1);
    assert_int_equal(out[0].src, 2);
    assert_int_equal(tt_sched_span_cyclic(1, 1, 7, 3, 10, out), 1);
    assert_span(&out[0], 7, 3, 0, 1);
    assert_int_equal(tt_sched_span_cyclic(1, 1, 28, 5, 10, out), 2);
    assert_span(&out[0], 8, 2, 0, 1);
    assert_span(&out[1], 0, 3, 0, 1);
    assert_int_equal(tt_sched_span_cyclic(1, 1, 4, 10, 10, out), 2);
    assert_int_equal(out[0].len + out[1].len, 10);
    struct tt_span wide = {.len = UINT32_MAX, .reps = UINT32_MAX};
    assert_true(tt_sched_span_chunks(&wide) == (uint64_t)UINT32_MAX * UINT32_MAX);
    (void)state;
}

static void test_names(void **state)
{
    assert_string_equal(tt_sched_coll_name(TUTTI_REDUCE_SCATTER), "reduce-scatter");
    assert_string_equal(tt_sched_op_name(TT_OP_RECV_REDUCE), "recv-reduce");
    assert_string_equal(tt_sched_coll_name((tutti_coll)77), "?");
    for (int i = 0; i < (int)TUTTI_COLL_COUNT; i++)
        assert_int_equal(tt_sched_coll_find(tt_sched_coll_name((tutti_coll)i)), i);
    for (int i = 0; i < (int)TUTTI_DTYPE_COUNT; i++)
        assert_int_equal(tt_sched_dtype_find(tt_sched_dtype_name((tutti_dtype)i)), i);
    for (int i = 0; i < (int)TUTTI_REDOP_COUNT; i++)
        assert_int_equal(tt_sched_redop_find(tt_sched_redop_name((tutti_redop)i)), i);
    assert_int_equal(tt_sched_coll_find("Allreduce"), -1);
    assert_int_equal(tt_sched_dtype_bytes(TUTTI_BF16), 2);
    assert_int_equal(tt_sched_dtype_bytes(TUTTI_DTYPE_COUNT), 0);
    (void)state;
}

/* Shared: the same arrays for another problem, hashed as if built for it; they live until the last owner goes. */
static void test_share(void **state)
{
    struct tt_shape other = {.segments = 4, .count = 999, .dtype = TUTTI_F64, .redop = TUTTI_MAX, .options = "segments=4"};
    struct tt_sched *s[2], *shared = NULL, *again = NULL;
    for (size_t i = 0; i < countof(s); i++) {
        struct tt_shape shape = shape_of(2, 3);
        struct tt_builder b;
        uint32_t *weights = tt_alloc(3, sizeof *weights);
        assert_non_null(weights);
        weights[0] = 5, weights[1] = 1, weights[2] = 2;
        shape.weights = weights;
        if (i == 1) {
            shape.segments = other.segments;
            shape.count = other.count;
            shape.dtype = other.dtype;
            shape.redop = other.redop;
            memcpy(shape.options, other.options, sizeof shape.options);
        }
        tt_sched_build_begin(&b, &shape, 0);
        for (uint32_t r = 0; r < 2; r++) {
            struct tt_span all = tt_sched_span_range(TT_BUF_IN, 0, 3);
            tt_sched_build_rank(&b, r);
            tt_sched_emit_send(&b, 0, 1 - r, 0, &all, 1);
        }
        s[i] = freeze(&b);
    }
    assert_int_equal(tt_sched_share(s[0], &other, &shared, NULL), TUTTI_OK);
    assert_ptr_equal(shared->ops, s[0]->ops);
    assert_ptr_equal(shared->shape.weights, s[0]->shape.weights);
    assert_true(tt_sched_equal(shared, s[1]));
    assert_int_equal(shared->hash, s[1]->hash);
    assert_int_not_equal(shared->hash, s[0]->hash);
    assert_int_equal(s[0]->shape.segments, 1);
    tt_sched_free(s[0]);
    assert_int_equal(tt_sched_share(shared, NULL, &again, NULL), TUTTI_OK);
    tt_sched_free(shared);
    assert_true(tt_sched_equal(again, s[1]));
    assert_int_equal(again->hash, s[1]->hash);
    tt_sched_free(again);
    tt_sched_free(s[1]);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical),
        cmocka_unit_test(test_sources_keep_ranges_apart),
        cmocka_unit_test(test_reduce),
        cmocka_unit_test(test_empty_operations_vanish),
        cmocka_unit_test(test_slices_and_steps),
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_hash_and_equal),
        cmocka_unit_test(test_cyclic),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_share),
    };
    return cmocka_run_group_tests_name("sched build", tests, NULL, NULL);
}
