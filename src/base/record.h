/* record.h - what a process does while it runs: a ring of events of fixed size for TUTTI_TRACE, and
 * counters for TUTTI_TOP.
 *
 * All memory for events is made when the record is opened. Any thread notes events, under a lock of
 * the record's own. When the ring is full the oldest events are overwritten, so that the end of a
 * run is kept. After tt_record_end nothing is noted any more, whoever tries. */
#ifndef TT_RECORD_H
#define TT_RECORD_H

#include <pthread.h>

#include "base/base.h"

/* Kinds of events. CALL: a collective from its start to its end. WAIT: a caller waits for one.
 * SEND, RECEIVE: a piece of a message was handed over, or is there (start = end). IDLE: nothing to
 * do until something of `peer` came.
 *
 * Of trainers, with the step's number as `seq`. STEP: from the end of the step before (the first:
 * of freeze) to the end of step(). GRADIENTS: from the first gradient to step(). LAUNCH: a
 * collective of the step, `message` is its number. EXPOSED: the training loop waits for it. */
#define TT_RECORD_LIST(X)     \
    X(CALL, "call")           \
    X(WAIT, "wait")           \
    X(SEND, "send")           \
    X(RECEIVE, "receive")     \
    X(IDLE, "idle")           \
    X(STEP, "step")           \
    X(GRADIENTS, "gradients") \
    X(LAUNCH, "launch")       \
    X(EXPOSED, "exposed")
enum tt_record_kind {
#define TT_RECORD_ENUM(id, name) TT_RECORD_##id,
    TT_RECORD_LIST(TT_RECORD_ENUM)
#undef TT_RECORD_ENUM
        TT_RECORD_KINDS
};
const char *tt_record_name(unsigned kind);

enum { TT_RECORD_PLANS = 64, TT_RECORD_NO_PLAN = UINT8_MAX };

/* Travels between ranks of one build as it is. */
struct tt_record_event {
    uint64_t start_ns, end_ns; /* of the rank's own clock */
    uint64_t bytes;
    uint32_t peer; /* rank of the world; UINT32_MAX: none */
    uint32_t comm; /* which communicator; 0: the world */
    uint32_t seq;  /* number of the request in its communicator; of the step in its trainer */
    /* of a message of the request: channel << 24 | number, and segment << 16 | piece; of a call:
     * 1 where the caller has started it and gone on */
    uint32_t message, piece;
    uint8_t kind, coll;
    uint8_t plan; /* of calls: index of a plan, TT_RECORD_NO_PLAN */
    uint8_t pad;  /* 0; the writer's lane */
};

/* A plan that calls have used. */
struct tt_record_plan {
    uint64_t hash, count;
    uint32_t segments, root;
    uint8_t coll, dtype, redop, pad;
    char algo[32], options[160];
};

/* What a trainer launches in every step. Texts as long as names of tensors may be. */
struct tt_record_launch {
    uint64_t bytes;
    uint8_t coll;
    char first[128], last[128]; /* tensors of its bucket; "": none */
    char algo[32];
};

/* A part of the step as planned: compute, an update or a launch. */
#define TT_RECORD_SPAN_LIST(X) \
    X(BACKWARD, "backward")    \
    X(FORWARD, "forward")      \
    X(UPDATE, "update")        \
    X(LAUNCH, "launch")
enum tt_record_span_kind {
#define TT_RECORD_SPAN_ENUM(id, name) TT_RECORD_SPAN_##id,
    TT_RECORD_SPAN_LIST(TT_RECORD_SPAN_ENUM)
#undef TT_RECORD_SPAN_ENUM
        TT_RECORD_SPANS
};
const char *tt_record_span_name(unsigned kind);
struct tt_record_span {
    uint8_t kind;
    uint32_t index; /* of a launch */
    uint64_t start_ps, end_ps;
};

/* A trainer, and a step of its policy's timeline, from the start of a backward pass to the end of
 * the next forward pass. Without a profile of the model there are no spans, and all times are 0. */
enum { TT_RECORD_TRAINERS = 64, TT_RECORD_LAUNCHES = 4096, TT_RECORD_MOST_SPANS = 16384 };
struct tt_record_trainer {
    uint32_t comm;
    char policy[24];
    uint64_t iteration_ps, forward_ps, backward_ps, exposed_ps;
    uint64_t stepped_ps; /* when step() returns */
    uint32_t nlaunches, nspans;
    struct tt_record_launch *launch;
    struct tt_record_span *span;
};
void tt_record_trainer_clear(struct tt_record_trainer *t); /* frees what it holds */

struct tt_board; /* base/board.h */
struct tt_record {
    pthread_mutex_t lock;   /* guards the rest but cap and board, which do not change */
    uint64_t cap;           /* 0: events are counted on the board only */
    struct tt_board *board; /* TUTTI_TOP; NULL: none. The owner of the record frees it */
    bool ended;
    uint64_t next; /* events noted so far */
    struct tt_record_plan plan[TT_RECORD_PLANS];
    uint32_t nplans, ntrainers;
    struct tt_record_trainer trainer[TT_RECORD_TRAINERS];
    struct tt_record_event event[];
};
/* NULL: out of memory. */
struct tt_record *tt_record_make(uint64_t events);
void tt_record_free(struct tt_record *r); /* accepts NULL; nobody may be noting */
/* Notes one event; e is copied. */
void tt_record_note(struct tt_record *r, const struct tt_record_event *e);
void tt_record_end(struct tt_record *r);
/* Takes what t holds, or frees it where there is no room for another trainer. */
void tt_record_add_trainer(struct tt_record *r, struct tt_record_trainer *t);
/* The index of the plan, which is added unless it is there; TT_RECORD_NO_PLAN: no room. */
uint8_t tt_record_plan(struct tt_record *r, const struct tt_record_plan *p);
/* Copies the last events, at most `most`, in the order in which they were noted; returns how many.
 * *ret_lost: events that are not among them. */
uint64_t tt_record_last(struct tt_record *r, uint64_t most, struct tt_record_event *ret,
                        uint64_t *ret_lost);
uint64_t tt_record_noted(struct tt_record *r); /* events so far, overwritten ones included */
#endif
