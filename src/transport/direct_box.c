/* direct_box.c - boxes: how local ranks exchange small payloads.
 *
 * Four ranks, put number 7 (odd: pair 1), rank 2 late:
 *
 *     pair 1   rank 0: 7 a    rank 1: 7 b    rank 2: 5 .    rank 3: 7 d
 *     pair 0   rank 0: 6 .    rank 1: 6 .    rank 2: 6 .    rank 3: 6 .
 *
 * All wait until rank 2's line says 7, and no rank writes to pair 0 before it has seen all of pair
 * 1.
 *
 * A rank writes put s+2 into the lines of put s only after it has seen all puts s+1, and a rank
 * puts s+1 only when it has finished reading s. So no line is overwritten while it is read, without
 * a barrier at the end. Cost for p ranks: one line written, p-1 lines read, and a wait for the
 * latest. Larger payloads lie in the rank's stage, each behind the one before, from the beginning
 * again when the stage is full; for the same reason only neighbours must not meet.
 *
 * Publishing is a seq_cst store: the doors need that (shm_wait.h). The exchange that it compiles to
 * on x86 also makes the line visible at once, instead of leaving it in the store buffer behind a
 * loop of loads. It pairs with the acquire load in has_put.
 *
 * Leaving. Others may still read the last put of a rank that has closed its boxes. Its lane is free
 * when every other rank has closed too, which shows in their keys. A rank that has seen a put has
 * seen the key before it; a rank that never put has nothing to protect.
 *
 * Invariant: the lane of a free set says put 0, so that no rank takes an old put for one of the
 * next group. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "transport/direct_int.h"

enum { LOOKS = 256 }; /* polls of one line in a row */
/* A place that is filled again must be taken back from the caches of its readers. A core waits once
 * for as many lines as it can have under way: up to AT_ONCE bytes there are two places in turn,
 * which stay in its nearest cache. For longer payloads a turn is the whole stage, so that places
 * come from the last-level cache instead (direct.c). Ranks that share cores always use two: what
 * one has read is in the cache of the next one, too. */
enum { AT_ONCE = 2048 };

/* One group's boxes as this rank sees them. Addresses are computed when opening. */
struct tt_boxes {
    struct tt_direct *direct;
    uint32_t set, n, me;
    uint64_t key, seq; /* seq: of the last put */
    uint64_t fingerprint;
    uint32_t seen;                 /* ranks 0 .. seen-1 have put, and agree */
    bool staged;                   /* the last put was larger than a tiny one */
    bool closed;                   /* waits for the others to close */
    size_t at, end;                /* where the last one of those lies in the stages */
    struct tt_direct_box **box[2]; /* [seq & 1][rank] */
    char **stage;                  /* [rank] */
    const void **tiny[2], **large; /* [seq & 1][rank], [rank]: the payloads of the last put */
    struct tt_door **doors;
    uint32_t *places;
};

static struct tt_direct_lane *lane_of(const struct tt_direct *d, uint32_t set, uint32_t place)
{
    assert(set < TT_BOX_SETS && place < d->n);
    return &d->lanes[(size_t)set * d->n + place];
}

/* Where a rank's payloads lie that are larger than tiny ones. */
static char *stage_of(const struct tt_direct *d, uint32_t set, uint32_t place)
{
    return d->stages + ((size_t)set * d->n + place) * d->stage_stride;
}

/* Where the next payload lies follows from the lengths of all puts so far, which are equal on all
 * ranks; it must not meet the one before. Some lie in two places in turn, far apart, because
 * readers may fetch lines ahead. The others lie one after the other, and there is room for three of
 * any length, so that one at the beginning of the stage never meets the one before it. */
static size_t stage_next(const struct tt_boxes *b, size_t bytes)
{
    size_t at = (b->end + TT_LINE - 1) / TT_LINE * TT_LINE, room = b->direct->stage_room;
    size_t half = room / 2 / TT_LINE * TT_LINE;
    bool two = bytes <= AT_ONCE || b->direct->oversubscribed;
    if (two && b->at >= bytes)
        return 0;
    if (two && half >= b->end && half + bytes <= room)
        return half;
    return at + bytes <= room ? at : 0;
}

size_t tt_direct_boxes_max(const struct tt_direct *d)
{
    return d->stage_bytes > TT_DIRECT_TINY ? d->stage_bytes : TT_DIRECT_TINY;
}

/* ---- opening and closing ---- */

/* One block: the structure and its tables. */
static struct tt_boxes *direct_box_make(uint32_t n)
{
    struct tt_boxes *b =
        tt_zalloc(1, sizeof *b + (size_t)n * (7 * sizeof(void *) + sizeof(uint32_t)));
    if (!b)
        return NULL;
    char *at = (char *)(b + 1);
    for (unsigned i = 0; i < 2; i++, at += n * sizeof(void *))
        b->box[i] = (struct tt_direct_box **)(void *)at;
    for (unsigned i = 0; i < 2; i++, at += n * sizeof(void *))
        b->tiny[i] = (const void **)(void *)at;
    b->large = (const void **)(void *)at;
    at += n * sizeof(void *);
    b->stage = (char **)(void *)at;
    at += n * sizeof(void *);
    b->doors = (struct tt_door **)(void *)at;
    b->places = (uint32_t *)(void *)(at + n * sizeof(void *));
    return b;
}

