/* fluid.h - links as pipes, and messages under way as fluids that share them: the rate of each,
 * and when each ends.
 *
 * A resource is something that flows share: a directed link, a half-duplex cable, a rank's
 * outgoing or incoming ports where those carry less than its links. Flows are weighted max-min
 * fair: all rates grow in proportion to the weights until a resource is full; its flows keep
 * their rate, the others continue to grow. Equal weights are the default; with TT_SIM_RTT the
 * weight is 1 / route latency in seconds (1 when there is none), as in SimGrid. */
#ifndef TT_SIM_FLUID_H
#define TT_SIM_FLUID_H

#include "sim/queue.h"
#include "sim/sim_int.h"

struct tt_flow {
    uint32_t op, segment; /* the send */
    uint32_t conn;
    uint32_t version;  /* of its end in the queue; events of other versions are void */
    uint32_t place;    /* where its indices in the resources' lists begin */
    uint32_t mark;     /* of a computation: reached, then settled */
    double left, rate; /* bytes left at updated_ps, bytes/s */
    double weight;     /* its share of a full resource */
    uint64_t updated_ps;
    uint64_t ready_ps, start_ps;
};
struct tt_fluid_hop { /* an entry of a resource's list: it is the flow's hop-th resource */
    uint32_t flow, hop;
};
struct tt_res {
    double rate; /* bytes/s */
    struct tt_fluid_hop *list;
    uint32_t n, cap;
    uint32_t mark;       /* of a computation: reached */
    uint32_t open;       /* of a computation: flows without a rate yet, */
    double room, weight; /* the bytes/s left for them, the sum of their weights */
};
struct tt_lane { /* the resources of a connection: hops[at .. at+n-1] */
    uint64_t at;
    uint32_t n;
    double rate; /* of the slowest one */
};
struct tt_level { /* a resource is full when rates reach this level times the weights */
    double level;
    uint32_t res;
};
struct tt_fluid {
    const struct tt_sim_input *in;
    struct tt_sim_link *stat;
    struct tt_res *res;
    uint32_t nres;
    struct tt_lane *lane;
    const uint32_t *hops;
    uint32_t *own_hops;   /* owned; NULL: hops are the routes themselves */
    struct tt_vec flows;  /* struct tt_flow */
    struct tt_vec fresh;  /* uint32_t: flows that began at this moment */
    struct tt_vec place;  /* uint32_t: indices in lists */
    struct tt_vec *spare; /* per number of hops: uint32_t places not in use */
    uint32_t max_hops;
    struct tt_vec spare_flows;    /* uint32_t */
    struct tt_vec dirty;          /* uint32_t: resources that lost a flow or share a new one */
    struct tt_vec reached, rates; /* of a computation: flows, and the rate of each (double) */
    struct tt_vec near, levels;   /* of a computation: resources reached; heap of struct tt_level */
    uint32_t mark;       /* value of `mark` for what this computation reached; + 1: settled */
    uint32_t *active;    /* per directed link: flows on it */
    uint64_t *since;     /* per directed link: when the first of them came */
    uint64_t examined;   /* flows looked at for rates so far, once per resource */
    bool failed, beyond; /* out of memory; a time beyond 2^62 ps */
};
tutti_status tt_sim_fluid_open(struct tt_fluid *f, const struct tt_sim_input *in,
                               struct tt_sim_report *r, struct tutti_error *err);
void tt_sim_fluid_close(struct tt_fluid *f);
/* Begins a flow of bytes > 0 now; its end is in the queue after tt_sim_fluid_settle. The pointer
 * is valid until the next begin. NULL: out of memory. */
struct tt_flow *tt_sim_fluid_begin(struct tt_fluid *f, uint32_t conn, uint64_t bytes, uint64_t now);
/* Is the event (`what` = flow, `extra` = version) still valid? */
bool tt_sim_fluid_due(const struct tt_fluid *f, uint32_t flow, uint32_t version);
/* Ends the flow and returns a copy; its number may be used again. */
struct tt_flow tt_sim_fluid_end(struct tt_fluid *f, uint32_t flow, uint64_t now);
/* After all that happens at this moment: computes rates where they change and queues the new
 * ends. */
void tt_sim_fluid_settle(struct tt_fluid *f, uint64_t now, struct tt_queue *q);

/* fluid_share.c: the rates of all flows connected with the dirty resources, into `reached` and
 * `rates`; `dirty` is empty afterwards. */
void tt_sim_fluid_share(struct tt_fluid *f);
#endif
