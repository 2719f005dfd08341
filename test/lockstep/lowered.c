/* lowered.c - runs compiled programs of all ranks against each other: which tasks are ready, and what happens next.
 *
 * An action that can happen stays possible until it happens, so that any order is a legal one. Each run prefers some kinds of actions over
 * others by a random order of kinds (offers first and uses last, say), and one time in four takes any. */
#include "lowered.h"

#include <stdlib.h>

#include "lowered_int.h"

/* ---- actions and tasks ---- */

static void enable(struct lw *l, enum lw_action_kind kind, uint32_t rank, uint32_t op, uint32_t segment)
{
    struct lw_action a = {.rank = rank, .op = op, .segment = segment};
    if (!tt_vec_push(&l->actions[kind], &a, 1))
        abort();
}

static void ready(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment);

static bool finish(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    struct lw_rank *k = &l->rank[rank];
    const struct tt_xop *x = &k->p->ops[op];
    bool *done = &k->done[op * l->segments + segment];
    if (*done)
        return ls_fault(&l->result, LS_MALFORMED, rank, op, "is done twice");
    *done = true;
    l->counts.tasks++;
    for (uint32_t i = 0; i < x->nsucc[k->mode]; i++) {
        uint32_t next = k->p->succ[x->succ[k->mode] + i];
        if (--k->waits[next * l->segments + segment] == 0)
            ready(l, rank, next, segment);
    }
    return true;
}

/* The message of a receive: kept by its sender. */
static struct lw_message *incoming(const struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_op *o = &l->rank[rank].ops[op];
    return &l->rank[o->peer].messages[o->partner * l->segments + segment];
}

/* A receive that has its message, and may run. */
static void take(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    const struct lw_message *m = incoming(l, rank, op, segment);
    if (m->form == LW_WRITTEN)
        finish(l, rank, op, segment);
    else
        enable(l, LW_USE, rank, op, segment);
}

/* The task waits for nothing any more. */
static void ready(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    uint8_t kind = l->rank[rank].p->ops[op].kind;
    if (lw_is_empty(l, rank, op, segment))
        finish(l, rank, op, segment);
    else if (kind == TT_OP_SEND)
        enable(l, LW_POST, rank, op, segment);
    else if (kind > TT_OP_RECV_REDUCE)
        enable(l, LW_RUN, rank, op, segment);
    else if (incoming(l, rank, op, segment)->arrived && !incoming(l, rank, op, segment)->held)
        take(l, rank, op, segment);
}

/* A message is at a rank that has started. */
static bool arrive(struct lw *l, uint32_t rank, uint32_t op, uint32_t segment)
{
    struct lw_rank *k = &l->rank[rank];
    struct lw_message *m = incoming(l, rank, op, segment);
    bool may = k->p->ops[op].held_by != TT_XNO && k->ops[op].n && m->form != LW_WRITTEN;
    if (may && m->form == LW_REFS)
        may = k->p->ops[k->p->ops[op].held_by].borrows >> k->mode & 1;
    m->held = may && (m->form != LW_BYTES || tt_rng_below(&l->rng, 2));
    if (m->held)
        return finish(l, rank, op, segment);
    if (k->waits[op * l->segments + segment] == 0)
        take(l, rank, op, segment);
    return true;
}

/* ---- what happens ---- */

static void start_tasks(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    for (uint32_t op = 0; op < k->p->nops; op++)
        for (uint32_t s = 0; s < l->segments; s++) {
            if (l->o.offers && k->p->ops[op].kind == TT_OP_RECV && lw_can_offer(l, rank, op, s))
                enable(l, LW_OFFER, rank, op, s);
            if (k->p->fresh[k->mode][op * l->segments].waits == 0)
                ready(l, rank, op, s);
        }
}

/* What had come before the start comes now. */
static void start_arrivals(struct lw *l, uint32_t rank)
{
    const struct lw_rank *k = &l->rank[rank];
    for (uint32_t op = 0; op < k->p->nops; op++)
        for (uint32_t s = 0; s < l->segments; s++) {
            bool receives = k->p->ops[op].kind == TT_OP_RECV || k->p->ops[op].kind == TT_OP_RECV_REDUCE;
            struct lw_message *m = receives ? incoming(l, rank, op, s) : NULL;
            if (!m || !m->arrived)
                continue;
            m->arrived = false;
            enable(l, LW_ARRIVE, k->ops[op].peer, k->ops[op].partner, s);
        }
}

