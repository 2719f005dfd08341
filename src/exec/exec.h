/* exec.h - runs one rank's slice of a schedule on real memory over a transport.
 *
 * A program is a slice bound to element count, type and reduction: all memory it will ever need
 * (dependency counters, scratch and landing places) is made with it. An engine drives any number of
 * started programs over one transport; their requests are ordered by context (a communicator each).
 * Nothing allocates, looks up or formats between start and completion.
 *
 * Live meaning (sched.h): segment k of an operation runs when segment k of the earlier conflicting
 * operations of its rank is done. A message segment is sent in pieces of at most TT_PIECE_MAX
 * bytes; a piece's tag carries request, channel, message number and piece number, so that arrival
 * order does not matter. A payload that arrives before its operation may run goes to the program's
 * landing place; one whose request is not started yet goes to the engine's stash, which is bounded:
 * a sender keeps at most `eager_bytes` per peer and context in flight for requests its peer has not
 * started (start notices give credit).
 *
 * Where ranks share a host, an operation is carried out without the copies of a message if its
 * memory can be reached (lower.c says which patterns, refs.c how): a receive reads the sender's
 * memory, a reduction takes operands where they lie and writes the places of peers.
 *
 * Threads: one thread at a time uses an engine, its contexts and their programs; there are no locks
 * inside.
 *
 * AVG: the division happens once per chunk, in the last operation that writes OUT of that chunk
 * when that is a reducing one (the owner, or the root); where a result exists only once
 * (reduce-scatter, reduce) in the last one of any kind, since a rank may receive its finished
 * sum. */
#ifndef TT_EXEC_H
#define TT_EXEC_H

#include "base/base.h"
#include "base/record.h"
#include "kernel/kernel.h"
#include "sched/sched.h"
#include "transport/direct.h"
#include "transport/transport.h"

/* All-to-all with blocks of any length at any place: by rank, elements that this rank sends to it
 * and gets from it, and where they lie in IN and OUT. Blocks of OUT do not overlap. No rank knows
 * the lengths of others: the schedule must carry every block straight from its source to its
 * destination, and the fingerprint of every message, empty ones too, contains the length that its
 * sender uses, so that ranks which disagree get an error. */
struct tt_blocks {
    const size_t *send_counts, *send_at, *recv_counts, *recv_at;
};

struct tt_program;
struct tt_program_config {
    const struct tt_sched *sched; /* must hold `rank`; must outlive the program */
    uint32_t rank;
    uint64_t count;
    tutti_dtype dtype;
    /* TT_REDOP_USER without `user`: the program is for reading only */
    tutti_redop redop;
    const struct tt_userop *user; /* in place of redop; copied; NULL: none */
    uint32_t segments;            /* 0: the schedule's own */
    /* reduce-scatter, all-gather, gather, scatter, all-to-all: exact elements of each rank's block
     * (rank r = block r); NULL: the schedule's own layout */
    const uint64_t *block_counts;
    /* all-to-all: in place of block_counts; count is 0 then, and boxes are not used; NULL: none */
    const struct tt_blocks *blocks;
    /* by rank: its place among the ranks whose memory can be reached (direct.h), TT_NO_PLACE; NULL:
     * none */
    const uint32_t *places;
    /* all ranks share boxes of this size, and sched holds all ranks; 0: no boxes */
    size_t box_bytes;
    /* longest input that goes through boxes whole; an exchange of longer ones is run as a row,
     * which reads heaps where they are. 0: what a box holds */
    size_t exchange_bytes;
};
#define TT_NO_PLACE UINT32_MAX
/* The config is only read; the program belongs to the caller. *ret is set on success only. */
tutti_status tt_exec_program_make(const struct tt_program_config *c, struct tt_program **ret,
                                  struct tutti_error *err);
void tt_exec_program_free(struct tt_program *p); /* not while started */
/* Spans of IN / OUT this rank reads / writes, in elements of the whole vector (what the caller's
 * buffers must cover). */
uint64_t tt_exec_program_in_elems(const struct tt_program *p);
uint64_t tt_exec_program_out_elems(const struct tt_program *p);

/* How the messages that this rank sent in the last run were carried out, in pieces: as bytes, read
 * where they lay, written by the reduction that made them, or in a box. */
