/* tuner.h - finds a fusion threshold from measured (or simulated) step times by Bayesian
 * optimisation: ask for the next value to try, tell how long steps took with it.
 *
 * Model: a Gaussian process over u = log2(threshold), scaled to 0..1, with a Matern 5/2 kernel;
 * observations are times relative to the best seen (so that nothing depends on whether steps take
 * microseconds or minutes), the length scale is the one of a list with the greatest marginal
 * likelihood. Next value: the greatest expected improvement, in the same relative units, over a
 * fixed grid; ties go to the smaller threshold. The first three values are the start and the two
 * quarters of the range farthest from it.
 *
 * In a job rank 0 owns the tuner and broadcasts its proposals; the other ranks never compute, so
 * they cannot disagree. */
#ifndef TT_TUNER_H
#define TT_TUNER_H

#include "base/base.h"

enum { TT_TUNER_TRIALS = 64 }; /* at most */

struct tt_tuner_options {
    uint64_t min_bytes, max_bytes; /* [64 KiB, 256 MiB] */
    uint64_t start_bytes;          /* first value tried [25 MiB, moved into the range] */
    uint32_t trials;               /* [10] */
};

/* One value that was tried, and what was expected of it beforehand. */
struct tt_trial {
    uint64_t threshold_bytes, time_ps;
    /* relative to the best so far; all 0 for the first values and loaded ones */
    double expected, deviation, improvement;
};

struct tt_tuner {
    struct tt_tuner_options o; /* as used */
    uint32_t n;
    struct tt_trial trials[TT_TUNER_TRIALS];
    struct tt_trial next; /* proposed, result not told yet */
};

/* TUTTI_ERR_ARG when the range is empty or there are no or too many trials. */
tutti_status tt_policy_tuner_init(struct tt_tuner *t, const struct tt_tuner_options *o,
                                  struct tutti_error *err);
/* The next value to try; false: all trials are done, use the best. */
bool tt_policy_tuner_next(struct tt_tuner *t, uint64_t *ret_threshold_bytes);
/* Records how long steps took with the value proposed last (time_ps > 0). */
void tt_policy_tuner_tell(struct tt_tuner *t, uint64_t time_ps);
/* Index of the best trial (the first of equals); n > 0. */
uint32_t tt_policy_tuner_best(const struct tt_tuner *t);
/* What was tried, one line per trial, and why the winner won. */
void tt_policy_tuner_explain(const struct tt_tuner *t, struct tt_str *out);

/* Saving: {"format": "tutti-fusion", "version": 1, "model": .., "policy": .., "key": "hex",
 * "min_bytes", "max_bytes", "trials": [[threshold_bytes, time_ps], ..]}. `key` is a hash of
 * everything that the times depend on (tensors, network, ranks); loading refuses
 * (TUTTI_ERR_MISMATCH) another one. */
struct tt_tuner_label {
    const char *model, *policy;
    uint64_t key;
};
void tt_policy_tuner_write(const struct tt_tuner *t, const struct tt_tuner_label *label, FILE *out);
tutti_status tt_policy_tuner_read(FILE *in, const char *name, const struct tt_tuner_label *label,
                                  struct tt_tuner *ret, struct tutti_error *err);

/* gp.c: a Gaussian process of unit prior mean 0 through n points (x in 0..1). */
struct tt_gp {
    uint32_t n;
    double length, scale; /* of the kernel; scale: variance */
    double x[TT_TUNER_TRIALS], weight[TT_TUNER_TRIALS];
    double chol[TT_TUNER_TRIALS][TT_TUNER_TRIALS];
};
void tt_policy_gp_fit(struct tt_gp *g, const double *x, const double *y, uint32_t n);
void tt_policy_gp_predict(const struct tt_gp *g, double x, double *ret_mean, double *ret_deviation);
#endif
