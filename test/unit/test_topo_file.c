/* test_topo_file.c - topology files: exact round trips, hand-written files, every kind of damage refused with its position; conversions. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/topo.h"
#include "topo_spec.h"

static char *written(const struct tt_topo *t, size_t *len)
{
    char *buf = NULL;
    FILE *out = open_memstream(&buf, len);
    assert_non_null(out);
    assert_int_equal(tt_topo_write(t, out, NULL), TUTTI_OK);
    fclose(out);
    return buf;
}

static struct tt_topo *read_text(const char *text, size_t len)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    if (tt_topo_read_memory(text, len, "f.json", &t, &err) != TUTTI_OK)
        fail_msg("%.200s: %s", text, err.text);
    return t;
}

static void refuse(const char *text, tutti_status status, const char *a, const char *b)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    tutti_status st = tt_topo_read_memory(text, strlen(text), "f.json", &t, &err);
    if (st != status || !strstr(err.text, a) || !strstr(err.text, b) || strncmp(err.text, "f.json", 6) != 0)
        fail_msg("%s: status %d \"%s\"; expected %d with \"%s\" and \"%s\"", text, st, st ? err.text : "", status, a, b);
    assert_null(t);
}

static const char *const specs[] = {"star:5@1Gbps,50us",
                                    "ring:1",
                                    "ring:7,half",
                                    "full:6@16GB/s,150ns,0.1ns",
                                    "torus:4x2x3,ports=2",
                                    "mesh:3x4,overhead=500ns",
                                    "hypercube:16",
                                    "fattree:3,3,over=3",
                                    "bigraph:2x6",
                                    "dragonfly:5,3,2",
                                    "dln:12,t=2",
                                    "dln:12,h=3",
                                    "dln2d:8x6,t=1",
                                    "tree:((4 4:2.5G)(4 2))@100Gbps/25Gbps/10Gbps",
                                    "tree:((3x25G 2x10G):40G 1x5G 2)@100Gbps/20Gbps",
                                    "nics:10G,10G,2.5G@1G,3us"};

static void test_round_trip(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(specs); i++) {
        size_t len, len2;
        struct tt_topo *a = topo_of(specs[i]);
        char *x = written(a, &len);
        struct tt_topo *b = read_text(x, len);
        char *y = written(b, &len2);
        assert_int_equal(len, len2);
        assert_memory_equal(x, y, len);
        assert_true(a->hash == b->hash);
        assert_string_equal(a->spec, b->spec);
        assert_string_equal(a->kind, b->kind);
        assert_int_equal(a->rotational, b->rotational);
        assert_int_equal(a->routing, b->routing);
        assert_int_equal(a->tree != NULL, b->tree != NULL);
        free(x);
        free(y);
        tt_topo_free(a);
        tt_topo_free(b);
    }
}

/* Any shorter file is refused, and no byte changed into another makes a crash. */
static void test_truncated_and_mutated(void **state)
{
    (void)state;
    struct tt_topo *a = topo_of("tree:(2 1)");
    size_t len;
    char *x = written(a, &len);
    for (size_t cut = 0; cut + 2 < len; cut++) {
        struct tt_topo *t = NULL;
        struct tutti_error err = {0};
        assert_int_not_equal(tt_topo_read_memory(x, cut, "cut", &t, &err), TUTTI_OK);
        assert_non_null(strstr(err.text, "cut:"));
    }
    for (size_t i = 0; i < len; i++)
        for (size_t k = 0; k < 6; k++) {
            struct tt_topo *t = NULL;
            char old = x[i];
            x[i] = "09-]\",\0"[k];
            if (tt_topo_read_memory(x, len, "mutant", &t, NULL) == TUTTI_OK)
                tt_topo_free(t);
            x[i] = old;
        }
    free(x);
    tt_topo_free(a);
}

