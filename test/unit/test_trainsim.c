/* Models: parameters, tensors and layers of the published networks; profiles read back and refused; prices equal to plans; steps as
 * computed by hand in the research notes. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "trainsim/trainsim.h"

static struct tt_model *open_model(const char *name, uint32_t batch)
{
    struct tutti_error err = {0};
    struct tt_model *m = NULL;
    if (tt_trainsim_model_open(name, batch, 0, &m, &err))
        fail_msg("%s", err.text);
    return m;
}

static void test_models(void **state)
{
    static const struct {
        const char *name;
        size_t layers, tensors;
        uint64_t parameters;
        double gmacs; /* 0: not known from elsewhere */
    } want[] = {{"alexnet", 8, 16, 61100840, 0.714},   {"alexnet-onetower", 8, 16, 62378344, 1.135}, {"vgg16", 16, 32, 138357544, 15.47},
                {"resnet50", 107, 161, 25557032, 0},   {"densenet201", 402, 604, 20013928, 0},       {"inceptionv4", 299, 449, 42679816, 0},
                {"bert-base", 105, 206, 110111042, 0}, {"bert-large", 201, 398, 336232258, 0}};
    struct tt_model_info info;
    (void)state;
    for (size_t i = 0; i < countof(want); i++) {
        struct tt_model *m = open_model(want[i].name, 0);
        double macs = 0;
        assert_true(tt_trainsim_model_get(i, &info));
        assert_string_equal(info.name, want[i].name);
        assert_int_equal(m->layers.len, want[i].layers);
        assert_int_equal(m->tensors.len, want[i].tensors);
        assert_int_equal(tt_trainsim_model_count(m), want[i].parameters);
        assert_int_equal(tt_trainsim_model_bytes(m), 4 * want[i].parameters);
        assert_false(m->measured);
        for (size_t k = 0; k < m->layers.len; k++)
            macs += ((struct tt_model_layer *)tt_vec_at(&m->layers, k))->macs;
        if (want[i].gmacs > 0)
            assert_true(fabs(macs * 1e-9 - want[i].gmacs) < 0.005 * want[i].gmacs);
        tt_trainsim_model_free(m);
    }
    assert_false(tt_trainsim_model_get(countof(want), &info));
}

/* Per layer, as printed in the research note for the one-tower AlexNet. */
static void test_alexnet_layers(void **state)
{
    static const uint64_t want[] = {34944, 614656, 885120, 1327488, 884992, 37752832, 16781312, 4097000};
    struct tt_model *m = open_model("alexnet-onetower", 0);
    (void)state;
    for (size_t i = 0; i < countof(want); i++) {
        const struct tt_model_layer *l = tt_vec_at(&m->layers, i);
        uint64_t sum = 0;
        for (uint32_t k = 0; k < l->ntensors; k++)
            sum += ((struct tt_model_tensor *)tt_vec_at(&m->tensors, l->first + k))->count;
        assert_int_equal(sum, want[i]);
        assert_int_equal(l->kind, i < 5 ? TT_KIND_CONV : TT_KIND_FC);
        assert_int_equal(l->backward_ps, 2 * l->forward_ps);
    }
    tt_trainsim_model_free(m);
}

static void expect_step(double seconds, enum tt_policy_kind kind, uint32_t batch)
{
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    struct tt_prices *prices = NULL;
    struct tt_trainsim *s = NULL;
    struct tt_model *m = open_model("alexnet-onetower", batch);
    assert_int_equal(tt_topo_parse("star:4@1Gbps,30us", &t, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){.algo = "ring"}, &prices, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_run(m, prices, &(struct tt_trainsim_options){.policy = {.kind = kind}}, &s, &err), TUTTI_OK);
    if (fabs((double)s->times.iteration_ps * 1e-12 - seconds) > 0.01 * seconds)
        fail_msg("%s, batch %u: %g s, expected %g", tt_policy_name(kind), batch, (double)s->times.iteration_ps * 1e-12, seconds);
    tt_trainsim_free(s);
    tt_trainsim_prices_close(prices);
    tt_topo_free(t);
    tt_trainsim_model_free(m);
}

