/* fold.c - renumbers chunks so that a schedule's spans become few ranges.
 *
 * Every range of chunks costs the proof some work, whatever its length. A schedule that cuts
 * each rank's block into q parts on different routes moves chunks that are q apart, each a range
 * of its own; a schedule on rows and columns moves columns. If every q-th chunk is numbered
 * consecutively, these become neighbours:
 *
 *     q = 2, chunks 0..7:  0 2 4 6 | 1 3 5 7    span 1, 3, 5 has numbers 4, 5, 6: one range
 *
 * The proof only asks which chunks are equal, so any one-to-one numbering that is used
 * everywhere proves the same. A span that the fold tears apart (one of adjacent chunks) is
 * walked chunk by chunk, in the order in which a message carries it. */
#include "verify/verify_int.h"

enum { CANDIDATES = 16 };

/* Strides of rank 0's single chunks, and how many chunks have each. Other ranks mostly do the
 * same. */
struct strides {
    uint32_t stride[CANDIDATES];
    uint64_t chunks[CANDIDATES];
    uint32_t n;
};

/* Is the span a single range of numbers in this fold? */
static bool is_folded(const struct tt_span *s, uint32_t every)
{
    return s->len == 1 && (s->reps == 1 || s->stride == every);
}

uint64_t tt_verify_fold_ranges(const struct tt_sched *s, uint32_t every)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->nspans; i++) {
        const struct tt_span *p = &s->spans[i];
        n += every == 1 ? p->reps : is_folded(p, every) ? 1 : (uint64_t)p->len * p->reps;
    }
    return n;
}

/* Strides beyond the first CANDIDATES different ones are ignored. */
static void note_stride(struct strides *k, uint32_t stride, uint32_t chunks)
{
    uint32_t i = 0;
    while (i < k->n && k->stride[i] != stride)
        i++;
    if (i == CANDIDATES)
        return;
    k->n += i == k->n;
    k->stride[i] = stride;
    k->chunks[i] += chunks;
}

/* Only strides that divide the chunks are candidates: the fold needs full rows. */
static uint32_t commonest_stride(const struct tt_sched *s)
{
    struct strides k = {0};
    struct tt_slice sl = tt_sched_slice(s, 0);
    uint32_t best = 0;
    for (size_t i = 0; i < sl.nspans; i++) {
        const struct tt_span *p = &sl.spans[i];
        if (p->len == 1 && p->reps > 1 && p->stride > 1 && s->shape.chunks % p->stride == 0)
            note_stride(&k, p->stride, p->reps);
    }
    for (uint32_t i = 1; i < k.n; i++)
        best = k.chunks[i] > k.chunks[best] ? i : best;
    return k.n ? k.stride[best] : 1;
}

struct tt_vfold tt_verify_fold_choose(const struct tt_sched *s)
{
    uint32_t every = commonest_stride(s);
    /* A fold must at least halve the ranges, measured over all ranks, to be worth using. */
    if (every > 1 && tt_verify_fold_ranges(s, every) > tt_verify_fold_ranges(s, 1) / 2)
        every = 1;
    return (struct tt_vfold){.every = every, .rows = s->shape.chunks / every};
}

/* The walk's step in a fold with every > 1: a folded span is one range, any other goes chunk by
 * chunk (w->rep counts its chunks). */
void tt_verify_walk_fold(struct tt_vwalk *w, struct tt_vrange *ret)
{
    const struct tt_span *s = w->span;
    bool whole = is_folded(s, w->fold.every);
    uint32_t chunk = whole ? s->first : s->first + w->rep / s->len * s->stride + w->rep % s->len;
    *ret = (struct tt_vrange){.first = tt_vfold_number(&w->fold, chunk),
                              .len = whole ? s->reps : 1,
                              .buf = s->buf,
                              .src = s->src};
    if (whole || ++w->rep == s->len * s->reps) {
        w->rep = 0;
        w->span++;
    }
}
