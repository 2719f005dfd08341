/* freeze.c - the frozen schedule: handing over the builder's arrays, counting steps, hashing,
 * comparing, looking up, sharing.
 *
 * Freezing moves the arrays and shrinks them in place; nothing is copied, because a ring of 2,048
 * ranks is 740 MB of operations and must not need them twice. Each op and span is a struct of
 * fixed-width fields without padding, so hash and equality work on bytes (little-endian, asserted
 * below: the hash of a file must be the same everywhere).
 *
 *     op_start    0      3      5     8        slice of rank 1: ops 3 and 4
 *     ops         a b c  d e    f g h          op.span counts from span_start of the rank */
#include <assert.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched_int.h"

static_assert(sizeof(struct tt_op) == 20 && sizeof(struct tt_span) == 24,
              "hash and equality look at bytes");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "plan hashes are defined on little-endian fields");

struct tt_slice tt_sched_slice(const struct tt_sched *s, uint32_t rank)
{
    assert(rank >= s->first_rank && rank - s->first_rank < s->nslices);
    uint32_t i = rank - s->first_rank;
    return (struct tt_slice){
        .ops = s->ops + s->op_start[i],
        .nops = (size_t)(s->op_start[i + 1] - s->op_start[i]),
        .spans = s->spans + s->span_start[i],
        .nspans = (size_t)(s->span_start[i + 1] - s->span_start[i]),
    };
}

/* Run by the last user only. */
static void free_arrays(struct tt_sched *s)
{
    tt_sched_shape_free(&s->shape);
    free((void *)s->op_start);
    free((void *)s->span_start);
    free((void *)s->ops);
    free((void *)s->spans);
    free((void *)s->routes); /* one block: the links follow the routes */
    free(s->users);
}

void tt_sched_free(struct tt_sched *s)
{
    if (!s)
        return;
    /* acq_rel: the last user sees every other user's reads done before it frees the arrays. */
    if (!s->users || atomic_fetch_sub_explicit(s->users, 1, memory_order_acq_rel) == 1)
        free_arrays(s);
    free(s);
}

/* ---- routes ---- */

static int compare_routes(const void *pa, const void *pb)
{
    const struct tt_sched_route *a = pa, *b = pb;
    if (a->src != b->src)
        return a->src < b->src ? -1 : 1;
    if (a->dst != b->dst)
        return a->dst < b->dst ? -1 : 1;
    return a->channel < b->channel ? -1 : a->channel > b->channel;
}

const struct tt_sched_route *tt_sched_route(const struct tt_sched *s, uint32_t src, uint32_t dst,
                                            uint32_t channel)
{
    struct tt_sched_route key = {.src = src, .dst = dst, .channel = channel};
    if (s->nroutes == 0)
        return NULL;
    return bsearch(&key, s->routes, s->nroutes, sizeof key, compare_routes);
}

