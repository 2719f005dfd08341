/* test_ports.c - ports mean the same to bounds, to cost and to both simulators.
 *
 * Undeclared: a rank uses all its links at once, whether or not the network has switches. Declared: a message
 * keeps a port of each end busy for as long as the slowest link of its route needs, so that a fast host that
 * serves a slow one loses that time for everybody else. */
#include "sim_flow_case.h"

#include "bound/bound.h"
#include "plan/plan.h"

enum { MIB64 = 64 << 20 };

static struct tt_topo *from_text(const char *text)
{
    struct tutti_error err = {0};
    struct tt_topo *t = NULL;
    if (tt_topo_read_memory(text, strlen(text), "ports.json", &t, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return t;
}

static uint64_t bound_of(const struct tt_topo *t)
{
    struct tutti_error err = {0};
    struct tt_bounds b;
    if (tt_bound_make(t, TUTTI_ALLREDUCE, 0, MIB64, &b, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    tt_bound_free(&b);
    return b.time_ps;
}

static struct tt_plan *plan_of(const struct tt_topo *t, const char *algo)
{
    struct tt_problem p = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = MIB64 / 4, .dtype = TUTTI_F32, .redop = TUTTI_SUM};
    struct tt_plan_options o = {.algo = algo};
    struct tutti_error err = {0};
    struct tt_plan *plan = NULL;
    if (tt_plan_make(t, &p, &o, NULL, &plan, &err) != TUTTI_OK)
        fail_msg("%s: %s", algo, err.text);
    return plan;
}

static uint64_t simulated(const struct tt_plan *plan, const struct tt_topo *t, enum tt_sim_level level)
{
    struct tutti_error err = {0};
    struct tt_sched *s = NULL;
    struct tt_sim_report *r = NULL;
    struct tt_sim_options o = {.level = level, .packet = {.flit_bytes = 512, .payload_bytes = 8192}};
    assert_int_equal(tt_plan_schedule(plan, t, &s, &err), TUTTI_OK);
    if (tt_sim_run(s, t, plan->problem.count, TUTTI_F32, &o, &r, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    uint64_t time = r->time_ps;
    tt_sim_report_free(r);
    tt_sched_free(s);
    return time;
}

#define MESH "[0,1,\"10Gbps\"],[0,2,\"10Gbps\"],[0,3,\"10Gbps\"],[1,2,\"10Gbps\"],[1,3,\"10Gbps\"],[2,3,\"10Gbps\"]"

/* A cable to a switch that nobody needs makes nothing slower. */
static void test_unused_switch(void **state)
{
    (void)state;
    struct tt_topo *mesh = from_text("{\"ranks\":4,\"links\":[" MESH "]}");
    struct tt_topo *more = from_text("{\"ranks\":4,\"switches\":1,\"links\":[" MESH ",[0,4,\"10Gbps\"]]}");
    struct tt_plan *a = plan_of(mesh, "direct"), *b = plan_of(more, "direct");
    assert_int_equal(tt_topo_ports(more, 0), 4);
    assert_true(bound_of(more) <= bound_of(mesh));
    assert_int_equal(a->cost.time_ps, b->cost.time_ps);
    assert_int_equal(simulated(a, mesh, TT_SIM_FLOW), simulated(b, more, TT_SIM_FLOW));
    assert_true(bound_of(more) <= b->cost.time_ps && bound_of(more) <= simulated(b, more, TT_SIM_FLOW));
    tt_plan_free(a);
    tt_plan_free(b);
    tt_topo_free(mesh);
    tt_topo_free(more);
}

#define RAILS "\"ranks\":4,\"switches\":2,\"links\":[[0,4,1e9],[1,4,1e9],[2,4,1e9],[3,4,1e9],[0,5,1e9],[1,5,1e9],[2,5,1e9],[3,5,1e9]]"

/* Two rails: twice the rate of one, declared or not; one port: that of one. */
static void test_rails(void **state)
{
    (void)state;
    static const char *const text[3] = {"{" RAILS "}", "{" RAILS ",\"ports\":2}", "{" RAILS ",\"ports\":1}"};
    static const uint64_t rails[3] = {2, 2, 1};
    for (size_t i = 0; i < countof(text); i++) {
        struct tt_topo *t = from_text(text[i]);
        struct tt_plan *p = plan_of(t, "forest");
        uint64_t one = UINT64_C(3) * MIB64 / 2 * 1000; /* picoseconds at 1 GB/s */
        assert_int_equal(bound_of(t), one / rails[i]);
        assert_in_range(p->cost.time_ps, bound_of(t), bound_of(t) / 100 * 105);
        assert_true(simulated(p, t, TT_SIM_FLOW) >= bound_of(t));
        if (i == 0)
            assert_in_range(simulated(p, t, TT_SIM_FLOW), bound_of(t), bound_of(t) / 100 * 105);
        tt_plan_free(p);
        tt_topo_free(t);
    }
}

/* Every interface of a rank works at packet level too. By multitree, whose steps use both rails: interfaces serve
 * the earliest step first, and forest's reduce-scatter leaves one of a rank's rails to its all-gather. */
static void test_rails_packets(void **state)
{
    (void)state;
    struct tt_topo *one = topo_of("star:4@1GB/s,1us"), *two = from_text("{" RAILS "}");
    struct tt_plan *a = plan_of(one, "multitree"), *b = plan_of(two, "multitree");
    uint64_t slow = simulated(a, one, TT_SIM_PACKET), fast = simulated(b, two, TT_SIM_PACKET);
    assert_true(fast < slow / 10 * 9);
    tt_plan_free(a);
    tt_plan_free(b);
    tt_topo_free(one);
    tt_topo_free(two);
}

/* One port, one slow host: a message to it holds a fast host's port for four times as long. */
static void test_busy_with_a_slow_host(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 3, 0, 0}, {0, 1, 0, 1}};
    static const uint32_t weights[] = {1, 1};
    struct tt_topo *t = topo_of("nics:8G,8G,8G,2G,ports=1@8Gbps,0");
    struct tt_sched *s = sim_sched(4, 2, weights, m, countof(m));
    struct tutti_error err = {0};
    struct tt_cost c;
    assert_int_equal(tt_cost_sched(s, t, 8000000, TUTTI_I8, &c, &err), TUTTI_OK);
    assert_int_equal(c.time_ps, UINT64_C(20000000000)); /* 4 MB at 250 MB/s, then 4 MB at 1 GB/s */
    assert_int_equal(sim_time(s, t, 8000000, NULL), c.time_ps);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* What is chosen for such a network is not far behind the best candidate when it runs. */
static void test_choice_with_ports(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("nics:10G,10G,10G,2.5G,ports=1@10Gbps,1us");
    struct tt_plan *chosen = plan_of(t, "auto");
    uint64_t best = UINT64_MAX, took = simulated(chosen, t, TT_SIM_FLOW);
    for (size_t i = 0; i < chosen->ncandidates; i++) {
        const struct tt_candidate *c = &chosen->candidates[i];
        if (c->refused || c->skipped)
            continue;
        struct tt_plan *p = plan_of(t, c->algo->name);
        uint64_t time = simulated(p, t, TT_SIM_FLOW);
        best = time < best ? time : best;
        tt_plan_free(p);
    }
    assert_true(took <= best / 100 * 102);
    tt_plan_free(chosen);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unused_switch),     cmocka_unit_test(test_rails),
        cmocka_unit_test(test_rails_packets),     cmocka_unit_test(test_busy_with_a_slow_host),
        cmocka_unit_test(test_choice_with_ports),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
