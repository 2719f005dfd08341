/* final.c - after the last step: is every result complete where the collective promises it?
 *
 * A result is right when its place holds every contributor exactly once, which is one value
 * (domain.full). Whole rows are compared run by run, so a correct row is one comparison. */
#include "verify/verify_int.h"

/* Expects full results in OUT of the rank; `first` is a number of the fold. An incomplete one is
 * traced to the operation at fault. */
static tutti_status expect_full(struct tt_verifier *v, uint32_t rank, uint32_t first, uint32_t len)
{
    v->a.len = 0;
    if (!tt_verify_state_read(&v->state, (struct tt_vplaces){rank, TT_BUF_OUT, first, len}, &v->a))
        return tt_verify_state_fail(&v->state, "results", v->err);
    for (size_t i = 0; i < v->a.len; i++) {
        const struct tt_vpiece *p = tt_vec_at(&v->a, i);
        if (p->value != v->domain.full)
            return tt_verify_trace(v, tt_vfold_chunk(&v->fold, p->first), rank,
                                   tt_sched_slice(v->sched, rank).nops);
    }
    return TUTTI_OK;
}

/* How many chunks from `first` on are neighbours with the same owner: the rest of a block; one
 * where owners are listed, in all-to-all, or where the fold separates neighbours. */
static uint32_t owned_together(const struct tt_verifier *v, uint32_t first)
{
    const struct tt_shape *s = v->shape;
    uint32_t per_rank = s->chunks / s->ranks;
    return s->owner || s->coll == TUTTI_ALL_TO_ALL || v->fold.every > 1
               ? 1
               : per_rank - first % per_rank;
}

/* Each chunk is promised to its owner only. */
static tutti_status expect_at_owners(struct tt_verifier *v)
{
    const struct tt_shape *s = v->shape;
    tutti_status st = TUTTI_OK;
    for (uint32_t c = 0, n; c < s->chunks && !st; c += n) {
        n = owned_together(v, c);
        st = expect_full(v, tt_sched_shape_owner(s, c), tt_vfold_number(&v->fold, c), n);
    }
    return st;
}

tutti_status tt_verify_final(struct tt_verifier *v, uint64_t *ret_comparisons)
{
    const struct tt_shape *s = v->shape;
    tutti_status st = TUTTI_OK;
    switch (s->coll) {
    case TUTTI_REDUCE_SCATTER:
    case TUTTI_SCATTER:
    case TUTTI_ALL_TO_ALL:
        *ret_comparisons = s->chunks;
        return expect_at_owners(v);
    case TUTTI_REDUCE:
    case TUTTI_GATHER:
        *ret_comparisons = s->chunks;
        return expect_full(v, s->root, 0, s->chunks);
    default:
        *ret_comparisons = (uint64_t)s->chunks * s->ranks;
        for (uint32_t r = 0; r < s->ranks && !st; r++)
            st = expect_full(v, r, 0, s->chunks);
        return st;
    }
}
