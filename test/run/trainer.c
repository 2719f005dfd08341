/* Trainers between real processes: every policy must end with the same bits on all ranks and the same bits as policy sync wherever no sum
 * depends on the order, and agree with an update in double precision on all ranks' gradients together. Run it with `tutti run -n N`;
 * TUTTI_TRANSPORT chooses the transport. Exit 1 on the first difference. With a word it does one wrong thing instead: twice, missing, some,
 * torn, again, differs, options, kill; every other rank must be told, and prints what it was told (trainer.sh looks at that). `time`: what
 * grad_ready takes.
 *
 * Gradients are multiples of 2^-10 that no rank count up to 8 can sum inexactly, so that sums are exact in any order. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

enum { TENSORS = 9, STEPS = 50, UNUSED = 6, SOMETIMES = 4, TIED = 0, MICRO = 2 };
static const size_t counts[TENSORS] = {1000, 7, 4099, 64, 513, 3, 250, 9001, 11};
static const char *const names[TENSORS] = {"embed.w", "conv1.b", "conv1.w", "norm.w", "gate.w", "norm.b", "extra.w", "fc.w", "fc.b"};
static const tutti_tensor_kind kinds[TENSORS] = {TUTTI_TENSOR_EMBEDDING, TUTTI_TENSOR_CONV,  TUTTI_TENSOR_CONV,
                                                 TUTTI_TENSOR_NORM,      TUTTI_TENSOR_OTHER, TUTTI_TENSOR_NORM,
                                                 TUTTI_TENSOR_OTHER,     TUTTI_TENSOR_FC,    TUTTI_TENSOR_FC};
static const char *const policies[] = {"sync",   "wfbp",        "bucket", "mgwfbp",      "bytescheduler",
                                       "hybrid", "hybrid-cost", "dear",   "dear-sharded"};

static struct tutti_comm *comm;
static uint32_t rank, ranks;
static unsigned long checks;
static const char *where = "";

/* What a run is like. */
struct kind {
    const char *policy;
    tutti_optimizer optimizer;
    bool rich; /* micro-batches, clipping, unused tensors, tied weights, tensors of the caller's own */
    bool doubles;
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "rank %u: FAILED: %s: %s: %s\n", rank, where, what, why);
    exit(1);
}

static void ok(struct tutti_trainer *t, tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_trainer_last_error(t)->text);
    checks++;
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
    return x ^ (x >> 32);
}

static double gradient(uint32_t r, unsigned step, unsigned micro, unsigned tensor, size_t i)
{
    uint64_t h = mix(mix(mix(r * 131 + step) + micro * 17 + tensor) + i);
    return ((double)(h % 2047) - 1023) / 1024;
}

static double first_value(unsigned tensor, size_t i)
{
    return ((double)(mix(tensor * 1000003 + i) % 4001) - 2000) / 1000;
}

/* Does rank r use the tensor in this step? One is never used, one not by all. */
static bool uses(const struct kind *k, uint32_t r, unsigned step, unsigned tensor)
{
    if (!k->rich)
        return true;
    return tensor != UNUSED && (tensor != SOMETIMES || (r + step) % 3 != 0);
}

/* ---- the reference: one process, all gradients, double precision ---- */

struct reference {
    double *p[TENSORS], *a[TENSORS], *b[TENSORS];
    double *after[STEPS + 1][TENSORS]; /* p before each step, and at the end */
    unsigned done[TENSORS];
};

static void reference_open(struct reference *f)
{
    memset(f, 0, sizeof *f);
    for (unsigned t = 0; t < TENSORS; t++) {
        f->p[t] = calloc(counts[t], sizeof(double));
        f->a[t] = calloc(counts[t], sizeof(double));
        f->b[t] = calloc(counts[t], sizeof(double));
        for (size_t i = 0; i < counts[t]; i++)
            f->p[t][i] = first_value(t, i);
    }
}

static void reference_close(struct reference *f)
{
    for (unsigned t = 0; t < TENSORS; t++) {
        free(f->p[t]);
        free(f->a[t]);
        free(f->b[t]);
        for (unsigned s = 0; s <= STEPS; s++)
            free(f->after[s][t]);
    }
}

