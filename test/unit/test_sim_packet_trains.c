/* test_sim_packet_trains.c - promises of whole trains against flit by flit: the same engine with promises of one flit only is the
 * definition (every rule is then applied to each flit by itself), and every time and count of the two must agree, on random networks,
 * schedules, buffers, channels, speeds and modes. */
#include "sim_packet_case.h"

static struct tt_sim_report *run(const struct tt_sim_input *in, uint64_t max_promise, struct tutti_error *err)
{
    struct tt_sim_report *r = tt_zalloc(1, sizeof *r);
    r->ranks = in->t->ranks;
    r->nlinks2 = 2 * in->t->nlinks;
    r->messages = (uint64_t)in->w->nmsgs * in->w->segments;
    r->links = tt_zalloc(r->nlinks2 + 1u, sizeof *r->links);
    r->rank = tt_zalloc(r->ranks, sizeof *r->rank);
    r->timeline = tt_zalloc(r->messages + 1, sizeof *r->timeline);
    if (tt_sim_packet_run_promised(in, max_promise, r, err) == TUTTI_OK)
        return r;
    tt_sim_report_free(r);
    return NULL;
}

static void compare(const struct tt_sim_report *a, const struct tt_sim_report *b, const char *what)
{
    if (a->time_ps != b->time_ps || a->flits != b->flits || a->head_flits != b->head_flits || a->credit_stalls != b->credit_stalls ||
        a->lockstep_waits_ps != b->lockstep_waits_ps || a->cycles != b->cycles)
        fail_msg("%s: time %llu, %llu ps; stalls %llu, %llu", what, (unsigned long long)a->time_ps, (unsigned long long)b->time_ps,
                 (unsigned long long)a->credit_stalls, (unsigned long long)b->credit_stalls);
    for (uint32_t i = 0; i < a->nlinks2; i++)
        if (a->links[i].busy_ps != b->links[i].busy_ps || a->links[i].peak != b->links[i].peak)
            fail_msg("%s: link %u differs", what, i);
    for (uint32_t i = 0; i < a->ranks; i++)
        if (memcmp(&a->rank[i], &b->rank[i], sizeof a->rank[i]) != 0)
            fail_msg("%s: rank %u differs", what, i);
    assert_int_equal(a->ntimeline, b->ntimeline);
    for (size_t i = 0; i < a->ntimeline; i++)
        if (memcmp(&a->timeline[i], &b->timeline[i], sizeof a->timeline[i]) != 0)
            fail_msg("%s: message %u->%u in step %u: ends at %llu, %llu ps", what, a->timeline[i].src, a->timeline[i].dst,
                     a->timeline[i].step, (unsigned long long)a->timeline[i].end_ps, (unsigned long long)b->timeline[i].end_ps);
}

static const char *const specs[] = {
    "ring:6@16GB/s,150ns",      "torus:4x4@16GB/s,20ns",     "torus:3x3@3GB/s,7ns",     "mesh:3x4@16GB/s,0",
    "star:6@16GB/s,50ns",       "fattree:2,3@16GB/s,33ns",   "hypercube:8@1GB/s,100ns", "tree:((2 2)(2 1))@100Gbps/25Gbps/10Gbps,40ns",
    "nics:10G,10G,2.5G,1G,10G", "ring:5@16GB/s,60ns,0,half", "full:5@7GB/s,90ns",       "dln:12@16GB/s,300ns"};

static struct tt_sched *random_sched(const struct tt_topo *t, struct tt_rng *rng)
{
    struct sim_case_msg m[40];
    size_t n = 1 + tt_rng_below(rng, 40);
    uint32_t step = 0;
    for (size_t i = 0; i < n; i++) {
        step += (uint32_t)tt_rng_below(rng, 8) == 0;
        m[i] = (struct sim_case_msg){.src = (uint32_t)tt_rng_below(rng, t->ranks), .step = step, .chunk = (uint32_t)i};
        m[i].dst = (m[i].src + 1 + (uint32_t)tt_rng_below(rng, t->ranks - 1)) % t->ranks;
        if (i && tt_rng_below(rng, 2) && m[i - 1].step < step) { /* hands on what came before */
            m[i].src = m[i - 1].dst;
            m[i].chunk = m[i - 1].chunk;
            m[i].dst = m[i - 1].src;
        }
    }
    return sim_sched(t, (uint32_t)n, m, n, tt_rng_below(rng, 2));
}

