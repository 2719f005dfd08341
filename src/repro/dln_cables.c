/* dln_cables.c - 1,024 ranks with equal cable: DLN with SHD against tori, fat-trees and BiGraph.
 *
 * Ports cost little; cables and the switch ports at their ends cost much, and a full DLN of 1,024
 * has 9,728 cables where a torus has 2,048. Two comparisons are fair:
 *
 *     equal count       all cables have 100 Gbit/s; DLN(N,t), DLN(N/h,t) with h hosts on a switch,
 *                       or 2D-DLN(X,Y;t) gets the largest t with no more cables than the other
 *                       network (t = 0 is the ring, or the torus itself)
 *     equal bandwidth   every network keeps its cables, and their rates add up to the same
 *
 * Options of SHD (directions, copies) are those with its least price, as a user would find them. */
#include "repro/dln.h"

#include <math.h>
#include <stdio.h>

/* A network with an algorithm on it. */
struct cabled {
    const char *name, *kind, *algo, *options;
};

/* The number of cables of a network; false after the failure was noted in the report. */
static bool cables_of(struct repro_report *r, const char *spec, uint32_t *ret)
{
    struct tutti_topo *t = NULL;
    struct tutti_topo_info i;
    struct tutti_error err;
    tutti_status st = tutti_topo_parse(spec, &t, &err);
    if (!st)
        st = tutti_topo_info(t, &i, &err);
    if (st)
        repro_fail(r, &err);
    else
        *ret = i.links;
    tutti_topo_free(t);
    return !st;
}

/* ---- equal bandwidth of all cables ---- */

static const struct cabled equal_bandwidth[] = {
    {"DLN full", "dln:1024", "shd", "direction=both,copies=9"},
    {"DLN t=1", "dln:1024,t=1", "shd", "direction=both"},
    {"DLN t=3", "dln:1024,t=3", "shd", "direction=both,copies=3"},
    {"2D-DLN t=2", "dln2d:32x32,t=2", "shd", "direction=both,copies=4,segments=1"},
    {"2D-DLN full", "dln2d:32x32", "shd", "direction=both,copies=8,segments=1"},
    {"torus, bucket", "torus:32x32", "bucket", "segments=1"},
    {"torus, Swing", "torus:32x32", "swing", NULL},
    {"torus, MultiTree", "torus:32x32", "multitree", NULL},
    {"ring, bi-ring", "ring:1024", "bi-ring", NULL},
    {"hypercube, HD", "hypercube:1024", "halving-doubling", NULL},
    {"fat-tree, HD", "fattree:32,2", "halving-doubling", NULL},
};
enum { NBANDWIDTH = sizeof equal_bandwidth / sizeof equal_bandwidth[0] };

/* Gbit/s of each cable: that of 2,048 cables of 100 Gbit/s is spread over those that there are. */
static double rate_of(uint32_t cables)
{
    return 204800.0 / cables;
}

/* Is the case left out, because the algorithm is not there or --quick has no time for it? */
static bool left_out(const struct repro_report *r, const struct cabled *c)
{
    return !repro_has_algo(c->algo) || (repro_is_quick(r) && repro_dln_is_slow(c->kind, c->algo));
}

/* Microseconds of a case; NAN: it is left out, or failed. */
static double price_spread(struct repro_report *r, const struct cabled *c, uint64_t bytes,
                           uint32_t *ret_cables)
{
    struct tutti_sim_result x;
    char spec[96];
    if (left_out(r, c) || !cables_of(r, c->kind, ret_cables))
        return NAN;
    snprintf(spec, sizeof spec, "%s@%.3fGbps,126ns", c->kind, rate_of(*ret_cables));
    return repro_price(r, spec, c->algo, c->options, bytes, &x) ? x.time_us : (double)NAN;
}

