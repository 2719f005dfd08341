/* make.c - a policy from tensors, costs and options: checks, defaults, buckets and launches.
 *
 *     tensors -> fuse.c -> buckets -> order.c -> launches -> hash
 *
 * Options may leave fusion and order open; search.c then tries what there is, and keeps the policy
 * with the shortest predicted step. */
#include "policy/policy_int.h"

#include <assert.h>
#include <stdlib.h>

enum { MOST_TENSORS = 1 << 20, MOST_BUCKETS = 1 << 22 };
#define MIB ((uint64_t)1 << 20)

bool tt_policy_is_dear(enum tt_policy_kind k)
{
    return k == TT_POLICY_DEAR || k == TT_POLICY_DEAR_SHARDED;
}

bool tt_policy_crosses(enum tt_policy_kind k)
{
    return tt_policy_is_dear(k) || k == TT_POLICY_BYTESCHEDULER;
}

uint64_t tt_policy_update_ps(const struct tt_policy_costs *c, uint64_t bytes)
{
    return (uint64_t)((double)c->update_ps_per_mib * ((double)bytes / (double)MIB));
}

static uint64_t allreduce_cost(const struct tt_policy_costs *c, enum tt_policy_algo a,
                               uint64_t bytes)
{
    return c->cost(c->ctx, TUTTI_ALLREDUCE, a, bytes);
}

/* Of the three named algorithms; the first of equals. */
static enum tt_policy_algo cheapest(const struct tt_policy_costs *c, uint64_t bytes)
{
    enum tt_policy_algo best = TT_POLICY_RING;
    for (enum tt_policy_algo a = TT_POLICY_HALVING_DOUBLING; a <= TT_POLICY_RECURSIVE_DOUBLING; a++)
        if (allreduce_cost(c, a, bytes) < allreduce_cost(c, best, bytes))
            best = a;
    return best;
}

/* KIPS 2021 distinguishes convolutions and fully connected layers. Embeddings are large like the
 * latter, all other tensors small like the former. */
enum tt_policy_algo tt_policy_pick(const struct tt_policy_input *in, enum tt_tensor_kind kind,
                                   uint64_t bytes)
{
    if (in->o.kind == TT_POLICY_HYBRID_COST)
        return cheapest(in->costs, bytes);
    if (in->o.kind != TT_POLICY_HYBRID)
        return in->o.algo;
    if (kind == TT_KIND_FC || kind == TT_KIND_EMBEDDING)
        return TT_POLICY_RING;
    return in->o.recursive_doubling ? TT_POLICY_RECURSIVE_DOUBLING : TT_POLICY_HALVING_DOUBLING;
}

/* Dear always sends both phases; other policies get the cheaper of the two ways. */
uint64_t tt_policy_comm(const struct tt_policy_options *o, const struct tt_policy_costs *costs,
                        uint64_t bytes)
{
    if (o->kind == TT_POLICY_HYBRID || o->kind == TT_POLICY_HYBRID_COST)
        return allreduce_cost(costs, cheapest(costs, bytes), bytes);
    uint64_t whole = allreduce_cost(costs, o->algo, bytes);
    uint64_t scatter = costs->cost(costs->ctx, TUTTI_REDUCE_SCATTER, o->algo, bytes);
    uint64_t gather = costs->cost(costs->ctx, TUTTI_ALL_GATHER, o->algo, bytes);
    if (scatter >= TT_POLICY_MOST || gather >= TT_POLICY_MOST)
        return whole;
    return tt_policy_is_dear(o->kind) || scatter + gather < whole ? scatter + gather : whole;
}

/* ---- input ---- */

static bool has_times(const struct tt_policy_tensor *t, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (t[i].forward_ps > 0 || t[i].backward_ps > 0)
            return true;
    return false;
}

/* Layers start at 0, have no gaps and never decrease. */
static tutti_status check_tensor(const struct tt_policy_tensor *t, uint32_t i,
                                 struct tutti_error *err)
{
    uint32_t layer = i > 0 ? t[i - 1].layer : 0;
    if (t[i].elem_bytes == 0 || t[i].bytes == 0 || t[i].bytes % t[i].elem_bytes)
        return tt_fail(
            err, TUTTI_ERR_ARG,
            "tensor %u: %llu bytes are not a positive whole number of elements of %u bytes", i,
            (unsigned long long)t[i].bytes, t[i].elem_bytes);
    if ((unsigned)t[i].kind >= TT_KIND_COUNT)
        return tt_fail(err, TUTTI_ERR_ARG, "tensor %u: unknown kind %d", i, (int)t[i].kind);
    if (t[i].layer != layer && t[i].layer != layer + 1)
        return tt_fail(err, TUTTI_ERR_ARG, "tensor %u: layer %u does not follow layer %u", i,
                       t[i].layer, layer);
    return TUTTI_OK;
}

