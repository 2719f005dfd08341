/* output.h - files that commands write beside standard output: whole or not at all. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <limits.h>
#include <stdio.h>

#include "cli/cli.h"

struct cli_output {
    const char *option; /* for complaints */
    FILE *f;            /* NULL: not asked for */
    char path[PATH_MAX], temp[PATH_MAX];
    int slot; /* -1: written in place (standard output, a device, a pipe) */
};

/* From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE remove unfinished outputs and end the process at
 * once with 128 + the signal's number (unless they are ignored). */
void cli_output_guard(void);
/* Opens a temporary file beside what the option names ("-": standard output). Nothing when the
 * option is absent. 0, or the exit code. */
int cli_output_open(const struct cli_args *a, const char *option, struct cli_output *ret);
/* Gives the file its name; complains (and removes it) when not all could be written. 0, or the exit
 * code. */
int cli_output_keep(const struct cli_args *a, struct cli_output *o);
/* The inside of a JSON string. */
void cli_put_json_text(FILE *out, const char *text);
/* removes an unfinished file; accepts zeroed and kept ones */
void cli_output_drop(struct cli_output *o);
#endif
