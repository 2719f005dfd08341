/* result.c - the figures of a probe: made empty here, filled by the other files, freed here.
 *
 *     list:  | ranks of host 0 | ranks of host 1 | ...     host[h].first, host[h].nranks: its range
 *
 * There are never more groups than hosts, so `group` has room for that many from the start. */
#include "probe/probe.h"

#include <assert.h>
#include <stdlib.h>

static tutti_status result_allocate(struct tt_probe *p, struct tutti_error *err)
{
    p->list = tt_alloc(p->ranks, sizeof *p->list);
    p->host = tt_zalloc(p->hosts, sizeof *p->host);
    p->group = tt_zalloc(p->hosts, sizeof *p->group);
    /* The product is computed only if it fits 32 bits. */
    p->pair = p->hosts <= UINT32_MAX / p->hosts
                  ? tt_zalloc((size_t)p->hosts * p->hosts, sizeof *p->pair)
                  : NULL;
    p->said = (struct tt_vec){.elem = TT_PROBE_TEXT};
    return p->list && p->host && p->group && p->pair ? TUTTI_OK : tt_fail_memory(err, "probe");
}

/* A counting sort: ranks by host, in rank order inside a host. */
static void sort_ranks(struct tt_probe *p, const uint32_t *host_of)
{
    uint32_t at = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        p->host[host_of[r]].nranks++;
    for (uint32_t h = 0; h < p->hosts; h++) {
        p->host[h].first = at;
        at += p->host[h].nranks;
        p->host[h].nranks = 0;
    }
    for (uint32_t r = 0; r < p->ranks; r++) {
        struct tt_probe_host *h = &p->host[host_of[r]];
        p->list[h->first + h->nranks++] = r;
    }
}

tutti_status tt_probe_new(uint32_t ranks, const uint32_t *host_of, struct tt_probe **ret,
                          struct tutti_error *err)
{
    struct tt_probe *p = tt_zalloc(1, sizeof *p);
    if (!p)
        return tt_fail_memory(err, "probe");
    p->ranks = ranks;
    for (uint32_t r = 0; r < ranks; r++)
        p->hosts = host_of[r] >= p->hosts ? host_of[r] + 1 : p->hosts;
    tutti_status st = result_allocate(p, err);
    if (st) {
        tt_probe_free(p);
        return st;
    }
    sort_ranks(p, host_of);
    p->groups = 1;
    p->group[0].hosts = p->hosts;
    /* Nothing has contradicted the topology yet; tt_probe_judge replaces this. */
    p->confidence = 1;
    *ret = p;
    return TUTTI_OK;
}

void tt_probe_free(struct tt_probe *p)
{
    if (!p)
        return;
    free(p->list);
    free(p->host);
    free(p->group);
    free(p->pair);
    tt_vec_free(&p->said);
    free(p);
}

struct tt_probe_pair *tt_probe_pair(const struct tt_probe *p, uint32_t from, uint32_t to)
{
    assert(from < p->hosts && to < p->hosts);
    return &p->pair[(size_t)from * p->hosts + to];
}

uint64_t tt_probe_alone(const struct tt_probe *p, uint32_t from, uint32_t to)
{
    uint64_t up = p->host[from].up, down = p->host[to].down;
    return up < down ? up : down;
}
