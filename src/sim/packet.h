/* packet.h - inside of the packet level: the network of flits (net*.c), the interfaces that feed
 * it (ni*.c), and packet.c that joins them.
 *
 * Parts of the network. A *lane* is one virtual channel of one input of a switch: a first-in
 * first-out buffer of flits; every rank is also a switch. Lane link*vcs + v is virtual channel v
 * at the far end of directed link `link`; its credits are kept there too, although the sender
 * uses them. After those come the interfaces, one lane each without a buffer (the data is in
 * memory). A *port* is what flits leave a switch by: a directed link (both directions of a
 * half-duplex cable are one port), or an ejection port of a rank. The crossbar has an input per
 * lane, so lanes compete only for ports.
 *
 * Rules, flit by flit. All times are in ticks (1/1024 ps).
 *
 *     1. A flit may leave its lane `delay` after the start of its transmission into it (flit time +
 *        latency + router cycles), one clock after the flit before it left (interfaces: one flit
 *        time of the interface), at the port's pace, and with a credit.
 *     2. A credit is taken when a flit leaves, and is back at the sender one latency and one clock
 *        after the flit has left the next lane.
 *     3. The head flit of a packet takes the lowest free virtual channel of its class that has a
 *        credit and keeps it until its tail has left.
 *     4. Of the flits that may leave by a port at one time, the next lane in turn wins (with
 *        lockstep: the earliest step first). Round robin by flit, not by packet.
 *     5. Ejection ports need no credit: receivers always have room. Nothing that happens at a time
 *        can affect another port before one clock later, so the order in which ports decide does
 *        not matter. */
#ifndef TT_SIM_PACKET_H
#define TT_SIM_PACKET_H

#include "sim/sim_int.h"

#define TT_NEVER UINT64_MAX
enum { TT_TICKS = 1024 }; /* ticks per picosecond */
enum { TT_NET_NONE = UINT32_MAX >> 1 };

/* ---- packet_queue.c ---- */

/* Flits (or credits) at the times first, first+gap, first+2*gap, ... */
struct tt_train {
    uint64_t first, gap, count;
};
/* A queue of trains, a ring; it grows and never shrinks. */
struct tt_trains {
    struct tt_train *at;
    uint32_t head, len, cap; /* cap: a power of two, or 0 */
};
/* Appends, joined to the last train if it continues that; false: out of memory. */
bool tt_sim_trains_push(struct tt_trains *q, const struct tt_train *t);
/* Takes back the last n, all of one train. */
void tt_sim_trains_unpush(struct tt_trains *q, uint64_t n);
/* Takes the first n, all of one train. */
void tt_sim_trains_take(struct tt_trains *q, uint64_t n);
/* Puts a train back in front; false: out of memory. */
bool tt_sim_trains_untake(struct tt_trains *q, const struct tt_train *t);
static inline const struct tt_train *tt_trains_front(const struct tt_trains *q)
{
    return q->len ? &q->at[q->head] : NULL;
}

/* A heap of events, least (time, id) first. */
struct tt_due {
    uint64_t time, id;
};
struct tt_agenda {
    struct tt_due *at;
    size_t len, cap;
};
bool tt_sim_agenda_push(struct tt_agenda *a, uint64_t time, uint64_t id);
void tt_sim_agenda_pop(struct tt_agenda *a); /* removes the first, which is at[0] */

/* ---- net.c, net_port.c: the network ---- */

struct tt_net_packet {
    /* hop: index of the next link in the message's path; the path's length: ejection */
    uint32_t msg, hop;
    uint64_t flits;   /* its length, head included */
    uint64_t left;    /* flits that have not left the lane */
    bool started;     /* its head has left */
    bool first, last; /* of its message */
};
struct tt_net_lane {
    struct tt_trains flits;   /* when each may leave by rule 1 (delay) */
    struct tt_trains credits; /* for this lane, when the sender learns of each */
    struct tt_net_packet *packet;
    uint32_t head, len, cap; /* of the ring of packets */
    uint64_t pace, gap;      /* the next flit leaves not before; least distance of two flits */
    /* from the start of a flit's transmission into it until it may leave; TT_NEVER: data in
     * memory */
    uint64_t delay;
    uint64_t credit_delay;
    uint64_t bytes; /* interfaces: bytes of the message not yet in a packet */
    uint32_t link;  /* directed link whose far end it is; TT_NET_NONE: an interface */
    uint32_t owner; /* lane of the packet that holds this channel; TT_NET_NONE: free */
    uint32_t port;  /* port that its first packet asks for; TT_NET_NONE: empty */
    /* channel (lane) that its first packet holds; TT_NET_NONE: none yet, or ejection */
    uint32_t out;
    uint32_t prev, next; /* neighbours in the port's list of asking lanes */
};
/* Flits that a port has promised to send: exactly those that the rules give if no other lane
 * comes. They leave at first, first+gap, ... */
