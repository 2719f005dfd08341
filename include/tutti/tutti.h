/* tutti.h - the public interface: networks, plans, schedules, and communicators that run them. The
 * pages of section 3 are made from this file by tools/make-man: a "----" comment begins a page, a
 * comment belongs to the declarations below it up to an empty line or the next comment, and a
 * paragraph that begins with "Threads:" has its own section.
 *
 * A topology describes a network. A plan is the choice of an algorithm for a collective on a
 * topology, with its predicted time and a lower bound. A schedule is the program of every rank; it
 * can be proved, priced, written and read.
 *
 * Conventions. Functions that can fail return a tutti_status (0 is success) and describe the
 * failure in *err when err is not NULL; outputs come last, are named ret_*, and are set only on
 * success. make/parse/read pair with free; every free accepts NULL. Objects are read-only once
 * made: any number of threads may read one object at the same time; one thread frees it, also
 * before the objects that were made from it.
 *
 * Output. No function prints, with two exceptions. tutti_comm_close prints a report on rank 0 when
 * TUTTI_REPORT=1. Messages of the library are those that TUTTI_LOG asks for; without it only
 * warnings: of rank 0 about unknown TUTTI_ variables, plans that never ran and files that cannot be
 * written; of any rank about failures that were found only when a communicator was closed, too late
 * for a call to return them.
 *
 * Handles are checked. NULL, a handle that was freed or closed, one of another kind, or any
 * other pointer is TUTTI_ERR_ARG with a sentence. The sentence is in *err; for functions without
 * err, tutti_comm_last_error(NULL) has it when the handle itself is bad, and
 * tutti_comm_last_error of the communicator when another argument is. A function that returns no
 * status prints the sentence and aborts. NULL outputs are treated in the same way. After fork()
 * communicators, requests and trainers belong to the parent: in the child calls on them are
 * errors, closing them does nothing, and the child may open its own.
 *
 * Structs that begin with `size`: set all of the struct to zero, and `size` to its sizeof. A
 * program that was compiled with the headers of an earlier version, whose structs are shorter,
 * still works; so does one with later headers, unless it sets a field that the library does not
 * know. */
#ifndef TUTTI_H
#define TUTTI_H

#include <stdbool.h>
#include <tutti/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* ---- tutti_version - version, texts of status codes, sizes of data types ----
 *
 * Threads: any, at any time. */

/* The library's version, "0.1.0". A constant. */
const char *tutti_version(void);
/* A fixed text for any status value, known or not. A constant. The reason why a call failed is
 * in its *err, or in tutti_comm_last_error. */
const char *tutti_strerror(tutti_status status);
/* Bytes of one element; 0 when there is no such data type. */
uint32_t tutti_dtype_bytes(tutti_dtype dtype);

/* ---- tutti_topo - topologies: networks from a spec, a file or parts ----
 *
 * A topology is ranks, switches, and links with bandwidth and latency, with the routes between all
 * ranks. tutti-topology(5) describes specs and files.
 *
 * Threads: a topology is read-only once made; any number of threads may read one. One thread frees
 * it. */
struct tutti_topo;

/* From a spec ("star:8@1Gbps,50us") or, when the text is not a spec, from the file of that name
 * ("-": standard input). */
tutti_status tutti_topo_parse(const char *spec, struct tutti_topo **ret_topo,
                              struct tutti_error *err);
/* From a topology file only. */
tutti_status tutti_topo_load(const char *path, struct tutti_topo **ret_topo,
                             struct tutti_error *err);
/* From parts: kind "torus", params "8x8", link "16GB/s,150ns" (NULL: the default link). */
tutti_status tutti_topo_generate(const char *kind, const char *params, const char *link,
                                 struct tutti_topo **ret_topo, struct tutti_error *err);
/* Writes a topology file; "-" is standard output. */
tutti_status tutti_topo_write(const struct tutti_topo *topo, const char *path,
                              struct tutti_error *err);
/* The number of ranks. */
uint32_t tutti_topo_ranks(const struct tutti_topo *topo);
/* Accepts NULL. Plans that were made from it stay usable. */
void tutti_topo_free(struct tutti_topo *topo);

/* ---- tutti_plan - plans: which algorithm for a collective on a network ----
 *
 * A plan is the choice of an algorithm and its options for one collective of one length on one
 * topology, with the time that the cost model predicts and a time that no schedule can beat. Making
 * one neither measures nor communicates.
 *
 * Threads: a plan is read-only once made; any number of threads may read one. One thread frees
 * it. */
struct tutti_plan;
struct tutti_schedule;

/* The problem and how to choose. Zero-initialise, and set `size` to sizeof(struct
 * tutti_plan_options); zero fields mean the defaults in brackets. */
struct tutti_plan_options {
    size_t size;
    tutti_coll coll;     /* [allreduce] */
    uint32_t root;       /* of rooted collectives */
    tutti_dtype dtype;   /* [f32] */
    tutti_redop redop;   /* [sum] */
    uint64_t count;      /* elements of the whole vector */
    const char *algo;    /* [auto] */
    const char *options; /* the algorithm's options, "k=v,k=v" [none] */
    bool reproducible;   /* only algorithms that sum in rank order */
    uint64_t budget_ms;  /* planning budget of auto [1000] */
    const char *tuning;  /* a tuning file [none] */
};

/* Makes a plan; free accepts NULL. The options are copied; the topology may be freed afterwards.
 * TUTTI_ERR_REFUSED: the named algorithm does not apply, or none does; *err has the reason. */
tutti_status tutti_plan_make(const struct tutti_topo *topo,
                             const struct tutti_plan_options *options, struct tutti_plan **ret_plan,
                             struct tutti_error *err);
void tutti_plan_free(struct tutti_plan *plan);
/* The algorithm's name, which lives as long as the plan; the predicted time in microseconds; the
 * greatest lower bound on the time of any schedule on this topology. */
