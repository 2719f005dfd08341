/* trainsim.h - a policy (policy/) on the planner's prices: how long a training step takes on a
 * network, without running one. */
#ifndef TT_TRAINSIM_H
#define TT_TRAINSIM_H

#include "base/base.h"
#include "policy/policy.h"
#include "policy/tuner.h"
#include "topo/topo.h"
#include "trainsim/model.h"

/* The times of collectives on a network, by size: the planner's cost of the named algorithm (or of
 * the one it chooses) for exactly that size, or the flow simulator's time of that schedule. Answers
 * are kept. Not thread-safe. */
struct tt_prices;
struct tt_prices_options {
    /* the algorithm for buckets for which the policy says "auto"; NULL: the planner chooses, size
     * by size */
    const char *algo;
    bool flow; /* ask the flow simulator */
};
/* Borrows the topology. */
tutti_status tt_trainsim_prices_open(const struct tt_topo *t, const struct tt_prices_options *o,
                                     struct tt_prices **ret, struct tutti_error *err);
void tt_trainsim_prices_close(struct tt_prices *p); /* accepts NULL */
/* For policies; valid as long as the prices are. */
struct tt_policy_costs tt_trainsim_prices_costs(struct tt_prices *p);
/* The reason of the last price that was UINT64_MAX; NULL when there was none. */
const struct tutti_error *tt_trainsim_prices_failure(const struct tt_prices *p);
uint64_t tt_trainsim_prices_hash(const struct tt_prices *p); /* of network, algorithm and level */

struct tt_trainsim_options {
    struct tt_policy_options policy;
    double update_bytes_per_s; /* the optimizer's speed; 0: free */
    /* Bayesian optimisation of the threshold; policy.fusion is then threshold */
    bool tune;
    struct tt_tuner_options tuner;
    /* results of an earlier tuning, used in place of trials; may be NULL */
    const struct tt_tuner *tuned;
    bool spans;
};
/* The result of one simulated step; owns the policy and the spans. */
struct tt_trainsim {
    struct tt_policy *policy;
    struct tt_policy_times times;
    struct tt_policy_span *spans; /* NULL unless asked for */
    size_t nspans;
    struct tt_tuner tuner; /* n > 0: the threshold comes from these trials */
};
/* Borrows everything for the call; the caller frees *ret. REFUSED: an algorithm that the policy
 * needs has no plan on this network. */
tutti_status tt_trainsim_run(const struct tt_model *m, struct tt_prices *prices,
                             const struct tt_trainsim_options *o, struct tt_trainsim **ret,
                             struct tutti_error *err);
void tt_trainsim_free(struct tt_trainsim *s); /* accepts NULL */
/* What a tuning result depends on: model, prices and policy. */
uint64_t tt_trainsim_key(const struct tt_model *m, const struct tt_prices *prices,
                         const struct tt_trainsim_options *o);
#endif
