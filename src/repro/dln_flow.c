/* dln_flow.c - DLN with SHD and its rivals from 1 KiB to 256 MiB: level step to 65,536 ranks, level
 * flow beside it.
 *
 * At level step all ranks wait for the slowest after every step. At level flow a message is sent as
 * soon as its data are there, and messages that meet on a link share it. Where no two messages meet
 * and all have one length, the two agree: on the full DLN, SHD takes the closed form at both.
 * Elsewhere ranks that run ahead may gain (trees of uneven depth) or lose (messages of different
 * steps meet on a link).
 *
 * Every network has all its ports; the name of a row says how many SHD uses at once. Chunks are
 * whole (segments=1), so that both levels time the same few messages; only the double tree is
 * pipelined, because it depends on that. On networks that look the same from every rank, and with
 * chunks of equal length, rank 0 stands for all at level flow. Runs that would take more than 2 GiB
 * or a minute are left out, and their rows say so. */
#include "repro/dln.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_AT_FLOW = 4096 }; /* most ranks of a run of all of them at level flow */

enum network { DLN, DLN2D, RING, TORUS, FATTREE, FATTREE_4, BIGRAPH, HYPERCUBE, NNETWORKS };

/* The networks of one number of ranks, by enum network. */
static const struct scale {
    uint32_t ranks, log;
    const char *kinds[NNETWORKS];
} scales[] = {
    {64,
     6,
     {"dln:64", "dln2d:8x8", "ring:64", "torus:8x8", "fattree:8,2", "fattree:8,2,over=4",
      "bigraph:4x16", "hypercube:64"}},
    {256,
     8,
     {"dln:256", "dln2d:16x16", "ring:256", "torus:16x16", "fattree:16,2", "fattree:16,2,over=4",
      "bigraph:8x32", "hypercube:256"}},
    {1024,
     10,
     {"dln:1024", "dln2d:32x32", "ring:1024", "torus:32x32", "fattree:32,2", "fattree:32,2,over=4",
      "bigraph:16x64", "hypercube:1024"}},
    {4096,
     12,
     {"dln:4096", "dln2d:64x64", "ring:4096", "torus:64x64", "fattree:64,2", "fattree:64,2,over=4",
      "bigraph:32x128", "hypercube:4096"}},
    {16384,
     14,
     {"dln:16384", "dln2d:128x128", "ring:16384", "torus:128x128", "fattree:128,2",
      "fattree:128,2,over=4", "bigraph:64x256", "hypercube:16384"}},
    {65536,
     16,
     {"dln:65536", "dln2d:256x256", "ring:65536", "torus:256x256", "fattree:256,2",
      "fattree:256,2,over=4", "bigraph:128x512", "hypercube:65536"}},
};
enum { NSCALES = sizeof scales / sizeof scales[0] };

/* --quick: the first two */
static const uint64_t sizes[] = {64 << 10, 256 << 20, 1 << 10, 1 << 20, 16 << 20};

/* One row of the table for each scale and size. */
struct entrant {
    const char *name;
    enum network network;
    const char *algo, *options; /* options: NULL: as many copies as `fewer` says */
    /* both directions, log2(ranks) - fewer copies */
    uint32_t fewer;
    uint32_t step_to; /* most ranks at level step */
    /* most ranks of a full run at level flow: for all sizes, for the second size, for the first
     * one */
    uint32_t flow_to[3];
    const char *takes; /* the cost of a full run with more ranks, for the row */
};

