/* cmd_sim.c - tutti sim: the time of a schedule on a network.
 *
 *                        level step                     levels flow, packet
 *     named algorithm    simulate_planned: the plan's   plan_input -> run_events
 *                        own cost, nothing is built
 *     --plan FILE        price_read: the cost function  read_input -> run_events
 *
 * Level step is the planner's own cost function; flow and packet run the schedule event by event. A
 * plan from a file is proved before it is timed: the time of a wrong plan means nothing. */
#include "cli/sim.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const struct cli_option *const options[] = {
    cli_topo_options, cli_size_options,   cli_coll_options, cli_algo_options,
    cli_sim_options,  cli_whatif_options, cli_json_options, NULL};

/* The result of level step. */
struct answer {
    struct tutti_sim_result r;
    double bound_us, wall_s; /* bound_us: NaN when there is none to state */
    bool exact;
    const char *algo;
};

/* The result of level step; the other levels are reported by sim_report.c. */
static void print_json(const struct answer *x, const struct tutti_topo *t)
{
    char link[160];
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "level", "step");
    cli_sim_json_believed(j, t);
    tutti_json_string(j, "algo", x->algo);
    tutti_json_real(j, "time_us", x->r.time_us);
    tutti_json_bool(j, "exact", x->exact);
    tutti_json_real(j, "latency_us", x->r.latency_us);
    tutti_json_real(j, "transfer_us", x->r.transfer_us);
    tutti_json_real(j, "reduce_us", x->r.reduce_us);
    tutti_json_real(j, "overhead_us", x->r.overhead_us);
    tutti_json_u64(j, "steps", x->r.steps);
    tutti_json_u64(j, "messages", x->r.messages);
    tutti_json_u64(j, "bytes_on_busiest_link", x->r.bytes_on_busiest_link);
    tutti_json_u64(j, "busiest_link", x->r.busiest_link);
    if (x->r.messages)
        tutti_json_string(j, "busiest_link_name",
                          tutti_topo_link_name(t, x->r.busiest_link, link, sizeof link));
    tutti_json_u64(j, "max_link_contention", x->r.max_link_contention);
    tutti_json_real(j, "bound_us", x->bound_us);
    tutti_json_real(j, "ratio_to_bound",
                    x->bound_us > 0 ? x->r.time_us / x->bound_us : (double)NAN);
    tutti_json_u64(j, "events", x->r.messages);
    tutti_json_real(j, "wall_s", x->wall_s);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* The time with its parts, the busiest link, and the bound. */
static void print_text(const struct answer *x, const struct tutti_topo *t)
{
    char a[64], b[64], c[64], d[64], e[64], link[160];
    printf("%s: %s%s in %u step%s (latency %s, links %s, reduction %s, host overhead %s)\n",
           x->algo, x->exact ? "" : "at most ", tutti_format_us(x->r.time_us, a, sizeof a),
           x->r.steps, x->r.steps == 1 ? "" : "s", tutti_format_us(x->r.latency_us, b, sizeof b),
           tutti_format_us(x->r.transfer_us, c, sizeof c),
           tutti_format_us(x->r.reduce_us, d, sizeof d),
           tutti_format_us(x->r.overhead_us, e, sizeof e));
    if (x->r.messages)
        printf("busiest link %s carries %s; at most %u message%s on a link in a step\n",
               tutti_topo_link_name(t, x->r.busiest_link, link, sizeof link),
               tutti_format_size(x->r.bytes_on_busiest_link, a, sizeof a), x->r.max_link_contention,
               x->r.max_link_contention == 1 ? "" : "s");
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

static void sim_print(const struct cli_args *a, const struct tutti_topo *t, const struct answer *x)
{
    if (cli_flag(a, "json"))
        print_json(x, t);
    else {
        print_text(x, t);
        cli_sim_say_believed(t, SIM_STEP);
    }
}

/* Level step of the named or chosen algorithm. Planning has already priced its schedule with the
 * same function, so that it need not be built. */
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
    if (cli_plan_make(t, &problem.o, &p, &err))
        return cli_fail(a, &err);
    x.wall_s = seconds_since(&t0);
    tutti_plan_info(p, NULL, &info);
    tutti_plan_simulate(p, &x.r);
    x.bound_us = info.bound_us;
    x.exact = info.exact;
    x.algo = info.algo;
    sim_print(a, t, &x);
    tutti_plan_free(p);
    return CLI_OK;
}

