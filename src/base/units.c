/* units.c - numbers as people write them, exactly.
 *
 * Grammar (the whole text must match; no sign, no exponent, no locale; one space may stand before
 * the unit):
 *
 *     number = digits [ "." digits ]            at most 24 digits that matter
 *     size   = number [ K | M | G | T | P | E ] [ "B" | "iB" ]    K = 1024 bytes; a whole number
 *     rate   = number ( bits | bytes )          10-based: K = 1000, ...; more than zero
 *     bits   = K | M | G | T | P                "10G": bits, as usual for networks
 *            | [ K | M | G | T | P ] ( "bps" | "b/s" | "b" | "bit" | "bits" | "bit/s" | "bits/s" )
 *     bytes  = [ K | M | G | T | P ] ( "B/s" | "Bps" )
 *     time   = number ( "ps" | "ns" | "us" | "µs" | "ms" | "s" ) | zero    whole picoseconds
 *
 * Prefix letters and "bit" may be in either case; b and B may not, because they differ by 8. "10GB"
 * as a rate is refused for that reason: bytes must say "/s" or "ps".
 *
 * All arithmetic is on integers: a number is digits * 10^-places with at most 24 digits (below
 * 2^80), units are below 2^61, so products are checked in 128 bits and 0.1 is one tenth. Rates
 * become the double nearest to the exact value. */
#include "base/base.h"

#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 wide;

enum { DIGITS_MAX = 24, QUOTE = 60 };

struct decimal {
    wide digits;
    unsigned places;
    const char *unit; /* what follows the number and its space */
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static char lower(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

static tutti_status units_refuse(struct tutti_error *err, const char *text, const char *reason)
{
    return tt_fail(err, TUTTI_ERR_PARSE, "\"%.*s\": %s", QUOTE, text, reason);
}

static tutti_status out_of_range(struct tutti_error *err, const char *text, const char *reason)
{
    return tt_fail(err, TUTTI_ERR_RANGE, "\"%.*s\": %s", QUOTE, text, reason);
}

static const char *skip_digits(const char *p)
{
    while (is_digit(*p))
        p++;
    return p;
}

/* Reads the number; `expected` completes the sentence "expected ...". Zeros that do not matter are
 * not counted as digits. */
static tutti_status parse_decimal(const char *text, const char *expected, struct decimal *ret,
                                  struct tutti_error *err)
{
    const char *whole_end = skip_digits(text), *p = text, *end = whole_end;

    if (*text == '-')
        return out_of_range(err, text, "must not be negative");
    if (whole_end == text)
        return tt_fail(err, TUTTI_ERR_PARSE, "\"%.*s\": expected %s", QUOTE, text, expected);
    if (*end == '.') {
        end = skip_digits(whole_end + 1);
        if (end == whole_end + 1)
            return units_refuse(err, text, "no digits after the decimal point");
    }
    ret->unit = *end == ' ' && end[1] ? end + 1 : end;
    while (end > whole_end + 1 && end[-1] == '0')
        end--;
    while (*p == '0')
        p++;
    ret->digits = 0;
    ret->places = end > whole_end + 1 ? (unsigned)(end - whole_end - 1) : 0;
    if ((whole_end > p ? whole_end - p : 0) + (ptrdiff_t)ret->places > DIGITS_MAX)
        return out_of_range(err, text, "too many digits");
    for (; p < end; p++)
        if (*p != '.')
            ret->digits = ret->digits * 10 + (unsigned)(*p - '0');
    return TUTTI_OK;
}

static wide units_power10(unsigned n)
{
    wide p = 1;

    while (n--)
        p *= 10;
    return p;
}

/* number * unit, which must be whole and fit 64 bits. */
static tutti_status units_scale(const char *text, const struct decimal *d, uint64_t unit,
                                const char *what, uint64_t *ret, struct tutti_error *err)
{
    wide product, divisor = units_power10(d->places);

    if (__builtin_mul_overflow(d->digits, (wide)unit, &product) || product / divisor > UINT64_MAX)
        return out_of_range(err, text, "too large");
    if (product % divisor)
        return tt_fail(err, TUTTI_ERR_RANGE, "\"%.*s\": not a whole number of %s", QUOTE, text,
                       what);
    *ret = (uint64_t)(product / divisor);
    return TUTTI_OK;
}

/* Index + 1 of the prefix letter c in "kmgtpe"; 0 when it is none. */
static unsigned prefix_index(char c)
{
    static const char letters[] = "kmgtpe";
    const char *at = c ? strchr(letters, lower(c)) : NULL;

    return at ? (unsigned)(at - letters) + 1 : 0;
}

tutti_status tt_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret,
                          struct tutti_error *err)
{
    uint64_t v = 0;
    bool over = false;

    if (*text == '-' && is_digit(text[1]))
        return out_of_range(err, text, "must not be negative");
    if (!is_digit(*text) || *skip_digits(text))
        return units_refuse(err, text, "expected a whole number");
    for (const char *p = text; *p && !over; p++)
        over = __builtin_mul_overflow(v, 10, &v) ||
               __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v);
    if (over || v < min || v > max)
        return tt_fail(err, TUTTI_ERR_RANGE, "\"%.*s\": must be from %llu to %llu", QUOTE, text,
                       (unsigned long long)min, (unsigned long long)max);
    *ret = v;
    return TUTTI_OK;
}

