/* report_print.c - a report as text, or as one JSON document:
 *
 *     {"experiment", "ok", "notes": [..], "tables": {name: [{column: value}..]},
 *      "checks": [{"ok", "text"}..]} */
#include "repro/report_int.h"

#include <assert.h>
#include <string.h>

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
void repro_print_text(const struct repro_report *r)
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

void repro_print_json(struct tutti_json *j, const struct repro_report *r, bool ok)
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
