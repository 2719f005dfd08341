/* dijkstra.c - shortest paths by non-negative integer lengths (Dijkstra 1959) with a binary heap.
 *
 * The heap holds reached, unfinished vertices ordered by (distance, vertex), and place[v] says
 * where v is, so that a shorter way moves v up instead of adding it twice. Ties are broken by the
 * vertex number and a distance only ever improves strictly, so the tree `via` is the same on every
 * machine. Sums that overflow stay at UINT64_MAX - 1: far, but reachable.
 *
 *          4
 *      0 -----> 1       from 0: finish 0 (0), 2 (1), 1 (3), 3 (5)
 *     1|   2    |2      1 is first reached at 4 by 0->1, then moved up to 3 by 2->1
 *      v  ,-->  v
 *      2 -----> 3       O((n + arcs) log n)
 *          6 */
#include "graph/graph.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct heap {
    const uint64_t *key; /* by vertex */
    uint32_t *vertex, *place;
    uint32_t len;
};

static bool dijkstra_before(const struct heap *h, uint32_t a, uint32_t b)
{
    return h->key[a] != h->key[b] ? h->key[a] < h->key[b] : a < b;
}

static void dijkstra_set(struct heap *h, uint32_t i, uint32_t v)
{
    h->vertex[i] = v;
    h->place[v] = i;
}

/* Moves v from slot i up to where it belongs. */
static void sift_up(struct heap *h, uint32_t i, uint32_t v)
{
    while (i > 0 && dijkstra_before(h, v, h->vertex[(i - 1) / 2])) {
        dijkstra_set(h, i, h->vertex[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    dijkstra_set(h, i, v);
}

/* Moves v from slot i down to where it belongs. */
static void sift_down(struct heap *h, uint32_t i, uint32_t v)
{
    for (uint32_t child; (child = 2 * i + 1) < h->len; i = child) {
        if (child + 1 < h->len && dijkstra_before(h, h->vertex[child + 1], h->vertex[child]))
            child++;
        if (!dijkstra_before(h, h->vertex[child], v))
            break;
        dijkstra_set(h, i, h->vertex[child]);
    }
    dijkstra_set(h, i, v);
}

static uint32_t pop(struct heap *h)
{
    assert(h->len > 0);
    uint32_t top = h->vertex[0], last = h->vertex[--h->len];

    if (h->len)
        sift_down(h, 0, last);
    return top;
}

static uint64_t add_far(uint64_t a, uint64_t b)
{
    return b < UINT64_MAX - a ? a + b : UINT64_MAX - 1;
}

/* Invariant: finished vertices have their final distance; the heap has the others that were
 * reached. Keys only decrease, so sift_up suffices after an improvement. */
tutti_status tt_graph_dijkstra(const struct tt_graph *g, uint32_t source, const uint64_t *length,
                               uint64_t *dist, uint32_t *via, struct tutti_error *err)
{
    struct heap h = {.key = dist};

    assert(source < g->n);
    h.vertex = tt_alloc(g->n, 2 * sizeof *h.vertex);
    if (!h.vertex)
        return tt_fail_memory(err, "shortest paths");
    h.place = h.vertex + g->n;
    memset(dist, 0xff, (size_t)g->n * sizeof *dist);
    if (via)
        memset(via, 0xff, (size_t)g->n * sizeof *via);
    dist[source] = 0;
    sift_up(&h, h.len++, source);
    while (h.len) {
        uint32_t v = pop(&h);
        for (uint32_t k = g->start[v]; k < g->start[v + 1]; k++) {
            uint32_t w = g->head[k];
            uint64_t d = add_far(dist[v], length[g->id[k]]);
            if (d >= dist[w])
                continue;
            bool reached = dist[w] != UINT64_MAX;
            dist[w] = d;
            if (via)
                via[w] = g->id[k];
            assert(reached || h.len < g->n);
            sift_up(&h, reached ? h.place[w] : h.len++, w);
        }
    }
    free(h.vertex);
    return TUTTI_OK;
}
