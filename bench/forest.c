/* How near the emitted schedules of `forest` come to their bound: all-reduce of 256 MiB, simulated at flow level, on every kind of network
 * up to 64 ranks and on random heterogeneous ones. Usage: bench_forest [-r N] [SPEC...]
 *
 * Without SPECs: the usual networks, then N random ones (200; seeds 1 to N). Columns, in percent above the bound: `rate` what the packing
 * of trees with integer weights leaves, `step` the schedule in the cost model, `flow` in the flow simulator. The bound is the larger of the
 * unconditional one (`tutti bound`) and the one on schedules made of tree pairs (the dual of the packing); `any` is flow against the
 * unconditional one alone. cpu: processor time of the packing, and of the simulation. All of it takes more than an hour. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "algo/forest/forest.h"
#include "plan/plan.h"
#include "sim/sim.h"

enum { COUNT = 1 << 26 };

static const char *const usual[] = {
    "star:2",
    "star:3",
    "star:8",
    "star:33",
    "star:64",
    "ring:3",
    "ring:8",
    "ring:64",
    "full:4",
    "full:16",
    "full:64",
    "torus:4x4",
    "torus:3x5",
    "torus:8x8",
    "torus:4x4x4",
    "torus:2x3x5",
    "mesh:4x4",
    "mesh:8x8",
    "mesh:3x4x5",
    "hypercube:8",
    "hypercube:64",
    "fattree:4,2",
    "fattree:8,2",
    "fattree:8,2,over=2",
    "fattree:4,3",
    "fattree:2,5,over=2",
    "bigraph:2x4",
    "bigraph:4x8",
    "bigraph:4x16",
    "dln:9",
    "dln:16",
    "dln:64",
    "dln:64,t=2",
    "dln:16,h=4",
    "dln2d:4x4",
    "dln2d:8x8,t=1",
    "dln2d:8x8",
    "dsn:16",
    "dsn:64",
    "tree:(8 4 2 1)@100Gbps/10Gbps",
    "tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps",
    "tree:((8 8)(16 4)(12 2))@100Gbps/50Gbps/40Gbps",
    "tree:(16 16 16 16)@25Gbps/100Gbps",
    "nics:10G,10G,10G,2.5G",
    "nics:25G,25G,25G,10G,40G,100G",
    "dragonfly:4,2,2",
    "dragonfly:5,4,2",
    "dragonfly:4,4,4",
};

struct figures {
    uint32_t ranks, chunks, segments;
    double cpu_s, sim_s, rate, step, flow, any;
};

/* Processor time: others on the machine do not count. */
static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* A random connected network of 3 to 10 ranks and up to 3 switches: a random tree of them, and half as many to two and a half times as many
 * cables more; every other one has cables that are not as fast there as back. Rates 1 to 8 GB/s. */
static tutti_status random_network(uint64_t seed, struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_rng rng;
    struct tt_topo *t = NULL;
    tt_rng_seed(&rng, seed);
    uint32_t ranks = 3 + (uint32_t)tt_rng_below(&rng, 8), n = ranks + (uint32_t)tt_rng_below(&rng, 4);
    uint32_t cables = n + n / 2 + (uint32_t)tt_rng_below(&rng, 2 * n);
    tutti_status st = tt_topo_new("random", ranks, n - ranks, &t, err);
    for (uint32_t i = 1; i < cables && !st; i++) {
        uint32_t a = i < n ? i : (uint32_t)tt_rng_below(&rng, n), b = (uint32_t)tt_rng_below(&rng, i < n ? i : n);
        double there = 1e9 * (double)(1 + tt_rng_below(&rng, 8)), back = 1e9 * (double)(1 + tt_rng_below(&rng, 8));
        struct tt_link l = {.a = a, .b = b, .bw = {there, seed % 2 ? back : there}, .latency_ps = 1000000};
        if (a != b)
            st = tt_topo_add_link(t, &l, err);
    }
    if (!st)
        st = tt_topo_finish(t, &t, err);
    if (st)
        tt_topo_free(t);
    else
        *ret = t;
    return st;
}

static tutti_status simulate(const struct tt_plan *p, const struct tt_topo *t, double bound_s, struct figures *f, struct tutti_error *err)
{
    struct tt_sched *s = NULL;
    struct tt_sim_report *r = NULL;
    struct tt_sim_options o = {.level = TT_SIM_FLOW};
    tutti_status st = tt_plan_schedule(p, t, &s, err);
    if (!st)
        st = tt_sim_run(s, t, COUNT, TUTTI_F32, &o, &r, err);
    if (!st) {
        f->chunks = s->shape.chunks;
        f->segments = s->shape.segments;
        f->flow = (double)r->time_ps * 1e-12 / bound_s - 1;
        f->any = (double)r->time_ps / (double)p->bounds.time_ps - 1;
    }
    tt_sim_report_free(r);
    tt_sched_free(s);
    return st;
}

