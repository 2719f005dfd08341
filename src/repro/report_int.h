/* report_int.h - a report from the inside: report.c collects it, price.c plans its cases,
 * report_print.c prints it, report_html.c draws. */
#ifndef REPRO_REPORT_INT_H
#define REPRO_REPORT_INT_H

#include "repro/repro.h"

enum { REPRO_PLOTS = 3 }; /* pictures of a table, at most */
enum { REPRO_CASE = 320 };

enum cell_kind { TEXT, REAL, COUNT };

/* A cell has its text for people and its value for JSON and pictures. */
struct cell {
    enum cell_kind kind;
    double real;
    uint64_t count;
    char text[REPRO_CELL];
};

/* The columns of a picture. */
struct picture {
    size_t x, y, line;
};

/* Cells are in row order; a row has ncolumns of them. `columns` is the text "a|b|c" until
 * cut_columns. */
struct table {
    char name[REPRO_NAME], title[160], columns[200];
    const char *column[REPRO_COLUMNS];
    size_t ncolumns, ncells, cap;
    struct cell *cells;
    struct picture plot[REPRO_PLOTS];
    size_t nplots;
};

/* A note, or a check with its outcome. */
struct line {
    bool check, ok;
    char text[600];
};

struct repro_report {
    const char *name;
    struct tutti_error err;
    bool failed, quick;
    bool counting;
    uint64_t begun, total; /* computations begun so far; of the whole run, from counting */
    struct table *tables;
    struct line *lines;
    size_t ntables, nlines;
    /* the last plan and its network, by the text of its case: what is priced is often simulated
     * next */
    char planned[REPRO_CASE];
    struct tutti_topo *topo;
    struct tutti_plan *plan;
};

/* price.c. The plan of a case and its network, which the report owns until the next call. */
tutti_status repro_plan(struct repro_report *r, const struct repro_case *c,
                        const struct tutti_topo **ret_topo, const struct tutti_plan **ret,
                        struct tutti_error *err);

/* Frees them. */
void repro_forget_plan(struct repro_report *r);

/* report_print.c, to standard output and into j. Columns have been cut; `ok`: all checks hold. */
void repro_print_text(const struct repro_report *r);
void repro_print_json(struct tutti_json *j, const struct repro_report *r, bool ok);

/* report_html.c. Write DIR/<experiment>-<table>.svg for every plotted table (further pictures of
 * it: ...-<column>.svg), and DIR/<experiment>.html. Return 0 or the exit code after a complaint. */
int repro_draw(const struct repro_report *r, const struct cli_args *a, const char *dir);
int repro_page(const struct repro_report *r, const struct cli_args *a, const char *dir);
#endif
