/* test_bound.c - every certificate is checked again by code that shares nothing with src/bound: distances by Floyd-Warshall, cuts
 * summed from the links, blocks laid out as the schedule and the public interface lay them out, all cuts of small networks by
 * brute force. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bound/bound.h"
#include "sched/sched.h"
#include "topo_spec.h"

typedef unsigned __int128 u128;

static struct tt_bounds bounds(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes)
{
    struct tutti_error err = {0};
    struct tt_bounds b;
    if (tt_bound_make(t, coll, root, bytes, &b, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return b;
}

/* ---- the checker ---- */

static uint64_t floor_time(double bytes, double capacity)
{
    return (uint64_t)((u128)(uint64_t)bytes * 1000000000000u / (u128)(uint64_t)capacity);
}

static uint64_t *all_distances(const struct tt_topo *t)
{
    size_t n = (size_t)t->ranks + t->switches;
    uint64_t *d = test_malloc(n * n * sizeof(*d));
    for (size_t i = 0; i < n * n; i++)
        d[i] = i / n == i % n ? 0 : UINT64_MAX / 4;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        uint64_t *x = &d[l->a * n + l->b], *y = &d[l->b * n + l->a];
        *x = *y = l->latency_ps < *x ? l->latency_ps : *x;
    }
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++)
                if (d[i * n + k] + d[k * n + j] < d[i * n + j])
                    d[i * n + j] = d[i * n + k] + d[k * n + j];
    return d;
}

static bool depends(tutti_coll c, uint32_t root, uint32_t from, uint32_t to)
{
    if (c == TUTTI_BROADCAST || c == TUTTI_SCATTER)
        return from == root;
    if (c == TUTTI_REDUCE || c == TUTTI_GATHER)
        return to == root;
    return true;
}

/* For vectors whose blocks all have data. */
static void recheck_latency(const struct tt_topo *t, tutti_coll coll, uint32_t root, const struct tt_bounds *all)
{
    const struct tt_bound *b = &all->item[TT_BOUND_LATENCY], *r = &all->item[TT_BOUND_ROUNDS];
    size_t n = (size_t)t->ranks + t->switches;
    uint64_t *d = all_distances(t), far = 0, near = UINT64_MAX;
    for (uint32_t i = 0; i < t->ranks; i++)
        for (uint32_t j = 0; j < t->ranks; j++) {
            if (i != j && d[i * n + j] < near)
                near = d[i * n + j];
            if (depends(coll, root, i, j) && d[i * n + j] > far)
                far = d[i * n + j];
        }
    assert_true(b->applies && b->complete);
    assert_true(b->from != b->to && depends(coll, root, b->from, b->to));
    assert_int_equal(b->time_ps, d[b->from * n + b->to]);
    assert_int_equal(b->time_ps, far);
    assert_int_equal(r->applies, t->ports > 0);
    if (r->applies) {
        assert_int_equal(r->round_ps, near);
        assert_int_equal(r->ports, t->ports);
        assert_int_equal(r->time_ps, r->rounds * near);
        assert_true(pow(t->ports + 1.0, r->rounds) >= t->ranks && pow(t->ports + 1.0, r->rounds - 1.0) < t->ranks);
    }
    test_free(d);
}

/* Bytes from `side` to the others when block r has size[r] bytes, element by element from the collective's definition. */
static double must_cross(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes, const uint8_t *side, const double *size)
{
    double sum = 0;
    if (coll == TUTTI_ALLREDUCE)
        return (double)bytes;
    if (coll == TUTTI_BROADCAST || coll == TUTTI_REDUCE)
        return (side[root] == 1) == (coll == TUTTI_BROADCAST) ? (double)bytes : 0;
    if ((coll == TUTTI_GATHER && side[root]) || (coll == TUTTI_SCATTER && !side[root]))
        return 0;
    for (uint32_t i = 0; i < t->ranks; i++) {
        if (coll == TUTTI_ALL_TO_ALL)
            for (uint32_t j = 0; j < t->ranks; j++)
                sum += side[i] && !side[j] ? size[j] : 0;
        else if (coll == TUTTI_ALL_GATHER || coll == TUTTI_GATHER)
            sum += side[i] ? size[i] : 0;
        else
            sum += side[i] ? 0 : size[i];
    }
    return sum;
}

