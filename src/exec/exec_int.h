/* exec_int.h - what the files of exec/ share; no other module includes it.
 *
 * Made once per program: layout.c (where chunks lie), compile.c (operations to memory), messages.c
 * (peers, numbers), lower.c (patterns for shared memory), program.c (the whole), print.c (its
 * text).
 *
 * Used while programs run: engine.c (start, test), context.c (members, introductions), progress.c
 * (events), send.c, receive.c, run.c (local operations and readiness), refs.c (pieces by
 * reference), window.c (memory for copies that peers read), reduce.c (reductions on peers' memory),
 * box.c (exchanges of small vectors), row.c (rows of exchanges), credit.c (how much may be sent
 * ahead), stash.c (what came too early), letter.c (messages by tag), stats.c.
 *
 * program_int.h has the terms and the compiled program. */
#ifndef TT_EXEC_INT_H
#define TT_EXEC_INT_H

#include <assert.h>

#include "exec/program_int.h"

/* ---- the engine ---- */

enum { TT_XUNITS = 64 }; /* units of a window area, one bit each in tt_engine.units */
/* A copy in this rank's window, made of touching units (window.c). */
struct tt_xslot {
    const struct tt_program *program; /* the program whose piece it is; only compared */
    uint32_t seq, group, piece;       /* request, first send of the group, segment and piece */
    uint32_t near;                    /* place of the only rank it is for; TT_XNO: several */
    /* references still to be sent; references sent and not yet taken; both 0: free */
    uint32_t unsent, users;
    uint32_t unit, units;
};
/* Another rank of this host, by place. */
struct tt_xnear {
    uint32_t rank;               /* of the transport */
    uint32_t units;              /* units of our window with copies for this rank only */
    uint64_t taken, taken_bytes; /* slots of its window that were taken here, not yet reported */
};

struct tt_xpromise { /* `end`: where request seq ends in the line of bytes (credit.c) */
    uint32_t seq;
    uint64_t end;
};
/* Memory of the stash. A piece is a chain of blocks; the first one says what it is. */
struct tt_xblock {
    struct tt_xblock *next;  /* of the chain, or among free ones */
    struct tt_xblock *later; /* the next piece of the same list */
    struct tt_tag tag;
    uint32_t bytes, stream;
    struct tt_xpeer *pe; /* of a letter: its sender */
    bool filling;        /* accepted; TT_EV_RECEIVED has not come yet */
    _Alignas(64) char data[TT_XBLOCK];
};

/* Control messages that are due, as bits in the order in which they are sent. */
enum { TT_XDUE_HELLO = 1, TT_XDUE_STARTED = 2, TT_XDUE_CREDIT = 4, TT_XDUE_BYE = 8 };
/* One rank as one context sees it. Made when the first program needs it, or when something comes
 * from it. */
struct tt_xpeer {
    struct tt_context *context;
    uint32_t rank, world; /* in the context, in the transport */
    uint16_t comm;        /* the context's number at the peer, once it has introduced itself */
    /* met: its HELLO has come; greeted: ours has gone; heard: `latest` is valid; closed: nothing
     * more comes from it */
    bool met, heard, closed, greeted;
    bool due_listed;   /* in the engine's list */
    uint8_t due_words; /* TT_XDUE_ */
    struct tt_xpeer *due_next;
    uint32_t latest; /* heard: the latest request this peer is known to have started */
    int error;
    /* requests that it is not known to have started, oldest first (credit.c); a ring */
    struct tt_xpromise *promises;
    uint32_t promise_mask, promise_head, promise_tail;
    /* credit of all requests started here; of those it is known to have started */
    uint64_t out_cost, known;
    /* the same for the other direction: credit given to it by all requests started here; of that,
     * what it has been told */
    uint64_t due, told;
    struct tt_xblock *stash, *stash_last; /* what it has sent ahead */
    uint32_t blocks_used;
    uint32_t filling; /* accepted pieces that are not complete */
    /* letters: */
    struct tt_letter *mail, *mail_last; /* with something to send, in order */
    struct tt_xpeer *mail_next;         /* in the engine's list of those with mail */
    bool mail_listed;
    /* blocks of short letters: sent and not yet reported as taken; taken and not yet reported */
    uint32_t letters_out, letters_in;
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
    /* is_stalled (refs.c): the value of `moved` when last compared, and since when it is the same;
     * 0: not known */
    uint64_t still_moved, still_ns;
    struct tt_letter *posted, *posted_last;   /* receives that nothing has come for */
    struct tt_xblock *letters, *letters_last; /* letters that no receive has asked for */
    struct tt_boxes *boxes;
    struct tt_program *box_first, **box_last;
    uint32_t box_missing;      /* the rank that the boxes waited for at the last check */
    struct tt_context *boxing; /* the next one with programs in boxes */
};
/* A HELLO for a context that is not open here yet. */
struct tt_xhello {
    uint64_t key;
    uint32_t world;
    uint16_t comm;
};

