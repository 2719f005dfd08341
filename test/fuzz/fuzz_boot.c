/* What strangers and peers can send while ranks meet, and the texts people write: any bytes are parsed or refused. What was parsed reads
 * back the same; no bytes get past the handshake without the key. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "boot/boot_int.h"
#include "must.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void fuzz_fixed(const uint8_t *data, size_t size)
{
    uint8_t in[TT_GREETING] = {0}, out[TT_GREETING];
    struct tt_greeting g;
    struct tt_frame f;
    struct tt_offer o;

    memcpy(in, data, size < sizeof(in) ? size : sizeof(in));
    if (tt_boot_greeting_parse(in, &g) && g.version == TT_BOOT_PROTOCOL) {
        tt_boot_greeting_write(&g, out);
        must(memcmp(in, out, TT_GREETING) == 0);
    }
    if (tt_boot_frame_parse(in, &f)) {
        tt_boot_frame_write(&f, out);
        must(memcmp(in, out, TT_FRAME) == 0);
    }
    if (tt_boot_offer_parse(data, size, &o)) {
        tt_boot_offer_write(&o, out);
        must(size == TT_OFFER && memcmp(data, out, TT_OFFER) == 0);
    }
}

static void fuzz_join(const uint8_t *data, size_t size)
{
    static uint8_t out[TT_JOIN_MAX];
    struct tt_boot_join j;

    if (tt_boot_join_parse(data, size, &j)) {
        must(tt_boot_join_write(&j, out) == size);
        must(memcmp(data, out, size) == 0);
    }
}

static void fuzz_table(const uint8_t *data, size_t size)
{
    struct tt_boot_peer peers[8];
    struct tutti_error err = {0};
    struct tt_ticket t;
    uint32_t ranks;

    must(!tt_boot_ticket_parse(data, size, &t, &ranks) || (t.job && t.rank < ranks));
    for (uint32_t n = 0; n <= countof(peers); n++)
        must(!tt_boot_table_parse(data, size, n, peers) || size == (size_t)n * TT_PEER_BYTES);
    tt_boot_refusal_parse(data, size, &err);
    must(err.status < 0 && err.text[0]);
}

/* Somebody without the key sends these bytes and hangs up. */
static void fuzz_shake(const uint8_t *data, size_t size)
{
    static const uint8_t key[TT_BOOT_KEY] = {1, 2, 3};
    struct tt_trust t = {.key = key, .keyed = true, .job = 5, .kind = data[0] & 1 ? TT_CONN_MEET : TT_CONN_DATA};
    struct tt_shake s;
    int fd[2];

    if (size > 1024 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0)
        return;
    must(send(fd[0], data + 1, size - 1, MSG_NOSIGNAL) == (ssize_t)(size - 1));
    shutdown(fd[0], SHUT_WR);
    tt_boot_shake_accept(&s, fd[1]);
    enum tt_shake_end end = tt_boot_shake_step(&s, &t);
    must(end != TT_SHAKE_DONE && end != TT_SHAKE_MORE);
    tt_boot_net_close(&fd[0]);
    tt_boot_net_close(&fd[1]);
}

/* Carries n bytes from one socket to another, altered by the edits that are for this message: three
 * bytes each, message, offset, bits. True: nothing was altered. */
static bool carry(int from, int to, size_t n, int message, const uint8_t *edits, size_t size)
{
    uint8_t bytes[TT_GREETING], before[TT_GREETING];
    size_t got = 0, sent = 0;

    must(tt_boot_net_fill(from, bytes, n, &got) == TT_NET_OK);
    memcpy(before, bytes, n);
    for (; size >= 3; edits += 3, size -= 3)
        if (edits[0] % 4 == message)
            bytes[edits[1] % n] ^= edits[2];
    must(tt_boot_net_drain(to, bytes, n, &sent) == TT_NET_OK);
    return memcmp(bytes, before, n) == 0;
}

/* A handshake between c and a, whose other ends are cs and as. Returns whether all messages came
 * unaltered; whoever was sent something else than the other one wrote does not get through. */