const char *tutti_plan_algo(const struct tutti_plan *plan);
double tutti_plan_predicted_us(const struct tutti_plan *plan);
double tutti_plan_bound_us(const struct tutti_plan *plan);
/* The schedule of all ranks; it is independent of the plan and the topology afterwards. */
tutti_status tutti_plan_schedule(const struct tutti_plan *plan,
                                 struct tutti_schedule **ret_schedule, struct tutti_error *err);

/* One algorithm that was considered. Texts live as long as the plan. */
struct tutti_candidate {
    const char *algo;
    /* it does not apply, is too large, or its time is too long to compute; see `why` */
    bool refused;
    bool skipped; /* not priced: the planning budget would not suffice, or a tuning rule decided */
    /* by steps, when neither refused nor skipped; the choice itself may rest on simulated times */
    double predicted_us;
    double ratio_to_bound; /* 0: the bound is 0 */
    uint32_t segments;
    uint32_t steps;
    const char *why; /* the reason of a refusal, or what dominates the time */
};
/* The i-th candidate of an automatic choice, in table order; TUTTI_ERR_RANGE past the last one
 * (there are none when the algorithm was named). */
tutti_status tutti_plan_explain(const struct tutti_plan *plan, size_t i,
                                struct tutti_candidate *ret_candidate, struct tutti_error *err);

/* ---- tutti_schedule - schedules: read, write, prove and price the program of every rank ----
 *
 * A schedule lists what every rank sends, receives and reduces, step by step. tutti-schedule(5)
 * describes its text form. tutti_plan_schedule makes one; a communicator runs those that its option
 * `plan` names.
 *
 * Threads: a schedule is read-only once made; any number of threads may read one. One thread frees
 * it. */

/* Reads (and checks) or writes the JSON text form; "-" is standard input or output. free accepts
 * NULL. */
tutti_status tutti_schedule_read(const char *path, struct tutti_schedule **ret_schedule,
                                 struct tutti_error *err);
tutti_status tutti_schedule_write(const struct tutti_schedule *schedule, const char *path,
                                  struct tutti_error *err);
void tutti_schedule_free(struct tutti_schedule *schedule);

/* The result of a proof. */
struct tutti_verdict {
    bool ok;
    bool exact;               /* false: proved by fingerprints, with ... */
    double error_probability; /* ... at most this probability that an incorrect schedule passes */
    uint32_t ranks;
    uint64_t ops, messages;
    /* when not ok: the header is at fault (segments, weights, ...); rank and op are 0 */
    bool header;
    uint32_t rank; /* when not ok: the rank, ... */
    uint64_t op; /* ... the operation in its list (its length: only the end result is wrong) ... */
    char why[400]; /* ... and the reason */
};
/* Proves the schedule, or names what is wrong with it. A schedule that is not correct is
 * TUTTI_OK with ok false. */
tutti_status tutti_schedule_verify(const struct tutti_schedule *schedule,
                                   struct tutti_verdict *ret_verdict, struct tutti_error *err);

/* A predicted time and its parts. */
struct tutti_sim_result {
    double time_us;
    double latency_us, transfer_us, reduce_us, overhead_us; /* the parts of time_us */
    uint32_t steps;
    uint64_t bytes_on_busiest_link;
    uint32_t busiest_link;        /* directed link: 2 * link or 2 * link + 1 */
    uint32_t max_link_contention; /* most messages on one directed link in one step */
    uint64_t messages;
};
/* The time of the schedule on a topology, bulk-synchronous (level "step"); predicted_us of a
 * plan is this time. */
tutti_status tutti_schedule_simulate(const struct tutti_schedule *schedule,
                                     const struct tutti_topo *topo, uint64_t count,
                                     tutti_dtype dtype, struct tutti_sim_result *ret_result,
                                     struct tutti_error *err);

/* Writes the schedule in the format of another engine or simulator, or as a picture (`tutti
 * export --list` lists the names). options: "key=value,key=value" of the format, or NULL. path:
 * a file, or "-" for standard output; formats with a file for each rank add ".<rank>.et".
 * TUTTI_ERR_REFUSED: the format cannot express the schedule, or it breaks a limit of the engine.
 * The schedule should have been proved. */
tutti_status tutti_schedule_export(const struct tutti_schedule *schedule, const char *format,
                                   const char *options, const char *path, struct tutti_error *err);

/* ---- tutti_comm - communicators: groups of live ranks ----
 *
 * A communicator joins the processes of a job. Opening, splitting and closing it are collective;
 * every wait has a deadline. When a rank dies, stops, is cut off, is late or calls something else,
 * every rank gets the same error, which names that rank. From then on all calls on the communicator
 * return that error, and buffers belong to the caller again.
 *
 * Threads: any thread may call; one call runs at a time, and others wait for it. All ranks must
 * make their collective calls, and make and start requests of collectives, in the same order.
 * Two threads must therefore not race for it: give each of them a communicator of its own
 * (split). */
struct tutti_comm;
struct tutti_request;

/* Identity and options. Zero-initialise and set `size`. NULL instead of a struct means all
 * defaults: everything comes from the launcher's variables (ours, torchrun, Open MPI, MPICH,
 * Slurm) and from TUTTI_*. */
