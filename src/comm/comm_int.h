/* comm_int.h - what the files of comm share. The comment before each group names its file. */
#ifndef TT_COMM_INT_H
#define TT_COMM_INT_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "base/log.h"
#include "comm/comm.h"
#include "transport/direct.h"
#include "transport/mpi.h"
#include "transport/shm_region.h"

enum {
    TT_RING_BYTES = 1 << 20,
    /* Segments inside a host: one piece, which stays in a second-level cache on its way. */
    TT_SEGMENT_BYTES = 128 << 10,
    /* The longest input that goes through boxes whole: measured, planned and run so. */
    TT_BOX_BYTES = 64 << 10,
    /* A box holds a round of a row (cost/memory.c), and the addresses that ranks exchange for it
     * (exec/row.c). */
    TT_ROW_HEAD_BYTES = 8 << 10,
    TT_STAGE_BYTES = 2 * TT_SEGMENT_BYTES + TT_ROW_HEAD_BYTES,
    /* Inside a host, schedules are built whole up to so many ranks: boxes need all slices. */
    TT_WHOLE_RANKS = 128,
    TT_PROGRAMS = 64 /* kept without a request */,
    TT_RUNNING = 1024 /* requests active at a time */,
    TT_BELLS = 8 /* kept for calls that sleep */
};

/* What all communicators of a process share: the other ranks as boot knows them, and the watch. */
struct tt_world {
    struct tt_boot *boot;
    struct tt_watch *watch;
    struct tt_mpi *mpi;       /* NULL unless the transport is MPI's */
    struct tt_topo *topo;     /* of all ranks in their order, as agreed upon; NULL until then */
    struct tt_tuning *tuning; /* the user's rules, equal on all ranks; NULL: none */
    struct tt_given *given;   /* the user's plans; NULL: none */
    uint64_t timeout_ns;
    int checksum;             /* as configured */
    _Atomic uint32_t refs;    /* communicators of one world may be closed by different threads */
    _Atomic uint32_t parts;   /* that this rank has taken part in making (tt_comm_part) */
    _Atomic bool heard;       /* some call has returned the verdict: closing need not report it */
    struct tt_record *record; /* TUTTI_TRACE; NULL: nothing is noted */
    char *trace_path;         /* where it is written; NULL: TUTTI_TOP alone */
    char *board_path;         /* the file of record->board */
    uint32_t change;          /* how many times members have changed before */
    char *history;            /* a line for each change; NULL: none yet */
    /* Its members have gone on to another world: nobody waits for others in this one. */
    _Atomic bool succeeded;
};

/* adopt.c: a constant of that name, since the caller's string may end with its call; NULL: none. */
const char *tt_comm_transport_name(const char *transport);
/* open.c: gives back a reference; the last one closes watch and boot. Accepts NULL. */
void tt_comm_world_release(struct tt_world *w);
/* The first communicator of a world. w is borrowed: the communicator takes a reference of its own.
 * Collective among the ranks of w. */
tutti_status tt_comm_open_on(struct tt_world *w, const struct tt_comm_config *config,
                             struct tt_comm **ret, struct tutti_error *err);

/* shrink.c: may the members of c change? */
tutti_status tt_comm_may_change(const struct tt_comm *c, struct tutti_error *err);
/* Newcomers of all ranks, in the same order everywhere. known: every rank has this list. */
struct tt_newcomers {
    struct tt_boot_newcomer *list;
    uint32_t n;
    bool known;
};
/* The ranks of c that live agree on who goes on, and on whether the newcomers come in; then they
 * open a communicator. */
tutti_status tt_comm_succeed(struct tt_comm *c, const struct tt_newcomers *all,
                             struct tt_comm **ret, struct tutti_error *err);
/* Opens a communicator on a world whose members have changed; while more of them die, on the world
 * of those who go on. Takes the caller's reference to w. */
tutti_status tt_comm_go_on(struct tt_world *w, struct tt_comm_config *config, struct tt_comm **ret,
                           struct tutti_error *err);
