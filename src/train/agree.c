/* agree.c - before anything is communicated, the ranks make sure that they train the same model in
 * the same way.
 *
 * First one number per rank is compared: a hash of options and tensors. Only when the hashes
 * differ is more exchanged, step by step, until the first difference can be named: options, number
 * of tensors, or the first tensor that differs from rank 0's. Every rank reaches the same decision
 * from the same bytes, so that all refuse together.
 *
 *     hash equal on all ranks ------------------------------------------> agreed
 *          | differs
 *          v
 *     texts of the options -> counts -> hashes per tensor -> that tensor -> refused, with its name
 *
 * Every exchange is collective, so each rank must take the same branch: branches depend only on
 * what was gathered, never on local values. */
#include <stdlib.h>
#include <string.h>

#include "train/train_int.h"

/* What must be equal of one tensor. It is sent and hashed as bytes, so it must have no padding. */
struct card {
    char name[TT_TRAIN_NAME];
    uint64_t count;
    uint32_t dtype, kind, layer, group, uses, wide;
};

tutti_status tt_train_exchange(struct tt_trainer *t, const void *mine, size_t bytes, void *ret_all,
                               struct tutti_error *err)
{
    struct tt_call call = {.coll = TUTTI_ALL_GATHER,
                           .in = mine,
                           .out = ret_all,
                           .count = bytes,
                           .dtype = TUTTI_U8,
                           .why = TT_WHY_TRAINER};
    tutti_status st = tt_comm_run(t->comm, &call);
    if (st && err)
        *err = *tt_comm_last_error(t->comm);
    return st;
}

/* Past the end: all zeros, so that a rank with fewer tensors still has something to compare. */
static struct card card_of(const struct tt_trainer *t, uint32_t i)
{
    struct card c = {0};
    if (i >= t->ntensors)
        return c;
    const struct tt_train_tensor *v = &t->tensors[i].v;
    strncpy(c.name, v->name, sizeof c.name - 1);
    c.count = v->count;
    c.dtype = v->dtype;
    c.kind = v->kind;
    c.layer = v->layer;
    c.group = v->group;
    c.uses = v->uses;
    c.wide = v->wide;
    return c;
}

static char *describe_card(const struct card *c, char *buf, size_t cap)
{
    if (c->count == 0)
        snprintf(buf, cap, "none");
    else
        snprintf(buf, cap, "%.48s (%llu x %s, %s, layer %u, group %u, %u uses%s)", c->name,
                 (unsigned long long)c->count, tt_sched_dtype_name((tutti_dtype)c->dtype),
                 tt_policy_kind_name((enum tt_tensor_kind)c->kind), c->layer, c->group, c->uses,
                 c->wide ? ", wide parameter" : "");
    return buf;
}

/* All that must be equal besides tensors, as text: the same text is compared and printed. */
static void describe_options(const struct tt_trainer *t, char *buf, size_t cap)
{
    static const char *const optimizers[] = {"none", "sgd", "adam", "adamw"};
    const struct tt_train_options *o = &t->options;
    const struct tt_policy_options *p = &o->policy;
    memset(buf, 0, cap);
    snprintf(buf, cap,
             "policy %s, algo %s%s, fusion %s, threshold %llu, first %llu, nearby %u, cycle %llu "
             "ps, partition %llu, order %d/%u, "
             "optimizer %s, clip %g, unused %s, window %u, elastic %s, redundancy %u",
             tt_policy_name(p->kind), tt_policy_algo_name(p->algo),
             p->recursive_doubling ? " (recursive doubling)" : "", tt_policy_fusion_name(p->fusion),
             (unsigned long long)p->threshold_bytes, (unsigned long long)p->first_bytes, p->nearby,
             (unsigned long long)p->cycle_ps, (unsigned long long)p->partition_bytes, (int)p->order,
             p->lookahead, optimizers[o->optimizer], o->clip_norm,
             o->allow_unused ? "allowed" : "refused", o->window, o->elastic ? "yes" : "no",
             o->redundancy);
}

/* The first rank whose `bytes` bytes differ from rank 0's; t->ranks: none does. */
static uint32_t first_other(const struct tt_trainer *t, const char *all, size_t bytes)
{
    uint32_t r = 1;
    while (r < t->ranks && !memcmp(all, all + r * bytes, bytes))
        r++;
    return r;
}

