/* test_topo_gen.c - the generators: counts, links, golden distances (research/flex_dln.md 2.2), ports, rotation, hierarchies. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo.h"
#include "topo_spec.h"

struct golden {
    const char *spec;
    uint32_t ranks, switches, links, degree, diameter;
    double mean, tolerance;
};

static void check(const struct golden *g)
{
    struct tt_topo *t = topo_of(g->spec);
    struct tt_topo_metrics m;
    assert_int_equal(tt_topo_measure(t, &m, NULL), TUTTI_OK);
    if (m.ranks != g->ranks || m.switches != g->switches || m.links != g->links || m.degree != g->degree || m.diameter != g->diameter ||
        fabs(m.mean_path - g->mean) > g->tolerance)
        fail_msg("%s: ranks %u switches %u links %u degree %u diameter %u mean %.6f", g->spec, m.ranks, m.switches, m.links, m.degree,
                 m.diameter, m.mean_path);
    tt_topo_free(t);
}

static void test_golden_dln(void **state)
{
    (void)state;
    static const struct golden table[] = {
        {"dln:64", 64, 0, 352, 11, 3, 2.143, 5e-4},
        {"dln:256", 256, 0, 1920, 15, 4, 2.788, 5e-4},
        {"dln:1024", 1024, 0, 9728, 19, 5, 3.448, 5e-4},
        {"dln:4096", 4096, 0, 47104, 23, 6, 4.112, 5e-4},
        {"hypercube:64", 64, 0, 192, 6, 6, 6 * 32.0 / 63, 1e-12},
        {"hypercube:256", 256, 0, 1024, 8, 8, 8 * 128.0 / 255, 1e-12},
        {"hypercube:1024", 1024, 0, 5120, 10, 10, 10 * 512.0 / 1023, 1e-12},
        {"hypercube:4096", 4096, 0, 24576, 12, 12, 12 * 2048.0 / 4095, 1e-12},
        {"torus:8x8", 64, 0, 128, 4, 8, 4.06, 5e-3},
        {"torus:16x16", 256, 0, 512, 4, 16, 8.03, 5e-3},
        {"torus:32x32", 1024, 0, 2048, 4, 32, 16.02, 5e-3},
        {"torus:64x64", 4096, 0, 8192, 4, 64, 32.01, 1e-2},
        {"dln:1024,t=0", 1024, 0, 1024, 2, 512, 262144.0 / 1023, 1e-9},
        {"dln:1024,t=3", 1024, 0, 1024 * 3 + 512, 7, 65, 33.154, 5e-4},
        {"dln2d:8x8,t=0", 64, 0, 128, 4, 8, 4.06, 5e-3},
    };
    for (size_t i = 0; i < countof(table); i++)
        check(&table[i]);
}

static void test_golden_others(void **state)
{
    (void)state;
    static const struct golden table[] = {
        {"star:1", 1, 1, 1, 1, 0, 0, 0},
        {"star:8", 8, 1, 8, 8, 2, 2, 0},
        {"ring:1", 1, 0, 0, 0, 0, 0, 0},
        {"ring:2", 2, 0, 1, 1, 1, 1, 0},
        {"ring:3", 3, 0, 3, 2, 1, 1, 0},
        {"ring:5", 5, 0, 5, 2, 2, 1.5, 0},
        {"full:1", 1, 0, 0, 0, 0, 0, 0},
        {"full:7", 7, 0, 21, 6, 1, 1, 0},
        {"full:8", 8, 0, 28, 7, 1, 1, 0},
        {"torus:1", 1, 0, 0, 0, 0, 0, 0},
        {"torus:2x2", 4, 0, 4, 2, 2, 4.0 / 3, 1e-12},
        {"torus:1x4x1", 4, 0, 4, 2, 2, 4.0 / 3, 1e-12},
        {"torus:4x2x3", 24, 0, 24 + 12 + 24, 5, 4, 24.0 / 23 * (1 + 0.5 + 2.0 / 3), 1e-12},
        {"mesh:4x4", 16, 0, 24, 4, 6, 8.0 / 3, 1e-12},
        {"mesh:3", 3, 0, 2, 2, 2, 4.0 / 3, 1e-12},
        {"mesh:1", 1, 0, 0, 0, 0, 0, 0},
        {"hypercube:1", 1, 0, 0, 0, 0, 0, 0},
        {"fattree:4,2", 16, 8, 32, 8, 4, (3 * 2 + 12 * 4) / 15.0, 1e-12},
        {"fattree:2,3", 8, 12, 24, 4, 6, (2 + 2 * 4 + 4 * 6) / 7.0, 1e-12},
        {"fattree:5,1", 5, 1, 5, 5, 2, 2, 0},
        {"bigraph:4x8", 32, 8, 48, 8, 4, (3 * 2 + 16 * 3 + 12 * 4) / 31.0, 1e-12},
        {"bigraph:1x2", 2, 2, 3, 2, 3, 3, 0},
        {"dragonfly:1,1,3", 3, 1, 3, 3, 2, 2, 0},
        {"dragonfly:3,2,1", 6, 6, 6 + 3 + 3, 3, 5, 3.8, 1e-12}, /* its routers form a ring of 6 */
        {"dln:1", 1, 0, 0, 0, 0, 0, 0},
        {"dln:2", 2, 0, 1, 1, 1, 1, 0},
        {"dln:3", 3, 0, 3, 2, 1, 1, 0},                        /* ceil(3/2) = 2 is the jump -1 */
        {"dln:12", 12, 0, 6 + 12 * 3, 7, 2, 15.0 / 11, 1e-12}, /* jumps 6 3 2 1 */
        {"dln:8,h=1", 8, 0, 20, 5, 2, 9.0 / 7, 1e-12},
        {"dln:8,h=3", 24, 8, 24 + 20, 8, 4, (2 * 2 + 15 * 3 + 6 * 4) / 23.0, 1e-12},
        {"nics:10G,10G,10G,2.5G", 4, 1, 4, 4, 2, 2, 0},
        {"nics:1G", 1, 1, 1, 1, 0, 0, 0},
        {"tree:((4 4)(4 2))", 14, 7, 20, 5, 6, 422.0 / 91, 1e-12},
        {"tree:3", 3, 1, 3, 3, 2, 2, 0},
        {"tree:1", 1, 1, 1, 1, 0, 0, 0},
    };
    for (size_t i = 0; i < countof(table); i++)
        check(&table[i]);
}

