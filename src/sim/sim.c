/* sim.c - the entry point of the simulators: checks that schedule, network and what-ifs fit
 * together, and makes what both levels report alike.
 *
 *     check -> symmetric? -> work (work.c) -> report, static part -> flow.c or packet.c -> times
 *
 * The engines get the work, the rates of all links and a report whose static part is done: bytes
 * per link and contention. They only add when things happened. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cost/cost.h"
#include "sim/sim_int.h"

static tutti_status check_fit(const struct tt_sched *s, const struct tt_topo *t,
                              struct tutti_error *err)
{
    if (s->shape.ranks != t->ranks)
        return tt_fail(err, TUTTI_ERR_MISMATCH, "the schedule is for %u ranks, the topology has %u",
                       s->shape.ranks, t->ranks);
    if (s->first_rank != 0 || (s->nslices != s->shape.ranks && !tt_sim_holds_one(s)))
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "the schedule holds %u of %u ranks; a simulation needs all", s->nslices,
                       s->shape.ranks);
    if (s->nroutes > 0 && s->shape.topo_hash != t->hash)
        return tt_fail(err, TUTTI_ERR_MISMATCH,
                       "the schedule chooses its own routes (the first is %u->%u), and they are "
                       "for another network than %s",
                       s->routes[0].src, s->routes[0].dst, t->spec ? t->spec : t->kind);
    return TUTTI_OK;
}

/* Declared routes must be valid: cost refuses others, naming the route and the hop. */
static tutti_status check_routes(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                                 tutti_dtype dtype, struct tutti_error *err)
{
    struct tt_sched once = *s;
    struct tt_cost unused;
    once.shape.segments = 1;
    return tt_cost_sched(&once, t, count, dtype, &unused, err);
}

static bool bad_factor(double f)
{
    return !(f > 0) || !isfinite(f);
}

static tutti_status check_whatif(const struct tt_sim_whatif *q, const struct tt_topo *t,
                                 struct tutti_error *err)
{
    for (size_t i = 0; i < q->nslow; i++) {
        if (q->slow[i].rank >= t->ranks)
            return tt_fail(err, TUTTI_ERR_ARG, "slow: there is no rank %u, the topology has %u",
                           q->slow[i].rank, t->ranks);
        if (bad_factor(q->slow[i].factor))
            return tt_fail(err, TUTTI_ERR_ARG, "slow: the factor of rank %u must be positive",
                           q->slow[i].rank);
    }
    for (size_t i = 0; i < q->ndegrade; i++) {
        if (q->degrade[i].link >= 2 * (uint64_t)t->nlinks)
            return tt_fail(err, TUTTI_ERR_ARG,
                           "degrade: there is no directed link %u, the topology has %llu",
                           q->degrade[i].link, 2 * (unsigned long long)t->nlinks);
        if (bad_factor(q->degrade[i].factor))
            return tt_fail(err, TUTTI_ERR_ARG, "degrade: the factor of link %u must be positive",
                           q->degrade[i].link);
    }
    if (!(q->jitter >= 0) || q->jitter > 1e6)
        return tt_fail(err, TUTTI_ERR_ARG, "jitter must be between 0 and 1000000");
    return TUTTI_OK;
}

/* The factor depends on seed and number only, not on the order of events: both levels agree. */
uint64_t tt_sim_latency(const struct tt_sim_whatif *q, uint64_t latency_ps, uint64_t number)
{
    if (q->jitter == 0)
        return latency_ps;
    double part = (double)(tt_mix64(q->seed ^ tt_mix64(number)) >> 11) * 0x1p-53;
    double more = (double)latency_ps * q->jitter * part;
    return latency_ps + (more < 0x1p62 ? (uint64_t)more : UINT64_C(1) << 62);
}

void tt_sim_record(struct tt_sim_report *r, const struct tt_sim_event *e)
{
    if (r->timeline)
        r->timeline[r->ntimeline++] = *e;
}

bool tt_sim_progress(const struct tt_sim_options *o, uint64_t done, uint64_t all)
{
    return !o->progress || o->progress(o->progress_ctx, all ? (double)done / (double)all : 1.0);
}

/* ---- input ---- */

/* Factors of one rank or link multiply. A half-duplex cable has one rate: degrading either
 * direction degrades it. */
static tutti_status make_rates(const struct tt_sim_options *o, const struct tt_topo *t,
                               double **ret_slow, double **ret_rate, struct tutti_error *err)
{
    double *slow = tt_alloc(t->ranks, sizeof *slow),
           *rate = tt_alloc(2 * (size_t)t->nlinks + 1, sizeof *rate);
    if (!slow || !rate) {
        free(slow);
        free(rate);
        return tt_fail_memory(err, "rates");
    }
    for (uint32_t r = 0; r < t->ranks; r++)
        slow[r] = 1;
    for (size_t i = 0; i < o->whatif.nslow; i++)
        slow[o->whatif.slow[i].rank] *= o->whatif.slow[i].factor;
    for (uint32_t d = 0; d < 2 * t->nlinks; d++)
        rate[d] = t->links[d / 2].bw[t->links[d / 2].half ? 0 : d & 1];
    for (size_t i = 0; i < o->whatif.ndegrade; i++) {
        uint32_t d = o->whatif.degrade[i].link;
        rate[d] /= o->whatif.degrade[i].factor;
        if (t->links[d / 2].half)
            rate[d ^ 1] = rate[d];
    }
    *ret_slow = slow;
    *ret_rate = rate;
    return TUTTI_OK;
}

/* ---- report ---- */

