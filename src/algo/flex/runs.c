/* runs.c - the messages of the reduce-scatter, group by group.
 *
 * All groups of one height work in the same steps, from the leaves up. In a group of c children
 * every chunk has one representative in each child, and the one of the child that keeps the chunk
 * gets the sum.
 *
 *     direct      one step: all the others send to it. With two children it adds at once; with
 *                 more it puts the parts aside and adds them in the order of the children, so that
 *                 the sum does not depend on which child keeps it.
 *     circulant   ceil(log2 c) steps (Traeff 2024): child i names a chunk kept by child d by its
 *                 offset d - i (mod c). With q offsets left, s = ceil(q/2), offsets s .. q-1 go to
 *                 child i + s, where they are 0 .. q-1-s. One message in, one out, in each step.
 *
 * The part of a child is its representative's input, when the child is a leaf, or the sum that the
 * representative has made (in OUT, or in scratch when OUT is only for the rank's own chunks). Each
 * child that does not keep a chunk sends it exactly once: therefore the same runs backwards
 * distribute it again. */
#include <assert.h>

#include "algo/flex/flex.h"

#include <stdlib.h>

static uint32_t rounds(const struct tt_flex_node *v, bool circulant)
{
    return circulant ? tt_ceil_log2(v->count) : 1;
}

/* The steps that groups of this height take. */
static uint32_t level_steps(const struct tt_flex_tree *t, bool circulant, uint32_t height)
{
    uint32_t most = 0;
    for (uint32_t v = 0; v < t->nnodes; v++)
        if (t->node[v].height == height && height > 0 && rounds(&t->node[v], circulant) > most)
            most = rounds(&t->node[v], circulant);
    return most;
}

uint32_t tt_flex_steps(const struct tt_flex_tree *t, bool circulant, uint32_t blocks)
{
    assert(blocks > 0);
    uint32_t steps = blocks - 1;
    for (uint32_t h = 1; h <= t->node[0].height; h++)
        steps += level_steps(t, circulant, h);
    return steps;
}

/* One group being listed: the cell of each chunk (of one block), and its first step. */
struct group {
    struct tt_flex_plan *p;
    uint32_t v, step;
    const uint32_t *at;
    bool nomem;
};

static uint32_t partial(const struct group *g)
{
    return g->p->scatter ? (uint32_t)TT_FLEX_SUM : TT_BUF_OUT;
}

/* The buffer in which the representative of child k has its part before the group begins. */
static uint32_t part_of(const struct group *g, uint32_t k)
{
    return g->p->tree.node[g->p->tree.node[g->v].first + k].count ? partial(g) : TT_BUF_IN;
}

static uint32_t result(const struct group *g)
{
    return g->v == 0 ? TT_BUF_OUT : partial(g);
}

static uint32_t rep_of(const struct group *g, uint32_t k, uint32_t chunk)
{
    const struct tt_flex_cells *c = &g->p->cells[g->p->tree.node[g->v].first + k];
    assert(k < g->p->tree.node[g->v].count && c->lower[g->at[chunk]] < c->n);
    return c->rep[c->lower[g->at[chunk]]];
}

static uint32_t kept_by(const struct group *g, uint32_t chunk)
{
    assert(g->at[chunk] < g->p->cells[g->v].n);
    return g->p->cells[g->v].kept[g->at[chunk]];
}

/* Appends a run to the list, or lengthens the last one; once per block. `since`: where the runs of
 * this loop began. */
static void push_run(struct group *g, size_t since, struct tt_flex_run run)
{
    struct tt_vec *list = &g->p->run;
    struct tt_flex_run *last = list->len > since ? tt_vec_at(list, list->len - 1) : NULL;
    if (last && last->first + last->len == run.first && last->src == run.src &&
        last->dst == run.dst && last->from == run.from && last->to == run.to &&
        last->add == run.add)
        last->len++;
    else if (!tt_vec_push(list, &run, 1))
        g->nomem = true;
}

static void push_sum(struct group *g, size_t since, struct tt_flex_sum sum)
{
    struct tt_vec *list = &g->p->sum;
    struct tt_flex_sum *last = list->len > since ? tt_vec_at(list, list->len - 1) : NULL;
    if (last && last->first + last->len == sum.first && last->rank == sum.rank &&
        last->own == sum.own)
        last->len++;
    else if (!tt_vec_push(list, &sum, 1))
        g->nomem = true;
}

static void direct_from(struct group *g, uint32_t block, uint32_t w)
{
    uint32_t children = g->p->tree.node[g->v].count, chunks = g->p->cells[0].n;
    size_t since = g->p->run.len;
    for (uint32_t c = 0; c < chunks && !g->nomem; c++) {
        uint32_t k = kept_by(g, c);
        if (k == w)
            continue;
        struct tt_flex_run run = {
            .step = g->step + block, .first = block * chunks + c, .len = 1, .from = part_of(g, w)};
        run.src = rep_of(g, w, c);
        run.dst = rep_of(g, k, c);
        run.to = children == 2 ? result(g) : TT_FLEX_ARRIVALS + w;
        run.add = children == 2 ? part_of(g, k) : (uint32_t)TT_FLEX_APART;
        push_run(g, since, run);
    }
}