struct tutti_comm_options {
    size_t size;
    /* rank, ranks, local_rank and rendezvous are set; else they come from the environment */
    bool given;
    uint32_t rank, ranks;
    int local_rank;
    const char *rendezvous; /* host:port of rank 0 */
    const char *key_file;   /* the job's key; needed beyond loopback unless insecure */
    bool insecure;
    const char *iface; /* interface filter */
    /* "shm", "tcp", "mpi" (tutti-mpi(7)); NULL: shared memory inside a host, TCP between hosts */
    const char *transport;
    /* spec or file; NULL: hosts and cores as found. Ranks may write it differently, but the
     * network must be the same */
    const char *topo;
    const char *algo;  /* fixes the algorithm of all-reduce; NULL: the planner's choice */
    bool reproducible; /* sums in rank order: the same bits for every size, offset and transport */
    uint64_t timeout_us; /* deadline of every wait; 0: TUTTI_TIMEOUT or 30 s */
    /* Plan files, "a.json:b.json", at most 16. Rank 0 reads and proves them; when that fails,
     * every rank fails with its reason. A plan runs each call of its collective (and root) on
     * communicators of its number of ranks, whatever the length, type and reduction. Calls that
     * name an algorithm, and calls that must sum in rank order, do not use it. */
    const char *plan;
    const char *tuning; /* tuning file (tutti-tuning(5)), with the same rules on all ranks */
    /* encrypt all bytes on sockets (TUTTI_ENCRYPT=1); needs a job key; the same on all ranks */
    bool encrypt;
    /* of payloads on sockets: 0: TUTTI_CHECKSUM, else between hosts; 1: always; -1: never */
    int checksum;
    /* host:port[,host:port..] of members of a job that runs (TUTTI_JOIN): this process becomes a
     * further rank of it when the members call tutti_comm_admit, which must happen within the
     * timeout. Needs the job's key. The rank is not known before. */
    const char *join;
};
/* Collective: all ranks call it. Returns when all have met, or with the reason why not. The
 * caller closes *ret_comm. Raises the process's soft limit of open files to the hard limit,
 * permanently (tutti(7)). */
tutti_status tutti_comm_open(const struct tutti_comm_options *options, struct tutti_comm **ret_comm,
                             struct tutti_error *err);
/* This process's number in the group, from 0, and the number of ranks. */
uint32_t tutti_comm_rank(const struct tutti_comm *comm);
uint32_t tutti_comm_size(const struct tutti_comm *comm);
/* Collective: ranks with the same color form a new communicator, ordered by (key, rank). color <
 * 0: this rank is in none, and *ret_comm is set to NULL. */
tutti_status tutti_comm_split(struct tutti_comm *comm, int color, int key,
                              struct tutti_comm **ret_comm, struct tutti_error *err);
/* After a failure: the ranks that still live agree on who they are, whoever has failed (rank 0
 * too), and open a new communicator in the order of their ranks. Every rank that wants to go on
 * calls it, after a call on comm has returned an error; comm is of no further use and must be
 * closed. Ranks that die meanwhile are left out too. Plans are made anew for the new number of
 * ranks; a topology and plan files that were given to tutti_comm_open are not used any more, since
 * they were for another number.
 *
 * A rank that the error calls dead, stuck or unreachable is not waited for; any other that does not
 * call it within the timeout is left out, and is told so when it comes. The ranks that call it go
 * on if all others have ended (nobody listens at their address any more), or if they are more than
 * half of comm, or half of it with rank 0. So of a network that fell in two at most one part goes
 * on; the ranks of the other return TUTTI_ERR_TIMEOUT. TUTTI_ERR_PEER: the others went on without
 * this rank. Waits for three times the timeout and two seconds at most, and as long again for each
 * further rank that dies meanwhile; after the death of a process only for ranks that have yet to
 * make the call. Not for communicators from a split, and not with transport mpi. */
tutti_status tutti_comm_shrink(struct tutti_comm *comm, struct tutti_comm **ret_comm,
                               struct tutti_error *err);
/* Lets newcomers in: processes that opened with `join` (or TUTTI_JOIN), proved that they hold the
 * job's key and have the same version and settings. Collective, at a point that all members choose,
 * such as the end of every tenth training step. If nobody waits, *ret_comm is comm itself, after
 * one small all-gather. Otherwise *ret_comm is a new communicator: the members keep their order,
 * the newcomers follow, tutti_comm_changes has grown; comm must then be closed, which waits for
 * nobody. The first call opens this rank's listening port to newcomers of all addresses (one with
 * another key, version or setting is refused, with the reason, and disturbs nobody).
 *
 * If a member fails meanwhile, or has failed before, this does what tutti_comm_shrink does, with
 * the same results and errors: a rank whose step succeeded may call it while others, whose step
 * failed, call tutti_comm_shrink. Not for communicators from a split, nor with transport mpi, nor
 * for a job that was opened with one rank. */
tutti_status tutti_comm_admit(struct tutti_comm *comm, struct tutti_comm **ret_comm,
                              struct tutti_error *err);
/* How many times the members of the job had changed when this communicator was opened: 0 for the
 * first one. The same on all its ranks. */
uint32_t tutti_comm_changes(const struct tutti_comm *comm);
/* Makes every present and future call on this communicator fail on all ranks, with `reason`.
 * Local; never blocks. */
void tutti_comm_abort(struct tutti_comm *comm, const char *reason);
/* The reason why the last call failed: rank, host, pid, operation, sequence number, class. Valid
 * until the next call. For anything that is no communicator (such as NULL): why this thread's
 * last call was refused for its arguments. */
const struct tutti_error *tutti_comm_last_error(const struct tutti_comm *comm);
/* A report on slow ranks: waiting time, arrival skew and measured bandwidth per peer; the
 * slowest rank and link in words. The caller frees the text with free(3). */
tutti_status tutti_comm_report(struct tutti_comm *comm, char **ret_text, struct tutti_error *err);
/* Accepts NULL. Waits for started requests (receives for which no message has come are
 * cancelled), then for the other ranks, at most until the deadline. Afterwards requests can only
 * be freed, and memory of tutti_mem_alloc is gone (but see tutti_mem_keep). With TUTTI_REPORT=1
 * (as set on rank 0 at tutti_comm_open) rank 0 prints on standard error which ranks were slow
 * and why, as seen from all ranks. */
