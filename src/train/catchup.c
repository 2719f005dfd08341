/* catchup.c - elastic trainers: whoever is behind or new gets what the others have.
 *
 * A death interrupts a step at some bucket, another one on each rank. A bucket's mean is final as
 * soon as one rank that lives has it: its caller may already compute with it. So every rank says
 * which means it has; what some rank has all others get, and only what no rank has is reduced
 * again, with everybody's own gradients (docs/how/membership.md has the argument).
 *
 *                   buckets of step 7
 *     rank 0        0 1 2 . .       `.` not here        0 1 2 come from ranks 0 and 1 in turn,
 *     rank 1        0 1 . . .                           3 4 are reduced again by those who live
 *
 * Newcomers get parameters and the optimizer's state of all members, by broadcasts:
 *
 *     pieces        0   1   2   3   4   5  ...
 *     from member   0   1   2   0   1   2
 *
 * Where the state is sharded it moves to other ranks with every change (shares.c). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

enum { PIECE_BYTES = 4 << 20 };

/* What the ranks are to each other, equal on all of them. */
struct muster {
    const struct tt_standing *all;
    uint64_t open; /* the step that was interrupted; 0: none */
    uint32_t *members, nmembers;
    char *has;      /* of each rank, each bucket and the gate: 1 */
    uint32_t nhas;  /* of one rank */
    uint32_t turns; /* taken so far */
};

/* Numbers that newcomers need, besides arrays. */
struct note {
    uint64_t steps, hash, groups, caller_bytes;
    double norm, scale;
};

tutti_status tt_train_hand(struct tt_trainer *t, uint32_t root, void *data, size_t bytes,
                           struct tutti_error *err)
{
    struct tt_call call = {.coll = TUTTI_BROADCAST,
                           .count = bytes,
                           .dtype = TUTTI_U8,
                           .root = root,
                           .why = TT_WHY_TRAINER};
    void *unwanted = data || !bytes ? NULL : malloc(bytes);
    if (!data && !unwanted && bytes)
        return tt_fail_memory(err, "a message");
    call.in = call.out = data ? data : unwanted;
    tutti_status st = bytes ? tt_comm_run(t->comm, &call) : TUTTI_OK;
    if (st)
        *err = *tt_comm_last_error(t->comm);
    free(unwanted);
    return st;
}

/* ---- standings ---- */

tutti_status tt_train_stand(struct tt_trainer *t, struct tt_standing **ret, struct tutti_error *err)
{
    const struct tt_elastic *e = &t->elastic;
    struct tt_standing mine = {.member = e->member}, *all = tt_zalloc(t->ranks, sizeof *all);
    if (!all)
        return tt_fail_memory(err, "standings");
    if (e->member)
        mine = (struct tt_standing){.member = true,
                                    .steps = t->steps,
                                    .done = tt_train_all_done(t),
                                    .between = !atomic_load(&t->active),
                                    .hashed = e->hashed,
                                    .hash = e->hash,
                                    .share = e->now.rank,
                                    .shares = e->now.ranks,
                                    .made = e->now.made,
                                    .past_share = e->past.rank,
                                    .past_shares = e->past.ranks};
    tutti_status st = tt_train_exchange(t, &mine, sizeof mine, all, err);
    if (st)
        free(all);
    else
        *ret = all;
    return st;
}

/* Members whose hashes are of the same steps must have the same. */
static tutti_status compare_hashes(struct tt_trainer *t, const struct muster *m,
                                   struct tutti_error *err)
{
    uint64_t most = 0, hash = 0, *cards = tt_alloc(t->ranks, 2 * sizeof *cards);
    if (!cards)
        return tt_fail_memory(err, "fingerprints");
    for (uint32_t i = m->nmembers; i-- > 0;) {
        const struct tt_standing *s = &m->all[m->members[i]];
        hash = s->hashed >= most ? s->hash : hash;
        most = s->hashed >= most ? s->hashed : most;
    }
    for (uint32_t r = 0; r < t->ranks; r++) {
        bool counts = m->all[r].member && m->all[r].hashed == most;
        cards[2 * r] = most;
        cards[2 * r + 1] = counts ? m->all[r].hash : hash;
    }
    tutti_status st = tt_train_compare(t, cards, err);
    free(cards);
    return st;
}

/* The interrupted step is the lowest that some member has begun and not all of whose launches have
 * ended there. A member may be one step ahead, but then it has all of it, and no launch of the next
 * step: the check, which comes first, ends on no rank before all have begun the step. */
static tutti_status make_muster(struct tt_trainer *t, const struct tt_standing *all,
                                struct muster *m, struct tutti_error *err)
{
    *m = (struct muster){.all = all, .nhas = t->policy->nbuckets + 1};
    m->members = tt_alloc(t->ranks, sizeof *m->members);
    m->has = tt_zalloc(t->ranks, m->nhas);
    if (!m->members || !m->has)
        return tt_fail_memory(err, "standings");
    for (uint32_t r = 0; r < t->ranks; r++)
        if (all[r].member) {
            m->members[m->nmembers++] = r;
            if (!all[r].done && (!m->open || all[r].steps < m->open))
                m->open = all[r].steps;
        }
    assert(m->nmembers > 0);
    return compare_hashes(t, m, err);
}

