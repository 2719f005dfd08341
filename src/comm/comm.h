/* comm.h - the communicator: joins boot, transports, plans and the executor. One rank's view of a
 * group of live ranks.
 *
 * Opening: boot meets the others; the network is what TUTTI_TOPO (or the options) say, else hosts
 * and cores as found: ranks of one host around a "memory" switch, hosts around a network switch,
 * with alpha, beta and gamma measured at opening (200 ms at most, cached in $XDG_CACHE_HOME/tutti,
 * rank 0 decides for all). Transports: shared memory between ranks of one host, TCP between hosts
 * (TUTTI_TRANSPORT=tcp: TCP everywhere; mpi: an MPI library everywhere, which then also says who is
 * who). Version, algorithms, settings and the network itself are compared at opening and refused
 * with the first difference (agree.c); messages carry the hash of the plan.
 *
 * Requests are numbered in the order they are started, which is the same on all ranks (checked by
 * fingerprints). Blocking calls progress themselves; requests that were started and not waited for
 * are progressed by a background thread. All functions are thread-safe per communicator (one lock,
 * which twins share); two threads must not race to start requests, since the order must be the same
 * on all ranks.
 *
 * Failure: every wait has a deadline. The watch (watch.c) has a thread and a control connection to
 * rank 0; when a rank dies, stops, is cut off, is late or calls something else, rank 0 decides who
 * is to blame and every rank gets the same verdict. After a failure every call returns that verdict
 * at once. */
#ifndef TT_COMM_H
#define TT_COMM_H

#include <stdatomic.h>

#include "base/base.h"
#include "boot/boot.h"
#include "exec/exec.h"
#include "plan/plan.h"

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
const char *tt_comm_blame_name(enum tt_blame b);

/* What everybody is told. Fixed size: it travels. */
struct tt_verdict {
    uint32_t blame;   /* enum tt_blame */
    uint32_t culprit; /* rank */
    uint32_t seq;     /* request */
    uint32_t coll;    /* tutti_coll of the request as seen by the reporter */
    uint32_t pid;
    char host[TT_BOOT_HOST];
    char text[256]; /* the whole sentence */
};

struct tt_comm;
struct tt_comm_config {
    struct tt_boot_config boot;
    const char *transport; /* NULL, "shm", "tcp" or "mpi" */
    /* who has brought the ranks together; NULL: they meet by `boot`. Used while opening only */
    const struct tt_boot_parent *parent;
    const char *topo; /* NULL: as found */
    const char *algo; /* NULL or "auto": the planner's choice for all-reduce */
    bool reproducible;
    /* rank 0's counts: who was slow, on standard error when the communicator closes */
    bool report;
    bool verify; /* prove every plan before its first use */
    /* of payloads on sockets: 0 between hosts, 1 on all, -1 on none; boot.encrypt needs none */
    int checksum;
    /* files of schedules, "a.json:b.json", read by rank 0 (given.c); NULL: none */
    const char *plan;
    const char *tuning;  /* file of rules, read by all; NULL: none */
    const char *dump;    /* folder for every schedule that runs, written by rank 0; NULL: none */
    uint64_t timeout_ns; /* deadline of every wait; 0: 30 s */
};
/* Defaults from the environment (boot's variables, TUTTI_TRANSPORT, TUTTI_TOPO, TUTTI_ALGO,
 * TUTTI_REPRODUCIBLE, TUTTI_REPORT, TUTTI_VERIFY, TUTTI_DUMP, TUTTI_PLAN, TUTTI_TUNING,
 * TUTTI_TIMEOUT). Texts point into the environment. */
tutti_status tt_comm_from_env(struct tt_comm_config *ret, struct tutti_error *err);
/* The same without looking for a launcher: rank, size and rendezvous will come from a parent, or
 * from MPI. */
tutti_status tt_comm_options_from_env(struct tt_comm_config *ret, struct tutti_error *err);
/* Must every rank be reached through this transport, also on one's own host? */
bool tt_comm_apart(const struct tt_comm_config *c);
bool tt_comm_shares(const struct tt_comm_config *c); /* shared memory is asked for by name */
tutti_status tt_comm_open(const struct tt_comm_config *c, struct tt_comm **ret,
                          struct tutti_error *err);
