/* work.c - turns a schedule into a graph to run: operations by block, messages joined from their
 * two ends, connections with routes, sizes.
 *
 * There are two passes over the operations. The first finds the connections and counts their
 * messages; then every connection has its own range of message numbers. The second numbers sends
 * and receives of each connection in listed order, which is the matching rule of sched.h:
 *
 *     rank 0: send->1 a, send->2 b, send->1 c        connection 0->1: messages 0 (a), 1 (c)
 *                                                    connection 0->2: message 2 (b)
 *     rank 1: recv<-0 a, recv<-0 c                   receives of rank 1 from 0: messages 0, 1
 *
 * Invariant of the second pass: the first sent[conn] (taken[conn]) messages of a connection have
 * their send (receive). */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "cost/classes.h"
#include "sim/sim_int.h"

enum { BLOCK_OPS = 64 };

/* Connections by (src, dst, channel): open addressing, at most half full. Ranks have 24 bits and
 * channels 16, so a key is exact. */
struct table {
    uint64_t *key; /* 0: free; else the key, which is never 0 */
    uint32_t *value;
    uint64_t mask;
};
/* The work under construction, and what only its construction needs. */
struct maker {
    struct tt_work *w;
    struct table table;
    struct tt_vec conns, path;
    uint32_t *sent, *taken; /* per connection: messages numbered so far */
    uint32_t *number;       /* of each operation as listed */
    uint64_t last_key;      /* of the connection looked up last: often the next one too */
    uint32_t last_conn;
};

/* + 1, so that no key is 0. */
static uint64_t key_of(uint32_t src, uint32_t dst, uint32_t channel)
{
    return ((uint64_t)src << 40 | (uint64_t)dst << 16 | channel) + 1;
}

/* The slot of a key, or the free one where it belongs. */
static uint64_t slot_of(const struct table *h, uint64_t key)
{
    uint64_t i = tt_mix64(key) & h->mask;
    while (h->key[i] && h->key[i] != key)
        i = (i + 1) & h->mask;
    return i;
}

static bool table_resize(struct table *h, uint64_t slots)
{
    struct table old = *h, new = {tt_zalloc(slots, sizeof *new.key),
                                  tt_alloc(slots, sizeof *new.value), slots - 1};
    if (!new.key || !new.value) {
        free(new.key);
        free(new.value);
        return false;
    }
    for (uint64_t i = 0; old.key && i <= old.mask; i++) {
        if (!old.key[i])
            continue;
        uint64_t at = slot_of(&new, old.key[i]);
        new.key[at] = old.key[i];
        new.value[at] = old.value[i];
    }
    free(old.key);
    free(old.value);
    *h = new;
    return true;
}

/* Returns the connection's number, new or known; UINT32_MAX: out of memory. */
static uint32_t conn_add(struct maker *m, uint32_t src, const struct tt_op *op)
{
    uint64_t key = key_of(src, op->peer, op->channel), i = slot_of(&m->table, key);
    struct tt_work_conn c = {.src = src, .dst = op->peer, .channel = op->channel};
    if (m->table.key[i])
        return m->table.value[i];
    if (2 * (m->conns.len + 1) > m->table.mask) {
        if (!table_resize(&m->table, 2 * (m->table.mask + 1)))
            return UINT32_MAX;
        i = slot_of(&m->table, key);
    }
    if (!tt_vec_push(&m->conns, &c, 1))
        return UINT32_MAX;
    assert(!m->table.key[i] && 2 * m->conns.len <= m->table.mask + 1);
    m->table.key[i] = key;
    return m->table.value[i] = (uint32_t)m->conns.len - 1;
}

static bool is_recv(uint32_t kind)
{
    return kind == TT_OP_RECV || kind == TT_OP_RECV_REDUCE;
}

/* First pass: connections, their counts, the size of every block. Until the second pass,
 * number[] of a send is its connection. */
static tutti_status find_conns(struct maker *m, struct tutti_error *err)
{
    const struct tt_sched *s = m->w->s;
    uint32_t id = 0;
    if (!table_resize(&m->table, 1024))
        return tt_fail_memory(err, "connections");
    for (uint32_t rank = 0; rank < m->w->ranks; rank++) {
        struct tt_slice sl = tt_sched_slice(s, rank);
        uint64_t key = 0;
        uint32_t conn = 0;
        for (size_t i = 0; i < sl.nops; i++, id++) {
            const struct tt_op *op = &sl.ops[i];
            m->w->block_at[op->step >> m->w->block_shift]++;
            if (op->kind != TT_OP_SEND)
                continue;
            if (key_of(rank, op->peer, op->channel) != key) {
                key = key_of(rank, op->peer, op->channel);
                conn = conn_add(m, rank, op);
            }
            if (conn == TT_WORK_NONE)
                return tt_fail_memory(err, "connections");
            struct tt_work_conn *conns = m->conns.data;
            assert(conns);
            m->number[id] = conn;
            conns[conn].count++;
        }
    }
    return TUTTI_OK;
}

