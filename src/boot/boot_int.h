/* boot_int.h - what the files of boot/ share; only tests and fuzzers include it besides them.
 *
 * From the bottom up: wire (bytes <-> structs, pure), net (sockets that never wait longer than
 * told), auth (one handshake as a state machine), gate (many incoming handshakes), dial (one
 * outgoing connection with retries). Built on these: meet (rank 0), join (the others), exchange
 * (all-gather), porter (links), guest (newcomers that wait), enter (a newcomer itself), succeed
 * (the job after a change of its members). */
#ifndef TT_BOOT_INT_H
#define TT_BOOT_INT_H

#include <poll.h>
#include <sys/types.h>

#include "boot/boot.h"

enum {
    TT_BOOT_PROTOCOL = 4,
    TT_GREETING = 100,
    TT_CHALLENGE = 32,
    TT_PROOF = 32,
    TT_SHARE = 32,
    TT_FRAME = 24,
    TT_PEER_BYTES = 84 + 4 * TT_BOOT_SOURCES,
    TT_VERSION_TEXT = 32,
    TT_JOIN_FIXED = TT_PEER_BYTES + TT_VERSION_TEXT + 16,
    TT_JOIN_MAX = TT_JOIN_FIXED + TT_BOOT_SETTINGS,
    TT_REFUSAL_MAX = 4 + 504,
    TT_TICKET_FIXED = 16,
    TT_TICKET_MAX = TT_TICKET_FIXED + 4096 * TT_PEER_BYTES, /* as many as can agree (roll.h) */
    TT_BOOT_SIZE_MAX = 1 << 20,
    TT_UNPROVED_MAX = 1024, /* unproved connections at a time */
    TT_GATE_TURN = 64       /* connections accepted, and handshakes advanced, in one call */
};
#define TT_BOOT_TIMEOUT_NS UINT64_C(30000000000) /* if the caller gives none */
#define TT_HANDSHAKE_NS    UINT64_C(2000000000)  /* longest life of an unproved connection */
/* Shortest life of an unproved connection when all places are taken. */
#define TT_HANDSHAKE_FAIR_NS UINT64_C(50000000)
/* Time after the deadline for rank 0's reason to arrive. */
#define TT_GRACE_NS UINT64_C(800000000)

/* ---- wire.c: little-endian bytes, pure functions; parsers accept any bytes ---- */

/* JOIN: a newcomer, which does not know the job's id nor the rank that it greets. */
enum tt_conn_kind { TT_CONN_MEET = 1, TT_CONN_DATA = 2, TT_CONN_JOIN = 3 };
/* What a newcomer and the member that it greets are called in their greetings. */
#define TT_RANK_MEMBER   UINT32_MAX
#define TT_RANK_NEWCOMER (UINT32_MAX - 1)

/* The first message of each end on every connection:
 *
 *     0 magic[8] | 8 version u16 | 10 flags u8 | 11 kind u8 | 12 role u64 | 20 from u32
 *     24 to u32 | 28 job u64 | 36 challenge[32] | 68 share[32]
 *     flags: 1 keyed, 2 encrypt, 4 aes */
struct tt_greeting {
    uint16_t version;
    bool keyed; /* has a job key; does not say which */
    /* Wants this connection to be sealed; `share` is its half of the key exchange. */
    bool encrypt;
    bool aes; /* its CPU has AES-256-GCM */
    enum tt_conn_kind kind;
    uint64_t role;
    uint32_t from, to;
    uint64_t job; /* 0 from a rank that does not know it yet */
    uint8_t challenge[TT_CHALLENGE];
    uint8_t share[TT_SHARE]; /* X25519; zeros without encrypt */
};
void tt_boot_greeting_write(const struct tt_greeting *g, uint8_t out[TT_GREETING]);
/* False: not a greeting of any version. For another version only `version` is set. */
bool tt_boot_greeting_parse(const uint8_t in[TT_GREETING], struct tt_greeting *ret);

