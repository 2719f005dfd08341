/* json_lex.c - numbers and strings of JSON.
 *
 * Both are read byte by byte across window boundaries. A number is kept as its digits, as an
 * exact magnitude while that fits 64 bits, and as a power of ten: integers never pass through a
 * double, and the text given to strtod has no decimal point, so that the locale does not matter.
 * Strings are decoded into the reader's single text buffer; it has room for a whole character
 * beyond the limit, so that the length is checked once per character. */
#include "base/json_reader.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 64, EXPONENT_MAX = 100000 };

/* ---- numbers ---- */

/* A number as read: the significant digits as text (for strtod) and, while it fits, as
 * magnitude. */
struct number {
    char digits[NUMBER_MAX + 16];
    size_t ndigits, nchars;
    bool negative, is_real, wide; /* wide: magnitude overflowed */
    uint64_t magnitude;
    int places, exponent;
};

static void json_lex_take(struct tt_json_reader *r, struct number *n)
{
    r->at++;
    n->nchars++;
}

/* Reads one or more digits; those of a fraction count as places. */
static tutti_status read_digits(struct tt_json_reader *r, struct number *n, bool fraction)
{
    int c = tt_json_peek(r);

    if (c < '0' || c > '9')
        return tt_json_unexpected(r, "a digit");
    for (; c >= '0' && c <= '9'; c = tt_json_peek(r)) {
        if (n->nchars >= NUMBER_MAX)
            return tt_json_fail_here(r, TUTTI_ERR_LIMIT, "number longer than %d characters",
                                     NUMBER_MAX);
        n->digits[n->ndigits++] = (char)c;
        uint64_t digit = (uint64_t)(c - '0');
        n->wide = n->wide || __builtin_mul_overflow(n->magnitude, 10, &n->magnitude) ||
                  __builtin_add_overflow(n->magnitude, digit, &n->magnitude);
        n->places += fraction;
        json_lex_take(r, n);
    }
    return TUTTI_OK;
}

/* The exponent is limited: beyond EXPONENT_MAX the result is 0 or too large in any case. */
static tutti_status read_exponent(struct tt_json_reader *r, struct number *n)
{
    struct number e = {.nchars = n->nchars};

    json_lex_take(r, &e); /* the letter */
    int c = tt_json_peek(r);
    bool down = c == '-';
    if (c == '+' || c == '-')
        json_lex_take(r, &e);
    tutti_status status = read_digits(r, &e, false);
    if (status)
        return status;
    int size = e.wide || e.magnitude > EXPONENT_MAX ? EXPONENT_MAX : (int)e.magnitude;
    n->exponent = down ? -size : size;
    n->is_real = true;
    return TUTTI_OK;
}

static tutti_status read_number(struct tt_json_reader *r, struct number *n)
{
    tutti_status status;

    n->negative = tt_json_peek(r) == '-';
    if (n->negative)
        json_lex_take(r, n);
    bool leading_zero = tt_json_peek(r) == '0';
    if ((status = read_digits(r, n, false)))
        return status;
    if (leading_zero && n->ndigits > 1)
        return tt_json_fail_here(r, TUTTI_ERR_PARSE, "a number must not begin with a zero");
    if (tt_json_peek(r) == '.') {
        n->is_real = true;
        json_lex_take(r, n);
        if ((status = read_digits(r, n, true)))
            return status;
    }
    int c = tt_json_peek(r);
    return c == 'e' || c == 'E' ? read_exponent(r, n) : TUTTI_OK;
}

tutti_status tt_json_lex_number(struct tt_json_reader *r, struct tt_json_token *ret)
{
    struct number n;

    /* digits is not cleared: this is the hot path */
    memset(&n.ndigits, 0, sizeof n - offsetof(struct number, ndigits));
    tutti_status status = read_number(r, &n);
    if (status)
        return status;
    if (!n.is_real && !n.wide && n.magnitude <= (uint64_t)INT64_MAX + n.negative) {
        ret->kind = TT_JSON_INT;
        ret->i = (int64_t)(n.negative ? -n.magnitude : n.magnitude);
        ret->d = n.negative ? -(double)n.magnitude : (double)n.magnitude;
        return TUTTI_OK;
    }
    /* Digits and exponent without a point: strtod then rounds correctly in every locale. */
    snprintf(n.digits + n.ndigits, sizeof n.digits - n.ndigits, "e%d", n.exponent - n.places);
    double d = strtod(n.digits, NULL);
    if (!isfinite(d))
        return tt_json_fail_here(r, TUTTI_ERR_RANGE, "number too large");
    ret->kind = TT_JSON_REAL;
    ret->d = n.negative ? -d : d;
    return TUTTI_OK;
}