struct tt_carried {
    uint64_t message, read, write, box;
};
void tt_exec_program_carried(const struct tt_program *p, struct tt_carried *ret);
uint32_t tt_exec_program_segments(const struct tt_program *p); /* the number it runs with */
/* one line per operation (print.c says what is in it) */
void tt_exec_program_print(const struct tt_program *p, FILE *out);

/* One engine drives one transport. One thread at a time uses it and everything that belongs to
 * it. */
struct tt_engine;
struct tt_engine_config {
    struct tt_transport *transport; /* borrowed */
    uint32_t max_requests;          /* started at the same time, of all contexts; 0: 64 */
    uint32_t eager_bytes;           /* per peer and context; 0: 256 KiB */
    struct tt_direct *direct;       /* borrowed; NULL: all messages are bytes */
    /* by rank of the transport: place in `direct`, TT_NO_PLACE; borrowed */
    const uint32_t *places;
    size_t ref_bytes; /* pieces from this length on go by reference */
};
tutti_status tt_exec_engine_make(const struct tt_engine_config *c, struct tt_engine **ret,
                                 struct tutti_error *err);
void tt_exec_engine_free(struct tt_engine *e); /* frees contexts that are still open, too */
/* From now on pieces and idle times are noted in r (borrowed; NULL: nothing is). */
void tt_exec_engine_record(struct tt_engine *e, struct tt_record *r);

/* A context is some ranks of the transport with an order of requests of their own. Programs name
 * ranks by their number in the context. Opening and closing are local, and no rank waits for what
 * they send: two ranks introduce a context to each other when both have a program that needs the
 * other one (context.c). */
struct tt_context;
struct tt_context_config {
    /* the same on all members, and of no other context of theirs; 0: the one of all ranks, which
     * needs no introduction */
    uint64_t key;
    const uint32_t *members; /* ranks of the transport, copied; NULL: all, in their order */
    uint32_t n, rank;
    struct tt_boxes *boxes; /* of all members; from success on the context's; NULL: none */
};
tutti_status tt_exec_context_open(struct tt_engine *e, const struct tt_context_config *c,
                                  struct tt_context **ret, struct tutti_error *err);
/* Closes it; no program of it may be running. Tells the members that know it; late traffic for it
 * is dropped. Accepts NULL. */
void tt_exec_context_close(struct tt_context *x);
bool tt_exec_context_running(const struct tt_context *x); /* is a program of it running? */
/* Takes the memory and begins the introductions that starting the program will need. Optional:
 * starting does the same. */
tutti_status tt_exec_context_prepare(struct tt_context *x, const struct tt_program *p,
                                     struct tutti_error *err);

/* Starts request number `seq` (the same on all ranks, rising by one). in == out: in place. The
 * buffers belong to the engine until it is done. Buffers hold the rank's own part for collectives
 * with parts: reduce-scatter OUT and all-gather IN are the own block only, and so on. In place with
 * parts: the part lies at its own place in the whole vector, said either as the address of the part
 * (out == in + own offset) or, with in == out, as that of the whole vector (the only way when the
 * own chunks do not touch). Any other overlap is refused. */
struct tt_start {
    struct tt_program *program;
    const void *in;
    void *out;
    uint32_t seq;
    uint64_t fingerprint;
};
tutti_status tt_exec_context_start(struct tt_context *x, const struct tt_start *s,
                                   struct tutti_error *err);

/* A message between two ranks of a context, outside the order of its requests (letter.c). Messages
 * from one rank to another are received in the order they were sent, among those whose tag is asked
 * for. The structure is the caller's and must not move until it is done. */
#define TT_ANY UINT32_MAX
struct tt_letter {
    /* set by the caller before the start */
    void *data;     /* a send only reads it */
    uint64_t bytes; /* a receive: the room there is */
    uint32_t peer;  /* rank in the context, not this one; a receive: or TT_ANY */
    uint32_t tag;   /* a receive: or TT_ANY */
    uint32_t kind;  /* what the bytes are, below 2^16: the other side must say the same */
    bool sends;
    bool exact; /* a receive: `bytes` must come, neither more nor less; otherwise at most `bytes` */
    /* a receive, once it is done: what came */
    uint32_t from, from_tag;
    uint64_t got;
    /* the engine's own */
    uint8_t state, next;
    uint32_t id, other, under_way;
    uint64_t done;
    uint32_t first_missing; /* a receive in pieces: all before this one have come, and */
    uint64_t come;          /* those of the next 64 whose bit is set */
    struct tt_context *context;
    struct tt_xpeer *pe;
    struct tt_letter *before, *after, *behind;
};
/* Room for one more letter, so that starting it needs no memory; given back with
 * tt_exec_letter_forget. peer: the one it will name; refused when that is no other rank. */
