/* stash.c - keeps pieces of requests that this rank has not started yet, and letters that nobody
 * has asked for.
 *
 *     engine   slabs of SLAB blocks --> free list
 *     peer     stash -> piece -> piece -> piece       linked by `later`, in order of arrival
 *                         |
 *                       block -> block                linked by `next`; the first block has the tag
 *
 * A piece takes as many blocks as it costs (credit.c). A sender keeps to its budget, so what a peer
 * may have here is bounded. A bound with room for several pieces more, and the engine's deferring
 * of events, cover the moment in which a piece is still being filled although its request has just
 * been started: its credit is given back by then.
 *
 * All peers of all contexts take from one store, which grows when needed and never shrinks: peers
 * that are never early cost nothing.
 *
 * Orphans are blocks that a transport still fills for a context that was closed. They must stay
 * allocated until the transport says that they are complete, or that their sender has ended. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_int.h"

/* Blocks of one slab: a piece of the largest length fits into one. */
enum { SLAB = 64 }; /* blocks: a piece of the largest length fits into one */
static_assert(SLAB * TT_XBLOCK >= TT_XPIECE, "growing once makes room");

/* Adds a slab to the store. Slabs are freed with the engine only. */
bool tt_exec_stash_grow(struct tt_engine *e)
{
    struct tt_xblock *slab = aligned_alloc(64, SLAB * sizeof *slab);
    if (!slab || !tt_vec_push(&e->slabs, &slab, 1)) {
        free(slab);
        return false;
    }
    for (uint32_t i = 0; i < SLAB; i++) {
        slab[i].next = e->blocks;
        e->blocks = &slab[i];
    }
    e->nblocks += SLAB;
    return true;
}

void tt_exec_stash_free(struct tt_engine *e)
{
    struct tt_xblock **slabs = e->slabs.data;
    for (size_t i = 0; i < e->slabs.len; i++)
        free(slabs[i]);
    tt_vec_free(&e->slabs);
}

/* A chain of n blocks. NULL: no memory. One slab is enough for any piece (static_assert above). */
static struct tt_xblock *take_blocks(struct tt_engine *e, uint32_t n)
{
    assert(n > 0 && n <= SLAB);
    struct tt_xblock *first = NULL;
    if (e->nblocks < n && !tt_exec_stash_grow(e))
        return NULL;
    e->nblocks -= n;
    while (n-- > 0) {
        struct tt_xblock *b = e->blocks;
        assert(b); /* nblocks counts the list */
        e->blocks = b->next;
        b->next = first;
        first = b;
    }
    return first;
}

/* Gives a piece's chain back to the store. */
static void free_blocks(struct tt_engine *e, struct tt_xblock *first)
{
    while (first) {
        struct tt_xblock *b = first;
        first = b->next;
        b->next = e->blocks;
        e->blocks = b;
        e->nblocks++;
    }
}

/* Describes the chain's memory for its piece; returns the number of entries. TT_XBLOCK is chosen so
 * that a piece of the largest length needs TT_IOV_MAX of them. */
static int chain_places(struct tt_xblock *b, struct iovec *iov)
{
    int n = 0;
    for (uint32_t bytes = b->bytes; bytes > 0; b = b->next) {
        assert(b && n < TT_IOV_MAX);
        uint32_t part = bytes < TT_XBLOCK ? bytes : TT_XBLOCK;
        iov[n++] = (struct iovec){.iov_base = b->data, .iov_len = part};
        bytes -= part;
    }
    return n;
}

static void copy_in(struct tt_xblock *b, const char *from)
{
    struct iovec iov[TT_IOV_MAX];
    int n = chain_places(b, iov);
    for (int i = 0; i < n; i++) {
        memcpy(iov[i].iov_base, from, iov[i].iov_len);
        from += iov[i].iov_len;
    }
}

