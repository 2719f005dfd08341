/* open.c - opening, splitting, closing.
 *
 *     open:   adopt or environment -> world (boot, watch) -> blank
 *             -> connect_all (links, engine, speeds) -> open_furnish (topology, plans, report)
 *     split:  vote through the parent -> blank -> connect_all -> open_furnish
 *     twin:   the parent's links and engine, a context of its own -> open_furnish
 *     shrink, admit: roll call (shrink.c) -> world of those who go on -> as open, from blank
 *     join:   a ticket from a member (boot/enter.c) -> world -> as open, from blank
 *     part:   like a split, but only the members take part, by an exchange of their own
 *
 * Until the first communicator is open, ranks exchange bytes through the watch; afterwards by an
 * all-gather on the parent. Either way a rank that dies or stays away meanwhile is named.
 * tt_comm_close accepts a communicator that is half open. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"

static tutti_status open_check(const struct tt_comm_config *c, struct tutti_error *err)
{
    if (c->transport && !tt_comm_shares(c) && !tt_comm_apart(c))
        return tt_fail(err, TUTTI_ERR_ARG, "no transport '%s': shm, tcp or mpi", c->transport);
    if (c->algo && !tt_streq(c->algo, "auto") && !tt_algo_find(c->algo))
        return tt_algo_unknown(c->algo, err);
    if (c->boot.encrypt && c->transport && tt_streq(c->transport, "mpi"))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "encryption is asked for (TUTTI_ENCRYPT=1), but transport mpi gives the "
                       "bytes to MPI, which sends them as they "
                       "are: use transport tcp");
    if (c->boot.join && (c->parent || (c->transport && tt_streq(c->transport, "mpi"))))
        return tt_fail(err, TUTTI_ERR_ARG, "ranks of MPI cannot join a job that runs (TUTTI_JOIN)");
    return TUTTI_OK;
}

/* The last communicator of the world closes watch and boot, in this order: the watch uses boot's
 * lines. */
void tt_comm_world_release(struct tt_world *w)
{
    if (!w || atomic_fetch_sub(&w->refs, 1) > 1)
        return;
    tt_watch_close(w->watch);
    tt_boot_close(w->boot);
    tt_topo_free(w->topo);
    tt_comm_given_free(w->given);
    tt_plan_tuning_free(w->tuning);
    tt_comm_trace_free(w);
    free(w->history);
    free(w);
}

static tutti_status world_open(struct tt_comm_config *c, struct tt_world **ret,
                               struct tutti_error *err)
{
    struct tt_mpi *mpi = NULL;
    struct tutti_error unread;
    tutti_status st = tt_comm_adopt(c, &mpi, err);
    if (!st)
        st = tt_log_setup(c->boot.rank, err);
    if (st)
        return st;
    struct tt_world *w = tt_zalloc(1, sizeof *w);
    struct tt_str settings = {0};
    struct tt_boot_config boot = c->boot;
    if (!w)
        return tt_fail_memory(err, "communicator");
    w->refs = 1;
    w->mpi = mpi;
    w->checksum = c->checksum;
    w->timeout_ns = c->timeout_ns ? c->timeout_ns : 30000000000u;
    /* A rank that cannot read its rules meets the others all the same, so that all fail and say
     * why. */
    tutti_status tuned =
        c->tuning ? tt_comm_given_tuning(c->tuning, &w->tuning, &unread) : TUTTI_OK;
    tt_comm_agree_settings(c, w->tuning, &settings);
    boot.settings = settings.s;
    st = settings.failed ? tt_fail_memory(err, "settings")
         : boot.join     ? tt_boot_enter(&boot, &w->boot, &w->change, err)
                         : tt_boot_open(&boot, &w->boot, err);
    if (!st && tuned) {
        st = tt_fail(err, tuned, "%s", unread.text);
        if (boot.rank == 0)
            tt_comm_tell_refusal(w, "tuning file", c->tuning);
    }
    if (!st)
        st = boot.join ? tt_comm_world_rejoin(w, err)
                       : tt_watch_open(w->boot, w->timeout_ns, &w->watch, err);
    tt_str_free(&settings);
    explicit_bzero(boot.key, sizeof boot.key); /* boot has its own */
    explicit_bzero(c->boot.key, sizeof c->boot.key);
    if (st) {
        tt_comm_world_release(w);
        return st;
    }
    *ret = w;
    return TUTTI_OK;
}

