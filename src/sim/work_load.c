/* work_load.c - the contention of a schedule: the most messages that cross one directed link in
 * one step.
 *
 * Operations are numbered by block of steps. The sends of a block are sorted by step (counting
 * sort), then the links of each step are counted. A count belongs to the step stored beside it,
 * so nothing is cleared in between. O(messages * hops). */
#include <stdlib.h>

#include "sim/sim_int.h"

struct load {
    uint32_t step, n; /* the step + 1; messages in it */
};
/* The state of the count; `most` is the result so far. */
struct walk {
    const struct tt_work *w;
    struct load *load; /* per directed link */
    uint32_t *start;   /* per step of the block, and the end */
    uint32_t *sorted;  /* sends of the block */
    uint32_t most;
};

static uint32_t step_in_block(const struct tt_work *w, uint32_t op)
{
    return w->msg[w->op[op].ref].step & ((1u << w->block_shift) - 1);
}

/* Counts the links of the sends sorted[from .. to-1], all of one step. */
static void count_step(struct walk *x, uint32_t from, uint32_t to, uint32_t step)
{
    const struct tt_work *w = x->w;
    for (uint32_t i = from; i < to; i++) {
        const struct tt_work_conn *c = &w->conn[w->op[x->sorted[i]].conn];
        for (uint32_t k = 0; k < c->nlinks; k++) {
            struct load *l = &x->load[w->path[c->path_at + k]];
            *l = (struct load){step + 1, l->step == step + 1 ? l->n + 1 : 1};
            x->most = l->n > x->most ? l->n : x->most;
        }
    }
}

static void count_block(struct walk *x, uint32_t block)
{
    const struct tt_work *w = x->w;
    uint32_t steps = 1u << w->block_shift, begin = w->block_at[block], end = w->block_at[block + 1];
    for (uint32_t i = 0; i <= steps; i++)
        x->start[i] = 0;
    for (uint32_t i = begin; i < end; i++)
        if (w->op[i].kind == TT_OP_SEND)
            x->start[step_in_block(w, i) + 1]++;
    for (uint32_t i = 0; i < steps; i++)
        x->start[i + 1] += x->start[i];
    for (uint32_t i = begin; i < end; i++)
        if (w->op[i].kind == TT_OP_SEND)
            x->sorted[x->start[step_in_block(w, i)]++] = i;
    for (uint32_t i = 0; i < steps; i++) /* each start has moved to the next one's */
        count_step(x, i ? x->start[i - 1] : 0, x->start[i], (block << w->block_shift) + i);
}

uint32_t tt_sim_work_contention(const struct tt_work *w)
{
    struct walk x = {.w = w};
    uint32_t longest = 0;
    for (uint32_t b = 0; b < w->nblocks; b++)
        longest = w->block_at[b + 1] - w->block_at[b] > longest
                      ? w->block_at[b + 1] - w->block_at[b]
                      : longest;
    x.load = tt_zalloc(2 * (size_t)w->t->nlinks + 1, sizeof *x.load);
    x.start = tt_alloc(((size_t)1 << w->block_shift) + 1, sizeof *x.start);
    x.sorted = tt_alloc((size_t)longest + 1, sizeof *x.sorted);
    if (!x.load || !x.start || !x.sorted)
        x.most = UINT32_MAX;
    for (uint32_t b = 0; b < w->nblocks && x.most != UINT32_MAX; b++)
        count_block(&x, b);
    free(x.load);
    free(x.start);
    free(x.sorted);
    return x.most;
}
