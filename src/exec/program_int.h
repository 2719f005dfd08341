/* program_int.h - the compiled program of one rank: what layout.c, compile.c, messages.c and
 * lower.c make and the engine (exec_int.h) runs. No other module includes it.
 *
 * Terms: a task is one segment of one operation (number op * segments + segment); a piece is what
 * one transport message carries of a task; a fragment is a run of touching elements; a link is one
 * peer as one program sees it; a lane is what comes from one peer on one channel; a mode says
 * whether IN and OUT are apart (0) or one memory (1). */
#ifndef TT_EXEC_PROGRAM_INT_H
#define TT_EXEC_PROGRAM_INT_H

#include <assert.h>

#include "exec/exec.h"

enum {
    /* bytes of a piece at most: it stays in a second-level cache from arrival to reduction */
    TT_XPIECE = 128 << 10,
    /* unit of stash memory and of credit: a piece of full length is accepted with one iovec list */
    TT_XBLOCK = TT_XPIECE / TT_IOV_MAX,
    TT_XEVENTS = 32,
    TT_XSTAGES = 8,
    TT_XDEFERRED = 64,
    TT_XHOLD = 512 << 10, /* bytes of transport memory held for reductions: half of one ring */
    TT_XBUCKETS = 64      /* of the table of running programs */
};
static_assert((int)TT_XPIECE <= (int)TT_PIECE_MAX && TT_XPIECE % 64 == 0,
              "a piece is one transport message and holds whole elements");
#define TT_XNO UINT32_MAX

/* Control messages of the engine; `request` is the sender's latest started one. */
enum {
    TT_XCH_STARTED = TT_CH_CONTROL, /* "I have started this and all earlier requests" */
    /* "your fingerprint for `request` (payload) is not mine (tag)" */
    TT_XCH_MISMATCH = TT_CH_CONTROL + 1,
    /* "I have taken what you referred to" (the payload is a struct tt_xref) */
    TT_XCH_TAKEN = TT_CH_CONTROL + 2,
    /* "I have this context (payload: its key), for me its number is `request`" */
    TT_XCH_HELLO = TT_CH_CONTROL + 3,
    TT_XCH_BYE = TT_CH_CONTROL + 4, /* "I have closed this context" */
    /* letters (letter.c): */
    TT_XCH_LETTER = TT_CH_CONTROL + 5, /* the envelope, with the bytes of a short letter */
    /* "send the rest of letter `request`; for me its number is `message`" */
    TT_XCH_GO = TT_CH_CONTROL + 6,
    TT_XCH_BODY = TT_CH_CONTROL + 7, /* piece `message` of letter `request` */
    /* "`request` blocks of your short letters have been taken" */
    TT_XCH_CREDIT = TT_CH_CONTROL + 8
};
/* In tags: a message that belongs to no context (HELLO, TAKEN of window slots). */
#define TT_XCOMM_NONE UINT16_MAX

/* What a piece's message holds, in the top bits of the message number: its bytes; a reference to
 * them; or only the other fields of a reference, because the bytes are in their place already. */
enum { TT_XFORM_BYTES, TT_XFORM_REF, TT_XFORM_WRITTEN, TT_XFORM_SHIFT = 30 };
#define TT_XMESSAGE ((1u << TT_XFORM_SHIFT) - 1)

enum tt_xkind { TT_XKIND_NONE, TT_XKIND_HEAP, TT_XKIND_WINDOW };
/* Sent as a payload; with its tag it fits in one line of a ring. */
struct tt_xref {
    uint64_t at;     /* HEAP: an address of the sender; WINDOW: offset in its stream area */
    uint64_t cookie; /* HEAP: returned by TAKEN */
    /* taken_kind NONE: where the receiver may write message `message` of the same segment, 0:
     * nowhere; else the cookie of what was taken */
    uint64_t extra;
    uint32_t message;
    uint8_t kind, slot; /* WINDOW: the slot is returned by TAKEN */
    /* what the sender has taken of the receiver's; NONE: nothing; WINDOW: slots, bits of `extra` */
    uint8_t taken_kind;
    uint8_t pad;
};
static_assert(sizeof(struct tt_xref) == 32, "a short payload");
struct tt_xpeer;
/* A piece that was not copied: where its bytes are, and what to tell its sender. */
struct tt_xkept {
    const void *data;
    struct tt_xref ref;
    struct tt_xpeer *pe; /* its sender */
    uint32_t bytes;
    bool frame; /* in transport memory: to be released */
};
/* The state of a send whose reduction may write for it, by segment. */
struct tt_xoffer {
    char *to; /* NULL: no place was offered */
    bool written;
    /* number + 1 of the operand's piece whose sender is told with this send; 0: none */
    uint64_t debt;
};