/* What every look touches comes first, and the arrays last: on shared cores a look finds its lines
 * in no near cache. */
struct tt_engine {
    struct tt_transport *transport;
    uint32_t size, max_requests, nrunning;
    uint32_t nboxed;  /* of these, programs in boxes */
    uint32_t glances; /* looks while there was nothing else (progress.c) */
    bool every;       /* tt_exec_engine_poll_always */
    bool failed;
    struct tt_context *boxing;
    uint64_t idle_since, idle_ns;
    uint64_t finished; /* programs and letters that have ended, done or failed */
    struct tt_program **slots;
    uint32_t *free_slots;
    struct tt_letter *letters; /* all that are under way */
    struct tt_xlink *waiting, *waiting_last;
    struct tt_xpeer *due;  /* peers that control messages are due to */
    struct tt_xpeer *mail; /* peers with letters to send */
    /* the context of a mismatch that its peer has not been told of yet; NULL: none */
    struct tt_context *report;
    uint32_t ndeferred, nlate;
    uint32_t owing;           /* programs with owed pieces */
    uint32_t held;            /* pieces that wait for reductions where they lie */
    uint32_t ntaken;          /* local ranks to which taken slots have not been reported */
    uint32_t shared_units;    /* in use by slots for several peers */
    uint64_t links_running;   /* of all programs that run */
    struct tt_record *record; /* NULL: nothing is noted */
    int *gone;                /* by rank of the transport: errno + 1 once it has ended */
    struct tt_direct *direct; /* NULL: none */
    struct tt_program *buckets[TT_XBUCKETS];

    /* eager credit per peer, in blocks; credit that a peer does not know of and that is worth a
     * notice */
    uint32_t budget, quarter;
    uint32_t stash_blocks;
    struct tt_context **contexts; /* by place, NULL where free */
    uint8_t *generations;
    uint32_t ncontexts, cursor_context;
    struct tt_vec hellos;             /* struct tt_xhello */
    struct tt_letter **by_id;         /* those that go in pieces, by id (letter.c) */
    uint32_t nids, next_id, prepared; /* prepared: letters that there is room for */
    char *stages, *gather;
    uint8_t free_stage[TT_XSTAGES];
    uint32_t nfree_stages;
    struct tt_vec slabs;      /* of blocks */
    struct tt_xblock *blocks; /* free ones, nblocks */
    uint32_t nblocks;
    struct tt_xblock *orphans; /* still being filled, for contexts that were closed */
    const uint32_t *places;
    struct tt_xnear *near;
    size_t ref_bytes, unit_bytes;
    uint64_t units;  /* of the window area, bit set: free */
    uint32_t cursor; /* the unit at which the search for a slot begins */
    /* bytes at the beginning of the window whose units are used in turn; 0: always the lowest */
    size_t turn;
    uint64_t held_bytes; /* of held pieces, bytes in transport memory */
    struct tt_exec_engine_fault fault;
    struct tt_peer_stats *late[TT_XEVENTS];
    struct tt_xslot slots_out[TT_XUNITS];
    struct tt_event deferred[TT_XDEFERRED], events[TT_XEVENTS];
};

