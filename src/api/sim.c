/* sim.c - the public functions of simulations over sim/: options are translated, the report's
 * integers become the units of the public interface, and the sums that every reader of a report
 * wants (utilisation, idle time) are computed here.
 *
 * Directed links are numbered 2 * cable and 2 * cable + 1, one for each direction. */
#include "api/api.h"

#include <stdlib.h>

#include "sim/sim.h"

/* A finished simulation. It holds the topology, whose bandwidths utilisation needs. */
struct api_sim {
    struct api_topo *topo; /* held */
    struct tt_sim_report *r;
    /* by directed link: its bandwidth was divided by this; NULL: no link was degraded */
    double *factor;
};

/* Everything but the arrays of the what-ifs, which sim_run adds. */
static struct tt_sim_options sim_translate(const struct tutti_sim_options *o)
{
    return (struct tt_sim_options){.level = o->packet ? TT_SIM_PACKET : TT_SIM_FLOW,
                                   .sharing = o->rtt ? TT_SIM_RTT : TT_SIM_FAIR,
                                   .whatif = {.nslow = o->nslow,
                                              .ndegrade = o->ndegrade,
                                              .jitter = o->jitter,
                                              .seed = o->seed},
                                   .packet = {.message_mode = o->message_mode,
                                              .lockstep = o->lockstep,
                                              .flit_bytes = o->flit_bytes,
                                              .payload_bytes = o->payload_bytes,
                                              .cycles_per_flit = o->cycles_per_flit,
                                              .vcs = o->vcs,
                                              .buffer_flits = o->buffer_flits,
                                              .router_cycles = o->router_cycles,
                                              .interfaces = o->interfaces,
                                              .aggregate_bytes_per_s = o->aggregate_bytes_per_s},
                                   .timeline = o->timeline,
                                   .progress = o->progress,
                                   .progress_ctx = o->progress_ctx};
}

/* Copies the what-ifs into the structs of sim/; the caller frees both arrays. One spare element,
 * so that no array is empty. */
static tutti_status copy_whatif(const struct tutti_sim_options *o, struct tt_sim_slow **ret_slow,
                                struct tt_sim_degrade **ret_degrade, struct tutti_error *err)
{
    struct tt_sim_slow *slow = tt_alloc(o->nslow + 1, sizeof *slow);
    struct tt_sim_degrade *degrade = tt_alloc(o->ndegrade + 1, sizeof *degrade);
    if (!slow || !degrade) {
        free(slow);
        free(degrade);
        return tt_fail_memory(err, "what-ifs");
    }
    for (size_t i = 0; i < o->nslow; i++)
        slow[i] = (struct tt_sim_slow){o->slow[i].rank, o->slow[i].factor};
    for (size_t i = 0; i < o->ndegrade; i++)
        degrade[i] = (struct tt_sim_degrade){o->degrade[i].link, o->degrade[i].factor};
    *ret_slow = slow;
    *ret_degrade = degrade;
    return TUTTI_OK;
}

/* Remembers the factors of degraded links for link_at. The two directions of a half-duplex cable
 * share one capacity and one factor. */
static tutti_status note_factors(struct api_sim *sim, const struct tutti_sim_options *o,
                                 struct tutti_error *err)
{
    if (!o->ndegrade)
        return TUTTI_OK;
    sim->factor = tt_alloc(sim->r->nlinks2, sizeof *sim->factor);
    if (!sim->factor)
        return tt_fail_memory(err, "links");
    for (uint32_t i = 0; i < sim->r->nlinks2; i++)
        sim->factor[i] = 1;
    for (size_t i = 0; i < o->ndegrade; i++) {
        uint32_t d = o->degrade[i].link;
        sim->factor[d] *= o->degrade[i].factor;
        if (sim->topo->t->links[d / 2].half)
            sim->factor[d ^ 1] = sim->factor[d];
    }
    return TUTTI_OK;
}

static void sim_free(struct api_sim *sim)
{
    if (!sim)
        return;
    tt_sim_report_free(sim->r);
    tt_api_topo_release(sim->topo);
    free(sim->factor);
    free(sim);
}

