/* memory.c - buffers that the other ranks of the host can read: from the shared heap if there is
 * one, else ordinary memory. alloc and free decide by the same question. */
#include <stdlib.h>

#include "comm/comm_int.h"

tutti_status tt_comm_mem_alloc(struct tt_comm *c, size_t bytes, void **ret, struct tutti_error *err)
{
    void *p = NULL;
    tt_comm_lock(c);
    if (bytes > PTRDIFF_MAX) /* no object is larger */
        p = NULL;
    else if (c->wire.direct && tt_direct_has_heap(c->wire.direct))
        p = tt_direct_heap_alloc(c->wire.direct, bytes ? bytes : 1);
    else if (posix_memalign(&p, 64, bytes ? bytes : 1) != 0)
        p = NULL;
    tt_comm_unlock(c);
    if (!p)
        return tt_fail(err, TUTTI_ERR_MEMORY, "%zu bytes of shared memory cannot be had", bytes);
    *ret = p;
    return TUTTI_OK;
}

void tt_comm_mem_free(struct tt_comm *c, void *p)
{
    tt_comm_lock(c);
    if (c->wire.direct && tt_direct_has_heap(c->wire.direct))
        tt_direct_heap_free(c->wire.direct, p);
    else
        free(p);
    tt_comm_unlock(c);
}

const struct tt_region *tt_comm_mem_heap(const struct tt_comm *c)
{
    return c->wire.direct ? tt_direct_heap(c->wire.direct) : NULL;
}
