/* emit.c - runs of chunks become the ranks' lists of operations.
 *
 * The runs are sorted twice: by sender and by receiver, each by step and then by how far the peer
 * is ahead, so that in every round each rank is the target of one sender. A rank's reduce-scatter
 * is its part of both lists forwards (sends, receives, sums of each step); the all-gather is the
 * same parts backwards in mirrored time, with senders and receivers exchanged. All chunks that go
 * the same way in one step are one message. Results that cross the top of a hierarchy of several
 * levels have a channel of their own: on a shared channel the results of the first segments would
 * wait for the sums of the last ones, and the levels below for the results. Invariant: before a
 * step is listed, the cursors are at the first run of that step or a later one. */
#include "algo/flex/flex.h"
#include "algo/phases.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum act { SUM_SEND, SUM_RECV, HAND_SEND, HAND_RECV };

struct lister {
    const struct tt_flex_plan *p;
    struct tt_builder *b;
    const struct tt_flex_run *by_src, *by_dst;
    const struct tt_flex_sum *sums;
    size_t nruns, nsums;
    size_t src0, src1, dst0, dst1, sum0, sum1; /* ranges of the rank being listed */
    struct tt_vec spans;
};

static int emit_order(uint64_t a, uint64_t b)
{
    return a < b ? -1 : a > b;
}

/* The peer's distance ahead of the rank. The number of ranks is not needed: modulo 2^32 the order
 * is the same. */
static int by_sender(const void *a, const void *b)
{
    const struct tt_flex_run *x = a, *y = b;
    int d = emit_order(x->src, y->src);
    d = d ? d : emit_order(x->step, y->step);
    d = d ? d : emit_order((uint32_t)(x->dst - x->src), (uint32_t)(y->dst - y->src));
    return d ? d : emit_order(x->first, y->first);
}

static int by_receiver(const void *a, const void *b)
{
    const struct tt_flex_run *x = a, *y = b;
    int d = emit_order(x->dst, y->dst);
    d = d ? d : emit_order(x->step, y->step);
    d = d ? d : emit_order((uint32_t)(x->dst - x->src), (uint32_t)(y->dst - y->src));
    return d ? d : emit_order(x->first, y->first);
}

static int by_rank(const void *a, const void *b)
{
    const struct tt_flex_sum *x = a, *y = b;
    int d = emit_order(x->rank, y->rank);
    d = d ? d : emit_order(x->step, y->step);
    return d ? d : emit_order(x->first, y->first);
}

/* The span that the act reads or writes; all-gathers use OUT, except the first one of a rank. */
static struct tt_span span_of(const struct tt_flex_run *run, enum act act, bool from_input)
{
    switch (act) {
    case SUM_SEND:
        return tt_sched_span_range(run->from, run->first, run->len);
    case SUM_RECV:
        return tt_sched_span_from(run->to, run->add == TT_FLEX_APART ? run->to : run->add,
                                  run->first, run->len);
    case HAND_SEND:
        return tt_sched_span_range(from_input ? TT_BUF_IN : TT_BUF_OUT, run->first, run->len);
    default:
        return tt_sched_span_range(TT_BUF_OUT, run->first, run->len);
    }
}

static uint32_t peer_of(const struct tt_flex_run *run, enum act act)
{
    return act == SUM_SEND || act == HAND_RECV ? run->dst : run->src;
}

static uint16_t channel_of(const struct tt_flex_plan *p, const struct tt_flex_run *run,
                           enum act act)
{
    return (act == HAND_SEND || act == HAND_RECV) && p->top > 0 && run->step >= p->top;
}

/* Runs from .. to-1 are those of one rank and step; each peer gets one message. */
static void emit_messages(struct lister *l, const struct tt_flex_run *runs, size_t from, size_t to,
                          enum act act, uint32_t step)
{
    bool from_input = act == HAND_SEND && step == 0; /* an all-gather alone */
    uint16_t channel = from < to ? channel_of(l->p, &runs[from], act) : 0;
    for (size_t i = from, end; i < to; i = end) {
        uint32_t peer = peer_of(&runs[i], act);
        l->spans.len = 0;
        for (end = i; end < to && peer_of(&runs[end], act) == peer; end++) {
            struct tt_span s = span_of(&runs[end], act, from_input);
            if (!tt_vec_push(&l->spans, &s, 1)) {
                l->b->status = tt_fail_memory(&l->b->err, "messages");
                return;
            }
        }
        if (act == SUM_SEND || act == HAND_SEND)
            tt_sched_emit_send(l->b, step, peer, channel, l->spans.data, l->spans.len);
        else if (act == SUM_RECV && runs[i].add != TT_FLEX_APART)
            tt_sched_emit_recv_reduce(l->b, step, peer, channel, l->spans.data, l->spans.len);
        else
            tt_sched_emit_recv(l->b, step, peer, channel, l->spans.data, l->spans.len);
    }
}

/* The end of the runs of this step, from the front; run_begin: their begin, from the back. */
static size_t run_end(const struct tt_flex_run *runs, size_t from, size_t to, uint32_t step)
{
    while (from < to && runs[from].step == step)
        from++;
    return from;
}

