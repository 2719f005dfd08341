/* open.c - opening; split.c makes communicators from another one, close.c ends them.
 *
 *     open:   adopt or environment -> world (boot, watch) -> blank
 *             -> connect (links, engine, speeds) -> furnish (topology, plans, report)
 *     split:  vote through the parent -> blank -> connect -> furnish
 *     twin:   the parent's links and engine, a context of its own -> furnish
 *     shrink, admit: roll call (shrink.c) -> world of those who go on -> as open, from blank
 *     join:   a ticket from a member (boot/enter.c) -> world -> as open, from blank
 *     part:   like a split, but only the members take part, by an exchange of their own
 *
 * Until the first communicator is open, ranks exchange bytes through the watch; afterwards by an
 * all-gather on the parent. Either way a rank that dies or stays away meanwhile is named.
 * tt_comm_close accepts a communicator that is half open. */
#include <stdlib.h>
#include <string.h>

#include "comm/open.h"

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

tutti_status tt_comm_open_context(struct tt_comm *c, uint64_t key, uint32_t set,
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

tutti_status tt_comm_connect(struct tt_comm *c, const struct tt_wire_config *wire,
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
        own = tt_comm_open_context(c, 0, 0, err);
    if (!st)
        st = tt_comm_unable(&wire->setup, UINT32_MAX, own, err);
    /* Only the world measures; other communicators inherit its speeds. */
    if (!st && wire->exchange == watch_exchange)
        st = tt_comm_measure(
            c, &(struct tt_measure){.exchange = watch_exchange, .ctx = c, .why = TT_WHY_OPEN}, err);
    return st;
}

tutti_status tt_comm_furnish(struct tt_comm *c, const struct tt_agreement *how,
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

tutti_status tt_comm_blank(struct tt_world *w, const struct tt_comm_config *config, uint32_t n,
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
    tutti_status st = tt_comm_blank(w, config, boot->size, &c, err);
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
    st = tt_comm_connect(c, &wire, err);
    if (!st)
        st = tt_comm_furnish(c, &(struct tt_agreement){.exchange = watch_exchange, .ctx = c}, err);
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
