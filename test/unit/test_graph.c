/* Graph algorithms against brute force: distances by relaxing all arcs until nothing changes, flows by trying every cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "graph/graph.h"

enum { MAX_N = 40, MAX_ARCS = 400 };

struct sample {
    uint32_t n, narcs;
    uint32_t tail[MAX_ARCS], head[MAX_ARCS];
    uint64_t weight[MAX_ARCS];
};

/* Parallel arcs, self-loops and zero weights occur. */
static void random_sample(struct tt_rng *r, uint32_t max_n, uint32_t max_arcs, uint64_t max_weight, struct sample *s)
{
    s->n = 2 + (uint32_t)tt_rng_below(r, max_n - 1);
    s->narcs = (uint32_t)tt_rng_below(r, max_arcs + 1);
    for (uint32_t k = 0; k < s->narcs; k++) {
        s->tail[k] = (uint32_t)tt_rng_below(r, s->n);
        s->head[k] = (uint32_t)tt_rng_below(r, s->n);
        s->weight[k] = tt_rng_below(r, max_weight + 1);
    }
}

static void compressed_form(void **state)
{
    static const uint32_t tail[] = {0, 2, 0, 1}, head[] = {1, 0, 2, 2};
    static const uint32_t start[] = {0, 2, 3, 4}, heads[] = {1, 2, 2, 0}, ids[] = {0, 2, 3, 1};
    struct tt_graph g;
    struct tutti_error err = {0};

    (void)state;
    assert_int_equal(tt_graph_make(3, 4, tail, head, &g, &err), TUTTI_OK);
    assert_memory_equal(g.start, start, sizeof start);
    assert_memory_equal(g.head, heads, sizeof heads);
    assert_memory_equal(g.id, ids, sizeof ids);
    tt_graph_free(&g);
    assert_null(g.start);
    tt_graph_free(&g);
    assert_int_equal(tt_graph_make(2, 4, tail, head, &g, &err), TUTTI_ERR_ARG);
    assert_non_null(strstr(err.text, "arc 1 joins 2 and 0"));
    assert_int_equal(tt_graph_make(0, 0, NULL, NULL, &g, &err), TUTTI_OK);
    assert_int_equal(g.start[0], 0);
    tt_graph_free(&g);
}

static void check_compressed(const struct sample *s, const struct tt_graph *g)
{
    uint8_t seen[MAX_ARCS] = {0};

    assert_int_equal(g->start[0], 0);
    assert_int_equal(g->start[s->n], s->narcs);
    for (uint32_t v = 0; v < s->n; v++)
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            uint32_t id = g->id[k];
            assert_int_equal(seen[id]++, 0);
            assert_int_equal(s->tail[id], v);
            assert_int_equal(s->head[id], g->head[k]);
            if (k > g->start[v])
                assert_true(g->id[k - 1] < id);
        }
}

/* Bellman-Ford with the given lengths (NULL: 1 each). */
static void brute_distances(const struct sample *s, uint32_t source, const uint64_t *length, uint64_t *dist)
{
    for (uint32_t v = 0; v < s->n; v++)
        dist[v] = v == source ? 0 : UINT64_MAX;
    for (uint32_t round = 0; round < s->n; round++)
        for (uint32_t k = 0; k < s->narcs; k++) {
            uint64_t d = dist[s->tail[k]];
            if (d != UINT64_MAX && d + (length ? length[k] : 1) < dist[s->head[k]])
                dist[s->head[k]] = d + (length ? length[k] : 1);
        }
}

static void check_tree(const struct sample *s, uint32_t source, const uint64_t *dist, const uint32_t *via)
{
    for (uint32_t v = 0; v < s->n; v++) {
        if (v == source || dist[v] == UINT64_MAX) {
            assert_true(via[v] == UINT32_MAX);
            continue;
        }
        assert_true(via[v] < s->narcs);
        assert_int_equal(s->head[via[v]], v);
        assert_true(dist[s->tail[via[v]]] + s->weight[via[v]] == dist[v]);
    }
}

