/* Policies: closed forms of the literature on uniform models, DDP's known buckets, the choices, bad input. */
#include "policy_case.h"

#define MIB ((uint64_t)1 << 20)
#define MS  UINT64_C(1000000000)

static void test_sync(void **state)
{
    (void)state;
    struct line l = {.startup_ps = 7 * MS, .ps_per_byte = 100};
    struct tt_policy_costs c = costs_of(&l);
    struct tt_policy_tensor *t = uniform(10, MIB, MS, 2 * MS);
    struct tt_policy_times x = timed(&(struct tt_policy_options){.kind = TT_POLICY_SYNC}, t, 10, &c);
    assert_int_equal(x.comm_ps, 7 * MS + 1000 * MIB);
    assert_int_equal(x.iteration_ps, 30 * MS + x.comm_ps);
    assert_int_equal(x.ideal_ps, x.iteration_ps);
    assert_int_equal(x.exposed_ps, x.comm_ps);
    free(t);
}

/* n layers, no start-up: the first gradient comes after bp/n, the last layer's collective follows the last gradient. */
static void test_wfbp(void **state)
{
    (void)state;
    for (uint64_t per_byte = 500; per_byte <= 8000; per_byte *= 2) {
        struct line l = {.ps_per_byte = per_byte};
        struct tt_policy_costs c = costs_of(&l);
        struct tt_policy_tensor *t = uniform(100, MIB, MS, 2 * MS);
        struct tt_policy_times x = timed(&(struct tt_policy_options){.kind = TT_POLICY_WFBP}, t, 100, &c);
        uint64_t one = per_byte * MIB, all = 100 * one;
        uint64_t end = one <= 2 * MS ? 200 * MS + one : 2 * MS + all;
        assert_int_equal(x.comm_ps, all);
        assert_int_equal(x.iteration_ps, 100 * MS + end);
        assert_int_equal(x.ideal_ps, 100 * MS + (all > 200 * MS ? all : 200 * MS));
        free(t);
    }
}

/* Ideal DeAR over ideal WFBP by c/ff for backward = 2 forward: the table of the research note. */
static void test_ideal_ratio(void **state)
{
    static const struct {
        double c, ratio;
    } rows[] = {{2, 1.0}, {2.5, 1.077}, {3, 1.143}, {3.5, 1.2}, {4, 1.25}, {5, 1.2}, {6, 1.167}, {8, 1.125}, {12, 1.083}, {20, 1.05}};
    (void)state;
    for (size_t i = 0; i < countof(rows); i++) {
        struct line l = {.ps_per_byte = (uint64_t)(rows[i].c * 1000)};
        struct tt_policy_costs c = costs_of(&l);
        struct tt_policy_tensor *t = uniform(200, 1000000, MS, 2 * MS);
        struct tt_policy_options dear = {.kind = TT_POLICY_DEAR, .fusion = TT_FUSION_NONE, .order = TT_ORDER_TWO_PHASE};
        struct tt_policy_times w = timed(&(struct tt_policy_options){.kind = TT_POLICY_WFBP}, t, 200, &c), d = timed(&dear, t, 200, &c);
        assert_true(fabs((double)w.ideal_ps / (double)d.ideal_ps - rows[i].ratio) < 6e-4);
        /* 200 layers come close to what infinitely many would reach, and two phases cannot beat their ideal */
        assert_true(d.iteration_ps >= d.ideal_ps);
        assert_true((double)d.iteration_ps < 1.015 * (double)d.ideal_ps);
        free(t);
    }
}

/* Without a barrier the limit is max(c, ff + bp), for every c. */
static void test_no_barrier(void **state)
{
    (void)state;
    for (uint64_t per_byte = 500; per_byte <= 16000; per_byte += 500) {
        struct line l = {.ps_per_byte = per_byte};
        struct tt_policy_costs c = costs_of(&l);
        struct tt_policy_tensor *t = uniform(200, 1000000, MS, 5 * MS); /* bp = 5 ff: the ideal of two phases is above the limit */
        struct tt_policy_times x = timed(&(struct tt_policy_options){.kind = TT_POLICY_DEAR, .fusion = TT_FUSION_NONE}, t, 200, &c);
        assert_true(x.iteration_ps >= x.limit_ps);
        /* first bucket's share, the first gradient's and the last forward's time */
        assert_true(x.iteration_ps <= x.limit_ps + 2 * per_byte * 1000000 + 6 * MS);
        if (per_byte >= 3000 && per_byte <= 9000)
            assert_true(x.ideal_ps > x.limit_ps + 50 * MS && x.iteration_ps < x.ideal_ps);
        free(t);
    }
}

