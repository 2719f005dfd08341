/* test_cost.c - the cost against closed forms, against a naive second implementation of the rules in cost.h, and against itself: by
 * symmetry, with segments, with declared routes. */
#include "support.h"

#include "cost/cost.h"

typedef unsigned __int128 u128;

static struct tt_algo_args args_for(const struct tt_topo *t, tutti_coll coll, uint64_t count)
{
    return (struct tt_algo_args){.problem = {coll, t->ranks, 0, count, TUTTI_F32, TUTTI_SUM, false}, .topo = t};
}

static struct tt_plan_cache *cache;

static int setup(void **state)
{
    (void)state;
    cache = tt_plan_cache_of_schedules();
    return cache ? 0 : -1;
}

static int teardown(void **state)
{
    (void)state;
    tt_plan_cache_free(cache);
    return 0;
}

/* The algorithm's schedule, or NULL when it refuses. */
static struct tt_sched *build(const struct tt_algo *al, const struct tt_topo *t, tutti_coll coll, uint64_t count, uint32_t segments)
{
    struct tt_algo_args a = args_for(t, coll, count);
    struct tutti_error err = {0};
    struct tt_sched *s;
    if (tt_algo_probe(al, &a, &err) != TUTTI_OK)
        return NULL;
    s = cached_of(al, &a, cache);
    if (segments)
        s->shape.segments = segments;
    return s;
}