/* Is a later than b? Sequence numbers wrap, so their difference decides. */
static inline bool tt_xlater(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) > 0;
}
/* Blocks of stash memory, hence of credit, that a piece costs; an empty one costs 1 too. */
static inline uint32_t tt_xcost(uint64_t bytes)
{
    return bytes > TT_XBLOCK ? (uint32_t)((bytes + TT_XBLOCK - 1) / TT_XBLOCK) : 1;
}
/* The running program with this number; NULL: it is not running. */
struct tt_program *tt_exec_find(const struct tt_context *x, uint32_t seq);
/* The engine's fault as a status and a text. */
tutti_status tt_exec_engine_failure(const struct tt_engine *e, struct tutti_error *err);
/* Fails all programs and letters; only the first fault counts. */
void tt_exec_fault(struct tt_engine *e, const struct tt_exec_engine_fault *f);
void tt_exec_protocol(struct tt_engine *e, const struct tt_xpeer *pe, uint32_t seq);
void tt_exec_mismatch(struct tt_engine *e, const struct tt_xpeer *pe, const struct tt_program *p,
                      uint64_t theirs);
/* A fault if the program still needs pieces from, or has pieces for, a closed peer. */
void tt_exec_missing(struct tt_engine *e, const struct tt_program *p);
void tt_exec_leave(struct tt_engine *e, struct tt_program *p); /* takes it out of the table */
/* Tries deferred events again; true: some found room (progress.c). */
bool tt_exec_retry_deferred(struct tt_engine *e);

/* ---- context.c ---- */
/* The open context with this number here; NULL: there is none, or it has been closed. */
struct tt_context *tt_exec_context_find(const struct tt_engine *e, uint16_t comm);
static inline uint32_t tt_context_world(const struct tt_context *x, uint32_t rank)
{
    assert(rank < x->n);
    return x->members ? x->members[rank] : rank;
}
/* The member by its rank in the context, or in the transport; made if needed. NULL: not a member,
 * or no memory. */
struct tt_xpeer *tt_exec_context_peer(struct tt_context *x, uint32_t rank);
struct tt_xpeer *tt_exec_context_sender(struct tt_context *x, uint32_t world);
void tt_exec_context_heard(struct tt_engine *e, const struct tt_event *ev); /* HELLO or BYE */
/* Nothing more will come from this peer in its context. */
void tt_exec_context_end(struct tt_xpeer *pe, int error);
/* The same in all contexts: the rank of the transport has ended. */
void tt_exec_context_gone(struct tt_engine *e, uint32_t world, int error);
/* Sends a control message (TT_XDUE_) now, or as soon as possible. */
void tt_exec_context_owe(struct tt_xpeer *pe, uint8_t word);
/* Tries control messages that are due; true: something went. */
bool tt_exec_context_pay(struct tt_engine *e);
void tt_exec_context_free_all(struct tt_engine *e);

/* ---- run.c: readiness, and the bytes of operations ---- */

