/* join.c - joins MPI, tells libtutti this process's rank there, and exports the one symbol that
 * libtutti looks up.
 *
 * MPI can be initialised only once in the life of a process. If this file initialised it, this file
 * finalises it, and only at exit: communicators may be closed and opened again before. All messages
 * use communicators of our own, on which MPI returns errors instead of ending the program.
 *
 *     join    initialise MPI unless the program has done so; duplicate MPI_COMM_WORLD
 *     gather  all-gather among all processes, to exchange addresses
 *     reserve tags for one group of ranks, by its first member
 *     open    a transport among the group, with these tags
 *
 * Groups have tags, not communicators, of their own: MPI_Comm_create_group waits for all members,
 * without a deadline, and one of them may have died. The tags of block b of first member f begin
 * at (b * size + f) * TT_MPI_TAGS: groups with different first members never share one. A block is
 * used again only after all others, because a member may close later than the first one.
 *
 * All calls use the PMPI_ names, so that a preloaded shim (src/shim) does not see them. */
#include <pthread.h>
#include <stdlib.h>

#include "mpi/mpi_int.h"

enum { BLOCKS = 4096 };

_Atomic bool tt_mpi_unfinished;

extern const struct tt_mpi_ops tutti_transport_mpi;
static struct tt_mpi self;
static MPI_Comm world = MPI_COMM_NULL; /* our own duplicate, for all messages */
/* The blocks of groups whose first member is this rank. */
static struct {
    pthread_mutex_t lock;
    uint32_t n, next; /* as many as there are tags for; where to look for a free one */
    bool used[BLOCKS];
} blocks = {.lock = PTHREAD_MUTEX_INITIALIZER};

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

/* How many blocks MPI has tags for; MPI promises tags up to 32767 at least. */
static uint32_t count_blocks(int size)
{
    void *most = NULL;
    int found = 0;
    PMPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, &most, &found);
    int64_t tags = found ? *(const int *)most + INT64_C(1) : 32768, n = tags / TT_MPI_TAGS / size;
    return n < BLOCKS ? (uint32_t)n : BLOCKS;
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
    blocks.n = count_blocks(size);
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

static tutti_status join_reserve(struct tt_mpi *m, uint32_t *ret_block, struct tutti_error *err)
{
    (void)m;
    uint32_t looked = 0;
    pthread_mutex_lock(&blocks.lock);
    for (; looked < blocks.n && blocks.used[blocks.next]; looked++)
        blocks.next = (blocks.next + 1) % blocks.n;
    bool found = looked < blocks.n;
    if (found) {
        *ret_block = blocks.next;
        blocks.used[blocks.next] = true;
        blocks.next = (blocks.next + 1) % blocks.n;
    }
    pthread_mutex_unlock(&blocks.lock);
    return found ? TUTTI_OK
                 : tt_fail(err, TUTTI_ERR_LIMIT,
                           "transport mpi: rank %u is the first of %u communicators, for more "
                           "there are no tags",
                           self.rank, blocks.n);
}

static void join_release(struct tt_mpi *m, uint32_t block)
{
    (void)m;
    pthread_mutex_lock(&blocks.lock);
    blocks.used[block] = false;
    pthread_mutex_unlock(&blocks.lock);
}

void tt_mpi_tags_release(int tag)
{
    uint32_t at = (uint32_t)(tag / TT_MPI_TAGS);
    if (at % self.size == self.rank)
        join_release(&self, at / self.size);
}

static tutti_status join_open(struct tt_mpi *m, const struct tt_mpi_group *g,
                              struct tt_transport **ret, struct tutti_error *err)
{
    int tag = (int)(((int64_t)g->block * m->size + g->members[0]) * TT_MPI_TAGS);
    return tt_mpi_transport(world, tag, g, ret, err);
}

__attribute__((visibility("default"))) const struct tt_mpi_ops tutti_transport_mpi = {
    .abi = TT_MPI_ABI,
    .version = TUTTI_VERSION,
    .join = join_join,
    .gather = join_gather,
    .reserve = join_reserve,
    .release = join_release,
    .open = join_open,
};
