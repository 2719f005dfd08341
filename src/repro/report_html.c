/* report_html.c - a report as pictures and as a page: claims and what must hold first, then every
 * table with its pictures, the notes last. */
#include <stdlib.h>
#include <string.h>

#include "cli/html.h"
#include "cli/output.h"
#include "cli/plot.h"
#include "repro/report_int.h"

/* The axis for a column: its name's ending tells the unit and the factor to it. */
static struct cli_plot_axis axis_of(const char *column, double *ret_scale)
{
    static const struct {
        const char *end, *label;
        enum cli_plot_unit unit;
        double scale;
    } units[] = {{"bytes", "size of the vector", CLI_PLOT_BYTES, 1},
                 {"_mib", "size", CLI_PLOT_BYTES, 1 << 20},
                 {"_us", "time", CLI_PLOT_US, 1},
                 {"_ms", "time", CLI_PLOT_US, 1000},
                 {"busbw_GBs", "bus bandwidth, GB/s", CLI_PLOT_NUMBER, 1},
                 {"ratio_to_bound", "time in multiples of the bound", CLI_PLOT_NUMBER, 1}};
    size_t n = strlen(column);
    *ret_scale = 1;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        size_t k = strlen(units[i].end);
        if (n < k || strcmp(column + n - k, units[i].end))
            continue;
        *ret_scale = units[i].scale;
        return (struct cli_plot_axis){units[i].label, units[i].unit, NULL,
                                      !strcmp(units[i].end, "busbw_GBs")};
    }
    return (struct cli_plot_axis){column, CLI_PLOT_NUMBER, NULL, false};
}

/* Picture k of a table; false when out of memory. */
static bool draw_table(const struct table *t, size_t k, FILE *out)
{
    const struct picture *pic = &t->plot[k];
    size_t rows = t->ncolumns ? t->ncells / t->ncolumns : 0;
    double sx, sy, *xy = calloc(2 * rows + 1, sizeof *xy);
    const char **line = calloc(rows + 1, sizeof *line);
    struct cli_plot p = {.title = t->title,
                         .x = axis_of(t->column[pic->x], &sx),
                         .y = axis_of(t->column[pic->y], &sy),
                         .n = rows,
                         .line = line};
    bool ok = line && xy;
    for (size_t i = 0; ok && i < rows; i++) {
        line[i] = t->cells[i * t->ncolumns + pic->line].text;
        xy[i] = t->cells[i * t->ncolumns + pic->x].real * sx;
        xy[rows + i] = t->cells[i * t->ncolumns + pic->y].real * sy;
    }
    p.x.v = xy;
    p.y.v = ok ? xy + rows : NULL;
    if (ok)
        cli_plot_draw(out, &p);
    free(line);
    free(xy);
    return ok;
}

int repro_draw(const struct repro_report *r, const struct cli_args *a, const char *dir)
{
    for (size_t i = 0; i < r->ntables; i++)
        for (size_t k = 0; k < r->tables[i].nplots; k++) {
            const struct table *t = &r->tables[i];
            char path[600];
            snprintf(path, sizeof path, "%.400s/%s-%s%s%.60s.svg", dir, r->name, t->name,
                     k ? "-" : "", k ? t->column[t->plot[k].y] : "");
            FILE *out = fopen(path, "w");
            if (!out)
                return cli_bad(a, "cannot write %s", path);
            bool ok = draw_table(t, k, out);
            if (fclose(out) || !ok)
                return cli_bad(a, "cannot write %s", path);
        }
    return CLI_OK;
}

/* ---- the page ---- */

static void put_table(FILE *out, const struct table *t)
{
    char columns[sizeof t->columns + REPRO_COLUMNS] = "";
    for (size_t c = 0; c < t->ncolumns; c++) {
        size_t n = strlen(columns);
        snprintf(columns + n, sizeof columns - n, "%s%s", c ? "|" : "", t->column[c]);
    }
    /* for people: a_b_c is read as three words */
    for (char *c = columns; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    cli_html_table(out, columns);
    for (size_t i = 0; i < t->ncells; i++) {
        if (i % t->ncolumns == 0)
            cli_html_row(out, false);
        cli_html_cell(out, t->cells[i].kind != TEXT, "%s", t->cells[i].text);
    }
    cli_html_table_end(out);
}

static bool put_section(FILE *out, const struct table *t)
{
    bool ok = true;
    cli_html_section(out, t->title);
    for (size_t k = 0; k < t->nplots; k++)
        ok = draw_table(t, k, out) && ok;
    put_table(out, t);
    cli_html_section_end(out);
    return ok;
}

static void put_checks(const struct repro_report *r, FILE *out)
{
    cli_html_section(out, "What must hold");
    cli_html_table(out, "|statement");
    for (size_t i = 0; i < r->nlines; i++)
        if (r->lines[i].check) {
            cli_html_row(out, !r->lines[i].ok);
            cli_html_cell(out, false, "%s", r->lines[i].ok ? "holds" : "MISSED");
            cli_html_cell(out, false, "%s", r->lines[i].text);
        }
    cli_html_table_end(out);
    cli_html_section_end(out);
}

/* Tables of claims ("claim", "claims") come first. */
static bool is_claim(const struct table *t)
{
    return !strncmp(t->name, "claim", 5);
}

static bool put_report(const struct repro_report *r, FILE *out)
{
    char title[100];
    size_t checks = 0, missed = 0;
    bool ok = true;
    for (size_t i = 0; i < r->nlines; i++) {
        checks += r->lines[i].check;
        missed += r->lines[i].check && !r->lines[i].ok;
    }
    snprintf(title, sizeof title, "tutti repro %s%s", r->name, r->quick ? " --quick" : "");
    cli_html_begin(out, title);
    if (missed)
        cli_html_verdict(out, "%zu of %zu statements do not hold.", missed, checks);
    else
        cli_html_verdict(out, "All %zu statements hold.", checks);
    if (r->nlines && !r->lines[0].check)
        cli_html_note(out, "%s", r->lines[0].text);
    for (size_t i = 0; i < r->ntables; i++)
        if (is_claim(&r->tables[i]))
            ok = put_section(out, &r->tables[i]) && ok;
    put_checks(r, out);
    for (size_t i = 0; i < r->ntables; i++)
        if (!is_claim(&r->tables[i]))
            ok = put_section(out, &r->tables[i]) && ok;
    cli_html_section(out, "Notes");
    for (size_t i = 1; i < r->nlines; i++)
        if (!r->lines[i].check)
            cli_html_note(out, "%s", r->lines[i].text);
    cli_html_section_end(out);
    cli_html_end(out);
    return ok;
}

int repro_page(const struct repro_report *r, const struct cli_args *a, const char *dir)
{
    char path[600];
    snprintf(path, sizeof path, "%.400s/%s.html", dir, r->name);
    FILE *out = fopen(path, "w");
    if (!out)
        return cli_bad(a, "cannot write %s", path);
    bool ok = put_report(r, out);
    return fclose(out) || !ok ? cli_bad(a, "cannot write %s", path) : CLI_OK;
}
