/* fuse.c - which tensors share a bucket.
 *
 * A unit is never split by fusion: the tensors of one layer that are of one part (and, when large
 * tensors are cut, no larger than a part); only DDP's rule goes tensor by tensor. Every rule below
 * joins neighbouring units; none joins units that must stay apart (`apart`): those of different
 * parts, and with hybrid policies those that use different algorithms.
 *
 *     units (forward order)   c1  c2  c3  c4  c5  |  f1  f2  f3
 *     threshold, dear         [c1][c2 c3 c4 c5]     [f1][f2 f3]      from the front, a small first
 *     threshold, others       [c1 c2 c3 c4 c5]      [f1][f2][f3]     from the back as DDP: a bucket
 *                                                                    is closed at its size
 *
 * Greedy is the rule of MG-WFBP: from the back, join the open bucket with the next unit when the
 * gradient of that unit is ready before the bucket could be sent, or so soon after that waiting
 * costs less than another start-up. (The published code also joins everything below 8,192
 * parameters whatever the costs; that constant is left out.) */
#include <assert.h>

#include "policy/policy_int.h"

#include <stdlib.h>

void tt_policy_ready(const struct tt_policy_tensor *t, uint32_t n, uint64_t *ready)
{
    uint64_t now = 0;
    for (uint32_t i = n; i-- > 0;) {
        now += t[i].backward_ps;
        ready[i] = now;
    }
}

/* Does tensor i (> 0) begin a unit? */
static bool begins_unit(const struct tt_policy_input *in, uint32_t i)
{
    assert(i > 0 && i < in->n);
    const struct tt_policy_tensor *a = &in->t[i - 1], *b = &in->t[i];
    uint64_t most = in->o.partition_bytes;
    return a->layer != b->layer || a->part != b->part || a->bytes > most || b->bytes > most;
}

bool tt_policy_fuse_apart(const struct tt_policy_input *in, uint32_t i)
{
    const struct tt_policy_tensor *a = &in->t[i - 1], *b = &in->t[i];
    uint64_t most = in->o.partition_bytes;
    if (a->part != b->part || a->bytes > most || b->bytes > most)
        return true;
    return in->o.kind == TT_POLICY_HYBRID &&
           tt_policy_pick(in, a->kind, a->bytes) != tt_policy_pick(in, b->kind, b->bytes);
}

static void mark_units(const struct tt_policy_input *in, bool *begins)
{
    begins[0] = true;
    for (uint32_t i = 1; i < in->n; i++)
        begins[i] = begins_unit(in, i);
}

/* Bytes of the unit that begins at i; *ret_end is the first tensor after it. */
static uint64_t unit_bytes(const struct tt_policy_input *in, uint32_t i, uint32_t *ret_end)
{
    uint64_t sum = 0;
    uint32_t k = i;
    do
        sum += in->t[k++].bytes;
    while (k < in->n && !begins_unit(in, k));
    *ret_end = k;
    return sum;
}

/* From the front: units join while the sum stays within the threshold. */
static void by_threshold(const struct tt_policy_input *in, bool *begins)
{
    uint64_t sum = 0;
    for (uint32_t i = 0, end; i < in->n; i = end) {
        uint64_t bytes = unit_bytes(in, i, &end);
        begins[i] = i == 0 || tt_policy_fuse_apart(in, i) || sum + bytes > in->o.threshold_bytes;
        sum = begins[i] ? bytes : sum + bytes;
    }
}

/* From the back, as DDP: a bucket takes tensors until it has reached its size; the bucket that is
 * ready first is smaller. */
static void as_ddp(const struct tt_policy_input *in, bool *begins)
{
    uint64_t sum = 0, cap = in->o.first_bytes < in->o.threshold_bytes ? in->o.first_bytes
                                                                      : in->o.threshold_bytes;
    for (uint32_t i = in->n; i-- > 0;) {
        sum += in->t[i].bytes;
        begins[i] = i == 0 || tt_policy_fuse_apart(in, i) || sum >= cap;
        if (begins[i]) {
            sum = 0;
            cap = in->o.threshold_bytes;
        }
    }
}

/* `nearby` units per bucket, from the front. */
static void by_number(const struct tt_policy_input *in, bool *begins)
{
    uint32_t in_group = 0;
    for (uint32_t i = 0, end; i < in->n; i = end) {
        unit_bytes(in, i, &end);
        begins[i] = i == 0 || tt_policy_fuse_apart(in, i) || in_group == in->o.nearby;
        in_group = begins[i] ? 1 : in_group + 1;
    }
}