/* A schedule of all ranks, the problem it solves, and what no schedule can beat. */
struct input {
    struct tutti_plan *plan; /* NULL: from a file */
    struct tutti_schedule *s;
    uint64_t count;
    tutti_dtype dtype;
    const char *algo; /* lives in the plan or the schedule */
    double bound_us;  /* NaN: none to state */
};

static void free_input(struct input *in)
{
    tutti_schedule_free(in->s);
    tutti_plan_free(in->plan);
}

/* The problem that a plan file solves: its own, except that --size may give another size. */
static int get_read_problem(const struct cli_args *a, const struct tutti_schedule_info *info,
                            struct cli_problem *ret)
{
    struct tutti_error err;
    const char *size = cli_value(a, "size");
    *ret = (struct cli_problem){
        .o = {.coll = info->coll, .root = info->root, .dtype = info->dtype, .count = info->count}};
    if (!size) {
        ret->bytes = info->count * tutti_dtype_bytes(info->dtype);
        return 0;
    }
    if (tutti_parse_size(size, &ret->bytes, &err))
        return cli_bad(a, "--size: %s", err.text);
    return cli_get_count(a, ret->bytes, info->dtype, &ret->o.count);
}

/* A time means something only for a plan that is correct and made for as many ranks as the
 * network has. A plan with routes fits only its own network (simulating refuses others); one
 * without routes may run on another, with a note. */
static int judge_read(const struct cli_args *a, const struct tutti_topo *t,
                      const struct tutti_schedule *s)
{
    struct tutti_verdict v;
    struct tutti_schedule_info info;
    int code = cli_prove(a, s, &v);
    if (code)
        return code;
    tutti_schedule_info(s, &info);
    if (info.ranks != tutti_topo_ranks(t))
        return cli_bad(a, "the plan is for %u ranks, the network has %u", info.ranks,
                       tutti_topo_ranks(t));
    /* 0: the plan was made for no network in particular. */
    if (info.topo_hash && !info.nroutes && info.topo_hash != tutti_topo_hash(t))
        fprintf(stderr, "note: the plan was made for another network\n");
    return 0;
}

/* Fills the rest of *in for a plan file. Uneven blocks have no bound: the bounds assume equal
 * ones. */
static int bound_read(const struct cli_args *a, const struct tutti_topo *t,
                      const struct cli_problem *p, struct input *in)
{
    struct tutti_error err;
    struct tutti_bound *b = NULL;
    struct tutti_bound_info bi;
    struct tutti_schedule_info info;
    if (tutti_bound_make(t, p->o.coll, p->o.root, p->bytes, &b, &err))
        return cli_fail(a, &err);
    tutti_schedule_info(in->s, &info);
    tutti_bound_get(b, tutti_bound_best(b), &bi);
    in->bound_us = info.uneven ? (double)NAN : bi.bound_us;
    in->algo = info.algo;
    in->count = p->o.count;
    in->dtype = p->o.dtype;
    tutti_bound_free(b);
    return 0;
}

/* Reads and proves a plan file. On failure the caller still calls free_input. */
static int read_input(const struct cli_args *a, const struct tutti_topo *t, const char *path,
                      struct input *in)
{
    struct tutti_error err;
    struct tutti_schedule_info info;
    struct cli_problem problem;
    if (cli_value(a, "algo") || cli_value(a, "coll") || cli_value(a, "root") ||
        cli_value(a, "option"))
        return cli_bad(a, "--plan brings its own algorithm, collective, root and options");
    if (tutti_schedule_read_unchecked(path, &in->s, &err))
        return cli_fail(a, &err);
    int code = judge_read(a, t, in->s);
    if (!code) {
        tutti_schedule_info(in->s, &info);
        code = get_read_problem(a, &info, &problem);
    }
    return code ? code : bound_read(a, t, &problem, in);
}

