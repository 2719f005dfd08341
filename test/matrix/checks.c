/* checks.c - all that is asked of one schedule: it is well-formed, verify proves it, an independent interpreter runs it on numbers (every
 * segment of every chunk, in place too, live too), it reads back from its text, each rank's slice is the same built alone (a synthesised
 * schedule is the same without a cache), and no network carries it faster than the lower bound says. */
#include <stdlib.h>
#include <string.h>

#include "bound/bound.h"
#include "cost/cost.h"
#include "lockstep.h"
#include "matrix.h"
#include "verify/verify.h"

enum { TEXT_RANKS = 17, FRESH_RANKS = 17, LIVE_RANKS = 33 }; /* of more they take long and show nothing new */

void complain(struct one *o, const char *what, const char *why)
{
    printf("FAILED %s: %s: %s\n", o->label, what, why);
    o->tally->failures++;
}

/* The schedule reads back from its own text. */
static void check_text(struct one *o, const struct tt_sched *s)
{
    char *text = NULL;
    size_t len = 0;
    struct tt_sched *again = NULL;
    struct tutti_error err = {0};
    FILE *f = open_memstream(&text, &len);
    tutti_status st = tt_sched_write(s, f, &err);
    fclose(f);
    if (st || tt_sched_read_memory(text, len, "text", &again, &err))
        complain(o, "text form", err.text);
    else if (!tt_sched_equal(s, again))
        complain(o, "text form", "reads back different");
    tt_sched_free(again);
    free(text);
}

/* A rank's slice built alone is the one in the whole. */
static void check_slice(struct one *o, const struct tt_sched *s, uint32_t rank)
{
    struct tt_sched *part = NULL;
    struct tutti_error err = {0};
    if (tt_algo_slice(o->al, &o->args, rank, 1, &part, &err)) {
        complain(o, "slice", err.text);
        return;
    }
    struct tt_slice a = tt_sched_slice(s, rank), b = tt_sched_slice(part, rank);
    if (a.nops != b.nops || a.nspans != b.nspans || memcmp(a.ops, b.ops, a.nops * sizeof *a.ops) ||
        memcmp(a.spans, b.spans, a.nspans * sizeof *a.spans))
        complain(o, "slice", "differs from the whole build");
    tt_sched_free(part);
}

/* A synthesised schedule from the cache, built for another number of segments perhaps, is the one built from scratch. */
static void check_fresh(struct one *o, const struct tt_sched *s)
{
    struct tt_sched *fresh = NULL;
    struct tutti_error err = {0};
    if (tt_algo_build(o->al, &o->args, &fresh, &err))
        complain(o, "build", err.text);
    else if (!tt_sched_equal(s, fresh) || s->hash != fresh->hash)
        complain(o, "cache", "differs from what is built from scratch");
    tt_sched_free(fresh);
}

static void check_parts(struct one *o, const struct tt_sched *s)
{
    uint32_t p = s->shape.ranks;
    if (o->al->slice) {
        check_slice(o, s, 0);
        check_slice(o, s, p / 2);
        check_slice(o, s, p - 1);
    } else if (p <= FRESH_RANKS) {
        check_fresh(o, s);
    }
}

static void check_proof(struct one *o, const struct tt_sched *s)
{
    struct tt_verify_result v;
    struct tt_sched_flaw flaw;
    struct tutti_error err = {0};
    if (tt_sched_check(s, &flaw, &err))
        complain(o, "check", err.text);
    if (tt_verify(s, &(struct tt_verify_options){0}, &v, &err)) {
        complain(o, "verify", err.text);
    } else if (!v.ok) {
        char why[512];
        snprintf(why, sizeof why, "rank %u op %llu: %s", v.rank, (unsigned long long)v.op, v.why);
        complain(o, "verify", why);
    }
}

/* 0, 1, P-1, P, P+1, odd, large; a barrier has only none. The large one is last. */
enum { COUNTS = 7 };
static size_t counts_of(const struct tt_problem *p, uint64_t counts[COUNTS])
{
    const uint64_t all[COUNTS] = {0, 1, p->ranks - 1, p->ranks, p->ranks + 1, 1009, (1u << 22) + 3};
    memcpy(counts, all, sizeof all);
    return p->coll == TUTTI_BARRIER ? 1 : COUNTS;
}

static void check_run(struct one *o, struct ls *l, const struct ls_options *how)
{
    struct ls_result r = ls_run(l, how);
    o->tally->runs++;
    if (r.verdict != LS_CORRECT)
        complain(o, how->inplace ? "run in place" : "run", r.why);
}

