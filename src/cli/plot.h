/* plot.h - pictures of tables for slides: lines over two logarithmic axes. */
#ifndef CLI_PLOT_H
#define CLI_PLOT_H

#include <stddef.h>
#include <stdio.h>

enum cli_plot_unit { CLI_PLOT_NUMBER, CLI_PLOT_BYTES, CLI_PLOT_US };

struct cli_plot_axis {
    const char *label;
    enum cli_plot_unit unit;
    const double *v; /* of each point; only positive, finite ones are drawn */
};

struct cli_plot {
    const char *title;
    struct cli_plot_axis x, y;
    size_t n;
    const char *const *line; /* of each point: the name of its line */
};
void cli_plot_draw(FILE *out, const struct cli_plot *p);

/* A number for a table: four digits, never an exponent: 14620, 5903, 1.234, 0.00012. Not finite:
 * "-". Returns buf. */
char *cli_format_number(double v, char *buf, size_t cap);
#endif
