/* record.c - the ring of events behind TUTTI_TRACE (record.h). */
#include <assert.h>

#include "base/record.h"

#include <stdlib.h>
#include <string.h>

#include "base/board.h"

const char *tt_record_name(unsigned kind)
{
#define TT_RECORD_NAME(id, name) name,
    static const char *const names[] = {TT_RECORD_LIST(TT_RECORD_NAME)};
#undef TT_RECORD_NAME
    return kind < countof(names) ? names[kind] : "?";
}

const char *tt_record_span_name(unsigned kind)
{
#define TT_RECORD_SPAN_NAME(id, name) name,
    static const char *const names[] = {TT_RECORD_SPAN_LIST(TT_RECORD_SPAN_NAME)};
#undef TT_RECORD_SPAN_NAME
    return kind < countof(names) ? names[kind] : "?";
}

/* Pages are touched here, not at the first events. */
struct tt_record *tt_record_make(uint64_t events)
{
    struct tt_record *r = malloc(sizeof *r + events * sizeof r->event[0]);
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r + events * sizeof r->event[0]);
    if (pthread_mutex_init(&r->lock, NULL)) {
        free(r);
        return NULL;
    }
    r->cap = events;
    return r;
}

void tt_record_free(struct tt_record *r)
{
    if (!r)
        return;
    for (uint32_t i = 0; i < r->ntrainers; i++)
        tt_record_trainer_clear(&r->trainer[i]);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

void tt_record_trainer_clear(struct tt_record_trainer *t)
{
    free(t->launch);
    free(t->span);
    *t = (struct tt_record_trainer){0};
}

void tt_record_note(struct tt_record *r, const struct tt_record_event *e)
{
    pthread_mutex_lock(&r->lock);
    if (r->board && !r->ended)
        tt_board_count(r->board, e);
    if (r->cap && !r->ended)
        r->event[r->next++ % r->cap] = *e;
    pthread_mutex_unlock(&r->lock);
}

void tt_record_end(struct tt_record *r)
{
    pthread_mutex_lock(&r->lock);
    r->ended = true;
    pthread_mutex_unlock(&r->lock);
}

void tt_record_add_trainer(struct tt_record *r, struct tt_record_trainer *t)
{
    pthread_mutex_lock(&r->lock);
    if (r->ntrainers < TT_RECORD_TRAINERS && !r->ended) {
        r->trainer[r->ntrainers++] = *t;
        *t = (struct tt_record_trainer){0};
    }
    pthread_mutex_unlock(&r->lock);
    tt_record_trainer_clear(t);
}

static bool same_plan(const struct tt_record_plan *a, const struct tt_record_plan *b)
{
    return a->hash == b->hash && a->count == b->count && a->coll == b->coll &&
           a->dtype == b->dtype && a->segments == b->segments && a->root == b->root;
}

uint8_t tt_record_plan(struct tt_record *r, const struct tt_record_plan *p)
{
    uint8_t found = TT_RECORD_NO_PLAN;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->nplans && found == TT_RECORD_NO_PLAN; i++)
        if (same_plan(&r->plan[i], p))
            found = (uint8_t)i;
    if (found == TT_RECORD_NO_PLAN && r->nplans < TT_RECORD_PLANS && !r->ended) {
        found = (uint8_t)r->nplans;
        r->plan[r->nplans++] = *p;
    }
    pthread_mutex_unlock(&r->lock);
    return found;
}

uint64_t tt_record_noted(struct tt_record *r)
{
    pthread_mutex_lock(&r->lock);
    const uint64_t n = r->next;
    pthread_mutex_unlock(&r->lock);
    return n;
}

uint64_t tt_record_last(struct tt_record *r, uint64_t most, struct tt_record_event *ret,
                        uint64_t *ret_lost)
{
    pthread_mutex_lock(&r->lock);
    uint64_t all = r->next, n = all < r->cap ? all : r->cap;
    n = n < most ? n : most;
    for (uint64_t i = 0; i < n; i++)
        ret[i] = r->event[(all - n + i) % r->cap];
    pthread_mutex_unlock(&r->lock);
    assert(n <= r->cap && n <= all);
    *ret_lost = all - n;
    return n;
}