/* Block sizes: layout 0 the schedule's own (aligned), 1 the public rule (elements r*count/p ..), 2 exactly equal. */
static void lay_out(const struct tt_topo *t, tutti_coll coll, uint64_t bytes, tutti_dtype dtype, int layout, double *size)
{
    uint32_t p = t->ranks, e = tt_sched_dtype_bytes(dtype);
    uint64_t count = bytes / e;
    struct tt_shape shape = {.coll = TUTTI_ALL_GATHER, .ranks = p, .chunks = p, .nbufs = 2, .segments = 1};
    struct tt_bind bind;
    (void)coll;
    assert_int_equal(tt_sched_bind_make(&shape, count, dtype, &bind, NULL), TUTTI_OK);
    for (uint32_t r = 0; r < p; r++) {
        uint64_t aligned = (tt_sched_bind_offset(&bind, r + 1) - tt_sched_bind_offset(&bind, r)) * e;
        uint64_t plain = ((r + 1) * count / p - r * count / p) * e;
        size[r] = layout == 0 ? (double)aligned : layout == 1 ? (double)plain : (double)bytes / p;
    }
    tt_sched_bind_free(&bind);
}

static double cut_capacity(const struct tt_topo *t, const uint8_t *side, bool both)
{
    double sum = 0;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        if (side[l->a] == side[l->b])
            continue;
        sum += ceil(l->half || side[l->a] ? l->bw[0] : l->bw[1]);
        if (both && !l->half)
            sum += ceil(side[l->a] ? l->bw[1] : l->bw[0]);
    }
    return sum;
}

static void recheck_cut(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes, const struct tt_bounds *all)
{
    static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_F64, TUTTI_U8};
    const struct tt_bound *b = &all->item[TT_BOUND_CUT];
    uint32_t ranks = 0, n = t->ranks + t->switches;
    double *size = test_malloc(t->ranks * sizeof(*size));
    uint8_t *other = test_malloc(n);
    if (!b->applies) {
        assert_int_equal(b->time_ps, 0);
        assert_null(b->side);
        goto out;
    }
    for (uint32_t v = 0; v < n; v++) {
        assert_true(b->side[v] <= 1);
        ranks += v < t->ranks && b->side[v];
        other[v] = !b->side[v];
    }
    assert_int_equal(ranks, b->side_ranks);
    assert_true(ranks > 0 && ranks < t->ranks);
    assert_true(cut_capacity(t, b->side, b->both) == b->capacity);
    assert_int_equal(b->time_ps, floor_time(b->bytes, b->capacity));
    for (size_t i = 0; i < 3 * countof(dtypes); i++) {
        tutti_dtype d = dtypes[i / 3];
        if (bytes % tt_sched_dtype_bytes(d))
            continue;
        lay_out(t, coll, bytes, d, (int)(i % 3), size);
        double cross = must_cross(t, coll, root, bytes, b->side, size);
        cross += b->both ? must_cross(t, coll, root, bytes, other, size) : 0;
        assert_true(b->bytes <= cross + 1e-3);
    }
out:
    test_free(size);
    test_free(other);
}

static double volume(const struct tt_topo *t, tutti_coll coll, uint64_t bytes)
{
    double p = t->ranks, s = (double)bytes;
    switch (coll) {
    case TUTTI_ALLREDUCE:
        return 2 * (p - 1) * s;
    case TUTTI_GATHER:
    case TUTTI_SCATTER:
        return (p - 1) / p * s;
    default:
        return (p - 1) * s; /* all-to-all: p ranks, (p-1)/p each */
    }
}

