/* front.c - goes through the schedule step by step and finds the ranks that are active in a
 * step, and their operations.
 *
 *     operations of a rank in a step:   | sends | receives | local operations |
 *                                   begin     recvs      locals              end
 *
 * Operations of a rank are listed by step, so one cursor per rank suffices and no message is
 * stored twice. Ranks that continue with the next step wait in a list, others in a heap by
 * (step, rank). A ring is followed without touching the heap; a chain through 65,536 ranks,
 * where each step has two active ranks, does not touch the other 65,534.
 *
 * Invariant: a rank with operations left is in exactly one of `next` (its step is the current
 * one plus 1) and the heap. */
#include <stdlib.h>

#include "verify/verify_int.h"

/* A binary heap, least key first; `heap` has room for all ranks. */
static void heap_push(struct tt_vfront *f, uint64_t key)
{
    size_t i = f->nheap++;
    while (i > 0 && f->heap[(i - 1) / 2] > key) {
        f->heap[i] = f->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    f->heap[i] = key;
}

static uint64_t heap_pop(struct tt_vfront *f)
{
    uint64_t top = f->heap[0], last = f->heap[--f->nheap];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= f->nheap)
            break;
        if (child + 1 < f->nheap && f->heap[child + 1] < f->heap[child])
            child++;
        if (f->heap[child] >= last)
            break;
        f->heap[i] = f->heap[child];
        i = child;
    }
    f->heap[i] = last;
    return top;
}

tutti_status tt_verify_front_init(struct tt_vfront *f, const struct tt_sched *s,
                                  struct tutti_error *err)
{
    uint32_t ranks = s->shape.ranks;
    *f = (struct tt_vfront){.sched = s};
    f->active = tt_alloc(ranks, sizeof *f->active);
    f->slot = tt_zalloc(ranks, sizeof *f->slot);
    f->cursor = tt_zalloc(ranks, sizeof *f->cursor);
    f->next = tt_alloc(ranks, sizeof *f->next);
    f->now = tt_alloc(ranks, sizeof *f->now);
    f->heap = tt_alloc(ranks, sizeof *f->heap);
    if (!f->active || !f->slot || !f->cursor || !f->next || !f->now || !f->heap)
        return tt_fail_memory(err, "ranks");
    for (uint32_t r = 0; r < ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        if (sl.nops > 0)
            heap_push(f, (uint64_t)sl.ops[0].step << 32 | r);
    }
    return TUTTI_OK;
}

void tt_verify_front_free(struct tt_vfront *f)
{
    free(f->active);
    free(f->slot);
    free(f->cursor);
    free(f->next);
    free(f->now);
    free(f->heap);
    *f = (struct tt_vfront){0};
}

/* Takes the rank's operations of this step, then puts the rank where it waits for its next step. */
static void front_activate(struct tt_vfront *f, uint32_t rank)
{
    struct tt_slice sl = tt_sched_slice(f->sched, rank);
    uint32_t i = f->cursor[rank];
    struct tt_vactive a = {.rank = rank, .begin = i, .recv_base = f->recvs};
    while (i < sl.nops && sl.ops[i].step == f->step && sl.ops[i].kind == TT_OP_SEND)
        i++;
    a.recvs = i;
    while (i < sl.nops && sl.ops[i].step == f->step &&
           (sl.ops[i].kind == TT_OP_RECV || sl.ops[i].kind == TT_OP_RECV_REDUCE))
        i++;
    a.locals = i;
    while (i < sl.nops && sl.ops[i].step == f->step)
        i++;
    a.end = i;
    f->cursor[rank] = i;
    f->recvs += a.locals - a.recvs;
    f->slot[rank] = f->n;
    f->active[f->n++] = a;
    if (i == sl.nops)
        return;
    if (sl.ops[i].step == f->step + 1)
        f->next[f->nnext++] = rank;
    else
        heap_push(f, (uint64_t)sl.ops[i].step << 32 | rank);
}

bool tt_verify_front_next(struct tt_vfront *f)
{
    uint32_t waiting = f->nnext, taken = 0;
    if (waiting == 0 && f->nheap == 0)
        return false;
    /* The list's step is never later than the heap's: it is the current step + 1. */
    f->step = waiting ? f->step + 1 : (uint32_t)(f->heap[0] >> 32);
    f->n = f->recvs = 0;
    uint32_t *now = f->next;
    f->next = f->now;
    f->now = now;
    f->nnext = 0;
    /* Both lists ascend by rank, so merging them keeps `active` in order. */
    while (taken < waiting || (f->nheap > 0 && f->heap[0] >> 32 == f->step)) {
        bool from_heap = f->nheap > 0 && f->heap[0] >> 32 == f->step;
        if (from_heap && taken < waiting)
            from_heap = (uint32_t)f->heap[0] < now[taken];
        front_activate(f, from_heap ? (uint32_t)heap_pop(f) : now[taken++]);
    }
    return true;
}

const struct tt_vactive *tt_verify_front_find(const struct tt_vfront *f, uint32_t rank)
{
    uint32_t slot = f->slot[rank];
    return slot < f->n && f->active[slot].rank == rank ? &f->active[slot] : NULL;
}
