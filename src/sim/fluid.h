/* fluid.h - the links as pipes and the messages under way as fluids that share them: who gets how
 * much, and when each will be through.
 *
 * A resource is something flows share: a directed link, a half-duplex cable, a rank's outgoing or
 * incoming ports where those carry less than its links. Flows are weighted max-min fair: all rates
 * grow in proportion to the weights until a resource is full; its flows keep their rate, the others
 * grow on. Equal weights are the default; with TT_SIM_RTT the weight is 1 / route latency in
 * seconds (1 when there is none), as in SimGrid. */
#ifndef TT_SIM_FLUID_H
#define TT_SIM_FLUID_H

#include "sim/queue.h"
#include "sim/sim_int.h"

struct tt_flow {
    uint32_t op, segment; /* the send */
    uint32_t conn;
    uint32_t version;  /* of its end in the queue; other versions are void */
    uint32_t place;    /* where its positions in the resources' lists begin */
    uint32_t mark;     /* of a calculation: reached, then settled */
    double left, rate; /* bytes at updated_ps, bytes/s */
    double weight;     /* its share of a full resource */
    uint64_t updated_ps;
    uint64_t ready_ps, start_ps;
};
struct tt_hop { /* a flow in a resource's list: it is the flow's hop-th resource */
    uint32_t flow, hop;
};
struct tt_res {
    double rate; /* bytes/s */
    struct tt_hop *list;
    uint32_t n, cap;
    uint32_t mark;       /* of a calculation */
    uint32_t open;       /* flows without a rate yet, ... */
    double room, weight; /* ... what is left for them, their weights together */
};
struct tt_lane { /* the resources of a connection: hops[at .. at+n-1] */
    uint64_t at;
    uint32_t n;
    double rate; /* of the slowest */
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
    uint32_t *own_hops;   /* to be freed; NULL: hops are the routes themselves */
    struct tt_vec flows;  /* struct tt_flow */
    struct tt_vec fresh;  /* uint32_t: flows that began at this moment */
    struct tt_vec place;  /* uint32_t: positions in lists */
    struct tt_vec *spare; /* per route length: uint32_t places not in use */
    uint32_t max_hops;
    struct tt_vec spare_flows;    /* uint32_t */
    struct tt_vec dirty;          /* uint32_t: resources whose flows changed while others remain */
    struct tt_vec reached, rates; /* of a calculation: flows, and the rate of each (double) ... */
    struct tt_vec near, levels;   /* ... resources, struct tt_level */
    uint32_t mark;
    uint32_t *active;    /* per directed link: flows on it */
    uint64_t *since;     /* when the first of them came */
    bool failed, beyond; /* out of memory; a time beyond 2^62 ps */
};
tutti_status tt_sim_fluid_open(struct tt_fluid *f, const struct tt_sim_input *in,
                               struct tt_sim_report *r, struct tutti_error *err);
void tt_sim_fluid_close(struct tt_fluid *f);
/* A flow of bytes > 0 begins now; its end will be in the queue after tt_sim_fluid_settle. NULL: out
 * of memory. */
struct tt_flow *tt_sim_fluid_begin(struct tt_fluid *f, uint32_t conn, uint64_t bytes, uint64_t now);
/* The event `what` = flow, `extra` = version: is it still meant? */
bool tt_sim_fluid_due(const struct tt_fluid *f, uint32_t flow, uint32_t version);
/* The flow is through: its copy is returned, its number is free again. */
struct tt_flow tt_sim_fluid_end(struct tt_fluid *f, uint32_t flow, uint64_t now);
/* After all that happens at this moment: new rates where they change, and their ends into the
 * queue. */
void tt_sim_fluid_settle(struct tt_fluid *f, uint64_t now, struct tt_queue *q);

/* fluid_share.c: the rates of everything connected with the dirty resources, into `reached` and
 * `rates`; `dirty` is empty afterwards. */
void tt_sim_fluid_share(struct tt_fluid *f);
#endif
