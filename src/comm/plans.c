/* plans.c - from a problem to the plan that all ranks run: algorithm, options, predicted time, and
 * the hash of the whole plan.
 *
 * Each rank plans closed forms alone, without communication: the network is the same object
 * everywhere (agree.c), the planner counts work instead of timing it, and uses only arithmetic that
 * IEEE 754 fixes to the last bit, so that all ranks come to the same plan. This is checked: the
 * hash (shape with weights, owners and segments, algorithm, options, network) is in the fingerprint
 * of every call. Nothing is exchanged, so non-blocking calls stay non-blocking.
 *
 * Synthesised plans (searches, linear programs, floating-point weights) are made by rank 0 only and
 * handed out:
 *
 *     rank 0   plan, build   note to all: algorithm, options, times, hash   barrier   slices
 *     others                 take the note                                  barrier   check slice
 *
 * A user's plan (given.c) that fits is handed out the same way: rank 0 has it, and prices it for
 * the call.
 *
 * A plan is kept as long as the communicator: whether a call needs a hand-over depends only on the
 * calls before it, which are the same on all ranks, and on nothing that a rank may drop. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm/plans.h"

/* Every rank plans, many of them on one core, so simulating candidates gets little. */
enum { FLOW_MS = 20 };

/* A hash table with open addressing; cap is a power of two, or 0. Plans are never removed. */
struct tt_plans {
    struct tt_agreed **slots;
    size_t cap, n;
};

/* ---- the table ---- */

struct tt_plans *tt_comm_plans_make(void)
{
    return tt_zalloc(1, sizeof(struct tt_plans));
}

static void agreed_free(struct tt_agreed *a)
{
    if (!a)
        return;
    tt_sched_free(a->slice);
    free(a->asked);
    free(a);
}

void tt_comm_plans_free(struct tt_plans *p)
{
    for (size_t i = 0; p && i < p->cap; i++)
        agreed_free(p->slots[i]);
    if (p)
        free(p->slots);
    free(p);
}

static uint64_t key_hash(const struct tt_problem *p, const char *asked)
{
    uint64_t facts[] = {(uint64_t)p->coll,  p->ranks,           p->root,   p->count,
                        (uint64_t)p->dtype, (uint64_t)p->redop, p->ordered};
    return tt_hash_bytes(tt_hash_bytes(0, facts, sizeof facts), asked, strlen(asked));
}

static bool is_for(const struct tt_agreed *a, const struct tt_problem *p, const char *asked)
{
    const struct tt_problem *q = &a->problem;
    return q->coll == p->coll && q->ranks == p->ranks && q->root == p->root &&
           q->count == p->count && q->dtype == p->dtype && q->redop == p->redop &&
           q->ordered == p->ordered && tt_streq(a->asked, asked);
}

/* The slot that holds the plan, or the empty one where it belongs. At least one slot is empty. */
static struct tt_agreed **slot_of(const struct tt_plans *t, const struct tt_problem *p,
                                  const char *asked)
{
    assert(t->n < t->cap && (t->cap & (t->cap - 1)) == 0);
    size_t i = (size_t)key_hash(p, asked) & (t->cap - 1);
    while (t->slots[i] && !is_for(t->slots[i], p, asked))
        i = (i + 1) & (t->cap - 1);
    return &t->slots[i];
}

/* At most half of the slots are used, so that slot_of always ends. */
static tutti_status make_room(struct tt_plans *t, struct tutti_error *err)
{
    struct tt_plans larger = {.cap = t->cap ? 2 * t->cap : 64, .n = t->n};
    if (t->n < t->cap / 2)
        return TUTTI_OK;
    larger.slots = tt_zalloc(larger.cap, sizeof *larger.slots);
    if (!larger.slots)
        return tt_fail_memory(err, "plans");
    for (size_t i = 0; i < t->cap; i++)
        if (t->slots[i])
            *slot_of(&larger, &t->slots[i]->problem, t->slots[i]->asked) = t->slots[i];
    free(t->slots);
    *t = larger;
    return TUTTI_OK;
}

/* ---- planning ---- */

/* Only rank 0 makes such a plan: other ranks need not get the same bits. */
static bool synthesised(const struct tt_algo *al)
{
    return al->build || al->weighs;
}