void tutti_comm_close(struct tutti_comm *comm);

/* ---- tutti_mem - memory that other ranks of the host can access ----
 *
 * Buffers of collectives may be any memory. Those from here need one copy less between ranks of one
 * host. The memory ends with its communicator, unless it is kept.
 *
 * Threads: any, at any time before the communicator is closed. */

/* Memory that the other ranks of this host can access directly: the fastest buffers. Both calls
 * are local. free accepts NULL, and aborts when the memory is not from tutti_mem_alloc of this
 * communicator. */
tutti_status tutti_mem_alloc(struct tutti_comm *comm, size_t bytes, void **ret_memory,
                             struct tutti_error *err);
void tutti_mem_free(struct tutti_comm *comm, void *memory);
/* Memory that is allocated now, and not freed when the communicator is closed, stays valid after
 * closing; tutti_mem_free(NULL, memory) frees it then. For callers whose buffers outlive the
 * communicator. */
void tutti_mem_keep(struct tutti_comm *comm);

/* ---- tutti_redop - reductions of the caller's own ----
 *
 * A reduction is a function: void fn(void *ctx, const void *left, const void *right, void *out,
 * size_t count) sets out[i] to left[i] op right[i] for i < count. out is the same memory as left or
 * right, or separate from both. Elements of 16, 32 or 64 bytes have the types TUTTI_OPAQUE16,
 * TUTTI_OPAQUE32 and TUTTI_OPAQUE64; shorter ones use any type of their size.
 *
 * Threads: create and free may be called by any thread. The function itself is called by any thread
 * that works for a communicator, and by several at the same time when several communicators use
 * it. */

/* A reduction of the caller's own, for tutti_allreduce, reduce_scatter and reduce in all forms,
 * on communicators of this process. */
struct tutti_redop_options {
    size_t size;
    /* 1 to 63 characters: ranks that call with reductions of different names get an error */
    const char *name;
    /* called by any thread that works for the communicator; must neither wait nor call tutti */
    tutti_redop_fn *fn;
    void *ctx; /* its first argument */
    /* bytes of an element: 1, 2, 4, 8, 16, 32 or 64; calls name a data type of this size.
     * Elements are aligned to it */
    size_t elem_bytes;
    /* a op b = b op a. Otherwise contributions are combined in rank order, which only direct and
     * oneshot do; other algorithms are refused. In any case (a op b) op c = a op (b op c) is
     * assumed. */
    bool commutative;
};
/* Local. The value of *ret_op may differ between ranks. */
tutti_status tutti_redop_create(const struct tutti_redop_options *options, tutti_redop *ret_op,
                                struct tutti_error *err);
/* Only when no call that uses it is under way. Does nothing for a built-in reduction; aborts for
 * one that was freed already. */
void tutti_redop_free(tutti_redop op);

/* ---- tutti_coll - collectives, blocking ----
 *
 * All ranks of the communicator call the same collective with the same arguments, except the
 * buffers. A call returns when this rank's part is done: its `out` is complete and its `in` may be
 * changed.
 *
 * Calls that differ between ranks are TUTTI_ERR_DIFFERS (or a deadline) on all ranks, in the
 * call in which a rank needs something from the others. A rank that only sends (the root of
 * broadcast or scatter, all but the root of reduce or gather) does not wait for an answer: it
 * gets the error in its next call or, when there is none, when the communicator is closed.
 * Closing cannot return it, so that it is logged as a warning and tutti run exits with 1. A
 * tutti_barrier after such calls returns it.
 *
 * Threads: see tutti_comm. */

/* `in` and `out` may be the same memory (in place); otherwise they must not overlap. Counts are
 * elements: of the whole vector for allreduce, broadcast and reduce; of one rank's block for the
 * others (the whole vector is ranks * count). reduce_scatter reads ranks * count and writes
 * count; all_gather the reverse; in place the block lies at its position in the vector. `out` of
 * reduce and gather, and `in` of broadcast and scatter, matter only at the root (broadcast: in
 * == out is usual). */
tutti_status tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count,
                             tutti_dtype dtype, tutti_redop op);
tutti_status tutti_reduce_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                  tutti_dtype dtype, tutti_redop op);
tutti_status tutti_all_gather(struct tutti_comm *comm, const void *in, void *out, size_t count,
                              tutti_dtype dtype);
tutti_status tutti_broadcast(struct tutti_comm *comm, const void *in, void *out, size_t count,
                             tutti_dtype dtype, uint32_t root);
tutti_status tutti_reduce(struct tutti_comm *comm, const void *in, void *out, size_t count,
                          tutti_dtype dtype, tutti_redop op, uint32_t root);
tutti_status tutti_gather(struct tutti_comm *comm, const void *in, void *out, size_t count,
                          tutti_dtype dtype, uint32_t root);
tutti_status tutti_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count,
                           tutti_dtype dtype, uint32_t root);
tutti_status tutti_all_to_all(struct tutti_comm *comm, const void *in, void *out, size_t count,
                              tutti_dtype dtype);
tutti_status tutti_barrier(struct tutti_comm *comm);
/* Blocks of any length: counts[r] elements for rank r (the same array on all ranks). */
tutti_status tutti_reduce_scatter_v(struct tutti_comm *comm, const void *in, void *out,
                                    const size_t *counts, tutti_dtype dtype, tutti_redop op);
tutti_status tutti_all_gather_v(struct tutti_comm *comm, const void *in, void *out,
                                const size_t *counts, tutti_dtype dtype);
/* All-to-all with blocks of any length: send_counts[r] elements from in + send_displs[r] go to
 * rank r, and recv_counts[r] elements from it to out + recv_displs[r]. Displacements are in
 * elements; NULL: block behind block. A rank needs to know only its own counts, but the count
 * that one rank expects must be the one that the other sends: otherwise all ranks get an error,
 * from this call or the next. Blocks of `out` must not overlap, nor may in and out. Always uses
 * algorithm direct. */
