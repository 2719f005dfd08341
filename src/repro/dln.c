/* dln.c - distributed loop networks (DLN) with shift halving-doubling (SHD): the networks, the
 * closed forms, and the comparison with other algorithms on rings, tori, fat-trees and BiGraph at
 * equal injection ports. dln_cables.c compares at equal cable, dln_flow.c at level flow.
 *
 * The paper (CCGrid 2021) was not at hand: DLN(N,t) = a ring plus jumps N/2 .. N/2^t, and SHD =
 * cyclic shifts in place of pairs, are working definitions. All links have 100 Gbit/s and 126
 * ns. */
#include "repro/dln.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Bytes per second and latency of LINK, for the closed forms. */
static const double rate = 12.5e9, alpha_us = 0.126;

#define LINK "@100Gbps,126ns"

/* ---- networks ---- */

/* One row: the properties of a network, and its cable when it can be laid out on a floor. */
static void add_network(struct repro_report *r, const char *spec)
{
    struct tutti_topo *t = NULL;
    struct tutti_topo_info i;
    struct tutti_topo_floor f;
    struct tutti_error err;
    if (repro_counts(r))
        return;
    tutti_status st = tutti_topo_parse(spec, &t, &err);
    if (!st)
        st = tutti_topo_info(t, &i, &err);
    if (st) {
        repro_fail(r, &err);
        tutti_topo_free(t);
        return;
    }
    bool laid = tutti_topo_floor(t, 16, &f);
    repro_text(r, "%s", spec);
    repro_count(r, i.ranks);
    repro_count(r, i.degree);
    repro_count(r, i.diameter);
    repro_real(r, i.mean_path);
    repro_count(r, i.links);
    repro_count(r, i.bisection);
    repro_text(r, "%s", i.bisection_exact ? "exact" : "at most");
    repro_real(r, laid ? f.total_m / 1e3 : NAN);
    repro_real(r, laid ? f.max_m : NAN);
    tutti_topo_free(t);
}

/* Properties of the networks that are compared: degree, diameter, bisection, cable. */
static void show_networks(struct repro_report *r)
{
    static const char *const specs[] = {
        "ring:64",        "torus:8x8",      "hypercube:64", "dln:64",          "dln:64,t=3",
        "dln2d:8x8",      "dsn:64",         "ring:1024",    "torus:32x32",     "hypercube:1024",
        "dln:1024",       "dln:1024,t=3",   "dln2d:32x32",  "dln2d:32x32,t=2", "dsn:1024",
        "torus:64x64",    "hypercube:4096", "dln:4096",     "dln:4096,t=5",    "dln2d:64x64",
        "dln2d:64x64,t=2"};
    repro_table(
        r, "networks", "Networks (cable on a floor of racks of 16, see tutti-topology(5))",
        "network|ranks|degree|diameter|mean_path|cables|bisection|bisection_is|cable_km|longest_m");
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++)
        add_network(r, specs[i]);
}

/* ---- closed forms ---- */

/* Full DLN: the price against the closed form, and the gain of using both directions of the
 * links. */
static void show_full(struct repro_report *r)
{
    const uint64_t bytes = UINT64_C(100) << 20;
    double worst = 0, least_gain = INFINITY;
    uint32_t contention = 0;
    repro_table(r, "full", "Full DLN, 100 MiB, one segment: T = 2 L alpha + 2 (1-1/N) n beta",
                "ranks|closed_form_us|time_us|max_link_contention|both_directions_us|gain");
    for (uint32_t n = 64; n <= 65536; n *= 4) {
        struct tutti_sim_result one, both;
        char spec[64];
        snprintf(spec, sizeof spec, "dln:%u" LINK, n);
        double closed = 2 * log2(n) * alpha_us + 2 * (1 - 1.0 / n) * (double)bytes / rate * 1e6;
        if (!repro_price(r, spec, "shd", "segments=1", bytes, &one) ||
            !repro_price(r, spec, "shd", "direction=both,segments=1", bytes, &both))
            return;
        worst = fmax(worst, fabs(one.time_us / closed - 1));
        least_gain = fmin(least_gain, one.transfer_us / both.transfer_us);
        contention = one.max_link_contention > contention ? one.max_link_contention : contention;
        repro_count(r, n);
        repro_real(r, closed);
        repro_real(r, one.time_us);
        repro_count(r, one.max_link_contention);
        repro_real(r, both.time_us);
        repro_real(r, one.transfer_us / both.transfer_us);
    }
    repro_check(r, contention == 1, "full DLN: at most one message on a link in a step");
    repro_check(r, worst < 1e-3, "full DLN: time within 0.1%% of the closed form (worst %.4f%%)",
                100 * worst);
    repro_check(r, least_gain >= 1.9,
                "both directions have at least 1.9 times the bandwidth of one (least %.4g)",
                least_gain);
}

