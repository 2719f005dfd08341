/* work.c - by which way a candidate is priced, and how much work that is.
 *
 * Work is counted, never timed: ranks that plan alone must skip the same candidates whatever their speed. A unit is one operation, one
 * span or one hop of a message. Some ranks are listed and stand for the others; pipelined algorithms pay for the search of K.
 *
 * The short way (rank 0 for all) takes the largest of unequal chunks and is then a little pessimistic: it is used when the chunks
 * are equal or the whole schedule is not small. */
#include "plan/parts.h"

#include <stdlib.h>

enum {
    MAX_COUNTED = 1 << 20, /* a rank with more operations than this is not listed for a guess */
    SMALL_WORK = 1 << 17,  /* always priced exactly; also when enough ranks have been listed */
    SAMPLES = 8,
    SEARCH_COST = 8, /* times the work when K is searched */
};

static uint64_t mul_sat(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool tt_way_searches(const struct tt_pricing *p, const struct tt_algo *al)
{
    return al->pipelined && tt_option_number(al, &p->args.options, "segments", 0) == 0;
}

/* Operations, spans and hops of the one rank that s holds. */
static tutti_status count_slice(const struct tt_topo *t, const struct tt_sched *s, uint64_t *ret, struct tutti_error *err)
{
    struct tt_slice sl = tt_sched_slice(s, s->first_rank);
    uint32_t cap = tt_topo_max_route(t), hops;
    uint32_t *links = tt_alloc((size_t)cap + 1, sizeof(*links));
    uint64_t work = sl.nops + sl.nspans;
    tutti_status st = links ? TUTTI_OK : tt_fail_memory(err, "route");

    for (size_t i = 0; st == TUTTI_OK && i < sl.nops; i++) {
        if (sl.ops[i].kind != TT_OP_SEND)
            continue;
        st = tt_topo_route(t, s->first_rank, sl.ops[i].peer, links, cap, &hops, err);
        if (st == TUTTI_OK)
            work += hops;
    }
    free(links);
    if (st == TUTTI_OK)
        *ret = work;
    return st;
}

static tutti_status count_rank(const struct tt_pricing *p, const struct tt_algo *al, uint32_t rank, uint64_t *ret, struct tutti_error *err)
{
    struct tt_sched *s;
    tutti_status st = tt_algo_slice(al, &p->args, rank, 1, &s, err);

    if (st != TUTTI_OK)
        return st;
    st = count_slice(p->args.topo, s, ret, err);
    tt_sched_free(s);
    return st;
}

/* Ranks far from each other, the first of them 0. */
static uint32_t sample_rank(unsigned i, uint32_t ranks)
{
    return ranks <= SAMPLES ? i : (uint32_t)((uint64_t)i * UINT64_C(0x9e3779b1) % ranks);
}

/* The mean over sampled ranks, times all ranks. */
static tutti_status count_whole(const struct tt_pricing *p, const struct tt_algo *al, unsigned samples, uint64_t *ret,
                                struct tutti_error *err)
{
    const uint32_t ranks = p->args.problem.ranks;
    uint64_t sum = 0, one;
    unsigned n = 0;

    while (n < samples && n < ranks && sum < SMALL_WORK) {
        tutti_status st = count_rank(p, al, sample_rank(n, ranks), &one, err);
        if (st != TUTTI_OK)
            return st;
        sum += one;
        n++;
    }
    *ret = mul_sat(sum, ranks) / n;
    return TUTTI_OK;
}

/* Work of all ranks. An algorithm's own estimate counts when it is larger: listing a rank can take longer than its list.
 * Synthesised schedules cannot be listed in parts: each chunk comes and goes at every rank once on the way in and once out. */
static tutti_status count(const struct tt_pricing *p, const struct tt_algo *al, const struct tt_shape *shape, uint64_t *ret,
                          struct tutti_error *err)
{
    const uint64_t guess = al->estimate_ops ? al->estimate_ops(&p->args) : al->slice ? 0 : mul_sat(shape->chunks, 4);
    uint64_t whole = mul_sat(guess, shape->ranks), counted;
    tutti_status st;

    if (al->slice && guess <= MAX_COUNTED) {
        st = count_whole(p, al, shape->symmetric ? 1 : SAMPLES, &counted, err);
        if (st != TUTTI_OK)
            return st;
        whole = counted > whole ? counted : whole;
    }
    *ret = mul_sat(whole, tt_way_searches(p, al) ? SEARCH_COST : 1);
    return TUTTI_OK;
}

/* Are all chunks of the same size, so that rank 0 is exactly like the others? */
static tutti_status equal_chunks(const struct tt_pricing *p, const struct tt_shape *shape, bool *ret, struct tutti_error *err)
{
    struct tt_bind bind;
    tutti_status st = tt_bind_make(shape, p->args.problem.count, p->args.problem.dtype, &bind, err);

    if (st != TUTTI_OK)
        return st;
    *ret = bind.count % bind.quantum == 0 && bind.units % bind.chunks == 0;
    tt_bind_free(&bind);
    return TUTTI_OK;
}

tutti_status tt_way_choose(const struct tt_pricing *p, const struct tt_algo *al, struct tt_way *ret, struct tutti_error *err)
{
    struct tt_shape shape;
    uint64_t whole;
    bool equal = false, possible, by_symmetry;
    tutti_status st = tt_algo_shape(al, &p->args, &shape, err);

    if (st != TUTTI_OK)
        return st;
    possible = al->slice && !tt_way_searches(p, al) && shape.symmetric && !shape.weights && p->args.topo->rotational;
    st = count(p, al, &shape, &whole, err);
    if (st == TUTTI_OK && possible)
        st = equal_chunks(p, &shape, &equal, err);
    tt_shape_free(&shape);
    if (st != TUTTI_OK)
        return st;
    by_symmetry = possible && (equal || whole > SMALL_WORK);
    *ret = (struct tt_way){.by_symmetry = by_symmetry, .work = by_symmetry ? whole / p->args.problem.ranks : whole};
    if (__builtin_add_overflow(ret->work, p->args.topo->nlinks, &ret->work)) /* every link is set up */
        ret->work = UINT64_MAX;
    return TUTTI_OK;
}
