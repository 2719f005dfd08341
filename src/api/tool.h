/* tool.h - what the tutti tool needs beyond the installed interface. The tool links the
 * library's modules statically, so that nothing of this is exported from libtutti.so, and it may
 * change with every version. Handles, errors and lifetimes follow the rules of tutti.h. */
#ifndef TT_API_TOOL_H
#define TT_API_TOOL_H

#include <stdio.h>
#include <tutti/tutti.h>

#include "api/shared.h"

/* ---- tables: the i-th entry, false past the end ---- */
struct tutti_algo_option_info {
    const char *key, *values, *desc;
};
/* An algorithm of the table. `options` is valid until the next call in the same thread. */
struct tutti_algo_info {
    const char *name, *desc, *needs;
    unsigned colls; /* bits 1 << tutti_coll */
    bool pipelined, rank_order;
    const struct tutti_algo_option_info *options;
    size_t noptions;
};
bool tutti_algo_get(size_t i, struct tutti_algo_info *ret);
/* A kind of network that a spec can name: its form "star:N", an example, and what it is. */
struct tutti_topo_kind_info {
    const char *name, *form, *example, *desc;
};
bool tutti_topo_kind_get(size_t i, struct tutti_topo_kind_info *ret);

/* From a spec alone: never opens a file. */
tutti_status tutti_topo_spec(const char *spec, struct tutti_topo **ret, struct tutti_error *err);
/* A network from a file that says a part of what a topology is ("-": standard input). kind:
 * "matrix" (measured rates as CSV), "slurm" (topology.conf), "hostfile" (Open MPI). */
struct tutti_import {
    const char *kind, *path;
    const char *unit;    /* matrix: of numbers without one; NULL: each has its own */
    const char *link;    /* slurm, hostfile: links of a spec; NULL: the default */
    uint64_t latency_ps; /* matrix: of every link */
};
tutti_status tutti_topo_import(const struct tutti_import *from, struct tutti_topo **ret,
                               struct tutti_error *err);

/* The environment variables that Tutti knows; and the i-th TUTTI_ variable that is set and not
 * known. */
struct tutti_variable {
    const char *name, *dflt, *meaning;
};
bool tutti_variable_get(size_t i, struct tutti_variable *ret);
struct tutti_unknown_variable {
    char name[64], near[160]; /* near: "did you mean ...?" or "" */
};
bool tutti_variable_unknown(size_t i, struct tutti_unknown_variable *ret);

/* Names of the enumerations. find returns -1, and an error with near matches, when there is no
 * such name. */
const char *tutti_coll_name(tutti_coll c);
const char *tutti_dtype_name(tutti_dtype d);
const char *tutti_redop_name(tutti_redop r);
int tutti_coll_find(const char *name, struct tutti_error *err);
int tutti_dtype_find(const char *name, struct tutti_error *err);
int tutti_redop_find(const char *name, struct tutti_error *err);

/* ---- topologies ---- */
/* Properties of a network. Texts live as long as the topology. */
struct tutti_topo_info {
    const char *spec, *kind;
    uint32_t ranks, switches, links, degree, diameter;
    double mean_path;
    uint32_t ports; /* as declared; 0: not declared */
    double gamma;   /* seconds per byte */
    double overhead_us;
    double min_bw, max_bw; /* bytes/s over all directed links */
    double min_latency_us, max_latency_us;
    bool half; /* some link is half duplex */
    uint64_t hash;
    uint64_t bisection;   /* fewest cables between two halves of the ranks ... */
    bool bisection_exact; /* ... or (false) an upper bound: those of a cut that was found */
    /* false: the network is too large; diameter and mean path are from a sample of ranks to all */
    bool distances_exact;
};
/* May take a while on large networks: it measures distances and the bisection. */
tutti_status tutti_topo_info(const struct tutti_topo *topo, struct tutti_topo_info *ret,
                             struct tutti_error *err);
uint64_t tutti_topo_hash(const struct tutti_topo *topo); /* cheap */
/* The length of cable on a floor of racks in a grid (tutti-topology(5) has the model). False
 * when the network has no such layout. */
struct tutti_topo_floor {
    uint32_t per_rack, racks, rows, columns;
    uint32_t between_racks; /* cables that leave their rack */
    double total_m, mean_m, max_m;
};
bool tutti_topo_floor(const struct tutti_topo *topo, uint32_t per_rack,
                      struct tutti_topo_floor *ret);
/* Cables that nothing can cross, since no rank is behind one of their ends. *ret_first: the first
 * such directed link, set only if there is one. */
