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
 * Latency is measured between ranks; a message crosses two links inside a host and up to four
 * between hosts, so each link gets its part. */
#include <stdlib.h>

#include "comm/comm_int.h"

struct hosts {
    uint32_t n;
    uint32_t *of;    /* group rank -> host number, in order of first appearance */
    uint32_t *ranks; /* ranks per host */
};

/* Numbers the hosts in order of their first rank. With TCP or MPI everywhere each rank is a host of
 * its own. */
static tutti_status find_hosts(const struct tt_comm *c, struct hosts *h, struct tutti_error *err)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    bool apart = tt_comm_apart(&c->config);
    h->of = tt_alloc(c->size, sizeof *h->of);
    h->ranks = tt_zalloc(c->size, sizeof *h->ranks);
    if (!h->of || !h->ranks)
        return tt_fail_memory(err, "hosts");
    for (uint32_t r = 0; r < c->size; r++) {
        uint32_t first = r;
        for (uint32_t q = 0; !apart && q < r && first == r; q++)
            if (peers[c->members[q]].host_id == peers[c->members[r]].host_id)
                first = q;
        h->of[r] = first == r ? h->n++ : h->of[first];
        h->ranks[h->of[r]]++;
    }
    return TUTTI_OK;
}

/* Half of the latency: a message between two ranks crosses two such links. */
static tutti_status topology_add(struct tt_topo *t, uint32_t a, uint32_t b,
                                 const struct tt_speed *s, struct tutti_error *err)
{
    double bw = (double)(s->bw ? s->bw : 1);
    struct tt_link link = {.a = a, .b = b, .bw = {bw, bw}, .latency_ps = s->latency_ps / 2};
    return tt_topo_add_link(t, &link, err);
}

/* Vertices: ranks, then a switch per host with several ranks, then the network's. */
static tutti_status add_links(const struct tt_comm *c, const struct hosts *h, struct tt_topo *t,
                              struct tutti_error *err)
{
    uint32_t next = c->size, net = c->size + t->switches - 1;
    /* the vertex that stands for the host towards the network */
    uint32_t *top = tt_alloc(h->n, sizeof *top);
    tutti_status st = top ? TUTTI_OK : tt_fail_memory(err, "hosts");
    for (uint32_t i = 0; !st && i < h->n; i++)
        top[i] = h->ranks[i] > 1 ? next++ : UINT32_MAX;
    for (uint32_t r = 0; !st && r < c->size; r++) {
        uint32_t *host = &top[h->of[r]];
        if (*host == UINT32_MAX)
            *host = r;
        else
            st = topology_add(t, r, *host, &c->speeds.shm, err);
    }
    for (uint32_t i = 0; !st && h->n > 1 && i < h->n; i++)
        st = topology_add(t, top[i], net, &c->speeds.tcp, err);
    free(top);
    return st;
}

static tutti_status as_found(struct tt_comm *c, struct tt_topo **ret, struct tutti_error *err)
{
    struct hosts h = {0};
    struct tt_topo *t = NULL;
    tutti_status st = find_hosts(c, &h, err);
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
    free(h.of);
    free(h.ranks);
    return st;
}

/* Does c hold all ranks of the job in their own order? Then the given network is for c. */
static bool is_world(const struct tt_comm *c)
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
    if (!is_world(c))
        return as_found(c, ret, err);
    if (!c->world->topo)
        return c->config.topo ? as_given(c, ret, err) : as_found(c, ret, err);
    *ret = c->world->topo;
    return TUTTI_OK;
}
