/* test_algo_forest.c - forests on all kinds of networks: proved, and as fast as closed forms and brute force say is possible. */
#include "support.h"

#include "cost/cost.h"
#include "sim/sim.h"

static struct tt_algo_args args_of(const struct tt_topo *t, tutti_coll coll, uint64_t count)
{
    struct tt_algo_args a = {.topo = t};
    a.problem = (struct tt_problem){.coll = coll, .ranks = t->ranks, .count = count, .dtype = TUTTI_F32};
    return a;
}

static void prove_all(const struct tt_topo *t)
{
    static const tutti_coll colls[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER};
    for (size_t i = 0; i < countof(colls); i++) {
        struct tt_algo_args a = args_of(t, colls[i], 10007);
        struct tt_sched *s = build_of(&tt_algo_forest, &a);
        expect_proved(s);
        tt_sched_free(s);
    }
}

static struct tt_algo_report report_of(const struct tt_topo *t)
{
    struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 1 << 20);
    struct tt_synthesis y = {0};
    struct tt_sched *s;
    struct tutti_error err;
    if (tt_algo_synthesise(&tt_algo_forest, &a, &y, &s, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    tt_sched_free(s);
    assert_true(y.report.dual_rate >= y.report.rate * (1 - 1e-9));
    return y.report;
}

static void test_proved(void **state)
{
    static const char *const specs[] = {"star:1",
                                        "star:2",
                                        "star:5",
                                        "torus:3x3",
                                        "mesh:2x3",
                                        "fattree:2,2",
                                        "bigraph:2x4",
                                        "tree:((2 2)(1 3))@100Gbps/25Gbps/10Gbps",
                                        "nics:10G,10G,10G,2.5G",
                                        "dragonfly:2,2,2",
                                        "hypercube:8",
                                        "dln:9",
                                        "ring:5@1Gbps,1us,half",
                                        "torus:3x3@1Gbps,1us,ports=1"};
    (void)state;
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        prove_all(t);
        tt_topo_free(t);
    }
}

/* A random connected network: a random tree of ranks and switches, and some more cables. `uneven`: directions differ. */
static struct tt_topo *random_topo(struct tt_rng *rng, uint32_t ranks, uint32_t switches, bool uneven)
{
    struct tt_topo *t = NULL;
    struct tutti_error err;
    uint32_t n = ranks + switches;
    assert_int_equal(tt_topo_new("random", ranks, switches, &t, &err), TUTTI_OK);
    for (uint32_t i = 1; i < n + n / 2; i++) {
        uint32_t a = i < n ? i : (uint32_t)tt_rng_below(rng, n), b = (uint32_t)tt_rng_below(rng, i < n ? i : n);
        double bw = 1e9 * (double)(1 + tt_rng_below(rng, 8));
        struct tt_link l = {.a = a, .b = b, .bw = {bw, uneven ? 1e9 * (double)(1 + tt_rng_below(rng, 8)) : bw}, .latency_ps = 1000000};
        if (a != b)
            assert_int_equal(tt_topo_add_link(t, &l, &err), TUTTI_OK);
    }
    assert_int_equal(tt_topo_finish(t, &t, &err), TUTTI_OK);
    return t;
}

static void test_random_networks(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 11);
    for (int round = 0; round < 24; round++) {
        uint32_t ranks = 2 + (uint32_t)tt_rng_below(&rng, 8);
        struct tt_topo *t = random_topo(&rng, ranks, (uint32_t)tt_rng_below(&rng, 4), round % 2);
        prove_all(t);
        report_of(t);
        tt_topo_free(t);
    }
}

/* Two switches that only a rank joins: no stars. */
static void test_rank_between(void **state)
{
    struct tt_topo *t = NULL;
    struct tutti_error err;
    static const uint32_t ends[][2] = {{0, 5}, {1, 5}, {2, 5}, {2, 6}, {3, 6}, {4, 6}};
    (void)state;
    assert_int_equal(tt_topo_new("bridged", 5, 2, &t, &err), TUTTI_OK);
    for (size_t i = 0; i < countof(ends); i++) {
        struct tt_link l = {.a = ends[i][0], .b = ends[i][1], .bw = {1e9, 1e9}, .latency_ps = 1000000};
        assert_int_equal(tt_topo_add_link(t, &l, &err), TUTTI_OK);
    }
    assert_int_equal(tt_topo_finish(t, &t, &err), TUTTI_OK);
    prove_all(t);
    struct tt_algo_report r = report_of(t);
    assert_true(r.rate >= 0.988 * r.dual_rate && r.rate <= 0.75e9 * 1.000001); /* 2 (k-1) = 4 messages per element among 3 on a switch */
    tt_topo_free(t);
}