uint32_t tutti_topo_nowhere(const struct tutti_topo *topo, uint32_t *ret_first);
/* Write errors show in the stream. */
void tutti_topo_write_dot(const struct tutti_topo *topo, FILE *out);
void tutti_topo_write_simgrid(const struct tutti_topo *topo, FILE *out);
/* Text for ns-3, and ASTRA-sim on it. TUTTI_ERR_REFUSED: the directions of a link differ or share
 * it. */
tutti_status tutti_topo_write_ns3(const struct tutti_topo *topo, FILE *out,
                                  struct tutti_error *err);
/* "rank 3", "switch 0" (switches are numbered after the ranks), or the vertex's own name.
 * Returns buf. */
char *tutti_topo_vertex_name(const struct tutti_topo *topo, uint32_t vertex, char *buf, size_t cap);
/* The name of a directed link: "rank 3 -> switch 0". Returns buf. */
char *tutti_topo_link_name(const struct tutti_topo *topo, uint32_t directed_link, char *buf,
                           size_t cap);
/* The directed links that a text names: "rank 3-switch 0" (both directions), "rank 3 -> switch
 * 0", or the number of a cable (both directions). The caller frees *ret with free(3). */
tutti_status tutti_topo_find_links(const struct tutti_topo *topo, const char *text, uint32_t **ret,
                                   size_t *ret_n, struct tutti_error *err);
/* The rank that a text names: its number, "rank N", or the name it was given. */
tutti_status tutti_topo_find_rank(const struct tutti_topo *topo, const char *text, uint32_t *ret,
                                  struct tutti_error *err);
/* The level of simulation ("step", "flow", "packet") that is nearest to what a network like this
 * does, and the reason as a part of a sentence. Both are static. */
const char *tutti_topo_sim_level(const struct tutti_topo *topo, const char **ret_why);
/* What-ifs about ranks and links, for simulations and for networks. */
struct tutti_sim_slow {
    uint32_t rank;
    double factor; /* host overhead, reductions and ports are slower by this factor */
};
struct tutti_sim_degrade {
    uint32_t link; /* directed */
    /* its bandwidth is divided by this; INFINITY (networks only): the cable is down */
    double factor;
};
/* The network as it would be with the what-ifs. A slow rank's links are slower; its overhead and
 * reductions stay. TUTTI_ERR_RANGE when ranks are cut off. */
tutti_status tutti_topo_change(const struct tutti_topo *topo, const struct tutti_sim_slow *slow,
                               size_t nslow, const struct tutti_sim_degrade *degrade,
                               size_t ndegrade, struct tutti_topo **ret, struct tutti_error *err);

/* ---- bounds ---- */
/* One kind of bound. applies: it says something about this problem; complete: every case was
 * examined. The certificate is the proof in words. */
struct tutti_bound_info {
    const char *kind;
    bool applies, complete;
    double bound_us;
    char certificate[400];
};
/* All bounds for a problem. get: the i-th kind, false past the last one; best: the index of the
 * greatest. */
struct tutti_bound;
tutti_status tutti_bound_make(const struct tutti_topo *topo, tutti_coll coll, uint32_t root,
                              uint64_t bytes, struct tutti_bound **ret, struct tutti_error *err);
bool tutti_bound_get(const struct tutti_bound *bound, size_t i, struct tutti_bound_info *ret);
size_t tutti_bound_best(const struct tutti_bound *bound);
/* The cut that proves the cut bound: side[v] for ranks, then switches; NULL when there is none.
 * Lives as long as the bound. */
const uint8_t *tutti_bound_cut(const struct tutti_bound *bound, double *ret_bytes,
                               double *ret_capacity);
/* The partition that proves the partition bound: the part of each vertex (ranks, then switches;
 * UINT32_MAX: in none); NULL when there is none. tight: packed trees reach the bound in the
 * limit of small segments. */
struct tutti_bound_partition {
    uint32_t parts;
    double bytes, capacity; /* out of and into the parts together */
    bool tight;
};
const uint32_t *tutti_bound_parts(const struct tutti_bound *bound,
                                  struct tutti_bound_partition *ret);
void tutti_bound_free(struct tutti_bound *bound);

/* ---- plans and schedules ---- */
/* What a plan is. Texts live as long as the plan. */
struct tutti_plan_info {
    const char *algo;
    char options[200];
    uint32_t steps, chunks, segments;
    uint64_t ops, messages;
    double predicted_us, bound_us, ratio_to_bound;
    const char *bound_kind, *certificate;
    uint32_t max_link_contention;
    bool exact; /* false: predicted_us is an upper bound of what tutti_schedule_simulate gives */
    bool from_tuning;
    const char *winner; /* the algorithm, if the choice was automatic; else NULL */
    /* Of a synthesised schedule (has_rate), in the limit of many segments: bytes of the vector
     * per second; the least time of any schedule of its kind (0: not known); and the distance of
     * the rate from the better of that and bound_us, as a fraction. */
    bool has_rate;
    double rate_Bps, dual_bound_us, gap;
};
/* `schedule` may be NULL; ops and chunks are 0 then. */
void tutti_plan_info(const struct tutti_plan *plan, const struct tutti_schedule *schedule,
                     struct tutti_plan_info *ret);
