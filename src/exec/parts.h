/* parts.h - what the files of exec/ share among themselves; nobody else includes it.
 *
 * Cold: layout.c (where chunks lie), compile.c (operations to memory), lower.c (patterns for shared memory),
 * program.c (the whole), print.c (its text).
 * Hot: engine.c (start, test), context.c (who belongs to a context, introductions), progress.c (events), send.c, receive.c, run.c (local operations and readiness), refs.c (pieces by
 * reference), window.c (memory for copies that peers read), reduce.c (reductions on peers' memory), box.c (exchanges of small vectors), row.c (rows of exchanges),
 * credit.c (who may send how much ahead), stash.c (what came too early), stats.c.
 *
 * Words: a task is one segment of one operation (number op * segments + segment); a piece is what one transport message carries of a task;
 * a fragment is a run of touching elements; a link is one peer as one program sees it. */
#ifndef TT_EXEC_PARTS_H
#define TT_EXEC_PARTS_H

#include <assert.h>

#include "exec/exec.h"

enum {
    TT_XPIECE = 128 << 10,              /* bytes of a piece at most: stays in a second-level cache from arrival to reduction */
    TT_XBLOCK = TT_XPIECE / TT_IOV_MAX, /* unit of stash memory and of credit: a piece is received in one accept */
    TT_XEVENTS = 32,
    TT_XSTAGES = 8,
    TT_XDEFERRED = 64,
    TT_XHOLD = 512 << 10, /* bytes of transport memory that wait for reductions: half of one ring */
    TT_XBUCKETS = 64      /* of the table of running programs */
};
static_assert((int)TT_XPIECE <= (int)TT_PIECE_MAX && TT_XPIECE % 64 == 0, "a piece is one transport message and holds whole elements");
#define TT_XNO UINT32_MAX

/* Control messages of the engine; `request` is the sender's latest started one. */
enum {
    TT_XCH_STARTED = TT_CH_CONTROL,      /* "I have started this and all earlier requests" */
    TT_XCH_MISMATCH = TT_CH_CONTROL + 1, /* "your fingerprint for `request` (payload) is not mine (tag)" */
    TT_XCH_TAKEN = TT_CH_CONTROL + 2,    /* "I have taken what you referred to" (the payload is a struct tt_xref) */
    TT_XCH_HELLO = TT_CH_CONTROL + 3,    /* "I have this context (payload: its key), for me its number is `request`" */
    TT_XCH_BYE = TT_CH_CONTROL + 4,      /* "I have closed this context" */
    /* of messages between two ranks (letter.c): */
    TT_XCH_LETTER = TT_CH_CONTROL + 5, /* its envelope, and all of it if it is short */
    TT_XCH_GO = TT_CH_CONTROL + 6,     /* "send the rest of letter `request`; for me its number is `message`" */
    TT_XCH_BODY = TT_CH_CONTROL + 7,   /* piece `message` of letter `request` */
    TT_XCH_CREDIT = TT_CH_CONTROL + 8  /* "`request` blocks of your short letters have been taken" */
};
/* In tags: a message that belongs to no context (HELLO, TAKEN of window slots). */
#define TT_XCOMM_NONE UINT16_MAX

/* What a piece's message holds, in the top bits of the message number: its bytes; a reference to them; nothing but what a reference says
 * besides, because they are written already. */
enum { TT_XFORM_BYTES, TT_XFORM_REF, TT_XFORM_WRITTEN, TT_XFORM_SHIFT = 30 };
#define TT_XMESSAGE ((1u << TT_XFORM_SHIFT) - 1)

