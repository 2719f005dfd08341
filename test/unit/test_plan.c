/* The planner against what it promises: right prices, the best priced candidate wins, refusals and skips say why, the budget is
 * counted and not timed, the cache answers only the same question. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "sim/sim.h"
#include "topo_spec.h"
#include "verify/verify.h"

static struct tt_problem problem_of(const struct tt_topo *t, tutti_coll coll, uint64_t count)
{
    return (struct tt_problem){.coll = coll, .ranks = t->ranks, .count = count, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
}

static struct tt_plan *make_plan(const struct tt_topo *t, tutti_coll coll, uint64_t count, const struct tt_plan_options *o)
{
    struct tt_problem p = problem_of(t, coll, count);
    struct tutti_error err = {0};
    struct tt_plan_options short_of = *o;
    struct tt_plan *plan = NULL;

    if (!short_of.flow_ms) /* tests must be cheap */
        short_of.flow_ms = 5;
    if (tt_plan_make(t, &p, &short_of, NULL, &plan, &err) != TUTTI_OK)
        fail_msg("%s %s %llu: %s", t->spec, tt_sched_coll_name(coll), (unsigned long long)count, err.text);
    return plan;
}

static const struct tt_candidate *candidate(const struct tt_plan *plan, const char *name)
{
    for (size_t i = 0; i < plan->ncandidates; i++)
        if (strcmp(plan->candidates[i].algo->name, name) == 0)
            return &plan->candidates[i];
    fail_msg("no candidate %s", name);
    return NULL;
}

static void add_option(struct tt_plan_options *o, const char *text)
{
    struct tutti_error err = {0};
    assert_int_equal(tt_algo_options_add(&o->algo_options, text, &err), TUTTI_OK);
}

static void expect_failure(const struct tt_topo *t, const struct tt_problem *p, const struct tt_plan_options *o, tutti_status status,
                           const char *part)
{
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;

    assert_int_equal(tt_plan_make(t, p, o, NULL, &plan, &err), status);
    assert_null(plan);
    assert_int_equal(err.status, status);
    if (!strstr(err.text, part))
        fail_msg("\"%s\" does not contain \"%s\"", err.text, part);
}

/* ---- prices ---- */

static void ring_price_is_the_closed_form(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_plan_options o = {.algo = "ring"};
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 16u << 20, &o);

    /* 14 steps of two links each (100 us) and 8 MiB at 125 MB/s (67.108864 ms) */
    assert_int_equal(plan->cost.time_ps, 14 * (UINT64_C(100000000) + UINT64_C(67108864000)));
    assert_int_equal(plan->cost.steps, 14);
    assert_int_equal(plan->cost.busiest_bytes, 14 * (UINT64_C(8) << 20));
    assert_int_equal(plan->cost.max_link_contention, 1);
    assert_string_equal(plan->algo->name, "ring");
    assert_null(plan->candidates);
    assert_false(plan->from_tuning);
    assert_false(plan->from_cache);
    /* the NIC volume: 2 * 7/8 * 64 MiB at 125 MB/s */
    assert_true(plan->bounds.time_ps >= UINT64_C(939524096000) && plan->bounds.time_ps <= plan->cost.time_ps);
    assert_true(plan->ratio_to_bound == (double)plan->cost.time_ps / (double)plan->bounds.time_ps);
    tt_plan_free(plan);
    tt_topo_free(t);
}

/* The price of every candidate again, the long way: build all ranks and call the cost function. */
static void check_price(const struct tt_topo *t, const struct tt_plan *plan, const struct tt_candidate *c)
{
    struct tt_algo_args a = {.problem = plan->problem, .topo = t};
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    struct tt_cost cost;
    char text[40];

    snprintf(text, sizeof(text), "segments=%u", c->segments);
    assert_int_equal(tt_algo_options_add(&a.options, text, &err), TUTTI_OK);
    assert_int_equal(tt_algo_build(c->algo, &a, &s, &err), TUTTI_OK);
    assert_int_equal(s->shape.segments, c->segments);
    assert_int_equal(tt_cost_sched(s, t, plan->problem.count, plan->problem.dtype, &cost, &err), TUTTI_OK);
    if (cost.time_ps != c->cost.time_ps)
        fail_msg("%s %s %s count %llu: priced %llu, costs %llu", t->spec, tt_sched_coll_name(plan->problem.coll), c->algo->name,
                 (unsigned long long)plan->problem.count, (unsigned long long)c->cost.time_ps, (unsigned long long)cost.time_ps);
    tt_sched_free(s);
}

static uint64_t time_of(const struct tt_candidate *c)
{
    return c->flow_ps ? c->flow_ps : c->cost.time_ps;
}

