/* Saving and restoring what optimizers keep: 20 steps, everything read from the trainer, a new trainer that it is given to, 30 steps more;
 * must end with the bits of 50 steps without a break. The second trainer has the same policy, another one, or another number of ranks (one
 * rank less, or every rank alone). Run it with `tutti run -n N`; exit 1 on the first difference.
 *
 * All ranks have the same gradients, multiples of 1/64: sums and averages over up to 8 ranks are exact in every type and order, so that the
 * number of ranks cannot be seen in the result. One tensor is not used in every third step: updates are counted per tensor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tutti/tutti.h>

enum { TENSORS = 6, STEPS = 50, BREAK = 20, SOMETIMES = 3, ARRAYS = 3 };
static const size_t counts[TENSORS] = {1000, 7, 4099, 64, 3, 2001};
static const char *const names[TENSORS] = {"a.w", "a.b", "b.w", "c.w", "c.b", "d.w"};
/* What is trained: the dtype of even and odd tensors. */
static const tutti_dtype mixes[][2] = {{TUTTI_F32, TUTTI_F32}, {TUTTI_F64, TUTTI_F32}, {TUTTI_BF16, TUTTI_BF16}, {TUTTI_F16, TUTTI_F32}};

static struct tutti_comm *world;
static uint32_t rank, ranks;
static unsigned long checks;
static char where[200];

struct kind {
    const char *policy;
    tutti_optimizer optimizer;
    const tutti_dtype *mix;
};

/* Everything a checkpoint holds. */
struct saved {
    void *param[TENSORS], *state[TENSORS][ARRAYS];
    uint64_t updates[TENSORS];
};

static void die(const char *what, const char *why)
{
    fprintf(stderr, "rank %u: FAILED: %s: %s: %s\n", rank, where, what, why);
    exit(1);
}

static void need(bool right, const char *what)
{
    checks++;
    if (!right)
        die("wrong", what);
}

static void ok(struct tutti_trainer *t, tutti_status st, const char *what)
{
    if (st)
        die(what, tutti_trainer_last_error(t)->text);
}

static tutti_dtype dtype_of(const struct kind *k, unsigned i)
{
    return k->mix[i % 2];
}

static size_t each(tutti_dtype d)
{
    return d == TUTTI_F64 ? 8 : d == TUTTI_F32 ? 4 : 2;
}

/* v is a multiple of 1/64 below 2: every type holds it, bf16 and f16 as the upper bits of f32, moved. */
static void put(tutti_dtype d, void *a, size_t i, double v)
{
    float f = (float)v;
    uint32_t w;
    memcpy(&w, &f, sizeof w);
    if (d == TUTTI_F64)
        ((double *)a)[i] = v;
    else if (d == TUTTI_F32)
        ((float *)a)[i] = f;
    else if (d == TUTTI_BF16)
        ((uint16_t *)a)[i] = (uint16_t)(w >> 16);
    else
        ((uint16_t *)a)[i] = (uint16_t)(v == 0 ? 0 : (w >> 16 & 0x8000) | (((w & 0x7fffffff) - 0x38000000) >> 13));
}

static double value(unsigned step, unsigned tensor, size_t i)
{
    uint64_t h = (step * 131 + tensor) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    h = (h ^ (h >> 31)) * 0x94d049bb133111ebu;
    return ((double)((h >> 40) % 127) - 63) / 64;
}

static struct tutti_trainer *open_trainer(struct tutti_comm *c, const struct kind *k)
{
    struct tutti_error err;
    struct tutti_trainer *t;
    struct tutti_trainer_options o = {
        .size = sizeof o, .policy = k->policy, .optimizer = k->optimizer, .threshold_bytes = 9000, .first_bytes = 3000};
    o.partition_bytes = strcmp(k->policy, "bytescheduler") ? 0 : 4096;
    o.allow_unused = true;
    if (tutti_trainer_open(c, &o, &t, &err))
        die("open", err.text);
    for (unsigned i = 0; i < TENSORS; i++) {
        struct tutti_tensor x = {.size = sizeof x, .name = names[i], .count = counts[i], .dtype = dtype_of(k, i)};
        if (tutti_trainer_add(t, &x, NULL, &err))
            die("add", err.text);
    }
    struct tutti_group g = {.size = sizeof g, .lr = 0.01, .weight_decay = 0.001};
    g.momentum = k->optimizer == TUTTI_OPTIMIZER_SGD ? 0.9 : 0;
    if (tutti_trainer_set_group(t, 0, &g, &err) || tutti_trainer_freeze(t, &err))
        die("freeze", err.text);
    for (unsigned i = 0; i < TENSORS; i++)
        for (size_t e = 0; e < counts[i]; e++)
            put(dtype_of(k, i), tutti_trainer_param(t, i), e, value(1000, i, e));
    ok(t, tutti_trainer_reload(t), "reload");
    return t;
}