struct tt_net_promise {
    uint64_t first, gap, n;
    struct tt_train flits, credits; /* what they were taken from, as it was */
    uint32_t lane;                  /* TT_NET_NONE: no promise */
    bool first_stalled;
    bool tail; /* the last flit is its packet's tail: settled when it leaves */
};
struct tt_net_port {
    uint64_t flit; /* duration of a flit */
    uint64_t free; /* end of the last flit */
    uint64_t when; /* time of the next look; TT_NEVER */
    struct tt_net_promise p;
    uint32_t head; /* first of the lanes that ask for it, a list */
    uint32_t turn; /* the lane that won last */
    bool settling; /* `when` is for the tail of a promise, not for a decision */
};

/* What the network reports: a message's first flit leaves its interface, its last one has left,
 * its first one reaches the ejection port, its last one has arrived. */
enum tt_net_kind { TT_NET_LEAVES, TT_NET_LEFT, TT_NET_ENTERS, TT_NET_ARRIVED, TT_NET_KINDS };
struct tt_net_news {
    uint64_t time; /* >= the time of the event that caused it */
    uint32_t msg, kind;
};

/* The parameters of a run; 0 means "to be derived" where noted. */
struct tt_net_setup {
    uint32_t flit_bytes, payload_bytes, cycles_per_flit, router_cycles, interfaces; /* given */
    /* 0: four, or as many as the routes need */
    uint32_t vcs;
    /* 0: by the link's round trip */
    uint32_t buffer_flits;
    bool message_mode, by_step;
    bool own_ports; /* ranks with fewer links than others have fewer interfaces */
    /* 0: no limit; 1: flit by flit, the definition that promises are tested against */
    uint64_t max_promise;
};
/* packet_settings.c: checks the options and fills in the defaults. */
tutti_status tt_sim_net_settings(const struct tt_sim_input *in, struct tt_net_setup *ret,
                                 struct tutti_error *err);

/* The network of one run. The topology's link i is the directed links 2 i and 2 i + 1. */
struct tt_packet_net {
    const struct tt_sim_input *in;
    struct tt_net_setup set;
    uint32_t nlinks2, nlanes, nports;
    /* classes of virtual channels that the routes need to be free of deadlock */
    uint32_t needed;
    uint32_t classes;   /* classes in use: the smaller of needed and vcs */
    uint8_t *hop_class; /* class of each entry of the work's path */
    uint64_t clock;     /* ticks */
    struct tt_net_lane *lane;
    struct tt_net_port *port;
    uint32_t *link_port; /* of each directed link */
    uint32_t *eject;   /* per message (all segments): index of the ejection port at its receiver */
    uint32_t *packets; /* per (message, segment): packets still under way */
    struct tt_agenda agenda;
    struct tt_vec news; /* struct tt_net_news since the reader emptied it */
    uint64_t now, events, stalls;
    uint64_t flits, head_flits; /* flits that entered the network */
    uint64_t *link_flits;       /* per directed link */
    uint32_t *held, *peak;      /* per directed link: channels in use, and the most at once */
    bool nomem;
};
tutti_status tt_sim_net_open(struct tt_packet_net *n, const struct tt_sim_input *in,
                             const struct tt_net_setup *set, struct tutti_error *err);
void tt_sim_net_free(struct tt_packet_net *n);
/* Puts (message, segment) number msg on interface `k` of its sender, which must be idle; its
 * first flit may leave at `time`. */
void tt_sim_net_send(struct tt_packet_net *n, uint32_t msg, uint32_t k, uint64_t time);
/* Time of the next event (TT_NEVER: none), and handling it. */
uint64_t tt_sim_net_next(struct tt_packet_net *n);
void tt_sim_net_step(struct tt_packet_net *n);
/* After the last event: fails with the cycle of links that wait for each other; succeeds if the
 * network is empty. */
tutti_status tt_sim_net_stuck(const struct tt_packet_net *n, struct tutti_error *err);
/* Flits of a message's packets, heads included; *ret_packets (may be NULL): how many packets. */
uint64_t tt_sim_net_flits(const struct tt_net_setup *set, uint64_t bytes, uint32_t *ret_packets);

/* The number of interfaces, and of ejection ports, of a rank. */
uint32_t tt_sim_net_ends(const struct tt_packet_net *n, uint32_t rank);

