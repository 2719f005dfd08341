/* test_comm_prove.c - the gate before a plan's first use: right schedules pass with all ranks or one rank's slice; a rank whose slice is
 * not its part of the proved whole is stopped, and so is everybody when the whole is wrong. */
#include "support.h"

#include "comm/comm_int.h"

static struct tt_algo_args problem(tutti_coll coll, uint32_t ranks)
{
    return (struct tt_algo_args){.problem = {.coll = coll, .ranks = ranks, .count = 1000}};
}

static void test_right(void **state)
{
    static const char *const names[] = {"ring", "direct", "recursive-doubling", "double-tree"};
    struct tutti_error err;
    (void)state;
    for (size_t i = 0; i < countof(names); i++) {
        struct tt_algo_args a = problem(TUTTI_ALLREDUCE, 5);
        struct tt_sched *whole = build_of(tt_algo_find(names[i]), &a);
        assert_int_equal(tt_comm_prove(whole, whole, 3, &err), TUTTI_OK);
        for (uint32_t r = 0; r < 5; r++) {
            struct tt_sched *mine;
            assert_int_equal(tt_algo_slice(tt_algo_find(names[i]), &a, r, 1, &mine, &err), TUTTI_OK);
            assert_int_equal(tt_comm_prove(whole, mine, r, &err), TUTTI_OK);
            tt_sched_free(mine);
        }
        tt_sched_free(whole);
    }
}

/* The slices of the ring for 5 ranks and for another algorithm or number of segments are not each other's. */
static void test_other_slice(void **state)
{
    struct tutti_error err;
    struct tt_algo_args a = problem(TUTTI_ALLREDUCE, 5), cut = a;
    struct tt_sched *whole = build_of(tt_algo_find("ring"), &a), *mine;
    (void)state;
    assert_int_equal(tt_algo_options_add(&cut.options, "segments=2", &err), TUTTI_OK);
    assert_int_equal(tt_algo_slice(tt_algo_find("ring"), &cut, 2, 1, &mine, &err), TUTTI_OK);
    assert_int_equal(tt_comm_prove(whole, mine, 2, &err), TUTTI_ERR_INCORRECT);
    expect_says(err.text, "rank 2");
    tt_sched_free(mine);
    assert_int_equal(tt_algo_slice(tt_algo_find("direct"), &a, 4, 1, &mine, &err), TUTTI_OK);
    assert_int_equal(tt_comm_prove(whole, mine, 4, &err), TUTTI_ERR_INCORRECT);
    expect_says(err.text, "not its part of the proved schedule");
    tt_sched_free(mine);
    tt_sched_free(whole);
}

/* A copy of s in which operation `op` of `rank` is left out or its message goes to the next rank. */
static struct tt_sched *damaged(const struct tt_sched *s, uint32_t rank, size_t op, bool drop)
{
    struct tt_builder b;
    struct tt_shape shape = s->shape;
    struct tt_sched *d = NULL;
    struct tutti_error err;
    assert_null(shape.weights);
    assert_null(shape.owner);
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        tt_sched_build_rank(&b, r);
        for (size_t i = 0; i < sl.nops; i++) {
            struct tt_op o = sl.ops[i];
            bool here = r == rank && i == op;
            if (here && !drop)
                o.peer = (o.peer + 1) % s->shape.ranks == r ? (o.peer + 2) % s->shape.ranks : (o.peer + 1) % s->shape.ranks;
            if (!here || !drop)
                tt_sched_emit(&b, o, sl.spans + o.span, o.nspans);
        }
    }
    assert_int_equal(tt_sched_build_freeze(&b, &d, &err), TUTTI_OK);
    return d;
}

/* Whatever one operation is damaged, nobody may run it, and the sentence names collective, algorithm, rank, operation. */
static void test_wrong(void **state)
{
    struct tutti_error err;
    struct tt_algo_args a = problem(TUTTI_ALLREDUCE, 5);
    struct tt_sched *whole = build_of(tt_algo_find("ring"), &a);
    (void)state;
    for (uint32_t r = 0; r < 5; r++)
        for (size_t i = 0; i < tt_sched_slice(whole, r).nops; i++)
            for (int drop = 0; drop < 2; drop++) {
                if (tt_sched_slice(whole, r).ops[i].kind > TT_OP_RECV_REDUCE && !drop)
                    continue;
                struct tt_sched *bad = damaged(whole, r, i, drop);
                for (uint32_t me = 0; me < 5; me++) {
                    assert_int_equal(tt_comm_prove(bad, bad, me, &err), TUTTI_ERR_INCORRECT);
                    expect_says(err.text, "the schedule of allreduce by ring on 5 ranks (1000 elements) is not correct: rank ");
                    expect_says(err.text, ", op ");
                }
                tt_sched_free(bad);
            }
    tt_sched_free(whole);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_right), cmocka_unit_test(test_other_slice), cmocka_unit_test(test_wrong)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
