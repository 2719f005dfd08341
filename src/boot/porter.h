/* porter.h - links between pairs of ranks, made when one of them asks.
 *
 * The porter owns the listener of its process from the end of the meeting on, and dials for links.
 * Both ends authenticate as everywhere in boot/. A communicator has a desk; its role is the same
 * number on all its members and differs from that of any other communicator. There is one link for
 * each pair of ranks and role:
 *
 *     want(peer) ----> dial --------> handshake ---+
 *                                                  +---> desk ----> take()      bell: not empty
 *     listener ------> handshake -----> admit? ----+
 *                                                  '---> kept until the desk of its role is opened
 *
 * Either end may want a link, or both; take() then gives it to both. If both dial at the same time,
 * the dial of the higher rank counts: the acceptor decides before it sends its proof, so that no
 * payload is ever sent on the link that is dropped. Nothing here waits. One thread has to serve:
 * while a world lives that is the watch's (watch/thread.c), which polls tt_boot_porter_fd and
 * calls tt_boot_porter_serve when it is readable, and at tt_boot_porter_due at the latest. Any
 * thread may call any of these functions at any time, except on a desk that is being closed. */
#ifndef TT_PORTER_H
#define TT_PORTER_H

#include "boot/boot.h"

/* What take() gives: a link, or the reason why there is none. */
struct tt_porter_link {
    uint32_t peer;
    /* TCP, TCP_NODELAY, blocking; belongs to the taker. -1: the link cannot be made, and `why` says
     * why. */
    int fd;
    /* The sender must seal with these keys unless their cipher is NONE. */
    struct tt_seal_keys keys;
    struct tutti_error why;
};

/* Roles that are no communicator's: agreement after a failure, and control lines of the job that
 * follows. */
#define TT_ROLE_ROLL    (UINT64_MAX - 1)
#define TT_ROLE_CONTROL UINT64_MAX

struct tt_desk;
/* Takes over the links that have arrived for this role. b has at least two ranks and must outlive
 * the desk. */
tutti_status tt_boot_desk_open(struct tt_boot *b, uint64_t role, uint64_t timeout_ns,
                               struct tt_desk **ret, struct tutti_error *err);
/* Closes links that were not taken and gives up dials. Accepts NULL. */
void tt_boot_desk_close(struct tt_desk *d);
/* Asks for a link to peer. Does nothing if there is one or one is being made; starts again after a
 * failure. Fails only if peer is not another rank, or if memory runs out. */
tutti_status tt_boot_desk_want(struct tt_desk *d, uint32_t peer, struct tutti_error *err);
/* A link that was taken has ended: it can be wanted, and made by the peer, again. */
void tt_boot_desk_forget(struct tt_desk *d, uint32_t peer);
/* The next link that is ready, whichever end asked for it, or the next failure: TUTTI_ERR_PEER
 * (gone: no process listens there any more), TUTTI_ERR_TIMEOUT (its host does not answer: after 7/8
 * of the job's timeout, so that a call which waits for the link learns of it before its own
 * deadline; it has accepted but does not answer: after the whole timeout), TUTTI_ERR_LIMIT (this
 * rank itself is out of descriptors; peer is the one dialled, or this rank if it cannot accept).
 * False: nothing now. */
bool tt_boot_desk_take(struct tt_desk *d, struct tt_porter_link *ret);
/* Readable while take() has something to give. Do not read from it. */
int tt_boot_desk_bell(const struct tt_desk *d);

/* For the thread that serves: poll this for reading (-1 with one rank). */
int tt_boot_porter_fd(const struct tt_boot *b);
/* On the clock of tt_now_ns; UINT64_MAX: nothing is due. */
uint64_t tt_boot_porter_due(struct tt_boot *b);
/* Advances everything that is ready; a bounded amount of work. */
void tt_boot_porter_serve(struct tt_boot *b);
#endif
