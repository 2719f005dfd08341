/* check_race.c - do the operations of one rank interfere with each other?
 *
 * Three rules. (1) No chunk twice in one operation: then no operation conflicts with itself. (2)
 * Within a step nothing is written twice, and no message reads what an earlier message of the step
 * writes: only then is "messages read the state at the start of the step" the same as "an operation
 * waits for the earlier ones it conflicts with". Reading first and writing later is allowed: the
 * later one waits. (3) In place: nothing reads IN of a chunk after OUT of that chunk was written.
 *
 * All three are one question to a set of claims: which earlier operation touches a chunk of this
 * span? */
#include <inttypes.h>

#include "sched/sched_int.h"

/* Bounds the time that hostile input can cost; counted by claim.c. */
static tutti_status over_work(struct tt_checker *c, size_t op)
{
    if (c->claims.work <= c->max_work)
        return TUTTI_OK;
    return tt_fail(c->err, TUTTI_ERR_LIMIT,
                   "rank %" PRIu32 " op %zu: too many interleaved strided spans to check", c->rank,
                   op);
}

static tutti_status check_race_claim(struct tt_checker *c, uint32_t buf, const struct tt_span *span,
                                     uint64_t order)
{
    return tt_sched_claims_add(&c->claims, buf, span, order)
               ? TUTTI_OK
               : tt_fail_memory(c->err, "checking spans");
}

