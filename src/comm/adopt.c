/* adopt.c - ranks that something else has brought together: MPI, or a caller that knows them (the
 * MPI shim).
 *
 * Only rank, size and rendezvous come from there. The ranks then meet as always, so that the watch
 * has its control connections and can name the rank that died, whatever transport carries the
 * data. */
#include "comm/comm_int.h"

/* "shm" and the default use shared memory inside a host; these two do not. */
bool tt_comm_apart(const struct tt_comm_config *c)
{
    return c->transport && (tt_streq(c->transport, "tcp") || tt_streq(c->transport, "mpi"));
}

bool tt_comm_shares(const struct tt_comm_config *c)
{
    return c->transport && tt_streq(c->transport, "shm");
}

const char *tt_comm_transport_name(const char *transport)
{
    static const char *const names[] = {"shm", "tcp", "mpi"};
    for (size_t i = 0; transport && i < countof(names); i++)
        if (tt_streq(transport, names[i]))
            return names[i];
    return NULL;
}

static tutti_status adopt_gather(void *ctx, const void *mine, size_t bytes, void *ret_all,
                                 struct tutti_error *err)
{
    struct tt_mpi *m = ctx;
    return m->ops->gather(m, mine, bytes, ret_all, err);
}

/* A parent has precedence. *ret_mpi is set only if this process has joined MPI here. */
tutti_status tt_comm_adopt(struct tt_comm_config *c, struct tt_mpi **ret_mpi,
                           struct tutti_error *err)
{
    struct tt_mpi *m = NULL;
    bool mpi = c->transport && tt_streq(c->transport, "mpi");
    if (mpi && c->parent)
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "transport mpi is for whole jobs: ranks that were given by a caller use shm and tcp");
    if (c->parent)
        return tt_boot_adopt(&c->boot, c->parent, err);
    if (!mpi)
        return TUTTI_OK;
    tutti_status st = tt_mpi_join(&m, err);
    if (st)
        return st;
    struct tutti_error strayed;
    if (m->size == 1 && tt_boot_strayed(&strayed))
        tt_log_write(TT_LOG_WARN, 0, "transport mpi: %s", strayed.text);
    struct tt_boot_parent parent = {.rank = m->rank,
                                    .size = m->size,
                                    .local_rank = m->local_rank,
                                    .gather = adopt_gather,
                                    .ctx = m};
    st = tt_boot_adopt(&c->boot, &parent, err);
    if (!st)
        *ret_mpi = m;
    return st;
}
