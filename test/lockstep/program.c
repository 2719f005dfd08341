/* program.c - taking a schedule apart: every operation as a list of chunks, its fields checked so that nothing later can go astray, and
 * both ends of every message joined.
 *
 * The k-th send of a line (sender, receiver, channel) belongs to its k-th receive. In lockstep both must also be of one step; as steps rise
 * in every list, that is the same as matching step by step. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

const struct ls_item *ls_op_items(const struct ls_rank *k, const struct ls_op *o)
{
    return (const struct ls_item *)k->items.data + o->first;
}

const struct ls_item *ls_items(const struct ls *l, uint32_t rank, size_t op, size_t *ret_n)
{
    *ret_n = l->rank[rank].ops[op].n;
    return ls_op_items(&l->rank[rank], &l->rank[rank].ops[op]);
}

bool ls_same_chunks(const struct ls_rank *ka, const struct ls_op *a, const struct ls_rank *kb, const struct ls_op *b)
{
    const struct ls_item *x = ls_op_items(ka, a), *y = ls_op_items(kb, b);
    if (a->n != b->n)
        return false;
    for (size_t i = 0; i < a->n; i++)
        if (x[i].chunk != y[i].chunk)
            return false;
    return true;
}

/* ---- one operation ---- */

static const char *span_flaw(const struct tt_shape *s, const struct tt_span *sp)
{
    if (sp->len == 0 || sp->reps == 0 || (sp->reps > 1 && sp->stride < sp->len))
        return "a span of no chunks, or that repeats them";
    if (sp->first + (uint64_t)sp->stride * (sp->reps - 1) + sp->len > s->chunks)
        return "a span beyond the vector";
    return sp->buf >= s->nbufs || sp->src >= s->nbufs ? "no such buffer" : NULL;
}

static bool same_range(const struct tt_span *a, const struct tt_span *b)
{
    return a->first == b->first && a->len == b->len && a->stride == b->stride && a->reps == b->reps;
}

/* 0 sends, 1 receives, 2 local operations: their order within a step. */
static int phase_of(const struct tt_op *op)
{
    return op->kind == TT_OP_SEND ? 0 : ls_is_receive(op) ? 1 : 2;
}

static const char *op_flaw(const struct ls *l, uint32_t rank, const struct tt_slice *sl, size_t i)
{
    const struct tt_shape *s = &l->s->shape;
    const struct tt_op *op = &sl->ops[i], *before = i > 0 ? op - 1 : NULL;
    if (op->kind >= TT_OP_KINDS || op->step >= l->s->nsteps)
        return "no such kind or step";
    if (op->nspans == 0 || op->span > sl->nspans || op->nspans > sl->nspans - op->span)
        return "spans that are not there";
    if (op->kind == TT_OP_REDUCE && op->nspans < 2)
        return "a sum of nothing";
    if (ls_is_message(op) && (op->peer >= s->ranks || op->peer == rank))
        return "no such peer";
    if (before && (op->step < before->step || (op->step == before->step && phase_of(op) < phase_of(before))))
        return "out of order";
    for (uint32_t k = 0; k < op->nspans; k++) {
        const struct tt_span *sp = &sl->spans[op->span + k];
        if (span_flaw(s, sp))
            return span_flaw(s, sp);
        if (op->kind == TT_OP_REDUCE && !same_range(sp, &sl->spans[op->span]))
            return "operands of different chunks";
    }
    return NULL;
}

static const char *write_flaw(const struct ls *l, uint32_t rank, const struct ls_op *o)
{
    const struct ls_item *it = ls_op_items(&l->rank[rank], o);
    for (size_t i = 0; o->op->kind != TT_OP_SEND && i < o->n; i++) {
        if (it[i].buf == TT_BUF_IN)
            return "writes the input";
        if (it[i].buf == TT_BUF_OUT && !ls_has_output(&l->s->shape, rank, it[i].chunk))
            return "writes an output that does not exist";
    }
    return NULL;
}

/* A SEND and a RECV name one buffer; a REDUCE has its operands in the further spans. */
static void add_items(struct ls_rank *k, struct ls_op *o, const struct tt_span *sp)
{
    bool two = o->op->kind == TT_OP_RECV_REDUCE || o->op->kind == TT_OP_COPY;
    for (uint32_t i = 0; i < sp->reps; i++)
        for (uint32_t j = 0; j < sp->len; j++, o->n++) {
            struct ls_item item = {.chunk = sp->first + i * sp->stride + j, .buf = sp->buf, .src = two ? sp->src : sp->buf};
            if (!tt_vec_push(&k->items, &item, 1))
                abort();
        }
}

