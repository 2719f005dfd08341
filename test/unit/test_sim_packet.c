/* test_sim_packet.c - the packet level against what can be worked out by hand: serialisation, pipeline, credits, sharing, classes of
 * channels, deadlock; and against the flow level where both must agree. In all of it T is a flit's time, L a link's latency, R = one clock.
 */
#include "sim_packet_case.h"

static const struct tt_sim_packet defaults;

/* One message of F flits over h links: the last flit leaves at (F-1)T, needs T+L+R per link, and T through the ejection port. */
static void test_one_message(void **state)
{
    (void)state;
    const struct sim_case_msg m[] = {{0, 3, 0, 0}};
    const uint64_t t = 1000, l = 150000, r = 1000;
    /* 4096 bytes: 16 packets of 17 flits; mesh:1x8 is a line, 0 -> 3 is three links */
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 4096, &defaults), 272 * t + 3 * (t + l + r));
    struct tt_sim_packet p = {.message_mode = true};
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 4096, &p), 257 * t + 3 * (t + l + r));
    p = (struct tt_sim_packet){.flit_bytes = 64, .payload_bytes = 1024, .router_cycles = 5};
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 4096, &p), 68 * 4 * t + 3 * (4 * t + l + 5 * 4 * r));
    p = (struct tt_sim_packet){.cycles_per_flit = 4}; /* the clock is a quarter of a flit */
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 4096, &p), 272 * t + 3 * (t + l + r / 4));
    /* a part of a flit is a flit, an empty message a head */
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 4, &defaults), 2 * t + 3 * (t + l + r));
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 260, &defaults), 19 * t + 3 * (t + l + r));
    assert_int_equal(sim_time("mesh:1x8@16GB/s,150ns", m, 1, 0, &defaults), t + 3 * (t + l + r));
}

/* Links of different speed: the slowest one sets the pace. Into the slow one the flits queue, out of it they come at its pace. */
static void test_speeds(void **state)
{
    (void)state;
    const struct sim_case_msg m[] = {{0, 1, 0, 0}};
    const struct sim_case_msg back[] = {{1, 0, 0, 0}};
    /* rank 0 has 16 GB/s, rank 1 has 4 GB/s: T = 1 ns and 4 ns, clock 1 ns; latency 0; two links */
    const uint64_t fast = 1000, slow = 4000, clock = 1000, f = 17;
    uint64_t latency = 1000000; /* nics: has the default latency of a link, 1 us, per link */
    uint64_t there = sim_time("nics:16GB/s,4GB/s", m, 1, 256, &defaults);
    uint64_t here = sim_time("nics:16GB/s,4GB/s", back, 1, 256, &defaults);
    /* there: the first flit is at the slow link after T+L+R, then F flits at 4 ns, L+R, and the ejection port of a 4 ns rank */
    assert_int_equal(there, (fast + latency + clock) + f * slow + latency + clock + slow);
    /* back: F flits at 4 ns into the switch, each passed on at once */
    assert_int_equal(here, f * slow + (latency + clock) + (fast + latency + clock) + fast);
}

/* A buffer of B flits on a link whose credits take RT = (T+L+R) + (L+R) to come back: B flits per round trip. */
static void test_credits(void **state)
{
    (void)state;
    const struct sim_case_msg m[] = {{0, 1, 0, 0}};
    const uint64_t t = 1000, l = 150000, r = 1000, rt = t + l + r + l + r;
    for (uint32_t b = 1; b <= 400; b += 57) {
        struct tt_sim_packet p = {.message_mode = true, .buffer_flits = b};
        const uint64_t f = 1 + 65536 / 16, last = f - 1;
        uint64_t sent = b * t >= rt ? last * t : last / b * rt + last % b * t;
        assert_int_equal(sim_time("mesh:1x2@16GB/s,150ns", m, 1, 65536, &p), sent + t + l + r + t);
    }
    struct tt_topo *topo = topo_of("mesh:1x2@16GB/s,150ns");
    struct tt_sched *s = sim_sched(topo, 1, m, 1, false);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = {.message_mode = true, .buffer_flits = 100}};
    struct tt_sim_report *rep = sim_run(s, topo, 16384, &o);
    assert_int_equal(rep->credit_stalls, (4097 + 99) / 100 - 1); /* the first flit of every later round trip */
    assert_int_equal(rep->links[0].busy_ps, 4097 * t);
    assert_int_equal(rep->flits, 4097);
    assert_int_equal(rep->head_flits, 1);
    assert_int_equal(rep->links[0].bytes, 65536);
    tt_sim_report_free(rep);
    o.packet.buffer_flits = 0; /* the default covers the round trip */
    rep = sim_run(s, topo, 16384, &o);
    assert_int_equal(rep->credit_stalls, 0);
    assert_int_equal(rep->time_ps, 4097 * t + t + l + r);
    tt_sim_report_free(rep);
    tt_sched_free(s);
    tt_topo_free(topo);
}

