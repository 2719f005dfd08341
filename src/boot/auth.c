/* auth.c - both ends of a connection prove that they hold the job key, before any length is read.
 *
 *     connector                                 acceptor
 *       | -- greeting: who, to whom, challenge --> |   wrong magic, rank, job: closed silently
 *       | <-- greeting: who, job id, challenge --- |
 *       | -- proof ------------------------------> |   wrong key: closed silently
 *       | <-- proof ------------------------------ |   sent when the acceptor admits it
 *
 * A proof is HMAC-SHA-512-256 with the job key over a label, the direction and both greetings. It
 * covers version, ranks, role, job and both fresh challenges, so it fits no other connection and
 * cannot be reflected to its sender. The acceptor proves itself last, so strangers learn nothing
 * that was computed with the key. All four messages have fixed sizes; greeting and proof always fit
 * an empty socket buffer, so that only reading can wait.
 *
 * Keys. Ranks that encrypt also put their half of an X25519 exchange into the greeting. The proofs
 * cover it, so no third party can replace it. Each rank has one key pair for the life of the job: a
 * stranger costs one random number at most, and the challenges make the keys of every connection
 * different. The exchange is computed only with peers that have proved themselves. The greetings
 * also say whether to encrypt and whether the CPU has AES, so both ends choose the same cipher, and
 * a man in the middle cannot downgrade it. Without encryption, an attacker who can alter packets
 * after the handshake is not stopped (SECURITY.md). */
#include "boot/boot_int.h"

#include <sodium.h>
#include <string.h>

/* The labels differ by direction, so that a proof is never valid for the other direction. */
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
    sodium_memzero(&h, sizeof h);
}

/* Both ends put the two greetings in the same order: the connector's first. */
static void proof_of(const struct tt_shake *s, const struct tt_trust *t, bool by_acceptor,
                     uint8_t out[TT_PROOF])
{
    const uint8_t *connector = s->accepting ? s->theirs : s->mine,
                  *acceptor = s->accepting ? s->mine : s->theirs;

    tt_boot_proof_make(t->key, by_acceptor, connector, acceptor, out);
}

/* A greeting or a proof fits an empty socket buffer, so a short write means that the peer is
 * gone. */
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

    randombytes_buf(g.challenge, sizeof g.challenge);
    g.encrypt = t->pair != NULL;
    g.aes = tt_seal_has_aes();
    if (t->pair)
        memcpy(g.share, t->pair->share, TT_SHARE);
    tt_boot_greeting_write(&g, s->mine);
    return send_whole(s->fd, s->mine, TT_GREETING);
}

/* The connector's proof; the acceptor's is sent by tt_boot_arrival_admit. */
static bool send_proof(struct tt_shake *s, const struct tt_trust *t)
{
    uint8_t proof[TT_PROOF];

    proof_of(s, t, false, proof);
    return send_whole(s->fd, proof, sizeof proof);
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

/* Is this greeting for us? A rank that meets rank 0 does not know the job id yet, nor does a
 * newcomer; every other connection must carry it. A rank of another job may greet us with a rank
 * that this job does not have; rank 0 refuses that in words later (meet.c). */
static bool acceptable(const struct tt_shake *s, const struct tt_trust *t)
{
    const struct tt_greeting *g = &s->peer;

    if (g->kind != t->kind || g->to != t->rank || g->from == t->rank)
        return false;
    if (t->kind != TT_CONN_DATA)
        return s->accepting ? g->job == 0 : g->job != 0;
    /* encrypt was compared when the ranks met */
    return g->job == t->job && g->encrypt == (t->pair != NULL);
}

/* A rank of a job that went before greets this one by the rank it had there, and is answered as
 * that rank (porter.c tells it what became of its job). A newcomer greets any member. */
static struct tt_trust as_greeted(const struct tt_shake *s, const struct tt_trust *t)
{
    struct tt_trust as = *t;

    for (size_t i = 0; s->accepting && i < t->npast; i++)
        if (s->peer.job == t->past[i].job) {
            as.job = t->past[i].job;
            as.rank = t->past[i].rank;
        }
    if (s->accepting && t->welcome && s->peer.kind == TT_CONN_JOIN) {
        as.kind = TT_CONN_JOIN;
        as.rank = TT_RANK_MEMBER;
    }
    return as;
}

/* The peer's greeting is complete: checks it, and sends what comes next. */
static enum tt_shake_end greeted(struct tt_shake *s, const struct tt_trust *t)
{
    struct tt_greeting mine;
    struct tt_trust as;

    if (!tt_boot_greeting_parse(s->theirs, &s->peer))
        return TT_SHAKE_STRANGER;
    if (s->peer.version != TT_BOOT_PROTOCOL) {
        if (s->accepting)
            send_greeting(s, t, s->peer.from, s->peer.role); /* so that it can tell its user */
        return TT_SHAKE_VERSION;
    }
    as = as_greeted(s, t);
    if (!acceptable(s, &as))
        return TT_SHAKE_STRANGER;
    if (s->accepting)
        return send_greeting(s, &as, s->peer.from, s->peer.role) ? TT_SHAKE_MORE : TT_SHAKE_GONE;
    tt_boot_greeting_parse(s->mine, &mine);
    if (s->peer.from != mine.to || s->peer.role != mine.role)
        return TT_SHAKE_STRANGER;
    return send_proof(s, t) ? TT_SHAKE_MORE : TT_SHAKE_GONE;
}

/* Derives the keys of a connection whose peer has proved itself. False: the peer's half of the
 * exchange yields no key (a point of small order). */
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
    sodium_memzero(shared, sizeof shared);
    return true;
}

/* The comparison takes constant time, so that timing does not reveal how many bytes match. */
static enum tt_shake_end proved(struct tt_shake *s, const struct tt_trust *t)
{
    uint8_t expected[TT_PROOF];
    bool ok;

    proof_of(s, t, !s->accepting, expected);
    ok = sodium_memcmp(expected, s->proof, TT_PROOF) == 0;
    sodium_memzero(expected, sizeof expected);
    if (!ok)
        return TT_SHAKE_KEY;
    return auth_agree(s, t) ? TT_SHAKE_DONE : TT_SHAKE_STRANGER;
}

void tt_boot_shake_answer(const struct tt_shake *s, const struct tt_trust *t,
                          uint8_t ret_proof[TT_PROOF])
{
    proof_of(s, t, true, ret_proof);
}

/* Call when the socket is readable. First the peer's greeting is read, then its proof; `got` counts
 * the bytes of the part being read. */
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
    /* To a connector, an end at this point usually means that the acceptor rejected the proof. */
    if (went == TT_NET_END)
        return s->accepting ? TT_SHAKE_GONE : TT_SHAKE_REJECTED;
    return proved(s, t);
}
