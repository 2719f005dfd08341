/* pattern_max.c - the values of a pattern at all places, and the largest of them.
 *
 * The plain way evaluates every place: terms times ranks. The other way uses where chunks begin
 * (bind.c): chunk y at unit floor(U*y/C), and what is left after the last unit at the end of the
 * last chunk. Without that rest the load at place v is, with weights w of offsets,
 *
 *     sum of w(x) * floor(U*(x + v*m)/C)
 *                        = a constant + sum of those w(x) with phi(x) + theta >= C
 *     phi(x) = U*x mod C,  theta = U*m*v mod C
 *
 * (whole turns of U*m*v cancel out, because the weights of a window add up to 0). The load
 * depends on theta only, which takes exactly the multiples of g = gcd(U*m, C). As theta grows,
 * w(x) joins at C - phi(x): sort, add up, take the maximum. The number of ranks does not matter
 * for that. How often the rest is carried at place v is the sum of w(x) * floor((x + v*m)/C),
 * found in the same way: w(x) joins where x + v*m passes C. The rest is rarely carried, and its
 * places are then evaluated one by one.
 *
 *     10 elements in 4 chunks begin at 0 2 5 7 (U = 10, C = 4, m = 1): theta is 0 2 0 2,
 *     a window of one chunk has 2 elements, or 3 when theta = 2 */
#include "cost/pattern.h"

#include <stdlib.h>

/* MAX_ONE: the most work for one pattern; SORT_COST: sorting a point is worth this many values
 * of T. */
#define MAX_ONE (UINT64_C(1) << 25)
enum { BLOCK = 512, SORT_COST = 32 };

/* A weight, and from where on (x, theta/g or place) it counts. */
struct point {
    uint64_t from, weight;
};

/* Sorted weights that join, in addition to `base`: a step function. */
struct steps {
    struct point *at;
    uint64_t n, base;
};

/* One evaluation: the terms, and the same unrolled to offsets. */
struct eval {
    struct tt_patterns *p;
    const struct tt_term *terms;
    uint32_t nterms;
    uint64_t npoints;
    struct steps units, rest; /* by theta/g, by place */
};

/* ---- the plain way ---- */

/* The largest value of places v .. v+len-1; a block keeps the sums in the cache. */
static uint64_t block_max(const struct eval *e, uint32_t v, uint32_t len)
{
    const struct tt_patterns *p = e->p;
    uint64_t sum[BLOCK] = {0}, most = 0;
    for (uint32_t k = 0; k < e->nterms; k++) {
        const uint64_t *value = p->table + e->terms[k].at + (size_t)v * p->stride;
        for (uint32_t i = 0; i < len; i++)
            sum[i] += e->terms[k].weight * value[(size_t)i * p->stride];
    }
    for (uint32_t i = 0; i < len; i++)
        most = sum[i] > most ? sum[i] : most;
    return most;
}

/* Raises *ret to the largest value of places v .. end-1. */
static void raise_places(const struct eval *e, uint64_t v, uint64_t end, uint64_t *ret)
{
    for (; v < end; v += BLOCK) {
        uint64_t most = block_max(e, (uint32_t)v, end - v < BLOCK ? (uint32_t)(end - v) : BLOCK);
        *ret = most > *ret ? most : *ret;
    }
}

/* ---- offsets, and where their weights join ---- */

/* Lists the offsets with their weights in ret, unless that is NULL; returns their number.
 * Because offset(x) is T(x+m) - T(x), the weight of an offset is that of the one m before it
 * minus that of the term at its place. */
static uint64_t unroll(const struct eval *e, struct point *ret)
{
    uint32_t m = e->p->stride;
    uint64_t count = 0;
    for (uint32_t residue = 0; residue < m; residue++) {
        uint64_t weight = 0, x = residue;
        for (uint32_t k = 0; k < e->nterms; k++) {
            if (e->terms[k].at % m != residue)
                continue;
            for (; ret && weight != 0 && x < e->terms[k].at; x += m)
                ret[count++] = (struct point){x, weight};
            if (!ret && weight != 0)
                count += (e->terms[k].at - x) / m;
            x = e->terms[k].at;
            weight -= e->terms[k].weight;
        }
    }
    return count;
}

