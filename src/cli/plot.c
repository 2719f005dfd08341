/* plot.c - draws a table as SVG: lines over two logarithmic axes, one per name, in the order of
 * their first points.
 *
 *     title
 *     y |   o---o        -o- ring      the key: one line per name, right of the axes
 *       |  /   /         -x- tree
 *       +--------- x
 *
 * Axes end where the points do. Ticks are round numbers with units (64 KiB, 1 ms); where few of
 * those fit, every digit of a decade, or the points' own numbers (batches 128, 192, 256). No two
 * lines have the same colour, mark and dashes. A line that others cover is drawn wider beneath
 * them, but never so wide that it hides its neighbours. Only positive, finite points are drawn. */
#include "cli/plot.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cli/cli.h"

/* Sizes in pixels of the area inside the axes and around it; limits of what is drawn. */
enum {
    LEFT = 96,
    TOP = 78,
    WIDTH = 720,
    HEIGHT = 430,
    FOOT = 70,
    LINES = 16,
    TICKS = 9,
    FEW_TICKS = 4,
    TITLE_CHARS = 92
};
/* Colours that people with colour blindness can tell apart. A second round of lines is dashed. */
static const char *const colours[] = {"#0072b2", "#d55e00", "#009e73", "#cc79a7",
                                      "#e69f00", "#56b4e9", "#000000", "#8c6d1f"};
enum { COLOURS = sizeof colours / sizeof colours[0], WIDEST = 8 };

struct scale {
    double lo, hi; /* log10 of the ends */
    double length;
};

/* A drawing in progress. `names` are the lines, in the order of the legend; left_out counts the
 * rest. */
struct picture {
    const struct cli_plot *p;
    struct scale x, y;
    const char *names[LINES];
    size_t nlines, left_out;
};

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

/* Has the point a place on logarithmic axes? */
static bool drawn(const struct cli_plot *p, size_t i)
{
    return p->x.v[i] > 0 && p->y.v[i] > 0 && isfinite(p->x.v[i]) && isfinite(p->y.v[i]);
}

/* From the least to the greatest value, with a margin of 1/25 of that at both ends; at least a
 * factor of two, so that equal values do not make an empty axis. */
static struct scale scale_of(const struct cli_plot *p, const double *v, double length)
{
    struct scale s = {INFINITY, -INFINITY, length};
    for (size_t i = 0; i < p->n; i++)
        if (drawn(p, i)) {
            s.lo = fmin(s.lo, log10(v[i]));
            s.hi = fmax(s.hi, log10(v[i]));
        }
    if (s.lo > s.hi)
        s.lo = s.hi = 0;
    /* The second term makes the axis a factor of two long when the values are (nearly) equal. */
    double margin = fmax((s.hi - s.lo) / 25, (log10(2) - (s.hi - s.lo)) / 2);
    s.lo -= margin;
    s.hi += margin;
    return s;
}

/* Pixels from the beginning of the axis. */
static double plot_along(const struct scale *s, double v)
{
    return (log10(v) - s->lo) / (s->hi - s->lo) * s->length;
}

/* Pixels of point i. */
static double at_x(const struct picture *pic, size_t i)
{
    return LEFT + plot_along(&pic->x, pic->p->x.v[i]);
}

/* SVG counts y downwards. */
static double at_y(const struct picture *pic, size_t i)
{
    return TOP + HEIGHT - plot_along(&pic->y, pic->p->y.v[i]);
}

/* ---- text ---- */

/* Writes at most n bytes as the text of an XML element. */
static void put_text(FILE *out, const char *s, size_t n)
{
    for (; *s && n; s++, n--)
        switch (*s) {
        case '<':
            fputs("&lt;", out);
            break;
        case '>':
            fputs("&gt;", out);
            break;
        case '&':
            fputs("&amp;", out);
            break;
        default:
            fputc(*s, out);
        }
}

/* A text element; `style` holds further attributes. */
static void label(FILE *out, double x, double y, const char *style, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    put_text(out, text, strlen(text));
    fputs("</text>\n", out);
}

