/* tutti.h - the public interface: networks, plans, schedules, and communicators that run them. The pages of section 3 are made from this
 * file by tools/make-man: a "----" comment begins a page, a comment belongs to the declarations below it up to an empty line or the next
 * comment, and a paragraph that begins with "Threads:" has its own section.
 *
 * A topology describes a network. A plan is the choice of an algorithm for a collective on a topology, with its predicted time and a
 * lower bound. A schedule is the program of every rank; it can be proved, priced, written and read.
 *
 * Conventions. Functions that can fail return a tutti_status (0 is success) and describe the failure in *err when err is not NULL;
 * outputs come last, are named ret_*, and are set only on success. make/parse/read pair with free; every free accepts NULL. Objects are
 * read-only once made: any number of threads may read one object at the same time; one thread frees it, and may do so before what was made
 * from it. No function prints, but
 * tutti_comm_close on rank 0 when TUTTI_REPORT=1 asks it to, and what TUTTI_LOG asks for: without it warnings only (unknown
 * TUTTI_ variables, plans that never ran, files that cannot be written) of rank 0, and of any rank what was found too late for a call to
 * return it, when a communicator was closed.
 *
 * Handles are checked. NULL, a handle that was freed or closed, one of another kind, or any other pointer is TUTTI_ERR_ARG with a sentence
 * (in *err; where there is none, tutti_comm_last_error(NULL) has it, and that of the communicator for its other arguments); a function that returns no status prints the sentence and aborts. So
 * do NULL outputs. After fork() communicators, requests and trainers belong to the parent: in the child calls on them are errors, closing
 * them does nothing there, and the child may open its own.
 *
 * Structs that begin with `size`: set all of the struct to zero and `size` to its sizeof. A program that was compiled with the headers of
 * an earlier version, whose structs are shorter, runs on; one with later headers too, unless it sets a field that the library does not
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
/* A fixed text for any status value, known or not. A constant. What went wrong in a call is in its *err, or in tutti_comm_last_error. */
const char *tutti_strerror(tutti_status status);
/* Bytes of one element; 0: there is no such data type. */
uint32_t tutti_dtype_bytes(tutti_dtype dtype);

/* ---- tutti_topo - topologies: networks from a spec, a file or parts ----
 *
 * A topology is ranks, switches, and links with bandwidth and latency, with the routes between all ranks. tutti-topology(5) has specs and
 * files.
 *
 * Threads: a topology is read-only once made; any number of threads may read one. One thread frees it. */
struct tutti_topo;

/* From a spec ("star:8@1Gbps,50us") or, when the text is not a spec, from the file of that name ("-": standard input). */
tutti_status tutti_topo_parse(const char *spec, struct tutti_topo **ret_topo, struct tutti_error *err);
/* From a topology file only. */
tutti_status tutti_topo_load(const char *path, struct tutti_topo **ret_topo, struct tutti_error *err);
/* From parts: kind "torus", params "8x8", link "16GB/s,150ns" (NULL: the default link). */
tutti_status tutti_topo_generate(const char *kind, const char *params, const char *link, struct tutti_topo **ret_topo,
                                 struct tutti_error *err);
/* Writes the topology file; "-" is standard output. */
tutti_status tutti_topo_write(const struct tutti_topo *topo, const char *path, struct tutti_error *err);
/* The number of ranks. */
uint32_t tutti_topo_ranks(const struct tutti_topo *topo);
/* Accepts NULL. Plans made from it stay usable. */
void tutti_topo_free(struct tutti_topo *topo);

/* ---- tutti_plan - plans: which algorithm for a collective on a network ----
 *
 * A plan is the choice of an algorithm and its options for one collective of one length on one topology, with the time that the cost model
 * predicts and a time that no schedule can beat. Making one neither measures nor communicates.
 *
 * Threads: a plan is read-only once made; any number of threads may read one. One thread frees it. */
struct tutti_plan;
struct tutti_schedule;

/* What is wanted. Zero-initialise, set `size` to sizeof(struct tutti_plan_options); zero fields mean the defaults in brackets. */
struct tutti_plan_options {
    size_t size;
    tutti_coll coll;     /* [allreduce] */
    uint32_t root;       /* rooted collectives */
    tutti_dtype dtype;   /* [f32] */
    tutti_redop redop;   /* [sum] */
    uint64_t count;      /* elements of the whole vector */
    const char *algo;    /* [auto] */
    const char *options; /* the algorithm's options, "k=v,k=v" [none] */
    bool reproducible;   /* only algorithms that sum in rank order */
    uint64_t budget_ms;  /* planning budget of auto [1000] */
    const char *tuning;  /* a tuning file [none] */
};

