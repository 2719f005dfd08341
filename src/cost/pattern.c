/* pattern.c - sums of shifted windows of chunks, and their largest value over all shifts
 * (pattern.h defines them).
 *
 *     ring of 4 ranks, one chunk each; chunk 3 of rank 0 goes over the links 0->1 and 1->2.
 *     The link at place v then carries
 *         chunk 3+v (its own rank's message) and chunk 3+(v-1) = 2+v (the message of rank v-1):
 *         the window of chunks 2 and 3, shifted by v
 *
 * A window [f, f+l) is offset(f+l) - offset(f), two points. Over n neighbouring links each point
 * becomes a row of n points, m apart, whose sum is a difference of two values of T. Rows that
 * continue each other cancel where they meet: the p-1 messages of `direct` behind one port are a
 * single window. To see whether two patterns differ only in their place, the first term is moved
 * to 0 .. m-1; equal ones then share one evaluation (pattern_max.c), and a ring of 65,536 ranks
 * with 131,070 steps needs one. Invariant: the terms of a known pattern are sorted by `at`, all
 * different, none of weight 0, the first below m. */
#include "cost/pattern.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* Limit of work: evaluations of T, terms merged, terms stored; about a nanosecond each. */
#define MAX_WORK (UINT64_C(1) << 28)
enum { FIRST_SLOTS = 64 };

/* A pattern that was met before. */
struct known {
    size_t first; /* in terms */
    uint32_t n;
    bool done, declined;
    uint64_t hash, most; /* most: bytes, valid when done and not declined */
    uint64_t *values;    /* elements at each place; NULL: not asked for yet */
};

/* Fills T by its recurrence T(y+m) = T(y) + offset of chunk y; `turns` counts complete passes
 * over the chunks. */
static void fill_table(struct tt_patterns *p, const struct tt_bind *b, size_t n)
{
    uint64_t turns = 0;
    memset(p->table, 0, p->stride * sizeof *p->table);
    for (size_t y = 0, chunk = 0; y + p->stride < n; y++) {
        p->table[y + p->stride] =
            p->table[y] + turns * b->count + tt_sched_bind_offset(b, (uint32_t)chunk);
        if (++chunk == b->chunks) {
            chunk = 0;
            turns++;
        }
    }
}

tutti_status tt_cost_patterns_open(struct tt_patterns *p, const struct tt_bind *b, uint32_t ranks,
                                   struct tutti_error *err)
{
    assert(!b->prefix && b->chunks % ranks == 0);
    uint32_t stride = b->chunks / ranks;
    size_t n = 4 * (size_t)b->chunks + 2 * (size_t)stride + 1;
    *p = (struct tt_patterns){
        .ranks = ranks, .chunks = b->chunks, .stride = stride, .elem_bytes = b->elem_bytes};
    p->quantum = b->quantum;
    p->units = b->units;
    p->rest = b->count - b->quantum * b->units;
    p->terms.elem = sizeof(struct tt_term);
    p->known.elem = sizeof(struct known);
    p->nslots = FIRST_SLOTS;
    p->slots = tt_alloc(p->nslots, sizeof *p->slots);
    p->table = n <= UINT32_MAX ? tt_alloc(n, sizeof *p->table) : NULL;
    if (!p->slots || !p->table) {
        tt_cost_patterns_close(p);
        return tt_fail_memory(err, "table of chunk offsets");
    }
    memset(p->slots, 0xff, p->nslots * sizeof *p->slots);
    fill_table(p, b, n);
    return TUTTI_OK;
}

void tt_cost_patterns_close(struct tt_patterns *p)
{
    for (size_t i = 0; i < p->known.len; i++)
        free(((struct known *)p->known.data)[i].values);
    free(p->table);
    free(p->slots);
    tt_vec_free(&p->terms);
    tt_vec_free(&p->known);
    *p = (struct tt_patterns){0};
}

bool tt_cost_patterns_over(const struct tt_patterns *p)
{
    return p->nomem || p->work > MAX_WORK;
}

bool tt_cost_patterns_spend(struct tt_patterns *p, uint64_t work)
{
    if (__builtin_add_overflow(p->work, work, &p->work))
        p->work = UINT64_MAX;
    return !tt_cost_patterns_over(p);
}

/* ---- lists of terms ---- */

