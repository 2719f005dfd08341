/* comm.c - the public functions of communicators over comm/ (request.c: those of requests).
 *
 * Opening collects the options in three layers, later ones win: defaults, the environment (the
 * launcher's variables), the caller's struct.
 *
 *     tutti_comm_open         identity from the launcher's variables or the options (`given`)
 *     tutti_comm_open_among   identity from another library's ranks (the MPI shim)
 *     tutti_comm_part         some ranks of a communicator, collective among those only
 *     tutti_comm_split        all ranks of a communicator, by color
 *     tutti_comm_shrink       those of its ranks that still live
 *     tutti_comm_admit        the same, and newcomers */
#include "api/api.h"

#include <stddef.h>
#include <string.h>

#include "comm/comm.h"

/* Rank, size and rendezvous from the options when the caller gives them (`given`), instead of
 * from a launcher's variables. */
static tutti_status identity(const struct tutti_comm_options *o, struct tt_comm_config *c,
                             struct tutti_error *err)
{
    if (!o->given)
        return TUTTI_OK;
    c->boot.join = o->join; /* TUTTI_JOIN is for ranks whose place comes from the environment */
    if (o->ranks == 0 || o->rank >= o->ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "rank %u of %u ranks does not exist", o->rank,
                       o->ranks);
    if (o->ranks > 1 && (!o->rendezvous || strlen(o->rendezvous) >= sizeof c->boot.rendezvous))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "a rendezvous host:port of at most %zu characters is needed",
                       sizeof c->boot.rendezvous - 1);
    c->boot.rank = o->rank;
    c->boot.size = o->ranks;
    c->boot.local_rank = o->local_rank;
    snprintf(c->boot.rendezvous, sizeof c->boot.rendezvous, "%s",
             o->rendezvous ? o->rendezvous : "");
    return TUTTI_OK;
}

/* Lays the caller's options over those of the environment in *c. Flags can only be switched on. */
static tutti_status merge(const struct tutti_comm_options *o, struct tt_comm_config *c,
                          struct tutti_error *err)
{
    if (o->iface && strlen(o->iface) >= sizeof c->boot.iface)
        return tt_fail(err, TUTTI_ERR_ARG, "interface filter is longer than %zu characters",
                       sizeof c->boot.iface - 1);
    if (o->iface)
        snprintf(c->boot.iface, sizeof c->boot.iface, "%s", o->iface);
    c->boot.insecure = c->boot.insecure || o->insecure;
    c->boot.join = o->join ? o->join : c->boot.join;
    c->transport = o->transport ? o->transport : c->transport;
    c->topo = o->topo ? o->topo : c->topo;
    c->algo = o->algo ? o->algo : c->algo;
    c->plan = o->plan ? o->plan : c->plan;
    c->tuning = o->tuning ? o->tuning : c->tuning;
    c->reproducible = c->reproducible || o->reproducible;
    c->boot.encrypt = c->boot.encrypt || o->encrypt;
    c->checksum = o->checksum ? o->checksum : c->checksum;
    if (o->timeout_us)
        c->timeout_ns = c->boot.timeout_ns =
            o->timeout_us < UINT64_MAX / 1000 ? o->timeout_us * 1000 : UINT64_MAX;
    tutti_status st = o->key_file ? tt_boot_key(&c->boot, o->key_file, err) : TUTTI_OK;
    return st ? st : identity(o, c, err);
}

/* Makes a handle for a communicator, which is closed on failure. NULL stays NULL: a rank that is
 * in no part of a split has no communicator. */
static tutti_status wrap(struct tt_comm *c, struct tutti_comm **ret, struct tutti_error *err)
{
    void *handle = c ? tt_api_make(API_COMM, c, NULL, err) : NULL;
    if (c && !handle) {
        tt_comm_close(c);
        return TUTTI_ERR_LIMIT;
    }
    *ret = handle;
    return TUTTI_OK;
}

tutti_status tutti_comm_open(const struct tutti_comm_options *options, struct tutti_comm **ret_comm,
                             struct tutti_error *err)
{
    struct tutti_comm_options given = {0};
    struct tt_comm_config c;
    struct tt_comm *comm;
    tutti_status st = api_given(err, "ret_comm", ret_comm);
    if (!st && options)
        st = api_struct("tutti_comm_options", options, &given, err);
    if (st)
        return st;
    /* MPI brings the ranks together itself: then only options are read, not a launcher's
     * identity. */
    bool mpi = given.transport && tt_streq(given.transport, "mpi");
    st = mpi ? tt_comm_options_from_env(&c, err) : tt_comm_from_env(&c, err);
    if (!st)
        st = merge(&given, &c, err);
    if (!st)
        st = tt_comm_open(&c, &comm, err);
    return st ? st : wrap(comm, ret_comm, err);
}

