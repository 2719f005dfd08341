/* tale.c - picks the operations that touch one chunk out of the schedule and lists them as moves
 * between spots (places, messages under way, unfinished sums).
 *
 *     step 3:  0 sends chunk 7 of OUT to 1,  1 receive-reduces it into OUT    m1 = 0.OUT
 *                                                                          1.OUT = 1.OUT + m1
 *
 * The list is in lockstep order, all sends of a step before its receives, so playing it from
 * front to back is the schedule's meaning. */
#include "verify/trace.h"

/* Returns the span of the operation that contains the chunk, or NULL. An operation contains a
 * chunk at most once; for a reduction the destination's span comes first. */
static const struct tt_span *span_with(const struct tt_slice *sl, const struct tt_op *op,
                                       uint32_t chunk)
{
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *s = &sl->spans[op->span + k];
        uint32_t past = chunk - s->first,
                 rep = s->reps > 1 && chunk >= s->first ? past / s->stride : 0;
        if (chunk >= s->first && rep < s->reps && past - rep * s->stride < s->len)
            return s;
    }
    return NULL;
}

/* Out of memory sets t->failed; the spot returned then is valid to pass on, but wrong. */
static uint32_t new_spot(struct tt_vtale *t, uint32_t rank, uint32_t buf)
{
    struct tt_vspot spot = {rank, buf};
    if (!tt_vec_push(&t->spots, &spot, 1)) {
        t->failed = true;
        return 0;
    }
    return (uint32_t)t->spots.len - 1;
}

/* Each (rank, buffer) has one spot, made on first use. */
static uint32_t spot_of(struct tt_vtale *t, uint32_t rank, uint32_t buf)
{
    uint64_t key = (uint64_t)rank << 32 | buf;
    uint32_t known = tt_verify_map_get(&t->index, key);
    if (known)
        return known - 1;
    uint32_t spot = new_spot(t, rank, buf);
    if (!t->failed && !tt_verify_map_put(&t->index, key, spot + 1))
        t->failed = true;
    return spot;
}

static void tale_move(struct tt_vtale *t, struct tt_vmove m)
{
    if (!tt_vec_push(&t->moves, &m, 1))
        t->failed = true;
}

/* A reduction becomes copy, add, add, ..., into a spot of its own and a move to the destination:
 * the destination may be one of the operands. */
static void tell_local(struct tt_vtale *t, uint32_t rank, uint32_t i)
{
    struct tt_slice sl = tt_sched_slice(t->sched, rank);
    const struct tt_op *op = &sl.ops[i];
    const struct tt_span *s = span_with(&sl, op, t->chunk);
    if (!s)
        return;
    uint32_t dst = spot_of(t, rank, s->buf);
    if (op->kind == TT_OP_COPY) {
        tale_move(t, (struct tt_vmove){dst, spot_of(t, rank, s->src), TT_VNO_PLACE, rank, i});
        return;
    }
    uint32_t sum = new_spot(t, rank, TT_VNO_PLACE);
    for (uint32_t k = 1; k < op->nspans; k++) {
        uint32_t operand = spot_of(t, rank, sl.spans[op->span + k].src);
        tale_move(t, k == 1 ? (struct tt_vmove){sum, operand, TT_VNO_PLACE, rank, i}
                            : (struct tt_vmove){sum, sum, operand, rank, i});
    }
    tale_move(t, (struct tt_vmove){dst, sum, TT_VNO_PLACE, rank, i});
}

/* `carried`: the spot of the message; meaningless if the chunk is not in it, and then unused. */
static void tell_receive(struct tt_vtale *t, uint32_t rank, uint32_t i, uint32_t carried)
{
    struct tt_slice sl = tt_sched_slice(t->sched, rank);
    const struct tt_op *op = &sl.ops[i];
    const struct tt_span *s = span_with(&sl, op, t->chunk);
    if (!s)
        return;
    uint32_t dst = spot_of(t, rank, s->buf);
    if (op->kind == TT_OP_RECV)
        tale_move(t, (struct tt_vmove){dst, carried, TT_VNO_PLACE, rank, i});
    else
        tale_move(t, (struct tt_vmove){dst, spot_of(t, rank, s->src), carried, rank, i});
}

/* Each message gets a spot of its own, which holds what it read at the start of the step. */
static void tell_sends(struct tt_vtale *t, const struct tt_vec *msgs)
{
    t->carried.len = 0;
    for (size_t i = 0; i < msgs->len && !t->failed; i++) {
        const struct tt_vmsg *m = tt_vec_at(msgs, i);
        struct tt_slice sl = tt_sched_slice(t->sched, m->src);
        const struct tt_span *s = span_with(&sl, &sl.ops[m->send], t->chunk);
        uint32_t spot = s ? new_spot(t, m->src, TT_VNO_PLACE) : 0;
        if (!tt_vec_push(&t->carried, &spot, 1))
            t->failed = true;
        if (s)
            tale_move(t, (struct tt_vmove){spot, spot_of(t, m->src, s->buf), TT_VNO_PLACE, m->src,
                                           m->send});
    }
}

static void tell_step(struct tt_vtale *t, const struct tt_verifier *v, const struct tt_vfront *f)
{
    tell_sends(t, &v->msgs);
    for (uint32_t k = 0; k < f->n && !t->failed; k++) {
        const struct tt_vactive *a = &f->active[k];
        const uint32_t *msg = (const uint32_t *)v->recv_msg.data + a->recv_base,
                       *carried = t->carried.data;
        for (uint32_t i = a->recvs; i < a->locals; i++)
            tell_receive(t, a->rank, i, carried[msg[i - a->recvs]]);
        for (uint32_t i = a->locals; i < a->end; i++)
            tell_local(t, a->rank, i);
    }
}

tutti_status tt_verify_tale_make(struct tt_verifier *v, uint32_t chunk, uint32_t last_step,
                                 struct tt_vtale *ret)
{
    struct tt_vtale t = {.sched = v->sched, .chunk = chunk};
    struct tt_vfront f;
    t.spots.elem = sizeof(struct tt_vspot);
    t.moves.elem = sizeof(struct tt_vmove);
    t.carried.elem = sizeof(uint32_t);
    tutti_status st = tt_verify_front_init(&f, v->sched, v->err);
    while (!st && !t.failed && tt_verify_front_next(&f) && f.step <= last_step) {
        st = tt_verify_match_step(v, &f);
        if (!st)
            tell_step(&t, v, &f);
    }
    if (!st && t.failed)
        st = tt_fail_memory(v->err, "tracing a chunk");
    tt_verify_front_free(&f);
    if (!st)
        *ret = t;
    else
        tt_verify_tale_free(&t);
    return st;
}

void tt_verify_tale_free(struct tt_vtale *t)
{
    tt_verify_map_free(&t->index);
    tt_vec_free(&t->spots);
    tt_vec_free(&t->moves);
    tt_vec_free(&t->carried);
}
