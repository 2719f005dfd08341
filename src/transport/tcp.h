/* tcp.h - what the files of the tcp transport share: tcp_frame.c (bytes of a header), tcp_send.c,
 * tcp_recv.c, tcp_link.c (rates), tcp_seal.c (encryption), tcp_leave.c (closing without waiting for
 * peers), tcp.c (opening, polling, closing).
 *
 *     transport -- peer --+-- socket (stripe 0) -- queue out (tt_tx), buffer in (tt_rx)
 *                         +-- socket (stripe 1) -- ...
 *
 * A socket that has something to do stands once in the transport's to-do list; poll serves the list
 * and asks the kernel (recv or epoll) only when the list gave nothing. */
#ifndef TT_TRANSPORT_TCP_H
#define TT_TRANSPORT_TCP_H

#include "transport/transport.h"

/* ---- frames (tcp_frame.c) ----
 *
 * On the wire a piece is a header, its payload and zeros up to the next multiple of 8; numbers are
 * little-endian.
 *
 *      0 magic u32      4 bytes u32       8 fingerprint u64
 *     16 request u32   20 message u32    24 segment u32     28 comm u16   30 channel u16
 *     32 number u64 (0, 1, 2, .. on each socket)
 *     40 check u32 (CRC-32C of the payload, 0 without a guard)
 *     44 CRC-32C of bytes 0..43 u32
 *
 * A sealed socket carries the same without padding, as records (seal.h): the header is one, the
 * payload is cut in records of TT_TCP_RECORD bytes. Each has a tag behind it; its length follows
 * from the records before. */
enum { TT_FRAME_HEADER = 48, TT_FRAME_ALIGN = 8 };

struct tt_tcp_frame {
    struct tt_tag tag;
    uint32_t bytes;  /* of payload, at most TT_PIECE_MAX */
    uint64_t number; /* of this piece on its socket */
    uint32_t check;  /* of the payload */
};
void tt_tcp_frame_encode(const struct tt_tcp_frame *f, uint8_t *out); /* TT_FRAME_HEADER bytes */
/* False when these bytes are not the header of piece `number`. */
bool tt_tcp_frame_decode(const uint8_t *in, uint64_t number, struct tt_tcp_frame *ret);
uint32_t tt_tcp_frame_bytes(const uint8_t *header); /* payload length, from a header made here */
static inline uint32_t tt_frame_padding(uint32_t bytes)
{
    return -bytes & (TT_FRAME_ALIGN - 1);
}

/* ---- one socket ---- */

/* A piece on its way out. It stays in the ring until its TT_EV_SENT has been delivered. */
struct tt_tcp_slot {
    uint8_t header[TT_FRAME_HEADER];
    uint64_t cookie;
    uint32_t iov_end, copy_end; /* heads of the iovec and copy rings when the piece is gone */
};

/* Three rings with free-running counters (size a power of two): pieces (told <= sent <= tail), what
 * is left of their bytes as iovecs in wire order, and room for copied payloads. */
struct tt_tx {
    struct tt_tcp_slot *slot;
    struct iovec *iov;
    uint8_t *copy;
    uint32_t slots, told, sent, tail;
    uint32_t iovs, iov_head, iov_tail;
    uint32_t copy_head, copy_tail;
    size_t bytes; /* not yet taken by the kernel; sealed bytes count until their whole batch is */
    uint64_t number;
    bool blocked; /* the kernel's buffer is full: wait for EPOLLOUT */
    bool armed;   /* EPOLLOUT is asked for */
};

enum tt_rx_state {
    TT_RX_HEADER,    /* a header comes next */
    TT_RX_BODY,      /* the small payload of `frame` comes next */
    TT_RX_ANNOUNCED, /* TT_EV_HEADER was given; nothing is read until accept */
    TT_RX_FILL,      /* bytes go to the caller's places */
    TT_RX_FILLED,    /* TT_EV_RECEIVED is due */
    TT_RX_END        /* nothing more will come */
};

