/* test_algo_options.c - options of algorithms and the drivers' refusals: what is accepted, with which words the rest is turned down. */
#include "support.h"

static const struct tt_algo_option some_options[] = {
    {.key = "ending", .values = "fixed|paper", .desc = "how it ends"},
    {.key = "levels", .values = "N", .desc = "how many", .min = 2, .max = 9},
    {.key = "groups", .values = "auto|AxB..", .desc = "free text"},
    {0},
};

static tutti_status some_shape(const struct tt_algo_args *a, struct tt_shape *s, struct tutti_error *err)
{
    (void)a;
    (void)err;
    s->chunks = 1;
    return TUTTI_OK;
}

static const struct tt_algo some_algo = {
    .name = "some", .needs = "a miracle", .colls = TT_COLLS(ALLREDUCE), .options = some_options, .shape = some_shape};

static struct tt_options options_of(const char *a, const char *b)
{
    struct tt_options o = {0};
    if (a)
        assert_int_equal(tt_algo_options_add(&o, a, NULL), TUTTI_OK);
    if (b)
        assert_int_equal(tt_algo_options_add(&o, b, NULL), TUTTI_OK);
    return o;
}

static void test_values_and_defaults(void **state)
{
    (void)state;
    struct tt_options none = {0}, o = options_of("ending=paper", "levels=7");
    assert_string_equal(tt_algo_option_text(&some_algo, &none, "ending"), "fixed");
    assert_string_equal(tt_algo_option_text(&some_algo, &o, "ending"), "paper");
    assert_int_equal(tt_algo_option_number(&some_algo, &none, "levels", 3), 3);
    assert_int_equal(tt_algo_option_number(&some_algo, &o, "levels", 3), 7);
    assert_int_equal(tt_algo_option_number(&some_algo, &none, "segments", 0), 0);
    assert_int_equal(tt_algo_options_check(&some_algo, &o, NULL), TUTTI_OK);
    assert_int_equal(tt_algo_options_check(&some_algo, &none, NULL), TUTTI_OK);
}

static void expect_add(const char *text, tutti_status status)
{
    struct tt_options o = options_of("ending=fixed", NULL);
    struct tutti_error err = {0};
    assert_int_equal(tt_algo_options_add(&o, text, &err), status);
    assert_int_equal(err.status, status);
    assert_true(strlen(err.text) > 5);
    assert_int_equal(o.n, 1);
}

static void test_add_refuses(void **state)
{
    (void)state;
    expect_add("", TUTTI_ERR_PARSE);
    expect_add("levels", TUTTI_ERR_PARSE);
    expect_add("=3", TUTTI_ERR_PARSE);
    expect_add("levels=", TUTTI_ERR_PARSE);
    expect_add("levels=3,x", TUTTI_ERR_PARSE);
    expect_add("levels=3=4", TUTTI_ERR_PARSE);
    expect_add("lev els=3", TUTTI_ERR_PARSE);
    expect_add("levels=\"3", TUTTI_ERR_PARSE);
    expect_add("a-key-that-is-far-too-long-for-us=1", TUTTI_ERR_PARSE);
    expect_add("key=a-value-that-is-far-too-long-for-us-to-keep", TUTTI_ERR_PARSE);
    expect_add("ending=paper", TUTTI_ERR_ARG);
}

static void test_add_longest_and_most(void **state)
{
    (void)state;
    struct tt_options o = {0};
    assert_int_equal(tt_algo_options_add(&o, "12345678901234567890123=123456789012345678901234567890123456789", NULL), TUTTI_OK);
    assert_int_equal(strlen(o.item[0].key), 23);
    assert_int_equal(strlen(o.item[0].value), 39);
    for (int i = 1; i < TT_MAX_OPTIONS; i++)
        assert_int_equal(tt_algo_options_add(&o, (char[]){'k', (char)('0' + i), '=', 'v', 0}, NULL), TUTTI_OK);
    assert_int_equal(tt_algo_options_add(&o, "one=more", NULL), TUTTI_ERR_LIMIT);
}

