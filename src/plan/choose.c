/* choose.c - which algorithm: the named one, the one that a tuning rule fixes, or the best of
 * all.
 *
 *     auto:  probe every line of the table        -> refused, or a job with its amount of work
 *            sort jobs: home first, then by work
 *            price jobs while the budget lasts    -> priced, skipped, or refused
 *            search numbers of segments           -> with what is left of the budget
 *            simulate the best at flow level      -> with a budget of its own (flow.c)
 *            take the least time, ties by messages
 *
 * An algorithm is at home on the kind of network that it was made for (`home` in its table
 * line). Work is counted in operations, and the budget is converted with a fixed constant. The
 * outcome therefore depends on the problem and the options alone, never on the speed of a
 * machine, so ranks that plan separately agree.
 *
 * The winner has the least time: at flow level, or by steps where that is unknown. Predictions
 * within 2 % of the least are ties, because the model is not more precise than that. A tie goes to
 * the fewest messages (each message costs a host something that a topology may not state), then to
 * the least time, then to table order. */
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
static tutti_status choose_settle(struct tt_plan *plan, const struct tt_pricing *p,
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
static uint64_t budget_work(uint64_t budget_ms)
{
    return budget_ms > UINT64_MAX / OPS_PER_MS ? UINT64_MAX : budget_ms * OPS_PER_MS;
}

enum { COUNT_WORDS = 40 };

/* A number of operations for people: "41.3 million". */
static const char *count_words(uint64_t n, char text[COUNT_WORDS])
{
    if (n < 1000)
        snprintf(text, COUNT_WORDS, "%" PRIu64, n);
    else if (n < 1000000)
        snprintf(text, COUNT_WORDS, "%.1f thousand", (double)n / 1e3);
    else if (n < 1000000000)
        snprintf(text, COUNT_WORDS, "%.1f million", (double)n / 1e6);
    else
        snprintf(text, COUNT_WORDS, "%.1f billion", (double)n / 1e9);
    return text;
}

/* Notes in `why` that one segment was priced because the search would exceed the budget. */
static void unsearched(struct tt_candidate *c, uint64_t work)
{
    char text[COUNT_WORDS];
    size_t len = strlen(c->why);
    snprintf(
        c->why + len, sizeof c->why - len,
        "; one segment: about %s operations to find a better number exceed the planning budget",
        count_words(work, text));
}

/* Finds the best number of segments if `spare` work suffices. When the search would be too large
 * or its times too long to represent, the price with one segment stays. */
static tutti_status price_segments(const struct tt_pricing *p, const struct tt_way *way,
                                   uint64_t spare, struct tt_candidate *c, struct tutti_error *err)
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
    const uint64_t budget = budget_work(p->budget_ms);
    char text[COUNT_WORDS];
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
                       al->name, count_words(way.work, text), (int)PATIENCE, p->budget_ms);
    st = tt_plan_price(p, &way, budget, ret, err);
    if (st || tt_plan_price_hope(p, &way, ret) == UINT64_MAX)
        return st;
    return price_segments(p, &way, budget, ret, err);
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
        st = choose_settle(plan, p, &c, err);
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
static tutti_status list_candidates(struct tt_plan *plan, struct tutti_error *err)
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
    tutti_status st = list_candidates(plan, err);

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
        st = choose_settle(plan, p, &plan->candidates[plan->winner], err);
    if (st && err)
        tt_fail_prefix(err, "%.200s: rule %zu", file, rule->number);
    plan->from_tuning = !st;
    return st;
}

/* ---- auto ---- */

/* A candidate that can be priced. */
struct job {
    size_t candidate;
    struct tt_way way;
    bool home;     /* the algorithm was made for this kind of network */
    bool searched; /* its number of segments has been searched */
};

/* The candidate's index is the last key: it makes the order total, so qsort is deterministic. */
static int by_work(const void *a, const void *b)
{
    const struct job *x = a, *y = b;

    if (x->home != y->home)
        return x->home ? -1 : 1;
    if (x->way.work != y->way.work)
        return x->way.work < y->way.work ? -1 : 1;
    return x->candidate < y->candidate ? -1 : 1;
}

/* `home` is a list of network kinds separated by single blanks; is the topology's kind one of
 * them? */
static bool is_home(const struct tt_algo *al, const struct tt_topo *t)
{
    const size_t len = strlen(t->kind);

    for (const char *word = al->home; word && *word;
         word += strcspn(word, " "), word += *word == ' ')
        if (strcspn(word, " ") == len && strncmp(word, t->kind, len) == 0)
            return true;
    return false;
}

/* Probes all candidates. Those not refused become jobs[0..*ret_n-1]: algorithms at home first,
 * then the others, cheapest to price first. `jobs` has room for ncandidates. */
