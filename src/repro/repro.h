/* repro.h - experiments of tutti repro. Each fills a report with tables, notes and checks; the
 * command prints it as text or JSON.
 *
 * To add one: src/repro/<name>.c with a function that fills a report, and a line in the table of
 * cmd_repro.c. A failure inside (no memory, a refused plan) is kept in the report and becomes the
 * command's complaint, so that experiments read as lists of what they show. */
#ifndef REPRO_H
#define REPRO_H

#include "cli/cli.h"

enum { REPRO_NAME = 32, REPRO_COLUMNS = 12, REPRO_CELL = 128 };

struct repro_report;

/* A paragraph about what was done, where definitions or figures come from, and what differs. */
void repro_note(struct repro_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Begins a table: a name (a JSON key), a title for people, the columns "a|b|c" (JSON keys, too).
 * Cells follow row by row. */
void repro_table(struct repro_report *r, const char *name, const char *title, const char *columns);
void repro_text(struct repro_report *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void repro_real(struct repro_report *r, double value); /* not finite: null, printed as "-" */
void repro_count(struct repro_report *r, uint64_t value);
/* A statement that must hold; the command exits with 1 when it does not. */
void repro_check(struct repro_report *r, bool ok, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Asks for a picture (--svg, --html) of the table begun last, at most three: column y over column x
 * (both logarithmic; a bus bandwidth from 0), a line per text of column `line`. */
void repro_plot(struct repro_report *r, const char *x, const char *y, const char *line);

/* The price of a named algorithm on a network by the planner (level step). Options are "k=v,k=v"
 * (NULL: none); segments are chosen unless given. False when it is refused (*ret is not set
 * then), or when the report has failed already. */
bool repro_price(struct repro_report *r, const char *spec, const char *algo, const char *options,
                 uint64_t bytes, struct tutti_sim_result *ret);
/* The bound of an all-reduce on a network in microseconds; NaN when the report has failed. */
double repro_bound_us(struct repro_report *r, const char *spec, uint64_t bytes);
/* The bus bandwidth of an all-reduce: bytes / time x 2(n-1)/n, in 10^9 bytes/s. */
double repro_busbw(uint64_t bytes, uint32_t ranks, double us);
bool repro_has_algo(const char *name);
struct repro_case {
    const char *spec, *algo, *options; /* options: "k=v,k=v" or NULL */
    uint64_t bytes;
};
/* The same with more in the answer: the reason of a refusal, and whether the price is an upper
 * bound. */
struct repro_answer {
    char why[REPRO_CELL];
    bool at_most;
};
bool repro_price_why(struct repro_report *r, const struct repro_case *c,
                     struct tutti_sim_result *ret, struct repro_answer *answer);
/* sim.c: one run at level flow or packet (`o->packet`). Refusals and failures are as above. */
bool repro_simulate(struct repro_report *r, const struct repro_case *c,
                    const struct tutti_sim_options *o, struct tutti_sim_info *ret);
/* The same for rank 0 alone; false also when it cannot stand for all ranks. */
bool repro_simulate_one(struct repro_report *r, const struct repro_case *c,
                        const struct tutti_sim_options *o, struct tutti_sim_info *ret);
/* The faster of levels step and flow in microseconds, and which it was (ret_level may be NULL);
 * NaN when refused. */
double repro_best_us(struct repro_report *r, const struct repro_case *c, const char **ret_level);
bool repro_failed(const struct repro_report *r);
/* --quick: fewer sizes and cases; every check is still made. */
bool repro_is_quick(const struct repro_report *r);
/* Keeps the first failure; later calls on the report do nothing. */
void repro_fail(struct repro_report *r, const struct tutti_error *err);

struct repro_experiment {
    const char *name, *summary;
    void (*run)(struct repro_report *r);
};
/* Progress. An experiment is run twice, first only to count its computations. counts: called at
 * the start of every computation; true when it is only counted, and any result will do.
 * progress: called during a computation with the fraction that is done. */
bool repro_counts(struct repro_report *r);
void repro_progress(struct repro_report *r, double fraction);

/* Runs the experiment and collects its report. NULL: out of memory. */
struct repro_report *repro_run(const struct repro_experiment *e, bool quick);
/* Prints the report (into j, or as text when it is NULL) and frees it; returns the exit code. */
int repro_close(struct repro_report *r, const struct cli_args *a, struct tutti_json *j);

extern const struct cli_command repro_command; /* cmd_repro.c */

void repro_dear(struct repro_report *r);
void repro_dln(struct repro_report *r);
void repro_hybrid(struct repro_report *r);
void repro_multitree(struct repro_report *r);
void repro_flex(struct repro_report *r);
#endif
