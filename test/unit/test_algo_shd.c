/* test_algo_shd.c - shift halving-doubling: proved for every number of ranks, order, direction and copy; uneven chunks; grids and hosts.
 *
 * Every count from 2 to 129 is proved for every collective with one and with both directions, with one of the other variants in turn, with
 * chunks of uneven length, and (where it is no prime) as hosts and as rows and columns; small counts with every variant, by the naive
 * interpreter as well. */
#include "support.h"

#include "verify/verify.h"

static const char *const variants[] = {"direction=one", "direction=both",          "order=near-first",
                                       "copies=3",      "direction=both copies=2", "order=near-first direction=both copies=3"};
/* The first are tried with every count, some of the others in turn, the last with few ranks only: it has very many ranges. */
enum { EVERYWHERE = 2, LARGER = 3 };

static struct tt_algo_args args(const struct tt_topo *t, uint32_t p, tutti_coll coll, const char *options)
{
    struct tt_algo_args a = {.problem = {.coll = coll, .ranks = p, .count = 12345, .dtype = TUTTI_F32}, .topo = t};
    char text[120];
    snprintf(text, sizeof text, "%s", options ? options : "");
    for (char *save = NULL, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        assert_int_equal(tt_algo_options_add(&a.options, one, NULL), TUTTI_OK);
    return a;
}

static struct tt_sched *shd_of(const char *spec, tutti_coll coll, const char *options)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_algo_args a = args(t, t->ranks, coll, options);
    struct tt_sched *s = build_of(&tt_algo_shd, &a);
    tt_topo_free(t);
    return s;
}

/* Well-formed and correct by the verifier alone, which is enough where the interpreter would take long. */
static void expect_correct(const struct tt_sched *s)
{
    struct tt_verify_result r;
    struct tt_verify_options o = {.seed = 7};
    assert_int_equal(tt_sched_check(s, NULL, NULL), TUTTI_OK);
    assert_int_equal(tt_verify(s, &o, &r, NULL), TUTTI_OK);
    if (!r.ok)
        print_error("%u ranks, %s: %s\n", s->shape.ranks, s->shape.options, r.why);
    assert_true(r.ok);
}

/* Every rank owns its block and sends exactly the blocks of the others. */
static void expect_least_volume(const struct tt_sched *s)
{
    const struct tt_shape *sh = &s->shape;
    uint32_t each = sh->chunks / sh->ranks, phases = sh->coll == TUTTI_ALLREDUCE ? 2 : 1;
    for (uint32_t r = 0; r < sh->ranks; r += sh->ranks / 3 + 1) {
        assert_int_equal(tt_sched_shape_owner(sh, r * each), r);
        assert_int_equal(chunks_moved(s, r, true), (uint64_t)phases * each * (sh->ranks - 1));
        assert_int_equal(chunks_moved(s, r, false), (uint64_t)phases * each * (sh->ranks - 1));
    }
}

static void expect_right(uint32_t p, tutti_coll c, const char *options)
{
    struct tt_algo_args a = args(NULL, p, c, options);
    struct tt_sched *s = build_of(&tt_algo_shd, &a);
    assert_int_equal(s->steps, tt_ceil_log2(p) * (c == TUTTI_ALLREDUCE ? 2 : 1));
    if (p > 1)
        expect_least_volume(s);
    if (p <= 12)
        expect_proved(s);
    else
        expect_correct(s);
    tt_sched_free(s);
}

/* Is it this variant's turn with p ranks and this collective? */
static bool is_tried(uint32_t p, tutti_coll c, size_t variant)
{
    return p <= 16 || variant < EVERYWHERE || (p % 3 == (uint32_t)c && variant == EVERYWHERE + p / 3 % LARGER);
}

static void test_every_count(void **state)
{
    (void)state;
    for (uint32_t p = 1; p <= 129; p++)
        for (size_t v = 0; v < countof(variants); v++)
            for (tutti_coll c = TUTTI_ALLREDUCE; c <= TUTTI_ALL_GATHER; c++)
                if (is_tried(p, c, v))
                    expect_right(p, c, variants[v]);
}

/* Chunks of any length, empty ones too. */
static struct tt_sched *uneven_of(uint32_t p, tutti_coll c, const char *options)
{
    struct tt_algo_args a = args(NULL, p, c, options);
    struct tt_sched *s = build_of(&tt_algo_shd, &a);
    s->shape.symmetric = false;
    s->shape.weights = malloc(s->shape.chunks * sizeof(uint32_t));
    for (uint32_t k = 0; k < s->shape.chunks; k++)
        s->shape.weights[k] = k * 2654435761u >> 29; /* 0 .. 7 */
    s->shape.weights[0] = 3;
    return s;
}