enum tt_frame_kind {
    TT_FRAME_JOIN = 1,
    TT_FRAME_TABLE,
    TT_FRAME_REFUSAL,
    TT_FRAME_GIVE,
    TT_FRAME_ALL,
    TT_FRAME_TICKET,
    TT_FRAME_KINDS
};

/* Precedes every body on a control connection:
 *
 *     0 magic u32 | 4 kind u32 | 8 seq u32 | 12 remaining u32 | 16 length u64 */
struct tt_frame {
    enum tt_frame_kind kind;
    uint32_t seq;          /* number of the exchange */
    uint32_t remaining_ms; /* until the sender's deadline */
    uint64_t length; /* of the body that follows; the reader checks it against its own limit */
};
void tt_boot_frame_write(const struct tt_frame *f, uint8_t out[TT_FRAME]);
bool tt_boot_frame_parse(const uint8_t in[TT_FRAME], struct tt_frame *ret);

/* What a rank sends to rank 0. */
struct tt_boot_join {
    uint32_t size;
    uint64_t net_id; /* equal if the two ranks reach each other over loopback */
    struct tt_boot_peer peer;
    char version[TT_VERSION_TEXT];
    const char *settings; /* not terminated; after parsing it points into the input */
    size_t settings_len;
};
/* Returns the number of bytes written. */
size_t tt_boot_join_write(const struct tt_boot_join *j, uint8_t out[TT_JOIN_MAX]);
bool tt_boot_join_parse(const uint8_t *in, size_t n, struct tt_boot_join *ret);

void tt_boot_peer_write(const struct tt_boot_peer *p, uint8_t out[TT_PEER_BYTES]);
bool tt_boot_peer_parse(const uint8_t in[TT_PEER_BYTES], struct tt_boot_peer *ret);
/* Exactly `size` peers, each with an address, a port and a clean host name. */
bool tt_boot_table_parse(const uint8_t *in, size_t n, uint32_t size, struct tt_boot_peer *ret);

/* What a newcomer gets when it is admitted. The table follows. */
struct tt_ticket {
    uint64_t job;
    uint32_t rank, change;
};
void tt_boot_ticket_write(const struct tt_ticket *t, uint8_t out[TT_TICKET_FIXED]);
/* *ret_size is the number of peers that follow. */
bool tt_boot_ticket_parse(const uint8_t *in, size_t n, struct tt_ticket *ret, uint32_t *ret_size);

/* An error as rank 0 sends it to the others. */
/* Returns the number of bytes written. */
size_t tt_boot_refusal_write(const struct tutti_error *e, uint8_t out[TT_REFUSAL_MAX]);
/* *ret is always an error afterwards, whatever the bytes are. */
void tt_boot_refusal_parse(const uint8_t *in, size_t n, struct tutti_error *ret);

/* ---- net.c, resolve.c: IPv4 sockets; every call returns at once or by its deadline ---- */

/* Read until *got == want, or write until *sent == want, as far as possible without waiting. */
enum tt_net tt_boot_net_fill(int fd, uint8_t *buf, size_t want, size_t *got);
enum tt_net tt_boot_net_drain(int fd, const uint8_t *buf, size_t want, size_t *sent);
/* timeout_ns from now, capped so that additions to it do not overflow. */
uint64_t tt_boot_net_deadline(uint64_t timeout_ns);
/* Waits for events until until_ns at most. EINTR counts as no events. */
void tt_boot_net_poll(struct pollfd *fds, size_t n, uint64_t until_ns);
/* Starts connecting (source_be 0: the kernel chooses the source); *ret_fd is non-blocking. 0 or
 * errno. */
int tt_boot_net_connect(uint32_t addr_be, uint16_t port, uint32_t source_be, int *ret_fd);
/* Call once the socket is writable: 0 or errno. A socket that is connected to itself (the kernel
 * chose the target as its own port) is ECONNREFUSED. */
