/* cmd_replay.c - tutti replay: training steps with real ranks and real communication; compute is
 * replayed from a profile as timed waits. This file has the options and the table; replay_run.c
 * runs the steps.
 *
 * Inside a job (tutti run, tutti lab, torchrun, mpirun, srun) the process is one rank; otherwise it
 * starts its own ranks on this machine. Rank 0 prints. Policies run one after the other on the same
 * communicator. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/replay.h"
#include "cli/train_sim.h"

static const struct cli_option own[] = {
    {"ranks", 'n', "N", "start N ranks on this machine (default 2; inside a job: the job's)"},
    {"model", 'm', "MODEL", "a built-in model (tutti train-sim --list), or a profile file (.json)"},
    {"batch", 'b', "N", "samples per rank (default: the model's)"},
    {"flops", 0, "RATE", "compute rate in place of the model's: 300G, 6.2T (FLOP/s)"},
    {"policy", 'p', "NAME", "policy, or all (default all)"},
    {"steps", 'i', "N", "timed steps of each policy (default 5)"},
    {"algo", 'a', "NAME",
     "auto, ring, halving-doubling or recursive-doubling; hybrid policies choose themselves "
     "(default auto)"},
    {"fusion", 0, "HOW", "how tensors are joined to buckets (default: the policy's own)"},
    {"threshold", 0, "SIZE", "of a bucket (default 25M)"},
    {"first", 0, "SIZE",
     "dear: of the group used first; bucket: of the bucket ready first (default 1M)"},
    {"partition", 0, "SIZE",
     "cut larger tensors into parts of this size (default: bytescheduler 4M, others none)"},
    {"recursive-doubling", 0, NULL,
     "hybrid: recursive doubling for convolutions, not halving-doubling"},
    {"window", 0, "N", "collectives under way at the same time (default 2)"},
    {"transport", 0, "NAME", "shm or tcp (default: shm inside a host, tcp between hosts)"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

/* A size or a number option into *ret, which keeps its value when the option was not given. */
static int get_size(const struct cli_args *a, const char *name, uint64_t *ret)
{
    struct tutti_error err;
    const char *text = cli_value(a, name);
    return text && tutti_parse_size(text, ret, &err) ? cli_bad(a, "--%s: %s", name, err.text) : 0;
}

static int get_number(const struct cli_args *a, const char *name, uint64_t max, uint64_t *ret)
{
    struct tutti_error err;
    const char *text = cli_value(a, name);
    return text && tutti_parse_u64(text, 1, max, ret, &err) ? cli_bad(a, "--%s: %s", name, err.text)
                                                            : 0;
}

/* Refuses an unknown policy before ranks are started. */
static int check_policy(const struct cli_args *a)
{
    const char *policy = cli_value(a, "policy"), *names[REPLAY_MOST];
    struct tutti_name name;
    size_t n = 0;
    char near[160];
    for (; n < REPLAY_MOST && tutti_policy_get(n, &name); n++) {
        names[n] = name.name;
        if (!policy || !strcmp(policy, "all") || !strcmp(policy, name.name))
            return 0;
    }
    tutti_near_matches(policy, names, n, near, sizeof near);
    return cli_bad(a, "no policy '%.64s'%s%s", policy, *near ? "; " : "", near);
}

/* Fills *r. Zero fields of the trainer's options mean its defaults. */
static int replay_parse(struct replay *r)
{
    const struct cli_args *a = r->a;
    uint64_t window = 0;
    r->steps = 5;
    /* Options that are not given stay zero, the trainer's defaults. */
    r->options =
        (struct tutti_trainer_options){.size = sizeof r->options,
                                       .algo = cli_value(a, "algo"),
                                       .fusion = cli_value(a, "fusion"),
                                       .recursive_doubling = cli_flag(a, "recursive-doubling")};
    int code = check_policy(a);
    if (!code)
        code = get_number(a, "steps", 1000000, &r->steps);
    if (!code)
        code = get_number(a, "window", 64, &window);
    if (!code)
        code = get_size(a, "threshold", &r->options.threshold_bytes);
    if (!code)
        code = get_size(a, "first", &r->options.first_bytes);
    if (!code)
        code = get_size(a, "partition", &r->options.partition_bytes);
    r->options.window = (uint32_t)window;
    return code;
}