static bool take_op(struct ls *l, uint32_t rank, const struct tt_slice *sl, size_t i)
{
    struct ls_rank *k = &l->rank[rank];
    struct ls_op *o = &k->ops[i];
    const char *flaw = op_flaw(l, rank, sl, i);
    *o = (struct ls_op){.op = &sl->ops[i], .spans = sl->spans + sl->ops[i].span, .first = k->items.len, .partner = LS_NOBODY};
    if (flaw)
        return ls_fault(&l->flaw, LS_MALFORMED, rank, i, flaw);
    uint32_t nspans = o->op->kind == TT_OP_REDUCE ? 1 : o->op->nspans;
    for (uint32_t n = 0; n < nspans; n++)
        add_items(k, o, &o->spans[n]);
    flaw = write_flaw(l, rank, o);
    return !flaw || ls_fault(&l->flaw, LS_MALFORMED, rank, i, flaw);
}

static bool take_rank(struct ls *l, uint32_t rank)
{
    struct tt_slice sl = tt_sched_slice(l->s, rank);
    struct ls_rank *k = &l->rank[rank];
    k->n = sl.nops;
    k->ops = ls_alloc(sl.nops, sizeof *k->ops);
    k->step = ls_alloc((uint64_t)l->s->nsteps + 1, sizeof *k->step);
    for (size_t i = 0; i < sl.nops; i++)
        if (!take_op(l, rank, &sl, i))
            return false;
    for (uint32_t step = 0, i = 0; step <= l->s->nsteps; step++) {
        while (i < k->n && k->ops[i].op->step < step)
            i++;
        k->step[step] = i;
    }
    return true;
}

/* ---- joining the ends of messages ---- */

struct end {
    uint32_t src, dst, channel, op;
};

static int compare_lines(const struct end *a, const struct end *b)
{
    const uint32_t x[] = {a->src, a->dst, a->channel}, y[] = {b->src, b->dst, b->channel};
    for (size_t i = 0; i < countof(x); i++)
        if (x[i] != y[i])
            return x[i] < y[i] ? -1 : 1;
    return 0;
}

static int compare_ends(const void *pa, const void *pb)
{
    const struct end *a = pa, *b = pb;
    int line = compare_lines(a, b);
    return line != 0 ? line : a->op < b->op ? -1 : a->op > b->op;
}

/* All ends of one direction, line by line, in listed order. */
static struct tt_vec ends_of(const struct ls *l, bool sends)
{
    struct tt_vec v = {.elem = sizeof(struct end)};
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        for (size_t i = 0; i < l->rank[r].n; i++) {
            const struct tt_op *op = l->rank[r].ops[i].op;
            struct end e = {.src = sends ? r : op->peer, .dst = sends ? op->peer : r, .channel = op->channel, .op = (uint32_t)i};
            if ((sends ? op->kind == TT_OP_SEND : ls_is_receive(op)) && !tt_vec_push(&v, &e, 1))
                abort();
        }
    if (v.len > 0)
        qsort(v.data, v.len, v.elem, compare_ends);
    return v;
}

static void join(struct ls *l, const struct end *send, const struct end *recv)
{
    struct ls_rank *ka = &l->rank[send->src], *kb = &l->rank[recv->dst];
    struct ls_op *a = &ka->ops[send->op], *b = &kb->ops[recv->op];
    a->partner = recv->op;
    b->partner = send->op;
    if (a->op->step != b->op->step)
        ls_fault(&l->unmatched, LS_UNMATCHED, recv->dst, recv->op, "the message is sent in another step");
    else if (!ls_same_chunks(ka, a, kb, b))
        ls_fault(&l->unmatched, LS_UNMATCHED, recv->dst, recv->op, "the message has other chunks");
}

static void join_messages(struct ls *l)
{
    struct tt_vec sends = ends_of(l, true), recvs = ends_of(l, false);
    const struct end *a = sends.data, *b = recvs.data;
    size_t i = 0, j = 0;
    while (i < sends.len || j < recvs.len) {
        int order = i == sends.len ? 1 : j == recvs.len ? -1 : compare_lines(&a[i], &b[j]);
        if (order < 0)
            ls_fault(&l->unmatched, LS_UNMATCHED, a[i].src, a[i].op, "nobody receives the message");
        else if (order > 0)
            ls_fault(&l->unmatched, LS_UNMATCHED, b[j].dst, b[j].op, "nobody sends the message");
        else
            join(l, &a[i], &b[j]);
        i += order <= 0;
        j += order >= 0;
    }
    tt_vec_free(&sends);
    tt_vec_free(&recvs);
}

void ls_take_apart(struct ls *l)
{
    const struct tt_sched *s = l->s;
    if (!ls_shape_ok(&s->shape) || s->first_rank != 0 || s->nslices != s->shape.ranks) {
        ls_fault(&l->flaw, LS_MALFORMED, 0, 0, "an impossible shape, or not all ranks are held");
        return;
    }
    l->rank = ls_alloc(s->shape.ranks, sizeof *l->rank);
    for (uint32_t r = 0; r < s->shape.ranks; r++)
        l->rank[r].items.elem = sizeof(struct ls_item);
    for (uint32_t r = 0; r < s->shape.ranks; r++)
        if (!take_rank(l, r))
            return;
    join_messages(l);
}
