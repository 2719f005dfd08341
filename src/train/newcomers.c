/* newcomers.c - elastic trainers: a rank that comes gets the policy, the optimizer's numbers and
 * state, the parameters and the caller's bytes of the ranks that were there, the members.
 *
 * Everything is broadcast, so members receive what they have already. Arrays travel in pieces, from
 * all members in turn, so that no member's link carries everything:
 *
 *     pieces        0   1   2   3   4   5  ...
 *     from member   0   1   2   0   1   2
 *
 * Buckets and launches stay as they are when ranks come and go: callers have views into buckets,
 * and have handed over parts of a step. */
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

enum { PIECE_BYTES = 4 << 20 };

/* Numbers that newcomers need, besides arrays. */
struct note {
    uint64_t steps, hash, groups;
    double norm, scale;
};

/* The first member from rank r on, in a circle: there is at least one. */
static uint32_t member_from(const struct tt_trainer *t, const struct tt_train_standing *all,
                            uint32_t r)
{
    for (r %= t->ranks; !all[r].member;)
        r = (r + 1) % t->ranks;
    return r;
}

tutti_status tt_train_share_policy(struct tt_trainer *t, const struct tt_train_standing *all,
                                   struct tutti_error *err)
{
    struct tt_policy p = t->elastic.member ? *t->policy : (struct tt_policy){0};
    uint32_t root = member_from(t, all, 0), newcomers = 0;
    for (uint32_t r = 0; r < t->ranks; r++)
        newcomers += !all[r].member;
    if (!newcomers)
        return TUTTI_OK;
    tutti_status st = tt_train_hand(t, root, &p, sizeof p, err);
    if (!st && p.ntensors != t->ntensors)
        st = tt_fail(err, TUTTI_ERR_DIFFERS, "rank %u has planned for %u tensors, not %u", root,
                     p.ntensors, t->ntensors);
    if (st)
        return st;
    p.buckets = tt_alloc(p.nbuckets, sizeof *p.buckets);
    p.launches = tt_alloc(p.nlaunches, sizeof *p.launches);
    struct tt_policy *own = tt_alloc(1, sizeof *own);
    if (!p.buckets || !p.launches || !own)
        st = tt_fail_memory(err, "policy");
    else if (t->elastic.member) {
        memcpy(p.buckets, t->policy->buckets, p.nbuckets * sizeof *p.buckets);
        memcpy(p.launches, t->policy->launches, p.nlaunches * sizeof *p.launches);
    }
    if (!st)
        st = tt_train_hand(t, root, p.buckets, p.nbuckets * sizeof *p.buckets, err);
    if (!st)
        st = tt_train_hand(t, root, p.launches, p.nlaunches * sizeof *p.launches, err);
    if (st || t->elastic.member) {
        free(p.buckets);
        free(p.launches);
        free(own);
        return st;
    }
    *own = p;
    t->policy = own;
    return TUTTI_OK;
}

/* Steps, values of the groups, how often each tensor was updated. */
static tutti_status hand_numbers(struct tt_trainer *t, uint32_t root, struct note *n,
                                 struct tutti_error *err)
{
    bool came = !t->elastic.member;
    if (t->rank == root)
        *n = (struct note){.steps = t->elastic.bound,
                           .hash = t->elastic.hash,
                           .groups = t->ngroups,
                           .norm = t->norm,
                           .scale = t->next_scale};
    tutti_status st = tt_train_hand(t, root, n, sizeof *n, err);
    struct tt_train_group *groups = st ? NULL : tt_zalloc(n->groups, sizeof *groups);
    uint64_t *updates = st ? NULL : tt_zalloc(t->ntensors, sizeof *updates);
    if (!st && (!groups || !updates))
        st = tt_fail_memory(err, "numbers");
    if (!st && t->rank == root)
        memcpy(groups, t->next_groups, n->groups * sizeof *groups);
    /* A member that has begun the next step has counted it. */
    for (uint32_t i = 0; !st && i < t->ntensors; i++)
        updates[i] = t->tensors[i].updates - (t->steps > t->elastic.bound);
    if (!st)
        st = tt_train_hand(t, root, groups, n->groups * sizeof *groups, err);
    if (!st)
        st = tt_train_hand(t, root, updates, t->ntensors * sizeof *updates, err);
    for (uint32_t i = 0; !st && came && i < t->ntensors; i++)
        t->tensors[i].updates = updates[i];
    for (size_t g = 0; !st && came && g < n->groups && g < t->ngroups; g++)
        t->groups[g] = t->next_groups[g] = groups[g];
    free(groups);
    free(updates);
    return st;
}

