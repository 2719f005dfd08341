/* sched.h - shared by the files that make a schedule of MultiTree's trees. */
#ifndef TT_MULTITREE_SCHED_H
#define TT_MULTITREE_SCHED_H

#include "algo/multitree/multitree.h"

enum { TT_MULTITREE_SUM, TT_MULTITREE_HAND }; /* phases: reduce-scatter, all-gather */

/* Edges by rank: those of rank r are edge[start[r]] .. edge[start[r+1]-1], in the forest's
 * order. */
struct tt_multitree_lists {
    uint32_t *start, *edge;
};

struct tt_multitree {
    const struct tt_topo *t;
    struct tt_multitree_trees own[2];
    /* of each phase; NULL: the collective has no such phase. Both may be one */
    const struct tt_multitree_trees *forest[2];
    struct tt_multitree_lists down[2]; /* per phase, by parent, ... */
    struct tt_multitree_lists up[2];   /* ... and by child */
    uint16_t *channel[2];              /* per phase and edge */
};

/* Numbers the channels and declares the routes. A failure is the builder's. */
void tt_multitree_routes(struct tt_multitree *m, struct tt_builder *b);
#endif