tutti_status tt_comm_plans_plan(const struct tt_comm *c, const struct tt_comm_ask *ask,
                                struct tt_plan **ret, struct tutti_error *err)
{
    struct tt_plan_options o = {.reproducible = c->config.reproducible,
                                .algo = ask->algo,
                                .flow_ms = FLOW_MS,
                                .tuning = c->world->tuning};
    return tt_plan_make(c->topo, &ask->problem, &o, NULL, ret, err);
}

static struct tt_algo_args args_of(const struct tt_comm *c, const struct tt_agreed *a)
{
    return (struct tt_algo_args){.problem = a->problem, .topo = c->topo, .options = a->options};
}

uint64_t tt_comm_plans_hash(const struct tt_comm *c, const struct tt_algo *al,
                            const struct tt_options *o, uint64_t content)
{
    char options[TT_ALGO_OPTIONS] = "";
    uint64_t facts[] = {content, al ? tt_algo_hash(al) : 0, c->topo->hash};
    tt_algo_options_format(o, options, sizeof options);
    return tt_hash_bytes(tt_hash_bytes(2, facts, sizeof facts), options, strlen(options));
}

enum tt_origin tt_comm_plans_origin(const struct tt_comm_ask *ask, const struct tt_plan *plan)
{
    bool named = ask->algo && !tt_streq(ask->algo, "auto");
    return named ? TT_ORIGIN_NAMED : plan->from_tuning ? TT_ORIGIN_TUNING : TT_ORIGIN_PLANNER;
}

/* Fills *a from this rank's own plan of a closed form. */
static tutti_status take_closed(const struct tt_comm *c, const struct tt_plan *plan,
                                struct tt_agreed *a, struct tutti_error *err)
{
    struct tt_shape shape;
    a->algo = plan->algo;
    snprintf(a->name, sizeof a->name, "%s", plan->algo->name);
    a->options = plan->options;
    a->predicted_ps = tt_comm_plans_predicted(plan);
    a->own_ps = a->predicted_ps;
    if (c->topo->memory.npoints)
        a->own_ps = tt_cost_own_memory(
            &plan->cost, c->topo, plan->problem.count * tt_sched_dtype_bytes(plan->problem.dtype));
    a->bound_ps = plan->bounds.time_ps;
    struct tt_algo_args args = args_of(c, a);
    tutti_status st = tt_algo_shape(a->algo, &args, &shape, err);
    if (st)
        return st;
    a->hash = tt_comm_plans_hash(c, a->algo, &a->options, tt_sched_shape_hash(&shape));
    tt_sched_shape_free(&shape);
    return TUTTI_OK;
}

/* ---- all ranks ---- */

/* The note has arrived: takes over the plan's fields and receives this rank's slice. */
static tutti_status take_slice(struct tt_comm *c, const struct handed *x, struct tt_agreed *a,
                               struct tutti_error *err)
{
    const struct plan_note *n = &x->note;
    char *mine = tt_alloc((size_t)n->block_bytes, 1);
    struct tt_hand_blocks b = {.all = x->all, .ret_mine = mine, .bytes = (size_t)n->block_bytes};
    a->algo = n->origin == TT_ORIGIN_GIVEN ? NULL : tt_algo_find(n->algo);
    memcpy(a->name, n->algo, sizeof a->name);
    a->origin = (enum tt_origin)n->origin;
    a->options = n->options;
    a->predicted_ps = a->own_ps = n->predicted_ps;
    a->bound_ps = n->bound_ps;
    a->hash = n->hash;
    tutti_status st = mine ? TUTTI_OK : tt_fail_memory(err, "plan");
    if (!st && !a->algo && a->origin != TT_ORIGIN_GIVEN)
        st = tt_algo_unknown(n->algo, err);
    if (!st)
        st = tt_comm_hand_each(c, &x->hand, &b, err);
    if (!st)
        st = tt_sched_unpack(mine, b.bytes, &a->slice, err);
    free(mine);
    return st;
}

/* Sends the note to all and waits until all ranks have come for the same one. A refusal by rank 0
 * is the result on every rank. */
static tutti_status plans_spread(struct tt_comm *c, struct handed *x, struct tutti_error *err)
{
    struct plan_note *n = &x->note;
    tutti_status st = tt_comm_hand_all(c, &x->hand, n, sizeof *n, err);
    if (!st)
        st = tt_comm_hand_meet(c, &x->hand, err);
    if (!st && n->status)
        st = tt_fail(err, (tutti_status)n->status, "%.*s", (int)sizeof n->why - 1, n->why);
    return st;
}