static void steps(struct tutti_trainer *t, const struct kind *k, unsigned from, unsigned to)
{
    for (unsigned step = from; step < to; step++) {
        for (unsigned i = TENSORS; i-- > 0;) {
            ok(t, tutti_trainer_wait_param(t, i), "wait_param");
            for (size_t e = 0; e < counts[i]; e++)
                put(dtype_of(k, i), tutti_trainer_grad(t, i), e, value(step, i, e));
            if (i != SOMETIMES || step % 3)
                ok(t, tutti_trainer_grad_ready(t, i), "grad_ready");
        }
        ok(t, tutti_trainer_step(t), "step");
    }
    ok(t, tutti_trainer_flush(t), "flush");
}

static unsigned arrays_of(const struct kind *k, unsigned i)
{
    return (k->optimizer == TUTTI_OPTIMIZER_SGD ? 1u : 2u) + (each(dtype_of(k, i)) == 2);
}

static void check_names(struct tutti_trainer *t, const struct kind *k, unsigned i)
{
    static const char *const adam[] = {"exp_avg", "exp_avg_sq", "master_param"}, *const sgd[] = {"momentum_buffer", "master_param"};
    const char *const *want = k->optimizer == TUTTI_OPTIMIZER_SGD ? sgd : adam;
    for (unsigned a = 0; a < arrays_of(k, i); a++)
        need(!strcmp(tutti_trainer_state_name(t, i, a), want[a]), "name of an array");
    need(!tutti_trainer_state_name(t, i, arrays_of(k, i)), "names end");
    need(tutti_trainer_state_bytes(t, i) == counts[i] * (dtype_of(k, i) == TUTTI_F64 ? 8 : 4), "bytes");
}

/* At first odd ranks do not want the arrays of tensor 0. */
static void save(struct tutti_trainer *t, const struct kind *k, struct saved *s)
{
    struct tutti_error err;
    memset(s, 0, sizeof *s);
    for (unsigned i = 0; i < TENSORS; i++) {
        size_t bytes = counts[i] * each(dtype_of(k, i));
        check_names(t, k, i);
        s->param[i] = malloc(bytes);
        memcpy(s->param[i], tutti_trainer_param(t, i), bytes);
        for (unsigned a = 0; a < arrays_of(k, i); a++) {
            s->state[i][a] = malloc(tutti_trainer_state_bytes(t, i));
            if (i == 0 && tutti_trainer_state_get(t, i, a, rank % 2 ? NULL : s->state[i][a], &err))
                die("get for some", err.text);
            if (tutti_trainer_state_get(t, i, a, s->state[i][a], &err))
                die("get", err.text);
        }
        s->updates[i] = tutti_trainer_updates(t, i);
    }
}

static void load(struct tutti_trainer *t, const struct kind *k, const struct saved *s)
{
    struct tutti_error err;
    for (unsigned i = 0; i < TENSORS; i++)
        memcpy(tutti_trainer_param(t, i), s->param[i], counts[i] * each(dtype_of(k, i)));
    ok(t, tutti_trainer_reload(t), "reload");
    for (unsigned i = 0; i < TENSORS; i++) {
        for (unsigned a = 0; a < arrays_of(k, i); a++)
            if (tutti_trainer_state_set(t, i, a, s->state[i][a], &err))
                die("set", err.text);
        if (tutti_trainer_set_updates(t, i, s->updates[i], &err))
            die("set updates", err.text);
    }
}

static void same(const struct kind *k, const struct saved *a, const struct saved *b)
{
    for (unsigned i = 0; i < TENSORS; i++) {
        need(!memcmp(a->param[i], b->param[i], counts[i] * each(dtype_of(k, i))), names[i]);
        for (unsigned n = 0; n < arrays_of(k, i); n++)
            need(!memcmp(a->state[i][n], b->state[i][n], counts[i] * (dtype_of(k, i) == TUTTI_F64 ? 8 : 4)), "state");
        need(a->updates[i] == b->updates[i], "updates");
    }
}

