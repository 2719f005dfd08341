/* topology.c - the network that a communicator plans on: the file or spec it was given, else hosts
 * as found with measured speeds. The first communicator of a job compares it (agree.c). Splits that
 * hold all ranks in the same order use the same object, so that no file is read twice; other splits
 * use hosts as found.
 *
 *     one host                 several hosts
 *     0  1  2  3               0  1    2  3       ranks
 *      \ |  | /                 \ |    | /        shared memory
 *       memory                  host   host       (a host with one rank has no switch of its own)
 *                                 \    /          network
 *                                 switch
 *
 * Every host has its own rate out and in (measure_rates.c). Latency is measured between ranks; a
 * message crosses two links inside a host and up to four
 * between hosts, so each link gets its part. */
#include <stdlib.h>

#include "comm/comm_int.h"

/* Of ranks members[0 .. n-1] of the job; NULL: rank r itself. */
static tutti_status number_hosts(const struct tt_comm *c, const uint32_t *members, uint32_t n,
                                 struct tt_hosts *h, struct tutti_error *err)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    bool apart = tt_comm_apart(&c->config);
    h->of = tt_alloc(n, sizeof *h->of);
    h->ranks = tt_zalloc(n, sizeof *h->ranks);
    h->first = tt_alloc(n, sizeof *h->first);
    if (!h->of || !h->ranks || !h->first)
        return tt_fail_memory(err, "hosts");
    for (uint32_t r = 0; r < n; r++) {
        const uint64_t id = peers[members ? members[r] : r].host_id;
        uint32_t host = 0;
        while (host < h->n &&
               (apart || peers[members ? members[h->first[host]] : h->first[host]].host_id != id))
            host++;
        if (host == h->n)
            h->first[h->n++] = r;
        h->of[r] = host;
        h->ranks[host]++;
    }
    return TUTTI_OK;
}

tutti_status tt_comm_hosts_find(const struct tt_comm *c, struct tt_hosts *ret,
                                struct tutti_error *err)
{
    return number_hosts(c, c->members, c->size, ret, err);
}

void tt_comm_hosts_free(struct tt_hosts *h)
{
    free(h->of);
    free(h->ranks);
    free(h->first);
}

/* Half of the latency: a message between two ranks crosses two such links. */
static tutti_status topology_add(struct tt_topo *t, const uint32_t between[2], struct tt_rate rate,
                                 uint64_t latency_ps, struct tutti_error *err)
{
    struct tt_link link = {
        .a = between[0],
        .b = between[1],
        .bw = {(double)(rate.out ? rate.out : 1), (double)(rate.in ? rate.in : 1)},
        .latency_ps = latency_ps / 2};
    return tt_topo_add_link(t, &link, err);
}

/* Rates of the hosts h of c: each its own where the hosts of the job were measured, else that of
 * the measured pair. */
static tutti_status host_rates(const struct tt_comm *c, const struct tt_hosts *h,
                               struct tt_rate *ret, struct tutti_error *err)
{
    const struct tt_speeds *s = &c->speeds;
    struct tt_hosts job = {0};
    tutti_status st = s->nhosts
                          ? number_hosts(c, NULL, tt_boot_config(c->world->boot)->size, &job, err)
                          : TUTTI_OK;
    for (uint32_t i = 0; !st && i < h->n; i++)
        ret[i] = s->nhosts && job.n == s->nhosts ? s->host[job.of[c->members[h->first[i]]]]
                                                 : (struct tt_rate){s->tcp.bw, s->tcp.bw};
    tt_comm_hosts_free(&job);
    return st;
}

/* Vertices: ranks, then a switch per host with several ranks, then the network's. */
static tutti_status add_links(const struct tt_comm *c, const struct tt_hosts *h, struct tt_topo *t,
                              struct tutti_error *err)
{
    const struct tt_speed *shm = &c->speeds.shm, *tcp = &c->speeds.tcp;
    uint32_t next = c->size, net = c->size + t->switches - 1;
    /* the vertex that stands for the host towards the network */
    uint32_t *top = tt_alloc(h->n, sizeof *top);
    struct tt_rate *rate = tt_alloc(h->n, sizeof *rate);
    tutti_status st = top && rate ? TUTTI_OK : tt_fail_memory(err, "hosts");
    if (!st)
        st = host_rates(c, h, rate, err);
    for (uint32_t i = 0; !st && i < h->n; i++)
        top[i] = h->ranks[i] > 1 ? next++ : UINT32_MAX;
    for (uint32_t r = 0; !st && r < c->size; r++) {
        uint32_t *host = &top[h->of[r]];
        if (*host == UINT32_MAX)
            *host = r;
        else
            st = topology_add(t, (uint32_t[]){r, *host}, (struct tt_rate){shm->bw, shm->bw},
                              shm->latency_ps, err);
    }
    for (uint32_t i = 0; !st && h->n > 1 && i < h->n; i++)
        st = topology_add(t, (uint32_t[]){top[i], net}, rate[i], tcp->latency_ps, err);
    free(top);
    free(rate);
    return st;
}

static tutti_status as_found(struct tt_comm *c, struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_hosts h = {0};
    struct tt_topo *t = NULL;
    tutti_status st = tt_comm_hosts_find(c, &h, err);
    uint32_t switches = h.n > 1;
    for (uint32_t i = 0; !st && i < h.n; i++)
        switches += h.ranks[i] > 1;
    if (!st)
        st = tt_topo_new("custom", c->size, switches, &t, err);
    if (!st && !(t->spec = tt_strdup("measured")))
        st = tt_fail_memory(err, "topology");
    if (!st)
        st = add_links(c, &h, t, err);
    if (!st) {
        t->gamma = (double)c->speeds.gamma_fs * 1e-15;
        if (h.n == 1 && c->size > 1)
            t->memory = c->speeds.memory;
        t->overhead_ps = h.n > 1 ? c->speeds.tcp.overhead_ps : c->speeds.shm.overhead_ps;
        st = tt_topo_finish(t, ret, err);
        t = NULL;
    }
    tt_topo_free(t);
    tt_comm_hosts_free(&h);
    return st;
}

/* Does c hold all ranks of the job in their own order? Then the given network is for c. */
bool tt_comm_is_world(const struct tt_comm *c)
{
    if (c->size != tt_boot_config(c->world->boot)->size)
        return false;
    for (uint32_t r = 0; r < c->size; r++)
        if (c->members[r] != r)
            return false;
    return true;
}

static tutti_status as_given(const struct tt_comm *c, struct tt_topo **ret, struct tutti_error *err)
{
    struct tt_topo *t;
    tutti_status st = tt_topo_open(c->config.topo, &t, err);
    if (st)
        return st;
    if (t->ranks != c->size) {
        st = tt_fail(err, TUTTI_ERR_MISMATCH, "topology %s has %u ranks, the job has %u",
                     c->config.topo, t->ranks, c->size);
        tt_topo_free(t);
        return st;
    }
    *ret = t;
    return TUTTI_OK;
}

tutti_status tt_comm_topology(struct tt_comm *c, struct tt_topo **ret, struct tutti_error *err)
{
    if (!tt_comm_is_world(c))
        return as_found(c, ret, err);
    if (!c->world->topo)
        return c->config.topo ? as_given(c, ret, err) : as_found(c, ret, err);
    *ret = c->world->topo;
    return TUTTI_OK;
}