/* Closed forms: rate = min(slowest, sum / (2 (p-1))) on a star (research/sota.md 1.4 has the same figures), S / cut or volume on racks. */
static void test_closed_forms(void **state)
{
    static const struct {
        const char *spec;
        double rate;
    } golden[] = {
        {"nics:4GB/s,4GB/s,4GB/s,4GB/s", 16e9 / 6},
        {"nics:1GB/s,4GB/s,4GB/s,4GB/s,4GB/s", 1e9},
        {"nics:3GB/s,4GB/s,4GB/s,4GB/s,4GB/s", 19e9 / 8},
        {"nics:2GB/s,3GB/s,5GB/s,7GB/s,11GB/s", 2e9},
        {"tree:(3 3)@10GB/s/10GB/s", 6e9},
        {"tree:(3 3)@10GB/s/5GB/s", 5e9},
        {"tree:(2 2 2)@10GB/s/10GB/s", 6e9},
        {"ring:4@1GB/s", 4e9 / 3},
        {"torus:4x4@1GB/s", 32e9 / 15},
        {"hypercube:8@1GB/s", 12e9 / 7},
    };
    (void)state;
    for (size_t i = 0; i < countof(golden); i++) {
        struct tt_topo *t = topo_of(golden[i].spec);
        struct tt_algo_report r = report_of(t);
        if (r.rate < 0.985 * golden[i].rate || r.rate > golden[i].rate * 1.000001)
            fail_msg("%s: rate %g, expected %g", golden[i].spec, r.rate, golden[i].rate);
        if (r.dual_rate < golden[i].rate * 0.999999 || r.dual_rate > 1.005 * golden[i].rate)
            fail_msg("%s: bound on trees %g, expected %g", golden[i].spec, r.dual_rate, golden[i].rate);
        tt_topo_free(t);
    }
}

/* The rate is what the emitted schedule's busiest link allows, and segments get near it. */
static void test_rate_is_met(void **state)
{
    static const char *const specs[] = {"star:8", "torus:4x4", "fattree:4,2", "nics:10G,10G,10G,2.5G"};
    (void)state;
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 64 << 20);
        struct tt_algo_report r = report_of(t);
        struct tt_sched *s = build_of(&tt_algo_forest, &a);
        struct tt_cost c;
        uint32_t k;
        assert_int_equal(tt_cost_best_segments(s, t, 64 << 20, TUTTI_F32, TT_MAX_SEGMENTS, &k, &c, NULL), TUTTI_OK);
        const struct tt_link *l = &t->links[c.busiest_link / 2];
        double limit = (double)c.busiest_bytes / l->bw[c.busiest_link & 1], promised = 4.0 * (64 << 20) / r.rate;
        assert_true(limit <= promised * 1.0001 && limit >= promised * 0.999);
        assert_true((double)c.time_ps * 1e-12 <= promised * 1.03);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

/* Where summing is slower than the links, additions are spread over the ranks: no rank does more than its share of the (p-1) S, and the
 * promised rate says so. */
static void test_slow_sums(void **state)
{
    static const struct {
        const char *spec;
        double links, sums; /* rate that the links allow; bytes/s that a rank adds */
    } golden[] = {{"ring:4@8Gbps", 4 / 3.0 * 1e9, 0.5e9},
                  {"torus:3x3@8Gbps", 18 / 8.0 * 1e9, 0.25e9},
                  {"star:6@8Gbps", 0.6e9, 0.2e9},
                  {"hypercube:8@8Gbps", 12 / 7.0 * 1e9, 1e9}};
    (void)state;
    for (size_t i = 0; i < countof(golden); i++) {
        struct tt_topo *t = topo_of(golden[i].spec);
        double p = t->ranks, summed = p / (p - 1) * golden[i].sums, rate = summed < golden[i].links ? summed : golden[i].links;
        t->gamma = 1 / golden[i].sums;
        struct tt_algo_report r = report_of(t);
        if (r.rate < 0.985 * rate || r.rate > rate * 1.000001)
            fail_msg("%s: rate %g, expected %g", golden[i].spec, r.rate, rate);
        prove_all(t);
        tt_topo_free(t);
    }
}

/* Packings come within half a percent of the bound on trees, with at most 64 different trees; the second figure is how many chunks of equal
 * weight do it (0: uneven ones may be needed). */
