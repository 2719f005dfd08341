/* policy.h - which gradients are communicated when, and how: buckets, algorithms, launch order.
 * Pure: times and costs are passed in, nothing here knows networks, sockets or clocks. The same
 * object drives the trainer (src/train, real ranks) and train-sim (src/trainsim, model).
 *
 * The model of a training step. Tensors are numbered in forward order. The backward pass visits
 * them from the last to the first, and a gradient is ready when its tensor's backward time has
 * passed; the next forward pass visits them from the first to the last. One stream communicates:
 * launches are executed one after the other in the fixed order of `launches`, each as soon as it is
 * at the head and has what it needs. The order is part of the policy and is not decided while
 * running: all ranks that make a policy from equal input have equal launches, and compare `hash` to
 * be sure.
 *
 *     backward  |fc3|fc2| fc1 |conv5..conv1|
 *     stream        |RS fc3|RS fc2|RS fc1   |RS conv|AG conv|AG fc1  |AG fc2|AG fc3|
 *     forward                                               |conv1..||fc1   |fc2   |fc3|
 *
 * Everything launched in a step is complete before the next forward pass ends (each bucket is
 * needed by some tensor), so a step begins with an empty stream: one period, from the start of
 * backward to the end of the next forward, describes the steady state.
 *
 * How the trainer uses it:
 *   freeze       fills struct tt_policy_tensor (times: zero, or a profile that rank 0 broadcast),
 *                gives the communicator's predicted times as costs, calls tt_policy_make, compares
 *                `hash` with the other ranks, binds one persistent request per launch.
 *   grad_ready   decrements the counter of the tensor's bucket(s); a bucket is full when tensors
 *                needs_first..needs_last are ready.
 *   progress     starts launches[head] when `needs_launch` is complete (or NO_LAUNCH) and its
 *                gradients are; then head + 1.
 *   step         wait_at_step: waits for all launches, updates. Otherwise it returns at once:
 *                updates happen with wait_param (dear, bytescheduler) or on the shard between
 *                reduce-scatter and all-gather (update == TT_UPDATE_SHARD).
 *   wait_param   waits for all launches whose bucket holds the tensor.
 *   flush        waits for all launches of the step, whatever the policy, and applies the pending
 *                updates.
 *   tuning       rank 0 measures steps, asks struct tt_tuner (tuner.h) for the next threshold and
 *                broadcasts it; all ranks make the policy anew between two steps (after a flush).
 *
 * Objects are read-only once made; any number of threads may read one. */
#ifndef TT_POLICY_H
#define TT_POLICY_H

#include "base/base.h"

/* name, for readers */
#define TT_KIND_LIST(X)                                 \
    X(CONV, "conv")                                     \
    X(FC, "fc")                                         \
    X(NORM, "norm") /* batch and layer normalisation */ \
    X(EMBEDDING, "embedding")                           \
    X(OTHER, "other")
enum tt_tensor_kind {
#define TT_KIND_ENUM(id, name) TT_KIND_##id,
    TT_KIND_LIST(TT_KIND_ENUM)
#undef TT_KIND_ENUM
        TT_KIND_COUNT
};
const char *tt_policy_kind_name(enum tt_tensor_kind k);

struct tt_policy_tensor {
    uint64_t bytes;
    uint32_t elem_bytes; /* > 0, divides bytes */
    enum tt_tensor_kind kind;
    /* tensors of one layer (weight, bias) share a number and are used together; 0 first, no gaps,
     * never decreasing */
    uint32_t layer;
    /* tensors of different parts (data type, parameter group) never share a bucket */
    uint32_t part;
    /* Compute between the use of this tensor and that of the next, in forward order; compute that
     * ends with its gradient being ready, after the next tensor's. A layer's times are at its
     * last tensor (so that all its tensors are waited for first, and ready together). */
    uint64_t forward_ps, backward_ps;
};

/* The algorithm of a bucket. AUTO: whatever the planner finds cheapest for that collective and
 * size. DIRECT: best for f16 and bf16, since it holds their sums in f32 and rounds once. */
#define TT_POLICY_ALGO_LIST(X)                  \
    X(AUTO, "auto")                             \
    X(RING, "ring")                             \
    X(HALVING_DOUBLING, "halving-doubling")     \
    X(RECURSIVE_DOUBLING, "recursive-doubling") \
    X(DIRECT, "direct")
enum tt_policy_algo {
#define TT_POLICY_ALGO_ENUM(id, name) TT_POLICY_##id,
    TT_POLICY_ALGO_LIST(TT_POLICY_ALGO_ENUM)
#undef TT_POLICY_ALGO_ENUM
        TT_POLICY_ALGO_COUNT
};
const char *tt_policy_algo_name(enum tt_policy_algo a);

/* Predicted time of a collective (allreduce, reduce-scatter or all-gather) of `bytes` (the whole
 * vector), in picoseconds; UINT64_MAX: impossible. Must be equal on all ranks. It is called often
 * with the same arguments, so answers should be kept. */