tutti_status tutti_all_to_all_v(struct tutti_comm *comm, const void *in, const size_t *send_counts,
                                const size_t *send_displs, void *out, const size_t *recv_counts,
                                const size_t *recv_displs, tutti_dtype dtype);
/* ---- tutti_message - messages between two ranks ----
 *
 * Threads: any number may send and receive; while one waits for a message, others may use the
 * communicator. When two threads receive at the same time, it is not specified which of them gets
 * which message. */

/* Point to point, outside the order of the collectives. A receive takes the first message that
 * matches it: messages from one rank to another with the requested tag are received in the order
 * in which they were sent. Both sides must give the same count and dtype; otherwise all ranks
 * get an error that names both. A send of at most 16 KiB usually returns at once, a longer one
 * when its receive has begun and all bytes are on their way: programs in which two ranks both
 * send first must not rely on either. These three functions use tag 0. recv_any takes a message
 * from any other rank and tells from which. A message that is not received before the
 * communicator is closed is lost; the rank that it was sent to logs a warning. */
tutti_status tutti_send(struct tutti_comm *comm, const void *data, size_t count, tutti_dtype dtype,
                        uint32_t peer);
tutti_status tutti_recv(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype,
                        uint32_t peer);
tutti_status tutti_recv_any(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype,
                            uint32_t *ret_source);

/* Messages as requests (see tutti_request): local, and in no order with other requests, except
 * that among the receives of one rank that match a message, the one that was started first gets
 * it. Any number may be started at the same time. peer and tag of a receive may be
 * TUTTI_ANY_SOURCE and TUTTI_ANY_TAG. */
#define TUTTI_ANY_SOURCE UINT32_MAX
#define TUTTI_ANY_TAG    UINT32_MAX
tutti_status tutti_send_init(struct tutti_comm *comm, const void *data, size_t count,
                             tutti_dtype dtype, uint32_t peer, uint32_t tag,
                             struct tutti_request **ret);
tutti_status tutti_recv_init(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype,
                             uint32_t peer, uint32_t tag, struct tutti_request **ret);
/* The source of the message of a receive that has completed (by wait or test), and its tag
 * (ret_tag may be NULL). */
tutti_status tutti_request_source(struct tutti_request *request, uint32_t *ret_source,
                                  uint32_t *ret_tag, struct tutti_error *err);

/* ---- tutti_request - collectives as persistent requests ----
 *
 * A request is made once for fixed buffers and started any number of times; it runs in the
 * background while the caller computes.
 *
 * Threads: one at a time for a request; see tutti_comm for the order of starts. */

/* Made once, started any number of times; all ranks make and start a communicator's requests in
 * the same order. Making one is collective: when the plan is synthesised (multitree, forest,
 * flex) and the first of its kind, the call waits until all ranks make it, because rank 0
 * distributes the plan. Between start and completion the buffers belong to the library. start,
 * test and wait never allocate. */
tutti_status tutti_allreduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                  tutti_dtype dtype, tutti_redop op, struct tutti_request **ret);
tutti_status tutti_reduce_scatter_init(struct tutti_comm *comm, const void *in, void *out,
                                       size_t count, tutti_dtype dtype, tutti_redop op,
                                       struct tutti_request **ret);
tutti_status tutti_all_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                   tutti_dtype dtype, struct tutti_request **ret);
tutti_status tutti_broadcast_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                  tutti_dtype dtype, uint32_t root, struct tutti_request **ret);
tutti_status tutti_reduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                               tutti_dtype dtype, tutti_redop op, uint32_t root,
                               struct tutti_request **ret);
tutti_status tutti_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                               tutti_dtype dtype, uint32_t root, struct tutti_request **ret);
tutti_status tutti_scatter_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                tutti_dtype dtype, uint32_t root, struct tutti_request **ret);
tutti_status tutti_all_to_all_init(struct tutti_comm *comm, const void *in, void *out, size_t count,
                                   tutti_dtype dtype, struct tutti_request **ret);
tutti_status tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **ret);
/* Blocks of any length, as in the blocking calls. The arrays are copied. */
tutti_status tutti_reduce_scatter_v_init(struct tutti_comm *comm, const void *in, void *out,
                                         const size_t *counts, tutti_dtype dtype, tutti_redop op,
                                         struct tutti_request **ret);
tutti_status tutti_all_gather_v_init(struct tutti_comm *comm, const void *in, void *out,
                                     const size_t *counts, tutti_dtype dtype,
                                     struct tutti_request **ret);
tutti_status tutti_all_to_all_v_init(struct tutti_comm *comm, const void *in,
                                     const size_t *send_counts, const size_t *send_displs,
                                     void *out, const size_t *recv_counts,
                                     const size_t *recv_displs, tutti_dtype dtype,
                                     struct tutti_request **ret);
/* For requests of all sorts. test returns TUTTI_OK when it is done, TUTTI_IN_PROGRESS, or the
 * error (also of a deadline). For a request that is not started, test and wait return at once
 * how it ended last time (TUTTI_OK before the first start). free accepts NULL; it waits for a
 * started request, except that a receive for which no message has come is cancelled. */
tutti_status tutti_request_start(struct tutti_request *request);
tutti_status tutti_request_test(struct tutti_request *request);
tutti_status tutti_request_wait(struct tutti_request *request);
void tutti_request_free(struct tutti_request *request);
/* Like tutti_request_wait, for a thread that has nothing else to do: it sleeps while the
 * library's own thread makes progress, and other threads may use the communicator meanwhile. */
tutti_status tutti_request_join(struct tutti_request *request);
/* The algorithm of the request's plan; the text lives as long as the request. */
const char *tutti_request_algo(const struct tutti_request *request);