static bool put(struct lw *l, uint32_t rank);

static bool start(struct lw *l, const struct lw_action *a)
{
    struct lw_rank *k = &l->rank[a->rank];
    k->started = true;
    if (!k->p->box) {
        start_arrivals(l, a->rank);
        start_tasks(l, a->rank);
        return true;
    }
    return put(l, a->rank);
}

/* When all have put, all may take. */
static bool put(struct lw *l, uint32_t rank)
{
    bool ok = l->rank[rank].p->box->row ? lw_row_put(l, rank) : lw_put(l, rank);
    if (++l->boxed < l->s->shape.ranks)
        return ok;
    l->boxed = 0;
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        enable(l, LW_TAKE_BOX, r, 0, 0);
    return ok;
}

static bool take_box(struct lw *l, uint32_t rank)
{
    if (!l->rank[rank].p->box->row)
        return lw_get(l, rank);
    return lw_row_take(l, rank) ? put(l, rank) : l->result.verdict == LS_CORRECT;
}

/* The senders of operands that a reduction has read where they lay. */
static void give_back(struct lw *l, const struct lw_action *a)
{
    const struct lw_rank *k = &l->rank[a->rank];
    const struct tt_xop *x = &k->p->ops[a->op];
    for (uint32_t w = 0; x->holds != TT_XNO && w + 1 < x->width; w++) {
        uint32_t recv = k->p->holds[x->holds + w];
        const struct lw_message *m = recv == TT_XNO ? NULL : incoming(l, a->rank, recv, a->segment);
        if (m && m->held && m->form == LW_REFS)
            enable(l, LW_BACK, k->ops[recv].peer, k->ops[recv].partner, a->segment);
    }
}

static bool run(struct lw *l, const struct lw_action *a)
{
    if (!lw_local(l, a->rank, a->op, a->segment))
        return false;
    give_back(l, a);
    return finish(l, a->rank, a->op, a->segment);
}

static bool post(struct lw *l, const struct lw_action *a)
{
    const struct lw_rank *k = &l->rank[a->rank];
    if (!lw_post(l, a->rank, a->op, a->segment))
        return false;
    enable(l, LW_ARRIVE, a->rank, a->op, a->segment);
    bool kept = k->messages[a->op * l->segments + a->segment].form == LW_REFS;
    return kept || finish(l, a->rank, a->op, a->segment);
}

static bool deliver(struct lw *l, const struct lw_action *a)
{
    const struct lw_op *o = &l->rank[a->rank].ops[a->op];
    l->rank[a->rank].messages[a->op * l->segments + a->segment].arrived = true;
    return !l->rank[o->peer].started || arrive(l, o->peer, o->partner, a->segment);
}

static bool use(struct lw *l, const struct lw_action *a)
{
    const struct lw_op *o = &l->rank[a->rank].ops[a->op];
    if (!lw_use(l, a->rank, a->op, a->segment))
        return false;
    if (incoming(l, a->rank, a->op, a->segment)->form == LW_REFS)
        enable(l, LW_BACK, o->peer, o->partner, a->segment);
    return finish(l, a->rank, a->op, a->segment);
}

static bool act(struct lw *l, enum lw_action_kind kind, const struct lw_action *a)
{
    switch (kind) {
    case LW_START:
        return start(l, a);
    case LW_RUN:
        return run(l, a);
    case LW_POST:
        return post(l, a);
    case LW_ARRIVE:
        return deliver(l, a);
    case LW_USE:
        return use(l, a);
    case LW_BACK:
        return finish(l, a->rank, a->op, a->segment);
    case LW_OFFER:
        incoming(l, a->rank, a->op, a->segment)->offered = true;
        return true;
    default:
        return take_box(l, a->rank);
    }
}

/* ---- runs ---- */

