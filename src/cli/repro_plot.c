/* repro_plot.c - a picture of a table as SVG: lines over two logarithmic axes, one per name, in the order they first appear. */
#include "cli/repro.h"

#include <math.h>
#include <string.h>

enum { LEFT = 70, TOP = 40, WIDTH = 560, HEIGHT = 380, LEGEND = 240, LINES = 16 };

struct axis {
    double lo, hi; /* powers of ten around what is drawn, as exponents */
};

static bool drawn(const struct repro_points *p, size_t i)
{
    return p->xs[i] > 0 && p->ys[i] > 0 && isfinite(p->xs[i]) && isfinite(p->ys[i]);
}

static struct axis axis_of(const struct repro_points *p, const double *v)
{
    struct axis a = {INFINITY, -INFINITY};
    for (size_t i = 0; i < p->n; i++) {
        if (!drawn(p, i))
            continue;
        a.lo = fmin(a.lo, floor(log10(v[i])));
        a.hi = fmax(a.hi, ceil(log10(v[i])));
    }
    if (!(a.lo < a.hi))
        a = (struct axis){isfinite(a.lo) ? a.lo : 0, (isfinite(a.lo) ? a.lo : 0) + 1};
    return a;
}

static double along(const struct axis *a, double v, double length)
{
    return (log10(v) - a->lo) / (a->hi - a->lo) * length;
}

static void put_text(FILE *out, const char *s)
{
    for (; *s; s++)
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

static void label(FILE *out, double x, double y, const char *anchor, const char *text)
{
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    put_text(out, text);
    fputs("</text>\n", out);
}

static void draw_grid(FILE *out, const struct axis *ax, const struct axis *ay)
{
    char text[16];
    for (int e = (int)ax->lo; e <= (int)ax->hi; e++) {
        double x = LEFT + along(ax, pow(10, e), WIDTH);
        fprintf(out, "<path d=\"M%.1f %dV%d\" stroke=\"#ddd\"/>\n", x, TOP, TOP + HEIGHT);
        snprintf(text, sizeof text, "1e%d", e);
        label(out, x, TOP + HEIGHT + 16, "middle", text);
    }
    for (int e = (int)ay->lo; e <= (int)ay->hi; e++) {
        double y = TOP + HEIGHT - along(ay, pow(10, e), HEIGHT);
        fprintf(out, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>\n", LEFT, y, LEFT + WIDTH);
        snprintf(text, sizeof text, "1e%d", e);
        label(out, LEFT - 6, y + 4, "end", text);
    }
}

static void draw_line(FILE *out, const struct repro_points *p, const struct axis *ax, const struct axis *ay, const char *name)
{
    bool first = true;
    fputs("<path fill=\"none\" stroke-width=\"1.5\" d=\"", out);
    for (size_t i = 0; i < p->n; i++) {
        if (strcmp(p->line[i], name) || !drawn(p, i))
            continue;
        fprintf(out, "%c%.1f %.1f", first ? 'M' : 'L', LEFT + along(ax, p->xs[i], WIDTH), TOP + HEIGHT - along(ay, p->ys[i], HEIGHT));
        first = false;
    }
    fputs("\"/>\n", out);
}

static bool is_new(const struct repro_points *p, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (!strcmp(p->line[k], p->line[i]))
            return false;
    return true;
}

void repro_draw(FILE *out, const struct repro_points *p)
{
    struct axis ax = axis_of(p, p->xs), ay = axis_of(p, p->ys);
    int lines = 0;
    fprintf(out, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n",
            LEFT + WIDTH + LEGEND, TOP + HEIGHT + 50);
    label(out, LEFT, 20, "start", p->title);
    draw_grid(out, &ax, &ay);
    label(out, LEFT + WIDTH / 2.0, TOP + HEIGHT + 36, "middle", p->x);
    label(out, 6, TOP - 8, "start", p->y);
    for (size_t i = 0; i < p->n && lines < LINES; i++) {
        if (!is_new(p, i))
            continue;
        double y = TOP + 14 + 18.0 * lines;
        fprintf(out, "<g stroke=\"hsl(%d,70%%,40%%)\"><path stroke-width=\"3\" d=\"M%d %.1fh20\"/>\n", lines++ * 47 % 360,
                LEFT + WIDTH + 10, y - 4);
        draw_line(out, p, &ax, &ay, p->line[i]);
        fputs("</g>\n", out);
        label(out, LEFT + WIDTH + 36, y, "start", p->line[i]);
    }
    fputs("</svg>\n", out);
}
