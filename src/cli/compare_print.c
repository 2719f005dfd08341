/* compare_print.c - the answer of tutti compare: one JSON document, two tables, or a picture. The
 * best of a size is found here, by time and by time x cost. */
#include "cli/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"

/* Time x cost, the second measure; NaN when the network refuses. */
static double time_cost(const struct comparison *c, size_t s, size_t n)
{
    return c->entry[s][n].us * c->network[n].cost;
}

/* The network with the least time, or the least time x cost, for size s; the first one of
 * equals; `networks` when all refuse. */
static size_t best_network(const struct comparison *c, size_t s, bool by_cost)
{
    size_t found = c->networks;
    double least = INFINITY;
    for (size_t n = 0; n < c->networks; n++) {
        double v = by_cost ? time_cost(c, s, n) : c->entry[s][n].us;
        if (v < least) {
            least = v;
            found = n;
        }
    }
    return found;
}

/* The networks with their costs, once; rows refer to them by spec. */
static void json_networks(struct tutti_json *j, const struct comparison *c)
{
    tutti_json_array(j, "networks");
    for (size_t n = 0; n < c->networks; n++) {
        const struct compare_network *x = &c->network[n];
        tutti_json_object(j, NULL);
        tutti_json_string(j, "topo", x->spec);
        tutti_json_u64(j, "ranks", x->info.ranks);
        tutti_json_u64(j, "cables", x->info.links);
        tutti_json_u64(j, "switches", x->info.switches);
        tutti_json_real(j, "cost", x->cost);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

/* One row: a network at a size, and whether it is the best of that size by either measure. */
static void json_entry(struct tutti_json *j, const struct comparison *c, size_t s, size_t n)
{
    const struct compare_entry *e = &c->entry[s][n];
    tutti_json_object(j, NULL);
    tutti_json_u64(j, "bytes", c->bytes[s]);
    tutti_json_string(j, "topo", c->network[n].spec);
    tutti_json_bool(j, "refused", e->refused);
    if (e->refused)
        tutti_json_string(j, "why", e->why);
    else
        tutti_json_string(j, "algo", e->algo);
    tutti_json_real(j, "predicted_us", e->us);
    if (!e->refused)
        tutti_json_string(j, "chosen_by", e->by_flow ? "flow" : "step");
    tutti_json_real(j, "bound_us", e->bound_us);
    tutti_json_real(j, "ratio_to_bound", e->ratio);
    tutti_json_real(j, "time_x_cost", time_cost(c, s, n));
    tutti_json_bool(j, "fastest", best_network(c, s, false) == n);
    tutti_json_bool(j, "least_time_x_cost", best_network(c, s, true) == n);
    tutti_json_end(j);
}

void cli_compare_json(const struct comparison *c)
{
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "coll", tutti_coll_name(c->problem.o.coll));
    tutti_json_real(j, "cable_cost", c->cable);
    tutti_json_real(j, "switch_cost", c->switched);
    json_networks(j, c);
    tutti_json_array(j, "rows");
    for (size_t s = 0; s < c->sizes; s++)
        for (size_t n = 0; n < c->networks; n++)
            json_entry(j, c, s, n);
    tutti_json_end(j);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* One line of the table; the size is printed only on the first line of its group. */
static void print_entry(const struct comparison *c, size_t s, size_t n, int width)
{
    const struct compare_entry *e = &c->entry[s][n];
    size_t quick = best_network(c, s, false);
    char size[64] = "", time[64], ratio[48] = "-", cost[64], slower[64];
    if (!n)
        tutti_format_size(c->bytes[s], size, sizeof size);
    if (e->refused) {
        printf("%10s    %-*s  refused: %s\n", size, width, c->network[n].spec, e->why);
        return;
    }
    if (isfinite(e->ratio))
        snprintf(ratio, sizeof ratio, "%.3f", e->ratio);
    snprintf(slower, sizeof slower, "%.3f", e->us > 0 ? e->us / c->entry[s][quick].us : 1);
    cli_format_number(time_cost(c, s, n) / 1000, cost, sizeof cost);
    printf("%10s  %c %-*s  %-19s %12s %8s %10s %11s %s\n", size, quick == n ? '*' : ' ', width,
           c->network[n].spec, e->algo, tutti_format_us(e->us, time, sizeof time), ratio, slower,
           cost, best_network(c, s, true) == n ? "*" : "");
}

/* Networks of different sizes are compared with a warning: they do different work. */
static bool same_ranks(const struct comparison *c)
{
    for (size_t n = 1; n < c->networks; n++)
        if (c->network[n].info.ranks != c->network[0].info.ranks)
            return false;
    return true;
}

void cli_compare_text(const struct comparison *c)
{
    /* The column of specs is as wide as the longest one, and at least as wide as its title. */
    int width = 7;
    char cost[64], cable[64], switched[64];
    for (size_t n = 0; n < c->networks; n++)
        width = (int)strlen(c->network[n].spec) > width ? (int)strlen(c->network[n].spec) : width;
    printf("%-*s  %8s %8s %8s %10s\n", width, "network", "ranks", "cables", "switches", "cost");
    for (size_t n = 0; n < c->networks; n++) {
        const struct compare_network *x = &c->network[n];
        printf("%-*s  %8u %8u %8u %10s\n", width, x->spec, x->info.ranks, x->info.links,
               x->info.switches, cli_format_number(x->cost, cost, sizeof cost));
    }
    printf("cost: a cable %s, a switch %s, whatever their speed (--cost C,S)\n",
           cli_format_number(c->cable, cable, sizeof cable),
           cli_format_number(c->switched, switched, sizeof switched));
    if (!same_ranks(c))
        printf("the networks have different numbers of ranks: the same vector is more work "
               "for more ranks\n");
    printf("\n%s, the best plan of each; * is the least of a size\n%10s    %-*s  %-19s %12s %8s "
           "%10s %11s\n",
           tutti_coll_name(c->problem.o.coll), "size", width, "network", "algorithm", "predicted",
           "x bound", "x fastest", "ms x cost");
    for (size_t s = 0; s < c->sizes; s++)
        for (size_t n = 0; n < c->networks; n++)
            print_entry(c, s, n, width);
}

/* Draws a line per network. The points of a network are consecutive: point i is size i % sizes
 * of network i / sizes. xy holds all x values, then all y values. */
int cli_compare_draw(const struct cli_args *a, const struct comparison *c, struct cli_output *svg)
{
    size_t points = c->networks * c->sizes;
    double *xy = calloc(2 * points, sizeof *xy);
    const char **line = calloc(points, sizeof *line);
    char(*names)[200] = calloc(c->networks, sizeof *names), title[96];
    /* One check for all three; each step below is skipped after a failure. */
    bool ok = xy && line && names;
    for (size_t n = 0; ok && n < c->networks; n++)
        snprintf(names[n], sizeof names[n], "%.120s: %u cable%s, %u switch%s", c->network[n].spec,
                 c->network[n].info.links, c->network[n].info.links == 1 ? "" : "s",
                 c->network[n].info.switches, c->network[n].info.switches == 1 ? "" : "es");
    for (size_t i = 0; ok && i < points; i++) {
        line[i] = names[i / c->sizes];
        xy[i] = (double)c->bytes[i % c->sizes];
        xy[points + i] = c->entry[i % c->sizes][i / c->sizes].us;
    }
    snprintf(title, sizeof title, "%s, the best plan on each network (predicted)",
             tutti_coll_name(c->problem.o.coll));
    if (ok)
        cli_plot_draw(svg->f, &(struct cli_plot){title,
                                                 {"size of the vector", CLI_PLOT_BYTES, xy, false},
                                                 {"time", CLI_PLOT_US, xy + points, false},
                                                 points,
                                                 line});
    free(xy);
    free(line);
    free(names);
    return ok ? cli_output_keep(a, svg) : cli_bad(a, "out of memory");
}