/* The bytes that `save` writes on a member, for `load` on newcomers. */
static tutti_status hand_callers(struct tt_trainer *t, uint32_t root, struct tutti_error *err)
{
    const struct tt_train_options *o = &t->options;
    uint64_t bytes = t->rank == root && o->save ? o->save(o->ctx, NULL, 0) : 0;
    tutti_status st = tt_train_hand(t, root, &bytes, sizeof bytes, err);
    if (st || !bytes)
        return st;
    char *data = tt_zalloc(bytes, 1);
    if (!data)
        return tt_fail_memory(err, "the caller's bytes");
    if (t->rank == root)
        o->save(o->ctx, data, bytes);
    st = tt_train_hand(t, root, data, bytes, err);
    if (!st && !t->elastic.member && o->load)
        o->load(o->ctx, data, bytes);
    free(data);
    return st;
}

/* One array; *turn is the rank after the one that gave the last piece. */
static tutti_status hand_array(struct tt_trainer *t, const struct tt_train_standing *all,
                               uint32_t *turn, char *data, size_t bytes, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    for (size_t at = 0, n; !st && at < bytes; at += n) {
        uint32_t giver = member_from(t, all, *turn);
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        st = tt_train_hand(t, giver, data + at, n, err);
        *turn = giver + 1;
    }
    return st;
}

static tutti_status hand_arrays(struct tt_trainer *t, const struct tt_train_standing *all,
                                struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    uint32_t turn = 0;
    for (uint32_t i = 0; !st && i < t->ntensors; i++) {
        struct tt_tensor *x = &t->tensors[i];
        st = hand_array(t, all, &turn, x->param, x->v.count * tt_train_param_each(x), err);
        if (x->v.param && x->param != x->v.param && !t->elastic.member && !st)
            memcpy(x->v.param, x->param, tt_train_bytes(x));
        for (uint32_t s = 0; !st && s < TT_STATES && !tt_train_sharded(t); s++)
            if (t->state[s] && (s != TT_STATE_MASTER || (tt_train_half(x->v.dtype) && !x->v.wide)))
                st = hand_array(t, all, &turn, t->state[s] + x->state_at,
                                x->v.count * tt_train_state_each(x->v.dtype), err);
    }
    return st;
}

/* All members have done the same steps by now, and have updated everything. */
tutti_status tt_train_introduce(struct tt_trainer *t, const struct tt_train_standing *all,
                                struct tutti_error *err)
{
    struct note n = {0};
    uint32_t root = member_from(t, all, 0);
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; r < t->ranks; r++)
        if (all[r].member && !all[r].between && all[r].steps == t->elastic.bound)
            return tt_fail(err, TUTTI_ERR_ARG,
                           "newcomers came while rank %u was in step %llu: call "
                           "tutti_trainer_flush before tutti_comm_admit",
                           r, (unsigned long long)t->elastic.bound);
    if (t->elastic.member && t->steps == t->elastic.bound) {
        st = tt_train_settle_all(t);
        tt_train_hash_step(t);
    }
    if (!st)
        st = hand_numbers(t, root, &n, err);
    if (!st)
        st = hand_callers(t, root, err);
    if (!st)
        st = hand_arrays(t, all, err);
    if (st || t->elastic.member)
        return st;
    t->steps = t->elastic.hashed = n.steps;
    t->elastic.bound = n.steps;
    t->elastic.hash = n.hash;
    t->norm = n.norm;
    t->next_scale = n.scale;
    return TUTTI_OK;
}
