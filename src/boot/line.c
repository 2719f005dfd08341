/* line.c - control connections: bytes arrive in order and unaltered, or the connection ends.
 *
 * For its users a line is a stream like the socket below it. On the wire every write becomes
 * records. The length of a record is protected by a tag of its own, so that the reader never waits
 * for bytes that were not sent:
 *
 *     | length u32 | tag | that many bytes, RECORD_MAX at most | tag |
 *
 * If the job encrypts, both parts are sealed (seal.h). Otherwise the tag is a CRC-32C that starts
 * from the number of the part; it detects errors of the network, not attackers.
 *
 * A record never holds bytes of two writes, and reading stops at the end of a record. A reader that
 * has taken a whole message therefore leaves nothing buffered here that poll(2) on the socket would
 * not announce.
 *
 * Reading and writing use separate state; each direction belongs to one thread at a time. */
#include <assert.h>

#include "boot/boot_int.h"

#include <errno.h>
#include <string.h>

enum {
    RECORD_MAX = 1024,
    LENGTH = 4,
    SUM = 4, /* bytes of a checksum, the tag of a line that is not encrypted */
    RECORD = LENGTH + RECORD_MAX + 2 * TT_SEAL_TAG
};

struct tt_line_parts {
    struct tt_seal tx, rx; /* cipher NONE: only the counters are used */
    size_t tag;
    uint8_t out[RECORD];
    size_t out_len, out_sent; /* the record being sent; 0: none */
    size_t out_bytes;         /* how many of the caller's bytes it holds */
    uint8_t in[RECORD_MAX + TT_SEAL_TAG];
    size_t in_got, in_at, in_len; /* bytes so far; [in_at, in_len): opened, not read yet */
    /* Length of the record whose length part has arrived; 0: a length part comes next. */
    size_t body;
};

bool tt_boot_line_open(struct tt_boot_line *l, int fd, const struct tt_seal_keys *keys)
{
    struct tt_line_parts *s = tt_zalloc(1, sizeof *s);

    *l = (struct tt_boot_line){.fd = fd, .state = s};
    if (!s)
        return false;
    s->tag = keys->cipher == TT_CIPHER_NONE ? SUM : TT_SEAL_TAG;
    if (keys->cipher == TT_CIPHER_NONE)
        return true;
    tt_seal_begin(&s->tx, keys->cipher, keys->send);
    tt_seal_begin(&s->rx, keys->cipher, keys->recv);
    return true;
}

void tt_boot_line_close(struct tt_boot_line *l)
{
    tt_boot_net_close(&l->fd);
    tt_seal_forget(l->state, sizeof *l->state);
    l->state = NULL;
}

/* ---- one part of a record ---- */

/* The number is part of the checksum, so that lost and repeated records are detected too. */
static void sum(uint64_t number, const uint8_t *p, size_t n, uint8_t ret[SUM])
{
    uint8_t count[8];
    uint32_t crc;

    for (size_t i = 0; i < sizeof count; i++)
        count[i] = (uint8_t)(number >> (8 * i));
    crc = tt_seal_crc32c(tt_seal_crc32c(0, count, sizeof count), p, n);
    for (size_t i = 0; i < SUM; i++)
        ret[i] = (uint8_t)(crc >> (8 * i));
}

static void line_put(struct tt_seal *s, const uint8_t *in, size_t n, uint8_t *out)
{
    if (s->cipher != TT_CIPHER_NONE) {
        tt_seal_put(s, in, n, out);
        return;
    }
    memcpy(out, in, n);
    sum(s->number++, in, n, out + n);
}

/* Checks or opens one part, in place. False: altered. */
static bool line_take(struct tt_seal *s, uint8_t *p, size_t n)
{
    uint8_t want[SUM];

    if (s->cipher != TT_CIPHER_NONE)
        return tt_seal_take(s, p, n, p);
    sum(s->number++, p, n, want);
    return memcmp(want, p + n, SUM) == 0;
}