/* Control lines and watch of a world whose boot is open. */
tutti_status tt_comm_world_rejoin(struct tt_world *w, struct tutti_error *err);

/* wire.c: the links of one group of ranks: shared memory inside the host, TCP to others. */
struct tt_wire {
    struct tt_transport *transport;
    /* The transport's descriptor, -1: none. It never changes, so a thread may sleep on it without
     * the lock. */
    int fd;
    struct tt_direct *direct; /* direct access to the ranks of this host; NULL: there is no other */
    uint32_t *places;         /* by group rank: its place in direct, or TT_NO_PLACE */
    bool one_host;            /* all ranks are on this host and share memory */
    struct tt_region region;
    uint32_t nlocal;
    uint32_t *local; /* group ranks on this host, ascending */
    bool apart;      /* some rank cannot open shared memory: it is not used */
    /* Some rank of the group must share its core; the same value on all ranks. */
    bool oversubscribed;
    bool lent_threads; /* only threads of the caller may drive the transport */
    /* MPI: the group's block of tags; reserved: this rank must give it back. */
    uint32_t block;
    bool reserved;
};
/* Gives every rank of the group the `bytes` bytes of all ranks, in rank order. Collective. */
typedef tutti_status tt_exchange_fn(void *ctx, const void *mine, size_t bytes, void *ret_all,
                                    struct tutti_error *err);
/* For things that all ranks open together: exchanges go through the communicator `through`, and
 * verdicts name `why` as what the user called. */
struct tt_setup {
    struct tt_comm *through;
    enum tt_why why;
};
struct tt_wire_config {
    struct tt_world *world;
    const uint32_t *members; /* world ranks of the group, by group rank */
    uint32_t n, me;
    bool apart;    /* do not use shared memory */
    bool share;    /* use shared memory, or fail */
    uint64_t role; /* the same on all members, and different from any other group of theirs */
    tt_exchange_fn *exchange;
    void *ctx;
    struct tt_setup setup;
};
/* An error is either the verdict, the same on all ranks, or this rank's own, which the others are
 * told. */
tutti_status tt_comm_wire_open(const struct tt_wire_config *c, struct tt_wire *ret,
                               struct tutti_error *err);
void tt_comm_wire_close(struct tt_wire *w);
/* links.c: sockets to the ranks of the group that are not in w->local. ret->close frees it. */
tutti_status tt_comm_links_open(const struct tt_wire_config *c, const struct tt_wire *w,
                                struct tt_tcp_source *ret, struct tutti_error *err);

/* guard.c: the protection of the socket to a world rank. */
struct tt_tcp_guard tt_comm_guard_of(const struct tt_world *w, uint32_t peer,
                                     const struct tt_seal_keys *keys);
enum { TT_GUARD_WORDS = 64 };

/* A program for one kind of call, kept for the next call of that kind. */
struct tt_kept {
    struct tt_call key; /* in and out NULL */
    size_t *counts;
    struct tt_userop user; /* key.user points here, if there is one */
    struct tt_op_desc op;  /* of its calls, but for their numbers */
    /* The same for key.blocks; the arrays are one block of memory that starts at send_counts. */
    struct tt_blocks blocks;
    const struct tt_agreed *plan; /* lives as long as the communicator */
    /* Of a closed form: this rank's slice, or all slices; NULL: plan->slice. */
    struct tt_sched *own;
    struct tt_program *program;
    struct tt_comm_plan_info info;
    uint64_t fingerprint; /* of call and plan, without the sequence number */
    uint64_t used;        /* the clock at the last use, for replacement */
    uint32_t holders;     /* requests that use it */
    bool running;
};

/* What a wait is for: one of the two. While a message is waited for, other callers get the lock in
 * between. */
struct tt_comm_work {
    const struct tt_program *program;
    const struct tt_letter *letter;
};

