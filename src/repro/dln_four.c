/* dln_four.c - four ports at level flow: DLN with SHD against MultiTree and bucket on the torus,
 * whose ranks have four links.
 *
 * At level step with four declared ports SHD is ahead of MultiTree at every size. At level flow it
 * depends on what a port is. Undeclared: any number of messages at once, one after the other on
 * each link. MultiTree's next message then already waits at every link, and latency is paid once;
 * SHD with whole chunks pays it in each of its 2 log2 N steps, since the data that it sends next
 * have to arrive first:
 *
 *     N = 1024, 1 MiB, four ports: n beta 41.9 us for both, plus 20 * 126 ns = 2.5 us for SHD and
 *     about 1.2 us for MultiTree
 *
 * Two segments hide the latency (one is on its way while the other is being sent), but then a
 * rank uses eight links at times: that row is shown, but not counted as four ports. Declared
 * (ports=4): a port is taken by one message until that has arrived, for all algorithms. */
#include "repro/dln.h"

#include <math.h>
#include <stdio.h>

static const struct {
    const char *name, *kind, *algo, *options;
    bool counted;  /* uses at most four ports */
    bool declared; /* is run with declared ports, too */
} cases[] = {
    {"DLN+SHD", "dln:1024", "shd", "direction=both,copies=2,segments=1", true, true},
    {"DLN+SHD, 2 segments (8 links at times)", "dln:1024", "shd",
     "direction=both,copies=2,segments=2", false, false},
    {"MultiTree on torus", "torus:32x32", "multitree", "segments=1", true, true},
    {"bucket on torus", "torus:32x32", "bucket", "segments=1", true, true},
};
enum { NCASES = sizeof cases / sizeof cases[0] };

/* Microseconds; NaN when the case is not run. */
static double flow_us(struct repro_report *r, size_t i, bool declared, uint64_t bytes)
{
    const struct tutti_sim_options at_flow = {0};
    struct tutti_sim_info info;
    char spec[96];
    snprintf(spec, sizeof spec, "%s%s@100Gbps,126ns", cases[i].kind, declared ? ",ports=4" : "");
    const struct repro_case c = {spec, cases[i].algo, cases[i].options, bytes};
    bool runs = repro_has_algo(cases[i].algo) && (!declared || cases[i].declared);
    return runs && repro_simulate(r, &c, &at_flow, &info) ? info.time_us : NAN;
}

/* One group of rows; case 0 is DLN+SHD, to which the others are compared. */
static void dln_four_compare(struct repro_report *r, bool declared, uint64_t bytes)
{
    double us[NCASES];
    size_t best = 0;
    for (size_t i = 0; i < NCASES; i++) {
        us[i] = flow_us(r, i, declared, bytes);
        if (cases[i].counted && us[i] < us[best])
            best = i;
    }
    for (size_t i = 0; i < NCASES; i++) {
        if (isnan(us[i]))
            continue;
        repro_text(r, declared ? "declared" : "as the links are");
        repro_count(r, bytes);
        repro_text(r, "%s", cases[i].name);
        repro_real(r, us[i]);
        repro_real(r, us[i] / us[0]);
    }
    if (best > 0)
        repro_note(r,
                   "Four ports at level flow (%s), %llu bytes: %s is %.1f%% ahead of DLN+SHD (%.1f "
                   "and %.1f us).",
                   declared ? "declared" : "as the links are", (unsigned long long)bytes,
                   cases[best].name, 100 * (us[0] / us[best] - 1), us[best], us[0]);
}

/* Three sizes, each with undeclared and with declared ports. */
void repro_dln_four(struct repro_report *r)
{
    static const uint64_t sizes[] = {64 << 10, 1 << 20, 16 << 20};
    if (repro_is_quick(r))
        return;
    repro_table(r, "four_ports",
                "1,024 ranks, four ports, level flow (relative to DLN+SHD with whole chunks)",
                "ports|bytes|case|flow_us|vs_dln_shd");
    for (size_t b = 0; b < sizeof sizes / sizeof sizes[0]; b++) {
        dln_four_compare(r, false, sizes[b]);
        dln_four_compare(r, true, sizes[b]);
    }
}
