/* variables.c - the environment variables of Tutti: one table from which warnings, doctor and
 * the documents are made. A variable that any part reads must be listed here, or the library
 * warns about it. */
#include "base/variables.h"

#include <string.h>

extern char **environ;

static const struct tt_variable variables[] = {
    {"TUTTI_RANK", "0", "number of this rank"},
    {"TUTTI_SIZE", "1", "number of ranks"},
    {"TUTTI_LOCAL_RANK", "unknown", "number of this rank among those of its host"},
    {"TUTTI_RENDEZVOUS", "none", "host:port of rank 0, where ranks meet"},
    {"TUTTI_JOIN", "none",
     "host:port[,..] of members of a job that runs: this process joins it (tutti_comm_admit)"},
    {"TUTTI_MAX_RANKS", "4096",
     "newcomers beyond so many ranks are not admitted; tutti run sets it"},
    {"TUTTI_KEY_FILE", "none", "file with the job's key; needed beyond loopback"},
    {"TUTTI_VERDICT", "none",
     "file to which a rank appends who is to blame when a job fails; tutti run sets it"},
    {"TUTTI_INSECURE", "0", "1: go without a key beyond loopback"},
    {"TUTTI_ENCRYPT", "0",
     "1: all bytes on sockets are encrypted and authenticated; needs a key beyond one host"},
    {"TUTTI_CHECKSUM", "between hosts",
     "1: payloads on all sockets carry a checksum, 0: on none; encryption needs none"},
    {"TUTTI_IFACE", "by route",
     "network interfaces: prefixes (eth,ib), all but (^docker), exactly (=eth0), or a network "
     "(10.0.0.0/8)"},
    {"TUTTI_PORTS", "any", "ports to listen on, lo-hi"},
    {"TUTTI_TIMEOUT", "30s", "deadline of every wait"},
    {"TUTTI_TRANSPORT", "auto",
     "shm, tcp or mpi; auto: shared memory inside a host, TCP between hosts"},
    {"TUTTI_ALGO", "auto", "algorithm of all-reduce"},
    {"TUTTI_TOPO", "as found", "the network to plan on: a spec or a file"},
    {"TUTTI_REPRODUCIBLE", "0", "1: only algorithms that sum in rank order"},
    {"TUTTI_REPORT", "0", "1: rank 0 prints who was slow when a communicator closes"},
    {"TUTTI_VERIFY", "0", "1: every plan is proved before its first use"},
    {"TUTTI_PLAN", "none", "plan files that rank 0 reads, a.json:b.json: run where they fit"},
    {"TUTTI_TUNING", "none", "tuning file: rules that fix algorithms"},
    {"TUTTI_DUMP", "none", "folder where rank 0 writes every schedule that runs, and the network"},
    {"TUTTI_TRACE", "none",
     "file of what every rank did, written when the job ends; tutti view and Perfetto read it"},
    {"TUTTI_TOP", "0", "1: count calls, bytes and waiting in shared memory, for tutti top"},
    {"TUTTI_MPI", "found", "openmpi or mpich: the MPI of transport mpi"},
    {"TUTTI_MPI_REPORT", "0", "1: the MPI shim prints at MPI_Finalize what it took and forwarded"},
    {"TUTTI_MPI_TAKE", "auto", "what the MPI shim takes: auto, all or none"},
    {"TUTTI_LIBRARY", "found", "the libtutti that the Python package loads"},
    {"TUTTI_PYTHON", "found", "the interpreter of make demo, make check and bench/torch_*"},
    {"TUTTI_LOG", "warn", "messages of the library: none, error, warn, info or debug"},
    {"TUTTI_LOG_FILE", "standard error",
     "file for them; %r is the rank, %h the host, %p the process"},
};

const struct tt_variable *tt_variables(size_t *ret_n)
{
    *ret_n = countof(variables);
    return variables;
}

static bool is_known(const char *name)
{
    for (size_t i = 0; i < countof(variables); i++)
        if (tt_streq(variables[i].name, name))
            return true;
    return false;
}

/* Goes through the environment again for each i: nothing is remembered between calls. */
bool tt_variable_unknown(size_t i, struct tt_unknown_variable *ret)
{
    const char *names[countof(variables)];
    for (size_t k = 0; k < countof(variables); k++)
        names[k] = variables[k].name;
    for (char **e = environ; e && *e; e++) {
        if (strncmp(*e, "TUTTI_", 6) != 0)
            continue;
        snprintf(ret->name, sizeof ret->name, "%.*s", (int)strcspn(*e, "="), *e);
        /* i counts down over the unknown variables; the known ones are skipped without counting. */
        if (is_known(ret->name) || i-- > 0)
            continue;
        tt_near_matches(ret->name, names, countof(variables), ret->near, sizeof ret->near);
        return true;
    }
    return false;
}
