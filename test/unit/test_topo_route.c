/* test_topo_route.c - routes: contiguous, as short as a search says, deterministic, spread; ties as documented; all search modes agree. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo.h"
#include "topo_spec.h"

static uint32_t tail_of(const struct tt_topo *t, uint32_t arc)
{
    return arc & 1 ? t->links[arc / 2].b : t->links[arc / 2].a;
}

static uint32_t route(const struct tt_topo *t, uint32_t a, uint32_t b, uint32_t *links)
{
    uint32_t len = 0;
    struct tutti_error err;
    if (tt_topo_route(t, a, b, links, tt_topo_max_route(t), &len, &err) != TUTTI_OK)
        fail_msg("%s: %s", t->spec, err.text);
    uint32_t at = a;
    for (uint32_t i = 0; i < len; i++) {
        assert_true(links[i] < 2 * t->nlinks);
        if (tail_of(t, links[i]) != at)
            fail_msg("%s: %u to %u is broken at hop %u", t->spec, a, b, i);
        at = tail_of(t, links[i] ^ 1);
    }
    if (at != b || len > tt_topo_max_route(t))
        fail_msg("%s: %u to %u ends at %u after %u links (at most %u)", t->spec, a, b, at, len, tt_topo_max_route(t));
    return len;
}

static void test_all_pairs_shortest(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "star:5",      "ring:2",          "ring:9",          "ring:10",      "full:6",      "full:7",        "torus:4x2x3",
        "torus:5x5",   "torus:1x6",       "mesh:3x4x2",      "hypercube:32", "fattree:2,4", "fattree:4,3",   "fattree:7,1",
        "bigraph:3x6", "dln:37,t=2",      "dln:64",          "dln:11,h=2",   "dln2d:6x9",   "dln2d:8x4,t=2", "tree:((3 1)(2)5(1 (1 2)))",
        "nics:1G,2G",  "dragonfly:7,3,2", "dragonfly:4,1,2", "dln:12,half"};
    uint32_t links[64];
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        uint32_t *dist = calloc(2 * t->g.n, sizeof *dist);
        assert_true(tt_topo_max_route(t) <= countof(links));
        for (uint32_t a = 0; a < t->ranks; a++) {
            tt_graph_bfs(&t->g, a, dist, dist + t->g.n);
            for (uint32_t b = 0; b < t->ranks; b++)
                if (a != b && route(t, a, b, links) != dist[b])
                    fail_msg("%s: %u to %u is not a shortest route", specs[i], a, b);
        }
        free(dist);
        tt_topo_free(t);
    }
}

/* The vertices of a route as text. */
static const char *path(const struct tt_topo *t, uint32_t a, uint32_t b)
{
    static char buf[256];
    uint32_t links[64], len = route(t, a, b, links);
    int n = snprintf(buf, sizeof buf, "%u", a);
    for (uint32_t i = 0; i < len; i++)
        n += snprintf(buf + n, sizeof buf - (size_t)n, " %u", tail_of(t, links[i] ^ 1));
    return buf;
}

static void test_ties(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        uint32_t a, b;
        const char *path;
    } table[] = {
        {"ring:4", 0, 2, "0 1 2"},
        {"ring:4", 3, 1, "3 0 1"},
        {"ring:5", 0, 3, "0 4 3"},
        {"dln:8", 0, 3, "0 1 3"},           /* +1 +2 before +2 +1 and +4 -1 */
        {"dln:8", 0, 5, "0 1 5"},           /* +1 +4 */
        {"dln:8", 7, 3, "7 3"},             /* the cable 3-7 backwards */
        {"dln:16", 0, 13, "0 1 13"},        /* +1 -4 before the negative first hops */
        {"torus:4x4", 0, 10, "0 4 8 9 10"}, /* first dimension first, ties positive */
        {"torus:4x4", 15, 0, "15 3 0"},
        {"mesh:3x3", 8, 0, "8 5 2 1 0"},
        {"hypercube:8", 0, 7, "0 4 6 7"},
        {"hypercube:8", 7, 0, "7 3 1 0"},
        {"bigraph:1x4", 0, 1, "0 4 6 5 1"}, /* the lower of the two common switches */
        {"fattree:2,2", 0, 2, "0 4 6 5 2"}, /* spine = last digit of the destination */
        {"fattree:2,2", 0, 3, "0 4 7 5 3"},
        {"fattree:2,2", 0, 1, "0 4 1"},
        {"star:3", 2, 0, "2 3 0"},
        {"dln:4,h=2", 0, 7, "0 8 11 7"},
    };
    for (size_t i = 0; i < countof(table); i++) {
        struct tt_topo *t = topo_of(table[i].spec);
        assert_string_equal(path(t, table[i].a, table[i].b), table[i].path);
        tt_topo_free(t);
    }
}

/* On a rotational network the route of (a, b) is that of (0, b-a) shifted. */
static void test_shifted(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("dln:24,t=2");
    uint32_t x[32], y[32];
    for (uint32_t o = 1; o < 24; o++)
        for (uint32_t a = 0; a < 24; a++) {
            uint32_t n = route(t, 0, o, x), m = route(t, a, (a + o) % 24, y);
            assert_int_equal(n, m);
            for (uint32_t i = 0; i < n; i++)
                assert_int_equal((tail_of(t, x[i]) + a) % 24, tail_of(t, y[i]));
        }
    tt_topo_free(t);
}

