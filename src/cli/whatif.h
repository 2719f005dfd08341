/* whatif.h - what-ifs that sim and explain share: slow ranks, degraded links, links that are
 * down. */
#ifndef CLI_WHATIF_H
#define CLI_WHATIF_H

#include "cli/cli.h"

extern const struct cli_option cli_whatif_options[]; /* --slow --degrade --down */

struct cli_whatif {
    struct tutti_sim_slow slow[CLI_MAX_VALUES];
    struct tutti_sim_degrade *degrade;
    size_t nslow, ndegrade;
    /* something gets faster: the bound of the network as described says nothing then */
    bool faster;
};

/* Replaces the network by one without the cables of --down. 0, or the exit code after the
 * complaint. */
int cli_whatif_down(const struct cli_args *a, struct tutti_topo **t);
/* --slow and --degrade, names as in that network. */
int cli_whatif_get(const struct cli_args *a, const struct tutti_topo *t, struct cli_whatif *ret);
void cli_whatif_free(struct cli_whatif *w); /* accepts zeroed ones */
/* The network as planning sees the what-ifs: links degraded, those of a slow rank like the rank.
 * tutti_topo_free. */
int cli_whatif_apply(const struct cli_args *a, const struct tutti_topo *t,
                     const struct cli_whatif *w, struct tutti_topo **ret);
/* A positive decimal number without sign or exponent. */
bool cli_read_factor(const char *text, double max, double *ret);
#endif
