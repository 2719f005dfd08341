/* guest.c - newcomers that wait at a member until the members admit them.
 *
 *     newcomer --> gate (unproved) --> guest, sending its join --> waits --> ticket
 *                                         '-- does not fit: told why, and closed
 *
 * Any member's listener will do, once it lets newcomers in (tt_boot_welcome). A guest has proved
 * that it holds the job's key; version and settings are compared as soon as its join is here, so
 * that one that does not fit never reaches the members. Its connection carries nothing while it
 * waits, so that its end means that the newcomer has left.
 *
 * The porter's thread serves the guests, under its lock. A guest whose member goes on to another
 * job without it is closed and comes again (enter.c). */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/blame.h"
#include "base/log.h"
#include "boot/boot_int.h"
#include "boot/porter.h"

enum { GUESTS_MAX = 256 };
#define JOIN_NS   UINT64_C(10000000000) /* from proof to join */
#define TICKET_NS UINT64_C(200000000)   /* a ticket fits an idle connection, unless it is huge */

struct tt_guest {
    struct tt_boot_line line;
    uint64_t since_ns;
    bool waits; /* its join was complete, and fits */
    struct tt_boot_peer peer;
    struct tt_frame_in in;
    uint8_t body[TT_JOIN_MAX];
};

static void guest_free(struct tt_guest *g, int epoll)
{
    tt_boot_net_unwatch(epoll, g->line.fd);
    tt_boot_line_close(&g->line);
    free(g);
}

bool tt_boot_welcome(struct tt_boot *b)
{
    const struct tt_boot_peer *me = &b->peers[b->config.rank];
    char at[TT_NET_TEXT];

    if (!b->porter)
        return false;
    if (b->welcome)
        return true;
    tt_boot_porter_welcome(b);
    tt_boot_net_text(me->addr_be, me->port, at);
    tt_blame_note(TT_NOTED_DOOR, b->config.rank, b->config.size, at);
    tt_log_write(TT_LOG_INFO, b->config.rank, "newcomers may join at %s", at);
    return true;
}

/* One that cannot be seated is closed, and comes again. */
void tt_boot_guest_seat(struct tt_boot *b, struct tt_arrival *a, int epoll)
{
    bool room = b->guests.len < GUESTS_MAX;
    struct tt_guest *g = room ? tt_zalloc(1, sizeof *g) : NULL;

    if (!g || !tt_boot_arrival_admit(a) || !tt_vec_push(&b->guests, &g, 1)) {
        tt_boot_net_close(&a->fd);
        free(g);
        return;
    }
    if (!tt_boot_line_open(&g->line, a->fd, &a->keys)) {
        b->guests.len--;
        tt_boot_line_close(&g->line);
        free(g);
        return;
    }
    g->since_ns = tt_now_ns();
    g->in = (struct tt_frame_in){.body = g->body, .cap = sizeof g->body};
    tt_boot_net_watch(epoll, g->line.fd, POLLIN, &b->guests);
}

/* "version=..", then the settings; NULL: no memory. */
static char *lines_of(const struct tt_boot_join *j)
{
    struct tt_str s = {0};

    tt_str_printf(&s, "version=%s\n", j->version);
    tt_str_add(&s, j->settings, j->settings_len);
    if (s.failed)
        tt_str_free(&s);
    return s.s;
}

/* Rank 0 of the message is the members' side. */
static bool settings_fit(const struct tt_boot *b, const struct tt_boot_join *j,
                         struct tutti_error *ret)
{
    struct tt_boot_join mine;
    char *lines[2] = {NULL, lines_of(j)};
    struct tt_str diff = {0};
    bool fits = false;

    if (!tt_boot_self_join(b, &mine, ret))
        lines[0] = lines_of(&mine);
    if (!lines[0] || !lines[1])
        tt_fail_memory(ret, "settings");
    else if (tt_boot_settings_differ((const char *const *)lines, 2, &diff))
        tt_fail(ret, TUTTI_ERR_DIFFERS,
                "a newcomer (here called rank 1) differs from the job that runs (rank 0): %s",
                diff.s ? diff.s : "settings differ");
    else
        fits = true;
    tt_str_free(&diff);
    free(lines[0]);
    free(lines[1]);
    return fits;
}

/* Can every member reach it? On loopback only processes of one network can. */
static bool place_fits(const struct tt_boot *b, const struct tt_boot_join *j,
                       struct tutti_error *ret)
{
    const struct tt_boot_peer *me = &b->peers[b->config.rank];
    bool inside = tt_boot_net_loopback(me->addr_be);

    if (inside == tt_boot_net_loopback(j->peer.addr_be) && (!inside || j->net_id == b->net_id))
        return true;
    tt_fail(ret, TUTTI_ERR_ARG,
            "the job that runs has its ranks on %s, the newcomer (host %s) is on %s: they cannot "
            "reach each other",
            inside ? "loopback" : "a network", j->peer.host,
            tt_boot_net_loopback(j->peer.addr_be) ? "loopback" : "a network");
    return false;
}

