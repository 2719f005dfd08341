/* trainsim.c - the public functions of models, prices and simulated training steps over trainsim/
 * and policy/.
 *
 *     model (profile or built-in) --.
 *     prices (of one network) ------+--> simulated step --> info, buckets, spans, trials, log
 *     options (policy, fusion) -----'
 *
 * A simulated step holds its model, whose names it shows. */
#include "api/api.h"

#include <stdlib.h>

#include "api/model.h"

struct api_prices {
    struct tt_prices *p;
    struct api_topo *topo; /* held */
};
/* `key` identifies model, network and options, so that a tuning file is used only where it fits. */
struct api_trainsim {
    struct api_model *model; /* held */
    struct tt_trainsim *s;
    uint64_t key;
};

static const char *const order_names[] = {"best", "next-use", "patient", "two-phase", "published"};

bool tutti_policy_get(size_t i, struct tutti_name *ret)
{
    api_must("ret", ret);
    if (i >= TT_POLICY_COUNT)
        return false;
    *ret = (struct tutti_name){tt_policy_name((enum tt_policy_kind)i),
                               tt_policy_desc((enum tt_policy_kind)i)};
    return true;
}

bool tutti_fusion_get(size_t i, struct tutti_name *ret)
{
    api_must("ret", ret);
    if (i >= TT_FUSION_COUNT)
        return false;
    *ret = (struct tutti_name){tt_policy_fusion_name((enum tt_fusion)i),
                               tt_policy_fusion_desc((enum tt_fusion)i)};
    return true;
}

/* ---- prices ---- */

static void prices_close(struct api_prices *p)
{
    if (!p)
        return;
    tt_trainsim_prices_close(p->p);
    tt_api_topo_release(p->topo);
    free(p);
}

