/* sim.h - runs a schedule on a model of its network, event by event: the same operations that
 * verify proves and ranks execute.
 *
 * There are two levels (the third, "step", is cost/). Flow: messages are fluids that share
 * links. Packet: flits move through input-queued switches with virtual channels and credits.
 *
 * Both start an operation by the live rule of sched.h: when the earlier conflicting operations
 * of its rank are done and it is next on its (peer, channel), segment by segment; the next
 * message there starts when the last byte of the one before it has left. Messages travel whether
 * or not the receiver is ready, and wait there; IN and OUT are two memories. Host overhead: a
 * rank issues messages that far apart and takes them in that far apart, so one message pays it
 * once. Of what becomes ready at the same moment, a rank does first what is listed first.
 *
 * Both levels are deterministic; times are integer picoseconds. Flow: a message alone takes
 * overhead + bytes/bandwidth + the route's latency; it occupies its links while it is
 * transferred, not during its latency. */
#ifndef TT_SIM_H
#define TT_SIM_H

#include "base/base.h"
#include "sched/sched.h"
#include "topo/topo.h"

enum tt_sim_level { TT_SIM_FLOW, TT_SIM_PACKET };

/* What-ifs; zero means none of the kind. They apply to ranks and links in the same way at both
 * levels. */
struct tt_sim_slow {
    uint32_t rank;
    /* its host overhead, its reductions and its ports are this many times slower; > 0 */
    double factor;
};
struct tt_sim_degrade {
    uint32_t link; /* directed link id */
    double factor; /* its bandwidth is divided by this; > 0 */
};
struct tt_sim_whatif {
    const struct tt_sim_slow *slow;
    size_t nslow;
    const struct tt_sim_degrade *degrade;
    size_t ndegrade;
    /* every message's latency is stretched by a factor 1 .. 1+jitter, from `seed` and the
     * message's number alone */
    double jitter;
    uint64_t seed;
};

/* How flows share a link: max-min fair, or (as SimGrid's CM02) in inverse proportion to the
 * latency of their routes. */
enum tt_sim_sharing { TT_SIM_FAIR, TT_SIM_RTT }; /* flow level */

/* Packet level; zero means the default in brackets. A link moves flit_bytes in cycles_per_flit
 * cycles of a clock that is chosen such that the topology's bandwidth is met exactly, link by
 * link. */
struct tt_sim_packet {
    bool message_mode; /* one head flit per message, not per packet: the MultiTree co-design */
    /* steps are issued in order by the network interface, with estimated waits (no-ops) for
     * steps without work */
    bool lockstep;
    uint32_t flit_bytes;      /* [16] */
    uint32_t payload_bytes;   /* of a packet [256] */
    uint32_t cycles_per_flit; /* [1] */
    /* virtual channels of an input [4, more where routes need more to be free of deadlock] */
    uint32_t vcs;
    /* per virtual channel [covers the link's round trip plus one packet] */
    uint32_t buffer_flits;
    uint32_t router_cycles;       /* pipeline of a switch [1] */
    uint32_t interfaces;          /* injection and ejection ports per rank [the topology's ports] */
    double aggregate_bytes_per_s; /* reduction at the interface [by the topology's gamma] */
};

struct tt_sim_options {
    enum tt_sim_level level;
    enum tt_sim_sharing sharing;
    struct tt_sim_whatif whatif;
    struct tt_sim_packet packet;
    bool timeline; /* record the times of every message */
    /* flow level: give up (TUTTI_ERR_BUDGET) when the work is more than this; 0: no limit. Work is
     * counted in events and in flows examined for their rates, so every machine gives up at the
     * same point. */
    uint64_t max_work;
    /* may be NULL; returning false ends the simulation (TUTTI_ERR_ABORTED) */
    bool (*progress)(void *ctx, double fraction);
    void *progress_ctx;
};

/* One message (of one segment) as it happened. */
struct tt_sim_event {
    uint32_t src, dst, step;
    uint16_t channel;
    uint16_t segment; /* modulo 2^16 */
    uint64_t bytes;
    uint64_t ready_ps;         /* could have started: data there, connection free */
    uint64_t start_ps, end_ps; /* first byte left, last byte arrived (before its reduction) */
};

/* One reduction (of one segment) as it happened. */
struct tt_sim_work {
    uint32_t rank, step;
    uint64_t bytes;
    uint64_t start_ps, end_ps;
};

struct tt_sim_link {
    uint64_t bytes;   /* payload that crossed it */
    uint64_t busy_ps; /* time in which something crossed it */
    uint32_t peak;    /* most messages in flight on it at once */
};
struct tt_sim_rank {
    uint64_t end_ps; /* end of its last operation */
    /* time in which data from it or to it was being transferred (without latency), and in which it
     * was reducing */
    uint64_t send_ps, recv_ps, reduce_ps;
    uint64_t idle_ps; /* neither sending nor receiving nor reducing, from 0 to the end of all */
};

struct tt_sim_report {
    uint64_t time_ps;
    uint32_t steps;
    /* messages: times segments; events: handled by the simulator (few if one rank stands for
     * all) */
    uint64_t messages, events;
    uint64_t effort;         /* flow level: the work as counted for max_work */
    uint32_t nlinks2, ranks; /* lengths: directed links, ranks */
    struct tt_sim_link *links;
    struct tt_sim_rank *rank;
    struct tt_sim_event *timeline; /* by start, then src, dst; NULL when not asked for */
    size_t ntimeline;
    /* with the timeline: reductions that took time, by start, then rank; may be NULL */
    struct tt_sim_work *work;
    size_t nwork;
    uint32_t busiest_link; /* most bytes per bandwidth; lowest id of equals */
    /* most messages on one directed link in one step of the schedule: the same number as cost's */
    uint32_t max_link_contention;
    /* packet level only */
    uint64_t cycles, flits, head_flits, credit_stalls;
    uint64_t lockstep_waits_ps;
};

/* Runs a schedule that holds all ranks, or only rank 0 of one declared symmetric if one rank can
 * stand for all (symmetry.c); the caller then vouches for the other ranks. Refuses other numbers
 * of ranks, routes made for another network, and what-ifs about ranks or links that do not
 * exist, naming them. The caller frees *ret. */
tutti_status tt_sim_run(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                        tutti_dtype dtype, const struct tt_sim_options *o,
                        struct tt_sim_report **ret, struct tutti_error *err);
void tt_sim_report_free(struct tt_sim_report *r); /* accepts NULL */
#endif
