/* halving_doubling.c - Rabenseifner's algorithm: recursive halving, then recursive doubling, on
 * contiguous windows of the vector.
 *
 * Reduce-scatter: a rank starts with the whole vector as its window. At distance m = p/2, .., 2, 1
 * it splits the window, sends the half that contains its partner r^m and adds the other half from
 * the partner; at the end the window is chunk r. All-gather: the same partners backwards, windows
 * grow. Chunk r always ends at rank r.
 *
 *     p = 4       rank 0      rank 1      rank 2      rank 3      (what is sent, -> to whom)
 *       step 0    2,3 -> 2    2,3 -> 3    0,1 -> 0    0,1 -> 1
 *       step 1    1   -> 1    0   -> 0    3   -> 3    2   -> 2    now chunk r is complete at rank r
 *       step 2    0   -> 1    1   -> 0    2   -> 3    3   -> 2
 *       step 3    0,1 -> 2    0,1 -> 3    2,3 -> 0    2,3 -> 1
 *
 * Other counts (fold.h): rank 2i gives its vector to 2i+1 first and gets the result
 * (reduce-scatter: its chunk) last. p = 5:
 *       0 gives all to 1; ranks 1, 2, 3, 4 do the above with windows of chunks {0,1}, 2, 3, 4;
 *       1 gives the result to 0.
 *
 * Cost: 2 log2 p steps, 2(p-1)/p of the vector sent per rank, (p-1)/p reduced; the largest messages
 * go farthest. Otherwise 2 floor(log2 p) + 2 steps; ranks 2i send one vector, ranks 2i+1 nearly
 * three. Every rank waits for its partner of the step. Invariant (v, m in core ranks): before the
 * exchange at distance m of the reduce-scatter rank v holds, for its window of 2m core ranks around
 * v, the sums over the core ranks equal to v modulo 2m; in the all-gather its window of m core
 * ranks is complete. */
#include "algo/algos.h"
#include "algo/fold.h"
#include "algo/phases.h"

static tutti_status halving_shape(const struct tt_algo_args *a, struct tt_shape *s,
                                  struct tutti_error *err)
{
    (void)err;
    s->chunks = a->problem.ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    return TUTTI_OK;
}

/* The m core ranks around v (aligned to m), as chunks. */
static struct tt_span window(const struct tt_fold *f, uint32_t v, uint32_t m, uint32_t buf,
                             uint32_t src)
{
    uint32_t lo = v & ~(m - 1), first = tt_algo_fold_chunk(f, lo);
    return tt_sched_span_from(buf, src, first, tt_algo_fold_chunk(f, lo + m) - first);
}

/* What every step of a rank's list needs. */
struct halving {
    struct tt_fold f;
    uint32_t chunks;
    bool scatters, gathers; /* phases of the collective */
    uint32_t work;          /* where partial sums live */
};

/* Recursive halving from `step`; the contributions are in `src` before the first exchange. Returns
 * the next step. A reduce-scatter puts its own chunk, the last of its window, in OUT; the other
 * chunk of a doubled rank stays in scratch until it is handed over. */
static uint32_t halve(const struct halving *h, struct tt_builder *b, uint32_t step, uint32_t src)
{
    const struct tt_fold *f = &h->f;
    for (uint32_t m = f->core / 2; m > 0; m /= 2, step++) {
        uint32_t peer = tt_algo_fold_rank(f, f->me ^ m);
        struct tt_span give = window(f, f->me ^ m, m, src, src),
                       keep[2] = {window(f, f->me, m, h->work, src)};
        keep[1] = tt_sched_span_from(TT_BUF_OUT, src, keep[0].first + keep[0].len - 1, 0);
        if (m == 1) {
            keep[0].len--;
            keep[1].len = 1;
        }
        tt_sched_emit_send(b, step, peer, 0, &give, 1);
        tt_sched_emit_recv_reduce(b, step, peer, 0, keep, 2);
        src = h->work;
    }
    return step;
}

/* Recursive doubling from `step`; the first message reads the own window from `src`. Returns the
 * next step. */
static uint32_t double_up(const struct halving *h, struct tt_builder *b, uint32_t step,
                          uint32_t src)
{
    const struct tt_fold *f = &h->f;
    for (uint32_t m = 1; m < f->core; m *= 2, step++) {
        uint32_t peer = tt_algo_fold_rank(f, f->me ^ m);
        struct tt_span give = window(f, f->me, m, src, src),
                       take = window(f, f->me ^ m, m, TT_BUF_OUT, TT_BUF_OUT);
        tt_sched_emit_send(b, step, peer, 0, &give, 1);
        tt_sched_emit_recv(b, step, peer, 0, &take, 1);
        /* An all-gather without a fold begins here: its own chunk joins the others. */
        struct tt_span own = tt_sched_span_from(TT_BUF_OUT, src, give.first, give.len);
        if (src != TT_BUF_OUT)
            tt_sched_emit_copy(b, step, &own, 1);
        src = TT_BUF_OUT;
    }
    return step;
}

