/* env.c - rank, size and rendezvous from the variables of the launcher.
 *
 * There is one table of launchers, most specific first: torchrun inside a Slurm job is torchrun.
 * The first launcher whose rank and size are both set wins. If none is complete, an incomplete set
 * is an error; it is not taken for a single rank. Our own variables are never ignored: half of them
 * is always an error. The rendezvous is TUTTI_RENDEZVOUS, else torch's MASTER_ADDR with the port
 * after MASTER_PORT (place_master), else what can be derived: MPI launchers on one host (all ranks
 * are local) meet on loopback, Slurm on its first node, at a port computed from the job. */
#include "boot/boot_int.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Derived ports lie below KERNEL_PORT, from which on kernels give them to outgoing connections. */
enum { DERIVED_PORT = 20000, DERIVED_PORTS = 10000, KERNEL_PORT = 32768 };

/* The names of a launcher's variables, and how to find the rendezvous if no variable gives it. */
struct launcher {
    const char *name;
    const char *rank, *size, *local_rank, *local_size;
    tutti_status (*place)(const struct launcher *l, struct tt_boot_config *c,
                          struct tutti_error *err);
};

/* The value of a variable; NULL if it is unset or empty. */
static const char *var(const char *name)
{
    const char *v = name ? getenv(name) : NULL;

    return v && v[0] ? v : NULL;
}

static tutti_status env_number(const char *name, uint64_t min, uint64_t max, uint64_t *ret,
                               struct tutti_error *err)
{
    tutti_status st = tt_parse_u64(var(name), min, max, ret, err);

    if (st)
        tt_fail_prefix(err, "%s", name);
    return st;
}

static tutti_status set_place(struct tt_boot_config *c, const char *host, uint16_t port,
                              struct tutti_error *err)
{
    int n = snprintf(c->rendezvous, sizeof c->rendezvous, "%s:%u", host, port);

    if (n < 0 || (size_t)n >= sizeof c->rendezvous)
        return tt_fail(err, TUTTI_ERR_LIMIT, "host name %.40s... is too long", host);
    return TUTTI_OK;
}

/* The port itself belongs to torch's store; the next one is ours. torchrun may have let the kernel
 * choose: then the next one may be anybody's outgoing connection, and one with the same last four
 * digits is taken where there are none. */
static tutti_status place_master(const struct launcher *l, struct tt_boot_config *c,
                                 struct tutti_error *err)
{
    const char *host = var("MASTER_ADDR");
    uint64_t port;
    tutti_status st;

    if (!host || !var("MASTER_PORT"))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "%s: %s is not set (or set TUTTI_RENDEZVOUS to rank 0's host:port)", l->name,
                       host ? "MASTER_PORT" : "MASTER_ADDR");
    st = env_number("MASTER_PORT", 1, UINT16_MAX, &port, err);
    if (st)
        return st;
    port = port + 1 < KERNEL_PORT ? port + 1 : DERIVED_PORT + port % DERIVED_PORTS;
    return set_place(c, host, (uint16_t)port, err);
}

/* All ranks compute the same port from the same text; different jobs rarely collide. */
static uint16_t derived_port(uint64_t seed, const char *text)
{
    return (uint16_t)(DERIVED_PORT + tt_hash_bytes(seed, text, strlen(text)) % DERIVED_PORTS);
}

static tutti_status place_slurm(const struct launcher *l, struct tt_boot_config *c,
                                struct tutti_error *err);

/* mpirun does not say where rank 0 is; if all ranks are on this host that does not matter. Ranks of
 * one launch share its name space (PMIx) or their parent process, from which the port is computed.
 * srun with PMI-2 sets MPICH's variables except those about the host; Slurm's own variables tell
 * the place then. */
static tutti_status place_one_host(const struct launcher *l, struct tt_boot_config *c,
                                   struct tutti_error *err)
{
    const char *job = var("PMIX_NAMESPACE");
    uint64_t local = 0;
    char parent[32];
    tutti_status st;

    if (!var(l->local_size) && var("SLURM_PROCID"))
        return place_slurm(l, c, err);
    if (!var(l->local_size))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "%s does not say where rank 0 is (%s is not set): set TUTTI_RENDEZVOUS to "
                       "rank 0's host:port",
                       l->name, l->local_size);
    st = env_number(l->local_size, 1, TT_BOOT_SIZE_MAX, &local, err);
    if (st)
        return st;
    if (local != c->size)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "%s on several hosts does not say where rank 0 is: set TUTTI_RENDEZVOUS to "
                       "rank 0's host:port",
                       l->name);
    snprintf(parent, sizeof parent, "%ld", (long)getppid());
    return set_place(c, "127.0.0.1", derived_port(0, job ? job : parent), err);
}

/* Copies the text up to the first comma outside of brackets. Inside brackets only the first number
 * of the list is copied: "node[01-04,7],x" gives "node01". */
