/* cmd_lab.c - tutti lab: runs a command once on each of several emulated hosts, as one job. This
 * file has the options and the order of work; lab_net.c builds the network, lab_enter.c moves a
 * process into a host, supervise.c runs the job.
 *
 * Signals are held from before the first namespace is made until the last is removed, so that
 * Ctrl-C never leaves anything behind. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launch/job.h"
#include "launch/lab_net.h"
#include "launch/supervise.h"

enum { PORT = 29400, TORCH_PORT = 29500 }; /* the namespaces are new: every port is free */

static const struct cli_option own[] = {
    {"nodes", 'n', "N", "how many hosts (default: as many as --rates has)"},
    {"rate", 'r', "RATE", "rate of every host's link, each way (default 1gbit)"},
    {"rates", 0, "R1,R2,..", "rates host by host"},
    {"groups", 'g', "N1,N2,..", "hosts in groups of these sizes, each on a switch of its own"},
    {"uplink", 'u', "RATE",
     "rate of every group's uplink, each way (default: of all hosts together)"},
    {0}};
static const struct cli_option *const options[] = {own, launch_job_options, NULL};

static int read_rate(const struct cli_args *a, const char *option, const char *text, double *ret)
{
    struct tutti_error err;
    if (tutti_parse_rate(text, ret, &err))
        return cli_bad(a, "%s: %s", option, err.text);
    if (*ret < 1e3 || *ret > 125e9)
        return cli_bad(a, "%s: \"%s\" is not between 8kbit and 1000gbit", option, text);
    return 0;
}

static int read_rates(const struct cli_args *a, const char *list, struct lab_want *ret)
{
    char *copy = strdup(list), *at = copy, *one;
    int code = copy ? 0 : cli_bad(a, "out of memory");
    while (!code && (one = strsep(&at, ","))) {
        if (ret->nodes == LAB_MAX_NODES)
            code = cli_bad(a, "--rates: more than %d hosts", LAB_MAX_NODES);
        else
            code = read_rate(a, "--rates", one, &ret->rates[ret->nodes++]);
    }
    free(copy);
    return code;
}

/* Parses the sizes of the groups; hosts are assigned in order, and all must be in a group. */
static int read_groups(const struct cli_args *a, const char *list, struct lab_want *ret)
{
    char *copy = strdup(list), *at = copy, *one;
    int code = copy ? 0 : cli_bad(a, "out of memory");
    uint32_t grouped = 0;
    while (!code && (one = strsep(&at, ","))) {
        struct tutti_error err;
        uint64_t n;
        if (tutti_parse_u64(one, 1, LAB_MAX_NODES, &n, &err))
            code = cli_bad(a, "--groups: %s", err.text);
        else if (n > ret->nodes - grouped)
            code = cli_bad(a, "--groups: more hosts than the %u there are", ret->nodes);
        for (; !code && n > 0; n--)
            ret->group_of[grouped++] = ret->groups;
        ret->groups++;
    }
    if (!code && grouped != ret->nodes)
        code = cli_bad(a, "--groups: %u of %u hosts are in no group", ret->nodes - grouped,
                       ret->nodes);
    free(copy);
    return code;
}

/* Without --uplink the uplinks are never the bottleneck: they have the rate of all hosts
 * together. */
static int read_uplink(const struct cli_args *a, struct lab_want *ret)
{
    const char *groups = cli_value(a, "groups"), *uplink = cli_value(a, "uplink");
    if (!groups)
        return uplink ? cli_bad(a, "--uplink needs --groups") : 0;
    int code = read_groups(a, groups, ret);
    for (uint32_t i = 0; i < ret->nodes; i++)
        ret->uplink += ret->rates[i];
    return !code && uplink ? read_rate(a, "--uplink", uplink, &ret->uplink) : code;
}

static int read_hosts(const struct cli_args *a, struct lab_want *ret)
{
    const char *nodes = cli_value(a, "nodes"), *rate = cli_value(a, "rate"),
               *rates = cli_value(a, "rates");
    struct tutti_error err;
    uint64_t n = 0;
    double every;
    *ret = (struct lab_want){0};
    if (nodes && tutti_parse_u64(nodes, 1, LAB_MAX_NODES, &n, &err))
        return cli_bad(a, "--nodes %s", err.text);
    if (rates) {
        int code = rate ? cli_bad(a, "--rate or --rates, not both") : read_rates(a, rates, ret);
        if (!code && nodes && n != ret->nodes)
            code = cli_bad(a, "--rates has %u rates for %s nodes", ret->nodes, nodes);
        return code;
    }
    if (!nodes)
        return cli_bad(a, "--nodes N is needed, e.g. tutti lab --nodes 4 --rate 1gbit -- hostname");
    if (read_rate(a, "--rate", rate ? rate : "1gbit", &every))
        return CLI_USAGE;
    while (ret->nodes < n)
        ret->rates[ret->nodes++] = every;
    return 0;
}

