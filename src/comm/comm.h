/* comm.h - the communicator: joins boot, transports, plans and the executor. One rank's view of a
 * group of live ranks.
 *
 * Opening: boot meets the others. The network is what TUTTI_TOPO (or the options) say, else hosts
 * and cores as found: ranks of one host around a "memory" switch, hosts around a network switch,
 * with alpha, beta and gamma measured at opening (200 ms at most, cached in $XDG_CACHE_HOME/tutti,
 * rank 0 decides for all). Transports: shared memory between ranks of one host, TCP between hosts
 * (TUTTI_TRANSPORT=tcp: TCP everywhere; mpi: an MPI library everywhere, which then also provides
 * ranks and size). Version, algorithms, settings and the network itself are compared at opening,
 * and the first difference is reported (agree.c); messages carry the hash of the plan.
 *
 * Requests are numbered in the order in which they are started, which is the same on all ranks
 * (checked by fingerprints). Blocking calls make progress themselves; a background thread makes
 * progress on requests that were started and are not waited for. All functions are thread-safe per
 * communicator (one lock, which twins share); two threads must not race to start requests, since
 * the order must be the same on all ranks.
 *
 * Failure: every wait has a deadline. The watch (watch/watch.h) has a thread and a control
 * connection to rank 0. When a rank dies, stops, is cut off, is late or calls something else, rank
 * 0 decides which rank is to blame and every rank gets the same verdict. After a failure every
 * call returns that verdict at once. */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <stdatomic.h>

#include "base/base.h"
#include "base/record.h"
#include "boot/boot.h"
#include "exec/exec.h"
#include "meter/meter.h"
#include "plan/plan.h"
#include "watch/watch.h"

struct tt_comm;
struct tt_comm_config {
    struct tt_boot_config boot;
    const char *transport; /* NULL, "shm", "tcp" or "mpi" */
    /* What has brought the ranks together; NULL: they meet by `boot`. Used while opening only. */
    const struct tt_boot_parent *parent;
    const char *topo; /* NULL: as found */
    const char *algo; /* NULL or "auto": the planner's choice for all-reduce */
    bool reproducible;
    /* Print at closing, on standard error, which ranks were slow. Rank 0's setting applies. */
    bool report;
    bool verify; /* prove every plan before its first use */
    /* Checksums of payloads on sockets: 0 between hosts, 1 everywhere, -1 nowhere; boot.encrypt
     * needs none. */
    int checksum;
    /* Files of schedules, "a.json:b.json", read by rank 0 (given.c); NULL: none. */
    const char *plan;
    const char *tuning;  /* file of rules, read by all; NULL: none */
    const char *dump;    /* folder for every schedule that runs, written by rank 0; NULL: none */
    const char *trace;   /* file of what every rank did, written at closing; NULL: none */
    bool top;            /* count in shared memory for tutti top */
    uint64_t timeout_ns; /* deadline of every wait; 0: 30 s */
};
/* Defaults from the environment (boot's variables, TUTTI_TRANSPORT, TUTTI_TOPO, TUTTI_ALGO,
 * TUTTI_REPRODUCIBLE, TUTTI_REPORT, TUTTI_VERIFY, TUTTI_DUMP, TUTTI_TRACE, TUTTI_TOP, TUTTI_PLAN,
 * TUTTI_TUNING, TUTTI_TIMEOUT). Strings point into the environment. */
tutti_status tt_comm_from_env(struct tt_comm_config *ret, struct tutti_error *err);
/* The same without a launcher: rank, size and rendezvous will come from a parent or from MPI. */
tutti_status tt_comm_options_from_env(struct tt_comm_config *ret, struct tutti_error *err);
/* Must every rank be reached through this transport, even on the own host? */
bool tt_comm_apart(const struct tt_comm_config *c);
bool tt_comm_shares(const struct tt_comm_config *c); /* shared memory was asked for by name */
/* open and split are collective and blocking. On failure *ret is not set. */
tutti_status tt_comm_open(const struct tt_comm_config *c, struct tt_comm **ret,
                          struct tutti_error *err);
tutti_status tt_comm_split(struct tt_comm *c, int color, int key, struct tt_comm **ret,
                           struct tutti_error *err);
/* After a failure: the ranks that still live agree on who they are and open a communicator of their
 * own, in the order of their ranks (shrink.c). c stays as it is and must be closed. Blocking. */
