/* dear.c - repro dear: five models, 64 workers, 10 and 100 Gbit/s: DeAR against well-tuned
 * baselines, by the model of training steps (nothing is measured).
 *
 * The abstract claims up to 83 % (10 Gbit/s) and 15 % (100 Gbit/s) over the state of the art
 * (public text); its tables are not known to us. Collectives are rings, because the abstract
 * speaks of a start-up "proportional to the number of workers", and then again the planner's
 * choice. Compute times are derived (tutti train-sim --list); latencies (25 us a link on
 * Ethernet, 2 us on the fast network) are assumptions.
 *
 *     column          what it is
 *     wfbp            a ring per layer
 *     ddp             buckets of 25 MiB
 *     horovod         what is ready within the same 5 ms, up to 64 MiB
 *     mgwfbp          the buckets that end communication first (the published greedy rule joins
 *                     everything here, so it is given the optimum that it aims at)
 *     bytescheduler   the best of four partition sizes
 *     tuned           buckets with the best threshold
 *     dear_published  all reduce-scatters, a barrier, all-gathers one group ahead, at the best
 *                     threshold of a sweep
 *     dear            ours */
#include "repro/train.h"

#include <math.h>
#include <stdio.h>

const char *const repro_dear_models[5] = {"resnet50", "densenet201", "inceptionv4", "bert-base",
                                          "bert-large"};

/* Milliseconds of one model on one network; a field per column of the table. */
struct row {
    double compute, comm, limit, ideal;
    double wfbp, ddp, tuned, horovod, mgwfbp, bytes, published, dear;
};

/* The step in milliseconds of a policy with its default options. */
static double dear_step(struct repro_report *r, const struct tutti_model *m,
                        const struct repro_net *n, const char *policy, const char *fusion)
{
    return repro_step_ms(r, m, n,
                         &(struct tutti_trainsim_options){.policy = policy, .fusion = fusion});
}

/* UINT64_MAX: tensors are not partitioned. */
static double best_partition(struct repro_report *r, const struct tutti_model *m,
                             const struct repro_net *n)
{
    static const uint64_t sizes[] = {4000000, 16000000, 64000000, UINT64_MAX};
    double best = HUGE_VAL;
    for (size_t i = 0; i < 4; i++) {
        struct tutti_trainsim_options o = {.policy = "bytescheduler", .partition_bytes = sizes[i]};
        best = fmin(best, repro_step_ms(r, m, n, &o));
    }
    return best;
}

/* DeAR's published schedule at its best threshold. Its groups have no small first one. */
static double best_published(struct repro_report *r, const struct tutti_model *m,
                             const struct repro_net *n)
{
    double best = HUGE_VAL;
    for (uint64_t x = 1 << 20; x <= (uint64_t)256 << 20; x *= 2) {
        struct tutti_trainsim_options o = {.policy = "dear",
                                           .order = "published",
                                           .fusion = "threshold",
                                           .threshold_bytes = x,
                                           .first_bytes = x};
        best = fmin(best, repro_step_ms(r, m, n, &o));
    }
    return best;
}

/* `i` describes dear's own run; the values that do not depend on the policy are taken from it. */
static struct row make_row(struct repro_report *r, const struct tutti_model *m,
                           const struct repro_net *n)
{
    struct tutti_trainsim_info i;
    struct row x;
    repro_step(r, m, n, &(struct tutti_trainsim_options){.policy = "dear"}, &i);
    x.compute = (i.forward_us + i.backward_us) / 1e3;
    x.comm = i.comm_us / 1e3;
    x.limit = i.limit_us / 1e3;
    x.ideal = i.ideal_us / 1e3;
    x.dear = i.iteration_us / 1e3;
    x.wfbp = dear_step(r, m, n, "wfbp", NULL);
    x.ddp = dear_step(r, m, n, "bucket", NULL);
    x.tuned = dear_step(r, m, n, "bucket", "search");
    x.horovod = dear_step(r, m, n, "bucket", "waiting");
    x.mgwfbp = dear_step(r, m, n, "mgwfbp", NULL);
    x.bytes = best_partition(r, m, n);
    x.published = best_published(r, m, n);
    return x;
}

/* The published DeAR schedule is not a baseline: it is compared separately. */
static double best_baseline(const struct row *x)
{
    return fmin(fmin(fmin(x->wfbp, x->ddp), fmin(x->tuned, x->horovod)), fmin(x->mgwfbp, x->bytes));
}

/* One row of a network's table, in the order of its columns. */
static void print_row(struct repro_report *r, const char *model, const struct row *x)
{
    repro_text(r, "%s", model);
    repro_real(r, x->compute);
    repro_real(r, x->comm);
    repro_real(r, x->wfbp);
    repro_real(r, x->ddp);
    repro_real(r, x->horovod);
    repro_real(r, x->mgwfbp);
    repro_real(r, x->bytes);
    repro_real(r, x->published);
    repro_real(r, x->dear);
    repro_real(r, x->ideal);
    repro_real(r, x->limit);
}

/* How much faster `after` is, in percent. */
static double gain(double before, double after)
{
    return 100 * (before / after - 1);
}

struct network {
    const char *name, *title, *spec, *algo;
    double claim; /* the abstract's figure, in percent */
};
static const struct network networks[] = {
    {"ring_10g", "64 workers, 10 Gbit/s, rings: step in ms", "star:64@10Gbps,25us", "ring", 83},
    {"ring_100g", "64 workers, 100 Gbit/s, rings: step in ms", "star:64@100Gbps,2us", "ring", 15},
    {"auto_10g", "64 workers, 10 Gbit/s, the planner's algorithms: step in ms",
     "star:64@10Gbps,25us", NULL, 83},
    {"auto_100g", "64 workers, 100 Gbit/s, the planner's algorithms: step in ms",
     "star:64@100Gbps,2us", NULL, 15},
};
enum { NNETWORKS = 4, NMODELS = 5 };

