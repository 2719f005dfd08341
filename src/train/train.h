/* train.h - the trainer: a policy (policy/policy.h) on a communicator. Gradients become ready in
 * any order; they are communicated in the one order that all ranks agreed on when the trainer was
 * frozen, by a thread of the trainer's own; parameters are updated by a built-in optimizer, or not
 * at all (averaged gradients only).
 *
 * Life: open (collective: a twin of the communicator, on its connections), add tensors in forward
 * order, freeze (collective: the ranks compare everything they must agree on; buckets and requests
 * are made), then steps, close.
 *
 * One step: grad_ready of every tensor (or, with allow_unused, of some), step, wait_param of each
 * tensor before its next use. Deferred updates happen in wait_param, in flush, and at the latest
 * in the first grad_ready of the next step: no update is ever lost.
 *
 * Memory: gradients live in buckets, `grad` of a tensor is a view into one. A tensor that was
 * added with a gradient pointer of its own is copied from there at grad_ready and, without
 * optimizer, copied back when it is settled. Parameters are where the caller said, or in the
 * trainer's memory; dear-sharded gathers parameters, so it always keeps them in the trainer's
 * memory, and the caller's are copies.
 *
 * Between grad_ready(i) and the moment tensor i is settled (step, wait_param or flush, by policy)
 * its gradient belongs to the trainer; with dear-sharded its parameter too. Settling zeroes the
 * gradient unless keep_grads is set or there is no optimizer.
 *
 * Errors are sticky: every later call returns the first one. An error that is this rank's fault (a
 * tensor ready twice or never) aborts the trainer's communicator with a reason that names tensor
 * and rank, so that every rank learns of it. */
#ifndef TT_TRAIN_H
#define TT_TRAIN_H

#include "comm/comm.h"
#include "policy/policy.h"

enum tt_optimizer { TT_OPT_NONE, TT_OPT_SGD, TT_OPT_ADAM, TT_OPT_ADAMW, TT_OPT_COUNT };

struct tt_train_group {
    double lr, weight_decay;
    double momentum; /* SGD */
    bool nesterov;
    double beta1, beta2, eps; /* Adam */
};

struct tt_train_options {
    struct tt_policy_options policy;
    enum tt_optimizer optimizer;
    double clip_norm; /* of all averaged gradients together; 0: no clipping */
    bool allow_unused, keep_grads, no_broadcast;
    uint32_t window; /* collectives under way at the same time; 0: 2 */
    bool elastic;    /* a step is applied by all ranks or by none (rebind.c) */
    /* elastic and sharded: copies of each share of the optimizer's state on other ranks; 1 */
    uint32_t redundancy;
    /* the caller's own bytes for newcomers; either may be NULL */
    size_t (*save)(void *ctx, void *data, size_t capacity);
    void (*load)(void *ctx, const void *data, size_t bytes);
    void *ctx;
};

struct tt_train_tensor {
    const char *name; /* copied */
    size_t count;
    tutti_dtype dtype;
    enum tt_tensor_kind kind;
    uint32_t layer; /* 0: one of its own; neighbours with the same number are one layer */
    uint32_t group;
    uint32_t uses;                    /* grad_ready calls per step (tied weights); 0: 1 */
    void *param;                      /* NULL: the trainer's memory */
    void *grad;                       /* NULL: a view */
    uint64_t forward_ps, backward_ps; /* of a profile; rank 0's count */
    /* param is f32 and the only copy, gradients are f16 or bf16 */
    bool wide;
};

struct tt_train_info {
    uint32_t ntensors, nbuckets, nlaunches;
    uint64_t bytes, hash;
    const char *policy;
    struct tt_policy_options used; /* as found */
    /* by the model, with the communicator's speeds and the profile's times */
    struct tt_policy_times times;
};

struct tt_trainer;
tutti_status tt_train_open(struct tt_comm *c, const struct tt_train_options *o,
                           struct tt_trainer **ret, struct tutti_error *err);
tutti_status tt_train_add(struct tt_trainer *t, const struct tt_train_tensor *x,
                          uint32_t *ret_index, struct tutti_error *err);
/* May be called at any time; takes effect at the next step whose first gradient is not ready yet.
 * Groups are numbered 0..n without gaps. */
tutti_status tt_train_set_group(struct tt_trainer *t, uint32_t g, const struct tt_train_group *v,
                                struct tutti_error *err);
tutti_status tt_train_freeze(struct tt_trainer *t, struct tutti_error *err);
/* Elastic: goes on with the ranks of c, which are other ones than before; the step that was under
 * way is repeated, or its result comes from a rank that has it. Collective; ranks that are new call
 * open and freeze instead. When it fails because a rank died it may be called again. */
