/* judge_int.h - what the files of the rules share: judge.c (order, silence, chains of waiting),
 * judge_calls.c (ranks that call different things, or nothing), judge_end.c (connections that
 * closed). Functions that return bool are true if they have written a verdict. */
#ifndef TT_WATCH_JUDGE_INT_H
#define TT_WATCH_JUDGE_INT_H

#include "watch/watch_int.h"

/* judge_calls.c, judge.c */
/* Fills the verdict: who, which request, and the text. */
void __attribute__((format(printf, 6, 7)))
tt_watch_say(const struct tt_watch *w, struct tt_verdict *v, enum tt_blame blame, uint32_t culprit,
             const struct tt_op_desc *op, const char *fmt, ...);
bool tt_watch_about_message(const struct tt_watch *w);
/* The request of the case as its reporter entered it: its answer knows more than its report. */
struct tt_op_desc tt_watch_case_op(const struct tt_watch *w);
/* The peer that the reporter waits for, or `other` if it did not know. */
uint32_t tt_watch_peer_or(const struct tt_watch *w, uint32_t other);
/* Have all connected ranks answered the last question? */
bool tt_watch_everybody_answered(const struct tt_watch *w);
bool tt_watch_maybe_mismatched(const struct tt_watch *w);
bool tt_watch_judge_mismatch(const struct tt_watch *w, bool final, struct tt_verdict *ret);
/* All that is known is that two ranks differ. */
void tt_watch_say_peer_differs(const struct tt_watch *w, struct tt_verdict *ret);
void tt_watch_say_not_entered(const struct tt_watch *w, uint32_t r, uint32_t more,
                              struct tt_verdict *ret);
/* Blames the member that has come least far. A rank that is in another call waits itself, perhaps
 * for one that is in no call, so it comes after those. A rank that is not a member counts only if
 * the reporter waits for it: it was one. */
bool tt_watch_judge_not_entered(const struct tt_watch *w, struct tt_verdict *ret);

/* judge_end.c, judge.c */
/* Is it rank 0's own link? True if no rank on any other host can be reached, and there are at least
 * two such hosts or the interface itself is down. */
bool tt_watch_cut_off(const struct tt_watch *w);
void tt_watch_say_own_link(const struct tt_watch *w, const struct tt_op_desc *op, const char *when,
                           struct tt_verdict *ret);
void tt_watch_say_silent(const struct tt_watch *w, uint32_t r, bool cut,
                         const struct tt_op_desc *op, struct tt_verdict *ret);
/* Blames a silent rank: the peer waited for if it is silent, else the lowest one. */
bool tt_watch_judge_silent(const struct tt_watch *w, struct tt_verdict *ret);
void tt_watch_say_dead(const struct tt_watch *w, uint32_t r, const struct tt_op_desc *op,
                       const char *when, struct tt_verdict *ret);
/* A data connection broke. If a process ended, its control connection ends at the same moment and
 * decides the case; otherwise both processes live and the path between them has failed. */
bool tt_watch_judge_closed(const struct tt_watch *w, bool final, struct tt_verdict *ret);
/* "during request 17 (..)" if the rank is known to have entered it, else what `by` was doing and
 * what is known. */
void tt_watch_describe_end(const struct tt_watch *w, uint32_t rank, uint32_t by,
                           const struct tt_op_desc *op, char ret_when[TT_WORDS]);

#endif
