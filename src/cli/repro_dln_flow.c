/* repro_dln_flow.c - DLN with SHD and what it is compared with at level flow, 64 to 4,096 ranks, beside level step.
 *
 * Level step has all ranks wait for the slowest after every step. At level flow a message goes out when its data are there, and messages
 * that meet on a link share it. Where no two messages meet and all are of one length, the two agree: on the full DLN, SHD takes the closed
 * form at both. Elsewhere ranks that run ahead may gain (trees of uneven depth) or lose (messages of different steps meet on a link).
 *
 * Every network has all its ports; a name says how many SHD drives at once. Whole chunks (segments=1), so that both levels time the same
 * few messages; only the double tree is pipelined, for it is nothing else. A case that would take more than some seconds is left out by
 * name, with the number of ranks that it is run to. */
#include "cli/repro.h"

#include <math.h>
#include <stdio.h>

enum network { DLN, DLN2D, RING, TORUS, FATTREE, FATTREE_4, BIGRAPH, HYPERCUBE, NNETWORKS };

static const struct scale {
    uint32_t ranks, log;
    const char *kinds[NNETWORKS];
} scales[] = {
    {64, 6, {"dln:64", "dln2d:8x8", "ring:64", "torus:8x8", "fattree:8,2", "fattree:8,2,over=4", "bigraph:4x16", "hypercube:64"}},
    {256, 8, {"dln:256", "dln2d:16x16", "ring:256", "torus:16x16", "fattree:16,2", "fattree:16,2,over=4", "bigraph:8x32", "hypercube:256"}},
    {1024,
     10,
     {"dln:1024", "dln2d:32x32", "ring:1024", "torus:32x32", "fattree:32,2", "fattree:32,2,over=4", "bigraph:16x64", "hypercube:1024"}},
    {4096,
     12,
     {"dln:4096", "dln2d:64x64", "ring:4096", "torus:64x64", "fattree:64,2", "fattree:64,2,over=4", "bigraph:32x128", "hypercube:4096"}},
};
enum { NSCALES = sizeof scales / sizeof scales[0] };

struct entrant {
    const char *name;
    enum network network;
    const char *algo, *options; /* options: NULL for those of `fewer` */
    uint32_t fewer;             /* copies in both directions, so many fewer than log2 of the ranks */
    uint32_t flow_to, step_to;  /* ranks */
};

static const struct entrant entrants[] = {
    {"DLN+SHD, 1 port", DLN, "shd", "segments=1", 0, 4096, 4096},
    {"DLN+SHD, 2 ports", DLN, "shd", "direction=both,segments=1", 0, 4096, 4096},
    {"DLN+SHD, 4 ports", DLN, "shd", "direction=both,copies=2,segments=1", 0, 1024, 4096},
    {"DLN+SHD, all ports", DLN, "shd", NULL, 1, 1024, 4096},
    {"2D-DLN+SHD, 1 port", DLN2D, "shd", "segments=1", 0, 4096, 4096},
    {"2D-DLN+SHD, 2 ports", DLN2D, "shd", "direction=both,segments=1", 0, 4096, 4096},
    {"2D-DLN+SHD, all ports", DLN2D, "shd", NULL, 2, 1024, 4096},
    {"ring on ring", RING, "ring", "segments=1", 0, 1024, 4096},
    {"bi-ring on ring", RING, "bi-ring", "segments=1", 0, 1024, 4096},
    {"2D-ring on torus", TORUS, "hierarchical", "segments=1", 0, 4096, 4096},
    {"bucket on torus", TORUS, "bucket", "segments=1", 0, 1024, 4096},
    {"Swing on torus", TORUS, "swing", "segments=1", 0, 4096, 4096},
    {"MultiTree on torus", TORUS, "multitree", "segments=1", 0, 1024, 1024},
    {"HD on fat-tree", FATTREE, "halving-doubling", "segments=1", 0, 4096, 4096},
    {"HD on fat-tree 4:1", FATTREE_4, "halving-doubling", "segments=1", 0, 4096, 4096},
    {"double tree on fat-tree", FATTREE, "double-tree", "", 0, 64, 4096},
    {"HDRM on BiGraph", BIGRAPH, "hdrm", "segments=1", 0, 4096, 4096},
    {"HD on hypercube", HYPERCUBE, "halving-doubling", "segments=1", 0, 4096, 4096},
};
enum { NENTRANTS = sizeof entrants / sizeof entrants[0], PLAIN_SHD = 0 };

/* What the table came to. */
struct tally {
    double off_form;     /* the most that SHD on the full DLN was off the closed form */
    uint32_t contention; /* its most messages on a link */
    double gained, lost; /* the most by running ahead, as parts of level step */
    char gains[96], loses[96];
};

static double closed_us(const struct scale *s, uint64_t bytes)
{
    return 2 * s->log * 0.126 + 2 * (1 - 1.0 / s->ranks) * (double)bytes / 12.5e9 * 1e6;
}