/* The winner is within 2 % of the least time (at flow level where that is known), and nothing else there has fewer messages, or as many and less time, or all that alike and an
 * earlier line in the table. */
static void check_winner(const struct tt_plan *plan)
{
    const struct tt_candidate *w = &plan->candidates[plan->winner];
    double sent = (double)w->cost.messages * w->segments, least = 1e300;

    for (size_t i = 0; i < plan->ncandidates; i++)
        if (!plan->candidates[i].refused && !plan->candidates[i].skipped && (double)time_of(&plan->candidates[i]) < least)
            least = (double)time_of(&plan->candidates[i]);
    assert_true((double)time_of(w) <= 1.02 * least);
    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i];
        double sends = (double)c->cost.messages * c->segments;
        if (c->refused || c->skipped || (double)time_of(c) > 1.0199 * least)
            continue;
        assert_true(sends >= sent);
        assert_true(sends > sent || time_of(c) >= time_of(w));
        assert_true(sends > sent || time_of(c) > time_of(w) || i >= plan->winner);
    }
}

static void check_candidates(const struct tt_topo *t, const struct tt_plan *plan)
{
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);

    assert_int_equal(plan->ncandidates, n);
    for (size_t i = 0; i < n; i++) {
        const struct tt_candidate *c = &plan->candidates[i];
        assert_ptr_equal(c->algo, table[i]);
        assert_true(c->why[0] != '\0');
        assert_false(c->refused && c->skipped);
        if (c->refused || c->skipped) {
            assert_int_not_equal(i, plan->winner);
            continue;
        }
        assert_true(c->cost.time_ps >= plan->bounds.time_ps);
        assert_true(plan->bounds.time_ps == 0 || c->ratio_to_bound >= 1.0);
        check_price(t, plan, c);
    }
    check_winner(plan);
    assert_ptr_equal(plan->algo, plan->candidates[plan->winner].algo);
    assert_int_equal(plan->cost.time_ps, plan->candidates[plan->winner].cost.time_ps);
}

static void check_schedule(const struct tt_topo *t, const struct tt_plan *plan)
{
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    struct tt_verify_result v;

    assert_int_equal(tt_plan_schedule(plan, t, &s, &err), TUTTI_OK);
    assert_int_equal(s->nslices, t->ranks);
    assert_int_equal(s->shape.segments, tt_algo_option_number(plan->algo, &plan->options, "segments", 1));
    assert_int_equal(s->shape.topo_hash, plan->algo->needs_topo || plan->algo->build ? t->hash : 0);
    assert_int_equal(tt_verify(s, &(struct tt_verify_options){.seed = 1}, &v, &err), TUTTI_OK);
    if (!v.ok)
        fail_msg("%s: %s: %s", t->spec, plan->algo->name, v.why);
    tt_sched_free(s);
}

/* No power of two of segments beats what the candidate was priced with by more than 0.1 %. */
static void check_segments(const struct tt_topo *t, const struct tt_plan *plan, const struct tt_candidate *c)
{
    struct tt_algo_args a = {.problem = plan->problem, .topo = t};
    struct tt_sched *s = NULL;
    struct tt_cost cost;

    assert_int_equal(tt_algo_build(c->algo, &a, &s, NULL), TUTTI_OK);
    for (uint32_t k = 1; k <= plan->problem.count / s->shape.chunks / 16 && k <= 4096; k *= 2) {
        s->shape.segments = k;
        assert_int_equal(tt_cost_sched(s, t, plan->problem.count, plan->problem.dtype, &cost, NULL), TUTTI_OK);
        if (cost.time_ps + cost.time_ps / 999 < c->cost.time_ps)
            fail_msg("%s %s count %llu: %llu ps in %u segments, but %u segments take %llu ps", t->spec, c->algo->name,
                     (unsigned long long)plan->problem.count, (unsigned long long)c->cost.time_ps, c->segments, k,
                     (unsigned long long)cost.time_ps);
    }
    tt_sched_free(s);
}

static void auto_is_never_beaten(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "star:8@1Gbps,50us",
        "star:7@10Gbps,20us",
        "torus:4x4@16GB/s,150ns",
        "ring:5",
        "full:6@10Gbps,1us",
        "hypercube:8",
        "tree:((4 4)(4 2))@100Gbps/25Gbps",
        "nics:10G,10G,10G,2.5G",
        "mesh:4x4@10Gbps,1us",
        "dragonfly:4,2,2@10Gbps,1us",
        "hypercube:16",
    };
    static const uint64_t counts[] = {0, 1, 5, 256, 1000, 16384, 262144, 1000003, 16u << 20};

    for (size_t s = 0; s < countof(specs); s++) {
        struct tt_topo *t = topo_of(specs[s]);
        for (size_t k = 0; k < countof(counts); k++) {
            struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, counts[k], &(struct tt_plan_options){.flow_ms = TT_PLAN_NO_FLOW});
            check_candidates(t, plan);
            check_schedule(t, plan);
            for (size_t i = 0; i < plan->ncandidates; i++)
                if (!plan->candidates[i].refused)
                    check_segments(t, plan, &plan->candidates[i]);
            tt_plan_free(plan);
        }
        tt_topo_free(t);
    }
}

