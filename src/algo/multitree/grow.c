/* grow.c - all trees grow together, one edge per turn, step after step (MultiTree, ISCA 2021).
 *
 * Every step starts with all slots of every link and of every rank's ports free. The roots take
 * turns; in its turn a tree adds one edge: from the first of its members (in the order they joined,
 * and only those of earlier steps, which have the chunk by now) that can reach a rank outside the
 * tree over free links. The step is over when no tree can add an edge. On a mesh of 2x2 (0 1 / 2
 * 3), three turns each:
 *
 *     step 0:  0->2  1->3  2->0  3->1   then  0->1  1->0  2->3  3->2    all 8 directed links used
 *     step 1:  tree 0: 2->3   tree 1: 3->2   tree 2: 0->1   tree 3: 1->0    all trees are complete
 *
 * Two endings: the published code checks only the last root of a round, so that a step may end
 * while other trees could go on (and once that root's tree is complete, every step has one round):
 * 10 steps on a 4x4 mesh. The fixed ending waits for all: 8, the lower bound. Two orders of turns:
 * by number; or as published: after the very first round by falling eccentricity, on meshes with a
 * mistaken distance (|row - row'| + |row' - column'| to a corner), elsewhere all 0, equals by
 * falling number.
 *
 * What makes it fast: a tree that found nothing is skipped for the rest of the step; so is a
 * member, and the next turn continues after it; members surrounded by members are dropped. 1,024
 * trees on a 32x32 torus take about 0.1 s. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/multitree/multitree.h"

enum { NONE = UINT32_MAX };

/* A tree's members that may still reach a new rank, in joining order: live[0..kept) were tried in
 * this step without success, live[next..known) come from earlier steps and are still to be tried,
 * live[known..len) joined in this step. */
struct tree {
    uint32_t *live;
    uint32_t kept, next, known, len;
    uint32_t members;
    bool out; /* complete, or without success in this step */
};

struct grower {
    struct tt_multitree_step step;
    struct tree *trees;
    uint32_t *store; /* of live */
    uint32_t *order; /* of turns */
    uint32_t ranks, complete;
    struct tt_vec edges, links;
    size_t first_link; /* of this step */
};

static tutti_status open_grower(const struct tt_multitree_net *n, struct grower *g,
                                struct tutti_error *err)
{
    *g = (struct grower){.ranks = n->ranks,
                         .edges.elem = sizeof(struct tt_multitree_edge),
                         .links.elem = sizeof(uint32_t)};
    tutti_status st = tt_multitree_step_open(n, &g->step, err);
    if (st)
        return st;
    g->trees = tt_zalloc(n->ranks, sizeof *g->trees);
    g->store = tt_alloc((size_t)n->ranks * n->ranks, sizeof *g->store);
    g->order = tt_alloc(n->ranks, sizeof *g->order);
    /* room for all edges, and for at least one link each */
    g->edges.cap = g->links.cap = (size_t)n->ranks * n->ranks;
    g->edges.data = tt_alloc(g->edges.cap, g->edges.elem);
    g->links.data = tt_alloc(g->links.cap, g->links.elem);
    if (!g->trees || !g->store || !g->order || !g->edges.data || !g->links.data)
        return tt_fail_memory(err, "growing trees");
    for (uint32_t r = 0; r < n->ranks; r++) {
        g->order[r] = r;
        g->trees[r] =
            (struct tree){.live = g->store + (size_t)r * n->ranks, .len = 1, .members = 1};
        g->trees[r].live[0] = r;
    }
    g->complete = n->ranks == 1;
    return TUTTI_OK;
}

static void close_grower(struct grower *g)
{
    tt_multitree_step_close(&g->step);
    free(g->trees);
    free(g->store);
    free(g->order);
    tt_vec_free(&g->edges);
    tt_vec_free(&g->links);
}

/* ---- the order of turns ---- */

/* The published eccentricity of a rank: the farthest corner of a square mesh by the published
 * distance; other networks: 0. */
static uint32_t published_depth(const struct tt_topo *t, uint32_t rank)
{
    if (t->ndims != 2 || t->wrap)
        return 0;
    uint32_t row = rank / t->dims[1], rows = t->dims[0] - 1, columns = t->dims[1] - 1, depth = 0;
    for (uint32_t corner = 0; corner < 4; corner++) {
        uint32_t r = corner / 2 * rows, c = corner % 2 * columns;
        uint32_t distance = (row > r ? row - r : r - row) + (r > c ? r - c : c - r);
        depth = distance > depth ? distance : depth;
    }
    return depth;
}