static void test_golden_steps(void **state)
{
    (void)state;
    expect_step(5.90, TT_POLICY_SYNC, 128);
    expect_step(3.966, TT_POLICY_WFBP, 128);
    expect_step(0.9688 * 1.5 + 2.995, TT_POLICY_WFBP, 192); /* backward 2.906 s < c */
    expect_step(3 * 0.9688 * 2, TT_POLICY_WFBP, 256);       /* backward 3.875 s > c */
    expect_step(2.995, TT_POLICY_DEAR, 128);                /* c > ff + bp */
}

/* Every price is the plan's for exactly that size, whichever way it was found. */
static void test_prices(void **state)
{
    static const uint64_t sizes[] = {4, 100, 4096, 5000, 65536, 99996, 1 << 20, 3000000, 37752832ull * 4};
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    struct tt_prices *prices = NULL;
    (void)state;
    assert_int_equal(tt_topo_parse("star:12@1Gbps,30us", &t, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){0}, &prices, &err), TUTTI_OK);
    struct tt_policy_costs c = tt_trainsim_prices_costs(prices);
    for (size_t i = 0; i < countof(sizes); i++)
        for (tutti_coll coll = TUTTI_ALLREDUCE; coll <= TUTTI_ALL_GATHER; coll++) {
            struct tt_plan *p = NULL;
            struct tt_problem problem = {.coll = coll, .ranks = 12, .count = sizes[i] / 4};
            assert_int_equal(tt_plan_make(t, &problem, &(struct tt_plan_options){.flow_ms = TT_PLAN_NO_FLOW}, NULL, &p, &err), TUTTI_OK);
            uint64_t got = c.cost(c.ctx, coll, TT_POLICY_AUTO, sizes[i]);
            assert_int_equal(got, p->cost.time_ps);
            assert_int_equal(got, c.cost(c.ctx, coll, TT_POLICY_AUTO, sizes[i]));
            tt_plan_free(p);
        }
    /* ring: 2 (p-1) steps of 60 us and 8 ns a byte of a twelfth */
    uint64_t bytes = 12u << 20, ring = c.cost(c.ctx, TUTTI_ALLREDUCE, TT_POLICY_RING, bytes);
    assert_int_equal(ring, 22 * (UINT64_C(60000000) + 8000 * (bytes / 12)));
    assert_int_equal(c.cost(c.ctx, TUTTI_REDUCE_SCATTER, TT_POLICY_RECURSIVE_DOUBLING, bytes), UINT64_MAX);
    assert_non_null(tt_trainsim_prices_failure(prices));
    assert_non_null(strstr(tt_trainsim_prices_failure(prices)->text, "reduce-scatter"));
    tt_trainsim_prices_close(prices);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){.algo = "rnig"}, &prices, &err), TUTTI_ERR_ARG);
    tt_topo_free(t);
}

static void test_flow_prices(void **state)
{
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    struct tt_prices *step = NULL, *flow = NULL;
    (void)state;
    assert_int_equal(tt_topo_parse("star:4@1Gbps,30us", &t, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){.algo = "ring"}, &step, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){.algo = "ring", .flow = true}, &flow, &err), TUTTI_OK);
    struct tt_policy_costs a = tt_trainsim_prices_costs(step), b = tt_trainsim_prices_costs(flow);
    double x = (double)a.cost(a.ctx, TUTTI_ALLREDUCE, TT_POLICY_AUTO, 8 << 20),
           y = (double)b.cost(b.ctx, TUTTI_ALLREDUCE, TT_POLICY_AUTO, 8 << 20);
    assert_true(fabs(x / y - 1) < 0.01); /* a ring on a star has no contention: both levels agree */
    assert_int_not_equal(tt_trainsim_prices_hash(step), tt_trainsim_prices_hash(flow));
    tt_trainsim_prices_close(step);
    tt_trainsim_prices_close(flow);
    tt_topo_free(t);
}

/* ---- profiles ---- */

static char *profile_of(const struct tt_model *m)
{
    char *text = NULL;
    size_t len;
    FILE *f = open_memstream(&text, &len);
    tt_trainsim_profile_write(m, f);
    fclose(f);
    return text;
}