static struct tt_cost cost_of(const struct tt_sched *s, const struct tt_topo *t, uint64_t count)
{
    struct tutti_error err = {0};
    struct tt_cost c;
    if (tt_cost_sched(s, t, count, TUTTI_F32, &c, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    assert_int_equal(c.time_ps, c.latency_ps + c.transfer_ps + c.reduce_ps + c.overhead_ps);
    return c;
}

static struct tt_cost cost_named(const char *algo, const char *spec, tutti_coll coll, uint64_t count, uint32_t segments)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_sched *s = build(tt_algo_find(algo), t, coll, count, segments);
    assert_non_null(s);
    struct tt_cost c = cost_of(s, t, count);
    tt_sched_free(s);
    tt_topo_free(t);
    return c;
}

/* ---- closed forms ---- */

static void test_ring_on_star(void **state)
{
    (void)state;
    /* 8 ranks, 1 GB/s, 5 us per link: 14 steps of two latencies and 1 MiB / 8 */
    struct tt_cost c = cost_named("ring", "star:8@1GB/s,5us", TUTTI_ALLREDUCE, 1 << 18, 0);
    assert_int_equal(c.steps, 14);
    assert_int_equal(c.latency_ps, 14 * UINT64_C(10000000));
    assert_int_equal(c.transfer_ps, 14 * UINT64_C(131072) * 1000);
    assert_int_equal(c.reduce_ps, 0);
    assert_int_equal(c.messages, 8 * 14);
    assert_int_equal(c.bytes, 8 * 14 * UINT64_C(131072));
    assert_int_equal(c.busiest_bytes, 14 * UINT64_C(131072));
    assert_int_equal(c.max_link_contention, 1);
}

static void test_ring_on_ring(void **state)
{
    (void)state;
    struct tt_cost c = cost_named("ring", "ring:5@1GB/s,1us,0", TUTTI_ALLREDUCE, 5 * 1024, 0);
    assert_int_equal(c.time_ps, 8 * (UINT64_C(1000000) + 4096 * 1000));
}

static void test_rounding_up(void **state)
{
    (void)state;
    /* 4 bytes at 3 bytes/s: 4/3 s rounded up to a picosecond */
    struct tt_cost c = cost_named("ring", "ring:2@3B/s,0", TUTTI_REDUCE_SCATTER, 2, 0);
    assert_int_equal(c.transfer_ps, UINT64_C(1333333333334));
}

static void test_gamma(void **state)
{
    (void)state;
    /* 0.25 ns per byte: each of the 3 reducing steps adds 64 KiB */
    struct tt_cost c = cost_named("ring", "star:4@1GB/s,0,250ps", TUTTI_ALLREDUCE, 1 << 16, 0);
    assert_int_equal(c.reduce_ps, 3 * 65536 * 250);
    assert_int_equal(c.transfer_ps, 6 * UINT64_C(65536) * 1000);
}

static void test_direct_contention(void **state)
{
    (void)state;
    /* every rank sends 3 blocks at once: its link carries three messages, which take three times as long, one latency */
    struct tt_cost c = cost_named("direct", "star:4@1GB/s,1us", TUTTI_REDUCE_SCATTER, 1 << 16, 0);
    assert_int_equal(c.max_link_contention, 3);
    assert_int_equal(c.latency_ps, 2000000);
    assert_int_equal(c.transfer_ps, 3 * UINT64_C(65536) * 1000);
}

static void test_declared_ports(void **state)
{
    (void)state;
    /* 3 messages through 1 port pay the latency 3 times, through 2 ports twice */
    struct tt_cost one = cost_named("direct", "star:4,ports=1@1GB/s,1us", TUTTI_REDUCE_SCATTER, 1 << 16, 0);
    struct tt_cost two = cost_named("direct", "star:4,ports=2@1GB/s,1us", TUTTI_REDUCE_SCATTER, 1 << 16, 0);
    assert_int_equal(one.latency_ps, 6000000);
    assert_int_equal(two.latency_ps, 4000000);
    /* full mesh: three links of 1 GB/s each, but one port carries only one of them */
    struct tt_cost wide = cost_named("direct", "full:4@1GB/s,1us", TUTTI_REDUCE_SCATTER, 1 << 16, 0);
    struct tt_cost narrow = cost_named("direct", "full:4,ports=1@1GB/s,1us", TUTTI_REDUCE_SCATTER, 1 << 16, 0);
    assert_int_equal(wide.transfer_ps, UINT64_C(65536) * 1000);
    assert_int_equal(narrow.transfer_ps, 3 * UINT64_C(65536) * 1000);
}

static void test_half_duplex(void **state)
{
    (void)state;
    /* the ring sends and receives at once: a star's half-duplex cables carry both; a ring's cables carry one direction anyway */
    struct tt_cost star = cost_named("ring", "star:4@1GB/s,0,0,half", TUTTI_ALLREDUCE, 1 << 16, 0);
    struct tt_cost ring = cost_named("ring", "ring:4@1GB/s,0,0,half", TUTTI_ALLREDUCE, 1 << 16, 0);
    assert_int_equal(star.transfer_ps, 6 * 2 * UINT64_C(65536) * 1000);
    assert_int_equal(ring.transfer_ps, 6 * UINT64_C(65536) * 1000);
}

static void test_chain_pipelined(void **state)
{
    (void)state;
    /* broadcast along 5 ranks in K segments: p-2+K waves of alpha + S/(K B); ring links in between are not shared */
    for (uint32_t k = 1; k <= 64; k *= 4) {
        struct tt_cost c = cost_named("chain", "ring:5@1GB/s,1us", TUTTI_BROADCAST, 1 << 18, k);
        assert_int_equal(c.time_ps, (5 - 2 + k) * (UINT64_C(1000000) + (UINT64_C(1) << 20) * 1000 / k));
        assert_int_equal(c.max_link_contention, 1);
    }
}

static void test_no_ranks_to_talk_to(void **state)
{
    (void)state;
    struct tt_cost c = cost_named("ring", "star:1", TUTTI_ALLREDUCE, 100, 0);
    assert_int_equal(c.time_ps, 0);
    assert_int_equal(c.messages, 0);
}

/* ---- the rules of cost.h once more, naively ---- */

struct naive {
    const struct tt_sched *s;
    const struct tt_topo *t;
    struct tt_bind bind;
    uint64_t *link, *out, *in, *reduce, *nout, *nin; /* of one wave */
    uint64_t latency;
};

static uint64_t ceil_div(u128 a, u128 b)
{
    return (uint64_t)((a + b - 1) / b);
}

/* Bytes/s of a rank's fastest link, outwards (0) or inwards (1). */
static uint64_t fastest(const struct tt_topo *t, uint32_t r, uint32_t side)
{
    uint64_t best = 0;
    for (uint32_t k = t->g.start[r]; k < t->g.start[r + 1]; k++) {
        const struct tt_link *l = &t->links[t->g.id[k] / 2];
        uint64_t bw = (uint64_t)l->bw[l->half ? 0 : (t->g.id[k] ^ side) & 1];
        best = bw > best ? bw : best;
    }
    return best;
}

static void naive_op(struct naive *n, uint32_t r, const struct tt_slice *sl, const struct tt_op *op)
{
    uint64_t bytes = tt_sched_bind_op_bytes(&n->bind, sl, op);
    uint32_t path[256], len;
    if (op->kind == TT_OP_RECV_REDUCE)
        n->reduce[r] += bytes;
    if (op->kind == TT_OP_REDUCE)
        n->reduce[r] += bytes * (op->nspans - 2);
    if (op->kind != TT_OP_SEND)
        return;
    const struct tt_sched_route *declared = tt_sched_route(n->s, r, op->peer, op->channel);
    if (declared) {
        len = declared->nlinks;
        assert_true(len <= countof(path));
        memcpy(path, declared->links, len * sizeof *path);
    } else {
        assert_int_equal(tt_topo_route(n->t, r, op->peer, path, 256, &len, NULL), TUTTI_OK);
    }
    uint64_t latency = 0;
    uint64_t slowest = UINT64_MAX;
    for (uint32_t i = 0; i < len; i++) {
        const struct tt_link *l = &n->t->links[path[i] / 2];
        uint64_t bw = (uint64_t)l->bw[l->half ? 0 : path[i] & 1];
        n->link[path[i]] += bytes;
        latency += l->latency_ps;
        slowest = bw < slowest ? bw : slowest;
    }
    n->latency = latency > n->latency ? latency : n->latency;
    n->out[r] += ceil_div((u128)bytes * fastest(n->t, r, 0), slowest);
    n->in[op->peer] += ceil_div((u128)bytes * fastest(n->t, op->peer, 1), slowest);
    n->nout[r]++;
    n->nin[op->peer]++;
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* Time of the wave whose sums are in n. Bandwidths of these tests are whole bytes/s. */
static uint64_t naive_wave(const struct naive *n, uint64_t k)
{
    const struct tt_topo *t = n->t;
    uint64_t transfer = 0, reduce = 0, messages = 0;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        uint64_t there = n->link[2 * i], back = n->link[2 * i + 1];
        if (l->half)
            there = back = there + back;
        transfer = most(transfer, ceil_div((u128)there * 1000000000000u, (u128)(uint64_t)l->bw[0] * k));
        transfer = most(transfer, ceil_div((u128)back * 1000000000000u, (u128)(uint64_t)l->bw[l->half ? 0 : 1] * k));
    }
    for (uint32_t r = 0; r < t->ranks; r++) {
        if (t->ports) {
            transfer = most(transfer, ceil_div((u128)n->out[r] * 1000000000000u, (u128)fastest(t, r, 0) * t->ports * k));
            transfer = most(transfer, ceil_div((u128)n->in[r] * 1000000000000u, (u128)fastest(t, r, 1) * t->ports * k));
        }
        reduce = most(reduce, n->reduce[r]);
        messages = most(messages, most(n->nout[r], n->nin[r]));
    }
    uint64_t turns = t->ports ? most(1, ceil_div(messages, t->ports)) : 1;
    uint64_t gamma_ps = (uint64_t)(t->gamma * 1e12 + 0.5); /* whole picoseconds in these tests */
    return n->latency * turns + transfer + ceil_div((u128)reduce * gamma_ps, k) + messages * t->overhead_ps;
}

static uint64_t naive_time(const struct tt_sched *s, const struct tt_topo *t, uint64_t count)
{
    struct naive n = {.s = s, .t = t};
    uint64_t k = s->shape.segments, time = 0, waves = s->nsteps ? s->nsteps + k - 1 : 0;
    size_t words = 2 * (size_t)t->nlinks + 5 * (size_t)t->ranks;
    assert_int_equal(tt_sched_bind_make(&s->shape, count, TUTTI_F32, &n.bind, NULL), TUTTI_OK);
    n.link = test_calloc(words, sizeof(uint64_t));
    n.out = n.link + 2 * t->nlinks;
    n.in = n.out + t->ranks;
    n.reduce = n.in + t->ranks;
    n.nout = n.reduce + t->ranks;
    n.nin = n.nout + t->ranks;
    for (uint64_t w = 0; w < waves; w++) {
        memset(n.link, 0, words * sizeof(uint64_t));
        n.latency = 0;
        for (uint32_t r = 0; r < t->ranks; r++) {
            struct tt_slice sl = tt_sched_slice(s, r);
            for (size_t i = 0; i < sl.nops; i++)
                if (sl.ops[i].step <= w && sl.ops[i].step + k > w)
                    naive_op(&n, r, &sl, &sl.ops[i]);
        }
        time += naive_wave(&n, k);
    }
    test_free(n.link);
    tt_sched_bind_free(&n.bind);
    return time;
}

static const char *const small_topos[] = {
    "star:6@1GB/s,3us",
    "star:5,ports=1@1GB/s,3us,100ps",
    "nics:10G,10G,10G,2.5G,1G",
    "nics:10G,10G,10G,2.5G,ports=1@10Gbps,1us",
    "ring:7@16GB/s,150ns",
    "ring:2",
    "ring:4@1GB/s,1us,0,half",
    "full:6@3GB/s,1us,7ps",
    "torus:3x2@16GB/s,150ns",
    "torus:4x4,ports=2@16GB/s,150ns",
    "mesh:2x3@1GB/s,1us,0,half",
    "hypercube:8",
    "fattree:2,3",
    "dln:9,t=2",
    "tree:((2 3)(2 1))@100Gbps/25Gbps/10Gbps",
};

static void test_against_naive(void **state)
{
    (void)state;
    static const uint32_t ks[] = {1, 2, 3, 8, 64};
    static const uint64_t counts[] = {0, 1, 1000, 4801};
    size_t nalgos, compared = 0;
    const struct tt_algo *const *algos = tt_algo_table(&nalgos);
    for (size_t i = 0; i < countof(small_topos); i++) {
        struct tt_topo *t = topo_of(small_topos[i]);
        for (size_t a = 0; a < nalgos; a++)
            for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++)
                for (size_t j = 0; j < countof(ks) + countof(counts) - 1; j++) {
                    uint32_t k = j < countof(ks) ? ks[j] : 1;
                    uint64_t count = counts[j < countof(ks) ? 3 : j - countof(ks)];
                    struct tt_sched *s = build(algos[a], t, (tutti_coll)coll, count, k);
                    if (!s)
                        break;
                    if (cost_of(s, t, count).time_ps != naive_time(s, t, count))
                        fail_msg("%s %s on %s, %u segments", algos[a]->name, tt_sched_coll_name((tutti_coll)coll), small_topos[i], k);
                    compared++;
                    tt_sched_free(s);
                }
        tt_topo_free(t);
    }
    assert_true(compared > 1000);
}