/* Depths are below 2 * ranks: a counting sort, falling depth, then falling number. */
static tutti_status sort_as_published(struct grower *g, struct tutti_error *err)
{
    const struct tt_topo *t = g->step.n->t;
    uint32_t n = g->ranks, at = 0;
    uint32_t *depth = tt_alloc(n, sizeof *depth);
    if (!depth)
        return tt_fail_memory(err, "order of the trees");
    uint32_t most = 0;
    for (uint32_t r = 0; r < n; r++) {
        depth[r] = published_depth(t, r);
        most = depth[r] > most ? depth[r] : most;
    }
    for (uint32_t d = most + 1; d-- > 0;)
        for (uint32_t r = n; r-- > 0;)
            if (depth[r] == d)
                g->order[at++] = r;
    free(depth);
    assert(at == n);
    return TUTTI_OK;
}

/* ---- one step ---- */

/* Members of earlier steps are to be tried again, except those that are of no more use. */
static void rewind_tree(const struct grower *g, struct tree *t)
{
    assert(t->kept <= t->next && t->next <= t->len && t->known <= t->len);
    uint32_t gone = t->next - t->kept;
    memmove(t->live + t->kept, t->live + t->next, (t->len - t->next) * sizeof *t->live);
    t->len -= gone;
    t->known -= gone;
    t->kept = t->next = 0;
    t->out = t->members == g->ranks;
}

static void begin_step(struct grower *g, uint32_t number)
{
    const uint32_t *links = g->links.data;
    size_t used = g->links.len - g->first_link;
    tt_multitree_step_begin(&g->step, number, used ? links + g->first_link : NULL, used);
    g->first_link = g->links.len;
    for (uint32_t r = 0; r < g->ranks; r++) {
        rewind_tree(g, &g->trees[r]);
        g->trees[r].known = g->trees[r].len;
    }
}

static bool add_edge(struct grower *g, uint32_t tree, uint32_t parent, uint32_t child)
{
    struct tt_multitree_edge e = {.tree = tree,
                                  .parent = parent,
                                  .child = child,
                                  .step = g->step.number,
                                  .path = (uint32_t)g->links.len};
    struct tree *t = &g->trees[tree];
    if (g->links.len > UINT32_MAX - g->step.npath || !tt_vec_push(&g->edges, &e, 1) ||
        !tt_vec_push(&g->links, g->step.path, g->step.npath))
        return false;
    tt_multitree_take(&g->step, tree, parent, child);
    assert(t->len < g->ranks && t->members < g->ranks);
    t->live[t->len++] = child;
    g->complete += ++t->members == g->ranks;
    return true;
}

/* Is there a member that may still send at all? */
static bool can_send(const struct grower *g, uint32_t tree)
{
    const struct tt_multitree_step *s = &g->step;
    const uint64_t *in = s->members + (size_t)tree * s->n->words;
    for (uint32_t w = 0; w < s->n->words; w++)
        if (in[w] & s->may_put[w])
            return true;
    return false;
}

/* One turn. *ret_added: an edge was added; otherwise the tree is out. False: out of memory. */
static bool take_turn(struct grower *g, uint32_t tree, bool *ret_added)
{
    struct tree *t = &g->trees[tree];
    *ret_added = false;
    t->out = t->out || !can_send(g, tree);
    while (!t->out && t->next < t->known) {
        uint32_t parent = t->live[t->next];
        bool able = g->step.inject[parent] > 0;
        uint32_t child = able ? tt_multitree_find(&g->step, tree, parent) : NONE;
        if (child != NONE) {
            *ret_added = add_edge(g, tree, parent, child);
            t->out = t->members == g->ranks;
            return *ret_added;
        }
        if (!able || !g->step.surrounded)
            t->live[t->kept++] = parent;
        t->next++;
    }
    t->out = true;
    return true;
}

/* One turn for every root; *ret_any: some tree grew, *ret_last: that of the last root. */
static bool take_round(struct grower *g, bool *ret_any, bool *ret_last)
{
    bool any = false, added = false;
    for (uint32_t i = 0; i < g->ranks && g->complete < g->ranks; i++) {
        if (!take_turn(g, g->order[i], &added))
            return false;
        any = any || added;
    }
    *ret_any = any;
    *ret_last = added;
    return true;
}

/* Is another round worthwhile? When nothing was found, a wider reach may still find something. */
static bool go_on(struct grower *g, const struct tt_multitree_options *o, bool any, bool last)
{
    if (o->paper_ending)
        return last;
    if (g->step.senders == 0)
        return false;
    if (any || g->step.reach == TT_MULTITREE_ANY)
        return any;
    tt_multitree_step_widen(&g->step);
    for (uint32_t r = 0; r < g->ranks; r++)
        rewind_tree(g, &g->trees[r]);
    return true;
}

/* *ret_grown: the step has edges. */
static tutti_status grow_step(struct grower *g, uint32_t number,
                              const struct tt_multitree_options *o, bool *ret_grown,
                              struct tutti_error *err)
{
    bool any = true, last = true, grown = false;
    begin_step(g, number);
    for (bool more = true; more && g->complete < g->ranks;) {
        if (!take_round(g, &any, &last))
            return tt_fail_memory(err, "trees");
        grown = grown || any;
        more = go_on(g, o, any, last);
        if (number == 0 && o->paper_order && g->order[0] == 0) {
            tutti_status st = sort_as_published(g, err);
            if (st)
                return st;
        }
    }
    *ret_grown = grown;
    return TUTTI_OK;
}