static void recheck_volume(const struct tt_topo *t, tutti_coll coll, uint64_t bytes, const struct tt_bounds *all)
{
    const struct tt_bound *b = &all->item[TT_BOUND_VOLUME];
    double out = 0, in = 0;
    if (!b->applies)
        return;
    assert_int_equal(b->time_ps, floor_time(b->bytes, b->capacity));
    for (uint32_t r = 0; r < t->ranks; r++) {
        out += tt_topo_egress(t, r);
        in += tt_topo_ingress(t, r);
    }
    if (b->from != UINT32_MAX) {
        assert_true(b->bytes <= (double)bytes * (b->both ? 2 : 1));
        double least = b->both ? 0 : fmin(tt_topo_egress(t, b->from), tt_topo_ingress(t, b->from));
        assert_true(b->capacity >= least);
    } else if (b->both) {
        assert_true(b->bytes <= 2 * volume(t, coll, bytes) && b->capacity <= out + in);
    } else {
        assert_true(b->bytes <= volume(t, coll, bytes));
        assert_true(b->capacity >= fmin(out, in) && b->capacity < fmin(out, in) + t->ranks); /* rounded up per rank */
        if (coll == TUTTI_ALLREDUCE || coll == TUTTI_BROADCAST || coll == TUTTI_ALL_GATHER)
            assert_true(b->bytes == volume(t, coll, bytes));
    }
}

static void recheck_best(const struct tt_bounds *all)
{
    uint64_t most = 0;
    for (int k = 0; k < TT_BOUND_KINDS; k++) {
        most = all->item[k].time_ps > most ? all->item[k].time_ps : most;
        assert_int_equal(all->item[k].kind, k);
        assert_true(all->item[k].text[0] != 0);
        assert_true(all->item[k].applies || all->item[k].time_ps == 0);
    }
    assert_int_equal(all->time_ps, most);
    assert_int_equal(all->item[all->best].time_ps, most);
}

static void recheck(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes)
{
    struct tt_bounds b = bounds(t, coll, root, bytes);
    recheck_latency(t, coll, root, &b);
    recheck_cut(t, coll, root, bytes, &b);
    recheck_volume(t, coll, bytes, &b);
    recheck_best(&b);
    tt_bound_free(&b);
}

static void test_certificates(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "star:5@1GB/s,3us",
        "star:16,ports=1@10Gbps,20us",
        "nics:10G,10G,10G,2.5G",
        "ring:9",
        "full:6,ports=2",
        "torus:4x4@16GB/s,150ns",
        "torus:3x3x2,ports=3",
        "mesh:3x4",
        "mesh:4x4@1GB/s,1us,0,half",
        "star:4@1GB/s,1us,0,half",
        "hypercube:16",
        "fattree:4,2",
        "fattree:2,3",
        "bigraph:2x4",
        "dragonfly:3,2,2",
        "dln:17,t=2",
        "dln2d:4x4,t=1",
        "tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps",
        "tree:((2 2:2.5G) (3 1))@10Gbps/10Gbps/10Gbps",
    };
    static const uint64_t sizes[] = {1024, 4099, 1 << 20, 100 << 20};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        for (int coll = 0; coll < TUTTI_BARRIER; coll++)
            for (size_t j = 0; j < countof(sizes); j++) {
                recheck(t, (tutti_coll)coll, 0, sizes[j]);
                recheck(t, (tutti_coll)coll, t->ranks - 1, sizes[j]);
            }
        tt_topo_free(t);
    }
}

/* ---- all cuts of small random networks ---- */

