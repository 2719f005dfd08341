/* str.c - growable strings, UTF-8 checking, and "did you mean".
 *
 * A tt_str begins as all zeros (s is NULL until the first addition, then always terminated). When
 * memory runs out it keeps what it had, sets `failed` and ignores later additions. Near matches use
 * the edit distance with transpositions (optimal string alignment), ignoring case: typical mistakes
 * are one letter wrong, missing, doubled or swapped, or half of a longer name. */
#include "base/base.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { NEAR_LEN = 48, NEAR_COUNT = 3, NEAR_PART = 2 };

/* Makes room for `more` bytes and the terminator; sets `failed` when that is not possible. */
static bool str_reserve(struct tt_str *b, size_t more)
{
    size_t need;

    if (b->failed || __builtin_add_overflow(b->len + 1, more, &need)) {
        b->failed = true;
        return false;
    }
    if (need <= b->cap)
        return true;
    size_t cap = need < 64 ? 64 : need + need / 2;
    char *s = tt_resize(b->s, cap, 1);
    if (!s) {
        b->failed = true;
        return false;
    }
    b->s = s;
    b->cap = cap;
    return true;
}

void tt_str_add(struct tt_str *b, const char *s, size_t n)
{
    if (!str_reserve(b, n))
        return;
    if (n)
        memcpy(b->s + b->len, s, n);
    b->len += n;
    b->s[b->len] = 0;
}

void tt_str_printf(struct tt_str *b, const char *fmt, ...)
{
    va_list ap, again;

    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0)
        b->failed = true;
    else if (str_reserve(b, (size_t)n)) {
        vsnprintf(b->s + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
}

void tt_str_free(struct tt_str *b)
{
    free(b->s);
    *b = (struct tt_str){0};
}

bool tt_streq(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

void tt_str_fit(char *to, size_t cap, const char *from)
{
    size_t n = strnlen(from, cap);
    assert(cap >= sizeof "...");
    if (n == cap) {
        n = cap - sizeof "...";
        while (n && (from[n] & 0xc0) == 0x80) /* inside a character of UTF-8 */
            n--;
        memcpy(to + n, "...", sizeof "...");
    } else
        to[n] = 0;
    memcpy(to, from, n);
}

/* RFC 3629: the first byte determines the length and the range of the second byte. The narrowed
 * ranges exclude overlong forms (E0, F0), surrogates (ED) and code points beyond U+10FFFF (F4). */
size_t tt_utf8_len(const char *s, size_t n)
{
    static const struct {
        unsigned char lo, hi, len, second_lo, second_hi;
    } forms[] = {
        {0x00, 0x7f, 1, 0, 0},       {0xc2, 0xdf, 2, 0x80, 0xbf}, {0xe0, 0xe0, 3, 0xa0, 0xbf},
        {0xe1, 0xec, 3, 0x80, 0xbf}, {0xed, 0xed, 3, 0x80, 0x9f}, {0xee, 0xef, 3, 0x80, 0xbf},
        {0xf0, 0xf0, 4, 0x90, 0xbf}, {0xf1, 0xf3, 4, 0x80, 0xbf}, {0xf4, 0xf4, 4, 0x80, 0x8f},
    };
    const unsigned char *b = (const unsigned char *)s;
    size_t f = 0;

    if (n == 0)
        return 0;
    while (f < countof(forms) && (b[0] < forms[f].lo || b[0] > forms[f].hi))
        f++;
    if (f == countof(forms) || n < forms[f].len)
        return 0;
    if (forms[f].len > 1 && (b[1] < forms[f].second_lo || b[1] > forms[f].second_hi))
        return 0;
    for (size_t i = 2; i < forms[f].len; i++)
        if ((b[i] & 0xc0) != 0x80)
            return 0;
    return forms[f].len;
}

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t m = a < b ? a : b;

    return m < c ? m : c;
}

/* The classic table row by row: row i is for the first i letters of a. Transpositions look two
 * rows back, so that three rows are kept. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb)
{
    size_t rows[3][NEAR_LEN + 1];
    size_t *before = rows[0], *prev = rows[1], *row = rows[2];

    assert(na <= NEAR_LEN && nb <= NEAR_LEN);
    for (size_t j = 0; j <= nb; j++)
        row[j] = j;
    for (size_t i = 1; i <= na; i++) {
        size_t *spare = before;
        before = prev;
        prev = row;
        row = spare;
        row[0] = i;
        for (size_t j = 1; j <= nb; j++) {
            row[j] = min3(prev[j] + 1, row[j - 1] + 1, prev[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < row[j])
                row[j] = before[j - 2] + 1;
        }
    }
    return row[nb];
}

/* Lower-cases into buf of NEAR_LEN + 1; 0 when empty or too long to be a name. */
static size_t fold(const char *s, char *buf)
{
    size_t n = strlen(s);

    if (n > NEAR_LEN)
        return 0;
    for (size_t i = 0; i <= n; i++)
        buf[i] = (char)(s[i] >= 'A' && s[i] <= 'Z' ? s[i] - 'A' + 'a' : s[i]);
    return n;
}

/* The distance of two names; SIZE_MAX when they are too different to be a mistake for each
 * other. */
static size_t nearness(const char *name, const char *other)
{
    char a[NEAR_LEN + 1], b[NEAR_LEN + 1];
    size_t na = fold(name, a), nb = fold(other, b);

    if (na == 0 || nb == 0)
        return SIZE_MAX;
    size_t d = edit_distance(a, na, b, nb);
    size_t shorter = na < nb ? na : nb;
    if (d > NEAR_PART && shorter >= 3 && (strstr(a, b) || strstr(b, a)))
        return NEAR_PART;
    return d <= shorter / 3 + 1 && d < shorter ? d : SIZE_MAX;
}

/* Adds one name to the list of *used bytes, which ends with a question mark; false when it does
 * not fit. */
static bool add_match(char *buf, size_t cap, size_t *used, const char *name)
{
    const char *before = *used ? ", " : "did you mean ";
    size_t at = *used ? *used - 1 : 0; /* overwrite the question mark */

    if (strlen(before) + strlen(name) + 2 > cap - at)
        return false;
    *used = at + (size_t)sprintf(buf + at, "%s%s?", before, name);
    return true;
}

char *tt_near_matches(const char *name, const char *const *names, size_t n, char *buf, size_t cap)
{
    size_t found = 0, used = 0;

    assert(cap > 0);
    buf[0] = 0;
    for (size_t d = 0; d <= NEAR_LEN / 3 + 1; d++)
        for (size_t i = 0; i < n && found < NEAR_COUNT; i++)
            if (nearness(name, names[i]) == d && add_match(buf, cap, &used, names[i]))
                found++;
    return buf;
}
