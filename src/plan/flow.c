/* flow.c - the candidates at flow level: which of them is the fastest when ranks run ahead.
 *
 * Step times (cost/) let every rank wait for the slowest at each step; live ranks start what they
 * can. Where that matters (uneven links, several levels, reductions beside transfers) the order of
 * candidates differs, so the most promising ones are simulated and the choice is made by that:
 *
 *     by step time:  forest 217 ms, flex 218 ms, chain 272 ms, ring 322 ms, ...
 *     simulate       forest 325     flex 217     chain 220     ring: its busiest link alone needs
 *     more segments                 flex 215     chain 219     322 ms > 217 ms, cannot win
 *
 * Candidates are simulated by ascending step time, each with the number of segments that the
 * step level found. One whose busiest link alone needs 2 % longer than the fastest so far cannot
 * win and is left out. Then other numbers of segments are tried for those near the fastest.
 *
 * Work is counted by the simulator, never timed, so ranks that plan separately agree. It grows with
 * the number of segments, so a small simulation tells what a large one will need. A candidate with
 * more segments than half of what is left allows is simulated with fewer, and keeps those if they
 * are no slower than its step time; one that cannot be simulated at all has only its step time. */
#include "plan/plan_int.h"

#include <assert.h>
#include <stdlib.h>

#include "sim/sim.h"

enum {
    WORK_PER_MS = 20000, /* units of the simulator; measured: 30 to 80 ns each */
    CLOSE = 2,           /* numbers of segments are tried within 1/CLOSE of the fastest */
    GAIN = 500,          /* a number of segments is better if it saves more than 1/GAIN */
    PER_MESSAGE = 16,    /* units for a message that is alone on its links, about */
    SAMPLE = 1024,       /* messages of the first of several simulations */
    STRIDE = 4,          /* ... each of which has so many times the segments of the one before */
};

/* One candidate while it is simulated. */
struct trial {
    const struct tt_pricing *p;
    struct tt_candidate *c;
    struct tt_sched *s; /* owned: all ranks, or rank 0 for all */
    double per_segment; /* work of the last simulation per segment; 0: none yet */
};

uint64_t tt_plan_flow_estimate(const struct tt_candidate *c)
{
    return c->flow_ps ? c->flow_ps : c->cost.time_ps;
}

/* No schedule of this candidate is faster: its busiest link must carry its bytes. */
static uint64_t flow_floor(const struct tt_candidate *c, const struct tt_topo *t)
{
    const struct tt_link *l = &t->links[c->cost.busiest_link / 2];
    double bw = l->bw[l->half ? 0 : c->cost.busiest_link & 1];
    double ps = c->cost.exact ? (double)c->cost.busiest_bytes / bw * 1e12 : 0;
    return ps < 0x1p62 ? (uint64_t)ps : UINT64_C(1) << 62;
}

static tutti_status trial_open(struct trial *x, bool one, struct tutti_error *err)
{
    const struct tt_algo_args *a = &x->p->args;
    if (x->c->built.sched)
        return tt_sched_share(x->c->built.sched, NULL, &x->s, err);
    return one ? tt_algo_slice(x->c->algo, a, 0, 1, &x->s, err)
               : tt_algo_build(x->c->algo, a, &x->s, err);
}

/* The time of k segments; 0: unknown (too much work, or no time that can be represented). Charges
 * `left`. Only lack of memory fails. */
static tutti_status trial_run(struct trial *x, uint32_t k, uint64_t *left, uint64_t *ret_ps,
                              struct tutti_error *err)
{
    const struct tt_problem *pr = &x->p->args.problem;
    const struct tt_sim_options o = {.level = TT_SIM_FLOW, .max_work = *left / 2};
    struct tt_sched s = *x->s; /* borrows everything; only the number of segments differs */
    struct tt_sim_report *r = NULL;
    struct tutti_error why;
    tutti_status st;

    *ret_ps = 0;
    s.shape.segments = k;
    if (s.nops * k / 8 > o.max_work || x->per_segment * k > (double)o.max_work)
        return TUTTI_OK;
    st = tt_sim_run(&s, x->p->args.topo, pr->count, pr->dtype, &o, &r, &why);
    *left -= !st ? r->effort : st == TUTTI_ERR_BUDGET ? o.max_work : 0;
    *ret_ps = !st ? r->time_ps : 0;
    x->per_segment = (!st ? (double)r->effort : (double)o.max_work) / k;
    tt_sim_report_free(r);
    return st == TUTTI_ERR_MEMORY ? tt_fail(err, st, "%s", why.text) : TUTTI_OK;
}

