/* list.c - the operations of a forest: each tree pair moves its chunk, leaves first.
 *
 * On the way up a rank sends in the step of its height (leaves in step 0), after it has received
 * from all its children; several messages of one step are received apart and added in one
 * operation. On the way down a tree of height H (up) starts at step H. Every message of a pair of
 * ranks has a channel of its own, so that no tree waits for another; a channel whose way is not the
 * network's own declares its route. The sends of a step go to the peers ahead first, so that not
 * all ranks begin with rank 0 (star of 8, one port: 14 rounds, not 21). Invariant: an operation
 * reads its chunk only in steps after those that wrote it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/forest/forest.h"
#include "algo/phases.h"

/* Scratch: partial sums where OUT may not be used; then messages of children that arrive
 * together. */
enum { SUM = TT_BUF_SCRATCH, FROM_CHILD };

struct message {
    uint32_t step, src, dst, chunk;
    bool up;
    uint16_t channel;
    uint32_t nlinks;
    const uint32_t *links;
};

struct event { /* one end of a message, in the list of its rank */
    uint32_t rank, step, message;
    uint32_t ahead; /* sends: how far the peer is ahead, modulo 2^32 */
    bool receive;
};

struct lister {
    const struct tt_topo *t;
    struct tt_builder *b;
    tutti_coll coll;
    struct tt_vec messages; /* struct message */
    uint32_t *pool;         /* reversed routes of undirected trees */
    size_t used;
    /* of one tree */
    uint32_t *parent, *edge, *order, *height, *depth;
    uint32_t *start, *arc; /* adjacency: edges of a rank */
};

/* ---- one tree: parents and heights ---- */

/* The edges of each rank, by counting sort. */
static void join_arcs(struct lister *l, const struct tt_forest_tree *t)
{
    uint32_t p = l->t->ranks;
    memset(l->start, 0, ((size_t)p + 2) * sizeof *l->start);
    for (uint32_t i = 0; i < t->nedges; i++) {
        l->start[t->edges[i].a + 2]++;
        l->start[t->edges[i].b + 2]++;
    }
    for (uint32_t v = 2; v < p + 2; v++)
        l->start[v] += l->start[v - 1];
    /* start[v+1] moves from the first of v to the first of v+1 */
    for (uint32_t i = 0; i < t->nedges; i++) {
        l->arc[l->start[t->edges[i].a + 1]++] = i;
        l->arc[l->start[t->edges[i].b + 1]++] = i;
    }
}

/* Parents, edges to them and depths, breadth-first from root; returns the last (a farthest)
 * rank. */
static uint32_t list_walk(struct lister *l, const struct tt_forest_tree *t, uint32_t root)
{
    uint32_t len = 1;
    l->order[0] = root;
    l->parent[root] = UINT32_MAX;
    l->edge[root] = UINT32_MAX;
    l->depth[root] = 0;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t v = l->order[i];
        for (uint32_t k = l->start[v]; k < l->start[v + 1]; k++) {
            const struct tt_forest_edge *e = &t->edges[l->arc[k]];
            uint32_t w = e->a == v ? e->b : e->a;
            if (l->arc[k] == l->edge[v])
                continue;
            l->parent[w] = v;
            l->edge[w] = l->arc[k];
            l->depth[w] = l->depth[v] + 1;
            l->order[len++] = w;
        }
    }
    assert(len == l->t->ranks);
    return l->order[len - 1];
}

/* Children come after their parents in `order`, so the reverse order visits them first. */
static void find_heights(struct lister *l)
{
    uint32_t p = l->t->ranks;
    memset(l->height, 0, p * sizeof *l->height);
    for (uint32_t i = p; i-- > 1;) {
        uint32_t v = l->order[i], up = l->parent[v];
        l->height[up] = l->height[up] > l->height[v] + 1 ? l->height[up] : l->height[v] + 1;
    }
}

/* The middle of a longest path: the root with the least height. */
static uint32_t centre(struct lister *l, const struct tt_forest_tree *t)
{
    uint32_t end = list_walk(l, t, list_walk(l, t, 0)), far = l->depth[end];
    assert(l->parent[end] != UINT32_MAX || far == 0);
    for (uint32_t i = 0; i < far / 2; i++)
        end = l->parent[end];
    return end;
}

