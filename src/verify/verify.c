/* verify.c - the proof from beginning to end.
 *
 *     well-formed (sched)  ->  each step: match -> wait (deadlock) -> exec (contributions)
 *                          ->  results -> declared symmetry
 *
 * The first fault ends the proof. Invariant of the loop over steps: before a step, `state` holds
 * what the lockstep meaning puts in every place after all earlier steps; all messages of those
 * steps had partners and could be delivered. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_int.h"

/* ranges of neighbouring chunks (fold.c); each is handled separately */
static const uint64_t MAX_RANGES = UINT64_C(1) << 27;
/* The budget of work, counted in runs read and written, stops hostile files. Valid schedules
 * need few runs per range: a few seconds, and somewhat more for long lists. */
static const uint64_t BASE_WORK = UINT64_C(1) << 28;
enum { WORK_PER_RANGE = 8, WORK_PER_SPAN = 64 };

/* The proof needs all ranks, and 32-bit indices of operations. */
static tutti_status check_whole(const struct tt_sched *s, struct tutti_error *err)
{
    if (s->first_rank != 0 || s->nslices != s->shape.ranks)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "cannot verify: ranks %" PRIu32 "..%" PRIu32 " of %" PRIu32
                       " are here, all are needed",
                       s->first_rank, s->first_rank + s->nslices - 1, s->shape.ranks);
    if (s->nops >= UINT32_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT, "cannot verify: %" PRIu64 " operations are too many",
                       s->nops);
    return TUTTI_OK;
}

/* A flaw in the form is a fault of the schedule. Any other failure (memory, limits) means that
 * no judgement is possible. */
static tutti_status check_form(struct tt_verifier *v)
{
    struct tt_sched_flaw where = {0};
    struct tutti_error why = {0};
    tutti_status st = tt_sched_check(v->sched, &where, &why);
    if (!st)
        return TUTTI_OK;
    v->result->header = st == TUTTI_ERR_INCORRECT && where.header;
    if (st == TUTTI_ERR_INCORRECT)
        return tt_verify_fault(v, where.rank, where.op, "%s", where.header ? why.text : where.why);
    return tt_fail(v->err, st, "%s", why.text);
}

/* The number of contributors: every rank; or one, the source of each chunk, when nothing is
 * reduced. */
static uint32_t contributors(const struct tt_shape *s)
{
    return tt_sched_coll_reduces(s->coll) ? s->ranks : 1;
}

static enum tt_verify_method choose_method(const struct tt_shape *s,
                                           const struct tt_verify_options *o)
{
    if (o && o->method != TT_VERIFY_AUTO)
        return o->method;
    return contributors(s) <= TT_VERIFY_EXACT_RANKS ? TT_VERIFY_EXACT : TT_VERIFY_FINGERPRINT;
}

static tutti_status init_domain(struct tt_verifier *v, const struct tt_verify_options *o)
{
    if (v->result->method == TT_VERIFY_EXACT)
        return tt_verify_exact_init(&v->domain, contributors(v->shape), v->err);
    return tt_verify_finger_init(&v->domain, contributors(v->shape),
                                 o && o->seed ? o->seed : tt_entropy(), v->err);
}

static void verifier_init(struct tt_verifier *v)
{
    struct tt_vec *pieces[] = {&v->sent, &v->a, &v->b, &v->c};
    for (size_t i = 0; i < countof(pieces); i++)
        pieces[i]->elem = sizeof(struct tt_vpiece);
    v->msgs.elem = sizeof(struct tt_vmsg);
    v->recv_msg.elem = v->inbox_end.elem = sizeof(uint32_t);
    v->inbox.elem = v->expected.elem = sizeof(struct tt_vkeyed);
    tt_verify_wait_init(v);
}

/* Chooses the numbering of chunks and the budget of work. The budget follows from the ranges of
 * the spans as listed, whatever the fold makes of them. */