static size_t run_begin(const struct tt_flex_run *runs, size_t from, size_t to, uint32_t step)
{
    while (to > from && runs[to - 1].step == step)
        to--;
    return to;
}

/* Adds what arrived apart, and the own part in its place, in the order of the children. */
static void emit_sum(struct lister *l, const struct tt_flex_sum *s)
{
    struct tt_span span = tt_sched_span_range(s->to, s->first, s->len);
    l->spans.len = 0;
    bool ok = tt_vec_push(&l->spans, &span, 1);
    for (uint32_t k = 0; ok && k < s->children; k++) {
        span = tt_sched_span_from(s->to, k == s->own ? s->add : TT_FLEX_ARRIVALS + k, s->first,
                                  s->len);
        ok = tt_vec_push(&l->spans, &span, 1);
    }
    if (ok)
        tt_sched_emit_reduce(l->b, s->step, l->spans.data, l->spans.len);
    else
        l->b->status = tt_fail_memory(&l->b->err, "sums");
}

/* Reduce-scatter: sends, receives, then sums of every step. */
static void list_scatter(struct lister *l)
{
    size_t s = l->src0, d = l->dst0, sum = l->sum0;
    for (uint32_t step = 0; step < l->p->steps; step++) {
        size_t s_end = run_end(l->by_src, s, l->src1, step),
               d_end = run_end(l->by_dst, d, l->dst1, step);
        emit_messages(l, l->by_src, s, s_end, SUM_SEND, step);
        emit_messages(l, l->by_dst, d, d_end, SUM_RECV, step);
        for (; sum < l->sum1 && l->sums[sum].step == step; sum++)
            emit_sum(l, &l->sums[sum]);
        s = s_end;
        d = d_end;
    }
}

/* Copies the chunks that the rank ends with from the input to the output. It follows the messages
 * of the step, which still read them there. */
static void emit_own(struct lister *l)
{
    const struct tt_flex_cells *root = &l->p->cells[0];
    for (uint32_t c = 0; c < root->n; c++) {
        struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, c, 0);
        while (c + own.len < root->n && root->rep[c + own.len] == l->b->rank)
            own.len++;
        if (own.len > 0)
            tt_sched_emit_copy(l->b, 0, &own, 1);
        c += own.len;
    }
}

/* All-gather: the lists backwards, from step `first` on. */
static void list_gather(struct lister *l, uint32_t first)
{
    size_t s = l->src1, d = l->dst1;
    for (uint32_t i = 0; i < l->p->steps; i++) {
        uint32_t mirrored = l->p->steps - 1 - i;
        size_t s_begin = run_begin(l->by_src, l->src0, s, mirrored),
               d_begin = run_begin(l->by_dst, l->dst0, d, mirrored);
        emit_messages(l, l->by_dst, d_begin, d, HAND_SEND, first + i);
        emit_messages(l, l->by_src, s_begin, s, HAND_RECV, first + i);
        if (first + i == 0)
            emit_own(l);
        s = s_begin;
        d = d_begin;
    }
}

/* The ranges advance with the rank: both lists are sorted by it. */
static void list_rank(struct lister *l, uint32_t rank)
{
    tutti_coll coll = l->b->shape.coll;
    l->src0 = l->src1;
    l->dst0 = l->dst1;
    l->sum0 = l->sum1;
    while (l->src1 < l->nruns && l->by_src[l->src1].src == rank)
        l->src1++;
    while (l->dst1 < l->nruns && l->by_dst[l->dst1].dst == rank)
        l->dst1++;
    while (l->sum1 < l->nsums && l->sums[l->sum1].rank == rank)
        l->sum1++;
    tt_sched_build_rank(l->b, rank);
    if (tt_sched_coll_reduces(coll))
        list_scatter(l);
    if (tt_algo_coll_gathers(coll))
        list_gather(l, tt_sched_coll_reduces(coll) ? l->p->steps : 0);
}

/* Sorts p's own lists; they are not needed in another order afterwards. */
void tt_flex_emit(struct tt_flex_plan *p, struct tt_builder *b)
{
    struct lister l = {.p = p,
                       .b = b,
                       .nruns = p->run.len,
                       .nsums = p->sum.len,
                       .spans = {.elem = sizeof(struct tt_span)}};
    struct tt_flex_run *sorted = tt_alloc(l.nruns + 1, sizeof *sorted);
    if (!sorted) {
        b->status = tt_fail_memory(&b->err, "messages");
        return;
    }
    assert(p->run.data);
    memcpy(sorted, p->run.data, l.nruns * sizeof *sorted);
    qsort(sorted, l.nruns, sizeof *sorted, by_receiver);
    qsort(p->run.data, l.nruns, sizeof *sorted, by_sender);
    if (l.nsums > 0)
        qsort(p->sum.data, l.nsums, sizeof(struct tt_flex_sum), by_rank);
    l.by_src = p->run.data;
    l.by_dst = sorted;
    l.sums = p->sum.data;
    for (uint32_t r = 0; r < b->shape.ranks && !b->status; r++)
        list_rank(&l, r);
    tt_vec_free(&l.spans);
    free(sorted);
}
