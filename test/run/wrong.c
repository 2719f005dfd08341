/* wrong.c - a planner that makes a wrong schedule, on real ranks: linked with --wrap=tt_plan_schedule, which takes the last
 * operand out of rank 1's first reduction, so that one contribution is lost without any rank waiting in vain.
 *
 * With TUTTI_VERIFY=1 every rank must get an error that names rank, operation and reason, the output must be untouched, and the next
 * call must still work. Without it the sum is wrong: the test would find nothing otherwise. Each rank prints "refused" or "wrong sum". */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

enum { COUNT = 3000, VICTIM = 1 };
static bool armed;

tutti_status __real_tt_plan_schedule(const struct tt_plan *p, const struct tt_topo *t, struct tt_sched **ret, struct tutti_error *err);
tutti_status __wrap_tt_plan_schedule(const struct tt_plan *p, const struct tt_topo *t, struct tt_sched **ret, struct tutti_error *err);

static struct tt_shape copy_shape(const struct tt_shape *s)
{
    struct tt_shape c = *s;
    if (s->weights && (c.weights = malloc(s->chunks * sizeof *c.weights)))
        memcpy(c.weights, s->weights, s->chunks * sizeof *c.weights);
    if (s->owner && (c.owner = malloc(s->chunks * sizeof *c.owner)))
        memcpy(c.owner, s->owner, s->chunks * sizeof *c.owner);
    return c;
}

static void emit(struct tt_builder *b, struct tt_op op, const struct tt_span *spans, bool *done)
{
    if (!*done && b->rank == VICTIM && op.kind == TT_OP_REDUCE && op.nspans > 2) {
        *done = true;
        op.nspans--;
    }
    tt_sched_emit(b, op, spans, op.nspans);
}

static tutti_status spoil(const struct tt_sched *s, struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_builder b;
    struct tt_shape shape = copy_shape(&s->shape);
    bool done = false;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        tt_sched_build_rank(&b, r);
        for (size_t i = 0; i < sl.nops; i++)
            emit(&b, sl.ops[i], sl.spans + sl.ops[i].span, &done);
    }
    for (uint32_t i = 0; i < s->nroutes; i++)
        tt_sched_build_route(&b, s->routes[i].src, s->routes[i].dst, (uint16_t)s->routes[i].channel, s->routes[i].links,
                             s->routes[i].nlinks);
    if (!done)
        fprintf(stderr, "nothing was spoiled\n");
    return tt_sched_build_freeze(&b, ret, err);
}

tutti_status __wrap_tt_plan_schedule(const struct tt_plan *p, const struct tt_topo *t, struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_sched *right;
    tutti_status st = __real_tt_plan_schedule(p, t, &right, err);
    if (st || !armed) {
        if (!st)
            *ret = right;
        return st;
    }
    st = spoil(right, ret, err);
    tt_sched_free(right);
    return st;
}

static int fails(const char *what, const char *text)
{
    fprintf(stderr, "FAILED: %s: %s\n", what, text);
    return 1;
}

/* The spoiled call; *ret_wrong: elements of the result that are not the sum. */
static tutti_status call(struct tt_comm *c, float *in, float *out, int *ret_wrong)
{
    for (int i = 0; i < COUNT; i++) {
        in[i] = (float)(tt_comm_rank(c) + 1);
        out[i] = -1;
    }
    float sum = (float)(tt_comm_size(c) * (tt_comm_size(c) + 1) / 2);
    tutti_status st = tt_comm_run(c, &(struct tt_call){.coll = TUTTI_ALLREDUCE, .in = in, .out = out, .count = COUNT, .algo = "multitree"});
    for (int i = *ret_wrong = 0; i < COUNT; i++)
        *ret_wrong += out[i] != (st ? -1 : sum);
    return st;
}

static int refused(struct tt_comm *c, tutti_status st, int wrong)
{
    const char *text = tt_comm_last_error(c)->text;
    if (st != TUTTI_ERR_INCORRECT || !strstr(text, "allreduce by multitree") || !strstr(text, "rank 1, op "))
        return fails("not refused by rank and operation", text);
    if (wrong)
        return fails("the output was touched", text);
    printf("refused\n");
    return 0;
}

int main(void)
{
    static float in[COUNT], out[COUNT];
    struct tt_comm_config config;
    struct tt_comm *c;
    struct tutti_error err;
    int wrong, code = 0;
    if (tt_comm_from_env(&config, &err) || tt_comm_open(&config, &c, &err))
        return fails("open", err.text);
    armed = true;
    tutti_status st = call(c, in, out, &wrong);
    armed = false;
    if (config.verify)
        code = refused(c, st, wrong);
    else if (!st && wrong)
        printf("wrong sum\n");
    if (config.verify && !code && (call(c, in, out, &wrong) || wrong))
        code = fails("the right schedule", tt_comm_last_error(c)->text);
    tt_comm_close(c);
    return code;
}