tutti_status tt_direct_boxes_open(struct tt_direct *d, const struct tt_boxes_config *c,
                                  struct tt_boxes **ret, struct tutti_error *err)
{
    assert(c->set < TT_BOX_SETS && c->me < c->n && c->key && !d->boxes[c->set]);
    struct tt_boxes *b = direct_box_make(c->n);
    if (!b)
        return tt_fail_memory(err, "boxes");
    b->direct = d;
    b->set = c->set;
    b->n = c->n;
    b->me = c->me;
    b->key = c->key;
    for (uint32_t r = 0; r < c->n; r++) {
        struct tt_direct_lane *lane = lane_of(d, c->set, c->places[r]);
        b->places[r] = c->places[r];
        b->doors[r] = tt_direct_door(d, c->places[r]);
        for (unsigned which = 0; which < 2; which++) {
            b->box[which][r] = &lane->box[which];
            b->tiny[which][r] = lane->box[which].data;
        }
        b->stage[r] = stage_of(d, c->set, c->places[r]);
    }
    atomic_store(&lane_of(d, c->set, d->me)->key, c->key);
    d->boxes[c->set] = b;
    *ret = b;
    return TUTTI_OK;
}

/* Has every rank of the group closed? A rank that never put need not ask. */
static bool all_left(const struct tt_boxes *b)
{
    for (uint32_t r = 0; b->seq && r < b->n; r++)
        if (atomic_load(&lane_of(b->direct, b->set, b->places[r])->key) == b->key)
            return false;
    return true;
}

/* The lane is free: it says put 0 again. */
static void reclaim(struct tt_boxes *b)
{
    struct tt_direct_lane *lane = lane_of(b->direct, b->set, b->direct->me);
    assert(b->closed && b->direct->boxes[b->set] == b);
    atomic_store(&lane->box[0].seq, 0);
    atomic_store(&lane->box[1].seq, 0);
    b->direct->boxes[b->set] = NULL;
    free(b);
}

/* The structure lives on until the lane is free (tt_direct_boxes_free_sets), or until direct access
 * is closed. */
void tt_direct_boxes_close(struct tt_boxes *b)
{
    if (!b)
        return;
    b->closed = true;
    atomic_store(&lane_of(b->direct, b->set, b->direct->me)->key, 0);
}

/* Lanes are reclaimed here, since only a new group needs them. */
uint32_t tt_direct_boxes_free_sets(struct tt_direct *d)
{
    uint32_t bits = 0;
    for (uint32_t set = 0; set < TT_BOX_SETS; set++) {
        struct tt_boxes *b = d->boxes[set];
        if (b && b->closed && all_left(b))
            reclaim(b);
        bits |= d->boxes[set] ? 0 : UINT32_C(1) << set;
    }
    return bits;
}

/* ---- exchanging ---- */

TT_HOT void *tt_direct_boxes_next(const struct tt_boxes *b, size_t bytes)
{
    return bytes > TT_DIRECT_TINY ? b->stage[b->me] + stage_next(b, bytes)
                                  : (char *)b->box[(b->seq + 1) & 1][b->me]->data;
}

/* Payload and fingerprint are written before the number is stored, which publishes them. */
TT_HOT void tt_direct_boxes_put(struct tt_boxes *b, const void *in, size_t bytes,
                                uint64_t fingerprint)
{
    unsigned which = ++b->seq & 1;
    struct tt_direct_box *box = b->box[which][b->me];

    assert(!b->closed);
    assert(bytes <= tt_direct_boxes_max(b->direct));
    b->staged = bytes > TT_DIRECT_TINY;
    b->fingerprint = fingerprint;
    b->seen = 0;
    if (b->staged) {
        b->at = stage_next(b, bytes);
        b->end = b->at + bytes;
    }
    assert(!b->staged || b->end <= b->direct->stage_room);
    void *to = b->staged ? b->stage[b->me] + b->at : (void *)box->data;
    if (bytes && in != to)
        memcpy(to, in, bytes);
    box->fingerprint = fingerprint;
    atomic_store(&box->seq, b->seq);
    for (uint32_t r = 0; r < b->n; r++)
        tt_door_ring(b->doors[r], TT_WAKE_DATA);
}

/* Has the rank of this box put? With a core per rank the answer is usually nanoseconds away: polls
 * some times in a row, because looking at anything else in between would delay it. */
static bool has_put(const struct tt_boxes *b, const struct tt_direct_box *box)
{
    int looks = b->direct->oversubscribed ? 1 : LOOKS;
    bool there = false;
    while (looks-- > 0 && !there)
        there = atomic_load_explicit(&box->seq, memory_order_acquire) >= b->seq;
    return there;
}

/* The first rank that is missing or differs is named, and the next call goes on from there.
 * Fingerprints are compared before payloads are handed out: ranks in different calls may have put
 * different sizes. */
TT_HOT tutti_status tt_direct_boxes_get(struct tt_boxes *b, const void *const **ret_all,
                                        struct tt_boxes_blame *ret_blame)
{
    assert(b->seq > 0 && !b->closed);
    struct tt_direct_box *const *boxes = b->box[b->seq & 1];
    for (; b->seen < b->n; b->seen++) {
        const struct tt_direct_box *box = boxes[b->seen];
        bool there = has_put(b, box);
        if (there && box->fingerprint == b->fingerprint)
            continue;
        *ret_blame =
            (struct tt_boxes_blame){.peer = b->seen, .theirs = there ? box->fingerprint : 0};
        if (there)
            return TUTTI_ERR_DIFFERS;
        return tt_direct_aborted(b->direct) ? TUTTI_ERR_ABORTED : TUTTI_IN_PROGRESS;
    }
    for (uint32_t r = 0; b->staged && r < b->n; r++)
        b->large[r] = b->stage[r] + b->at;
    *ret_all = b->staged ? b->large : b->tiny[b->seq & 1];
    return TUTTI_OK;
}

bool tt_direct_boxes_ready(const struct tt_boxes *b)
{
    uint32_t r = b->seen;

    while (r < b->n && atomic_load(&b->box[b->seq & 1][r]->seq) >= b->seq)
        r++;
    return r == b->n || tt_direct_aborted(b->direct);
}