static double average(const struct kind *k, unsigned step, unsigned t, size_t i)
{
    double sum = 0;
    for (uint32_t r = 0; r < ranks; r++)
        for (unsigned m = 0; uses(k, r, step, t) && m < (k->rich ? MICRO : 1u); m++)
            sum += gradient(r, step, m, t, i);
    return sum / ranks / (k->rich ? MICRO : 1);
}

static bool anybody(const struct kind *k, unsigned step, unsigned t)
{
    bool some = false;
    for (uint32_t r = 0; r < ranks; r++)
        some |= uses(k, r, step, t);
    return some;
}

/* Group 1 holds the odd tensors. The learning rate falls with the steps. */
static struct tutti_group group_of(const struct kind *k, unsigned g, unsigned step)
{
    bool adam = k->optimizer != TUTTI_OPTIMIZER_SGD;
    return (struct tutti_group){.size = sizeof(struct tutti_group),
                                .lr = (adam ? 0.01 : 0.05) / (1 + 0.1 * step) * (g ? 0.5 : 1),
                                .weight_decay = g ? 0.01 : 0,
                                .momentum = adam ? 0
                                            : g  ? 0.9
                                                 : 0.5,
                                .nesterov = !adam && g};
}

static double clip_limit(const struct kind *k)
{
    return k->rich ? 12 : 0;
}

static void reference_step(struct reference *f, const struct kind *k, unsigned step)
{
    double norm = 0, limit = clip_limit(k);
    for (unsigned t = 0; limit > 0 && t < TENSORS; t++)
        for (size_t i = 0; i < counts[t]; i++)
            norm += pow(average(k, step, t, i), 2);
    norm = sqrt(norm);
    double clip = limit > 0 && norm > limit ? limit / (norm + 1e-6) : 1;
    for (unsigned t = 0; t < TENSORS; t++) {
        struct tutti_group g = group_of(k, t % 2, step);
        if (!anybody(k, step, t))
            continue;
        unsigned n = ++f->done[t];
        for (size_t i = 0; i < counts[t]; i++) {
            double x = average(k, step, t, i) * clip, *p = &f->p[t][i], *a = &f->a[t][i], *b = &f->b[t][i];
            if (k->optimizer == TUTTI_OPTIMIZER_SGD) {
                x += g.weight_decay * *p;
                *a = g.momentum * *a + x;
                *p -= g.lr * (g.nesterov ? x + g.momentum * *a : *a);
            } else {
                *p *= 1 - g.lr * g.weight_decay;
                *a = 0.9 * *a + 0.1 * x;
                *b = 0.999 * *b + 0.001 * x * x;
                *p -= g.lr / (1 - pow(0.9, n)) * *a / (sqrt(*b / (1 - pow(0.999, n))) + 1e-8);
            }
        }
    }
}

static void keep(struct reference *f, unsigned step)
{
    for (unsigned t = 0; t < TENSORS; t++) {
        f->after[step][t] = calloc(counts[t], sizeof(double));
        memcpy(f->after[step][t], f->p[t], counts[t] * sizeof(double));
    }
}

static void reference_run(struct reference *f, const struct kind *k)
{
    reference_open(f);
    keep(f, 0);
    for (unsigned step = 0; step < STEPS; step++) {
        reference_step(f, k, step);
        keep(f, step + 1);
    }
}

/* ---- one run ---- */

struct run {
    const struct kind *k;
    struct tutti_trainer *t;
    void *param[TENSORS], *grad[TENSORS]; /* of the caller's own, or NULL */
    size_t each;
};

static void put(const struct run *u, void *a, size_t i, double v)
{
    if (u->k->doubles)
        ((double *)a)[i] = v;
    else
        ((float *)a)[i] = (float)v;
}

static double get(const struct run *u, const void *a, size_t i)
{
    return u->k->doubles ? ((const double *)a)[i] : (double)((const float *)a)[i];
}

