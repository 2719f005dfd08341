/* walk.c - do two lists of spans name the same chunks in the same order, however they are cut
 * into ranges? Invariant of the loop: all chunks before x and y were equal; x and y are what is
 * left of the current ranges. */
#include "verify/verify_int.h"

bool tt_verify_walk_same_chunks(struct tt_vwalk a, struct tt_vwalk b, uint32_t *ret_a,
                                uint32_t *ret_b)
{
    struct tt_vrange x = {0}, y = {0};
    for (;;) {
        bool more_x = x.len > 0 || tt_vwalk_next(&a, &x);
        bool more_y = y.len > 0 || tt_vwalk_next(&b, &y);
        if (!more_x && !more_y)
            return true;
        if (!more_x || !more_y || x.first != y.first) {
            *ret_a = more_x ? tt_vfold_chunk(&a.fold, x.first) : TT_VNO_CHUNK;
            *ret_b = more_y ? tt_vfold_chunk(&b.fold, y.first) : TT_VNO_CHUNK;
            return false;
        }
        uint32_t both = x.len < y.len ? x.len : y.len;
        x.first += both;
        x.len -= both;
        y.first += both;
        y.len -= both;
    }
}
