/* maxflow.c - maximum flow and minimum cut (Dinic 1970) on integer capacities.
 *
 * Each arc k becomes a pair of residual arcs, 2k forward and 2k+1 back, whose rooms always sum to
 * cap[k]: nothing can overflow. A phase finds each vertex's level (distance from s over arcs with
 * room) and then pushes flow along arcs that climb one level until no path is left (a blocking
 * flow); each phase lengthens the shortest path, so there are at most n. The search walks one path
 * forwards and back with an explicit stack, because paths may be longer than a thread's stack
 * allows. When t has no level any more, the vertices that have one are the source side of the
 * minimum cut nearest to s.
 *
 *            3        2
 *       s ------> a ------> t      phase 1 (paths of two arcs): s-a-t 2, s-b-t 1
 *        \        | 1      ^       phase 2 (three arcs): nothing, a-b leads on to the full b-t
 *       1 \       v       / 1      value 3, side {s, a, b}: cut a-t (2) + b-t (1)
 *          `----> b -----'
 *
 * Cost: O(n^2 arcs) at worst; networks need few phases, because their shortest paths are short. The
 * value is at most `limit`; a maximum beyond UINT64_MAX thus gives UINT64_MAX, smaller ones are
 * exact. */
#include "graph/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct tt_maxflow {
    struct tt_graph residual; /* id[] is the residual arc */
    uint32_t narcs;           /* the caller's */
    uint32_t *from;           /* tail of each residual arc */
    uint64_t *room;           /* what each residual arc can still take */
    uint32_t *level, *queue;
    uint32_t *next; /* first arc of each vertex not yet found useless in this phase */
    uint32_t *path; /* slots of the arcs from s to the current vertex */
};

void tt_graph_maxflow_free(struct tt_maxflow *f)
{
    if (!f)
        return;
    tt_graph_free(&f->residual);
    free(f->from);
    free(f->room);
    free(f->level);
    free(f->queue);
    free(f->next);
    free(f->path);
    free(f);
}

static bool alloc_work(struct tt_maxflow *f, uint32_t n, uint32_t narcs)
{
    f->room = tt_zalloc((size_t)narcs * 2, sizeof *f->room);
    f->from = tt_alloc((size_t)narcs * 2, sizeof *f->from);
    f->level = tt_zalloc(n, sizeof *f->level);
    f->queue = tt_alloc(n, sizeof *f->queue);
    f->next = tt_alloc(n, sizeof *f->next);
    f->path = tt_alloc(n, sizeof *f->path);
    return f->room && f->from && f->level && f->queue && f->next && f->path;
}

tutti_status tt_graph_maxflow_make(uint32_t n, uint32_t narcs, const uint32_t *tail,
                                   const uint32_t *head, struct tt_maxflow **ret,
                                   struct tutti_error *err)
{
    tutti_status status = TUTTI_ERR_MEMORY;
    uint32_t *to = NULL;
    struct tt_maxflow *f = NULL;

    if (narcs > UINT32_MAX / 2)
        return tt_fail(err, TUTTI_ERR_LIMIT, "maximum flow over more than %u arcs", UINT32_MAX / 2);
    f = tt_zalloc(1, sizeof *f);
    to = tt_alloc((size_t)narcs * 2, sizeof *to);
    if (!f || !to || !alloc_work(f, n, narcs)) {
        tt_fail_memory(err, "maximum flow");
        goto out;
    }
    f->narcs = narcs;
    for (uint32_t k = 0; k < narcs; k++) {
        f->from[2 * k] = to[2 * k + 1] = tail[k];
        f->from[2 * k + 1] = to[2 * k] = head[k];
    }
    status = tt_graph_make(n, 2 * narcs, f->from, to, &f->residual, err);
    if (status)
        goto out;
    *ret = f;
    f = NULL;
out:
    free(to);
    tt_graph_maxflow_free(f);
    return status;
}

