/* test_cost_pattern.c - sums of shifted windows against the sum taken chunk by chunk: by looking at every place and by theta. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cost/pattern.h"

enum { MAX_PARTS = 6 };

struct part {
    struct tt_pattern_places at;
    struct tt_span span;
    uint64_t weight;
};

static struct tt_bind bind_of(uint32_t chunks, uint64_t count)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = chunks, .chunks = chunks, .segments = 1};
    struct tt_bind b;
    assert_int_equal(tt_sched_bind_make(&shape, count, TUTTI_F32, &b, NULL), TUTTI_OK);
    return b;
}

static struct part random_part(struct tt_rng *rng, uint32_t ranks, uint32_t chunks)
{
    struct part p = {.at = {.resource = 3, .first = (uint32_t)tt_rng_below(rng, ranks), .n = 1}, .weight = 1 + tt_rng_below(rng, 3)};
    if (tt_rng_below(rng, 2))
        p.at.n += (uint32_t)tt_rng_below(rng, ranks);
    p.span.first = (uint32_t)tt_rng_below(rng, chunks);
    p.span.len = 1 + (uint32_t)tt_rng_below(rng, tt_rng_below(rng, 2) ? 2 : chunks);
    if (p.span.len > chunks - p.span.first)
        p.span.len = chunks - p.span.first;
    p.span.reps = 1;
    if (p.span.len == 1 && p.span.first + 6 < chunks) {
        p.span.reps = 2;
        p.span.stride = 5;
    }
    return p;
}

/* Bytes at a place: every rank s shifts the chunks by s*m and is at the places shifted by s. */
static uint64_t naive(const struct tt_bind *b, uint32_t ranks, const struct part *part, size_t n, uint32_t place)
{
    uint32_t m = b->chunks / ranks;
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < part[i].at.n; k++) {
            uint32_t s = (uint32_t)((place + 2 * (uint64_t)ranks - (part[i].at.first + k) % ranks) % ranks);
            for (uint32_t c = 0; c < part[i].span.len * part[i].span.reps; c++) {
                uint32_t of0 = part[i].span.first + c / part[i].span.len * part[i].span.stride + c % part[i].span.len;
                uint32_t chunk = (uint32_t)((of0 + (uint64_t)s * m) % b->chunks);
                sum += part[i].weight * (tt_sched_bind_offset(b, chunk + 1) - tt_sched_bind_offset(b, chunk));
            }
        }
    return sum * b->elem_bytes;
}

static void check_parts(const struct tt_bind *b, uint32_t ranks, const struct part *part, size_t n)
{
    struct tt_patterns p;
    struct tt_vec terms = {.elem = sizeof(struct tt_term)};
    uint64_t most = 0, got = 0;
    assert_int_equal(tt_cost_patterns_open(&p, b, ranks, NULL), TUTTI_OK);
    for (size_t i = 0; i < n; i++)
        tt_cost_terms_add(&p, &terms, &part[i].at, &part[i].span, part[i].weight);
    tt_cost_terms_join(&terms);
    struct tt_pattern_ref ref = tt_cost_patterns_find(&p, terms.data, terms.len), again;
    for (uint32_t v = 0; v < ranks; v++) {
        uint64_t bytes = naive(b, ranks, part, n, v);
        assert_true(tt_cost_patterns_at(&p, ref, v, &got));
        assert_int_equal(got, bytes);
        most = bytes > most ? bytes : most;
    }
    assert_true(tt_cost_patterns_max(&p, ref.id, &got));
    assert_int_equal(got, most);

    /* one and the same pattern, twice and taken away again */
    terms.len = 0;
    tt_cost_terms_merge(&p, &terms, ref, 1);
    tt_cost_terms_merge(&p, &terms, ref, 1);
    tt_cost_terms_merge(&p, &terms, ref, -1);
    again = tt_cost_patterns_find(&p, terms.data, terms.len);
    assert_int_equal(again.id, ref.id);
    assert_int_equal(again.shift, ref.shift);
    tt_cost_terms_merge(&p, &terms, ref, -1);
    assert_int_equal(terms.len, 0);
    tt_vec_free(&terms);
    tt_cost_patterns_close(&p);
}

