/* model.c - builds the topology that the figures of a probe describe.
 *
 *     0   1   2   3     4   5     6      ranks
 *      \ /     \ /       \ /      |      memory of each host (not for a host with one rank)
 *     node0   node1     node2     |
 *        \     /           \      |      network interfaces, each with its own rate out and in
 *        group 0            \     |      (when crowds have shown that hosts share an uplink)
 *            \               \    |
 *             '------------- network
 *
 * Latency was measured between ranks and is divided among the links. A group's uplink gets half
 * of what pairs of different groups take longer than pairs inside one. The rest is divided among
 * the hosts by least squares (over all pairs: l_i + l_j = L_ij). The topology's overhead is the
 * host's share of each message and is not part of the links. */
#include "probe/probe.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The topology under construction. */
struct parts {
    const struct tt_probe *p;
    struct tt_topo *t;
    uint32_t *host_at;  /* by host: its vertex, a switch or its only rank */
    uint32_t *group_at; /* by group: its switch; UINT32_MAX: none */
    uint32_t net;       /* the switch in the middle; UINT32_MAX: one host */
    uint64_t *host_ps;  /* by host: latency between it and its switch */
    uint64_t group_ps;  /* latency of every group's uplink */
};

/* A group of one host, or the only group, needs no switch. */
static bool has_switch(const struct tt_probe *p, uint32_t group)
{
    return p->groups > 1 && p->group[group].hosts > 1;
}

/* Latency of the links between two hosts: the lower of both directions without the host's share;
 * 0: not measured. */
static uint64_t wire_ps(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    uint64_t x = tt_probe_pair(p, a, b)->lat_ps, y = tt_probe_pair(p, b, a)->lat_ps,
             own = p->overhead_ps / 2;
    uint64_t both = x && y ? (x < y ? x : y) : x ? x : y;
    return both > own ? both - own : 0;
}

/* Half of what a pair of different groups takes longer than a pair inside a group, on average. */
static uint64_t group_latency(const struct tt_probe *p)
{
    uint64_t sum[2] = {0}, n[2] = {0};
    for (uint32_t a = 0; a < p->hosts; a++)
        for (uint32_t b = 0; b < a; b++) {
            bool cross = p->host[a].group != p->host[b].group;
            uint64_t ps = wire_ps(p, a, b);
            sum[cross] += ps;
            n[cross] += ps != 0;
        }
    if (!n[0] || !n[1] || sum[1] / n[1] <= sum[0] / n[0])
        return 0;
    return (sum[1] / n[1] - sum[0] / n[0]) / 2;
}

/* The latency between two hosts without their groups' uplinks. */
static uint64_t within_ps(const struct parts *m, uint32_t a, uint32_t b)
{
    const struct tt_probe *p = m->p;
    uint64_t ps = wire_ps(p, a, b), uplinks = 0;
    if (p->host[a].group != p->host[b].group)
        uplinks = m->group_ps * (has_switch(p, p->host[a].group) + has_switch(p, p->host[b].group));
    return ps > uplinks ? ps - uplinks : 0;
}

/* Divides the latency among the hosts. If all pairs are known: least squares, with S_i the sum
 * of row i, (hosts - 2) l_i = S_i - sum of all l. Otherwise half the mean of a host's pairs. */
static void divide_latency(struct parts *m)
{
    const struct tt_probe *p = m->p;
    double all = 0, h = p->hosts;
    bool complete = p->hosts > 2;
    m->group_ps = group_latency(p);
    for (uint32_t a = 0; a < p->hosts; a++)
        for (uint32_t b = 0; b < p->hosts; b++) {
            all += a == b ? 0 : (double)within_ps(m, a, b);
            complete = complete && (a == b || wire_ps(p, a, b));
        }
    for (uint32_t a = 0; a < p->hosts; a++) {
        double row = 0, n = 0;
        for (uint32_t b = 0; b < p->hosts; b++)
            if (a != b && wire_ps(p, a, b)) {
                row += (double)within_ps(m, a, b);
                n++;
            }
        /* `all` counts every pair twice, and each l is in hosts - 1 pairs: all / (2 (h - 1)) =
         * sum of all l. */
        double ps = complete ? (row - all / (2 * (h - 1))) / (h - 2) : n > 0 ? row / n / 2 : 0;
        /* Half of the memory's latency is on the path already: the link between rank and host. */
        double memory = p->host[a].nranks > 1 ? (double)p->host[a].memory_lat_ps / 2 : 0;
        m->host_ps[a] = ps > memory ? (uint64_t)(ps - memory) : 0;
    }
}

/* A rate that was not measured becomes 1 byte/s, since a topology has no links without
 * bandwidth. */
static tutti_status model_add(struct tt_topo *t, const struct tt_link *link,
                              struct tutti_error *err)
{
    struct tt_link l = *link;
    l.bw[0] = l.bw[0] > 0 ? l.bw[0] : 1;
    l.bw[1] = l.bw[1] > 0 ? l.bw[1] : 1;
    return tt_topo_add_link(t, &l, err);
}

/* Links of the host's ranks to its vertex; two of them in a row have the measured latency. */
static tutti_status add_memory(const struct parts *m, const struct tt_probe_host *h, uint32_t at,
                               struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    double bw = (double)h->memory_bw;
    uint64_t wire =
        h->memory_lat_ps > m->p->overhead_ps / 2 ? h->memory_lat_ps - m->p->overhead_ps / 2 : 0;
    for (uint32_t i = 0; !st && h->nranks > 1 && i < h->nranks; i++)
        st = model_add(
            m->t,
            &(struct tt_link){
                .a = m->p->list[h->first + i], .b = at, .bw = {bw, bw}, .latency_ps = wire / 2},
            err);
    return st;
}

