/* cmd_export.c - tutti export: a plan in the format of another engine or simulator, or as a
 * picture.
 *
 * The plan is read unchecked and proved here, so that a wrong plan is answered as tutti verify
 * does; the library then writes it in the format. The list of formats is the library's. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_option own[] = {
    {"format", 0, "FORMAT", "one of those that --list names"},
    {"output", 'o', "FILE",
     "write here (default standard output); formats with a file per rank\n"
     "add .RANK.et"},
    {"option", 0, "K=V", "an option of the format; may be repeated"},
    {"list", 0, NULL, "list the formats and their options"},
    {0}};
static const struct cli_option *const options[] = {own, cli_json_options, NULL};

/* The library's own table, as text or JSON. */
static int list_formats(bool json)
{
    struct tutti_export_info f;
    struct tutti_json *j = json ? tutti_json_open(stdout) : NULL;
    if (j)
        tutti_json_array(j, NULL);
    for (size_t i = 0; tutti_export_get(i, &f); i++) {
        if (!j) {
            printf("%-11s %s%s%s\n", f.name, f.desc, *f.options ? "; options: " : "", f.options);
            continue;
        }
        tutti_json_object(j, NULL);
        tutti_json_string(j, "name", f.name);
        tutti_json_string(j, "desc", f.desc);
        tutti_json_string(j, "options", f.options);
        tutti_json_bool(j, "per_rank", f.per_rank);
        tutti_json_end(j);
    }
    if (j) {
        tutti_json_end(j);
        tutti_json_close(j);
    }
    return CLI_OK;
}

/* Joins all --option values with commas. snprintf returns the length it would have needed: len
 * >= cap means that the text was cut. */
static int join_options(const struct cli_args *a, char *list, size_t cap)
{
    size_t len = 0;
    *list = 0;
    for (size_t i = 0; i < a->nvalues; i++)
        if (!strcmp(a->values[i].option->name, "option")) {
            len +=
                (size_t)snprintf(list + len, cap - len, "%s%s", len ? "," : "", a->values[i].value);
            if (len >= cap)
                return cli_bad(a, "the options are too long");
        }
    return 0;
}

/* Reads, proves, writes. The library removes a file that it could not finish. */
static int run(const struct cli_args *a)
{
    struct tutti_schedule *s = NULL;
    struct tutti_verdict v;
    struct tutti_error err;
    char list[512];
    if (cli_flag(a, "list"))
        return a->nwords ? cli_bad(a, "either a FILE or --list")
                         : list_formats(cli_flag(a, "json"));
    const char *format = cli_value(a, "format"), *output = cli_value(a, "output");
    /* FILE and --format are checked here, because --list needs neither. */
    if (!a->nwords || !format)
        return cli_bad(a, "--format FORMAT and a FILE are needed (tutti export --list has the "
                          "formats; - is standard input)");
    int code = join_options(a, list, sizeof list);
    if (code)
        return code;
    if (tutti_schedule_read_unchecked(a->words[0], &s, &err))
        return cli_fail(a, &err);
    code = cli_prove(a, s, &v);
    if (!code && tutti_schedule_export(s, format, list, output ? output : "-", &err))
        code = cli_fail(a, &err);
    tutti_schedule_free(s);
    return code;
}

const struct cli_command cli_export = {
    .name = "export",
    .synopsis = "export --format FORMAT FILE [-o FILE] [--option K=V ...] | --list [--json]",
    .summary = "write a plan for another engine or simulator, or as a picture",
    .details = "The plan is proved first: exit status 1 when it is not correct, or when the format "
               "cannot express it or its engine has a\n"
               "limit that the plan breaks (the sentence says which). Segments become nodes of "
               "their own in traces (goal, chakra);\n"
               "engines (msccl-xml, msccl-json) cut messages themselves. FILE - is standard input.",
    .examples =
        "tutti plan --topo torus:4x4 --size 16M -o plan.json\n"
        "tutti export --format msccl-xml plan.json -o plan.xml\n"
        "tutti plan --topo star:8 --algo ring --size 1M | tutti export --format goal - -o "
        "ring.goal\n"
        "tutti plan --topo ring:6 --algo ring --size 1M | tutti export --format svg - -o ring.svg\n"
        "tutti export --list",
    .options = options,
    .max_words = 1,
    .run = run,
};
