/* partition.c - how much must pass between the parts of a partition of the ranks, for an
 * allreduce.
 *
 * Let disjoint sets of vertices ("parts") hold all ranks, at least one each; switches may be in
 * none. A part as a whole behaves like one rank: for every element the k parts need 2(k-1)
 * messages between each other (the first part that knows the sum took k-1, then each of the
 * other k-1 must still get it). Each message leaves one part and enters another, so
 *
 *     T >= 4 (k-1) S / sum over parts of the capacity of its links to elsewhere,
 *                      both directions together (a half-duplex link once)
 *
 *     ring of 4 at b per direction, four parts:   4*3 S / (4 * 4b) = 0.75 S/b
 *     (a cut alone proves 0.5 S/b)
 *
 * In a switchless network of full-duplex links that are equal in both directions, the best
 * partition is exactly what tree packings reach (Tutte, Nash-Williams 1961): the smallest cable
 * capacity between parts over k-1 is the tree-packing number, and T = S / that number is
 * possible in the limit of small segments.
 *
 * The best partition is found exactly and in integers. Let U(P) be the sum above and u/d =
 * U/(k-1) the best ratio so far. Look for a partition with sum over parts (d * capacity - u) + u
 * < 0; take it and ask again (Newton's method). That minimum over partitions is found greedily
 * (Dilworth truncation): ranks arrive one by one, and x(v) is the least of d * capacity(A) - u -
 * x(A without v) over sets A of v and earlier ranks, a minimum cut in which switches go where
 * they cost least. v's set then absorbs the parts that it meets. Smallest minimum cuts around
 * the parts give them their switches and cannot overlap.
 *
 * Cost: ranks flows per round, a few rounds. Where that is too much, or capacities are too large
 * for 64 bits, only the partition into single ranks is examined. Networks that look the same
 * from every rank need no more: every part has at least the links of one rank (Mader), so k
 * parts prove no more than `ranks` parts. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "bound/bound_int.h"

enum { MAX_WORK = 50000000, MAX_ROUNDS = 32 };

/* The flow network: undirected links as arcs in both directions, then arcs s -> rank and rank ->
 * t for every rank. s is vertex n, t is n + 1. */
struct cutter {
    const struct tt_ask *q;
    struct tt_maxflow *f;
    uint32_t n, links, narcs;
    uint64_t *cap;
    uint8_t *side;
    int64_t *x;     /* by rank: x(v) of the Dilworth truncation */
    uint32_t *part; /* by rank: some rank that stands for its part */
};

static void cutter_close(struct cutter *c)
{
    tt_graph_maxflow_free(c->f);
    free(c->cap);
    free(c->side);
    free(c->x);
    free(c->part);
}

static tutti_status cutter_open(struct cutter *c, struct tutti_error *err)
{
    const struct tt_topo *t = c->q->t;
    c->n = t->ranks + t->switches;
    c->links = 2 * t->nlinks;
    c->narcs = c->links + 2 * t->ranks;
    c->cap = tt_zalloc(c->narcs, sizeof *c->cap);
    c->side = tt_alloc((size_t)c->n + 2, 1);
    c->x = tt_alloc(t->ranks, sizeof *c->x);
    c->part = tt_alloc(t->ranks, sizeof *c->part);
    if (!c->cap || !c->side || !c->x || !c->part)
        return tt_fail_memory(err, "partitions");
    return tt_bound_flow_make(t, &c->f, err);
}

/* The capacity of a cable, both directions together. */
static uint64_t cable(const struct tt_ask *q, uint32_t i)
{
    return q->t->links[i].half ? q->cap[2 * i] : q->cap[2 * i] + q->cap[2 * i + 1];
}

/* Sets the link capacities times `factor`, and no capacity at s and t. */
static void set_links(struct cutter *c, uint64_t factor)
{
    for (uint32_t i = 0; i < c->q->t->nlinks; i++)
        c->cap[2 * i] = c->cap[2 * i + 1] = cable(c->q, i) * factor;
    memset(c->cap + c->links, 0, (size_t)(c->narcs - c->links) * sizeof *c->cap);
}

static uint64_t *from_source(struct cutter *c, uint32_t rank)
{
    return &c->cap[c->links + rank];
}

