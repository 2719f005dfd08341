/* cmd_compare.c - tutti compare: the best plan of each network for each size, with its time, its
 * ratio to the bound, and the cost of the network in cables and switches.
 *
 *     sizes x networks -> entry[s][n] (a plan or a refusal) -> compare_print.c: table, JSON, SVG
 *
 * Everything is planned first and printed afterwards.
 *
 *     $ tutti compare star:4@1Gbps,5us ring:4@1Gbps,1us --sizes 1M..1M
 *     ...
 *       size    network           algorithm         predicted  x bound  x fastest  ms x cost
 *      1 MiB    star:4@1Gbps,5us  halving-doubling   12.62 ms    1.003      2.004      63.11
 *             * ring:4@1Gbps,1us  bi-ring            6.297 ms    1.001      1.000      25.19 * */
#include "cli/compare.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SIZES "64K..256M"

static const struct cli_option sizes[] = {
    {"sizes", 0, "MIN..MAX", "bytes of the whole vector (default " DEFAULT_SIZES ")"},
    {"factor", 'f', "F", "from one size to the next (default 4)"},
    {0}};
static const struct cli_option answers[] = {
    {"cost", 0, "C,S", "what a cable and a switch cost (default 1,1)"},
    {"svg", 0, "FILE", "also draw times by size"},
    {0}};
static const struct cli_option *const options[] = {
    sizes, cli_coll_options, answers, cli_choice_options, cli_json_options, NULL};

/* ---- the command line ---- */

/* The sizes: min, min * factor, ... and always max as the last one. `b > max / factor` is the
 * test for an overflow of b * factor. */
static int get_sizes(const struct cli_args *a, struct comparison *c)
{
    const char *text = cli_value(a, "sizes"), *f = cli_value(a, "factor");
    uint64_t min, max, factor = 4, each = tutti_dtype_bytes(c->problem.o.dtype);
    struct tutti_error err;
    int code = cli_get_range(a, "sizes", text ? text : DEFAULT_SIZES, &min, &max);
    if (code)
        return code;
    if (f && tutti_parse_u64(f, 2, 1 << 20, &factor, &err))
        return cli_bad(a, "--factor: %s", err.text);
    if (min % each || max % each)
        return cli_bad(a, "--sizes %s: not whole numbers of %s elements (%llu bytes each)", text,
                       tutti_dtype_name(c->problem.o.dtype), (unsigned long long)each);
    for (uint64_t b = min; c->sizes < COMPARE_SIZES - 1 && b < max;) {
        c->bytes[c->sizes++] = b;
        b = b > max / factor ? max : b * factor;
    }
    c->bytes[c->sizes++] = max;
    return 0;
}

/* --cost: two finite numbers that are not negative. */
static int get_cost(const struct cli_args *a, struct comparison *c)
{
    const char *text = cli_value(a, "cost");
    char *end = NULL, *last = NULL;
    c->cable = c->switched = 1;
    if (!text)
        return 0;
    c->cable = strtod(text, &end);
    if (end != text && *end == ',')
        c->switched = strtod(end + 1, &last);
    if (!last || last == end + 1 || *last || !(c->cable >= 0 && c->switched >= 0) ||
        !isfinite(c->cable + c->switched))
        return cli_bad(a, "--cost %.80s: what a cable and a switch cost is expected, e.g. 1,10",
                       text);
    return 0;
}

/* c->networks counts the opened ones, so that compare_run frees exactly those. */
static int open_networks(const struct cli_args *a, struct comparison *c)
{
    struct tutti_error err;
    for (size_t i = 0; i < a->nwords; i++) {
        struct compare_network *n = &c->network[i];
        n->spec = a->words[i];
        int code = cli_parse_topo(a, n->spec, &n->t);
        if (code)
            return code;
        c->networks++;
        if (tutti_topo_info(n->t, &n->info, &err))
            return cli_fail(a, &err);
        n->cost = c->cable * n->info.links + c->switched * n->info.switches;
    }
    return 0;
}

/* ---- planning ---- */