/* ---- layout.c: where chunks lie in the caller's buffers, in elements ---- */

#define TT_XNOWHERE UINT64_MAX
struct tt_xrun {     /* touching own chunks of a collective with parts */
    uint64_t whole;  /* where it begins in the whole vector */
    uint64_t packed; /* and in the own part */
};
struct tt_xlayout {
    uint32_t chunks;
    uint64_t *sum; /* chunks + 1: elements of the chunks before */
    /* TT_XNOWHERE, or place in IN / OUT; a part: counted from the beginning of its run */
    uint64_t *in, *out;
    uint32_t *run;      /* run of an own chunk (parts) */
    struct tt_vec runs; /* struct tt_xrun; empty when the collective has no parts */
    uint64_t in_elems, out_elems;
    bool part_in, part_out; /* IN (OUT) is the own part */
    /* all-to-all: blocks of one size, so that both sides of the transposition have one place */
    bool even;
};
tutti_status tt_exec_layout_make(const struct tt_program_config *c, struct tt_xlayout *ret,
                                 struct tutti_error *err);
void tt_exec_layout_free(struct tt_xlayout *l);
static inline uint64_t tt_xlayout_elems(const struct tt_xlayout *l, uint32_t chunk)
{
    assert(chunk < l->chunks);
    return l->sum[chunk + 1] - l->sum[chunk];
}

/* ---- compile.c: operations to places in memory ---- */

/* A reference is a base (16 bits: 0 IN, 1 OUT, 2 own memory, 3 + r run r of the own part) and a
 * byte offset. */
enum { TT_XBASE_IN, TT_XBASE_OUT, TT_XBASE_OWN, TT_XBASE_RUNS, TT_XBASE_MAX = 1 << 16 };
#define TT_XREF_OFFSET ((UINT64_C(1) << 48) - 1)
/* A bit in the first word of a fragment: the mean is formed here (AVG). */
#define TT_XDIVIDE (UINT64_C(1) << 63)

struct tt_xop {
    uint8_t kind; /* enum tt_op_kind */
    bool divides; /* some fragment does */
    uint16_t channel;
    uint32_t link, message;
    uint32_t npieces; /* of its longest segment */
    uint32_t nfrags;
    uint32_t width; /* references of a fragment: destination (SEND: source), then sources */
    /* first word in tt_program.code; a fragment is 1 + width words: elements, references */
    uint64_t code;
    uint64_t elems;  /* all fragments */
    uint64_t stride; /* landing, packing: bytes from segment to segment */
    /* where in own memory a message waits that came too early (SEND: is put together);
     * TT_XNOWHERE */
    uint64_t land;
    uint64_t piece;   /* receives: first of its npieces * segments piece states */
    uint32_t succ[2]; /* by mode: first of the operations that wait for this one */
    uint32_t nsucc[2];
    /* lower.c; TT_XNO: none */
    uint32_t holds;   /* REDUCE: first of width - 1 entries of tt_program.holds */
    uint32_t held_by; /* RECV: the REDUCE that takes it where it lies */
    /* RECV that is held: the send of the result to the same peer; SEND: the receive that its
     * receiver may write */
    uint32_t answer;
    /* REDUCE: bit m: in mode m its operands may stay in the senders' own memory until it runs */
    uint8_t borrows;
    /* SEND: the first send of the same place in the step; REDUCE: the first send of its result */
    uint32_t group;
    uint32_t nsends; /* first of a group: how many */
    /* first of a group of several: first of its pieces' entries in tt_program.sent */
    uint32_t sent;
    /* SEND: first of `segments` entries of tt_program.offers: its reduction may write for it */
    uint32_t offer;
    /* RECV: bit m: in mode m its sender may write it once it has the send that answers it */
    uint8_t offers;
};
/* Piece states; TT_XSTAGED + s: being received into stage s.
 *
 *     MISSING --> TAKEN                        bytes came, the operation was ready
 *             --> LANDED --> TAKEN             bytes came early
 *             --> DIRECT --> TAKEN             accepted into its place
 *             --> LANDING --> LANDED or TAKEN  accepted into the landing place
 *             --> STAGED + s --> TAKEN         accepted into a stage
 *             --> KEPT --> TAKEN               a reference
 *             --> WRITTEN --> TAKEN            written by the sender
 *             --> HELD --> TAKEN               the reduction takes it where it lies
 *     KEPT and HELD may pass through OWED, until the sender could be told */