/* The title on one line, or broken at the last blank that fits. */
static void put_title(FILE *out, const char *title)
{
    size_t n = strlen(title), cut = n;
    if (n > TITLE_CHARS)
        for (cut = TITLE_CHARS; cut && title[cut] != ' ';)
            cut--;
    if (!cut)
        cut = n;
    fprintf(out, "<text x=\"%d\" y=\"%d\" font-size=\"18\" font-weight=\"bold\">", LEFT,
            cut < n ? 28 : 40);
    put_text(out, title, cut);
    if (cut < n) {
        fprintf(out, "<tspan x=\"%d\" dy=\"24\">", LEFT);
        put_text(out, title + cut + 1, n);
        fputs("</tspan>", out);
    }
    fputs("</text>\n", out);
}

/* ---- ticks ---- */

/* The text of a tick with its unit, or as a plain number below the smallest unit. */
static const char *tick_text(enum cli_plot_unit unit, double v, char *buf, size_t cap)
{
    if (unit == CLI_PLOT_BYTES && v >= 1)
        return tutti_format_size((uint64_t)llround(v), buf, cap);
    if (unit == CLI_PLOT_US && v >= 1e-3)
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
        bool known = !drawn(p, i);
        for (size_t k = 0; k < n && !known; k++)
            known = ret[k] == v[i];
        if (!known)
            ret[n++] = v[i];
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

/* A grid line and a text for each tick of one axis. */
static void draw_ticks(FILE *out, const struct cli_plot *p, const struct scale *s,
                       const struct cli_plot_axis *axis)
{
    bool vertical = axis == &p->y;
    double v[TICKS + 1];
    size_t n = choose_ticks(p, s, axis, v);
    enum cli_plot_unit unit = axis->unit;
    char text[64];
    for (size_t i = 0; i < n; i++) {
        double at = plot_along(s, v[i]);
        if (vertical) {
            fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, TOP + HEIGHT - at,
                    LEFT + WIDTH);
            label(out, LEFT - 8, TOP + HEIGHT - at + 5, "text-anchor=\"end\"",
                  tick_text(unit, v[i], text, sizeof text));
        } else {
            fprintf(out, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/>\n", LEFT + at, TOP,
                    TOP + HEIGHT);
            label(out, LEFT + at, TOP + HEIGHT + 22, "text-anchor=\"middle\"",
                  tick_text(unit, v[i], text, sizeof text));
        }
    }
}

/* ---- lines ---- */

/* A line for each new name among the drawn points; those beyond LINES are counted only. */
static void find_lines(struct picture *pic)
{
    const struct cli_plot *p = pic->p;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = 0;
        bool known = !drawn(p, i);
        for (; k < i && !known; k++)
            known = drawn(p, k) && !strcmp(p->line[k], p->line[i]);
        if (!known && pic->nlines < LINES)
            pic->names[pic->nlines++] = p->line[i];
        else if (!known)
            pic->left_out++;
    }
}

/* Does `upper` cover `lower`: do at least two of their points coincide on the picture? A single
 * one may be where the lines cross. */
static bool covers(const struct picture *pic, const char *upper, const char *lower)
{
    const struct cli_plot *p = pic->p;
    size_t same = 0;
    for (size_t i = 0; i < p->n; i++)
        for (size_t k = 0; k < p->n && drawn(p, i) && !strcmp(p->line[i], upper); k++)
            same += drawn(p, k) && !strcmp(p->line[k], lower) &&
                    fabs(at_x(pic, i) - at_x(pic, k)) < 1 && fabs(at_y(pic, i) - at_y(pic, k)) < 4;
    return same > 1;
}

/* One of four shapes, centred at x, y. */
static void put_mark(FILE *out, size_t kind, double x, double y)
{
    switch (kind % 4) {
    case 0:
        fprintf(out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"/>", x, y);
        break;
    case 1:
        fprintf(out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"8\" height=\"8\"/>", x - 4, y - 4);
        break;
    case 2:
        fprintf(out, "<path d=\"M%.1f %.1fl5.5 9h-11z\"/>", x, y - 5.5);
        break;
    default:
        fprintf(out, "<path d=\"M%.1f %.1fl5.5 5.5l-5.5 5.5l-5.5 -5.5z\"/>", x, y - 5.5);
    }
}

