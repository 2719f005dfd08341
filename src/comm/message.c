/* message.c - messages between two ranks: letters of the communicator's context (exec/letter.c),
 * outside the order of its requests. A blocking call starts a letter and waits for it; a request
 * keeps one. */
#include <assert.h>
#include <stdlib.h>

#include "comm/comm_int.h"

/* The schedule form is used by measure.c, where all ranks take part; it is not how messages of the
 * user travel. */
tutti_status tt_comm_message_sched(uint32_t ranks, uint32_t rank, const uint32_t pair[2],
                                   struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_builder b;
    struct tt_shape shape = {.coll = TUTTI_BROADCAST,
                             .ranks = ranks,
                             .root = pair[0],
                             .chunks = 1,
                             .nbufs = TT_BUF_SCRATCH,
                             .segments = 1,
                             .inplace = true};
    struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 1),
                   out = tt_sched_span_range(TT_BUF_OUT, 0, 1);
    tt_sched_build_begin(&b, &shape, rank);
    tt_sched_build_rank(&b, rank);
    if (rank == pair[0])
        tt_sched_emit_send(&b, 0, pair[1], 0, &in, 1);
    else if (rank == pair[1])
        tt_sched_emit_recv(&b, 0, pair[0], 0, &out, 1);
    return tt_sched_build_freeze(&b, ret, err);
}

/* Checks before any other rank is involved: only this rank gets the error. */
static tutti_status message_check(const struct tt_comm *c, const struct tt_message *m,
                                  struct tutti_error *err)
{
    if (c->failed)
        return tt_fail(err, c->last.status, "%s", c->last.text);
    if ((unsigned)m->dtype >= TUTTI_DTYPE_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no data type %d", (int)m->dtype);
    if (m->count > ((UINT64_C(1) << 48) - 1) / tt_sched_dtype_bytes(m->dtype))
        return tt_fail(err, TUTTI_ERR_RANGE, "%zu elements are more than memory can hold",
                       m->count);
    if (m->count && !m->data)
        return tt_fail(err, TUTTI_ERR_ARG, "the buffer is NULL");
    if (m->sends && (m->peer == TT_ANY || m->tag == TT_ANY))
        return tt_fail(err, TUTTI_ERR_RANGE, "a message is sent to one rank, with one tag");
    return TUTTI_OK;
}

/* Fills l, which must not move from now on, and reserves room for it. */
static tutti_status message_prepare(struct tt_comm *c, const struct tt_message *m,
                                    struct tt_letter *l, struct tutti_error *err)
{
    tutti_status st = message_check(c, m, err);
    if (st)
        return st;
    *l = (struct tt_letter){.data = m->data,
                            .bytes = m->count * tt_sched_dtype_bytes(m->dtype),
                            .peer = m->peer,
                            .tag = m->tag,
                            .kind = (uint32_t)m->dtype,
                            .sends = m->sends,
                            .exact = true};
    return tt_exec_letter_prepare(c->context, m->peer, err);
}

/* Messages are numbered apart from requests: their order need not be the same on all ranks. */
tutti_status tt_comm_message_begin(struct tt_comm *c, struct tt_letter *l, struct tt_op_desc *op)
{
    struct tutti_error err;
    assert(l->kind < TUTTI_DTYPE_COUNT);
    *op = (struct tt_op_desc){.comm = c->tag,
                              .seq = ++c->messages,
                              .dtype = (uint8_t)l->kind,
                              .count = l->bytes / tt_sched_dtype_bytes((tutti_dtype)l->kind),
                              .root = l->peer < c->size ? c->members[l->peer] : UINT32_MAX,
                              .print = l->tag,
                              .busy = l->sends ? TT_OP_SENDING : TT_OP_RECEIVING};
    tutti_status st = tt_comm_verdict(c);
    if (st)
        return st;
    st = tt_exec_letter_start(c->context, l, &err);
    if (!st)
        return st;
    return tt_exec_engine_fault(c->engine)->kind != TT_FAULT_NONE ? tt_comm_broken(c, op)
                                                                  : tt_comm_fail(c, &err);
}

/* While the message is waited for, other calls on c may run (tt_comm_await). */
tutti_status tt_comm_pass(struct tt_comm *c, const struct tt_message *m, uint32_t *ret_from)
{
    struct tutti_error err;
    struct tt_op_desc op;
    struct tt_letter l;
    tt_comm_lock(c);
    tutti_status st = message_prepare(c, m, &l, &err);
    if (st) {
        st = tt_comm_fail(c, &err);
    } else {
        tt_watch_talk(c->world->watch, true);
        st = tt_comm_message_begin(c, &l, &op);
        if (!st)
            st = tt_comm_await(c, &(struct tt_comm_work){.letter = &l}, &op);
        tt_watch_talk(c->world->watch, false);
        tt_exec_letter_forget(c->context);
    }
    tt_comm_unlock(c);
    if (!st && ret_from)
        *ret_from = l.from;
    return st;
}

tutti_status tt_comm_request_message(struct tt_comm *c, const struct tt_message *m,
                                     struct tt_request **ret)
{
    struct tutti_error err;
    struct tt_request *r = tt_zalloc(1, sizeof *r);
    tt_comm_lock(c);
    tutti_status st = r ? message_prepare(c, m, &r->letter, &err) : tt_fail_memory(&err, "request");
    if (st) {
        tt_comm_fail(c, &err);
        free(r);
    } else {
        r->comm = c;
        r->work.letter = &r->letter;
        *ret = r;
    }
    tt_comm_unlock(c);
    return st;
}

/* Valid after the request has ended with success. */
tutti_status tt_comm_request_source(struct tt_request *r, uint32_t *ret_from, uint32_t *ret_tag,
                                    struct tutti_error *err)
{
    struct tt_comm *c = r->comm;
    tt_comm_lock(c);
    tutti_status st = r->kept || r->letter.sends
                          ? tt_fail(err, TUTTI_ERR_ARG, "the request does not receive a message")
                      : r->started || !r->op.seq
                          ? tt_fail(err, TUTTI_ERR_ARG, "no message has been waited for yet")
                          : r->last;
    if (!st) {
        *ret_from = r->letter.from;
        *ret_tag = r->letter.from_tag;
    }
    tt_comm_unlock(c);
    return st;
}