/* torchvision's AlexNet with 10 classes: the buckets PyTorch 1.13 was seen to make. */
static void test_ddp_buckets(void **state)
{
    static const uint64_t counts[] = {23232,  64,  307200,   192,  663552,   384,  884736, 256,
                                      589824, 256, 37748736, 4096, 16777216, 4096, 40960,  10};
    struct tt_policy_tensor t[16];
    struct line l = {.startup_ps = 1, .ps_per_byte = 1};
    struct tt_policy_costs c = costs_of(&l);
    (void)state;
    for (uint32_t i = 0; i < 16; i++)
        t[i] = (struct tt_policy_tensor){.bytes = 4 * counts[i], .elem_bytes = 4, .layer = i / 2};
    struct tt_policy *p = made(&(struct tt_policy_options){.kind = TT_POLICY_BUCKET}, t, 16, &c);
    assert_int_equal(p->nbuckets, 3);
    assert_int_equal(p->buckets[0].last, 9);
    assert_int_equal(p->buckets[1].first, 10);
    assert_int_equal(p->buckets[1].last, 11);
    assert_int_equal(p->buckets[2].first, 12);
    assert_int_equal(p->buckets[2].last, 15);
    assert_int_equal(p->launches[0].bucket, 2); /* ready first, launched first */
    assert_true(p->wait_at_step);
    assert_true(fabs((double)p->buckets[0].bytes / 1048576.0 - 9.4) < 0.05);
    assert_true(fabs((double)p->buckets[1].bytes / 1048576.0 - 144.0) < 0.05);
    assert_true(fabs((double)p->buckets[2].bytes / 1048576.0 - 64.2) < 0.05);
    tt_policy_free(p);
}

static void test_hybrid_choice(void **state)
{
    static const enum tt_tensor_kind kinds[] = {TT_KIND_EMBEDDING, TT_KIND_CONV, TT_KIND_NORM, TT_KIND_FC};
    struct line l = {.startup_ps = MS, .ps_per_byte = 1000};
    struct tt_policy_costs c = costs_of(&l);
    struct tt_policy_tensor *t = uniform(4, 4096, MS, MS);
    (void)state;
    for (int i = 0; i < 4; i++)
        t[i].kind = kinds[i];
    for (int rd = 0; rd < 2; rd++) {
        struct tt_policy *p = made(&(struct tt_policy_options){.kind = TT_POLICY_HYBRID, .recursive_doubling = rd}, t, 4, &c);
        enum tt_policy_algo small = rd ? TT_POLICY_RECURSIVE_DOUBLING : TT_POLICY_HALVING_DOUBLING;
        assert_int_equal(p->buckets[0].algo, TT_POLICY_RING);
        assert_int_equal(p->buckets[1].algo, small);
        assert_int_equal(p->buckets[2].algo, small);
        assert_int_equal(p->buckets[3].algo, TT_POLICY_RING);
        tt_policy_free(p);
    }
    t[2].bytes = 64 * MIB;
    struct tt_policy *p = made(&(struct tt_policy_options){.kind = TT_POLICY_HYBRID_COST}, t, 4, &c);
    assert_int_equal(p->buckets[0].algo, TT_POLICY_RECURSIVE_DOUBLING); /* 0.5 ms + 5.5 us against 1 ms + 4.1 us */
    assert_int_equal(p->buckets[2].algo, TT_POLICY_HALVING_DOUBLING);
    tt_policy_free(p);
    /* fusion never joins what travels differently */
    struct tt_policy_options fused = {
        .kind = TT_POLICY_HYBRID, .fusion = TT_FUSION_THRESHOLD, .threshold_bytes = 1u << 30, .first_bytes = 1u << 30};
    p = made(&fused, t, 4, &c);
    assert_int_equal(p->nbuckets, 3);
    tt_policy_free(p);
    free(t);
}

