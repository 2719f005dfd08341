/* call.h - calling the roll: carries the protocol of roll.h over boot's links. */
#ifndef TT_CALL_H
#define TT_CALL_H

#include "boot/boot.h"
#include "watch/roll.h"
#include "watch/watch.h"

/* What this rank brings along. */
struct tt_standing {
    /* The rank that the verdict calls dead, stuck or unreachable: it is not waited for, but may
     * come. UINT32_MAX: none. */
    uint32_t suspect;
    /* The others may have gone on without this rank, because it was stopped, came late, or is the
     * one that the verdict names: that nobody listens any more then proves nothing. */
    bool doubtful;
    /* Newcomers that all ranks know of, as this one knows; 0: none, or it does not know that. */
    uint64_t newcomers;
};
void tt_watch_standing(struct tt_watch *w, struct tt_standing *ret);

/* Agrees with the other ranks of b on who goes on. Every rank that wants to calls it. Ranks that do
 * not come within timeout_ns are left out; it takes 1.5 times as long and a second at most. On
 * success *ret is the decision, of kind TT_ROLL_COMMIT, the same on all ranks that get one; its
 * view need not contain this rank. Serves the porter meanwhile. */
tutti_status tt_watch_call_roll(struct tt_boot *b, const struct tt_standing *s, uint64_t timeout_ns,
                                struct tt_roll_note *ret, struct tutti_error *err);
#endif