static uint64_t *to_sink(struct cutter *c, uint32_t rank)
{
    return &c->cap[c->links + c->q->p + rank];
}

enum { BEYOND = 62 }; /* 2^62 is more than any sum of capacities here: an arc never cut */

/* Computes x(v) by a minimum cut, then merges v with the parts that the cut's set meets. An
 * earlier rank is rewarded (x > 0: arc from s) or charged (x < 0: arc to t) for being in the
 * set; v must be in it, later ranks must not. */
static void partition_arrive(struct cutter *c, uint32_t v, uint64_t u)
{
    uint64_t reward = 0;
    for (uint32_t w = 0; w < c->q->p; w++) {
        *from_source(c, w) = w == v                 ? UINT64_C(1) << BEYOND
                             : w < v && c->x[w] > 0 ? (uint64_t)c->x[w]
                                                    : 0;
        *to_sink(c, w) = w > v                  ? UINT64_C(1) << BEYOND
                         : w < v && c->x[w] < 0 ? (uint64_t)-c->x[w]
                                                : 0;
        reward += w < v && c->x[w] > 0 ? (uint64_t)c->x[w] : 0;
    }
    assert(reward < UINT64_C(1) << BEYOND);
    uint64_t cut = tt_graph_maxflow_run(c->f, c->cap, c->n, c->n + 1, UINT64_MAX);
    c->x[v] = (int64_t)cut - (int64_t)reward - (int64_t)u;
    tt_graph_maxflow_side(c->f, c->side);
    c->part[v] = v;
    for (uint32_t w = 0; w < v; w++) {
        if (!c->side[w] || c->part[w] == c->part[v])
            continue;
        uint32_t old = c->part[w];
        for (uint32_t y = 0; y < v; y++)
            if (c->part[y] == old)
                c->part[y] = v;
    }
}

/* Finds a partition with the least sum over parts (d * capacity - u); returns whether it beats
 * u/d. The sum of all x(v) is that minimum. */
static bool better_partition(struct cutter *c, uint64_t u, uint64_t d)
{
    assert(d > 0 && u <= INT64_MAX);
    int64_t sum = (int64_t)u;
    set_links(c, d);
    for (uint32_t v = 0; v < c->q->p; v++) {
        partition_arrive(c, v, u);
        sum += c->x[v];
    }
    return sum < 0;
}

/* Puts every vertex into its part, numbered from 0 (UINT32_MAX: none). Returns the capacity U
 * out of and into parts; *ret_k: their number. A link between two parts counts for both. */
static uint64_t partition_measure(struct cutter *c, uint32_t *of, uint32_t *ret_k)
{
    const struct tt_topo *t = c->q->t;
    uint32_t k = 0;
    uint64_t sum = 0;
    memset(of, 0xff, (size_t)c->n * sizeof *of);
    set_links(c, 1);
    for (uint32_t v = 0; v < t->ranks; v++) {
        if (of[v] != UINT32_MAX)
            continue;
        for (uint32_t w = 0; w < t->ranks; w++) {
            *from_source(c, w) = c->part[w] == c->part[v] ? UINT64_C(1) << BEYOND : 0;
            *to_sink(c, w) = c->part[w] == c->part[v] ? 0 : UINT64_C(1) << BEYOND;
        }
        tt_graph_maxflow_run(c->f, c->cap, c->n, c->n + 1, UINT64_MAX);
        tt_graph_maxflow_side(c->f, c->side);
        for (uint32_t w = 0; w < c->n; w++)
            if (c->side[w] && of[w] == UINT32_MAX)
                of[w] = k;
        k++;
    }
    for (uint32_t i = 0; i < t->nlinks; i++) {
        uint32_t a = of[t->links[i].a], b = of[t->links[i].b];
        if (a != b)
            sum += cable(c->q, i) * ((a != UINT32_MAX ? 1u : 0u) + (b != UINT32_MAX ? 1u : 0u));
    }
    *ret_k = k;
    return sum;
}

/* The best partition so far; `next` is the memory for the following one. */
struct partition {
    uint32_t *of, *next;
    uint32_t k;
    uint64_t sum;
    bool complete;
};

