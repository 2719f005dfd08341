/* explain_html.c - the page of tutti explain: the winner, how far it is from the bound, every
 * candidate as a bar, what proves the bound, refusals and their reasons, the winners by size. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/explain.h"
#include "cli/html.h"
#include "cli/plot.h"

static bool is_priced(const struct explain_line *x)
{
    return !x->c.refused && !x->c.skipped;
}

/* The candidates that have a price, as bars: ratios to the bound, or times where the bound is 0. */
static void draw_candidates(FILE *out, const struct explain_line *all, size_t n, double bound_us)
{
    const char *name[EXPLAIN_LINES], *text[EXPLAIN_LINES];
    char buf[EXPLAIN_LINES][96], us[64];
    double v[EXPLAIN_LINES];
    size_t shown = 0;
    for (size_t i = 0; i < n && is_priced(&all[i]); i++, shown++) {
        double time_us = cli_explain_us(&all[i]);
        v[i] = bound_us > 0 ? time_us / bound_us : time_us;
        tutti_format_us(time_us, us, sizeof us);
        if (bound_us > 0)
            snprintf(buf[i], sizeof buf[i], "%.3f x, %s", v[i], us);
        else
            snprintf(buf[i], sizeof buf[i], "%s", us);
        name[i] = all[i].c.algo;
        text[i] = buf[i];
    }
    cli_bars_draw(
        out, &(struct cli_bars){.title = "Candidates, the fastest first",
                                .label = bound_us > 0 ? "time, in multiples of the bound" : "time",
                                .unit = bound_us > 0 ? CLI_PLOT_NUMBER : CLI_PLOT_US,
                                .from_one = bound_us > 0,
                                .n = shown,
                                .parts = 1,
                                .name = name,
                                .v = v,
                                .text = text});
}

static void put_candidates(FILE *out, const struct explain_line *all, size_t n, const char *winner)
{
    char us[64], flow[64];
    cli_html_table(out, "algorithm|predicted|at flow level|x bound|why");
    for (size_t i = 0; i < n; i++) {
        const struct tutti_candidate *c = &all[i].c;
        cli_html_row(out, !strcmp(c->algo, winner));
        cli_html_cell(out, false, "%s", c->algo);
        if (is_priced(&all[i])) {
            cli_html_cell(out, true, "%s", tutti_format_us(c->predicted_us, us, sizeof us));
            cli_html_cell(out, true, "%s",
                          all[i].flow_us > 0 ? tutti_format_us(all[i].flow_us, flow, sizeof flow)
                                             : "-");
            if (c->ratio_to_bound > 0)
                cli_html_cell(out, true, "%.3f", cli_explain_ratio(&all[i]));
            else
                cli_html_cell(out, true, "-");
        } else {
            cli_html_cell(out, true, "%s", c->refused ? "refused" : "skipped");
            cli_html_cell(out, true, " ");
            cli_html_cell(out, true, " ");
        }
        cli_html_cell(out, false, "%s", c->why);
    }
    cli_html_table_end(out);
}