/* Fills the last fields of info when the algorithm knows them. */
void tutti_plan_rate(const struct tutti_plan *plan, struct tutti_plan_info *info);
/* The i-th candidate's time at flow level; 0: it was not simulated. i past the last: the
 * winner's. The winner was chosen by these times where they are known. */
double tutti_plan_flow_us(const struct tutti_plan *plan, size_t i);
/* The numbers of operations and chunks of the plan's schedule. The schedule is built only when
 * they cannot be counted otherwise. */
tutti_status tutti_plan_count(const struct tutti_plan *plan, uint64_t *ret_ops,
                              uint32_t *ret_chunks, struct tutti_error *err);
/* The result that tutti_schedule_simulate gives for the plan's schedule on its topology (see
 * `exact` above); planning has computed it already: time_us is predicted_us. */
void tutti_plan_simulate(const struct tutti_plan *plan, struct tutti_sim_result *ret);

/* From now on, planning in this thread calls `watch` (NULL: nothing) before each candidate, with
 * the part of the work that is done (0: not known). */
typedef void tutti_plan_watch_fn(void *ctx, const char *algo, double done);
void tutti_plan_watched(tutti_plan_watch_fn *watch, void *ctx);

/* A range of sizes in which one algorithm is best, with its times at both ends. */
struct tutti_envelope_piece {
    uint64_t from_bytes, to_bytes;
    const char *algo;
    double from_us, to_us;
};
/* The winners by size, from min to max by factors of two. The caller frees the array with
 * free(3). */
tutti_status tutti_plan_envelope(const struct tutti_topo *topo,
                                 const struct tutti_plan_options *options, uint64_t min_bytes,
                                 uint64_t max_bytes, struct tutti_envelope_piece **ret,
                                 size_t *ret_n, struct tutti_error *err);

/* What a schedule is. Texts live as long as the schedule. */
struct tutti_schedule_info {
    tutti_coll coll;
    tutti_dtype dtype;
    tutti_redop redop;
    const char *algo, *options;
    uint32_t ranks, root, chunks, segments, steps, buffers;
    uint64_t ops, count, hash;
    uint64_t topo_hash; /* the network it was made for; 0: any */
    /* its spec, as the file has it, or "": tutti_topo_spec makes it; its hash must be compared */
    const char *network;
    uint32_t nroutes; /* paths it fixes on that network */
    bool symmetric, inplace;
    /* the collective gives each rank a block, and the blocks are not equal; bounds assume equal
     * ones */
    bool uneven;
};
void tutti_schedule_info(const struct tutti_schedule *schedule, struct tutti_schedule_info *ret);
/* Builds a named algorithm, without planning, for ranks first..first+n-1 (n 0: all). A topology
 * is needed only by algorithms that depend on one. */
tutti_status tutti_schedule_build(const struct tutti_topo *topo, uint32_t ranks,
                                  const struct tutti_plan_options *options, uint32_t first,
                                  uint32_t n, struct tutti_schedule **ret, struct tutti_error *err);
/* Rank 0's part of the plan's schedule, when all ranks do the same, shifted. tutti_sim_run
 * accepts it where one rank can stand for all. */
tutti_status tutti_plan_first_slice(const struct tutti_plan *plan, struct tutti_schedule **ret,
                                    struct tutti_error *err);
/* Reads without checking: mistakes in the operations are left for verify to point at. Only for
 * verify, or after it. */
tutti_status tutti_schedule_read_unchecked(const char *path, struct tutti_schedule **ret,
                                           struct tutti_error *err);
/* Like tutti_schedule_verify; calls progress with the fraction done (0..1) from time to time. */
tutti_status tutti_schedule_verify_progress(const struct tutti_schedule *schedule,
                                            void (*progress)(void *ctx, double fraction), void *ctx,
                                            struct tutti_verdict *ret, struct tutti_error *err);

/* The i-th format of tutti_schedule_export. */
struct tutti_export_info {
    const char *name, *desc;
    const char *options; /* names, separated by spaces */
    bool per_rank;       /* a file for each rank */
};
bool tutti_export_get(size_t i, struct tutti_export_info *ret);

/* ---- simulation event by event: levels "flow" and "packet" ("step" is tutti_schedule_simulate)
 * ---- */
