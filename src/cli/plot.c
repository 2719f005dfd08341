/* plot.c - draws a table as SVG: a line per name, in the order of their first points.
 *
 *     title
 *     y |   o---o-- -o- ring      names stand beside the ends of their lines
 *       |  /   /
 *       | x---x---- -x- tree
 *       +--------- x
 *
 * Axes are logarithmic, or linear from 0. Axes end where the points do. Ticks are round numbers
 * with units (64 KiB, 1 ms); where few of those fit on a logarithmic axis, every digit of a decade,
 * or the points' own numbers (batches 128, 192, 256). No two lines have the same colour, mark and
 * dashes. A line that others cover is drawn wider beneath them, but never so wide that it hides its
 * neighbours. Only positive, finite points are drawn. Text and grid follow the page's scheme, light
 * or dark. */
#include "cli/plot_int.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "cli/cli.h"

/* A second round of colours is dashed. */
enum { COLOURS = 8, WIDEST = 8, ENTRY = 22 };

/* A drawing in progress. `names` are the lines, in the order of the legend; left_out counts the
 * rest. */
struct picture {
    const struct cli_plot *p;
    struct scale x, y;
    const char *names[LINES];
    size_t nlines, left_out;
    double entry[LINES]; /* where a line's name stands: y */
};

bool cli_plot_drawn(const struct cli_plot *p, size_t i)
{
    return p->x.v[i] > 0 && p->y.v[i] > 0 && isfinite(p->x.v[i]) && isfinite(p->y.v[i]);
}

/* From 0 to a little above the greatest value. */
static struct scale linear_scale(const struct cli_plot *p, const double *v, double length)
{
    struct scale s = {0, 0, length, true};
    for (size_t i = 0; i < p->n; i++)
        if (cli_plot_drawn(p, i))
            s.hi = fmax(s.hi, 1.05 * v[i]);
    if (s.hi <= 0)
        s.hi = 1;
    return s;
}

/* From the least to the greatest value, with a margin of 1/25 of that at both ends; at least a
 * factor of two, so that equal values do not make an empty axis. */
static struct scale scale_of(const struct cli_plot *p, const struct cli_plot_axis *axis,
                             double length)
{
    const double *v = axis->v;
    struct scale s = {INFINITY, -INFINITY, length, false};
    if (axis->linear)
        return linear_scale(p, v, length);
    for (size_t i = 0; i < p->n; i++)
        if (cli_plot_drawn(p, i)) {
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

double cli_plot_along(const struct scale *s, double v)
{
    return ((s->linear ? v : log10(v)) - s->lo) / (s->hi - s->lo) * s->length;
}

/* Pixels of point i. */
static double at_x(const struct picture *pic, size_t i)
{
    return LEFT + cli_plot_along(&pic->x, pic->p->x.v[i]);
}

/* SVG counts y downwards. */
static double at_y(const struct picture *pic, size_t i)
{
    return TOP + HEIGHT - cli_plot_along(&pic->y, pic->p->y.v[i]);
}

/* ---- text ---- */

/* A text element; `style` holds further attributes. */
void cli_plot_label(FILE *out, double x, double y, const char *style, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" %s>", x, y, style);
    tutti_xml_text(text, out);
    fputs("</text>\n", out);
}

/* The title on one line, or broken at the last blank that fits. */
static void put_title(FILE *out, const char *title)
{
    size_t n = strlen(title), cut = n;
    char first[4 * TITLE_CHARS];
    if (n > TITLE_CHARS)
        for (cut = TITLE_CHARS; cut && title[cut] != ' ';)
            cut--;
    if (!cut)
        cut = n;
    snprintf(first, sizeof first, "%.*s", (int)cut, title);
    cli_plot_label(out, 12, cut < n ? 28 : 40, "class=\"title\"", first);
    if (cut < n)
        cli_plot_label(out, 12, 52, "class=\"title\"", title + cut + 1);
}

void cli_plot_head(FILE *out, double width, double height, const char *title)
{
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" role=\"img\" width=\"%.0f\" "
            "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\">\n<title>",
            width, height, width, height);
    tutti_xml_text(title, out);
    fputs("</title>\n<style>\n"
          ".plot text{fill:#222;font:15px sans-serif}.plot .title{font-size:18px;font-weight:bold}"
          ".plot .axis{font-size:17px}.plot .grid{stroke:#ddd}.plot .frame{fill:none;stroke:#888}"
          ".plot .back{fill:#fff}\n"
          "@media(prefers-color-scheme:dark){.plot text{fill:#ddd}.plot .grid{stroke:#38424d}"
          ".plot .back{fill:#12161b}}\n</style>\n"
          "<rect class=\"back\" width=\"100%\" height=\"100%\"/>\n",
          out);
    put_title(out, title);
}

/* ---- lines ---- */

