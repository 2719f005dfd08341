/* test_algo_shd_cost.c - what shift halving-doubling costs on loop networks, against the closed forms: one message per link and step on the
 * full DLN, F(t) on truncated ones, twice the bandwidth with both directions, more with copies; the same by symmetry as from all ranks. */
#include "support.h"

#include "cost/cost.h"

#include <math.h>

enum { MB = 1 << 20 };
static const double beta = 1 / 12.5e9; /* 100 Gbit/s */

static struct tt_algo_args args(const struct tt_topo *t, uint64_t bytes, const char *options)
{
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = bytes / 4, .dtype = TUTTI_F32}, .topo = t};
    char text[120];
    snprintf(text, sizeof text, "%s", options);
    for (char *save = NULL, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        assert_int_equal(tt_algo_options_add(&a.options, one, NULL), TUTTI_OK);
    return a;
}

/* From rank 0 where that is possible, else from all ranks; one segment. */
static struct tt_cost cost_of(const char *spec, uint64_t bytes, const char *options)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_algo_args a = args(t, bytes, options);
    struct tt_cost cost;
    struct tt_sched *s = NULL;
    bool short_way = t->rotational;
    assert_int_equal(tt_algo_slice(&tt_algo_shd, &a, 0, short_way ? 1 : t->ranks, &s, NULL), TUTTI_OK);
    assert_int_equal(short_way, s->shape.symmetric && t->rotational);
    assert_int_equal((short_way ? tt_cost_symmetric : tt_cost_sched)(s, t, bytes / 4, TUTTI_F32, &cost, NULL), TUTTI_OK);
    tt_sched_free(s);
    tt_topo_free(t);
    return cost;
}

static void expect_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * want))
        print_error("got %g, want %g\n", got, want);
    assert_true(fabs(got - want) <= tolerance * want);
}

/* T = 2 L alpha + 2 (1-1/N) n beta, one message per link. */
static void test_full_dln(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 3, 5, 6, 7, 8, 12, 31, 64, 100, 129, 1000, 1024, 4096};
    for (size_t i = 0; i < countof(counts); i++) {
        char spec[64];
        uint32_t n = counts[i];
        uint64_t bytes = (uint64_t)n * 64 * 1000; /* equal chunks */
        snprintf(spec, sizeof spec, "dln:%u@100Gbps,126ns", n);
        struct tt_cost c = cost_of(spec, bytes, "");
        assert_int_equal(c.max_link_contention, 1);
        assert_int_equal(c.steps, 2 * tt_ceil_log2(n));
        assert_int_equal(c.latency_ps, c.steps * UINT64_C(126000));
        expect_near((double)c.transfer_ps, 2 * (1 - 1.0 / n) * (double)bytes * beta * 1e12, 1e-6);
        assert_true(c.exact);
    }
    struct tt_cost c = cost_of("dln:65536@100Gbps,126ns", 65536 * 64 * 16, "");
    assert_int_equal(c.time_ps, 32 * UINT64_C(126000) + c.transfer_ps);
    expect_near((double)c.transfer_ps, 2 * (1 - 1.0 / 65536) * 65536 * 64 * 16 * beta * 1e12, 1e-6);
}

/* Every variant keeps to one message per link and step on the full DLN. */
static void test_contention(void **state)
{
    (void)state;
    static const char *const options[] = {"direction=both", "copies=4", "direction=both copies=3", "order=near-first"};
    static const uint32_t counts[] = {8, 12, 31, 64, 100, 256, 1000};
    for (size_t i = 0; i < countof(counts); i++)
        for (size_t k = 0; k < countof(options); k++) {
            char spec[64];
            snprintf(spec, sizeof spec, "dln:%u@100Gbps,126ns", counts[i]);
            struct tt_cost c = cost_of(spec, counts[i] * UINT64_C(64) * 240, options[k]);
            assert_int_equal(c.max_link_contention, 1);
            assert_int_equal(c.latency_ps, 2 * tt_ceil_log2(counts[i]) * UINT64_C(126000));
        }
    assert_int_equal(cost_of("dln2d:8x8@100Gbps,126ns", MB, "copies=2 direction=both").max_link_contention, 1);
    assert_true(cost_of("ring:64@100Gbps,126ns", MB, "").max_link_contention > 1);
}

static double gain(uint32_t n, const char *options)
{
    char spec[64];
    uint64_t bytes = (uint64_t)n * 64 * 7200;
    snprintf(spec, sizeof spec, "dln:%u@100Gbps,126ns", n);
    return (double)cost_of(spec, bytes, "").transfer_ps / (double)cost_of(spec, bytes, options).transfer_ps;
}

static void test_more_ports(void **state)
{
    (void)state;
    static const uint32_t counts[] = {63, 64, 65, 101, 128, 1000, 1024, 1025};
    for (size_t i = 0; i < countof(counts); i++)
        assert_true(gain(counts[i], "direction=both") >= 1.9);
    expect_near(gain(1024, "direction=both"), 2 * (1 - 1.0 / 1024), 1e-3);
    assert_true(gain(12, "direction=both") >= 1.33);
    assert_true(gain(20, "direction=both") >= 1.33);
    expect_near(gain(1024, "copies=10"), 10, 1e-3);
    expect_near(gain(1024, "copies=2 direction=both"), 4, 0.01);
    assert_true(gain(1024, "copies=9 direction=both") > 17.5);
}