/* Walks over the elements of a piece, or of a whole segment, fragment by fragment. */
struct tt_xwalk {
    const struct tt_program *p;
    const uint64_t *word; /* of the next fragment */
    uint32_t width, segment;
    uint64_t skip, want; /* elements */
};
/* A part of a fragment: what tt_xat turns into addresses. */
struct tt_xfrag {
    const uint64_t *ref; /* by buffer involved, as in tt_program.code */
    uint64_t from;       /* bytes after the references */
    uint64_t elems;
    bool divide;
};
/* All of the fragment at word, for programs of one segment. */
static inline struct tt_xfrag tt_xfrag_whole(const uint64_t *word)
{
    return (struct tt_xfrag){.ref = word + 1,
                             .elems = word[0] & ~TT_XDIVIDE,
                             .divide = (word[0] & TT_XDIVIDE) != 0};
}
static inline struct tt_xwalk tt_xwalk_piece(const struct tt_program *p, const struct tt_xop *op,
                                             uint32_t segment, uint32_t piece)
{
    uint64_t bytes =
                 p->segments == 1 ? op->elems << p->elem_shift : tt_exec_op_bytes(p, op, segment),
             at = (uint64_t)piece * TT_XPIECE;
    assert(at <= bytes);
    uint64_t n = bytes - at < TT_XPIECE ? bytes - at : TT_XPIECE;
    return (struct tt_xwalk){.p = p,
                             .word = p->code + op->code,
                             .width = op->width,
                             .segment = segment,
                             .skip = at >> p->elem_shift,
                             .want = n >> p->elem_shift};
}
/* The next part of the piece; false: it is complete. Invariant: `skip` elements of the segment,
 * counted from the next fragment on, lie before the piece. */
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
/* Bytes that are left to walk over. */
static inline uint64_t tt_xwalk_bytes(const struct tt_xwalk *w)
{
    return w->want * w->p->elem_bytes;
}
/* The address of reference i (0: the destination, or what is sent), once the bases are known. */
static inline char *tt_xat(const struct tt_program *p, const struct tt_xfrag *f, uint32_t i)
{
    return p->base[f->ref[i] >> 48] + (f->ref[i] & TT_XREF_OFFSET) + f->from;
}
static inline uint32_t tt_xtask_op(const struct tt_program *p, uint32_t task)
{
    return p->segments == 1 ? task : task / p->segments;
}
/* The task is done: puts the tasks that have become ready by that in the work list. */
void tt_exec_finish(struct tt_program *p, uint32_t task);
/* Runs everything that has become ready; takes the program out of the table when it is done. */
void tt_exec_work(struct tt_engine *e, struct tt_program *p);
/* Runs a segment of a COPY or REDUCE of own places (in a box program, of held operands too). */
void tt_exec_local(struct tt_program *p, uint32_t op, uint32_t segment);
/* Uses the bytes of a piece for its operation, which is ready. */
void tt_exec_consume(struct tt_program *p, const struct tt_xop *op, const struct tt_xwalk *piece,
                     const void *data);

/* ---- refs.c: pieces by reference ---- */
/* Makes a reference to the piece at iov, copying it to the window if it is not in the heap.
 * TUTTI_ERR_REFUSED: it must go as bytes; TUTTI_IN_PROGRESS: there is no room now. */
tutti_status tt_exec_refer(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                           const struct iovec *iov, struct tt_xref *ret);
/* The piece has been sent, in whatever form; ref: the reference, NULL when it was none. */
void tt_exec_referred(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                      const struct tt_xref *ref);
/* Turns the peer's reference into an address of this rank; false: it is not valid. */
bool tt_exec_resolve(const struct tt_engine *e, struct tt_xpeer *pe, const struct tt_event *ev,
                     uint64_t bytes, struct tt_xkept *ret);
/* Uses a kept piece for its operation; then its sender is told. False: a peer has failed
 * meanwhile. */
bool tt_exec_use(struct tt_engine *e, struct tt_program *p, const struct tt_xop *op,
                 const struct tt_xwalk *w, const struct tt_xkept *k);
/* Gives a used piece back to its sender: releases the frame or sends TAKEN, at once or (state
 * TT_XOWED) later. */
void tt_exec_give_back(struct tt_engine *e, struct tt_program *p, uint64_t piece);
/* TAKEN came from the peer, alone or with a piece; slots: bits of window slots. */
void tt_exec_taken(struct tt_engine *e, struct tt_xpeer *pe, uint32_t seq,
                   const struct tt_xref *ref);
