/* test_sim_flow_ports.c - declared ports at the flow level: schedules in rounds stay in rounds.
 *
 * In round d of `direct` rank i sends to i + d and receives from i - d, so that with k ports the
 * messages of k rounds are in flight together and nothing waits for anything else. By hand, with c
 * bytes per message, h links of latency L on the way and a rank's link of bandwidth B:
 *
 *     star    (N-1) c/B + ceil((N-1)/k) h L        all k messages share the rank's link
 *     full    ceil((N-1)/k) (c/B + L)              every message has a link of its own
 *
 * An all-reduce is that twice. */
#include "sim_flow_case.h"

#include <stdio.h>

enum { MOST_RANKS = 16, CHUNK = 128000, UNIT = 64 }; /* chunks are whole units */
static const uint64_t LATENCY_PS = 5000000;

struct port_case {
    const char *kind, *algo;
    uint32_t ranks, ports;
    tutti_coll coll;
};

static struct tt_topo *ports_topo(const struct port_case *x)
{
    char spec[80];
    snprintf(spec, sizeof spec, "%s:%u,ports=%u@10Gbps,5us", x->kind, x->ranks, x->ports);
    return topo_of(spec);
}

/* NULL: refused. */
static struct tt_sched *sched_of(const struct port_case *x, const struct tt_topo *t, uint64_t count)
{
    struct tt_algo_args a = {.problem = {.coll = x->coll, .ranks = x->ranks, .count = count}, .topo = t};
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    a.problem.dtype = TUTTI_I8;
    a.problem.redop = TUTTI_SUM;
    assert_int_equal(tt_algo_options_add(&a.options, "segments=1", &err), TUTTI_OK);
    if (tt_algo_probe(tt_algo_find(x->algo), &a, &err) != TUTTI_OK)
        return NULL;
    if (tt_algo_build(tt_algo_find(x->algo), &a, &s, &err) != TUTTI_OK)
        fail_msg("%s: %s", x->algo, err.text);
    return s;
}

/* All messages of c_ps each. */
static uint64_t by_hand(const struct port_case *x, uint64_t c_ps)
{
    uint64_t n = x->ranks - 1, rounds = (n + x->ports - 1) / x->ports;
    uint64_t phases = x->coll == TUTTI_ALLREDUCE ? 2 : 1;
    if (strcmp(x->kind, "star") == 0)
        return phases * (n * c_ps + rounds * 2 * LATENCY_PS);
    return phases * rounds * (c_ps + LATENCY_PS);
}

