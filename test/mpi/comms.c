/* Communicators as MPI programs use them: freed by each rank when it likes, made while others are being made, hundreds at a time, by
 * threads at the same time, without MPI_Init or beside it, and used until the end while threads live on. Under the shim all of it must go on as without. A mistake there is a hang: the test has a
 * time limit. Usage: comms free|drive|idup|growth|threads|alive|session|both */
#include <dirent.h>
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPENING = 5, MANY = 60, THREADS = 3, TURNS = 6 };
static int rank, size, errors;

static void wrong(const char *what)
{
    fprintf(stderr, "FAILED: rank %d: %s\n", rank, what);
    __atomic_fetch_add(&errors, 1, __ATOMIC_RELAXED);
}

static void sum(MPI_Comm c, int i)
{
    int in = rank + i, out = 0;
    MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, c);
    if (out != size * i + size * (size - 1) / 2)
        wrong("sum");
}

/* A duplicate that has been used often enough to be opened. */
static MPI_Comm used(void)
{
    MPI_Comm c;
    MPI_Comm_dup(MPI_COMM_WORLD, &c);
    for (int i = 0; i < OPENING; i++)
        sum(c, i);
    return c;
}

/* ---- free: local, in any order ---- */

static void free_before_message(void)
{
    int x = rank;
    MPI_Comm c = used();
    if (rank > 0)
        MPI_Recv(&x, 1, MPI_INT, rank - 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    MPI_Comm_free(&c);
    if (rank + 1 < size)
        MPI_Send(&x, 1, MPI_INT, rank + 1, 0, MPI_COMM_WORLD);
}

static void free_in_other_order(void)
{
    MPI_Comm c[2] = {used(), used()};
    MPI_Comm_free(&c[rank % 2]);
    MPI_Comm_free(&c[1 - rank % 2]);
}

/* What has begun ends as if nothing were freed, on all ranks: one is late. */
static void free_under_way(void)
{
    int in = rank, out = -1;
    MPI_Request q;
    MPI_Comm c = used();
    if (rank == 0)
        MPI_Recv(&in, 1, MPI_INT, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    in = rank;
    MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, c, &q);
    MPI_Comm_free(&c);
    if (rank == 1)
        MPI_Send(&in, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
    if (out != size * (size - 1) / 2)
        wrong("a sum under way when its communicator was freed");
}

/* The root of a broadcast need not wait for the others. */
static void free_ahead(void)
{
    static char data[100000];
    MPI_Comm c = used();
    memset(data, rank == 0 ? 7 : 0, sizeof data);
    if (rank == size - 1)
        usleep(50000);
    MPI_Bcast(data, sizeof data, MPI_BYTE, 0, c);
    MPI_Comm_free(&c);
    for (size_t i = 0; i < sizeof data; i++)
        if (data[i] != 7) {
            wrong("broadcast");
            break;
        }
}

/* Groups that share some ranks, opened before that of the world. */
static void free_overlapping(void)
{
    MPI_Comm upper, c;
    MPI_Comm_split(MPI_COMM_WORLD, rank > 0 ? 0 : MPI_UNDEFINED, -rank, &upper);
    for (int i = 0; upper != MPI_COMM_NULL && i < OPENING; i++) {
        int in = 1, out = 0;
        MPI_Allreduce(&in, &out, 1, MPI_INT, MPI_SUM, upper);
        if (out != size - 1)
            wrong("sum of some ranks");
    }
    c = used();
    if (upper != MPI_COMM_NULL)
        MPI_Comm_free(&upper);
    MPI_Comm_free(&c);
}

static void run_free(void)
{
    free_overlapping();
    free_before_message();
    free_in_other_order();
    free_under_way();
    free_ahead();
}

/* ---- drive: a call that waits moves the messages that its rank has begun to send ---- */

static void run_drive(void)
{
    static char data[1 << 20];
    MPI_Request q = MPI_REQUEST_NULL;
    sum(MPI_COMM_WORLD, 1);
    if (rank == 0)
        MPI_Isend(data, sizeof data, MPI_CHAR, 1, 5, MPI_COMM_WORLD, &q);
    if (rank == 1) {
        usleep(200000); /* rank 0 is in the barrier */
        MPI_Recv(data, sizeof data, MPI_CHAR, 0, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Wait(&q, MPI_STATUS_IGNORE);
}

/* ---- idup: under way while communicators of the shim are opened ---- */

static void run_idup(void)
{
    enum { LONG = 300000 }; /* more than MPI sends without the receiver */
    static int mine[LONG], got[LONG];
    MPI_Comm n[2];
    MPI_Request q[3];
    int in = 1, out = 0, before = (rank + size - 1) % size;
    MPI_Comm_idup(MPI_COMM_WORLD, &n[0], &q[0]);
    MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &q[1]);
    MPI_Waitall(2, q, MPI_STATUSES_IGNORE);
    for (int i = 0; i < LONG; i++)
        mine[i] = rank + i;
    MPI_Isend(mine, LONG, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &q[1]);
    MPI_Comm_idup(n[0], &n[1], &q[0]);
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < OPENING; i++)
        sum(n[0], i);
    MPI_Irecv(got, LONG, MPI_INT, before, 3, MPI_COMM_WORLD, &q[2]);
    MPI_Waitall(3, q, MPI_STATUSES_IGNORE);
    for (int i = 0; i < OPENING; i++)
        sum(n[1], i);
    if (out != size)
        wrong("sum beside idup");
    for (int i = 0; i < LONG; i++)
        if (got[i] != before + i) {
            wrong("message beside idup");
            break;
        }
}

/* ---- growth: descriptors and threads do not depend on the number of communicators ---- */

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    while (d && readdir(d))
        n++;
    closedir(d);
    return n;
}

static void run_growth(void)
{
    static MPI_Comm c[MANY];
    c[0] = used();
    c[1] = used();
    int fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int i = 2; i < MANY; i++)
        c[i] = used();
    if (entries("/proc/self/fd") > fds)
        wrong("more descriptors with more communicators");
    if (entries("/proc/self/task") > threads)
        wrong("more threads with more communicators");
    for (int i = 0; i < MANY; i++)
        MPI_Comm_free(&c[(i + rank * 7) % MANY]);
}

