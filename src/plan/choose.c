/* choose.c - which algorithm: the named one, the one that a tuning rule fixes, or the best of all
 * (choose_auto.c).
 *
 * Work is counted in operations, and the budget is converted with a fixed constant. The outcome
 * therefore depends on the problem and the options alone, never on the speed of a machine, so ranks
 * that plan separately agree. */
#include <assert.h>

#include "plan/plan_int.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Operations priced per millisecond of budget. Measured: 12 to 65 ns per unit of work for 4096
 * ranks on a busy 2-core machine; the constant keeps the budget within a factor of two. */
enum { OPS_PER_MS = 33000 };
enum { PATIENCE = 30 }; /* a named algorithm may take this many budgets */

static bool is_segments(const struct tt_option_value *v)
{
    return tt_streq(v->key, "segments");
}

static const struct tt_option_value *find_segments(const struct tt_options *o)
{
    for (size_t i = 0; i < o->n; i++)
        if (is_segments(&o->item[i]))
            return &o->item[i];
    return NULL;
}

/* Moves the decision and the built schedule from candidate to plan. K becomes an option of the
 * plan unless it was given or is 1. */
tutti_status tt_plan_choose_settle(struct tt_plan *plan, const struct tt_pricing *p,
                                   struct tt_candidate *c, struct tutti_error *err)
{
    struct tt_algo_args args = p->args;
    char text[40];
    tutti_status st = TUTTI_OK;

    if (c->segments > 1 && !find_segments(&args.options)) {
        snprintf(text, sizeof text, "segments=%" PRIu32, c->segments);
        st = tt_algo_options_add(&args.options, text, err);
        if (!st && c->built.sched)
            st = tt_plan_built_adapt(&c->built, c->algo, &args, err);
        if (st)
            return st;
    }
    assert(c->algo && !c->refused && !plan->algo);
    plan->algo = c->algo;
    plan->options = args.options;
    plan->built = c->built;
    c->built = (struct tt_built){0}; /* the plan owns it now */
    plan->cost = c->cost;
    plan->flow_ps = c->flow_ps;
    plan->ratio_to_bound = c->ratio_to_bound;
    return TUTTI_OK;
}

/* Refuses with "ring: reason"; the name is not repeated when the reason starts with it. */
static tutti_status fail_refused(const struct tt_candidate *c, struct tutti_error *err)
{
    const char *name = c->algo->name;
    bool named = strncmp(c->why, name, strlen(name)) == 0;

    return tt_fail(err, TUTTI_ERR_REFUSED, "%s%s%s", named ? "" : name, named ? "" : ": ", c->why);
}

/* Converts the budget to work; saturates. */
uint64_t tt_plan_budget_work(uint64_t budget_ms)
{
    return budget_ms > UINT64_MAX / OPS_PER_MS ? UINT64_MAX : budget_ms * OPS_PER_MS;
}

/* A number of operations for people: "41.3 million". */
const char *tt_plan_count_words(uint64_t n, char text[TT_PLAN_WORDS])
{
    if (n < 1000)
        snprintf(text, TT_PLAN_WORDS, "%" PRIu64, n);
    else if (n < 1000000)
        snprintf(text, TT_PLAN_WORDS, "%.1f thousand", (double)n / 1e3);
    else if (n < 1000000000)
        snprintf(text, TT_PLAN_WORDS, "%.1f million", (double)n / 1e6);
    else
        snprintf(text, TT_PLAN_WORDS, "%.1f billion", (double)n / 1e9);
    return text;
}

/* Notes in `why` that one segment was priced because the search would exceed the budget. */
static void unsearched(struct tt_candidate *c, uint64_t work)
{
    char text[TT_PLAN_WORDS];
    size_t len = strlen(c->why);
    snprintf(
        c->why + len, sizeof c->why - len,
        "; one segment: about %s operations to find a better number exceed the planning budget",
        tt_plan_count_words(work, text));
}

/* Finds the best number of segments if `spare` work suffices. When the search would be too large
 * or its times too long to represent, the price with one segment stays. */
tutti_status tt_plan_choose_segments(const struct tt_pricing *p, const struct tt_way *way,
                                     uint64_t spare, struct tt_candidate *c,
                                     struct tutti_error *err)
{
    const uint64_t work = tt_plan_price_search_work(way, c);
    struct tutti_error why;
    tutti_status st = TUTTI_OK;

    if (work > spare)
        unsearched(c, work);
    else
        st = tt_plan_price_search(p, c, &why);
    /* `why` is set whenever the search failed, the only case in which it is read. */
    if (!st || st == TUTTI_ERR_LIMIT || st == TUTTI_ERR_RANGE)
        return TUTTI_OK;
    return tt_fail(err, st, "%s", why.text);
}

/* Probes and prices the one algorithm to be considered; its refusal is the answer. Pricing may
 * take PATIENCE budgets. Within one budget, an exact price replaces an upper bound and the best
 * number of segments is searched. */
static tutti_status price_only(const struct tt_pricing *p, const struct tt_algo *al,
                               struct tt_candidate *ret, struct tutti_error *err)
{
    const uint64_t budget = tt_plan_budget_work(p->budget_ms);
    char text[TT_PLAN_WORDS];
    struct tt_way way;
    tutti_status st = tt_plan_price_probe(p, al, ret, &way, err);

    if (st)
        return st;
    if (ret->refused)
        return fail_refused(ret, err);
    if (way.work / PATIENCE > budget)
        return tt_fail(err, TUTTI_ERR_BUDGET,
                       "%s: its price takes about %s operations, more than %d times the planning "
                       "budget of %" PRIu64 " ms",
                       al->name, tt_plan_count_words(way.work, text), (int)PATIENCE, p->budget_ms);
    st = tt_plan_price(p, &way, budget, ret, err);
    if (st || tt_plan_price_hope(p, &way, ret) == UINT64_MAX)
        return st;
    return tt_plan_choose_segments(p, &way, budget, ret, err);
}

