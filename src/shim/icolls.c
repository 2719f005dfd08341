/* icolls.c - the non-blocking collectives, and the persistent all-reduce.
 *
 * A non-blocking call must not wait for other ranks, so it cannot open a communicator: a blocking
 * call (or the creation of a persistent one) must have come first. Non-blocking calls are not timed
 * either, because they end while their caller does something else. The verdict on the blocking form
 * (colls.c) applies; without one the call is taken. Both the opening and the verdict are equal on
 * all ranks. */
#include <limits.h>
#include <stdlib.h>

#include "shim/shim.h"

struct start {
    enum shim_call call, like; /* like: the blocking form */
    MPI_Comm comm;
    enum shim_why why;
    struct shim_comm *c;
    size_t bytes;
    struct tutti_request *request;
    struct shim_detour detour;
    /* reductions */
    struct shim_type type;
    tutti_redop op;
    size_t count; /* in elements of Tutti's type */
};

static struct start icolls_reduction(enum shim_call call, enum shim_call like, int count,
                                     MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct start s = {.call = call, .like = like, .comm = comm};
    if (!shim_reduction(type, op, &s.type, &s.op))
        s.why = SHIM_TYPE;
    else if (count < 0 || __builtin_mul_overflow((size_t)count, s.type.bytes, &s.bytes))
        s.why = SHIM_ARGUMENT;
    else
        s.count = (size_t)count * s.type.each;
    return s;
}

/* Why the call is forwarded, or SHIM_TAKEN. may_open: the call may wait for the others (persistent
 * ones may). */
static enum shim_why icolls_decide(struct start *s, bool may_open)
{
    if (!(s->c = shim_comm_of(s->comm)))
        return SHIM_ARGUMENT;
    if (s->c->never != SHIM_TAKEN)
        return s->c->never;
    if (s->bytes == 0 && s->call != SHIM_IBARRIER)
        return SHIM_NO_DATA;
    if (!s->c->tutti && !may_open)
        return SHIM_CLOSED;
    enum shim_why why = shim_comm_ready(s->c, s->comm);
    if (why != SHIM_TAKEN || s->c->take == SHIM_TAKE_ALL)
        return why;
    if (!s->c->one_host)
        return SHIM_APART;
    return s->c->trial[s->like][shim_size_class(s->bytes)].verdict < 0 ? SHIM_SLOWER : SHIM_TAKEN;
}

/* True: the call is taken, and icolls_launch must follow. */
static bool icolls_begin(struct start *s, bool may_open)
{
    if (s->why == SHIM_TAKEN)
        s->why = icolls_decide(s, may_open);
    shim_count(s->call, s->why, s->bytes);
    return s->why == SHIM_TAKEN;
}

static int out_of_memory(const struct start *s)
{
    return shim_no_memory(s->call, s->comm, s->c);
}

/* Frees what the call has made, and reports the error on this rank and through the communicator. */
static int give_up(struct start *s, int rc, MPI_Request *request)
{
    *request = MPI_REQUEST_NULL;
    shim_detour_end(&s->detour, false);
    tutti_request_free(s->request);
    return rc == MPI_ERR_NO_MEM ? out_of_memory(s)
                                : shim_failed(s->call, s->comm, tutti_comm_last_error(s->c->tutti));
}

/* `made` is the status of making s->request. On success, request and detour belong to
 * requests.c. */
static int icolls_launch(struct start *s, tutti_status made, MPI_Request *request)
{
    const struct shim_request r = {s->request, s->c, s->comm, s->call, s->detour};
    int rc = made ? MPI_ERR_OTHER : shim_request_start(&r, request);
    return rc == MPI_SUCCESS ? rc : give_up(s, rc, request);
}

/* ---- reductions ---- */

SHIM_API int MPI_Iallreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
                            MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    struct start s = icolls_reduction(SHIM_IALLREDUCE, SHIM_ALLREDUCE, count, type, op, comm);
    if (!icolls_begin(&s, false))
        return PMPI_Iallreduce(sendbuf, recvbuf, count, type, op, comm, request);
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    return icolls_launch(
        &s, tutti_allreduce_init(s.c->tutti, in, recvbuf, s.count, s.type.dtype, s.op, &s.request),
        request);
}