static void test_profile_round_trip(void **state)
{
    struct tutti_error err = {0};
    struct tt_model_info info;
    (void)state;
    for (size_t i = 0; tt_trainsim_model_get(i, &info); i++) {
        struct tt_model *m = open_model(info.name, 7), *back = NULL;
        struct tt_policy_tensor *a = NULL, *b = NULL;
        char *text = profile_of(m);
        if (tt_trainsim_profile_read_memory(text, strlen(text), "p.json", &back, &err))
            fail_msg("%s", err.text);
        char *again = profile_of(back);
        assert_string_equal(text, again);
        assert_int_equal(tt_trainsim_model_tensors(m, &a, &err), TUTTI_OK);
        assert_int_equal(tt_trainsim_model_tensors(back, &b, &err), TUTTI_OK);
        for (size_t k = 0; k < m->tensors.len; k++)
            assert_true(a[k].bytes == b[k].bytes && a[k].layer == b[k].layer && a[k].kind == b[k].kind &&
                        a[k].forward_ps == b[k].forward_ps && a[k].backward_ps == b[k].backward_ps);
        free(a);
        free(b);
        free(text);
        free(again);
        tt_trainsim_model_free(m);
        tt_trainsim_model_free(back);
    }
}

static void test_bad_profiles(void **state)
{
#define TOP   "{\"format\": \"tutti-profile\", \"version\": 1, \"model\": \"m\", \"batch\": 1, \"times\": \"measured\", \"layers\": "
#define LAYER "{\"name\": \"l\", \"forward_us\": 1, \"backward_us\": 2, \"tensors\": "
    static const struct {
        const char *text, *words;
    } bad[] = {
        {"", "p.json:1"},
        {"{", "p.json:1"},
        {"{}", "\"format\" is missing"},
        {"{\"format\": \"tutti-plan\"}", "\"tutti-plan\" is not known here"},
        {"{\"format\": \"tutti-profile\", \"version\": 2}", "2 is not within 1..1"},
        {TOP "[]}", "no layers"},
        {TOP "[1]}", "an object is needed"},
        {TOP "[" LAYER "[]}]}", "layer \"l\" has no tensors"},
        {TOP "[{\"name\": \"l\"}]}", "\"forward_us\" is missing"},
        {TOP "[{\"name\": \"\"}]}", "0 bytes"},
        {TOP "[{\"forward_us\": -1}]}", "-1 us is not within"},
        {TOP "[{\"forward_us\": 1e300}]}", "is not within"},
        {TOP "[{\"forward_us\": \"1\"}]}", "microseconds"},
        {TOP "[{\"kind\": \"cnv\"}]}", "did you mean conv"},
        {TOP "[" LAYER "[{\"name\": \"w\", \"count\": 0}]}]}", "0 is not within"},
        {TOP "[" LAYER "[{\"name\": \"w\", \"count\": 1.5}]}]}", "p.json:1"},
        {TOP "[" LAYER "[{\"name\": \"w\", \"count\": 99999999999999999}]}]}", "is not within"},
        {TOP "[" LAYER "[{\"name\": \"w\", \"count\": 1, \"dtype\": \"f31\"}]}]}", "f31"},
        {TOP "[" LAYER "[{\"name\": \"w\", \"name\": \"v\"}]}]}", "twice"},
        {TOP "[" LAYER "[{\"name\": \"w\", \"shape\": []}]}]}", "unknown key \"shape\""},
        {TOP "[" LAYER "[{\"name\": \"w\", \"count\": 1}]}]} 5", "p.json:1"},
    };
    (void)state;
    for (size_t i = 0; i < countof(bad); i++) {
        struct tutti_error err = {0};
        struct tt_model *m = NULL;
        if (!tt_trainsim_profile_read_memory(bad[i].text, strlen(bad[i].text), "p.json", &m, &err) || !strstr(err.text, bad[i].words) || m)
            fail_msg("'%s': '%s' does not say '%s'", bad[i].text, err.text, bad[i].words);
    }
}