static void expect_refusal(const char *option, tutti_status status, const char *words)
{
    struct tt_options o = options_of(option, NULL);
    struct tutti_error err = {0};
    assert_int_equal(tt_algo_options_check(&some_algo, &o, &err), status);
    assert_int_equal(tt_algo_options_check(&some_algo, &o, NULL), status);
    expect_says(err.text, words);
}

static void test_check_refuses(void **state)
{
    (void)state;
    expect_refusal("endnig=paper", TUTTI_ERR_ARG, "did you mean ending");
    expect_refusal("endnig=paper", TUTTI_ERR_ARG, "segments, ending, levels");
    expect_refusal("ending=pap", TUTTI_ERR_ARG, "fixed|paper");
    expect_refusal("ending=fixed|paper", TUTTI_ERR_ARG, "none of");
    expect_refusal("levels=1", TUTTI_ERR_RANGE, "option levels");
    expect_refusal("levels=10", TUTTI_ERR_RANGE, "9");
    expect_refusal("levels=many", TUTTI_ERR_PARSE, "option levels");
    expect_refusal("segments=0", TUTTI_ERR_RANGE, "option segments");
    expect_refusal("segments=65537", TUTTI_ERR_RANGE, "65536");
    expect_refusal("segments=65536", TUTTI_OK, "");
    expect_refusal("groups=4x2", TUTTI_OK, "");
}

static void test_format_is_sorted(void **state)
{
    (void)state;
    struct tt_options o = options_of("segments=4", "ending=paper"), none = {0};
    char text[64], tiny[6];
    tt_algo_options_format(&o, text, sizeof(text));
    assert_string_equal(text, "ending=paper,segments=4");
    tt_algo_options_format(&none, text, sizeof(text));
    assert_string_equal(text, "");
    tt_algo_options_format(&o, tiny, sizeof(tiny));
    assert_string_equal(tiny, "endin");
}

static void test_shape_has_options(void **state)
{
    (void)state;
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = 3, .root = 99, .count = 10}};
    struct tt_shape s;
    a.options = options_of("segments=4", "ending=paper");
    assert_int_equal(tt_algo_shape(&some_algo, &a, &s, NULL), TUTTI_OK);
    assert_int_equal(s.segments, 4);
    assert_int_equal(s.ranks, 3);
    assert_int_equal(s.root, 0); /* an allreduce has none */
    assert_int_equal(s.count, 10);
    assert_int_equal(s.nbufs, 2);
    assert_true(s.inplace && !s.symmetric);
    assert_string_equal(s.algo, "some");
    assert_string_equal(s.options, "ending=paper,segments=4");
}

static void expect_probe(const struct tt_algo *al, struct tt_problem p, tutti_status status, const char *words)
{
    struct tt_algo_args a = {.problem = p};
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    assert_int_equal(tt_algo_probe(al, &a, &err), status);
    expect_says(err.text, words);
    assert_int_equal(tt_algo_build(al, &a, &s, NULL), status);
    assert_null(s);
}

