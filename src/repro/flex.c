/* flex.c - FlexReduce: all-reduce on irregular hierarchies and uneven links, with uneven parts per
 * rank.
 *
 * The paper's text was not at hand, only its abstract: the networks that it measured and its
 * speed-ups are not known. The rule (equal shares per branch), the optimum, the networks and all
 * figures here are ours. The table of inter-host times is exact arithmetic, computed again by
 * pricing proved schedules. Times are those of level step unless a table says flow. */
#include "repro/repro.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB (UINT64_C(1) << 20)

/* The planner's time in microseconds; NaN when refused. */
static double price_us(struct repro_report *r, const char *spec, const char *algo,
                       const char *options, uint64_t bytes)
{
    struct tutti_sim_result x;
    return repro_price(r, spec, algo, options, bytes, &x) ? x.time_us : (double)NAN;
}

/* ---- hosts of different sizes: the closed forms ---- */

/* Exact times by hand, in units of bytes / NIC rate. */
struct golden {
    const char *hosts;
    double ring, flat, even, branch; /* time * NIC / S */
};

/* Links inside a host are 1000 times faster, so that only the NICs count. */
static void show_hosts(struct repro_report *r)
{
    static const struct golden rows[] = {
        {"(4 2)", 10.0 / 6, 8.0 / 3, 4.0 / 3, 1},       {"(8 4)", 22.0 / 12, 16.0 / 3, 4.0 / 3, 1},
        {"(8 1)", 16.0 / 9, 16.0 / 9, 16.0 / 9, 1},     {"(4 4 2)", 1.8, 4.8, 1.6, 4.0 / 3},
        {"(8 4 2 1)", 28.0 / 15, 112.0 / 15, 3.2, 1.5}, {"(4 4 4 4)", 1.875, 6, 1.5, 1.5},
    };
    static const char *const algos[][2] = {{"ring", NULL},
                                           {"direct", "segments=1"},
                                           {"flex", "shares=even"},
                                           {"flex", "shares=branch,segments=16384"},
                                           {"flex", "segments=16384"}};
    const uint64_t bytes = 100 * MIB; /* the closed forms are limits of many segments */
    double worst = 0;
    repro_table(r, "hosts",
                "Hosts of different sizes: time * NIC / bytes, no latency, ports inside 1000 times "
                "faster; 100 MiB",
                "hosts|ring|flat|even|branch|optimal|branch_vs_ring|branch_vs_even|error_percent");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const double want[] = {rows[i].ring, rows[i].flat, rows[i].even, rows[i].branch,
                               rows[i].branch};
        double got[5], error = 0;
        char spec[80];
        snprintf(spec, sizeof spec, "tree:%s@1000Gbps/1Gbps,0", rows[i].hosts);
        repro_text(r, "%s", rows[i].hosts);
        for (size_t k = 0; k < 5; k++) {
            got[k] =
                price_us(r, spec, algos[k][0], algos[k][1], bytes) * 1e-6 * 1e9 / 8 / (double)bytes;
            error = fmax(error, fabs(got[k] / want[k] - 1));
            repro_real(r, got[k]);
        }
        repro_real(r, got[0] / got[3]);
        repro_real(r, got[2] / got[3]);
        repro_real(r, 100 * error);
        worst = fmax(worst, error);
    }
    repro_check(r, worst <= 1e-3,
                "hosts of different sizes: within 0.1%% of the closed forms (worst %.4f%%)",
                100 * worst);
}

/* ---- uneven NICs ---- */