static void test_fusion_rules(void **state)
{
    struct line l = {.startup_ps = 3 * MS, .ps_per_byte = 1};
    struct tt_policy_costs c = costs_of(&l);
    struct tt_policy_tensor *t = uniform(12, MIB, MS, 2 * MS);
    (void)state;
    struct tt_policy *p = made(&(struct tt_policy_options){.kind = TT_POLICY_WFBP, .fusion = TT_FUSION_NEARBY, .nearby = 5}, t, 12, &c);
    assert_int_equal(p->nbuckets, 3);
    assert_int_equal(p->buckets[2].first, 10);
    tt_policy_free(p);
    /* ready at 2, 4, .. 24 ms: cycles of 5 ms hold 2, 2, 3, 2, 3 of them */
    p = made(&(struct tt_policy_options){.kind = TT_POLICY_BUCKET, .fusion = TT_FUSION_WAITING}, t, 12, &c);
    assert_int_equal(p->nbuckets, 5);
    assert_int_equal(p->buckets[4].first, 10);
    tt_policy_free(p);
    /* dear: the first group within first_bytes, the others within the threshold */
    struct tt_policy_options dear = {.kind = TT_POLICY_DEAR, .fusion = TT_FUSION_THRESHOLD, .threshold_bytes = 4 * MIB};
    p = made(&dear, t, 12, &c);
    assert_int_equal(p->buckets[0].last, 0);
    assert_int_equal(p->buckets[1].last, 3);
    assert_int_equal(p->nbuckets, 4);
    assert_int_equal(p->nlaunches, 8);
    tt_policy_free(p);
    /* the greedy rule joins everything where starting up takes longer than a layer; the optimum does not */
    struct tt_policy_options greedy = {.kind = TT_POLICY_MGWFBP, .fusion = TT_FUSION_GREEDY};
    p = made(&greedy, t, 12, &c);
    assert_int_equal(p->nbuckets, 1);
    tt_policy_free(p);
    assert_true(timed(&(struct tt_policy_options){.kind = TT_POLICY_MGWFBP}, t, 12, &c).iteration_ps <=
                timed(&greedy, t, 12, &c).iteration_ps);
    free(t);
}

/* Against all 2^9 ways to cut ten layers. Sizes are powers of two times a line, on which the interpolation is exact. */
static void test_optimal_is_optimal(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 5);
    for (int round = 0; round < 40; round++) {
        struct line l = {.startup_ps = tt_rng_below(&rng, 6 * MS), .ps_per_byte = 1 + tt_rng_below(&rng, 4000)};
        struct tt_policy_costs c = costs_of(&l);
        struct tt_policy_tensor *t = uniform(10, MIB, MS, MS);
        uint64_t best = UINT64_MAX;
        for (int i = 0; i < 10; i++) {
            t[i].bytes = 4 * (1 + tt_rng_below(&rng, MIB / 2));
            t[i].backward_ps = tt_rng_below(&rng, 4 * MS);
        }
        for (unsigned cuts = 0; cuts < 512; cuts++) {
            uint64_t now = 0, free_ps = 0, sum = 0;
            for (unsigned i = 10; i-- > 0;) {
                now += t[i].backward_ps;
                sum += t[i].bytes;
                if (i > 0 && !(cuts & 1u << (i - 1)))
                    continue;
                free_ps = (free_ps > now ? free_ps : now) + line_cost(&l, TUTTI_ALLREDUCE, TT_POLICY_AUTO, sum);
                sum = 0;
            }
            best = free_ps < best ? free_ps : best;
        }
        struct tt_policy_times x = timed(&(struct tt_policy_options){.kind = TT_POLICY_MGWFBP}, t, 10, &c);
        assert_true(x.iteration_ps - x.forward_ps <= best + best / 100000);
        free(t);
    }
}

static void test_updates(void **state)
{
    struct line l = {.ps_per_byte = 1000};
    struct tt_policy_costs c = costs_of(&l);
    struct tt_policy_tensor *t = uniform(50, MIB, MS, 2 * MS);
    (void)state;
    c.update_ps_per_mib = MS / 2;
    struct tt_policy_times s = timed(&(struct tt_policy_options){.kind = TT_POLICY_SYNC}, t, 50, &c);
    assert_int_equal(s.update_ps, 25 * MS);
    assert_int_equal(s.iteration_ps, 175 * MS + s.comm_ps);
    struct tt_policy_times d = timed(&(struct tt_policy_options){.kind = TT_POLICY_DEAR}, t, 50, &c);
    struct tt_policy_times h = timed(&(struct tt_policy_options){.kind = TT_POLICY_DEAR_SHARDED}, t, 50, &c);
    assert_int_equal(d.update_ps, 25 * MS);
    assert_int_equal(h.update_ps, 0);
    assert_true(h.iteration_ps + 20 * MS < d.iteration_ps);
    free(t);
}

