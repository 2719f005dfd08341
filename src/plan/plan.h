/* plan.h - choosing: which algorithm, with which options, for a problem on a topology; and why. */
#ifndef TT_PLAN_H
#define TT_PLAN_H

#include "algo/algo.h"
#include "base/base.h"
#include "bound/bound.h"
#include "cost/cost.h"
#include "sched/sched.h"
#include "topo/topo.h"

/* What a synthesised algorithm has built, all ranks, and knows of it. */
struct tt_built {
    struct tt_sched *sched; /* owned; NULL: nothing, or an algorithm that lists ranks one by one */
    struct tt_algo_report report;
};

/* One algorithm considered: refused (why; also when it is too large to build or its time too long
 * to tell), skipped for lack of budget or because a tuning rule decided (why), or priced. */
struct tt_candidate {
    const struct tt_algo *algo;
    bool refused, skipped;
    struct tt_cost cost;
    /* the K that was priced: the best of 1, 2, 4, .. and 3/4 and 3/2 of it, unless K was given or
     * why says otherwise */
    uint32_t segments;
    double ratio_to_bound; /* 0 when the bound is 0 */
    /* refusal, or what decides its time: "latency 86%, link ... carries ..." */
    char why[300];
    struct tt_built built; /* while the choice is made; empty in a finished plan */
};

/* Told what auto turns to next: a candidate, and the part of the work of pricing that is done (0:
 * its number of segments is searched, and how long that takes is not known). */
typedef void tt_plan_watch(void *ctx, const char *algo, double done);

struct tt_plan_options {
    const char *algo;               /* NULL or "auto": choose */
    struct tt_options algo_options; /* for a named algorithm; segments=K also for auto */
    /* only algorithms that sum in rank order (where the collective sums at all) */
    bool reproducible;
    /* planning budget of auto, counted in operations and not timed; 0: 1000. A named algorithm is
     * priced if that takes up to 30 budgets, but not exactly where an upper bound is cheap and the
     * exact price beyond the budget, and with one segment where finding a better number is */
    uint64_t budget_ms;
    const struct tt_tuning *tuning; /* for auto; a named algorithm is taken as named. May be NULL */
    tt_plan_watch *watch;           /* may be NULL */
    void *watch_ctx;
};

struct tt_plan {
    struct tt_problem problem;
    const struct tt_algo *algo;
    struct tt_options options; /* as used, segments included */
    /* what tt_cost_sched says of the schedule, or (cost.exact is false) an upper bound of it */
    struct tt_cost cost;
    struct tt_bounds bounds;
    double ratio_to_bound;
    bool from_tuning, from_cache;
    /* In table order, winner among them; NULL for a named algorithm. When a tuning rule decided,
     * the others are skipped and say so. */
    struct tt_candidate *candidates;
    size_t ncandidates;
    size_t winner; /* index in candidates */
    /* The plan owns the schedule of a synthesised algorithm: the very one that was priced is
     * counted and handed out. Only a plan remembered by a cache that has dropped the schedule since
     * is without; then tt_plan_schedule builds it again. */
    struct tt_built built;
};

/* The memory of planning, safe to use from several threads. Chosen results are remembered by
 * problem key (topology hash, problem, options); schedules of synthesised algorithms by what they
 * depend on, for plans of every size to share. Both are bounded, the oldest go. NULL is allowed
 * everywhere: no memory. */
struct tt_plan_cache;
struct tt_plan_cache *tt_plan_cache_make(void);
struct tt_plan_cache *tt_plan_cache_of_schedules(void); /* remembers no choices */
void tt_plan_cache_free(struct tt_plan_cache *c);

/* A tuning file: rules by collective, rank and byte ranges that fix the algorithm. Honoured or
 * refused loudly, never ignored. */
struct tt_tuning;
tutti_status tt_plan_tuning_read(FILE *in, const char *name, struct tt_tuning **ret,
                                 struct tutti_error *err);
tutti_status tt_plan_tuning_read_memory(const char *data, size_t len, const char *name,
                                        struct tt_tuning **ret, struct tutti_error *err);
void tt_plan_tuning_free(struct tt_tuning *t);
/* For ranks that must have the same rules (tuning_rules.c): how many, a hash of them whatever the
 * file is called, rule i in words ("allreduce, from 32 ranks: circulant"; returns buf). */
size_t tt_plan_tuning_rules(const struct tt_tuning *t);
uint64_t tt_plan_tuning_rules_hash(const struct tt_tuning *t);
char *tt_plan_tuning_rule_text(const struct tt_tuning *t, size_t i, char *buf, size_t cap);
/* Can every rule for this number of ranks be kept on this network? Else the rule and the reason of
 * the algorithm. */
tutti_status tt_plan_tuning_check(const struct tt_tuning *t, const struct tt_topo *topo,
                                  bool reproducible, struct tutti_error *err);

/* Chooses (or prices the named algorithm). auto never returns a candidate that another priced one
 * beats by more than 2 % of its time; within that it takes the fewest messages (all ranks' and
 * segments'), then the least time, then table order. */
tutti_status tt_plan_make(const struct tt_topo *t, const struct tt_problem *p,
                          const struct tt_plan_options *o, struct tt_plan_cache *cache,
                          struct tt_plan **ret, struct tutti_error *err);
void tt_plan_free(struct tt_plan *p);
/* The plan's schedule, all ranks: the caller's to free, sharing its operations with the plan where
 * the plan owns one, so that it may outlive it. `t` is the network the plan was made for. */
tutti_status tt_plan_schedule(const struct tt_plan *p, const struct tt_topo *t,
                              struct tt_sched **ret, struct tutti_error *err);
/* Rank 0's part of it; refuses algorithms that cannot list a rank by itself, and schedules that are
 * not symmetric. */
tutti_status tt_plan_first_slice(const struct tt_plan *p, const struct tt_topo *t,
                                 struct tt_sched **ret, struct tutti_error *err);
/* The operations and chunks of that schedule, where possible without building it. */
tutti_status tt_plan_count(const struct tt_plan *p, const struct tt_topo *t, uint64_t *ret_ops,
                           uint32_t *ret_chunks, struct tutti_error *err);

/* Builds all ranks by a synthesised algorithm (al->build) for exactly these args, or finds them in
 * the cache; what is slow to find is read from and written to files
 * ($XDG_CACHE_HOME/tutti/trees). */
tutti_status tt_plan_build(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_plan_cache *cache, struct tt_built *ret,
                           struct tutti_error *err);

/* The cost envelope: winners by vector size, for sizes min..max bytes by factors of two. */
struct tt_envelope_piece {
    uint64_t from_bytes, to_bytes; /* both included, powers of two times min */
    const struct tt_algo *algo;
    uint64_t from_ps, to_ps; /* predicted at both ends */
};
tutti_status tt_plan_envelope(const struct tt_topo *t, const struct tt_problem *p,
                              const struct tt_plan_options *o, uint64_t min_bytes,
                              uint64_t max_bytes, struct tt_envelope_piece **ret, size_t *ret_n,
                              struct tutti_error *err);
#endif