/* Distances counted by searches from every rank, against tt_topo_measure's short cuts. */
static void test_measure_against_search(void **state)
{
    (void)state;
    static const char *const specs[] = {"dln:37,t=2",
                                        "dln:40,h=3",
                                        "dln2d:6x9",
                                        "dln2d:4x16,t=3",
                                        "mesh:3x1x5",
                                        "torus:5x4x2",
                                        "fattree:3,3",
                                        "bigraph:2x6",
                                        "full:9",
                                        "dragonfly:7,3,2",
                                        "tree:((3 1)(2)5(1 (1 2)))",
                                        "star:6",
                                        "ring:11",
                                        "hypercube:32",
                                        "dragonfly:5,1,1"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_topo_metrics m;
        uint64_t total = 0;
        uint32_t max = 0, *dist = calloc(2 * t->g.n, sizeof *dist);
        for (uint32_t a = 0; a < t->ranks; a++) {
            tt_graph_bfs(&t->g, a, dist, dist + t->g.n);
            for (uint32_t b = 0; b < t->ranks; b++) {
                total += dist[b];
                max = dist[b] > max ? dist[b] : max;
            }
        }
        assert_int_equal(tt_topo_measure(t, &m, NULL), TUTTI_OK);
        double mean = (double)total / ((double)t->ranks * (t->ranks - 1));
        if (m.diameter != max || fabs(m.mean_path - mean) > 1e-12)
            fail_msg("%s: diameter %u mean %.9f, by search %u %.9f", specs[i], m.diameter, m.mean_path, max, mean);
        free(dist);
        tt_topo_free(t);
    }
}

static void expect_link(const struct tt_topo *t, uint32_t i, uint32_t a, uint32_t b)
{
    if (t->links[i].a != a || t->links[i].b != b)
        fail_msg("%s link %u: %u-%u instead of %u-%u", t->spec, i, t->links[i].a, t->links[i].b, a, b);
}

