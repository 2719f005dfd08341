/* timeline.c - the reductions of a timeline: room for all of them is allocated before the run,
 * each is noted when it begins, and they are sorted at the end. */
#include <assert.h>
#include <stdlib.h>

#include "sim/sim_int.h"

bool tt_sim_timeline_room(const struct tt_sim_input *in, struct tt_sim_report *r)
{
    size_t n = 0;
    for (uint32_t i = 0; i < in->w->nops; i++)
        n += in->w->op[i].kind == TT_OP_RECV_REDUCE || in->w->op[i].kind == TT_OP_REDUCE;
    r->work = tt_alloc(n * in->w->segments + 1, sizeof *r->work);
    return r->work != NULL;
}

void tt_sim_timeline_work(struct tt_sim_report *r, const struct tt_work *w, uint64_t node,
                          uint64_t start_ps, uint64_t end_ps)
{
    uint32_t op = (uint32_t)(node / w->segments);
    if (!r->work)
        return;
    assert(w->op[op].kind == TT_OP_RECV_REDUCE || w->op[op].kind == TT_OP_REDUCE);
    r->work[r->nwork++] = (struct tt_sim_work){
        .rank = tt_sim_work_rank(w, op),
        .step = tt_sim_work_step(w, op),
        .bytes = tt_sim_work_reduce_bytes(w, op, (uint32_t)(node % w->segments)),
        .start_ps = start_ps,
        .end_ps = end_ps};
}

/* A rank's reductions run one after the other, so no two have the same rank and start. */
static int by_start(const void *x, const void *y)
{
    const struct tt_sim_work *a = x, *b = y;
    if (a->start_ps != b->start_ps)
        return a->start_ps < b->start_ps ? -1 : 1;
    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

void tt_sim_timeline_sort(struct tt_sim_report *r)
{
    if (r->nwork)
        qsort(r->work, r->nwork, sizeof *r->work, by_start);
}
