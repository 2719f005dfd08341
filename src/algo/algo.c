/* algo.c - the drivers around an algorithm: may it run, its shape, all ranks, some ranks.
 *
 * Everything that algorithms share happens here once: is the collective offered, is the root a
 * rank, are the options known, does the topology fit; the fields of the shape that come from the
 * problem; the loop over ranks; the sticky error.
 *
 *     probe -> shape -> builder -> slice of each rank, or build of all -> freeze
 *
 * An algorithm is probed before every use, so that its own functions see only problems that it has
 * accepted. */
#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/algo.h"

/* Names what is offered instead. */
static tutti_status not_offered(const struct tt_algo *al, tutti_coll coll, struct tutti_error *why)
{
    char offered[160] = "";
    size_t used = 0;
    for (unsigned c = 0; c < TUTTI_COLL_COUNT; c++)
        if (al->colls >> c & 1u && used < sizeof offered)
            used += (size_t)snprintf(offered + used, sizeof offered - used, "%s%s",
                                     used ? ", " : "", tt_sched_coll_name((tutti_coll)c));
    return tt_fail(why, TUTTI_ERR_REFUSED, "%s does not offer %s (it offers %s)", al->name,
                   tt_sched_coll_name(coll), offered);
}

/* What no algorithm can do; independent of the algorithm. */
static tutti_status check_problem(const struct tt_problem *p, struct tutti_error *why)
{
    if ((unsigned)p->coll >= TUTTI_COLL_COUNT || (unsigned)p->dtype >= TUTTI_DTYPE_COUNT ||
        (unsigned)p->redop > TT_REDOP_USER)
        return tt_fail(why, TUTTI_ERR_ARG, "unknown collective, data type or reduction");
    if (p->ranks == 0)
        return tt_fail(why, TUTTI_ERR_RANGE, "0 ranks: at least one is needed");
    if (p->ranks > TT_MAX_RANKS)
        return tt_fail(why, TUTTI_ERR_LIMIT, "%" PRIu32 " ranks: at most %d are accepted", p->ranks,
                       (int)TT_MAX_RANKS);
    if (tt_sched_coll_is_rooted(p->coll) && p->root >= p->ranks)
        return tt_fail(why, TUTTI_ERR_RANGE, "root %" PRIu32 " is not a rank: there are %" PRIu32,
                       p->root, p->ranks);
    return TUTTI_OK;
}

bool tt_algo_problem_ordered(const struct tt_problem *p)
{
    bool average = p->redop == TUTTI_AVG && tt_dtype_is_integer(p->dtype);
    return tt_sched_coll_sums(p->coll) && p->ranks > 1 && (p->ordered || average);
}

/* "direct, oneshot": the algorithms that sum an element in one place, in rank order. */
static void name_ordered(tutti_coll coll, char *buf, size_t cap)
{
    size_t n, used = 0;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (size_t i = 0; i < n && used < cap; i++)
        if (table[i]->rank_order && table[i]->colls >> coll & 1u)
            used +=
                (size_t)snprintf(buf + used, cap - used, "%s%s", used ? ", " : "", table[i]->name);
}

/* Refuses algorithms that would combine contributions in another order than the problem needs. */
static tutti_status check_order(const struct tt_algo *al, const struct tt_problem *p,
                                struct tutti_error *why)
{
    if (al->rank_order || !tt_algo_problem_ordered(p))
        return TUTTI_OK;
    char others[80] = "";
    name_ordered(p->coll, others, sizeof others);
    if (p->ordered)
        return tt_fail(
            why, TUTTI_ERR_REFUSED,
            "%s does not reduce in rank order, and the reduction does not commute (possible: %s)",
            al->name, others);
    return tt_fail(why, TUTTI_ERR_REFUSED,
                   "%s forms sums on the way, and those of %s would wrap before the average is "
                   "taken (possible: %s)",
                   al->name, tt_sched_dtype_name(p->dtype), others);
}

/* A topology that is given must fit even where the algorithm does not use it. */
static tutti_status check_topo(const struct tt_algo *al, const struct tt_algo_args *a,
                               struct tutti_error *why)
{
    if (!a->topo && al->needs_topo)
        return tt_fail(why, TUTTI_ERR_REFUSED, "%s needs a topology (%s)", al->name, al->needs);
    if (a->topo && a->topo->ranks != a->problem.ranks)
        return tt_fail(why, TUTTI_ERR_MISMATCH,
                       "the topology has %" PRIu32 " ranks, the problem %" PRIu32, a->topo->ranks,
                       a->problem.ranks);
    return TUTTI_OK;
}

/* In this order: the algorithm's own probe sees only valid options and a fitting topology. */
tutti_status tt_algo_probe(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tutti_error *why)
{
    tutti_status st = check_problem(&a->problem, why);
    if (!st && !(al->colls >> a->problem.coll & 1u))
        st = not_offered(al, a->problem.coll, why);
    if (!st)
        st = check_order(al, &a->problem, why);
    if (!st)
        st = tt_algo_options_check(al, &a->options, why);
    if (!st)
        st = check_topo(al, a, why);
    if (!st && al->probe)
        st = al->probe(a, why);
    return st;
}

