/* test_topo_spec.c - the spec text: what it accepts, what every field does, and that every refusal names the parameter and the value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topo/topo.h"
#include "topo_spec.h"

/* The error text must contain both pieces. */
static void refuse(const char *spec, tutti_status status, const char *a, const char *b)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    tutti_status st = tt_topo_parse(spec, &t, &err);
    if (st != status || !strstr(err.text, a) || !strstr(err.text, b))
        fail_msg("%s: status %d \"%s\"; expected %d with \"%s\" and \"%s\"", spec, st, st ? err.text : "", status, a, b);
    assert_null(t);
    assert_int_equal(err.status, status);
}

static void test_link_part(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:8");
    assert_true(t->links[7].bw[0] == 1.25e9 && t->links[7].bw[1] == 1.25e9);
    assert_int_equal(t->links[7].latency_ps, 1000000);
    assert_false(t->links[7].half);
    assert_true(t->gamma == 0 && t->overhead_ps == 0 && t->ports == 0);
    tt_topo_free(t);

    t = topo_of(" star:8@16GB/s,150ns,0.1ns,half , ports=2,overhead=500ns ");
    assert_true(t->links[0].bw[0] == 16e9);
    assert_int_equal(t->links[0].latency_ps, 150000);
    assert_true(t->links[0].half);
    assert_true(t->gamma == 1e-10);
    assert_int_equal(t->ports, 2);
    assert_int_equal(t->overhead_ps, 500000);
    assert_string_equal(t->spec, "star:8@16GB/s,150ns,0.1ns,half , ports=2,overhead=500ns");
    assert_string_equal(t->kind, "star");
    tt_topo_free(t);

    t = topo_of("torus:2x3,ports=1@5us");
    assert_true(t->links[0].bw[0] == 1.25e9);
    assert_int_equal(t->links[0].latency_ps, 5000000);
    assert_int_equal(t->ports, 1);
    tt_topo_free(t);
}

static void test_every_example_works(void **state)
{
    (void)state;
    size_t n;
    const struct tt_topo_kind *k = tt_topo_kinds(&n);
    assert_int_equal(n, 14);
    for (size_t i = 0; i < n; i++) {
        struct tt_topo *t = topo_of(k[i].example);
        assert_string_equal(t->kind, k[i].name);
        assert_true(strncmp(k[i].form, k[i].name, strlen(k[i].name)) == 0);
        assert_true(t->hash != 0);
        tt_topo_free(t);
    }
}

static void test_impossible_parameters(void **state)
{
    (void)state;
    refuse("star:0", TUTTI_ERR_RANGE, "number of ranks is \"0\"", "1 to 1048576");
    refuse("star:", TUTTI_ERR_PARSE, "star needs parameters", "for example");
    refuse("nics: @1Gbps", TUTTI_ERR_PARSE, "nics needs parameters", "for example");
    refuse("star:,8", TUTTI_ERR_PARSE, "star", "two commas, or one at an end");
    refuse("ring:-3", TUTTI_ERR_RANGE, "number of ranks", "\"-3\"");
    refuse("torus:0x4", TUTTI_ERR_RANGE, "dimension 1 is \"0\"", "1 to 1048576");
    refuse("mesh:4x", TUTTI_ERR_RANGE, "dimension 2 is \"\"", "allowed");
    refuse("hypercube:63", TUTTI_ERR_RANGE, "63", "power of two");
    refuse("fattree:0,2", TUTTI_ERR_RANGE, "arity is \"0\"", "from 2");
    refuse("fattree:8,0", TUTTI_ERR_RANGE, "levels is \"0\"", "from 1 to 20");
    refuse("fattree:8,2,over=0", TUTTI_ERR_RANGE, "over", "\"0\"");
    refuse("fattree:8,2,over=2x", TUTTI_ERR_RANGE, "over", "\"2x\"");
    refuse("bigraph:4x3", TUTTI_ERR_RANGE, "switches is 3", "even");
    refuse("bigraph:4", TUTTI_ERR_PARSE, "\"4\"", "HOSTSxSWITCHES");
    refuse("dln:64,t=6", TUTTI_ERR_RANGE, "is \"6\"", "from 0 to 5");
    refuse("dln:1,t=1", TUTTI_ERR_RANGE, "is \"1\"", "from 0 to 0");
    refuse("dln:8,h=0", TUTTI_ERR_RANGE, "hosts per position", "\"0\"");
    refuse("dln:8,t=1,t=2", TUTTI_ERR_PARSE, "\"t\"", "twice");
    refuse("dln2d:4x4x4", TUTTI_ERR_RANGE, "3 dimensions", "exactly 2");
    refuse("dragonfly:2,0,1", TUTTI_ERR_RANGE, "routers per group", "\"0\"");
    refuse("dragonfly:2,2", TUTTI_ERR_PARSE, "2 parameters", "3 expected");
    refuse("star:8@-1Gbps", TUTTI_ERR_RANGE, "bandwidth", "-1Gbps");
    refuse("star:8@1Gbps,-1us", TUTTI_ERR_RANGE, "latency", "-1us");
    refuse("star:8@1Gbps,11s", TUTTI_ERR_RANGE, "latency", "10 s");
    refuse("star:8@1Gbps,1us,2s", TUTTI_ERR_RANGE, "gamma", "1 s");
    refuse("star:8@1Gbps,1us,0,0", TUTTI_ERR_PARSE, "\"0\"", "bandwidth,latency,gamma");
    refuse("star:8@1G/2G", TUTTI_ERR_PARSE, "2 bandwidths", "tree");
    refuse("star:8@1G,half,half", TUTTI_ERR_PARSE, "\"half\"", "twice");
    refuse("star:8,half@1G,half", TUTTI_ERR_PARSE, "\"half\"", "twice");
    refuse("star:8,ports=0", TUTTI_ERR_RANGE, "ports is \"0\"", "1 to 65536");
    refuse("star:8,overhead=fast", TUTTI_ERR_PARSE, "overhead", "fast");
    refuse("star:8,t=1", TUTTI_ERR_PARSE, "\"t\"", "ports");
    refuse("star:8,", TUTTI_ERR_PARSE, "star", "empty");
    refuse("star:8@", TUTTI_ERR_PARSE, "star", "empty");
    refuse("star:8,9", TUTTI_ERR_PARSE, "2 parameters", "1 expected");
    refuse("nics:10G,0G", TUTTI_ERR_RANGE, "rank 1", "0G");
}

