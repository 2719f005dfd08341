/* The handshake, message by message, and the pure parts of boot: wire forms, interface filters, differences of settings. The proofs' golden
 * values were made with Python: hmac.new(key, label + connector + acceptor, sha512).digest()[:32]. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <sodium.h>

#include "boot_ranks.h"

static uint8_t KEY[TT_BOOT_KEY], OTHER_KEY[TT_BOOT_KEY];

static struct tt_greeting greeting(uint32_t from, uint32_t to, uint8_t fill)
{
    struct tt_greeting g = {.version = TT_BOOT_PROTOCOL,
                            .keyed = true,
                            .kind = TT_CONN_DATA,
                            .role = 7,
                            .from = from,
                            .to = to,
                            .job = UINT64_C(0x1122334455667788)};

    memset(g.challenge, fill, sizeof(g.challenge));
    return g;
}

static void proofs_have_golden_values(void **state)
{
    (void)state;
    static const char *const golden[] = {"9c5cb0a9a2e11dd45ef3df6b5768008c87c50725c91af0477bd145fa2f4b6762",
                                         "c77acda3b959cbf49f33bcb4a3e42146acaadfbf0094b41c10e53bed41ef9f67"};
    uint8_t connector[TT_GREETING], acceptor[TT_GREETING], proof[TT_PROOF];
    struct tt_greeting c = greeting(3, 1, 0xaa), a = greeting(1, 3, 0xbb);
    char hex[2 * TT_PROOF + 1];

    tt_boot_greeting_write(&c, connector);
    tt_boot_greeting_write(&a, acceptor);
    for (int by = 0; by < 2; by++) {
        tt_boot_proof_make(KEY, by, connector, acceptor, proof);
        assert_string_equal(sodium_bin2hex(hex, sizeof(hex), proof, sizeof(proof)), golden[by]);
    }
}

static void greetings_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[TT_GREETING], bad[TT_GREETING];
    struct tt_greeting g = greeting(3, 1, 0xaa), back;

    tt_boot_greeting_write(&g, bytes);
    assert_true(tt_boot_greeting_parse(bytes, &back));
    assert_int_equal(back.role, 7);
    assert_int_equal(back.from, 3);
    assert_int_equal(back.to, 1);
    assert_true(back.job == g.job && back.keyed && back.kind == TT_CONN_DATA);
    assert_memory_equal(back.challenge, g.challenge, sizeof(g.challenge));
    assert_false(back.encrypt || back.aes);
    g.encrypt = true;
    memset(g.share, 0xcc, sizeof(g.share));
    tt_boot_greeting_write(&g, bytes);
    assert_true(tt_boot_greeting_parse(bytes, &back) && back.encrypt && !back.aes);
    assert_memory_equal(back.share, g.share, sizeof(g.share));
    for (size_t i = 0; i < 8; i++) {
        memcpy(bad, bytes, sizeof(bad));
        bad[i] ^= 1;
        assert_false(tt_boot_greeting_parse(bad, &back));
    }
    memcpy(bad, bytes, sizeof(bad));
    bad[11] = 4;
    assert_false(tt_boot_greeting_parse(bad, &back));
    bad[8] = 9; /* another version: the rest means nothing to us */
    assert_true(tt_boot_greeting_parse(bad, &back));
    assert_int_equal(back.version, 9);
}

static struct tt_boot_join sample_join(void)
{
    struct tt_boot_join j = {.size = 5, .net_id = UINT64_MAX - 1, .version = "0.1.0", .settings = "algo=ring\n", .settings_len = 10};

    j.peer = (struct tt_boot_peer){.host = "node-a", .host_id = 42, .pid = 4000000000u, .addr_be = htonl(0x0a000001), .port = 65535};
    return j;
}

