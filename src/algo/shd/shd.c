/* shd.c - shift halving-doubling, for distributed loop networks: every message goes the same cyclic
 * distance, so that on a network with these cables each directed link carries one message per step.
 *
 * Halving-doubling pairs ranks r and r^d; here rank r sends to r+d and receives from r-d, d =
 * ceil(p/2), ceil(p/4), .., 1 in any order (shd.h says why any order is right for any p). Chunk c
 * belongs to rank c; the chunks that leave rank r in a step are r + the offsets whose digit of this
 * distance is set. p = 4 with the order 1, 2 (far-first would be circulant.c):
 *
 *     reduce-scatter   step 0, d = 1   rank r sends r+1, r+3 to r+1      r and r+2 have two each
 *                      step 1, d = 2   rank r sends r+2 to r+2           r is complete
 *     all-gather       step 2, d = 2   rank r sends r to r-2
 *                      step 3, d = 1   rank r sends r-1, r+1 (mod 4) to r-1
 *
 * Invariant before step i of the reduce-scatter: the offsets with the digits of steps 0..i-1 at 0
 * hold partial sums that together have every contribution once; of the all-gather before it undoes
 * step i: offsets with the digits of steps 0..i at 0 are complete. Cost: 2 ceil(log2 p) steps,
 * 2(p-1)/p of the vector sent per rank, (p-1)/p reduced. A rank waits for one other per step. On
 * the full DLN every message is one link long and alone on it: T = 2 L alpha + 2 (1-1/p) n beta +
 * (1-1/p) n gamma.
 *
 * Variants. direction=both: half of the vector by +d, half by -d, in the same steps: both
 * directions of every cable, half the time; the distance p/2 is its own inverse and comes last.
 * copies=C: C parts that begin with different distances, each alone on its cables. A grid of two
 * dimensions: reduce-scatter along one, then along the other (copies begin with either); several
 * ranks per host: inside the host first, then every rank of it is a leader for its share. Parts
 * that have the same peer in a step share one message. */
#include "algo/shd/shd.h"
#include "algo/algos.h"
#include "algo/phases.h"

#include <assert.h>

static uint32_t ahead(uint32_t i, uint32_t d, uint32_t n)
{
    return (uint32_t)(((uint64_t)i + d) % n);
}

/* One rank being listed. */
struct work {
    struct tt_shd h;
    struct tt_builder *b;
    uint32_t rank;
    bool rs, ag;
    uint32_t acc;                      /* where partial sums live */
    uint32_t phase_steps[TT_SHD_DIMS]; /* of the part that takes longest */
    struct tt_vec spans;               /* of the message being made */
    uint32_t peers[2 * TT_SHD_COPIES]; /* per part in this step; UINT32_MAX: it has no message */
    /* where the list is: reduce-scatter steps of the phase are undone backwards by the
     * all-gather */
    uint32_t phase, step_in_phase, step;
};

/* ---- chunks ---- */

/* The blocks of one part in one phase. */
struct blocks {
    struct work *w;
    const struct tt_shd_dim *d;
    uint32_t part, origin; /* the member whose offsets are meant */
    uint32_t base;         /* chunk of block 0 with the digits still to come at 0 */
    struct tt_shd_dim run; /* the digit still to come (size 1: none) */
    uint32_t buf, src;
};

/* count things, step apart */
struct nest {
    uint32_t count, step;
};

static void push_span(struct work *w, const struct tt_span *s)
{
    if (!tt_vec_push(&w->spans, s, 1))
        w->b->status = tt_fail_memory(&w->b->err, "shd");
}

/* Sorts nests by step, joins those that continue each other; returns how many are left. */
static uint32_t shd_tidy(struct nest *v, uint32_t n)
{
    uint32_t k = 0;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = i; j > 0 && v[j].step < v[j - 1].step; j--) {
            struct nest keep = v[j];
            v[j] = v[j - 1];
            v[j - 1] = keep;
        }
    for (uint32_t i = 0; i < n; i++) {
        if (v[i].count == 1)
            continue;
        if (k > 0 && v[k - 1].count * v[k - 1].step == v[i].step)
            v[k - 1].count *= v[i].count;
        else
            v[k++] = v[i];
    }
    return k;
}

/* The chunks first + i*v0.step + j*v1.step + ..: the longest nest is the repetition of a span, a
 * nest of neighbours its length, and the others are listed. */