struct tt_rx {
    /* TT_RX_BUFFER + TT_FRAME_ALIGN bytes; offsets are congruent to stream positions modulo 8 */
    uint8_t *buf;
    uint32_t head, tail; /* [head, tail): read, not parsed */
    uint32_t held;       /* data events not yet released: they lie before head, and must not move */
    uint32_t skip;       /* padding before the next header */
    uint32_t left;       /* FILL: bytes still to come */
    uint32_t crc;        /* FILL: of those that came, when checked */
    uint32_t mark;       /* SO_RCVLOWAT: the kernel wakes us when it has so many bytes */
    int first, count;    /* FILL: entries of `into` in use; one more is kept for the peek */
    enum tt_rx_state state;
    struct tt_tcp_frame frame;
    uint64_t number;
    /* the last payload was large: read little ahead, so that the next one needs no copy */
    bool large;
    bool readable; /* the kernel may have bytes (or an end) for us */
    bool hup;      /* the end follows these bytes: read on after a short read too */
    bool stalled;  /* buffer full of held data */
    bool checked;  /* payloads have a checksum */
    struct iovec into[TT_IOV_MAX + 1];
};
enum { TT_RX_BUFFER = 128 << 10 };

struct tt_tcp_peer {
    uint32_t live;    /* sockets that have not ended */
    uint32_t sockets; /* that it has had so far, ended ones included */
    uint32_t next;    /* stripe to try first */
    int error;        /* first error of its sockets */
    bool ending;      /* an end or an error was seen: nothing can be sent */
    bool told;        /* TT_EV_CLOSED was delivered */
    bool wanted;      /* a socket was asked for */
    bool missed;      /* there will be none: TT_EV_CLOSED is due */
    bool known;       /* altered bytes: they belonged to the piece `bad` */
    struct tt_tag bad;
};

/* Bytes this rank waited for, by the rate at which they came (tcp_link.c). */
enum { TT_LINK_STEPS = 256 };
struct tt_tcp_rates {
    uint64_t bytes[TT_LINK_STEPS], busy_ns;
};

struct tt_tcp;
struct tt_tcp_sock {
    struct tt_tcp *t;
    int fd; /* -1: ended */
    uint32_t peer, stripe;
    bool listed; /* stands in the to-do list */
    bool said;   /* leaving: the write side has been shut down */
    struct tt_tx tx;
    struct tt_rx rx;
    struct tt_tcp_seal *seal; /* NULL: not encrypted */
    uint64_t starved_ns;      /* since when the rest of a payload is awaited; 0: nothing is */
    uint32_t starved_bytes;
    struct tt_tcp_rates rates;
};

struct tt_tcp {
    struct tt_transport base;
    int epoll;
    uint32_t stripes, nsock, blocked; /* blocked: queues that wait for EPOLLOUT */
    uint32_t queue;                   /* pieces of each */
    uint32_t missed;                  /* peers with that flag */
    uint32_t turn;
    struct tt_tcp_source source; /* its `peers`: those that have not had a socket yet */
    /* a queue that was full has room, and no event tells the caller: wait must not sleep */
    bool room;
    struct tt_tcp_peer *peer;
    struct tt_tcp_sock **sock; /* nsock of at most stripes * size, as `todo` */
    struct tt_tcp_sock **at;   /* [stripe * size + peer], NULL where none */
    struct tt_tcp_sock **todo;
    uint32_t todo_head, todo_len;
    struct tt_tcp *next; /* in the list of transports that are being left (tcp_leave.c) */
};

/* Puts s in the to-do list once. */
void tt_tcp_todo(struct tt_tcp_sock *s);
/* Asks, once, for a socket to a peer that has none. TUTTI_IN_PROGRESS until it is connected. */
tutti_status tt_tcp_want(struct tt_tcp *t, uint32_t peer);
/* The socket is finished: error 0 for an orderly end. The last one of a peer makes TT_EV_CLOSED
 * due. */
void tt_tcp_end(struct tt_tcp_sock *s, int error);
/* The piece being received was altered on the way: ends the socket, and CLOSED names the piece. */
void tt_tcp_altered(struct tt_tcp_sock *s);
/* Sending failed, but bytes that came before may still be read: the end follows once they are. */
void tt_tcp_break(struct tt_tcp_sock *s, int error);

/* ---- sending (tcp_send.c) ---- */
tutti_status tt_tcp_tx_init(struct tt_tx *q, uint32_t slots, struct tutti_error *err);
void tt_tcp_tx_free(struct tt_tx *q);
tutti_status tt_tcp_send(struct tt_transport *base, uint32_t peer, const struct tt_tag *tag,
                         const struct iovec *iov, int niov, uint64_t cookie);