static void joins_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[TT_JOIN_MAX + 1] = {0};
    struct tt_boot_join j = sample_join(), back;
    size_t n = tt_boot_join_write(&j, bytes);

    assert_int_equal(n, TT_JOIN_FIXED + 10);
    assert_true(tt_boot_join_parse(bytes, n, &back));
    assert_string_equal(back.peer.host, "node-a");
    assert_true(back.peer.host_id == 42 && back.peer.pid == 4000000000u && back.peer.port == 65535 && back.net_id == UINT64_MAX - 1);
    assert_true(back.peer.addr_be == j.peer.addr_be && back.size == 5 && back.settings_len == 10);
    assert_memory_equal(back.settings, "algo=ring\n", 10);
    assert_string_equal(back.version, "0.1.0");
    for (size_t k = 0; k <= sizeof(bytes); k++) /* no other length will do */
        assert_int_equal(tt_boot_join_parse(bytes, k, &back), k == n);
    static const size_t must_matter[] = {63, 82, TT_PEER_BYTES + 31, TT_PEER_BYTES + TT_VERSION_TEXT + 4, TT_JOIN_FIXED};
    for (size_t i = 0; i < countof(must_matter); i++) {
        uint8_t old = bytes[must_matter[i]];
        bytes[must_matter[i]] = i + 1 < countof(must_matter) ? 200 : 0;
        assert_false(tt_boot_join_parse(bytes, n, &back));
        bytes[must_matter[i]] = old;
    }
    bytes[2] = '\n'; /* in a host name */
    assert_false(tt_boot_join_parse(bytes, n, &back));
}

static void tables_and_refusals_round_trip(void **state)
{
    (void)state;
    uint8_t table[3 * TT_PEER_BYTES], text[TT_REFUSAL_MAX];
    struct tt_boot_peer p = sample_join().peer, back[3];
    struct tutti_error e = {0}, got = {0};
    struct tt_frame f = {.kind = TT_FRAME_ALL, .seq = 3, .remaining_ms = 77, .length = UINT64_MAX}, g;
    uint8_t head[TT_FRAME];

    for (uint16_t r = 0; r < 3; r++) {
        p.port = (uint16_t)(r + 1);
        tt_boot_peer_write(&p, table + r * TT_PEER_BYTES);
    }
    assert_true(tt_boot_table_parse(table, sizeof(table), 3, back));
    assert_int_equal(back[2].port, 3);
    assert_false(tt_boot_table_parse(table, sizeof(table), 2, back));
    assert_false(tt_boot_table_parse(table, sizeof(table) - 1, 3, back));
    memset(table + TT_PEER_BYTES + 80, 0, 2); /* no port */
    assert_false(tt_boot_table_parse(table, sizeof(table), 3, back));

    tt_fail(&e, TUTTI_ERR_TIMEOUT, "rank %d did not come", 3);
    tt_boot_refusal_parse(text, tt_boot_refusal_write(&e, text), &got);
    assert_int_equal(got.status, TUTTI_ERR_TIMEOUT);
    assert_string_equal(got.text, "rank 3 did not come");
    for (size_t n = 0; n <= 4; n++) {
        tt_boot_refusal_parse(text, n, &got);
        assert_int_equal(got.status, TUTTI_ERR_CONNECT);
    }
    tt_boot_frame_write(&f, head);
    assert_true(tt_boot_frame_parse(head, &g));
    assert_true(g.kind == f.kind && g.seq == 3 && g.remaining_ms == 77 && g.length == UINT64_MAX);
    head[4] = TT_FRAME_KINDS;
    assert_false(tt_boot_frame_parse(head, &g));
}

/* ---- both ends in one process, on a socket pair ---- */

struct pair {
    struct tt_trust connector, acceptor;
    struct tt_shake c, a;
    enum tt_shake_end c_end, a_end;
};

static struct pair pair_make(void)
{
    struct pair p = {.connector = {.key = KEY, .keyed = true, .rank = 3, .job = 99, .kind = TT_CONN_DATA},
                     .acceptor = {.key = KEY, .keyed = true, .rank = 1, .job = 99, .kind = TT_CONN_DATA}};

