/* test_plan_built.c - plans own what synthesised algorithms built: priced, counted and handed out without building it again, shared between
 * sizes by the cache, and equal in every bit to what the algorithm builds for the plan's own problem and options. */
#include "support.h"

#include <pthread.h>
#include <stdio.h>

#include "plan/plan_int.h"

static const char *const synthesisers[] = {"multitree", "forest", "flex"};

static struct tt_plan *plan_of(const struct tt_topo *t, tutti_coll coll, uint64_t count, const struct tt_plan_options *o,
                               struct tt_plan_cache *c)
{
    struct tt_problem p = {.coll = coll, .ranks = t->ranks, .count = count, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
    struct tt_plan *plan = NULL;
    struct tutti_error err;
    if (tt_plan_make(t, &p, o, c, &plan, &err) != TUTTI_OK)
        fail_msg("%s: %s", t->spec, err.text);
    return plan;
}

/* The plan's schedule is what the algorithm builds from scratch, and costs what the plan says. */
static void expect_own(const struct tt_topo *t, const struct tt_plan *plan)
{
    struct tt_algo_args a = {.problem = plan->problem, .topo = t, .options = plan->options};
    struct tt_sched *fresh = build_of(plan->algo, &a), *s = NULL;
    struct tt_cost cost;
    uint64_t ops;
    uint32_t chunks;
    assert_int_equal(tt_plan_schedule(plan, t, &s, NULL), TUTTI_OK);
    if (!tt_sched_equal(s, fresh))
        fail_msg("%s %s: not the schedule of %s", t->spec, plan->algo->name, fresh->shape.options);
    assert_int_equal(s->hash, fresh->hash);
    assert_int_equal(tt_cost_sched(s, t, plan->problem.count, plan->problem.dtype, &cost, NULL), TUTTI_OK);
    assert_int_equal(cost.time_ps, plan->cost.time_ps);
    assert_int_equal(tt_plan_count(plan, t, &ops, &chunks, NULL), TUTTI_OK);
    assert_int_equal(ops, fresh->nops);
    assert_int_equal(chunks, fresh->shape.chunks);
    tt_sched_free(fresh);
    tt_sched_free(s);
}

/* With and without a cache, several sizes, types and numbers of segments from one built schedule. */
static void every_size_has_its_own_schedule(void **state)
{
    (void)state;
    static const char *const specs[] = {"star:1", "star:5@1Gbps,5us", "tree:((2 2)(1 3))@100Gbps/25Gbps/10Gbps"};
    static const tutti_coll colls[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER};
    static const uint64_t counts[] = {0, 1, 1009, 1 << 22};
    static const char *const segments[] = {NULL, "segments=1", "segments=6"};
    for (size_t i = 0; i < countof(specs) * countof(synthesisers) * countof(colls); i++) {
        struct tt_topo *t = topo_of(specs[i % countof(specs)]);
        const char *name = synthesisers[i / countof(specs) % countof(synthesisers)];
        struct tt_plan_cache *caches[] = {NULL, tt_plan_cache_of_schedules(), tt_plan_cache_make()};
        for (size_t k = 0; k < countof(counts) * countof(segments) * countof(caches); k++) {
            struct tt_plan_options o = {.algo = name};
            const char *K = segments[k / countof(counts) % countof(segments)];
            if (K)
                assert_int_equal(tt_algo_options_add(&o.algo_options, K, NULL), TUTTI_OK);
            struct tt_plan *plan = plan_of(t, colls[i / countof(specs) / countof(synthesisers)], counts[k % countof(counts)], &o,
                                           caches[k / countof(counts) / countof(segments)]);
            assert_non_null(plan->built.sched);
            expect_own(t, plan);
            tt_plan_free(plan);
        }
        for (size_t c = 0; c < countof(caches); c++)
            tt_plan_cache_free(caches[c]);
        tt_topo_free(t);
    }
}

/* What is handed out is the plan's, operation by operation, and outlives plan and cache. */
static void handed_out_not_built_again(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:4x4"), *other = topo_of("torus:4x4@1Gbps,1us");
    for (size_t i = 0; i < 2; i++) {
        struct tt_plan_cache *c = tt_plan_cache_of_schedules();
        struct tt_plan *plan = plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &(struct tt_plan_options){.algo = synthesisers[i]}, c);
        struct tt_sched *a = NULL, *b = NULL;
        struct tutti_error err;
        assert_int_equal(tt_plan_schedule(plan, t, &a, NULL), TUTTI_OK);
        assert_int_equal(tt_plan_schedule(plan, t, &b, NULL), TUTTI_OK);
        assert_ptr_equal(a->ops, plan->built.sched->ops);
        assert_ptr_equal(b->ops, a->ops);
        assert_int_equal(tt_plan_schedule(plan, other, &b, &err), TUTTI_ERR_MISMATCH);
        expect_says(err.text, "another network");
        tt_plan_free(plan);
        tt_plan_cache_free(c);
        tt_sched_free(a);
        expect_proved(b);
        tt_sched_free(b);
    }
    tt_topo_free(t);
    tt_topo_free(other);
}

