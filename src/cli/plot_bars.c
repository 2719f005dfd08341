/* plot_bars.c - bars, and tracks of time, as SVG.
 *
 *     bars     direct   |####   | 1.016 x, 12.8 ms      a name, its bar, what it says
 *              ring     |#######| 1.4 x, 17 ms          the line across: a limit
 *     tracks   compute  |==  ==== |
 *              network  |  ==   ==|
 *
 * Bars of ratios begin at 1, which is the bound: the longer, the further away. */
#include <math.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/plot.h"

enum { TOP = 66, BAR = 30, WIDTH = 560, FOOT = 58, CHAR = 9, TEXT = 330, KEY = 26 };

/* The area of the bars: from x = left, `length` values long. */
struct area {
    double left, bottom, max;
    bool from_one;
};

static double area_x(const struct area *r, double v)
{
    double part = r->from_one ? log(fmax(v, 1)) / log(r->max) : v / r->max;
    return r->left + WIDTH * fmin(fmax(part, 0), 1);
}

static size_t longest_of(const char *const *text, size_t n)
{
    size_t longest = 4;
    for (size_t i = 0; i < n; i++)
        longest = strlen(text[i]) > longest ? strlen(text[i]) : longest;
    return longest;
}

/* A row of names with their colours at the top; `used`: a bit for each that is shown. */
static void put_key(FILE *out, double x, const char *const *name, size_t n, unsigned used)
{
    for (size_t i = 0; i < n; i++) {
        if (!(used >> i & 1))
            continue;
        fprintf(out,
                "<rect x=\"%.1f\" y=\"%d\" width=\"14\" height=\"14\" rx=\"3\" fill=\"%s\"/>\n", x,
                TOP - 8, tutti_picture_colour(i));
        cli_plot_label(out, x + 20, TOP + 4, "", name[i]);
        x += 44 + CHAR * (double)strlen(name[i]);
    }
}

/* Grid lines and their texts below the rows. */
static void put_ticks(FILE *out, const struct area *r, double top, enum cli_plot_unit unit)
{
    static const double ratios[] = {1, 1.02, 1.05, 1.1, 1.2, 1.5, 2, 3, 5, 10, 20, 50, 100, 1000};
    double v[CLI_PLOT_TICKS + 1], last = -INFINITY;
    size_t n =
        r->from_one ? sizeof ratios / sizeof ratios[0] : cli_plot_linear_ticks(r->max, unit, v);
    char text[64];
    for (size_t i = 0; i < n; i++) {
        double value = r->from_one ? ratios[i] : v[i], x = area_x(r, value);
        if (value > r->max || x < last + 52)
            continue;
        last = x;
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fV%.1f\"/>\n", x, top, r->bottom);
        cli_plot_label(out, x, r->bottom + 20, "text-anchor=\"middle\"",
                       cli_plot_tick(unit, value, text, sizeof text));
    }
}

static double max_of(const struct cli_bars *b)
{
    double max = fmax(b->mark, 0);
    for (size_t i = 0; i < b->n; i++) {
        double sum = 0;
        for (size_t k = 0; k < b->parts; k++)
            sum += b->v[i * b->parts + k] > 0 ? b->v[i * b->parts + k] : 0;
        max = isfinite(sum) ? fmax(max, sum) : max;
    }
    /* A ratio's axis needs some length even when all are at the bound. */
    return b->from_one ? fmax(max, 1.1) : max > 0 ? 1.02 * max : 1;
}

static void put_bar(FILE *out, const struct cli_bars *b, const struct area *r, size_t i, double y)
{
    double sum = 0, x = r->left;
    cli_plot_label(out, r->left - 10, y + 18, "text-anchor=\"end\"", b->name[i]);
    for (size_t k = 0; k < b->parts; k++) {
        double v = b->v[i * b->parts + k], to;
        if (!(v > 0) || !isfinite(v))
            continue;
        sum += v;
        to = fmax(area_x(r, sum), x + (r->from_one ? 2 : 0));
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" fill=\"%s\"/>\n", x,
                y + 4, to - x, BAR - 10, tutti_picture_colour(k));
        x = to;
    }
    cli_plot_label(out, x + 8, y + 18, "", b->text[i]);
}