static void test_links(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:3x2");
    expect_link(t, 0, 0, 2);
    expect_link(t, 1, 1, 3);
    expect_link(t, 4, 4, 0);
    expect_link(t, 6, 0, 1);
    expect_link(t, 8, 4, 5);
    assert_int_equal(t->ndims, 2);
    assert_int_equal(t->dims[0], 3);
    assert_true(t->wrap);
    tt_topo_free(t);

    t = topo_of("dln:8");
    expect_link(t, 7, 7, 0);
    expect_link(t, 8, 0, 2);
    expect_link(t, 16, 0, 4);
    expect_link(t, 19, 3, 7);
    assert_int_equal(t->ndims, 0);
    tt_topo_free(t);

    t = topo_of("fattree:2,2,over=4@8GB/s");
    expect_link(t, 3, 3, 5);
    expect_link(t, 4, 4, 6);
    expect_link(t, 5, 4, 7);
    expect_link(t, 7, 5, 7);
    assert_true(t->links[3].bw[0] == 8e9 && t->links[4].bw[0] == 2e9 && t->links[4].bw[1] == 2e9);
    tt_topo_free(t);

    t = topo_of("bigraph:2x4");
    expect_link(t, 5, 5, 10);
    expect_link(t, 8, 8, 10);
    expect_link(t, 11, 9, 11);
    tt_topo_free(t);

    t = topo_of("dragonfly:3,2,1");
    expect_link(t, 6, 6, 7);   /* group 0 */
    expect_link(t, 9, 6, 8);   /* groups 0 1: first cable of both */
    expect_link(t, 10, 7, 10); /* groups 0 2: second of 0, first of 2 */
    expect_link(t, 11, 9, 11); /* groups 1 2: second of both */
    tt_topo_free(t);
}

static void test_rotational(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        bool rotational;
    } table[] = {{"star:8", true},       {"full:5", true},      {"ring:7,half", true},      {"dln:64,t=2", true},
                 {"dln:8,h=1", true},    {"nics:1G,1G", true},  {"nics:1G,2G", false},      {"dln:8,h=2", false},
                 {"torus:4x4", false},   {"mesh:8", false},     {"hypercube:8", false},     {"fattree:2,2", false},
                 {"bigraph:1x2", false}, {"tree:(2 2)", false}, {"dragonfly:3,2,1", false}, {"dln2d:4x4", false}};
    for (size_t i = 0; i < countof(table); i++) {
        struct tt_topo *t = topo_of(table[i].spec);
        if (t->rotational != table[i].rotational)
            fail_msg("%s", table[i].spec);
        tt_topo_free(t);
    }
}

