/* seal.h - protects the bytes between two ranks from being read or altered: encrypted and
 * authenticated records, the keys of a connection, and the checksum for connections that are not
 * encrypted.
 *
 * Every function depends on its arguments only: no sockets, no allocation, no global state except
 * constant tables. boot derives the keys of a connection in its handshake and seals control lines;
 * transport/tcp seals pieces. A struct tt_seal belongs to one thread at a time.
 *
 * A connection has one key per direction. A record is some bytes, encrypted, and a tag of
 * TT_SEAL_TAG bytes:
 *
 *     plain:   n bytes     -> sealed:   n bytes | tag
 *     cipher:  AES-256-GCM, or ChaCha20-Poly1305 (IETF)
 *
 * Both ends count the records of a direction; the number is the nonce and is not sent. A record
 * that was altered, repeated, dropped or reordered therefore does not open, and neither does any
 * record after it. The reader must know the length of a record by other means: from the records
 * before it, never from bytes that are not sealed. */
#ifndef TT_SEAL_H
#define TT_SEAL_H

#include <assert.h>
#include <stddef.h>

#include "base/base.h"

enum tt_cipher { TT_CIPHER_NONE, TT_CIPHER_AES, TT_CIPHER_CHACHA };
enum { TT_SEAL_KEY = 32, TT_SEAL_TAG = 16, TT_SEAL_STATE = 512 };

/* The keys of one connection, as its handshake derived them; they are handed over together with the
 * socket. cipher TT_CIPHER_NONE: the connection is not encrypted. */
struct tt_seal_keys {
    enum tt_cipher cipher;
    uint8_t send[TT_SEAL_KEY], recv[TT_SEAL_KEY];
};

/* Does this CPU have the instructions for AES-256-GCM? Without them libsodium offers ChaCha20
 * only. */
bool tt_seal_has_aes(void);
const char *tt_seal_cipher_name(enum tt_cipher c); /* "AES-256-GCM"; NONE: "none" */

/* Everything the keys of a connection are derived from. `secret` is known to both ends only (the
 * job key), `shared` is the result of a key exchange, and the hello messages of both ends make the
 * keys fresh. accepting: this end is the acceptor. The pointers are borrowed for the call. */
struct tt_seal_origin {
    const uint8_t *secret, *shared; /* TT_SEAL_KEY bytes each */
    const uint8_t *connector, *acceptor;
    size_t hello_bytes;
    bool accepting;
};
void tt_seal_derive(const struct tt_seal_origin *o, enum tt_cipher cipher,
                    struct tt_seal_keys *ret);

/* One direction at one end: the sender's state or the receiver's. */
struct tt_seal {
    _Alignas(16) uint8_t state[TT_SEAL_STATE]; /* AES: the expanded key */
    uint8_t key[TT_SEAL_KEY];
    uint64_t number; /* of the next record */
    enum tt_cipher cipher;
};
static_assert(_Alignof(struct tt_seal) <= _Alignof(max_align_t), "malloc will do");
/* The key is replaced after this many records (seal.c says why). */
#define TT_SEAL_EPOCH (UINT64_C(1) << 24)

void tt_seal_begin(struct tt_seal *s, enum tt_cipher cipher, const uint8_t key[TT_SEAL_KEY]);
void tt_seal_end(struct tt_seal *s); /* erases the keys; accepts a zeroed struct */
/* Overwrites and frees memory that held keys; accepts NULL. */
void tt_seal_forget(void *p, size_t bytes);
/* Seals the next record: n bytes of `in` become n + TT_SEAL_TAG bytes at `out`. in == out is
 * allowed, other overlaps are not. */
void tt_seal_put(struct tt_seal *s, const void *in, size_t n, uint8_t *out);
/* Opens the next record: n bytes and their tag at `in` become n bytes at `out`. False: these are
 * not the bytes that were sealed; `out` holds nothing useful and the connection must be closed. */
bool tt_seal_take(struct tt_seal *s, const uint8_t *in, size_t n, void *out);

/* CRC-32C of n bytes, continued from `crc` (0 at the start): tt_seal_crc32c(tt_seal_crc32c(0, a),
 * b) is the checksum of a followed by b. Any thread may call it. */
uint32_t tt_seal_crc32c(uint32_t crc, const void *p, size_t n);
/* The same without the CPU's instruction; for tests. */
uint32_t tt_seal_crc32c_tables(uint32_t crc, const void *p, size_t n);
const char *tt_seal_crc32c_way(void); /* "sse4.2" or "tables" */
#endif
