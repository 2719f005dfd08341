/* split.c - communicators made from another one: splits, twins, parts (open.c draws the stages).
 *
 *     split   every rank of the parent votes; a group picks its own members' bytes of an exchange
 *             that goes through the parent
 *     twin    the same members, links and engine; a context of its own, so that its calls have an
 *             order of their own
 *     part    only the members take part; they exchange by a function of the caller
 *
 * Ids are computed, not agreed upon: from the parent's id and its number of splits, which is equal
 * on all ranks because splitting is collective, or from the first member of a part. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm/open.h"

/* ---- splitting ---- */

/* What each rank contributes to a split. */
struct vote {
    int32_t color, key;
};

tutti_status tt_comm_exchange(void *ctx, const void *mine, size_t bytes, void *ret_all,
                              struct tutti_error *err)
{
    const struct tt_setup *s = ctx;
    struct tt_call call = {.coll = TUTTI_ALL_GATHER,
                           .in = mine,
                           .out = ret_all,
                           .count = bytes,
                           .dtype = TUTTI_U8,
                           .why = s->why};
    tutti_status st = tt_comm_run(s->through, &call);
    return st ? tt_fail(err, st, "%s", s->through->last.text) : TUTTI_OK;
}

/* The members of a color, ordered by (key, rank), by insertion; returns how many there are. */
static uint32_t members_of(const struct vote *votes, uint32_t n, int32_t color, uint32_t *ret)
{
    uint32_t k = 0;
    for (uint32_t r = 0; r < n; r++) {
        if (votes[r].color != color)
            continue;
        uint32_t at = k++;
        for (; at > 0 && votes[ret[at - 1]].key > votes[r].key; at--)
            ret[at] = ret[at - 1];
        ret[at] = r;
    }
    return k;
}

/* The exchange of a child group goes through its parent: every rank of the parent takes part, and
 * each group picks its own members' bytes. */
struct child_exchange {
    struct tt_setup setup;   /* through the parent */
    const uint32_t *members; /* parent ranks of the group */
    uint32_t n;
};

static tutti_status child_exchange(void *ctx, const void *mine, size_t bytes, void *ret_all,
                                   struct tutti_error *err)
{
    struct child_exchange *x = ctx;
    char *all = tt_alloc(x->setup.through->size, bytes);
    tutti_status st =
        all ? tt_comm_exchange(&x->setup, mine, bytes, all, err) : tt_fail_memory(err, "exchange");
    for (uint32_t i = 0; !st && i < x->n; i++)
        memcpy((char *)ret_all + i * bytes, all + x->members[i] * bytes, bytes);
    free(all);
    return st;
}

/* The communicator `id` of a group, without links and engine. */
static tutti_status make_member(struct tt_comm *c, const struct tt_comm_group *g, uint64_t id,
                                struct tt_comm **ret, struct tutti_error *err)
{
    struct tt_comm *child = NULL;
    assert(g->me < g->n && g->n <= c->size);
    tutti_status st = tt_comm_blank(c->world, &c->config, g->n, &child, err);
    if (st)
        return st;
    for (uint32_t i = 0; i < g->n; i++)
        child->members[i] = c->members[g->members[i]];
    child->rank = g->me;
    child->id = id;
    child->tag =
        (uint32_t)tt_hash_bytes(child->id, child->members, g->n * sizeof *child->members) | 1;
    tt_watch_join(c->world->watch, child->tag);
    child->speeds = c->speeds;
    *ret = child;
    return TUTTI_OK;
}

/* The communicator `id` of a group. Without `setup` its exchange does not learn of verdicts. */
static tutti_status make_child(struct tt_comm *c, const struct tt_comm_group *g, uint64_t id,
                               const struct tt_setup *setup, struct tt_comm **ret,
                               struct tutti_error *err)
{
    struct tt_comm *child = NULL;
    tutti_status st = make_member(c, g, id, &child, err);
    if (st)
        return st;
    struct tt_wire_config wire = {.world = c->world,
                                  .members = child->members,
                                  .n = g->n,
                                  .me = child->rank,
                                  .apart = tt_comm_apart(&c->config),
                                  .share = tt_comm_shares(&c->config),
                                  .role = id,
                                  .exchange = g->exchange,
                                  .ctx = g->ctx,
                                  .setup = setup ? *setup : (struct tt_setup){0}};
    st = tt_comm_connect(child, &wire, err);
    if (!st)
        st = tt_comm_furnish(child, &(struct tt_agreement){.exchange = g->exchange, .ctx = g->ctx},
                             err);
    if (st) {
        tt_comm_close(child);
        return st;
    }
    *ret = child;
    return TUTTI_OK;
}

tutti_status tt_comm_split(struct tt_comm *c, int color, int key, struct tt_comm **ret,
                           struct tutti_error *err)
{
    struct vote mine = {.color = color < 0 ? -1 : color, .key = key},
                *votes = tt_alloc(c->size, sizeof *votes);
    uint32_t *members = tt_alloc(c->size, sizeof *members);
    struct tt_comm *child = NULL;
    struct tt_setup setup = {.through = c, .why = TT_WHY_SPLIT};
    tutti_status st = votes && members ? tt_comm_exchange(&setup, &mine, sizeof mine, votes, err)
                                       : tt_fail_memory(err, "split");
    if (!st) {
        c->splits++;
        struct child_exchange x = {.setup = setup,
                                   .members = members,
                                   .n = members_of(votes, c->size, mine.color, members)};
        struct tt_comm_group g = {
            .members = members, .n = x.n, .exchange = child_exchange, .ctx = &x};
        while (members[g.me] != c->rank)
            g.me++;
        assert(g.me < g.n); /* its own vote has its own color */
        st = make_child(c, &g, tt_mix64(c->id ^ tt_mix64(c->splits)) >> 2, &setup, &child, err);
    }
    /* A rank with a negative color takes part in the opening, because all exchange through the
     * parent, and then closes the communicator of those ranks. */
    if (!st && color < 0) {
        tt_comm_close(child);
        child = NULL;
    }
    free(votes);
    free(members);
    if (!st)
        *ret = child;
    return st;
}