/* The arguments of tutti_sim_run, with objects instead of handles. */
struct job {
    const struct tt_sched *schedule;
    const struct api_topo *topo;
    uint64_t count;
    tutti_dtype dtype;
    const struct tutti_sim_options *options;
};

/* Fills *sim; on failure the caller frees what was filled so far. */
static tutti_status sim_run(const struct job *j, struct api_sim *sim, struct tutti_error *err)
{
    struct tt_sim_options o = sim_translate(j->options);
    struct tt_sim_slow *slow = NULL;
    struct tt_sim_degrade *degrade = NULL;
    tutti_status st = copy_whatif(j->options, &slow, &degrade, err);
    sim->topo = tt_api_topo_hold(j->topo);
    if (!st) {
        o.whatif.slow = slow;
        o.whatif.degrade = degrade;
        st = tt_sim_run(j->schedule, j->topo->t, j->count, j->dtype, &o, &sim->r, err);
    }
    if (!st)
        st = note_factors(sim, j->options, err);
    free(slow);
    free(degrade);
    return st;
}

/* Checks that sim/ leaves to its caller. */
static tutti_status sim_check(const char *function, const struct job *j, struct tutti_error *err)
{
    const struct tutti_sim_options *o = j->options;
    if ((o->nslow && !o->slow) || (o->ndegrade && !o->degrade))
        return tt_api_bad(function, err, TUTTI_ERR_ARG, "options: %s is NULL",
                          o->nslow && !o->slow ? "slow" : "degrade");
    return tt_api_dtype(function, j->dtype, err);
}

