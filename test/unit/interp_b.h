/* interp_b.h - a plain interpreter of schedules for tests: every rank, every buffer, every chunk as real numbers, step by step.
 *
 * It shares no code with verify: it adds random 64-bit numbers (exact, so that a wrong, doubled or missing contribution shows) and,
 * beside them, doubles of mixed magnitudes (so that a different order of summation at two ranks shows). interp_live asks whether the
 * schedule can be run by ranks that only know their own list, with messages that complete at both ends together (rendezvous). */
#ifndef INTERP_B_H
#define INTERP_B_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

struct interp_cell {
    bool set;
    uint32_t stamp; /* step + 1 of the last write */
    uint64_t exact;
    double real;
};

struct interp_send {
    uint32_t from, to, channel, used;
    size_t n;
    uint32_t *chunks;
    struct interp_cell *data;
};

struct interp {
    const struct tt_sched *s;
    bool alias; /* in place: IN and OUT are one memory */
    struct interp_cell *cells;
    size_t next[4096]; /* next op of each rank */
    struct interp_send *sends;
    size_t nsends;
    char why[256];
};

static inline struct interp_cell interp_input(uint32_t rank, uint32_t chunk)
{
    uint64_t x = tt_mix64(((uint64_t)rank << 32 | chunk) + 12345);
    double real = (double)(x >> 11) * (x & 1 ? 1e-9 : 1e3) * (x & 2 ? -1 : 1);
    return (struct interp_cell){.set = true, .exact = x, .real = real};
}

static inline struct interp_cell *interp_at(struct interp *in, uint32_t rank, uint32_t buf, uint32_t chunk)
{
    const struct tt_shape *sh = &in->s->shape;
    if (in->alias && buf == TT_BUF_OUT)
        buf = TT_BUF_IN;
    return &in->cells[((size_t)rank * sh->nbufs + buf) * sh->chunks + chunk];
}

static inline struct interp_cell interp_add(struct interp_cell a, struct interp_cell b)
{
    return (struct interp_cell){.set = a.set && b.set, .exact = a.exact + b.exact, .real = a.real + b.real};
}

static inline size_t interp_op_chunks(const struct tt_slice *sl, const struct tt_op *op, uint32_t **chunks, struct tt_span **of)
{
    size_t n = 0, k = 0, spans = op->kind == TT_OP_REDUCE ? 1 : op->nspans;
    for (size_t i = 0; i < spans; i++)
        n += tt_span_chunks(&sl->spans[op->span + i]);
    *chunks = calloc(n + 1, sizeof(**chunks));
    *of = calloc(n + 1, sizeof(**of));
    for (size_t i = 0; i < spans; i++) {
        const struct tt_span *s = &sl->spans[op->span + i];
        for (uint32_t r = 0; r < s->reps; r++)
            for (uint32_t j = 0; j < s->len; j++) {
                (*of)[k] = *s;
                (*chunks)[k++] = s->first + r * s->stride + j;
            }
    }
    return n;
}

static inline bool interp_fault(struct interp *in, uint32_t rank, uint32_t step, const char *what)
{
    if (!in->why[0])
        snprintf(in->why, sizeof(in->why), "rank %u step %u: %s", rank, step, what);
    return false;
}

static inline bool interp_write(struct interp *in, uint32_t rank, uint32_t step, struct interp_cell *at, struct interp_cell value)
{
    if (at->stamp == step + 1)
        return interp_fault(in, rank, step, "two writes of one place");
    if (!value.set)
        return interp_fault(in, rank, step, "reads a place that holds nothing");
    *at = value;
    at->stamp = step + 1;
    return true;
}