/* ---- the interrupted step ---- */

static bool bucket_done(struct tt_trainer *t, uint32_t b)
{
    return atomic_load(&t->launches[t->buckets[b].last].done);
}

static void bucket_set(struct tt_trainer *t, uint32_t b, bool done)
{
    atomic_store(&t->launches[t->buckets[b].reduce].done, done);
    atomic_store(&t->launches[t->buckets[b].last].done, done);
}

/* A step without gate counts its gate as done. */
static bool gate_done(struct tt_trainer *t)
{
    return t->gate == TT_NO_LAUNCH || atomic_load(&t->launches[t->gate].done);
}

/* Gathers which rank has what of the interrupted step. */
static tutti_status tell_results(struct tt_trainer *t, struct muster *m, struct tutti_error *err)
{
    char *mine = tt_zalloc(m->nhas, 1);
    if (!mine)
        return tt_fail_memory(err, "results");
    bool in = t->elastic.member && t->steps == m->open,
         ahead = t->elastic.member && t->steps > m->open;
    for (uint32_t b = 0; b < m->nhas; b++)
        mine[b] = ahead || (in && (b + 1 < m->nhas ? bucket_done(t, b) : gate_done(t)));
    tutti_status st = tt_train_exchange(t, mine, m->nhas, m->has, err);
    free(mine);
    return st;
}

/* The rank that gives result k; t->ranks: nobody has it. *ret_lacks: a rank in this step lacks it.
 */
static uint32_t find_giver(const struct tt_trainer *t, struct muster *m, uint32_t k,
                           bool *ret_lacks)
{
    uint32_t giver = t->ranks;
    *ret_lacks = false;
    for (uint32_t i = 0; i < t->ranks; i++) {
        uint32_t r = (m->turns + i) % t->ranks;
        bool has = m->has[(size_t)r * m->nhas + k];
        giver = has && giver == t->ranks ? r : giver;
        *ret_lacks |= !has && m->all[r].member && m->all[r].steps == m->open;
    }
    m->turns += giver < t->ranks && *ret_lacks;
    return giver;
}

/* Everybody who is in this step has what anybody has. Marked one by one: when the giver dies, what
 * came before counts. *ret_missing: how many results nobody has. */
static tutti_status share_results(struct tt_trainer *t, struct muster *m, uint32_t *ret_missing,
                                  struct tutti_error *err)
{
    bool in = t->elastic.member && t->steps == m->open, lacks;
    tutti_status st = TUTTI_OK;
    *ret_missing = 0;
    for (uint32_t k = 0; !st && k < m->nhas; k++) {
        bool gate = k + 1 == m->nhas;
        uint32_t giver = find_giver(t, m, k, &lacks);
        *ret_missing += giver == t->ranks;
        if (giver < t->ranks && lacks)
            st = gate ? tt_train_hand(t, giver, t->gate_data,
                                      (1 + (size_t)t->ntensors) * sizeof(double), err)
                      : tt_train_hand(t, giver, t->means + t->buckets[k].at,
                                      t->buckets[k].elems * t->buckets[k].elem_bytes, err);
        if (st || !in)
            continue;
        if (gate && giver < t->ranks && !gate_done(t))
            tt_train_read_gate(t);
        if (!gate)
            bucket_set(t, k, giver < t->ranks);
        else if (t->gate != TT_NO_LAUNCH)
            atomic_store(&t->launches[t->gate].done, giver < t->ranks);
    }
    return st;
}

static void all_set(struct tt_trainer *t, bool done)
{
    for (uint32_t k = 0; k < t->nlaunches; k++)
        atomic_store(&t->launches[k].done, done);
}

/* Sharded: the gate decides. If any rank has passed it, every mean is with an owner or a guardian
 * who lives, and the step counts; else no rank has updated anything, and all of it is repeated. */
static tutti_status share_shards(struct tt_trainer *t, struct muster *m, uint32_t *ret_missing,
                                 struct tutti_error *err)
{
    bool in = t->elastic.member && t->steps == m->open, lacks;
    uint32_t gate = m->nhas - 1, giver = find_giver(t, m, gate, &lacks);
    tutti_status st = TUTTI_OK;
    *ret_missing = giver == t->ranks ? m->nhas : 0;
    if (giver < t->ranks && lacks)
        st = tt_train_hand(t, giver, t->gate_data, (1 + (size_t)t->ntensors) * sizeof(double), err);
    if (st || (giver == t->ranks && !in))
        return st;
    if (giver == t->ranks) {
        all_set(t, false);
        return TUTTI_OK;
    }
    if (in && !gate_done(t)) {
        tt_train_read_gate(t);
        atomic_store(&t->launches[t->gate].done, true);
    }
    if (in)
        tt_train_shares_update(t);
    for (uint32_t k = 0; !st && k < gate; k++) {
        giver = find_giver(t, m, k, &lacks);
        if (lacks && giver < t->ranks)
            st = tt_train_hand(t, giver, t->params + t->buckets[k].at,
                               t->buckets[k].elems * t->buckets[k].elem_bytes, err);
        else if (lacks)
            st = tt_train_shares_params(t, m->all, k, err);
        if (!st && in)
            bucket_set(t, k, true);
    }
    if (!st && in)
        all_set(t, true);
    return st;
}

