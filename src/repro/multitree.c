/* multitree.c - MultiTree (ISCA 2021) against the baselines it was published with and against
 * better ones, on tori, meshes, fat-trees and BiGraph.
 *
 * The paper's text was not at hand: its claims are those of the abstract; parameters, baselines and
 * step counts are those of the authors' public simulator. Times of this file are for the data alone
 * (no heads of packets, no aggregation); multitree_packets.c has what packets add. Each schedule is
 * timed in the way of issuing that is better for it (sim.c); pipelined ones only at level flow,
 * because level step does not see segments of one step wait for those of another.
 *
 * A ring on a grid runs on a Hamiltonian cycle, as the authors' does. Such a ring has a cable of
 * its own for every pair of neighbours, so that it takes exactly the time of the same ring on
 * the network ring:N, which is the one that is run. */
#include "repro/multitree.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Algorithms that run on a Hamiltonian cycle of a grid. */
static bool is_ring(const char *algo)
{
    return !strcmp(algo, "ring") || !strcmp(algo, "bi-ring");
}

static bool is_grid(const char *kind)
{
    return !strncmp(kind, "torus", 5) || !strncmp(kind, "mesh", 4);
}

/* Ranks of a network; 0 after a failure, which the report keeps. */
static uint32_t ranks_of(struct repro_report *r, const char *kind)
{
    struct tutti_topo *t = NULL;
    struct tutti_error err;
    if (tutti_topo_parse(kind, &t, &err)) {
        repro_fail(r, &err);
        return 0;
    }
    uint32_t n = tutti_topo_ranks(t);
    tutti_topo_free(t);
    return n;
}

/* The network that an algorithm is run on, with links: ring:N in place of a grid for rings. */
static void put_spec(struct repro_report *r, const char *kind, const char *algo, char *buf,
                     size_t cap)
{
    if (is_ring(algo) && is_grid(kind))
        snprintf(buf, cap, "ring:%u" MT_LINK, ranks_of(r, kind));
    else
        snprintf(buf, cap, "%s" MT_LINK, kind);
}

double repro_multitree_us(struct repro_report *r, const char *kind, const char *algo,
                          const char *options, uint64_t bytes)
{
    char spec[96], with[96];
    put_spec(r, kind, algo, spec, sizeof spec);
    snprintf(with, sizeof with, "%s%ssegments=1", options ? options : "", options ? "," : "");
    return repro_best_us(r, &(struct repro_case){spec, algo, with, bytes}, NULL);
}

/* ---- steps ---- */

/* The numbers of steps against those of the authors' code. A schedule has two phases of equal
 * length. */
static void show_steps(struct repro_report *r)
{
    static const struct {
        const char *kind, *options;
        uint32_t steps;
    } golden[] = {
        {"torus:4x4", "ending=paper", 5},          {"torus:8x8", "ending=paper", 17},
        {"torus:8x8,ports=1", "ending=paper", 63}, {"mesh:4x4", "ending=paper", 10},
        {"mesh:8x8", "ending=paper", 33},          {"mesh:8x8", "ending=paper,order=paper", 34},
        {"mesh:4x4", "ending=fixed", 8},           {"mesh:8x8", "ending=fixed", 32},
        {"fattree:8,2", "ending=paper", 63},       {"bigraph:4x8", "ending=paper", 31},
        {"bigraph:4x16", "ending=paper", 63},
    };
    bool equal = true, alone = true;
    repro_table(
        r, "steps",
        "Steps of one phase (reduce-scatter or all-gather), and what the authors' code gives",
        "network|options|steps|expected|max_link_contention");
    for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) {
        struct tutti_sim_result x;
        char spec[96], options[96];
        snprintf(spec, sizeof spec, "%s" MT_LINK, golden[i].kind);
        snprintf(options, sizeof options, "%s,segments=1", golden[i].options);
        if (!repro_price(r, spec, "multitree", options, 1 << 20, &x))
            return;
        equal = equal && x.steps == 2 * golden[i].steps;
        alone = alone && x.max_link_contention == 1;
        repro_text(r, "%s", golden[i].kind);
        repro_text(r, "%s", golden[i].options);
        repro_count(r, x.steps / 2);
        repro_count(r, golden[i].steps);
        repro_count(r, x.max_link_contention);
    }
    repro_check(r, equal,
                "steps are those of the authors' code (ending=paper) and the lower bound on meshes "
                "(ending=fixed)");
    repro_check(r, alone, "MultiTree: no link carries two messages in a step");
}