static inline bool interp_do_send(struct interp *in, uint32_t rank, const struct tt_slice *sl, const struct tt_op *op)
{
    struct tt_span *of;
    struct interp_send m = {.from = rank, .to = op->peer, .channel = op->channel};
    m.n = interp_op_chunks(sl, op, &m.chunks, &of);
    m.data = calloc(m.n + 1, sizeof(*m.data));
    bool ok = true;
    for (size_t i = 0; i < m.n; i++) {
        m.data[i] = *interp_at(in, rank, of[i].buf, m.chunks[i]);
        ok = ok && (m.data[i].set || interp_fault(in, rank, op->step, "sends a place that holds nothing"));
    }
    free(of);
    in->sends = realloc(in->sends, (in->nsends + 1) * sizeof(m));
    in->sends[in->nsends++] = m;
    return ok;
}

static inline struct interp_send *interp_match(struct interp *in, uint32_t rank, const struct tt_op *op)
{
    for (size_t i = 0; i < in->nsends; i++) {
        struct interp_send *m = &in->sends[i];
        if (!m->used && m->from == op->peer && m->to == rank && m->channel == op->channel)
            return m;
    }
    return NULL;
}

static inline bool interp_do_recv(struct interp *in, uint32_t rank, const struct tt_slice *sl, const struct tt_op *op)
{
    struct interp_send *m = interp_match(in, rank, op);
    if (!m)
        return interp_fault(in, rank, op->step, "receives a message nobody sends in this step");
    uint32_t *chunks;
    struct tt_span *of;
    size_t n = interp_op_chunks(sl, op, &chunks, &of);
    m->used = 1;
    bool ok = n == m->n || interp_fault(in, rank, op->step, "message of another length");
    for (size_t i = 0; ok && i < n; i++) {
        struct interp_cell *local = interp_at(in, rank, of[i].src, chunks[i]), value = m->data[i];
        if (chunks[i] != m->chunks[i])
            ok = interp_fault(in, rank, op->step, "message of other chunks");
        else if (op->kind == TT_OP_RECV_REDUCE && local->stamp == op->step + 1)
            ok = interp_fault(in, rank, op->step, "reads what this step writes");
        else if (op->kind == TT_OP_RECV_REDUCE)
            value = interp_add(*local, value);
        ok = ok && interp_write(in, rank, op->step, interp_at(in, rank, of[i].buf, chunks[i]), value);
    }
    free(chunks);
    free(of);
    return ok;
}

static inline bool interp_do_local(struct interp *in, uint32_t rank, const struct tt_slice *sl, const struct tt_op *op)
{
    uint32_t *chunks;
    struct tt_span *of;
    size_t n = interp_op_chunks(sl, op, &chunks, &of);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) {
        struct interp_cell value = {0}, *at = interp_at(in, rank, of[i].buf, chunks[i]);
        if (op->kind == TT_OP_COPY) {
            value = *interp_at(in, rank, of[i].src, chunks[i]);
            if (at == interp_at(in, rank, of[i].src, chunks[i]))
                continue; /* in place: nothing to move */
        }
        for (uint32_t k = 1; op->kind == TT_OP_REDUCE && k < op->nspans; k++) {
            struct interp_cell x = *interp_at(in, rank, sl->spans[op->span + k].src, chunks[i]);
            value = k == 1 ? x : interp_add(value, x);
        }
        ok = interp_write(in, rank, op->step, at, value);
    }
    free(chunks);
    free(of);
    return ok;
}

/* All ops of one step of one phase (0 sends, 1 receives, 2 local) at one rank. */
static inline bool interp_phase(struct interp *in, uint32_t rank, uint32_t step, int phase)
{
    struct tt_slice sl = tt_sched_slice(in->s, rank);
    bool ok = true;
    for (; ok && in->next[rank] < sl.nops; in->next[rank]++) {
        const struct tt_op *op = &sl.ops[in->next[rank]];
        int mine = op->kind == TT_OP_SEND ? 0 : op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE ? 1 : 2;
        if (op->step != step || mine != phase)
            break;
        ok = phase == 0   ? interp_do_send(in, rank, &sl, op)
             : phase == 1 ? interp_do_recv(in, rank, &sl, op)
                          : interp_do_local(in, rank, &sl, op);
    }
    return ok;
}