/* The fields of one policy. With --policy all they are objects of an array, else fields of the
 * document itself. */
static void json_row(struct tutti_json *j, const struct replay *r, const struct replay_row *x)
{
    tutti_json_string(j, "policy", x->info.policy);
    tutti_json_real(j, "iteration_us", x->iteration_us);
    tutti_json_real(j, "best_us", x->best_us);
    tutti_json_real(j, "worst_us", x->worst_us);
    tutti_json_real(j, "forward_us", x->info.forward_us);
    tutti_json_real(j, "backward_us", x->info.backward_us);
    tutti_json_real(j, "comm_us", x->comm_us);
    tutti_json_real(j, "comm_measured_us", r->comm_us);
    tutti_json_real(j, "exposed_comm_us", x->exposed_us);
    tutti_json_real(j, "ideal_us", x->ideal_us);
    tutti_json_real(j, "limit_us", x->limit_us);
    tutti_json_real(j, "predicted_us", x->info.iteration_us);
    tutti_json_u64(j, "buckets", x->info.buckets);
    tutti_json_u64(j, "launches", x->info.launches);
    tutti_json_string(j, "fusion", x->info.fusion);
}

static void print_json(const struct replay *r, const struct replay_row *rows, size_t n, bool all)
{
    struct tutti_model_info info;
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_model_info(r->model, &info);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "model", info.name);
    tutti_json_u64(j, "batch", info.batch);
    tutti_json_bool(j, "measured", info.measured);
    tutti_json_u64(j, "ranks", tutti_comm_size(r->comm));
    tutti_json_u64(j, "bytes", info.bytes);
    tutti_json_u64(j, "steps", r->steps);
    if (!all)
        json_row(j, r, &rows[0]);
    else
        tutti_json_array(j, "policies");
    for (size_t i = 0; all && i < n; i++) {
        tutti_json_object(j, NULL);
        json_row(j, r, &rows[i]);
        tutti_json_end(j);
    }
    if (all)
        tutti_json_end(j);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* The model and the compute times, then what the columns mean. */
static void print_head(const struct replay *r)
{
    struct tutti_model_info info;
    char size[32], comm[32], forward[32], backward[32];
    tutti_model_info(r->model, &info);
    printf("# %s, batch %u, %s of gradients on %u ranks; compute: %s\n", info.name, info.batch,
           tutti_format_size(info.bytes, size, sizeof size), tutti_comm_size(r->comm), info.source);
    printf("# forward %s, backward %s (waits); one all-reduce of everything %s (measured, best of "
           "3)\n",
           tutti_format_us(info.forward_us, forward, sizeof forward),
           tutti_format_us(info.backward_us, backward, sizeof backward),
           tutti_format_us(r->comm_us, comm, sizeof comm));
    printf("# mean of %llu steps, slowest rank; ideal: the policy's closed form; model: train-sim "
           "with the speeds measured here\n",
           (unsigned long long)r->steps);
    printf("%-14s %11s %11s %11s %7s %11s %7s %8s\n", "policy", "step", "exposed", "ideal",
           "/ideal", "model", "/model", "buckets");
}

/* A row as soon as its policy is measured. Exposed time below 0 is noise and shown as 0. */
static void print_row(const struct replay_row *x)
{
    char step[32], exposed[32], ideal[32], model[32];
    printf("%-14s %11s %11s %11s %7.3f %11s %7.3f %8u\n", x->info.policy,
           tutti_format_us(x->iteration_us, step, sizeof step),
           tutti_format_us(x->exposed_us > 0 ? x->exposed_us : 0, exposed, sizeof exposed),
           tutti_format_us(x->ideal_us, ideal, sizeof ideal), x->iteration_us / x->ideal_us,
           tutti_format_us(x->info.iteration_us, model, sizeof model),
           x->iteration_us / x->info.iteration_us, x->info.buckets);
    fflush(stdout);
}

