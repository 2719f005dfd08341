/* wire.c - gradients that travel as bf16 or f16 while parameters are f32: ranks agree on the bits, what rounding takes away is not lost
 * over many steps, and the result stays as close to an f32 run as error feedback promises. Usage: tutti run -n N -- wire */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { TENSORS = 3, STEPS = 40 };
static const size_t counts[TENSORS] = {5, 3000, 70001};
static int failures;

static void expect(bool ok, const char *what, double value)
{
    if (!ok)
        printf("FAILED: %s (%g)\n", what, value);
    failures += !ok;
}

/* Between -1 and 1, from the place alone; most are not bf16 numbers. */
static float noise(uint32_t rank, uint32_t step, uint32_t tensor, size_t i)
{
    uint64_t x = ((uint64_t)rank << 48) ^ ((uint64_t)step << 36) ^ ((uint64_t)tensor << 32) ^ i;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (float)((double)((x ^ (x >> 31)) >> 40) / (1 << 23) - 1);
}

static float *params[TENSORS];
static double *exact[TENSORS]; /* of SGD in f64, no rounding anywhere */

static void begin(void)
{
    for (int k = 0; k < TENSORS; k++) {
        params[k] = malloc(counts[k] * sizeof(float));
        exact[k] = malloc(counts[k] * sizeof(double));
        for (size_t i = 0; i < counts[k]; i++)
            exact[k][i] = params[k][i] = noise(99, 0, (uint32_t)k, i);
    }
}

static void end(void)
{
    for (int k = 0; k < TENSORS; k++) {
        free(params[k]);
        free(exact[k]);
    }
}

static struct tutti_trainer *make(struct tutti_comm *comm, const char *policy, tutti_dtype wire)
{
    static const char *const names[TENSORS] = {"a", "b", "c"};
    struct tutti_trainer_options o = {.size = sizeof o, .policy = policy, .algo = "direct", .optimizer = TUTTI_OPTIMIZER_SGD};
    struct tutti_group g = {.size = sizeof g, .lr = 0.125};
    struct tutti_error err;
    struct tutti_trainer *t = NULL;
    tutti_status st = tutti_trainer_open(comm, &o, &t, &err);
    for (int k = 0; !st && k < TENSORS; k++) {
        struct tutti_tensor x = {
            .size = sizeof x, .name = names[k], .count = counts[k], .dtype = wire, .param = params[k], .wide_param = true};
        st = tutti_trainer_add(t, &x, NULL, &err);
    }
    if (!st)
        st = tutti_trainer_set_group(t, 0, &g, &err);
    if (!st)
        st = tutti_trainer_freeze(t, &err);
    if (st) {
        printf("FAILED: %s: %s\n", policy, err.text);
        exit(1);
    }
    return t;
}

static void train(struct tutti_trainer *t, uint32_t rank, uint32_t ranks)
{
    float *grad = malloc(counts[TENSORS - 1] * sizeof *grad);
    for (uint32_t s = 0; s < STEPS; s++) {
        for (uint32_t k = TENSORS; k-- > 0;) {
            for (size_t i = 0; i < counts[k]; i++) {
                double sum = 0;
                grad[i] = noise(rank, s, k, i);
                for (uint32_t r = 0; r < ranks; r++)
                    sum += (double)noise(r, s, k, i);
                exact[k][i] -= 0.125 * sum / ranks;
            }
            size_t half = s % 2 ? counts[k] / 3 : 0; /* whole, or in two ranges */
            expect(!half || tutti_trainer_put_range(t, k, 0, half, grad) == TUTTI_OK, "a range", k);
            expect(half ? tutti_trainer_put_range(t, k, half, counts[k] - half, grad + half) == TUTTI_OK
                        : tutti_trainer_put_grad(t, k, grad) == TUTTI_OK,
                   "a gradient", k);
            expect(tutti_trainer_grad_ready(t, k) == TUTTI_OK, "a gradient", k);
        }
        expect(tutti_trainer_step(t) == TUTTI_OK, "a step", s);
        for (uint32_t k = 0; k < TENSORS; k++)
            expect(tutti_trainer_wait_param(t, k) == TUTTI_OK, "a parameter", k);
    }
    free(grad);
}

