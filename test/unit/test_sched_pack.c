/* One rank's slice as bytes and back: the same operations and shape for every rank of every sort of schedule; damaged bytes are refused. */
#include "support.h"

#include "sched/sched.h"

static struct tt_sched *make(const char *algo, const char *topo, uint32_t ranks, struct tt_topo **ret_topo)
{
    *ret_topo = topo_of(topo);
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = ranks, .count = 1000, .dtype = TUTTI_F32, .redop = TUTTI_SUM},
                             .topo = *ret_topo};
    return build_of(tt_algo_find(algo), &a);
}

static void assert_same_slice(const struct tt_sched *whole, const struct tt_sched *one, uint32_t rank)
{
    struct tt_slice a = tt_sched_slice(whole, rank), b = tt_sched_slice(one, rank);
    assert_int_equal(one->first_rank, rank);
    assert_int_equal(one->nslices, 1);
    assert_true(tt_sched_shape_hash(&whole->shape) == tt_sched_shape_hash(&one->shape));
    assert_string_equal(whole->shape.algo, one->shape.algo);
    assert_string_equal(whole->shape.options, one->shape.options);
    assert_int_equal(a.nops, b.nops);
    assert_int_equal(a.nspans, b.nspans);
    if (a.nops)
        assert_memory_equal(a.ops, b.ops, a.nops * sizeof *a.ops);
    if (a.nspans)
        assert_memory_equal(a.spans, b.spans, a.nspans * sizeof *a.spans);
}

static const struct {
    const char *algo, *topo;
    uint32_t ranks;
} cases[] = {{"ring", "ring:5", 5},   {"direct", "star:4", 4},          {"multitree", "torus:3x3", 9},
             {"forest", "ring:6", 6}, {"flex", "nics:10G,10G,2.5G", 3}, {"flex", "tree:((3 2) (2 1))", 8},
             {"ring", "ring:1", 1}};

static void slices_come_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tt_topo *t;
        struct tt_sched *s = make(cases[i].algo, cases[i].topo, cases[i].ranks, &t), *back;
        for (uint32_t r = 0; r < s->shape.ranks; r++) {
            struct tutti_error err = {0};
            size_t n = tt_sched_packed_bytes(s, r);
            char *bytes = malloc(n + 9);
            memset(bytes, 0x55, n + 9);
            tt_sched_pack(s, r, bytes + 1); /* not aligned, and something follows */
            if (tt_sched_unpack(bytes + 1, n + 8, &back, &err))
                fail_msg("%s on %s, rank %u: %s", cases[i].algo, cases[i].topo, r, err.text);
            assert_same_slice(s, back, r);
            tt_sched_free(back);
            free(bytes);
        }
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

static void damaged_bytes_are_refused(void **state)
{
    struct tt_topo *t;
    struct tt_sched *s = make("flex", "nics:10G,10G,2.5G", 3, &t), *back = NULL;
    struct tutti_error err;
    size_t n = tt_sched_packed_bytes(s, 1), accepted = 0;
    char *bytes = malloc(n);
    (void)state;
    tt_sched_pack(s, 1, bytes);
    for (size_t len = 0; len < n; len++)
        assert_int_not_equal(tt_sched_unpack(bytes, len, &back, &err), TUTTI_OK);
    for (size_t i = 0; i < n; i++) { /* one byte otherwise: refused, or a well-formed schedule (a time, a name) */
        bytes[i] ^= 0x40;
        if (tt_sched_unpack(bytes, n, &back, &err) == TUTTI_OK) {
            accepted++;
            tt_sched_free(back);
        }
        bytes[i] ^= 0x40;
    }
    assert_true(accepted < n);
    free(bytes);
    tt_sched_free(s);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(slices_come_back),
        cmocka_unit_test(damaged_bytes_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
