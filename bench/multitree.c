/* Processor time to grow MultiTree's trees, and to make a whole all-reduce schedule of them. Usage: bench_multitree [SPEC...]
 * For each network the least of 7 runs (growing, without the cache), the time to read the same trees back from the cache when it keeps
 * them, and the schedule's. Set XDG_CACHE_HOME to measure with an empty cache. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "algo/algos.h"
#include "algo/multitree/multitree.h"
#include "plan/plan_int.h"

enum { RUNS = 7 };

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Processor time: others on the machine do not count. */
static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double grow(const struct tt_topo *t, uint32_t *ret_steps)
{
    struct tt_multitree_options o = {0};
    struct tt_multitree_trees f;
    double start = now_ms();
    if (tt_multitree_make(t, &o, &f, NULL))
        return -1;
    double ms = now_ms() - start;
    *ret_steps = f.steps;
    tt_multitree_free(&f);
    return ms;
}

/* Reading the trees back: the file, and the trees in it. -1: they are not kept. */
static double load(const struct tt_topo *t)
{
    struct tt_multitree_options o = {0};
    struct tt_algo_memo m = {.name = ""};
    struct tt_multitree_trees f;
    if (!tt_multitree_worth_keeping(t))
        return -1;
    tt_multitree_name(t, &o, m.name, sizeof m.name);
    double start = now_ms();
    if (!tt_plan_disk_read(m.name, &m.known) || !tt_multitree_decode(t, &o, &m.known, &f))
        return -1;
    double ms = now_ms() - start;
    tt_vec_free(&m.known);
    tt_multitree_free(&f);
    return ms;
}

static double schedule(const struct tt_topo *t)
{
    struct tt_algo_args a = {.problem = {.coll = TUTTI_ALLREDUCE, .ranks = t->ranks, .count = 1 << 24, .dtype = TUTTI_F32}, .topo = t};
    struct tt_built b;
    double start = now_ms();
    if (tt_plan_build(&tt_algo_multitree, &a, NULL, &b, NULL))
        return -1;
    double ms = now_ms() - start;
    tt_sched_free(b.sched);
    return ms;
}

static int measure(const char *spec)
{
    struct tt_topo *t;
    struct tutti_error err;
    double ms[RUNS];
    uint32_t steps = 0;
    if (tt_topo_parse(spec, &t, &err)) {
        fprintf(stderr, "bench_multitree: %s\n", err.text);
        return 1;
    }
    for (int i = 0; i < RUNS; i++)
        ms[i] = grow(t, &steps);
    qsort(ms, RUNS, sizeof ms[0], compare);
    schedule(t); /* writes the trees */
    double from_disk = load(t), whole = schedule(t);
    printf("%-18s %5u ranks  %5u steps  grown in %9.3f ms", spec, t->ranks, steps, ms[0]);
    if (from_disk >= 0)
        printf("  read in %8.3f ms", from_disk);
    printf("  schedule %9.3f ms\n", whole);
    tt_topo_free(t);
    return 0;
}

int main(int argc, char **argv)
{
    static const char *const usual[] = {"torus:8x8",    "torus:16x16", "torus:32x32", "mesh:16x16",  "hypercube:1024",
                                        "dln:1024,t=3", "star:256",    "fattree:8,2", "fattree:8,3", "bigraph:4x16"};
    int bad = 0;
    for (int i = 1; i < argc; i++)
        bad |= measure(argv[i]);
    for (size_t i = 0; argc == 1 && i < countof(usual); i++)
        bad |= measure(usual[i]);
    return bad;
}
