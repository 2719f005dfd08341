/* Binding chunks to elements: golden layouts, alignment, exactness with huge numbers, and the bound on cyclic windows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "sched/sched.h"

static struct tt_bind bind(tutti_coll coll, uint32_t chunks, uint32_t *weights, uint64_t count, tutti_dtype dtype)
{
    struct tt_shape s = {.coll = coll, .ranks = 2, .chunks = chunks, .weights = weights};
    struct tt_bind b;
    struct tutti_error err;
    assert_int_equal(tt_sched_bind_make(&s, count, dtype, &b, &err), TUTTI_OK);
    return b;
}

static void assert_offsets(struct tt_bind b, const uint64_t *want)
{
    for (uint32_t c = 0; c <= b.chunks; c++)
        assert_int_equal(tt_sched_bind_offset(&b, c), want[c]);
    tt_sched_bind_free(&b);
}

static void test_golden(void **state)
{
    (void)state;
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, NULL, 10, TUTTI_F32), (uint64_t[]){0, 2, 5, 7, 10});
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, NULL, 63, TUTTI_F32), (uint64_t[]){0, 15, 31, 47, 63}); /* 3 units only: elements */
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, NULL, 70, TUTTI_F32), (uint64_t[]){0, 16, 32, 48, 70});
    assert_offsets(bind(TUTTI_ALLREDUCE, 3, NULL, 1000, TUTTI_U8), (uint64_t[]){0, 320, 640, 1000}); /* 15 units of 64 */
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, NULL, 0, TUTTI_F64), (uint64_t[]){0, 0, 0, 0, 0});
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, NULL, 1, TUTTI_F64), (uint64_t[]){0, 0, 0, 0, 1});
    uint32_t weights[] = {1, 0, 3, 4};
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, weights, 16, TUTTI_F32), (uint64_t[]){0, 2, 2, 8, 16});
    assert_offsets(bind(TUTTI_ALLREDUCE, 4, weights, 129, TUTTI_F32), (uint64_t[]){0, 16, 16, 64, 129});
    /* All-to-all: one rank's 130 elements are 65 to each of the 2 ranks, never rounded to 64 bytes; a barrier moves nothing. */
    assert_offsets(bind(TUTTI_ALL_TO_ALL, 4, NULL, 130, TUTTI_F32), (uint64_t[]){0, 65, 130, 195, 260});
    assert_offsets(bind(TUTTI_BARRIER, 1, NULL, 130, TUTTI_F32), (uint64_t[]){0, 0});
}

/* Products beyond 64 bits: floor(U * c / C) worked out by hand in 128 bits. */
static void test_huge(void **state)
{
    uint64_t count = UINT64_MAX / 4, units = count / 16;
    uint32_t chunks = UINT32_MAX;
    struct tt_bind b = bind(TUTTI_ALLREDUCE, chunks, NULL, count, TUTTI_F32);
    uint32_t at[] = {1, 2, 12345, chunks / 2, chunks - 1};
    for (size_t i = 0; i < countof(at); i++)
        assert_true(tt_sched_bind_offset(&b, at[i]) == 16 * (uint64_t)((unsigned __int128)units * at[i] / chunks));
    assert_true(tt_sched_bind_offset(&b, chunks) == count);
    struct tt_span all = tt_sched_span_range(0, 0, chunks);
    assert_true(tt_sched_bind_span_elems(&b, &all) == count);
    /* Two billion repetitions: every second chunk and the ones between are everything. */
    struct tt_span odd = {.first = 1, .len = 1, .stride = 2, .reps = chunks / 2},
                   even = {.first = 0, .len = 1, .stride = 2, .reps = chunks / 2 + 1};
    assert_true(tt_sched_bind_span_elems(&b, &odd) + tt_sched_bind_span_elems(&b, &even) == count);
    odd.reps = even.reps = 1000;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 1000; i++)
        sum += tt_sched_bind_offset(&b, 2 * i + 2) - tt_sched_bind_offset(&b, 2 * i + 1);
    assert_true(tt_sched_bind_span_elems(&b, &odd) == sum);
    tt_sched_bind_free(&b);
    (void)state;
}

static void test_refusals(void **state)
{
    struct tt_shape s = {.coll = TUTTI_ALLREDUCE, .ranks = 3, .chunks = 2};
    struct tt_bind b = {.count = 77};
    struct tutti_error err;
    assert_int_equal(tt_sched_bind_make(&s, UINT64_MAX / 4 + 1, TUTTI_F32, &b, &err), TUTTI_ERR_LIMIT);
    assert_int_equal(tt_sched_bind_make(&s, 5, TUTTI_DTYPE_COUNT, &b, &err), TUTTI_ERR_ARG);
    uint32_t zeros[2] = {0, 0};
    s.weights = zeros;
    assert_int_equal(tt_sched_bind_make(&s, 5, TUTTI_F32, &b, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "zero"));
    s = (struct tt_shape){.coll = TUTTI_ALL_TO_ALL, .ranks = 3, .chunks = 9};
    assert_int_equal(tt_sched_bind_make(&s, UINT64_MAX / 2, TUTTI_U8, &b, &err), TUTTI_ERR_LIMIT);
    s.chunks = 0;
    assert_int_equal(tt_sched_bind_make(&s, 1, TUTTI_U8, &b, &err), TUTTI_ERR_ARG);
    assert_int_equal(b.count, 77); /* set only on success */
    (void)state;
}

