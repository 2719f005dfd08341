/* Public functions of a measured network over probe/. */
#include "api/api.h"

#include <stdlib.h>

#include "probe/probe.h"

static const struct tt_probe *inner(const struct tutti_probe *p)
{
    return (const struct tt_probe *)p;
}

tutti_status tutti_probe_run(struct tutti_comm *comm, uint64_t budget_us, struct tutti_probe **ret, struct tutti_error *err)
{
    struct tt_probe *p;
    if (!comm || !ret || budget_us > UINT64_MAX / 1000)
        return tt_fail(err, TUTTI_ERR_ARG, "a communicator, a place for the result and a time are needed");
    tutti_status st = tt_probe_run((struct tt_comm *)comm, budget_us * 1000, &p, err);
    if (!st)
        *ret = (struct tutti_probe *)p;
    return st;
}

void tutti_probe_free(struct tutti_probe *probe)
{
    tt_probe_free((struct tt_probe *)probe);
}

tutti_status tutti_probe_topo(const struct tutti_probe *probe, struct tutti_topo **ret, struct tutti_error *err)
{
    struct tutti_topo *t = tt_zalloc(1, sizeof *t);
    if (!t)
        return tt_fail_memory(err, "topology");
    tutti_status st = tt_probe_topology(inner(probe), &t->t, err);
    if (st)
        free(t);
    else
        *ret = t;
    return st;
}

void tutti_probe_info(const struct tutti_probe *probe, struct tutti_probe_info *ret)
{
    const struct tt_probe *p = inner(probe);
    *ret = (struct tutti_probe_info){.ranks = p->ranks,
                                     .hosts = p->hosts,
                                     .groups = p->groups,
                                     .pairs = (uint64_t)p->hosts * (p->hosts - 1),
                                     .pairs_measured = p->pairs,
                                     .pairs_judged = p->judged,
                                     .crowded = p->crowded,
                                     .unsure = p->unsure,
                                     .seconds = (double)p->ns / 1e9,
                                     .confidence = p->confidence,
                                     .overhead_us = api_us(p->overhead_ps),
                                     .gamma = (double)p->gamma_fs * 1e-15};
}

bool tutti_probe_host(const struct tutti_probe *probe, size_t i, struct tutti_probe_host *ret)
{
    const struct tt_probe *p = inner(probe);
    if (i >= p->hosts)
        return false;
    const struct tt_probe_host *h = &p->host[i];
    *ret = (struct tutti_probe_host){.name = h->name,
                                     .first_rank = p->list[h->first],
                                     .ranks = h->nranks,
                                     .group = h->group,
                                     .up = (double)h->up,
                                     .down = (double)h->down,
                                     .up_at_least = h->up_at_least,
                                     .down_at_least = h->down_at_least,
                                     .memory = (double)h->memory_bw,
                                     .memory_latency_us = api_us(h->memory_lat_ps)};
    return true;
}

bool tutti_probe_group(const struct tutti_probe *probe, size_t i, struct tutti_probe_group *ret)
{
    const struct tt_probe *p = inner(probe);
    if (i >= p->groups)
        return false;
    *ret = (struct tutti_probe_group){.hosts = p->group[i].hosts, .up = (double)p->group[i].up, .down = (double)p->group[i].down};
    return true;
}

bool tutti_probe_pair(const struct tutti_probe *probe, size_t i, struct tutti_probe_pair *ret)
{
    const struct tt_probe *p = inner(probe);
    if (i >= (uint64_t)p->hosts * (p->hosts - 1))
        return false;
    uint32_t a = (uint32_t)(i / (p->hosts - 1)), k = (uint32_t)(i % (p->hosts - 1)), b = k + (k >= a);
    const struct tt_probe_pair *x = tt_probe_pair(p, a, b);
    *ret = (struct tutti_probe_pair){
        .from = a, .to = b, .rate = (double)x->bw, .crowd_rate = (double)x->crowd, .latency_us = api_us(x->lat_ps)};
    return true;
}

const char *tutti_probe_finding(const struct tutti_probe *probe, size_t i)
{
    const struct tt_probe *p = inner(probe);
    return i < p->said.len ? tt_vec_at(&p->said, i) : NULL;
}
