/* exec.c - carries out one step on values.
 *
 *     1. load     all messages read what they carry      (state at the start of the step)
 *     2. receive  the receives of each rank write
 *     3. local    the local operations of each rank run
 *
 * Loading all messages before any receive writes implements "messages read the state at the
 * start of their step". The receives of a rank can then be applied one after the other, because
 * no message may read what an earlier message of its step writes (tt_sched_check). The work is
 * proportional to runs of equal chunks, not to chunks. Invariant: a list of runs (struct
 * tt_vpiece) covers the chunks that it was made for without gaps. */
#include <assert.h>
#include <inttypes.h>

#include "verify/verify_int.h"

/* The operation being carried out, and where it is. */
struct acting {
    struct tt_verifier *v;
    uint32_t rank, index;
    struct tt_slice slice;
    const struct tt_op *op;
};

enum { MAX_SENT = 1 << 28 }; /* runs under way in one step */

/* For every false answer of the state: out of work or out of memory. */
static tutti_status no_memory(const struct acting *x)
{
    return tt_verify_state_fail(&x->v->state, "contributions", x->v->err);
}

/* Appends what `len` chunks of a buffer hold; it is a fault if one of them holds nothing. */
static tutti_status exec_take(const struct acting *x, uint32_t buf, uint32_t first, uint32_t len,
                              struct tt_vec *pieces)
{
    size_t from = pieces->len;
    if (from >= MAX_SENT ||
        !tt_verify_state_read(&x->v->state, (struct tt_vplaces){x->rank, buf, first, len}, pieces))
        return no_memory(x);
    for (size_t i = from; i < pieces->len; i++) {
        const struct tt_vpiece *p = tt_vec_at(pieces, i);
        if (p->value == TT_VNOTHING)
            return tt_verify_fault(x->v, x->rank, x->index,
                                   "step %" PRIu32 ": %s reads chunk %" PRIu32
                                   " of %s, which holds nothing yet",
                                   x->op->step, tt_verify_say_op(x->op).s,
                                   tt_vfold_chunk(&x->v->fold, p->first), tt_verify_say_buf(buf).s);
    }
    return TUTTI_OK;
}

/* Reports that both operands hold the same contribution to this chunk. Fingerprints do not tell
 * which, so there the chunk is traced. */
static tutti_status twice(const struct acting *x, uint32_t chunk, uint32_t left, uint32_t right)
{
    struct tt_verifier *v = x->v;
    if (!v->domain.exact)
        return tt_verify_trace(v, chunk, x->rank, x->index);
    uint32_t who = tt_verify_exact_shared(&v->domain, left, right);
    if (!tt_sched_coll_reduces(v->shape->coll))
        who = tt_verify_source(v->shape, chunk);
    return tt_verify_fault(v, x->rank, x->index,
                           "step %" PRIu32 ": %s counts the contribution of rank %" PRIu32
                           " to chunk %" PRIu32 " twice",
                           x->op->step, tt_verify_say_op(x->op).s, who, chunk);
}

/* Adds two lists of runs that cover the same `len` chunks. Each round takes the longest part on
 * which both are constant; invariant: left + done_left and right + done_right name the same
 * chunk. */
static tutti_status exec_add(const struct acting *x, const struct tt_vpiece *left,
                             const struct tt_vpiece *right, uint32_t len, struct tt_vec *sum)
{
    struct tt_vdomain *d = &x->v->domain;
    uint32_t done_left = 0, done_right = 0; /* chunks used of the current runs */
    while (len > 0) {
        uint32_t n = left->len - done_left < right->len - done_right ? left->len - done_left
                                                                     : right->len - done_right;
        n = n < len ? n : len;
        struct tt_vpiece p = {.first = left->first + done_left, .len = n};
        assert(p.first == right->first + done_right);
        enum tt_vcombined c =
            d->exact ? tt_verify_exact_combine(d, left->value, right->value, &p.value)
                     : tt_verify_finger_combine(d, left->value, right->value, &p.value);
        if (c == TT_VTWICE)
            return twice(x, tt_vfold_chunk(&x->v->fold, p.first), left->value, right->value);
        if (c == TT_VNO_MEMORY || !tt_vec_push(sum, &p, 1))
            return no_memory(x);
        len -= n;
        done_left += n;
        done_right += n;
        if (done_left == left->len) {
            left++;
            done_left = 0;
        }
        if (done_right == right->len) {
            right++;
            done_right = 0;
        }
    }
    return TUTTI_OK;
}

static tutti_status exec_put(const struct acting *x, uint32_t buf, const struct tt_vec *pieces)
{
    return tt_verify_state_write(&x->v->state, x->rank, buf, pieces->data, pieces->len)
               ? TUTTI_OK
               : no_memory(x);
}

/* Cuts the next `len` chunks off a message into `part`; *piece and *done (chunks used of it)
 * advance. */