static void test_limits(void **state)
{
    (void)state;
    refuse("star:1048577", TUTTI_ERR_RANGE, "1048577", "1048576");
    refuse("torus:4096x4096", TUTTI_ERR_LIMIT, "16777216", "1048576");
    refuse("torus:1048576x1048576x1048576x1048576", TUTTI_ERR_LIMIT, "ranks", "1048576");
    refuse("full:1048576", TUTTI_ERR_LIMIT, "549755289600 links", "67108864");
    refuse("fattree:8,9", TUTTI_ERR_LIMIT, "8^9", "1048576");
    refuse("bigraph:1x1048576", TUTTI_ERR_LIMIT, "links", "67108864");
    refuse("dragonfly:1048576,1048576,1048576", TUTTI_ERR_LIMIT, "dragonfly", "1048576");
    refuse("dragonfly:1,1048576,1", TUTTI_ERR_LIMIT, "links", "67108864");
    refuse("dln:1048576,h=2", TUTTI_ERR_LIMIT, "2097152", "1048576");
    refuse("tree:(1048576 1)", TUTTI_ERR_LIMIT, "1048577", "1048576");
    refuse("tree:(99999999999999999999999999)", TUTTI_ERR_LIMIT, "ranks", "1048576");
    refuse("mesh:1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1x1", TUTTI_ERR_LIMIT, "dimensions", "20");
    char *deep = malloc(4000);
    memset(deep, '(', 4000);
    memcpy(deep, "tree:", 5);
    deep[3999] = 0;
    refuse(deep, TUTTI_ERR_PARSE, "64 deep", "character 65");
    free(deep);
    char *huge = malloc((1 << 20) + 3);
    memset(huge, '1', (1 << 20) + 2);
    huge[(1 << 20) + 2] = 0;
    refuse(huge, TUTTI_ERR_LIMIT, "longer", "1048576");
    free(huge);
}