/* Would listing all ranks be too much? */
static bool too_large(const struct tt_candidate *c, uint64_t left)
{
    return c->cost.messages > left || c->cost.messages * c->segments > left;
}

/* Rank 0 stands for all where the step level did it that way and the simulator agrees. */
static tutti_status first_trial(struct trial *x, uint64_t *left, struct tutti_error *err)
{
    struct tt_candidate *c = x->c;
    bool one = c->cost.by_symmetry && !c->built.sched;
    tutti_status st = TUTTI_OK;

    if (!one && too_large(c, *left))
        return TUTTI_OK;
    st = trial_open(x, one, err);
    if (!st)
        st = trial_run(x, c->segments, left, &c->flow_ps, err);
    if (st || c->flow_ps || !one || too_large(c, *left))
        return st;
    tt_sched_free(x->s);
    x->s = NULL;
    x->per_segment = 0;
    st = trial_open(x, false, err);
    return st ? st : trial_run(x, c->segments, left, &c->flow_ps, err);
}

/* Are all segments probably too many for what is left, and fewer allowed? Messages that share links
 * take more work each. */
static bool wants_fewer(const struct trial *x, uint64_t left)
{
    const struct tt_candidate *c = x->c;
    uint64_t room = left / 2 / (PER_MESSAGE * (1 + (uint64_t)c->cost.max_link_contention / 2));
    return c->segments > 1 && tt_plan_way_searches(x->p, c->algo) && !c->cost.by_symmetry &&
           c->cost.messages <= room && c->cost.messages * c->segments > room;
}

/* Simulates a few segments, then ever more while that is faster and what is left allows it. The
 * candidate keeps the best number unless its step time is less. */
static tutti_status fewer_trial(struct trial *x, uint64_t *left, struct tutti_error *err)
{
    struct tt_candidate *c = x->c;
    uint32_t k = c->segments;
    uint64_t ps = 0, more = 0;
    tutti_status st = trial_open(x, false, err);

    while (k > 1 && c->cost.messages * k > SAMPLE)
        k /= 2;
    if (!st)
        st = trial_run(x, k, left, &ps, err);
    while (!st && ps && k < c->segments) {
        uint32_t next = k > c->segments / STRIDE ? c->segments : k * STRIDE;
        /* more segments are on the way at the same time: work grows faster than their number */
        x->per_segment *= 2;
        st = trial_run(x, next, left, &more, err);
        if (!more || more + more / GAIN >= ps)
            break;
        ps = more;
        k = next;
    }
    if (st || !ps || ps > c->cost.time_ps)
        return st;
    if (k != c->segments)
        st = tt_plan_price_again(x->p, x->s, k, c, err);
    if (!st) /* the time is that of k segments */
        c->flow_ps = ps;
    return st;
}

static tutti_status flow_simulate(const struct tt_pricing *p, struct tt_candidate *c,
                                  uint64_t *left, struct tutti_error *err)
{
    struct trial x = {.p = p, .c = c};
    tutti_status st =
        wants_fewer(&x, *left) ? fewer_trial(&x, left, err) : first_trial(&x, left, err);

    tt_sched_free(x.s);
    /* What cannot be listed (too large) was priced by symmetry; its step time stands for it. */
    return st == TUTTI_ERR_LIMIT || st == TUTTI_ERR_REFUSED ? TUTTI_OK : st;
}

/* ---- numbers of segments ---- */

/* Doubles (or halves) the number while that is faster. */
static tutti_status flow_climb(struct trial *x, bool more, uint32_t most, uint64_t *left,
                               uint32_t *k, struct tutti_error *err)
{
    struct tt_candidate *c = x->c;
    uint64_t ps;

    for (;;) {
        uint32_t next = more ? *k * 2 : *k / 2;
        if (next == 0 || next > most)
            return TUTTI_OK;
        tutti_status st = trial_run(x, next, left, &ps, err);
        if (st || ps == 0 || ps + ps / GAIN >= c->flow_ps)
            return st;
        c->flow_ps = ps;
        *k = next;
    }
}

