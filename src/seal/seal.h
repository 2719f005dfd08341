/* seal.h - what keeps the bytes between two ranks from being read or altered: records that are
 * encrypted and authenticated, the keys of a connection, and the checksum for connections that are
 * not encrypted.
 *
 * Everything here is a function of its arguments: no sockets, no allocation, no globals. boot makes
 * the keys of a connection in its handshake and seals control lines, transport/tcp seals pieces.
 *
 * A connection has one key per direction. A record is some bytes, encrypted, and a tag of
 * TT_SEAL_TAG bytes:
 *
 *     plain:   n bytes     -> sealed:   n bytes | tag           cipher: AES-256-GCM, or
 * ChaCha20-Poly1305 (IETF)
 *
 * Both ends count the records of a direction; the number is the nonce and does not travel. So a
 * record that was altered, repeated, left out or moved does not open, and neither does any record
 * after it. How long a record is must be known to the reader by other means: from the records
 * before it, never from bytes that are not sealed. */
#ifndef TT_SEAL_H
#define TT_SEAL_H

#include <stddef.h>

#include "base/base.h"

enum tt_cipher { TT_CIPHER_NONE, TT_CIPHER_AES, TT_CIPHER_CHACHA };
enum { TT_SEAL_KEY = 32, TT_SEAL_TAG = 16, TT_SEAL_STATE = 512 };

/* The keys of one connection, as its handshake made them; travels with the socket. cipher NONE: not
 * to be encrypted. */
struct tt_seal_keys {
    enum tt_cipher cipher;
    uint8_t send[TT_SEAL_KEY], recv[TT_SEAL_KEY];
};

/* Does this CPU have what AES-256-GCM needs? */
bool tt_seal_has_aes(void);
const char *tt_seal_cipher_name(enum tt_cipher c); /* "AES-256-GCM"; NONE: "none" */

/* One direction of a connection. `secret` is what both ends alone know (the job key); `shared` the
 * result of a key exchange; the hello messages of both ends make the keys fresh. accepting: which
 * of the two this end is. */
struct tt_seal_origin {
    const uint8_t *secret, *shared; /* TT_SEAL_KEY bytes each */
    const uint8_t *connector, *acceptor;
    size_t hello_bytes;
    bool accepting;
};
void tt_seal_derive(const struct tt_seal_origin *o, enum tt_cipher cipher,
                    struct tt_seal_keys *ret);

/* One direction at one end. */
struct tt_seal {
    _Alignas(16) uint8_t state[TT_SEAL_STATE]; /* AES: the expanded key */
    uint8_t key[TT_SEAL_KEY];
    uint64_t number; /* of the next record */
    enum tt_cipher cipher;
};
_Static_assert(_Alignof(struct tt_seal) <= _Alignof(max_align_t), "malloc will do");
/* Keys change by themselves every so many records (seal.c says why). */
#define TT_SEAL_EPOCH (UINT64_C(1) << 24)

void tt_seal_begin(struct tt_seal *s, enum tt_cipher cipher, const uint8_t key[TT_SEAL_KEY]);
void tt_seal_end(struct tt_seal *s); /* forgets the keys; accepts a zeroed one */
/* Overwrites and frees memory that held keys; accepts NULL. */
void tt_seal_forget(void *p, size_t bytes);
/* The next record: n bytes of `in` become n + TT_SEAL_TAG bytes at `out`. in == out is allowed,
 * other overlaps are not. */
void tt_seal_put(struct tt_seal *s, const void *in, size_t n, uint8_t *out);
/* The other way. False: these are not the bytes that were sealed; `out` holds nothing of use, and
 * the connection is over. */
bool tt_seal_take(struct tt_seal *s, const uint8_t *in, size_t n, void *out);

/* CRC-32C of n bytes, going on from `crc` (0 to begin with): tt_seal_crc32c(tt_seal_crc32c(0, a),
 * b) is that of a and b joined. */
uint32_t tt_seal_crc32c(uint32_t crc, const void *p, size_t n);
/* Without the CPU's instruction; for tests. */
uint32_t tt_seal_crc32c_tables(uint32_t crc, const void *p, size_t n);
const char *tt_seal_crc32c_way(void); /* "sse4.2" or "tables" */
#endif
