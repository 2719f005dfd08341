/* colls.c - the blocking collectives.
 *
 * Where there is a choice, both libraries are tried on the program's own calls. Of each kind of
 * call and size (power of two) on a communicator, the first TRIALS calls alternate between Tutti
 * and MPI; then the ranks agree, by the slowest rank's best times, on who gets the rest. An
 * all-reduce inside a host goes to Tutti without a trial, so that its bits do not depend on timing;
 * TUTTI_REPRODUCIBLE=1 and TUTTI_MPI_TAKE=all extend that to everything.
 *
 * Every function here has the same shape:
 *
 *     colls_begin --true---> tutti_...  -> colls_done: count, learn, or report the failure
 *               '--false---> PMPI_...   -> leave: count with the reason, learn */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

/* FEW: up to so many ranks, counts are converted on the stack. */
enum { TRIALS = 8, FEW = 64 };

/* One call on its way through this file. why starts as SHIM_TAKEN (0); any other value is the
 * reason to forward the call. */
struct attempt {
    enum shim_call call;
    enum shim_why why;
    MPI_Comm comm;
    struct shim_comm *c;
    size_t bytes;
    unsigned class;
    bool on_trial;
    double t0;
    /* reductions */
    struct shim_type type;
    tutti_redop op;
};

/* Tutti, MPI, or MPI as the other half of a trial. All inputs are equal on all ranks: settings and
 * verdicts were agreed upon, and every rank has counted the same calls. */
static enum shim_why colls_choose(struct attempt *a)
{
    const struct shim_trial *t = &a->c->trial[a->call][a->class];
    if (a->c->take == SHIM_TAKE_ALL || (a->c->one_host && a->call == SHIM_ALLREDUCE))
        return SHIM_TAKEN;
    if (t->verdict)
        return t->verdict > 0 ? SHIM_TAKEN : SHIM_SLOWER;
    a->on_trial = true;
    a->t0 = shim_now_us();
    return t->calls % 2 ? SHIM_TRIAL : SHIM_TAKEN;
}

/* True: the call goes to Tutti. Either way, leave or colls_done must follow. */
static bool colls_begin(struct attempt *a)
{
    a->class = shim_size_class(a->bytes);
    if (a->why == SHIM_TAKEN) {
        a->c = shim_comm_of(a->comm);
        a->why = !a->c ? SHIM_ARGUMENT : a->c->never;
    }
    if (a->why == SHIM_TAKEN && a->bytes == 0 && a->call != SHIM_BARRIER)
        a->why = SHIM_NO_DATA;
    if (a->why == SHIM_TAKEN)
        a->why = shim_comm_ready(a->c, a->comm);
    if (a->why == SHIM_TAKEN)
        a->why = colls_choose(a);
    return a->why == SHIM_TAKEN;
}

/* The maximum over all ranks: a call is as slow as its slowest rank. If MPI fails here there is no
 * verdict, and trials go on. */
static void colls_agree(struct shim_trial *t, MPI_Comm comm)
{
    float mine[2] = {t->ours_us, t->mpi_us}, all[2] = {0, 0};
    if (PMPI_Allreduce(mine, all, 2, MPI_FLOAT, MPI_MAX, comm) == MPI_SUCCESS)
        t->verdict = all[0] <= all[1] ? 1 : -1;
}

/* Keeps the better time, since a late peer makes any one call slow. The TRIALS-th call decides, on
 * all ranks at once. */
static void colls_learn(const struct attempt *a)
{
    struct shim_trial *t = &a->c->trial[a->call][a->class];
    float us = (float)(shim_now_us() - a->t0),
          *best = a->why == SHIM_TAKEN ? &t->ours_us : &t->mpi_us;
    *best = *best > 0 && *best < us ? *best : us;
    if (++t->calls == TRIALS)
        colls_agree(t, a->comm);
}

/* The call was forwarded and MPI returned rc. */
static int leave(const struct attempt *a, int rc)
{
    if (a->on_trial)
        colls_learn(a);
    shim_count(a->call, a->why, 0);
    return rc;
}

/* Tutti has run the call and returned st. */
static int colls_done(const struct attempt *a, tutti_status st)
{
    if (st)
        return shim_failed(a->call, a->comm, tutti_comm_last_error(a->c->tutti));
    a->c->taken[a->call][a->class]++;
    if (a->on_trial)
        colls_learn(a);
    shim_count(a->call, SHIM_TAKEN, a->bytes);
    return MPI_SUCCESS;
}