static uint64_t count_elems(const struct tt_bind *b, const struct tt_span *s)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->reps; i++)
        for (uint32_t k = 0; k < s->len; k++) {
            uint32_t c = s->first + i * s->stride + k;
            sum += tt_sched_bind_offset(b, c + 1) - tt_sched_bind_offset(b, c);
        }
    return sum;
}

static void check_random_span(struct tt_rng *rng, const struct tt_bind *b)
{
    struct tt_span s = {.reps = 1 + (uint32_t)tt_rng_below(rng, 4)};
    s.len = 1 + (uint32_t)tt_rng_below(rng, 3);
    s.stride = s.reps > 1 ? s.len + (uint32_t)tt_rng_below(rng, 3) : 0;
    uint64_t extent = (uint64_t)s.stride * (s.reps - 1) + s.len;
    if (extent > b->chunks)
        return;
    s.first = (uint32_t)tt_rng_below(rng, b->chunks - extent + 1);
    assert_int_equal(tt_sched_bind_span_elems(b, &s), count_elems(b, &s));
}

static void check_layout(const struct tt_bind *b)
{
    assert_int_equal(tt_sched_bind_offset(b, 0), 0);
    assert_int_equal(tt_sched_bind_offset(b, b->chunks), b->count);
    bool aligned = b->count * b->elem_bytes / 64 >= b->chunks;
    for (uint32_t c = 0; c < b->chunks; c++) {
        assert_true(tt_sched_bind_offset(b, c) <= tt_sched_bind_offset(b, c + 1));
        if (aligned)
            assert_int_equal(tt_sched_bind_offset(b, c) * b->elem_bytes % 64, 0);
    }
}

/* The bound holds for every window and is beaten by none by more than the rest of the vector. */
static void check_windows(const struct tt_bind *b)
{
    uint64_t rest = b->count - b->quantum * b->units;
    for (uint32_t n = 0; n <= b->chunks; n++) {
        uint64_t most = 0;
        for (uint32_t first = 0; first < b->chunks; first++) {
            struct tt_span w[2];
            size_t k = tt_sched_span_cyclic(0, 0, first, n, b->chunks, w);
            uint64_t elems = tt_sched_bind_span_elems(b, &w[0]) + (k == 2 ? tt_sched_bind_span_elems(b, &w[1]) : 0);
            most = elems > most ? elems : most;
        }
        uint64_t bound = tt_sched_bind_window_max(b, n);
        assert_true(bound >= most);
        assert_true(bound <= most + rest);
    }
}

static void test_random_layouts(void **state)
{
    struct tt_rng rng;
    tt_rng_seed(&rng, 11);
    for (int round = 0; round < 400; round++) {
        uint32_t chunks = 1 + (uint32_t)tt_rng_below(&rng, 24), weights[24];
        for (uint32_t c = 0; c < chunks; c++)
            weights[c] = (uint32_t)tt_rng_below(&rng, 5) + (c == 0);
        bool even = round % 2 == 0;
        uint64_t count = tt_rng_below(&rng, round % 3 == 0 ? 40 : 4000);
        if (round % 5 == 0)
            count -= count % chunks;
        struct tt_bind b = bind(TUTTI_ALLREDUCE, chunks, even ? NULL : weights, count, (tutti_dtype)(round % TUTTI_DTYPE_COUNT));
        check_layout(&b);
        for (int i = 0; i < 20; i++)
            check_random_span(&rng, &b);
        if (even)
            check_windows(&b);
        tt_sched_bind_free(&b);
    }
    (void)state;
}

static void test_op_bytes(void **state)
{
    struct tt_bind b = bind(TUTTI_ALLREDUCE, 4, NULL, 10, TUTTI_F64);
    struct tt_span spans[] = {tt_sched_span_range(1, 0, 1), tt_sched_span_range(1, 2, 2), tt_sched_span_range(2, 2, 2)};
    struct tt_slice sl = {.spans = spans, .nspans = 3};
    struct tt_op send = {.kind = TT_OP_SEND, .span = 0, .nspans = 2}, reduce = {.kind = TT_OP_REDUCE, .span = 1, .nspans = 2};
    assert_int_equal(tt_sched_bind_op_bytes(&b, &sl, &send), 8 * (2 + 5));
    assert_int_equal(tt_sched_bind_op_bytes(&b, &sl, &reduce), 8 * 5);
    tt_sched_bind_free(&b);
    tt_sched_bind_free(NULL);
    (void)state;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),         cmocka_unit_test(test_huge),     cmocka_unit_test(test_refusals),
        cmocka_unit_test(test_random_layouts), cmocka_unit_test(test_op_bytes),
    };
    return cmocka_run_group_tests_name("sched bind", tests, NULL, NULL);
}
