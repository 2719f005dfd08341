/* net_class.c - classes of virtual channels that keep any set of routes free of deadlock:
 * datelines, found instead of declared.
 *
 * A packet that holds a channel of link a and waits for link b makes b depend on a; packets can
 * block each other forever only around a cycle of such dependences. Collect the dependences a ->
 * b of all routes of the schedule and divide their graph into strongly connected components;
 * search it depth first and number links as they are finished. A packet begins with class 0,
 * returns to class 0 when it enters another component, and takes the next class when it follows
 * a back arc inside one:
 *
 *     ring of 4, routes of two links:   0>1 -> 1>2 -> 2>3 -> 3>0 -> 0>1
 *     one component; finished in the order 3>0, 2>3, 1>2, 0>1;
 *     the back arc is 3>0 -> 0>1: there a packet changes to class 1, as at a dateline.
 *     Torus: every ring is a component, so two classes suffice for any number of dimensions.
 *     Trees, meshes in dimension order, single-link routes: no cycle, one class.
 *
 * Why this suffices: every dependence leads to a later component; or within one to a higher
 * class; or in the same class to a link that was finished earlier. (component, class, finishing
 * number) thus moves in one direction only, and no cycle exists, whatever the routes (declared
 * ones included) and however long the packets (message mode: no buffer ever has to hold a whole
 * packet, as a bubble scheme would need). With fewer channels than classes the last ones are
 * shared and a deadlock is possible; tt_sim_net_stuck then names it. Cost: linear in the lengths
 * of all routes. */
#include <stdlib.h>

#include "sim/packet.h"

/* The graph of dependences between directed links, and the state of the search. */
struct deps {
    uint32_t n;
    uint64_t *start; /* n + 1 */
    uint32_t *to;
    /* depth-first search; the six uint32_t arrays are one block */
    uint32_t *index, *low, *finished, *component; /* index 0: not visited */
    uint64_t *next;                               /* arc of each vertex to follow next */
    uint32_t *path, *stack;                       /* path of the search; Tarjan's stack */
    uint32_t npath, nstack, nindex, nfinished, ncomponents;
    bool *on_stack;
};

/* Adjacency lists by counting: start[v + 1] advances from begin to end of v's list while
 * filling. */
static tutti_status deps_make(struct deps *d, const struct tt_work *w, uint32_t n,
                              struct tutti_error *err)
{
    d->n = n;
    d->start = tt_zalloc((size_t)n + 2, sizeof *d->start);
    if (!d->start)
        return tt_fail_memory(err, "virtual channels");
    uint64_t narcs = 0;
    for (uint32_t c = 0; c < w->nconns; c++)
        for (uint32_t h = 1; h < w->conn[c].nlinks; h++, narcs++)
            d->start[w->path[w->conn[c].path_at + h - 1] + 2]++;
    for (uint32_t v = 0; v < n; v++)
        d->start[v + 2] += d->start[v + 1];
    d->to = tt_alloc(narcs + 1, sizeof *d->to);
    if (!d->to)
        return tt_fail_memory(err, "virtual channels");
    for (uint32_t c = 0; c < w->nconns; c++)
        for (uint32_t h = 1; h < w->conn[c].nlinks; h++) {
            const uint32_t *link = &w->path[w->conn[c].path_at + h];
            d->to[d->start[link[-1] + 1]++] = link[0];
        }
    return TUTTI_OK;
}

static void deps_free(struct deps *d)
{
    free(d->start);
    free(d->to);
    free(d->index);
    free(d->next);
    free(d->on_stack);
}

static void net_class_enter(struct deps *d, uint32_t v)
{
    d->index[v] = d->low[v] = ++d->nindex;
    d->next[v] = d->start[v];
    d->path[d->npath++] = v;
    d->stack[d->nstack++] = v;
    d->on_stack[v] = true;
}

/* v is finished. If it is the root of a component, that component is on top of the stack. */
static void net_class_leave(struct deps *d, uint32_t v)
{
    d->finished[v] = d->nfinished++;
    d->npath--;
    if (d->npath && d->low[d->path[d->npath - 1]] > d->low[v])
        d->low[d->path[d->npath - 1]] = d->low[v];
    if (d->low[v] != d->index[v])
        return;
    uint32_t u;
    do {
        u = d->stack[--d->nstack];
        d->on_stack[u] = false;
        d->component[u] = d->ncomponents;
    } while (u != v);
    d->ncomponents++;
}

/* Tarjan's algorithm from one link, without recursion: routes can be as long as the network. */
static void net_class_search(struct deps *d, uint32_t root)
{
    net_class_enter(d, root);
    while (d->npath) {
        uint32_t v = d->path[d->npath - 1];
        if (d->next[v] == d->start[v + 1]) {
            net_class_leave(d, v);
            continue;
        }
        uint32_t u = d->to[d->next[v]++];
        if (!d->index[u])
            net_class_enter(d, u);
        else if (d->on_stack[u] && d->low[v] > d->index[u])
            d->low[v] = d->index[u];
    }
}

static tutti_status components(struct deps *d, struct tutti_error *err)
{
    d->index = tt_zalloc((size_t)d->n + 1, 6 * sizeof *d->index);
    d->next = tt_alloc((size_t)d->n + 1, sizeof *d->next);
    d->on_stack = tt_zalloc((size_t)d->n + 1, sizeof *d->on_stack);
    if (!d->index || !d->next || !d->on_stack)
        return tt_fail_memory(err, "virtual channels");
    d->low = d->index + d->n;
    d->finished = d->low + d->n;
    d->component = d->finished + d->n;
    d->path = d->component + d->n;
    d->stack = d->path + d->n;
    for (uint32_t v = 0; v < d->n; v++)
        if (!d->index[v])
            net_class_search(d, v);
    return TUTTI_OK;
}

/* finished[b] >= finished[a] inside a component is a back arc: there the class increases. */
static void assign(const struct deps *d, const struct tt_work *w, uint8_t *hop_class,
                   uint32_t *ret_classes)
{
    uint32_t most = 0;
    for (uint32_t c = 0; c < w->nconns; c++) {
        uint64_t at = w->conn[c].path_at;
        uint32_t class = 0;
        for (uint32_t h = 0; h < w->conn[c].nlinks; h++) {
            uint32_t b = w->path[at + h], a = h ? w->path[at + h - 1] : b;
            if (d->component[a] != d->component[b])
                class = 0;
            else if (h && d->finished[b] >= d->finished[a] && class < UINT8_MAX)
                class ++;
            hop_class[at + h] = (uint8_t) class;
            most = class > most ? class : most;
        }
    }
    *ret_classes = most + 1;
}

tutti_status tt_sim_net_classes(const struct tt_work *w, uint32_t nlinks2, uint8_t *hop_class,
                                uint32_t *ret_classes, struct tutti_error *err)
{
    struct deps d = {0};
    tutti_status st = deps_make(&d, w, nlinks2, err);
    if (!st)
        st = components(&d, err);
    if (!st)
        assign(&d, w, hop_class, ret_classes);
    deps_free(&d);
    return st;
}
