/* messages.c - the peers of a program: message numbers, the table that finds the operation of an
 * arriving message, and what each peer will send and get.
 *
 * Messages on one (sender, receiver, channel) are numbered in listed order at both ends, so an
 * arriving piece needs only that number to find its operation: lane (peer, channel) -> operation
 * number n of the lane. Sorting the messages by (direction, peer, channel, op) makes every lane a
 * range of lane_ops:
 *
 *     rank 0 receives  op 2 from 1, op 3 from 2, op 7 from 1, all on channel 0
 *     sorted           op 2, op 7, op 3     lane (1, 0): first 0, n 2    lane (2, 0): first 2, n 1
 *     message 1 of lane (1, 0) is op 7
 *
 * Only arriving messages have lanes; sends keep their own number in the operation. */
#include <assert.h>
#include <stdlib.h>

#include "exec/exec_int.h"

struct message {
    uint32_t peer, channel, op;
    bool receives;
};

/* Sends before receives; inside a lane the order of the operations, which is the order of the
 * numbers. */
static int by_lane(const void *x, const void *y)
{
    const struct message *a = x, *b = y;
    if (a->receives != b->receives)
        return a->receives ? 1 : -1;
    if (a->peer != b->peer)
        return a->peer < b->peer ? -1 : 1;
    if (a->channel != b->channel)
        return a->channel < b->channel ? -1 : 1;
    return a->op < b->op ? -1 : a->op > b->op;
}

static bool same_lane(const struct message *a, const struct message *b)
{
    return a->receives == b->receives && a->peer == b->peer && a->channel == b->channel;
}

/* All message operations of the slice, sorted into lanes. */
static bool list_messages(const struct tt_xcompile *x, struct tt_vec *ret)
{
    for (uint32_t i = 0; i < x->slice.nops; i++) {
        const struct tt_op *op = &x->slice.ops[i];
        struct message m = {
            .peer = op->peer, .channel = op->channel, .op = i, .receives = op->kind != TT_OP_SEND};
        if (op->kind <= TT_OP_RECV_REDUCE && !tt_vec_push(ret, &m, 1))
            return false;
    }
    if (ret->len)
        qsort(ret->data, ret->len, sizeof(struct message), by_lane);
    return true;
}

/* The link of a peer that has one: links are sorted by peer. Invariant: the peer's link is in [lo,
 * hi). */
static uint32_t find_link(const struct tt_program *p, uint32_t peer)
{
    uint32_t lo = 0, hi = p->nlinks;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (p->links[mid].peer <= peer)
            lo = mid;
        else
            hi = mid;
    }
    assert(p->nlinks > 0 && p->links[lo].peer == peer);
    return lo;
}