static void test_random(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 5, 8, 12, 60, 97, 128, 300};
    struct tt_rng rng;
    tt_rng_seed(&rng, 7);
    for (size_t i = 0; i < 250; i++) {
        uint32_t p = ranks[i % countof(ranks)], chunks = p * (1 + (uint32_t)tt_rng_below(&rng, 3));
        uint64_t count = tt_rng_below(&rng, i % 3 ? 100 * (uint64_t)chunks : UINT64_C(1) << 50);
        struct part part[MAX_PARTS];
        struct tt_bind b = bind_of(chunks, count);
        size_t n = 1 + tt_rng_below(&rng, p > 100 ? 2 : MAX_PARTS);
        for (size_t k = 0; k < n; k++)
            part[k] = random_part(&rng, p, chunks);
        check_parts(&b, p, part, n);
        tt_sched_bind_free(&b);
    }
}

/* 10 elements in 4 chunks begin at 0 2 5 7. */
static void test_by_hand(void **state)
{
    (void)state;
    struct tt_bind b = bind_of(4, 10);
    struct part one = {{0, 0, 1}, {.first = 3, .len = 1, .reps = 1}, 1}, two = {{0, 0, 2}, {.first = 3, .len = 1, .reps = 1}, 1};
    assert_int_equal(naive(&b, 4, &one, 1, 0), 3 * 4);
    assert_int_equal(naive(&b, 4, &two, 1, 0), 5 * 4);
    assert_int_equal(naive(&b, 4, &two, 1, 1), 5 * 4);
    check_parts(&b, 4, &one, 1);
    check_parts(&b, 4, &two, 1);
    tt_sched_bind_free(&b);
}

/* What differs by its place alone is known already; other weights are something else. */
static void test_places_share(void **state)
{
    (void)state;
    struct tt_bind b = bind_of(6, 100);
    struct tt_patterns p;
    struct tt_vec terms = {.elem = sizeof(struct tt_term)};
    struct tt_span first = {.first = 0, .len = 1, .reps = 1}, fourth = {.first = 3, .len = 1, .reps = 1};
    struct tt_pattern_places here = {.n = 1}, there = {.first = 2, .n = 1};
    assert_int_equal(tt_cost_patterns_open(&p, &b, 3, NULL), TUTTI_OK);
    tt_cost_terms_add(&p, &terms, &here, &first, 1);
    uint32_t a = tt_cost_patterns_find(&p, terms.data, terms.len).id;
    terms.len = 0;
    tt_cost_terms_add(&p, &terms, &there, &first, 1);
    assert_int_equal(tt_cost_patterns_find(&p, terms.data, terms.len).id, a);
    terms.len = 0;
    tt_cost_terms_add(&p, &terms, &here, &fourth, 1); /* the second chunk of its rank */
    assert_int_not_equal(tt_cost_patterns_find(&p, terms.data, terms.len).id, a);
    terms.len = 0;
    tt_cost_terms_add(&p, &terms, &here, &first, 2);
    assert_int_not_equal(tt_cost_patterns_find(&p, terms.data, terms.len).id, a);
    tt_vec_free(&terms);
    tt_cost_patterns_close(&p);
    tt_sched_bind_free(&b);
}

static void test_declines(void **state)
{
    (void)state;
    struct tt_bind b = bind_of(6, 100);
    struct tt_patterns p;
    struct tt_term term = {0, 0, 1};
    uint64_t most = 17;
    assert_int_equal(tt_cost_patterns_open(&p, &b, 6, NULL), TUTTI_OK);
    struct tt_pattern_ref ref = tt_cost_patterns_find(&p, &term, 1);
    assert_false(tt_cost_patterns_over(&p));
    assert_false(tt_cost_patterns_spend(&p, UINT64_MAX));
    assert_true(tt_cost_patterns_over(&p));
    assert_false(tt_cost_patterns_max(&p, ref.id, &most));
    assert_false(tt_cost_patterns_max(&p, TT_NO_PATTERN, &most));
    assert_int_equal(most, 17);
    term.weight = 2;
    assert_int_equal(tt_cost_patterns_find(&p, &term, 1).id, TT_NO_PATTERN);
    tt_cost_patterns_close(&p);
    tt_sched_bind_free(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_places_share),
        cmocka_unit_test(test_declines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