/* Plans one entry. A refusal or an exhausted budget is a result; other failures end the command. */
static int plan_entry(const struct cli_args *a, const struct comparison *c, size_t network,
                      uint64_t bytes, struct compare_entry *ret)
{
    struct tutti_plan_options o = c->problem.o;
    struct tutti_plan *p = NULL;
    struct tutti_plan_info info;
    struct tutti_error err;
    *ret = (struct compare_entry){.us = NAN, .bound_us = NAN, .ratio = NAN};
    o.count = bytes / tutti_dtype_bytes(o.dtype);
    if (tutti_plan_make(c->network[network].t, &o, &p, &err)) {
        ret->refused = true;
        snprintf(ret->why, sizeof ret->why, "%s", err.text);
        return err.status == TUTTI_ERR_REFUSED || err.status == TUTTI_ERR_BUDGET
                   ? 0
                   : cli_fail(a, &err);
    }
    tutti_plan_info(p, NULL, &info);
    snprintf(ret->algo, sizeof ret->algo, "%s", info.algo);
    ret->by_flow = tutti_plan_flow_us(p, SIZE_MAX) > 0;
    ret->us = ret->by_flow ? tutti_plan_flow_us(p, SIZE_MAX) : info.predicted_us;
    ret->bound_us = info.bound_us;
    ret->ratio = info.bound_us > 0 ? ret->us / info.bound_us : (double)NAN;
    tutti_plan_free(p);
    return 0;
}

/* Plans every network for every size; the longest part of the command, hence the progress line. */
static int plan_all(const struct cli_args *a, struct comparison *c)
{
    struct cli_progress progress;
    int code = 0;
    cli_progress_begin(&progress, "planning");
    for (size_t s = 0; s < c->sizes && !code; s++)
        for (size_t n = 0; n < c->networks && !code; n++) {
            cli_progress_show(&progress,
                              (double)(s * c->networks + n) / (double)(c->sizes * c->networks));
            code = plan_entry(a, c, n, c->bytes[s], &c->entry[s][n]);
        }
    cli_progress_end(&progress);
    return code;
}

static int compare_compare(const struct cli_args *a, struct comparison *c, struct cli_output *svg)
{
    int code = cli_get_choice(a, &c->problem);
    if (!code && c->problem.o.coll == TUTTI_BARRIER)
        code = cli_bad(a, "a barrier moves no data: there are no sizes to compare");
    if (!code)
        code = get_sizes(a, c);
    if (!code)
        code = get_cost(a, c);
    if (!code)
        code = open_networks(a, c);
    /* Before planning: a file that cannot be written should fail at once. */
    if (!code)
        code = cli_output_open(a, "svg", svg);
    if (!code)
        code = plan_all(a, c);
    /* cli_output_keep clears svg->f, so that it must be asked before. */
    bool alone = svg->f == stdout;
    if (!code && svg->f)
        code = cli_compare_draw(a, c, svg);
    if (code || alone)
        return code;
    if (cli_flag(a, "json"))
        cli_compare_json(c);
    else
        cli_compare_text(c);
    return CLI_OK;
}

/* The comparison is freed in any case; an unfinished picture is removed. */
static int compare_run(const struct cli_args *a)
{
    struct comparison *c = calloc(1, sizeof *c);
    struct cli_output svg = {0};
    const char *file = cli_value(a, "svg");
    if (!c)
        return cli_bad(a, "out of memory");
    cli_output_guard();
    int code = file && !strcmp(file, "-") && cli_flag(a, "json")
                   ? cli_bad(a, "only one of --json and --svg - can go to standard output")
                   : compare_compare(a, c, &svg);
    cli_output_drop(&svg);
    for (size_t n = 0; n < c->networks; n++)
        tutti_topo_free(c->network[n].t);
    free(c);
    return code;
}

const struct cli_command cli_compare = {
    .name = "compare",
    .synopsis =
        "compare TOPO TOPO .. [--sizes MIN..MAX] [--coll COLL] [--cost C,S] [--svg FILE] [--json]",
    .summary =
        "networks side by side: the best plan's time by size, cables and switches, time x cost",
    .details = "For every size and network the best plan is made as tutti plan does. Cost counts "
               "cables and switches, each at the price of\n"
               "--cost; of time x cost (in ms), less is better. FILE - is standard output "
               "(and no table).",
    .examples =
        "tutti compare star:16@10Gbps,5us torus:4x4@10Gbps,1us --sizes 64K..1M --svg networks.svg\n"
        "tutti compare nics:25G,25G,25G,10G star:4@25Gbps --coll all-gather --cost 1,20 --json",
    .options = options,
    .min_words = 1,
    .max_words = CLI_MAX_WORDS,
    .run = compare_run,
};
