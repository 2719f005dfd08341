/* tree.c - the hierarchy that flex works on.
 *
 * It comes from the topology's own tree (tree:, nics:, files that have one), or from a network that
 * is a tree without saying so: switches joined without loops and every rank on one switch, such as
 * a star or a network from a file. Such a network is rooted in the middle of its longest path, so
 * that there are as few levels as possible. Nodes with one child add no choice: they are left out,
 * and the slower of the links above and below counts.
 *
 *     switches  s0 - s1 - s2        root s1; s0 has one child: 0 hangs on s1, by its slower link
 *                |    |   |\                     (0 1 (2 3))
 *                0    1   2 3
 *
 * Vertices are walked breadth-first from the root with the children of each in a fixed order: nodes
 * come out with parents before children and children consecutive. */
#include <assert.h>

#include "algo/flex/flex.h"

#include <math.h>
#include <stdlib.h>

/* A rooted tree as found, before nodes with one child are left out: arrays over its nodes. */
struct raw {
    uint32_t n, root;
    uint32_t *start, *child; /* children of i: child[start[i]] .. child[start[i+1]-1] */
    uint32_t *rank;          /* UINT32_MAX: inner */
    double *bw;              /* of the uplink */
};

static void raw_free(struct raw *r)
{
    free(r->start);
    free(r->child);
    free(r->rank);
    free(r->bw);
}

static tutti_status raw_alloc(uint32_t n, struct raw *r, struct tutti_error *err)
{
    *r = (struct raw){.n = n};
    r->start = tt_zalloc((size_t)n + 1, sizeof *r->start);
    r->child = tt_alloc(n, sizeof *r->child);
    r->rank = tt_alloc(n, sizeof *r->rank);
    r->bw = tt_alloc(n, sizeof *r->bw);
    return r->start && r->child && r->rank && r->bw ? TUTTI_OK : tt_fail_memory(err, "hierarchy");
}

/* The rate of a link each way when sums and results cross it at the same time. */
static double link_rate(const struct tt_link *l)
{
    if (l->half)
        return l->bw[0] / 2;
    return l->bw[0] < l->bw[1] ? l->bw[0] : l->bw[1];
}

static tutti_status raw_from_tree(const struct tt_topo *t, struct raw *r, struct tutti_error *err)
{
    const struct tt_tree *tree = t->tree;
    tutti_status st = raw_alloc(tree->nnodes, r, err);
    uint32_t n = 0;
    for (uint32_t i = 0; i < tree->nnodes && !st; i++) {
        r->start[i] = n;
        r->rank[i] = tree->rank[i];
        r->bw[i] = i ? link_rate(&t->links[tree->uplink[i]]) : (double)INFINITY;
        for (uint32_t k = 0; k < tree->count[i]; k++)
            r->child[n++] = tree->first[i] + k;
    }
    if (!st)
        r->start[tree->nnodes] = n;
    return st;
}

/* Values of up[] that are no arcs: for the first vertex, and for those not reached. */
static const uint32_t first_arc = UINT32_MAX, unseen = UINT32_MAX - 1;

/* Breadth-first from `from`; up[v] is the CSR arc that led to v. Returns how many vertices were
 * reached: the last one in the queue is one of the farthest. */
static uint32_t tree_walk(const struct tt_topo *t, uint32_t from, uint32_t *up, uint32_t *queue)
{
    uint32_t tail = 0;
    for (uint32_t v = 0; v < t->ranks + t->switches; v++)
        up[v] = unseen;
    up[from] = first_arc;
    queue[tail++] = from;
    for (uint32_t head = 0; head < tail; head++) {
        for (uint32_t k = t->g.start[queue[head]]; k < t->g.start[queue[head] + 1]; k++) {
            uint32_t w = t->g.head[k];
            if (up[w] != unseen)
                continue;
            up[w] = k;
            queue[tail++] = w;
        }
    }
    return tail;
}

static uint32_t tail_of(const struct tt_topo *t, uint32_t arc)
{
    const struct tt_link *l = &t->links[t->g.id[arc] / 2];
    return t->g.id[arc] & 1 ? l->b : l->a;
}

/* The middle of the longest path; of two, the one nearer to its second end. Every vertex must be
 * reachable. */
static uint32_t middle(const struct tt_topo *t, uint32_t n, uint32_t *up, uint32_t *queue)
{
    uint32_t v, length = 0;
    (void)tree_walk(t, 0, up, queue);
    (void)tree_walk(t, queue[n - 1], up, queue);
    v = queue[n - 1];
    for (uint32_t w = v; up[w] != first_arc; w = tail_of(t, up[w]))
        length++;
    for (uint32_t i = 0; i < length / 2; i++)
        v = tail_of(t, up[v]);
    return v;
}

/* Has it as many links as a tree, and ranks that do not forward? Whether it is connected shows when
 * it is walked. */
static bool counts_as_tree(const struct tt_topo *t)
{
    if (t->ranks < 2 || t->nlinks + 1 != t->ranks + t->switches)
        return false;
    for (uint32_t r = 0; r < t->ranks; r++)
        if (t->g.start[r + 1] - t->g.start[r] != 1 || t->g.head[t->g.start[r]] < t->ranks)
            return false;
    return true;
}

static tutti_status no_hierarchy(const struct tt_topo *t, struct tutti_error *why)
{
    return tt_fail(why, TUTTI_ERR_REFUSED,
                   "%s has no hierarchy: it is not a tree of switches with the ranks as leaves",
                   t->kind);
}

