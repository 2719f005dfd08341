/* check_shape.c - is the shape itself possible? Afterwards every rank, root, owner, chunk and
 * buffer number is valid and within the limits of this build. */
#include <inttypes.h>
#include <string.h>

#include "sched/sched_int.h"

/* Incorrect: no schedule can have that. Limit: this build does not accept that much. */
static tutti_status check_limits(const struct tt_shape *s, struct tutti_error *err)
{
    if (s->ranks == 0 || s->chunks == 0)
        return tt_fail(err, TUTTI_ERR_INCORRECT, "%s is 0", s->ranks == 0 ? "ranks" : "chunks");
    if (s->ranks > TT_MAX_RANKS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu32 " ranks: at most %d are accepted", s->ranks,
                       TT_MAX_RANKS);
    if (s->nbufs < TT_BUF_SCRATCH)
        return tt_fail(err, TUTTI_ERR_INCORRECT, "%" PRIu32 " buffers: input and output need two",
                       s->nbufs);
    if (s->nbufs > TT_MAX_BUFS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu32 " buffers: at most %d are accepted",
                       s->nbufs, TT_MAX_BUFS);
    if (s->segments == 0)
        return tt_fail(err, TUTTI_ERR_INCORRECT, "segments is 0");
    if (s->segments > TT_MAX_SEGMENTS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu32 " segments: at most %d are accepted",
                       s->segments, TT_MAX_SEGMENTS);
    if (s->root >= s->ranks)
        return tt_fail(err, TUTTI_ERR_INCORRECT, "root %" PRIu32 " of %" PRIu32 " ranks", s->root,
                       s->ranks);
    return TUTTI_OK;
}

/* Enumerators and texts may come from damaged bytes (pack.c). */
static tutti_status check_words(const struct tt_shape *s, struct tutti_error *err)
{
    if ((unsigned)s->coll >= TUTTI_COLL_COUNT || (unsigned)s->dtype >= TUTTI_DTYPE_COUNT ||
        (unsigned)s->redop > TT_REDOP_USER)
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "unknown collective (%d), data type (%d) or reduction (%d)", (int)s->coll,
                       (int)s->dtype, (int)s->redop);
    if (!memchr(s->algo, 0, sizeof s->algo) || !memchr(s->options, 0, sizeof s->options))
        return tt_fail(err, TUTTI_ERR_INCORRECT, "algorithm name or options are not terminated");
    if (s->count > INT64_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu64 " elements: at most 2^63-1 are accepted",
                       s->count);
    return TUTTI_OK;
}

/* Called last: the lists have as many entries as there are chunks. */
static tutti_status check_lists(const struct tt_shape *s, struct tutti_error *err)
{
    uint64_t sum = 0;
    for (uint32_t c = 0; s->weights && c < s->chunks; c++)
        sum += s->weights[c];
    if (s->weights && sum == 0)
        return tt_fail(err, TUTTI_ERR_INCORRECT, "all chunk weights are zero");
    for (uint32_t c = 0; s->owner && c < s->chunks; c++)
        if (s->owner[c] >= s->ranks)
            return tt_fail(err, TUTTI_ERR_INCORRECT,
                           "owner %" PRIu32 " of chunk %" PRIu32 " is not one of the %" PRIu32
                           " ranks",
                           s->owner[c], c, s->ranks);
    return TUTTI_OK;
}

/* What the collective requires of the chunks. */
static tutti_status check_chunks(const struct tt_shape *s, struct tutti_error *err)
{
    bool divisible = s->chunks % s->ranks == 0;
    if (tt_sched_coll_has_owners(s->coll) && !s->owner && !divisible)
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "%s without owners needs a multiple of %" PRIu32
                       " (ranks) as number of chunks, not %" PRIu32,
                       tt_sched_coll_name(s->coll), s->ranks, s->chunks);
    if (s->coll == TUTTI_ALL_TO_ALL &&
        (s->chunks != (uint64_t)s->ranks * s->ranks || s->owner || s->weights))
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "all-to-all of %" PRIu32
                       " ranks has ranks*ranks equal chunks and no owner list",
                       s->ranks);
    if (s->coll == TUTTI_BARRIER && s->chunks != 1)
        return tt_fail(err, TUTTI_ERR_INCORRECT, "a barrier has one chunk, not %" PRIu32,
                       s->chunks);
    if (s->symmetric && !divisible)
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "a symmetric schedule needs a multiple of %" PRIu32
                       " (ranks) as number of chunks, not %" PRIu32,
                       s->ranks, s->chunks);
    return TUTTI_OK;
}

tutti_status tt_sched_shape_check(const struct tt_shape *s, struct tutti_error *err)
{
    tutti_status st = check_limits(s, err);
    if (!st)
        st = check_words(s, err);
    if (!st)
        st = check_chunks(s, err);
    if (!st)
        st = check_lists(s, err);
    return st;
}
