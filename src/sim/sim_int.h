/* sim_int.h - inside of sim/: what both levels share. sim.c checks the arguments and makes the
 * input; flow.c and packet.c run it.
 *
 * The work is the schedule as a graph that an engine can run without looking at chunks again:
 * operations with the number of earlier ones that they wait for and the later ones that wait for
 * them, messages that join a send to its receive, connections (src, dst, channel) with their
 * route. Everything is numbered from 0. Operations are numbered by block of steps, then rank,
 * then as listed: what happens at about the same time is close in memory, which decides the
 * speed of an engine. Messages are numbered connection by connection in the order in which they
 * travel, so message conn.first + i is the i-th of its connection.
 *
 * Segments: each of the K segments runs through the same graph by itself; a node is (operation,
 * segment), numbered op*K + segment. On a connection the order is message by message, segment 0
 * .. K-1 of each: the next may start when the last byte of the one before it has left. */
#ifndef TT_SIM_INT_H
#define TT_SIM_INT_H

#include "sim/sim.h"

#define TT_WORK_NONE UINT32_MAX

struct tt_work_op {
    /* the operations that wait for it: succ[after .. (op+1)->after - 1] */
    uint32_t after;
    /* how many it waits for; for a receive this includes its message */
    uint32_t need;
    /* sends and receives: the message's number; local operations: the number in the schedule */
    uint32_t ref;
    uint32_t kind : 8, rank : 24; /* enum tt_op_kind; the rank that runs it */
    /* Copies from the message, for sends only (receives: conn), so that engines need not read
     * it. */
    uint32_t conn, peer; /* its connection; the operation that receives it */
    uint32_t next;       /* the next send of the connection, or TT_WORK_NONE */
    uint32_t elems;      /* TT_WORK_NONE: as many or more, see the message */
};
struct tt_work_msg {
    uint32_t send, recv; /* operations */
    uint32_t conn;
    uint32_t step;
    uint64_t elems; /* of all segments */
};
struct tt_work_conn {
    uint32_t src, dst, channel;
    uint32_t first, count; /* messages first .. first+count-1 */
    /* its route: path[path_at .. path_at + nlinks - 1], directed link ids */
    uint32_t nlinks;
    uint64_t path_at;
    uint64_t latency_ps; /* of the whole route */
};
struct tt_work {
    const struct tt_sched *s;
    const struct tt_topo *t;
    /* whose operations are here: all ranks', or rank 0's standing for all (symmetry.c), */
    uint32_t ranks;
    /* then the link that stands for each class of links; else NULL */
    const uint32_t *class_link;
    struct tt_bind bind;
    uint32_t segments, elem_bytes;
    uint32_t nops, nmsgs, nconns;
    struct tt_work_op *op;         /* nops + 1: the last one only ends the list of the one before */
    uint32_t block_shift, nblocks; /* step s is in block s >> block_shift */
    uint32_t *block_at;            /* nblocks + 1: the first operation of each block */
    uint32_t *succ;
    struct tt_work_msg *msg;
    struct tt_work_conn *conn;
    uint32_t *path;
};

/* Refuses a receive without its send (and the reverse), an invalid route, and too many of
 * anything. class_link: NULL, or the result of tt_sim_symmetric, which must live as long as the
 * work. */
tutti_status tt_sim_work_make(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                              tutti_dtype dtype, struct tt_work **ret, struct tutti_error *err);
tutti_status tt_sim_work_make_one(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                                  tutti_dtype dtype, const uint32_t *class_link,
                                  struct tt_work **ret, struct tutti_error *err);
void tt_sim_work_free(struct tt_work *w); /* accepts NULL */
/* Bytes of one segment of a message: segment k of n elements has floor(n(k+1)/K) - floor(nk/K),
 * which equals what cutting every chunk gives to within an element per chunk. */
uint64_t tt_sim_work_msg_bytes(const struct tt_work *w, uint32_t msg, uint32_t segment);
/* Bytes to be added up in one segment of an operation (receive-reduce: the message; reduce: each
 * operand after the first). */
uint64_t tt_sim_work_reduce_bytes(const struct tt_work *w, uint32_t op, uint32_t segment);
/* The rank that runs an operation, and the step it belongs to. */
uint32_t tt_sim_work_rank(const struct tt_work *w, uint32_t op);
uint32_t tt_sim_work_step(const struct tt_work *w, uint32_t op);
/* The most messages on one directed link in one step. UINT32_MAX: out of memory. */
uint32_t tt_sim_work_contention(const struct tt_work *w);

/* work_deps.c: fills op[].after, op[].need (conflicts only) and succ; number[i] is the number of
 * the schedule's i-th operation. */
tutti_status tt_sim_work_deps(struct tt_work *w, const uint32_t *number, struct tutti_error *err);

/* What an engine gets. The report's arrays (links, rank) are allocated and zero; links[].bytes,
 * steps, messages and max_link_contention are filled; busiest_link comes later. The engine fills
 * times, busy_ps, peak, rank[], events and timeline. */
struct tt_sim_input {
    const struct tt_work *w;
    const struct tt_sched *s;
    const struct tt_topo *t;
    const struct tt_sim_options *o;
    const double *slow; /* per rank: the factor of the what-ifs, 1 for others */
    /* bytes/s of each directed link (half duplex: of the cable), degraded as requested */
    const double *rate;
};
/* symmetry.c. Does the schedule hold rank 0 of a symmetric one and no other? */
bool tt_sim_holds_one(const struct tt_sched *s);
/* The links that stand for their classes, which the caller frees, if running rank 0 alone gives
 * the whole result; else NULL. Afterwards tt_sim_spread copies the report to all ranks and
 * links. */
uint32_t *tt_sim_symmetric(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                           tutti_dtype dtype, const struct tt_sim_options *o);
void tt_sim_spread(struct tt_sim_report *r, const struct tt_sim_input *in);

tutti_status tt_sim_flow_run(const struct tt_sim_input *in, struct tt_sim_report *r,
                             struct tutti_error *err);
tutti_status tt_sim_packet_run(const struct tt_sim_input *in, struct tt_sim_report *r,
                               struct tutti_error *err);

/* A message's latency, stretched by the jitter of the what-ifs; `number` is msg*K + segment. */
uint64_t tt_sim_latency(const struct tt_sim_whatif *q, uint64_t latency_ps, uint64_t number);
/* Appends to the report's timeline, if one is kept; there is room for all messages. */
void tt_sim_record(struct tt_sim_report *r, const struct tt_sim_event *e);
/* timeline.c: reductions. Makes room for all (false: no memory); notes that node op*K + segment
 * runs from start to end, if a timeline is kept; sorts by start. */
bool tt_sim_timeline_room(const struct tt_sim_input *in, struct tt_sim_report *r);
void tt_sim_timeline_work(struct tt_sim_report *r, const struct tt_work *w, uint64_t node,
                          uint64_t start_ps, uint64_t end_ps);
void tt_sim_timeline_sort(struct tt_sim_report *r);
/* Calls the progress function, if there is one; false: stop. */
bool tt_sim_progress(const struct tt_sim_options *o, uint64_t done, uint64_t all);
#endif
