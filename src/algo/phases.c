/* phases.c - reduce-scatters and all-gathers inside groups of ranks, listed together.
 *
 * A phase knows, for each of its steps t, one send, one receive and perhaps one copy (the kinds are
 * in ring.c and circulant.c). tt_algo_phases_emit walks over the steps of all phases and asks each
 * active one first for its send, then for its receive, then for its local operation: the order that
 * a schedule requires. Two rings in opposite directions, or the levels of a hierarchy, are nothing
 * but lists of phases. */
#include "algo/phases.h"

#include <assert.h>
#include <inttypes.h>

uint32_t tt_algo_group_rank(const struct tt_group *g, uint32_t i)
{
    assert(i < g->n);
    return g->list ? g->list[i] : g->first + i * g->stride;
}

/* The sum is formed in 64 bits: i + d may exceed 32. */
uint32_t tt_algo_group_after(const struct tt_group *g, uint32_t i, uint32_t d)
{
    assert(i < g->n);
    return (uint32_t)(((uint64_t)i + d) % g->n);
}

uint32_t tt_algo_group_before(const struct tt_group *g, uint32_t i, uint32_t d)
{
    return tt_algo_group_after(g, i, g->n - d % g->n);
}

/* Blocks i .. i+n-1 (no wrap) as one span. */
static struct tt_span run_of_blocks(const struct tt_group_blocks *k, uint32_t i, uint32_t n)
{
    struct tt_span s = {
        .first = k->first + i * k->step, .len = k->len, .reps = k->reps ? k->reps : 1};
    assert(n > 0);
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

/* A range that wraps around the end of the group is two spans, first the part before the end. */
size_t tt_algo_group_spans(const struct tt_group *g, uint32_t i, uint32_t n, uint32_t buf,
                           uint32_t src, struct tt_span *ret)
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

uint32_t tt_algo_phase_steps(const struct tt_phase *p)
{
    return p->kind->steps(p->group.n);
}

/* The first message reads the contributions; later ones read what the phase has made so far. */
static void emit_send(struct tt_builder *b, const struct tt_phase *p, uint32_t t)
{
    struct tt_span spans[TT_GROUP_SPANS];
    struct tt_hop h = p->kind->hop(p, t, true);
    uint32_t buf = t == 0 ? p->in : p->kind->reduces ? p->work : p->out;
    assert(t < tt_algo_phase_steps(p));
    size_t n = tt_algo_group_spans(&p->group, h.block, h.n, buf, buf, spans);
    tt_sched_emit_send(b, p->step + t, h.peer, p->channel, spans, n);
}

/* A partial sum is the local operand plus the message. The last step completes the own block, which
 * belongs in `out`. */
static void emit_recv(struct tt_builder *b, const struct tt_phase *p, uint32_t t)
{
    struct tt_span spans[TT_GROUP_SPANS];
    struct tt_hop h = p->kind->hop(p, t, false);
    assert(h.block < p->group.n && h.peer < b->shape.ranks && h.peer != b->rank);
    if (!p->kind->reduces) {
        size_t n = tt_algo_group_spans(&p->group, h.block, h.n, p->out, p->out, spans);
        tt_sched_emit_recv(b, p->step + t, h.peer, p->channel, spans, n);
        return;
    }
    uint32_t src = p->kind->receives_once || t == 0 ? p->in : p->work;
    uint32_t buf = t + 1 == tt_algo_phase_steps(p) ? p->out : p->work;
    size_t n = tt_algo_group_spans(&p->group, h.block, h.n, buf, src, spans);
    tt_sched_emit_recv_reduce(b, p->step + t, h.peer, p->channel, spans, n);
}

/* The all-gather's own block goes to the output; a block that the reduce-scatter carries joins the
 * others in `work`, so that every later message is one cyclic range of one buffer. */
static void emit_local(struct tt_builder *b, const struct tt_phase *p, uint32_t t)
{
    struct tt_span spans[TT_GROUP_SPANS];
    const struct tt_group *g = &p->group;
    uint32_t carried;
    size_t n = 0;
    if (t > 0)
        return;
    if (!p->kind->reduces && p->in != p->out)
        n = tt_algo_group_spans(g, g->me, 1, p->out, p->in, spans);
    if (p->kind->carried && p->in != p->work && p->kind->carried(g, &carried))
        n = tt_algo_group_spans(g, carried, 1, p->work, p->in, spans);
    if (n > 0)
        tt_sched_emit_copy(b, p->step, spans, n);
}

void tt_algo_phases_emit(struct tt_builder *b, const struct tt_phase *phases, size_t n)
{
    static void (*const kinds[])(struct tt_builder *, const struct tt_phase *,
                                 uint32_t) = {emit_send, emit_recv, emit_local};
    uint32_t first = UINT32_MAX, end = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t last = phases[i].step + tt_algo_phase_steps(&phases[i]);
        first = phases[i].step < first ? phases[i].step : first;
        end = last > end ? last : end;
        assert(!phases[i].reverse || phases[i].kind->reversible);
        assert(phases[i].group.me < phases[i].group.n);
    }
    /* Invariant: everything before `step` is listed, and nothing of `step` or later. */
    for (uint32_t step = first; step < end; step++)
        for (size_t k = 0; k < countof(kinds); k++)
            for (size_t i = 0; i < n; i++)
                if (step >= phases[i].step &&
                    step - phases[i].step < tt_algo_phase_steps(&phases[i]))
                    kinds[k](b, &phases[i], step - phases[i].step);
}