/* Levels from s over arcs with room; true when t has one. Vertices beyond t's level may have none:
 * no shortest path uses them. */
static bool find_levels(struct tt_maxflow *f, uint32_t s, uint32_t t)
{
    const struct tt_graph *g = &f->residual;
    uint32_t len = 0;

    memset(f->level, 0xff, (size_t)g->n * sizeof *f->level);
    f->level[s] = 0;
    f->queue[len++] = s;
    for (uint32_t done = 0; done < len && f->level[t] == UINT32_MAX; done++) {
        uint32_t v = f->queue[done];
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            uint32_t w = g->head[k];
            if (f->level[w] != UINT32_MAX || f->room[g->id[k]] == 0)
                continue;
            f->level[w] = f->level[v] + 1;
            f->queue[len++] = w;
        }
    }
    return f->level[t] != UINT32_MAX;
}

/* The first arc of v that climbs a level and has room, as a slot; the end of v's slots when there
 * is none. */
static uint32_t climb(struct tt_maxflow *f, uint32_t v)
{
    const struct tt_graph *g = &f->residual;
    uint32_t k = f->next[v];

    while (k < g->start[v + 1] &&
           (f->room[g->id[k]] == 0 || f->level[g->head[k]] != f->level[v] + 1))
        k++;
    return f->next[v] = k;
}

/* Pushes as much as the path of `depth` arcs takes, at most `most`; *ret_depth becomes the position
 * of the first arc that is now full, if any. */
static uint64_t maxflow_push(struct tt_maxflow *f, uint32_t depth, uint64_t most,
                             uint32_t *ret_depth)
{
    const uint32_t *id = f->residual.id;

    for (uint32_t i = 0; i < depth; i++)
        if (f->room[id[f->path[i]]] < most)
            most = f->room[id[f->path[i]]];
    for (uint32_t i = depth; i-- > 0;) {
        uint32_t a = id[f->path[i]];
        assert(f->room[a] >= most);
        f->room[a] -= most;
        f->room[a ^ 1] += most;
        if (f->room[a] == 0)
            *ret_depth = i;
    }
    return most;
}

/* Flow of at most `most` until no climbing path is left. Invariant: path[0..depth) are arcs with
 * room that climb from s to v. */
static uint64_t blocking_flow(struct tt_maxflow *f, uint32_t s, uint32_t t, uint64_t most)
{
    const struct tt_graph *g = &f->residual;
    uint64_t flow = 0;
    uint32_t depth = 0, v = s;

    memcpy(f->next, g->start, (size_t)g->n * sizeof *f->next);
    for (;;) {
        uint32_t k;
        if (v == t) {
            flow += maxflow_push(f, depth, most - flow, &depth);
            if (flow == most)
                break;
            v = f->from[g->id[f->path[depth]]];
        } else if ((k = climb(f, v)) < g->start[v + 1]) {
            assert(depth < g->n);
            f->path[depth++] = k;
            v = g->head[k];
        } else if (depth > 0) { /* a dead end: the arc that led here is useless */
            v = f->from[g->id[f->path[--depth]]];
            f->next[v]++;
        } else
            break;
    }
    assert(flow <= most);
    return flow;
}

uint64_t tt_graph_maxflow_run(struct tt_maxflow *f, const uint64_t *cap, uint32_t s, uint32_t t,
                              uint64_t limit)
{
    uint64_t flow = 0;

    assert(s != t && s < f->residual.n && t < f->residual.n);
    for (uint32_t k = 0; k < f->narcs; k++) {
        f->room[2 * k] = cap[k];
        f->room[2 * k + 1] = 0;
    }
    while (flow < limit && find_levels(f, s, t))
        flow += blocking_flow(f, s, t, limit - flow);
    return flow;
}

void tt_graph_maxflow_side(struct tt_maxflow *f, uint8_t *side)
{
    for (uint32_t v = 0; v < f->residual.n; v++)
        side[v] = f->level[v] != UINT32_MAX;
}