/* Two messages of F flits through one link: together 2F flit times. Each begins when its interface lets it. */
static void test_sharing(void **state)
{
    (void)state;
    const struct sim_case_msg m[] = {{0, 2, 0, 0}, {1, 2, 0, 1}};
    const uint64_t t = 1000, l = 10000, r = 1000, f = 17 * 64;
    /* 0>1>2 and 1>2 on a line: the second begins at 0, the first joins it after T+L+R, they alternate; together 2F flits on link 1>2 */
    uint64_t time = sim_time("mesh:1x3@16GB/s,10ns", m, 2, 16384, &defaults);
    assert_int_equal(time, 2 * f * t + (t + l + r));
    /* half duplex: both directions of a cable take turns on it */
    const struct sim_case_msg both[] = {{0, 1, 0, 0}, {1, 0, 0, 1}};
    assert_int_equal(sim_time("mesh:1x2@16GB/s,10ns,0,half", both, 2, 16384, &defaults), 2 * f * t + (t + l + r));
    assert_int_equal(sim_time("mesh:1x2@16GB/s,10ns", both, 2, 16384, &defaults), f * t + (t + l + r));
}

/* One interface sends one message after the other; two send two at once. */
static void test_interfaces(void **state)
{
    (void)state;
    const struct sim_case_msg m[] = {{1, 0, 0, 0}, {1, 2, 0, 1}};
    const uint64_t t = 1000, l = 10000, r = 1000, f = 17;
    struct tt_sim_packet one = {.interfaces = 1}, two = {.interfaces = 2};
    assert_int_equal(sim_time("mesh:1x3@16GB/s,10ns", m, 2, 256, &one), 2 * f * t + (t + l + r));
    assert_int_equal(sim_time("mesh:1x3@16GB/s,10ns", m, 2, 256, &two), f * t + (t + l + r));
    assert_int_equal(sim_time("mesh:1x3@16GB/s,10ns", m, 2, 256, &defaults), f * t + (t + l + r));
}

static struct tt_sim_report *algo_run(const char *spec, const char *algo, uint64_t count, const struct tt_sim_options *o)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_sched *s = sim_algo(algo, t, count);
    struct tt_sim_report *r = sim_run(s, t, count, o);
    tt_sched_free(s);
    tt_topo_free(t);
    return r;
}

static uint64_t algo_time(const char *spec, const char *algo, uint64_t count, const struct tt_sim_options *o)
{
    struct tt_sim_report *r = algo_run(spec, algo, count, o);
    uint64_t time = r->time_ps;
    tt_sim_report_free(r);
    return time;
}

/* Contention-free: steps * (bytes/bandwidth + h*L) at the flow level, and here 17/16 of the first and T+R per link more, exactly. */
static void test_against_flow(void **state)
{
    (void)state;
    const uint64_t t = 1000, l = 150000, r = 1000;
    const struct tt_sim_options flow = {.level = TT_SIM_FLOW}, packet = {.level = TT_SIM_PACKET},
                                message = {.level = TT_SIM_PACKET, .packet = {.message_mode = true}};
    const uint64_t count = 8 * 16384; /* chunks of 64 KiB on 8 ranks */
    const char *const spec[] = {"ring:8@16GB/s,150ns", "star:8@16GB/s,150ns", "hypercube:8@16GB/s,150ns"};
    const char *const algo[] = {"ring", "ring", "halving-doubling"};
    const uint64_t steps[] = {14, 14, 6}, links[] = {1, 2, 1}, bytes = 14 * 65536;
    for (int i = 0; i < 3; i++) {
        uint64_t hops = steps[i] * links[i];
        assert_int_equal(algo_time(spec[i], algo[i], count, &flow), bytes / 16 * t + hops * l);
        assert_int_equal(algo_time(spec[i], algo[i], count, &packet), bytes / 16 * t * 17 / 16 + hops * (t + l + r));
        assert_int_equal(algo_time(spec[i], algo[i], count, &message), (bytes / 16 + steps[i]) * t + hops * (t + l + r));
    }
}

