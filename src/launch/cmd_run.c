/* cmd_run.c - tutti run: starts the ranks of a program, here or on several machines, and stays
 * until the last one has ended. hosts.c decides where ranks run, job.c makes the variables and
 * the key, supervise.c watches over the processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/hosts.h"
#include "launch/supervise.h"

static const struct cli_option own[] = {
    {"ranks", 'n', "N", "how many ranks (default: one for each slot, or host, or those of --plan)"},
    {"hosts", 0, "A:2,B,..",
     "machines with their slots, reached by ssh; localhost is this one (default)"},
    {"hostfile", 0, "FILE",
     "the same, a line each: host, host:2 or host slots=2; # begins a comment"},
    {"join", 0, "HOST:PORT",
     "start further ranks of a job that runs (default: one); members listen there"},
    {"bind", 0, NULL,
     "give each rank of this machine its own share of the cores, if there are enough"},
    {0}};
static const struct cli_option *const options[] = {own, launch_job_options, NULL};

/* The number of ranks that all files of --plan are for; 0: there are none. */
static int read_plan_size(const struct cli_args *a, uint64_t *ret)
{
    *ret = 0;
    for (size_t i = 0; i < a->nvalues; i++) {
        struct tutti_schedule *s;
        struct tutti_schedule_info info;
        struct tutti_error err;
        if (strcmp(a->values[i].option->name, "plan"))
            continue;
        if (tutti_schedule_read(a->values[i].value, &s, &err))
            return cli_fail(a, &err);
        tutti_schedule_info(s, &info);
        tutti_schedule_free(s);
        if (*ret && *ret != info.ranks)
            return cli_bad(a, "-n N is needed: there are plans for %llu and for %u ranks",
                           (unsigned long long)*ret, info.ranks);
        *ret = info.ranks;
    }
    return 0;
}

static int read_size(const struct cli_args *a, const struct launch_hosts *h, uint32_t *ret)
{
    const char *text = cli_value(a, "ranks");
    struct tutti_error err;
    uint64_t slots = launch_slots(h), n = slots;
    if (!text && cli_value(a, "join"))
        n = 1;
    else if (!text && !cli_value(a, "hosts") && !cli_value(a, "hostfile")) {
        int code = read_plan_size(a, &n);
        if (code)
            return code;
        if (!n)
            return cli_bad(a, "-n N is needed: how many ranks? e.g. tutti run -n 4 -- ./program");
    }
    if (text && tutti_parse_u64(text, 1, CLI_MAX_RANKS, &n, &err))
        return cli_bad(a, "-n %s", err.text);
    if (n > CLI_MAX_RANKS)
        return cli_bad(a, "%llu slots; at most %d ranks are started", (unsigned long long)n,
                       CLI_MAX_RANKS);
    if (h->slotted && n > slots)
        return cli_bad(a, "-n %llu: the hosts have %llu slot%s", (unsigned long long)n,
                       (unsigned long long)slots, slots == 1 ? "" : "s");
    *ret = (uint32_t)n;
    return 0;
}

/* Newcomers of a job that runs: each goes on without the others, and all need that job's key. */
static int read_join(const struct cli_args *a, struct launch_job *job, struct sup_job *ret)
{
    job->join = cli_value(a, "join");
    if (!job->join)
        return 0;
    if (cli_value(a, "elastic") || cli_value(a, "hosts") || cli_value(a, "hostfile"))
        return cli_bad(a, "--join starts ranks of this machine, and the launcher of the job that "
                          "runs decides about --elastic");
    if (!cli_environment("TUTTI_KEY_FILE"))
        return cli_bad(a, "--join needs the key of the job that runs: start both with the same "
                          "TUTTI_KEY_FILE");
    ret->least = 1;
    return 0;
}

/* launch_bind_share with the signature of sup_rank.enter. */
static int enter_cores(const void *place, const char **ret_what)
{
    return launch_bind_share(place, ret_what);
}

/* Fills the description of one rank. *place must live until the job is over: `ctx` points to it. */
static bool run_describe(const struct cli_args *a, const struct launch_hosts *h,
                         const struct launch_job *job, uint32_t rank, struct launch_place *place,
                         struct sup_rank *ret)
{
    bool prefix = cli_flag(a, "prefix");
    *place = launch_place_of(h, rank, job->size);
    const char *host = launch_host_of(h, rank, job->size);
    *ret = (struct sup_rank){.host = host,
                             .remote = host != NULL,
                             .hello = host ? job->key : NULL,
                             .argv = host ? launch_remote_argv(job, place, host, a->program)
                                          : a->program,
                             .env = launch_job_environment(job, place),
                             .out = prefix ? SUP_SHOWN_ON_STDOUT : SUP_INHERITED,
                             .err = prefix ? SUP_SHOWN_ON_STDERR : SUP_INHERITED,
                             .enter = cli_flag(a, "bind") && !host ? enter_cores : NULL,
                             .ctx = place};
    return ret->argv && ret->env;
}

/* Is the program this tool? bench, replay, probe and doctor start themselves as ranks. */
static bool is_self(const char *program)
{
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = 0;
    return !strcmp(self, program);
}

