/* direct.h - direct access between the ranks of one host: what the engine (exec/) uses for
 * references, windows, written results and boxes. Not a transport: no queues, no messages.
 *
 * All local ranks open it on one shared region. It offers:
 *
 *     boxes     every rank puts a payload, every rank sees all payloads in rank order: tiny ones
 *               in the control line itself, others in a stage. No barrier follows: each rank has
 *               two boxes and uses them in turn, and a stage has room for several payloads
 *     memory    heaps that all local ranks map, in which a peer's buffer is an ordinary pointer;
 *               a stream area of each rank (the window of exec/)
 *     an end    any rank can abort, and can leave safely although a peer may still write into
 *               its heap
 *
 * Ranks are numbered 0 .. nlocal-1 here (places among the local ranks). Only opening and dozing
 * wait; both have a deadline and end at once when any rank aborts. One thread at a time uses a
 * tt_direct, except tt_direct_abort, which any thread and any rank may call. Nothing allocates
 * after opening but tt_direct_heap_alloc. Nothing is left behind by a killed rank. */
#ifndef TT_DIRECT_H
#define TT_DIRECT_H

#include "base/base.h"

/* bytes that travel in the control line; up to 48 of them in its first cache line */
enum { TT_DIRECT_TINY = 112 };

struct tt_direct;
struct tt_direct_config {
    uint32_t nlocal, me;
    /* of tt_direct_bytes, zeroed, mapped by all; the caller's, to be unmapped after closing */
    void *region;
    /* the doors at which local ranks sleep: those in the region of their shm transport, so that one
     * sleep is woken for both; NULL: doors of its own */
    void *doors;
    size_t stage_bytes;  /* largest payload of a box; the same on all ranks */
    size_t stream_bytes; /* of the stream area of each rank; the same on all ranks */
    /* address space of each rank's heap; 0: as much as the host's memory; SIZE_MAX: no heap */
    size_t heap_bytes;
    bool oversubscribed;  /* more ranks than cores: yield at once instead of spinning */
    uint64_t deadline_ns; /* for opening */
    /* called now and then while waiting for the others: true ends opening with TUTTI_ERR_ABORTED;
     * NULL: not called */
    bool (*stop)(void *arg);
    void *stop_arg;
    /* set with TUTTI_ERR_TIMEOUT: the place of the rank that is missing; may be NULL */
    uint32_t *ret_late;
};
/* 0 when the numbers are out of range. */
size_t tt_direct_bytes(uint32_t nlocal, size_t stage_bytes, size_t stream_bytes);
/* All local ranks call it; returns when all have, and then all agree on what the kernel allows.
 * TUTTI_ERR_TIMEOUT names the rank that is missing. */
tutti_status tt_direct_open(const struct tt_direct_config *c, struct tt_direct **ret,
                            struct tutti_error *err);
/* Accepts NULL. Frees the heap, unless buffers in it are still allocated (tt_direct_heap). No rank
 * may use another rank's memory any more. */
void tt_direct_close(struct tt_direct *d);
uint32_t tt_direct_nlocal(const struct tt_direct *d);
bool tt_direct_crowded(const struct tt_direct *d); /* more ranks than cores */
uint32_t tt_direct_me(const struct tt_direct *d);
bool tt_direct_has_heap(const struct tt_direct *d); /* the same answer on all ranks */

/* ---- aborting and leaving (direct_quit.c), dozing ---- */

/* Ends tt_direct_open and tt_direct_boxes_get of all local ranks, now and later, with
 * TUTTI_ERR_ABORTED. Never blocks; safe in any thread and signal handler. */
void tt_direct_abort(struct tt_direct *d);
bool tt_direct_aborted(const struct tt_direct *d);
/* A rank that reads a peer's memory checks for an abort afterwards: a peer that has aborted may
 * have changed it meanwhile. A rank that writes into a peer's heap does so between lease (false:
 * aborted, do not write) and release, and checks for an abort between blocks. */
bool tt_direct_lease(struct tt_direct *d);
void tt_direct_release(struct tt_direct *d);
/* Aborts; afterwards no rank writes into this rank's heap buffers, whatever state it is in. Takes a
 * moment, unless a peer was killed or stopped while writing: then 20 ms and copies of the buffers
 * (if there is no memory for them, a stopped peer that goes on may still write the rest of one
 * block). Not for signal handlers. */
