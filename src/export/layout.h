/* layout.h - where a chunk lies in the buffers of engines that count in equal units.
 *
 * A chunk with a weight becomes as many units as its weight (divided by the greatest common
 * divisor of all weights). The vector is `units` long; scratch buffer k begins at unit k * units
 * of the engine's single scratch buffer. In reduce-scatter and all-gather the short side of a
 * rank (OUT and IN) holds only its own block. */
#ifndef TT_EXPORT_LAYOUT_H
#define TT_EXPORT_LAYOUT_H

#include "sched/sched.h"

struct tt_export_layout {
    const struct tt_shape *shape;
    uint64_t units;
    uint64_t *start; /* first unit of each chunk, and the end; NULL: chunk c is unit c */
};
/* Refuses collectives and shares that cannot be counted in this way; `format` is for the
 * sentence. */
tutti_status tt_export_layout_open(const struct tt_shape *s, const char *format,
                                   struct tt_export_layout *ret, struct tutti_error *err);
void tt_export_layout_close(struct tt_export_layout *l);

/* A run of n units in the input, output or scratch buffer. */
struct tt_export_place {
    char buf; /* 'i', 'o' or 's' */
    uint64_t at, n;
};
struct tt_export_place tt_export_place(const struct tt_export_layout *l, uint32_t rank,
                                       uint32_t buf, uint32_t chunk, uint32_t len);
/* Units of a rank's three buffers. */
uint64_t tt_export_input_units(const struct tt_export_layout *l);
uint64_t tt_export_output_units(const struct tt_export_layout *l);
uint64_t tt_export_scratch_units(const struct tt_export_layout *l);
#endif
