/* credit.c - how far a rank may send ahead of a peer that has not started a request yet, in each
 * context by itself.
 *
 * All ranks start the requests of a context in one order, and both ends know what each request will
 * send from one to the other. So the bytes from here to a peer, request after request, form one
 * line that both ends measure alike (in blocks of TT_XBLOCK bytes):
 *
 *     request   4      5          6      7
 *             |------|----------|------|------...
 *                    ^ known           ^ known + budget
 *
 *     known: the end of the requests that the peer is known to have started.
 *     A piece may go if its place in the line is at most known + budget.
 *
 * A request keeps its place even while it has not sent: later requests can never take the credit
 * that an earlier one needs. What is in flight for requests that the peer has not started is at
 * most the budget, which is what its stash holds.
 *
 * A peer is known to have started request s when anything of s comes from it. A rank that receives
 * much and sends nothing would never be heard of; so a rank sends a notice when a peer has not been
 * told of a quarter of the budget. Hence a request that its receiver has started lies within a
 * quarter of the budget from `known` and is never held up: no deadlock, and no notices where data
 * flow both ways or little flows. */
#include <assert.h>
#include <stdlib.h>

#include "exec/exec_int.h"

/* Promises of a new ring. */
enum { FIRST = 64 };

/* Anything of request seq has come, so the peer has started it and all before. Invariant: promises
 * are sorted by seq, and `known` is the end of the last one removed. */
void tt_exec_hear(struct tt_xpeer *pe, uint32_t seq)
{
    if (pe->heard && !tt_xlater(seq, pe->latest))
        return;
    pe->heard = true;
    pe->latest = seq;
    while (pe->promise_head != pe->promise_tail) {
        const struct tt_xpromise *first = &pe->promises[pe->promise_head & pe->promise_mask];
        if (tt_xlater(first->seq, seq))
            break;
        assert(first->end >= pe->known);
        pe->known = first->end;
        pe->promise_head++;
    }
}

static bool has_started(const struct tt_xpeer *pe, uint32_t seq)
{
    return pe->heard && !tt_xlater(seq, pe->latest);
}

/* Room for one more promise; false: no memory. Rings begin small: most peers are never more than a
 * few requests behind. */
static bool make_room(struct tt_xpeer *pe)
{
    uint32_t n = pe->promises ? pe->promise_mask + 1 : 0,
             count = pe->promise_tail - pe->promise_head;
    if (count < n)
        return true;
    assert((n & (n - 1)) == 0 && count == n);
    struct tt_xpromise *larger = tt_alloc(n ? 2 * n : FIRST, sizeof *larger);
    if (!larger)
        return false;
    for (uint32_t i = 0; i < count; i++)
        larger[i] = pe->promises[(pe->promise_head + i) & pe->promise_mask];
    free(pe->promises);
    pe->promises = larger;
    pe->promise_mask = (n ? 2 * n : FIRST) - 1;
    pe->promise_head = 0;
    pe->promise_tail = count;
    return true;
}

/* Memory is taken here, so that starting cannot fail half-way. */
bool tt_exec_credit_prepare(const struct tt_context *x, const struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nlinks; i++)
        if (p->links[i].out_cost && !make_room(x->peers[p->links[i].peer]))
            return false;
    return true;
}

/* Appends a request to the line. If the peer has started it already, nothing is promised. */
static void promise(struct tt_xpeer *pe, uint32_t seq, uint64_t cost)
{
    pe->out_cost += cost;
    if (has_started(pe, seq)) {
        pe->known = pe->out_cost;
        return;
    }
    assert(pe->promise_tail - pe->promise_head <= pe->promise_mask);
    pe->promises[pe->promise_tail++ & pe->promise_mask] = (struct tt_xpromise){seq, pe->out_cost};
}

/* Both directions are measured here: what this rank will send, and what it allows the peer
 * (due). */
void tt_exec_credit_start(struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nlinks; i++) {
        struct tt_xlink *l = &p->links[i];
        struct tt_xpeer *pe = l->pe;
        pe->due += l->in_cost;
        l->due = pe->due;
        l->spent = pe->out_cost;
        if (l->out_cost)
            promise(pe, p->seq, l->out_cost);
    }
}

/* What a request has spent is never before `known` while the peer has not started it. */
bool tt_exec_credit_allows(const struct tt_engine *e, const struct tt_xlink *l, uint32_t cost)
{
    const struct tt_xpeer *pe = l->pe;
    if (!pe->met || has_started(pe, l->program->seq))
        return pe->met;
    assert(l->spent >= pe->known);
    return l->spent + cost - pe->known <= e->budget;
}

/* Any piece of a request tells its receiver that the request has been started here. */
void tt_exec_credit_spend(struct tt_xlink *l, uint32_t cost)
{
    assert(l->due <= l->pe->due); /* what was due at its start; more may have become due since */
    l->spent += cost;
    if (l->pe->told < l->due)
        l->pe->told = l->due;
}

/* A notice for each peer that does not know of a quarter of the budget; usually data has
 * told it. */
void tt_exec_credit_tell(const struct tt_engine *e, const struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nlinks; i++) {
        struct tt_xpeer *pe = p->links[i].pe;
        assert(pe->told <= pe->due);
        if (pe->due - pe->told >= e->quarter && !(pe->due_words & TT_XDUE_STARTED))
            tt_exec_context_owe(pe, TT_XDUE_STARTED);
    }
}
