/* test_sim_flow_more.c - the flow level against a naive second implementation of fluids on random messages; what-ifs; determinism; declared
 * routes; inputs that must be refused. */
#include "sim_flow_case.h"

#include <math.h>

/* ---- naive fluids: rates found from scratch after every end ---- */

enum { MOST = 40 };
struct fluid {
    uint32_t path[64], n;
    double left, rate, end;
    bool settled;
};

/* Max-min by the definition: again and again the fullest link settles its flows. */
static void naive_rates(const struct tt_topo *t, struct fluid *f, size_t n)
{
    for (size_t i = 0; i < n; i++)
        f[i].settled = f[i].left <= 0;
    for (;;) {
        double least = INFINITY;
        uint32_t which = 0;
        for (uint32_t d = 0; d < 2 * t->nlinks; d++) {
            double room = t->links[d / 2].bw[d & 1], open = 0;
            for (size_t i = 0; i < n; i++)
                for (uint32_t k = 0; k < f[i].n; k++)
                    if (f[i].path[k] == d && f[i].left > 0) {
                        room -= f[i].settled ? f[i].rate : 0;
                        open += !f[i].settled;
                    }
            if (open > 0 && room / open < least) {
                least = room / open;
                which = d;
            }
        }
        if (least == INFINITY)
            return;
        for (size_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < f[i].n; k++)
                if (f[i].path[k] == which && !f[i].settled) {
                    f[i].settled = true;
                    f[i].rate = least;
                }
    }
}

static void naive_run(const struct tt_topo *t, struct fluid *f, size_t n)
{
    double now = 0;
    for (size_t live = n; live > 0;) {
        double next = INFINITY;
        naive_rates(t, f, n);
        for (size_t i = 0; i < n; i++)
            if (f[i].left > 0)
                next = fmin(next, f[i].left / f[i].rate);
        now += next;
        for (size_t i = 0; i < n; i++) {
            if (f[i].left <= 0)
                continue;
            f[i].left -= f[i].rate * next;
            if (f[i].left > 1e-6)
                continue;
            f[i].left = 0;
            f[i].end = now * 1e12;
            live--;
        }
    }
}

