/* direct.c - opens direct access: the layout of the region, and how the ranks find out together
 * what the kernel allows.
 *
 *     region   abort line
 *              rank 0: door, card, lease | rank 1: ...
 *              lanes of set 0 (by rank), set 1, ...
 *              stages: set 0: rank 0, rank 1, ...; set 1 ...
 *              streams, by rank
 *
 * Opening is two rounds of cards. In the first each rank says who it is and shows the key of its
 * heap. In the second, having tried to map every other rank's heap, it says whether it could. Only
 * what all ranks can do counts, so that all choose the same ways. After the second round no rank
 * opens a heap any more: the descriptors are closed, and only mappings keep the heaps alive.
 *
 * Memory order: a card is filled before its `phase` is stored (seq_cst), and read after `phase` has
 * been loaded. The same store-then-check pair wakes sleepers (shm_wait.h). */
#include "transport/direct.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/direct_int.h"

enum { PAGE = 4096, STAGE_LINES = 5, LOCAL_MAX = 4096 };
static const size_t STAGE_MAX = (size_t)1 << 30;
/* Room of a stage, in payloads of the largest size; at least 3 (direct_box.c). With a core per rank
 * a turn of the stage is longer than a second-level cache: a rank that fills a place again finds it
 * in the last-level cache instead of taking it from the cache of the core that has read it, which
 * takes several times as long. Ranks that share cores push each other's places out anyway, and what
 * all stages together need should stay in the last-level cache. */
enum { ROOM_CORE_EACH = 8, ROOM_SHARED_CORES = 3 };
/* The first word of a heap, mixed with entropy: proves that a mapping shows the right memory. */
static const uint64_t PROBE = 0x7475747469703162;

/* Bytes before the stages, in whole pages. */
static size_t control_bytes(uint32_t nlocal)
{
    size_t bytes =
        sizeof(struct tt_direct_shared) +
        nlocal * (sizeof(struct tt_direct_rank) + TT_BOX_SETS * sizeof(struct tt_direct_lane));

    return (bytes + PAGE - 1) / PAGE * PAGE;
}

/* In whole lines, as payloads are placed. */
static size_t stage_room(size_t stage_bytes, bool oversubscribed)
{
    size_t lines = (stage_bytes + TT_LINE - 1) / TT_LINE;

    return lines * TT_LINE * (oversubscribed ? ROOM_SHARED_CORES : ROOM_CORE_EACH);
}

/* An odd number of pages and an odd number of lines: equal offsets of different stages fall in
 * different cache sets. */
static size_t stage_stride(size_t stage_bytes)
{
    size_t pages = (stage_bytes + PAGE - 1) / PAGE | 1;

    return stage_bytes ? pages * PAGE + (size_t)STAGE_LINES * TT_LINE : 0;
}

size_t tt_direct_bytes(uint32_t nlocal, size_t stage_bytes, size_t stream_bytes)
{
    if (!nlocal || nlocal > LOCAL_MAX || stage_bytes > STAGE_MAX || stream_bytes > STAGE_MAX)
        return 0;
    return control_bytes(nlocal) +
           (size_t)nlocal * (TT_BOX_SETS * stage_stride(stage_room(stage_bytes, false)) +
                             stage_stride(stream_bytes));
}

void *tt_direct_stream(const struct tt_direct *d, uint32_t rank)
{
    assert(rank < d->n);
    return d->streams + rank * d->stream_stride;
}

size_t tt_direct_stream_bytes(const struct tt_direct *d)
{
    return d->stream_bytes;
}

/* What the caller can get wrong, before any other rank can see it. */
static tutti_status direct_check(const struct tt_direct_config *c, struct tutti_error *err)
{
    if (!tt_direct_bytes(c->nlocal, c->stage_bytes, c->stream_bytes) || c->me >= c->nlocal)
        return tt_fail(err, TUTTI_ERR_ARG,
                       "direct access: rank %u of %u with stages of %zu bytes is out of range",
                       c->me, c->nlocal, c->stage_bytes);
    if (!c->region || (uintptr_t)c->region % PAGE)
        return tt_fail(err, TUTTI_ERR_ARG, "direct access: the region is not aligned to pages");
    return TUTTI_OK;
}

