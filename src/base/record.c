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

/* Pages are touched here, not at the first events. */
struct tt_record *tt_record_make(uint64_t events)
{
    struct tt_record *r = malloc(sizeof *r + events * sizeof r->event[0]);
    if (!r)
        return NULL;
    memset(r, 0, sizeof *r + events * sizeof r->event[0]);
    r->cap = events;
    return r;
}

void tt_record_note(struct tt_record *r, const struct tt_record_event *e)
{
    if (r->board)
        tt_board_count(r->board, e);
    if (!r->cap)
        return;
    uint64_t at = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    r->event[at % r->cap] = *e;
}

static bool same_plan(const struct tt_record_plan *a, const struct tt_record_plan *b)
{
    return a->hash == b->hash && a->count == b->count && a->coll == b->coll &&
           a->dtype == b->dtype && a->segments == b->segments && a->root == b->root;
}

uint8_t tt_record_plan(struct tt_record *r, const struct tt_record_plan *p)
{
    for (uint32_t i = 0; i < r->nplans; i++)
        if (same_plan(&r->plan[i], p))
            return (uint8_t)i;
    if (r->nplans == TT_RECORD_PLANS)
        return TT_RECORD_NO_PLAN;
    r->plan[r->nplans] = *p;
    return (uint8_t)r->nplans++;
}

uint64_t tt_record_last(const struct tt_record *r, uint64_t most, struct tt_record_event *ret,
                        uint64_t *ret_lost)
{
    uint64_t all = atomic_load(&r->next), n = all < r->cap ? all : r->cap;
    n = n < most ? n : most;
    for (uint64_t i = 0; i < n; i++)
        ret[i] = r->event[(all - n + i) % r->cap];
    assert(n <= r->cap && n <= all);
    *ret_lost = all - n;
    return n;
}