static void test_host_overhead(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:4@1GB/s,1us");
    t->overhead_ps = 700;
    struct tt_sched *s = build(tt_algo_find("direct"), t, TUTTI_ALLREDUCE, 4096, 1);
    struct tt_cost c = cost_of(s, t, 4096);
    assert_int_equal(c.overhead_ps, 2 * 3 * 700);
    s->shape.segments = 5;
    assert_int_equal(cost_of(s, t, 4096).time_ps, naive_time(s, t, 4096));
    tt_sched_free(s);
    tt_topo_free(t);
}

/* ---- by symmetry ---- */

static void same_cost(const struct tt_cost *a, const struct tt_cost *b)
{
    assert_int_equal(a->time_ps, b->time_ps);
    assert_int_equal(a->latency_ps, b->latency_ps);
    assert_int_equal(a->transfer_ps, b->transfer_ps);
    assert_int_equal(a->reduce_ps, b->reduce_ps);
    assert_int_equal(a->overhead_ps, b->overhead_ps);
    assert_int_equal(a->steps, b->steps);
    assert_int_equal(a->busiest_link, b->busiest_link);
    assert_int_equal(a->busiest_bytes, b->busiest_bytes);
    assert_int_equal(a->max_link_contention, b->max_link_contention);
    assert_int_equal(a->messages, b->messages);
    assert_int_equal(a->bytes, b->bytes);
}

