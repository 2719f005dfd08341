/* trace.h - a rank's operations as nodes of a graph, for formats of simulators.
 *
 * There is one node per operation and segment; a receive that reduces is two: the receive, then the
 * reduction. A node waits for the nodes of the same segment that the live rule names, and a message
 * also for the message before it on its connection. */
#ifndef TT_EXPORT_TRACE_H
#define TT_EXPORT_TRACE_H

#include "export/program.h"

enum tt_node_kind { TT_NODE_SEND, TT_NODE_RECV, TT_NODE_COMPUTE };

struct tt_node {
    uint8_t kind; /* enum tt_node_kind */
    uint32_t peer;
    /* messages: the same at both ends, and unique between these two ranks in this direction */
    uint64_t tag;
    uint64_t bytes; /* bytes moved, or of the result */
    uint32_t op, segment;
    uint64_t wait, nwaits; /* a run in `waits`: numbers of nodes of this rank */
};

struct tt_trace {
    struct tt_export_program program;
    struct tt_bind bind;
    struct tt_vec nodes; /* struct tt_node; every wait points backwards */
    struct tt_vec waits; /* uint64_t */
    uint64_t *done;      /* by operation and segment: the node after which it is done */
    uint32_t *before;    /* by operation: the message before it on its connection, or UINT32_MAX */
};
/* open: prepares for all ranks; rank: fills nodes and waits of one rank, in place of those
 * before. */
tutti_status tt_export_trace_open(const struct tt_sched *s, struct tt_trace *ret,
                                  struct tutti_error *err);
tutti_status tt_export_trace_rank(struct tt_trace *t, uint32_t rank, struct tutti_error *err);
void tt_export_trace_close(struct tt_trace *t);
#endif
