/* test_sim_flow.c - the flow level against closed forms, against cost where bulk-synchronous and event-driven must agree, and against cases
 * worked out by hand: shared links, half duplex, ports, overhead, reductions, segments. */
#include "sim_flow_case.h"

/* ---- closed forms ---- */

struct form {
    const char *algo, *spec;
    uint64_t steps, hops, bytes; /* time = hops latencies in all + so many bytes at the link's bandwidth */
};

/* 1 us and 1 GB/s everywhere: one byte is 1000 ps. 2^18 elements are 1 MiB. */
static void test_closed_forms(void **state)
{
    (void)state;
    const uint64_t m = 1 << 20;
    const struct form forms[] = {
        {"ring", "star:8@1GB/s,1us", 14, 28, 14 * m / 8},
        {"ring", "ring:8@1GB/s,1us", 14, 14, 14 * m / 8},
        {"ring", "ring:16@1GB/s,1us", 30, 30, 30 * m / 16},
        {"halving-doubling", "star:8@1GB/s,1us", 6, 12, 14 * m / 8},
        {"halving-doubling", "hypercube:16@1GB/s,1us", 8, 8, 30 * m / 16},
        /* on a ring of 4: partner at distance 2 loads each link with two messages of m/2, twice; at distance 1 one of m/4, twice */
        {"halving-doubling", "ring:4@1GB/s,1us", 4, 6, 2 * m / 4 + 2 * m},
        {"circulant", "star:8@1GB/s,1us", 6, 12, 14 * m / 8},
        {"direct", "star:8@1GB/s,1us", 2, 4, 14 * m / 8},
        {"direct", "full:8@1GB/s,1us", 2, 2, 2 * m / 8},
        /* ring of 4, one direction: 1 to the neighbour, and a half of those at distance 2 (ties go up): 1 + 2 messages of m/4 per link */
        {"direct", "ring:4@1GB/s,1us", 2, 4, 2 * 3 * m / 4},
        /* torus 4x4, dimension order: 4 * 3 messages of m/16 on a link up, twice */
        {"direct", "torus:4x4@1GB/s,1us", 2, 8, 2 * 12 * m / 16},
    };
    for (size_t i = 0; i < countof(forms); i++) {
        struct tt_topo *t = topo_of(forms[i].spec);
        struct tt_sched *s = sim_algo(forms[i].algo, t, 1 << 18, 0);
        assert_non_null(s);
        struct tt_sim_report *r = sim_run(s, t, 1 << 20, NULL);
        uint64_t want = forms[i].hops * 1000000 + forms[i].bytes * 1000;
        if (r->time_ps != want || r->steps != forms[i].steps)
            fail_msg("%s on %s: %llu ps in %u steps, not %llu in %llu", forms[i].algo, forms[i].spec, (unsigned long long)r->time_ps,
                     r->steps, (unsigned long long)want, (unsigned long long)forms[i].steps);
        tt_sim_report_free(r);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

static uint64_t far(uint64_t a, uint64_t b)
{
    return a > b ? a - b : b - a;
}

/* Where all ranks do the same at the same time, there is nothing to overlap: flow and step differ by rounding, a picosecond per part of a
 * step. */
static void test_equals_step(void **state)
{
    (void)state;
    const char *const algos[] = {"ring", "halving-doubling", "circulant", "direct", "recursive-doubling"};
    const char *const specs[] = {"star:8@3GB/s,7us,123ps", "star:16@10Gbps,50us",          "ring:8@7GB/s,1us,11ps",
                                 "ring:16@1Gbps,3us",      "torus:4x4@16GB/s,150ns",       "torus:8x8@16GB/s,150ns,37ps",
                                 "full:16@3GB/s,1us",      "torus:4x4@16GB/s,150ns,0,half"};
    for (size_t a = 0; a < countof(algos); a++)
        for (size_t i = 0; i < countof(specs); i++) {
            struct tt_topo *t = topo_of(specs[i]);
            struct tt_sched *s = sim_algo(algos[a], t, t->ranks * 3072, 0);
            struct tutti_error err = {0};
            struct tt_cost c;
            bool torus_direct = strcmp(algos[a], "direct") == 0 && t->gamma > 0; /* reductions begin while others still send */
            if (!s || torus_direct) {
                tt_sched_free(s);
                tt_topo_free(t);
                continue;
            }
            assert_int_equal(tt_cost_sched(s, t, (uint64_t)t->ranks * 12288, TUTTI_I8, &c, &err), TUTTI_OK);
            struct tt_sim_report *r = sim_run(s, t, (uint64_t)t->ranks * 12288, NULL);
            bool rotates = strcmp(algos[a], "ring") == 0 || strcmp(algos[a], "circulant") == 0;
            bool overlaps = rotates && t->ndims; /* neighbours in rank order are not all neighbours there */
            if (overlaps ? r->time_ps > c.time_ps : far(r->time_ps, c.time_ps) > 4 * (uint64_t)r->steps)
                fail_msg("%s on %s: flow %llu, step %llu ps", algos[a], specs[i], (unsigned long long)r->time_ps,
                         (unsigned long long)c.time_ps);
            tt_sim_report_free(r);
            tt_sched_free(s);
            tt_topo_free(t);
        }
}

/* For every algorithm on many networks: contention and bytes are cost's, everything is carried, nobody is idle and busy at once. */
static void test_report_agrees(void **state)
{
    (void)state;
    const char *const specs[] = {"star:6", "torus:3x4",  "ring:7", "fattree:2,3", "mesh:2x3", "dln:12", "nics:10G,10G,2.5G,1G",
                                 "star:1", "bigraph:2x4"};
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (size_t a = 0; a < n; a++)
        for (size_t i = 0; i < countof(specs); i++)
            for (uint32_t k = 1; k <= 3; k += 2) {
                struct tt_topo *t = topo_of(specs[i]);
                struct tt_sched *s = sim_algo(table[a]->name, t, 5000, k);
                struct tutti_error err = {0};
                struct tt_cost c;
                if (s) {
                    assert_int_equal(tt_cost_sched(s, t, 20000, TUTTI_I8, &c, &err), TUTTI_OK);
                    struct tt_sim_report *r = sim_run(s, t, 20000, &(struct tt_sim_options){.timeline = true});
                    assert_int_equal(r->max_link_contention, c.max_link_contention);
                    assert_int_equal(r->messages, c.messages * k);
                    assert_int_equal(r->ntimeline, r->messages);
                    if (t->nlinks && c.messages) {
                        assert_int_equal(r->links[r->busiest_link].bytes, c.busiest_bytes);
                        assert_int_equal(r->busiest_link, c.busiest_link);
                    }
                    uint64_t bytes = 0;
                    for (size_t e = 0; e < r->ntimeline; e++) {
                        bytes += r->timeline[e].bytes;
                        assert_true(r->timeline[e].ready_ps <= r->timeline[e].start_ps && r->timeline[e].start_ps <= r->timeline[e].end_ps);
                        assert_true(r->timeline[e].end_ps <= r->time_ps);
                    }
                    assert_int_equal(bytes, c.bytes);
                    for (uint32_t q = 0; q < r->ranks; q++)
                        assert_true(r->rank[q].idle_ps + r->rank[q].send_ps <= r->time_ps && r->rank[q].end_ps <= r->time_ps);
                    tt_sim_report_free(r);
                }
                tt_sched_free(s);
                tt_topo_free(t);
            }
}

/* ---- sharing, by hand: 64 GB/s and units of 64 bytes (chunks are aligned to that), so that a unit takes 1000 ps ---- */

enum { U = 64 };

static void expect_ends(const struct tt_sched *s, const struct tt_topo *t, uint64_t bytes, enum tt_sim_sharing sharing,
                        const uint64_t *ends)
{
    struct tt_sim_report *r = sim_run(s, t, bytes, &(struct tt_sim_options){.sharing = sharing, .timeline = true});
    for (size_t i = 0; i < r->ntimeline; i++)
        assert_int_equal(r->timeline[i].end_ps, ends[i]);
    tt_sim_report_free(r);
}

/* Two messages into one rank, 1000 and 3000 units. Half of the link each until 2 us, then all of it for the 2000 units left. */
static void test_two_on_a_link(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 2, 0, 0}, {1, 2, 0, 1}};
    struct tt_topo *t = topo_of("star:3@64GB/s,1us");
    struct tt_sched *s = sim_sched(3, 2, (uint32_t[]){1, 3}, m, 2);
    expect_ends(s, t, 4000 * U, TT_SIM_FAIR, (uint64_t[]){2000000 + 2000000, 4000000 + 2000000});
    struct tt_sim_report *r = sim_run(s, t, 4000 * U, NULL);
    assert_int_equal(r->max_link_contention, 2);
    assert_int_equal(r->rank[2].recv_ps, 4000000);
    assert_int_equal(r->rank[2].idle_ps, 2000000);
    assert_int_equal(r->rank[0].send_ps, 2000000);
    assert_int_equal(r->rank[0].end_ps, 2000000);
    uint32_t into = r->busiest_link;
    assert_int_equal(r->links[into].bytes, 4000 * U);
    assert_int_equal(r->links[into].peak, 2);
    assert_int_equal(r->links[into].busy_ps, 4000000);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Line 0 -10- 1 -8- 2: 0->1, 0->2, 1->2. The second link gives 4 each; the first has 6 left for 0->1. 12000, 8000, 8000 units end together.
 */
static void test_three_on_two_links(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 1, 0, 0}, {0, 2, 0, 1}, {1, 2, 0, 2}};
    struct tt_topo *t = sim_line(3, (double[]){640e9, 512e9}, (uint64_t[]){0, 0}, false);
    struct tt_sched *s = sim_sched(3, 3, (uint32_t[]){3, 2, 2}, m, 3);
    expect_ends(s, t, 28000 * U, TT_SIM_FAIR, (uint64_t[]){2000000, 2000000, 2000000});
    tt_sched_free(s);
    /* equal sizes, 8000 each: 0->1 at 6 ends at 4/3 us; nothing changes for the others, whose link is the narrow one: 2 us */
    s = sim_sched(3, 3, NULL, m, 3);
    expect_ends(s, t, 24000 * U, TT_SIM_FAIR, (uint64_t[]){1333334, 2000000, 2000000});
    tt_sched_free(s);
    tt_topo_free(t);
}

