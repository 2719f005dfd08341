/* wire.c - the bytes that ranks exchange while they meet: greetings, frames, joins, the table,
 * refusals.
 *
 * These are pure functions between structs and little-endian bytes, so that a fuzzer can reach them
 * and machines of different kinds can meet. Lengths are read only after both ends have proved
 * themselves (frames), and every parser checks them against what has really arrived. Texts must be
 * terminated and free of control characters, because they end up in error messages.
 *
 *     peer     0 host[64] | 64 host_id u64 | 72 pid u32 | 76 address, network order
 *              80 port u16 | 82 zeros[2] | 84 source addresses, network order
 *     join     peer | version[32] | size u32 | settings length u32 | net_id u64 | settings
 *     table    one peer per rank
 *     ticket   job u64 | rank u32 | change u32 | table
 *     refusal  status u32 | text
 *
 * boot_int.h draws greetings and frames. */
#include "boot/boot_int.h"

#include <assert.h>
#include <string.h>

/* 8 bytes with the terminator; the line end reveals protocols that convert text */
#define GREETING_MAGIC "tutti\r\n"
#define FRAME_MAGIC    UINT32_C(0x7463746c)

static void wire_put(uint8_t *p, uint64_t v, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++)
        p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t wire_get(const uint8_t *p, unsigned bytes)
{
    uint64_t v = 0;

    for (unsigned i = 0; i < bytes; i++)
        v |= (uint64_t)p[i] << (8 * i);
    return v;
}

/* Copies a text of at most n - 1 characters with its padding of zeros; false if the bytes are not
 * such a text. */
static bool get_text(const uint8_t *in, size_t n, char *ret)
{
    size_t len = strnlen((const char *)in, n);

    if (len == n)
        return false;
    for (size_t i = 0; i < n; i++)
        if (i < len ? in[i] < 0x20 || in[i] == 0x7f : in[i] != 0)
            return false;
    memcpy(ret, in, n);
    return true;
}

static void put_text(uint8_t *out, size_t n, const char *text)
{
    size_t len = strnlen(text, n - 1);

    memset(out, 0, n);
    memcpy(out, text, len);
}

void tt_boot_greeting_write(const struct tt_greeting *g, uint8_t out[TT_GREETING])
{
    memcpy(out, GREETING_MAGIC, 8);
    wire_put(out + 8, g->version, 2);
    out[10] = (uint8_t)(g->keyed | g->encrypt << 1 | g->aes << 2);
    out[11] = (uint8_t)g->kind;
    wire_put(out + 12, g->role, 8);
    wire_put(out + 20, g->from, 4);
    wire_put(out + 24, g->to, 4);
    wire_put(out + 28, g->job, 8);
    memcpy(out + 36, g->challenge, TT_CHALLENGE);
    memcpy(out + 68, g->share, TT_SHARE);
}

bool tt_boot_greeting_parse(const uint8_t in[TT_GREETING], struct tt_greeting *ret)
{
    struct tt_greeting g = {.version = (uint16_t)wire_get(in + 8, 2)};

    if (memcmp(in, GREETING_MAGIC, 8) != 0)
        return false;
    /* Of other versions only the place of magic and version is known. */
    if (g.version == TT_BOOT_PROTOCOL) {
        if (in[10] > 7 || in[11] < TT_CONN_MEET || in[11] > TT_CONN_JOIN)
            return false;
        g.keyed = in[10] & 1;
        g.encrypt = in[10] & 2;
        g.aes = in[10] & 4;
        g.kind = in[11];
        g.role = wire_get(in + 12, 8);
        g.from = (uint32_t)wire_get(in + 20, 4);
        g.to = (uint32_t)wire_get(in + 24, 4);
        g.job = wire_get(in + 28, 8);
        memcpy(g.challenge, in + 36, TT_CHALLENGE);
        memcpy(g.share, in + 68, TT_SHARE);
    }
    *ret = g;
    return true;
}

void tt_boot_frame_write(const struct tt_frame *f, uint8_t out[TT_FRAME])
{
    wire_put(out, FRAME_MAGIC, 4);
    wire_put(out + 4, f->kind, 4);
    wire_put(out + 8, f->seq, 4);
    wire_put(out + 12, f->remaining_ms, 4);
    wire_put(out + 16, f->length, 8);
}

bool tt_boot_frame_parse(const uint8_t in[TT_FRAME], struct tt_frame *ret)
{
    uint32_t kind = (uint32_t)wire_get(in + 4, 4);

    if (wire_get(in, 4) != FRAME_MAGIC || kind < TT_FRAME_JOIN || kind >= TT_FRAME_KINDS)
        return false;
    *ret = (struct tt_frame){.kind = kind,
                             .seq = (uint32_t)wire_get(in + 8, 4),
                             .remaining_ms = (uint32_t)wire_get(in + 12, 4),
                             .length = wire_get(in + 16, 8)};
    return true;
}

/* Addresses are copied as they are: they are in network order already. */
void tt_boot_peer_write(const struct tt_boot_peer *p, uint8_t out[TT_PEER_BYTES])
{
    memset(out, 0, TT_PEER_BYTES);
    put_text(out, TT_BOOT_HOST, p->host);
    wire_put(out + 64, p->host_id, 8);
    wire_put(out + 72, p->pid, 4);
    memcpy(out + 76, &p->addr_be, 4);
    wire_put(out + 80, p->port, 2);
    memcpy(out + 84, p->sources_be, sizeof p->sources_be);
}

