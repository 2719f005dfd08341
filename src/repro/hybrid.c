/* hybrid.c - repro hybrid: "hybrid all-reduce with layer overlapping" (KIPS 2021), with the gain of
 * overlap and the gain of the algorithms kept apart.
 *
 * The abstract claims up to 33 % less training time than "baseline PyTorch" (public text); which
 * baseline that is, and everything in the paper's tables, is not known to us.
 *
 *     overlap     none: all layers after the backward pass
 *                 per layer: each as soon as its gradient is there
 *     algorithm   ring
 *                 butterfly: halving-doubling (the paper: 2 log N steps) or recursive doubling
 *                 hybrid: butterfly for convolutions, ring for fully connected layers
 *
 * Compute times are derived (300 GFLOP/s, an assumption), backward twice forward. */
#include "repro/train.h"

#include <math.h>
#include <stdio.h>

static const char model_name[] = "alexnet-onetower";
static const uint32_t batches[] = {128, 192, 256, 512};
enum { NBATCHES = 4 };

/* The steps of one model on one network, in milliseconds. */
struct steps {
    double none;                                   /* ring, after the backward pass */
    double ring, halving, doubling;                /* per layer */
    double hybrid, hybrid_rd, cheapest;            /* per layer */
    double bucket, dear;                           /* ring */
    double ring_comm, hybrid_comm, hybrid_rd_comm; /* the stream alone */
};

/* The step with per-layer overlap and one algorithm for all layers. */
static void per_layer(struct repro_report *r, const struct tutti_model *m, const char *spec,
                      const char *algo, double *ret)
{
    struct repro_net n;
    repro_net_open(r, spec, algo, &n);
    *ret = repro_step_ms(r, m, &n, &(struct tutti_trainsim_options){.policy = "wfbp"});
    repro_net_close(&n);
}

/* Everything that is priced with rings: hybrid policies choose per layer themselves. */
static void with_ring(struct repro_report *r, const struct tutti_model *m, const char *spec,
                      struct steps *s)
{
    struct repro_net n;
    struct tutti_trainsim_info i;
    repro_net_open(r, spec, "ring", &n);
    repro_step(r, m, &n, &(struct tutti_trainsim_options){.policy = "wfbp"}, &i);
    s->ring = i.iteration_us / 1e3;
    s->ring_comm = i.stream_us / 1e3;
    /* Without overlap the three times add up. */
    s->none = (i.forward_us + i.backward_us + i.stream_us) / 1e3;
    s->bucket = repro_step_ms(r, m, &n, &(struct tutti_trainsim_options){.policy = "bucket"});
    s->dear = repro_step_ms(r, m, &n, &(struct tutti_trainsim_options){.policy = "dear"});
    repro_step(r, m, &n, &(struct tutti_trainsim_options){.policy = "hybrid"}, &i);
    s->hybrid = i.iteration_us / 1e3;
    s->hybrid_comm = i.stream_us / 1e3;
    repro_step(r, m, &n,
               &(struct tutti_trainsim_options){.policy = "hybrid", .recursive_doubling = true},
               &i);
    s->hybrid_rd = i.iteration_us / 1e3;
    s->hybrid_rd_comm = i.stream_us / 1e3;
    s->cheapest =
        repro_step_ms(r, m, &n, &(struct tutti_trainsim_options){.policy = "hybrid-cost"});
    repro_net_close(&n);
}

/* Everything for one model, batch and network. */
static struct steps all_steps(struct repro_report *r, const char *model, uint32_t batch,
                              const char *spec)
{
    struct steps s = {0};
    struct tutti_model *m = repro_model(r, model, batch);
    with_ring(r, m, spec, &s);
    per_layer(r, m, spec, "halving-doubling", &s.halving);
    per_layer(r, m, spec, "recursive-doubling", &s.doubling);
    tutti_model_free(m);
    return s;
}

/* The time saved, in percent of `before`. */
static double saved(double before, double after)
{
    return 100 * (1 - after / before);
}

/* The paper's case: 4 nodes, 1 Gbit/s; its figure beside ours, against both baselines. The
 * constants in the checks are computed by hand. */
