/* policy_case.h - models and costs with closed forms, for the tests of policies. */
#ifndef POLICY_CASE_H
#define POLICY_CASE_H

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "policy/policy.h"

/* Start-up and time per byte of an all-reduce; reduce-scatter and all-gather are half of it each. Ring: twice the start-up; recursive
 * doubling: half the start-up, a third more per byte. */
struct line {
    uint64_t startup_ps, ps_per_byte;
    bool no_scatter; /* only all-reduce can be done */
};

static inline uint64_t line_cost(void *ctx, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes)
{
    const struct line *l = ctx;
    uint64_t startup = l->startup_ps, per_byte = l->ps_per_byte;
    if (l->no_scatter && coll != TUTTI_ALLREDUCE)
        return UINT64_MAX;
    if (algo == TT_POLICY_RING)
        startup *= 2;
    if (algo == TT_POLICY_RECURSIVE_DOUBLING) {
        startup /= 2;
        per_byte = per_byte * 4 / 3;
    }
    uint64_t all = startup + per_byte * bytes;
    return coll == TUTTI_ALLREDUCE ? all : all / 2;
}

static inline struct tt_policy_costs costs_of(struct line *l)
{
    return (struct tt_policy_costs){.cost = line_cost, .ctx = l, .ranks = 4};
}

/* n equal layers of one tensor. */
static inline struct tt_policy_tensor *uniform(uint32_t n, uint64_t bytes, uint64_t forward_ps, uint64_t backward_ps)
{
    struct tt_policy_tensor *t = calloc(n, sizeof *t);
    for (uint32_t i = 0; i < n; i++)
        t[i] = (struct tt_policy_tensor){
            .bytes = bytes, .elem_bytes = 4, .kind = TT_KIND_FC, .layer = i, .forward_ps = forward_ps, .backward_ps = backward_ps};
    return t;
}

static inline struct tt_policy *made(const struct tt_policy_options *o, const struct tt_policy_tensor *t, uint32_t n,
                                     const struct tt_policy_costs *c)
{
    struct tutti_error err = {0};
    struct tt_policy *p = NULL;
    if (tt_policy_make(o, t, n, c, &p, &err))
        fail_msg("%s", err.text);
    return p;
}

static inline struct tt_policy_times timed(const struct tt_policy_options *o, const struct tt_policy_tensor *t, uint32_t n,
                                           const struct tt_policy_costs *c)
{
    struct tutti_error err = {0};
    struct tt_policy_times times;
    struct tt_policy *p = made(o, t, n, c);
    if (tt_policy_time(p, t, c, &times, NULL, NULL, &err))
        fail_msg("%s", err.text);
    tt_policy_free(p);
    return times;
}
#endif
