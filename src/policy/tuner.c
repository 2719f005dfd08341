/* tuner.c - which threshold to try next. tuner.h has the model; here are the scaling, the
 * acquisition function and the explanation.
 *
 * Observations enter as y = ln(time) - mean of ln(time): equal factors count equally, whatever the
 * unit. Expected improvement of a value with predicted mean m and deviation d over the best b (all
 * logarithms): (b - m) P(z) + d p(z), z = (b - m) / d. There is no extra margin: values that were
 * tried are left out, so the search moves on. */
#include "policy/tuner.h"

#include <inttypes.h>
#include <math.h>

enum { GRID = 256 };

/* Where a threshold lies in the range, 0..1 on a logarithmic scale. */
static double tuner_position(const struct tt_tuner *t, uint64_t bytes)
{
    double lo = log2((double)t->o.min_bytes), hi = log2((double)t->o.max_bytes);
    return hi > lo ? (log2((double)bytes) - lo) / (hi - lo) : 0;
}

/* Whole KiB (within the range): a value that prints, saves and compares exactly. */
static uint64_t value_at(const struct tt_tuner *t, double u)
{
    double lo = log2((double)t->o.min_bytes), hi = log2((double)t->o.max_bytes);
    uint64_t bytes = (uint64_t)exp2(lo + u * (hi - lo)) / 1024 * 1024;
    if (bytes < t->o.min_bytes)
        return t->o.min_bytes;
    return bytes > t->o.max_bytes ? t->o.max_bytes : bytes;
}

tutti_status tt_policy_tuner_init(struct tt_tuner *t, const struct tt_tuner_options *o,
                                  struct tutti_error *err)
{
    struct tt_tuner_options x = *o;
    if (x.min_bytes == 0)
        x.min_bytes = (uint64_t)64 << 10;
    if (x.max_bytes == 0)
        x.max_bytes = (uint64_t)256 << 20;
    if (x.trials == 0)
        x.trials = 10;
    if (x.start_bytes == 0)
        x.start_bytes = (uint64_t)25 << 20;
    if (x.min_bytes > x.max_bytes)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "thresholds: the least (%" PRIu64 ") is above the greatest (%" PRIu64 ")",
                       x.min_bytes, x.max_bytes);
    if (x.trials > TT_TUNER_TRIALS)
        return tt_fail(err, TUTTI_ERR_ARG, "%u trials: at most %d", x.trials, (int)TT_TUNER_TRIALS);
    x.start_bytes = x.start_bytes < x.min_bytes ? x.min_bytes : x.start_bytes;
    x.start_bytes = x.start_bytes > x.max_bytes ? x.max_bytes : x.start_bytes;
    *t = (struct tt_tuner){.o = x};
    return TUTTI_OK;
}

uint32_t tt_policy_tuner_best(const struct tt_tuner *t)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < t->n; i++)
        if (t->trials[i].time_ps < t->trials[best].time_ps)
            best = i;
    return best;
}

/* The i-th of the first three: the start, then the quarters of the range, the one farther from the
 * start first. */
static uint64_t first_values(const struct tt_tuner *t, uint32_t i)
{
    double start = tuner_position(t, t->o.start_bytes);
    bool high_first = start < 0.5;
    if (i == 0)
        return t->o.start_bytes;
    return value_at(t, (i == 1) == high_first ? 0.75 : 0.25);
}

/* 0.3989... is 1 / sqrt(2 pi); erfc gives the normal distribution function. */
static double improvement(double best, double mean, double deviation)
{
    if (deviation <= 0)
        return best > mean ? best - mean : 0;
    double z = (best - mean) / deviation;
    return (best - mean) * 0.5 * erfc(-z * M_SQRT1_2) +
           deviation * exp(-0.5 * z * z) * 0.3989422804014327;
}

static bool tuner_tried(const struct tt_tuner *t, uint64_t bytes)
{
    for (uint32_t i = 0; i < t->n; i++)
        if (t->trials[i].threshold_bytes == bytes)
            return true;
    return false;
}

