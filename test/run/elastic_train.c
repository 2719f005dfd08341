/* elastic_train.c - a trainer whose ranks come and go: elastic_train STEPS [COUNT [PAUSE_US [EVERY]]].
 *
 * Takes the place of elastic.c under elastic.py and prints the same lines, and before END a line
 * MIXED: in how many steps buckets were averaged by different ranks. ELASTIC_POLICY [dear],
 * ELASTIC_OPTIMIZER [sgd with momentum; adam], ELASTIC_CLIP (a norm; the last tensor is then used in
 * every other step only). A process has a number (ELASTIC_ID, else its rank), and its gradients
 * depend on number and step only: multiples of 2^-10, whose sums are exact in any order.
 *
 * Who took part in a step is written in the parameters themselves: each layer, which is a bucket,
 * has a tensor with an element for each number, gradient 1 at the own one, lr 1 and no momentum, so
 * that a step changes exactly the elements of those whose gradients were averaged in this bucket.
 * Every process keeps this history (newcomers get it as the caller's bytes), repeats it at the end
 * alone, with a trainer of one rank that is given the means, and compares all parameters and the
 * optimizer's state bit by bit. The last tensor carries the wish to stop.
 *
 * ELASTIC_DIE=rank: the process that was started as this rank kills itself in the middle of the
 * backward pass of step 200. ELASTIC_SPOIL=rank: it changes a bit of a parameter after step 50. */
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>
#include <unistd.h>

#include "run/elastic.h"

enum { IDS = 1024, LAYERS = 6, STOP = 2 * LAYERS, TENSORS, MOST = 4096 };

/* Tensors of layer l: 2 l has the data, 2 l + 1 says who took part. */
static bool tells(unsigned tensor)
{
    return tensor < STOP && tensor % 2;
}

/* From step `step` on, these took part. */
struct period {
    uint64_t step;
    uint8_t in[IDS / 8];
};

struct history {
    uint64_t recorded; /* steps */
    uint32_t n[LAYERS];
    float who[LAYERS][IDS]; /* then */
    struct period of[LAYERS][MOST];
};

static struct history past;
static size_t counts[TENSORS];
/* latest: after the last step; before: after the one before it */
static float *params[TENSORS], *latest[TENSORS], *before[TENSORS];
static uint64_t seen_steps, mixed; /* mixed: buckets of one step were averaged by different ranks */
static struct tutti_comm *comm;
static struct tutti_trainer *trainer;
static uint64_t limit = 1000, every = 4;
static uint32_t id;
static double clip;

static bool adam(void)
{
    const char *name = getenv("ELASTIC_OPTIMIZER");
    return name && !strcmp(name, "adam");
}

/* ---- gradients ---- */

/* One tensor is used in every other step only, where that is allowed. */
static bool uses(uint64_t step, unsigned tensor)
{
    return clip == 0 || tensor != 2 * (LAYERS - 1) || step % 2 == 0;
}

static float gradient(uint64_t step, uint32_t who, unsigned tensor, size_t i)
{
    return (float)((int)(scramble(step * 1000003 + who * 8191 + tensor * 131 + i * 7) % 2047) - 1023) / 1024;
}

static void write_gradients(uint64_t step)
{
    const char *stop = getenv("ELASTIC_STOP");
    for (unsigned x = 0; x < TENSORS; x++) {
        float *g = tutti_trainer_grad(trainer, x);
        for (size_t i = 0; i < counts[x]; i++)
            g[i] = tells(x) ? i == id : gradient(step, id, x, i);
        if (x == STOP)
            g[0] = step + 1 == limit || (stop && step % 4 == 0 && access(stop, F_OK) == 0);
    }
}

/* ---- history ---- */

static size_t save_past(void *ctx, void *data, size_t capacity)
{
    size_t head = offsetof(struct history, of), bytes = head;
    (void)ctx;
    if (data && capacity >= head)
        memcpy(data, &past, head);
    for (unsigned l = 0; l < LAYERS; l++) {
        size_t n = past.n[l] * sizeof **past.of;
        if (data && capacity >= bytes + n)
            memcpy((char *)data + bytes, past.of[l], n);
        bytes += n;
    }
    return bytes;
}

