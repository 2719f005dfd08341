/* main.c - the program `tutti`: finds the command in the table, parses its options, runs it. A new
 * command is one line here; it may live in any module above the library (cli, launch, repro).
 *
 *     argv -> --help, --version -> command -> its --help -> options -> run -> exit status
 *
 * Exit status: CLI_OK, CLI_NO or CLI_USAGE (cli.h). */
#include "cli/cli.h"
#include "launch/launch.h"
#include "repro/repro.h"

#include <stdio.h>
#include <string.h>

/* In the order of tutti --help: from the network to the job. */
static const struct cli_command *const commands[] = {
    &cli_topo,    &cli_algos,   &cli_plan,   &cli_verify,    &cli_bound,
    &cli_explain, &cli_compare, &cli_sim,    &launch_run,    &cli_bench,
    &cli_probe,   &launch_lab,  &cli_doctor, &repro_command, &cli_train_sim,
    &cli_replay,  &cli_export,  &cli_view,   &cli_top};
enum { NCOMMANDS = sizeof commands / sizeof commands[0] };

/* NULL when there is no command of that name. */
static const struct cli_command *find_command(const char *name)
{
    for (size_t i = 0; i < NCOMMANDS; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

/* Prints the complaint with similar names; returns the exit status. */
static int unknown_command(const char *name)
{
    const char *names[NCOMMANDS];
    char near[160];
    for (size_t i = 0; i < NCOMMANDS; i++)
        names[i] = commands[i]->name;
    tutti_near_matches(name, names, NCOMMANDS, near, sizeof near);
    fprintf(stderr, "tutti: no command '%s'%s%s (tutti --help lists them)\n", name,
            *near ? "; " : "", near);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        cli_usage(stderr, commands, NCOMMANDS);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        const struct cli_command *c = argc > 2 ? find_command(argv[2]) : NULL;
        if (argc > 2 && !c)
            return unknown_command(argv[2]);
        if (c)
            cli_help(c, stdout);
        else
            cli_usage(stdout, commands, NCOMMANDS);
        return cli_finish(CLI_OK);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("tutti %s\n", tutti_version());
        return cli_finish(CLI_OK);
    }
    const struct cli_command *c = find_command(argv[1]);
    if (!c)
        return unknown_command(argv[1]);
    /* Before parsing: --help must work on a command line that is otherwise wrong. */
    if (cli_asks_help(c, argc - 2, argv + 2)) {
        cli_help(c, stdout);
        return cli_finish(CLI_OK);
    }
    cli_check_environment(c);
    struct cli_args args;
    if (!cli_parse(c, argc - 2, argv + 2, &args))
        return CLI_USAGE;
    return cli_finish(c->run(&args));
}
