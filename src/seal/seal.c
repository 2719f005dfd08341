/* seal.c - the records of one direction of a connection, and the keys that they start from.
 *
 * Keys. The keys of both directions are a keyed BLAKE2b of everything that both ends said and know:
 *
 *     BLAKE2b-512(key = job key;
 *                 "tutti session keys v1" | shared secret | connector's hello | acceptor's hello)
 *     first half: connector to acceptor        second half: acceptor to connector
 *
 * The hellos carry fresh random challenges and the public halves of the key exchange, so no two
 * connections share a key. An attacker who learns the job key later cannot compute the shared
 * secret of a job that has ended.
 *
 * Nonces are record numbers. A key is used for one direction of one connection only, so no nonce
 * repeats. After TT_SEAL_EPOCH records the key is replaced by a hash of itself. With records of 32
 * KiB that is 2^35 blocks per key, which keeps the distinguishing advantage against AES-GCM below
 * 2^-57 (the margin that TLS 1.3 asks for) however long a job runs. An old key cannot be computed
 * from its successor, so an attacker who obtains the current key cannot read earlier records. */
#include "seal/seal.h"

#include <assert.h>
#include <endian.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

static_assert(sizeof(crypto_aead_aes256gcm_state) <= TT_SEAL_STATE, "the state of AES fits");
static_assert(crypto_aead_aes256gcm_ABYTES == TT_SEAL_TAG &&
                  crypto_aead_chacha20poly1305_ietf_ABYTES == TT_SEAL_TAG,
              "both ciphers have one size of tag");
static_assert(crypto_aead_aes256gcm_KEYBYTES == TT_SEAL_KEY &&
                  crypto_aead_chacha20poly1305_ietf_KEYBYTES == TT_SEAL_KEY,
              "and of key");
enum { NONCE = 12 };
static_assert(crypto_aead_aes256gcm_NPUBBYTES == NONCE &&
                  crypto_aead_chacha20poly1305_ietf_NPUBBYTES == NONCE,
              "and of nonce");

bool tt_seal_has_aes(void)
{
    return sodium_init() >= 0 && crypto_aead_aes256gcm_is_available();
}

const char *tt_seal_cipher_name(enum tt_cipher c)
{
    return c == TT_CIPHER_AES      ? "AES-256-GCM"
           : c == TT_CIPHER_CHACHA ? "ChaCha20-Poly1305"
                                   : "none";
}

void tt_seal_derive(const struct tt_seal_origin *o, enum tt_cipher cipher, struct tt_seal_keys *ret)
{
    static const char label[] = "tutti session keys v1";
    uint8_t both[2 * TT_SEAL_KEY];
    crypto_generichash_state h;

    assert(cipher != TT_CIPHER_NONE);
    crypto_generichash_init(&h, o->secret, TT_SEAL_KEY, sizeof both);
    crypto_generichash_update(&h, (const uint8_t *)label, sizeof label - 1);
    crypto_generichash_update(&h, o->shared, TT_SEAL_KEY);
    crypto_generichash_update(&h, o->connector, o->hello_bytes);
    crypto_generichash_update(&h, o->acceptor, o->hello_bytes);
    crypto_generichash_final(&h, both, sizeof both);
    ret->cipher = cipher;
    /* Both ends compute the same two halves; the acceptor swaps their roles. */
    memcpy(o->accepting ? ret->recv : ret->send, both, TT_SEAL_KEY);
    memcpy(o->accepting ? ret->send : ret->recv, both + TT_SEAL_KEY, TT_SEAL_KEY);
    sodium_memzero(both, sizeof both);
    sodium_memzero(&h, sizeof h);
}

/* Only AES has a key schedule worth keeping; ChaCha20 takes the key with every record. */
static void use_key(struct tt_seal *s)
{
    if (s->cipher == TT_CIPHER_AES)
        crypto_aead_aes256gcm_beforenm((crypto_aead_aes256gcm_state *)s->state, s->key);
}

void tt_seal_begin(struct tt_seal *s, enum tt_cipher cipher, const uint8_t key[TT_SEAL_KEY])
{
    assert(cipher != TT_CIPHER_NONE);
    s->cipher = cipher;
    s->number = 0;
    memcpy(s->key, key, TT_SEAL_KEY);
    use_key(s);
}

void tt_seal_end(struct tt_seal *s)
{
    sodium_memzero(s, sizeof *s);
}

void tt_seal_forget(void *p, size_t bytes)
{
    if (p)
        sodium_memzero(p, bytes);
    free(p);
}

/* The hash is one-way: the old key is overwritten and cannot be recovered. */
static void next_key(struct tt_seal *s)
{
    static const char label[] = "tutti next key v1";
    uint8_t next[TT_SEAL_KEY];

    crypto_generichash(next, sizeof next, (const uint8_t *)label, sizeof label - 1, s->key,
                       TT_SEAL_KEY);
    memcpy(s->key, next, TT_SEAL_KEY);
    sodium_memzero(next, sizeof next);
    use_key(s);
}

/* Writes the nonce of the next record, and replaces the key first when a new epoch begins there.
 * Sender and receiver call this once per record, so both change keys at the same record. */
static void advance(struct tt_seal *s, uint8_t nonce[NONCE])
{
    assert(s->cipher != TT_CIPHER_NONE && s->number < UINT64_MAX);
    uint64_t number = htole64(s->number);

    if (s->number && s->number % TT_SEAL_EPOCH == 0)
        next_key(s);
    s->number++;
    memset(nonce, 0, NONCE);
    memcpy(nonce, &number, sizeof number);
}

void tt_seal_put(struct tt_seal *s, const void *in, size_t n, uint8_t *out)
{
    uint8_t nonce[NONCE];

    advance(s, nonce);
    if (s->cipher == TT_CIPHER_AES)
        crypto_aead_aes256gcm_encrypt_detached_afternm(
            out, out + n, NULL, in, n, NULL, 0, NULL, nonce,
            (const crypto_aead_aes256gcm_state *)s->state);
    else
        crypto_aead_chacha20poly1305_ietf_encrypt_detached(out, out + n, NULL, in, n, NULL, 0, NULL,
                                                           nonce, s->key);
}

/* The number advances even when the record is refused: the connection is over then (seal.h). */
bool tt_seal_take(struct tt_seal *s, const uint8_t *in, size_t n, void *out)
{
    uint8_t nonce[NONCE];

    advance(s, nonce);
    if (s->cipher == TT_CIPHER_AES)
        return !crypto_aead_aes256gcm_decrypt_detached_afternm(
            out, NULL, in, n, in + n, NULL, 0, nonce,
            (const crypto_aead_aes256gcm_state *)s->state);
    return !crypto_aead_chacha20poly1305_ietf_decrypt_detached(out, NULL, in, n, in + n, NULL, 0,
                                                               nonce, s->key);
}
