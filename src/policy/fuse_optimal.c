/* fuse_optimal.c - the buckets that end communication first, when they are sent as they become
 * ready: dynamic programming.
 *
 * Let E(l) be the earliest end of communication of units l, l+1, .. (the backward pass goes from
 * the last to the first). Some bucket holds units l..k-1; it starts when its last gradient is ready
 * and everything after it has been sent:
 *
 *     E(l) = min over k > l of  max(E(k), ready(l)) + cost(bytes of l..k-1)
 *
 * An earlier E(k) never hurts, so the subproblems are independent. Costs inside the recursion are
 * asked for at powers of two and interpolated linearly between them (there are n^2/2 sizes); the
 * resulting policy is priced exactly. MG-WFBP's greedy rule has the same aim and can miss it by
 * far: where start-up exceeds a layer's backward time, it joins everything. */
#include "policy/policy_int.h"

#include <assert.h>
#include <stdlib.h>

enum { MOST_UNITS = 4096, SIZES = 61 };

struct unit {
    uint32_t first; /* tensor */
    uint64_t bytes, ready_ps;
    bool apart; /* may not share a bucket with the unit before */
};

struct plan {
    const struct tt_policy_input *in;
    struct unit *units;
    uint32_t n;
    uint64_t known[TT_POLICY_ALGO_COUNT][SIZES]; /* cost of 2^i bytes; 0: not asked yet */
    uint64_t *end;                               /* E */
    uint32_t *cut;                               /* the k that gives E(l) */
};

static uint64_t cost_at(struct plan *p, enum tt_policy_algo algo, uint32_t log2)
{
    uint64_t *known = &p->known[algo][log2];
    tutti_coll coll = tt_policy_is_dear(p->in->o.kind) ? TUTTI_REDUCE_SCATTER : TUTTI_ALLREDUCE;
    if (*known == 0)
        *known = p->in->costs->cost(p->in->costs->ctx, coll, algo, (uint64_t)1 << log2);
    return *known;
}

/* Linear between powers of two; at least TT_POLICY_MOST where there is no price. */
static uint64_t cost_of(struct plan *p, const struct unit *u, uint64_t bytes)
{
    enum tt_policy_algo algo = tt_policy_pick(p->in, p->in->t[u->first].kind, bytes);
    uint64_t below = tt_floor_pow2(bytes);
    uint32_t log2 = tt_ceil_log2(below);
    uint64_t low = cost_at(p, algo, log2), high = cost_at(p, algo, log2 + 1);
    if (low >= TT_POLICY_MOST || high >= TT_POLICY_MOST || high < low)
        return low;
    return low + (uint64_t)((double)(high - low) * ((double)(bytes - below) / (double)below));
}

static tutti_status find_units(struct plan *p, const bool *begins, const uint64_t *ready,
                               struct tutti_error *err)
{
    const struct tt_policy_input *in = p->in;
    for (uint32_t i = 0; i < in->n; i++)
        p->n += begins[i];
    if (p->n > MOST_UNITS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "optimal fusion is for up to %d layers, not %u",
                       (int)MOST_UNITS, p->n);
    p->units = tt_zalloc(p->n, sizeof *p->units);
    p->end = tt_zalloc((size_t)p->n + 1, sizeof *p->end);
    p->cut = tt_zalloc(p->n, sizeof *p->cut);
    if (!p->units || !p->end || !p->cut)
        return tt_fail_memory(err, "fusion");
    assert(begins[0]);
    for (uint32_t i = 0, n = 0; i < in->n; i++) {
        if (begins[i])
            p->units[n++] = (struct unit){
                .first = i, .ready_ps = ready[i], .apart = i > 0 && tt_policy_fuse_apart(in, i)};
        p->units[n - 1].bytes += in->t[i].bytes;
    }
    return TUTTI_OK;
}

/* Invariant: end[k] and cut[k] are final for k > l; end[n] is 0. */
static tutti_status fuse_optimal_solve(struct plan *p, struct tutti_error *err)
{
    for (uint32_t l = p->n; l-- > 0;) {
        uint64_t bytes = 0;
        p->end[l] = UINT64_MAX;
        for (uint32_t k = l; k < p->n && (k == l || !p->units[k].apart); k++) {
            bytes += p->units[k].bytes;
            uint64_t cost = cost_of(p, &p->units[l], bytes);
            uint64_t start =
                p->end[k + 1] > p->units[l].ready_ps ? p->end[k + 1] : p->units[l].ready_ps;
            if (cost >= TT_POLICY_MOST || start >= TT_POLICY_MOST)
                return tt_fail(err, TUTTI_ERR_REFUSED,
                               "the cost model gives no time for a bucket of %llu bytes",
                               (unsigned long long)bytes);
            if (start + cost < p->end[l]) {
                p->end[l] = start + cost;
                p->cut[l] = k + 1;
            }
        }
    }
    return TUTTI_OK;
}

tutti_status tt_policy_fuse_optimal(const struct tt_policy_input *in, const uint64_t *ready,
                                    bool *begins, struct tutti_error *err)
{
    struct plan *p = tt_zalloc(1, sizeof *p);
    if (!p)
        return tt_fail_memory(err, "fusion");
    p->in = in;
    tutti_status st = find_units(p, begins, ready, err);
    if (!st)
        st = fuse_optimal_solve(p, err);
    for (uint32_t i = 0; !st && i < in->n; i++)
        begins[i] = false;
    /* Follow the cuts from the first unit on: each is the start of a bucket. */
    for (uint32_t l = 0; !st && l < p->n; l = p->cut[l])
        begins[p->units[l].first] = true;
    free(p->units);
    free(p->end);
    free(p->cut);
    free(p);
    return st;
}
