/* wire.c - the links of a group of ranks: one shared region among the ranks of a host,
 * authenticated sockets to the others, joined behind one transport.
 *
 *     find_local -> share_region (offer, map) -> open_shm, open_tcp or open_mpi -> wire_join
 *
 * The region is anonymous memory (memfd) of the lowest local rank, which the others open through
 * /proc while it waits for them: there is no name that a killed process could leave behind. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/comm_int.h"

/* What the lowest rank of each host says about its region (others: zeros), every rank about its
 * cores, and the first one about the group's tags of MPI. Sent between ranks. */
struct offer {
    struct tt_region_key region;
    struct tt_cores cores;
    uint32_t block;
};

/* Group ranks on this host, ascending, this rank included. */
static tutti_status find_local(const struct tt_wire_config *c, struct tt_wire *w,
                               struct tutti_error *err)
{
    const struct tt_boot_peer *peers = tt_boot_peers(c->world->boot);
    w->local = tt_alloc(c->n, sizeof *w->local);
    if (!w->local)
        return tt_fail_memory(err, "local ranks");
    for (uint32_t r = 0; r < c->n; r++) {
        bool here = peers[c->members[r]].host_id == peers[c->members[c->me]].host_id;
        if (r == c->me || (here && !c->apart))
            w->local[w->nlocal++] = r;
    }
    assert(w->nlocal > 0 && w->nlocal <= c->n);
    return TUTTI_OK;
}

/* Rounded up to pages: direct access begins after it. */
static size_t shm_bytes(const struct tt_wire *w)
{
    return (tt_shm_bytes(w->nlocal, TT_RING_BYTES) + 4095) & ~(size_t)4095;
}

/* Size of the windows: room for segments under way to each of the other ranks, and for copies that
 * several ranks read. */
static size_t stream_bytes(uint32_t nlocal)
{
    return (size_t)3 * TT_SEGMENT_BYTES * (nlocal > 4 ? nlocal - 1 : 3);
}

static size_t region_bytes(const struct tt_wire *w)
{
    return shm_bytes(w) + tt_direct_bytes(w->nlocal, TT_STAGE_BYTES, stream_bytes(w->nlocal));
}

/* Creates the region, as the lowest local rank; *ret_offer is what the others need. */
static tutti_status create_region(struct tt_wire *w, struct offer *ret_offer,
                                  struct tutti_error *err)
{
    tutti_status st = tt_shm_region_make(region_bytes(w), &w->region, err);
    return st ? st : tt_shm_region_describe(&w->region, &ret_offer->region, err);
}

/* The group's first member reserves its tags before it is known whether they will be needed. */
static tutti_status make_offer(const struct tt_wire_config *c, struct tt_wire *w, struct offer *ret,
                               struct tutti_error *err)
{
    struct tt_mpi *mpi = c->world->mpi;
    tt_meter_cores_self(&ret->cores);
    if (mpi && c->me == 0) {
        tutti_status st = mpi->ops->reserve(mpi, &ret->block, err);
        if (st)
            return st;
        w->reserved = true;
        w->block = ret->block;
    }
    return w->nlocal > 1 && w->local[0] == c->me ? create_region(w, ret, err) : TUTTI_OK;
}

/* Opens the region of the lowest local rank, after checking that it is the sealed memory of this
 * user that it should be. */
static tutti_status map_region(struct tt_wire *w, const struct tt_region_key *theirs,
                               struct tutti_error *err)
{
    size_t bytes = region_bytes(w), page = (size_t)sysconf(_SC_PAGESIZE);
    if (w->region.base)
        return TUTTI_OK;
    if (theirs->bytes != (bytes + page - 1) / page * page)
        return tt_fail(
            err, TUTTI_ERR_CONNECT,
            "shared memory: the lowest rank of this host offers %llu bytes, %zu expected",
            (unsigned long long)theirs->bytes, bytes);
    return tt_shm_region_join(theirs, &w->region, err);
}

/* Is any rank of the group crowded? All ranks have the same offers, so all get the same answer. */
static tutti_status find_crowd(const struct tt_wire_config *c, struct tt_wire *w,
                               const struct offer *all, struct tutti_error *err)
{
    struct tt_cores *cores = tt_alloc(c->n, sizeof *cores);
    if (!cores)
        return tt_fail_memory(err, "cores");
    for (uint32_t r = 0; r < c->n; r++)
        cores[r] = all[r].cores;
    for (uint32_t r = 0; r < c->n; r++)
        w->oversubscribed |= tt_meter_cores_crowded(cores, c->n, r);
    free(cores);
    return TUTTI_OK;
}

/* Some rank cannot open the region of its host. Everything works without shared memory too, only
 * more slowly. */
