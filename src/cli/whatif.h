/* whatif.h - what-ifs that sim and explain share: slow ranks, degraded links, links that are
 * down. */
#ifndef CLI_WHATIF_H
#define CLI_WHATIF_H

#include "cli/cli.h"

extern const struct cli_option cli_whatif_options[]; /* --slow --degrade --down */

/* Parsed what-ifs; free with cli_whatif_free. */
struct cli_whatif {
    struct tutti_sim_slow slow[CLI_MAX_VALUES];
    struct tutti_sim_degrade *degrade;
    size_t nslow, ndegrade;
    /* something gets faster (a factor below 1): the bound of the network as described does not
     * hold then */
    bool faster;
};

/* Replaces *t by the network without the cables of --down. Returns 0 or the exit code after a
 * complaint. */
int cli_whatif_down(const struct cli_args *a, struct tutti_topo **t);
/* Parses --slow and --degrade; names are those of network t. */
int cli_whatif_get(const struct cli_args *a, const struct tutti_topo *t, struct cli_whatif *ret);
void cli_whatif_free(struct cli_whatif *w); /* accepts zeroed ones */
/* The network as planning sees the what-ifs: degraded links, and all links of a slow rank slower
 * by its factor. The caller frees *ret with tutti_topo_free. CLI_NO when ranks are cut off. */
int cli_whatif_apply(const struct cli_args *a, const struct tutti_topo *t,
                     const struct cli_whatif *w, struct tutti_topo **ret);
/* Parses a decimal number of at most `max`, without sign or exponent. */
bool cli_read_factor(const char *text, double max, double *ret);
#endif