static void *param_of(struct run *u, unsigned i)
{
    return u->param[i] ? u->param[i] : tutti_trainer_param(u->t, i);
}

/* Policies that reach into the next forward pass: their large tensors are cut in parts. */
static bool crosses(const char *policy)
{
    return !strcmp(policy, "bytescheduler") || !strncmp(policy, "dear", 4);
}

static void open_run(struct run *u, const struct kind *k)
{
    struct tutti_error err;
    struct tutti_trainer_options o = {.size = sizeof o,
                                      .policy = k->policy,
                                      .optimizer = k->optimizer,
                                      .threshold_bytes = 9000,
                                      .first_bytes = 5000,
                                      .partition_bytes = crosses(k->policy) ? 4096 : 0,
                                      .clip_norm = clip_limit(k),
                                      .allow_unused = k->rich};
    *u = (struct run){.k = k, .each = k->doubles ? 8 : 4};
    if (tutti_trainer_open(comm, &o, &u->t, &err))
        die("open", err.text);
    for (unsigned i = 0; i < TENSORS; i++) {
        bool own = k->rich && i % 3 == 1;
        u->param[i] = own || i == 2 ? calloc(counts[i], u->each) : NULL;
        u->grad[i] = own ? calloc(counts[i], u->each) : NULL;
        struct tutti_tensor x = {
            .size = sizeof x, .name = names[i], .count = counts[i], .kind = kinds[i], .param = u->param[i], .grad = u->grad[i]};
        x.dtype = k->doubles ? TUTTI_F64 : TUTTI_F32;
        x.group = i % 2;
        x.layer = i == 1 || i == 2 ? 7 : 0;
        x.uses = k->rich && i == TIED ? 2 : 0;
        x.forward_us = x.backward_us = (double)counts[i] / 100 * (rank + 1); /* rank 0's count */
        for (size_t e = 0; u->param[i] && e < counts[i]; e++)
            put(u, u->param[i], e, rank == 0 ? first_value(i, e) : -1);
        size_t index = 99;
        if (tutti_trainer_add(u->t, &x, &index, &err) || index != i)
            die("add", err.text);
    }
    for (unsigned g = 0; g < 2; g++) {
        struct tutti_group v = group_of(k, g, 0);
        if (tutti_trainer_set_group(u->t, g, &v, &err))
            die("group", err.text);
    }
    if (tutti_trainer_freeze(u->t, &err))
        die("freeze", err.text);
    if (k->rich)
        ok(u->t, tutti_trainer_set_scale(u->t, 1.0 / MICRO), "scale");
    /* Parameters in the trainer's memory begin with zeros; this is how they are set. */
    for (unsigned i = 0; i < TENSORS; i++)
        for (size_t e = 0; !u->param[i] && e < counts[i]; e++)
            put(u, tutti_trainer_param(u->t, i), e, first_value(i, e));
    ok(u->t, tutti_trainer_reload(u->t), "reload");
}

static void close_run(struct run *u)
{
    tutti_trainer_close(u->t);
    for (unsigned i = 0; i < TENSORS; i++) {
        free(u->param[i]);
        free(u->grad[i]);
    }
}

static void add_gradient(struct run *u, unsigned step, unsigned micro, unsigned i)
{
    void *g = u->grad[i] ? u->grad[i] : tutti_trainer_grad(u->t, i);
    for (size_t e = 0; e < counts[i]; e++)
        put(u, g, e, get(u, g, e) + gradient(rank, step, micro, i, e));
}

/* Hooks fire in another order on every rank and in every step. */
static void shuffle(unsigned *order, unsigned step)
{
    for (unsigned i = 0; i < TENSORS; i++)
        order[i] = TENSORS - 1 - i;
    for (unsigned i = TENSORS - 1; i > 0; i--) {
        unsigned j = (unsigned)(mix(step * 97 + rank * 7 + i) % (i + 1)), x = order[i];
        order[i] = order[j];
        order[j] = x;
    }
}

