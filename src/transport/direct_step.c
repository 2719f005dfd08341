/* direct_step.c - boxes and lanes: how local ranks exchange small payloads and keep in step.
 *
 * Boxes, four ranks, put number 7 (odd: set 1), rank 2 late:
 *
 *     set 1    rank 0: 7 a    rank 1: 7 b    rank 2: 5 .    rank 3: 7 d        everybody waits for rank 2's line to say 7
 *     set 0    rank 0: 6 .    rank 1: 6 .    rank 2: 6 .    rank 3: 6 .        nobody writes here before it has seen all of set 1
 *
 * A rank writes put s+2 into the lines of put s only after it has seen all puts s+1, and a rank puts s+1 only when it has finished reading
 * s: so no line is overwritten while it is read, without a barrier at the end. Cost for p ranks: one line written, p-1 lines read, one
 * wait for the latest.
 *
 * Publishing is a seq_cst store: that is what the doors need (shm_wait.h), and the exchange it compiles to on x86 also sends the line off
 * at once instead of leaving it in the store buffer behind a loop of loads. */
#include <assert.h>
#include <string.h>

#include "transport/direct_parts.h"

enum { LOOKS = 512 }; /* before a wait is worth the clock */

static void ring_all(struct tt_direct *d)
{
    for (uint32_t r = 0; r < d->n; r++)
        tt_door_ring(tt_direct_door(d, r), TT_WAKE_DATA);
}

void tt_direct_abort(struct tt_direct *d)
{
    atomic_store(&d->shared->aborted, 1);
    atomic_thread_fence(memory_order_seq_cst); /* before anything this rank does to its buffers from now on */
    ring_all(d);
}

bool tt_direct_aborted(const struct tt_direct *d)
{
    atomic_thread_fence(memory_order_acquire); /* after what was read from others */
    return atomic_load(&d->shared->aborted) != 0;
}

uint64_t tt_direct_waited_ns(const struct tt_direct *d, uint32_t peer)
{
    assert(peer < d->n);
    return d->waited_ns[peer];
}

uint32_t tt_direct_doze_begin(struct tt_direct *d)
{
    return tt_door_doze_begin(tt_direct_door(d, d->me));
}

void tt_direct_doze(struct tt_direct *d, uint32_t ticket, uint64_t deadline_ns)
{
    tt_door_doze(tt_direct_door(d, d->me), ticket, deadline_ns);
}

void tt_direct_doze_end(struct tt_direct *d)
{
    tt_door_doze_end(tt_direct_door(d, d->me));
}

void tt_direct_rouse(struct tt_direct *d)
{
    tt_door_ring(tt_direct_door(d, d->me), TT_WAKE_DOZER);
}

struct awaited {
    const struct tt_direct *direct;
    const _Atomic uint64_t *counter;
    uint64_t value;
};

static bool is_there(void *arg)
{
    const struct awaited *a = arg;

    return atomic_load(a->counter) >= a->value || tt_direct_aborted(a->direct);
}

tutti_status tt_direct_wait(struct tt_direct *d, uint32_t peer, const _Atomic uint64_t *counter, uint64_t value, uint64_t deadline_ns)
{
    struct awaited a = {.direct = d, .counter = counter, .value = value};
    struct tt_wait w = {.door = tt_direct_door(d, d->me),
                        .why = TT_WAKE_DATA,
                        .oversubscribed = d->oversubscribed,
                        .idle_since_ns = &d->idle_since_ns,
                        .ready = is_there,
                        .arg = &a};

    if (deadline_ns) {
        uint64_t start_ns = tt_now_ns();
        tt_wait_until(&w, deadline_ns);
        d->waited_ns[peer] += tt_now_ns() - start_ns;
    }
    if (atomic_load_explicit(counter, memory_order_acquire) >= value)
        return TUTTI_OK;
    return tt_direct_aborted(d) ? TUTTI_ERR_ABORTED : TUTTI_IN_PROGRESS;
}

/* The usual case: it is there, or will be within a moment. That others are there does not end a wait for one that is not: idle_since is
 * left alone, and a wait in slices falls asleep. Whatever this rank publishes begins a new one. */
static tutti_status look_then_wait(struct tt_direct *d, uint32_t peer, const _Atomic uint64_t *counter, uint64_t value,
                                   uint64_t deadline_ns)
{
    int looks = deadline_ns && !d->oversubscribed ? LOOKS : 1;

    for (int i = 0; i < looks; i++)
        if (atomic_load_explicit(counter, memory_order_acquire) >= value)
            return TUTTI_OK;
    return tt_direct_wait(d, peer, counter, value, deadline_ns);
}

/* ---- boxes ---- */

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
    d->idle_since_ns = 0;
    d->fingerprint = fingerprint;
    if (bytes)
        memcpy(d->staged ? tt_direct_stage(d, d->me, set) : box->data, in, bytes);
    box->fingerprint = fingerprint;
    atomic_store(&box->seq, d->seq);
    ring_all(d);
}

