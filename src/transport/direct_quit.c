/* direct_quit.c - leaves an operation in the middle, although peers may still write into buffers
 * that this rank has to give back.
 *
 * A rank that returns an error gives its buffers back to the program while others may still be in
 * the operation. What they read from it then is worthless, which they find out themselves: they
 * check for the abort after reading. What they write would destroy what the program puts there
 * next, so writing needs a lease:
 *
 *     writer    lease = 1; aborted? ------> write a block; aborted? -> write a block; ..; lease = 0
 *     leaver    aborted = 1; lease == 0? -> return
 *
 * Both sides store, then load (seq_cst): either the writer sees the abort before it writes, or the
 * leaver sees the lease and waits, for one block at most. A writer that does not end its lease has
 * been killed, or was stopped and may go on at any time. Then the leaver takes its buffers out of
 * the shared heap, by putting copies of the pages at the same addresses. The heap is not shared
 * afterwards; no rank needs it, since an abort is final. */
#include <assert.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "transport/direct_int.h"

/* How long a lease is waited for: far longer than a block takes. */
static const uint64_t PATIENCE_NS = 20000000;

void tt_direct_abort(struct tt_direct *d)
{
    atomic_store(&d->shared->aborted, 1);
    /* The store comes before anything that this rank does to its buffers from now on; it pairs
     * with the fence in tt_direct_aborted. */
    atomic_thread_fence(memory_order_seq_cst);
    tt_direct_ring_all(d);
}

TT_HOT bool tt_direct_aborted(const struct tt_direct *d)
{
    /* Reads of peers' memory before this call stay before the load: if they saw bytes written after
     * an abort, the load sees the abort. */
    atomic_thread_fence(memory_order_acquire);
    return atomic_load(&d->shared->aborted) != 0;
}

/* Store, then load: see above. */
TT_HOT bool tt_direct_lease(struct tt_direct *d)
{
    atomic_store(&d->shared->rank[d->me].lease, 1);
    if (!tt_direct_aborted(d))
        return true;
    tt_direct_release(d);
    return false;
}

TT_HOT void tt_direct_release(struct tt_direct *d)
{
    atomic_store(&d->shared->rank[d->me].lease, 0);
}

/* Does any other rank hold a lease? It does not say for whose heap. */
static bool leased(const struct tt_direct *d)
{
    for (uint32_t r = 0; r < d->n; r++)
        if (r != d->me && atomic_load(&d->shared->rank[r].lease))
            return true;
    return false;
}

/* Replaces the pages of a span by private copies, at the same addresses. Without memory for them
 * the pages stay shared (direct.h). */
static void detach(char *at, size_t bytes)
{
    void *copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy == MAP_FAILED)
        return;
    memcpy(copy, at, bytes);
    if (mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at) == MAP_FAILED)
        munmap(copy, bytes);
}

/* Detaching is done once: afterwards the buffers are private, whatever leases say. */
void tt_direct_quit(struct tt_direct *d)
{
    uint64_t until = tt_now_ns() + PATIENCE_NS;
    tt_direct_abort(d);
    assert(tt_direct_aborted(d));
    while (leased(d) && tt_now_ns() < until)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    for (size_t i = 0; !d->detached && leased(d) && i < d->heap_spans.len; i++) {
        const struct tt_direct_span *s = tt_vec_at(&d->heap_spans, i);
        detach((char *)d->heap[d->me].base + s->at, s->bytes);
    }
    d->detached = d->detached || leased(d);
}
