/* shim.c - every intercepted call against PMPI's result. Run by mpirun with the shim preloaded (and once without: the program itself must
 * be right). Values are small integers, so that sums are exact in every order. Prints the first difference; exit 1.
 *
 * Usage: mpirun -n N shim [case ...] */
#include <mpi.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100003, GUARD = 16 };
static int rank, size, failures;
static char *in, *ours, *theirs;

static void compare(const char *what, long detail, const void *a, const void *b, size_t bytes)
{
    if (memcmp(a, b, bytes) == 0)
        return;
    size_t i = 0;
    while (((const char *)a)[i] == ((const char *)b)[i])
        i++;
    if (failures++ < 5)
        fprintf(stderr, "shim test: rank %d: %s (%ld): byte %zu of %zu differs from PMPI's\n", rank, what, detail, i, bytes);
}

static void expect(const char *what, int ok)
{
    if (!ok && failures++ < 5)
        fprintf(stderr, "shim test: rank %d: %s\n", rank, what);
}

#define FILL(ctype, expr)                 \
    for (size_t i = 0; i < n; i++) {      \
        ((ctype *)in)[i] = (ctype)(expr); \
    }
static void fill(MPI_Datatype t, size_t n)
{
    size_t v = (size_t)rank + 1;
    if (t == MPI_FLOAT)
        FILL(float, (i + v) % 5)
    else if (t == MPI_DOUBLE)
        FILL(double, (i * v) % 7)
    else if (t == MPI_INT || t == MPI_UNSIGNED)
        FILL(int, (i + 3 * v) % 11)
    else if (t == MPI_LONG || t == MPI_UNSIGNED_LONG)
        FILL(long, (i + v) % 13)
    else if (t == MPI_SHORT || t == MPI_UNSIGNED_SHORT)
        FILL(short, (i + v) % 3)
    else if (t == MPI_C_FLOAT_COMPLEX) {
        n *= 2;
        FILL(float, (i + v) % 5)
    } else
        FILL(char, (i + v) % 3)
}

static const MPI_Datatype *types(size_t *ret)
{
    static MPI_Datatype t[10];
    MPI_Datatype all[] = {MPI_FLOAT, MPI_DOUBLE,      MPI_INT,           MPI_LONG,          MPI_UNSIGNED,
                          MPI_SHORT, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_UNSIGNED_LONG, MPI_C_FLOAT_COMPLEX};
    memcpy(t, all, sizeof all);
    *ret = sizeof all / sizeof all[0];
    return t;
}

static size_t bytes_of(MPI_Datatype t, size_t n)
{
    int each;
    MPI_Type_size(t, &each);
    return n * (size_t)each;
}

static void clear(size_t bytes)
{
    memset(ours, 0x55, bytes + GUARD);
    memset(theirs, 0x55, bytes + GUARD);
}

static void allreduce_one(MPI_Datatype t, MPI_Op op, int n)
{
    size_t bytes = bytes_of(t, (size_t)n);
    fill(t, (size_t)n);
    clear(bytes);
    PMPI_Allreduce(in, theirs, n, t, op, MPI_COMM_WORLD);
    MPI_Allreduce(in, ours, n, t, op, MPI_COMM_WORLD);
    compare("allreduce", n, ours, theirs, bytes + GUARD);
    memcpy(ours, in, bytes);
    MPI_Allreduce(MPI_IN_PLACE, ours, n, t, op, MPI_COMM_WORLD);
    compare("allreduce in place", n, ours, theirs, bytes + GUARD);
}

static void logical(void)
{
    const MPI_Op bits[] = {MPI_BAND, MPI_BOR, MPI_BXOR}, truth[] = {MPI_LAND, MPI_LOR, MPI_LXOR};
    const MPI_Datatype all[] = {MPI_INT, MPI_SHORT, MPI_UNSIGNED_SHORT, MPI_UNSIGNED_LONG, MPI_UNSIGNED_CHAR};
    for (size_t o = 0; o < 3; o++) {
        for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
            allreduce_one(all[i], bits[o], 100);
            allreduce_one(all[i], truth[o], 100);
        }
        allreduce_one(MPI_BYTE, bits[o], 100);
    }
}