/* The forms of a link as tutti-topology(5) lists them. */
static void test_link_forms(void **state)
{
    (void)state;
    static const struct {
        const char *entries;
        double there, back;
        uint64_t latency_ps;
        bool half;
    } form[] = {
        {"125000000", 125e6, 125e6, 1000000, false},
        {"\"1Gbps\",\"5us\"", 125e6, 125e6, 5000000, false},
        {"125000000,5000000", 125e6, 125e6, 5000000, false},
        {"125000000,0", 125e6, 125e6, 0, false},
        {"125000000,5000000,true", 125e6, 125e6, 5000000, true},
        {"\"1Gbps\",\"5us\",true", 125e6, 125e6, 5000000, true},
        {"125000000,5e6,3000000", 125e6, 5e6, 3000000, false},
        {"125000000,5000000,\"3us\"", 125e6, 5e6, 3000000, false},
        {"125000000,\"40Mbps\",\"3us\",false", 125e6, 5e6, 3000000, false},
        {"125000000,125000000,\"3us\",true", 125e6, 125e6, 3000000, true},
    };
    for (size_t i = 0; i < countof(form); i++) {
        char text[200];
        int len = snprintf(text, sizeof text, "{\"ranks\":2,\"links\":[[0,1,%s]]}", form[i].entries);
        struct tt_topo *t = read_text(text, (size_t)len);
        const struct tt_link *l = &t->links[0];
        if (l->bw[0] != form[i].there || l->bw[1] != form[i].back || l->latency_ps != form[i].latency_ps || l->half != form[i].half)
            fail_msg("%s: %g, %g bytes/s, %llu ps%s", form[i].entries, l->bw[0], l->bw[1], (unsigned long long)l->latency_ps,
                     l->half ? ", half" : "");
        tt_topo_free(t);
    }
    refuse("{\"ranks\":2,\"links\":[[0,1,1,\"40Mbps\"]]}", TUTTI_ERR_PARSE, ":1:", "latency expected after two bandwidths");
    refuse("{\"ranks\":2,\"links\":[[0,1,1250000000,1250000000]]}", TUTTI_ERR_PARSE, ":1:", "10 Gbit/s or a latency of 1.25 ms");
    refuse("{\"ranks\":2,\"links\":[[0,1,1250000000,625000000,true]]}", TUTTI_ERR_PARSE, ":1:", "a latency of 625 us");
    refuse("{\"ranks\":2,\"links\":[[0,1,5000,5000]]}", TUTTI_ERR_PARSE, ":1:", "a latency of 5 ns");
    refuse("{\"ranks\":2,\"links\":[[0,1,\"10Gbps\",\"-5us\"]]}", TUTTI_ERR_RANGE, ":1:", "latency: ");
    refuse("{\"ranks\":2,\"links\":[[0,1,\"10Gbps\",\"-5Gbps\"]]}", TUTTI_ERR_RANGE, ":1:", "bandwidth: ");
    refuse("{\"ranks\":2,\"links\":[[0,1,1,\"40Mbps\",true]]}", TUTTI_ERR_PARSE, ":1:", "latency expected after two bandwidths");
    refuse("{\"ranks\":2,\"links\":[[0,1,1,1.5]]}", TUTTI_ERR_PARSE, ":1:", "whole picoseconds");
    refuse("{\"ranks\":2,\"links\":[[0,1,1,-5]]}", TUTTI_ERR_PARSE, ":1:", "whole picoseconds");
    refuse("{\"ranks\":2,\"links\":[[0,1,1,5,true,1]]}", TUTTI_ERR_PARSE, ":1:", "nothing follows half");
}

/* Ends by name, before or after "names", mixed with numbers: the network that numbers alone describe. */
static void test_named_links(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"ranks\":2,\"switches\":1,\"names\":[\"ann\",\"bob\",\"hub\"],\"links\":[[\"ann\",\"hub\",1e9],[\"bob\",\"hub\",2e9]]}",
        "{\"links\":[[\"ann\",\"hub\",1e9],[1,\"hub\",2e9]],\"names\":[\"ann\",\"bob\",\"hub\"],\"ranks\":2,\"switches\":1}",
        "{\"ranks\":2,\"switches\":1,\"links\":[[\"rank 0\",\"switch 0\",1e9],[\"1\",2,2e9]]}",
    };
    static const char plain[] = "{\"ranks\":2,\"switches\":1,\"links\":[[0,2,1e9],[1,2,2e9]]}";
    struct tt_topo *want = read_text(plain, strlen(plain));
    for (size_t i = 0; i < countof(texts); i++) {
        struct tt_topo *t = read_text(texts[i], strlen(texts[i]));
        assert_true(t->hash == want->hash);
        tt_topo_free(t);
    }
    tt_topo_free(want);
    refuse("{\"ranks\":2,\"links\":[[\"ann\",1,1e9]]}", TUTTI_ERR_RANGE, "link 0", "no vertex \"ann\"");
    refuse("{\"ranks\":2,\"links\":[[0,\"rank 2\",1e9]]}", TUTTI_ERR_RANGE, "link 0", "no vertex \"rank 2\"");
    refuse("{\"ranks\":3,\"names\":[\"a\",\"b\",\"a\"],\"links\":[[1,0,1e9],[\"a\",\"b\",1e9]]}", TUTTI_ERR_RANGE, "link 1",
           "two vertices have the name \"a\"");
    refuse("{\"ranks\":2,\"names\":[\"a\",\"b\"],\"links\":[[\"a\",\"a\",1e9]]}", TUTTI_ERR_RANGE, "link 0", "joined with itself");
    refuse("{\"ranks\":2,\"links\":[[true,1,1e9]]}", TUTTI_ERR_PARSE, ":1:", "numbers or names of two vertices");
}