/* Times at flow level are those of the simulator for the candidate's schedule and number of segments, and they decide. */
static void flow_decides(void **state)
{
    (void)state;
    /* by steps forest wins on the first, at flow level flex; on the others candidates change places too */
    static const char *const specs[] = {"nics:10G,10G,10G,2.5G@10Gbps,1us,1ns", "mesh:3x3@10Gbps,10us",
                                        "tree:((4 4)(4 2))@100Gbps/25Gbps,1us,100ps"};
    static const uint64_t counts[] = {1000, 262144, 4u << 20};
    size_t simulated = 0;

    for (size_t s = 0; s < countof(specs); s++) {
        struct tt_topo *t = topo_of(specs[s]);
        for (size_t k = 0; k < countof(counts); k++) {
            struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, counts[k], &(struct tt_plan_options){.flow_ms = 50});
            check_candidates(t, plan);
            check_schedule(t, plan);
            for (size_t i = 0; i < plan->ncandidates; i++) {
                const struct tt_candidate *c = &plan->candidates[i];
                struct tt_algo_args a = {.problem = plan->problem, .topo = t};
                struct tt_sim_report *r = NULL;
                struct tt_sched *sched = NULL;
                if (!c->flow_ps)
                    continue;
                assert_int_equal(tt_algo_build(c->algo, &a, &sched, NULL), TUTTI_OK);
                sched->shape.segments = c->segments;
                assert_int_equal(tt_sim_run(sched, t, counts[k], TUTTI_F32, &(struct tt_sim_options){.level = TT_SIM_FLOW}, &r, NULL),
                                 TUTTI_OK);
                assert_int_equal(r->time_ps, c->flow_ps);
                assert_true(c->flow_ps >= plan->bounds.time_ps);
                simulated++;
                tt_sim_report_free(r);
                tt_sched_free(sched);
            }
            tt_plan_free(plan);
        }
        tt_topo_free(t);
    }
    assert_true(simulated > 30);
}

/* By steps circulant is as fast as ring here; at flow level it is not. It must not win the tie by its step time. */
static void ties_are_of_one_level(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("nics:9G,5G,10G,6G,5G@10Gbps,0");
    struct tt_plan *plan = make_plan(t, TUTTI_ALL_GATHER, 16384, &(struct tt_plan_options){.flow_ms = 50});
    assert_true(plan->flow_ps > 0);
    tt_plan_free(plan);
    tt_topo_free(t);
}

/* With little work for it, nothing or little is simulated, and the plan is the same every time. */
static void flow_is_counted(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("tree:((4 4)(4 2))@100Gbps/25Gbps,1us");
    size_t before = 0;
    for (uint64_t ms = 1; ms <= 100; ms *= 10) {
        size_t n = 0;
        struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 4u << 20, &(struct tt_plan_options){.flow_ms = ms});
        struct tt_plan *again = make_plan(t, TUTTI_ALLREDUCE, 4u << 20, &(struct tt_plan_options){.flow_ms = ms});
        for (size_t i = 0; i < plan->ncandidates; i++) {
            n += plan->candidates[i].flow_ps > 0;
            assert_int_equal(plan->candidates[i].flow_ps, again->candidates[i].flow_ps);
        }
        assert_true(n >= before);
        before = n;
        assert_ptr_equal(plan->algo, again->algo);
        tt_plan_free(plan);
        tt_plan_free(again);
    }
    assert_true(before >= 2);
    tt_topo_free(t);
}

