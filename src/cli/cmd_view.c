/* cmd_view.c - tutti view: plans as a page that shows the network, the messages on it, and where
 * the time goes.
 *
 *     FILE ...            read -> proved --.
 *     --algo a,b,c        planned, proved --+-> simulated (level flow) -> page
 *     a trace             read -> its plans simulated -> page of the run
 *
 * Several plans stand side by side on one time axis, so they must solve the same problem. An
 * algorithm that is refused stands there with the reason. */
#include "cli/view.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option own[] = {
    {"output", 'o', "FILE", "the page to write; needed (- is standard output)"}, {0}};
static const struct cli_option *const options[] = {
    own, cli_topo_options, cli_size_options, cli_coll_options, cli_algo_options, NULL};

static void view_free(struct view *v)
{
    for (size_t i = 0; i < v->n; i++) {
        tutti_sim_free(v->plan[i].sim);
        tutti_schedule_free(v->plan[i].s);
        tutti_plan_free(v->plan[i].plan);
    }
    tutti_topo_free(v->t);
}

/* ---- from files ---- */

/* The network whose spec the plan holds, if it is the one that the plan was made for. */
static tutti_status open_named(const struct tutti_schedule_info *s, struct tutti_topo **ret)
{
    struct tutti_topo_info info;
    struct tutti_error err;
    tutti_status st = tutti_topo_spec(s->network, ret, &err);
    if (!st)
        st = tutti_topo_info(*ret, &info, &err);
    if (!st && info.hash != s->topo_hash)
        st = TUTTI_ERR_MISMATCH;
    if (st) {
        tutti_topo_free(*ret);
        *ret = NULL;
    }
    return st;
}

/* The network of --topo, else the one that the plan names, else a made-up one on which every pair
 * of ranks has a link. */
static int read_topo(const struct cli_args *a, const struct tutti_schedule *s, struct view *v)
{
    struct tutti_schedule_info info;
    struct tutti_error err;
    char spec[64];
    if (cli_value(a, "topo"))
        return cli_get_topo(a, &v->t);
    tutti_schedule_info(s, &info);
    if (*info.network && !open_named(&info, &v->t))
        return 0;
    if (info.nroutes || info.topo_hash)
        return cli_bad(a, "the plan was made for a network that the file does not hold: give it "
                          "with --topo");
    snprintf(spec, sizeof spec, "full:%u", info.ranks);
    v->made_up = true;
    return tutti_topo_parse(spec, &v->t, &err) ? cli_fail(a, &err) : 0;
}

/* The first plan decides which problem is shown; --size may give another size. */
static int read_problem(const struct cli_args *a, const struct tutti_schedule *s, struct view *v)
{
    struct tutti_schedule_info info;
    struct tutti_error err;
    const char *size = cli_value(a, "size");
    tutti_schedule_info(s, &info);
    v->problem = (struct cli_problem){.o = {.size = sizeof v->problem.o,
                                            .coll = info.coll,
                                            .root = info.root,
                                            .dtype = info.dtype,
                                            .redop = info.redop,
                                            .count = info.count}};
    v->problem.bytes = info.count * tutti_dtype_bytes(info.dtype);
    if (!size)
        return 0;
    if (tutti_parse_size(size, &v->problem.bytes, &err))
        return cli_bad(a, "--size: %s", err.text);
    return cli_get_count(a, v->problem.bytes, info.dtype, &v->problem.o.count);
}

/* Is this plan for the same problem as the first one? */
static int check_same(const struct cli_args *a, const struct view *v, const struct view_plan *p)
{
    struct tutti_schedule_info info;
    tutti_schedule_info(p->s, &info);
    if (info.ranks != tutti_topo_ranks(v->t))
        return cli_bad(a, "%s is for %u ranks, the network has %u", p->file, info.ranks,
                       tutti_topo_ranks(v->t));
    if (info.coll != v->problem.o.coll || info.root != v->problem.o.root)
        return cli_bad(a, "%s is a plan of %s, %s one of %s: plans of one page solve one problem",
                       v->plan[0].file, tutti_coll_name(v->problem.o.coll), p->file,
                       tutti_coll_name(info.coll));
    return 0;
}

/* Reads and proves one plan file. */
static int read_plan(const struct cli_args *a, const char *path, struct view *v)
{
    struct tutti_schedule_info info;
    struct tutti_error err;
    struct view_plan *p = &v->plan[v->n];
    if (tutti_schedule_read_unchecked(path, &p->s, &err))
        return cli_fail(a, &err);
    p->file = path;
    v->n++;
    int code = cli_prove(a, p->s, &p->verdict);
    if (code)
        return code;
    tutti_schedule_info(p->s, &info);
    snprintf(p->name, sizeof p->name, "%s", info.algo);
    if (v->n == 1) {
        code = read_topo(a, p->s, v);
        if (!code)
            code = read_problem(a, p->s, v);
    }
    return code ? code : check_same(a, v, p);
}

static int read_plans(const struct cli_args *a, struct view *v)
{
    int code = 0;
    if (cli_value(a, "algo") || cli_value(a, "coll") || cli_value(a, "root") ||
        cli_value(a, "option") || cli_value(a, "dtype") || cli_value(a, "op"))
        return cli_bad(a, "a plan file brings its own algorithm, collective and options");
    for (size_t i = 0; !code && i < a->nwords; i++)
        code = read_plan(a, a->words[i], v);
    return code;
}

/* ---- planned here ---- */