enum {
    TT_XMISSING,
    TT_XDIRECT,  /* being received into its place */
    TT_XLANDING, /* being received into its landing place */
    TT_XLANDED,  /* in its landing place, until the operation is ready */
    TT_XTAKEN,   /* used */
    TT_XKEPT,    /* a reference, until the operation is ready */
    TT_XWRITTEN, /* by the sender, before the operation was ready */
    TT_XHELD,    /* for the reduction */
    TT_XOWED,    /* used, but its sender could not be told yet */
    TT_XSTAGED
};

struct tt_xtask {
    uint32_t waits; /* earlier conflicting tasks that are not done */
    uint32_t left;  /* pieces that are not done; local operations: 1 */
};

/* What comes from one peer on one channel: message i is operation lane_ops[first + i], i < n. */
struct tt_xlane {
    uint32_t peer, channel;
    uint32_t link, first, n;
};

/* One peer as one program sees it. */
struct tt_xlink {
    /* peer: in the context; place: TT_NO_PLACE unless its memory can be reached */
    uint32_t peer, place;
    uint32_t in_pieces, out_pieces;
    /* in fingerprints of messages to and from the peer: lengths that only the two know; 0: none */
    uint64_t in_salt, out_salt;
    uint64_t in_bytes;
    uint64_t in_cost, out_cost; /* in blocks of credit */
    /* while running: */
    struct tt_program *program;
    struct tt_xpeer *pe; /* the peer in the program's context */
    /* pieces still to come; pieces not yet sent, or sent and not yet done */
    uint32_t in_left, out_left;
    /* ready send tasks (linked by tt_program.next), next piece of the first */
    uint32_t head, tail, piece;
    struct tt_xlink *before, *after; /* among the engine's links that have something to send */
    bool waiting, heard;
    uint64_t due; /* credit: what the peer has been allowed when it knows of this request */
    /* where the next piece stands in the line of all bytes to the peer (credit.c) */
    uint64_t spent;
    uint64_t first_ns, first_bytes;
};

enum tt_xstate { TT_XIDLE, TT_XRUNNING, TT_XDONE, TT_XFAILED };

struct tt_program {
    tutti_dtype dtype;
    tutti_redop redop;
    struct tt_userop user; /* fn NULL: none */
    uint32_t elem_bytes, elem_shift, divisor;
    uint32_t nops, segments, ntasks;
    uint64_t in_elems, out_elems;
    bool inplace; /* may be run in place: mode 1 exists */
    bool part_in, part_out;
    struct tt_xrun *runs;
    uint32_t nruns;

    struct tt_xop *ops;
    uint64_t *code;
    uint32_t *succ;
    struct tt_xlane *lanes; /* open addressing, by (peer, channel) */
    uint32_t lane_mask;
    uint32_t *lane_ops;
    struct tt_xlink *links;
    uint32_t nlinks;