static struct tt_topo *random_topo(struct tt_rng *rng, bool halves)
{
    uint32_t ranks = 2 + (uint32_t)tt_rng_below(rng, 5), switches = (uint32_t)tt_rng_below(rng, 4), n = ranks + switches;
    struct tutti_error err = {0};
    struct tt_topo *t, *done = NULL;
    assert_int_equal(tt_topo_new("custom", ranks, switches, &t, &err), TUTTI_OK);
    uint64_t extra = tt_rng_below(rng, 8);
    for (uint32_t i = 1; i < n + extra; i++) {
        uint32_t a = i < n ? i : (uint32_t)tt_rng_below(rng, n), b = (uint32_t)tt_rng_below(rng, i < n ? i : n);
        struct tt_link l = {.a = a, .b = b, .latency_ps = 1000 * tt_rng_below(rng, 50)};
        l.half = halves && tt_rng_below(rng, 2);
        l.bw[0] = 1e6 * (double)(1 + tt_rng_below(rng, 9));
        l.bw[1] = l.half || tt_rng_below(rng, 2) ? l.bw[0] : 1e6 * (double)(1 + tt_rng_below(rng, 9)) + 0.25;
        if (a != b)
            assert_int_equal(tt_topo_add_link(t, &l, &err), TUTTI_OK);
    }
    if (tt_topo_finish(t, &done, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return done;
}

/* The largest time any cut proves with exactly equal blocks, in seconds. */
static double brute_force(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes)
{
    uint32_t n = t->ranks + t->switches;
    double best = 0, size[16];
    lay_out(t, coll, bytes, TUTTI_U8, 2, size);
    for (uint32_t mask = 0; mask < 1u << n; mask++) {
        uint8_t side[16], other[16];
        uint32_t ranks = 0;
        for (uint32_t v = 0; v < n; v++) {
            side[v] = mask >> v & 1;
            other[v] = !side[v];
            ranks += v < t->ranks && side[v];
        }
        if (ranks == 0 || ranks == t->ranks)
            continue;
        double out = must_cross(t, coll, root, bytes, side, size), in = must_cross(t, coll, root, bytes, other, size);
        best = fmax(best, out / cut_capacity(t, side, false));
        best = fmax(best, (out + in) / cut_capacity(t, side, true));
    }
    return best;
}

static void test_all_cuts(void **state)
{
    (void)state;
    struct tt_rng rng;
    tt_rng_seed(&rng, 7);
    uint64_t bytes = 1 << 30;
    for (int round = 0; round < 150; round++) {
        struct tt_topo *t = random_topo(&rng, round % 2);
        for (int coll = 0; coll < TUTTI_BARRIER; coll++) {
            uint32_t root = (uint32_t)tt_rng_below(&rng, t->ranks);
            struct tt_bounds b = bounds(t, (tutti_coll)coll, root, bytes);
            const struct tt_bound *c = &b.item[TT_BOUND_CUT];
            double best = brute_force(t, (tutti_coll)coll, root, bytes), found = (double)c->time_ps / 1e12;
            assert_true(found <= best * (1 + 1e-12));
            if (c->complete && found < best * (1 - 1e-5))
                fail_msg("round %d %s: %.9g s found, %.9g s possible", round, tt_sched_coll_name((tutti_coll)coll), found, best);
            assert_true(c->complete || coll == TUTTI_ALL_TO_ALL);
            tt_bound_free(&b);
            recheck(t, (tutti_coll)coll, root, bytes);
        }
        tt_topo_free(t);
    }
}

/* The closed forms by which whole families are called complete, against all cuts. */
static void test_complete_families(void **state)
{
    (void)state;
    static const char *const specs[] = {"ring:8",
                                        "full:6",
                                        "torus:3x3",
                                        "torus:2x2x2",
                                        "dln:9,t=2",
                                        "dln:8",
                                        "star:7",
                                        "hypercube:8",
                                        "ring:7@1GB/s,1us,0,half",
                                        "nics:10G,1G,3G,2G",
                                        "tree:((2 1)(2 1))@10Gbps/4Gbps/3Gbps"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        for (int coll = 0; coll < TUTTI_BARRIER; coll++) {
            struct tt_bounds b = bounds(t, (tutti_coll)coll, 1, 1 << 30);
            const struct tt_bound *c = &b.item[TT_BOUND_CUT];
            double best = brute_force(t, (tutti_coll)coll, 1, 1 << 30), found = (double)c->time_ps / 1e12;
            assert_true(found <= best * (1 + 1e-12));
            assert_true(c->complete || coll == TUTTI_ALL_TO_ALL);
            bool loop = tt_streq(t->kind, "dln") && coll == TUTTI_ALL_TO_ALL; /* its bisection is no prefix of the ranks */
            if (!loop && found < best * (1 - 1e-5))
                fail_msg("%s %s: %.9g s found, %.9g s possible", specs[i], tt_sched_coll_name((tutti_coll)coll), found, best);
            tt_bound_free(&b);
        }
        tt_topo_free(t);
    }
}

/* ---- known values ---- */

static void expect(const char *spec, tutti_coll coll, uint64_t bytes, enum tt_bound_kind kind, uint64_t ps)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_bounds b = bounds(t, coll, 0, bytes);
    if (b.item[kind].time_ps != ps)
        fail_msg("%s %s: %s is %llu ps, not %llu: %s", spec, tt_sched_coll_name(coll), tt_bound_name(kind),
                 (unsigned long long)b.item[kind].time_ps, (unsigned long long)ps, b.item[kind].text);
    tt_bound_free(&b);
    tt_topo_free(t);
}

static void test_known_values(void **state)
{
    (void)state;
    uint64_t s = 1 << 20, ns = 1000;
    /* homogeneous star: 2(p-1)/p S/B; the cut gives half of it (sota.md 1.2, 1.6a) */
    expect("star:8@1GB/s,5us", TUTTI_ALLREDUCE, s, TT_BOUND_VOLUME, 2 * 7 * s / 8 * ns);
    expect("star:8@1GB/s,5us", TUTTI_ALLREDUCE, s, TT_BOUND_CUT, s * ns);
    expect("star:8@1GB/s,5us", TUTTI_ALLREDUCE, s, TT_BOUND_LATENCY, 10000 * ns);
    expect("star:8@1GB/s,5us", TUTTI_ALLREDUCE, s, TT_BOUND_ROUNDS, 0);
    expect("star:8,ports=1@1GB/s,5us", TUTTI_ALLREDUCE, s, TT_BOUND_ROUNDS, 3 * 10000 * ns);
    expect("star:9,ports=2@1GB/s,5us", TUTTI_BARRIER, 0, TT_BOUND_ROUNDS, 2 * 10000 * ns);
    expect("star:8@1GB/s,5us", TUTTI_BROADCAST, s, TT_BOUND_CUT, s * ns);
    expect("star:8@1GB/s,5us", TUTTI_ALL_GATHER, s, TT_BOUND_VOLUME, 7 * s / 8 * ns);
    /* uneven NICs: the slowest alone, 1/b_min (1.4) */
    expect("nics:10G,10G,10G,2.5G", TUTTI_ALLREDUCE, 100 << 20, TT_BOUND_CUT, UINT64_C(335544320000));
    /* torus 8x8: four links out of each rank, 2 * 63/64 S / (4 B) */
    expect("torus:8x8@16GB/s,150ns", TUTTI_ALLREDUCE, 64 << 20, TT_BOUND_VOLUME, UINT64_C(2) * 63 * (64 << 20) * 1000 / (64 * 4 * 16));
    expect("torus:8x8@16GB/s,150ns", TUTTI_ALLREDUCE, 64 << 20, TT_BOUND_CUT, (UINT64_C(64) << 20) * 1000 / 64);
    expect("torus:8x8@16GB/s,150ns", TUTTI_ALLREDUCE, 64 << 20, TT_BOUND_LATENCY, 8 * 150 * ns);
    /* half duplex: both directions share the cable */
    expect("star:4@1GB/s,0,0,half", TUTTI_ALLREDUCE, s, TT_BOUND_CUT, 2 * s * ns);
    expect("star:4@1GB/s,0,0,half", TUTTI_ALLREDUCE, s, TT_BOUND_VOLUME, 2 * 6 * s / 4 * ns);
    /* ports carry less than links */
    expect("full:4,ports=1@1GB/s,1us", TUTTI_BROADCAST, s, TT_BOUND_VOLUME, s * ns);
    expect("full:4,ports=1@1GB/s,1us", TUTTI_ALLREDUCE, s, TT_BOUND_VOLUME, 2 * 3 * s / 4 * ns);
    expect("full:4@1GB/s,1us", TUTTI_BROADCAST, 3 * s, TT_BOUND_CUT, s * ns);
}

/* Sums: (p-1)/p S gamma if links feed them; uneven links by the linear program of host.c, solved by hand. */
static void test_reduction(void **state)
{
    (void)state;
    static const struct {
        const char *spec;
        tutti_coll coll;
        double us;
    } known[] = {
        {"star:4@10Gbps,1us,2ns", TUTTI_ALLREDUCE, 1.5 * 1000},
        {"star:4@10Gbps,1us,2ns", TUTTI_REDUCE, 1.5 * 1000},
        {"star:4@10Gbps,1us,2ns", TUTTI_REDUCE_SCATTER, 1.5 * 1000},
        {"star:4@10Gbps,1us,2ns", TUTTI_ALL_GATHER, 0},
        {"star:4@10Gbps,1us", TUTTI_ALLREDUCE, 0},
        /* rank 0 adds 0.25 GB/s, rank 1 what it takes in, 0.1 GB/s: 1 MB / 0.35 GB/s */
        {"nics:10GB/s,0.1GB/s@10Gbps,0,4ns", TUTTI_ALLREDUCE, 2.8571428571e3},
        {"nics:10GB/s,0.1GB/s@10Gbps,0,4ns", TUTTI_REDUCE, 2.8571428571e3},
    };
    for (size_t i = 0; i < countof(known); i++) {
        struct tt_topo *t = topo_of(known[i].spec);
        struct tt_bounds b = bounds(t, known[i].coll, 0, 1000000);
        double us = (double)b.item[TT_BOUND_REDUCTION].time_ps / 1e6;
        if (fabs(us - known[i].us) > 1e-6 * known[i].us)
            fail_msg("%s: %.6f us, not %.6f: %s", known[i].spec, us, known[i].us, b.item[TT_BOUND_REDUCTION].text);
        tt_bound_free(&b);
        tt_topo_free(t);
    }
}

/* Messages 2 us apart, 2 us under way: they arrive at 4, 6, 8 (from the first rank) and 8 (from the one that heard at 4). */
static void test_overhead(void **state)
{
    (void)state;
    const uint64_t us = 1000000;
    expect("star:2,overhead=2us@1GB/s,1us", TUTTI_ALLREDUCE, 8, TT_BOUND_OVERHEAD, 4 * us);
    expect("star:5,overhead=2us@1GB/s,1us", TUTTI_ALLREDUCE, 8, TT_BOUND_OVERHEAD, 8 * us);
    expect("star:6,overhead=2us@1GB/s,1us", TUTTI_BROADCAST, 8, TT_BOUND_OVERHEAD, 10 * us);
    expect("star:8,overhead=2us@1GB/s,0", TUTTI_BARRIER, 0, TT_BOUND_OVERHEAD, 6 * us);
    expect("star:5,overhead=2us@1GB/s,1us", TUTTI_GATHER, 8, TT_BOUND_OVERHEAD, 0);
    expect("star:5@1GB/s,1us", TUTTI_ALLREDUCE, 8, TT_BOUND_OVERHEAD, 0);
}

static void test_words(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("nics:10G,10G,10G,2.5G");
    struct tt_bounds b = bounds(t, TUTTI_ALLREDUCE, 0, 100 << 20);
    assert_int_equal(b.best, TT_BOUND_CUT);
    assert_string_equal(b.item[TT_BOUND_CUT].text,
                        "100 MiB must leave rank 3 (1 of 4) over links of 2.5 Gbit/s: 100 MiB / 2.5 Gbit/s = 335.5 ms");
    tt_bound_free(&b);
    tt_topo_free(t);
    t = topo_of("tree:((3 2)(2))@100Gbps/1Gbps/1Gbps");
    b = bounds(t, TUTTI_ALL_TO_ALL, 0, 100 << 20);
    assert_non_null(strstr(b.item[TT_BOUND_CUT].text, "ranks 0-2 (3 of 7)"));
    tt_bound_free(&b);
    tt_topo_free(t);
}

/* ---- nothing to do, little to do, bad questions ---- */

static void test_nothing(void **state)
{
    (void)state;
    struct tt_topo *one = topo_of("star:1"), *t = topo_of("star:8,ports=1@1GB/s,5us");
    for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++) {
        struct tt_bounds b = bounds(one, (tutti_coll)coll, 0, 1000), z = bounds(t, (tutti_coll)coll, 0, 0);
        assert_int_equal(b.time_ps, 0);
        assert_int_equal(z.time_ps, coll == TUTTI_BARRIER ? UINT64_C(30000000) : 0);
        recheck_best(&b);
        recheck_best(&z);
        tt_bound_free(&b);
        tt_bound_free(&z);
    }
    tt_topo_free(one);
    tt_topo_free(t);
}