/* Shares in proportion to what each NIC can carry, against equal shares. */
static void show_nics(struct repro_report *r)
{
    static const struct {
        const char *rates;
        double even, best; /* closed forms, time * Gbit/s / S */
        double gain;       /* at least */
    } rows[] = {
        {"4G,4G,4G,1G", 1.5, 1, 1.4},          {"25G,25G,25G,10G", 0.15, 0.1, 1.4},
        {"100G,25G,25G,25G", 0.06, 0.04, 1.4}, {"3G,4G,4G,4G,4G", 1.6 / 3, 8.0 / 19, 1.2},
        {"2G,3G,5G,7G,11G", 0.8, 0.5, 1.4},    {"10G,10G,10G,10G", 0.15, 0.15, 0.99},
    };
    const uint64_t bytes = 256 * MIB;
    const double unit = (double)bytes * 8e-3; /* microseconds at 1 Gbit/s */
    double farthest = 0;
    bool gains = true;
    repro_table(
        r, "nics",
        "Uneven NICs on one switch, 256 MiB, level flow: bound = max(1/slowest, 2(p-1)/sum)",
        "nics|bound_us|closed_form_us|optimal_us|even_us|ratio_to_bound|gain");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct tutti_sim_info best = {0}, even = {0};
        struct tutti_sim_options o = {0};
        char spec[80];
        snprintf(spec, sizeof spec, "nics:%s@1us", rows[i].rates);
        double bound = repro_bound_us(r, spec, bytes);
        if (!repro_simulate(r, &(struct repro_case){spec, "flex", NULL, bytes}, &o, &best) ||
            !repro_simulate(r, &(struct repro_case){spec, "flex", "shares=even", bytes}, &o, &even))
            return;
        farthest = fmax(farthest, best.time_us / fmax(bound, rows[i].best * unit));
        gains = gains && even.time_us / best.time_us >= rows[i].gain &&
                fabs(even.time_us / (rows[i].even * unit) - 1) < 0.02;
        repro_text(r, "%s", rows[i].rates);
        repro_real(r, bound);
        repro_real(r, rows[i].best * unit);
        repro_real(r, best.time_us);
        repro_real(r, even.time_us);
        repro_real(r, best.time_us / bound);
        repro_real(r, even.time_us / best.time_us);
    }
    repro_check(r, farthest <= 1.02,
                "uneven NICs: optimal shares within 2%% of the bound at level flow (worst %.4g)",
                farthest);
    repro_check(r, gains,
                "uneven NICs: at least 1.4 times the even split for (4,4,4,1) and (25,25,25,10), "
                "no loss for equal ones");
}

/* ---- sizes ---- */

/* A network of the size tables. hosts and racks are listed besides the spec for the one rival
 * that is no schedule here: a ring in random order. */
struct net {
    const char *name, *spec;
    bool symmetric;
    uint32_t nhosts, host[8], rack[8]; /* per host: its ranks, its rack */
    double port, nic[8], uplink[2];    /* Gbit/s; uplink 0: there are no racks */
};

static const struct net nets[] = {
    {"hosts_4_2", "tree:(4 2)@100Gbps/10Gbps", false, 2, {4, 2}, {0}, 100, {10, 10}, {0}},
    {"hosts_8_1", "tree:(8 1)@100Gbps/10Gbps", false, 2, {8, 1}, {0}, 100, {10, 10}, {0}},
    {"hosts_4_4_2",
     "tree:(4 4 2)@100Gbps/10Gbps",
     false,
     3,
     {4, 4, 2},
     {0},
     100,
     {10, 10, 10},
     {0}},
    {"hosts_8_4_2_1",
     "tree:(8 4 2 1)@100Gbps/10Gbps",
     false,
     4,
     {8, 4, 2, 1},
     {0},
     100,
     {10, 10, 10, 10},
     {0}},
    {"racks_44_42",
     "tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps",
     false,
     4,
     {4, 4, 4, 2},
     {0, 0, 1, 1},
     100,
     {25, 25, 25, 25},
     {10, 10}},
    {"racks_888_8",
     "tree:((8 8 8)(8))@100Gbps/25Gbps/10Gbps",
     false,
     4,
     {8, 8, 8, 8},
     {0, 0, 0, 1},
     100,
     {25, 25, 25, 25},
     {10, 10}},
    {"slow_nic",
     "tree:(4:25G 4:25G 4:25G 4:10G)@100Gbps",
     false,
     4,
     {4, 4, 4, 4},
     {0},
     100,
     {25, 25, 25, 10},
     {0}},
    {"slow_rack",
     "tree:((4 4) (4 4):5G)@100Gbps/25Gbps/20Gbps",
     false,
     4,
     {4, 4, 4, 4},
     {0, 0, 1, 1},
     100,
     {25, 25, 25, 25},
     {20, 5}},
    {"even_4444",
     "tree:(4 4 4 4)@100Gbps/10Gbps",
     true,
     4,
     {4, 4, 4, 4},
     {0},
     100,
     {10, 10, 10, 10},
     {0}},
    {"even_44_44",
     "tree:((4 4)(4 4))@100Gbps/25Gbps/10Gbps",
     true,
     4,
     {4, 4, 4, 4},
     {0, 0, 1, 1},
     100,
     {25, 25, 25, 25},
     {10, 10}},
};
enum { NNETS = sizeof nets / sizeof nets[0], MAX_RANKS = 64 };

