/* probe.c - runs the phases in order (probe.h has the method). Every rank runs the same code on
 * the same figures, so all ranks take the same decisions without further messages.
 *
 *     memory -> pairs -> fans -> crowds -> groups -> uplinks -> findings */
#include "probe/probe_int.h"

#include <stdlib.h>
#include <string.h>

/* Numbers hosts by their first rank. Ranks squared, which is negligible beside the messages. */
static tutti_status find_hosts(const struct tt_comm *c, struct tt_probe **ret,
                               struct tutti_error *err)
{
    uint32_t n = tt_comm_size(c), hosts = 0;
    uint32_t *of = tt_alloc(n, sizeof *of);
    struct tt_comm_place mine, other;
    tutti_status st = of ? TUTTI_OK : tt_fail_memory(err, "hosts");
    for (uint32_t r = 0; !st && r < n; r++) {
        uint32_t q = 0;
        tt_comm_place(c, r, &mine);
        /* q: the first rank on the same host, or r itself. */
        for (tt_comm_place(c, 0, &other); q < r && other.host_id != mine.host_id;)
            tt_comm_place(c, ++q, &other);
        of[r] = q < r ? of[q] : hosts++;
    }
    if (!st)
        st = tt_probe_new(n, of, ret, err);
    for (uint32_t h = 0; !st && h < hosts; h++) {
        tt_comm_place(c, (*ret)->list[(*ret)->host[h].first], &mine);
        snprintf((*ret)->host[h].name, TT_PROBE_NAME, "%s", mine.host);
    }
    free(of);
    return st;
}

/* Each phase stops at its own share of the budget, so later ones still get time. */
static tutti_status phases(struct tt_probing *m)
{
    struct tt_probe *p = m->p;
    bool network = p->hosts > 1;
    tutti_status st = p->ranks > p->hosts ? tt_probe_memory(m) : TUTTI_OK;
    if (!st && network)
        st = tt_probe_pairs(m);
    if (!st && network)
        st = tt_probe_fans(m);
    if (!st && network)
        st = tt_probe_crowds(m);
    if (!st) {
        tt_probe_cluster(p);
        st = tt_probe_uplinks(m);
    }
    p->ns = m->used_ns;
    p->gamma_fs = m->speeds.gamma_fs;
    p->overhead_ps = network ? m->speeds.tcp.overhead_ps : m->speeds.shm.overhead_ps;
    return st ? st : tt_probe_judge(p, m->err);
}

tutti_status tt_probe_run(struct tt_comm *c, uint64_t budget_ns, struct tt_probe **ret,
                          struct tutti_error *err)
{
    struct tt_probing m = {.c = c,
                           .budget_ns = budget_ns,
                           .began_ns = tt_now_ns(),
                           .flows = {.elem = sizeof(struct tt_probe_flow)},
                           .wire = {.elem = sizeof(struct tt_comm_flow)},
                           .answer = {.elem = sizeof(int64_t)},
                           .err = err};
    tutti_status st = find_hosts(c, &m.p, err);
    m.data = tt_zalloc(TT_PROBE_ROW, TT_PROBE_MAX_BYTES);
    if (!st && !m.data)
        st = tt_fail_memory(err, "probe");
    if (m.data)
        /* touch every page, so that no page fault happens while a clock runs */
        memset(m.data, 1, (size_t)TT_PROBE_ROW * TT_PROBE_MAX_BYTES);
    if (!st)
        st = tt_comm_speeds(c, tt_comm_size(c) > 1, &m.speeds, err);
    if (!st)
        st = phases(&m);
    free(m.data);
    tt_vec_free(&m.flows);
    tt_vec_free(&m.wire);
    tt_vec_free(&m.answer);
    if (st) {
        tt_probe_free(m.p);
        return st;
    }
    *ret = m.p;
    return TUTTI_OK;
}