static void distances(void **state)
{
    struct tt_rng r;
    struct sample s;

    (void)state;
    tt_rng_seed(&r, 3);
    for (int i = 0; i < 300; i++) {
        struct tt_graph g;
        uint32_t hops[MAX_N], queue[MAX_N], via[MAX_N];
        uint64_t dist[MAX_N], want[MAX_N];
        random_sample(&r, MAX_N, i % 2 ? MAX_ARCS : 60, i % 3 ? 1000 : 3, &s);
        assert_int_equal(tt_graph_make(s.n, s.narcs, s.tail, s.head, &g, NULL), TUTTI_OK);
        check_compressed(&s, &g);
        uint32_t source = (uint32_t)tt_rng_below(&r, s.n);
        tt_graph_bfs(&g, source, hops, queue);
        brute_distances(&s, source, NULL, want);
        for (uint32_t v = 0; v < s.n; v++)
            assert_true(want[v] == UINT64_MAX ? hops[v] == UINT32_MAX : hops[v] == want[v]);
        assert_int_equal(tt_graph_dijkstra(&g, source, s.weight, dist, via, NULL), TUTTI_OK);
        brute_distances(&s, source, s.weight, want);
        assert_memory_equal(dist, want, s.n * sizeof *dist);
        check_tree(&s, source, dist, via);
        assert_int_equal(tt_graph_dijkstra(&g, source, s.weight, want, NULL, NULL), TUTTI_OK);
        assert_memory_equal(dist, want, s.n * sizeof *dist);
        tt_graph_free(&g);
    }
}

static void far_distances(void **state)
{
    static const uint32_t tail[] = {0, 1}, head[] = {1, 2};
    static const uint64_t length[] = {UINT64_MAX - 5, 100};
    struct tt_graph g;
    uint64_t dist[3];

    (void)state;
    assert_int_equal(tt_graph_make(3, 2, tail, head, &g, NULL), TUTTI_OK);
    assert_int_equal(tt_graph_dijkstra(&g, 0, length, dist, NULL, NULL), TUTTI_OK);
    assert_true(dist[1] == UINT64_MAX - 5);
    assert_true(dist[2] == UINT64_MAX - 1);
    tt_graph_free(&g);
}

/* ---- maximum flow ---- */

static uint64_t cut_capacity(const struct sample *s, uint32_t members)
{
    uint64_t sum = 0;

    for (uint32_t k = 0; k < s->narcs; k++)
        if ((members >> s->tail[k] & 1) && !(members >> s->head[k] & 1))
            sum += s->weight[k];
    return sum;
}

/* The least capacity over all vertex sets with s but not t; the smallest such set (they intersect in one) as *ret_members. */
static uint64_t brute_cut(const struct sample *s, uint32_t source, uint32_t sink, uint32_t *ret_members)
{
    uint64_t best = UINT64_MAX;

    for (uint32_t m = 0; m < 1u << s->n; m++) {
        if (!(m >> source & 1) || (m >> sink & 1))
            continue;
        uint64_t c = cut_capacity(s, m);
        if (c < best) {
            best = c;
            *ret_members = m;
        } else if (c == best)
            *ret_members &= m;
    }
    return best;
}

static void check_flow(const struct sample *s, struct tt_maxflow *f, uint32_t source, uint32_t sink)
{
    uint32_t want = 0, members = 0;
    uint8_t side[8];
    uint64_t best = brute_cut(s, source, sink, &want);
    uint64_t value = tt_graph_maxflow_run(f, s->weight, source, sink, UINT64_MAX);

    tt_graph_maxflow_side(f, side);
    for (uint32_t v = 0; v < s->n; v++)
        members |= (uint32_t)side[v] << v;
    assert_true(value == best);
    assert_int_equal(members, want);
    assert_true(cut_capacity(s, members) == value);
    assert_true(tt_graph_maxflow_run(f, s->weight, source, sink, value + 1) == value);
    if (value)
        assert_true(tt_graph_maxflow_run(f, s->weight, source, sink, value - 1) == value - 1);
}

static void flows_are_cuts(void **state)
{
    struct tt_rng r;
    struct sample s;

    (void)state;
    tt_rng_seed(&r, 11);
    for (int i = 0; i < 400; i++) {
        struct tt_maxflow *f;
        random_sample(&r, 8, i % 2 ? 24 : 60, i % 3 == 0 ? 1 : i % 3 == 1 ? 20 : UINT64_C(1) << 56, &s);
        assert_int_equal(tt_graph_maxflow_make(s.n, s.narcs, s.tail, s.head, &f, NULL), TUTTI_OK);
        for (int pair = 0; pair < 3; pair++) { /* one object, many runs */
            uint32_t source = (uint32_t)tt_rng_below(&r, s.n);
            uint32_t sink = (source + 1 + (uint32_t)tt_rng_below(&r, s.n - 1)) % s.n;
            check_flow(&s, f, source, sink);
        }
        tt_graph_maxflow_free(f);
    }
}

