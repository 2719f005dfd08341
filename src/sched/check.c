/* check.c - well-formedness: what every reader of a schedule may rely on.
 *
 * One pass over each rank's list. Fields first (kinds, peers, spans inside the vector, places that
 * exist), then, step by step, how the operations affect each other (check_race.c). Work is per
 * span, not per chunk: a span of 32,768 chunks costs as much as a span of one. Whether the messages
 * of different ranks match and add up to the collective is decided by verify, not here.
 *
 *     shape -> routes -> for each rank: op by op (fields, order, spans) -> step by step (races)
 *                                       -> whole slice (in place) */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "sched/sched_int.h"

static const uint64_t MAX_RANGES = UINT64_C(1) << 28; /* repetitions of spans of one rank */

tutti_status tt_sched_check_flaw(struct tt_checker *c, size_t op, const char *fmt, ...)
{
    char why[sizeof((struct tt_sched_flaw *)NULL)->why - 40];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(why, sizeof why, fmt, ap);
    va_end(ap);
    const struct tt_op *o = &c->slice.ops[op];
    if (c->where) {
        *c->where = (struct tt_sched_flaw){.rank = c->rank, .op = op};
        snprintf(c->where->why, sizeof c->where->why, "step %" PRIu32 ", %s: %s", o->step,
                 tt_sched_op_name(o->kind), why);
    }
    return tt_fail(c->err, TUTTI_ERR_INCORRECT,
                   "rank %" PRIu32 " op %zu (%s, step %" PRIu32 "): %s", c->rank, op,
                   tt_sched_op_name(o->kind), o->step, why);
}

static bool is_message(unsigned kind)
{
    return kind <= TT_OP_RECV_REDUCE;
}

/* Order within a step: sends, receives, local operations. */
static int phase(unsigned kind)
{
    return kind == TT_OP_SEND ? 0 : is_message(kind) ? 1 : 2;
}

/* Steps never decrease; kinds are in order within a step. */
static tutti_status check_order(struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    if (op->step >= TT_MAX_STEPS)
        return tt_sched_check_flaw(c, i, "at most %d steps are accepted", TT_MAX_STEPS);
    if (i == 0)
        return TUTTI_OK;
    const struct tt_op *before = op - 1;
    if (op->step < before->step)
        return tt_sched_check_flaw(c, i, "comes after an op of step %" PRIu32, before->step);
    if (op->step == before->step && phase(op->kind) < phase(before->kind))
        return tt_sched_check_flaw(
            c, i, "is listed after a %s: a step has sends, then receives, then local operations",
            tt_sched_op_name(before->kind));
    return TUTTI_OK;
}

/* Numbers that later checks use as indices. */
static tutti_status check_fields(struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    if (op->kind >= TT_OP_KINDS)
        return tt_sched_check_flaw(c, i, "kind %d is none", op->kind);
    if (op->nspans == 0 || (uint64_t)op->span + op->nspans > c->slice.nspans)
        return tt_sched_check_flaw(c, i, "spans %" PRIu32 "+%" PRIu32 " of %zu", op->span,
                                   op->nspans, c->slice.nspans);
    if (is_message(op->kind) && op->peer >= c->shape->ranks)
        return tt_sched_check_flaw(c, i, "peer %" PRIu32 " of %" PRIu32 " ranks", op->peer,
                                   c->shape->ranks);
    if (is_message(op->kind) && op->peer == c->rank)
        return tt_sched_check_flaw(c, i, "a message to oneself");
    if (!is_message(op->kind) && (op->peer != 0 || op->channel != 0))
        return tt_sched_check_flaw(c, i, "peer and channel of a local operation are 0");
    return TUTTI_OK;
}

