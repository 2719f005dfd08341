/* colls.c - the blocking collectives.
 *
 * Where there is a choice both sides are tried on the program's own calls: of each sort and size (power of two) on a communicator the first
 * TRIALS calls go to Tutti and to MPI in turn, then the ranks agree, by the slowest rank's best times, who gets the rest. An all-reduce
 * inside a host is Tutti's without a trial, so that its bits do not depend on time; TUTTI_REPRODUCIBLE=1 and TUTTI_MPI_TAKE=all extend that
 * to everything. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "shim/shim.h"

enum { TRIALS = 8, FEW = 64 };

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

static enum shim_why choose(struct attempt *a)
{
    const struct shim_settings *s = shim_settings();
    const struct shim_trial *t = &a->c->trial[a->call][a->class];
    if (s->take == SHIM_TAKE_ALL || s->reproducible || (a->c->one_host && a->call == SHIM_ALLREDUCE))
        return SHIM_TAKEN;
    if (t->verdict)
        return t->verdict > 0 ? SHIM_TAKEN : SHIM_SLOWER;
    a->on_trial = true;
    a->t0 = shim_now_us();
    return t->calls % 2 ? SHIM_TRIAL : SHIM_TAKEN;
}

/* True: ours. Whatever it is, leave or done must follow. */
static bool begin(struct attempt *a)
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
        a->why = choose(a);
    return a->why == SHIM_TAKEN;
}

static void agree(struct shim_trial *t, MPI_Comm comm)
{
    float mine[2] = {t->ours_us, t->mpi_us}, all[2] = {0, 0};
    if (PMPI_Allreduce(mine, all, 2, MPI_FLOAT, MPI_MAX, comm) == MPI_SUCCESS)
        t->verdict = all[0] <= all[1] ? 1 : -1;
}

static void learn(const struct attempt *a)
{
    struct shim_trial *t = &a->c->trial[a->call][a->class];
    float us = (float)(shim_now_us() - a->t0), *best = a->why == SHIM_TAKEN ? &t->ours_us : &t->mpi_us;
    *best = *best > 0 && *best < us ? *best : us;
    if (++t->calls == TRIALS)
        agree(t, a->comm);
}

static int leave(const struct attempt *a, int rc)
{
    if (a->on_trial)
        learn(a);
    shim_count(a->call, a->why, 0);
    return rc;
}

static int done(const struct attempt *a, tutti_status st)
{
    if (st)
        return shim_failed(a->call, a->comm, tutti_comm_last_error(a->c->tutti));
    a->c->taken[a->call][a->class]++;
    if (a->on_trial)
        learn(a);
    shim_count(a->call, SHIM_TAKEN, a->bytes);
    return MPI_SUCCESS;
}

static int out_of_memory(const struct attempt *a)
{
    return shim_failed(a->call, a->comm, &(struct tutti_error){.status = TUTTI_ERR_MEMORY, .text = "out of memory"});
}

static struct attempt reduction(enum shim_call call, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct attempt a = {.call = call, .comm = comm};
    if (!shim_reduction(type, op, &a.type, &a.op))
        a.why = SHIM_TYPE;
    else if (count < 0 || __builtin_mul_overflow((size_t)count, a.type.bytes, &a.bytes))
        a.why = SHIM_ARGUMENT;
    return a;
}

SHIM_API int MPI_Allreduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct attempt a = reduction(SHIM_ALLREDUCE, count, type, op, comm);
    if (!begin(&a))
        return leave(&a, PMPI_Allreduce(sendbuf, recvbuf, count, type, op, comm));
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    return done(&a, tutti_allreduce(a.c->tutti, in, recvbuf, (size_t)count * a.type.each, a.type.dtype, a.op));
}

SHIM_API int MPI_Reduce(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, int root, MPI_Comm comm)
{
    struct attempt a = reduction(SHIM_REDUCE, count, type, op, comm);
    if (!begin(&a) || root < 0 || root >= a.c->size) {
        a.why = a.why == SHIM_TAKEN ? SHIM_ARGUMENT : a.why;
        return leave(&a, PMPI_Reduce(sendbuf, recvbuf, count, type, op, root, comm));
    }
    const void *in = sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf;
    return done(&a, tutti_reduce(a.c->tutti, in, recvbuf, (size_t)count * a.type.each, a.type.dtype, a.op, (uint32_t)root));
}