tutti_status tt_comm_split(struct tt_comm *c, int color, int key, struct tt_comm **ret,
                           struct tutti_error *err);
/* A communicator of some ranks of c that make it among themselves: the others take no part, and
 * several may be made at the same time. */
struct tt_comm_group {
    /* ranks of c, in the order of the new communicator; members[me] is this one */
    const uint32_t *members;
    uint32_t n, me;
    /* among the members */
    tutti_status (*exchange)(void *ctx, const void *mine, size_t bytes, void *ret_all,
                             struct tutti_error *err);
    void *ctx;
};
tutti_status tt_comm_part(struct tt_comm *c, const struct tt_comm_group *g, struct tt_comm **ret,
                          struct tutti_error *err);
/* A communicator of the same ranks on the wires, the engine and the shared memory of c: its
 * requests have an order of their own, and any thread may use it while others use c. Collective.
 * Either may be closed first, but not while the other one waits: a trainer's caller keeps c
 * open. */
tutti_status tt_comm_twin(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err);
bool tt_comm_has_twin(struct tt_comm *c); /* that is open */
/* TUTTI_OK, or the verdict on the job, once there is one: then the communicator has failed, and
 * tt_comm_last_error says why. */
tutti_status tt_comm_verdict(struct tt_comm *c);
void tt_comm_abort(struct tt_comm *c, const char *reason);
void tt_comm_close(struct tt_comm *c);
/* Closes without waiting for anybody; others finish what they have begun. No request of it is
 * started. Accepts NULL. */
void tt_comm_leave(struct tt_comm *c);
uint32_t tt_comm_rank(const struct tt_comm *c);
uint32_t tt_comm_size(const struct tt_comm *c);
uint32_t tt_comm_local(const struct tt_comm *c); /* ranks on this host, this one included */
const struct tutti_error *tt_comm_last_error(const struct tt_comm *c);
/* A call that was refused before it reached this module: err becomes the last error, unless there
 * is a verdict. Returns the status to answer. */
tutti_status tt_comm_refuse(struct tt_comm *c, const struct tutti_error *err);
/* What protects the bytes on its sockets, in words: "encrypted (AES-256-GCM)". */
void tt_comm_guard(const struct tt_comm *c, char *buf, size_t cap);
tutti_status tt_comm_report(struct tt_comm *c, char **ret_text, struct tutti_error *err);
tutti_status tt_comm_mem_alloc(struct tt_comm *c, size_t bytes, void **ret,
                               struct tutti_error *err);
void tt_comm_mem_free(struct tt_comm *c, void *p);
/* Where that memory lies, for those who keep some of it beyond closing; NULL: each block is
 * malloc's. */
const struct tt_region *tt_comm_mem_heap(const struct tt_comm *c);

/* One collective on buffers. count: elements of the whole vector for allreduce, broadcast, reduce;
 * of one block otherwise. counts (may be NULL): blocks of any length, one per rank. */
/* What the user called, when a call is only a part of it: verdicts speak of that. */
#define TT_WHY_LIST(X)                                       \
    X(CALL, "")                                              \
    X(OPEN, "opening of the communicator")                   \
    X(SPLIT, "split")                                        \
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

struct tt_call {
    tutti_coll coll;
    const void *in;
    void *out;
    size_t count;
    const size_t *counts;
    /* all-to-all with blocks of any length, in place of count; copied; NULL: none */
    const struct tt_blocks *blocks;
    tutti_dtype dtype;
    tutti_redop redop;
    /* in place of redop, which is TUTTI_SUM then; copied; NULL: none */
    const struct tt_userop *user;
    uint32_t root;
    /* NULL: the communicator's own (all-reduce) or the planner's choice; must outlive the
     * request */
    const char *algo;
    bool background; /* a request: set by tt_comm_request_make */
    enum tt_why why; /* must be equal on all ranks too */
};
/* Blocking. */
tutti_status tt_comm_run(struct tt_comm *c, const struct tt_call *call);
/* Persistent. Making one waits for all ranks when its plan is synthesised and the first of its kind
 * (plans.c), and for nobody otherwise; all ranks make and start requests in the same order. */