struct tt_policy_costs {
    uint64_t (*cost)(void *ctx, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes);
    void *ctx;
    uint32_t ranks;
    uint64_t update_ps_per_mib; /* the optimizer's time for 1 MiB of parameters; 0: free */
};

/* name, description. `wait`: the next forward waits for everything at step(). */
#define TT_POLICY_LIST(X)                                                               \
    X(SYNC, "sync", "one all-reduce after the backward pass")                           \
    X(WFBP, "wfbp", "one all-reduce per layer, under the backward pass")                \
    X(BUCKET, "bucket", "buckets of 25 MiB under the backward pass, as PyTorch DDP")    \
    X(MGWFBP, "mgwfbp", "layers merged so that communication ends first (MG-WFBP)")     \
    X(BYTESCHEDULER, "bytescheduler",                                                   \
      "tensors cut in parts, most urgent first, also under the next forward pass")      \
    X(HYBRID, "hybrid",                                                                 \
      "per layer: butterfly for convolutions, ring for fully connected (KIPS 2021)")    \
    X(HYBRID_COST, "hybrid-cost",                                                       \
      "per layer: the cheapest of ring, halving-doubling, recursive-doubling")          \
    X(DEAR, "dear",                                                                     \
      "reduce-scatter under the backward pass, all-gather under the next forward pass") \
    X(DEAR_SHARDED, "dear-sharded",                                                     \
      "as dear, the update between the two on the rank's shard; parameters gathered")
enum tt_policy_kind {
#define TT_POLICY_ENUM(id, name, desc) TT_POLICY_##id,
    TT_POLICY_LIST(TT_POLICY_ENUM)
#undef TT_POLICY_ENUM
        TT_POLICY_COUNT
};
const char *tt_policy_name(enum tt_policy_kind k);
const char *tt_policy_desc(enum tt_policy_kind k);
/* reduce-scatter and all-gather are separate launches */
bool tt_policy_is_dear(enum tt_policy_kind k);
int tt_policy_find(const char *name, struct tutti_error *err); /* -1 with near matches: unknown */
/* launches may run into the next forward pass: no wait at step */
bool tt_policy_crosses(enum tt_policy_kind k);

/* How tensors are joined to buckets. */
#define TT_FUSION_LIST(X)                                                                         \
    X(DEFAULT, "default", "the policy's own")                                                     \
    X(NONE, "none", "a bucket per layer")                                                         \
    X(THRESHOLD, "threshold", "layers joined up to --threshold bytes")                            \
    X(NEARBY, "nearby", "--nearby layers each")                                                   \
    X(WAITING, "waiting",                                                                         \
      "layers whose gradients become ready in the same --cycle of time, up to --threshold bytes") \
    X(GREEDY, "greedy",                                                                           \
      "joined where waiting costs less than starting up, from the back: MG-WFBP's rule")          \
    X(OPTIMAL, "optimal",                                                                         \
      "the buckets that end communication first by the model, if sent as they become ready")      \
    X(SEARCH, "search", "the threshold (or none, or optimal) with the least predicted step")
enum tt_fusion {
#define TT_FUSION_ENUM(id, name, desc) TT_FUSION_##id,
    TT_FUSION_LIST(TT_FUSION_ENUM)
#undef TT_FUSION_ENUM
        TT_FUSION_COUNT
};
const char *tt_policy_fusion_name(enum tt_fusion f);
const char *tt_policy_fusion_desc(enum tt_fusion f);
int tt_policy_fusion_find(const char *name, struct tutti_error *err);

/* Order of launches that are not bound to the end of the step (bytescheduler, dear). */
enum tt_policy_order {
    /* the one of the next three with the shortest predicted step, the first of equals; times
     * unknown: TWO_PHASE */
    TT_ORDER_BEST,
    /* at any time the ready launch that the next forward pass needs first, reduce-scatters
     * included */
    TT_ORDER_NEXT_USE,
    /* as NEXT_USE, but no all-gather delays the reduce-scatter of the first bucket */
    TT_ORDER_PATIENT,
    /* all reduce-scatters as they become ready, then all all-gathers by next use; no other
     * barrier */
    TT_ORDER_TWO_PHASE,
    /* as TWO_PHASE, and an all-gather starts only when the forward pass has reached the group
     * `lookahead` before it */
    TT_ORDER_PUBLISHED,
};

/* Zero means the default (in brackets) everywhere. */
struct tt_policy_options {
    enum tt_policy_kind kind;
    enum tt_policy_algo algo; /* of all but hybrid policies [auto] */
    /* hybrid: recursive doubling instead of halving-doubling for convolutions */
    bool recursive_doubling;
    /* [bucket: threshold; mgwfbp: optimal; dear: search when times are known, else threshold;
     * others: none] */
    enum tt_fusion fusion;
    uint64_t threshold_bytes; /* [25 MiB; waiting: 64 MiB] */
    /* bucket: cap of the bucket that is ready first; dear: of the bucket that is used first
     * [1 MiB] */
    uint64_t first_bytes;
    uint32_t nearby;   /* [4] */
    uint64_t cycle_ps; /* [5 ms] */
    /* larger tensors are cut in parts of at most this; UINT64_MAX: never [bytescheduler 4 MiB; dear
     * with fusion search 16 MiB or never, whichever is predicted faster; others: never] */
    uint64_t partition_bytes;
    enum tt_policy_order order;
    uint32_t lookahead; /* TT_ORDER_PUBLISHED: groups [1] */
};

