/* compare.c - are two networks the same, however they were written?
 *
 * Two networks are equal when they have the same ranks and switches, the same cables between them
 * (bandwidth each way, latency, duplex; parallel cables counted) and the same ports, gamma, host
 * overhead and shared memory. Spelling, names, kind, the order of cables and which end of a cable
 * is written first do not matter. Switches are compared by number.
 *
 * The hash is a sum over the cables, so it does not depend on their order. The first difference is
 * found by sorting both lists of cables by their ends:
 *
 *     a   0-1   1-2   2-4   3-4
 *     b   0-1   1-2   3-4              ->  only a has a cable 2-4 */
#include "topo/topo_int.h"

#include <stdlib.h>
#include <string.h>

/* A cable with its lower end first. */
struct cable {
    uint32_t ends[2];
    double bw[2]; /* from the lower end, from the higher end */
    uint64_t latency_ps;
    bool half;
};

/* Turned around if needed, so that the same cable looks the same in both networks. */
static struct cable cable_of(const struct tt_link *l)
{
    bool turned = l->a > l->b;
    return (struct cable){.ends = {turned ? l->b : l->a, turned ? l->a : l->b},
                          .bw = {l->bw[turned], l->bw[!turned]},
                          .latency_ps = l->latency_ps,
                          .half = l->half};
}