static size_t parts_of(struct run *u, unsigned i)
{
    size_t n = 0, first, count, end = 0;
    for (; tutti_trainer_part(u->t, i, n, &first, &count); n++) {
        if (first != end || count == 0)
            die("part", names[i]);
        end = first + count;
    }
    if (end != counts[i])
        die("parts", names[i]);
    return n;
}

/* In every other step part by part, from the last or from the first. */
static void hand_over(struct run *u, unsigned step, unsigned i)
{
    size_t n = parts_of(u, i);
    if (n == 1 || step % 2 == 0 || u->grad[i]) {
        ok(u->t, tutti_trainer_grad_ready(u->t, i), "grad_ready");
        return;
    }
    for (size_t k = 0; k < n; k++)
        ok(u->t, tutti_trainer_part_ready(u->t, i, step % 4 == 1 ? n - 1 - k : k), "part_ready");
}

static void backward(struct run *u, unsigned step)
{
    unsigned order[TENSORS], micros = u->k->rich ? MICRO : 1;
    shuffle(order, step);
    for (unsigned m = 0; m < micros; m++) {
        ok(u->t, tutti_trainer_sync(u->t, m + 1 == micros), "sync");
        for (unsigned n = 0; n < TENSORS; n++) {
            unsigned i = order[n];
            if (!uses(u->k, rank, step, i))
                continue;
            add_gradient(u, step, m, i);
            if (m + 1 == micros && !(u->k->rich && i == TIED))
                hand_over(u, step, i);
            else
                ok(u->t, tutti_trainer_grad_ready(u->t, i), "grad_ready");
            if (u->k->rich && i == TIED)
                ok(u->t, tutti_trainer_grad_ready(u->t, i), "grad_ready of the other use");
        }
    }
}

static void compare(struct run *u, double *const *want_of, unsigned i, double tolerance)
{
    const void *p = param_of(u, i);
    for (size_t e = 0; e < counts[i]; e++) {
        double have = get(u, p, e), want = want_of[i][e];
        if (!(fabs(have - want) <= tolerance * (1 + fabs(want)))) {
            char text[160];
            snprintf(text, sizeof text, "%s[%zu] is %.9g, not %.9g", names[i], e, have, want);
            die("parameter", text);
        }
        checks++;
    }
}

/* The bits of all parameters, the same on all ranks or else. */
static uint64_t bits(struct run *u)
{
    uint64_t h = 1, all[64];
    for (unsigned i = 0; i < TENSORS; i++)
        for (size_t b = 0; b < counts[i] * u->each; b++)
            h = (h ^ ((const unsigned char *)param_of(u, i))[b]) * 0x100000001b3u;
    if (tutti_all_gather(comm, &h, all, 1, TUTTI_I64))
        die("all-gather", tutti_comm_last_error(comm)->text);
    for (uint32_t r = 0; r < ranks; r++)
        if (all[r] != h)
            die("bits", "ranks have different parameters");
    return h;
}

/* The caller's own collectives go on beside the trainer's. */
static void meanwhile(unsigned step)
{
    float x = (float)(rank + step);
    if (tutti_allreduce(comm, &x, &x, 1, TUTTI_F32, TUTTI_MAX) || x != (float)(ranks - 1 + step))
        die("the caller's all-reduce", "wrong");
}

/* Before tensor i is used: whole, or part by part, each of which must be complete when it has been waited for. */
static void wait_for(struct run *u, double *const *want, unsigned i, double tolerance)
{
    size_t first, count;
    for (size_t k = 0; want && tutti_trainer_part(u->t, i, k, &first, &count); k++) {
        ok(u->t, tutti_trainer_wait_part(u->t, i, k), "wait_part");
        for (size_t e = first; !u->param[i] && e < first + count; e++, checks++)
            if (!(fabs(get(u, tutti_trainer_param(u->t, i), e) - want[i][e]) <= tolerance * (1 + fabs(want[i][e]))))
                die("a part after wait_part", names[i]);
    }
    ok(u->t, tutti_trainer_wait_param(u->t, i), "wait_param");
}