int tt_boot_net_connected(int fd);
/* Can a connection be made? 0 or errno; ECONNREFUSED: the host answers, but no socket listens. */
int tt_boot_net_probe(uint32_t addr_be, uint16_t port, uint32_t source_be, uint64_t timeout_ns);
void tt_boot_net_hand_out(int fd); /* makes the socket blocking */
void tt_boot_net_close(int *fd);   /* accepts -1; sets -1 */
/* Add to or remove from an epoll set (-1: none, does nothing). A descriptor must be removed before
 * it is closed, because a forked child may keep it open. */
void tt_boot_net_watch(int epoll, int fd, uint32_t events, void *watcher);
void tt_boot_net_unwatch(int epoll, int fd);
bool tt_boot_net_loopback(uint32_t addr_be);
enum { TT_NET_TEXT = 24 };
/* "10.0.0.1:29500", without the port if it is 0; returns buf. */
char *tt_boot_net_text(uint32_t addr_be, uint16_t port, char buf[TT_NET_TEXT]);
/* "30 s", for messages; returns buf. */
char *tt_boot_net_span(uint64_t ns, char *buf, size_t cap);

/* ---- line.c: a socket with the keys of its handshake ---- */

/* Sends all n bytes; 0 or errno (ETIMEDOUT). */
int tt_boot_line_send(const struct tt_boot_line *l, const uint8_t *buf, size_t n,
                      uint64_t until_ns);

struct tt_frame_in {
    uint8_t head[TT_FRAME];
    size_t got; /* head and body together */
    struct tt_frame frame;
    uint8_t *body; /* the caller's, cap bytes */
    uint64_t cap;
};
/* Reads one frame and not a byte more. END with errno EBADMSG: not a frame; EMSGSIZE: the length
 * exceeds cap (in->frame is set). */
enum tt_net tt_boot_frame_fill(const struct tt_boot_line *l, struct tt_frame_in *in);

/* Parses "host:port"; IPv6 is refused with an explanation. */
tutti_status tt_boot_rendezvous_parse(const char *text, char host[TT_BOOT_HOST * 2],
                                      uint16_t *ret_port, struct tutti_error *err);
/* Resolves a name to an IPv4 address: the first one that is not loopback, if there is one. */
tutti_status tt_boot_resolve(const char *host, uint64_t deadline_ns, uint32_t *ret_addr_be,
                             struct tutti_error *err);

/* ---- iface.c, host.c, listen.c, key.c ---- */

struct tt_iface {
    char name[32];
    uint32_t addr_be, mask_be;
};
/* Does the filter (NCCL syntax or CIDR) admit this interface? A malformed filter is an error. */
tutti_status tt_boot_iface_match(const char *filter, const struct tt_iface *i, bool *ret,
                                 struct tutti_error *err);
/* The address to listen on: the source address towards dst if the filter admits it, else the first
 * admitted one that is not loopback; for a dst on loopback always loopback. A filter that admits
 * nothing is an error that lists the interfaces. */
tutti_status tt_boot_iface_choose(const char *filter, uint32_t dst_be, uint32_t *ret_addr_be,
                                  struct tutti_error *err);
/* The address that other hosts should connect to: of the admitted ones that of the default route,
 * else the first that is not loopback; 0: none. */
uint32_t tt_boot_iface_outward(const char *filter);
void tt_boot_iface_list(struct tt_str *out); /* "lo 127.0.0.1/8, eth0 10.0.0.2/24" */
/* Addresses of this host's interfaces except loopback, that of the default route first; as many as
 * fit, the rest 0. */
void tt_boot_iface_sources(uint32_t ret_be[TT_BOOT_SOURCES]);
/* Is the interface with that address down or without a carrier? */
bool tt_boot_iface_down(uint32_t addr_be);

/* Fills host, host_id, pid and sources; address and port are 0. */
void tt_boot_host_self(struct tt_boot_peer *ret, uint64_t *ret_net_id);