static void allreduce(void)
{
    static const int counts[] = {0, 1, 7, 1000, MOST};
    const MPI_Op ops[] = {MPI_SUM, MPI_MAX, MPI_MIN, MPI_PROD};
    size_t ntypes;
    const MPI_Datatype *t = types(&ntypes);
    for (size_t i = 0; i < ntypes; i++)
        for (int o = 0; o < (t[i] == MPI_C_FLOAT_COMPLEX ? 1 : 4); o++)
            for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
                allreduce_one(t[i], ops[o], o < 3 ? counts[c] : counts[c] % 1001);
    logical();
}

static void add(void *a, void *b, int *len, MPI_Datatype *t)
{
    (void)t;
    for (int i = 0; i < *len; i++)
        ((int *)b)[i] += ((int *)a)[i];
}

/* What must be forwarded: user operations, derived types. */
static void forwarded(void)
{
    MPI_Op op;
    MPI_Datatype pair;
    MPI_Op_create(add, 1, &op);
    allreduce_one(MPI_INT, op, 1000);
    MPI_Op_free(&op);
    MPI_Type_contiguous(2, MPI_INT, &pair);
    MPI_Type_commit(&pair);
    MPI_Type_free(&pair);
    MPI_Allreduce(in, ours, 0, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    MPI_Allreduce(in, theirs, 10, MPI_INT, MPI_SUM, MPI_COMM_SELF);
    compare("MPI_COMM_SELF", 10, theirs, in, 40);
}

/* MPICH 4.0.2 dereferences MPI_IN_PLACE (address -1) in a reduce of more than 2 KiB to a root other than 0. Without the shim:
 *     mpirun.mpich -n 2 mpi_shim_mpich mpich-bug      dies of signal 11; with the shim and TUTTI_MPI_TAKE=all it is right
 * so that such calls are made only where all of them are ours. */
#ifdef MPICH_NUMVERSION
enum { MPICH_CRASHES = 1 };
#else
enum { MPICH_CRASHES = 0 };
#endif

static void reduce_in_place(int n, int root)
{
    size_t bytes = bytes_of(MPI_DOUBLE, (size_t)n);
    memset(ours + bytes, 0x55, GUARD);
    memset(theirs + bytes, 0x55, GUARD);
    memcpy(ours, in, bytes);
    MPI_Reduce(rank == root ? MPI_IN_PLACE : in, rank == root ? ours : NULL, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    if (rank == root)
        compare("reduce in place", n, ours, theirs, bytes + GUARD);
}

static void reduce(void)
{
    const char *take = getenv("TUTTI_MPI_TAKE");
    int all_taken = take && !strcmp(take, "all");
    for (int root = 0; root < size; root++)
        for (int n = 1; n <= MOST; n = n * 40 + 3) {
            size_t bytes = bytes_of(MPI_DOUBLE, (size_t)n);
            fill(MPI_DOUBLE, (size_t)n);
            clear(bytes);
            PMPI_Reduce(in, theirs, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
            MPI_Reduce(in, ours, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
            compare("reduce", n, ours, theirs, bytes + GUARD);
            if (root == 0 || all_taken || !MPICH_CRASHES)
                reduce_in_place(n, root);
        }
}

/* By name only; see MPICH_CRASHES. */
static void mpich_bug(void)
{
    int n = 1000, root = size - 1;
    fill(MPI_DOUBLE, (size_t)n);
    PMPI_Reduce(in, theirs, n, MPI_DOUBLE, MPI_SUM, root, MPI_COMM_WORLD);
    reduce_in_place(n, root);
}

static void reduce_scatter(void)
{
    int *counts = calloc((size_t)size, sizeof *counts);
    for (int k = 0; k <= 4000; k = k * 13 + 1) {
        int n = 0;
        for (int r = 0; r < size; r++)
            n += counts[r] = r % 2 ? k * r : k;
        size_t bytes = bytes_of(MPI_FLOAT, (size_t)counts[rank]), whole = bytes_of(MPI_FLOAT, (size_t)n);
        fill(MPI_FLOAT, (size_t)n);
        clear(whole);
        PMPI_Reduce_scatter(in, theirs, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        MPI_Reduce_scatter(in, ours, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        compare("reduce_scatter", k, ours, theirs, bytes + GUARD);
        memcpy(ours, in, whole);
        MPI_Reduce_scatter(MPI_IN_PLACE, ours, counts, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        compare("reduce_scatter in place", k, ours, theirs, bytes);
        fill(MPI_FLOAT, (size_t)(k * size));
        bytes = bytes_of(MPI_FLOAT, (size_t)k);
        clear(bytes);
        PMPI_Reduce_scatter_block(in, theirs, k, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        MPI_Reduce_scatter_block(in, ours, k, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        compare("reduce_scatter_block", k, ours, theirs, bytes + GUARD);
        memcpy(ours, in, bytes * (size_t)size);
        MPI_Reduce_scatter_block(MPI_IN_PLACE, ours, k, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        compare("reduce_scatter_block in place", k, ours, theirs, bytes);
    }
    free(counts);
}

/* Every second int of memory. */
static MPI_Datatype sparse(int n)
{
    MPI_Datatype t;
    MPI_Type_vector(n, 1, 2, MPI_INT, &t);
    MPI_Type_commit(&t);
    return t;
}

/* The types of a gather and a broadcast may differ between ranks as long as their signatures agree. */
static void gather(void)
{
    for (int n = 1; n <= 5000; n = n * 17 + 1) {
        MPI_Datatype odd = sparse(n);
        size_t bytes = bytes_of(MPI_INT, (size_t)(n * size));
        fill(MPI_INT, (size_t)(2 * n));
        clear(2 * bytes);
        PMPI_Allgather(in, n, MPI_INT, theirs, n, MPI_INT, MPI_COMM_WORLD);
        MPI_Allgather(in, n, MPI_INT, ours, n, MPI_INT, MPI_COMM_WORLD);
        compare("allgather", n, ours, theirs, bytes + GUARD);
        memset(ours, 0, bytes);
        memcpy(ours + bytes_of(MPI_INT, (size_t)(n * rank)), in, bytes_of(MPI_INT, (size_t)n));
        MPI_Allgather(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, ours, n, MPI_INT, MPI_COMM_WORLD);
        compare("allgather in place", n, ours, theirs, bytes + GUARD);
        clear(3 * bytes);
        PMPI_Allgather(in, 1, odd, theirs, rank % 2 ? 1 : n, rank % 2 ? odd : MPI_INT, MPI_COMM_WORLD);
        MPI_Allgather(in, 1, odd, ours, rank % 2 ? 1 : n, rank % 2 ? odd : MPI_INT, MPI_COMM_WORLD);
        compare("allgather of types that differ", n, ours, theirs, 2 * bytes);
        MPI_Type_free(&odd);
    }
}

static void broadcast(void)
{
    for (int root = 0; root < size; root++)
        for (int n = 1; n <= 20000; n = n * 27 + 1) {
            MPI_Datatype odd = sparse(n);
            size_t bytes = bytes_of(MPI_INT, (size_t)n);
            fill(MPI_INT, (size_t)(2 * n));
            memcpy(ours, in, 2 * bytes);
            memcpy(theirs, in, 2 * bytes);
            PMPI_Bcast(theirs, n, MPI_INT, root, MPI_COMM_WORLD);
            MPI_Bcast(ours, n, MPI_INT, root, MPI_COMM_WORLD);
            compare("bcast", n, ours, theirs, 2 * bytes);
            PMPI_Bcast(theirs, rank == root ? 1 : n, rank == root ? odd : MPI_INT, root, MPI_COMM_WORLD);
            MPI_Bcast(ours, rank == root ? 1 : n, rank == root ? odd : MPI_INT, root, MPI_COMM_WORLD);
            compare("bcast of types that differ", n, ours, theirs, 2 * bytes);
            MPI_Type_free(&odd);
        }
    MPI_Barrier(MPI_COMM_WORLD);
}

/* ---- requests ---- */

static void nonblocking(void)
{
    enum { N = 6, COUNT = 5000 };
    MPI_Request r[N + 2];
    int next = (rank + 1) % size, before = (rank + size - 1) % size, token = rank, got = -1, index, flag, n = COUNT;
    fill(MPI_INT, N * COUNT);
    clear(bytes_of(MPI_INT, N * COUNT));
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Allreduce(in, theirs, N * n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    for (int round = 0; round < 4; round++) {
        clear(0);
        memset(ours, 0, bytes_of(MPI_INT, N * COUNT));
        for (int i = 0; i < N; i++)
            MPI_Iallreduce((int *)in + i * n, (int *)ours + i * n, n, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[i]);
        MPI_Irecv(&got, 1, MPI_INT, before, 5, MPI_COMM_WORLD, &r[N]);
        MPI_Isend(&token, 1, MPI_INT, next, 5, MPI_COMM_WORLD, &r[N + 1]);
        if (round == 0)
            MPI_Waitall(N + 2, r, MPI_STATUSES_IGNORE);
        for (int i = 0; round == 1 && i < N + 2; i++)
            MPI_Waitany(N + 2, r, &index, MPI_STATUS_IGNORE);
        for (int i = 0; round == 2 && i < N + 2; i++)
            for (flag = 0; !flag;)
                MPI_Test(&r[i], &flag, MPI_STATUS_IGNORE);
        for (int left = N + 2, k, which[N + 2]; round == 3 && left > 0; left -= k)
            MPI_Waitsome(N + 2, r, &k, which, MPI_STATUSES_IGNORE);
        for (int i = 0; i < N + 2; i++)
            expect("a completed request is not MPI_REQUEST_NULL", r[i] == MPI_REQUEST_NULL);
        expect("message beside all-reduces", got == before);
        memset(theirs, 0, bytes_of(MPI_INT, N * COUNT));
        PMPI_Allreduce(in, theirs, N * n, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        compare("iallreduce", round, ours, theirs, bytes_of(MPI_INT, N * COUNT));
    }
}

#if MPI_VERSION < 4
int MPIX_Allreduce_init(const void *, void *, int, MPI_Datatype, MPI_Op, MPI_Comm, MPI_Info, MPI_Request *);
#define MPI_Allreduce_init MPIX_Allreduce_init
#endif
static void persistent(void)
{
    enum { COUNT = 3000 };
    MPI_Request r[2];
    size_t bytes = bytes_of(MPI_FLOAT, COUNT);
    float *second = (float *)ours + COUNT;
    MPI_Allreduce_init(in, ours, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r[0]);
    MPI_Allreduce_init(in, second, COUNT, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD, MPI_INFO_NULL, &r[1]);
    for (int round = 0; round < 3; round++) {
        fill(MPI_FLOAT, COUNT);
        ((float *)in)[round] = 50;
        memset(ours, 0, 2 * bytes);
        MPI_Startall(2, r);
        MPI_Waitall(2, r, MPI_STATUSES_IGNORE);
        PMPI_Allreduce(in, theirs, COUNT, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        compare("persistent sum", round, ours, theirs, bytes);
        PMPI_Allreduce(in, theirs, COUNT, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
        compare("persistent max", round, second, theirs, bytes);
        expect("a persistent request is gone", r[0] != MPI_REQUEST_NULL);
        MPI_Start(&r[0]);
        MPI_Wait(&r[0], MPI_STATUS_IGNORE);
    }
    MPI_Request_free(&r[0]);
    MPI_Request_free(&r[1]);
    expect("a freed request is not MPI_REQUEST_NULL", r[0] == MPI_REQUEST_NULL);
}

/* More than any table of fixed size would hold. */
static void many_persistent(void)
{
    enum { MANY = 600 };
    MPI_Request r[MANY];
    int *mine = (int *)in, *sum = (int *)ours, wrong = 0;
    for (int i = 0; i < MANY; i++) {
        mine[i] = i + rank;
        sum[i] = -1;
        MPI_Allreduce_init(&mine[i], &sum[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r[i]);
    }
    MPI_Startall(MANY, r);
    MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE);
    for (int i = 0; i < MANY; i++) {
        wrong += sum[i] != size * i + size * (size - 1) / 2;
        MPI_Request_free(&r[i]);
    }
    expect("many persistent ones", wrong == 0);
}

/* ---- communicators ---- */

/* Legal: what was started ends normally. (Open MPI 4 crashes here by itself.) */
static void freed_before_wait(void)
{
#ifndef OPEN_MPI
    MPI_Comm comm;
    MPI_Request r[3];
    int mine = rank + 1, sum[3] = {-1, -1, -1}, want = size * (size + 1) / 2;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm);
    for (int i = 0; i < 5; i++)
        MPI_Barrier(comm); /* opens it */
    MPI_Allreduce_init(&mine, &sum[2], 1, MPI_INT, MPI_SUM, comm, MPI_INFO_NULL, &r[2]);
    MPI_Start(&r[2]);
    MPI_Iallreduce(&mine, &sum[0], 1, MPI_INT, MPI_SUM, comm, &r[0]);
    MPI_Iallreduce(&mine, &sum[1], 1, MPI_INT, MPI_SUM, comm, &r[1]);
    MPI_Comm_free(&comm);
    MPI_Waitall(3, r, MPI_STATUSES_IGNORE);
    expect("all-reduces on a communicator that was freed", sum[0] == want && sum[1] == want && sum[2] == want);
    MPI_Request_free(&r[2]);
#endif
}

static void sum_ranks(MPI_Comm comm)
{
    int n, me, mine[300], all[300];
    MPI_Comm_size(comm, &n);
    MPI_Comm_rank(comm, &me);
    for (int i = 0; i < 300; i++)
        mine[i] = me + i;
    MPI_Allreduce(mine, all, 300, MPI_INT, MPI_SUM, comm);
    for (int i = 0; i < 300; i++)
        expect("sum on a communicator", all[i] == n * (n - 1) / 2 + n * i);
}

static void communicators(void)
{
    MPI_Comm c, d;
    for (int i = 0; i < 12; i++) {
        MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &c);
        for (int k = 0; k < i; k++)
            sum_ranks(c);
        MPI_Comm_dup(c, &d);
        for (int k = 0; k < 5; k++)
            sum_ranks(d);
        MPI_Comm_free(&c);
        sum_ranks(d);
        MPI_Comm_free(&d);
    }
    MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, 0, &c);
    if (c != MPI_COMM_NULL) {
        for (int k = 0; k < 6; k++)
            sum_ranks(c);
        MPI_Comm_free(&c);
    }
    for (int i = 0; i < 60; i++) { /* used once each */
        MPI_Comm_dup(MPI_COMM_WORLD, &d);
        sum_ranks(d);
        MPI_Comm_free(&d);
    }
    sum_ranks(MPI_COMM_SELF);
}

static void intercommunicator(void)
{
    MPI_Comm half, inter;
    int mine = rank, got = -1, want = 0;
    if (size < 2)
        return;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, !(rank % 2), 7, &inter);
    MPI_Allreduce(&mine, &got, 1, MPI_INT, MPI_SUM, inter);
    for (int r = !(rank % 2); r < size; r += 2)
        want += r;
    expect("all-reduce on an intercommunicator", got == want);
    MPI_Comm_free(&inter);
    MPI_Comm_free(&half);
}

/* ---- progress ---- */

/* Legal MPI: the message is large enough to need rank 0's help while rank 0 is in the all-reduce. */
static void progress(void)
{
    enum { LARGE = 8 << 20 };
    int mine = rank, sum = 0, want = size * (size - 1) / 2;
    char *data = malloc(LARGE);
    MPI_Request r;
    memset(data, rank, LARGE);
    for (int round = 0; round < 3; round++) {
        if (rank == 0)
            MPI_Isend(data, LARGE, MPI_BYTE, 1, 9, MPI_COMM_WORLD, &r);
        if (rank == 1)
            MPI_Recv(data, LARGE, MPI_BYTE, 0, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        if (rank == 0)
            MPI_Wait(&r, MPI_STATUS_IGNORE);
        expect("all-reduce beside a large message", sum == want && (rank != 1 || data[LARGE - 1] == 0));
    }
    /* A blocking receive must not keep a started all-reduce from its end. */
    MPI_Iallreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r);
    if (rank == 0)
        MPI_Recv(data, 1, MPI_BYTE, 1, 10, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Wait(&r, MPI_STATUS_IGNORE);
    if (rank == 1)
        MPI_Send(data, 1, MPI_BYTE, 0, 10, MPI_COMM_WORLD);
    expect("started all-reduce", sum == want);
    free(data);
}

static void *in_thread(void *arg)
{
    MPI_Comm comm = *(MPI_Comm *)arg;
    for (int i = 0; i < 150; i++)
        sum_ranks(comm);
    return NULL;
}

static void threads(void)
{
    MPI_Comm comm[2];
    pthread_t t;
    int level;
    MPI_Query_thread(&level);
    if (level < MPI_THREAD_MULTIPLE)
        return;
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[0]);
    MPI_Comm_dup(MPI_COMM_WORLD, &comm[1]);
    pthread_create(&t, NULL, in_thread, &comm[1]);
    in_thread(&comm[0]);
    pthread_join(t, NULL);
    MPI_Comm_free(&comm[0]);
    MPI_Comm_free(&comm[1]);
}

/* By name only, with a deadline: rank 1 does not come, and who waits for a request hears that it failed, each way of waiting. */
static void late(void)
{
    int mine = 1, sum[4], flag = 0, index = -1, token = 0;
    MPI_Status status[2];
    MPI_Request r[5];
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    if (rank == 1) {
        PMPI_Recv(&token, 1, MPI_INT, 0, 11, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        return;
    }
    MPI_Allreduce_init(&mine, &sum[0], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, MPI_INFO_NULL, &r[4]);
    MPI_Start(&r[4]);
    for (int i = 0; i < 4; i++)
        MPI_Iallreduce(&mine, &sum[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[i]);
    expect("MPI_Wait succeeds", MPI_Wait(&r[0], MPI_STATUS_IGNORE) == MPI_ERR_OTHER && r[0] == MPI_REQUEST_NULL);
    expect("MPI_Wait fails twice", MPI_Wait(&r[0], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    MPI_Request_get_status(r[1], &flag, MPI_STATUS_IGNORE);
    expect("MPI_Waitany succeeds", MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE) == MPI_ERR_OTHER && index == 1);
    expect("MPI_Waitall succeeds", MPI_Waitall(2, r + 2, status) == MPI_ERR_IN_STATUS && status[0].MPI_ERROR == MPI_ERR_OTHER);
    expect("MPI_Waitall leaves one", status[1].MPI_ERROR == MPI_ERR_OTHER && r[2] == MPI_REQUEST_NULL && r[3] == MPI_REQUEST_NULL);
    expect("MPI_Wait for a persistent one succeeds", MPI_Wait(&r[4], MPI_STATUS_IGNORE) == MPI_ERR_OTHER && r[4] != MPI_REQUEST_NULL);
    expect("it can be started", MPI_Start(&r[4]) != MPI_SUCCESS);
    expect("and waits", MPI_Wait(&r[4], MPI_STATUS_IGNORE) == MPI_SUCCESS);
    expect("a call succeeds",
           MPI_Iallreduce(&mine, sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, r) != MPI_SUCCESS && r[0] == MPI_REQUEST_NULL);
    MPI_Request_free(&r[4]);
    PMPI_Send(&token, 1, MPI_INT, 1, 11, MPI_COMM_WORLD);
}

/* For kill.sh, by name only: the others must not hang. */
static void die(void)
{
    int mine = 1, sum;
    for (int i = 0; i < 100000000; i++) {
        if (i == 200 && rank == 1)
            raise(SIGKILL);
        MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    }
}

static const struct {
    const char *name;
    void (*run)(void);
} cases[] = {{"progress", progress},       {"allreduce", allreduce},  {"forwarded", forwarded},     {"reduce", reduce},
             {"scatter", reduce_scatter},  {"gather", gather},        {"broadcast", broadcast},     {"nonblocking", nonblocking},
             {"persistent", persistent},   {"many", many_persistent}, {"freed", freed_before_wait}, {"comms", communicators},
             {"inter", intercommunicator}, {"threads", threads}};

static int wanted(const char *name, int argc, char **argv)
{
    int found = argc < 2;
    for (int i = 1; i < argc; i++)
        found |= !strcmp(argv[i], name);
    return found;
}

int main(int argc, char **argv)
{
    int level, all = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && !strcmp(argv[1], "kill"))
        die();
    if (argc > 1 && !strcmp(argv[1], "late")) {
        late();
        PMPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        return failures != 0;
    }
    int by_name = argc > 1 && !strcmp(argv[1], "mpich-bug");
    in = calloc(MOST + GUARD, 64);
    ours = calloc(MOST + GUARD, 64);
    theirs = calloc(MOST + GUARD, 64);
    if (by_name)
        mpich_bug();
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        if (wanted(cases[i].name, argc, argv)) {
            double t0 = MPI_Wtime();
            cases[i].run();
            MPI_Barrier(MPI_COMM_WORLD);
            if (rank == 0)
                printf("%s: %.2f s\n", cases[i].name, MPI_Wtime() - t0);
            fflush(stdout);
        }
    PMPI_Allreduce(&failures, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(in);
    free(ours);
    free(theirs);
    MPI_Finalize();
    return all != 0;
}