/* ---- baselines ---- */

/* Kinds of networks, as bits. */
enum place {
    ON_TORUS = 1,
    ON_MESH = 2,
    ON_FATTREE = 4,
    ON_BIGRAPH = 8,
    ON_GRID = ON_TORUS | ON_MESH,
    ANYWHERE = 15
};

/* An algorithm and the networks that it is compared on. */
struct rival {
    const char *name, *algo, *options;
    unsigned places;
    bool pipelined; /* with the planner's best number of segments, at level flow */
    bool ours;
};
static const struct rival rivals[] = {
    {"ring", "ring", NULL, ANYWHERE, false, false},
    {"bi-ring", "bi-ring", NULL, ON_GRID, false, false},
    {"2D-ring", "bucket", "variant=paper", ON_TORUS, false, false},
    {"bucket", "bucket", NULL, ON_TORUS, false, false},
    {"double tree", "double-tree", NULL, ANYWHERE, true, false},
    {"halving-doubling", "halving-doubling", NULL, ON_FATTREE | ON_BIGRAPH, false, false},
    {"HDRM", "hdrm", NULL, ON_BIGRAPH, false, false},
    {"Swing", "swing", NULL, ANYWHERE, false, false},
    {"MultiTree", "multitree", NULL, ANYWHERE, false, true},
    {"MultiTree, pipelined", "multitree", NULL, ANYWHERE, true, true},
};
enum { NRIVALS = sizeof rivals / sizeof rivals[0], PLAIN = NRIVALS - 2, RING = 0, RING2D = 2 };

/* The bit of enum place for a network, by its name; 0: none of them. */
static unsigned place_of(const char *kind)
{
    static const char *const names[] = {"torus", "mesh", "fattree", "bigraph"};
    for (unsigned i = 0; i < 4; i++)
        if (!strncmp(kind, names[i], strlen(names[i])))
            return 1u << i;
    return 0;
}

/* Microseconds; NaN when it is not for this network. */
static double rival_us(struct repro_report *r, const struct rival *v, const char *kind,
                       uint64_t bytes)
{
    const struct tutti_sim_options flow = {0};
    struct tutti_sim_info x;
    char spec[96];
    if (!(v->places & place_of(kind)))
        return NAN;
    if (!v->pipelined)
        return repro_multitree_us(r, kind, v->algo, v->options, bytes);
    put_spec(r, kind, v->algo, spec, sizeof spec);
    return repro_simulate(r, &(struct repro_case){spec, v->algo, v->options, bytes}, &flow, &x)
               ? x.time_us
               : NAN;
}

static double bound_of(struct repro_report *r, const char *kind, uint64_t bytes)
{
    char spec[96];
    snprintf(spec, sizeof spec, "%s" MT_LINK, kind);
    return repro_bound_us(r, spec, bytes);
}

/* The times of all rivals on one network and size, the best baseline, and the best of ours.
 * NRIVALS: none. */
struct field {
    double us[NRIVALS];
    size_t best, ours;
};

/* Runs all rivals on one network and size. */
static struct field run_field(struct repro_report *r, const char *kind, uint64_t bytes)
{
    struct field f = {.best = NRIVALS, .ours = NRIVALS};
    for (size_t i = 0; i < NRIVALS; i++) {
        size_t *least = rivals[i].ours ? &f.ours : &f.best;
        f.us[i] = rival_us(r, &rivals[i], kind, bytes);
        if (!isnan(f.us[i]) && (*least == NRIVALS || f.us[i] < f.us[*least]))
            *least = i;
    }
    return f;
}

/* The remark beside the best baseline. */
static const char *multitree_remark(const struct field *f)
{
    if (f->us[f->best] < f->us[f->ours])
        return "MultiTree loses to it";
    return f->us[f->best] < f->us[PLAIN] ? "MultiTree loses, pipelined wins" : "best baseline";
}

