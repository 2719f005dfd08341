/* credit.c - how far a rank may send ahead of a peer that has not started a request yet.
 *
 * All ranks start requests in one order, and both ends know what each request will send from one to the other. So the bytes from here to a
 * peer, request after request, form one line that both ends measure alike (in blocks of TT_XBLOCK bytes):
 *
 *     request   4      5          6      7              known: end of the requests the peer is known to have started
 *             |------|----------|------|------...       a piece may go when its place in the line is at most known + budget
 *                    ^ known           ^ known + budget
 *
 * A request keeps its place also while it has not sent: later requests can never take the credit an earlier one needs. What is in flight
 * for requests the peer has not started is at most the budget, which is what its stash holds.
 *
 * A peer is known to have started request s when anything of s comes from it. Who receives much and sends nothing would never be heard of:
 * when a peer has not been told of a quarter of the budget, a notice is sent. Hence a request its receiver has started lies within
 * a quarter of the budget from `known`, and is never held up: no deadlock, and no notices where data flow both ways or little flows. */
#include <assert.h>

#include "exec/parts.h"

void tt_xhear(struct tt_engine *e, uint32_t peer, uint32_t seq)
{
    struct tt_xpeer *pe = &e->peers[peer];
    if (pe->heard && !tt_xlater(seq, pe->latest))
        return;
    pe->heard = true;
    pe->latest = seq;
    while (pe->promise_head != pe->promise_tail) {
        const struct tt_xpromise *first = &pe->promises[pe->promise_head & e->promise_mask];
        if (tt_xlater(first->seq, seq))
            break;
        pe->known = first->end;
        pe->promise_head++;
    }
}

static bool has_started(const struct tt_xpeer *pe, uint32_t seq)
{
    return pe->heard && !tt_xlater(seq, pe->latest);
}

static void promise(struct tt_engine *e, struct tt_xpeer *pe, uint32_t seq, uint64_t cost)
{
    pe->out_cost += cost;
    if (has_started(pe, seq)) {
        pe->known = pe->out_cost;
        return;
    }
    assert(pe->promise_tail - pe->promise_head <= e->promise_mask);
    pe->promises[pe->promise_tail++ & e->promise_mask] = (struct tt_xpromise){seq, pe->out_cost};
}

void tt_xcredit_start(struct tt_engine *e, struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nlinks; i++) {
        struct tt_xlink *l = &p->links[i];
        struct tt_xpeer *pe = &e->peers[l->peer];
        pe->due += l->in_cost;
        l->due = pe->due;
        l->spent = pe->out_cost;
        if (l->out_cost)
            promise(e, pe, p->seq, l->out_cost);
    }
}

bool tt_xcredit_allows(const struct tt_engine *e, const struct tt_xlink *l, uint32_t cost)
{
    const struct tt_xpeer *pe = &e->peers[l->peer];
    return has_started(pe, l->program->seq) || l->spent + cost - pe->known <= e->budget;
}

void tt_xcredit_spend(struct tt_engine *e, struct tt_xlink *l, uint32_t cost)
{
    struct tt_xpeer *pe = &e->peers[l->peer];
    l->spent += cost;
    if (pe->told < l->due)
        pe->told = l->due;
}

static tutti_status notify(struct tt_engine *e, uint32_t peer)
{
    const struct tt_tag tag = {.fingerprint = e->fingerprint, .request = e->seq, .comm = e->comm, .channel = TT_XCH_STARTED};
    tutti_status st = tt_xsend_control(e, peer, &tag, NULL, 0);
    if (st == TUTTI_OK)
        e->peers[peer].told = e->peers[peer].due;
    return st;
}

void tt_xcredit_tell(struct tt_engine *e, const struct tt_program *p)
{
    for (uint32_t i = 0; i < p->nlinks; i++) {
        uint32_t peer = p->links[i].peer;
        struct tt_xpeer *pe = &e->peers[peer];
        if (pe->due - pe->told < e->quarter || pe->notice || notify(e, peer) != TUTTI_IN_PROGRESS)
            continue;
        pe->notice = true;
        e->notices++;
    }
}

bool tt_xcredit_retry(struct tt_engine *e)
{
    uint32_t before = e->notices;
    for (uint32_t peer = 0; peer < e->size && e->notices; peer++) {
        struct tt_xpeer *pe = &e->peers[peer];
        if (!pe->notice || notify(e, peer) == TUTTI_IN_PROGRESS)
            continue;
        pe->notice = false;
        e->notices--;
    }
    return e->notices != before;
}