tutti_status tt_comm_shrink(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err);
/* Lets newcomers in (admit.c). All ranks call it. *ret is c itself if nobody waits; else a new
 * communicator, with the newcomers as its last ranks, and c must be closed. */
tutti_status tt_comm_admit(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err);
/* How many times the members of the job have changed before c was opened. */
uint32_t tt_comm_changes(const struct tt_comm *c);
/* A communicator of some ranks of c, made by these ranks alone: the others take no part, and
 * several may be made at the same time. */
struct tt_comm_group {
    /* Ranks of c, in the order of the new communicator; members[me] is this one. */
    const uint32_t *members;
    uint32_t n, me;
    /* An all-gather among the members. */
    tutti_status (*exchange)(void *ctx, const void *mine, size_t bytes, void *ret_all,
                             struct tutti_error *err);
    void *ctx;
};
tutti_status tt_comm_part(struct tt_comm *c, const struct tt_comm_group *g, struct tt_comm **ret,
                          struct tutti_error *err);
/* A communicator of the same ranks on the transport, engine and shared memory of c: its requests
 * have an order of their own, and any thread may use it while others use c. Collective. Either may
 * be closed first, but not while the other one waits: the caller of a trainer keeps c open. */
tutti_status tt_comm_twin(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err);
bool tt_comm_has_twin(struct tt_comm *c); /* is one of c's twins open? */
/* TUTTI_OK, or the verdict on the job once there is one: the communicator has failed then, and
 * tt_comm_last_error says why. */
tutti_status tt_comm_verdict(struct tt_comm *c);
void tt_comm_abort(struct tt_comm *c, const char *reason);
void tt_comm_close(struct tt_comm *c);
/* Closes without waiting for other ranks; they finish what they have begun. No request of c may be
 * started. Accepts NULL. */
void tt_comm_leave(struct tt_comm *c);
uint32_t tt_comm_rank(const struct tt_comm *c);
uint32_t tt_comm_size(const struct tt_comm *c);
uint32_t tt_comm_local(const struct tt_comm *c); /* ranks on this host, this one included */
const struct tutti_error *tt_comm_last_error(const struct tt_comm *c);
/* For a call that was refused before it reached this module: err becomes the last error, unless
 * there is a verdict. Returns the status that the call should return. */
tutti_status tt_comm_refuse(struct tt_comm *c, const struct tutti_error *err);
/* How the bytes on its sockets are protected, as text: "encrypted (AES-256-GCM)". */
void tt_comm_guard(const struct tt_comm *c, char *buf, size_t cap);
/* What a job on this host would have, for `tutti doctor`. */
void tt_comm_guard_check(const struct tt_comm_config *c, struct tt_check *ret);
tutti_status tt_comm_report(struct tt_comm *c, char **ret_text, struct tutti_error *err);
tutti_status tt_comm_mem_alloc(struct tt_comm *c, size_t bytes, void **ret,
                               struct tutti_error *err);
void tt_comm_mem_free(struct tt_comm *c, void *p);
/* Where that memory is, for callers that keep some of it after closing; NULL: each block is from
 * malloc. */
const struct tt_region *tt_comm_mem_heap(const struct tt_comm *c);

/* One collective on buffers. count: elements of the whole vector for allreduce, broadcast, reduce;
 * of one block otherwise. counts (may be NULL): the length of each rank's block. */
struct tt_call {
    tutti_coll coll;
    const void *in;
    void *out;
    size_t count;
    const size_t *counts;
    /* All-to-all with blocks of any length, instead of count; copied; NULL: none. */
    const struct tt_blocks *blocks;
    tutti_dtype dtype;
    tutti_redop redop;
    /* Instead of redop, which is TUTTI_SUM then; copied; NULL: none. */
    const struct tt_userop *user;
    uint32_t root;
    /* NULL: the communicator's own (all-reduce) or the planner's choice. Must outlive the
     * request. */
    const char *algo;
    bool background; /* a request: set by tt_comm_request_make */
    enum tt_why why; /* must be equal on all ranks too */
};
/* Blocking; makes progress itself. */
tutti_status tt_comm_run(struct tt_comm *c, const struct tt_call *call);
/* Persistent requests. Making one waits for all ranks if its plan is synthesised and the first of
 * its kind (plans.c), and does not wait otherwise. All ranks make and start requests in the same
 * order. */
struct tt_request;
tutti_status tt_comm_request_make(struct tt_comm *c, const struct tt_call *call,
                                  struct tt_request **ret);
