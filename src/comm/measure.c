/* measure.c - alpha, beta and gamma, measured when the world communicator opens: rank 0 plays ping-pong with one rank of its host and one
 * of another, the others run the same requests, empty for them (so that
 * all number their requests alike), and wait in the exchange that carries rank 0's figures to all. Nothing is compiled in but the amount of
 * work, which is bounded (a few milliseconds on shared memory, at most some dozens on a slow network). */
#include <stdlib.h>
#include <string.h>

#include "comm/parts.h"

enum { SMALL_ROUNDS = 20, BURST = 16, LARGE_BYTES = 1 << 20, LARGE_ROUNDS = 2 };

struct player {
    struct tt_comm *c;
    uint32_t peer;
    char *data;
    struct tt_sched *there, *back; /* rank 0 -> peer, peer -> rank 0 */
};

static tutti_status pass(const struct player *p, const struct tt_sched *s, uint64_t bytes, struct tutti_error *err)
{
    struct tt_comm *c = p->c;
    struct tt_program *prog = NULL;
    struct tt_op_desc op = {.seq = c->seq + 1, .coll = TUTTI_BROADCAST, .count = bytes, .busy = 1};
    tutti_status st = tt_program_make(
        &(struct tt_program_config){.sched = s, .rank = c->rank, .count = bytes, .dtype = TUTTI_U8, .redop = TUTTI_SUM}, &prog, err);
    if (!st)
        st = tt_engine_start(
            c->engine, &(struct tt_start){.program = prog, .in = p->data, .out = p->data, .seq = ++c->seq, .fingerprint = bytes}, err);
    if (!st && (st = tt_comm_finish(c, c->engine, prog, &op)))
        tt_fail(err, st, "%s", c->last.text);
    tt_program_free(prog);
    return st;
}

/* There and back `rounds` times with `burst` messages each way; *ret_ns per round. The peer follows because both run the same loop; rank
 * 0's limit ends it through the size of the next round (0 bytes: over). */
static tutti_status rally(const struct player *p, uint64_t bytes, int rounds, uint64_t *ret_ns, struct tutti_error *err)
{
    uint64_t best = UINT64_MAX;
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < rounds; i++) {
        uint64_t t0 = tt_now_ns();
        st = pass(p, p->there, bytes, err);
        if (!st)
            st = pass(p, p->back, bytes, err);
        uint64_t t = tt_now_ns() - t0;
        best = t < best ? t : best;
    }
    *ret_ns = best;
    return st;
}

/* Host time per message: a burst one way, answered once. */
static tutti_status burst(const struct player *p, uint64_t *ret_ns, struct tutti_error *err)
{
    uint64_t t0 = tt_now_ns();
    tutti_status st = TUTTI_OK;
    for (int i = 0; !st && i < BURST; i++)
        st = pass(p, p->there, 8, err);
    if (!st)
        st = pass(p, p->back, 8, err);
    *ret_ns = (tt_now_ns() - t0) / BURST;
    return st;
}

static tutti_status play(struct tt_comm *c, uint32_t peer, struct tt_speed *ret, struct tutti_error *err)
{
    struct player p = {.c = c, .peer = peer, .data = tt_zalloc(LARGE_BYTES, 1)};
    uint64_t small = 0, each = 0, large = 0;
    tutti_status st = p.data ? tt_message_sched(c->size, c->rank, (uint32_t[]){0, peer}, &p.there, err) : tt_fail_memory(err, "measuring");
    if (!st)
        st = tt_message_sched(c->size, c->rank, (uint32_t[]){peer, 0}, &p.back, err);
    if (!st)
        st = rally(&p, 8, SMALL_ROUNDS, &small, err);
    if (!st)
        st = burst(&p, &each, err);
    uint64_t bytes = LARGE_BYTES;
    if (!st)
        st = rally(&p, bytes, LARGE_ROUNDS, &large, err);
    if (!st) {
        double seconds = (double)(large > small ? large - small : 1) / 2e9;
        *ret = (struct tt_speed){.bw = (double)bytes / seconds, .latency_ps = small * 500, .overhead_ps = each * 1000};
        ret->overhead_ps = ret->overhead_ps < ret->latency_ps ? ret->overhead_ps : ret->latency_ps;
        ret->latency_ps -= ret->overhead_ps / 2;
    }
    free(p.data);
    tt_sched_free(p.there);
    tt_sched_free(p.back);
    return st;
}

static double measure_gamma(void)
{
    enum { N = 1 << 16 };
    float *a = tt_zalloc(N, sizeof *a), *b = tt_zalloc(N, sizeof *b);
    uint64_t best = UINT64_MAX;
    for (int i = 0; a && b && i < 3; i++) {
        uint64_t t0 = tt_now_ns();
        tt_reduce_two(TUTTI_F32, TUTTI_SUM, a, a, b, N);
        uint64_t t = tt_now_ns() - t0;
        best = t < best ? t : best;
    }
    free(a);
    free(b);
    return best == UINT64_MAX ? 0 : (double)best * 1e-9 / (N * sizeof *a);
}

/* The first rank of rank 0's host, or of another host; UINT32_MAX: none. */
static uint32_t partner(const struct tt_comm *c, bool local)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    bool apart = c->config.transport && tt_streq(c->config.transport, "tcp");
    for (uint32_t r = 1; r < c->size; r++) {
        bool here = !apart && peers[c->members[r]].host_id == peers[c->members[0]].host_id;
        if (here == local)
            return r;
    }
    return UINT32_MAX;
}

tutti_status tt_comm_measure(struct tt_comm *c, struct tutti_error *err)
{
    struct tt_speeds mine = {.shm = {.bw = 5e9, .latency_ps = 1000000}, .tcp = {.bw = 1e9, .latency_ps = 30000000}}, *all;
    uint32_t with[2] = {partner(c, true), partner(c, false)};
    tutti_status st = TUTTI_OK;
    mine.gamma = c->rank == 0 ? measure_gamma() : 0;
    for (int i = 0; !st && i < 2; i++)
        if (with[i] != UINT32_MAX)
            st = play(c, with[i], i == 0 ? &mine.shm : &mine.tcp, err);
    all = tt_alloc(c->size, sizeof *all);
    if (!st && !all)
        st = tt_fail_memory(err, "measuring");
    if (!st)
        st = tt_boot_exchange(c->world->boot, &mine, sizeof mine, all, c->world->timeout_ns, err);
    if (!st)
        c->speeds = all[0];
    free(all);
    return st;
}