/* The span lies inside the vector, in existing buffers, and repetitions do not overlap. */
static tutti_status check_extent(struct tt_checker *c, size_t i, const struct tt_span *s)
{
    if (s->len == 0 || s->reps == 0)
        return tt_sched_check_flaw(c, i, "an empty span");
    if (s->reps == 1 && s->stride != 0)
        return tt_sched_check_flaw(
            c, i, "a span that is not repeated has stride %" PRIu32 ", not 0", s->stride);
    if (s->reps > 1 && s->stride < s->len)
        return tt_sched_check_flaw(
            c, i, "a span of %" PRIu32 " chunks repeated %" PRIu32 " times has stride %" PRIu32,
            s->len, s->reps, s->stride);
    if (tt_sched_span_end(s) > c->shape->chunks)
        return tt_sched_check_flaw(
            c, i, "a span from chunk %" PRIu32 " ends at %" PRIu64 " of %" PRIu32 " chunks",
            s->first, tt_sched_span_end(s), c->shape->chunks);
    if (s->buf >= c->shape->nbufs || s->src >= c->shape->nbufs)
        return tt_sched_check_flaw(c, i, "buffer %" PRIu32 " of %" PRIu32,
                                   s->buf >= c->shape->nbufs ? s->buf : s->src, c->shape->nbufs);
    return TUTTI_OK;
}

/* The rank has every place that the span reads or writes. */
static tutti_status check_places(struct tt_checker *c, size_t i, uint32_t k,
                                 const struct tt_span *s)
{
    struct tt_access a = tt_access_of(&c->slice.ops[i], k, s);
    if (a.writes && a.to == TT_BUF_IN)
        return tt_sched_check_flaw(c, i, "writes the input");
    if (a.reads && a.from == TT_BUF_IN && !tt_sched_places_input(&c->places, c->rank, s))
        return tt_sched_check_flaw(
            c, i, "reads input (chunks from %" PRIu32 ") that this rank of a %s does not have",
            s->first, tt_sched_coll_name(c->shape->coll));
    bool output = (a.writes && a.to == TT_BUF_OUT) || (a.reads && a.from == TT_BUF_OUT);
    if (output && !tt_sched_places_output(&c->places, c->rank, s))
        return tt_sched_check_flaw(
            c, i, "uses output (chunks from %" PRIu32 ") that this rank of a %s does not have",
            s->first, tt_sched_coll_name(c->shape->coll));
    return TUTTI_OK;
}

/* src must equal buf where the operation does not read it; operands lie on the destination's
 * chunks; no copy onto itself. */
static tutti_status check_roles(struct tt_checker *c, size_t i, uint32_t k, const struct tt_span *s)
{
    const struct tt_op *op = &c->slice.ops[i];
    const struct tt_span *dst = &c->slice.spans[op->span];
    bool source = op->kind == TT_OP_COPY || op->kind == TT_OP_RECV_REDUCE ||
                  (op->kind == TT_OP_REDUCE && k > 0);
    if (!source && s->src != s->buf)
        return tt_sched_check_flaw(c, i,
                                   "span %" PRIu32 " names buffer %" PRIu32
                                   " as a source, but reads none: it must equal buf, %" PRIu32,
                                   k, s->src, s->buf);
    if (op->kind == TT_OP_COPY && s->src == s->buf)
        return tt_sched_check_flaw(c, i, "copies buffer %" PRIu32 " onto itself", s->buf);
    if (op->kind != TT_OP_REDUCE)
        return TUTTI_OK;
    if (op->nspans < 2)
        return tt_sched_check_flaw(c, i, "has no operand");
    if (s->first != dst->first || s->len != dst->len || s->stride != dst->stride ||
        s->reps != dst->reps || s->buf != dst->buf)
        return tt_sched_check_flaw(
            c, i, "operand %" PRIu32 " is not on the chunks of the destination", k);
    return TUTTI_OK;
}

/* Readers walk over the repetitions of a span: of a slice when they run it, of all ranks when
 * chunks have owners or sizes of their own. A short line of a hostile file must not cost them
 * hours. */
