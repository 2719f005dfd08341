/* test_bound_algos.c - no schedule is faster than a bound: every algorithm, every collective it offers, on many networks, for sizes down
 * to nothing. Where it fails either the schedule cheats, the cost is too low, or the bound is wrong. */
#include "support.h"

#include "bound/bound.h"
#include "cost/cost.h"

static const char *const specs[] = {
    "star:2@1GB/s,3us",
    "star:3,ports=1@1GB/s,3us",
    "star:8@1Gbps,50us",
    "star:7@10Gbps,20us",
    "star:17,ports=2",
    "star:33@10Gbps,0",
    "star:6@1GB/s,1us,0,half",
    "nics:10G,10G,10G,2.5G",
    "star:6,overhead=3us@10Gbps,1us,500ps",
    "nics:1G,10G,10G,10G,10G,overhead=1us@10Gbps,0,2ns",
    "torus:3x3,overhead=200ns,ports=1@1GB/s,1us,1ns",
    "nics:1G,10G,10G,10G,10G,10G,10G",
    "ring:2",
    "ring:5@1GB/s,0",
    "ring:12@1GB/s,1us,0,half",
    "full:6@1GB/s,0",
    "full:5,ports=1@1GB/s,1us",
    "torus:4x4@16GB/s,150ns",
    "torus:3x2x2,ports=2",
    "mesh:3x5@1GB/s,0",
    "hypercube:16",
    "fattree:4,2@10Gbps,0",
    "fattree:2,3,over=2",
    "bigraph:2x4",
    "dragonfly:3,2,2",
    "dln:13,t=2",
    "dln2d:4x4,t=1",
    "tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps",
    "tree:((2 2:2.5G) (3 1))@10Gbps/0.5Gbps/1Gbps",
};

static struct tt_plan_cache *cache;

static int setup(void **state)
{
    (void)state;
    cache = tt_plan_cache_of_schedules();
    return cache ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tt_plan_cache_free(cache);
    return 0;
}

static void check_one(const struct tt_algo *al, const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t count)
{
    struct tt_algo_args a = {.problem = {coll, t->ranks, root, count, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
    struct tutti_error err = {0};
    struct tt_sched *s;
    struct tt_bounds b;
    if (tt_algo_probe(al, &a, &err) != TUTTI_OK)
        return;
    s = cached_of(al, &a, cache);
    assert_int_equal(tt_bound_make(t, coll, root, count * 4, &b, &err), TUTTI_OK);
    for (uint32_t k = 1; k <= 16; k *= 4) {
        struct tt_cost c;
        s->shape.segments = k;
        assert_int_equal(tt_cost_sched(s, t, count, TUTTI_F32, &c, &err), TUTTI_OK);
        if (c.time_ps < b.time_ps)
            fail_msg("%s %s of %llu elements on %s, root %u, %u segments: %llu ps, bound %llu ps: %s", al->name, tt_sched_coll_name(coll),
                     (unsigned long long)count, t->spec, root, k, (unsigned long long)c.time_ps, (unsigned long long)b.time_ps,
                     b.item[b.best].text);
    }
    tt_bound_free(&b);
    tt_sched_free(s);
}

static void test_never_faster(void **state)
{
    (void)state;
    size_t nalgos;
    const struct tt_algo *const *algos = tt_algo_table(&nalgos);
    for (size_t i = 0; i < countof(specs); i++) {
        struct tutti_error err = {0};
        struct tt_topo *t = NULL;
        if (tt_topo_parse(specs[i], &t, &err) != TUTTI_OK)
            fail_msg("%s: %s", specs[i], err.text);
        uint64_t counts[] = {0, 1, t->ranks - 1, t->ranks, t->ranks + 1, 333, 100003, 1 << 22};
        for (size_t a = 0; a < nalgos; a++)
            for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++)
                for (size_t j = 0; j < countof(counts); j++)
                    check_one(algos[a], t, (tutti_coll)coll, j % 2 ? t->ranks - 1 : 0, counts[j]);
        tt_topo_free(t);
    }
}

static void test_rank_counts(void **state)
{
    (void)state;
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33, 101};
    static const char *const forms[] = {"star:%u@10Gbps,0", "star:%u,ports=1@10Gbps,5us"};
    size_t nalgos;
    const struct tt_algo *const *algos = tt_algo_table(&nalgos);
    for (size_t i = 0; i < countof(ranks) * countof(forms); i++) {
        uint32_t p = ranks[i / countof(forms)];
        char spec[64];
        struct tt_topo *t;
        snprintf(spec, sizeof(spec), forms[i % countof(forms)], p);
        assert_int_equal(tt_topo_parse(spec, &t, NULL), TUTTI_OK);
        uint64_t counts[] = {0, 1, p - 1, p, p + 1, 64 * p + 7, 1 << 20};
        for (size_t a = 0; a < nalgos; a++)
            for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++)
                for (size_t j = 0; j < countof(counts); j++)
                    check_one(algos[a], t, (tutti_coll)coll, p / 2, counts[j]);
        tt_topo_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_faster), cmocka_unit_test(test_rank_counts)};
    return cmocka_run_group_tests(tests, setup, teardown);
}