/* Collective. Rank 0 may fail to plan; it still sends the note, so that all ranks fail alike. */
static tutti_status take_handed(struct tt_comm *c, const struct tt_comm_ask *ask,
                                struct tt_agreed *a, struct tutti_error *err)
{
    struct handed x = {.hand = ask->why};
    struct tutti_error why = {0};
    tt_comm_hand_begin(c, &x.hand);
    if (c->rank == 0)
        tt_comm_plans_refuse(&x.note, tt_comm_plans_prepare(c, ask, &x.note, &x.all, &why), &why);
    tutti_status st = plans_spread(c, &x, err);
    if (!st)
        st = take_slice(c, &x, a, err);
    tt_comm_hand_end(c, &x.hand);
    free(x.all);
    return st;
}

/* For a named algorithm it is known in advance whether it is synthesised: then only rank 0
 * plans. */
static tutti_status plans_decide(struct tt_comm *c, const struct tt_comm_ask *ask,
                                 struct tt_agreed *a, struct tutti_error *err)
{
    const struct tt_algo *named = ask->algo ? tt_algo_find(ask->algo) : NULL;
    struct tt_plan *plan = NULL;
    if ((named && synthesised(named)) || tt_comm_given_runs(c, ask))
        return take_handed(c, ask, a, err);
    tutti_status st = tt_comm_plans_plan(c, ask, &plan, err);
    if (!st)
        a->origin = tt_comm_plans_origin(ask, plan);
    if (!st)
        st = synthesised(plan->algo) ? take_handed(c, ask, a, err) : take_closed(c, plan, a, err);
    tt_plan_free(plan);
    return st;
}

tutti_status tt_comm_plans_get(struct tt_comm *c, const struct tt_comm_ask *ask,
                               const struct tt_agreed **ret, struct tutti_error *err)
{
    const char *asked = ask->algo ? ask->algo : "auto";
    tutti_status st = make_room(c->plans, err);
    if (st)
        return st;
    struct tt_agreed **slot = slot_of(c->plans, &ask->problem, asked), *a = *slot;
    /* Nothing is stored on failure, so the next call asks again, on all ranks alike. */
    if (!a) {
        a = tt_zalloc(1, sizeof *a);
        st = a && (a->asked = tt_strdup(asked)) ? TUTTI_OK : tt_fail_memory(err, "plan");
        if (a)
            a->problem = ask->problem;
        if (!st)
            st = plans_decide(c, ask, a, err);
        if (st) {
            agreed_free(a);
            return st;
        }
        assert(!*slot);
        *slot = a;
        c->plans->n++;
        tt_comm_tell_plan(c, a);
    }
    *ret = a;
    return TUTTI_OK;
}

tutti_status tt_comm_plans_slice(const struct tt_comm *c, const struct tt_agreed *a,
                                 struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_algo_args args = args_of(c, a);
    bool whole = c->wire.one_host && c->size <= TT_WHOLE_RANKS;
    return tt_algo_slice(a->algo, &args, whole ? 0 : c->rank, whole ? c->size : 1, ret, err);
}

/* Fills in rank 0's prediction only. */
static tutti_status price(struct tt_comm *c, const struct tt_comm_ask *ask, struct plan_note *n,
                          struct tutti_error *err)
{
    struct tt_plan *plan = NULL;
    struct tt_sched *whole = NULL;
    bool given = tt_comm_given_runs(c, ask);
    tutti_status st = given ? tt_comm_plans_given(c, ask, n, &whole, err)
                            : tt_comm_plans_plan(c, ask, &plan, err);
    if (!st && !given)
        n->predicted_ps = tt_comm_plans_predicted(plan);
    tt_sched_free(whole);
    tt_plan_free(plan);
    return st;
}

tutti_status tt_comm_plans_predict(struct tt_comm *c, const struct tt_comm_ask *ask,
                                   uint64_t *ret_ps, struct tutti_error *err)
{
    struct handed x = {.hand = ask->why};
    struct tutti_error why = {0};
    tt_comm_hand_begin(c, &x.hand);
    if (c->rank == 0)
        tt_comm_plans_refuse(&x.note, price(c, ask, &x.note, &why), &why);
    tutti_status st = plans_spread(c, &x, err);
    tt_comm_hand_end(c, &x.hand);
    if (!st)
        *ret_ps = x.note.predicted_ps;
    return st;
}