static void test_tree(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("tree:((4 4:2.5G)(4 2):1G)@100Gbps/25Gbps/10Gbps");
    const struct tt_tree *tree = t->tree;
    static const uint32_t first[7] = {1, 3, 5, 7, 11, 15, 19}, count[7] = {2, 2, 2, 4, 4, 4, 2};
    static const double uplink[7] = {0, 10e9 / 8, 1e9 / 8, 25e9 / 8, 2.5e9 / 8, 25e9 / 8, 25e9 / 8};
    assert_int_equal(tree->nnodes, 21);
    for (uint32_t i = 0; i < 7; i++) {
        assert_int_equal(tree->first[i], first[i]);
        assert_int_equal(tree->count[i], count[i]);
        assert_int_equal(tree->rank[i], UINT32_MAX);
        if (i)
            assert_true(t->links[tree->uplink[i]].bw[0] == uplink[i]);
    }
    for (uint32_t i = 7; i < 21; i++) { /* all leaves are equally deep here: breadth-first is left to right */
        assert_int_equal(tree->count[i], 0);
        assert_int_equal(tree->rank[i], i - 7);
        assert_int_equal(t->links[tree->uplink[i]].a, i - 7);
        assert_true(t->links[tree->uplink[i]].bw[1] == 12.5e9);
    }
    assert_int_equal(tree->parent[0], UINT32_MAX);
    assert_int_equal(tree->parent[19], 6);
    assert_int_equal(tree->uplink[0], UINT32_MAX);
    tt_topo_free(t);

    t = topo_of("tree:((1)2)@8GB/s/4GB/s"); /* unequal depth: rank 0 is deeper than 1 and 2, the last bandwidth is repeated */
    assert_int_equal(t->tree->nnodes, 7);
    assert_int_equal(t->tree->rank[4], 1);
    assert_int_equal(t->tree->rank[6], 0);
    assert_int_equal(t->tree->parent[6], 3);
    assert_true(t->links[t->tree->uplink[1]].bw[0] == 4e9 && t->links[t->tree->uplink[6]].bw[0] == 8e9);
    tt_topo_free(t);

    /* ranks of two speeds behind one uplink, and ranks beside a group: switches are root, (..) and 2; no switch for NxRATE */
    t = topo_of("tree:((3x25G 2x10G):40G 1x5G 2)@100Gbps/20Gbps");
    static const double rate[8] = {25, 25, 25, 10, 10, 5, 100, 100};
    static const uint32_t home[8] = {9, 9, 9, 9, 9, 8, 10, 10};
    assert_int_equal(t->ranks, 8);
    assert_int_equal(t->switches, 3);
    assert_int_equal(t->tree->nnodes, 11);
    assert_int_equal(t->nlinks, 10);
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        if (l->a < t->ranks) {
            assert_int_equal(l->b, home[l->a]);
            assert_true(l->bw[0] == rate[l->a] * 1e9 / 8 && l->bw[1] == l->bw[0]);
        } else {
            assert_int_equal(l->b, 8);
            assert_true(l->bw[0] == (l->a == 9 ? 40e9 : 20e9) / 8);
        }
    }
    tt_topo_free(t);

    t = topo_of("nics:2x10G,1G");
    struct tt_topo *same = topo_of("nics:10G,10G,1G"), *tree_of = topo_of("tree:(2x10G 1x1G)");
    assert_true(t->hash == same->hash);
    assert_true(tt_topo_cables_hash(t) == tt_topo_cables_hash(tree_of));
    tt_topo_free(t);
    tt_topo_free(same);
    tt_topo_free(tree_of);

    t = topo_of("nics:10G,2.5G@1G,7us");
    assert_int_equal(t->tree->nnodes, 3);
    assert_int_equal(t->tree->count[0], 2);
    assert_int_equal(t->tree->rank[2], 1);
    assert_true(t->links[0].bw[0] == 1.25e9 && t->links[1].bw[1] == 3.125e8);
    assert_int_equal(t->links[1].latency_ps, 7000000);
    tt_topo_free(t);
}

static void test_ports(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t rank, ports;
        double egress;
    } table[] = {{"torus:4x4@1GB/s", 5, 4, 4e9},
                 {"mesh:4x4@1GB/s", 0, 2, 2e9},
                 {"torus:4x4,ports=1@1GB/s", 5, 1, 1e9},
                 {"star:4@1GB/s", 0, 1, 1e9},
                 {"star:4,ports=3@1GB/s", 0, 3, 1e9},
                 {"nics:8G,16G", 1, 1, 2e9},
                 {"ring:1", 0, 1, 0},
                 {"dln:64@1GB/s", 9, 11, 11e9}};
    for (size_t i = 0; i < countof(table); i++) {
        struct tt_topo *t = topo_of(table[i].spec);
        assert_int_equal(tt_topo_ports(t, table[i].rank), table[i].ports);
        assert_true(tt_topo_egress(t, table[i].rank) == table[i].egress);
        assert_true(tt_topo_ingress(t, table[i].rank) == table[i].egress);
        tt_topo_free(t);
    }
}

/* Different speeds: the fastest links count first; directions are told apart. */
static void test_ports_uneven(void **state)
{
    (void)state;
    static const double bw[3][2] = {{3e9, 30e9}, {5e9, 50e9}, {5e9, 1e9}};
    struct tt_topo *t;
    assert_int_equal(tt_topo_new("custom", 4, 0, &t, NULL), TUTTI_OK);
    for (uint32_t i = 0; i < 3; i++) {
        struct tt_link l = {.a = 0, .b = i + 1, .bw = {bw[i][0], bw[i][1]}};
        assert_int_equal(tt_topo_add_link(t, &l, NULL), TUTTI_OK);
    }
    t->ports = 2;
    assert_int_equal(tt_topo_finish(t, &t, NULL), TUTTI_OK);
    assert_true(tt_topo_egress(t, 0) == 10e9);
    assert_true(tt_topo_ingress(t, 0) == 80e9);
    tt_topo_free(t);
}