void tt_tcp_tx_flush(struct tt_tcp_sock *s);
/* consume: the first n bytes of the queue have been taken. settle: counts the pieces as sent whose
 * bytes have all been taken. */
void tt_tcp_tx_consume(struct tt_tx *q, size_t n);
void tt_tcp_tx_settle(struct tt_tx *q);
/* Forgets what was not sent; for a broken socket. */
void tt_tcp_tx_drop(struct tt_tcp_sock *s);
/* Delivers up to max TT_EV_SENT. */
size_t tt_tcp_tx_tell(struct tt_tcp_sock *s, struct tt_event *ev, size_t max);
/* Stops asking for EPOLLOUT when nothing waits for it. */
void tt_tcp_tx_disarm(struct tt_tcp_sock *s);

/* ---- receiving (tcp_recv.c) ---- */
tutti_status tt_tcp_rx_init(struct tt_rx *r, struct tutti_error *err);
void tt_tcp_rx_free(struct tt_rx *r);
tutti_status tt_tcp_accept(struct tt_transport *base, uint32_t peer, uint32_t stream,
                           const struct iovec *iov, int niov);
void tt_tcp_release(struct tt_transport *base, const struct tt_event *ev);
/* Parses and reads; puts s back in the to-do list when it stopped for lack of room or turn. */
size_t tt_tcp_rx_serve(struct tt_tcp_sock *s, struct tt_event *ev, size_t max);
static inline bool tt_rx_wants(const struct tt_rx *r)
{
    return r->state != TT_RX_ANNOUNCED && r->state != TT_RX_END && !r->stalled;
}

/* Makes room for the frame that begins at head; false: stalled until held events are released. */
bool tt_tcp_rx_make_room(struct tt_rx *r);
/* n bytes of the accepted payload have arrived in the caller's places. */
void tt_tcp_rx_filled(struct tt_rx *r, size_t n);
/* All of the accepted payload has arrived: checks it. */
void tt_tcp_rx_complete(struct tt_tcp_sock *s);

/* ---- leaving (tcp_leave.c) ---- */
void tt_tcp_leave(struct tt_transport *base);

/* ---- encryption (tcp_seal.c) ---- */
enum { TT_TCP_RECORD = 32 << 10 };
struct tt_tcp_seal;
tutti_status tt_tcp_seal_open(const struct tt_seal_keys *k, struct tt_tcp_seal **ret,
                              struct tutti_error *err);
void tt_tcp_seal_free(struct tt_tcp_seal *e); /* forgets the keys; accepts NULL */
/* Sends sealed bytes, sealing more when none are left; as send(2), *ret_want is what it tried. */
ssize_t tt_tcp_seal_send(struct tt_tcp_sock *s, size_t *ret_want);
void tt_tcp_seal_drop(struct tt_tcp_seal *e); /* what was not sent */
/* Opens what has come as far as the state needs it; ends the socket when bytes were altered. */
void tt_tcp_seal_parse(struct tt_tcp_sock *s);
/* Reads what comes next, as recv(2); *ret_want is what it asked for. */
ssize_t tt_tcp_seal_read(struct tt_tcp_sock *s, size_t *ret_want);
bool tt_tcp_seal_partial(const struct tt_tcp_seal *e); /* part of a record has come */
/* How many bytes must come until the piece in FILL is complete. */
uint32_t tt_tcp_seal_left(const struct tt_tcp_sock *s);

/* ---- how fast a link is (tcp_link.c) ---- */
/* A payload is not complete, and the kernel has no more of it: starts the clock. */
void tt_tcp_starved(struct tt_tcp_sock *s);
void tt_tcp_complete(struct tt_tcp_sock *s); /* the payload is complete: stops the clock */
bool tt_tcp_link(struct tt_transport *base, uint32_t peer, struct tt_link_stats *ret);

/* tcp.c, tcp_open.c */
/* At most two rounds over the to-do list, and one question to the kernel in between. */
size_t tt_tcp_poll(struct tt_transport *base, struct tt_event *ev, size_t max);
/* Sleeps until something is listed, a queue has room, or the deadline. Epoll may report only things
 * that are of no use now (mark): then it sleeps again. */
void tt_tcp_wait(struct tt_transport *base, uint64_t deadline_ns);
/* On failure the descriptor stays the caller's. */
tutti_status tt_tcp_add_socket(struct tt_tcp *t, const struct tt_tcp_link *l, uint32_t stripe,
                               struct tutti_error *err);

#endif
