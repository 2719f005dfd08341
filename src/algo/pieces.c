/* pieces.c - ring and circulant phases inside a group, listed together.
 *
 * A piece knows, for each of its steps t, one send, one receive and perhaps one copy. tt_pieces_emit walks over the steps of all
 * pieces and asks each active one first for sends, then for receives, then for local operations: the order a schedule demands. So
 * two rings in opposite directions, or the levels of a hierarchy, are lists of pieces and nothing else.
 *
 * Ring, n = 4, member i sends right (i+1); block numbers sent at step t by member i (all modulo n):
 *     reduce-scatter  i-1-t :   member 0 sends 3, 2, 1 and receives 2, 1, 0 (its own, complete, last)
 *     all-gather      i-t   :   member 0 sends 0, 3, 2 and receives 3, 2, 1
 * Each block is received once in each phase: a partial sum is the local contribution plus the message, written once.
 *
 * Circulant, n = 5: offsets c = 5 -> 3 -> 2 -> 1; blocks are named by their offset j = block - i from the member:
 *     reduce-scatter  t=0 sends offsets 3,4 to i+3;  t=1 sends 2 to i+2;  t=2 sends 1 to i+1
 *     all-gather      the same messages backwards: t=0 own block to i-1, t=1 offset 0 to i-2, t=2 offsets 0,1 to i-3
 * Invariant of the reduce-scatter: before step t offsets 0 .. ceil(n/2^t)-1 hold partial sums that together, over all members, have every
 * contribution once; all other offsets are spent. Of the all-gather: before step t of q offsets 0 .. ceil(n/2^(q-t))-1 are complete. */
#include "algo/pieces.h"

#include <assert.h>
#include <inttypes.h>

uint32_t tt_group_rank(const struct tt_group *g, uint32_t i)
{
    assert(i < g->n);
    return g->list ? g->list[i] : g->first + i * g->stride;
}

/* (i + d) mod n without overflow, for i < n and any d. */
static uint32_t ahead(uint32_t i, uint32_t d, uint32_t n)
{
    return (uint32_t)(((uint64_t)i + d) % n);
}

static uint32_t behind(uint32_t i, uint32_t d, uint32_t n)
{
    return ahead(i, n - d % n, n);
}

/* Blocks i .. i+n-1 (no wrap) as one span. */
static struct tt_span run_of_blocks(const struct tt_blocks *k, uint32_t i, uint32_t n)
{
    struct tt_span s = {.first = k->first + i * k->step, .len = k->len, .reps = k->reps ? k->reps : 1};
    if (s.reps > 1)
        s.stride = k->stride;
    if (n == 1)
        return s;
    if (k->step == k->len) {
        s.len *= n;
        return s;
    }
    assert(s.reps == 1);
    s.stride = k->step;
    s.reps = n;
    return s;
}

size_t tt_group_spans(const struct tt_group *g, uint32_t i, uint32_t n, uint32_t buf, uint32_t src, struct tt_span *ret)
{
    assert(i < g->n && n >= 1 && n <= g->n);
    size_t k = 0;
    if (g->block) {
        assert(n == 1);
        k = g->block(g->ctx, i, ret);
        assert(k <= TT_GROUP_SPANS);
    } else {
        uint32_t head = n <= g->n - i ? n : g->n - i;
        ret[k++] = run_of_blocks(&g->blocks, i, head);
        if (head < n)
            ret[k++] = run_of_blocks(&g->blocks, 0, n - head);
    }
    for (size_t j = 0; j < k; j++) {
        ret[j].buf = buf;
        ret[j].src = src;
    }
    return k;
}

static bool is_ring(const struct tt_piece *p)
{
    return p->kind == TT_RING_RS || p->kind == TT_RING_AG;
}

static bool is_reduction(const struct tt_piece *p)
{
    return p->kind == TT_RING_RS || p->kind == TT_CIRCULANT_RS;
}

