/* env.c - the options of a communicator from the environment (variables: base/variables.c). */
#include <stdlib.h>

#include "comm/comm_int.h"

static const char *variable(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}

/* Reads a variable that must be 0 or 1; unset: 0. */
static tutti_status flag(const char *name, bool *ret, struct tutti_error *err)
{
    const char *v = variable(name);
    if (v && !tt_streq(v, "0") && !tt_streq(v, "1"))
        return tt_fail(err, TUTTI_ERR_ARG, "%s is '%.40s': 0 or 1 is expected", name, v);
    *ret = v && tt_streq(v, "1");
    return TUTTI_OK;
}

/* If set, 0 or 1 overrides the default (between hosts only). */
static tutti_status read_checksum(int *ret, struct tutti_error *err)
{
    bool on;
    tutti_status st = flag("TUTTI_CHECKSUM", &on, err);
    if (!st && variable("TUTTI_CHECKSUM"))
        *ret = on ? 1 : -1;
    return st;
}

/* launched: look for a launcher's variables. With MPI as transport, MPI gives rank and size. */
static tutti_status from_env(bool launched, struct tt_comm_config *ret, struct tutti_error *err)
{
    struct tt_comm_config c = {.transport = variable("TUTTI_TRANSPORT"),
                               .topo = variable("TUTTI_TOPO"),
                               .algo = variable("TUTTI_ALGO"),
                               .dump = variable("TUTTI_DUMP"),
                               .trace = variable("TUTTI_TRACE"),
                               .plan = variable("TUTTI_PLAN"),
                               .tuning = variable("TUTTI_TUNING")};
    tutti_status st = flag("TUTTI_REPRODUCIBLE", &c.reproducible, err);
    if (!st)
        st = flag("TUTTI_VERIFY", &c.verify, err);
    if (!st)
        st = flag("TUTTI_REPORT", &c.report, err);
    if (!st)
        st = flag("TUTTI_TOP", &c.top, err);
    if (!st)
        st = read_checksum(&c.checksum, err);
    if (!st)
        st = launched ? tt_boot_from_env(&c.boot, NULL, err)
                      : tt_boot_options_from_env(&c.boot, err);
    if (!st)
        st = flag("TUTTI_ENCRYPT", &c.boot.encrypt, err);
    if (st)
        return st;
    c.timeout_ns = c.boot.timeout_ns;
    *ret = c;
    return TUTTI_OK;
}

tutti_status tt_comm_from_env(struct tt_comm_config *ret, struct tutti_error *err)
{
    const char *transport = variable("TUTTI_TRANSPORT");
    return from_env(!transport || !tt_streq(transport, "mpi"), ret, err);
}

tutti_status tt_comm_options_from_env(struct tt_comm_config *ret, struct tutti_error *err)
{
    return from_env(false, ret, err);
}
