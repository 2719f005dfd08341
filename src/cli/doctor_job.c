/* doctor_job.c - the part of tutti doctor that needs the other ranks: the host of every rank, which
 * ranks reach each other, how fast the links are, and whether a sum comes out right.
 *
 *     survey (all pairs try to connect) -> find_problems -> try_comm, when everything connects
 *
 * Every rank takes part and decides alike, since all have the same survey; rank 0 prints. */
#include "cli/doctor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATRIX_RANKS = 32, REASONS = 16 };

/* The names of a rank's failed checks: "shared heap, tcp loopback". Bit i of `failed` is check
 * i; all ranks have the same list of checks. */
static void failed_names(const struct doctor *d, uint32_t failed, char *buf, size_t cap)
{
    size_t len = 0;
    buf[0] = '\0';
    for (size_t i = 0; i < d->nchecks; i++)
        if (failed >> i & 1 && len < cap)
            len +=
                (size_t)snprintf(buf + len, cap - len, "%s%s", len ? ", " : "", d->checks[i].name);
}

/* Has a check failed that nothing else can replace? */
static bool needed_failed(const struct doctor *d, uint32_t failed)
{
    for (size_t i = 0; i < d->nchecks; i++)
        if (failed >> i & 1 && d->checks[i].needed)
            return true;
    return false;
}

/* ---- for people ---- */

/* A row per rank; the last line compares ranks with cores on the first host. */
static void print_ranks(const struct doctor *d)
{
    uint32_t n = tutti_survey_ranks(d->survey, NULL), hosts = 0, here = 0;
    struct tutti_survey_rank r, first = {0};
    printf("\njob of %u rank%s\n  %6s %-16s %8s %-22s %6s %8s  %s\n", n, cli_s(n), "rank", "host",
           "pid", "address", "cores", "memory", "kernels, problems");
    for (uint32_t i = 0; i < n; i++) {
        char names[128], memory[32];
        tutti_survey_rank(d->survey, i, &r);
        if (i == 0)
            first = r;
        hosts = r.host_number + 1 > hosts ? r.host_number + 1 : hosts;
        here += r.host_number == first.host_number;
        failed_names(d, r.failed, names, sizeof names);
        printf("  %6u %-16s %8u %-22s %6u %8s  %s%s%s\n", i, r.host.name, r.pid, r.address,
               r.host.cores,
               tutti_format_size(r.host.memory_bytes >> 20 << 20, memory, sizeof memory),
               r.host.isa, *names ? "; does not work: " : "", names);
    }
    printf("  %u host%s; %u rank%s on the first, which has %u core%s%s\n", hosts,
           hosts == 1 ? "" : "s", here, here == 1 ? "" : "s", first.host.cores,
           first.host.cores == 1 ? "" : "s",
           here > first.host.cores ? ": ranks share cores, waits give them up at once" : "");
}

/* The matrix of the first ranks, then the reasons of the first REASONS failing pairs of all
 * ranks. */
static void print_matrix(const struct doctor *d)
{
    uint32_t n = tutti_survey_ranks(d->survey, NULL), shown = n < MATRIX_RANKS ? n : MATRIX_RANKS,
             bad = 0;
    printf("\nwhich rank reaches which (row to column), and how\n        ");
    for (uint32_t to = 0; to < shown; to++)
        printf("%5u", to);
    for (uint32_t from = 0; from < shown; from++) {
        printf("\n  %6u", from);
        for (uint32_t to = 0; to < shown; to++) {
            const char *by;
            int error = tutti_survey_reach(d->survey, from, to, &by);
            printf("%5s", from == to ? "." : error ? "NO" : by);
        }
    }
    printf("%s\n", shown < n ? "\n  (the first ranks only)" : "");
    for (uint32_t from = 0; from < n; from++)
        for (uint32_t to = 0; to < n; to++) {
            int error = tutti_survey_reach(d->survey, from, to, NULL);
            if (error && bad++ < REASONS)
                printf("  rank %u does not reach rank %u: %s\n", from, to, strerror(error));
        }
    if (bad > REASONS)
        printf("  ... and %u more pairs\n", bad - REASONS);
}