/* F(t) = 1 + (log2 N - t - 2) / 2^(t+1), t below log2 N - 1; hops t + 2^(log2 N - t) - 1 of a phase. */
static void test_truncated(void **state)
{
    (void)state;
    static const uint32_t logs[] = {6, 8, 10, 12};
    for (size_t i = 0; i < countof(logs); i++)
        for (uint32_t t = 0; t + 1 < logs[i]; t++) {
            char spec[64];
            uint64_t bytes = (UINT64_C(1) << logs[i]) * 64 * 64;
            double f = 1 + ((double)logs[i] - t - 2) / (double)(2u << t);
            snprintf(spec, sizeof spec, "dln:%u,t=%u@100Gbps,126ns", 1u << logs[i], t);
            struct tt_cost c = cost_of(spec, bytes, "");
            /* the closed form leaves out the smallest terms: n/N of a phase and less per missing distance */
            expect_near((double)c.transfer_ps, 2 * f * (double)bytes * beta * 1e12, logs[i] < 10 ? 0.04 : 0.01);
            expect_near((double)c.latency_ps, 2 * (t + (double)(1u << (logs[i] - t)) - 1) * 126000, 1e-9);
        }
}

/* Half duplex: n/2 last costs about n per phase, first 1.5 n; far-first is what halving-doubling by pairs cannot do better than. */
static void test_half_duplex(void **state)
{
    (void)state;
    const uint64_t bytes = UINT64_C(256) * 64 * 1000;
    double n = (double)bytes * beta * 1e12;
    expect_near((double)cost_of("dln:256@100Gbps,126ns,half", bytes, "").transfer_ps, 2 * n, 0.01);
    expect_near((double)cost_of("dln:256@100Gbps,126ns,half", bytes, "order=far-first").transfer_ps, 2 * 1.5 * n, 0.01);
}

/* dln2d XxY: every message is one link long; one copy moves what the one-dimensional network does, four use both dimensions both ways. */
static void test_two_dimensions(void **state)
{
    (void)state;
    const uint64_t bytes = UINT64_C(256) * 64 * 1000;
    double n = (double)bytes * beta * 1e12;
    struct tt_cost one = cost_of("dln2d:16x16@100Gbps,126ns", bytes, ""),
                   four = cost_of("dln2d:16x16@100Gbps,126ns", bytes, "copies=2 direction=both");
    assert_int_equal(one.latency_ps, 16 * 126000);
    assert_int_equal(four.latency_ps, 16 * 126000);
    expect_near((double)one.transfer_ps, 2 * (1 - 1.0 / 256) * n, 1e-6);
    expect_near((double)four.transfer_ps, 2 * n / 4, 0.15); /* the distance 8 of a row is shared by both directions */
}

/* The short way gives what all ranks give, whatever the chunks. */
static void test_symmetry(void **state)
{
    (void)state;
    static const char *const options[] = {"", "direction=both", "copies=3", "order=near-first direction=both copies=2"};
    static const char *const specs[] = {"dln:12@10Gbps,1us,1ns", "dln:33,t=2@10Gbps,1us", "ring:16@10Gbps,1us,half", "star:10@10Gbps,1us"};
    static const uint64_t bytes[] = {4, 4 * 997, 33 * 64 * 60};
    for (size_t i = 0; i < countof(specs); i++)
        for (size_t k = 0; k < countof(options); k++)
            for (size_t b = 0; b < countof(bytes); b++) {
                struct tt_topo *t = topo_of(specs[i]);
                struct tt_algo_args a = args(t, bytes[b], options[k]);
                struct tt_sched *all = build_of(&tt_algo_shd, &a), *one = NULL;
                struct tt_cost long_way, short_way;
                assert_int_equal(tt_algo_slice(&tt_algo_shd, &a, 0, 1, &one, NULL), TUTTI_OK);
                assert_int_equal(tt_cost_sched(all, t, bytes[b] / 4, TUTTI_F32, &long_way, NULL), TUTTI_OK);
                assert_int_equal(tt_cost_symmetric(one, t, bytes[b] / 4, TUTTI_F32, &short_way, NULL), TUTTI_OK);
                assert_true(short_way.exact);
                assert_int_equal(short_way.time_ps, long_way.time_ps);
                assert_int_equal(short_way.bytes, long_way.bytes);
                assert_int_equal(short_way.max_link_contention, long_way.max_link_contention);
                tt_sched_free(all);
                tt_sched_free(one);
                tt_topo_free(t);
            }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_dln),  cmocka_unit_test(test_contention),  cmocka_unit_test(test_more_ports),
        cmocka_unit_test(test_truncated), cmocka_unit_test(test_half_duplex), cmocka_unit_test(test_two_dimensions),
        cmocka_unit_test(test_symmetry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