static tutti_status grow_finish(struct grower *g, uint32_t steps, struct tt_multitree_trees *ret,
                                struct tutti_error *err)
{
    assert(g->complete == g->ranks && g->edges.len == (size_t)g->ranks * (g->ranks - 1));
    struct tt_multitree_edge end = {.path = (uint32_t)g->links.len};
    uint32_t nedges = (uint32_t)g->edges.len;
    if (!tt_vec_push(&g->edges, &end, 1))
        return tt_fail_memory(err, "trees");
    *ret = (struct tt_multitree_trees){.ranks = g->ranks,
                                       .steps = steps,
                                       .nedges = nedges,
                                       .edges = g->edges.data,
                                       .links = g->links.data};
    g->edges = g->links = (struct tt_vec){0};
    return TUTTI_OK;
}

tutti_status tt_multitree_grow(const struct tt_multitree_net *n,
                               const struct tt_multitree_options *o, struct tt_multitree_trees *ret,
                               bool *ret_stuck, struct tutti_error *err)
{
    struct grower g;
    bool grown = true;
    uint32_t steps = 0;
    assert(n->ranks > 0 && n->ranks <= TT_MULTITREE_RANKS);
    tutti_status st = open_grower(n, &g, err);
    while (!st && g.complete < g.ranks && grown)
        st = grow_step(&g, steps++, o, &grown, err);
    if (!st && grown)
        st = grow_finish(&g, steps, ret, err);
    if (!st)
        *ret_stuck = !grown;
    close_grower(&g);
    return st;
}

void tt_multitree_free(struct tt_multitree_trees *f)
{
    free(f->edges);
    free(f->links);
    *f = (struct tt_multitree_trees){0};
}

/* The best so far, and the speed by which its steps are measured; 0: none yet. */
struct pick {
    struct tt_multitree_trees forest;
    double base;
};

/* Is a, with steps of one message at speed wa, faster than b? Equal times: the one with fewer
 * steps. */
static bool better(const struct tt_multitree_trees *a, double wa,
                   const struct tt_multitree_trees *b, double wb)
{
    double ta = a->steps * wb, tb = b->steps * wa;
    return ta < tb || (!(ta > tb) && a->steps < b->steps);
}

/* The least steps there can be: every rank gets the chunks of all others through its ports. */
static uint32_t least_steps(const struct tt_multitree_net *n)
{
    uint32_t most = 0;
    for (uint32_t r = 0; r < n->ranks && n->ranks > 1; r++) {
        uint32_t each = n->eject[r] ? (n->ranks - 1 + n->eject[r] - 1) / n->eject[r] : 0;
        most = each > most ? each : most;
    }
    return most;
}

/* Replaces f by what grows on n if that is better. */
static tutti_status grow_better(const struct tt_multitree_net *n,
                                const struct tt_multitree_options *o, double base, struct pick *p,
                                struct tutti_error *err)
{
    struct tt_multitree_trees f = {0};
    bool stuck = true;
    tutti_status st = tt_multitree_grow(n, o, &f, &stuck, err);
    if (!st && !stuck && (p->base == 0 || better(&f, base, &p->forest, p->base))) {
        tt_multitree_free(&p->forest);
        *p = (struct pick){f, base};
        return st;
    }
    tt_multitree_free(&f);
    return st;
}

/* Two ways on a network with switches: from the root straight to every rank (few hops), or, when
 * that takes more steps than necessary, once to each switch and on from there (less load between
 * switches). */
static tutti_status try_base(const struct tt_topo *t, const struct tt_multitree_options *o,
                             double base, struct pick *p, struct tutti_error *err)
{
    struct tt_multitree_net n;
    tutti_status st = tt_multitree_net_make(t, o, base, &n, err);
    if (st)
        return st;
    st = grow_better(&n, o, base, p, err);
    n.once = t->switches > 1 && !o->paper_ending;
    if (!st && n.once && (p->base < base || p->base > base || p->forest.steps > least_steps(&n)))
        st = grow_better(&n, o, base, p, err);
    tt_multitree_net_free(&n);
    return st;
}

tutti_status tt_multitree_make(const struct tt_topo *t, const struct tt_multitree_options *o,
                               struct tt_multitree_trees *ret, struct tutti_error *err)
{
    double bases[TT_MULTITREE_BASES] = {1};
    size_t n = t->nlinks ? tt_multitree_bases(t, bases) : 1;
    struct pick best = {0};
    tutti_status st = TUTTI_OK;
    for (size_t i = 0; i < n && !st; i++)
        st = try_base(t, o, bases[i], &best, err);
    if (st) {
        tt_multitree_free(&best.forest);
        return st;
    }
    /* with the slowest speed every link has a slot, and the topology is connected */
    assert(best.base > 0);
    *ret = best.forest;
    return TUTTI_OK;
}
