/* engine.h - inside of the flow level: the state of a run. flow.c moves operations and messages,
 * flow_host.c the ranks' hosts and ports. */
#ifndef TT_SIM_ENGINE_H
#define TT_SIM_ENGINE_H

#include "sim/fluid.h"

enum tt_busy { TT_BUSY_SEND, TT_BUSY_RECV, TT_BUSY_REDUCE, TT_BUSY_ANY, TT_BUSY_KINDS };

struct tt_host {
    /* when its last message was issued; when the next may be taken in */
    uint64_t issue_ps, take_ps;
    uint64_t sum_ps;  /* when its reductions so far are done */
    uint32_t out, in; /* messages in flight */
    uint32_t busy[TT_BUSY_KINDS];
    uint64_t since[TT_BUSY_KINDS];
    uint64_t spent[TT_BUSY_KINDS];
};
/* A connection: message after message, one at a time until its last byte has left. */
struct tt_stream {
    uint32_t next, segment; /* the send that comes next, or TT_WORK_NONE */
    bool busy;              /* something is on its way out, or waits for a port */
    uint64_t ready_ps;
    uint64_t arrived_ps; /* messages do not overtake each other */
};
struct tt_done {
    uint32_t op, segment, rank;
};
/* Something that a host does one at a time became ready at this moment. */
struct tt_request {
    uint32_t op, segment, kind; /* kind of event; of those that ask for a port: the step */
};
struct tt_port_queue;
struct tt_engine {
    const struct tt_sim_input *in;
    const struct tt_work *w;
    struct tt_sim_report *r;
    struct tt_queue q;
    struct tt_fluid fluid;
    struct tt_host *host;
    struct tt_stream *stream;
    uint32_t *left;             /* per node: what it still waits for */
    struct tt_vec done;         /* struct tt_done: not yet told to those who wait for them */
    struct tt_port_queue *wait; /* per rank, outgoing then incoming, when ports are limited */
    /* struct tt_request: messages that ask for a port of their sender; that have it */
    struct tt_vec asking, granted;
    struct tt_vec requests, serving; /* struct tt_request: of this moment; those being served */
    struct tt_vec going;             /* uint32_t: connections that have their ports and go now */
    /* uint32_t: ports to look at (rank, or ranks + rank: incoming) */
    struct tt_vec freed;
    double gamma_ps; /* per byte */
    uint64_t now, arrived, finished;
    bool failed, beyond;
};

/* flow_host.c */
void tt_sim_host_busy(struct tt_engine *e, uint32_t rank, enum tt_busy kind); /* begins to ... */
void tt_sim_host_idle(struct tt_engine *e, uint32_t rank, enum tt_busy kind); /* ... has done so */
/* The host overhead of one message: when it may be injected, and when it is taken in. */
uint64_t tt_sim_host_issue(struct tt_engine *e, uint32_t rank);
uint64_t tt_sim_host_take(struct tt_engine *e, uint32_t rank);
/* When a reduction of so many bytes that is ready now will be done. */
uint64_t tt_sim_host_reduce(struct tt_engine *e, uint32_t rank, uint64_t bytes);
tutti_status tt_sim_ports_open(struct tt_engine *e, struct tutti_error *err);
void tt_sim_ports_close(struct tt_engine *e); /* accepts what was opened in part */
/* May this connection's message go at once? If not it will be injected (tt_sim_engine_inject) when
 * it has its ports. */
bool tt_sim_port_ask(struct tt_engine *e, uint32_t conn);
void tt_sim_port_free(struct tt_engine *e, uint32_t conn);
void tt_sim_port_settle(struct tt_engine *e); /* the end of a moment: whoever has ports now goes */
/* Adds, or notes that the time is beyond what can be told. */
uint64_t tt_sim_engine_later(struct tt_engine *e, uint64_t time_ps, double ps);

/* flow.c: the connection's message has its ports. */
void tt_sim_engine_inject(struct tt_engine *e, uint32_t conn);
#endif