/* The rows of one size. All times come first, because each row is compared with the best. */
static void add_spread(struct repro_report *r, uint64_t bytes)
{
    double us[NBANDWIDTH], best = INFINITY;
    uint32_t cables[NBANDWIDTH] = {0};
    for (size_t i = 0; i < NBANDWIDTH; i++) {
        us[i] = price_spread(r, &equal_bandwidth[i], bytes, &cables[i]);
        best = us[i] < best ? us[i] : best;
    }
    for (size_t i = 0; i < NBANDWIDTH; i++) {
        if (isnan(us[i]))
            continue;
        repro_count(r, bytes);
        repro_text(r, "%s", equal_bandwidth[i].name);
        repro_count(r, cables[i]);
        repro_real(r, rate_of(cables[i]));
        repro_real(r, us[i]);
        repro_real(r, us[i] / best);
        if (us[i] == best)
            repro_note(r, "Equal cable bandwidth, %llu bytes: %s wins with %.1f us.",
                       (unsigned long long)bytes, equal_bandwidth[i].name, us[i]);
    }
}

static void show_bandwidth(struct repro_report *r)
{
    static const uint64_t bytes[] = {65536, 1 << 20, 100000000};
    repro_note(r, "Equal cable bandwidth: every network has the total bandwidth of 2,048 cables of "
                  "100 Gbit/s (a 32x32 torus), spread over its own cables; all ports.");
    repro_table(r, "cables", "1,024 ranks at equal total cable bandwidth",
                "bytes|case|cables|link_Gbps|time_us|vs_best");
    for (size_t b = 0; b < (repro_is_quick(r) ? 1 : sizeof bytes / sizeof bytes[0]); b++)
        add_spread(r, bytes[b]);
}

/* ---- equal count of cables ---- */

enum { NFAMILIES = 5, MOST_T = 9 };

/* Networks of 1,024 ranks that differ only in t. */
struct family {
    const char *kind;
    uint32_t t_most;
    uint32_t cables[MOST_T + 1]; /* by t */
};

/* The member of a family with t jumps, without links. */
static void family_spec(const struct family *f, uint32_t t, char spec[64])
{
    snprintf(spec, 64, "%s,t=%u", f->kind, t);
}

/* Fills f->cables for all t; stops at the first failure, which the report keeps. */
static void count_cables(struct repro_report *r, struct family *f)
{
    for (uint32_t t = 0; t <= f->t_most; t++) {
        char spec[64];
        family_spec(f, t, spec);
        if (!cables_of(r, spec, &f->cables[t]))
            return;
    }
}

/* The largest t whose network has at most so many cables. False when not even t = 0 has so few. */
static bool largest_within(const struct family *f, uint32_t cables, uint32_t *ret_t)
{
    uint32_t t = 0;
    while (t < f->t_most && f->cables[t + 1] <= cables)
        t++;
    *ret_t = t;
    return f->cables[0] <= cables;
}

/* The best that SHD can do with at most so many cables. */
struct ours {
    char kind[64];
    uint32_t cables;
    const char *options;
    double us;
};

/* Prices the largest member of one family with each set of options; keeps it when it beats
 * *best. */
static void try_family(struct repro_report *r, const struct family *f, uint32_t cables,
                       uint64_t bytes, struct ours *best)
{
    static const char *const options[] = {
        "segments=1", "direction=both,segments=1", "direction=both,copies=2,segments=1",
        "direction=both,copies=3,segments=1", "direction=both,copies=6,segments=1"};
    struct ours x = {.us = INFINITY};
    char spec[96];
    uint32_t t;
    if (!largest_within(f, cables, &t))
        return;
    family_spec(f, t, x.kind);
    x.cables = f->cables[t];
    snprintf(spec, sizeof spec, "%s@100Gbps,126ns", x.kind);
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct tutti_sim_result cost;
        if (!repro_price(r, spec, "shd", options[i], bytes, &cost) || cost.time_us >= x.us)
            continue;
        x.us = cost.time_us;
        x.options = options[i];
    }
    if (x.us < best->us)
        *best = x;
}

/* The best of all families with at most so many cables. */
static struct ours find_ours(struct repro_report *r, const struct family *families, size_t n,
                             uint32_t cables, uint64_t bytes)
{
    struct ours best = {.us = INFINITY};
    for (size_t i = 0; i < n; i++)
        try_family(r, &families[i], cables, bytes, &best);
    return best;
}

