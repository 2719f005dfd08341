/* match.c - finds the receive of every send of a step: same ranks, same channel, same position
 * in the line of that channel, same chunks.
 *
 *     sends of the step --counting sort--> inbox of each receiver, sorted by (sender, channel)
 *     receives of a rank -----------------> `expected`,            sorted by (sender, channel)
 *                                           must agree entry by entry
 *
 * Messages on one (sender, receiver, channel) form a line and match in order. If all earlier
 * steps matched, both ends have advanced equally far in every line, so each step can be matched
 * alone. That costs O(m log m) for the m messages of a rank, also when all pairs talk. Whole
 * lines are searched only after a mismatch, to say what is missing. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "verify/verify_int.h"

static int by_key(const void *a, const void *b)
{
    const struct tt_vkeyed *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->item < y->item ? -1 : x->item > y->item;
}

/* Most lists are in order already, which is cheaper to check than to sort. */
static void sort_keyed(struct tt_vkeyed *k, size_t n)
{
    size_t i = 1;
    while (i < n && by_key(&k[i - 1], &k[i]) < 0)
        i++;
    if (i < n)
        qsort(k, n, sizeof *k, by_key);
}

/* Finds the nth operation (from 0) of the same direction as `like` in the line between `at` and
 * `peer`, as `at` lists it. Returns its index, or the length of the slice. *ret_total:
 * operations in the line. */
static size_t find_in_line(const struct tt_sched *s, const struct tt_op *like, uint32_t at,
                           uint32_t peer, uint64_t nth, uint64_t *ret_total)
{
    struct tt_slice sl = tt_sched_slice(s, at);
    size_t found = sl.nops;
    bool sends = like->kind == TT_OP_SEND;
    *ret_total = 0;
    for (size_t i = 0; i < sl.nops; i++) {
        const struct tt_op *op = &sl.ops[i];
        bool same = op->kind <= TT_OP_RECV_REDUCE && (op->kind == TT_OP_SEND) == sends &&
                    op->peer == peer && op->channel == like->channel;
        if (same && (*ret_total)++ == nth)
            found = i;
    }
    return found;
}

/* Reports that operation `i` of `rank` has no partner in its step. Either its partner is in
 * another step, or the two ends have different numbers of messages. In the latter case `odd`, of
 * the same line and step (or `i` itself), is named as the superfluous one. */
static tutti_status unmatched(struct tt_verifier *v, uint32_t rank, size_t i, size_t odd)
{
    struct tt_slice sl = tt_sched_slice(v->sched, rank);
    const struct tt_op *op = &sl.ops[i];
    struct tt_op other = {.kind = op->kind == TT_OP_SEND ? TT_OP_RECV : TT_OP_SEND,
                          .channel = op->channel};
    uint64_t nth = 0, here, there;
    for (size_t j = 0; j < i; j++)
        nth += sl.ops[j].kind <= TT_OP_RECV_REDUCE &&
               (sl.ops[j].kind == TT_OP_SEND) == (op->kind == TT_OP_SEND) &&
               sl.ops[j].peer == op->peer && sl.ops[j].channel == op->channel;
    find_in_line(v->sched, op, rank, op->peer, nth, &here);
    size_t partner = find_in_line(v->sched, &other, op->peer, rank, nth, &there);
    const char *sends = op->kind == TT_OP_SEND ? "sends" : "receives",
               *receives = op->kind == TT_OP_SEND ? "receives" : "sends";
    if (here != there)
        return tt_verify_fault(
            v, rank, odd,
            "step %" PRIu32 ": %s (%s) has no partner: on channel %d rank %" PRIu32 " %s %" PRIu64
            " message%s %s rank %" PRIu32 " and rank %" PRIu32 " %s %" PRIu64,
            op->step, tt_verify_say_op(op).s, tt_verify_say_chunks(&sl, &sl.ops[odd]).s,
            op->channel, rank, sends, here, here == 1 ? "" : "s",
            op->kind == TT_OP_SEND ? "to" : "from", op->peer, op->peer, receives, there);
    struct tt_slice peer = tt_sched_slice(v->sched, op->peer);
    assert(partner < peer.nops);
    return tt_verify_fault(v, rank, i,
                           "step %" PRIu32 ": %s (%s) meets op %zu of rank %" PRIu32
                           ", which is of step %" PRIu32
                           ": both ends of a message must be in the same step",
                           op->step, tt_verify_say_op(op).s, tt_verify_say_chunks(&sl, op).s,
                           partner, op->peer, peer.ops[partner].step);
}

