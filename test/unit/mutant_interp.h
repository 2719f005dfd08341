/* mutant_interp.h - two plain interpreters of schedules on numbers, sharing nothing with verify: what a mutant really does.
 *
 * interp_lockstep follows the lockstep meaning; interp_live runs ranks that know only their own lists, with IN and OUT in one memory when
 * the schedule says so, with messages that end at both ends together, and in random order. Inputs are random 64-bit numbers and every
 * other place starts with garbage, so that what is missing, doubled, stale or never written shows in the sums. */
#ifndef MUTANT_INTERP_H
#define MUTANT_INTERP_H

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

enum interp_verdict { INTERP_CORRECT, INTERP_WRONG, INTERP_UNMATCHED, INTERP_STUCK };

struct interp_mem {
    const struct tt_shape *shape;
    bool alias;
    uint64_t seed;
    size_t row; /* places of a rank */
    uint64_t *at;
};

static inline uint64_t interp_input(const struct interp_mem *m, uint32_t rank, uint32_t chunk)
{
    return tt_mix64(m->seed * 1000003 + (uint64_t)rank * 4099 + chunk + 1);
}

static inline size_t interp_place(const struct interp_mem *m, uint32_t buf, uint32_t chunk)
{
    if (!m->alias || buf != TT_BUF_IN)
        return (size_t)buf * m->shape->chunks + chunk;
    return (size_t)TT_BUF_OUT * m->shape->chunks + tt_shape_alias(m->shape, chunk);
}

static inline uint64_t *interp_cell(const struct interp_mem *m, uint32_t rank, uint32_t buf, uint32_t chunk)
{
    return &m->at[rank * m->row + interp_place(m, buf, chunk)];
}

static inline void interp_begin(struct interp_mem *m, const struct tt_shape *s, uint64_t seed, bool alias)
{
    *m = (struct interp_mem){.shape = s, .alias = alias, .seed = seed, .row = (size_t)s->nbufs * s->chunks};
    m->at = calloc(m->row * s->ranks, sizeof *m->at);
    for (size_t i = 0; i < m->row * s->ranks; i++)
        m->at[i] = tt_mix64(seed ^ (i + UINT64_C(0xabcdef) * 77));
    for (uint32_t r = 0; r < s->ranks; r++)
        for (uint32_t c = 0; c < s->chunks; c++)
            if (tt_shape_has_input(s, r, c))
                *interp_cell(m, r, TT_BUF_IN, c) = interp_input(m, r, c);
}

static inline enum interp_verdict interp_judge(const struct interp_mem *m)
{
    const struct tt_shape *s = m->shape;
    for (uint32_t c = 0; c < s->chunks; c++) {
        uint64_t should = 0;
        for (uint32_t r = 0; r < s->ranks; r++)
            should += tt_shape_has_input(s, r, c) ? interp_input(m, r, c) : 0;
        for (uint32_t r = 0; r < s->ranks; r++)
            if (tt_shape_has_output(s, r, c) && *interp_cell(m, r, TT_BUF_OUT, c) != should)
                return INTERP_WRONG;
    }
    return INTERP_CORRECT;
}

/* The chunks of an operation one by one, with the span each is in. */
static inline size_t interp_chunks(const struct tt_slice *sl, const struct tt_op *op, uint32_t *chunk, const struct tt_span **span)
{
    size_t n = 0;
    uint32_t nspans = op->kind == TT_OP_REDUCE ? 1 : op->nspans;
    for (uint32_t k = 0; k < nspans; k++) {
        const struct tt_span *s = &sl->spans[op->span + k];
        for (uint32_t i = 0; i < s->reps; i++)
            for (uint32_t j = 0; j < s->len; j++, n++) {
                chunk[n] = s->first + i * s->stride + j;
                span[n] = s;
            }
    }
    return n;
}

static inline void interp_local(struct interp_mem *m, uint32_t rank, const struct tt_slice *sl, const struct tt_op *op)
{
    uint32_t *chunk = calloc(m->shape->chunks, sizeof *chunk);
    const struct tt_span **span = calloc(m->shape->chunks, sizeof *span);
    size_t n = interp_chunks(sl, op, chunk, span);
    for (size_t i = 0; i < n; i++) {
        uint64_t sum = 0;
        if (op->kind == TT_OP_COPY)
            sum = *interp_cell(m, rank, span[i]->src, chunk[i]);
        for (uint32_t k = 1; op->kind == TT_OP_REDUCE && k < op->nspans; k++)
            sum += *interp_cell(m, rank, sl->spans[op->span + k].src, chunk[i]);
        *interp_cell(m, rank, span[i]->buf, chunk[i]) = sum;
    }
    free(chunk);
    free(span);
}

