/* graph.c - a frozen directed graph in compressed form, and breadth-first search.
 *
 * Arcs are sorted by tail with a stable counting sort, so the arcs of a vertex keep the caller's
 * order and every walk over them is the same on every machine. Example: arcs a=(0,1) b=(2,0)
 * c=(0,2) d=(1,2)
 *
 *     vertex     0       1    2
 *     start      0       2    3    4
 *     id         a  c    d    b
 *     head       1  2    2    0
 *
 * Building and searching take O(n + arcs). */
#include "graph/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

void tt_graph_free(struct tt_graph *g)
{
    free(g->start);
    free(g->head);
    free(g->id);
    *g = (struct tt_graph){0};
}

/* Places arc k at the next free slot of its tail. Meanwhile start[v + 1] is the next slot of v, so
 * that it ends as the end of v. */
static void place_arcs(struct tt_graph *g, const uint32_t *tail, const uint32_t *head)
{
    for (uint32_t k = 0; k < g->narcs; k++)
        if (tail[k] + 1 < g->n)
            g->start[tail[k] + 2]++;
    for (uint32_t v = 2; v <= g->n; v++)
        g->start[v] += g->start[v - 1];
    for (uint32_t k = 0; k < g->narcs; k++) {
        uint32_t slot = g->start[tail[k] + 1]++;
        assert(slot < g->narcs);
        g->head[slot] = head[k];
        g->id[slot] = k;
    }
}

tutti_status tt_graph_make(uint32_t n, uint32_t narcs, const uint32_t *tail, const uint32_t *head,
                           struct tt_graph *ret, struct tutti_error *err)
{
    struct tt_graph g = {.n = n, .narcs = narcs};

    for (uint32_t k = 0; k < narcs; k++)
        if (tail[k] >= n || head[k] >= n)
            return tt_fail(err, TUTTI_ERR_ARG, "arc %u joins %u and %u, but there are %u vertices",
                           k, tail[k], head[k], n);
    g.start = tt_zalloc((size_t)n + 1, sizeof *g.start);
    g.head = tt_alloc(narcs, sizeof *g.head);
    g.id = tt_alloc(narcs, sizeof *g.id);
    if (!g.start || !g.head || !g.id) {
        tt_graph_free(&g);
        return tt_fail_memory(err, "graph");
    }
    place_arcs(&g, tail, head);
    *ret = g;
    return TUTTI_OK;
}

/* Invariant: queue[0..done) are finished, queue[done..len) are reached; distances in the queue
 * never decrease. */
void tt_graph_bfs(const struct tt_graph *g, uint32_t source, uint32_t *dist, uint32_t *queue)
{
    uint32_t len = 0;

    assert(source < g->n);
    memset(dist, 0xff, (size_t)g->n * sizeof *dist);
    dist[source] = 0;
    queue[len++] = source;
    for (uint32_t done = 0; done < len; done++) {
        uint32_t v = queue[done];
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            uint32_t w = g->head[k];
            if (dist[w] != UINT32_MAX)
                continue;
            assert(len < g->n);
            dist[w] = dist[v] + 1;
            queue[len++] = w;
        }
    }
}