/* ---- twins ---- */

/* From the first twin on, calls sleep at bells, not in the transport. Makes sure that there is at
 * least one. */
static tutti_status make_bell(struct tt_comm *c, struct tutti_error *err)
{
    int bell = tt_comm_bell_take(c->shared);
    tt_comm_bell_give(c->shared, bell);
    return bell >= 0 ? TUTTI_OK
                     : tt_fail(err, TUTTI_ERR_IO, "no event descriptor for a communicator");
}

/* Gives the twin the links and engine of c, and a context of its own. */
static tutti_status join_twin(struct tt_comm *twin, struct tt_comm *c, uint32_t set,
                              struct tutti_error *err)
{
    tt_comm_lock(c);
    assert(twin->shared != c->shared && twin->size == c->size && twin->rank == c->rank);
    tutti_status st = make_bell(c, err);
    if (!st) {
        tt_comm_shared_free(twin->shared);
        twin->shared = c->shared;
        twin->shared->users++;
        twin->wire = c->wire;
        twin->engine = c->engine;
        st = tt_comm_open_context(twin, twin->id, set, err);
    }
    tt_comm_unlock(c);
    return st;
}

/* The ranks tell each other which sets of boxes they have free. Afterwards `all` is reused for the
 * ranks' numbers. */
tutti_status tt_comm_twin(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err)
{
    struct tt_setup setup = {.through = c, .why = TT_WHY_SPLIT};
    struct tt_comm *twin = NULL;
    uint32_t mine = 0, sets = UINT32_MAX, *all = tt_alloc(c->size, sizeof *all);
    tt_comm_lock(c);
    if (c->wire.one_host)
        mine = tt_direct_boxes_free_sets(c->wire.direct);
    tt_comm_unlock(c);
    tutti_status st =
        all ? tt_comm_exchange(&setup, &mine, sizeof mine, all, err) : tt_fail_memory(err, "twin");
    for (uint32_t r = 0; !st && r < c->size; r++) {
        sets &= all[r];
        all[r] = r;
    }
    if (!st) {
        c->splits++;
        struct tt_comm_group g = {.members = all, .n = c->size, .me = c->rank};
        /* The same arithmetic as in a split: the id is equal on all ranks, because all have split
         * equally often. */
        tutti_status own =
            make_member(c, &g, tt_mix64(c->id ^ tt_mix64(c->splits)) >> 2, &twin, err);
        if (!own)
            own = join_twin(twin, c, sets ? (uint32_t)__builtin_ctz(sets) : TT_BOX_SETS, err);
        st = tt_comm_unable(&setup, UINT32_MAX, own, err);
    }
    if (!st)
        st = tt_comm_furnish(
            twin, &(struct tt_agreement){.exchange = tt_comm_exchange, .ctx = &setup}, err);
    free(all);
    if (st) {
        tt_comm_close(twin);
        return st;
    }
    *ret = twin;
    return TUTTI_OK;
}

/* ---- parts ---- */

#define PART_IDS (UINT64_C(1) << 62) /* ids of parts; those of splits are below */

static tutti_status check_group(const struct tt_comm *c, const struct tt_comm_group *g,
                                struct tutti_error *err)
{
    bool *seen = tt_zalloc(c->size, sizeof *seen);
    tutti_status st = seen ? TUTTI_OK : tt_fail_memory(err, "group");
    for (uint32_t i = 0; !st && i < g->n; i++) {
        uint32_t r = g->members[i];
        if (r >= c->size || seen[r])
            st = tt_fail(err, TUTTI_ERR_ARG, "member %u is rank %u: %s", i, r,
                         r < c->size ? "named twice" : "there is no such rank");
        else
            seen[r] = true;
    }
    if (!st && (g->me >= g->n || g->members[g->me] != c->rank))
        st = tt_fail(err, TUTTI_ERR_ARG, "this rank %u is not where it says in the group", c->rank);
    free(seen);
    return st;
}

/* The id comes from the first member: its world rank and its number of parts, which no other first
 * member shares. */
tutti_status tt_comm_part(struct tt_comm *c, const struct tt_comm_group *g, struct tt_comm **ret,
                          struct tutti_error *err)
{
    uint32_t mine = atomic_fetch_add(&c->world->parts, 1), *all = tt_alloc(g->n, sizeof *all);
    tutti_status st = all ? check_group(c, g, err) : tt_fail_memory(err, "group");
    if (!st)
        st = g->exchange(g->ctx, &mine, sizeof mine, all, err);
    if (!st)
        st = make_child(c, g, PART_IDS | (uint64_t)c->members[g->members[0]] << 32 | all[0], NULL,
                        ret, err);
    free(all);
    return st;
}
