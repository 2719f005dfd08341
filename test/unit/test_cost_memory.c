/* test_cost_memory.c - a host's memory as a topology: times between points, its file, what schedules cost in it, what the planner takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "plan/plan.h"
#include "topo/topo.h"

/* Ranks around a memory; times in ps. */
static struct tt_topo *host(uint32_t ranks)
{
    static const struct tt_memory memory = {.npoints = 4,
                                            .box_bytes = 65536,
                                            .segment_bytes = 131072,
                                            .point = {{8, 2000000, 1900000, 500000},
                                                      {65536, 12000000, 6000000, 20000000},
                                                      {1048576, 202000000, 92000000, 0},
                                                      {16777216, 3602000000, 1802000000, 0}}};
    struct tt_topo *t;
    struct tutti_error err;
    assert_int_equal(tt_topo_new("custom", ranks, 1, &t, &err), TUTTI_OK);
    for (uint32_t r = 0; r < ranks; r++) {
        struct tt_link link = {.a = r, .b = ranks, .bw = {1e10, 1e10}, .latency_ps = 100000};
        assert_int_equal(tt_topo_add_link(t, &link, &err), TUTTI_OK);
    }
    t->memory = memory;
    t->gamma = 1e-11;
    assert_int_equal(tt_topo_finish(t, &t, &err), TUTTI_OK);
    return t;
}

static void test_times(void **state)
{
    struct tt_topo *t = host(4);
    const struct tt_memory *m = &t->memory;
    (void)state;
    assert_int_equal(tt_topo_memory_time(m, TT_MEMORY_MOVE, 0), 2000000);
    assert_int_equal(tt_topo_memory_time(m, TT_MEMORY_MOVE, 65536), 12000000);
    assert_int_equal(tt_topo_memory_time(m, TT_MEMORY_OWN, 1048576), 92000000);
    assert_int_equal(tt_topo_memory_time(m, TT_MEMORY_MOVE, (65536 + 1048576) / 2), 107000000);          /* half way */
    assert_int_equal(tt_topo_memory_time(m, TT_MEMORY_MOVE, 16777216 + 15728640), UINT64_C(7002000000)); /* beyond: the last slope */
    tt_topo_free(t);
}

static char *text_of(const struct tt_topo *t, size_t *ret_n)
{
    char *text = NULL;
    struct tutti_error err;
    FILE *out = open_memstream(&text, ret_n);
    assert_int_equal(tt_topo_write(t, out, &err), TUTTI_OK);
    fclose(out);
    return text;
}

static tutti_status read_changed(const char *text, const char *from, const char *to)
{
    char changed[8192];
    const char *at = strstr(text, from);
    struct tt_topo *t = NULL;
    struct tutti_error err;
    if (!at)
        fail_msg("%s is not in %s", from, text);
    int n = snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
    assert_true(n > 0 && (size_t)n < sizeof changed);
    tutti_status st = tt_topo_read_memory(changed, (size_t)n, "test", &t, &err);
    if (!st)
        tt_topo_free(t);
    return st;
}

static void test_file(void **state)
{
    struct tt_topo *t = host(4), *back;
    struct tutti_error err;
    size_t n, again;
    char *text = text_of(t, &n), *second;
    (void)state;
    assert_int_equal(tt_topo_read_memory(text, n, "test", &back, &err), TUTTI_OK);
    assert_true(back->hash == t->hash);
    second = text_of(back, &again);
    assert_true(n == again && !memcmp(text, second, n));
    back->memory.point[1].own_ps++;
    struct tt_topo *other = host(4);
    other->memory = back->memory;
    struct tt_topo_diff diff;
    assert_true(tt_topo_cables_hash(other) != tt_topo_cables_hash(t));
    assert_int_equal(tt_topo_compare(t, other, &diff, &err), TUTTI_OK);
    assert_true(diff.differs);
    assert_int_equal(read_changed(text, "\"box_bytes\"", "\"boxes\""), TUTTI_ERR_PARSE);
    assert_int_equal(read_changed(text, "1048576", "9"), TUTTI_ERR_RANGE);  /* sizes must rise */
    assert_int_equal(read_changed(text, "12000000", "0"), TUTTI_ERR_RANGE); /* no time at all */
    assert_int_not_equal(read_changed(text, "92000000,", ""), TUTTI_OK);    /* a figure is missing */
    free(text);
    free(second);
    tt_topo_free(other);
    tt_topo_free(back);
    tt_topo_free(t);
}

static struct tt_plan *plan_of(const struct tt_topo *t, const char *algo, tutti_coll coll, uint64_t bytes)
{
    struct tt_problem p = {.coll = coll, .ranks = t->ranks, .count = bytes / 4, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
    struct tt_plan *plan;
    struct tutti_error err;
    assert_int_equal(tt_plan_make(t, &p, &(struct tt_plan_options){.algo = algo}, NULL, &plan, &err), TUTTI_OK);
    return plan;
}

static uint64_t segments_of(const struct tt_plan *p)
{
    return tt_algo_option_number(p->algo, &p->options, "segments", 1);
}

static bool near(uint64_t a, uint64_t b)
{
    return a <= b + b / 100 && b <= a + a / 100;
}

/* What was measured is what is predicted: `direct` at its points, boxes, half of it for one step; segments follow from the length. */
static void test_cost(void **state)
{
    struct tt_topo *t = host(4);
    (void)state;
    struct tt_plan *p = plan_of(t, "direct", TUTTI_ALLREDUCE, 1 << 20);
    assert_true(near(p->cost.time_ps, 202000000));
    assert_true(near(tt_cost_own_memory(&p->cost, t, 1 << 20), 92000000));
    assert_int_equal(segments_of(p), 4); /* a row: four places of 64 KiB in a round of two segments of 128 KiB */
    tt_plan_free(p);
    p = plan_of(t, "direct", TUTTI_REDUCE_SCATTER, 1 << 20);
    assert_true(near(p->cost.time_ps, 101000000));
    tt_plan_free(p);
    p = plan_of(t, "oneshot", TUTTI_ALLREDUCE, 65536);
    assert_int_equal(p->cost.time_ps, 20000000);
    assert_int_equal(segments_of(p), 1);
    tt_plan_free(p);
    p = plan_of(t, "direct", TUTTI_REDUCE_SCATTER, 65536); /* a box in which each rank reads S, not n S */
    assert_int_equal(p->cost.time_ps, tt_topo_memory_time(&t->memory, TT_MEMORY_BOX, 2 * 65536 / 5 + 1));
    tt_plan_free(p);
    p = plan_of(t, "ring", TUTTI_ALLREDUCE, 1 << 20); /* as many bytes, more steps */
    assert_true(p->cost.time_ps > 202000000 && p->cost.latency_ps == 6 * 1000000);
    tt_plan_free(p);
    tt_topo_free(t);
}

/* Boxes for short vectors, `direct` beyond; the bound is never above the plan. */
static void test_choice(void **state)
{
    struct tt_topo *t = host(4);
    (void)state;
    for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 2) {
        struct tt_plan *p = plan_of(t, NULL, TUTTI_ALLREDUCE, bytes);
        assert_true(p->bounds.time_ps <= p->cost.time_ps);
        assert_true(p->algo->rank_order);
        if (bytes <= 4096)
            assert_string_equal(p->algo->name, "oneshot");
        if (bytes > 65536)
            assert_string_equal(p->algo->name, "direct");
        tt_plan_free(p);
    }
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_cost),
        cmocka_unit_test(test_choice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