static uint64_t train(const struct kind *k, const struct reference *f)
{
    struct run u;
    struct tutti_error err;
    double tolerance = k->doubles ? 1e-12 : k->optimizer == TUTTI_OPTIMIZER_SGD ? 2e-5 : 2e-4;
    open_run(&u, k);
    for (unsigned step = 0; step < STEPS; step++) {
        for (unsigned i = 0; i < TENSORS; i++) {
            wait_for(&u, step % 3 == 1 ? f->after[step] : NULL, i, tolerance);
            if (step % 7 == 1)
                compare(&u, f->after[step], i, tolerance);
        }
        for (unsigned g = 0; g < 2; g++) {
            struct tutti_group v = group_of(k, g, step);
            if (tutti_trainer_set_group(u.t, g, &v, &err))
                die("group", err.text);
        }
        backward(&u, step);
        ok(u.t, tutti_trainer_step(u.t), "step");
        if (step == STEPS / 2) { /* a scheduler: must not change what the step before still has to do */
            struct tutti_group v = group_of(k, 0, 10 * STEPS);
            tutti_trainer_set_group(u.t, 0, &v, &err);
        }
        if (step % 10 == 3)
            meanwhile(step);
    }
    ok(u.t, tutti_trainer_flush(u.t), "flush");
    for (unsigned i = 0; i < TENSORS; i++)
        compare(&u, f->after[STEPS], i, tolerance);
    if (k->rich && (tutti_trainer_used(u.t, UNUSED) || !(tutti_trainer_norm(u.t) > 0)))
        die("norm and use", "not as they should be");
    uint64_t h = bits(&u);
    close_run(&u);
    return h;
}

/* Without optimizer: averages, bit by bit, in views and in the caller's memory. */
static void averages(const char *policy)
{
    struct kind k = {.policy = policy, .optimizer = TUTTI_OPTIMIZER_NONE, .rich = false};
    struct tutti_trainer_options o = {.size = sizeof o, .policy = policy, .threshold_bytes = 9000};
    struct run u = {.k = &k, .each = 4};
    struct tutti_error err;
    static float own[64];
    if (tutti_trainer_open(comm, &o, &u.t, &err))
        die("open", err.text);
    for (unsigned i = 0; i < TENSORS; i++) {
        struct tutti_tensor x = {.size = sizeof x, .name = names[i], .count = counts[i], .grad = i == 3 ? own : NULL};
        if (tutti_trainer_add(u.t, &x, NULL, &err))
            die("add", err.text);
    }
    if (tutti_trainer_freeze(u.t, &err))
        die("freeze", err.text);
    u.grad[3] = own;
    for (unsigned step = 0; step < 3; step++) {
        for (unsigned i = 0; i < TENSORS; i++)
            memset(u.grad[i] ? u.grad[i] : tutti_trainer_grad(u.t, i), 0, counts[i] * 4);
        backward(&u, step);
        ok(u.t, tutti_trainer_step(u.t), "step");
        for (unsigned i = 0; i < TENSORS; i++) {
            ok(u.t, tutti_trainer_wait_param(u.t, i), "wait_param");
            const float *g = u.grad[i] ? u.grad[i] : tutti_trainer_grad(u.t, i);
            for (size_t e = 0; e < counts[i]; e++, checks++)
                if (g[e] != (float)(average(&k, step, i, e) * ranks) / (float)ranks)
                    die("average", names[i]);
        }
    }
    tutti_trainer_close(u.t);
}

