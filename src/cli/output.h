/* output.h - files that commands write beside standard output. A file appears whole or not at
 * all. Usage: open before the work, write to f, keep at the end; drop in any case. */
#ifndef CLI_OUTPUT_H
#define CLI_OUTPUT_H

#include <limits.h>
#include <stdio.h>

#include "cli/cli.h"

struct cli_output {
    const char *option; /* for complaints */
    FILE *f;            /* NULL: not asked for */
    char path[PATH_MAX], temp[PATH_MAX];
    int slot; /* slot in temps[]; -1: written directly (standard output, a device, a pipe) */
};

/* From now on SIGINT, SIGTERM, SIGHUP and SIGPIPE remove unfinished outputs and end the process
 * at once with status 128 + the signal's number. A signal that is ignored stays ignored. */
void cli_output_guard(void);
/* Opens a temporary file beside the file that the option names ("-": standard output). Without
 * the option ret->f is NULL. Returns 0 or the exit code. */
int cli_output_open(const struct cli_args *a, const char *option, struct cli_output *ret);
/* Gives the file its final name, or removes it and complains when not everything could be
 * written. o->f is NULL afterwards. Returns 0 or the exit code. */
int cli_output_keep(const struct cli_args *a, struct cli_output *o);
/* Writes text as the inside of a JSON string, escaped and without the quotes. */
void cli_put_json_text(FILE *out, const char *text);
/* Removes an unfinished file; does nothing for zeroed and kept ones. */
void cli_output_drop(struct cli_output *o);
#endif