enum tt_xkind { TT_XKIND_NONE, TT_XKIND_HEAP, TT_XKIND_WINDOW };
/* Travels; with its tag in one line of a ring. */
struct tt_xref {
    uint64_t at;     /* HEAP: an address of the sender; WINDOW: offset in its stream area */
    uint64_t cookie; /* HEAP: comes back when it was taken */
    uint64_t extra;  /* taken_kind NONE: where the receiver may write message `message` of the same segment, 0: nowhere; else the
                        cookie of what was taken */
    uint32_t message;
    uint8_t kind, slot; /* WINDOW: slot comes back when it was taken */
    uint8_t taken_kind; /* what the sender has taken of the receiver's; NONE: nothing; WINDOW: slots, bits of `extra` */
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
/* Of a send whose reduction may write for it, by segment. */
struct tt_xoffer {
    char *to; /* NULL: no place was offered */
    bool written;
    uint64_t debt; /* number + 1 of the operand's piece whose sender is told with this send; 0: none */
};

/* ---- layout.c: where chunks lie in the caller's buffers, in elements ---- */

#define TT_XNOWHERE UINT64_MAX
struct tt_xrun {     /* touching own chunks of a collective with parts */
    uint64_t whole;  /* where it begins in the whole vector */
    uint64_t packed; /* and in the own part */
};
struct tt_xlayout {
    uint32_t chunks;
    uint64_t *sum;      /* chunks + 1: elements of the chunks before */
    uint64_t *in, *out; /* TT_XNOWHERE, or place in IN / OUT; a part: counted from the beginning of its run */
    uint32_t *run;      /* run of an own chunk (parts) */
    struct tt_vec runs; /* struct tt_xrun; empty when the collective has no parts */
    uint64_t in_elems, out_elems;
    bool part_in, part_out; /* IN (OUT) is the own part */
    bool even;              /* all-to-all: blocks of one size, so that both sides of the transposition have one place */
};
tutti_status tt_xlayout_make(const struct tt_program_config *c, struct tt_xlayout *ret, struct tutti_error *err);
void tt_xlayout_free(struct tt_xlayout *l);
static inline uint64_t tt_xlayout_elems(const struct tt_xlayout *l, uint32_t chunk)
{
    return l->sum[chunk + 1] - l->sum[chunk];
}

/* ---- compile.c: operations to places in memory ---- */

/* A reference is a base (16 bits: 0 IN, 1 OUT, 2 own memory, 3 + r run r of the own part) and a byte offset. */
enum { TT_XBASE_IN, TT_XBASE_OUT, TT_XBASE_OWN, TT_XBASE_RUNS, TT_XBASE_MAX = 1 << 16 };
#define TT_XREF_OFFSET ((UINT64_C(1) << 48) - 1)
#define TT_XDIVIDE     (UINT64_C(1) << 63) /* in the first word of a fragment: the mean is formed here */

struct tt_xop {
    uint8_t kind; /* enum tt_op_kind */
    bool divides; /* some fragment does */
    uint16_t channel;
    uint32_t link, message;
    uint32_t npieces; /* of its longest segment */
    uint32_t nfrags;
    uint32_t width;   /* references of a fragment: destination (SEND: source), then sources */
    uint64_t code;    /* first word in tt_program.code; a fragment is 1 + width words: elements, references */
    uint64_t elems;   /* all fragments */
    uint64_t stride;  /* landing, packing: bytes from segment to segment */
    uint64_t land;    /* where in own memory a message waits that came too early (SEND: is put together); TT_XNOWHERE */
    uint64_t piece;   /* receives: first of its npieces * segments piece states */
    uint32_t succ[2]; /* by mode: first of the operations that wait for this one */
    uint32_t nsucc[2];
    /* lower.c; TT_XNO: none */
    uint32_t holds;   /* REDUCE: first of width - 1 entries of tt_program.holds */
    uint32_t held_by; /* RECV: the REDUCE that takes it where it lies */
    uint32_t answer;  /* RECV that is held: the send of the result to the same peer; SEND: the receive that its receiver may write */
    uint8_t borrows;  /* REDUCE: bit m: in mode m its operands may stay in the senders' own memory until it runs */
    uint32_t group;   /* SEND: the first send of the same place in the step; REDUCE: the first send of its result */
    uint32_t nsends;  /* first of a group: how many */
    uint32_t sent;    /* first of a group of several: first of its pieces' entries in tt_program.sent */
    uint32_t offer;   /* SEND: first of `segments` entries of tt_program.offers: its reduction may write for it */
    uint8_t offers;   /* RECV: bit m: in mode m its sender may write it once it has the send that answers it */
};
/* Piece states; TT_XSTAGED + s: being received into stage s. */
enum {
    TT_XMISSING,
    TT_XDIRECT,
    TT_XLANDING,
    TT_XLANDED,
    TT_XTAKEN,
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

/* One (peer, channel) messages come from: operations lane_ops[first .. first+n-1]. */
struct tt_xlane {
    uint32_t peer, channel;
    uint32_t link, first, n;
};

struct tt_xlink {
    uint32_t peer, place; /* peer: in the context; place: TT_NO_PLACE unless its memory can be reached */
    uint32_t in_pieces, out_pieces;
    uint64_t in_salt, out_salt; /* in fingerprints of messages to and from the peer: lengths that only the two know; 0: none */
    uint64_t in_bytes;
    uint64_t in_cost, out_cost; /* in blocks of credit */
    /* while running: */
    struct tt_program *program;
    struct tt_xpeer *pe;             /* the peer in the program's context */
    uint32_t in_left, out_left;      /* pieces to come; pieces the transport still has or has to get */
    uint32_t head, tail, piece;      /* ready send tasks (linked by tt_program.next), next piece of the first */
    struct tt_xlink *before, *after; /* among the engine's links that have something to send */
    bool waiting, heard;
    uint64_t due;   /* credit: what the peer has been allowed when it knows of this request */
    uint64_t spent; /* how far this request has come in the line of all bytes to the peer (credit.c) */
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
    uint32_t *work; /* tasks that became ready: each enters once */
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

/* What compiling needs besides the program. */
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
tutti_status tt_xcompile_ops(struct tt_xcompile *x);
/* Pieces of operation i, and memory for what cannot go straight to its place; waits: it may have to wait for earlier operations. */
tutti_status tt_xcompile_room(struct tt_xcompile *x, uint32_t i, bool waits);
/* The element at which part k of `segments` begins, in `elems` elements: whole cache lines when there are enough of them. */
static inline uint64_t tt_xpart(const struct tt_program *p, uint64_t elems, uint32_t k)
{
    if (k == 0 || k == p->segments)
        return k ? elems : 0;
    uint32_t shift = 6 - p->elem_shift; /* elements of a cache line */
    uint64_t n = elems >> shift, s = p->segments;
    if (n < s)
        shift = 0, n = elems;
    return (n / s * k + n % s * k / s) << shift;
}
uint64_t tt_xop_bytes(const struct tt_program *p, const struct tt_xop *op, uint32_t segment);

/* ---- messages.c ---- */
tutti_status tt_xmessages(struct tt_xcompile *x);                                                  /* numbers, links, lanes */
void tt_xmessages_count(struct tt_program *p, const struct tt_xtask *tasks);                       /* what each link carries */
const struct tt_xlane *tt_xlane_find(const struct tt_program *p, uint32_t peer, uint32_t channel); /* NULL: nothing comes there */

/* ---- lower.c: after the tasks are known ---- */
tutti_status tt_exec_lower(struct tt_xcompile *x);

/* ---- the engine ---- */

enum { TT_XUNITS = 64 }; /* a window area is given out in so many parts */
struct tt_xslot {
    const struct tt_program *program; /* whose copy it is; NULL: of one that has ended */
    uint32_t seq, group, piece;       /* request, first send of the group, segment and piece */
    uint32_t near;                    /* place of the only rank it is for; TT_XNO: several */
    uint32_t unsent, users;           /* references to send, references that were not taken yet; both 0: free */
    uint32_t unit, units;
};
/* Another rank of this host, by place. */
struct tt_xnear {
    uint32_t rank;               /* of the transport */
    uint32_t units;              /* of the window, in use for this one alone */
    uint64_t taken, taken_bytes; /* slots of its window that it has not been told about yet */
};

struct tt_xpromise { /* through request seq the peer's credit stands at `end` */
    uint32_t seq;
    uint64_t end;
};
/* Memory of the stash. A piece is a chain of blocks; the first one says what it is. */
struct tt_xblock {
    struct tt_xblock *next;  /* of the chain, or among free ones */
    struct tt_xblock *later; /* the next piece of the same peer */
    struct tt_tag tag;
    uint32_t bytes, stream;
    struct tt_xpeer *pe; /* of a letter: who sent it */
    bool filling;        /* TT_EV_RECEIVED has not come yet */
    _Alignas(64) char data[TT_XBLOCK];
};

/* Control messages that could not go yet. */
enum { TT_XDUE_HELLO = 1, TT_XDUE_STARTED = 2, TT_XDUE_CREDIT = 4, TT_XDUE_BYE = 8 };
/* One rank as one context sees it. Made when the first program needs it, or when something comes from it. */
struct tt_xpeer {
    struct tt_context *context;
    uint32_t rank, world; /* in the context, in the transport */
    uint16_t comm;        /* the context's number at the peer, once it has introduced itself */
    bool met, heard, closed, greeted;
    bool due_listed;   /* in the engine's list */
    uint8_t due_words; /* TT_XDUE_ */
    struct tt_xpeer *due_next;
    uint32_t latest; /* heard: the latest request this peer is known to have started */
    int error;
    /* what we may send it ahead: requests it is not known to have started, oldest first; a ring */
    struct tt_xpromise *promises;
    uint32_t promise_mask, promise_head, promise_tail;
    uint64_t out_cost, known;             /* credit of all requests started here; of those it is known to have started */
    uint64_t due, told;                   /* the same seen from the other side: of all started here, of those it has been told */
    struct tt_xblock *stash, *stash_last; /* what it has sent ahead */
    uint32_t blocks_used;
    uint32_t filling; /* accepted pieces that are not complete */
    /* letters: */
    struct tt_letter *mail, *mail_last; /* with something to send, in order */
    struct tt_xpeer *mail_next;         /* in the engine's list of those with mail */
    bool mail_listed;
    uint32_t letters_out, letters_in; /* blocks of short ones: sent and not said to be taken; taken and not said to be */
    struct tt_peer_stats stats;
};

struct tt_context {
    struct tt_engine *engine;
    uint64_t key;
    uint16_t comm; /* its number here: place in the engine's table, and generation */
    uint32_t n, rank;
    uint32_t *members;  /* NULL: context and transport number ranks alike */
    uint32_t *group_of; /* the reverse; TT_XNO: no member */
    struct tt_xpeer **peers;
    bool any, any_closed, closing; /* any: a request has been started, `seq` is the latest */
    uint32_t seq, nrunning, stashed;
    uint64_t fingerprint, moved, mailed;
    uint64_t still_moved, still_ns; /* `moved` when something waited for room or a reduction, since when it is the same; 0: not known */
    struct tt_letter *posted, *posted_last;   /* receives that nothing has come for */
    struct tt_xblock *letters, *letters_last; /* letters that nobody has asked for */
    struct tt_boxes *boxes;
    struct tt_program *box_first, **box_last;
    uint32_t box_missing;      /* the rank that a box waited for when last looked at */
    struct tt_context *boxing; /* the next one with programs in boxes */
};
/* A HELLO for a context that is not open here yet. */
struct tt_xhello {
    uint64_t key;
    uint32_t world;
    uint16_t comm;
};

struct tt_engine {
    struct tt_transport *transport;
    uint32_t size, max_requests, nrunning;
    uint64_t finished;        /* programs, well or not */
    uint32_t budget, quarter; /* eager credit per peer in blocks; untold credit that is worth a notice */
    uint32_t stash_blocks;
    bool failed;
    struct tt_context **contexts; /* by place, NULL where free */
    uint8_t *generations;
    uint32_t ncontexts, cursor_context;
    struct tt_vec hellos; /* struct tt_xhello */
    int *gone;            /* by rank of the transport: errno + 1 once it has ended */
    struct tt_program *buckets[TT_XBUCKETS];
    struct tt_program **slots;
    uint32_t *free_slots;
    struct tt_xlink *waiting, *waiting_last;
    struct tt_xpeer *due;             /* those that control messages are due to */
    struct tt_xpeer *mail;            /* those that letters have something to send to */
    struct tt_letter *letters;        /* all that are under way */
    struct tt_letter **by_id;         /* those that go in pieces */
    uint32_t nids, next_id, prepared; /* prepared: letters that there is room for */
    uint32_t ndeferred;
    struct tt_event deferred[TT_XDEFERRED], events[TT_XEVENTS];
    char *stages, *gather;
    uint8_t free_stage[TT_XSTAGES];
    uint32_t nfree_stages;
    struct tt_vec slabs;      /* of blocks */
    struct tt_xblock *blocks; /* free ones, nblocks */
    uint32_t nblocks;
    struct tt_xblock *orphans; /* being filled for nobody: for contexts that were closed */
    struct tt_direct *direct;  /* NULL: none */
    const uint32_t *places;
    struct tt_xnear *near;
    size_t ref_bytes, unit_bytes;
    uint64_t units;         /* of the window area, bit set: free */
    uint32_t shared_units;  /* in use by slots for several peers */
    uint64_t links_running; /* of all programs that run */
    uint32_t cursor;        /* where the next slot is looked for first */
    size_t turn;            /* bytes from the beginning that slots take in turn; 0: always the lowest */
    struct tt_xslot slots_out[TT_XUNITS];
    uint32_t owing;      /* programs with owed pieces */
    uint32_t held;       /* pieces that wait for reductions where they lie */
    uint64_t held_bytes; /* of transport memory */
    uint32_t ntaken;     /* local ranks that have not been told about all slots */
    struct tt_context *boxing;
    struct tt_engine_fault fault;
    struct tt_context *report; /* where the mismatch was that its peer has not been told of yet; NULL: none */
    uint64_t idle_since, idle_ns;
    uint32_t nlate;
    struct tt_peer_stats *late[TT_XEVENTS];
};

/* Sequence numbers wrap: a is later than b. */
static inline bool tt_xlater(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}
static inline uint32_t tt_xcost(uint64_t bytes)
{
    return bytes > TT_XBLOCK ? (uint32_t)((bytes + TT_XBLOCK - 1) / TT_XBLOCK) : 1;
}
struct tt_program *tt_xfind(const struct tt_context *x, uint32_t seq);              /* NULL: not running */
tutti_status tt_engine_failure(const struct tt_engine *e, struct tutti_error *err); /* in words */
void tt_xfault(struct tt_engine *e, const struct tt_engine_fault *f);               /* the first one counts; fails all programs */
void tt_xprotocol(struct tt_engine *e, const struct tt_xpeer *pe, uint32_t seq);
void tt_xmismatch(struct tt_engine *e, const struct tt_xpeer *pe, const struct tt_program *p, uint64_t theirs);
void tt_xmissing(struct tt_engine *e, const struct tt_program *p); /* a fault when a closed peer still had to give or to get something */
void tt_xleave(struct tt_engine *e, struct tt_program *p);         /* out of the table */
bool tt_xretry_deferred(struct tt_engine *e);                      /* true: some found room now (progress.c) */

/* ---- context.c ---- */
/* The context that this number means here, NULL: none (any more). */
struct tt_context *tt_context_find(const struct tt_engine *e, uint16_t comm);
static inline uint32_t tt_context_world(const struct tt_context *x, uint32_t rank)
{
    return x->members ? x->members[rank] : rank;
}
/* The member; made if need be. NULL: not a member, or no memory. */
struct tt_xpeer *tt_context_peer(struct tt_context *x, uint32_t rank);
struct tt_xpeer *tt_context_sender(struct tt_context *x, uint32_t world);
void tt_context_heard(struct tt_engine *e, const struct tt_event *ev); /* HELLO or BYE */
void tt_context_end(struct tt_xpeer *pe, int error);                   /* nothing will come from it any more */
void tt_context_gone(struct tt_engine *e, uint32_t world, int error);  /* the same in all contexts */
void tt_context_owe(struct tt_xpeer *pe, uint8_t word);                /* sends it now, or as soon as possible */
bool tt_context_pay(struct tt_engine *e);                              /* tries what is due; true: something went */
void tt_context_free_all(struct tt_engine *e);

/* ---- run.c: readiness, and the bytes of operations ---- */

/* Walks over the elements of a piece (or of a whole segment) fragment by fragment. */
struct tt_xwalk {
    const struct tt_program *p;
    const uint64_t *word; /* of the next fragment */
    uint32_t width, segment;
    uint64_t skip, want; /* elements */
};
struct tt_xfrag {
    const uint64_t *ref;
    uint64_t from; /* bytes after the references */
    uint64_t elems;
    bool divide;
};
static inline struct tt_xwalk tt_xwalk_piece(const struct tt_program *p, const struct tt_xop *op, uint32_t segment, uint32_t piece)
{
    uint64_t bytes = p->segments == 1 ? op->elems << p->elem_shift : tt_xop_bytes(p, op, segment), at = (uint64_t)piece * TT_XPIECE;
    assert(at <= bytes);
    uint64_t n = bytes - at < TT_XPIECE ? bytes - at : TT_XPIECE;
    return (struct tt_xwalk){.p = p,
                             .word = p->code + op->code,
                             .width = op->width,
                             .segment = segment,
                             .skip = at >> p->elem_shift,
                             .want = n >> p->elem_shift};
}
/* Invariant: `skip` elements of the piece's segment, counted from the next fragment, lie before the piece. */
static inline bool tt_xwalk_next(struct tt_xwalk *w, struct tt_xfrag *ret)
{
    const struct tt_program *p = w->p;
    while (w->want) {
        uint64_t all = w->word[0] & ~TT_XDIVIDE, a = 0, n = all;
        if (p->segments > 1) {
            a = tt_xpart(p, all, w->segment);
            n = tt_xpart(p, all, w->segment + 1) - a;
        }
        const uint64_t *word = w->word;
        w->word += 1 + w->width;
        if (w->skip >= n) {
            w->skip -= n;
            continue;
        }
        n = n - w->skip < w->want ? n - w->skip : w->want;
        ret->ref = word + 1;
        ret->from = (a + w->skip) << p->elem_shift;
        ret->elems = n;
        ret->divide = (word[0] & TT_XDIVIDE) != 0;
        w->skip = 0;
        w->want -= n;
        return true;
    }
    return false;
}
static inline uint64_t tt_xwalk_bytes(const struct tt_xwalk *w)
{
    return w->want * w->p->elem_bytes;
}
static inline char *tt_xat(const struct tt_program *p, const struct tt_xfrag *f, uint32_t i)
{
    return p->base[f->ref[i] >> 48] + (f->ref[i] & TT_XREF_OFFSET) + f->from;
}
static inline uint32_t tt_xtask_op(const struct tt_program *p, uint32_t task)
{
    return p->segments == 1 ? task : task / p->segments;
}
/* The task is done: those who waited for it may have become ready. */
void tt_xfinish(struct tt_program *p, uint32_t task);
/* Does everything that has become ready; leaves the table when the program is done. */
void tt_xwork(struct tt_engine *e, struct tt_program *p);
/* COPY and REDUCE of own places (in a box program: of held ones too). */
void tt_exec_local(struct tt_program *p, uint32_t op, uint32_t segment);
/* Uses the bytes of a piece for its operation, which is ready. */
void tt_xconsume(struct tt_program *p, const struct tt_xop *op, const struct tt_xwalk *piece, const void *data);

/* ---- refs.c: pieces by reference ---- */
/* How the piece at iov goes by reference; a window's bytes are copied then. TUTTI_ERR_REFUSED: as bytes; TUTTI_IN_PROGRESS: not now. */
tutti_status tt_exec_refer(struct tt_engine *e, const struct tt_xlink *l, uint32_t task, const struct iovec *iov, struct tt_xref *ret);
/* The piece has been sent, in whatever form; ref: the reference, NULL when it was none. */
void tt_exec_referred(struct tt_engine *e, const struct tt_xlink *l, uint32_t task, const struct tt_xref *ref);
/* What the peer's reference means here; false: it makes no sense. */
bool tt_exec_resolve(const struct tt_engine *e, struct tt_xpeer *pe, const struct tt_event *ev, uint64_t bytes, struct tt_xkept *ret);
/* Uses a kept piece for its operation; then its sender is told. False: a peer has failed meanwhile. */
bool tt_exec_use(struct tt_engine *e, struct tt_program *p, const struct tt_xop *op, const struct tt_xwalk *w, const struct tt_xkept *k);
/* Gives the piece back: release, or TAKEN, at once or (state TT_XOWED) later. */
void tt_exec_give_back(struct tt_engine *e, struct tt_program *p, uint64_t piece);
void tt_exec_taken(struct tt_engine *e, struct tt_xpeer *pe, uint32_t seq, const struct tt_xref *ref); /* the peer says so */
void tt_exec_taken_slots(struct tt_engine *e, uint32_t world, uint64_t slots);
/* What a piece to peer says besides, if ref says nothing yet: the operand that is given back with it, or slots. Then: it has been sent. */
void tt_exec_settle(const struct tt_engine *e, const struct tt_xlink *l, uint32_t task, struct tt_xref *ref);
void tt_exec_settled(struct tt_engine *e, const struct tt_xlink *l, uint32_t task, const struct tt_xref *ref);
void tt_exec_tell_slots(struct tt_engine *e);           /* there is time for it */
bool tt_exec_pay(struct tt_engine *e);                  /* tells what could not be told; true: something went */
bool tt_exec_let_go(struct tt_engine *e);               /* if nothing moves any more, copies what is held; true: it did */
void tt_exec_lost(struct tt_engine *e, uint32_t world); /* a peer has aborted; UINT32_MAX: it is not known which */

/* ---- window.c: copies for peers to read ---- */
void tt_exec_window_make(struct tt_engine *e);
/* The slot of (seq, group, piece); a new one of `bytes` for nsends references, to be filled. NULL: there is none, no room. */
struct tt_xslot *tt_exec_window_find(struct tt_engine *e, const struct tt_xslot *key);
struct tt_xslot *tt_exec_window_take(struct tt_engine *e, const struct tt_xslot *key, uint64_t bytes, uint32_t nsends);
char *tt_exec_window_at(const struct tt_engine *e, const struct tt_xslot *s);
void tt_exec_window_sent(struct tt_engine *e, struct tt_xslot *s, bool referred); /* one of its sends has gone */
bool tt_exec_window_taken(struct tt_engine *e, uint32_t slot);                    /* false: nobody had it */
/* Do all pieces of a message, each of at most `bytes`, have room in a peer's window at once? */
bool tt_exec_window_holds(const struct tt_engine *e, uint32_t npieces, uint64_t bytes);

/* ---- reduce.c: reductions that take operands from, and write results to, peers' memory ---- */
void tt_exec_reduce(struct tt_engine *e, struct tt_program *p, uint32_t task);
void tt_exec_offers_clear(struct tt_program *p); /* at start */
/* The place that the receiver of this send may write, for ref->extra. */
void tt_exec_offer(const struct tt_engine *e, const struct tt_program *p, const struct tt_xop *send, uint32_t segment, struct tt_xref *ref);
void tt_exec_offered(const struct tt_engine *e, struct tt_program *p, const struct tt_xop *recv, uint32_t segment,
                     const struct tt_xkept *k); /* it came with a held operand */

/* ---- box.c: a program that is one exchange of short vectors among all ranks of a host ---- */
struct tt_xboxed {           /* a received fragment: of operation `op`, at `from` of the peer's box */
    uint32_t rank, op, hold; /* rank: the peer; hold: the entry of tt_program.holds that takes it where it lies; TT_XNO: it is copied */
    uint64_t from, bytes;
    uint64_t ref; /* destination */
};
struct tt_xbox {
    struct tt_xrow *row; /* the program is a row of exchanges, and only this counts; NULL: it is one exchange */
    size_t bytes;        /* in the box */
    size_t mine;         /* of them this rank's own */
    uint32_t base;       /* where its input is: TT_XBASE_ */
    uint32_t n;
    struct tt_xboxed *taken;
    char *padded; /* when the own part is shorter than the box */
};
tutti_status tt_exec_box_make(struct tt_xcompile *x);
void tt_exec_box_free(struct tt_xbox *b);
void tt_exec_box_start(struct tt_engine *e, struct tt_program *p);
bool tt_exec_box_progress(struct tt_engine *e); /* true: something was finished */
bool tt_exec_box_ready(void *engine);           /* is there something to do? */

/* ---- row.c: a program that is a row of exchanges ---- */
struct tt_xrowop {
    uint32_t exchange; /* the operation belongs to it, or follows it */
    uint32_t filled;   /* SEND: the reduction that puts its result into the box; REDUCE: the send it does that for; TT_XNO */
    uint32_t hold;     /* RECV: the entry of tt_program.holds that takes it where it lies; TT_XNO: it is copied */
    uint64_t at;       /* where in the sender's box */
    bool copies[2];    /* SEND, by mode: its place is written in the same exchange, so that peers must not read it there */
    /* of the run: */
    bool heap;    /* SEND: peers read it in this rank's heap */
    bool written; /* RECV: its sender has put it into its place; SEND: this rank does that */
    char *peer;   /* RECV: where it lies in its sender's heap, NULL: in the box, at `at`; SEND: where the receiver's heap wants it */
};
struct tt_xrow {
    uint32_t nexchanges, nranks;
    uint32_t *first; /* nexchanges + 1: operations of each */
    size_t head;     /* bytes of a box before the places */
    size_t bytes;    /* of a box */
    struct tt_xrowop *ops;
    bool writes; /* every send behind the first exchange may be written by its reduction */
    /* of the run: */
    uint32_t round, segment; /* segment: the next of a round of all segments */
    bool whole;              /* nothing goes through boxes: an exchange is one round of all segments */
    bool last;               /* one more meeting: peers read heaps in the last exchange */
};
/* Makes p->box if the program is a row that boxes have room for. */
tutti_status tt_exec_row_make(struct tt_xcompile *x);
void tt_exec_row_free(struct tt_xrow *r);
void tt_exec_row_put(struct tt_engine *e, struct tt_program *p);
/* Everybody has put: does the work of the round, or a part of it; true: the program is done. Then, or after a fault, nothing was put. */
bool tt_exec_row_take(struct tt_engine *e, struct tt_program *p, const void *const *all);

/* ---- send.c ---- */
void tt_xsend(struct tt_engine *e, struct tt_program *p, uint32_t task); /* a send task is ready */
bool tt_xsend_waiting(struct tt_engine *e);                              /* tries what could not be sent before; true: something went */
void tt_xsent(struct tt_engine *e, const struct tt_event *ev);
tutti_status tt_xsend_control(struct tt_xpeer *pe, const struct tt_tag *tag, const void *payload, size_t bytes);

/* ---- receive.c ---- */
/* An event of a running or future program; false: no room, keep the event and try again. */
bool tt_xreceive(struct tt_xpeer *pe, const struct tt_event *ev);
void tt_xreceived(struct tt_xpeer *pe, const struct tt_event *ev); /* an accepted payload is complete */
/* A payload that is not (any more) in transport memory. */
void tt_xreceive_bytes(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev);
/* A receive became ready: uses what has landed; true when that was all of it. */
bool tt_xreceive_landed(struct tt_engine *e, struct tt_program *p, uint32_t task);

/* ---- credit.c ---- */
void tt_xhear(struct tt_xpeer *pe, uint32_t seq); /* the peer has started seq */
/* Room for one more promise to every peer of the program; false: no memory. */
bool tt_xcredit_prepare(const struct tt_context *x, const struct tt_program *p);
void tt_xcredit_start(struct tt_program *p);
void tt_xcredit_tell(const struct tt_engine *e, const struct tt_program *p); /* notices to those who have not been told otherwise */
bool tt_xcredit_allows(const struct tt_engine *e, const struct tt_xlink *l, uint32_t cost);
void tt_xcredit_spend(struct tt_xlink *l, uint32_t cost); /* a piece has gone */

/* ---- stash.c ---- */
bool tt_xstash_grow(struct tt_engine *e); /* more blocks; false: no memory */
void tt_xstash_free(struct tt_engine *e);
bool tt_xstash_data(struct tt_xpeer *pe, const struct tt_event *ev);   /* false: full */
bool tt_xstash_accept(struct tt_xpeer *pe, const struct tt_event *ev); /* false: full */
void tt_xstash_received(struct tt_xpeer *pe, const struct tt_event *ev);
void tt_xstash_take(struct tt_program *p); /* hands over what came for p before it was started */
void tt_xstash_drop(struct tt_xpeer *pe);  /* nobody will ask for what it sent */
/* The same for what comes now, of no context; false: no memory, try again. Then: it is complete; the rank has ended. */
bool tt_xstash_discard(struct tt_engine *e, const struct tt_event *ev);
void tt_xstash_discarded(struct tt_engine *e, const struct tt_event *ev);
void tt_xstash_bereave(struct tt_engine *e, uint32_t world);

struct tt_xblock *tt_xstash_keep(struct tt_engine *e, const struct tt_event *ev); /* a copy of it; NULL: no memory */
void tt_xstash_copy(struct tt_xblock *b, char *to);
void tt_xstash_give(struct tt_engine *e, struct tt_xblock *b);

/* ---- letter.c ---- */
bool tt_letter_arrived(struct tt_xpeer *pe, const struct tt_event *ev); /* false: no room, keep the event and try again */
void tt_letter_received(struct tt_xpeer *pe, const struct tt_event *ev);
void tt_letter_sent(struct tt_engine *e, uint32_t id);
bool tt_letter_deliver(struct tt_engine *e);        /* tries what could not be sent; true: something went */
void tt_letter_forsaken(const struct tt_xpeer *pe); /* the peer has ended: a fault if a letter needs it */
void tt_letter_fail_all(struct tt_engine *e);
void tt_letter_drop(struct tt_context *x); /* the context is closed */
#define TT_XCOOKIE_LETTER (UINT64_C(1) << 63)

/* ---- stats.c ---- */
void tt_xstats_arrived(struct tt_engine *e, struct tt_xlink *l, uint32_t bytes);
void tt_xstats_looked(struct tt_engine *e, size_t nevents); /* after a look at the transport */
void tt_xstats_start(struct tt_engine *e, struct tt_program *p);
void tt_xstats_boxed(struct tt_context *x); /* a box is complete that waited for box_missing */

/* ---- memory that is touched only where it is used (program.c) ---- */
void *tt_xmap(size_t bytes); /* zeroed; NULL when there is none */
void tt_xunmap(void *p, size_t bytes);
#endif