tutti_status tt_parse_size(const char *text, uint64_t *ret_bytes, struct tutti_error *err)
{
    static const char expected[] = "a size such as 4096, 64K, 1.5M or 2GiB (1024-based)";
    struct decimal d;
    tutti_status status = parse_decimal(text, expected, &d, err);

    if (status)
        return status;
    unsigned prefix = prefix_index(*d.unit);
    const char *rest = d.unit + (prefix > 0);
    bool known = tt_streq(rest, "B") || (prefix && tt_streq(rest, "iB")) ||
                 (*rest == 0 && (prefix || d.unit[-1] != ' '));
    if (!known)
        return tt_fail(err, TUTTI_ERR_PARSE, "\"%.*s\": unknown unit \"%.*s\", expected %s", QUOTE,
                       text, QUOTE, d.unit, expected);
    return units_scale(text, &d, UINT64_C(1) << (10 * prefix), "bytes", ret_bytes, err);
}

/* What follows the prefix: 8 for bits, 1 for bytes, 0 for neither. */
static unsigned rate_unit(const char *unit)
{
    static const char *const bits[] = {"bps", "b/s", "b"};
    static const char *const bit_words[] = {"bit", "bits", "bit/s", "bits/s"};

    if (tt_streq(unit, "B/s") || tt_streq(unit, "Bps"))
        return 1;
    for (size_t i = 0; i < countof(bits); i++)
        if (tt_streq(unit, bits[i]))
            return 8;
    for (size_t i = 0; i < countof(bit_words); i++) {
        size_t k = 0;
        while (bit_words[i][k] && lower(unit[k]) == bit_words[i][k])
            k++;
        if (bit_words[i][k] == 0 && unit[k] == 0)
            return 8;
    }
    return 0;
}

/* digits * 10^(3 prefix - places): strtod of text without a point rounds correctly in every
 * locale. */
static double nearest(const struct decimal *d, unsigned prefix)
{
    char text[64];
    const uint64_t half = UINT64_C(1000000000000); /* 24 digits in two printable parts */

    snprintf(text, sizeof text, "%llu%012llue%d", (unsigned long long)(d->digits / half),
             (unsigned long long)(d->digits % half), 3 * (int)prefix - (int)d->places);
    return strtod(text, NULL);
}

tutti_status tt_parse_rate(const char *text, double *ret_bytes_per_s, struct tutti_error *err)
{
    static const char expected[] = "a rate such as 10Gbps, 100Mbit/s (bits) or 16GB/s (bytes)";
    struct decimal d;
    tutti_status status = parse_decimal(text, expected, &d, err);

    if (status)
        return status;
    if (*d.unit == 0)
        return units_refuse(
            err, text, "a rate needs a unit: write 10Gbps for bits or 16GB/s for bytes per second");
    unsigned prefix = prefix_index(*d.unit);
    const char *rest = d.unit + (prefix > 0);
    unsigned divisor = prefix && *rest == 0 ? 8 : rate_unit(rest);
    if (prefix && tt_streq(rest, "B"))
        return units_refuse(err, text,
                            "bits or bytes? Write Gbps for bits or GB/s for bytes per second");
    if (divisor == 0 || prefix > 5)
        return tt_fail(err, TUTTI_ERR_PARSE, "\"%.*s\": unknown unit \"%.*s\", expected %s", QUOTE,
                       text, QUOTE, d.unit, expected);
    if (d.digits == 0)
        return out_of_range(err, text, "a rate must be more than zero");
    *ret_bytes_per_s = nearest(&d, prefix) / divisor;
    return TUTTI_OK;
}

tutti_status tt_parse_time(const char *text, uint64_t *ret_ps, struct tutti_error *err)
{
    static const struct {
        const char *name;
        uint64_t ps;
    } units[] = {
        {"ps", 1},
        {"ns", 1000},
        {"us", 1000000},
        {"\xc2\xb5s", 1000000}, /* U+00B5, micro sign */
        {"\xce\xbcs", 1000000}, /* U+03BC, small mu */
        {"ms", 1000000000},
        {"s", 1000000000000},
    };
    static const char expected[] = "a time such as 150ns, 20us, 1.5ms or 30s";
    struct decimal d;
    tutti_status status = parse_decimal(text, expected, &d, err);

    if (status)
        return status;
    for (size_t i = 0; i < countof(units); i++)
        if (tt_streq(d.unit, units[i].name))
            return units_scale(text, &d, units[i].ps, "picoseconds", ret_ps, err);
    if (*d.unit)
        return tt_fail(err, TUTTI_ERR_PARSE, "\"%.*s\": unknown unit \"%.*s\", expected %s", QUOTE,
                       text, QUOTE, d.unit, expected);
    if (d.digits)
        return units_refuse(err, text, "a time needs a unit: ps, ns, us, ms or s");
    *ret_ps = 0;
    return TUTTI_OK;
}