/* By latency: routes of 3 us (0->2 over both links) and 2 us (1->2) share the second link as 2:3. */
static void test_rtt(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 2, 0, 0}, {1, 2, 0, 1}};
    struct tt_topo *t = sim_line(3, (double[]){6400e9, 320e9}, (uint64_t[]){1000000, 2000000}, false);
    struct tt_sched *s = sim_sched(3, 2, (uint32_t[]){2, 3}, m, 2);
    expect_ends(s, t, 10000 * U, TT_SIM_RTT, (uint64_t[]){2000000 + 3000000, 2000000 + 2000000});
    expect_ends(s, t, 10000 * U, TT_SIM_FAIR, (uint64_t[]){1600000 + 3000000, 2000000 + 2000000});
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_half_duplex(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 1, 0, 0}, {1, 0, 0, 1}};
    for (int half = 0; half < 2; half++) {
        struct tt_topo *t = sim_line(2, (double[]){64e9}, (uint64_t[]){500000}, half);
        struct tt_sched *s = sim_sched(2, 2, NULL, m, 2);
        assert_int_equal(sim_time(s, t, 2000 * U, NULL), half ? 2500000 : 1500000);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

/* ---- hosts ---- */

/* One port: transfer and latency three times over. Two: twice (the second round has one message). */
static void test_ports(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 1, 0, 0}, {0, 2, 0, 1}, {0, 3, 0, 2}};
    const uint64_t rounds[] = {3, 2, 1};
    const char *const specs[] = {"full:4,ports=1@64GB/s,1us", "full:4,ports=2@64GB/s,1us", "full:4@64GB/s,1us"};
    for (int i = 0; i < 3; i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_sched *s = sim_sched(4, 3, NULL, m, 3);
        assert_int_equal(sim_time(s, t, 3000 * U, NULL), rounds[i] * 2000000);
        tt_sched_free(s);
        tt_topo_free(t);
    }
    /* the receiving end has ports, too; empty messages need one as well */
    const struct sim_msg in[] = {{1, 0, 0, 0}, {2, 0, 0, 1}, {3, 0, 0, 2}};
    struct tt_topo *t = topo_of(specs[0]);
    struct tt_sched *s = sim_sched(4, 3, NULL, in, 3);
    assert_int_equal(sim_time(s, t, 3000 * U, NULL), 6000000);
    assert_int_equal(sim_time(s, t, 0, NULL), 3000000);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Overhead o = 100 ns: one message o; three from one rank or to one rank 3 o, whether or not the transfers share a link. */
