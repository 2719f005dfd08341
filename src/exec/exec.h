/* exec.h - runs one rank's slice of a schedule on real memory over a transport.
 *
 * A program is a slice bound to element count, type and reduction: all memory it will ever need (dependency counters, scratch and landing
 * places) is made with it. An engine drives any number of started programs of one communicator over one transport. Nothing allocates, looks
 * up or formats between start and completion.
 *
 * Live meaning (sched.h): segment k of an operation runs when segment k of the earlier conflicting operations of its rank is done. A
 * message segment is sent in pieces of at most TT_PIECE_MAX bytes; a piece's tag carries request, channel, message number and piece number,
 * so that arrival order does not matter. A payload that arrives before its operation may run goes to the program's landing place; one whose
 * request is not started yet goes to the engine's stash, which is bounded: a sender keeps at most `eager_bytes` per peer in flight for
 * requests its peer has not started (start notices give credit).
 *
 * Where ranks share a host, an operation is carried out without a message's copies if its memory can be reached (lower.c says which
 * patterns, refs.c how): a receive reads the sender's memory, a reduction takes operands where they lie and writes the places of peers.
 *
 * AVG: the division happens once per chunk, in the last operation that writes OUT of that chunk when that is a reducing one (the owner, or
 * the root); where a result exists only once (reduce-scatter, reduce) in the last one of any kind, since a rank may get its sum finished.
 */
#ifndef TT_EXEC_H
#define TT_EXEC_H

#include "base/base.h"
#include "kernel/kernel.h"
#include "sched/sched.h"
#include "transport/direct.h"
#include "transport/transport.h"

struct tt_program;
struct tt_program_config {
    const struct tt_sched *sched; /* must hold `rank`; must outlive the program */
    uint32_t rank;
    uint64_t count;
    tutti_dtype dtype;
    tutti_redop redop;
    uint32_t segments;            /* 0: the schedule's own */
    const uint64_t *block_counts; /* reduce-scatter, all-gather, gather, scatter, all-to-all: exact elements of each rank's block (rank r =
                                     block r); NULL: the schedule's own layout */
    const uint32_t *places;       /* by rank: its place among the ranks whose memory can be reached (direct.h), TT_NO_PLACE; NULL: none */
    size_t box_bytes;             /* all ranks share boxes of this size, and sched holds all ranks; 0: no boxes */
};
#define TT_NO_PLACE UINT32_MAX
tutti_status tt_program_make(const struct tt_program_config *c, struct tt_program **ret, struct tutti_error *err);
void tt_program_free(struct tt_program *p); /* not while started */
/* Spans of IN / OUT this rank reads / writes, in elements of the whole vector (what the caller's buffers must cover). */
uint64_t tt_program_in_elems(const struct tt_program *p);
uint64_t tt_program_out_elems(const struct tt_program *p);

/* How the messages of the last run were carried out at this rank, in pieces: as bytes, read where they lay, written by their sender's
 * reduction, or in a box. */
struct tt_carried {
    uint64_t message, read, write, box;
};
void tt_program_carried(const struct tt_program *p, struct tt_carried *ret);
uint32_t tt_program_segments(const struct tt_program *p);     /* that it runs with */
void tt_program_print(const struct tt_program *p, FILE *out); /* one line per operation (print.c says what is in it) */

struct tt_engine;
struct tt_engine_config {
    struct tt_transport *transport; /* borrowed */
    uint16_t comm;
    uint32_t max_requests;    /* started at the same time; 0: 64 */
    uint32_t eager_bytes;     /* per peer; 0: 256 KiB */
    struct tt_direct *direct; /* borrowed; NULL: all messages are bytes */
    const uint32_t *places;   /* by rank: place in `direct`, TT_NO_PLACE; borrowed */
    size_t ref_bytes;         /* pieces from this length on go by reference */
    bool read;                /* ordinary memory is read through the kernel; else it is copied to windows */
};
tutti_status tt_engine_make(const struct tt_engine_config *c, struct tt_engine **ret, struct tutti_error *err);
void tt_engine_free(struct tt_engine *e);

/* Starts request number `seq` (the same on all ranks, rising by one). in == out: in place. The buffers belong to the engine until it is
 * done. Buffers hold the rank's own part for collectives with parts: reduce-scatter OUT and all-gather IN are the own block only, and so
 * on. In place with parts: the part lies at its own place in the whole vector, said either as the address of the part (out == in + own
 * offset) or, with in == out, as that of the whole vector (the only way when the own chunks do not touch). Any other overlap is refused. */
struct tt_start {
    struct tt_program *program;
    const void *in;
    void *out;
    uint32_t seq;
    uint64_t fingerprint;
};
tutti_status tt_engine_start(struct tt_engine *e, const struct tt_start *s, struct tutti_error *err);

/* Polls once and does all that has become possible; true when anything happened. */
bool tt_engine_progress(struct tt_engine *e);
/* TUTTI_OK done (the program may be started again), TUTTI_IN_PROGRESS, or the error of the engine. */
tutti_status tt_engine_test(struct tt_engine *e, const struct tt_program *p, struct tutti_error *err);

uint64_t tt_engine_finished(const struct tt_engine *e); /* programs that are done or failed, since the engine was made */

/* The first peer this program waits for; UINT32_MAX: none. */
uint32_t tt_engine_waiting(const struct tt_engine *e, const struct tt_program *p);

/* A peer sent something that does not fit: set once, all programs fail. */
struct tt_engine_fault {
    enum { TT_FAULT_NONE, TT_FAULT_MISMATCH, TT_FAULT_CLOSED, TT_FAULT_PROTOCOL } kind;
    uint32_t peer, seq;
    uint64_t mine, theirs; /* MISMATCH: fingerprints */
    int error;             /* CLOSED: errno */
};
const struct tt_engine_fault *tt_engine_fault(const struct tt_engine *e);
/* Fails every started program now with this fault (abort; a verdict from the watch). */
void tt_engine_kill(struct tt_engine *e, const struct tt_engine_fault *why);

/* Per peer, since the engine was made. Times are from a look (tt_engine_progress) that found nothing to the next arrival. */
struct tt_peer_stats {
    uint64_t wait_ns;             /* all that ended with something from or for this peer */
    uint64_t late_ns;             /* first-arrival skew: idle time of requests before anything of them came from this peer */
    uint64_t recv_ns, recv_bytes; /* from the first to the last piece of a request of several pieces, and what came in that time */
    uint64_t bytes_in, bytes_out;
};
void tt_engine_stats(const struct tt_engine *e, uint32_t peer, struct tt_peer_stats *ret);
#endif
