/* plan.h - choosing an algorithm and its options for a problem on a topology, with the reasons. */
#ifndef TT_PLAN_H
#define TT_PLAN_H

#include "algo/algo.h"
#include "base/base.h"
#include "bound/bound.h"
#include "cost/cost.h"
#include "sched/sched.h"
#include "topo/topo.h"

/* The schedule that a synthesised algorithm built for all ranks, and its report. */
struct tt_built {
    struct tt_sched *sched; /* owned; NULL: not built, or the algorithm lists ranks one by one */
    struct tt_algo_report report;
};

/* One algorithm considered. It is refused (`why`; also when too large to build or its time too
 * long to represent), skipped because the budget was used up or a tuning rule decided (`why`),
 * or priced. */
struct tt_candidate {
    const struct tt_algo *algo;
    bool refused, skipped;
    struct tt_cost cost;
    uint64_t flow_ps; /* simulated at flow level; 0: not simulated (flow.c says when) */
    /* The K that was priced: the best of 1, 2, 4, ... and of 3/4 and 3/2 of that, or better than
     * that at flow level, unless K was given or `why` says otherwise. */
    uint32_t segments;
    double ratio_to_bound; /* 0 when the bound is 0 */
    /* Reason of refusal, or what determines its time: "latency 86%, link ... carries ...". */
    char why[300];
    struct tt_built built; /* only while choosing; empty in a finished plan */
};

/* Called before auto prices a candidate, with the share of the pricing work done so far; 0 also
 * means that its number of segments is being searched, which takes an unknown time. */
typedef void tt_plan_watch(void *ctx, const char *algo, double done);

#define TT_PLAN_NO_FLOW UINT64_MAX

struct tt_plan_options {
    const char *algo;               /* NULL or "auto": choose */
    struct tt_options algo_options; /* for a named algorithm; segments=K also for auto */
    /* Admit only algorithms that sum in rank order (matters where the collective sums at all). */
    bool reproducible;
    /* Planning budget of auto, counted in operations, not timed; 0: 1000. A named algorithm may
     * take up to 30 budgets. Beyond one budget it gets a cheap upper bound instead of the exact
     * price, and one segment instead of a search. */
    uint64_t budget_ms;
    /* auto: work for simulating the best candidates at flow level, counted like the budget; 0: a
     * quarter of budget_ms. TT_PLAN_NO_FLOW: choose by step times alone, as is always done for a
     * shared-memory topology, whose times are measured. */
    uint64_t flow_ms;
    const struct tt_tuning *tuning; /* for auto only; a named algorithm overrides it. May be NULL */
    tt_plan_watch *watch;           /* may be NULL */
    void *watch_ctx;
};

struct tt_plan {
    struct tt_problem problem;
    const struct tt_algo *algo;
    struct tt_options options; /* as used, segments included */
    /* As tt_cost_sched prices the schedule, or an upper bound of that (cost.exact is false). */
    struct tt_cost cost;
    struct tt_bounds bounds;
    double ratio_to_bound;
    uint64_t flow_ps; /* the winner's time at flow level; 0: not simulated */
    bool from_tuning, from_cache;
    /* In table order, with the winner; NULL for a named algorithm. When a tuning rule decided,
     * the others are skipped with that reason. */
    struct tt_candidate *candidates;
    size_t ncandidates;
    size_t winner; /* index in candidates */
    /* The plan owns the schedule of a synthesised algorithm: the one that was priced is counted
     * and handed out. It is missing only in a plan from a cache that has dropped the schedule
     * since; tt_plan_schedule then builds it again. */
    struct tt_built built;
};

/* The memory of planning; any number of threads may share one. Choices are remembered by problem
 * key (topology hash, problem, options), schedules of synthesised algorithms by what they depend
 * on, so plans of every size share them. Both are bounded; old ones are dropped. A NULL cache is
 * allowed where a cache is an argument and remembers nothing. */
