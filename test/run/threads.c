/* Communicators of one world, each used by a thread of its own at the same time: sums, messages whose first one opens a connection,
 * started requests, splits and closing. Run it with `tutti run`; ThreadSanitizer watches it in tools/check. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <tutti/tutti.h>

enum { COMMS = 8, ROUNDS = 6, LARGE = 40001 };

static pthread_barrier_t all;

static void die(int i, const char *what, const char *why)
{
    fprintf(stderr, "FAILED: communicator %d: %s: %s\n", i, what, why);
    exit(1);
}

struct user {
    struct tutti_comm *comm;
    int number;
    uint32_t rank, size;
    float *in, *out;
};

static void must(const struct user *u, tutti_status st, const char *what)
{
    if (st)
        die(u->number, what, tutti_comm_last_error(u->comm)->text);
}

static void sum(const struct user *u, size_t count, int round)
{
    float want = 0;
    for (uint32_t r = 0; r < u->size; r++)
        want += (float)(r + 1) * (float)(u->number + 2 + round);
    for (size_t k = 0; k < count; k++) {
        u->in[k] = (float)(u->rank + 1) * (float)(u->number + 2 + round);
        u->out[k] = 0;
    }
    must(u, tutti_allreduce(u->comm, u->in, u->out, count, TUTTI_F32, TUTTI_SUM), "all-reduce");
    for (size_t k = 0; k < count; k++)
        if (u->out[k] != want)
            die(u->number, "all-reduce", "wrong sum");
}

/* One value from each rank to each other one, lower ranks first. */
static void messages(const struct user *u, int round)
{
    for (uint32_t to = 0; to < u->size; to++)
        for (uint32_t from = 0; from < u->size; from++) {
            int32_t v = (int32_t)(from * 1000) + u->number * 10 + round, got = -1;
            if (from == to)
                continue;
            if (u->rank == from)
                must(u, tutti_send(u->comm, &v, 1, TUTTI_I32, to), "send");
            if (u->rank == to)
                must(u, tutti_recv(u->comm, &got, 1, TUTTI_I32, from), "receive");
            if (u->rank == to && got != v)
                die(u->number, "receive", "wrong value");
        }
}

static void background(const struct user *u)
{
    struct tutti_request *r;
    for (size_t k = 0; k < LARGE; k++)
        u->in[k] = (float)u->number;
    must(u, tutti_allreduce_init(u->comm, u->in, u->out, LARGE, TUTTI_F32, TUTTI_SUM, &r), "request");
    for (int k = 0; k < 3; k++) {
        must(u, tutti_request_start(r), "start");
        must(u, tutti_request_wait(r), "wait");
        if (u->out[LARGE - 1] != (float)u->number * (float)u->size)
            die(u->number, "request", "wrong sum");
    }
    tutti_request_free(r);
}

static void *use(void *arg)
{
    struct user *u = arg, part = *u;
    struct tutti_error err;
    pthread_barrier_wait(&all);
    for (int round = 0; round < ROUNDS; round++) {
        sum(u, round % 2 ? LARGE : 3, round);
        messages(u, round);
    }
    background(u);
    if (tutti_comm_split(u->comm, 0, -(int)u->rank, &part.comm, &err))
        die(u->number, "split", err.text);
    part.rank = tutti_comm_rank(part.comm);
    sum(&part, 17, 0);
    messages(&part, 1);
    tutti_comm_close(u->number % 2 ? u->comm : part.comm);
    tutti_comm_close(u->number % 2 ? part.comm : u->comm);
    return NULL;
}

int main(void)
{
    struct user u[COMMS];
    pthread_t thread[COMMS];
    struct tutti_comm *world;
    struct tutti_error err;
    if (tutti_comm_open(NULL, &world, &err))
        die(-1, "open", err.text);
    pthread_barrier_init(&all, NULL, COMMS + 1);
    for (int i = 0; i < COMMS; i++) {
        u[i] = (struct user){.number = i, .rank = tutti_comm_rank(world), .size = tutti_comm_size(world)};
        u[i].in = malloc(LARGE * sizeof *u[i].in);
        u[i].out = malloc(LARGE * sizeof *u[i].out);
        if (!u[i].in || !u[i].out || tutti_comm_split(world, 0, (int)u[i].rank, &u[i].comm, &err))
            die(i, "split", err.text);
        if (pthread_create(&thread[i], NULL, use, &u[i]))
            die(i, "thread", "cannot be made");
    }
    pthread_barrier_wait(&all);
    tutti_comm_close(world); /* while the others are in use: they keep what they share */
    for (int i = 0; i < COMMS; i++) {
        pthread_join(thread[i], NULL);
        free(u[i].in);
        free(u[i].out);
    }
    pthread_barrier_destroy(&all);
    if (u[0].rank == 0)
        puts("threads passed");
    return 0;
}