/* The callback of tutti_parent with the signature that comm/ expects. */
static tutti_status parent_gather(void *ctx, const void *mine, size_t bytes, void *ret_all,
                                  struct tutti_error *err)
{
    const struct tutti_parent *p = ctx;
    return p->gather(p->ctx, mine, bytes, ret_all)
               ? tt_fail(err, TUTTI_ERR_CONNECT, "the ranks cannot exchange %zu bytes", bytes)
               : TUTTI_OK;
}

/* Public name of a function of boot/ for the MPI shim. */
bool tutti_mpi_strayed(struct tutti_error *ret)
{
    return tt_boot_strayed(ret);
}

tutti_status tutti_comm_open_among(const struct tutti_comm_options *options,
                                   const struct tutti_parent *parent, struct tutti_comm **ret_comm,
                                   struct tutti_error *err)
{
    struct tutti_comm_options given = {0};
    struct tt_comm_config c;
    struct tt_comm *comm;
    tutti_status st = api_given(err, "parent", parent, "ret_comm", ret_comm);
    if (!st && (parent->rank >= parent->ranks || !parent->gather))
        st = tt_api_bad(__func__, err, TUTTI_ERR_ARG, "rank %u of %u, %s gather", parent->rank,
                        parent->ranks, parent->gather ? "with" : "no");
    if (!st && options)
        st = api_struct("tutti_comm_options", options, &given, err);
    if (!st)
        st = tt_comm_options_from_env(&c, err);
    /* The caller's timeout is for calls; the ranks' meeting keeps that of the environment. */
    uint64_t meeting_ns = st ? 0 : c.boot.timeout_ns;
    if (!st)
        st = merge(&given, &c, err);
    if (st)
        return st;
    struct tt_boot_parent p = {.rank = parent->rank,
                               .size = parent->ranks,
                               .local_rank = parent->local_rank,
                               .gather = parent_gather,
                               .ctx = (void *)(uintptr_t)parent};
    c.boot.timeout_ns = meeting_ns;
    c.parent = &p;
    st = tt_comm_open(&c, &comm, err);
    return st ? st : wrap(comm, ret_comm, err);
}

/* `ranks` has parent->ranks entries; comm/ checks them. */
tutti_status tutti_comm_part(struct tutti_comm *comm, const uint32_t *ranks,
                             const struct tutti_parent *parent, struct tutti_comm **ret_comm,
                             struct tutti_error *err)
{
    struct tt_comm *part = NULL, *c = api_find(COMM, comm, err);
    tutti_status st =
        c ? api_given(err, "ranks", ranks, "parent", parent, "ret_comm", ret_comm) : TUTTI_ERR_ARG;
    if (!st && (parent->rank >= parent->ranks || !parent->gather))
        st = tt_api_bad(__func__, err, TUTTI_ERR_ARG, "rank %u of %u, %s gather", parent->rank,
                        parent->ranks, parent->gather ? "with" : "no");
    if (st)
        return st;
    struct tt_comm_group g = {.members = ranks,
                              .n = parent->ranks,
                              .me = parent->rank,
                              .exchange = parent_gather,
                              .ctx = (void *)(uintptr_t)parent};
    st = tt_comm_part(c, &g, &part, err);
    return st ? st : wrap(part, ret_comm, err);
}

/* A wrong collective is the tool's mistake: aborts. */
void tutti_comm_algo_of(struct tutti_comm *comm, tutti_coll coll)
{
    struct tt_comm *c = api_need(COMM, comm);
    if ((unsigned)coll >= TUTTI_COLL_COUNT)
        tt_api_stop(__func__, "there is no collective %d", (int)coll);
    tt_comm_algo_of(c, coll);
}

void tutti_comm_on_idle(struct tutti_comm *comm, void (*idle)(void *ctx), void *ctx)
{
    tt_comm_on_idle(api_need(COMM, comm), idle, ctx);
}

uint32_t tutti_comm_rank(const struct tutti_comm *comm)
{
    return tt_comm_rank(api_need(COMM, comm));
}

uint32_t tutti_comm_size(const struct tutti_comm *comm)
{
    return tt_comm_size(api_need(COMM, comm));
}

uint32_t tutti_comm_local(const struct tutti_comm *comm)
{
    return tt_comm_local(api_need(COMM, comm));
}

tutti_status tutti_comm_split(struct tutti_comm *comm, int color, int key,
                              struct tutti_comm **ret_comm, struct tutti_error *err)
{
    struct tt_comm *child = NULL, *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_comm", ret_comm) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_split(c, color, key, &child, err);
    return st ? st : wrap(child, ret_comm, err);
}

