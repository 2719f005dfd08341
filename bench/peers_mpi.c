/* MPI's all-reduce, timed the way `tutti bench` times ours (src/cli/cmd_bench.c): f32 sum, malloc'd buffers, out of place, three warm-up
 * calls, as many calls as fill a round, the best of three rounds' means, the slowest rank. Prints one JSON object per size, in
 * microseconds; element i of rank r is (i + r) mod 4, and the last result is compared whole. Built by bench/peers with the mpicc of each
 * MPI.
 *
 * Usage: mpirun -n N peers_mpi BEGIN END FACTOR ROUND_MS (sizes in bytes) */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

struct bench {
    int rank, ranks;
    size_t count;
    float *in, *out;
    double round_us;
};

static double now_us(void)
{
    return MPI_Wtime() * 1e6;
}

static void call(const struct bench *b)
{
    MPI_Allreduce(b->in, b->out, (int)b->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

/* Calls in a round: by the slower of the last two warm-up calls on the slowest rank, because an MPI that spins on crowded cores is fast
 * once and then waits a time slice for each call. */
static int choose_iters(const struct bench *b)
{
    double slow = 0.2, n;
    for (int i = 0; i < 3; i++) {
        double t = now_us();
        call(b);
        t = now_us() - t;
        slow = i > 0 && t > slow ? t : slow;
    }
    MPI_Allreduce(MPI_IN_PLACE, &slow, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    n = b->round_us / slow;
    return n < 3 ? 3 : n > 20000 ? 20000 : (int)n;
}

static double measure(const struct bench *b)
{
    int n = choose_iters(b);
    double best = 1e300;
    for (int round = 0; round < 3; round++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double t0 = now_us(), t, slowest;
        for (int i = 0; i < n; i++)
            call(b);
        t = (now_us() - t0) / n;
        MPI_Allreduce(&t, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        best = slowest < best ? slowest : best;
    }
    return best;
}

static void fill(const struct bench *b)
{
    for (size_t i = 0; i < b->count; i++) {
        b->in[i] = (float)((i + (size_t)b->rank) % 4);
        b->out[i] = 0;
    }
}

static long wrong(const struct bench *b)
{
    long mine = 0, all = 0;
    for (size_t i = 0; i < b->count; i++) {
        size_t sum = 0;
        for (size_t r = 0; r < (size_t)b->ranks; r++)
            sum += (i + r) % 4;
        mine += b->out[i] != (float)sum;
    }
    MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    return all;
}

int main(int argc, char **argv)
{
    struct bench b = {0};
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &b.rank);
    MPI_Comm_size(MPI_COMM_WORLD, &b.ranks);
    size_t begin = argc == 5 ? strtoull(argv[1], NULL, 10) : 0, end = argc == 5 ? strtoull(argv[2], NULL, 10) : 0,
           factor = argc == 5 ? strtoull(argv[3], NULL, 10) : 0;
    b.round_us = argc == 5 ? strtod(argv[4], NULL) * 1e3 : 0;
    b.in = malloc(end + 64);
    b.out = malloc(end + 64);
    if (begin < sizeof(float) || begin > end || factor < 2 || !b.in || !b.out) {
        fprintf(stderr, "usage: peers_mpi BEGIN END FACTOR ROUND_MS\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    for (size_t bytes = begin; bytes <= end; bytes *= factor) {
        b.count = bytes / sizeof(float);
        fill(&b);
        double t = measure(&b);
        long bad = wrong(&b);
        if (b.rank == 0) {
            printf("{\"bytes\": %zu, \"time_us\": %.4f, \"wrong\": %ld}\n", bytes, t, bad);
            fflush(stdout);
        }
    }
    free(b.in);
    free(b.out);
    MPI_Finalize();
    return 0;
}