static void test_uneven_chunks(void **state)
{
    (void)state;
    for (uint32_t p = 2; p <= 129; p++)
        for (tutti_coll c = TUTTI_ALLREDUCE; c <= TUTTI_ALL_GATHER; c++)
            for (size_t v = 0; v < countof(variants); v++) {
                if (p > 9 && v != (p + (uint32_t)c) % (EVERYWHERE + LARGER))
                    continue;
                struct tt_sched *s = uneven_of(p, c, variants[v]);
                if (p <= 9)
                    expect_proved(s);
                else
                    expect_correct(s);
                tt_sched_free(s);
            }
}

static void test_large_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t p;
        const char *options;
    } cases[] = {{256, "copies=8"},
                 {256, "direction=both copies=7"},
                 {257, "order=near-first"},
                 {1000, "copies=3"},
                 {1000, "grid=8x125 direction=both"},
                 {1024, "direction=both copies=2"},
                 {1024, "grid=8x128 direction=both"},
                 {4096, "copies=2"},
                 {4096, "grid=8x512"}};
    static const uint32_t counts[] = {1000, 1024, 4096};
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_algo_args a = args(NULL, cases[i].p, TUTTI_ALLREDUCE, cases[i].options);
        struct tt_sched *s = build_of(&tt_algo_shd, &a);
        expect_least_volume(s);
        expect_correct(s);
        tt_sched_free(s);
    }
    for (size_t i = 0; i < countof(counts); i++)
        for (size_t v = 0; v < EVERYWHERE; v++) {
            expect_right(counts[i], TUTTI_ALLREDUCE, variants[v]);
            expect_right(counts[i], v ? TUTTI_ALL_GATHER : TUTTI_REDUCE_SCATTER, variants[v]);
            struct tt_sched *s = uneven_of(counts[i], v ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE, variants[v]);
            expect_correct(s);
            tt_sched_free(s);
        }
}

/* The peers of rank 0's sends, step by step. */
static void expect_peers(const char *spec, const char *options, const uint32_t *want, size_t n)
{
    struct tt_sched *s = shd_of(spec, TUTTI_REDUCE_SCATTER, options);
    struct tt_slice sl = tt_sched_slice(s, 0);
    size_t k = 0;
    for (size_t i = 0; i < sl.nops; i++) {
        if (sl.ops[i].kind != TT_OP_SEND)
            continue;
        assert_true(k < n);
        assert_int_equal(sl.ops[i].peer, want[k++]);
    }
    assert_int_equal(k, n);
    tt_sched_free(s);
}

static void test_orders(void **state)
{
    (void)state;
    expect_peers("dln:16", "order=auto", (const uint32_t[]){8, 4, 2, 1}, 4);
    expect_peers("dln:16", "order=far-first", (const uint32_t[]){8, 4, 2, 1}, 4);
    expect_peers("dln:16", "order=near-first", (const uint32_t[]){1, 2, 4, 8}, 4);
    expect_peers("dln:16,t=2", NULL, (const uint32_t[]){8, 4, 1, 2}, 4);
    expect_peers("dln:64,t=2", NULL, (const uint32_t[]){32, 16, 1, 2, 4, 8}, 6);
    expect_peers("ring:16", NULL, (const uint32_t[]){1, 2, 4, 8}, 4);
    expect_peers("star:16", NULL, (const uint32_t[]){8, 4, 2, 1}, 4);
    expect_peers("dln:100", NULL, (const uint32_t[]){50, 25, 13, 7, 4, 2, 1}, 7);
    /* n/2 is its own inverse: last when both directions are used, and on half-duplex cables */
    expect_peers("dln:16@10Gbps,1us,half", NULL, (const uint32_t[]){4, 2, 1, 8}, 4);
    expect_peers("dln:16", "direction=both", (const uint32_t[]){4, 12, 2, 14, 1, 15, 8}, 7);
    expect_peers("dln:12", "direction=both", (const uint32_t[]){3, 9, 2, 10, 1, 11, 6}, 7);
    expect_peers("dln:8", "copies=2", (const uint32_t[]){4, 2, 2, 1, 1, 4}, 6);
}