/* The speeds that plans are made with, where they are kept, and whether they are reliable. */
static void print_speeds(const struct doctor *d)
{
    const struct tutti_speeds *s = &d->speeds;
    char rate[32], path[4096];
    printf("\nmeasured\n");
    if (s->shm.known)
        printf("  shm      latency %.2f us, %s, %.2f us of host time per message\n",
               s->shm.latency_us, tutti_format_rate(s->shm.bytes_per_s, rate, sizeof rate),
               s->shm.overhead_us);
    if (s->tcp.known)
        printf("  tcp      latency %.2f us, %s, %.2f us of host time per message\n",
               s->tcp.latency_us, tutti_format_rate(s->tcp.bytes_per_s, rate, sizeof rate),
               s->tcp.overhead_us);
    printf("  sockets  %s\n", d->guard);
    printf("  reducing %.3f ns per byte\n", s->gamma_ns_per_byte);
    if (s->steady)
        printf("  steady   other processes used %.0f%% of the cores meanwhile\n", 100 * s->taken);
    else
        printf(
            "  BUSY     other processes used %.0f%% of the cores meanwhile: not to be relied on\n",
            100 * s->taken);
    if (*tutti_speeds_path(path, sizeof path))
        printf("  kept in %s%s\n", path, s->steady ? "" : " for a minute");
}

/* ---- JSON ---- */

