/* train_int.h - what the files of train share.
 *
 * Which thread writes what: callers of grad_ready write `tensors[].left` and `launches[].missing`;
 * the trainer's thread writes `head`, `running` and the requests. The rest of a step's state is
 * written by begin_step, while nothing is under way, and by the caller that settles (under
 * settle_lock). */
#ifndef TT_TRAIN_INT_H
#define TT_TRAIN_INT_H

#include <pthread.h>
#include <stdatomic.h>

#include "train/train.h"

/* arrays of the optimizer: at most two of its own, then f32 copies of f16 and bf16 */
enum { TT_STATE_MASTER = 2, TT_STATES = 3 };
enum {
    TT_TRAIN_WINDOW = 2,
    TT_TRAIN_WINDOW_MAX = 64,
    TT_TRAIN_NAME = 128,
    TT_TRAIN_GROUPS = 1024,
    TT_TRAIN_PART = 8 << 20
};

struct tt_tensor {
    /* as added; name owned; uses at least 1; layer renumbered by freeze */
    struct tt_train_tensor v;
    void *param, *grad; /* authoritative copies */
    void *mean;         /* the averaged gradient; elastic: not where `grad` is */
    size_t at;          /* bytes into the flat buffers */
    /* bytes into the optimizer's state, unless that is sharded */
    size_t state_at;
    /* wide tensors: the rounding error of the last gradient, added to the next; else NULL */
    float *lost;
    /* several buckets: each holds a part of this tensor and nothing else */
    uint32_t first_bucket, last_bucket;
    uint32_t next_bucket; /* the first that is not settled (under settle_lock) */
    /* launches that reduce this tensor's gradient: users[first_user..] */
    uint32_t first_user, nusers;
    uint64_t updates;      /* steps in which some rank used it, this one included */
    bool used;             /* by any rank, this step */
    _Atomic uint32_t left; /* uses to come in this step */
    /* parts not ready yet; all of them, when the tensor is handed over whole */
    _Atomic uint32_t parts_left;
    /* ready in a micro-batch of this step that was not synchronised */
    _Atomic bool touched;
    _Atomic bool pending; /* the step's result is not settled yet */
};

/* What a rank keeps of a bucket, as elements of it, and where the optimizer's state of that lies
 * when it is sharded (bytes). `ward`: with redundancy, the block of the rank before; else empty. */
struct tt_stretch {
    size_t first, count;
};
struct tt_held {
    struct tt_stretch own, ward;
    size_t own_at, ward_at;
};

struct tt_bucket {
    size_t at, elems; /* bytes into the flat buffers; elements */
    tutti_dtype dtype;
    uint32_t elem_bytes;
    size_t *counts; /* block of each rank */
    struct tt_held held;
    /* launches: the one that reduces the gradients; the one after which the bucket is complete */
    uint32_t reduce, last;
    bool updated; /* what is held of it, this step */
};

struct tt_launch {
    struct tt_policy_launch l; /* needs_launch in terms of our own list */
    /* not of the policy: the norm and the use of all gradients, after the last reducing launch */
    bool gate;
    /* nor this: the fingerprints of all ranks' parameters before this step; the first launch */
    bool check;
    /* nor this: the next rank gets the mean of the own block, for its copy */
    bool copy;
    struct tt_request *request;
    uint32_t needs; /* tensors */
    _Atomic uint32_t missing;
    _Atomic bool done;
    _Atomic uint64_t start_ns, end_ns;
};

/* Shares of the optimizer's state among `ranks` ranks. */
struct tt_shares {
    uint32_t rank, ranks; /* 0 ranks: there are none */
    uint64_t made;
    char *state[TT_STATES]; /* of `past`; those of `now` are the trainer's */
};

/* Elastic trainers (rebind.c, catchup.c, newcomers.c, fingerprint.c, shares.c). */
struct tt_elastic {
    /* of parameters: after the first `hashed` steps; of this step so far */
    uint64_t hash, hashed, step_hash;
    uint64_t *cards;  /* the check's result, two words of each rank */
    uint64_t card[2]; /* its input: steps that are done, hash */
    uint64_t bound;   /* steps that were done when the trainer was bound; equal on all ranks */
    char *spare;      /* `means`, while there is no communicator; else NULL */
    bool member;      /* has parameters that count: was bound before */
    /* sharded (shares.c): as which rank of how many the state is held, and how often that changed;
     * what it was before, until all ranks have the new one */
    struct tt_shares now, past;
};