void tt_exec_taken_slots(struct tt_engine *e, uint32_t world, uint64_t slots);
/* Adds the operand that is given back with the piece, or the taken slots, to its reference, if
 * `extra` is still empty. tt_exec_settled: the piece has been sent. */
void tt_exec_settle(const struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                    struct tt_xref *ref);
void tt_exec_settled(struct tt_engine *e, const struct tt_xlink *l, uint32_t task,
                     const struct tt_xref *ref);
void tt_exec_tell_slots(struct tt_engine *e); /* reports all taken slots; called when idle */
/* Sends TAKEN for owed pieces; true: something went. */
bool tt_exec_pay(struct tt_engine *e);
/* If nothing moves any more, copies what is held and gives it back; true: it did. */
bool tt_exec_let_go(struct tt_engine *e);
/* A fault: a peer has aborted; UINT32_MAX: it is not known which. */
void tt_exec_lost(struct tt_engine *e, uint32_t world);

/* ---- window.c: copies for peers to read ---- */
void tt_exec_window_make(struct tt_engine *e);
/* find: the slot of (program, seq, group, piece); NULL: there is none. take: a new slot of `bytes`
 * for nsends references, which the caller fills; NULL: no room. */
struct tt_xslot *tt_exec_window_find(struct tt_engine *e, const struct tt_xslot *key);
struct tt_xslot *tt_exec_window_take(struct tt_engine *e, const struct tt_xslot *key,
                                     uint64_t bytes, uint32_t nsends);
char *tt_exec_window_at(const struct tt_engine *e, const struct tt_xslot *s);
/* One of the slot's sends has gone; referred: as a reference to it, which will be taken. */
void tt_exec_window_sent(struct tt_engine *e, struct tt_xslot *s, bool referred);
/* A peer has taken the slot; false: no reference to it is out. */
bool tt_exec_window_taken(struct tt_engine *e, uint32_t slot);
/* Do all pieces of a message, each of at most `bytes`, have room in a peer's window at once? */
bool tt_exec_window_holds(const struct tt_engine *e, uint32_t npieces, uint64_t bytes);

/* ---- reduce.c: reductions that take operands from, and write results to, peers' memory ---- */
void tt_exec_reduce(struct tt_engine *e, struct tt_program *p, uint32_t task);
void tt_exec_offers_clear(struct tt_program *p); /* called at every start */
/* offer: puts the place that the receiver of this send may write into ref->extra. offered: notes
 * the place that came with a held operand. */
void tt_exec_offer(const struct tt_engine *e, const struct tt_program *p, const struct tt_xop *send,
                   uint32_t segment, struct tt_xref *ref);
void tt_exec_offered(const struct tt_engine *e, struct tt_program *p, const struct tt_xop *recv,
                     uint32_t segment, const struct tt_xkept *k);

/* ---- box.c: a program that is one exchange of short vectors among all ranks of a host ---- */
/* What operation `op` takes from the peer's box: `bytes` at `from`. */
struct tt_xboxed {
    /* rank: the peer; hold: the entry of tt_program.holds that takes it where it lies; TT_XNO: it
     * is copied */
    uint32_t rank, op, hold;
    uint64_t from, bytes;
    uint64_t ref; /* destination */
};
struct tt_xbox {
    /* the program is a row of exchanges, and only this counts; NULL: it is one exchange */
    struct tt_xrow *row;
    size_t bytes;    /* of every rank's box */
    size_t mine;     /* of them filled by this rank's input */
    uint32_t base;   /* where its input is: TT_XBASE_ */
    uint32_t locals; /* the first local operation */
    uint32_t n;
    struct tt_xboxed *taken;
    size_t unsent, resumed; /* input bytes [unsent, resumed) are not put: no rank needs them */
};
tutti_status tt_exec_box_make(struct tt_xcompile *x);
void tt_exec_box_free(struct tt_xbox *b);
void tt_exec_box_start(struct tt_engine *e, struct tt_program *p);
bool tt_exec_box_progress(struct tt_engine *e); /* true: something was finished */
bool tt_exec_box_ready(void *engine);           /* is there something to do? */

