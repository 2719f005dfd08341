/* local_team.h - ranks of one host as threads, with all that the executor uses there: shared-memory rings, heaps, windows, boxes. Buffers
 * come from the heap of their rank or from malloc, as the test says. */
#ifndef LOCAL_TEAM_H
#define LOCAL_TEAM_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/mman.h>

#include "exec_case.h"
#include "transport/direct.h"

enum { TEAM = 6, RING = 512 << 10, STAGE = 8 << 10, STREAM = 1 << 20, HEAP = 64 << 20 };
static const uint32_t team_places[TEAM] = {0, 1, 2, 3, 4, 5};

struct team {
    uint32_t n, ref_bytes;
    uint32_t in_heap; /* bit r: buffers of rank r are in its heap */
    void *region, *shared;
    size_t region_bytes, shared_bytes;
    struct tt_transport *transport[TEAM];
    struct tt_direct *direct[TEAM];
    struct tt_engine *engine[TEAM];
    struct tt_context *context[TEAM];
};
static struct team *team; /* that buffers are taken from */

static inline void *team_take(uint32_t rank, size_t bytes)
{
    void *p = team->in_heap >> rank & 1 ? tt_direct_heap_alloc(team->direct[rank], bytes ? bytes : 1) : malloc(bytes ? bytes : 1);
    if (!p)
        abort();
    return p;
}

static inline void team_give(uint32_t rank, void *p)
{
    if (team->in_heap >> rank & 1)
        tt_direct_heap_free(team->direct[rank], p);
    else
        free(p);
}

static inline void *team_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (!bytes || p == MAP_FAILED)
        abort();
    return p;
}

struct team_seat {
    struct team *team;
    uint32_t rank;
};

/* Returns when all ranks are there. */
static inline void *team_sit(void *arg)
{
    const struct team_seat *s = arg;
    struct team *t = s->team;
    struct tutti_error err;
    struct tt_direct_config c = {.nlocal = t->n,
                                 .me = s->rank,
                                 .region = t->shared,
                                 .doors = t->region,
                                 .stage_bytes = STAGE,
                                 .stream_bytes = STREAM,
                                 .heap_bytes = HEAP,
                                 .oversubscribed = true,
                                 .deadline_ns = tt_now_ns() + UINT64_C(30000000000)};
    if (tt_direct_open(&c, &t->direct[s->rank], &err) != TUTTI_OK) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return NULL;
}

static inline void team_run(struct team *t, void *(*body)(void *), void *seats, size_t seat_bytes)
{
    pthread_t thread[TEAM];
    for (uint32_t r = 0; r < t->n; r++)
        if (pthread_create(&thread[r], NULL, body, (char *)seats + r * seat_bytes))
            abort();
    for (uint32_t r = 0; r < t->n; r++)
        pthread_join(thread[r], NULL);
}

static inline void team_open(struct team *t)
{
    struct team_seat seats[TEAM];
    struct tutti_error err;
    t->region = team_map(t->region_bytes = tt_shm_bytes(t->n, RING));
    t->shared = team_map(t->shared_bytes = tt_direct_bytes(t->n, STAGE, STREAM));
    for (uint32_t r = 0; r < t->n; r++) {
        struct tt_shm_config c = {.rank = r,
                                  .size = t->n,
                                  .nlocal = t->n,
                                  .me = r,
                                  .local = team_places,
                                  .region = t->region,
                                  .ring_bytes = RING,
                                  .oversubscribed = true};
        seats[r] = (struct team_seat){.team = t, .rank = r};
        if (tt_shm_open(&c, &t->transport[r], &err) != TUTTI_OK)
            abort();
    }
    team_run(t, team_sit, seats, sizeof *seats);
    for (uint32_t r = 0; r < t->n; r++) {
        struct tt_engine_config c = {
            .transport = t->transport[r], .direct = t->direct[r], .places = team_places, .ref_bytes = t->ref_bytes};
        struct tt_context_config x = {.n = t->n, .rank = r};
        struct tt_boxes_config b = {.n = t->n, .me = r, .places = team_places, .key = 1};
        if (tt_exec_engine_make(&c, &t->engine[r], &err) != TUTTI_OK ||
            tt_direct_boxes_open(t->direct[r], &b, &x.boxes, &err) != TUTTI_OK ||
            tt_exec_context_open(t->engine[r], &x, &t->context[r], &err) != TUTTI_OK)
            abort();
    }
    team = t;
}

/* Buffers have been given back before. */
static inline void team_close(struct team *t)
{
    for (uint32_t r = 0; r < t->n; r++) {
        tt_exec_engine_free(t->engine[r]);
        t->transport[r]->ops->close(t->transport[r]);
    }
    for (uint32_t r = 0; r < t->n; r++)
        tt_direct_close(t->direct[r]);
    munmap(t->region, t->region_bytes);
    munmap(t->shared, t->shared_bytes);
}

/* One look, then a nap after many that found nothing. */
static inline void team_progress(const struct team *t, uint32_t rank, unsigned *idle)
{
    struct tt_transport *tr = t->transport[rank];
    *idle = tt_exec_engine_progress(t->engine[rank]) ? 0 : *idle + 1;
    if (*idle > 20)
        tr->ops->wait(tr, tt_now_ns() + 1000000);
    else if (*idle)
        sched_yield();
}
#endif