tutti_status tutti_prices_open(const struct tutti_topo *topo, const char *algo, bool flow,
                               struct tutti_prices **ret, struct tutti_error *err)
{
    struct tt_prices_options o = {.algo = algo, .flow = flow};
    const struct api_topo *t = api_find(TOPO, topo, err);
    tutti_status st = t ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    struct api_prices *p = st ? NULL : tt_zalloc(1, sizeof *p);
    if (!p)
        return st ? st : tt_fail_memory(err, "prices");
    p->topo = tt_api_topo_hold(t);
    st = tt_trainsim_prices_open(t->t, &o, &p->p, err);
    void *handle = st ? NULL : tt_api_make(API_PRICES, p, NULL, err);
    if (!handle) {
        prices_close(p);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_prices_close(struct tutti_prices *prices)
{
    prices_close(api_end(PRICES, prices));
}

/* ---- simulation ---- */

/* The position in order_names is the value of enum tt_policy_order. */
static tutti_status find_order(const char *name, enum tt_policy_order *ret, struct tutti_error *err)
{
    char near[160];
    for (size_t i = 0; i < countof(order_names); i++)
        if (tt_streq(name, order_names[i])) {
            *ret = (enum tt_policy_order)i;
            return TUTTI_OK;
        }
    tt_near_matches(name, order_names, countof(order_names), near, sizeof near);
    return tt_fail(err, TUTTI_ERR_ARG, "no order '%.64s'%s%s", name, *near ? "; " : "", near);
}

/* Public options to those of trainsim/. "bayesian" is no fusion of policy/: it searches the
 * threshold of the default one. */
static tutti_status trainsim_translate(const struct tutti_trainsim_options *o,
                                       struct tt_trainsim_options *ret, struct tutti_error *err)
{
    int policy = tt_policy_find(o->policy ? o->policy : "dear", err);
    bool bayes = o->fusion && tt_streq(o->fusion, "bayesian");
    int fusion = o->fusion && !bayes ? tt_policy_fusion_find(o->fusion, err) : TT_FUSION_DEFAULT;
    if (policy < 0 || fusion < 0)
        return TUTTI_ERR_ARG;
    struct tt_policy_options p = {.kind = (enum tt_policy_kind)policy,
                                  .recursive_doubling = o->recursive_doubling,
                                  .fusion = (enum tt_fusion)fusion,
                                  .threshold_bytes = o->threshold_bytes,
                                  .first_bytes = o->first_bytes,
                                  .nearby = o->nearby,
                                  .cycle_ps = o->cycle_ps,
                                  .partition_bytes = o->partition_bytes,
                                  .lookahead = o->lookahead};
    tutti_status st = o->order ? find_order(o->order, &p.order, err) : TUTTI_OK;
    if (!st)
        *ret = (struct tt_trainsim_options){.policy = p,
                                            .update_bytes_per_s = o->update_bytes_per_s,
                                            .tune = bayes,
                                            .tuner = {.min_bytes = o->min_threshold,
                                                      .max_bytes = o->max_threshold,
                                                      .start_bytes = o->threshold_bytes,
                                                      .trials = o->trials},
                                            .spans = o->spans};
    return st;
}

/* Reads the result of an earlier search; refused unless it was made for the same label. */
static tutti_status trainsim_load(const char *path, const struct tt_tuner_label *label,
                                  struct tt_tuner *ret, struct tutti_error *err)
{
    FILE *in;
    const char *name;
    tutti_status st = tt_api_open(path, "r", &in, &name, err);
    if (st)
        return st;
    st = tt_policy_tuner_read(in, name, label, ret, err);
    tt_api_close(in, name, false, NULL);
    return st;
}

static void trainsim_free(struct api_trainsim *sim)
{
    if (!sim)
        return;
    tt_trainsim_free(sim->s);
    tt_api_model_release(sim->model);
    free(sim);
}

/* Fills *s; on failure the caller frees what was filled so far. */
static tutti_status trainsim_run(struct api_model *model, struct tt_prices *prices,
                                 const struct tutti_trainsim_options *options,
                                 struct api_trainsim *s, struct tutti_error *err)
{
    struct tt_trainsim_options o;
    struct tt_tuner tuned;
    tutti_status st = trainsim_translate(options, &o, err);
    if (st)
        return st;
    s->key = tt_trainsim_key(model->m, prices, &o);
    if (options->tuning) {
        struct tt_tuner_label label = {model->m->name, tt_policy_name(o.policy.kind), s->key};
        st = trainsim_load(options->tuning, &label, &tuned, err);
        o.tuned = &tuned;
    }
    if (st)
        return st;
    atomic_fetch_add(&model->holders, 1);
    s->model = model;
    return tt_trainsim_run(model->m, prices, &o, &s->s, err);
}

tutti_status tutti_trainsim_run(const struct tutti_model *model, struct tutti_prices *prices,
                                const struct tutti_trainsim_options *options,
                                struct tutti_trainsim **ret, struct tutti_error *err)
{
    struct api_model *m = api_find(MODEL, model, err);
    const struct api_prices *p = m ? api_find(PRICES, prices, err) : NULL;
    tutti_status st = p ? api_given(err, "options", options, "ret", ret) : TUTTI_ERR_ARG;
    struct api_trainsim *s = st ? NULL : tt_zalloc(1, sizeof *s);
    if (!s)
        return st ? st : tt_fail_memory(err, "simulation");
    st = trainsim_run(m, p->p, options, s, err);
    void *handle = st ? NULL : tt_api_make(API_TRAINSIM, s, NULL, err);
    if (!handle) {
        trainsim_free(s);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_trainsim_free(struct tutti_trainsim *sim)
{
    trainsim_free(api_end(TRAINSIM, sim));
}

/* sync has one bucket whatever its fusion is, and policies that wait at step launch in the order
 * of readiness: both are named as such. */
void tutti_trainsim_info(const struct tutti_trainsim *sim, struct tutti_trainsim_info *ret)
{
    const struct tt_trainsim *s = ((const struct api_trainsim *)api_need(TRAINSIM, sim))->s;
    const struct tt_policy *p = s->policy;
    const struct tt_policy_times *t = &s->times;
    api_must("ret", ret);
    bool threshold = p->options.fusion == TT_FUSION_THRESHOLD && p->options.kind != TT_POLICY_SYNC;
    *ret = (struct tutti_trainsim_info){
        .policy = tt_policy_name(p->options.kind),
        .fusion =
            p->options.kind == TT_POLICY_SYNC ? "one" : tt_policy_fusion_name(p->options.fusion),
        .order = p->wait_at_step ? "ready" : order_names[p->options.order],
        .iteration_us = tt_api_us(t->iteration_ps),
        .forward_us = tt_api_us(t->forward_ps),
        .backward_us = tt_api_us(t->backward_ps),
        .update_us = tt_api_us(t->update_ps),
        .comm_us = tt_api_us(t->comm_ps),
        .stream_us = tt_api_us(t->stream_ps),
        .exposed_comm_us = tt_api_us(t->exposed_ps),
        .ideal_us = tt_api_us(t->ideal_ps),
        .limit_us = tt_api_us(t->limit_ps),
        .buckets = p->nbuckets,
        .launches = p->nlaunches,
        .trials = s->tuner.n,
        .threshold_bytes = threshold ? p->options.threshold_bytes : 0,
        .first_bytes = threshold ? p->options.first_bytes : 0,
        .hash = p->hash};
}

/* Tensor i of the simulated model. */
static const struct tt_model_tensor *tensor(const struct api_trainsim *sim, uint32_t i)
{
    return tt_vec_at(&sim->model->m->tensors, i);
}

bool tutti_trainsim_bucket(const struct tutti_trainsim *handle, size_t i,
                           struct tutti_trainsim_bucket *ret)
{
    const struct api_trainsim *sim = api_need(TRAINSIM, handle);
    api_must("ret", ret);
    if (i >= sim->s->policy->nbuckets)
        return false;
    const struct tt_policy_bucket *b = &sim->s->policy->buckets[i];
    *ret = (struct tutti_trainsim_bucket){.first = tensor(sim, b->first)->name,
                                          .last = tensor(sim, b->last)->name,
                                          .tensors = b->last - b->first + 1,
                                          .offset_bytes = b->offset_bytes,
                                          .bytes = b->bytes,
                                          .algo = tt_policy_algo_name(b->algo),
                                          .decoupled = b->decoupled};
    return true;
}

/* Fields of a span that belongs to a bucket. */
static void describe_bucket(const struct api_trainsim *sim, uint32_t bucket,
                            struct tutti_trainsim_span *ret)
{
    const struct tt_policy_bucket *b = &sim->s->policy->buckets[bucket];
    ret->bucket = bucket;
    ret->bytes = b->bytes;
    ret->name = tensor(sim, b->first)->name;
}

bool tutti_trainsim_span(const struct tutti_trainsim *handle, size_t i,
                         struct tutti_trainsim_span *ret)
{
    const struct api_trainsim *sim = api_need(TRAINSIM, handle);
    api_must("ret", ret);
    if (i >= sim->s->nspans)
        return false;
    const struct tt_policy *p = sim->s->policy;
    const struct tt_policy_span *s = &sim->s->spans[i];
    *ret = (struct tutti_trainsim_span){
        .name = "", .bucket = UINT32_MAX, .start_ps = s->start_ps, .end_ps = s->end_ps};
    if (s->kind == TT_SPAN_LAUNCH) {
        ret->what = tutti_coll_name(p->launches[s->index].coll);
        ret->stream = true;
        describe_bucket(sim, p->launches[s->index].bucket, ret);
    } else if (s->kind == TT_SPAN_UPDATE) {
        ret->what = "update";
        ret->beside = p->update == TT_UPDATE_SHARD;
        if (s->index != TT_NO_LAUNCH)
            describe_bucket(sim, s->index, ret);
    } else {
        ret->what = s->kind == TT_SPAN_BACKWARD ? "backward" : "forward";
        ret->name = tensor(sim, s->index)->name;
    }
    return true;
}

bool tutti_trainsim_trial(const struct tutti_trainsim *handle, size_t i,
                          struct tutti_trainsim_trial *ret)
{
    const struct api_trainsim *sim = api_need(TRAINSIM, handle);
    api_must("ret", ret);
    if (i >= sim->s->tuner.n)
        return false;
    const struct tt_trial *t = &sim->s->tuner.trials[i];
    *ret = (struct tutti_trainsim_trial){t->threshold_bytes, tt_api_us(t->time_ps)};
    return true;
}

/* An empty log is an empty string, not NULL: NULL means out of memory. */
char *tutti_trainsim_log(const struct tutti_trainsim *handle)
{
    const struct api_trainsim *sim = api_need(TRAINSIM, handle);
    struct tt_str out = {0};
    if (sim->s->tuner.n > 0)
        tt_policy_tuner_explain(&sim->s->tuner, &out);
    else
        tt_str_add(&out, "", 0);
    if (out.failed) {
        tt_str_free(&out);
        return NULL;
    }
    return out.s;
}

void tutti_trainsim_save(const struct tutti_trainsim *handle, FILE *out)
{
    const struct api_trainsim *sim = api_need(TRAINSIM, handle);
    api_must("out", out);
    struct tt_tuner_label label = {sim->model->m->name,
                                   tt_policy_name(sim->s->policy->options.kind), sim->key};
    tt_policy_tuner_write(&sim->s->tuner, &label, out);
}