/* The chunks that an idle rank gets from its partner at the end: its own (reduce-scatter), those of
 * the others (all-gather), all (allreduce). */
static size_t returned(const struct halving *h, uint32_t idle_rank, uint32_t buf,
                       struct tt_span ret[2])
{
    if (h->scatters && !h->gathers) {
        ret[0] = tt_sched_span_range(buf, idle_rank, 1);
        return 1;
    }
    if (h->scatters) {
        ret[0] = tt_sched_span_range(buf, 0, h->chunks);
        return 1;
    }
    ret[0] = tt_sched_span_range(buf, 0, idle_rank);
    ret[1] = tt_sched_span_range(buf, idle_rank + 1, h->chunks - idle_rank - 1);
    return 2;
}

static void idle_slice(const struct halving *h, uint32_t rank, struct tt_builder *b)
{
    struct tt_span all = tt_sched_span_range(TT_BUF_IN, 0, h->chunks),
                   own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, rank, 1);
    struct tt_span mine = tt_sched_span_range(TT_BUF_IN, rank, 1), back[2];
    uint32_t phases = h->scatters && h->gathers ? 2 : 1;
    tt_sched_emit_send(b, 0, rank + 1, 0, h->scatters ? &all : &mine, 1);
    if (!h->scatters)
        tt_sched_emit_copy(b, 0, &own, 1);
    size_t n = returned(h, rank, TT_BUF_OUT, back);
    tt_sched_emit_recv(b, 1 + phases * tt_ceil_log2(h->f.core), rank + 1, 0, back, n);
}

/* Step 0 of a count that is not a power of two, for ranks that stay active. Afterwards a doubled
 * rank has its contributions in `work`; in an all-gather every rank has its window in OUT. Returns
 * the buffer with the data. */
static uint32_t fold_in(const struct halving *h, uint32_t rank, struct tt_builder *b)
{
    struct tt_span sum = tt_sched_span_from(h->work, TT_BUF_IN, 0, h->chunks),
                   own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, rank, 1);
    struct tt_span partners = tt_sched_span_range(TT_BUF_OUT, rank - 1, 1);
    if (h->f.doubled && h->scatters)
        tt_sched_emit_recv_reduce(b, 0, rank - 1, 0, &sum, 1);
    if (h->f.doubled && !h->scatters)
        tt_sched_emit_recv(b, 0, rank - 1, 0, &partners, 1);
    if (!h->scatters)
        tt_sched_emit_copy(b, 0, &own, 1);
    return !h->scatters ? TT_BUF_OUT : h->f.doubled ? h->work : TT_BUF_IN;
}

static void halving_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    struct halving h = {.f = tt_algo_fold_make(a->problem.ranks, rank), .chunks = a->problem.ranks};
    h.scatters = tt_sched_coll_reduces(a->problem.coll);
    h.gathers = tt_algo_coll_gathers(a->problem.coll);
    h.work = h.gathers ? TT_BUF_OUT : TT_BUF_SCRATCH;
    if (a->problem.ranks == 1) {
        tt_algo_emit_alone(b);
        return;
    }
    if (h.f.idle) {
        idle_slice(&h, rank, b);
        return;
    }
    uint32_t step = h.f.extra ? 1 : 0, src = h.f.extra ? fold_in(&h, rank, b) : TT_BUF_IN;
    if (h.scatters)
        step = halve(&h, b, step, src);
    if (h.gathers)
        step = double_up(&h, b, step, h.scatters ? TT_BUF_OUT : src);
    struct tt_span back[2];
    if (h.f.doubled) {
        size_t n = returned(&h, rank - 1, h.work, back);
        tt_sched_emit_send(b, step, rank - 1, 0, back, n);
    }
}

const struct tt_algo tt_algo_halving_doubling = {
    .name = "halving-doubling",
    .desc = "recursive halving then doubling (Rabenseifner): fewest bytes in 2 log2 p steps",
    .needs =
        "any number of ranks (two more steps and half as many bytes again when not a power of two)",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .shape = halving_shape,
    .slice = halving_slice,
};
