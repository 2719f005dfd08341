/* cost.c - the entry points: check that schedule and topology fit, collect the loads, compute
 * the time of K segments.
 *
 *     schedule -> loads of each step (full.c: all ranks; symmetric.c: rank 0) -> time, 1 segment
 *                    '-> kept as a profile -> time of K segments (wave.c), any number of times
 *
 * One segment is priced while the loads are collected. For more segments, and to search the best
 * K, the loads of every step are kept and the waves run over them, so a search never walks the
 * schedule again. */
#include "cost/cost.h"

#include <assert.h>

#include "cost/load.h"

uint64_t tt_cost_reduced(const struct tt_op *op, uint64_t bytes)
{
    /* the spans of a REDUCE are the destination and the operands: n operands are n - 1 sums */
    uint64_t sums = op->kind == TT_OP_RECV_REDUCE ? 1 : op->nspans > 2 ? op->nspans - 2 : 0;
    uint64_t all;
    return __builtin_mul_overflow(bytes, sums, &all) ? UINT64_MAX : all;
}

static bool cost_whole(const struct tt_sched *s)
{
    return s->first_rank == 0 && s->nslices == s->shape.ranks;
}

/* The schedule may hold all ranks or begin with rank 0's slice. */
static tutti_status check_fit(const struct tt_sched *s, const struct tt_topo *t,
                              struct tutti_error *err)
{
    if (s->shape.ranks != t->ranks)
        return tt_fail(err, TUTTI_ERR_MISMATCH, "the schedule is for %u ranks, the topology has %u",
                       s->shape.ranks, t->ranks);
    if (s->first_rank != 0 || s->nslices == 0)
        return tt_fail(err, TUTTI_ERR_MISMATCH, "the schedule does not hold rank 0");
    return TUTTI_OK;
}

/* Symmetry must hold on both sides: the schedule's shifts must map the network onto itself. */
static tutti_status check_symmetric(const struct tt_sched *s, const struct tt_topo *t,
                                    struct tutti_error *err)
{
    bool grid = s->shape.grid && t->toroidal && !t->rotational;
    if (!(s->shape.symmetric || grid) || s->shape.weights || s->shape.chunks % s->shape.ranks != 0)
        return tt_fail(err, TUTTI_ERR_MISMATCH, "the schedule is not symmetric with equal chunks");
    if (!t->rotational && !grid)
        return tt_fail(err, TUTTI_ERR_MISMATCH, "%s looks different from different ranks",
                       t->spec ? t->spec : t->kind);
    if (s->nroutes > 0 && s->shape.topo_hash == t->hash)
        return tt_fail(err, TUTTI_ERR_MISMATCH, "the schedule chooses its own routes");
    return TUTTI_OK;
}

/* Collects the loads, by symmetry or from all ranks. On success the caller closes l. */
static tutti_status cost_load(const struct tt_sched *s, const struct tt_topo *t,
                              const struct tt_bind *b, bool symmetric, bool keep, struct tt_load *l,
                              struct tutti_error *err)
{
    tutti_status st = symmetric ? tt_cost_load_symmetric(s, t, b, keep, l, err)
                                : tt_cost_load_full(s, t, b, keep, l, err);
    if (st)
        return st;
    l->cost.steps = s->steps;
    st = tt_cost_load_status(l, err);
    if (st)
        tt_cost_load_close(l);
    return st;
}

/* On a shared-memory topology one segment is priced: its times were measured with the segments
 * used. */
static tutti_status cost_price(const struct tt_sched *s, const struct tt_topo *t,
                               const struct tt_bind *b, bool symmetric, struct tt_cost *ret,
                               struct tutti_error *err)
{
    struct tt_load l;
    uint32_t segments = s->shape.segments > 0 && !t->memory.npoints ? s->shape.segments : 1;
    tutti_status st = cost_load(s, t, b, symmetric, segments > 1, &l, err);
    if (st)
        return st;
    if (segments > 1)
        st = tt_cost_waves_run(&l, segments, ret, err);
    else
        *ret = l.cost;
    if (t->memory.npoints)
        tt_cost_in_memory(s, t, b, ret);
    tt_cost_load_close(&l);
    return st;
}

tutti_status tt_cost_sched(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                           tutti_dtype dtype, struct tt_cost *ret, struct tutti_error *err)
{
    struct tt_bind b;
    tutti_status st = check_fit(s, t, err);
    if (!st && !cost_whole(s))
        st = tt_fail(err, TUTTI_ERR_MISMATCH, "the schedule holds %u of %u ranks", s->nslices,
                     s->shape.ranks);
    if (!st)
        st = tt_sched_bind_make(&s->shape, count, dtype, &b, err);
    if (st)
        return st;
    st = cost_price(s, t, &b, false, ret, err);
    tt_sched_bind_free(&b);
    return st;
}

tutti_status tt_cost_symmetric(const struct tt_sched *rank0, const struct tt_topo *t,
                               uint64_t count, tutti_dtype dtype, struct tt_cost *ret,
                               struct tutti_error *err)
{
    struct tt_bind b;
    tutti_status st = check_fit(rank0, t, err);
    if (!st)
        st = check_symmetric(rank0, t, err);
    if (!st)
        st = tt_sched_bind_make(&rank0->shape, count, dtype, &b, err);
    if (st)
        return st;
    st = cost_price(rank0, t, &b, true, ret, err);
    tt_sched_bind_free(&b);
    return st;
}