static const struct entrant entrants[] = {
    {"DLN+SHD, 1 port", DLN, "shd", "segments=1", 0, 65536, {4096, 4096, 4096}, "seconds"},
    {"DLN+SHD, 2 ports",
     DLN,
     "shd",
     "direction=both,segments=1",
     0,
     65536,
     {4096, 4096, 4096},
     "seconds"},
    {"DLN+SHD, 4 ports",
     DLN,
     "shd",
     "direction=both,copies=2,segments=1",
     0,
     65536,
     {4096, 4096, 4096},
     "seconds"},
    {"DLN+SHD, all ports", DLN, "shd", NULL, 1, 65536, {1024, 1024, 4096}, "about 30 s"},
    {"2D-DLN+SHD, 1 port", DLN2D, "shd", "segments=1", 0, 65536, {1024, 4096, 4096}, "seconds"},
    {"2D-DLN+SHD, 2 ports",
     DLN2D,
     "shd",
     "direction=both,segments=1",
     0,
     16384,
     {1024, 4096, 4096},
     "seconds"},
    {"2D-DLN+SHD, all ports", DLN2D, "shd", NULL, 2, 4096, {1024, 1024, 4096}, "about 36 s"},
    {"ring on ring", RING, "ring", "segments=1", 0, 65536, {1024, 1024, 1024}, "2.9 GB"},
    {"bi-ring on ring", RING, "bi-ring", "segments=1", 0, 65536, {1024, 1024, 1024}, "5.8 GB"},
    {"2D-ring on torus",
     TORUS,
     "hierarchical",
     "segments=1",
     0,
     16384,
     {1024, 4096, 4096},
     "seconds"},
    {"bucket on torus", TORUS, "bucket", "segments=1", 0, 4096, {1024, 4096, 4096}, "about 11 s"},
    {"Swing on torus", TORUS, "swing", "segments=1", 0, 4096, {1024, 4096, 4096}, "seconds"},
    {"MultiTree on torus",
     TORUS,
     "multitree",
     "segments=1",
     0,
     1024,
     {1024, 1024, 1024},
     "about 6 GB"},
    {"HD on fat-tree",
     FATTREE,
     "halving-doubling",
     "segments=1",
     0,
     65536,
     {1024, 4096, 4096},
     "seconds"},
    {"HD on fat-tree 4:1",
     FATTREE_4,
     "halving-doubling",
     "segments=1",
     0,
     65536,
     {1024, 4096, 4096},
     "seconds"},
    {"double tree on fat-tree",
     FATTREE,
     "double-tree",
     "",
     0,
     65536,
     {64, 256, 1024},
     "seconds to minutes"},
    {"HDRM on BiGraph", BIGRAPH, "hdrm", "segments=1", 0, 65536, {1024, 4096, 4096}, "seconds"},
    {"HD on hypercube",
     HYPERCUBE,
     "halving-doubling",
     "segments=1",
     0,
     65536,
     {1024, 4096, 4096},
     "seconds"},
};
enum { NENTRANTS = sizeof entrants / sizeof entrants[0], PLAIN_SHD = 0 };

/* A summary of the table. */
struct tally {
    /* SHD on the full DLN: the largest distance from the closed form, as a fraction */
    double off_form;
    uint32_t contention; /* its most messages on a link */
    uint32_t ranks;      /* the most ranks that it was run with */
    double gained, lost; /* the largest differences of level flow to level step, as fractions */
    char gains[96], loses[96];
};

/* 2 log2 N latencies of 126 ns and 2 (1 - 1/N) n bytes at 12.5 GB/s. */
static double closed_us(const struct scale *s, uint64_t bytes)
{
    return 2 * s->log * 0.126 + 2 * (1 - 1.0 / s->ranks) * (double)bytes / 12.5e9 * 1e6;
}

/* The times at both levels (NaN: left out, refused, or not in this build), and the reason when
 * one is left out. */
struct pair {
    double step, flow;
    bool at_most; /* step is an upper bound */
    uint32_t contention;
    char why[REPRO_CELL];
};

/* Level step, or the reason why not in p->why. */
static void time_step(struct repro_report *r, const struct entrant *e, const struct scale *s,
                      const struct repro_case *c, struct pair *p)
{
    struct tutti_sim_result step;
    struct repro_answer answer;
    if (s->ranks > e->step_to)
        snprintf(p->why, sizeof p->why,
                 "both levels: run to %u ranks, more would take gigabytes or minutes", e->step_to);
    else if (!repro_price_why(r, c, &step, &answer))
        snprintf(p->why, sizeof p->why, "%.*s", (int)sizeof p->why - 1, answer.why);
    else {
        p->step = step.time_us;
        p->at_most = answer.at_most;
        if (answer.at_most)
            snprintf(p->why, sizeof p->why, "step: at most; ");
    }
}

/* Level flow of all ranks where that is affordable, else of rank 0 where it can stand for all.
 * `size` is the index in sizes[], on which flow_to depends. */
static void time_flow(struct repro_report *r, const struct entrant *e, const struct scale *s,
                      const struct repro_case *c, size_t size, struct pair *p)
{
    const struct tutti_sim_options at_flow = {0};
    struct tutti_sim_info flow;
    size_t len = strlen(p->why);
    bool all = s->ranks <= e->flow_to[size == 0 ? 2 : size == 1],
         alike = e->network == DLN || e->network == RING;
    if (all ? repro_simulate(r, c, &at_flow, &flow)
            : alike && repro_simulate_one(r, c, &at_flow, &flow)) {
        p->flow = flow.time_us;
        p->contention = flow.max_link_contention;
    } else if (all) {
        snprintf(p->why + len, sizeof p->why - len, "flow: the run was refused");
    } else if (s->ranks > MOST_AT_FLOW) {
        snprintf(p->why + len, sizeof p->why - len,
                 "flow: beyond %d ranks only where rank 0 can stand for all", MOST_AT_FLOW);
    } else {
        snprintf(p->why + len, sizeof p->why - len, "flow: a run of all ranks takes %s%s", e->takes,
                 s->ranks <= e->flow_to[2] ? "; see the first sizes" : "");
    }
}