static void test_finish_refuses(void **state)
{
    (void)state;
    struct tutti_error err;
    struct tt_topo *t, *done = NULL;
    struct tt_link l = {.a = 0, .b = 1, .bw = {1e9, 1e9}};
    assert_int_equal(tt_topo_new("custom", 4, 0, &t, &err), TUTTI_OK);
    tt_topo_add_link(t, &l, &err);
    l.a = 2;
    l.b = 3;
    tt_topo_add_link(t, &l, &err);
    assert_int_equal(tt_topo_finish(t, &done, &err), TUTTI_ERR_RANGE);
    assert_non_null(strstr(err.text, "rank 0 cannot reach rank 2"));

    assert_int_equal(tt_topo_new("custom", 1000000, 0, &t, &err), TUTTI_OK);
    assert_int_equal(tt_topo_finish(t, &done, &err), TUTTI_ERR_RANGE);
    assert_non_null(strstr(err.text, "rank 1 cannot reach rank 0"));

    static const struct tt_link bad[] = {{.a = 0, .b = 2, .bw = {1e9, 1e9}},
                                         {.a = 1, .b = 1, .bw = {1e9, 1e9}},
                                         {.a = 0, .b = 1, .bw = {0, 1e9}},
                                         {.a = 0, .b = 1, .bw = {1e9, -1}},
                                         {.a = 0, .b = 1, .bw = {NAN, 1e9}},
                                         {.a = 0, .b = 1, .bw = {INFINITY, 1e9}},
                                         {.a = 0, .b = 1, .bw = {1e9, 1e9}, .latency_ps = UINT64_MAX}};
    for (size_t i = 0; i < countof(bad); i++) {
        assert_int_equal(tt_topo_new("custom", 2, 0, &t, &err), TUTTI_OK);
        tt_topo_add_link(t, &bad[i], &err);
        assert_int_equal(tt_topo_finish(t, &done, &err), TUTTI_ERR_RANGE);
        assert_non_null(strstr(err.text, "link 0"));
    }
    assert_null(done);
    assert_int_equal(tt_topo_new("custom", 0, 0, &t, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_topo_new("custom", UINT32_MAX, 0, &t, &err), TUTTI_ERR_LIMIT);
    assert_int_equal(tt_topo_new("custom", 1, UINT32_MAX, &t, &err), TUTTI_ERR_LIMIT);
    tt_topo_free(NULL);
}

/* Large ones are made and measured in well under a second; a quadratic step would time out here. */
static void test_large(void **state)
{
    (void)state;
    static const struct golden table[] = {
        {"star:65536", 65536, 1, 65536, 65536, 2, 2, 0},
        {"torus:256x256", 65536, 0, 131072, 4, 256, 128.0 * 65536 / 65535, 1e-9},
        {"dln:65536", 65536, 0, 65536 * 15 + 32768, 31, 8, 5.4445, 1e-4},
        {"bigraph:4x1024", 4096, 1024, 4096 + 512 * 512, 516, 4, (3 * 2 + 2048 * 3 + 2044 * 4) / 4095.0, 1e-12},
    };
    for (size_t i = 0; i < countof(table); i++)
        check(&table[i]);
}

/* Cables behind which there is no rank; the direction points there. */
static void test_nowhere(void **state)
{
    static const struct {
        const char *spec;
        uint32_t cables;
    } cases[] = {{"tree:((2 2):40G)", 1}, {"tree:(((2 2)))", 2}, {"tree:((2 2):40G (1):40G)", 0},
                 {"tree:(2 2)", 0},       {"star:8", 0},         {"fattree:8,2", 0},
                 {"torus:4x4", 0},        {"star:1", 0}};
    (void)state;
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_topo *t = topo_of(cases[i].spec);
        uint32_t first = 0, n = tt_topo_nowhere(t, &first);
        if (n != cases[i].cables)
            fail_msg("%s: %u cables lead nowhere, not %u", cases[i].spec, n, cases[i].cables);
        if (n)
            assert_int_equal(first & 1 ? t->links[first / 2].a : t->links[first / 2].b, t->ranks); /* the root */
        tt_topo_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_dln), cmocka_unit_test(test_golden_others), cmocka_unit_test(test_measure_against_search),
        cmocka_unit_test(test_links),      cmocka_unit_test(test_rotational),    cmocka_unit_test(test_tree),
        cmocka_unit_test(test_ports),      cmocka_unit_test(test_ports_uneven),  cmocka_unit_test(test_finish_refuses),
        cmocka_unit_test(test_large),      cmocka_unit_test(test_nowhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