/* Listens on addr:port for some port in [lo, hi], starting at lo + start (lo 0: any), never on
 * `avoid`. If all are in use, the error names the range; rank 0 passes lo == hi. */
struct tt_listen {
    uint32_t addr_be;
    uint16_t lo, hi, avoid;
    uint32_t start;
};
tutti_status tt_boot_listen_open(const struct tt_listen *l, int *ret_fd, uint16_t *ret_port,
                                 struct tutti_error *err);

tutti_status tt_boot_key_load(const char *path, uint8_t ret_key[TT_BOOT_KEY],
                              struct tutti_error *err);
/* The key in the contents of a key file; pure. */
tutti_status tt_boot_key_parse(const uint8_t *text, size_t n, uint8_t ret_key[TT_BOOT_KEY],
                               struct tutti_error *err);
/* First host of "node[01-04,7],x". False: there is none, or it does not fit. */
bool tt_boot_nodelist_first(const char *list, char *ret, size_t cap);

/* ---- settings.c: messages about ranks and settings ---- */

/* Describes where the "name=value" lines of the ranks differ, as: algo is "ring" on rank 0 but
 * "direct" on ranks 1-3. False if they agree. */
bool tt_boot_settings_differ(const char *const *settings, uint32_t size, struct tt_str *out);

/* ---- auth.c: one handshake ---- */

/* An X25519 key pair, made when a job opens and erased when it closes. */
struct tt_key_pair {
    uint8_t secret[TT_SHARE], share[TT_SHARE];
};
/* What a rank presents and expects in handshakes. The pointers are borrowed from struct tt_boot. */
struct tt_trust {
    const uint8_t *key;
    bool keyed;
    uint32_t rank;
    uint64_t job; /* 0 while joining */
    enum tt_conn_kind kind;
    const struct tt_key_pair *pair; /* NULL: connections are not encrypted */
    /* Jobs that went before (succeed.c), whose ranks may still ask; npast of them. */
    const struct tt_past *past;
    size_t npast;
    bool welcome; /* newcomers may come */
};
/* What this rank was called in a job that went before, and what ranks of it are told. */
struct tt_past {
    uint64_t job;
    uint32_t rank;
    uint8_t *word; /* owned */
    size_t word_bytes;
};
/* Keyed hash of both greetings. The two directions differ, so that no proof can be reflected to its
 * sender. */
void tt_boot_proof_make(const uint8_t key[TT_BOOT_KEY], bool by_acceptor,
                        const uint8_t connector[TT_GREETING], const uint8_t acceptor[TT_GREETING],
                        uint8_t out[TT_PROOF]);

enum tt_shake_end {
    TT_SHAKE_MORE,
    TT_SHAKE_DONE,
    TT_SHAKE_GONE,     /* ended before the proof; errno */
    TT_SHAKE_STRANGER, /* not a rank, not of this job, or not addressed to us */
    TT_SHAKE_VERSION,  /* another protocol version: peer.version */
    TT_SHAKE_KEY,      /* its proof was made with another key */
    TT_SHAKE_REJECTED  /* it rejected our proof */
};
struct tt_shake {
    int fd; /* owned by the owner of the handshake */
    bool accepting, greeted;
    uint64_t since_ns;
    uint32_t from_be; /* accepting side: the peer's address */
    uint8_t mine[TT_GREETING], theirs[TT_GREETING], proof[TT_PROOF];
    size_t got;
    struct tt_greeting peer;
    /* After DONE: the keys of this connection; cipher NONE unless both ends want encryption. */
    struct tt_seal_keys keys;
};
void tt_boot_shake_accept(struct tt_shake *s, int fd);
/* The connecting side sends its greeting first. */
enum tt_shake_end tt_boot_shake_connect(struct tt_shake *s, int fd, const struct tt_trust *t,
                                        uint32_t to, uint64_t role);
/* Call when readable. DONE on the accepting side: the peer has proved itself and waits for the
 * answer. */