static void test_tree_syntax(void **state)
{
    (void)state;
    refuse("tree:((4 4)", TUTTI_ERR_PARSE, "character 7", "not closed");
    refuse("tree:4 4", TUTTI_ERR_PARSE, "character 3", "second root");
    refuse("tree:(4))", TUTTI_ERR_PARSE, "character 4", "no parenthesis");
    refuse("tree:()", TUTTI_ERR_PARSE, "character 2", "empty");
    refuse("tree:(4 0)", TUTTI_ERR_PARSE, "character 4", "0 ranks");
    refuse("tree:4:1G", TUTTI_ERR_PARSE, "character 2", "root");
    refuse("tree:(:1G 4)", TUTTI_ERR_PARSE, "character 2", "no group");
    refuse("tree:(4:1G:2G)", TUTTI_ERR_PARSE, "character 6", "second bandwidth");
    refuse("tree:(4:-1G)", TUTTI_ERR_RANGE, "uplink", "-1G");
    refuse("tree:(a)", TUTTI_ERR_PARSE, "character 2", "expected");
    refuse("tree:(2 2)@1G/2G/3G", TUTTI_ERR_PARSE, "bandwidth 3 (3 Gbit/s)", "2 levels of links");
    refuse("tree:8@1G/2G/3G", TUTTI_ERR_PARSE, "bandwidth 2 (2 Gbit/s)", "1 level of links");
    tt_topo_free(topo_of("tree:(2 2)@1G/2G"));
    refuse("tree:3x1G", TUTTI_ERR_PARSE, "character 2", "put parentheses");
    refuse("tree:(3x)", TUTTI_ERR_PARSE, "bandwidth of ranks", "expected a rate");
    refuse("tree:(3x0G)", TUTTI_ERR_RANGE, "bandwidth of ranks", "0G");
    refuse("tree:(0x1G)", TUTTI_ERR_PARSE, "character 2", "0 ranks");
    refuse("tree:(3x1G:2G)", TUTTI_ERR_PARSE, "character 6", "second bandwidth");
    refuse("tree:(3x1G 2)@1G/2G/3G", TUTTI_ERR_PARSE, "bandwidth 3 (3 Gbit/s)", "2 levels of links");
    refuse("tree:(3x1G)@1G/2G", TUTTI_ERR_PARSE, "bandwidth 2 (2 Gbit/s)", "1 level of links");
    refuse("tree:(1048576x1G 1x1G)", TUTTI_ERR_LIMIT, "1048577", "1048576");
    refuse("nics:0x1G", TUTTI_ERR_RANGE, "number of ranks is \"0\"", "1 to 1048576");
    refuse("nics:1048576x1G,1G", TUTTI_ERR_LIMIT, "1048577", "1048576");
    refuse("nics:99999999999999999999999999999999999999999x1G", TUTTI_ERR_RANGE, "number of ranks", "1048576");
    refuse("nics:1G,2x", TUTTI_ERR_PARSE, "rank 1", "expected a rate");
}

static void open_refuses(const char *text, const char *a, const char *b)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    assert_int_not_equal(tt_topo_open(text, &t, &err), TUTTI_OK);
    assert_null(t);
    if (!strstr(err.text, a) || !strstr(err.text, b))
        fail_msg("%s: \"%s\" lacks \"%s\" or \"%s\"", text, err.text, a, b);
}

static void test_open(void **state)
{
    (void)state;
    struct tt_topo *t = NULL;
    assert_int_equal(tt_topo_open("ring:4", &t, NULL), TUTTI_OK);
    tt_topo_free(t);
    refuse("torsu:8x8", TUTTI_ERR_PARSE, "torsu", "torus");
    open_refuses("torsu:8x8", "torus?", "No such file");
    open_refuses("/no/such/dir/ring:8", "neither", "No such file");
    open_refuses("ring", "needs parameters", "ring:N");
    open_refuses("", "neither", "No such file");
    open_refuses("/", "/:1:1", "directory");
}

static void test_hash(void **state)
{
    (void)state;
    static const char *const differ[] = {"star:8",
                                         "star:9",
                                         "star:8@10Gbps,2us",
                                         "star:8@9Gbps",
                                         "star:8@10Gbps,1us,1ns",
                                         "star:8,half",
                                         "star:8,ports=1",
                                         "star:8,overhead=1ns",
                                         "ring:8",
                                         "torus:8",
                                         "tree:8",
                                         "dln:8",
                                         "mesh:2x4",
                                         "mesh:4x2",
                                         "nics:1G,1G,1G,1G,1G,1G,1G,1G"};
    uint64_t hash[countof(differ)];
    for (size_t i = 0; i < countof(differ); i++) {
        struct tt_topo *t = topo_of(differ[i]);
        hash[i] = t->hash;
        tt_topo_free(t);
        for (size_t j = 0; j < i; j++)
            if (hash[i] == hash[j])
                fail_msg("%s and %s have one hash", differ[i], differ[j]);
    }
    struct tt_topo *a = topo_of("star:8@10Gbps,1us,0"), *b = topo_of("full:4"), *c = topo_of("dln:4");
    assert_true(a->hash == hash[0]); /* the same network in other words */
    assert_true(b->hash == c->hash); /* dln:4 has jumps 1 and 2: every pair */
    tt_topo_free(a);
    tt_topo_free(b);
    tt_topo_free(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_link_part), cmocka_unit_test(test_every_example_works), cmocka_unit_test(test_impossible_parameters),
        cmocka_unit_test(test_limits),    cmocka_unit_test(test_tree_syntax),         cmocka_unit_test(test_open),
        cmocka_unit_test(test_hash),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
