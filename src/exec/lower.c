/* lower.c - marks patterns of operations that need no copies where peers' memory can be reached.
 *
 * A mark describes a pattern of operations and their dependencies, never an algorithm. How a marked
 * operation is carried out is decided piece by piece (refs.c, reduce.c), because it depends on
 * where the caller's buffers lie.
 *
 *     recv S1 <- 1 --.                              held: the reduction takes the operand
 *     recv S2 <- 2 --+-> reduce OUT = IN + S1 + S2  where it lies, if nothing else uses the place
 *                                 |
 *                                 +-> send OUT -> 1    group: sends of one place in one step share
 *                                 '-> send OUT -> 2    a copy; written: the reduction may write the
 *                                                      places of 1 and 2 itself
 *
 *     send IN -> 0                                  offered: with the operand goes the place where
 *     recv OUT <- 0 (waits at most for that send)   the result of the same chunks may be written
 *
 * A reduction writes for a send only if it also takes an operand from the send's peer, and the
 * offer came with that operand: then the peer's place has been read before it is written, whether
 * or not the peer works in place.
 *
 * Invariant: an operation that is marked gives the same result without its mark. */
#include <assert.h>
#include <stdlib.h>

#include "exec/exec_int.h"

static bool same_chunks(const struct tt_span *a, const struct tt_span *b)
{
    return a->first == b->first && a->len == b->len && a->reps == b->reps &&
           (a->reps == 1 || a->stride == b->stride);
}

/* The only span of a message; NULL: it has several. */
static const struct tt_span *single_span(const struct tt_xcompile *x, uint32_t op)
{
    const struct tt_op *o = &x->slice.ops[op];
    return o->nspans == 1 ? &x->slice.spans[o->span] : NULL;
}

/* Can the memory of the message's peer be reached? */
static bool is_local(const struct tt_xcompile *x, uint32_t op)
{
    assert(x->p->ops[op].link < x->p->nlinks);
    return x->p->links[x->p->ops[op].link].place != TT_NO_PLACE;
}

/* Operations that `op` waits for. All segments begin with the same number. */
static uint32_t waits_of(const struct tt_program *p, uint32_t op, uint32_t mode)
{
    return p->fresh[mode][(size_t)op * p->segments].waits;
}

/* ---- held operands ---- */

/* A receive that may be held: the reduction that uses it, and the buffer it names it by. */
struct operand {
    uint32_t reduce, buf, recv;
};

static int by_reduce(const void *x, const void *y)
{
    const struct operand *a = x, *b = y;
    if (a->reduce != b->reduce)
        return a->reduce < b->reduce ? -1 : 1;
    return a->buf < b->buf ? -1 : a->buf > b->buf;
}

/* The reduction that is the only one to wait for a receive, the same in every mode; TT_XNO: there
 * is none. A receive that waits itself is left out: an earlier operation still uses its place. */
static uint32_t only_successor(const struct tt_program *p, uint32_t op)
{
    const struct tt_xop *o = &p->ops[op];
    uint32_t modes = p->inplace ? 2 : 1, found = TT_XNO;
    for (uint32_t m = 0; m < modes; m++) {
        if (o->nsucc[m] != 1 || waits_of(p, op, m) || (m && p->succ[o->succ[m]] != found))
            return TT_XNO;
        found = p->succ[o->succ[m]];
    }
    return p->ops[found].kind == TT_OP_REDUCE ? found : TT_XNO;
}

/* Receives of one span into scratch: a place in OUT would have to be filled in any case. */
static bool list_operands(const struct tt_xcompile *x, struct tt_vec *ret)
{
    const struct tt_program *p = x->p;
    for (uint32_t i = 0; i < p->nops; i++) {
        const struct tt_span *s =
            p->ops[i].kind == TT_OP_RECV && is_local(x, i) ? single_span(x, i) : NULL;
        if (!s || s->buf < TT_BUF_SCRATCH)
            continue;
        struct operand o = {.reduce = only_successor(p, i), .buf = s->buf, .recv = i};
        if (o.reduce != TT_XNO && !tt_vec_push(ret, &o, 1))
            return false;
    }
    if (ret->len)
        qsort(ret->data, ret->len, sizeof(struct operand), by_reduce);
    return true;
}