static tutti_status blame(struct tt_direct_blame *ret, uint32_t peer, uint64_t mine, uint64_t theirs, tutti_status status)
{
    if (ret)
        *ret = (struct tt_direct_blame){.peer = peer, .mine = mine, .theirs = theirs};
    return status;
}

static tutti_status collect(struct tt_direct *d, uint64_t deadline_ns, struct tt_direct_blame *ret_blame)
{
    for (uint32_t r = 0; r < d->n; r++) {
        const struct tt_direct_box *box = &d->shared->rank[r].box[d->seq & 1];
        tutti_status status = look_then_wait(d, r, &box->seq, d->seq, deadline_ns);
        if (status)
            return blame(ret_blame, r, 0, 0, status);
        if (box->fingerprint != d->fingerprint)
            return blame(ret_blame, r, d->fingerprint, box->fingerprint, TUTTI_ERR_DIFFERS);
    }
    return TUTTI_OK;
}

tutti_status tt_direct_get(struct tt_direct *d, uint64_t deadline_ns, const void *const **ret_all, struct tt_direct_blame *ret_blame)
{
    tutti_status status = collect(d, deadline_ns, ret_blame);

    if (!status)
        *ret_all = d->all[d->staged][d->seq & 1];
    return status;
}

bool tt_direct_ready(const struct tt_direct *d)
{
    uint32_t r = 0;

    while (r < d->n && atomic_load(&d->shared->rank[r].box[d->seq & 1].seq) >= d->seq)
        r++;
    return r == d->n || tt_direct_aborted(d);
}

/* Looks for a moment without reading the clock. */
static bool all_are_there(const struct tt_direct *d)
{
    unsigned set = d->seq & 1;
    uint32_t r = 0;

    for (int i = d->oversubscribed ? 1 : LOOKS; i > 0 && r < d->n; i--)
        while (r < d->n && atomic_load_explicit(&d->shared->rank[r].box[set].seq, memory_order_acquire) >= d->seq)
            r++;
    return r == d->n;
}

tutti_status tt_direct_reduce(struct tt_direct *d, const struct tt_direct_reduce *op, struct tt_direct_blame *ret_blame)
{
    uint64_t deadline_ns = 0;

    tt_direct_put(d, op->in, op->bytes, op->fingerprint);
    if (!all_are_there(d)) {
        uint64_t now = tt_now_ns();
        deadline_ns = op->timeout_ns > UINT64_MAX - now ? UINT64_MAX : now + op->timeout_ns;
    }
    tutti_status status = collect(d, deadline_ns, ret_blame);
    if (status)
        return status == TUTTI_IN_PROGRESS ? TUTTI_ERR_TIMEOUT : status;
    op->combine(op->ctx, op->out, d->all[d->staged][d->seq & 1], d->n, op->bytes);
    return TUTTI_OK;
}

/* ---- lanes ---- */

static struct tt_direct_lane *lane_of(const struct tt_direct *d, unsigned lane, uint32_t rank)
{
    assert(lane < TT_DIRECT_LANES && rank < d->n);
    return &d->shared->rank[rank].lane[lane];
}

void tt_direct_describe(struct tt_direct *d, unsigned lane, unsigned slot, const struct tt_direct_desc *desc)
{
    assert(slot < 2);
    lane_of(d, lane, d->me)->slot[slot] = *desc;
}

const struct tt_direct_desc *tt_direct_described(const struct tt_direct *d, unsigned lane, unsigned slot, uint32_t peer)
{
    assert(slot < 2);
    return &lane_of(d, lane, peer)->slot[slot];
}

void tt_direct_post(struct tt_direct *d, unsigned lane, uint64_t value)
{
    struct tt_direct_lane *mine = lane_of(d, lane, d->me);

    assert(atomic_load_explicit(&mine->value, memory_order_relaxed) <= value);
    d->idle_since_ns = 0;
    atomic_store(&mine->value, value);
    ring_all(d);
}

tutti_status tt_direct_await(struct tt_direct *d, unsigned lane, uint32_t peer, uint64_t value, uint64_t deadline_ns)
{
    return look_then_wait(d, peer, &lane_of(d, lane, peer)->value, value, deadline_ns);
}

tutti_status tt_direct_await_all(struct tt_direct *d, unsigned lane, uint64_t value, uint64_t deadline_ns, uint32_t *ret_peer)
{
    for (uint32_t r = 0; r < d->n; r++) {
        tutti_status status = tt_direct_await(d, lane, r, value, deadline_ns);
        if (status && ret_peer)
            *ret_peer = r;
        if (status)
            return status;
    }
    return TUTTI_OK;
}

uint64_t tt_direct_posted(const struct tt_direct *d, unsigned lane, uint32_t peer)
{
    return atomic_load_explicit(&lane_of(d, lane, peer)->value, memory_order_acquire);
}
