/* peer_mpi.c - a rank of the comparison in campaign.py: all-reduces through MPI until something fails, and writes down what it was told.
 * Its lines in DIR/RANK are those of member.c. Usage: peer_mpi DIR */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <mpi.h>

static int out = -1;

static void say(const char *what, int n, const char *text)
{
    char line[600];
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    int bytes = snprintf(line, sizeof line, "%lld %s %d %s\n", (long long)t.tv_sec * 1000000000 + t.tv_nsec, what, n, text);
    (void)!write(out, line, (size_t)bytes);
}

int main(int argc, char **argv)
{
    static float in[1000], sum[1000];
    char text[4096], path[4096];
    int rank, length, error = MPI_SUCCESS;
    time_t end = time(NULL) + 60;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    snprintf(path, sizeof path, "%s/%d", argv[1], rank);
    out = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (out < 0)
        MPI_Abort(MPI_COMM_WORLD, 2);
    for (int i = 0; !error && time(NULL) < end; i++) {
        if (i == 20)
            say("at many", getpid(), "");
        error = MPI_Allreduce(in, sum, 1000, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    }
    text[0] = 0;
    MPI_Error_string(error, text, &length);
    text[400] = 0;
    say("told 1 1", error, text);
    say("end 0", 0, "");
    _exit(0);
}