/* From rank 0 alone, exact by its own word, and the same in all fields; for all these segment counts of one schedule. */
static void check_symmetric(const struct tt_algo *al, const struct tt_topo *t, tutti_coll coll, uint64_t count, size_t *compared)
{
    static const uint32_t ks[] = {1, 2, 4};
    struct tutti_error err = {0};
    struct tt_sched *s = build(al, t, coll, count, 1);
    for (size_t i = 0; i < countof(ks) && s && s->shape.symmetric && !s->shape.weights; i++) {
        s->shape.segments = ks[i];
        struct tt_cost whole = cost_of(s, t, count), one;
        if (tt_cost_symmetric(s, t, count, TUTTI_F32, &one, &err) != TUTTI_OK)
            fail_msg("%s on %s: %s", al->name, t->spec, err.text);
        assert_true(one.by_symmetry && !whole.by_symmetry && whole.exact);
        if (one.time_ps != whole.time_ps || !one.exact || one.busiest_bytes != whole.busiest_bytes)
            fail_msg("%s %s of %llu elements on %s in %u segments: %llu ps by symmetry (exact %d), %llu ps whole", al->name,
                     tt_sched_coll_name(coll), (unsigned long long)count, t->spec, ks[i], (unsigned long long)one.time_ps, one.exact,
                     (unsigned long long)whole.time_ps);
        same_cost(&one, &whole);
        (*compared)++;
    }
    tt_sched_free(s);
}