static void test_hand_written(void **state)
{
    (void)state;
    static const char text[] = "{\"links\": [[0,2,\"10Gbps\"],[1,2,1e9,\"4GB/s\",\"5us\",false],[0,1,\"8Gbps\",\"2us\",true],[1,0,3,4]],\n"
                               " \"switches\": 1, \"ranks\": 2, \"names\": [\"h\\u00e4nsel\", null, \"sw\"]}";
    struct tt_topo *t = read_text(text, sizeof text - 1);
    char name[32];
    assert_string_equal(t->kind, "custom");
    assert_string_equal(t->spec, "f.json");
    assert_int_equal(t->nlinks, 4);
    assert_true(t->links[0].bw[0] == 1.25e9 && t->links[0].bw[1] == 1.25e9);
    assert_int_equal(t->links[0].latency_ps, 1000000);
    assert_true(t->links[1].bw[0] == 1e9 && t->links[1].bw[1] == 4e9);
    assert_int_equal(t->links[1].latency_ps, 5000000);
    assert_true(t->links[2].bw[1] == 1e9 && t->links[2].half);
    assert_int_equal(t->links[2].latency_ps, 2000000);
    assert_true(t->links[3].bw[0] == 3 && t->links[3].bw[1] == 3);
    assert_int_equal(t->links[3].latency_ps, 4);
    assert_string_equal(tt_topo_vertex_name(t, 0, name, sizeof name), "h\xc3\xa4nsel");
    assert_string_equal(tt_topo_vertex_name(t, 1, name, sizeof name), "rank 1");
    assert_string_equal(tt_topo_vertex_name(t, 2, name, sizeof name), "sw");
    size_t len, len2;
    char *x = written(t, &len);
    struct tt_topo *u = read_text(x, len);
    char *y = written(u, &len2);
    assert_int_equal(len, len2);
    assert_memory_equal(x, y, len);
    free(x);
    free(y);
    tt_topo_free(t);
    tt_topo_free(u);

    static const char ring[] = "{\"kind\":\"ring\",\"ranks\":3,\"links\":[[0,1,1e9],[1,2,1e9],[2,0,1e9]]}";
    t = read_text(ring, sizeof ring - 1);
    assert_int_equal(t->routing, TT_ROUTE_CIRCULANT);
    assert_true(t->rotational);
    tt_topo_free(t);
    static const char uneven[] = "{\"kind\":\"ring\",\"ranks\":3,\"links\":[[0,1,1e9],[1,2,1e9],[2,0,2e9]]}";
    t = read_text(uneven, sizeof uneven - 1);
    assert_false(t->rotational);
    tt_topo_free(t);
}