/* Zero means the default everywhere. */
struct tutti_sim_options {
    bool packet; /* level packet, otherwise flow */
    /* flow: links are shared in inverse proportion to route latency, otherwise max-min fairly */
    bool rtt;
    bool message_mode; /* packet: one head flit per message instead of one per packet */
    bool lockstep;     /* packet: interfaces issue steps in order, with estimated waiting */
    /* packet */
    uint32_t flit_bytes, payload_bytes, cycles_per_flit, vcs, buffer_flits, router_cycles,
        /* parameters of the packet level */
        interfaces;
    /* packet: reduction at the interface; 0: by the topology's gamma */
    double aggregate_bytes_per_s;
    const struct tutti_sim_slow *slow;
    size_t nslow;
    const struct tutti_sim_degrade *degrade;
    size_t ndegrade;
    double jitter; /* each message's latency is multiplied by a random factor 1 .. 1+jitter */
    uint64_t seed;
    /* keep the lists of tutti_sim_event and tutti_sim_work */
    bool timeline;
    /* may be NULL; returns false to end the simulation with TUTTI_ERR_ABORTED */
    bool (*progress)(void *ctx, double fraction);
    void *progress_ctx;
};
struct tutti_sim;
/* `schedule` must hold all ranks. The result keeps nothing of the caller's: schedule and
 * topology may be freed. */
tutti_status tutti_sim_run(const struct tutti_schedule *schedule, const struct tutti_topo *topo,
                           uint64_t count, tutti_dtype dtype,
                           const struct tutti_sim_options *options, struct tutti_sim **ret,
                           struct tutti_error *err);
void tutti_sim_free(struct tutti_sim *sim); /* accepts NULL */

/* A summary of a simulation; times in microseconds, links directed. */
struct tutti_sim_info {
    double time_us;
    uint32_t steps, ranks, links; /* links: directed */
    uint64_t messages, events;
    uint64_t bytes_on_busiest_link;
    uint32_t busiest_link, max_link_contention;
    uint32_t links_used;
    /* the link with the most messages in flight at once */
    uint32_t peak_link;
    /* bytes / (bandwidth * time): mean over the links that carry something, largest */
    double mean_utilisation, max_utilisation;
    double mean_idle_us, max_idle_us; /* over ranks */
    /* packet level, else 0; stalls: cycles a flit waited for credits */
    uint64_t cycles, flits, head_flits, stalls;
    double lockstep_wait_us;
};
void tutti_sim_info(const struct tutti_sim *sim, struct tutti_sim_info *ret);

/* What one directed link carried. */
struct tutti_sim_link {
    double bytes_per_s; /* with the what-ifs */
    uint64_t bytes;
    double busy_us;     /* in which something crossed it */
    double utilisation; /* bytes / (bandwidth * time) */
    uint32_t peak;      /* most messages in flight at once */
};
/* Times of a rank: when it ended, and how long it sent, received, reduced and was idle. */
struct tutti_sim_rank {
    double end_us, send_us, receive_us, reduce_us, idle_us;
};
/* A message of the timeline: its ends, step, channel and segment, and its times. */
struct tutti_sim_event {
    uint32_t src, dst, step, channel, segment;
    uint64_t bytes;
    /* could have started; first byte left; last byte arrived */
    uint64_t ready_ps, start_ps, end_ps;
};
/* A reduction of the timeline. */
struct tutti_sim_work {
    uint32_t rank, step;
    uint64_t bytes;
    uint64_t start_ps, end_ps;
};
/* The i-th directed link, rank, message or reduction; false past the last one. Messages and
 * reductions are in the order of their start, and need `timeline`. */
bool tutti_sim_link(const struct tutti_sim *sim, size_t i, struct tutti_sim_link *ret);
bool tutti_sim_rank(const struct tutti_sim *sim, size_t i, struct tutti_sim_rank *ret);
bool tutti_sim_event(const struct tutti_sim *sim, size_t i, struct tutti_sim_event *ret);
bool tutti_sim_work(const struct tutti_sim *sim, size_t i, struct tutti_sim_work *ret);

/* ---- measuring a live network (tutti probe) ---- */
struct tutti_probe;
/* Collective on all ranks of comm; takes about budget_us; gives the same result on all of them. */
tutti_status tutti_probe_run(struct tutti_comm *comm, uint64_t budget_us, struct tutti_probe **ret,
                             struct tutti_error *err);
void tutti_probe_free(struct tutti_probe *probe); /* accepts NULL */
/* The measured network as a topology that plans can be made for. The caller frees it with
 * tutti_topo_free. */
tutti_status tutti_probe_topo(const struct tutti_probe *probe, struct tutti_topo **ret,
                              struct tutti_error *err);
