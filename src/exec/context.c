/* context.c - contexts: which ranks belong to one, what its number is, and how its members learn
 * that.
 *
 * Each rank numbers its own open contexts, so that an arriving tag finds its context in a table. A
 * rank learns the number that a context has at a peer from that peer. Both sides say HELLO when
 * they first have a program that needs the other:
 *
 *     rank 1   open key 77 as 3    HELLO 77 is 3 -->    data for 5 -->    close: BYE 77 -->
 *     rank 2   open key 77 as 5    <-- HELLO 77 is 5    <-- data for 3    programs that need 1 fail
 *
 * Data goes only to a peer that has introduced itself, so nothing ever comes for a context that is
 * not open yet. A HELLO that comes early is kept (a few bytes) and answered when the context is
 * opened, unless its BYE comes first. The context of all ranks has number 0 everywhere and needs no
 * words.
 *
 * Closing is local. What still comes for a closed context carries its old number and is dropped: a
 * place of the table is given out again only after all others, and with another generation.
 *
 *     number (16 bits)  =  generation (4) | place in the table (12)
 *
 * What a context knows about a member is made when it is first needed: a rank that never talks to
 * another keeps a NULL pointer for it. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "exec/exec_int.h"

enum { PLACES = 1 << 12, GENERATIONS = 1 << 4, FIRST_PLACES = 64 };
static_assert(PLACES * GENERATIONS == UINT16_MAX + 1, "a number fills the tag's field");

static uint32_t place_of(uint16_t comm)
{
    return comm % PLACES;
}

/* The generation is part of `comm`: a late message of a context that had the same place is told
 * apart. */
struct tt_context *tt_exec_context_find(const struct tt_engine *e, uint16_t comm)
{
    struct tt_context *x = place_of(comm) < e->ncontexts ? e->contexts[place_of(comm)] : NULL;
    return x && x->comm == comm && !x->closing ? x : NULL;
}

/* Frees a context that no list names any more. */
static void context_free(struct tt_context *x)
{
    for (uint32_t r = 0; x->peers && r < x->n; r++) {
        if (x->peers[r])
            free(x->peers[r]->promises);
        free(x->peers[r]);
    }
    free(x->members);
    free(x->group_of);
    free(x->peers);
    free(x);
}

void tt_exec_context_forget(struct tt_context *x)
{
    assert(x->closing && x->nrunning == 0 && !x->stashed);
    for (uint32_t r = 0; r < x->n; r++)
        if (x->peers[r] && x->peers[r]->due_listed)
            return;
    x->engine->contexts[place_of(x->comm)] = NULL;
    context_free(x);
}

/* ---- members ---- */

/* A peer that has ended before is made as closed, so that a program which needs it fails at
 * once. */
static struct tt_xpeer *make_peer(struct tt_context *x, uint32_t rank)
{
    assert(rank < x->n && !x->peers[rank]);
    struct tt_xpeer *pe = tt_zalloc(1, sizeof *pe);
    if (!pe)
        return NULL;
    pe->context = x;
    pe->rank = rank;
    pe->world = tt_context_world(x, rank);
    pe->met = pe->greeted = x->key == 0;
    pe->closed = x->engine->gone[pe->world] != 0;
    pe->error = pe->closed ? x->engine->gone[pe->world] - 1 : 0;
    x->any_closed = x->any_closed || pe->closed;
    x->peers[rank] = pe;
    return pe;
}

struct tt_xpeer *tt_exec_context_peer(struct tt_context *x, uint32_t rank)
{
    if (rank >= x->n)
        return NULL;
    return x->peers[rank] ? x->peers[rank] : make_peer(x, rank);
}

struct tt_xpeer *tt_exec_context_sender(struct tt_context *x, uint32_t world)
{
    assert(world < x->engine->size);
    return tt_exec_context_peer(x, x->group_of ? x->group_of[world] : world);
}

/* A program that was prepared in this context has its peers; only room for one more promise is
 * needed then. Box programs send no messages: they need neither introduction nor credit. */
TT_HOT tutti_status tt_exec_context_prepare(struct tt_context *x, const struct tt_program *p,
                                            struct tutti_error *err)
{
    for (uint32_t i = 0; p->context != x && i < p->nlinks; i++) {
        uint32_t rank = p->links[i].peer;
        struct tt_xpeer *pe = tt_exec_context_peer(x, rank);
        if (rank >= x->n)
            return tt_fail(err, TUTTI_ERR_MISMATCH,
                           "the schedule has a rank %u, the communicator has %u", rank, x->n);
        if (!pe)
            return tt_fail_memory(err, "peer");
        if (!pe->greeted && !p->box)
            tt_exec_context_owe(pe, TT_XDUE_HELLO);
    }
    return p->box || tt_exec_credit_prepare(x, p) ? TUTTI_OK : tt_fail_memory(err, "promises");
}

/* ---- opening and closing ---- */

/* A free place. The search goes round, so that a place is given out again after all others. Place 0
 * is left out: its number belongs to the context of all ranks, which is opened first. UINT32_MAX:
 * there is none, or no memory. Both tables grow together; ncontexts changes only when both have. */