/* ---- tutti_trainer - gradients communicated while the model computes ----
 *
 * Open a trainer on a communicator, add the model's tensors in forward order, freeze; then, step by
 * step:
 *
 *     backward pass   write the gradient of tensor i to tutti_trainer_grad(t, i),
 *                     call tutti_trainer_grad_ready(t, i)
 *     after it        tutti_trainer_step(t)
 *     forward pass    tutti_trainer_wait_param(t, i) before tensor i is used
 *
 * and tutti_trainer_flush(t) before anything else reads the parameters (evaluation, a
 * checkpoint, the end). The policy decides what is communicated when; the order of communication
 * is fixed at freeze and is the same on all ranks, whatever the order of the calls above. After
 * wait_param or flush, parameters are those of a synchronous step with averaged gradients, under
 * every policy, and have the same bits on all ranks.
 *
 * Errors are sticky: all later calls return the first one, and tutti_trainer_last_error
 * describes it (rank, host, tensor, reason). A tensor that is ready too often, or not ready at
 * step without allow_unused, is an error on every rank. Waits have the communicator's deadline.
 *
 * Threads: one thread makes and closes a trainer; grad_ready may be called by any number of threads
 * at the same time (once per tensor and use), and so may wait_param; step, flush, sync, set_group
 * and the rest by one thread at a time, not while grad_ready or wait_param run. */
struct tutti_trainer;

/* The kind of layer that a tensor belongs to, for policies that distinguish them; and what is
 * done with averaged gradients. */
typedef enum {
    TUTTI_TENSOR_OTHER,
    TUTTI_TENSOR_CONV,
    TUTTI_TENSOR_FC,
    TUTTI_TENSOR_NORM,
    TUTTI_TENSOR_EMBEDDING
} tutti_tensor_kind;
typedef enum {
    TUTTI_OPTIMIZER_NONE, /* gradients are averaged; the caller updates */
    TUTTI_OPTIMIZER_SGD,
    TUTTI_OPTIMIZER_ADAM,
    TUTTI_OPTIMIZER_ADAMW
} tutti_optimizer;

/* Zero-initialise and set `size`; zero fields mean the defaults in brackets. The options must be
 * the same on all ranks. */
struct tutti_trainer_options {
    size_t size;
    /* [dear-sharded; without optimizer: dear]; `tutti train-sim --list` lists them */
    const char *policy;
    /* auto, ring, halving-doubling, recursive-doubling or direct; hybrid policies choose
     * themselves [auto] */
    const char *algo;
    const char *fusion;       /* how tensors are joined to buckets [the policy's own way] */
    uint64_t threshold_bytes; /* size of buckets [25 MiB] */
    uint64_t first_bytes;     /* size of the first bucket [1 MiB] */
    /* tensors are cut in parts of at most this size [bytescheduler 4 MiB; dear 8 MiB; others:
     * not cut] */
    uint64_t partition_bytes;
    uint32_t nearby;   /* layers per bucket of fusion "nearby" [4] */
    uint64_t cycle_us; /* period of fusion "waiting" [5000] */
    /* hybrid: recursive doubling for convolutions, in place of halving-doubling */
    bool recursive_doubling;
    tutti_optimizer optimizer;
    /* the norm of all averaged gradients together is limited to this [no clipping] */
    double clip_norm;
    /* tensors may be not ready at step: their gradient is then zero here, and they stay as they
     * are if no rank used them */
    bool allow_unused;
    bool keep_grads;   /* gradients are not zeroed after the update (the caller overwrites them) */
    bool no_broadcast; /* parameters are equal already: freeze does not broadcast rank 0's */
    uint32_t window;   /* collectives under way at the same time [2] */
    /* a step is applied by all ranks or by none, and the trainer can go on with other ranks
     * (tutti_trainer_rebind); needs an optimizer, and with dear-sharded `redundancy` */
    bool elastic;
    /* elastic: the caller's own bytes for newcomers (where it is in the data, random numbers). save
     * is called on one member: it returns how many bytes it has, and writes them unless data is
     * NULL. load is called on each newcomer, in its freeze. [none] */
    size_t (*save)(void *ctx, void *data, size_t capacity);
    void (*load)(void *ctx, const void *data, size_t bytes);
    void *ctx;
    /* elastic and dear-sharded: 1: the next rank keeps a copy of each rank's share of the
     * optimizer's state, so that it survives the death of one of the two */
    uint32_t redundancy;
};

/* One tensor of the model. Zero-initialise and set `size`. */
struct tutti_tensor {
    size_t size;
    const char *name; /* 1 to 127 characters, the same on all ranks */
    size_t count;
    /* with an optimizer: f32, f64, or f16 and bf16 (updated in f32, on an f32 copy that is part
     * of the state) */
    tutti_dtype dtype;
    tutti_tensor_kind kind;
    uint32_t layer; /* neighbours with the same number are one layer; 0: a layer of its own */
    uint32_t group; /* parameter group, below 1024 */
    /* grad_ready calls per step: more than 1 for tied weights that report each use [1] */
    uint32_t uses;
    void *param; /* the caller's parameter; NULL: tutti_trainer_param has it */
    void *grad;  /* the caller's gradient, copied at grad_ready; NULL: a view, nothing is copied */
    /* from a profile, for policies that plan with times; rank 0's are used [unknown] */
    double forward_us, backward_us;
    /* gradients travel as f16 or bf16 (dtype), and the parameter is the caller's and f32: needs
     * `param` and an optimizer; put_grad rounds gradients; not with dear-sharded */
    bool wide_param;
};

/* The values of a parameter group. Zero-initialise and set `size`. Betas and eps of zero mean
 * 0.9, 0.999 and 1e-8. */
struct tutti_group {
    size_t size;
    double lr, weight_decay, momentum;
    bool nesterov;
    double beta1, beta2, eps;
};

