/* build.c - the builder: algorithms list messages, rank by rank, and check the error once, at the
 * end.
 *
 * The builder only appends; it does not judge (check.c does). It brings every operation to its one
 * canonical form, so that equal programs are equal bytes: empty spans vanish, a strided span whose
 * repetitions touch becomes a range, neighbouring ranges of one operation that continue each other
 * in the same buffers are joined, unused fields are zero (or as given: `verbatim`). The spans of a
 * REDUCE are positions (destination, then operands) and are never joined or dropped.
 *
 * Invariant: op_start and span_start have one entry per rank begun; op.span counts from the rank's
 * own first span. */
#include <assert.h>
#include <inttypes.h>

#include "sched/sched_int.h"

static const uint64_t default_max_bytes = UINT64_C(8) << 30;

static bool is_message(unsigned kind)
{
    return kind == TT_OP_SEND || kind == TT_OP_RECV || kind == TT_OP_RECV_REDUCE;
}

void tt_sched_build_begin(struct tt_builder *b, const struct tt_shape *shape, uint32_t first_rank)
{
    *b = (struct tt_builder){
        .shape = *shape,
        .first_rank = first_rank,
        .rank = first_rank,
        .ops = {.elem = sizeof(struct tt_op)},
        .spans = {.elem = sizeof(struct tt_span)},
        .op_start = {.elem = sizeof(uint64_t)},
        .span_start = {.elem = sizeof(uint64_t)},
        .routes = {.elem = sizeof(struct tt_sched_route)},
        .route_links = {.elem = sizeof(uint32_t)},
        .max_bytes = default_max_bytes,
    };
}

static uint64_t vec_bytes(const struct tt_vec *v)
{
    return (uint64_t)v->len * v->elem;
}

/* The sum is recomputed per append: six additions are cheaper than keeping it true. */
static uint64_t bytes_used(const struct tt_builder *b)
{
    return vec_bytes(&b->ops) + vec_bytes(&b->spans) + vec_bytes(&b->op_start) +
           vec_bytes(&b->span_start) + vec_bytes(&b->routes) + vec_bytes(&b->route_links);
}

/* Appends n elements to v within the limit; false (and the sticky error) when that fails. */
static bool build_push(struct tt_builder *b, struct tt_vec *v, const void *items, size_t n)
{
    uint64_t limit = b->max_bytes ? b->max_bytes : default_max_bytes;
    if (bytes_used(b) + (uint64_t)n * v->elem > limit) {
        char size[32];
        b->status = tt_fail(&b->err, TUTTI_ERR_LIMIT,
                            "the schedule grows beyond %s at rank %" PRIu32 " of %" PRIu32,
                            tt_format_size(limit, size, sizeof size), b->rank, b->shape.ranks);
        return false;
    }
    if (n > 0 && !tt_vec_push(v, items, n)) {
        b->status = tt_fail_memory(&b->err, "schedule");
        return false;
    }
    return true;
}

/* Ranks come in rising order without gaps: slice i belongs to rank first_rank + i. */
void tt_sched_build_rank(struct tt_builder *b, uint32_t rank)
{
    if (b->status)
        return;
    assert(rank == b->first_rank + b->nslices && rank < b->shape.ranks);
    uint64_t op_start = b->ops.len, span_start = b->spans.len;
    b->rank = rank;
    if (build_push(b, &b->op_start, &op_start, 1) && build_push(b, &b->span_start, &span_start, 1))
        b->nslices++;
}

/* Capacity only: a failure here is ignored, since appending asks again. */
static void build_reserve(struct tt_vec *v, uint64_t more, uint64_t max_bytes)
{
    uint64_t want = v->len + more;
    if (want <= v->cap || want < more || want > max_bytes / v->elem)
        return;
    void *data = tt_resize(v->data, (size_t)want, v->elem);
    if (!data)
        return;
    assert(want >= v->len);
    v->data = data;
    v->cap = (size_t)want;
}

void tt_sched_build_reserve(struct tt_builder *b, uint64_t ops, uint64_t spans)
{
    uint64_t limit = b->max_bytes ? b->max_bytes : default_max_bytes;
    if (b->status)
        return;
    build_reserve(&b->ops, ops, limit);
    build_reserve(&b->spans, spans, limit);
}

/* The stride of a single range has no meaning: zero, unless foreign fields are kept. */
static struct tt_span canonical(const struct tt_builder *b, struct tt_span s)
{
    return b->verbatim && s.reps == 1 ? s : tt_sched_span_canonical(s);
}

/* Appends spans[0..n-1] of a message or copy, joined where one continues the other. */
static bool push_joined(struct tt_builder *b, unsigned kind, const struct tt_span *spans, size_t n)
{
    size_t from = b->spans.len;
    bool has_source = kind == TT_OP_COPY || kind == TT_OP_RECV_REDUCE;
    for (size_t i = 0; i < n; i++) {
        if (spans[i].len == 0 || spans[i].reps == 0)
            continue;
        struct tt_span s = canonical(b, spans[i]);
        if (!has_source && !b->verbatim)
            s.src = s.buf;
        if (b->spans.len > from && s.stride == 0 &&
            tt_sched_span_extend(tt_vec_at(&b->spans, b->spans.len - 1), &s))
            continue;
        if (!build_push(b, &b->spans, &s, 1))
            return false;
    }
    return true;
}

