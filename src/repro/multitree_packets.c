/* multitree_packets.c - MultiTree with its network interface, flit by flit: schedule tables in
 * lockstep, a head flit per packet or per message, one or four interfaces per rank; against the
 * ring and the 2D-ring in packets.
 *
 * The machine is that of the authors' simulator (tutti-sim(7)): flits of 16 bytes, packets of 256
 * bytes and a head, four virtual channels, aggregation of 128 GB/s. A message of B bytes takes 17
 * B/256 cycles in packets and B/16 + 1 as one message: at most 6.25 % less.
 *
 *     scheme  interfaces  flow control
 *     alpha       1       packets
 *     beta        4       packets
 *     gamma       1       messages
 *     delta       4       messages
 *
 * With one interface the trees are grown for one port per rank (ports=1), as the authors do. */
#include "repro/multitree.h"

#include <math.h>
#include <stdio.h>

static const double aggregate = 128e9;

/* Level packet with the machine above; the rest are the simulator's defaults. */
static struct tutti_sim_options packets(bool lockstep, bool message)
{
    return (struct tutti_sim_options){.packet = true,
                                      .lockstep = lockstep,
                                      .message_mode = message,
                                      .aggregate_bytes_per_s = aggregate};
}

/* Microseconds; NaN when refused. */
static double packet_us(struct repro_report *r, const struct repro_case *c,
                        const struct tutti_sim_options *o)
{
    struct tutti_sim_info x;
    return repro_simulate(r, c, o, &x) ? x.time_us : NAN;
}

/* ---- interfaces ---- */

/* The four schemes on one size. */
static void show_schemes(struct repro_report *r)
{
    static const struct {
        const char *name, *spec;
        uint32_t interfaces;
        bool message;
    } all[] = {{"alpha", "torus:8x8,ports=1" MT_LINK, 1, false},
               {"beta", "torus:8x8" MT_LINK, 4, false},
               {"gamma", "torus:8x8,ports=1" MT_LINK, 1, true},
               {"delta", "torus:8x8" MT_LINK, 4, true}};
    const uint64_t bytes = repro_is_quick(r) ? 256 << 10 : 4 << 20;
    uint32_t contention = 0;
    uint64_t stalls = 0;
    repro_table(r, "schemes",
                "MultiTree on torus:8x8, lockstep, packet level: the published simulator's schemes",
                "scheme|bytes|interfaces|flow_control|steps|time_us|head_flits|flits|stalls|max_"
                "link_contention");
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        struct tutti_sim_options o = packets(true, all[i].message);
        struct tutti_sim_info x;
        o.interfaces = all[i].interfaces;
        if (!repro_simulate(r, &(struct repro_case){all[i].spec, "multitree", "segments=1", bytes},
                            &o, &x))
            return;
        contention = x.max_link_contention > contention ? x.max_link_contention : contention;
        stalls += x.stalls;
        repro_text(r, "%s", all[i].name);
        repro_count(r, bytes);
        repro_count(r, all[i].interfaces);
        repro_text(r, "%s", all[i].message ? "message" : "packet");
        repro_count(r, x.steps);
        repro_real(r, x.time_us);
        repro_count(r, x.head_flits);
        repro_count(r, x.flits);
        repro_count(r, x.stalls);
        repro_count(r, x.max_link_contention);
    }
    repro_check(r, contention == 1 && stalls == 0,
                "packet level, 1 and 4 interfaces: one message on a link in a step, and no flit "
                "waits for a credit");
}

/* ---- sizes ---- */

/* Microseconds of one size: the baselines in packets, MultiTree in packets and in messages. */
struct row {
    double ring, ring2d, packet, message;
};

/* The ring has one interface, as the authors' has; the 2D-ring and MultiTree run from tables. */
static struct row run_row(struct repro_report *r, uint64_t bytes)
{
    struct tutti_sim_options one = packets(false, false), table = packets(true, false),
                             message = packets(true, true);
    const struct repro_case ring = {"ring:64" MT_LINK, "ring", "segments=1", bytes};
    const struct repro_case ring2d = {"torus:8x8" MT_LINK, "bucket", "variant=paper,segments=1",
                                      bytes};
    const struct repro_case ours = {"torus:8x8" MT_LINK, "multitree", "segments=1", bytes};
    one.interfaces = 1;
    return (struct row){.ring = packet_us(r, &ring, &one),
                        .ring2d = packet_us(r, &ring2d, &table),
                        .packet = packet_us(r, &ours, &table),
                        .message = packet_us(r, &ours, &message)};
}

/* x keeps the last, largest size for the checks after the loop. */
static void show_sizes(struct repro_report *r)
{
    const uint64_t first = 32 << 10, last = repro_is_quick(r) ? 2 << 20 : 64 << 20;
    struct row x = {0};
    double least = INFINITY;
    repro_table(r, "packets",
                "torus:8x8, packet level, aggregation 128 GB/s: ring (1 interface), 2D-ring "
                "(lockstep), MultiTree (lockstep)",
                "bytes|ring_us|ring2d_us|multitree_us|multitree_message_us|ring_ratio|ring2d_ratio|"
                "ring2d_ratio_message|message_gain_percent");
    for (uint64_t bytes = first; bytes <= last; bytes *= repro_is_quick(r) ? 64 : 2) {
        x = run_row(r, bytes);
        least = fmin(least, x.ring / x.packet);
        repro_count(r, bytes);
        repro_real(r, x.ring);
        repro_real(r, x.ring2d);
        repro_real(r, x.packet);
        repro_real(r, x.message);
        repro_real(r, x.ring / x.packet);
        repro_real(r, x.ring2d / x.packet);
        repro_real(r, x.ring2d / x.message);
        repro_real(r, 100 * (x.packet / x.message - 1));
    }
    const unsigned mib = (unsigned)(last >> 20);
    repro_check(r, least >= 3.6,
                "packet level, 32 KiB .. %u MiB, both in packets: at least 3.6 times as fast as "
                "the ring (least %.4g)",
                mib, least);
    repro_check(
        r, x.ring2d / x.packet >= 1.5,
        "packet level, %u MiB: at least 1.5 times as fast as the 2D-ring, both in packets (%.4g)",
        mib, x.ring2d / x.packet);
    repro_check(r, x.ring2d / x.message >= 1.6,
                "packet level, %u MiB: at least 1.6 times as fast as the 2D-ring in message mode, "
                "the 2D-ring in packets (%.4g)",
                mib, x.ring2d / x.message);
    double gain = 100 * (x.packet / x.message - 1);
    repro_check(r, gain >= 5.5 && gain <= 6.25,
                "packet level, %u MiB: message mode gains 5.5 to 6.25%% over packets (%.4g%%)", mib,
                gain);
    repro_note(r, "Message mode is no privilege of MultiTree: a ring's or the 2D-ring's messages "
                  "do not meet in lockstep either; in the same "
                  "mode the ratios are nearly those of the columns for packets.");
}

void repro_multitree_packets(struct repro_report *r)
{
    show_schemes(r);
    show_sizes(r);
}