/* Plans the named or chosen algorithm and builds it for all ranks. */
static int plan_input(const struct cli_args *a, const struct tutti_topo *t, struct input *in)
{
    struct cli_problem problem;
    struct tutti_error err;
    struct tutti_plan_info info;
    int code = cli_get_problem(a, &problem);
    if (code)
        return code;
    if (cli_plan_make(t, &problem.o, &in->plan, &err) ||
        tutti_plan_schedule(in->plan, &in->s, &err))
        return cli_fail(a, &err);
    tutti_plan_info(in->plan, NULL, &info);
    in->bound_us = info.bound_us;
    in->algo = info.algo;
    in->count = problem.o.count;
    in->dtype = problem.o.dtype;
    return 0;
}

/* Level step of a plan file. */
static int price_read(const struct cli_args *a, const struct tutti_topo *t, const char *path)
{
    struct tutti_error err;
    struct input in = {0};
    struct timespec t0;
    struct answer x = {.exact = true};
    int code = read_input(a, t, path, &in);
    if (!code) {
        clock_gettime(CLOCK_MONOTONIC, &t0);
        if (tutti_schedule_simulate(in.s, t, in.count, in.dtype, &x.r, &err))
            code = cli_fail(a, &err);
        x.wall_s = seconds_since(&t0);
    }
    if (!code) {
        x.bound_us = in.bound_us;
        x.algo = in.algo;
        sim_print(a, t, &x);
    }
    free_input(&in);
    return code;
}

/* True: go on simulating. */
static bool show_progress(void *progress, double fraction)
{
    cli_progress_show(progress, fraction);
    return true;
}

struct outputs {
    struct cli_output timeline, links;
};

/* Writes the files first, so that a report is never seen without them. A file that goes to
 * standard output stands there alone, without a report. */
static int sim_deliver(const struct cli_args *a, const struct sim_answer *x, struct outputs *o)
{
    bool alone = o->timeline.f == stdout || o->links.f == stdout;
    if (o->timeline.f && !cli_sim_write_timeline(x, o->timeline.f))
        return cli_bad(a, "--timeline: out of memory");
    if (o->links.f)
        cli_sim_write_links(x, o->links.f);
    /* Both files get their names before anything is reported. */
    int code = cli_output_keep(a, &o->timeline);
    if (!code)
        code = cli_output_keep(a, &o->links);
    if (code || alone)
        return code;
    if (cli_flag(a, "json"))
        cli_sim_print_json(x);
    else
        cli_sim_print_text(x);
    return CLI_OK;
}

/* A what-if that makes the network faster than described leaves no bound to compare with. */
static int run_events(const struct cli_args *a, const struct tutti_topo *t, struct sim_request *q,
                      const struct input *in, struct outputs *o)
{
    struct tutti_error err;
    struct tutti_sim *sim = NULL;
    struct cli_progress progress;
    struct timespec t0;
    cli_progress_begin(&progress, "simulating");
    q->o.progress = show_progress;
    q->o.progress_ctx = &progress;
    clock_gettime(CLOCK_MONOTONIC, &t0);
    tutti_status st = tutti_sim_run(in->s, t, in->count, in->dtype, &q->o, &sim, &err);
    struct sim_answer x = {.q = q,
                           .t = t,
                           .sim = sim,
                           .algo = in->algo,
                           .bound_us = q->whatif.faster ? (double)NAN : in->bound_us,
                           .wall_s = seconds_since(&t0)};
    cli_progress_end(&progress);
    int code = st ? cli_fail(a, &err) : sim_deliver(a, &x, o);
    tutti_sim_free(sim);
    return code;
}

