/* search.c - the two choices that the model makes where options leave them open: fusion and order,
 * those with the shortest predicted step.
 *
 * The search covers thresholds at powers of two and midway between them, from below what matters
 * (64 KiB) to above the sum of all tensors, with and without the small first bucket; one bucket per
 * layer; and fusion `optimal`. It does all of that with large tensors whole and, unless the caller
 * has decided, once more with them in parts of 16 MiB, which other launches may overtake. A step is
 * predicted in time linear in the launches, so the search takes milliseconds. It is deterministic:
 * equal input gives an equal policy on all ranks.
 *
 *     fusions x orders -> policy (make.c) -> predicted step (timeline.c) -> keep the best */
#include "policy/policy_int.h"

#include <assert.h>

#define PART            ((uint64_t)16 << 20)
#define FIRST_THRESHOLD ((uint64_t)64 << 10)

/* The best so far of several policies for the same tensors. */
struct contest {
    struct tt_policy *best;
    uint64_t time_ps;
};

/* Owns p from now on. Better means: a shorter step; of equals fewer launches; of equals the
 * earlier. */
static tutti_status search_enter(struct contest *c, struct tt_policy *p,
                                 const struct tt_policy_input *in, struct tutti_error *err)
{
    struct tt_policy_times times;
    tutti_status st = tt_policy_time(p, in->t, in->costs, &times, NULL, NULL, err);
    if (st ||
        (c->best && (times.iteration_ps > c->time_ps ||
                     (times.iteration_ps == c->time_ps && p->nlaunches >= c->best->nlaunches)))) {
        tt_policy_free(p);
        return st;
    }
    assert(!c->best || times.iteration_ps <= c->time_ps);
    tt_policy_free(c->best);
    *c = (struct contest){p, times.iteration_ps};
    return TUTTI_OK;
}

/* Enters the policy in every order that the options leave open. */
static tutti_status search_orders(const struct tt_policy_input *in, struct contest *c,
                                  struct tutti_error *err)
{
    struct tt_policy_input one = *in;
    bool best = in->o.order == TT_ORDER_BEST;
    enum tt_policy_order last = best ? TT_ORDER_TWO_PHASE : in->o.order;
    tutti_status st = TUTTI_OK;
    for (one.o.order = best ? TT_ORDER_NEXT_USE : last; !st && one.o.order <= last; one.o.order++) {
        struct tt_policy *p = NULL;
        st = tt_policy_settle(&one, &p, err);
        if (!st)
            st = search_enter(c, p, in, err);
    }
    return st;
}

/* Enters every fusion (see the head of this file). */
static tutti_status search_fusions(const struct tt_policy_input *in, struct contest *c,
                                   struct tutti_error *err)
{
    struct tt_policy_input one = *in;
    uint64_t all = 0, first = in->o.first_bytes;
    for (uint32_t i = 0; i < in->n; i++)
        all += in->t[i].bytes;
    one.o.fusion = TT_FUSION_NONE;
    tutti_status st = search_orders(&one, c, err);
    one.o.fusion = TT_FUSION_OPTIMAL;
    if (!st)
        st = search_orders(&one, c, err);
    one.o.first_bytes = TT_POLICY_MOST;
    if (!st)
        st = search_orders(&one, c, err);
    if (st == TUTTI_ERR_LIMIT) /* too many layers for optimal fusion: try the rest */
        st = TUTTI_OK;
    one.o.fusion = TT_FUSION_THRESHOLD;
    /* x runs through 1, 1.5, 2, 3, 4, 6, ... times the first threshold. */
    for (uint64_t x = FIRST_THRESHOLD, odd = 0; !st && x < 2 * all;
         odd = !odd, x = odd ? x + x / 2 : x / 3 * 4) {
        one.o.threshold_bytes = x;
        one.o.first_bytes = first;
        st = search_orders(&one, c, err);
        one.o.first_bytes = x;
        if (!st && x > first)
            st = search_orders(&one, c, err);
    }
    return st;
}

/* Is there a tensor that cutting into parts would change? */
static bool has_large(const struct tt_policy_input *in)
{
    bool some = false;
    for (uint32_t i = 0; i < in->n; i++)
        some |= in->t[i].bytes > PART;
    return some;
}

tutti_status tt_policy_search(const struct tt_policy_input *in, bool parts, struct tt_policy **ret,
                              struct tutti_error *err)
{
    struct tt_policy_input cut = *in;
    struct contest c = {0};
    bool fusions = in->o.fusion == TT_FUSION_SEARCH;
    tutti_status st = fusions ? search_fusions(in, &c, err) : search_orders(in, &c, err);
    cut.o.partition_bytes = PART;
    if (!st && fusions && parts && has_large(in))
        st = search_fusions(&cut, &c, err);
    if (st) {
        tt_policy_free(c.best);
        return st;
    }
    *ret = c.best;
    return TUTTI_OK;
}