/* What a policy means for its caller. */
struct tutti_policy_info {
    /* step() returns before parameters are updated: wait_param, flush or the next step update
     * them */
    bool deferred;
    /* no rank ever has all averaged gradients: parameters are updated as gradients arrive;
     * average is refused */
    bool sharded;
};
/* Describes a policy by name; NULL: dear. */
tutti_status tutti_policy_describe(const char *policy, struct tutti_policy_info *ret_info,
                                   struct tutti_error *err);
/* Rounds `count` elements of f32 to f16 or bf16. `lost` (may be NULL) has count elements, too,
 * and begins as zeros: what rounding lost last time is added first, and what it loses now is
 * kept there. */
tutti_status tutti_half_round(tutti_dtype dtype, const float *from, float *lost, void *to,
                              size_t count);

/* Collective. `comm` stays the caller's and must outlive the trainer. The trainer uses its
 * connections and shared memory, but has its own order of requests: the caller's collectives may
 * go on meanwhile, in any thread. */
tutti_status tutti_trainer_open(struct tutti_comm *comm,
                                const struct tutti_trainer_options *options,
                                struct tutti_trainer **ret_trainer, struct tutti_error *err);
/* Adds a tensor; in forward order. *ret_index is its number in the other calls: 0, 1, 2, ... The
 * caller's memory must outlive the trainer. */
tutti_status tutti_trainer_add(struct tutti_trainer *trainer, const struct tutti_tensor *tensor,
                               size_t *ret_index, struct tutti_error *err);
/* Sets the values of a parameter group [lr 0.01], before or after freeze. They apply from the
 * next step() on; with dear-sharded, which updates while gradients still arrive, to steps whose
 * first gradient was not ready when they were set. */
tutti_status tutti_trainer_set_group(struct tutti_trainer *trainer, size_t group,
                                     const struct tutti_group *values, struct tutti_error *err);
/* Collective. Compares tensors and options of all ranks (TUTTI_ERR_DIFFERS with the first
 * difference), makes buckets, and broadcasts rank 0's parameters. */
tutti_status tutti_trainer_freeze(struct tutti_trainer *trainer, struct tutti_error *err);
/* Elastic trainers: goes on with the ranks of comm, which tutti_comm_shrink or tutti_comm_admit
 * returned. Collective: members call this, newcomers open a trainer on comm and freeze it. The old
 * communicator can then be closed.
 *
 *     tutti_trainer_step(t) returned TUTTI_ERR_PEER       (or any other call on t, or on its comm)
 *     tutti_comm_shrink(comm, &next, &err)
 *     tutti_trainer_rebind(t, next, &err)                 fails if a rank dies: shrink next, again
 *     tutti_comm_close(comm), comm = next
 *     tutti_trainer_step(t)                               the call that failed is made again
 *
 * Calls that failed had no effect, except that a step() may have ended the step; making it again is
 * right in any case. A step that some rank has done is done on all ranks: those that have not get
 * parameters and state from those that have. A step that no rank has done is repeated with the
 * gradients that every rank still has, averaged over the ranks of comm; parameters and state that
 * it had changed are what they were before it. Newcomers get parameters, the optimizer's state, the
 * number of steps, the values of the groups and the caller's bytes (`save`) in freeze, in pieces
 * from all members.
 *
 * In an elastic trainer a gradient belongs to the trainer until all tensors of the step were waited
 * for, and is zeroed then; tutti_trainer_average is refused; buckets stay as they were planned for
 * the first ranks. After every step the fingerprints of all ranks' parameters are compared:
 * TUTTI_ERR_DIFFERS names a rank that has other bits. That error, and errors of this rank's own
 * (TUTTI_ERR_ARG), are final; so is TUTTI_ERR_DIFFERS when both copies of a share of the
 * optimizer's state are lost (`redundancy`). */
tutti_status tutti_trainer_rebind(struct tutti_trainer *trainer, struct tutti_comm *comm,
                                  struct tutti_error *err);
/* How many steps were ended by step() on this rank, or before it came. */
uint64_t tutti_trainer_steps(struct tutti_trainer *trainer);
/* Elastic trainers: how many steps were done when the trainer was frozen or last rebound; the same
 * on all ranks. Right after that step no rank may call tutti_comm_admit again: others may have
 * called it before the change. */
uint64_t tutti_trainer_bound(const struct tutti_trainer *trainer);
/* Elastic trainers: of the parameters after each step so far, the same on all ranks; 0 for others.
 * Flushes. */
uint64_t tutti_trainer_fingerprint(struct tutti_trainer *trainer);
/* The gradient and the parameter of a tensor; NULL before freeze, or when there is none. A
 * gradient belongs to the trainer from grad_ready until its tensor is waited for (or step,
 * flush); with dear-sharded so does the parameter. With dear-sharded a tensor's own `param` is a
 * copy of this one, which wait_param refreshes. */
void *tutti_trainer_grad(struct tutti_trainer *trainer, size_t index);
void *tutti_trainer_param(struct tutti_trainer *trainer, size_t index);
/* The gradient is complete. Takes less than a microsecond unless it fills a bucket; the first
 * call of a step waits for what the last step left. */
tutti_status tutti_trainer_grad_ready(struct tutti_trainer *trainer, size_t index);
/* Writes the f32 gradient of a wide_param tensor to its place, rounded; before its grad_ready.
 * What rounding lost is kept and added next time, so that it is late but not lost. */
tutti_status tutti_trainer_put_grad(struct tutti_trainer *trainer, size_t index, const float *grad);
/* The same for elements first .. first + count - 1; `grad` points to the first of them. */
tutti_status tutti_trainer_put_range(struct tutti_trainer *trainer, size_t index, size_t first,
                                     size_t count, const float *grad);
