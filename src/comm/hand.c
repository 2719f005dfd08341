/* hand.c - rank 0 hands bytes to the others, as requests on the communicator's own engine: the same
 * bytes to all, or a block to each.
 *
 * It is for small things that must be equal everywhere (plans, topologies), not for speed. A
 * hand-over is numbered like any request, and its fingerprint is derived from the call that needs
 * it, so that ranks which are in different calls get the usual verdict. */
#include <assert.h>
#include <stdlib.h>

#include "comm/comm_int.h"

void tt_comm_hand_begin(struct tt_comm *c, struct tt_hand *h)
{
    h->op.seq = ++c->calls;
    tt_watch_enter(c->world->watch, &h->op);
    tt_meter_log_enter(c->log, h->op.seq);
}

void tt_comm_hand_end(struct tt_comm *c, const struct tt_hand *h)
{
    tt_meter_log_leave(c->log, h->op.seq);
    tt_watch_leave(c->world->watch, c->tag);
}

/* Several parts of one hand-over share a number, so c->calls is restored. Its fingerprint tells
 * them apart. */
static tutti_status start_and_wait(struct tt_comm *c, const struct tt_hand *h, struct tt_program *p,
                                   const struct tt_call *call)
{
    struct tt_kept k = {.program = p,
                        .fingerprint = tt_mix64(h->op.print + call->count * TUTTI_COLL_COUNT +
                                                (uint64_t)call->coll)};
    uint32_t calls = c->calls;
    tutti_status st = tt_comm_begin(c, &k, call, &h->op);
    /* restored even if the start fails: all parts of a hand-over have the same number */
    c->calls = calls;
    return st ? st : tt_comm_finish(c, p, &h->op);
}

/* Rank 0 sends to each rank directly, so that a rank which does not come keeps no other one
 * waiting. */
static tutti_status slice_of(const struct tt_comm *c, tutti_coll coll, uint64_t total,
                             struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_algo_args args = {
        .problem = {.coll = coll, .ranks = c->size, .count = total, .dtype = TUTTI_U8}};
    return tt_algo_slice(tt_algo_find(coll == TUTTI_BARRIER ? "binomial" : "oneshot"), &args,
                         c->rank, 1, ret, err);
}

static tutti_status hand_run(struct tt_comm *c, const struct tt_hand *h, const struct tt_call *call,
                             struct tutti_error *err)
{
    struct tt_sched *s = NULL;
    struct tt_program *p = NULL;
    uint64_t total = call->count, *blocks = NULL;
    assert(call->root == 0 && call->dtype == TUTTI_U8); /* rank 0 hands out bytes */
    if (call->coll == TUTTI_SCATTER) {
        total *= c->size;
        blocks = tt_alloc(c->size, sizeof *blocks);
        for (uint32_t r = 0; blocks && r < c->size; r++)
            blocks[r] = call->count;
    }
    tutti_status st =
        blocks || call->coll != TUTTI_SCATTER ? TUTTI_OK : tt_fail_memory(err, "hand-over");
    if (!st)
        st = slice_of(c, call->coll, total, &s, err);
    if (!st) {
        struct tt_program_config pc = {
            .sched = s, .rank = c->rank, .count = total, .dtype = TUTTI_U8, .block_counts = blocks};
        st = tt_exec_program_make(&pc, &p, err);
    }
    if (!st && (st = start_and_wait(c, h, p, call)))
        tt_fail(err, st, "%s", c->last.text);
    tt_exec_program_free(p);
    tt_sched_free(s);
    free(blocks);
    return st;
}

tutti_status tt_comm_hand_all(struct tt_comm *c, const struct tt_hand *h, void *data, size_t bytes,
                              struct tutti_error *err)
{
    struct tt_call call = {
        .coll = TUTTI_BROADCAST, .in = data, .out = data, .count = bytes, .dtype = TUTTI_U8};
    return c->size > 1 ? hand_run(c, h, &call, err) : TUTTI_OK;
}

tutti_status tt_comm_hand_each(struct tt_comm *c, const struct tt_hand *h,
                               const struct tt_hand_blocks *b, struct tutti_error *err)
{
    struct tt_call call = {.coll = TUTTI_SCATTER,
                           .in = b->all,
                           .out = b->ret_mine,
                           .count = b->bytes,
                           .dtype = TUTTI_U8};
    return hand_run(c, h, &call, err);
}

tutti_status tt_comm_hand_meet(struct tt_comm *c, const struct tt_hand *h, struct tutti_error *err)
{
    struct tt_call call = {.coll = TUTTI_BARRIER, .dtype = TUTTI_U8};
    return c->size > 1 ? hand_run(c, h, &call, err) : TUTTI_OK;
}