/* What the waves of segments gain on networks where the steps of an algorithm load different links. */
static void segments_are_found_for_all(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *algo;
        uint64_t count, least;
    } cases[] = {{"mesh:4x4@10Gbps,1us", "hierarchical", 16u << 20, 6},
                 {"dragonfly:4,2,2@10Gbps,1us", "swing", 16u << 20, 48},
                 {"hypercube:16", "recursive-doubling", 256, 2}};

    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_topo *t = topo_of(cases[i].spec);
        struct tt_plan *best = make_plan(t, TUTTI_ALLREDUCE, cases[i].count, &(struct tt_plan_options){.algo = cases[i].algo}), *one, *all;
        struct tt_plan_options fixed = {.algo = cases[i].algo};
        add_option(&fixed, "segments=1");
        one = make_plan(t, TUTTI_ALLREDUCE, cases[i].count, &fixed);
        all = make_plan(t, TUTTI_ALLREDUCE, cases[i].count, &(struct tt_plan_options){.flow_ms = TT_PLAN_NO_FLOW});
        assert_true(tt_algo_option_number(best->algo, &best->options, "segments", 1) >= cases[i].least);
        assert_true(best->cost.time_ps < one->cost.time_ps);
        assert_true(all->cost.time_ps <= best->cost.time_ps);
        tt_plan_free(best);
        tt_plan_free(one);
        tt_plan_free(all);
        tt_topo_free(t);
    }
}

/* 131,070 messages of 16,384 hops: nobody waits for that, and the refusal says how much it would be. */
static void endless_prices_are_refused(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:65536");
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 16u << 20);

    expect_failure(t, &p, &(struct tt_plan_options){.algo = "direct"}, TUTTI_ERR_BUDGET, "about 4.3 billion operations");
    tt_topo_free(t);
}

static void every_collective_is_planned(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:6@10Gbps,5us");

    for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++) {
        struct tt_plan *plan = make_plan(t, (tutti_coll)coll, 5000, &(struct tt_plan_options){0});
        check_candidates(t, plan);
        check_schedule(t, plan);
        assert_true(plan->cost.time_ps > 0);
        assert_int_equal(plan->problem.count, coll == TUTTI_BARRIER ? 0 : 5000);
        tt_plan_free(plan);
    }
    tt_topo_free(t);
}

static void one_rank_and_no_elements(void **state)
{
    (void)state;
    struct tt_topo *one = topo_of("star:1"), *t = topo_of("star:8");
    struct tt_plan *plan = make_plan(one, TUTTI_ALLREDUCE, 1000, &(struct tt_plan_options){0});

    assert_int_equal(plan->cost.messages, 0);
    assert_int_equal(plan->cost.time_ps, 0);
    assert_true(plan->ratio_to_bound == 0);
    assert_non_null(strstr(plan->candidates[plan->winner].why, "no messages"));
    check_schedule(one, plan);
    tt_plan_free(plan);

    plan = make_plan(t, TUTTI_ALLREDUCE, 0, &(struct tt_plan_options){0});
    check_schedule(t, plan);
    tt_plan_free(plan);
    tt_topo_free(one);
    tt_topo_free(t);
}

/* The short way reaches sizes the long one cannot, also with unequal chunks. */
static void symmetry_prices_large_networks(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:4096@10Gbps,1us");
    struct tt_plan_options o = {.algo = "ring"};
    struct tt_plan *plan;

    add_option(&o, "segments=1");
    plan = make_plan(t, TUTTI_ALLREDUCE, 4096 * 1024, &o);
    assert_true(plan->cost.by_symmetry && plan->cost.exact);
    /* 8190 steps of 2 us and 4 KiB at 1.25 GB/s (3276.8 ns) */
    assert_int_equal(plan->cost.time_ps, UINT64_C(8190) * (2000000 + 3276800));
    tt_plan_free(plan);
    plan = make_plan(t, TUTTI_ALLREDUCE, 4096 * 1024 + 16, &o);
    assert_true(plan->cost.by_symmetry && plan->cost.exact);
    /* one chunk has 64 bytes more, and some rank sends it in every step */
    assert_int_equal(plan->cost.time_ps, UINT64_C(8190) * (2000000 + 3276800 + 51200));
    tt_plan_free(plan);
    tt_topo_free(t);
}

/* What no budget prices exactly is an upper bound and says so; the bound of the ring's 65,536 overlapping segments. */
static void upper_bounds_say_so(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:65536@10Gbps,1us");
    struct tt_plan_options o = {.algo = "ring"}, one = o;
    struct tutti_error err;

    assert_int_equal(tt_algo_options_add(&o.algo_options, "segments=65536", &err), TUTTI_OK);
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 25000001, &o), *plain = make_plan(t, TUTTI_ALLREDUCE, 25000001, &one);
    assert_true(plan->cost.by_symmetry && !plan->cost.exact);
    assert_true(plain->cost.by_symmetry && plain->cost.exact);
    assert_true(plan->ratio_to_bound > 1);
    tt_plan_free(plan);
    tt_plan_free(plain);
    tt_topo_free(t);
}