static void expect_rounds(const struct port_case *x, uint32_t longer)
{
    uint64_t bytes = (uint64_t)x->ranks * CHUNK + (uint64_t)longer * UNIT;
    struct tt_topo *t = ports_topo(x);
    struct tt_sched *s = sched_of(x, t, bytes);
    assert_non_null(s);
    uint64_t least = by_hand(x, CHUNK * 800), most = by_hand(x, (CHUNK + (longer ? UNIT : 0)) * 800);
    uint64_t time = sim_time(s, t, bytes, NULL);
    if (time < least || time > most + 64 + (longer ? most / 1000 : 0)) /* each message is rounded up to a picosecond */
        fail_msg("%s:%u,ports=%u %s coll %d of %llu: %llu ps, by hand %llu to %llu", x->kind, x->ranks, x->ports, x->algo, (int)x->coll,
                 (unsigned long long)bytes, (unsigned long long)time, (unsigned long long)least, (unsigned long long)most);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Chunks of one length, and of two lengths: those that end a little earlier change next to nothing. */
static void test_rounds_stay_rounds(void **state)
{
    (void)state;
    static const char *const kinds[] = {"star", "full"};
    static const tutti_coll colls[] = {TUTTI_ALL_TO_ALL, TUTTI_ALLREDUCE, TUTTI_ALL_GATHER};
    for (size_t i = 0; i < countof(kinds) * countof(colls); i++)
        for (uint32_t ranks = 2; ranks <= MOST_RANKS; ranks++)
            for (uint32_t ports = 1; ports <= 3; ports++) {
                struct port_case x = {kinds[i & 1], "direct", ranks, ports, colls[i / 2]};
                expect_rounds(&x, 0);
                if (x.coll != TUTTI_ALL_TO_ALL) /* whose blocks are all equal */
                    expect_rounds(&x, ranks / 2);
            }
}

/* The figures of the report that found it: 659.1 us, 1.538 ms, 5.093 ms. */
static void test_found(void **state)
{
    (void)state;
    static const struct {
        struct port_case x;
        uint64_t bytes, ns;
    } found[] = {{{"star", "direct", 4, 1, TUTTI_ALL_TO_ALL}, 1 << 20, 659146},
                 {{"star", "direct", 8, 1, TUTTI_ALL_TO_ALL}, 2 << 20, 1538006},
                 {{"star", "direct", 4, 1, TUTTI_ALLREDUCE}, 4 << 20, 5093165}};
    for (size_t i = 0; i < countof(found); i++) {
        struct tt_topo *t = ports_topo(&found[i].x);
        struct tt_sched *s = sched_of(&found[i].x, t, found[i].bytes);
        assert_int_equal((sim_time(s, t, found[i].bytes, NULL) + 500) / 1000, found[i].ns);
        tt_sched_free(s);
        tt_topo_free(t);
    }
}

/* The three levels agree where no two messages want the same port at once: step and flow within
 * one part in a thousand, packets within their heads (1/16) and what little latency they hide (a
 * port of theirs is free when the last flit has left). */
static void compare_levels(const struct port_case *x)
{
    const struct tt_sim_options packet = {.level = TT_SIM_PACKET};
    uint64_t bytes = (uint64_t)x->ranks * 131072;
    struct tt_topo *t = ports_topo(x);
    struct tt_sched *s = sched_of(x, t, bytes);
    struct tutti_error err = {0};
    struct tt_cost c;
    if (s) {
        assert_int_equal(tt_cost_sched(s, t, bytes, TUTTI_I8, &c, &err), TUTTI_OK);
        double step = (double)c.time_ps, flow = (double)sim_time(s, t, bytes, NULL);
        double flits = (double)sim_time(s, t, bytes, &packet);
        if (flow < step * 0.999 || flow > step * 1.001 || flits < step * 0.96 || flits > step * 1.08)
            fail_msg("%s:%u,ports=%u %s coll %d: step %.3f us, flow %.3f, packet %.3f", x->kind, x->ranks, x->ports, x->algo, (int)x->coll,
                     step / 1e6, flow / 1e6, flits / 1e6);
    }
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_levels_agree(void **state)
{
    (void)state;
    static const struct port_case cases[] = {{"star", "direct", 0, 1, TUTTI_ALL_TO_ALL},
                                             {"star", "direct", 0, 1, TUTTI_ALLREDUCE},
                                             {"star", "direct", 0, 1, TUTTI_ALL_GATHER},
                                             {"star", "ring", 0, 1, TUTTI_ALLREDUCE},
                                             {"star", "ring", 0, 1, TUTTI_ALL_GATHER},
                                             {"star", "halving-doubling", 0, 1, TUTTI_ALLREDUCE},
                                             {"full", "direct", 0, 1, TUTTI_ALL_TO_ALL},
                                             {"full", "direct", 0, 1, TUTTI_ALLREDUCE},
                                             {"full", "halving-doubling", 0, 1, TUTTI_ALLREDUCE},
                                             {"ring", "ring", 0, 1, TUTTI_ALLREDUCE},
                                             {"star", "forest", 0, 1, TUTTI_ALLREDUCE},
                                             {"star", "flex", 0, 1, TUTTI_ALLREDUCE}};
    for (size_t i = 0; i < countof(cases); i++)
        for (uint32_t ranks = 4; ranks <= 16; ranks *= 2) {
            struct port_case x = cases[i];
            x.ranks = ranks;
            compare_levels(&x);
        }
}

/* A rank's port serves its messages in the order of its program, and a receiver's port first come,
 * first served: 0 sends to 2 after 1 has, although 0 could have sent to 3 meanwhile. */
static void test_in_order(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{1, 2, 0, 0}, {0, 2, 1, 1}, {0, 3, 1, 2}};
    struct tt_topo *t = topo_of("full:4,ports=1@1GB/s,1us");
    struct tt_sched *s = sim_sched(4, 3, NULL, m, countof(m));
    struct tt_sim_options o = {.timeline = true};
    struct tt_sim_report *r = sim_run(s, t, 3000, &o);
    assert_int_equal(r->time_ps, 3 * 2000000);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rounds_stay_rounds),
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_levels_agree),
        cmocka_unit_test(test_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