/* The rows of one network and size, and a last one with the lower bound. */
static void add_field(struct repro_report *r, const struct field *f, const char *kind,
                      uint64_t bytes)
{
    double bound = bound_of(r, kind, bytes);
    for (size_t i = 0; i < NRIVALS; i++) {
        if (isnan(f->us[i]))
            continue;
        repro_text(r, "%s", kind);
        repro_count(r, bytes);
        repro_text(r, "%s", rivals[i].name);
        repro_real(r, f->us[i]);
        repro_real(r, f->us[i] / f->us[PLAIN]);
        repro_real(r, f->us[i] / bound);
        repro_text(r, "%s", i == f->best ? multitree_remark(f) : "");
    }
    repro_text(r, "%s", kind);
    repro_count(r, bytes);
    repro_text(r, "lower bound");
    repro_real(r, bound);
    repro_real(r, bound / f->us[PLAIN]);
    repro_real(r, 1);
    repro_text(r, "no schedule can beat it");
}

/* All networks and sizes; counts the cases in which a baseline wins. */
static void show_baselines(struct repro_report *r)
{
    static const char *const all[] = {"torus:4x4", "mesh:4x4",    "bigraph:4x8", "torus:8x8",
                                      "mesh:8x8",  "fattree:8,2", "bigraph:4x16"};
    static const uint64_t sizes[] = {32 << 10, 64 << 20, 512 << 10, 4 << 20};
    const size_t nkinds = repro_is_quick(r) ? 3 : 7, nsizes = repro_is_quick(r) ? 2 : 4;
    size_t cases = 0, lost = 0;
    repro_table(r, "baselines",
                "All-reduce, 16 GB/s and 150 ns per link: microseconds, times MultiTree's, times "
                "the lower bound",
                "network|bytes|algorithm|time_us|vs_multitree|vs_bound|remark");
    for (size_t k = 0; k < nkinds; k++)
        for (size_t i = 0; i < nsizes; i++) {
            struct field f = run_field(r, all[k], sizes[i]);
            if (f.best == NRIVALS || f.ours == NRIVALS)
                return;
            cases++;
            lost += f.us[f.best] < f.us[f.ours];
            add_field(r, &f, all[k], sizes[i]);
        }
    repro_note(r,
               "Baselines: the best of them beats MultiTree, pipelined or not, in %zu of %zu "
               "cases; the table names it.",
               lost, cases);
}

/* ---- the torus of the claims ---- */

/* Adds one size to the findings. Sizes come in rising order, so that the last call has the
 * largest. */
static void note_torus(struct mt_findings *f, const struct field *x)
{
    double best = x->us[x->best] / x->us[PLAIN];
    f->ring_least = fmin(f->ring_least, x->us[RING] / x->us[PLAIN]);
    f->ring2d_large = x->us[RING2D] / x->us[PLAIN];
    f->best_large = best;
    f->best_large_rival = rivals[x->best].name;
    if (best < f->ring_least_best) {
        f->ring_least_best = best;
        f->ring_least_rival = rivals[x->best].name;
    }
}

/* The torus of the claims, all sizes: fills the findings and checks them. */
static void show_torus(struct repro_report *r, struct mt_findings *f)
{
    f->ring_least = f->ring_least_best = INFINITY;
    repro_table(r, "sizes", "torus:8x8, 32 KiB .. 64 MiB",
                "algorithm|bytes|time_us|vs_multitree|algbw_GBs|busbw_GBs|ratio_to_bound");
    repro_plot(r, "bytes", "time_us", "algorithm");
    repro_plot(r, "bytes", "busbw_GBs", "algorithm");
    repro_plot(r, "bytes", "ratio_to_bound", "algorithm");
    for (uint64_t bytes = 32 << 10; bytes <= 64 << 20; bytes *= 2) {
        struct field x = run_field(r, "torus:8x8", bytes);
        if (x.best == NRIVALS || x.ours == NRIVALS)
            return;
        note_torus(f, &x);
        double bound = bound_of(r, "torus:8x8", bytes);
        for (size_t i = 0; i < NRIVALS; i++) {
            if (isnan(x.us[i]))
                continue;
            repro_text(r, "%s", rivals[i].name);
            repro_count(r, bytes);
            repro_real(r, x.us[i]);
            repro_real(r, x.us[i] / x.us[PLAIN]);
            repro_real(r, (double)bytes / x.us[i] / 1e3);
            repro_real(r, repro_busbw(bytes, 64, x.us[i]));
            repro_real(r, x.us[i] / bound);
        }
    }
    repro_check(r, f->ring_least >= 3.6,
                "torus:8x8, 32 KiB .. 64 MiB: at least 3.6 times as fast as the ring (least %.4g)",
                f->ring_least);
    repro_check(
        r, f->ring2d_large >= 1.6,
        "torus:8x8, 64 MiB: at least 1.6 times as fast as the 2D-ring, both without heads (%.4g)",
        f->ring2d_large);
}