/* A summary of a measurement. */
struct tutti_probe_info {
    uint32_t ranks, hosts, groups;
    uint64_t pairs, pairs_measured; /* pairs of hosts, each direction */
    /* measured without other traffic: the pairs that confidence is about */
    uint64_t pairs_judged;
    bool crowded; /* there was time to look for shared uplinks */
    bool unsure;  /* all hosts at once are slow, and no groups explain it */
    /* confidence: the part of the judged pairs that the topology predicts within 15 % */
    double seconds, confidence;
    double overhead_us, gamma; /* host time per message; seconds per reduced byte */
};
void tutti_probe_info(const struct tutti_probe *probe, struct tutti_probe_info *ret);
/* The i-th host, group, pair of hosts (each direction) and finding; false past the last one.
 * Rates are in bytes/s; 0: not measured, or there is none. */
struct tutti_probe_host {
    const char *name;
    uint32_t first_rank, ranks, group;
    double up, down;
    bool up_at_least, down_at_least; /* the flows did not fill that direction */
    double memory, memory_latency_us;
};
struct tutti_probe_group {
    uint32_t hosts;
    double up, down; /* of the shared uplink */
};
struct tutti_probe_pair {
    uint32_t from, to; /* hosts */
    double rate, crowd_rate, latency_us;
};
bool tutti_probe_host(const struct tutti_probe *probe, size_t i, struct tutti_probe_host *ret);
bool tutti_probe_group(const struct tutti_probe *probe, size_t i, struct tutti_probe_group *ret);
bool tutti_probe_pair(const struct tutti_probe *probe, size_t i, struct tutti_probe_pair *ret);
const char *tutti_probe_finding(const struct tutti_probe *probe, size_t i); /* NULL past the last */

/* ---- training steps: models, policies, simulated timelines ---- */
/* An entry of a table of names. */
struct tutti_name {
    const char *name, *desc;
};
/* The i-th policy and way of fusion; false past the end. */
bool tutti_policy_get(size_t i, struct tutti_name *ret);
bool tutti_fusion_get(size_t i, struct tutti_name *ret);

struct tutti_model;
/* A built-in model, for lists. */
struct tutti_model_entry {
    const char *name, *desc;
    uint32_t batch; /* default */
};
bool tutti_model_get(size_t i, struct tutti_model_entry *ret); /* the i-th built-in model */
/* Opens a built-in model, or a profile file when the name has a '/' or ends in ".json" (batch
 * and flops must be 0 then). */
tutti_status tutti_model_open(const char *name, uint32_t batch, double flops,
                              struct tutti_model **ret, struct tutti_error *err);
void tutti_model_free(struct tutti_model *model); /* accepts NULL */
struct tutti_model_info {
    const char *name, *source; /* source: where the times come from */
    bool measured;             /* otherwise times are derived */
    uint32_t batch, layers, tensors;
    uint64_t parameters, bytes;
    double forward_us, backward_us;
};
void tutti_model_info(const struct tutti_model *model, struct tutti_model_info *ret);
/* The i-th tensor in forward order; false past the last one. The times of a layer are given with
 * its last tensor. */
struct tutti_model_tensor {
    const char *name, *layer, *kind;
    uint32_t layer_number;
    uint64_t count;
    tutti_dtype dtype;
    uint64_t forward_ps, backward_ps;
};
bool tutti_model_tensor(const struct tutti_model *model, size_t i, struct tutti_model_tensor *ret);
void tutti_model_write(const struct tutti_model *model, FILE *out); /* as a profile */

/* Predicted times of collectives on a network; each is computed once and remembered. algo NULL:
 * the planner chooses for every size. flow: by the flow simulator, else by the cost function. */
struct tutti_prices;
tutti_status tutti_prices_open(const struct tutti_topo *topo, const char *algo, bool flow,
                               struct tutti_prices **ret, struct tutti_error *err);
void tutti_prices_close(struct tutti_prices *prices); /* accepts NULL */

/* Zero means the default everywhere. */
struct tutti_trainsim_options {
    const char *policy;
    const char *fusion; /* a name of tutti_fusion_get, or "bayesian" */
    /* dear, bytescheduler: "best", "next-use", "patient", "two-phase", "published" */
    const char *order;
    bool recursive_doubling;
    uint64_t threshold_bytes, first_bytes, partition_bytes, cycle_ps;
    uint32_t nearby, lookahead;
    double update_bytes_per_s;             /* optimizer; 0: free */
    uint64_t min_threshold, max_threshold; /* of "bayesian" */
    uint32_t trials;
    const char *tuning; /* file of an earlier search, used in place of a new one */
    bool spans;
};
struct tutti_trainsim;
tutti_status tutti_trainsim_run(const struct tutti_model *model, struct tutti_prices *prices,
                                const struct tutti_trainsim_options *options,
                                struct tutti_trainsim **ret, struct tutti_error *err);