/* The predicted time is what the whole schedule costs, in all its parts, however it was found. */
static void check_whole_price(const struct tt_topo *t, const struct tt_plan *plan, const struct tt_sched *s)
{
    struct tutti_error err = {0};
    struct tt_cost whole;

    if (tt_cost_sched(s, t, plan->problem.count, plan->problem.dtype, &whole, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    assert_true(plan->cost.exact);
    assert_int_equal(plan->cost.time_ps, whole.time_ps);
    assert_int_equal(plan->cost.transfer_ps, whole.transfer_ps);
    assert_int_equal(plan->cost.reduce_ps, whole.reduce_ps);
    assert_int_equal(plan->cost.busiest_link, whole.busiest_link);
    assert_int_equal(plan->cost.busiest_bytes, whole.busiest_bytes);
    assert_int_equal(plan->cost.messages, whole.messages);
    assert_int_equal(plan->cost.bytes, whole.bytes);
}

static void prices_and_counts_are_those_of_the_schedule(void **state)
{
    (void)state;
    static const char *const specs[] = {"star:1", "star:9@1Gbps,5us", "ring:10@1GB/s,1us,3ps", "full:6", "dln:12", "torus:3x4", "mesh:2x3"};
    static const uint64_t counts[] = {0, 7, 1009, 100003};
    size_t n, by_symmetry = 0;
    const struct tt_algo *const *table = tt_algo_table(&n);

    for (size_t i = 0; i < countof(specs) * n * countof(counts); i++) {
        struct tt_topo *t = topo_of(specs[i / countof(counts) / n]);
        struct tt_plan_options o = {.algo = table[i / countof(counts) % n]->name};
        struct tt_problem problem = {TUTTI_ALLREDUCE, t->ranks, 0, counts[i % countof(counts)], TUTTI_F32, TUTTI_SUM, false};
        struct tt_plan *plan = NULL;
        struct tt_sched *s = NULL;
        uint64_t ops = 1;
        uint32_t chunks = 0;
        tutti_status st = tt_plan_make(t, &problem, &o, NULL, &plan, NULL);
        assert_true(st == TUTTI_OK || st == TUTTI_ERR_REFUSED);
        if (st == TUTTI_OK) {
            assert_int_equal(tt_plan_schedule(plan, t, &s, NULL), TUTTI_OK);
            assert_int_equal(tt_plan_count(plan, t, &ops, &chunks, NULL), TUTTI_OK);
            assert_int_equal(ops, s->nops);
            assert_int_equal(chunks, s->shape.chunks);
            check_whole_price(t, plan, s);
            by_symmetry += plan->cost.by_symmetry;
        }
        tt_sched_free(s);
        tt_plan_free(plan);
        tt_topo_free(t);
    }
    assert_true(by_symmetry >= 60);
}

/* A ring of 65,536 ranks has too many operations to build, not too many to count. */
static void counts_without_building(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:65536");
    struct tt_plan_options o = {.algo = "ring"};
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 1 << 20, &o);
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    uint64_t ops = 0;
    uint32_t chunks = 0;

    assert_int_equal(tt_plan_count(plan, t, &ops, &chunks, NULL), TUTTI_OK);
    assert_int_equal(ops, UINT64_C(65536) * 2 * 131070);
    assert_int_equal(chunks, 65536);
    assert_int_equal(tt_plan_schedule(plan, t, &s, &err), TUTTI_ERR_LIMIT);
    assert_non_null(strstr(err.text, "GiB"));
    tt_plan_free(plan);
    tt_topo_free(t);
}

static void why_names_what_decides(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 16384, &(struct tt_plan_options){0});
    const struct tt_candidate *ring = candidate(plan, "ring");

    /* 14 * 100 us of latency, 14 * 8 KiB / 125 MB/s = 917.5 us on the links */
    assert_int_equal(strncmp(ring->why, "14 steps; latency 60%, links 40%; busiest link ", 47), 0);
    assert_non_null(strstr(ring->why, "->"));
    assert_non_null(strstr(ring->why, " carries 112 KiB"));
    tt_plan_free(plan);
    tt_topo_free(t);
}

/* ---- options ---- */

static void segments_are_honoured(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_plan_options o = {0};
    struct tt_plan *plan;

    add_option(&o, "segments=4");
    plan = make_plan(t, TUTTI_ALLREDUCE, 1u << 20, &o);
    for (size_t i = 0; i < plan->ncandidates; i++)
        if (!plan->candidates[i].refused)
            assert_int_equal(plan->candidates[i].segments, 4);
    check_candidates(t, plan);
    check_schedule(t, plan);
    assert_int_equal(tt_algo_option_number(plan->algo, &plan->options, "segments", 1), 4);
    tt_plan_free(plan);

    o.algo = "chain";
    plan = make_plan(t, TUTTI_BROADCAST, 1u << 20, &o);
    assert_int_equal(tt_algo_option_number(plan->algo, &plan->options, "segments", 1), 4);
    tt_plan_free(plan);
    tt_topo_free(t);
}

