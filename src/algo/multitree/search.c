/* search.c - one turn of one tree: which rank can this member reach, and over which free links?
 *
 * In a switchless network the answer is the first neighbour with a free link that is not in the
 * tree. Through switches it is a breadth-first search over free links: first the ranks on the
 * sender's own switch, then those of the nearest switches. A switch with ranks is not passed (its
 * own ranks will be members soon and go on from there, which keeps its links free for them); one
 * without is.
 *
 *     0 1   2 3       0 asks, 1 is a member: s0 has no rank left -> spine x -> s1: rank 2,
 *                     by 0-s0 s0-x x-s1 s1-2.
 *      s0   s1        s0-x is used up now: 1 takes spine y.
 *       |\ /|
 *       |/ \|         Within a step slots only get fewer and trees only larger: an exhausted switch
 *       x   y         stays exhausted for this tree and step. It is remembered (`spent`) and not
 *                     searched again.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "algo/multitree/multitree.h"

enum { NONE = UINT32_MAX };

tutti_status tt_multitree_step_open(const struct tt_multitree_net *n, struct tt_multitree_step *ret,
                                    struct tutti_error *err)
{
    size_t arcs = 2 * (size_t)n->t->nlinks + 1, switches = n->t->switches;
    struct tt_multitree_step s = {.n = n};
    s.slots = tt_alloc(arcs, sizeof *s.slots);
    s.inject = tt_alloc(n->ranks, sizeof *s.inject);
    s.eject = tt_alloc(n->ranks, sizeof *s.eject);
    s.may_get = tt_alloc(n->words, sizeof *s.may_get);
    s.may_put = tt_alloc(n->words, sizeof *s.may_put);
    s.members = tt_zalloc((size_t)n->words * n->ranks, sizeof *s.members);
    s.spent = tt_zalloc(switches * n->ranks + 1, sizeof *s.spent);
    s.queue = tt_alloc(switches + 1, sizeof *s.queue);
    s.via = tt_alloc(switches + 1, sizeof *s.via);
    s.seen = tt_zalloc(switches + 1, sizeof *s.seen);
    s.path = tt_alloc(switches + 2, sizeof *s.path);
    *ret = s;
    if (s.slots && s.inject && s.eject && s.may_get && s.may_put && s.members && s.spent &&
        s.queue && s.via && s.seen && s.path) {
        memcpy(s.slots, n->slots, 2 * (size_t)n->t->nlinks * sizeof *s.slots);
        for (uint32_t r = 0; r < n->ranks; r++)
            s.members[(size_t)r * n->words + r / 64] |= UINT64_C(1) << r % 64;
        return TUTTI_OK;
    }
    tt_multitree_step_close(ret);
    return tt_fail_memory(err, "growing trees");
}

void tt_multitree_step_close(struct tt_multitree_step *s)
{
    free(s->slots);
    free(s->inject);
    free(s->eject);
    free(s->may_get);
    free(s->may_put);
    free(s->members);
    free(s->spent);
    free(s->queue);
    free(s->via);
    free(s->seen);
    free(s->path);
    *s = (struct tt_multitree_step){0};
}

/* The bit set of ranks whose amount is not 0. */
static void search_fill(uint64_t *set, const uint32_t *amount, uint32_t n)
{
    memset(set, 0, (n + 63) / 64 * sizeof *set);
    for (uint32_t r = 0; r < n; r++)
        set[r / 64] |= (uint64_t)(amount[r] > 0) << r % 64;
}

/* Only slots that the last step used are restored: most links of a large network are untouched. A
 * new era makes all marks of `spent` outdated at once. */
void tt_multitree_step_begin(struct tt_multitree_step *s, uint32_t number, const uint32_t *used,
                             size_t nused)
{
    const struct tt_multitree_net *n = s->n;
    s->number = number;
    s->reach = n->once ? TT_MULTITREE_NEW : TT_MULTITREE_ANY;
    s->era += 2;
    for (size_t i = 0; i < nused; i++) {
        uint32_t slot = tt_multitree_slot(n->t, used[i]);
        s->slots[slot] = n->slots[slot];
    }
    memcpy(s->inject, n->inject, n->ranks * sizeof *s->inject);
    memcpy(s->eject, n->eject, n->ranks * sizeof *s->eject);
    search_fill(s->may_get, s->eject, n->ranks);
    search_fill(s->may_put, s->inject, n->ranks);
    s->senders = 0;
    for (uint32_t w = 0; w < n->words; w++)
        s->senders += (uint32_t)__builtin_popcountll(s->may_put[w]);
}

void tt_multitree_step_widen(struct tt_multitree_step *s)
{
    s->reach++;
    s->era += 2;
}

/* A free link from v to neighbour h (neighbours of wide vertices are in ascending order); NONE when
 * all are used up. */
