/* interp.h - an interpreter of the lockstep meaning on real numbers, independent of the verifier: the matrix compares what every rank
 * ends with against sums computed directly. */
#ifndef INTERP_H
#define INTERP_H

#include "sched/sched.h"

/* Runs the schedule on `count` elements (64-bit integers, sums modulo 2^64), IN and OUT one memory when inplace.
 * False with the reason when a message is missing, a place is read before it is written, or a result differs. */
bool interp_run(const struct tt_sched *s, uint64_t count, bool inplace, char *why, size_t cap);
#endif