/* ---- row.c: a program that is a row of exchanges ---- */
struct tt_xrowop {
    uint32_t exchange; /* the operation belongs to it, or follows it */
    /* SEND: the reduction that puts its result into the box; REDUCE: the send it does that for;
     * TT_XNO */
    uint32_t filled;
    /* RECV: the entry of tt_program.holds that takes it where it lies; TT_XNO: it is copied */
    uint32_t hold;
    uint64_t at; /* where in the sender's box */
    /* SEND, by mode: its place is written in the same exchange, so that peers must not read it
     * there */
    bool copies[2];
    /* of the run: */
    bool heap;    /* SEND: peers read it in this rank's heap */
    bool written; /* RECV: its sender has put it into its place; SEND: this rank does that */
    /* RECV: where it lies in its sender's heap, NULL: in the box, at `at`; SEND: where the
     * receiver's heap wants it */
    char *peer;
};
struct tt_xrow {
    uint32_t nexchanges, nranks;
    uint32_t *first;    /* nexchanges + 1 entries: the first operation of each */
    size_t head;        /* bytes of a box before the places */
    size_t bytes;       /* of a box */
    uint32_t per_round; /* segments between two meetings when nothing goes through boxes */
    struct tt_xrowop *ops;
    bool writes;  /* every send after the first exchange may be written by its reduction */
    bool gathers; /* ranks take more than they show, and more than a box holds */
    /* of the run: */
    uint32_t round, segment; /* segment: the next of a round of several */
    bool whole;              /* nothing goes through boxes: a round has per_round segments */
    bool last;               /* one more meeting at the end (hear_all) */
};
/* Makes p->box if the program is a row that boxes have room for. */
tutti_status tt_exec_row_make(struct tt_xcompile *x);
void tt_exec_row_free(struct tt_xrow *r);
void tt_exec_row_put(struct tt_engine *e, struct tt_program *p);
/* All ranks have put: does the work of the round, or a part of it, and puts the next one. True: the
 * program is done; then, and after a fault, nothing was put. */
bool tt_exec_row_take(struct tt_engine *e, struct tt_program *p, const void *const *all);

/* ---- send.c ---- */
/* A send task is ready: sends it, or queues what cannot go now. */
void tt_exec_send(struct tt_engine *e, struct tt_program *p, uint32_t task);
/* Tries what could not be sent before; true: something went. */
bool tt_exec_send_waiting(struct tt_engine *e);
void tt_exec_sent(struct tt_engine *e, const struct tt_event *ev);
tutti_status tt_exec_send_control(struct tt_xpeer *pe, const struct tt_tag *tag,
                                  const void *payload, size_t bytes);

/* ---- receive.c ---- */
/* An event of a running or future program; false: no room, keep the event and try again. */
bool tt_exec_receive(struct tt_xpeer *pe, const struct tt_event *ev);
/* An accepted payload is complete. */
void tt_exec_received(struct tt_xpeer *pe, const struct tt_event *ev);
/* A payload that is not, or no longer, in transport memory. */
void tt_exec_receive_bytes(struct tt_xpeer *pe, struct tt_program *p, const struct tt_event *ev);
/* A receive became ready: uses the pieces that came before; true when that completed the task. */
bool tt_exec_receive_landed(struct tt_engine *e, struct tt_program *p, uint32_t task);

/* ---- credit.c ---- */
void tt_exec_hear(struct tt_xpeer *pe, uint32_t seq); /* the peer has started seq */
/* Room for one more promise to every peer of the program; false: no memory. */
bool tt_exec_credit_prepare(const struct tt_context *x, const struct tt_program *p);
void tt_exec_credit_start(struct tt_program *p);
/* Sends start notices to peers that have learnt too little from data. */
void tt_exec_credit_tell(const struct tt_engine *e, const struct tt_program *p);
bool tt_exec_credit_allows(const struct tt_engine *e, const struct tt_xlink *l, uint32_t cost);
void tt_exec_credit_spend(struct tt_xlink *l, uint32_t cost); /* a piece has gone */

