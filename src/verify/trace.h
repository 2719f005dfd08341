/* trace.h - the story of one chunk as a straight list of moves (tale.c), and who is to blame when
 * it ends badly (trace.c). */
#ifndef TT_VERIFY_TRACE_H
#define TT_VERIFY_TRACE_H

#include "verify/verify_int.h"

enum { TT_VNO_PLACE = UINT32_MAX };

/* dst = a, or a + b. A message moves its chunk to a place of its own first. */
struct tt_vmove {
    uint32_t dst, a, b; /* places; b may be TT_VNO_PLACE */
    uint32_t rank, op;
};
struct tt_vspot {
    uint32_t rank, buf; /* buf TT_VNO_PLACE: a message under way or an unfinished sum */
};
struct tt_vtale {
    const struct tt_sched *sched;
    uint32_t chunk;
    struct tt_vmap index;  /* (rank, buf) -> spot + 1 */
    struct tt_vec spots;   /* struct tt_vspot */
    struct tt_vec moves;   /* struct tt_vmove, in lockstep order */
    struct tt_vec carried; /* uint32_t: message of the step -> its spot */
    bool failed;           /* out of memory */
};
/* All moves up to the end of `last_step`, which is known to match. */
tutti_status tt_verify_tale_make(struct tt_verifier *v, uint32_t chunk, uint32_t last_step,
                                 struct tt_vtale *ret);
void tt_verify_tale_free(struct tt_vtale *t);
#endif