static tutti_status probe_all(const struct tt_pricing *p, struct tt_plan *plan, struct job *jobs,
                              size_t *ret_n, struct tutti_error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < plan->ncandidates; i++) {
        struct tt_candidate *c = &plan->candidates[i];
        struct tt_way way;
        tutti_status st = tt_plan_price_probe(p, c->algo, c, &way, err);
        if (st)
            return st;
        if (!c->refused)
            jobs[n++] =
                (struct job){.candidate = i, .way = way, .home = is_home(c->algo, p->args.topo)};
    }
    qsort(jobs, n, sizeof *jobs, by_work);
    *ret_n = n;
    return TUTTI_OK;
}

/* `alone`: its work exceeds the whole budget, not only what others have left of it. */
static void choose_skip(struct tt_candidate *c, uint64_t work, uint64_t budget_ms, bool alone)
{
    char text[COUNT_WORDS];
    c->skipped = true;
    snprintf(c->why, sizeof c->why,
             "not priced: about %s operations exceed %sthe planning budget of %" PRIu64 " ms",
             count_words(work, text), alone ? "" : "what is left of ", budget_ms);
}

static void tell_next(const struct tt_pricing *p, const struct tt_candidate *c, double done)
{
    if (p->watch)
        p->watch(p->watch_ctx, c->algo->name, done);
}

/* The work that price_all will do within the budget; the denominator of the progress shown. */
static uint64_t affordable(const struct job *jobs, size_t n, uint64_t budget)
{
    uint64_t used = 0;
    for (size_t i = 0; i < n; i++)
        used += jobs[i].way.work <= budget - used ? jobs[i].way.work : 0;
    return used;
}

/* Prices jobs in their order; one that does not fit into the rest of the budget is skipped, and
 * cheaper ones may follow. A candidate too large for this build, or whose time is too long to
 * represent, is refused, since no budget would help. Invariant: used <= budget. */
static tutti_status price_all(const struct tt_pricing *p, struct tt_plan *plan,
                              const struct job *jobs, size_t n, uint64_t *ret_spare,
                              struct tutti_error *err)
{
    const uint64_t budget = budget_work(p->budget_ms), all = affordable(jobs, n, budget);
    uint64_t used = 0;

    for (size_t i = 0; i < n; i++) {
        struct tt_candidate *c = &plan->candidates[jobs[i].candidate];
        const struct tt_way *way = &jobs[i].way;
        const uint64_t work = way->work;
        struct tutti_error why;
        tutti_status st;
        if (work > budget - used) {
            choose_skip(c, work, p->budget_ms, work > budget);
            continue;
        }
        tell_next(p, c, (double)used / ((double)all + 1));
        used += work;
        st = tt_plan_price(p, way, budget - used, c, &why);
        /* All ranks were priced after all (price_symmetric): charge that too. */
        if (!st && way->by_symmetry && !c->cost.by_symmetry)
            used = way->whole > budget - used ? budget : used + way->whole;
        if (st == TUTTI_ERR_LIMIT || st == TUTTI_ERR_RANGE) {
            c->refused = true;
            snprintf(c->why, sizeof c->why, "%.*s", (int)sizeof c->why - 1, why.text);
        } else if (st) {
            tt_fail_prefix(&why, "%s", c->algo->name);
            return tt_fail(err, st, "%s", why.text);
        }
    }
    *ret_spare = budget - used;
    return TUTTI_OK;
}

static uint64_t time_at(const struct tt_plan *plan, size_t i)
{
    return tt_plan_flow_estimate(&plan->candidates[i]);
}

/* Index of the fastest priced candidate; ncandidates when none was priced. */
static size_t fastest(const struct tt_plan *plan)
{
    size_t best = plan->ncandidates;

    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i];
        if (c->refused || c->skipped)
            continue;
        if (best == plan->ncandidates || tt_plan_flow_estimate(c) < time_at(plan, best))
            best = i;
    }
    return best;
}

/* All messages of a candidate, each segment counted; saturates. */
static uint64_t messages_of(const struct tt_candidate *c)
{
    uint64_t all;
    return __builtin_mul_overflow(c->cost.messages, c->segments, &all) ? UINT64_MAX : all;
}

/* Breaks ties on a shared-memory topology, whose measured times include all that messages cost:
 * among the candidates as fast as the fastest, prefers one that sums in rank order. Its sums
 * have the same bits at every length, and such reductions need no copy of their result. */
static size_t best_in_order(const struct tt_plan *plan, size_t first)
{
    size_t best = first;
    uint64_t least = first < plan->ncandidates ? plan->candidates[first].cost.time_ps : 0;

    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i], *b = &plan->candidates[best];
        /* time_ps - least cannot wrap: `least` is the minimum over the same candidates. */
        if (c->refused || c->skipped || !c->algo->rank_order ||
            c->cost.time_ps - least > least / TT_PLAN_NEAR)
            continue;
        if (!b->algo->rank_order || c->cost.time_ps < b->cost.time_ps)
            best = i;
    }
    return best;
}