/* The ends of every range as points, and a table. */
static void put_envelope(FILE *out, const struct explained *x)
{
    const struct tutti_envelope_piece *e = x->envelope;
    size_t n = x->npieces;
    char a[64], b[64], c[64], d[64];
    double *v = calloc(4 * n + 1, sizeof *v);
    const char **line = calloc(2 * n + 1, sizeof *line);
    cli_html_section(out, "Winners by size");
    for (size_t i = 0; v && line && i < n; i++) {
        v[2 * i] = (double)e[i].from_bytes;
        v[2 * i + 1] = (double)e[i].to_bytes;
        v[2 * n + 2 * i] = e[i].from_us;
        v[2 * n + 2 * i + 1] = e[i].to_us;
        line[2 * i] = line[2 * i + 1] = e[i].algo;
    }
    if (v && line)
        cli_plot_draw(out, &(struct cli_plot){"The winner and its predicted time",
                                              {"size of the vector", CLI_PLOT_BYTES, v, false},
                                              {"time", CLI_PLOT_US, v + 2 * n, false},
                                              2 * n,
                                              line});
    cli_html_table(out, "from|to|algorithm|time at from|time at to");
    for (size_t i = 0; i < n; i++) {
        cli_html_row(out, false);
        cli_html_cell(out, true, "%s", tutti_format_size(e[i].from_bytes, a, sizeof a));
        cli_html_cell(out, true, "%s", tutti_format_size(e[i].to_bytes, b, sizeof b));
        cli_html_cell(out, false, "%s", e[i].algo);
        cli_html_cell(out, true, "%s", tutti_format_us(e[i].from_us, c, sizeof c));
        cli_html_cell(out, true, "%s", tutti_format_us(e[i].to_us, d, sizeof d));
    }
    cli_html_table_end(out);
    cli_html_section_end(out);
    free(v);
    free(line);
}

/* The winner, how far it is from the bound, and what the runner-up would take. */
static void put_verdict(FILE *out, const struct explained *x, const struct explain_line *all,
                        size_t n)
{
    struct tutti_plan_info i;
    char us[64], bound[64], next[64] = "", was[64];
    tutti_plan_info(x->p, NULL, &i);
    double flow = tutti_plan_flow_us(x->p, SIZE_MAX), time = flow > 0 ? flow : i.predicted_us;
    for (size_t k = 0; k < n && !*next && is_priced(&all[k]); k++)
        if (strcmp(all[k].c.algo, i.algo))
            snprintf(next, sizeof next, "; next is %.40s", all[k].c.algo);
    tutti_format_us(time, us, sizeof us);
    tutti_format_us(i.bound_us, bound, sizeof bound);
    if (i.bound_us > 0)
        cli_html_verdict(out, "%s wins: %s, %.3f times the bound of %s that no plan can beat%s.",
                         i.algo, us, time / i.bound_us, bound, next);
    else
        cli_html_verdict(out, "%s wins: %s%s.", i.algo, us, next);
    if (x->before)
        cli_html_note(out, "Without the what-if: %s, %s.", tutti_plan_algo(x->before),
                      tutti_format_us(tutti_plan_predicted_us(x->before), was, sizeof was));
    cli_html_note(out, "%s",
                  i.from_tuning ? "The tuning file decided."
                  : flow > 0 ? "Times at flow level decided; times within 2 % are ties, of which "
                               "the plan with the fewest messages wins."
                             : "Times at level step decided; times within 2 % are ties, of which "
                               "the plan with the fewest messages wins.");
    cli_html_note(out, "Bound (%s): %s", i.bound_kind, i.certificate);
}

int cli_explain_page(const struct cli_args *a, const struct explained *x, FILE *out)
{
    struct explain_line *all = calloc(EXPLAIN_LINES, sizeof *all);
    struct tutti_topo_info info;
    struct tutti_plan_info i;
    struct tutti_error err;
    char title[400], size[64];
    if (!all)
        return cli_bad(a, "out of memory");
    if (tutti_topo_info(x->t, &info, &err)) {
        free(all);
        return cli_fail(a, &err);
    }
    size_t n = cli_explain_lines(x->p, all);
    tutti_plan_info(x->p, NULL, &i);
    snprintf(title, sizeof title, "%s of %s on %.200s", tutti_coll_name(x->problem->o.coll),
             tutti_format_size(x->problem->bytes, size, sizeof size), info.spec);
    cli_html_begin(out, title);
    put_verdict(out, x, all, n);
    cli_html_section(out, "All candidates");
    draw_candidates(out, all, n, i.bound_us);
    put_candidates(out, all, n, i.algo);
    cli_html_section_end(out);
    if (x->npieces)
        put_envelope(out, x);
    cli_html_end(out);
    free(all);
    return 0;
}