static void pipelines_get_their_segments(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_plan_options o = {.algo = "chain"};
    struct tt_plan *best = make_plan(t, TUTTI_BROADCAST, 16u << 20, &o), *fixed;
    uint64_t k = tt_algo_option_number(best->algo, &best->options, "segments", 1);

    assert_true(k > 1);
    check_schedule(t, best);
    for (uint64_t other = k / 2; other <= 2 * k; other += k + k / 2) {
        char text[40];
        struct tt_plan_options with = {.algo = "chain"};
        snprintf(text, sizeof(text), "segments=%llu", (unsigned long long)other);
        add_option(&with, text);
        fixed = make_plan(t, TUTTI_BROADCAST, 16u << 20, &with);
        assert_true(fixed->cost.time_ps >= best->cost.time_ps);
        tt_plan_free(fixed);
    }
    tt_plan_free(best);
    tt_topo_free(t);
}

static void reproducible_needs_rank_order(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_plan_options o = {.reproducible = true};
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 1u << 20);
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 1u << 20, &o);

    assert_true(plan->algo->rank_order);
    assert_true(candidate(plan, "ring")->refused);
    assert_string_equal(candidate(plan, "ring")->why, "sums in an order that depends on size; reproducible needs rank order");
    tt_plan_free(plan);

    plan = make_plan(t, TUTTI_ALL_GATHER, 1u << 20, &o); /* nothing is summed */
    assert_false(candidate(plan, "ring")->refused);
    tt_plan_free(plan);

    o.algo = "ring";
    expect_failure(t, &p, &o, TUTTI_ERR_REFUSED, "reproducible needs rank order");
    tt_topo_free(t);
}

static void bad_questions_are_refused(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8");
    struct tt_problem p = problem_of(t, TUTTI_BROADCAST, 100);
    struct tt_plan_options o = {0};

    p.ranks = 9;
    expect_failure(t, &p, &o, TUTTI_ERR_MISMATCH, "9 ranks");
    expect_failure(t, &p, &o, TUTTI_ERR_MISMATCH, "has 8");
    p.ranks = 8;
    p.root = 8;
    expect_failure(t, &p, &o, TUTTI_ERR_RANGE, "root 8");
    p.root = 7;
    p.count = UINT64_MAX / 2;
    expect_failure(t, &p, &o, TUTTI_ERR_RANGE, "bytes");
    p.count = 100;
    p.dtype = TUTTI_DTYPE_COUNT;
    expect_failure(t, &p, &o, TUTTI_ERR_ARG, "data type");
    p.dtype = TUTTI_F32;
    o.algo = "rnig";
    expect_failure(t, &p, &o, TUTTI_ERR_ARG, "ring");
    o.algo = "bucket";
    expect_failure(t, &p, &o, TUTTI_ERR_REFUSED, "bucket");
    o.algo = "auto";
    add_option(&o, "direction=both");
    expect_failure(t, &p, &o, TUTTI_ERR_ARG, "direction");
    o.algo_options.n = 0;
    add_option(&o, "segments=0");
    assert_int_not_equal(tt_plan_make(t, &p, &o, NULL, &(struct tt_plan *){0}, NULL), TUTTI_OK);
    tt_topo_free(t);
}

/* ---- budget ---- */

/* A time that 64 bits cannot hold is a refusal of that candidate, not of the question. */
static void too_long_is_refused(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Mbps");
    struct tt_plan_options o = {0};
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, UINT64_C(1) << 38, &o); /* 1 TiB: 1.54e19 ps at best */

    assert_string_equal(plan->algo->name, "halving-doubling"); /* as fast as direct here, with fewer messages */
    assert_true(candidate(plan, "oneshot")->refused && !candidate(plan, "oneshot")->skipped);
    assert_non_null(strstr(candidate(plan, "oneshot")->why, "exceeds 2^64 picoseconds"));
    assert_false(candidate(plan, "ring")->refused);
    tt_plan_free(plan);
    o.algo = "oneshot";
    struct tt_problem p = {.coll = TUTTI_ALLREDUCE, .ranks = 8, .count = UINT64_C(1) << 38, .dtype = TUTTI_F32};
    expect_failure(t, &p, &o, TUTTI_ERR_RANGE, "exceeds 2^64 picoseconds");
    tt_topo_free(t);
}

