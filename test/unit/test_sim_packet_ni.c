/* test_sim_packet_ni.c - the network interface: schedule tables, lockstep, no-ops, aggregation; message mode and what-ifs with it. */
#include "sim_packet_case.h"

/* MultiTree on a 2x2 mesh (section 1.5 of the notes): tree r's edges (child, parent, step). */
static const struct {
    uint32_t tree, child, parent, step;
} edges[] = {{0, 2, 0, 0}, {0, 1, 0, 0}, {0, 3, 2, 1}, {1, 3, 1, 0}, {1, 0, 1, 0}, {1, 2, 3, 1},
             {2, 0, 2, 0}, {2, 3, 2, 0}, {2, 1, 0, 1}, {3, 1, 3, 0}, {3, 2, 3, 0}, {3, 0, 1, 1}};

/* Reduce-scatter against the trees in steps 0 and 1, all-gather along them in steps 2 and 3. */
static struct tt_sched *mesh_sched(void)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 4, .chunks = 4, .nbufs = 2, .segments = 1, .count = 4};
    struct tt_builder b;
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < 4; r++) {
        tt_sched_build_rank(&b, r);
        for (uint32_t step = 0; step < 4; step++)
            for (int sends = 1; sends >= 0; sends--)
                for (size_t i = 0; i < countof(edges); i++) {
                    bool up = step < 2;
                    uint32_t from = up ? edges[i].child : edges[i].parent, to = up ? edges[i].parent : edges[i].child;
                    struct tt_span span = {edges[i].tree, 1, 0, 1, TT_BUF_IN, TT_BUF_IN};
                    if (step != (up ? 1 - edges[i].step : 2 + edges[i].step))
                        continue;
                    if (sends && from == r)
                        tt_sched_emit_send(&b, step, to, (uint16_t)edges[i].tree, &span, 1);
                    else if (!sends && to == r && up)
                        tt_sched_emit_recv_reduce(&b, step, from, (uint16_t)edges[i].tree, &span, 1);
                    else if (!sends && to == r)
                        tt_sched_emit_recv(&b, step, from, (uint16_t)edges[i].tree, &span, 1);
                }
    }
    if (tt_sched_build_freeze(&b, &s, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return s;
}

static const struct tt_ni_entry *line(const struct tt_ni_table *t, uint32_t opcode, uint32_t flow)
{
    for (size_t i = 0; i < t->entries.len; i++) {
        const struct tt_ni_entry *e = tt_vec_at(&t->entries, i);
        if (e->opcode == opcode && e->flow == flow)
            return e;
    }
    fail_msg("no line of opcode %u, flow %u", opcode, flow);
    return NULL;
}

static void test_table(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:2x2@16GB/s,150ns");
    struct tt_sched *s = mesh_sched();
    struct tutti_error err = {0};
    struct tt_work *w = NULL;
    struct tt_ni_facts facts = {0};
    struct tt_ni_table table = {0};
    assert_int_equal(tt_sim_work_make(s, t, 4096, TUTTI_F32, &w, &err), TUTTI_OK);
    assert_int_equal(tt_sim_ni_facts_make(w, &facts, &err), TUTTI_OK);
    assert_int_equal(tt_sim_ni_table_make(w, 2, &facts, &table, &err), TUTTI_OK);
    /* rank 2: flow 0 has child 3 and parent 0; flow 1 has no child and parent 3; flow 2 is its own */
    const struct tt_ni_entry *e = line(&table, TT_NI_REDUCE, 0);
    assert_int_equal(e->parent, 0);
    assert_int_equal(e->nchildren, 1);
    assert_int_equal(*(uint32_t *)tt_vec_at(&table.children, e->child), 3);
    assert_int_equal(e->step, 1);
    e = line(&table, TT_NI_REDUCE, 1);
    assert_int_equal(e->parent, 3);
    assert_int_equal(e->nchildren, 0);
    assert_int_equal(e->step, 0);
    e = line(&table, TT_NI_GATHER, 2);
    assert_int_equal(e->parent, TT_NET_NONE);
    assert_int_equal(e->nchildren, 2);
    assert_int_equal(e->messages, 2);
    assert_int_equal(e->step, 2);
    e = line(&table, TT_NI_GATHER, 0);
    assert_int_equal(e->parent, 0);
    assert_int_equal(e->nchildren, 1);
    assert_int_equal(*(uint32_t *)tt_vec_at(&table.children, e->child), 3);
    assert_int_equal(e->step, 3);
    tt_sim_ni_table_free(&table);
    tt_sim_ni_facts_free(&facts);
    tt_sim_work_free(w);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Rank 0 sends in steps 0 and 2 to 1; in step 1 rank 2 sends to 3 something twice as long, and rank 0 waits for as long as that is
 * estimated to take. */
static void test_noop(void **state)
{
    (void)state;
    const uint64_t t = 1000, l = 20000, r = 1000;
    const struct sim_case_msg m[] = {{0, 1, 0, 0}, {2, 3, 1, 1}, {0, 1, 2, 2}};
    struct tt_topo *topo = topo_of("mesh:1x4@16GB/s,20ns");
    struct tt_sched *s = sim_sched(topo, 3, m, 3, false);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .timeline = true, .packet = {.lockstep = true}};
    struct tt_sim_report *rep = sim_run(s, topo, 3 * 1024, &o);
    const uint64_t f = 16 * 17; /* 4 KiB: 16 packets */
    /* step 0: F; no-op of step 1: F; step 2: F. Rank 2 has a no-op in step 0. */
    assert_int_equal(rep->time_ps, 3 * f * t + (t + l + r));
    assert_int_equal(rep->lockstep_waits_ps, 2 * f * t);
    assert_int_equal(rep->ntimeline, 3);
    assert_int_equal(rep->timeline[1].start_ps, f * t);
    assert_int_equal(rep->timeline[2].start_ps, 2 * f * t);
    tt_sim_report_free(rep);
    o.packet.lockstep = false; /* nobody waits for anybody: two messages one after the other */
    rep = sim_run(s, topo, 3 * 1024, &o);
    assert_int_equal(rep->time_ps, 2 * f * t + (t + l + r));
    assert_int_equal(rep->lockstep_waits_ps, 0);
    assert_int_equal(rep->rank[0].send_ps, 2 * f * t);
    assert_int_equal(rep->rank[0].idle_ps, t + l + r);
    tt_sim_report_free(rep);
    tt_sched_free(s);
    tt_topo_free(topo);
}

/* Aggregation takes its time before the sum goes on: 0 -> 1 (added up), 1 -> 2. */
static void test_aggregation(void **state)
{
    (void)state;
    const uint64_t t = 1000, l = 20000, r = 1000, f = 68;
    const struct sim_case_msg m[] = {{0, 1, 0, 0}, {1, 2, 1, 0}};
    struct tt_topo *topo = topo_of("mesh:1x3@16GB/s,20ns");
    struct tt_sched *s = sim_sched(topo, 1, m, 2, true);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = {.aggregate_bytes_per_s = 128e9}};
    struct tt_sim_report *rep = sim_run(s, topo, 256, &o);
    const uint64_t add = 1024 / 128 * 1000; /* 1 KiB at 128 GB/s, twice */
    assert_int_equal(rep->time_ps, 2 * (f * t + t + l + r) + 2 * add);
    assert_int_equal(rep->rank[1].reduce_ps, add);
    tt_sim_report_free(rep);
    struct tt_sim_slow slow = {1, 3};
    o.whatif = (struct tt_sim_whatif){.slow = &slow, .nslow = 1}; /* rank 1: ports and sums three times slower */
    rep = sim_run(s, topo, 256, &o);
    assert_int_equal(rep->rank[1].reduce_ps, 3 * add);
    assert_true(rep->time_ps > 2 * (f * t + t + l + r) + 4 * add + 3 * f * t);
    tt_sim_report_free(rep);
    tt_sched_free(s);
    tt_topo_free(topo);
}

