/* compare.h - what the files of tutti compare share: the networks, and their plans by size.
 *
 *     cmd_compare.c: the command line, planning --> compare_print.c: JSON, table, picture */
#ifndef CLI_COMPARE_H
#define CLI_COMPARE_H

#include "cli/cli.h"
#include "cli/output.h"

enum { COMPARE_SIZES = 64 };

/* A network to compare. `cost` is cables and switches at the prices of --cost. */
struct compare_network {
    const char *spec; /* as given */
    struct tutti_topo *t;
    struct tutti_topo_info info;
    double cost;
};

/* The best plan of one network for one size. A refusal is an entry like any other: its times are
 * NaN, which no comparison `<` selects as the best. */
struct compare_entry {
    bool refused, by_flow; /* us is the time at flow level, by which the plan was chosen */
    char algo[48], why[504];
    double us, bound_us, ratio; /* NaN when refused; ratio also when the bound is 0 */
};

/* All of a comparison; large, hence on the heap. */
struct comparison {
    struct cli_problem problem;
    double cable, switched;
    size_t networks, sizes;
    struct compare_network network[CLI_MAX_WORDS];
    uint64_t bytes[COMPARE_SIZES];
    struct compare_entry entry[COMPARE_SIZES][CLI_MAX_WORDS];
};

/* To standard output. */
void cli_compare_json(const struct comparison *c);
void cli_compare_text(const struct comparison *c);
/* A line per network, into svg. Returns 0 or the exit code after a complaint. */
int cli_compare_draw(const struct cli_args *a, const struct comparison *c, struct cli_output *svg);
#endif
