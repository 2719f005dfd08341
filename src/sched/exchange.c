/* exchange.c - the pattern of a schedule in which nobody waits for anything but everybody else's
 * input: one step, in which every rank sends something of its IN to every other rank. Executors may
 * carry it out by showing the inputs to each other; the planner prices it so. */
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"

/* `seen` has a byte for each rank: 1 sent to, 2 received from. */
static bool is_exchange(const struct tt_sched *s, uint32_t rank, uint8_t *seen)
{
    struct tt_slice slice = tt_sched_slice(s, rank);
    size_t messages = 0;
    memset(seen, 0, s->shape.ranks);
    for (size_t i = 0; i < slice.nops; i++) {
        const struct tt_op *op = &slice.ops[i];
        if (op->kind > TT_OP_RECV_REDUCE)
            continue;
        uint8_t bit = op->kind == TT_OP_SEND ? 1 : 2;
        if (op->kind == TT_OP_RECV_REDUCE || op->step != slice.ops[0].step || seen[op->peer] & bit)
            return false;
        seen[op->peer] |= bit;
        messages++;
        for (uint32_t k = 0; k < op->nspans; k++)
            if (op->kind == TT_OP_SEND && slice.spans[op->span + k].buf != TT_BUF_IN)
                return false;
    }
    return messages == 2 * ((size_t)s->shape.ranks - 1);
}

bool tt_sched_is_exchange(const struct tt_sched *s)
{
    bool whole = s->first_rank == 0 && s->nslices == s->shape.ranks;
    if (s->shape.ranks < 2 || s->shape.segments > 1 || s->nslices == 0 ||
        !(whole || s->shape.symmetric))
        return false;
    uint8_t *seen = tt_zalloc(s->shape.ranks, 1);
    bool all = seen != NULL;
    for (uint32_t r = s->first_rank; r - s->first_rank < s->nslices && all; r++)
        all = is_exchange(s, r, seen);
    free(seen);
    return all;
}
