/* matrix.h - one schedule of the matrix and what is asked of it. */
#ifndef MATRIX_H
#define MATRIX_H

#include "plan/plan.h"

/* Of one algorithm. */
struct tally {
    unsigned long cases, promised, kept; /* algorithm x collective x ranks x root; what the table promises; what of it was proved */
    unsigned long schedules, proved, runs, prices, refusals, failures;
};

enum { MATRIX_PROVED = 256 };
struct one {
    const struct tt_algo *al;
    struct tt_algo_args args;
    struct tt_plan_cache *plans; /* of this network: a synthesised schedule serves all numbers of segments */
    char label[320];
    struct tally *tally;
    uint64_t proved[MATRIX_PROVED]; /* plan hashes: what is the same on another network is not proved again */
    size_t nproved;
};

/* Prints the failure and counts it. */
void complain(struct one *o, const char *what, const char *why);
/* Builds the schedule of o->args; asks everything of it unless an equal one was proved before, and its price in any case. */
void check_schedule(struct one *o);
#endif
