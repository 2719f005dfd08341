/* test_algo_closed.c - ring, bi-ring, recursive-doubling, halving-doubling, circulant, direct, oneshot: results by an independent
 * interpreter and by verify, steps and chunks sent against closed forms, slices, symmetry, and the order of summation. */
#include "support.h"

static const struct tt_algo *const mine[] = {
    &tt_algo_ring,   &tt_algo_bi_ring, &tt_algo_recursive_doubling, &tt_algo_halving_doubling, &tt_algo_circulant,
    &tt_algo_direct, &tt_algo_oneshot};

static struct tt_algo_args args_of(tutti_coll coll, uint32_t p, uint32_t root)
{
    return (struct tt_algo_args){.problem = {.coll = coll, .ranks = p, .root = root, .count = 1000}};
}

static struct tt_sched *build(const struct tt_algo *al, tutti_coll coll, uint32_t p, uint32_t root)
{
    struct tt_algo_args a = args_of(coll, p, root);
    return build_of(al, &a);
}

typedef void (*visit)(const struct tt_algo *al, const struct tt_sched *s);

/* Every collective of every algorithm of this file, p = 1..33, three roots where roots matter. */
static void for_all(visit f)
{
    for (size_t i = 0; i < countof(mine); i++)
        for (unsigned c = 0; c < TUTTI_COLL_COUNT; c++)
            for (uint32_t p = 1; p <= 33; p++) {
                if (!(mine[i]->colls >> c & 1u) || (p > 17 && p < 31))
                    continue;
                for (uint32_t k = 0; k < (ls_is_rooted((tutti_coll)c) && p > 2 ? 3u : 1u); k++) {
                    struct tt_sched *s = build(mine[i], (tutti_coll)c, p, k * (p - 1) / 2);
                    f(mine[i], s);
                    tt_sched_free(s);
                }
            }
}

static void check_proof(const struct tt_algo *al, const struct tt_sched *s)
{
    (void)al;
    expect_proved(s);
}

static void test_proofs(void **state)
{
    (void)state;
    for_all(check_proof);
}

/* A rank listed alone has exactly the bytes it has in the whole. */
static void check_slices(const struct tt_algo *al, const struct tt_sched *s)
{
    struct tt_algo_args a = args_of(s->shape.coll, s->shape.ranks, s->shape.root);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_sched *alone = NULL;
        assert_int_equal(tt_algo_slice(al, &a, r, 1, &alone, NULL), TUTTI_OK);
        struct tt_slice x = tt_sched_slice(s, r), y = tt_sched_slice(alone, r);
        assert_int_equal(x.nops, y.nops);
        assert_int_equal(x.nspans, y.nspans);
        assert_memory_equal(x.ops, y.ops, x.nops * sizeof(*x.ops));
        assert_memory_equal(x.spans, y.spans, x.nspans * sizeof(*x.spans));
        tt_sched_free(alone);
    }
}

static void test_slices(void **state)
{
    (void)state;
    for_all(check_slices);
}

/* Operation i of rank r is that of rank 0, shifted. */
static void expect_shifted(const struct tt_sched *s, const struct ls *l, uint32_t r, size_t i)
{
    const struct tt_op *x = &tt_sched_slice(s, 0).ops[i], *y = &tt_sched_slice(s, r).ops[i];
    uint32_t p = s->shape.ranks, chunks = s->shape.chunks;
    size_t n, m;
    const struct ls_item *a = ls_items(l, 0, i, &n), *b = ls_items(l, r, i, &m);
    assert_int_equal(x->kind, y->kind);
    assert_int_equal(x->step, y->step);
    if (x->kind == TT_OP_REDUCE || x->kind == TT_OP_COPY)
        return;
    assert_int_equal(x->channel, y->channel);
    assert_int_equal((x->peer + r) % p, y->peer);
    assert_int_equal(n, m);
    for (size_t j = 0; j < n; j++)
        assert_int_equal((a[j].chunk + r * (chunks / p)) % chunks, b[j].chunk);
}