    return p;
}

/* Lets both ends talk until nothing moves; whoever ends badly hangs up. */
static void converse(struct pair *p, uint32_t to)
{
    int fd[2];
    bool answered = false;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    tt_boot_shake_accept(&p->a, fd[1]);
    p->a_end = TT_SHAKE_MORE;
    p->c_end = tt_boot_shake_connect(&p->c, fd[0], &p->connector, to, 5);
    for (int round = 0; round < 6; round++) {
        if (p->a_end == TT_SHAKE_MORE)
            p->a_end = tt_boot_shake_step(&p->a, &p->acceptor);
        if (p->a_end == TT_SHAKE_DONE && !answered) {
            struct tt_arrival arrival = {.fd = p->a.fd};
            tt_boot_shake_answer(&p->a, &p->acceptor, arrival.answer);
            answered = tt_boot_arrival_admit(&arrival);
        }
        if (p->a_end > TT_SHAKE_DONE)
            tt_boot_net_close(&p->a.fd);
        if (p->c_end == TT_SHAKE_MORE)
            p->c_end = tt_boot_shake_step(&p->c, &p->connector);
        if (p->c_end > TT_SHAKE_DONE)
            tt_boot_net_close(&p->c.fd);
    }
    tt_boot_net_close(&p->a.fd);
    tt_boot_net_close(&p->c.fd);
}

static void tickets_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[TT_TICKET_FIXED + 3 * TT_PEER_BYTES] = {0};
    struct tt_ticket t = {.job = UINT64_C(0x1122334455667788), .rank = 2, .change = 7}, back;
    uint32_t size = 0;

    tt_boot_ticket_write(&t, bytes);
    assert_true(tt_boot_ticket_parse(bytes, sizeof(bytes), &back, &size));
    assert_true(back.job == t.job && back.rank == 2 && back.change == 7 && size == 3);
    assert_false(tt_boot_ticket_parse(bytes, sizeof(bytes) - 1, &back, &size));
    assert_false(tt_boot_ticket_parse(bytes, TT_TICKET_FIXED + TT_PEER_BYTES, &back, &size));
    assert_false(tt_boot_ticket_parse(bytes, 3, &back, &size));
    t.rank = 3; /* there is no such rank */
    tt_boot_ticket_write(&t, bytes);
    assert_false(tt_boot_ticket_parse(bytes, sizeof(bytes), &back, &size));
    t = (struct tt_ticket){.rank = 1}; /* no job */
    tt_boot_ticket_write(&t, bytes);
    assert_false(tt_boot_ticket_parse(bytes, sizeof(bytes), &back, &size));
}

/* A newcomer is heard only where newcomers are let in. */
static void newcomers_need_an_open_door(void **state)
{
    (void)state;
    for (int open = 0; open < 2; open++) {
        struct tt_trust member = {.key = KEY, .keyed = true, .rank = 5, .job = 99, .kind = TT_CONN_DATA, .welcome = open};
        struct tt_trust newcomer = {.key = KEY, .keyed = true, .rank = TT_RANK_NEWCOMER, .kind = TT_CONN_JOIN};
        struct tt_shake a, c;
        int fds[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
        tt_boot_shake_accept(&a, fds[0]);
        assert_int_equal(tt_boot_shake_connect(&c, fds[1], &newcomer, TT_RANK_MEMBER, 0), TT_SHAKE_MORE);
        assert_int_equal(tt_boot_shake_step(&a, &member), open ? TT_SHAKE_MORE : TT_SHAKE_STRANGER);
        if (open) {
            uint8_t proof[TT_PROOF];
            assert_int_equal(tt_boot_shake_step(&c, &newcomer), TT_SHAKE_MORE);
            assert_int_equal(tt_boot_shake_step(&a, &member), TT_SHAKE_DONE);
            tt_boot_shake_answer(&a, &member, proof);
            assert_int_equal(write(fds[0], proof, sizeof(proof)), sizeof(proof));
            assert_int_equal(tt_boot_shake_step(&c, &newcomer), TT_SHAKE_DONE);
            assert_int_equal(c.peer.job, 99);
        }
        close(fds[0]);
        close(fds[1]);
    }
}

static void right_keys_are_accepted(void **state)
{
    (void)state;
    struct pair p = pair_make();

    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_DONE);
    assert_int_equal(p.c_end, TT_SHAKE_DONE);
    assert_int_equal(p.a.peer.from, 3);
    assert_int_equal(p.a.peer.role, 5);
    assert_int_equal(p.c.peer.from, 1);
    p.connector.kind = p.acceptor.kind = TT_CONN_MEET;
    p.connector.job = 0;
    converse(&p, 1);
    assert_int_equal(p.c_end, TT_SHAKE_DONE);
    assert_true(p.c.peer.job == 99);
}