/* The sums stay below 2^60, so that no later addition can overflow. */
static tutti_status check_tensors(const struct tt_policy_tensor *t, uint32_t n,
                                  struct tutti_error *err)
{
    uint64_t bytes = 0, time = 0;
    if (n == 0 || n > MOST_TENSORS)
        return tt_fail(err, TUTTI_ERR_ARG, "%u tensors: there must be 1 to %d", n,
                       (int)MOST_TENSORS);
    for (uint32_t i = 0; i < n; i++) {
        tutti_status st = check_tensor(t, i, err);
        if (st)
            return st;
        if (t[i].bytes >= TT_POLICY_MOST - bytes || t[i].forward_ps >= TT_POLICY_MOST - time ||
            t[i].backward_ps >= TT_POLICY_MOST - time - t[i].forward_ps)
            return tt_fail(err, TUTTI_ERR_LIMIT, "tensor %u: bytes or times add up to 2^60 or more",
                           i);
        bytes += t[i].bytes;
        time += t[i].forward_ps + t[i].backward_ps;
    }
    return TUTTI_OK;
}

static enum tt_fusion default_fusion(const struct tt_policy_input *in)
{
    switch (in->o.kind) {
    case TT_POLICY_BUCKET:
        return TT_FUSION_THRESHOLD;
    case TT_POLICY_MGWFBP:
        return TT_FUSION_OPTIMAL;
    case TT_POLICY_DEAR:
    case TT_POLICY_DEAR_SHARDED:
        return has_times(in->t, in->n) ? TT_FUSION_SEARCH : TT_FUSION_THRESHOLD;
    default:
        return TT_FUSION_NONE;
    }
}

static void fill_defaults(struct tt_policy_input *in)
{
    struct tt_policy_options *o = &in->o;
    if (o->fusion == TT_FUSION_DEFAULT)
        o->fusion = default_fusion(in);
    if (o->threshold_bytes == 0)
        o->threshold_bytes = o->fusion == TT_FUSION_WAITING ? 64 * MIB : 25 * MIB;
    if (o->first_bytes == 0)
        o->first_bytes = MIB;
    if (o->nearby == 0)
        o->nearby = 4;
    if (o->cycle_ps == 0)
        o->cycle_ps = (uint64_t)5e9;
    if (o->partition_bytes == 0)
        o->partition_bytes = o->kind == TT_POLICY_BYTESCHEDULER ? 4 * MIB : UINT64_MAX;
    if (o->lookahead == 0)
        o->lookahead = 1;
    /* without times the model would have every gradient ready at once */
    if (o->order == TT_ORDER_BEST && !has_times(in->t, in->n))
        o->order = TT_ORDER_TWO_PHASE;
    if (!tt_policy_crosses(o->kind))
        o->order = TT_ORDER_TWO_PHASE;
    if (o->kind == TT_POLICY_SYNC) /* one all-reduce for each part (data type, group) */
        *o = (struct tt_policy_options){.kind = o->kind,
                                        .algo = o->algo,
                                        .fusion = TT_FUSION_THRESHOLD,
                                        .threshold_bytes = TT_POLICY_MOST,
                                        .first_bytes = TT_POLICY_MOST,
                                        .partition_bytes = UINT64_MAX,
                                        .order = TT_ORDER_TWO_PHASE};
}

/* ---- buckets ---- */

/* Bytes of a part when a tensor is cut in parts of at most `most` bytes: as few parts as possible,
 * all of equal size but the last. */
static uint64_t piece_bytes(const struct tt_policy_tensor *t, uint64_t most)
{
    assert(t->bytes > 0 && t->bytes % t->elem_bytes == 0);
    uint64_t room = most / t->elem_bytes ? most / t->elem_bytes : 1,
             elems = t->bytes / t->elem_bytes;
    uint64_t pieces = elems / room + (elems % room != 0);
    return (elems / pieces + (elems % pieces != 0)) * t->elem_bytes;
}

static tutti_status push_bucket(struct tt_vec *v, const struct tt_policy_bucket *b,
                                struct tutti_error *err)
{
    if (v->len >= MOST_BUCKETS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "more than %d buckets", (int)MOST_BUCKETS);
    return tt_vec_push(v, b, 1) ? TUTTI_OK : tt_fail_memory(err, "buckets");
}

/* Appends tensors first..last as one bucket, or a single large tensor in parts. */
static tutti_status add_bucket(const struct tt_policy_input *in, struct tt_vec *v, uint32_t first,
                               uint32_t last, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    struct tt_policy_bucket b = {
        .first = first, .last = last, .decoupled = tt_policy_is_dear(in->o.kind)};
    uint64_t all = 0;
    for (uint32_t i = first; i <= last; i++)
        all += in->t[i].bytes;
    uint64_t piece = first == last && all > in->o.partition_bytes
                         ? piece_bytes(&in->t[first], in->o.partition_bytes)
                         : all;
    for (; !st && b.offset_bytes < all; b.offset_bytes += b.bytes) {
        assert(piece > 0);
        b.bytes = all - b.offset_bytes < piece ? all - b.offset_bytes : piece;
        b.algo = tt_policy_pick(in, in->t[first].kind, b.bytes);
        st = push_bucket(v, &b, err);
    }
    return st;
}

