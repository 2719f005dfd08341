/* bound.c - computes every kind of bound and names the largest.
 *
 *     latency      how far information must travel
 *     rounds       how fast it can spread through ports
 *     volume       how much must leave the ranks
 *     cut          how much must cross a cut
 *     partition    how much must pass between many parts
 *     reduction    how much must be summed
 *     overhead     how fast hosts can pass on messages
 *
 * Each kind is proved separately and holds for every schedule. The bounds are not added, because
 * no proof allows that. Rounding never helps a bound: capacities are rounded up, times down. */
#include <assert.h>

#include "bound/bound.h"

#include <math.h>
#include <stdlib.h>

#include "bound/bound_int.h"

#define PS_PER_S 1000000000000u

const char *tt_bound_name(enum tt_bound_kind k)
{
    static const char *const names[] = {
#define TT_BOUND_NAME(id, name) name,
        TT_BOUND_LIST(TT_BOUND_NAME)
#undef TT_BOUND_NAME
    };
    return (unsigned)k < countof(names) ? names[k] : "unknown";
}

/* 128 bits: bytes below 2^61 times 10^12 does not fit 64. */
tutti_status tt_bound_ratio_time(const struct tt_ask *q, struct tt_ratio r, uint64_t *ret_ps,
                                 struct tutti_error *err)
{
    assert(r.cap > 0);
    unsigned __int128 ps =
        (unsigned __int128)r.bytes * PS_PER_S / ((unsigned __int128)r.cap << q->shift);
    if (ps > UINT64_MAX)
        return tt_fail(err, TUTTI_ERR_RANGE, "the bound exceeds 2^64 picoseconds (213 days)");
    *ret_ps = (uint64_t)ps;
    return TUTTI_OK;
}

double tt_bound_ratio_capacity(const struct tt_ask *q, struct tt_ratio r)
{
    return ldexp((double)r.cap, (int)q->shift);
}

uint64_t tt_bound_cap(const struct tt_ask *q, double bytes_per_s)
{
    return (uint64_t)ceil(ldexp(bytes_per_s, -(int)q->shift));
}

/* Converts link capacities to integers, in units of 2^shift bytes/s such that any sum of them,
 * even counted twice (both directions of a rank and of its link), stays within 62 bits. */
static tutti_status take_links(struct tt_ask *q, struct tutti_error *err)
{
    const struct tt_topo *t = q->t;
    double sum = 1;
    q->even = true;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        sum += ceil(l->bw[0]) + ceil(l->bw[1]);
        q->half |= l->half;
        q->even &= l->half || l->bw[0] == l->bw[1];
    }
    while (ldexp(sum, -(int)q->shift) > 0x1p59)
        q->shift++;
    q->cap = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *q->cap);
    if (!q->cap)
        return tt_fail_memory(err, "link capacities");
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        q->cap[2 * i] = tt_bound_cap(q, l->bw[0]);
        /* The two directions of a half-duplex link share one capacity. */
        q->cap[2 * i + 1] = tt_bound_cap(q, l->bw[l->half ? 0 : 1]);
    }
    return TUTTI_OK;
}

/* The limit on bytes keeps every need (at most about 4 * ranks * bytes) within 64 bits. */
static tutti_status check_ask(const struct tt_ask *q, struct tutti_error *err)
{
    if ((unsigned)q->coll >= TUTTI_COLL_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "unknown collective %d", (int)q->coll);
    if (tt_bound_need_root(q) && q->root >= q->p)
        return tt_fail(err, TUTTI_ERR_RANGE, "root %u, but the topology has ranks 0 to %u", q->root,
                       q->p - 1);
    if (q->bytes > UINT64_MAX / 8 / q->p)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "a vector of %llu bytes on %u ranks is more traffic than 64 bits can count",
                       (unsigned long long)q->bytes, q->p);
    return TUTTI_OK;
}

/* Without anything to send all kinds are 0, with the reason as text. */
static tutti_status ask_kind(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    static tutti_status (*const kinds[])(const struct tt_ask *, struct tt_bound *,
                                         struct tutti_error *) = {
        [TT_BOUND_LATENCY] = tt_bound_latency,     [TT_BOUND_ROUNDS] = tt_bound_rounds,
        [TT_BOUND_VOLUME] = tt_bound_volume,       [TT_BOUND_CUT] = tt_bound_cut,
        [TT_BOUND_PARTITION] = tt_bound_partition, [TT_BOUND_REDUCTION] = tt_bound_reduction,
        [TT_BOUND_OVERHEAD] = tt_bound_overhead,
    };
    assert(b->kind < TT_BOUND_KINDS);
    if (!tt_bound_need_nothing(q))
        return kinds[b->kind](q, b, err);
    snprintf(b->text, sizeof b->text, "%s",
             q->p == 1 ? "one rank has nothing to send" : "no data, nothing to send");
    return TUTTI_OK;
}

/* The bounds that were already computed are freed if a later one fails. */
tutti_status tt_bound_make(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes,
                           struct tt_bounds *ret, struct tutti_error *err)
{
    struct tt_ask q = {.t = t,
                       .coll = coll,
                       .p = t->ranks,
                       .root = root,
                       .bytes = coll == TUTTI_BARRIER ? 0 : bytes};
    struct tt_bounds all = {0};
    tutti_status st = check_ask(&q, err);
    if (!tt_bound_need_root(&q))
        q.root = 0;
    if (!st)
        st = take_links(&q, err);
    for (int k = 0; k < TT_BOUND_KINDS && !st; k++) {
        struct tt_bound *b = &all.item[k];
        *b = (struct tt_bound){.kind = (enum tt_bound_kind)k, .complete = true};
        st = ask_kind(&q, b, err);
        if (!st && b->time_ps > all.time_ps) {
            all.best = b->kind;
            all.time_ps = b->time_ps;
        }
    }
    free(q.cap);
    if (st) {
        tt_bound_free(&all);
        return st;
    }
    *ret = all;
    return TUTTI_OK;
}

void tt_bound_free(struct tt_bounds *b)
{
    if (!b)
        return;
    for (int k = 0; k < TT_BOUND_KINDS; k++) {
        free(b->item[k].side);
        b->item[k].side = NULL;
        free(b->item[k].part);
        b->item[k].part = NULL;
    }
}