static int out_of_memory(const struct attempt *a)
{
    return shim_no_memory(a->call, a->comm, a->c);
}

/* An attempt at a reduction; why is set if the type, the operation or the count is not one Tutti
 * takes. */
static struct attempt colls_reduction(enum shim_call call, int count, MPI_Datatype type, MPI_Op op,
                                      MPI_Comm comm)
{
    struct attempt a = {.call = call, .comm = comm};
    if (!shim_reduction(type, op, &a.type, &a.op))
        a.why = SHIM_TYPE;
    else if (count < 0 || __builtin_mul_overflow((size_t)count, a.type.bytes, &a.bytes))
        a.why = SHIM_ARGUMENT;
    return a;
}

SHIM_API int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type,
                           MPI_Op op, MPI_Comm comm)
{
    struct attempt a = colls_reduction(SHIM_ALLREDUCE, count, type, op, comm);
    if (!colls_begin(&a))
        return leave(&a, PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm));
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    return colls_done(&a, tutti_allreduce(a.c->tutti, in, recvbuf, (size_t)count * a.type.each,
                                          a.type.dtype, a.op));
}

SHIM_API int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op,
                        int root, MPI_Comm comm)
{
    struct attempt a = colls_reduction(SHIM_REDUCE, count, type, op, comm);
    if (a.why == SHIM_TAKEN && !shim_is_root(root, comm))
        a.why = SHIM_ARGUMENT;
    if (!colls_begin(&a))
        return leave(&a, PMPI_Reduce(sendbuf, recvbuf, count, type, op, root, comm));
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    return colls_done(&a, tutti_reduce(a.c->tutti, in, recvbuf, (size_t)count * a.type.each,
                                       a.type.dtype, a.op, (uint32_t)root));
}

/* MPI_IN_PLACE puts the result at the beginning of the input, which Tutti's reduce-scatter must not
 * overwrite while it reads: the result goes through memory of our own. */
static int scatter_block(const struct attempt *a, const void *sendbuf, void *recvbuf, size_t count)
{
    struct shim_detour d = {0};
    bool in_place = sendbuf == MPI_IN_PLACE;
    if (in_place && !shim_detour_front(&d, recvbuf, a->bytes))
        return out_of_memory(a);
    tutti_status st =
        tutti_reduce_scatter(a->c->tutti, in_place ? recvbuf : sendbuf,
                             in_place ? (void *)d.result : recvbuf, count, a->type.dtype, a->op);
    shim_detour_end(&d, !st);
    return colls_done(a, st);
}

SHIM_API int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int count,
                                      MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct attempt a = colls_reduction(SHIM_REDUCE_SCATTER_BLOCK, count, type, op, comm);
    if (!colls_begin(&a))
        return leave(&a, PMPI_Reduce_scatter_block(sendbuf, recvbuf, count, type, op, comm));
    return scatter_block(&a, sendbuf, recvbuf, (size_t)count * a.type.each);
}

/* The same with a count for every rank. `ready` stays false if memory is short, which only this
 * rank knows: the communicator is aborted then. */
static int scatter_counts(const struct attempt *a, const void *sendbuf, void *recvbuf,
                          const int *counts)
{
    size_t few[FEW], n = (size_t)a->c->size, *c = n <= FEW ? few : calloc(n, sizeof *c);
    struct shim_detour d = {0};
    bool in_place = sendbuf == MPI_IN_PLACE, ready = c != NULL;
    tutti_status st = TUTTI_ERR_MEMORY;
    for (size_t r = 0; c && r < n; r++)
        c[r] = (size_t)counts[r] * a->type.each;
    if (ready && in_place)
        ready = shim_detour_front(&d, recvbuf, (size_t)counts[a->c->rank] * a->type.bytes);
    if (ready)
        st = tutti_reduce_scatter_v(a->c->tutti, in_place ? recvbuf : sendbuf,
                                    in_place ? (void *)d.result : recvbuf, c, a->type.dtype, a->op);
    shim_detour_end(&d, !st);
    if (c != few)
        free(c);
    return ready ? colls_done(a, st) : out_of_memory(a);
}

