/* cmd_plan.c - tutti plan: chooses an algorithm, or takes the named one, and writes the schedule;
 * with --summary it only reports what the schedule would be.
 *
 *     problem + network -> plan --+--> schedule -> file or standard output
 *                                 +--> summary (text or JSON), when standard output is free
 *
 * A summary alone needs no schedule: its numbers come from the plan, so that it is quick for
 * networks whose schedule would not fit in memory.
 *
 *     $ tutti plan --topo star:4@1Gbps,50us --algo ring --size 1M --summary
 *     ring: 6 steps, 48 ops, 4 chunks, 1 segment
 *     predicted 13.18 ms, bound 12.58 ms (volume), 1.048 x the bound; at most 1 message ... */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_option own[] = {
    {"output", 'o', "FILE", "write the plan here (default standard output)"},
    {"summary", 0, NULL, "print what the plan is instead of writing it"},
    {0}};
static const struct cli_option *const options[] = {cli_topo_options,   cli_size_options,
                                                   cli_coll_options,   cli_algo_options,
                                                   cli_choice_options, own,
                                                   cli_json_options,   NULL};

/* The summary as JSON, with the candidates that the planning budget did not reach. */
static void print_json(const struct tutti_plan *p, const struct tutti_plan_info *i)
{
    struct tutti_candidate c;
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "algo", i->algo);
    tutti_json_string(j, "options", i->options);
    tutti_json_u64(j, "steps", i->steps);
    tutti_json_u64(j, "ops", i->ops);
    tutti_json_u64(j, "messages", i->messages);
    tutti_json_u64(j, "chunks", i->chunks);
    tutti_json_u64(j, "segments", i->segments);
    tutti_json_real(j, "predicted_us", i->predicted_us);
    if (tutti_plan_flow_us(p, SIZE_MAX) > 0)
        tutti_json_real(j, "flow_us", tutti_plan_flow_us(p, SIZE_MAX));
    else
        tutti_json_null(j, "flow_us");
    tutti_json_bool(j, "exact", i->exact);
    tutti_json_real(j, "bound_us", i->bound_us);
    tutti_json_string(j, "bound_kind", i->bound_kind);
    tutti_json_real(j, "ratio_to_bound", i->ratio_to_bound);
    if (i->has_rate) {
        tutti_json_real(j, "rate_GBs", i->rate_Bps / 1e9);
        if (i->dual_bound_us > 0)
            tutti_json_real(j, "dual_bound_us", i->dual_bound_us);
        tutti_json_real(j, "gap", i->gap);
    }
    tutti_json_u64(j, "max_link_contention", i->max_link_contention);
    tutti_json_bool(j, "from_tuning", i->from_tuning);
    tutti_json_array(j, "skipped");
    for (size_t k = 0; !i->from_tuning && !tutti_plan_explain(p, k, &c, NULL); k++)
        if (c.skipped)
            tutti_json_string(j, NULL, c.algo);
    tutti_json_end(j);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* Two lines: what the schedule is made of, and its time against the bound. */
static void print_text(const struct tutti_plan *p, const struct tutti_plan_info *i)
{
    char a[64], b[64];
    double flow = tutti_plan_flow_us(p, SIZE_MAX);
    printf("%s%s%s%s%s: %u step%s, %llu op%s, %u chunk%s, %u segment%s\n", i->algo,
           *i->options ? " (" : "", i->options, *i->options ? ")" : "",
           i->from_tuning ? " [tuning file]"
           : i->winner    ? " [auto]"
                          : "",
           i->steps, i->steps == 1 ? "" : "s", (unsigned long long)i->ops, i->ops == 1 ? "" : "s",
           i->chunks, i->chunks == 1 ? "" : "s", i->segments, i->segments == 1 ? "" : "s");
    printf("predicted %s%s, bound %s (%s)", i->exact ? "" : "at most ",
           tutti_format_us(i->predicted_us, a, sizeof a), tutti_format_us(i->bound_us, b, sizeof b),
           i->bound_kind);
    if (i->ratio_to_bound > 0)
        printf(", %.3f x the bound", i->ratio_to_bound);
    if (flow > 0)
        printf("; chosen by its %s at flow level", tutti_format_us(flow, a, sizeof a));
    printf("; at most %u message%s on a link in a step\n", i->max_link_contention,
           i->max_link_contention == 1 ? "" : "s");
}

