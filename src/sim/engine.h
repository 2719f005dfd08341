/* engine.h - inside of the flow level: the state of a run. flow.c moves operations and messages,
 * flow_host.c the ranks' hosts and ports. One thread runs a simulation; nothing is shared. */
#ifndef TT_SIM_ENGINE_H
#define TT_SIM_ENGINE_H

#include "sim/fluid.h"

/* What a host can be busy with; ANY counts all of them, so the time in which none runs is idle. */
enum tt_sim_busy { TT_BUSY_SEND, TT_BUSY_RECV, TT_BUSY_REDUCE, TT_BUSY_ANY, TT_BUSY_KINDS };

/* One rank's host. Times are picoseconds of the simulation. */
struct tt_sim_host {
    /* when its last message was issued; when the next one may be taken in */
    uint64_t issue_ps, take_ps;
    bool adding;              /* a reduction is under way */
    uint32_t turn, last_turn; /* connections whose reductions wait (flow_sum.c): first, last */
    uint32_t out, in;         /* messages in flight, while ports are limited */
    /* per kind: activities under way, since when at least one, time spent so far */
    uint32_t busy[TT_BUSY_KINDS];
    uint64_t since[TT_BUSY_KINDS];
    uint64_t spent[TT_BUSY_KINDS];
};
/* A connection sends one message at a time, until its last byte has left. */
struct tt_stream {
    uint32_t next, segment; /* the send that is next, or TT_WORK_NONE; its segment */
    bool busy;              /* a message is being sent, or waits for a host or a port */
    uint64_t ready_ps;      /* when the message being sent became ready */
    uint64_t arrived_ps;    /* arrival of the last one sent: messages do not overtake each other */
};
/* An operation that is done; its successors are told later (flow_tell). */
struct tt_done {
    uint32_t op, segment, rank;
};
/* Something that a host does one at a time and that became ready at this moment. */
struct tt_sim_request {
    uint32_t op, segment, kind; /* kind of event; for requests of a port: the step */
    uint32_t conn; /* whose message made it ready, or TT_WORK_NONE: an operation of its rank */
};
struct tt_port_queue;
struct tt_line;
struct tt_sim_engine {
    const struct tt_sim_input *in;
    const struct tt_work *w;
    struct tt_sim_report *r;
    struct tt_queue q;
    struct tt_fluid fluid;
    struct tt_sim_host *host;
    struct tt_stream *stream;
    uint32_t *left;             /* per node: operations and messages that it still waits for */
    struct tt_vec done;         /* struct tt_done: successors not yet told */
    struct tt_port_queue *wait; /* per rank, outgoing then incoming, if ports are limited */
    /* struct tt_sim_request: messages that ask for a port of their sender; messages that have it */
    struct tt_vec asking, granted;
    struct tt_vec requests, serving; /* struct tt_sim_request: of this moment; those being served */
    struct tt_vec going;             /* uint32_t: connections that have both ports and start now */
    /* uint32_t: ports to examine (rank: outgoing, ranks + rank: incoming) */
    struct tt_vec freed;
    struct tt_line *line;     /* per connection, then per rank: reductions that wait; with gamma */
    struct tt_vec waiting;    /* what waits in lines; `spare` is the first that is not used */
    struct tt_vec free_hosts; /* uint32_t: hosts that may begin a reduction in this moment */
    uint32_t spare;
    uint32_t cause;  /* the connection whose message is being taken in, or TT_WORK_NONE */
    double gamma_ps; /* reduction time per byte */
    uint64_t now, arrived, finished;
    bool failed, beyond; /* out of memory; a time beyond 2^62 ps */
};

/* flow_host.c */
/* an activity begins */
void tt_sim_host_busy(struct tt_sim_engine *e, uint32_t rank, enum tt_sim_busy kind);
void tt_sim_host_idle(struct tt_sim_engine *e, uint32_t rank,
                      enum tt_sim_busy kind); /* an activity ends */
/* The host overhead of one message: when it may be injected, and when it is taken in. */
uint64_t tt_sim_host_issue(struct tt_sim_engine *e, uint32_t rank);
uint64_t tt_sim_host_take(struct tt_sim_engine *e, uint32_t rank);
tutti_status tt_sim_ports_open(struct tt_sim_engine *e, struct tutti_error *err);
void tt_sim_ports_close(struct tt_sim_engine *e); /* accepts a state opened in part */
/* May this connection's message go at once? If not, tt_sim_engine_inject is called when it has
 * its ports. */
bool tt_sim_port_ask(struct tt_sim_engine *e, uint32_t conn);
/* The connection's message has arrived: both its ports are free. */
void tt_sim_port_free(struct tt_sim_engine *e, uint32_t conn);
/* at the end of a moment: starts messages that have ports now */
void tt_sim_port_settle(struct tt_sim_engine *e);
/* time_ps + ps; notes if the sum is beyond what can be represented. */
uint64_t tt_sim_engine_later(struct tt_sim_engine *e, uint64_t time_ps, double ps);

/* flow_sum.c: reductions, one after the other. */
tutti_status tt_sim_sums_open(struct tt_sim_engine *e,
                              struct tutti_error *err); /* after the hosts */
void tt_sim_sums_close(struct tt_sim_engine *e);        /* accepts a state opened in part */
/* The reduction is ready and gets in line. */
void tt_sim_host_add(struct tt_sim_engine *e, const struct tt_sim_request *x, uint32_t rank);
/* The host may have something to add, and time for it. */
void tt_sim_host_free(struct tt_sim_engine *e, uint32_t rank);
/* at the end of a moment: hosts that are free begin their next reduction */
void tt_sim_sums_settle(struct tt_sim_engine *e);

/* flow.c: the connection's next message has its ports and starts. */
void tt_sim_engine_inject(struct tt_sim_engine *e, uint32_t conn);
/* flow.c: the reduction will be done then. */
void tt_sim_engine_added(struct tt_sim_engine *e, uint64_t time_ps, uint32_t op, uint32_t segment);
#endif
