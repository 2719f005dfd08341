/* work_deps.c - the live rule of the schedule (sched/deps.h) as the graph that the engines run,
 * for all ranks.
 *
 * The edges of a rank come by ascending `to`, in the schedule's numbers. Two counts are taken on
 * the way: how many edges an operation waits for, and how many wait for it. With both, one array
 * of `from` is enough to group all edges by where they come from. IN and OUT are separate
 * memories (not in place). */
#include <assert.h>
#include <stdlib.h>

#include "sched/deps.h"
#include "sim/sim_int.h"

/* Appends where the rank's edges come from; number[] starts at the rank's operations. */
static bool keep_edges(struct tt_work *w, const struct tt_vec *edges, const uint32_t *number,
                       struct tt_vec *froms)
{
    const struct tt_edge *e = edges->data;
    uint32_t *from = tt_vec_push(froms, NULL, edges->len);
    if (!from && edges->len)
        return false;
    for (size_t i = 0, group = 0; i < edges->len; i++) {
        from[i] = number[e[i].from];
        w->op[from[i]].after++;
        if (i + 1 == edges->len || e[i + 1].to != e[i].to) {
            w->op[number[e[i].to]].need = (uint32_t)(i + 1 - group);
            group = i + 1;
        }
    }
    return true;
}

/* Groups the edges by where they come from. op[].after holds the group's size, then its end, and
 * finally its start. Going backwards keeps an operation's successors in listed order. */
static bool group_edges(struct tt_work *w, const struct tt_vec *froms, const uint32_t *number)
{
    const uint32_t *from = froms->data;
    uint32_t end = 0;
    if (froms->len == 0) /* every group is empty */
        return (w->succ = tt_alloc(1, sizeof *w->succ)) != NULL;
    assert(from);
    if (froms->len >= UINT32_MAX || !(w->succ = tt_alloc(froms->len + 1, sizeof *w->succ)))
        return false;
    for (uint32_t i = 0; i < w->nops; i++)
        w->op[i].after = end += w->op[i].after;
    w->op[w->nops].after = end;
    for (size_t i = w->nops, k = froms->len; i-- > 0;)
        for (uint32_t n = w->op[number[i]].need; n > 0; n--)
            w->succ[--w->op[from[--k]].after] = number[i];
    return true;
}

tutti_status tt_sim_work_deps(struct tt_work *w, const uint32_t *number, struct tutti_error *err)
{
    struct tt_deps d = {.shape = &w->s->shape};
    struct tt_vec edges = {.elem = sizeof(struct tt_edge)}, froms = {.elem = sizeof(uint32_t)};
    const uint32_t *listed = number;
    tutti_status st = TUTTI_OK;
    for (uint32_t rank = 0; rank < w->ranks && !st; rank++) {
        struct tt_slice sl = tt_sched_slice(w->s, rank);
        edges.len = 0;
        st = tt_sched_deps_find(&d, &sl, &edges, err);
        if (!st && !keep_edges(w, &edges, listed, &froms))
            st = tt_fail_memory(err, "dependencies");
        listed += sl.nops;
    }
    if (!st && !group_edges(w, &froms, number))
        st = tt_fail_memory(err, "dependencies");
    tt_sched_deps_free(&d);
    tt_vec_free(&edges);
    tt_vec_free(&froms);
    return st;
}
