/* cmd_probe.c - tutti probe: measures the network of a live job into a topology file.
 *
 * Inside a job the process is one rank; otherwise it starts its own ranks on this machine
 * through tutti run. All ranks measure together (tutti_probe_run is collective); rank 0 writes
 * the file and prints. With -o - the file has standard output for itself and the report goes to
 * standard error.
 *
 *     rank 0 .. n-1: tutti_probe_run --> the same result on all ranks
 *     rank 0:        topology -> file;  report -> text or JSON */
#include "cli/cli.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct cli_option own[] = {
    {"ranks", 'n', "N", "start N ranks on this machine (default 2; inside a job: the job's)"},
    {"output", 'o', "FILE",
     "write the topology file ('-': standard output, the report to standard error)"},
    {"time", 0, "TIME", "about how long to measure (default 10s)"},
    {"transport", 0, "NAME", "shm, tcp or mpi (default: shm inside a host, tcp between hosts)"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

/* One rate of a table. at_least: the flows that were tried did not fill the link. */
static void print_rate(FILE *out, double rate, bool at_least)
{
    char buf[40];
    tutti_format_rate(rate, buf, sizeof buf);
    fprintf(out, " %s%14s", at_least ? ">" : " ", rate > 0 ? buf : "-");
}

/* A table of hosts, and of groups when there is more than one. */
static void print_hosts(const struct tutti_probe *p, const struct tutti_probe_info *info, FILE *out)
{
    struct tutti_probe_host h;
    char lat[40];
    fprintf(out, "# %-20s %6s %6s %6s  %14s  %14s  %14s  %s\n", "host", "ranks", "first", "group",
            "sends", "receives", "memory", "latency");
    for (size_t i = 0; tutti_probe_host(p, i, &h); i++) {
        fprintf(out, "  %-20s %6u %6u %6u", h.name, h.ranks, h.first_rank, h.group);
        print_rate(out, h.up, h.up_at_least);
        print_rate(out, h.down, h.down_at_least);
        print_rate(out, h.memory, false);
        fprintf(out, "  %s\n",
                h.memory > 0 ? tutti_format_us(h.memory_latency_us, lat, sizeof lat) : "-");
    }
    struct tutti_probe_group g;
    for (size_t i = 0; info->groups > 1 && tutti_probe_group(p, i, &g); i++) {
        fprintf(out, "  group %-14zu %6u host%s, uplink    %s", i, g.hosts, cli_s(g.hosts),
                g.hosts == 1 ? " " : "");
        print_rate(out, g.up, false);
        print_rate(out, g.down, false);
        fputc('\n', out);
    }
}

/* Pairs are pairs of hosts. Only pairs that were measured alone, without other traffic, can be
 * compared with the topology; confidence is about those. */
static void print_confidence(const struct tutti_probe_info *i, FILE *out)
{
    if (!i->pairs) {
        fprintf(out, "no pairs of hosts\n");
        return;
    }
    fprintf(out, "%llu of %llu pair%s of hosts; ", (unsigned long long)i->pairs_measured,
            (unsigned long long)i->pairs, cli_s(i->pairs));
    if (i->pairs_judged)
        fprintf(
            out,
            "confidence %.2f: that part of %llu pair%s measured alone is as the topology says\n",
            i->confidence, (unsigned long long)i->pairs_judged, cli_s(i->pairs_judged));
    else
        fprintf(out, "confidence not known: no pair was measured alone\n");
}

/* The headline with the confidence, the table, then the findings, a sentence each. */
static void print_report(const struct tutti_probe *p, FILE *out)
{
    struct tutti_probe_info info;
    char lat[40];
    tutti_probe_info(p, &info);
    fprintf(out, "# tutti %s: %u rank%s on %u host%s in %u group%s, measured in %.1f s; ",
            tutti_version(), info.ranks, cli_s(info.ranks), info.hosts, cli_s(info.hosts),
            info.groups, cli_s(info.groups), info.seconds);
    print_confidence(&info, out);
    fprintf(out, "# host time per message %s, reduction %.4g ns per byte\n",
            tutti_format_us(info.overhead_us, lat, sizeof lat), info.gamma * 1e9);
    print_hosts(p, &info, out);
    const char *text;
    for (size_t i = 0; (text = tutti_probe_finding(p, i)); i++)
        fprintf(out, "%s\n", text);
}

/* A rate, or null when it was not measured (0). */
static void json_rate(struct tutti_json *j, const char *key, double rate)
{
    if (rate > 0)
        tutti_json_real(j, key, rate);
    else
        tutti_json_null(j, key);
}

static void json_hosts(struct tutti_json *j, const struct tutti_probe *p)
{
    struct tutti_probe_host h;
    tutti_json_array(j, "hosts");
    for (size_t i = 0; tutti_probe_host(p, i, &h); i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", h.name);
        tutti_json_u64(j, "first_rank", h.first_rank);
        tutti_json_u64(j, "ranks", h.ranks);
        tutti_json_u64(j, "group", h.group);
        json_rate(j, "up_Bps", h.up);
        json_rate(j, "down_Bps", h.down);
        tutti_json_bool(j, "up_at_least", h.up_at_least);
        tutti_json_bool(j, "down_at_least", h.down_at_least);
        json_rate(j, "memory_Bps", h.memory);
        json_rate(j, "memory_latency_us", h.memory_latency_us);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

static void json_groups(struct tutti_json *j, const struct tutti_probe *p)
{
    struct tutti_probe_group g;
    tutti_json_array(j, "groups");
    for (size_t i = 0; tutti_probe_group(p, i, &g); i++) {
        tutti_json_object(j, NULL);
        tutti_json_u64(j, "hosts", g.hosts);
        json_rate(j, "up_Bps", g.up);
        json_rate(j, "down_Bps", g.down);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* Pairs that were not measured are left out. */
static void json_pairs(struct tutti_json *j, const struct tutti_probe *p)
{
    struct tutti_probe_pair x;
    tutti_json_array(j, "pairs");
    for (size_t i = 0; tutti_probe_pair(p, i, &x); i++) {
        if (!(x.rate > 0))
            continue;
        tutti_json_object(j, NULL);
        tutti_json_u64(j, "from", x.from);
        tutti_json_u64(j, "to", x.to);
        tutti_json_real(j, "Bps", x.rate);
        json_rate(j, "crowd_Bps", x.crowd_rate);
        json_rate(j, "latency_us", x.latency_us);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

static void print_json(const struct tutti_probe *p)
{
    struct tutti_probe_info info;
    struct tutti_json *j = tutti_json_open(stdout);
    const char *text;
    tutti_probe_info(p, &info);
    tutti_json_object(j, NULL);
    tutti_json_u64(j, "ranks", info.ranks);
    tutti_json_real(j, "seconds", info.seconds);
    tutti_json_real(j, "confidence", info.pairs_judged ? info.confidence : (double)NAN);
    tutti_json_u64(j, "pairs_measured", info.pairs_measured);
    tutti_json_u64(j, "pairs_judged", info.pairs_judged);
    tutti_json_u64(j, "pairs_all", info.pairs);
    tutti_json_bool(j, "crowded", info.crowded);
    tutti_json_bool(j, "unsure", info.unsure);
    tutti_json_real(j, "overhead_us", info.overhead_us);
    tutti_json_real(j, "gamma_s_per_byte", info.gamma);
    json_hosts(j, p);
    json_groups(j, p);
    json_pairs(j, p);
    tutti_json_array(j, "findings");
    for (size_t i = 0; (text = tutti_probe_finding(p, i)); i++)
        tutti_json_string(j, NULL, text);
    tutti_json_end(j);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* Is the topology file written to standard output? */
static bool to_stdout(const struct cli_args *a)
{
    const char *path = cli_value(a, "output");
    return path && !strcmp(path, "-");
}

/* Rank 0's part: writes the file first, so that a report is never seen without it. */
static int probe_answer(const struct cli_args *a, const struct tutti_probe *p)
{
    struct tutti_topo *t = NULL;
    struct tutti_error err;
    const char *path = cli_value(a, "output");
    if (tutti_probe_topo(p, &t, &err))
        return cli_fail(a, &err);
    int code = path && tutti_topo_write(t, path, &err) ? cli_fail(a, &err) : CLI_OK;
    tutti_topo_free(t);
    if (code)
        return code;
    if (cli_flag(a, "json"))
        print_json(p);
    else
        print_report(p, to_stdout(a) ? stderr : stdout);
    return CLI_OK;
}

/* One rank: all measure, rank 0 answers. A failure of the measurement is CLI_NO on every rank. */
static int run_rank(const struct cli_args *a, uint64_t budget_us)
{
    struct tutti_error err;
    struct tutti_comm *comm;
    struct tutti_probe *p = NULL;
    struct tutti_comm_options o = {.size = sizeof o, .transport = cli_value(a, "transport")};
    /* An earlier probe may have left its file there, perhaps of other ranks; nothing is planned
     * here. */
    unsetenv("TUTTI_TOPO");
    if (tutti_comm_open(&o, &comm, &err))
        return cli_fail(a, &err);
    int code = CLI_OK;
    char what[64];
    snprintf(what, sizeof what, "measuring for about %.3g s", (double)budget_us / 1e6);
    if (tutti_comm_rank(comm) == 0)
        cli_wait_begin(what);
    tutti_status st = tutti_probe_run(comm, budget_us, &p, &err);
    cli_wait_end();
    if (st)
        code = cli_bad(a, "%s", err.text) ? CLI_NO : CLI_NO;
    else if (tutti_comm_rank(comm) == 0)
        code = probe_answer(a, p);
    tutti_probe_free(p);
    tutti_comm_close(comm);
    return code;
}

/* Reports a folder that cannot be written before anything is measured. */
static int check_folder(const struct cli_args *a)
{
    const char *path = cli_value(a, "output"), *slash = path ? strrchr(path, '/') : NULL;
    char folder[4096] = ".";
    if (!path || to_stdout(a) || (size_t)(slash ? slash - path : 0) >= sizeof folder)
        return 0;
    if (slash)
        snprintf(folder, sizeof folder, "%.*s", slash == path ? 1 : (int)(slash - path), path);
    return access(folder, W_OK) == 0 ? 0 : cli_bad(a, "cannot write %s: %s", path, strerror(errno));
}

static int probe_run(const struct cli_args *a)
{
    const char *time = cli_value(a, "time");
    struct tutti_error err;
    /* 10 s */
    uint64_t ps = UINT64_C(10000000000000);
    if (time && tutti_parse_time(time, &ps, &err))
        return cli_bad(a, "--time: %s", err.text);
    if (cli_flag(a, "json") && to_stdout(a))
        return cli_bad(a, "--json and -o -: standard output takes one document; name a file");
    /* The folder is checked only by the process that starts the ranks: in a job it may be rank
     * 0's host alone that has it. */
    if (cli_in_job())
        return run_rank(a, ps / 1000000);
    int code = check_folder(a);
    return code ? code : cli_start_ranks(a, "2");
}

const struct cli_command cli_probe = {
    .name = "probe",
    .synopsis = "probe [-n N] [-o FILE] [--time TIME] [--transport shm|tcp|mpi] [--json]",
    .summary = "measure the live network into a topology file",
    .details =
        "The file is for --topo of every command and for TUTTI_TOPO. Inside a job (tutti run, "
        "tutti lab, torchrun, mpirun, srun) it is one rank.\n\n"
        "Measured are: pairs of hosts (latency, rate each way), one host to several and several "
        "to one (network interfaces), all hosts at once (shared uplinks), ranks inside hosts, "
        "host time per message, reduction.\n\n"
        "In the report \">\" means at least: no flows filled the link. Confidence is the part of "
        "the measured pairs that the topology predicts within 15 %. tutti-topology(5) says what "
        "this cannot see.",
    .examples = "tutti probe -n 8 -o measured.json\n"
                "tutti explain --topo measured.json --size 100M\n"
                "tutti lab --rates 1gbit,1gbit,1gbit,250mbit -- tutti probe -o measured.json\n"
                "mpirun -n 4 tutti probe -o measured.json",
    .options = options,
    .opens_comm = true,
    .run = probe_run,
};
