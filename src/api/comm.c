/* Public communicator functions over comm/. */
#include "api/api.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "comm/comm.h"

/* The public object is comm's own; no wrapper stands between a call and the engine. */
static struct tt_comm *inner(struct tutti_comm *c)
{
    return (struct tt_comm *)c;
}

static tutti_status identity(const struct tutti_comm_options *o, struct tt_comm_config *c, struct tutti_error *err)
{
    if (!o->given)
        return TUTTI_OK;
    if (o->ranks == 0 || o->rank >= o->ranks)
        return tt_fail(err, TUTTI_ERR_RANGE, "rank %u of %u ranks does not exist", o->rank, o->ranks);
    if (o->ranks > 1 && (!o->rendezvous || strlen(o->rendezvous) >= sizeof c->boot.rendezvous))
        return tt_fail(err, TUTTI_ERR_ARG, "a rendezvous host:port of at most %zu characters is needed", sizeof c->boot.rendezvous - 1);
    c->boot.rank = o->rank;
    c->boot.size = o->ranks;
    c->boot.local_rank = o->local_rank;
    snprintf(c->boot.rendezvous, sizeof c->boot.rendezvous, "%s", o->rendezvous ? o->rendezvous : "");
    return TUTTI_OK;
}

static tutti_status merge(const struct tutti_comm_options *o, struct tt_comm_config *c, struct tutti_error *err)
{
    if (!o)
        return TUTTI_OK;
    if (o->size != sizeof *o)
        return tt_fail(err, TUTTI_ERR_ARG, "options: size field is not sizeof(struct tutti_comm_options)");
    if (o->iface && strlen(o->iface) >= sizeof c->boot.iface)
        return tt_fail(err, TUTTI_ERR_ARG, "interface filter is longer than %zu characters", sizeof c->boot.iface - 1);
    if (o->iface)
        snprintf(c->boot.iface, sizeof c->boot.iface, "%s", o->iface);
    c->boot.insecure = c->boot.insecure || o->insecure;
    c->transport = o->transport ? o->transport : c->transport;
    c->topo = o->topo ? o->topo : c->topo;
    c->algo = o->algo ? o->algo : c->algo;
    c->reproducible = c->reproducible || o->reproducible;
    if (o->timeout_us)
        c->timeout_ns = c->boot.timeout_ns = o->timeout_us * 1000;
    return identity(o, c, err);
}

tutti_status tutti_comm_open(const struct tutti_comm_options *options, struct tutti_comm **ret_comm, struct tutti_error *err)
{
    struct tt_comm_config c;
    struct tt_comm *comm;
    if (!ret_comm)
        return tt_fail(err, TUTTI_ERR_ARG, "no place for the communicator");
    if (options && options->key_file)
        setenv("TUTTI_KEY_FILE", options->key_file, 1);
    bool mpi = options && options->size == sizeof *options && options->transport && tt_streq(options->transport, "mpi");
    tutti_status st = mpi ? tt_comm_options_from_env(&c, err) : tt_comm_from_env(&c, err);
    if (!st)
        st = merge(options, &c, err);
    if (!st)
        st = tt_comm_open(&c, &comm, err);
    if (!st)
        *ret_comm = (struct tutti_comm *)comm;
    return st;
}

static tutti_status parent_gather(void *ctx, const void *mine, size_t bytes, void *ret_all, struct tutti_error *err)
{
    const struct tutti_parent *p = ctx;
    return p->gather(p->ctx, mine, bytes, ret_all) ? tt_fail(err, TUTTI_ERR_CONNECT, "the ranks cannot exchange %zu bytes", bytes)
                                                   : TUTTI_OK;
}

tutti_status tutti_comm_open_among(const struct tutti_comm_options *options, const struct tutti_parent *parent,
                                   struct tutti_comm **ret_comm, struct tutti_error *err)
{
    struct tt_comm_config c;
    struct tt_comm *comm;
    if (!ret_comm || !parent || parent->rank >= parent->ranks)
        return tt_fail(err, TUTTI_ERR_ARG, "a place for the communicator and a parent with ranks are needed");
    struct tt_boot_parent p = {.rank = parent->rank,
                               .size = parent->ranks,
                               .local_rank = parent->local_rank,
                               .gather = parent_gather,
                               .ctx = (void *)(uintptr_t)parent};
    tutti_status st = tt_comm_options_from_env(&c, err);
    uint64_t meeting_ns = st ? 0 : c.boot.timeout_ns;
    if (!st)
        st = merge(options, &c, err);
    c.boot.timeout_ns = meeting_ns;
    c.parent = &p;
    if (!st)
        st = tt_comm_open(&c, &comm, err);
    if (!st)
        *ret_comm = (struct tutti_comm *)comm;
    return st;
}

