/* ends.c - after an error MPI does not write into the caller's memory any more: rank 1 starts to send and then does nothing until rank 0
 * has been told that its time is over; what it sends afterwards must not reach the buffer of rank 0, which has other things in it by then.
 * Rank 0 closes while rank 1 is still away: that takes no time.
 *
 * Usage: mpirun -n 2 ends (over a way that needs both ends: Open MPI's btl tcp) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { N = 1 << 20, PATTERN = 7 };

static int die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, why);
    MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
}

/* Rank 1's part: what it has sent moves on only in its own calls. */
static void be_late(struct tutti_comm *c, float *x)
{
    struct tutti_request *r;
    if (tutti_broadcast_init(c, x, x, N, TUTTI_F32, 1, &r) || tutti_request_start(r))
        die("start", tutti_comm_last_error(c)->text);
    sleep(4);
    if (tutti_request_wait(r) == TUTTI_OK)
        die("rank 1", "was not told");
    tutti_request_free(r);
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

int main(void)
{
    struct tutti_comm_options o = {.size = sizeof o, .transport = "mpi", .timeout_us = 1000000};
    struct tutti_comm *c;
    struct tutti_error err;
    int rank, level;
    float *x = calloc(N, sizeof *x);
    MPI_Init_thread(NULL, NULL, MPI_THREAD_SINGLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (!x || tutti_comm_open(&o, &c, &err))
        return die("open", x ? err.text : "no memory");
    if (rank == 1)
        be_late(c, x);
    else if (tutti_broadcast(c, x, x, N, TUTTI_F32, 1) == TUTTI_OK)
        die("rank 0", "was not told");
    memset(x, PATTERN, N * sizeof *x);
    double began = seconds();
    tutti_comm_close(c);
    if (rank == 0)
        printf("rank 0 closed in %.2f s\n", seconds() - began);
    if (rank == 0 && seconds() - began > 0.7)
        return die("close", "it waits for a rank that is late");
    for (int i = 0; i < 3; i++) { /* MPI makes progress */
        MPI_Barrier(MPI_COMM_WORLD);
        usleep(100000);
    }
    for (size_t i = 0; i < N * sizeof *x; i++)
        if (((char *)x)[i] != PATTERN)
            return die("the buffer", "was written to after the error");
    MPI_Finalize();
    free(x);
    return 0;
}
