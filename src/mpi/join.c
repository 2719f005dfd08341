/* join.c - joins MPI, tells libtutti this process's rank there, and exports the one symbol that
 * libtutti looks up.
 *
 * MPI can be initialised only once in the life of a process. If this file initialised it, this file
 * finalises it, and only at exit: communicators may be closed and opened again before. All messages
 * use communicators of our own, on which MPI returns errors instead of ending the program.
 *
 *     join    initialise MPI unless the program has done so; duplicate MPI_COMM_WORLD
 *     gather  all-gather among all processes, to exchange addresses
 *     open    a communicator for one group of ranks, and a transport on it
 *
 * All calls use the PMPI_ names, so that a preloaded shim (src/shim) does not see them. */
#include <stdlib.h>

#include "mpi/mpi_int.h"

_Atomic bool tt_mpi_unfinished;

extern const struct tt_mpi_ops tutti_transport_mpi;
static struct tt_mpi self;
static MPI_Comm world = MPI_COMM_NULL; /* our own duplicate; for gather and for creating groups */

/* Runs at exit. A job that lost a rank must not finalise: MPI_Finalize waits for all ranks. The
 * launcher cleans up instead. */
static void finalise(void)
{
    int done = 1;
    if (PMPI_Finalized(&done) == MPI_SUCCESS && !done && !tt_mpi_unfinished) {
        PMPI_Comm_free(&world);
        PMPI_Finalize();
    }
}

/* Initialises MPI, or checks that the program's initialisation is sufficient; *ret_level is the
 * thread level that MPI grants. */
static tutti_status initialise(int *ret_level, struct tutti_error *err)
{
    int there = 0, over = 0, main_thread = 1;
    PMPI_Initialized(&there);
    PMPI_Finalized(&over);
    if (over)
        return tt_fail(err, TUTTI_ERR_CONNECT, "transport mpi: MPI has been finalised");
    if (!there) {
        if (PMPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, ret_level) != MPI_SUCCESS)
            return tt_fail(err, TUTTI_ERR_CONNECT, "transport mpi: MPI cannot be initialised");
        atexit(finalise);
        return TUTTI_OK;
    }
    PMPI_Query_thread(ret_level);
    PMPI_Is_thread_main(&main_thread);
    if (*ret_level < MPI_THREAD_SERIALIZED && !main_thread)
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "transport mpi: MPI was initialised for its main thread only, and this is another one");
    return TUTTI_OK;
}

/* Called once per process. local stays -1 if MPI cannot tell which ranks share this host. */
static tutti_status look_around(struct tutti_error *err)
{
    MPI_Comm host = MPI_COMM_NULL;
    int rank = 0, size = 1, local = -1;
    if (PMPI_Comm_dup(MPI_COMM_WORLD, &world) != MPI_SUCCESS)
        return tt_fail(err, TUTTI_ERR_CONNECT,
                       "transport mpi: MPI_COMM_WORLD cannot be duplicated");
    PMPI_Comm_set_errhandler(world, MPI_ERRORS_RETURN);
    PMPI_Comm_rank(world, &rank);
    PMPI_Comm_size(world, &size);
    if (PMPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host) ==
        MPI_SUCCESS) {
        PMPI_Comm_rank(host, &local);
        PMPI_Comm_free(&host);
    }
    self.rank = (uint32_t)rank;
    self.size = (uint32_t)size;
    self.local_rank = local;
    return TUTTI_OK;
}

/* May be called again after everything was closed: world is kept until exit. transport/mpi.h
 * says which threads may drive a transport if `threads` is false. */
static tutti_status join_join(struct tt_mpi **ret, struct tutti_error *err)
{
    int level = MPI_THREAD_SINGLE;
    tutti_status st = initialise(&level, err);
    if (!st && world == MPI_COMM_NULL)
        st = look_around(err);
    if (st)
        return st;
    self.ops = &tutti_transport_mpi;
    self.threads = level == MPI_THREAD_MULTIPLE;
    *ret = &self;
    return TUTTI_OK;
}

static tutti_status join_gather(struct tt_mpi *m, const void *mine, size_t bytes, void *ret_all,
                                struct tutti_error *err)
{
    (void)m;
    if (PMPI_Allgather(mine, (int)bytes, MPI_BYTE, ret_all, (int)bytes, MPI_BYTE, world) !=
        MPI_SUCCESS)
        return tt_fail(err, TUTTI_ERR_CONNECT,
                       "transport mpi: the ranks cannot exchange %zu bytes over MPI", bytes);
    return TUTTI_OK;
}

/* Collective among the group's members only, as MPI_Comm_create_group is. The role is the tag,
 * which keeps groups apart that are created at the same time; MPI guarantees tags up to 32767. */
static int make_comm(const struct tt_mpi_group *g, MPI_Comm *ret)
{
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    int *ranks = tt_alloc(g->n, sizeof *ranks), rc = ranks ? MPI_SUCCESS : MPI_ERR_NO_MEM;
    for (uint32_t i = 0; ranks && i < g->n; i++)
        ranks[i] = (int)g->members[i];
    if (rc == MPI_SUCCESS)
        rc = PMPI_Comm_group(world, &all);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Group_incl(all, (int)g->n, ranks, &some);
    if (rc == MPI_SUCCESS)
        rc = PMPI_Comm_create_group(world, some, (int)(g->role & 0x7fff), ret);
    if (some != MPI_GROUP_NULL)
        PMPI_Group_free(&some);
    if (all != MPI_GROUP_NULL)
        PMPI_Group_free(&all);
    free(ranks);
    return rc;
}

static tutti_status join_open(struct tt_mpi *m, const struct tt_mpi_group *g,
                              struct tt_transport **ret, struct tutti_error *err)
{
    (void)m;
    MPI_Comm comm = MPI_COMM_NULL;
    if (make_comm(g, &comm) != MPI_SUCCESS)
        return tt_fail(err, TUTTI_ERR_CONNECT, "transport mpi: no communicator for %u ranks", g->n);
    PMPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    /* On success the transport owns comm. */
    tutti_status st = tt_mpi_transport(comm, g->me, g->n, ret, err);
    if (st)
        PMPI_Comm_free(&comm);
    return st;
}

__attribute__((visibility("default"))) const struct tt_mpi_ops tutti_transport_mpi = {
    .abi = TT_MPI_ABI,
    .version = TUTTI_VERSION,
    .join = join_join,
    .gather = join_gather,
    .open = join_open,
};
