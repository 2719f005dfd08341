/* test_algo_baselines.c - what MultiTree was compared with: the 2D-ring (bucket, variant=paper) and HDRM on BiGraph. */
#include "support.h"

#include "cost/cost.h"

static struct tt_algo_args args_on(const struct tt_topo *t, const char *option)
{
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = 12345, .dtype = TUTTI_F32}, .topo = t};
    if (option)
        assert_int_equal(tt_algo_options_add(&a.options, option, NULL), TUTTI_OK);
    return a;
}

/* k x k: 4 (k-1) steps, (k-1)/k of the vector over every directed link; the times of the research notes (17/16 of header taken off). */
static void test_ring2d(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t steps;
        double us;
    } cases[] = {{"torus:8x8@16GB/s,150ns", 28, 3904.0 * 16 / 17}, {"torus:4x4@16GB/s,150ns", 12, 3344.0 * 16 / 17}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_topo *t = topo_of(cases[i].spec);
        struct tt_algo_args a = args_on(t, "variant=paper");
        struct tt_sched *s = build_of(&tt_algo_bucket, &a);
        struct tt_cost cost;
        assert_int_equal(s->steps, cases[i].steps);
        expect_proved(s);
        assert_int_equal(tt_cost_sched(s, t, 16u << 20, TUTTI_F32, &cost, NULL), TUTTI_OK);
        assert_int_equal(cost.max_link_contention, 1);
        assert_int_equal(cost.busiest_bytes, (64u << 20) / t->dims[0] * (t->dims[0] - 1));
        double us = (double)cost.time_ps / 1e6;
        assert_true(us > cases[i].us * 0.998 && us < cases[i].us * 1.002);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

static void test_ring2d_shapes(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:1",   "torus:5",     "torus:2x2", "torus:3x2",
                                        "torus:3x5", "torus:2x3x4", "torus:1x6", "mesh:2x2"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_algo_args a = args_on(t, "variant=paper");
        struct tt_sched *s = build_of(&tt_algo_bucket, &a);
        expect_proved(s);
        tt_sched_free(s);
        struct tutti_error why;
        a.problem.coll = TUTTI_ALL_GATHER;
        assert_int_equal(tt_algo_probe(&tt_algo_bucket, &a, &why), TUTTI_ERR_REFUSED);
        expect_says(why.text, "variant=paper has only allreduce");
        tt_topo_free(t);
    }
}

/* Partners of the first and the last halving step (numbers v and v^1, v^16) under the mapping of the research notes for 4x8. */
static void test_hdrm_mapping(void **state)
{
    (void)state;
    static const uint32_t node[32] = {0,  16, 20, 4,  24, 8,  12, 28, 17, 5,  9,  21, 13, 25, 29, 1,
                                      18, 10, 14, 22, 2,  26, 30, 6,  15, 19, 23, 3,  27, 7,  11, 31};
    struct tt_topo *t = topo_of("bigraph:4x8");
    struct tt_algo_args a = args_on(t, NULL);
    struct tt_sched *s = build_of(&tt_algo_hdrm, &a);
    assert_int_equal(s->steps, 10);
    for (uint32_t v = 0; v < 32; v++) {
        struct tt_slice sl = tt_sched_slice(s, node[v]);
        for (size_t i = 0; i < sl.nops; i++)
            if (sl.ops[i].step < 5)
                assert_int_equal(sl.ops[i].peer, node[v ^ 1u << sl.ops[i].step]);
    }
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_hdrm(void **state)
{
    (void)state;
    static const char *const specs[] = {"bigraph:1x2", "bigraph:1x4",  "bigraph:2x4", "bigraph:4x4",
                                        "bigraph:4x8", "bigraph:4x16", "bigraph:2x16"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_algo_args a = args_on(t, NULL);
        struct tt_sched *s = build_of(&tt_algo_hdrm, &a);
        struct tt_cost cost;
        expect_proved(s);
        for (uint32_t r = 0; r < t->ranks; r++)
            assert_int_equal(chunks_moved(s, r, true), 2 * (t->ranks - 1));
        assert_int_equal(tt_cost_sched(s, t, 1 << 20, TUTTI_F32, &cost, NULL), TUTTI_OK);
        if (cost.max_link_contention != 1 &&
            t->ranks / t->switches <= t->switches / 2) /* more ranks on a switch than it has cables must share them */
            fail_msg("%s: %u messages on a link in a step", specs[i], cost.max_link_contention);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

static void test_hdrm_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *why;
    } cases[] = {{"star:8", "needs a bigraph"}, {"bigraph:3x4", "powers of two"}, {"bigraph:4x6", "powers of two"}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct tutti_error why;
        struct tt_topo *t = topo_of(cases[i].spec);
        struct tt_algo_args a = args_on(t, NULL);
        assert_int_equal(tt_algo_probe(&tt_algo_hdrm, &a, &why), TUTTI_ERR_REFUSED);
        expect_says(why.text, cases[i].why);
        tt_topo_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring2d), cmocka_unit_test(test_ring2d_shapes), cmocka_unit_test(test_hdrm_mapping),
        cmocka_unit_test(test_hdrm),   cmocka_unit_test(test_hdrm_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
