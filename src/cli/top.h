/* top.h - what the files of tutti top share: cmd_top.c shows rates, top_http.c serves counters. */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include "cli/cli.h"

/* Serves the counters as text for Prometheus at `address` ([HOST:]PORT, by default on this host
 * alone) until it is ended by a signal. Returns the exit code after a complaint. */
int cli_top_serve(const struct cli_args *a, const char *address);
#endif