/* From the back: gradients that become ready in the same cycle travel together, as in Horovod's
 * fusion buffer. */
static void by_waiting(const struct tt_policy_input *in, const uint64_t *ready, bool *begins)
{
    uint64_t sum = 0;
    for (uint32_t i = in->n; i-- > 0;) {
        sum += in->t[i].bytes;
        bool other_cycle = i > 0 && ready[i] / in->o.cycle_ps != ready[i - 1] / in->o.cycle_ps;
        bool full = i > 0 && sum + in->t[i - 1].bytes > in->o.threshold_bytes;
        begins[i] =
            i == 0 || (begins_unit(in, i) && (tt_policy_fuse_apart(in, i) || other_cycle || full));
        sum = begins[i] ? 0 : sum;
    }
}

/* The time that a bucket of these bytes takes on the stream; of one element: its start-up. */
static uint64_t open_cost(const struct tt_policy_input *in, const struct tt_policy_tensor *t,
                          uint64_t bytes)
{
    tutti_coll coll = tt_policy_is_dear(in->o.kind) ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE;
    return in->costs->cost(in->costs->ctx, coll, tt_policy_pick(in, t->kind, bytes), bytes);
}

/* Invariant: `done` is when the stream is free of all closed buckets, `sum` the bytes of the open
 * one. */
static tutti_status by_greed(const struct tt_policy_input *in, const uint64_t *ready, bool *begins,
                             struct tutti_error *err)
{
    uint64_t sum = 0, done = 0;
    for (uint32_t i = in->n; i-- > 0;) {
        const struct tt_policy_tensor *t = &in->t[i];
        sum += t->bytes;
        if (i > 0 && !begins_unit(in, i)) {
            begins[i] = false;
            continue;
        }
        uint64_t cost = open_cost(in, t, sum), startup = open_cost(in, t, t->elem_bytes);
        uint64_t start = done > ready[i] ? done : ready[i];
        if (cost >= TT_POLICY_MOST || startup >= TT_POLICY_MOST || start >= TT_POLICY_MOST)
            return tt_fail(err, TUTTI_ERR_REFUSED,
                           "the cost model gives no time for a bucket of %llu bytes",
                           (unsigned long long)sum);
        uint64_t next = i > 0 ? ready[i - 1] : 0;
        bool join = i > 0 && !tt_policy_fuse_apart(in, i) && next < start + cost &&
                    (next < start || next - start < startup);
        begins[i] = !join;
        if (!join) {
            done = start + cost;
            sum = 0;
        }
    }
    return TUTTI_OK;
}

/* Nothing hides the bucket that the next forward pass needs first, so it is kept small: it ends
 * with the last unit within first_bytes (or its first unit). */
static void cut_first(const struct tt_policy_input *in, bool *begins)
{
    uint64_t sum = 0;
    for (uint32_t i = 0, end; i < in->n; i = end) {
        sum += unit_bytes(in, i, &end);
        if (i > 0 && (sum > in->o.first_bytes || begins[i])) {
            begins[i] = true;
            return;
        }
    }
}

/* NONE leaves every unit a bucket. */
tutti_status tt_policy_fuse(const struct tt_policy_input *in, bool *begins, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint64_t *ready = tt_alloc(in->n, sizeof *ready);
    if (!ready)
        return tt_fail_memory(err, "fusion");
    tt_policy_ready(in->t, in->n, ready);
    assert(in->n > 0);
    mark_units(in, begins);
    if (in->o.fusion == TT_FUSION_THRESHOLD && tt_policy_crosses(in->o.kind))
        by_threshold(in, begins);
    else if (in->o.fusion == TT_FUSION_THRESHOLD)
        as_ddp(in, begins);
    else if (in->o.fusion == TT_FUSION_NEARBY)
        by_number(in, begins);
    else if (in->o.fusion == TT_FUSION_WAITING)
        by_waiting(in, ready, begins);
    else if (in->o.fusion == TT_FUSION_GREEDY)
        st = by_greed(in, ready, begins, err);
    else if (in->o.fusion == TT_FUSION_OPTIMAL)
        st = tt_policy_fuse_optimal(in, ready, begins, err);
    if (tt_policy_is_dear(in->o.kind) && in->o.fusion != TT_FUSION_NONE)
        cut_first(in, begins);
    free(ready);
    return st;
}