struct tt_request {
    struct tt_comm *comm;
    struct tt_call call;
    struct tt_kept *kept;    /* NULL: a message */
    struct tt_letter letter; /* the message */
    struct tt_comm_work work;
    struct tt_op_desc op;
    uint64_t asked_ns; /* first test since the start; 0: none */
    uint64_t begun_ns; /* when it was started, if a trace is wanted; else 0 */
    uint32_t begun_seq;
    bool started;
    tutti_status last; /* how the last start ended; kept until the next one */
};

/* What a communicator and its twins (tt_comm_twin) share besides transport and engine: the lock
 * that guards all of it, and the threads to wake. */
struct tt_shared {
    pthread_mutex_t lock;
    /* Threads that wait for the lock; helpers and calls let them go first. */
    _Atomic uint32_t wanted;
    uint32_t users; /* communicators; guarded by the lock, like what follows */
    /* Threads that wait until a call on their communicator has ended. */
    uint32_t queued;
    pthread_cond_t turn;         /* signalled when it has */
    struct tt_waiting *sleepers; /* threads that may sleep without the lock */
    _Atomic bool dozing;         /* one of them sleeps at the door, where there is room for one */
    bool left;                   /* one of the communicators was left, not closed */
    /* How many programs and messages were finished when the sleepers were last woken. */
    _Atomic uint64_t told;
    pthread_mutex_t news_lock; /* held too when told changes */
    pthread_cond_t news;
    uint32_t joiners;    /* waiting for news; guarded by news_lock */
    int bells[TT_BELLS]; /* [nbells]: eventfds at which no call sleeps now */
    uint32_t nbells;
};

struct tt_comm {
    struct tt_world *world;
    struct tt_shared *shared;
    struct tt_comm_config config;
    char *algo; /* copy or NULL */
    /* The collective whose algorithm that is: all-reduce unless tt_comm_algo_of said otherwise. */
    tutti_coll algo_coll;
    /* The same on all members, and different from any other communicator of theirs; 0 for the
     * world. */
    uint64_t id;
    uint32_t rank, size;
    uint32_t tag; /* for the watch: differs between the groups of one split; 0 for the world */
    uint32_t *members;
    struct tt_wire wire; /* twins have copies; the last one closes it, and ends the engine */
    struct tt_engine *engine;
    struct tt_context *context;
    size_t box_bytes; /* of the context's boxes; 0: there are none */
    struct tt_topo *topo;
    struct tt_speeds speeds;
    struct tt_plans *plans;
    /* nkept slots, NULL if free: one for each request, and up to TT_PROGRAMS more. */
    struct tt_kept **kept;
    size_t nkept, recent; /* recent: slot of the last call */
    uint64_t clock;
    uint32_t seq;
    uint64_t splits;   /* so far */
    uint32_t steps;    /* exchanges while the world opened */
    uint32_t calls;    /* collective requests and calls, as the watch numbers them */
    uint32_t messages; /* messages started, as the watch numbers them */
    /* A collective call waits without the lock: no other call on this communicator may begin. */
    bool calling;
    _Atomic(struct tt_helper *) helper; /* background progress; NULL until needed */
    _Atomic uint32_t started;           /* requests active */
    /* The context's counter at the last poll by a thread or a test, and when it last changed. */
    uint64_t moved, moved_ns;
    struct tutti_error last;
    bool pumped;             /* a thread of the caller makes progress: no helper */
    void (*idle)(void *ctx); /* called by waits that find nothing to do; NULL: none */
    void *idle_ctx;
    bool failed;          /* there was a verdict: every call returns it */
    bool closing;         /* no call can return what is found now */
    struct tt_log *log;   /* notes for the report; NULL: none is wanted */
    char *dump;           /* rank 0: the folder for plan files; NULL: none is wanted */
    struct tt_vec passed; /* keys of the plans that were proved and written */
};

/* shared.c: the lock. Unlocking wakes the threads for which something was finished. locked, for
 * assertions: some thread holds it. */