#define TT_NO_LAUNCH UINT32_MAX

/* Tensors first..last, in forward order. The bucket's bytes are those of its tensors laid end to
 * end; a part of one tensor (first == last) is `offset_bytes` into it. Every byte of every tensor
 * is in exactly one bucket; buckets are in forward order. */
struct tt_policy_bucket {
    uint32_t first, last;
    uint64_t offset_bytes, bytes;
    enum tt_policy_algo algo;
    bool decoupled; /* reduce-scatter and all-gather, not all-reduce */
};

struct tt_policy_launch {
    uint32_t bucket; /* also its priority: a lower one is needed earlier in the next forward pass */
    tutti_coll coll;
    uint32_t needs_first, needs_last; /* gradients that must be ready */
    /* launch that must be complete (all-gather: its reduce-scatter, with the update), or
     * TT_NO_LAUNCH */
    uint32_t needs_launch;
    /* tensor whose forward must have begun, or TT_NO_LAUNCH (always, unless TT_ORDER_PUBLISHED) */
    uint32_t needs_forward;
    /* must be complete before the next forward of this tensor (0 when wait_at_step) */
    uint32_t before_forward;
    uint64_t cost_ps; /* predicted */
};

enum tt_policy_update {
    TT_UPDATE_STEP,    /* in step(), everything */
    TT_UPDATE_FORWARD, /* before the forward of the bucket's first tensor */
    TT_UPDATE_SHARD,   /* between reduce-scatter and all-gather, on 1/ranks of the bucket */
};

struct tt_policy {
    /* as used: defaults filled in; fusion, threshold and order as chosen */
    struct tt_policy_options options;
    bool wait_at_step;
    enum tt_policy_update update;
    uint32_t ntensors, nbuckets, nlaunches;
    struct tt_policy_bucket *buckets;
    struct tt_policy_launch *launches; /* in launch order */
    /* of tensors (without their times), buckets and launches (without their costs) */
    uint64_t hash;
};

/* Fails with TUTTI_ERR_ARG naming the tensor when the input is not as described above,
 * TUTTI_ERR_REFUSED when a needed collective cannot be done, TUTTI_ERR_MEMORY. Tensors and costs
 * are not kept. */
tutti_status tt_policy_make(const struct tt_policy_options *o,
                            const struct tt_policy_tensor *tensors, uint32_t n,
                            const struct tt_policy_costs *costs, struct tt_policy **ret,
                            struct tutti_error *err);
void tt_policy_free(struct tt_policy *p); /* accepts NULL */

/* ---- the predicted times of one step (timeline.c) ---- */

enum tt_span_kind { TT_SPAN_BACKWARD, TT_SPAN_FORWARD, TT_SPAN_UPDATE, TT_SPAN_LAUNCH };
struct tt_policy_span {
    enum tt_span_kind kind;
    uint32_t index; /* tensor; tensor; bucket (TT_NO_LAUNCH: all); launch */
    uint64_t start_ps, end_ps;
};
struct tt_policy_times {
    uint64_t iteration_ps;            /* start of backward to the end of the next forward */
    uint64_t forward_ps, backward_ps; /* compute alone */
    uint64_t update_ps;               /* that the forward pass or the step waits for */
    /* c: one all-reduce of all bytes with the policy's algorithm (see tt_policy_comm) */
    uint64_t comm_ps;
    uint64_t stream_ps;  /* all launches together */
    uint64_t exposed_ps; /* iteration - forward - backward - update */
    /* sync ff+bp+c; wfbp, bucket, mgwfbp, hybrid* ff+max(bp,c); dear* max(ff,c/2)+max(bp,c/2);
     * bytescheduler max(c,ff+bp) */
    uint64_t ideal_ps;
    uint64_t limit_ps; /* max(c, ff+bp): no policy that waits for its gradients is faster */
};
/* Spans (if ret_spans is not NULL) are sorted by start; the caller frees them with free(). */
tutti_status tt_policy_time(const struct tt_policy *p, const struct tt_policy_tensor *tensors,
                            const struct tt_policy_costs *costs, struct tt_policy_times *ret,
                            struct tt_policy_span **ret_spans, size_t *ret_nspans,
                            struct tutti_error *err);
/* The time c of tt_policy_times. With hybrid policies that of the cheapest of the three algorithms;
 * where reduce-scatter and all-gather together are cheaper, theirs. */
uint64_t tt_policy_comm(const struct tt_policy_options *o, const struct tt_policy_costs *costs,
                        uint64_t bytes);
#endif