/* Gives each connection its range of message numbers; the work takes the array over. */
static tutti_status number_conns(struct maker *m, struct tutti_error *err)
{
    struct tt_work *w = m->w;
    w->nconns = (uint32_t)m->conns.len;
    w->conn = m->conns.data;
    m->conns.data = NULL;
    assert(w->conn || w->nconns == 0);
    for (uint32_t c = 0; c < w->nconns; c++) {
        w->conn[c].first = w->nmsgs;
        w->nmsgs += w->conn[c].count;
    }
    w->msg = tt_zalloc((size_t)w->nmsgs + 1, sizeof *w->msg);
    m->sent = tt_zalloc((size_t)w->nconns + 1, sizeof *m->sent);
    m->taken = tt_zalloc((size_t)w->nconns + 1, sizeof *m->taken);
    return w->msg && m->sent && m->taken ? TUTTI_OK : tt_fail_memory(err, "messages");
}

/* The send gets the next message number of its connection, and the previous send a link to it. */
static void add_send(struct maker *m, uint32_t conn, const struct tt_slice *sl,
                     const struct tt_op *op, uint32_t id)
{
    struct tt_work *w = m->w;
    assert(w->conn && conn < w->nconns);
    uint32_t i = m->sent[conn]++, first = w->conn[conn].first;
    assert(i < w->conn[conn].count);
    struct tt_work_msg *msg = &w->msg[first + i];
    uint64_t elems = tt_sched_bind_op_bytes(&w->bind, sl, op) / w->elem_bytes;
    msg->send = id;
    msg->conn = conn;
    msg->step = op->step;
    msg->elems = elems;
    w->op[id].ref = first + i;
    w->op[id].conn = conn;
    w->op[id].next = TT_WORK_NONE;
    w->op[id].elems = elems < TT_WORK_NONE ? (uint32_t)elems : TT_WORK_NONE;
    if (i)
        w->op[msg[-1].send].next = id;
}

/* By symmetry (class_link), what rank 0 receives from rank N-d is what it sends to rank d
 * itself. */
static tutti_status add_recv(struct maker *m, uint32_t rank, const struct tt_op *op, uint32_t id,
                             struct tutti_error *err)
{
    struct tt_work *w = m->w;
    uint64_t key = w->class_link ? key_of(0, w->t->ranks - op->peer, op->channel)
                                 : key_of(op->peer, rank, op->channel);
    if (key != m->last_key) {
        uint64_t i = slot_of(&m->table, key);
        m->last_key = key;
        m->last_conn = m->table.key[i] ? m->table.value[i] : TT_WORK_NONE;
    }
    uint32_t c = m->last_conn;
    assert(c == TT_WORK_NONE || w->conn);
    if (c == TT_WORK_NONE || m->taken[c] == w->conn[c].count)
        return tt_fail(
            err, TUTTI_ERR_MISMATCH,
            "rank %u receives a message from rank %u (step %u, channel %u) that is never sent",
            rank, op->peer, op->step, op->channel);
    assert(w->conn[c].first + m->taken[c] < w->nmsgs);
    w->op[id].ref = w->conn[c].first + m->taken[c]++;
    w->op[id].conn = c;
    w->msg[w->op[id].ref].recv = id;
    return TUTTI_OK;
}

/* Second pass: numbers by block, messages with their two ends. */
static tutti_status work_match(struct maker *m, struct tutti_error *err)
{
    struct tt_work *w = m->w;
    tutti_status st = TUTTI_OK;
    uint32_t at = 0;
    for (uint32_t rank = 0; rank < w->ranks && !st; rank++) {
        struct tt_slice sl = tt_sched_slice(w->s, rank);
        for (size_t i = 0; i < sl.nops && !st; i++, at++) {
            const struct tt_op *op = &sl.ops[i];
            uint32_t id = w->block_at[op->step >> w->block_shift]++;
            uint32_t conn = m->number[at];
            m->number[at] = id;
            w->op[id] = (struct tt_work_op){.ref = at, .kind = op->kind, .rank = rank & 0xffffff};
            if (op->kind == TT_OP_SEND)
                add_send(m, conn, &sl, op, id);
            else if (is_recv(op->kind))
                st = add_recv(m, rank, op, id, err);
        }
    }
    return st;
}

