/* stash.c - pieces of requests that this rank has not started yet.
 *
 * Each peer has a fixed number of blocks; a piece takes as many as it costs (credit.c), chained, and is known by the number of its first
 * block. A sender keeps to its budget, so that there is always room; the slack of one piece, and the engine's deferring of events, cover
 * the moment in which a piece is still being filled although its request has just been started (the credit is given back by then).
 *
 * The memory is mapped and touched only when used: peers that are never early cost nothing. */
#include <string.h>

#include "exec/parts.h"

enum { STREAMS = 8 };

static size_t peer_bytes(const struct tt_engine *e)
{
    size_t one = TT_XBLOCK + sizeof(struct tt_xentry) + sizeof(uint32_t);
    return (e->stash_blocks * one + 63) / 64 * 64;
}

tutti_status tt_xstash_make(struct tt_engine *e, struct tutti_error *err)
{
    e->stash_blocks = e->budget + STREAMS * tt_xcost(TT_XPIECE);
    if (__builtin_mul_overflow(peer_bytes(e), (size_t)e->size, &e->stash_bytes))
        return tt_fail_memory(err, "stash");
    e->stash = tt_xmap(e->stash_bytes);
    if (!e->stash)
        return tt_fail_memory(err, "stash");
    for (uint32_t i = 0; i < e->size; i++) {
        struct tt_xpeer *pe = &e->peers[i];
        pe->blocks = (char *)e->stash + peer_bytes(e) * i;
        pe->entries = (struct tt_xentry *)(void *)(pe->blocks + (size_t)e->stash_blocks * TT_XBLOCK);
        pe->block_next = (uint32_t *)(void *)(pe->entries + e->stash_blocks);
        pe->block_free = pe->entry_first = pe->entry_last = TT_XNO;
    }
    return TUTTI_OK;
}

void tt_xstash_free(struct tt_engine *e)
{
    tt_xunmap(e->stash, e->stash_bytes);
}

static uint32_t take_block(struct tt_xpeer *pe)
{
    uint32_t b = pe->block_free;
    if (b == TT_XNO)
        b = pe->block_fresh++;
    else
        pe->block_free = pe->block_next[b];
    pe->blocks_used++;
    return b;
}

/* A chain of n blocks, or TT_XNO. */
static uint32_t take_blocks(const struct tt_engine *e, struct tt_xpeer *pe, uint32_t n)
{
    uint32_t first = TT_XNO;
    if (n > e->stash_blocks - pe->blocks_used)
        return TT_XNO;
    while (n-- > 0) {
        uint32_t b = take_block(pe);
        pe->block_next[b] = first;
        first = b;
    }
    return first;
}

static void free_blocks(struct tt_xpeer *pe, uint32_t first)
{
    while (first != TT_XNO) {
        uint32_t next = pe->block_next[first];
        pe->block_next[first] = pe->block_free;
        pe->block_free = first;
        pe->blocks_used--;
        first = next;
    }
}

/* The chain's memory for `bytes` bytes; returns the number of entries. */
static int chain_places(const struct tt_xpeer *pe, uint32_t first, uint32_t bytes, struct iovec *iov)
{
    int n = 0;
    for (uint32_t b = first; bytes > 0; b = pe->block_next[b]) {
        uint32_t part = bytes < TT_XBLOCK ? bytes : TT_XBLOCK;
        iov[n++] = (struct iovec){.iov_base = pe->blocks + (size_t)b * TT_XBLOCK, .iov_len = part};
        bytes -= part;
    }
    return n;
}

static void append(struct tt_engine *e, struct tt_xpeer *pe, uint32_t entry, const struct tt_event *ev)
{
    pe->entries[entry] =
        (struct tt_xentry){.tag = ev->tag, .bytes = ev->bytes, .stream = ev->stream, .next = TT_XNO, .filling = ev->kind == TT_EV_HEADER};
    if (pe->entry_first == TT_XNO)
        pe->entry_first = entry;
    else
        pe->entries[pe->entry_last].next = entry;
    pe->entry_last = entry;
    e->stashed++;
}

