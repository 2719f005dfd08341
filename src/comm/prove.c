/* prove.c - the gate between a plan and its first use on a communicator: with TUTTI_VERIFY=1 the
 * whole schedule is proved, with TUTTI_DUMP rank 0 writes it (dump.c).
 *
 * A rank that runs a closed-form algorithm lists only its own slice. Here it also lists all ranks
 * and compares its slice with the whole, so that what is proved and written is what runs. Every
 * rank proves alone: equal schedules give equal results (beyond 512 ranks up to the fingerprints'
 * error probability). A plan that rank 0 hands out is proved by rank 0 before; its refusal is the
 * result on all ranks. A plan passes once per communicator; its key is remembered. */
#include <inttypes.h>
#include <string.h>

#include "comm/comm_int.h"
#include "verify/verify.h"

/* Equal keys mean the same problem, algorithm and options, and, with the communicator's one
 * topology, the same schedule. */
static uint64_t key_of(const struct tt_agreed *a)
{
    const struct tt_problem *p = &a->problem;
    char options[TT_ALGO_OPTIONS];
    uint64_t facts[] = {p->coll, p->ranks, p->root, p->count, p->dtype, p->redop};
    tt_algo_options_format(&a->options, options, sizeof options);
    uint64_t h = tt_hash_bytes(0, facts, sizeof facts);
    h = tt_hash_bytes(h, a->name, strlen(a->name));
    return tt_hash_bytes(h, options, strlen(options));
}

static bool has_passed(const struct tt_comm *c, uint64_t key)
{
    const uint64_t *keys = c->passed.data;
    for (size_t i = 0; i < c->passed.len; i++)
        if (keys[i] == key)
            return true;
    return false;
}

/* Are rank's operations the same, bit by bit? */
static bool same_slice(const struct tt_sched *a, const struct tt_sched *b, uint32_t rank)
{
    struct tt_slice x = tt_sched_slice(a, rank), y = tt_sched_slice(b, rank);
    return x.nops == y.nops && x.nspans == y.nspans && a->shape.chunks == b->shape.chunks &&
           a->shape.segments == b->shape.segments &&
           (x.nops == 0 || memcmp(x.ops, y.ops, x.nops * sizeof *x.ops) == 0) &&
           (x.nspans == 0 || memcmp(x.spans, y.spans, x.nspans * sizeof *x.spans) == 0);
}

static tutti_status not_correct(const struct tt_sched *s, const struct tt_verify_result *r,
                                struct tutti_error *err)
{
    const struct tt_shape *h = &s->shape;
    char where[64] = "the header";
    if (!r->header)
        snprintf(where, sizeof where, "rank %" PRIu32 ", op %" PRIu64, r->rank, r->op);
    return tt_fail(err, TUTTI_ERR_INCORRECT,
                   "the schedule of %s by %s on %" PRIu32 " ranks (%" PRIu64
                   " elements) is not correct: %s: %s",
                   tt_sched_coll_name(h->coll), h->algo, h->ranks, h->count, where, r->why);
}

tutti_status tt_comm_prove(const struct tt_sched *whole, const struct tt_sched *mine, uint32_t rank,
                           struct tutti_error *err)
{
    struct tt_verify_result r;
    tutti_status st =
        tt_verify(whole, &(struct tt_verify_options){.method = TT_VERIFY_AUTO}, &r, err);
    if (st)
        return st;
    if (!r.ok)
        return not_correct(whole, &r, err);
    if (!same_slice(whole, mine, rank))
        return tt_fail(err, TUTTI_ERR_INCORRECT,
                       "%s by %s: what rank %" PRIu32
                       " is about to run is not its part of the proved schedule",
                       tt_sched_coll_name(whole->shape.coll), whole->shape.algo, rank);
    return TUTTI_OK;
}

/* Proves and writes the schedule of all ranks; `mine` holds at least this rank's slice. */
static tutti_status witness(struct tt_comm *c, const struct tt_agreed *a,
                            const struct tt_sched *mine, struct tutti_error *err)
{
    struct tt_sched *built = NULL;
    const struct tt_plan plan = {.problem = a->problem, .algo = a->algo, .options = a->options};
    bool whole = mine->nslices == mine->shape.ranks, wanted = tt_comm_dump_wants(c, &plan, mine);
    tutti_status st = !whole && (c->config.verify || wanted)
                          ? tt_plan_schedule(&plan, c->topo, &built, err)
                          : TUTTI_OK;
    const struct tt_sched *all = whole ? mine : built;
    if (!st && c->config.verify)
        st = tt_comm_prove(all, mine, c->rank, err);
    if (!st && wanted)
        tt_comm_dump_write(c, all);
    tt_sched_free(built);
    return st;
}

tutti_status tt_comm_prove_admit(struct tt_comm *c, const struct tt_agreed *a,
                                 const struct tt_sched *mine, struct tutti_error *err)
{
    if (!c->config.verify && !c->dump)
        return TUTTI_OK;
    uint64_t key = key_of(a);
    if (has_passed(c, key))
        return TUTTI_OK;
    tutti_status st = witness(c, a, mine, err);
    c->passed.elem = sizeof key;
    if (!st && !tt_vec_push(&c->passed, &key, 1))
        st = tt_fail_memory(err, "list of proved plans");
    return st;
}