/* Finds which operands of reduction i are brought by which of its receives; all[0 .. n) are those
 * receives, sorted by buffer. Operands without one get TT_XNO. */
static bool hold_operands(struct tt_xcompile *x, uint32_t i, const struct operand *all, size_t n,
                          struct tt_vec *holds)
{
    struct tt_program *p = x->p;
    const struct tt_op *op = &x->slice.ops[i];
    assert(op->kind == TT_OP_REDUCE && op->nspans > 1 && p->ops[i].holds == TT_XNO);
    uint32_t *hold = tt_vec_push(holds, NULL, op->nspans - 1);
    if (!hold)
        return false;
    p->ops[i].holds = (uint32_t)(holds->len - (op->nspans - 1));
    for (uint32_t w = 1; w < op->nspans; w++) {
        const struct tt_span *s = &x->slice.spans[op->span + w];
        struct operand key = {.reduce = i, .buf = s->src};
        const struct operand *o = bsearch(&key, all, n, sizeof key, by_reduce);
        hold[w - 1] =
            o && same_chunks(s, single_span(x, o->recv)) && p->ops[o->recv].held_by == TT_XNO
                ? o->recv
                : TT_XNO;
        if (hold[w - 1] != TT_XNO)
            p->ops[o->recv].held_by = i;
    }
    return true;
}

/* Invariant: the reductions before all[i] have their operands. */
static bool find_holds(struct tt_xcompile *x)
{
    struct tt_vec all = {.elem = sizeof(struct operand)}, holds = {.elem = sizeof(uint32_t)};
    bool ok = list_operands(x, &all);
    const struct operand *o = all.data;
    for (size_t i = 0, end; ok && i < all.len; i = end) {
        for (end = i; end < all.len && o[end].reduce == o[i].reduce; end++)
            ;
        ok = hold_operands(x, o[i].reduce, o + i, end - i, &holds);
    }
    x->p->holds = holds.data;
    x->p->nholds = (uint32_t)holds.len;
    tt_vec_free(&all);
    return ok;
}

/* A sender is not done while its memory is borrowed. A reduction that waits for sends of its own
 * rank (in place they read what it writes) could keep peers waiting that keep it waiting in turn:
 * its operands are copied. */
static void find_borrowers(struct tt_program *p, uint32_t mode)
{
    for (uint32_t i = 0; i < p->nops; i++)
        p->ops[i].borrows |= (uint8_t)((p->ops[i].holds != TT_XNO) << mode);
    for (uint32_t i = 0; i < p->nops; i++)
        for (uint32_t k = 0; p->ops[i].kind == TT_OP_SEND && k < p->ops[i].nsucc[mode]; k++)
            p->ops[p->succ[p->ops[i].succ[mode] + k]].borrows &= (uint8_t) ~(1u << mode);
}

/* ---- sends of one place ---- */

/* A send of one span, with what makes it equal to others. */
struct sent {
    struct tt_span span;
    uint32_t step, op;
};

static int by_place(const void *x, const void *y)
{
    const struct sent *a = x, *b = y;
    const uint32_t ka[] = {a->step,      a->span.buf,    a->span.first, a->span.len,
                           a->span.reps, a->span.stride, a->op};
    const uint32_t kb[] = {b->step,      b->span.buf,    b->span.first, b->span.len,
                           b->span.reps, b->span.stride, b->op};
    for (size_t i = 0; i < countof(ka); i++)
        if (ka[i] != kb[i])
            return ka[i] < kb[i] ? -1 : 1;
    return 0;
}

/* Sends of the same place in the same step read the same bytes: the first one stands for the group.
 * Invariant: s[first] is the first send of the group that s[i] is compared with. */
