/* test_algo_trees.c - binomial, chain, double-tree and swing: every collective, root and rank count run on real numbers and live. */
#include "support.h"

#include "verify/verify.h"

static const uint32_t rank_counts[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 32, 33};

static struct tt_sched *build(const struct tt_algo *al, tutti_coll coll, uint32_t p, uint32_t root)
{
    struct tt_algo_args a = {.problem = {.coll = coll, .ranks = p, .root = root, .count = 1000, .dtype = TUTTI_F32}};
    return build_of(al, &a);
}

/* Steps of each algorithm by its closed form; q = ceil(log2 p). */
static uint32_t steps_binomial(tutti_coll coll, uint32_t p)
{
    return tt_ceil_log2(p) * (coll == TUTTI_ALLREDUCE || coll == TUTTI_BARRIER ? 2 : 1);
}

static uint32_t steps_chain(tutti_coll coll, uint32_t p)
{
    return (p - 1) * (coll == TUTTI_ALLREDUCE ? 2 : 1);
}

static uint32_t steps_swing(tutti_coll coll, uint32_t p)
{
    uint32_t n = p - p % 2, q = n > 1 ? tt_ceil_log2(n) : 0;
    return p == 1 ? 0 : q * (coll == TUTTI_ALLREDUCE ? 2 : 1) + (p % 2 ? 2 : 0);
}

static void whole_matrix(const struct tt_algo *al, uint32_t (*steps)(tutti_coll, uint32_t))
{
    for (size_t i = 0; i < countof(rank_counts); i++)
        for (unsigned c = 0; c < TUTTI_COLL_COUNT; c++) {
            uint32_t p = rank_counts[i];
            uint32_t roots = !(al->colls >> c & 1) ? 0 : ls_is_rooted((tutti_coll)c) ? p : 1;
            for (uint32_t root = 0; root<roots; root += p> 17 ? 15 : 1) {
                struct tt_sched *s = build(al, (tutti_coll)c, p, root);
                assert_int_equal(s->steps, steps((tutti_coll)c, p));
                assert_true(s->shape.inplace);
                expect_proved(s);
                tt_sched_free(s);
            }
        }
}

static void test_binomial(void **state)
{
    (void)state;
    whole_matrix(&tt_algo_binomial, steps_binomial);
}

static void test_chain(void **state)
{
    (void)state;
    whole_matrix(&tt_algo_chain, steps_chain);
}

static void test_double_tree(void **state)
{
    (void)state;
    whole_matrix(&tt_algo_double_tree, steps_binomial); /* 2q, or q for a rooted collective */
}

static void test_swing(void **state)
{
    (void)state;
    whole_matrix(&tt_algo_swing, steps_swing);
}

static uint64_t chunks_on_channel(const struct tt_sched *s, uint32_t r, uint32_t channel)
{
    struct tt_slice sl = tt_sched_slice(s, r);
    uint64_t n = 0;
    for (size_t i = 0; i < sl.nops; i++)
        n += sl.ops[i].kind == TT_OP_SEND && sl.ops[i].channel == channel ? op_chunks(&sl, &sl.ops[i]) : 0;
    return n;
}

/* At most one rank is inner in both trees, and nobody sends more than 4 half vectors: what makes two trees better than one. */
static void test_double_tree_balance(void **state)
{
    (void)state;
    for (uint32_t p = 2; p < 70; p++) {
        struct tt_sched *s = build(&tt_algo_double_tree, TUTTI_ALLREDUCE, p, 0);
        uint32_t both = 0;
        for (uint32_t r = 0; r < p; r++) {
            uint64_t sent[2] = {chunks_on_channel(s, r, 0), chunks_on_channel(s, r, 1)};
            assert_true(sent[0] <= 3 && sent[1] <= 3);
            both += sent[0] > 1 && sent[1] > 1;
            if (!(sent[0] > 1 && sent[1] > 1))
                assert_true(sent[0] + sent[1] <= 4);
        }
        assert_true(both <= 1);
        tt_sched_free(s);
    }
}

/* A broadcast on both trees: no rank, not even the root, sends more than the vector once (two halves), one rank perhaps excepted. */
static void test_double_tree_rooted_balance(void **state)
{
    (void)state;
    for (uint32_t p = 2; p < 70; p++) {
        struct tt_sched *s = build(&tt_algo_double_tree, TUTTI_BROADCAST, p, p / 3);
        uint32_t over = 0;
        for (uint32_t r = 0; r < p; r++)
            over += chunks_moved(s, r, true) > 2;
        assert_int_equal(over, 0);
        tt_sched_free(s);
    }
}