/* Ranks to hosts, hosts to their group or the network, groups to the network. */
static tutti_status add_links(const struct parts *m, struct tutti_error *err)
{
    const struct tt_probe *p = m->p;
    tutti_status st = TUTTI_OK;
    for (uint32_t h = 0; !st && h < p->hosts; h++)
        st = add_memory(m, &p->host[h], m->host_at[h], err);
    for (uint32_t h = 0; !st && m->net != UINT32_MAX && h < p->hosts; h++) {
        const struct tt_probe_host *x = &p->host[h];
        uint32_t up = m->group_at[x->group] == UINT32_MAX ? m->net : m->group_at[x->group];
        st = model_add(m->t,
                       &(struct tt_link){.a = m->host_at[h],
                                         .b = up,
                                         .bw = {(double)x->up, (double)x->down},
                                         .latency_ps = m->host_ps[h]},
                       err);
    }
    for (uint32_t g = 0; !st && g < p->groups; g++) {
        const struct tt_probe_group *x = &p->group[g];
        if (m->group_at[g] != UINT32_MAX)
            st = model_add(m->t,
                           &(struct tt_link){.a = m->group_at[g],
                                             .b = m->net,
                                             .bw = {(double)x->up, (double)x->down},
                                             .latency_ps = m->group_ps},
                           err);
    }
    return st;
}

/* Numbers the vertices after the ranks: hosts, groups, network. Returns the number of switches. */
static uint32_t model_number(struct parts *m)
{
    const struct tt_probe *p = m->p;
    uint32_t next = p->ranks;
    for (uint32_t h = 0; h < p->hosts; h++)
        m->host_at[h] = p->host[h].nranks > 1 ? next++ : p->list[p->host[h].first];
    for (uint32_t g = 0; g < p->groups; g++)
        m->group_at[g] = has_switch(p, g) ? next++ : UINT32_MAX;
    m->net = p->hosts > 1 ? next++ : UINT32_MAX;
    return next - p->ranks;
}

static tutti_status name_switches(const struct parts *m, struct tutti_error *err)
{
    const struct tt_probe *p = m->p;
    char text[TT_PROBE_NAME + 16];
    bool ok = true;
    m->t->names = tt_zalloc((size_t)p->ranks + m->t->switches, sizeof(char *));
    if (!m->t->names)
        return tt_fail_memory(err, "names");
    for (uint32_t h = 0; h < p->hosts; h++)
        if (m->host_at[h] >= p->ranks)
            ok = (m->t->names[m->host_at[h]] = tt_strdup(p->host[h].name)) && ok;
    for (uint32_t g = 0; g < p->groups; g++)
        if (m->group_at[g] != UINT32_MAX) {
            snprintf(text, sizeof text, "group %u", g);
            ok = (m->t->names[m->group_at[g]] = tt_strdup(text)) && ok;
        }
    if (m->net != UINT32_MAX)
        ok = (m->t->names[m->net] = tt_strdup("network")) && ok;
    return ok ? TUTTI_OK : tt_fail_memory(err, "names");
}

/* The topology's name tells how it was measured; gamma and overhead come from the probe. */
static tutti_status model_describe(const struct parts *m, struct tutti_error *err)
{
    const struct tt_probe *p = m->p;
    char text[200], trust[80] = "";
    if (p->judged)
        snprintf(trust, sizeof trust, "; confidence %.2f by %u of them", p->confidence, p->judged);
    snprintf(text, sizeof text, "measured: %u rank%s, %u host%s, %u group%s; %u of %llu pairs%s",
             p->ranks, p->ranks == 1 ? "" : "s", p->hosts, p->hosts == 1 ? "" : "s", p->groups,
             p->groups == 1 ? "" : "s", p->pairs, (unsigned long long)p->hosts * (p->hosts - 1),
             trust);
    free(m->t->spec);
    m->t->spec = tt_strdup(text);
    m->t->gamma = (double)p->gamma_fs * 1e-15;
    m->t->overhead_ps = p->overhead_ps;
    return m->t->spec ? TUTTI_OK : tt_fail_memory(err, "name");
}

tutti_status tt_probe_topology(const struct tt_probe *p, struct tt_topo **ret,
                               struct tutti_error *err)
{
    struct parts m = {.p = p};
    m.host_at = tt_alloc(p->hosts, sizeof *m.host_at);
    m.group_at = tt_alloc(p->hosts, sizeof *m.group_at);
    m.host_ps = tt_zalloc(p->hosts, sizeof *m.host_ps);
    tutti_status st =
        m.host_at && m.group_at && m.host_ps ? TUTTI_OK : tt_fail_memory(err, "topology");
    if (!st)
        st = tt_topo_new("custom", p->ranks, model_number(&m), &m.t, err);
    if (!st && p->ranks > 1)
        st = name_switches(&m, err);
    if (!st)
        st = model_describe(&m, err);
    if (!st) {
        divide_latency(&m);
        st = add_links(&m, err);
    }
    if (!st) {
        /* tt_topo_finish owns the topology now, on failure too. */
        st = tt_topo_finish(m.t, ret, err);
        m.t = NULL;
    }
    tt_topo_free(m.t);
    free(m.host_at);
    free(m.group_at);
    free(m.host_ps);
    return st;
}
