/* mpi_int.h - what the files of the MPI transport share: join.c (membership), transport.c (opening,
 * closing) and message.c (messages). */
#ifndef TT_MPI_INT_H
#define TT_MPI_INT_H

#include <mpi.h>
#include <stdatomic.h>

#include "transport/mpi.h"

/* join.c: set when a transport was closed after an error, or with messages still under way.
 * MPI_Finalize could then wait for ever and is skipped. */
extern _Atomic bool tt_mpi_unfinished;

/* Tags of one group: one for headers, the others for payloads. */
enum { TT_MPI_TAGS = 9 };

/* transport.c: makes a transport on `comm`, of which the group's members are ranks, with the
 * TT_MPI_TAGS tags from `tag` on. */
tutti_status tt_mpi_transport(MPI_Comm comm, int tag, const struct tt_mpi_group *g,
                              struct tt_transport **ret, struct tutti_error *err);

/* join.c: no member of the group will send with these tags any more. */
void tt_mpi_tags_release(int tag);

/* STREAMS (8) is twice the number of pieces that the executor may hold for a reduction (TT_XHOLD),
 * so that a peer can always make progress. */
enum { SLOTS_IN = 8, SLOTS_OUT = 16, HEAD = 64, SLOT = HEAD + TT_INLINE_MAX };
enum { STREAMS = TT_MPI_TAGS - 1 };

enum kind { DATA = 1, ANNOUNCE, BYE };
struct header { /* sent as raw memory: all ranks run one build with one byte order */
    struct tt_tag tag;
    uint32_t bytes;
    uint8_t kind, stream, pad[2];
};
static_assert(sizeof(struct header) <= HEAD, "the header has its place before the payload");

struct stream { /* incoming */
    bool busy;
    struct header head;
    char *body;
};

struct peer {
    char *in, *out; /* SLOTS_IN, SLOTS_OUT slots */
    MPI_Request in_request[SLOTS_IN];
    /* slots in the order in which their receives were posted, starting at `front` */
    uint8_t posted[SLOTS_IN];
    uint32_t front, nposted;
    bool arrived; /* the message of the front slot has arrived */
    struct stream stream[STREAMS];
    char *body; /* SLOTS_OUT outgoing payloads */
    uint32_t next_stream;
    uint8_t free_out[SLOTS_OUT], nfree_out;
    uint8_t left[SLOTS_OUT]; /* messages of each slot that MPI has not completed */
    uint64_t cookie[SLOTS_OUT];
    bool closed;
};

/* A message that MPI has not completed and that is not in `front`: the one of outgoing slot `what`,
 * or the incoming payload on stream `what`. */
struct under_way {
    uint32_t peer;
    uint8_t what;
    bool incoming;
};

struct mpi {
    struct tt_transport base;
    MPI_Comm comm;
    int tag;   /* the first of the group's tags */
    int *rank; /* [size]: each peer's rank in comm */
    struct peer *peer;
    MPI_Request *front; /* [size]: each peer's oldest receive */
    MPI_Request *busy;  /* [nbusy]; way[i] says what busy[i] is */
    struct under_way *way;
    int nbusy;
    int *done; /* scratch for Testsome */
    MPI_Status *status;
    struct tt_event *news;
    size_t nnews;
    uint32_t turn;
    bool failed, told; /* MPI itself returned an error; every peer was reported closed */
    bool closing;      /* payloads are dropped on arrival */
    char *store;
    char *bodies; /* PEER_BODIES for each peer; pages are backed on first use */
};

/* message.c */
/* Posts the receive of a slot at the end of the peer's queue. */
void tt_mpi_post(struct mpi *t, uint32_t r, uint8_t slot);
tutti_status tt_mpi_send_slot(struct mpi *t, uint32_t r, uint8_t slot, const struct header *h,
                              size_t inline_bytes);
tutti_status tt_mpi_send(struct tt_transport *base, uint32_t r, const struct tt_tag *tag,
                         const struct iovec *iov, int niov, uint64_t cookie);
/* Payloads always arrive together with their data, so this transport never asks where to put
 * one. */
tutti_status tt_mpi_accept(struct tt_transport *t, uint32_t peer, uint32_t stream,
                           const struct iovec *iov, int niov);
/* A large payload frees its stream; a small one gives its slot back to MPI. ev->data says which one
 * it was. */
void tt_mpi_release(struct tt_transport *base, const struct tt_event *ev);
size_t tt_mpi_poll(struct tt_transport *base, struct tt_event *ev, size_t max);
/* Sleeps, the longer the more often the caller has looked. */
void tt_mpi_nap(unsigned looks);
/* MPI offers nothing to sleep on. It is polled at growing intervals until an event or the
 * deadline. */
void tt_mpi_wait(struct tt_transport *base, uint64_t deadline_ns);

#endif