static const char *const algos[] = {"ring", "direct", "halving-doubling", "bucket", "double-tree", "multitree"};

static struct tt_sched *some_sched(const struct tt_topo *t, struct tt_rng *rng)
{
    struct tt_algo_args a = {.problem = {TUTTI_ALLREDUCE, t->ranks, 0, 1000, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
    struct tutti_error err;
    struct tt_sched *s;
    const struct tt_algo *al = tt_algo_find(algos[tt_rng_below(rng, countof(algos))]);
    if (tt_rng_below(rng, 2) || !al || tt_algo_probe(al, &a, &err) != TUTTI_OK || tt_algo_build(al, &a, &s, &err) != TUTTI_OK)
        return random_sched(t, rng);
    return s;
}

static struct tt_sim_options some_options(struct tt_rng *rng)
{
    static const uint32_t buffers[] = {0, 1, 2, 5, 17, 40, 200};
    struct tt_sim_options o = {.level = TT_SIM_PACKET, .timeline = true};
    o.packet.message_mode = tt_rng_below(rng, 2);
    o.packet.lockstep = tt_rng_below(rng, 3) == 0;
    o.packet.vcs = (uint32_t)tt_rng_below(rng, 6);
    o.packet.buffer_flits = buffers[tt_rng_below(rng, countof(buffers))];
    o.packet.payload_bytes = 16U << tt_rng_below(rng, 6);
    o.packet.cycles_per_flit = (uint32_t)tt_rng_below(rng, 4);
    o.packet.router_cycles = (uint32_t)tt_rng_below(rng, 4);
    o.packet.interfaces = (uint32_t)tt_rng_below(rng, 4);
    if (tt_rng_below(rng, 2))
        o.packet.aggregate_bytes_per_s = 1e9 * (double)(1 + tt_rng_below(rng, 100));
    if (tt_rng_below(rng, 4) == 0)
        o.whatif = (struct tt_sim_whatif){.jitter = 0.5, .seed = tt_rng_next(rng)};
    return o;
}

/* One case; false: it ended in a deadlock (which both must say). */
static bool one(uint64_t seed)
{
    struct tt_rng rng;
    tt_rng_seed(&rng, seed);
    struct tt_topo *t = topo_of(specs[tt_rng_below(&rng, countof(specs))]);
    struct tt_sched *s = some_sched(t, &rng);
    s->shape.segments = 1 + (uint32_t)(tt_rng_below(&rng, 3) == 0);
    struct tt_sim_options o = some_options(&rng);
    double slow[16], rate[256];
    for (uint32_t i = 0; i < t->ranks; i++)
        slow[i] = tt_rng_below(&rng, 8) ? 1 : 2.5;
    for (uint32_t i = 0; i < 2 * t->nlinks; i++)
        rate[i] = t->links[i / 2].bw[i % 2] / (tt_rng_below(&rng, 10) || t->links[i / 2].half ? 1 : 3);
    struct tt_work *w = NULL;
    struct tutti_error err = {0}, err1 = {0};
    if (tt_sim_work_make(s, t, 200 + tt_rng_below(&rng, 20000), TUTTI_F32, &w, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    struct tt_sim_input in = {.w = w, .s = s, .t = t, .o = &o, .slow = slow, .rate = rate};
    struct tt_sim_report *trains = run(&in, 0, &err), *single = run(&in, 1, &err1);
    char what[160];
    snprintf(what, sizeof what, "seed %llu on %s", (unsigned long long)seed, t->spec);
    if (!trains != !single)
        fail_msg("%s: %s | %s", what, err.text, err1.text);
    bool ran = trains != NULL;
    if (ran)
        compare(trains, single, what);
    else
        assert_string_equal(err.text, err1.text);
    if (ran && o.packet.message_mode && s->shape.segments == 1 && trains->flits > 2000 && !o.packet.buffer_flits)
        assert_true(trains->events <= single->events);
    tt_sim_report_free(trains);
    tt_sim_report_free(single);
    tt_sim_work_free(w);
    tt_sched_free(s);
    tt_topo_free(t);
    return ran;
}

static void test_trains(void **state)
{
    (void)state;
    unsigned ran = 0, seeds = 400;
    const char *more = getenv("TUTTI_TRAIN_SEEDS");
    if (more)
        seeds = (unsigned)atoi(more);
    for (uint64_t seed = 1; seed <= seeds; seed++)
        ran += one(seed);
    assert_true(ran > seeds * 3 / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_trains)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
