/* check_place.c - whether user data or results exist for every chunk of a span, without visiting
 * every chunk.
 *
 * The chunks that a rank may touch are all, none, its owned ones (one block, or runs of the owner
 * list), or in all-to-all a row (input) or a column (output) of the chunks, source by destination:
 *
 *     3 ranks     0 1 2     row 1: 3 4 5, what rank 1 sends
 *                 3 4 5     column 1: 1 4 7, what rank 1 receives
 *                 6 7 8
 *
 * Each answer costs O(1) per repetition. A test compares it with tt_sched_shape_has_input and
 * has_output. */
#include <stdlib.h>

#include "sched/sched_int.h"

enum reach { REACH_ALL, REACH_NONE, REACH_OWNED, REACH_ROW, REACH_COLUMN };

/* run_end is filled from the back: a chunk continues the run of the next one if owners agree. */
tutti_status tt_sched_places_make(const struct tt_shape *s, struct tt_places *ret,
                                  struct tutti_error *err)
{
    struct tt_places p = {.shape = s};
    if (s->owner && tt_sched_coll_has_owners(s->coll)) {
        p.run_end = tt_alloc(s->chunks, sizeof *p.run_end);
        if (!p.run_end)
            return tt_fail_memory(err, "owners");
        for (uint32_t c = s->chunks; c-- > 0;)
            p.run_end[c] =
                c + 1 < s->chunks && s->owner[c + 1] == s->owner[c] ? p.run_end[c + 1] : c + 1;
    }
    *ret = p;
    return TUTTI_OK;
}

void tt_sched_places_free(struct tt_places *p)
{
    free(p->run_end);
    p->run_end = NULL;
}

/* Without a list the owned chunks are one block, and the extent of the span decides. */
static bool owned(const struct tt_places *p, uint32_t rank, const struct tt_span *span)
{
    if (!p->run_end) {
        uint64_t per_rank = p->shape->chunks / p->shape->ranks;
        return span->first >= rank * per_rank &&
               tt_sched_span_end(span) <= (rank + UINT64_C(1)) * per_rank;
    }
    for (uint32_t i = 0; i < span->reps; i++) {
        uint32_t first = span->first + i * span->stride;
        if (p->shape->owner[first] != rank || p->run_end[first] - first < span->len)
            return false;
    }
    return true;
}

static bool reachable(const struct tt_places *p, enum reach reach, uint32_t rank,
                      const struct tt_span *span)
{
    uint32_t n = p->shape->ranks;
    switch (reach) {
    case REACH_ALL:
        return true;
    case REACH_NONE:
        return false;
    case REACH_OWNED:
        return owned(p, rank, span);
    case REACH_ROW:
        return span->first >= (uint64_t)rank * n &&
               tt_sched_span_end(span) <= (rank + UINT64_C(1)) * n;
    case REACH_COLUMN:
        return n == 1 || (span->len == 1 && span->first % n == rank && span->stride % n == 0);
    }
    return false;
}

bool tt_sched_places_input(const struct tt_places *p, uint32_t rank, const struct tt_span *span)
{
    enum reach reach = REACH_ALL;
    tutti_coll c = p->shape->coll;
    if (c == TUTTI_ALL_GATHER || c == TUTTI_GATHER)
        reach = REACH_OWNED;
    else if (c == TUTTI_ALL_TO_ALL)
        reach = REACH_ROW;
    else if ((c == TUTTI_BROADCAST || c == TUTTI_SCATTER) && rank != p->shape->root)
        reach = REACH_NONE;
    return reachable(p, reach, rank, span);
}

bool tt_sched_places_output(const struct tt_places *p, uint32_t rank, const struct tt_span *span)
{
    enum reach reach = REACH_ALL;
    tutti_coll c = p->shape->coll;
    if (c == TUTTI_REDUCE_SCATTER || c == TUTTI_SCATTER)
        reach = REACH_OWNED;
    else if (c == TUTTI_ALL_TO_ALL)
        reach = REACH_COLUMN;
    else if ((c == TUTTI_REDUCE || c == TUTTI_GATHER) && rank != p->shape->root)
        reach = REACH_NONE;
    return reachable(p, reach, rank, span);
}
