/* elastic.c - what an elastic trainer costs when nothing fails: two trainers of the same model on one
 * communicator, one of them elastic, take turns.
 *
 *     tutti run -n 2 -- build/bench/bench_elastic [POLICY [ROUNDS [COMPUTE_MS]]]
 *
 * 50 tensors of 25 million floats in all (ResNet-50 has as many), SGD with momentum. Computing is a
 * loop of arithmetic of COMPUTE_MS in all (300), a third of it forward. A round is four steps of
 * each and a flush, the first one by turns; the first round does not count. Rank 0 prints medians and
 * the quartiles of the ratio of the two times of a round. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tutti/tutti.h>

enum { TENSORS = 50, WARM = 1, STEPS = 4, ROUNDS_MAX = 1000 };

static uint32_t rank;
static double compute_ms = 300;
static volatile double sink;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "bench_elastic: rank %u: %s: %s\n", rank, what, why);
    exit(1);
}

static void check(struct tutti_trainer *t, tutti_status st, const char *what)
{
    if (st)
        fail(what, tutti_trainer_last_error(t)->text);
}

/* Work, not time: a core that is shared takes longer. `loops` per millisecond are measured once. */
static double loops;

static void compute(double ms)
{
    for (long i = 0, n = (long)(ms * loops); i < n; i++)
        sink = sink * 0.999999 + 1e-6;
}

static void calibrate(void)
{
    loops = 100000;
    double best = 1e9;
    for (int i = 0; i < 5; i++) {
        double start = now_ms();
        compute(20);
        best = now_ms() - start < best ? now_ms() - start : best;
    }
    loops *= 20 / best;
}

static struct tutti_trainer *make(struct tutti_comm *comm, const char *policy, bool elastic)
{
    struct tutti_trainer_options o = {.size = sizeof o, .policy = policy, .optimizer = TUTTI_OPTIMIZER_SGD, .elastic = elastic};
    struct tutti_group g = {.size = sizeof g, .lr = 0.01, .momentum = 0.9};
    struct tutti_trainer *t = NULL;
    struct tutti_error err = {0};
    if (tutti_trainer_open(comm, &o, &t, &err) || tutti_trainer_set_group(t, 0, &g, &err))
        fail("open", err.text);
    for (unsigned i = 0; i < TENSORS; i++) {
        char name[16];
        snprintf(name, sizeof name, "layer%u", i);
        /* Later layers are larger, as in a convolutional network. */
        struct tutti_tensor x = {.size = sizeof x, .name = name, .count = 20000 + 20000 * (size_t)i, .dtype = TUTTI_F32};
        if (tutti_trainer_add(t, &x, NULL, &err))
            fail("add", err.text);
    }
    if (tutti_trainer_freeze(t, &err))
        fail("freeze", err.text);
    return t;
}

static void step(struct tutti_trainer *t)
{
    for (unsigned i = 0; i < TENSORS; i++) {
        check(t, tutti_trainer_wait_param(t, i), "wait_param");
        compute(compute_ms / 3 / TENSORS);
    }
    for (unsigned i = TENSORS; i-- > 0;) {
        compute(compute_ms * 2 / 3 / TENSORS);
        check(t, tutti_trainer_grad_ready(t, i), "grad_ready");
    }
    check(t, tutti_trainer_step(t), "step");
}

/* Milliseconds per step. After the flush the other trainer begins with an idle network. */
static double some_steps(struct tutti_trainer *t)
{
    double start = now_ms();
    for (int i = 0; i < STEPS; i++)
        step(t);
    check(t, tutti_trainer_flush(t), "flush");
    return (now_ms() - start) / STEPS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(const double *all, unsigned n, double q)
{
    double sorted[ROUNDS_MAX];
    for (unsigned i = 0; i < n; i++)
        sorted[i] = all[i];
    qsort(sorted, n, sizeof *sorted, compare);
    return sorted[(unsigned)(q * (n - 1))];
}

int main(int argc, char **argv)
{
    const char *policy = argc > 1 ? argv[1] : "dear";
    int asked = argc > 2 ? atoi(argv[2]) : 20;
    unsigned rounds = asked > 0 && asked <= ROUNDS_MAX ? (unsigned)asked : 20;
    static double took[2][ROUNDS_MAX], ratio[ROUNDS_MAX];
    struct tutti_comm *comm = NULL;
    struct tutti_error err = {0};
    compute_ms = argc > 3 ? atof(argv[3]) : compute_ms;
    if (tutti_comm_open(NULL, &comm, &err))
        fail("open", err.text);
    rank = tutti_comm_rank(comm);
    calibrate();
    struct tutti_trainer *t[2] = {make(comm, policy, false), make(comm, policy, true)};
    for (unsigned r = 0; r < WARM + rounds; r++) {
        for (unsigned k = 0; k < 2; k++) {
            unsigned which = (r + k) % 2;
            double ms = some_steps(t[which]);
            if (r >= WARM)
                took[which][r - WARM] = ms;
        }
        if (r >= WARM)
            ratio[r - WARM] = took[1][r - WARM] / took[0][r - WARM];
    }
    if (rank == 0)
        printf("%s, %u ranks, %u rounds: step %.1f ms, elastic %.1f ms (medians); elastic / plain %.4f (quartiles %.4f to %.4f)\n",
               policy, tutti_comm_size(comm), rounds, quantile(took[0], rounds, 0.5), quantile(took[1], rounds, 0.5),
               quantile(ratio, rounds, 0.5), quantile(ratio, rounds, 0.25), quantile(ratio, rounds, 0.75));
    tutti_trainer_close(t[0]);
    tutti_trainer_close(t[1]);
    tutti_comm_close(comm);
    return 0;
}