/* Explains times below the ideal: an ideal is a formula over one measured all-reduce, and can be
 * off. */
static void replay_remark(const struct replay_row *rows, size_t n)
{
    bool below = false;
    for (size_t i = 0; i < n; i++)
        /* 0.9995: what the table prints as /ideal below 1.000 */
        below = below || rows[i].iteration_us < 0.9995 * rows[i].ideal_us;
    if (below)
        printf("# /ideal below 1: all-reduces of buckets took less time together than the one of "
               "everything that the ideal counts with\n"
               "# (other plans, caches, or a machine that was busier while it was measured)\n");
}

/* Runs the policies; collective, every rank makes the same decisions. n counts the rows measured
 * so far and is also the end condition when a single policy was named. */
static int run_all(struct replay *r)
{
    const char *policy = cli_value(r->a, "policy");
    bool all = !policy || !strcmp(policy, "all"), json = cli_flag(r->a, "json"),
         speak = tutti_comm_rank(r->comm) == 0;
    struct replay_row rows[REPLAY_MOST];
    struct tutti_error err;
    struct tutti_name name;
    size_t n = 0;
    if (cli_replay_comm(r, &err))
        return cli_fail(r->a, &err);
    if (speak && !json)
        print_head(r);
    for (size_t i = 0; all ? n < REPLAY_MOST && tutti_policy_get(i, &name) : n == 0; i++, n++) {
        bool more = false;
        if (cli_ranks_go_on(r->comm, &more))
            return cli_fail(r->a, tutti_comm_last_error(r->comm));
        if (!more)
            return CLI_OK;
        if (cli_replay_policy(r, all ? name.name : policy, &rows[n], &err))
            return cli_fail(r->a, &err);
        if (speak && !json)
            print_row(&rows[n]);
    }
    if (speak && json)
        print_json(r, rows, n, all);
    else if (speak)
        replay_remark(rows, n);
    return CLI_OK;
}

static int run_rank(struct replay *r)
{
    struct tutti_error err;
    /* A reader that ends must not kill the rank: cli_ranks_go_on ends all of them together. */
    signal(SIGPIPE, SIG_IGN);
    struct tutti_comm_options o = {.size = sizeof o, .transport = cli_value(r->a, "transport")};
    if (tutti_comm_open(&o, &r->comm, &err))
        return cli_fail(r->a, &err);
    int code = run_all(r);
    tutti_comm_close(r->comm);
    return code;
}

static int replay_run(const struct cli_args *a)
{
    struct replay r = {.a = a};
    struct tutti_model *model = NULL;
    int code = replay_parse(&r);
    if (!code)
        code = cli_train_sim_get_model(a, &model);
    r.model = model;
    if (!code)
        code = cli_in_job() ? run_rank(&r) : cli_start_ranks(a, "2");
    tutti_model_free(model);
    return code;
}

const struct cli_command cli_replay = {
    .name = "replay",
    .synopsis = "replay [-n N] --model MODEL [--batch N] [--policy NAME|all] [--algo NAME] "
                "[--fusion HOW] [--steps N] [--json]",
    .summary = "training steps with real communication; compute is replayed as timed waits",
    .details =
        "A step is from the start of a backward pass to the end of the next forward pass. "
        "Gradients are not computed and parameters are not updated (except by dear-sharded: SGD "
        "on shards), so that only communication and the policy count.\n\n"
        "The ideal is the policy's closed form, where c is one all-reduce of everything, measured "
        "or modelled, whichever is shorter: sync f+b+c; wfbp, bucket, mgwfbp, hybrid f+max(b,c); "
        "dear max(f,c/2)+max(b,c/2); bytescheduler max(c,f+b).",
    .examples = "tutti replay -n 4 --model resnet50 --policy all\n"
                "tutti lab --nodes 4 --rate 1gbit -- tutti replay --model alexnet --batch 128\n"
                "tutti replay -n 2 --model profile.json --policy dear --json",
    .options = options,
    .opens_comm = true,
    .run = replay_run,
};