/* Two documents cannot share standard output, nor one file. */
static int check_outputs(const struct cli_args *a)
{
    const char *timeline = cli_value(a, "timeline"), *links = cli_value(a, "links");
    bool first = timeline && !strcmp(timeline, "-"), second = links && !strcmp(links, "-");
    if (first + second + (cli_flag(a, "json") && (first || second)) > 1)
        return cli_bad(a,
                       "only one of --json, --timeline - and --links - can go to standard output");
    if (timeline && links && !first && !strcmp(timeline, links))
        return cli_bad(a, "--timeline and --links are the same file");
    return 0;
}

/* Levels flow and packet: everything from the options to the report. */
static int sim_simulate(const struct cli_args *a, const struct tutti_topo *t, enum sim_level level)
{
    const char *path = cli_value(a, "plan");
    struct sim_request q = {0};
    struct input in = {0};
    struct outputs o = {0};
    int code = check_outputs(a);
    if (!code)
        code = cli_sim_request_get(a, t, level, &q);
    if (!code) /* before the work: a bad file name should not cost an hour */
        code = cli_output_open(a, "timeline", &o.timeline);
    if (!code)
        code = cli_output_open(a, "links", &o.links);
    if (!code)
        code = path ? read_input(a, t, path, &in) : plan_input(a, t, &in);
    if (!code)
        code = run_events(a, t, &q, &in, &o);
    cli_output_drop(&o.timeline);
    cli_output_drop(&o.links);
    free_input(&in);
    cli_sim_request_free(&q);
    return code;
}

/* Everything that all levels share comes first: outputs that signals remove, the limit of
 * memory, the network without the cables of --down. */
static int sim_run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    const char *path = cli_value(a, "plan");
    enum sim_level level;
    int code = cli_sim_level_get(a, &level);
    if (code)
        return code;
    cli_output_guard();
    cli_limit_memory();
    code = cli_get_topo(a, &t);
    if (!code)
        code = cli_whatif_down(a, &t);
    if (!code && level != SIM_STEP)
        code = sim_simulate(a, t, level);
    else if (!code)
        code = path ? price_read(a, t, path) : simulate_planned(a, t);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_sim = {
    .name = "sim",
    .synopsis = "sim --topo SPEC (--size SIZE [--algo NAME|auto] [--coll COLL] [--option K=V] | "
                "--plan FILE) [--level step|flow|packet] [--json]",
    .summary = "simulate a schedule on a network: time, link use, idle ranks, what-ifs",
    .details =
        "Levels: flow runs the schedule event by event, messages as fluids that share links; "
        "packet moves flits through switches with virtual channels and credits; step is the "
        "planner's bulk-synchronous cost function (the only one for tens of thousands of "
        "ranks).\n\n"
        "A plan read with --plan is proved first: a wrong one is answered as verify does (exit "
        "status 1) and not timed. One whose routes were made for another network is refused.\n\n"
        "--slow, --degrade and --jitter ask what if; the bound stays that of the network as "
        "described. --down takes the cable out of the network before anything is planned (all "
        "levels), and the bound is that of what is left. Links are named as in the reports: 'rank "
        "3-switch 0' (both directions), 'rank 3 -> switch 0', or a cable's number.\n\n"
        "FILE - is standard output (and no report). An interrupted run leaves no file behind.",
    .examples =
        "tutti sim --topo torus:8x8@16GB/s,150ns --algo ring --size 64M --json\n"
        "tutti sim --topo fattree:8,2@16GB/s,150ns --algo halving-doubling --size 1M --level "
        "packet\n"
        "tutti sim --topo dln:65536@100Gbps,1us --algo circulant --size 100M --level step\n"
        "tutti sim --topo star:8 --algo ring --size 8M --slow rank=5,factor=2\n"
        "tutti sim --topo star:8 --algo ring --size 8M --degrade 'link=rank 3-switch 0,factor=4'\n"
        "tutti sim --topo star:7 --plan plan.json --timeline out.json --links links.csv",
    .options = options,
    .run = sim_run,
};