/* The network is walked from the middle; everything but the arc to the parent is a child. */
static tutti_status raw_from_graph(const struct tt_topo *t, struct raw *r, struct tutti_error *err)
{
    uint32_t n = t->ranks + t->switches, k = 0;
    uint32_t *up = tt_alloc(n, sizeof *up), *queue = tt_alloc(n, sizeof *queue);
    tutti_status st = raw_alloc(n, r, err);
    if (!up || !queue)
        st = tt_fail_memory(err, "hierarchy");
    else if (!st && tree_walk(t, 0, up, queue) < n)
        st = no_hierarchy(t, err);
    if (st)
        goto out;
    r->root = middle(t, n, up, queue);
    (void)tree_walk(t, r->root, up, queue);
    for (uint32_t v = 0; v < n; v++) {
        r->start[v] = k;
        r->rank[v] = v < t->ranks ? v : UINT32_MAX;
        r->bw[v] = up[v] == first_arc ? (double)INFINITY : link_rate(&t->links[t->g.id[up[v]] / 2]);
        for (uint32_t a = t->g.start[v]; a < t->g.start[v + 1]; a++)
            if (up[v] == first_arc || t->g.id[a] / 2 != t->g.id[up[v]] / 2)
                r->child[k++] = t->g.head[a];
    }
    r->start[n] = k;
out:
    free(up);
    free(queue);
    return st;
}

/* Follows nodes with one child downwards; *bw becomes the slowest link on the way. Switches without
 * ranks below have no leaves and are skipped. */
static uint32_t tree_skip(const struct raw *r, const uint32_t *leaves, uint32_t v, double *bw)
{
    *bw = r->bw[v];
    for (uint32_t only = v; only != UINT32_MAX;) {
        uint32_t with = 0;
        only = UINT32_MAX;
        for (uint32_t k = r->start[v]; k < r->start[v + 1]; k++)
            if (leaves[r->child[k]] > 0 && with++ == 0)
                only = r->child[k];
        if (with != 1)
            break;
        v = only;
        *bw = r->bw[v] < *bw ? r->bw[v] : *bw;
    }
    return v;
}

/* Ranks below each node: walk from the root, then add up from the end of the walk. */
static void count_leaves(const struct raw *r, uint32_t *leaves, uint32_t *queue, uint32_t *parent)
{
    uint32_t tail = 0;
    queue[tail++] = r->root;
    for (uint32_t head = 0; head < tail; head++) {
        uint32_t v = queue[head];
        leaves[v] = r->rank[v] != UINT32_MAX;
        for (uint32_t k = r->start[v]; k < r->start[v + 1]; k++) {
            parent[r->child[k]] = v;
            queue[tail++] = r->child[k];
        }
    }
    while (tail-- > 1)
        leaves[parent[queue[tail]]] += leaves[queue[tail]];
}

/* Invariant: node i is vertex queue[i]; nodes before `i` have their children. */
static void tree_number(const struct raw *r, const uint32_t *leaves, uint32_t *queue,
                        struct tt_flex_tree *t)
{
    double bw;
    t->nnodes = 1;
    queue[0] = tree_skip(r, leaves, r->root, &bw);
    t->node[0] = (struct tt_flex_node){.parent = UINT32_MAX, .bw = (double)INFINITY};
    for (uint32_t i = 0; i < t->nnodes; i++) {
        struct tt_flex_node *v = &t->node[i];
        v->rank = r->rank[queue[i]];
        v->leaves = leaves[queue[i]];
        v->first = t->nnodes;
        for (uint32_t k = r->start[queue[i]]; k < r->start[queue[i] + 1]; k++) {
            if (leaves[r->child[k]] == 0)
                continue;
            queue[t->nnodes] = tree_skip(r, leaves, r->child[k], &bw);
            assert(t->nnodes < r->n);
            t->node[t->nnodes++] = (struct tt_flex_node){.parent = i, .bw = bw};
            v->count++;
        }
    }
    for (uint32_t i = t->nnodes; i-- > 1;) {
        struct tt_flex_node *p = &t->node[t->node[i].parent];
        p->height = t->node[i].height + 1 > p->height ? t->node[i].height + 1 : p->height;
    }
}

/* Leaves out nodes with one child and numbers the rest. */
static tutti_status collapse(const struct raw *r, struct tt_flex_tree *ret, struct tutti_error *err)
{
    uint32_t *leaves = tt_zalloc(r->n, sizeof *leaves), *queue = tt_alloc(r->n, sizeof *queue),
             *parent = tt_alloc(r->n, sizeof *parent);
    struct tt_flex_tree t = {.node = tt_zalloc(r->n, sizeof *t.node)};
    tutti_status st =
        leaves && queue && parent && t.node ? TUTTI_OK : tt_fail_memory(err, "hierarchy");
    if (!st) {
        count_leaves(r, leaves, queue, parent);
        tree_number(r, leaves, queue, &t);
        *ret = t;
    } else {
        free(t.node);
    }
    free(leaves);
    free(queue);
    free(parent);
    return st;
}

tutti_status tt_flex_tree_make(const struct tt_topo *t, struct tt_flex_tree *ret,
                               struct tutti_error *why)
{
    struct raw r = {0};
    tutti_status st;
    if (t->tree)
        st = raw_from_tree(t, &r, why);
    else
        st = counts_as_tree(t) ? raw_from_graph(t, &r, why) : no_hierarchy(t, why);
    if (!st)
        st = collapse(&r, ret, why);
    raw_free(&r);
    return st;
}

void tt_flex_tree_free(struct tt_flex_tree *t)
{
    free(t->node);
    t->node = NULL;
}