struct tt_request;
tutti_status tt_comm_request_make(struct tt_comm *c, const struct tt_call *call,
                                  struct tt_request **ret);
tutti_status tt_comm_request_start(struct tt_request *r);
tutti_status tt_comm_request_test(struct tt_request *r);
bool tt_comm_request_started(const struct tt_request *r); /* and not known to have ended */
tutti_status tt_comm_request_wait(struct tt_request *r);
/* The same by a thread that does nothing else: progress is left to the background thread, and other
 * threads may use the communicator meanwhile; without such a thread it is a wait. */
tutti_status tt_comm_request_join(struct tt_request *r);
/* Takes back a started receive of a message that nothing has come for; waits for any other started
 * request. */
void tt_comm_request_end(struct tt_request *r);
void tt_comm_request_free(struct tt_request *r); /* not while started */
/* the same when its communicator is closed already */
void tt_comm_request_drop(struct tt_request *r);
/* of its plan; a constant, or as long-lived as the request */
const char *tt_comm_request_algo(const struct tt_request *r);

/* How a thread waits, and where it stands (progress.c): made by tt_comm_waiting_begin, or by a
 * blocking call for itself. */
struct tt_waiting {
    /* a blocking call, which holds the lock; yields between looks, else spins; sleeps at the
     * door */
    bool call, yield, door;
    bool collective; /* a call that no other one on its communicator may come between */
    /* it moves what is not its own, too: of a twin, or beside a message */
    bool beside;
    bool message;                /* it waits for a message, not for a program */
    uint32_t looks;              /* in a row that find nothing before it sleeps */
    uint64_t awake_ns;           /* and so long: it yields between those that are too many */
    uint64_t wait_ns;            /* a call: its longest sleep */
    uint64_t nap_ns, nap_max_ns; /* at the bell: the first sleep; it doubles up to the longest */
    /* the same while no request is under way; 0: until the bell rings */
    uint64_t quiet_ns;
    int bell; /* an eventfd that ends sleeps; -1: none */
    /* looks in a row that found nothing; 0: the last one moved something. Naps since then */
    uint32_t idle, naps;
    uint64_t idle_ns; /* since when, once idle >= looks */
    uint32_t still;   /* looks in a row that moved nothing of its own */
    /* the context's counter at the last look; since when it has not changed, once that is known */
    uint64_t moved, since_ns;
    uint64_t heard; /* what was told at the last look (shared.c) */
    /* at a thread's last look: requests were under way; the communicator had failed */
    bool working, failed;
    _Atomic uint32_t sleep; /* where it sleeps now */
    _Atomic bool stop;      /* no sleep begins any more */
    struct tt_waiting *next;
};
/* One round: spins, yields or sleeps as described when the looks before found nothing, then looks.
 * The verdict once there is one; TUTTI_ERR_TIMEOUT when a call's deadline has passed; else
 * TUTTI_OK. A thread that has found work by other means sets idle and since_ns to 0. */
tutti_status tt_comm_round(struct tt_comm *c, struct tt_waiting *w);
/* Until when a caller waits that asked at asked_ns, when something moved last at moved_ns. */
uint64_t tt_comm_deadline(const struct tt_comm *c, uint64_t asked_ns, uint64_t moved_ns);

/* Progress by a thread of the caller's own, which chains requests and so must hear of their ends at
 * once: from now on no background thread is made. That thread runs rounds and tests its requests
 * after each. pump: one look by any thread, never blocks. overdue: the caller has waited for r as
 * long as the deadline allows; asks who is to blame (a second at most) and returns that, or
 * TUTTI_OK when r is done after all. */
void tt_comm_pump_begin(struct tt_comm *c); /* before the first request is started */
void tt_comm_waiting_begin(struct tt_comm *c, int bell, struct tt_waiting *w);
void tt_comm_waiting_end(struct tt_comm *c, struct tt_waiting *w);
void tt_comm_pump(struct tt_comm *c);
tutti_status tt_comm_request_overdue(struct tt_request *r);
/* By a thread that only communicates, for itself: exact timers and short slices. On a kernel that
 * knows slices (6.12) such a thread runs at once when it has something to do, also where all cores
 * compute; it asks for no privilege. */
void tt_comm_thread_begin(void);

