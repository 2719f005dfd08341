/* msccl_json.h - what the files of the MSCCL++ writer share: msccl_json.c (plan, ranks) and
 * msccl_json_block.c (the operations of thread blocks). */
#ifndef TT_EXPORT_MSCCL_JSON_H
#define TT_EXPORT_MSCCL_JSON_H

#include "base/json.h"
#include "export/export.h"
#include "export/layout.h"
#include "export/program.h"

enum { OPS_MAX = 64, SEMAPHORES_MAX = 16, CHANNELS_MAX = 16 };

/* A connection of the present rank: its number is its index in plan.open. */
struct connection {
    uint32_t peer, channel;
};

struct plan {
    const struct tt_export_options *o;
    const char *type; /* the type of all channels */
    struct tt_export_program program;
    struct tt_export_layout layout;
    /* by number of the operation; for receives: the first unit of the message's place in scratch */
    uint64_t *slot;
    uint64_t *scratch;  /* by rank: units of scratch in use */
    struct tt_vec open; /* struct connection, of the present rank */
    struct tt_json_writer *w;
    uint32_t block, ops; /* the present thread block, and the operations in it */
    bool stale;          /* something was put, written or waited for since the threads last met */
};

/* msccl_json_block.c, msccl_json.c */
/* Units of all chunks of n acts. */
uint64_t tt_export_msccl_units_of(const struct plan *p, const struct tt_act *acts, uint32_t n);
uint64_t tt_export_msccl_connection_of(const struct plan *p, const struct tt_op *op);
void tt_export_msccl_list_of_one(struct tt_json_writer *w, const char *key, uint64_t value);
/* The handshake (relaxed signals and waits on all channels), then the operations in the
 * schedule's order. */
void tt_export_msccl_write_ops(struct plan *p);

#endif