void tt_direct_quit(struct tt_direct *d);
/* A sleep until anything may have happened that this rank can wait for: begin (returns a ticket),
 * check once more, then either end it or doze (at most until deadline_ns). Dozing is allowed while
 * other threads use d. rouse wakes the dozer of this rank, from any thread. */
uint32_t tt_direct_doze_begin(struct tt_direct *d);
void tt_direct_doze(struct tt_direct *d, uint32_t ticket, uint64_t deadline_ns);
void tt_direct_doze_end(struct tt_direct *d);
void tt_direct_rouse(struct tt_direct *d);

/* ---- boxes: payloads of some ranks, side by side (direct_box.c) ----
 *
 * A group of local ranks that exchange boxes in one order opens one of TT_BOX_SETS sets; groups
 * without a common rank may use the same set at the same time. Closing is local: a rank's part of
 * the set is free again once no other rank can still read it. */

enum { TT_BOX_SETS = 32 };
/* The sets in which this rank's part is free, as bits. A group chooses a set that is free at all
 * its ranks. */
uint32_t tt_direct_boxes_free_sets(struct tt_direct *d);
size_t tt_direct_boxes_max(const struct tt_direct *d);

struct tt_boxes;
struct tt_boxes_config {
    uint32_t set;
    uint32_t n, me;         /* ranks of the group, and which of them this one is */
    const uint32_t *places; /* of the group's ranks in d */
    uint64_t key;           /* not 0; of no other group that used the set before */
};
tutti_status tt_direct_boxes_open(struct tt_direct *d, const struct tt_boxes_config *c,
                                  struct tt_boxes **ret, struct tutti_error *err);
void tt_direct_boxes_close(struct tt_boxes *b); /* accepts NULL */
/* Where the next put will lie if it has so many bytes. The caller may fill it in advance, once it
 * has got what was put last. */
void *tt_direct_boxes_next(const struct tt_boxes *b, size_t bytes);
/* Publishes `bytes` <= tt_direct_boxes_max bytes of this rank (in == tt_direct_boxes_next: they are
 * there already); all ranks of the group call it in the same order with the same size. */
void tt_direct_boxes_put(struct tt_boxes *b, const void *in, size_t bytes, uint64_t fingerprint);
/* Why there is nothing to get yet, or never. */
struct tt_boxes_blame {
    uint32_t peer;   /* the first rank of the group that has not put, or that differs */
    uint64_t theirs; /* TUTTI_ERR_DIFFERS: its fingerprint */
};
/* What all ranks have put in the same call; ret_all[r] is rank r's payload, valid until this rank's
 * next put. Never waits: TUTTI_IN_PROGRESS while a rank has not put, TUTTI_ERR_DIFFERS if a
 * fingerprint is not this rank's, TUTTI_ERR_ABORTED. */
tutti_status tt_direct_boxes_get(struct tt_boxes *b, const void *const **ret_all,
                                 struct tt_boxes_blame *ret_blame);
/* Would tt_direct_boxes_get return something other than TUTTI_IN_PROGRESS? seq_cst loads, for waits
 * at this rank's door. */
bool tt_direct_boxes_ready(const struct tt_boxes *b);

/* ---- memory (direct_mem.c) ---- */

/* The stream area of a rank, aligned to 64 bytes. One user at a time; how it is divided is that
 * user's business. */
void *tt_direct_stream(const struct tt_direct *d, uint32_t rank);
size_t tt_direct_stream_bytes(const struct tt_direct *d);

/* Memory that all local ranks can reach, aligned to 64 bytes, zeroed; buffers of different ranks
 * are shifted against each other so that they do not compete for the same cache sets. NULL when
 * there is no heap or it is full. Pairs with tt_direct_heap_free (accepts NULL), after which no
 * rank may use it. */
void *tt_direct_heap_alloc(struct tt_direct *d, size_t bytes);
void tt_direct_heap_free(struct tt_direct *d, void *p);
/* Where this rank sees `bytes` bytes at `remote` of a peer: in its heap, or anywhere when both are
 * threads of one process. NULL: nowhere. */
void *tt_direct_resolve(const struct tt_direct *d, uint32_t peer, uint64_t remote, size_t bytes);
/* This rank's heap, NULL when there is none. Closing does not unmap it while buffers in it are
 * allocated: then the caller frees it. */
const struct tt_region *tt_direct_heap(const struct tt_direct *d);
/* Are all these bytes in this rank's heap? */
bool tt_direct_owns(const struct tt_direct *d, const void *p, size_t bytes);
#endif
