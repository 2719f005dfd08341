/* explain.h - what the files of tutti explain share: cmd_explain.c plans and prints, explain_json.c
 * and explain_html.c write the document and the page. */
#ifndef CLI_EXPLAIN_H
#define CLI_EXPLAIN_H

#include "cli/cli.h"

enum { EXPLAIN_LINES = 64 }; /* far more than there are algorithms */

/* What is explained, and what a what-if is compared with. Everything is owned by explain_run. */
struct explained {
    const struct tutti_plan *p;
    const struct tutti_plan *before; /* of the network as described; NULL: no what-if */
    const struct tutti_topo *t;
    const struct cli_problem *problem;
    struct tutti_envelope_piece *envelope;
    size_t npieces;
};

/* A candidate with its time at flow level, 0: unknown. */
struct explain_line {
    struct tutti_candidate c;
    double flow_us;
};
/* The time that counts for the choice. */
double cli_explain_us(const struct explain_line *x);
double cli_explain_ratio(const struct explain_line *x); /* that time / the bound */
/* The candidates by that time, those without a price after them; returns their number. */
size_t cli_explain_lines(const struct tutti_plan *p, struct explain_line *ret);

/* Writes the page. Returns 0 or the exit code after a complaint. */
int cli_explain_page(const struct cli_args *a, const struct explained *x, FILE *out);

/* explain_json.c */
/* The candidate, after the change, that was the winner before it. False when it is not in the
 * list. */
bool cli_explain_find_stay(const struct explained *x, struct tutti_candidate *ret);
void cli_explain_json(const struct explained *x);

#endif
