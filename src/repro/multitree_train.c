/* multitree_train.c - scaling on tori, and the training time of the seven networks that the
 * authors' simulator has.
 *
 * Gradient sizes are its parameter counts times four bytes. Compute times are derived, not
 * published: the multiply-accumulates of the layers (SCALE-Sim's descriptions, no padding: outputs
 * (in - filter) / stride + 1 in each direction; their parameters add up to the counts), times three
 * for forward, gradients of data and of weights, on 16 arrays of 32 x 32 multiply-accumulate units
 * per rank at 1 GHz, every unit busy in every cycle, one sample per array. Real arrays idle part of
 * the time: compute is then longer, and the share that communication saves is smaller.
 *
 *     no overlap   forward, backward (twice as long), all-reduce
 *     overlap      forward, then backward and all-reduce at the same time, as if the first gradient
 *                  came at once
 */
#include "repro/multitree.h"

#include <math.h>
#include <stdio.h>

/* ---- scaling ---- */

static const struct {
    const char *name, *algo, *options;
} shown[] = {{"ring", "ring", NULL},
             {"bi-ring", "bi-ring", NULL},
             {"2D-ring", "bucket", "variant=paper"},
             {"bucket", "bucket", NULL},
             {"MultiTree", "multitree", NULL}};
enum { NSHOWN = sizeof shown / sizeof shown[0], OURS = NSHOWN - 1 };

/* Fills us[] with the times of all; returns the best baseline. */
static size_t run_shown(struct repro_report *r, const char *net, uint64_t bytes, double us[NSHOWN])
{
    size_t best = 0;
    for (size_t i = 0; i < NSHOWN; i++) {
        us[i] = repro_multitree_us(r, net, shown[i].algo, shown[i].options, bytes);
        if (i != OURS && us[i] < us[best])
            best = i;
    }
    return best;
}

/* The rows of one torus; the best baseline is marked. */
static void add_scaling(struct repro_report *r, const char *kind, uint32_t side, uint64_t bytes)
{
    double us[NSHOWN];
    char net[32];
    snprintf(net, sizeof net, "torus:%ux%u", side, side);
    size_t best = run_shown(r, net, bytes, us);
    for (size_t i = 0; i < NSHOWN; i++) {
        repro_text(r, "%s, %s", kind, shown[i].name);
        repro_count(r, side * side);
        repro_count(r, bytes);
        repro_real(r, us[i]);
        repro_real(r, us[i] / us[OURS]);
        repro_text(r, "%s",
                   i != best          ? ""
                   : us[i] < us[OURS] ? "MultiTree loses to it"
                                      : "best baseline");
    }
}

void repro_multitree_scaling(struct repro_report *r)
{
    static const uint32_t sides[] = {4, 8, 6, 10, 12, 14, 16}; /* quick: the first two */
    repro_table(r, "scaling", "Tori, weak (384 KiB per rank) and strong (32 MiB) scaling",
                "scaling|ranks|bytes|time_us|vs_multitree|remark");
    repro_plot(r, "ranks", "time_us", "scaling");
    for (int strong = 0; strong < 2; strong++)
        for (size_t i = 0; i < (repro_is_quick(r) ? 2 : sizeof sides / sizeof sides[0]); i++)
            add_scaling(r, strong ? "strong" : "weak", sides[i],
                        strong ? 32 << 20 : UINT64_C(393216) * sides[i] * sides[i]);
}

/* ---- training ---- */

static const struct {
    const char *name;
    uint64_t params, macs; /* macs: of one sample, forward */
} models[] = {
    {"AlphaGoZero", 1573620, 352869108},  {"AlexNet", 3745824, 2520263808},
    {"GoogLeNet", 6854208, 1350305600},   {"NCF", 11042704, 11042704},
    {"FasterRCNN", 13258944, 3530359488}, {"ResNet50", 25502912, 3409810112},
    {"Transformer", 77418328, 113029120},
};
static const double macs_per_us = 32 * 32 * 1e3; /* of one array */

/* The time of an iteration with or without overlap; backward takes 2 * forward. */
static double iteration(double forward, double comm, bool overlap)
{
    return overlap ? forward + fmax(2 * forward, comm) : 3 * forward + comm;
}

/* How much less `is` is than `than`, in percent. */
static double less_percent(double than, double is)
{
    return 100 * (1 - is / than);
}

/* One row: an iteration of one model, MultiTree against ring, 2D-ring and the best baseline.
 * us[0] is the ring, us[2] the 2D-ring. */
static void add_model(struct repro_report *r, size_t model, bool overlap, const double us[NSHOWN],
                      size_t best, struct mt_findings *f)
{
    double forward = (double)models[model].macs / macs_per_us,
           ours = iteration(forward, us[OURS], overlap);
    double ring = less_percent(iteration(forward, us[0], overlap), ours);
    double ring2d = less_percent(iteration(forward, us[2], overlap), ours);
    double rest = less_percent(iteration(forward, us[best], overlap), ours);
    f->train_ring = fmax(f->train_ring, ring);
    f->train_2d = fmax(f->train_2d, ring2d);
    f->train_best = fmax(f->train_best, rest);
    repro_text(r, "%s", models[model].name);
    repro_count(r, models[model].params * 4);
    repro_text(r, "%s", overlap ? "yes" : "no");
    repro_real(r, 3 * forward);
    repro_real(r, us[0]);
    repro_real(r, us[2]);
    repro_real(r, us[best]);
    repro_real(r, us[OURS]);
    repro_real(r, ring);
    repro_real(r, ring2d);
    repro_real(r, rest);
}

void repro_multitree_training(struct repro_report *r, struct mt_findings *f)
{
    f->train_ring = f->train_2d = f->train_best = -INFINITY;
    repro_note(r, "Training: compute times are derived (multiply-accumulates of SCALE-Sim's layer "
                  "tables, 16 arrays of 1,024 units per rank at "
                  "1 GHz, all busy, one sample each), not published; with overlap the all-reduce "
                  "may begin with the backward pass.");
    repro_table(r, "training",
                "torus:8x8: an iteration's compute and all-reduce in microseconds; training time "
                "saved by MultiTree in percent",
                "model|gradient_bytes|overlap|compute_us|ring_us|ring2d_us|best_us|multitree_us|"
                "less_than_ring|less_than_2D|less_than_best");
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        double us[NSHOWN];
        size_t best = run_shown(r, "torus:8x8", models[i].params * 4, us);
        for (int overlap = 0; overlap < 2; overlap++)
            add_model(r, i, overlap, us, best, f);
    }
}