static void saved_free(struct saved *s)
{
    for (unsigned i = 0; i < TENSORS; i++) {
        free(s->param[i]);
        for (unsigned a = 0; a < ARRAYS; a++)
            free(s->state[i][a]);
    }
}

/* From the checkpoint to the end on another communicator; NULL: this rank is not of it. */
static void resume(struct tutti_comm *c, const struct kind *k, const struct saved *from, const struct saved *want)
{
    struct saved end;
    if (!c)
        return;
    struct tutti_trainer *t = open_trainer(c, k);
    load(t, k, from);
    steps(t, k, BREAK, STEPS);
    save(t, k, &end);
    same(k, &end, want);
    saved_free(&end);
    tutti_trainer_close(t);
}

/* Policy `first`, interrupted; then each of the others. */
static void try(const struct kind *first, const char *const *then, struct tutti_comm *fewer, struct tutti_comm *alone)
{
    struct saved middle, end;
    snprintf(where, sizeof where, "%s, optimizer %d, dtypes %d and %d", first->policy, (int)first->optimizer, (int)first->mix[0],
             (int)first->mix[1]);
    struct tutti_trainer *t = open_trainer(world, first);
    steps(t, first, 0, BREAK);
    save(t, first, &middle);
    need(middle.updates[0] == BREAK && middle.updates[SOMETIMES] == BREAK - (BREAK + 2) / 3, "updates at the break");
    steps(t, first, BREAK, STEPS);
    save(t, first, &end);
    tutti_trainer_close(t);
    for (; *then; then++) {
        struct kind k = {*then, first->optimizer, first->mix};
        snprintf(where, sizeof where, "%s then %s, optimizer %d, dtypes %d and %d", first->policy, k.policy, (int)k.optimizer,
                 (int)k.mix[0], (int)k.mix[1]);
        resume(world, &k, &middle, &end);
        resume(fewer, &k, &middle, &end);
        resume(alone, &k, &middle, &end);
    }
    saved_free(&middle);
    saved_free(&end);
}

static void refused(void)
{
    struct kind k = {"dear-sharded", TUTTI_OPTIMIZER_SGD, mixes[0]};
    struct tutti_error err;
    char byte;
    snprintf(where, sizeof where, "what is refused");
    struct tutti_trainer *t = open_trainer(world, &k);
    need(tutti_trainer_state_get(t, 0, 1, &byte, &err) == TUTTI_ERR_RANGE, "array 1 of sgd");
    need(tutti_trainer_state_set(t, TENSORS, 0, &byte, &err) == TUTTI_ERR_RANGE, "a tensor too many");
    need(tutti_trainer_set_updates(t, TENSORS, 1, NULL) == TUTTI_ERR_RANGE, "a tensor too many");
    need(tutti_trainer_state_bytes(t, TENSORS) == 0 && !tutti_trainer_state_name(t, TENSORS, 0), "a tensor too many");
    steps(t, &k, 0, 1); /* none of that stays */
    tutti_trainer_close(t);
}

int main(void)
{
    static const char *const sharded[] = {"dear-sharded", "sync", NULL}, *const some[] = {"dear-sharded", NULL};
    struct tutti_comm *fewer = NULL, *alone = NULL;
    struct tutti_error err;
    if (tutti_comm_open(NULL, &world, &err)) {
        fprintf(stderr, "open: %s\n", err.text);
        return 1;
    }
    rank = tutti_comm_rank(world);
    ranks = tutti_comm_size(world);
    if (tutti_comm_split(world, rank + 1 < ranks ? 0 : -1, 0, &fewer, &err) || tutti_comm_split(world, (int)rank, 0, &alone, &err))
        die("split", err.text);
    for (unsigned m = 0; m < sizeof mixes / sizeof *mixes; m++) {
        tutti_optimizer o = m % 2 ? TUTTI_OPTIMIZER_SGD : TUTTI_OPTIMIZER_ADAMW;
        try(&(struct kind){"dear-sharded", o, mixes[m]}, sharded, fewer, alone);
        try(&(struct kind){m % 2 ? "dear" : "bytescheduler", o, mixes[m]}, some, fewer, alone);
    }
    refused();
    if (rank == 0)
        printf("%lu checks on %u ranks\n", checks, ranks);
    tutti_comm_close(fewer);
    tutti_comm_close(alone);
    tutti_comm_close(world);
    return 0;
}