/* Both ends come to one cipher and to each other's keys; one end alone encrypts nothing. */
static void keys_are_agreed(void **state)
{
    (void)state;
    struct tt_key_pair c, a;
    struct pair p = pair_make(), again;

    crypto_kx_keypair(c.share, c.secret);
    crypto_kx_keypair(a.share, a.secret);
    converse(&p, 1);
    assert_int_equal(p.a.keys.cipher, TT_CIPHER_NONE);
    p.connector.pair = &c;
    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_STRANGER);
    p.connector.kind = p.acceptor.kind = TT_CONN_MEET; /* where the difference can be told in words */
    p.connector.job = 0;
    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_DONE);
    assert_int_equal(p.c.keys.cipher, TT_CIPHER_NONE);
    assert_true(p.a.peer.encrypt && !p.c.peer.encrypt);
    p = pair_make();
    p.connector.pair = &c;
    p.acceptor.pair = &a;
    converse(&p, 1);
    assert_int_equal(p.c_end, TT_SHAKE_DONE);
    assert_int_equal(p.c.keys.cipher, tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA);
    assert_int_equal(p.a.keys.cipher, p.c.keys.cipher);
    assert_memory_equal(p.c.keys.send, p.a.keys.recv, TT_SEAL_KEY);
    assert_memory_equal(p.c.keys.recv, p.a.keys.send, TT_SEAL_KEY);
    assert_memory_not_equal(p.c.keys.send, p.c.keys.recv, TT_SEAL_KEY);
    again = p;
    converse(&again, 1); /* the same pairs: other keys all the same */
    assert_memory_not_equal(again.c.keys.send, p.c.keys.send, TT_SEAL_KEY);
    memset(a.share, 0, sizeof(a.share)); /* a half that makes no secret */
    converse(&p, 1);
    assert_int_equal(p.c_end, TT_SHAKE_STRANGER);
}

/* Somebody on the way changes one byte of a greeting: halves of the exchange, flags, challenges, ranks. */
static void a_changed_greeting_is_found_out(void **state)
{
    (void)state;
    struct tt_key_pair pair;
    struct pair p = pair_make();
    uint8_t hello[TT_GREETING];

    crypto_kx_keypair(pair.share, pair.secret);
    p.connector.pair = p.acceptor.pair = &pair;
    for (size_t i = 0; i < TT_GREETING; i++) {
        int c[2], a[2];
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, c), 0);
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, a), 0);
        tt_boot_shake_accept(&p.a, a[1]);
        assert_int_equal(tt_boot_shake_connect(&p.c, c[0], &p.connector, 1, 5), TT_SHAKE_MORE);
        assert_int_equal(recv(c[1], hello, sizeof(hello), 0), TT_GREETING);
        hello[i] ^= i == 10 ? 2 : 1; /* 10: do not encrypt */
        assert_int_equal(send(a[0], hello, sizeof(hello), 0), TT_GREETING);
        p.a_end = tt_boot_shake_step(&p.a, &p.acceptor);
        if (p.a_end == TT_SHAKE_MORE) {
            assert_int_equal(recv(a[0], hello, sizeof(hello), 0), TT_GREETING);
            assert_int_equal(send(c[1], hello, sizeof(hello), 0), TT_GREETING);
            p.c_end = tt_boot_shake_step(&p.c, &p.connector);
            ssize_t n = recv(c[1], hello, TT_PROOF, MSG_DONTWAIT);
            if (n > 0)
                assert_int_equal(send(a[0], hello, (size_t)n, 0), n);
            p.a_end = n > 0 ? tt_boot_shake_step(&p.a, &p.acceptor) : TT_SHAKE_STRANGER;
        }
        if (p.a_end <= TT_SHAKE_DONE)
            fail_msg("byte %zu of the greeting was changed, and nobody noticed", i);
        for (int k = 0; k < 2; k++) {
            close(c[k]);
            close(a[k]);
        }
    }
}