/* ---- threads: each has a communicator, opened by chance in another order on each rank, and not freed before the end ---- */

static MPI_Comm of_thread[THREADS];
static void *work(void *arg)
{
    int t = (int)(long)arg;
    usleep((unsigned)((rank * 7 + t * 13) % 10) * 3000);
    for (int i = 0; i < TURNS; i++) {
        int in = rank + t + i, out = 0;
        MPI_Request q;
        sum(of_thread[t], t + i);
        MPI_Iallreduce(&in, &out, 1, MPI_INT, MPI_SUM, of_thread[t], &q);
        MPI_Wait(&q, MPI_STATUS_IGNORE);
        if (out != size * (t + i) + size * (size - 1) / 2)
            wrong("sum of a thread");
    }
    return NULL;
}

static void run_threads(void)
{
    pthread_t thread[THREADS];
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, work, (void *)(long)t);
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
}

/* ---- alive: MPI_Finalize while threads live that have used MPI ---- */

static pthread_barrier_t all_used, all_over;
static void *work_and_stay(void *arg)
{
    work(arg);
    pthread_barrier_wait(&all_used);
    pthread_barrier_wait(&all_over);
    return NULL;
}

static void run_alive(void)
{
    pthread_t thread[THREADS];
    pthread_barrier_init(&all_used, NULL, THREADS + 1);
    pthread_barrier_init(&all_over, NULL, THREADS + 1);
    for (int t = 0; t < THREADS; t++)
        MPI_Comm_dup(MPI_COMM_WORLD, &of_thread[t]);
    for (int t = 0; t < THREADS; t++)
        pthread_create(&thread[t], NULL, work_and_stay, (void *)(long)t);
    pthread_barrier_wait(&all_used);
    MPI_Finalize();
    pthread_barrier_wait(&all_over);
    for (int t = 0; t < THREADS; t++)
        pthread_join(thread[t], NULL);
}

/* ---- session: no MPI_Init, no MPI_COMM_WORLD ---- */

#if MPI_VERSION >= 4
static MPI_Comm open_session(MPI_Session *s)
{
    MPI_Group g;
    MPI_Comm c;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, s);
    MPI_Group_from_session_pset(*s, "mpi://WORLD", &g);
    MPI_Comm_create_from_group(g, "test", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &c);
    MPI_Group_free(&g);
    return c;
}

static void run_session(void)
{
    MPI_Session s;
    MPI_Comm c = open_session(&s), d;
    MPI_Comm_rank(c, &rank);
    MPI_Comm_size(c, &size);
    MPI_Comm_dup(c, &d);
    for (int i = 0; i < OPENING; i++) {
        sum(c, i);
        sum(d, i);
    }
    MPI_Comm_free(&d);
    MPI_Comm_free(&c);
    MPI_Session_finalize(&s);
}

/* A session that lives longer than the rest: its communicators are used before, between and after MPI_Init and MPI_Finalize. */
static void run_both(void)
{
    MPI_Session s;
    MPI_Comm c = open_session(&s), d;
    int level;
    MPI_Comm_rank(c, &rank);
    MPI_Comm_size(c, &size);
    sum(c, 1);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_dup(c, &d);
    for (int i = 0; i < OPENING; i++) {
        sum(c, i);
        sum(d, i);
        sum(MPI_COMM_WORLD, i);
    }
    MPI_Comm_free(&d);
    MPI_Comm_dup(c, &d);
    for (int i = 0; i < OPENING; i++)
        sum(d, i);
    MPI_Finalize();
    for (int i = 0; i < OPENING; i++) {
        sum(c, i);
        sum(d, i);
    }
    MPI_Comm_free(&d);
    MPI_Comm_free(&c);
    MPI_Session_finalize(&s);
}
#endif

int main(int argc, char **argv)
{
    int given = 0, over = 0;
    const char *what = argc > 1 ? argv[1] : "";
#if MPI_VERSION >= 4
    if (!strcmp(what, "session") || !strcmp(what, "both")) {
        what[0] == 's' ? run_session() : run_both();
        return errors != 0;
    }
#endif
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &given);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!strcmp(what, "free"))
        run_free();
    else if (!strcmp(what, "drive"))
        run_drive();
    else if (!strcmp(what, "idup"))
        run_idup();
    else if (!strcmp(what, "growth"))
        run_growth();
    else if (!strcmp(what, "threads"))
        run_threads();
    else if (!strcmp(what, "alive"))
        run_alive();
    else
        wrong("no such test");
    MPI_Finalized(&over);
    if (!over)
        MPI_Finalize();
    return errors != 0;
}