static void test_probe_refuses(void **state)
{
    (void)state;
    struct tt_problem p = {.coll = TUTTI_BROADCAST, .ranks = 4, .root = 4};
    expect_probe(&tt_algo_oneshot, p, TUTTI_ERR_RANGE, "root 4");
    p.root = 3;
    expect_probe(&tt_algo_ring, p, TUTTI_ERR_REFUSED, "allreduce, reduce-scatter, all-gather");
    p.coll = TUTTI_ALLREDUCE;
    p.ranks = 0;
    expect_probe(&tt_algo_ring, p, TUTTI_ERR_RANGE, "0 ranks");
    p.ranks = TT_MAX_RANKS + 1;
    expect_probe(&tt_algo_circulant, p, TUTTI_ERR_LIMIT, "at most");
    p.ranks = TT_MAX_RANKS;
    expect_probe(&tt_algo_ring, p, TUTTI_ERR_REFUSED, "steps");
    expect_probe(&tt_algo_direct, p, TUTTI_ERR_REFUSED, "buffers");
    expect_probe(&tt_algo_oneshot, p, TUTTI_ERR_REFUSED, "buffers");
    p.coll = TUTTI_ALL_TO_ALL;
    p.ranks = 65536;
    expect_probe(&tt_algo_direct, p, TUTTI_ERR_REFUSED, "65535");
    p.coll = (tutti_coll)TUTTI_COLL_COUNT;
    expect_probe(&tt_algo_direct, p, TUTTI_ERR_ARG, "unknown");
}

static void test_slice_range(void **state)
{
    (void)state;
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = 4, .count = 8}};
    struct tt_sched *s = NULL;
    assert_int_equal(tt_algo_slice(&tt_algo_ring, &a, 4, 1, &s, NULL), TUTTI_ERR_RANGE);
    assert_int_equal(tt_algo_slice(&tt_algo_ring, &a, 3, 2, &s, NULL), TUTTI_ERR_RANGE);
    assert_int_equal(tt_algo_slice(&tt_algo_ring, &a, 2, UINT32_MAX, &s, NULL), TUTTI_ERR_RANGE);
    assert_int_equal(tt_algo_slice(&tt_algo_ring, &a, 0, 0, &s, NULL), TUTTI_ERR_RANGE);
    assert_null(s);
}

static void test_topology_must_fit(void **state)
{
    (void)state;
    struct tt_algo needy = some_algo;
    struct tt_topo topo = {.ranks = 5};
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = 4, .count = 8}};
    struct tutti_error err;
    needy.needs_topo = true;
    assert_int_equal(tt_algo_probe(&needy, &a, &err), TUTTI_ERR_REFUSED);
    expect_says(err.text, "a miracle");
    a.topo = &topo;
    assert_int_equal(tt_algo_probe(&needy, &a, &err), TUTTI_ERR_MISMATCH);
    topo.ranks = 4;
    assert_int_equal(tt_algo_probe(&needy, &a, &err), TUTTI_OK);
}

static void test_table(void **state)
{
    (void)state;
    static const char *const names[] = {
        "ring",  "bi-ring", "recursive-doubling", "halving-doubling", "circulant", "direct", "double-tree", "bucket", "hierarchical",
        "swing", "chain",   "binomial",           "oneshot"};
    struct tutti_error err;
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    assert_true(n >= countof(names));
    for (size_t i = 0; i < countof(names); i++)
        assert_ptr_equal(table[i], tt_algo_find(names[i]));
    for (size_t i = 0; i < n; i++) {
        assert_true(table[i]->desc && table[i]->needs && table[i]->colls && table[i]->shape);
        assert_true(!table[i]->slice != !table[i]->build);
    }
    assert_null(tt_algo_find("rnig"));
    assert_int_equal(tt_algo_unknown("rnig", &err), TUTTI_ERR_ARG);
    expect_says(err.text, "no algorithm 'rnig'; did you mean ring");
    assert_int_equal(tt_algo_unknown("zzzzz", &err), TUTTI_ERR_ARG);
    expect_says(err.text, "(known: auto, ring, ");
    expect_says(err.text, ", forest)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values_and_defaults),  cmocka_unit_test(test_add_refuses),
        cmocka_unit_test(test_add_longest_and_most), cmocka_unit_test(test_check_refuses),
        cmocka_unit_test(test_format_is_sorted),     cmocka_unit_test(test_shape_has_options),
        cmocka_unit_test(test_probe_refuses),        cmocka_unit_test(test_slice_range),
        cmocka_unit_test(test_topology_must_fit),    cmocka_unit_test(test_table),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
