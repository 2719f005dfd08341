/* tutti sim: the time of a schedule on a network. The level "step" is the planner's own cost function. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct cli_option own[] = {{"plan", 'p', "FILE", "a plan written by tutti plan, in place of --algo"},
                                        {"level", 'l', "LEVEL", "step: bulk-synchronous cost, the planner's own (the only level yet)"},
                                        {0}};
static const struct cli_option *const options[] = {cli_topo_options, cli_problem_options, cli_algo_options, own, cli_json_options, NULL};

struct answer {
    struct tutti_sim_result r;
    double bound_us, wall_s; /* bound_us is not a number when there is none to state */
    bool exact;
    const char *algo;
};

static void print_json(const struct answer *x)
{
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "level", "step");
    tutti_json_string(j, "algo", x->algo);
    tutti_json_real(j, "time_us", x->r.time_us);
    tutti_json_bool(j, "exact", x->exact);
    tutti_json_real(j, "latency_us", x->r.latency_us);
    tutti_json_real(j, "transfer_us", x->r.transfer_us);
    tutti_json_real(j, "reduce_us", x->r.reduce_us);
    tutti_json_real(j, "overhead_us", x->r.overhead_us);
    tutti_json_u64(j, "steps", x->r.steps);
    tutti_json_u64(j, "bytes_on_busiest_link", x->r.bytes_on_busiest_link);
    tutti_json_u64(j, "busiest_link", x->r.busiest_link);
    tutti_json_u64(j, "max_link_contention", x->r.max_link_contention);
    tutti_json_real(j, "bound_us", x->bound_us);
    tutti_json_u64(j, "events", x->r.messages);
    tutti_json_real(j, "wall_s", x->wall_s);
    tutti_json_end(j);
    tutti_json_close(j);
}

static void print_text(const struct answer *x, const struct tutti_topo *t)
{
    char a[64], b[64], c[64], d[64], e[64], link[160];
    printf("%s: %s%s in %u step%s (latency %s, links %s, reduction %s, host overhead %s)\n", x->algo, x->exact ? "" : "at most ",
           tutti_format_us(x->r.time_us, a, sizeof a), x->r.steps, x->r.steps == 1 ? "" : "s",
           tutti_format_us(x->r.latency_us, b, sizeof b), tutti_format_us(x->r.transfer_us, c, sizeof c),
           tutti_format_us(x->r.reduce_us, d, sizeof d), tutti_format_us(x->r.overhead_us, e, sizeof e));
    if (x->r.messages)
        printf("busiest link %s carries %s; at most %u message%s on a link in a step\n",
               tutti_topo_link_name(t, x->r.busiest_link, link, sizeof link), tutti_format_size(x->r.bytes_on_busiest_link, a, sizeof a),
               x->r.max_link_contention, x->r.max_link_contention == 1 ? "" : "s");
    if (isnan(x->bound_us)) {
        printf("bound not stated: the plan's blocks are uneven\n");
        return;
    }
    printf("bound %s%s", tutti_format_us(x->bound_us, a, sizeof a), x->bound_us > 0 ? "" : "\n");
    if (x->bound_us > 0)
        printf(", %.3f x\n", x->r.time_us / x->bound_us);
}

static double seconds_since(const struct timespec *t0)
{
    struct timespec t1;
    clock_gettime(CLOCK_MONOTONIC, &t1);
    return (double)(t1.tv_sec - t0->tv_sec) + (double)(t1.tv_nsec - t0->tv_nsec) * 1e-9;
}

static void print(const struct cli_args *a, const struct tutti_topo *t, const struct answer *x)
{
    if (cli_flag(a, "json"))
        print_json(x);
    else
        print_text(x, t);
}

/* The named (or chosen) algorithm: planning has priced its schedule with the same function, there is no need to build it. */
static int simulate_planned(const struct cli_args *a, const struct tutti_topo *t)
{
    struct cli_problem problem;
    struct tutti_error err;
    struct tutti_plan *p = NULL;
    struct tutti_plan_info info;
    struct timespec t0;
    struct answer x = {0};
    int code = cli_get_problem(a, &problem);
    if (code)
        return code;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    if (tutti_plan_make(t, &problem.o, &p, &err))
        return cli_fail(a, &err);
    x.wall_s = seconds_since(&t0);
    tutti_plan_info(p, NULL, &info);
    tutti_plan_simulate(p, &x.r);
    x.bound_us = info.bound_us;
    x.exact = info.exact;
    x.algo = info.algo;
    print(a, t, &x);
    tutti_plan_free(p);
    return CLI_OK;
}

