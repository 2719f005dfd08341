/* coll.c - the public collectives, blocking (tutti_x) and persistent (tutti_x_init).
 *
 * Each function only describes its call as a struct tt_call; the communicator checks it, plans it
 * and runs it. Missing fields of the description are zero: no counts, no root, no reduction. Bad
 * arguments are reported through tutti_comm_last_error, since these functions have no `err`.
 *
 *     n ranks, count c    reads      writes            in place
 *     allreduce           c          c                 in == out
 *     reduce_scatter      n * c      c                 out is the rank's block of in
 *     all_gather          c          n * c             in is the rank's block of out
 *     broadcast           c (root)   c                 in == out
 *     reduce              c          c (root)          in == out
 *     gather              c          n * c (root)      root: in is its block of out
 *     scatter             n*c (root) c                 root: out is its block of in
 *     all_to_all          n * c      n * c             no
 *     barrier             -          -                 - */
#include "api/api.h"

#include <stdlib.h>

#include "comm/comm.h"

/* Replaces a reduction of the caller's own by what the engine needs: the function in `user`, and
 * a built-in one in `redop`, which is not used then. Returns `call` itself for built-in ones. */
static const struct tt_call *coll_resolve(const struct tt_call *call, struct tt_call *own)
{
    const struct tt_userop *user =
        (unsigned)call->redop < TUTTI_REDOP_COUNT ? NULL : tt_api_userop(call->redop);
    if (!user)
        return call;
    *own = *call;
    own->redop = TUTTI_SUM;
    own->user = user;
    return own;
}

/* The call of a collective without root and reduction. */
static struct tt_call coll_call(tutti_coll coll, const void *in, void *out, size_t count,
                                tutti_dtype dtype)
{
    return (struct tt_call){.coll = coll, .in = in, .out = out, .count = count, .dtype = dtype};
}

/* A blocking call. `function` is the public name for messages. */
TT_HOT static tutti_status coll_run(const char *function, struct tutti_comm *comm,
                                    const struct tt_call *call)
{
    struct tt_call own;
    struct tt_comm *c = tt_api_found(API_COMM, comm, function, NULL);
    return c ? tt_comm_run(c, coll_resolve(call, &own)) : TUTTI_ERR_ARG;
}

/* The same for calls that need counts: NULL is refused here, because without counts the engine
 * would take it for the other form of the call. */
static tutti_status coll_run_v(const char *function, struct tutti_comm *comm,
                               const struct tt_call *call)
{
    tutti_status st = tt_api_comm_given(function, comm, "counts", call->counts, NULL);
    return st ? st : coll_run(function, comm, call);
}

/* A persistent call: makes the request and its handle. *ret is set only on success. */
static tutti_status coll_make(const char *function, struct tutti_comm *comm,
                              const struct tt_call *call, struct tutti_request **ret)
{
    struct tt_request *r = NULL;
    struct tt_call own;
    tutti_status st = tt_api_comm_given(function, comm, "ret", ret, NULL);
    if (!st)
        st = tt_comm_request_make(tt_api_found(API_COMM, comm, function, NULL),
                                  coll_resolve(call, &own), &r);
    return st ? st : tt_api_request_wrap(function, r, comm, ret);
}

static tutti_status coll_make_v(const char *function, struct tutti_comm *comm,
                                const struct tt_call *call, struct tutti_request **ret)
{
    tutti_status st = tt_api_comm_given(function, comm, "counts", call->counts, NULL);
    return st ? st : coll_make(function, comm, call, ret);
}

TT_HOT tutti_status tutti_allreduce(struct tutti_comm *comm, const void *in, void *out,
                                    size_t count, tutti_dtype dtype, tutti_redop op)
{
    struct tt_call call = coll_call(TUTTI_ALLREDUCE, in, out, count, dtype);
    call.redop = op;
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_allreduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                  tutti_dtype dtype, tutti_redop op, struct tutti_request **ret)
{
    struct tt_call call = coll_call(TUTTI_ALLREDUCE, in, out, count, dtype);
    call.redop = op;
    return coll_make(__func__, comm, &call, ret);
}

