/* work.c - how a candidate is priced, and how much work that is.
 *
 * Work is counted, never timed: ranks that plan separately must skip the same candidates
 * whatever their speed. A unit is one operation, one span or one hop of a message. Sampled ranks
 * stand for the others; pipelined algorithms pay for the search of K at once.
 *
 *     sampled ranks -> operations + spans + hops of each -> mean * ranks = whole
 *     short way: whole / ranks * SYMMETRY_COST;  both ways: + links of the topology
 *
 * The short way (rank 0 stands for all) is taken wherever it exists. */
#include "plan/plan_int.h"

#include <assert.h>
#include <stdlib.h>

enum {
    /* a rank estimated to have more operations is not listed for an estimate */
    MAX_COUNTED = 1 << 20,
    ENOUGH = 1 << 17, /* no further ranks are listed after this much work */
    SAMPLES = 8,
    ROUTED = 1024,     /* about this many messages of a rank are routed for an estimate, */
    HOPS = 1 << 22,    /* but no more than make this many hops */
    SYMMETRY_COST = 2, /* times rank 0's work: finding the largest of unequal copies */
};

static uint64_t mul_sat(uint64_t a, uint64_t b)
{
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

bool tt_plan_way_searches(const struct tt_pricing *p, const struct tt_algo *al)
{
    if (al->one_segment && al->one_segment(&p->args))
        return false;
    for (size_t i = 0; i < p->args.options.n; i++)
        if (tt_streq(p->args.options.item[i].key, "segments"))
            return false;
    return true;
}

bool tt_plan_way_searches_first(const struct tt_pricing *p, const struct tt_algo *al)
{
    return al->pipelined && tt_plan_way_searches(p, al);
}

static size_t count_sends(const struct tt_slice *sl)
{
    size_t n = 0;
    for (size_t i = 0; i < sl->nops; i++)
        n += sl->ops[i].kind == TT_OP_SEND;
    return n;
}

/* Counts operations, spans and hops of the one rank in s. Only every `every`th message is
 * routed; the mean of these stands for all. */
static tutti_status count_slice(const struct tt_topo *t, const struct tt_sched *s, uint64_t *ret,
                                struct tutti_error *err)
{
    struct tt_slice sl = tt_sched_slice(s, s->first_rank);
    uint32_t cap = tt_topo_max_route(t), hops;
    uint32_t *links = tt_alloc((size_t)cap + 1, sizeof *links);
    uint64_t sum = 0;
    size_t most = cap < HOPS / ROUTED ? ROUTED : HOPS / cap + 1;
    size_t sends = count_sends(&sl), every = sends / most + 1, seen = 0, routed = 0;
    tutti_status st = links ? TUTTI_OK : tt_fail_memory(err, "route");

    for (size_t i = 0; !st && i < sl.nops; i++) {
        if (sl.ops[i].kind != TT_OP_SEND || seen++ % every != 0)
            continue;
        st = tt_topo_route(t, s->first_rank, sl.ops[i].peer, links, cap, &hops, err);
        assert(st || hops <= cap);
        sum += st ? 0 : hops;
        routed++;
    }
    free(links);
    if (!st)
        *ret = sl.nops + sl.nspans + (routed ? mul_sat(sum, sends) / routed : 0);
    return st;
}

static tutti_status count_rank(const struct tt_pricing *p, const struct tt_algo *al, uint32_t rank,
                               uint64_t *ret, struct tutti_error *err)
{
    struct tt_sched *s;
    tutti_status st = tt_algo_slice(al, &p->args, rank, 1, &s, err);

    if (st)
        return st;
    st = count_slice(p->args.topo, s, ret, err);
    tt_sched_free(s);
    return st;
}

/* Ranks spread over the whole range; the first one is 0. Multiplying by a large odd constant
 * scatters them. */
static uint32_t sample_rank(unsigned i, uint32_t ranks)
{
    return ranks <= SAMPLES ? i : (uint32_t)((uint64_t)i * UINT64_C(0x9e3779b1) % ranks);
}

/* The mean over sampled ranks, times all ranks. Symmetric schedules need one sample. */
static tutti_status count_whole(const struct tt_pricing *p, const struct tt_algo *al,
                                unsigned samples, uint64_t *ret, struct tutti_error *err)
{
    const uint32_t ranks = p->args.problem.ranks;
    uint64_t sum = 0, one;
    unsigned n = 0;

    assert(samples > 0 && ranks > 0);
    while (n < samples && n < ranks && sum < ENOUGH) {
        tutti_status st = count_rank(p, al, sample_rank(n, ranks), &one, err);
        if (st)
            return st;
        sum += one;
        n++;
    }
    *ret = mul_sat(sum, ranks) / n;
    return TUTTI_OK;
}

/* Work of all ranks. The algorithm's own estimate counts if it is larger, because listing a rank
 * can take longer than its list is. A synthesised schedule cannot be listed in parts; its
 * estimate is 4 operations per chunk and rank: a receive and a send on the way in, and again on
 * the way out. */
static tutti_status work_count(const struct tt_pricing *p, const struct tt_algo *al,
                               const struct tt_shape *shape, uint64_t *ret, struct tutti_error *err)
{
    const uint64_t guess = al->estimate_ops ? al->estimate_ops(&p->args)
                           : al->slice      ? 0
                                            : mul_sat(shape->chunks, 4);
    uint64_t whole = mul_sat(guess, shape->ranks), counted;
    tutti_status st;

    if (al->slice && guess <= MAX_COUNTED) {
        st = count_whole(p, al, shape->symmetric || shape->grid ? 1 : SAMPLES, &counted, err);
        if (st)
            return st;
        whole = counted > whole ? counted : whole;
    }
    *ret = mul_sat(whole, tt_plan_way_searches_first(p, al) ? TT_SEARCH_COST : 1);
    return TUTTI_OK;
}

static uint64_t add_sat(uint64_t a, uint64_t b)
{
    uint64_t sum;
    return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

tutti_status tt_plan_way_choose(const struct tt_pricing *p, const struct tt_algo *al,
                                struct tt_way *ret, struct tutti_error *err)
{
    const struct tt_problem *pr = &p->args.problem;
    const struct tt_topo *t = p->args.topo;
    struct tt_shape shape;
    struct tt_way way = {0};
    tutti_status st = tt_algo_shape(al, &p->args, &shape, err);

    if (st)
        return st;
    assert(shape.ranks == pr->ranks && shape.chunks > 0);
    bool symmetric =
        (shape.symmetric && t->rotational) || (shape.grid && t->toroidal && !t->rotational);
    way.by_symmetry =
        al->slice && !tt_plan_way_searches_first(p, al) && symmetric && !shape.weights;
    way.splits =
        shape.weights
            ? pr->count > 1
            : mul_sat(pr->count, shape.coll == TUTTI_ALL_TO_ALL ? shape.ranks : 1) > shape.chunks;
    st = work_count(p, al, &shape, &way.whole, err);
    tt_sched_shape_free(&shape);
    if (st)
        return st;
    way.work = way.by_symmetry ? mul_sat(way.whole / pr->ranks, SYMMETRY_COST) : way.whole;
    way.work = add_sat(way.work, t->nlinks); /* pricing sets up every link */
    way.whole = add_sat(way.whole, t->nlinks);
    *ret = way;
    return TUTTI_OK;
}