/* The grid value with the greatest expected improvement; threshold 0: all of it was tried. */
static struct tt_trial most_promising(const struct tt_tuner *t)
{
    static const struct tt_trial none;
    struct tt_gp g;
    struct tt_trial best = none;
    double x[TT_TUNER_TRIALS], y[TT_TUNER_TRIALS], mean = 0, least;
    for (uint32_t i = 0; i < t->n; i++) {
        x[i] = tuner_position(t, t->trials[i].threshold_bytes);
        y[i] = log((double)t->trials[i].time_ps);
        mean += y[i] / t->n;
    }
    for (uint32_t i = 0; i < t->n; i++)
        y[i] -= mean;
    least = y[tt_policy_tuner_best(t)];
    tt_policy_gp_fit(&g, x, y, t->n);
    for (uint32_t i = 0; i <= GRID; i++) {
        struct tt_trial c = {.threshold_bytes = value_at(t, (double)i / GRID)};
        double m, d;
        if (tuner_tried(t, c.threshold_bytes))
            continue;
        tt_policy_gp_predict(&g, (double)i / GRID, &m, &d);
        c.expected = m - least;
        c.deviation = d;
        c.improvement = improvement(least, m, d);
        if (best.threshold_bytes == 0 || c.improvement > best.improvement)
            best = c;
    }
    return best;
}

bool tt_policy_tuner_next(struct tt_tuner *t, uint64_t *ret_threshold_bytes)
{
    if (t->n >= t->o.trials)
        return false;
    t->next = (struct tt_trial){0};
    if (t->n < 3)
        t->next.threshold_bytes = first_values(t, t->n);
    else
        t->next = most_promising(t);
    if (t->next.threshold_bytes == 0) /* the range is so small that all of it has been tried */
        return false;
    *ret_threshold_bytes = t->next.threshold_bytes;
    return true;
}

void tt_policy_tuner_tell(struct tt_tuner *t, uint64_t time_ps)
{
    t->next.time_ps = time_ps;
    t->trials[t->n++] = t->next;
}

/* Why a trial was made, for the explanation. */
static const char *reason(const struct tt_trial *x, uint32_t i)
{
    if (i == 0)
        return "start";
    if (x->improvement == 0)
        return "to see the range";
    return x->deviation > x->expected ? "little known here" : "near the best";
}

void tt_policy_tuner_explain(const struct tt_tuner *t, struct tt_str *out)
{
    char size[64], time[64];
    uint32_t best = tt_policy_tuner_best(t), second = best == 0 ? 1 : 0;
    for (uint32_t i = 0; i < t->n; i++) {
        const struct tt_trial *x = &t->trials[i];
        tt_str_printf(out, "trial %u: threshold %s, step %s (%s", i + 1,
                      tt_format_size(x->threshold_bytes, size, sizeof size),
                      tt_format_time(x->time_ps, time, sizeof time), reason(x, i));
        if (x->improvement > 0)
            tt_str_printf(out, ": expected %+.1f%% +- %.1f%% of the best so far", 100 * x->expected,
                          100 * x->deviation);
        tt_str_printf(out, ")%s\n", i == best ? " *" : "");
    }
    for (uint32_t i = 0; i < t->n; i++)
        if (i != best && t->trials[i].time_ps < t->trials[second].time_ps)
            second = i;
    tt_str_printf(out, "winner: %s, %s",
                  tt_format_size(t->trials[best].threshold_bytes, size, sizeof size),
                  tt_format_time(t->trials[best].time_ps, time, sizeof time));
    if (second < t->n)
        tt_str_printf(out, ", %.2f%% below the next (%s)",
                      100 *
                          (1 - (double)t->trials[best].time_ps / (double)t->trials[second].time_ps),
                      tt_format_size(t->trials[second].threshold_bytes, size, sizeof size));
    tt_str_printf(out, "\n");
}