static void push_nests(struct blocks *k, uint32_t first, struct nest *v, uint32_t n)
{
    struct tt_span s = {.first = first, .len = 1, .reps = 1, .buf = k->buf, .src = k->src};
    uint32_t others[2] = {1, 1}, steps[2] = {0, 0}, nothers = 0, longest = 0, from;
    n = shd_tidy(v, n);
    from = n > 0 && v[0].step == 1;
    if (from)
        s.len = v[0].count;
    for (uint32_t i = from; i < n; i++)
        longest = v[i].count > v[longest].count || i == from ? i : longest;
    for (uint32_t i = from; i < n; i++) {
        if (i == longest) {
            s.stride = v[i].step;
            s.reps = v[i].count;
        } else {
            others[nothers] = v[i].count;
            steps[nothers++] = v[i].step;
        }
    }
    for (uint32_t i = 0; i < others[0]; i++)
        for (uint32_t j = 0; j < others[1]; j++) {
            s.first = first + i * steps[0] + j * steps[1];
            push_span(k->w, &s);
        }
}

/* Members first .. (no wrap) as chunks. */
static void push_members(struct blocks *k, const struct tt_shd_run *m)
{
    uint32_t parts = k->w->h.parts, weight = k->d->weight * parts;
    struct nest v[3] = {
        {m->len, weight}, {m->reps, m->stride * weight}, {k->run.size, k->run.weight * parts}};
    push_nests(k, k->base + m->first * weight, v, 3);
}

/* Offsets of k->origin become members, counted forwards or backwards and around the end of the
 * loop. */
static void push_run(void *ctx, const struct tt_shd_run *run)
{
    struct blocks *k = ctx;
    uint32_t n = k->d->size, extent = run->len + (run->reps - 1) * run->stride;
    bool back = k->part % k->w->h.directions == 1;
    uint32_t at =
        back ? ahead(k->origin, n - (run->first + extent - 1), n) : ahead(k->origin, run->first, n);
    uint32_t left = run->reps;
    while (left > 0) {
        uint32_t fit = n - at >= run->len ? 1 : 0;
        if (fit && run->stride > 0)
            fit += (n - at - run->len) / run->stride;
        fit = fit < left ? fit : left;
        if (fit == 0) { /* this one is cut by the end */
            push_members(k, &(struct tt_shd_run){at, n - at, 0, 1});
            push_members(k, &(struct tt_shd_run){0, run->len - (n - at), 0, 1});
            fit = 1;
        } else {
            push_members(k, &(struct tt_shd_run){at, run->len, fit > 1 ? run->stride : 0, fit});
        }
        left -= fit;
        at = (uint32_t)((at + (uint64_t)fit * run->stride) % n);
    }
}

/* ---- one message ---- */

/* The blocks of a part as the phase sees them: those that agree with this rank in the dimensions
 * done. */
static struct blocks blocks_of(struct work *w, uint32_t part, struct tt_shd_order *ret_order)
{
    struct tt_shd_order unused;
    struct blocks k = {.w = w, .part = part, .base = part, .run = {.size = 1}};
    k.d = tt_shd_phase(&w->h, part, w->phase, ret_order);
    for (uint32_t i = 0; i < w->phase; i++) {
        const struct tt_shd_dim *done = tt_shd_phase(&w->h, part, i, &unused);
        k.base += w->rank / done->weight % done->size * done->weight * w->h.parts;
    }
    if (w->phase + 1 < w->h.ndims)
        k.run = *tt_shd_phase(&w->h, part, w->phase + 1, &unused);
    return k;
}

/* Which step of the reduce-scatter a part does or undoes now; false: none, it waits for parts on a
 * longer loop. */
static bool step_of(const struct work *w, const struct tt_shd_dim *d, bool scatter, uint32_t *ret)
{
    uint32_t t = w->step_in_phase;
    if (t >= d->loop.levels)
        return false;
    *ret = scatter ? t : d->loop.levels - 1 - t;
    return true;
}

/* The members this one sends to and receives from, by the jump of the step. */
struct ends {
    uint32_t me, to, from;
};