static void check_symmetry(const struct tt_algo *al, const struct tt_sched *s)
{
    bool declared = s->shape.symmetric;
    struct ls *l = ls_open(s);
    if (al == &tt_algo_ring || al == &tt_algo_bi_ring || al == &tt_algo_circulant)
        assert_true(declared);
    for (uint32_t r = 1; declared && r < s->shape.ranks; r++) {
        size_t nops = tt_sched_slice(s, r).nops;
        assert_int_equal(nops, tt_sched_slice(s, 0).nops);
        for (size_t i = 0; i < nops; i++)
            expect_shifted(s, l, r, i);
    }
    ls_close(l);
}

static void test_symmetry(void **state)
{
    (void)state;
    for_all(check_symmetry);
}

/* Optimal algorithms: `steps` and, at every rank, (p-1)/p of the vector per phase in and out. */
static void expect_optimal(const struct tt_algo *al, uint32_t p, uint32_t steps_per_phase)
{
    static const tutti_coll colls[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER};
    for (size_t i = 0; i < countof(colls); i++) {
        uint32_t phases = colls[i] == TUTTI_ALLREDUCE ? 2 : 1;
        struct tt_sched *s = build(al, colls[i], p, 0);
        assert_int_equal(s->steps, phases * steps_per_phase);
        for (uint32_t r = 0; r < p; r++) {
            assert_int_equal(chunks_moved(s, r, true) * p, (uint64_t)phases * (p - 1) * s->shape.chunks);
            assert_int_equal(chunks_moved(s, r, false) * p, (uint64_t)phases * (p - 1) * s->shape.chunks);
        }
        tt_sched_free(s);
    }
}

static void test_steps_and_bytes(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 33; p++) {
        uint32_t q = tt_ceil_log2(p);
        expect_optimal(&tt_algo_ring, p, p - 1);
        expect_optimal(&tt_algo_bi_ring, p, p - 1);
        expect_optimal(&tt_algo_circulant, p, q);
        expect_optimal(&tt_algo_direct, p, p > 1 ? 1 : 0);
        if ((p & (p - 1)) == 0)
            expect_optimal(&tt_algo_halving_doubling, p, q);
    }
}

/* Operations of an allreduce: messages, sums, and the one copy of the circulant when p is odd. */
static void test_op_counts(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 33; p++) {
        uint32_t q = tt_ceil_log2(p), want[] = {4 * (p - 1), 8 * (p - 1), 0, 0, 4 * q + p % 2, 4 * (p - 1) + 1, 2 * (p - 1) + 1};
        for (size_t i = 0; i < countof(mine); i++) {
            struct tt_sched *s = build(mine[i], TUTTI_ALLREDUCE, p, 0);
            if (want[i])
                assert_int_equal(s->nops, (uint64_t)p * want[i]);
            tt_sched_free(s);
        }
    }
}

static void test_folded_counts(void **state)
{
    (void)state;
    for (uint32_t p = 3; p <= 33; p++) {
        uint32_t core = (uint32_t)tt_floor_pow2(p), x = p - core, q = tt_ceil_log2(core);
        if (x == 0)
            continue;
        struct tt_sched *ar = build(&tt_algo_halving_doubling, TUTTI_ALLREDUCE, p, 0);
        struct tt_sched *rs = build(&tt_algo_halving_doubling, TUTTI_REDUCE_SCATTER, p, 0);
        struct tt_sched *ag = build(&tt_algo_halving_doubling, TUTTI_ALL_GATHER, p, 0);
        struct tt_sched *rd = build(&tt_algo_recursive_doubling, TUTTI_ALLREDUCE, p, 0);
        assert_int_equal(ar->steps, 2 * q + 2);
        assert_int_equal(rs->steps, q + 2);
        assert_int_equal(ag->steps, q + 2);
        assert_int_equal(rd->steps, q + 2);
        for (uint32_t r = 0; r < p; r++) {
            bool idle = r < 2 * x && r % 2 == 0, doubled = r < 2 * x && r % 2 == 1;
            assert_int_equal(chunks_moved(rs, r, true), idle ? p : p - 1);
            assert_int_equal(chunks_moved(ag, r, false), p - 1); /* everybody gets exactly what it lacks */
            assert_int_equal(chunks_moved(rd, r, true), idle ? 1 : q + (doubled ? 1 : 0));
            if (idle)
                assert_int_equal(chunks_moved(ar, r, true), p);
        }
        tt_sched_free(ar);
        tt_sched_free(rs);
        tt_sched_free(ag);
        tt_sched_free(rd);
    }
}