/* Plans; free accepts NULL. The options are copied; the topology may be freed afterwards. TUTTI_ERR_REFUSED: the algorithm that was named
 * does not apply, or none does; *err has the reason. */
tutti_status tutti_plan_make(const struct tutti_topo *topo, const struct tutti_plan_options *options, struct tutti_plan **ret_plan,
                             struct tutti_error *err);
void tutti_plan_free(struct tutti_plan *plan);
/* The algorithm's name, which lives as long as the plan; the predicted time in microseconds; the greatest lower bound of any schedule's
 * time on this topology. */
const char *tutti_plan_algo(const struct tutti_plan *plan);
double tutti_plan_predicted_us(const struct tutti_plan *plan);
double tutti_plan_bound_us(const struct tutti_plan *plan);
/* The schedule of all ranks; independent of the plan and the topology afterwards. */
tutti_status tutti_plan_schedule(const struct tutti_plan *plan, struct tutti_schedule **ret_schedule, struct tutti_error *err);

/* One considered algorithm. Texts live as long as the plan. */
struct tutti_candidate {
    const char *algo;
    bool refused;          /* it does not apply, is too large or its time too long to tell; `why` says which */
    bool skipped;          /* not priced: the planning budget would not suffice, or a tuning rule has decided */
    double predicted_us;   /* when neither refused nor skipped */
    double ratio_to_bound; /* 0: the bound is 0 */
    uint32_t segments;
    uint32_t steps;
    const char *why; /* the reason of a refusal, or what decides the time */
};
/* The i-th candidate of an automatic choice, in table order; TUTTI_ERR_RANGE past the last one (none when the algorithm was named). */
tutti_status tutti_plan_explain(const struct tutti_plan *plan, size_t i, struct tutti_candidate *ret_candidate, struct tutti_error *err);

/* ---- tutti_schedule - schedules: read, write, prove and price the program of every rank ----
 *
 * A schedule lists what every rank sends, receives and reduces, step by step. tutti-schedule(5) has its text form. tutti_plan_schedule
 * makes one; a communicator runs those that its option `plan` names.
 *
 * Threads: a schedule is read-only once made; any number of threads may read one. One thread frees it. */

/* Reads (and checks) or writes the JSON text form; "-" is standard input or output. free accepts NULL. */
tutti_status tutti_schedule_read(const char *path, struct tutti_schedule **ret_schedule, struct tutti_error *err);
tutti_status tutti_schedule_write(const struct tutti_schedule *schedule, const char *path, struct tutti_error *err);
void tutti_schedule_free(struct tutti_schedule *schedule);

/* What a proof has found. */
struct tutti_verdict {
    bool ok;
    bool exact;               /* false: by fingerprints, with ... */
    double error_probability; /* ... at most this chance that an incorrect schedule passes */
    uint32_t ranks;
    uint64_t ops, messages;
    bool header;   /* when not ok: what stands before the operations is at fault (segments, weights, ...); rank and op are 0 */
    uint32_t rank; /* when not ok: the rank, ... */
    uint64_t op;   /* ... the operation in its list (its length: only the end result is wrong) ... */
    char why[400]; /* ... and why */
};
/* Proves the schedule, or names what is wrong with it. "Not correct" is TUTTI_OK with ok false. */
tutti_status tutti_schedule_verify(const struct tutti_schedule *schedule, struct tutti_verdict *ret_verdict, struct tutti_error *err);

/* A predicted time and what it is made of. */
struct tutti_sim_result {
    double time_us;
    double latency_us, transfer_us, reduce_us, overhead_us; /* the parts of time_us */
    uint32_t steps;
    uint64_t bytes_on_busiest_link;
    uint32_t busiest_link;        /* directed link: 2*link or 2*link+1 */
    uint32_t max_link_contention; /* messages on one directed link in one step */
    uint64_t messages;
};
/* Time of the schedule on a topology, bulk-synchronous (level "step"): what predicted_us is. */
tutti_status tutti_schedule_simulate(const struct tutti_schedule *schedule, const struct tutti_topo *topo, uint64_t count,
                                     tutti_dtype dtype, struct tutti_sim_result *ret_result, struct tutti_error *err);

/* Writes the schedule in the format of another engine or simulator, or as a picture (`tutti export --list` has the names).
 * options: "key=value,key=value" of the format, or NULL. path: a file, "-" for standard output; formats with a file for each
 * rank add ".<rank>.et". TUTTI_ERR_REFUSED: the format cannot express it, or a limit of its engine is broken. The schedule
 * should have been proved. */
tutti_status tutti_schedule_export(const struct tutti_schedule *schedule, const char *format, const char *options, const char *path,
                                   struct tutti_error *err);