bool tt_boot_nodelist_first(const char *list, char *ret, size_t cap)
{
    size_t n = 0;
    bool inside = false, skip = false;

    for (const char *p = list; *p && (inside || *p != ','); p++) {
        if (*p == '[' || *p == ']') {
            if (inside == (*p == '['))
                return false;
            inside = *p == '[';
            skip = false;
            continue;
        }
        skip = skip || (inside && (*p == '-' || *p == ','));
        if (skip)
            continue;
        if (n + 1 >= cap)
            return false;
        ret[n++] = *p;
    }
    ret[n] = 0;
    return n > 0 && !inside;
}

/* The first node, with a port computed from job and step, so that two steps on one node differ. */
static tutti_status place_slurm(const struct launcher *l, struct tt_boot_config *c,
                                struct tutti_error *err)
{
    static const char *const lists[] = {"SLURM_STEP_NODELIST", "SLURM_NODELIST",
                                        "SLURM_JOB_NODELIST"};
    const char *list = NULL, *job = var("SLURM_JOB_ID"), *step = var("SLURM_STEP_ID");
    char host[TT_BOOT_HOST * 2];

    for (size_t i = 0; i < countof(lists) && !list; i++)
        list = var(lists[i]);
    if (!list)
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "%s: SLURM_NODELIST is not set (or set TUTTI_RENDEZVOUS to rank 0's host:port)",
            l->name);
    if (!tt_boot_nodelist_first(list, host, sizeof host))
        return tt_fail(err, TUTTI_ERR_PARSE, "%s: no host in node list %s", l->name, list);
    return set_place(
        c, host,
        derived_port(tt_hash_bytes(0, step ? step : "", step ? strlen(step) : 0), job ? job : ""),
        err);
}

static tutti_status place_ours(const struct launcher *l, struct tt_boot_config *c,
                               struct tutti_error *err)
{
    (void)l;
    return tt_fail(err, TUTTI_ERR_ARG,
                   "TUTTI_RENDEZVOUS is not set: %u ranks need rank 0's host:port", c->size);
}