/* All spans as claims of one buffer: which buffer does not matter inside one operation. */
tutti_status tt_sched_check_repeats(struct tt_checker *c, size_t op)
{
    const struct tt_op *o = &c->slice.ops[op];
    const struct tt_span *spans = c->slice.spans + o->span;
    tutti_status st = TUTTI_OK;
    if (o->nspans == 1 || o->kind == TT_OP_REDUCE)
        return TUTTI_OK;
    c->claims.items.len = 0;
    for (uint32_t i = 0; i < o->nspans && !st; i++)
        st = check_race_claim(c, 0, &spans[i], i);
    if (st)
        return st;
    tt_sched_claims_sort(&c->claims);
    for (uint32_t i = 0; i < o->nspans; i++) {
        const struct tt_claim *other = tt_sched_claims_earlier(&c->claims, 0, &spans[i], i);
        if (other)
            return tt_sched_check_flaw(c, op, "span %" PRIu32 " repeats a chunk of span %" PRIu64,
                                       i, other->order);
        st = over_work(c, op);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* Does this message read a place that another operation of its step might write? IN is never
 * written; a place that the operation also writes is covered by the rule about two writes. */
static bool reads_early(const struct tt_op *op, const struct tt_access *a)
{
    return op->kind == TT_OP_RECV_REDUCE && a->from != a->to && a->from != TT_BUF_IN;
}

/* The claims of a step: everything that its operations write. */
static tutti_status claim_writes(struct tt_checker *c, size_t begin, size_t end)
{
    tutti_status st = TUTTI_OK;
    c->claims.items.len = 0;
    for (size_t i = begin; i < end; i++) {
        const struct tt_op *op = &c->slice.ops[i];
        const struct tt_span *spans = c->slice.spans + op->span;
        for (uint32_t k = 0; k < op->nspans && op->kind != TT_OP_SEND && !st; k++) {
            struct tt_access a = tt_access_of(op, k, &spans[k]);
            if (a.writes)
                st = check_race_claim(c, a.to, &spans[k], i);
        }
    }
    return st;
}

/* Compares operation i with the earlier writes of its step. */
static tutti_status check_conflicts(struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    const struct tt_span *spans = c->slice.spans + op->span;
    for (uint32_t k = 0; k < op->nspans; k++) {
        struct tt_access a = tt_access_of(op, k, &spans[k]);
        const struct tt_claim *w =
            a.writes ? tt_sched_claims_earlier(&c->claims, a.to, &spans[k], i) : NULL;
        if (w)
            return tt_sched_check_flaw(c, i,
                                       "writes what op %" PRIu64
                                       " writes in the same step (buffer %" PRIu32
                                       ", chunks from %" PRIu32 ")",
                                       w->order, a.to, spans[k].first);
        w = reads_early(op, &a) ? tt_sched_claims_earlier(&c->claims, a.from, &spans[k], i) : NULL;
        if (w)
            return tt_sched_check_flaw(c, i,
                                       "reads what message op %" PRIu64
                                       " writes in the same step (buffer %" PRIu32
                                       ", chunks from %" PRIu32 ")",
                                       w->order, a.from, spans[k].first);
    }
    return over_work(c, i);
}

/* Sends come first in a step and write nothing, so they are skipped. */
tutti_status tt_sched_check_step(struct tt_checker *c, size_t begin, size_t end)
{
    size_t first = begin;
    while (first < end && c->slice.ops[first].kind == TT_OP_SEND)
        first++;
    if (end - first < 2)
        return TUTTI_OK; /* a single writer has no conflict */
    tutti_status st = claim_writes(c, first, end);
    if (st)
        return st;
    tt_sched_claims_sort(&c->claims);
    for (size_t i = first; i < end && !st; i++)
        st = check_conflicts(c, i);
    return st;
}

/* ---- in place ---- */

/* Copying IN to OUT of one chunk changes nothing when both are one memory. */
static bool changes_output(const struct tt_op *op, const struct tt_access *a)
{
    return a->writes && a->to == TT_BUF_OUT && !(op->kind == TT_OP_COPY && a->from == TT_BUF_IN);
}

/* Used to narrow the range of operations that must be compared. */
static bool op_changes_output(const struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    for (uint32_t k = 0; k < op->nspans; k++) {
        struct tt_access a = tt_access_of(op, k, &c->slice.spans[op->span + k]);
        if (changes_output(op, &a))
            return true;
    }
    return false;
}

static bool op_reads_input(const struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    for (uint32_t k = 0; k < op->nspans; k++) {
        struct tt_access a = tt_access_of(op, k, &c->slice.spans[op->span + k]);
        if (a.reads && a.from == TT_BUF_IN)
            return true;
    }
    return false;
}

/* The chunks of IN that share memory with OUT of the span. In all-to-all an output span is a
 * column: single chunks, with a stride of whole rows. */
static struct tt_span aliased(const struct tt_shape *s, struct tt_span span)
{
    if (s->coll != TUTTI_ALL_TO_ALL || s->ranks == 1)
        return span;
    span.first = tt_sched_shape_alias(s, span.first);
    span.stride /= s->ranks;
    return span;
}

/* The claims of in-place checking: outputs, as the chunks of IN that they overwrite. */
static tutti_status claim_outputs(struct tt_checker *c, size_t begin, size_t end)
{
    tutti_status st = TUTTI_OK;
    c->claims.items.len = 0;
    for (size_t i = begin; i < end; i++) {
        const struct tt_op *op = &c->slice.ops[i];
        for (uint32_t k = 0; k < op->nspans && !st; k++) {
            struct tt_span span = c->slice.spans[op->span + k];
            struct tt_access a = tt_access_of(op, k, &span);
            span = aliased(c->shape, span);
            if (changes_output(op, &a))
                st = check_race_claim(c, TT_BUF_IN, &span, i);
        }
    }
    return st;
}

static tutti_status check_input_reads(struct tt_checker *c, size_t i)
{
    const struct tt_op *op = &c->slice.ops[i];
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *span = &c->slice.spans[op->span + k];
        struct tt_access a = tt_access_of(op, k, span);
        if (!a.reads || a.from != TT_BUF_IN)
            continue;
        const struct tt_claim *w = tt_sched_claims_earlier(&c->claims, TT_BUF_IN, span, i);
        if (w)
            return tt_sched_check_flaw(c, i,
                                       "reads input that op %" PRIu64
                                       " has overwritten when run in place (chunks from %" PRIu32
                                       "), but the schedule says it may be",
                                       w->order, span->first);
    }
    return over_work(c, i);
}

/* Only operations between the first write of OUT and the last read of IN can conflict. */
tutti_status tt_sched_check_inplace(struct tt_checker *c)
{
    size_t first_write = 0, reads_end = c->slice.nops;
    while (first_write < c->slice.nops && !op_changes_output(c, first_write))
        first_write++;
    while (reads_end > first_write && !op_reads_input(c, reads_end - 1))
        reads_end--;
    if (reads_end < first_write + 2)
        return TUTTI_OK; /* no read of IN follows a write of OUT */
    tutti_status st = claim_outputs(c, first_write, reads_end);
    if (st)
        return st;
    tt_sched_claims_sort(&c->claims);
    for (size_t i = first_write; i < reads_end && !st; i++)
        st = check_input_reads(c, i);
    return st;
}
