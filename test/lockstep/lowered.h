/* lowered.h - what the compiled programs of all ranks of a schedule do with numbers: an interpreter for tests of src/exec's compiler. It
 * reads struct tt_program (the thing under test) and shares no code with the executor.
 *
 * Every rank runs its program by itself: a task starts when the program's counters say so. The marks of lower.c are used in the most
 * aggressive way they allow:
 *     held            the reduction reads the sender's memory when it runs, however late
 *     group           one copy, made when the first member is sent (or by the reduction), serves all members
 *     may be written  the reduction writes the places that have been offered, at once
 *     offered         the offer is made when the rank starts
 *     box             the input is taken when the rank starts, the rest is done when all ranks have started
 *     row             the same round by round (lowered_row.c); memory of peers is read, and written, as soon as it may be
 * The order of everything else is random: starts, arrivals, uses, messages of completion.
 *
 * Each cell remembers which operation wrote it. A read must find what the listed order of the rank's operations says: anything else is a
 * race, whatever the numbers. At the end results are compared with sums computed directly, or (ordered) with lockstep's bits. */
#ifndef LOWERED_H
#define LOWERED_H

#include "lockstep.h"

struct tt_program;

/* How a piece goes that is not written by a reduction. MIXED: each its own way. */
enum lw_form { LW_BYTES, LW_REFS, LW_WINDOWS, LW_MIXED };

struct lw_options {
    bool inplace; /* for ranks whose program allows it */
    bool ordered; /* ls_ordered_sum on one number per rank: results must be those of lockstep, bit for bit */
    bool offers;  /* destinations are where peers can write */
    enum lw_form form;
    uint64_t seed;
};

/* What happened in all runs. Stalls: nothing could happen but to copy held operands to where their receives would have put them. */
struct lw_counts {
    uint64_t tasks, held, shared, written, boxes, rows, stalls;
};

struct lw;
/* The programs are compiled from s for `count` elements of one type (block_counts NULL), by rank; all of it is borrowed. */
struct lw *lw_open(const struct tt_sched *s, const struct tt_program *const *programs, uint64_t count);
void lw_close(struct lw *l);
struct ls_result lw_run(struct lw *l, const struct lw_options *o); /* again and again */
const struct lw_counts *lw_counts(const struct lw *l);
#endif