static bool relay(struct tt_shake *c, const struct tt_trust *ct, int cs, struct tt_shake *a, const struct tt_trust *at, int as,
                  const uint8_t *edits, size_t n)
{
    uint8_t answer[TT_PROOF];
    size_t sent = 0;
    bool same = carry(cs, as, TT_GREETING, 0, edits, n);

    if (tt_boot_shake_step(a, at) != TT_SHAKE_MORE)
        return must(!same), false;
    same &= carry(as, cs, TT_GREETING, 1, edits, n);
    if (tt_boot_shake_step(c, ct) != TT_SHAKE_MORE)
        return must(!same), false;
    same &= carry(cs, as, TT_PROOF, 2, edits, n);
    enum tt_shake_end end = tt_boot_shake_step(a, at);
    must(end == (same ? TT_SHAKE_DONE : TT_SHAKE_KEY));
    if (end != TT_SHAKE_DONE)
        return false;
    tt_boot_shake_answer(a, at, answer);
    must(tt_boot_net_drain(a->fd, answer, TT_PROOF, &sent) == TT_NET_OK);
    same &= carry(as, cs, TT_PROOF, 3, edits, n);
    must(tt_boot_shake_step(c, ct) == (same ? TT_SHAKE_DONE : TT_SHAKE_KEY));
    return same;
}

/* Two ranks with the key meet through somebody who alters bytes on the way. Bits of data[0]: kind
 * of connection, encryption. */
static void fuzz_relay(const uint8_t *data, size_t size)
{
    static const uint8_t key[TT_BOOT_KEY] = {1, 2, 3};
    enum tt_conn_kind kind = data[0] & 1 ? TT_CONN_MEET : TT_CONN_DATA;
    struct tt_key_pair pair[2] = {{.secret = {1}}, {.secret = {2}}};
    bool seal = data[0] & 2;
    struct tt_trust ct = {.key = key, .keyed = true, .rank = 1, .job = kind == TT_CONN_MEET ? 0 : 5, .kind = kind},
                    at = {.key = key, .keyed = true, .rank = 0, .job = 5, .kind = kind};
    struct tt_shake c, a;
    ct.pair = seal ? &pair[0] : NULL;
    at.pair = seal ? &pair[1] : NULL;
    int cs[2], as[2]; /* [0]: the rank's end, [1]: the relay's */

    must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, cs) && !socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, as));
    for (int i = 0; i < 2 && seal; i++)
        must(crypto_scalarmult_base(pair[i].share, pair[i].secret) == 0);
    must(tt_boot_shake_connect(&c, cs[0], &ct, 0, 9) == TT_SHAKE_MORE);
    tt_boot_shake_accept(&a, as[0]);
    if (relay(&c, &ct, cs[1], &a, &at, as[1], data + 1, size - 1))
        must(c.keys.cipher == a.keys.cipher && (c.keys.cipher == TT_CIPHER_NONE) == !seal &&
             !memcmp(c.keys.send, a.keys.recv, TT_SEAL_KEY) && !memcmp(c.keys.recv, a.keys.send, TT_SEAL_KEY));
    for (int i = 0; i < 2; i++) {
        tt_boot_net_close(&cs[i]);
        tt_boot_net_close(&as[i]);
    }
}

static void fuzz_texts(const char *text)
{
    struct tt_iface i = {.name = "eth0", .addr_be = 0x0100000a};
    struct tutti_error err = {0};
    char host[TT_BOOT_HOST * 2];
    uint16_t port = 0;
    bool match;

    must(tt_boot_iface_match(text, &i, &match, &err) == TUTTI_OK || err.text[0]);
    must(tt_boot_rendezvous_parse(text, host, &port, &err) != TUTTI_OK || (port > 0 && host[0]));
    must(!tt_boot_nodelist_first(text, host, 16) || (host[0] && strlen(host) < 16));
}

/* The settings of three ranks, one after the other. */
static void fuzz_settings(char *text)
{
    const char *settings[3] = {text, "", ""};
    struct tt_str out = {0};

    for (int r = 1; r < 3; r++) {
        char *cut = strchr(settings[r - 1], '\1');
        if (!cut)
            break;
        *cut = 0;
        settings[r] = cut + 1;
    }
    must(tt_boot_settings_differ(settings, 3, &out) == (out.len > 0));
    tt_str_free(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t key[TT_BOOT_KEY];
    struct tutti_error err = {0};
    char *text;

    if (size < 1 || size > 8192)
        return 0;
    text = malloc(size);
    must(text != NULL);
    memcpy(text, data + 1, size - 1);
    text[size - 1] = 0;
    switch (data[0] % 7) {
    case 0:
        fuzz_fixed(data + 1, size - 1);
        break;
    case 1:
        fuzz_join(data + 1, size - 1);
        break;
    case 2:
        fuzz_table(data + 1, size - 1);
        break;
    case 3:
        fuzz_shake(data, size);
        break;
    case 4:
        fuzz_texts(text);
        must(tt_boot_key_parse(data + 1, size - 1, key, &err) == TUTTI_OK || err.text[0]);
        break;
    case 5:
        fuzz_settings(text);
        break;
    default:
        if (size > 1)
            fuzz_relay(data + 1, size - 1);
    }
    free(text);
    return 0;
}
