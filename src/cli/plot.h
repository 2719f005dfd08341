/* plot.h - pictures of tables as SVG: lines over two logarithmic axes. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stddef.h>
#include <stdio.h>

enum cli_plot_unit { CLI_PLOT_NUMBER, CLI_PLOT_BYTES, CLI_PLOT_US };

struct cli_plot_axis {
    const char *label;
    enum cli_plot_unit unit;
    const double *v; /* one value per point; only positive, finite ones are drawn */
};

struct cli_plot {
    const char *title;
    struct cli_plot_axis x, y;
    size_t n;
    const char *const *line; /* one per point: the name of its line */
};
/* Write errors show in the stream. */
void cli_plot_draw(FILE *out, const struct cli_plot *p);

/* Formats a number for a table with four significant digits and never an exponent: 14620, 5903,
 * 1.234, 0.00012; "-" when it is not finite. Returns buf. */
char *cli_format_number(double v, char *buf, size_t cap);
#endif