static int by_number(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* A block's length that only its two ends know enters the fingerprint of their messages: ends that
 * disagree see a mismatch. The 1 makes an empty block differ from no salt. */
static uint64_t salt_of(const size_t *counts, uint32_t peer)
{
    return tt_mix64(counts[peer] + 1);
}

/* One link per peer, whether messages come from it, go to it or both. */
static bool make_links(const struct tt_xcompile *x, const struct tt_vec *messages)
{
    struct tt_program *p = x->p;
    const uint32_t *places = x->config->places;
    const struct tt_blocks *b = x->config->blocks;
    const struct message *m = messages->data;
    uint32_t *peers = tt_alloc(messages->len, sizeof *peers);
    if (!peers)
        return messages->len == 0;
    for (size_t i = 0; i < messages->len; i++) {
        assert(m[i].peer < x->shape->ranks && m[i].peer != x->config->rank);
        peers[i] = m[i].peer;
    }
    qsort(peers, messages->len, sizeof *peers, by_number);
    p->links = tt_zalloc(messages->len, sizeof *p->links);
    for (size_t i = 0; p->links && i < messages->len; i++)
        if (i == 0 || peers[i] != peers[i - 1])
            p->links[p->nlinks++] = (struct tt_xlink){
                .peer = peers[i], .place = places ? places[peers[i]] : TT_NO_PLACE, .program = p};
    for (uint32_t i = 0; b && i < p->nlinks; i++) {
        p->links[i].in_salt = salt_of(b->recv_counts, p->links[i].peer);
        p->links[i].out_salt = salt_of(b->send_counts, p->links[i].peer);
    }
    free(peers);
    return p->links;
}

/* A hash; only the spread matters, since add_lane and tt_exec_lane_find probe alike. */
static uint32_t slot_of(const struct tt_program *p, uint32_t peer, uint32_t channel)
{
    return (peer * 0x9e3779b1u ^ channel * 0x85ebca6bu) >> 7 & p->lane_mask;
}

/* The table is at most half full, so that the probing ends. An entry with n == 0 is free. */
static void add_lane(struct tt_program *p, const struct tt_xlane *lane)
{
    assert(lane->n > 0 && lane->link < p->nlinks);
    uint32_t i = slot_of(p, lane->peer, lane->channel);
    while (p->lanes[i].n)
        i = (i + 1) & p->lane_mask;
    p->lanes[i] = *lane;
}

const struct tt_xlane *tt_exec_lane_find(const struct tt_program *p, uint32_t peer,
                                         uint32_t channel)
{
    uint32_t i = slot_of(p, peer, channel);
    for (; p->lanes[i].n; i = (i + 1) & p->lane_mask)
        if (p->lanes[i].peer == peer && p->lanes[i].channel == channel)
            return &p->lanes[i];
    return NULL;
}

/* Numbers the messages and makes the lanes of those that arrive. Invariant: all messages before i
 * have their number. */
static bool make_lanes(struct tt_program *p, const struct tt_vec *messages)
{
    const struct message *m = messages->data;
    size_t slots = 4;
    while (slots < 2 * messages->len)
        slots *= 2;
    p->lanes = tt_zalloc(slots, sizeof *p->lanes);
    p->lane_ops = tt_alloc(messages->len, sizeof *p->lane_ops);
    p->lane_mask = (uint32_t)slots - 1;
    if (!p->lanes || !p->lane_ops)
        return false;
    for (size_t i = 0, end; i < messages->len; i = end) {
        struct tt_xlane lane = {.peer = m[i].peer,
                                .channel = m[i].channel,
                                .link = find_link(p, m[i].peer),
                                .first = (uint32_t)i};
        for (end = i; end < messages->len && same_lane(&m[i], &m[end]); end++) {
            p->lane_ops[end] = m[end].op;
            p->ops[m[end].op].link = lane.link;
            p->ops[m[end].op].message = lane.n++;
        }
        if (m[i].receives)
            add_lane(p, &lane);
    }
    return true;
}

tutti_status tt_exec_messages(struct tt_xcompile *x)
{
    struct tt_vec messages = {.elem = sizeof(struct message)};
    bool ok =
        list_messages(x, &messages) && make_links(x, &messages) && make_lanes(x->p, &messages);
    tt_vec_free(&messages);
    return ok ? TUTTI_OK : tt_fail_memory(x->err, "messages");
}

/* Credit of a segment's pieces: all but the last have full length. */
static uint64_t cost_of(uint64_t bytes, uint32_t pieces)
{
    assert(pieces > 0 && bytes >= (uint64_t)(pieces - 1) * TT_XPIECE);
    uint64_t last = bytes - (uint64_t)(pieces - 1) * TT_XPIECE;
    return (uint64_t)(pieces - 1) * tt_xcost(TT_XPIECE) + tt_xcost(last);
}

/* Adds up what each link carries in a run. It is the same in both modes: they differ in what waits,
 * not in what moves. */
void tt_exec_messages_count(struct tt_program *p, const struct tt_xtask *tasks)
{
    for (uint32_t t = 0; t < p->ntasks; t++) {
        const struct tt_xop *op = &p->ops[t / p->segments];
        uint64_t bytes = tt_exec_op_bytes(p, op, t % p->segments);
        if (op->kind > TT_OP_RECV_REDUCE || tasks[t].left == 0)
            continue;
        struct tt_xlink *l = &p->links[op->link];
        bool out = op->kind == TT_OP_SEND;
        *(out ? &l->out_pieces : &l->in_pieces) += tasks[t].left;
        l->in_bytes += out ? 0 : bytes;
        *(out ? &l->out_cost : &l->in_cost) += cost_of(bytes, tasks[t].left);
    }
}