static struct ends ends_of(const struct work *w, const struct blocks *k, uint32_t jump,
                           bool scatter)
{
    uint32_t n = k->d->size, me = w->rank / k->d->weight % n;
    bool back = k->part % w->h.directions == 1, up = scatter != back;
    uint32_t high = ahead(me, jump, n), low = ahead(me, n - jump, n);
    return (struct ends){me, up ? high : low, up ? low : high};
}

static uint32_t rank_of(const struct work *w, const struct blocks *k, uint32_t member)
{
    uint32_t me = w->rank / k->d->weight % k->d->size;
    return w->rank - me * k->d->weight + member * k->d->weight;
}

/* Finds every part's peer of this step. */
static void find_peers(struct work *w, bool scatter, bool send)
{
    for (uint32_t p = 0; p < w->h.parts; p++) {
        struct tt_shd_order order;
        struct blocks k = blocks_of(w, p, &order);
        uint32_t t;
        w->peers[p] = UINT32_MAX;
        if (!step_of(w, k.d, scatter, &t))
            continue;
        struct ends e = ends_of(w, &k, k.d->loop.jump[order.step[t]], scatter);
        w->peers[p] = rank_of(w, &k, send ? e.to : e.from);
    }
}

/* Appends the chunks of one part's message. */
static void add_part(struct work *w, uint32_t part, bool scatter, bool send)
{
    struct tt_shd_order order;
    struct blocks k = blocks_of(w, part, &order);
    uint32_t t = 0;
    bool active = step_of(w, k.d, scatter, &t);
    assert(active);
    (void)active;
    struct ends e = ends_of(w, &k, k.d->loop.jump[order.step[t]], scatter);
    bool first = w->step == 0, last = w->phase + 1 == w->h.ndims && t + 1 == k.d->loop.levels;
    /* The offsets are those of the member that lacks (all-gather) or gives away (reduce-scatter)
     * the blocks. */
    k.origin = scatter ? (send ? e.me : e.from) : (send ? e.to : e.me);
    if (scatter) {
        k.src = first ? TT_BUF_IN : w->acc;
        k.buf = send ? k.src : last ? TT_BUF_OUT : w->acc;
    } else {
        k.buf = k.src = send && first ? TT_BUF_IN : TT_BUF_OUT;
    }
    tt_shd_leaving(&k.d->loop, &order, t, push_run, &k);
}

/* All messages of the step in one direction: parts with the same peer share one. */
static void list_messages(struct work *w, bool scatter, bool send)
{
    find_peers(w, scatter, send);
    for (uint32_t p = 0; p < w->h.parts; p++) {
        uint32_t peer = w->peers[p];
        if (peer == UINT32_MAX)
            continue;
        w->spans.len = 0;
        for (uint32_t q = p; q < w->h.parts; q++) {
            if (w->peers[q] != peer)
                continue;
            add_part(w, q, scatter, send);
            w->peers[q] = UINT32_MAX;
        }
        if (send)
            tt_sched_emit_send(w->b, w->step, peer, (uint16_t)p, w->spans.data, w->spans.len);
        else if (scatter)
            tt_sched_emit_recv_reduce(w->b, w->step, peer, (uint16_t)p, w->spans.data,
                                      w->spans.len);
        else
            tt_sched_emit_recv(w->b, w->step, peer, (uint16_t)p, w->spans.data, w->spans.len);
    }
}

/* ---- all steps ---- */

/* Step 0: an all-gather puts its own chunks in the output; in a reduce-scatter the offsets that
 * received nothing join the others in the buffer of partial sums, so that later steps need not ask
 * where a chunk is. */
static void list_copies(struct work *w)
{
    struct tt_span own =
        tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, w->rank * w->h.parts, w->h.parts);
    if (!w->rs) {
        tt_sched_emit_copy(w->b, 0, &own, 1);
        return;
    }
    w->spans.len = 0;
    for (uint32_t p = 0; p < w->h.parts; p++) {
        struct tt_shd_order order;
        struct blocks k = blocks_of(w, p, &order);
        k.origin = w->rank / k.d->weight % k.d->size;
        k.buf = w->acc;
        k.src = TT_BUF_IN;
        tt_shd_untouched(&k.d->loop, &order, push_run, &k);
    }
    if (w->spans.len > 0)
        tt_sched_emit_copy(w->b, 0, w->spans.data, w->spans.len);
}