static tutti_status verify_begin(struct tt_verifier *v)
{
    v->fold = tt_verify_fold_choose(v->sched);
    uint64_t listed = tt_verify_fold_ranges(v->sched, 1),
             ranges = tt_verify_fold_ranges(v->sched, v->fold.every);
    if (ranges > MAX_RANGES)
        return tt_fail(v->err, TUTTI_ERR_LIMIT,
                       "cannot verify: %" PRIu64 " separate ranges of chunks are too many", ranges);
    uint64_t work = BASE_WORK + WORK_PER_RANGE * (listed < MAX_RANGES ? listed : MAX_RANGES) +
                    WORK_PER_SPAN * v->sched->nspans;
    tt_verify_state_init(&v->state, v->shape, &v->domain, work);
    return TUTTI_OK;
}

static void verifier_free(struct tt_verifier *v)
{
    struct tt_vec *all[] = {&v->msgs,     &v->recv_msg, &v->inbox,  &v->inbox_end,
                            &v->expected, &v->reads,    &v->writes, &v->edges,
                            &v->sent,     &v->a,        &v->b,      &v->c};
    for (size_t i = 0; i < countof(all); i++)
        tt_vec_free(all[i]);
    tt_verify_state_free(&v->state);
    tt_verify_domain_free(&v->domain);
    tt_verify_front_free(&v->front);
}

/* Reports progress about once per hundredth of the operations. */
static void report(const struct tt_verify_options *o, uint64_t done, uint64_t all, uint64_t *told)
{
    if (!o || !o->progress || all == 0 || (done - *told) * 100 < all)
        return;
    *told = done;
    o->progress(o->ctx, (double)done / (double)all);
}

static tutti_status run_steps(struct tt_verifier *v, const struct tt_verify_options *o)
{
    uint64_t done = 0, told = 0;
    tutti_status st = tt_verify_front_init(&v->front, v->sched, v->err);
    while (!st && tt_verify_front_next(&v->front)) {
        st = tt_verify_match_step(v, &v->front);
        if (!st)
            st = tt_verify_wait_step(v);
        if (!st)
            st = tt_verify_exec_step(v);
        for (uint32_t k = 0; k < v->front.n; k++)
            done += v->front.active[k].end - v->front.active[k].begin;
        report(o, done, v->sched->nops, &told);
    }
    return st;
}

static tutti_status verify_prove(struct tt_verifier *v, const struct tt_verify_options *o)
{
    uint64_t comparisons = 0;
    v->result->method = choose_method(v->shape, o);
    tutti_status st = check_form(v);
    if (!st)
        st = verify_begin(v);
    if (!st)
        st = init_domain(v, o);
    if (!st)
        st = run_steps(v, o);
    if (!st)
        st = tt_verify_final(v, &comparisons);
    if (!st)
        st = tt_verify_symmetry(v);
    /* The bound holds for a schedule that passed: each comparison may have passed by accident. */
    if (v->result->method == TT_VERIFY_FINGERPRINT)
        v->result->error_probability = tt_verify_finger_error(comparisons);
    return st;
}

static uint64_t count_messages(const struct tt_sched *s)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < s->nops; i++)
        n += s->ops[i].kind == TT_OP_SEND;
    return n;
}

tutti_status tt_verify(const struct tt_sched *s, const struct tt_verify_options *o,
                       struct tt_verify_result *ret, struct tutti_error *err)
{
    tutti_status st = check_whole(s, err);
    if (st)
        return st;
    struct tt_verify_result result = {
        .ok = true, .ranks = s->shape.ranks, .ops = s->nops, .messages = count_messages(s)};
    struct tt_verifier v = {.sched = s, .shape = &s->shape, .result = &result, .err = err};
    verifier_init(&v);
    st = verify_prove(&v, o);
    verifier_free(&v);
    /* A fault is a result; only the inability to judge is a failure. */
    if (st && st != TUTTI_ERR_INCORRECT)
        return st;
    *ret = result;
    return TUTTI_OK;
}
