/* lockstep.h - what a schedule does with numbers: an interpreter for tests, written from the text of sched.h alone, sharing nothing with
 * verify.
 *
 * Every rank has vectors of 64-bit numbers (IN, OUT, scratch). Lockstep: all messages of a step read the state at its start, then they are
 * written, then local operations follow. Live: ranks know only their own lists; operations start in random order as soon as the rules
 * allow, and a message happens when both its ends may start (rendezvous). Either way the results are compared with sums computed directly.
 * Any schedule is accepted, whatever its damage: the answer is a verdict. */
#ifndef LOCKSTEP_H
#define LOCKSTEP_H

#include "sched/sched.h"

enum ls_verdict {
    LS_CORRECT,
    LS_WRONG,     /* runs to its end, but a result differs, or ranks have different bits */
    LS_UNMATCHED, /* a message without a partner in its step, or whose ends name other chunks */
    LS_STUCK,     /* live: ranks wait for each other for ever */
    LS_EMPTY,     /* reads a place that holds nothing */
    LS_RACE,      /* lowered: reads a place too early or too late: another operation's data are there */
    LS_MALFORMED, /* breaks a rule of sched.h: places that do not exist, order, two writes of one place in a step, ... */
};
const char *ls_verdict_name(enum ls_verdict v);

typedef uint64_t ls_sum(uint64_t a, uint64_t b);
ls_sum ls_plain_sum;
ls_sum ls_ordered_sum; /* neither commutative nor associative: shows any difference in order and brackets */
ls_sum ls_tree_sum;    /* commutative, not associative: equal for equal trees whatever the order of two branches */

struct ls_options {
    bool live;
    bool inplace;   /* IN and OUT are one memory */
    bool lenient;   /* a place that holds nothing reads as garbage: only what shows in the results counts */
    bool uniform;   /* a rank's input is one number everywhere, so that chunks summed alike have equal results */
    bool elements;  /* the vector has `count` elements; otherwise every segment of a chunk has one */
    uint64_t count; /* as in tt_sched_bind_make */
    ls_sum *sum;    /* NULL: plain. With another, results of reductions must only be equal at all ranks that have them */
    uint64_t seed;  /* of inputs, garbage and the live order */
};

struct ls_result {
    enum ls_verdict verdict;
    uint32_t rank;
    size_t op; /* in the rank's slice; its length: shows only at the end */
    char why[200];
};

/* One chunk of an operation: what it writes and what it reads (equal where it does only one; REDUCE: buf is the destination). */
struct ls_item {
    uint32_t chunk, buf, src;
};

struct ls;
/* Takes a schedule apart; it must outlive the result. Never NULL: tests have memory. */
struct ls *ls_open(const struct tt_sched *s);
void ls_close(struct ls *l);
/* May be called again and again. */
struct ls_result ls_run(struct ls *l, const struct ls_options *o);
/* After a run without `elements` that was not malformed: what OUT `chunk` holds (its first segment). */
uint64_t ls_output(struct ls *l, uint32_t rank, uint32_t chunk);
/* The chunks of an operation in the order in which it moves them. */
const struct ls_item *ls_items(const struct ls *l, uint32_t rank, size_t op, size_t *ret_n);
uint64_t ls_input(uint64_t seed, uint32_t rank, uint64_t element);
bool ls_is_rooted(tutti_coll c);

/* ls_open, ls_run, ls_close. */
struct ls_result ls_run_once(const struct tt_sched *s, const struct ls_options *o);
/* Lockstep and live, out of place and (where declared) in place, then the same bits at all ranks under an ordered sum. The first result
 * that is not correct, its `why` saying in which of these. */
struct ls_result ls_prove(const struct tt_sched *s);
#endif