enum tt_shake_end tt_boot_shake_step(struct tt_shake *s, const struct tt_trust *t);
void tt_boot_shake_answer(const struct tt_shake *s, const struct tt_trust *t,
                          uint8_t ret_proof[TT_PROOF]);

/* ---- gate.c: a listener and the handshakes of the connections it accepted ---- */

struct tt_gate {
    int listener; /* not owned */
    int epoll;    /* readable when there is something to serve; -1: not open */
    bool full;    /* the listener is not polled until retry_ns: no free place, or no descriptors */
    uint64_t retry_ns;
    uint64_t patience_ns; /* how long descriptors may be short before serving fails */
    uint64_t short_ns;    /* since when they are short; 0: they are not */
    struct tt_trust trust;
    /* nknown ascending addresses that connections may come from; NULL: any. Not owned. */
    const uint32_t *known_be;
    size_t nknown, n;
    struct tt_shake *pending[TT_UNPROVED_MAX]; /* oldest first */
};
/* A handshake that has ended and that the owner of the gate must know about. */
struct tt_arrival {
    int fd; /* the caller's; -1: claimed the rank with a wrong key, already closed */
    uint32_t rank, from_be;
    enum tt_conn_kind kind;
    uint64_t role, job;
    uint8_t answer[TT_PROOF];
    struct tt_seal_keys keys;
};
tutti_status tt_boot_gate_open(struct tt_gate *g, int listener, const struct tt_trust *trust,
                               struct tutti_error *err);
/* The addresses that connections of these ranks may come from, ascending; ret_be has room for size
 * * (1 + TT_BOOT_SOURCES). Returns how many. */
size_t tt_boot_known_addresses(const struct tt_boot_peer *peers, uint32_t size, uint32_t *ret_be);
void tt_boot_gate_close(struct tt_gate *g);
uint64_t tt_boot_gate_wake(const struct tt_gate *g); /* when to serve even if nothing is readable */
/* Advances the handshakes that are ready, drops those past the limit, accepts new ones. *ret_n
 * arrivals are returned even if it fails. */
tutti_status tt_boot_gate_serve(struct tt_gate *g, struct tt_arrival ret[TT_GATE_TURN],
                                size_t *ret_n, struct tutti_error *err);
/* Sends an arrival its proof, which tells it that it is admitted. False: the peer is gone (a->fd
 * still belongs to the caller). */
bool tt_boot_arrival_admit(const struct tt_arrival *a);

/* ---- dial.c: one outgoing connection, retried until it is made ---- */

struct tt_dial {
    uint32_t rank;
    uint64_t role;
    uint32_t addr_be, source_be;
    uint16_t port;
    enum { TT_DIAL_WAITING, TT_DIAL_CONNECTING, TT_DIAL_SHAKING, TT_DIAL_DONE } state;
    struct tt_shake shake; /* in state DONE, shake.fd is the connection and belongs to the caller */
    uint64_t retry_ns;
    unsigned tries, rejections;
    enum tt_shake_end last; /* how the latest handshake ended */
    int error;              /* errno of the latest connect; 0 if something else failed */
    int epoll;              /* where its socket is polled; -1: the caller polls tt_boot_dial_fd */
    void *watcher;
};
/* The caller has set rank to port, epoll and watcher. */
void tt_boot_dial_begin(struct tt_dial *d, uint64_t now_ns);
void tt_boot_dial_abort(struct tt_dial *d);
struct pollfd tt_boot_dial_fd(const struct tt_dial *d);
/* When to serve even if nothing is ready. */
uint64_t tt_boot_dial_wake(const struct tt_dial *d);
void tt_boot_dial_serve(struct tt_dial *d, const struct tt_trust *t, short revents);
/* Why there is no connection yet, to end a message: "connection refused". */
const char *tt_boot_dial_why(const struct tt_dial *d);

/* ---- the job's object (open.c) ---- */

