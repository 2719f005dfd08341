/* verify.h - proves that a schedule does what its collective promises, or names rank, operation
 * and reason.
 *
 * The lockstep meaning is executed on contributions instead of numbers: a place holds the
 * multiset of ranks whose input went into it. Up to 512 ranks the sets are exact. Beyond that,
 * each rank gets a random number modulo 2^61-1 and a place holds the sum; a wrong set then
 * passes with at most the stated probability. Equal neighbouring chunks share one entry, so that
 * 65,536 ranks fit into memory. */
#ifndef TT_VERIFY_H
#define TT_VERIFY_H

#include "base/base.h"
#include "sched/sched.h"

enum { TT_VERIFY_EXACT_RANKS = 512 };

enum tt_verify_method { TT_VERIFY_AUTO, TT_VERIFY_EXACT, TT_VERIFY_FINGERPRINT };

struct tt_verify_options {
    /* AUTO: exact up to TT_VERIFY_EXACT_RANKS ranks, and always when nothing is reduced */
    enum tt_verify_method method;
    /* 0: random numbers from the kernel; a fixed seed is for tests only, since files could be
     * made to fit it */
    uint64_t seed;
    void (*progress)(void *ctx, double fraction); /* may be NULL */
    void *ctx;
};

struct tt_verify_result {
    bool ok;
    enum tt_verify_method method; /* EXACT or FINGERPRINT */
    double error_probability;     /* upper bound for an incorrect schedule to pass; 0 if exact */
    uint32_t ranks;
    uint64_t ops, messages;
    /* When not ok: true if the header, not an operation, is at fault; rank and op are then 0. */
    bool header;
    uint32_t rank; /* when not ok: the rank at fault */
    /* Its operation, as index in the slice; the slice's length: the fault shows only at the end. */
    uint64_t op;
    char why[400];
};

/* Fails only when it cannot judge (out of memory, over a limit, not all ranks held). An
 * incorrect schedule is TUTTI_OK with ret->ok false. The schedule is only read; o may be NULL. */
tutti_status tt_verify(const struct tt_sched *s, const struct tt_verify_options *o,
                       struct tt_verify_result *ret, struct tutti_error *err);
#endif
