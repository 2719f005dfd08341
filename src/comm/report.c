/* report.c - what this rank saw of each peer, as text. "Arrived late" is the time before anything
 * of a request came from a peer (it was computing); "sent slowly" is the rate at which its data
 * came in, compared with what the planner assumed. report_all.c is more precise: it has the notes
 * of all ranks. */
#include "comm/comm_int.h"

struct worst {
    uint32_t late, slow;
    uint64_t late_ns;
    double slow_rate;
};

/* What the engine, direct access and the transport measured about a peer. */
static void seen_of(struct tt_comm *c, uint32_t r, struct tt_peer_stats *ret, double *ret_rate)
{
    struct tt_link_stats link;
    tt_exec_context_stats(c->context, r, ret);
    *ret_rate = ret->recv_ns ? (double)ret->recv_bytes * 1e9 / (double)ret->recv_ns : 0;
    if (tt_transport_link(c->wire.transport, r, &link))
        *ret_rate = tt_meter_link_rate(&link);
}

static void line(struct tt_comm *c, uint32_t r, struct tt_str *s, struct worst *w)
{
    struct tt_peer_stats p;
    char in[32], out[32], rate[32] = "-";
    double measured;
    seen_of(c, r, &p, &measured);
    if (measured > 0)
        tt_format_rate(measured, rate, sizeof rate);
    tt_str_printf(
        s, "  rank %-4u %-16s waited %9.3f ms, arrived late %9.3f ms, in %s, out %s, rate %s\n", r,
        tt_boot_peers(c->world->boot)[c->members[r]].host, (double)p.wait_ns / 1e6,
        (double)p.late_ns / 1e6, tt_format_size(p.bytes_in, in, sizeof in),
        tt_format_size(p.bytes_out, out, sizeof out), rate);
    if (p.late_ns > w->late_ns) {
        w->late_ns = p.late_ns;
        w->late = r;
    }
    if (measured > 0 && (w->slow == UINT32_MAX || measured < w->slow_rate)) {
        w->slow_rate = measured;
        w->slow = r;
    }
}

tutti_status tt_comm_report(struct tt_comm *c, char **ret_text, struct tutti_error *err)
{
    struct tt_str s = {0};
    struct worst w = {.late = UINT32_MAX, .slow = UINT32_MAX};
    char rate[32], plan[32], guard[TT_GUARD_WORDS];
    tt_comm_lock(c);
    tt_comm_guard(c, guard, sizeof guard);
    tt_str_printf(&s, "rank %u of %u, %u calls; sockets: %s:\n", c->rank, c->size, c->calls, guard);
    if (c->world->history)
        tt_str_printf(&s, "%s", c->world->history);
    for (uint32_t r = 0; r < c->size; r++)
        if (r != c->rank)
            line(c, r, &s, &w);
    if (w.late != UINT32_MAX)
        tt_str_printf(&s, "  slowest rank: %u (arrived late by %.3f ms in all)\n", w.late,
                      (double)w.late_ns / 1e6);
    if (w.slow != UINT32_MAX)
        tt_str_printf(&s, "  slowest link: from rank %u (sent at %s; the plan assumes %s)\n",
                      w.slow, tt_format_rate(w.slow_rate, rate, sizeof rate),
                      tt_format_rate((double)(c->wire.direct ? c->speeds.shm.bw : c->speeds.tcp.bw),
                                     plan, sizeof plan));
    tt_comm_unlock(c);
    if (s.failed) {
        tt_str_free(&s);
        return tt_fail_memory(err, "report");
    }
    *ret_text = s.s;
    return TUTTI_OK;
}
