/* cmd_train_sim.c - tutti train-sim: a training step on a network by the model: when each
 * gradient travels, and how much of that time is not hidden behind compute. This file has the
 * options and the order of work; train_sim_report.c prints.
 *
 *     options + model + network -> prices -> a simulation per policy -> table, JSON, timeline
 *
 * All policies share the prices, so that an equal bucket is priced once.
 *
 *     $ tutti train-sim --model alexnet --topo star:4@1Gbps,30us --policy dear
 *     ...
 *       policy                step     exposed   its ideal  x limit
 *     * dear               2.944 s     1.116 s     2.933 s    1.004  3 buckets, order next-use */
#include "cli/train_sim.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option own[] = {
    {"model", 'm', "MODEL", "a built-in model (see --list), or a profile file (.json)"},
    {"batch", 'b', "N", "samples per rank (default: the model's)"},
    {"flops", 0, "RATE", "compute rate in place of the model's: 300G, 6.2T (FLOP/s)"},
    {"policy", 'p', "NAME", "policy, or all (default all)"},
    {"algo", 'a', "NAME",
     "algorithm of all policies but the hybrid ones (default: the planner's choice for every "
     "bucket)"},
    {"level", 0, "LEVEL", "prices by the planner (step, default) or by the flow simulator (flow)"},
    {"fusion", 0, "HOW", "how tensors are joined to buckets, or bayesian; see --list"},
    {"threshold", 0, "SIZE", "of a bucket (default 25M)"},
    {"first", 0, "SIZE",
     "dear: of the group used first; bucket: of the bucket ready first (default 1M)"},
    {"nearby", 0, "K", "layers per bucket (default 4)"},
    {"cycle", 0, "TIME", "of fusion by waiting (default 5ms)"},
    {"partition", 0, "SIZE",
     "cut larger tensors into parts of this size (default: bytescheduler 4M, others none)"},
    {"order", 0, "ORDER", "dear, bytescheduler: best, next-use, patient, two-phase or published"},
    {"lookahead", 0, "N", "groups, of order published (default 1)"},
    {"recursive-doubling", 0, NULL,
     "hybrid: recursive doubling for convolutions, not halving-doubling"},
    {"update", 0, "RATE",
     "speed of the optimizer: parameters' bytes per second (default: takes no time)"},
    {"trials", 0, "N", "of bayesian fusion (default 10)"},
    {"range", 0, "MIN..MAX", "thresholds of bayesian fusion (default 64K..256M)"},
    {"tuning", 0, "FILE", "use the result of an earlier bayesian fusion"},
    {"save-tuning", 0, "FILE", "save the result of this one"},
    {"timeline", 0, "FILE", "write one step for Perfetto or chrome://tracing"},
    {"html", 0, "FILE", "write a page for a browser"},
    {"write-profile", 0, "FILE", "write the model as a profile file"},
    {"buckets", 0, NULL, "list the buckets"},
    {"list", 'l', NULL, "list models, policies and ways of fusion"},
    {0}};
static const struct cli_option *const options[] = {cli_topo_options, own, cli_json_options, NULL};

/* Parses "300G" FLOP/s, 10-based. Each unit letter stands for one more factor of 1000. */
static int get_flops(const struct cli_args *a, double *ret)
{
    static const char units[] = "KMGTP";
    const char *text = cli_value(a, "flops");
    char *end = NULL;
    *ret = 0;
    if (!text)
        return 0;
    double v = strtod(text, &end);
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit)
        end++;
    for (const char *u = units; unit && u <= unit; u++)
        v *= 1e3;
    if (end == text || *end || !isfinite(v) || v <= 0 || text[0] == '+' || text[0] == '-')
        return cli_bad(a, "--flops %.40s: a rate like 300G or 6.2T is needed", text);
    *ret = v;
    return 0;
}

/* A size or a number option into *ret, which keeps its value when the option was not given. 0 is
 * refused, since 0 means the default in the options struct. */
