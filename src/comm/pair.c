/* pair.c - point to point. Messages between two ranks do not take part in the order of the communicator's requests, so each pair has an
 * engine of its own on a socket of its own, made when the two first talk. A message is a schedule with one operation. */
#include <stdlib.h>
#include <unistd.h>

#include "comm/parts.h"

#define PAIR_ROLE (UINT64_C(1) << 62)

struct tt_pair {
    struct tt_transport *transport;
    struct tt_engine *engine;
    struct tt_context *context;
    uint32_t seq;
};

tutti_status tt_message_sched(uint32_t ranks, uint32_t rank, const uint32_t pair[2], struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_builder b;
    struct tt_shape shape = {
        .coll = TUTTI_BROADCAST, .ranks = ranks, .root = pair[0], .chunks = 1, .nbufs = TT_BUF_SCRATCH, .segments = 1, .inplace = true};
    struct tt_span in = tt_span_range(TT_BUF_IN, 0, 1), out = tt_span_range(TT_BUF_OUT, 0, 1);
    tt_build_begin(&b, &shape, rank);
    tt_build_rank(&b, rank);
    if (rank == pair[0])
        tt_emit_send(&b, 0, pair[1], 0, &in, 1);
    else if (rank == pair[1])
        tt_emit_recv(&b, 0, pair[0], 0, &out, 1);
    return tt_build_freeze(&b, ret, err);
}

static tutti_status pair_open(struct tt_comm *c, uint32_t peer, struct tt_pair *ret, struct tutti_error *err)
{
    uint32_t world = tt_boot_config(c->world->boot)->size, me = c->rank > peer;
    bool *want = tt_zalloc(world, sizeof *want);
    struct tt_boot_link *links = tt_alloc(world, sizeof *links);
    int two[2] = {-1, -1};
    struct tt_pair p = {0};
    tutti_status st = want && links ? TUTTI_OK : tt_fail_memory(err, "sockets");
    if (!st) {
        want[c->members[peer]] = true;
        st = tt_boot_connect(c->world->boot, want, PAIR_ROLE ^ c->id, links, c->world->timeout_ns, err);
    }
    if (!st) {
        two[!me] = links[c->members[peer]].fd;
        struct tt_tcp_guard guards[2] = {0};
        guards[!me] = tt_guard_of(c->world, c->members[peer], &links[c->members[peer]].keys);
        st = tt_tcp_open(&(struct tt_tcp_config){.rank = me, .size = 2, .stripes = 1, .fds = two, .guards = guards}, &p.transport, err);
        if (st)
            tt_fd_close(two[!me]);
    }
    if (!st)
        st = tt_engine_make(&(struct tt_engine_config){.transport = p.transport}, &p.engine, err);
    if (!st)
        st = tt_context_open(p.engine, &(struct tt_context_config){.n = 2, .rank = me}, &p.context, err);
    if (st && p.transport)
        p.transport->ops->close(p.transport);
    if (!st)
        *ret = p;
    free(want);
    tt_seal_forget(links, world * sizeof *links);
    return st;
}

static tutti_status pair_of(struct tt_comm *c, uint32_t peer, struct tt_pair **ret, struct tutti_error *err)
{
    if (peer >= c->size || peer == c->rank)
        return tt_fail(err, TUTTI_ERR_RANGE, "peer %u: another one of the %u ranks is needed", peer, c->size);
    if (!c->pairs)
        c->pairs = tt_zalloc(c->size, sizeof *c->pairs);
    if (!c->pairs)
        return tt_fail_memory(err, "pairs");
    tutti_status st = c->pairs[peer].engine ? TUTTI_OK : pair_open(c, peer, &c->pairs[peer], err);
    *ret = &c->pairs[peer];
    return st;
}

struct message {
    const void *in;
    void *out;
    size_t count;
    tutti_dtype dtype;
    uint32_t peer;
    bool sending;
};

