/* self.c - commands that are jobs themselves (bench, probe, replay, doctor -n).
 *
 * When a launcher started the process it is one rank. Otherwise it replaces itself by tutti run,
 * which starts the same command once per rank, bound to cores where there are enough of them (as
 * mpirun does by default). Also here: complaints of ranks, of which only one should be printed. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* The variables of tutti run, torchrun, Open MPI, MPICH and Slurm. */
bool cli_in_job(void)
{
    static const char *const names[] = {"TUTTI_RANK", "RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK",
                                        "SLURM_PROCID"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (cli_environment(names[i]))
            return true;
    return false;
}

/* Did this process write `key` first? The file has lines "said TEXT" and, after each, the pid of
 * the rank that said it; other ranks may have written any number of lines before. */
static bool is_first(const char *path, const char *key)
{
    char line[1200];
    FILE *in = fopen(path, "re");
    bool found = false, first = true;
    while (in && !found && fgets(line, sizeof line, in))
        found = !strcmp(line, key);
    /* The line after the key has the pid. */
    if (found && fgets(line, sizeof line, in))
        first = atoi(line) == getpid();
    if (in)
        fclose(in);
    return first;
}

/* Every rank appends its complaint and its pid to the launcher's file in one write, and then
 * reads whether another rank was first. O_APPEND makes the writes atomic and the order the same
 * for all. A command that a rank's program starts is no rank itself (the launcher is not its
 * parent) and always prints. */
bool cli_speaks(const char *text)
{
    const char *path = cli_in_job() ? cli_environment("TUTTI_VERDICT") : NULL;
    char key[1100], mine[1200];
    int launcher = 0;
    bool rank = path && sscanf(path, "/proc/%d/", &launcher) == 1 && launcher == getppid();
    int fd = rank ? open(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
    if (fd < 0)
        return true;
    snprintf(key, sizeof key, "said %.1090s", text);
    /* One complaint is one line of the file. */
    for (char *c = key; (c = strchr(c, '\n'));)
        *c = ' ';
    strcat(key, "\n");
    int n = snprintf(mine, sizeof mine, "%s%d\n", key, (int)getpid());
    bool written = write(fd, mine, (size_t)n) == n;
    close(fd);
    return !written || is_first(path, key);
}

/* Rank 0 decides and tells the others, so that no rank waits for one that has ended. */
tutti_status cli_ranks_go_on(struct tutti_comm *comm, bool *ret)
{
    uint8_t gone = tutti_comm_rank(comm) == 0 && cli_reader_gone();
    tutti_status st = tutti_broadcast(comm, &gone, &gone, 1, TUTTI_U8, 0);
    *ret = !st && !gone;
    return st;
}

/* Rebuilds the command line from the parsed options, without --ranks. `named` must live until
 * execv. */
int cli_start_ranks(const struct cli_args *a, const char *dflt)
{
    char self[4096];
    const char *n = cli_value(a, "ranks");
    struct tutti_error err;
    uint64_t ranks;
    if (n && tutti_parse_u64(n, 1, CLI_MAX_RANKS, &ranks, &err))
        return cli_bad(a, "-n %s", err.text);
    /* Eight words before the options, at most two per option, and the NULL. */
    const char *argv[2 * CLI_MAX_VALUES + 9] = {"tutti",      "run", "--bind", "-n",
                                                n ? n : dflt, "--",  self,     a->command->name};
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