/* What is lost stays below one rounding of the gradients on their way out; the averages are rounded once more each step, at random. */
static void judge(struct tutti_comm *comm, tutti_dtype wire)
{
    double unit = wire == TUTTI_BF16 ? 1.0 / 256 : 1.0 / 2048, worst = 0, bias = 0;
    size_t all = 0;
    for (int k = 0; k < TENSORS; k++)
        for (size_t i = 0; i < counts[k]; i++, all++) {
            double d = (double)params[k][i] - exact[k][i];
            worst = fabs(d) > worst ? fabs(d) : worst;
            bias += d;
        }
    expect(worst < 0.125 * unit * (2 + 3 * sqrt(STEPS)), "far from f32", worst);
    expect(worst > 0, "nothing was rounded: is the wire what it should be?", worst);
    expect(fabs(bias / (double)all) < 0.125 * unit / 8, "a bias", bias / (double)all);
    for (int k = 0; k < TENSORS; k++) { /* the same bits everywhere */
        float *low = malloc(counts[k] * sizeof *low), *high = malloc(counts[k] * sizeof *high);
        expect(tutti_allreduce(comm, params[k], low, counts[k], TUTTI_F32, TUTTI_MIN) == TUTTI_OK, "min", k);
        expect(tutti_allreduce(comm, params[k], high, counts[k], TUTTI_F32, TUTTI_MAX) == TUTTI_OK, "max", k);
        expect(memcmp(low, high, counts[k] * sizeof *low) == 0, "ranks differ in tensor", k);
        free(low);
        free(high);
    }
}

static void refused(struct tutti_comm *comm)
{
    struct tutti_trainer_options o = {.size = sizeof o, .policy = "dear-sharded", .optimizer = TUTTI_OPTIMIZER_SGD};
    float p[8] = {0};
    struct tutti_tensor x = {.size = sizeof x, .name = "x", .count = 8, .dtype = TUTTI_BF16, .param = p, .wide_param = true};
    struct tutti_trainer *t = NULL;
    struct tutti_error err;
    expect(tutti_trainer_open(comm, &o, &t, &err) == TUTTI_OK, "open", 0);
    expect(tutti_trainer_add(t, &x, NULL, &err) == TUTTI_ERR_ARG && strstr(err.text, "wide"), "wide parameters on shards are refused", 0);
    x.wide_param = false;
    x.dtype = TUTTI_F32;
    expect(tutti_trainer_add(t, &x, NULL, &err) == TUTTI_OK, "an ordinary one is not", 0);
    tutti_trainer_close(t);
}

int main(void)
{
    static const char *const policies[] = {"sync", "bucket", "dear"};
    struct tutti_comm *comm = NULL;
    struct tutti_error err;
    if (tutti_comm_open(NULL, &comm, &err)) {
        printf("FAILED: %s\n", err.text);
        return 1;
    }
    uint32_t rank = tutti_comm_rank(comm), ranks = tutti_comm_size(comm);
    for (int p = 0; p < 3; p++)
        for (int w = 0; w < 2; w++) {
            tutti_dtype wire = w ? TUTTI_F16 : TUTTI_BF16;
            begin();
            struct tutti_trainer *t = make(comm, policies[p], wire);
            train(t, rank, ranks);
            expect(tutti_trainer_flush(t) == TUTTI_OK, "flush", p);
            judge(comm, wire);
            tutti_trainer_close(t);
            end();
        }
    refused(comm);
    tutti_comm_close(comm);
    if (rank == 0)
        printf("%d failures on %u ranks\n", failures, ranks);
    return failures != 0;
}