/* Waits for a pair's program; like tt_comm_finish, on the pair's own transport. */
static tutti_status run(struct tt_comm *c, struct tt_pair *pair, const struct message *m, struct tt_program *p, struct tutti_error *err)
{
    struct tt_op_desc op = {.comm = c->tag,
                            .seq = pair->seq + 1,
                            .dtype = (uint8_t)m->dtype,
                            .count = m->count,
                            .root = m->peer,
                            .busy = m->sending ? TT_OP_SENDING : TT_OP_RECEIVING};
    struct tt_start s = {.program = p,
                         .in = m->in,
                         .out = m->out,
                         .seq = ++pair->seq,
                         .fingerprint = tt_mix64(m->count * TUTTI_DTYPE_COUNT + (uint64_t)m->dtype)};
    tutti_status st = tt_context_start(pair->context, &s, err);
    if (st)
        return st;
    struct tt_transport *whole = c->wire.transport;
    c->wire.transport = pair->transport;
    st = tt_comm_finish(c, pair->engine, p, &op);
    c->wire.transport = whole;
    if (st)
        tt_engine_kill(pair->engine, &(struct tt_engine_fault){.kind = TT_FAULT_CLOSED, .peer = m->peer});
    return st ? tt_fail(err, st, "%s", c->last.text) : TUTTI_OK;
}

/* Before the other side is asked for anything. */
static tutti_status check(const struct tt_comm *c, const struct message *m, struct tutti_error *err)
{
    if (c->failed)
        return tt_fail(err, c->last.status, "%s", c->last.text);
    if ((unsigned)m->dtype >= TUTTI_DTYPE_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "there is no data type %d", (int)m->dtype);
    if (m->count > SIZE_MAX / 2 / tt_dtype_bytes(m->dtype))
        return tt_fail(err, TUTTI_ERR_RANGE, "%zu elements are more than memory can hold", m->count);
    if (m->count && !m->in)
        return tt_fail(err, TUTTI_ERR_ARG, "the buffer is NULL");
    return TUTTI_OK;
}

static tutti_status pass(struct tt_comm *c, const struct message *m)
{
    struct tutti_error err = {0};
    struct tt_pair *pair = NULL;
    struct tt_sched *s = NULL;
    struct tt_program *p = NULL;
    uint32_t me = c->rank > m->peer, order[2] = {m->sending ? me : !me, m->sending ? !me : me};
    tt_comm_lock(c);
    tutti_status st = check(c, m, &err);
    if (!st)
        st = pair_of(c, m->peer, &pair, &err);
    if (!st)
        st = tt_message_sched(2, me, order, &s, &err);
    if (!st)
        st = tt_program_make(&(struct tt_program_config){.sched = s, .rank = me, .count = m->count, .dtype = m->dtype}, &p, &err);
    if (!st)
        st = run(c, pair, m, p, &err);
    if (st && !c->failed)
        tt_comm_fail(c, &err);
    tt_program_free(p);
    tt_sched_free(s);
    tt_comm_unlock(c);
    return st;
}

tutti_status tt_comm_send(struct tt_comm *c, const void *data, size_t count, tutti_dtype dtype, uint32_t peer)
{
    /* A sender's output is its input: nothing is written there. */
    return pass(c, &(struct message){.in = data, .out = (void *)data, .count = count, .dtype = dtype, .peer = peer, .sending = true});
}

tutti_status tt_comm_recv(struct tt_comm *c, void *data, size_t count, tutti_dtype dtype, uint32_t peer)
{
    return pass(c, &(struct message){.in = data, .out = data, .count = count, .dtype = dtype, .peer = peer});
}

void tt_pairs_close(struct tt_comm *c)
{
    for (uint32_t r = 0; c->pairs && r < c->size; r++) {
        tt_engine_free(c->pairs[r].engine);
        if (c->pairs[r].transport)
            c->pairs[r].transport->ops->close(c->pairs[r].transport);
    }
    free(c->pairs);
    c->pairs = NULL;
}