static void wrong_ones_are_refused(void **state)
{
    (void)state;
    struct pair p = pair_make();

    p.connector.key = OTHER_KEY;
    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_KEY);
    assert_int_equal(p.c_end, TT_SHAKE_REJECTED);
    p = pair_make();
    p.connector.job = 98;
    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_STRANGER);
    assert_int_equal(p.c_end, TT_SHAKE_GONE);
    p = pair_make();
    converse(&p, 2); /* meant for another rank */
    assert_int_equal(p.a_end, TT_SHAKE_STRANGER);
    p = pair_make();
    p.connector.rank = 1; /* claims to be the acceptor */
    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_STRANGER);
    p = pair_make();
    p.connector.kind = TT_CONN_MEET; /* the meeting is over */
    converse(&p, 1);
    assert_int_equal(p.a_end, TT_SHAKE_STRANGER);
}

/* Plays the acceptor by hand: greets properly, then answers with `proof`. */
static enum tt_shake_end answer_with(struct tt_shake *c, const struct tt_trust *t, bool reflect)
{
    struct tt_greeting g = greeting(1, 3, 0x55);
    uint8_t hello[TT_GREETING], theirs[TT_GREETING], proof[TT_PROOF];
    enum tt_shake_end end;
    int fd[2];

    g.role = 5;
    g.job = 99;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    assert_int_equal(tt_boot_shake_connect(c, fd[0], t, 1, 5), TT_SHAKE_MORE);
    assert_int_equal(recv(fd[1], theirs, sizeof(theirs), 0), TT_GREETING);
    tt_boot_greeting_write(&g, hello);
    assert_int_equal(send(fd[1], hello, sizeof(hello), 0), TT_GREETING);
    assert_int_equal(tt_boot_shake_step(c, t), TT_SHAKE_MORE);
    assert_int_equal(recv(fd[1], proof, sizeof(proof), 0), TT_PROOF);
    if (!reflect)
        randombytes_buf(proof, sizeof(proof));
    assert_int_equal(send(fd[1], proof, sizeof(proof), 0), TT_PROOF);
    end = tt_boot_shake_step(c, t);
    close(fd[0]);
    close(fd[1]);
    return end;
}

static void impostors_are_found_out(void **state)
{
    (void)state;
    struct pair p = pair_make();

    assert_int_equal(answer_with(&p.c, &p.connector, true), TT_SHAKE_KEY); /* our own proof sent back */
    assert_int_equal(answer_with(&p.c, &p.connector, false), TT_SHAKE_KEY);
}

/* What strangers send; the acceptor must not answer and must end, or wait for more without reading on. */
static void strangers_get_no_word(void **state)
{
    (void)state;
    struct pair p = pair_make();
    uint8_t junk[256];
    int fd[2];

    for (size_t n = 0; n <= sizeof(junk); n += 32) {
        assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
        randombytes_buf(junk, sizeof(junk));
        assert_int_equal(send(fd[0], junk, n, 0), n);
        tt_boot_shake_accept(&p.a, fd[1]);
        assert_int_equal(tt_boot_shake_step(&p.a, &p.acceptor), n < TT_GREETING ? TT_SHAKE_MORE : TT_SHAKE_STRANGER);
        assert_int_equal(recv(fd[0], junk, sizeof(junk), MSG_DONTWAIT), -1);
        close(fd[0]);
        if (n < TT_GREETING)
            assert_int_equal(tt_boot_shake_step(&p.a, &p.acceptor), TT_SHAKE_GONE);
        close(fd[1]);
    }
}

