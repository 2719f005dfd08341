/* test_topo_dln.c - loop networks: jumps, degree, diameter and cables as derived in the research notes; shortcut networks; bisection; cable
 * on the floor. */
#include "support.h"

#include <math.h>

static struct tt_topo_metrics metrics_of(const char *spec)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_topo_metrics m;
    assert_int_equal(tt_topo_measure(t, &m, NULL), TUTTI_OK);
    tt_topo_free(t);
    return m;
}

static void test_full(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t degree, diameter, links;
        double mean;
    } cases[] = {{"dln:64", 11, 3, 352, 2.143},       {"dln:256", 15, 4, 1920, 2.788},          {"dln:1024", 19, 5, 9728, 3.448},
                 {"dln:4096", 23, 6, 47104, 4.112},   {"dln:1024,t=3", 7, 65, 3584, 33.15},     {"dln:16,t=0", 2, 8, 16, 4.267},
                 {"dln2d:32x32", 18, 6, 9216, 3.566}, {"dln2d:32x32,t=0", 4, 32, 2048, 16.016}, {"dln2d:32x32,t=2", 10, 10, 5120, 5.443}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_topo_metrics m = metrics_of(cases[i].spec);
        assert_int_equal(m.degree, cases[i].degree);
        assert_int_equal(m.diameter, cases[i].diameter);
        assert_int_equal(m.links, cases[i].links);
        assert_true(fabs(m.mean_path - cases[i].mean) < 6e-4 * cases[i].mean);
    }
    assert_int_equal(metrics_of("dln:12").degree, 7); /* jumps 6 3 2 1, 6 is its own inverse */
    assert_int_equal(metrics_of("dln:100").links, 6 * 100 + 50);
    assert_int_equal(metrics_of("dln:64,h=4").ranks, 256);
    assert_int_equal(metrics_of("dln:64,h=4").switches, 64);
    assert_int_equal(metrics_of("dln:64,h=4").degree, 11 + 4);
}

/* Shift halving-doubling needs exactly these cables: every distance of every count is one link. */
static void test_distances_are_links(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 130; n++) {
        char spec[32];
        uint32_t links[8], len;
        snprintf(spec, sizeof spec, "dln:%u", n);
        struct tt_topo *t = topo_of(spec);
        for (uint32_t c = n; c > 1; c = (c + 1) / 2) {
            assert_true(tt_topo_max_route(t) <= countof(links));
            assert_int_equal(tt_topo_route(t, 0, (c + 1) / 2, links, countof(links), &len, NULL), TUTTI_OK);
            assert_int_equal(len, 1);
        }
        tt_topo_free(t);
    }
}

/* Constant degree, diameter within 2.5 ceil(log2 N) + N mod ceil(log2 N) (recollected bound of DSN). */
static void test_dsn(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 300; n += n < 70 ? 1 : 13) {
        char spec[32];
        uint32_t p = tt_ceil_log2(n);
        snprintf(spec, sizeof spec, "dsn:%u", n);
        struct tt_topo_metrics m = metrics_of(spec);
        assert_int_equal(m.ranks, n);
        assert_true(m.degree <= 6);
        assert_true(n < 2 || m.links < 2 * n);
        assert_true(n < 2 || 2 * m.diameter <= 5 * p + 2 * (n % p));
    }
    struct tt_topo_metrics m = metrics_of("dsn:1024");
    assert_int_equal(m.degree, 5);
    assert_int_equal(m.diameter, 11);
    assert_true(m.mean_path < metrics_of("torus:32x32").mean_path / 2);
}

static void expect_bisection(const char *spec, uint64_t want, bool exact)
{
    struct tt_topo *t = topo_of(spec);
    uint64_t links;
    bool is_exact;
    assert_int_equal(tt_topo_bisection(t, &links, &is_exact, NULL), TUTTI_OK);
    assert_int_equal(links, want);
    assert_int_equal(is_exact, exact);
    tt_topo_free(t);
}

static void test_bisection(void **state)
{
    (void)state;
    expect_bisection("star:1", 0, true);
    expect_bisection("ring:2", 1, true);
    expect_bisection("ring:16", 2, true);
    expect_bisection("full:7", 12, true);
    expect_bisection("hypercube:64", 32, true);
    expect_bisection("torus:4x8", 8, true);
    expect_bisection("torus:32x32", 64, true);
    expect_bisection("mesh:4x6", 4, true);
    expect_bisection("torus:2x2x2", 4, true);
    expect_bisection("star:9", 4, true);
    expect_bisection("dln:16,t=0", 2, true);  /* all halves tried */
    expect_bisection("dln:8", 8, true);       /* even against odd */
    expect_bisection("torus:3x3", 8, true);   /* four ranks have at most four cables among them: 4*4 - 2*4 leave */
    expect_bisection("dln:64", 64, false);    /* even against odd */
    expect_bisection("dln:64,t=0", 2, false); /* halves of the ring */
    expect_bisection("fattree:8,2", 32, false);
    expect_bisection("dln:8,h=4", 8, false);
}

static void test_floor(void **state)
{
    (void)state;
    struct tt_topo_floor f;
    struct tt_topo *ring = topo_of("ring:64"), *flat = topo_of("dln:1024"), *grid = topo_of("dln2d:32x32"), *tree = topo_of("fattree:8,2");
    /* 4 racks in 2x2, wound: 60 cables inside, 4 between neighbours: two along a row, two across */
    assert_true(tt_topo_floor(ring, 16, &f));
    assert_int_equal(f.racks, 4);
    assert_int_equal(f.between, 4);
    assert_int_equal(f.total_mm, 60 * 2000 + 2 * (4000 + 600) + 2 * (4000 + 2100));
    assert_int_equal(f.longest_mm, 6100);
    assert_true(tt_topo_floor(ring, 64, &f));
    assert_int_equal(f.total_mm, 64 * 2000);
    /* tiles of 4x4: no cable is longer than a row or a column of the floor */
    assert_true(tt_topo_floor(grid, 16, &f));
    assert_int_equal(f.rows, 8);
    assert_int_equal(f.columns, 8);
    assert_int_equal(f.longest_mm, 4000 + 7 * 2100);
    uint64_t two_dimensional = f.longest_mm;
    assert_true(tt_topo_floor(flat, 16, &f));
    assert_true(f.longest_mm > two_dimensional);
    assert_false(tt_topo_floor(tree, 16, &f));
    assert_false(tt_topo_floor(ring, 0, &f));
    tt_topo_free(ring);
    tt_topo_free(flat);
    tt_topo_free(grid);
    tt_topo_free(tree);
}

static void test_bad(void **state)
{
    (void)state;
    static const char *const specs[] = {"dsn:0",     "dsn:x",     "dsn:8,t=2", "dsn:",         "dsn:2000000",
                                        "dln:8,t=3", "dln:8,h=0", "dln2d:8",   "dln2d:8x8,h=2"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = NULL;
        struct tutti_error err = {0};
        assert_int_not_equal(tt_topo_parse(specs[i], &t, &err), TUTTI_OK);
        assert_null(t);
        assert_true(strlen(err.text) > 5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full),  cmocka_unit_test(test_distances_are_links),
        cmocka_unit_test(test_dsn),   cmocka_unit_test(test_bisection),
        cmocka_unit_test(test_floor), cmocka_unit_test(test_bad),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