void cli_bars_draw(FILE *out, const struct cli_bars *b)
{
    double key = b->part ? KEY : 0, top = TOP + key;
    struct area r = {.left = 30 + CHAR * (double)longest_of(b->name, b->n),
                     .bottom = top + BAR * (double)b->n,
                     .max = max_of(b),
                     .from_one = b->from_one};
    cli_plot_head(out, r.left + WIDTH + TEXT, r.bottom + FOOT, b->title);
    if (b->part)
        put_key(out, r.left, b->part, b->parts, ~0u);
    put_ticks(out, &r, top, b->unit);
    for (size_t i = 0; i < b->n; i++)
        put_bar(out, b, &r, i, top + BAR * (double)i);
    if (b->mark > 0) {
        double x = area_x(&r, b->mark);
        fprintf(out,
                "<path d=\"M%.1f %.1fV%.1f\" stroke=\"#c0392b\" stroke-width=\"2\" "
                "stroke-dasharray=\"6 4\"/>\n",
                x, top - 2, r.bottom + 4);
        cli_plot_label(out, x + 6, r.bottom + 40, "", b->mark_text);
    }
    cli_plot_label(out, r.left, r.bottom + 40, "class=\"axis\"", b->label);
    fputs("</svg>\n", out);
}

/* Where a time stands; tracks have no texts beside them and are wider than bars. */
static double track_x(const struct cli_tracks *t, double left, double us)
{
    return left + 1.4 * WIDTH * us / (t->end_us > 0 ? t->end_us : 1);
}

static void put_spans(FILE *out, const struct cli_tracks *t, double left, double top)
{
    for (size_t i = 0; i < t->nspans; i++) {
        const struct cli_span *s = &t->span[i];
        double x = track_x(t, left, s->from_us);
        fprintf(out, "<rect x=\"%.2f\" y=\"%.1f\" width=\"%.2f\" height=\"%d\" fill=\"%s\"/>\n", x,
                top + BAR * (double)s->row + 5, fmax(track_x(t, left, s->to_us) - x, 0.4), BAR - 8,
                tutti_picture_colour(s->kind));
    }
}

void cli_tracks_draw(FILE *out, const struct cli_tracks *t)
{
    const double top = TOP + KEY, left = 30 + CHAR * (double)longest_of(t->row, t->nrows),
                 bottom = top + BAR * (double)t->nrows;
    double v[CLI_PLOT_TICKS + 1];
    char text[64];
    unsigned used = 0;
    for (size_t i = 0; i < t->nspans; i++)
        used |= 1u << t->span[i].kind;
    cli_plot_head(out, track_x(t, left, t->end_us) + 50, bottom + 32, t->title);
    put_key(out, left, t->kind, t->nkinds, used);
    for (size_t i = 0; i < t->nrows; i++)
        cli_plot_label(out, left - 10, top + BAR * (double)i + 20, "text-anchor=\"end\"",
                       t->row[i]);
    put_spans(out, t, left, top);
    size_t n = t->end_us > 0 ? cli_plot_linear_ticks(t->end_us, CLI_PLOT_US, v) : 0;
    for (size_t i = 0; i < n; i++) {
        double x = track_x(t, left, v[i]);
        fprintf(out, "<path class=\"grid\" d=\"M%.1f %.1fv6\"/>\n", x, bottom);
        cli_plot_label(out, x, bottom + 22, "text-anchor=\"middle\"",
                       cli_plot_tick(CLI_PLOT_US, v[i], text, sizeof text));
    }
    fputs("</svg>\n", out);
}