enum {
    LEAST_BYTES = 64, /* of a segment of the largest chunk: what chunks are aligned to */
    MOST = 4096,      /* no more segments are ever chosen */
    FEWER = 1000,     /* fewer segments may take 1/FEWER longer */
};

/* The most elements of one chunk: more segments than that would be empty. */
static uint64_t largest_chunk(const struct tt_bind *b)
{
    uint64_t most = 0;
    if (!b->prefix)
        return tt_sched_bind_window_max(b, 1);
    for (uint32_t c = 0; c < b->chunks; c++) {
        uint64_t n = tt_sched_bind_offset(b, c + 1) - tt_sched_bind_offset(b, c);
        most = n > most ? n : most;
    }
    return most;
}

static uint64_t most_segments(const struct tt_bind *b, tutti_dtype dtype)
{
    uint64_t least = LEAST_BYTES / tt_sched_dtype_bytes(dtype), most = largest_chunk(b) / least;
    return most < 1 ? 1 : most < MOST ? most : MOST;
}

tutti_status tt_cost_most_segments(const struct tt_sched *s, uint64_t count, tutti_dtype dtype,
                                   uint32_t *ret, struct tutti_error *err)
{
    struct tt_bind b;
    tutti_status st = tt_sched_bind_make(&s->shape, count, dtype, &b, err);
    if (st)
        return st;
    *ret = (uint32_t)most_segments(&b, dtype);
    tt_sched_bind_free(&b);
    return TUTTI_OK;
}

/* A search for the best number of segments, k; `best` is its cost. */
struct search {
    const struct tt_load *l;
    struct tt_cost best;
    uint64_t k, max;
    struct tt_cost power[13]; /* of 1, 2, 4, ... segments, as far as they were priced */
};

/* Prices k segments and keeps the better; of equal times the smaller k. Values out of range are
 * skipped. */
static tutti_status try_segments(struct search *x, uint64_t k, struct tt_cost *ret,
                                 struct tutti_error *err)
{
    assert(x->k >= 1 && x->max <= MOST);
    if (k < 2 || k > x->max)
        return TUTTI_OK;
    tutti_status st = tt_cost_waves_run(x->l, (uint32_t)k, ret, err);
    if (st)
        return st;
    if (ret->time_ps < x->best.time_ps || (ret->time_ps == x->best.time_ps && k < x->k)) {
        x->best = *ret;
        x->k = k;
    }
    return TUTTI_OK;
}

/* The smallest power of two that is nearly as good as the best number. */
static void take_fewer(struct search *x)
{
    uint64_t enough = x->best.time_ps + x->best.time_ps / FEWER;
    for (unsigned i = 0; UINT64_C(1) << i < x->k; i++)
        if (x->power[i].time_ps <= enough) {
            x->best = x->power[i];
            x->k = UINT64_C(1) << i;
            return;
        }
}

/* Powers of two first, then 3/4 and 3/2 of the best one. */
static tutti_status cost_search(const struct tt_load *l, uint64_t max, uint32_t *ret_k,
                                struct tt_cost *ret, struct tutti_error *err)
{
    struct search x = {.l = l, .best = l->cost, .k = 1, .max = max, .power[0] = l->cost};
    struct tt_cost unused;
    tutti_status st = TUTTI_OK;
    assert(max <= MOST);
    for (unsigned i = 1; UINT64_C(1) << i <= max && !st; i++)
        st = try_segments(&x, UINT64_C(1) << i, &x.power[i], err);
    uint64_t power = x.k;
    if (!st)
        st = try_segments(&x, power / 4 * 3, &unused, err);
    if (!st)
        st = try_segments(&x, power / 2 * 3, &unused, err);
    if (st)
        return st;
    take_fewer(&x);
    *ret = x.best;
    *ret_k = (uint32_t)x.k;
    return TUTTI_OK;
}

uint64_t tt_cost_segments_floor(const struct tt_cost *one, const struct tt_topo *t)
{
    const struct tt_link *link = &t->links[one->busiest_link / 2];
    if (t->memory.npoints)
        return one->time_ps;
    if (!one->exact)
        return 0;
    return one->latency_ps + one->overhead_ps +
           (one->busiest_bytes
                ? tt_cost_transfer_floor(one->busiest_bytes,
                                         link->bw[link->half ? 0 : one->busiest_link & 1])
                : 0);
}

tutti_status tt_cost_best_segments(const struct tt_sched *s, const struct tt_topo *t,
                                   uint64_t count, tutti_dtype dtype, uint32_t max, uint32_t *ret_k,
                                   struct tt_cost *ret, struct tutti_error *err)
{
    struct tt_bind b;
    struct tt_load l;
    bool symmetric = !cost_whole(s);
    tutti_status st = check_fit(s, t, err);
    if (!st && symmetric)
        st = check_symmetric(s, t, err);
    if (!st)
        st = tt_sched_bind_make(&s->shape, count, dtype, &b, err);
    if (st)
        return st;
    assert(max > 0);
    uint64_t most = most_segments(&b, dtype);
    most = most < max ? most : max;
    st = cost_load(s, t, &b, symmetric, most > 1 && !t->memory.npoints, &l, err);
    if (!st && t->memory.npoints) {
        *ret = l.cost;
        tt_cost_in_memory(s, t, &b, ret);
        *ret_k = tt_cost_memory_segments(s, t, &b, largest_chunk(&b));
        tt_cost_load_close(&l);
    } else if (!st) {
        st = cost_search(&l, most, ret_k, ret, err);
        tt_cost_load_close(&l);
    }
    tt_sched_bind_free(&b);
    return st;
}