/* OUT of foreign chunks does not exist in a reduce-scatter: partial sums need scratch there. */
void tt_algo_phases_shape(struct tt_shape *s)
{
    s->chunks = s->ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    s->symmetric = true;
}

/* Both phases: the all-gather starts from OUT in the step after the reduce-scatter ends. */
void tt_algo_phases_slice(struct tt_builder *b, const struct tt_phase_kind *rs,
                          const struct tt_phase_kind *ag)
{
    bool reduces = tt_sched_coll_reduces(b->shape.coll),
         gathers = tt_algo_coll_gathers(b->shape.coll);
    struct tt_group all = {
        .n = b->shape.ranks, .me = b->rank, .stride = 1, .blocks = {.step = 1, .len = 1}};
    struct tt_phase scatter = {.kind = rs, .group = all, .in = TT_BUF_IN, .out = TT_BUF_OUT};
    struct tt_phase gather = {.kind = ag, .group = all, .in = TT_BUF_IN, .out = TT_BUF_OUT};
    scatter.work = gathers ? TT_BUF_OUT : TT_BUF_SCRATCH;
    if (reduces && gathers) {
        gather.in = TT_BUF_OUT;
        gather.step = tt_algo_phase_steps(&scatter);
    }
    if (all.n == 1)
        tt_algo_emit_alone(b);
    else if (reduces && gathers)
        tt_algo_phases_emit(b, (struct tt_phase[]){scatter, gather}, 2);
    else
        tt_algo_phases_emit(b, reduces ? &scatter : &gather, 1);
}

void tt_algo_emit_alone(struct tt_builder *b)
{
    struct tt_span all = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, b->shape.chunks);
    tt_sched_emit_copy(b, 0, &all, 1);
}

tutti_status tt_algo_refuse_steps(uint64_t steps, struct tutti_error *why)
{
    if (steps <= TT_MAX_STEPS)
        return TUTTI_OK;
    return tt_fail(why, TUTTI_ERR_REFUSED, "needs %" PRIu64 " steps; at most %d are accepted",
                   steps, (int)TT_MAX_STEPS);
}

tutti_status tt_algo_refuse_bufs(uint64_t bufs, struct tutti_error *why)
{
    if (bufs <= TT_MAX_BUFS)
        return TUTTI_OK;
    return tt_fail(why, TUTTI_ERR_REFUSED, "needs %" PRIu64 " buffers; at most %d are accepted",
                   bufs, (int)TT_MAX_BUFS);
}

bool tt_algo_coll_gathers(tutti_coll c)
{
    return c == TUTTI_ALLREDUCE || c == TUTTI_ALL_GATHER || c == TUTTI_BARRIER;
}