/* Messages between random pairs, each pair once (a connection sends one after the other), chunks of random length. */
static void random_case(const char *spec, uint64_t seed)
{
    struct tt_topo *t = topo_of(spec);
    struct sim_msg m[MOST];
    struct fluid f[MOST];
    uint32_t weights[MOST];
    struct tt_rng rng;
    size_t n = 0;
    tt_rng_seed(&rng, seed);
    for (int i = 0; i < MOST; i++) {
        uint32_t src = (uint32_t)tt_rng_below(&rng, t->ranks), dst = (uint32_t)tt_rng_below(&rng, t->ranks);
        bool fresh = src != dst;
        for (size_t k = 0; k < n; k++)
            fresh = fresh && (m[k].src != src || m[k].dst != dst);
        if (!fresh)
            continue;
        m[n] = (struct sim_msg){src, dst, 0, (uint32_t)n};
        weights[n++] = 1 + (uint32_t)tt_rng_below(&rng, 50);
    }
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += weights[i] * UINT64_C(640);
    for (size_t i = 0; i < n; i++) {
        f[i] = (struct fluid){.left = weights[i] * 640.0};
        assert_int_equal(tt_topo_route(t, m[i].src, m[i].dst, f[i].path, 64, &f[i].n, NULL), TUTTI_OK);
    }
    naive_run(t, f, n);
    struct tt_sched *s = sim_sched(t->ranks, (uint32_t)n, weights, m, n);
    struct tt_sim_report *r = sim_run(s, t, total, &(struct tt_sim_options){.timeline = true});
    assert_int_equal(r->ntimeline, n);
    for (size_t e = 0; e < n; e++)
        for (size_t i = 0; i < n; i++)
            if (m[i].src == r->timeline[e].src && m[i].dst == r->timeline[e].dst &&
                fabs((double)r->timeline[e].end_ps - f[i].end) > 3 + f[i].end * 1e-9)
                fail_msg("%s, seed %llu: %u->%u ends at %llu ps, not %.1f", spec, (unsigned long long)seed, m[i].src, m[i].dst,
                         (unsigned long long)r->timeline[e].end_ps, f[i].end);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_naive(void **state)
{
    (void)state;
    const char *const specs[] = {
        "ring:7@1GB/s,0",  "torus:4x4@3GB/s,0", "star:9@1GB/s,0", "fattree:2,3@10Gbps,0", "tree:((3 2) (2 2))@10G/4G/2G,0",
        "mesh:3x4@7GB/s,0"};
    for (size_t i = 0; i < countof(specs); i++)
        for (uint64_t seed = 1; seed <= 15; seed++)
            random_case(specs[i], seed);
}

/* ---- one rank for all ---- */

static void expect_same(const struct tt_sim_report *a, const struct tt_sim_report *b, const char *what)
{
    if (a->time_ps != b->time_ps || a->messages != b->messages || a->max_link_contention != b->max_link_contention ||
        a->busiest_link != b->busiest_link)
        fail_msg("%s: %llu and %llu ps", what, (unsigned long long)a->time_ps, (unsigned long long)b->time_ps);
    for (uint32_t i = 0; i < a->nlinks2; i++)
        if (memcmp(&a->links[i], &b->links[i], sizeof a->links[i]) != 0)
            fail_msg("%s: link %u differs", what, i);
    for (uint32_t i = 0; i < a->ranks; i++)
        if (memcmp(&a->rank[i], &b->rank[i], sizeof a->rank[i]) != 0)
            fail_msg("%s: rank %u differs", what, i);
}

/* Rank 0 alone, where it is taken: the same as all ranks. Returns whether it was. */
static bool expect_same_of_one(const struct tt_sched *all, const struct tt_topo *t, const struct tt_sim_options *o,
                               const struct tt_sim_report *want, const char *what)
{
    struct tt_sched one = *all;
    struct tt_sim_report *r = NULL;
    one.nslices = 1;
    tutti_status st = tt_sim_run(&one, t, t->ranks * UINT64_C(16384), TUTTI_I8, o, &r, NULL);
    assert_true(st == TUTTI_OK || st == TUTTI_ERR_MISMATCH);
    if (st)
        return false;
    expect_same(r, want, what);
    assert_int_equal(r->messages, want->messages);
    tt_sim_report_free(r);
    return true;
}

/* With a timeline all ranks are run, without it one where that is enough: nothing else may differ. */
static void test_symmetry(void **state)
{
    (void)state;
    const char *const specs[] = {
        "ring:8@3GB/s,1us,7ps",     "star:8@1GB/s,1us",         "full:6@1GB/s,2us",         "dln:16@10Gbps,1us,3ps",   "ring:2@1GB/s,1us",
        "star:5,ports=1@1GB/s,1us", "ring:8,ports=1@1GB/s,1us", "full:6,ports=2@1GB/s,1us", "ring:9@1GB/s,1us,0,half", "torus:4x4"};
    size_t n, saved = 0, alone = 0;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (size_t i = 0; i < countof(specs); i++)
        for (size_t k = 0; k < 4 * n; k++) {
            struct tt_topo *t = topo_of(specs[i]);
            struct tt_sched *s = sim_algo(table[k / 4]->name, t, t->ranks * 4096u, k & 1 ? 3 : 1);
            t->overhead_ps = k & 2 ? 12345 : 0;
            struct tt_sim_options o = {.sharing = k & 1 ? TT_SIM_RTT : TT_SIM_FAIR};
            if (s) {
                struct tt_sim_report *a = sim_run(s, t, t->ranks * UINT64_C(16384), &o);
                o.timeline = true;
                struct tt_sim_report *b = sim_run(s, t, t->ranks * UINT64_C(16384), &o);
                char what[100];
                snprintf(what, sizeof what, "%s on %s (%zu)", table[k / 4]->name, specs[i], k & 3);
                expect_same(a, b, what);
                saved += a->events < b->events;
                o.timeline = false;
                alone += expect_same_of_one(s, t, &o, b, what);
                tt_sim_report_free(a);
                tt_sim_report_free(b);
            }
            tt_sched_free(s);
            tt_topo_free(t);
        }
    assert_true(saved >= 40);
    assert_true(alone >= saved);
}

/* A schedule that declares a symmetry which it has not is simulated in full. */
static void test_false_symmetry(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 1, 0, 0}, {1, 2, 0, 1}, {2, 3, 0, 2}, {3, 1, 0, 3}};
    struct tt_topo *t = topo_of("ring:4@64GB/s,1us");
    struct tt_sched *s = sim_sched(4, 4, NULL, m, 4);
    uint64_t time = sim_time(s, t, 4 * 6400, NULL);
    assert_int_equal(time, 200000 + 2000000); /* 3 -> 1 goes over 0 and shares the link 0 -> 1 */
    s->shape.symmetric = true;
    assert_int_equal(sim_time(s, t, 4 * 6400, NULL), time);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* ---- what if ---- */

