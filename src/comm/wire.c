/* wire.c - the links of a group of ranks: one shared region among the ranks of a host, authenticated sockets to the others, joined behind
 * one transport. The region is anonymous memory (memfd) of the lowest local rank that the others open through /proc while it waits for
 * them: no name exists that a killed process could leave behind. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "comm/parts.h"

/* What the lowest rank of each host tells about its region (others: zeros), and everybody about its cores. */
struct offer {
    uint64_t bytes;
    int32_t pid, fd;
    struct tt_cores cores;
};

/* Group ranks on my host, rising, me included. */
static tutti_status find_local(const struct tt_wire_config *c, struct tt_wire *w, struct tutti_error *err)
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
    return TUTTI_OK;
}

static size_t shm_bytes(const struct tt_wire *w)
{
    return (tt_shm_bytes(w->nlocal, TT_RING_BYTES) + 4095) & ~(size_t)4095;
}

/* Windows: each of the others has a segment under way, and as many again are for copies that several read. */
static size_t stream_bytes(uint32_t nlocal)
{
    return (size_t)3 * TT_SEGMENT_BYTES * (nlocal > 4 ? nlocal - 1 : 3);
}

/* Creates the region when I am the lowest local rank; *ret_offer is what the others need. */
static tutti_status create_region(const struct tt_wire_config *c, struct tt_wire *w, struct offer *ret_offer, struct tutti_error *err)
{
    *ret_offer = (struct offer){.fd = -1};
    tt_cores_self(&ret_offer->cores);
    if (w->nlocal < 2 || w->local[0] != c->me)
        return TUTTI_OK;
    int fd = memfd_create("tutti", MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)w->region_bytes) != 0) {
        tutti_status st =
            tt_fail(err, TUTTI_ERR_CONNECT, "shared memory of %zu bytes cannot be made: %s", w->region_bytes, strerror(errno));
        if (fd >= 0)
            close(fd);
        return st;
    }
    ret_offer->bytes = w->region_bytes;
    ret_offer->pid = (int32_t)getpid();
    ret_offer->fd = fd;
    return TUTTI_OK;
}

static tutti_status map_region(struct tt_wire *w, const struct offer *mine, const struct offer *theirs, struct tutti_error *err)
{
    char path[64];
    int fd = mine->fd;
    if (theirs->bytes != w->region_bytes)
        return tt_fail(err, TUTTI_ERR_CONNECT, "shared memory: the lowest rank of this host offers %llu bytes, %zu expected",
                       (unsigned long long)theirs->bytes, w->region_bytes);
    if (fd < 0) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", theirs->pid, theirs->fd);
        fd = open(path, O_RDWR | O_CLOEXEC);
    }
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, w->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int saved = errno;
    if (fd >= 0 && mine->fd < 0)
        close(fd);
    if (p == MAP_FAILED)
        return tt_fail(err, TUTTI_ERR_CONNECT, "shared memory of this host cannot be mapped: %s", strerror(saved));
    w->region = p;
    return TUTTI_OK;
}

static tutti_status find_crowd(const struct tt_wire_config *c, struct tt_wire *w, const struct offer *all, struct tutti_error *err)
{
    struct tt_cores *cores = tt_alloc(c->n, sizeof *cores);
    if (!cores)
        return tt_fail_memory(err, "cores");
    for (uint32_t r = 0; r < c->n; r++)
        cores[r] = all[r].cores;
    for (uint32_t r = 0; r < c->n; r++)
        w->oversubscribed |= tt_cores_crowded(cores, c->n, r);
    free(cores);
    return TUTTI_OK;
}

/* Offers, maps, and lets the creator close its descriptor once all have mapped (the second exchange). Every rank takes part in both
 * exchanges whatever happened to it, so that a failure on one host is an error everywhere and not a hang. */