static void hybrid_claim(struct repro_report *r)
{
    struct steps s[NBATCHES];
    repro_table(r, "claim",
                "4 nodes, 1 Gbit/s: step in ms, and the time that hybrid with layer overlap saves; "
                "the paper: up to 33 %",
                "batch|no_overlap|bucket|hybrid|dear|saved_vs_no_overlap_percent|of_it_overlap_"
                "percent|of_it_algorithm_percent|saved_vs_"
                "bucket_percent");
    for (int i = 0; i < NBATCHES; i++) {
        s[i] = all_steps(r, model_name, batches[i], "star:4@1Gbps,30us");
        repro_count(r, batches[i]);
        repro_real(r, s[i].none);
        repro_real(r, s[i].bucket);
        repro_real(r, s[i].hybrid);
        repro_real(r, s[i].dear);
        repro_real(r, saved(s[i].none, s[i].hybrid));
        repro_real(r, saved(s[i].none, s[i].ring));
        repro_real(r, saved(s[i].none, s[i].hybrid) - saved(s[i].none, s[i].ring));
        repro_real(r, saved(s[i].bucket, s[i].hybrid));
    }
    repro_check(r, fabs(saved(s[0].none, s[0].hybrid) - 33) < 1.5,
                "batch 128: %.1f %% saved against no overlap (the abstract: up to 33 %%); %.2f %% "
                "against bucketed overlap",
                saved(s[0].none, s[0].hybrid), saved(s[0].bucket, s[0].hybrid));
    repro_check(r, saved(s[1].none, s[1].hybrid) > 38 && saved(s[1].none, s[1].hybrid) < 40,
                "batch 192, where backward and communication take equally long: %.1f %% saved, "
                "below the bound of 40 %% for any overlap "
                "with backward",
                saved(s[1].none, s[1].hybrid));
    repro_check(r,
                fabs(s[0].ring_comm - 2997.0) < 0.1 && fabs(s[0].hybrid_comm - 2996.4) < 0.1 &&
                    fabs(s[0].hybrid_rd_comm - 3055.8) < 0.1,
                "communication per layer: ring %.1f ms, hybrid %.1f ms, with recursive doubling "
                "%.1f ms (by hand: 2997.0, 2996.4, 3055.8)",
                s[0].ring_comm, s[0].hybrid_comm, s[0].hybrid_rd_comm);
}

/* One combination of the factors. *worst: the largest ratio of the cheapest choice per layer to
 * the best fixed one. */
static void factorial_row(struct repro_report *r, unsigned ranks, const char *rate,
                          const char *latency, uint32_t batch, double *worst)
{
    char spec[64];
    snprintf(spec, sizeof spec, "star:%u@%s,%s", ranks, rate, latency);
    struct steps s = all_steps(r, model_name, batch, spec);
    repro_count(r, ranks);
    repro_text(r, "%s", rate);
    repro_text(r, "%s", latency);
    repro_count(r, batch);
    repro_real(r, s.none);
    repro_real(r, s.ring);
    repro_real(r, s.hybrid);
    repro_real(r, s.cheapest);
    repro_real(r, s.bucket);
    repro_real(r, s.dear);
    repro_real(r, saved(s.none, s.ring));
    repro_real(r, saved(s.ring, s.hybrid));
    double excess = s.cheapest / fmin(fmin(s.ring, s.halving), fmin(s.hybrid, s.hybrid_rd));
    *worst = excess > *worst ? excess : *worst;
}