/* All algorithms and collectives on a network given as "ring:%u@...". */
static void check_symmetric_on(const char *form, uint32_t ranks, size_t *compared)
{
    const uint64_t counts[] = {UINT64_C(16) * 2 * ranks * 6, 0, 1, ranks - 1, ranks + 1, 1009, 1 << 20 | 3};
    size_t nalgos, ncounts = countof(counts);
    const struct tt_algo *const *algos = tt_algo_table(&nalgos);
    char spec[80];
    snprintf(spec, sizeof(spec), form, ranks);
    struct tt_topo *t = topo_of(spec);
    assert_true(t->rotational);
    for (size_t a = 0; a < nalgos; a++)
        for (int coll = 0; coll < TUTTI_COLL_COUNT; coll++)
            for (size_t i = ranks > 17 ? ncounts - 2 : 0; i < ncounts; i++)
                check_symmetric(algos[a], t, (tutti_coll)coll, counts[i], compared);
    tt_topo_free(t);
}

static void test_symmetric(void **state)
{
    (void)state;
    static const char *const forms[] = {
        "star:%u@1GB/s,3us", "star:%u,ports=1@1GB/s,3us,10ps,half", "ring:%u@16GB/s,150ns,3ps", "ring:%u@1GB/s,1us,0,half",
        "full:%u",           "full:%u,ports=2@1GB/s,1us,0,half",    "dln:%u@1GB/s,1us,5ps",     "dln:%u,t=1@1GB/s,1us,0,half",
    };
    static const uint32_t ranks[] = {2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 31, 33, 64, 101};
    size_t compared = 0;
    for (size_t i = 0; i < countof(forms); i++)
        for (size_t j = 0; j < countof(ranks); j++)
            if ((forms[i][0] != 'd' || ranks[j] >= 4) && (!strstr(forms[i], "half") || ranks[j] <= 17))
                check_symmetric_on(forms[i], ranks[j], &compared);
    assert_true(compared > 15000);
}

/* More segments than steps, and the search. */
static void test_symmetric_many_segments(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("ring:7@1GB/s,1us,1ps");
    struct tt_algo_args a = args_for(t, TUTTI_ALLREDUCE, 100003);
    struct tt_sched *s = build(tt_algo_find("circulant"), t, TUTTI_ALLREDUCE, 100003, 1), *one;
    struct tt_cost whole, c;
    uint32_t k, one_k;
    assert_int_equal(tt_algo_slice(tt_algo_find("circulant"), &a, 0, 1, &one, NULL), TUTTI_OK);
    for (k = 1; k <= 4096; k *= 3) {
        s->shape.segments = one->shape.segments = k;
        assert_int_equal(tt_cost_symmetric(one, t, 100003, TUTTI_F32, &c, NULL), TUTTI_OK);
        whole = cost_of(s, t, 100003);
        assert_true(c.exact);
        same_cost(&c, &whole);
    }
    assert_int_equal(tt_cost_best_segments(s, t, 100003, TUTTI_F32, 1 << 12, &k, &whole, NULL), TUTTI_OK);
    assert_int_equal(tt_cost_best_segments(one, t, 100003, TUTTI_F32, 1 << 12, &one_k, &c, NULL), TUTTI_OK);
    assert_int_equal(k, one_k);
    same_cost(&c, &whole);
    tt_sched_free(s);
    tt_sched_free(one);
    tt_topo_free(t);
}