static void load_past(void *ctx, const void *data, size_t bytes)
{
    size_t at = offsetof(struct history, of);
    (void)ctx;
    memcpy(&past, data, at);
    for (unsigned l = 0; l < LAYERS; l++) {
        memcpy(past.of[l], (const char *)data + at, past.n[l] * sizeof **past.of);
        at += past.n[l] * sizeof **past.of;
    }
    if (at != bytes)
        out("BAD", 0, "the caller's bytes are not those that were saved");
}

static void record_layer(unsigned l)
{
    const float *now = params[2 * l + 1];
    struct period p = {.step = past.recorded};
    for (uint32_t i = 0; i < IDS; i++)
        if (now[i] != past.who[l][i])
            p.in[i / 8] |= (uint8_t)(1 << i % 8);
    memcpy(past.who[l], now, sizeof past.who[l]);
    if (past.n[l] && !memcmp(past.of[l][past.n[l] - 1].in, p.in, sizeof p.in))
        return;
    if (past.n[l] == MOST)
        out("BAD", 0, "too many changes");
    past.of[l][past.n[l]++] = p;
}

/* All parameters of the last step were waited for. */
static void record(void)
{
    if (tutti_trainer_steps(trainer) == past.recorded)
        return;
    if (tutti_trainer_steps(trainer) != past.recorded + 1)
        out("BAD", 0, "a step was left out");
    bool differs = false;
    for (unsigned l = 0; l < LAYERS; l++) {
        record_layer(l);
        differs |= memcmp(past.of[l][past.n[l] - 1].in, past.of[0][past.n[0] - 1].in, IDS / 8) != 0;
    }
    mixed += differs;
    past.recorded++;
    seen_steps++;
    for (unsigned x = 0; x < TENSORS; x++) {
        memcpy(before[x], latest[x], counts[x] * sizeof(float));
        memcpy(latest[x], params[x], counts[x] * sizeof(float));
    }
}

/* ---- trainers ---- */

static struct tutti_group group_of(unsigned g)
{
    struct tutti_group v = {.size = sizeof v, .lr = g ? 1 : adam() ? 0.001 : 0.01};
    if (g == 0 && !adam()) {
        v.momentum = 0.5;
        v.weight_decay = 0.01;
    }
    if (g == 1 && adam()) /* no memory: an element without gradient does not move */
        v.beta1 = v.beta2 = 1e-30;
    return v;
}

/* Tensors that tell who took part, and the one that stops, have a group of their own. */
static tutti_status make_trainer(struct tutti_comm *c, bool elastic, float **into, struct tutti_trainer **ret, struct tutti_error *err)
{
    const char *policy = getenv("ELASTIC_POLICY");
    struct tutti_trainer_options o = {.size = sizeof o,
                                      .policy = policy ? policy : "dear",
                                      .elastic = elastic,
                                      .optimizer = adam() ? TUTTI_OPTIMIZER_ADAM : TUTTI_OPTIMIZER_SGD,
                                      .fusion = "none",
                                      .clip_norm = clip,
                                      .allow_unused = clip > 0,
                                      .save = save_past,
                                      .load = load_past};
    o.policy = elastic ? o.policy : "sync";
    o.redundancy = !strcmp(o.policy, "dear-sharded");
    tutti_status st = tutti_trainer_open(c, &o, ret, err);
    for (unsigned x = 0; !st && x < TENSORS; x++) {
        char name[8] = {'t', (char)('a' + x)};
        struct tutti_tensor v = {.size = sizeof v,
                                 .name = name,
                                 .count = counts[x],
                                 .dtype = TUTTI_F32,
                                 .layer = x / 2 + 1,
                                 .group = tells(x) || x == STOP,
                                 .param = into[x]};
        st = tutti_trainer_add(*ret, &v, NULL, err);
    }
    for (unsigned g = 0; !st && g < 2; g++) {
        struct tutti_group v = group_of(g);
        st = tutti_trainer_set_group(*ret, g, &v, err);
    }
    return st;
}

/* ---- the replay ---- */

/* Those who took part in a step, found once for all its numbers. */
struct present {
    uint32_t id[IDS];
    unsigned n;
};
static void find_present(const struct period *p, struct present *ret)
{
    ret->n = 0;
    for (uint32_t r = 0; r < IDS; r++)
        if (p->in[r / 8] & 1 << r % 8)
            ret->id[ret->n++] = r;
}

/* Their mean: sums are exact, and divided once. */
static float mean(const struct present *all, uint64_t step, unsigned tensor, size_t i)
{
    float sum = 0;
    for (unsigned k = 0; k < all->n; k++)
        sum += tells(tensor) ? all->id[k] == i : gradient(step, all->id[k], tensor, i);
    return sum / (float)all->n;
}