static void test_oneshot_counts(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 33; p++)
        for (unsigned c = 0; c < TUTTI_COLL_COUNT; c++) {
            if (!(tt_algo_oneshot.colls >> c & 1u))
                continue;
            struct tt_sched *s = build(&tt_algo_oneshot, (tutti_coll)c, p, p / 2);
            bool gathers = c == TUTTI_REDUCE || c == TUTTI_GATHER, spreads = c == TUTTI_BROADCAST || c == TUTTI_SCATTER;
            assert_int_equal(s->steps, 1);
            for (uint32_t r = 0; r < p; r++)
                assert_int_equal(chunks_moved(s, r, true), gathers ? r != p / 2 : spreads && r != p / 2 ? 0 : p - 1);
            tt_sched_free(s);
        }
}

/* At most two spans in every circulant message; windows of halving-doubling are one range inside the core. */
static void test_spans_per_message(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 129; p++) {
        struct tt_sched *s = build(&tt_algo_circulant, TUTTI_ALLREDUCE, p, 0), *t = build(&tt_algo_circulant, TUTTI_REDUCE_SCATTER, p, 0);
        struct tt_sched *h = build(&tt_algo_halving_doubling, TUTTI_ALLREDUCE, p, 0);
        for (uint64_t i = 0; i < s->nops; i++)
            assert_true(s->ops[i].nspans <= 2);
        for (uint64_t i = 0; i < t->nops; i++)
            assert_true(t->ops[i].nspans <= 2);
        for (uint64_t i = 0; i < h->nops; i++)
            assert_int_equal(h->ops[i].nspans, 1);
        tt_sched_free(s);
        tt_sched_free(t);
        tt_sched_free(h);
    }
}

/* All ranks start with the same number in all chunks and must end with the same numbers, whatever the sum. Returns chunk 0's, and whether
 * every chunk got the same, that is, was summed in the same way. */
static uint64_t bits(const struct tt_algo *al, uint32_t p, ls_sum *sum, bool *ret_one_tree)
{
    struct tt_sched *s = build(al, TUTTI_ALLREDUCE, p, 0);
    struct ls *l = ls_open(s);
    struct ls_result r = ls_run(l, &(struct ls_options){.uniform = true, .sum = sum});
    if (r.verdict != LS_CORRECT)
        fail_msg("%s of %u ranks: %s", al->name, p, r.why);
    uint64_t chunk0 = ls_output(l, 0, 0);
    *ret_one_tree = true;
    for (uint32_t c = 1; c < s->shape.chunks; c++)
        *ret_one_tree = *ret_one_tree && ls_output(l, 0, c) == chunk0;
    ls_close(l);
    tt_sched_free(s);
    return chunk0;
}

/* All ranks get the same bits even when the sum depends on order and bracketing. */
static void test_same_bits_everywhere(void **state)
{
    (void)state;
    bool one_tree;
    for (size_t i = 0; i < countof(mine); i++)
        for (uint32_t p = 1; p <= 33; p++) {
            bits(mine[i], p, ls_ordered_sum, &one_tree);
            if (mine[i]->rank_order)
                assert_true(one_tree);
        }
}