/* DLN with only t jumps: shorter shifts go over the ring and share its links, which F(t) counts. */
static void show_truncated(struct repro_report *r)
{
    const uint64_t bytes = UINT64_C(64) << 20;
    double worst = 0;
    repro_table(
        r, "truncated",
        "DLN(N,t), one segment: bandwidth factor of a phase, F(t) = 1 + (log2 N - t - 2) / 2^(t+1)",
        "ranks|t|degree|F|measured|error_percent");
    for (uint32_t log = 10; log <= 12; log += 2)
        for (uint32_t t = 0; t + 1 < log; t++) {
            struct tutti_sim_result x;
            char spec[64];
            snprintf(spec, sizeof spec, "dln:%u,t=%u" LINK, 1u << log, t);
            double f = 1 + ((double)log - t - 2) / (double)(2u << t);
            if (!repro_price(r, spec, "shd", "segments=1", bytes, &x))
                return;
            double measured = x.transfer_us / (2 * (double)bytes / rate * 1e6);
            worst = fmax(worst, fabs(measured / f - 1));
            repro_count(r, 1u << log);
            repro_count(r, t);
            repro_count(r, t ? 2 * t + 1 : 2);
            repro_real(r, f);
            repro_real(r, measured);
            repro_real(r, 100 * (measured / f - 1));
        }
    repro_check(r, worst <= 0.01, "truncated DLN: within 1%% of F(t) (worst %.4f%%)", 100 * worst);
}

/* ---- equal ports ---- */

/* A way to all-reduce on some network. A network that lacks the ports is given planes instead: k
 * copies of it, that is k times the rate. */
struct rival {
    const char *name, *kind, *algo;
    const char *options[4]; /* for 1, 2, 4 and all ports; NULL: cannot use so many */
    bool planes;            /* switched: one port, k planes at k ports */
    bool ours;
    bool reference; /* shown, but not a baseline of the comparison */
};

static const struct rival rivals[] = {
    {"DLN+SHD",
     "dln:1024",
     "shd",
     {"", "direction=both", "direction=both,copies=2", "direction=both,copies=9"},
     false,
     true,
     false},
    {"2D-DLN+SHD",
     "dln2d:32x32",
     "shd",
     {"", "direction=both", "direction=both,copies=2,segments=1",
      "direction=both,copies=8,segments=1"},
     false,
     true,
     false},
    {"ring on ring", "ring:1024", "ring", {"", NULL, NULL, NULL}, false, false, false},
    {"bi-ring on ring", "ring:1024", "bi-ring", {NULL, "", "", ""}, false, false, false},
    {"2D-ring on torus",
     "torus:32x32",
     "hierarchical",
     {"", NULL, NULL, NULL},
     false,
     false,
     false},
    {"bucket on torus",
     "torus:32x32",
     "bucket",
     {"segments=1", "segments=1", "segments=1", "segments=1"},
     false,
     false,
     false},
    {"Swing on torus", "torus:32x32", "swing", {"", NULL, NULL, ""}, false, false, false},
    {"MultiTree on torus", "torus:32x32", "multitree", {NULL, NULL, "", NULL}, false, false, false},
    {"HD on fat-tree", "fattree:32,2", "halving-doubling", {"", "", "", ""}, true, false, false},
    {"HD on fat-tree 4:1",
     "fattree:32,2,over=4",
     "halving-doubling",
     {"", "", "", ""},
     true,
     false,
     false},
    {"double tree on fat-tree",
     "fattree:32,2",
     "double-tree",
     {"", "", "", ""},
     true,
     false,
     false},
    {"HDRM on BiGraph", "bigraph:16x64", "hdrm", {"", "", "", ""}, true, false, false},
    {"HD on hypercube", "hypercube:1024", "halving-doubling", {"", "", "", ""}, false, false, true},
};
enum { NRIVALS = sizeof rivals / sizeof rivals[0] };
/* 0: all ports that the network has. */
static const uint32_t port_counts[4] = {1, 2, 4, 0};
static const uint64_t sizes[] = {65536, 524288, 1 << 20, 16 << 20, 100000000};
enum { NSIZES = sizeof sizes / sizeof sizes[0] };

