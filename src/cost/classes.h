/* classes.h - for cost/ and sim/: the link classes of a network that looks the same from every
 * rank: renumbering ranks r -> r+1 maps them into themselves, or, on a torus, moving all ranks
 * along a dimension. */
#ifndef TT_COST_CLASSES_H
#define TT_COST_CLASSES_H

#include "topo/topo.h"

/* The class of a directed link: 0 to the switch, j a jump of j ranks, N from the switch.
 * UINT32_MAX: between switches, which no rotational network has. On a torus the jump is that of a
 * rank in the middle: a link around the end of a dimension belongs to the others of it. */
uint32_t tt_cost_class_of(const struct tt_topo *t, uint32_t directed_link);
/* Where in its class: the rank where the link starts, or ends when it comes from the switch. */
uint32_t tt_cost_class_place(const struct tt_topo *t, uint32_t directed_link);
/* The class whose number stands for what a class shares: half-duplex cables are one for both
 * directions. */
uint32_t tt_cost_class_resource(const struct tt_topo *t, uint32_t cls, bool half);
/* Per class 0 .. ranks the lowest directed link (UINT32_MAX: no such class) and the rate (then 1).
 * Refuses (TUTTI_ERR_MISMATCH) when a rank has several links of a class: "the link of this class"
 * would mean nothing. */
tutti_status tt_cost_classes_find(const struct tt_topo *t, uint32_t *first_link, uint64_t *rate,
                                  struct tutti_error *err);
#endif
