/* squeeze.c - one pass over the bytes (squeeze.h): a table holds the last place of every hash of
 * four bytes; where the four bytes there are the same, the match is taken as long as it goes.
 *
 * Invariant: bytes before `done` are written, those from `done` to `at` are written as they are
 * when the next match begins. */
#include "export/squeeze.h"

#include <stdlib.h>
#include <string.h>

enum { MATCH = 4, BITS = 15 };

static bool put_number(struct tt_vec *out, uint64_t v)
{
    unsigned char b[10];
    size_t n = 0;
    for (; v >= 128; v >>= 7)
        b[n++] = (unsigned char)(v & 127) | 128;
    b[n++] = (unsigned char)v;
    return tt_vec_push(out, b, n);
}

static bool put_plain(struct tt_vec *out, const unsigned char *bytes, size_t n)
{
    return put_number(out, n) && (!n || tt_vec_push(out, bytes, n));
}

/* The last place of these four bytes, plus 1; 0: none. The place is replaced by `at`. */
static size_t look_up(size_t *table, const unsigned char *bytes, size_t at)
{
    uint32_t v;
    memcpy(&v, bytes + at, sizeof v);
    size_t *place = &table[v * UINT32_C(2654435761) >> (32 - BITS)], found = *place;
    *place = at + 1;
    return found && !memcmp(bytes + found - 1, bytes + at, MATCH) ? found : 0;
}

bool tt_export_squeeze(const unsigned char *bytes, size_t n, struct tt_vec *out)
{
    size_t *table = tt_zalloc((size_t)1 << BITS, sizeof *table), done = 0, at = 0;
    bool ok = table != NULL;
    while (ok && at + MATCH <= n) {
        const size_t found = look_up(table, bytes, at);
        if (!found) {
            at++;
            continue;
        }
        const size_t from = found - 1;
        size_t len = MATCH;
        while (at + len < n && bytes[from + len] == bytes[at + len])
            len++;
        ok = put_plain(out, bytes + done, at - done) && put_number(out, len - MATCH) &&
             put_number(out, at - from);
        for (size_t k = at + 1; k < at + len && k + MATCH <= n; k += 3)
            look_up(table, bytes, k);
        at += len;
        done = at;
    }
    ok = ok && (done == n || put_plain(out, bytes + done, n - done));
    free(table);
    return ok;
}
