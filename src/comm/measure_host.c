/* measure_host.c - what collectives cost among the ranks of one host, for the planner (topo.h's
 * struct tt_memory).
 *
 * No pair of ranks would tell: because of caches, and of more ranks than cores, the time depends on
 * the length and on all ranks working at once. So an all-reduce of all ranks is measured at several
 * lengths: by `direct`, with ordinary memory and with the shared heap, and by `oneshot` where that
 * is a box. Collective: all ranks run the same number of rounds, since a round ends on no rank
 * before all have taken part. The first rounds, which touch the memory, do not count. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"

enum { ROUNDS_MAX = 256 };
static const uint64_t GROUP_NS = 2000000;

struct host_run {
    struct tt_comm *c;
    struct tt_sched *sched;
    struct tt_program *program;
    char *in, *out;
    uint64_t bytes;
    bool own; /* use memory of the shared heap */
};

static tutti_status make_program(struct host_run *h, const char *algo, struct tutti_error *err)
{
    struct tt_comm *c = h->c;
    struct tt_algo_args args = {
        .problem = {
            .coll = TUTTI_ALLREDUCE, .ranks = c->size, .count = h->bytes / 4, .dtype = TUTTI_F32}};
    struct tt_memory m = {.box_bytes = TT_BOX_BYTES, .segment_bytes = TT_SEGMENT_BYTES};
    tutti_status st = tt_algo_slice(tt_algo_find(algo), &args, 0, c->size, &h->sched, err);
    if (st)
        return st;
    struct tt_program_config pc = {
        .sched = h->sched,
        .segments =
            tt_streq(algo, "direct") ? tt_cost_segments_of(h->sched, &m, h->bytes / c->size) : 1,
        .rank = c->rank,
        .count = args.problem.count,
        .dtype = TUTTI_F32,
        .redop = TUTTI_SUM,
        .places = c->wire.places,
        .box_bytes = tt_direct_boxes_max(c->wire.direct),
        .exchange_bytes = TT_BOX_BYTES};
    return tt_exec_program_make(&pc, &h->program, err);
}

/* Writes to the memory: pages that were never written all map to one page, which is always in the
 * cache. */
static void *memory(const struct host_run *h)
{
    void *p = h->own ? tt_direct_heap_alloc(h->c->wire.direct, h->bytes) : tt_alloc(h->bytes, 1);
    return p ? memset(p, 1, h->bytes) : NULL;
}

static void give_back(const struct host_run *h, void *p)
{
    if (h->own)
        tt_direct_heap_free(h->c->wire.direct, p);
    else
        free(p);
}

static tutti_status measure_host_run(struct host_run *h, uint64_t rounds, struct tutti_error *err)
{
    struct tt_comm *c = h->c;
    struct tt_op_desc op = tt_comm_setup_op(
        /* without plans the communicator is still being opened */
        &(struct tt_setup){.through = c, .why = c->plans ? TT_WHY_MEASURE : TT_WHY_OPEN});
    tutti_status st = TUTTI_OK;
    for (uint64_t i = 0; !st && i < rounds; i++) {
        st = tt_comm_start(
            c,
            &(struct tt_start){
                .program = h->program, .in = h->in, .out = h->out, .fingerprint = h->bytes},
            &op);
        if (!st)
            st = tt_comm_finish(c, h->program, &op);
        if (st)
            tt_fail(err, st, "%s", c->last.text);
    }
    return st;
}

/* Rounds of a group. The number must be equal on all ranks, so it comes from an estimate that
 * depends on the length only; nothing has to be agreed upon. */
static uint64_t rounds_for(const struct tt_comm *c, uint64_t bytes)
{
    /* 16 bytes/ns in total: the order of magnitude is enough */
    uint64_t guess_ns = 2000 * (uint64_t)c->size + bytes * c->size / 16;
    uint64_t n = GROUP_NS / guess_ns;
    return n < 1 ? 1 : n > ROUNDS_MAX ? ROUNDS_MAX : n;
}

static tutti_status time_groups(struct host_run *h, uint32_t groups, uint64_t *ret_ps,
                                struct tutti_error *err)
{
    uint64_t rounds = groups ? rounds_for(h->c, h->bytes) : 1, best = UINT64_MAX;
    tutti_status st = measure_host_run(h, groups ? 2 : 1, err);
    for (uint32_t i = 0; !st && i < (groups ? groups : 1); i++) {
        uint64_t t0 = tt_now_ns();
        st = measure_host_run(h, rounds, err);
        uint64_t ns = tt_now_ns() - t0;
        best = ns < best ? ns : best;
    }
    *ret_ps = best / rounds * 1000 + 1;
    return st;
}

tutti_status tt_comm_host_measure(struct tt_comm *c, enum tt_host_kind kind, uint64_t bytes,
                                  uint32_t groups, uint64_t *ret_ps, struct tutti_error *err)
{
    struct host_run h = {
        .c = c, .bytes = bytes, .own = kind == TT_HOST_OWN && tt_direct_has_heap(c->wire.direct)};
    tutti_status st = make_program(&h, kind == TT_HOST_BOX ? "oneshot" : "direct", err);
    h.in = memory(&h);
    h.out = memory(&h);
    if (!st && (!h.in || !h.out))
        st = tt_fail_memory(err, "measuring");
    if (!st)
        st = time_groups(&h, groups, ret_ps, err);
    give_back(&h, h.out);
    give_back(&h, h.in);
    tt_exec_program_free(h.program);
    tt_sched_free(h.sched);
    return st;
}
