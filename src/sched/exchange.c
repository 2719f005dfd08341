/* exchange.c - recognises schedules in which every rank sends to every other. Executors may run
 * them by reading each other's places directly, and the planner prices them that way.
 *
 *     exchange    one step, in which every rank sends part of its IN to every other: no rank waits
 *                 for anything but the input of the others
 *     row         every step with messages is such an exchange, of one chunk per message, from any
 *                 place
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

/* The messages of one step: seen[r] is 1 if sent to r, 2 if received from r, 3 for both. */
struct step {
    const struct tt_sched *s;
    uint8_t *seen;
    size_t messages;
    uint32_t step;
};

/* False: a second message between two ranks in this step, or one that reduces. */
static bool note(struct step *x, const struct tt_op *op)
{
    assert(op->peer < x->s->shape.ranks);
    uint8_t bit = op->kind == TT_OP_SEND ? 1 : 2;
    if (op->kind == TT_OP_RECV_REDUCE || x->seen[op->peer] & bit)
        return false;
    x->seen[op->peer] |= bit;
    x->messages++;
    return true;
}

/* One message to and one from every other rank. */
static bool is_full(const struct step *x)
{
    return x->messages == 2 * ((size_t)x->s->shape.ranks - 1);
}

static void begin(struct step *x, uint32_t step)
{
    memset(x->seen, 0, x->s->shape.ranks);
    x->messages = 0;
    x->step = step;
}

/* 1 if the slice is one exchange, else 0. */
static uint32_t rank_exchange(struct step *x, const struct tt_slice *slice)
{
    begin(x, slice->nops ? slice->ops[0].step : 0);
    for (size_t i = 0; i < slice->nops; i++) {
        const struct tt_op *op = &slice->ops[i];
        if (op->kind > TT_OP_RECV_REDUCE)
            continue;
        if (op->step != x->step || !note(x, op))
            return 0;
        for (uint32_t k = 0; k < op->nspans; k++)
            if (op->kind == TT_OP_SEND && slice->spans[op->span + k].buf != TT_BUF_IN)
                return 0;
    }
    return is_full(x);
}

/* The number of places that the rank shows to others; 0: not a row of exchanges. */
static uint32_t rank_row(struct step *x, const struct tt_slice *slice)
{
    const struct tt_span *last = NULL; /* sent in this step */
    uint32_t places = 0;
    begin(x, 0);
    for (size_t i = 0; i < slice->nops; i++) {
        const struct tt_op *op = &slice->ops[i];
        const struct tt_span *s = &slice->spans[op->span];
        /* A local operation before the first message would prepare data: no row. */
        if (op->kind > TT_OP_RECV_REDUCE) {
            if (!x->messages)
                return 0;
            continue;
        }
        if (op->step != x->step && x->messages) {
            if (!is_full(x))
                return 0;
            last = NULL;
            x->messages = 0;
        }
        if (!x->messages)
            begin(x, op->step);
        if (!note(x, op) || op->nspans != 1 || s->len * s->reps != 1)
            return 0;
        if (op->kind == TT_OP_SEND) {
            /* The same place sent to several ranks in a row is shown once. */
            places += !last || last->buf != s->buf || last->first != s->first;
            last = s;
        }
    }
    return is_full(x) ? places : 0;
}

/* The largest answer of the held slices; 0 when one of them says 0, or when they do not represent
 * all ranks. */
static uint32_t ask_all(const struct tt_sched *s,
                        uint32_t (*ask)(struct step *x, const struct tt_slice *slice))
{
    bool whole = s->first_rank == 0 && s->nslices == s->shape.ranks;
    struct step x = {.s = s};
    uint32_t most = 0;
    if (s->shape.ranks < 2 || s->nslices == 0 || !(whole || s->shape.symmetric))
        return 0;
    x.seen = tt_zalloc(s->shape.ranks, 1);
    for (uint32_t r = s->first_rank; x.seen && r - s->first_rank < s->nslices; r++) {
        struct tt_slice slice = tt_sched_slice(s, r);
        uint32_t n = ask(&x, &slice);
        if (n == 0) {
            most = 0;
            break;
        }
        most = n > most ? n : most;
    }
    free(x.seen);
    return most;
}

bool tt_sched_is_exchange(const struct tt_sched *s)
{
    return s->shape.segments <= 1 && ask_all(s, rank_exchange);
}

uint32_t tt_sched_row(const struct tt_sched *s)
{
    return ask_all(s, rank_row);
}