SHIM_API int MPI_Ireduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
                         MPI_Op op, int root, MPI_Comm comm, MPI_Request *request)
{
    struct start s = icolls_reduction(SHIM_IREDUCE, SHIM_REDUCE, count, type, op, comm);
    if (s.why == SHIM_TAKEN && !shim_is_root(root, comm))
        s.why = SHIM_ARGUMENT;
    if (!icolls_begin(&s, false))
        return PMPI_Ireduce(sendbuf, recvbuf, count, type, op, root, comm, request);
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    return icolls_launch(&s,
                         tutti_reduce_init(s.c->tutti, in, recvbuf, s.count, s.type.dtype, s.op,
                                           (uint32_t)root, &s.request),
                         request);
}

/* In place the result goes through a detour, since it belongs at the beginning of the input. */
static int icolls_scatter(struct start *s, const void *sendbuf, void *recvbuf, MPI_Request *request)
{
    void *out = recvbuf;
    if (sendbuf == MPI_IN_PLACE) {
        if (!shim_detour_front(&s->detour, recvbuf, s->count / s->type.each * s->type.bytes))
            return out_of_memory(s);
        sendbuf = recvbuf;
        out = s->detour.result;
    }
    return icolls_launch(s,
                         tutti_reduce_scatter_init(s->c->tutti, sendbuf, out, s->count,
                                                   s->type.dtype, s->op, &s->request),
                         request);
}

SHIM_API int MPI_Ireduce_scatter_block(const void *sendbuf, void *recvbuf, int count,
                                       MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                                       MPI_Request *request)
{
    struct start s = icolls_reduction(SHIM_IREDUCE_SCATTER_BLOCK, SHIM_REDUCE_SCATTER_BLOCK, count,
                                      type, op, comm);
    if (!icolls_begin(&s, false))
        return PMPI_Ireduce_scatter_block(sendbuf, recvbuf, count, type, op, comm, request);
    return icolls_scatter(&s, sendbuf, recvbuf, request);
}

/* Tutti's requests have blocks of equal length only. The counts are equal on all ranks, so all
 * decide alike. */
static bool is_even(const int *counts, MPI_Comm comm)
{
    int size = 0;
    if (comm == MPI_COMM_NULL || PMPI_Comm_size(comm, &size) != MPI_SUCCESS)
        return false;
    for (int r = 1; r < size; r++)
        if (counts[r] != counts[0])
            return false;
    return true;
}

/* The blocking form counts the bytes of all blocks, and its verdicts are filed under that size. */
static void count_all_blocks(struct start *s)
{
    int size = 0;
    if (PMPI_Comm_size(s->comm, &size) != MPI_SUCCESS ||
        __builtin_mul_overflow(s->bytes, (size_t)size, &s->bytes))
        s->why = SHIM_ARGUMENT;
}

SHIM_API int MPI_Ireduce_scatter(const void *sendbuf, void *recvbuf, const int counts[],
                                 MPI_Datatype type, MPI_Op op, MPI_Comm comm, MPI_Request *request)
{
    bool even = is_even(counts, comm);
    struct start s = icolls_reduction(SHIM_IREDUCE_SCATTER, SHIM_REDUCE_SCATTER,
                                      even ? counts[0] : 0, type, op, comm);
    if (s.why == SHIM_TAKEN && !even)
        s.why = SHIM_UNEVEN;
    if (s.why == SHIM_TAKEN)
        count_all_blocks(&s);
    if (!icolls_begin(&s, false))
        return PMPI_Ireduce_scatter(sendbuf, recvbuf, counts, type, op, comm, request);
    return icolls_scatter(&s, sendbuf, recvbuf, request);
}

/* ---- bytes ---- */