/* All combinations of the factors; --quick takes fewer latencies and batches. */
static void factorial(struct repro_report *r)
{
    static const unsigned ranks[] = {2, 3, 4, 8};
    static const char *const rates[] = {"100Mbps", "1Gbps", "10Gbps"}, *const latencies[] = {
                                                                           "30us", "80us", "530us"};
    size_t nlat = repro_is_quick(r) ? 1 : 3, nbatch = repro_is_quick(r) ? 2 : NBATCHES;
    double worst = 0;
    repro_table(r, "factorial",
                "overlap x algorithm x ranks x rate x latency (of a link; +0, +0.1, +1 ms a "
                "message) x batch: step in ms, and what each "
                "factor saves alone",
                "ranks|rate|latency|batch|none_ring|layer_ring|layer_hybrid|layer_cheapest|bucket_"
                "ring|dear_ring|overlap_saves_percent|"
                "algorithm_saves_percent");
    for (size_t i = 0; i < 4; i++)
        for (size_t k = 0; k < 3; k++)
            for (size_t l = 0; l < nlat; l++)
                for (size_t b = 0; b < nbatch; b++)
                    factorial_row(r, ranks[i], rates[k], latencies[l], batches[b], &worst);
    repro_check(r, worst <= 1 + 1e-9,
                "the cheapest algorithm per layer is never slower than ring, halving-doubling or "
                "either hybrid (largest ratio %.6f)",
                worst);
}

/* Where algorithms matter: many small tensors, high latency, many ranks. */
static void regime(struct repro_report *r)
{
    static const char *const specs[] = {"star:4@1Gbps,30us", "star:64@10Gbps,25us",
                                        "star:64@10Gbps,525us"};
    struct steps s = {0};
    repro_table(
        r, "regime",
        "DenseNet-201 (402 small layers), batch 32: per-layer overlap, step in ms by algorithm",
        "network|no_overlap|ring|halving_doubling|recursive_doubling|hybrid|cheapest|algorithm_"
        "saves_percent|bucket_ring|dear_ring");
    for (size_t i = 0; i < 3; i++) {
        s = all_steps(r, "densenet201", 32, specs[i]);
        repro_text(r, "%s", specs[i]);
        repro_real(r, s.none);
        repro_real(r, s.ring);
        repro_real(r, s.halving);
        repro_real(r, s.doubling);
        repro_real(r, s.hybrid);
        repro_real(r, s.cheapest);
        repro_real(r, saved(s.ring, s.hybrid));
        repro_real(r, s.bucket);
        repro_real(r, s.dear);
    }
    repro_check(r, saved(s.ring, s.hybrid) > 50 && s.bucket < s.hybrid,
                "with 64 ranks and 1 ms a message the butterfly saves %.0f %% of ring's step, and "
                "plain buckets of 25 MiB still beat it",
                saved(s.ring, s.hybrid));
}

/* The same steps as in hybrid_claim, as rows for a picture. */
static void plot_batches(struct repro_report *r)
{
    static const char *const names[] = {"no overlap", "bucket", "hybrid", "dear"};
    repro_table(r, "batches", "4 nodes, 1 Gbit/s, one-tower AlexNet: step by batch",
                "batch|policy|step_ms");
    for (int i = 0; i < NBATCHES; i++) {
        struct steps s = all_steps(r, model_name, batches[i], "star:4@1Gbps,30us");
        const double ms[] = {s.none, s.bucket, s.hybrid, s.dear};
        for (int k = 0; k < 4; k++) {
            repro_count(r, batches[i]);
            repro_text(r, "%s", names[k]);
            repro_real(r, ms[k]);
        }
    }
    repro_plot(r, "batch", "step_ms", "policy");
}

/* The notes come first: what is public, what is assumed, and the result in one sentence. */
void repro_hybrid(struct repro_report *r)
{
    repro_note(r, "Hybrid all-reduce with layer overlapping (KIPS 2021). Public is the abstract: "
                  "up to 33 %% less training time than "
                  "baseline PyTorch; "
                  "which baseline is not stated in anything we could read.");
    repro_note(r, "Model: AlexNet ungrouped in one tower (62,378,344 parameters): its shares of "
                  "parameters are those the paper prints. Compute "
                  "times are "
                  "derived from multiply-accumulates at an assumed 300 GFLOP/s, backward = 2 "
                  "forward; collectives by the planner (level step).");
    repro_note(r, "Result: overlap against no overlap brings the 33 %%; the choice of algorithm "
                  "brings hundredths of a percent at 4 ranks "
                  "and 1 Gbit/s, "
                  "and nothing against DDP's buckets, which overlap already.");
    hybrid_claim(r);
    factorial(r);
    regime(r);
    plot_batches(r);
}
