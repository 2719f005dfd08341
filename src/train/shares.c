/* shares.c - dear-sharded: who keeps which part of the optimizer's state, and how the parts move
 * when an elastic trainer gets other ranks.
 *
 * Block r of a bucket is rank r's own. With redundancy rank r + 1 is its guardian and keeps a copy,
 * its ward: it gets the same mean (launches.c), makes the same update, and so has the same bits.
 * When a rank is gone, its guardian speaks for it:
 *
 *     blocks of 4 ranks     | 0      | 1      | 2      | 3      |      rank 2 dies
 *     own, ward of rank 3                     [ ward  ][  own  ]      speaks for 2 and 3
 *     blocks of 3 ranks     | 0         | 1         | 2         |      everybody takes its parts
 *
 * A rank that has the new shares keeps the old ones until it knows that all have the new ones: when
 * one more rank dies meanwhile, everybody still has, or again takes, the same. `made` counts. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

enum { LINE = 64 };

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* Rounded up to whole cache lines; the last ranks get what is left, perhaps nothing. */
struct tt_stretch tt_train_block(const struct tt_bucket *b, uint32_t r, uint32_t ranks)
{
    assert(r < ranks && LINE % b->elem_bytes == 0);
    size_t block = round_up((b->elems + ranks - 1) / ranks, LINE / b->elem_bytes);
    size_t first = r * block < b->elems ? r * block : b->elems, left = b->elems - first;
    return (struct tt_stretch){first, left < block ? left : block};
}

struct tt_held tt_train_hold(const struct tt_trainer *t, const struct tt_bucket *b, uint32_t r,
                             uint32_t ranks, size_t *at)
{
    size_t each = tt_train_state_each(b->dtype);
    struct tt_held h = {.own = tt_train_block(b, r, ranks), .own_at = *at};
    *at += round_up(h.own.count * each, LINE);
    if (t->options.redundancy && ranks > 1)
        h.ward = tt_train_block(b, (r + ranks - 1) % ranks, ranks);
    h.ward_at = *at;
    *at += round_up(h.ward.count * each, LINE);
    return h;
}

void tt_train_shares_forget(struct tt_shares *s)
{
    for (uint32_t k = 0; k < TT_STATES; k++)
        free(s->state[k]);
    *s = (struct tt_shares){0};
}

/* ---- who speaks for whom ---- */

/* The rank that has block r of the members' shares: its owner, else its guardian; t->ranks: both
 * are gone. */
static uint32_t find_speaker(const struct tt_trainer *t, const struct tt_train_standing *all,
                             uint32_t r)
{
    uint32_t owner = t->ranks, guardian = t->ranks;
    for (uint32_t q = 0; q < t->ranks; q++) {
        owner = all[q].member && all[q].share == r ? q : owner;
        guardian = all[q].member && all[q].share == (r + 1) % all[q].shares ? q : guardian;
    }
    return owner < t->ranks ? owner : guardian;
}

/* How many ranks share, by the first member's words. */
static uint32_t count_shares(const struct tt_trainer *t, const struct tt_train_standing *all)
{
    uint32_t shares = 0;
    for (uint32_t q = t->ranks; q-- > 0;)
        shares = all[q].member ? (uint32_t)all[q].shares : shares;
    return shares;
}

static void go_back(struct tt_trainer *t)
{
    struct tt_elastic *e = &t->elastic;
    assert(e->past.ranks);
    for (uint32_t s = 0; s < TT_STATES; s++) {
        free(t->state[s]);
        t->state[s] = e->past.state[s];
        e->past.state[s] = NULL;
    }
    e->now = e->past;
    e->past = (struct tt_shares){0};
}

/* Standings are those of before: they are set right here too. */
tutti_status tt_train_shares_take(struct tt_trainer *t, struct tt_train_standing *all,
                                  struct tutti_error *err)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t q = 0; q < t->ranks; q++)
        least = all[q].member && all[q].made < least ? all[q].made : least;
    for (uint32_t q = 0; q < t->ranks; q++)
        if (all[q].member && all[q].made > least) {
            assert(all[q].made == least + 1);
            all[q].share = all[q].past_share;
            all[q].shares = all[q].past_shares;
            all[q].made = least;
        }
    if (t->elastic.member && t->elastic.now.made > least)
        go_back(t);
    uint32_t shares = count_shares(t, all);
    for (uint32_t r = 0; r < shares; r++)
        if (find_speaker(t, all, r) == t->ranks)
            return tt_fail(
                err, TUTTI_ERR_DIFFERS,
                "ranks %u and %u of %u left at the same time: with them both copies of a "
                "share of the optimizer's state are lost",
                r, (r + 1) % shares, shares);
    return TUTTI_OK;
}

/* ---- the interrupted step ---- */

void tt_train_shares_update(struct tt_trainer *t)
{
    const struct tt_shares *s = &t->elastic.now;
    size_t at = 0;
    for (uint32_t k = 0; k < t->policy->nbuckets; k++) {
        struct tt_bucket *b = &t->buckets[k];
        struct tt_held h = tt_train_hold(t, b, s->rank, s->ranks, &at);
        if (!b->updated)
            tt_train_update_held(t, b, &h);
    }
}