/* Reports a message whose ends name different chunks, with the first that differ. */
static tutti_status other_chunks(struct tt_verifier *v, const struct tt_vmsg *m, uint32_t sent,
                                 uint32_t expected)
{
    struct tt_slice from = tt_sched_slice(v->sched, m->src), to = tt_sched_slice(v->sched, m->dst);
    const struct tt_op *recv = &to.ops[m->recv];
    char first[64] = "";
    if (sent != TT_VNO_CHUNK && expected != TT_VNO_CHUNK)
        snprintf(first, sizeof first, ": first %" PRIu32 " in place of %" PRIu32, sent, expected);
    return tt_verify_fault(
        v, m->dst, m->recv,
        "step %" PRIu32 ": %s expects %s, but rank %" PRIu32 " (its op %" PRIu32 ") sends %s%s",
        recv->step, tt_verify_say_op(recv).s, tt_verify_say_chunks(&to, recv).s, m->src, m->send,
        tt_verify_say_chunks(&from, &from.ops[m->send]).s, first);
}

/* Lists all sends of the step as messages; afterwards inbox_end[k + 1] counts those for the
 * first k + 1 active ranks, so inbox_end[k] is where inbox k begins. */
static tutti_status list_sends(struct tt_verifier *v, const struct tt_vfront *f)
{
    v->msgs.len = v->inbox_end.len = 0;
    if (!tt_vec_push(&v->inbox_end, NULL, (size_t)f->n + 1))
        return tt_fail_memory(v->err, "messages");
    uint32_t *start = v->inbox_end.data;
    for (uint32_t k = 0; k < f->n; k++) {
        const struct tt_vactive *a = &f->active[k];
        struct tt_slice sl = tt_sched_slice(f->sched, a->rank);
        for (uint32_t i = a->begin; i < a->recvs; i++) {
            const struct tt_vactive *to = tt_verify_front_find(f, sl.ops[i].peer);
            struct tt_vmsg m = {
                .src = a->rank, .dst = sl.ops[i].peer, .send = i, .channel = sl.ops[i].channel};
            /* The receiver has no receive at all in this step. */
            if (!to || to->locals == to->recvs)
                return unmatched(v, a->rank, i, i);
            if (!tt_vec_push(&v->msgs, &m, 1))
                return tt_fail_memory(v->err, "messages");
            start[to - f->active + 1]++;
        }
    }
    for (uint32_t k = 0; k < f->n; k++)
        start[k + 1] += start[k];
    return TUTTI_OK;
}

/* Deals the messages into the inboxes, keeping their order. Each inbox_end[k] advances from the
 * begin of inbox k to its end. */
static tutti_status deal(struct tt_verifier *v, const struct tt_vfront *f)
{
    v->inbox.len = 0;
    if (!tt_vec_push(&v->inbox, NULL, v->msgs.len))
        return tt_fail_memory(v->err, "messages");
    struct tt_vkeyed *inbox = v->inbox.data;
    uint32_t *start = v->inbox_end.data;
    const struct tt_vmsg *msgs = v->msgs.data;
    for (uint32_t i = 0; i < v->msgs.len; i++) {
        uint32_t slot = f->slot[msgs[i].dst];
        assert(start[slot] < v->msgs.len);
        inbox[start[slot]++] = (struct tt_vkeyed){(uint64_t)msgs[i].src << 16 | msgs[i].channel, i};
    }
    return TUTTI_OK;
}

static bool same_chunks(const struct tt_verifier *v, const struct tt_vmsg *m, uint32_t *ret_sent,
                        uint32_t *ret_wanted)
{
    struct tt_slice from = tt_sched_slice(v->sched, m->src), to = tt_sched_slice(v->sched, m->dst);
    return tt_verify_walk_same_chunks(tt_vwalk_folded(&from, &from.ops[m->send], &v->fold),
                                      tt_vwalk_folded(&to, &to.ops[m->recv], &v->fold), ret_sent,
                                      ret_wanted);
}

