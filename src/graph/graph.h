/* graph.h - graph algorithms on plain arrays: vertices 0..n-1, directed arcs. This module knows
 * nothing of networks. */
#ifndef TT_GRAPH_H
#define TT_GRAPH_H

#include "base/base.h"

/* A frozen directed graph in compressed form: arcs of vertex v are start[v] .. start[v+1]-1, in the
 * order given. arc k goes to head[k] and is the caller's arc id[k]. Built from parallel arrays
 * tail[], head[]. */
struct tt_graph {
    uint32_t n;
    uint32_t narcs;
    uint32_t *start, *head, *id;
};
tutti_status tt_graph_make(uint32_t n, uint32_t narcs, const uint32_t *tail, const uint32_t *head,
                           struct tt_graph *ret, struct tutti_error *err);
void tt_graph_free(struct tt_graph *g);

/* Breadth-first distances in arcs from `source` (UINT32_MAX: unreachable) into dist[n]. `queue` is
 * scratch of n. */
void tt_graph_bfs(const struct tt_graph *g, uint32_t source, uint32_t *dist, uint32_t *queue);

/* Shortest distances by non-negative integer arc lengths (length[id]) into dist[n] (UINT64_MAX:
 * unreachable). `via` (may be NULL) gets the caller's arc id by which each vertex is reached
 * (UINT32_MAX for the source and unreachable ones). */
tutti_status tt_graph_dijkstra(const struct tt_graph *g, uint32_t source, const uint64_t *length,
                               uint64_t *dist, uint32_t *via, struct tutti_error *err);

/* The cheapest spanning tree of the complete graph with weight[u*n+v] from u to v: directed away
 * from `root` (inward: towards it) into parent[n] (UINT32_MAX for the root). The same tree on every
 * machine. */
tutti_status tt_graph_arborescence(uint32_t n, uint32_t root, const double *weight, bool inward,
                                   uint32_t *parent, struct tutti_error *err);

/* Maximum flow by Dinic on integer capacities cap[id]. The object keeps its work space, so it can
 * run many times; one thread at a time. */
struct tt_maxflow;
tutti_status tt_graph_maxflow_make(uint32_t n, uint32_t narcs, const uint32_t *tail,
                                   const uint32_t *head, struct tt_maxflow **ret,
                                   struct tutti_error *err);
void tt_graph_maxflow_free(struct tt_maxflow *f);
/* Value of the maximum flow from s to t (s != t) with capacities cap[narcs]; stops early once the
 * value reaches `limit` (UINT64_MAX: never). Afterwards tt_graph_maxflow_side marks side[v] = 1 for
 * the source side of the minimum cut that is nearest to s (meaningful only when not stopped
 * early). */
uint64_t tt_graph_maxflow_run(struct tt_maxflow *f, const uint64_t *cap, uint32_t s, uint32_t t,
                              uint64_t limit);
void tt_graph_maxflow_side(struct tt_maxflow *f, uint8_t *side);
#endif