tutti_status tt_exec_letter_prepare(struct tt_context *x, uint32_t peer, struct tutti_error *err);
void tt_exec_letter_forget(struct tt_context *x);
tutti_status tt_exec_letter_start(struct tt_context *x, struct tt_letter *l,
                                  struct tutti_error *err);
/* Like tt_exec_engine_test. */
tutti_status tt_exec_letter_test(const struct tt_letter *l, struct tutti_error *err);
/* Cancels a receive that nothing has come for; false: something has come, or it is done. */
bool tt_exec_letter_cancel(struct tt_letter *l);
/* The rank it waits for, as a rank of the transport; UINT32_MAX: none in particular. */
uint32_t tt_exec_letter_waiting(const struct tt_letter *l);

/* How many letters have come that no receive asked for. ret_first: from, from_tag, got and kind of
 * the first one, set only if there is one. */
uint32_t tt_exec_letter_unread(const struct tt_context *x, struct tt_letter *ret_first);

/* Polls the transport once and does everything that has become possible. Never blocks; true when
 * anything happened. */
bool tt_exec_engine_progress(struct tt_engine *e);
/* While `every`, each call polls the transport, also where boxes alone are waited for: a closing
 * communicator has no later call that could find what does not belong to it. */
void tt_exec_engine_poll_always(struct tt_engine *e, bool every);
/* TUTTI_OK done (the program may be started again), TUTTI_IN_PROGRESS, or the error of the
 * engine. */
tutti_status tt_exec_engine_test(struct tt_engine *e, const struct tt_program *p,
                                 struct tutti_error *err);

/* programs and letters that have ended, done or failed, since the engine was made */
uint64_t tt_exec_engine_finished(const struct tt_engine *e);
/* a counter that changes whenever something of the context has come or gone */
uint64_t tt_exec_context_moved(const struct tt_context *x);
uint64_t tt_exec_context_mailed(const struct tt_context *x); /* the same for letters only */

/* The first peer that this program, once started, waits for; UINT32_MAX: none. A rank of the
 * transport, like all peers below. */
uint32_t tt_exec_program_waiting(const struct tt_program *p);

enum tt_letter_side { TT_LETTER_IN = 1, TT_LETTER_OUT = 2 };
/* A peer sent something that does not fit: set once, all programs fail. */
enum tt_fault_kind { TT_FAULT_NONE, TT_FAULT_MISMATCH, TT_FAULT_CLOSED, TT_FAULT_PROTOCOL };
struct tt_exec_engine_fault {
    enum tt_fault_kind kind;
    uint32_t peer, seq;
    /* MISMATCH: fingerprints; of letters kind << 48 | bytes. PROTOCOL of a letter: theirs is the
     * piece that came twice. */
    uint64_t mine, theirs;
    int error;                        /* CLOSED: errno */
    const struct tt_context *context; /* MISMATCH: of the request or letter; only compared */
    /* MISMATCH or PROTOCOL of a letter, whose tag is seq: enum tt_letter_side, what this rank
     * does; 0: of a request */
    uint8_t letter;
};
const struct tt_exec_engine_fault *tt_exec_engine_fault(const struct tt_engine *e);
/* Fails every started program now with this fault (abort; a verdict from the watch). */
void tt_exec_engine_kill(struct tt_engine *e, const struct tt_exec_engine_fault *why);

/* Per rank of the context, since it was opened. Idle times run from a poll
 * (tt_exec_engine_progress) that found nothing to the next arrival. */
struct tt_peer_stats {
    uint64_t wait_ns; /* idle times that ended with an event of this peer */
    /* first-arrival skew: idle time of requests before anything of them came from this peer */
    uint64_t late_ns;
    /* from the first to the last piece of a request of several pieces, and what came in that
     * time */
    uint64_t recv_ns, recv_bytes;
    uint64_t bytes_in, bytes_out;
};
void tt_exec_context_stats(const struct tt_context *x, uint32_t rank, struct tt_peer_stats *ret);
#endif
