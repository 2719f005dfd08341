/* plot_int.h - what plot.c (lines, names) and plot_ticks.c (ticks of both axes) share. */
#ifndef CLI_PLOT_INT_H
#define CLI_PLOT_INT_H

#include "cli/plot.h"

struct scale {
    double lo, hi; /* the ends: log10 of them, unless linear */
    double length;
    bool linear;
};

/* plot_ticks.c, plot.c */
/* Has the point a place on logarithmic axes? */
bool cli_plot_drawn(const struct cli_plot *p, size_t i);
/* Pixels from the beginning of the axis. */
double cli_plot_along(const struct scale *s, double v);
/* A grid line and a text for each tick of one axis. */
void cli_plot_draw_ticks(FILE *out, const struct cli_plot *p, const struct scale *s,
                         const struct cli_plot_axis *axis);

/* Sizes in pixels of the area inside the axes and around it; limits of what is drawn. */
enum { LEFT = 96, TOP = 78, WIDTH = 720, HEIGHT = 430, FOOT = 70, LINES = 16, TITLE_CHARS = 92 };

#endif
