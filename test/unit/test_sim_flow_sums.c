/* test_sim_flow_sums.c - the order in which a rank adds what waits (sim/flow_sum.c).
 *
 *     rank 0 ---- fast ---- rank 1 ---- slow ---- rank 2
 *
 * Rank 1 adds four short messages of rank 0, which all wait from the start, and a long one of rank 2 that comes later. */
#include "sim_flow_case.h"

enum { SHORT = 6400, ALL = 6 * SHORT }; /* bytes; the long message has two such lengths */

/* Rank 0 sends chunks 0 to 3, rank 2 chunk `late` in step `step`. */
static struct tt_sched *sums_sched(uint32_t late, uint32_t step)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 3, .chunks = 5, .nbufs = 2, .segments = 1, .dtype = TUTTI_I8};
    struct tutti_error err = {0};
    struct tt_builder b;
    struct tt_sched *s = NULL;
    shape.weights = tt_alloc(5, sizeof *shape.weights);
    memcpy(shape.weights, (uint32_t[]){late == 0 ? 2 : 1, 1, 1, 1, late == 0 ? 1 : 2}, 5 * sizeof *shape.weights);
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        tt_sched_build_rank(&b, rank);
        for (uint32_t k = 0; k < 4; k++) {
            const struct tt_span in = tt_sched_span_range(TT_BUF_IN, k, 1), from = tt_sched_span_range(TT_BUF_IN, late, 1);
            struct tt_span out = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, k, 1), to = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, late, 1);
            if (step && late == 0) /* what it adds to is what step 0 left */
                to.src = TT_BUF_OUT;
            if (rank == 0)
                tt_sched_emit_send(&b, k, 1, 0, &in, 1);
            if (rank == 2 && k == step)
                tt_sched_emit_send(&b, k, 1, 0, &from, 1);
            if (rank == 1)
                tt_sched_emit_recv_reduce(&b, k, 0, 0, &out, 1);
            if (rank == 1 && k == step)
                tt_sched_emit_recv_reduce(&b, k, 2, 0, &to, 1);
        }
    }
    if (tt_sched_build_freeze(&b, &s, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return s;
}

/* One nanosecond a byte to add; the message of rank 2 arrives at `late_us`. Which addition, counted from 0, is the long one, of
 * those after the first `skip`? */
static size_t long_one(struct tt_sched *s, double late_us, size_t skip)
{
    struct tt_topo *t = sim_line(3, (double[]){1e11, 2 * SHORT / (late_us * 1e-6)}, (uint64_t[]){0, 0}, false);
    t->gamma = 1e-9;
    struct tt_sim_report *r = sim_run(s, t, ALL, &(struct tt_sim_options){.timeline = true});
    size_t at = skip;
    assert_int_equal(r->nwork, 5);
    while (at < r->nwork && r->work[at].bytes == SHORT)
        at++;
    for (size_t i = 1; i < r->nwork; i++)
        assert_int_equal(r->work[i].start_ps, r->work[i - 1].end_ps); /* the host never rests */
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
    return at;
}

/* Streams take turns: the long message waits for the addition under way and for one more of the other stream, not for all that came
 * before it. */
static void test_turns(void **state)
{
    (void)state;
    assert_int_equal(long_one(sums_sched(4, 0), 1, 0), 2);
    assert_int_equal(long_one(sums_sched(4, 0), 8, 0), 3);
    assert_int_equal(long_one(sums_sched(4, 0), 20, 0), 4);
}

/* Both ranks add to chunk 0, so the message of rank 2 waits for the first addition, which is as long; what an addition made possible
 * comes before all that other ranks have sent. */
static void test_made_possible(void **state)
{
    (void)state;
    assert_int_equal(long_one(sums_sched(0, 1), 3, 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_turns), cmocka_unit_test(test_made_possible)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