/* The kind of the next action; LW_ACTIONS: there is none. */
static enum lw_action_kind choose(struct lw *l)
{
    bool any = tt_rng_below(&l->rng, 4) == 0;
    size_t total = 0;
    for (int i = 0; i < LW_ACTIONS; i++) {
        total += l->actions[l->order[i]].len;
        if (!any && total)
            return (enum lw_action_kind)l->order[i];
    }
    uint64_t nth = total ? tt_rng_below(&l->rng, total) : 0;
    int kind = 0;
    while (kind < LW_ACTIONS && nth >= l->actions[kind].len)
        nth -= l->actions[kind++].len;
    return (enum lw_action_kind)kind;
}

static void shuffle(struct lw *l)
{
    for (uint8_t i = 0; i < LW_ACTIONS; i++) {
        uint64_t j = tt_rng_below(&l->rng, i + 1u);
        l->order[i] = l->order[j];
        l->order[j] = i;
    }
}

/* Nothing else can happen: held operands are received after all, and their senders told. False: there was none. */
static bool land_held(struct lw *l)
{
    bool any = false;
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        for (uint32_t op = 0; op < l->rank[r].p->nops; op++)
            for (uint32_t s = 0; l->rank[r].p->ops[op].held_by != TT_XNO && s < l->segments; s++) {
                const struct lw_rank *k = &l->rank[r];
                struct lw_message *m = incoming(l, r, op, s);
                if (!m->held || m->form != LW_REFS || k->done[k->p->ops[op].held_by * l->segments + s])
                    continue;
                m->held = false;
                any = lw_use(l, r, op, s);
                enable(l, LW_BACK, k->ops[op].peer, k->ops[op].partner, s);
            }
    l->counts.stalls += any;
    return any;
}

static bool run_all(struct lw *l)
{
    for (enum lw_action_kind kind; (kind = choose(l)) < LW_ACTIONS || land_held(l);) {
        if (kind == LW_ACTIONS)
            continue;
        struct tt_vec *v = &l->actions[kind];
        struct lw_action *at = (struct lw_action *)v->data + tt_rng_below(&l->rng, v->len), a = *at;
        *at = ((struct lw_action *)v->data)[--v->len];
        if (!act(l, kind, &a) || l->result.verdict != LS_CORRECT)
            return false;
    }
    for (uint32_t r = 0; r < l->s->shape.ranks; r++) {
        if (l->rank[r].p->box && l->rank[r].p->box->row && !l->rank[r].finished)
            return ls_fault(&l->result, LS_STUCK, r, 0, "waits for a meeting");
        for (uint32_t t = 0; !l->rank[r].p->box && t < l->rank[r].p->nops * l->segments; t++)
            if (!l->rank[r].done[t])
                return ls_fault(&l->result, LS_STUCK, r, t / l->segments, "never happens");
    }
    return true;
}

static void rewind_rank(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    uint32_t n = k->p->nops * l->segments;
    lw_memory_begin(l, rank);
    k->started = false;
    for (uint32_t i = 0; i < k->p->nholds; i++)
        k->from[i] = (struct lw_boxed){0};
    for (uint32_t t = 0; t < n; t++) {
        k->waits[t] = k->p->fresh[k->mode][t].waits;
        k->done[t] = k->copied[t] = false;
        k->messages[t] = (struct lw_message){0};
    }
    enable(l, LW_START, rank, 0, 0);
}

struct ls_result lw_run(struct lw *l, const struct lw_options *o)
{
    l->o = *o;
    l->sum = o->ordered ? ls_ordered_sum : ls_plain_sum;
    l->boxed = 0;
    tt_rng_seed(&l->rng, o->seed);
    shuffle(l);
    for (int i = 0; i < LW_ACTIONS; i++)
        l->actions[i].len = 0;
    struct ls_result flaw = l->result;
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        rewind_rank(l, r);
    lw_row_begin(l);
    if (flaw.verdict == LS_CORRECT && run_all(l))
        lw_check_results(l);
    for (uint32_t r = 0; r < l->s->shape.ranks; r++)
        lw_memory_end(&l->rank[r]);
    struct ls_result result = l->result;
    l->result = flaw;
    return result;
}

const struct lw_counts *lw_counts(const struct lw *l)
{
    return &l->counts;
}

/* ---- opening ---- */

