/* direct_mem.c - reaches a peer's heap through its mapping here. Ranks that are threads of one
 * process see each other's memory as it is.
 *
 *     remote address - heap_base[peer] = offset;   offset + heap[peer].base = address here
 *
 * Invariant: resolving is pure arithmetic on what was learnt when opening, so it can be done for
 * every operation. Addresses come from peers: whatever is not inside the heap resolves to NULL. */
#include <assert.h>

#include "transport/direct_int.h"

/* Ranks with one process id share all addresses. */
static bool same_process(const struct tt_direct *d, uint32_t peer)
{
    return d->pid[peer] == d->pid[d->me];
}

/* Is [at, at + bytes) inside the rank's heap, by its own addresses? No sum can overflow: `offset`
 * is checked first. */
static bool in_heap(const struct tt_direct *d, uint32_t rank, uint64_t at, size_t bytes)
{
    uint64_t offset = at - d->heap_base[rank];
    size_t size = d->heap[rank].bytes;

    return tt_direct_has_heap(d) && at >= d->heap_base[rank] && offset <= size &&
           bytes <= size - offset;
}

void *tt_direct_resolve(const struct tt_direct *d, uint32_t peer, uint64_t remote, size_t bytes)
{
    assert(peer < d->n);
    if (same_process(d, peer))
        return (void *)(uintptr_t)remote;
    return in_heap(d, peer, remote, bytes)
               ? (char *)d->heap[peer].base + (remote - d->heap_base[peer])
               : NULL;
}

const struct tt_region *tt_direct_heap(const struct tt_direct *d)
{
    return tt_direct_has_heap(d) ? &d->heap[d->me] : NULL;
}

bool tt_direct_owns(const struct tt_direct *d, const void *p, size_t bytes)
{
    return in_heap(d, d->me, (uintptr_t)p, bytes);
}
