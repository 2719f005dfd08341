/* plot_ticks.c - which numbers stand at the axes of a picture, and how they are written.
 *
 * Ticks are round numbers with units (64 KiB, 1 ms). Where fewer than FEW_TICKS of those fit on a
 * logarithmic axis, every digit of a decade is taken, or the points' own numbers (batches 128, 192,
 * 256). */
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plot_int.h"

enum { TICKS = CLI_PLOT_TICKS, FEW_TICKS = 4 };

char *cli_format_number(double v, char *buf, size_t cap)
{
    if (!isfinite(v)) {
        snprintf(buf, cap, "-");
        return buf;
    }
    /* Four significant digits: the number of decimals follows from the magnitude. */
    int digits = v == 0 ? 0 : 3 - (int)floor(log10(fabs(v)));
    snprintf(buf, cap, "%.*f", digits < 0 ? 0 : digits > 12 ? 12 : digits, v);
    if (strchr(buf, '.')) {
        size_t n = strlen(buf);
        while (buf[n - 1] == '0')
            buf[--n] = '\0';
        if (buf[n - 1] == '.')
            buf[n - 1] = '\0';
    }
    return buf;
}

/* The text of a tick with its unit, or as a plain number below the smallest unit. */
const char *cli_plot_tick(enum cli_plot_unit unit, double v, char *buf, size_t cap)
{
    if (unit == CLI_PLOT_BYTES && v >= 1)
        return tutti_format_size((uint64_t)llround(v), buf, cap);
    if (unit == CLI_PLOT_US && (v >= 1e-3 || v == 0))
        return tutti_format_us(v, buf, cap);
    return cli_format_number(v, buf, cap);
}

/* The k-th round number (k may be negative). Bytes: 2^(k * step). Others: 1, 2, 5 of every
 * decade (step 1), every decade (3), every second one (6). */
static double round_number(enum cli_plot_unit unit, int k, int step)
{
    static const double digits[3] = {1, 2, 5};
    if (unit == CLI_PLOT_BYTES)
        return ldexp(1, k * step);
    int i = k * step, decade = (int)floor(i / 3.0);
    return digits[i - 3 * decade] * pow(10, decade);
}

/* The round numbers inside the scale. TICKS + 1 of them mean: too many, take a larger step. 1.0
 * / 3: a decade has three round numbers, spaced about equally. */
static size_t find_ticks(const struct scale *s, enum cli_plot_unit unit, int step, double *ret)
{
    size_t n = 0;
    int first = (int)floor(s->lo / (unit == CLI_PLOT_BYTES ? log10(2) : 1.0 / 3) / step) - 1;
    for (int k = first; n <= TICKS; k++) {
        double v = round_number(unit, k, step);
        if (log10(v) > s->hi)
            break;
        if (log10(v) >= s->lo)
            ret[n++] = v;
    }
    return n;
}

/* All digits 1..9 of the decades inside the scale; TICKS + 1 of them mean: too many. */
static size_t find_digits(const struct scale *s, double *ret)
{
    size_t n = 0;
    for (int k = 9 * (int)floor(s->lo); n <= TICKS; k++) {
        int decade = (int)floor(k / 9.0);
        double v = (k - 9 * decade + 1) * pow(10, decade);
        if (log10(v) > s->hi)
            break;
        if (log10(v) >= s->lo)
            ret[n++] = v;
    }
    return n;
}

/* The different numbers of the points themselves; TICKS + 1 of them mean: too many. */
static size_t find_own(const struct cli_plot *p, const double *v, double *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < p->n && n <= TICKS; i++) {
        bool known = !cli_plot_drawn(p, i);
        for (size_t k = 0; k < n && !known; k++)
            known = ret[k] == v[i];
        if (!known)
            ret[n++] = v[i];
    }
    return n;
}

size_t cli_plot_linear_ticks(double max, enum cli_plot_unit unit, double *ret)
{
    enum { MOST = 6 }; /* steps to the end of the axis */
    size_t n = 0;
    double step = exp2(ceil(log2(fmax(max / MOST, 1))));
    if (unit != CLI_PLOT_BYTES) {
        int k = 3 * (int)floor(log10(max / MOST));
        while (max / round_number(unit, k, 1) > MOST)
            k++;
        step = round_number(unit, k, 1);
    }
    while (n < TICKS && (double)n * step <= max) {
        ret[n] = (double)n * step;
        n++;
    }
    return n;
}

/* The smallest step whose round numbers fit. When that gives few of them, other numbers are
 * tried: the points' own (x axis only), then all digits. */
static size_t choose_ticks(const struct cli_plot *p, const struct scale *s,
                           const struct cli_plot_axis *axis, double *ret)
{
    static const int steps[] = {1, 2, 3, 4, 6, 9, 12, 24, 48};
    double v[TICKS + 1];
    size_t n = TICKS + 1, more = 0;
    if (s->linear)
        return cli_plot_linear_ticks(s->hi, axis->unit, ret);
    for (size_t i = 0; i < sizeof steps / sizeof steps[0] && n > TICKS; i++)
        /* a decade has three round numbers: only steps that keep whole decades */
        if (axis->unit == CLI_PLOT_BYTES || steps[i] == 1 || steps[i] % 3 == 0)
            n = find_ticks(s, axis->unit, steps[i], ret);
    n = n < TICKS ? n : TICKS;
    if (n >= FEW_TICKS || axis->unit == CLI_PLOT_BYTES)
        return n;
    if (axis == &p->x)
        more = find_own(p, axis->v, v);
    if (more <= n || more > TICKS)
        more = find_digits(s, v);
    if (more <= n || more > TICKS)
        return n;
    memcpy(ret, v, more * sizeof *v);
    return more;
}

void cli_plot_draw_ticks(FILE *out, const struct cli_plot *p, const struct scale *s,
                         const struct cli_plot_axis *axis)
{
    bool vertical = axis == &p->y;
    double v[TICKS + 1];
    size_t n = choose_ticks(p, s, axis, v);
    enum cli_plot_unit unit = axis->unit;
    char text[64];
    for (size_t i = 0; i < n; i++) {
        double at = cli_plot_along(s, v[i]);
        if (vertical) {
            fprintf(out, "<path d=\"M%d %.1fH%d\" class=\"grid\"/>\n", LEFT, TOP + HEIGHT - at,
                    LEFT + WIDTH);
            cli_plot_label(out, LEFT - 8, TOP + HEIGHT - at + 5, "text-anchor=\"end\"",
                           cli_plot_tick(unit, v[i], text, sizeof text));
        } else {
            fprintf(out, "<path d=\"M%.1f %dV%d\" class=\"grid\"/>\n", LEFT + at, TOP,
                    TOP + HEIGHT);
            cli_plot_label(out, LEFT + at, TOP + HEIGHT + 22, "text-anchor=\"middle\"",
                           cli_plot_tick(unit, v[i], text, sizeof text));
        }
    }
}