/* net.c, for net_port.c. The first packet of a lane that has one. */
struct tt_net_packet *tt_sim_net_first(const struct tt_net_lane *l);
/* Appends a packet; it asks for its port if it is the first. false: out of memory. */
bool tt_sim_net_append(struct tt_packet_net *n, uint32_t lane, const struct tt_net_packet *p);
/* Removes the first packet; the next one then asks. */
void tt_sim_net_drop_first(struct tt_packet_net *n, uint32_t lane);
/* Something changed for this lane at that time: the port must look at it. */
void tt_sim_net_wake(struct tt_packet_net *n, uint32_t port, uint32_t lane, uint64_t time);
void tt_sim_net_tell(struct tt_packet_net *n, uint32_t msg, enum tt_net_kind kind, uint64_t time);
uint32_t tt_sim_net_conn(const struct tt_packet_net *n, uint32_t msg);
/* net_port.c: what a port does when its time comes. */
void tt_sim_net_decide(struct tt_packet_net *n, uint32_t port);
void tt_sim_net_settle(struct tt_packet_net *n, uint32_t port);
/* Takes back the flits promised for `time` and later. */
void tt_sim_net_cut(struct tt_packet_net *n, uint32_t port, uint64_t time);

/* net_open.c: the messages by sender (or receiver), step, position in the slice; start[ranks +
 * 1] (may be NULL) is where each rank's begin. The caller frees it; NULL: no memory. */
uint32_t *tt_sim_net_order(const struct tt_work *w, bool by_receiver, uint32_t *start);

/* net_class.c: assigns a class of virtual channels to every hop of every route. */
tutti_status tt_sim_net_classes(const struct tt_work *w, uint32_t nlinks2, uint8_t *hop_class,
                                uint32_t *ret_classes, struct tutti_error *err);

/* ---- ni_table.c: the schedule table of one rank's network interface (sections 1.6, 1.7 of the
 * notes on MultiTree) ---- */
enum tt_ni_opcode { TT_NI_REDUCE, TT_NI_GATHER, TT_NI_NOOP };
struct tt_ni_entry {
    /* REDUCE: sent to be added up by the parent; GATHER: sent to be stored by the children;
     * NOOP: a step without a send */
    uint32_t opcode;
    uint32_t flow; /* first chunk of the message */
    /* REDUCE: the receiver; GATHER: the rank that the flow came from; TT_NET_NONE: it began here */
    uint32_t parent;
    /* REDUCE: ranks whose parts are added up before; GATHER: the receivers. children[child ..] */
    uint32_t child, nchildren;
    uint32_t step;
    uint32_t messages; /* of the entry: 1, or nchildren for GATHER; NOOP: 0 */
};
struct tt_ni_table {
    /* struct tt_ni_entry by step; every step in which any rank sends has at least one, up to
     * this rank's last send */
    struct tt_vec entries;
    struct tt_vec children; /* uint32_t */
};
/* What tables are made from, once for all ranks. */
struct tt_ni_facts {
    bool *busy;      /* [step]: does any rank send then? */
    uint32_t *sent;  /* messages by sender, each in the order of its slice */
    uint32_t *start; /* where each rank's begin in `sent` */
};
tutti_status tt_sim_ni_facts_make(const struct tt_work *w, struct tt_ni_facts *ret,
                                  struct tutti_error *err);
void tt_sim_ni_facts_free(struct tt_ni_facts *f);
tutti_status tt_sim_ni_table_make(const struct tt_work *w, uint32_t rank,
                                  const struct tt_ni_facts *f, struct tt_ni_table *ret,
                                  struct tutti_error *err);
void tt_sim_ni_table_free(struct tt_ni_table *t);

/* ---- ni.c: a rank's interfaces: which message goes next ---- */
struct tt_ni_rank {
    struct tt_agenda queue; /* ready messages: (step, number) */
    struct tt_agenda idle;  /* idle interfaces, lowest first */
    struct tt_ni_table table;
    uint32_t entry;  /* lockstep: the first one after the head step */
    uint32_t unsent; /* messages of the head step (all segments) that have not left */
    uint32_t head_step;
    bool waiting; /* until a no-op ends */
};
struct tt_ni {
    struct tt_packet_net *net;
    struct tt_ni_rank *rank;
    uint32_t *held;       /* per message and segment: the interface that it is on */
    uint64_t *step_ticks; /* lockstep: estimated time of each step */
    uint64_t waits;       /* ticks spent in no-ops */
    bool lockstep, nomem;
};
tutti_status tt_sim_ni_open(struct tt_ni *ni, struct tt_packet_net *net, bool lockstep,
                            struct tutti_error *err);
void tt_sim_ni_close(struct tt_ni *ni);
/* A message (number: message * K + segment) is ready; one has left; a no-op is over. The latter
 * two return when a no-op that begins now ends, or 0. */
void tt_sim_ni_offer(struct tt_ni *ni, uint32_t number, uint64_t now);
uint64_t tt_sim_ni_left(struct tt_ni *ni, uint32_t number, uint64_t now);
/* also called at the start */
uint64_t tt_sim_ni_advance(struct tt_ni *ni, uint32_t rank, uint64_t now);

/* tt_sim_packet_run with a limit on promises, for tests. */
tutti_status tt_sim_packet_run_promised(const struct tt_sim_input *in, uint64_t max_promise,
                                        struct tt_sim_report *r, struct tutti_error *err);
#endif