static struct tt_sched *pair(struct tt_topo **ret_t)
{
    const struct sim_msg m[] = {{0, 1, 0, 0}};
    *ret_t = topo_of("ring:3@64GB/s,1us");
    return sim_sched(3, 1, NULL, m, 1);
}

static void test_slow(void **state)
{
    (void)state;
    struct tt_topo *t;
    struct tt_sched *s = pair(&t);
    for (uint32_t rank = 0; rank < 3; rank++) {
        const struct tt_sim_slow slow[] = {{rank, 4}};
        struct tt_sim_options o = {.whatif = {.slow = slow, .nslow = 1}};
        /* both links of the rank together: 128 GB/s, a quarter is half a link */
        assert_int_equal(sim_time(s, t, 6400, &o), rank == 2 ? 1100000 : 1200000);
    }
    t->overhead_ps = 10000;
    const struct tt_sim_slow twice[] = {{0, 1.5}, {0, 2}};
    assert_int_equal(sim_time(s, t, 0, &(struct tt_sim_options){.whatif = {.slow = twice, .nslow = 2}}), 30000 + 1000000);
    tt_sched_free(s);
    tt_topo_free(t);
    t = topo_of("star:4@1GB/s,0,250ps");
    s = sim_algo("ring", t, 1 << 16, 0);
    const struct tt_sim_slow one[] = {{2, 3}};
    uint64_t time = sim_time(s, t, 1 << 18, &(struct tt_sim_options){.whatif = {.slow = one, .nslow = 1}});
    /* its six receptions follow each other without a pause; what it sends comes one reduction later, and the reductions hide behind that */
    assert_int_equal(time, 6 * UINT64_C(65536) * 3000 + 65536 * 750);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_degrade(void **state)
{
    (void)state;
    struct tt_topo *t;
    struct tt_sched *s = pair(&t);
    uint32_t link, n;
    uint32_t path[8];
    assert_int_equal(tt_topo_route(t, 0, 1, path, 8, &n, NULL), TUTTI_OK);
    link = path[0];
    for (uint32_t d = 0; d < 6; d++) {
        const struct tt_sim_degrade bad[] = {{d, 8}};
        struct tt_sim_options o = {.whatif = {.degrade = bad, .ndegrade = 1}};
        assert_int_equal(sim_time(s, t, 6400, &o), d == link ? 1800000 : 1100000);
    }
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_jitter(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:8@1GB/s,1us");
    struct tt_sched *s = sim_algo("ring", t, 2048, 0);
    struct tt_sim_options o = {.timeline = true, .whatif = {.jitter = 0.5, .seed = 1}};
    struct tt_sim_report *a = sim_run(s, t, 8192, &o), *b = sim_run(s, t, 8192, &o);
    assert_int_equal(a->time_ps, b->time_ps);
    assert_memory_equal(a->timeline, b->timeline, a->ntimeline * sizeof *a->timeline);
    for (size_t i = 0; i < a->ntimeline; i++) {
        uint64_t took = a->timeline[i].end_ps - a->timeline[i].start_ps;
        assert_true(took >= 1024000 + 1000000 && took <= 1024000 + 1500000);
    }
    assert_true(a->time_ps > 14 * (1024000 + 1000000) && a->time_ps < 14 * (1024000 + 1500000));
    o.whatif.seed = 2;
    struct tt_sim_report *c = sim_run(s, t, 8192, &o);
    assert_true(c->time_ps != a->time_ps);
    tt_sim_report_free(a);
    tt_sim_report_free(b);
    tt_sim_report_free(c);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Messages of one connection do not overtake each other, however their latencies are stretched. */
static void test_no_overtaking(void **state)
{
    (void)state;
    const struct sim_msg m[] = {{0, 1, 0, 0}, {0, 1, 1, 1}, {0, 1, 2, 2}, {0, 1, 3, 3}, {0, 1, 4, 4}, {0, 1, 5, 5}};
    struct tt_topo *t = topo_of("star:2@1GB/s,1us");
    struct tt_sched *s = sim_sched(2, 6, NULL, m, 6);
    struct tt_sim_report *r = sim_run(s, t, 6 * 64, &(struct tt_sim_options){.timeline = true, .whatif = {.jitter = 5, .seed = 3}});
    bool held = false;
    for (size_t i = 1; i < r->ntimeline; i++) {
        assert_int_equal(r->timeline[i].step, i);
        assert_true(r->timeline[i].end_ps >= r->timeline[i - 1].end_ps);
        held = held || r->timeline[i].end_ps == r->timeline[i - 1].end_ps;
    }
    assert_true(held);
    tt_sim_report_free(r);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* ---- routes of the schedule ---- */

/* Ring of 4, 0 -> 1 the long way round: three links and latencies instead of one. */
static struct tt_sched *detour(const struct tt_topo *t, uint64_t hash, bool broken)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 4, .chunks = 1, .nbufs = 2, .segments = 1, .topo_hash = hash};
    struct tutti_error err = {0};
    struct tt_builder b;
    struct tt_sched *s = NULL;
    struct tt_span out = tt_sched_span_range(TT_BUF_IN, 0, 1), in = tt_sched_span_range(TT_BUF_OUT, 0, 1);
    uint32_t links[3], n;
    assert_int_equal(tt_topo_route(t, 0, 3, &links[0], 2, &n, NULL), TUTTI_OK);
    assert_int_equal(tt_topo_route(t, 3, 2, &links[1], 2, &n, NULL), TUTTI_OK);
    assert_int_equal(tt_topo_route(t, 2, 1, &links[2], 2, &n, NULL), TUTTI_OK);
    tt_sched_build_begin(&b, &shape, 0);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_send(&b, 0, 1, 0, &out, 1);
    tt_sched_build_rank(&b, 1);
    tt_sched_emit_recv(&b, 0, 0, 0, &in, 1);
    tt_sched_build_rank(&b, 2);
    tt_sched_build_rank(&b, 3);
    tt_sched_build_route(&b, 0, 1, 0, links, broken ? 2 : 3);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
    return s;
}

static void expect_refusal(const struct tt_sched *s, const struct tt_topo *t, const struct tt_sim_options *o, const char *words)
{
    struct tutti_error err = {0};
    struct tt_sim_report *r = NULL;
    assert_true(tt_sim_run(s, t, 6400, TUTTI_I8, o, &r, &err) < 0);
    assert_null(r);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" does not say \"%s\"", err.text, words);
}

static void test_routes(void **state)
{
    (void)state;
    const struct tt_sim_options none = {0};
    struct tt_topo *t = topo_of("ring:4@64GB/s,1us");
    struct tt_sched *s = detour(t, t->hash, false);
    assert_int_equal(sim_time(s, t, 6400, NULL), 3000000 + 100000);
    tt_sched_free(s);
    s = detour(t, t->hash, true);
    expect_refusal(s, t, &none, "0->1");
    tt_sched_free(s);
    s = detour(t, t->hash + 1, false);
    expect_refusal(s, t, &none, "another network");
    tt_sched_free(s);
    tt_topo_free(t);
}

/* ---- refusals ---- */

static void test_refusals(void **state)
{
    (void)state;
    struct tt_topo *t, *five = topo_of("star:5");
    struct tt_sched *s = pair(&t);
    const struct tt_sim_slow rank9[] = {{9, 2}}, zero[] = {{1, 0}}, nan[] = {{1, NAN}};
    const struct tt_sim_degrade link6[] = {{6, 2}}, negative[] = {{1, -1}}, inf[] = {{1, INFINITY}};
    expect_refusal(s, five, &(struct tt_sim_options){0}, "for 3 ranks, the topology has 5");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.slow = rank9, .nslow = 1}}, "no rank 9");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.slow = zero, .nslow = 1}}, "rank 1 must be positive");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.slow = nan, .nslow = 1}}, "rank 1 must be positive");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.degrade = link6, .ndegrade = 1}}, "no directed link 6");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.degrade = negative, .ndegrade = 1}}, "link 1 must be positive");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.degrade = inf, .ndegrade = 1}}, "link 1 must be positive");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.jitter = -1}}, "jitter");
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.jitter = NAN}}, "jitter");
    const struct tt_sim_degrade endless[] = {{0, 1e30}, {1, 1e30}, {2, 1e30}, {3, 1e30}, {4, 1e30}, {5, 1e30}};
    expect_refusal(s, t, &(struct tt_sim_options){.whatif = {.degrade = endless, .ndegrade = 6}}, "53 days");
    tt_sched_free(s);
    tt_topo_free(t);
    tt_topo_free(five);
}