/* The result of an MPI_IN_PLACE reduce-scatter goes to the beginning of the input: through memory of our own. */
static int scatter_block(const struct attempt *a, void *recvbuf, size_t count)
{
    size_t bytes = count * tutti_dtype_bytes(a->type.dtype);
    void *out = malloc(bytes);
    if (!out)
        return out_of_memory(a);
    tutti_status st = tutti_reduce_scatter(a->c->tutti, recvbuf, out, count, a->type.dtype, a->op);
    if (!st)
        memcpy(recvbuf, out, bytes);
    free(out);
    return done(a, st);
}

SHIM_API int MPI_Reduce_scatter_block(const void *sendbuf, void *recvbuf, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct attempt a = reduction(SHIM_REDUCE_SCATTER_BLOCK, count, type, op, comm);
    if (!begin(&a))
        return leave(&a, PMPI_Reduce_scatter_block(sendbuf, recvbuf, count, type, op, comm));
    size_t n = (size_t)count * a.type.each;
    if (sendbuf == MPI_IN_PLACE)
        return scatter_block(&a, recvbuf, n);
    return done(&a, tutti_reduce_scatter(a.c->tutti, sendbuf, recvbuf, n, a.type.dtype, a.op));
}

static int scatter_counts(const struct attempt *a, const void *sendbuf, void *recvbuf, const int *counts)
{
    size_t few[FEW], n = (size_t)a->c->size, *c = n <= FEW ? few : calloc(n, sizeof *c);
    size_t mine = (size_t)counts[a->c->rank] * a->type.each * tutti_dtype_bytes(a->type.dtype);
    void *out = sendbuf == MPI_IN_PLACE ? malloc(mine + 1) : recvbuf;
    tutti_status st = TUTTI_ERR_MEMORY;
    for (size_t r = 0; c && r < n; r++)
        c[r] = (size_t)counts[r] * a->type.each;
    bool ready = c && out;
    if (ready)
        st = tutti_reduce_scatter_v(a->c->tutti, sendbuf == MPI_IN_PLACE ? recvbuf : sendbuf, out, c, a->type.dtype, a->op);
    if (!st && sendbuf == MPI_IN_PLACE)
        memcpy(recvbuf, out, mine);
    if (sendbuf == MPI_IN_PLACE)
        free(out);
    if (c != few)
        free(c);
    return ready ? done(a, st) : out_of_memory(a);
}

/* Bytes of all blocks. The counts are the same on all ranks, so an absurd one is seen by all. */
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

SHIM_API int MPI_Reduce_scatter(const void *sendbuf, void *recvbuf, const int counts[], MPI_Datatype type, MPI_Op op, MPI_Comm comm)
{
    struct attempt a = reduction(SHIM_REDUCE_SCATTER, 0, type, op, comm);
    if (a.why == SHIM_TAKEN)
        sum_counts(&a, counts);
    if (!begin(&a))
        return leave(&a, PMPI_Reduce_scatter(sendbuf, recvbuf, counts, type, op, comm));
    return scatter_counts(&a, sendbuf, recvbuf, counts);
}

SHIM_API int MPI_Barrier(MPI_Comm comm)
{
    struct attempt a = {.call = SHIM_BARRIER, .comm = comm};
    if (!begin(&a))
        return leave(&a, PMPI_Barrier(comm));
    return done(&a, tutti_barrier(a.c->tutti));
}

/* ---- bytes ---- */

static char *pack(const void *buf, int count, MPI_Datatype type, size_t bytes)
{
    int room = 0, at = 0;
    char *to = PMPI_Pack_size(count, type, MPI_COMM_SELF, &room) == MPI_SUCCESS && (size_t)room >= bytes ? malloc((size_t)room + 1) : NULL;
    if (to && (PMPI_Pack(buf, count, type, to, room, &at, MPI_COMM_SELF) != MPI_SUCCESS || (size_t)at != bytes)) {
        free(to);
        to = NULL;
    }
    return to;
}

