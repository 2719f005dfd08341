/* transport.c - pieces as MPI messages. A small piece travels behind its header in one message. A
 * large piece is announced by its header and follows in a message of its own.
 *
 *     tag 0        header [payload up to TT_INLINE_MAX]     SLOTS_IN receives posted per peer
 *     tag 1 + s    payload of the piece announced on stream s; streams 0 .. STREAMS-1 take turns
 *
 * All groups of ranks use one MPI communicator, and each has TT_MPI_TAGS tags of its own (join.c).
 *
 * MPI is only given memory of the transport: slots and stream bodies. MPI may use memory that it
 * was given until it reports completion, which can be long after an error, when the caller's memory
 * must no longer be touched. (MPI_Cancel does not help: a message that has been matched or sent is
 * not cancelled.) Outgoing data is therefore copied first, in pieces of at most 128 KiB that stay
 * in the cache; incoming data is used where it arrives.
 *
 * MPI keeps the order of messages with the same tag between two ranks, so the k-th payload on a
 * stream belongs to the k-th announcement on it. A stream is busy from its announcement until its
 * payload is released. An announcement on a busy stream waits, and so does everything behind it
 * from that peer. Receives are matched in the order in which they were posted: `posted` is that
 * queue, and only its front is tested.
 *
 * MPI does not report which rank died; the watch (watch/watch.h) does. An orderly end has a header
 * of its own (BYE), so that every rank knows when nothing more will arrive and can close without
 * losing a message.
 *
 * A transport is used by one thread at a time, like every transport; it has no lock. */
#include <stdlib.h>
#include <sys/mman.h>

#include "mpi/mpi_int.h"

/* How long closing waits for the farewells (BYE) of the other ranks. */
static const uint64_t farewell_ns = 1000000000, farewell_after_fault_ns = 100000000;
static const size_t PEER_BODIES = (size_t)(SLOTS_OUT + STREAMS) * TT_PIECE_MAX;

/* ---- opening and closing ---- */

/* Every peer has said BYE, and MPI has completed everything that was given to it except posted
 * receives. */
static bool all_parted(const struct mpi *t)
{
    for (uint32_t r = 0; r < t->base.size; r++)
        if (r != t->base.rank && !t->peer[r].closed)
            return false;
    return t->nbusy == 0;
}

/* Says BYE to all peers and polls until all of them have done so, for patience_ns at most. False:
 * messages are still under way. */
static bool part(struct mpi *t, uint64_t patience_ns)
{
    uint64_t until = tt_now_ns() + patience_ns;
    struct header bye = {.kind = BYE};
    struct tt_event ev[16];
    t->closing = true;
    for (uint32_t r = 0; r < t->base.size && !t->failed; r++) {
        struct peer *p = &t->peer[r];
        if (r == t->base.rank || p->nfree_out == 0)
            continue;
        uint8_t slot = p->free_out[--p->nfree_out];
        p->cookie[slot] = 0;
        p->left[slot] = 0;
        tt_mpi_send_slot(t, r, slot, &bye, 0);
    }
    for (unsigned looks = 0; !t->failed && !all_parted(t) && tt_now_ns() < until; looks++) {
        size_t n = tt_mpi_poll(&t->base, ev, countof(ev));
        for (size_t i = 0; i < n; i++)
            tt_mpi_release(&t->base, &ev[i]);
        if (n == 0)
            tt_mpi_nap(looks);
    }
    return !t->failed && all_parted(t);
}

/* The receives that are left can never match: every peer has said BYE. */
static void cancel_receives(struct mpi *t)
{
    for (uint32_t r = 0; r < t->base.size; r++) {
        struct peer *p = &t->peer[r];
        for (; p->nposted; p->nposted--, p->front = (p->front + 1) % SLOTS_IN) {
            MPI_Request *request = &p->in_request[p->posted[p->front]];
            PMPI_Cancel(request);
            PMPI_Wait(request, MPI_STATUS_IGNORE);
        }
    }
}

static void free_parts(struct mpi *t)
{
    if (t->bodies)
        munmap(t->bodies, t->base.size * PEER_BODIES);
    free(t->rank);
    free(t->peer);
    free(t->front);
    free(t->busy);
    free(t->way);
    free(t->done);
    free(t->status);
    free(t->news);
    free(t->store);
    free(t);
}