struct tt_trainer {
    struct tt_comm *comm; /* a twin of the caller's */
    struct tt_train_options options;
    struct tt_policy *policy; /* NULL until frozen */
    struct tt_policy_times times;
    uint32_t rank, ranks;

    struct tt_tensor *tensors;
    uint32_t ntensors, cap;
    struct tt_bucket *buckets;
    size_t *counts;
    struct tt_launch *launches;
    uint32_t nlaunches, gate, check; /* gate, check: their indices, or TT_NO_LAUNCH */
    uint32_t *users;
    struct tt_train_group *groups, *next_groups; /* of this step; as set */
    uint32_t ngroups;

    size_t bytes, state_bytes;
    char *grads, *params;             /* flat; params NULL when all are the caller's */
    char *means;                      /* where gradients are averaged: `grads`, unless elastic */
    char *state[TT_STATES];           /* of the optimizer */
    bool grads_shared, params_shared; /* from the communicator's memory */
    bool means_shared;
    double *gate_data; /* sum of squares, then users of each tensor */
    double norm, clip; /* of this step */
    double scale, next_scale;

    uint64_t steps; /* begun */
    /* TUTTI_TRACE: when the last step ended; when the first gradient of this one was ready; the
     * policy's timeline, until freeze has handed it over */
    uint64_t step_ns, first_ns;
    struct tt_policy_span *spans;
    size_t nspans;
    bool numbered; /* layers are */
    bool repeated; /* step() has ended the step, but returned an error: it will be called again */
    struct tt_elastic elastic;
    bool averaged;        /* the last step's gradients were asked for before its updates */
    _Atomic bool active;  /* the first gradient of a step was ready, step() not called yet */
    _Atomic bool stepped; /* step() was called for the launches under way */
    _Atomic bool sync;
    pthread_mutex_t begin_lock, settle_lock;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t news;  /* a launch is done, or the end */
    uint32_t waiters;
    uint64_t waiting_ns; /* since when the first waiter waits */
    uint64_t moved_ns;   /* when a launch was done last */
    struct tutti_error error;
    _Atomic bool failed, closing;
    bool locks_made, thread_made;
    pthread_t thread;
    int bell;
    _Atomic uint32_t head; /* next launch */
    uint32_t running[TT_TRAIN_WINDOW_MAX], nrunning;
    _Atomic uint32_t under_way; /* nrunning, for others */
};

bool tt_train_sharded(const struct tt_trainer *t); /* the update happens on shards */

/* agree.c: compares what must be equal on all ranks. On a difference every rank gets
 * TUTTI_ERR_DIFFERS with the first one named. */
tutti_status tt_train_agree(struct tt_trainer *t, struct tutti_error *err);
tutti_status tt_train_agree_hash(struct tt_trainer *t, uint64_t hash, struct tutti_error *err);
/* Gathers `bytes` bytes of every rank, in rank order. Collective. */
tutti_status tt_train_exchange(struct tt_trainer *t, const void *mine, size_t bytes, void *ret_all,
                               struct tutti_error *err);

/* cost.c */
struct tt_train_costs {
    struct tt_comm *comm;
    /* by collective, algorithm and power of two; 0: not asked yet */
    uint64_t grid[3][TT_POLICY_ALGO_COUNT][64];
};
uint64_t tt_train_cost(void *costs, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes);

/* layout.c: places, memory, the first parameters. launches.c: requests, and which launch waits for
 * which tensors. Both free functions accept a trainer that is only partly built. */
tutti_status tt_train_layout(struct tt_trainer *t, struct tutti_error *err);
/* every rank starts from rank 0's parameters; collective */
tutti_status tt_train_spread(struct tt_trainer *t, struct tutti_error *err);
tutti_status tt_train_launches(struct tt_trainer *t, struct tutti_error *err);
void tt_train_layout_free(struct tt_trainer *t);
/* frees what belongs to the communicator: its memory (false: the means are lost); its requests */
bool tt_train_layout_unbind(struct tt_trainer *t);
void tt_train_launches_unbind(struct tt_trainer *t);
void tt_train_launches_free(struct tt_trainer *t);

