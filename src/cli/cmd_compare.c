/* cmd_compare.c - tutti compare: the best plan of each network for each size, with its time, its
 * ratio to the bound, and the cost of the network in cables and switches.
 *
 *     sizes x networks -> entry[s][n] (a plan or a refusal) -> table, JSON, SVG
 *
 * Everything is planned first and printed afterwards. A refusal is an entry like any other: its
 * times are NaN, which no comparison `<` selects as the best.
 *
 *     $ tutti compare star:4@1Gbps,5us ring:4@1Gbps,1us --sizes 1M..1M
 *     ...
 *       size    network           algorithm         predicted  x bound  x fastest  ms x cost
 *      1 MiB    star:4@1Gbps,5us  halving-doubling   12.62 ms    1.003      2.004      63.11
 *             * ring:4@1Gbps,1us  bi-ring            6.297 ms    1.001      1.000      25.19 * */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/plot.h"

#define DEFAULT_SIZES "64K..256M"
enum { MAX_SIZES = 64 };

static const struct cli_option own[] = {
    {"sizes", 0, "MIN..MAX", "bytes of the whole vector (default " DEFAULT_SIZES ")"},
    {"factor", 'f', "F", "from one size to the next (default 4)"},
    {"coll", 'c', "COLL", "collective (default allreduce)"},
    {"dtype", 'd', "TYPE", "element type (default f32)"},
    {"op", 0, "OP", "reduction (default sum)"},
    {"root", 0, "RANK", "root of a rooted collective (default 0)"},
    {"cost", 0, "C,S", "what a cable and a switch cost (default 1,1)"},
    {"svg", 0, "FILE", "also draw times by size"},
    {0}};
static const struct cli_option *const options[] = {own, cli_choice_options, cli_json_options, NULL};

/* A network to compare. `cost` is cables and switches at the prices of --cost. */
struct network {
    const char *spec; /* as given */
    struct tutti_topo *t;
    struct tutti_topo_info info;
    double cost;
};

/* The best plan of one network for one size. */
struct entry {
    bool refused, by_flow; /* us is the time at flow level, by which the plan was chosen */
    char algo[48], why[504];
    double us, bound_us, ratio; /* NaN when refused; ratio also when the bound is 0 */
};

/* All of a comparison; large, hence on the heap. */
struct comparison {
    struct cli_problem problem;
    double cable, switched;
    size_t networks, sizes;
    struct network network[CLI_MAX_WORDS];
    uint64_t bytes[MAX_SIZES];
    struct entry entry[MAX_SIZES][CLI_MAX_WORDS];
};

/* ---- the command line ---- */

/* The sizes: min, min * factor, ... and always max as the last one. `b > max / factor` is the
 * test for an overflow of b * factor. */
static int get_sizes(const struct cli_args *a, struct comparison *c)
{
    const char *text = cli_value(a, "sizes"), *f = cli_value(a, "factor");
    uint64_t min, max, factor = 4, each = tutti_dtype_bytes(c->problem.o.dtype);
    struct tutti_error err;
    int code = cli_get_range(a, "sizes", text ? text : DEFAULT_SIZES, &min, &max);
    if (code)
        return code;
    if (f && tutti_parse_u64(f, 2, 1 << 20, &factor, &err))
        return cli_bad(a, "--factor: %s", err.text);
    if (min % each || max % each)
        return cli_bad(a, "--sizes %s: not whole numbers of %s elements (%llu bytes each)", text,
                       tutti_dtype_name(c->problem.o.dtype), (unsigned long long)each);
    for (uint64_t b = min;
         c->sizes < MAX_SIZES - 1 && b<max; b = b> max / factor ? max : b * factor)
        c->bytes[c->sizes++] = b;
    c->bytes[c->sizes++] = max;
    return 0;
}

/* Parses "C,S": two finite numbers that are not negative. */
static int get_cost(const struct cli_args *a, struct comparison *c)
{
    const char *text = cli_value(a, "cost");
    char *end = NULL, *last = NULL;
    c->cable = c->switched = 1;
    if (!text)
        return 0;
    c->cable = strtod(text, &end);
    if (end != text && *end == ',')
        c->switched = strtod(end + 1, &last);
    if (!last || last == end + 1 || *last || !(c->cable >= 0 && c->switched >= 0) ||
        !isfinite(c->cable + c->switched))
        return cli_bad(a, "--cost %.80s: what a cable and a switch cost is expected, e.g. 1,10",
                       text);
    return 0;
}