    const struct tt_xtask *fresh[2]; /* by mode: what tasks begin with */
    const uint32_t *first[2];        /* by mode: tasks that can run at once */
    uint32_t nfirst[2];
    uint64_t npieces;
    uint32_t *holds; /* by operand of a reduction: the RECV that brings it, TT_XNO */
    uint32_t nholds;
    struct tt_xkept *refs; /* by piece; NULL: no peer's memory can be reached */
    struct tt_xoffer *offers;
    uint32_t noffers;
    uint16_t *sent; /* by piece of a group's first send: sends that have gone */
    uint32_t nsent;
    struct tt_xbox *box; /* the whole program is one exchange (box.c); NULL: it is not */
    struct tt_program *box_next;
    struct tt_carried carried; /* of the last run */

    /* state of the run */
    enum tt_xstate state;
    struct tt_context *context;
    uint32_t mode; /* 1: IN and OUT share memory */
    uint32_t seq, slot;
    uint64_t fingerprint;
    struct tt_program *chain; /* in the engine's table */
    struct tt_xtask *tasks;
    uint32_t *next; /* send queues */
    uint32_t *work; /* tasks that became ready: each enters at most once (run.c) */
    uint32_t work_head, work_tail;
    uint32_t tasks_left;
    uint32_t owed; /* pieces in state TT_XOWED */
    uint8_t *pieces;
    uint64_t idle_ns; /* the engine's, when this was started */
    char **base;
    const void **operands;
    const void **from;     /* reduce.c: held operands of a piece */
    void **to;             /* reduce.c: destinations of a piece */
    const void **box_from; /* box.c: by entry of holds */
    char *own;             /* scratch, landing, packing */
    size_t own_bytes;
    bool own_mapped;
};

struct tt_xplace { /* chunks [first, end) of a scratch buffer */
    uint32_t buf, first, end;
    uint64_t at; /* byte in own memory */
};

/* What compiling needs besides the program; it ends with tt_exec_program_make. */
struct tt_xcompile {
    const struct tt_program_config *config;
    const struct tt_shape *shape;
    struct tt_slice slice;
    struct tt_xlayout layout;
    struct tt_vec code;    /* uint64_t */
    struct tt_vec scratch; /* struct tt_xplace */
    uint32_t *last_writer; /* of OUT, by chunk: op, TT_XNO */
    uint64_t own_bytes;
    struct tt_program *p;
    struct tutti_error *err;
};
tutti_status tt_exec_compile_ops(struct tt_xcompile *x);
/* Counts the pieces of operation i and reserves memory for what cannot go straight to its place.
 * waits: it may have to wait for earlier operations. */
tutti_status tt_exec_compile_room(struct tt_xcompile *x, uint32_t i, bool waits);
/* The element at which part k of `segments` begins, in `elems` elements: whole cache lines when
 * there are enough of them. */
static inline uint64_t tt_xpart(const struct tt_program *p, uint64_t elems, uint32_t k)
{
    assert(k <= p->segments);
    if (k == 0 || k == p->segments)
        return k ? elems : 0;
    uint32_t shift = 6 - p->elem_shift; /* elements of a cache line */
    uint64_t n = elems >> shift, s = p->segments;
    if (n < s)
        shift = 0, n = elems;
    return (n / s * k + n % s * k / s) << shift;
}
/* Bytes of one segment of the operation. */
uint64_t tt_exec_op_bytes(const struct tt_program *p, const struct tt_xop *op, uint32_t segment);

/* ---- messages.c ---- */
/* Makes the links and lanes, and numbers the messages. */
tutti_status tt_exec_messages(struct tt_xcompile *x);
/* Adds up what each link carries; tasks: the initial ones of any mode. */
void tt_exec_messages_count(struct tt_program *p, const struct tt_xtask *tasks);
/* The lane of a peer and a channel; NULL: nothing comes there. */
const struct tt_xlane *tt_exec_lane_find(const struct tt_program *p, uint32_t peer,
                                         uint32_t channel);

/* ---- lower.c: after the tasks are known ---- */
tutti_status tt_exec_lower(struct tt_xcompile *x);
#endif
