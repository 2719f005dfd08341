/* dear_fusion.c - a part of repro dear: Bayesian tuning of the fusion threshold (10 trials) against
 * an exhaustive sweep, five models, 64 ranks, 10 Gbit/s.
 *
 * With rings a start-up costs 6.3 ms, and thresholds matter in both directions; with the planner's
 * algorithms (0.1 ms) only thresholds that are too large hurt. The choice matters where the worst
 * threshold is at least 20 % slower than the best (column `matters`). */
#include "repro/train.h"

#include <math.h>
#include <stdio.h>

static const double MATTERS = 1.2;

enum { STEPS_PER_OCTAVE = 4, OCTAVES = 12, MODELS = 5 }; /* 64 KiB .. 256 MiB */

/* The sweep of one model, and where the tuner ended: steps in ms, thresholds in bytes. */
struct sweep {
    double best, worst, tuned;
    uint64_t best_at, worst_at, tuned_at;
};

/* Equal ratios: four thresholds to a factor of two. */
static uint64_t threshold_at(int i)
{
    return (uint64_t)(65536 * exp2((double)i / STEPS_PER_OCTAVE));
}

/* Simulates one threshold and keeps it when it is the best or the worst so far. */
static void try_threshold(struct repro_report *r, const struct tutti_model *m,
                          const struct repro_net *n, uint64_t bytes, struct sweep *s)
{
    struct tutti_trainsim_options o = {
        .policy = "dear", .fusion = "threshold", .threshold_bytes = bytes};
    double ms = repro_step_ms(r, m, n, &o);
    if (s->best_at == 0 || ms < s->best) {
        s->best = ms;
        s->best_at = bytes;
    }
    if (s->worst_at == 0 || ms > s->worst) {
        s->worst = ms;
        s->worst_at = bytes;
    }
}

/* --quick sweeps every second threshold. */
static struct sweep sweep_model(struct repro_report *r, const char *name, const struct repro_net *n)
{
    struct sweep s = {0};
    struct tutti_trainsim_info i;
    struct tutti_model *m = repro_model(r, name, 0);
    for (int k = 0; k <= OCTAVES * STEPS_PER_OCTAVE; k += repro_is_quick(r) ? 2 : 1)
        try_threshold(r, m, n, threshold_at(k), &s);
    repro_step(r, m, n, &(struct tutti_trainsim_options){.policy = "dear", .fusion = "bayesian"},
               &i);
    s.tuned = i.iteration_us / 1e3;
    s.tuned_at = i.threshold_bytes;
    tutti_model_free(m);
    return s;
}

/* One row: steps in ms, thresholds in MiB. */
static void print_sweep(struct repro_report *r, const char *algo, const char *model,
                        const struct sweep *s)
{
    repro_text(r, "%s", algo);
    repro_text(r, "%s", model);
    repro_real(r, s->best);
    repro_real(r, (double)s->best_at / 1048576);
    repro_real(r, s->worst);
    repro_real(r, (double)s->worst_at / 1048576);
    repro_real(r, s->worst / s->best);
    repro_text(r, "%s", s->worst >= MATTERS * s->best ? "yes" : "no");
    repro_real(r, s->tuned);
    repro_real(r, (double)s->tuned_at / 1048576);
    repro_real(r, s->tuned / s->best);
}

/* A summary of the five models with one choice of algorithms. */
struct tuned {
    double spread; /* the least worst / best */
    double excess; /* the greatest tuned / best */
    int matters;   /* models where the choice matters */
};

/* All models with one algorithm (NULL: the planner's choice); adds their rows. */
static struct tuned tune_with(struct repro_report *r, const char *algo)
{
    struct repro_net n;
    struct tuned t = {.spread = HUGE_VAL};
    repro_net_open(r, "star:64@10Gbps,25us", algo, &n);
    for (int i = 0; i < MODELS; i++) {
        struct sweep s = sweep_model(r, repro_dear_models[i], &n);
        print_sweep(r, algo ? algo : "auto", repro_dear_models[i], &s);
        t.spread = fmin(t.spread, s.worst / s.best);
        t.excess = fmax(t.excess, s.tuned / s.best);
        t.matters += s.worst >= MATTERS * s.best;
    }
    repro_net_close(&n);
    return t;
}

/* Steps by threshold as rows for a picture, one point per octave. */
static void plot_thresholds(struct repro_report *r)
{
    struct repro_net n;
    repro_table(r, "thresholds", "dear, rings, 10 Gbit/s: step by fusion threshold",
                "model|threshold_mib|step_ms");
    repro_net_open(r, "star:64@10Gbps,25us", "ring", &n);
    for (int i = 0; i < MODELS; i++) {
        struct tutti_model *m = repro_model(r, repro_dear_models[i], 0);
        for (int k = 0; k <= OCTAVES; k++) {
            uint64_t bytes = threshold_at(k * STEPS_PER_OCTAVE);
            struct tutti_trainsim_options o = {
                .policy = "dear", .fusion = "threshold", .threshold_bytes = bytes};
            repro_text(r, "%s", repro_dear_models[i]);
            repro_real(r, (double)bytes / 1048576);
            repro_real(r, repro_step_ms(r, m, &n, &o));
        }
        tutti_model_free(m);
    }
    repro_plot(r, "threshold_mib", "step_ms", "model");
    repro_net_close(&n);
}

void repro_dear_fusion(struct repro_report *r)
{
    repro_table(r, "fusion",
                "Bayesian tuning (10 trials) against a sweep of thresholds, star:64@10Gbps,25us: "
                "steps in ms, thresholds in MiB",
                "algo|model|best|best_mib|worst|worst_mib|worst_to_best|matters|tuned|tuned_mib|"
                "tuned_to_best");
    struct tuned ring = tune_with(r, "ring"), free_choice = tune_with(r, NULL);
    repro_check(r, ring.excess <= 1.03 && free_choice.excess <= 1.03,
                "after 10 trials the tuner is within %.2f %% (rings) and %.2f %% (auto) of the "
                "best threshold, for every model",
                100 * (ring.excess - 1), 100 * (free_choice.excess - 1));
    repro_check(r, ring.matters == MODELS,
                "thresholds matter (worst at least 20 %% slower than best) for %d of %d models "
                "with rings (least: %.0f %%), for %d of %d with auto "
                "(least: %.0f %%)",
                ring.matters, MODELS, 100 * (ring.spread - 1), free_choice.matters, MODELS,
                100 * (free_choice.spread - 1));
    plot_thresholds(r);
}