/* Gradients are looked at, and halved, between their averaging and the update: p -= 1 * average / 2, in every step anew. */
static void looked(const char *policy)
{
    enum { N = 5000 };
    struct tutti_error err;
    struct tutti_trainer *t;
    struct tutti_trainer_options o = {.size = sizeof o, .policy = policy, .optimizer = TUTTI_OPTIMIZER_SGD, .threshold_bytes = 4096};
    struct tutti_tensor x = {.size = sizeof x, .name = "w", .count = N};
    struct tutti_group g = {.size = sizeof g, .lr = 1};
    where = policy;
    if (tutti_trainer_open(comm, &o, &t, &err) || tutti_trainer_add(t, &x, NULL, &err) || tutti_trainer_set_group(t, 0, &g, &err) ||
        tutti_trainer_freeze(t, &err))
        die("making", err.text);
    float *grad = tutti_trainer_grad(t, 0), *p = tutti_trainer_param(t, 0), want = 0;
    for (int step = 1; step <= 4; step++) {
        for (size_t e = 0; e < N; e++)
            grad[e] = (float)(step * (int)(rank + 1) * 8);
        float mean = (float)(step * 4 * (int)(ranks + 1));
        ok(t, tutti_trainer_grad_ready(t, 0), "grad_ready");
        ok(t, step % 2 ? tutti_trainer_average(t) : TUTTI_OK, "average");
        for (size_t e = 0; step % 2 && e < N; e++, checks++) {
            if (grad[e] != mean || p[e] != want)
                die("average", "wrong, or updated already");
            grad[e] /= 2;
        }
        ok(t, tutti_trainer_step(t), "step");
        ok(t, tutti_trainer_wait_param(t, 0), "wait_param");
        want -= step % 2 ? mean / 2 : mean;
        for (size_t e = 0; e < N; e++, checks++)
            if (p[e] != want)
                die("update", "not with the gradients as they were left");
    }
    tutti_trainer_close(t);
}

static void right(void)
{
    static const tutti_optimizer optimizers[] = {TUTTI_OPTIMIZER_SGD, TUTTI_OPTIMIZER_ADAMW};
    for (unsigned n = 0; n < 8; n++) {
        uint64_t first = 0;
        struct reference f;
        reference_run(&f, &(struct kind){.optimizer = optimizers[n / 2 % 2], .rich = n % 2});
        for (unsigned p = 0; p < sizeof policies / sizeof *policies; p++) {
            struct kind k = {.policy = policies[p], .optimizer = optimizers[n / 2 % 2], .rich = n % 2, .doubles = n / 4};
            char text[80];
            if (k.doubles && p % 4) /* sync, bytescheduler, dear-sharded */
                continue;
            snprintf(text, sizeof text, "%s, %s%s%s", policies[p], n / 2 % 2 ? "adamw" : "sgd", k.rich ? ", rich" : "",
                     k.doubles ? ", f64" : "");
            where = text;
            uint64_t h = train(&k, &f);
            first = p == 0 ? h : first;
            if (!k.rich && h != first) /* the norm is summed in another order */
                die("bits", "not those of policy sync");
        }
        reference_close(&f);
    }
    where = "averages";
    for (unsigned p = 0; p + 1 < sizeof policies / sizeof *policies; p++)
        averages(policies[p]);
    for (unsigned p = 0; p + 1 < sizeof policies / sizeof *policies; p++)
        looked(policies[p]);
}

/* ---- wrong ---- */

static void told(struct tutti_trainer *t, tutti_status st)
{
    printf("rank %u was told: %s: %s\n", rank, tutti_strerror(st), t ? tutti_trainer_last_error(t)->text : "");
    fflush(stdout);
    if (!st)
        die("nothing", "was wrong");
    if (t && tutti_trainer_step(t) != st)
        die("the error", "did not stay");
}

static void wrong_freeze(const char *what)
{
    struct tutti_error err = {0};
    struct tutti_trainer *t;
    bool odd = rank == ranks - 1;
    struct tutti_trainer_options o = {.size = sizeof o, .policy = !strcmp(what, "options") && odd ? "wfbp" : "bucket"};
    if (tutti_trainer_open(comm, &o, &t, &err))
        die("open", err.text);
    for (unsigned i = 0; i < TENSORS; i++) {
        unsigned k = !strcmp(what, "differs") && odd && (i == 3 || i == 5) ? 8 - i : i;
        struct tutti_tensor x = {.size = sizeof x, .name = names[k], .count = counts[k]};
        if (tutti_trainer_add(t, &x, NULL, &err))
            die("add", err.text);
    }
    tutti_status st = tutti_trainer_freeze(t, &err);
    printf("rank %u was told: %s\n", rank, err.text);
    if (st != TUTTI_ERR_DIFFERS)
        die("freeze", "did not refuse");
    tutti_trainer_close(t);
}

