/* window.c - copies of pieces in memory that all local ranks map, for peers to read: the way of
 * ordinary memory.
 *
 * A rank's window area is given out in TT_XUNITS parts. With a core per rank they are used in turn:
 * a part that a peer has just read is still in that peer's cache, from which writing it again would
 * have to take it. Ranks that share cores share caches too: they use the fewest parts. One copy
 * serves all sends of a place (lower.c's groups):
 *
 *     taken: unsent 3, users 0  -> sent to 1: 2, 1 -> sent to 2: 1, 2 -> TAKEN from 1: 1, 1 -> sent to 3: 0, 2 -> TAKEN, TAKEN: free
 *
 * Room comes back with TAKEN. */
#include "exec/exec_int.h"

/* bytes after which a turn is over: the rest of the area is for when these are in use */
enum { TURN = 1 << 20 };

void tt_exec_window_make(struct tt_engine *e)
{
    /* one for each peer */
    bool enough = e->direct && tt_direct_nlocal(e->direct) - 1 <= TT_XUNITS / 2;
    e->unit_bytes = enough ? tt_direct_stream_bytes(e->direct) / TT_XUNITS / 64 * 64 : 0;
    e->units = e->unit_bytes ? UINT64_MAX : 0;
    e->turn = e->units && !tt_direct_crowded(e->direct) ? TURN : 0;
}

char *tt_exec_window_at(const struct tt_engine *e, const struct tt_xslot *s)
{
    return (char *)tt_direct_stream(e->direct, tt_direct_me(e->direct)) + s->unit * e->unit_bytes;
}

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

/* The lowest run of n free units; TT_XNO. */
static uint32_t find_units(uint64_t units, uint32_t n)
{
    uint64_t runs = units;
    for (uint32_t i = 1; i < n && runs; i++)
        runs &= units >> i;
    return runs ? (uint32_t)__builtin_ctzll(runs) : TT_XNO;
}

static uint64_t mask_of(const struct tt_xslot *s)
{
    return (UINT64_MAX >> (TT_XUNITS - s->units)) << s->unit;
}

/* What a slot counts against, and how much that may have: one half for copies that several peers
 * read, the other in equal parts for each peer alone that running programs have. A peer that waits
 * for the others' operands cannot keep those others from getting theirs. What a program that
 * started before had more of comes back without help of those that follow. */
static uint32_t *used_by(struct tt_engine *e, const struct tt_xslot *s, uint32_t *ret_most)
{
    uint64_t peers = tt_direct_nlocal(e->direct) - 1;
    peers = e->links_running && e->links_running < peers ? e->links_running : peers;
    *ret_most = s->near == TT_XNO || !peers ? TT_XUNITS / 2 : (uint32_t)(TT_XUNITS / 2 / peers);
    return s->near == TT_XNO ? &e->shared_units : &e->near[s->near].units;
}

/* By the least share of a peer: the sender's other links are not known here. */
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
    uint32_t most, *used = used_by(e, key, &most);
    if (*used && *used + units > most)
        return NULL;
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
    e->units &= ~mask_of(s);
    *used += s->units;
    return s;
}

static void free_unused(struct tt_engine *e, struct tt_xslot *s)
{
    uint32_t most;
    if (!s->unsent && !s->users) {
        *used_by(e, s, &most) -= s->units;
        e->units |= mask_of(s);
        s->units = 0;
    }
}

void tt_exec_window_sent(struct tt_engine *e, struct tt_xslot *s, bool referred)
{
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
