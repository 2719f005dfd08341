/* record.h - what a process does while it runs: a ring of events of fixed size for TUTTI_TRACE, and
 * counters for TUTTI_TOP.
 *
 * All memory is made when the record is opened. Any thread notes events: a place is taken with one
 * atomic addition. When the ring is full the oldest events are overwritten, so that the end of a
 * run is kept. Events are read when nothing is noted any more. */
#ifndef TT_RECORD_H
#define TT_RECORD_H

#include "base/base.h"
#include <stdatomic.h>

/* Kinds of events. CALL: a collective from its start to its end. WAIT: a caller waits for one.
 * SEND, RECEIVE: a piece of a message was handed over, or is there (start = end). IDLE: nothing to
 * do until something of `peer` came. */
#define TT_RECORD_LIST(X) \
    X(CALL, "call")       \
    X(WAIT, "wait")       \
    X(SEND, "send")       \
    X(RECEIVE, "receive") \
    X(IDLE, "idle")
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
    uint32_t seq;  /* number of the request in its communicator */
    /* of a message of the request: channel << 24 | number, and segment << 16 | piece */
    uint32_t message, piece;
    uint8_t kind, coll;
    uint8_t plan; /* of calls: index of a plan, TT_RECORD_NO_PLAN */
    uint8_t pad;
};

/* A plan that calls have used. */
struct tt_record_plan {
    uint64_t hash, count;
    uint32_t segments, root;
    uint8_t coll, dtype, redop, pad;
    char algo[32], options[160];
};

struct tt_board; /* base/board.h */
struct tt_record {
    _Atomic uint64_t next;  /* events noted so far */
    uint64_t cap;           /* 0: events are counted on the board only */
    struct tt_board *board; /* TUTTI_TOP; NULL: none. The owner of the record frees it */
    struct tt_record_plan plan[TT_RECORD_PLANS];
    uint32_t nplans; /* changed under the communicator's lock */
    struct tt_record_event event[];
};
/* NULL: out of memory. */
struct tt_record *tt_record_make(uint64_t events);
/* Notes one event; e is copied. */
void tt_record_note(struct tt_record *r, const struct tt_record_event *e);
/* The index of the plan, which is added unless it is there; TT_RECORD_NO_PLAN: no room. */
uint8_t tt_record_plan(struct tt_record *r, const struct tt_record_plan *p);
/* Copies the last events, at most `most`, in the order in which they were noted; returns how many.
 * *ret_lost: events that are not among them. */
uint64_t tt_record_last(const struct tt_record *r, uint64_t most, struct tt_record_event *ret,
                        uint64_t *ret_lost);
#endif