static void expect_grid(const char *spec, tutti_coll c, const char *options)
{
    struct tt_sched *s = shd_of(spec, c, options);
    expect_least_volume(s);
    if (s->shape.ranks <= 35)
        expect_proved(s);
    else
        expect_correct(s);
    tt_sched_free(s);
}

/* Rows and columns; hosts of a position; grids that are given. */
static void test_grids(void **state)
{
    (void)state;
    static const char *const specs[] = {"dln2d:4x4", "dln2d:5x7", "dln2d:1x6", "dln2d:6x4",
                                        "torus:3x5", "dln:6,h=4", "dln:5,h=3", "dln:1,h=5"};
    static const char *const options[] = {"", "direction=both", "copies=2", "copies=4 direction=both", "order=near-first"};
    for (size_t i = 0; i < countof(specs); i++)
        for (size_t k = 0; k < countof(options); k++)
            for (tutti_coll c = TUTTI_ALLREDUCE; c <= TUTTI_ALL_GATHER; c++)
                expect_grid(specs[i], c, options[k]);
    struct tt_sched *s = shd_of("star:24", TUTTI_ALLREDUCE, "grid=6x4");
    assert_int_equal(s->steps, 2 * (2 + 3));
    expect_proved(s);
    tt_sched_free(s);
}

/* Every count that is no prime as nearly a square of rows and columns, and as hosts; collectives and variants in turn; and the large ones.
 */
static void test_every_grid(void **state)
{
    (void)state;
    static const char *const options[] = {"direction=one", "direction=both", "copies=2", "copies=2 direction=both"};
    static const char *const large[] = {"dln2d:25x40", "dln2d:32x32", "dln2d:64x64", "dln:250,h=4"};
    for (uint32_t p = 4; p <= 129; p++) {
        char spec[64];
        uint32_t a = 1;
        for (uint32_t k = 2; k * k <= p; k++)
            a = p % k ? a : k;
        if (a == 1)
            continue;
        snprintf(spec, sizeof spec, "dln2d:%ux%u", p & 4 ? a : p / a, p & 4 ? p / a : a);
        expect_grid(spec, p % 3, options[p / 2 % 4]);
        snprintf(spec, sizeof spec, "dln:%u,h=%u", p / a, a);
        expect_grid(spec, (p + 1) % 3, options[(p / 2 + 1) % 4]);
    }
    for (size_t i = 0; i < countof(large); i++)
        expect_grid(large[i], TUTTI_ALLREDUCE, options[i & 1]);
}

/* A host of 4 first sums inside, then each of its ranks is the leader of a quarter: (N-1)/N of a quarter leaves it. */
static void test_hosts_begin_inside(void **state)
{
    (void)state;
    expect_peers("dln:8,h=4", NULL, (const uint32_t[]){2, 1, 16, 8, 4}, 5);
    struct tt_sched *s = shd_of("dln:8,h=4", TUTTI_REDUCE_SCATTER, NULL);
    struct tt_slice sl = tt_sched_slice(s, 5);
    uint64_t outside = 0;
    for (size_t i = 0; i < sl.nops; i++)
        if (sl.ops[i].kind == TT_OP_SEND && sl.ops[i].peer / 4 != 1)
            outside += op_chunks(&sl, &sl.ops[i]);
    assert_int_equal(outside, 7); /* of 8, a quarter of 32 */
    tt_sched_free(s);
}

static void expect_refused(uint32_t p, const char *options, const char *words)
{
    struct tt_algo_args a = args(NULL, p, TUTTI_ALLREDUCE, options);
    struct tutti_error why = {0};
    assert_int_not_equal(tt_algo_probe(&tt_algo_shd, &a, &why), TUTTI_OK);
    expect_says(why.text, words);
}

static void test_refusals(void **state)
{
    (void)state;
    expect_refused(16, "grid=3x5", "A*B = 16 ranks");
    expect_refused(16, "grid=4", "AxB");
    expect_refused(16, "grid=4x4x1", "AxB");
    expect_refused(16, "grid=0x16", "AxB");
    expect_refused(16, "grid=99999999999999999999x1", "AxB");
    expect_refused(16, "copies=0", "copies");
    expect_refused(16, "copies=33", "copies");
    expect_refused(16, "order=middle-first", "order");
    expect_refused(16, "direction=two", "direction");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_count),
        cmocka_unit_test(test_large_counts),
        cmocka_unit_test(test_uneven_chunks),
        cmocka_unit_test(test_orders),
        cmocka_unit_test(test_grids),
        cmocka_unit_test(test_every_grid),
        cmocka_unit_test(test_hosts_begin_inside),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