static int read_want(const struct cli_args *a, struct lab_want *ret)
{
    int code = read_hosts(a, ret);
    return code ? code : read_uplink(a, ret);
}

static bool lab_describe(const struct cli_args *a, const struct launch_job *job,
                         const struct lab_node *node, uint32_t rank, struct sup_rank *ret)
{
    struct launch_place place = {.rank = rank, .local_rank = 0, .local_size = 1};
    enum sup_output others = cli_flag(a, "prefix") ? SUP_SHOWN_ON_STDERR : SUP_DISCARDED;
    *ret = (struct sup_rank){.host = node->host,
                             .argv = a->program,
                             .env = launch_job_environment(job, &place),
                             .out = rank == 0 ? SUP_INHERITED : others,
                             .err = SUP_SHOWN_ON_STDERR,
                             .enter = launch_lab_enter,
                             .ctx = node};
    return ret->env;
}

static int lab_start(const struct cli_args *a, const struct launch_job *job,
                     const struct lab_net *net)
{
    struct sup_job s = {.name = a->command->name,
                        .size = job->size,
                        .timeout_ns = job->timeout_ns,
                        .verdict_fd = job->verdict_fd,
                        .least = job->least,
                        .restarts = job->restarts};
    char meeting[300];
    snprintf(meeting, sizeof meeting, "%s:%u", job->address, job->port);
    s.meeting = meeting;
    bool ok = (s.ranks = calloc(job->size, sizeof *s.ranks));
    for (uint32_t r = 0; ok && r < job->size; r++)
        ok = lab_describe(a, job, &net->nodes[r], r, &s.ranks[r]);
    int code = ok ? launch_supervise(&s) : cli_bad(a, "out of memory");
    for (uint32_t r = 0; s.ranks && r < job->size; r++)
        launch_job_free_list(s.ranks[r].env);
    free(s.ranks);
    return code;
}

/* From here on namespaces exist. launch_lab_close removes them in every case, also after a
 * failure half-way. */
static int run_in_net(const struct cli_args *a, const struct lab_want *want, struct launch_job *job)
{
    struct lab_net net;
    int code = CLI_USAGE;
    launch_lab_sweep();
    bool made = launch_lab_open(&net, want);
    if (launch_is_stopped()) {
        code = CLI_NO;
    } else if (made) {
        snprintf(job->address, sizeof job->address, "%s", net.nodes[0].address);
        job->port = PORT;
        job->torch_port = TORCH_PORT;
        code = lab_start(a, job, &net);
    }
    launch_lab_close(&net);
    return code;
}

static int lab_run(const struct cli_args *a)
{
    struct lab_want want;
    struct launch_job job = {0};
    int code = read_want(a, &want);
    if (code)
        return code;
    if (geteuid() != 0)
        return cli_bad(a, "network namespaces need root: run it with sudo");
    launch_hold_signals();
    code = launch_job_open(a, want.nodes, &job);
    if (!code)
        code = run_in_net(a, &want, &job);
    launch_job_close(&job);
    return code;
}

const struct cli_command launch_lab = {
    .name = "lab",
    .synopsis = "lab --nodes N [--rate RATE | --rates R1,R2,..] [--groups N1,N2,.. [--uplink "
                "RATE]] [--elastic MIN[..MAX]] [--prefix] [--timeout TIME] -- COMMAND ARGS...",
    .summary = "run a command once on each of N emulated hosts with shaped links",
    .details =
        "Makes N hosts (network namespaces node0, node1, .. at 10.77.0.1, ..) on one switch, each "
        "link shaped to the rate in both directions (with --groups on a switch per group, whose "
        "uplinks are shaped as well), and removes them again, also after Ctrl-C or a crash; the "
        "next lab removes what a killed one has left. The machine's own interfaces are not "
        "touched.\n\n"
        "Each command is one rank of a job, with the variables of tutti run. Rank 0 has standard "
        "input and output; the others' output is discarded, or shown on standard error with "
        "--prefix; standard error is always shown behind the rank. With --elastic ranks may die, "
        "and are started again on their hosts, as with tutti run.\n\n"
        "Latency is the kernel's own (some 10 us); the hosts use cubic or reno. Needs root and "
        "the tools ip and tc.",
    .examples = "tutti lab --nodes 4 --rate 1gbit -- ./my_program\n"
                "tutti lab --rates 10gbit,10gbit,10gbit,2.5gbit -- ./my_program\n"
                "tutti lab --nodes 4 --rate 1gbit --groups 2,2 --uplink 500mbit -- tutti probe\n"
                "tutti lab --nodes 4 --elastic 2..4 -- python3 examples/elastic_torch.py\n"
                "tutti lab --nodes 2 --rate 250mbit --prefix -- hostname",
    .options = options,
    .takes_program = true,
    .opens_comm = true,
    .run = lab_run,
};
