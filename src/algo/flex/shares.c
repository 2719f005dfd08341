/* shares.c - which part of the vector each branch of the hierarchy keeps.
 *
 * A node v keeps the part `share` of what its parent's group has, so that a rank ends with the
 * product of the shares on its way up. With direct messages between the representatives of siblings
 * (c of them) a reduce-scatter sends out of v everything but what stays there, and brings in, at
 * every level above, c-1 copies of what the part of v keeps there (derived in the project's notes,
 * after FlexReduce, DAC 2020, whose text is not public):
 *
 *     out(v) = 1 - X(v),  X the product of shares from v up
 *     in(v)  = sum over levels of (c-1) * product of shares from v up to there
 *
 * The all-gather is the mirror image. Cut in segments the two overlap, and an uplink carries out +
 * in each way: load(v) = 1 + L(v) with L(v) = in(v) - X(v). Over the children of one node, L adds
 * up to L(node) + c - 1, and to c - 2 at the root, whatever the shares are. So with time T (seconds
 * per byte) the room below and above gives caps
 *
 *     cap(leaf) = T bw - 1
 *     cap(v)    = min(T bw - 1, sum of caps of its children - (c-1))       L(v) <= cap(v), all >= 0
 *
 * and T is possible if and only if the caps of the root's children add up to c - 2 and no cap is
 * negative: shares in proportion to the caps keep to all of them. That is the exact optimum of the
 * linear program of all such schedules, by bisection on T, for any depth. On a star it is T =
 * max(1/min bw, 2(c-1)/sum bw), which no schedule beats. Where T leaves a choice, shares are as
 * equal as the caps allow: equal shares of siblings are the best when the phases do not overlap. */
#include "algo/flex/flex.h"

#include <assert.h>
#include <math.h>

static void share_even(struct tt_flex_tree *t)
{
    for (uint32_t i = 1; i < t->nnodes; i++)
        t->node[i].share = (double)t->node[i].leaves / t->node[t->node[i].parent].leaves;
}

static void share_branch(struct tt_flex_tree *t)
{
    for (uint32_t i = 1; i < t->nnodes; i++)
        t->node[i].share = 1.0 / t->node[t->node[i].parent].count;
}

/* Is it a group of ranks only? */
static bool is_host(const struct tt_flex_node *v)
{
    return v->height == 1;
}

/* In each host the first `keepers` ranks share equally, the others keep nothing. */
static void share_first(struct tt_flex_tree *t, uint32_t keepers)
{
    share_branch(t);
    for (uint32_t i = 0; i < t->nnodes; i++)
        for (uint32_t k = 0; is_host(&t->node[i]) && k < t->node[i].count; k++)
            t->node[t->node[i].first + k].share = k < keepers ? 1.0 / keepers : 0;
}

/* Ranks of the smallest host; a rank directly among hosts counts as a host of one. */
static uint32_t smallest_host(const struct tt_flex_tree *t)
{
    uint32_t least = UINT32_MAX;
    for (uint32_t i = 0; i < t->nnodes; i++) {
        const struct tt_flex_node *v = &t->node[i];
        bool alone = v->count == 0 && t->node[v->parent].height > 1;
        if ((alone || is_host(v)) && v->leaves < least)
            least = v->leaves;
    }
    return least;
}

static double sum_of_caps(const struct tt_flex_tree *t, const struct tt_flex_node *v)
{
    double sum = 0;
    for (uint32_t k = 0; k < v->count; k++)
        sum += t->node[v->first + k].cap;
    return sum;
}

/* Sets the caps for time T; returns whether T is possible. Children have higher numbers than their
 * parents. */
static bool set_caps(struct tt_flex_tree *t, double time)
{
    for (uint32_t i = t->nnodes; i-- > 1;) {
        struct tt_flex_node *v = &t->node[i];
        double below = v->count ? sum_of_caps(t, v) - (v->count - 1.0) : (double)INFINITY;
        v->cap = time * v->bw - 1;
        v->cap = below < v->cap ? below : v->cap;
        if (v->cap < 0)
            return false;
    }
    return sum_of_caps(t, &t->node[0]) >= t->node[0].count - 2.0;
}