static inline bool tt_comm_locked(struct tt_comm *c)
{
    return pthread_mutex_trylock(&c->shared->lock) == EBUSY;
}
struct tt_shared *tt_comm_shared_make(void);   /* for one communicator; NULL: no memory */
void tt_comm_shared_free(struct tt_shared *s); /* accepts NULL */
/* For a call on c; waits while another call is in progress. */
void tt_comm_lock(struct tt_comm *c);
void tt_comm_enter(struct tt_comm *c);      /* to make progress, whatever calls there are */
void tt_comm_enter_last(struct tt_comm *c); /* the same, after all other threads */
bool tt_comm_enter_now(struct tt_comm *c);  /* the same, or false: another thread holds the lock */
void tt_comm_unlock(struct tt_comm *c);
/* By a call on c that holds the lock: a period without it, in which a collective keeps other calls
 * on c out. give_way: the same, only if other threads want the lock now. */
void tt_comm_apart_begin(struct tt_comm *c, bool collective);
void tt_comm_apart_end(struct tt_comm *c, bool collective);
void tt_comm_give_way(struct tt_comm *c, bool collective);
/* Threads that may sleep without the lock. Call with the lock held. tell wakes them if anything was
 * finished since the last tell. */
void tt_comm_sleepers_add(struct tt_comm *c, struct tt_waiting *w);
void tt_comm_sleepers_remove(struct tt_comm *c, struct tt_waiting *w);
void tt_comm_sleepers_tell(struct tt_comm *c);
/* Where a call sleeps if there are twins; call with the lock held. Each sleeper has a bell of its
 * own, because the first thread that wakes consumes the event. -1: no descriptor is left. */
int tt_comm_bell_take(struct tt_shared *s);
void tt_comm_bell_give(struct tt_shared *s, int bell);
/* The counter that tell publishes; await waits, without the lock, until it is no longer `seen` or
 * until_ns has passed. Only if there is a helper. */
uint64_t tt_comm_news_told(struct tt_comm *c);
void tt_comm_news_await(struct tt_comm *c, uint64_t seen, uint64_t until_ns);
/* helper.c: the thread that makes progress on started requests. */
void tt_comm_helper_wake(struct tt_comm *c); /* there is a new request; the lock is held */
void tt_comm_helper_end(struct tt_comm *c);  /* the lock is not held */
/* progress.c: how a blocking call waits for `bytes` of data, and how a thread with a bell waits;
 * wake: ends the sleep of a thread, from any thread; progress: one poll of the engine with the lock
 * held, true if anything moved. Waits check for verdicts and errors every TT_GLANCE_NS. */
enum { TT_GLANCE_NS = 20000000 };
enum { TT_AWAKE, TT_AT_BELL, TT_AT_DOOR }; /* values of struct tt_waiting's sleep */
void tt_comm_waiting_call(const struct tt_comm *c, uint64_t bytes, struct tt_waiting *ret);
void tt_comm_waiting_thread(const struct tt_comm *c, int bell, struct tt_waiting *ret);
/* Counts a poll of the engine that has moved something, or nothing. */
void tt_comm_waiting_looked(const struct tt_comm *c, struct tt_waiting *w, bool moved);
void tt_comm_waiting_wake(struct tt_comm *c, struct tt_waiting *w);
bool tt_comm_progress(struct tt_comm *c);

/* adopt.c: ranks from the parent of the configuration, or from MPI (*ret_mpi is set then). */
tutti_status tt_comm_adopt(struct tt_comm_config *c, struct tt_mpi **ret_mpi,
                           struct tutti_error *err);
/* topology.c: this rank's own view of the network, or the world's topology itself once that is
 * agreed upon. */
tutti_status tt_comm_topology(struct tt_comm *c, struct tt_topo **ret, struct tutti_error *err);
/* agree.c: "name=value" lines that must be equal on all ranks. agree_topology is collective: all
 * ranks get the same topology or the same error, which names the ranks that differ from rank 0 and
 * the first difference. */
struct tt_agreement {
    tt_exchange_fn *exchange;
    void *ctx;
};
void tt_comm_agree_settings(const struct tt_comm_config *c, const struct tt_tuning *tuning,
                            struct tt_str *s);
tutti_status tt_comm_agree_topology(struct tt_comm *c, const struct tt_agreement *how,
                                    struct tt_topo **ret, struct tutti_error *err);
