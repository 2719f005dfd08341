/* trace.h - the history of one chunk as a straight list of moves (tale.c), and the search for
 * the operation at fault (trace.c). */
#ifndef TT_VERIFY_TRACE_H
#define TT_VERIFY_TRACE_H

#include "verify/verify_int.h"

enum { TT_VNO_PLACE = UINT32_MAX };

/* dst = a, or dst = a + b. A message first moves its chunk to a spot of its own. */
struct tt_vmove {
    uint32_t dst, a, b; /* spots; b may be TT_VNO_PLACE */
    uint32_t rank, op;  /* the operation that makes the move */
};
/* Something that can hold the chunk. */
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
/* Lists all moves up to the end of `last_step`; these steps are known to match. Overwrites the
 * step data of v. The caller frees *ret. */
tutti_status tt_verify_tale_make(struct tt_verifier *v, uint32_t chunk, uint32_t last_step,
                                 struct tt_vtale *ret);
void tt_verify_tale_free(struct tt_vtale *t);
#endif
