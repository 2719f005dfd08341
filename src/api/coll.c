/* Public collectives, blocking and persistent: each says what it is in a tt_call. */
#include "api/api.h"

#include "comm/comm.h"

static tutti_status run(struct tutti_comm *comm, const struct tt_call *call)
{
    return tt_comm_run((struct tt_comm *)comm, call);
}

static tutti_status make(struct tutti_comm *comm, const struct tt_call *call, struct tutti_request **ret)
{
    struct tt_request *r = NULL;
    tutti_status st = tt_request_make((struct tt_comm *)comm, call, &r);
    if (!st)
        *ret = (struct tutti_request *)r;
    return st;
}

tutti_status tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .redop = op});
}

tutti_status tutti_allreduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                                  struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .redop = op}, ret);
}

tutti_status tutti_reduce_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_REDUCE_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .redop = op});
}

tutti_status tutti_reduce_scatter_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                                       struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_REDUCE_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .redop = op},
                ret);
}

tutti_status tutti_all_gather(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_ALL_GATHER, .in = in, .out = out, .count = count, .dtype = dtype});
}

tutti_status tutti_all_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype,
                                   struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_ALL_GATHER, .in = in, .out = out, .count = count, .dtype = dtype}, ret);
}

tutti_status tutti_broadcast(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_BROADCAST, .in = in, .out = out, .count = count, .dtype = dtype, .root = root});
}

tutti_status tutti_broadcast_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root,
                                  struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_BROADCAST, .in = in, .out = out, .count = count, .dtype = dtype, .root = root}, ret);
}

tutti_status tutti_reduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                          uint32_t root)
{
    return run(comm,
               &(struct tt_call){.coll = TUTTI_REDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .redop = op, .root = root});
}

tutti_status tutti_reduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                               uint32_t root, struct tutti_request **ret)
{
    return make(comm,
                &(struct tt_call){.coll = TUTTI_REDUCE, .in = in, .out = out, .count = count, .dtype = dtype, .redop = op, .root = root},
                ret);
}

tutti_status tutti_gather(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_GATHER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root});
}

tutti_status tutti_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root,
                               struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_GATHER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root}, ret);
}

tutti_status tutti_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root});
}

tutti_status tutti_scatter_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root,
                                struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_SCATTER, .in = in, .out = out, .count = count, .dtype = dtype, .root = root}, ret);
}

tutti_status tutti_all_to_all(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_ALL_TO_ALL, .in = in, .out = out, .count = count, .dtype = dtype});
}

tutti_status tutti_all_to_all_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype,
                                   struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_ALL_TO_ALL, .in = in, .out = out, .count = count, .dtype = dtype}, ret);
}

tutti_status tutti_barrier(struct tutti_comm *comm)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_BARRIER});
}

tutti_status tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **ret)
{
    return make(comm, &(struct tt_call){.coll = TUTTI_BARRIER}, ret);
}

tutti_status tutti_reduce_scatter_v(struct tutti_comm *comm, const void *in, void *out, const size_t *counts, tutti_dtype dtype,
                                    tutti_redop op)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_REDUCE_SCATTER, .in = in, .out = out, .counts = counts, .dtype = dtype, .redop = op});
}

tutti_status tutti_all_gather_v(struct tutti_comm *comm, const void *in, void *out, const size_t *counts, tutti_dtype dtype)
{
    return run(comm, &(struct tt_call){.coll = TUTTI_ALL_GATHER, .in = in, .out = out, .counts = counts, .dtype = dtype});
}