/* ---- tutti_comm - communicators: groups of live ranks ----
 *
 * A communicator joins the processes of a job. Opening, splitting and closing it are collective; every wait has a deadline. When a rank
 * dies, stops, is cut off, is late or calls something else, every rank gets the same error, which names it; from then on all calls on the
 * communicator return that error, and buffers are the caller's again.
 *
 * Threads: any thread may call, one call at a time goes on; others wait for it. All ranks must make their collective calls, and make and
 * start requests of collectives, in the same order, so that two threads must not race for it: give each a communicator of its own (split). */
struct tutti_comm;
struct tutti_request;

/* Who and how. Zero-initialise and set `size`; NULL instead of a struct means all defaults: everything from the launcher's variables (ours,
 * torchrun, Open MPI, MPICH, Slurm) and from TUTTI_*. */
struct tutti_comm_options {
    size_t size;
    bool given; /* rank, ranks, local_rank, rendezvous below are set; otherwise they come from the environment */
    uint32_t rank, ranks;
    int local_rank;
    const char *rendezvous; /* host:port of rank 0 */
    const char *key_file;   /* job key; needed beyond loopback unless insecure */
    bool insecure;
    const char *iface;     /* interface filter */
    const char *transport; /* "shm", "tcp", "mpi" (tutti-mpi(7)) or NULL: shared memory inside a host, TCP between hosts */
    const char *topo;      /* spec or file; NULL: hosts and cores as found. Ranks may write it differently, the network must be the same */
    const char *algo;      /* fix the algorithm of all-reduce; NULL: the planner's choice */
    bool reproducible;     /* sums in rank order: the same bits for every size, offset and transport */
    uint64_t timeout_us;   /* deadline of every wait; 0: TUTTI_TIMEOUT or 30 s */
    /* Plan files, "a.json:b.json", 16 at most; rank 0 reads and proves them, and every rank fails with its reason. A plan
     * runs each call of its collective (and root) on communicators of its number of ranks, whatever the length, type and
     * reduction; other calls, those that name an algorithm and those that must sum in rank order go without. */
    const char *plan;
    const char *tuning; /* tuning file (tutti-tuning(5)), with the same rules on all ranks */
    bool encrypt;       /* seal all bytes on sockets (TUTTI_ENCRYPT=1); needs a job key; alike on all ranks */
    int checksum;       /* of payloads on sockets: 0 TUTTI_CHECKSUM, else between hosts; 1 always; -1 never */
};
/* Collective: all ranks call it; returns when all have met, or with the reason. Close what it gives. Raises the process's soft limit of
 * open files to the hard one, for good (tutti(7)). */
tutti_status tutti_comm_open(const struct tutti_comm_options *options, struct tutti_comm **ret_comm, struct tutti_error *err);
/* This process's number in the group, from 0 on, and the number of ranks. */
uint32_t tutti_comm_rank(const struct tutti_comm *comm);
uint32_t tutti_comm_size(const struct tutti_comm *comm);
/* Collective: ranks with the same color form a new communicator, ordered by (key, rank). color < 0: none, *ret_comm is set to NULL. */
tutti_status tutti_comm_split(struct tutti_comm *comm, int color, int key, struct tutti_comm **ret_comm, struct tutti_error *err);
/* Makes every present and future call on this communicator fail on all ranks, with `reason`. Local, never blocks. */
void tutti_comm_abort(struct tutti_comm *comm, const char *reason);
/* Why the last call failed: rank, host, pid, operation, sequence number, class. Valid until the next call. Of what is no communicator: why
 * this thread's last call was refused for its arguments. */
const struct tutti_error *tutti_comm_last_error(const struct tutti_comm *comm);
/* Who is slow: per peer waiting time, arrival skew, measured bandwidth; the slowest rank and link in words. free(3) the text. */
tutti_status tutti_comm_report(struct tutti_comm *comm, char **ret_text, struct tutti_error *err);
/* Accepts NULL. Started requests are waited for (receives that nothing has come for are taken back); then waits for the others
 * at most until the deadline. Requests can only be freed afterwards, and memory of tutti_mem_alloc is gone (but see
 * tutti_mem_keep). With TUTTI_REPORT=1 (as set on rank 0 when the world was opened) rank 0 prints on standard error who was
 * slow and why, seen from all ranks. */
void tutti_comm_close(struct tutti_comm *comm);

/* ---- tutti_mem - memory that other ranks of the host reach ----
 *
 * Buffers of collectives may be any memory. Those from here need one copy less between ranks of one host. The memory ends with its
 * communicator, unless it is kept.
 *
 * Threads: any, at any time before the communicator is closed. */

/* Memory that the other ranks of this host can reach directly: the fastest buffers. Local calls. free accepts NULL, and aborts when the
 * memory is not of this communicator's tutti_mem_alloc. */
