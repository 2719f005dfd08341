/* direct_mem.c - reaching a peer's memory: by mapping for heap buffers, by the kernel's copy for ordinary ones.
 *
 * The kernel's copy (process_vm_readv) costs a system call and pins pages, but saves the second copy that a window needs. Ranks that are
 * threads of one process see each other's memory as it is. Invariant: resolve is pure arithmetic on what was learnt when opening, so it
 * can be asked per operation. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "transport/direct_parts.h"

static tutti_status copy_status(void)
{
    switch (errno) {
    case ESRCH:
        return TUTTI_ERR_PEER;
    case EPERM:
    case ENOSYS:
        return TUTTI_ERR_REFUSED;
    case EFAULT:
        return TUTTI_ERR_ARG;
    default:
        return TUTTI_ERR_IO;
    }
}

/* The kernel may stop early: at a bad page, and after 2 GiB. */
tutti_status tt_direct_copy_from(uint32_t pid, uint64_t remote, void *local, size_t bytes)
{
    size_t done = 0;

    while (done < bytes) {
        struct iovec here = {.iov_base = (char *)local + done, .iov_len = bytes - done};
        struct iovec there = {.iov_base = (void *)(uintptr_t)(remote + done), .iov_len = bytes - done};
        ssize_t n = process_vm_readv((pid_t)pid, &here, 1, &there, 1, 0);
        if (n <= 0)
            return n < 0 ? copy_status() : TUTTI_ERR_ARG;
        done += (size_t)n;
    }
    return TUTTI_OK;
}

static bool same_process(const struct tt_direct *d, uint32_t peer)
{
    return d->pid[peer] == d->pid[d->me];
}

tutti_status tt_direct_read(const struct tt_direct *d, uint32_t peer, uint64_t remote, void *local, size_t bytes)
{
    assert(peer < d->n);
    if (bytes && same_process(d, peer))
        memmove(local, (const void *)(uintptr_t)remote, bytes);
    else if (!tt_direct_can_read(d))
        return TUTTI_ERR_REFUSED;
    else
        return tt_direct_copy_from(d->pid[peer], remote, local, bytes);
    return TUTTI_OK;
}

static bool in_heap(const struct tt_direct *d, uint32_t rank, uint64_t at, size_t bytes)
{
    uint64_t offset = at - d->heap_base[rank];
    size_t size = d->heap[rank].bytes;

    return tt_direct_has_heap(d) && at >= d->heap_base[rank] && offset <= size && bytes <= size - offset;
}

void *tt_direct_resolve(const struct tt_direct *d, uint32_t peer, uint64_t remote, size_t bytes)
{
    assert(peer < d->n);
    if (same_process(d, peer))
        return (void *)(uintptr_t)remote;
    return in_heap(d, peer, remote, bytes) ? (char *)d->heap[peer].base + (remote - d->heap_base[peer]) : NULL;
}

bool tt_direct_owns(const struct tt_direct *d, const void *p, size_t bytes)
{
    return in_heap(d, d->me, (uintptr_t)p, bytes);
}
