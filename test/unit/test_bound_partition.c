/* test_bound_partition.c - partition certificates checked by code that shares nothing with src/bound: capacities summed from the links,
 * and on small networks every partition of the ranks with every placement of the switches. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

#include "bound/bound.h"

enum { MOST = 10, NONE = 99 };

/* Capacity of all links out of and into parts: a link between two parts counts for both. */
static double boundary(const struct tt_topo *t, const uint32_t *part)
{
    double sum = 0;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        uint32_t a = part[l->a], b = part[l->b];
        double both = l->half ? l->bw[0] : l->bw[0] + l->bw[1];
        if (a != b)
            sum += both * ((a != NONE) + (b != NONE));
    }
    return sum;
}

/* The certificate: disjoint parts by construction, each with a rank; the division gives the time. */
static void recheck(const struct tt_topo *t, uint64_t bytes, const struct tt_bound *b)
{
    uint32_t n = t->ranks + t->switches, *part = test_malloc(n * sizeof(*part)), seen = 0;
    assert_true(b->applies && b->parts >= 2 && b->parts <= t->ranks);
    for (uint32_t k = 0; k < b->parts; k++)
        for (uint32_t r = 0; r < t->ranks; r++)
            if (b->part[r] == k) {
                seen++;
                break;
            }
    assert_int_equal(seen, b->parts);
    for (uint32_t v = 0; v < n; v++) {
        assert_true(b->part[v] < b->parts || (v >= t->ranks && b->part[v] == UINT32_MAX));
        part[v] = b->part[v] == UINT32_MAX ? NONE : b->part[v];
    }
    double sum = boundary(t, part), time = 4.0 * (b->parts - 1) * (double)bytes / sum * 1e12;
    assert_true(b->bytes == 4.0 * (b->parts - 1) * (double)bytes);
    assert_true(b->capacity >= sum && b->capacity <= sum * (1 + 1e-6));
    assert_true((double)b->time_ps <= time * (1 + 1e-9) && (double)b->time_ps >= time * (1 - 1e-6) - 1);
    test_free(part);
}

/* The largest (k-1)/boundary over all partitions; v is the next vertex to place, k the parts so far. */
static double search(const struct tt_topo *t, uint32_t *part, uint32_t v, uint32_t k)
{
    uint32_t n = t->ranks + t->switches;
    double best = 0;
    if (v == n)
        return k < 2 ? 0 : (k - 1) / boundary(t, part);
    for (uint32_t c = 0; c < (v < t->ranks ? k + 1 : k + 1); c++) {
        part[v] = v >= t->ranks && c == k ? NONE : c;
        double x = search(t, part, v + 1, v < t->ranks && c == k ? k + 1 : k);
        best = x > best ? x : best;
    }
    return best;
}