/* With fewer elements than ranks blocks may be empty: only what needs no block remains. */
static void test_empty_blocks(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("mesh:5@1GB/s,1us");
    struct tt_bounds b = bounds(t, TUTTI_ALL_GATHER, 0, 4);
    assert_int_equal(b.item[TT_BOUND_LATENCY].time_ps, 2000000); /* from the middle */
    assert_false(b.item[TT_BOUND_CUT].applies);
    assert_int_equal(b.item[TT_BOUND_VOLUME].bytes, 16);
    tt_bound_free(&b);
    b = bounds(t, TUTTI_GATHER, 0, 4);
    assert_int_equal(b.time_ps, 0);
    tt_bound_free(&b);
    b = bounds(t, TUTTI_ALLREDUCE, 0, 4);
    assert_int_equal(b.item[TT_BOUND_LATENCY].time_ps, 4000000);
    assert_int_equal(b.item[TT_BOUND_CUT].time_ps, 4000);
    tt_bound_free(&b);
    tt_topo_free(t);
}

static void test_bad_questions(void **state)
{
    (void)state;
    struct tutti_error err = {0};
    struct tt_topo *t = topo_of("star:8@1B/s,5us");
    struct tt_bounds b;
    assert_int_equal(tt_bound_make(t, TUTTI_BROADCAST, 8, 100, &b, &err), TUTTI_ERR_RANGE);
    assert_non_null(strstr(err.text, "root 8"));
    assert_int_equal(tt_bound_make(t, TUTTI_COLL_COUNT, 0, 100, &b, &err), TUTTI_ERR_ARG);
    assert_int_equal(tt_bound_make(t, TUTTI_ALLREDUCE, 0, UINT64_MAX, &b, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_bound_make(t, TUTTI_ALLREDUCE, 0, UINT64_C(1) << 40, &b, &err), TUTTI_ERR_RANGE);
    assert_int_equal(tt_bound_make(t, TUTTI_ALLREDUCE, 99, 100, &b, &err), TUTTI_OK); /* the root does not matter */
    tt_bound_free(&b);
    tt_bound_free(NULL);
    tt_topo_free(t);
}

/* Large networks: still valid, still checked, within the work limits. */
static void test_large(void **state)
{
    (void)state;
    static const char *const specs[] = {"star:65536", "ring:65536", "dln:4096", "torus:32x32", "mesh:40x40", "fattree:8,4", "nics:1G,10G"};
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        for (int coll = 0; coll < TUTTI_BARRIER; coll += 2) {
            struct tt_bounds b = bounds(t, (tutti_coll)coll, 1, 1 << 30);
            recheck_cut(t, (tutti_coll)coll, 1, 1 << 30, &b);
            recheck_volume(t, (tutti_coll)coll, 1 << 30, &b);
            recheck_best(&b);
            assert_true(b.item[TT_BOUND_CUT].applies);
            tt_bound_free(&b);
        }
        tt_topo_free(t);
    }
}