/* The same as JSON; `failed` names the checks. */
static void json_ranks(const struct doctor *d, struct tutti_json *j)
{
    uint32_t n = tutti_survey_ranks(d->survey, NULL);
    tutti_json_array(j, "ranks");
    for (uint32_t i = 0; i < n; i++) {
        struct tutti_survey_rank r;
        tutti_survey_rank(d->survey, i, &r);
        tutti_json_object(j, NULL);
        tutti_json_u64(j, "rank", i);
        tutti_json_string(j, "host", r.host.name);
        tutti_json_u64(j, "host_number", r.host_number);
        tutti_json_u64(j, "pid", r.pid);
        tutti_json_string(j, "address", r.address);
        tutti_json_u64(j, "cores", r.host.cores);
        tutti_json_u64(j, "memory_bytes", r.host.memory_bytes);
        tutti_json_string(j, "isa", r.host.isa);
        tutti_json_array(j, "failed");
        for (size_t k = 0; k < d->nchecks; k++)
            if (r.failed >> k & 1)
                tutti_json_string(j, NULL, d->checks[k].name);
        tutti_json_end(j);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* One row per sender. `transports`: how the pair communicates; else 0, or the error as text. */
static void json_matrix(const struct doctor *d, struct tutti_json *j, const char *key,
                        bool transports)
{
    uint32_t n = tutti_survey_ranks(d->survey, NULL);
    tutti_json_array(j, key);
    for (uint32_t from = 0; from < n; from++) {
        tutti_json_array(j, NULL);
        for (uint32_t to = 0; to < n; to++) {
            const char *by;
            int error = tutti_survey_reach(d->survey, from, to, &by);
            if (transports)
                tutti_json_string(j, NULL, by);
            else if (error)
                tutti_json_string(j, NULL, strerror(error));
            else
                tutti_json_u64(j, NULL, 0);
        }
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* One kind of links, or null when there are none. */
static void json_link(struct tutti_json *j, const char *key, bool known, double bytes_per_s,
                      double latency_us)
{
    if (!known) {
        tutti_json_null(j, key);
        return;
    }
    tutti_json_object(j, key);
    tutti_json_real(j, "latency_us", latency_us);
    tutti_json_real(j, "bandwidth_GBs", bytes_per_s / 1e9);
    tutti_json_end(j);
}

void cli_doctor_job_json(const struct doctor *d, struct tutti_json *j)
{
    if (!d->survey) {
        tutti_json_null(j, "job");
        return;
    }
    tutti_json_object(j, "job");
    json_ranks(d, j);
    json_matrix(d, j, "reach", false);
    json_matrix(d, j, "transport", true);
    if (d->measured) {
        json_link(j, "shm", d->speeds.shm.known, d->speeds.shm.bytes_per_s,
                  d->speeds.shm.latency_us);
        json_link(j, "tcp", d->speeds.tcp.known, d->speeds.tcp.bytes_per_s,
                  d->speeds.tcp.latency_us);
        tutti_json_real(j, "gamma_ns_per_byte", d->speeds.gamma_ns_per_byte);
        tutti_json_string(j, "sockets", d->guard);
        tutti_json_bool(j, "steady", d->speeds.steady);
        tutti_json_real(j, "taken", d->speeds.taken);
    }
    tutti_json_end(j);
}

void cli_doctor_job_print(const struct doctor *d)
{
    if (!d->survey)
        return;
    print_ranks(d);
    print_matrix(d);
    if (d->measured)
        print_speeds(d);
}

/* ---- trying ---- */

/* Counts what fails. A communicator is tried only when nothing does: opening would wait for its
 * deadline otherwise. */
static void find_problems(struct doctor *d)
{
    uint32_t n = tutti_survey_ranks(d->survey, NULL), bad = 0, hosts = 0;
    for (uint32_t from = 0; from < n; from++) {
        struct tutti_survey_rank r;
        tutti_survey_rank(d->survey, from, &r);
        hosts += needed_failed(d, r.failed);
        for (uint32_t to = 0; to < n; to++)
            bad += tutti_survey_reach(d->survey, from, to, NULL) != 0;
    }
    if (bad)
        cli_doctor_problem(d, "%u of %u connections between ranks cannot be made", bad,
                           n * (n - 1));
    if (hosts)
        cli_doctor_problem(d, "what is needed does not work on the host of %u rank%s", hosts,
                           hosts == 1 ? "" : "s");
    d->connected = !bad && !hosts;
}

/* Opens a communicator, checks one sum (1 + 2 + .. + n, exact in i64), and measures the speeds. */
static void try_comm(struct doctor *d)
{
    struct tutti_comm *comm;
    struct tutti_error err;
    struct tutti_comm_options o = {.size = sizeof o, .transport = d->transport};
    if (tutti_comm_open(&o, &comm, &err)) {
        cli_doctor_problem(d, "a communicator cannot be opened: %s", err.text);
        return;
    }
    /* 1 + 2 + .. + n = n (n + 1) / 2 */
    int64_t sum = tutti_comm_rank(comm) + 1, n = tutti_comm_size(comm);
    if (tutti_allreduce(comm, &sum, &sum, 1, TUTTI_I64, TUTTI_SUM))
        cli_doctor_problem(d, "an all-reduce failed: %s", tutti_comm_last_error(comm)->text);
    else if (sum != n * (n + 1) / 2)
        cli_doctor_problem(d, "an all-reduce gave %lld instead of %lld", (long long)sum,
                           (long long)(n * (n + 1) / 2));
    else if (tutti_comm_speeds(comm, true, &d->speeds, &err))
        cli_doctor_problem(d, "measuring failed: %s", err.text);
    else
        d->measured = true;
    tutti_comm_guard(comm, d->guard, sizeof d->guard);
    tutti_comm_close(comm);
}

void cli_doctor_job(struct doctor *d)
{
    struct tutti_error err;
    if (tutti_survey_make(d->transport, &d->survey, &err)) {
        cli_doctor_problem(d, "the ranks cannot meet: %s", err.text);
        return;
    }
    find_problems(d);
    if (d->connected)
        try_comm(d);
}