static void compare(const struct tt_topo *t)
{
    uint32_t part[MOST] = {0};
    uint64_t bytes = 1 << 20;
    struct tt_bounds all;
    struct tutti_error err;
    if (tt_bound_make(t, TUTTI_ALLREDUCE, 0, bytes, &all, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    const struct tt_bound *b = &all.item[TT_BOUND_PARTITION];
    recheck(t, bytes, b);
    assert_true(b->complete);
    double best = 4.0 * (double)bytes * search(t, part, 0, 0) * 1e12;
    if ((double)b->time_ps < best * (1 - 1e-6) - 1 || (double)b->time_ps > best * (1 + 1e-9))
        fail_msg("%s: partition bound %llu ps, brute force %.0f ps", t->kind, (unsigned long long)b->time_ps, best);
    tt_bound_free(&all);
}

static void test_random(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 3);
    for (int round = 0; round < 150; round++) {
        uint32_t ranks = 2 + (uint32_t)tt_rng_below(&rng, 5), switches = (uint32_t)tt_rng_below(&rng, 3), n = ranks + switches;
        struct tt_topo *t = NULL;
        struct tutti_error err;
        assert_int_equal(tt_topo_new("random", ranks, switches, &t, &err), TUTTI_OK);
        for (uint32_t i = 1; i < 2 * n; i++) {
            uint32_t a = i < n ? i : (uint32_t)tt_rng_below(&rng, n), b = (uint32_t)tt_rng_below(&rng, i < n ? i : n);
            double x = 1e6 * (double)(1 + tt_rng_below(&rng, 9)), y = round % 2 ? x : 1e6 * (double)(1 + tt_rng_below(&rng, 9));
            struct tt_link l = {.a = a, .b = b, .bw = {x, y}, .half = round % 3 == 2 && i % 2};
            if (a != b)
                assert_int_equal(tt_topo_add_link(t, &l, &err), TUTTI_OK);
        }
        assert_int_equal(tt_topo_finish(t, &t, &err), TUTTI_OK);
        compare(t);
        tt_topo_free(t);
    }
}

static struct tt_bounds bounds_of(const char *spec, uint64_t bytes, struct tt_topo **ret_t)
{
    struct tutti_error err;
    struct tt_bounds all = {0};
    if (tt_topo_parse(spec, ret_t, &err) != TUTTI_OK || tt_bound_make(*ret_t, TUTTI_ALLREDUCE, 0, bytes, &all, &err) != TUTTI_OK)
        fail_msg("%s: %s", spec, err.text);
    return all;
}

/* Tree-packing numbers of symmetric direct networks: cables / (ranks - 1), and a barbell whose bridge decides. */
static void test_packing_numbers(void **state)
{
    static const struct {
        const char *spec;
        double number; /* of cables, all of 1 GB/s */
        bool tight;
    } golden[] = {{"ring:6@1GB/s", 6.0 / 5, true},  {"torus:4x4@1GB/s", 32.0 / 15, true}, {"hypercube:16@1GB/s", 32.0 / 15, true},
                  {"full:5@1GB/s", 10.0 / 4, true}, {"mesh:3x3@1GB/s", 12.0 / 8, true},   {"star:4@1GB/s", 4.0 / 6, false}};
    (void)state;
    for (size_t i = 0; i < countof(golden); i++) {
        struct tt_topo *t;
        struct tt_bounds all = bounds_of(golden[i].spec, 1000000000, &t);
        const struct tt_bound *b = &all.item[TT_BOUND_PARTITION];
        double number = 1e12 / (double)b->time_ps;
        recheck(t, 1000000000, b);
        if (number > golden[i].number * 1.000001 || number < golden[i].number * 0.999999 || b->tight != golden[i].tight)
            fail_msg("%s: %g, expected %g", golden[i].spec, number, golden[i].number);
        tt_bound_free(&all);
        tt_topo_free(t);
    }
}

/* The star bound: S * max(1 / slowest, 2 (p-1) / sum), and three racks whose uplinks decide together: 2 * 2 S / 3 b. */
static void test_star(void **state)
{
    static const struct {
        const char *spec;
        double seconds; /* for 10^9 bytes */
    } golden[] = {{"nics:4GB/s,4GB/s,4GB/s,1GB/s", 1.0},
                  {"nics:25GB/s,25GB/s,25GB/s,10GB/s", 0.1},
                  {"nics:3GB/s,4GB/s,4GB/s,4GB/s,4GB/s", 8.0 / 19},
                  {"nics:100GB/s,25GB/s,25GB/s,25GB/s", 0.04},
                  {"tree:(4 4 4)@100GB/s/1GB/s", 4.0 / 3}};
    (void)state;
    for (size_t i = 0; i < countof(golden); i++) {
        struct tt_topo *t;
        struct tt_bounds all = bounds_of(golden[i].spec, 1000000000, &t);
        double seconds = (double)all.time_ps * 1e-12;
        if (seconds > golden[i].seconds * 1.000001 || seconds < golden[i].seconds * 0.999999)
            fail_msg("%s: %g s, expected %g", golden[i].spec, seconds, golden[i].seconds);
        recheck(t, 1000000000, &all.item[TT_BOUND_PARTITION]);
        tt_bound_free(&all);
        tt_topo_free(t);
    }
}

static void test_other_collectives(void **state)
{
    struct tt_topo *t;
    struct tt_bounds all = bounds_of("star:4", 1000, &t), gather;
    (void)state;
    assert_int_equal(tt_bound_make(t, TUTTI_ALL_GATHER, 0, 1000, &gather, NULL), TUTTI_OK);
    assert_false(gather.item[TT_BOUND_PARTITION].applies);
    assert_int_equal(gather.item[TT_BOUND_PARTITION].time_ps, 0);
    assert_null(gather.item[TT_BOUND_PARTITION].part);
    tt_bound_free(&gather);
    tt_bound_free(&all);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_packing_numbers), cmocka_unit_test(test_star),
                                       cmocka_unit_test(test_other_collectives)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