static void test_symmetric_huge(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("star:65536@1GB/s,5us");
    struct tt_algo_args a = args_for(t, TUTTI_ALLREDUCE, UINT64_C(1) << 26);
    struct tt_sched *s;
    struct tt_cost c;
    assert_int_equal(tt_algo_slice(tt_algo_find("ring"), &a, 0, 1, &s, NULL), TUTTI_OK);
    assert_int_equal(tt_cost_symmetric(s, t, UINT64_C(1) << 26, TUTTI_F32, &c, NULL), TUTTI_OK);
    assert_int_equal(c.time_ps, 131070 * (UINT64_C(10000000) + 4096 * 1000));
    assert_int_equal(c.messages, UINT64_C(131070) * 65536);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Every rank r of 5 sends chunks r+4 and r+5 to r+1; at rank 0 these are the last and the first. */
static struct tt_sched *around_the_end(void)
{
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 5, .chunks = 5, .nbufs = 2, .segments = 1, .symmetric = true};
    struct tt_builder b;
    struct tt_sched *s;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < 5; r++) {
        struct tt_span send[2], recv[2];
        size_t ns = tt_sched_span_cyclic(TT_BUF_IN, TT_BUF_IN, r + 4, 2, 5, send),
               nr = tt_sched_span_cyclic(TT_BUF_OUT, TT_BUF_IN, r + 3, 2, 5, recv);
        tt_sched_build_rank(&b, r);
        tt_sched_emit_send(&b, 0, (r + 1) % 5, 0, send, ns);
        tt_sched_emit_recv_reduce(&b, 0, (r + 4) % 5, 0, recv, nr);
    }
    assert_int_equal(tt_sched_build_freeze(&b, &s, NULL), TUTTI_OK);
    return s;
}

static void test_symmetric_around_the_end(void **state)
{
    (void)state;
    /* 12 elements in 5 chunks of 2 or 3: two chunks in a row have at most 5 elements, also around the end */
    struct tt_topo *t = topo_of("star:5@1GB/s,0");
    struct tt_sched *s = around_the_end();
    struct tt_cost c;
    assert_int_equal(tt_cost_symmetric(s, t, 12, TUTTI_F32, &c, NULL), TUTTI_OK);
    assert_int_equal(c.transfer_ps, 5 * 4000);
    assert_int_equal(cost_of(s, t, 12).transfer_ps, 5 * 4000);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* Every rank r of 64 sends every third of 600,000 x 3 chunks, from its own first one on, to r+1. */
static struct tt_sched *scattered(void)
{
    const uint32_t ranks = 64, chunks = 1 << 21, reps = 600000;
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = ranks, .chunks = chunks, .nbufs = 2, .segments = 1, .symmetric = true};
    struct tt_builder b;
    struct tt_sched *s;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < ranks; r++) {
        uint32_t first = r * (chunks / ranks), before = (chunks - first + 2) / 3;
        before = before < reps ? before : reps;
        struct tt_span part[2] = {{.first = first, .len = 1, .stride = 3, .reps = before, .buf = TT_BUF_IN}};
        part[1] = (struct tt_span){.first = first + 3 * before - chunks, .len = 1, .stride = 3, .reps = reps - before, .buf = TT_BUF_IN};
        tt_sched_build_rank(&b, r);
        tt_sched_emit_send(&b, 0, (r + 1) % ranks, 0, part, before < reps ? 2 : 1);
    }
    assert_int_equal(tt_sched_build_freeze(&b, &s, NULL), TUTTI_OK);
    return s;
}

