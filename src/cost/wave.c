/* wave.c - K segments: in wave w segment k does step w-k, so up to K consecutive steps share the
 * network.
 *
 *     steps 3, K = 2:   wave      0    1    2    3
 *                       segment 0 s0   s1   s2
 *                       segment 1      s0   s1   s2
 *
 * A wave demands the sum of what its active steps demand, divided by K. The active steps are a
 * window that slides by one step per wave: a step that enters is added, one that leaves is
 * subtracted, and the slowest resource is read from the root of a tournament tree (each inner
 * node names the winner of its two children). Latencies need the maximum over the window: a
 * queue of decreasing latencies. Cost: O((entries of the profile) * log(resources) + waves), and
 * nothing is built again for another K.
 *
 * By symmetry a resource stands for one at every rank: what the active steps demand of it is the
 * largest value of the sum of their patterns. Only where that is declined (pattern.h), the sum
 * of the steps' largest values replaces it, and the time is an upper bound.
 *
 * Invariant: after a wave's updates, use[r] is what the active steps demand together, and every
 * inner node names the slower child. */
#include "cost/load.h"

#include <stdlib.h>
#include <string.h>

/* Resources first .. first+n-1 compete; leaf i of `win` is at index leaves + i, the root at 1. */
struct tourney {
    uint32_t first, n, leaves;
    uint32_t *win;        /* resource - first; UINT32_MAX: none */
    const uint64_t *rate; /* NULL: all equal */
};

/* The state of one run over the waves. */
struct waves {
    const struct tt_load *l;
    uint64_t *use;
    uint64_t *sum; /* sum of the steps' amounts; without patterns the same array as `use` */
    /* With patterns only: the terms of the active steps per resource, and the resources whose
     * use must be computed again. */
    struct tt_vec *window;
    uint32_t *todo, ntodo;
    bool *stale;
    bool exact;
    struct tourney family[3]; /* transfer, reduce, message */
    uint32_t *queue;          /* steps with decreasing latency: queue[head] .. queue[tail-1] */
    uint32_t head, tail;
};

static tutti_status tourney_open(struct tourney *y, uint32_t first, uint32_t n,
                                 struct tutti_error *err)
{
    *y = (struct tourney){.first = first, .n = n, .leaves = 1};
    while (y->leaves < n)
        y->leaves *= 2;
    y->win = tt_alloc(2 * (size_t)y->leaves, sizeof *y->win);
    if (!y->win)
        return tt_fail_memory(err, "tournament of the links");
    memset(y->win, 0xff, 2 * (size_t)y->leaves * sizeof *y->win);
    for (uint32_t i = 0; i < n; i++)
        y->win[y->leaves + i] = i;
    /* All uses are 0 at first, so any child may be the winner. */
    for (uint32_t i = y->leaves - 1; i > 0; i--)
        y->win[i] = y->win[2 * (size_t)i];
    return TUTTI_OK;
}

/* Ties go to a, the lower resource. */
static uint32_t winner(const struct tourney *y, const uint64_t *use, uint32_t a, uint32_t b)
{
    if (a == UINT32_MAX || b == UINT32_MAX)
        return a < b ? a : b;
    uint64_t ra = y->rate ? y->rate[a] : 1, rb = y->rate ? y->rate[b] : 1;
    return tt_slower(use[y->first + b], rb, use[y->first + a], ra) ? b : a;
}

/* The use of this resource changed: replays its matches towards the root, up to one that it
 * neither wins nor won before. */
static void tourney_update(struct tourney *y, const uint64_t *use, uint32_t resource)
{
    uint32_t me = resource - y->first;
    for (size_t i = ((size_t)y->leaves + me) / 2; i > 0; i /= 2) {
        uint32_t before = y->win[i];
        y->win[i] = winner(y, use, y->win[2 * i], y->win[2 * i + 1]);
        if (y->win[i] == before && before != me)
            break;
    }
}