/* Shift halving-doubling on the full DLN: every message one link, no directed link twice in a step. */
static void test_dln_carries_shifts(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {2, 3, 5, 7, 12, 48, 64, 100, 129};
    for (size_t i = 0; i < countof(sizes); i++) {
        char spec[32];
        snprintf(spec, sizeof spec, "dln:%u", sizes[i]);
        struct tt_topo *t = topo_of(spec);
        for (uint32_t c = sizes[i]; c > 1; c = (c + 1) / 2) {
            uint8_t *used = calloc(2 * t->nlinks, 1);
            for (uint32_t r = 0; r < sizes[i]; r++) {
                uint32_t links[32];
                assert_int_equal(route(t, r, (r + (c + 1) / 2) % sizes[i], links), 1);
                assert_int_equal(used[links[0]]++, 0);
            }
            free(used);
        }
        tt_topo_free(t);
    }
}

/* A cyclic shift by any distance on a fat-tree uses no directed link twice. */
static void test_fattree_spreads(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("fattree:4,3");
    for (uint32_t s = 1; s < 64; s++) {
        uint8_t used[2 * 192] = {0};
        for (uint32_t r = 0; r < 64; r++) {
            uint32_t links[8], n = route(t, r, (r + s) % 64, links);
            for (uint32_t i = 0; i < n; i++)
                assert_int_equal(used[links[i]]++, 0);
        }
    }
    tt_topo_free(t);
}

static struct tt_topo *custom(uint32_t ranks, uint32_t switches, const uint32_t (*ends)[2], size_t n)
{
    struct tt_topo *t;
    assert_int_equal(tt_topo_new("custom", ranks, switches, &t, NULL), TUTTI_OK);
    for (size_t i = 0; i < n; i++) {
        struct tt_link l = {.a = ends[i][0], .b = ends[i][1], .bw = {1e9, 1e9}};
        assert_int_equal(tt_topo_add_link(t, &l, NULL), TUTTI_OK);
    }
    struct tutti_error err;
    if (tt_topo_finish(t, &t, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return t;
}

static void test_parallel_links(void **state)
{
    (void)state;
    static const uint32_t ends[][2] = {{0, 4}, {1, 4}, {2, 5}, {3, 5}, {4, 5}, {5, 4}, {4, 5}};
    struct tt_topo *t = custom(4, 2, ends, countof(ends));
    uint32_t links[8];
    assert_int_equal(route(t, 0, 2, links), 3);
    assert_int_equal(links[1], 12); /* destination 2 mod 3: the third parallel cable */
    assert_int_equal(route(t, 1, 3, links), 3);
    assert_int_equal(links[1], 8); /* 3 mod 3: the first */
    assert_int_equal(route(t, 3, 1, links), 3);
    assert_int_equal(links[1], 10); /* 1 mod 3: the second, laid from 5 to 4 */
    tt_topo_free(t);
}

/* A dense network beyond the table's limits gets the routes a small one's table gives. */
static void test_search_per_query(void **state)
{
    (void)state;
    struct tt_topo *big = topo_of("bigraph:1x2048");
    uint32_t links[16];
    assert_int_equal(route(big, 5, 7, links), 4);
    assert_int_equal(tail_of(big, links[2]), 2048 + 1024);
    assert_int_equal(route(big, 2047, 1030, links), 4);
    assert_int_equal(tail_of(big, links[2]), 2048);
    assert_int_equal(route(big, 0, 2000, links), 3);
    tt_topo_free(big);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:8");
    struct tutti_error err;
    uint32_t links[8], len = 77;
    assert_int_equal(tt_topo_route(t, 0, 8, links, 8, &len, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_topo_route(t, 8, 0, links, 8, &len, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_topo_route(t, 3, 3, links, 8, &len, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_topo_route(t, 0, 1, links, 3, &len, &err), TUTTI_ERR_ARG);
    assert_int_equal(len, 77);
    tt_topo_free(t);
}

static void test_large(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("torus:256x256");
    uint32_t *links = calloc(tt_topo_max_route(t), sizeof *links);
    assert_int_equal(tt_topo_max_route(t), 256);
    for (uint32_t i = 1; i < 10000; i++)
        route(t, i, (i * 7919u) % 65536 == i ? 0 : (i * 7919u) % 65536, links);
    free(links);
    tt_topo_free(t);
    t = topo_of("dln:65536");
    uint32_t few[8];
    for (uint32_t i = 1; i < 10000; i++)
        assert_true(route(t, 0, i, few) <= 8);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_pairs_shortest),
        cmocka_unit_test(test_ties),
        cmocka_unit_test(test_shifted),
        cmocka_unit_test(test_dln_carries_shifts),
        cmocka_unit_test(test_fattree_spreads),
        cmocka_unit_test(test_parallel_links),
        cmocka_unit_test(test_search_per_query),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