/* Times of both levels; not a number: left out, refused, or not in this build. */
struct pair {
    double step, flow;
    uint32_t contention;
};

static struct pair time_both(struct repro_report *r, const struct entrant *e, const struct scale *s, uint64_t bytes)
{
    const struct tutti_sim_options at_flow = {0};
    struct pair p = {.step = NAN, .flow = NAN};
    struct tutti_sim_result step;
    struct tutti_sim_info flow;
    char spec[96], copies[64];
    snprintf(spec, sizeof spec, "%s@100Gbps,126ns", s->kinds[e->network]);
    snprintf(copies, sizeof copies, "direction=both,copies=%u,segments=1", s->log - e->fewer);
    const char *options = e->options ? e->options : copies;
    const struct repro_case c = {spec, e->algo, *options ? options : NULL, bytes};
    if (!repro_has_algo(e->algo))
        return p;
    if (s->ranks <= e->step_to && repro_price(r, c.spec, c.algo, c.options, bytes, &step))
        p.step = step.time_us;
    if (s->ranks <= e->flow_to && repro_simulate(r, &c, &at_flow, &flow)) {
        p.flow = flow.time_us;
        p.contention = flow.max_link_contention;
    }
    return p;
}

static void add_row(struct repro_report *r, const struct entrant *e, const struct scale *s, uint64_t bytes, const struct pair *p)
{
    repro_count(r, s->ranks);
    repro_count(r, bytes);
    repro_text(r, "%s", e->name);
    repro_real(r, p->step);
    repro_real(r, p->flow);
    repro_real(r, 100 * (p->flow / p->step - 1));
}

static void note_case(struct tally *t, const struct entrant *e, const struct scale *s, uint64_t bytes, const struct pair *p)
{
    double ahead = 1 - p->flow / p->step;
    if (e == &entrants[PLAIN_SHD]) {
        t->off_form = isnan(p->flow) ? INFINITY : fmax(t->off_form, fabs(p->flow / closed_us(s, bytes) - 1));
        t->contention = p->contention > t->contention ? p->contention : t->contention;
    }
    if (ahead > t->gained) {
        t->gained = ahead;
        snprintf(t->gains, sizeof t->gains, "%s, %u ranks, %llu bytes", e->name, s->ranks, (unsigned long long)bytes);
    }
    if (-ahead > t->lost) {
        t->lost = -ahead;
        snprintf(t->loses, sizeof t->loses, "%s, %u ranks, %llu bytes", e->name, s->ranks, (unsigned long long)bytes);
    }
}

static void note_left_out(struct repro_report *r, uint32_t most)
{
    char names[640] = "";
    size_t len = 0;
    for (size_t i = 0; i < NENTRANTS; i++) {
        const struct entrant *e = &entrants[i];
        if (e->flow_to < most && len < sizeof names)
            len += (size_t)snprintf(names + len, sizeof names - len, "%s%s (to %u ranks%s)", len ? "; " : "", e->name, e->flow_to,
                                    e->step_to < most ? ", level step as well" : "");
    }
    if (len)
        repro_note(r, "Level flow, left out above some ranks because a run takes many seconds or gigabytes: %s.", names);
}

void repro_dln_flow(struct repro_report *r)
{
    static const uint64_t sizes[] = {64 << 10, 100000000, 1 << 20, 16 << 20}; /* quick: the first two */
    const bool quick = repro_is_quick(r);
    const size_t nsizes = quick ? 2 : sizeof sizes / sizeof sizes[0];
    struct tally t = {0};
    repro_table(r, "flow", "Level flow beside level step, each network with all its ports",
                "ranks|bytes|case|step_us|flow_us|difference_percent");
    for (size_t n = 0; n < NSCALES; n++)
        for (size_t b = 0; b < nsizes; b++)
            for (size_t i = 0; i < (quick && n ? PLAIN_SHD + 1 : NENTRANTS); i++) {
                struct pair p = time_both(r, &entrants[i], &scales[n], sizes[b]);
                note_case(&t, &entrants[i], &scales[n], sizes[b], &p);
                if (!isnan(p.step) || !isnan(p.flow))
                    add_row(r, &entrants[i], &scales[n], sizes[b], &p);
            }
    if (quick)
        repro_note(r, "Level flow, --quick: above %u ranks only %s is run.", scales[0].ranks, entrants[PLAIN_SHD].name);
    else
        note_left_out(r, scales[NSCALES - 1].ranks);
    if (t.gained > 0)
        repro_note(r, "Level flow: running ahead gains most for %s (%.3g%% less than level step).", t.gains, 100 * t.gained);
    if (t.lost > 0)
        repro_note(r, "Level flow: running ahead costs most for %s (%.3g%% more than level step).", t.loses, 100 * t.lost);
    repro_check(r, t.contention == 1 && t.off_form < 1e-5,
                "level flow: SHD on the full DLN meets no other message and takes the closed form, to %u ranks (worst %.2g%%)",
                scales[NSCALES - 1].ranks, 100 * t.off_form);
}