/* Most specific first. */
static const struct launcher launchers[] = {
    {"tutti", "TUTTI_RANK", "TUTTI_SIZE", "TUTTI_LOCAL_RANK", NULL, place_ours},
    {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", NULL, place_master},
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", place_one_host},
    {"MPICH", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", place_one_host},
    {"Slurm", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", NULL, place_slurm},
};

/* The launcher that started us; *ret is NULL if there was none. */
static tutti_status find_launcher(const struct launcher **ret, struct tutti_error *err)
{
    const struct launcher *whole = NULL, *half = NULL;

    for (size_t i = 0; i < countof(launchers) && !whole; i++) {
        const struct launcher *l = &launchers[i];
        bool rank = var(l->rank), size = var(l->size);
        if (rank && size)
            whole = l;
        else if ((rank || size) && !half)
            half = l;
        /* Half of our own variables is an error even if another launcher's set is complete. */
        if (half == &launchers[0])
            break;
    }
    if (!whole && half)
        return tt_fail(err, TUTTI_ERR_ARG, "%s: %s is set but %s is not", half->name,
                       var(half->rank) ? half->rank : half->size,
                       var(half->rank) ? half->size : half->rank);
    if (!whole && (var("TUTTI_RENDEZVOUS") || var("TUTTI_LOCAL_RANK")))
        return tt_fail(err, TUTTI_ERR_ARG, "%s is set but TUTTI_RANK and TUTTI_SIZE are not",
                       var("TUTTI_RENDEZVOUS") ? "TUTTI_RENDEZVOUS" : "TUTTI_LOCAL_RANK");
    *ret = whole;
    return TUTTI_OK;
}

/* Rank 0 only, so that one of the stray processes prints the message. */
bool tt_boot_strayed(struct tutti_error *ret)
{
    for (size_t i = 0; i < countof(launchers); i++) {
        const struct launcher *l = &launchers[i];
        uint64_t rank, size;
        if (l->place != place_one_host || !var(l->rank) || !var(l->size) ||
            env_number(l->rank, 0, 0, &rank, NULL) ||
            env_number(l->size, 2, UINT32_MAX, &size, NULL))
            continue;
        tt_fail(ret, TUTTI_ERR_CONNECT,
                "MPI sees this process alone, but mpirun of %s started %" PRIu64
                ": these are jobs of one rank each. Start them with the mpirun of the MPI that "
                "they load",
                l->name, size);
        return true;
    }
    return false;
}

/* A single rank needs no rendezvous. */
static tutti_status read_place(const struct launcher *l, struct tt_boot_config *c,
                               struct tutti_error *err)
{
    const char *place = var("TUTTI_RENDEZVOUS");
    char host[TT_BOOT_HOST * 2];
    uint16_t port;
    tutti_status st = TUTTI_OK;

    if (c->size == 1)
        return TUTTI_OK;
    if (place && strlen(place) >= sizeof c->rendezvous)
        return tt_fail(err, TUTTI_ERR_LIMIT, "TUTTI_RENDEZVOUS is longer than %zu characters",
                       sizeof c->rendezvous - 1);
    if (place)
        snprintf(c->rendezvous, sizeof c->rendezvous, "%s", place);
    else if (l != &launchers[0] && var("MASTER_ADDR") && var("MASTER_PORT"))
        st = place_master(l, c, err);
    else
        st = l->place(l, c, err);
    return st ? st : tt_boot_rendezvous_parse(c->rendezvous, host, &port, err);
}

/* size first: it bounds the rank. */
static tutti_status read_ranks(const struct launcher *l, struct tt_boot_config *c,
                               struct tutti_error *err)
{
    uint64_t rank, size, local = 0;
    tutti_status st = env_number(l->size, 1, TT_BOOT_SIZE_MAX, &size, err);

    if (!st)
        st = env_number(l->rank, 0, size - 1, &rank, err);
    if (!st && var(l->local_rank))
        st = env_number(l->local_rank, 0, TT_BOOT_SIZE_MAX, &local, err);
    if (st)
        return st;
    c->rank = (uint32_t)rank;
    c->size = (uint32_t)size;
    c->local_rank = var(l->local_rank) ? (int)local : -1;
    return read_place(l, c, err);
}

/* "5000-5099" or "5000" */
static tutti_status read_ports(const char *text, struct tt_boot_config *c, struct tutti_error *err)
{
    const char *dash = strchr(text, '-');
    char lo[16] = "";
    uint64_t a, b;

    if (strlen(text) < sizeof lo)
        snprintf(lo, sizeof lo, "%.*s", (int)strcspn(text, "-"), text);
    if (tt_parse_u64(lo, 1, UINT16_MAX, &a, NULL) ||
        tt_parse_u64(dash ? dash + 1 : lo, a, UINT16_MAX, &b, NULL))
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "TUTTI_PORTS: \"%s\" is not a range of ports like 5000-5099", text);
    c->port_lo = (uint16_t)a;
    c->port_hi = (uint16_t)b;
    return TUTTI_OK;
}

static tutti_status read_timeout(const char *text, struct tt_boot_config *c,
                                 struct tutti_error *err)
{
    uint64_t ps;
    tutti_status st = tt_parse_time(text, &ps, err);

    if (!st && ps < 1000000000)
        st = tt_fail(err, TUTTI_ERR_RANGE, "%s is less than 1ms", text);
    if (st) {
        tt_fail_prefix(err, "TUTTI_TIMEOUT");
        return st;
    }
    c->timeout_ns = ps / 1000;
    return TUTTI_OK;
}

static tutti_status read_insecure(const char *text, struct tt_boot_config *c,
                                  struct tutti_error *err)
{
    if (!tt_streq(text, "0") && !tt_streq(text, "1"))
        return tt_fail(err, TUTTI_ERR_PARSE, "TUTTI_INSECURE: \"%s\" is neither 0 nor 1", text);
    c->insecure = text[0] == '1';
    return TUTTI_OK;
}

/* The key itself is read again when the job opens; here the file is only checked. */
tutti_status tt_boot_key(struct tt_boot_config *c, const char *path, struct tutti_error *err)
{
    uint8_t key[TT_BOOT_KEY];
    tutti_status st = tt_boot_key_load(path, key, err);

    sodium_memzero(key, sizeof key);
    c->key_file = path;
    return st;
}

/* Everything that does not depend on the launcher. */
static tutti_status read_options(struct tt_boot_config *c, struct tutti_error *err)
{
    const char *iface = var("TUTTI_IFACE"), *ports = var("TUTTI_PORTS"),
               *timeout = var("TUTTI_TIMEOUT"), *key = var("TUTTI_KEY_FILE");
    const char *insecure = var("TUTTI_INSECURE");
    tutti_status st = TUTTI_OK;

    if (iface && strlen(iface) >= sizeof c->iface)
        return tt_fail(err, TUTTI_ERR_LIMIT, "TUTTI_IFACE is longer than %zu characters",
                       sizeof c->iface - 1);
    if (iface)
        snprintf(c->iface, sizeof c->iface, "%s", iface);
    if (ports)
        st = read_ports(ports, c, err);
    if (!st && timeout)
        st = read_timeout(timeout, c, err);
    if (!st && insecure)
        st = read_insecure(insecure, c, err);
    if (!st && key)
        st = tt_boot_key(c, key, err);
    return st;
}

tutti_status tt_boot_from_env(struct tt_boot_config *ret, const char **ret_origin,
                              struct tutti_error *err)
{
    struct tt_boot_config c = {.size = 1, .local_rank = -1, .join = var("TUTTI_JOIN")};
    const struct launcher *l = NULL;
    tutti_status st = c.join ? TUTTI_OK : find_launcher(&l, err);

    if (!st && l)
        st = read_ranks(l, &c, err);
    if (!st)
        st = read_options(&c, err);
    if (st)
        return st;
    *ret = c;
    if (ret_origin)
        *ret_origin = c.join ? "TUTTI_JOIN" : l ? l->name : "none";
    return TUTTI_OK;
}

tutti_status tt_boot_options_from_env(struct tt_boot_config *ret, struct tutti_error *err)
{
    struct tt_boot_config c = {.size = 1, .local_rank = -1};
    tutti_status st = read_options(&c, err);

    if (!st)
        *ret = c;
    return st;
}
