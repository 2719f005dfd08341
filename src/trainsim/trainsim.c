/* trainsim.c - one simulated training step: the tensors of a model, a policy made for them with the
 * planner's prices, and the policy's timeline. With `tune`, the threshold is found as a job would
 * find it: the model "measures" a step, the tuner proposes the next threshold.
 *
 *     model -> tensors -+-> policy (policy/make.c) -> timeline -> times, spans
 *     network -> prices +        ^                       |
 *                                +--- threshold <- tuner <+   (with tune) */
#include "trainsim/trainsim.h"

#include <stdlib.h>

struct task { /* what every trial shares */
    const struct tt_policy_tensor *t;
    uint32_t n;
    struct tt_policy_costs costs;
};

void tt_trainsim_free(struct tt_trainsim *s)
{
    if (!s)
        return;
    tt_policy_free(s->policy);
    free(s->spans);
    free(s);
}

/* Mixes everything that changes the best threshold: a stored result of another job must not match.
 * Names are left out, as they change nothing. */
uint64_t tt_trainsim_key(const struct tt_model *m, const struct tt_prices *prices,
                         const struct tt_trainsim_options *o)
{
    uint64_t h = tt_mix64(tt_trainsim_prices_hash(prices) ^ o->policy.kind);
    h = tt_mix64(h ^ m->batch);
    for (size_t i = 0; i < m->tensors.len; i++)
        h = tt_mix64(h ^ ((const struct tt_model_tensor *)tt_vec_at(&m->tensors, i))->count);
    for (size_t i = 0; i < m->layers.len; i++) {
        const struct tt_model_layer *l = tt_vec_at(&m->layers, i);
        h = tt_mix64(tt_mix64(h ^ l->forward_ps) ^ l->backward_ps);
    }
    return h;
}

/* The time of one step under these options, without keeping the policy. */
static tutti_status trainsim_step(const struct task *k, const struct tt_policy_options *o,
                                  uint64_t *ret_ps, struct tutti_error *err)
{
    struct tt_policy *p = NULL;
    struct tt_policy_times times;
    tutti_status st = tt_policy_make(o, k->t, k->n, &k->costs, &p, err);
    if (!st)
        st = tt_policy_time(p, k->t, &k->costs, &times, NULL, NULL, err);
    if (!st)
        *ret_ps = times.iteration_ps;
    tt_policy_free(p);
    return st;
}

/* Runs trials until the tuner is satisfied; o ends with the best threshold. */
static tutti_status tune(const struct task *k, struct tt_policy_options *o, struct tt_tuner *tuner,
                         struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint64_t bytes, ps = 0;
    o->fusion = TT_FUSION_THRESHOLD;
    while (!st && tt_policy_tuner_next(tuner, &bytes)) {
        o->threshold_bytes = bytes;
        st = trainsim_step(k, o, &ps, err);
        if (!st)
            tt_policy_tuner_tell(tuner, ps);
    }
    if (!st)
        o->threshold_bytes = tuner->trials[tt_policy_tuner_best(tuner)].threshold_bytes;
    return st;
}

/* The policy's final options: from an earlier tuning, from a new one, or as given. */
static tutti_status trainsim_settle(const struct task *k, const struct tt_trainsim_options *o,
                                    struct tt_policy_options *policy, struct tt_tuner *tuner,
                                    struct tutti_error *err)
{
    *policy = o->policy;
    if (o->tuned) {
        *tuner = *o->tuned;
        policy->fusion = TT_FUSION_THRESHOLD;
        policy->threshold_bytes = tuner->trials[tt_policy_tuner_best(tuner)].threshold_bytes;
        return TUTTI_OK;
    }
    if (!o->tune)
        return TUTTI_OK;
    tutti_status st = tt_policy_tuner_init(tuner, &o->tuner, err);
    return st ? st : tune(k, policy, tuner, err);
}

/* Makes the final policy and its timeline, with spans if they are wanted. */
static tutti_status trainsim_simulate(const struct task *k, const struct tt_trainsim_options *o,
                                      struct tt_trainsim *s, struct tutti_error *err)
{
    struct tt_policy_options policy;
    tutti_status st = trainsim_settle(k, o, &policy, &s->tuner, err);
    if (!st)
        st = tt_policy_make(&policy, k->t, k->n, &k->costs, &s->policy, err);
    if (!st)
        st = tt_policy_time(s->policy, k->t, &k->costs, &s->times, o->spans ? &s->spans : NULL,
                            &s->nspans, err);
    return st;
}

/* *ret is set only when everything succeeded. */
tutti_status tt_trainsim_run(const struct tt_model *m, struct tt_prices *prices,
                             const struct tt_trainsim_options *o, struct tt_trainsim **ret,
                             struct tutti_error *err)
{
    struct tt_policy_tensor *tensors = NULL;
    struct tt_trainsim *s = tt_zalloc(1, sizeof *s);
    tutti_status st =
        s ? tt_trainsim_model_tensors(m, &tensors, err) : tt_fail_memory(err, "simulation");
    if (!st) {
        struct task k = {tensors, (uint32_t)m->tensors.len, tt_trainsim_prices_costs(prices)};
        if (o->update_bytes_per_s > 0)
            k.costs.update_ps_per_mib = (uint64_t)(1048576e12 / o->update_bytes_per_s);
        st = trainsim_simulate(&k, o, s, err);
        /* A policy is refused when a price is missing; the reason is the planner's. */
        const struct tutti_error *why = tt_trainsim_prices_failure(prices);
        if (st == TUTTI_ERR_REFUSED && why)
            st = tt_fail(err, why->status == TUTTI_ERR_MEMORY ? TUTTI_ERR_MEMORY : st, "%s: %.400s",
                         tt_policy_name(o->policy.kind), why->text);
    }
    free(tensors);
    if (st) {
        tt_trainsim_free(s);
        return st;
    }
    *ret = s;
    return TUTTI_OK;
}
