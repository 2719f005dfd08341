/* host.c - bounds by what hosts do: summing at gamma seconds per byte, and sending or taking in
 * messages one overhead apart.
 *
 * reduction: a full sum of one element takes p-1 additions, somewhere. All ranks together cannot
 * add faster than p / gamma, so T >= gamma (p-1)/p S. A rank adds no more than it takes in: with m
 * operands received and its own it can make m additions. In an all-reduce, at the moment at which
 * the first rank (the owner of the element) knows the full sum, each other rank still misses
 * something and must take in one more message. If a(r) of the p-1 additions are made at r and
 * o(r) is what r owns, in bytes:
 *
 *     a(r) <= T / gamma    a(r) + S - o(r) <= T in(r)    sum a = (p-1) S    sum o = S
 *
 * The least T for which this is possible is the bound: ranks behind slow links cannot do their
 * share of the additions, so the others must do more. For reduce and reduce-scatter the second
 * line is a(r) <= T in(r).
 *
 * overhead: a rank that learns something at x can pass it on at x + o, x + 2 o, ..., and each
 * message takes at least the least latency L between two ranks, so the number of ranks that can
 * know it grows like f(x) = f(x - o) + f(x - o - L). The same holds backwards in time for what one
 * rank can know. The collectives are those of rounds.c. */
#include <math.h>
#include <stdlib.h>

#include "bound/bound_int.h"
#include "sched/sched.h"

/* ---- reduction ---- */

/* The most bytes of additions that all ranks can make in `seconds`. `*ret_few`: ranks that take in
 * too little to add all the time. */
static double additions(const struct tt_ask *q, const double *in, double seconds, uint32_t *ret_few)
{
    const bool all = q->coll == TUTTI_ALLREDUCE;
    const double most = seconds / q->t->gamma, bytes = (double)q->bytes;
    double sum = 0, missing = 0;

    *ret_few = 0;
    for (uint32_t r = 0; r < q->p; r++) {
        double fed = seconds * in[r] - (all ? bytes : 0);
        sum += fed < most ? fed : most;
        missing += fed < most ? most - fed : 0;
        *ret_few += fed < most;
    }
    /* What ranks own they need not take in: it is given to those that could add more. */
    return sum + (all ? fmin(bytes, missing) : 0);
}

/* The least time in which `need` bytes of additions are possible, a little less by rounding.
 * Invariant: not possible in lo, possible in hi. */
static double least_time(const struct tt_ask *q, const double *in, double need)
{
    double lo = q->t->gamma * need / q->p, hi = lo;
    uint32_t few;

    if (additions(q, in, lo, &few) >= need)
        return lo;
    while (additions(q, in, hi, &few) < need)
        hi *= 2;
    for (int i = 0; i < 60; i++) {
        double middle = (lo + hi) / 2;
        if (additions(q, in, middle, &few) < need)
            lo = middle;
        else
            hi = middle;
    }
    return lo;
}

tutti_status tt_bound_reduction(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    const double need = (double)(q->p - 1) * (double)q->bytes;
    double *in, seconds;
    uint32_t few;

    if (!(q->t->gamma > 0) || !tt_sched_coll_sums(q->coll)) {
        snprintf(b->text, sizeof b->text, "%s",
                 q->t->gamma > 0 ? "nothing has to be summed"
                                 : "no gamma: the topology says that summing takes no time");
        return TUTTI_OK;
    }
    in = tt_alloc(q->p, sizeof *in);
    if (!in)
        return tt_fail_memory(err, "rates");
    for (uint32_t r = 0; r < q->p; r++)
        in[r] = tt_topo_ingress(q->t, r);
    seconds = least_time(q, in, need) * (1 - 1e-12);
    (void)additions(q, in, seconds, &few);
    free(in);
    if (!(seconds * 1e12 < 0x1p63))
        return tt_fail(err, TUTTI_ERR_RANGE, "the bound exceeds 2^63 picoseconds (106 days)");
    b->applies = true;
    b->time_ps = (uint64_t)(seconds * 1e12);
    b->bytes = need;
    b->from = few;
    tt_bound_words_reduction(q, b);
    return TUTTI_OK;
}

/* ---- overhead ---- */

/* When the last of p ranks can know what one rank knows at 0. Of the arrivals, each at x lets its
 * sender's next one happen at x + o and its receiver's first one at x + o + L. Arrivals are taken
 * in order, so both kinds are queues: `next` and `first` are the positions in them. */
static uint64_t spread(const struct tt_ask *q, uint64_t latency_ps, uint64_t *arrival)
{
    const uint64_t o = q->t->overhead_ps;
    uint32_t next = 0, first = 0;

    arrival[0] = o + latency_ps;
    for (uint32_t n = 1; n + 1 < q->p; n++) {
        uint64_t a = arrival[next] + o, b = arrival[first] + o + latency_ps;
        arrival[n] = a <= b ? a : b;
        next += a <= b;
        first += !(a <= b);
    }
    return arrival[q->p - 2];
}

tutti_status tt_bound_overhead(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    uint64_t *arrival;
    tutti_status st;

    if (!q->t->overhead_ps || !tt_bound_need_spreads(q)) {
        snprintf(b->text, sizeof b->text, "%s",
                 q->t->overhead_ps ? "fewer elements than ranks: perhaps no block has to move"
                                   : "no overhead: the topology says that messages cost no time");
        return TUTTI_OK;
    }
    st = tt_bound_least_latency(q->t, &b->round_ps, err);
    if (st)
        return st;
    if (b->round_ps > UINT64_MAX / 4 / q->p || q->t->overhead_ps > UINT64_MAX / 4 / q->p)
        return tt_fail(err, TUTTI_ERR_RANGE, "the bound exceeds 2^64 picoseconds (213 days)");
    arrival = tt_alloc(q->p, sizeof *arrival);
    if (!arrival)
        return tt_fail_memory(err, "arrivals");
    b->applies = true;
    b->time_ps = spread(q, b->round_ps, arrival);
    free(arrival);
    tt_bound_words_overhead(q, b);
    return TUTTI_OK;
}
