/* support.c - building, proving and counting for the unit tests; every failure names the algorithm, the collective and the ranks. */
#include "support.h"

#include "verify/verify.h"

struct tt_sched *build_of(const struct tt_algo *al, const struct tt_algo_args *a)
{
    const struct tt_problem *p = &a->problem;
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    if (tt_algo_build(al, a, &s, &err) != TUTTI_OK)
        fail_msg("%s %s of %u ranks, root %u: %s", al->name, tt_sched_coll_name(p->coll), p->ranks, p->root, err.text);
    assert_int_equal(s->nslices, p->ranks);
    return s;
}

struct tt_sched *cached_of(const struct tt_algo *al, const struct tt_algo_args *a, struct tt_plan_cache *c)
{
    struct tt_built b = {0};
    struct tutti_error err = {0};
    if (!al->build)
        return build_of(al, a);
    if (tt_plan_build(al, a, c, &b, &err) != TUTTI_OK)
        fail_msg("%s %s of %u ranks: %s", al->name, tt_sched_coll_name(a->problem.coll), a->problem.ranks, err.text);
    return b.sched;
}

static void fail_sched(const struct tt_sched *s, const char *who, const char *why)
{
    const struct tt_shape *sh = &s->shape;
    fail_msg("%s %s of %u ranks, root %u, options '%s': %s: %s", sh->algo, tt_sched_coll_name(sh->coll), sh->ranks, sh->root, sh->options,
             who, why);
}

void expect_proved(const struct tt_sched *s)
{
    struct tutti_error err = {0};
    struct tt_verify_result v = {0};
    if (tt_sched_check(s, NULL, &err) != TUTTI_OK)
        fail_sched(s, "check", err.text);
    struct ls_result r = ls_prove(s);
    if (r.verdict != LS_CORRECT)
        fail_sched(s, ls_verdict_name(r.verdict), r.why);
    if (tt_verify(s, &(struct tt_verify_options){.method = TT_VERIFY_EXACT}, &v, &err) != TUTTI_OK)
        fail_sched(s, "verify", err.text);
    if (!v.ok)
        fail_sched(s, "verify", v.why);
}

void expect_says(const char *text, const char *words)
{
    if (!strstr(text, words))
        fail_msg("'%s' does not say '%s'", text, words);
}

struct tt_sched *frozen(struct tt_builder *b)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    if (tt_sched_build_freeze(b, &s, &err) != TUTTI_OK)
        fail_msg("%s", err.text);
    return s;
}

uint64_t op_chunks(const struct tt_slice *sl, const struct tt_op *op)
{
    uint64_t n = 0;
    for (uint32_t k = 0; k < op->nspans; k++)
        n += tt_sched_span_chunks(&sl->spans[op->span + k]);
    return n;
}

uint64_t chunks_moved(const struct tt_sched *s, uint32_t rank, bool sent)
{
    struct tt_slice sl = tt_sched_slice(s, rank);
    uint64_t n = 0;
    for (size_t i = 0; i < sl.nops; i++) {
        bool send = sl.ops[i].kind == TT_OP_SEND, recv = sl.ops[i].kind == TT_OP_RECV || sl.ops[i].kind == TT_OP_RECV_REDUCE;
        n += (sent ? send : recv) ? op_chunks(&sl, &sl.ops[i]) : 0;
    }
    return n;
}