/* Explains why one of the baselines is timed in lockstep. */
static void show_issue(struct repro_report *r)
{
    const struct tutti_sim_options flow = {0};
    const struct repro_case c = {"torus:8x8" MT_LINK, "bucket", "variant=paper,segments=1",
                                 64 << 20};
    struct tutti_sim_result step;
    struct tutti_sim_info x;
    if (!repro_price(r, c.spec, c.algo, c.options, c.bytes, &step) ||
        !repro_simulate(r, &c, &flow, &x))
        return;
    repro_note(
        r,
        "2D-ring on torus:8x8, 64 MiB: %.0f us in lockstep (level step), %.0f us when ranks "
        "run ahead (level flow). A rank may begin "
        "the second dimension with the blocks that its first has already given it; that "
        "message then shares a link with another part "
        "still in its first dimension, and any message that waits for that one loses. The authors "
        "time one dimension and double it, which is "
        "lockstep; the baseline is taken at its best.",
        step.time_us, x.time_us);
}

/* ---- the whole ---- */

static void add_claim(struct repro_report *r, const char *what, const char *paper, double same,
                      double best)
{
    repro_text(r, "%s", what);
    repro_text(r, "%s", paper);
    repro_real(r, same);
    repro_real(r, best);
}

/* The abstract's claims beside ours, and beside the best baseline. */
static void show_claims(struct repro_report *r, const struct mt_findings *f)
{
    repro_table(r, "claims",
                "The abstract's claims (networks and sizes not stated there), ours, and ours "
                "against the best baseline of the table",
                "claim|paper|ours|vs_best_baseline");
    add_claim(r, "speedup over ring: torus:8x8, least of all sizes", "2.3", f->ring_least,
              f->ring_least_best);
    add_claim(r, "speedup over the 2D-ring: torus:8x8, 64 MiB", "1.56", f->ring2d_large,
              f->best_large);
    add_claim(r, "training time less than with ring, most, %", "81", f->train_ring, f->train_best);
    add_claim(r, "training time less than with the 2D-ring, most, %", "30", f->train_2d,
              f->train_best);
    repro_note(r, "Against the best baseline: least of all sizes is against %s; at 64 MiB %s %s.",
               f->ring_least_rival, f->best_large_rival,
               f->best_large < 1 ? "is faster than MultiTree" : "is the best and slower");
}

void repro_multitree(struct repro_report *r)
{
    struct mt_findings f = {0};
    repro_note(r, "The ISCA 2021 paper's text was not available: claims are the abstract's; link "
                  "speed, baselines, interfaces and step counts "
                  "are those of the authors' public simulator.");
    repro_note(r, "Ring and bi-ring on tori and meshes run on a Hamiltonian cycle, which is the "
                  "network ring:N; they use one and "
                  "two of the four links of a rank, as published. Whole chunks at the faster of "
                  "levels step and flow; pipelined schedules at level flow. No heads of packets, "
                  "no aggregation, unless a table says so.");
    repro_note(r, "TTO (HPCA 2024) is not among the baselines: its three link-disjoint trees on a "
                  "mesh cannot all reach the corner that is "
                  "no root, which has two links to arrive by (derived, from the public "
                  "description: three roots at corners); an all-reduce of "
                  "all ranks needs that. Its published cycles stand in the mesh table.");
    show_issue(r);
    show_steps(r);
    show_torus(r, &f);
    show_baselines(r);
    repro_multitree_packets(r);
    repro_multitree_mesh(r);
    repro_multitree_scaling(r);
    repro_multitree_training(r, &f);
    show_claims(r, &f);
}
