/* direct.h - direct access between the ranks of one host: what exec/ carries out references, written results and boxes with. Not a
 * transport: no queues, no messages.
 *
 * All local ranks open it on one shared region. It offers:
 *
 *     boxes     every rank puts a payload, every rank sees all payloads in rank order: tiny ones travel in the control line itself,
 *               small ones in a stage. No trailing barrier: there are two sets, used in turn
 *     memory    heaps that all local ranks map, in which a peer's buffer is an ordinary pointer; a stream area of each rank (exec's
 *               window); reading and writing a peer's ordinary memory through the kernel (process_vm_readv)
 *     lanes     one rising 64-bit counter per rank and lane, on a line of its own, with a descriptor of the rank's buffers
 *
 * Ranks are numbered 0 .. nlocal-1 here (places among the local ranks). Every wait has a deadline and ends at once when any rank aborts.
 * One thread at a time uses a tt_direct, except tt_direct_abort, which any thread and any rank may call. Nothing allocates after opening
 * but tt_direct_heap_alloc. Nothing is left behind by a killed rank. */
#ifndef TT_DIRECT_H
#define TT_DIRECT_H

#include "base/base.h"

enum {
    TT_DIRECT_TINY = 112, /* bytes that travel in the control line; up to 48 of them in its first cache line */
    TT_DIRECT_LANES = 8
};

struct tt_direct;
struct tt_direct_config {
    uint32_t nlocal, me;
    void *region;         /* of tt_direct_bytes, zeroed, mapped by all; the caller's, to be unmapped after closing */
    void *doors;          /* where local ranks sleep: the region of their shm transport, so that one sleep hears of both; NULL: its own */
    size_t stage_bytes;   /* largest payload of a box; the same on all ranks */
    size_t stream_bytes;  /* of the stream area of each rank; the same on all ranks */
    size_t heap_bytes;    /* address space of each rank's heap; 0: as much as the host's memory; SIZE_MAX: no heap */
    bool oversubscribed;  /* more ranks than cores: yield at once instead of spinning */
    bool let_read;        /* where Yama forbids it, allow processes of the same user to read this one's memory (PR_SET_PTRACER_ANY) */
    uint64_t deadline_ns; /* for opening */
};
/* 0 when the numbers are out of range. */
size_t tt_direct_bytes(uint32_t nlocal, size_t stage_bytes, size_t stream_bytes);
/* All local ranks call it; returns when all have, and all know the same of what the kernel allows. TUTTI_ERR_TIMEOUT names who is missing.
 */
tutti_status tt_direct_open(const struct tt_direct_config *c, struct tt_direct **ret, struct tutti_error *err);
/* Accepts NULL. Frees the heap: no rank may use memory of this rank's heap any more. */
void tt_direct_close(struct tt_direct *d);
uint32_t tt_direct_nlocal(const struct tt_direct *d);
uint32_t tt_direct_me(const struct tt_direct *d);
/* The same answers on all ranks. */
bool tt_direct_can_read(const struct tt_direct *d); /* tt_direct_read and _write work between all pairs */
bool tt_direct_has_heap(const struct tt_direct *d);

/* ---- waiting (direct_step.c) ---- */

/* Who made a wait end without success. */
struct tt_direct_blame {
    uint32_t peer;         /* the first rank that was waited for, or that differs */
    uint64_t mine, theirs; /* TUTTI_ERR_DIFFERS: fingerprints */
};
/* Ends all waits of all local ranks, now and later, with TUTTI_ERR_ABORTED. Never blocks; safe in any thread and signal handler. */
void tt_direct_abort(struct tt_direct *d);
bool tt_direct_aborted(const struct tt_direct *d);
/* Who reads a peer's memory looks for an abort afterwards: a rank that has aborted may have changed it meanwhile. Who writes into a peer's
 * heap does so between lease (false: aborted, do not) and release, and looks for an abort between blocks. */
bool tt_direct_lease(struct tt_direct *d);
void tt_direct_release(struct tt_direct *d);
/* Aborts; after it no rank writes into this rank's heap buffers, whatever state it is in. A moment, unless a peer was killed or stopped
 * while writing: then 20 ms and copies of the buffers (where there is no memory for them, a stopped peer that goes on may still write the
 * rest of one block). Not in signal handlers. */
void tt_direct_quit(struct tt_direct *d);
/* A background thread's sleep, until anything may have happened that this rank can wait for: begin (returns a ticket), look once more, then
 * either end it or doze (not longer than until deadline_ns), which may be done while other threads use d. rouse wakes the dozer of this
 * rank, from any thread. */
uint32_t tt_direct_doze_begin(struct tt_direct *d);
void tt_direct_doze(struct tt_direct *d, uint32_t ticket, uint64_t deadline_ns);
void tt_direct_doze_end(struct tt_direct *d);
void tt_direct_rouse(struct tt_direct *d);
/* Time this rank has spent waiting for a peer longer than a moment, since opening. */
uint64_t tt_direct_waited_ns(const struct tt_direct *d, uint32_t peer);

/* ---- boxes: payloads of all ranks, side by side ---- */