tutti_status tt_comm_request_start(struct tt_request *r);
tutti_status tt_comm_request_test(struct tt_request *r);
bool tt_comm_request_started(const struct tt_request *r); /* and not known to have ended */
tutti_status tt_comm_request_wait(struct tt_request *r);
/* The same for a thread that does nothing else: progress is left to the background thread, and
 * other threads may use the communicator meanwhile. Without a background thread it is a wait. */
tutti_status tt_comm_request_join(struct tt_request *r);
/* Cancels a started receive that no message has matched; waits for any other started request. */
void tt_comm_request_end(struct tt_request *r);
void tt_comm_request_free(struct tt_request *r); /* not while started */
/* The same if its communicator is already closed. */
void tt_comm_request_drop(struct tt_request *r);
/* The algorithm of its plan; a constant, or as long-lived as the request. */
const char *tt_comm_request_algo(const struct tt_request *r);

/* How a thread waits, and the state of its wait (progress.c). Filled by tt_comm_waiting_begin, or
 * by a blocking call for itself. Used by its own thread, except for the atomics, which other
 * threads use to wake it. */
struct tt_waiting {
    /* call: a blocking call, which holds the lock. yield: yields between polls, else spins. door:
     * sleeps at the door of direct access (transport/direct.h). */
    bool call, yield, door;
    bool collective; /* no other call on the communicator may run in between */
    /* It also makes progress on work of others: of a twin, or beside a message. */
    bool beside;
    bool message;      /* it waits for a message, not for a program */
    uint32_t looks;    /* polls in a row that find nothing before it sleeps */
    uint64_t awake_ns; /* and at least so long: after `looks` polls it yields between polls */
    uint64_t wait_ns;  /* a call: its longest sleep */
    /* sleeps at the bell: the first one; they double up to the longest */
    uint64_t nap_ns, nap_max_ns;
    /* The same while no request is active; 0: until the bell rings. */
    uint64_t quiet_ns;
    int bell; /* an eventfd that ends sleeps; -1: none */
    /* idle: polls in a row that found nothing; 0: the last one moved something. naps: sleeps since
     * then. */
    uint32_t idle, naps;
    uint64_t idle_ns; /* since when, once idle >= looks */
    uint32_t still;   /* polls in a row that moved nothing of its own */
    /* The context's counter at the last poll, and since when it has not changed (once that is
     * known). */
    uint64_t moved, since_ns;
    uint64_t heard; /* what was announced at the last poll (shared.c) */
    /* At a thread's last poll: requests were active; the communicator had failed. */
    bool working, failed;
    _Atomic uint32_t sleep; /* where it sleeps now (TT_AWAKE, TT_AT_BELL, TT_AT_DOOR) */
    _Atomic bool stop;      /* no sleep may begin any more */
    struct tt_waiting *next;
};
/* One round: spins, yields or sleeps as described if earlier polls found nothing, then polls.
 * Returns the verdict once there is one; TUTTI_ERR_TIMEOUT when a call's deadline has passed; else
 * TUTTI_OK. A thread that has found work by other means sets idle and since_ns to 0. */
tutti_status tt_comm_round(struct tt_comm *c, struct tt_waiting *w);
/* The deadline of a caller that first asked at asked_ns, if something last moved at moved_ns. */
uint64_t tt_comm_deadline(const struct tt_comm *c, uint64_t asked_ns, uint64_t moved_ns);

/* Progress by a thread of the caller that chains requests and must therefore learn of their ends at
 * once; no background thread is created from then on. That thread runs rounds and tests its
 * requests after each. pump: one poll by any thread, never blocks. overdue: the caller has waited
 * for r as long as the deadline allows; finds out which rank is to blame (within a second) and
 * returns that, or TUTTI_OK if r is done after all. */
void tt_comm_pump_begin(struct tt_comm *c); /* before the first request is started */
void tt_comm_waiting_begin(struct tt_comm *c, int bell, struct tt_waiting *w);
void tt_comm_waiting_end(struct tt_comm *c, struct tt_waiting *w);
void tt_comm_pump(struct tt_comm *c);
tutti_status tt_comm_request_overdue(struct tt_request *r);
/* For a thread that only communicates, called by itself: exact timers and short time slices. On a
 * kernel with configurable slices (6.12) such a thread runs at once when it has something to do,
 * even if all cores compute; it needs no privilege. */
void tt_comm_thread_begin(void);

/* The algorithm that the communicator was opened with belongs to another collective than
 * all-reduce. The same on all ranks, before any call. */
void tt_comm_algo_of(struct tt_comm *c, tutti_coll coll);