/* Adds windows of one length whose starts are n points, one stride apart, the first at `low`. */
static void add_rows(struct tt_patterns *p, struct tt_vec *terms, uint32_t low, uint32_t len,
                     const struct tt_pattern_places *at, uint64_t weight)
{
    uint32_t row = at->n * p->stride, r = at->resource;
    struct tt_term four[] = {{r, low, weight},
                             {r, low + row, 0 - weight},
                             {r, low + len, 0 - weight},
                             {r, low + len + row, weight}};
    if (!tt_vec_push(terms, four, countof(four)))
        p->nomem = true;
}

void tt_cost_terms_add(struct tt_patterns *p, struct tt_vec *terms,
                       const struct tt_pattern_places *at, const struct tt_span *s, uint64_t weight)
{
    assert(at->n > 0 && at->n <= p->ranks);
    /* the last place sees the window farthest back; whole turns change nothing */
    uint64_t back = (uint64_t)((at->first + (uint64_t)at->n - 1) % p->ranks) * p->stride;
    for (uint32_t i = 0; i < s->reps && !p->nomem; i++) {
        uint64_t first = (uint64_t)s->first + (uint64_t)i * s->stride;
        add_rows(p, terms, (uint32_t)((first + p->chunks - back) % p->chunks), s->len, at, weight);
    }
}

static int compare_terms(const void *pa, const void *pb)
{
    const struct tt_term *a = pa, *b = pb;
    if (a->resource != b->resource)
        return a->resource < b->resource ? -1 : 1;
    return a->at < b->at ? -1 : a->at > b->at;
}

/* Weights of equal places add up, modulo 2^64. */
void tt_cost_terms_join(struct tt_vec *terms)
{
    struct tt_term *t = terms->data;
    size_t n = 0;
    if (terms->len > 1)
        qsort(t, terms->len, sizeof *t, compare_terms);
    for (size_t i = 0, next; i < terms->len; i = next) {
        struct tt_term sum = t[i];
        for (next = i + 1; next < terms->len && compare_terms(&t[next], &sum) == 0; next++)
            sum.weight += t[next].weight;
        if (sum.weight != 0)
            t[n++] = sum;
    }
    terms->len = n;
}

void tt_cost_terms_merge(struct tt_patterns *p, struct tt_vec *sum, struct tt_pattern_ref ref,
                         int sign)
{
    assert(ref.id < p->known.len);
    const struct known *k = tt_vec_at(&p->known, ref.id);
    size_t i = sum->len, j = k->n, end = sum->len + k->n;
    if (!tt_cost_patterns_spend(p, end))
        return;
    if (k->n > 0 && !tt_vec_push(sum, NULL, k->n)) {
        p->nomem = true;
        return;
    }
    const struct tt_term *add = (const struct tt_term *)p->terms.data + k->first;
    struct tt_term *s = sum->data;
    size_t out = end;
    /* Merges from the end into the room just made: out >= i + j holds, so nothing unread is
     * overwritten. */
    while (i > 0 || j > 0) {
        uint32_t at = j > 0 ? add[j - 1].at + ref.shift : 0;
        struct tt_term term = {.at = at};
        if (i > 0 && (j == 0 || s[i - 1].at >= at))
            term = s[--i];
        if (j > 0 && term.at == at)
            term.weight += sign < 0 ? 0 - add[--j].weight : add[--j].weight;
        if (term.weight != 0)
            s[--out] = term;
    }
    if (end > out)
        memmove(s, s + out, (end - out) * sizeof *s);
    sum->len = end - out;
}

/* ---- known patterns ---- */

static uint64_t hash_terms(const struct tt_term *t, size_t n, uint32_t shift)
{
    uint64_t h = n;
    for (size_t i = 0; i < n; i++)
        h = tt_mix64(h ^ (t[i].at - shift)) + tt_mix64(t[i].weight + i);
    return h;
}