/* c->networks counts the opened ones, so that compare_run frees exactly those. */
static int open_networks(const struct cli_args *a, struct comparison *c)
{
    struct tutti_error err;
    for (size_t i = 0; i < a->nwords; i++) {
        struct network *n = &c->network[i];
        n->spec = a->words[i];
        int code = cli_parse_topo(a, n->spec, &n->t);
        if (code)
            return code;
        c->networks++;
        if (tutti_topo_info(n->t, &n->info, &err))
            return cli_fail(a, &err);
        n->cost = c->cable * n->info.links + c->switched * n->info.switches;
    }
    return 0;
}

/* ---- planning ---- */

/* Plans one entry. A refusal or an exhausted budget is a result; other failures end the command. */
static int plan(const struct cli_args *a, const struct comparison *c, size_t network,
                uint64_t bytes, struct entry *ret)
{
    struct tutti_plan_options o = c->problem.o;
    struct tutti_plan *p = NULL;
    struct tutti_plan_info info;
    struct tutti_error err;
    *ret = (struct entry){.us = NAN, .bound_us = NAN, .ratio = NAN};
    o.count = bytes / tutti_dtype_bytes(o.dtype);
    if (tutti_plan_make(c->network[network].t, &o, &p, &err)) {
        ret->refused = true;
        snprintf(ret->why, sizeof ret->why, "%s", err.text);
        return err.status == TUTTI_ERR_REFUSED || err.status == TUTTI_ERR_BUDGET
                   ? 0
                   : cli_fail(a, &err);
    }
    tutti_plan_info(p, NULL, &info);
    snprintf(ret->algo, sizeof ret->algo, "%s", info.algo);
    ret->by_flow = tutti_plan_flow_us(p, SIZE_MAX) > 0;
    ret->us = ret->by_flow ? tutti_plan_flow_us(p, SIZE_MAX) : info.predicted_us;
    ret->bound_us = info.bound_us;
    ret->ratio = info.bound_us > 0 ? ret->us / info.bound_us : (double)NAN;
    tutti_plan_free(p);
    return 0;
}

/* Plans every network for every size; the longest part of the command, hence the progress line. */
static int plan_all(const struct cli_args *a, struct comparison *c)
{
    struct cli_progress progress;
    int code = 0;
    cli_progress_begin(&progress, "planning");
    for (size_t s = 0; s < c->sizes && !code; s++)
        for (size_t n = 0; n < c->networks && !code; n++) {
            cli_progress_show(&progress,
                              (double)(s * c->networks + n) / (double)(c->sizes * c->networks));
            code = plan(a, c, n, c->bytes[s], &c->entry[s][n]);
        }
    cli_progress_end(&progress);
    return code;
}

/* Time x cost, the second measure; NaN when the network refuses. */
static double time_cost(const struct comparison *c, size_t s, size_t n)
{
    return c->entry[s][n].us * c->network[n].cost;
}

/* The network with the least time, or the least time x cost, for size s; the first one of
 * equals; `networks` when all refuse. */
static size_t best(const struct comparison *c, size_t s, bool by_cost)
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

/* ---- answers ---- */

/* The networks with their costs, once; rows refer to them by spec. */
static void json_networks(struct tutti_json *j, const struct comparison *c)
{
    tutti_json_array(j, "networks");
    for (size_t n = 0; n < c->networks; n++) {
        const struct network *x = &c->network[n];
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
    const struct entry *e = &c->entry[s][n];
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
    tutti_json_bool(j, "fastest", best(c, s, false) == n);
    tutti_json_bool(j, "least_time_x_cost", best(c, s, true) == n);
    tutti_json_end(j);
}

static void print_json(const struct comparison *c)
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
    const struct entry *e = &c->entry[s][n];
    size_t quick = best(c, s, false);
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
           cost, best(c, s, true) == n ? "*" : "");
}