/* A link that arrived before its desk was opened. One block each, so that none is moved and every
 * copy of its keys is erased. */
struct tt_early {
    int fd;
    uint32_t rank;
    uint64_t role;
    struct tt_seal_keys keys;
};
enum { TT_TOLD = 16, TT_PAST_MAX = 64 };
struct tt_boot {
    struct tt_boot_config config; /* settings: own copy */
    struct tt_boot_peer *peers;
    struct tt_key_pair pair; /* config.encrypt */
    uint8_t offer;           /* enum tt_offer_mode: where the key comes from */
    uint64_t job;
    uint64_t net_id;
    int listener;
    /* Source address of outgoing data connections if an interface was asked for, else 0. */
    uint32_t source_be;
    struct tt_boot_line *control; /* by rank; fd -1: none */
    struct tt_porter *porter;     /* NULL with one rank, and while the ranks meet */
    /* struct tt_early *: proved connections that no desk has asked for yet, in order of arrival;
     * guarded by the porter's lock. */
    struct tt_vec early;
    struct tt_vec past; /* struct tt_past, the latest last */
    /* Lines to ranks that were told what became of a past job; open until they have read it. */
    struct tt_boot_line told[TT_TOLD];
    uint32_t ntold;     /* so far */
    uint32_t *known_be; /* nknown addresses of ranks of past jobs; ascending */
    size_t nknown;
    /* Newcomers: struct tt_guest *, in order of arrival; guarded by the porter's lock. */
    struct tt_vec guests;
    bool welcome; /* they may come */
    uint32_t seq; /* exchanges so far */
    bool broken;  /* an exchange failed: the control streams are out of step */
};
/* A closed object with its own copy of the configuration. NULL: out of memory. */
struct tt_boot *tt_boot_make(const struct tt_boot_config *c);
/* ---- porter.c ---- */

/* After a failure tt_boot_porter_close is still needed. */
tutti_status tt_boot_porter_open(struct tt_boot *b, struct tutti_error *err);
void tt_boot_porter_close(struct tt_boot *b);
/* Gives up the listener, which then belongs to the caller, and the links that nobody took. Dials go
 * on. */
int tt_boot_porter_yield(struct tt_boot *b);
void tt_boot_porter_welcome(struct tt_boot *b); /* the gate lets newcomers in, from any address */
void tt_boot_porter_lock(struct tt_boot *b);
void tt_boot_porter_unlock(struct tt_boot *b);
/* early.c, under the lock: admits the arrival and keeps it until a desk asks for it. False: the
 * peer is gone, or there is no room; a->fd still belongs to the caller. */
bool tt_boot_early_keep(struct tt_boot *b, const struct tt_arrival *a);
void tt_boot_early_free(struct tt_early *e); /* closes it, unless its descriptor is -1 */
/* succeed.c, under the lock: a rank of a past job has come; a->fd is taken. */
void tt_boot_past_tell(struct tt_boot *b, struct tt_arrival *a);
/* guest.c, under the lock: a newcomer has proved itself; a->fd is taken. The sockets of guests are
 * in the porter's epoll set, with b's `guests` as their watcher. */
void tt_boot_guest_seat(struct tt_boot *b, struct tt_arrival *a, int epoll);
void tt_boot_guests_serve(struct tt_boot *b, int epoll);
uint64_t tt_boot_guests_due(const struct tt_boot *b);      /* when to serve even without an event */
void tt_boot_guests_dismiss(struct tt_boot *b, int epoll); /* all; they will come again */
/* Gives those of the newcomers that wait at `old` their tickets for b; takes the lock. */
void tt_boot_guests_tell(struct tt_boot *old, const struct tt_boot *b,
                         const struct tt_boot_heirs *h);
/* "rank 3 has used up ..." */
tutti_status tt_boot_fail_descriptors(uint32_t rank, struct tutti_error *err);

struct tt_place {
    uint32_t addr_be; /* of the rendezvous */
    uint16_t port;
    uint64_t deadline_ns;
};