static void test_symmetric_upper_bound(void **state)
{
    (void)state;
    /* too many places of too many chunks to compare: each chunk counts with its largest size */
    struct tt_topo *t = topo_of("star:64@1GB/s,1us");
    struct tt_sched *s = scattered();
    const uint64_t count = (UINT64_C(1) << 21) + 1000003;
    struct tt_cost c, whole = cost_of(s, t, count);
    assert_int_equal(tt_cost_symmetric(s, t, count, TUTTI_F32, &c, NULL), TUTTI_OK);
    assert_false(c.exact);
    assert_int_equal(c.transfer_ps, UINT64_C(600000) * 2 * 4 * 1000);
    assert_true(whole.transfer_ps < c.transfer_ps);
    assert_int_equal(c.latency_ps, whole.latency_ps);
    assert_int_equal(c.messages, whole.messages);
    assert_int_equal(c.bytes, whole.bytes);
    s->shape.segments = 4;
    assert_int_equal(tt_cost_symmetric(s, t, count, TUTTI_F32, &c, NULL), TUTTI_OK);
    assert_false(c.exact);
    assert_true(c.time_ps > cost_of(s, t, count).time_ps);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_symmetric_refusals(void **state)
{
    (void)state;
    struct tutti_error err = {0};
    struct tt_topo *t = topo_of("torus:4x2"), *star = topo_of("star:8");
    struct tt_sched *s = build(tt_algo_find("ring"), t, TUTTI_ALLREDUCE, 800, 1);
    struct tt_cost c;
    assert_true(s->shape.symmetric);
    assert_int_equal(tt_cost_symmetric(s, t, 800, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    s->shape.symmetric = false;
    assert_int_equal(tt_cost_symmetric(s, star, 800, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    tt_sched_free(s);
    tt_topo_free(t);
    tt_topo_free(star);
}

/* ---- segments ---- */

static void test_best_segments(void **state)
{
    (void)state;
    static const char *const names[] = {"chain", "double-tree", "ring"};
    struct tt_topo *t = topo_of("star:9@1GB/s,20us");
    for (size_t i = 0; i < countof(names); i++) {
        struct tt_sched *s = build(tt_algo_find(names[i]), t, TUTTI_ALLREDUCE, 1 << 20, 1);
        uint64_t least = UINT64_MAX, power_ps[11];
        uint32_t least_k = 0, k;
        struct tt_cost c;
        assert_int_equal(tt_cost_best_segments(s, t, 1 << 20, TUTTI_F32, 1000, &k, &c, NULL), TUTTI_OK);
        for (uint32_t x = 1, power = 1; x <= 1000; x = x == power && x > 1 ? power / 2 * 3 : (power *= 2)) {
            s->shape.segments = x; /* 1, 2, 3, 4, 6, 8, 12, .. */
            uint64_t time = cost_of(s, t, 1 << 20).time_ps;
            least_k = time < least ? x : least_k;
            least = time < least ? time : least;
            if (x == power)
                power_ps[__builtin_ctz(x)] = time;
        }
        /* the fewest of 1, 2, 4, .. that take at most 0.1 % longer, if there are such */
        for (unsigned x = 0; 1u << x < least_k; x++)
            if (power_ps[x] <= least + least / 1000) {
                least_k = 1u << x;
                least = power_ps[x];
            }
        assert_int_equal(k, least_k);
        assert_int_equal(c.time_ps, least);
        tt_sched_free(s);
    }
    tt_topo_free(t);
}

static void test_segments_end(void **state)
{
    (void)state;
    /* without latency more segments are always better: the limits are 64 bytes each, 4096, and what saves less than 0.1 % */
    struct tt_topo *t = topo_of("ring:5@1GB/s,0");
    struct tt_sched *s = build(tt_algo_find("chain"), t, TUTTI_BROADCAST, 100, 1);
    struct tt_cost c;
    uint32_t k;
    assert_int_equal(tt_cost_best_segments(s, t, 100, TUTTI_F32, 1 << 20, &k, &c, NULL), TUTTI_OK);
    assert_int_equal(k, 6);
    assert_int_equal(tt_cost_best_segments(s, t, 1 << 28, TUTTI_F32, 1 << 16, &k, &c, NULL), TUTTI_OK);
    assert_int_equal(k, 2048); /* 1 + 3/2048 is within 0.1 % of 1 + 3/4096 */
    assert_int_equal(tt_cost_best_segments(s, t, 0, TUTTI_F32, 1 << 20, &k, &c, NULL), TUTTI_OK);
    assert_int_equal(k, 1);
    tt_sched_free(s);
    tt_topo_free(t);
}

/* ---- routes of the schedule, misfits ---- */

/* Rank 0 sends one chunk to rank 1 of a ring of 4, on a route of the schedule's own choice. */
static struct tt_sched *routed(const struct tt_topo *t, const uint32_t *links, uint32_t n, uint64_t hash)
{
    struct tt_shape shape = {.coll = TUTTI_BROADCAST, .ranks = 4, .chunks = 1, .nbufs = 2, .segments = 1, .topo_hash = hash};
    struct tt_span span = tt_sched_span_range(TT_BUF_IN, 0, 1), out = tt_sched_span_range(TT_BUF_OUT, 0, 1);
    struct tt_builder b;
    struct tt_sched *s;
    (void)t;
    tt_sched_build_begin(&b, &shape, 0);
    for (uint32_t r = 0; r < 4; r++) {
        tt_sched_build_rank(&b, r);
        if (r == 0)
            tt_sched_emit_send(&b, 0, 1, 0, &span, 1);
        if (r == 1)
            tt_sched_emit_recv(&b, 0, 0, 0, &out, 1);
    }
    tt_sched_build_route(&b, 0, 1, 0, links, n);
    assert_int_equal(tt_sched_build_freeze(&b, &s, NULL), TUTTI_OK);
    return s;
}

/* The directed link from a to b. */
static uint32_t link_between(const struct tt_topo *t, uint32_t a, uint32_t b)
{
    for (uint32_t k = t->g.start[a]; k < t->g.start[a + 1]; k++)
        if (t->g.head[k] == b)
            return t->g.id[k];
    fail_msg("no link %u-%u", a, b);
    return 0;
}

static void test_own_routes(void **state)
{
    (void)state;
    struct tutti_error err = {0};
    struct tt_topo *t = topo_of("ring:4@1GB/s,1us");
    struct tt_cost c;
    uint32_t way[] = {link_between(t, 0, 3), link_between(t, 3, 2), link_between(t, 2, 1)}, broken[] = {way[0], way[2]}, wild[] = {77};
    struct tt_sched *s = routed(t, way, 3, t->hash);
    assert_int_equal(cost_of(s, t, 250).latency_ps, 3000000);
    tt_sched_free(s);
    s = routed(t, way, 3, t->hash + 1); /* meant for another network */
    assert_int_equal(cost_of(s, t, 250).latency_ps, 1000000);
    tt_sched_free(s);
    s = routed(t, broken, 2, t->hash);
    assert_int_equal(tt_cost_sched(s, t, 250, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    tt_sched_free(s);
    s = routed(t, way, 2, t->hash);
    assert_int_equal(tt_cost_sched(s, t, 250, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    tt_sched_free(s);
    uint32_t circles[] = {link_between(t, 0, 1), link_between(t, 1, 0), link_between(t, 0, 1)};
    s = routed(t, circles, 3, t->hash);
    assert_int_equal(tt_cost_sched(s, t, 250, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    assert_non_null(strstr(err.text, "has been"));
    tt_sched_free(s);
    s = routed(t, wild, 1, t->hash);
    assert_int_equal(tt_cost_sched(s, t, 250, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_misfits(void **state)
{
    (void)state;
    struct tutti_error err = {0};
    struct tt_topo *t = topo_of("star:8"), *other = topo_of("star:7"), *slow = topo_of("star:8@1B/s,1us");
    struct tt_sched *s = build(tt_algo_find("ring"), t, TUTTI_ALLREDUCE, 800, 1), *part;
    struct tt_algo_args a = args_for(t, TUTTI_ALLREDUCE, 800);
    struct tt_cost c;
    assert_int_equal(tt_cost_sched(s, other, 800, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    assert_non_null(strstr(err.text, "8 ranks"));
    assert_int_equal(tt_algo_slice(tt_algo_find("ring"), &a, 0, 1, &part, NULL), TUTTI_OK);
    assert_int_equal(tt_cost_sched(part, t, 800, TUTTI_F32, &c, &err), TUTTI_ERR_MISMATCH);
    assert_int_equal(tt_cost_sched(s, slow, UINT64_C(1) << 40, TUTTI_F32, &c, &err), TUTTI_ERR_RANGE); /* 139,000 years */
    tt_sched_free(s);
    tt_sched_free(part);
    tt_topo_free(t);
    tt_topo_free(other);
    tt_topo_free(slow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ring_on_star),
        cmocka_unit_test(test_ring_on_ring),
        cmocka_unit_test(test_rounding_up),
        cmocka_unit_test(test_gamma),
        cmocka_unit_test(test_direct_contention),
        cmocka_unit_test(test_declared_ports),
        cmocka_unit_test(test_half_duplex),
        cmocka_unit_test(test_chain_pipelined),
        cmocka_unit_test(test_no_ranks_to_talk_to),
        cmocka_unit_test(test_against_naive),
        cmocka_unit_test(test_host_overhead),
        cmocka_unit_test(test_symmetric),
        cmocka_unit_test(test_symmetric_many_segments),
        cmocka_unit_test(test_symmetric_huge),
        cmocka_unit_test(test_symmetric_around_the_end),
        cmocka_unit_test(test_symmetric_upper_bound),
        cmocka_unit_test(test_symmetric_refusals),
        cmocka_unit_test(test_best_segments),
        cmocka_unit_test(test_segments_end),
        cmocka_unit_test(test_own_routes),
        cmocka_unit_test(test_misfits),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