/* One message: values from `from` (a snapshot or the memory itself), written to `m`, local operands from `from`. */
static inline bool interp_message(struct interp_mem *m, const struct interp_mem *from, const struct tt_sched *s, uint32_t src,
                                  uint32_t send, uint32_t dst, uint32_t recv)
{
    struct tt_slice a = tt_sched_slice(s, src), b = tt_sched_slice(s, dst);
    uint32_t chunks = m->shape->chunks, *ca = calloc(chunks, sizeof *ca), *cb = calloc(chunks, sizeof *cb);
    const struct tt_span **sa = calloc(chunks, sizeof *sa), **sb = calloc(chunks, sizeof *sb);
    size_t n = interp_chunks(&a, &a.ops[send], ca, sa);
    bool same = interp_chunks(&b, &b.ops[recv], cb, sb) == n && memcmp(ca, cb, n * sizeof *ca) == 0;
    for (size_t i = 0; same && i < n; i++) {
        uint64_t value = *interp_cell(from, src, sa[i]->buf, ca[i]);
        if (b.ops[recv].kind == TT_OP_RECV_REDUCE)
            value += *interp_cell(from, dst, sb[i]->src, cb[i]);
        *interp_cell(m, dst, sb[i]->buf, cb[i]) = value;
    }
    free(ca);
    free(cb);
    free(sa);
    free(sb);
    return same;
}

/* ---- lockstep ---- */

/* The k-th (from 0) operation of this step at `at` that sends to (receives from) `peer` on the channel; or the number of operations. */
static inline size_t interp_partner(const struct tt_slice *sl, bool sends, uint32_t step, uint32_t peer, uint16_t channel, size_t k)
{
    size_t i = 0;
    for (; i < sl->nops; i++) {
        const struct tt_op *op = &sl->ops[i];
        bool message = op->kind <= TT_OP_RECV_REDUCE && (op->kind == TT_OP_SEND) == sends;
        if (message && op->step == step && op->peer == peer && op->channel == channel && k-- == 0)
            break;
    }
    return i;
}

static inline size_t interp_place_in_line(const struct tt_slice *sl, size_t i)
{
    const struct tt_op *op = &sl->ops[i];
    size_t k = 0;
    for (size_t j = 0; j < i; j++) {
        const struct tt_op *o = &sl->ops[j];
        bool message = o->kind <= TT_OP_RECV_REDUCE && (o->kind == TT_OP_SEND) == (op->kind == TT_OP_SEND);
        k += message && o->step == op->step && o->peer == op->peer && o->channel == op->channel;
    }
    return k;
}

static inline bool interp_step(struct interp_mem *m, const struct interp_mem *before, const struct tt_sched *s, uint32_t step)
{
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        for (uint32_t i = 0; i < sl.nops; i++) {
            const struct tt_op *op = &sl.ops[i];
            if (op->step != step || op->kind > TT_OP_RECV_REDUCE)
                continue;
            struct tt_slice other = tt_sched_slice(s, op->peer);
            size_t k = interp_place_in_line(&sl, i), p = interp_partner(&other, op->kind != TT_OP_SEND, step, r, op->channel, k);
            if (p == other.nops)
                return false;
            if (op->kind != TT_OP_SEND && !interp_message(m, before, s, op->peer, (uint32_t)p, r, i))
                return false;
        }
    }
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        for (size_t i = 0; i < sl.nops; i++)
            if (sl.ops[i].step == step && sl.ops[i].kind > TT_OP_RECV_REDUCE)
                interp_local(m, r, &sl, &sl.ops[i]);
    }
    return true;
}

static inline enum interp_verdict interp_lockstep(const struct tt_sched *s, uint64_t seed)
{
    struct interp_mem m, before;
    enum interp_verdict v = INTERP_UNMATCHED;
    bool matched = true;
    interp_begin(&m, &s->shape, seed, false);
    interp_begin(&before, &s->shape, seed, false);
    for (uint32_t step = 0; step < s->nsteps && matched; step++) {
        memcpy(before.at, m.at, m.row * s->shape.ranks * sizeof *m.at);
        matched = interp_step(&m, &before, s, step);
    }
    if (matched)
        v = interp_judge(&m);
    free(m.at);
    free(before.at);
    return v;
}

/* ---- live ---- */

enum { INTERP_PLACES = 2048, INTERP_WORDS = INTERP_PLACES / 64 };
struct interp_live_op {
    bool done, ready;
    uint64_t reads[INTERP_WORDS], writes[INTERP_WORDS];
};

static inline void interp_mark(uint64_t *set, size_t place)
{
    assert(place < INTERP_PLACES);
    set[place / 64] |= UINT64_C(1) << place % 64;
}