static tutti_status flow_segments(const struct tt_pricing *p, struct tt_candidate *c,
                                  uint64_t *left, struct tutti_error *err)
{
    struct trial x = {.p = p, .c = c};
    uint32_t k = c->segments, most = 0;
    const uint64_t before = c->flow_ps;
    tutti_status st;

    if (too_large(c, *left))
        return TUTTI_OK;
    st = trial_open(&x, false, err);
    if (!st)
        st = tt_cost_most_segments(x.s, p->args.problem.count, p->args.problem.dtype, &most, err);
    if (!st)
        st = flow_climb(&x, true, most, left, &k, err);
    if (!st && k == c->segments)
        st = flow_climb(&x, false, most, left, &k, err);
    if (!st && k != c->segments)
        st = tt_plan_price_again(p, x.s, k, c, err);
    if (st) /* the segments are still those of before */
        c->flow_ps = before;
    tt_sched_free(x.s);
    return st == TUTTI_ERR_LIMIT ? TUTTI_OK : st;
}

/* ---- all ---- */

static int by_step(const void *x, const void *y)
{
    const struct tt_candidate *a = *(struct tt_candidate *const *)x,
                              *b = *(struct tt_candidate *const *)y;
    if (a->cost.time_ps != b->cost.time_ps)
        return a->cost.time_ps < b->cost.time_ps ? -1 : 1;
    return a < b ? -1 : 1; /* table order */
}

static int by_flow(const void *x, const void *y)
{
    uint64_t a = tt_plan_flow_estimate(*(struct tt_candidate *const *)x),
             b = tt_plan_flow_estimate(*(struct tt_candidate *const *)y);
    return a != b ? (a < b ? -1 : 1) : by_step(x, y);
}

static uint64_t flow_fastest(const struct tt_plan *plan)
{
    uint64_t best = UINT64_MAX;
    for (size_t i = 0; i < plan->ncandidates; i++) {
        const struct tt_candidate *c = &plan->candidates[i];
        if (c->flow_ps && c->flow_ps < best)
            best = c->flow_ps;
    }
    return best;
}

static void flow_tell(const struct tt_pricing *p, const struct tt_candidate *c)
{
    if (p->watch)
        p->watch(p->watch_ctx, c->algo->name, 0);
}

static tutti_status simulate_all(const struct tt_pricing *p, struct tt_plan *plan,
                                 struct tt_candidate **list, size_t n, uint64_t *left,
                                 struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < n && !st; i++) {
        const uint64_t best = flow_fastest(plan), floor = flow_floor(list[i], p->args.topo);
        /* what may still tie with the fastest must not win by its step time */
        if (floor > best && floor - best > best / TT_PLAN_NEAR)
            continue;
        flow_tell(p, list[i]);
        st = flow_simulate(p, list[i], left, err);
    }
    return st;
}

static tutti_status search_all(const struct tt_pricing *p, struct tt_plan *plan,
                               struct tt_candidate **list, size_t n, uint64_t *left,
                               struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;

    for (size_t i = 0; i < n && !st; i++) {
        struct tt_candidate *c = list[i];
        const uint64_t best = flow_fastest(plan);
        if (!c->flow_ps || !tt_plan_way_searches(p, c->algo) || c->flow_ps - best > best / CLOSE ||
            flow_floor(c, p->args.topo) > best - best / GAIN)
            continue;
        flow_tell(p, c);
        st = flow_segments(p, c, left, err);
    }
    return st;
}

tutti_status tt_plan_flow(const struct tt_pricing *p, struct tt_plan *plan, struct tutti_error *err)
{
    uint64_t left = p->flow_ms > UINT64_MAX / WORK_PER_MS ? UINT64_MAX : p->flow_ms * WORK_PER_MS;
    struct tt_candidate **list = tt_alloc(plan->ncandidates, sizeof(struct tt_candidate *));
    size_t n = 0;
    tutti_status st;

    if (!list)
        return tt_fail_memory(err, "candidates");
    for (size_t i = 0; i < plan->ncandidates; i++) {
        struct tt_candidate *c = &plan->candidates[i];
        if (!c->refused && !c->skipped && c->cost.time_ps)
            list[n++] = c;
    }
    qsort(list, n, sizeof(struct tt_candidate *), by_step);
    st = simulate_all(p, plan, list, n, &left, err);
    qsort(list, n, sizeof(struct tt_candidate *), by_flow);
    if (!st)
        st = search_all(p, plan, list, n, &left, err);
    free(list);
    return st;
}