/* Plans of other sizes share the operations while the cache has them; another collective, option or network does not. */
static void sizes_share(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:4x4"), *other = topo_of("torus:4x4@1Gbps,1us");
    struct tt_plan_cache *c = tt_plan_cache_of_schedules();
    struct tt_plan_options o = {.algo = "forest"}, few = o;
    assert_int_equal(tt_algo_options_add(&few.algo_options, "trees=3", NULL), TUTTI_OK);
    struct tt_plan *p[] = {
        plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &o, c),
        plan_of(t, TUTTI_ALLREDUCE, 77, &o, c),
        plan_of(t, TUTTI_REDUCE_SCATTER, 1 << 20, &o, c),
        plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &few, c),
        plan_of(other, TUTTI_ALLREDUCE, 1 << 20, &o, c),
        plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &(struct tt_plan_options){.algo = "multitree"}, c),
    };
    assert_ptr_equal(p[0]->built.sched->ops, p[1]->built.sched->ops);
    for (size_t i = 0; i < countof(p); i++) {
        assert_true(i < 2 || p[i]->built.sched->ops != p[0]->built.sched->ops);
        assert_false(p[i]->from_cache);
        assert_int_equal(p[i]->built.report.rate > 0, i != 5);
    }
    assert_true(p[0]->built.report.rate == p[1]->built.report.rate);
    for (size_t i = 0; i < countof(p); i++)
        tt_plan_free(p[i]);
    tt_plan_cache_free(c);
    tt_topo_free(t);
    tt_topo_free(other);
}

/* A remembered plan has its schedule back, or builds it when the cache has forgotten it. */
static void remembered_plans(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:6@1Gbps,5us");
    struct tt_plan_options o = {.algo = "forest"};
    for (size_t i = 0; i < 2; i++) {
        struct tt_plan_cache *c = tt_plan_cache_make();
        struct tt_plan *first = plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &o, c), *again;
        for (unsigned n = 1; i == 1 && n <= 40; n++) { /* more than the cache keeps */
            struct tt_plan_options few = o;
            char text[16];
            snprintf(text, sizeof text, "trees=%u", n);
            assert_int_equal(tt_algo_options_add(&few.algo_options, text, NULL), TUTTI_OK);
            tt_plan_free(plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &few, c));
        }
        again = plan_of(t, TUTTI_ALLREDUCE, 1 << 20, &o, c);
        assert_true(again->from_cache);
        assert_true(again->built.report.rate > 0 && again->built.report.rate == first->built.report.rate);
        if (i == 0)
            assert_ptr_equal(again->built.sched->ops, first->built.sched->ops);
        else
            assert_null(again->built.sched);
        expect_own(t, again);
        tt_plan_free(first);
        tt_plan_free(again);
        tt_plan_cache_free(c);
    }
    tt_topo_free(t);
}

static struct tt_algo_args gather_of(const struct tt_topo *t, tutti_coll coll)
{
    return (struct tt_algo_args){.topo = t, .problem = {.coll = coll, .ranks = t->ranks, .count = 400}};
}

static bool remembered(struct tt_plan_cache *c, const struct tt_algo_args *a)
{
    struct tt_built found;
    bool known = tt_plan_built_find(c, &tt_algo_multitree, a, &found);
    if (known)
        tt_plan_built_free(&found);
    return known;
}

/* Builds through the cache; the bytes of operations and spans. */
static uint64_t built_bytes(struct tt_plan_cache *c, const struct tt_algo_args *a)
{
    struct tt_built b;
    assert_int_equal(tt_plan_build(&tt_algo_multitree, a, c, &b, NULL), TUTTI_OK);
    uint64_t bytes = b.sched->nops * sizeof *b.sched->ops + b.sched->nspans * sizeof *b.sched->spans;
    tt_plan_built_free(&b);
    return bytes;
}