struct rival {
    const char *name, *algo, *options;
};
static const struct rival rivals[] = {
    {"flex", "flex", NULL},
    {"flex branch", "flex", "shares=branch"},
    {"flex even", "flex", "shares=even"},
    {"ring", "ring", NULL},
    {"halving-doubling", "halving-doubling", NULL},
    {"double-tree", "double-tree", NULL},
    {"BlueConnect", "hierarchical", NULL},
    {"single leader", "flex", "shares=leader,phases=circulant"},
    {"AHC broke", "flex", "shares=broke"},
};
enum { NRIVALS = sizeof rivals / sizeof rivals[0], FLEX = 0, RING = 3, BLUECONNECT = 6 };

/* The host of each position of a ring in random order; returns the number of ranks. The shuffle
 * (Fisher-Yates) uses its own generator, so that it is the same everywhere. */
static uint32_t shuffle(const struct net *n, uint32_t *host)
{
    uint32_t p = 0, state = 1;
    for (uint32_t h = 0; h < n->nhosts; h++)
        for (uint32_t i = 0; i < n->host[h]; i++)
            host[p++] = h;
    for (uint32_t i = p; i-- > 1;) {
        state = state * 1664525u + 1013904223u;
        uint32_t k = (state >> 8) % (i + 1), keep = host[i];
        host[i] = host[k];
        host[k] = keep;
    }
    return p;
}

/* The time of a ring in random order, one segment: 2(p-1) steps, in each of which an uplink
 * carries as many blocks as ring edges leave its group. Latency is 1 us per link, as for the
 * others; `links` is the longest route. */
static double random_ring_us(const struct net *n, uint64_t bytes)
{
    uint32_t host[MAX_RANKS], p = shuffle(n, host), out[8] = {0}, rack[2] = {0}, links = 2;
    double slowest = 1 / n->port;
    for (uint32_t i = 0; i < p; i++) {
        uint32_t a = host[i], b = host[(i + 1) % p];
        out[a] += a != b;
        rack[n->rack[a]] += n->rack[a] != n->rack[b];
        links = n->rack[a] != n->rack[b] ? 6 : a != b && links < 4 ? 4 : links;
    }
    for (uint32_t h = 0; h < n->nhosts; h++)
        slowest = fmax(slowest, out[h] / n->nic[h]);
    for (uint32_t k = 0; k < 2 && n->uplink[k] > 0; k++)
        slowest = fmax(slowest, rack[k] / n->uplink[k]);
    return 2 * (p - 1.0) * (links + (double)bytes / p * 8e-3 * slowest);
}

static uint32_t ranks_of(const struct net *n)
{
    uint32_t p = 0;
    for (uint32_t h = 0; h < n->nhosts; h++)
        p += n->host[h];
    return p;
}

/* A network and a size, with its bound. */
struct place {
    const struct net *n;
    uint64_t bytes;
    double bound;
};

/* One row of a size table; busiest is the bytes on the busiest link. */
static void add_row(struct repro_report *r, const struct place *p, const char *name, double us,
                    double busiest)
{
    repro_text(r, "%s", name);
    repro_count(r, p->bytes);
    repro_real(r, us);
    repro_real(r, us / p->bound);
    repro_real(r, busiest / (double)p->bytes);
    repro_real(r, repro_busbw(p->bytes, ranks_of(p->n), us));
}

/* The worst ratio of flex's time to the others', over all sizes of the networks of one kind. */
struct worst {
    double ring, blueconnect;
};

