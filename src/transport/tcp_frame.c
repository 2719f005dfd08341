/* tcp_frame.c - the header of a piece on the wire, and back (tcp.h has the layout).
 *
 * A header is accepted only when magic, length, number and checksum all fit, so a stray byte, a
 * lost piece or data of another program ends the connection instead of being taken for numbers. The
 * checksum protects against mistakes, not against an attacker: connections are authenticated before
 * they come here, and encrypted where the network is not trusted.
 *
 * Numbers are little-endian, and fields are copied byte by byte: headers need no alignment. */
#include "transport/tcp.h"

#include <endian.h>
#include <string.h>

#define MAGIC UINT32_C(0x31507454) /* "TtP1" */

static void put16(uint8_t *p, uint16_t v)
{
    v = htole16(v);
    memcpy(p, &v, sizeof v);
}

static void put32(uint8_t *p, uint32_t v)
{
    v = htole32(v);
    memcpy(p, &v, sizeof v);
}

static void put64(uint8_t *p, uint64_t v)
{
    v = htole64(v);
    memcpy(p, &v, sizeof v);
}

static uint16_t get16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return le16toh(v);
}

static uint32_t get32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return le32toh(v);
}

static uint64_t get64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return le64toh(v);
}

enum { OWN_CHECK = 44 }; /* offset of the header's checksum, and the number of bytes it covers */

void tt_tcp_frame_encode(const struct tt_tcp_frame *f, uint8_t *out)
{
    put32(out, MAGIC);
    put32(out + 4, f->bytes);
    put64(out + 8, f->tag.fingerprint);
    put32(out + 16, f->tag.request);
    put32(out + 20, f->tag.message);
    put32(out + 24, f->tag.segment);
    put16(out + 28, f->tag.comm);
    put16(out + 30, f->tag.channel);
    put64(out + 32, f->number);
    put32(out + 40, f->check);
    put32(out + OWN_CHECK, tt_seal_crc32c(0, out, OWN_CHECK));
}

uint32_t tt_tcp_frame_bytes(const uint8_t *header)
{
    return get32(header + 4);
}

/* *ret is set only if the header is accepted. The number must be the next one of its socket: a
 * piece that was lost or repeated is noticed. */
bool tt_tcp_frame_decode(const uint8_t *in, uint64_t number, struct tt_tcp_frame *ret)
{
    struct tt_tcp_frame f = {
        .tag = {.fingerprint = get64(in + 8),
                .request = get32(in + 16),
                .message = get32(in + 20),
                .segment = get32(in + 24),
                .comm = get16(in + 28),
                .channel = get16(in + 30)},
        .bytes = get32(in + 4),
        .number = get64(in + 32),
        .check = get32(in + 40),
    };
    if (get32(in) != MAGIC || f.bytes > TT_PIECE_MAX || f.number != number ||
        get32(in + OWN_CHECK) != tt_seal_crc32c(0, in, OWN_CHECK))
        return false;
    *ret = f;
    return true;
}