/* One row: the rival, and the best of ours with no more cables. */
static void add_pair(struct repro_report *r, const struct cabled *rival, uint32_t cables,
                     uint64_t bytes, const struct ours *us)
{
    struct tutti_sim_result cost;
    char spec[96];
    snprintf(spec, sizeof spec, "%s@100Gbps,126ns", rival->kind);
    if (!isfinite(us->us) || !repro_price(r, spec, rival->algo, rival->options, bytes, &cost))
        return;
    repro_count(r, bytes);
    repro_text(r, "%s", rival->name);
    repro_count(r, cables);
    repro_real(r, cost.time_us);
    repro_text(r, "%s", us->kind);
    repro_count(r, us->cables);
    repro_text(r, "%s", us->options);
    repro_real(r, us->us);
    repro_text(r, "%s", us->us <= cost.time_us ? "DLN+SHD" : rival->name);
    repro_real(r, 100 * (fmax(us->us, cost.time_us) / fmin(us->us, cost.time_us) - 1));
}

static const struct cabled equal_count[] = {
    {"ring, bi-ring", "ring:1024", "bi-ring", NULL},
    {"torus, bucket", "torus:32x32", "bucket", "segments=1"},
    {"torus, 2D-ring", "torus:32x32", "hierarchical", NULL},
    {"torus, Swing", "torus:32x32", "swing", NULL},
    {"torus, MultiTree", "torus:32x32", "multitree", NULL},
    {"fat-tree, HD", "fattree:32,2", "halving-doubling", NULL},
    {"fat-tree, double tree", "fattree:32,2", "double-tree", NULL},
    {"BiGraph, HDRM", "bigraph:16x64", "hdrm", NULL},
    {"hypercube, HD", "hypercube:1024", "halving-doubling", NULL},
};

/* The rows of one size. Neighbouring rows have the same network: ours is searched once for each
 * number of cables. */
static void add_counted(struct repro_report *r, const struct family *families, size_t nfamilies,
                        uint64_t bytes)
{
    uint32_t cables = 0, before = 0;
    struct ours us = {.us = INFINITY};
    for (size_t i = 0; i < sizeof equal_count / sizeof equal_count[0]; i++) {
        if (left_out(r, &equal_count[i]) || !cables_of(r, equal_count[i].kind, &cables))
            continue;
        if (cables != before)
            us = find_ours(r, families, nfamilies, cables, bytes);
        before = cables;
        add_pair(r, &equal_count[i], cables, bytes, &us);
    }
}

/* Equal numbers of cables: each rival beside the best of ours. */
static void show_count(struct repro_report *r)
{
    /* --quick: only the first */
    static const uint64_t bytes[] = {64 << 10, 1 << 10, 1 << 20, 16 << 20, 256 << 20};
    struct family families[NFAMILIES] = {{.kind = "dln:128,h=8", .t_most = 6},
                                         {.kind = "dln:1024", .t_most = MOST_T},
                                         {.kind = "dln:256,h=4", .t_most = 7},
                                         {.kind = "dln:64,h=16", .t_most = 5},
                                         {.kind = "dln2d:32x32", .t_most = 4}};
    const size_t nfamilies = repro_is_quick(r) ? 2 : NFAMILIES;
    for (size_t i = 0; i < nfamilies; i++)
        count_cables(r, &families[i]);
    repro_note(r,
               "Equal number of cables: all of 100 Gbit/s, those to hosts included. DLN(1024,t), "
               "the same with 4, 8 or 16 hosts on a switch of a smaller DLN, and 2D-DLN(32x32,t) "
               "each have the largest t with no more cables than the other network; the fastest "
               "is shown (with --quick the first two of these are tried). Hosts on switches have "
               "one port (as in fat-tree and BiGraph), others all their links.");
    repro_table(r, "cable_count",
                "1,024 ranks with (at most) equal numbers of cables of equal speed",
                "bytes|case|cables|time_us|ours|our_cables|our_options|our_us|winner|by_percent");
    for (size_t b = 0; b < (repro_is_quick(r) ? 1 : sizeof bytes / sizeof bytes[0]); b++)
        add_counted(r, families, nfamilies, bytes[b]);
}

void repro_dln_cables(struct repro_report *r)
{
    show_count(r);
    show_bandwidth(r);
}