/* The exchange while the first communicator (ctx) opens: by the watch. */
static tutti_status watch_exchange(void *ctx, const void *mine, size_t bytes, void *ret_all,
                                   struct tutti_error *err)
{
    struct tt_comm *c = ctx;
    struct tt_op_desc op = tt_comm_setup_op(&(struct tt_setup){.through = c, .why = TT_WHY_OPEN});
    op.seq = ++c->steps;
    op.count = bytes;
    if (tt_watch_gather(c->world->watch, &op, mine, bytes, ret_all))
        return TUTTI_OK;
    return tt_fail(err, tt_comm_verdict(c), "%s", c->last.text);
}

/* The network that c plans on. The job's first communicator agrees upon it; that object belongs to
 * the world. */
static tutti_status find_topology(struct tt_comm *c, struct tutti_error *err)
{
    struct tt_world *w = c->world;
    if (w->topo)
        return tt_comm_topology(c, &c->topo, err);
    tutti_status st = tt_comm_agree_topology(
        c, &(struct tt_agreement){.exchange = watch_exchange, .ctx = c}, &w->topo, err);
    c->topo = w->topo;
    return st;
}

/* set: which set of boxes to use, where all ranks share memory; TT_BOX_SETS: none is free. */
static tutti_status open_context(struct tt_comm *c, uint64_t key, uint32_t set,
                                 struct tutti_error *err)
{
    struct tt_context_config x = {.key = key, .n = c->size, .rank = c->rank};
    struct tt_boxes_config b = {
        .set = set, .n = c->size, .me = c->rank, .places = c->wire.places, .key = key ? key : 1};
    bool boxes = c->wire.one_host && set < TT_BOX_SETS;
    tutti_status st = boxes ? tt_direct_boxes_open(c->wire.direct, &b, &x.boxes, err) : TUTTI_OK;
    if (!st)
        st = tt_exec_context_open(c->engine, &x, &c->context, err);
    if (st)
        tt_direct_boxes_close(x.boxes);
    else
        c->box_bytes = boxes ? tt_direct_boxes_max(c->wire.direct) : 0;
    return st;
}

/* Makes links and engine of its own. `own` is this rank's error, which tt_comm_unable tells to all
 * ranks. */
static tutti_status connect_all(struct tt_comm *c, const struct tt_wire_config *wire,
                                struct tutti_error *err)
{
    tutti_status st = tt_comm_wire_open(wire, &c->wire, err), own = TUTTI_OK;
    if (!st && c->wire.apart)
        c->config.transport = "tcp";
    if (!st)
        own = tt_exec_engine_make(&(struct tt_engine_config){.transport = c->wire.transport,
                                                             .max_requests = TT_RUNNING,
                                                             .direct = c->wire.direct,
                                                             .places = c->wire.places,
                                                             .ref_bytes = 4096},
                                  &c->engine, err);
    if (!st && !own)
        own = open_context(c, 0, 0, err);
    if (!st)
        st = tt_comm_unable(&wire->setup, UINT32_MAX, own, err);
    /* Only the world measures; other communicators inherit its speeds. */
    if (!st && wire->exchange == watch_exchange)
        st = tt_comm_measure(
            c, &(struct tt_measure){.exchange = watch_exchange, .ctx = c, .why = TT_WHY_OPEN}, err);
    return st;
}

/* The rest of a connected communicator: topology, plans, and what the settings ask for.
 * Collective. */
static tutti_status open_furnish(struct tt_comm *c, const struct tt_agreement *how,
                                 struct tutti_error *err)
{
    tutti_status st = find_topology(c, err);
    if (!st)
        st = tt_comm_given_open(c, how, err);
    if (!st) {
        c->plans = tt_comm_plans_make();
        st = c->plans ? TUTTI_OK : tt_fail_memory(err, "plans");
    }
    if (!st)
        st = tt_comm_dump_open(c, how->exchange, how->ctx, err);
    if (!st)
        st = tt_comm_trace_open(c, err);
    return st ? st : tt_comm_report_begin(c, err);
}

