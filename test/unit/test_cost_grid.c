/* Prices on tori from rank 0 alone, against those of all ranks; and the planner on tori that are too large to build. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "plan/plan.h"
#include "topo_spec.h"

static struct tt_algo_args args_for(const struct tt_topo *t, tutti_coll coll, uint64_t count)
{
    return (struct tt_algo_args){.problem = {.coll = coll, .ranks = t->ranks, .count = count, .dtype = TUTTI_F32}, .topo = t};
}

static bool same(const struct tt_cost *a, const struct tt_cost *b)
{
    return a->time_ps == b->time_ps && a->latency_ps == b->latency_ps && a->transfer_ps == b->transfer_ps && a->reduce_ps == b->reduce_ps &&
           a->overhead_ps == b->overhead_ps && a->steps == b->steps && a->busiest_link == b->busiest_link &&
           a->busiest_bytes == b->busiest_bytes && a->max_link_contention == b->max_link_contention;
}

/* Everything is the same; an upper bound where it says so. */
static void compare(const struct tt_cost *one, const struct tt_cost *whole, const char *where)
{
    assert_true(one->by_symmetry && !whole->by_symmetry && whole->exact);
    if (one->exact ? !same(one, whole) : one->time_ps < whole->time_ps || one->busiest_bytes < whole->busiest_bytes)
        fail_msg("%s: %llu ps by symmetry (exact %d), %llu ps of all ranks", where, (unsigned long long)one->time_ps, one->exact,
                 (unsigned long long)whole->time_ps);
    assert_int_equal(one->messages, whole->messages);
    assert_int_equal(one->bytes, whole->bytes);
}

static void try(const struct tt_topo *t, tutti_coll coll, uint64_t count, size_t *exact)
{
    struct tt_algo_args a = args_for(t, coll, count);
    struct tt_sched *all, *first;
    struct tt_cost whole, one;
    struct tutti_error err = {0};
    const uint32_t segments[] = {1, 3, 16};
    assert_int_equal(tt_algo_build(tt_algo_find("bucket"), &a, &all, &err), TUTTI_OK);
    assert_int_equal(tt_algo_slice(tt_algo_find("bucket"), &a, 0, 1, &first, &err), TUTTI_OK);
    for (size_t i = 0; i < countof(segments); i++) {
        all->shape.segments = first->shape.segments = segments[i];
        assert_int_equal(tt_cost_sched(all, t, count, TUTTI_F32, &whole, &err), TUTTI_OK);
        if (tt_cost_symmetric(first, t, count, TUTTI_F32, &one, &err))
            fail_msg("%s: %s", t->spec, err.text);
        compare(&one, &whole, t->spec);
        *exact += one.exact;
    }
    tt_sched_free(all);
    tt_sched_free(first);
}

static void rank0_stands_for_all(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "torus:8x8",   "torus:5x7@1GB/s,3us,100ps", "torus:4x2x3@10Gbps,1us,200ps", "torus:2x2x2",         "hypercube:16",
        "torus:3x1x4", "torus:6x4,ports=2",         "torus:4x4,overhead=300ns",     "torus:9@10Gbps,500ns"};
    size_t exact = 0;
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        const uint64_t counts[] = {UINT64_C(16) * 2 * t->ranks * 2 * t->ndims, 0, 1, t->ranks + 1, 250000, 1 << 20};
        assert_true(t->toroidal);
        for (size_t k = 0; k < countof(counts); k++) {
            try(t, TUTTI_ALLREDUCE, counts[k], &exact);
            try(t, TUTTI_REDUCE_SCATTER, counts[k], &exact);
            try(t, TUTTI_ALL_GATHER, counts[k], &exact);
        }
        tt_topo_free(t);
    }
    assert_true(exact >= countof(specs) * 3 * 3);
}

/* Not every grid looks the same from everywhere, and not every schedule is shifted. */
static void others_are_refused(void **state)
{
    (void)state;
    struct tutti_error err;
    struct tt_cost c;
    struct tt_sched *s;
    static const char *const specs[] = {"torus:4x4@10Gbps,1us,half", "mesh:2x2", "dln2d:8x8,t=2", "mesh:4x4", "torus:4x4"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        assert_int_equal(t->toroidal, tt_streq(specs[i], "mesh:2x2") || tt_streq(specs[i], "torus:4x4"));
        tt_topo_free(t);
    }
    struct tt_topo *t = topo_of("torus:4x4"), *half = topo_of("torus:4x4@10Gbps,1us,half");
    struct tt_algo_args a = args_for(t, TUTTI_ALLREDUCE, 4096);
    assert_int_equal(tt_algo_slice(tt_algo_find("bucket"), &a, 0, 1, &s, NULL), TUTTI_OK);
    assert_int_equal(tt_cost_symmetric(s, half, 4096, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    tt_sched_free(s);
    tt_algo_options_add(&a.options, "variant=paper", NULL);
    assert_int_equal(tt_algo_slice(tt_algo_find("bucket"), &a, 0, 1, &s, NULL), TUTTI_OK);
    assert_int_equal(tt_cost_symmetric(s, t, 4096, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    tt_sched_free(s);
    tt_topo_free(t);
    tt_topo_free(half);
}

/* Large tori get the algorithm that was made for them, within the usual budget. */
static void large_tori_are_planned(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:64x64", "torus:128x128", "torus:32x64", "torus:16x16x16"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_problem p = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = 64 << 20, .dtype = TUTTI_F32};
        struct tt_plan *plan;
        struct tutti_error err = {0};
        if (tt_plan_make(t, &p, &(struct tt_plan_options){.flow_ms = TT_PLAN_NO_FLOW}, NULL, &plan, &err))
            fail_msg("%s: %s", specs[i], err.text);
        if (!tt_streq(plan->algo->name, "bucket") || plan->ratio_to_bound > 1.15)
            fail_msg("%s: %s at %g times the bound", specs[i], plan->algo->name, plan->ratio_to_bound);
        tt_plan_free(plan);
        tt_topo_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rank0_stands_for_all),
        cmocka_unit_test(others_are_refused),
        cmocka_unit_test(large_tori_are_planned),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