static void unpack(const char *from, size_t bytes, void *buf, int count, MPI_Datatype type)
{
    int at = 0;
    PMPI_Unpack(from, (int)bytes, &at, buf, count, type, MPI_COMM_SELF);
}

static int broadcast_packed(const struct attempt *a, void *buf, int count, MPI_Datatype type, int root)
{
    bool mine = a->c->rank == root;
    char *data = mine ? pack(buf, count, type, a->bytes) : malloc(a->bytes);
    if (!data)
        return out_of_memory(a);
    tutti_status st = tutti_broadcast(a->c->tutti, data, data, a->bytes, TUTTI_U8, (uint32_t)root);
    if (!st && !mine)
        unpack(data, a->bytes, buf, count, type);
    free(data);
    return done(a, st);
}

SHIM_API int MPI_Bcast(void *buf, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    struct attempt a = {.call = SHIM_BCAST, .comm = comm};
    if (!shim_bytes(count, type, &a.bytes) || a.bytes > INT_MAX)
        a.why = SHIM_ARGUMENT;
    if (!begin(&a) || root < 0 || root >= a.c->size) {
        a.why = a.why == SHIM_TAKEN ? SHIM_ARGUMENT : a.why;
        return leave(&a, PMPI_Bcast(buf, count, type, root, comm));
    }
    if (!shim_is_plain(type))
        return broadcast_packed(&a, buf, count, type, root);
    return done(&a, tutti_broadcast(a.c->tutti, buf, buf, a.bytes, TUTTI_U8, (uint32_t)root));
}

/* One side of a gather as it is in memory. */
struct side {
    void *buf;
    int count;
    MPI_Datatype type;
};

static int gather_packed(const struct attempt *a, const struct side *from, const struct side *to)
{
    size_t ranks = (size_t)a->c->size;
    char *mine = pack(from->buf, from->count, from->type, a->bytes), *all = malloc(a->bytes * ranks);
    MPI_Aint lb = 0, extent = 0;
    tutti_status st = TUTTI_ERR_MEMORY;
    bool ready = mine && all && PMPI_Type_get_extent(to->type, &lb, &extent) == MPI_SUCCESS;
    if (ready)
        st = tutti_all_gather(a->c->tutti, mine, all, a->bytes, TUTTI_U8);
    for (size_t r = 0; !st && r < ranks; r++)
        unpack(all + r * a->bytes, a->bytes, (char *)to->buf + (MPI_Aint)r * to->count * extent, to->count, to->type);
    free(mine);
    free(all);
    return ready ? done(a, st) : out_of_memory(a);
}

SHIM_API int MPI_Allgather(const void *sendbuf, int sendcount, MPI_Datatype sendtype, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                           MPI_Comm comm)
{
    struct attempt a = {.call = SHIM_ALLGATHER, .comm = comm};
    bool in_place = sendbuf == MPI_IN_PLACE;
    struct side to = {recvbuf, recvcount, recvtype}, from = in_place ? to : (struct side){(void *)(uintptr_t)sendbuf, sendcount, sendtype};
    if (!shim_bytes(recvcount, recvtype, &a.bytes) || a.bytes > INT_MAX)
        a.why = SHIM_ARGUMENT;
    if (!begin(&a))
        return leave(&a, PMPI_Allgather(sendbuf, sendcount, sendtype, recvbuf, recvcount, recvtype, comm));
    MPI_Aint lb = 0, extent = 0;
    PMPI_Type_get_extent(recvtype, &lb, &extent);
    if (in_place)
        from.buf = (char *)recvbuf + (MPI_Aint)a.c->rank * recvcount * extent;
    if (!shim_is_plain(from.type) || !shim_is_plain(recvtype))
        return gather_packed(&a, &from, &to);
    return done(&a, tutti_all_gather(a.c->tutti, from.buf, recvbuf, a.bytes, TUTTI_U8));
}