TT_HOT tutti_status tutti_reduce_scatter(struct tutti_comm *comm, const void *in, void *out,
                                         size_t count, tutti_dtype dtype, tutti_redop op)
{
    struct tt_call call = coll_call(TUTTI_REDUCE_SCATTER, in, out, count, dtype);
    call.redop = op;
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_reduce_scatter_init(struct tutti_comm *comm, const void *in, void *out,
                                       size_t count, tutti_dtype dtype, tutti_redop op,
                                       struct tutti_request **ret)
{
    struct tt_call call = coll_call(TUTTI_REDUCE_SCATTER, in, out, count, dtype);
    call.redop = op;
    return coll_make(__func__, comm, &call, ret);
}

TT_HOT tutti_status tutti_all_gather(struct tutti_comm *comm, const void *in, void *out,
                                     size_t count, tutti_dtype dtype)
{
    const struct tt_call call = coll_call(TUTTI_ALL_GATHER, in, out, count, dtype);
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_all_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                   tutti_dtype dtype, struct tutti_request **ret)
{
    const struct tt_call call = coll_call(TUTTI_ALL_GATHER, in, out, count, dtype);
    return coll_make(__func__, comm, &call, ret);
}

TT_HOT tutti_status tutti_broadcast(struct tutti_comm *comm, const void *in, void *out,
                                    size_t count, tutti_dtype dtype, uint32_t root)
{
    struct tt_call call = coll_call(TUTTI_BROADCAST, in, out, count, dtype);
    call.root = root;
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_broadcast_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                  tutti_dtype dtype, uint32_t root, struct tutti_request **ret)
{
    struct tt_call call = coll_call(TUTTI_BROADCAST, in, out, count, dtype);
    call.root = root;
    return coll_make(__func__, comm, &call, ret);
}

TT_HOT tutti_status tutti_reduce(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                 tutti_dtype dtype, tutti_redop op, uint32_t root)
{
    struct tt_call call = coll_call(TUTTI_REDUCE, in, out, count, dtype);
    call.redop = op;
    call.root = root;
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_reduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                               tutti_dtype dtype, tutti_redop op, uint32_t root,
                               struct tutti_request **ret)
{
    struct tt_call call = coll_call(TUTTI_REDUCE, in, out, count, dtype);
    call.redop = op;
    call.root = root;
    return coll_make(__func__, comm, &call, ret);
}

tutti_status tutti_gather(struct tutti_comm *comm, const void *in, void *out, size_t count,
                          tutti_dtype dtype, uint32_t root)
{
    struct tt_call call = coll_call(TUTTI_GATHER, in, out, count, dtype);
    call.root = root;
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                               tutti_dtype dtype, uint32_t root, struct tutti_request **ret)
{
    struct tt_call call = coll_call(TUTTI_GATHER, in, out, count, dtype);
    call.root = root;
    return coll_make(__func__, comm, &call, ret);
}

tutti_status tutti_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count,
                           tutti_dtype dtype, uint32_t root)
{
    struct tt_call call = coll_call(TUTTI_SCATTER, in, out, count, dtype);
    call.root = root;
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_scatter_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                tutti_dtype dtype, uint32_t root, struct tutti_request **ret)
{
    struct tt_call call = coll_call(TUTTI_SCATTER, in, out, count, dtype);
    call.root = root;
    return coll_make(__func__, comm, &call, ret);
}

tutti_status tutti_all_to_all(struct tutti_comm *comm, const void *in, void *out, size_t count,
                              tutti_dtype dtype)
{
    const struct tt_call call = coll_call(TUTTI_ALL_TO_ALL, in, out, count, dtype);
    return coll_run(__func__, comm, &call);
}

tutti_status tutti_all_to_all_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                   tutti_dtype dtype, struct tutti_request **ret)
{
    const struct tt_call call = coll_call(TUTTI_ALL_TO_ALL, in, out, count, dtype);
    return coll_make(__func__, comm, &call, ret);
}

TT_HOT tutti_status tutti_barrier(struct tutti_comm *comm)
{
    return coll_run(__func__, comm, &(struct tt_call){.coll = TUTTI_BARRIER});
}

tutti_status tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **ret)
{
    return coll_make(__func__, comm, &(struct tt_call){.coll = TUTTI_BARRIER}, ret);
}

tutti_status tutti_reduce_scatter_v(struct tutti_comm *comm, const void *in, void *out,
                                    const size_t *counts, tutti_dtype dtype, tutti_redop op)
{
    return coll_run_v(__func__, comm,
                      &(struct tt_call){.coll = TUTTI_REDUCE_SCATTER,
                                        .in = in,
                                        .out = out,
                                        .counts = counts,
                                        .dtype = dtype,
                                        .redop = op});
}