static void budget_skips_by_count(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:16x16");
    struct tt_plan_options small = {.budget_ms = 5, .flow_ms = TT_PLAN_NO_FLOW}, ample = {.budget_ms = 100000, .flow_ms = TT_PLAN_NO_FLOW};
    struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, 1u << 20, &small), *all = make_plan(t, TUTTI_ALLREDUCE, 1u << 20, &ample);
    size_t skipped = 0, priced = 0, unsearched = 0, late = 0; /* late: would fit alone, but the cheaper ones have used the budget */

    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i], *full = &all->candidates[i];
        assert_int_equal(c->refused, full->refused);
        assert_false(full->skipped);
        if (c->refused)
            continue;
        skipped += c->skipped;
        priced += !c->skipped;
        late += c->skipped && strstr(c->why, "exceed what is left of the planning budget") != NULL;
        if (c->skipped)
            assert_non_null(strstr(c->why, "planning budget of 5 ms"));
        else if (strstr(c->why, "; one segment: about "))
            unsearched += c->cost.time_ps >= full->cost.time_ps;
        else
            assert_int_equal(c->cost.time_ps, full->cost.time_ps);
    }
    assert_true(skipped > late && late > 0 && priced > unsearched && unsearched > 0);
    assert_true(candidate(plan, "ring")->skipped); /* 256 ranks with 510 sends each */
    assert_int_equal(strncmp(candidate(plan, "ring")->why, "not priced: about ", 18), 0);
    assert_true(all->cost.time_ps <= plan->cost.time_ps);
    tt_plan_free(plan);
    tt_plan_free(all);
    tt_topo_free(t);
}

static void nothing_left_lists_the_reasons(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:64x64");
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 1u << 20);
    struct tt_plan_options o = {.budget_ms = 1};

    expect_failure(t, &p, &o, TUTTI_ERR_BUDGET, "beyond the planning budget of 1 ms: ring, ");
    tt_topo_free(t);
}

/* ---- cache ---- */

static struct tt_plan *ask(const struct tt_topo *t, const struct tt_problem *p, const struct tt_plan_options *o, struct tt_plan_cache *c)
{
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;

    if (tt_plan_make(t, p, o, c, &plan, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return plan;
}

static bool answered_from_cache(const struct tt_topo *t, const struct tt_problem *p, const struct tt_plan_options *o,
                                struct tt_plan_cache *c)
{
    struct tt_plan *plan = ask(t, p, o, c);
    bool known = plan->from_cache;

    tt_plan_free(plan);
    return known;
}

static void cache_answers_the_same_question(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_plan_cache *c = tt_plan_cache_make();
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 12345);
    struct tt_plan_options o = {0};
    struct tt_plan *first = ask(t, &p, &o, c), *again = ask(t, &p, &o, c);

    assert_false(first->from_cache);
    assert_true(again->from_cache);
    assert_ptr_equal(first->algo, again->algo);
    assert_memory_equal(&first->cost, &again->cost, sizeof(first->cost));
    assert_int_equal(first->winner, again->winner);
    assert_ptr_not_equal(first->candidates, again->candidates);
    assert_memory_equal(first->candidates, again->candidates, first->ncandidates * sizeof(*first->candidates));
    assert_int_equal(first->bounds.time_ps, again->bounds.time_ps);
    for (size_t k = 0; k < TT_BOUND_KINDS; k++)
        if (first->bounds.item[k].side)
            assert_memory_equal(first->bounds.item[k].side, again->bounds.item[k].side, t->ranks + t->switches);
    tt_plan_free(first);
    tt_plan_cache_free(c); /* plans outlive the cache */
    check_schedule(t, again);
    tt_plan_free(again);
    tt_topo_free(t);
}

static void cache_tells_questions_apart(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us"), *faster = topo_of("star:8@10Gbps,50us");
    struct tt_plan_cache *c = tt_plan_cache_make();
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 12345), q = p;
    struct tt_plan_options o = {0}, other = {.algo = "auto"};

    assert_false(answered_from_cache(t, &p, &o, c));
    assert_true(answered_from_cache(t, &p, &other, c)); /* NULL is auto */
    assert_false(answered_from_cache(faster, &p, &o, c));
    q.count++;
    assert_false(answered_from_cache(t, &q, &o, c));
    q = p;
    q.coll = TUTTI_REDUCE;
    assert_false(answered_from_cache(t, &q, &o, c));
    q.root = 3;
    assert_false(answered_from_cache(t, &q, &o, c));
    q = p;
    q.dtype = TUTTI_F64;
    assert_false(answered_from_cache(t, &q, &o, c));
    q = p;
    q.redop = TUTTI_MAX;
    assert_false(answered_from_cache(t, &q, &o, c));
    other.algo = "ring";
    assert_false(answered_from_cache(t, &p, &other, c));
    add_option(&other, "segments=2");
    assert_false(answered_from_cache(t, &p, &other, c));
    other = (struct tt_plan_options){.reproducible = true};
    assert_false(answered_from_cache(t, &p, &other, c));
    other = (struct tt_plan_options){.budget_ms = 7};
    assert_false(answered_from_cache(t, &p, &other, c));
    assert_true(answered_from_cache(t, &p, &o, c));
    tt_plan_cache_free(c);
    tt_topo_free(t);
    tt_topo_free(faster);
}

