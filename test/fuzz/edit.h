/* edit.h - for fuzzers of sealed streams: an input is a list of edits of bytes that were really
 * sent. Random bytes never get past the first tag, so that only streams that are right for a while
 * reach the code behind it.
 *
 * An edit has four bytes: what, where (u16, scaled to the stream), how much. */
#ifndef TT_FUZZ_EDIT_H
#define TT_FUZZ_EDIT_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { EDIT_BYTES = 4 };

/* Applies one edit to buf[*n], cap bytes long. */
static inline void edit_once(const uint8_t *e, uint8_t *buf, size_t *n, size_t cap)
{
    size_t at = *n ? (size_t)(e[1] | e[2] << 8) * *n >> 16 : 0, much = (size_t)(e[3] & 63) + 1;
    uint8_t moved[64];
    much = much < *n - at ? much : *n - at;
    switch (e[0] % 6) {
    case 0: /* flip bits */
        if (*n)
            buf[at] ^= (uint8_t)(e[3] | 1);
        break;
    case 1: /* leave out */
        memmove(buf + at, buf + at + much, *n - at - much);
        *n -= much;
        break;
    case 2: /* repeat */
        if (*n + much <= cap) {
            memmove(buf + at + much, buf + at, *n - at);
            *n += much;
        }
        break;
    case 3: /* move to the front */
        memcpy(moved, buf + at, much);
        memmove(buf + much, buf, at);
        memcpy(buf, moved, much);
        break;
    case 4: /* the rest never comes */
        *n = at;
        break;
    default: /* zeros */
        memset(buf + at, 0, much);
    }
}

/* The genuine bytes with all edits of the input; returns how many. *ret_same: so many of the first
 * ones are untouched. */
static inline size_t edit(const uint8_t *data, size_t size, const uint8_t *genuine, size_t n, uint8_t *out, size_t cap, size_t *ret_same)
{
    size_t same = 0, m = n;
    memcpy(out, genuine, n);
    for (; size >= EDIT_BYTES; data += EDIT_BYTES, size -= EDIT_BYTES)
        edit_once(data, out, &m, cap);
    while (same + 256 <= m && same + 256 <= n && !memcmp(out + same, genuine + same, 256))
        same += 256;
    while (same < m && same < n && out[same] == genuine[same])
        same++;
    *ret_same = same;
    return m;
}
#endif
