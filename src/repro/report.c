/* report.c - the report of an experiment: notes, tables and checks, collected and then printed as
 * text or as one JSON document.
 *
 *     {"experiment", "ok", "notes": [..], "tables": {name: [{column: value}..]},
 *      "checks": [{"ok", "text"}..]}
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

static void forget_plan(struct repro_report *r)
{
    tutti_plan_free(r->plan);
    tutti_topo_free(r->topo);
    r->plan = NULL;
    r->topo = NULL;
    r->planned[0] = 0;
}

/* Frees what the report holds, not the report itself. */
static void clear(struct repro_report *r)
{
    forget_plan(r);
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

/* ---- prices ---- */

bool repro_has_algo(const char *name)
{
    struct tutti_algo_info info;
    for (size_t i = 0; tutti_algo_get(i, &info); i++)
        if (!strcmp(info.name, name))
            return true;
    return false;
}

tutti_status repro_plan(struct repro_report *r, const struct repro_case *c,
                        const struct tutti_topo **ret_topo, const struct tutti_plan **ret,
                        struct tutti_error *err)
{
    struct tutti_plan_options o = {
        .size = sizeof o, .count = c->bytes / 4, .algo = c->algo, .options = c->options};
    char name[REPRO_CASE];
    int len = snprintf(name, sizeof name, "%s %s %s %llu", c->spec, c->algo,
                       c->options ? c->options : "", (unsigned long long)c->bytes);
    tutti_status st = TUTTI_OK;
    assert(len > 0 && (size_t)len < sizeof name);
    if (strcmp(name, r->planned) != 0) {
        forget_plan(r);
        st = tutti_topo_parse(c->spec, &r->topo, err);
        if (!st)
            st = tutti_plan_make(r->topo, &o, &r->plan, err);
        if (!st)
            snprintf(r->planned, sizeof r->planned, "%s", name);
    }
    *ret_topo = r->topo;
    *ret = r->plan;
    return st;
}

bool repro_price_why(struct repro_report *r, const struct repro_case *c,
                     struct tutti_sim_result *ret, struct repro_answer *answer)
{
    const struct tutti_topo *t;
    const struct tutti_plan *p;
    struct tutti_plan_info info;
    struct tutti_error err;
    tutti_status st;
    if (r->failed)
        return false;
    *answer = (struct repro_answer){0};
    /* Counting: any result will do, as long as it looks like success. */
    if (repro_counts(r)) {
        *ret = (struct tutti_sim_result){0};
        return true;
    }
    st = repro_plan(r, c, &t, &p, &err);
    if (!st) {
        tutti_plan_simulate(p, ret);
        tutti_plan_info(p, NULL, &info);
        answer->at_most = !info.exact;
    } else if (st != TUTTI_ERR_REFUSED) {
        repro_fail(r, &err);
    } else {
        snprintf(answer->why, sizeof answer->why, "%.*s", (int)sizeof answer->why - 1, err.text);
    }
    return !st;
}

bool repro_price(struct repro_report *r, const char *spec, const char *algo, const char *options,
                 uint64_t bytes, struct tutti_sim_result *ret)
{
    struct repro_answer unused;
    return repro_price_why(r, &(struct repro_case){spec, algo, options, bytes}, ret, &unused);
}

/* ---- printing ---- */

/* Numbers are right-aligned, texts left-aligned; the last column is not padded. */
static void print_table(const struct table *t)
{
    size_t width[REPRO_COLUMNS] = {0};
    assert(t->ncolumns > 0);
    for (size_t c = 0; c < t->ncolumns; c++)
        width[c] = strlen(t->column[c]);
    for (size_t i = 0; i < t->ncells; i++) {
        size_t len = strlen(t->cells[i].text), c = i % t->ncolumns;
        width[c] = len > width[c] ? len : width[c];
    }
    printf("\n%s\n", t->title);
    for (size_t c = 0; c < t->ncolumns; c++)
        printf("%s%-*s", c ? "  " : "", c + 1 < t->ncolumns ? (int)width[c] : 0, t->column[c]);
    for (size_t i = 0, c = 0; i < t->ncells; i++, c = c + 1 < t->ncolumns ? c + 1 : 0) {
        bool left = t->cells[i].kind == TEXT;
        int pad = left && c + 1 == t->ncolumns ? 0 : (int)width[c];
        printf("%s%*s", c ? "  " : "\n", left ? -pad : pad, t->cells[i].text);
    }
    printf("\n");
}

/* Notes, tables, checks: what must hold comes last. */
static void print_text(const struct repro_report *r)
{
    for (size_t i = 0; i < r->nlines; i++)
        if (!r->lines[i].check)
            cli_put_wrapped(stdout, r->lines[i].text, (size_t)printf("- "), 2);
    for (size_t i = 0; i < r->ntables; i++)
        print_table(&r->tables[i]);
    printf("\n");
    for (size_t i = 0; i < r->nlines; i++)
        if (r->lines[i].check)
            printf("%-8s %s\n", r->lines[i].ok ? "holds" : "MISSED", r->lines[i].text);
}

static void json_cell(struct tutti_json *j, const char *key, const struct cell *c)
{
    if (c->kind == TEXT)
        tutti_json_string(j, key, c->text);
    else if (c->kind == COUNT)
        tutti_json_u64(j, key, c->count);
    else
        tutti_json_real(j, key, c->real);
}

/* An array of rows; a row is an object with the columns as keys. */
static void json_table(struct tutti_json *j, const struct table *t)
{
    tutti_json_array(j, t->name);
    for (size_t i = 0; i < t->ncells; i++) {
        if (i % t->ncolumns == 0)
            tutti_json_object(j, NULL);
        json_cell(j, t->column[i % t->ncolumns], &t->cells[i]);
        if (i % t->ncolumns == t->ncolumns - 1 || i + 1 == t->ncells)
            tutti_json_end(j);
    }
    tutti_json_end(j);
}

static void print_json(struct tutti_json *j, const struct repro_report *r, bool ok)
{
    tutti_json_object(j, NULL);
    tutti_json_string(j, "experiment", r->name);
    tutti_json_bool(j, "ok", ok);
    tutti_json_array(j, "notes");
    for (size_t i = 0; i < r->nlines; i++)
        if (!r->lines[i].check)
            tutti_json_string(j, NULL, r->lines[i].text);
    tutti_json_end(j);
    tutti_json_object(j, "tables");
    for (size_t i = 0; i < r->ntables; i++)
        json_table(j, &r->tables[i]);
    tutti_json_end(j);
    tutti_json_array(j, "checks");
    for (size_t i = 0; i < r->nlines; i++) {
        if (!r->lines[i].check)
            continue;
        tutti_json_object(j, NULL);
        tutti_json_bool(j, "ok", r->lines[i].ok);
        tutti_json_string(j, "text", r->lines[i].text);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    tutti_json_end(j);
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
            print_json(j, r, ok);
        else
            print_text(r);
        code = ok ? CLI_OK : CLI_NO;
    }
    clear(r);
    free(r);
    return code;
}