static tutti_status compare_options(struct tt_trainer *t, struct tutti_error *err)
{
    char mine[400];
    char *all = tt_alloc(t->ranks, sizeof mine);
    describe_options(t, mine, sizeof mine);
    tutti_status st =
        all ? tt_train_exchange(t, mine, sizeof mine, all, err) : tt_fail_memory(err, "options");
    uint32_t r = st ? t->ranks : first_other(t, all, sizeof mine);
    if (!st && r < t->ranks) {
        const char *a = all, *b = all + r * sizeof mine;
        size_t at = 0;
        /* Show the options from the last comma before the first difference on. */
        for (size_t i = 0; a[i] && a[i] == b[i]; i++)
            at = a[i] == ',' ? i + 2 : at;
        st = tt_fail(err, TUTTI_ERR_DIFFERS, "options differ: rank 0 has %.*s, rank %u has %.*s",
                     (int)strcspn(a + at, ","), a + at, r, (int)strcspn(b + at, ","), b + at);
    }
    free(all);
    return st;
}

/* The lowest index of a tensor that differs on some rank from rank 0's; `most` if none does. */
static tutti_status find_tensor(struct tt_trainer *t, uint32_t most, uint32_t *ret,
                                struct tutti_error *err)
{
    uint64_t *mine = tt_alloc(most, sizeof *mine),
             *all = tt_alloc((size_t)most * t->ranks, sizeof *all);
    tutti_status st = mine && all ? TUTTI_OK : tt_fail_memory(err, "hashes of tensors");
    for (uint32_t i = 0; !st && i < most; i++) {
        struct card c = card_of(t, i);
        mine[i] = tt_hash_bytes(0, &c, sizeof c);
    }
    if (!st)
        st = tt_train_exchange(t, mine, most * sizeof *mine, all, err);
    /* Invariant: no rank before r differs from rank 0 in a tensor below `first`. */
    uint32_t first = most;
    for (uint32_t r = 1; !st && r < t->ranks; r++)
        for (uint32_t i = 0; i < first; i++)
            if (all[i] != all[(size_t)r * most + i])
                first = i;
    if (!st)
        *ret = first;
    free(mine);
    free(all);
    return st;
}

static tutti_status compare_tensor(struct tt_trainer *t, uint32_t i, struct tutti_error *err)
{
    struct card mine = card_of(t, i), *all = tt_alloc(t->ranks, sizeof *all);
    char a[200], b[200];
    tutti_status st =
        all ? tt_train_exchange(t, &mine, sizeof mine, all, err) : tt_fail_memory(err, "tensors");
    uint32_t r = st ? t->ranks : first_other(t, (const char *)all, sizeof mine);
    if (!st && r < t->ranks)
        st = tt_fail(err, TUTTI_ERR_DIFFERS, "tensor %u differs: rank 0 has %s, rank %u has %s", i,
                     describe_card(&all[0], a, sizeof a), r, describe_card(&all[r], b, sizeof b));
    free(all);
    return st;
}

static tutti_status compare_tensors(struct tt_trainer *t, struct tutti_error *err)
{
    uint32_t most = 0, first = 0, *all = tt_alloc(t->ranks, sizeof *all);
    tutti_status st = all ? tt_train_exchange(t, &t->ntensors, sizeof t->ntensors, all, err)
                          : tt_fail_memory(err, "tensors");
    /* The longest list decides how many hashes each rank sends: all-gather needs equal counts. */
    for (uint32_t r = 0; !st && r < t->ranks; r++)
        most = all[r] > most ? all[r] : most;
    free(all);
    if (!st && most)
        st = find_tensor(t, most, &first, err);
    return st || first >= most ? st : compare_tensor(t, first, err);
}

tutti_status tt_train_agree_hash(struct tt_trainer *t, uint64_t hash, struct tutti_error *err)
{
    uint64_t *all = tt_alloc(t->ranks, sizeof *all);
    tutti_status st =
        all ? tt_train_exchange(t, &hash, sizeof hash, all, err) : tt_fail_memory(err, "hashes");
    for (uint32_t r = 1; !st && r < t->ranks; r++)
        if (all[r] != all[0])
            st =
                tt_fail(err, TUTTI_ERR_DIFFERS,
                        "rank %u has another launch order than rank 0 (hashes %016llx and %016llx)",
                        r, (unsigned long long)all[r], (unsigned long long)all[0]);
    free(all);
    return st;
}

tutti_status tt_train_agree(struct tt_trainer *t, struct tutti_error *err)
{
    char options[400];
    describe_options(t, options, sizeof options);
    uint64_t h = tt_hash_bytes(t->ntensors, options, sizeof options);
    for (uint32_t i = 0; i < t->ntensors; i++) {
        struct card c = card_of(t, i);
        h = tt_hash_bytes(h, &c, sizeof c);
    }
    tutti_status st = tt_train_agree_hash(t, h, err);
    if (st != TUTTI_ERR_DIFFERS)
        return st;
    /* The hashes differ, so that every rank comes here and the exchanges below match. */
    struct tutti_error named;
    tutti_status why = compare_options(t, &named);
    if (!why)
        why = compare_tensors(t, &named);
    if (why && err)
        *err = named;
    return why ? why : st;
}
