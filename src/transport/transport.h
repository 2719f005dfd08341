/* transport.h - moves pieces of messages between this rank and its peers. One vtable; self, shm,
 * tcp, mux (several as one), MPI in a shared object of its own, and a fault-injecting wrapper.
 *
 * A piece is one segment of one message of one request, at most TT_PIECE_MAX bytes. Pieces between
 * two ranks may arrive in any order between streams, so each carries its full tag. Calls go down,
 * completions come up: `poll` fills an array of events and never calls back. No call blocks but
 * `wait`. Nothing allocates after `open`, except for a connection that is made when first needed
 * (queues are bounded; a full one, or one whose connection is under way, answers TUTTI_IN_PROGRESS:
 * poll and try again).
 *
 * Receiving: an event either brings the payload in transport memory (data != NULL: use it, then
 * release it; shared memory: read in place), or, for payloads above TT_INLINE_MAX on sockets, only
 * the tag and length (TT_EV_HEADER): answer with accept and the places to fill, TT_EV_RECEIVED
 * follows. Until answered, that stream delivers nothing else.
 *
 *     send with cookie   queued -> ... -> SENT     the memory is the caller's again
 *     small piece        DATA -> release
 *     large piece        HEADER -> accept -> RECEIVED
 *     end of a peer      CLOSED
 *
 * TT_EV_CLOSED comes exactly once per peer and is its last event: pieces still queued to it get no
 * TT_EV_SENT, and their memory is free again; memory given to accept is no longer written. Data
 * events that were delivered before stay valid until released. From then on (and from the moment
 * the transport knows, a little earlier) send and accept answer TUTTI_ERR_IO. Misuse (unknown peer,
 * a piece too large, an accept whose places do not sum up to the announced length) answers
 * TUTTI_ERR_ARG. One thread at a time may use a transport. */
#ifndef TT_TRANSPORT_H
#define TT_TRANSPORT_H

#include "base/iov.h"
#include "seal/seal.h"

enum {
    TT_PIECE_MAX = 1 << 20,
    TT_INLINE_MAX = 16 << 10,
    TT_IOV_MAX = 64 /* entries of one send or accept */
};

struct tt_tag {
    /* operation, dtype, count, reduction, sequence, plan hash: compared by the receiver */
    uint64_t fingerprint;
    uint32_t request; /* sequence number of the request in its communicator */
    uint32_t message; /* number of the message on (sender, receiver, channel) */
    uint32_t segment;
    uint16_t comm;    /* communicator id */
    uint16_t channel; /* TT_CH_CONTROL and above are for comm's own use (start notices, aborts) */
};
enum { TT_CH_CONTROL = 0xff00 };

enum tt_event_kind { TT_EV_DATA, TT_EV_HEADER, TT_EV_RECEIVED, TT_EV_SENT, TT_EV_CLOSED };
struct tt_event {
    enum tt_event_kind kind;
    uint32_t peer;
    uint32_t stream; /* which socket or ring of the peer */
    uint32_t bytes;
    struct tt_tag tag; /* DATA, HEADER, RECEIVED */
    const void *data;  /* DATA: valid until released; aligned to 8 bytes */
    uint64_t cookie;   /* SENT: what was given to send */
    /* CLOSED: errno, 0 for an orderly end, EBADMSG when bytes were altered on the way */
    int error;
    bool known; /* CLOSED by altered bytes: tag is that of the piece they belonged to */
};

/* What is known of the link from a peer to here, since opening, from payloads that did not come at
 * once (tcp_link.c). */
struct tt_link_stats {
    uint64_t bytes, busy_ns; /* bytes that this rank had to wait for, and how long in all */
    /* bytes/s at which they came, the median; other traffic of the link makes it lower */
    uint64_t rate;
};