/* If messages are still under way, their memory and tags are never used again, because MPI may
 * still write to them. */
static void transport_end(struct mpi *t, uint64_t patience_ns)
{
    if (!part(t, patience_ns)) {
        tt_mpi_unfinished = true;
        return;
    }
    cancel_receives(t);
    tt_mpi_tags_release(t->tag);
    free_parts(t);
}

static void mpi_close(struct tt_transport *base)
{
    transport_end((struct mpi *)base, farewell_ns);
}

/* After an error ranks end each in its own way, and some without MPI_Finalize, which waits for all
 * ranks: this one must not call it either, even if every peer has said BYE to it. */
static void mpi_abandon(struct tt_transport *base)
{
    tt_mpi_unfinished = true;
    transport_end((struct mpi *)base, farewell_after_fault_ns);
}

static const struct tt_transport_ops mpi_ops = {
    .name = "mpi",
    .desc = "messages of an MPI library",
    .send = tt_mpi_send,
    .accept = tt_mpi_accept,
    .release = tt_mpi_release,
    .poll = tt_mpi_poll,
    .wait = tt_mpi_wait,
    .close = mpi_close,
    .abandon = mpi_abandon,
};

static bool make_room(struct mpi *t, uint32_t size)
{
    size_t slots = (size_t)size * (SLOTS_IN + SLOTS_OUT),
           busy = (size_t)size * (2 * SLOTS_OUT + STREAMS);
    t->rank = tt_alloc(size, sizeof *t->rank);
    t->peer = tt_zalloc(size, sizeof *t->peer);
    t->front = tt_alloc(size, sizeof *t->front);
    t->busy = tt_alloc(busy, sizeof *t->busy);
    t->way = tt_alloc(busy, sizeof *t->way);
    t->done = tt_alloc(busy, sizeof *t->done);
    t->status = tt_alloc(busy, sizeof *t->status);
    t->news = tt_alloc(busy, sizeof *t->news);
    t->store = tt_zalloc(slots, SLOT);
    /* Most peers exchange only small pieces, so bodies are reserved and not backed until they are
     * used. */
    void *bodies = mmap(NULL, size * PEER_BODIES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    t->bodies = bodies == MAP_FAILED ? NULL : bodies;
    return t->bodies && t->rank && t->peer && t->front && t->busy && t->way && t->done &&
           t->status && t->news && t->store;
}

/* Carves the peer's slots and bodies out of the common blocks and posts its receives; this rank
 * itself gets none. */
static void prepare_peer(struct mpi *t, uint32_t r)
{
    struct peer *p = &t->peer[r];
    p->in = t->store + (size_t)r * (SLOTS_IN + SLOTS_OUT) * SLOT;
    p->out = p->in + (size_t)SLOTS_IN * SLOT;
    t->front[r] = MPI_REQUEST_NULL;
    p->body = t->bodies + r * PEER_BODIES;
    for (size_t i = 0; i < STREAMS; i++)
        p->stream[i].body = p->body + (SLOTS_OUT + i) * TT_PIECE_MAX;
    if (r == t->base.rank)
        return;
    for (uint8_t i = 0; i < SLOTS_OUT; i++)
        p->free_out[p->nfree_out++] = i;
    for (uint8_t i = 0; i < SLOTS_IN; i++)
        tt_mpi_post(t, r, i);
}

tutti_status tt_mpi_transport(MPI_Comm comm, int tag, const struct tt_mpi_group *g,
                              struct tt_transport **ret, struct tutti_error *err)
{
    struct mpi *t = tt_zalloc(1, sizeof *t);
    if (t)
        t->base = (struct tt_transport){&mpi_ops, g->me, g->n};
    if (!t || !make_room(t, g->n)) {
        if (t)
            free_parts(t);
        return tt_fail_memory(err, "mpi transport");
    }
    t->comm = comm;
    t->tag = tag;
    for (uint32_t r = 0; r < g->n; r++) {
        t->rank[r] = (int)g->members[r];
        prepare_peer(t, r);
    }
    *ret = &t->base;
    return TUTTI_OK;
}