/* Adds the bytes of all blocks. The counts are equal on all ranks, so every rank sees the same
 * invalid one. */
static void sum_counts(struct attempt *a, const int *counts)
{
    int size = 0;
    if (a->comm == MPI_COMM_NULL || PMPI_Comm_size(a->comm, &size) != MPI_SUCCESS)
        a->why = SHIM_ARGUMENT;
    for (int r = 0; r < size && a->why == SHIM_TAKEN; r++) {
        size_t bytes;
        if (counts[r] < 0 || __builtin_mul_overflow((size_t)counts[r], a->type.bytes, &bytes) ||
            __builtin_add_overflow(a->bytes, bytes, &a->bytes))
            a->why = SHIM_ARGUMENT;
    }
}

SHIM_API int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int counts[],
                                MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct attempt a = colls_reduction(SHIM_REDUCE_SCATTER, 0, type, op, comm);
    if (a.why == SHIM_TAKEN)
        sum_counts(&a, counts);
    if (!colls_begin(&a))
        return leave(&a, PMPI_Reduce_scatter(sendbuf, recvbuf, counts, type, op, comm));
    return scatter_counts(&a, sendbuf, recvbuf, counts);
}

SHIM_API int MPI_Barrier(MPI_Comm comm)
{
    struct attempt a = {.call = SHIM_BARRIER, .comm = comm};
    if (!colls_begin(&a))
        return leave(&a, PMPI_Barrier(comm));
    return colls_done(&a, tutti_barrier(a.c->tutti));
}

/* ---- bytes ---- */

/* Type maps may differ between ranks, so the data is packed on the root and unpacked elsewhere. */
static int broadcast_packed(const struct attempt *a, const struct shim_side *s, int root)
{
    struct shim_detour d;
    if (!shim_detour_broadcast(&d, s, a->bytes, a->c->rank == root))
        return out_of_memory(a);
    tutti_status st =
        tutti_broadcast(a->c->tutti, d.result, d.result, a->bytes, TUTTI_U8, (uint32_t)root);
    shim_detour_end(&d, !st);
    return colls_done(a, st);
}

SHIM_API int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct attempt a = {.call = SHIM_BCAST, .comm = comm};
    if (!shim_bytes(count, type, &a.bytes) || a.bytes > INT_MAX || !shim_is_root(root, comm))
        a.why = SHIM_ARGUMENT;
    if (!colls_begin(&a))
        return leave(&a, PMPI_Bcast(buf, count, type, root, comm));
    if (!shim_is_plain(type))
        return broadcast_packed(&a, &(struct shim_side){buf, count, type}, root);
    return colls_done(&a, tutti_broadcast(a.c->tutti, buf, buf, a.bytes, TUTTI_U8, (uint32_t)root));
}

/* The own block is packed, gathered as bytes, and every block unpacked with the receiver's type. */
static int gather_packed(const struct attempt *a, const struct shim_side *from,
                         const struct shim_side *to)
{
    struct shim_detour d;
    if (!shim_detour_gather(&d, from, to, a->bytes, a->c->size))
        return out_of_memory(a);
    tutti_status st = tutti_all_gather(a->c->tutti, d.memory, d.result, a->bytes, TUTTI_U8);
    shim_detour_end(&d, !st);
    return colls_done(a, st);
}

SHIM_API int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf,
                           int recvcount, MPI_Datatype recvtype, MPI_Comm comm)
{
    struct attempt a = {.call = SHIM_ALLGATHER, .comm = comm};
    struct shim_side to = {recvbuf, recvcount, recvtype},
                     from = {(void *)(uintptr_t)sendbuf, sendcount, sendtype};
    if (!shim_bytes(recvcount, recvtype, &a.bytes) || a.bytes > INT_MAX)
        a.why = SHIM_ARGUMENT;
    if (!colls_begin(&a))
        return leave(
            &a, PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
    if (sendbuf == MPI_IN_PLACE)
        from = shim_own_block(&to, a.c->rank);
    if (!shim_is_plain(from.type) || !shim_is_plain(recvtype))
        return gather_packed(&a, &from, &to);
    return colls_done(&a, tutti_all_gather(a.c->tutti, from.buf, recvbuf, a.bytes, TUTTI_U8));
}