static void another_version_is_told(void **state)
{
    (void)state;
    struct pair p = pair_make();
    struct tt_greeting g = greeting(3, 1, 1), back;
    uint8_t bytes[TT_GREETING];
    int fd[2];

    g.version = TT_BOOT_PROTOCOL + 1;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
    tt_boot_greeting_write(&g, bytes);
    assert_int_equal(send(fd[0], bytes, sizeof(bytes), 0), TT_GREETING);
    tt_boot_shake_accept(&p.a, fd[1]);
    assert_int_equal(tt_boot_shake_step(&p.a, &p.acceptor), TT_SHAKE_VERSION);
    assert_int_equal(recv(fd[0], bytes, sizeof(bytes), 0), TT_GREETING);
    assert_true(tt_boot_greeting_parse(bytes, &back) && back.version == TT_BOOT_PROTOCOL);
    close(fd[0]);
    close(fd[1]);
}

/* ---- the gate: silent strangers in all places and more waiting, and one honest rank ---- */

static void one_turn(struct tt_gate *g, struct tt_dial *d, const struct tt_trust *t, struct tt_arrival *ret, size_t *ret_n)
{
    struct pollfd fds[] = {{.fd = g->epoll, .events = POLLIN}, tt_boot_dial_fd(d)};
    struct tutti_error err;

    tt_boot_net_poll(fds, countof(fds), tt_now_ns() + 5000000);
    assert_int_equal(tt_boot_gate_serve(g, ret, ret_n, &err), TUTTI_OK);
    for (size_t i = 0; i < *ret_n; i++)
        assert_true(tt_boot_arrival_admit(&ret[i]));
    tt_boot_dial_serve(d, t, fds[1].revents);
}

static void a_crowd_of_strangers_holds_nobody_up(void **state)
{
    (void)state;
    enum { STRANGERS = TT_UNPROVED_MAX + 200 };
    struct pair p = pair_make();
    struct tt_listen where = {.addr_be = htonl(INADDR_LOOPBACK)};
    struct tt_gate *g = calloc(1, sizeof(*g));
    struct tt_dial d = {.rank = 1, .role = 5, .addr_be = where.addr_be, .epoll = -1};
    struct tt_arrival come[TT_GATE_TURN];
    int listener = -1, stranger[STRANGERS];
    size_t n = 0, arrivals = 0;
    struct tutti_error err;
    uint64_t from = tt_now_ns(), limit = from + UINT64_C(20000000000);

    assert_non_null(g);
    assert_int_equal(tt_boot_listen_open(&where, &listener, &d.port, &err), TUTTI_OK);
    assert_int_equal(tt_boot_gate_open(g, listener, &p.acceptor, &err), TUTTI_OK);
    for (int i = 0; i < STRANGERS; i++)
        assert_int_equal(tt_boot_net_connect(where.addr_be, d.port, 0, &stranger[i]), 0);
    tt_boot_dial_begin(&d, tt_now_ns());
    while ((d.state != TT_DIAL_DONE || arrivals == 0) && tt_now_ns() < limit) {
        one_turn(g, &d, &p.connector, come, &n);
        assert_true(g->n <= TT_UNPROVED_MAX);
        for (size_t i = 0; i < n; i++, arrivals++) {
            assert_int_equal(come[i].rank, 3);
            tt_boot_net_close(&come[i].fd);
        }
    }
    assert_int_equal(arrivals, 1);
    assert_true(tt_now_ns() < from + TT_HANDSHAKE_NS); /* not by waiting for the strangers' time to run out */
    assert_int_equal(d.state, TT_DIAL_DONE);
    assert_int_equal(d.rejections, 0);
    while (g->n > 0 && tt_now_ns() < limit)
        one_turn(g, &d, &p.connector, come, &n);
    assert_int_equal(g->n, 0);
    for (int i = 0; i < STRANGERS; i++) { /* all hung up on, without a word */
        char c;
        tt_boot_net_poll(&(struct pollfd){.fd = stranger[i], .events = POLLIN}, 1, limit);
        assert_true(recv(stranger[i], &c, 1, MSG_DONTWAIT) <= 0);
        close(stranger[i]);
    }
    tt_boot_gate_close(g);
    tt_boot_dial_abort(&d);
    close(listener);
    free(g);
}

