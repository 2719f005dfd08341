/* meet_guests.c - ranks on their way to a seat: proved at the gate, sending their join, judged.
 *
 * A guest that does not fit is told why and dismissed; the meeting goes on. At most GUESTS_MAX are
 * kept at a time, and the oldest makes room: a process that proves the key and then says nothing
 * cannot keep others out. */
#include <assert.h>
#include <sodium.h>
#include <stdlib.h>

#include "boot/meet.h"

void tt_boot_meet_guest_free(struct guest *g)
{
    if (!g)
        return;
    tt_boot_line_close(&g->line);
    free(g);
}

tutti_status tt_boot_meet_seat(struct meeting *m, uint32_t rank, const struct tt_boot_join *j,
                               struct tutti_error *err)
{
    struct tt_str s = {0};

    tt_str_printf(&s, "version=%s\n", j->version);
    tt_str_add(&s, j->settings, j->settings_len);
    if (s.failed) {
        tt_str_free(&s);
        return tt_fail_memory(err, "settings");
    }
    assert(rank < m->b->config.size && !m->settings[rank] && m->joined < m->b->config.size);
    m->settings[rank] = s.s;
    m->net_ids[rank] = j->net_id;
    m->b->peers[rank] = j->peer;
    m->notes[rank] = NOTE_NONE;
    m->joined++;
    return TUTTI_OK;
}

/* Must this join be refused? Then *ret says why. */
static bool unfit(const struct meeting *m, uint32_t rank, const struct tt_boot_join *j,
                  struct tutti_error *ret)
{
    uint32_t size = m->b->config.size;

    if (j->size != size || rank >= size) {
        tt_fail(ret, TUTTI_ERR_DIFFERS,
                "rank %u was told that the job has %u ranks, rank 0 was told %u (or two jobs use "
                "this rendezvous)",
                rank, j->size, size);
        return true;
    }
    if (m->settings[rank]) {
        tt_fail(ret, TUTTI_ERR_DIFFERS,
                "a rank %u has joined already (host %s, pid %u): two jobs use this rendezvous, or "
                "two processes have one rank",
                rank, m->b->peers[rank].host, m->b->peers[rank].pid);
        return true;
    }
    return false;
}

/* A rank's other connections will come from the same address as this one, whatever the rank itself
 * sees (NAT). The last source is replaced if all are taken. */
static void add_source(struct tt_boot_peer *p, uint32_t from_be)
{
    size_t i = 0;

    while (i + 1 < TT_BOOT_SOURCES && p->sources_be[i] && p->sources_be[i] != from_be)
        i++;
    if (from_be != p->addr_be)
        p->sources_be[i] = from_be;
}

/* The guest's join is complete: seats or refuses it. A join that cannot be parsed is ignored. */
static tutti_status meet_judge(struct meeting *m, struct guest *g, struct tutti_error *err)
{
    struct tutti_error why;
    struct tt_boot_join j;
    uint64_t limit = tt_now_ns() + (uint64_t)g->in.frame.remaining_ms * 1000000;
    tutti_status st;

    if (g->in.frame.kind != TT_FRAME_JOIN ||
        !tt_boot_join_parse(g->body, (size_t)g->in.frame.length, &j))
        return TUTTI_OK;
    if (unfit(m, g->rank, &j, &why)) {
        tt_boot_refuse_one(&g->line, &why);
        if (g->rank < m->b->config.size && !m->settings[g->rank])
            m->notes[g->rank] = NOTE_SIZE;
        return TUTTI_OK;
    }
    add_source(&j.peer, g->from_be);
    st = tt_boot_meet_seat(m, g->rank, &j, err);
    if (st)
        return st;
    /* The control line now belongs to the seat. */
    m->b->control[g->rank] = g->line;
    g->line = (struct tt_boot_line){.fd = -1};
    if (limit < m->deadline_ns)
        m->deadline_ns = limit;
    return TUTTI_OK;
}

/* Advances one guest; *ret_over if it has been seated or is gone. */
static tutti_status serve_guest(struct meeting *m, struct guest *g, bool ready, bool *ret_over,
                                struct tutti_error *err)
{
    enum tt_net went = ready ? tt_boot_frame_fill(&g->line, &g->in) : TT_NET_AGAIN;

    *ret_over = went != TT_NET_AGAIN || tt_now_ns() >= g->since_ns + GUEST_NS;
    if (went == TT_NET_OK)
        return meet_judge(m, g, err);
    if (*ret_over && g->rank < m->b->config.size && !m->settings[g->rank])
        m->notes[g->rank] = NOTE_LEFT;
    return TUTTI_OK;
}

tutti_status tt_boot_meet_serve_guests(struct meeting *m, const struct pollfd *fds,
                                       struct tutti_error *err)
{
    struct guest **list = m->guests.data;

    for (size_t i = m->guests.len; i-- > 0;) {
        bool over = false;
        tutti_status st = serve_guest(m, list[i], fds[i].revents != 0, &over, err);
        if (over) {
            tt_boot_meet_guest_free(list[i]);
            list[i] = list[--m->guests.len];
        }
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* A guest that has proved itself and then says nothing must not keep others out. */
static void dismiss_oldest(struct meeting *m)
{
    struct guest **list = m->guests.data;
    assert(m->guests.len > 0);
    size_t oldest = 0;

    for (size_t i = 1; i < m->guests.len; i++)
        if (list[i]->since_ns < list[oldest]->since_ns)
            oldest = i;
    tt_boot_meet_guest_free(list[oldest]);
    list[oldest] = list[--m->guests.len];
}

/* Turns an arrival into a guest. Failures are not fatal, because the rank will try again. */
static tutti_status welcome(struct meeting *m, struct tt_arrival *a)
{
    struct guest *g;

    if (a->fd < 0) {
        if (a->rank < m->b->config.size && !m->settings[a->rank])
            m->notes[a->rank] = NOTE_KEY;
        return TUTTI_OK;
    }
    if (m->guests.len == GUESTS_MAX)
        dismiss_oldest(m);
    g = tt_boot_arrival_admit(a) ? tt_zalloc(1, sizeof *g) : NULL;
    if (!g || !tt_boot_line_open(&g->line, a->fd, &a->keys) || !tt_vec_push(&m->guests, &g, 1)) {
        /* a->fd is closed once, below. */
        if (g) {
            g->line.fd = -1;
            tt_boot_line_close(&g->line);
        }
        tt_boot_net_close(&a->fd);
        free(g);
        return TUTTI_OK; /* it will come again */
    }
    g->rank = a->rank;
    g->from_be = a->from_be;
    g->since_ns = tt_now_ns();
    g->in = (struct tt_frame_in){.body = g->body, .cap = sizeof g->body};
    return TUTTI_OK;
}

tutti_status tt_boot_meet_serve_gate(struct meeting *m, struct tutti_error *err)
{
    struct tt_arrival come[TT_GATE_TURN];
    size_t n = 0;
    tutti_status st = tt_boot_gate_serve(&m->gate, come, &n, err), one;

    for (size_t i = 0; i < n; i++) {
        one = welcome(m, &come[i]);
        st = st ? st : one;
    }
    sodium_memzero(come, n * sizeof *come); /* keys */
    return st;
}