/* 64 MiB of schedules at most: the second drives out the first, what is larger than that is not kept and drives out nothing. */
static void memory_is_bounded(void **state)
{
    (void)state;
    const uint64_t limit = 64 << 20;
    struct tt_topo *t = topo_of("hypercube:512"), *large = topo_of("torus:26x26");
    struct tt_plan_cache *c = tt_plan_cache_of_schedules();
    struct tt_algo_args one = gather_of(t, TUTTI_ALL_GATHER), two = gather_of(t, TUTTI_ALLREDUCE), more = gather_of(large, TUTTI_ALLREDUCE);
    uint64_t first = built_bytes(c, &one);
    assert_true(remembered(c, &one));
    uint64_t second = built_bytes(c, &two);
    assert_true(second < limit && first + second > limit);
    assert_false(remembered(c, &one));
    assert_true(remembered(c, &two));
    assert_true(built_bytes(c, &more) > limit);
    assert_false(remembered(c, &more));
    assert_true(remembered(c, &two));
    tt_plan_cache_free(c);
    tt_topo_free(t);
    tt_topo_free(large);
}

/* The losers of a choice keep nothing, the winner's schedule is the plan's. */
static void only_the_winner_keeps_its_schedule(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("nics:10G,10G,10G,2.5G");
    size_t synthesised = 0;
    for (uint64_t count = 1; count <= 1 << 24; count *= 16) {
        struct tt_plan *plan = plan_of(t, TUTTI_ALLREDUCE, count, &(struct tt_plan_options){0}, NULL);
        for (size_t i = 0; i < plan->ncandidates; i++)
            assert_null(plan->candidates[i].built.sched);
        assert_int_equal(plan->built.sched != NULL, plan->algo->build != NULL);
        synthesised += plan->algo->build != NULL;
        if (plan->algo->build)
            expect_own(t, plan);
        tt_plan_free(plan);
    }
    assert_true(synthesised > 0);
    tt_topo_free(t);
}

struct asker {
    const struct tt_topo *t;
    struct tt_plan_cache *c;
    pthread_t thread;
    uint64_t hash[12];
};

static void *ask(void *ctx)
{
    struct asker *x = ctx;
    for (size_t i = 0; i < countof(x->hash); i++) {
        struct tt_problem p = {.coll = TUTTI_ALLREDUCE, .ranks = x->t->ranks, .count = 1000 + i % 3, .dtype = TUTTI_F32};
        struct tt_plan_options o = {.algo = synthesisers[i % 2]};
        struct tt_plan *plan = NULL;
        if (tt_plan_make(x->t, &p, &o, x->c, &plan, NULL) == TUTTI_OK && plan->built.sched)
            x->hash[i] = plan->built.sched->hash;
        tt_plan_free(plan);
    }
    return NULL;
}

/* One cache, several threads: all get the same schedules. */
static void threads_agree(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:3x4");
    struct asker x[4];
    struct tt_plan_cache *c = tt_plan_cache_make();
    for (size_t i = 0; i < countof(x); i++) {
        x[i] = (struct asker){.t = t, .c = c};
        assert_int_equal(pthread_create(&x[i].thread, NULL, ask, &x[i]), 0);
    }
    for (size_t i = 0; i < countof(x); i++) {
        assert_int_equal(pthread_join(x[i].thread, NULL), 0);
        assert_memory_equal(x[i].hash, x[0].hash, sizeof x[0].hash);
    }
    for (size_t i = 0; i < countof(x[0].hash); i++)
        assert_int_not_equal(x[0].hash[i], 0);
    assert_int_not_equal(x[0].hash[0], x[0].hash[1]);
    assert_int_not_equal(x[0].hash[0], x[0].hash[2]);
    tt_plan_cache_free(c);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_size_has_its_own_schedule),
        cmocka_unit_test(handed_out_not_built_again),
        cmocka_unit_test(sizes_share),
        cmocka_unit_test(remembered_plans),
        cmocka_unit_test(memory_is_bounded),
        cmocka_unit_test(only_the_winner_keeps_its_schedule),
        cmocka_unit_test(threads_agree),
    };
    setenv("XDG_CACHE_HOME", "/dev/null", 1); /* no files: what is tested here is memory */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
