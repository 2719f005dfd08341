/* fused_stream.c - an all-reduce of ordinary memory through small windows in shared memory that stay in the caches: user-space copies only.
 * Nobody touches a peer's own buffers. It is the way where the kernel forbids reading a peer's memory (containers, Yama), and the faster
 * one at both ends: vectors that fit the second-level cache, where the kernel's walk through the pages costs more than the copies, and
 * vectors beyond the last-level cache, where the second reading of a result would come from memory.
 *
 * The vector goes by in rounds of n blocks, one per rank. A rank's stream area has three sets of n slots, used in turn:
 *
 *     slot q of rank r, q != r    r's operand for the block that q reduces        slot r of rank r    the sum of block r
 *
 *     rank 0, 2 ranks:   copy(0)  copy(1) reduce(0) fetch(0)  copy(2) reduce(1) fetch(1)  copy(3) ...
 *
 *     copy(k)    my operands for the others into my slots, then "copied k+1"
 *     reduce(k)  waits for all "copied k+1"; my block from my input and everybody's slot, into my output and my slot; "reduced k+1"
 *     fetch(k)   waits for all "reduced k+1"; the other blocks from their owners' slots
 *
 * copy(k+1) goes before reduce(k), so that in most rounds the others' operands are there when they are wanted. Three sets are enough: the
 * slots of copy(k+2) were last read in fetch(k-1), and who has said "reduced k+1" has done that; before copy(k+2) a rank has waited for
 * all "reduced k+1". Rounds are numbered through all operations of a group, so this holds across them too, and no barrier is needed at the
 * end: what a slow rank still reads are slots, not the buffers of a rank that has returned. In place: a block of the output is written
 * only after its round's operands were copied. Cost per rank for S bytes: 2(n-1)/n S copied, S(n-1)/n of it read from others' caches. */
#include <string.h>
#include <unistd.h>

#include "exec/fused_parts.h"

enum { SETS = 3, LINE = 64 };

size_t tt_fused_slot_bytes(const struct tt_fused *f)
{
    return tt_direct_stream_bytes(f->d) / SETS / f->n / LINE * LINE;
}

char *tt_fused_slot(const struct tt_fused *f, uint32_t rank, uint64_t round, uint32_t which)
{
    size_t each = tt_fused_slot_bytes(f);
    return (char *)tt_direct_stream(f->d, rank) + (round % SETS * f->n + which) * each;
}

bool tt_fused_can_stream(const struct tt_fused *f)
{
    return tt_fused_slot_bytes(f) >= LINE;
}

/* Cache sizes are those of this machine, so that all ranks of it find the same. With more ranks than cores windows are better at every size
 * (measured with 4 and 8 ranks on 2 cores): a rank waits twice in a round, whose copies take far longer than changing places, and the next
 * one finds the operands in the cache of the core that it shares. In the background they are worse at every size (fused.c): between two
 * steps somebody computes, and each step costs both his cache and a turn of the core. */
void tt_fused_stream_limits(struct tt_fused *f)
{
    long second = sysconf(_SC_LEVEL2_CACHE_SIZE), last = sysconf(_SC_LEVEL3_CACHE_SIZE);
    f->near = 0;
    f->far = tt_direct_can_read(f->d) ? SIZE_MAX : 0;
    if (tt_fused_can_stream(f) && tt_direct_oversubscribed(f->d))
        f->far = 0;
    if (!tt_fused_can_stream(f) || !f->far)
        return;
    f->near = second > 0 ? (size_t)second / 4 : 0; /* an input and an output in half of it */
    f->far = last > 0 ? (size_t)last / 2 / f->n : SIZE_MAX;
}

/* One round's part of the vector: all of it is `bytes` at `at`; rank q has [start(q), start(q+1)) of it, in whole lines but the last. */
struct window {
    size_t at, bytes;
};

static struct window window_of(const struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    size_t all = op->count * tt_fused_elem_bytes(op->dtype), most = tt_fused_slot_bytes(f) * f->n, rounds = (all + most - 1) / most;
    size_t lines = (all + LINE - 1) / LINE; /* shared evenly by the rounds */
    size_t from = (size_t)((unsigned __int128)lines * k / rounds) * LINE;
    size_t to = (size_t)((unsigned __int128)lines * (k + 1) / rounds) * LINE;
    return (struct window){from, (to < all ? to : all) - from};
}

static uint64_t round_count(const struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t all = op->count * tt_fused_elem_bytes(op->dtype), most = tt_fused_slot_bytes(f) * f->n;
    return (all + most - 1) / most;
}

static size_t start(const struct tt_fused *f, const struct window *w, uint32_t q)
{
    size_t lines = (w->bytes + LINE - 1) / LINE, at = (size_t)((uint64_t)lines * q / f->n) * LINE;
    return at < w->bytes ? at : w->bytes;
}

static void copy_round(struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    struct window w = window_of(f, op, k);
    for (uint32_t i = 1; i < f->n; i++) {
        uint32_t q = (f->me + i) % f->n;
        size_t from = start(f, &w, q), to = start(f, &w, q + 1);
        memcpy(tt_fused_slot(f, f->me, f->rounds + k, q), (const char *)op->in + w.at + from, to - from);
    }
    tt_direct_post(f->d, TT_LANE_COPIED, f->rounds + k + 1);
}

static void reduce_round(struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    struct window w = window_of(f, op, k);
    size_t from = start(f, &w, f->me), bytes = start(f, &w, f->me + 1) - from;
    for (uint32_t q = 0; q < f->n; q++)
        f->src[q] = q == f->me ? (const char *)op->in + w.at + from : tt_fused_slot(f, q, f->rounds + k, f->me);
    f->dst[0] = (char *)op->out + w.at + from;
    f->dst[1] = tt_fused_slot(f, f->me, f->rounds + k, f->me);
    tt_fused_reduce(f, op, 2, bytes / tt_fused_elem_bytes(op->dtype));
    tt_direct_post(f->d, TT_LANE_REDUCED, f->rounds + k + 1);
}

static void fetch_round(struct tt_fused *f, const struct tt_fused_op *op, uint64_t k)
{
    struct window w = window_of(f, op, k);
    for (uint32_t i = 1; i < f->n; i++) {
        uint32_t q = (f->me + i) % f->n;
        size_t from = start(f, &w, q), to = start(f, &w, q + 1);
        memcpy((char *)op->out + w.at + from, tt_fused_slot(f, q, f->rounds + k, q), to - from);
    }
}

tutti_status tt_fused_stream(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    uint64_t rounds = round_count(f, op);
    while (op->round < rounds) {
        for (; op->copied < rounds && op->copied < op->round + 2; op->copied++)
            copy_round(f, op, op->copied);
        if (!op->reduced) {
            tutti_status st = tt_direct_await_all(f->d, TT_LANE_COPIED, f->rounds + op->round + 1, deadline_ns, &blame->peer);
            if (st)
                return st;
            reduce_round(f, op, op->round);
            op->reduced = true;
        }
        tutti_status st = tt_direct_await_all(f->d, TT_LANE_REDUCED, f->rounds + op->round + 1, deadline_ns, &blame->peer);
        if (st)
            return st;
        fetch_round(f, op, op->round++);
        op->reduced = false;
    }
    f->rounds += rounds;
    return TUTTI_OK;
}