struct tt_transport;
struct tt_transport_ops {
    const char *name, *desc;
    /* Queues a piece; the memory of iov must stay unchanged until TT_EV_SENT with the cookie
     * (cookie 0: no event wanted, and the payload, at most TT_INLINE_MAX bytes, is copied).
     * TUTTI_IN_PROGRESS: queue full. */
    tutti_status (*send)(struct tt_transport *t, uint32_t peer, const struct tt_tag *tag,
                         const struct iovec *iov, int niov, uint64_t cookie);
    /* Answers a HEADER. The places must sum up to its length; they belong to the transport until
     * TT_EV_RECEIVED, or CLOSED. */
    tutti_status (*accept)(struct tt_transport *t, uint32_t peer, uint32_t stream,
                           const struct iovec *iov, int niov);
    /* Gives the payload of a DATA event back. Events may be released in any order. */
    void (*release)(struct tt_transport *t, const struct tt_event *ev);
    /* Does what can be done without waiting and returns at most max events. */
    size_t (*poll)(struct tt_transport *t, struct tt_event *ev, size_t max);
    /* Sleeps until something may have happened or until deadline_ns (tt_now_ns clock); returns at
     * once when there are undelivered events. */
    void (*wait)(struct tt_transport *t, uint64_t deadline_ns);
    void (*close)(struct tt_transport *t);
    /* Closes when peers may still have to fetch what was sent, without waiting for them: they get
     * it, as long as this process lives. NULL: close does that. */
    void (*leave)(struct tt_transport *t);
    /* Closes after a fault: peers may have ended and are waited for briefly at most. NULL: close
     * does that. */
    void (*abandon)(struct tt_transport *t);
    /* A descriptor that is readable (poll(2), from any thread) when something may have happened; -1
     * or NULL: there is none. */
    int (*fd)(const struct tt_transport *t);
    /* `wait` ends also when ready(arg), which looks at memory that local peers publish
     * (shm_wait.h). NULL: there is none. */
    void (*watch)(struct tt_transport *t, bool (*ready)(void *arg), void *arg);
    /* Figures about the link from a peer; false: nothing is known about it. NULL: about none. */
    bool (*link)(struct tt_transport *t, uint32_t peer, struct tt_link_stats *ret);
};
struct tt_transport {
    const struct tt_transport_ops *ops;
    uint32_t rank, size;
};
static inline const char *tt_transport_name(const struct tt_transport *t)
{
    return t->ops->name;
}
static inline int tt_transport_fd(const struct tt_transport *t)
{
    return t->ops->fd ? t->ops->fd(t) : -1;
}
static inline void tt_transport_leave(struct tt_transport *t)
{
    (t->ops->leave ? t->ops->leave : t->ops->close)(t);
}
static inline void tt_transport_abandon(struct tt_transport *t)
{
    (t->ops->abandon ? t->ops->abandon : t->ops->close)(t);
}
static inline bool tt_transport_link(struct tt_transport *t, uint32_t peer,
                                     struct tt_link_stats *ret)
{
    return t->ops->link && t->ops->link(t, peer, ret);
}

/* A rank talking to itself: rarely needed, but callers need no special case. */
tutti_status tt_self_open(uint32_t rank, uint32_t size, struct tt_transport **ret,
                          struct tutti_error *err);

/* What protects the bytes of one socket; the same at both ends. */
struct tt_tcp_guard {
    bool checksum; /* of every payload; headers have one in any case */
    /* cipher other than NONE: everything is sealed, and needs no checksum */
    struct tt_seal_keys keys;
};

/* Sockets that are made when they are first needed, by the rank that sends first. No call of a
 * source waits. */
struct tt_tcp_link {
    uint32_t peer;
    int fd;    /* the taker's from now on; -1: there will be none */
    int error; /* then: why */
    struct tt_tcp_guard guard;
};
struct tt_tcp_source {
    void *ctx;
    uint32_t peers;                         /* number of peers that can have a socket */
    int bell;                               /* readable while `take` has something to give */
    bool (*want)(void *ctx, uint32_t peer); /* false: no memory */
    bool (*take)(void *ctx, struct tt_tcp_link *ret);
    void (*close)(void *ctx);
};

/* TCP on connected sockets (owned from success on): fds[stripe*size + peer], -1 where none. Pieces
 * go to the stripe with the shortest queue. Bytes that a guard finds altered end their peer with
 * EBADMSG before anything of their piece is delivered. */
struct tt_tcp_config {
    uint32_t rank, size, stripes;
    const int *fds;                    /* NULL: none yet */
    const struct tt_tcp_guard *guards; /* as fds; NULL: none */
    /* makes the sockets of all other peers, needs stripes == 1; owned from success on; NULL: there
     * are no others */
    const struct tt_tcp_source *source;
    uint32_t queue; /* pieces queued per socket; 0: 256 */
};
tutti_status tt_tcp_open(const struct tt_tcp_config *c, struct tt_transport **ret,
                         struct tutti_error *err);

/* Shared memory between ranks of one host: a ring per ordered pair in one segment that was created
 * by the lowest local rank (memfd, passed as /proc/<pid>/fd/<n>, or POSIX shm unlinked at once).
 * `region` is mapped by all, zeroed, of tt_shm_bytes(local, ring) bytes; index[] are the local
 * ranks' peer numbers. */
struct tt_shm_config {
    uint32_t rank, size;   /* in the communicator */
    uint32_t nlocal, me;   /* ranks on this host and my place among them */
    const uint32_t *local; /* their ranks, rising */
    void *region;
    uint32_t ring_bytes; /* per ordered pair, a power of two */
    bool oversubscribed; /* more ranks than cores: yield at once instead of spinning */
};
size_t tt_shm_bytes(uint32_t nlocal, uint32_t ring_bytes);
tutti_status tt_shm_open(const struct tt_shm_config *c, struct tt_transport **ret,
                         struct tutti_error *err);

/* Several transports as one: peer r through part[route[r]]. Owns the parts. */
tutti_status tt_mux_open(uint32_t rank, uint32_t size, struct tt_transport *const *part,
                         uint32_t nparts, const uint8_t *route, struct tt_transport **ret,
                         struct tutti_error *err);

/* For tests: delays, drops, corrupts and reorders pieces and closes, as configured. Owns inner. */
struct tt_fault_config {
    uint64_t seed;
    uint32_t delay_permille, drop_permille, corrupt_permille; /* per piece */
    uint64_t delay_ns;
    uint64_t close_after; /* pieces; 0: never */
};
tutti_status tt_fault_open(struct tt_transport *inner, const struct tt_fault_config *c,
                           struct tt_transport **ret, struct tutti_error *err);
#endif