uint32_t tt_piece_steps(const struct tt_piece *p)
{
    return is_ring(p) ? p->group.n - 1 : tt_ceil_log2(p->group.n);
}

/* Where a message of step t goes or comes from, and which blocks it carries: `block` .. `block`+n-1, cyclically. */
struct hop {
    uint32_t peer, block, n;
};

static struct hop ring_hop(const struct tt_piece *p, uint32_t t, bool send)
{
    const struct tt_group *g = &p->group;
    uint32_t back = t + (is_reduction(p) ? 1 : 0) + (send ? 0 : 1);
    bool up = send != p->reverse; /* the peer is member me+1 */
    return (struct hop){
        .peer = tt_group_rank(g, up ? ahead(g->me, 1, g->n) : behind(g->me, 1, g->n)),
        .block = p->reverse ? ahead(g->me, back, g->n) : behind(g->me, back, g->n),
        .n = 1,
    };
}

/* ceil(n / 2^t) */
static uint32_t offsets_left(uint32_t n, uint32_t t)
{
    return (uint32_t)(((uint64_t)n + (1ull << t) - 1) >> t);
}

/* The reduce-scatter moves offsets s..c-1 from member i to i+s, where they are offsets 0..c-s-1; the all-gather moves them back. */
static struct hop circulant_hop(const struct tt_piece *p, uint32_t t, bool send)
{
    const struct tt_group *g = &p->group;
    uint32_t level = is_reduction(p) ? t : tt_ceil_log2(g->n) - 1 - t;
    uint32_t c = offsets_left(g->n, level), s = offsets_left(g->n, level + 1);
    bool far = send == is_reduction(p); /* the far end of the pair: offsets s..c-1 here, peer i+s */
    return (struct hop){
        .peer = tt_group_rank(g, far ? ahead(g->me, s, g->n) : behind(g->me, s, g->n)),
        .block = far ? ahead(g->me, s, g->n) : g->me,
        .n = c - s,
    };
}

static struct hop piece_hop(const struct tt_piece *p, uint32_t t, bool send)
{
    return is_ring(p) ? ring_hop(p, t, send) : circulant_hop(p, t, send);
}

static void emit_send(struct tt_builder *b, const struct tt_piece *p, uint32_t t)
{
    struct tt_span spans[TT_GROUP_SPANS];
    struct hop h = piece_hop(p, t, true);
    uint32_t buf = t == 0 ? p->in : is_reduction(p) ? p->work : p->out;
    size_t n = tt_group_spans(&p->group, h.block, h.n, buf, buf, spans);
    tt_emit_send(b, p->step + t, h.peer, p->channel, spans, n);
}

static void emit_recv(struct tt_builder *b, const struct tt_piece *p, uint32_t t)
{
    struct tt_span spans[TT_GROUP_SPANS];
    struct hop h = piece_hop(p, t, false);
    if (!is_reduction(p)) {
        size_t n = tt_group_spans(&p->group, h.block, h.n, p->out, p->out, spans);
        tt_emit_recv(b, p->step + t, h.peer, p->channel, spans, n);
        return;
    }
    uint32_t src = is_ring(p) || t == 0 ? p->in : p->work;
    uint32_t buf = t + 1 == tt_piece_steps(p) ? p->out : p->work;
    size_t n = tt_group_spans(&p->group, h.block, h.n, buf, src, spans);
    tt_emit_recv_reduce(b, p->step + t, h.peer, p->channel, spans, n);
}

/* All-gather: the own block goes to the output. Circulant reduce-scatter of an odd number: the middle offset received nothing in the first
 * step; it joins the others in `work`, so that every later message is one cyclic range of one buffer. */