/* An empty communicator of n members with a lock of its own; the caller fills c->members. Takes a
 * reference to w. */
static tutti_status blank(struct tt_world *w, const struct tt_comm_config *config, uint32_t n,
                          struct tt_comm **ret, struct tutti_error *err)
{
    struct tt_comm *c = tt_zalloc(1, sizeof *c);
    struct tt_shared *shared = tt_comm_shared_make();
    if (!c || !shared) {
        tt_comm_shared_free(shared);
        free(c);
        return tt_fail_memory(err, "communicator");
    }
    c->world = w;
    atomic_fetch_add(&w->refs, 1);
    c->shared = shared;
    c->config = *config;
    c->size = n;
    c->members = tt_alloc(n, sizeof *c->members);
    c->algo = config->algo ? tt_strdup(config->algo) : NULL;
    if (!c->members || (config->algo && !c->algo)) {
        tt_comm_close(c);
        return tt_fail_memory(err, "communicator");
    }
    *ret = c;
    return TUTTI_OK;
}

tutti_status tt_comm_open_on(struct tt_world *w, const struct tt_comm_config *config,
                             struct tt_comm **ret, struct tutti_error *err)
{
    const struct tt_boot_config *boot = tt_boot_config(w->boot);
    struct tt_comm *c = NULL;
    tutti_status st = blank(w, config, boot->size, &c, err);
    if (st)
        return st;
    for (uint32_t r = 0; r < c->size; r++)
        c->members[r] = r;
    c->rank = boot->rank;
    struct tt_wire_config wire = {.world = w,
                                  .members = c->members,
                                  .n = c->size,
                                  .me = c->rank,
                                  .apart = tt_comm_apart(config),
                                  .share = tt_comm_shares(config),
                                  .exchange = watch_exchange,
                                  .ctx = c,
                                  .setup = {.through = c, .why = TT_WHY_OPEN}};
    st = connect_all(c, &wire, err);
    if (!st)
        st = open_furnish(c, &(struct tt_agreement){.exchange = watch_exchange, .ctx = c}, err);
    if (st) {
        tt_comm_close(c);
        return st;
    }
    tt_comm_tell_open(c);
    *ret = c;
    return TUTTI_OK;
}

tutti_status tt_comm_open(const struct tt_comm_config *given, struct tt_comm **ret,
                          struct tutti_error *err)
{
    struct tt_world *w = NULL;
    struct tt_comm_config own = *given, *config = &own;
    tutti_status st = open_check(config, err);
    own.transport = tt_comm_transport_name(own.transport);
    if (!st)
        st = world_open(config, &w, err);
    if (!st && own.boot.join)
        return tt_comm_go_on(w, config, ret, err);
    if (!st)
        st = tt_comm_open_on(w, config, ret, err);
    tt_comm_world_release(w); /* the communicator holds its own reference */
    return st;
}

/* Does not take c's lock, so that any thread may call it while others wait in calls on c. */
void tt_comm_abort(struct tt_comm *c, const char *reason)
{
    struct tt_trouble t = {.kind = TT_TROUBLE_ABORT, .peer = UINT32_MAX};
    tt_str_fit(t.text, sizeof t.text, reason ? reason : "no reason given");
    tt_watch_report(c->world->watch, &t);
    if (c->wire.direct)
        tt_direct_abort(c->wire.direct);
}

/* Ends what this communicator has on the engine; true: it was the last one there. A program is
 * still running only if the trainer gave up; the engine is then stopped for all, and the others are
 * told. */
static bool end_context(struct tt_comm *c, bool leaves)
{
    struct tt_shared *s = c->shared;
    tt_comm_enter(c);
    bool last = --s->users == 0;
    s->left = s->left || leaves;
    if (!last && c->context && tt_exec_context_running(c->context))
        tt_exec_engine_kill(
            c->engine, &(struct tt_exec_engine_fault){.kind = TT_FAULT_CLOSED, .peer = UINT32_MAX});
    for (size_t i = 0; i < c->nkept; i++)
        tt_comm_kept_free(c->kept[i]);
    free(c->kept);
    if (!last)
        tt_exec_context_close(c->context);
    tt_comm_unlock(c);
    return last;
}