/* Networks of different sizes are compared with a warning: they do different work. */
static bool same_ranks(const struct comparison *c)
{
    for (size_t n = 1; n < c->networks; n++)
        if (c->network[n].info.ranks != c->network[0].info.ranks)
            return false;
    return true;
}

static void print_text(const struct comparison *c)
{
    /* The column of specs is as wide as the longest one, and at least as wide as its title. */
    int width = 7;
    char cost[64], cable[64], switched[64];
    for (size_t n = 0; n < c->networks; n++)
        width = (int)strlen(c->network[n].spec) > width ? (int)strlen(c->network[n].spec) : width;
    printf("%-*s  %8s %8s %8s %10s\n", width, "network", "ranks", "cables", "switches", "cost");
    for (size_t n = 0; n < c->networks; n++) {
        const struct network *x = &c->network[n];
        printf("%-*s  %8u %8u %8u %10s\n", width, x->spec, x->info.ranks, x->info.links,
               x->info.switches, cli_format_number(x->cost, cost, sizeof cost));
    }
    printf("cost: a cable %s, a switch %s, whatever their speed (--cost C,S)\n",
           cli_format_number(c->cable, cable, sizeof cable),
           cli_format_number(c->switched, switched, sizeof switched));
    if (!same_ranks(c))
        printf("the networks differ in their number of ranks: a vector of a size is more work on "
               "more of them\n");
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
static int compare_draw(const struct cli_args *a, const struct comparison *c,
                        struct cli_output *svg)
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

static int compare_compare(const struct cli_args *a, struct comparison *c, struct cli_output *svg)
{
    int code = cli_get_choice(a, &c->problem);
    if (!code && c->problem.o.coll == TUTTI_BARRIER)
        code = cli_bad(a, "a barrier moves no data: there are no sizes to compare");
    if (!code)
        code = get_sizes(a, c);
    if (!code)
        code = get_cost(a, c);
    if (!code)
        code = open_networks(a, c);
    /* Before planning: a file that cannot be written should fail at once. */
    if (!code)
        code = cli_output_open(a, "svg", svg);
    if (!code)
        code = plan_all(a, c);
    /* cli_output_keep clears svg->f, so that it must be asked before. */
    bool alone = svg->f == stdout;
    if (!code && svg->f)
        code = compare_draw(a, c, svg);
    if (code || alone)
        return code;
    if (cli_flag(a, "json"))
        print_json(c);
    else
        print_text(c);
    return CLI_OK;
}

/* The comparison is freed in any case; an unfinished picture is removed. */
static int compare_run(const struct cli_args *a)
{
    struct comparison *c = calloc(1, sizeof *c);
    struct cli_output svg = {0};
    const char *file = cli_value(a, "svg");
    if (!c)
        return cli_bad(a, "out of memory");
    cli_output_guard();
    int code = file && !strcmp(file, "-") && cli_flag(a, "json")
                   ? cli_bad(a, "only one of --json and --svg - can go to standard output")
                   : compare_compare(a, c, &svg);
    cli_output_drop(&svg);
    for (size_t n = 0; n < c->networks; n++)
        tutti_topo_free(c->network[n].t);
    free(c);
    return code;
}

const struct cli_command cli_compare = {
    .name = "compare",
    .synopsis =
        "compare TOPO TOPO .. [--sizes MIN..MAX] [--coll COLL] [--cost C,S] [--svg FILE] [--json]",
    .summary =
        "networks side by side: the best plan's time by size, cables and switches, time x cost",
    .details = "For every size and network the best plan is made as tutti plan does. Cost counts "
               "cables and switches, each at the price of\n"
               "--cost; of time x cost (in ms), less is better. FILE - is standard output "
               "(and no table).",
    .examples =
        "tutti compare star:16@10Gbps,5us torus:4x4@10Gbps,1us fattree:4,2@10Gbps,1us --sizes "
        "64K..256M --svg networks.svg\n"
        "tutti compare nics:25G,25G,25G,10G star:4@25Gbps --coll all-gather --cost 1,20 --json",
    .options = options,
    .min_words = 1,
    .max_words = CLI_MAX_WORDS,
    .run = compare_run,
};
