/* symmetric.h - what symmetric.c (steps, the busiest link) and symmetric_op.c (one operation)
 * share. */
#ifndef TT_COST_SYMMETRIC_H
#define TT_COST_SYMMETRIC_H

#include "cost/classes.h"
#include "cost/load.h"
#include "cost/pattern.h"

struct symmetric {
    const struct tt_sched *s;
    const struct tt_topo *t;
    const struct tt_bind *bind;
    struct tt_load *l;
    bool ported;
    bool grid; /* shifts are those of a torus */
    /* chunks differ, and being exact is still possible */
    bool patterned;
    uint32_t *first_link;       /* per class: its lowest directed link; UINT32_MAX: no such class */
    uint64_t *class_bytes;      /* per class: the most on one of its links over all steps */
    struct tt_vec *class_terms; /* per class: the sum of its patterns over all steps */
    /* elements of the chunks c with c % m < i, for i = 0 .. m (m: chunks per rank) */
    uint64_t *residue;
    /* terms of the step; resources beyond the load's last are classes of half-duplex links */
    struct tt_vec terms;
    uint32_t *path, path_cap;
};

/* symmetric_op.c, symmetric.c */
uint32_t tt_cost_chunks_per_rank(const struct symmetric *y);
/* From here on the upper bounds in l->sum stand. */
void tt_cost_give_up(struct symmetric *y);
tutti_status tt_cost_symmetric_op(struct symmetric *y, const struct tt_slice *sl,
                                  const struct tt_op *op, struct tutti_error *err);

#endif