static void large_capacities(void **state)
{
    static const uint32_t tail[] = {0, 0, 1, 2}, head[] = {1, 2, 3, 3};
    static const uint64_t near[] = {UINT64_C(1) << 61, UINT64_C(1) << 61, UINT64_MAX / 2, UINT64_MAX / 2};
    static const uint64_t over[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 5};
    static const uint64_t beyond[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    struct tt_maxflow *f;

    (void)state;
    assert_int_equal(tt_graph_maxflow_make(4, 4, tail, head, &f, NULL), TUTTI_OK);
    assert_true(tt_graph_maxflow_run(f, near, 0, 3, UINT64_MAX) == UINT64_C(1) << 62);
    assert_true(tt_graph_maxflow_run(f, over, 0, 3, UINT64_MAX) == UINT64_MAX);
    assert_true(tt_graph_maxflow_run(f, beyond, 0, 3, UINT64_MAX) == UINT64_MAX);
    assert_true(tt_graph_maxflow_run(f, near, 0, 3, 0) == 0);
    assert_true(tt_graph_maxflow_run(f, near, 3, 0, UINT64_MAX) == 0);
    tt_graph_maxflow_free(f);
    tt_graph_maxflow_free(NULL);
}

static void bad_arcs(void **state)
{
    static const uint32_t tail[] = {0}, head[] = {5};
    struct tt_maxflow *f = NULL;
    struct tutti_error err = {0};

    (void)state;
    assert_int_equal(tt_graph_maxflow_make(4, 1, tail, head, &f, &err), TUTTI_ERR_ARG);
    assert_null(f);
    assert_int_equal(tt_graph_maxflow_make(4, UINT32_MAX, tail, head, &f, &err), TUTTI_ERR_LIMIT);
}

/* 64 ranks on 8 leaves, each leaf linked to 8 spines, so bisection is full: a pair is cut at a rank's own link, the halves at
 * the links of half of the ranks. */
static void fat_tree(void **state)
{
    enum { RANKS = 64, LEAVES = 8, SPINES = 8, N = RANKS + LEAVES + SPINES, ARCS = 2 * (RANKS + LEAVES * SPINES) };
    static uint32_t tail[ARCS + RANKS], head[ARCS + RANKS];
    static uint64_t cap[ARCS + RANKS];
    uint32_t n = 0;
    struct tt_maxflow *f;

    (void)state;
    for (uint32_t r = 0; r < RANKS; r++, n += 2) {
        tail[n] = head[n + 1] = r;
        head[n] = tail[n + 1] = RANKS + r / 8;
    }
    for (uint32_t leaf = 0; leaf < LEAVES; leaf++)
        for (uint32_t spine = 0; spine < SPINES; spine++, n += 2) {
            tail[n] = head[n + 1] = RANKS + leaf;
            head[n] = tail[n + 1] = RANKS + LEAVES + spine;
        }
    for (uint32_t k = 0; k < n; k++)
        cap[k] = UINT64_C(10000000000);
    assert_int_equal(tt_graph_maxflow_make(N, n, tail, head, &f, NULL), TUTTI_OK);
    for (uint32_t r = 1; r < RANKS; r++) {
        assert_true(tt_graph_maxflow_run(f, cap, 0, r, UINT64_MAX) == cap[0]);
        assert_true(tt_graph_maxflow_run(f, cap, r, 0, UINT64_MAX) == cap[0]);
    }
    tt_graph_maxflow_free(f);
    /* one super source behind the first half of the ranks, one super sink behind the second */
    for (uint32_t r = 0; r < RANKS; r++, n++) {
        tail[n] = r < RANKS / 2 ? N : r;
        head[n] = r < RANKS / 2 ? r : N + 1;
        cap[n] = UINT64_MAX / 256;
    }
    assert_int_equal(tt_graph_maxflow_make(N + 2, n, tail, head, &f, NULL), TUTTI_OK);
    assert_true(tt_graph_maxflow_run(f, cap, N, N + 1, UINT64_MAX) == cap[0] * RANKS / 2);
    tt_graph_maxflow_free(f);
}

/* A path of 200,000 arcs: recursion would exhaust the stack. */
static void deep(void **state)
{
    enum { N = 200000 };
    uint32_t *ends = malloc((N + 1) * sizeof *ends);
    uint64_t *cap = malloc(N * sizeof *cap);
    struct tt_maxflow *f;

    (void)state;
    assert_non_null(ends);
    assert_non_null(cap);
    for (uint32_t v = 0; v <= N; v++)
        ends[v] = v;
    for (uint32_t k = 0; k < N; k++)
        cap[k] = 7 + k % 5;
    assert_int_equal(tt_graph_maxflow_make(N + 1, N, ends, ends + 1, &f, NULL), TUTTI_OK);
    assert_int_equal(tt_graph_maxflow_run(f, cap, 0, N, UINT64_MAX), 7);
    tt_graph_maxflow_free(f);
    free(ends);
    free(cap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(compressed_form),  cmocka_unit_test(distances), cmocka_unit_test(far_distances), cmocka_unit_test(flows_are_cuts),
        cmocka_unit_test(large_capacities), cmocka_unit_test(bad_arcs),  cmocka_unit_test(fat_tree),      cmocka_unit_test(deep),
    };
    return cmocka_run_group_tests_name("graph", tests, NULL, NULL);
}
