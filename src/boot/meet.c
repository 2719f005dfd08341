/* meet.c - rank 0 at the rendezvous: collects all ranks, compares them, and gives all the same
 * table.
 *
 *     stranger --> gate (unproved) --> guest (proved, sending its join) --> seat (control line)
 *
 * One loop polls the listener, the handshakes, the guests and the seats together, so none of them
 * can block the others. A guest that does not fit (another size, or a rank that has already joined:
 * a second job on this port) is told why and dismissed, and the meeting goes on. When all seats are
 * taken, versions and settings are compared; a difference is told to all ranks. At the earliest
 * deadline of the ranks present, all of them are told who is missing. */
#include <assert.h>

#include "base/blame.h"
#include "boot/meet.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

enum { GATE = 2 }; /* descriptors before those of the guests in the poll array */
/* How long to wait for ranks that have yet to hear that the meeting failed. */
#define LINGER_NS UINT64_C(300000000)
#define GONE      "rank %u (host %s, pid %u) is gone: its connection ended while the ranks met"

static void meeting_free(struct meeting *m)
{
    for (size_t i = 0; i < m->guests.len; i++)
        tt_boot_meet_guest_free(*(struct guest **)tt_vec_at(&m->guests, i));
    tt_vec_free(&m->guests);
    for (uint32_t r = 0; m->settings && r < m->b->config.size; r++)
        free(m->settings[r]);
    free(m->settings);
    free(m->net_ids);
    free(m->notes);
    free(m->fds);
}

/* Rank 0 takes its own seat first. */
static tutti_status meeting_open(struct meeting *m, struct tutti_error *err)
{
    size_t size = m->b->config.size;
    struct tt_boot_join mine;
    tutti_status st;

    m->fds = tt_alloc(GATE + GUESTS_MAX + size, sizeof *m->fds);
    m->settings = tt_zalloc(size, sizeof *m->settings);
    m->net_ids = tt_zalloc(size, sizeof *m->net_ids);
    m->notes = tt_zalloc(size, sizeof *m->notes);
    if (!m->fds || !m->settings || !m->net_ids || !m->notes)
        return tt_fail_memory(err, "rendezvous");
    st = tt_boot_self_join(m->b, &mine, err);
    return st ? st : tt_boot_meet_seat(m, 0, &mine, err);
}

/* A seated rank sends nothing until it has the table, so any event means that it left. */
static tutti_status check_seats(const struct meeting *m, const struct pollfd *fds,
                                struct tutti_error *err)
{
    for (uint32_t r = 0; r < m->b->config.size; r++) {
        const struct tt_boot_peer *p = &m->b->peers[r];
        if (fds[r].revents)
            return tt_fail(err, TUTTI_ERR_PEER, GONE, r, p->host, p->pid);
    }
    return TUTTI_OK;
}

/* A name that resolves to loopback here may resolve to this host's address elsewhere. */
static const char *loopback_hint(const struct meeting *m)
{
    const char *text = m->b->config.rendezvous;
    bool plain = strncmp(text, "127.", 4) == 0 || strncmp(text, "localhost:", 10) == 0;

    return tt_boot_net_loopback(m->at->addr_be) && !plain
               ? "; the rendezvous is a loopback address here, which other hosts cannot reach"
               : "";
}

/* "; ranks 1-3 came with another key than rank 0" */
static void add_note(const struct meeting *m, enum note note, const char *said, struct tt_str *out)
{
    uint32_t size = m->b->config.size, n = 0;
    bool *set = tt_zalloc(size, sizeof *set);
    char ranks[120];

    for (uint32_t r = 0; set && r < size; r++)
        n += set[r] = !m->settings[r] && m->notes[r] == note;
    if (n)
        tt_str_printf(out, "; %s %s", tt_boot_ranks_text(set, size, ranks, sizeof ranks), said);
    free(set);
}

static tutti_status fail_missing(const struct meeting *m, struct tutti_error *err)
{
    uint32_t size = m->b->config.size;
    struct tt_str more = {0};
    char ranks[160], span[32], busy[TT_BUSY_TEXT];

    tt_boot_net_span(m->b->config.timeout_ns, span, sizeof span);
    if (tt_boot_link_down(m->b))
        return tt_boot_fail_own_link(m->b, span, err);
    bool *missing = tt_zalloc(size, sizeof *missing);
    for (uint32_t r = 0; missing && r < size; r++)
        missing[r] = !m->settings[r];
    add_note(m, NOTE_KEY, "came with another key than rank 0", &more);
    add_note(m, NOTE_SIZE, "came with another number of ranks than rank 0", &more);
    add_note(m, NOTE_LEFT, "came but left", &more);
    tt_fail(err, TUTTI_ERR_TIMEOUT, "%s did not come within %s%s%s%s",
            missing ? tt_boot_ranks_text(missing, size, ranks, sizeof ranks) : "some ranks", span,
            more.s ? more.s : "", loopback_hint(m), more.len ? "" : tt_boot_busy_text(busy));
    free(missing);
    tt_str_free(&more);
    return TUTTI_ERR_TIMEOUT;
}