static uint32_t link_to(const struct tt_multitree_step *s, uint32_t v, uint32_t h)
{
    const struct tt_multitree_net *n = s->n;
    uint32_t lo = n->start[v], hi = n->inner[v];
    while (lo < hi) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (n->head[mid] < h)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < n->inner[v] && n->head[lo] == h; lo++)
        if (s->slots[n->slot[lo]] > 0)
            return n->link[lo];
    return NONE;
}

/* The first rank among bits `set` of word w that v has a free link to. */
static uint32_t search_pick(const struct tt_multitree_step *s, uint32_t v, uint32_t w, uint64_t set,
                            uint32_t *ret_link)
{
    for (; set; set &= set - 1) {
        uint32_t h = 64 * w + (uint32_t)__builtin_ctzll(set);
        *ret_link = link_to(s, v, h);
        if (*ret_link != NONE)
            return h;
    }
    return NONE;
}

/* A neighbouring rank of the wide vertex v that is not in the tree: by words of 64, from number
 * `from` on and around. The word of `from` is visited twice: its upper part first, the lower last.
 */
static uint32_t find_wide(const struct tt_multitree_step *s, uint32_t tree, uint32_t v,
                          uint32_t from, uint32_t *ret_link)
{
    const struct tt_multitree_net *n = s->n;
    const uint64_t *hosts = n->hosts + (size_t)n->wide[v] * n->words,
                   *in = s->members + (size_t)tree * n->words;
    uint32_t first = n->head[n->start[v]] / 64, last = n->head[n->inner[v] - 1] / 64,
             words = last - first + 1;
    uint32_t at = from / 64 >= first && from / 64 <= last ? from / 64 : first;
    uint64_t above = at == from / 64 ? ~UINT64_C(0) << from % 64 : ~UINT64_C(0);
    for (uint32_t i = 0; i <= words; i++) {
        uint32_t w = first + (at - first + i) % words;
        uint64_t part = i == 0 ? above : i == words ? ~above : ~UINT64_C(0);
        uint32_t h = search_pick(s, v, w, hosts[w] & s->may_get[w] & ~in[w] & part, ret_link);
        if (h != NONE)
            return h;
    }
    return NONE;
}

/* The same for a rank with few neighbours, in their own order. */
static uint32_t find_narrow(struct tt_multitree_step *s, uint32_t tree, uint32_t v,
                            uint32_t *ret_link)
{
    const struct tt_multitree_net *n = s->n;
    bool around = true;
    for (uint32_t k = n->start[v]; k < n->inner[v]; k++) {
        uint32_t h = n->head[k];
        if (tt_multitree_has(s, tree, h))
            continue;
        around = false;
        if (s->slots[n->slot[k]] > 0 && s->eject[h] > 0) {
            *ret_link = n->link[k];
            return h;
        }
    }
    s->surrounded = around && n->inner[v] == n->start[v + 1];
    return NONE;
}

/* ---- through switches ---- */

static uint32_t *search_spent(struct tt_multitree_step *s, uint32_t tree, uint32_t sw)
{
    return &s->spent[(size_t)tree * s->n->t->switches + sw];
}

/* Is the switch known to lead nowhere? One that the search passes through (the parent's own, or one
 * without ranks) counts only when everything beyond it is exhausted too. */
static bool is_spent(struct tt_multitree_step *s, uint32_t tree, uint32_t sw, bool own)
{
    uint32_t mark = *search_spent(s, tree, sw);
    bool passed = own || s->n->wide[s->n->ranks + sw] == NONE;
    return passed ? mark == s->era + 1 : mark >= s->era;
}

/* The first of v's switches after the one at which the search began, so that senders of different
 * switches prefer different ones. */
static uint32_t turned(const struct tt_multitree_step *s, uint32_t v)
{
    const struct tt_multitree_net *n = s->n;
    uint32_t k = n->inner[v];
    if (n->rank_order || v < n->ranks)
        return k;
    while (k < n->start[v + 1] && n->head[k] <= n->ranks + s->queue[0])
        k++;
    return k < n->start[v + 1] ? k : n->inner[v];
}

/* Appends the switches to which v has free links to the queue of length `len`; returns the new
 * length. */
static uint32_t search_enqueue(struct tt_multitree_step *s, uint32_t tree, uint32_t v, uint32_t len)
{
    const struct tt_multitree_net *n = s->n;
    uint32_t first = turned(s, v), from = n->inner[v], many = n->start[v + 1] - from;
    for (uint32_t i = 0; i < many; i++) {
        uint32_t k = first + i < n->start[v + 1] ? first + i : first + i - many;
        uint32_t sw = n->head[k] - n->ranks;
        if (s->seen[sw] == s->stamp || s->slots[n->slot[k]] == 0 ||
            is_spent(s, tree, sw, v < n->ranks))
            continue;
        assert(n->head[k] >= n->ranks && len < n->t->switches);
        s->seen[sw] = s->stamp;
        s->via[sw] = n->link[k];
        s->queue[len++] = sw;
    }
    return len;
}