static void test_packings(void **state)
{
    static const struct {
        const char *spec;
        uint32_t chunks;
    } golden[] = {{"star:16", 16},
                  {"full:16", 16},
                  {"torus:4x4", 32},
                  {"torus:8x8", 65},
                  {"mesh:8x8", 16},
                  {"hypercube:64", 64},
                  {"fattree:8,2", 64},
                  {"fattree:4,3", 64},
                  {"bigraph:4x8", 32},
                  {"dln:64", 67},
                  {"dln:16,h=4", 64},
                  {"dsn:64", 0},
                  {"dragonfly:4,2,2", 16},
                  {"tree:(16 16 16 16)@25Gbps/100Gbps", 64},
                  {"tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps", 1},
                  {"nics:10G,10G,10G,2.5G", 1}};
    (void)state;
    for (size_t i = 0; i < countof(golden); i++) {
        struct tt_topo *t = topo_of(golden[i].spec);
        struct tt_algo_report r = report_of(t);
        struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 1 << 20);
        struct tt_sched *s = build_of(&tt_algo_forest, &a);
        if (r.rate < 0.995 * r.dual_rate)
            fail_msg("%s: rate %g of %g", golden[i].spec, r.rate, r.dual_rate);
        if (golden[i].chunks && s->shape.chunks > golden[i].chunks)
            fail_msg("%s: %u chunks", golden[i].spec, s->shape.chunks);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

static double flow_gap(const struct tt_topo *t)
{
    struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 64 << 20);
    struct tt_algo_report r = report_of(t);
    struct tt_sched *s = build_of(&tt_algo_forest, &a);
    struct tt_sim_report *sim;
    struct tt_cost c;
    uint32_t k;
    char text[32];
    assert_int_equal(tt_cost_best_segments(s, t, 64 << 20, TUTTI_F32, TT_MAX_SEGMENTS, &k, &c, NULL), TUTTI_OK);
    tt_sched_free(s);
    snprintf(text, sizeof(text), "segments=%u", k);
    assert_int_equal(tt_algo_options_add(&a.options, text, NULL), TUTTI_OK);
    s = build_of(&tt_algo_forest, &a);
    assert_int_equal(tt_sim_run(s, t, 64 << 20, TUTTI_F32, &(struct tt_sim_options){.level = TT_SIM_FLOW}, &sim, NULL), TUTTI_OK);
    double gap = (double)sim->time_ps * 1e-12 * r.dual_rate / (4.0 * (64 << 20)) - 1;
    tt_sim_report_free(sim);
    tt_sched_free(s);
    return gap;
}

/* The emitted schedule of 256 MiB, simulated: within 2 % of the bound on trees (bench_forest does many more, and larger ones). */
static void test_flow_gap(void **state)
{
    static const char *const specs[] = {"star:8", "full:8", "nics:10G,10G,10G,2.5G", "tree:(8 4 2 1)@100Gbps/10Gbps",
                                        "tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps"};
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 5);
    for (size_t i = 0; i < countof(specs) + 6; i++) {
        struct tt_topo *t = i < countof(specs) ? topo_of(specs[i]) : random_topo(&rng, 2 + (uint32_t)tt_rng_below(&rng, 4), 2, i % 2);
        double gap = flow_gap(t);
        if (gap > 0.02)
            fail_msg("network %zu: %.2f %% above the bound", i, 100 * gap);
        tt_topo_free(t);
    }
}

static void test_same_every_time(void **state)
{
    struct tt_topo *t = topo_of("dragonfly:2,2,2"), *others[5];
    struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 1000);
    struct tt_sched *x = build_of(&tt_algo_forest, &a), *y;
    const char *const specs[] = {"star:3", "star:4", "star:5", "star:6", "star:7"};
    (void)state;
    for (size_t i = 0; i < countof(others); i++) { /* push the first packing out of memory */
        others[i] = topo_of(specs[i]);
        report_of(others[i]);
        tt_topo_free(others[i]);
    }
    y = build_of(&tt_algo_forest, &a);
    assert_true(tt_sched_equal(x, y) && x->hash == y->hash);
    tt_sched_free(x);
    tt_sched_free(y);
    tt_topo_free(t);
}

static void test_refused(void **state)
{
    struct tt_topo *t = topo_of("star:1500"), *u = topo_of("star:200");
    struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 1000), g = args_of(u, TUTTI_ALL_GATHER, 1000);
    struct tutti_error why;
    (void)state;
    assert_int_equal(tt_algo_probe(&tt_algo_forest, &a, &why), TUTTI_ERR_REFUSED);
    expect_says(why.text, "1500 ranks are too many");
    assert_int_equal(tt_algo_probe(&tt_algo_forest, &g, &why), TUTTI_ERR_REFUSED);
    expect_says(why.text, "directed trees");
    a.topo = NULL;
    assert_int_equal(tt_algo_probe(&tt_algo_forest, &a, &why), TUTTI_ERR_REFUSED);
    tt_topo_free(t);
    tt_topo_free(u);
}

static void test_few_trees(void **state)
{
    struct tt_topo *t = topo_of("torus:4x4");
    struct tt_algo_args a = args_of(t, TUTTI_ALLREDUCE, 4096);
    struct tutti_error err;
    (void)state;
    assert_int_equal(tt_algo_options_add(&a.options, "trees=2", &err), TUTTI_OK);
    struct tt_sched *s = build_of(&tt_algo_forest, &a);
    expect_proved(s);
    assert_true(s->shape.chunks <= 128);
    tt_sched_free(s);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proved),       cmocka_unit_test(test_random_networks), cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_rate_is_met),  cmocka_unit_test(test_same_every_time), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_few_trees),    cmocka_unit_test(test_packings),        cmocka_unit_test(test_flow_gap),
        cmocka_unit_test(test_rank_between), cmocka_unit_test(test_slow_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
