/* roll.h - the roll call: after a failure the ranks of a world agree on which of them go on.
 *
 * This is the protocol alone, without sockets and clocks: messages and observations go in, messages
 * come out. call.c carries it over boot's links, test/model/membership.pml is its model, and
 * docs/how/membership.md the page that explains it. Ranks are those of the world that failed.
 *
 * It is Paxos for one decision, the view: the set of ranks that go on, and the id of their job. A
 * ballot has a number and a leader; the leader is the lowest rank that is neither dead nor silent.
 *
 *     leader                     follower
 *       | ---- PREPARE ballot ----> |    promises to answer no lower ballot
 *       | <--- PROMISE ------------ |    with the view it has accepted, if any, and the dead
 *       | ---- PROPOSE view ------> |    all that promised, or the view accepted before
 *       | <--- ACCEPT ------------- |
 *       | ---- COMMIT view -------> |    and to all others that are heard of
 *
 * A lower ballot than the one promised is answered with REFUSE and the higher one. Whoever knows
 * the decision answers everything with COMMIT: a rank that was left out learns it in that way.
 *
 * A set of ranks may decide (tt_roll_quorum) if every other rank is known to have ended, or if it
 * is more than half of the world, or half of it with rank 0. Two sets of ranks that live always
 * share a rank, so that two different views cannot both be decided among the living. */
#ifndef TT_ROLL_H
#define TT_ROLL_H

#include <assert.h>

#include "base/base.h"

enum { TT_ROLL_RANKS = 4096 }; /* ranks of a world that can call the roll */

struct tt_set {
    uint64_t word[TT_ROLL_RANKS / 64];
};
static inline bool tt_set_has(const struct tt_set *s, uint32_t r)
{
    assert(r < TT_ROLL_RANKS);
    return s->word[r / 64] >> (r % 64) & 1;
}
static inline void tt_set_add(struct tt_set *s, uint32_t r)
{
    assert(r < TT_ROLL_RANKS);
    s->word[r / 64] |= UINT64_C(1) << (r % 64);
}
static inline void tt_set_remove(struct tt_set *s, uint32_t r)
{
    assert(r < TT_ROLL_RANKS);
    s->word[r / 64] &= ~(UINT64_C(1) << (r % 64));
}
void tt_roll_unite(struct tt_set *s, const struct tt_set *more);
uint32_t tt_roll_count(const struct tt_set *s, uint32_t n); /* of the ranks below n */

/* What is decided. */
struct tt_roll_view {
    uint64_t job; /* id of the new world's job; not 0 */
    /* How many of the newcomers that all ranks know of (comm/admit.c) come in: all, or 0. */
    uint64_t newcomers;
    struct tt_set in;
};

enum tt_roll_kind {
    TT_ROLL_PREPARE = 1,
    TT_ROLL_PROMISE,
    TT_ROLL_REFUSE,
    TT_ROLL_PROPOSE,
    TT_ROLL_ACCEPT,
    TT_ROLL_COMMIT,
    TT_ROLL_BEAT,  /* "I am here"; sent by the carrier */
    TT_ROLL_LEAVE, /* the sender gives up: nobody need wait for it */
    TT_ROLL_KINDS
};
/* Sent as raw memory between ranks of one build and byte order. */
struct tt_roll_note {
    uint32_t magic, kind;
    uint64_t ballot;          /* number << 32 | leader; 0: none */
    uint64_t accepted;        /* PROMISE: the ballot of `view`; 0: none was accepted */
    struct tt_roll_view view; /* PROMISE, PROPOSE, COMMIT */
    struct tt_set dead;       /* ranks that the sender knows to have ended */
};
enum { TT_ROLL_MAGIC = 0x6c6c6f72 };
/* Can this have been sent in a world of n ranks? */
bool tt_roll_sane(const struct tt_roll_note *m, uint32_t n);

/* A message to send. */
struct tt_roll_out {
    uint32_t to;
    struct tt_roll_note note;
};

enum tt_roll_phase { TT_ROLL_FOLLOWING, TT_ROLL_COLLECTING, TT_ROLL_PROPOSING };
struct tt_roll {
    uint32_t n, me;
    /* This rank may have been left out without knowing it: it must not take silence for death. */
    bool doubtful;
    bool decided;
    uint64_t newcomers; /* what this rank proposes, if it leads */
    uint64_t promised, accepted;
    struct tt_roll_view view;  /* accepted, or decided */
    struct tt_set dead, quiet; /* quiet: not waited for; a sign of life ends it */
    uint32_t number;           /* the highest of any ballot that was heard of */
    /* As leader. */
    enum tt_roll_phase phase;
    uint64_t ballot;
    struct tt_set asked, yes; /* who must answer the proposal; who has answered */
    uint64_t best;            /* the highest ballot of a view accepted before, and that view */
    struct tt_roll_view choice;
    struct tt_vec out; /* struct tt_roll_out, in order; the caller sends and empties it */
    bool short_of_memory;
};

/* Begins as soon as it may. A rank proposes newcomers only if it knows that all ranks know them. */
struct tt_roll_start {
    uint32_t n, me;
    bool doubtful;
    uint64_t newcomers;
};
void tt_roll_begin(struct tt_roll *r, const struct tt_roll_start *s);
void tt_roll_free(struct tt_roll *r);
/* The rank that this one expects to lead: its own, or one to which it needs a connection. */
uint32_t tt_roll_leader(const struct tt_roll *r);
/* A connection to q stands; what it may have missed on an earlier one is said again. */
void tt_roll_linked(struct tt_roll *r, uint32_t q);
/* q said this. m is sane. */
void tt_roll_take(struct tt_roll *r, uint32_t q, const struct tt_roll_note *m);
/* The process of q has ended: there is proof. */
void tt_roll_dead(struct tt_roll *r, uint32_t q);
/* q has been silent for too long, or has left: there is no proof. */
void tt_roll_quiet(struct tt_roll *r, uint32_t q);
/* May these ranks decide for a world of n, if those of `dead` have ended? trusting: the fact that
 * all others have ended suffices. */
bool tt_roll_quorum(const struct tt_set *who, const struct tt_set *dead, uint32_t n, bool trusting);
#endif
