/* test_topo_foreign.c - topology files of other simulators (ns-3 text, ASTRA-sim's analytical yml) and links found by name. */
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

static struct tt_topo *read_text(const char *text)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    if (tt_topo_read_memory(text, strlen(text), "net.txt", &t, &err) != TUTTI_OK)
        fail_msg("%.200s: %s", text, err.text);
    return t;
}

static void refuse(const char *text, const char *a, const char *b)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    tutti_status st = tt_topo_read_memory(text, strlen(text), "net.txt", &t, &err);
    if (st == TUTTI_OK || !strstr(err.text, a) || !strstr(err.text, b) || strncmp(err.text, "net.txt:", 8) != 0)
        fail_msg("%s: status %d \"%s\"; expected \"%s\" and \"%s\"", text, st, st ? err.text : "", a, b);
    assert_null(t);
}

/* ---- ns-3 ---- */

static void ns3_star(void **state)
{
    (void)state;
    struct tt_topo *t = read_text("4 1 3\n3\n0 3 200Gbps 0.0005ms 0\n1 3 200Gbps 0.0005ms 0\n2 3 100Gbps 1us 0.000000\n");
    assert_int_equal(t->ranks, 3);
    assert_int_equal(t->switches, 1);
    assert_int_equal(t->nlinks, 3);
    assert_true(t->links[0].bw[0] == 25e9 && t->links[0].bw[1] == 25e9 && t->links[2].bw[0] == 12.5e9);
    assert_int_equal(t->links[0].latency_ps, 500000);
    assert_int_equal(t->links[2].latency_ps, 1000000);
    assert_false(t->links[0].half);
    assert_null(t->names);
    tt_topo_free(t);
}

/* What is written reads back with the same links; half duplex and uneven rates are refused. */
static void ns3_writes(void **state)
{
    (void)state;
    static const char *const specs[] = {"torus:3x4@100Gbps,7ns", "fattree:4,2@3.3Gbps,1.5us", "tree:((2 1)(3))@10Gbps/25Gbps,2us"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct tt_topo *t = topo_of(specs[i]);
        char *text = NULL;
        size_t len = 0;
        FILE *out = open_memstream(&text, &len);
        assert_int_equal(tt_topo_write_ns3(t, out, NULL), TUTTI_OK);
        fclose(out);
        struct tt_topo *back = read_text(text);
        assert_int_equal(back->ranks, t->ranks);
        assert_int_equal(back->switches, t->switches);
        assert_int_equal(back->nlinks, t->nlinks);
        for (uint32_t k = 0; k < t->nlinks; k++) {
            assert_int_equal(back->links[k].a, t->links[k].a);
            assert_int_equal(back->links[k].b, t->links[k].b);
            assert_int_equal(back->links[k].latency_ps, t->links[k].latency_ps);
            assert_true(back->links[k].bw[0] == t->links[k].bw[0] && back->links[k].bw[1] == t->links[k].bw[1]);
        }
        free(text);
        tt_topo_free(back);
        tt_topo_free(t);
    }
    struct tt_topo *half = topo_of("ring:4@1Gbps,1us,half");
    struct tutti_error err = {0};
    assert_int_equal(tt_topo_write_ns3(half, stderr, &err), TUTTI_ERR_REFUSED);
    tt_topo_free(half);
}

/* Switches with low numbers: ranks are renumbered, and keep the file's numbers as names. */
static void ns3_renumbers(void **state)
{
    (void)state;
    char name[40];
    struct tt_topo *t = read_text(" 5 2 4 \n1 3\n0 1 10Gbps 1us 0\n2 3 10Gbps 1us 0\n1 3 40Gbps 2us 0\n4 3 10Gbps 1us 0");
    assert_int_equal(t->ranks, 3);
    assert_string_equal(tt_topo_vertex_name(t, 1, name, sizeof name), "node 2");
    assert_string_equal(tt_topo_vertex_name(t, 2, name, sizeof name), "node 4");
    assert_string_equal(tt_topo_vertex_name(t, 3, name, sizeof name), "node 1");
    assert_int_equal(t->links[2].a, 3);
    assert_int_equal(t->links[2].b, 4);
    uint32_t links[8], n;
    assert_int_equal(tt_topo_route(t, 0, 2, links, 8, &n, NULL), TUTTI_OK);
    assert_int_equal(n, 3);
    assert_int_equal(links[1], 4);
    tt_topo_free(t);
}