/* Rank 0 in the middle of a long line: the farthest pair is found from its farthest end. */
static void test_long_line(void **state)
{
    (void)state;
    enum { N = 4001 };
    struct tutti_error err = {0};
    struct tt_topo *t, *done = NULL;
    uint64_t length = 0;
    assert_int_equal(tt_topo_new("custom", N, 0, &t, &err), TUTTI_OK);
    for (uint32_t v = 1; v < N; v++) {
        struct tt_link l = {.a = v < 3 ? 0 : v - 2, .b = v, .bw = {1e9, 1e9}, .latency_ps = 1000 + v % 7};
        length += l.latency_ps;
        assert_int_equal(tt_topo_add_link(t, &l, &err), TUTTI_OK);
    }
    if (tt_topo_finish(t, &done, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    struct tt_bounds b = bounds(done, TUTTI_ALLREDUCE, 0, 1000);
    assert_true(b.item[TT_BOUND_LATENCY].complete);
    assert_int_equal(b.item[TT_BOUND_LATENCY].time_ps, length);
    tt_bound_free(&b);
    b = bounds(done, TUTTI_ALL_GATHER, 0, 1000); /* fewer bytes than ranks */
    assert_int_equal(b.item[TT_BOUND_LATENCY].time_ps, length - length / 2);
    tt_bound_free(&b);
    tt_topo_free(done);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_certificates),  cmocka_unit_test(test_all_cuts),  cmocka_unit_test(test_complete_families),
        cmocka_unit_test(test_known_values),  cmocka_unit_test(test_reduction), cmocka_unit_test(test_overhead),
        cmocka_unit_test(test_words),         cmocka_unit_test(test_nothing),   cmocka_unit_test(test_empty_blocks),
        cmocka_unit_test(test_bad_questions), cmocka_unit_test(test_large),     cmocka_unit_test(test_long_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
