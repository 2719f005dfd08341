/* latency.c - how far information must travel: no schedule ends before the most distant pair of
 * dependent ranks could have communicated.
 *
 * If rank j's result depends on rank i's data, a chain of messages leads from i to j. They
 * follow each other, and each takes at least the latency of a path, so together they take at
 * least the least-latency path from i to j. The bound is the longest such path over the
 * dependent pairs:
 *
 *     allreduce, all-gather, reduce-scatter, all-to-all, barrier   all pairs
 *     broadcast, scatter                                           root to every rank
 *     reduce, gather                                               every rank to root
 *
 * Where blocks may be empty (fewer elements than ranks), all-gather and reduce-scatter still
 * have one rank that all others depend on (or that depends on all), so the smallest eccentricity
 * holds; gather, scatter and all-to-all may move nothing at all. Latencies are equal in both
 * directions, hence distances are symmetric. All pairs are examined if that is affordable. One
 * source suffices on a rotational network, two on a tree (the vertex farthest from any vertex is
 * an end of a longest path). */
#include <stdlib.h>

#include "bound/bound_int.h"

enum { MAX_STEPS = 200000000, DIJKSTRA_FACTOR = 8 };

/* A search over sources: distances from one source at a time, and the extremes so far. */
struct search {
    const struct tt_ask *q;
    uint64_t *length, *dist; /* per directed link, per vertex */
    uint32_t *hops, *queue;
    bool alike;         /* all links have one latency: count hops instead */
    uint32_t from, to;  /* the most distant pair so far */
    uint64_t far, near; /* largest and smallest eccentricity seen */
    uint32_t near_from, near_to;
};

static tutti_status search_open(struct search *s, struct tutti_error *err)
{
    const struct tt_topo *t = s->q->t;
    size_t n = (size_t)t->ranks + t->switches;
    s->alike = true;
    s->near = UINT64_MAX;
    s->length = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *s->length);
    s->dist = tt_alloc(n, sizeof *s->dist);
    s->hops = tt_alloc(n, sizeof *s->hops);
    s->queue = tt_alloc(n, sizeof *s->queue);
    if (!s->length || !s->dist || !s->hops || !s->queue)
        return tt_fail_memory(err, "distances");
    for (uint32_t i = 0; i < t->nlinks; i++) {
        s->length[2 * i] = s->length[2 * i + 1] = t->links[i].latency_ps;
        s->alike &= t->links[i].latency_ps == t->links[0].latency_ps;
    }
    return TUTTI_OK;
}

static void search_close(struct search *s)
{
    free(s->length);
    free(s->dist);
    free(s->hops);
    free(s->queue);
}

/* Finds the rank most distant from `source` and updates the extremes. With equal latencies a
 * breadth-first search replaces Dijkstra's algorithm. */
static tutti_status search_from(struct search *s, uint32_t source, struct tutti_error *err)
{
    const struct tt_topo *t = s->q->t;
    uint64_t link = t->nlinks ? t->links[0].latency_ps : 0, far = 0;
    uint32_t to = source == 0 ? 1 : 0;
    if (s->alike) {
        tt_graph_bfs(&t->g, source, s->hops, s->queue);
    } else {
        tutti_status st = tt_graph_dijkstra(&t->g, source, s->length, s->dist, NULL, err);
        if (st)
            return st;
    }
    for (uint32_t v = 0; v < t->ranks; v++) {
        uint64_t d = s->alike ? s->hops[v] * link : s->dist[v];
        if (d > far) {
            far = d;
            to = v;
        }
    }
    /* The first source counts even with distance 0, so that from and to are always set. */
    if (far > s->far || (s->far == 0 && s->near == UINT64_MAX)) {
        s->far = far;
        s->from = source;
        s->to = to;
    }
    if (far < s->near) {
        s->near = far;
        s->near_from = source;
        s->near_to = to;
    }
    return TUTTI_OK;
}

static bool is_tree(const struct tt_topo *t)
{
    return t->nlinks + 1 == t->ranks + t->switches; /* topologies are connected */
}

/* Searches all pairs as far as affordable. *ret_all: every source was examined, or stands for
 * all; b->complete: the largest distance is known. */
static tutti_status search_pairs(struct search *s, struct tt_bound *b, bool *ret_all,
                                 struct tutti_error *err)
{
    const struct tt_topo *t = s->q->t;
    uint64_t work = (2 * (uint64_t)t->nlinks + t->ranks) * (s->alike ? 1 : DIJKSTRA_FACTOR);
    uint64_t sources = MAX_STEPS / (work ? work : 1);
    tutti_status st = search_from(s, 0, err);
    *ret_all = t->rotational;
    if (st || t->rotational)
        return st;
    if (sources < t->ranks && is_tree(t))
        return search_from(s, s->to, err); /* the second end of a longest path */
    sources = sources < 1 ? 1 : sources > t->ranks ? t->ranks : sources;
    for (uint64_t i = 1; i < sources && !st; i++)
        st = search_from(s, (uint32_t)(i * t->ranks / sources), err);
    *ret_all = b->complete = sources == t->ranks;
    return st;
}

static void latency_answer(struct tt_bound *b, uint32_t from, uint32_t to, uint64_t ps)
{
    b->applies = true;
    b->from = from;
    b->to = to;
    b->time_ps = ps;
}

/* One source suffices, since distances are symmetric. */
static tutti_status from_root(struct search *s, struct tt_bound *b, struct tutti_error *err)
{
    const struct tt_ask *q = s->q;
    tutti_status st = search_from(s, q->root, err);
    bool inward = q->coll == TUTTI_REDUCE || q->coll == TUTTI_GATHER;
    if (!st) {
        latency_answer(b, inward ? s->to : q->root, inward ? q->root : s->to, s->far);
        tt_bound_words_latency(q, b, false, false);
    }
    return st;
}

/* Some unknown rank depends on all others, or all depend on it: at least the smallest
 * eccentricity, which is at least half of the largest distance. */
static void answer_some(struct search *s, struct tt_bound *b, bool all)
{
    if (all)
        latency_answer(b, s->near_from, s->near_to, s->near);
    else
        latency_answer(b, s->from, s->to, s->far - s->far / 2);
    b->complete = all;
    tt_bound_words_latency(s->q, b, true, !all);
}

static tutti_status between_all(struct search *s, struct tt_bound *b, struct tutti_error *err)
{
    const struct tt_ask *q = s->q;
    bool all;
    tutti_status st = search_pairs(s, b, &all, err);
    if (st)
        return st;
    if ((q->coll == TUTTI_ALL_GATHER || q->coll == TUTTI_REDUCE_SCATTER) &&
        !tt_bound_need_all_blocks(q)) {
        answer_some(s, b, all);
    } else {
        latency_answer(b, s->from, s->to, s->far);
        tt_bound_words_latency(q, b, false, false);
    }
    return TUTTI_OK;
}

tutti_status tt_bound_latency(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    struct search s = {.q = q};
    bool blockwise =
        q->coll == TUTTI_GATHER || q->coll == TUTTI_SCATTER || q->coll == TUTTI_ALL_TO_ALL;
    if (blockwise && !tt_bound_need_all_blocks(q)) {
        snprintf(b->text, sizeof b->text,
                 "fewer elements than ranks: perhaps no block has to move");
        return TUTTI_OK;
    }
    tutti_status st = search_open(&s, err);
    if (!st)
        st = tt_bound_need_root(q) ? from_root(&s, b, err) : between_all(&s, b, err);
    search_close(&s);
    return st;
}