/* update.c */
/* updates what this rank holds of a bucket; called by the trainer's thread */
void tt_train_update_held(struct tt_trainer *t, struct tt_bucket *b, const struct tt_held *h);
/* updates the part of tensor i that lies in b */
void tt_train_update_in(struct tt_trainer *t, uint32_t i, const struct tt_bucket *b);
/* sum of the squared gradients of the own blocks */
double tt_train_squares(struct tt_trainer *t);
/* the same of all gradients that this step uses, whole */
double tt_train_squares_whole(const struct tt_trainer *t);

/* state.c: refreshes the f32 copies of f16 and bf16 parameters where they no longer round to the
 * parameter: of all tensors; of n elements. */
void tt_train_masters(struct tt_trainer *t);
void tt_train_widen(tutti_dtype dtype, const uint16_t *param, float *copy, size_t n);

/* half.c */
bool tt_train_half(tutti_dtype dtype); /* f16 or bf16: n elements of them to f32 and back */
void tt_train_half_widen(tutti_dtype dtype, const void *from, float *to, size_t n);
void tt_train_half_narrow(tutti_dtype dtype, const float *from, void *to, size_t n);
/* Narrows `from` + `lost`; `lost` becomes the rounding error (zero where that is not finite). */
void tt_train_half_narrow_keep(tutti_dtype dtype, const float *from, float *lost, void *to,
                               size_t n);

/* optim.c: n elements. step counts from 1. */
struct tt_optim {
    enum tt_optimizer kind;
    const struct tt_train_group *g;
    double scale;
    uint64_t step;
};
struct tt_optim_data {
    tutti_dtype dtype; /* f32, f64, f16, bf16 */
    void *param;       /* f16, bf16: may be NULL */
    const void *grad;
    void *state[TT_STATES]; /* f64 for f64, else f32 */
    size_t n;
};
void tt_train_optim_run(const struct tt_optim *o, const struct tt_optim_data *d);
uint32_t tt_train_optim_states(enum tt_optimizer kind);
size_t tt_train_state_each(tutti_dtype dtype); /* bytes per element of state */

/* thread.c */
void tt_train_clip(struct tt_trainer *t, double squares); /* norm and clip of this step */
/* gate_data has come: norm, clip, and which tensors are used */
void tt_train_read_gate(struct tt_trainer *t);
bool tt_train_all_done(struct tt_trainer *t); /* has every launch of the last step ended? */
tutti_status tt_train_thread_start(struct tt_trainer *t, struct tutti_error *err);
void tt_train_thread_end(struct tt_trainer *t);
/* Wakes the thread; any thread may call it. */
void tt_train_ring(struct tt_trainer *t);
/* Sleeps until the launch is done, the trainer failed or the deadline passed. */
tutti_status tt_train_await(struct tt_trainer *t, uint32_t launch);

/* settle.c */
/* the part of x that lies in b, as elements of x */
struct tt_stretch tt_train_stretch(const struct tt_tensor *x, const struct tt_bucket *b);
size_t tt_train_bytes(const struct tt_tensor *x);
size_t tt_train_param_each(const struct tt_tensor *x); /* bytes per element of the parameter */
uint32_t tt_train_parts(const struct tt_tensor *x);
/* settles parts 0 to `part` of tensor i */
tutti_status tt_train_settle(struct tt_trainer *t, uint32_t i, uint32_t part);
/* settles everything of the last step */
tutti_status tt_train_settle_all(struct tt_trainer *t);

/* fingerprint.c: of the parameters after each step. note: elements of tensor i were updated;
 * its callers hold settle_lock. */
void tt_train_note(struct tt_trainer *t, uint32_t i, size_t first, size_t n);
void tt_train_hash_step(struct tt_trainer *t); /* the step's part joins the hash, once */
/* two words of each rank, steps and hash: an error that names a rank whose hash is another one */
tutti_status tt_train_compare(const struct tt_trainer *t, const uint64_t *cards,
                              struct tutti_error *err);

