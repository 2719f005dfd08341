/* wait.c - can the messages of a step wait for each other in a circle when a send ends only with
 * its receive (rendezvous)?
 *
 * An operation waits for earlier listed ones of its rank that it conflicts with and for its turn on
 * (peer, channel). Both ends of a message are in the same step and every rank lists its steps in
 * order, so a circle lies within one step; and there only receives wait: for an earlier send or
 * receive-reduce that still reads what the receive will write.
 *
 *     0: send x -> 1, receive x <- 1     message 1->0 waits until 0->1 is through (0 must send x)
 *     1: send x -> 0, receive x <- 0     0->1 waits until 1->0 is through: a circle, nobody starts
 *
 * With IN and OUT in one memory (shape.inplace) reading IN and writing OUT of a chunk conflict too.
 * The graph "before -> after" over the step's messages is peeled from its sources (Kahn); what
 * cannot be peeled contains a circle. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_int.h"

enum { MAX_EDGES = 1 << 25 };

/* Touching chunks of one memory that a message reads or writes at a rank. */
struct use {
    uint32_t buf, first, len;
    uint32_t msg, op;
};

struct edge {
    uint32_t before, after;
    uint32_t chunk; /* its number in the fold; TT_VNO_CHUNK: they share a channel */
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

/* In place, the input is known by the output chunks that share its memory. */
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

/* What operation `op` of the rank reads and writes on behalf of a message. */
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

/* The first write that ends beyond the start of the read; writes are sorted and do not overlap. */
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

/* The waits at one rank: `msg` is its first send's message. */
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
    size_t sorted = 1; /* most are */
    while (sorted < v->writes.len && by_place(&writes[sorted - 1], &writes[sorted]) <= 0)
        sorted++;
    if (sorted < v->writes.len)
        qsort(v->writes.data, v->writes.len, sizeof(struct use), by_place);
    tutti_status st = TUTTI_OK;
    for (size_t i = 0; i < v->reads.len; i++) {
        const struct use *r = tt_vec_at(&v->reads, i);
        size_t j = first_meeting(writes, v->writes.len, r);
        for (; st == TUTTI_OK && j < v->writes.len && writes[j].buf == r->buf &&
               writes[j].first < r->first + r->len;
             j++)
            if (writes[j].op > r->op)
                st = add_edge(
                    v, (struct edge){r->msg, writes[j].msg,
                                     writes[j].first > r->first ? writes[j].first : r->first});
    }
    return st;
}

/* Turns on one (peer, channel). */
static tutti_status channel_waits(struct tt_verifier *v)
{
    const struct tt_vkeyed *inbox = v->inbox.data;
    const uint32_t *end = v->inbox_end.data;
    tutti_status st = TUTTI_OK;
    for (uint32_t k = 0, i = 0; k < v->front.n; k++)
        for (uint32_t begin = i; i < end[k] && st == TUTTI_OK; i++)
            if (i > begin && inbox[i].key == inbox[i - 1].key)
                st = add_edge(v, (struct edge){inbox[i - 1].item, inbox[i].item, TT_VNO_CHUNK});
    return st;
}

/* Appends " m waits for its predecessor because ..." */
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

/* `wait[m]`: an edge from a message that is never through to m, which is not either. Following it
 * ends in a circle. */
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
    assert(blamed); /* turns alone are in listed order */
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

/* Working memory of the peeling: edges by their first message, and how many predecessors each
 * message still has. */
struct peel {
    uint32_t *start, *out, *pending, *queue;
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

/* Returns how many messages can be brought through; those that cannot keep pending > 0. */
static uint32_t peel(struct peel *p, const struct edge *edges, size_t nedges, uint32_t nodes)
{
    uint32_t queued = 0, done = 0;
    for (size_t i = 0; i < nedges; i++) {
        p->start[edges[i].before]++;
        p->pending[edges[i].after]++;
    }
    /* start[m]: end of m's edges, counted down while filling */
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

tutti_status tt_verify_wait_step(struct tt_verifier *v)
{
    const struct tt_vfront *f = &v->front;
    tutti_status st = TUTTI_OK;
    uint32_t msg = 0;
    v->edges.len = 0;
    for (uint32_t k = 0; k < f->n && st == TUTTI_OK; k++) {
        const struct tt_vactive *a = &f->active[k];
        if (a->locals > a->recvs && a->locals - a->begin > 1)
            st = rank_waits(v, a, msg);
        msg += a->recvs - a->begin;
    }
    if (st != TUTTI_OK || v->edges.len == 0)
        return st;
    st = channel_waits(v);
    return st == TUTTI_OK ? find_circle(v) : st;
}
