/* wait.c - deadlock: can the messages of a step wait for each other in a cycle if a send ends
 * only with its receive (rendezvous)?
 *
 * An operation waits for earlier listed operations of its rank that conflict with it, and for
 * its turn on (peer, channel). Both ends of a message are in the same step and every rank lists
 * its steps in order, so a cycle lies within one step. There only receives wait: for an earlier
 * send or receive-reduce that still reads what the receive will write.
 *
 *     0: send x -> 1, receive x <- 1     message 1->0 waits until 0->1 is delivered (0 must send x)
 *     1: send x -> 0, receive x <- 0     0->1 waits until 1->0 is delivered: a cycle, none starts
 *
 * With IN and OUT in one memory (shape.inplace), reading IN and writing OUT of a chunk conflict
 * too. The graph "before -> after" over the step's messages is peeled from its sources (Kahn's
 * algorithm); what cannot be peeled contains a cycle. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_int.h"

enum { MAX_EDGES = 1 << 25 };

/* Adjacent chunks of one memory that a message reads or writes at a rank. */
struct use {
    uint32_t buf, first, len;
    uint32_t msg, op;
};

/* Message `after` cannot be delivered before message `before`. */
struct edge {
    uint32_t before, after;
    uint32_t chunk; /* number in the fold; TT_VNO_CHUNK: they share a channel */
};

void tt_verify_wait_init(struct tt_verifier *v)
{
    v->reads.elem = v->writes.elem = sizeof(struct use);
    v->edges.elem = sizeof(struct edge);
}