/* What a synthesised schedule knows about its rate: the bound on trees holds only for schedules
 * that are made of trees; the other one holds for any. */
static void print_rate(const struct tutti_plan_info *i)
{
    char a[64];
    if (!i->has_rate)
        return;
    printf("rate %.4g GB/s in the limit of small segments, within %.2f%% of the best bound; ",
           i->rate_Bps / 1e9, 100 * i->gap);
    if (i->dual_bound_us > 0)
        printf("schedules made of tree pairs: at least %s; ",
               tutti_format_us(i->dual_bound_us, a, sizeof a));
    printf("any schedule: at least %s\n", tutti_format_us(i->bound_us, a, sizeof a));
}

/* Builds the schedule, writes it, and fills *info with its numbers of operations and chunks. */
static tutti_status write_schedule(const struct tutti_plan *p, const char *path,
                                   struct tutti_plan_info *info, struct tutti_error *err)
{
    struct tutti_schedule *s = NULL;
    tutti_status st = tutti_plan_schedule(p, &s, err);
    if (!st)
        st = tutti_schedule_write(s, path, err);
    if (!st)
        tutti_plan_info(p, s, info);
    tutti_schedule_free(s);
    return st;
}

/* Delivers what was asked for: the file, the summary, or both. The summary is left out when the
 * plan itself went to standard output. */
static int plan_deliver(const struct cli_args *a, const struct tutti_plan *p, uint64_t budget_ms)
{
    const char *path = cli_value(a, "output");
    struct tutti_error err;
    struct tutti_plan_info info;
    tutti_status st;
    if (path || !cli_flag(a, "summary")) {
        st = write_schedule(p, path ? path : "-", &info, &err);
    } else {
        tutti_plan_info(p, NULL, &info);
        st = tutti_plan_count(p, &info.ops, &info.chunks, &err);
    }
    if (st)
        return cli_fail(a, &err);
    /* Standard output already holds the plan. */
    if (path ? !strcmp(path, "-") : !cli_flag(a, "summary"))
        return CLI_OK;
    tutti_plan_rate(p, &info);
    if (cli_flag(a, "json")) {
        print_json(p, &info);
    } else {
        print_text(p, &info);
        print_rate(&info);
        cli_say_skipped(p, budget_ms);
    }
    return CLI_OK;
}

static int plan_run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    struct tutti_plan *p = NULL;
    struct cli_problem problem;
    struct tutti_error err;
    if (cli_flag(a, "json") && !cli_flag(a, "summary") && !cli_value(a, "output"))
        return cli_bad(a,
                       "--json goes with --summary or -o FILE (the plan itself is JSON already)");
    int code = cli_get_problem(a, &problem);
    if (!code)
        code = cli_get_topo(a, &t);
    if (code)
        return code;
    if (cli_plan_make(t, &problem.o, &p, &err))
        code = cli_fail(a, &err);
    else
        code = plan_deliver(a, p, problem.o.budget_ms);
    tutti_plan_free(p);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_plan = {
    .name = "plan",
    .synopsis = "plan --topo SPEC --size SIZE [--algo NAME|auto] [--coll COLL] [--option K=V] [-o "
                "FILE | --summary [--json]]",
    .summary = "plan a collective: choose or take an algorithm and write its schedule",
    .details = "Without --algo the fastest algorithm by the cost model is taken; tutti explain "
               "shows the alternatives.\n"
               "Sizes are 1024-based and mean the whole vector. The plan (JSON) is what verify and "
               "sim read.",
    .examples = "tutti plan --topo star:7@10Gbps,20us --algo circulant --size 64M -o plan.json\n"
                "tutti plan --topo star:16@1Gbps,50us --algo auto --size 1M | tutti verify -\n"
                "tutti plan --topo torus:8x8 --size 1M --summary --json",
    .options = options,
    .run = plan_run,
};