/* Takes the entry after `before` (TT_XNO: the first) out of the list. */
static void unlink_entry(struct tt_engine *e, struct tt_xpeer *pe, uint32_t before, uint32_t entry)
{
    uint32_t next = pe->entries[entry].next;
    if (before == TT_XNO)
        pe->entry_first = next;
    else
        pe->entries[before].next = next;
    if (pe->entry_last == entry)
        pe->entry_last = before;
    e->stashed--;
}

bool tt_xstash_data(struct tt_engine *e, const struct tt_event *ev)
{
    struct tt_xpeer *pe = &e->peers[ev->peer];
    struct iovec iov[TT_IOV_MAX];
    const char *from = ev->data;
    if (ev->bytes > TT_XPIECE) {
        tt_xprotocol(e, ev->peer, ev->tag.request);
        return true;
    }
    uint32_t first = take_blocks(e, pe, tt_xcost(ev->bytes));
    if (first == TT_XNO)
        return false;
    int n = chain_places(pe, first, ev->bytes, iov);
    for (int i = 0; i < n; i++) {
        memcpy(iov[i].iov_base, from, iov[i].iov_len);
        from += iov[i].iov_len;
    }
    append(e, pe, first, ev);
    return true;
}

bool tt_xstash_accept(struct tt_engine *e, const struct tt_event *ev)
{
    struct tt_xpeer *pe = &e->peers[ev->peer];
    struct iovec iov[TT_IOV_MAX];
    if (ev->bytes > TT_XPIECE) {
        tt_xprotocol(e, ev->peer, ev->tag.request);
        return true;
    }
    uint32_t first = take_blocks(e, pe, tt_xcost(ev->bytes));
    if (first == TT_XNO)
        return false;
    int n = chain_places(pe, first, ev->bytes, iov);
    append(e, pe, first, ev);
    tutti_status st = e->transport->ops->accept(e->transport, ev->peer, ev->stream, iov, n);
    if (st != TUTTI_OK && st != TUTTI_ERR_IO)
        tt_xprotocol(e, ev->peer, ev->tag.request);
    return true;
}

/* The program gets the piece as if it came now. */
static void deliver(struct tt_engine *e, struct tt_program *p, uint32_t peer, uint32_t entry)
{
    struct tt_xpeer *pe = &e->peers[peer];
    const struct tt_xentry *en = &pe->entries[entry];
    struct tt_event ev = {.kind = TT_EV_DATA, .peer = peer, .stream = en->stream, .bytes = en->bytes, .tag = en->tag};
    struct iovec iov[TT_IOV_MAX];
    int n = chain_places(pe, entry, en->bytes, iov);
    char *to = e->gather;
    ev.data = n == 1 ? iov[0].iov_base : to;
    for (int i = 0; i < n && n > 1; i++) {
        memcpy(to, iov[i].iov_base, iov[i].iov_len);
        to += iov[i].iov_len;
    }
    tt_xreceive_bytes(e, p, &ev);
    free_blocks(pe, entry);
}

void tt_xstash_received(struct tt_engine *e, const struct tt_event *ev)
{
    struct tt_xpeer *pe = &e->peers[ev->peer];
    struct tt_program *p = tt_xfind(e, ev->tag.request);
    uint32_t before = TT_XNO, i = pe->entry_first;
    while (i != TT_XNO && !(pe->entries[i].filling && pe->entries[i].stream == ev->stream)) {
        before = i;
        i = pe->entries[i].next;
    }
    if (i == TT_XNO) {
        tt_xprotocol(e, ev->peer, ev->tag.request);
        return;
    }
    pe->entries[i].filling = false;
    if (!p)
        return;
    unlink_entry(e, pe, before, i);
    deliver(e, p, ev->peer, i);
}

static void take_from(struct tt_engine *e, struct tt_program *p, uint32_t peer)
{
    struct tt_xpeer *pe = &e->peers[peer];
    for (uint32_t before = TT_XNO, i = pe->entry_first, next; i != TT_XNO && !e->failed; i = next) {
        next = pe->entries[i].next;
        if (pe->entries[i].tag.request != p->seq || pe->entries[i].filling) {
            before = i;
            continue;
        }
        unlink_entry(e, pe, before, i);
        deliver(e, p, peer, i);
    }
}

void tt_xstash_take(struct tt_engine *e, struct tt_program *p)
{
    for (uint32_t peer = 0; peer < e->size && e->stashed && !e->failed; peer++)
        take_from(e, p, peer);
}