/* Invariant: `high` is possible, `low` is not. Ends when no double lies between them. */
static double least_time(struct tt_flex_tree *t)
{
    double slowest = t->node[1].bw;
    for (uint32_t i = 2; i < t->nnodes; i++)
        slowest = t->node[i].bw < slowest ? t->node[i].bw : slowest;
    double low = 0, high = 1 / slowest;
    while (!set_caps(t, high))
        high *= 2;
    for (double mid = low + (high - low) / 2; mid > low && mid < high;
         mid = low + (high - low) / 2) {
        if (set_caps(t, mid))
            high = mid;
        else
            low = mid;
    }
    return high;
}

/* Shares of the children of v, as equal as possible with share * load <= cap. Each round fixes the
 * children whose cap is below an equal part of the rest. */
static void share_capped(struct tt_flex_tree *t, const struct tt_flex_node *v, double load)
{
    struct tt_flex_node *child = &t->node[v->first];
    double rest = 1, sum = 0;
    uint32_t open = v->count;
    for (uint32_t k = 0; k < v->count; k++)
        child[k].share = -1;
    for (bool more = true; more && open > 0;) {
        double equal = rest / open;
        more = false;
        for (uint32_t k = 0; k < v->count; k++) {
            if (child[k].share >= 0 || child[k].cap >= equal * load)
                continue;
            child[k].share = child[k].cap / load;
            rest -= child[k].share;
            open--;
            more = true;
        }
        rest = rest > 0 ? rest : 0;
    }
    for (uint32_t k = 0; k < v->count; k++) {
        child[k].share = child[k].share < 0 ? rest / open : child[k].share;
        sum += child[k].share;
    }
    for (uint32_t k = 0; k < v->count; k++)
        child[k].share /= sum;
}

/* From the top: once v's own share is known, load(v) takes the place of its cap; the children's L
 * add up to it. */
static void share_optimal(struct tt_flex_tree *t)
{
    bool possible = set_caps(t, least_time(t));
    assert(possible);
    (void)possible;
    for (uint32_t i = 0; i < t->nnodes; i++) {
        struct tt_flex_node *v = &t->node[i];
        if (v->count == 0)
            continue;
        double load = i == 0 ? v->count - 2.0 : v->cap + (v->count - 1.0);
        share_capped(t, v, load);
        for (uint32_t k = 0; k < v->count; k++)
            t->node[v->first + k].cap = t->node[v->first + k].share * load;
    }
}

void tt_flex_share(struct tt_flex_tree *t, enum tt_flex_shares how)
{
    t->node[0].share = 1;
    if (t->nnodes == 1)
        return;
    if (how == TT_FLEX_EVEN)
        share_even(t);
    else if (how == TT_FLEX_BRANCH)
        share_branch(t);
    else if (how == TT_FLEX_LEADER || how == TT_FLEX_BROKE)
        share_first(t, how == TT_FLEX_LEADER ? 1 : smallest_host(t));
    else
        share_optimal(t);
}

void tt_flex_load(const struct tt_flex_tree *t, uint32_t v, double *ret_out, double *ret_in)
{
    double kept = 1, in = 0;
    for (; v != 0; v = t->node[v].parent) {
        kept *= t->node[v].share;
        in += (t->node[t->node[v].parent].count - 1.0) * kept;
    }
    *ret_out = 1 - kept;
    *ret_in = in;
}

double tt_flex_time(const struct tt_flex_tree *t, bool overlapped)
{
    double most = 0;
    for (uint32_t v = 1; v < t->nnodes; v++) {
        double out, in;
        tt_flex_load(t, v, &out, &in);
        double load = overlapped ? out + in : 2 * (out > in ? out : in);
        most = load / t->node[v].bw > most ? load / t->node[v].bw : most;
    }
    return most;
}