static void same_state(struct tutti_trainer *alone)
{
    struct tutti_error err;
    for (unsigned x = 0; x < STOP; x++)
        for (unsigned k = 0; tutti_trainer_state_name(alone, x, k); k++) {
            size_t bytes = tutti_trainer_state_bytes(alone, x);
            char *a = malloc(bytes), *b = malloc(bytes);
            if (tutti_trainer_state_get(alone, x, k, a, &err) || tutti_trainer_state_get(trainer, x, k, b, &err))
                out("BAD", 0, err.text);
            if (memcmp(a, b, bytes))
                out("BAD", (int)x, "the optimizer's state differs from the replay");
            free(a);
            free(b);
        }
}

static void replay_step(struct tutti_trainer *alone, uint32_t *at, uint64_t step)
{
    for (unsigned l = 0; l < LAYERS; l++)
        at[l] += at[l] + 1 < past.n[l] && past.of[l][at[l] + 1].step == step;
    for (unsigned x = 0; x < TENSORS; x++) {
        float *g = tutti_trainer_grad(alone, x);
        struct present all;
        if (x != STOP)
            find_present(&past.of[x / 2][at[x / 2]], &all);
        for (size_t i = 0; i < counts[x]; i++)
            g[i] = x == STOP ? 0 : mean(&all, step, x, i);
        if (uses(step, x) && tutti_trainer_grad_ready(alone, x))
            out("BAD", 0, tutti_trainer_last_error(alone)->text);
    }
    if (tutti_trainer_step(alone) || tutti_trainer_flush(alone))
        out("BAD", 0, tutti_trainer_last_error(alone)->text);
}

/* With clipping the wish to stop, which the last step has, is part of the norm: that step is not
 * repeated then. */
static void replay(void)
{
    struct tutti_comm_options o = {.size = sizeof o, .given = true, .ranks = 1};
    struct tutti_trainer *alone = NULL;
    struct tutti_comm *self = NULL;
    struct tutti_error err = {0};
    float *again[TENSORS];
    for (unsigned x = 0; x < TENSORS; x++)
        again[x] = calloc(counts[x], sizeof(float));
    if (tutti_comm_open(&o, &self, &err) || make_trainer(self, false, again, &alone, &err) || tutti_trainer_freeze(alone, &err))
        out("BAD", 0, err.text);
    uint32_t at[LAYERS] = {0};
    for (uint64_t s = 0; s < past.recorded - (clip > 0); s++)
        replay_step(alone, at, s);
    float **mine = clip > 0 ? before : params;
    for (unsigned x = 0; x < STOP && (clip == 0 || seen_steps > 1); x++)
        if (memcmp(again[x], mine[x], counts[x] * sizeof(float)))
            out("BAD", (int)x, "the replay differs");
    if (clip == 0)
        same_state(alone);
    tutti_trainer_close(alone);
    tutti_comm_close(self);
    for (unsigned x = 0; x < TENSORS; x++)
        free(again[x]);
}

/* ---- going on ---- */

typedef tutti_status change_fn(struct tutti_comm *, struct tutti_comm **, struct tutti_error *);

/* Until all ranks that are left have bound the trainer. */
static void go_on(change_fn *change)
{
    struct tutti_error err = {0};
    tutti_status st;
    do {
        struct tutti_comm *next = NULL;
        if ((st = change(comm, &next, &err)))
            out("OUT", st, err.text);
        if (next == comm)
            return;
        st = trainer ? tutti_trainer_rebind(trainer, next, &err) : TUTTI_OK;
        tutti_comm_close(comm);
        comm = next;
        change = tutti_comm_shrink;
        if (st && st != TUTTI_ERR_PEER)
            out("BAD", st, err.text);
    } while (st);
}

/* A call of the trainer, again and again until it succeeds. */
static void must(tutti_status (*call)(struct tutti_trainer *, size_t), size_t i)
{
    tutti_status st;
    while ((st = call(trainer, i))) {
        if (st != TUTTI_ERR_PEER)
            out("BAD", st, tutti_trainer_last_error(trainer)->text);
        go_on(tutti_comm_shrink);
    }
}

static tutti_status step(struct tutti_trainer *t, size_t unused)
{
    (void)unused;
    return tutti_trainer_step(t);
}