static void test_halves(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:4");
    struct tt_algo_args a = {.problem = {TUTTI_ALLREDUCE, 4, 0, 100, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_algo_slice(tt_algo_find("ring"), &a, 0, 2, &s, &err), TUTTI_OK);
    expect_refusal(s, t, &(struct tt_sim_options){0}, "2 of 4 ranks");
    tt_sched_free(s);
    /* one end of a message is missing */
    for (int sends = 0; sends < 2; sends++) {
        struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 4, .chunks = 1, .nbufs = 2, .segments = 1};
        struct tt_builder b;
        struct tt_span span = tt_sched_span_range(sends ? TT_BUF_IN : TT_BUF_OUT, 0, 1);
        tt_sched_build_begin(&b, &shape, 0);
        for (uint32_t r = 0; r < 4; r++) {
            tt_sched_build_rank(&b, r);
            if (r == 2 && sends)
                tt_sched_emit_send(&b, 0, 3, 0, &span, 1);
            if (r == 2 && !sends)
                tt_sched_emit_recv(&b, 0, 3, 0, &span, 1);
        }
        assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
        expect_refusal(s, t, &(struct tt_sim_options){0},
                       sends ? "rank 2 sends 1 messages to rank 3" : "rank 2 receives a message from rank 3");
        tt_sched_free(s);
    }
    tt_topo_free(t);
}

static bool stop_soon(void *ctx, double fraction)
{
    unsigned *calls = ctx;
    assert_true(fraction >= 0 && fraction <= 1);
    return ++*calls < 2;
}

static void test_stop(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:256");
    struct tt_sched *s = sim_algo("ring", t, 1 << 16, 0);
    unsigned calls = 0;
    struct tt_sim_options o = {.progress = stop_soon, .progress_ctx = &calls, .whatif = {.jitter = 0.1}}; /* every rank is run */
    struct tt_sim_report *r = NULL;
    struct tutti_error err = {0};
    assert_int_equal(tt_sim_run(s, t, 1 << 18, TUTTI_I8, &o, &r, &err), TUTTI_ERR_ABORTED);
    assert_null(r);
    assert_int_equal(calls, 2);
    tt_sched_free(s);
    tt_topo_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_symmetry),      cmocka_unit_test(test_false_symmetry), cmocka_unit_test(test_naive),
        cmocka_unit_test(test_slow),          cmocka_unit_test(test_degrade),        cmocka_unit_test(test_jitter),
        cmocka_unit_test(test_routes),        cmocka_unit_test(test_refusals),       cmocka_unit_test(test_halves),
        cmocka_unit_test(test_no_overtaking), cmocka_unit_test(test_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
