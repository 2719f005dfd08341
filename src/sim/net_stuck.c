/* net_stuck.c - after the last event: is the network empty, and if not, which links wait for
 * each other?
 *
 * Nothing moves any more if every packet left waits for a channel that another one holds, or for
 * room in a lane whose own first packet waits. Following these waits from any stuck lane must
 * return to a lane seen before: that cycle is the deadlock, and its links are named. */
#include <stdlib.h>
#include <string.h>

#include "sim/packet.h"

/* The lane that keeps the first packet of `lane` from moving: the holder of the channel that it
 * needs (that lane's packet must move on), or the full lane that it sends into. */
static uint32_t blocker(const struct tt_packet_net *n, uint32_t lane)
{
    const struct tt_net_lane *l = &n->lane[lane];
    const struct tt_net_packet *p = tt_sim_net_first(l);
    const struct tt_work_conn *c = &n->in->w->conn[tt_sim_net_conn(n, p->msg)];
    if (l->out != TT_NET_NONE)
        return n->lane[l->out].len ? l->out : TT_NET_NONE;
    if (p->hop >= c->nlinks)
        return TT_NET_NONE;
    uint32_t out =
        n->in->w->path[c->path_at + p->hop] * n->set.vcs + n->hop_class[c->path_at + p->hop];
    return n->lane[out].len ? out : n->lane[out].owner;
}

/* Any lane that still holds a packet. */
static uint32_t a_stuck_lane(const struct tt_packet_net *n)
{
    for (uint32_t i = 0; i < n->nlanes; i++)
        if (n->lane[i].len)
            return i;
    return TT_NET_NONE;
}

/* Appends "rank 1 -> rank 2" for a lane of a link; interfaces have no name. */
static void add_link(const struct tt_packet_net *n, uint32_t lane, struct tt_str *text)
{
    char a[64], b[64];
    uint32_t link = n->lane[lane].link;
    if (link == TT_NET_NONE)
        return;
    const struct tt_link *cable = &n->in->t->links[link / 2];
    tt_topo_vertex_name(n->in->t, link % 2 ? cable->b : cable->a, a, sizeof a);
    tt_topo_vertex_name(n->in->t, link % 2 ? cable->a : cable->b, b, sizeof b);
    tt_str_printf(text, "%s%s -> %s", text->len ? ", " : "", a, b);
}

/* Lists the links of the cycle that the waits from `lane` lead into; returns its length, 0 if
 * there is none. */
static uint32_t circle(const struct tt_packet_net *n, uint32_t lane, struct tt_str *text)
{
    uint32_t at = lane, length = 0;
    /* after this many steps `at` is inside the cycle, wherever it began */
    for (uint32_t i = 0; i < n->nlanes && at != TT_NET_NONE; i++)
        at = blocker(n, at);
    if (at == TT_NET_NONE)
        return 0;
    uint32_t begin = at;
    do {
        if (length < 6)
            add_link(n, at, text);
        length++;
        at = blocker(n, at);
    } while (at != begin);
    return length;
}

tutti_status tt_sim_net_stuck(const struct tt_packet_net *n, struct tutti_error *err)
{
    uint32_t lane = a_stuck_lane(n);
    if (lane == TT_NET_NONE)
        return TUTTI_OK;
    struct tt_str text = {0};
    uint32_t length = circle(n, lane, &text);
    const struct tt_work_conn *c =
        &n->in->w->conn[tt_sim_net_conn(n, tt_sim_net_first(&n->lane[lane])->msg)];
    char when[32];
    tt_format_time(n->now / TT_TICKS, when, sizeof when);
    tutti_status st = tt_fail(err, TUTTI_ERR_INCORRECT,
                              "deadlock in the network after %s: message %u->%u stands still; %u "
                              "buffers wait for each other in a circle (%s%s); "
                              "these routes need %u virtual channels, there are %u",
                              when, c->src, c->dst, length, text.s ? text.s : "",
                              length > 6 ? ", ..." : "", n->needed, n->set.vcs);
    tt_str_free(&text);
    return st;
}
