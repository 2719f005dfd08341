/* plot.h - pictures of numbers as SVG, for files and inside pages: lines over two axes (plot.c),
 * bars and tracks of time (plot_bars.c). Texts may hold markup: it stays text. Write errors show in
 * the stream. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum cli_plot_unit { CLI_PLOT_NUMBER, CLI_PLOT_BYTES, CLI_PLOT_US };

struct cli_plot_axis {
    const char *label;
    enum cli_plot_unit unit;
    const double *v; /* one value per point; only positive, finite ones are drawn */
    bool linear;     /* from 0; else logarithmic */
};

struct cli_plot {
    const char *title;
    struct cli_plot_axis x, y;
    size_t n;
    const char *const *line; /* one per point: the name of its line */
};
void cli_plot_draw(FILE *out, const struct cli_plot *p);

/* A bar per name, its parts end to end. Values that are not positive have no length. */
struct cli_bars {
    const char *title, *label; /* label: of the axis */
    enum cli_plot_unit unit;
    bool from_one; /* ratios: bars begin at 1, the axis is logarithmic; one part */
    size_t n, parts;
    const char *const *name; /* n */
    const char *const *part; /* names of the parts; NULL: one part without a name */
    const double *v;         /* n x parts, by name */
    const char *const *text; /* n: beside the end of each bar */
    double mark;             /* a line across all bars, where > 0 */
    const char *mark_text;
};
void cli_bars_draw(FILE *out, const struct cli_bars *b);

/* What happens when: rows of spans on one axis of time. */
struct cli_span {
    size_t row, kind; /* kind: an index of `kinds`, which has its colour */
    double from_us, to_us;
};
struct cli_tracks {
    const char *title;
    size_t nrows, nkinds, nspans;
    const char *const *row, *const *kind; /* their names */
    const struct cli_span *span;
    double end_us; /* of the axis: pictures of one page have the same */
};
void cli_tracks_draw(FILE *out, const struct cli_tracks *t);

/* Between the files that draw: the beginning of a picture with its style and title; a text with
 * further attributes; the text of a tick; at most CLI_PLOT_TICKS round numbers from 0 to max. */
enum { CLI_PLOT_TICKS = 9 };
void cli_plot_head(FILE *out, double width, double height, const char *title);
void cli_plot_label(FILE *out, double x, double y, const char *style, const char *text);
const char *cli_plot_tick(enum cli_plot_unit unit, double v, char *buf, size_t cap);
size_t cli_plot_linear_ticks(double max, enum cli_plot_unit unit, double *ret);

/* Formats a number for a table with four significant digits and never an exponent: 14620, 5903,
 * 1.234, 0.00012; "-" when it is not finite. Returns buf. */
char *cli_format_number(double v, char *buf, size_t cap);
#endif