/* Checks that every send has its receive, and tells the send its number. The message counts as
 * one more thing that the receive waits for. */
static tutti_status work_join(struct maker *m, struct tutti_error *err)
{
    struct tt_work *w = m->w;
    for (uint32_t c = 0; c < w->nconns; c++)
        if (m->taken[c] < w->conn[c].count)
            return tt_fail(
                err, TUTTI_ERR_MISMATCH,
                "rank %u sends %u messages to rank %u on channel %u, which receives only %u",
                w->conn[c].src, w->conn[c].count, w->conn[c].dst, w->conn[c].channel, m->taken[c]);
    for (uint32_t i = 0; i < w->nmsgs; i++) {
        w->op[w->msg[i].send].peer = w->msg[i].recv;
        w->op[w->msg[i].recv].need++;
    }
    return TUTTI_OK;
}

/* Turns block_at from sizes into starts. Numbering moves each start to the next one, and
 * blocks_back undoes that. */
static void blocks_start(struct tt_work *w)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i <= w->nblocks; i++) {
        uint32_t n = w->block_at[i];
        w->block_at[i] = sum;
        sum += n;
    }
}

static void blocks_back(struct tt_work *w)
{
    for (uint32_t i = w->nblocks; i > 0; i--)
        w->block_at[i] = w->block_at[i - 1];
    w->block_at[0] = 0;
}

/* Chooses so many steps per block that a rank has about BLOCK_OPS operations in a row: fewer
 * would scatter the writes here, more the reads of the engines. */
static void blocks_choose(struct tt_work *w)
{
    uint64_t slots = (uint64_t)w->s->nsteps * w->ranks;
    while (w->block_shift < 31 && ((uint64_t)w->nops << w->block_shift) < BLOCK_OPS * slots)
        w->block_shift++;
    w->nblocks = w->s->nsteps ? ((w->s->nsteps - 1) >> w->block_shift) + 1 : 0;
}

/* ---- routes ---- */

/* The schedule's own route, else the topology's. By symmetry links become those of their
 * classes, and the destination is rank 0 itself. */
static tutti_status find_route(struct maker *m, struct tt_work_conn *c, uint32_t *links,
                               uint32_t cap, struct tutti_error *err)
{
    const struct tt_work *w = m->w;
    const struct tt_sched_route *own =
        w->s->nroutes ? tt_sched_route(w->s, c->src, c->dst, c->channel) : NULL;
    const uint32_t *from = own ? own->links : links;
    c->nlinks = own ? own->nlinks : 0;
    tutti_status st =
        own ? TUTTI_OK : tt_topo_route(w->t, c->src, c->dst, links, cap, &c->nlinks, err);
    if (st)
        return st;
    c->path_at = m->path.len;
    for (uint32_t i = 0; i < c->nlinks && w->class_link; i++)
        links[i] = w->class_link[tt_cost_class_of(w->t, links[i])];
    if (w->class_link)
        c->dst = 0;
    for (uint32_t i = 0; i < c->nlinks; i++)
        if (__builtin_add_overflow(c->latency_ps, w->t->links[from[i] / 2].latency_ps,
                                   &c->latency_ps))
            return tt_fail(err, TUTTI_ERR_RANGE,
                           "the latency of the route %u->%u exceeds 2^64 picoseconds", c->src,
                           c->dst);
    return tt_vec_push(&m->path, from, c->nlinks) || !c->nlinks ? TUTTI_OK
                                                                : tt_fail_memory(err, "routes");
}

static tutti_status find_routes(struct maker *m, struct tutti_error *err)
{
    struct tt_work *w = m->w;
    uint32_t cap = tt_topo_max_route(w->t);
    uint32_t *links = tt_alloc((size_t)cap + 1, sizeof *links);
    tutti_status st = links ? TUTTI_OK : tt_fail_memory(err, "routes");
    for (uint32_t c = 0; c < w->nconns && !st; c++)
        st = find_route(m, &w->conn[c], links, cap, err);
    w->path = m->path.data;
    m->path.data = NULL;
    free(links);
    return st;
}

/* ---- the whole ---- */

static tutti_status make_room(struct maker *m, struct tutti_error *err)
{
    struct tt_work *w = m->w;
    size_t n = (size_t)w->nops + 1;
    blocks_choose(w);
    w->op = tt_alloc(n, sizeof *w->op);
    w->block_at = tt_zalloc((size_t)w->nblocks + 1, sizeof *w->block_at);
    m->number = tt_alloc(n, sizeof *m->number);
    if (!w->op || !w->block_at || !m->number)
        return tt_fail_memory(err, "operations");
    w->op[w->nops] = (struct tt_work_op){0};
    return TUTTI_OK;
}