tutti_status tutti_mem_alloc(struct tutti_comm *comm, size_t bytes, void **ret_memory, struct tutti_error *err);
void tutti_mem_free(struct tutti_comm *comm, void *memory);
/* What is allocated now and not freed when the communicator is closed stays as it is, for callers whose buffers die later: then
 * tutti_mem_free(NULL, memory) frees it. */
void tutti_mem_keep(struct tutti_comm *comm);

/* ---- tutti_redop - reductions of the caller's own ----
 *
 * A reduction is a function: void fn(void *ctx, const void *left, const void *right, void *out, size_t count) sets out[i] to left[i] op
 * right[i] for i < count. out is the same memory as left or as right, or apart from both. Elements of 16, 32
 * or 64 bytes have the types TUTTI_OPAQUE16, TUTTI_OPAQUE32 and TUTTI_OPAQUE64; shorter ones borrow a type of their size.
 *
 * Threads: create and free may be called by any thread; the function itself is called by any thread that works for a communicator, by
 * several at the same time when several communicators use it. */

/* Reductions of the caller's own, for tutti_allreduce, reduce_scatter and reduce in all forms, on communicators of this process. */
struct tutti_redop_options {
    size_t size;
    const char *name;   /* 1 to 63 characters: ranks that call with reductions of different names get an error */
    tutti_redop_fn *fn; /* called by any thread that works for the communicator; must neither wait nor call tutti */
    void *ctx;          /* its first argument */
    size_t elem_bytes;  /* of an element: 1, 2, 4, 8, 16, 32 or 64; calls name a data type of this size. Elements are aligned to it */
    /* a op b = b op a. Otherwise contributions are combined in rank order, which direct and oneshot do; others are refused.
     * In any case (a op b) op c = a op (b op c) is taken for granted. */
    bool commutative;
};
/* Local. What *ret_op is differs between ranks. */
tutti_status tutti_redop_create(const struct tutti_redop_options *options, tutti_redop *ret_op, struct tutti_error *err);
/* When no call that uses it is under way. Of a built-in reduction: does nothing; of one that was freed: aborts. */
void tutti_redop_free(tutti_redop op);

/* ---- tutti_coll - collectives, blocking ----
 *
 * All ranks of the communicator call the same collective with the same arguments but the buffers. A call returns when this rank's part is
 * done: its `out` is complete and its `in` may be changed.
 *
 * Calls that differ between ranks are TUTTI_ERR_DIFFERS (or a deadline) on all ranks, in the call where a rank needs something of the
 * others. A rank that only sends (the root of broadcast or scatter, all but the root of reduce or gather) does not wait for an answer:
 * it hears of the mismatch in its next call, or, when there is none, when the communicator is closed. Closing cannot return it, so that
 * it is logged as a warning and tutti run exits with 1. A tutti_barrier behind such calls returns it.
 *
 * Threads: see tutti_comm. */

/* `in` and `out` may be the same memory (in place), otherwise they must not overlap. Counts are elements: of the
 * whole vector for allreduce, broadcast and reduce; of one rank's block for the others (the whole vector is ranks * count). reduce_scatter
 * reads ranks*count and writes count; all_gather the reverse; in place the block lies at its position in the vector. `out` of reduce and
 * gather, `in` of broadcast and scatter matter at the root only (broadcast: in == out is usual). */
tutti_status tutti_allreduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op);
tutti_status tutti_reduce_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op);
tutti_status tutti_all_gather(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype);
tutti_status tutti_broadcast(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root);
tutti_status tutti_reduce(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                          uint32_t root);
tutti_status tutti_gather(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root);
tutti_status tutti_scatter(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root);
tutti_status tutti_all_to_all(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype);
tutti_status tutti_barrier(struct tutti_comm *comm);
/* Blocks of any length: counts[r] elements for rank r (the same array on all ranks). */
tutti_status tutti_reduce_scatter_v(struct tutti_comm *comm, const void *in, void *out, const size_t *counts, tutti_dtype dtype,
                                    tutti_redop op);
tutti_status tutti_all_gather_v(struct tutti_comm *comm, const void *in, void *out, const size_t *counts, tutti_dtype dtype);
/* All-to-all with blocks of any length: send_counts[r] elements from in + send_displs[r] go to rank r, recv_counts[r] come from it to out
 * + recv_displs[r]; displacements are elements, NULL: block behind block. A rank needs to know its own counts only, but what one expects
 * must be what the other sends: otherwise all ranks get an error, from this call or the next. Blocks of `out` do not overlap, nor do in
 * and out. Always by algorithm direct. */