/* Tells guests, and ranks that arrive within a moment, why there will be no job; otherwise they
 * would only find rank 0 gone. Their connections stay open meanwhile: closing a socket with unread
 * data would reset it and lose the reason. */
static void tell_guests(struct meeting *m, const struct tutti_error *why)
{
    uint64_t until = tt_now_ns() + LINGER_NS;
    size_t told = 0;

    for (;;) {
        struct pollfd p = {.fd = m->gate.epoll, .events = POLLIN};
        struct tutti_error unused;
        for (; told < m->guests.len; told++)
            tt_boot_refuse_one(&(*(struct guest **)tt_vec_at(&m->guests, told))->line, why);
        if (m->joined + told >= m->b->config.size || told >= GUESTS_MAX / 2 || tt_now_ns() >= until)
            return;
        uint64_t wake = tt_boot_gate_wake(&m->gate);
        tt_boot_net_poll(&p, 1, wake < until ? wake : until);
        if (tt_boot_meet_serve_gate(m, &unused))
            return;
    }
}

/* Fills the poll array; returns when to wake up at the latest. */
static uint64_t meet_prepare(struct meeting *m)
{
    struct pollfd *guests = m->fds + GATE, *seats = guests + m->guests.len;
    uint64_t wake = tt_boot_gate_wake(&m->gate);

    assert(m->guests.len <= GUESTS_MAX && m->joined <= m->b->config.size);
    m->fds[0] = (struct pollfd){.fd = m->gate.epoll, .events = POLLIN};
    m->fds[1] = (struct pollfd){.fd = m->local, .events = POLLIN};
    for (size_t i = 0; i < m->guests.len; i++) {
        const struct guest *g = *(struct guest **)tt_vec_at(&m->guests, i);
        guests[i] = (struct pollfd){.fd = g->line.fd, .events = POLLIN};
        wake = g->since_ns + GUEST_NS < wake ? g->since_ns + GUEST_NS : wake;
    }
    for (uint32_t r = 0; r < m->b->config.size; r++)
        seats[r] = (struct pollfd){.fd = m->b->control[r].fd, .events = POLLIN | POLLRDHUP};
    return wake < m->deadline_ns ? wake : m->deadline_ns;
}

static void serve_local(const struct meeting *m)
{
    struct tt_offer o = {.mode = m->b->offer};

    memcpy(o.key, m->b->config.key, TT_BOOT_KEY);
    tt_boot_local_serve(m->local, &o);
    sodium_memzero(&o, sizeof o);
}

/* Runs until all ranks have joined, one fails, or the deadline passes. Invariant: joined counts the
 * ranks with settings[r]. */
static tutti_status meet_collect(struct meeting *m, struct tutti_error *err)
{
    uint32_t size = m->b->config.size;
    tutti_status st = TUTTI_OK;

    while (!st && m->joined < size) {
        struct pollfd *guests = m->fds + GATE, *seats = guests + m->guests.len;
        uint64_t wake = meet_prepare(m);
        if (tt_now_ns() >= m->deadline_ns)
            return fail_missing(m, err);
        tt_boot_net_poll(m->fds, GATE + m->guests.len + size, wake);
        if (tt_now_ns() >= m->deadline_ns) /* a rank that left just now has timed out as well */
            return fail_missing(m, err);
        st = check_seats(m, seats, err);
        if (!st)
            st = tt_boot_meet_serve_guests(m, guests, err);
        if (!st)
            st = tt_boot_meet_serve_gate(m, err);
        if (m->fds[1].revents)
            serve_local(m);
    }
    return st;
}

/* Tells the launcher which rank's settings differ from those of the others. */
static void note_odd(const struct meeting *m, const char *text)
{
    uint32_t size = m->b->config.size;
    uint64_t *prints = tt_alloc(size, sizeof *prints);

    for (uint32_t r = 0; prints && r < size; r++)
        prints[r] = tt_hash_bytes(0, m->settings[r], strlen(m->settings[r]));
    if (prints)
        tt_blame_note(TT_NOTED_HINT, tt_odd_rank(prints, size), size, text);
    free(prints);
}