/* Fills the private part: every pointer that later calls need. False: out of memory. */
static bool set_up(struct tt_direct *d, const struct tt_direct_config *c)
{
    d->shared = c->region;
    d->lanes = (struct tt_direct_lane *)(void *)&d->shared->rank[c->nlocal];
    d->stages = (char *)c->region + control_bytes(c->nlocal);
    d->stage_bytes = c->stage_bytes;
    d->stage_room = stage_room(c->stage_bytes, c->oversubscribed);
    d->stage_stride = stage_stride(stage_room(c->stage_bytes, false));
    d->streams = d->stages + (size_t)TT_BOX_SETS * c->nlocal * d->stage_stride;
    d->stream_bytes = c->stream_bytes;
    d->stream_stride = stage_stride(c->stream_bytes);
    assert(d->streams + d->stream_stride * c->nlocal ==
           (char *)c->region + tt_direct_bytes(c->nlocal, c->stage_bytes, c->stream_bytes));
    d->doors = c->doors ? c->doors : &d->shared->rank[0].door;
    d->door_stride = c->doors ? sizeof(struct tt_door) : sizeof(struct tt_direct_rank);
    d->n = c->nlocal;
    d->me = c->me;
    d->oversubscribed = c->oversubscribed;
    d->probe = PROBE ^ tt_entropy();
    d->heap_spans.elem = sizeof(struct tt_direct_span);
    d->pid = tt_zalloc(d->n, sizeof *d->pid);
    d->heap = tt_zalloc(d->n, sizeof *d->heap);
    d->heap_base = tt_zalloc(d->n, sizeof *d->heap_base);
    return d->pid && d->heap && d->heap_base;
}

void tt_direct_ring_all(struct tt_direct *d)
{
    for (uint32_t r = 0; r < d->n; r++)
        tt_door_ring(tt_direct_door(d, r), TT_WAKE_DATA);
}

uint32_t tt_direct_doze_begin(struct tt_direct *d)
{
    return tt_shm_door_doze_begin(tt_direct_door(d, d->me));
}

void tt_direct_doze(struct tt_direct *d, uint32_t ticket, uint64_t deadline_ns)
{
    tt_shm_door_doze(tt_direct_door(d, d->me), ticket, deadline_ns);
}

void tt_direct_doze_end(struct tt_direct *d)
{
    tt_shm_door_doze_end(tt_direct_door(d, d->me));
}

void tt_direct_rouse(struct tt_direct *d)
{
    tt_door_ring(tt_direct_door(d, d->me), TT_WAKE_DOZER);
}

/* What was written to the card before is visible to a rank that loads this phase. */
static void publish_card(struct tt_direct *d, uint64_t phase)
{
    atomic_store(&d->shared->rank[d->me].card.phase, phase);
    tt_direct_ring_all(d);
}

/* The first round: this rank's card. Without a heap (or if it cannot be described) heap_base stays
 * 0. */
static void introduce(struct tt_direct *d)
{
    struct tt_direct_card *card = &d->shared->rank[d->me].card;

    card->pid = (uint32_t)getpid();
    card->probe = d->probe;
    if (d->heap[d->me].base && !tt_shm_region_describe(&d->heap[d->me], &card->heap, NULL)) {
        memcpy(d->heap[d->me].base, &d->probe, sizeof d->probe);
        card->heap_base = (uintptr_t)d->heap[d->me].base;
    }
    publish_card(d, 1);
}

enum { STOP_NS = 10000000 }; /* interval at which `stop` is called */

/* A counter that shall reach a value. */
struct awaited {
    const struct tt_direct *direct;
    const struct tt_direct_config *config;
    const _Atomic uint64_t *counter;
    uint64_t value;
};

/* For tt_shm_wait_until: the loads are seq_cst. */
static bool is_there(void *arg)
{
    const struct awaited *a = arg;

    return atomic_load(a->counter) >= a->value || tt_direct_aborted(a->direct);
}

static bool stopped(const struct tt_direct_config *c)
{
    return c->stop && c->stop(c->stop_arg);
}

/* Waits in slices, because `stop` is no memory that could wake us. True: the value is there, or
 * waiting for it makes no sense any more (stop, abort). */
static bool direct_await(struct awaited *a)
{
    uint64_t idle_since_ns = 0;
    struct tt_wait w = {.door = tt_direct_door(a->direct, a->direct->me),
                        .why = TT_WAKE_DATA,
                        .oversubscribed = a->direct->oversubscribed,
                        .idle_since_ns = &idle_since_ns,
                        .ready = is_there,
                        .arg = a};
    uint64_t deadline = a->config->deadline_ns, now = tt_now_ns();

    while (!stopped(a->config) && now < deadline) {
        if (tt_shm_wait_until(&w, deadline - now < STOP_NS ? deadline : now + STOP_NS))
            return true;
        now = tt_now_ns();
    }
    return stopped(a->config) || tt_shm_wait_until(&w, 0);
}

