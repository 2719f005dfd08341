/* watch.h - who is to blame: heartbeats on the control connections, one verdict for all ranks.
 *
 * Every rank has a thread. Ranks other than 0 tell rank 0 every quarter of a second what they are
 * doing, and at once when something is wrong; rank 0 asks all what they know about the request in
 * question, decides, and tells all. enter and leave only store to memory the thread reads: they
 * cost nanoseconds and never block.
 *
 * It carries the exchanges of opening too (tt_watch_gather), so that whoever breaks them is named
 * in the same way.
 *
 * Rank 0 decides as soon as it can: a control connection that closes without farewell is DEAD, also
 * when nobody waits, and so is a rank whose process has ended, whoever else holds its connection
 * open; a report of two different fingerprints is MISMATCHED (of the first request that ranks have
 * entered differently, the ranks in the minority; both descriptions are printed; a rank that closes
 * while others go on has NOT_ENTERED what they do); a rank that says itself that it cannot go on is
 * UNABLE; when a rank reports its deadline: whose thread no longer answers while its kernel still
 * acknowledges (STUCK: stopped) or no longer does (UNREACHABLE, by TCP_INFO), who entered something
 * else (MISMATCHED), who has not entered the request (NOT_ENTERED), else the peer waited for
 * (STUCK). A rank that loses rank 0 decides alone: rank 0 is DEAD when the connection closed; when
 * it is silent and this rank's interface is down, or no rank of any other host can be reached
 * either (tt_boot_probe), the blame is on this rank's own link. With two hosts and a healthy
 * interface nobody can know whose link it is: each names the other. */
#ifndef TT_WATCH_H
#define TT_WATCH_H

#include "boot/boot.h"
#include "comm/comm.h"

/* What all do before there is a communicator, as a communicator's number; the world's is 0. */
#define TT_COMM_OPENING UINT32_MAX
/* What a rank is doing. Travels; fixed size. */
enum tt_op_busy { TT_OP_IDLE, TT_OP_COLL, TT_OP_SENDING, TT_OP_RECEIVING };
struct tt_op_desc {
    /* of blocks of any length all of them together; UINT64_MAX: lengths are each rank's own */
    uint64_t count;
    /* fingerprint of the call and its plan; equal calls of all ranks have equal ones */
    uint64_t print;
    /* comm: equal on the members of a communicator and on no other rank */
    uint32_t comm, seq, root;
    uint8_t coll, dtype, redop;
    /* enum tt_op_busy; a message between two ranks has a sequence number of its own, the other rank
     * (of the world; UINT32_MAX: any) as root, and its tag as print */
    uint8_t busy;
    /* enum tt_why (comm.h): what the user called, if this is a part of it */
    uint8_t why;
    char user[TT_USEROP_NAME]; /* the name of a reduction of the caller's own; else "" */
};

/* UNABLE: this rank itself cannot go on with something that all do together (no memory, no
 * descriptors); it tells why, as ABORT does. LINK: nobody answers it; heard only when its link is
 * cut in one direction. */
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
    /* whom this rank waits for, or who sent something else; world rank; UINT32_MAX: unknown */
    uint32_t peer;
    struct tt_op_desc op;
    /* abort, unable: the reason; two sides of a message that differ: what the peer does and what
     * this rank does */
    char text[192];
};

struct tt_watch;
/* For the ranks of b, which must outlive it. Starts the thread (none with one rank), which serves
 * b's porter from now on and owns the control connections: no tt_boot_exchange any more. */
tutti_status tt_watch_open(struct tt_boot *b, uint64_t timeout_ns, struct tt_watch **ret,
                           struct tutti_error *err);
/* Says farewell (an orderly end is not a death), joins the thread. Accepts NULL. Never waits longer
 * than a second. */
void tt_watch_close(struct tt_watch *w);

/* This rank is a member of communicator `comm` (the world needs no word): its requests are known
 * from now on, until it parts. More than 31 at a time go unobserved, which costs precision of the
 * blame and nothing else. */
void tt_watch_join(struct tt_watch *w, uint32_t comm);
void tt_watch_part(struct tt_watch *w, uint32_t comm);

/* One thread at a time for each communicator. */
void tt_watch_enter(struct tt_watch *w, const struct tt_op_desc *op);
void tt_watch_leave(struct tt_watch *w, uint32_t comm);
/* All ranks give `bytes` bytes, all get everybody's in rank order, through rank 0, as request `op`
 * (entered and left here). For opening things. False: there is a verdict, whoever did not come,
 * came with something else or cannot go on; or no memory for it here, which is one too. */
bool tt_watch_gather(struct tt_watch *w, const struct tt_op_desc *op, const void *mine,
                     size_t bytes, void *ret_all);
/* This rank is in a message between two ranks, which is no request; or not any more. */
void tt_watch_talk(struct tt_watch *w, bool begins);
/* Something is wrong here; a verdict will follow (at once after an abort). Never waits for anybody.
 * Only the first report of a rank counts, but an abort always does. */
void tt_watch_report(struct tt_watch *w, const struct tt_trouble *t);
/* Is there a verdict? Cheap enough for every wait loop (one atomic load when there is none). */
bool tt_watch_verdict(const struct tt_watch *w, struct tt_verdict *ret);
/* Waits for one until deadline_ns; at the deadline decides alone. */
void tt_watch_await(struct tt_watch *w, uint64_t deadline_ns, struct tt_verdict *ret);
#endif