/* Draws line number `which`, its marks and its entry in the key. Marks shift by one in each
 * round of colours, so that no pair of colour and mark is used twice. Later lines lie on top: a
 * line is wider by 3 for each later one that covers it. */
static void draw_line(FILE *out, const struct picture *pic, size_t which)
{
    const struct cli_plot *p = pic->p;
    size_t mark = which + which / COLOURS;
    double width = 2.5, y = TOP + 12 + 26.0 * (double)which;
    const char *name = pic->names[which], *colour = colours[which % COLOURS];
    for (size_t k = which + 1; k < pic->nlines; k++)
        width += covers(pic, pic->names[k], name) && width < WIDEST ? 3 : 0;
    fprintf(out, "<g stroke=\"%s\" fill=\"%s\"><path fill=\"none\" stroke-width=\"%.1f\"%s d=\"",
            colour, colour, width, which >= COLOURS ? " stroke-dasharray=\"9 5\"" : "");
    /* The first point moves the pen, the others draw. */
    char move = 'M';
    for (size_t i = 0; i < p->n; i++)
        if (drawn(p, i) && !strcmp(p->line[i], name)) {
            fprintf(out, "%c%.1f %.1f", move, at_x(pic, i), at_y(pic, i));
            move = 'L';
        }
    fprintf(out, "M%d %.1fh30\"/>\n", LEFT + WIDTH + 18, y);
    for (size_t i = 0; i < p->n; i++)
        if (drawn(p, i) && !strcmp(p->line[i], name))
            put_mark(out, mark, at_x(pic, i), at_y(pic, i));
    put_mark(out, mark, LEFT + WIDTH + 33, y);
    fputs("</g>\n", out);
    label(out, LEFT + WIDTH + 56, y + 5, "", name);
}

void cli_plot_draw(FILE *out, const struct cli_plot *p)
{
    struct picture pic = {
        .p = p, .x = scale_of(p, p->x.v, WIDTH), .y = scale_of(p, p->y.v, HEIGHT)};
    size_t longest = 16;
    char style[96], text[64];
    find_lines(&pic);
    for (size_t i = 0; i < pic.nlines; i++)
        longest = strlen(pic.names[i]) > longest ? strlen(pic.names[i]) : longest;
    /* The key needs about 9 pixels per character of the longest name. */
    size_t width = LEFT + WIDTH + 66 + 9 * longest;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%zu\" height=\"%d\" viewBox=\"0 0 "
            "%zu %d\" font-family=\"sans-serif\" "
            "font-size=\"15\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
            width, TOP + HEIGHT + FOOT, width, TOP + HEIGHT + FOOT);
    put_title(out, p->title);
    draw_ticks(out, p, &pic.x, &p->x);
    draw_ticks(out, p, &pic.y, &p->y);
    fprintf(out,
            "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"none\" stroke=\"#888\"/>\n",
            LEFT, TOP, WIDTH, HEIGHT);
    label(out, LEFT + WIDTH / 2.0, TOP + HEIGHT + 50, "text-anchor=\"middle\" font-size=\"17\"",
          p->x.label);
    snprintf(style, sizeof style,
             "text-anchor=\"middle\" font-size=\"17\" transform=\"rotate(-90 18 %d)\"",
             TOP + HEIGHT / 2);
    label(out, 18, TOP + HEIGHT / 2.0, style, p->y.label);
    for (size_t i = 0; i < pic.nlines; i++)
        draw_line(out, &pic, i);
    if (pic.left_out) {
        snprintf(text, sizeof text, "%zu more not drawn", pic.left_out);
        label(out, LEFT + WIDTH + 18, TOP + 17 + 26.0 * (double)pic.nlines, "", text);
    }
    fputs("</svg>\n", out);
}
