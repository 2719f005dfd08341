/* Are two networks the same, however they were written? The hash of cables, and the first difference in words. */
#include "support.h"

#include <string.h>

#include "topo/topo.h"

static struct tt_topo *open_text(const char *text)
{
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    tutti_status st = *text == '{' ? tt_topo_read_memory(text, strlen(text), "text", &t, &err) : tt_topo_parse(text, &t, &err);
    if (st)
        fail_msg("%s: %s", text, err.text);
    return t;
}

static struct tt_topo_diff compare(const char *a, const char *b, bool *ret_same_hash)
{
    struct tt_topo *x = open_text(a), *y = open_text(b);
    struct tt_topo_diff d;
    struct tutti_error err;
    assert_int_equal(tt_topo_compare(x, y, &d, &err), TUTTI_OK);
    *ret_same_hash = tt_topo_cables_hash(x) == tt_topo_cables_hash(y);
    tt_topo_free(x);
    tt_topo_free(y);
    return d;
}

static void equal_networks_written_differently(void **state)
{
    static const char *const pairs[][2] = {
        {"ring:4", "torus:4"},
        {"ring:4", "{\"ranks\":4,\"links\":[[3,0,\"10G\"],[1,0,\"10G\"],[2,1,\"10G\"],[2,3,\"10G\"]]}"},
        {"star:4", "nics:10G,10G,10G,10G"},
        {"star:4", "star:4,ports=1"},
        {"ring:4@10Gbps", "ring:4@1.25GB/s,1000ns"},
        {"hypercube:8", "torus:2x2x2"},
        {"full:3", "ring:3"},
        {"{\"ranks\":2,\"links\":[[0,1,\"10G\"],[0,1,\"20G\"]]}", "{\"ranks\":2,\"links\":[[1,0,\"20G\"],[0,1,\"10G\"]]}"},
        {"{\"ranks\":2,\"links\":[[0,1,1000,2000,5,false]]}", "{\"ranks\":2,\"links\":[[1,0,2000,1000,5,false]]}"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        bool same;
        struct tt_topo_diff d = compare(pairs[i][0], pairs[i][1], &same);
        if (d.differs || !same)
            fail_msg("%s and %s: %s %s / %s, hashes %s", pairs[i][0], pairs[i][1], d.what, d.a, d.b, same ? "equal" : "differ");
    }
}

static void first_differences_in_words(void **state)
{
    static const struct {
        const char *a, *b;
        unsigned side;
        const char *what, *in_a, *in_b;
    } cases[] = {
        {"ring:4", "ring:5", TT_TOPO_BOTH, "the network", "4 ranks", "5 ranks"},
        {"star:4", "full:4", TT_TOPO_BOTH, "the network", "1 switch", "0 switches"},
        {"ring:4", "full:4", TT_TOPO_ONLY_B, "a link 0-2 of 10 Gbit/s", "", ""},
        {"full:4", "ring:4", TT_TOPO_ONLY_A, "a link 0-2 of 10 Gbit/s", "", ""},
        {"ring:4", "ring:4@20G", TT_TOPO_BOTH, "the link 0-1", "10 Gbit/s", "20 Gbit/s"},
        {"ring:4@10G", "ring:4@10G,2us", TT_TOPO_BOTH, "the link 0-1", "latency 1 us", "latency 2 us"},
        {"ring:4@10G", "ring:4@10G,half", TT_TOPO_BOTH, "the link 0-1", "full duplex", "half duplex"},
        {"star:4", "star:4,ports=2", TT_TOPO_BOTH, "rank 0", "1 port", "2 ports"},
        {"star:3@10G,1us", "star:3@10G,1us,1ns", TT_TOPO_BOTH, "the network", NULL, NULL},
        {"nics:10G,10G,10G", "nics:10G,10G,2.5G", TT_TOPO_BOTH, "the link rank 2-switch 0", "10 Gbit/s", "2.5 Gbit/s"},
        {"{\"ranks\":2,\"links\":[[0,1,\"10G\"]]}", "{\"ranks\":2,\"links\":[[0,1,\"10G\"],[0,1,\"10G\"]]}", TT_TOPO_BOTH, "the network",
         "1 link 0-1", "2 parallel links 0-1"},
        {"{\"ranks\":2,\"links\":[[0,1,1000000000,1000000000,5,false]]}", "{\"ranks\":2,\"links\":[[0,1,1000000001,1000000001,5,false]]}",
         TT_TOPO_BOTH, "the link 0-1", "1000000000 bytes/s", "1000000001 bytes/s"},
        {"{\"ranks\":2,\"links\":[[0,1,1000,2000,5,false]]}", "{\"ranks\":2,\"links\":[[0,1,1000,1000,5,false]]}", TT_TOPO_BOTH,
         "the link 0-1", "16 Kbit/s from the second end", "8 Kbit/s from the second end"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        bool same;
        struct tt_topo_diff d = compare(cases[i].a, cases[i].b, &same);
        assert_true(d.differs);
        assert_false(same);
        assert_int_equal(d.side, cases[i].side);
        assert_string_equal(d.what, cases[i].what);
        if (cases[i].in_a)
            assert_string_equal(d.a, cases[i].in_a);
        if (cases[i].in_b)
            assert_string_equal(d.b, cases[i].in_b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_networks_written_differently),
        cmocka_unit_test(first_differences_in_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