static inline void interp_uses(const struct interp_mem *m, const struct tt_slice *sl, const struct tt_op *op, struct interp_live_op *l)
{
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *s = &sl->spans[op->span + k];
        bool writes = op->kind != TT_OP_SEND && (op->kind != TT_OP_REDUCE || k == 0);
        bool reads = op->kind != TT_OP_RECV && (op->kind != TT_OP_REDUCE || k > 0);
        for (uint32_t i = 0; i < s->reps; i++)
            for (uint32_t c = s->first + i * s->stride, e = c + s->len; c < e; c++) {
                if (reads)
                    interp_mark(l->reads, interp_place(m, op->kind == TT_OP_SEND ? s->buf : s->src, c));
                if (writes)
                    interp_mark(l->writes, interp_place(m, s->buf, c));
            }
    }
}

/* Which operations of the rank may start: no earlier unfinished one in the way, and next on (peer, channel). */
static inline void interp_ready(const struct tt_slice *sl, struct interp_live_op *l)
{
    uint64_t reads[INTERP_WORDS] = {0}, writes[INTERP_WORDS] = {0};
    for (size_t i = 0; i < sl->nops; i++) {
        l[i].ready = !l[i].done;
        for (size_t w = 0; w < INTERP_WORDS && !l[i].done; w++) {
            if ((l[i].writes[w] & (reads[w] | writes[w])) || (l[i].reads[w] & writes[w]))
                l[i].ready = false;
            reads[w] |= l[i].reads[w];
            writes[w] |= l[i].writes[w];
        }
        for (size_t j = 0; j < i && l[i].ready; j++)
            if (!l[j].done && sl->ops[j].kind <= TT_OP_RECV_REDUCE && sl->ops[i].kind <= TT_OP_RECV_REDUCE &&
                (sl->ops[j].kind == TT_OP_SEND) == (sl->ops[i].kind == TT_OP_SEND) && sl->ops[j].peer == sl->ops[i].peer &&
                sl->ops[j].channel == sl->ops[i].channel)
                l[i].ready = false;
    }
}

/* A ready receive of `peer` from `rank` on the channel; at most one is next. */
static inline size_t interp_waiting(const struct tt_sched *s, struct interp_live_op *const *l, uint32_t rank, const struct tt_op *send)
{
    struct tt_slice sl = tt_sched_slice(s, send->peer);
    size_t i = 0;
    while (i < sl.nops && !(l[send->peer][i].ready && (sl.ops[i].kind == TT_OP_RECV || sl.ops[i].kind == TT_OP_RECV_REDUCE) &&
                            sl.ops[i].peer == rank && sl.ops[i].channel == send->channel))
        i++;
    return i;
}

/* Runs some of what is ready. Returns 1 something ran or could have, 0 nothing can, -1 ends do not fit. */
static inline int interp_sweep(struct interp_mem *m, const struct tt_sched *s, struct interp_live_op *const *l, struct tt_rng *rng)
{
    int moved = 0;
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        interp_ready(&sl, l[r]);
    }
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        for (uint32_t i = 0; i < sl.nops; i++) {
            const struct tt_op *op = &sl.ops[i];
            if (!l[r][i].ready || op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE)
                continue;
            size_t p = op->kind == TT_OP_SEND ? interp_waiting(s, l, r, op) : 0;
            if (op->kind == TT_OP_SEND && p == tt_sched_slice(s, op->peer).nops)
                continue;
            moved = 1;
            if (tt_rng_below(rng, 4) == 0)
                continue;
            if (op->kind != TT_OP_SEND) {
                interp_local(m, r, &sl, op);
            } else {
                if (!interp_message(m, m, s, r, i, op->peer, (uint32_t)p))
                    return -1;
                l[op->peer][p].done = true;
                l[op->peer][p].ready = false;
            }
            l[r][i].done = true;
            l[r][i].ready = false;
        }
    }
    return moved;
}

static inline enum interp_verdict interp_live(const struct tt_sched *s, uint64_t seed)
{
    struct interp_mem m;
    struct tt_rng rng;
    struct interp_live_op **l = calloc(s->shape.ranks, sizeof *l);
    enum interp_verdict v = INTERP_STUCK;
    int moved;
    bool all = true;
    tt_rng_seed(&rng, seed);
    interp_begin(&m, &s->shape, seed, s->shape.inplace);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        l[r] = calloc(sl.nops + 1, sizeof *l[r]);
        for (size_t i = 0; i < sl.nops; i++)
            interp_uses(&m, &sl, &sl.ops[i], &l[r][i]);
    }
    while ((moved = interp_sweep(&m, s, l, &rng)) > 0)
        ;
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        for (size_t i = 0; i < tt_sched_slice(s, r).nops; i++)
            all = all && l[r][i].done;
        free(l[r]);
    }
    if (moved < 0)
        v = INTERP_UNMATCHED;
    else if (all)
        v = interp_judge(&m);
    free(l);
    free(m.at);
    return v;
}
#endif
