/* view.h - what the files of tutti view share.
 *
 *     cmd_view.c: the command line, plans read or made
 *         |--> view_page.c: the page of schedules
 *         '--> view_run.c: the page of a real run */
#ifndef CLI_VIEW_H
#define CLI_VIEW_H

#include "cli/cli.h"
#include "cli/output.h"

enum { VIEW_MAX = 8 }; /* plans on a page */

/* A schedule of the page, or the reason why there is none. */
struct view_plan {
    char name[64];    /* algorithm */
    const char *file; /* NULL: planned here */
    struct tutti_plan *plan;
    struct tutti_schedule *s;
    struct tutti_sim *sim;
    struct tutti_verdict verdict;
    char why[512]; /* why it was refused; "": it was not */
};

struct view {
    struct tutti_topo *t;
    bool made_up; /* no network was given: every pair of ranks has a link */
    struct cli_problem problem;
    struct view_plan plan[VIEW_MAX];
    size_t n;
};

/* Both write the page to out, and return 0 or the exit code after a complaint: the page of the
 * trace at `path`; the page of plans. */
int cli_view_run(const struct cli_args *a, const char *path, FILE *out);
int cli_view_page(const struct cli_args *a, const struct view *v, FILE *out);
#endif