/* A line for each new name among the drawn points; those beyond LINES are counted only. */
static void find_lines(struct picture *pic)
{
    const struct cli_plot *p = pic->p;
    for (size_t i = 0; i < p->n; i++) {
        size_t k = 0;
        bool known = !cli_plot_drawn(p, i);
        for (; k < i && !known; k++)
            known = cli_plot_drawn(p, k) && !strcmp(p->line[k], p->line[i]);
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
        for (size_t k = 0; k < p->n && cli_plot_drawn(p, i) && !strcmp(p->line[i], upper); k++)
            same += cli_plot_drawn(p, k) && !strcmp(p->line[k], lower) &&
                    fabs(at_x(pic, i) - at_x(pic, k)) < 1 && fabs(at_y(pic, i) - at_y(pic, k)) < 4;
    return same > 1;
}

/* Places the names beside the last points of their lines, in the same order from top to bottom,
 * ENTRY pixels apart at least, inside the picture. */
static void place_entries(struct picture *pic)
{
    const struct cli_plot *p = pic->p;
    size_t order[LINES];
    double last = TOP - ENTRY, excess;
    for (size_t k = 0; k < pic->nlines; k++) {
        double x = -INFINITY;
        for (size_t i = 0; i < p->n; i++)
            if (cli_plot_drawn(p, i) && !strcmp(p->line[i], pic->names[k]) && at_x(pic, i) >= x) {
                x = at_x(pic, i);
                pic->entry[k] = at_y(pic, i);
            }
        /* insertion: lines that end at one place keep the order of the table */
        size_t at = k;
        for (; at && pic->entry[order[at - 1]] > pic->entry[k]; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
    for (size_t k = 0; k < pic->nlines; k++)
        last = pic->entry[order[k]] = fmax(pic->entry[order[k]], last + ENTRY);
    excess = last - (TOP + HEIGHT - 4);
    for (size_t k = pic->nlines; k-- && excess > 0;) {
        pic->entry[order[k]] =
            fmin(pic->entry[order[k]], TOP + HEIGHT - 4 - ENTRY * (double)(pic->nlines - 1 - k));
    }
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
    double width = 2.5, y = pic->entry[which], end_x = LEFT + WIDTH, end_y = y;
    const char *name = pic->names[which], *colour = tutti_picture_colour(which);
    for (size_t k = which + 1; k < pic->nlines; k++)
        width += covers(pic, pic->names[k], name) && width < WIDEST ? 3 : 0;
    fprintf(out, "<g stroke=\"%s\" fill=\"%s\"><path fill=\"none\" stroke-width=\"%.1f\"%s d=\"",
            colour, colour, width, which >= COLOURS ? " stroke-dasharray=\"9 5\"" : "");
    /* The first point moves the pen, the others draw. */
    char move = 'M';
    for (size_t i = 0; i < p->n; i++)
        if (cli_plot_drawn(p, i) && !strcmp(p->line[i], name)) {
            end_x = at_x(pic, i);
            end_y = at_y(pic, i);
            fprintf(out, "%c%.1f %.1f", move, end_x, end_y);
            move = 'L';
        }
    fprintf(out, "M%d %.1fh22\"/>\n", LEFT + WIDTH + 26, y);
    for (size_t i = 0; i < p->n; i++)
        if (cli_plot_drawn(p, i) && !strcmp(p->line[i], name))
            put_mark(out, mark, at_x(pic, i), at_y(pic, i));
    put_mark(out, mark, LEFT + WIDTH + 37, y);
    /* from the line's end to its name */
    fprintf(out,
            "<path fill=\"none\" stroke-opacity=\"0.5\" d=\"M%.1f "
            "%.1fL%d %.1f\"/></g>\n",
            end_x, end_y, LEFT + WIDTH + 26, y);
    cli_plot_label(out, LEFT + WIDTH + 56, y + 5, "", name);
}

void cli_plot_draw(FILE *out, const struct cli_plot *p)
{
    struct picture pic = {.p = p, .x = scale_of(p, &p->x, WIDTH), .y = scale_of(p, &p->y, HEIGHT)};
    size_t longest = 16;
    char style[96], text[64];
    find_lines(&pic);
    place_entries(&pic);
    for (size_t i = 0; i < pic.nlines; i++)
        longest = strlen(pic.names[i]) > longest ? strlen(pic.names[i]) : longest;
    /* Names need about 9 pixels per character. */
    cli_plot_head(out, (double)(LEFT + WIDTH + 66 + 9 * longest), TOP + HEIGHT + FOOT, p->title);
    cli_plot_draw_ticks(out, p, &pic.x, &p->x);
    cli_plot_draw_ticks(out, p, &pic.y, &p->y);
    fprintf(out, "<rect class=\"frame\" x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n", LEFT,
            TOP, WIDTH, HEIGHT);
    cli_plot_label(out, LEFT + WIDTH / 2.0, TOP + HEIGHT + 50,
                   "text-anchor=\"middle\" class=\"axis\"", p->x.label);
    snprintf(style, sizeof style,
             "text-anchor=\"middle\" class=\"axis\" transform=\"rotate(-90 18 %d)\"",
             TOP + HEIGHT / 2);
    cli_plot_label(out, 18, TOP + HEIGHT / 2.0, style, p->y.label);
    for (size_t i = 0; i < pic.nlines; i++)
        draw_line(out, &pic, i);
    if (pic.left_out) {
        snprintf(text, sizeof text, "%zu more not drawn", pic.left_out);
        cli_plot_label(out, LEFT + WIDTH + 18, TOP + HEIGHT + 20, "", text);
    }
    fputs("</svg>\n", out);
}