static inline bool interp_end_step(struct interp *in, uint32_t step)
{
    bool ok = true;
    for (size_t i = 0; i < in->nsends; i++) {
        ok = ok && (in->sends[i].used || interp_fault(in, in->sends[i].from, step, "a message that nobody receives"));
        free(in->sends[i].chunks);
        free(in->sends[i].data);
    }
    in->nsends = 0;
    return ok;
}

static inline struct interp_cell interp_want(const struct tt_shape *sh, uint32_t chunk)
{
    struct interp_cell sum = {.set = true};
    if (sh->coll == TUTTI_ALL_GATHER || sh->coll == TUTTI_GATHER)
        return interp_input(tt_shape_owner(sh, chunk), chunk);
    if (sh->coll == TUTTI_BROADCAST || sh->coll == TUTTI_SCATTER)
        return interp_input(sh->root, chunk);
    for (uint32_t r = 0; r < sh->ranks; r++)
        sum = interp_add(sum, interp_input(r, chunk));
    return sum;
}

static inline bool interp_check(struct interp *in)
{
    const struct tt_shape *sh = &in->s->shape;
    for (uint32_t c = 0; c < sh->chunks; c++) {
        struct interp_cell want = interp_want(sh, c), *first = NULL;
        for (uint32_t r = 0; r < sh->ranks; r++) {
            if (!tt_shape_has_output(sh, r, c))
                continue;
            struct interp_cell *got = interp_at(in, r, TT_BUF_OUT, c);
            if (!got->set || got->exact != want.exact)
                return interp_fault(in, r, in->s->nsteps, "wrong result");
            if (first && memcmp(&first->real, &got->real, sizeof(double)) != 0)
                return interp_fault(in, r, in->s->nsteps, "other bits than another rank");
            first = got;
        }
    }
    return true;
}

/* Runs the schedule; on false `why` says where it went wrong. */
static inline bool interp_run(const struct tt_sched *s, bool alias, char *why, size_t cap)
{
    struct interp *in = calloc(1, sizeof(*in));
    const struct tt_shape *sh = &s->shape;
    in->s = s;
    in->alias = alias;
    in->cells = calloc((size_t)sh->ranks * sh->nbufs * sh->chunks, sizeof(*in->cells));
    for (uint32_t r = 0; r < sh->ranks; r++)
        for (uint32_t c = 0; c < sh->chunks; c++)
            if (tt_shape_has_input(sh, r, c))
                *interp_at(in, r, TT_BUF_IN, c) = interp_input(r, c);
    bool ok = true;
    for (uint32_t step = 0; ok && step < s->nsteps; step++) {
        for (int phase = 0; phase < 3; phase++)
            for (uint32_t r = 0; ok && r < sh->ranks; r++)
                ok = interp_phase(in, r, step, phase);
        ok = interp_end_step(in, step) && ok;
    }
    for (uint32_t r = 0; ok && r < sh->ranks; r++)
        ok = in->next[r] == tt_sched_slice(s, r).nops || interp_fault(in, r, s->nsteps, "operations out of order");
    ok = ok && interp_check(in);
    snprintf(why, cap, "%s", in->why);
    free(in->sends);
    free(in->cells);
    free(in);
    return ok;
}

/* Marks what an op reads (bit 1) and writes (bit 2) in m[buf * chunks + chunk]; IN and OUT are one memory. */
static inline void interp_mark(const struct tt_shape *sh, const struct tt_slice *sl, const struct tt_op *op, uint8_t *m)
{
    memset(m, 0, (size_t)sh->nbufs * sh->chunks);
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *s = &sl->spans[op->span + k];
        uint32_t buf = s->buf == TT_BUF_OUT ? TT_BUF_IN : s->buf, src = s->src == TT_BUF_OUT ? TT_BUF_IN : s->src;
        bool reads = op->kind == TT_OP_COPY || op->kind == TT_OP_RECV_REDUCE || (op->kind == TT_OP_REDUCE && k > 0);
        for (uint32_t i = 0; i < s->reps * s->len; i++) {
            uint32_t c = s->first + i / s->len * s->stride + i % s->len;
            m[buf * sh->chunks + c] |= op->kind == TT_OP_SEND ? 1 : 2;
            if (reads)
                m[src * sh->chunks + c] |= 1;
        }
    }
}