static void test_bad_models(void **state)
{
    struct tutti_error err = {0};
    struct tt_model *m = NULL;
    (void)state;
    assert_int_equal(tt_trainsim_model_open("resnet5", 0, 0, &m, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "resnet50"));
    assert_int_equal(tt_trainsim_model_open("./none.json", 0, 0, &m, &err), TUTTI_ERR_IO);
    assert_int_equal(tt_trainsim_model_open("./none.json", 8, 0, &m, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_trainsim_model_open("alexnet", 0, 1e19, &m, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_trainsim_model_open("alexnet", 1u << 21, 0, &m, &err), TUTTI_ERR_RANGE);
    assert_null(m);
}

/* A profile may have times that add up beyond all reason: refused, not wrapped around. */
static void test_absurd_times(void **state)
{
    struct tutti_error err = {0};
    struct tt_model *m = open_model("bert-large", 0);
    struct tt_topo *t = NULL;
    struct tt_prices *prices = NULL;
    struct tt_trainsim *s = NULL;
    (void)state;
    for (size_t i = 0; i < m->layers.len; i++)
        ((struct tt_model_layer *)tt_vec_at(&m->layers, i))->forward_ps = UINT64_MAX / 16;
    assert_int_equal(tt_topo_parse("star:4@1Gbps,30us", &t, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){.algo = "ring"}, &prices, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_run(m, prices, &(struct tt_trainsim_options){0}, &s, &err), TUTTI_ERR_LIMIT);
    assert_null(s);
    tt_trainsim_prices_close(prices);
    tt_topo_free(t);
    tt_trainsim_model_free(m);
}

static void tune_model(struct tt_prices *prices, const char *name)
{
    struct tutti_error err = {0};
    struct tt_trainsim *s = NULL;
    struct tt_model *m = open_model(name, 0);
    uint64_t best = UINT64_MAX, worst = 0;
    for (uint64_t x = 65536; x <= (uint64_t)256 << 20; x += x / 2) {
        struct tt_trainsim_options o = {.policy = {.kind = TT_POLICY_DEAR, .fusion = TT_FUSION_THRESHOLD, .threshold_bytes = x}};
        assert_int_equal(tt_trainsim_run(m, prices, &o, &s, &err), TUTTI_OK);
        best = s->times.iteration_ps < best ? s->times.iteration_ps : best;
        worst = s->times.iteration_ps > worst ? s->times.iteration_ps : worst;
        tt_trainsim_free(s);
    }
    struct tt_trainsim_options o = {.policy = {.kind = TT_POLICY_DEAR}, .tune = true};
    assert_int_equal(tt_trainsim_run(m, prices, &o, &s, &err), TUTTI_OK);
    assert_int_equal(s->tuner.n, 10);
    assert_int_equal(s->times.iteration_ps, s->tuner.trials[tt_policy_tuner_best(&s->tuner)].time_ps);
    if ((double)s->times.iteration_ps > 1.03 * (double)best || (double)worst < 1.2 * (double)best)
        fail_msg("%s: best %g, worst %g, tuned %g ps", name, (double)best, (double)worst, (double)s->times.iteration_ps);
    tt_trainsim_free(s);
    tt_trainsim_model_free(m);
}

/* Ten trials come within 3 % of an exhaustive sweep, where thresholds matter: with rings for all five models. */
static void test_tuner_on_models(void **state)
{
    static const char *const models[] = {"resnet50", "densenet201", "inceptionv4", "bert-base", "bert-large"};
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    struct tt_prices *prices = NULL;
    (void)state;
    assert_int_equal(tt_topo_parse("star:64@10Gbps,25us", &t, &err), TUTTI_OK);
    assert_int_equal(tt_trainsim_prices_open(t, &(struct tt_prices_options){.algo = "ring"}, &prices, &err), TUTTI_OK);
    for (size_t i = 0; i < countof(models); i++)
        tune_model(prices, models[i]);
    tt_trainsim_prices_close(prices);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models),       cmocka_unit_test(test_alexnet_layers),
                                       cmocka_unit_test(test_golden_steps), cmocka_unit_test(test_prices),
                                       cmocka_unit_test(test_flow_prices),  cmocka_unit_test(test_profile_round_trip),
                                       cmocka_unit_test(test_bad_profiles), cmocka_unit_test(test_bad_models),
                                       cmocka_unit_test(test_absurd_times), cmocka_unit_test(test_tuner_on_models)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