/* Entry `i` has no counterpart for its (sender, channel). Of the entries before it in the line,
 * the first whose chunks do not fit its counterpart is more likely the superfluous one: returns
 * its position. */
static size_t odd_one(const struct tt_verifier *v, const struct tt_vkeyed *inbox,
                      const struct tt_vkeyed *line, size_t i)
{
    uint32_t sent, wanted;
    size_t k = i;
    while (k > 0 && line[k - 1].key == line[i].key)
        k--;
    while (k < i && same_chunks(v, tt_vec_at(&v->msgs, inbox[k].item), &sent, &wanted))
        k++;
    return k;
}

/* Joins the inbox of one rank with its receives. Both are sorted by key, so the first position
 * where they differ shows which side has too few. Invariant: entries before i are partners. */
static tutti_status match_join(struct tt_verifier *v, const struct tt_vactive *a,
                               struct tt_vkeyed *inbox, size_t n)
{
    struct tt_slice sl = tt_sched_slice(v->sched, a->rank);
    struct tt_vkeyed *expected = v->expected.data;
    struct tt_vmsg *msgs = v->msgs.data;
    uint32_t *recv_msg = v->recv_msg.data, nrecv = a->locals - a->recvs;
    for (uint32_t i = 0; i < nrecv; i++) {
        const struct tt_op *op = &sl.ops[a->recvs + i];
        expected[i] = (struct tt_vkeyed){(uint64_t)op->peer << 16 | op->channel, a->recvs + i};
    }
    sort_keyed(expected, nrecv);
    sort_keyed(inbox, n);
    for (size_t i = 0; i < n || i < nrecv; i++) {
        bool no_send = i >= n || (i < nrecv && expected[i].key < inbox[i].key);
        bool no_recv = i >= nrecv || (i < n && inbox[i].key < expected[i].key);
        if (no_send)
            return unmatched(v, a->rank, expected[i].item,
                             expected[odd_one(v, inbox, expected, i)].item);
        struct tt_vmsg *m = &msgs[inbox[i].item];
        if (no_recv)
            return unmatched(v, m->src, m->send,
                             msgs[inbox[odd_one(v, inbox, inbox, i)].item].send);
        assert(inbox[i].key == expected[i].key && m->dst == a->rank);
        m->recv = expected[i].item;
        recv_msg[a->recv_base + m->recv - a->recvs] = inbox[i].item;
    }
    return TUTTI_OK;
}

/* Compares chunks after joining, so that a missing message is reported as missing and not as
 * wrong chunks in the following one. */
static tutti_status compare_chunks(struct tt_verifier *v)
{
    for (size_t i = 0; i < v->msgs.len; i++) {
        const struct tt_vmsg *m = tt_vec_at(&v->msgs, i);
        uint32_t sent, wanted;
        if (!same_chunks(v, m, &sent, &wanted))
            return other_chunks(v, m, sent, wanted);
    }
    return TUTTI_OK;
}

tutti_status tt_verify_match_step(struct tt_verifier *v, const struct tt_vfront *f)
{
    tutti_status st = list_sends(v, f);
    if (!st)
        st = deal(v, f);
    if (st)
        return st;
    v->expected.len = v->recv_msg.len = 0;
    if (!tt_vec_push(&v->expected, NULL, f->recvs) || !tt_vec_push(&v->recv_msg, NULL, f->recvs))
        return tt_fail_memory(v->err, "messages");
    assert(v->inbox.len == v->msgs.len && v->inbox_end.len == (size_t)f->n + 1);
    const uint32_t *end = v->inbox_end.data;
    for (uint32_t k = 0; k < f->n && !st; k++) {
        uint32_t begin = k ? end[k - 1] : 0;
        st =
            match_join(v, &f->active[k], (struct tt_vkeyed *)v->inbox.data + begin, end[k] - begin);
    }
    return st ? st : compare_chunks(v);
}