/* The large count is priced, not run. */
static void check_runs(struct one *o, const struct tt_sched *s)
{
    uint64_t counts[COUNTS];
    size_t n = counts_of(&o->args.problem, counts);
    struct ls *l = ls_open(s);
    for (int inplace = 0; inplace <= (s->shape.inplace ? 1 : 0); inplace++) {
        for (size_t i = 0; i == 0 || i + 1 < n; i++)
            check_run(o, l, &(struct ls_options){.elements = true, .count = counts[i], .inplace = inplace});
        if (s->shape.ranks <= LIVE_RANKS)
            check_run(o, l, &(struct ls_options){.live = true, .inplace = inplace, .seed = s->shape.ranks});
    }
    check_run(o, l, &(struct ls_options){.sum = ls_ordered_sum});
    ls_close(l);
}

/* The same from rank 0 alone, where the schedule and the network allow that. */
static void check_symmetric_price(struct one *o, const struct tt_sched *s, uint64_t count, const struct tt_cost *whole)
{
    struct tt_cost fast;
    struct tutti_error err = {0};
    if (!s->shape.symmetric || !o->args.topo->rotational || s->shape.weights)
        return;
    if (tt_cost_symmetric(s, o->args.topo, count, s->shape.dtype, &fast, &err))
        complain(o, "cost by symmetry", err.text);
    else if (fast.time_ps < whole->time_ps || fast.steps != whole->steps)
        complain(o, "cost by symmetry", "below the cost of the whole");
}

/* Time is never below the bound. */
static void check_price(struct one *o, const struct tt_sched *s, uint64_t count)
{
    const struct tt_topo *t = o->args.topo;
    struct tt_cost cost;
    struct tt_bounds bounds;
    struct tutti_error err = {0};
    uint64_t bytes = count * tt_sched_dtype_bytes(s->shape.dtype);
    o->tally->prices++;
    if (tt_cost_sched(s, t, count, s->shape.dtype, &cost, &err)) {
        complain(o, "cost", err.text);
        return;
    }
    check_symmetric_price(o, s, count, &cost);
    if (tt_sched_coll_has_owners(s->shape.coll) && !tt_sched_shape_equal_blocks(&s->shape))
        return; /* bounds are about equal blocks */
    if (tt_bound_make(t, s->shape.coll, s->shape.root, bytes, &bounds, &err)) {
        complain(o, "bound", err.text);
        return;
    }
    if (cost.time_ps < bounds.time_ps) {
        char why[700];
        snprintf(why, sizeof why, "%llu ps on %s for %llu elements, bound %llu ps: %s", (unsigned long long)cost.time_ps, t->spec,
                 (unsigned long long)count, (unsigned long long)bounds.time_ps, bounds.item[bounds.best].text);
        complain(o, "time below the bound", why);
    }
    tt_bound_free(&bounds);
}

static bool known(const struct one *o, uint64_t hash)
{
    for (size_t i = 0; i < o->nproved; i++)
        if (o->proved[i] == hash)
            return true;
    return false;
}

static void check_all(struct one *o, const struct tt_sched *s)
{
    unsigned long before = o->tally->failures;
    uint32_t p = s->shape.ranks;
    check_proof(o, s);
    check_runs(o, s);
    check_parts(o, s);
    if (p <= TEXT_RANKS)
        check_text(o, s);
    if (o->tally->failures != before)
        return;
    o->tally->proved++;
    if (o->nproved < MATRIX_PROVED)
        o->proved[o->nproved++] = s->hash;
}

static tutti_status build(const struct one *o, struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_built built;
    if (o->al->slice)
        return tt_algo_build(o->al, &o->args, ret, err);
    tutti_status st = tt_plan_build(o->al, &o->args, o->plans, &built, err);
    if (!st)
        *ret = built.sched;
    return st;
}

void check_schedule(struct one *o)
{
    struct tt_sched *s = NULL;
    struct tutti_error err = {0};
    uint64_t counts[COUNTS];
    if (build(o, &s, &err)) {
        complain(o, "build", err.text);
        return;
    }
    o->tally->schedules++;
    if (!known(o, s->hash))
        check_all(o, s);
    for (size_t i = 0, n = counts_of(&o->args.problem, counts); i < n; i++)
        check_price(o, s, counts[i]);
    tt_sched_free(s);
}