/* The links of an edge are stored in one direction; the other one needs a reversed copy. */
static bool push_message(struct lister *l, const struct tt_forest_tree *t,
                         const struct tt_forest_edge *e, struct message m)
{
    m.links = t->links + e->first;
    m.nlinks = e->n;
    if (m.src != e->a) { /* an undirected tree, the other way */
        assert(m.src == e->b);
        uint32_t *turned = l->pool + l->used;
        for (uint32_t i = 0; i < e->n; i++)
            turned[i] = m.links[e->n - 1 - i] ^ 1;
        m.links = turned;
        l->used += e->n;
    }
    return tt_vec_push(&l->messages, &m, 1);
}

/* Messages of a walked tree; on the way down from step `first` on. */
static bool push_tree(struct lister *l, const struct tt_forest_tree *t, uint32_t chunk, bool up,
                      uint32_t first)
{
    bool ok = true;
    for (uint32_t v = 0; v < l->t->ranks && ok; v++) {
        if (l->parent[v] == UINT32_MAX)
            continue;
        struct message m = {
            .step = up ? l->height[v] : first + l->depth[v] - 1, .chunk = chunk, .up = up};
        m.src = up ? v : l->parent[v];
        m.dst = up ? l->parent[v] : v;
        ok = push_message(l, t, &t->edges[l->edge[v]], m);
    }
    return ok;
}

/* The way down starts in the step after the root has the sum. */
static bool push_pair(struct lister *l, const struct tt_forest_pair *p, bool even, uint32_t chunk)
{
    bool sums = tt_sched_coll_reduces(l->coll), hands = tt_algo_coll_gathers(l->coll), ok = true;
    const struct tt_forest_tree *up = even ? &p->down : &p->up;
    uint32_t first = 0;
    if (sums) {
        join_arcs(l, up);
        uint32_t root = even ? centre(l, up) : up->root;
        list_walk(l, up, root);
        find_heights(l);
        first = l->height[root];
        ok = push_tree(l, up, chunk, true, 0);
    }
    if (hands && ok) {
        if (!even) {
            join_arcs(l, &p->down);
            list_walk(l, &p->down, p->down.root);
        }
        ok = push_tree(l, &p->down, chunk, false, first);
    }
    return ok;
}

/* ---- channels and routes ---- */

/* Messages of one pair of ranks become neighbours, in a fixed order. */
static int by_ends(const void *a, const void *b)
{
    const struct message *x = a, *y = b;
    if (x->src != y->src)
        return x->src < y->src ? -1 : 1;
    if (x->dst != y->dst)
        return x->dst < y->dst ? -1 : 1;
    if (x->chunk != y->chunk)
        return x->chunk < y->chunk ? -1 : 1;
    return (int)y->up - (int)x->up;
}

/* Only ways that differ from the network's own route need a declaration. own: room for a route. */
static void list_declare(struct lister *l, const struct message *m, uint32_t *own)
{
    uint32_t n = 0;
    tutti_status st =
        tt_topo_route(l->t, m->src, m->dst, own, tt_topo_max_route(l->t), &n, &l->b->err);
    if (st)
        l->b->status = st;
    else if (n != m->nlinks || memcmp(own, m->links, n * sizeof *own) != 0)
        tt_sched_build_route(l->b, m->src, m->dst, m->channel, m->links, m->nlinks);
}

/* Numbers the messages of each pair of ranks: 0, 1, 2, ... */
static void number_channels(struct lister *l)
{
    uint32_t *own = tt_alloc((size_t)tt_topo_max_route(l->t) + 1, sizeof *own);
    struct message *m = l->messages.data;
    if (!own)
        l->b->status = tt_fail_memory(&l->b->err, "routes");
    qsort(m, l->messages.len, sizeof *m, by_ends);
    for (size_t i = 0; i < l->messages.len && !l->b->status; i++) {
        if (i > 0 && m[i - 1].src == m[i].src && m[i - 1].dst == m[i].dst)
            m[i].channel = (uint16_t)(m[i - 1].channel + 1);
        list_declare(l, &m[i], own);
    }
    free(own);
}

/* ---- one rank ---- */

/* A rank's list: by step, sends before receives, sends to the nearest peers ahead first. */
static int by_turn(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->rank != y->rank)
        return x->rank < y->rank ? -1 : 1;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->receive != y->receive)
        return x->receive ? 1 : -1;
    if (x->ahead != y->ahead)
        return x->ahead < y->ahead ? -1 : 1;
    return x->message < y->message ? -1 : x->message > y->message;
}

