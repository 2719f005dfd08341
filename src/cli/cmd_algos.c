/* cmd_algos.c - tutti algos: prints the library's own table of algorithms, so that the list is
 * complete by construction. `colls` is a bit mask by tutti_coll.
 *
 *     ring                neighbours only, fewest bytes, 2(p-1) steps: for long vectors
 *                         needs any number of ranks
 *                         offers allreduce reduce-scatter all-gather
 *                         --option segments=K: cut every chunk in K parts and pipeline them */
#include "cli/cli.h"

#include <stdio.h>

static const struct cli_option *const options[] = {cli_json_options, NULL};

/* One element of the array: everything that the table says about an algorithm. */
static void print_json(struct tutti_json *j, const struct tutti_algo_info *al)
{
    tutti_json_object(j, NULL);
    tutti_json_string(j, "name", al->name);
    tutti_json_string(j, "desc", al->desc);
    tutti_json_string(j, "needs", al->needs);
    tutti_json_array(j, "collectives");
    for (int c = 0; c < TUTTI_COLL_COUNT; c++)
        if (al->colls & (1u << c))
            tutti_json_string(j, NULL, tutti_coll_name((tutti_coll)c));
    tutti_json_end(j);
    tutti_json_bool(j, "pipelined", al->pipelined);
    tutti_json_bool(j, "rank_order", al->rank_order);
    tutti_json_array(j, "options");
    for (size_t i = 0; i < al->noptions; i++) {
        tutti_json_object(j, NULL);
        tutti_json_string(j, "key", al->options[i].key);
        tutti_json_string(j, "values", al->options[i].values);
        tutti_json_string(j, "desc", al->options[i].desc);
        tutti_json_end(j);
    }
    tutti_json_end(j);
    tutti_json_end(j);
}

/* Name and description, then indented what it needs, what it offers, and its options. */
static void print_text(const struct tutti_algo_info *al)
{
    printf("%-19s %s\n%-19s needs %s\n%-19s offers", al->name, al->desc, "", al->needs, "");
    for (int c = 0; c < TUTTI_COLL_COUNT; c++)
        if (al->colls & (1u << c))
            printf(" %s", tutti_coll_name((tutti_coll)c));
    printf("%s\n", al->rank_order ? "; sums in rank order (reproducible)" : "");
    for (size_t i = 0; i < al->noptions; i++)
        printf("%-19s --option %s=%s: %s\n", "", al->options[i].key, al->options[i].values,
               al->options[i].desc);
}

static int algos_run(const struct cli_args *a)
{
    struct tutti_algo_info al;
    struct tutti_json *j = cli_flag(a, "json") ? tutti_json_open(stdout) : NULL;
    if (j)
        tutti_json_array(j, NULL);
    for (size_t i = 0; tutti_algo_get(i, &al); i++) {
        if (j)
            print_json(j, &al);
        else
            print_text(&al);
    }
    if (j) {
        tutti_json_end(j);
        tutti_json_close(j);
    }
    return CLI_OK;
}

const struct cli_command cli_algos = {
    .name = "algos",
    .synopsis = "algos [--json]",
    .summary = "list the algorithms: name, description, what each needs and offers",
    .examples = "tutti algos\ntutti algos --json | jq -r '.[].name'",
    .options = options,
    .run = algos_run,
};