/* Large tensors travel in parts (partition_bytes), and may be handed over and waited for part by
 * part: communication begins before the whole gradient is there, and computing before the whole
 * parameter is. Part k begins at element *ret_first of the tensor and has *ret_count elements;
 * false: there is no such part (every tensor has at least part 0), or freeze was not called.
 * part_ready of all parts is the same as grad_ready; wait_part waits for parts 0 to `part`. Not
 * for tensors with several uses or with a gradient of the caller's, and not while sync is off,
 * unless there is only one part. */
bool tutti_trainer_part(const struct tutti_trainer *trainer, size_t index, size_t part,
                        size_t *ret_first, size_t *ret_count);
tutti_status tutti_trainer_part_ready(struct tutti_trainer *trainer, size_t index, size_t part);
tutti_status tutti_trainer_wait_part(struct tutti_trainer *trainer, size_t index, size_t part);
/* Gradient accumulation: while sync is off, grad_ready hands nothing over, and the caller goes
 * on adding to the gradients. */
tutti_status tutti_trainer_sync(struct tutti_trainer *trainer, bool on);
/* The update multiplies averaged gradients by this (1 / micro-batches, 1 / loss scale), from the
 * next step on [1]. */
tutti_status tutti_trainer_set_scale(struct tutti_trainer *trainer, double scale);
/* Between the last grad_ready and step: waits until the gradients are the averages of all ranks,
 * and updates nothing. They belong to the caller until step: the update uses what the caller
 * makes of them, which must be the same on all ranks. Not with dear-sharded. */
tutti_status tutti_trainer_average(struct tutti_trainer *trainer);
/* Between average and step: decides whether the step updates the tensor, whatever the ranks used
 * (for a tensor whose gradient the caller dropped, or one that no rank used and that has a
 * gradient now). The same on all ranks. */
tutti_status tutti_trainer_use(struct tutti_trainer *trainer, size_t index, bool use);
/* Ends the step: after the last grad_ready (and average), before the next forward pass. With
 * deferring policies, wait_param, flush or the next step update the parameters. */
tutti_status tutti_trainer_step(struct tutti_trainer *trainer);
/* Waits until the parameter (without optimizer: the averaged gradient) is that of the last step.
 * Returns at once when it was waited for already. */
tutti_status tutti_trainer_wait_param(struct tutti_trainer *trainer, size_t index);
/* Waits for all parameters. Not between the first grad_ready of a step and step. */
tutti_status tutti_trainer_flush(struct tutti_trainer *trainer);
/* To be called when the caller has changed parameters (a checkpoint was loaded, on all ranks):
 * copies are taken anew, also the f32 copies of f16 and bf16 where they do not round to the
 * parameter. Flushes first. Parameters of the caller's own (`param`) may be changed between two
 * steps without it: an update begins with what is there. */
tutti_status tutti_trainer_reload(struct tutti_trainer *trainer);
/* The state that the optimizer keeps of a tensor, for checkpoints: arrays k = 0, 1, ... named as
 * in PyTorch ("momentum_buffer"; "exp_avg", "exp_avg_sq"; for f16 and bf16 tensors then
 * "master_param", the parameter in f32), each with the tensor's count elements, f64 for f64
 * tensors and f32 for all others; and the number of its updates. The arrays are whole whatever
 * the policy: a job can go on from them with another policy or number of ranks. To restore:
 * write the parameters and reload, then set the arrays and updates, the same on every rank.
 * state_name: NULL past the last array. state_bytes: of each array; 0 when there are none.
 * state_get is collective: all ranks call it for the same arrays in the same order; data NULL:
 * this rank does not need it. state_set is local; setting "master_param" sets the parameter,
 * too. All except state_name and state_bytes flush first. */
const char *tutti_trainer_state_name(const struct tutti_trainer *trainer, size_t index, size_t k);
size_t tutti_trainer_state_bytes(const struct tutti_trainer *trainer, size_t index);
tutti_status tutti_trainer_state_get(struct tutti_trainer *trainer, size_t index, size_t k,
                                     void *data, struct tutti_error *err);
tutti_status tutti_trainer_state_set(struct tutti_trainer *trainer, size_t index, size_t k,
                                     const void *data, struct tutti_error *err);
uint64_t tutti_trainer_updates(struct tutti_trainer *trainer, size_t index);
tutti_status tutti_trainer_set_updates(struct tutti_trainer *trainer, size_t index,
                                       uint64_t updates, struct tutti_error *err);
/* About the last step that was waited for: the norm before clipping (0 without clipping), and
 * whether any rank used the tensor. */
double tutti_trainer_norm(const struct tutti_trainer *trainer);
bool tutti_trainer_used(const struct tutti_trainer *trainer, size_t index);
/* The i-th collective of the last step, in the order of launching; false past the last one. */
struct tutti_trainer_launch {
    /* set by the caller to the sizeof of this struct as it knows it; only that much is filled */
    size_t size;
    const char *coll;
    /* UINT32_MAX: none; the collective of the norm and of which tensors were used */
    uint32_t bucket;
    const char *first, *last; /* tensors of the bucket; they and algo live as long as the trainer */
    const char *algo;
    uint64_t bytes;
    uint64_t start_ns, end_ns; /* in the last step, CLOCK_MONOTONIC; 0: not yet */
};
bool tutti_trainer_launch(const struct tutti_trainer *trainer, size_t i,
                          struct tutti_trainer_launch *ret);
/* The reason why the trainer failed: rank, host, tensor, reason. Valid until the next call on
 * the trainer. */
const struct tutti_error *tutti_trainer_last_error(struct tutti_trainer *trainer);
/* Accepts NULL. Flushes, unless a step is open: then that step is dropped; what can be
 * communicated of it still is, so that all ranks drop the same. Views end here. */
void tutti_trainer_close(struct tutti_trainer *trainer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