/* Its join is complete. True: it waits. */
static bool guest_judge(const struct tt_boot *b, struct tt_guest *g)
{
    struct tutti_error why = {0};
    struct tt_boot_join j;

    if (g->in.frame.kind != TT_FRAME_JOIN ||
        !tt_boot_join_parse(g->body, (size_t)g->in.frame.length, &j))
        return false;
    if (!settings_fit(b, &j, &why) || !place_fits(b, &j, &why)) {
        tt_boot_refuse_one(&g->line, &why);
        tt_log_write(TT_LOG_INFO, b->config.rank, "refused: %s", why.text);
        return false;
    }
    g->peer = j.peer;
    g->waits = true;
    return true;
}

/* A guest that waits says nothing: whatever is read from it means that it is over. */
static bool guest_stays(const struct tt_boot *b, struct tt_guest *g)
{
    uint8_t more;
    size_t got = 0;
    enum tt_net went = g->waits ? tt_boot_line_read(&g->line, &more, 1, &got)
                                : tt_boot_frame_fill(&g->line, &g->in);

    if (went == TT_NET_OK)
        return !g->waits && guest_judge(b, g);
    return went == TT_NET_AGAIN && (g->waits || tt_now_ns() < g->since_ns + JOIN_NS);
}

void tt_boot_guests_serve(struct tt_boot *b, int epoll)
{
    struct tt_guest **list = b->guests.data;
    size_t kept = 0;

    for (size_t i = 0; i < b->guests.len; i++)
        if (guest_stays(b, list[i]))
            list[kept++] = list[i];
        else
            guest_free(list[i], epoll);
    b->guests.len = kept;
}

uint64_t tt_boot_guests_due(const struct tt_boot *b)
{
    struct tt_guest **list = b->guests.data;
    uint64_t due = UINT64_MAX;

    for (size_t i = 0; i < b->guests.len; i++)
        if (!list[i]->waits && list[i]->since_ns + JOIN_NS < due)
            due = list[i]->since_ns + JOIN_NS;
    return due;
}

void tt_boot_guests_dismiss(struct tt_boot *b, int epoll)
{
    struct tt_guest **list = b->guests.data;

    for (size_t i = 0; i < b->guests.len; i++)
        guest_free(list[i], epoll);
    tt_vec_free(&b->guests);
}

uint32_t tt_boot_newcomers(struct tt_boot *b, struct tt_boot_newcomer *ret, uint32_t max)
{
    uint32_t n = 0;

    if (!b->porter)
        return 0;
    tt_boot_porter_lock(b);
    for (size_t i = 0; i < b->guests.len && n < max; i++) {
        const struct tt_guest *g = *(struct tt_guest **)tt_vec_at(&b->guests, i);
        if (!g->waits)
            continue;
        memset(&ret[n], 0, sizeof ret[n]); /* it is sent as raw memory */
        ret[n].peer = g->peer;
        ret[n++].host = b->config.rank;
    }
    tt_boot_porter_unlock(b);
    return n;
}

/* ---- tickets ---- */

/* The newcomer's place in the list; nnew: it is not in it. */
static uint32_t place_of(const struct tt_guest *g, const struct tt_boot_heirs *h)
{
    uint32_t i = 0;

    while (i < h->nnew &&
           !(h->newcomers[i].peer.addr_be == g->peer.addr_be &&
             h->newcomers[i].peer.port == g->peer.port && h->newcomers[i].peer.pid == g->peer.pid))
        i++;
    return g->waits ? i : h->nnew;
}

/* A ticket with room for the newcomer's rank. NULL: no memory; the newcomers come again. */
static uint8_t *tickets_make(const struct tt_boot *b, size_t *ret_bytes)
{
    size_t body = TT_TICKET_FIXED + (size_t)b->config.size * TT_PEER_BYTES;
    uint8_t *text = tt_alloc(TT_FRAME + body, 1);

    if (!text)
        return NULL;
    tt_boot_frame_write(&(struct tt_frame){.kind = TT_FRAME_TICKET, .length = body}, text);
    for (uint32_t r = 0; r < b->config.size; r++)
        tt_boot_peer_write(&b->peers[r],
                           text + TT_FRAME + TT_TICKET_FIXED + (size_t)r * TT_PEER_BYTES);
    *ret_bytes = TT_FRAME + body;
    return text;
}

void tt_boot_guests_tell(struct tt_boot *old, const struct tt_boot *b,
                         const struct tt_boot_heirs *h)
{
    struct tt_vec guests;
    size_t bytes = 0;
    uint8_t *text = h->nnew ? tickets_make(b, &bytes) : NULL;

    tt_boot_porter_lock(old);
    guests = old->guests;
    old->guests = (struct tt_vec){.elem = guests.elem};
    for (size_t i = 0; i < guests.len; i++)
        tt_boot_net_unwatch(tt_boot_porter_fd(old),
                            (*(struct tt_guest **)tt_vec_at(&guests, i))->line.fd);
    tt_boot_porter_unlock(old);
    for (size_t i = 0; i < guests.len; i++) {
        struct tt_guest *g = *(struct tt_guest **)tt_vec_at(&guests, i);
        uint32_t at = place_of(g, h);
        if (text && at < h->nnew) {
            tt_boot_ticket_write(
                &(struct tt_ticket){.job = b->job, .rank = h->n + at, .change = h->change},
                text + TT_FRAME);
            tt_boot_line_send(&g->line, text, bytes, tt_now_ns() + TICKET_NS);
        }
        guest_free(g, -1);
    }
    tt_vec_free(&guests);
    free(text);
}