static tutti_status do_without(const struct tt_wire_config *c, struct tt_wire *w, uint32_t who,
                               struct tutti_error *err)
{
    if (c->share)
        return tt_fail(err, TUTTI_ERR_CONNECT,
                       "rank %u may not open the shared memory of its host (processes that are not "
                       "dumpable, or hidden in /proc): use "
                       "transport tcp",
                       who);
    if (c->members[c->me] == 0)
        tt_log_write(TT_LOG_WARN, 0,
                     "rank %u may not open the shared memory of its host (processes that are not "
                     "dumpable, or hidden in /proc): all use TCP",
                     who);
    tt_shm_region_free(&w->region);
    w->apart = true;
    w->nlocal = 1;
    w->local[0] = c->me;
    return TUTTI_OK;
}

/* What became of the region, as each rank tells the others: REFUSED is not fatal, UNABLE is. */
enum share { SHARED, REFUSED, UNABLE };

/* All ranks have the same shares, so all decide alike. */
static tutti_status judge_shares(const struct tt_wire_config *c, struct tt_wire *w,
                                 const uint8_t *shares, struct tutti_error *err)
{
    const uint8_t *refused = memchr(shares, REFUSED, c->n), *unable = memchr(shares, UNABLE, c->n);
    if (unable)
        return tt_fail(err, TUTTI_ERR_CONNECT,
                       "rank %u could not make or map the shared memory of its host",
                       c->members[unable - shares]);
    return refused ? do_without(c, w, c->members[refused - shares], err) : TUTTI_OK;
}

/* Offers the region, maps it, and lets the creator close its descriptor once all have mapped it
 * (the second exchange). A region cannot be opened either if its creator has ended after it gave to
 * the second exchange; a rank that gives to the third one was alive when others were refused. All
 * groups of a split take part in each other's exchanges, so none may be skipped. Where the exchange
 * learns of verdicts, a failing rank is reported to all by a verdict; the exchange of a part
 * (MPI's) does not, so there every rank takes part in all exchanges. */
static tutti_status share_region(const struct tt_wire_config *c, struct tt_wire *w,
                                 struct tutti_error *err)
{
    struct offer mine = {0}, *all = tt_zalloc(c->n, sizeof *all);
    uint8_t share, *shares = tt_zalloc(c->n, 1);
    bool hears = c->setup.through != NULL;
    tutti_status own =
        all && shares ? make_offer(c, w, &mine, err) : tt_fail_memory(err, "shared memory");
    tutti_status st =
        hears || !all || !shares ? tt_comm_unable(&c->setup, UINT32_MAX, own, err) : TUTTI_OK;
    if (!st)
        st = c->exchange(c->ctx, &mine, sizeof mine, all, own ? NULL : err);
    if (!st)
        w->block = all[0].block;
    if (!st && !own)
        own = find_crowd(c, w, all, err);
    if (!st && !own && w->nlocal > 1)
        own = map_region(w, &all[w->local[0]].region, err);
    share = !own ? SHARED : own == TUTTI_ERR_CONNECT ? REFUSED : UNABLE;
    if (!st && hears && share == UNABLE)
        st = tt_comm_unable(&c->setup, UINT32_MAX, own, err);
    for (int i = 0; !st && i < (c->apart ? 1 : 2); i++)
        st = c->exchange(c->ctx, &share, 1, shares, share == UNABLE ? NULL : err);
    tt_shm_region_seal(&w->region);
    if (!st)
        st = share == UNABLE ? own : judge_shares(c, w, shares, err);
    free(all);
    free(shares);
    return st;
}

/* Ends waits in shared memory when there is a verdict. */
static bool wire_judged(void *watch)
{
    struct tt_verdict v;
    return tt_watch_verdict(watch, &v);
}

