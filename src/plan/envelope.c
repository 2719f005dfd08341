/* envelope.c - which algorithm wins at which size: the lower envelope of the candidates' costs
 * (ties are broken as in choose_auto.c), sampled at min, 2 min, 4 min, ... <= max.
 *
 *     time                  .  ring
 *      |     oneshot ,'   .'
 *      |          ,'   .'      ranges: [1K..4K] oneshot, [8K..64K] halving-doubling, [128K..] ring
 *      |       ,' . '
 *      +--------------------- size
 *
 * Neighbouring sizes with the same winner form one range. Bounds are not computed, because they
 * do not affect the order. */
#include <assert.h>

#include "plan/plan_int.h"

#include <stdlib.h>

enum { ENVELOPE_FLOW_MS = 50 };

/* The winner at one size, as a range of that size only. `about` holds network, problem and
 * cache. */
static tutti_status winner_at(const struct tt_pricing *about, const struct tt_plan_options *o,
                              uint64_t size, struct tt_envelope_piece *ret, struct tutti_error *err)
{
    struct tt_pricing pricing = *about;
    struct tt_problem sized = about->args.problem;
    struct tt_plan_options here = *o;
    struct tt_plan plan = {0};
    uint64_t bytes;
    tutti_status st;

    sized.count = size / tt_sched_dtype_bytes(sized.dtype);
    st = tt_plan_check(about->args.topo, &sized, &plan.problem, &bytes, err);
    if (st)
        return st;
    pricing.args.problem = plan.problem;
    if (!here.flow_ms) /* many sizes share what one plan may use */
        here.flow_ms = ENVELOPE_FLOW_MS;
    st = tt_plan_choose(&pricing, &here, bytes, &plan, err);
    if (!st)
        *ret =
            (struct tt_envelope_piece){size, size, plan.algo, plan.cost.time_ps, plan.cost.time_ps};
    tt_plan_clear(&plan);
    return st;
}

/* Extends the last range, or appends a new one where the winner changes; false: no memory. */
static bool envelope_join(struct tt_vec *pieces, const struct tt_envelope_piece *next)
{
    struct tt_envelope_piece *last = pieces->len > 0 ? tt_vec_at(pieces, pieces->len - 1) : NULL;

    if (!last || last->algo != next->algo)
        return tt_vec_push(pieces, next, 1) != NULL;
    assert(next->from_bytes > last->to_bytes);
    last->to_bytes = next->to_bytes;
    last->to_ps = next->to_ps;
    return true;
}

tutti_status tt_plan_envelope(const struct tt_topo *t, const struct tt_problem *p,
                              const struct tt_plan_options *o, uint64_t min_bytes,
                              uint64_t max_bytes, struct tt_envelope_piece **ret, size_t *ret_n,
                              struct tutti_error *err)
{
    struct tt_vec pieces = {.elem = sizeof(struct tt_envelope_piece)};
    struct tt_pricing about = {.args = {.problem = *p, .topo = t}};
    struct tt_envelope_piece piece;
    uint64_t size = min_bytes;
    tutti_status st = TUTTI_OK;

    if ((unsigned)p->dtype >= TUTTI_DTYPE_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "data type %d does not exist", (int)p->dtype);
    if (min_bytes == 0 || min_bytes > max_bytes || min_bytes % tt_sched_dtype_bytes(p->dtype) != 0)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "sizes must go from a positive multiple of %u bytes (one %s) upwards, not "
                       "from %llu to %llu",
                       tt_sched_dtype_bytes(p->dtype), tt_sched_dtype_name(p->dtype),
                       (unsigned long long)min_bytes, (unsigned long long)max_bytes);
    about.cache = tt_plan_cache_of_schedules(); /* on NULL every size builds its schedules again */
    /* `more` is decided before size doubles, so that size never overflows. */
    for (bool more = true; !st && more; size *= 2) {
        st = winner_at(&about, o, size, &piece, err);
        if (!st && !envelope_join(&pieces, &piece))
            st = tt_fail_memory(err, "cost envelope");
        more = size <= max_bytes / 2;
    }
    tt_plan_cache_free(about.cache);
    if (st) {
        tt_vec_free(&pieces);
        return st;
    }
    *ret = pieces.data;
    *ret_n = pieces.len;
    return TUTTI_OK;
}