/* The published schedule is one group ahead and waits for all reduce-scatters: never faster than ours. */
static void test_published(void **state)
{
    struct line l = {.startup_ps = MS, .ps_per_byte = 2000};
    struct tt_policy_costs c = costs_of(&l);
    struct tt_policy_tensor *t = uniform(60, MIB, MS, 2 * MS);
    (void)state;
    struct tt_policy_options o = {
        .kind = TT_POLICY_DEAR, .fusion = TT_FUSION_THRESHOLD, .threshold_bytes = 4 * MIB, .order = TT_ORDER_PUBLISHED};
    struct tt_policy *p = made(&o, t, 60, &c);
    uint32_t n = p->nbuckets;
    assert_int_equal(p->launches[n].coll, TUTTI_ALL_GATHER);
    assert_int_equal(p->launches[n].needs_forward, TT_NO_LAUNCH);
    assert_int_equal(p->launches[n + 2].bucket, 2);
    assert_int_equal(p->launches[n + 2].needs_forward, p->buckets[1].first);
    tt_policy_free(p);
    uint64_t published = timed(&o, t, 60, &c).iteration_ps;
    o.lookahead = 2;
    uint64_t two = timed(&o, t, 60, &c).iteration_ps;
    o.order = TT_ORDER_BEST;
    uint64_t ours = timed(&o, t, 60, &c).iteration_ps;
    assert_true(ours < two && two <= published);
    free(t);
}

static void refused(const struct tt_policy_options *o, const struct tt_policy_tensor *t, uint32_t n, struct line *l, tutti_status want,
                    const char *words)
{
    struct tutti_error err = {0};
    struct tt_policy *p = NULL;
    struct tt_policy_costs c = costs_of(l);
    assert_int_equal(tt_policy_make(o, t, n, &c, &p, &err), want);
    assert_null(p);
    if (!strstr(err.text, words))
        fail_msg("'%s' does not say '%s'", err.text, words);
}

static void test_bad_input(void **state)
{
    struct line l = {.ps_per_byte = 1}, only = {.ps_per_byte = 1, .no_scatter = true};
    struct tt_policy_options o = {.kind = TT_POLICY_DEAR};
    struct tt_policy_tensor *t = uniform(3, 4096, MS, MS);
    (void)state;
    refused(&o, t, 0, &l, TUTTI_ERR_ARG, "0 tensors");
    t[1].bytes = 4097;
    refused(&o, t, 3, &l, TUTTI_ERR_ARG, "tensor 1: 4097 bytes");
    t[1].bytes = 0;
    refused(&o, t, 3, &l, TUTTI_ERR_ARG, "tensor 1: 0 bytes");
    t[1].bytes = 4096;
    t[2].layer = 4;
    refused(&o, t, 3, &l, TUTTI_ERR_ARG, "tensor 2: layer 4 does not follow layer 1");
    t[2].layer = 0;
    refused(&o, t, 3, &l, TUTTI_ERR_ARG, "tensor 2: layer 0");
    t[2].layer = 2;
    t[2].kind = (enum tt_tensor_kind)99;
    refused(&o, t, 3, &l, TUTTI_ERR_ARG, "kind 99");
    t[2].kind = TT_KIND_FC;
    t[2].backward_ps = UINT64_MAX - 5;
    refused(&o, t, 3, &l, TUTTI_ERR_LIMIT, "tensor 2");
    t[2].backward_ps = MS;
    t[0].bytes = UINT64_MAX - 3;
    refused(&o, t, 3, &l, TUTTI_ERR_LIMIT, "tensor 0");
    t[0].bytes = 4096;
    refused(&o, t, 3, &only, TUTTI_ERR_REFUSED, "reduce-scatter and all-gather by auto");
    free(t);
}

static void test_names(void **state)
{
    struct tutti_error err = {0};
    (void)state;
    assert_int_equal(tt_policy_find("dear-sharded", &err), TT_POLICY_DEAR_SHARDED);
    assert_int_equal(tt_policy_find("daer", &err), -1);
    assert_non_null(strstr(err.text, "dear"));
    assert_int_equal(tt_policy_fusion_find("optimal", &err), TT_FUSION_OPTIMAL);
    assert_int_equal(tt_policy_fusion_find("", &err), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sync),         cmocka_unit_test(test_wfbp),
        cmocka_unit_test(test_ideal_ratio),  cmocka_unit_test(test_no_barrier),
        cmocka_unit_test(test_ddp_buckets),  cmocka_unit_test(test_hybrid_choice),
        cmocka_unit_test(test_fusion_rules), cmocka_unit_test(test_optimal_is_optimal),
        cmocka_unit_test(test_updates),      cmocka_unit_test(test_published),
        cmocka_unit_test(test_bad_input),    cmocka_unit_test(test_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