static bool exec_cut(const struct tt_vpiece **piece, uint32_t *done, uint32_t len,
                     struct tt_vec *part)
{
    part->len = 0;
    while (len > 0) {
        uint32_t left = (*piece)->len - *done, n = left < len ? left : len;
        struct tt_vpiece p = {(*piece)->first + *done, n, (*piece)->value};
        if (!tt_vec_push(part, &p, 1))
            return false;
        len -= n;
        *done += n;
        if (*done == (*piece)->len) {
            (*piece)++;
            *done = 0;
        }
    }
    return true;
}

/* Applies a receive range by range. The message's runs are consumed in the order in which the
 * sender's spans listed them; match.c has compared the chunks. */
static tutti_status exec_receive(const struct acting *x, const struct tt_vmsg *m)
{
    struct tt_verifier *v = x->v;
    struct tt_vwalk w = tt_vwalk_folded(&x->slice, x->op, &x->v->fold);
    struct tt_vrange r;
    const struct tt_vpiece *piece = tt_vec_at(&v->sent, m->piece);
    uint32_t done = 0;
    tutti_status st = TUTTI_OK;
    while (!st && tt_vwalk_next(&w, &r)) {
        v->b.len = v->c.len = 0;
        if (!exec_cut(&piece, &done, r.len, &v->a))
            return no_memory(x);
        if (x->op->kind == TT_OP_RECV) {
            st = exec_put(x, r.buf, &v->a);
            continue;
        }
        st = exec_take(x, r.src, r.first, r.len, &v->b);
        if (!st)
            st = exec_add(x, v->b.data, v->a.data, r.len, &v->c);
        if (!st)
            st = exec_put(x, r.buf, &v->c);
    }
    return st;
}

/* One range of a reduction: span 0 is the destination, the others are the operands. Invariant:
 * v->a is the sum of operands 0 .. k-1. */
static tutti_status reduce_range(const struct acting *x, const struct tt_vrange *r)
{
    struct tt_verifier *v = x->v;
    const struct tt_span *operand = x->slice.spans + x->op->span + 1;
    v->a.len = 0;
    tutti_status st = exec_take(x, operand[0].src, r->first, r->len, &v->a);
    for (uint32_t k = 1; !st && k + 1 < x->op->nspans; k++) {
        v->b.len = v->c.len = 0;
        st = exec_take(x, operand[k].src, r->first, r->len, &v->b);
        if (!st)
            st = exec_add(x, v->a.data, v->b.data, r->len, &v->c);
        struct tt_vec sum = v->c;
        v->c = v->a;
        v->a = sum;
    }
    return st ? st : exec_put(x, r->buf, &v->a);
}

/* A copy or a reduction. The operand spans of a reduction are not walked: they have the chunks
 * of the first. */
static tutti_status act_locally(const struct acting *x)
{
    struct tt_vwalk w = tt_vwalk_folded(&x->slice, x->op, &x->v->fold);
    struct tt_vrange r;
    tutti_status st = TUTTI_OK;
    if (x->op->kind == TT_OP_REDUCE)
        w.end = w.span + 1;
    while (!st && tt_vwalk_next(&w, &r)) {
        if (x->op->kind == TT_OP_REDUCE) {
            st = reduce_range(x, &r);
            continue;
        }
        x->v->a.len = 0;
        st = exec_take(x, r.src, r.first, r.len, &x->v->a);
        if (!st)
            st = exec_put(x, r.buf, &x->v->a);
    }
    return st;
}

static struct acting acting(struct tt_verifier *v, uint32_t rank, uint32_t index)
{
    struct acting x = {
        .v = v, .rank = rank, .index = index, .slice = tt_sched_slice(v->sched, rank)};
    x.op = &x.slice.ops[index];
    return x;
}

/* Appends what the message carries to v->sent. */
static tutti_status load_message(struct tt_verifier *v, struct tt_vmsg *m)
{
    struct acting x = acting(v, m->src, m->send);
    struct tt_vwalk w = tt_vwalk_folded(&x.slice, x.op, &v->fold);
    struct tt_vrange r;
    tutti_status st = TUTTI_OK;
    m->piece = v->sent.len;
    while (!st && tt_vwalk_next(&w, &r))
        st = exec_take(&x, r.buf, r.first, r.len, &v->sent);
    return st;
}

tutti_status tt_verify_exec_step(struct tt_verifier *v)
{
    const struct tt_vfront *f = &v->front;
    tutti_status st = TUTTI_OK;
    v->sent.len = 0;
    for (size_t i = 0; i < v->msgs.len && !st; i++)
        st = load_message(v, tt_vec_at(&v->msgs, i));
    for (uint32_t k = 0; k < f->n && !st; k++) {
        const struct tt_vactive *a = &f->active[k];
        const uint32_t *msg = (const uint32_t *)v->recv_msg.data + a->recv_base;
        for (uint32_t i = a->recvs; i < a->locals && !st; i++) {
            struct acting x = acting(v, a->rank, i);
            st = exec_receive(&x, tt_vec_at(&v->msgs, msg[i - a->recvs]));
        }
        for (uint32_t i = a->locals; i < a->end && !st; i++) {
            struct acting x = acting(v, a->rank, i);
            st = act_locally(&x);
        }
    }
    return st;
}
