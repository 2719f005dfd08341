/* The interpreter: every rank has virtual vectors (IN, OUT, scratch), allocated when first written. A message is a copy of its elements
 * taken at the start of the step; receives are matched by (sender, channel) in order. Unwritten elements hold a poison value and are
 * tracked, so that reading one is an error and not a lucky zero. */
#include "interp.h"

#include <stdlib.h>
#include <string.h>

struct place {
    uint64_t *value;
    uint8_t *written;
};

struct message {
    uint32_t src, channel;
    uint64_t n;
    uint64_t *data;
    bool taken;
};

struct machine {
    const struct tt_sched *s;
    struct tt_bind bind;
    bool inplace;
    struct place *places; /* ranks * nbufs */
    struct tt_vec *inbox; /* per rank: struct message */
    size_t *cursor;       /* per rank: next op */
    char *why;
    size_t cap;
};

static uint64_t input_value(uint32_t rank, uint64_t element)
{
    return tt_mix64(((uint64_t)rank << 40) ^ element);
}

static struct place *place_of(struct machine *m, uint32_t rank, uint32_t buf)
{
    if (m->inplace && buf == TT_BUF_OUT)
        buf = TT_BUF_IN;
    struct place *p = &m->places[(size_t)rank * m->s->shape.nbufs + buf];
    if (!p->value) {
        p->value = calloc(m->bind.count + 1, sizeof *p->value);
        p->written = calloc(m->bind.count + 1, 1);
    }
    return p;
}

static bool fail(struct machine *m, uint32_t rank, size_t op, const char *what)
{
    snprintf(m->why, m->cap, "rank %u op %zu: %s", rank, op, what);
    return false;
}

/* Copies the elements of the spans' buffers into data; false when one was never written. */
static bool read_spans(struct machine *m, uint32_t rank, const struct tt_span *sp, size_t n, bool source, uint64_t *data)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct place *p = place_of(m, rank, source ? sp[i].src : sp[i].buf);
        for (uint32_t k = 0; k < sp[i].reps; k++) {
            uint32_t c = sp[i].first + k * sp[i].stride;
            for (uint64_t e = tt_bind_offset(&m->bind, c); e < tt_bind_offset(&m->bind, c + sp[i].len); e++) {
                if (!p->written[e])
                    return false;
                data[at++] = p->value[e];
            }
        }
    }
    return true;
}

static void write_spans(struct machine *m, uint32_t rank, const struct tt_span *sp, size_t n, const uint64_t *data)
{
    uint64_t at = 0;
    for (size_t i = 0; i < n; i++) {
        struct place *p = place_of(m, rank, sp[i].buf);
        for (uint32_t k = 0; k < sp[i].reps; k++) {
            uint32_t c = sp[i].first + k * sp[i].stride;
            for (uint64_t e = tt_bind_offset(&m->bind, c); e < tt_bind_offset(&m->bind, c + sp[i].len); e++) {
                p->value[e] = data[at++];
                p->written[e] = 1;
            }
        }
    }
}

static uint64_t op_elems(struct machine *m, const struct tt_span *sp, size_t n)
{
    uint64_t total = 0;
    for (size_t i = 0; i < n; i++)
        total += tt_bind_span_elems(&m->bind, &sp[i]);
    return total;
}

static bool do_send(struct machine *m, uint32_t rank, size_t i, const struct tt_op *op, const struct tt_span *sp)
{
    struct message msg = {.src = rank, .channel = op->channel, .n = op_elems(m, sp, op->nspans)};
    msg.data = calloc(msg.n + 1, sizeof *msg.data);
    tt_vec_push(&m->inbox[op->peer], &msg, 1);
    return read_spans(m, rank, sp, op->nspans, false, msg.data) || fail(m, rank, i, "sends what was never written");
}

static bool do_receive(struct machine *m, uint32_t rank, size_t i, const struct tt_op *op, const struct tt_span *sp)
{
    struct tt_vec *inbox = &m->inbox[rank];
    uint64_t n = op_elems(m, sp, op->nspans);
    for (size_t k = 0; k < inbox->len; k++) {
        struct message *msg = tt_vec_at(inbox, k);
        if (msg->taken || msg->src != op->peer || msg->channel != op->channel)
            continue;
        if (msg->n != n)
            return fail(m, rank, i, "message of another length");
        msg->taken = true;
        if (op->kind == TT_OP_RECV_REDUCE) {
            uint64_t *own = calloc(n + 1, sizeof *own);
            bool known = read_spans(m, rank, sp, op->nspans, true, own);
            for (uint64_t e = 0; e < n; e++)
                msg->data[e] += own[e];
            free(own);
            if (!known)
                return fail(m, rank, i, "local operand was never written");
        }
        write_spans(m, rank, sp, op->nspans, msg->data);
        return true;
    }
    return fail(m, rank, i, "no message to receive in this step");
}

static bool do_local(struct machine *m, uint32_t rank, size_t i, const struct tt_op *op, const struct tt_span *sp)
{
    bool copy = op->kind == TT_OP_COPY;
    size_t nspans = copy ? op->nspans : 1;
    uint64_t n = op_elems(m, sp, nspans);
    uint64_t *sum = calloc(n + 1, sizeof *sum), *one = calloc(n + 1, sizeof *one);
    bool ok = true;
    if (copy) {
        ok = read_spans(m, rank, sp, nspans, true, sum);
    } else {
        for (size_t k = 1; ok && k < op->nspans; k++) {
            ok = read_spans(m, rank, &sp[k], 1, true, one);
            for (uint64_t e = 0; e < n; e++)
                sum[e] += one[e];
        }
    }
    if (ok)
        write_spans(m, rank, sp, nspans, sum);
    free(sum);
    free(one);
    return ok || fail(m, rank, i, "local operation reads what was never written");
}

