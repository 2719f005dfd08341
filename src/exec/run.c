/* run.c - what operations do to memory, and which tasks become ready by it.
 *
 * A task is ready when it waits for no other. Finishing a task counts down its successors of the
 * same segment; those that reach zero enter the program's work list. Each task enters it at most
 * once, so the list never wraps and nothing is ever searched. tt_exec_work empties it:
 *
 *     receive of step 0 done -> reduce ready -> done -> send of step 1 ready -> to the transport
 *
 * Invariant: outside tt_exec_work the list is empty, and every unfinished task waits for another
 * task, a message, or the transport. */
#include <assert.h>
#include <string.h>

#include "exec/exec_int.h"

/* ---- bytes ---- */

/* One fragment through the kernel, with the division if the mean is formed here. */
TT_HOT static void run_combine(const struct tt_program *p, const struct tt_xfrag *f,
                               const void *const *src, uint32_t nsrc)
{
    void *const dst[] = {tt_xat(p, f, 0)};
    const struct tt_reduce r = {.dtype = p->dtype,
                                .redop = p->redop,
                                .user = p->user.fn ? &p->user : NULL,
                                .nsrc = nsrc,
                                .ndst = 1,
                                .src = src,
                                .dst = dst,
                                .count = (size_t)f->elems,
                                .divisor = f->divide ? p->divisor : 1};
    tt_kernel_reduce_run(&r);
}

/* A receive that divides is a reduction of one operand. */
void tt_exec_consume(struct tt_program *p, const struct tt_xop *op, const struct tt_xwalk *piece,
                     const void *data)
{
    struct tt_xwalk w = *piece;
    const char *from = data;
    struct tt_xfrag f;
    while (tt_xwalk_next(&w, &f)) {
        const void *src[2] = {from, from};
        if (op->kind == TT_OP_RECV_REDUCE)
            src[0] = tt_xat(p, &f, 1);
        if (op->kind == TT_OP_RECV_REDUCE || f.divide)
            run_combine(p, &f, src, op->kind == TT_OP_RECV_REDUCE ? 2 : 1);
        else
            memcpy(tt_xat(p, &f, 0), from, (size_t)f.elems << p->elem_shift);
        from += f.elems << p->elem_shift;
    }
}

/* Operand i of a fragment: its own place, or in a box program where it lies in a peer's box. */
static const void *operand(const struct tt_program *p, const struct tt_xop *op,
                           const struct tt_xfrag *f, uint32_t i)
{
    const void *boxed = p->box && op->holds != TT_XNO ? p->box_from[op->holds + i - 1] : NULL;
    return boxed ? boxed : tt_xat(p, f, i);
}

static void run_fragment(struct tt_program *p, const struct tt_xop *op, const struct tt_xfrag *f)
{
    for (uint32_t k = 1; k < op->width; k++)
        p->operands[k - 1] = operand(p, op, f, k);
    if (op->kind == TT_OP_REDUCE || f->divide)
        run_combine(p, f, p->operands, op->width - 1);
    else if (tt_xat(p, f, 0) != p->operands[0]) /* in place: already there */
        memcpy(tt_xat(p, f, 0), p->operands[0], (size_t)f->elems << p->elem_shift);
}

/* Most operations have one fragment, which needs no walk. */
TT_HOT void tt_exec_local(struct tt_program *p, uint32_t i, uint32_t segment)
{
    const struct tt_xop *op = &p->ops[i];
    const uint64_t *word = p->code + op->code;
    struct tt_xfrag f;
    assert(op->kind > TT_OP_RECV_REDUCE);
    if (p->segments == 1 && op->nfrags == 1) {
        f = tt_xfrag_whole(word);
        run_fragment(p, op, &f);
        return;
    }
    struct tt_xwalk w = {.p = p, .word = word, .width = op->width, .segment = segment};
    w.want = tt_exec_op_bytes(p, op, segment) >> p->elem_shift;
    while (tt_xwalk_next(&w, &f))
        run_fragment(p, op, &f);
}

/* ---- readiness ---- */

/* Only fills the work list: the caller runs tt_exec_work when its own state is consistent. */
void tt_exec_finish(struct tt_program *p, uint32_t task)
{
    const uint32_t i = tt_xtask_op(p, task), segment = task - i * p->segments;
    const struct tt_xop *op = &p->ops[i];
    const uint32_t *succ = p->succ + op->succ[p->mode];
    assert(p->tasks_left > 0);
    p->tasks_left--;
    for (uint32_t k = 0; k < op->nsucc[p->mode]; k++) {
        uint32_t t = succ[k] * p->segments + segment;
        assert(p->tasks[t].waits > 0 && p->work_tail < p->ntasks);
        if (--p->tasks[t].waits == 0)
            p->work[p->work_tail++] = t;
    }
}

/* The task is ready. A send or receive may stay unfinished here; its completion comes with an
 * event. */
static void run_task(struct tt_engine *e, struct tt_program *p, uint32_t task)
{
    const uint32_t i = tt_xtask_op(p, task);
    struct tt_xop *op = &p->ops[i];
    assert(p->tasks[task].waits == 0);
    /* This segment of the operation is empty. */
    if (p->tasks[task].left == 0) {
        tt_exec_finish(p, task);
        return;
    }
    switch (op->kind) {
    case TT_OP_SEND:
        tt_exec_send(e, p, task);
        break;
    case TT_OP_RECV:
    case TT_OP_RECV_REDUCE:
        if (tt_exec_receive_landed(e, p, task))
            tt_exec_finish(p, task);
        break;
    default:
        if (op->holds != TT_XNO || op->group != TT_XNO)
            tt_exec_reduce(e, p, task);
        else
            tt_exec_local(p, i, task - i * p->segments);
        /* The reduction has found an abort. */
        if (p->state != TT_XRUNNING)
            return;
        p->tasks[task].left = 0;
        tt_exec_finish(p, task);
    }
}

/* Running a task may fail the engine, which ends the program: hence the checks of its state. A
 * program that owes TAKEN messages is not done. */
void tt_exec_work(struct tt_engine *e, struct tt_program *p)
{
    while (p->work_head < p->work_tail && p->state == TT_XRUNNING)
        run_task(e, p, p->work[p->work_head++]);
    if (p->tasks_left > 0 || p->owed || p->state != TT_XRUNNING)
        return;
    p->state = TT_XDONE;
    tt_exec_leave(e, p);
}