tutti_status tt_train_shares_params(struct tt_trainer *t, const struct tt_train_standing *all,
                                    uint32_t k, struct tutti_error *err)
{
    const struct tt_bucket *b = &t->buckets[k];
    uint32_t shares = count_shares(t, all);
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; !st && r < shares; r++) {
        struct tt_stretch block = tt_train_block(b, r, shares);
        st = tt_train_hand(t, find_speaker(t, all, r),
                           t->params + b->at + block.first * b->elem_bytes,
                           block.count * b->elem_bytes, err);
    }
    return st;
}

/* ---- moving ---- */

struct move {
    struct tt_trainer *t;
    const struct tt_train_standing *all;
    char *to[TT_STATES]; /* the new shares */
    char *wagon;         /* a block on its way */
    uint32_t shares;
    struct tutti_error *err;
};

/* Copies what two stretches of a bucket have in common; from and to: where their state lies. */
static void copy_common(struct tt_stretch a, const char *from, struct tt_stretch b, char *to,
                        size_t each)
{
    size_t low = a.first > b.first ? a.first : b.first, a_end = a.first + a.count,
           b_end = b.first + b.count, high = a_end < b_end ? a_end : b_end;
    if (low < high)
        memcpy(to + (low - b.first) * each, from + (low - a.first) * each, (high - low) * each);
}

/* Block r of bucket b, one array of it. `was`: what this rank has held of the bucket, if any. */
static tutti_status move_block(struct move *m, const struct tt_bucket *b, const struct tt_held *was,
                               uint32_t r, uint32_t slot)
{
    struct tt_trainer *t = m->t;
    uint32_t speaker = find_speaker(t, m->all, r);
    size_t each = tt_train_state_each(b->dtype);
    struct tt_stretch block = tt_train_block(b, r, m->shares);
    char *data = m->wagon;
    if (t->rank == speaker)
        data = t->state[slot] + (m->all[t->rank].share == r ? was->own_at : was->ward_at);
    tutti_status st = tt_train_hand(t, speaker, data, block.count * each, m->err);
    if (st)
        return st;
    copy_common(block, data, b->held.own, m->to[slot] + b->held.own_at, each);
    copy_common(block, data, b->held.ward, m->to[slot] + b->held.ward_at, each);
    return TUTTI_OK;
}

static tutti_status move_all(struct move *m)
{
    struct tt_trainer *t = m->t;
    const struct tt_shares *s = &t->elastic.now;
    tutti_status st = TUTTI_OK;
    size_t at = 0;
    for (uint32_t k = 0; k < t->policy->nbuckets; k++) {
        const struct tt_bucket *b = &t->buckets[k];
        struct tt_held was = {0};
        if (t->elastic.member)
            was = tt_train_hold(t, b, s->rank, s->ranks, &at);
        for (uint32_t r = 0; !st && r < m->shares; r++)
            for (uint32_t slot = 0; !st && slot < TT_STATES; slot++)
                if (t->state[slot] && (slot != TT_STATE_MASTER || tt_train_half(b->dtype)))
                    st = move_block(m, b, &was, r, slot);
    }
    return st;
}

static bool make_room(struct move *m)
{
    struct tt_trainer *t = m->t;
    size_t most = 0, n;
    for (uint32_t k = 0; k < t->policy->nbuckets; k++) {
        n = tt_train_block(&t->buckets[k], 0, m->shares).count *
            tt_train_state_each(t->buckets[k].dtype);
        most = n > most ? n : most;
    }
    bool ok = (m->wagon = malloc(most ? most : 1)) != NULL;
    for (uint32_t s = 0; s < TT_STATES; s++)
        if (t->state[s])
            ok = !posix_memalign((void **)&m->to[s], LINE, round_up(t->state_bytes, LINE) + LINE) &&
                 memset(m->to[s], 0, t->state_bytes) && ok;
    return ok;
}

/* The new shares count from here on; the old ones can be taken again. */
static void change_over(struct move *m, uint64_t made)
{
    struct tt_trainer *t = m->t;
    struct tt_elastic *e = &t->elastic;
    tt_train_shares_forget(&e->past);
    e->past = e->now;
    for (uint32_t s = 0; s < TT_STATES; s++) {
        e->past.state[s] = t->state[s];
        t->state[s] = m->to[s];
        m->to[s] = NULL;
    }
    e->now = (struct tt_shares){.rank = t->rank, .ranks = t->ranks, .made = made};
}

static tutti_status meet(struct move *m)
{
    char mine = 0, *others = tt_alloc(m->t->ranks, 1);
    tutti_status st = others ? tt_train_exchange(m->t, &mine, 1, others, m->err)
                             : tt_fail_memory(m->err, "ranks");
    free(others);
    return st;
}

/* Whoever passes the first meeting has the new shares; whoever passes the second knows that all
 * have. */
tutti_status tt_train_shares_move(struct tt_trainer *t, const struct tt_train_standing *all,
                                  struct tutti_error *err)
{
    struct move m = {.t = t, .all = all, .err = err, .shares = count_shares(t, all)};
    uint64_t made = 0;
    for (uint32_t q = 0; q < t->ranks; q++)
        made = all[q].member && all[q].made > made ? all[q].made : made;
    tutti_status st = make_room(&m) ? move_all(&m) : tt_fail_memory(err, "shares");
    if (!st)
        st = meet(&m);
    if (!st)
        change_over(&m, made + 1);
    if (!st)
        st = meet(&m);
    if (!st)
        tt_train_shares_forget(&t->elastic.past);
    for (uint32_t s = 0; s < TT_STATES; s++)
        free(m.to[s]);
    free(m.wagon);
    return st;
}