/* Contended: with a channel for every message that shares a link, packets share as fluids do; with few, a packet waits behind others
 * although its own link is free, and the schedule takes longer than the flow level says. */
static void test_contended(void **state)
{
    (void)state;
    const struct tt_sim_options flow = {.level = TT_SIM_FLOW};
    struct tt_sim_options packet = {.level = TT_SIM_PACKET, .packet = {.vcs = 2}};
    const char *spec = "torus:4x4@16GB/s,150ns", *algo = "halving-doubling";
    double f = (double)algo_time(spec, algo, 65536, &flow), few = (double)algo_time(spec, algo, 65536, &packet) / f;
    packet.packet.vcs = 16;
    double many = (double)algo_time(spec, algo, 65536, &packet) / f;
    if (!(few > 1.2 && few < 1.3 && many > 1.04 && many < 1.0625)) /* 17/16 of the transfers, not of the latencies */
        fail_msg("packet / flow: %.3f with 2 channels, %.3f with 16", few, many);
}

static void test_determinism(void **state)
{
    (void)state;
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .timeline = true, .whatif = {.jitter = 0.3, .seed = 7}};
    struct tt_sim_report *a = algo_run("torus:4x4@16GB/s,150ns", "halving-doubling", 5000, &o);
    struct tt_sim_report *b = algo_run("torus:4x4@16GB/s,150ns", "halving-doubling", 5000, &o);
    assert_int_equal(a->ntimeline, a->messages);
    assert_memory_equal(a->timeline, b->timeline, a->ntimeline * sizeof *a->timeline);
    assert_int_equal(a->time_ps, b->time_ps);
    tt_sim_report_free(b);
    o.whatif.seed = 8;
    b = algo_run("torus:4x4@16GB/s,150ns", "halving-doubling", 5000, &o);
    assert_true(a->time_ps != b->time_ps);
    tt_sim_report_free(a);
    tt_sim_report_free(b);
}

/* All routes of a ring close a circle: one channel and short buffers stop it, two channels (a dateline) or the default do not. */
static void test_deadlock(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:8@16GB/s,150ns");
    struct tt_sched *s = sim_algo("direct", t, 8192);
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = {.vcs = 1, .buffer_flits = 4}};
    struct tt_sim_report *r = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sim_run(s, t, 8192, TUTTI_F32, &o, &r, &err), TUTTI_ERR_INCORRECT);
    assert_non_null(strstr(err.text, "deadlock"));
    assert_non_null(strstr(err.text, "need 2 virtual channels, there are 1"));
    assert_non_null(strstr(err.text, "rank 0 -> rank 1"));
    for (uint32_t vcs = 2; vcs <= 5; vcs++)
        for (int mode = 0; mode < 2; mode++) {
            o.packet.vcs = vcs == 5 ? 0 : vcs;
            o.packet.message_mode = mode;
            tt_sim_report_free(sim_run(s, t, 8192, &o));
        }
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Any pairs on any network, one flit of buffer, as many channels as the routes need: never a deadlock. */
static void test_no_deadlock(void **state)
{
    (void)state;
    const char *const specs[] = {"ring:9@16GB/s,5ns",   "torus:4x4@16GB/s,5ns",   "torus:3x3x3@16GB/s,5ns",
                                 "dln:20@16GB/s,5ns",   "fattree:4,2@16GB/s,5ns", "dragonfly:3,2,2@16GB/s,5ns",
                                 "mesh:4x4@16GB/s,5ns", "hypercube:16@16GB/s,5ns"};
    for (size_t i = 0; i < countof(specs); i++)
        for (int mode = 0; mode < 2; mode++) {
            struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = {.message_mode = mode, .buffer_flits = 1}};
            tt_sim_report_free(algo_run(specs[i], "direct", 4000, &o));
        }
}