static void test_overhead(void **state)
{
    (void)state;
    const struct sim_msg out[] = {{0, 1, 0, 0}, {0, 2, 0, 1}, {0, 3, 0, 2}}, in[] = {{1, 0, 0, 0}, {2, 0, 0, 1}, {3, 0, 0, 2}};
    struct tt_topo *t = topo_of("full:4@64GB/s,1us");
    t->overhead_ps = 100000;
    struct tt_sched *one = sim_sched(4, 1, NULL, out, 1), *three = sim_sched(4, 3, NULL, out, 3), *to = sim_sched(4, 3, NULL, in, 3);
    assert_int_equal(sim_time(one, t, 1000 * U, NULL), 100000 + 2000000);
    assert_int_equal(sim_time(three, t, 3000 * U, NULL), 300000 + 2000000);
    assert_int_equal(sim_time(to, t, 3000 * U, NULL), 300000 + 2000000);
    tt_sched_free(one);
    tt_sched_free(three);
    tt_sched_free(to);
    struct tt_sched *s = sim_algo("ring", t, 1000, 0);
    struct tt_cost c;
    struct tutti_error err = {0};
    assert_int_equal(tt_cost_sched(s, t, 4000, TUTTI_I8, &c, &err), TUTTI_OK);
    assert_true(far(sim_time(s, t, 4000, NULL), c.time_ps) <= 4 * 6);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* 250 ps per byte and 64 KiB in each of 3 reducing steps; the rank is then reducing, not idle. */
static void test_gamma(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:4@1GB/s,0,250ps");
    struct tt_sched *s = sim_algo("ring", t, 1 << 16, 0);
    struct tt_sim_report *r = sim_run(s, t, 1 << 18, NULL);
    assert_int_equal(r->time_ps, 6 * UINT64_C(65536) * 1000 + 3 * 65536 * 250);
    assert_int_equal(r->rank[1].reduce_ps, 3 * 65536 * 250);
    assert_int_equal(r->rank[1].idle_ps, 0);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* ---- segments ---- */

/* 0 -> 1 -> 2 over different links in K pieces: the first link sends for T, the last piece needs T/K more; two latencies. */
static void test_pipeline(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 1, 0, 0}, {1, 2, 1, 0}};
    struct tt_topo *t = sim_line(3, (double[]){1e9, 1e9}, (uint64_t[]){1000000, 1000000}, false);
    struct tt_sched *s = sim_sched(3, 1, NULL, m, 2);
    for (uint32_t k = 1; k <= 16; k *= 2) {
        s->shape.segments = k;
        assert_int_equal(sim_time(s, t, 16000, NULL), 16000000 + 16000000 / k + 2000000);
    }
    s->shape.segments = 1000; /* more pieces than bytes: empty ones still travel */
    assert_int_equal(sim_time(s, t, 10, NULL), 10000 + 1000 + 2000000);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Pieces of the ring hide all latencies but the last: each link is busy from the first byte to the last. */
static void test_ring_segments(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:8@1GB/s,1us");
    struct tt_sched *s = sim_algo("ring", t, 1 << 18, 4);
    assert_int_equal(sim_time(s, t, 1 << 20, NULL), 14 * UINT64_C(131072) * 1000 + 1000000);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_nothing(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:4@1GB/s,1us");
    struct tt_sched *s = sim_algo("ring", t, 0, 0);
    assert_int_equal(sim_time(s, t, 0, NULL), 6 * 2000000); /* empty messages have their latency */
    tt_sched_free(s);
    tt_topo_free(t);
    t = topo_of("star:1@1GB/s,1us");
    s = sim_algo("ring", t, 1000, 0);
    struct tt_sim_report *r = sim_run(s, t, 4000, &(struct tt_sim_options){.timeline = true});
    assert_int_equal(r->time_ps, 0);
    assert_int_equal(r->messages + r->ntimeline + r->max_link_contention, 0);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_closed_forms),
        cmocka_unit_test(test_equals_step),
        cmocka_unit_test(test_report_agrees),
        cmocka_unit_test(test_two_on_a_link),
        cmocka_unit_test(test_three_on_two_links),
        cmocka_unit_test(test_rtt),
        cmocka_unit_test(test_half_duplex),
        cmocka_unit_test(test_ports),
        cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_pipeline),
        cmocka_unit_test(test_ring_segments),
        cmocka_unit_test(test_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