tutti_status tutti_all_gather_v(struct tutti_comm *comm, const void *in, void *out,
                                const size_t *counts, tutti_dtype dtype)
{
    return coll_run_v(
        __func__, comm,
        &(struct tt_call){
            .coll = TUTTI_ALL_GATHER, .in = in, .out = out, .counts = counts, .dtype = dtype});
}

tutti_status tutti_reduce_scatter_v_init(struct tutti_comm *comm, const void *in, void *out,
                                         const size_t *counts, tutti_dtype dtype, tutti_redop op,
                                         struct tutti_request **ret)
{
    return coll_make_v(__func__, comm,
                       &(struct tt_call){.coll = TUTTI_REDUCE_SCATTER,
                                         .in = in,
                                         .out = out,
                                         .counts = counts,
                                         .dtype = dtype,
                                         .redop = op},
                       ret);
}

tutti_status tutti_all_gather_v_init(struct tutti_comm *comm, const void *in, void *out,
                                     const size_t *counts, tutti_dtype dtype,
                                     struct tutti_request **ret)
{
    return coll_make_v(
        __func__, comm,
        &(struct tt_call){
            .coll = TUTTI_ALL_GATHER, .in = in, .out = out, .counts = counts, .dtype = dtype},
        ret);
}

/* ---- blocks of any length ---- */

/* The displacements: those given, or, when NULL, block behind block, written to room[n]. */
static const size_t *coll_packed(const size_t *counts, const size_t *displs, size_t n, size_t *room)
{
    size_t at = 0;
    for (size_t i = 0; !displs && i < n; i++) {
        room[i] = at;
        /* If this overflows, all blocks together are too large anyway, which the engine refuses */
        at += counts[i];
    }
    return displs ? displs : room;
}

/* Runs the call (ret NULL) or makes a request of it. Missing displacements are computed into
 * `room`, which is freed again: a request copies its blocks. */
static tutti_status coll_exchange(const char *function, struct tutti_comm *comm,
                                  struct tt_call *call, const struct tt_blocks *given,
                                  struct tutti_request **ret)
{
    tutti_status st = tt_api_comm_given(function, comm, "send_counts", given->send_counts,
                                        "recv_counts", given->recv_counts, NULL);
    if (st)
        return st;
    struct tt_comm *c = tt_api_found(API_COMM, comm, function, NULL);
    size_t n = tt_comm_size(c),
           *room = given->send_at && given->recv_at ? NULL : tt_alloc(2 * n, sizeof *room);
    if (!room && (!given->send_at || !given->recv_at))
        return tt_api_comm_refused(
            c, tt_api_bad(function, NULL, TUTTI_ERR_MEMORY, "out of memory (displacements)"));
    struct tt_blocks blocks = {
        .send_counts = given->send_counts,
        .send_at = coll_packed(given->send_counts, given->send_at, n, room),
        .recv_counts = given->recv_counts,
        .recv_at = coll_packed(given->recv_counts, given->recv_at, n, room ? room + n : NULL)};
    call->blocks = &blocks;
    st = ret ? coll_make(function, comm, call, ret) : coll_run(function, comm, call);
    free(room);
    return st;
}

tutti_status tutti_all_to_all_v(struct tutti_comm *comm, const void *in, const size_t *send_counts,
                                const size_t *send_displs, void *out, const size_t *recv_counts,
                                const size_t *recv_displs, tutti_dtype dtype)
{
    const struct tt_blocks blocks = {send_counts, send_displs, recv_counts, recv_displs};
    struct tt_call call = {.coll = TUTTI_ALL_TO_ALL, .in = in, .out = out, .dtype = dtype};
    return coll_exchange(__func__, comm, &call, &blocks, NULL);
}

tutti_status tutti_all_to_all_v_init(struct tutti_comm *comm, const void *in,
                                     const size_t *send_counts, const size_t *send_displs,
                                     void *out, const size_t *recv_counts,
                                     const size_t *recv_displs, tutti_dtype dtype,
                                     struct tutti_request **ret)
{
    const struct tt_blocks blocks = {send_counts, send_displs, recv_counts, recv_displs};
    struct tt_call call = {.coll = TUTTI_ALL_TO_ALL, .in = in, .out = out, .dtype = dtype};
    tutti_status st = tt_api_comm_given(__func__, comm, "ret", ret, NULL);
    return st ? st : coll_exchange(__func__, comm, &call, &blocks, ret);
}