/* All ranks are here: can they reach each other, and do their settings agree? */
static tutti_status compare(const struct meeting *m, struct tutti_error *err)
{
    uint32_t size = m->b->config.size;
    struct tt_str diff = {0};
    tutti_status st = TUTTI_OK;
    char ip[TT_NET_TEXT];

    for (uint32_t r = 0; r < size; r++)
        for (uint32_t q = 0; tt_boot_net_loopback(m->b->peers[r].addr_be) && q < size; q++)
            if (m->net_ids[q] != m->net_ids[r])
                return tt_fail(err, TUTTI_ERR_ARG,
                               "rank %u (host %s) listens on loopback %s, which rank %u (host %s) "
                               "cannot reach: give the rendezvous an address "
                               "of the network, or set TUTTI_IFACE",
                               r, m->b->peers[r].host,
                               tt_boot_net_text(m->b->peers[r].addr_be, 0, ip), q,
                               m->b->peers[q].host);
    if (tt_boot_settings_differ((const char *const *)m->settings, size, &diff)) {
        st = tt_fail(err, TUTTI_ERR_DIFFERS, "the ranks disagree: %s",
                     diff.s ? diff.s : "settings differ");
        note_odd(m, err->text);
    }
    tt_str_free(&diff);
    return st;
}

static tutti_status hand_out_table(struct meeting *m, struct tutti_error *err)
{
    uint32_t size = m->b->config.size, bad = size;
    size_t bytes = (size_t)size * TT_PEER_BYTES;
    uint8_t head[TT_FRAME], *table = tt_alloc(size, TT_PEER_BYTES);
    struct tt_notice n = {.head = head, .head_len = sizeof head, .body = table, .body_len = bytes};
    tutti_status st;

    if (!table)
        return tt_fail_memory(err, "rendezvous");
    for (uint32_t r = 0; r < size; r++)
        tt_boot_peer_write(&m->b->peers[r], table + (size_t)r * TT_PEER_BYTES);
    tt_boot_frame_write(&(struct tt_frame){.kind = TT_FRAME_TABLE, .length = bytes}, head);
    st = tt_boot_notify(m->b, &n, m->deadline_ns, &bad, err);
    free(table);
    if (!st && bad < size)
        st = tt_fail(err, TUTTI_ERR_PEER, GONE, bad, m->b->peers[bad].host, m->b->peers[bad].pid);
    return st;
}

/* Opens the rendezvous, and where peers will connect to rank 0: the same socket, unless another
 * interface was asked for. */
static tutti_status open_listeners(struct tt_boot *b, const struct tt_place *at, int *ret_meet,
                                   struct tutti_error *err)
{
    struct tt_listen meet = {.addr_be = at->addr_be, .lo = at->port, .hi = at->port};
    struct tt_listen data = {.lo = b->config.port_lo, .hi = b->config.port_hi, .avoid = at->port};
    uint16_t port;
    tutti_status st = tt_boot_listen_open(&meet, ret_meet, &port, err);

    if (!st)
        st = tt_boot_iface_choose(b->config.iface, at->addr_be, &data.addr_be, err);
    if (st)
        return st;
    b->peers[0].addr_be = at->addr_be;
    b->peers[0].port = port;
    b->listener = *ret_meet;
    if (!b->config.iface[0] || data.addr_be == at->addr_be || tt_boot_net_loopback(at->addr_be))
        return TUTTI_OK;
    b->listener = -1;
    b->source_be = b->peers[0].addr_be = data.addr_be;
    return tt_boot_listen_open(&data, &b->listener, &b->peers[0].port, err);
}

tutti_status tt_boot_meet(struct tt_boot *b, const struct tt_place *at, struct tutti_error *err)
{
    struct meeting m = {.b = b,
                        .at = at,
                        .deadline_ns = at->deadline_ns,
                        .guests = {.elem = sizeof(struct guest *)}};
    struct tt_trust trust;
    int meet = -1;
    tutti_status st;

    /* 0 means "not known yet" in greetings. */
    do
        b->job = tt_entropy();
    while (b->job == 0);
    trust = tt_boot_trust(b, TT_CONN_MEET);
    m.gate.epoll = m.local = -1;
    st = open_listeners(b, at, &meet, err);
    if (!st && tt_boot_net_loopback(at->addr_be))
        st = tt_boot_local_listen(at, &m.local, err);
    if (!st)
        st = tt_boot_gate_open(&m.gate, meet, &trust, err);
    if (!st)
        st = meeting_open(&m, err);
    if (!st)
        st = meet_collect(&m, err);
    if (!st)
        st = compare(&m, err);
    if (!st)
        st = hand_out_table(&m, err);
    /* Seated ranks first, then guests and late arrivals. */
    if (st)
        tt_boot_refuse_all(b, err);
    if (st && m.gate.epoll >= 0)
        tell_guests(&m, err);
    tt_boot_gate_close(&m.gate);
    tt_boot_net_close(&m.local);
    if (meet != b->listener)
        tt_boot_net_close(&meet);
    meeting_free(&m);
    return st;
}
