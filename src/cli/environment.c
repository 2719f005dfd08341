/* environment.c - the variables that the tool itself reads, and warnings about TUTTI_ variables
 * that are not known (most often a spelling mistake). A command that opens communicators leaves
 * the warning to the library, so that it is printed once.
 *
 *     TUTTI_TOPO, TUTTI_ALGO, TUTTI_REPRODUCIBLE    defaults of --topo, --algo, --reproducible
 *     TUTTI_TIMEOUT                                 default of --timeout (launch/job.c)
 *     TUTTI_VERDICT                                 the launcher's file (self.c) */
#include <stdio.h>
#include <stdlib.h>

#include "cli/cli.h"

void cli_check_environment(const struct cli_command *c)
{
    struct tutti_unknown_variable u;
    for (size_t i = 0; !c->opens_comm && tutti_variable_unknown(i, &u); i++)
        fprintf(stderr, "tutti: warning: unknown variable %s%s%s\n", u.name, *u.near ? "; " : "",
                u.near);
}

const char *cli_environment(const char *name)
{
    const char *v = getenv(name);
    return v && *v ? v : NULL;
}