bool tt_boot_peer_parse(const uint8_t in[TT_PEER_BYTES], struct tt_boot_peer *ret)
{
    struct tt_boot_peer p = {.host_id = wire_get(in + 64, 8),
                             .pid = (uint32_t)wire_get(in + 72, 4),
                             .port = (uint16_t)wire_get(in + 80, 2)};

    memcpy(&p.addr_be, in + 76, 4);
    memcpy(p.sources_be, in + 84, sizeof p.sources_be);
    if (!get_text(in, TT_BOOT_HOST, p.host) || p.addr_be == 0 || p.port == 0 ||
        wire_get(in + 82, 2) != 0)
        return false;
    *ret = p;
    return true;
}

bool tt_boot_table_parse(const uint8_t *in, size_t n, uint32_t size, struct tt_boot_peer *ret)
{
    if (n / TT_PEER_BYTES != size || n % TT_PEER_BYTES != 0)
        return false;
    for (uint32_t r = 0; r < size; r++)
        if (!tt_boot_peer_parse(in + (size_t)r * TT_PEER_BYTES, &ret[r]))
            return false;
    return true;
}

size_t tt_boot_join_write(const struct tt_boot_join *j, uint8_t out[TT_JOIN_MAX])
{
    uint8_t *rest = out + TT_PEER_BYTES + TT_VERSION_TEXT;

    assert(j->settings_len <= TT_BOOT_SETTINGS);
    tt_boot_peer_write(&j->peer, out);
    put_text(out + TT_PEER_BYTES, TT_VERSION_TEXT, j->version);
    wire_put(rest, j->size, 4);
    wire_put(rest + 4, j->settings_len, 4);
    wire_put(rest + 8, j->net_id, 8);
    if (j->settings_len)
        memcpy(out + TT_JOIN_FIXED, j->settings, j->settings_len);
    return TT_JOIN_FIXED + j->settings_len;
}

/* The settings are not copied: they point into `in`, which must outlive *ret. */
bool tt_boot_join_parse(const uint8_t *in, size_t n, struct tt_boot_join *ret)
{
    const uint8_t *rest = in + TT_PEER_BYTES + TT_VERSION_TEXT;
    struct tt_boot_join j = {.settings = (const char *)in + TT_JOIN_FIXED};

    if (n < TT_JOIN_FIXED || n > TT_JOIN_MAX)
        return false;
    j.size = (uint32_t)wire_get(rest, 4);
    j.settings_len = (size_t)wire_get(rest + 4, 4);
    j.net_id = wire_get(rest + 8, 8);
    if (j.settings_len != n - TT_JOIN_FIXED || memchr(j.settings, 0, j.settings_len))
        return false;
    if (!tt_boot_peer_parse(in, &j.peer) ||
        !get_text(in + TT_PEER_BYTES, TT_VERSION_TEXT, j.version))
        return false;
    *ret = j;
    return true;
}

void tt_boot_ticket_write(const struct tt_ticket *t, uint8_t out[TT_TICKET_FIXED])
{
    wire_put(out, t->job, 8);
    wire_put(out + 8, t->rank, 4);
    wire_put(out + 12, t->change, 4);
}

bool tt_boot_ticket_parse(const uint8_t *in, size_t n, struct tt_ticket *ret, uint32_t *ret_size)
{
    struct tt_ticket t;
    size_t size = n < TT_TICKET_FIXED ? 0 : (n - TT_TICKET_FIXED) / TT_PEER_BYTES;

    if (size < 2 || n > TT_TICKET_MAX || n != TT_TICKET_FIXED + size * TT_PEER_BYTES)
        return false;
    t = (struct tt_ticket){.job = wire_get(in, 8),
                           .rank = (uint32_t)wire_get(in + 8, 4),
                           .change = (uint32_t)wire_get(in + 12, 4)};
    if (!t.job || t.rank >= size)
        return false;
    *ret = t;
    *ret_size = (uint32_t)size;
    return true;
}

size_t tt_boot_refusal_write(const struct tutti_error *e, uint8_t out[TT_REFUSAL_MAX])
{
    size_t len = strnlen(e->text, sizeof e->text - 1);

    assert(e->status < 0 && 4 + len <= TT_REFUSAL_MAX);
    wire_put(out, (uint32_t)e->status, 4);
    memcpy(out + 4, e->text, len);
    return 4 + len;
}

/* A refusal without a valid status or text still becomes an error. */
void tt_boot_refusal_parse(const uint8_t *in, size_t n, struct tutti_error *ret)
{
    int32_t status = n >= 4 ? (int32_t)(uint32_t)wire_get(in, 4) : 0;
    size_t len = n > 4 ? strnlen((const char *)in + 4, n - 4) : 0;

    if (len > sizeof ret->text - 1)
        len = sizeof ret->text - 1;
    if (status >= 0 || len == 0)
        tt_fail(ret, TUTTI_ERR_CONNECT, "rank 0 refused us without a reason");
    else
        tt_fail(ret, status, "%.*s", (int)len, (const char *)in + 4);
}
