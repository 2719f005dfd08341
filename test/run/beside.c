/* A trainer beside the communicator that it was opened on: both use the same sockets and one engine, and neither may stop the other.
 * Run it with `tutti run`; ThreadSanitizer watches it in tools/check.
 *
 *     sockets   opening, training with and closing two trainers leaves every rank with the sockets that its communicator had
 *     crossed   half of the ranks are in a call while the gradients that the others wait for become ready in another thread
 *     beside    a thread makes calls of all sorts while another one trains: sums, messages, started requests
 *     differs   (called as: beside differs) ranks call sums of different lengths while all train: that call is told, not the trainer's
 *     late      (called as: beside late) one rank is in a call that the others never come to, while all train on: what moves for the
 *               trainer is no reason to wait longer, and all ranks are told
 *     kept      (called as: beside kept) memory that was kept beyond its communicator is freed while a trainer of that communicator goes
 *               on: its buffers lie in the same heap
 *     order     trainers are closed in another order than they were opened, and opened anew */
#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>
#include <unistd.h>

enum { TENSORS = 6, COUNT = 20000, STEPS = 6, CALLS = 40, LARGE = 60001 };

static struct tutti_comm *comm;
static uint32_t rank, size;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "FAILED: rank %u: %s: %s\n", rank, what, why);
    exit(1);
}

static void must(tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_comm_last_error(comm)->text);
}

static uint32_t sockets(void)
{
    char name[300], target[32];
    uint32_t n = 0;
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        snprintf(name, sizeof name, "/proc/self/fd/%s", e->d_name);
        ssize_t got = readlink(name, target, sizeof target);
        n += got >= 7 && !memcmp(target, "socket:", 7);
    }
    if (d)
        closedir(d);
    return n;
}

/* ---- training ---- */

struct run {
    struct tutti_trainer *t;
    uint64_t steps; /* so far */
};

static void trained(struct run *r, tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_trainer_last_error(r->t)->text);
}

static void open_trainer(struct run *r)
{
    struct tutti_trainer_options o = {.size = sizeof o, .policy = "bucket", .optimizer = TUTTI_OPTIMIZER_SGD, .threshold_bytes = 100000};
    struct tutti_group g = {.size = sizeof g, .lr = 1};
    struct tutti_error err;
    size_t index;
    *r = (struct run){0};
    if (tutti_trainer_open(comm, &o, &r->t, &err) || tutti_trainer_set_group(r->t, 0, &g, &err))
        die("trainer", err.text);
    for (int i = 0; i < TENSORS; i++) {
        char name[16];
        struct tutti_tensor x = {.size = sizeof x, .name = name, .count = COUNT, .dtype = TUTTI_F32};
        snprintf(name, sizeof name, "tensor %d", i);
        if (tutti_trainer_add(r->t, &x, &index, &err))
            die("tensor", err.text);
    }
    if (tutti_trainer_freeze(r->t, &err))
        die("freeze", err.text);
}

/* The average gradient is 1: parameters are minus the steps. */
static void step(struct run *r)
{
    for (size_t i = TENSORS; i-- > 0;) {
        float *grad = tutti_trainer_grad(r->t, i);
        for (size_t k = 0; k < COUNT; k++)
            grad[k] = 2 * (float)(rank + 1) / (float)(size + 1);
        trained(r, tutti_trainer_grad_ready(r->t, i), "ready");
    }
    trained(r, tutti_trainer_step(r->t), "step");
    trained(r, tutti_trainer_flush(r->t), "flush");
    r->steps++;
    for (size_t i = 0; i < TENSORS; i++) {
        const float *param = tutti_trainer_param(r->t, i);
        for (size_t k = 0; k < COUNT; k++)
            if (param[k] + (float)r->steps > 0.001f || param[k] + (float)r->steps < -0.001f)
                die("step", "a wrong parameter");
    }
}

static void *steps(void *arg)
{
    for (int i = 0; i < STEPS; i++)
        step(arg);
    return NULL;
}

static void close_trainer(struct run *r)
{
    tutti_trainer_close(r->t);
}

/* ---- calls ---- */

static void sum(size_t count, float mine)
{
    static float in[LARGE], out[LARGE];
    float want = mine * (float)(size * (size + 1) / 2);
    for (size_t k = 0; k < count; k++)
        in[k] = mine * (float)(rank + 1);
    must(tutti_allreduce(comm, in, out, count, TUTTI_F32, TUTTI_SUM), "all-reduce");
    for (size_t k = 0; k < count; k++)
        if (out[k] != want)
            die("all-reduce", "a wrong sum");
}

static void pass(int32_t value)
{
    uint32_t to = (rank + 1) % size, from = (rank + size - 1) % size;
    int32_t got = -1;
    if (rank % 2)
        must(tutti_recv(comm, &got, 1, TUTTI_I32, from), "receive");
    must(tutti_send(comm, &value, 1, TUTTI_I32, to), "send");
    if (rank % 2 == 0)
        must(tutti_recv(comm, &got, 1, TUTTI_I32, from), "receive");
    if (got != value)
        die("receive", "a wrong value");
}