/* Waits for the cards of all ranks, one after the other. */
static tutti_status direct_meet(struct tt_direct *d, uint64_t phase,
                                const struct tt_direct_config *c, struct tutti_error *err)
{
    for (uint32_t r = 0; r < d->n; r++) {
        struct awaited a = {
            .direct = d, .config = c, .counter = &d->shared->rank[r].card.phase, .value = phase};
        if (!direct_await(&a)) {
            if (c->ret_late)
                *c->ret_late = r;
            return tt_fail(err, TUTTI_ERR_TIMEOUT,
                           "direct access: local rank %u of %u did not come in time", r, d->n);
        }
        if (atomic_load(a.counter) < phase)
            return tt_fail(err, TUTTI_ERR_ABORTED,
                           "direct access: another rank gave up opening it");
    }
    return TUTTI_OK;
}

/* Maps a peer's heap. The probe word makes sure that it is the right memory. */
static bool try_map(const struct tt_direct_card *peer, struct tt_region *ret)
{
    if (!peer->heap_base || tt_shm_region_join(&peer->heap, ret, NULL))
        return false;
    madvise(ret->base, ret->bytes, MADV_DONTDUMP); /* the owner's core file has it */
    madvise(ret->base, ret->bytes, MADV_HUGEPAGE);
    return memcmp(ret->base, &peer->probe, sizeof peer->probe) == 0;
}

/* Copies what the cards say and maps all heaps. False: one cannot be mapped; mappings made before
 * that stay until free_heaps. */
static bool map_peers(struct tt_direct *d)
{
    bool maps = d->heap[d->me].base != NULL;

    for (uint32_t r = 0; r < d->n; r++) {
        const struct tt_direct_card *peer = &d->shared->rank[r].card;
        d->pid[r] = peer->pid;
        d->heap_base[r] = peer->heap_base;
        if (r != d->me && maps)
            maps = try_map(peer, &d->heap[r]);
    }
    return maps;
}

static void free_heaps(struct tt_direct *d)
{
    for (uint32_t r = 0; d->heap && r < d->n; r++)
        tt_shm_region_free(&d->heap[r]);
}

/* The two rounds. After the second every rank has the same cards, and so the same answer. */
static tutti_status direct_agree(struct tt_direct *d, const struct tt_direct_config *c,
                                 struct tutti_error *err)
{
    tutti_status status;

    introduce(d);
    status = direct_meet(d, 1, c, err);
    if (status)
        return status;
    d->shared->rank[d->me].card.maps = map_peers(d);
    publish_card(d, 2);
    status = direct_meet(d, 2, c, err);
    if (status)
        return status;
    d->has_heap = true;
    for (uint32_t r = 0; r < d->n; r++)
        d->has_heap = d->has_heap && d->shared->rank[r].card.maps;
    tt_shm_region_seal(&d->heap[d->me]);
    if (!d->has_heap)
        free_heaps(d);
    return TUTTI_OK;
}

/* Accepts a half-built object. A heap with allocated buffers is left mapped: it belongs to the
 * caller now. */
static void tear_down(struct tt_direct *d)
{
    if (d->heap && d->heap_spans.len)
        d->heap[d->me].base = NULL;
    free_heaps(d);
    for (uint32_t set = 0; set < TT_BOX_SETS; set++)
        free(d->boxes[set]);
    tt_vec_free(&d->heap_spans);
    free(d->heap_base);
    free(d->heap);
    free(d->pid);
    free(d);
}

tutti_status tt_direct_open(const struct tt_direct_config *c, struct tt_direct **ret,
                            struct tutti_error *err)
{
    tutti_status status = direct_check(c, err);
    struct tt_direct *d;

    if (status)
        return status;
    d = tt_zalloc(1, sizeof *d);
    if (!d || !set_up(d, c)) {
        status = tt_fail_memory(err, "direct access");
        goto out;
    }
    tt_direct_heap_make(d, c->heap_bytes);
    status = direct_agree(d, c, err);
    if (status)
        tt_direct_abort(d); /* the others need not wait for us */
out:
    if (status && d)
        tear_down(d);
    else if (!status)
        *ret = d;
    return status;
}

void tt_direct_close(struct tt_direct *d)
{
    if (d)
        tear_down(d);
}

TT_HOT bool tt_direct_crowded(const struct tt_direct *d)
{
    return d->oversubscribed;
}

uint32_t tt_direct_nlocal(const struct tt_direct *d)
{
    return d->n;
}

uint32_t tt_direct_me(const struct tt_direct *d)
{
    return d->me;
}

bool tt_direct_has_heap(const struct tt_direct *d)
{
    return d->has_heap;
}
