/* replay_run.c - training steps with real communication; compute only takes its time.
 *
 * The calling thread sleeps where a model would compute. A sleep ends some microseconds late, a
 * hundred times a step, which is not the trainer's fault. The time at which compute should end is
 * therefore kept as a clock of its own (stage.clock_ns), which advances by each layer's time and by
 * the time that calls to the trainer took:
 *
 *     clock    |--layer 3--|call|--layer 2--|call|--layer 1--| ...
 *     sleeps   |-----------+-|  |---------|              a late wake-up shortens the next sleep
 *
 * A step is from the start of its backward pass to the end of the next forward pass. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "cli/replay.h"

/* Steps that are not timed, and all-reduces of which the best counts. */
enum { WARM_UP = 2, ROUNDS = 3 };

/* One policy under way: its trainer and the compute times by tensor. */
struct stage {
    struct tutti_trainer *t;
    size_t n;
    uint64_t *forward_ns, *backward_ns;
    uint64_t clock_ns; /* when all compute so far should have ended */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Compute of ns: advances the clock and sleeps until then. CLOCK_MONOTONIC like now_ns,
 * absolute, so that an interrupted sleep is simply repeated. */
static void replay_run_compute(struct stage *s, uint64_t ns)
{
    s->clock_ns += ns;
    if (s->clock_ns <= now_ns())
        return;
    struct timespec until = {(time_t)(s->clock_ns / 1000000000), (long)(s->clock_ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
        ;
}

/* A call took from `start` until now: everything after it is later by that. Passes st through. */
static tutti_status replay_run_spent(struct stage *s, uint64_t start, tutti_status st)
{
    s->clock_ns += now_ns() - start;
    return st;
}

/* Backward pass from the last tensor to the first, the step, forward pass from the first to the
 * last. */
static tutti_status one_step(struct stage *s)
{
    tutti_status st = TUTTI_OK;
    for (size_t i = s->n; !st && i-- > 0;) {
        replay_run_compute(s, s->backward_ns[i]);
        uint64_t start = now_ns();
        st = replay_run_spent(s, start, tutti_trainer_grad_ready(s->t, i));
    }
    uint64_t start = now_ns();
    if (!st)
        st = replay_run_spent(s, start, tutti_trainer_step(s->t));
    for (size_t i = 0; !st && i < s->n; i++) {
        start = now_ns();
        st = replay_run_spent(s, start, tutti_trainer_wait_param(s->t, i));
        if (!st)
            replay_run_compute(s, s->forward_ns[i]);
    }
    return st;
}

/* Runs the warm-up and the timed steps. Times are read from the clock of the stage, not from the
 * wall: lateness of the last sleep is not counted. Minus shortest, so that one all-reduce with
 * MAX serves all three. */
static tutti_status replay_run_measure(const struct replay *r, struct stage *s,
                                       struct replay_row *ret, struct tutti_error *err)
{
    double sum = 0, times[3] = {0, 0, 0}; /* mean, longest, minus shortest */
    tutti_status st = TUTTI_OK;
    times[2] = -1e300;
    for (uint64_t i = 0; !st && i < WARM_UP + r->steps; i++) {
        /* The first timed step begins with a barrier, too; between timed steps the ranks run
         * free, as in training. */
        if (i <= WARM_UP)
            st = tutti_barrier(r->comm);
        s->clock_ns = i <= WARM_UP ? now_ns() : s->clock_ns;
        uint64_t start = s->clock_ns;
        if (!st)
            st = one_step(s);
        double us = (double)(s->clock_ns - start) / 1e3;
        if (i < WARM_UP)
            continue;
        sum += us;
        times[1] = us > times[1] ? us : times[1];
        times[2] = -us > times[2] ? -us : times[2];
    }
    times[0] = sum / (double)r->steps;
    if (st)
        *err = *tutti_trainer_last_error(s->t);
    else if ((st = tutti_allreduce(r->comm, times, times, 3, TUTTI_F64, TUTTI_MAX)))
        *err = *tutti_comm_last_error(r->comm);
    ret->iteration_us = times[0];
    ret->worst_us = times[1];
    ret->best_us = -times[2];
    return st;
}

/* The kind that the model's profile names, for hybrid policies. */
static tutti_tensor_kind kind_of(const char *name)
{
    return !strcmp(name, "conv")        ? TUTTI_TENSOR_CONV
           : !strcmp(name, "fc")        ? TUTTI_TENSOR_FC
           : !strcmp(name, "norm")      ? TUTTI_TENSOR_NORM
           : !strcmp(name, "embedding") ? TUTTI_TENSOR_EMBEDDING
                                        : TUTTI_TENSOR_OTHER;
}

/* The model's tensors in forward order. A layer's times are given with its last tensor. Layer
 * numbers are from 1: 0 would mean a layer of its own. */
static tutti_status add_tensors(const struct replay *r, struct stage *s, struct tutti_error *err)
{
    struct tutti_model_tensor m;
    tutti_status st = TUTTI_OK;
    for (size_t i = 0; !st && tutti_model_tensor(r->model, i, &m); i++) {
        struct tutti_tensor x = {.size = sizeof x,
                                 .name = m.name,
                                 .count = m.count,
                                 .dtype = m.dtype,
                                 .kind = kind_of(m.kind),
                                 .layer = m.layer_number + 1,
                                 .forward_us = (double)m.forward_ps / 1e6,
                                 .backward_us = (double)m.backward_ps / 1e6};
        s->forward_ns[i] = m.forward_ps / 1000;
        s->backward_ns[i] = m.backward_ps / 1000;
        st = tutti_trainer_add(s->t, &x, NULL, err);
    }
    return st;
}

static double longer(double a, double b)
{
    return a > b ? a : b;
}

/* The closed forms of the policies, with the compute times of the profile. c is the shorter of
 * the measured all-reduce and the one that the model predicts at the measured speeds: several
 * small ones in a row can be quicker than a large one, and an ideal should not be beaten by
 * that. */
static void replay_run_judge(const struct replay *r, struct replay_row *x)
{
    double c = x->comm_us = r->comm_us < x->info.comm_us ? r->comm_us : x->info.comm_us,
           ff = x->info.forward_us, bp = x->info.backward_us;
    const char *p = x->info.policy;
    x->limit_us = longer(c, ff + bp);
    if (!strcmp(p, "sync"))
        x->ideal_us = ff + bp + c;
    else if (!strncmp(p, "dear", 4))
        x->ideal_us = longer(ff, c / 2) + longer(bp, c / 2);
    else
        x->ideal_us = strcmp(p, "bytescheduler") ? ff + longer(bp, c) : x->limit_us;
    x->exposed_us = x->iteration_us - ff - bp;
}

/* TUTTI_ERR_MEMORY when the arrays could not be allocated; err is not set then. */
static tutti_status replay_run_run(const struct replay *r, struct stage *s, struct replay_row *ret,
                                   struct tutti_error *err)
{
    tutti_status st = s->forward_ns && s->backward_ns ? add_tensors(r, s, err) : TUTTI_ERR_MEMORY;
    if (!st)
        st = tutti_trainer_freeze(s->t, err);
    if (st)
        return st;
    tutti_trainer_info(s->t, &ret->info);
    st = replay_run_measure(r, s, ret, err);
    replay_run_judge(r, ret);
    return st;
}

tutti_status cli_replay_policy(const struct replay *r, const char *policy, struct replay_row *ret,
                               struct tutti_error *err)
{
    struct tutti_trainer_options o = r->options;
    struct tutti_model_info info;
    struct stage s = {0};
    tutti_model_info(r->model, &info);
    o.policy = policy;
    o.keep_grads = o.no_broadcast = true;
    if (!strcmp(policy, "dear-sharded")) /* no other policy has an update to wait for */
        o.optimizer = TUTTI_OPTIMIZER_SGD;
    tutti_status st = tutti_trainer_open(r->comm, &o, &s.t, err);
    if (st)
        return st;
    /* Timers may be late by 1 us instead of the usual 50. */
    prctl(PR_SET_TIMERSLACK, 1000, 0, 0, 0);
    s.n = info.tensors;
    s.forward_ns = calloc(s.n + 1, sizeof *s.forward_ns);
    s.backward_ns = calloc(s.n + 1, sizeof *s.backward_ns);
    *ret = (struct replay_row){0};
    st = replay_run_run(r, &s, ret, err);
    tutti_trainer_close(s.t);
    free(s.forward_ns);
    free(s.backward_ns);
    return st;
}

/* Memory of tutti_mem_alloc, as the trainer's own buffers are. Bytes as f32, whatever the
 * model's types are. */
tutti_status cli_replay_comm(struct replay *r, struct tutti_error *err)
{
    struct tutti_model_info info;
    void *buffer = NULL;
    tutti_model_info(r->model, &info);
    /* As f32, whatever the model's types are: only the bytes matter. */
    size_t count = info.bytes / 4;
    tutti_status st = tutti_mem_alloc(r->comm, count * 4, &buffer, err);
    double best = 1e300;
    if (st)
        return st;
    memset(buffer, 0, count * 4);
    for (int i = 0; !st && i < ROUNDS; i++) {
        st = tutti_barrier(r->comm);
        uint64_t start = now_ns();
        if (!st)
            st = tutti_allreduce(r->comm, buffer, buffer, count, TUTTI_F32, TUTTI_AVG);
        double us = (double)(now_ns() - start) / 1e3;
        if (!st)
            st = tutti_allreduce(r->comm, &us, &us, 1, TUTTI_F64, TUTTI_MAX);
        best = us < best ? us : best;
    }
    if (st)
        *err = *tutti_comm_last_error(r->comm);
    r->comm_us = best;
    tutti_mem_free(r->comm, buffer);
    return st;
}
