/* report.c - the report of an experiment: notes, tables and checks are collected, then printed
 * (report_print.c) and drawn (report_html.c).
 *
 * An experiment runs twice: first with `counting`, in which nothing is computed and only the number
 * of computations is found for the progress line; then in earnest. The first failure is kept in the
 * report, and everything after it does nothing: experiments need no error handling of their own. */
#include "repro/report_int.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli/plot.h"

/* Frees what the report holds, not the report itself. */
static void clear(struct repro_report *r)
{
    repro_forget_plan(r);
    for (size_t i = 0; i < r->ntables; i++)
        free(r->tables[i].cells);
    free(r->tables);
    free(r->lines);
}

/* The counting run builds a report, too, which is thrown away. */
struct repro_report *repro_run(const struct repro_experiment *e, bool quick)
{
    struct repro_report count = {.name = e->name, .quick = quick, .counting = true},
                        *r = malloc(sizeof *r);
    char what[64];
    if (!r)
        return NULL;
    e->run(&count);
    clear(&count);
    *r = (struct repro_report){.name = e->name, .quick = quick, .total = count.begun};
    snprintf(what, sizeof what, "repro %s", e->name);
    cli_wait_begin(what);
    e->run(r);
    cli_wait_end();
    return r;
}

bool repro_counts(struct repro_report *r)
{
    r->begun++;
    if (!r->counting)
        repro_progress(r, 0);
    return r->counting;
}

void repro_progress(struct repro_report *r, double fraction)
{
    cli_wait_done(((double)r->begun - 1 + fraction) / (double)r->total);
}

bool repro_is_quick(const struct repro_report *r)
{
    return r->quick;
}

bool repro_failed(const struct repro_report *r)
{
    return r->failed;
}

/* Only the first failure is kept: later ones follow from it. */
void repro_fail(struct repro_report *r, const struct tutti_error *err)
{
    if (!r->failed)
        r->err = *err;
    r->failed = true;
}

/* Out of memory is a failure like any other. */
static void fail_memory(struct repro_report *r)
{
    struct tutti_error err = {.status = TUTTI_ERR_MEMORY};
    snprintf(err.text, sizeof err.text, "out of memory");
    repro_fail(r, &err);
}

/* Makes room for one more than n elements. Arrays double when n is a power of two, so that no
 * capacity is stored. False when the report has failed. */
static bool report_grow(struct repro_report *r, void **array, size_t n, size_t elem)
{
    void *more = (n & (n - 1)) == 0 ? realloc(*array, (n ? 2 * n : 1) * elem) : *array;
    if (r->failed)
        return false;
    if (!more) {
        fail_memory(r);
        return false;
    }
    *array = more;
    return true;
}

/* Notes and checks share one list, in the order of the experiment. */
static void add_line(struct repro_report *r, bool check, bool ok, const char *fmt, va_list ap)
{
    void *array = r->lines;
    if (r->failed || !report_grow(r, &array, r->nlines, sizeof *r->lines))
        return;
    r->lines = array;
    struct line *l = &r->lines[r->nlines++];
    *l = (struct line){.check = check, .ok = ok};
    vsnprintf(l->text, sizeof l->text, fmt, ap);
}

void repro_note(struct repro_report *r, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(r, false, true, fmt, ap);
    va_end(ap);
}

void repro_check(struct repro_report *r, bool ok, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    add_line(r, true, ok, fmt, ap);
    va_end(ap);
}

void repro_table(struct repro_report *r, const char *name, const char *title, const char *columns)
{
    void *array = r->tables;
    if (r->failed || !report_grow(r, &array, r->ntables, sizeof *r->tables))
        return;
    r->tables = array;
    struct table *t = &r->tables[r->ntables++];
    *t = (struct table){0};
    snprintf(t->name, sizeof t->name, "%s", name);
    snprintf(t->title, sizeof t->title, "%s", title);
    snprintf(t->columns, sizeof t->columns, "%s", columns);
}

/* Cuts the text of columns at "|". The pieces point into the table, so that it must not move any
 * more: only after the last table was added. */
static void cut_columns(struct table *t)
{
    char *save = NULL;
    t->ncolumns = 0;
    for (char *c = strtok_r(t->columns, "|", &save); c && t->ncolumns < REPRO_COLUMNS;
         c = strtok_r(NULL, "|", &save))
        t->column[t->ncolumns++] = c;
}

/* The next cell of the table begun last; NULL when the report has failed. */
static struct cell *add_cell(struct repro_report *r, enum cell_kind kind)
{
    struct table *t = r->ntables ? &r->tables[r->ntables - 1] : NULL;
    if (r->failed || !t)
        return NULL;
    void *array = t->cells;
    if (!report_grow(r, &array, t->ncells, sizeof *t->cells))
        return NULL;
    t->cells = array;
    struct cell *c = &t->cells[t->ncells++];
    *c = (struct cell){.kind = kind, .real = NAN};
    return c;
}

void repro_text(struct repro_report *r, const char *fmt, ...)
{
    struct cell *c = add_cell(r, TEXT);
    va_list ap;
    if (!c)
        return;
    va_start(ap, fmt);
    vsnprintf(c->text, sizeof c->text, fmt, ap);
    va_end(ap);
}

void repro_real(struct repro_report *r, double value)
{
    struct cell *c = add_cell(r, REAL);
    if (!c)
        return;
    c->real = value;
    cli_format_number(value, c->text, sizeof c->text);
}

void repro_count(struct repro_report *r, uint64_t value)
{
    struct cell *c = add_cell(r, COUNT);
    if (!c)
        return;
    c->count = value;
    c->real = (double)value;
    snprintf(c->text, sizeof c->text, "%llu", (unsigned long long)value);
}

/* The index of a column in "a|b|c"; 0 when there is none of that name. */
static size_t column_of(const char *columns, const char *name)
{
    size_t n = 0, len = strlen(name);
    for (const char *c = columns; c; c = strchr(c, '|')) {
        c += *c == '|';
        if (!strncmp(c, name, len) && (c[len] == '|' || !c[len]))
            return n;
        n++;
    }
    return 0;
}

/* Before cut_columns: the text of the columns is still whole. */
void repro_plot(struct repro_report *r, const char *x, const char *y, const char *line)
{
    struct table *t = r->ntables ? &r->tables[r->ntables - 1] : NULL;
    if (r->failed || !t)
        return;
    assert(t->nplots < REPRO_PLOTS);
    t->plot[t->nplots++] = (struct picture){column_of(t->columns, x), column_of(t->columns, y),
                                            column_of(t->columns, line)};
}

/* Columns are cut here, when no more tables are added. Pictures come before the report. */
int repro_close(struct repro_report *r, const struct cli_args *a, struct tutti_json *j)
{
    bool ok = true;
    int code = CLI_OK;
    for (size_t i = 0; i < r->nlines; i++)
        ok = ok && r->lines[i].ok;
    for (size_t i = 0; i < r->ntables; i++)
        cut_columns(&r->tables[i]);
    if (r->failed)
        code = cli_fail(a, &r->err);
    else if (cli_value(a, "svg"))
        code = repro_draw(r, a, cli_value(a, "svg"));
    if (!r->failed && code == CLI_OK && cli_value(a, "html"))
        code = repro_page(r, a, cli_value(a, "html"));
    if (code == CLI_OK) {
        if (j)
            repro_print_json(j, r, ok);
        else
            repro_print_text(r);
        code = ok ? CLI_OK : CLI_NO;
    }
    clear(r);
    free(r);
    return code;
}