struct tt_plan_cache;
struct tt_plan_cache *tt_plan_cache_make(void);
struct tt_plan_cache *tt_plan_cache_of_schedules(void); /* remembers schedules, but no choices */
void tt_plan_cache_free(struct tt_plan_cache *c);

/* A tuning file: rules by collective, ranks and bytes that fix the algorithm. A rule is obeyed
 * or refused with an error, never ignored. */
struct tt_tuning;
tutti_status tt_plan_tuning_read(FILE *in, const char *name, struct tt_tuning **ret,
                                 struct tutti_error *err);
tutti_status tt_plan_tuning_read_memory(const char *data, size_t len, const char *name,
                                        struct tt_tuning **ret, struct tutti_error *err);
void tt_plan_tuning_free(struct tt_tuning *t);
/* For ranks that must have the same rules (tuning_rules.c): their number; a hash of them that
 * does not depend on the file's name; rule i in words ("allreduce, from 32 ranks: circulant";
 * returns buf). */
size_t tt_plan_tuning_rules(const struct tt_tuning *t);
uint64_t tt_plan_tuning_rules_hash(const struct tt_tuning *t);
char *tt_plan_tuning_rule_text(const struct tt_tuning *t, size_t i, char *buf, size_t cap);
/* Checks that this network can obey every rule for its number of ranks; fails with the rule and
 * the algorithm's reason otherwise. */
tutti_status tt_plan_tuning_check(const struct tt_tuning *t, const struct tt_topo *topo,
                                  bool reproducible, struct tutti_error *err);

/* Chooses, or prices the named algorithm. auto never returns a candidate that is more than 2 %
 * slower than another priced one, by times at flow level where they are known and step times
 * elsewhere; within that it takes the fewest messages (of all ranks and segments), then the least
 * time, then table order. The caller frees the plan. */
tutti_status tt_plan_make(const struct tt_topo *t, const struct tt_problem *p,
                          const struct tt_plan_options *o, struct tt_plan_cache *cache,
                          struct tt_plan **ret, struct tutti_error *err);
void tt_plan_free(struct tt_plan *p);
/* The plan's schedule for all ranks. The caller frees it, before or after the plan: it shares
 * the operations of a built schedule. `t` is the network that the plan was made for. */
tutti_status tt_plan_schedule(const struct tt_plan *p, const struct tt_topo *t,
                              struct tt_sched **ret, struct tutti_error *err);
/* Rank 0's slice of that schedule. Refused where the algorithm cannot list a single rank or the
 * schedule is not symmetric. */
tutti_status tt_plan_first_slice(const struct tt_plan *p, const struct tt_topo *t,
                                 struct tt_sched **ret, struct tutti_error *err);
/* The numbers of operations and chunks of that schedule, counted without building it where
 * possible. */
tutti_status tt_plan_count(const struct tt_plan *p, const struct tt_topo *t, uint64_t *ret_ops,
                           uint32_t *ret_chunks, struct tutti_error *err);

/* Builds all ranks with a synthesised algorithm (al->build) for exactly these args, or finds
 * them in the cache, which may be NULL. Memos of the search are read from and written to files
 * ($XDG_CACHE_HOME/tutti/trees). The caller frees *ret with its schedule. */
tutti_status tt_plan_build(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_plan_cache *cache, struct tt_built *ret,
                           struct tutti_error *err);

/* One range of the cost envelope: winners by vector size, for min..max bytes by factors of two. */
struct tt_envelope_piece {
    uint64_t from_bytes, to_bytes; /* both included, powers of two times min */
    const struct tt_algo *algo;
    uint64_t from_ps, to_ps; /* predicted times at both ends */
};
/* Returns *ret_n ranges by ascending size; the caller frees *ret. */
tutti_status tt_plan_envelope(const struct tt_topo *t, const struct tt_problem *p,
                              const struct tt_plan_options *o, uint64_t min_bytes,
                              uint64_t max_bytes, struct tt_envelope_piece **ret, size_t *ret_n,
                              struct tutti_error *err);
#endif