static void ns3_refuses(void **state)
{
    (void)state;
    refuse("4 1", "net.txt:1", "number of links");
    refuse("4 4 3\n", "no ranks", "4");
    refuse("9000000000 1 3\n", "number of nodes", "9000000000");
    refuse("16000000 1 60000000\n", "too short", "60000000");
    refuse("9 1 3\n8\n", "cannot all be joined", "9");
    refuse("3 1 2\n7\n0 2 1G 0 0\n1 2 1G 0 0\n", "net.txt:2", "switch");
    refuse("4 2 3\n2 2\n0 2 1G 0 0\n1 2 1G 0 0\n2 3 1G 0 0\n", "node 2", "twice");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 200XX 1us 0\n", "net.txt:4", "200XX");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 0Gbps 1us 0\n", "net.txt:4", "0Gbps");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 1Gbps 1 0\n", "net.txt:4", "delay");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 1Gbps 1us 0.01\n", "error rate 0.01", "1-2");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n2 2 1Gbps 1us 0\n", "net.txt:4", "itself");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n0 2 1Gbps 1us 0\n", "cannot reach", "net.txt");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 1Gbps 1us 0\n0 1 1Gbps 1us 0\n", "more than the 2 links", "net.txt:5");
    refuse("3 1 2\n2\n0 2 200Gbps 0.0005ms 0\n1 2 1Gbps 1us\n", "ends", "error rate");
}

/* ---- ASTRA-sim ---- */

static void astra_one_dimension(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]  # GB/s\nlatency: [ 500.0 ]  # ns\n", "ring:8@50GB/s,500ns"},
        {"# a switch\n\ntopology: [ Switch ]\nnpus_count: [ 8 ]\nbandwidth: [ 400.0 ]\nlatency: [ 936.25 ]\n", "star:8@400GB/s,936250ps"},
        {"---\ntopology: FullyConnected\nlatency: 0\nbandwidth: 0.5\nnpus_count: 5", "full:5@500MB/s,0"}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_topo *t = read_text(cases[i][0]), *same = topo_of(cases[i][1]);
        if (t->hash != same->hash)
            fail_msg("%s is not %s but %s", cases[i][0], cases[i][1], t->spec);
        tt_topo_free(t);
        tt_topo_free(same);
    }
}

/* 2 x 3 x 4: pairs, full meshes of 3 at distance 2, stars of 4 at distance 6. */
static void astra_product(void **state)
{
    (void)state;
    struct tt_topo *t = read_text("topology: [ Ring, FullyConnected, Switch ]\nnpus_count: [ 2, 3, 4 ]\nbandwidth: [ 200.0, 100.0, 50.0 ]\n"
                                  "latency: [ 50.0, 500.0, 2000.0 ]\n");
    assert_int_equal(t->ranks, 24);
    assert_int_equal(t->switches, 6);
    assert_int_equal(t->nlinks, 12 + 24 + 24);
    assert_int_equal(t->ports, 1 + 2 + 1);
    uint32_t links[8], n;
    assert_int_equal(tt_topo_route(t, 0, 1, links, 8, &n, NULL), TUTTI_OK);
    assert_true(n == 1 && t->links[links[0] / 2].bw[0] == 200e9);
    assert_int_equal(tt_topo_route(t, 0, 4, links, 8, &n, NULL), TUTTI_OK);
    assert_true(n == 1 && t->links[links[0] / 2].bw[0] == 100e9);
    assert_int_equal(tt_topo_route(t, 0, 18, links, 8, &n, NULL), TUTTI_OK);
    assert_true(n == 2 && t->links[links[0] / 2].latency_ps == 2000000);
    assert_int_equal(tt_topo_route(t, 0, 23, links, 8, &n, NULL), TUTTI_OK);
    assert_int_equal(n, 4);
    tt_topo_free(t);
}

/* A few bytes that describe a large network: not every pair of its ranks is searched for. Here any rank stands for all, so that the
 * numbers are those of the torus, which has a formula. */
static void astra_large(void **state)
{
    (void)state;
    struct tt_topo_metrics m, torus;
    struct tt_topo *t =
        read_text("topology: [ Ring, Ring, Ring ]\nnpus_count: [ 20, 20, 20 ]\nbandwidth: [ 1, 1, 1 ]\nlatency: [ 1, 1, 1 ]\n");
    assert_int_equal(tt_topo_measure(t, &m, NULL), TUTTI_OK);
    tt_topo_free(t);
    assert_int_equal(tt_topo_parse("torus:20x20x20", &t, NULL), TUTTI_OK);
    assert_int_equal(tt_topo_measure(t, &torus, NULL), TUTTI_OK);
    tt_topo_free(t);
    assert_true(torus.exact && !m.exact);
    assert_int_equal(m.diameter, torus.diameter);
    assert_true(m.mean_path == torus.mean_path);
}