static int get_size(const struct cli_args *a, const char *name, uint64_t *ret)
{
    struct tutti_error err;
    const char *text = cli_value(a, name);
    if (!text)
        return 0;
    if (tutti_parse_size(text, ret, &err))
        return cli_bad(a, "--%s: %s", name, err.text);
    return *ret ? 0 : cli_bad(a, "--%s: 0 is too small", name);
}

static int get_number(const struct cli_args *a, const char *name, uint64_t max, uint32_t *ret)
{
    struct tutti_error err;
    uint64_t v = 0;
    const char *text = cli_value(a, name);
    if (!text)
        return 0;
    if (tutti_parse_u64(text, 1, max, &v, &err))
        return cli_bad(a, "--%s: %s", name, err.text);
    *ret = (uint32_t)v;
    return 0;
}

/* Parses --range MIN..MAX, the thresholds that bayesian fusion may try. */
static int get_range(const struct cli_args *a, struct tutti_trainsim_options *o)
{
    const char *text = cli_value(a, "range"), *dots = text ? strstr(text, "..") : NULL;
    char low[64];
    struct tutti_error err = {0};
    if (!text)
        return 0;
    if (!dots || (size_t)(dots - text) >= sizeof low)
        return cli_bad(a, "--range %.60s: MIN..MAX is needed, e.g. 64K..256M", text);
    snprintf(low, sizeof low, "%.*s", (int)(dots - text), text);
    if (tutti_parse_size(low, &o->min_threshold, &err) ||
        tutti_parse_size(dots + 2, &o->max_threshold, &err))
        return cli_bad(a, "--range %.60s: %s", text, err.text);
    if (o->min_threshold == 0 || o->min_threshold > o->max_threshold)
        return cli_bad(a, "--range %.60s: MIN must be at least 1 and not above MAX", text);
    return 0;
}

static int get_update(const struct cli_args *a, struct tutti_trainsim_options *o)
{
    struct tutti_error err;
    const char *text = cli_value(a, "update");
    if (text && tutti_parse_rate(text, &o->update_bytes_per_s, &err))
        return cli_bad(a, "--update: %s", err.text);
    return 0;
}

static int get_cycle(const struct cli_args *a, struct tutti_trainsim_options *o)
{
    struct tutti_error err;
    const char *text = cli_value(a, "cycle");
    if (text && tutti_parse_time(text, &o->cycle_ps, &err))
        return cli_bad(a, "--cycle: %s", err.text);
    return text && o->cycle_ps == 0 ? cli_bad(a, "--cycle: 0 is too small") : 0;
}

/* Fills the simulator's options; zero fields mean its defaults. */
static int get_options(const struct cli_args *a, struct tutti_trainsim_options *o)
{
    *o = (struct tutti_trainsim_options){.fusion = cli_value(a, "fusion"),
                                         .order = cli_value(a, "order"),
                                         .tuning = cli_value(a, "tuning"),
                                         .recursive_doubling = cli_flag(a, "recursive-doubling"),
                                         .spans = cli_value(a, "timeline") || cli_value(a, "html")};
    int code = get_size(a, "threshold", &o->threshold_bytes);
    if (!code)
        code = get_size(a, "first", &o->first_bytes);
    if (!code)
        code = get_size(a, "partition", &o->partition_bytes);
    if (!code)
        code = get_number(a, "nearby", 1 << 20, &o->nearby);
    if (!code)
        code = get_number(a, "lookahead", 1 << 20, &o->lookahead);
    if (!code)
        code = get_number(a, "trials", 64, &o->trials);
    if (!code)
        code = get_cycle(a, o);
    if (!code)
        code = get_update(a, o);
    return code ? code : get_range(a, o);
}