void tutti_trainsim_free(struct tutti_trainsim *sim); /* accepts NULL */
/* A simulated step. exposed_comm_us: what communication adds to compute; ideal_us: the policy's
 * formula; limit_us: no policy with these collectives is faster. */
struct tutti_trainsim_info {
    const char *policy, *fusion, *order;
    double iteration_us, forward_us, backward_us, update_us, comm_us, stream_us, exposed_comm_us,
        ideal_us, limit_us;
    uint32_t buckets, launches, trials;
    uint64_t threshold_bytes, first_bytes; /* 0: fusion is by other means */
    uint64_t hash;
};
void tutti_trainsim_info(const struct tutti_trainsim *sim, struct tutti_trainsim_info *ret);
/* Tensors that travel together, or a part of one (offset_bytes). decoupled: as reduce-scatter
 * and all-gather. */
struct tutti_trainsim_bucket {
    const char *first, *last; /* tensors; live as long as the result */
    uint32_t tensors;
    uint64_t offset_bytes, bytes;
    const char *algo;
    bool decoupled;
};
bool tutti_trainsim_bucket(const struct tutti_trainsim *sim, size_t i,
                           struct tutti_trainsim_bucket *ret);
/* With `spans`: what happened in one step, in the order of start. */
struct tutti_trainsim_span {
    const char *what; /* "backward", "forward", "update", or a collective's name */
    const char *name; /* tensor or the bucket's first tensor; "" for an update of everything */
    /* on the communication stream; else on the compute stream, except updates of shards
     * (`beside`), which run beside both */
    bool stream;
    bool beside;
    uint32_t bucket; /* UINT32_MAX: none */
    uint64_t bytes, start_ps, end_ps;
};
bool tutti_trainsim_span(const struct tutti_trainsim *sim, size_t i,
                         struct tutti_trainsim_span *ret);
/* A threshold that bayesian fusion has tried, and its step. */
struct tutti_trainsim_trial {
    uint64_t threshold_bytes;
    double time_us;
};
bool tutti_trainsim_trial(const struct tutti_trainsim *sim, size_t i,
                          struct tutti_trainsim_trial *ret);
/* What was tried, and why the winner won, as text; NULL: out of memory. The caller frees it. */
char *tutti_trainsim_log(const struct tutti_trainsim *sim);
/* Writes the result of a search, to be read again as `tuning`. */
void tutti_trainsim_save(const struct tutti_trainsim *sim, FILE *out);

/* ---- communicators ---- */
struct tutti_comm_plan_info {
    const char *algo;
    double predicted_us, bound_us;
    bool fused;    /* all ranks share this host */
    double own_us; /* predicted_us when all buffers are memory of tutti_mem_alloc */
};
/* The plan that such a call would use (root 0). Collective, like the call. */
tutti_status tutti_comm_plan(struct tutti_comm *comm, tutti_coll coll, size_t count,
                             tutti_dtype dtype, tutti_redop op, struct tutti_comm_plan_info *ret,
                             struct tutti_error *err);
/* What ran for such a call; to be asked after it. The schedule, and how the messages that this
 * rank sent in the last run were carried out, counted in pieces of at most 128 KiB: as bytes
 * (message); by reference, so that the receiver read this rank's memory or a copy in shared
 * memory (read); written to the receiver's place by this rank's reduction (write); through a box
 * in shared memory (box). */
struct tutti_comm_explained {
    /* set by the caller to the sizeof of this struct as it knows it; only that much is filled */
    size_t size;
    const char *algo;  /* lives as long as the communicator */
    char options[160]; /* "k=v,k=v" */
    uint32_t segments;
    uint64_t message, read, write, box;
    double predicted_us, bound_us;
    double own_us; /* predicted_us when all buffers are memory of tutti_mem_alloc */
    /* what decided: "planner", "named", "tuning" or "plan" (a file of the user) */
    const char *origin;
};
tutti_status tutti_comm_explain(struct tutti_comm *comm, tutti_coll coll, size_t count,
                                tutti_dtype dtype, tutti_redop op, struct tutti_comm_explained *ret,
                                struct tutti_error *err);
/* The algorithm named in the options (or TUTTI_ALGO) applies to `coll` instead of all-reduce;
 * for measuring. To be called alike on all ranks, before the first call on comm. */
void tutti_comm_algo_of(struct tutti_comm *comm, tutti_coll coll);
/* The speeds that the communicator plans with, the same on all ranks: measured when it was
 * opened, or kept from an earlier opening. `again`: measure now, and keep the result for
 * communicators opened from now on; then the call is collective, and nothing else may run on the
 * communicator. */