static struct event *list_events(const struct lister *l)
{
    const struct message *m = l->messages.data;
    struct event *e = tt_alloc(2 * l->messages.len + 1, sizeof *e);
    for (size_t i = 0; i < l->messages.len && e; i++) {
        e[2 * i] = (struct event){m[i].src, m[i].step, (uint32_t)i, m[i].dst - m[i].src, false};
        e[2 * i + 1] = (struct event){m[i].dst, m[i].step, (uint32_t)i, 0, true};
    }
    if (e)
        qsort(e, 2 * l->messages.len, sizeof *e, by_turn);
    return e;
}

/* Where a rank's partial sums of a chunk are. */
static uint32_t sum_buffer(const struct lister *l, uint32_t chunk)
{
    bool foreign =
        l->coll == TUTTI_REDUCE_SCATTER && tt_sched_shape_owner(&l->b->shape, chunk) != l->b->rank;
    return foreign ? (uint32_t)SUM : TT_BUF_OUT;
}

/* What has happened to a chunk at the rank being listed. */
struct state {
    uint32_t stamp; /* rank + 1 once it has a sum or the result */
    uint32_t now;   /* children in the step being listed */
    uint32_t first; /* of them: received apart so far */
};

/* The buffer with the chunk's current value at this rank: the input until something was added. */
static uint32_t source(const struct lister *l, const struct state *s, uint32_t chunk)
{
    return s[chunk].stamp == l->b->rank + 1 ? sum_buffer(l, chunk) : TT_BUF_IN;
}

/* A single child of a step is added on arrival; several are received apart. */
static void list_receive(struct lister *l, const struct message *m, struct state *s)
{
    struct state *c = &s[m->chunk];
    uint32_t sum = sum_buffer(l, m->chunk);
    struct tt_span plain = tt_sched_span_range(TT_BUF_OUT, m->chunk, 1),
                   apart = tt_sched_span_range(FROM_CHILD + c->first, m->chunk, 1);
    struct tt_span added = tt_sched_span_from(sum, source(l, s, m->chunk), m->chunk, 1);
    if (!m->up)
        tt_sched_emit_recv(l->b, m->step, m->src, m->channel, &plain, 1);
    else if (c->now == 1)
        tt_sched_emit_recv_reduce(l->b, m->step, m->src, m->channel, &added, 1);
    else
        tt_sched_emit_recv(l->b, m->step, m->src, m->channel, &apart, 1);
    c->first += m->up && c->now > 1;
}

/* Adds what came apart: own sum so far (or the input), then the children in order. */
static void add_up(struct lister *l, const struct message *m, struct state *s,
                   struct tt_span *spans)
{
    struct state *c = &s[m->chunk];
    uint32_t sum = sum_buffer(l, m->chunk), n = c->first;
    if (n > 0) {
        spans[0] = tt_sched_span_range(sum, m->chunk, 1);
        spans[1] = tt_sched_span_from(sum, source(l, s, m->chunk), m->chunk, 1);
        for (uint32_t k = 0; k < n; k++)
            spans[2 + k] = tt_sched_span_from(sum, FROM_CHILD + k, m->chunk, 1);
        tt_sched_emit_reduce(l->b, m->step, spans, 2 + n);
    }
    *c = (struct state){.stamp = l->b->rank + 1};
}

/* Lists the events of one rank and step: e[0..n). Children are counted before any is listed. */
static void list_step(struct lister *l, const struct event *e, size_t n, struct state *s,
                      struct tt_span *spans)
{
    const struct message *m = l->messages.data;
    for (size_t i = 0; i < n; i++)
        s[m[e[i].message].chunk].now += e[i].receive;
    for (size_t i = 0; i < n; i++) {
        const struct message *x = &m[e[i].message];
        struct tt_span out = tt_sched_span_range(source(l, s, x->chunk), x->chunk, 1);
        if (e[i].receive)
            list_receive(l, x, s);
        else
            tt_sched_emit_send(l->b, x->step, x->dst, x->channel, &out, 1);
    }
    for (size_t i = 0; i < n; i++)
        if (e[i].receive)
            add_up(l, &m[e[i].message], s, spans);
}

