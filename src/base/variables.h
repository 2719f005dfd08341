/* variables.h - the environment variables that Tutti knows, and those that are set and unknown. */
#ifndef TT_VARIABLES_H
#define TT_VARIABLES_H

#include "base/base.h"

struct tt_variable {
    const char *name, *dflt, *meaning;
};
struct tt_unknown_variable {
    char name[64], near[160]; /* near: "did you mean ...?" or "" */
};

/* All variables that any part of Tutti reads, including the tool, the MPI shim and the Python
 * package. *ret_n is their number; the table is static. */
const struct tt_variable *tt_variables(size_t *ret_n);
/* The i-th TUTTI_ variable that is set and not known, with near matches; false past the last
 * one. */
bool tt_variable_unknown(size_t i, struct tt_unknown_variable *ret);
#endif