static bool find_groups(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    struct tt_vec all = {.elem = sizeof(struct sent)};
    bool ok = true;
    for (uint32_t i = 0; i < p->nops && ok; i++) {
        const struct tt_span *s =
            p->ops[i].kind == TT_OP_SEND && is_local(x, i) ? single_span(x, i) : NULL;
        struct sent sent = {.step = x->slice.ops[i].step, .op = i};
        if (!s)
            continue;
        sent.span = *s;
        ok = tt_vec_push(&all, &sent, 1) != NULL;
    }
    struct sent *s = all.data;
    if (all.len)
        qsort(s, all.len, sizeof *s, by_place);
    for (size_t i = 0, first = 0; ok && i < all.len; i++) {
        if (s[i].step != s[first].step || s[i].span.buf != s[first].span.buf ||
            !same_chunks(&s[i].span, &s[first].span))
            first = i;
        p->ops[s[i].op].group = s[first].op;
        p->ops[s[first].op].nsends++;
    }
    tt_vec_free(&all);
    return ok;
}

/* ---- results that peers get ---- */

/* In every mode, does `op` wait for `from` and nothing else? */
static bool waits_only_for(const struct tt_program *p, uint32_t op, uint32_t from)
{
    for (uint32_t m = 0; m < (p->inplace ? 2u : 1u); m++) {
        const uint32_t *succ = p->succ + p->ops[from].succ[m];
        uint32_t k = 0;
        while (k < p->ops[from].nsucc[m] && succ[k] != op)
            k++;
        if (k == p->ops[from].nsucc[m] || waits_of(p, op, m) != 1)
            return false;
    }
    return true;
}

/* The operand that the reduction takes from the send's peer on the same channel and that no other
 * send answers; TT_XNO: there is none. */
static uint32_t operand_from(const struct tt_program *p, const struct tt_xop *reduce,
                             const struct tt_xop *send)
{
    for (uint32_t w = 0; w + 1 < reduce->width; w++) {
        uint32_t recv = p->holds[reduce->holds + w];
        if (recv != TT_XNO && p->ops[recv].link == send->link &&
            p->ops[recv].channel == send->channel && p->ops[recv].answer == TT_XNO)
            return recv;
    }
    return TT_XNO;
}

/* Looks at the sends of reduction i's result: their group, and which of them the reduction may
 * write for. A send that waits for something else too could not go when the reduction is done. */
static void find_results(struct tt_xcompile *x, uint32_t i)
{
    struct tt_program *p = x->p;
    struct tt_xop *o = &p->ops[i];
    const struct tt_span *dst = &x->slice.spans[x->slice.ops[i].span];
    for (uint32_t k = 0; k < o->nsucc[0]; k++) {
        uint32_t s = p->succ[o->succ[0] + k];
        struct tt_xop *send = &p->ops[s];
        if (send->kind != TT_OP_SEND || send->group == TT_XNO || !waits_only_for(p, s, i))
            continue;
        const struct tt_span *span = single_span(x, s);
        if (span->buf != dst->buf || !same_chunks(span, dst) ||
            (o->group != TT_XNO && o->group != send->group))
            continue;
        o->group = send->group;
        uint32_t recv = operand_from(p, o, send);
        if (recv == TT_XNO)
            continue;
        p->ops[recv].answer = s;
        assert(send->offer == TT_XNO);
        send->offer = p->noffers;
        p->noffers += p->segments;
    }
}

/* ---- places that the receiver of a send may write ---- */

/* A receive into OUT whose sender may write it. */
struct got {
    uint32_t link, channel;
    struct tt_span span;
    uint32_t op;
};

/* The stride of a single repetition means nothing and is not compared. */
static int by_link(const void *x, const void *y)
{
    const struct got *a = x, *b = y;
    const uint32_t ka[] = {a->link,     a->channel,   a->span.first,
                           a->span.len, a->span.reps, a->span.reps > 1 ? a->span.stride : 0};
    const uint32_t kb[] = {b->link,     b->channel,   b->span.first,
                           b->span.len, b->span.reps, b->span.reps > 1 ? b->span.stride : 0};
    for (size_t i = 0; i < countof(ka); i++)
        if (ka[i] != kb[i])
            return ka[i] < kb[i] ? -1 : 1;
    return 0;
}

