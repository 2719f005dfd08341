/* requests.c - the non-blocking collectives against PMPI's blocking ones, with every way to complete a request, beside messages of the
 * program's own. Run by mpirun with the shim preloaded (and without: the program itself must be right). Prints the first differences; exit
 * 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { COUNT = 3000, CALLS = 10, ROOM = 4 * COUNT * 8 };
static int rank, size, failures;

static void expect(const char *what, int detail, int ok)
{
    if (!ok && failures++ < 5)
        fprintf(stderr, "requests: rank %d: %s (%d)\n", rank, what, detail);
}

/* One call of each sort, its result where PMPI's will be in the other buffer. */
struct set {
    int *in[CALLS], *out[CALLS];
    MPI_Datatype odd; /* every second int */
    int n;            /* of a block */
    int root;
};

static void fill(struct set *s)
{
    for (int k = 0; k < CALLS; k++) {
        memset(s->out[k], 0x55, ROOM);
        for (int i = 0; i < ROOM / 4; i++)
            s->in[k][i] = (i * (k + 1) + 7 * rank) % 1000;
    }
    memcpy(s->out[2], s->in[2], ROOM); /* in place */
    memcpy(s->out[4], s->in[4], ROOM); /* in place */
    memcpy(s->out[6], s->in[6], ROOM); /* broadcasts */
    memcpy(s->out[7], s->in[7], ROOM);
}

static void make(struct set *s, int n, int root)
{
    s->n = n;
    s->root = root;
    for (int k = 0; k < CALLS; k++) {
        s->in[k] = malloc(ROOM);
        s->out[k] = malloc(ROOM);
    }
    fill(s);
    MPI_Type_vector(n, 1, 2, MPI_INT, &s->odd);
    MPI_Type_commit(&s->odd);
}

static void drop(struct set *s)
{
    for (int k = 0; k < CALLS; k++) {
        free(s->in[k]);
        free(s->out[k]);
    }
}

