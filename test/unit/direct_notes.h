/* Notes between ranks that test direct access, besides what is tested: a rising counter and an address of each rank, in shared memory
 * behind the region. They are seen after an abort, too. */
#ifndef DIRECT_NOTES_H
#define DIRECT_NOTES_H

#include "local_ranks.h"
#include "transport/direct_int.h"

struct note {
    _Alignas(TT_LINE) _Atomic uint64_t step;
    uint64_t at; /* visible to who sees a later step */
};

/* Of a region with notes behind it. */
static inline size_t noted_bytes(uint32_t n, size_t stage_bytes)
{
    return tt_direct_bytes(n, stage_bytes, 0) + n * sizeof(struct note);
}

static inline struct note *note_of(const struct tt_direct *d, uint32_t rank)
{
    return (struct note *)(void *)((char *)d->shared + tt_direct_bytes(d->n, d->stage_bytes, 0)) + rank;
}

static inline void post(const struct tt_direct *d, uint64_t step)
{
    atomic_store(&note_of(d, d->me)->step, step);
}

static inline void until_posted(const struct tt_direct *d, uint32_t peer, uint64_t step)
{
    for (uint64_t limit = tt_now_ns() + 60000000000; atomic_load(&note_of(d, peer)->step) < step;) {
        CHECK(tt_now_ns() < limit);
        usleep(100);
    }
}

/* Nobody leaves before all have come here. */
static inline void all_here(const struct tt_direct *d, uint64_t step)
{
    post(d, step);
    for (uint32_t r = 0; r < d->n; r++)
        until_posted(d, r, step);
}
#endif
