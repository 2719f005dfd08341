/* cmd_doctor.c - tutti doctor: which variables are set, what works on this host, which ranks reach
 * each other.
 *
 *     look_here -> cli_doctor_job (in a job; collective) -> print_all or json_all -> exit status
 *
 * All checks come first and printing afterwards, so that the list of problems at the end is
 * complete. In a job every rank looks and only rank 0 prints. doctor_job.c has the part that needs
 * other ranks. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/doctor.h"

static const struct cli_option own[] = {
    {"ranks", 'n', "N", "start N ranks on this machine and look at the job, too"},
    {"transport", 0, "NAME", "shm or tcp (default: shm inside a host, tcp between hosts)"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

/* Problems beyond DOCTOR_PROBLEMS are dropped: the first ones are enough to act on. */
void cli_doctor_problem(struct doctor *d, const char *fmt, ...)
{
    va_list ap;
    if (d->nproblems == DOCTOR_PROBLEMS)
        return;
    va_start(ap, fmt);
    vsnprintf(d->problems[d->nproblems++], sizeof d->problems[0], fmt, ap);
    va_end(ap);
}

/* ---- variables ---- */

/* The value that a variable has in effect, and its origin: "set", "default", or the launcher
 * whose own variables stand in for ours (torchrun, mpirun, srun). */
static void doctor_resolve(const struct doctor *d, const struct tutti_variable *v, char *value,
                           size_t cap, const char **ret_origin)
{
    const char *set = cli_environment(v->name);
    /* Another launcher than tutti run gives rank and size by its own variables. */
    bool launched = d->me.origin && strcmp(d->me.origin, "none") && strcmp(d->me.origin, "tutti");
    snprintf(value, cap, "%s", set ? set : v->dflt);
    *ret_origin = set ? "set" : "default";
    if (set || !launched)
        return;
    if (!strcmp(v->name, "TUTTI_RANK"))
        snprintf(value, cap, "%u", d->me.rank);
    else if (!strcmp(v->name, "TUTTI_SIZE"))
        snprintf(value, cap, "%u", d->me.ranks);
    else if (!strcmp(v->name, "TUTTI_LOCAL_RANK") && d->me.local_rank >= 0)
        snprintf(value, cap, "%d", d->me.local_rank);
    else if (!strcmp(v->name, "TUTTI_RENDEZVOUS") && d->me.rendezvous[0])
        snprintf(value, cap, "%s", d->me.rendezvous);
    else
        return;
    *ret_origin = d->me.origin;
}

/* All known variables with value, origin and meaning; unknown ones with similar names. */
static void print_variables(const struct doctor *d)
{
    struct tutti_variable v;
    struct tutti_unknown_variable u;
    printf("variables\n");
    for (size_t i = 0; tutti_variable_get(i, &v); i++) {
        char value[512];
        const char *origin;
        doctor_resolve(d, &v, value, sizeof value, &origin);
        printf("  %-19s %-22s %-9s %s\n", v.name, value, origin, v.meaning);
    }
    for (size_t i = 0; tutti_variable_unknown(i, &u); i++)
        printf("  %-19s %-22s %-9s %s\n", u.name, "?", "unknown", u.near);
}

