/* auth.c - both ends of a connection prove that they hold the job key, before any length is read.
 *
 *   connector                                  acceptor
 *      | -- greeting: who, to whom, challenge --> |   wrong magic, rank, job: closed without a word
 *      | <-- greeting: who, job id, challenge --- |
 *      | -- proof ------------------------------> |   wrong key: closed without a word
 *      | <-- proof ------------------------------ |   sent when the acceptor admits the connection
 *
 * A proof is HMAC-SHA-512-256 with the job key over a label, the direction and both greetings, so
 * it covers version, ranks, role, job and both fresh challenges: it fits no other connection and
 * cannot be sent back to its maker. The acceptor proves itself last, so strangers learn nothing
 * made with the key. All four messages have fixed sizes; greeting and proof always fit an empty
 * socket buffer, so that only reading can wait.
 *
 * Keys. Ranks that encrypt also put their half of an X25519 exchange into the greeting, which the
 * proofs cover, so that nobody can put another half in its place. Each rank has one pair of these
 * for the life of the job: what a stranger costs stays one random number, and the challenges make
 * the keys of every connection different. The exchange is computed only with those that have proved
 * themselves. Whether to encrypt, and whether a CPU has AES, stand in the greetings too: both ends
 * come to the same cipher, and nobody on the way can talk them into a weaker one. Without
 * encryption someone who can alter packets after the handshake is not stopped (SECURITY.md). */
#include "boot/boot_int.h"

#include <sodium.h>
#include <string.h>

void tt_boot_proof_make(const uint8_t key[TT_BOOT_KEY], bool by_acceptor,
                        const uint8_t connector[TT_GREETING], const uint8_t acceptor[TT_GREETING],
                        uint8_t out[TT_PROOF])
{
    static const char *const label[] = {"tutti proof of the connector v1",
                                        "tutti proof of the acceptor  v1"};
    crypto_auth_hmacsha512256_state h;

    crypto_auth_hmacsha512256_init(&h, key, TT_BOOT_KEY);
    crypto_auth_hmacsha512256_update(&h, (const uint8_t *)label[by_acceptor],
                                     strlen(label[by_acceptor]));
    crypto_auth_hmacsha512256_update(&h, connector, TT_GREETING);
    crypto_auth_hmacsha512256_update(&h, acceptor, TT_GREETING);
    crypto_auth_hmacsha512256_final(&h, out);
    sodium_memzero(&h, sizeof(h));
}

static void proof_of(const struct tt_shake *s, const struct tt_trust *t, bool by_acceptor,
                     uint8_t out[TT_PROOF])
{
    const uint8_t *connector = s->accepting ? s->theirs : s->mine,
                  *acceptor = s->accepting ? s->mine : s->theirs;

    tt_boot_proof_make(t->key, by_acceptor, connector, acceptor, out);
}

static bool send_whole(int fd, const uint8_t *bytes, size_t n)
{
    size_t sent = 0;

    return tt_boot_net_drain(fd, bytes, n, &sent) == TT_NET_OK;
}

static bool send_greeting(struct tt_shake *s, const struct tt_trust *t, uint32_t to, uint64_t role)
{
    struct tt_greeting g = {.version = TT_BOOT_PROTOCOL,
                            .keyed = t->keyed,
                            .kind = t->kind,
                            .role = role,
                            .from = t->rank,
                            .to = to,
                            .job = t->job};

    randombytes_buf(g.challenge, sizeof(g.challenge));
    g.encrypt = t->pair != NULL;
    g.aes = tt_seal_has_aes();
    if (t->pair)
        memcpy(g.share, t->pair->share, TT_SHARE);
    tt_boot_greeting_write(&g, s->mine);
    return send_whole(s->fd, s->mine, TT_GREETING);
}

/* Of the connector; the acceptor's is sent by tt_boot_arrival_admit. */
static bool send_proof(struct tt_shake *s, const struct tt_trust *t)
{
    uint8_t proof[TT_PROOF];

    proof_of(s, t, false, proof);
    return send_whole(s->fd, proof, sizeof(proof));
}

void tt_boot_shake_accept(struct tt_shake *s, int fd)
{
    *s = (struct tt_shake){.fd = fd, .accepting = true, .since_ns = tt_now_ns()};
}