/* Appends destination and operands as they are: an empty operand of a non-empty destination is an
 * error that tt_sched_check reports. */
static bool push_reduce(struct tt_builder *b, const struct tt_span *spans, size_t n)
{
    if (n == 0 || spans[0].len == 0 || spans[0].reps == 0)
        return true;
    for (size_t i = 0; i < n; i++) {
        struct tt_span s = spans[i];
        if (s.len > 0 && s.reps > 0)
            s = canonical(b, s);
        if (i == 0 && !b->verbatim)
            s.src = s.buf;
        if (!b->verbatim)
            s.buf = spans[0].buf;
        if (!build_push(b, &b->spans, &s, 1))
            return false;
    }
    return true;
}

/* Limits of the counters in struct tt_op. */
static bool within_limits(struct tt_builder *b, const struct tt_op *op, uint64_t slice_spans)
{
    if (op->step >= TT_MAX_STEPS)
        b->status = tt_fail(&b->err, TUTTI_ERR_LIMIT,
                            "rank %" PRIu32 " has step %" PRIu32 ": at most %d steps are accepted",
                            b->rank, op->step, TT_MAX_STEPS);
    else if (slice_spans > UINT32_MAX)
        b->status =
            tt_fail(&b->err, TUTTI_ERR_LIMIT, "rank %" PRIu32 " has more than 2^32 spans", b->rank);
    return !b->status;
}

void tt_sched_emit(struct tt_builder *b, struct tt_op op, const struct tt_span *spans, size_t n)
{
    if (b->status)
        return;
    assert(b->nslices > 0);
    size_t from = b->spans.len;
    uint64_t slice_from = *(uint64_t *)tt_vec_at(&b->span_start, b->nslices - 1);
    bool pushed =
        op.kind == TT_OP_REDUCE ? push_reduce(b, spans, n) : push_joined(b, op.kind, spans, n);
    /* All spans were empty: the operation does nothing and is not emitted. */
    if (!pushed || b->spans.len == from || !within_limits(b, &op, b->spans.len - slice_from))
        return;
    op.span = (uint32_t)(from - slice_from);
    op.nspans = (uint32_t)(b->spans.len - from);
    assert(from >= slice_from && op.nspans > 0);
    op.pad = 0;
    if (!is_message(op.kind) && !b->verbatim) {
        op.peer = 0;
        op.channel = 0;
    }
    build_push(b, &b->ops, &op, 1);
}

void tt_sched_emit_send(struct tt_builder *b, uint32_t step, uint32_t peer, uint16_t channel,
                        const struct tt_span *spans, size_t n)
{
    tt_sched_emit(
        b, (struct tt_op){.kind = TT_OP_SEND, .step = step, .peer = peer, .channel = channel},
        spans, n);
}

void tt_sched_emit_recv(struct tt_builder *b, uint32_t step, uint32_t peer, uint16_t channel,
                        const struct tt_span *spans, size_t n)
{
    tt_sched_emit(
        b, (struct tt_op){.kind = TT_OP_RECV, .step = step, .peer = peer, .channel = channel},
        spans, n);
}

void tt_sched_emit_recv_reduce(struct tt_builder *b, uint32_t step, uint32_t peer, uint16_t channel,
                               const struct tt_span *spans, size_t n)
{
    tt_sched_emit(
        b,
        (struct tt_op){.kind = TT_OP_RECV_REDUCE, .step = step, .peer = peer, .channel = channel},
        spans, n);
}

void tt_sched_emit_copy(struct tt_builder *b, uint32_t step, const struct tt_span *spans, size_t n)
{
    tt_sched_emit(b, (struct tt_op){.kind = TT_OP_COPY, .step = step}, spans, n);
}

void tt_sched_emit_reduce(struct tt_builder *b, uint32_t step, const struct tt_span *spans,
                          size_t n)
{
    tt_sched_emit(b, (struct tt_op){.kind = TT_OP_REDUCE, .step = step}, spans, n);
}

/* A route's links pointer is set only by freezing: until then the arrays still move. */
void tt_sched_build_route(struct tt_builder *b, uint32_t src, uint32_t dst, uint16_t channel,
                          const uint32_t *links, uint32_t n)
{
    if (b->status)
        return;
    struct tt_sched_route r = {.src = src, .dst = dst, .channel = channel, .nlinks = n};
    if (build_push(b, &b->routes, &r, 1))
        build_push(b, &b->route_links, links, n);
}

/* Frees everything; the builder may be begun again. */
void tt_sched_build_abandon(struct tt_builder *b)
{
    tt_sched_shape_free(&b->shape);
    tt_vec_free(&b->ops);
    tt_vec_free(&b->spans);
    tt_vec_free(&b->op_start);
    tt_vec_free(&b->span_start);
    tt_vec_free(&b->routes);
    tt_vec_free(&b->route_links);
    b->nslices = 0;
}
