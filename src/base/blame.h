/* blame.h - notes of a rank to the launcher (the file TUTTI_VERDICT): which rank is to blame
 * when a job fails. The launcher sees only processes that end, in any order, and cannot know it. */
#ifndef TT_BASE_BLAME_H
#define TT_BASE_BLAME_H

#include "base/base.h"

/* kind, and the word before "2 of 4: sentence" */
#define TT_BLAME_NOTE_LIST(X)                                                                      \
    X(VERDICT, "")         /* calls return it; the program may have handled it since */            \
    X(HINT, "hint ")       /* found at open or close: the blamed rank may have other work to do */ \
    X(UNHEARD, "unheard ") /* results are wrong and no call can say so: found when closing */      \
    X(DOOR, "door ")       /* not blame: the address where this rank lets newcomers in */
enum tt_blame_note {
#define TT_BLAME_NOTE_ENUM(id, word) TT_NOTED_##id,
    TT_BLAME_NOTE_LIST(TT_BLAME_NOTE_ENUM)
#undef TT_BLAME_NOTE_ENUM
};

/* Appends a line like "2 of 4: rank 2 (host a, pid 4711) is dead ...", in one write. Rank `size`
 * means that all ranks have the same reason ("all of 4: ..."). Does nothing without a launcher. */
void tt_blame_note(enum tt_blame_note kind, uint32_t rank, uint32_t size, const char *text);

/* The rank that differs from the others: the lowest rank of the smallest group of equal prints;
 * of two groups of one size, the one without rank 0. */
uint32_t tt_odd_rank(const uint64_t *prints, uint32_t n);
#endif
