/* The tutti command: finds the command in the table, parses its options, runs it. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_command *const commands[] = {&cli_topo,    &cli_algos, &cli_plan,      &cli_verify, &cli_bound, &cli_explain,
                                                     &cli_compare, &cli_sim,   &cli_run,       &cli_bench,  &cli_probe, &cli_lab,
                                                     &cli_doctor,  &cli_repro, &cli_train_sim, &cli_replay};

const struct cli_command *const *cli_commands(size_t *ret_n)
{
    *ret_n = sizeof commands / sizeof commands[0];
    return commands;
}

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (!strcmp(commands[i]->name, name))
            return commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[sizeof commands / sizeof commands[0]];
    char near[160];
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        names[i] = commands[i]->name;
    tutti_near_matches(name, names, sizeof names / sizeof names[0], near, sizeof near);
    fprintf(stderr, "tutti: no command '%s'%s%s; see tutti --help\n", name, *near ? "; " : "", near);
    return CLI_USAGE;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        cli_usage(stderr);
        return CLI_USAGE;
    }
    if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h") || !strcmp(argv[1], "help")) {
        const struct cli_command *c = argc > 2 ? find(argv[2]) : NULL;
        if (argc > 2 && !c)
            return unknown(argv[2]);
        if (c)
            cli_help(c, stdout);
        else
            cli_usage(stdout);
        return cli_finish(CLI_OK);
    }
    if (!strcmp(argv[1], "--version")) {
        printf("tutti %s\n", tutti_version());
        return cli_finish(CLI_OK);
    }
    const struct cli_command *c = find(argv[1]);
    if (!c)
        return unknown(argv[1]);
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