/* Plans and proves one algorithm. A refusal is kept as text; other failures end the command. */
static int make_plan(const struct cli_args *a, const char *algo, struct view *v)
{
    struct tutti_error err;
    struct tutti_plan_info info;
    struct view_plan *p = &v->plan[v->n++];
    struct tutti_plan_options o = v->problem.o;
    o.algo = algo;
    snprintf(p->name, sizeof p->name, "%s", algo);
    if (cli_plan_make(v->t, &o, &p->plan, &err)) {
        if (err.status != TUTTI_ERR_REFUSED)
            return cli_fail(a, &err);
        snprintf(p->why, sizeof p->why, "%s", err.text);
        return 0;
    }
    tutti_plan_info(p->plan, NULL, &info);
    snprintf(p->name, sizeof p->name, "%s", info.algo);
    if (tutti_plan_schedule(p->plan, &p->s, &err))
        return cli_fail(a, &err);
    return cli_prove(a, p->s, &p->verdict);
}

/* Each name of the list a,b,c; without --algo the planner's choice. */
static int make_plans(const struct cli_args *a, struct view *v)
{
    const char *list = cli_value(a, "algo");
    int code = cli_get_topo(a, &v->t);
    if (!code)
        code = cli_get_problem(a, &v->problem);
    if (code)
        return code;
    char *copy = strdup(list ? list : "auto"), *rest = copy, *name;
    if (!copy)
        return cli_bad(a, "out of memory");
    while (!code && (name = strsep(&rest, ",")))
        code = v->n == VIEW_MAX ? cli_bad(a, "--algo: at most %d algorithms", VIEW_MAX)
                                : make_plan(a, name, v);
    free(copy);
    return code;
}

/* ---- both ---- */

static bool show_progress(void *progress, double fraction)
{
    cli_progress_show(progress, fraction);
    return true;
}

/* Level flow, with the times of all messages. */
static int simulate(const struct cli_args *a, const struct view *v, struct view_plan *p)
{
    struct tutti_error err;
    struct cli_progress progress;
    struct tutti_sim_options o = {
        .timeline = true, .progress = show_progress, .progress_ctx = &progress};
    cli_progress_begin(&progress, "simulating");
    tutti_status st =
        tutti_sim_run(p->s, v->t, v->problem.o.count, v->problem.o.dtype, &o, &p->sim, &err);
    cli_progress_end(&progress);
    return st ? cli_fail(a, &err) : 0;
}

/* Exit status 1 when nothing is left to show. */
static int simulate_all(const struct cli_args *a, struct view *v)
{
    size_t shown = 0;
    for (size_t i = 0; i < v->n; i++) {
        struct view_plan *p = &v->plan[i];
        int code = *p->why ? 0 : simulate(a, v, p);
        if (code)
            return code;
        shown += !*p->why;
    }
    if (shown)
        return 0;
    for (size_t i = 0; i < v->n; i++)
        fprintf(stderr, "tutti view: %s\n", v->plan[i].why);
    return CLI_NO;
}

/* Plans, read or made, simulated, on a page. */
static int view_plans(const struct cli_args *a, struct view *v, FILE *out)
{
    int code = a->nwords ? read_plans(a, v) : make_plans(a, v);
    if (!code)
        code = simulate_all(a, v);
    return code ? code : cli_view_page(a, v, out);
}

/* A trace stands on a page of its own. */
static int view_trace(const struct cli_args *a, FILE *out)
{
    if (a->nwords > 1 || a->nvalues > 1)
        return cli_bad(a, "%s is a trace, which is shown alone: only -o goes with it", a->words[0]);
    return cli_view_run(a, a->words[0], out);
}

static int view_run(const struct cli_args *a)
{
    struct view *v = calloc(1, sizeof *v);
    struct cli_output out = {0};
    if (!v)
        return cli_bad(a, "out of memory");
    cli_output_guard();
    cli_limit_memory();
    int code = cli_value(a, "output") ? 0 : cli_bad(a, "-o FILE is needed: the page to write");
    if (!code)
        code = cli_output_open(a, "output", &out);
    if (!code)
        code =
            a->nwords && tutti_run_is(a->words[0]) ? view_trace(a, out.f) : view_plans(a, v, out.f);
    if (!code)
        code = cli_output_keep(a, &out);
    cli_output_drop(&out);
    view_free(v);
    free(v);
    return code;
}

const struct cli_command cli_view = {
    .name = "view",
    .synopsis = "view (FILE ... [--topo SPEC] | --topo SPEC --size SIZE [--algo NAME,...] "
                "[--coll COLL]) -o PAGE",
    .summary = "plans, or the trace of a run, as a page for a browser",
    .details =
        "The page is one file that needs no network. It shows the messages step by step and by "
        "simulated time (level flow of tutti sim), the use of every link, what each rank does, "
        "what each rank holds after each step, and the cut or partition that proves the bound; "
        "several plans stand side by side on one time axis.\n\n"
        "Keys: space plays and pauses, arrows go to the next step, Home and End to the ends, R "
        "selects a rank.\n\n"
        "Networks of more than 256 ranks are folded, and plans of more than 140,000 messages "
        "shown as link use over time. A plan file is proved first: exit status 1 when it is not "
        "correct. FILE - is standard input.\n\n"
        "A FILE that TUTTI_TRACE (tutti run --trace) has written becomes the page of that run: "
        "calls, waits and pieces of every rank beside the simulation of the same plans, training "
        "steps beside the policy's plan, which rank was late, which link was slow.",
    .examples =
        "tutti view --topo torus:4x4 --algo multitree,bucket,ring --size 16M -o compare.html\n"
        "tutti plan --topo torus:4x4 --size 64M -o plan.json && tutti view plan.json -o plan.html\n"
        "tutti run -n 4 --trace run.json -- ./program && tutti view run.json -o run.html",
    .options = options,
    .max_words = VIEW_MAX,
    .run = view_run,
};
