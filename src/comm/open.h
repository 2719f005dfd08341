/* open.h - what the files that make and end communicators share: open.c (the job's first one),
 * split.c (those made from another) and close.c. */
#ifndef TT_COMM_OPEN_H
#define TT_COMM_OPEN_H

#include "comm/comm_int.h"

/* open.c: the stages of opening */
/* set: which set of boxes to use, where all ranks share memory; TT_BOX_SETS: none is free. */
tutti_status tt_comm_open_context(struct tt_comm *c, uint64_t key, uint32_t set,
                                  struct tutti_error *err);
/* Makes links and engine of its own. `own` is this rank's error, which tt_comm_unable tells to all
 * ranks. */
tutti_status tt_comm_connect(struct tt_comm *c, const struct tt_wire_config *wire,
                             struct tutti_error *err);
/* The rest of a connected communicator: topology, plans, and what the settings ask for.
 * Collective. */
tutti_status tt_comm_furnish(struct tt_comm *c, const struct tt_agreement *how,
                             struct tutti_error *err);
/* An empty communicator of n members with a lock of its own; the caller fills c->members. Takes a
 * reference to w. */
tutti_status tt_comm_blank(struct tt_world *w, const struct tt_comm_config *config, uint32_t n,
                           struct tt_comm **ret, struct tutti_error *err);

#endif