void tt_exec_stash_copy(struct tt_xblock *b, char *to)
{
    struct iovec iov[TT_IOV_MAX];
    int n = chain_places(b, iov);
    for (int i = 0; i < n; i++) {
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
}

/* Blocks for a piece that came; NULL: no memory. `filling` says that only its header has come. */
static struct tt_xblock *stash_begin(struct tt_engine *e, const struct tt_event *ev)
{
    assert(ev->bytes <= TT_XPIECE);
    struct tt_xblock *b = take_blocks(e, tt_xcost(ev->bytes));
    if (!b)
        return NULL;
    b->tag = ev->tag;
    b->bytes = ev->bytes;
    b->stream = ev->stream;
    b->filling = ev->kind == TT_EV_HEADER;
    b->later = NULL;
    return b;
}

/* The same for a member of a context, which has its bound, at the end of its list. NULL: the bound
 * is reached or there is no memory. */
static struct tt_xblock *append(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    uint32_t cost = tt_xcost(ev->bytes);
    struct tt_xblock *b = pe->blocks_used + cost > e->stash_blocks ? NULL : stash_begin(e, ev);
    if (!b)
        return NULL;
    assert(!pe->stash == !pe->stash_last);
    pe->blocks_used += cost;
    if (pe->stash)
        pe->stash_last->later = b;
    else
        pe->stash = b;
    pe->stash_last = b;
    pe->context->stashed++;
    return b;
}

/* Takes piece b, which follows `before` (NULL: it is the first), out of the list. Its blocks stay
 * allocated. */
static void unlink_piece(struct tt_xpeer *pe, struct tt_xblock *before, struct tt_xblock *b)
{
    assert(before ? before->later == b : pe->stash == b);
    assert(pe->blocks_used >= tt_xcost(b->bytes) && pe->context->stashed > 0);
    if (before)
        before->later = b->later;
    else
        pe->stash = b->later;
    if (pe->stash_last == b)
        pe->stash_last = before;
    pe->blocks_used -= tt_xcost(b->bytes);
    pe->context->stashed--;
}

/* A piece that is too long is a fault; true then says that the event has been dealt with. */
bool tt_exec_stash_data(struct tt_xpeer *pe, const struct tt_event *ev)
{
    if (ev->bytes > TT_XPIECE) {
        tt_exec_protocol(pe->context->engine, pe, ev->tag.request);
        return true;
    }
    struct tt_xblock *b = append(pe, ev);
    if (b)
        copy_in(b, ev->data);
    return b != NULL;
}

/* Has the transport fill the chain. After TUTTI_ERR_IO the peer is ending: TT_EV_CLOSED follows. */
static void stash_fill(struct tt_engine *e, const struct tt_event *ev, struct tt_xblock *b)
{
    struct iovec iov[TT_IOV_MAX];
    tutti_status st =
        e->transport->ops->accept(e->transport, ev->peer, ev->stream, iov, chain_places(b, iov));
    if (st && st != TUTTI_ERR_IO)
        tt_exec_fault(e, &(struct tt_exec_engine_fault){
                             .kind = TT_FAULT_PROTOCOL, .peer = ev->peer, .seq = ev->tag.request});
}

bool tt_exec_stash_accept(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_engine *e = pe->context->engine;
    if (ev->bytes > TT_XPIECE) {
        tt_exec_protocol(e, pe, ev->tag.request);
        return true;
    }
    struct tt_xblock *b = append(pe, ev);
    if (b) {
        pe->filling++;
        stash_fill(e, ev, b);
    }
    return b != NULL;
}

/* Hands the piece to the program as if it came now, and frees its blocks. A piece of several blocks
 * is put together in `gather` first. */
static void stash_deliver(struct tt_xpeer *pe, struct tt_program *p, struct tt_xblock *b)
{
    struct tt_engine *e = pe->context->engine;
    struct tt_event ev = {.kind = TT_EV_DATA,
                          .peer = pe->world,
                          .stream = b->stream,
                          .bytes = b->bytes,
                          .tag = b->tag};
    assert(!b->filling && b->tag.request == p->seq);
    ev.data = b->bytes <= TT_XBLOCK ? b->data : e->gather;
    if (b->bytes > TT_XBLOCK)
        tt_exec_stash_copy(b, e->gather);
    tt_exec_receive_bytes(pe, p, &ev);
    free_blocks(e, b);
}

/* A stream fills one piece at a time, so (peer, stream) names it. Its request may have been started
 * since: then it is delivered at once. */
void tt_exec_stash_received(struct tt_xpeer *pe, const struct tt_event *ev)
{
    struct tt_program *p = tt_exec_find(pe->context, ev->tag.request);
    struct tt_xblock *before = NULL, *b = pe->stash;
    while (b && !(b->filling && b->stream == ev->stream)) {
        before = b;
        b = b->later;
    }
    if (!b) {
        tt_exec_protocol(pe->context->engine, pe, ev->tag.request);
        return;
    }
    b->filling = false;
    if (!p)
        return;
    unlink_piece(pe, before, b);
    stash_deliver(pe, p, b);
}

/* Delivers this peer's complete pieces of the request. Those that are still being filled follow in
 * tt_exec_stash_received. Delivering may fail the engine, hence the check. */
static void take_from(struct tt_xpeer *pe, struct tt_program *p)
{
    const struct tt_engine *e = pe->context->engine;
    for (struct tt_xblock *before = NULL, *b = pe->stash, *later; b && !e->failed; b = later) {
        later = b->later;
        if (b->tag.request != p->seq || b->filling) {
            before = b;
            continue;
        }
        unlink_piece(pe, before, b);
        stash_deliver(pe, p, b);
    }
}

void tt_exec_stash_take(struct tt_program *p)
{
    const struct tt_context *x = p->context;
    for (uint32_t r = 0; r < x->n && x->stashed && !x->engine->failed; r++)
        if (x->peers[r])
            take_from(x->peers[r], p);
}

/* ---- letters ---- */

struct tt_xblock *tt_exec_stash_keep(struct tt_engine *e, const struct tt_event *ev)
{
    assert(ev->kind == TT_EV_DATA && ev->bytes <= TT_INLINE_MAX);
    struct tt_xblock *b = stash_begin(e, ev);
    if (b)
        copy_in(b, ev->data);
    return b;
}

void tt_exec_stash_give(struct tt_engine *e, struct tt_xblock *b)
{
    free_blocks(e, b);
}

/* ---- pieces of closed contexts ---- */

/* An orphan needs no tag any more: tag.request holds the rank that fills it. */
static void orphan(struct tt_engine *e, uint32_t world, struct tt_xblock *b)
{
    b->tag.request = world;
    b->later = e->orphans;
    e->orphans = b;
}

/* The context is being closed: complete pieces are freed, the others become orphans. */
void tt_exec_stash_drop(struct tt_xpeer *pe)
{
    struct tt_engine *e = pe->context->engine;
    assert(pe->context->closing);
    for (struct tt_xblock *b = pe->stash, *later; b; b = later) {
        assert(pe->context->stashed > 0);
        later = b->later;
        pe->context->stashed--;
        if (b->filling)
            orphan(e, pe->world, b);
        else
            free_blocks(e, b);
    }
    pe->stash = pe->stash_last = NULL;
    pe->blocks_used = 0;
}

/* Data in transport memory is released. An announced payload must be accepted somewhere, because
 * its stream delivers nothing else before. */
bool tt_exec_stash_discard(struct tt_engine *e, const struct tt_event *ev)
{
    if (ev->kind == TT_EV_DATA) {
        e->transport->ops->release(e->transport, ev);
        return true;
    }
    struct tt_xblock *b = ev->bytes > TT_XPIECE ? NULL : stash_begin(e, ev);
    if (!b)
        return false;
    stash_fill(e, ev, b);
    orphan(e, ev->peer, b);
    return true;
}

/* Frees the orphans that a rank fills on one stream, or on all of its streams. */
static void stash_bury(struct tt_engine *e, uint32_t world, bool all, uint32_t stream)
{
    for (struct tt_xblock **at = &e->orphans, *b = *at; b; b = *at) {
        if (b->tag.request != world || (!all && b->stream != stream)) {
            at = &b->later;
            continue;
        }
        *at = b->later;
        free_blocks(e, b);
    }
}

void tt_exec_stash_discarded(struct tt_engine *e, const struct tt_event *ev)
{
    stash_bury(e, ev->peer, false, ev->stream);
}

void tt_exec_stash_bereave(struct tt_engine *e, uint32_t world)
{
    stash_bury(e, world, true, 0);
}