/* ---- filters and words ---- */

static void filters_match(void **state)
{
    (void)state;
    static const struct {
        const char *filter, *name;
        bool match;
    } table[] = {
        {"", "eth0", true},
        {"eth", "eth0", true},
        {"eth", "ib0", false},
        {"ib,eth", "eth1", true},
        {"=eth", "eth0", false},
        {"=eth0", "eth0", true},
        {"=eth1,eth0", "eth0", true},
        {"^eth", "eth0", false},
        {"^docker,lo", "eth0", true},
        {"^docker,lo", "lo", false},
        {"^=eth", "eth0", true},
        {"^=eth0", "eth0", false},
        {"10.0.0.0/8", "eth0", true},
        {"192.168.0.0/16", "eth0", false},
        {"192.168.0.0/16,10.1.0.0/16", "eth0", true},
        {"^10.0.0.0/8", "eth0", false},
        {"10.1.2.3", "eth0", true},
        {"10.1.2.4", "eth0", false},
        {"0.0.0.0/0", "eth0", true},
        {"10.1.2.2/31", "eth0", true},
        {"10.1.2.2/32", "eth0", false},
        {"eth0.100", "eth0", false},
    };
    static const char *const bad[] = {"^", "=", "^=", "10.0.0.0/33", "10.0.0/8", "eth0/8", "10.0.0.0/"};
    struct tutti_error err;
    bool got;

    for (size_t i = 0; i < countof(table); i++) {
        struct tt_iface f = {.addr_be = htonl(0x0a010203)};
        snprintf(f.name, sizeof(f.name), "%s", table[i].name);
        assert_int_equal(tt_boot_iface_match(table[i].filter, &f, &got, &err), TUTTI_OK);
        if (got != table[i].match)
            fail_msg("\"%s\" and %s: %d", table[i].filter, table[i].name, got);
    }
    for (size_t i = 0; i < countof(bad); i++)
        assert_int_equal(tt_boot_iface_match(bad[i], &(struct tt_iface){.name = "eth0"}, &got, &err), TUTTI_ERR_PARSE);
}

static void addresses_are_chosen(void **state)
{
    (void)state;
    struct tutti_error err;
    uint32_t got = 0, lo = htonl(INADDR_LOOPBACK);

    assert_int_equal(tt_boot_iface_choose("", lo, &got, &err), TUTTI_OK);
    assert_true(got == lo);
    got = 0;
    assert_int_equal(tt_boot_iface_choose("lo", lo, &got, &err), TUTTI_OK);
    assert_true(got == lo);
    assert_int_equal(tt_boot_iface_choose("nosuch", lo, &got, &err), TUTTI_ERR_ARG);
    assert_false(tt_boot_iface_down(lo));
    assert_false(tt_boot_iface_down(htonl(0xcb007109))); /* nobody knows: not an address of this host */
    assert_non_null(strstr(err.text, "nosuch"));
    assert_non_null(strstr(err.text, "lo 127.0.0.1/8"));
}