void tutti_comm_algo_of(struct tutti_comm *comm, tutti_coll coll)
{
    tt_comm_algo_of(inner(comm), coll);
}

void tutti_comm_on_idle(struct tutti_comm *comm, void (*idle)(void *ctx), void *ctx)
{
    tt_comm_on_idle(inner(comm), idle, ctx);
}

uint32_t tutti_comm_rank(const struct tutti_comm *comm)
{
    return tt_comm_rank((const struct tt_comm *)comm);
}

uint32_t tutti_comm_size(const struct tutti_comm *comm)
{
    return tt_comm_size((const struct tt_comm *)comm);
}

tutti_status tutti_comm_split(struct tutti_comm *comm, int color, int key, struct tutti_comm **ret_comm, struct tutti_error *err)
{
    struct tt_comm *child = NULL;
    tutti_status st = tt_comm_split(inner(comm), color, key, &child, err);
    if (!st)
        *ret_comm = (struct tutti_comm *)child;
    return st;
}

void tutti_comm_abort(struct tutti_comm *comm, const char *reason)
{
    tt_comm_abort(inner(comm), reason);
}

const struct tutti_error *tutti_comm_last_error(const struct tutti_comm *comm)
{
    return tt_comm_last_error((const struct tt_comm *)comm);
}

tutti_status tutti_comm_report(struct tutti_comm *comm, char **ret_text, struct tutti_error *err)
{
    return tt_comm_report(inner(comm), ret_text, err);
}

void tutti_comm_close(struct tutti_comm *comm)
{
    tt_comm_close(inner(comm));
}

tutti_status tutti_mem_alloc(struct tutti_comm *comm, size_t bytes, void **ret_memory, struct tutti_error *err)
{
    return tt_comm_mem_alloc(inner(comm), bytes, ret_memory, err);
}

void tutti_mem_free(struct tutti_comm *comm, void *memory)
{
    tt_comm_mem_free(inner(comm), memory);
}

tutti_status tutti_comm_plan(struct tutti_comm *comm, tutti_coll coll, size_t count, tutti_dtype dtype, tutti_redop op,
                             struct tutti_comm_plan_info *ret, struct tutti_error *err)
{
    struct tt_comm_plan_info info;
    tutti_status st = tt_comm_plan(inner(comm), &(struct tt_call){.coll = coll, .count = count, .dtype = dtype, .redop = op}, &info, err);
    if (!st)
        *ret = (struct tutti_comm_plan_info){info.algo, info.predicted_us, info.bound_us, info.fused, info.own_us};
    return st;
}

tutti_status tutti_comm_explain(struct tutti_comm *comm, tutti_coll coll, size_t count, tutti_dtype dtype, tutti_redop op,
                                struct tutti_comm_explained *ret, struct tutti_error *err)
{
    struct tt_comm_explained e;
    size_t size = ret->size < sizeof *ret ? ret->size : sizeof *ret;
    if (size < offsetof(struct tutti_comm_explained, segments))
        return tt_fail(err, TUTTI_ERR_ARG, "explain: the size field is not set");
    tutti_status st = tt_comm_explain(inner(comm), &(struct tt_call){.coll = coll, .count = count, .dtype = dtype, .redop = op}, &e, err);
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
                                       .own_us = e.own_us};
    snprintf(all.options, sizeof all.options, "%s", e.options);
    memcpy(ret, &all, size);
    return TUTTI_OK;
}

tutti_status tutti_send(struct tutti_comm *comm, const void *data, size_t count, tutti_dtype dtype, uint32_t peer)
{
    return tt_comm_send(inner(comm), data, count, dtype, peer);
}

tutti_status tutti_recv(struct tutti_comm *comm, void *data, size_t count, tutti_dtype dtype, uint32_t peer)
{
    return tt_comm_recv(inner(comm), data, count, dtype, peer);
}

tutti_status tutti_request_start(struct tutti_request *request)
{
    return tt_request_start((struct tt_request *)request);
}

tutti_status tutti_request_test(struct tutti_request *request)
{
    return tt_request_test((struct tt_request *)request);
}

tutti_status tutti_request_wait(struct tutti_request *request)
{
    return tt_request_wait((struct tt_request *)request);
}

tutti_status tutti_request_join(struct tutti_request *request)
{
    return tt_request_join((struct tt_request *)request);
}

const char *tutti_request_algo(const struct tutti_request *request)
{
    return tt_request_algo((const struct tt_request *)request);
}

void tutti_request_free(struct tutti_request *request)
{
    tt_request_free((struct tt_request *)request);
}