/* Options that exclude each other or need another one. */
static int check_use(const struct cli_args *a, bool all, const struct tutti_trainsim_options *o)
{
    bool bayes = o->fusion && !strcmp(o->fusion, "bayesian");
    const char *timeline = cli_value(a, "timeline");
    if (cli_value(a, "tuning") && (o->fusion || all))
        return cli_bad(a, "--tuning is for one policy and brings its fusion");
    if ((cli_value(a, "save-tuning") || o->trials || o->max_threshold) && !bayes)
        return cli_bad(a, "--save-tuning, --trials and --range go with --fusion bayesian");
    if (cli_value(a, "save-tuning") && all)
        return cli_bad(a, "--save-tuning is for one policy");
    const char *html = cli_value(a, "html");
    bool line = timeline && !strcmp(timeline, "-"), page = html && !strcmp(html, "-");
    if (line + page + cli_flag(a, "json") > 1)
        return cli_bad(a,
                       "only one of --json, --timeline - and --html - can go to standard output");
    return 0;
}

/* Simulates one policy, or all of them; x->sims[i] is filled in the order of the policy table.
 * On failure x->n simulations exist, and the caller frees them. */
static tutti_status run_policies(const char *policy, struct tutti_prices *prices,
                                 struct tutti_trainsim_options *o, struct train_sim_answer *x,
                                 struct tutti_error *err)
{
    struct tutti_name name;
    size_t policies = 1;
    tutti_status st = TUTTI_OK;
    /* Counts the policies for the estimate of the progress line. */
    while (x->all && tutti_policy_get(policies, &name))
        policies++;
    cli_wait_begin("simulating");
    for (size_t i = 0; !st && (x->all ? tutti_policy_get(i, &name) : i == 0); i++) {
        o->policy = x->all ? name.name : policy;
        st = tutti_trainsim_run(x->model, prices, o, &x->sims[i], err);
        x->n += !st;
        cli_wait_done((double)x->n / (double)policies);
    }
    cli_wait_end();
    return st;
}

struct outputs {
    struct cli_output timeline, profile, tuning, html;
};

/* Writes the files first, so that a report is never seen without them. A file that goes to
 * standard output stands there alone. */
static int train_sim_deliver(const struct cli_args *a, const struct train_sim_answer *x,
                             struct outputs *o)
{
    bool alone = o->timeline.f == stdout || o->profile.f == stdout || o->tuning.f == stdout ||
                 o->html.f == stdout;
    if (o->timeline.f)
        cli_train_sim_write_timeline(x, o->timeline.f);
    if (o->profile.f)
        tutti_model_write(x->model, o->profile.f);
    if (o->tuning.f)
        tutti_trainsim_save(x->sims[0], o->tuning.f);
    if (o->html.f)
        cli_train_sim_page(x, o->html.f);
    int code = cli_output_keep(a, &o->timeline);
    if (!code)
        code = cli_output_keep(a, &o->html);
    if (!code)
        code = cli_output_keep(a, &o->profile);
    if (!code)
        code = cli_output_keep(a, &o->tuning);
    if (code || alone)
        return code;
    if (cli_flag(a, "json"))
        cli_train_sim_print_json(x);
    else
        cli_train_sim_print_text(x);
    return CLI_OK;
}

/* All outputs or the exit code; the caller drops what was opened. */
static int open_outputs(const struct cli_args *a, struct outputs *o)
{
    int code = cli_output_open(a, "timeline", &o->timeline);
    if (!code)
        code = cli_output_open(a, "write-profile", &o->profile);
    if (!code)
        code = cli_output_open(a, "html", &o->html);
    return code ? code : cli_output_open(a, "save-tuning", &o->tuning);
}

/* Opens the outputs before the work, so that a bad file name costs nothing. */
static int train_sim_simulate(const struct cli_args *a, const struct tutti_topo *t,
                              struct train_sim_answer *x)
{
    struct tutti_trainsim_options o;
    struct tutti_prices *prices = NULL;
    struct tutti_error err;
    struct outputs out = {0};
    int code = get_options(a, &o);
    if (!code)
        code = check_use(a, x->all, &o);
    if (!code &&
        tutti_prices_open(t, cli_value(a, "algo"), !strcmp(x->level, "flow"), &prices, &err))
        code = cli_fail(a, &err);
    if (!code)
        code = open_outputs(a, &out);
    if (!code && run_policies(cli_value(a, "policy"), prices, &o, x, &err))
        code = cli_fail(a, &err);
    if (!code)
        code = train_sim_deliver(a, x, &out);
    cli_output_drop(&out.timeline);
    cli_output_drop(&out.profile);
    cli_output_drop(&out.tuning);
    cli_output_drop(&out.html);
    tutti_prices_close(prices);
    return code;
}