struct tutti_speeds {
    struct {
        bool known; /* there are such links */
        double bytes_per_s, latency_us, overhead_us;
    } shm, tcp;
    double gamma_ns_per_byte;
    double taken; /* the share of the cores that other processes used while this was measured ... */
    /* ... was small: kept for a day. Otherwise kept for a minute, and predictions may be off */
    bool steady;
};
tutti_status tutti_comm_speeds(struct tutti_comm *comm, bool again, struct tutti_speeds *ret,
                               struct tutti_error *err);
/* What protects the bytes on its sockets, in words: "encrypted (AES-256-GCM)"; "no sockets"
 * inside a host. */
void tutti_comm_guard(const struct tutti_comm *comm, char *buf, size_t cap);
/* The file in which speeds are kept; "" when they are not kept. Returns buf. */
char *tutti_speeds_path(char *buf, size_t cap);

/* ---- trainers ---- */
struct tutti_trainer_info {
    const char *policy, *fusion, *order;
    uint32_t tensors, buckets, launches;
    uint64_t bytes, threshold_bytes, hash;
    /* predicted by the model, with the communicator's speeds and the profile's compute times: */
    double iteration_us, forward_us, backward_us, comm_us, ideal_us, limit_us;
};
/* Only after tutti_trainer_freeze. */
void tutti_trainer_info(const struct tutti_trainer *trainer, struct tutti_trainer_info *ret);
/* ---- what works here (tutti doctor) ---- */
/* Rank, size and rendezvous as a communicator would take them from the environment. */
struct tutti_identity {
    uint32_t rank, ranks;
    int local_rank;       /* -1: unknown */
    char rendezvous[128]; /* "" with one rank */
    /* whose variables they are: "tutti", "torchrun", "Open MPI", "MPICH", "Slurm"; "none": a
     * single rank without a launcher */
    const char *origin;
};
tutti_status tutti_identity(struct tutti_identity *ret, struct tutti_error *err);

/* The host of this process. */
struct tutti_host {
    char name[64], kernel[64], isa[16]; /* isa: the instruction set of the reductions */
    uint32_t cores, online;             /* cores that this process may use; that are online */
    uint64_t memory_bytes, available_bytes;
};
void tutti_host(struct tutti_host *ret);
/* One capability that was tried on this host. */
struct tutti_check {
    const char *name;
    bool ok, needed; /* needed: a job cannot run without it */
    char text[512];  /* what was observed, or why it does not work */
};
/* The i-th check of this host; false past the last one. transport: NULL, "shm" or "tcp". A check
 * may start child processes. */
bool tutti_host_check(const char *transport, size_t i, struct tutti_check *ret);

/* All ranks of the job, and which of them reach each other. */
struct tutti_survey;
struct tutti_survey_rank {
    struct tutti_host host;
    uint32_t pid, host_number; /* ranks that share memory have the same number */
    char address[24];          /* a.b.c.d:port */
    uint32_t failed;           /* bit i: check i fails on its host */
};
/* Collective. The ranks meet and part again, so that a communicator can be opened afterwards. */
tutti_status tutti_survey_make(const char *transport, struct tutti_survey **ret,
                               struct tutti_error *err);
uint32_t tutti_survey_ranks(const struct tutti_survey *s, uint32_t *ret_mine);
void tutti_survey_rank(const struct tutti_survey *s, uint32_t rank, struct tutti_survey_rank *ret);
/* 0, or the errno of connecting from one rank to the other. *ret_transport (may be NULL) is what
 * a communicator uses between them. */
int tutti_survey_reach(const struct tutti_survey *s, uint32_t from, uint32_t to,
                       const char **ret_transport);
void tutti_survey_free(struct tutti_survey *s); /* accepts NULL */

/* ---- numbers as people write them ---- */
/* parse: the whole text must be used; format: returns buf. base/base.h has the forms. */
tutti_status tutti_parse_size(const char *text, uint64_t *ret_bytes, struct tutti_error *err);
tutti_status tutti_parse_rate(const char *text, double *ret_bytes_per_s, struct tutti_error *err);
tutti_status tutti_parse_time(const char *text, uint64_t *ret_ps, struct tutti_error *err);
tutti_status tutti_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                             struct tutti_error *err);
char *tutti_format_size(uint64_t bytes, char *buf, size_t cap);
char *tutti_format_rate(double bytes_per_s, char *buf, size_t cap);
char *tutti_format_us(double us, char *buf, size_t cap);
/* "did you mean ...?" with names that are close to `name`, or "". Returns buf. */
char *tutti_near_matches(const char *name, const char *const *names, size_t n, char *buf,
                         size_t cap);