static tutti_status share_region(const struct tt_wire_config *c, struct tt_wire *w, struct tutti_error *err)
{
    struct offer mine, *all = tt_zalloc(c->n, sizeof *all);
    uint8_t ok = 0, *oks = tt_zalloc(c->n, 1);
    tutti_status st = TUTTI_ERR_MEMORY, local = TUTTI_OK;
    if (!all || !oks) {
        st = tt_fail_memory(err, "shared memory");
        goto out;
    }
    w->region_bytes = shm_bytes(w) + tt_direct_bytes(w->nlocal, TT_STAGE_BYTES, stream_bytes(w->nlocal));
    local = create_region(c, w, &mine, err);
    st = c->exchange(c->ctx, &mine, sizeof mine, all, local ? NULL : err);
    if (!st && !local)
        local = find_crowd(c, w, all, err);
    if (!st && !local && w->nlocal > 1)
        local = map_region(w, &mine, &all[w->local[0]], err);
    ok = local == TUTTI_OK;
    if (!st)
        st = c->exchange(c->ctx, &ok, 1, oks, local ? NULL : err);
    if (mine.fd >= 0)
        close(mine.fd);
    for (uint32_t r = 0; !st && !local && r < c->n; r++)
        if (!oks[r])
            local = tt_fail(err, TUTTI_ERR_CONNECT, "rank %u could not map its host's shared memory", r);
out:
    free(all);
    free(oks);
    return st ? st : local;
}

static tutti_status open_shm(const struct tt_wire_config *c, struct tt_wire *w, struct tt_transport **ret, struct tutti_error *err)
{
    uint32_t me = 0;
    while (w->local[me] != c->me)
        me++;
    struct tt_shm_config shm = {.rank = c->me,
                                .size = c->n,
                                .nlocal = w->nlocal,
                                .me = me,
                                .local = w->local,
                                .region = w->region,
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
    struct tt_direct_config d = {.nlocal = w->nlocal,
                                 .me = me,
                                 .region = (char *)w->region + shm_bytes(w),
                                 .doors = w->region,
                                 .stage_bytes = TT_STAGE_BYTES,
                                 .stream_bytes = stream_bytes(w->nlocal),
                                 .oversubscribed = w->oversubscribed,
                                 .deadline_ns = tt_now_ns() + c->world->timeout_ns};
    return tt_direct_open(&d, &w->direct, err);
}

/* Sockets to ranks that are not local, made when they are first needed (links.c). */
static tutti_status open_tcp(const struct tt_wire_config *c, const struct tt_wire *w, struct tt_transport **ret, struct tutti_error *err)
{
    struct tt_tcp_source source;
    tutti_status st = tt_links_open(c, w, &source, err);
    if (st)
        return st;
    st = tt_tcp_open(&(struct tt_tcp_config){.rank = c->me, .size = c->n, .stripes = 1, .source = &source}, ret, err);
    if (st)
        source.close(source.ctx);
    return st;
}

/* Through MPI to everybody, on a communicator of its own. */
static tutti_status open_mpi(const struct tt_wire_config *c, struct tt_wire *w, struct tt_transport **ret, struct tutti_error *err)
{
    struct tt_mpi *mpi = c->world->mpi;
    w->lent_threads = !mpi->threads;
    return mpi->ops->open(mpi, &(struct tt_mpi_group){.members = c->members, .n = c->n, .me = c->me, .role = (uint32_t)c->role}, ret, err);
}

/* One transport from the parts there are. */
static tutti_status join(const struct tt_wire_config *c, struct tt_wire *w, struct tt_transport *shm, struct tt_transport *tcp,
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
    tutti_status st = tt_mux_open(c->me, c->n, (struct tt_transport *[]){shm, tcp}, 2, route, &w->transport, err);
    free(route);
    return st;
}

tutti_status tt_wire_open(const struct tt_wire_config *c, struct tt_wire *ret, struct tutti_error *err)
{
    struct tt_wire w = {0};
    struct tt_transport *shm = NULL, *tcp = NULL;
    tutti_status st = find_local(c, &w, err);
    if (!st)
        st = share_region(c, &w, err);
    if (!st && w.nlocal > 1)
        st = open_shm(c, &w, &shm, err);
    if (!st && w.nlocal < c->n)
        st = c->world->mpi ? open_mpi(c, &w, &tcp, err) : open_tcp(c, &w, &tcp, err);
    if (!st)
        st = join(c, &w, shm, tcp, err);
    if (st) {
        if (shm && !w.transport)
            shm->ops->close(shm);
        if (tcp && !w.transport)
            tcp->ops->close(tcp);
        tt_wire_close(&w);
        return st;
    }
    w.fd = tt_transport_fd(w.transport);
    *ret = w;
    return TUTTI_OK;
}

void tt_wire_close(struct tt_wire *w)
{
    if (w->transport)
        w->transport->ops->close(w->transport);
    tt_direct_close(w->direct);
    if (w->region)
        munmap(w->region, w->region_bytes);
    free(w->local);
    free(w->places);
    *w = (struct tt_wire){0};
}