int cli_train_sim_get_model(const struct cli_args *a, struct tutti_model **ret)
{
    struct tutti_error err;
    uint32_t batch = 0;
    double flops = 0;
    const char *name = cli_value(a, "model");
    if (!name)
        return cli_bad(a, "--model MODEL is needed, e.g. --model resnet50; --list shows them");
    int code = get_number(a, "batch", 1 << 20, &batch);
    if (!code)
        code = get_flops(a, &flops);
    if (!code && tutti_model_open(name, batch, flops, ret, &err))
        code = cli_fail(a, &err);
    return code;
}

/* --list needs neither model nor network and is answered first. */
static int train_sim_run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    struct tutti_topo_info info;
    struct tutti_error err;
    struct tutti_model *model = NULL;
    const char *level = cli_value(a, "level"), *policy = cli_value(a, "policy"),
               *algo = cli_value(a, "algo");
    struct train_sim_answer x = {.level = level ? level : "step",
                                 .algo = algo ? algo : "auto",
                                 .all = !policy || !strcmp(policy, "all"),
                                 .buckets = cli_flag(a, "buckets")};
    if (cli_flag(a, "list")) {
        if (cli_flag(a, "json"))
            cli_train_sim_list_json();
        else
            cli_train_sim_list_text();
        return CLI_OK;
    }
    if (strcmp(x.level, "step") && strcmp(x.level, "flow"))
        return cli_bad(a, "--level %.40s: step or flow", x.level);
    cli_output_guard();
    cli_limit_memory();
    int code = cli_train_sim_get_model(a, &model);
    x.model = model;
    if (!code)
        code = cli_get_topo(a, &t);
    if (!code && tutti_topo_info(t, &info, &err))
        code = cli_fail(a, &err);
    if (!code) {
        x.topo = info.spec;
        code = train_sim_simulate(a, t, &x);
    }
    /* Entries that were not simulated are NULL, which free accepts. */
    for (size_t i = 0; i < TRAIN_SIM_MOST; i++)
        tutti_trainsim_free(x.sims[i]);
    tutti_model_free(model);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_train_sim = {
    .name = "train-sim",
    .synopsis = "train-sim --model MODEL [--batch N] --topo SPEC [--policy NAME|all] [--algo NAME] "
                "[--fusion HOW] [--html FILE] [--json]",
    .summary = "a training step by the model: which gradients travel when, and how much is exposed",
    .details =
        "The step is that of the steady state: from the start of a backward pass to the end of "
        "the next forward pass. One stream carries the collectives, in a fixed order.\n\n"
        "Times of built-in models are derived from multiply-accumulates at a stated rate; a "
        "profile (tutti-profile(5)) brings measured ones.\n\n"
        "exposed is what communication adds to compute; the ideal is the policy's own closed form "
        "(dear's has the published barrier between its phases; ours has none, and can beat it).\n\n"
        "No policy beats its limit, max(c, forward + backward), where c is the time of its "
        "collectives for all gradients at once; x limit is the step over the least of these "
        "limits.",
    .examples =
        "tutti train-sim --model alexnet --batch 128 --policy dear --topo star:4@1Gbps,30us "
        "--json\n"
        "tutti train-sim --model resnet50 --topo star:64@10Gbps,25us --algo ring --html step.html\n"
        "tutti train-sim --model bert-base --topo star:64@10Gbps,25us --fusion bayesian\n"
        "tutti train-sim --model alexnet --topo star:4 --policy hybrid --buckets --timeline "
        "step.json",
    .options = options,
    .run = train_sim_run,
};
