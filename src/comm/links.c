/* links.c - the sockets of a communicator, made by boot's porter when a schedule first needs them.
 * The tcp transport calls this its source.
 *
 * This file translates between ranks of the group and of the world, and between the porter's errors
 * and what the watch understands: a peer that is gone or unreachable ends like one whose connection
 * broke, and its calls request a verdict as usual. A rank that is out of descriptors is the only
 * one that knows, and tells all. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "boot/porter.h"
#include "comm/comm_int.h"

struct links {
    struct tt_world *world;
    struct tt_desk *desk;
    const uint32_t *members; /* owned by the communicator */
    uint32_t *group_of;      /* by world rank; UINT32_MAX: not reached by sockets */
};

static bool links_want(void *ctx, uint32_t peer)
{
    struct links *l = ctx;
    assert(l->group_of[l->members[peer]] == peer);
    return !tt_boot_desk_want(l->desk, l->members[peer], NULL);
}

/* The errno that the transport reports for a link that could not be made. */
static int error_of(const struct links *l, const struct tutti_error *why)
{
    struct tt_trouble t = {.kind = TT_TROUBLE_ABORT, .peer = UINT32_MAX};
    if (why->status == TUTTI_ERR_PEER)
        return ECONNREFUSED;
    if (why->status == TUTTI_ERR_TIMEOUT)
        return ETIMEDOUT;
    tt_str_fit(t.text, sizeof t.text, why->text);
    tt_watch_report(l->world->watch, &t);
    return EMFILE;
}

static bool links_take(void *ctx, struct tt_tcp_link *ret)
{
    struct links *l = ctx;
    struct tt_porter_link got;
    while (tt_boot_desk_take(l->desk, &got)) {
        uint32_t peer = l->group_of[got.peer];
        int error = got.fd < 0 ? error_of(l, &got.why) : 0;
        *ret = (struct tt_tcp_link){.peer = peer, .fd = got.fd, .error = error};
        if (got.fd >= 0)
            ret->guard = tt_comm_guard_of(l->world, got.peer, &got.keys);
        explicit_bzero(&got.keys, sizeof got.keys);
        if (peer != UINT32_MAX)
            return true;
        if (got.fd >= 0) /* a rank that disagrees about which ranks share a host */
            tt_fd_close(got.fd);
    }
    return false;
}

static void links_close(void *ctx)
{
    struct links *l = ctx;
    tt_boot_desk_close(l->desk);
    free(l->group_of);
    free(l);
}

tutti_status tt_comm_links_open(const struct tt_wire_config *c, const struct tt_wire *w,
                                struct tt_tcp_source *ret, struct tutti_error *err)
{
    uint32_t world = tt_boot_config(c->world->boot)->size;
    struct links *l = tt_zalloc(1, sizeof *l);
    uint32_t *group_of = tt_alloc(world, sizeof *group_of);
    if (!l || !group_of) {
        free(l);
        free(group_of);
        return tt_fail_memory(err, "links");
    }
    *l = (struct links){.world = c->world, .members = c->members, .group_of = group_of};
    for (uint32_t r = 0; r < world; r++)
        group_of[r] = UINT32_MAX;
    assert(w->nlocal <= c->n);
    for (uint32_t r = 0; r < c->n; r++)
        group_of[c->members[r]] = r;
    /* Ranks of this host are reached through shared memory. */
    for (uint32_t k = 0; k < w->nlocal; k++)
        group_of[c->members[w->local[k]]] = UINT32_MAX;
    tutti_status st =
        tt_boot_desk_open(c->world->boot, c->role, c->world->timeout_ns, &l->desk, err);
    if (st) {
        free(l);
        free(group_of);
        return st;
    }
    *ret = (struct tt_tcp_source){.ctx = l,
                                  .peers = c->n - w->nlocal,
                                  .bell = tt_boot_desk_bell(l->desk),
                                  .want = links_want,
                                  .take = links_take,
                                  .close = links_close};
    return TUTTI_OK;
}