/* catchup.c */
struct tt_train_standing { /* what a rank says when it is bound */
    uint64_t member;
    uint64_t steps, done,
        between; /* begun; the last one's launches have ended; step() was called */
    uint64_t hashed, hash;
    uint64_t share, shares, made; /* sharded: of `now`; and of `past` */
    uint64_t past_share, past_shares;
};
/* Gathers the standings of all ranks; the caller frees them. */
tutti_status tt_train_stand(struct tt_trainer *t, struct tt_train_standing **ret,
                            struct tutti_error *err);
/* Ranks that are behind, or new, get everything that counts from those that are not. */
tutti_status tt_train_catch_up(struct tt_trainer *t, const struct tt_train_standing *all,
                               struct tutti_error *err);

/* Broadcasts bytes; collective. A rank that gives NULL only takes part. */
tutti_status tt_train_hand(struct tt_trainer *t, uint32_t root, void *data, size_t bytes,
                           struct tutti_error *err);

/* newcomers.c */
/* Newcomers get the policy of the first member; collective, nothing without newcomers. */
tutti_status tt_train_share_policy(struct tt_trainer *t, const struct tt_train_standing *all,
                                   struct tutti_error *err);
/* Newcomers get everything else. The members are between steps; otherwise it fails on all ranks. */
tutti_status tt_train_introduce(struct tt_trainer *t, const struct tt_train_standing *all,
                                struct tutti_error *err);

/* shares.c */
/* Block r of a bucket that `ranks` ranks share. */
struct tt_stretch tt_train_block(const struct tt_bucket *b, uint32_t r, uint32_t ranks);
/* What rank r of `ranks` holds of a bucket; *at, the bytes of state before it, grows by its own. */
struct tt_held tt_train_hold(const struct tt_trainer *t, const struct tt_bucket *b, uint32_t r,
                             uint32_t ranks, size_t *at);
/* Sharded: the members take the shares of which none has lost track. */
tutti_status tt_train_shares_take(struct tt_trainer *t, struct tt_train_standing *all,
                                  struct tutti_error *err);
/* The gate has decided that the step counts: everything held is updated; all ranks get the
 * parameters of bucket k from those who have updated them. */
void tt_train_shares_update(struct tt_trainer *t);
tutti_status tt_train_shares_params(struct tt_trainer *t, const struct tt_train_standing *all,
                                    uint32_t k, struct tutti_error *err);
/* Shares as the present ranks need them. */
tutti_status tt_train_shares_move(struct tt_trainer *t, const struct tt_train_standing *all,
                                  struct tutti_error *err);
void tt_train_shares_forget(struct tt_shares *s);

/* open.c: room for groups 0 .. n-1, with the values that they begin with */
tutti_status tt_train_grow_groups(struct tt_trainer *t, uint32_t n, struct tutti_error *err);
/* freeze.c: what freeze and rebind have in common: everything that is collective, and the thread */
tutti_status tt_train_bind(struct tt_trainer *t, struct tutti_error *err);
tutti_status tt_train_join(struct tt_trainer *t, struct tt_comm *c, struct tutti_error *err);

/* step.c */
tutti_status tt_train_begin(struct tt_trainer *t); /* a new step; does nothing within one */
/* tensor i is complete: its launches miss one tensor less */
void tt_train_count(struct tt_trainer *t, uint32_t i);

/* open.c: what a launch communicates */
uint64_t tt_train_launch_bytes(const struct tt_trainer *t, const struct tt_launch *x);

/* trace.c: TUTTI_TRACE; all do nothing without one. */
void tt_train_trace_freeze(struct tt_trainer *t);
void tt_train_trace_begin(struct tt_trainer *t);
void tt_train_trace_gradients(struct tt_trainer *t);
void tt_train_trace_step(struct tt_trainer *t);
void tt_train_trace_launch(struct tt_trainer *t, uint32_t k); /* it is done */
void tt_train_trace_wait(struct tt_trainer *t, uint32_t k, uint64_t since_ns);

/* fail.c: the first error stays. blame: the fault of this rank; an abort tells all others. */
tutti_status tt_train_fail(struct tt_trainer *t, const struct tutti_error *err);
tutti_status tt_train_blame(struct tt_trainer *t, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
tutti_status tt_train_failed(struct tt_trainer *t); /* TUTTI_OK: not */
#endif