/* ---- one JSON document on a stream ---- */
struct tutti_json;
/* NULL when out of memory or handles. */
struct tutti_json *tutti_json_open(FILE *out);
/* Open an object or an array. key is NULL in an array and at the top, and needed in an object. */
void tutti_json_object(struct tutti_json *j, const char *key);
void tutti_json_array(struct tutti_json *j, const char *key);
/* Closes the innermost open object or array. */
void tutti_json_end(struct tutti_json *j);
/* A value NULL is written as null. */
void tutti_json_string(struct tutti_json *j, const char *key, const char *value);
void tutti_json_u64(struct tutti_json *j, const char *key, uint64_t value);
void tutti_json_real(struct tutti_json *j, const char *key, double value); /* not finite: null */
void tutti_json_bool(struct tutti_json *j, const char *key, bool value);
void tutti_json_null(struct tutti_json *j, const char *key);
void tutti_json_close(struct tutti_json *j); /* ends the document and frees */

/* ---- traces of runs (TUTTI_TRACE) ---- */
struct tutti_run;
/* Is this file a trace, by its first bytes? False when it cannot be read, and for "-" and NULL. */
bool tutti_run_is(const char *path);
tutti_status tutti_run_read(const char *path, struct tutti_run **ret, struct tutti_error *err);
void tutti_run_free(struct tutti_run *run); /* accepts NULL */
struct tutti_run_info {
    uint32_t ranks;
    uint64_t events, lost; /* lost: the ring was full */
};
void tutti_run_info(const struct tutti_run *run, struct tutti_run_info *ret);
/* The i-th plan that calls have used, and what its calls took on all ranks together; false past the
 * last one. Texts live as long as the run. */
struct tutti_run_plan {
    const char *algo, *options;
    tutti_coll coll;
    tutti_dtype dtype;
    tutti_redop redop;
    uint32_t root, segments;
    uint64_t count, calls;
    double total_us;
};
bool tutti_run_plan(const struct tutti_run *run, size_t i, struct tutti_run_plan *ret);
/* The network that the ranks planned on. The caller frees it with tutti_topo_free. */
tutti_status tutti_run_topo(const struct tutti_run *run, struct tutti_topo **ret,
                            struct tutti_error *err);

/* ---- counters of running jobs (TUTTI_TOP): those of this user on this host ---- */
struct tutti_top;
/* A look at all of them, which tutti_top_free frees. */
tutti_status tutti_top_read(struct tutti_top **ret, struct tutti_error *err);
void tutti_top_free(struct tutti_top *top); /* accepts NULL */
/* The i-th rank, in the order of job and rank; false past the last one. Texts live as long as the
 * look. Times are sums since opened_ns; idle: with nothing to do until another rank sent. */
struct tutti_top_rank {
    uint32_t rank, ranks;
    int32_t pid;
    const char *host, *job;
    uint64_t opened_ns, calls, call_bytes, call_ns, waits, wait_ns, sent_bytes, received_bytes,
        idle_ns;
};
bool tutti_top_rank(const struct tutti_top *top, size_t i, struct tutti_top_rank *ret);
/* Of the i-th rank's idle time, what something of `peer` ended. */
uint64_t tutti_top_idle_for(const struct tutti_top *top, size_t i, uint32_t peer);

/* ---- pages (tutti view): one HTML file whose script reads one JSON document ---- */
/* Writes everything before the document and returns a stream for it, on which markup is escaped;
 * NULL: out of memory. end closes that stream and writes the rest. Write errors show in `out`. */
FILE *tutti_page_begin(FILE *out, const char *title);
void tutti_page_end(FILE *data, FILE *out);
/* A page without a script: everything up to the beginning of its body. The caller writes the rest,
 * texts by tutti_xml_text (markup becomes entities, control characters '?'). */
void tutti_page_plain(FILE *out, const char *title);
void tutti_xml_text(const char *text, FILE *out);
/* The colour of the i-th line or bar of a picture, "#rrggbb": eight, then they repeat. */
const char *tutti_picture_colour(size_t i);
/* Parts of the document, as one value each, complete also on failure. A network of more than 256
 * ranks is folded: neighbouring ranks are drawn as one. `value`: a number per vertex (ranks, then
 * switches). The simulation must have its timeline. */
tutti_status tutti_json_network(struct tutti_json *j, const char *key,
                                const struct tutti_topo *topo, struct tutti_error *err);
tutti_status tutti_json_run(struct tutti_json *j, const char *key, const struct tutti_run *run,
                            struct tutti_error *err);
tutti_status tutti_json_vertices(struct tutti_json *j, const char *key,
                                 const struct tutti_topo *topo, const uint32_t *value,
                                 struct tutti_error *err);
tutti_status tutti_json_simulated(struct tutti_json *j, const char *key,
                                  const struct tutti_schedule *schedule,
                                  const struct tutti_topo *topo, const struct tutti_sim *sim,
                                  const struct tutti_plan_options *problem,
                                  struct tutti_error *err);

#endif