tutti_status tutti_all_to_all_v(struct tutti_comm *comm, const void *in, const size_t *send_counts, const size_t *send_displs, void *out,
                                const size_t *recv_counts, const size_t *recv_displs, tutti_dtype dtype);
/* ---- tutti_message - messages between two ranks ----
 *
 * Threads: any number may send and receive; while one waits for a message others may use the communicator. Which of two threads that
 * receive at the same time gets which message is not said. */

/* Point to point, outside the order of the collectives. A receive takes the first message that fits it: messages from one rank to another
 * are received in the order they were sent, among those with the tag that is asked for. Both sides must say the same count and dtype;
 * otherwise all ranks get an error that names both. A send of at most 16 KiB usually returns at once, a longer one when its receive has
 * begun and all bytes are on their way: two ranks that both send first must not rely on either. These three have tag 0. recv_any takes a
 * message from any other rank and says from which. A message that is not received before the communicator is closed is lost; the rank it
 * was sent to logs a warning. */
tutti_status tutti_send(struct tutti_comm *comm, const void *data, size_t count, tutti_dtype dtype, uint32_t peer);
tutti_status tutti_recv(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype, uint32_t peer);
tutti_status tutti_recv_any(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype, uint32_t *ret_source);

/* Messages as requests (see tutti_request): local, and in no order with other requests, but of one rank's receives the one that was
 * started first gets the message that fits several. Any number may be started at the same time. peer and tag of a receive may be
 * TUTTI_ANY_SOURCE and TUTTI_ANY_TAG. */
#define TUTTI_ANY_SOURCE UINT32_MAX
#define TUTTI_ANY_TAG    UINT32_MAX
tutti_status tutti_send_init(struct tutti_comm *comm, const void *data, size_t count, tutti_dtype dtype, uint32_t peer, uint32_t tag,
                             struct tutti_request **ret);
tutti_status tutti_recv_init(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype, uint32_t peer, uint32_t tag,
                             struct tutti_request **ret);
/* Where the message of a receive that has been waited for (or tested: done) came from, and its tag (ret_tag may be NULL). */
tutti_status tutti_request_source(struct tutti_request *request, uint32_t *ret_source, uint32_t *ret_tag, struct tutti_error *err);

/* ---- tutti_request - collectives as persistent requests ----
 *
 * A request is made once for fixed buffers and started any number of times; it goes on in the background while the caller computes.
 *
 * Threads: one at a time for a request; see tutti_comm for the order of starts. */

/* Made once, started any number of times; all ranks make and start a communicator's requests in the same
 * order. Making one is collective: where the plan is synthesised (multitree, forest, flex) and the first of its kind, it waits
 * until all ranks make it: rank 0 hands the plan out. Between start and completion the buffers belong to the library. start, test and wait
 * never allocate. */
tutti_status tutti_allreduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                                  struct tutti_request **ret);
tutti_status tutti_reduce_scatter_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                                       struct tutti_request **ret);
tutti_status tutti_all_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype,
                                   struct tutti_request **ret);
tutti_status tutti_broadcast_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root,
                                  struct tutti_request **ret);
tutti_status tutti_reduce_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, tutti_redop op,
                               uint32_t root, struct tutti_request **ret);
tutti_status tutti_gather_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root,
                               struct tutti_request **ret);
tutti_status tutti_scatter_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype, uint32_t root,
                                struct tutti_request **ret);
tutti_status tutti_all_to_all_init(struct tutti_comm *comm, const void *in, void *out, size_t count, tutti_dtype dtype,
                                   struct tutti_request **ret);
tutti_status tutti_barrier_init(struct tutti_comm *comm, struct tutti_request **ret);
/* The arrays are copied. */
tutti_status tutti_reduce_scatter_v_init(struct tutti_comm *comm, const void *in, void *out, const size_t *counts, tutti_dtype dtype,
                                         tutti_redop op, struct tutti_request **ret);
tutti_status tutti_all_gather_v_init(struct tutti_comm *comm, const void *in, void *out, const size_t *counts, tutti_dtype dtype,
                                     struct tutti_request **ret);
tutti_status tutti_all_to_all_v_init(struct tutti_comm *comm, const void *in, const size_t *send_counts, const size_t *send_displs,
                                     void *out, const size_t *recv_counts, const size_t *recv_displs, tutti_dtype dtype,
                                     struct tutti_request **ret);
/* Requests of all sorts. test: TUTTI_OK done, TUTTI_IN_PROGRESS, or the error (deadlines too). Of a request that is not started, test and
 * wait say at once how it ended last time, TUTTI_OK before the first. free accepts NULL; one that is started is
 * waited for, but a receive of a message that nothing has come for is taken back. */