static tutti_status choose_named(const struct tt_pricing *p, const char *name, struct tt_plan *plan,
                                 struct tutti_error *err)
{
    const struct tt_algo *al = tt_algo_find(name);
    struct tt_candidate c = {0};
    tutti_status st;

    if (!al)
        return tt_algo_unknown(name, err);
    st = price_only(p, al, &c, err);
    if (!st)
        st = tt_plan_choose_settle(plan, p, &c, err);
    tt_plan_built_free(&c.built);
    return st;
}

/* ---- tuned ---- */

/* Joins the rule's options with the user's segments=K where the rule has none. Two different
 * values of K are an error, because a tuning rule is obeyed or refused, never ignored. */
static tutti_status join_options(struct tt_pricing *p, const struct tt_tuning_rule *rule,
                                 struct tutti_error *err)
{
    const struct tt_option_value *wished = find_segments(&p->args.options),
                                 *ruled = find_segments(&rule->options);
    struct tt_options joined = rule->options;
    char text[80];
    tutti_status st = TUTTI_OK;

    if (wished && ruled && !tt_streq(wished->value, ruled->value))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "segments=%s was asked for, but the rule says segments=%s", wished->value,
                       ruled->value);
    if (wished && !ruled) {
        snprintf(text, sizeof text, "%s=%s", wished->key, wished->value);
        st = tt_algo_options_add(&joined, text, err);
    }
    if (!st)
        p->args.options = joined;
    return st;
}

/* Lists the whole table as candidates, in table order; the plan owns the array. */
tutti_status tt_plan_choose_list(struct tt_plan *plan, struct tutti_error *err)
{
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);

    plan->candidates = tt_zalloc(n, sizeof *plan->candidates);
    if (!plan->candidates)
        return tt_fail_memory(err, "candidates");
    plan->ncandidates = n;
    for (size_t i = 0; i < n; i++)
        plan->candidates[i].algo = table[i];
    return TUTTI_OK;
}

/* Prices the rule's algorithm only; the other candidates are marked as skipped with the reason. */
static tutti_status price_ruled(const struct tt_pricing *p, const struct tt_tuning_rule *rule,
                                const char *file, struct tt_plan *plan, struct tutti_error *err)
{
    tutti_status st = tt_plan_choose_list(plan, err);

    for (size_t i = 0; !st && i < plan->ncandidates; i++) {
        struct tt_candidate *c = &plan->candidates[i];
        if (c->algo == rule->algo) {
            st = price_only(p, rule->algo, c, err);
            plan->winner = i;
        } else {
            c->skipped = true;
            snprintf(c->why, sizeof c->why, "not priced: rule %zu of %.200s fixes %s", rule->number,
                     file, rule->algo->name);
        }
    }
    return st;
}

/* A failure is prefixed with file and rule, so the user sees where the decision came from. */
static tutti_status choose_tuned(struct tt_pricing *p, const struct tt_tuning_rule *rule,
                                 const char *file, struct tt_plan *plan, struct tutti_error *err)
{
    tutti_status st = join_options(p, rule, err);

    if (!st)
        st = price_ruled(p, rule, file, plan, err);
    if (!st)
        st = tt_plan_choose_settle(plan, p, &plan->candidates[plan->winner], err);
    if (st && err)
        tt_fail_prefix(err, "%.200s: rule %zu", file, rule->number);
    plan->from_tuning = !st;
    return st;
}

static tutti_status check_auto_options(const struct tt_options *o, struct tutti_error *err)
{
    for (size_t i = 0; i < o->n; i++)
        if (!is_segments(&o->item[i]))
            return tt_fail(err, TUTTI_ERR_ARG,
                           "option '%s' belongs to one algorithm; auto takes only segments=K",
                           o->item[i].key);
    return TUTTI_OK;
}

/* Order of authority: a named algorithm, then a tuning rule, then auto. A rule whose algorithm
 * does not sum in rank order is passed over for problems that need that order. */
static tutti_status choose_choose(struct tt_pricing *p, const struct tt_plan_options *o,
                                  uint64_t bytes, struct tt_plan *plan, struct tutti_error *err)
{
    const struct tt_tuning_rule *rule;
    tutti_status st;

    if (o->algo && !tt_streq(o->algo, "auto"))
        return choose_named(p, o->algo, plan, err);
    st = check_auto_options(&o->algo_options, err);
    if (st)
        return st;
    rule = o->tuning ? tt_plan_tuning_match(o->tuning, &p->args.problem, bytes) : NULL;
    if (rule && (rule->algo->rank_order || !tt_algo_problem_ordered(&p->args.problem)))
        return choose_tuned(p, rule, tt_plan_tuning_name(o->tuning), plan, err);
    return tt_plan_choose_auto(p, plan, err);
}

tutti_status tt_plan_choose(struct tt_pricing *p, const struct tt_plan_options *o, uint64_t bytes,
                            struct tt_plan *plan, struct tutti_error *err)
{
    tutti_status st;

    p->args.options = o->algo_options;
    p->reproducible = o->reproducible;
    p->watch = o->watch;
    p->watch_ctx = o->watch_ctx;
    p->budget_ms = o->budget_ms ? o->budget_ms : TT_PLAN_BUDGET_MS;
    p->flow_ms = o->flow_ms ? o->flow_ms : p->budget_ms / 4;
    st = choose_choose(p, o, bytes, plan, err);
    for (size_t i = 0; i < plan->ncandidates; i++) /* free the schedules of the losers */
        tt_plan_built_free(&plan->candidates[i].built);
    return st;
}