/* waits[i*n+j]: op i of the rank may start only when op j < i is done. */
static inline uint8_t *interp_waits(const struct tt_sched *s, uint32_t rank)
{
    struct tt_slice sl = tt_sched_slice(s, rank);
    size_t size = (size_t)s->shape.nbufs * s->shape.chunks, n = sl.nops;
    uint8_t *marks = calloc(n * size + 1, 1), *waits = calloc(n * n + 1, 1);
    for (size_t i = 0; i < n; i++)
        interp_mark(&s->shape, &sl, &sl.ops[i], marks + i * size);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < i; j++) {
            const struct tt_op *a = &sl.ops[i], *b = &sl.ops[j];
            bool message = a->kind <= TT_OP_RECV_REDUCE && b->kind <= TT_OP_RECV_REDUCE;
            bool queue = message && (a->kind == TT_OP_SEND) == (b->kind == TT_OP_SEND) && a->peer == b->peer && a->channel == b->channel;
            for (size_t c = 0; !queue && c < size; c++)
                queue = (marks[i * size + c] | marks[j * size + c]) > 1 && marks[i * size + c] && marks[j * size + c];
            waits[i * n + j] = queue;
        }
    free(marks);
    return waits;
}

struct interp_life {
    size_t n;
    uint8_t *waits, *done;
};

static inline bool interp_ready(const struct interp_life *l, size_t i)
{
    for (size_t j = 0; j < i; j++)
        if (l->waits[i * l->n + j] && !l->done[j])
            return false;
    return !l->done[i];
}

/* The first op of `rank` that is the other end of (from, channel), is ready and not done. */
static inline bool interp_other_end(const struct tt_sched *s, struct interp_life *l, uint32_t rank, uint32_t from, uint16_t channel,
                                    size_t *ret)
{
    struct tt_slice sl = tt_sched_slice(s, rank);
    for (size_t i = 0; i < sl.nops; i++) {
        const struct tt_op *op = &sl.ops[i];
        if ((op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE) && op->peer == from && op->channel == channel && !l->done[i]) {
            *ret = i;
            return interp_ready(l, i);
        }
    }
    return false;
}

static inline size_t interp_pass(const struct tt_sched *s, struct interp_life *life, uint32_t r)
{
    struct tt_slice sl = tt_sched_slice(s, r);
    size_t moved = 0, other = 0;
    for (size_t i = 0; i < sl.nops; i++) {
        const struct tt_op *op = &sl.ops[i];
        if (op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE || !interp_ready(&life[r], i))
            continue;
        if (op->kind == TT_OP_SEND) {
            if (!interp_other_end(s, &life[op->peer], op->peer, r, op->channel, &other))
                continue;
            life[op->peer].done[other] = 1;
        }
        life[r].done[i] = 1;
        moved++;
    }
    return moved;
}

/* Does every op get done when ranks run their lists by themselves under rendezvous, in place? */
static inline bool interp_live(const struct tt_sched *s)
{
    uint32_t p = s->shape.ranks;
    struct interp_life *life = calloc(p, sizeof(*life));
    for (uint32_t r = 0; r < p; r++) {
        life[r].n = tt_sched_slice(s, r).nops;
        life[r].waits = interp_waits(s, r);
        life[r].done = calloc(life[r].n + 1, 1);
    }
    size_t moved = 1;
    while (moved) {
        moved = 0;
        for (uint32_t r = 0; r < p; r++)
            moved += interp_pass(s, life, r);
    }
    bool all = true;
    for (uint32_t r = 0; r < p; r++) {
        for (size_t i = 0; i < life[r].n; i++)
            all = all && life[r].done[i];
        free(life[r].waits);
        free(life[r].done);
    }
    free(life);
    return all;
}
#endif
