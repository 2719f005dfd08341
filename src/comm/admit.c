/* admit.c - letting newcomers in, at a point that all members choose.
 *
 *     how many wait at each member? -- none: go on as before (one small all-gather)
 *     who are they?                 -- now every member that gets past the barrier knows that
 *     barrier                          every member knows the newcomers
 *     roll call (shrink.c)          -- decides who goes on, and whether the newcomers come in
 *
 * A member may die at any of these lines, so that some ranks get past it and others do not. The
 * roll call settles it: a rank proposes the newcomers only if it has passed the barrier, and then
 * all ranks have the same list, whether they have passed it or not. Whatever is decided, every rank
 * can carry out. A failure therefore is no reason to return: the members that live go on, as after
 * tt_comm_shrink. */
#include <stdlib.h>
#include <string.h>

#include "comm/comm_int.h"
#include "watch/roll.h"

enum { AT_ONCE = 64 }; /* newcomers of one member at a time; the others wait for the next call */

/* What a rank says at first: how many wait there, and how many ranks the job may have. */
struct word {
    uint32_t waiting, most;
};

/* The smallest limit of all ranks applies. Newcomers beyond it go on waiting. */
static tutti_status limit(uint32_t *ret, struct tutti_error *err)
{
    const char *text = getenv("TUTTI_MAX_RANKS");
    uint64_t most = TT_ROLL_RANKS;
    tutti_status st = text && *text ? tt_parse_u64(text, 1, UINT32_MAX, &most, err) : TUTTI_OK;
    if (st)
        tt_fail_prefix(err, "TUTTI_MAX_RANKS");
    *ret = most < TT_ROLL_RANKS ? (uint32_t)most : TT_ROLL_RANKS;
    return st;
}

/* Appends those of rank r, as far as there is room for ranks. */
static void take_from(struct tt_newcomers *all, const struct tt_boot_newcomer *from, uint32_t r,
                      uint32_t n, uint32_t room)
{
    for (uint32_t i = 0; i < n && all->n < room; i++) {
        all->list[all->n] = from[i];
        all->list[all->n++].host = r;
    }
}

/* Everybody learns who waits at all of them. `most`: the greatest number at one rank. */
static tutti_status gather(struct tt_setup *s, const struct tt_boot_newcomer *mine,
                           const struct word *words, uint32_t most, uint32_t room,
                           struct tt_newcomers *ret, struct tutti_error *err)
{
    uint32_t size = s->through->size;
    struct tt_boot_newcomer *got = tt_alloc((size_t)size * most, sizeof *got);
    ret->list = tt_alloc(room, sizeof *ret->list);
    tutti_status own = got && ret->list ? TUTTI_OK : tt_fail_memory(err, "newcomers");
    tutti_status st = tt_comm_unable(s, UINT32_MAX, own, err);
    if (!st)
        st = tt_comm_exchange(s, mine, most * sizeof *mine, got, err);
    for (uint32_t r = 0; !st && r < size; r++)
        take_from(ret, got + (size_t)r * most, r, words[r].waiting, room);
    free(got);
    if (!st)
        st = tt_comm_run(s->through, &(struct tt_call){.coll = TUTTI_BARRIER, .why = s->why});
    ret->known = !st;
    return st;
}

/* Gathers which newcomers wait. On failure ret may hold the list, without being known to all. */
static tutti_status find_newcomers(struct tt_comm *c, struct tt_newcomers *ret,
                                   struct tutti_error *err)
{
    struct tt_setup s = {.through = c, .why = TT_WHY_ADMIT};
    struct tt_boot_newcomer mine[AT_ONCE] = {0};
    struct word own = {.waiting = tt_boot_newcomers(c->world->boot, mine, AT_ONCE)};
    struct word *words = tt_alloc(c->size, sizeof *words);
    uint32_t most = 0, total = 0, cap = TT_ROLL_RANKS;
    tutti_status st = words ? limit(&own.most, err) : tt_fail_memory(err, "newcomers");
    st = tt_comm_unable(&s, UINT32_MAX, st, err);
    if (!st)
        st = tt_comm_exchange(&s, &own, sizeof own, words, err);
    for (uint32_t r = 0; !st && r < c->size; r++) {
        uint32_t n = words[r].waiting = words[r].waiting < AT_ONCE ? words[r].waiting : AT_ONCE;
        most = n > most ? n : most;
        total += n;
        cap = words[r].most < cap ? words[r].most : cap;
    }
    uint32_t room = cap > c->size ? cap - c->size : 0;
    room = total < room ? total : room;
    if (!st && room)
        st = gather(&s, mine, words, most, room, ret, err);
    free(words);
    return st;
}

tutti_status tt_comm_admit(struct tt_comm *c, struct tt_comm **ret, struct tutti_error *err)
{
    struct tt_newcomers all = {0};
    tutti_status st = tt_comm_may_change(c, err);
    if (!st && !tt_boot_welcome(c->world->boot))
        st = tt_fail(err, TUTTI_ERR_ARG,
                     "a job that began with one rank has no address where newcomers could come");
    if (st)
        return st;
    st = find_newcomers(c, &all, err);
    if (!st && !all.n)
        *ret = c;
    else if (!st || tt_comm_verdict(c)) /* after a verdict: those who live go on */
        st = tt_comm_succeed(c, &all, ret, err);
    free(all.list);
    return st;
}