tutti_status tutti_request_start(struct tutti_request *request);
tutti_status tutti_request_test(struct tutti_request *request);
tutti_status tutti_request_wait(struct tutti_request *request);
void tutti_request_free(struct tutti_request *request);
/* Like tutti_request_wait, for a thread that has nothing else to do: it sleeps while the library's own thread makes
 * progress, and other threads may use the communicator meanwhile. */
tutti_status tutti_request_join(struct tutti_request *request);
/* The algorithm of the request's plan; the text lives as long as the request. */
const char *tutti_request_algo(const struct tutti_request *request);

/* ---- tutti_trainer - gradients communicated while the model computes ----
 *
 * Open a trainer on a communicator, add the model's tensors in forward order, freeze; then, step by step:
 *
 *     backward pass   write the gradient of tensor i to tutti_trainer_grad(t, i), call tutti_trainer_grad_ready(t, i)
 *     after it        tutti_trainer_step(t)
 *     forward pass    tutti_trainer_wait_param(t, i) before tensor i is used
 *
 * and tutti_trainer_flush(t) before anything else looks at the parameters (evaluation, a checkpoint, the end). The policy decides what is
 * communicated when; the order of communication is fixed at freeze and the same on all ranks, whatever the order of the calls above.
 * After wait_param or flush, parameters are those of a synchronous step with averaged gradients, under every policy, and the same bits on
 * all ranks.
 *
 * Errors are sticky: the first one is what all later calls return, tutti_trainer_last_error has its words (rank, host, tensor, reason). A
 * tensor that is ready too often, or not ready at step without allow_unused, is an error on every rank. Waits have the communicator's
 * deadline.
 *
 * Threads: one thread makes and closes a trainer; grad_ready may be called by any number of threads at the same time (once per tensor and
 * use), wait_param likewise; step, flush, sync, set_group and the rest by one thread at a time, not while grad_ready or wait_param run. */
struct tutti_trainer;

/* What a tensor belongs to, for policies that tell them apart; and what is done with averaged gradients. */
typedef enum { TUTTI_TENSOR_OTHER, TUTTI_TENSOR_CONV, TUTTI_TENSOR_FC, TUTTI_TENSOR_NORM, TUTTI_TENSOR_EMBEDDING } tutti_tensor_kind;
typedef enum {
    TUTTI_OPTIMIZER_NONE, /* gradients are averaged; the caller updates */
    TUTTI_OPTIMIZER_SGD,
    TUTTI_OPTIMIZER_ADAM,
    TUTTI_OPTIMIZER_ADAMW
} tutti_optimizer;

/* Zero-initialise and set `size`; zero fields mean the defaults in brackets. The same on all ranks. */
struct tutti_trainer_options {
    size_t size;
    const char *policy;       /* [dear-sharded; without optimizer dear]; `tutti train-sim --help` lists them */
    const char *algo;         /* auto, ring, halving-doubling, recursive-doubling or direct; hybrid policies choose themselves [auto] */
    const char *fusion;       /* how tensors are joined to buckets [the policy's own] */
    uint64_t threshold_bytes; /* of buckets [25 MiB] */
    uint64_t first_bytes;     /* of the first bucket [1 MiB] */
    uint64_t partition_bytes; /* tensors are cut in parts of at most this [bytescheduler 4 MiB; dear 8 MiB; others: not] */
    uint32_t nearby;          /* layers per bucket, fusion "nearby" [4] */
    uint64_t cycle_us;        /* fusion "waiting" [5000] */
    bool recursive_doubling;  /* hybrid: for convolutions, in place of halving-doubling */
    tutti_optimizer optimizer;
    double clip_norm;  /* the norm of all averaged gradients together is held to at most this [no clipping] */
    bool allow_unused; /* tensors may be not ready at step: their gradient is then zero here, and they stay as they are if unused everywhere
                        */
    bool keep_grads;   /* gradients are not zeroed after the update (the caller overwrites them) */
    bool no_broadcast; /* parameters are equal already: rank 0's are not given to the others at freeze */
    uint32_t window;   /* collectives under way at the same time [2] */
};

/* One tensor of the model. Zero-initialise and set `size`. */
struct tutti_tensor {
    size_t size;
    const char *name; /* 1 to 127 characters, the same on all ranks */
    size_t count;
    tutti_dtype dtype; /* optimizers: f32, f64, or f16 and bf16 (updated in f32, on an f32 copy that is part of the state) */
    tutti_tensor_kind kind;
    uint32_t layer;                 /* neighbours with the same number are one layer; 0: a layer of its own */
    uint32_t group;                 /* of parameters, below 1024 */
    uint32_t uses;                  /* grad_ready calls per step: more than 1 for tied weights that report each use [1] */
    void *param;                    /* the caller's parameter; NULL: tutti_trainer_param has it */
    void *grad;                     /* the caller's gradient, copied at grad_ready; NULL: a view, nothing is copied */
    double forward_us, backward_us; /* of a profile, for policies that plan with times; rank 0's count [unknown] */
    bool wide_param;                /* gradients travel as f16 or bf16 (dtype), the parameter is the caller's and f32: needs `param` and an
                                     * optimizer; put_grad rounds gradients; not with dear-sharded */
};