/* One phase (0 sends, 1 receives, 2 local) of a step at one rank; the cursor stops at the first op of another phase or step. */
static bool do_phase(struct machine *m, uint32_t rank, uint32_t step, int phase)
{
    struct tt_slice sl = tt_sched_slice(m->s, rank);
    bool ok = true;
    for (; ok && m->cursor[rank] < sl.nops; m->cursor[rank]++) {
        size_t i = m->cursor[rank];
        const struct tt_op *op = &sl.ops[i];
        int kind = op->kind == TT_OP_SEND ? 0 : op->kind == TT_OP_RECV || op->kind == TT_OP_RECV_REDUCE ? 1 : 2;
        if (op->step != step || kind != phase)
            break;
        const struct tt_span *sp = sl.spans + op->span;
        ok = kind == 0 ? do_send(m, rank, i, op, sp) : kind == 1 ? do_receive(m, rank, i, op, sp) : do_local(m, rank, i, op, sp);
    }
    return ok;
}

static bool do_step(struct machine *m, uint32_t step)
{
    for (int phase = 0; phase < 3; phase++)
        for (uint32_t r = 0; r < m->s->shape.ranks; r++)
            if (!do_phase(m, r, step, phase))
                return false;
    for (uint32_t r = 0; r < m->s->shape.ranks; r++) {
        for (size_t k = 0; k < m->inbox[r].len; k++) {
            struct message *msg = tt_vec_at(&m->inbox[r], k);
            free(msg->data);
            if (!msg->taken)
                return fail(m, r, m->cursor[r], "a message was not received in its step");
        }
        m->inbox[r].len = 0;
    }
    return true;
}

static void set_inputs(struct machine *m)
{
    const struct tt_shape *sh = &m->s->shape;
    for (uint32_t r = 0; r < sh->ranks; r++) {
        struct place *p = place_of(m, r, TT_BUF_IN);
        for (uint32_t c = 0; c < sh->chunks; c++)
            for (uint64_t e = tt_bind_offset(&m->bind, c); tt_shape_has_input(sh, r, c) && e < tt_bind_offset(&m->bind, c + 1); e++) {
                p->value[e] = input_value(r, e);
                p->written[e] = 1;
            }
    }
}

/* What element e of chunk c must be at the end, wherever it must be. */
static uint64_t expected(const struct tt_shape *sh, uint32_t chunk, uint64_t e)
{
    uint64_t sum = 0;
    switch (sh->coll) {
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
        return input_value(tt_shape_owner(sh, chunk), e);
    case TUTTI_BROADCAST:
    case TUTTI_SCATTER:
        return input_value(sh->root, e);
    case TUTTI_ALL_TO_ALL:
        return input_value(chunk / sh->ranks, e);
    default:
        for (uint32_t r = 0; r < sh->ranks; r++)
            sum += input_value(r, e);
        return sum;
    }
}

static bool check_outputs(struct machine *m)
{
    const struct tt_shape *sh = &m->s->shape;
    for (uint32_t c = 0; c < sh->chunks; c++)
        for (uint64_t e = tt_bind_offset(&m->bind, c); e < tt_bind_offset(&m->bind, c + 1); e++) {
            uint64_t want = expected(sh, c, e);
            for (uint32_t r = 0; r < sh->ranks; r++) {
                struct place *p = place_of(m, r, TT_BUF_OUT);
                if (tt_shape_has_output(sh, r, c) && (!p->written[e] || p->value[e] != want))
                    return fail(m, r, tt_sched_slice(m->s, r).nops, "result differs");
            }
        }
    return true;
}

bool interp_run(const struct tt_sched *s, uint64_t count, bool inplace, char *why, size_t cap)
{
    struct machine m = {.s = s, .inplace = inplace, .why = why, .cap = cap};
    struct tutti_error err;
    uint32_t p = s->shape.ranks;
    if (tt_bind_make(&s->shape, count, TUTTI_I64, &m.bind, &err)) {
        snprintf(why, cap, "bind: %s", err.text);
        return false;
    }
    m.places = calloc((size_t)p * s->shape.nbufs, sizeof *m.places);
    m.inbox = calloc(p, sizeof *m.inbox);
    m.cursor = calloc(p, sizeof *m.cursor);
    for (uint32_t r = 0; r < p; r++)
        m.inbox[r].elem = sizeof(struct message);
    set_inputs(&m);
    bool ok = true;
    for (uint32_t step = 0; ok && step < s->nsteps; step++)
        ok = do_step(&m, step);
    ok = ok && check_outputs(&m);
    for (size_t i = 0; i < (size_t)p * s->shape.nbufs; i++) {
        free(m.places[i].value);
        free(m.places[i].written);
    }
    for (uint32_t r = 0; r < p; r++)
        tt_vec_free(&m.inbox[r]);
    free(m.places);
    free(m.inbox);
    free(m.cursor);
    tt_bind_free(&m.bind);
    return ok;
}
