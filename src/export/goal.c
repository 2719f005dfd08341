/* goal.c - GOAL, the text that LogGOPSim's and ATLAHS's txt2bin read.
 *
 *     num_ranks 2
 *     rank 0 {
 *     l0: send 512b to 1 tag 0
 *     l1: recv 512b from 1 tag 0
 *     l2: calc 0
 *     l2 requires l1
 *     }
 *
 * Reductions and copies are `calc` of length 0: their time is a property of the simulated machine,
 * not of the schedule. */
#include <assert.h>

#include "export/export.h"
#include "export/trace.h"

/* A node, then its waits, a line each. */
static void print_node(const struct tt_trace *t, uint64_t i, FILE *out)
{
    const struct tt_node *n = tt_vec_at(&t->nodes, i);
    if (n->kind == TT_NODE_COMPUTE)
        fprintf(out, "l%llu: calc 0\n", (unsigned long long)i);
    else
        fprintf(out, "l%llu: %s %llub %s %u tag %llu\n", (unsigned long long)i,
                n->kind == TT_NODE_SEND ? "send" : "recv", (unsigned long long)n->bytes,
                n->kind == TT_NODE_SEND ? "to" : "from", n->peer, (unsigned long long)n->tag);
    for (uint64_t w = 0; w < n->nwaits; w++)
        fprintf(out, "l%llu requires l%llu\n", (unsigned long long)i,
                (unsigned long long)*(const uint64_t *)tt_vec_at(&t->waits, n->wait + w));
}

static tutti_status write_goal(const struct tt_sched *s, const struct tt_export_options *o,
                               uint32_t rank, FILE *out, struct tutti_error *err)
{
    struct tt_trace t;
    (void)o;
    assert(rank == 0);
    tutti_status st = tt_export_trace_open(s, &t, err);
    if (st)
        return st;
    fprintf(out, "num_ranks %u\n", s->shape.ranks);
    for (uint32_t r = 0; !st && r < s->shape.ranks; r++) {
        st = tt_export_trace_rank(&t, r, err);
        fprintf(out, "\nrank %u {\n", r);
        for (uint64_t i = 0; !st && i < t.nodes.len; i++)
            print_node(&t, i, out);
        fprintf(out, "}\n");
    }
    tt_export_trace_close(&t);
    return st;
}

const struct tt_export_format tt_export_goal = {
    .name = "goal",
    .desc = "GOAL text, for LogGOPSim and ATLAHS",
    .options = "",
    .write = write_goal,
};