/* Values of a group of parameters. Zero-initialise and set `size`. Betas and eps of zero mean 0.9, 0.999 and 1e-8. */
struct tutti_group {
    size_t size;
    double lr, weight_decay, momentum;
    bool nesterov;
    double beta1, beta2, eps;
};

/* What a policy means for its caller. */
struct tutti_policy_info {
    bool deferred; /* step() returns before parameters are updated: wait_param, flush or the next step do it */
    bool sharded;  /* no rank ever has all averaged gradients: parameters are updated as gradients come, average is refused */
};
/* Of a policy by name; NULL: dear. */
tutti_status tutti_policy_describe(const char *policy, struct tutti_policy_info *ret_info, struct tutti_error *err);
/* `count` elements of f32 rounded to f16 or bf16. With `lost`, which is count elements too and begins as zeros: what rounding took away
 * last time is added before, and what it takes now is kept there. */
tutti_status tutti_half_round(tutti_dtype dtype, const float *from, float *lost, void *to, size_t count);

/* Collective. `comm` stays the caller's and must outlive the trainer, which uses its connections and shared memory but has an order of
 * requests of its own: the caller's collectives may go on meanwhile, in any thread. */
tutti_status tutti_trainer_open(struct tutti_comm *comm, const struct tutti_trainer_options *options, struct tutti_trainer **ret_trainer,
                                struct tutti_error *err);
/* In forward order. *ret_index is what the other calls name it by: 0, 1, 2, ... The caller's memory must outlive the trainer. */
tutti_status tutti_trainer_add(struct tutti_trainer *trainer, const struct tutti_tensor *tensor, size_t *ret_index,
                               struct tutti_error *err);
/* Values of a parameter group [lr 0.01], before or after freeze: they hold from the next step() on; with dear-sharded, which updates while
 * gradients still come, for steps whose first gradient was not ready when they were set. */
tutti_status tutti_trainer_set_group(struct tutti_trainer *trainer, size_t group, const struct tutti_group *values,
                                     struct tutti_error *err);
/* Collective. Compares tensors and options of all ranks (TUTTI_ERR_DIFFERS with the first difference), makes buckets, gives rank 0's
 * parameters to all. */
tutti_status tutti_trainer_freeze(struct tutti_trainer *trainer, struct tutti_error *err);
/* Gradient and parameter of a tensor; NULL before freeze, or when there is none. A gradient belongs to the trainer from grad_ready until
 * its tensor is waited for (or step, flush), and so does, with dear-sharded, the parameter. With dear-sharded a tensor's own `param` is a
 * copy of this one, refreshed by wait_param. */
void *tutti_trainer_grad(struct tutti_trainer *trainer, size_t index);
void *tutti_trainer_param(struct tutti_trainer *trainer, size_t index);
/* The gradient is complete. Under a microsecond unless it fills a bucket; the first call of a step waits for what the last one left. */
tutti_status tutti_trainer_grad_ready(struct tutti_trainer *trainer, size_t index);
/* Writes the f32 gradient of a wide_param tensor into its place, rounded; before its grad_ready. What rounding took away is kept and added
 * next time, so that it is late but not lost. */
tutti_status tutti_trainer_put_grad(struct tutti_trainer *trainer, size_t index, const float *grad);
/* Elements first..first + count of it: `grad` is where the first of them is. */
tutti_status tutti_trainer_put_range(struct tutti_trainer *trainer, size_t index, size_t first, size_t count, const float *grad);
/* Large tensors travel in parts (partition_bytes), and may be handed over and waited for part by part: communication begins before the
 * whole gradient is there, computing before the whole parameter is. Part k is elements *ret_first.. of the tensor; false: there is no such
 * part (every tensor has at least part 0), or freeze was not called. part_ready of all parts is grad_ready; wait_part waits for parts 0 to
 * `part`. Not for tensors with several uses or a gradient of the caller's, and not while sync is off, unless there is one part. */