/* hand.c: rank 0 hands bytes to the others; the lock is held. Ranks that are in another call get
 * the usual verdict. */
struct tt_hand {
    /* The call that needs the bytes, as the watch knows it; tt_comm_hand_begin sets its number. */
    struct tt_op_desc op;
};
struct tt_hand_blocks {
    const void *all; /* rank 0: one block per rank */
    void *ret_mine;
    size_t bytes; /* of each block */
};
/* This rank is in request h from now on, until tt_comm_hand_end. */
void tt_comm_hand_begin(struct tt_comm *c, struct tt_hand *h);
void tt_comm_hand_end(struct tt_comm *c, const struct tt_hand *h);
tutti_status tt_comm_hand_all(struct tt_comm *c, const struct tt_hand *h, void *data, size_t bytes,
                              struct tutti_error *err);
tutti_status tt_comm_hand_each(struct tt_comm *c, const struct tt_hand *h,
                               const struct tt_hand_blocks *b, struct tutti_error *err);
/* Ends a hand-over when all ranks have reached this point. Without it rank 0, which only sends,
 * would go on, and could not tell what it was in when another rank turns out to be in another
 * call. */
tutti_status tt_comm_hand_meet(struct tt_comm *c, const struct tt_hand *h, struct tutti_error *err);
/* plans.c: the plan for a problem, the same on all ranks; the lock is held. A synthesised plan that
 * is asked for the first time is handed out by rank 0: all ranks must then ask, in the same order.
 * A refusal has the same reason everywhere and leaves the communicator usable. */
#define TT_ORIGIN_LIST(X) \
    X(PLANNER, "planner") X(NAMED, "named") X(TUNING, "tuning") X(GIVEN, "plan")
enum tt_origin {
#define TT_ORIGIN_ENUM(id, name) TT_ORIGIN_##id,
    TT_ORIGIN_LIST(TT_ORIGIN_ENUM)
#undef TT_ORIGIN_ENUM
};
struct tt_agreed {
    struct tt_problem problem;
    char *asked;                /* the algorithm that was named, or "auto" */
    const struct tt_algo *algo; /* NULL: a plan of the user */
    char name[TT_ALGO_NAME];    /* of the algorithm, as the plan says */
    enum tt_origin origin;
    struct tt_options options; /* segments included */
    uint64_t predicted_ps, own_ps, bound_ps;
    uint64_t hash;          /* of the whole plan */
    struct tt_sched *slice; /* this rank's slice of a synthesised plan; NULL: built on demand */
};
struct tt_comm_ask {
    struct tt_problem problem;
    const char *algo; /* NULL or "auto": the planner's choice */
    struct tt_hand why;
};
struct tt_plans *tt_comm_plans_make(void);
void tt_comm_plans_free(struct tt_plans *p); /* accepts NULL */
tutti_status tt_comm_plans_get(struct tt_comm *c, const struct tt_comm_ask *ask,
                               const struct tt_agreed **ret, struct tutti_error *err);
/* This rank's slice of a closed form; owned by the caller. */
tutti_status tt_comm_plans_slice(const struct tt_comm *c, const struct tt_agreed *a,
                                 struct tt_sched **ret, struct tutti_error *err);
/* Rank 0's prediction. Collective. */
tutti_status tt_comm_plans_predict(struct tt_comm *c, const struct tt_comm_ask *ask,
                                   uint64_t *ret_ps, struct tutti_error *err);
/* given.c: plans and rules of the user. Opening a communicator reads and proves the plans that fit
 * it: collective, the same result on all ranks. runs: is there a plan for such a call? plan: that
 * plan, at rank 0; the caller frees it. */
enum { TT_GIVEN_MAX = 16 };
tutti_status tt_comm_given_tuning(const char *path, struct tt_tuning **ret,
                                  struct tutti_error *err);
tutti_status tt_comm_given_open(struct tt_comm *c, const struct tt_agreement *how,
                                struct tutti_error *err);