/* A bucket ends before the next tensor that begins one. */
static tutti_status make_buckets(const struct tt_policy_input *in, struct tt_policy *p,
                                 struct tutti_error *err)
{
    struct tt_vec v = {.elem = sizeof(struct tt_policy_bucket)};
    bool *begins = tt_alloc(in->n, sizeof *begins);
    tutti_status st = begins ? tt_policy_fuse(in, begins, err) : tt_fail_memory(err, "buckets");
    for (uint32_t i = 0, first = 0; !st && i < in->n; i++) {
        if (i + 1 < in->n && !begins[i + 1])
            continue;
        st = add_bucket(in, &v, first, i, err);
        first = i + 1;
    }
    free(begins);
    if (st) {
        tt_vec_free(&v);
        return st;
    }
    assert(v.len > 0);
    p->buckets = v.data;
    p->nbuckets = (uint32_t)v.len;
    return TUTTI_OK;
}

/* ---- the policy ---- */

static uint64_t mix(uint64_t h, uint64_t v)
{
    return tt_mix64(h ^ tt_mix64(v + UINT64_C(0x9e3779b97f4a7c15)));
}

/* Times and costs are left out: what is launched must be equal, not why. */
static uint64_t hash_of(const struct tt_policy *p, const struct tt_policy_tensor *t)
{
    uint64_t h = mix(mix(p->options.kind, p->update), p->ntensors);
    for (uint32_t i = 0; i < p->ntensors; i++)
        h = mix(mix(mix(h, t[i].bytes), t[i].elem_bytes),
                (uint64_t)t[i].part << 8 | (uint64_t)t[i].kind);
    for (uint32_t i = 0; i < p->nbuckets; i++) {
        const struct tt_policy_bucket *b = &p->buckets[i];
        h = mix(mix(mix(h, (uint64_t)b->first << 32 | b->last), b->offset_bytes), b->bytes);
        h = mix(h, (uint64_t)b->algo << 1 | b->decoupled);
    }
    for (uint32_t i = 0; i < p->nlaunches; i++) {
        const struct tt_policy_launch *l = &p->launches[i];
        h = mix(mix(h, (uint64_t)l->bucket << 32 | (uint64_t)l->coll),
                (uint64_t)l->needs_launch << 32 | l->needs_forward);
    }
    return h;
}

static enum tt_policy_update update_of(enum tt_policy_kind k)
{
    if (k == TT_POLICY_DEAR_SHARDED)
        return TT_UPDATE_SHARD;
    return tt_policy_crosses(k) ? TT_UPDATE_FORWARD : TT_UPDATE_STEP;
}

tutti_status tt_policy_settle(const struct tt_policy_input *in, struct tt_policy **ret,
                              struct tutti_error *err)
{
    struct tt_policy *p = tt_zalloc(1, sizeof *p);
    if (!p)
        return tt_fail_memory(err, "policy");
    p->options = in->o;
    p->ntensors = in->n;
    p->wait_at_step = !tt_policy_crosses(in->o.kind);
    p->update = update_of(in->o.kind);
    tutti_status st = make_buckets(in, p, err);
    if (!st) {
        /* At most two launches per bucket: reduce-scatter and all-gather. */
        p->launches = tt_alloc((size_t)p->nbuckets * 2, sizeof *p->launches);
        st = p->launches ? tt_policy_launches(p, in, err) : tt_fail_memory(err, "launches");
    }
    if (st) {
        tt_policy_free(p);
        return st;
    }
    p->hash = hash_of(p, in->t);
    *ret = p;
    return TUTTI_OK;
}

tutti_status tt_policy_make(const struct tt_policy_options *o,
                            const struct tt_policy_tensor *tensors, uint32_t n,
                            const struct tt_policy_costs *costs, struct tt_policy **ret,
                            struct tutti_error *err)
{
    struct tt_policy_input in = {.o = *o, .t = tensors, .n = n, .costs = costs};
    assert((unsigned)o->kind < TT_POLICY_COUNT && (unsigned)o->fusion < TT_FUSION_COUNT &&
           costs->ranks > 0);
    tutti_status st = check_tensors(tensors, n, err);
    if (st)
        return st;
    fill_defaults(&in);
    return tt_policy_search(&in, o->partition_bytes == 0, ret, err);
}

void tt_policy_free(struct tt_policy *p)
{
    if (!p)
        return;
    free(p->buckets);
    free(p->launches);
    free(p);
}