bool tutti_trainer_part(const struct tutti_trainer *trainer, size_t index, size_t part, size_t *ret_first, size_t *ret_count);
tutti_status tutti_trainer_part_ready(struct tutti_trainer *trainer, size_t index, size_t part);
tutti_status tutti_trainer_wait_part(struct tutti_trainer *trainer, size_t index, size_t part);
/* Gradient accumulation: while off, grad_ready hands nothing over and the caller goes on adding to the gradients. */
tutti_status tutti_trainer_sync(struct tutti_trainer *trainer, bool on);
/* Averaged gradients are multiplied by this in the update (1 / micro-batches, 1 / loss scale), from the next step on [1]. */
tutti_status tutti_trainer_set_scale(struct tutti_trainer *trainer, double scale);
/* Between the last grad_ready and step: waits until the gradients are the averages of all ranks and updates nothing. They are the caller's
 * until step: what he makes of them (the same on all ranks) is what the update uses. Not with dear-sharded. */
tutti_status tutti_trainer_average(struct tutti_trainer *trainer);
/* Between average and step: whether the step updates the tensor, whatever the ranks used (a tensor whose gradient the caller dropped; one
 * that nobody used and that has a gradient now). The same on all ranks. */
tutti_status tutti_trainer_use(struct tutti_trainer *trainer, size_t index, bool use);
/* Ends the step: after the last grad_ready (and average), before the next forward pass. With policies that defer, parameters are updated
 * by wait_param, flush or the next step. */
tutti_status tutti_trainer_step(struct tutti_trainer *trainer);
/* The parameter (without optimizer: the averaged gradient) is that of the last step. Returns at once when it was waited for already. */
tutti_status tutti_trainer_wait_param(struct tutti_trainer *trainer, size_t index);
/* Waits for all of them. Not between the first grad_ready of a step and step. */
tutti_status tutti_trainer_flush(struct tutti_trainer *trainer);
/* The caller has changed parameters (a checkpoint was loaded, on all ranks): copies are taken anew, f32 ones of f16 and bf16 too where
 * they do not round to the parameter. Flushes first. Parameters of the caller's own (`param`) may be changed between two steps without it:
 * an update begins with what is there. */
tutti_status tutti_trainer_reload(struct tutti_trainer *trainer);
/* What the optimizer keeps of a tensor, for checkpoints: arrays k = 0, 1, ... named as PyTorch does ("momentum_buffer"; "exp_avg",
 * "exp_avg_sq"; of f16 and bf16 tensors then "master_param", the parameter in f32), each of the tensor's count elements, f64 for f64
 * tensors and f32 for all others; and how many times it was updated. They are whole whatever the policy: a job goes on from them with
 * another policy or number of ranks. To restore: write the parameters and reload, then set the arrays and updates, on every rank the same.
 * Names: NULL past the last array. Bytes: of each array; 0 when there are none. get is collective: all ranks call it for the same arrays in
 * the same order; data NULL: this rank does not want it. set is local; that of "master_param" sets the parameter too. All flush first,
 * but names and bytes. */
const char *tutti_trainer_state_name(const struct tutti_trainer *trainer, size_t index, size_t k);
size_t tutti_trainer_state_bytes(const struct tutti_trainer *trainer, size_t index);
tutti_status tutti_trainer_state_get(struct tutti_trainer *trainer, size_t index, size_t k, void *data, struct tutti_error *err);
tutti_status tutti_trainer_state_set(struct tutti_trainer *trainer, size_t index, size_t k, const void *data, struct tutti_error *err);
uint64_t tutti_trainer_updates(struct tutti_trainer *trainer, size_t index);
tutti_status tutti_trainer_set_updates(struct tutti_trainer *trainer, size_t index, uint64_t updates, struct tutti_error *err);
/* Of the last step that was waited for: the norm before clipping (0 without), and whether any rank used the tensor. */
double tutti_trainer_norm(const struct tutti_trainer *trainer);
bool tutti_trainer_used(const struct tutti_trainer *trainer, size_t index);
/* The i-th collective of the last step, in the order of launching; false past the last. */
struct tutti_trainer_launch {
    size_t size; /* set by the caller: sizeof of this struct as it knows it; that much is filled */
    const char *coll;
    uint32_t bucket;          /* UINT32_MAX: none, the norm and the use of all tensors */
    const char *first, *last; /* tensors of the bucket; they and algo live as long as the trainer */
    const char *algo;
    uint64_t bytes;
    uint64_t start_ns, end_ns; /* in the last step, CLOCK_MONOTONIC; 0: not yet */
};
bool tutti_trainer_launch(const struct tutti_trainer *trainer, size_t i, struct tutti_trainer_launch *ret);
/* Why the trainer failed: rank, host, tensor, reason. Valid until the next call on the trainer. */
const struct tutti_error *tutti_trainer_last_error(struct tutti_trainer *trainer);
/* Accepts NULL. Flushes, unless a step is open: then that step is dropped (what can be communicated of it still is: all ranks drop the
 * same). Views end here. */
void tutti_trainer_close(struct tutti_trainer *trainer);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