static void blocking(struct set *s)
{
    int counts[64], n = s->n, me = rank == s->root;
    for (int r = 0; r < size; r++)
        counts[r] = n;
    PMPI_Allreduce(s->in[0], s->out[0], n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    PMPI_Reduce_scatter(s->in[1], s->out[1], counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    PMPI_Reduce_scatter_block(MPI_IN_PLACE, s->out[2], n, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    PMPI_Allgather(s->in[3], n, MPI_INT, s->out[3], n, MPI_INT, MPI_COMM_WORLD);
    PMPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->out[4], n, MPI_INT, MPI_COMM_WORLD);
    PMPI_Allgather(s->in[5], 1, s->odd, s->out[5], rank % 2 ? 1 : n, rank % 2 ? s->odd : MPI_INT, MPI_COMM_WORLD);
    PMPI_Bcast(s->out[6], n, MPI_INT, s->root, MPI_COMM_WORLD);
    PMPI_Bcast(s->out[7], me ? 1 : n, me ? s->odd : MPI_INT, s->root, MPI_COMM_WORLD);
    PMPI_Reduce(s->in[8], s->out[8], n, MPI_INT, MPI_MIN, s->root, MPI_COMM_WORLD);
    PMPI_Barrier(MPI_COMM_WORLD);
    MPI_Type_free(&s->odd);
}

static void start(struct set *s, MPI_Request *r)
{
    int counts[64], n = s->n, me = rank == s->root;
    for (int i = 0; i < size; i++)
        counts[i] = n;
    MPI_Iallreduce(s->in[0], s->out[0], n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[0]);
    MPI_Ireduce_scatter(s->in[1], s->out[1], counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[1]);
    MPI_Ireduce_scatter_block(MPI_IN_PLACE, s->out[2], n, MPI_INT, MPI_MAX, MPI_COMM_WORLD, &r[2]);
    MPI_Iallgather(s->in[3], n, MPI_INT, s->out[3], n, MPI_INT, MPI_COMM_WORLD, &r[3]);
    MPI_Iallgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, s->out[4], n, MPI_INT, MPI_COMM_WORLD, &r[4]);
    MPI_Iallgather(s->in[5], 1, s->odd, s->out[5], rank % 2 ? 1 : n, rank % 2 ? s->odd : MPI_INT, MPI_COMM_WORLD, &r[5]);
    MPI_Ibcast(s->out[6], n, MPI_INT, s->root, MPI_COMM_WORLD, &r[6]);
    MPI_Ibcast(s->out[7], me ? 1 : n, me ? s->odd : MPI_INT, s->root, MPI_COMM_WORLD, &r[7]);
    MPI_Ireduce(s->in[8], s->out[8], n, MPI_INT, MPI_MIN, s->root, MPI_COMM_WORLD, &r[8]);
    MPI_Ibarrier(MPI_COMM_WORLD, &r[9]);
    MPI_Type_free(&s->odd); /* legal at once */
}

/* ---- the ways to complete n requests ---- */

static void by_waitall(MPI_Request *r, int n)
{
    MPI_Waitall(n, r, MPI_STATUSES_IGNORE);
}

static void by_wait_backwards(MPI_Request *r, int n)
{
    MPI_Status status;
    while (n-- > 0)
        MPI_Wait(&r[n], &status);
}

static void by_waitany(MPI_Request *r, int n)
{
    int index;
    for (int i = 0; i < n; i++) {
        MPI_Waitany(n, r, &index, MPI_STATUS_IGNORE);
        expect("MPI_Waitany names none", i, index >= 0 && index < n);
    }
    MPI_Waitany(n, r, &index, MPI_STATUS_IGNORE);
    expect("MPI_Waitany finds one too many", index, index == MPI_UNDEFINED);
}

static void by_waitsome(MPI_Request *r, int n)
{
    MPI_Status status[CALLS + 2];
    for (int left = n, k, which[CALLS + 2]; left > 0; left -= k)
        MPI_Waitsome(n, r, &k, which, status);
}

static void by_test(MPI_Request *r, int n)
{
    for (int i = 0; i < n; i++)
        for (int flag = 0; !flag;)
            MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
}

static void by_testall(MPI_Request *r, int n)
{
    for (int flag = 0; !flag;)
        MPI_Testall(n, r, &flag, MPI_STATUSES_IGNORE);
}

static void by_testany(MPI_Request *r, int n)
{
    for (int left = n, index, flag; left > 0; left -= flag && index != MPI_UNDEFINED)
        MPI_Testany(n, r, &index, &flag, MPI_STATUS_IGNORE);
}

static void by_testsome(MPI_Request *r, int n)
{
    for (int left = n, k, which[CALLS + 2]; left > 0; left -= k)
        MPI_Testsome(n, r, &k, which, MPI_STATUSES_IGNORE);
}

static void by_status(MPI_Request *r, int n)
{
    for (int i = 0; i < n; i++) {
        for (int flag = 0; !flag;)
            MPI_Request_get_status(r[i], &flag, MPI_STATUS_IGNORE);
        expect("MPI_Request_get_status ends a request", i, r[i] != MPI_REQUEST_NULL);
        MPI_Wait(&r[i], MPI_STATUS_IGNORE);
    }
}

static void (*const ways[])(MPI_Request *, int) = {by_waitall, by_wait_backwards, by_waitany,  by_waitsome, by_test,
                                                   by_testall, by_testany,        by_testsome, by_status};
enum { WAYS = sizeof ways / sizeof ways[0] };

static void try(int way, int n, int root)
{
    struct set theirs, ours;
    MPI_Request r[CALLS + 2];
    int token = 100 * way + rank, got = -1, before = (rank + size - 1) % size;
    make(&theirs, n, root);
    make(&ours, n, root);
    blocking(&theirs);
    MPI_Irecv(&got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &r[CALLS]);
    start(&ours, r);
    MPI_Isend(&token, 1, MPI_INT, (rank + 1) % size, 5, MPI_COMM_WORLD, &r[CALLS + 1]);
    ways[way](r, CALLS + 2);
    for (int k = 0; k < CALLS + 2; k++)
        expect("a completed request is not MPI_REQUEST_NULL", k, r[k] == MPI_REQUEST_NULL);
    for (int k = 0; k < CALLS; k++) /* of a reduce-scatter in place only the block is defined */
        expect("a call differs from PMPI's", k, !memcmp(ours.out[k], theirs.out[k], k == 2 ? (size_t)n * 4 : ROOM));
    expect("a message beside them", way, got == 100 * way + before);
    drop(&theirs);
    drop(&ours);
}

/* What MPI forbids must be refused, not succeed by half; and blocks of unequal length are MPI's. */
static void refused(void)
{
    int mine = rank, sum = -1, counts[64], in[64 * 64], out[64], want[64];
    MPI_Request r;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
    if (getenv("TUTTI_MPI_TAKE"))
        expect("a collective was cancelled", 0, MPI_Cancel(&r) != MPI_SUCCESS);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("sum after a refused cancel", sum, sum == size * (size - 1) / 2);
    MPI_Irecv(&sum, 1, MPI_INT, rank, 77, MPI_COMM_WORLD, &r);
    MPI_Cancel(&r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    for (int i = 0; i < 64 * 64; i++)
        in[i] = i + rank;
    for (int k = 0; k < size; k++)
        counts[k] = k + 1;
    PMPI_Reduce_scatter(in, want, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Ireduce_scatter(in, out, counts, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    expect("blocks of unequal length", 0, !memcmp(out, want, (size_t)counts[rank] * sizeof *out));
}

int main(int argc, char **argv)
{
    int level, all = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Barrier(MPI_COMM_WORLD); /* opens it */
    for (int way = 0; way < WAYS; way++) {
        try(way, 1, way % size);
        try(way, COUNT / size, size - 1);
    }
    refused();
    PMPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Finalize();
    return all != 0;
}