/* ---- out ---- */

/* Builds the next record in s->out from at most RECORD_MAX of the caller's bytes. */
static void put_next(struct tt_line_parts *s, const uint8_t *buf, size_t n)
{
    uint8_t length[LENGTH];

    assert(n > 0 && !s->out_len);
    n = n < RECORD_MAX ? n : RECORD_MAX;
    for (size_t i = 0; i < LENGTH; i++)
        length[i] = (uint8_t)(n >> (8 * i));
    line_put(&s->tx, length, LENGTH, s->out);
    line_put(&s->tx, buf, n, s->out + LENGTH + s->tag);
    s->out_bytes = n;
    s->out_len = LENGTH + n + 2 * s->tag;
    assert(s->out_len <= sizeof s->out);
    s->out_sent = 0;
}

/* Bytes count as sent when their whole record is. After AGAIN the record is kept, so the caller
 * must come with the same bytes. */
enum tt_net tt_boot_line_write(const struct tt_boot_line *l, const void *buf, size_t want,
                               size_t *sent)
{
    struct tt_line_parts *s = l->state;

    while (*sent < want) {
        if (!s->out_len)
            put_next(s, (const uint8_t *)buf + *sent, want - *sent);
        enum tt_net went = tt_boot_net_drain(l->fd, s->out, s->out_len, &s->out_sent);
        if (went != TT_NET_OK)
            return went;
        s->out_len = 0;
        /* The caller may come with fewer bytes than the record holds. */
        *sent += s->out_bytes < want - *sent ? s->out_bytes : want - *sent;
    }
    return TT_NET_OK;
}

/* ---- in ---- */

static enum tt_net altered(void)
{
    errno = EBADMSG;
    return TT_NET_END;
}

/* Reads the length part of a record, or its body if the length is known. */
static enum tt_net take_next(const struct tt_boot_line *l)
{
    struct tt_line_parts *s = l->state;
    size_t n = s->body ? s->body : LENGTH;
    assert(n + s->tag <= sizeof s->in && s->in_at == s->in_len);
    enum tt_net went = tt_boot_net_fill(l->fd, s->in, n + s->tag, &s->in_got);

    if (went != TT_NET_OK)
        return went;
    s->in_got = 0;
    if (!line_take(&s->rx, s->in, n))
        return altered();
    s->in_at = 0;
    s->in_len = s->body;
    if (s->body) {
        s->body = 0;
        return TT_NET_OK;
    }
    for (size_t i = 0; i < LENGTH; i++)
        s->body |= (size_t)s->in[i] << (8 * i);
    return s->body && s->body <= RECORD_MAX ? TT_NET_OK : altered();
}

enum tt_net tt_boot_line_read(const struct tt_boot_line *l, void *buf, size_t want, size_t *got)
{
    struct tt_line_parts *s = l->state;
    enum tt_net went = TT_NET_OK;

    /* Invariant: [in_at, in_len) are bytes of the current record that no read has taken yet. */
    while (*got < want && went == TT_NET_OK) {
        size_t have = s->in_len - s->in_at, n = have < want - *got ? have : want - *got;
        assert(s->in_at <= s->in_len && s->in_len <= RECORD_MAX);
        memcpy((uint8_t *)buf + *got, s->in + s->in_at, n);
        s->in_at += n;
        *got += n;
        if (*got < want)
            went = take_next(l);
    }
    return went;
}

int tt_boot_line_send(const struct tt_boot_line *l, const uint8_t *buf, size_t n, uint64_t until_ns)
{
    size_t sent = 0;
    enum tt_net went;

    while ((went = tt_boot_line_write(l, buf, n, &sent)) == TT_NET_AGAIN) {
        struct pollfd p = {.fd = l->fd, .events = POLLOUT};
        if (tt_now_ns() >= until_ns)
            return ETIMEDOUT;
        tt_boot_net_poll(&p, 1, until_ns);
    }
    return went == TT_NET_OK ? 0 : errno;
}
