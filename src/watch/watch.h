/* watch.h - which rank is to blame: heartbeats on the control connections, one verdict for all
 * ranks.
 *
 * Every rank has a thread. Ranks other than 0 tell rank 0 every quarter of a second what they are
 * doing, and at once when something is wrong. Rank 0 asks all ranks what they know about the
 * request in question, decides, and tells all. enter and leave only store to memory that the thread
 * reads: they cost nanoseconds and never block.
 *
 * The watch also carries the exchanges of opening (tt_watch_gather), so that a rank which breaks
 * them is named in the same way.
 *
 * Rank 0 decides as soon as it can:
 * - A control connection that closes without a farewell: DEAD, even if no rank waits; and so is a
 *   rank whose process has ended, even if another process holds its connection open.
 * - Two different fingerprints: MISMATCHED. Of the first request that ranks have entered
 *   differently, the ranks in the minority; both calls are described. A rank that closes while
 *   others go on has NOT_ENTERED what they do.
 * - A rank that says itself that it cannot go on: UNABLE.
 * - A rank reports its deadline: first a rank whose thread no longer answers, while its kernel
 *   still acknowledges (STUCK: stopped) or no longer does (UNREACHABLE, by TCP_INFO); then one that
 *   entered something else (MISMATCHED); then one that has not entered the request (NOT_ENTERED);
 *   else the peer waited for (STUCK).
 *
 * A rank that loses rank 0 decides alone. Rank 0 is DEAD if the connection closed. If rank 0 is
 * silent and this rank's interface is down, or no rank of any other host can be reached either
 * (tt_boot_probe), the blame is on this rank's own link. With two hosts and a healthy interface it
 * cannot be known whose link it is: each names the other. */
#ifndef TT_WATCH_H
#define TT_WATCH_H

#include "boot/boot.h"

#define TT_BLAME_LIST(X)          \
    X(NONE, "none")               \
    X(NOT_ENTERED, "not entered") \
    X(MISMATCHED, "mismatched")   \
    X(DEAD, "dead")               \
    X(UNREACHABLE, "unreachable") \
    X(STUCK, "stuck")             \
    X(ABORTED, "aborted")         \
    X(UNABLE, "unable")
enum tt_blame {
#define TT_BLAME_ENUM(id, name) TT_BLAME_##id,
    TT_BLAME_LIST(TT_BLAME_ENUM)
#undef TT_BLAME_ENUM
        TT_BLAMES
};
const char *tt_watch_blame_name(enum tt_blame b);

/* What every rank is told. Fixed size: it is sent. */
struct tt_verdict {
    uint32_t blame;   /* enum tt_blame */
    uint32_t culprit; /* rank */
    uint32_t seq;     /* request */
    uint32_t coll;    /* tutti_coll of the request as seen by the reporter */
    uint32_t pid;
    char host[TT_BOOT_HOST];
    char text[504]; /* the whole sentence, as long as that of a tutti_error */
};

/* What the user called, if this call is only a part of it: verdicts name that. */
#define TT_WHY_LIST(X)                                       \
    X(CALL, "")                                              \
    X(OPEN, "opening of the communicator")                   \
    X(SPLIT, "split")                                        \
    X(ADMIT, "admission of newcomers")                       \
    X(CLOSE, "close of the communicator")                    \
    X(TRAINER, "comparison of the tensors that are trained") \
    X(MEASURE, "measurement")                                \
    X(REPORT, "report")
enum tt_why {
#define TT_WHY_ENUM(id, name) TT_WHY_##id,
    TT_WHY_LIST(TT_WHY_ENUM)
#undef TT_WHY_ENUM
        TT_WHYS
};

/* Stands for a communicator's number before there is a communicator; the world's is 0. */
#define TT_COMM_OPENING UINT32_MAX
/* What a rank is doing. Sent between ranks; fixed size. TT_WATCH_USEROP: as TT_USEROP_NAME of the
 * kernels. */