static void emit_local(struct tt_builder *b, const struct tt_piece *p, uint32_t t)
{
    struct tt_span spans[TT_GROUP_SPANS];
    const struct tt_group *g = &p->group;
    size_t n = 0;
    if (t > 0)
        return;
    if (!is_reduction(p) && p->in != p->out)
        n = tt_group_spans(g, g->me, 1, p->out, p->in, spans);
    if (p->kind == TT_CIRCULANT_RS && g->n % 2 == 1 && p->in != p->work)
        n = tt_group_spans(g, ahead(g->me, g->n / 2, g->n), 1, p->work, p->in, spans);
    if (n > 0)
        tt_emit_copy(b, p->step, spans, n);
}

void tt_pieces_emit(struct tt_builder *b, const struct tt_piece *pieces, size_t n)
{
    static void (*const kinds[])(struct tt_builder *, const struct tt_piece *, uint32_t) = {emit_send, emit_recv, emit_local};
    uint32_t first = UINT32_MAX, end = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t last = pieces[i].step + tt_piece_steps(&pieces[i]);
        first = pieces[i].step < first ? pieces[i].step : first;
        end = last > end ? last : end;
        assert(!pieces[i].reverse || is_ring(&pieces[i]));
    }
    /* Invariant: everything before `step` is listed, and nothing of `step` or later. */
    for (uint32_t step = first; step < end; step++)
        for (size_t k = 0; k < countof(kinds); k++)
            for (size_t i = 0; i < n; i++)
                if (step >= pieces[i].step && step - pieces[i].step < tt_piece_steps(&pieces[i]))
                    kinds[k](b, &pieces[i], step - pieces[i].step);
}

void tt_pieces_shape(struct tt_shape *s)
{
    s->chunks = s->ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    s->symmetric = true;
}

void tt_pieces_slice(struct tt_builder *b, enum tt_piece_kind rs, enum tt_piece_kind ag)
{
    bool reduces = tt_coll_reduces(b->shape.coll), gathers = tt_coll_gathers(b->shape.coll);
    struct tt_group all = {.n = b->shape.ranks, .me = b->rank, .stride = 1, .blocks = {.step = 1, .len = 1}};
    struct tt_piece scatter = {.kind = rs, .group = all, .in = TT_BUF_IN, .out = TT_BUF_OUT};
    struct tt_piece gather = {.kind = ag, .group = all, .in = TT_BUF_IN, .out = TT_BUF_OUT};
    scatter.work = gathers ? TT_BUF_OUT : TT_BUF_SCRATCH;
    if (reduces && gathers) {
        gather.in = TT_BUF_OUT;
        gather.step = tt_piece_steps(&scatter);
    }
    if (all.n == 1)
        tt_emit_alone(b);
    else if (reduces && gathers)
        tt_pieces_emit(b, (struct tt_piece[]){scatter, gather}, 2);
    else
        tt_pieces_emit(b, reduces ? &scatter : &gather, 1);
}

void tt_emit_alone(struct tt_builder *b)
{
    struct tt_span all = tt_span_from(TT_BUF_OUT, TT_BUF_IN, 0, b->shape.chunks);
    tt_emit_copy(b, 0, &all, 1);
}

tutti_status tt_refuse_steps(uint64_t steps, struct tutti_error *why)
{
    if (steps <= TT_MAX_STEPS)
        return TUTTI_OK;
    return tt_fail(why, TUTTI_ERR_REFUSED, "needs %" PRIu64 " steps; at most %d are accepted", steps, (int)TT_MAX_STEPS);
}

tutti_status tt_refuse_bufs(uint64_t bufs, struct tutti_error *why)
{
    if (bufs <= TT_MAX_BUFS)
        return TUTTI_OK;
    return tt_fail(why, TUTTI_ERR_REFUSED, "needs %" PRIu64 " buffers; at most %d are accepted", bufs, (int)TT_MAX_BUFS);
}

bool tt_coll_gathers(tutti_coll c)
{
    return c == TUTTI_ALLREDUCE || c == TUTTI_ALL_GATHER || c == TUTTI_BARRIER;
}