/* The co-design: MultiTree in lockstep on a torus is free of contention, so that no flit waits for a credit and message mode saves the
 * heads. */
static void test_multitree(void **state)
{
    (void)state;
    struct tt_topo *topo = topo_of("torus:4x4@16GB/s,150ns");
    const uint64_t count = 16 * 4096;
    struct tt_sched *s = sim_algo("multitree", topo, count);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = {.lockstep = true}};
    struct tt_sim_report *packet = sim_run(s, topo, count, &o);
    o.packet.message_mode = true;
    struct tt_sim_report *message = sim_run(s, topo, count, &o);
    const uint64_t f = 64 * 17, t = 1000, hop = 1000 + 150000 + 1000;
    assert_int_equal(packet->credit_stalls, 0);
    assert_int_equal(message->credit_stalls, 0);
    assert_int_equal(message->head_flits, message->messages);
    assert_int_equal(packet->head_flits, 64 * packet->messages);
    assert_true(packet->time_ps >= 10 * f * t && packet->time_ps <= 10 * (f * t + hop)); /* S = 5 steps each way */
    assert_true(message->time_ps <= packet->time_ps - 10 * 63 * t);
    tt_sim_report_free(packet);
    tt_sim_report_free(message);
    tt_sched_free(s);
    tt_topo_free(topo);
}

static bool stop(void *ctx, double fraction)
{
    (void)fraction;
    ++*(int *)ctx;
    return false;
}

static void test_interrupted(void **state)
{
    (void)state;
    int calls = 0;
    struct tt_topo *topo = topo_of("torus:4x4@16GB/s,150ns");
    struct tt_sched *s = sim_algo("ring", topo, 1 << 20);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .progress = stop, .progress_ctx = &calls};
    struct tt_sim_report *r = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sim_run(s, topo, 1 << 20, TUTTI_F32, &o, &r, &err), TUTTI_ERR_ABORTED);
    assert_int_equal(calls, 1);
    assert_null(r);
    tt_sched_free(s);
    tt_topo_free(topo);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),     cmocka_unit_test(test_noop),        cmocka_unit_test(test_aggregation),
        cmocka_unit_test(test_multitree), cmocka_unit_test(test_interrupted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