tutti_status tutti_sim_run(const struct tutti_schedule *schedule, const struct tutti_topo *topo,
                           uint64_t count, tutti_dtype dtype,
                           const struct tutti_sim_options *options, struct tutti_sim **ret,
                           struct tutti_error *err)
{
    struct job j = {.count = count, .dtype = dtype, .options = options};
    j.schedule = api_find(SCHEDULE, schedule, err);
    j.topo = j.schedule ? api_find(TOPO, topo, err) : NULL;
    tutti_status st = j.topo ? api_given(err, "options", options, "ret", ret) : TUTTI_ERR_ARG;
    if (!st)
        st = sim_check(__func__, &j, err);
    if (st)
        return st;
    struct api_sim *sim = tt_zalloc(1, sizeof *sim);
    st = sim ? sim_run(&j, sim, err) : tt_fail_memory(err, "simulation");
    void *handle = st ? NULL : tt_api_make(API_SIM, sim, NULL, err);
    if (!handle) {
        sim_free(sim);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_sim_free(struct tutti_sim *sim)
{
    sim_free(api_end(SIM, sim));
}

/* Utilisation: bytes carried / bytes that the link could have carried in the whole time. */
static bool link_at(const struct api_sim *sim, size_t i, struct tutti_sim_link *ret)
{
    if (i >= sim->r->nlinks2)
        return false;
    const struct tt_sim_link *l = &sim->r->links[i];
    double bw = sim->topo->t->links[i / 2].bw[i & 1] / (sim->factor ? sim->factor[i] : 1);
    double could = bw * (double)sim->r->time_ps * 1e-12;
    *ret = (struct tutti_sim_link){.bytes_per_s = bw,
                                   .bytes = l->bytes,
                                   .busy_us = tt_api_us(l->busy_ps),
                                   .utilisation = could > 0 ? (double)l->bytes / could : 0,
                                   .peak = l->peak};
    return true;
}

bool tutti_sim_link(const struct tutti_sim *sim, size_t i, struct tutti_sim_link *ret)
{
    const struct api_sim *object = api_need(SIM, sim);
    api_must("ret", ret);
    return link_at(object, i, ret);
}

static bool rank_at(const struct api_sim *sim, size_t i, struct tutti_sim_rank *ret)
{
    if (i >= sim->r->ranks)
        return false;
    const struct tt_sim_rank *r = &sim->r->rank[i];
    *ret = (struct tutti_sim_rank){.end_us = tt_api_us(r->end_ps),
                                   .send_us = tt_api_us(r->send_ps),
                                   .receive_us = tt_api_us(r->recv_ps),
                                   .reduce_us = tt_api_us(r->reduce_ps),
                                   .idle_us = tt_api_us(r->idle_ps)};
    return true;
}

bool tutti_sim_rank(const struct tutti_sim *sim, size_t i, struct tutti_sim_rank *ret)
{
    const struct api_sim *object = api_need(SIM, sim);
    api_must("ret", ret);
    return rank_at(object, i, ret);
}

bool tutti_sim_event(const struct tutti_sim *sim, size_t i, struct tutti_sim_event *ret)
{
    const struct tt_sim_report *r = ((const struct api_sim *)api_need(SIM, sim))->r;
    api_must("ret", ret);
    if (!r->timeline || i >= r->ntimeline)
        return false;
    const struct tt_sim_event *e = &r->timeline[i];
    *ret = (struct tutti_sim_event){.src = e->src,
                                    .dst = e->dst,
                                    .step = e->step,
                                    .channel = e->channel,
                                    .segment = e->segment,
                                    .bytes = e->bytes,
                                    .ready_ps = e->ready_ps,
                                    .start_ps = e->start_ps,
                                    .end_ps = e->end_ps};
    return true;
}

bool tutti_sim_work(const struct tutti_sim *sim, size_t i, struct tutti_sim_work *ret)
{
    const struct tt_sim_report *r = ((const struct api_sim *)api_need(SIM, sim))->r;
    api_must("ret", ret);
    if (!r->work || i >= r->nwork)
        return false;
    const struct tt_sim_work *w = &r->work[i];
    *ret = (struct tutti_sim_work){.rank = w->rank,
                                   .step = w->step,
                                   .bytes = w->bytes,
                                   .start_ps = w->start_ps,
                                   .end_ps = w->end_ps};
    return true;
}

/* The mean is over links that carried something; unused links would only dilute it. */
static void sum_links(const struct api_sim *sim, struct tutti_sim_info *ret)
{
    struct tutti_sim_link l;
    double sum = 0;
    uint32_t peak = 0;
    for (size_t i = 0; link_at(sim, i, &l); i++) {
        ret->links_used += l.bytes > 0;
        sum += l.utilisation;
        if (l.utilisation > ret->max_utilisation)
            ret->max_utilisation = l.utilisation;
        if (l.peak > peak) {
            peak = l.peak;
            ret->peak_link = (uint32_t)i;
        }
    }
    ret->mean_utilisation = ret->links_used ? sum / ret->links_used : 0;
}

/* Mean and maximum of the idle times. */
static void sum_ranks(const struct api_sim *sim, struct tutti_sim_info *ret)
{
    struct tutti_sim_rank r;
    double sum = 0;
    for (size_t i = 0; rank_at(sim, i, &r); i++) {
        sum += r.idle_us;
        if (r.idle_us > ret->max_idle_us)
            ret->max_idle_us = r.idle_us;
    }
    ret->mean_idle_us = ret->ranks ? sum / ret->ranks : 0;
}

void tutti_sim_info(const struct tutti_sim *sim, struct tutti_sim_info *ret)
{
    const struct api_sim *object = api_need(SIM, sim);
    const struct tt_sim_report *r = object->r;
    api_must("ret", ret);
    *ret = (struct tutti_sim_info){.time_us = tt_api_us(r->time_ps),
                                   .steps = r->steps,
                                   .ranks = r->ranks,
                                   .links = r->nlinks2,
                                   .messages = r->messages,
                                   .events = r->events,
                                   .bytes_on_busiest_link =
                                       r->nlinks2 ? r->links[r->busiest_link].bytes : 0,
                                   .busiest_link = r->busiest_link,
                                   .max_link_contention = r->max_link_contention,
                                   .cycles = r->cycles,
                                   .flits = r->flits,
                                   .head_flits = r->head_flits,
                                   .stalls = r->credit_stalls,
                                   .lockstep_wait_us = tt_api_us(r->lockstep_waits_ps)};
    sum_links(object, ret);
    sum_ranks(object, ret);
}