/* ---- stash.c ---- */
bool tt_exec_stash_grow(struct tt_engine *e); /* more blocks; false: no memory */
void tt_exec_stash_free(struct tt_engine *e);
bool tt_exec_stash_data(struct tt_xpeer *pe, const struct tt_event *ev);   /* false: full */
bool tt_exec_stash_accept(struct tt_xpeer *pe, const struct tt_event *ev); /* false: full */
void tt_exec_stash_received(struct tt_xpeer *pe, const struct tt_event *ev);
/* Hands over what came for p before it was started. */
void tt_exec_stash_take(struct tt_program *p);
void tt_exec_stash_drop(struct tt_xpeer *pe); /* its context is being closed */
/* discard: throws away what comes for a closed context; false: no memory, try again. discarded: it
 * is complete. bereave: the rank has ended and completes nothing any more. */
bool tt_exec_stash_discard(struct tt_engine *e, const struct tt_event *ev);
void tt_exec_stash_discarded(struct tt_engine *e, const struct tt_event *ev);
void tt_exec_stash_bereave(struct tt_engine *e, uint32_t world);

/* For letters. keep: a copy of the payload; NULL: no memory. give: frees it. */
struct tt_xblock *tt_exec_stash_keep(struct tt_engine *e, const struct tt_event *ev);
void tt_exec_stash_copy(struct tt_xblock *b, char *to);
void tt_exec_stash_give(struct tt_engine *e, struct tt_xblock *b);

/* ---- letter.c ---- */
/* An event of a letter. False: no room, keep the event and try again. */
bool tt_exec_letter_arrived(struct tt_xpeer *pe, const struct tt_event *ev);
void tt_exec_letter_received(struct tt_xpeer *pe, const struct tt_event *ev);
void tt_exec_letter_sent(struct tt_engine *e, uint32_t id);
/* Tries mail that could not be sent; true: something went. */
bool tt_exec_letter_deliver(struct tt_engine *e);
/* The peer has ended: a fault if a letter under way needs it. */
void tt_exec_letter_forsaken(const struct tt_xpeer *pe);
void tt_exec_letter_fail_all(struct tt_engine *e);
void tt_exec_letter_drop(struct tt_context *x); /* the context is being closed */
/* Marks the cookies of letters: program slots are far below 2^31. */
#define TT_XCOOKIE_LETTER (UINT64_C(1) << 63)

/* ---- stats.c ---- */
void tt_exec_stats_arrived(struct tt_engine *e, struct tt_xlink *l, uint32_t bytes);
/* Notes a piece (SEND, RECEIVE), from start_ns to now; only if there is a record. */
struct tt_xnote {
    uint32_t channel, message, part; /* part: segment << 16 | piece */
    uint64_t bytes, start_ns;
};
void tt_exec_stats_piece(const struct tt_xlink *l, enum tt_record_kind kind,
                         const struct tt_xnote *n);
void tt_exec_stats_looked(struct tt_engine *e, size_t nevents); /* after a poll */
void tt_exec_stats_start(struct tt_engine *e, struct tt_program *p);
void tt_exec_stats_boxed(struct tt_context *x); /* the boxes, which waited for a rank, are full */

/* ---- memory that is touched only where it is used (program.c) ---- */
void *tt_exec_map(size_t bytes); /* zeroed; NULL when there is none */
void tt_exec_unmap(void *p, size_t bytes);

/* ---- between context.c and context_meet.c ---- */
/* Frees a closed context once no control message is due to a member: the engine's list of those
 * points to its peers. */
void tt_exec_context_forget(struct tt_context *x);
/* Meets the ranks that have opened the context before this one. */
void tt_exec_context_answer(struct tt_context *x);
#endif