/* The problem a plan file solves: its own, but for the size. */
static int get_read_problem(const struct cli_args *a, const struct tutti_schedule_info *info, struct cli_problem *ret)
{
    struct tutti_error err;
    const char *size = cli_value(a, "size");
    *ret = (struct cli_problem){.o = {.coll = info->coll, .root = info->root, .dtype = info->dtype, .count = info->count}};
    if (!size) {
        ret->bytes = info->count * tutti_dtype_bytes(info->dtype);
        return 0;
    }
    if (tutti_parse_size(size, &ret->bytes, &err))
        return cli_bad(a, "--size: %s", err.text);
    return cli_get_count(a, ret->bytes, info->dtype, &ret->o.count);
}

static int price(const struct cli_args *a, const struct tutti_topo *t, const struct cli_problem *p, const struct tutti_schedule *s)
{
    struct tutti_error err;
    struct tutti_bound *b = NULL;
    struct tutti_bound_info bi;
    struct tutti_schedule_info info;
    struct timespec t0;
    struct answer x = {.exact = true};
    clock_gettime(CLOCK_MONOTONIC, &t0);
    tutti_status st = tutti_schedule_simulate(s, t, p->o.count, p->o.dtype, &x.r, &err);
    x.wall_s = seconds_since(&t0);
    if (st || tutti_bound_make(t, p->o.coll, p->o.root, p->bytes, &b, &err))
        return cli_fail(a, &err);
    tutti_schedule_info(s, &info);
    tutti_bound_get(b, tutti_bound_best(b), &bi);
    x.bound_us = info.uneven ? (double)NAN : bi.bound_us;
    x.algo = info.algo;
    print(a, t, &x);
    tutti_bound_free(b);
    return CLI_OK;
}

/* Time means something only for a plan that is correct, and routes only on their own network (tutti_schedule_simulate refuses others). */
static int judge_read(const struct cli_args *a, const struct tutti_topo *t, const struct tutti_schedule *s)
{
    struct tutti_verdict v;
    struct tutti_schedule_info info;
    int code = cli_prove(a, s, &v);
    if (code)
        return code;
    tutti_schedule_info(s, &info);
    if (info.topo_hash && !info.nroutes && info.topo_hash != tutti_topo_hash(t))
        fprintf(stderr, "note: the plan was made for another network\n");
    return 0;
}

/* A plan file: all ranks as they are written there. */
static int simulate_read(const struct cli_args *a, const struct tutti_topo *t, const char *path)
{
    struct tutti_error err;
    struct tutti_schedule *s = NULL;
    struct tutti_schedule_info info;
    struct cli_problem problem;
    if (cli_value(a, "algo") || cli_value(a, "coll") || cli_value(a, "root") || cli_value(a, "option"))
        return cli_bad(a, "--plan brings its own algorithm, collective, root and options");
    if (tutti_schedule_read_unchecked(path, &s, &err))
        return cli_fail(a, &err);
    int code = judge_read(a, t, s);
    if (!code) {
        tutti_schedule_info(s, &info);
        code = get_read_problem(a, &info, &problem);
    }
    if (!code)
        code = price(a, t, &problem, s);
    tutti_schedule_free(s);
    return code;
}

static int run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    const char *level = cli_value(a, "level"), *path = cli_value(a, "plan");
    if (!level || strcmp(level, "step"))
        return cli_bad(a, "--level step is needed: this version has no other level");
    int code = cli_get_topo(a, &t);
    if (!code)
        code = path ? simulate_read(a, t, path) : simulate_planned(a, t);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_sim = {
    .name = "sim",
    .synopsis = "sim --level step --topo SPEC (--size SIZE [--algo NAME|auto] [--coll COLL] [--option K=V] | --plan FILE) [--json]",
    .summary = "time of a schedule on a network, by the planner's cost function",
    .details = "A plan read with --plan is proved first: a wrong one is answered as verify does (exit status 1) and not priced.\n"
               "One whose routes were made for another network is refused.",
    .examples = "tutti sim --level step --topo torus:8x8@16GB/s,150ns --algo ring --size 64M --json\n"
                "tutti sim --level step --topo star:7 --plan plan.json",
    .options = options,
    .run = run,
};