/* Returns the winner: among the candidates within 1/TT_PLAN_NEAR of the fastest, the one with the fewest
 * messages. `measured`: times come from a measured memory model (best_in_order). */
static size_t best_of_ties(const struct tt_plan *plan, bool measured)
{
    size_t best = fastest(plan);
    uint64_t least = best < plan->ncandidates ? time_at(plan, best) : 0;

    if (measured)
        return best_in_order(plan, best);
    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i], *b = &plan->candidates[best];
        if (c->refused || c->skipped || time_at(plan, i) - least > least / TT_PLAN_NEAR ||
            messages_of(c) > messages_of(b))
            continue;
        if (messages_of(c) < messages_of(b) || time_at(plan, i) < time_at(plan, best))
            best = i;
    }
    return best;
}

/* Searches numbers of segments with the budget that pricing has left. The first pass (i < n)
 * takes only candidates that could become the fastest by it, the second one all that could
 * improve. */
static tutti_status search_all(const struct tt_pricing *p, struct tt_plan *plan, struct job *jobs,
                               size_t n, uint64_t spare, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < 2 * n && !st; i++) {
        struct job *j = &jobs[i % n];
        struct tt_candidate *c = &plan->candidates[j->candidate];
        uint64_t hope = j->searched || c->refused || c->skipped ? UINT64_MAX
                                                                : tt_plan_price_hope(p, &j->way, c),
                 work;
        if (hope == UINT64_MAX || (i < n && hope >= plan->candidates[fastest(plan)].cost.time_ps))
            continue;
        tell_next(p, c, 0);
        work = tt_plan_price_search_work(&j->way, c);
        st = price_segments(p, &j->way, spare, c, err);
        spare -= work <= spare ? work : 0;
        j->searched = true;
    }
    return st;
}

/* Refuses with every reason as far as the text goes: "no algorithm for ... 8 ranks; beyond the
 * planning budget of 1 ms: ring, direct; bucket: needs a torus, ...". The status is BUDGET if
 * any candidate was skipped, since a larger budget may then help. */
static tutti_status fail_none(const struct tt_pricing *p, const struct tt_plan *plan,
                              struct tutti_error *err)
{
    const struct tt_problem *pr = &p->args.problem;
    struct tt_str skipped = {0}, refused = {0};
    tutti_status st;

    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i];
        if (c->skipped)
            tt_str_printf(&skipped, "%s%s", skipped.len ? ", " : "", c->algo->name);
        else
            tt_str_printf(&refused, "; %s: %.60s", c->algo->name, c->why);
    }
    st = skipped.len ? TUTTI_ERR_BUDGET : TUTTI_ERR_REFUSED;
    if (skipped.len)
        tt_fail(err, st,
                "no algorithm for %s of %" PRIu64 " elements among %" PRIu32
                " ranks; beyond the planning budget of %" PRIu64 " ms: %s%s",
                tt_sched_coll_name(pr->coll), pr->count, pr->ranks, p->budget_ms, skipped.s,
                refused.len ? refused.s : "");
    else
        tt_fail(err, st, "no algorithm for %s of %" PRIu64 " elements among %" PRIu32 " ranks%s",
                tt_sched_coll_name(pr->coll), pr->count, pr->ranks, refused.len ? refused.s : "");
    tt_str_free(&skipped);
    tt_str_free(&refused);
    return st;
}

static tutti_status choose_auto(const struct tt_pricing *p, struct tt_plan *plan,
                                struct tutti_error *err)
{
    struct job *jobs = NULL;
    size_t n = 0;
    uint64_t spare = 0;
    tutti_status st = list_candidates(plan, err);

    if (st)
        return st;
    jobs = tt_alloc(plan->ncandidates, sizeof *jobs);
    if (!jobs)
        return tt_fail_memory(err, "candidates");
    st = probe_all(p, plan, jobs, &n, err);
    if (!st)
        st = price_all(p, plan, jobs, n, &spare, err);
    if (!st)
        st = search_all(p, plan, jobs, n, spare, err);
    free(jobs);
    if (!st && p->flow_ms != TT_PLAN_NO_FLOW && !p->args.topo->memory.npoints)
        st = tt_plan_flow(p, plan, err);
    if (st)
        return st;
    plan->winner = best_of_ties(plan, p->args.topo->memory.npoints > 0);
    if (plan->winner == plan->ncandidates)
        return fail_none(p, plan, err);
    return choose_settle(plan, p, &plan->candidates[plan->winner], err);
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
    return choose_auto(p, plan, err);
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