/* The algorithm that the communicator was opened with is that of another collective than
 * all-reduce. The same on all ranks, before any call. */
void tt_comm_algo_of(struct tt_comm *c, tutti_coll coll);

/* While a call on c waits and finds nothing to do, it calls idle(ctx) now and then, with c's lock
 * held: at least every millisecond. So that another library whose peers wait for this rank can move
 * on. NULL: nothing is called. Before the first call on c. */
void tt_comm_on_idle(struct tt_comm *c, void (*idle)(void *ctx), void *ctx);

/* Point to point (message.c): messages from one rank to another are received in the order they were
 * sent, among those whose tag is asked for. Both sides must say the same count and type. */
struct tt_message {
    void *data; /* a send only reads it */
    size_t count;
    tutti_dtype dtype;
    uint32_t peer, tag; /* a receive: or TT_ANY */
    bool sends;
};
/* Blocking. ret_from (NULL: nobody asks): the rank it came from. */
tutti_status tt_comm_pass(struct tt_comm *c, const struct tt_message *m, uint32_t *ret_from);
/* As a request. */
tutti_status tt_comm_request_message(struct tt_comm *c, const struct tt_message *m,
                                     struct tt_request **ret);
/* Where what the last start received came from. */
tutti_status tt_comm_request_source(struct tt_request *r, uint32_t *ret_from, uint32_t *ret_tag,
                                    struct tutti_error *err);

/* Time of messages as measured at opening; equal on all ranks. Zeros: there is no such link. */
struct tt_speed {
    uint64_t bw;          /* bytes/s */
    uint64_t latency_ps;  /* one way */
    uint64_t overhead_ps; /* host time per message */
};
enum { TT_TAKEN_MOST = 200 };
struct tt_speeds {
    struct tt_speed shm, tcp;
    uint64_t gamma_fs; /* femtoseconds per reduced byte */
    /* per mille of the cores that others used meanwhile: above TT_TAKEN_MOST not to be relied on */
    uint64_t taken;
    struct tt_memory memory; /* when all ranks share one host; npoints 0: not measured */
};

/* What c plans with; `again`: measured now, for communicators opened from now on. That is
 * collective, and nothing else may run. */
tutti_status tt_comm_speeds(struct tt_comm *c, bool again, struct tt_speeds *ret,
                            struct tutti_error *err);
/* The file where speeds are kept (speeds.c); false: there is no place. */
bool tt_comm_speeds_path(char *buf, size_t cap);

/* Messages between chosen ranks at the same time, over the wires of the collectives: each flow's
 * `bytes` there, an answer back; or, pulled, a request there and the bytes back, so that a rank to
 * which several send has them all on its own clock. Collective: every rank calls with the same set
 * (data is its own, of as many bytes as the largest flow it has a part in); nothing else may run.
 * ret_ns[i]: the shortest of the rounds of flow i, filled at its sender (pulled: at its receiver),
 * else 0. */
struct tt_flow {
    uint32_t from, to; /* two different ranks */
    uint64_t bytes;
    bool pulled;
};
struct tt_flow_set {
    const struct tt_flow *flows;
    uint32_t n, rounds;
    void *data;
};
tutti_status tt_comm_flows(struct tt_comm *c, const struct tt_flow_set *set, uint64_t *ret_ns,
                           struct tutti_error *err);
/* Where a rank is: equal host_ids share memory (with TCP or MPI everywhere, each rank has its own).
 * The text lives as long as c. */
struct tt_comm_place {
    uint64_t host_id;
    const char *host;
};
void tt_comm_place(const struct tt_comm *c, uint32_t rank, struct tt_comm_place *ret);

/* What bench prints: the plan that a call would take. Collective, like making a request: a
 * synthesised plan comes from rank 0. */
struct tt_comm_plan_info {
    const char *algo;
    double predicted_us, bound_us;
    double own_us; /* predicted when all buffers are memory of tt_comm_mem_alloc */
    bool fused;    /* all ranks share this host */
};
tutti_status tt_comm_plan(struct tt_comm *c, const struct tt_call *call,
                          struct tt_comm_plan_info *ret, struct tutti_error *err);
/* What runs for such a call (explain.c): asked after it, how the messages that this rank sent were
 * carried out. */
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
#endif