/* A receive that divides is left out: its bytes are not the result yet. */
static bool list_got(const struct tt_xcompile *x, struct tt_vec *ret)
{
    const struct tt_program *p = x->p;
    for (uint32_t i = 0; i < p->nops; i++) {
        const struct tt_xop *o = &p->ops[i];
        const struct tt_span *s =
            o->kind == TT_OP_RECV && is_local(x, i) ? single_span(x, i) : NULL;
        if (!s || s->buf != TT_BUF_OUT || o->divides)
            continue;
        struct got g = {.link = o->link, .channel = o->channel, .span = *s, .op = i};
        if (!tt_vec_push(ret, &g, 1))
            return false;
    }
    if (ret->len)
        qsort(ret->data, ret->len, sizeof(struct got), by_link);
    return true;
}

/* May the receive be written once the send's data have been read, in this mode? Yes, if it waits
 * for nothing, or for that send only. */
static bool may_answer(const struct tt_program *p, uint32_t recv, uint32_t send, uint32_t mode)
{
    const struct tt_xop *s = &p->ops[send];
    if (waits_of(p, recv, mode) == 0)
        return true;
    for (uint32_t k = 0; k < s->nsucc[mode] && waits_of(p, recv, mode) == 1; k++)
        if (p->succ[s->succ[mode] + k] == recv)
            return true;
    return false;
}

/* With each send goes the offer of one later receive of the same chunks from the same peer. Each
 * receive is offered once. */
static bool find_offers(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    struct tt_vec got = {.elem = sizeof(struct got)};
    bool ok = list_got(x, &got);
    for (uint32_t i = 0; i < p->nops && ok; i++) {
        struct tt_xop *o = &p->ops[i];
        const struct tt_span *s =
            o->kind == TT_OP_SEND && is_local(x, i) ? single_span(x, i) : NULL;
        if (!s || !got.len)
            continue;
        struct got key = {.link = o->link, .channel = o->channel, .span = *s};
        const struct got *g = bsearch(&key, got.data, got.len, sizeof key, by_link);
        if (!g || g->op < i || p->ops[g->op].offers)
            continue;
        for (uint32_t m = 0; m < (p->inplace ? 2u : 1u); m++)
            p->ops[g->op].offers |= (uint8_t)(may_answer(p, g->op, i, m) << m);
        o->answer = g->op;
    }
    tt_vec_free(&got);
    return ok;
}

/* Holds come first: a result is written only where an operand is held, and only reductions with
 * holds can borrow. Offers make sense only where the answer is a reduction's result. */
tutti_status tt_exec_lower(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    if (!x->config->places)
        return TUTTI_OK;
    bool ok = find_holds(x) && find_groups(x);
    for (uint32_t i = 0; i < p->nops && ok; i++)
        if (p->ops[i].holds != TT_XNO)
            find_results(x, i);
    for (uint32_t m = 0; ok && m < (p->inplace ? 2u : 1u); m++)
        find_borrowers(p, m);
    if (ok && tt_sched_coll_sums(x->shape->coll))
        ok = find_offers(x);
    for (uint32_t i = 0; i < p->nops; i++) {
        struct tt_xop *o = &p->ops[i];
        if (o->kind == TT_OP_SEND && o->nsends > 1 &&
            o->npieces <= UINT32_MAX / 2 / p->segments - p->nsent) {
            o->sent = p->nsent;
            p->nsent += o->npieces * p->segments;
        }
    }
    p->sent = tt_zalloc(p->nsent, sizeof *p->sent);
    p->refs = tt_zalloc((size_t)p->npieces, sizeof *p->refs);
    p->offers = tt_zalloc(p->noffers, sizeof *p->offers);
    return ok && p->refs && p->offers && p->sent ? TUTTI_OK : tt_fail_memory(x->err, "references");
}