/* Copies routes and links into one block: the sorted routes, then all links. */
static tutti_status freeze_routes(struct tt_builder *b, struct tt_sched *s, struct tutti_error *err)
{
    size_t n = b->routes.len, nlinks = b->route_links.len;
    if (n == 0)
        return TUTTI_OK;
    if (n > UINT32_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%zu routes: at most 2^32 are accepted", n);
    struct tt_sched_route *routes = tt_alloc(1, n * sizeof *routes + nlinks * sizeof(uint32_t));
    if (!routes)
        return tt_fail_memory(err, "routes");
    uint32_t *links = (uint32_t *)(routes + n);
    memcpy(routes, b->routes.data, n * sizeof *routes);
    if (nlinks > 0)
        memcpy(links, b->route_links.data, nlinks * sizeof *links);
    for (size_t i = 0; i < n; i++) {
        routes[i].links = links;
        links += routes[i].nlinks;
    }
    assert(links == (uint32_t *)(routes + n) + nlinks);
    qsort(routes, n, sizeof *routes, compare_routes);
    s->routes = routes;
    s->nroutes = (uint32_t)n;
    for (size_t i = 1; i < n; i++)
        if (compare_routes(&routes[i - 1], &routes[i]) == 0)
            return tt_fail(err, TUTTI_ERR_ARG,
                           "two routes from rank %" PRIu32 " to rank %" PRIu32
                           " on channel %" PRIu32,
                           routes[i].src, routes[i].dst, routes[i].channel);
    return TUTTI_OK;
}

/* ---- freezing ---- */

/* Moves the array out of v at its true size. Never NULL on success: slices of an empty schedule
 * need a valid pointer too. */
static void *freeze_take(struct tt_vec *v)
{
    void *data = tt_resize(v->data, v->len ? v->len : 1, v->elem);
    if (!data)
        return NULL;
    *v = (struct tt_vec){.elem = v->elem};
    return data;
}

/* The sentinels at the end of both start arrays make the last slice an ordinary one. */
static tutti_status take_arrays(struct tt_builder *b, struct tt_sched *s, struct tutti_error *err)
{
    uint64_t nops = b->ops.len, nspans = b->spans.len;
    assert(b->op_start.len == b->nslices && b->span_start.len == b->nslices);
    if (!tt_vec_push(&b->op_start, &nops, 1) || !tt_vec_push(&b->span_start, &nspans, 1))
        return tt_fail_memory(err, "schedule");
    s->nops = nops;
    s->nspans = nspans;
    s->first_rank = b->first_rank;
    s->nslices = b->nslices;
    s->op_start = freeze_take(&b->op_start);
    s->span_start = freeze_take(&b->span_start);
    s->ops = freeze_take(&b->ops);
    s->spans = freeze_take(&b->spans);
    if (!s->op_start || !s->span_start || !s->ops || !s->spans)
        return tt_fail_memory(err, "schedule");
    return TUTTI_OK;
}

/* Sets nsteps, and how many steps hold a message. The builder admits no step beyond TT_MAX_STEPS,
 * so the bit set is small. */
static tutti_status count_steps(struct tt_sched *s, struct tutti_error *err)
{
    uint32_t last = 0;
    for (uint64_t i = 0; i < s->nops; i++)
        if (s->ops[i].step > last)
            last = s->ops[i].step;
    assert(last < TT_MAX_STEPS);
    s->nsteps = s->nops ? last + 1 : 0;
    uint64_t *seen = tt_zalloc(last / 64 + 1, sizeof *seen);
    if (!seen)
        return tt_fail_memory(err, "steps");
    for (uint64_t i = 0; i < s->nops; i++)
        if (s->ops[i].kind <= TT_OP_RECV_REDUCE)
            seen[s->ops[i].step / 64] |= UINT64_C(1) << s->ops[i].step % 64;
    for (uint32_t i = 0; i <= last / 64; i++)
        s->steps += (uint32_t)__builtin_popcountll(seen[i]);
    free(seen);
    return TUTTI_OK;
}

/* The user count of a schedule that is not shared yet. */
static _Atomic uint32_t *alone(void)
{
    _Atomic uint32_t *users = tt_alloc(1, sizeof *users);
    if (users)
        atomic_init(users, 1);
    return users;
}

/* The shape's arrays go to the schedule last: before that, abandoning the builder frees them. */
tutti_status tt_sched_build_freeze(struct tt_builder *b, struct tt_sched **ret,
                                   struct tutti_error *err)
{
    tutti_status st = b->status;
    struct tt_sched *s = NULL;
    if (st) {
        if (err)
            *err = b->err;
        goto out;
    }
    s = tt_zalloc(1, sizeof *s);
    if (!s) {
        st = tt_fail_memory(err, "schedule");
        goto out;
    }
    s->users = alone();
    st = s->users ? freeze_routes(b, s, err) : tt_fail_memory(err, "schedule");
    if (!st)
        st = take_arrays(b, s, err);
    if (!st)
        st = count_steps(s, err);
    if (st)
        goto out;
    s->shape = b->shape;
    b->shape.weights = NULL;
    b->shape.owner = NULL;
    s->hash = tt_sched_hash(s);
    *ret = s;
    s = NULL;
out:
    tt_sched_free(s);
    tt_sched_build_abandon(b);
    return st;
}

/* ---- hash and equality ---- */

/* `grid` is not part of it: files do not keep it. */
uint64_t tt_sched_shape_hash(const struct tt_shape *s)
{
    uint64_t facts[] = {
        (uint64_t)s->coll,  s->ranks,     s->root,
        s->chunks,          s->nbufs,     s->segments,
        s->weights != NULL, s->inplace,   s->owner != NULL,
        s->symmetric,       s->count,     (uint64_t)s->dtype,
        (uint64_t)s->redop, s->topo_hash,
    };
    uint64_t h = tt_hash_bytes(1, facts, sizeof facts);
    if (s->weights)
        h = tt_hash_bytes(h, s->weights, (size_t)s->chunks * sizeof *s->weights);
    if (s->owner)
        h = tt_hash_bytes(h, s->owner, (size_t)s->chunks * sizeof *s->owner);
    return h;
}

uint64_t tt_sched_hash(const struct tt_sched *s)
{
    uint64_t held[] = {s->first_rank, s->nslices, s->nroutes};
    uint64_t h = tt_hash_bytes(tt_sched_shape_hash(&s->shape), held, sizeof held);
    h = tt_hash_bytes(h, s->op_start, ((size_t)s->nslices + 1) * sizeof *s->op_start);
    h = tt_hash_bytes(h, s->ops, (size_t)s->nops * sizeof *s->ops);
    h = tt_hash_bytes(h, s->spans, (size_t)s->nspans * sizeof *s->spans);
    for (uint32_t i = 0; i < s->nroutes; i++) {
        const struct tt_sched_route *r = &s->routes[i];
        uint32_t facts[] = {r->src, r->dst, r->channel, r->nlinks};
        h = tt_hash_bytes(h, facts, sizeof facts);
        h = tt_hash_bytes(h, r->links, r->nlinks * sizeof *r->links);
    }
    return h;
}

/* memcmp must not get NULL, which an empty list may be. */
static bool same_bytes(const void *a, const void *b, size_t n)
{
    return n == 0 || memcmp(a, b, n) == 0;
}

static bool same_list(const uint32_t *a, const uint32_t *b, size_t n)
{
    return (!a && !b) || (a && b && same_bytes(a, b, n * sizeof *a));
}

static bool same_shape(const struct tt_shape *a, const struct tt_shape *b)
{
    return a->coll == b->coll && a->ranks == b->ranks && a->root == b->root &&
           a->chunks == b->chunks && a->nbufs == b->nbufs && a->segments == b->segments &&
           a->inplace == b->inplace && a->symmetric == b->symmetric && a->count == b->count &&
           a->dtype == b->dtype && a->redop == b->redop && a->topo_hash == b->topo_hash &&
           tt_streq(a->algo, b->algo) && tt_streq(a->options, b->options) &&
           same_list(a->weights, b->weights, a->chunks) && same_list(a->owner, b->owner, a->chunks);
}

static bool same_routes(const struct tt_sched *a, const struct tt_sched *b)
{
    if (a->nroutes != b->nroutes)
        return false;
    for (uint32_t i = 0; i < a->nroutes; i++) {
        const struct tt_sched_route *p = &a->routes[i], *q = &b->routes[i];
        if (compare_routes(p, q) != 0 || p->nlinks != q->nlinks ||
            !same_bytes(p->links, q->links, p->nlinks * sizeof *p->links))
            return false;
    }
    return true;
}

/* By content: the hash is not trusted to decide. */
bool tt_sched_equal(const struct tt_sched *a, const struct tt_sched *b)
{
    if (!same_shape(&a->shape, &b->shape) || a->first_rank != b->first_rank ||
        a->nslices != b->nslices || a->nops != b->nops || a->nspans != b->nspans)
        return false;
    size_t starts = ((size_t)a->nslices + 1) * sizeof *a->op_start;
    return same_bytes(a->op_start, b->op_start, starts) &&
           same_bytes(a->span_start, b->span_start, starts) &&
           same_bytes(a->ops, b->ops, (size_t)a->nops * sizeof *a->ops) &&
           same_bytes(a->spans, b->spans, (size_t)a->nspans * sizeof *a->spans) &&
           same_routes(a, b);
}

/* ---- sharing ---- */

/* The options' text is not hashed, so that it may differ. */
static bool made_for_same(const struct tt_shape *a, const struct tt_shape *b)
{
    return a->segments == b->segments && a->count == b->count && a->dtype == b->dtype &&
           a->redop == b->redop;
}

tutti_status tt_sched_share(const struct tt_sched *s, const struct tt_shape *made_for,
                            struct tt_sched **ret, struct tutti_error *err)
{
    struct tt_sched *copy = tt_alloc(1, sizeof *copy);
    assert(s->users);
    if (!copy)
        return tt_fail_memory(err, "schedule");
    *copy = *s;
    if (made_for) {
        struct tt_shape *shape = &copy->shape;
        memcpy(shape->options, made_for->options, sizeof shape->options);
        shape->segments = made_for->segments;
        shape->count = made_for->count;
        shape->dtype = made_for->dtype;
        shape->redop = made_for->redop;
        if (!made_for_same(shape, &s->shape))
            copy->hash = tt_sched_hash(copy);
    }
    /* Relaxed: the caller holds s, so the count cannot reach zero meanwhile. */
    atomic_fetch_add_explicit(s->users, 1, memory_order_relaxed);
    *ret = copy;
    return TUTTI_OK;
}