struct results {
    struct row rows[NNETWORKS][NMODELS];
};

/* One table per network; all rows are kept for the comparisons after them. */
static void dear_compute(struct repro_report *r, struct results *x)
{
    for (int n = 0; n < NNETWORKS; n++) {
        struct repro_net net;
        repro_net_open(r, networks[n].spec, networks[n].algo, &net);
        repro_table(r, networks[n].name, networks[n].title,
                    "model|compute|all_reduce|wfbp|ddp|horovod|mgwfbp|bytescheduler|dear_published|"
                    "dear|dear_ideal|limit");
        for (int m = 0; m < NMODELS; m++) {
            struct tutti_model *model = repro_model(r, repro_dear_models[m], 0);
            x->rows[n][m] = make_row(r, model, &net);
            print_row(r, repro_dear_models[m], &x->rows[n][m]);
            tutti_model_free(model);
        }
        repro_net_close(&net);
    }
}

/* How much faster dear is than each baseline, beside the paper's largest figure. */
static void gains(struct repro_report *r, const struct results *x)
{
    repro_table(r, "gains",
                "dear against baselines: faster by percent; what overlap alone can bring (ideal "
                "DeAR against ideal WFBP); the paper's "
                "largest figure",
                "network|model|vs_wfbp|vs_ddp|vs_best_baseline|published_vs_best_baseline|overlap_"
                "alone|paper_up_to");
    for (int n = 0; n < NNETWORKS; n++)
        for (int m = 0; m < NMODELS; m++) {
            const struct row *w = &x->rows[n][m];
            /* Forward is a third of compute (backward takes twice as long); then the closed
             * forms of WFBP and DeAR without start-up costs. */
            double ff = w->compute / 3, bp = w->compute - ff;
            double wfbp = ff + fmax(bp, w->comm),
                   dear = fmax(ff, w->comm / 2) + fmax(bp, w->comm / 2);
            repro_text(r, "%s", networks[n].name);
            repro_text(r, "%s", repro_dear_models[m]);
            repro_real(r, gain(w->wfbp, w->dear));
            repro_real(r, gain(w->ddp, w->dear));
            repro_real(r, gain(best_baseline(w), w->dear));
            repro_real(r, gain(best_baseline(w), w->published));
            repro_real(r, gain(wfbp, dear));
            repro_real(r, networks[n].claim);
        }
}

/* What must hold. -0.05 % is rounding. */
static void dear_judge(struct repro_report *r, const struct results *x)
{
    double least = HUGE_VAL, most[NNETWORKS] = {0}, over_wfbp[NNETWORKS] = {0};
    double against_published = HUGE_VAL, above = HUGE_VAL;
    for (int n = 0; n < NNETWORKS; n++)
        for (int m = 0; m < NMODELS; m++) {
            const struct row *w = &x->rows[n][m];
            double g = gain(best_baseline(w), w->dear);
            least = fmin(least, g);
            most[n] = fmax(most[n], g);
            over_wfbp[n] = fmax(over_wfbp[n], gain(w->wfbp, w->dear));
            against_published = fmin(against_published, gain(w->published, w->dear));
            above = fmin(above, w->dear / w->limit);
        }
    repro_check(r, least > -0.05,
                "dear is nowhere slower than the best tuned baseline (least gain %.2f %%)", least);
    repro_check(r, against_published > -0.05,
                "nor than the published schedule at its best threshold (least gain %.2f %%)",
                against_published);
    repro_check(r, above >= 1 - 1e-9, "no step is below the limit max(c, ff+bp) (least ratio %.4f)",
                above);
    repro_note(r,
               "Largest gain of ours over the best tuned baseline: rings %.0f %% at 10 Gbit/s and "
               "%.0f %% at 100 Gbit/s, with the "
               "planner's algorithms %.0f %% "
               "and %.0f %%; the abstract says up to 83 %% and 15 %%.",
               most[0], most[1], most[2], most[3]);
    repro_table(r, "claims",
                "The abstract's claims and ours: faster by percent, most of five models",
                "claim|paper|vs_wfbp|vs_best_baseline");
    for (int n = 0; n < NNETWORKS; n++) {
        repro_text(r, "%s", networks[n].title);
        repro_text(r, "up to %.0f", networks[n].claim);
        repro_real(r, over_wfbp[n]);
        repro_real(r, most[n]);
    }
}

/* The whole experiment: what is public, the tables, the comparisons, what must hold. */
void repro_dear(struct repro_report *r)
{
    struct results x = {0};
    repro_note(r, "DeAR (ICDCS 2023). Public is the abstract: up to 83 %% (10 Gbit/s) and 15 %% "
                  "(100 Gbit/s) over the state of the art, 64 "
                  "GPUs, five models. "
                  "Compute times here are derived, latencies assumed; everything is computed by "
                  "the model, nothing measured.");
    repro_note(r, "Overlap alone cannot bring 83 %%: with backward = 2 forward the bound is 25 %% "
                  "over ideal WFBP. What goes beyond comes "
                  "from fewer and cheaper "
                  "collectives, against baselines that start too many: see vs_wfbp (a ring per "
                  "layer, no fusion).");
    dear_compute(r, &x);
    gains(r, &x);
    dear_judge(r, &x);
    repro_dear_fusion(r);
}