/* Both levels of one case. Level flow is tried only when level step gave a time. */
static struct pair time_both(struct repro_report *r, const struct entrant *e, const struct scale *s,
                             size_t size)
{
    struct pair p = {.step = NAN, .flow = NAN};
    char spec[96], copies[64];
    snprintf(spec, sizeof spec, "%s@100Gbps,126ns", s->kinds[e->network]);
    snprintf(copies, sizeof copies, "direction=both,copies=%u,segments=1", s->log - e->fewer);
    const char *options = e->options ? e->options : copies;
    const struct repro_case c = {spec, e->algo, *options ? options : NULL, sizes[size]};
    if (!repro_has_algo(e->algo)) {
        snprintf(p.why, sizeof p.why, "not in this build");
        return p;
    }
    time_step(r, e, s, &c, &p);
    if (!isnan(p.step))
        time_flow(r, e, s, &c, size, &p);
    return p;
}

/* One row of the table; no difference is shown when level step is only an upper bound. */
static void add_row(struct repro_report *r, const struct entrant *e, const struct scale *s,
                    uint64_t bytes, const struct pair *p)
{
    repro_count(r, s->ranks);
    repro_count(r, bytes);
    repro_text(r, "%s", e->name);
    repro_real(r, p->step);
    repro_real(r, p->flow);
    repro_real(r, p->at_most ? NAN : 100 * (p->flow / p->step - 1));
    repro_text(r, "%s", p->why);
}

/* Compares with the closed form, which assumes equal chunks: sizes that do not divide are
 * skipped. */
static void note_form(struct tally *t, const struct scale *s, uint64_t bytes, const struct pair *p)
{
    if (bytes / 4 % s->ranks || (isnan(p->flow) && s->ranks > MOST_AT_FLOW))
        return;
    t->off_form =
        isnan(p->flow) ? INFINITY : fmax(t->off_form, fabs(p->flow / closed_us(s, bytes) - 1));
    t->contention = p->contention > t->contention ? p->contention : t->contention;
    t->ranks = s->ranks > t->ranks ? s->ranks : t->ranks;
}

/* Level step that is only an upper bound says nothing about running ahead. */
static void note_case(struct tally *t, const struct entrant *e, const struct scale *s,
                      uint64_t bytes, const struct pair *p)
{
    double ahead = p->at_most ? 0 : 1 - p->flow / p->step;
    if (e == &entrants[PLAIN_SHD])
        note_form(t, s, bytes, p);
    if (ahead > t->gained) {
        t->gained = ahead;
        snprintf(t->gains, sizeof t->gains, "%s, %u ranks, %llu bytes", e->name, s->ranks,
                 (unsigned long long)bytes);
    }
    if (-ahead > t->lost) {
        t->lost = -ahead;
        snprintf(t->loses, sizeof t->loses, "%s, %u ranks, %llu bytes", e->name, s->ranks,
                 (unsigned long long)bytes);
    }
}

/* All scales, sizes and entrants; --quick runs all entrants only at the first scale. */
void repro_dln_flow(struct repro_report *r)
{
    const bool quick = repro_is_quick(r);
    const size_t nsizes = quick ? 2 : sizeof sizes / sizeof sizes[0], nscales = quick ? 4 : NSCALES;
    struct tally t = {0};
    repro_table(
        r, "flow",
        "Level step to 65,536 ranks and level flow beside it, each network with all its ports",
        "ranks|bytes|case|step_us|flow_us|difference_percent|left_out");
    for (size_t n = 0; n < nscales; n++)
        for (size_t b = 0; b < nsizes; b++)
            for (size_t i = 0; i < (quick && n ? PLAIN_SHD + 1 : NENTRANTS); i++) {
                struct pair p = time_both(r, &entrants[i], &scales[n], b);
                note_case(&t, &entrants[i], &scales[n], sizes[b], &p);
                add_row(r, &entrants[i], &scales[n], sizes[b], &p);
            }
    if (quick)
        repro_note(r, "Level flow, --quick: above %u ranks only %s is run.", scales[0].ranks,
                   entrants[PLAIN_SHD].name);
    if (t.gained > 0)
        repro_note(r, "Level flow: running ahead gains most for %s (%.3g%% less than level step).",
                   t.gains, 100 * t.gained);
    if (t.lost > 0)
        repro_note(r, "Level flow: running ahead costs most for %s (%.3g%% more than level step).",
                   t.loses, 100 * t.lost);
    repro_check(r, t.contention == 1 && t.off_form < 1e-5,
                "level flow: SHD on the full DLN meets no other message and takes the closed form, "
                "to %u ranks (worst %.4f%%)",
                t.ranks, 100 * t.off_form);
}
