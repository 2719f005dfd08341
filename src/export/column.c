/* column.c - integers as text: differences, repeated zeros, 7 bits a byte, squeezed, base 64
 * (column.h has an example). */
#include <assert.h>

#include "export/column.h"

#include <stdlib.h>

#include "export/squeeze.h"

static void put_byte(struct tt_column *c, unsigned char b)
{
    if (c->len == c->cap) {
        const size_t cap = c->cap ? 2 * c->cap : 256;
        unsigned char *bytes = realloc(c->bytes, cap);
        if (!bytes) {
            c->failed = true;
            return;
        }
        c->bytes = bytes;
        c->cap = cap;
    }
    c->bytes[c->len++] = b;
}

static void put_number(struct tt_column *c, uint64_t v)
{
    for (; v >= 128; v >>= 7)
        put_byte(c, (unsigned char)(v & 127) | 128);
    put_byte(c, (unsigned char)v);
}

static void put_zeros(struct tt_column *c)
{
    if (!c->zeros)
        return;
    put_byte(c, 0);
    put_number(c, c->zeros);
    c->zeros = 0;
}

void tt_export_column_add(struct tt_column *c, int64_t v)
{
    const int64_t d = v - c->last;
    c->last = v;
    if (d == 0) {
        c->zeros++;
        return;
    }
    put_zeros(c);
    put_number(c, d < 0 ? ((uint64_t)-d << 1) - 1 : (uint64_t)d << 1);
}

/* n bytes (1 to 3) as four letters, filled up with '='. */
static void put_letters(const unsigned char *b, size_t n, char out[4])
{
    assert(n >= 1 && n <= 3);
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t v =
        (uint32_t)b[0] << 16 | (n > 1 ? (uint32_t)b[1] << 8 : 0) | (n > 2 ? b[2] : 0);
    out[0] = letters[v >> 18 & 63];
    out[1] = letters[v >> 12 & 63];
    out[2] = n > 1 ? letters[v >> 6 & 63] : '=';
    out[3] = n > 2 ? letters[v & 63] : '=';
}

/* n bytes in base 64; NULL: out of memory. The caller frees it. */
static char *write_letters(const unsigned char *bytes, size_t n)
{
    char *text = tt_alloc(n / 3 * 4 + 5, 1);
    size_t len = 0;
    for (size_t i = 0; text && i < n; i += 3, len += 4)
        put_letters(bytes + i, n - i < 3 ? n - i : 3, text + len);
    if (text)
        text[len] = 0;
    return text;
}

bool tt_export_column_write(struct tt_column *c, struct tt_json_writer *w)
{
    struct tt_vec out = {.elem = 1};
    put_zeros(c);
    const bool squeezed = !c->failed && tt_export_squeeze(c->bytes, c->len, &out);
    char *text = squeezed ? write_letters(out.data, out.len) : NULL;
    tt_json_string(w, text ? text : "");
    const bool ok = text != NULL;
    free(text);
    tt_vec_free(&out);
    tt_export_column_free(c);
    return ok;
}

void tt_export_column_free(struct tt_column *c)
{
    free(c->bytes);
    *c = (struct tt_column){0};
}
