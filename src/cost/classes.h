/* classes.h - for cost/ and sim/: the link classes of a network that looks the same from every
 * rank. Renumbering the ranks r -> r+1, or on a torus moving all ranks along a dimension, maps
 * each class onto itself. */
#ifndef TT_COST_CLASSES_H
#define TT_COST_CLASSES_H

#include "topo/topo.h"

/* The class of a directed link: 0 to the switch, j for a jump of j ranks, N (the number of
 * ranks) from the switch. UINT32_MAX: between switches, which no rotational network has. On a
 * torus the jump is that of an inner rank: a link around the end of a dimension has the class of
 * the others. */
uint32_t tt_cost_class_of(const struct tt_topo *t, uint32_t directed_link);
/* The link's place in its class: the rank where it starts, or where it ends if it comes from the
 * switch. */
uint32_t tt_cost_class_place(const struct tt_topo *t, uint32_t directed_link);
/* The class that stands for the resource which this class uses: the two directions of a
 * half-duplex cable share one. */
uint32_t tt_cost_class_resource(const struct tt_topo *t, uint32_t cls, bool half);
/* Sets, per class 0 .. ranks, the lowest directed link (UINT32_MAX: no such class) and the rate
 * (then 1). Fails with TUTTI_ERR_MISMATCH if a rank has several links of a class, because "the
 * link of this class" would be ambiguous. Both arrays have ranks + 1 entries and belong to the
 * caller. */
tutti_status tt_cost_classes_find(const struct tt_topo *t, uint32_t *first_link, uint64_t *rate,
                                  struct tutti_error *err);
#endif