/* ---- strings ---- */

static tutti_status read_hex4(struct tt_json_reader *r, uint32_t *ret)
{
    uint32_t v = 0;

    for (int i = 0; i < 4; i++, r->at++) {
        int c = tt_json_peek(r);
        int lower = c | 0x20;
        if (c >= '0' && c <= '9')
            v = v * 16 + (uint32_t)(c - '0');
        else if (c != TT_JSON_END_OF_INPUT && lower >= 'a' && lower <= 'f')
            v = v * 16 + (uint32_t)(lower - 'a') + 10;
        else
            return tt_json_unexpected(r, "four hexadecimal digits after \\u");
    }
    *ret = v;
    return TUTTI_OK;
}

/* Writes c as UTF-8; returns the number of bytes. c is at most U+10FFFF. */
static size_t encode_utf8(uint32_t c, char *out)
{
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};

    for (size_t i = n; i-- > 1; c >>= 6)
        out[i] = (char)(0x80 | (c & 0x3f));
    out[0] = (char)(lead[n] | c);
    return n;
}

/* Reads what follows "\u": one code unit, or both of a surrogate pair. */
static tutti_status read_unicode(struct tt_json_reader *r, size_t *len)
{
    uint32_t c = 0, low = 0;
    tutti_status status = read_hex4(r, &c);

    if (status)
        return status;
    if (c == 0)
        return tt_json_fail_here(r, TUTTI_ERR_PARSE, "NUL is not accepted in strings");
    if (c >= 0xd800 && c < 0xdc00) {
        static const char pair[] = "the second \\u of a surrogate pair";
        for (const char *p = "\\u"; *p; p++, r->at++)
            if (tt_json_peek(r) != *p)
                return tt_json_unexpected(r, pair);
        if ((status = read_hex4(r, &low)))
            return status;
        if (low < 0xdc00 || low >= 0xe000)
            return tt_json_fail_here(r, TUTTI_ERR_PARSE, "not the second half of a surrogate pair");
        c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
    } else if (c >= 0xdc00 && c < 0xe000)
        return tt_json_fail_here(r, TUTTI_ERR_PARSE,
                                 "second half of a surrogate pair without the first");
    *len += encode_utf8(c, r->text + *len);
    return TUTTI_OK;
}

static tutti_status read_escape(struct tt_json_reader *r, size_t *len)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    int c;

    r->at++;
    c = tt_json_peek(r);
    const char *at = c > 0 ? strchr(from, c) : NULL;
    if (!at && c != 'u')
        return tt_json_unexpected(r, "one of \"\\/bfnrtu after a backslash");
    r->at++;
    if (!at)
        return read_unicode(r, len);
    r->text[(*len)++] = to[at - from];
    return TUTTI_OK;
}

/* Copies a character of several bytes whole, then checks it. */
static tutti_status read_multibyte(struct tt_json_reader *r, size_t *len)
{
    int lead = tt_json_peek(r), c;
    size_t want = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2, n = 0;
    char bytes[4];

    while (n < want && (c = tt_json_peek(r)) >= 0x80) {
        bytes[n++] = (char)c;
        r->at++;
    }
    if (tt_utf8_len(bytes, n) != n)
        return tt_json_fail_here(r, TUTTI_ERR_PARSE, "not UTF-8");
    memcpy(r->text + *len, bytes, n);
    *len += n;
    return TUTTI_OK;
}

tutti_status tt_json_lex_string(struct tt_json_reader *r, struct tt_json_token *ret)
{
    size_t len = 0;
    tutti_status status = TUTTI_OK;

    r->at++;
    for (int c; (c = tt_json_peek(r)) != '"';) {
        if (c == TT_JSON_END_OF_INPUT)
            return tt_json_unexpected(r, "the end of the string");
        if (c < 0x20)
            return tt_json_fail_here(r, TUTTI_ERR_PARSE, "control character 0x%02x in a string",
                                     (unsigned)c);
        if (c == '\\')
            status = read_escape(r, &len);
        else if (c >= 0x80)
            status = read_multibyte(r, &len);
        else {
            r->text[len++] = (char)c;
            r->at++;
        }
        if (status)
            return status;
        if (len > TT_JSON_TEXT)
            return tt_json_fail_here(r, TUTTI_ERR_LIMIT, "string longer than %d bytes",
                                     TT_JSON_TEXT);
    }
    r->at++;
    r->text[len] = 0;
    ret->text = r->text;
    ret->len = len;
    return TUTTI_OK;
}