/* HPCA'24 (section 1.11 of the notes): 8-KiB messages of 16+1 flits at 21 cycles are 357 cycles; a ring all-reduce of 1 Mi and 16 Mi floats
 * on 16 ranks took 343,356 and 5,485,432 cycles there. */
static void test_hpca(void **state)
{
    (void)state;
    const struct sim_case_msg m[] = {{0, 1, 0, 0}};
    const char *spec = "ring:16@24.380952380952381GB/s,0";
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = {.flit_bytes = 512, .payload_bytes = 8192, .cycles_per_flit = 21}};
    struct tt_topo *t = topo_of(spec);
    struct tt_sched *s = sim_sched(t, 1, m, 1, false);
    struct tt_sim_report *one = sim_run(s, t, 2048, &o), *two = sim_run(s, t, 4096, &o);
    assert_int_equal(two->cycles - one->cycles, 357);
    tt_sim_report_free(one);
    tt_sim_report_free(two);
    tt_sched_free(s);
    tt_topo_free(t);
    const uint64_t params[] = {1 << 20, 1 << 24}, published[] = {343356, 5485432};
    for (int i = 0; i < 2; i++) {
        struct tt_sim_report *r = algo_run(spec, "ring", params[i], &o);
        double off = (double)r->cycles / (double)published[i] - 1;
        if (!(off > -0.005 && off < 0.005))
            fail_msg("%llu cycles, published %llu", (unsigned long long)r->cycles, (unsigned long long)published[i]);
        tt_sim_report_free(r);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    const struct {
        struct tt_sim_packet p;
        const char *why;
    } bad[] = {{{.flit_bytes = 24}, "not a whole number of flits"},
               {{.payload_bytes = 100}, "not a whole number of flits"},
               {{.flit_bytes = 1 << 21, .payload_bytes = 1 << 21}, "at most 1 MiB"},
               {{.vcs = 65}, "at most 64"},
               {{.cycles_per_flit = 1000001}, "at most a million"},
               {{.buffer_flits = (1 << 24) + 1}, "at most 2^24"},
               {{.interfaces = 4097}, "at most 4096"},
               {{.aggregate_bytes_per_s = -1}, "aggregation rate"},
               {{.aggregate_bytes_per_s = 0.0 / 0.0}, "aggregation rate"}};
    struct tt_topo *t = topo_of("ring:4@16GB/s,150ns");
    struct tt_sched *s = sim_algo("ring", t, 1000);
    for (size_t i = 0; i < countof(bad); i++) {
        struct tt_sim_options o = {.level = TT_SIM_PACKET, .packet = bad[i].p};
        struct tt_sim_report *r = NULL;
        struct tutti_error err = {0};
        assert_true(tt_sim_run(s, t, 1000, TUTTI_F32, &o, &r, &err) < 0);
        if (!strstr(err.text, bad[i].why))
            fail_msg("%s: %s", bad[i].why, err.text);
    }
    tt_sched_free(s);
    tt_topo_free(t);
    t = topo_of("ring:4@1kbps,1us");
    s = sim_algo("ring", t, 1000);
    struct tt_sim_report *r = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sim_run(s, t, 1000, TUTTI_F32, &(struct tt_sim_options){.level = TT_SIM_PACKET}, &r, &err), TUTTI_ERR_LIMIT);
    assert_non_null(strstr(err.text, "too slow"));
    tt_sched_free(s);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_one_message), cmocka_unit_test(test_speeds),      cmocka_unit_test(test_credits),
        cmocka_unit_test(test_sharing),     cmocka_unit_test(test_interfaces),  cmocka_unit_test(test_against_flow),
        cmocka_unit_test(test_contended),   cmocka_unit_test(test_determinism), cmocka_unit_test(test_deadlock),
        cmocka_unit_test(test_no_deadlock), cmocka_unit_test(test_hpca),        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