static int by_place(const void *a, const void *b)
{
    const struct use *x = a, *y = b;
    if (x->buf != y->buf)
        return x->buf < y->buf ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Adds a read. In place, a read of IN is noted as one of the OUT chunks that share its memory;
 * in all-to-all these are elsewhere for each chunk, so that chunks are added one by one. */
static bool add_use(const struct tt_verifier *v, struct tt_vec *uses, struct use u)
{
    const struct tt_shape *s = v->shape;
    bool alias = s->inplace && u.buf == TT_BUF_IN;
    if (alias)
        u.buf = TT_BUF_OUT;
    if (!alias || s->coll != TUTTI_ALL_TO_ALL)
        return tt_vec_push(uses, &u, 1) != NULL;
    for (uint32_t i = 0; i < u.len; i++) {
        struct use one = u;
        one.first = tt_vfold_number(&v->fold,
                                    tt_sched_shape_alias(s, tt_vfold_chunk(&v->fold, u.first + i)));
        one.len = 1;
        if (!tt_vec_push(uses, &one, 1))
            return false;
    }
    return true;
}

/* Lists what operation `op` of the rank reads and writes on behalf of a message. */
static bool list_uses(struct tt_verifier *v, const struct tt_slice *sl, uint32_t op, uint32_t msg)
{
    struct tt_vwalk w = tt_vwalk_folded(sl, &sl->ops[op], &v->fold);
    struct tt_vrange r;
    uint8_t kind = sl->ops[op].kind;
    bool ok = true;
    while (ok && tt_vwalk_next(&w, &r)) {
        struct use u = {.first = r.first, .len = r.len, .msg = msg, .op = op};
        u.buf = kind == TT_OP_SEND ? r.buf : r.src;
        if (kind != TT_OP_RECV)
            ok = add_use(v, &v->reads, u);
        u.buf = r.buf;
        if (ok && kind != TT_OP_SEND)
            ok = tt_vec_push(&v->writes, &u, 1) != NULL;
    }
    return ok;
}

/* Returns the first write that ends beyond the start of the read. Writes are sorted and do not
 * overlap. */
static size_t first_meeting(const struct use *writes, size_t n, const struct use *read)
{
    size_t lo = 0, hi = n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct use *w = &writes[mid];
        if (w->buf < read->buf || (w->buf == read->buf && w->first + w->len <= read->first))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* Edges are charged as work: a small file could have quadratically many. */
static tutti_status add_edge(struct tt_verifier *v, struct edge e)
{
    if (v->edges.len >= MAX_EDGES)
        return tt_fail(v->err, TUTTI_ERR_LIMIT,
                       "step %" PRIu32
                       ": too many messages read what others write to judge deadlock",
                       v->front.step);
    bool ok = tt_verify_state_charge(&v->state, 1) && tt_vec_push(&v->edges, &e, 1);
    return ok ? TUTTI_OK : tt_verify_state_fail(&v->state, "waiting messages", v->err);
}

/* Adds the edges of one rank: reads before later listed writes of the same chunks. `msg` is the
 * message of its first send; the others follow in listed order. */
static tutti_status rank_waits(struct tt_verifier *v, const struct tt_vactive *a, uint32_t msg)
{
    struct tt_slice sl = tt_sched_slice(v->sched, a->rank);
    const uint32_t *recv_msg = (const uint32_t *)v->recv_msg.data + a->recv_base;
    bool ok = true;
    v->reads.len = v->writes.len = 0;
    for (uint32_t i = a->begin; i < a->locals && ok; i++)
        ok = list_uses(v, &sl, i, i < a->recvs ? msg + (i - a->begin) : recv_msg[i - a->recvs]);
    if (!ok)
        return tt_fail_memory(v->err, "waiting messages");
    const struct use *writes = v->writes.data;
    size_t sorted = 1; /* most lists are in order already */
    while (sorted < v->writes.len && by_place(&writes[sorted - 1], &writes[sorted]) <= 0)
        sorted++;
    if (sorted < v->writes.len)
        qsort(v->writes.data, v->writes.len, sizeof(struct use), by_place);
    tutti_status st = TUTTI_OK;
    for (size_t i = 0; i < v->reads.len; i++) {
        const struct use *r = tt_vec_at(&v->reads, i);
        size_t j = first_meeting(writes, v->writes.len, r);
        for (; !st && j < v->writes.len && writes[j].buf == r->buf &&
               writes[j].first < r->first + r->len;
             j++)
            if (writes[j].op > r->op)
                st = add_edge(
                    v, (struct edge){r->msg, writes[j].msg,
                                     writes[j].first > r->first ? writes[j].first : r->first});
    }
    return st;
}

/* Adds the edges of messages that share a (sender, receiver, channel): they are adjacent in an
 * inbox. */
static tutti_status channel_waits(struct tt_verifier *v)
{
    const struct tt_vkeyed *inbox = v->inbox.data;
    const uint32_t *end = v->inbox_end.data;
    tutti_status st = TUTTI_OK;
    for (uint32_t k = 0, i = 0; k < v->front.n; k++)
        for (uint32_t begin = i; i < end[k] && !st; i++)
            if (i > begin && inbox[i].key == inbox[i - 1].key)
                st = add_edge(v, (struct edge){inbox[i - 1].item, inbox[i].item, TT_VNO_CHUNK});
    return st;
}

/* Appends "; 0->1 waits for 1->0 (reason)". */
static void say_wait(struct tt_verifier *v, struct tt_str *text, const struct edge *e)
{
    const struct tt_vmsg *after = tt_vec_at(&v->msgs, e->after),
                         *before = tt_vec_at(&v->msgs, e->before);
    tt_str_printf(text, "; %" PRIu32 "->%" PRIu32 " waits for %" PRIu32 "->%" PRIu32, after->src,
                  after->dst, before->src, before->dst);
    if (e->chunk == TT_VNO_CHUNK)
        tt_str_printf(text, " (earlier on the channel)");
    else
        tt_str_printf(text,
                      " (rank %" PRIu32 " receives chunk %" PRIu32 " where it still has to %s it)",
                      after->dst, tt_vfold_chunk(&v->fold, e->chunk),
                      before->src == after->dst ? "send" : "read");
}

/* Reports a cycle. wait[m] is an edge to m from another message that is never delivered, so
 * following it backwards ends in a cycle; after as many steps as there are messages it has. */
static tutti_status report_circle(struct tt_verifier *v, const struct edge *const *wait,
                                  uint32_t start)
{
    enum { SHOWN = 4 };
    struct tt_str text = {0};
    const struct edge *blamed = NULL;
    for (size_t i = 0; i < v->msgs.len; i++)
        start = wait[start]->before;
    uint32_t m = start, n = 0;
    do {
        if (n++ < SHOWN)
            say_wait(v, &text, wait[m]);
        if (!blamed && wait[m]->chunk != TT_VNO_CHUNK)
            blamed = wait[m];
        m = wait[m]->before;
    } while (m != start);
    assert(blamed); /* channel turns alone follow the listed order and have no cycle */
    const struct tt_vmsg *msg = tt_vec_at(&v->msgs, blamed->after);
    tutti_status st = text.failed
                          ? tt_fail_memory(v->err, "words")
                          : tt_verify_fault(v, msg->dst, msg->recv,
                                            "step %" PRIu32 ": deadlock of %" PRIu32
                                            " messages when sends wait for their receives%s%s",
                                            v->front.step, n, text.s, n > SHOWN ? "; ..." : "");
    tt_str_free(&text);
    return st;
}

/* Working memory of the peeling: the edges by their `before`, the number of predecessors not yet
 * peeled of each message, and the messages peeled. */
struct peel {
    uint32_t *start, *out, *pending, *queue;
    /* find_circle: an edge from another stuck message, or NULL */
    const struct edge **wait;
};

static bool peel_alloc(struct peel *p, size_t nodes, size_t edges)
{
    p->start = tt_zalloc(nodes + 1, sizeof *p->start);
    p->out = tt_alloc(edges, sizeof *p->out);
    p->pending = tt_zalloc(nodes, sizeof *p->pending);
    p->queue = tt_alloc(nodes, sizeof *p->queue);
    p->wait = tt_zalloc(nodes, sizeof *p->wait);
    return p->start && p->out && p->pending && p->queue && p->wait;
}

static void peel_free(struct peel *p)
{
    free(p->start);
    free(p->out);
    free(p->pending);
    free(p->queue);
    free(p->wait);
}

/* Peels; returns the number of messages that can be delivered. The others keep pending > 0.
 * Invariant: queue[0 .. done-1] are peeled, queue[done .. queued-1] have no predecessors left. */
static uint32_t peel(struct peel *p, const struct edge *edges, size_t nedges, uint32_t nodes)
{
    uint32_t queued = 0, done = 0;
    for (size_t i = 0; i < nedges; i++) {
        p->start[edges[i].before]++;
        p->pending[edges[i].after]++;
    }
    /* prefix sums: start[m] is the end of m's edges, and their begin once they are filled in */
    for (uint32_t m = 0, sum = 0; m <= nodes; m++) {
        sum += p->start[m];
        p->start[m] = sum;
    }
    for (size_t i = nedges; i-- > 0;)
        p->out[--p->start[edges[i].before]] = edges[i].after;
    for (uint32_t m = 0; m < nodes; m++)
        if (p->pending[m] == 0)
            p->queue[queued++] = m;
    while (done < queued) {
        uint32_t m = p->queue[done++];
        for (uint32_t i = p->start[m]; i < p->start[m + 1]; i++)
            if (--p->pending[p->out[i]] == 0)
                p->queue[queued++] = p->out[i];
    }
    return done;
}

/* A stuck message has a stuck predecessor, so wait[] is set for all that report_circle visits. */
static tutti_status find_circle(struct tt_verifier *v)
{
    const struct edge *edges = v->edges.data;
    uint32_t nodes = (uint32_t)v->msgs.len, stuck = 0;
    struct peel p = {0};
    tutti_status st = TUTTI_OK;
    if (!peel_alloc(&p, nodes, v->edges.len))
        st = tt_fail_memory(v->err, "waiting messages");
    else if (peel(&p, edges, v->edges.len, nodes) < nodes) {
        for (size_t i = v->edges.len; i-- > 0;)
            if (p.pending[edges[i].before] > 0 && p.pending[edges[i].after] > 0)
                p.wait[edges[i].after] = &edges[i];
        while (p.pending[stuck] == 0)
            stuck++;
        st = report_circle(v, p.wait, stuck);
    }
    peel_free(&p);
    return st;
}

/* Without edges at ranks there is no cycle, since channel turns alone cannot form one. */
tutti_status tt_verify_wait_step(struct tt_verifier *v)
{
    const struct tt_vfront *f = &v->front;
    tutti_status st = TUTTI_OK;
    uint32_t msg = 0;
    v->edges.len = 0;
    for (uint32_t k = 0; k < f->n && !st; k++) {
        const struct tt_vactive *a = &f->active[k];
        if (a->locals > a->recvs && a->locals - a->begin > 1)
            st = rank_waits(v, a, msg);
        msg += a->recvs - a->begin;
    }
    if (st || v->edges.len == 0)
        return st;
    st = channel_waits(v);
    return st ? st : find_circle(v);
}
