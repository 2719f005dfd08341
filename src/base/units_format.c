/* units_format.c - sizes, rates and times for people: "64 MiB", "10 Gbit/s", "1.25 us".
 *
 * At most four significant digits, trailing zeros dropped, whole parts never cut, so what is a
 * whole number of its unit is shown exactly. tt_parse_* reads the forms back, except sizes that
 * were rounded ("1.001 KiB" is no whole number of bytes). Integer arithmetic only, so the text
 * depends on neither machine nor locale. */
#include "base/base.h"

typedef unsigned __int128 wide;

/* One step of a ladder of units, smallest first; `size` counts the ladder's common base unit. */
struct rung {
    const char *name;
    uint64_t size;
};

/* digits * 10^-places */
struct rounded {
    wide digits;
    unsigned places;
};

static wide units_format_power10(unsigned n)
{
    wide p = 1;

    while (n--)
        p *= 10;
    return p;
}

/* v / size to four significant digits, rounded half up. */
static struct rounded divide(wide v, uint64_t size)
{
    wide whole = v / size;
    unsigned places = whole >= 1000 ? 0 : whole >= 100 ? 1 : whole >= 10 ? 2 : 3;

    return (struct rounded){(v * units_format_power10(places) + size / 2) / size, places};
}

/* The largest unit that is not larger than v, then the number in it. */
static char *format(wide v, const struct rung *ladder, size_t rungs, char *buf, size_t cap)
{
    size_t i = 0;

    while (i + 1 < rungs && v >= ladder[i + 1].size)
        i++;
    struct rounded r = divide(v, ladder[i].size);
    /* rounding may reach the next rung: 1 MiB, not 1024 KiB */
    if (i + 1 < rungs &&
        r.digits * ladder[i].size >= ladder[i + 1].size * units_format_power10(r.places))
        r = divide(v, ladder[++i].size);
    for (; r.places && r.digits % 10 == 0; r.places--)
        r.digits /= 10;
    unsigned long long whole = (unsigned long long)(r.digits / units_format_power10(r.places));
    unsigned long long part = (unsigned long long)(r.digits % units_format_power10(r.places));
    if (r.places)
        snprintf(buf, cap, "%llu.%0*llu %s", whole, (int)r.places, part, ladder[i].name);
    else
        snprintf(buf, cap, "%llu %s", whole, ladder[i].name);
    return buf;
}

char *tt_format_size(uint64_t bytes, char *buf, size_t cap)
{
    static const struct rung ladder[] = {
        {"B", 1},
        {"KiB", UINT64_C(1) << 10},
        {"MiB", UINT64_C(1) << 20},
        {"GiB", UINT64_C(1) << 30},
        {"TiB", UINT64_C(1) << 40},
        {"PiB", UINT64_C(1) << 50},
        {"EiB", UINT64_C(1) << 60},
    };

    return format(bytes, ladder, countof(ladder), buf, cap);
}

/* Counts in thousandths of a bit per second. No network is beyond 10^30 bit/s: larger values,
 * and values that are not numbers, are printed by printf. */
char *tt_format_rate(double bytes_per_s, char *buf, size_t cap)
{
    static const struct rung ladder[] = {
        {"bit/s", 1000},
        {"Kbit/s", UINT64_C(1000000)},
        {"Mbit/s", UINT64_C(1000000000)},
        {"Gbit/s", UINT64_C(1000000000000)},
        {"Tbit/s", UINT64_C(1000000000000000)},
        {"Pbit/s", UINT64_C(1000000000000000000)},
    };
    double bits = bytes_per_s * 8;

    if (!(bits >= 0 && bits < 1e30)) {
        snprintf(buf, cap, "%.3g bit/s", bits);
        return buf;
    }
    return format((wide)(bits * 1000 + 0.5), ladder, countof(ladder), buf, cap);
}

char *tt_format_time(uint64_t ps, char *buf, size_t cap)
{
    static const struct rung ladder[] = {
        {"ps", 1}, {"ns", 1000}, {"us", 1000000}, {"ms", 1000000000}, {"s", 1000000000000},
    };

    return ps ? format(ps, ladder, countof(ladder), buf, cap) : format(0, ladder + 4, 1, buf, cap);
}