/* `shift` moves the terms to the normal form of known patterns. */
static bool same_terms(const struct tt_patterns *p, const struct known *k, const struct tt_term *t,
                       size_t n, uint32_t shift)
{
    const struct tt_term *mine = (const struct tt_term *)p->terms.data + k->first;
    if (k->n != n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (mine[i].at != t[i].at - shift || mine[i].weight != t[i].weight)
            return false;
    return true;
}

/* Open addressing with linear probing; there is always a free slot. */
static void insert_slot(const struct tt_patterns *p, uint32_t *slots, size_t nslots, uint32_t id)
{
    size_t i = ((const struct known *)p->known.data)[id].hash & (nslots - 1);
    assert((nslots & (nslots - 1)) == 0 && 2 * p->known.len <= nslots + 2);
    while (slots[i] != TT_NO_PATTERN)
        i = (i + 1) & (nslots - 1);
    slots[i] = id;
}

/* Keeps at most half of the slots in use. */
static void grow_slots(struct tt_patterns *p)
{
    if (2 * (p->known.len + 1) <= p->nslots)
        return;
    size_t n = 2 * p->nslots;
    uint32_t *slots = tt_alloc(n, sizeof *slots);
    if (!slots) {
        p->nomem = true;
        return;
    }
    memset(slots, 0xff, n * sizeof *slots);
    for (uint32_t id = 0; id < p->known.len; id++)
        insert_slot(p, slots, n, id);
    free(p->slots);
    p->slots = slots;
    p->nslots = n;
}

/* Stores a new pattern in normal form; TT_NO_PATTERN if there is no memory or no work left. */
static struct tt_pattern_ref pattern_learn(struct tt_patterns *p, const struct tt_term *t, size_t n,
                                           uint32_t shift, uint64_t hash)
{
    struct known k = {.first = p->terms.len, .n = (uint32_t)n, .hash = hash};
    struct tt_pattern_ref ref = {(uint32_t)p->known.len, shift};
    grow_slots(p);
    if (p->nomem || !tt_cost_patterns_spend(p, n))
        return (struct tt_pattern_ref){TT_NO_PATTERN, 0};
    struct tt_term *copy = n > 0 ? tt_vec_push(&p->terms, t, n) : NULL;
    if ((n > 0 && !copy) || !tt_vec_push(&p->known, &k, 1)) {
        p->nomem = true;
        return (struct tt_pattern_ref){TT_NO_PATTERN, 0};
    }
    for (size_t i = 0; i < n; i++) {
        copy[i].resource = 0;
        copy[i].at -= shift;
    }
    insert_slot(p, p->slots, p->nslots, ref.id);
    return ref;
}

struct tt_pattern_ref tt_cost_patterns_find(struct tt_patterns *p, const struct tt_term *terms,
                                            size_t n)
{
    assert(p->stride > 0 && (p->nslots & (p->nslots - 1)) == 0);
    uint32_t shift = n > 0 ? terms[0].at / p->stride * p->stride : 0;
    uint64_t hash = hash_terms(terms, n, shift);
    if (!tt_cost_patterns_spend(p, n))
        return (struct tt_pattern_ref){TT_NO_PATTERN, 0};
    for (size_t i = hash & (p->nslots - 1); p->slots[i] != TT_NO_PATTERN;
         i = (i + 1) & (p->nslots - 1)) {
        const struct known *k = tt_vec_at(&p->known, p->slots[i]);
        if (k->hash == hash && same_terms(p, k, terms, n, shift))
            return (struct tt_pattern_ref){p->slots[i], shift};
    }
    return pattern_learn(p, terms, n, shift, hash);
}

/* ---- values ---- */

bool tt_cost_patterns_max(struct tt_patterns *p, uint32_t id, uint64_t *ret_bytes)
{
    struct known *k = id == TT_NO_PATTERN ? NULL : tt_vec_at(&p->known, id);
    if (!k)
        return false;
    if (!k->done) {
        uint64_t elems = 0;
        k->declined = !tt_cost_pattern_most(p, (const struct tt_term *)p->terms.data + k->first,
                                            k->n, &elems);
        k->most = elems * p->elem_bytes;
        k->done = true;
    }
    if (!k->declined)
        *ret_bytes = k->most;
    return !k->declined;
}

/* Computes all values of a pattern when the first one is asked for. */
static bool know_values(struct tt_patterns *p, struct known *k)
{
    if (k->values || tt_cost_patterns_over(p))
        return k->values != NULL;
    k->values = tt_alloc(p->ranks, sizeof *k->values);
    if (!k->values) {
        p->nomem = true;
        return false;
    }
    if (tt_cost_pattern_values(p, (const struct tt_term *)p->terms.data + k->first, k->n,
                               k->values))
        return true;
    free(k->values);
    k->values = NULL;
    return false;
}

bool tt_cost_patterns_at(struct tt_patterns *p, struct tt_pattern_ref ref, uint32_t place,
                         uint64_t *ret_bytes)
{
    struct known *k = tt_vec_at(&p->known, ref.id);
    if (!know_values(p, k))
        return false;
    *ret_bytes = k->values[(place + (uint64_t)ref.shift / p->stride) % p->ranks] * p->elem_bytes;
    return true;
}