/* Newton's steps, starting from the partition into single ranks. Invariant: `best` is a valid
 * partition with its sum. */
static void partition_improve(struct cutter *c, struct partition *best)
{
    uint32_t k;
    best->complete = false;
    for (int round = 0; round < MAX_ROUNDS && !best->complete; round++) {
        if (best->k < 2 || !better_partition(c, best->sum, best->k - 1)) {
            best->complete = true;
            break;
        }
        uint64_t sum = partition_measure(c, best->next, &k);
        assert(k >= 2);
        if ((unsigned __int128)sum * (best->k - 1) >= (unsigned __int128)best->sum * (k - 1))
            break; /* impossible with exact capacities; guards against a loop */
        uint32_t *of = best->of;
        best->of = best->next;
        best->next = of;
        best->k = k;
        best->sum = sum;
    }
}

/* May the flows run? The sums of partition_arrive must fit 62 bits, and the work its limit. */
static bool affordable(const struct cutter *c)
{
    const struct tt_ask *q = c->q;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < q->t->nlinks; i++)
        sum += cable(q, i);
    return sum < (UINT64_C(1) << 58) / q->p && (uint64_t)q->p * c->narcs * 8 <= MAX_WORK;
}

/* Sets b->tight where tree packings reach the bound. */
static void whole_story(const struct tt_ask *q, struct tt_bound *b)
{
    b->tight = b->complete && q->t->switches == 0 && q->even && !q->half;
    /* ports must not limit what the links could carry */
    for (uint32_t r = 0; r < q->p && b->tight; r++) {
        uint64_t out = 0;
        for (uint32_t k = q->t->g.start[r]; k < q->t->g.start[r + 1]; k++)
            out += q->cap[q->t->g.id[k]];
        b->tight = tt_bound_cap(q, tt_topo_egress(q->t, r)) >= out &&
                   tt_bound_cap(q, tt_topo_ingress(q->t, r)) >= out;
    }
}

static tutti_status partition_prove(struct cutter *c, struct partition *best, struct tt_bound *b,
                                    struct tutti_error *err)
{
    const struct tt_ask *q = c->q;
    for (uint32_t v = 0; v < q->p; v++)
        c->part[v] = v;
    best->sum = partition_measure(c, best->of, &best->k);
    best->complete = tt_bound_cut_transitive(q);
    if (!best->complete && affordable(c))
        partition_improve(c, best);
    struct tt_ratio r = {4 * (uint64_t)(best->k - 1) * q->bytes, best->sum};
    tutti_status st = tt_bound_ratio_time(q, r, &b->time_ps, err);
    if (st)
        return st;
    b->applies = true;
    b->complete = best->complete;
    b->both = true;
    b->bytes = (double)r.bytes;
    b->capacity = tt_bound_ratio_capacity(q, r);
    b->parts = best->k;
    b->part = best->of;
    best->of = NULL; /* b owns it now */
    whole_story(q, b);
    tt_bound_words_partition(q, b);
    return TUTTI_OK;
}

/* Other collectives have no partition bound beyond cuts; `flows` is the work of one round. */
tutti_status tt_bound_partition(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    struct cutter c = {.q = q};
    struct partition best = {0};
    uint64_t flows = (uint64_t)q->p * (2 * (uint64_t)q->t->nlinks + 2 * (uint64_t)q->p);
    if (q->coll != TUTTI_ALLREDUCE || flows > MAX_WORK) {
        b->complete = q->coll != TUTTI_ALLREDUCE;
        snprintf(b->text, sizeof b->text, "%s",
                 q->coll != TUTTI_ALLREDUCE ? "proves nothing beyond cuts for this collective"
                                            : "too large a network to examine partitions");
        return TUTTI_OK;
    }
    tutti_status st = cutter_open(&c, err);
    if (!st) {
        best.of = tt_alloc(c.n, sizeof *best.of);
        best.next = tt_alloc(c.n, sizeof *best.next);
        st = best.of && best.next ? partition_prove(&c, &best, b, err)
                                  : tt_fail_memory(err, "partitions");
    }
    free(best.of);
    free(best.next);
    cutter_close(&c);
    return st;
}