bool tt_comm_given_runs(struct tt_comm *c, const struct tt_comm_ask *ask);
tutti_status tt_comm_given_plan(struct tt_comm *c, const struct tt_problem *p,
                                struct tt_sched **ret, struct tutti_error *err);
void tt_comm_given_close(const struct tt_comm *c); /* warns about plans that never ran */
void tt_comm_given_free(struct tt_given *g);       /* accepts NULL */
/* tell.c: what is written to the log (base/log.h). */
void tt_comm_tell_open(const struct tt_comm *c);
void tt_comm_tell_plan(const struct tt_comm *c, const struct tt_agreed *a);
void tt_comm_tell_close(const struct tt_comm *c);
void tt_comm_tell_unread(const struct tt_comm *c); /* messages that were never received */
void tt_comm_tell_failure(const struct tt_comm *c);
/* To the launcher: which rank is to blame; that all ranks refuse the same thing. */
void tt_comm_tell_verdict(const struct tt_comm *c, const struct tt_verdict *v);
void tt_comm_tell_refusal(const struct tt_world *w, const char *what, const char *name);
/* message.c: one message pair[0] -> pair[1] as a schedule that holds only `rank` (empty for other
 * ranks). */
tutti_status tt_comm_message_sched(uint32_t ranks, uint32_t rank, const uint32_t pair[2],
                                   struct tt_sched **ret, struct tutti_error *err);
/* Starts l; fills op, by which the watch knows it. */
tutti_status tt_comm_message_begin(struct tt_comm *c, struct tt_letter *l, struct tt_op_desc *op);
/* measure.c: alpha, beta and gamma for one pair of ranks of each kind, in bounded time; rank 0
 * decides. Collective; nothing else may run. */
struct tt_measure {
    tt_exchange_fn *exchange;
    void *ctx;
    bool again; /* rank 0: do not use the kept figures */
    enum tt_why why;
};
tutti_status tt_comm_measure(struct tt_comm *c, const struct tt_measure *how,
                             struct tutti_error *err);
/* measure_host.c: one point of what all ranks of a host do together: an all-reduce of `bytes`, its
 * time in ps at this rank, the best of that many groups of rounds; groups 0: a single round. */
enum tt_host_kind { TT_HOST_MOVE, TT_HOST_OWN, TT_HOST_BOX };
tutti_status tt_comm_host_measure(struct tt_comm *c, enum tt_host_kind kind, uint64_t bytes,
                                  uint32_t groups, uint64_t *ret_ps, struct tutti_error *err);
/* speeds.c: a hash of everything that measured speeds depend on. */
uint64_t tt_comm_speeds_key(const struct tt_comm *c);
/* report_all.c: begin keeping notes if a report is wanted; end: the report. Both collective. */
tutti_status tt_comm_report_begin(struct tt_comm *c, struct tutti_error *err);
void tt_comm_report_end(struct tt_comm *c);
void tt_comm_report_drop(struct tt_comm *c); /* there will be no report; local */
/* open.c: a tt_exchange_fn by an all-gather; ctx is a struct tt_setup. */
tutti_status tt_comm_exchange(void *ctx, const void *mine, size_t bytes, void *ret_all,
                              struct tutti_error *err);
/* Fills in the reduction of a call as ranks tell it to each other. */
void tt_comm_call_reduction(const struct tt_call *call, struct tt_op_desc *op);
/* program.c: the kept program for a call, made if needed; the lock is held. */
tutti_status tt_comm_program(struct tt_comm *c, const struct tt_call *call, struct tt_kept **ret,
                             struct tutti_error *err);
void tt_comm_kept_free(struct tt_kept *k);
/* What it runs: at least this rank's slice. */
const struct tt_sched *tt_comm_kept_sched(const struct tt_kept *k);
/* prove.c: before its first use a plan is proved and written, as the communicator's settings ask.
 * `mine` is what this rank will run: all slices, or only its own. The lock is held. */
tutti_status tt_comm_prove_admit(struct tt_comm *c, const struct tt_agreed *a,
                                 const struct tt_sched *mine, struct tutti_error *err);
