/* count.c - how many operations a plan's schedule has, counted without building it where
 * possible.
 *
 * Ranks of a symmetric schedule have the same messages. Local operations are not covered by that
 * promise, so sampled ranks are listed and compared with rank 0: if all have equally many
 * operations, the total is ranks times that number. Otherwise all ranks are listed, one block at
 * a time, so memory is needed for one block only. A synthesised schedule belongs to the plan and
 * is counted as it is. */
#include "plan/plan_int.h"

enum { SAMPLES = 8, BLOCK = 256 };

/* Counts the operations of ranks first .. first+n-1. */
static tutti_status count_ranks(const struct tt_plan *p, const struct tt_algo_args *a,
                                uint32_t first, uint32_t n, uint64_t *ret, struct tutti_error *err)
{
    struct tt_sched *s;
    tutti_status st = tt_algo_slice(p->algo, a, first, n, &s, err);

    if (st)
        return st;
    *ret = s->nops;
    tt_sched_free(s);
    return TUTTI_OK;
}

/* Sets *ret_alike when the sampled ranks, the last rank among them, have as many operations as
 * rank 0 (*ret_each). */
static tutti_status count_alike(const struct tt_plan *p, const struct tt_algo_args *a,
                                bool *ret_alike, uint64_t *ret_each, struct tutti_error *err)
{
    const uint32_t ranks = p->problem.ranks;
    bool alike = true;
    uint64_t each, other;
    tutti_status st = count_ranks(p, a, 0, 1, &each, err);

    for (unsigned i = 1; i <= SAMPLES && !st && alike; i++) {
        st =
            count_ranks(p, a, i == 1 ? ranks - 1 : (uint32_t)(tt_mix64(i) % ranks), 1, &other, err);
        alike = !st && other == each;
    }
    if (st)
        return st;
    *ret_alike = alike;
    *ret_each = each;
    return TUTTI_OK;
}

/* A synthesised schedule is counted itself; its chunks too are known only once it is built. */
static tutti_status count_built(const struct tt_plan *p, const struct tt_topo *t, uint64_t *ret,
                                uint32_t *ret_chunks, struct tutti_error *err)
{
    struct tt_sched *s;
    tutti_status st = tt_plan_schedule(p, t, &s, err);

    if (st)
        return st;
    *ret = s->nops;
    *ret_chunks = s->shape.chunks;
    tt_sched_free(s);
    return TUTTI_OK;
}

/* Lists all ranks block by block. Invariant: `sum` counts the operations of ranks 0 .. first-1. */
static tutti_status count_listed(const struct tt_plan *p, const struct tt_algo_args *a,
                                 uint64_t *ret, struct tutti_error *err)
{
    uint64_t sum = 0, n;

    for (uint32_t first = 0; first < p->problem.ranks; first += BLOCK) {
        uint32_t left = p->problem.ranks - first;
        tutti_status st = count_ranks(p, a, first, left < BLOCK ? left : BLOCK, &n, err);
        if (st)
            return st;
        sum += n;
    }
    *ret = sum;
    return TUTTI_OK;
}

tutti_status tt_plan_count(const struct tt_plan *p, const struct tt_topo *t, uint64_t *ret_ops,
                           uint32_t *ret_chunks, struct tutti_error *err)
{
    struct tt_algo_args args = {.problem = p->problem, .topo = t, .options = p->options};
    struct tt_shape shape;
    bool alike = false;
    uint64_t each = 0, ops = 0;
    tutti_status st;

    if (p->algo->build)
        return count_built(p, t, ret_ops, ret_chunks, err);
    st = tt_algo_shape(p->algo, &args, &shape, err);
    if (st)
        return st;
    if (shape.symmetric || shape.grid)
        st = count_alike(p, &args, &alike, &each, err);
    if (!st && alike)
        ops = each * p->problem.ranks;
    else if (!st)
        st = count_listed(p, &args, &ops, err);
    if (!st) {
        *ret_ops = ops;
        *ret_chunks = shape.chunks;
    }
    tt_sched_shape_free(&shape);
    return st;
}
