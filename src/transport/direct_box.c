/* direct_box.c - boxes: how local ranks exchange small payloads. Four ranks, put number 7 (odd: set 1), rank 2 late:
 *
 *     set 1    rank 0: 7 a    rank 1: 7 b    rank 2: 5 .    rank 3: 7 d        everybody waits for rank 2's line to say 7
 *     set 0    rank 0: 6 .    rank 1: 6 .    rank 2: 6 .    rank 3: 6 .        nobody writes here before it has seen all of set 1
 *
 * A rank writes put s+2 into the lines of put s only after it has seen all puts s+1, and a rank puts s+1 only when it has finished reading
 * s: so no line is overwritten while it is read, without a barrier at the end. Cost for p ranks: one line written, p-1 lines read, and
 * the latest is waited for.
 *
 * Publishing is a seq_cst store: that is what the doors need (shm_wait.h), and the exchange it compiles to on x86 also sends the line off
 * at once instead of leaving it in the store buffer behind a loop of loads. */
#include <assert.h>
#include <string.h>

#include "transport/direct_parts.h"

size_t tt_direct_box_max(const struct tt_direct *d)
{
    return d->stage_bytes > TT_DIRECT_TINY ? d->stage_bytes : TT_DIRECT_TINY;
}

void tt_direct_put(struct tt_direct *d, const void *in, size_t bytes, uint64_t fingerprint)
{
    unsigned set = ++d->seq & 1;
    struct tt_direct_box *box = &d->shared->rank[d->me].box[set];

    assert(bytes <= tt_direct_box_max(d));
    d->staged = bytes > TT_DIRECT_TINY;
    d->fingerprint = fingerprint;
    if (bytes)
        memcpy(d->staged ? tt_direct_stage(d, d->me, set) : box->data, in, bytes);
    box->fingerprint = fingerprint;
    atomic_store(&box->seq, d->seq);
    tt_direct_ring_all(d);
}

tutti_status tt_direct_get(const struct tt_direct *d, const void *const **ret_all, struct tt_direct_blame *ret_blame)
{
    for (uint32_t r = 0; r < d->n; r++) {
        const struct tt_direct_box *box = &d->shared->rank[r].box[d->seq & 1];
        bool there = atomic_load_explicit(&box->seq, memory_order_acquire) >= d->seq;
        if (there && box->fingerprint == d->fingerprint)
            continue;
        *ret_blame = (struct tt_direct_blame){.peer = r, .theirs = there ? box->fingerprint : 0};
        if (there)
            return TUTTI_ERR_DIFFERS;
        return tt_direct_aborted(d) ? TUTTI_ERR_ABORTED : TUTTI_IN_PROGRESS;
    }
    *ret_all = d->all[d->staged][d->seq & 1];
    return TUTTI_OK;
}

bool tt_direct_ready(const struct tt_direct *d)
{
    uint32_t r = 0;

    while (r < d->n && atomic_load(&d->shared->rank[r].box[d->seq & 1].seq) >= d->seq)
        r++;
    return r == d->n || tt_direct_aborted(d);
}
