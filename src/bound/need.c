/* need.c - how many bytes every schedule must move, whatever it does.
 *
 * Model: a message carries, for one element, one partial result over a set of contributions.
 * Ranks combine; switches only forward.
 *
 * Across a cut (a ranks in the set A, p-a outside, S bytes, block = the S/p bytes of one rank):
 *
 *     allreduce       S           some rank outside needs something from inside, for every element
 *     broadcast       S           if the root is inside;       reduce   S if the root is outside
 *     all-gather      a blocks    they exist only inside
 *     reduce-scatter  p-a blocks  their owners outside need a sum over A
 *     gather          a blocks    if the root is outside;      scatter  p-a blocks if it is inside
 *     all-to-all      a(p-a) blocks
 *
 * Out of all ranks together, per element: an allreduce needs 2(p-1) messages. The first rank
 * that knows everything took p-1; at that moment each of the others still misses something,
 * which takes p-1 more. A broadcast, reduce, all-gather or reduce-scatter needs p-1.
 *
 * Blocks are not exactly equal: chunk starts are aligned to 64 bytes, and the last block takes
 * the rest. A block therefore has at least S/p - 72 bytes, and n blocks together have at most
 * n*(S/p + 72) + 64. A set of blocks is counted with whichever of the two gives more. Every
 * block has an element as soon as there are p elements, of 8 bytes at most. */
#include "bound/bound_int.h"

#include <assert.h>

#include "sched/sched.h"

enum { BLOCK_SLACK = 72, REST_SLACK = 64, MAX_ELEM = 8 };

bool tt_bound_need_nothing(const struct tt_ask *q)
{
    return q->p == 1 || (q->bytes == 0 && q->coll != TUTTI_BARRIER);
}

bool tt_bound_need_all_blocks(const struct tt_ask *q)
{
    return q->bytes / MAX_ELEM >= q->p;
}

bool tt_bound_need_root(const struct tt_ask *q)
{
    return tt_sched_coll_is_rooted(q->coll);
}

bool tt_bound_need_spreads(const struct tt_ask *q)
{
    bool blockwise =
        q->coll == TUTTI_GATHER || q->coll == TUTTI_SCATTER || q->coll == TUTTI_ALL_TO_ALL;
    return !blockwise || tt_bound_need_all_blocks(q);
}

/* Any n of the p blocks have at least this many bytes: n times the least block, or the whole
 * less the most that the other blocks can have. */
static uint64_t need_blocks(const struct tt_ask *q, uint32_t n)
{
    uint64_t fair = (uint64_t)((unsigned __int128)q->bytes * n / q->p);
    uint64_t inside = (uint64_t)n * BLOCK_SLACK,
             outside = (uint64_t)(q->p - n) * BLOCK_SLACK + REST_SLACK;
    uint64_t slack = inside < outside ? inside : outside;
    return n == q->p ? q->bytes : fair > slack ? fair - slack : 0;
}

uint64_t tt_bound_need_cross(const struct tt_ask *q, uint32_t ranks, bool with_root)
{
    assert(ranks > 0 && ranks < q->p);
    switch (q->coll) {
    case TUTTI_ALLREDUCE:
        return q->bytes;
    case TUTTI_BROADCAST:
        return with_root ? q->bytes : 0;
    case TUTTI_REDUCE:
        return with_root ? 0 : q->bytes;
    case TUTTI_ALL_GATHER:
        return need_blocks(q, ranks);
    case TUTTI_REDUCE_SCATTER:
        return need_blocks(q, q->p - ranks);
    case TUTTI_GATHER:
        return with_root ? 0 : need_blocks(q, ranks);
    case TUTTI_SCATTER:
        return with_root ? need_blocks(q, q->p - ranks) : 0;
    /* Counted block by block: pairs of ranks do not form a set of whole blocks. */
    case TUTTI_ALL_TO_ALL:
        return need_blocks(q, 1) * ranks * (q->p - ranks);
    default:
        return 0;
    }
}

uint64_t tt_bound_need_total(const struct tt_ask *q)
{
    switch (q->coll) {
    case TUTTI_ALLREDUCE:
        return 2 * (uint64_t)(q->p - 1) * q->bytes;
    case TUTTI_BROADCAST:
    case TUTTI_REDUCE:
    case TUTTI_ALL_GATHER:
    case TUTTI_REDUCE_SCATTER:
        return (uint64_t)(q->p - 1) * q->bytes;
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
        return need_blocks(q, q->p - 1);
    case TUTTI_ALL_TO_ALL:
        return need_blocks(q, 1) * q->p * (q->p - 1);
    default:
        return 0;
    }
}