static void astra_refuses(void **state)
{
    (void)state;
    refuse("topology: [ Torus ]\n", "net.txt:1", "Torus");
    refuse("topology: [ Ring ]\nnpu_count: [ 4 ]\n", "net.txt:2", "npus_count");
    refuse("topology: [ Ring ]\nnpus_count: [ 4 ]\nlatency: [ 1 ]\n", "\"bandwidth\"", "missing");
    refuse("topology: [ Ring ]\nnpus_count: [ 4, 4 ]\nbandwidth: [1]\nlatency: [ 1 ]\n", "npus_count has 2", "topology has 1");
    refuse("topology: [ Ring ]\nnpus_count: [ 4 ]\nbandwidth: [0]\nlatency: [ 1 ]\n", "net.txt:3", "bandwidth");
    refuse("topology: [ Ring ]\nnpus_count: [ 0 ]\nbandwidth: [1]\nlatency: [ 1 ]\n", "net.txt:2", "0");
    refuse("topology: [ Ring\n", "net.txt:1", "]");
    refuse("topology: [ Ring ]\ntopology: [ Ring ]\n", "net.txt:2", "twice");
    refuse("hello\n", "net.txt:1", "hello");
    refuse("topology: [FullyConnected]\nnpus_count: [ 60000 ]\nbandwidth: [1]\nlatency: [ 1 ]\n", "1799970000 links", "1048576");
    refuse("topology: [Ring, Ring]\nnpus_count: [ 60000, 60000 ]\nbandwidth: [1, 1]\nlatency: [ 1, 1 ]\n", "more than", "ranks");
}

/* ---- links by name ---- */

static void finds(const struct tt_topo *t, const char *text, size_t n, uint32_t first, uint32_t last)
{
    struct tt_vec v;
    struct tutti_error err = {0};
    if (tt_topo_find_links(t, text, &v, &err) != TUTTI_OK)
        fail_msg("%s: %s", text, err.text);
    assert_int_equal(v.len, n);
    assert_int_equal(*(uint32_t *)tt_vec_at(&v, 0), first);
    assert_int_equal(*(uint32_t *)tt_vec_at(&v, n - 1), last);
    tt_vec_free(&v);
}

static void finds_not(const struct tt_topo *t, const char *text, const char *why)
{
    struct tt_vec v;
    struct tutti_error err = {0};
    if (tt_topo_find_links(t, text, &v, &err) == TUTTI_OK || !strstr(err.text, why))
        fail_msg("%s: \"%s\"; expected \"%s\"", text, err.text, why);
}

static void links_by_name(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:4");
    finds(t, "rank 3-switch 0", 2, 6, 7);
    finds(t, "switch 0 - rank 3", 2, 7, 6);
    finds(t, "rank 3 -> switch 0", 1, 6, 6);
    finds(t, "switch 0->rank 3", 1, 7, 7);
    finds(t, "3-4", 2, 6, 7);
    finds(t, "2", 2, 4, 5);
    finds_not(t, "4", "no link");
    finds_not(t, "", "no link");
    finds_not(t, "rank 4-switch 0", "\"rank 4\"");
    finds_not(t, "rank 3-switch 1", "\"switch 1\"");
    finds_not(t, "rank 3->", "there is no \"\"");
    finds_not(t, "rank 1-rank 2", "no link joins rank 1 with rank 2");
    tt_topo_free(t);
    t = topo_of("ring:4@1Gbps,1us,half");
    finds(t, "rank 0-rank 1", 1, 0, 0); /* one cable, one rate */
    finds(t, "rank 1 -> rank 0", 1, 0, 0);
    finds(t, "3", 1, 6, 6);
    tt_topo_free(t);
}

static void links_by_given_name(void **state)
{
    (void)state;
    struct tt_topo *t = read_text("{\"ranks\":3,\"names\":[\"a-b\",\"c\",\"a\"],\"links\":[[0,1,\"1G\"],[0,1,\"1G\"],[1,2,\"1G\"]]}");
    finds(t, "a-b-c", 4, 0, 3);
    finds(t, "a-c", 2, 5, 4);
    finds(t, "c->a-b", 2, 1, 3);
    finds_not(t, "b-c", "\"b\"");
    tt_topo_free(t);
    t = read_text("{\"ranks\":4,\"names\":[\"a-b\",\"c\",\"a\",\"b-c\"],\"links\":[[0,1,\"1G\"],[1,2,\"1G\"],[2,3,\"1G\"]]}");
    finds_not(t, "a-b-c", "2 ways");
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(ns3_star),           cmocka_unit_test(ns3_renumbers),
                                       cmocka_unit_test(ns3_refuses), cmocka_unit_test(ns3_writes),        cmocka_unit_test(astra_one_dimension),
                                       cmocka_unit_test(astra_product),      cmocka_unit_test(astra_large),
                                       cmocka_unit_test(astra_refuses),      cmocka_unit_test(links_by_name),
                                       cmocka_unit_test(links_by_given_name)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