static uint64_t compare_feed(uint64_t h, uint64_t v)
{
    return tt_mix64((h ^ v) + UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t feed_real(uint64_t h, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return compare_feed(h, bits);
}

/* Mixed by value, so that byte order does not matter; the seeds 1 and 2 keep cables and ports
 * apart in the sum. */
uint64_t tt_topo_cables_hash(const struct tt_topo *t)
{
    uint64_t h = compare_feed(compare_feed(UINT64_C(0x6361626c6573), t->ranks), t->switches),
             sum = 0;
    h = tt_topo_memory_hash(
        &t->memory, compare_feed(feed_real(compare_feed(h, t->nlinks), t->gamma), t->overhead_ps));
    for (uint32_t i = 0; i < t->nlinks; i++) {
        struct cable c = cable_of(&t->links[i]);
        uint64_t one = compare_feed(1, (uint64_t)c.ends[0] << 32 | c.ends[1]);
        sum +=
            compare_feed(feed_real(feed_real(one, c.bw[0]), c.bw[1]), c.latency_ps << 1 | c.half);
    }
    for (uint32_t r = 0; r < t->ranks; r++)
        sum += compare_feed(compare_feed(2, r), tt_topo_ports(t, r));
    return compare_feed(h, sum);
}

/* ---- the first difference ---- */

static int compare_order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int order_ends(const struct cable *a, const struct cable *b)
{
    int by_first = compare_order(a->ends[0], b->ends[0]);
    return by_first ? by_first : compare_order(a->ends[1], b->ends[1]);
}

/* A total order, so that equal lists of cables sort equally. */
static int order_cables(const void *x, const void *y)
{
    const struct cable *a = x, *b = y;
    int by = order_ends(a, b);
    for (int i = 0; !by && i < 2; i++)
        by = (a->bw[i] > b->bw[i]) - (a->bw[i] < b->bw[i]);
    if (!by)
        by = compare_order(a->latency_ps, b->latency_ps);
    return by ? by : compare_order(a->half, b->half);
}

/* By ends first, then by all values, so that parallel cables line up too. NULL: no memory. */
static struct cable *sorted_cables(const struct tt_topo *t)
{
    struct cable *all = tt_alloc((size_t)t->nlinks + 1, sizeof *all);
    for (uint32_t i = 0; all && i < t->nlinks; i++)
        all[i] = cable_of(&t->links[i]);
    if (all)
        qsort(all, t->nlinks, sizeof *all, order_cables);
    return all;
}

/* The functions that describe a difference return true, for the chain in tt_topo_compare. */
static bool compare_set(struct tt_topo_diff *d, const char *what, const char *a, const char *b)
{
    snprintf(d->what, sizeof d->what, "%s", what);
    snprintf(d->a, sizeof d->a, "%s", a);
    snprintf(d->b, sizeof d->b, "%s", b);
    return true;
}

/* "1 rank", "2 ranks": unit[0] is the singular, unit[1] the plural. */
static bool set_counts(struct tt_topo_diff *d, const char *what, const char *const unit[2],
                       const uint64_t n[2])
{
    char text[2][sizeof d->a];
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "%llu %s", (unsigned long long)n[i], unit[n[i] != 1]);
    return compare_set(d, what, text[0], text[1]);
}

/* Two rates in the usual units, or exactly where these look the same. */
static bool set_rates(struct tt_topo_diff *d, const char *what, const char *way, const double bw[2])
{
    char text[2][sizeof d->a], rate[2][48];
    for (int i = 0; i < 2; i++)
        tt_format_rate(bw[i], rate[i], sizeof rate[i]);
    bool alike = tt_streq(rate[0], rate[1]);
    for (int i = 0; i < 2; i++) {
        if (alike)
            snprintf(rate[i], sizeof rate[i], "%.17g bytes/s", bw[i]);
        snprintf(text[i], sizeof text[i], "%s%s", rate[i], way);
    }
    return compare_set(d, what, text[0], text[1]);
}

/* As set_rates, for times; `of` names the value. */
static bool set_times(struct tt_topo_diff *d, const char *what, const char *of,
                      const uint64_t ps[2])
{
    char text[2][sizeof d->a], time[2][48];
    for (int i = 0; i < 2; i++)
        tt_format_time(ps[i], time[i], sizeof time[i]);
    bool alike = tt_streq(time[0], time[1]);
    for (int i = 0; i < 2; i++) {
        if (alike)
            snprintf(time[i], sizeof time[i], "%llu ps", (unsigned long long)ps[i]);
        snprintf(text[i], sizeof text[i], "%s %s", of, time[i]);
    }
    return compare_set(d, what, text[0], text[1]);
}

/* "1-2" between ranks, "rank 1-switch 0" otherwise. */
static void name_ends(const struct tt_topo *t, const struct cable *c, char *buf, size_t cap)
{
    if (c->ends[1] < t->ranks)
        snprintf(buf, cap, "%u-%u", c->ends[0], c->ends[1]);
    else if (c->ends[0] < t->ranks)
        snprintf(buf, cap, "rank %u-switch %u", c->ends[0], c->ends[1] - t->ranks);
    else
        snprintf(buf, cap, "switch %u-switch %u", c->ends[0] - t->ranks, c->ends[1] - t->ranks);
}

/* Only one network has cable c. */
static bool set_missing(struct tt_topo_diff *d, enum tt_topo_diff_side side,
                        const struct tt_topo *t, const struct cable *c)
{
    char ends[64], rate[48], what[sizeof d->what];
    name_ends(t, c, ends, sizeof ends);
    snprintf(what, sizeof what, "a link %s of %s", ends,
             tt_format_rate(c->bw[0], rate, sizeof rate));
    d->side = side;
    return compare_set(d, what, "", "");
}

/* Two different cables between the same two ends: the first value that differs. */
static bool set_values(struct tt_topo_diff *d, const struct tt_topo *t, const struct cable *a,
                       const struct cable *b)
{
    char ends[64], what[sizeof d->what], way[64] = "";
    name_ends(t, a, ends, sizeof ends);
    snprintf(what, sizeof what, "the link %s", ends);
    for (int i = 0; i < 2; i++) {
        if (a->bw[i] == b->bw[i])
            continue;
        if (a->bw[0] != a->bw[1] || b->bw[0] != b->bw[1])
            snprintf(way, sizeof way, " %s", i ? "from the second end" : "from the first end");
        return set_rates(d, what, way, (double[]){a->bw[i], b->bw[i]});
    }
    if (a->latency_ps != b->latency_ps)
        return set_times(d, what, "latency", (uint64_t[]){a->latency_ps, b->latency_ps});
    return compare_set(d, what, a->half ? "half duplex" : "full duplex",
                       b->half ? "half duplex" : "full duplex");
}

/* How many of the sorted cables, from the first on, join the same ends. */
static uint32_t count_parallel(const struct cable *c, uint32_t n)
{
    uint32_t k = 0;
    while (k < n && order_ends(&c[k], &c[0]) == 0)
        k++;
    return k;
}

/* Both have cables between these ends, but not equally many. */
static bool set_parallel(struct tt_topo_diff *d, const struct tt_topo *t, const struct cable *c,
                         const uint64_t n[2])
{
    char ends[64], unit[2][96];
    name_ends(t, c, ends, sizeof ends);
    snprintf(unit[0], sizeof unit[0], "link %s", ends);
    snprintf(unit[1], sizeof unit[1], "parallel links %s", ends);
    return set_counts(d, "the network", (const char *const[]){unit[0], unit[1]}, n);
}

/* Invariant: the first i cables of both lists are equal, and no later one joins the ends of any of
 * them. */
static bool differ_cables(const struct tt_topo *const t[2], struct cable *const all[2],
                          struct tt_topo_diff *d)
{
    const uint32_t n[2] = {t[0]->nlinks, t[1]->nlinks};
    for (uint32_t i = 0, k; i < n[0] || i < n[1]; i += k) {
        const struct cable *a = &all[0][i], *b = &all[1][i];
        int by = i >= n[0] ? 1 : i >= n[1] ? -1 : order_ends(a, b);
        if (by)
            return set_missing(d, by < 0 ? TT_TOPO_ONLY_A : TT_TOPO_ONLY_B, t[0], by < 0 ? a : b);
        k = count_parallel(a, n[0] - i);
        uint32_t other = count_parallel(b, n[1] - i);
        if (k != other)
            return set_parallel(d, t[0], a, (uint64_t[]){k, other});
        for (uint32_t j = 0; j < k; j++)
            if (order_cables(&a[j], &b[j]) != 0)
                return set_values(d, t[0], &a[j], &b[j]);
    }
    return false;
}

/* By what a rank has, declared or not: equal behaviour is equal. */
static bool differ_ports(const struct tt_topo *a, const struct tt_topo *b, struct tt_topo_diff *d)
{
    char what[48];
    for (uint32_t r = 0; r < a->ranks; r++) {
        uint64_t n[2] = {tt_topo_ports(a, r), tt_topo_ports(b, r)};
        if (n[0] == n[1])
            continue;
        snprintf(what, sizeof what, "rank %u", r);
        return set_counts(d, what, (const char *const[]){"port", "ports"}, n);
    }
    return false;
}

static bool differ_gamma(const struct tt_topo *a, const struct tt_topo *b, struct tt_topo_diff *d)
{
    char text[2][sizeof d->a];
    if (a->gamma == b->gamma)
        return false;
    snprintf(text[0], sizeof text[0], "gamma %.17g s per byte", a->gamma);
    snprintf(text[1], sizeof text[1], "gamma %.17g s per byte", b->gamma);
    return compare_set(d, "the network", text[0], text[1]);
}

static bool differ_counts(const struct tt_topo *a, const struct tt_topo *b, struct tt_topo_diff *d)
{
    if (a->ranks != b->ranks)
        return set_counts(d, "the network", (const char *const[]){"rank", "ranks"},
                          (uint64_t[]){a->ranks, b->ranks});
    if (a->switches != b->switches)
        return set_counts(d, "the network", (const char *const[]){"switch", "switches"},
                          (uint64_t[]){a->switches, b->switches});
    return false;
}

static bool differ_overhead(const struct tt_topo *a, const struct tt_topo *b,
                            struct tt_topo_diff *d)
{
    return a->overhead_ps != b->overhead_ps &&
           set_times(d, "the network", "host overhead",
                     (uint64_t[]){a->overhead_ps, b->overhead_ps});
}

/* Memories have many numbers: they are compared and shown by their hash. */
static bool differ_memory(const struct tt_topo *a, const struct tt_topo *b, struct tt_topo_diff *d)
{
    uint64_t h[2] = {tt_topo_memory_hash(&a->memory, 0), tt_topo_memory_hash(&b->memory, 0)};
    char text[2][sizeof d->a];
    if (h[0] == h[1])
        return false;
    for (int i = 0; i < 2; i++) {
        const struct tt_memory *m = i ? &b->memory : &a->memory;
        snprintf(text[i], sizeof text[i], "%u points with hash %016llx", m->npoints,
                 (unsigned long long)h[i]);
    }
    return compare_set(d, "the shared memory", text[0], text[1]);
}

/* Counts come first: everything after them indexes both networks alike. */
tutti_status tt_topo_compare(const struct tt_topo *a, const struct tt_topo *b,
                             struct tt_topo_diff *ret, struct tutti_error *err)
{
    const struct tt_topo *const t[2] = {a, b};
    struct tt_topo_diff d = {.side = TT_TOPO_BOTH};
    struct cable *all[2] = {sorted_cables(a), sorted_cables(b)};
    tutti_status st = all[0] && all[1] ? TUTTI_OK : tt_fail_memory(err, "comparing topologies");
    if (!st) {
        d.differs = differ_counts(a, b, &d) || differ_cables(t, all, &d) ||
                    differ_ports(a, b, &d) || differ_gamma(a, b, &d) || differ_overhead(a, b, &d) ||
                    differ_memory(a, b, &d);
        *ret = d;
    }
    free(all[0]);
    free(all[1]);
    return st;
}