SHIM_API int MPI_Ibcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm,
                        MPI_Request *request)
{
    struct start s = {.call = SHIM_IBCAST, .like = SHIM_BCAST, .comm = comm};
    struct shim_side side = {buf, count, type};
    void *data = buf;
    if (!shim_bytes(count, type, &s.bytes) || s.bytes > INT_MAX || !shim_is_root(root, comm))
        s.why = SHIM_ARGUMENT;
    if (!icolls_begin(&s, false))
        return PMPI_Ibcast(buf, count, type, root, comm, request);
    if (!shim_is_plain(type)) {
        if (!shim_detour_broadcast(&s.detour, &side, s.bytes, s.c->rank == root))
            return out_of_memory(&s);
        data = s.detour.result;
    }
    return icolls_launch(
        &s,
        tutti_broadcast_init(s.c->tutti, data, data, s.bytes, TUTTI_U8, (uint32_t)root, &s.request),
        request);
}

SHIM_API int MPI_Iallgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype,
                            void *recvbuf, int recvcount, MPI_Datatype recvtype, MPI_Comm comm,
                            MPI_Request *request)
{
    struct start s = {.call = SHIM_IALLGATHER, .like = SHIM_ALLGATHER, .comm = comm};
    if (!shim_bytes(recvcount, recvtype, &s.bytes) || s.bytes > INT_MAX)
        s.why = SHIM_ARGUMENT;
    if (!icolls_begin(&s, false))
        return PMPI_Iallgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm,
                               request);
    struct shim_side to = {recvbuf, recvcount, recvtype},
                     from = {(void *)(uintptr_t)sendbuf, sendcount, sendtype};
    if (sendbuf == MPI_IN_PLACE)
        from = shim_own_block(&to, s.c->rank);
    const void *in = from.buf;
    void *out = recvbuf;
    if (!shim_is_plain(from.type) || !shim_is_plain(recvtype)) {
        if (!shim_detour_gather(&s.detour, &from, &to, s.bytes, s.c->size))
            return out_of_memory(&s);
        in = s.detour.memory;
        out = s.detour.result;
    }
    return icolls_launch(
        &s, tutti_all_gather_init(s.c->tutti, in, out, s.bytes, TUTTI_U8, &s.request), request);
}

SHIM_API int MPI_Ibarrier(MPI_Comm comm, MPI_Request *request)
{
    struct start s = {.call = SHIM_IBARRIER, .like = SHIM_BARRIER, .comm = comm};
    if (!icolls_begin(&s, false))
        return PMPI_Ibarrier(comm, request);
    return icolls_launch(&s, tutti_barrier_init(s.c->tutti, &s.request), request);
}

/* ---- persistent: Open MPI 4 has it as an extension, MPICH 4 as the standard's ---- */
#if MPI_VERSION >= 4
#define ALLREDUCE_INIT  MPI_Allreduce_init
#define PALLREDUCE_INIT PMPI_Allreduce_init
#else
#define ALLREDUCE_INIT  MPIX_Allreduce_init
#define PALLREDUCE_INIT PMPIX_Allreduce_init
int PMPIX_Allreduce_init(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
                         MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request);
int MPIX_Allreduce_init(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm, MPI_Info info, MPI_Request *request);
#endif

SHIM_API int ALLREDUCE_INIT(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
                            MPI_Op op, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    struct start s = icolls_reduction(SHIM_ALLREDUCE_INIT, SHIM_ALLREDUCE, count, type, op, comm);
    if (!icolls_begin(&s, true))
        return PALLREDUCE_INIT(sendbuf, recvbuf, count, type, op, comm, info, request);
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    /* Only the request is made here; MPI_Start starts it (requests.c). */
    tutti_status st =
        tutti_allreduce_init(s.c->tutti, in, recvbuf, s.count, s.type.dtype, s.op, &s.request);
    int rc = st ? MPI_ERR_OTHER
                : shim_request_keep(&(struct shim_request){s.request, s.c, comm, s.call, s.detour},
                                    request);
    return rc == MPI_SUCCESS ? rc : give_up(&s, rc, request);
}
