/* volume.c - how much must leave and enter the ranks, against what their ports and links carry.
 *
 * All ranks together: the bytes of need.c are messages between ranks. Each leaves one rank and
 * enters another, so both the sum of what ranks can send and the sum of what they can receive
 * limit the rate; with half-duplex links, so does half the sum of both together. One rank alone:
 * what must leave (enter) it over what its ports let it send (receive). Without a limit by ports
 * that is the cut around the rank, which cut.c finds among all cuts; it is considered here where
 * ports limit.
 *
 *     star of 4 at B, allreduce of S:   6 S in all, 4 B together:  T >= 1.5 S/B (a cut: S/B) */
#include "bound/bound_int.h"

/* What one rank can send and receive. */
struct rank_rates {
    uint64_t out, in, both; /* within the port limit; both: the two together */
    bool limited;           /* ports carry less than the links */
};

static struct rank_rates rates_of(const struct tt_ask *q, uint32_t r)
{
    const struct tt_graph *g = &q->t->g;
    struct rank_rates x = {.out = tt_bound_cap(q, tt_topo_egress(q->t, r)),
                           .in = tt_bound_cap(q, tt_topo_ingress(q->t, r))};
    uint64_t out = 0, in = 0, both = 0;
    for (uint32_t k = g->start[r]; k < g->start[r + 1]; k++) {
        uint64_t there = q->cap[g->id[k]], back = q->cap[g->id[k] ^ 1];
        out += there;
        in += back;
        both += q->t->links[g->id[k] / 2].half ? there : there + back;
    }
    x.limited = x.out < out || x.in < in;
    x.both = x.out + x.in < both ? x.out + x.in : both;
    return x;
}

/* The best ratio so far and what it is about. */
struct best {
    struct tt_ratio ratio;
    uint32_t rank;
    bool both;
    const char *verb;
};

static void offer(struct best *b, struct tt_ratio r, uint32_t rank, bool both, const char *verb)
{
    if (r.bytes > 0 && r.cap > 0 && tt_ratio_more(r, b->ratio))
        *b = (struct best){r, rank, both, verb};
}

/* What must leave and enter rank r alone. */
static void offer_rank(const struct tt_ask *q, struct best *b, uint32_t r,
                       const struct rank_rates *x)
{
    bool root = r == q->root;
    uint64_t out = tt_bound_need_cross(q, 1, root), in = tt_bound_need_cross(q, q->p - 1, !root);
    offer(b, (struct tt_ratio){out, x->out}, r, false, "leave");
    offer(b, (struct tt_ratio){in, x->in}, r, false, "enter");
    if (q->half)
        offer(b, (struct tt_ratio){out + in, x->both}, r, true, "leave and enter");
}

tutti_status tt_bound_volume(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    struct best best = {.ratio = {0, 1}};
    struct rank_rates sum = {0};
    uint64_t total = tt_bound_need_total(q);
    for (uint32_t r = 0; r < q->p; r++) {
        struct rank_rates x = rates_of(q, r);
        sum.out += x.out;
        sum.in += x.in;
        sum.both += x.both;
        if (x.limited)
            offer_rank(q, &best, r, &x);
    }
    offer(&best, (struct tt_ratio){total, sum.out}, UINT32_MAX, false, "leave");
    offer(&best, (struct tt_ratio){total, sum.in}, UINT32_MAX, false, "enter");
    if (q->half)
        offer(&best, (struct tt_ratio){2 * total, sum.both}, UINT32_MAX, true, "leave and enter");
    if (best.ratio.bytes == 0) {
        snprintf(b->text, sizeof b->text, "%s",
                 q->coll == TUTTI_BARRIER ? "a barrier moves no data" : "too few bytes to tell");
        return TUTTI_OK;
    }
    tutti_status st = tt_bound_ratio_time(q, best.ratio, &b->time_ps, err);
    if (st)
        return st;
    b->applies = true;
    b->from = b->to = best.rank;
    b->both = best.both;
    b->bytes = (double)best.ratio.bytes;
    b->capacity = tt_bound_ratio_capacity(q, best.ratio);
    tt_bound_words_volume(q, b, best.verb);
    return TUTTI_OK;
}
