/* dot.c - a graph for Graphviz: the operations of all ranks (a cluster each), gray edges for the
 * waits inside a rank, blue edges for messages. */
#include <assert.h>

#include "export/export.h"
#include "export/program.h"

enum { OPS_MAX = 20000 }; /* more take Graphviz too long to lay out */

/* One rank: its operations as a cluster, the waits inside it, its sends. */
static void print_rank(const struct tt_export_program *p, FILE *out)
{
    const uint32_t rank = p->rank;
    fprintf(out, "  subgraph cluster_%u {\n    label=\"rank %u\";\n", rank, rank);
    for (uint32_t i = 0; i < p->slice.nops; i++) {
        const struct tt_op *op = &p->slice.ops[i];
        const struct tt_span *s = &p->slice.spans[op->span];
        fprintf(out, "    r%u_%u [label=\"%s %u%s\\nstep %u\"];\n", rank, i,
                tt_sched_op_name(op->kind), s->first,
                s->len * s->reps > 1 || op->nspans > 1 ? ".." : "", op->step);
    }
    fprintf(out, "  }\n");
    for (size_t e = 0; e < p->edges.len; e++) {
        const struct tt_edge *edge = tt_vec_at(&p->edges, e);
        fprintf(out, "  r%u_%u -> r%u_%u [color=gray];\n", rank, edge->from, rank, edge->to);
    }
    for (uint32_t i = 0; i < p->slice.nops; i++) {
        const struct tt_op *op = &p->slice.ops[i];
        /* The partner's number within its own rank. */
        if (op->kind == TT_OP_SEND)
            fprintf(out, "  r%u_%u -> r%u_%llu [color=blue];\n", rank, i, op->peer,
                    (unsigned long long)(p->partner[tt_export_number(p->sched, rank, i)] -
                                         tt_export_number(p->sched, op->peer, 0)));
    }
}

static tutti_status write_dot(const struct tt_sched *s, const struct tt_export_options *o,
                              uint32_t rank, FILE *out, struct tutti_error *err)
{
    struct tt_export_program p;
    (void)o;
    assert(rank == 0);
    if (s->nops > OPS_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "dot: %llu operations are too many for a drawing (at most %d)",
                       (unsigned long long)s->nops, OPS_MAX);
    tutti_status st = tt_export_program_open(s, &p, err);
    if (st)
        return st;
    fprintf(out, "digraph schedule {\n  rankdir=LR;\n  node [shape=box, fontsize=10];\n");
    for (uint32_t r = 0; !st && r < s->shape.ranks; r++) {
        st = tt_export_program_rank(&p, r, err);
        if (!st)
            print_rank(&p, out);
    }
    fprintf(out, "}\n");
    tt_export_program_close(&p);
    return st;
}

const struct tt_export_format tt_export_dot = {
    .name = "dot",
    .desc = "a graph of operations and waits, for Graphviz",
    .options = "",
    .write = write_dot,
};