static void test_refused(void **state)
{
    (void)state;
    refuse("", TUTTI_ERR_PARSE, "f.json:1:1", "");
    refuse("[]", TUTTI_ERR_PARSE, "f.json:1:1", "");
    refuse("{}", TUTTI_ERR_PARSE, "\"ranks\"", "missing");
    refuse("{\"format\":\"tutti-schedule\"}", TUTTI_ERR_PARSE, ":1:11", "tutti-schedule");
    refuse("{\"format\":\"tutti-topology\",\n\"version\":2}", TUTTI_ERR_VERSION, ":2:", "version 2");
    refuse("{\"ranks\":1}x", TUTTI_ERR_PARSE, ":1:12", "");
    refuse("{\"rank\":2}", TUTTI_ERR_PARSE, "\"rank\"", "ranks?");
    refuse("{\"ranks\":2,\"ranks\":2}", TUTTI_ERR_PARSE, "twice", "ranks");
    refuse("{\"ranks\":0}", TUTTI_ERR_RANGE, "0 is not", "1 to 1048576");
    refuse("{\"ranks\":4000000000}", TUTTI_ERR_RANGE, "4000000000", "1048576");
    refuse("{\"ranks\":4e9}", TUTTI_ERR_PARSE, ":1:10", "");
    refuse("{\"ranks\":2}", TUTTI_ERR_PARSE, ":1:", "\"links\" is missing");
    refuse("{\"ranks\":1000000,\"switches\":15000000,\"links\":[]}", TUTTI_ERR_RANGE, "rank 1", "rank 0");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1,1e9]],\"names\":[\"a\"]}", TUTTI_ERR_RANGE, "1 names", "2 vertices");
    refuse("{\"ranks\":2,\"kind\":\"rng\"}", TUTTI_ERR_PARSE, "rng", "ring?");
    refuse("{\"ranks\":2,\"routing\":\"gird\"}", TUTTI_ERR_PARSE, "gird", "grid?");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1]]}", TUTTI_ERR_PARSE, ":1:38", "at least");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,2,1]]}", TUTTI_ERR_RANGE, "link 0", "vertex 2");
    refuse("{\"links\":[[0,2,1]],\"ranks\":2}", TUTTI_ERR_RANGE, "link 0", "vertex 2");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1,-1]]}", TUTTI_ERR_RANGE, "link 0", "-1");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1,\"fast\"]]}", TUTTI_ERR_PARSE, "bandwidth", "fast");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1,1,1,1.5]]}", TUTTI_ERR_PARSE, "latency", ":1:");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1,1,1,1,false,1]]}", TUTTI_ERR_PARSE, "at most 6", ":1:");
    refuse("{\"ranks\":2,\"switches\":0,\"links\":[[0,1,1,2,1,true]]}", TUTTI_ERR_RANGE, "half duplex", ":1:");
    refuse("{\"ranks\":3,\"links\":[[0,1,1e9]]}", TUTTI_ERR_RANGE, "rank 0 cannot", "rank 2");
    refuse("{\"ranks\":2,\"links\":[[0,1,1e9]],\"gamma_s_per_byte\":-1}", TUTTI_ERR_RANGE, "gamma", "-1");
    refuse("{\"ranks\":2,\"links\":[[0,1,1e9]],\"dims\":[2]}", TUTTI_ERR_RANGE, "dims", "grid");
    refuse("{\"ranks\":2,\"links\":[[0,1,1e9]],\"dims\":[0]}", TUTTI_ERR_RANGE, ":1:", "0");
}

/* A claimed structure must be there, link by link. */
static void test_claims(void **state)
{
    (void)state;
    static const char ring4[] = "\"ranks\":4,\"links\":[[0,1,1e9],[1,2,1e9],[2,3,1e9],[3,0,1e9]]";
    char text[300];
    static const struct {
        const char *head, *a, *b;
        bool ok;
    } table[] = {
        {"\"routing\":\"circulant\"", "", "", true},
        {"\"kind\":\"ring\"", "", "", true},
        {"\"kind\":\"dln\"", "", "", true}, /* t = 0 */
        {"\"kind\":\"full\"", "no full", "links", false},
        {"\"kind\":\"star\"", "star", "one switch", false},
        {"\"routing\":\"fattree\"", "fat-tree", "4 ranks", false},
        {"\"routing\":\"grid\"", "dims", "4", false},
        {"\"routing\":\"grid\",\"dims\":[2,2]", "link 1", "rank 1 to rank 2", false},
        {"\"routing\":\"grid\",\"dims\":[4]", "", "", true},
        {"\"routing\":\"grid\",\"dims\":[4],\"wrap\":false", "link 3", "rank 3 to rank 0", false},
        {"\"routing\":\"grid\",\"dims\":[3]", "product", "4", false},
        {"\"kind\":\"torus\",\"dims\":[4]", "", "", true},
        {"\"kind\":\"mesh\",\"dims\":[4]", "link 3", "rank 3 to rank 0", false},
        {"\"kind\":\"tree\"", "no tree", "", false},
        {"\"tree\":[[0,0,0]]", "tree", "1 leaves for 4", false},
    };
    for (size_t i = 0; i < countof(table); i++) {
        snprintf(text, sizeof text, "{%s,%s}", table[i].head, ring4);
        struct tt_topo *t = NULL;
        struct tutti_error err = {0};
        tutti_status st = tt_topo_read_memory(text, strlen(text), "f.json", &t, &err);
        if ((st == TUTTI_OK) != table[i].ok || (st && (!strstr(err.text, table[i].a) || !strstr(err.text, table[i].b))))
            fail_msg("%s: %d \"%s\"", text, st, err.text);
        tt_topo_free(t);
    }
    refuse("{\"routing\":\"circulant\",\"ranks\":3,\"links\":[[0,1,1e9],[1,2,1e9]]}", TUTTI_ERR_MISMATCH, "missing", "2 and 0");
    refuse("{\"routing\":\"star\",\"ranks\":2,\"switches\":1,\"links\":[[1,2,1e9],[0,2,1e9]]}", TUTTI_ERR_MISMATCH, "link 0", "star");
}