/* The same as JSON, with the defaults. */
static void json_variables(const struct doctor *d, struct tutti_json *j)
{
    struct tutti_variable v;
    struct tutti_unknown_variable u;
    tutti_json_array(j, "variables");
    for (size_t i = 0; tutti_variable_get(i, &v); i++) {
        char value[512];
        const char *origin;
        doctor_resolve(d, &v, value, sizeof value, &origin);
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", v.name);
        tutti_json_string(j, "value", value);
        tutti_json_string(j, "origin", origin);
        tutti_json_string(j, "default", v.dflt);
        tutti_json_string(j, "meaning", v.meaning);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    tutti_json_array(j, "unknown_variables");
    for (size_t i = 0; tutti_variable_unknown(i, &u); i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", u.name);
        tutti_json_string(j, "near", u.near);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* ---- this host ---- */

/* What can be tried without other ranks. A check that fails is a problem only when nothing
 * replaces it. */
static void look_here(struct doctor *d)
{
    struct tutti_error err;
    if (tutti_identity(&d->me, &err))
        cli_doctor_problem(d, "the variables do not fit together: %s", err.text);
    tutti_host(&d->host);
    while (d->nchecks < DOCTOR_CHECKS &&
           tutti_host_check(d->transport, d->nchecks, &d->checks[d->nchecks])) {
        const struct tutti_check *k = &d->checks[d->nchecks++];
        if (!k->ok && k->needed)
            cli_doctor_problem(d, "%s: %s", k->name, k->text);
    }
}

/* This host and its checks. FAILS in capitals when nothing can replace it. */
static void print_here(const struct doctor *d)
{
    const struct tutti_host *h = &d->host;
    char memory[32], available[32];
    printf("\nthis host: %s, %s, %u of %u cores, memory %s (%s available), reductions with %s\n",
           h->name, h->kernel, h->cores, h->online,
           tutti_format_size(h->memory_bytes >> 20 << 20, memory, sizeof memory),
           tutti_format_size(h->available_bytes >> 20 << 20, available, sizeof available), h->isa);
    for (size_t i = 0; i < d->nchecks; i++) {
        const struct tutti_check *k = &d->checks[i];
        printf("  %-16s %-9s %s\n", k->name,
               k->ok       ? "works"
               : k->needed ? "FAILS"
                           : "fails",
               k->text);
    }
}

static void json_here(const struct doctor *d, struct tutti_json *j)
{
    tutti_json_object(j, "host");
    tutti_json_string(j, "name", d->host.name);
    tutti_json_string(j, "kernel", d->host.kernel);
    tutti_json_string(j, "isa", d->host.isa);
    tutti_json_u64(j, "cores", d->host.cores);
    tutti_json_u64(j, "memory_bytes", d->host.memory_bytes);
    tutti_json_u64(j, "available_bytes", d->host.available_bytes);
    tutti_json_end(j);
    tutti_json_array(j, "checks");
    for (size_t i = 0; i < d->nchecks; i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", d->checks[i].name);
        tutti_json_bool(j, "ok", d->checks[i].ok);
        tutti_json_bool(j, "needed", d->checks[i].needed);
        tutti_json_string(j, "text", d->checks[i].text);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* ---- the whole ---- */

/* The problems come last, where they are seen. */
static void print_all(const struct doctor *d)
{
    print_variables(d);
    print_here(d);
    cli_doctor_job_print(d);
    printf("\n%s\n", d->nproblems ? "problems" : "everything needed works");
    for (size_t i = 0; i < d->nproblems; i++)
        printf("  %s\n", d->problems[i]);
}

static void json_all(const struct doctor *d)
{
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "version", tutti_version());
    json_variables(d, j);
    json_here(d, j);
    cli_doctor_job_json(d, j);
    tutti_json_array(j, "problems");
    for (size_t i = 0; i < d->nproblems; i++)
        tutti_json_string(j, NULL, d->problems[i]);
    tutti_json_end(j);
    tutti_json_bool(j, "ok", d->nproblems == 0);
    tutti_json_end(j);
    tutti_json_close(j);
}

static int doctor_run(const struct cli_args *a)
{
    const char *transport = cli_value(a, "transport");
    if (transport && strcmp(transport, "shm") && strcmp(transport, "tcp"))
        return cli_bad(a, "--transport %s: shm or tcp", transport);
    /* -n outside a job: the ranks look at themselves; this process becomes the launcher. */
    if (cli_value(a, "ranks") && !cli_in_job())
        return cli_start_ranks(a, NULL);
    struct doctor *d = calloc(1, sizeof *d);
    if (!d)
        return cli_bad(a, "out of memory");
    d->transport = transport;
    look_here(d);
    if (cli_in_job() && d->me.origin)
        cli_doctor_job(d);
    bool shows = d->me.rank == 0 || !d->survey; /* without a survey a rank reports for itself */
    if (shows && cli_flag(a, "json"))
        json_all(d);
    else if (shows)
        print_all(d);
    int code = d->nproblems ? CLI_NO : CLI_OK;
    tutti_survey_free(d->survey);
    free(d);
    return code;
}

const struct cli_command cli_doctor = {
    .name = "doctor",
    .synopsis = "doctor [-n N] [--transport shm|tcp] [--json]",
    .summary = "what is set, which transports work here and why not, which ranks reach each other",
    .details = "Prints all variables with values and origins, tries what transports need on this "
               "host, and inside a job (or with -n, which "
               "starts one here)\n"
               "shows ranks, hosts and addresses, tries a connection between all pairs, runs an "
               "all-reduce and measures. Exit 1 when "
               "something needed does not work.",
    .examples = "tutti doctor\n"
                "tutti doctor -n 4\n"
                "tutti lab --nodes 3 -- tutti doctor\n"
                "mpirun -n 4 tutti doctor --json",
    .options = options,
    .run = doctor_run,
};