enum tt_shake_end tt_boot_shake_connect(struct tt_shake *s, int fd, const struct tt_trust *t,
                                        uint32_t to, uint64_t role)
{
    *s = (struct tt_shake){.fd = fd, .since_ns = tt_now_ns()};
    return send_greeting(s, t, to, role) ? TT_SHAKE_MORE : TT_SHAKE_GONE;
}

/* A rank that meets rank 0 does not know the job yet; every other connection belongs to the job or
 * to nobody. A rank that another job expects may greet us with a rank we do not have; rank 0
 * answers that in words, later. */
static bool acceptable(const struct tt_shake *s, const struct tt_trust *t)
{
    const struct tt_greeting *g = &s->peer;

    if (g->kind != t->kind || g->to != t->rank || g->from == t->rank)
        return false;
    if (t->kind == TT_CONN_MEET)
        return s->accepting ? g->job == 0 : g->job != 0;
    return g->job == t->job && g->encrypt == (t->pair != NULL); /* compared when the ranks met */
}

/* The other's greeting is here. */
static enum tt_shake_end greeted(struct tt_shake *s, const struct tt_trust *t)
{
    struct tt_greeting mine;

    if (!tt_boot_greeting_parse(s->theirs, &s->peer))
        return TT_SHAKE_STRANGER;
    if (s->peer.version != TT_BOOT_PROTOCOL) {
        if (s->accepting)
            send_greeting(s, t, s->peer.from, s->peer.role); /* so that it can tell its user */
        return TT_SHAKE_VERSION;
    }
    if (!acceptable(s, t))
        return TT_SHAKE_STRANGER;
    if (s->accepting)
        return send_greeting(s, t, s->peer.from, s->peer.role) ? TT_SHAKE_MORE : TT_SHAKE_GONE;
    tt_boot_greeting_parse(s->mine, &mine);
    if (s->peer.from != mine.to || s->peer.role != mine.role)
        return TT_SHAKE_STRANGER;
    return send_proof(s, t) ? TT_SHAKE_MORE : TT_SHAKE_GONE;
}

/* The keys of a connection whose other end has proved itself. False: its half of the exchange makes
 * no key. */
static bool auth_agree(struct tt_shake *s, const struct tt_trust *t)
{
    uint8_t shared[TT_SHARE];
    struct tt_seal_origin o = {.secret = t->key,
                               .shared = shared,
                               .connector = s->accepting ? s->theirs : s->mine,
                               .acceptor = s->accepting ? s->mine : s->theirs,
                               .hello_bytes = TT_GREETING,
                               .accepting = s->accepting};

    if (!t->pair || !s->peer.encrypt)
        return true;
    if (crypto_scalarmult(shared, t->pair->secret, s->peer.share) != 0)
        return false;
    tt_seal_derive(&o, s->peer.aes && tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA,
                   &s->keys);
    sodium_memzero(shared, sizeof(shared));
    return true;
}

static enum tt_shake_end proved(struct tt_shake *s, const struct tt_trust *t)
{
    uint8_t expected[TT_PROOF];
    bool ok;

    proof_of(s, t, !s->accepting, expected);
    ok = sodium_memcmp(expected, s->proof, TT_PROOF) == 0;
    sodium_memzero(expected, sizeof(expected));
    if (!ok)
        return TT_SHAKE_KEY;
    return auth_agree(s, t) ? TT_SHAKE_DONE : TT_SHAKE_STRANGER;
}

void tt_boot_shake_answer(const struct tt_shake *s, const struct tt_trust *t,
                          uint8_t ret_proof[TT_PROOF])
{
    proof_of(s, t, true, ret_proof);
}

enum tt_shake_end tt_boot_shake_step(struct tt_shake *s, const struct tt_trust *t)
{
    enum tt_net went;

    if (!s->greeted) {
        enum tt_shake_end end;
        went = tt_boot_net_fill(s->fd, s->theirs, TT_GREETING, &s->got);
        if (went != TT_NET_OK)
            return went == TT_NET_AGAIN ? TT_SHAKE_MORE : TT_SHAKE_GONE;
        end = greeted(s, t);
        if (end != TT_SHAKE_MORE)
            return end;
        s->greeted = true;
        s->got = 0;
    }
    went = tt_boot_net_fill(s->fd, s->proof, TT_PROOF, &s->got);
    if (went == TT_NET_AGAIN)
        return TT_SHAKE_MORE;
    if (went == TT_NET_END)
        return s->accepting ? TT_SHAKE_GONE : TT_SHAKE_REJECTED;
    return proved(s, t);
}
