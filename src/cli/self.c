/* self.c - commands that are themselves a job: one rank when a launcher started them, otherwise started again under tutti run, bound to
 * cores where there are enough (as mpirun does by default). */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

bool cli_in_job(void)
{
    static const char *const names[] = {"TUTTI_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (cli_environment(names[i]))
            return true;
    return false;
}

int cli_start_ranks(const struct cli_args *a, const char *dflt)
{
    char self[4096];
    const char *n = cli_value(a, "ranks");
    struct tutti_error err;
    uint64_t ranks;
    if (n && tutti_parse_u64(n, 1, CLI_MAX_RANKS, &ranks, &err))
        return cli_bad(a, "-n %s", err.text);
    const char *argv[2 * CLI_MAX_VALUES + 9] = {"tutti", "run", "--bind", "-n", n ? n : dflt, "--", self, a->command->name};
    size_t k = 8;
    char named[CLI_MAX_VALUES][64];
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    if (len < 0)
        return cli_bad(a, "cannot find myself to start the ranks");
    self[len] = '\0';
    for (size_t i = 0; i < a->nvalues; i++) {
        if (!strcmp(a->values[i].option->name, "ranks"))
            continue;
        snprintf(named[i], sizeof named[i], "--%s", a->values[i].option->name);
        argv[k++] = named[i];
        if (a->values[i].option->arg)
            argv[k++] = a->values[i].value;
    }
    argv[k] = NULL;
    execv(self, (char *const *)argv);
    return cli_bad(a, "cannot start %s", self);
}
