/* variables.c - the variables of the environment: one table that warnings, doctor and the documents are made from. */
#include "cli/variables.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern char **environ;

/* All names the design knows; those that nothing reads yet are still not worth a warning. */
static const struct cli_variable variables[] = {
    {"TUTTI_RANK", "0", "number of this rank"},
    {"TUTTI_SIZE", "1", "number of ranks"},
    {"TUTTI_LOCAL_RANK", "unknown", "number of this rank among those of its host"},
    {"TUTTI_RENDEZVOUS", "none", "host:port of rank 0, where ranks meet"},
    {"TUTTI_KEY_FILE", "none", "file with the job's key; needed beyond loopback"},
    {"TUTTI_INSECURE", "0", "1: go without a key beyond loopback"},
    {"TUTTI_IFACE", "by route", "network interfaces: prefixes (eth,ib), all but (^docker), exactly (=eth0), or a network (10.0.0.0/8)"},
    {"TUTTI_PORTS", "any", "ports to listen on, lo-hi"},
    {"TUTTI_TIMEOUT", "30s", "deadline of every wait"},
    {"TUTTI_TRANSPORT", "auto", "shm, tcp or mpi; auto: shared memory inside a host, TCP between hosts"},
    {"TUTTI_ALGO", "auto", "algorithm of all-reduce"},
    {"TUTTI_TOPO", "as found", "the network to plan on: a spec or a file"},
    {"TUTTI_REPRODUCIBLE", "0", "1: only algorithms that sum in rank order"},
    {"TUTTI_REPORT", "0", "1: rank 0 prints who was slow when a communicator closes"},
    {"TUTTI_VERIFY", "0", "1: every plan is proved before its first use"},
    {"TUTTI_DUMP", "none", "folder where rank 0 writes every schedule that runs, and the network"},
    {"TUTTI_MPI", "found", "openmpi or mpich: the MPI of transport mpi"},
    {"TUTTI_MPI_REPORT", "0", "1: the MPI shim prints at MPI_Finalize what it took and forwarded"},
    {"TUTTI_MPI_TAKE", "auto", "what the MPI shim takes: auto, all or none"},
    {"TUTTI_LIBRARY", "found", "the libtutti that the Python package loads"},
    {"TUTTI_TRACE", "none", "file for a trace; nothing writes one yet"},
    {"TUTTI_LOG", "none", "level of messages; nothing writes any yet"},
};
enum { VARIABLES = sizeof variables / sizeof variables[0] };

const struct cli_variable *cli_variables(size_t *ret_n)
{
    *ret_n = VARIABLES;
    return variables;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < VARIABLES; i++)
        if (!strcmp(variables[i].name, name))
            return true;
    return false;
}

bool cli_unknown_variable(size_t i, struct cli_unknown *ret)
{
    const char *names[VARIABLES];
    for (size_t k = 0; k < VARIABLES; k++)
        names[k] = variables[k].name;
    for (char **e = environ; *e; e++) {
        if (strncmp(*e, "TUTTI_", 6))
            continue;
        snprintf(ret->name, sizeof ret->name, "%.*s", (int)strcspn(*e, "="), *e);
        if (is_known(ret->name) || i-- > 0)
            continue;
        tutti_near_matches(ret->name, names, VARIABLES, ret->near, sizeof ret->near);
        return true;
    }
    return false;
}

void cli_check_environment(void)
{
    struct cli_unknown u;
    for (size_t i = 0; cli_unknown_variable(i, &u); i++)
        fprintf(stderr, "tutti: warning: unknown variable %s%s%s\n", u.name, *u.near ? "; " : "", u.near);
}

const char *cli_environment(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}