/* Publishes `bytes` <= tt_direct_box_max bytes of this rank; all ranks call it in the same order with the same size. */
size_t tt_direct_box_max(const struct tt_direct *d);
void tt_direct_put(struct tt_direct *d, const void *in, size_t bytes, uint64_t fingerprint);
/* Waits for what all ranks have put in the same call; ret_all[r] is rank r's payload, valid until this rank's next put. TUTTI_IN_PROGRESS
 * at deadline_ns (0: only looks), TUTTI_ERR_DIFFERS when a fingerprint is not ours, TUTTI_ERR_ABORTED. ret_blame may be NULL. */
tutti_status tt_direct_get(struct tt_direct *d, uint64_t deadline_ns, const void *const **ret_all, struct tt_direct_blame *ret_blame);

/* Would tt_direct_get end? For waits on the own door. */
bool tt_direct_ready(const struct tt_direct *d);

/* A whole all-reduce of at most tt_direct_box_max bytes: put, get, and every rank combines all payloads in rank order by itself. */
typedef void tt_direct_combine_fn(void *ctx, void *dst, const void *const *src, uint32_t n, size_t bytes);
struct tt_direct_reduce {
    const void *in;
    void *out; /* may be in */
    size_t bytes;
    uint64_t fingerprint;
    tt_direct_combine_fn *combine;
    void *ctx;
    uint64_t timeout_ns; /* relative, so that the clock is read only by who has to wait */
};
/* As tt_direct_get, but the end of the timeout is TUTTI_ERR_TIMEOUT. */
tutti_status tt_direct_reduce(struct tt_direct *d, const struct tt_direct_reduce *op, struct tt_direct_blame *ret_blame);

/* A stage, for operations that organise their copies themselves: two per rank, of stage_bytes. They are those of the boxes: use them
 * between two box operations of more than TT_DIRECT_TINY bytes only after all ranks are known to have finished the first. */
void *tt_direct_stage(const struct tt_direct *d, uint32_t rank, unsigned which);
/* The stream area of a rank, aligned to 64 bytes: for one user at a time that organises everything himself. */
void *tt_direct_stream(const struct tt_direct *d, uint32_t rank);
size_t tt_direct_stream_bytes(const struct tt_direct *d);
bool tt_direct_oversubscribed(const struct tt_direct *d);

/* ---- lanes: steps of larger operations ---- */

/* What a rank says about its buffers in one operation. */
enum tt_direct_kind { TT_DIRECT_NONE, TT_DIRECT_PRIVATE, TT_DIRECT_HEAP };
struct tt_direct_desc {
    uint64_t in, out; /* addresses in that rank's process */
    uint64_t in_bytes, out_bytes;
    uint64_t fingerprint;
    uint32_t in_kind, out_kind; /* enum tt_direct_kind, by tt_direct_kind_of */
    uint32_t flags;             /* the user's */
};
/* Writes slot 0 or 1 of this rank's lane; visible to those who see the next post. A slot must not be written again before all readers have
 * posted that they have read it: with operations that end in a wait for all, use the slots in turn. */
void tt_direct_describe(struct tt_direct *d, unsigned lane, unsigned slot, const struct tt_direct_desc *desc);
const struct tt_direct_desc *tt_direct_described(const struct tt_direct *d, unsigned lane, unsigned slot, uint32_t peer);
/* Sets this rank's counter (never lower than before) and wakes who sleeps: everything written before is visible to who sees the value. */
void tt_direct_post(struct tt_direct *d, unsigned lane, uint64_t value);
/* Waits until the peer's counter is at least value. TUTTI_IN_PROGRESS at deadline_ns (0: only looks), TUTTI_ERR_ABORTED. */
tutti_status tt_direct_await(struct tt_direct *d, unsigned lane, uint32_t peer, uint64_t value, uint64_t deadline_ns);
/* The same for all ranks; *ret_peer (may be NULL) is the first that is missing. */
tutti_status tt_direct_await_all(struct tt_direct *d, unsigned lane, uint64_t value, uint64_t deadline_ns, uint32_t *ret_peer);
uint64_t tt_direct_posted(const struct tt_direct *d, unsigned lane, uint32_t peer);

/* ---- memory (direct_mem.c) ---- */

/* Copies between a peer's ordinary memory and ours. TUTTI_ERR_REFUSED when not tt_direct_can_read, TUTTI_ERR_PEER when the peer is gone,
 * TUTTI_ERR_ARG when its memory is not there. */
tutti_status tt_direct_read(struct tt_direct *d, uint32_t peer, uint64_t remote, void *local, size_t bytes);
tutti_status tt_direct_write(struct tt_direct *d, uint32_t peer, uint64_t remote, const void *local, size_t bytes);

/* Memory that all local ranks can reach, aligned to 64 bytes, zeroed; buffers of different ranks are shifted against each other so that
 * they do not compete for the same cache sets. NULL when there is no heap or it is full. Pairs with tt_direct_heap_free (accepts NULL),
 * after which no rank may use it. */
void *tt_direct_heap_alloc(struct tt_direct *d, size_t bytes);
void tt_direct_heap_free(struct tt_direct *d, void *p);
/* Where this rank sees `bytes` bytes at `remote` of a peer: in its heap, or anywhere when both are threads of one process. NULL: nowhere.
 */
void *tt_direct_resolve(const struct tt_direct *d, uint32_t peer, uint64_t remote, size_t bytes);
enum tt_direct_kind tt_direct_kind_of(const struct tt_direct *d, const void *p, size_t bytes);
#endif