static void list_phase(struct work *w, uint32_t phase, bool scatter)
{
    w->phase = phase;
    for (w->step_in_phase = 0; w->step_in_phase < w->phase_steps[phase];
         w->step_in_phase++, w->step++) {
        list_messages(w, scatter, true);
        list_messages(w, scatter, false);
        if (w->step == 0)
            list_copies(w);
    }
}

static void measure_phases(struct work *w)
{
    struct tt_shd_order unused;
    for (uint32_t i = 0; i < w->h.ndims; i++)
        for (uint32_t p = 0; p < w->h.parts; p++) {
            uint32_t levels = tt_shd_phase(&w->h, p, i, &unused)->loop.levels;
            w->phase_steps[i] = levels > w->phase_steps[i] ? levels : w->phase_steps[i];
        }
}

static void shd_slice(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b)
{
    struct work w = {.b = b, .rank = rank, .spans = {.elem = sizeof(struct tt_span)}};
    w.rs = tt_sched_coll_reduces(a->problem.coll);
    w.ag = tt_algo_coll_gathers(a->problem.coll);
    w.acc = w.ag ? TT_BUF_OUT : TT_BUF_SCRATCH;
    tutti_status st = tt_shd_make(a, &w.h, &b->err);
    if (st) {
        b->status = st;
        return;
    }
    if (w.h.ndims == 0) {
        tt_algo_emit_alone(b);
        return;
    }
    measure_phases(&w);
    for (uint32_t i = 0; w.rs && i < w.h.ndims; i++)
        list_phase(&w, i, true);
    for (uint32_t i = w.h.ndims; w.ag && i-- > 0;)
        list_phase(&w, i, false);
    tt_vec_free(&w.spans);
}

static tutti_status shd_probe(const struct tt_algo_args *a, struct tutti_error *why)
{
    struct tt_shd h;
    return tt_shd_make(a, &h, why);
}

static tutti_status shd_shape(const struct tt_algo_args *a, struct tt_shape *s,
                              struct tutti_error *err)
{
    struct tt_shd h;
    tutti_status st = tt_shd_make(a, &h, err);
    if (st)
        return st;
    s->chunks = h.parts * h.ranks;
    s->nbufs = s->coll == TUTTI_REDUCE_SCATTER ? TT_BUF_SCRATCH + 1 : TT_BUF_SCRATCH;
    s->symmetric = h.ndims < 2;
    return TUTTI_OK;
}

/* Messages and their ranges: on numbers of ranks that are not powers of two some orders have
 * many. */
static uint64_t shd_ops(const struct tt_algo_args *a)
{
    struct tt_shd h;
    uint64_t ops = 2, ranges = 0;
    if (tt_shd_make(a, &h, NULL))
        return 1;
    for (uint32_t i = 0; i < h.ndims; i++) {
        const struct tt_shd_dim *d = &h.dim[i];
        ops += 4 * (uint64_t)d->loop.levels * h.parts;
        if ((d->size & (d->size - 1)) != 0 && d->order.step[0] != 0)
            ranges += (uint64_t)d->size * h.parts / 4;
    }
    return ops + ranges;
}

static const struct tt_algo_option shd_options[] = {
    {.key = "direction",
     .values = "one|both",
     .desc = "both: half of the vector each way round, twice the bandwidth of one port"},
    {.key = "order",
     .values = "auto|far-first|near-first",
     .desc = "of the distances; auto: what costs the network least carries the largest messages"},
    {.key = "copies",
     .values = "N",
     .desc = "parts that begin with different distances, to use more ports at once",
     .min = 1,
     .max = TT_SHD_COPIES},
    {.key = "grid",
     .values = "auto|flat|AxB..",
     .desc = "A hosts (or rows) of B ranks: B first, then A; auto: by the network's grid or hosts "
             "per switch"},
    {0},
};

const struct tt_algo tt_algo_shd = {
    .name = "shd",
    .desc = "shift halving-doubling: cyclic distances p/2 .. 1 in the order that suits the "
            "network, both ways round if asked",
    .needs = "any number of ranks; direct on a distributed loop network",
    .home = "dln dln2d dsn",
    .colls = TT_COLLS(ALLREDUCE) | TT_COLLS(REDUCE_SCATTER) | TT_COLLS(ALL_GATHER),
    .uses_topo = true,
    .options = shd_options,
    .probe = shd_probe,
    .shape = shd_shape,
    .slice = shd_slice,
    .estimate_ops = shd_ops,
};