enum { TT_WATCH_USEROP = 31 };
enum tt_op_busy { TT_OP_IDLE, TT_OP_COLL, TT_OP_SENDING, TT_OP_RECEIVING };
struct tt_op_desc {
    /* With block lengths, the sum of all; UINT64_MAX: each rank has its own lengths. */
    uint64_t count;
    /* Fingerprint of the call and its plan; equal calls on all ranks have equal ones. */
    uint64_t print;
    /* comm: equal on the members of a communicator, and different from others of theirs. */
    uint32_t comm, seq, root;
    uint8_t coll, dtype, redop;
    /* enum tt_op_busy. A message between two ranks has a sequence number of its own, the other rank
     * (in the world; UINT32_MAX: any) as root, and its tag as print. */
    uint8_t busy;
    /* enum tt_why: what the user called, if this is a part of it. */
    uint8_t why;
    char user[TT_WATCH_USEROP]; /* name of the caller's own reduction; else "" */
};

/* UNABLE: this rank cannot go on with something that all ranks do together (no memory, no
 * descriptors); it says why, as ABORT does. LINK: no host answers this rank; it arrives only if the
 * link is cut in one direction. */
enum tt_trouble_kind {
    TT_TROUBLE_DEADLINE,
    TT_TROUBLE_MISMATCH,
    TT_TROUBLE_CLOSED,
    TT_TROUBLE_ABORT,
    TT_TROUBLE_UNABLE,
    TT_TROUBLE_LINK,
    TT_TROUBLES
};
struct tt_trouble {
    uint32_t kind; /* enum tt_trouble_kind */
    /* The peer that this rank waits for, or that sent something else; world rank; UINT32_MAX:
     * unknown. */
    uint32_t peer;
    struct tt_op_desc op;
    /* ABORT, UNABLE: the reason. Two sides of a message that differ: what the peer does and what
     * this rank does. */
    char text[352];
};

struct tt_watch;
/* For the ranks of b, which must outlive it. Starts the thread (none with one rank), which from now
 * on serves b's porter and owns the control connections: tt_boot_exchange must not be used any
 * more. */
tutti_status tt_watch_open(struct tt_boot *b, uint64_t timeout_ns, struct tt_watch **ret,
                           struct tutti_error *err);
/* Says farewell (an orderly end is not a death) and joins the thread. Accepts NULL. Never waits
 * longer than a second. */
void tt_watch_close(struct tt_watch *w);

/* This rank is a member of communicator `comm` (not needed for the world): its requests are known
 * from now on, until it parts. More than 31 at a time are not observed, which only makes blame less
 * precise. */
void tt_watch_join(struct tt_watch *w, uint32_t comm);
void tt_watch_part(struct tt_watch *w, uint32_t comm);

/* For each communicator, one thread at a time. */
void tt_watch_enter(struct tt_watch *w, const struct tt_op_desc *op);
void tt_watch_leave(struct tt_watch *w, uint32_t comm);
/* All ranks give `bytes` bytes and get those of all ranks in rank order, through rank 0, as request
 * `op` (entered and left here). For opening things. False: there is a verdict, because a rank did
 * not come, came with something else or cannot go on, which includes no memory here. */
bool tt_watch_gather(struct tt_watch *w, const struct tt_op_desc *op, const void *mine,
                     size_t bytes, void *ret_all);
/* This rank is in a message between two ranks, which is not a request; or no longer. */
void tt_watch_talk(struct tt_watch *w, bool begins);
/* Something is wrong here; a verdict will follow (at once after an abort). Never waits. Only the
 * first report of a rank counts, but an abort always does. */
void tt_watch_report(struct tt_watch *w, const struct tt_trouble *t);
/* Is there a verdict? One atomic load if there is none: cheap enough for every wait loop. */
bool tt_watch_verdict(const struct tt_watch *w, struct tt_verdict *ret);
/* Waits for a verdict until deadline_ns; at the deadline decides alone. */
void tt_watch_await(struct tt_watch *w, uint64_t deadline_ns, struct tt_verdict *ret);
#endif
