/* rules.c - which places exist and what must be in them: the table at the top of sched.h written down a second time, so that a mistake in
 * src/sched/shape.c shows. */
#include "parts.h"

bool ls_is_rooted(tutti_coll c)
{
    return c == TUTTI_BROADCAST || c == TUTTI_REDUCE || c == TUTTI_GATHER || c == TUTTI_SCATTER;
}

static bool has_owners(const struct tt_shape *s)
{
    return s->coll == TUTTI_REDUCE_SCATTER || s->coll == TUTTI_ALL_GATHER || s->coll == TUTTI_GATHER || s->coll == TUTTI_SCATTER;
}

bool ls_shape_ok(const struct tt_shape *s)
{
    if (s->ranks == 0 || s->root >= s->ranks || s->chunks == 0 || s->nbufs < TT_BUF_SCRATCH || s->segments == 0)
        return false;
    if (s->coll == TUTTI_ALL_TO_ALL && s->chunks != (uint64_t)s->ranks * s->ranks)
        return false;
    for (uint32_t c = 0; s->owner && c < s->chunks; c++)
        if (s->owner[c] >= s->ranks)
            return false;
    return s->owner || !has_owners(s) || s->chunks % s->ranks == 0;
}

static uint32_t owner_of(const struct tt_shape *s, uint32_t chunk)
{
    if (s->owner)
        return s->owner[chunk];
    return s->coll == TUTTI_ALL_TO_ALL ? chunk % s->ranks : chunk / (s->chunks / s->ranks);
}

bool ls_reduces(const struct tt_shape *s)
{
    return s->coll == TUTTI_ALLREDUCE || s->coll == TUTTI_REDUCE_SCATTER || s->coll == TUTTI_REDUCE || s->coll == TUTTI_BARRIER;
}

bool ls_has_input(const struct tt_shape *s, uint32_t rank, uint32_t chunk)
{
    return ls_reduces(s) || ls_source(s, chunk) == rank;
}

bool ls_has_output(const struct tt_shape *s, uint32_t rank, uint32_t chunk)
{
    if (s->coll == TUTTI_REDUCE_SCATTER || s->coll == TUTTI_SCATTER || s->coll == TUTTI_ALL_TO_ALL)
        return owner_of(s, chunk) == rank;
    return (s->coll != TUTTI_REDUCE && s->coll != TUTTI_GATHER) || rank == s->root;
}

uint32_t ls_source(const struct tt_shape *s, uint32_t chunk)
{
    if (s->coll == TUTTI_ALL_GATHER || s->coll == TUTTI_GATHER)
        return owner_of(s, chunk);
    return s->coll == TUTTI_ALL_TO_ALL ? chunk / s->ranks : s->root;
}

uint32_t ls_alias(const struct tt_shape *s, uint32_t chunk)
{
    return s->coll == TUTTI_ALL_TO_ALL ? chunk % s->ranks * s->ranks + chunk / s->ranks : chunk;
}
