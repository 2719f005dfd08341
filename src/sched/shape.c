/* shape.c - which places of a collective hold user data and which may hold results: the table at
 * the top of sched.h as code.
 *
 * Everything here depends on the collective and the shape only, never on operations: verify, check
 * and the executor all ask here, so that they cannot disagree. */
#include <assert.h>
#include <stdlib.h>

#include "sched/sched.h"

bool tt_sched_coll_is_rooted(tutti_coll c)
{
    return c == TUTTI_BROADCAST || c == TUTTI_REDUCE || c == TUTTI_GATHER || c == TUTTI_SCATTER;
}

bool tt_sched_coll_sums(tutti_coll c)
{
    return c == TUTTI_ALLREDUCE || c == TUTTI_REDUCE_SCATTER || c == TUTTI_REDUCE;
}

bool tt_sched_coll_reduces(tutti_coll c)
{
    return tt_sched_coll_sums(c) || c == TUTTI_BARRIER;
}

bool tt_sched_coll_has_owners(tutti_coll c)
{
    return c == TUTTI_REDUCE_SCATTER || c == TUTTI_ALL_GATHER || c == TUTTI_GATHER ||
           c == TUTTI_SCATTER;
}

void tt_sched_shape_free(struct tt_shape *s)
{
    if (!s)
        return;
    free(s->weights);
    free(s->owner);
    s->weights = NULL;
    s->owner = NULL;
}

uint32_t tt_sched_shape_owner(const struct tt_shape *s, uint32_t chunk)
{
    assert(chunk < s->chunks && s->ranks > 0);
    if (s->owner)
        return s->owner[chunk];
    if (s->coll == TUTTI_ALL_TO_ALL)
        return chunk % s->ranks;
    /* A collective without owners may have any number of chunks: the answer is only a hint then,
     * but still a valid rank. */
    uint32_t per_rank = s->chunks / s->ranks;
    uint32_t owner = per_rank ? chunk / per_rank : chunk;
    return owner < s->ranks ? owner : s->ranks - 1;
}

/* Without lists the block rule itself gives equal blocks. */
bool tt_sched_shape_equal_blocks(const struct tt_shape *s)
{
    uint64_t total = 0, sum = 0, each;
    uint32_t rank = 0;
    if (!s->owner && !s->weights)
        return s->chunks % s->ranks == 0;
    for (uint32_t c = 0; c < s->chunks; c++)
        total += s->weights ? s->weights[c] : 1;
    each = total / s->ranks;
    if (each * s->ranks != total || total == 0)
        return false;
    /* Invariant: blocks 0 .. rank-1 are complete; `sum` is the weight of block `rank` so far. */
    for (uint32_t c = 0; c < s->chunks; c++) {
        if (sum == each) {
            rank++;
            sum = 0;
        }
        sum += s->weights ? s->weights[c] : 1;
        if (sum > each || tt_sched_shape_owner(s, c) != rank)
            return false;
    }
    return true;
}

bool tt_sched_shape_has_input(const struct tt_shape *s, uint32_t rank, uint32_t chunk)
{
    switch (s->coll) {
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
        return tt_sched_shape_owner(s, chunk) == rank;
    case TUTTI_BROADCAST:
    case TUTTI_SCATTER:
        return rank == s->root;
    case TUTTI_ALL_TO_ALL:
        return chunk / s->ranks == rank;
    default:
        return true;
    }
}

bool tt_sched_shape_has_output(const struct tt_shape *s, uint32_t rank, uint32_t chunk)
{
    switch (s->coll) {
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER:
    case TUTTI_ALL_TO_ALL:
        return tt_sched_shape_owner(s, chunk) == rank;
    case TUTTI_REDUCE:
    case TUTTI_GATHER:
        return rank == s->root;
    default:
        return true;
    }
}

/* All-to-all: chunk (source, destination) of OUT lies where IN has (destination, source). */
uint32_t tt_sched_shape_alias(const struct tt_shape *s, uint32_t chunk)
{
    if (s->coll != TUTTI_ALL_TO_ALL)
        return chunk;
    return chunk % s->ranks * s->ranks + chunk / s->ranks;
}