static void ranks_are_listed(void **state)
{
    (void)state;
    static const char *const table[][2] = {
        {"0001", "rank 3"}, {"1100", "ranks 0, 1"}, {"1011101", "ranks 0, 2-4, 6"}, {"1111", "ranks 0-3"}};
    bool set[600] = {0};
    char buf[64];

    for (size_t i = 0; i < countof(table); i++) {
        for (size_t r = 0; r < strlen(table[i][0]); r++)
            set[r] = table[i][0][r] == '1';
        assert_string_equal(tt_boot_ranks_text(set, (uint32_t)strlen(table[i][0]), buf, sizeof(buf)), table[i][1]);
    }
    for (size_t r = 0; r < 600; r++)
        set[r] = r % 2;
    tt_boot_ranks_text(set, 600, buf, sizeof(buf));
    assert_string_equal(buf, "ranks 1, 3, 5, 7, 9, 11, 13, 15, 17, 19 and 290 more");
}

static void differences_are_named(void **state)
{
    (void)state;
    const char *same[] = {"a=1\nb=2\n", "b=2\na=1\n", "a=1\nb=2"};
    const char *other[] = {"a=1\nb=2\n", "a=1\nb=3\n", "a=1\nb=2\nc=x\n", "b=3\n"};
    struct tt_str out = {0};

    assert_false(tt_boot_settings_differ(same, 3, &out));
    assert_int_equal(out.len, 0);
    assert_true(tt_boot_settings_differ(other, 4, &out));
    assert_string_equal(out.s, "b is \"2\" on ranks 0, 2 but \"3\" on ranks 1, 3; c is not set on ranks 0, 1, 3 but \"x\" on rank 2; "
                               "a is \"1\" on ranks 0-2 but not set on rank 3");
    tt_str_free(&out);
}

/* Rank 1 moves into a network of its own; that needs rights the tests may not have. */
static void look_around(uint32_t rank, void *arg)
{
    struct tt_boot_peer p;
    uint64_t net;

    (void)arg;
    outcomes[rank].value = rank == 1 ? unshare(CLONE_NEWNET) : 0;
    tt_boot_host_self(&p, &net);
    outcomes[rank].hash = p.host_id;
}

static void network_namespaces_are_hosts(void **state)
{
    (void)state;
    run_ranks(3, look_around, NULL);
    assert_true(outcomes[0].hash == outcomes[2].hash);
    if (outcomes[1].value == 0)
        assert_true(outcomes[0].hash != outcomes[1].hash);
    struct tt_boot_peer a, b;
    uint64_t net_a, net_b;

    tt_boot_host_self(&a, &net_a);
    tt_boot_host_self(&b, &net_b);
    assert_true(a.host_id == b.host_id && net_a == net_b && a.host_id != net_a);
    assert_int_equal(a.pid, getpid());
    assert_true(a.host[0] != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(proofs_have_golden_values),
        cmocka_unit_test(greetings_round_trip),
        cmocka_unit_test(joins_round_trip),
        cmocka_unit_test(tables_and_refusals_round_trip),
        cmocka_unit_test(tickets_round_trip),
        cmocka_unit_test(newcomers_need_an_open_door),
        cmocka_unit_test(right_keys_are_accepted),
        cmocka_unit_test(keys_are_agreed),
        cmocka_unit_test(a_changed_greeting_is_found_out),
        cmocka_unit_test(wrong_ones_are_refused),
        cmocka_unit_test(impostors_are_found_out),
        cmocka_unit_test(strangers_get_no_word),
        cmocka_unit_test(another_version_is_told),
        cmocka_unit_test(a_crowd_of_strangers_holds_nobody_up),
        cmocka_unit_test(filters_match),
        cmocka_unit_test(addresses_are_chosen),
        cmocka_unit_test(ranks_are_listed),
        cmocka_unit_test(differences_are_named),
        cmocka_unit_test(network_namespaces_are_hosts),
    };

    if (sodium_init() < 0)
        return 1;
    for (uint8_t i = 0; i < TT_BOOT_KEY; i++) {
        KEY[i] = i;
        OTHER_KEY[i] = (uint8_t)(i + 1);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