/* *ret_late: the world rank that did not come in time, if it is known. */
static tutti_status open_shm(const struct tt_wire_config *c, struct tt_wire *w,
                             struct tt_transport **ret, uint32_t *ret_late, struct tutti_error *err)
{
    uint32_t me = 0;
    while (w->local[me] != c->me)
        me++;
    struct tt_shm_config shm = {.rank = c->me,
                                .size = c->n,
                                .nlocal = w->nlocal,
                                .me = me,
                                .local = w->local,
                                .region = w->region.base,
                                .ring_bytes = TT_RING_BYTES,
                                .oversubscribed = w->oversubscribed};
    tutti_status st = tt_shm_open(&shm, ret, err);
    w->places = tt_alloc(c->n, sizeof *w->places);
    if (!st && !w->places)
        st = tt_fail_memory(err, "places");
    for (uint32_t r = 0; !st && r < c->n; r++)
        w->places[r] = TT_NO_PLACE;
    for (uint32_t l = 0; !st && l < w->nlocal; l++)
        w->places[w->local[l]] = l;
    w->one_host = w->nlocal == c->n;
    if (st)
        return st;
    uint32_t late = w->nlocal;
    struct tt_direct_config d = {.nlocal = w->nlocal,
                                 .me = me,
                                 .region = (char *)w->region.base + shm_bytes(w),
                                 .doors = w->region.base,
                                 .stage_bytes = TT_STAGE_BYTES,
                                 .stream_bytes = stream_bytes(w->nlocal),
                                 .oversubscribed = w->oversubscribed,
                                 .deadline_ns = tt_now_ns() + c->world->timeout_ns,
                                 .stop = wire_judged,
                                 .stop_arg = c->world->watch,
                                 .ret_late = &late};
    st = tt_direct_open(&d, &w->direct, err);
    *ret_late = late < w->nlocal ? c->members[w->local[late]] : UINT32_MAX;
    return st;
}

/* Sockets to ranks that are not local; each is made when it is first needed (links.c). */
static tutti_status open_tcp(const struct tt_wire_config *c, const struct tt_wire *w,
                             struct tt_transport **ret, struct tutti_error *err)
{
    struct tt_tcp_source source;
    tutti_status st = tt_comm_links_open(c, w, &source, err);
    if (st)
        return st;
    st = tt_tcp_open(
        &(struct tt_tcp_config){.rank = c->me, .size = c->n, .stripes = 1, .source = &source}, ret,
        err);
    if (st)
        source.close(source.ctx);
    return st;
}

/* Reaches every rank through MPI. The transport gives the block back. */
static tutti_status open_mpi(const struct tt_wire_config *c, struct tt_wire *w,
                             struct tt_transport **ret, struct tutti_error *err)
{
    struct tt_mpi *mpi = c->world->mpi;
    w->lent_threads = !mpi->threads;
    tutti_status st = mpi->ops->open(
        mpi,
        &(struct tt_mpi_group){.members = c->members, .n = c->n, .me = c->me, .block = w->block},
        ret, err);
    w->reserved = w->reserved && st;
    return st;
}

/* Makes one transport of the parts there are; routes by rank if there are two. */
static tutti_status wire_join(const struct tt_wire_config *c, struct tt_wire *w,
                              struct tt_transport *shm, struct tt_transport *tcp,
                              struct tutti_error *err)
{
    if (!shm || !tcp) {
        w->transport = shm ? shm : tcp;
        return w->transport ? TUTTI_OK : tt_self_open(c->me, c->n, &w->transport, err);
    }
    uint8_t *route = tt_alloc(c->n, 1);
    if (!route)
        return tt_fail_memory(err, "routes");
    memset(route, 1, c->n);
    for (uint32_t l = 0; l < w->nlocal; l++)
        route[w->local[l]] = 0;
    tutti_status st =
        tt_mux_open(c->me, c->n, (struct tt_transport *[]){shm, tcp}, 2, route, &w->transport, err);
    free(route);
    return st;
}

tutti_status tt_comm_wire_open(const struct tt_wire_config *c, struct tt_wire *ret,
                               struct tutti_error *err)
{
    struct tt_wire w = {.region.fd = -1};
    struct tt_transport *shm = NULL, *tcp = NULL;
    uint32_t late = UINT32_MAX;
    tutti_status own = TUTTI_OK, st = find_local(c, &w, err);
    if (!st)
        st = share_region(c, &w, err);
    if (!st && w.nlocal > 1)
        own = open_shm(c, &w, &shm, &late, err);
    if (!st && !own && w.nlocal < c->n)
        own = c->world->mpi ? open_mpi(c, &w, &tcp, err) : open_tcp(c, &w, &tcp, err);
    if (!st && !own)
        own = wire_join(c, &w, shm, tcp, err);
    if (w.reserved)
        c->world->mpi->ops->release(c->world->mpi, w.block);
    if (!st)
        st = tt_comm_unable(&c->setup, late, own, err);
    if (st) {
        if (shm && !w.transport)
            shm->ops->close(shm);
        if (tcp && !w.transport)
            tcp->ops->close(tcp);
        tt_comm_wire_close(&w);
        return st;
    }
    w.fd = tt_transport_fd(w.transport);
    *ret = w;
    return TUTTI_OK;
}

void tt_comm_wire_close(struct tt_wire *w)
{
    if (w->transport)
        w->transport->ops->close(w->transport);
    tt_direct_close(w->direct);
    tt_shm_region_free(&w->region);
    free(w->local);
    free(w->places);
    *w = (struct tt_wire){.region.fd = -1};
}