/* topo_hash is set only where the topology influences the schedule: others fit any network. */
tutti_status tt_algo_shape(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_shape *ret, struct tutti_error *err)
{
    tutti_status st = tt_algo_probe(al, a, err);
    if (st)
        return st;
    struct tt_shape s = {
        .coll = a->problem.coll,
        .ranks = a->problem.ranks,
        .root = tt_sched_coll_is_rooted(a->problem.coll) ? a->problem.root : 0,
        .nbufs = TT_BUF_SCRATCH,
        .segments = (uint32_t)tt_algo_option_number(al, &a->options, "segments", 1),
        .inplace = true,
        .count = a->problem.coll == TUTTI_BARRIER ? 0 : a->problem.count,
        .dtype = a->problem.dtype,
        .redop = a->problem.redop,
        .topo_hash = a->topo && (al->needs_topo || al->uses_topo || al->build) ? a->topo->hash : 0,
    };
    snprintf(s.algo, sizeof s.algo, "%s", al->name);
    if (s.topo_hash && a->topo->spec && strlen(a->topo->spec) < sizeof s.network &&
        !tt_streq(a->topo->kind, "custom"))
        snprintf(s.network, sizeof s.network, "%s", a->topo->spec);
    tt_algo_options_format(&a->options, s.options, sizeof s.options);
    st = al->shape(a, &s, err);
    if (st) {
        tt_sched_shape_free(&s);
        return st;
    }
    assert(s.chunks > 0 && s.nbufs >= TT_BUF_SCRATCH);
    *ret = s;
    return TUTTI_OK;
}

/* The other n ranks of a symmetric schedule have about as many operations as the one listed: what
 * cannot fit is refused before it fills the memory. */
static void reserve_alike(struct tt_builder *b, uint32_t n)
{
    uint64_t ops = (uint64_t)b->ops.len * n, spans = (uint64_t)b->spans.len * n, bytes;
    char need[32], limit[32];
    if (__builtin_mul_overflow((uint64_t)b->ops.len * b->ops.elem +
                                   (uint64_t)b->spans.len * b->spans.elem,
                               (uint64_t)n, &bytes))
        bytes = UINT64_MAX;
    if (!b->status && bytes > b->max_bytes)
        b->status = tt_fail(
            &b->err, TUTTI_ERR_LIMIT,
            "all %" PRIu32
            " ranks with %zu operations each would need %s of memory; a schedule may have %s",
            b->shape.ranks, b->ops.len, tt_format_size(bytes, need, sizeof need),
            tt_format_size(b->max_bytes, limit, sizeof limit));
    tt_sched_build_reserve(b, ops, spans);
}

/* The list of rank i depends on nothing but the arguments, so any range can be listed. */
static void list_ranks(const struct tt_algo *al, const struct tt_algo_args *a, uint32_t n,
                       struct tt_builder *b)
{
    uint32_t first = b->first_rank;
    /* Invariant: the builder holds complete lists of ranks first .. first+i-1, unless it has
     * failed. */
    for (uint32_t i = 0; i < n && !b->status; i++) {
        tt_sched_build_rank(b, first + i);
        al->slice(a, first + i, b);
        if (i == 0 && b->shape.symmetric)
            reserve_alike(b, n - 1);
    }
}

tutti_status tt_algo_slice(const struct tt_algo *al, const struct tt_algo_args *a, uint32_t first,
                           uint32_t n, struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_synthesis empty = {0}; /* no memo has a name, so build stores nothing in it */
    struct tt_shape shape;
    struct tt_builder b;
    tutti_status st = tt_algo_shape(al, a, &shape, err);
    if (st)
        return st;
    if (n == 0 || first >= shape.ranks || n > shape.ranks - first) {
        st = tt_fail(err, TUTTI_ERR_RANGE,
                     "%" PRIu32 " ranks from rank %" PRIu32 ": there are %" PRIu32, n, first,
                     shape.ranks);
        tt_sched_shape_free(&shape);
        return st;
    }
    /* A synthesised algorithm knows no single ranks: it builds all of them. */
    tt_sched_build_begin(&b, &shape, al->slice ? first : 0);
    if (al->slice)
        list_ranks(al, a, n, &b);
    else
        al->build(a, &empty, &b);
    return tt_sched_build_freeze(&b, ret, err);
}

tutti_status tt_algo_build(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_sched **ret, struct tutti_error *err)
{
    return tt_algo_slice(al, a, 0, a->problem.ranks, ret, err);
}

tutti_status tt_algo_synthesise(const struct tt_algo *al, const struct tt_algo_args *a,
                                struct tt_synthesis *y, struct tt_sched **ret,
                                struct tutti_error *err)
{
    struct tt_shape shape;
    struct tt_builder b;
    tutti_status st = tt_algo_shape(al, a, &shape, err);
    assert(al->build);
    if (st)
        return st;
    tt_sched_build_begin(&b, &shape, 0);
    al->build(a, y, &b);
    return tt_sched_build_freeze(&b, ret, err);
}

tutti_status tt_algo_name_memos(const struct tt_algo *al, const struct tt_algo_args *a,
                                struct tt_synthesis *y, struct tutti_error *err)
{
    tutti_status st = al->memos ? tt_algo_probe(al, a, err) : TUTTI_OK;
    if (!st && al->memos)
        al->memos(a, y);
    return st;
}

void tt_algo_synthesis_free(struct tt_synthesis *y)
{
    for (size_t i = 0; i < TT_ALGO_MEMOS; i++) {
        tt_vec_free(&y->memo[i].known);
        tt_vec_free(&y->memo[i].found);
    }
}
