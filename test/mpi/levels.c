/* levels.c - the MPI transport in a program that has initialised MPI itself, with any thread level: below MPI_THREAD_MULTIPLE no thread of
 * Tutti's may call MPI, and requests progress in the calls of their owner. The program's own messages are not disturbed.
 *
 * Usage: mpirun -n N levels single|funneled|multiple */
#include <dirent.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { N = 300000 };

static int level_of(const char *name)
{
    return !strcmp(name, "single") ? MPI_THREAD_SINGLE : !strcmp(name, "funneled") ? MPI_THREAD_FUNNELED : MPI_THREAD_MULTIPLE;
}

static int threads(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));)
        n += e->d_name[0] != '.';
    if (d)
        closedir(d);
    return n;
}

static int die(const char *what, const char *why)
{
    fprintf(stderr, "levels: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

int main(int argc, char **argv)
{
    static float in[N], out[N];
    int level, rank, size, before, token = -1;
    struct tutti_comm_options o = {.size = sizeof o, .transport = "mpi"};
    struct tutti_comm *comm;
    struct tutti_request *r;
    struct tutti_error err;
    MPI_Request message[2];
    MPI_Init_thread(&argc, &argv, level_of(argc > 1 ? argv[1] : ""), &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Irecv(&token, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message[0]);
    if (tutti_comm_open(&o, &comm, &err))
        return die("open", err.text);
    if ((int)tutti_comm_rank(comm) != rank || (int)tutti_comm_size(comm) != size)
        return die("open", "rank and size are not MPI's");
    for (int i = 0; i < N; i++)
        in[i] = (float)((i + rank) % 4);
    before = threads();
    if (tutti_allreduce_init(comm, in, out, N, TUTTI_F32, TUTTI_SUM, &r) || tutti_request_start(r))
        return die("start", tutti_comm_last_error(comm)->text);
    if (level < MPI_THREAD_MULTIPLE && threads() != before)
        return die("start", "a thread was made that would call MPI");
    if (tutti_request_wait(r))
        return die("wait", tutti_comm_last_error(comm)->text);
    for (int i = 0; i < N; i++) {
        int sum = 0;
        for (int k = 0; k < size; k++)
            sum += (i + k) % 4;
        if (out[i] != (float)sum)
            return die("allreduce", "a sum is wrong");
    }
    tutti_request_free(r);
    MPI_Isend(&rank, 1, MPI_INT, (rank + 1) % size, 3, MPI_COMM_WORLD, &message[1]);
    MPI_Waitall(2, message, MPI_STATUSES_IGNORE);
    if (token != (rank + size - 1) % size)
        return die("message", "the program's own message is not the one it sent");
    tutti_comm_close(comm);
    MPI_Finalize();
    return 0;
}
