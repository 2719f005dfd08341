/* cmd_repro.c - tutti repro: a paper's experiment computed again, with its figures beside ours.
 *
 * The table below lists the experiments. Each is a function that fills a report (repro.h); this
 * file only chooses one, makes the folder for pictures, and prints the report. The exit status
 * is 1 when a check of the report does not hold. */
#include "repro/repro.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct repro_experiment experiments[] = {
    {"dear",
     "DeAR against tuned baselines, five models on 64 workers, and its fusion tuner against a "
     "sweep",
     repro_dear},
    {"dln",
     "distributed loop networks and shift halving-doubling against rings, tori, fat-trees and "
     "BiGraph",
     repro_dln},
    {"hybrid",
     "hybrid all-reduce with layer overlapping: what overlap brings, what the algorithms bring",
     repro_hybrid},
    {"multitree",
     "MultiTree and its network interface against rings, bucket, trees, HDRM and Swing; published "
     "cycles beside ours",
     repro_multitree},
    {"flexreduce",
     "uneven shares on irregular hierarchies and uneven links against rings, trees, BlueConnect "
     "and leaders",
     repro_flex},
};
enum { NEXPERIMENTS = sizeof experiments / sizeof experiments[0] };

static const struct cli_option own[] = {
    {"quick", 0, NULL, "fewer sizes and cases; all checks are still made"},
    {"svg", 0, "DIR",
     "also draw the tables that can be drawn, as DIR/EXPERIMENT-TABLE.svg (DIR is made)"},
    {"html", 0, "DIR", "also write a page with claims, tables and pictures, DIR/EXPERIMENT.html"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

static int repro_list(const struct cli_args *a)
{
    struct tutti_json *j = cli_flag(a, "json") ? tutti_json_open(stdout) : NULL;
    if (j)
        tutti_json_array(j, NULL);
    for (size_t i = 0; i < NEXPERIMENTS; i++) {
        if (!j) {
            printf("%-12s %s\n", experiments[i].name, experiments[i].summary);
            continue;
        }
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", experiments[i].name);
        tutti_json_string(j, "summary", experiments[i].summary);
        tutti_json_end(j);
    }
    if (j) {
        tutti_json_end(j);
        tutti_json_close(j);
    }
    return CLI_OK;
}

static int repro_unknown(const struct cli_args *a, const char *name)
{
    const char *names[NEXPERIMENTS];
    char near[160];
    for (size_t i = 0; i < NEXPERIMENTS; i++)
        names[i] = experiments[i].name;
    tutti_near_matches(name, names, NEXPERIMENTS, near, sizeof near);
    return cli_bad(a, "no experiment '%.64s'%s%s; tutti repro lists them", name, *near ? "; " : "",
                   near);
}

/* Folders are made and tested before the work, which may take minutes. */
static int make_folder(const struct cli_args *a, const char *option)
{
    const char *dir = cli_value(a, option);
    if (dir && mkdir(dir, 0777) && errno != EEXIST)
        return cli_bad(a, "cannot make the folder %.200s: %s", dir, strerror(errno));
    if (dir && access(dir, W_OK | X_OK))
        return cli_bad(a, "cannot write in %.200s: %s", dir, strerror(errno));
    return CLI_OK;
}

static int repro_one(const struct cli_args *a, size_t i, struct tutti_json *j)
{
    struct repro_report *r = repro_run(&experiments[i], cli_flag(a, "quick"));
    return r ? repro_close(r, a, j) : cli_bad(a, "out of memory");
}

/* All of them, one after the other; in JSON an array. What does not hold in one does not keep the
 * others from being computed; a failure (no memory, a full disk) does. */
static int repro_all(const struct cli_args *a, struct tutti_json *j)
{
    int code = CLI_OK;
    if (j)
        tutti_json_array(j, NULL);
    for (size_t i = 0; i < NEXPERIMENTS; i++) {
        if (i > 0 && !j)
            printf("\n");
        int one = repro_one(a, i, j);
        code = one == CLI_OK ? code : one;
        if (one != CLI_OK && one != CLI_NO)
            break;
        fflush(stdout);
    }
    if (j)
        tutti_json_end(j);
    return code;
}

/* Without a word: the list. */
static int repro_run_it(const struct cli_args *a)
{
    size_t i = 0;
    if (a->nwords == 0)
        return repro_list(a);
    bool all = !strcmp(a->words[0], "all");
    while (!all && i < NEXPERIMENTS && strcmp(experiments[i].name, a->words[0]))
        i++;
    if (i == NEXPERIMENTS)
        return repro_unknown(a, a->words[0]);
    if (make_folder(a, "svg") || make_folder(a, "html"))
        return CLI_USAGE;
    struct tutti_json *j = cli_flag(a, "json") ? tutti_json_open(stdout) : NULL;
    int code = all ? repro_all(a, j) : repro_one(a, i, j);
    if (j)
        tutti_json_close(j);
    return code;
}

const struct cli_command repro_command = {
    .name = "repro",
    .synopsis = "repro [EXPERIMENT|all] [--quick] [--json] [--svg DIR] [--html DIR]",
    .summary = "a paper's experiment computed again",
    .details = "Without EXPERIMENT: lists them. Each report says at which level times were "
               "computed, which definitions and figures are the "
               "paper's,\n"
               "which are ours, and what must hold; exit 1 when something that must hold does not. "
               "dln and multitree without --quick take "
               "minutes.",
    .examples = "tutti repro dln --json\n"
                "tutti repro flexreduce --html .\n"
                "tutti repro all --html papers",
    .options = options,
    .max_words = 1,
    .run = repro_run_it,
};
