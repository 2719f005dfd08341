/* rounds.c - how fast information can spread if a rank has k ports.
 *
 * A message occupies a port of its sender and one of its receiver for at least the least latency
 * between two ranks: one round. With k ports a rank receives at most k messages per round, so
 * the number of ranks whose data it can know grows at most (k+1)-fold per round. The same holds
 * for the number of ranks that know the data of one rank, because each that knows passes it on
 * to at most k. This gives ceil(log_{k+1} p) rounds wherever some rank needs data of all ranks,
 * or all ranks need data of one:
 *
 *     k = 1, p = 5, ranks that know:  0 | 0 1 | 0 1 2 3 | 0 1 2 3 4      3 rounds
 *
 *     allreduce, barrier       every rank needs all
 *     broadcast, reduce        all need the root, the root needs all
 *     all-gather               all need the owner of any block that is not empty
 *     reduce-scatter           the owner of one needs all
 *     gather, scatter,         the same as reduce and broadcast, provided no block is empty
 *     all-to-all
 *
 * Without declared ports the bound proves nothing. Rounds need not be synchronous: a rank that
 * learns at time x completes its first messages at x + 1 round at the earliest, which is the
 * same recursion.
 *
 * The least latency between two different ranks: grow regions around all ranks at once (one
 * Dijkstra from a vertex joined to all ranks by links of length 0); the closest pair meets on a
 * link between two regions. */
#include <stdlib.h>

#include "bound/bound_int.h"

/* Every vertex belongs to the region of its nearest rank. */
struct regions {
    uint32_t n;              /* vertices and the extra one, which is n-1 */
    uint32_t *tail, *head;   /* arcs: directed links, then those of the extra vertex */
    uint64_t *length, *dist; /* per arc; per vertex: distance to its rank */
    /* by vertex: arc on the shortest path; nearest rank (UINT32_MAX: not known) */
    uint32_t *via, *region;
    struct tt_graph g;
};

static void regions_free(struct regions *r)
{
    free(r->tail);
    free(r->head);
    free(r->length);
    free(r->dist);
    free(r->via);
    free(r->region);
    tt_graph_free(&r->g);
}

static tutti_status regions_make(struct regions *r, const struct tt_topo *t,
                                 struct tutti_error *err)
{
    uint32_t arcs = 2 * t->nlinks + t->ranks;
    r->n = t->ranks + t->switches + 1;
    r->tail = tt_alloc(arcs, sizeof *r->tail);
    r->head = tt_alloc(arcs, sizeof *r->head);
    r->length = tt_zalloc(arcs, sizeof *r->length);
    r->dist = tt_alloc(r->n, sizeof *r->dist);
    r->via = tt_alloc(r->n, sizeof *r->via);
    r->region = tt_alloc(r->n, sizeof *r->region);
    if (!r->tail || !r->head || !r->length || !r->dist || !r->via || !r->region)
        return tt_fail_memory(err, "nearest ranks");
    for (uint32_t i = 0; i < t->nlinks; i++) {
        r->tail[2 * i] = r->head[2 * i + 1] = t->links[i].a;
        r->head[2 * i] = r->tail[2 * i + 1] = t->links[i].b;
        r->length[2 * i] = r->length[2 * i + 1] = t->links[i].latency_ps;
    }
    for (uint32_t v = 0; v < t->ranks; v++) {
        r->tail[2 * t->nlinks + v] = r->n - 1;
        r->head[2 * t->nlinks + v] = v;
    }
    tutti_status st = tt_graph_make(r->n, arcs, r->tail, r->head, &r->g, err);
    if (st)
        return st;
    return tt_graph_dijkstra(&r->g, r->n - 1, r->length, r->dist, r->via, err);
}

/* Returns the rank of v's region: follows the shortest path back, then stores the answer along
 * that path, so that all calls together take linear time. */
static uint32_t region_of(struct regions *r, uint32_t v)
{
    uint32_t at = v, found;
    while (r->region[at] == UINT32_MAX && r->tail[r->via[at]] != r->n - 1)
        at = r->tail[r->via[at]];
    found = r->region[at] != UINT32_MAX ? r->region[at] : at;
    for (at = v; r->region[at] == UINT32_MAX; at = r->tail[r->via[at]]) {
        r->region[at] = found;
        if (at == found)
            break;
    }
    return found;
}

tutti_status tt_bound_least_latency(const struct tt_topo *t, uint64_t *ret_ps,
                                    struct tutti_error *err)
{
    struct regions r = {0};
    uint64_t least = UINT64_MAX;
    tutti_status st = regions_make(&r, t, err);
    if (st)
        goto out;
    for (uint32_t v = 0; v < r.n; v++)
        r.region[v] = UINT32_MAX;
    for (uint32_t i = 0; i < t->nlinks; i++) {
        const struct tt_link *l = &t->links[i];
        if (region_of(&r, l->a) == region_of(&r, l->b))
            continue;
        uint64_t d = r.dist[l->a] + l->latency_ps + r.dist[l->b];
        least = d < least ? d : least;
    }
    *ret_ps = least == UINT64_MAX ? 0 : least;
out:
    regions_free(&r);
    return st;
}

/* The least number of rounds r with (k+1)^r >= p. */
static uint32_t count_rounds(uint32_t p, uint32_t k)
{
    uint32_t rounds = 0;
    for (uint64_t known = 1; known < p; known *= (uint64_t)k + 1)
        rounds++;
    return rounds;
}

tutti_status tt_bound_rounds(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err)
{
    if (!q->t->ports || !tt_bound_need_spreads(q)) {
        snprintf(b->text, sizeof b->text, "%s",
                 q->t->ports ? "fewer elements than ranks: perhaps no block has to move"
                             : "no ports=k declared: a rank may use all its links at once");
        return TUTTI_OK;
    }
    tutti_status st = tt_bound_least_latency(q->t, &b->round_ps, err);
    if (st)
        return st;
    b->applies = true;
    b->ports = q->t->ports;
    b->rounds = count_rounds(q->p, q->t->ports);
    b->time_ps = b->rounds * b->round_ps;
    tt_bound_words_rounds(q, b);
    return TUTTI_OK;
}