/* The tree of the 5-rank drawing in double_tree.c, tree 0: 1->2 3->2 (0), 2->4 (1), 4->0 (2). */
static void test_double_tree_drawing(void **state)
{
    (void)state;
    static const struct {
        uint32_t rank, peer, step;
        uint16_t channel;
    } up[] = {{1, 2, 0, 0}, {3, 2, 0, 0}, {2, 4, 1, 0}, {4, 0, 2, 0}, {2, 3, 0, 1}, {4, 3, 0, 1}, {3, 0, 1, 1}, {0, 1, 2, 1}};
    struct tt_sched *s = build(&tt_algo_double_tree, TUTTI_ALLREDUCE, 5, 0);
    for (size_t k = 0; k < countof(up); k++) {
        struct tt_slice sl = tt_sched_slice(s, up[k].rank);
        bool found = false;
        for (size_t i = 0; i < sl.nops; i++) {
            const struct tt_op *op = &sl.ops[i];
            found = found || (op->kind == TT_OP_SEND && op->peer == up[k].peer && op->step == up[k].step && op->channel == up[k].channel);
        }
        assert_true(found);
    }
    tt_sched_free(s);
}

/* Every even p: each rank sends p-1 chunks in each half; mates in step 0 are neighbours; for powers of two messages halve. */
static void test_swing_volume(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 64; p += 2) {
        struct tt_sched *s = build(&tt_algo_swing, TUTTI_ALLREDUCE, p, 0);
        for (uint32_t r = 0; r < p; r++) {
            assert_int_equal(chunks_moved(s, r, true), 2 * (p - 1));
            const struct tt_op *op = tt_sched_slice(s, r).ops;
            assert_int_equal(op->kind, TT_OP_SEND);
            assert_int_equal(op->peer, r ^ 1u);
        }
        tt_sched_free(s);
    }
}

/* Block-hops per rank of the reduce-scatter on a ring of 256: 711 (research notes, simulated independently). */
static void test_swing_hops(void **state)
{
    (void)state;
    const uint32_t p = 256;
    struct tt_algo_args a = {.problem = {.coll = TUTTI_REDUCE_SCATTER, .ranks = p, .count = p}};
    struct tt_sched *s = NULL;
    uint64_t hops = 0;
    assert_int_equal(tt_algo_slice(&tt_algo_swing, &a, 10, 1, &s, NULL), TUTTI_OK);
    struct tt_slice sl = tt_sched_slice(s, 10);
    for (size_t i = 0; i < sl.nops; i++) {
        if (sl.ops[i].kind != TT_OP_SEND)
            continue;
        uint32_t d = (sl.ops[i].peer + p - 10) % p, far = d < p - d ? d : p - d;
        assert_true(sl.ops[i].nspans <= 4); /* strided spans, not one per block */
        hops += op_chunks(&sl, &sl.ops[i]) * far;
    }
    assert_int_equal(hops, 711);
    tt_sched_free(s);
}

/* Larger and odd counts once: 101 (prime), 400, 399. */
static void test_swing_larger(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {74, 101, 142, 399, 400};
    for (size_t i = 0; i < countof(sizes); i++)
        for (tutti_coll c = TUTTI_ALLREDUCE; c <= TUTTI_ALL_GATHER; c++) {
            struct tt_sched *s = build(&tt_algo_swing, c, sizes[i], 0);
            struct tutti_error err = {0};
            struct tt_verify_result v;
            assert_int_equal(tt_sched_check(s, NULL, &err), TUTTI_OK);
            assert_int_equal(tt_verify(s, &(struct tt_verify_options){.seed = 7}, &v, &err), TUTTI_OK);
            assert_true(v.ok);
            tt_sched_free(s);
        }
}

/* Gather and scatter move cyclic ranges: at most 3 spans per message, and the root handles p-1 chunks. */
static void test_binomial_ranges(void **state)
{
    (void)state;
    struct tt_sched *s = build(&tt_algo_binomial, TUTTI_GATHER, 13, 9);
    for (uint32_t r = 0; r < 13; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        for (size_t i = 0; i < sl.nops; i++)
            assert_true(sl.ops[i].nspans <= 3);
    }
    assert_int_equal(chunks_moved(s, 9, false), 12);
    assert_int_equal(chunks_moved(s, 9, true), 0);
    tt_sched_free(s);
}

/* One rank among a million is listed alone and quickly. */
static void test_slices_alone(void **state)
{
    (void)state;
    static const struct tt_algo *const quick[] = {&tt_algo_binomial, &tt_algo_chain, &tt_algo_double_tree};
    for (size_t i = 0; i < countof(quick); i++) {
        struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = 1u << 20, .count = 1u << 24}};
        struct tt_sched *s = NULL;
        assert_int_equal(tt_algo_slice(quick[i], &a, 777777, 1, &s, NULL), TUTTI_OK);
        assert_true(s->nops > 0 && s->nops < 100);
        tt_sched_free(s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_binomial),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_double_tree),
        cmocka_unit_test(test_swing),
        cmocka_unit_test(test_double_tree_balance),
        cmocka_unit_test(test_double_tree_rooted_balance),
        cmocka_unit_test(test_double_tree_drawing),
        cmocka_unit_test(test_swing_volume),
        cmocka_unit_test(test_swing_hops),
        cmocka_unit_test(test_swing_larger),
        cmocka_unit_test(test_binomial_ranges),
        cmocka_unit_test(test_slices_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