static void enter(void)
{
    struct tutti_error err = {0};
    tutti_status st = tutti_comm_open(NULL, &comm, &err);
    if (st)
        out("OUT", st, err.text);
    if (!getenv("ELASTIC_ID"))
        id = tutti_comm_rank(comm);
    while ((st = make_trainer(comm, true, params, &trainer, &err)) == TUTTI_ERR_PEER) {
        tutti_trainer_close(trainer);
        trainer = NULL;
        go_on(tutti_comm_shrink);
    }
    if (!st && (st = tutti_trainer_freeze(trainer, &err)) == TUTTI_ERR_PEER) {
        go_on(tutti_comm_shrink);
        st = TUTTI_OK;
    }
    if (st)
        out("OUT", st, err.text);
}

static bool is_me(const char *variable)
{
    const char *who = getenv(variable), *rank = getenv("TUTTI_RANK");
    return who && rank && !strcmp(who, rank) && !getenv("TUTTI_JOIN");
}

static void train_step(unsigned pause_us)
{
    uint64_t s = tutti_trainer_steps(trainer);
    if (s == 50 && is_me("ELASTIC_SPOIL"))
        params[4][7] += 1e-6f;
    write_gradients(s);
    for (unsigned x = TENSORS; x-- > 0;) {
        if (uses(s, x))
            must(tutti_trainer_grad_ready, x);
        if (x == TENSORS / 2 && s == 200 && is_me("ELASTIC_DIE"))
            kill(getpid(), SIGKILL);
        if (pause_us && x % 3 == 0)
            usleep(pause_us / 3);
    }
    must(step, 0);
}

static void forward(void)
{
    for (unsigned x = 0; x < TENSORS; x++)
        must(tutti_trainer_wait_param, x);
    record();
}

static void tell(uint32_t *seen)
{
    uint64_t s = tutti_trainer_steps(trainer);
    if (tutti_comm_changes(comm) != *seen && s > tutti_trainer_bound(trainer)) {
        *seen = tutti_comm_changes(comm);
        printf("CHANGE %u %u %" PRIu64 "\n", *seen, tutti_comm_size(comm), now_ns());
        fflush(stdout);
    }
    if (s % 100 == 0)
        printf("STEP %" PRIu64 " %" PRIu64 "\n", s, now_ns());
}

int main(int argc, char **argv)
{
    unsigned pause_us = argc > 3 ? (unsigned)atoi(argv[3]) : 0;
    size_t count = argc > 2 ? (size_t)atoll(argv[2]) : 1000;
    uint32_t seen = 0;
    const size_t shape[LAYERS] = {count, 3, count / 2 + 1, 64, count * 3, 17};
    limit = argc > 1 ? (uint64_t)atoll(argv[1]) : limit;
    every = argc > 4 ? (uint64_t)atoll(argv[4]) : every;
    id = getenv("ELASTIC_ID") ? (uint32_t)atoi(getenv("ELASTIC_ID")) % IDS : 0;
    clip = getenv("ELASTIC_CLIP") ? atof(getenv("ELASTIC_CLIP")) : 0;
    for (unsigned x = 0; x < TENSORS; x++) {
        counts[x] = x == STOP ? 1 : x % 2 ? IDS : shape[x / 2];
        params[x] = calloc(counts[x], sizeof(float));
        latest[x] = calloc(counts[x], sizeof(float));
        before[x] = calloc(counts[x], sizeof(float));
    }
    enter();
    for (;;) {
        forward();
        tell(&seen);
        uint64_t s = tutti_trainer_steps(trainer);
        if (params[STOP][0] != 0) {
            /* Whoever passes it knows that nobody has a step to repeat. */
            if (tutti_barrier(comm) == TUTTI_OK)
                break;
            go_on(tutti_comm_shrink);
            continue;
        }
        if (every && s && s % every == 0 && s > tutti_trainer_bound(trainer)) {
            go_on(tutti_comm_admit);
            if (tutti_trainer_bound(trainer) == s)
                continue; /* the ranks were bound anew */
        }
        train_step(pause_us);
    }
    replay();
    printf("MIXED %" PRIu64 " of %" PRIu64 " steps\n", mixed, seen_steps);
    printf("END %" PRIu64 " %016" PRIx64 " %u %u\n", past.recorded, tutti_trainer_fingerprint(trainer), tutti_comm_size(comm),
           tutti_comm_changes(comm));
    fflush(stdout);
    tutti_trainer_close(trainer);
    tutti_comm_close(comm);
    return 0;
}