static tutti_status check_ranges(struct tt_checker *c, size_t i, const struct tt_span *s)
{
    c->ranges += s->reps;
    c->listed += c->shape->owner || c->shape->weights ? s->reps : 0;
    if (c->ranges <= MAX_RANGES && c->listed <= c->max_listed)
        return TUTTI_OK;
    return tt_fail(c->err, TUTTI_ERR_LIMIT,
                   "rank %" PRIu32 " op %zu: too many separate ranges of chunks", c->rank, i);
}

/* In this order: each check may rely on those before it. */
static tutti_status check_op(struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    tutti_status st = check_fields(c, i);
    if (!st)
        st = check_order(c, i);
    for (uint32_t k = 0; !st && k < op->nspans; k++) {
        const struct tt_span *s = &c->slice.spans[op->span + k];
        st = check_extent(c, i, s);
        if (!st)
            st = check_ranges(c, i, s);
        if (!st)
            st = check_roles(c, i, k, s);
        if (!st)
            st = check_places(c, i, k, s);
    }
    return st ? st : tt_sched_check_repeats(c, i);
}

/* Invariant: ops before `i` are good by themselves and against each other. */
static tutti_status check_slice(struct tt_checker *c)
{
    size_t i = 0;
    while (i < c->slice.nops) {
        size_t end = i;
        while (end < c->slice.nops && c->slice.ops[end].step == c->slice.ops[i].step) {
            tutti_status st = check_op(c, end++);
            if (st)
                return st;
        }
        tutti_status st = tt_sched_check_step(c, i, end);
        if (st)
            return st;
        i = end;
    }
    return c->shape->inplace ? tt_sched_check_inplace(c) : TUTTI_OK;
}

static tutti_status check_routes(const struct tt_sched *s, struct tutti_error *err)
{
    if (s->nroutes > 0 && s->shape.topo_hash == 0)
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "routes need the topology they were made for (topo_hash)");
    for (uint32_t i = 0; i < s->nroutes; i++) {
        const struct tt_sched_route *r = &s->routes[i];
        if (r->src >= s->shape.ranks || r->dst >= s->shape.ranks || r->src == r->dst ||
            r->channel > UINT16_MAX)
            return tt_fail(err, TUTTI_ERR_INCORRECT,
                           "route from rank %" PRIu32 " to rank %" PRIu32 " on channel %" PRIu32,
                           r->src, r->dst, r->channel);
    }
    return TUTTI_OK;
}

tutti_status tt_sched_check(const struct tt_sched *s, struct tt_sched_flaw *ret_where,
                            struct tutti_error *err)
{
    struct tt_checker c = {.shape = &s->shape, .where = ret_where, .err = err};
    /* The limits grow with the size of the file: honest large schedules stay below them. */
    c.max_listed = (UINT64_C(1) << 27) + s->nspans * 16;
    c.claims.items.elem = sizeof(struct tt_claim);
    tutti_status st = tt_sched_shape_check(&s->shape, err);
    if (!st)
        st = check_routes(s, err);
    if (!st && (uint64_t)s->first_rank + s->nslices > s->shape.ranks)
        st = tt_fail(err, TUTTI_ERR_INCORRECT, "ranks %" PRIu32 "+%" PRIu32 " of %" PRIu32,
                     s->first_rank, s->nslices, s->shape.ranks);
    if (!st)
        st = tt_sched_places_make(&s->shape, &c.places, err);
    if (st && ret_where)
        *ret_where = (struct tt_sched_flaw){.header = true};
    for (uint32_t i = 0; !st && i < s->nslices; i++) {
        c.rank = s->first_rank + i;
        c.slice = tt_sched_slice(s, c.rank);
        c.claims.work = c.ranges = 0;
        c.max_work = (UINT64_C(1) << 26) + (uint64_t)c.slice.nspans * 16;
        st = check_slice(&c);
    }
    tt_sched_places_free(&c.places);
    tt_vec_free(&c.claims.items);
    return st;
}
