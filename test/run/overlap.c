/* Started requests progress while their owner computes: rank 0 starts several and then does not call for a while; the others, who need it,
 * must be done before it comes back. Clocks are those of one machine. Then threads join the requests while the communicator is used: rank 1
 * starts each of them only when a message of rank 0's tells it to. Run it with `tutti run`. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "api/tool.h"

enum { REQUESTS = 4, COUNT = 300001, ROUNDS = 3, JOINED = 20 };

static struct tutti_comm *comm;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, why);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

static void must(tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_comm_last_error(comm)->text);
}

/* Rank 0 is away for long; everybody notes when it was done, rank 0 when it came back. */
static void one_round(struct tutti_request **r, float *const *out, uint32_t rank, uint32_t n)
{
    int64_t done[64];
    for (int i = 0; i < REQUESTS; i++)
        must(tutti_request_start(r[i]), "start");
    if (rank == 0)
        nanosleep(&(struct timespec){.tv_sec = 1}, NULL);
    int64_t mine = rank == 0 ? now_us() : 0;
    for (int i = 0; i < REQUESTS; i++)
        must(tutti_request_wait(r[i]), "wait");
    mine = rank == 0 ? mine : now_us();
    for (int i = 0; i < REQUESTS; i++)
        for (size_t k = 0; k < COUNT; k += 1009)
            if (out[i][k] != (float)n * (float)(i + 1))
                die("sum", "wrong");
    must(tutti_all_gather(comm, &mine, done, 1, TUTTI_I64), "all-gather");
    for (uint32_t q = 1; q < n; q++)
        if (done[q] >= done[0])
            die("no progress in the background", "others had to wait for rank 0 to come back");
}

static void *join(void *arg)
{
    must(tutti_request_join(arg), "join");
    return NULL;
}

static void joined_round(struct tutti_request **r, float *const *out, uint32_t rank, uint32_t n)
{
    pthread_t thread[REQUESTS];
    float token = 1;
    for (int i = 0; i < REQUESTS; i++) {
        if (rank == 1)
            must(tutti_recv(comm, &token, 1, TUTTI_F32, 0), "receive");
        out[i][0] = out[i][COUNT - 1] = 0;
        must(tutti_request_start(r[i]), "start");
        if (pthread_create(&thread[i], NULL, join, r[i]))
            die("thread", "cannot be made");
        if (rank == 0 && n > 1)
            must(tutti_send(comm, &token, 1, TUTTI_F32, 1), "send");
    }
    for (int i = 0; i < REQUESTS; i++) {
        pthread_join(thread[i], NULL);
        if (out[i][0] != (float)n * (float)(i + 1) || out[i][COUNT - 1] != out[i][0])
            die("sum of a joined request", "wrong");
    }
}

int main(void)
{
    struct tutti_error err;
    struct tutti_request *r[REQUESTS];
    float *in[REQUESTS], *out[REQUESTS];
    if (tutti_comm_open(NULL, &comm, &err))
        die("open", err.text);
    uint32_t rank = tutti_comm_rank(comm), n = tutti_comm_size(comm);
    for (int i = 0; i < REQUESTS; i++) {
        in[i] = malloc(COUNT * sizeof(float));
        out[i] = malloc(COUNT * sizeof(float));
        for (size_t k = 0; k < COUNT; k++)
            in[i][k] = (float)(i + 1);
        must(tutti_allreduce_init(comm, in[i], out[i], COUNT, TUTTI_F32, TUTTI_SUM, &r[i]), "init");
    }
    for (int round = 0; round < ROUNDS; round++)
        one_round(r, out, rank, n);
    for (int round = 0; round < JOINED; round++)
        joined_round(r, out, rank, n);
    for (int i = 0; i < REQUESTS; i++) {
        tutti_request_free(r[i]);
        free(in[i]);
        free(out[i]);
    }
    tutti_comm_close(comm);
    return 0;
}
