/* built.c - schedules of synthesised algorithms, each built once and shared.
 *
 * Synthesis can take seconds, and its result depends neither on the size of the vector nor on
 * the number of segments (`any_size`). Pricing, counting and handing out therefore share one set
 * of operations, and plans of other sizes share it too while the cache keeps it.
 *
 *     tt_plan_build -> in the cache?  yes: share its operations, adapt the shape to the args
 *                          | no
 *                          v
 *                      memos known from files -> synthesise -> memos found to files -> cache
 *
 * Invariant: a struct tt_built that is handed out owns its schedule object; the operations
 * behind it are reference counted by tt_sched_share. */
#include <assert.h>

#include "plan/plan_int.h"

void tt_plan_built_free(struct tt_built *b)
{
    tt_sched_free(b->sched);
    *b = (struct tt_built){0};
}

tutti_status tt_plan_built_adapt(struct tt_built *b, const struct tt_algo *al,
                                 const struct tt_algo_args *a, struct tutti_error *err)
{
    /* The new shape replaces the old one; the operations stay the same. */
    assert(b->sched && al->build);
    struct tt_shape made_for;
    struct tt_sched *s;
    tutti_status st = tt_algo_shape(al, a, &made_for, err);

    if (st)
        return st;
    st = tt_sched_share(b->sched, &made_for, &s, err);
    tt_sched_shape_free(&made_for);
    if (st)
        return st;
    tt_sched_free(b->sched);
    b->sched = s;
    return TUTTI_OK;
}

/* Fills in what earlier processes found. A memo that cannot be read stays empty and is searched
 * anew. */
static void read_memos(struct tt_synthesis *y)
{
    for (size_t i = 0; i < TT_ALGO_MEMOS; i++)
        if (y->memo[i].name[0])
            tt_plan_disk_read(y->memo[i].name, &y->memo[i].known);
}

/* Only memos that this synthesis extended have bytes in `found`. */
static void write_memos(const struct tt_synthesis *y)
{
    for (size_t i = 0; i < TT_ALGO_MEMOS; i++)
        if (y->memo[i].found.len > 0)
            tt_plan_disk_write(y->memo[i].name, &y->memo[i].found);
}

static tutti_status synthesise(const struct tt_algo *al, const struct tt_algo_args *a,
                               struct tt_built *ret, struct tutti_error *err)
{
    struct tt_synthesis y = {0};
    struct tt_sched *s = NULL;
    tutti_status st = tt_algo_name_memos(al, a, &y, err);

    if (st)
        return st;
    read_memos(&y);
    st = tt_algo_synthesise(al, a, &y, &s, err);
    if (!st) {
        write_memos(&y);
        *ret = (struct tt_built){s, y.report};
    }
    tt_algo_synthesis_free(&y);
    return st;
}

bool tt_plan_built_find(struct tt_plan_cache *c, const struct tt_algo *al,
                        const struct tt_algo_args *a, struct tt_built *ret)
{
    struct tt_built b;

    if (!c || !al->any_size || !tt_plan_cache_find_built(c, al, a, &b))
        return false;
    /* A schedule that cannot be adapted counts as absent: the caller builds a fresh one. */
    if (tt_plan_built_adapt(&b, al, a, NULL)) {
        tt_plan_built_free(&b);
        return false;
    }
    *ret = b;
    return true;
}

tutti_status tt_plan_build(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_plan_cache *cache, struct tt_built *ret,
                           struct tutti_error *err)
{
    tutti_status st;

    if (tt_plan_built_find(cache, al, a, ret))
        return TUTTI_OK;
    st = synthesise(al, a, ret, err);
    if (!st && cache && al->any_size)
        tt_plan_cache_put_built(cache, al, a, ret);
    return st;
}