/* All-gather: copies the rank's own chunks after the last message that reads them. */
static void copy_own(struct lister *l, uint32_t step)
{
    uint32_t each = l->b->shape.chunks / l->t->ranks;
    struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, l->b->rank * each, each);
    if (l->coll == TUTTI_ALL_GATHER)
        tt_sched_emit_copy(l->b, step, &own, 1);
}

static void list_ranks(struct lister *l, const struct event *e, struct state *s,
                       struct tt_span *spans)
{
    size_t total = 2 * l->messages.len, i = 0;
    for (uint32_t r = 0; r < l->t->ranks && !l->b->status; r++) {
        uint32_t last = 0;
        tt_sched_build_rank(l->b, r);
        while (i < total && e[i].rank == r) {
            size_t end = i;
            last = e[i].step;
            while (end < total && e[end].rank == r && e[end].step == last)
                end++;
            list_step(l, e + i, end - i, s, spans);
            i = end;
        }
        copy_own(l, last);
    }
}

/* The most children of a rank that arrive in one step with one chunk: so many scratch buffers are
 * needed. */
static uint32_t most_together(const struct lister *l, const struct event *e)
{
    const struct message *m = l->messages.data;
    uint32_t most = 0, *now = tt_zalloc(l->b->shape.chunks, sizeof *now);
    for (size_t i = 0, end; now && i < 2 * l->messages.len; i = end) {
        for (end = i;
             end < 2 * l->messages.len && e[end].rank == e[i].rank && e[end].step == e[i].step;
             end++)
            if (e[end].receive && m[e[end].message].up && ++now[m[e[end].message].chunk] > most)
                most = now[m[e[end].message].chunk];
        for (size_t k = i; k < end; k++)
            now[m[e[k].message].chunk] = 0;
    }
    free(now);
    return now ? most : l->t->ranks;
}

/* nbufs is known only now: the shape announced an upper bound. */
static void list_all(struct lister *l)
{
    struct event *e = list_events(l);
    struct state *s = tt_zalloc(l->b->shape.chunks, sizeof *s);
    struct tt_span *spans = tt_alloc((size_t)l->t->ranks + 2, sizeof *spans);
    if (e && s && spans) {
        l->b->shape.nbufs = tt_sched_coll_reduces(l->coll) ? FROM_CHILD + most_together(l, e)
                                                           : (uint32_t)TT_BUF_SCRATCH;
        tt_sched_build_reserve(l->b, 3 * l->messages.len, 3 * l->messages.len);
        list_ranks(l, e, s, spans);
    } else {
        l->b->status = tt_fail_memory(&l->b->err, "forest");
    }
    free(e);
    free(s);
    free(spans);
}

/* ---- all trees ---- */

static void lister_close(struct lister *l)
{
    tt_vec_free(&l->messages);
    free(l->pool);
    free(l->parent);
    free(l->start);
    free(l->arc);
}

static bool lister_open(struct lister *l, const struct tt_forest_packing *p)
{
    size_t n = l->t->ranks, links = 1;
    for (uint32_t i = 0; p->even && i < p->npairs; i++)
        links += (size_t)p->pairs[i].down.nlinks * p->pairs[i].copies;
    l->pool = tt_alloc(links, sizeof *l->pool);
    l->parent = tt_alloc(5 * n, sizeof(uint32_t));
    l->start = tt_alloc(n + 2, sizeof(uint32_t));
    l->arc = tt_alloc(2 * n, sizeof(uint32_t));
    if (!l->pool || !l->parent || !l->start || !l->arc)
        return false;
    l->edge = l->parent + n;
    l->order = l->parent + 2 * n;
    l->height = l->parent + 3 * n;
    l->depth = l->parent + 4 * n;
    return true;
}

void tt_forest_list(const struct tt_forest_packing *p, const struct tt_algo_args *a,
                    struct tt_builder *b)
{
    struct lister l = {.t = a->topo,
                       .b = b,
                       .coll = a->problem.coll,
                       .messages = {.elem = sizeof(struct message)}};
    bool ok = lister_open(&l, p);
    for (uint32_t i = 0, chunk = 0; i < p->npairs && ok; i++)
        for (uint32_t c = 0; c < p->pairs[i].copies && ok; c++)
            ok = push_pair(&l, &p->pairs[i], p->even, chunk++);
    if (!ok)
        b->status = tt_fail_memory(&b->err, "forest");
    if (!b->status)
        number_channels(&l);
    if (!b->status)
        list_all(&l);
    lister_close(&l);
}