tutti_status tutti_comm_shrink(struct tutti_comm *comm, struct tutti_comm **ret_comm,
                               struct tutti_error *err)
{
    struct tt_comm *fewer = NULL, *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_comm", ret_comm) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_shrink(c, &fewer, err);
    return st ? st : wrap(fewer, ret_comm, err);
}

tutti_status tutti_comm_admit(struct tutti_comm *comm, struct tutti_comm **ret_comm,
                              struct tutti_error *err)
{
    struct tt_comm *next = NULL, *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_comm", ret_comm) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_admit(c, &next, err);
    if (st || next != c)
        return st ? st : wrap(next, ret_comm, err);
    *ret_comm = comm;
    return TUTTI_OK;
}

uint32_t tutti_comm_changes(const struct tutti_comm *comm)
{
    return tt_comm_changes(api_need(COMM, comm));
}

void tutti_comm_abort(struct tutti_comm *comm, const char *reason)
{
    tt_comm_abort(api_need(COMM, comm), reason);
}

/* Anything that is no communicator gets the thread's last refusal, so that the reason is never
 * lost. */
const struct tutti_error *tutti_comm_last_error(const struct tutti_comm *comm)
{
    const struct tt_comm *c = tt_api_peek(API_COMM, comm);
    return c ? tt_comm_last_error(c) : tt_api_refusal();
}

tutti_status tutti_comm_report(struct tutti_comm *comm, char **ret_text, struct tutti_error *err)
{
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret_text", ret_text) : TUTTI_ERR_ARG;
    return st ? st : tt_comm_report(c, ret_text, err);
}

static void end_request(void *request)
{
    /* its error, if any, is the communicator's, and closing reports no errors */
    tt_comm_request_end(request);
}

/* Requests end first, while the communicator can still carry them out; then the handle, the
 * memory, the object. */
void tutti_comm_close(struct tutti_comm *comm)
{
    if (tt_api_peek(API_COMM, comm))
        tt_api_each(API_REQUEST, comm, end_request);
    struct tt_comm *c = api_end(COMM, comm);
    if (!c)
        return;
    tt_api_memory_drop(c);
    tt_comm_close(c);
}

/* Leaving is local and cannot wait for a request. */
static void must_not_run(void *request)
{
    if (tt_comm_request_started(request))
        tt_api_stop("tutti_comm_leave",
                    "a request of the communicator is started: wait for it first");
}

void tutti_comm_leave(struct tutti_comm *comm)
{
    if (tt_api_peek(API_COMM, comm))
        tt_api_each(API_REQUEST, comm, must_not_run);
    struct tt_comm *c = api_end(COMM, comm);
    if (!c)
        return;
    tt_api_memory_drop(c);
    tt_comm_leave(c);
}

/* Plans as the call would, and runs nothing. Root 0. */
tutti_status tutti_comm_plan(struct tutti_comm *comm, tutti_coll coll, size_t count,
                             tutti_dtype dtype, tutti_redop op, struct tutti_comm_plan_info *ret,
                             struct tutti_error *err)
{
    struct tt_comm_plan_info info;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (!st)
        st = tt_comm_plan(
            c, &(struct tt_call){.coll = coll, .count = count, .dtype = dtype, .redop = op}, &info,
            err);
    if (!st)
        *ret = (struct tutti_comm_plan_info){info.algo, info.predicted_us, info.bound_us,
                                             info.fused, info.own_us};
    return st;
}

tutti_status tutti_comm_explain(struct tutti_comm *comm, tutti_coll coll, size_t count,
                                tutti_dtype dtype, tutti_redop op, struct tutti_comm_explained *ret,
                                struct tutti_error *err)
{
    struct tt_comm_explained e;
    struct tt_comm *c = api_find(COMM, comm, err);
    tutti_status st = c ? api_given(err, "ret", ret) : TUTTI_ERR_ARG;
    if (st)
        return st;
    /* An older caller's struct is shorter: only as much is filled as it has. */
    size_t size = ret->size < sizeof *ret ? ret->size : sizeof *ret;
    if (size < offsetof(struct tutti_comm_explained, segments))
        return tt_fail(err, TUTTI_ERR_ARG, "explain: the size field is not set");
    st = tt_comm_explain(
        c, &(struct tt_call){.coll = coll, .count = count, .dtype = dtype, .redop = op}, &e, err);
    if (st)
        return st;
    struct tutti_comm_explained all = {.size = ret->size,
                                       .algo = e.algo,
                                       .segments = e.segments,
                                       .message = e.carried.message,
                                       .read = e.carried.read,
                                       .write = e.carried.write,
                                       .box = e.carried.box,
                                       .predicted_us = e.predicted_us,
                                       .bound_us = e.bound_us,
                                       .own_us = e.own_us,
                                       .origin = e.origin};
    snprintf(all.options, sizeof all.options, "%s", e.options);
    memcpy(ret, &all, size);
    return TUTTI_OK;
}