/* More questions than the cache holds: old answers go, new ones are right. */
static void cache_is_bounded(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:2");
    struct tt_plan_cache *c = tt_plan_cache_make();
    struct tt_plan_options o = {.algo = "ring"};
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 0);

    for (uint64_t count = 1; count <= 5000; count++) {
        p.count = count;
        assert_false(answered_from_cache(t, &p, &o, c));
    }
    assert_true(answered_from_cache(t, &p, &o, c));
    p.count = 1;
    assert_false(answered_from_cache(t, &p, &o, c));
    tt_plan_cache_free(c);
    tt_topo_free(t);
}

/* ---- envelope ---- */

static void envelope_joins_equal_winners(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8@1Gbps,50us");
    struct tt_problem p = problem_of(t, TUTTI_ALLREDUCE, 0);
    struct tt_plan_options o = {0};
    struct tt_envelope_piece *pieces = NULL;
    struct tutti_error err = {0};
    size_t n = 0, i = 0;

    assert_int_equal(tt_plan_envelope(t, &p, &o, 8, (64u << 20) + 1, &pieces, &n, &err), TUTTI_OK);
    assert_true(n >= 2);
    assert_int_equal(pieces[0].from_bytes, 8);
    assert_int_equal(pieces[n - 1].to_bytes, 64u << 20);
    for (uint64_t size = 8; size <= 64u << 20; size *= 2) {
        struct tt_plan *plan = make_plan(t, TUTTI_ALLREDUCE, size / 4, &o);
        if (size > pieces[i].to_bytes) {
            i++;
            assert_int_equal(pieces[i].from_bytes, size);
            assert_ptr_not_equal(pieces[i].algo, pieces[i - 1].algo);
        }
        assert_ptr_equal(plan->algo, pieces[i].algo);
        if (size == pieces[i].from_bytes)
            assert_int_equal(plan->cost.time_ps, pieces[i].from_ps);
        if (size == pieces[i].to_bytes)
            assert_int_equal(plan->cost.time_ps, pieces[i].to_ps);
        tt_plan_free(plan);
    }
    assert_int_equal(i, n - 1);
    free(pieces);
    assert_int_equal(tt_plan_envelope(t, &p, &o, 0, 64, &pieces, &n, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_plan_envelope(t, &p, &o, 6, 64, &pieces, &n, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_plan_envelope(t, &p, &o, 64, 8, &pieces, &n, &err), TUTTI_ERR_RANGE);
    tt_topo_free(t);
}

static void frees_accept_null(void **state)
{
    (void)state;
    tt_plan_free(NULL);
    tt_plan_cache_free(NULL);
    tt_plan_tuning_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_price_is_the_closed_form),
        cmocka_unit_test(flow_decides),
        cmocka_unit_test(flow_is_counted),
        cmocka_unit_test(ties_are_of_one_level),
        cmocka_unit_test(auto_is_never_beaten),
        cmocka_unit_test(segments_are_found_for_all),
        cmocka_unit_test(endless_prices_are_refused),
        cmocka_unit_test(every_collective_is_planned),
        cmocka_unit_test(one_rank_and_no_elements),
        cmocka_unit_test(symmetry_prices_large_networks),
        cmocka_unit_test(upper_bounds_say_so),
        cmocka_unit_test(prices_and_counts_are_those_of_the_schedule),
        cmocka_unit_test(counts_without_building),
        cmocka_unit_test(why_names_what_decides),
        cmocka_unit_test(segments_are_honoured),
        cmocka_unit_test(pipelines_get_their_segments),
        cmocka_unit_test(reproducible_needs_rank_order),
        cmocka_unit_test(bad_questions_are_refused),
        cmocka_unit_test(budget_skips_by_count),
        cmocka_unit_test(too_long_is_refused),
        cmocka_unit_test(nothing_left_lists_the_reasons),
        cmocka_unit_test(cache_answers_the_same_question),
        cmocka_unit_test(cache_tells_questions_apart),
        cmocka_unit_test(cache_is_bounded),
        cmocka_unit_test(envelope_joins_equal_winners),
        cmocka_unit_test(frees_accept_null),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