/* Is there a verdict, whether this communicator has returned it or not? */
static bool has_failed(const struct tt_comm *c)
{
    struct tt_verdict v;
    return c->failed || tt_watch_verdict(c->world->watch, &v);
}

/* Frees everything of this rank. leaves: the sockets stay open until the others have what was sent
 * to them. */
static void take_down(struct tt_comm *c, bool leaves)
{
    if (end_context(c, leaves)) {
        tt_exec_engine_free(c->engine);
        if (c->wire.transport && (c->shared->left || has_failed(c))) {
            (c->shared->left ? tt_transport_leave : tt_transport_abandon)(c->wire.transport);
            c->wire.transport = NULL;
        }
        tt_comm_wire_close(&c->wire);
        tt_comm_shared_free(c->shared);
    }
    if (c->topo != c->world->topo)
        tt_topo_free(c->topo);
    tt_comm_plans_free(c->plans);
    tt_comm_dump_close(c);
    tt_vec_free(&c->passed);
    if (c->tag)
        tt_watch_part(c->world->watch, c->tag);
    tt_comm_world_release(c->world);
    free(c->members);
    free(c->algo);
    free(c);
}

/* Waits for the other ranks, and reports what the program can no longer learn from a call. */
static void part_company(struct tt_comm *c)
{
    c->closing = true;
    if (c->failed || c->size < 2)
        return;
    tt_comm_lock(c);
    tt_exec_engine_poll_always(c->engine, true);
    tt_comm_unlock(c);
    tutti_status st = tt_comm_run(c, &(struct tt_call){.coll = TUTTI_BARRIER, .why = TT_WHY_CLOSE});
    if (st && !atomic_load(&c->world->heard))
        tt_comm_tell_close(c);
    if (st)
        return;
    tt_comm_lock(c);
    tt_exec_engine_poll_always(c->engine, false);
    tt_exec_engine_progress(c->engine); /* messages sent before the others closed have arrived */
    tt_comm_unlock(c);
    tt_comm_tell_unread(c);
}

/* The helper ends first: it uses everything that follows. */
void tt_comm_close(struct tt_comm *c)
{
    if (!c)
        return;
    if (atomic_load(&c->world->succeeded)) {
        tt_comm_leave(c);
        return;
    }
    tt_comm_helper_end(c);
    tt_comm_report_end(c);
    if (c->plans) {
        tt_comm_trace_end(c);
        tt_comm_given_close(c);
        part_company(c);
    }
    take_down(c, false);
}

void tt_comm_leave(struct tt_comm *c)
{
    if (!c)
        return;
    tt_comm_helper_end(c);
    tt_comm_report_drop(c);
    tt_comm_given_close(c);
    take_down(c, !c->failed); /* after an error none of the caller's data is sent any more */
}

uint32_t tt_comm_rank(const struct tt_comm *c)
{
    return c->rank;
}

uint32_t tt_comm_size(const struct tt_comm *c)
{
    return c->size;
}

uint32_t tt_comm_local(const struct tt_comm *c)
{
    return c->wire.nlocal;
}

const struct tutti_error *tt_comm_last_error(const struct tt_comm *c)
{
    return &c->last;
}

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
    tutti_status st = blank(c->world, &c->config, g->n, &child, err);
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
    st = connect_all(child, &wire, err);
    if (!st)
        st = open_furnish(child, &(struct tt_agreement){.exchange = g->exchange, .ctx = g->ctx},
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
    tutti_status st = make_bell(c, err);
    if (!st) {
        tt_comm_shared_free(twin->shared);
        twin->shared = c->shared;
        twin->shared->users++;
        twin->wire = c->wire;
        twin->engine = c->engine;
        st = open_context(twin, twin->id, set, err);
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
        st = open_furnish(twin, &(struct tt_agreement){.exchange = tt_comm_exchange, .ctx = &setup},
                          err);
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
