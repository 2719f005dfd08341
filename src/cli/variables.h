/* variables.h - the variables of the environment that Tutti knows, and those it does not. */
#ifndef CLI_VARIABLES_H
#define CLI_VARIABLES_H

#include "cli/cli.h"

struct cli_variable {
    const char *name, *dflt, *meaning;
};
const struct cli_variable *cli_variables(size_t *ret_n);

struct cli_unknown {
    char name[64], near[160]; /* near: "did you mean ...?" or "" */
};
/* The i-th TUTTI_ variable that is set and not known; false past the last one. */
bool cli_unknown_variable(size_t i, struct cli_unknown *ret);
#endif