static void *calls(void *arg)
{
    static float in[LARGE], out[LARGE];
    struct tutti_request *r;
    (void)arg;
    must(tutti_allreduce_init(comm, in, out, LARGE, TUTTI_F32, TUTTI_SUM, &r), "request");
    for (int i = 0; i < CALLS; i++) {
        in[LARGE - 1] = (float)i;
        must(tutti_request_start(r), "start");
        sum(i % 4 ? 3 : LARGE, (float)(i % 5));
        if (size > 1)
            pass(i);
        must(tutti_request_wait(r), "wait");
        if (out[LARGE - 1] != (float)(i * (int)size))
            die("request", "a wrong sum");
    }
    tutti_request_free(r);
    return NULL;
}

static void *wait_for_all(void *arg)
{
    (void)arg;
    must(tutti_barrier(comm), "barrier");
    return NULL;
}

static pthread_t begin(void *(*work)(void *), void *arg)
{
    pthread_t t;
    if (pthread_create(&t, NULL, work, arg))
        die("thread", "it cannot be made");
    return t;
}

/* Even ranks are in the barrier before their first gradient is ready, odd ones train first. */
static void cross(struct run *r)
{
    if (rank % 2) {
        step(r);
        wait_for_all(NULL);
        return;
    }
    pthread_t t = begin(wait_for_all, NULL);
    usleep(50000); /* it is there: not necessary, but what is tested */
    step(r);
    pthread_join(t, NULL);
}

/* Everybody has a socket to everybody afterwards, whatever schedules are used. */
static uint32_t count_sockets(void)
{
    float *all = calloc(2 * (size_t)size, sizeof *all);
    if (!all)
        die("memory", "none");
    for (int i = 0; i < 2; i++)
        must(tutti_all_to_all(comm, all, all + size, 1, TUTTI_F32), "all-to-all");
    free(all);
    must(tutti_barrier(comm), "barrier");
    return sockets();
}

static void *wait_in_vain(void *arg)
{
    (void)arg;
    if (!tutti_barrier(comm))
        die("barrier", "all have come");
    return NULL;
}

static void *differ(void *arg)
{
    static float in[3], out[3];
    (void)arg;
    if (!tutti_allreduce(comm, in, out, 2 + rank % 2, TUTTI_F32, TUTTI_SUM))
        die("sum", "of two lengths");
    return NULL;
}

/* Ranks below `callers` are in a call that must fail while all train. Ends with the verdict. The parameters of a step that failed are
 * anything. */
static void train_beside(void *(*call)(void *), uint32_t callers)
{
    struct run r;
    pthread_t t = 0;
    tutti_status st = TUTTI_OK;
    open_trainer(&r);
    step(&r);
    if (rank < callers)
        t = begin(call, NULL);
    while (!st) {
        for (size_t i = TENSORS; !st && i-- > 0;)
            st = tutti_trainer_grad_ready(r.t, i);
        st = st ? st : tutti_trainer_step(r.t);
        st = st ? st : tutti_trainer_flush(r.t);
    }
    if (rank < callers)
        pthread_join(t, NULL);
    printf("was told: %s\n", tutti_trainer_last_error(r.t)->text);
    tutti_trainer_close(r.t);
}

/* Closing is collective, and the trainer goes on without the communicator that it was opened on. */
static void keep(void)
{
    struct tutti_error err;
    struct run r;
    void *memory;
    open_trainer(&r);
    if (tutti_mem_alloc(comm, 100000, &memory, &err))
        die("memory", err.text);
    step(&r);
    tutti_mem_keep(comm);
    tutti_comm_close(comm);
    memset(memory, 1, 100000);
    step(&r);
    tutti_mem_free(NULL, memory);
    step(&r);
    close_trainer(&r);
    if (rank == 0)
        printf("alive\n");
}

int main(int argc, char **argv)
{
    struct tutti_error err;
    struct run a, b;
    if (tutti_comm_open(NULL, &comm, &err))
        die("open", err.text);
    rank = tutti_comm_rank(comm);
    size = tutti_comm_size(comm);
    if (argc > 1 && !strcmp(argv[1], "kept")) {
        keep();
        return 0;
    }
    if (argc > 1) {
        bool differs = !strcmp(argv[1], "differs");
        train_beside(differs ? differ : wait_in_vain, differs ? size : 1);
        tutti_comm_close(comm);
        return 0;
    }
    uint32_t before = count_sockets();
    open_trainer(&a);
    open_trainer(&b);
    step(&a);
    cross(&b);
    pthread_t called = begin(calls, NULL), other = begin(steps, &b);
    steps(&a);
    pthread_join(other, NULL);
    pthread_join(called, NULL);
    uint32_t during = count_sockets();
    close_trainer(&a);
    sum(3, 1);
    step(&b);
    open_trainer(&a);
    step(&a);
    close_trainer(&b);
    close_trainer(&a);
    sum(LARGE, 2);
    uint32_t after = count_sockets();
    if (rank == 0)
        printf("%u sockets, %u with two trainers, %u afterwards\n", before, during, after);
    if (during != before || after != before)
        die("sockets", "trainers have some of their own");
    tutti_comm_close(comm);
    return 0;
}
