/* window.c - copies of pieces in memory that all local ranks map, for peers to read. This is how
 * pieces outside the heap go by reference.
 *
 * A rank's window area is given out in TT_XUNITS units, in turn: a unit that a peer has just read
 * is still in that peer's cache, from which a new write would have to take it. One copy serves all
 * sends of a place (the groups of lower.c):
 *
 *     event             unsent  users
 *     taken             3       0
 *     sent to 1         2       1
 *     sent to 2         1       2
 *     TAKEN from 1      1       1
 *     sent to 3         0       2
 *     TAKEN, TAKEN      0       0      free
 *
 * Room comes back with TAKEN. Invariant: a set bit of e->units is a free unit; slots_out[u]
 * describes the slot that begins at unit u while units > 0. */
#include <assert.h>

#include "exec/exec_int.h"

/* Bytes after which a turn is over; the units after that are used only when these are taken. Ranks
 * that share cores share caches too: their turns are shorter, so that all of them stay in the
 * last-level cache. */
enum { TURN = 1 << 20, TURN_SHARED = 768 << 10 };

void tt_exec_window_make(struct tt_engine *e)
{
    /* at least one unit for each peer */
    bool enough = e->direct && tt_direct_nlocal(e->direct) - 1 <= TT_XUNITS / 2;
    e->unit_bytes = enough ? tt_direct_stream_bytes(e->direct) / TT_XUNITS / 64 * 64 : 0;
    e->units = e->unit_bytes ? UINT64_MAX : 0;
    e->turn = !e->units ? 0 : tt_direct_crowded(e->direct) ? TURN_SHARED : TURN;
}

char *tt_exec_window_at(const struct tt_engine *e, const struct tt_xslot *s)
{
    assert(s->units > 0 && s->unit + s->units <= TT_XUNITS);
    return (char *)tt_direct_stream(e->direct, tt_direct_me(e->direct)) + s->unit * e->unit_bytes;
}

/* Looks at the busy units only. A slot whose sends have all gone is not looked for any more. */
struct tt_xslot *tt_exec_window_find(struct tt_engine *e, const struct tt_xslot *key)
{
    for (uint64_t busy = ~e->units; busy; busy &= busy - 1) {
        struct tt_xslot *s = &e->slots_out[__builtin_ctzll(busy)];
        if (s->unsent && s->program == key->program && s->seq == key->seq &&
            s->group == key->group && s->piece == key->piece)
            return s;
    }
    return NULL;
}

/* The lowest run of n free units; TT_XNO: there is none. Invariant: bit b of `runs` is set if units
 * b .. b+i-1 are free. */
static uint32_t find_units(uint64_t units, uint32_t n)
{
    uint64_t runs = units;
    for (uint32_t i = 1; i < n && runs; i++)
        runs &= units >> i;
    return runs ? (uint32_t)__builtin_ctzll(runs) : TT_XNO;
}

static uint64_t mask_of(const struct tt_xslot *s)
{
    assert(s->units > 0 && s->unit + s->units <= TT_XUNITS);
    return (UINT64_MAX >> (TT_XUNITS - s->units)) << s->unit;
}

/* What a slot counts against, and how much that may use: one half of the units for copies that
 * several peers read, the other half in equal parts for each peer that running programs have. So a
 * peer that waits for other ranks' operands cannot keep those ranks from getting theirs. A program
 * that had more when it started alone gives it back without help of those that follow. */
static uint32_t *used_by(struct tt_engine *e, const struct tt_xslot *s, uint32_t *ret_most)
{
    uint64_t peers = tt_direct_nlocal(e->direct) - 1;
    peers = e->links_running && e->links_running < peers ? e->links_running : peers;
    *ret_most = s->near == TT_XNO || !peers ? TT_XUNITS / 2 : (uint32_t)(TT_XUNITS / 2 / peers);
    return s->near == TT_XNO ? &e->shared_units : &e->near[s->near].units;
}

/* Assumes the least share of a peer, because the sender's other links are not known here. */
bool tt_exec_window_holds(const struct tt_engine *e, uint32_t npieces, uint64_t bytes)
{
    uint64_t units =
        e->unit_bytes ? npieces * ((bytes + e->unit_bytes - 1) / e->unit_bytes) : TT_XUNITS;
    return npieces == 1 || units * (tt_direct_nlocal(e->direct) - 1) <= TT_XUNITS / 2;
}

struct tt_xslot *tt_exec_window_take(struct tt_engine *e, const struct tt_xslot *key,
                                     uint64_t bytes, uint32_t nsends)
{
    if (!e->units)
        return NULL;
    uint64_t units = (bytes + e->unit_bytes - 1) / e->unit_bytes;
    /* A peer that uses nothing may take more than its share: a piece must be able to go at all. */
    uint32_t most, *used = used_by(e, key, &most);
    if (*used && *used + units > most)
        return NULL;
    assert(e->cursor < TT_XUNITS); /* it is a shift of 64 bits below */
    uint32_t at = units <= TT_XUNITS
                      ? find_units(e->units & UINT64_MAX << e->cursor, (uint32_t)units)
                      : TT_XNO;
    if (at == TT_XNO && units <= TT_XUNITS)
        at = find_units(e->units, (uint32_t)units);
    if (at == TT_XNO)
        return NULL;
    e->cursor = at + (uint32_t)units;
    if (e->cursor * e->unit_bytes >= e->turn || e->cursor >= TT_XUNITS)
        e->cursor = 0;
    struct tt_xslot *s = &e->slots_out[at];
    *s = *key;
    s->unit = at;
    s->units = (uint32_t)units;
    s->unsent = nsends;
    s->users = 0;
    assert(nsends > 0 && (e->units & mask_of(s)) == mask_of(s));
    e->units &= ~mask_of(s);
    *used += s->units;
    return s;
}

/* Frees a slot once no reference to it is out or still to be sent. */
static void free_unused(struct tt_engine *e, struct tt_xslot *s)
{
    if (s->unsent || s->users)
        return;
    uint32_t most, *used = used_by(e, s, &most);
    assert(!(e->units & mask_of(s)) && *used >= s->units);
    *used -= s->units;
    e->units |= mask_of(s);
    s->units = 0;
}

void tt_exec_window_sent(struct tt_engine *e, struct tt_xslot *s, bool referred)
{
    assert(s->units > 0 && s->unsent > 0);
    s->unsent--;
    s->users += referred;
    free_unused(e, s);
}

bool tt_exec_window_taken(struct tt_engine *e, uint32_t slot)
{
    struct tt_xslot *s = &e->slots_out[slot < TT_XUNITS ? slot : 0];
    if (slot >= TT_XUNITS || !s->units || !s->users)
        return false;
    s->users--;
    free_unused(e, s);
    return true;
}