/* Networks and algorithms whose schedules are large or have no closed form. */
bool repro_dln_is_slow(const char *kind, const char *algo)
{
    return !strncmp(kind, "dln2d", 5) || !strcmp(algo, "swing") || !strcmp(algo, "hierarchical");
}

/* Microseconds; NaN when not offered, refused, or not in this build. */
static double rival_us(struct repro_report *r, const struct rival *v, size_t ports, uint64_t bytes)
{
    struct tutti_sim_result x;
    char spec[96];
    uint32_t k = port_counts[ports], planes = v->planes && k ? k : 1;
    if (!v->options[ports] || !repro_has_algo(v->algo) ||
        (repro_is_quick(r) && repro_dln_is_slow(v->kind, v->algo)))
        return NAN;
    if (k && !v->planes)
        snprintf(spec, sizeof spec, "%s,ports=%u" LINK, v->kind, k);
    else
        snprintf(spec, sizeof spec, "%s@%uGbps,126ns", v->kind, 100 * planes);
    return repro_price(r, spec, v->algo, *v->options[ports] ? v->options[ports] : NULL, bytes, &x)
               ? x.time_us
               : NAN;
}

/* The worst cases of the comparison so far. */
struct verdict {
    double behind; /* the most that DLN+SHD was behind the best baseline, as a fraction */
    double ahead;  /* below 1 MiB: the least factor by which it was ahead */
    char worst[96];
};

/* One group of rows: all rivals at one port count and size. The first rival is DLN+SHD, to which
 * the others are compared. */
static void dln_compare(struct repro_report *r, size_t ports, uint64_t bytes, struct verdict *v)
{
    double us[NRIVALS], ours = INFINITY, best = INFINITY;
    const char *winner = "-";
    char label[16];
    snprintf(label, sizeof label, port_counts[ports] ? "%u" : "all", port_counts[ports]);
    for (size_t i = 0; i < NRIVALS; i++) {
        us[i] = rival_us(r, &rivals[i], ports, bytes);
        if (isnan(us[i]))
            continue;
        if (rivals[i].ours && i == 0)
            ours = us[i];
        if (!rivals[i].ours && !rivals[i].reference && us[i] < best) {
            best = us[i];
            winner = rivals[i].name;
        }
    }
    for (size_t i = 0; i < NRIVALS; i++) {
        if (isnan(us[i]))
            continue;
        repro_text(r, "%s", label);
        repro_count(r, bytes);
        repro_text(r, "%s", rivals[i].name);
        repro_real(r, us[i]);
        repro_real(r, us[i] / ours);
    }
    if (ours / best - 1 > v->behind) {
        v->behind = ours / best - 1;
        snprintf(v->worst, sizeof v->worst, "%s ports, %llu bytes, %s", label,
                 (unsigned long long)bytes, winner);
    }
    if (bytes < 1 << 20)
        v->ahead = fmin(v->ahead, best / ours);
}

/* --quick tries only the first and the last size. */
static void show_ports(struct repro_report *r)
{
    struct verdict v = {.behind = -1, .ahead = INFINITY};
    repro_note(r, "Equal ports: a direct network has ports=k declared; a switched one has k "
                  "planes; \"all\": each network with all the "
                  "links it has.");
    repro_table(r, "ports", "1,024 ranks at equal injection ports (time_us; relative to DLN+SHD)",
                "ports|bytes|case|time_us|vs_dln_shd");
    for (size_t k = 0; k < 4; k++)
        for (size_t i = 0; i < NSIZES; i += repro_is_quick(r) ? NSIZES - 1 : 1)
            dln_compare(r, k, sizes[i], &v);
    repro_check(r, v.behind <= 0.01,
                "equal ports: DLN+SHD never more than 1%% behind a baseline (most: %.2f%%, at %s)",
                100 * v.behind, v.worst);
    repro_check(r, v.ahead > 1,
                "equal ports: DLN+SHD ahead of all baselines below 1 MiB (least: %.3f times)",
                v.ahead);
    repro_table(r, "claims",
                "1,024 ranks at equal injection ports: DLN+SHD against the best baseline (the "
                "paper's figures are not known to us)",
                "claim|paper|ours");
    repro_text(r, "below 1 MiB: times as fast as the best baseline, least");
    repro_text(r, "not known");
    repro_real(r, v.ahead);
    repro_text(r, "all sizes: slower than the best baseline, most, %%");
    repro_text(r, "not known");
    repro_real(r, 100 * v.behind);
}