static uint64_t pattern_max_gcd(uint64_t a, uint64_t b)
{
    while (b != 0) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* How far theta moves from one place to the next, and the g that all its values are multiples
 * of. */
static uint64_t theta_step(const struct tt_patterns *p, uint64_t *ret_g)
{
    uint64_t step = p->units % p->chunks * p->stride % p->chunks;
    *ret_g = pattern_max_gcd(p->chunks, step);
    return step;
}

/* Offset x as a number of units: its value at theta 0, and the theta/g from which on it is one
 * more. */
static void add_units(const struct tt_patterns *p, uint64_t g, const struct point *offset,
                      struct steps *s)
{
    uint64_t each = p->units / p->chunks, odd = p->units % p->chunks, x = offset->from;
    uint64_t phi = odd * x % p->chunks, from = (p->chunks - phi + g - 1) / g;
    s->base += offset->weight * (each * x + odd * x / p->chunks);
    if (from < p->chunks / g)
        s->at[s->n++] = (struct point){from, offset->weight};
}

/* The same for the rest: how often offset x has passed the end of the vector. */
static void add_rest(const struct tt_patterns *p, const struct point *offset, struct steps *s)
{
    uint64_t x = offset->from, from = (p->chunks - x % p->chunks + p->stride - 1) / p->stride;
    s->base += offset->weight * (x / p->chunks);
    if (from < p->ranks)
        s->at[s->n++] = (struct point){from, offset->weight};
}

static int by_from(const void *pa, const void *pb)
{
    const struct point *a = pa, *b = pb;
    return a->from < b->from ? -1 : a->from > b->from;
}

/* Fills e->units, and e->rest if there is one; false if there is no memory. All arrays are one
 * block. */
static bool find_steps(struct eval *e)
{
    uint64_t g, n = e->npoints;
    struct point *room = tt_alloc(3 * (size_t)n, sizeof *room);
    if (!room) {
        e->p->nomem = true;
        return false;
    }
    theta_step(e->p, &g);
    unroll(e, room + 2 * n);
    e->units.at = room;
    e->rest.at = room + n;
    for (uint64_t i = 2 * n; i < 3 * n; i++) {
        add_units(e->p, g, &room[i], &e->units);
        if (e->p->rest)
            add_rest(e->p, &room[i], &e->rest);
    }
    qsort(e->units.at, e->units.n, sizeof *room, by_from);
    qsort(e->rest.at, e->rest.n, sizeof *room, by_from);
    return true;
}

static void free_steps(struct eval *e)
{
    free(e->units.at); /* the whole block of find_steps */
}

/* ---- all places, and the largest ---- */

/* Computes the values of all places; `level` has room for one value per theta. */
static void fill_values(const struct eval *e, uint64_t *level, uint64_t *ret)
{
    const struct tt_patterns *p = e->p;
    uint64_t g, step = theta_step(p, &g), units = e->units.base, times = e->rest.base;
    for (uint64_t i = 0, k = 0; i < p->chunks / g; i++) {
        for (; k < e->units.n && e->units.at[k].from == i; k++)
            units += e->units.at[k].weight;
        level[i] = units;
    }
    for (uint64_t v = 0, k = 0, theta = 0; v < p->ranks; v++) {
        for (; k < e->rest.n && e->rest.at[k].from == v; k++)
            times += e->rest.at[k].weight;
        ret[v] = p->quantum * level[theta / g] + p->rest * times;
        theta = theta + step >= p->chunks ? theta + step - p->chunks : theta + step;
    }
}

static bool find_values(const struct eval *e, uint64_t *ret)
{
    struct tt_patterns *p = e->p;
    uint64_t *level = NULL;
    if (!tt_cost_patterns_spend(p, 4 * ((uint64_t)p->chunks + p->ranks)))
        return false;
    level = tt_alloc(p->chunks, sizeof *level);
    if (!level) {
        p->nomem = true;
        return false;
    }
    fill_values(e, level, ret);
    free(level);
    return true;
}

/* The largest value of the step function; sums count only after all weights of one theta have
 * joined. */
static uint64_t most_units(const struct eval *e)
{
    const struct steps *s = &e->units;
    uint64_t sum = s->base, most = sum;
    for (uint64_t i = 0; i < s->n; i++) {
        sum += s->at[i].weight;
        if (i + 1 == s->n || s->at[i + 1].from != s->at[i].from)
            most = sum > most ? sum : most;
    }
    return most;
}

/* Counts the places at which the rest is carried; with ret also evaluates them. */
static uint64_t rest_places(const struct eval *e, uint64_t *ret)
{
    uint64_t times = e->rest.base, v = 0, count = 0;
    for (uint64_t i = 0; i <= e->rest.n; i++) {
        uint64_t next = i < e->rest.n ? e->rest.at[i].from : e->p->ranks;
        if (times != 0) {
            count += next - v;
            if (ret)
                raise_places(e, v, next, ret);
        }
        v = next;
        times += i < e->rest.n ? e->rest.at[i].weight : 0;
    }
    return count;
}

static bool most_of_all(const struct eval *e, uint64_t *ret)
{
    uint64_t *values = tt_alloc(e->p->ranks, sizeof *values);
    bool ok = values && find_values(e, values);
    e->p->nomem |= !values;
    for (uint32_t v = 0; ok && v < e->p->ranks; v++)
        *ret = values[v] > *ret ? values[v] : *ret;
    free(values);
    return ok;
}

/* Chooses the cheaper way for the places of the rest: one by one, or all values at once. */
static bool find_most(const struct eval *e, uint64_t *ret)
{
    uint64_t work = e->p->rest ? e->nterms * rest_places(e, NULL) : 0;
    *ret = e->p->quantum * most_units(e);
    if (work > 4 * ((uint64_t)e->p->chunks + e->p->ranks))
        return most_of_all(e, ret);
    if (!tt_cost_patterns_spend(e->p, work))
        return false;
    if (work > 0)
        rest_places(e, ret);
    return true;
}

/* Is there enough work left for sorting? */
static bool may_sort(struct eval *e)
{
    uint64_t work = SORT_COST * e->npoints;
    return work <= MAX_ONE && tt_cost_patterns_spend(e->p, work);
}

bool tt_cost_pattern_most(struct tt_patterns *p, const struct tt_term *terms, uint32_t n,
                          uint64_t *ret_elems)
{
    struct eval e = {.p = p, .terms = terms, .nterms = n};
    uint64_t plain = (uint64_t)n * p->ranks, most = 0;
    bool ok;
    e.npoints = unroll(&e, NULL);
    if (plain <= SORT_COST * e.npoints) {
        ok = plain <= MAX_ONE && tt_cost_patterns_spend(p, plain);
        if (ok)
            raise_places(&e, 0, p->ranks, &most);
    } else {
        ok = may_sort(&e) && find_steps(&e) && find_most(&e, &most);
        free_steps(&e);
    }
    if (ok)
        *ret_elems = most;
    return ok;
}

bool tt_cost_pattern_values(struct tt_patterns *p, const struct tt_term *terms, uint32_t n,
                            uint64_t *ret_elems)
{
    struct eval e = {.p = p, .terms = terms, .nterms = n};
    e.npoints = unroll(&e, NULL);
    bool ok = may_sort(&e) && find_steps(&e) && find_values(&e, ret_elems);
    free_steps(&e);
    return ok;
}