static void test_tree_claims(void **state)
{
    (void)state;
    static const char star[] = "\"ranks\":2,\"switches\":1,\"links\":[[0,2,1e9],[1,2,1e9]]";
    static const struct {
        const char *tree, *why;
    } table[] = {
        {"[[0,0,0],[0,1,1]]", NULL},
        {"[[0,1,1],[0,0,0]]", NULL},
        {"[[0,0,0],[0,0,0]]", "twice"},
        {"[[0,0,0],[0,7,1]]", "does not exist"},
        {"[[0,0,0],[0,1,0]]", "own rank"},
        {"[[0,0,0],[0,1,9]]", "uplink 9"},
        {"[[0,0,0],[0,null,1]]", "children or a rank"},
        {"[[0,0,0],[2,1,1]]", "parent 2"},
        {"[[0,0,0],[1,1,1]]", "children or a rank"},
        {"[[0,0,0],[0,1]]", ":1:"},
    };
    for (size_t i = 0; i < countof(table); i++) {
        char text[200];
        snprintf(text, sizeof text, "{%s,\"tree\":%s}", star, table[i].tree);
        if (table[i].why)
            refuse(text, i == 9 ? TUTTI_ERR_PARSE : TUTTI_ERR_RANGE, table[i].why, "");
        else
            tt_topo_free(read_text(text, strlen(text)));
    }
}

static void test_open_file(void **state)
{
    (void)state;
    char name[] = "/tmp/tutti-topo-XXXXXX";
    int fd = mkstemp(name);
    assert_true(fd >= 0);
    FILE *out = fdopen(fd, "w");
    struct tt_topo *a = topo_of("dln:9"), *b = NULL;
    assert_int_equal(tt_topo_write(a, out, NULL), TUTTI_OK);
    fclose(out);
    assert_int_equal(tt_topo_open(name, &b, NULL), TUTTI_OK);
    assert_true(a->hash == b->hash);
    unlink(name);
    tt_topo_free(a);
    tt_topo_free(b);
}

static char *converted(const char *spec, void (*write)(const struct tt_topo *, FILE *))
{
    struct tt_topo *t = topo_of(spec);
    char *buf = NULL;
    size_t len;
    FILE *out = open_memstream(&buf, &len);
    write(t, out);
    fclose(out);
    tt_topo_free(t);
    return buf;
}

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

static void test_convert(void **state)
{
    (void)state;
    char *x = converted("star:3@10Gbps,5us", tt_topo_write_simgrid);
    assert_non_null(strstr(x, "<platform version=\"4.1\">"));
    assert_int_equal(count(x, "<host "), 3);
    assert_int_equal(count(x, "<link id"), 3);
    assert_int_equal(count(x, "sharing_policy=\"SPLITDUPLEX\""), 3);
    assert_int_equal(count(x, "<route "), 6);
    assert_non_null(strstr(x, "bandwidth=\"1250000000Bps\" latency=\"5000000ps\""));
    assert_non_null(strstr(x, "<route src=\"rank-2\" dst=\"rank-1\" symmetrical=\"NO\"><link_ctn id=\"link-2\" direction=\"UP\"/>"
                              "<link_ctn id=\"link-1\" direction=\"DOWN\"/></route>"));
    free(x);
    x = converted("ring:1025,half", tt_topo_write_simgrid);
    assert_non_null(strstr(x, "routing=\"Dijkstra\""));
    assert_int_equal(count(x, "SHARED"), 1025);
    assert_int_equal(count(x, "<route "), 2050);
    free(x);
    x = converted("bigraph:1x2", tt_topo_write_dot);
    assert_non_null(strstr(x, "graph \"bigraph:1x2\" {"));
    assert_int_equal(count(x, " -- "), 3);
    assert_int_equal(count(x, "shape=box"), 2);
    free(x);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),  cmocka_unit_test(test_truncated_and_mutated), cmocka_unit_test(test_link_forms),
        cmocka_unit_test(test_named_links), cmocka_unit_test(test_hand_written),          cmocka_unit_test(test_refused),
        cmocka_unit_test(test_claims),      cmocka_unit_test(test_tree_claims),           cmocka_unit_test(test_open_file),
        cmocka_unit_test(test_convert),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