/* ---- local.c: a key among the processes of one user ---- */

enum { TT_OFFER = 48 };
/* KEY: the offer holds it; FILE: it is in a file; NONE: there is none, by request. */
enum tt_offer_mode { TT_OFFER_KEY, TT_OFFER_FILE, TT_OFFER_NONE, TT_OFFERS };
struct tt_offer {
    enum tt_offer_mode mode;
    uint8_t key[TT_BOOT_KEY];
};
void tt_boot_offer_write(const struct tt_offer *o, uint8_t out[TT_OFFER]);
bool tt_boot_offer_parse(const uint8_t *in, size_t n, struct tt_offer *ret); /* accepts any bytes */
/* Rank 0: opens the job's local socket at this rendezvous. The kernel gives the name to one process
 * at a time. */
tutti_status tt_boot_local_listen(const struct tt_place *at, int *ret_fd, struct tutti_error *err);
/* Call when readable: answers processes of this user. */
void tt_boot_local_serve(int listener, const struct tt_offer *o);
/* The other ranks: sets the key of b's configuration. */
tutti_status tt_boot_local_fetch(struct tt_boot *b, const struct tt_place *at,
                                 struct tutti_error *err);
/* "user ann (uid 1000)"; returns buf. */
char *tt_boot_user_text(uid_t uid, char *buf, size_t cap);
/* Which user listens there? False: no socket does. */
bool tt_boot_listener_user(uint32_t addr_be, uint16_t port, uid_t *ret);

/* Fails with: nothing arrived within `span` because this rank's own link is down. */
tutti_status tt_boot_fail_own_link(const struct tt_boot *b, const char *span,
                                   struct tutti_error *err);

/* Both set peers, job, listener and control. Blocking until at->deadline_ns. */
tutti_status tt_boot_meet(struct tt_boot *b, const struct tt_place *at, struct tutti_error *err);
tutti_status tt_boot_join(struct tt_boot *b, const struct tt_place *at, struct tutti_error *err);
/* The steps of a join, which a newcomer (enter.c) takes too; to it the other end is a member. */
tutti_status tt_boot_join_reach(struct tt_boot *b, const struct tt_place *at, uint64_t *ret_job,
                                struct tutti_error *err);
tutti_status tt_boot_join_listen(struct tt_boot *b, const struct tt_place *at,
                                 struct tutti_error *err);
tutti_status tt_boot_join_say(const struct tt_boot *b, uint64_t deadline_ns,
                              struct tutti_error *err);
tutti_status tt_boot_join_await(const struct tt_boot *b, struct tt_frame_in *in,
                                const struct tt_place *at, struct tutti_error *err);
/* open.c: is this what the rule of trust asks for? */
tutti_status tt_boot_check_trust(const struct tt_boot_config *c, uint32_t addr_be,
                                 struct tutti_error *err);
struct tt_trust tt_boot_trust(const struct tt_boot *b, enum tt_conn_kind kind);
tutti_status tt_boot_self_join(const struct tt_boot *b, struct tt_boot_join *ret,
                               struct tutti_error *err);

/* Sends head and body to every rank that has a control line, until until_ns at most. *ret_bad (may
 * be NULL) is the first rank that could not be reached, size if there is none. */
struct tt_notice {
    const uint8_t *head;
    size_t head_len;
    const uint8_t *body;
    size_t body_len;
};
tutti_status tt_boot_notify(const struct tt_boot *b, const struct tt_notice *n, uint64_t until_ns,
                            uint32_t *ret_bad, struct tutti_error *err);
/* Tells every rank with a control line why the job cannot go on; best effort, within half a
 * second. */
void tt_boot_refuse_all(const struct tt_boot *b, const struct tutti_error *why);
/* The same for one line, without waiting. */
void tt_boot_refuse_one(const struct tt_boot_line *l, const struct tutti_error *why);
#endif
