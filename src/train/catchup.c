/* catchup.c - elastic trainers: after a change of the ranks the interrupted step is finished.
 *
 * A death interrupts a step at a bucket, which differs from rank to rank. A bucket's mean is final
 * as soon as one rank that lives has it: its caller may already compute with it. So every rank says
 * which means it has. What some rank has the others get from it, and only what no rank has is
 * reduced again, from each rank's own gradients (docs/how/membership.md has the argument).
 *
 *                   buckets of step 7
 *     rank 0        0 1 2 . .       `.` not here        0 1 2 come from ranks 0 and 1 in turn,
 *     rank 1        0 1 . . .                           3 4 are reduced again by both
 *
 * Then newcomers get what the others have (newcomers.c). Where the state is sharded it moves to
 * other ranks with every change (shares.c). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

/* What the ranks are to each other, equal on all of them. */
struct muster {
    const struct tt_train_standing *all;
    uint64_t open; /* the step that was interrupted; 0: none */
    uint32_t *members, nmembers;
    char *has;      /* of each rank, each bucket and the gate: 1 */
    uint32_t nhas;  /* of one rank */
    uint32_t turns; /* taken so far */
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

tutti_status tt_train_stand(struct tt_trainer *t, struct tt_train_standing **ret,
                            struct tutti_error *err)
{
    const struct tt_elastic *e = &t->elastic;
    struct tt_train_standing mine = {.member = e->member}, *all = tt_zalloc(t->ranks, sizeof *all);
    if (!all)
        return tt_fail_memory(err, "standings");
    if (e->member)
        mine = (struct tt_train_standing){.member = true,
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
        const struct tt_train_standing *s = &m->all[m->members[i]];
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
static tutti_status make_muster(struct tt_trainer *t, const struct tt_train_standing *all,
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

/* The rank that gives result k; t->ranks: no rank has it. *ret_lacks: a rank in this step lacks
 * it. */
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

/* Every rank that is in this step gets the results that some rank has. They are marked one by one:
 * when the giver dies, those that came before count. *ret_missing: results that no rank has. */
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
 * that lives, and the step counts; else no rank has updated anything, and all of it is repeated. */
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

/* The step is complete, or the launches whose results no rank has start again, behind the check. */
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

tutti_status tt_train_catch_up(struct tt_trainer *t, const struct tt_train_standing *all,
                               struct tutti_error *err)
{
    struct muster m;
    tutti_status st = make_muster(t, all, &m, err);
    if (!st) {
        t->elastic.bound = all[m.members[0]].steps;
        st = m.open ? resume(t, &m, err) : TUTTI_OK;
    }
    if (!st && m.nmembers < t->ranks)
        st = tt_train_introduce(t, all, err);
    if (!st && tt_train_sharded(t))
        st = tt_train_shares_move(t, all, err);
    free(m.members);
    free(m.has);
    return st;
}