static void direct_sums(struct group *g, uint32_t block)
{
    uint32_t children = g->p->tree.node[g->v].count, chunks = g->p->cells[0].n;
    size_t since = g->p->sum.len;
    for (uint32_t c = 0; c < chunks && children > 2 && !g->nomem; c++) {
        uint32_t k = kept_by(g, c);
        struct tt_flex_sum sum = {.step = g->step + block,
                                  .rank = rep_of(g, k, c),
                                  .first = block * chunks + c,
                                  .len = 1};
        sum.to = result(g);
        sum.add = part_of(g, k);
        sum.own = k;
        sum.children = children;
        push_sum(g, since, sum);
    }
}

/* The buffer in which child k has offset `offset` at the beginning of round t: an offset that
 * received anything did so in round 0 (later rounds reach fewer offsets). */
static uint32_t circulant_part(const struct group *g, uint32_t k, uint32_t offset, uint32_t t)
{
    bool added = t > 0 && offset < g->p->tree.node[g->v].count / 2;
    if (!added)
        return part_of(g, k);
    return offset == 0 ? result(g) : partial(g);
}

static void circulant_from(struct group *g, uint32_t block, uint32_t w, uint32_t t)
{
    uint32_t n = g->p->tree.node[g->v].count, chunks = g->p->cells[0].n;
    uint32_t left = (uint32_t)(((uint64_t)n + (1ull << t) - 1) >> t), s = left - left / 2,
             to = (w + s) % n;
    size_t since = g->p->run.len;
    for (uint32_t c = 0; c < chunks && !g->nomem; c++) {
        uint32_t offset = (kept_by(g, c) + n - w) % n;
        if (offset < s || offset >= left)
            continue;
        struct tt_flex_run run = {
            .step = g->step + t + block, .first = block * chunks + c, .len = 1};
        run.src = rep_of(g, w, c);
        run.dst = rep_of(g, to, c);
        run.from = circulant_part(g, w, offset, t);
        run.add = circulant_part(g, to, offset - s, t);
        run.to = offset == s ? result(g) : partial(g);
        push_run(g, since, run);
    }
}

static void list_group(struct group *g)
{
    const struct tt_flex_node *v = &g->p->tree.node[g->v];
    for (uint32_t block = 0; block < g->p->blocks; block++) {
        for (uint32_t w = 0; w < v->count; w++) {
            if (!g->p->circulant)
                direct_from(g, block, w);
            for (uint32_t t = 0; g->p->circulant && t < rounds(v, true); t++)
                circulant_from(g, block, w, t);
        }
        if (!g->p->circulant)
            direct_sums(g, block);
    }
}

/* Lists v and everything below; at[chunk] is the chunk's cell of v's parent. */
static tutti_status list_below(struct tt_flex_plan *p, uint32_t v, const uint32_t *parent_at,
                               const uint32_t *base, struct tutti_error *err)
{
    uint32_t chunks = p->cells[0].n;
    uint32_t *at = tt_alloc(chunks, sizeof *at);
    tutti_status st = at ? TUTTI_OK : tt_fail_memory(err, "messages");
    for (uint32_t c = 0; at && c < chunks; c++)
        at[c] = parent_at ? p->cells[v].lower[parent_at[c]] : c;
    if (at) {
        struct group g = {.p = p, .v = v, .step = base[p->tree.node[v].height], .at = at};
        list_group(&g);
        st = g.nomem ? tt_fail_memory(err, "messages") : TUTTI_OK;
    }
    for (uint32_t k = 0; k < p->tree.node[v].count && !st; k++)
        if (p->tree.node[p->tree.node[v].first + k].count)
            st = list_below(p, p->tree.node[v].first + k, at, base, err);
    free(at);
    return st;
}

tutti_status tt_flex_runs_make(struct tt_flex_plan *p, struct tutti_error *err)
{
    uint32_t height = p->tree.node[0].height;
    uint32_t *base = tt_zalloc((size_t)height + 2, sizeof *base); /* first step of a height */
    tutti_status st;
    if (!base)
        return tt_fail_memory(err, "messages");
    for (uint32_t h = 1; h <= height; h++)
        base[h + 1] = base[h] + level_steps(&p->tree, p->circulant, h);
    p->top = base[height];
    p->steps = tt_flex_steps(&p->tree, p->circulant, p->blocks);
    p->run = (struct tt_vec){.elem = sizeof(struct tt_flex_run)};
    p->sum = (struct tt_vec){.elem = sizeof(struct tt_flex_sum)};
    st = list_below(p, 0, NULL, base, err);
    free(base);
    return st;
}