/* Times by size on all ports, for the picture. */
static void show_sizes(struct repro_report *r)
{
    /* rivals by number; --quick shows the first four */
    static const size_t shown[] = {0, 3, 8, 11, 1, 5, 6};
    repro_table(r, "sizes", "1,024 ranks, each network with all its ports",
                "case|bytes|time_us|busbw_GBs|ratio_to_bound");
    repro_plot(r, "bytes", "time_us", "case");
    repro_plot(r, "bytes", "busbw_GBs", "case");
    repro_plot(r, "bytes", "ratio_to_bound", "case");
    for (size_t k = 0; k < (repro_is_quick(r) ? 4 : sizeof shown / sizeof shown[0]); k++)
        for (uint64_t bytes = 1024; bytes <= UINT64_C(256) << 20;
             bytes *= repro_is_quick(r) ? 16 : 4) {
            const struct rival *v = &rivals[shown[k]];
            double us = rival_us(r, v, 3, bytes);
            char spec[96];
            snprintf(spec, sizeof spec, "%s" LINK, v->kind);
            repro_text(r, "%s", v->name);
            repro_count(r, bytes);
            repro_real(r, us);
            repro_real(r, repro_busbw(bytes, 1024, us));
            repro_real(r, us / repro_bound_us(r, spec, bytes));
        }
}

/* ---- half duplex ---- */

struct lane {
    const char *name, *kind, *algo, *options;
};

/* Half duplex: with shifts a cable carries one direction in most steps, so that little is lost;
 * pairs exchange in both directions at once. */
static void show_duplex(struct repro_report *r)
{
    static const struct lane all[] = {
        {"shift, n/2 last", "dln:1024", "shd", "segments=1"},
        {"shift, far first", "dln:1024", "shd", "order=far-first,segments=1"},
        {"shift, both directions", "dln:1024", "shd", "direction=both,segments=1"},
        {"pairs (halving-doubling)", "dln:1024", "halving-doubling", "segments=1"}};
    const uint64_t bytes = UINT64_C(64) << 20;
    repro_table(r, "duplex",
                "Full DLN of 1,024, one segment: transfer time of a phase in units of n beta",
                "case|full_duplex|half_duplex");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        repro_text(r, "%s", all[i].name);
        for (int half = 0; half < 2; half++) {
            struct tutti_sim_result x;
            char spec[64];
            snprintf(spec, sizeof spec, "%s" LINK "%s", all[i].kind, half ? ",half" : "");
            bool ok = repro_price(r, spec, all[i].algo, all[i].options, bytes, &x);
            repro_real(r, ok ? x.transfer_us / (2 * (double)bytes / rate * 1e6) : NAN);
        }
    }
}

/* The parts in the order of the report. */
void repro_dln(struct repro_report *r)
{
    repro_note(r, "Working definitions: DLN(N,t) = ring plus jumps ceil(N/2) .. ceil(N/2^t); "
                  "2D-DLN = DLN along rows and columns; DSN an "
                  "approximation; "
                  "SHD = halving-doubling by cyclic shifts. The CCGrid 2021 paper's text was not "
                  "available: none of its figures are quoted.");
    repro_note(r, "Links 100 Gbit/s, 126 ns (100 ns switch, 26 ns cable, as in the authors' public "
                  "simulator); times of the planner, "
                  "level step, but for the table of level flow.");
    show_networks(r);
    show_full(r);
    show_truncated(r);
    show_ports(r);
    show_sizes(r);
    repro_dln_cables(r);
    show_duplex(r);
    repro_dln_flow(r);
    repro_dln_four(r);
    repro_dln_leaders(r);
}
