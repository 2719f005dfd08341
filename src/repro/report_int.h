/* report_int.h - a report from the inside: report.c collects and prints it, report_html.c draws it.
 * */
#ifndef REPRO_REPORT_INT_H
#define REPRO_REPORT_INT_H

#include "repro/repro.h"

enum { REPRO_PLOTS = 3 }; /* pictures of a table, at most */

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
};

/* report_html.c. Write DIR/<experiment>-<table>.svg for every plotted table (further pictures of
 * it: ...-<column>.svg), and DIR/<experiment>.html. Return 0 or the exit code after a complaint. */
int repro_draw(const struct repro_report *r, const struct cli_args *a, const char *dir);
int repro_page(const struct repro_report *r, const struct cli_args *a, const char *dir);
#endif