/* Does nothing until the others have given up on this rank: they must not wait for ever. */
static void until_told(struct tutti_trainer *t)
{
    for (unsigned i = 0; i < 1000 && !tutti_trainer_last_error(t)->status; i++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void wrong_step(const char *what)
{
    struct kind k = {.policy = "dear-sharded", .optimizer = TUTTI_OPTIMIZER_SGD};
    struct run u;
    bool me = rank == ranks - 1;
    tutti_status st = TUTTI_OK;
    open_run(&u, &k);
    for (unsigned step = 0; !st && step < 1000; step++) {
        for (unsigned i = TENSORS; i-- > 0 && !st;) {
            bool torn = !strcmp(what, "torn"), again = !strcmp(what, "again");
            if (step == 3 && i == 4 && me && (!strcmp(what, "missing") || !strcmp(what, "some")))
                continue;
            if (step == 3 && i == 7 && me && (torn || again)) {
                st = tutti_trainer_part_ready(u.t, i, 1);
                st = again && !st ? tutti_trainer_part_ready(u.t, i, 1) : st;
                continue;
            }
            st = tutti_trainer_grad_ready(u.t, i);
            if (step == 3 && i == 4 && me && !strcmp(what, "twice") && !st)
                st = tutti_trainer_grad_ready(u.t, i);
            if (step == 3 && i == 4 && me && !strcmp(what, "kill"))
                raise(SIGKILL);
        }
        if (step == 3 && me && !strcmp(what, "some"))
            until_told(u.t);
        if (!st)
            st = tutti_trainer_step(u.t);
        for (unsigned i = 0; !st && i < TENSORS; i++)
            st = tutti_trainer_wait_param(u.t, i);
    }
    told(u.t, st);
    close_run(&u);
}

/* grad_ready when the bucket is not full: one bucket of all tensors, the last one excepted. */
static void overhead(void)
{
    enum { N = 2000 };
    struct tutti_error err;
    struct tutti_trainer *t;
    struct tutti_trainer_options o = {.size = sizeof o, .policy = "sync"};
    double best = 1e9;
    if (tutti_trainer_open(comm, &o, &t, &err))
        die("open", err.text);
    for (unsigned i = 0; i < N; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%u", i);
        struct tutti_tensor x = {.size = sizeof x, .name = name, .count = 64};
        if (tutti_trainer_add(t, &x, NULL, &err))
            die("add", err.text);
    }
    if (tutti_trainer_freeze(t, &err))
        die("freeze", err.text);
    for (unsigned step = 0; step < 20; step++) {
        struct timespec a, b;
        ok(t, tutti_trainer_grad_ready(t, N - 1), "grad_ready");
        clock_gettime(CLOCK_MONOTONIC, &a);
        for (unsigned i = N - 1; i-- > 1;)
            if (tutti_trainer_grad_ready(t, i))
                die("grad_ready", "failed");
        clock_gettime(CLOCK_MONOTONIC, &b);
        double ns = ((double)(b.tv_sec - a.tv_sec) * 1e9 + (double)(b.tv_nsec - a.tv_nsec)) / (N - 2);
        best = ns < best ? ns : best;
        ok(t, tutti_trainer_grad_ready(t, 0), "grad_ready");
        ok(t, tutti_trainer_step(t), "step");
    }
    printf("rank %u: grad_ready %.1f ns\n", rank, best);
    tutti_trainer_close(t);
}

int main(int argc, char **argv)
{
    struct tutti_error err;
    const char *what = argc > 1 ? argv[1] : "";
    if (tutti_comm_open(NULL, &comm, &err)) {
        fprintf(stderr, "open: %s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    if (!strcmp(what, "differs") || !strcmp(what, "options"))
        wrong_freeze(what);
    else if (!strcmp(what, "time"))
        overhead();
    else if (*what)
        wrong_step(what);
    else
        right();
    if (!*what && rank == 0)
        printf("%lu checks on %u ranks\n", checks, ranks);
    tutti_comm_close(comm);
    return 0;
}