static void test_rank_order(void **state)
{
    (void)state;
    bool one_tree;
    for (uint32_t p = 1; p <= 33; p++) {
        uint64_t want = ls_input(0, 0, 0);
        for (uint32_t r = 1; r < p; r++)
            want = ls_ordered_sum(want, ls_input(0, r, 0));
        assert_true(bits(&tt_algo_direct, p, ls_ordered_sum, &one_tree) == want);
        assert_true(bits(&tt_algo_oneshot, p, ls_ordered_sum, &one_tree) == want);
    }
}

/* Short and long vectors: recursive doubling and halving-doubling sum in the same tree, for 2^q ranks circulant too. */
static void test_equal_trees(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 64; p++) {
        bool a, b, c;
        uint64_t doubling = bits(&tt_algo_recursive_doubling, p, ls_tree_sum, &a);
        assert_true(bits(&tt_algo_halving_doubling, p, ls_tree_sum, &b) == doubling);
        assert_true(a && b);
        if ((p & (p - 1)) == 0) {
            assert_true(bits(&tt_algo_circulant, p, ls_tree_sum, &c) == doubling);
            assert_true(c);
        }
    }
    bool ring_one_tree;
    bits(&tt_algo_ring, 5, ls_tree_sum, &ring_one_tree);
    assert_false(ring_one_tree);
}

/* One rank of a million, by itself. */
static void test_million(void **state)
{
    (void)state;
    struct tt_algo_args a = args_of(TUTTI_ALLREDUCE, 1048576, 0);
    const struct tt_algo *const two[] = {&tt_algo_circulant, &tt_algo_halving_doubling};
    for (size_t i = 0; i < countof(two); i++) {
        struct tt_sched *s = NULL;
        assert_int_equal(tt_algo_slice(two[i], &a, 777777, 1, &s, NULL), TUTTI_OK);
        assert_int_equal(s->nops, 80);
        assert_int_equal(s->steps, 40);
        assert_int_equal(chunks_moved(s, 777777, true), 2 * 1048575);
        assert_null(s->shape.weights);
        assert_null(s->shape.owner);
        tt_sched_free(s);
    }
}

/* The example drawn in circulant.c, literally. */
static void test_circulant_of_five(void **state)
{
    (void)state;
    static const uint32_t to[] = {3, 2, 1, 4, 3, 2}, first[] = {3, 2, 1, 0, 0, 0}, len[] = {2, 1, 1, 1, 1, 2};
    struct tt_sched *s = build(&tt_algo_circulant, TUTTI_ALLREDUCE, 5, 0);
    struct tt_slice sl = tt_sched_slice(s, 0);
    uint32_t k = 0;
    for (size_t i = 0; i < sl.nops; i++) {
        if (sl.ops[i].kind != TT_OP_SEND)
            continue;
        const struct tt_span *sp = &sl.spans[sl.ops[i].span];
        assert_int_equal(sl.ops[i].step, k);
        assert_int_equal(sl.ops[i].peer, to[k]);
        assert_int_equal(sp->first, first[k]);
        assert_int_equal(sp->len, len[k]);
        k++;
    }
    assert_int_equal(k, 6);
    tt_sched_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_proofs),
        cmocka_unit_test(test_slices),
        cmocka_unit_test(test_symmetry),
        cmocka_unit_test(test_steps_and_bytes),
        cmocka_unit_test(test_op_counts),
        cmocka_unit_test(test_folded_counts),
        cmocka_unit_test(test_oneshot_counts),
        cmocka_unit_test(test_spans_per_message),
        cmocka_unit_test(test_same_bits_everywhere),
        cmocka_unit_test(test_rank_order),
        cmocka_unit_test(test_equal_trees),
        cmocka_unit_test(test_million),
        cmocka_unit_test(test_circulant_of_five),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
