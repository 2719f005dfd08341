/* probe.c - the public functions of a measured network over probe/. Everything but the run itself
 * only reads the result, and the units become those of the public interface.
 *
 * Pairs of hosts are numbered row by row without the diagonal. With 3 hosts: pair 0 is 0 -> 1,
 * pair 1 is 0 -> 2, pair 2 is 1 -> 0, and so on. */
#include "api/api.h"

#include "probe/probe.h"

/* The result behind a handle, for functions without a status: aborts on a bad one. */
static const struct tt_probe *must_see(const struct tutti_probe *probe, const char *function)
{
    return tt_api_needed(API_PROBE, probe, function);
}

tutti_status tutti_probe_run(struct tutti_comm *comm, uint64_t budget_us, struct tutti_probe **ret,
                             struct tutti_error *err)
{
    struct tt_probe *p = NULL;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (!st && budget_us > UINT64_MAX / 1000)
        st = tt_api_bad(__func__, err, TUTTI_ERR_RANGE, "a budget of %llu us",
                        (unsigned long long)budget_us);
    if (!st)
        st = tt_probe_run(c, budget_us * 1000, &p, err);
    void *handle = st ? NULL : tt_api_make(API_PROBE, p, NULL, err);
    if (!handle) {
        tt_probe_free(p);
        return st ? st : TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

void tutti_probe_free(struct tutti_probe *probe)
{
    tt_probe_free(api_end(PROBE, probe));
}

/* The network is rebuilt from the measurement with each call; no cache of schedules is kept for
 * it. */
tutti_status tutti_probe_topo(const struct tutti_probe *probe, struct tutti_topo **ret,
                              struct tutti_error *err)
{
    struct tt_topo *t = NULL;
    const struct tt_probe *p = api_find(PROBE, probe, err);
    tutti_status st = p ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_probe_topology(p, &t, err);
    return st ? st : tt_api_topo_wrap(t, false, ret, err);
}

void tutti_probe_info(const struct tutti_probe *probe, struct tutti_probe_info *ret)
{
    const struct tt_probe *p = must_see(probe, __func__);
    api_must("ret", ret);
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
                                     .overhead_us = tt_api_us(p->overhead_ps),
                                     .gamma = (double)p->gamma_fs * 1e-15};
}

bool tutti_probe_host(const struct tutti_probe *probe, size_t i, struct tutti_probe_host *ret)
{
    const struct tt_probe *p = must_see(probe, __func__);
    api_must("ret", ret);
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
                                     .memory_latency_us = tt_api_us(h->memory_lat_ps)};
    return true;
}

bool tutti_probe_group(const struct tutti_probe *probe, size_t i, struct tutti_probe_group *ret)
{
    const struct tt_probe *p = must_see(probe, __func__);
    api_must("ret", ret);
    if (i >= p->groups)
        return false;
    *ret = (struct tutti_probe_group){
        .hosts = p->group[i].hosts, .up = (double)p->group[i].up, .down = (double)p->group[i].down};
    return true;
}

bool tutti_probe_pair(const struct tutti_probe *probe, size_t i, struct tutti_probe_pair *ret)
{
    const struct tt_probe *p = must_see(probe, __func__);
    api_must("ret", ret);
    if (i >= (uint64_t)p->hosts * (p->hosts - 1))
        return false;
    /* Pair i of hosts * (hosts - 1): row a, and column k without the diagonal. */
    uint32_t a = (uint32_t)(i / (p->hosts - 1)), k = (uint32_t)(i % (p->hosts - 1)),
             b = k + (k >= a);
    const struct tt_probe_pair *x = tt_probe_pair(p, a, b);
    *ret = (struct tutti_probe_pair){.from = a,
                                     .to = b,
                                     .rate = (double)x->bw,
                                     .crowd_rate = (double)x->crowd,
                                     .latency_us = tt_api_us(x->lat_ps)};
    return true;
}

const char *tutti_probe_finding(const struct tutti_probe *probe, size_t i)
{
    const struct tt_probe *p = must_see(probe, __func__);
    return i < p->said.len ? tt_vec_at(&p->said, i) : NULL;
}