/* One table: all rivals over all sizes of one network, and its picture. */
static void show_net(struct repro_report *r, const struct net *n, struct worst *w)
{
    const uint64_t factor = repro_is_quick(r) ? 64 : 4;
    char title[200];
    snprintf(title, sizeof title, "%s: all-reduce, level step, 1 us per link", n->spec);
    repro_table(r, n->name, title, "algo|bytes|time_us|ratio_to_bound|busiest_link|busbw_GBs");
    for (uint64_t bytes = 65536; bytes <= 256 * MIB; bytes *= factor) {
        const struct place p = {n, bytes, repro_bound_us(r, n->spec, bytes)};
        double us[NRIVALS];
        for (size_t i = 0; i < NRIVALS; i++) {
            struct tutti_sim_result x;
            us[i] = (double)NAN;
            if (!repro_price(r, n->spec, rivals[i].algo, rivals[i].options, bytes, &x))
                continue;
            us[i] = x.time_us;
            add_row(r, &p, rivals[i].name, us[i], (double)x.bytes_on_busiest_link);
        }
        add_row(r, &p, "ring, random order", random_ring_us(n, bytes), (double)NAN);
        w->ring = fmax(w->ring, us[FLEX] / us[RING]);
        if (isfinite(us[BLUECONNECT]))
            w->blueconnect = fmax(w->blueconnect, us[FLEX] / us[BLUECONNECT]);
    }
    repro_plot(r, "bytes", "time_us", "algo");
    repro_plot(r, "bytes", "busbw_GBs", "algo");
    repro_plot(r, "bytes", "ratio_to_bound", "algo");
}

/* Symmetric networks must not lose; on asymmetric ones flex must win against the ring. */
static void show_sizes(struct repro_report *r)
{
    struct worst even = {0}, uneven = {0};
    for (size_t i = 0; i < NNETS; i++)
        show_net(r, &nets[i], nets[i].symmetric ? &even : &uneven);
    repro_check(r, even.ring <= 1.01 && even.blueconnect <= 1.01,
                "symmetric trees: flex never slower than the ring (worst %.3g of its time) or "
                "BlueConnect (%.3g)",
                even.ring, even.blueconnect);
    repro_check(
        r, uneven.ring < 1,
        "asymmetric trees: flex faster than the ring at every size (worst %.3g of its time)",
        uneven.ring);
    repro_table(r, "claims",
                "The abstract's claims (it gives no figure) and ours: times as fast as the other, "
                "the least of all sizes",
                "claim|paper|vs_ring|vs_blueconnect");
    repro_text(r, "symmetric trees: even or better");
    repro_text(r, "no figure");
    repro_real(r, 1 / even.ring);
    repro_real(r, 1 / even.blueconnect);
    repro_text(r, "asymmetric trees: faster");
    repro_text(r, "no figure");
    repro_real(r, 1 / uneven.ring);
    repro_real(r, uneven.blueconnect > 0 ? 1 / uneven.blueconnect : (double)NAN);
}

void repro_flex(struct repro_report *r)
{
    repro_note(r, "FlexReduce (Lee, Hwang, Shah, Cho; DAC 2020): only the abstract is public. It "
                  "allocates an uneven portion of the gradient "
                  "to each learner on irregular hierarchies, is faster than conventional "
                  "algorithms on asymmetric networks and even or better "
                  "on symmetric ones. Its portion rule, test-beds and speed-ups are not known; no "
                  "figure here is the paper's.");
    repro_note(r, "Rules compared: even per rank (conventional), even per branch (the simplest "
                  "rule that the abstract allows), optimal (our "
                  "linear program, phases overlapped). even keeps reduce-scatter and all-gather "
                  "apart. Single leader stands for Horovod on "
                  "unequal hosts (sums inside by circulant steps), broke for HCCL's AHC; "
                  "BlueConnect needs equal groups. The ring in "
                  "random order is a closed form, one shuffle. Column busiest_link: the part of "
                  "the vector on the busiest link.");
    show_hosts(r);
    show_nics(r);
    show_sizes(r);
}