tutti_status tt_train_rebind(struct tt_trainer *t, struct tt_comm *c, struct tutti_error *err);
/* How many steps were ended by step(), by this rank or before it came. */
uint64_t tt_train_steps(struct tt_trainer *t);
/* Elastic: how many steps were done when the trainer was frozen or rebound; equal on all ranks. */
uint64_t tt_train_bound(const struct tt_trainer *t);
/* Elastic: of all parameters after every step; equal on all ranks. Flushes. */
uint64_t tt_train_fingerprint(struct tt_trainer *t);
void *tt_train_grad(struct tt_trainer *t, uint32_t i); /* NULL before freeze and past the end */
/* the same; NULL without optimizer unless the caller gave one */
void *tt_train_param(struct tt_trainer *t, uint32_t i);
tutti_status tt_train_sync(struct tt_trainer *t, bool on);
tutti_status tt_train_scale(struct tt_trainer *t, double scale);
tutti_status tt_train_reload(struct tt_trainer *t);
/* wide: rounds elements first..first + n (SIZE_MAX: all that follow); the rounding error is added
 * next time */
tutti_status tt_train_put(struct tt_trainer *t, uint32_t i, size_t first, size_t n,
                          const float *grad);
tutti_status tt_train_ready(struct tt_trainer *t, uint32_t i);
tutti_status tt_train_wait(struct tt_trainer *t, uint32_t i);
/* By parts: the stretches of a tensor that travel by themselves (one, unless it was cut). Handing
 * over every part equals grad_ready; waiting for the last one equals wait_param. part: false past
 * the last. */
bool tt_train_part(const struct tt_trainer *t, uint32_t i, uint32_t part, size_t *ret_first,
                   size_t *ret_count);
tutti_status tt_train_part_ready(struct tt_trainer *t, uint32_t i, uint32_t part);
/* waits for parts 0 to `part` */
tutti_status tt_train_wait_part(struct tt_trainer *t, uint32_t i, uint32_t part);
/* before step: waits for the averaged gradients, updates nothing; refused on shards */
tutti_status tt_train_average(struct tt_trainer *t);
/* Between average and step: whether the step updates tensor i, whatever the ranks used. */
tutti_status tt_train_use(struct tt_trainer *t, uint32_t i, bool use);
tutti_status tt_train_step(struct tt_trainer *t);
tutti_status tt_train_flush(struct tt_trainer *t);
/* What the optimizer keeps of tensor i (state.c): arrays 0, 1, ... with names, whole on every rank.
 * get is collective and flushes; data may be NULL. set is local: every rank must pass the same.
 * name: NULL past the last. */
const char *tt_train_state_name(const struct tt_trainer *t, uint32_t i, uint32_t k);
/* bytes of each array */
size_t tt_train_state_bytes(const struct tt_trainer *t, uint32_t i);
tutti_status tt_train_state_get(struct tt_trainer *t, uint32_t i, uint32_t k, void *data,
                                struct tutti_error *err);
tutti_status tt_train_state_set(struct tt_trainer *t, uint32_t i, uint32_t k, const void *data,
                                struct tutti_error *err);
uint64_t tt_train_updates(struct tt_trainer *t, uint32_t i);
tutti_status tt_train_set_updates(struct tt_trainer *t, uint32_t i, uint64_t n,
                                  struct tutti_error *err);
/* of the last settled step, before clipping; 0: not computed */
double tt_train_norm(const struct tt_trainer *t);
/* whether any rank used tensor i in the last settled step */
bool tt_train_used(const struct tt_trainer *t, uint32_t i);
void tt_train_get_info(const struct tt_trainer *t, struct tt_train_info *ret); /* frozen */
/* Launch k of the last step; false past the last. Texts live as long as the trainer. */
struct tt_train_launch {
    tutti_coll coll;
    bool gate;                /* not a bucket: norm and use of all tensors, or the fingerprints */
    uint32_t bucket;          /* with its first and last tensor; 0 and "" for a gate */
    const char *first, *last; /* tensors */
    const char *algo;
    uint64_t bytes, start_ns, end_ns; /* CLOCK_MONOTONIC, 0: not */
};
bool tt_train_start_launch(const struct tt_trainer *t, uint32_t k, struct tt_train_launch *ret);
struct tutti_error tt_train_error(struct tt_trainer *t);
/* Rounds to f16 or bf16; false for any other type. */
bool tt_train_half_round(tutti_dtype dtype, const float *from, float *lost, void *to, size_t n);
void tt_train_close(struct tt_trainer *t);
#endif