/* Writes the path: followed back from the last link, then reversed. */
static void trace(struct tt_multitree_step *s, uint32_t link)
{
    const struct tt_topo *t = s->n->t;
    uint32_t len = 0;
    for (;;) {
        uint32_t tail = link & 1 ? t->links[link / 2].b : t->links[link / 2].a;
        assert(link != NONE && len < t->switches + 2);
        s->path[len++] = link;
        if (tail < t->ranks)
            break;
        link = s->via[tail - t->ranks];
    }
    for (uint32_t i = 0; i < len / 2; i++) {
        uint32_t keep = s->path[i];
        s->path[i] = s->path[len - 1 - i];
        s->path[len - 1 - i] = keep;
    }
    s->npath = len;
}

/* Is a rank of this switch in the tree? */
static bool search_entered(const struct tt_multitree_step *s, uint32_t tree, uint32_t v)
{
    const struct tt_multitree_net *n = s->n;
    const uint64_t *hosts = n->hosts + (size_t)n->wide[v] * n->words,
                   *in = s->members + (size_t)tree * n->words;
    for (uint32_t w = n->head[n->start[v]] / 64; w <= n->head[n->inner[v] - 1] / 64; w++)
        if (hosts[w] & in[w])
            return true;
    return false;
}

/* May a child be on this switch? */
static bool reaches(const struct tt_multitree_step *s, uint32_t tree, uint32_t v, bool own)
{
    if (s->n->wide[v] == NONE || s->reach == TT_MULTITREE_ANY)
        return s->n->wide[v] != NONE;
    return s->reach == TT_MULTITREE_OWN ? own : !own && !search_entered(s, tree, v);
}

/* Invariant: no switch before queue[i] has a rank to offer; the first `own` of the queue are the
 * parent's own switches. */
static uint32_t find_switched(struct tt_multitree_step *s, uint32_t tree, uint32_t parent)
{
    const struct tt_multitree_net *n = s->n;
    uint32_t from = n->rank_order || parent + 1 == n->ranks ? 0 : parent + 1, link = NONE;
    s->stamp++;
    uint32_t own = search_enqueue(s, tree, parent, 0), len = own;
    for (uint32_t i = 0; i < len; i++) {
        uint32_t sw = s->queue[i], v = n->ranks + sw, child = NONE;
        if (reaches(s, tree, v, i < own))
            child = find_wide(s, tree, v, from, &link);
        if (child != NONE) {
            trace(s, link);
            return child;
        }
        if (s->reach != TT_MULTITREE_OWN && (i < own || n->wide[v] == NONE))
            len = search_enqueue(s, tree, v, len);
    }
    for (uint32_t i = 0; i < len; i++)
        *search_spent(s, tree, s->queue[i]) =
            s->era + (i < own || n->wide[n->ranks + s->queue[i]] == NONE);
    return NONE;
}

/* Neighbouring ranks come before switches: one link instead of several. */
uint32_t tt_multitree_find(struct tt_multitree_step *s, uint32_t tree, uint32_t parent)
{
    const struct tt_multitree_net *n = s->n;
    uint32_t link = NONE, child = NONE;
    s->surrounded = false;
    if (n->inner[parent] > n->start[parent])
        child = n->wide[parent] == NONE
                    ? find_narrow(s, tree, parent, &link)
                    : find_wide(s, tree, parent, parent + 1 == n->ranks ? 0 : parent + 1, &link);
    if (child != NONE) {
        s->path[0] = link;
        s->npath = 1;
        return child;
    }
    return n->inner[parent] < n->start[parent + 1] ? find_switched(s, tree, parent) : NONE;
}

void tt_multitree_take(struct tt_multitree_step *s, uint32_t tree, uint32_t parent, uint32_t child)
{
    for (uint32_t i = 0; i < s->npath; i++)
        s->slots[tt_multitree_slot(s->n->t, s->path[i])]--;
    assert(s->npath > 0 && s->inject[parent] > 0 && s->eject[child] > 0);
    assert(!tt_multitree_has(s, tree, child));
    if (--s->inject[parent] == 0) {
        s->may_put[parent / 64] &= ~(UINT64_C(1) << parent % 64);
        s->senders--;
    }
    if (--s->eject[child] == 0)
        s->may_get[child / 64] &= ~(UINT64_C(1) << child % 64);
    s->members[(size_t)tree * s->n->words + child / 64] |= UINT64_C(1) << child % 64;
}