/* While a call on c waits and finds nothing to do, it calls idle(ctx) at least every millisecond,
 * with c's lock held. Another library whose peers wait for this rank can make progress there. NULL:
 * nothing is called. Set before the first call on c. */
void tt_comm_on_idle(struct tt_comm *c, void (*idle)(void *ctx), void *ctx);

/* Point to point (message.c): messages from one rank to another are received in the order in which
 * they were sent, among those with the requested tag. Both sides must give the same count and
 * type. */
struct tt_message {
    void *data; /* a send only reads it */
    size_t count;
    tutti_dtype dtype;
    uint32_t peer, tag; /* a receive: or TT_ANY */
    bool sends;
};
/* Blocking. *ret_from (may be NULL) is the rank it came from. */
tutti_status tt_comm_pass(struct tt_comm *c, const struct tt_message *m, uint32_t *ret_from);
/* The same as a request. */
tutti_status tt_comm_request_message(struct tt_comm *c, const struct tt_message *m,
                                     struct tt_request **ret);
/* Sender and tag of what the last start received. */
tutti_status tt_comm_request_source(struct tt_request *r, uint32_t *ret_from, uint32_t *ret_tag,
                                    struct tutti_error *err);

/* The speeds that c plans with. `again`: measure now, for communicators opened from now on;
 * collective, and nothing else may run. */
tutti_status tt_comm_speeds(struct tt_comm *c, bool again, struct tt_speeds *ret,
                            struct tutti_error *err);
/* Messages between chosen ranks at the same time, over the links that the collectives use: each
 * flow sends `bytes` and gets an answer back; or, pulled, it sends a request and gets the bytes
 * back, so that a rank that receives from several ranks times them all on its own clock.
 * Collective: every rank calls with the same set (data is its own, as long as the largest flow it
 * takes part in); nothing else may run. ret_ns[i] is the shortest round of flow i, filled at its
 * sender (pulled: at its receiver), else 0. */
struct tt_comm_flow {
    uint32_t from, to; /* two different ranks */
    uint64_t bytes;
    bool pulled;
};
struct tt_flow_set {
    const struct tt_comm_flow *flows;
    uint32_t n, rounds;
    void *data;
};
tutti_status tt_comm_flows(struct tt_comm *c, const struct tt_flow_set *set, uint64_t *ret_ns,
                           struct tutti_error *err);
/* Where a rank is: ranks with equal host_ids share memory (with TCP or MPI everywhere, each rank
 * has its own). The string lives as long as c. */
struct tt_comm_place {
    uint64_t host_id;
    const char *host;
};
void tt_comm_place(const struct tt_comm *c, uint32_t rank, struct tt_comm_place *ret);

/* What bench prints: the plan that a call would use. Collective, like making a request, because a
 * synthesised plan comes from rank 0. */
struct tt_comm_plan_info {
    const char *algo;
    double predicted_us, bound_us;
    double own_us; /* predicted when all buffers are memory of tt_comm_mem_alloc */
    bool fused;    /* all ranks share this host */
};
tutti_status tt_comm_plan(struct tt_comm *c, const struct tt_call *call,
                          struct tt_comm_plan_info *ret, struct tutti_error *err);
/* What runs for such a call (explain.c); after the call also how the messages that this rank sent
 * were carried. */
struct tt_comm_explained {
    const char *algo;              /* lives as long as the communicator */
    const char *origin;            /* what decided: "planner", "named", "tuning" or "plan" */
    char options[TT_ALGO_OPTIONS]; /* "k=v,k=v" */
    uint32_t segments;
    struct tt_carried carried;
    double predicted_us, own_us, bound_us;
};
tutti_status tt_comm_explain(struct tt_comm *c, const struct tt_call *call,
                             struct tt_comm_explained *ret, struct tutti_error *err);
/* Rank 0's predicted time of such a call. Collective; nothing is kept. */
tutti_status tt_comm_predict(struct tt_comm *c, const struct tt_call *call, uint64_t *ret_ps,
                             struct tutti_error *err);

/* TUTTI_TRACE: is there one? Then notes of a trainer: `comm`, `peer` and `plan` are filled in; and
 * what a trainer launches and plans, of which everything is taken. Any thread. */
bool tt_comm_traced(const struct tt_comm *c);
void tt_comm_trace_note(struct tt_comm *c, struct tt_record_event e);
void tt_comm_trace_trainer(struct tt_comm *c, struct tt_record_trainer *t);
#endif