static uint64_t conn_elems(const struct tt_work *w, const struct tt_work_conn *c)
{
    uint64_t elems = 0;
    for (uint32_t i = 0; i < c->count; i++)
        elems += w->msg[c->first + i].elems;
    return elems;
}

/* Bytes follow from the schedule alone, so they are counted before the run. */
static void fill_links(struct tt_sim_report *r, const struct tt_sim_input *in)
{
    const struct tt_work *w = in->w;
    for (uint32_t i = 0; i < w->nconns; i++) {
        uint64_t bytes = conn_elems(w, &w->conn[i]) * w->elem_bytes;
        for (uint32_t k = 0; k < w->conn[i].nlinks; k++)
            r->links[w->path[w->conn[i].path_at + k]].bytes += bytes;
    }
}

static void find_busiest(struct tt_sim_report *r, const struct tt_sim_input *in)
{
    double most = -1;
    for (uint32_t d = 0; d < r->nlinks2; d++) {
        double load = (double)r->links[d].bytes / in->rate[d];
        if (load > most) {
            most = load;
            r->busiest_link = d;
        }
    }
}

/* Allocates everything that a run writes, so that engines need no memory for the report. */
static tutti_status report_make(const struct tt_sim_input *in, struct tt_sim_report **ret,
                                struct tutti_error *err)
{
    struct tt_sim_report *r = tt_zalloc(1, sizeof *r);
    if (!r)
        return tt_fail_memory(err, "report");
    r->steps = in->s->steps;
    r->ranks = in->t->ranks;
    r->nlinks2 = 2 * in->t->nlinks;
    r->messages = (uint64_t)in->w->nmsgs * in->w->segments * (in->w->class_link ? r->ranks : 1);
    r->links = tt_zalloc((size_t)r->nlinks2 + 1, sizeof *r->links);
    r->rank = tt_zalloc(r->ranks, sizeof *r->rank);
    if (in->o->timeline)
        r->timeline = tt_alloc((size_t)r->messages + 1, sizeof *r->timeline);
    if (!r->links || !r->rank ||
        (in->o->timeline && (!r->timeline || !tt_sim_timeline_room(in, r)))) {
        tt_sim_report_free(r);
        return tt_fail_memory(err, "report");
    }
    fill_links(r, in);
    r->max_link_contention = tt_sim_work_contention(in->w);
    if (r->max_link_contention == UINT32_MAX) {
        tt_sim_report_free(r);
        return tt_fail_memory(err, "contention");
    }
    *ret = r;
    return TUTTI_OK;
}

void tt_sim_report_free(struct tt_sim_report *r)
{
    if (!r)
        return;
    free(r->links);
    free(r->rank);
    free(r->timeline);
    free(r->work);
    free(r);
}

/* A total order, so that timelines are the same on every machine. */
static int by_start(const void *x, const void *y)
{
    const struct tt_sim_event *a = x, *b = y;
    if (a->start_ps != b->start_ps)
        return a->start_ps < b->start_ps ? -1 : 1;
    if (a->src != b->src)
        return a->src < b->src ? -1 : 1;
    if (a->dst != b->dst)
        return a->dst < b->dst ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->channel != b->channel)
        return a->channel < b->channel ? -1 : 1;
    return a->segment < b->segment ? -1 : a->segment > b->segment;
}

static tutti_status run_level(const struct tt_sim_input *in, struct tt_sim_report **ret,
                              struct tutti_error *err)
{
    struct tt_sim_report *r = NULL;
    tutti_status st = report_make(in, &r, err);
    if (st)
        return st;
    st =
        in->o->level == TT_SIM_PACKET ? tt_sim_packet_run(in, r, err) : tt_sim_flow_run(in, r, err);
    if (st) {
        tt_sim_report_free(r);
        return st;
    }
    if (in->w->class_link)
        tt_sim_spread(r, in);
    find_busiest(r, in);
    if (r->ntimeline)
        qsort(r->timeline, r->ntimeline, sizeof *r->timeline, by_start);
    tt_sim_timeline_sort(r);
    *ret = r;
    return TUTTI_OK;
}

/* Symmetry is tried first; a schedule that holds rank 0 only cannot be simulated otherwise. */
tutti_status tt_sim_run(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                        tutti_dtype dtype, const struct tt_sim_options *o,
                        struct tt_sim_report **ret, struct tutti_error *err)
{
    struct tt_work *w = NULL;
    double *slow = NULL, *rate = NULL;
    uint32_t *class_link = NULL;
    struct tt_sim_report *r = NULL;
    tutti_status st = check_fit(s, t, err);
    if (!st)
        st = check_whatif(&o->whatif, t, err);
    if (!st && s->nroutes && s->nslices == s->shape.ranks)
        st = check_routes(s, t, count, dtype, err);
    if (!st)
        class_link = tt_sim_symmetric(s, t, count, dtype, o);
    if (!st && !class_link && s->nslices != s->shape.ranks)
        st = tt_fail(err, TUTTI_ERR_MISMATCH,
                     "rank 0 cannot stand for all %u ranks here; a simulation needs them all",
                     s->shape.ranks);
    if (!st)
        st = tt_sim_work_make_one(s, t, count, dtype, class_link, &w, err);
    if (!st)
        st = make_rates(o, t, &slow, &rate, err);
    if (!st)
        st = run_level(
            &(struct tt_sim_input){.w = w, .s = s, .t = t, .o = o, .slow = slow, .rate = rate}, &r,
            err);
    if (!st)
        *ret = r;
    free(slow);
    free(rate);
    tt_sim_work_free(w);
    free(class_link);
    return st;
}