static uint64_t tourney_top(const struct tourney *y, const uint64_t *use, uint64_t *ret_rate)
{
    uint32_t w = y->n ? y->win[1] : UINT32_MAX;
    if (w == UINT32_MAX)
        return 0;
    if (y->rate)
        *ret_rate = y->rate[w];
    return use[y->first + w];
}

static struct tourney *family_of(struct waves *v, uint32_t resource)
{
    const struct tt_cost_machine *m = &v->l->m;
    return &v->family[resource < m->ntransfer ? 0 : resource < tt_machine_message(m) ? 1 : 2];
}

/* Adds the pattern of a step to its resource's window, or subtracts it. */
static void window_apply(struct waves *v, uint32_t resource, struct tt_pattern_ref ref, bool enter)
{
    if (ref.id != TT_NO_PATTERN && !tt_cost_patterns_over(v->l->patterns))
        tt_cost_terms_merge(v->l->patterns, &v->window[resource], ref, enter ? 1 : -1);
    if (!v->stale[resource])
        v->todo[v->ntodo++] = resource;
    v->stale[resource] = true;
}

/* A step enters (or leaves) the window; false on overflow. */
static bool step_apply(struct waves *v, uint32_t step, bool enter)
{
    const struct tt_profile *p = &v->l->profile;
    const uint64_t *start = p->start.data, *amount = p->amount.data;
    const uint32_t *resource = p->resource.data;
    const struct tt_pattern_ref *ref = p->pattern.data;
    for (uint64_t i = start[step]; i < start[step + 1]; i++) {
        uint64_t *sum = &v->sum[resource[i]];
        if (!enter)
            *sum -= amount[i];
        else if (__builtin_add_overflow(*sum, amount[i], sum))
            return false;
        if (v->window)
            window_apply(v, resource[i], ref[i], enter);
        else
            tourney_update(family_of(v, resource[i]), v->use, resource[i]);
    }
    return true;
}

/* What the active steps demand of a resource. Messages have no pattern: all ranks have the same
 * number. */
static uint64_t window_use(struct waves *v, uint32_t resource)
{
    struct tt_patterns *p = v->l->patterns;
    const struct tt_vec *terms = &v->window[resource];
    uint64_t most;
    if (resource >= tt_machine_message(&v->l->m))
        return v->sum[resource];
    if (!tt_cost_patterns_over(p) &&
        tt_cost_patterns_max(p, tt_cost_patterns_find(p, terms->data, terms->len).id, &most))
        return most;
    v->exact = false;
    return v->sum[resource];
}

static void windows_refresh(struct waves *v)
{
    for (uint32_t i = 0; i < v->ntodo; i++) {
        uint32_t r = v->todo[i];
        v->use[r] = window_use(v, r);
        v->stale[r] = false;
        tourney_update(family_of(v, r), v->use, r);
    }
    v->ntodo = 0;
}

/* Steps with a smaller latency than the new one can never be the maximum again. */
static void latency_enter(struct waves *v, uint32_t step)
{
    const uint64_t *latency = v->l->profile.latency.data;
    while (v->tail > v->head && latency[v->queue[v->tail - 1]] <= latency[step])
        v->tail--;
    v->queue[v->tail++] = step;
}

static void latency_leave(struct waves *v, uint32_t step)
{
    if (v->head < v->tail && v->queue[v->head] == step)
        v->head++;
}

static struct tt_peak wave_peak(struct waves *v)
{
    struct tt_peak p = {.rate = 1};
    uint64_t unused = 0;
    p.load = tourney_top(&v->family[0], v->use, &p.rate);
    p.reduced = tourney_top(&v->family[1], v->use, &unused);
    p.messages = tourney_top(&v->family[2], v->use, &unused);
    if (v->head < v->tail)
        p.latency_ps = ((const uint64_t *)v->l->profile.latency.data)[v->queue[v->head]];
    return p;
}

/* Runs all waves; false on overflow. While all steps are active (K > steps) nothing changes, and
 * these waves are added at once. */
