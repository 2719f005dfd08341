/* run.h - reads the trace of a run that TUTTI_TRACE wrote (comm/trace.c), and writes it for a page.
 *
 * A trace is a file in the format of chrome://tracing with keys of ours at the top: format,
 * version, ranks, lost, plans, trainers, topology. It comes from elsewhere: everything is checked,
 * memory grows only with what the file really holds, and errors have positions. */
#ifndef TT_EXPORT_RUN_H
#define TT_EXPORT_RUN_H

#include "base/base.h"
#include "base/json.h"
#include "base/record.h"

/* An event; times in nanoseconds from the first one of all; `message` and `piece`: record.h. */
struct tt_run_event {
    uint64_t start_ns, length_ns, bytes;
    uint32_t rank, peer, comm, seq, message, piece;
    uint8_t kind, plan;
    uint8_t coll; /* of calls and launches */
};

struct tt_run {
    uint32_t ranks;
    uint64_t lost;
    struct tt_vec events;   /* struct tt_run_event */
    struct tt_vec plans;    /* struct tt_record_plan */
    struct tt_vec trainers; /* struct tt_record_trainer */
    /* where the topology's object lies in the file, in bytes; 0, 0: there is none */
    uint64_t topo_from, topo_to;
};
/* The caller frees *ret with tt_export_run_free. TUTTI_ERR_PARSE when it is no trace of ours. */
tutti_status tt_export_run_read(FILE *in, const char *name, struct tt_run *ret,
                                struct tutti_error *err);
void tt_export_run_free(struct tt_run *r); /* accepts zeroed ones */
/* Writes the events as an object of lists. Pieces are left out when there are more events than a
 * page holds. */
tutti_status tt_export_run_write(const struct tt_run *r, struct tt_json_writer *w,
                                 struct tutti_error *err);
#endif
