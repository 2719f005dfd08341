/* choose_auto.c - the best of all algorithms.
 *
 *     probe every line of the table        -> refused, or a job with its amount of work
 *     sort jobs: home first, then by work
 *     price jobs while the budget lasts    -> priced, skipped, or refused
 *     search numbers of segments           -> with what is left of the budget
 *     simulate the best at flow level      -> with a budget of its own (flow.c)
 *     take the least time, ties by messages
 *
 * An algorithm is at home on the kind of network that it was made for (`home` in its table line).
 *
 * The winner has the least time: at flow level, or by steps where that is unknown. Predictions
 * within 2 % of the least are ties, because the model is not more precise than that. A tie goes to
 * the fewest messages (each message costs a host something that a topology may not state), then to
 * the least time, then to table order. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "plan/plan_int.h"

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
    assert(n <= plan->ncandidates);
    *ret_n = n;
    return TUTTI_OK;
}

/* `alone`: its work exceeds the whole budget, not only what others have left of it. */
static void choose_skip(struct tt_candidate *c, uint64_t work, uint64_t budget_ms, bool alone)
{
    char text[TT_PLAN_WORDS];
    c->skipped = true;
    snprintf(c->why, sizeof c->why,
             "not priced: about %s operations exceed %sthe planning budget of %" PRIu64 " ms",
             tt_plan_count_words(work, text), alone ? "" : "what is left of ", budget_ms);
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
    const uint64_t budget = tt_plan_budget_work(p->budget_ms), all = affordable(jobs, n, budget);
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

/* Returns the winner: among the candidates within 1/TT_PLAN_NEAR of the fastest, the one with the
 * fewest messages. `measured`: times come from a measured memory model (best_in_order). */
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
        st = tt_plan_choose_segments(p, &j->way, spare, c, err);
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

tutti_status tt_plan_choose_auto(const struct tt_pricing *p, struct tt_plan *plan,
                                 struct tutti_error *err)
{
    struct job *jobs = NULL;
    size_t n = 0;
    uint64_t spare = 0;
    tutti_status st = tt_plan_choose_list(plan, err);

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
    return tt_plan_choose_settle(plan, p, &plan->candidates[plan->winner], err);
}