static void open_rank(struct lw *l, uint32_t rank, const struct tt_program *p)
{
    struct lw_rank *k = &l->rank[rank];
    uint64_t tasks = (uint64_t)p->nops * p->segments;
    *k = (struct lw_rank){.p = p,
                          .ops = ls_alloc(p->nops, sizeof *k->ops),
                          .messages = ls_alloc(tasks, sizeof *k->messages),
                          .data = ls_alloc(p->nops, sizeof *k->data),
                          .copy = ls_alloc(p->nops, sizeof *k->copy),
                          .copied = ls_alloc(tasks, sizeof *k->copied),
                          .from = ls_alloc(p->nholds, sizeof *k->from),
                          .waits = ls_alloc(tasks, sizeof *k->waits),
                          .done = ls_alloc(tasks, sizeof *k->done)};
    for (uint32_t op = 0; op < p->nops; op++) {
        const struct tt_xop *x = &p->ops[op];
        uint64_t n = x->elems, refs = n * x->width;
        k->ops[op] = (struct lw_op){.n = n,
                                    .width = x->width,
                                    .segment = ls_alloc(n, sizeof(uint32_t)),
                                    .divide = ls_alloc(n, sizeof(bool)),
                                    .at = ls_alloc(refs, sizeof(uint64_t)),
                                    .want = ls_alloc(refs, sizeof(uint32_t)),
                                    .partner = LS_NOBODY,
                                    .peer = x->kind <= TT_OP_RECV_REDUCE ? p->links[x->link].peer : rank};
    }
}

/* Both ends of a message have the same channel and number. */
static void match(struct lw *l, uint32_t rank, uint32_t op)
{
    const struct tt_xop *x = &l->rank[rank].p->ops[op];
    struct lw_op *o = &l->rank[rank].ops[op];
    const struct lw_rank *peer = &l->rank[o->peer];
    for (uint32_t i = 0; x->kind <= TT_OP_RECV_REDUCE && i < peer->p->nops; i++) {
        const struct tt_xop *y = &peer->p->ops[i];
        bool message = y->kind <= TT_OP_RECV_REDUCE && (y->kind == TT_OP_SEND) != (x->kind == TT_OP_SEND);
        if (message && peer->ops[i].peer == rank && y->channel == x->channel && y->message == x->message && peer->ops[i].n == o->n)
            o->partner = i;
    }
    if (x->kind <= TT_OP_RECV_REDUCE && o->partner == LS_NOBODY)
        ls_fault(&l->result, LS_UNMATCHED, rank, op, "has no partner of its length");
}

struct lw *lw_open(const struct tt_sched *s, const struct tt_program *const *programs, uint64_t count)
{
    struct lw *l = ls_alloc(1, sizeof *l);
    struct tutti_error err;
    l->s = s;
    l->count = count;
    l->segments = programs[0]->segments;
    l->rank = ls_alloc(s->shape.ranks, sizeof *l->rank);
    for (int i = 0; i < LW_ACTIONS; i++)
        l->actions[i].elem = sizeof(struct lw_action);
    if (tt_sched_bind_make(&s->shape, count, programs[0]->dtype, &l->bind, &err))
        abort();
    for (uint32_t r = 0; r < s->shape.ranks; r++)
        open_rank(l, r, programs[r]);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        for (uint32_t op = 0; op < programs[r]->nops; op++)
            match(l, r, op);
        if (programs[r]->segments != l->segments || !programs[r]->box != !programs[0]->box)
            ls_fault(&l->result, LS_MALFORMED, r, 0, "other segments than rank 0, or only one of them has a box");
    }
    return l;
}

void lw_close(struct lw *l)
{
    for (uint32_t r = 0; l && r < l->s->shape.ranks; r++) {
        struct lw_rank *k = &l->rank[r];
        for (uint32_t op = 0; op < k->p->nops; op++) {
            free(k->ops[op].segment);
            free(k->ops[op].divide);
            free(k->ops[op].at);
            free(k->ops[op].want);
        }
        free(k->ops);
        free(k->messages);
        free(k->data);
        free(k->copy);
        free(k->copied);
        free(k->from);
        free(k->waits);
        free(k->done);
    }
    for (int i = 0; l && i < LW_ACTIONS; i++)
        tt_vec_free(&l->actions[i]);
    if (l) {
        tt_sched_bind_free(&l->bind);
        free(l->rank);
    }
    free(l);
}