static uint32_t take_place(struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->ncontexts; i++) {
        uint32_t at = (e->cursor_context + i) % e->ncontexts;
        if (at == 0 || e->contexts[at])
            continue;
        e->cursor_context = at + 1;
        return at;
    }
    uint32_t n = e->ncontexts ? 2 * e->ncontexts : FIRST_PLACES;
    struct tt_context **contexts =
        n <= PLACES ? realloc(e->contexts, n * sizeof(struct tt_context *)) : NULL;
    uint8_t *generations = contexts ? realloc(e->generations, n) : NULL;
    e->contexts = contexts ? contexts : e->contexts;
    e->generations = generations ? generations : e->generations;
    if (!generations)
        return UINT32_MAX;
    memset(contexts + e->ncontexts, 0, (n - e->ncontexts) * sizeof(struct tt_context *));
    memset(generations + e->ncontexts, 0, n - e->ncontexts);
    uint32_t at = e->ncontexts;
    e->ncontexts = n;
    e->cursor_context = at + 1;
    return at;
}

/* Tables in both directions; ranks that are no members get TT_XNO. */
static bool name_members(struct tt_context *x, const struct tt_context_config *c)
{
    if (!c->members)
        return true;
    x->members = tt_alloc(c->n, sizeof *x->members);
    x->group_of = tt_alloc(x->engine->size, sizeof *x->group_of);
    if (!x->members || !x->group_of)
        return false;
    memset(x->group_of, 0xff, x->engine->size * sizeof *x->group_of);
    for (uint32_t r = 0; r < c->n; r++) {
        assert(c->members[r] < x->engine->size);
        x->members[r] = c->members[r];
        x->group_of[c->members[r]] = r;
    }
    return true;
}

/* The next number of the place. The one that equals TT_XCOMM_NONE is skipped. */
static uint16_t number_of(struct tt_engine *e, uint32_t place, uint64_t key)
{
    assert(place < e->ncontexts && !e->contexts[place]);
    uint8_t generation = key ? e->generations[place]++ % GENERATIONS : 0;
    if (place == PLACES - 1 && generation == GENERATIONS - 1) /* TT_XCOMM_NONE */
        generation = e->generations[place]++ % GENERATIONS;
    return (uint16_t)(place + PLACES * generation);
}

tutti_status tt_exec_context_open(struct tt_engine *e, const struct tt_context_config *c,
                                  struct tt_context **ret, struct tutti_error *err)
{
    uint32_t place = take_place(e);
    if (place == UINT32_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%d communicators are open: there can be no more",
                       PLACES);
    struct tt_context *x = tt_zalloc(1, sizeof *x);
    if (x)
        x->peers = tt_zalloc(c->n, sizeof(struct tt_xpeer *));
    if (!x || !x->peers) {
        free(x);
        return tt_fail_memory(err, "communicator");
    }
    assert(c->rank < c->n && c->n <= e->size);
    x->engine = e;
    x->key = c->key;
    x->n = c->n;
    x->rank = c->rank;
    x->box_last = &x->box_first;
    assert(c->key || place == 0);
    if (!name_members(x, c)) {
        context_free(x);
        return tt_fail_memory(err, "communicator");
    }
    x->boxes = c->boxes;
    x->comm = number_of(e, place, c->key);
    e->contexts[place] = x;
    tt_exec_context_answer(x);
    *ret = x;
    return TUTTI_OK;
}

/* Says BYE to the members that were sent a HELLO. Other control messages that are still due are
 * dropped. */
static void leave_members(struct tt_context *x)
{
    for (uint32_t r = 0; r < x->n; r++) {
        struct tt_xpeer *pe = x->peers[r];
        if (!pe)
            continue;
        tt_exec_stash_drop(pe);
        pe->due_words = 0;
        if (x->key && pe->greeted && !x->engine->failed)
            tt_exec_context_owe(pe, TT_XDUE_BYE);
    }
}

/* The context is out of the table's reach at once (`closing`), and freed now or when its BYEs have
 * gone. */
void tt_exec_context_close(struct tt_context *x)
{
    if (!x)
        return;
    assert(x->nrunning == 0);
    assert(!x->box_first || x->engine->failed);
    tt_exec_letter_drop(x);
    tt_direct_boxes_close(x->boxes);
    x->boxes = NULL;
    x->closing = true;
    if (x->engine->report == x)
        x->engine->report = NULL;
    leave_members(x);
    tt_exec_context_forget(x);
}

void tt_exec_context_free_all(struct tt_engine *e)
{
    for (uint32_t i = 0; i < e->ncontexts; i++)
        if (e->contexts[i])
            context_free(e->contexts[i]);
    free(e->contexts);
    free(e->generations);
}

/* A rank of the transport has ended: nothing of it is being received any more, whatever was
 * counted. The first fault ends the loop. */
void tt_exec_context_gone(struct tt_engine *e, uint32_t world, int error)
{
    assert(world < e->size && error >= 0);
    e->gone[world] = error + 1;
    for (uint32_t i = 0; i < e->ncontexts && !e->failed; i++) {
        struct tt_context *x = e->contexts[i];
        uint32_t rank = !x ? TT_XNO : x->group_of ? x->group_of[world] : world;
        if (rank == TT_XNO || !x->peers[rank])
            continue;
        x->peers[rank]->filling = 0;
        tt_exec_context_end(x->peers[rank], error);
    }
}

bool tt_exec_context_running(const struct tt_context *x)
{
    return x->nrunning > 0;
}

TT_HOT uint64_t tt_exec_context_moved(const struct tt_context *x)
{
    return x->moved;
}

uint64_t tt_exec_context_mailed(const struct tt_context *x)
{
    return x->mailed;
}