/* Conflicts first, since tt_sim_work_deps sets `need`; work_join then adds the messages. */
static tutti_status work_fill(struct maker *m, struct tutti_error *err)
{
    tutti_status st = make_room(m, err);
    if (!st)
        st = find_conns(m, err);
    if (!st)
        st = number_conns(m, err);
    if (st)
        return st;
    blocks_start(m->w);
    st = work_match(m, err);
    blocks_back(m->w);
    if (!st)
        st = find_routes(m, err);
    if (!st)
        st = tt_sim_work_deps(m->w, m->number, err);
    return st ? st : work_join(m, err);
}

tutti_status tt_sim_work_make_one(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                                  tutti_dtype dtype, const uint32_t *class_link,
                                  struct tt_work **ret, struct tutti_error *err)
{
    struct tt_work *w = tt_zalloc(1, sizeof *w);
    struct maker m = {
        .w = w, .conns = {.elem = sizeof(struct tt_work_conn)}, .path = {.elem = sizeof(uint32_t)}};
    if (!w)
        return tt_fail_memory(err, "work");
    w->s = s;
    w->t = t;
    w->class_link = class_link;
    w->ranks = class_link ? 1 : s->shape.ranks;
    w->segments = s->shape.segments ? s->shape.segments : 1;
    w->elem_bytes = tt_sched_dtype_bytes(dtype);
    uint64_t nops = class_link ? tt_sched_slice(s, 0).nops : s->nops;
    tutti_status st = tt_sched_bind_make(&s->shape, count, dtype, &w->bind, err);
    if (!st && nops >= UINT32_MAX)
        st = tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu64 " operations are too many to simulate", nops);
    w->nops = (uint32_t)nops;
    if (!st)
        st = work_fill(&m, err);
    free(m.table.key);
    free(m.table.value);
    tt_vec_free(&m.conns);
    tt_vec_free(&m.path);
    free(m.sent);
    free(m.taken);
    free(m.number);
    if (st)
        tt_sim_work_free(w);
    else
        *ret = w;
    return st;
}

tutti_status tt_sim_work_make(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                              tutti_dtype dtype, struct tt_work **ret, struct tutti_error *err)
{
    return tt_sim_work_make_one(s, t, count, dtype, NULL, ret, err);
}

void tt_sim_work_free(struct tt_work *w)
{
    if (!w)
        return;
    tt_sched_bind_free(&w->bind);
    free(w->op);
    free(w->block_at);
    free(w->succ);
    free(w->msg);
    free(w->conn);
    free(w->path);
    free(w);
}

/* ---- sizes ---- */

/* floor(n * k / of); 128 bits hold the product. */
static uint64_t work_part(uint64_t n, uint32_t k, uint32_t of)
{
    return (uint64_t)((unsigned __int128)n * k / of);
}

static uint64_t part_bytes(const struct tt_work *w, uint64_t elems, uint32_t segment)
{
    if (w->segments > 1)
        elems = work_part(elems, segment + 1, w->segments) - work_part(elems, segment, w->segments);
    return elems * w->elem_bytes;
}

uint64_t tt_sim_work_msg_bytes(const struct tt_work *w, uint32_t msg, uint32_t segment)
{
    return part_bytes(w, w->msg[msg].elems, segment);
}

uint64_t tt_sim_work_reduce_bytes(const struct tt_work *w, uint32_t op, uint32_t segment)
{
    const struct tt_work_op *o = &w->op[op];
    if (o->kind == TT_OP_RECV_REDUCE)
        return tt_sim_work_msg_bytes(w, o->ref, segment);
    const struct tt_op *listed = &w->s->ops[o->ref];
    if (o->kind != TT_OP_REDUCE || listed->nspans <= 2)
        return 0;
    struct tt_slice sl = tt_sched_slice(w->s, o->rank);
    return part_bytes(w, tt_sched_bind_span_elems(&w->bind, &sl.spans[listed->span]), segment) *
           (listed->nspans - 2);
}

uint32_t tt_sim_work_rank(const struct tt_work *w, uint32_t op)
{
    return w->op[op].rank;
}

uint32_t tt_sim_work_step(const struct tt_work *w, uint32_t op)
{
    const struct tt_work_op *o = &w->op[op];
    return o->kind == TT_OP_SEND || is_recv(o->kind) ? w->msg[o->ref].step : w->s->ops[o->ref].step;
}
