/* succeed.c - the job that follows another when members have failed or newcomers are let in.
 *
 * Every rank already has the addresses of all, and the listener of each process stays where it is,
 * so that nothing needs to be exchanged: the new object is a part of the old one under a new job
 * id.
 *
 *     old job        0    1    2    3    4         ranks 1 and 3 are gone
 *                    |         |         |
 *     new job        0         1         2    3    the same processes, addresses and ports;
 *                                                  3 is new (guest.c): all have its address
 *
 * A process listens from its first job to its last. That is what makes "nobody listens there any
 * more" a proof that a rank has ended (watch/call.c). Ranks of past jobs may still come, because
 * they were stopped, slow or cut off meanwhile: each is told the last word of its job, which names
 * the ranks that went on. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "boot/boot_int.h"
#include "boot/porter.h"

/* ---- ranks that come later ---- */

static const struct tt_past *past_of(const struct tt_boot *b, uint64_t job)
{
    const struct tt_past *list = b->past.data;

    for (size_t i = 0; i < b->past.len; i++)
        if (list[i].job == job)
            return &list[i];
    return NULL;
}

void tt_boot_past_tell(struct tt_boot *b, struct tt_arrival *a)
{
    const struct tt_past *p = past_of(b, a->job);
    struct tt_boot_line *l = &b->told[b->ntold % TT_TOLD];
    size_t sent = 0;

    if (!p || a->role != TT_ROLE_ROLL || !tt_boot_arrival_admit(a)) {
        tt_boot_net_close(&a->fd);
        return;
    }
    if (l->state)
        tt_boot_line_close(l);
    if (!tt_boot_line_open(l, a->fd, &a->keys)) {
        tt_boot_net_close(&l->fd);
        return;
    }
    b->ntold++;
    /* It fits an empty socket buffer. If the peer is gone, there is no one to tell. */
    tt_boot_line_write(l, p->word, p->word_bytes, &sent);
}

/* ---- the new job ---- */

static bool past_add(struct tt_boot *b, uint64_t job, uint32_t rank, const void *word, size_t bytes)
{
    struct tt_past p = {.job = job, .rank = rank, .word = tt_alloc(bytes, 1), .word_bytes = bytes};

    if (!p.word)
        return false;
    memcpy(p.word, word, bytes);
    if (tt_vec_push(&b->past, &p, 1))
        return true;
    free(p.word);
    return false;
}

/* The past of the old job, as far as it is remembered, and the old job itself. */
static bool past_inherit(struct tt_boot *b, const struct tt_boot *old,
                         const struct tt_boot_heirs *h)
{
    const struct tt_past *list = old->past.data;
    size_t first = old->past.len >= TT_PAST_MAX ? old->past.len - TT_PAST_MAX + 1 : 0;
    bool ok = true;

    for (size_t i = first; ok && i < old->past.len; i++)
        ok = past_add(b, list[i].job, list[i].rank, list[i].word, list[i].word_bytes);
    return ok && past_add(b, old->job, old->config.rank, h->word, h->word_bytes);
}

/* Ranks that were left out may come too, so that the addresses stay known. */
static bool known_inherit(struct tt_boot *b, const struct tt_boot *old)
{
    b->known_be = tt_alloc(old->nknown, sizeof *b->known_be);
    if (!b->known_be)
        return false;
    memcpy(b->known_be, old->known_be, old->nknown * sizeof *b->known_be);
    b->nknown = old->nknown;
    return true;
}

/* NULL: out of memory. */
static struct tt_boot *heir_make(const struct tt_boot *old, const struct tt_boot_heirs *h)
{
    struct tt_boot_config c = old->config;
    struct tt_boot *b;

    c.rank = h->me;
    c.size = h->n + h->nnew;
    c.settings = NULL;
    b = tt_boot_make(&c);
    explicit_bzero(c.key, sizeof c.key);
    if (!b)
        return NULL;
    free((char *)(uintptr_t)b->config.settings);
    b->config.settings = tt_strdup(old->config.settings);
    b->offer = old->offer;
    b->net_id = old->net_id;
    b->source_be = old->source_be;
    b->job = h->job;
    b->welcome = old->welcome;
    for (uint32_t r = 0; r < h->n; r++)
        b->peers[r] = old->peers[h->members[r]];
    for (uint32_t i = 0; i < h->nnew; i++)
        b->peers[h->n + i] = h->newcomers[i].peer;
    if (b->config.settings && known_inherit(b, old) && past_inherit(b, old, h))
        return b;
    tt_boot_close(b);
    return NULL;
}

tutti_status tt_boot_succeed(struct tt_boot *old, const struct tt_boot_heirs *h,
                             struct tt_boot **ret, struct tutti_error *err)
{
    struct tt_boot *b;
    tutti_status st = TUTTI_OK;

    assert(old->porter && h->n > 0 && h->me < h->n && h->members[h->me] == old->config.rank);
    b = heir_make(old, h);
    if (!b)
        return tt_fail_memory(err, "rendezvous");
    b->listener = tt_boot_porter_yield(old);
    st = tt_boot_porter_open(b, err);
    tt_boot_guests_tell(old, b, h);
    if (st) {
        tt_boot_close(b);
        return st;
    }
    *ret = b;
    return TUTTI_OK;
}

/* ---- its control lines ---- */

/* Rank 0 needs a line to every rank, the others need one to rank 0. */
static bool needs(const struct tt_boot *b, uint32_t r)
{
    return r != b->config.rank && (b->config.rank == 0 || r == 0);
}

/* A link has come, or cannot be made; true: it was one that is needed. */
static bool rejoin_take(struct tt_boot *b, struct tt_porter_link *l)
{
    bool needed = l->peer < b->config.size && needs(b, l->peer);

    if (l->fd >= 0 && (!needed || !tt_boot_line_open(&b->control[l->peer], l->fd, &l->keys)))
        tt_boot_net_close(&l->fd);
    explicit_bzero(&l->keys, sizeof l->keys);
    return needed;
}

static void rejoin_sleep(struct tt_boot *b, const struct tt_desk *d, uint64_t deadline_ns)
{
    struct pollfd fds[] = {{.fd = tt_boot_porter_fd(b), .events = POLLIN},
                           {.fd = tt_boot_desk_bell(d), .events = POLLIN}};
    uint64_t due = tt_boot_porter_due(b);

    tt_boot_net_poll(fds, 2, due < deadline_ns ? due : deadline_ns);
    tt_boot_porter_serve(b);
}

tutti_status tt_boot_rejoin(struct tt_boot *b, uint64_t deadline_ns, struct tutti_error *err)
{
    uint64_t now = tt_now_ns();
    struct tt_porter_link l;
    struct tt_desk *d = NULL;
    uint32_t waiting = 0;
    tutti_status st;

    if (b->config.size < 2)
        return TUTTI_OK;
    st = tt_boot_desk_open(b, TT_ROLE_CONTROL, deadline_ns > now ? deadline_ns - now : 1, &d, err);
    for (uint32_t r = 0; !st && r < b->config.size; r++)
        if (needs(b, r)) {
            st = tt_boot_desk_want(d, r, err);
            waiting++;
        }
    while (!st && waiting && tt_now_ns() < deadline_ns) {
        rejoin_sleep(b, d, deadline_ns);
        while (tt_boot_desk_take(d, &l))
            waiting -= rejoin_take(b, &l);
    }
    tt_boot_desk_close(d);
    return st;
}