static bool slide(struct waves *v, uint32_t segments, struct tt_cost *c)
{
    uint32_t nsteps = v->l->profile.nsteps;
    uint64_t waves = nsteps ? (uint64_t)nsteps + segments - 1 : 0;
    for (uint64_t w = 0, times = 1; w < waves; w += times) {
        if (w >= segments) {
            latency_leave(v, (uint32_t)(w - segments));
            step_apply(v, (uint32_t)(w - segments), false);
        }
        if (w < nsteps) {
            latency_enter(v, (uint32_t)w);
            if (!step_apply(v, (uint32_t)w, true))
                return false;
        }
        windows_refresh(v);
        times = w + 1 == nsteps && segments > nsteps ? (uint64_t)segments - nsteps + 1 : 1;
        struct tt_peak p = wave_peak(v);
        if (!tt_cost_peak_add(&p, &v->l->m, segments, times, c))
            return false;
    }
    return true;
}

static tutti_status windows_open(struct waves *v, struct tutti_error *err)
{
    size_t n = (size_t)tt_machine_count(&v->l->m) + 1;
    v->sum = tt_zalloc(n, sizeof *v->sum);
    v->window = tt_zalloc(n, sizeof *v->window);
    v->todo = tt_alloc(n, sizeof *v->todo);
    v->stale = tt_zalloc(n, sizeof *v->stale);
    if (!v->sum || !v->window || !v->todo || !v->stale)
        return tt_fail_memory(err, "waves");
    for (size_t i = 0; i < n; i++)
        v->window[i].elem = sizeof(struct tt_term);
    return TUTTI_OK;
}

/* Patterns are used only if the load is exact; otherwise upper bounds add up. */
static tutti_status waves_open(struct waves *v, struct tutti_error *err)
{
    const struct tt_cost_machine *m = &v->l->m;
    tutti_status st = TUTTI_OK;
    v->use = tt_zalloc((size_t)tt_machine_count(m) + 1, sizeof *v->use);
    v->queue = tt_alloc((size_t)v->l->profile.nsteps + 1, sizeof *v->queue);
    if (!v->use || !v->queue)
        return tt_fail_memory(err, "waves");
    if (v->l->patterns && v->exact)
        st = windows_open(v, err);
    else
        v->sum = v->use;
    if (!st)
        st = tourney_open(&v->family[0], 0, m->ntransfer, err);
    if (!st)
        st = tourney_open(&v->family[1], tt_machine_reduce(m), m->nreduce, err);
    if (!st)
        st = tourney_open(&v->family[2], tt_machine_message(m), m->nmessage, err);
    v->family[0].rate = m->rate;
    return st;
}

static void waves_close(struct waves *v)
{
    for (size_t i = 0; i < countof(v->family); i++)
        free(v->family[i].win);
    for (size_t i = 0; v->window && i <= tt_machine_count(&v->l->m); i++)
        tt_vec_free(&v->window[i]);
    free(v->window);
    free(v->todo);
    free(v->stale);
    if (v->sum != v->use)
        free(v->sum);
    free(v->use);
    free(v->queue);
}

/* The caller's load is only read, except for the patterns that it learns. */
tutti_status tt_cost_waves_run(const struct tt_load *l, uint32_t segments, struct tt_cost *c,
                               struct tutti_error *err)
{
    struct waves v = {.l = l, .exact = l->cost.exact};
    struct tt_cost sum = l->cost;
    sum.time_ps = sum.latency_ps = sum.transfer_ps = sum.reduce_ps = sum.overhead_ps = 0;
    tutti_status st = waves_open(&v, err);
    if (st)
        goto out;
    if (!slide(&v, segments, &sum)) {
        st = tt_fail(err, TUTTI_ERR_RANGE,
                     "the predicted time of %u segments exceeds 2^64 picoseconds (213 days)",
                     segments);
        goto out;
    }
    if (l->patterns && l->patterns->nomem) {
        st = tt_fail_memory(err, "waves");
        goto out;
    }
    sum.exact = v.exact;
    *c = sum;
out:
    waves_close(&v);
    return st;
}