/* TUTTI_ERR_INCORRECT with rank, operation and reason unless `whole` does what its collective
 * promises and `mine` is rank's part of it. */
tutti_status tt_comm_prove(const struct tt_sched *whole, const struct tt_sched *mine, uint32_t rank,
                           struct tutti_error *err);
/* dump.c: open: rank 0 prepares the folder and writes the topology; collective, the same result on
 * all ranks. wants: should this plan be written (logs why not if it is too large)? write: a failure
 * is logged, and the job goes on. */
tutti_status tt_comm_dump_open(struct tt_comm *c, tt_exchange_fn *exchange, void *ctx,
                               struct tutti_error *err);
bool tt_comm_dump_wants(const struct tt_comm *c, const struct tt_plan *plan,
                        const struct tt_sched *mine);
void tt_comm_dump_write(struct tt_comm *c, const struct tt_sched *whole);
void tt_comm_dump_close(struct tt_comm *c);

/* trace.c: TUTTI_TRACE. call and wait: only if there is a record; a collective or a wait that began
 * at start_ns ends now. end is collective, unless the communicator has failed. */
struct tt_trace_call {
    uint64_t start_ns;
    uint32_t seq;
    bool request; /* the caller has not waited all the time */
};
tutti_status tt_comm_trace_open(struct tt_comm *c, struct tutti_error *err);
void tt_comm_trace_call(struct tt_comm *c, const struct tt_kept *k, const struct tt_op_desc *op,
                        const struct tt_trace_call *call);
void tt_comm_trace_wait(struct tt_comm *c, uint32_t seq, uint64_t start_ns);
void tt_comm_trace_end(struct tt_comm *c);
void tt_comm_trace_free(struct tt_world *w);
/* wait.c: starting programs and waiting for them. */
/* Starts s as the next request of the engine, whose number becomes a part of the fingerprint. If
 * the engine fails, the result is the verdict on op; any error is in c->last. No other function of
 * comm starts programs. */
tutti_status tt_comm_start(struct tt_comm *c, struct tt_start *s, const struct tt_op_desc *op);
tutti_status tt_comm_begin(struct tt_comm *c, struct tt_kept *k, const struct tt_call *call,
                           const struct tt_op_desc *op);
tutti_status tt_comm_await(struct tt_comm *c, const struct tt_comm_work *w,
                           const struct tt_op_desc *op);
tutti_status tt_comm_finish(struct tt_comm *c, const struct tt_program *p,
                            const struct tt_op_desc *op);
/* The state of the work, and the same after a poll; neither waits. */
tutti_status tt_comm_ask(const struct tt_comm *c, const struct tt_comm_work *w);
tutti_status tt_comm_test(struct tt_comm *c, const struct tt_comm_work *w,
                          const struct tt_op_desc *op);
/* The deadline has passed: finds out which rank is to blame. */
tutti_status tt_comm_late(struct tt_comm *c, const struct tt_comm_work *w,
                          const struct tt_op_desc *op);
/* The engine has failed: the verdict on that, requested if there is none yet. */
tutti_status tt_comm_broken(struct tt_comm *c, const struct tt_op_desc *op);
/* This rank fails with st in its part of something that all ranks open together, perhaps because of
 * `peer` (world rank, UINT32_MAX: unknown): all ranks are told. Returns the verdict. Does nothing
 * with TUTTI_OK. */
tutti_status tt_comm_unable(const struct tt_setup *s, uint32_t peer, tutti_status st,
                            struct tutti_error *err);
/* The request that it is part of, for verdicts. */
struct tt_op_desc tt_comm_setup_op(const struct tt_setup *s);
/* Fails the communicator for good: records the verdict as last error and returns TUTTI_ERR_PEER (or
 * the status that fits). */
tutti_status tt_comm_condemn(struct tt_comm *c, const struct tt_trouble *t);
tutti_status tt_comm_fail(struct tt_comm *c, const struct tutti_error *err); /* this call only */
#endif