static tutti_status examine(const struct tt_topo *t, struct figures *f, struct tutti_error *err)
{
    struct tt_algo_args a = {.topo = t, .problem = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = COUNT, .dtype = TUTTI_F32}};
    struct tt_plan_options o = {.algo = "forest"};
    struct tt_algo_report rate;
    struct tt_forest_packing packing;
    struct tt_plan *p;
    double start = now_s();
    tutti_status st = tt_forest_make(t, TT_FOREST_BOTH, tt_forest_trees(&a), &packing, err);
    f->cpu_s = now_s() - start;
    if (!st) {
        tt_forest_packing_free(&packing);
        st = tt_plan_make(t, &a.problem, &o, NULL, &p, err);
    }
    if (st)
        return st;
    rate = p->built.report;
    double trees_s = 4.0 * COUNT / rate.dual_rate, any_s = (double)p->bounds.time_ps * 1e-12, bound_s = any_s > trees_s ? any_s : trees_s;
    f->ranks = t->ranks;
    f->rate = 4.0 * COUNT / rate.rate / bound_s - 1;
    f->step = (double)p->cost.time_ps * 1e-12 / bound_s - 1;
    start = now_s();
    st = simulate(p, t, bound_s, f, err);
    f->sim_s = now_s() - start;
    tt_plan_free(p);
    return st;
}

struct summary {
    uint32_t cases, beyond;
    double sum, worst, cpu_s;
};

static int report(const char *name, tutti_status st, const struct tt_topo *t, struct summary *all)
{
    struct figures f = {0};
    struct tutti_error err = {0};
    if (!st)
        st = examine(t, &f, &err);
    if (st) {
        fprintf(stderr, "bench_forest: %s: %s\n", name, err.text);
        return 1;
    }
    printf("%-48s %5u %6u %6u  %6.2f %6.1f  %7.3f %7.3f %7.3f  %7.3f\n", name, f.ranks, f.chunks, f.segments, f.cpu_s, f.sim_s,
           100 * f.rate, 100 * f.step, 100 * f.flow, 100 * f.any);
    fflush(stdout);
    all->cases++;
    all->beyond += f.flow > 0.02;
    all->sum += f.flow;
    all->worst = f.flow > all->worst ? f.flow : all->worst;
    all->cpu_s = f.cpu_s > all->cpu_s ? f.cpu_s : all->cpu_s;
    return 0;
}

static int on_spec(const char *spec, struct summary *all)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    tutti_status st = tt_topo_parse(spec, &t, &err);
    if (st)
        fprintf(stderr, "bench_forest: %s\n", err.text);
    int bad = st ? 1 : report(spec, st, t, all);
    tt_topo_free(t);
    return bad;
}

static int on_random(uint64_t seed, struct summary *all)
{
    struct tt_topo *t = NULL;
    struct tutti_error err = {0};
    char name[32];
    tutti_status st = random_network(seed, &t, &err);
    snprintf(name, sizeof(name), "random %" PRIu64, seed);
    int bad = report(name, st, t, all);
    tt_topo_free(t);
    return bad;
}

static void conclude(const char *of, const struct summary *s)
{
    if (s->cases)
        printf("# %s: %u cases, flow worst %.3f %%, mean %.3f %%, %u beyond 2 %%; packing at most %.2f s\n", of, s->cases, 100 * s->worst,
               100 * s->sum / s->cases, s->beyond, s->cpu_s);
}

int main(int argc, char **argv)
{
    struct summary named = {0}, random = {0};
    uint64_t graphs = argc > 1 ? 0 : 200;
    int bad = 0, i = 1;
    if (argc > 2 && strcmp(argv[1], "-r") == 0) {
        graphs = strtoull(argv[2], NULL, 10);
        i = 3;
    }
    printf("%-48s %5s %6s %6s  %6s %6s  %7s %7s %7s  %7s\n", "# allreduce of 256 MiB, % above the bound", "ranks", "chunks", "K", "cpu_s",
           "sim_s", "rate", "step", "flow", "any");
    for (; i < argc; i++)
        bad |= on_spec(argv[i], &named);
    for (size_t k = 0; argc == 1 && k < countof(usual); k++)
        bad |= on_spec(usual[k], &named);
    conclude("named networks", &named);
    for (uint64_t seed = 1; seed <= graphs; seed++)
        bad |= on_random(seed, &random);
    conclude("random networks", &random);
    return bad;
}
