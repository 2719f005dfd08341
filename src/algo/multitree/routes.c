/* routes.c - the channels of MultiTree's messages: one for each way that messages of a pair of
 * ranks take.
 *
 * A schedule names a route by (sender, receiver, channel). Between two ranks there may be several
 * ways (spines, parallel cables), each tree may use another one, and sums travel the ways of a tree
 * backwards. So the ways of a pair are numbered: channel k is the k-th of them, and is declared
 * unless it is the way that the network would choose by itself. Where a message can only take one
 * cable nothing is declared. Example, fattree:2,2, messages from 0 to 2: over spine x on channel 0,
 * over spine y on channel 1. */
#include <stdlib.h>
#include <string.h>

#include "algo/multitree/sched.h"

/* A message to be numbered. */
struct way {
    uint32_t peer, edge, phase;
    uint64_t hash;      /* of its links in the direction of the message */
    const uint32_t *at; /* these links */
    uint32_t n;
};

/* Equal ways become neighbours; the hash decides most comparisons. */
static int by_way(const void *pa, const void *pb)
{
    const struct way *a = pa, *b = pb;
    if (a->peer != b->peer)
        return a->peer < b->peer ? -1 : 1;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    if (a->n != b->n)
        return a->n < b->n ? -1 : 1;
    return memcmp(a->at, b->at, a->n * sizeof *a->at);
}

/* Can two messages of a pair take different ways, or one that is not the network's own? */
static bool several_ways(const struct tt_topo *t)
{
    if (t->switches > 0)
        return true;
    for (uint32_t v = 0; v < t->ranks; v++)
        for (uint32_t k = t->g.start[v] + 1; k < t->g.start[v + 1]; k++)
            if (t->g.head[k] == t->g.head[k - 1])
                return true;
    return false;
}

/* The links of an edge as its message takes them: parent to child, or (phase SUM) back. */
static void write_links(const struct tt_multitree *m, int phase, uint32_t edge, uint32_t *to)
{
    const struct tt_multitree_trees *f = m->forest[phase];
    const uint32_t *links = f->links + f->edges[edge].path;
    uint32_t n = f->edges[edge + 1].path - f->edges[edge].path;
    for (uint32_t i = 0; i < n; i++)
        to[i] = phase == TT_MULTITREE_SUM ? links[n - 1 - i] ^ 1u : links[i];
}

/* The messages that `rank` sends: to children when handing out, to parents when summing. */
static size_t routes_collect(const struct tt_multitree *m, uint32_t rank, struct way *ways,
                             uint32_t *pool)
{
    size_t n = 0;
    for (int phase = 0; phase < 2; phase++) {
        const struct tt_multitree_trees *f = m->forest[phase];
        const struct tt_multitree_lists *l =
            f ? (phase == TT_MULTITREE_SUM ? &m->up[phase] : &m->down[phase]) : NULL;
        for (uint32_t i = f ? l->start[rank] : 0; f && i < l->start[rank + 1]; i++) {
            const struct tt_multitree_edge *e = &f->edges[l->edge[i]];
            struct way w = {
                .edge = l->edge[i], .phase = (uint32_t)phase, .at = pool, .n = e[1].path - e->path};
            w.peer = phase == TT_MULTITREE_SUM ? e->parent : e->child;
            write_links(m, phase, l->edge[i], pool);
            w.hash = tt_hash_bytes(0, pool, w.n * sizeof *pool);
            pool += w.n;
            ways[n++] = w;
        }
    }
    return n;
}

/* How much memory routes_collect needs for this rank. */
static uint64_t links_sent(const struct tt_multitree *m, uint32_t rank, size_t *ret_messages)
{
    uint64_t sum = 0;
    *ret_messages = 0;
    for (int phase = 0; phase < 2; phase++) {
        const struct tt_multitree_trees *f = m->forest[phase];
        const struct tt_multitree_lists *l =
            f ? (phase == TT_MULTITREE_SUM ? &m->up[phase] : &m->down[phase]) : NULL;
        for (uint32_t i = f ? l->start[rank] : 0; f && i < l->start[rank + 1]; i++) {
            sum += f->edges[l->edge[i] + 1].path - f->edges[l->edge[i]].path;
            (*ret_messages)++;
        }
    }
    return sum;
}

/* Declares way w on the channel when the network's own route is another. own[] has room for the
 * longest. */
static void routes_declare(const struct tt_multitree *m, uint32_t rank, const struct way *w,
                           uint32_t channel, uint32_t *own, struct tt_builder *b)
{
    uint32_t n = 0;
    tutti_status st = tt_topo_route(m->t, rank, w->peer, own, tt_topo_max_route(m->t), &n, &b->err);
    if (st)
        b->status = st;
    else if (n != w->n || memcmp(own, w->at, n * sizeof *own) != 0)
        tt_sched_build_route(b, rank, w->peer, (uint16_t)channel, w->at, w->n);
}

/* Messages over the same links to one peer share a channel; each new way gets the next one. */
static void number_ways(const struct tt_multitree *m, uint32_t rank, struct way *ways, size_t n,
                        uint32_t *own, struct tt_builder *b)
{
    uint32_t channel = 0;
    qsort(ways, n, sizeof *ways, by_way);
    for (size_t i = 0; i < n && !b->status; i++) {
        bool same = i > 0 && by_way(&ways[i - 1], &ways[i]) == 0;
        if (!same)
            channel = i > 0 && ways[i - 1].peer == ways[i].peer ? channel + 1 : 0;
        if (channel > UINT16_MAX) {
            b->status = tt_fail(&b->err, TUTTI_ERR_LIMIT,
                                "more than 65536 ways from rank %u to rank %u", rank, ways[i].peer);
            return;
        }
        if (!same)
            routes_declare(m, rank, &ways[i], channel, own, b);
        m->channel[ways[i].phase][ways[i].edge] = (uint16_t)channel;
    }
}

void tt_multitree_routes(struct tt_multitree *m, struct tt_builder *b)
{
    uint32_t *own = tt_alloc((size_t)tt_topo_max_route(m->t) + 1, sizeof *own);
    if (!own)
        b->status = tt_fail_memory(&b->err, "routes");
    for (uint32_t r = 0; several_ways(m->t) && r < m->t->ranks && !b->status; r++) {
        size_t messages;
        uint64_t links = links_sent(m, r, &messages);
        struct way *ways = tt_alloc(messages + 1, sizeof *ways);
        uint32_t *pool = tt_alloc((size_t)links + 1, sizeof *pool);
        if (ways && pool)
            number_ways(m, r, ways, routes_collect(m, r, ways, pool), own, b);
        else
            b->status = tt_fail_memory(&b->err, "routes");
        free(ways);
        free(pool);
    }
    free(own);
}