static int run_start(const struct cli_args *a, const struct launch_hosts *h, struct launch_job *job)
{
    bool self =
        /* the user typed "tutti bench": messages should name that command */
        is_self(a->program[0]);
    struct sup_job s = {.name = self && a->program[1] ? a->program[1] : a->command->name,
                        .size = job->size,
                        .timeout_ns = job->timeout_ns,
                        .verdict_fd = job->verdict_fd,
                        .own = self,
                        .least = job->least,
                        .restarts = job->restarts};
    char meeting[300];
    snprintf(meeting, sizeof meeting, "%s:%u", job->address, job->port);
    s.meeting = meeting;
    int code = read_join(a, job, &s);
    if (code)
        return code;
    struct launch_place *places = calloc(job->size, sizeof *places);
    bool ok = (s.ranks = calloc(job->size, sizeof *s.ranks)) && places;
    for (uint32_t r = 0; ok && r < job->size; r++)
        ok = run_describe(a, h, job, r, &places[r], &s.ranks[r]);
    code = ok ? launch_supervise(&s) : cli_bad(a, "out of memory");
    for (uint32_t r = 0; s.ranks && r < job->size; r++) {
        if (s.ranks[r].remote)
            launch_job_free_list(s.ranks[r].argv);
        launch_job_free_list(s.ranks[r].env);
    }
    free(s.ranks);
    free(places);
    return code;
}

static int run_run(const struct cli_args *a)
{
    struct launch_hosts hosts;
    struct launch_job job = {0};
    uint32_t size = 0;
    int code = launch_hosts_open(a, &hosts);
    if (code)
        return code;
    launch_hold_signals();
    code = read_size(a, &hosts, &size);
    if (!code)
        code = launch_job_open(a, size, &job);
    if (!code)
        code = launch_find_meeting(a, &hosts, &job);
    if (!code)
        code = run_start(a, &hosts, &job);
    launch_job_close(&job);
    launch_hosts_close(&hosts);
    return code;
}

const struct cli_command launch_run = {
    .name = "run",
    .synopsis =
        "run [-n N] [--hosts A:2,B,.. | --hostfile FILE] [--elastic MIN[..MAX] [--restarts K]] "
        "[--join HOST:PORT] [--bind] [--prefix] "
        "[--timeout "
        "TIME] [--plan FILE] [--tuning FILE] [--trace FILE] [--top] -- "
        "PROGRAM ARGS...",
    .summary = "start the ranks of a program and supervise them",
    .details =
        "Every rank gets TUTTI_RANK, TUTTI_SIZE, TUTTI_LOCAL_RANK, TUTTI_RENDEZVOUS and "
        "TUTTI_KEY_FILE (a key made for this job), and torchrun's RANK, WORLD_SIZE, LOCAL_RANK, "
        "LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Standard input belongs to rank 0; output "
        "passes through.\n\n"
        "When a rank fails it is named. The others have the timeout and a second to report, then "
        "they are ended, and the exit status is 1. When all others have ended with status 0, a "
        "rank that they blame and that is stopped (SIGSTOP) is ended too. No rank outlives the "
        "launcher.\n\n"
        "SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 reach all ranks. Ranks are killed "
        "by a "
        "second Ctrl-C, by a SIGTERM more than a second after the first, and when the timeout and "
        "a second have passed after SIGTERM.\n\n"
        "With --elastic MIN a rank that fails is named and the others go on, if the program can "
        "(tutti_comm_shrink), as long as MIN are left; the exit status is 0 when at least MIN "
        "ended with 0. "
        "With MIN..MAX the rank is also started again, after a pause of 0.1 s that doubles up to "
        "30 s, and joins (tutti_comm_admit) with TUTTI_JOIN set; the job never has more than MAX "
        "ranks. --join starts one rank (or -n ranks) more of a job that runs elsewhere. It needs "
        "that job's key: set TUTTI_KEY_FILE for both; --elastic and --join then use it instead of "
        "a new key.\n\n"
        "Hosts take blocks of ranks in the order given, as many as they have slots (A:2), or "
        "equal blocks when no slots are given. Other machines need ssh without a password and the "
        "program at the same path, and get no standard input; the key travels inside ssh: "
        "tutti-hosts(7). --bind keeps ranks that compute with one thread on the same cores.\n\n"
        "--plan FILE is proved by rank 0. It then runs every call of its collective (and root) on "
        "communicators of its number of ranks, whatever the length, type and reduction; other "
        "calls are planned as usual. Without -n and hosts the job has as many ranks as the plan. "
        "A plan that is not correct ends the job with rank, operation and reason.",
    .examples = "tutti run -n 4 -- ./my_program\n"
                "tutti run -n 4 --prefix --timeout 5s -- python3 train.py --epochs 3\n"
                "tutti run -n 8 --hosts localhost,node2 -- ./my_program\n"
                "tutti run --hosts localhost:2,node2:4 -- ./my_program\n"
                "tutti run -n 4 --elastic 2..4 -- ./my_program\n"
                "tutti run --join node1:29500 -- ./my_program\n"
                "tutti run --plan plan.json --tuning rules.json -- ./my_program",
    .options = options,
    .takes_program = true,
    .opens_comm = true,
    .run = run_run,
};