/* The step is complete, or the launches whose results nobody has start again, behind the check. */
static tutti_status resume(struct tt_trainer *t, struct muster *m, struct tutti_error *err)
{
    uint32_t missing = 0;
    tutti_status st = tell_results(t, m, err);
    if (!st)
        st = tt_train_sharded(t) ? share_shards(t, m, &missing, err)
                                 : share_results(t, m, &missing, err);
    if (st)
        return st;
    t->elastic.bound = m->open - (missing > 0);
    if (t->elastic.member && t->steps == m->open)
        atomic_store(&t->launches[t->check].done, missing == 0);
    if (missing && missing < m->nhas - (t->gate == TT_NO_LAUNCH) && m->nmembers < t->ranks)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "newcomers came while step %llu was half done: call tutti_trainer_flush "
                       "before tutti_comm_admit",
                       (unsigned long long)m->open);
    return TUTTI_OK;
}

/* ---- newcomers ---- */

/* Buckets and launches stay as they are when ranks come and go: callers have views into buckets,
 * and have handed over parts of a step. */
tutti_status tt_train_share_policy(struct tt_trainer *t, const struct tt_standing *all,
                                   struct tutti_error *err)
{
    struct tt_policy p = t->elastic.member ? *t->policy : (struct tt_policy){0};
    uint32_t root = t->ranks, newcomers = 0;
    for (uint32_t r = t->ranks; r-- > 0;) {
        root = all[r].member ? r : root;
        newcomers += !all[r].member;
    }
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

/* One array, in pieces from all members in turn. */
static tutti_status hand_array(struct tt_trainer *t, struct muster *m, char *data, size_t bytes,
                               struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    for (size_t at = 0, n; !st && at < bytes; at += n) {
        n = bytes - at < PIECE_BYTES ? bytes - at : PIECE_BYTES;
        st = tt_train_hand(t, m->members[m->turns++ % m->nmembers], data + at, n, err);
    }
    return st;
}

/* Members receive what they have already. */
static tutti_status hand_arrays(struct tt_trainer *t, struct muster *m, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    for (uint32_t i = 0; !st && i < t->ntensors; i++) {
        struct tt_tensor *x = &t->tensors[i];
        st = hand_array(t, m, x->param, x->v.count * tt_train_param_each(x), err);
        if (x->v.param && x->param != x->v.param && !t->elastic.member && !st)
            memcpy(x->v.param, x->param, tt_train_bytes(x));
        for (uint32_t s = 0; !st && s < TT_STATES && !tt_train_sharded(t); s++)
            if (t->state[s] && (s != TT_STATE_MASTER || (tt_train_half(x->v.dtype) && !x->v.wide)))
                st = hand_array(t, m, t->state[s] + x->state_at,
                                x->v.count * tt_train_state_each(x->v.dtype), err);
    }
    return st;
}

/* All members have done the same steps now, and updated everything. */
static tutti_status introduce(struct tt_trainer *t, struct muster *m, struct tutti_error *err)
{
    struct note n = {0};
    tutti_status st = TUTTI_OK;
    for (uint32_t i = 0; i < m->nmembers; i++)
        if (!m->all[m->members[i]].between && m->all[m->members[i]].steps == t->elastic.bound)
            return tt_fail(err, TUTTI_ERR_ARG,
                           "newcomers came while rank %u was in step %llu: call "
                           "tutti_trainer_flush before tutti_comm_admit",
                           m->members[i], (unsigned long long)t->elastic.bound);
    if (t->elastic.member && t->steps == t->elastic.bound) {
        st = tt_train_settle_all(t);
        tt_train_hash_step(t);
    }
    if (!st)
        st = hand_numbers(t, m->members[0], &n, err);
    if (!st)
        st = hand_callers(t, m->members[0], err);
    if (!st)
        st = hand_arrays(t, m, err);
    if (st || t->elastic.member)
        return st;
    t->steps = t->elastic.hashed = n.steps;
    t->elastic.bound = n.steps;
    t->elastic.hash = n.hash;
    t->norm = n.norm;
    t->next_scale = n.scale;
    return TUTTI_OK;
}

tutti_status tt_train_catch_up(struct tt_trainer *t, const struct tt_standing *all,
                               struct tutti_error *err)
{
    struct muster m;
    tutti_status st = make_muster(t, all, &m, err);
    if (!st) {
        t->elastic.bound = all[m.members[0]].steps;
        st = m.open ? resume(t, &m, err) : TUTTI_OK;
    }
    if (!st && m.nmembers < t->ranks)
        st = introduce(t, &m, err);
    if (!st && tt_train_sharded(t))
        st = tt_train_shares_move(t, all, err);
    free(m.members);
    free(m.has);
    return st;
}
