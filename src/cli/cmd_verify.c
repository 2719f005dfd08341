/* cmd_verify.c - tutti verify: proves a plan, or names the rank, the operation and the reason
 * why it is not correct. cli_prove also serves sim and export, which prove a plan before they
 * use it.
 *
 * A file is read unchecked: the proof itself finds what is wrong and can point at it.
 *
 *     $ tutti verify --topo ring:4 --algo ring --size 1M
 *     correct: 4 ranks, 48 ops, 6 steps; allreduce by ring; proved exactly */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

static const struct cli_option *const options[] = {
    cli_topo_options, cli_size_options, cli_coll_options, cli_algo_options, cli_json_options, NULL};

/* The verdict; position and reason only when it is negative. */
static void print_json(const struct tutti_verdict *v)
{
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_json_object(j, NULL);
    tutti_json_bool(j, "ok", v->ok);
    tutti_json_u64(j, "ranks", v->ranks);
    tutti_json_u64(j, "ops", v->ops);
    tutti_json_u64(j, "messages", v->messages);
    tutti_json_string(j, "method", v->exact ? "exact" : "fingerprint");
    if (!v->exact)
        tutti_json_real(j, "error_probability", v->error_probability);
    if (!v->ok) {
        tutti_json_string(j, "where", v->header ? "header" : "op");
        tutti_json_u64(j, "rank", v->rank);
        tutti_json_u64(j, "op", v->op);
        tutti_json_string(j, "why", v->why);
    }
    tutti_json_end(j);
    tutti_json_close(j);
}

/* Prints the negative answer in the form asked for; returns CLI_NO. */
static int say_wrong(const struct cli_args *a, const struct tutti_verdict *v)
{
    if (cli_flag(a, "json"))
        print_json(v);
    else if (v->header)
        printf("not correct: the header: %s\n", v->why);
    else
        printf("not correct: rank %u, op %llu: %s\n", v->rank, (unsigned long long)v->op, v->why);
    return CLI_NO;
}

/* One line for a correct plan: its size, and how it was proved. */
static void print_text(const struct tutti_verdict *v, const struct tutti_schedule_info *i)
{
    printf("correct: %u rank%s, %llu op%s, %u step%s; %s by %s", v->ranks, v->ranks == 1 ? "" : "s",
           (unsigned long long)v->ops, v->ops == 1 ? "" : "s", i->steps, i->steps == 1 ? "" : "s",
           tutti_coll_name(i->coll), i->algo);
    if (v->exact)
        printf("; proved exactly\n");
    else
        printf("; proved by fingerprints, error probability below %.2g\n", v->error_probability);
}

int cli_prove(const struct cli_args *a, const struct tutti_schedule *s, struct tutti_verdict *ret)
{
    struct tutti_error err;
    struct cli_progress progress;
    cli_progress_begin(&progress, "verifying");
    tutti_status st = tutti_schedule_verify_progress(s, cli_progress_show, &progress, ret, &err);
    cli_progress_end(&progress);
    if (st)
        return cli_fail(a, &err);
    return ret->ok ? CLI_OK : say_wrong(a, ret);
}

/* The schedule to prove: from the file, or built from --topo, --algo and --size. A named
 * algorithm is built without planning, since its price is not needed. The caller frees *ret. */
static int get_schedule(const struct cli_args *a, struct tutti_schedule **ret)
{
    struct tutti_error err;
    if (a->nwords) {
        if (cli_value(a, "topo") || cli_value(a, "size") || cli_value(a, "algo"))
            return cli_bad(a, "either a FILE or --topo, --algo and --size");
        return tutti_schedule_read_unchecked(a->words[0], ret, &err) ? cli_fail(a, &err) : 0;
    }
    struct cli_problem problem;
    struct tutti_topo *t = NULL;
    struct tutti_plan *p = NULL;
    if (!cli_value(a, "topo") && !cli_value(a, "size") && !cli_value(a, "algo") &&
        !cli_value(a, "coll"))
        return cli_bad(a, "a FILE, or --topo, --algo and --size, is needed");
    int code = cli_get_problem(a, &problem);
    if (!code)
        code = cli_get_topo(a, &t);
    if (code)
        return code;
    /* "auto" needs a plan to choose; a named algorithm does not. */
    bool named = problem.o.algo && strcmp(problem.o.algo, "auto");
    tutti_status st =
        named ? tutti_schedule_build(t, tutti_topo_ranks(t), &problem.o, 0, 0, ret, &err)
              : cli_plan_make(t, &problem.o, &p, &err);
    if (!st && !named)
        st = tutti_plan_schedule(p, ret, &err);
    code = st ? cli_fail(a, &err) : 0;
    tutti_plan_free(p);
    tutti_topo_free(t);
    return code;
}

/* A plan that is not correct was reported by cli_prove already. */
static int verify_run(const struct cli_args *a)
{
    struct tutti_schedule *s = NULL;
    struct tutti_schedule_info info;
    struct tutti_verdict v;
    int code = get_schedule(a, &s);
    if (code)
        return code;
    code = cli_prove(a, s, &v);
    tutti_schedule_info(s, &info);
    if (!code && cli_flag(a, "json"))
        print_json(&v);
    else if (!code)
        print_text(&v, &info);
    tutti_schedule_free(s);
    return code;
}

const struct cli_command cli_verify = {
    .name = "verify",
    .synopsis =
        "verify FILE | --topo SPEC --algo NAME --size SIZE [--coll COLL] [--option K=V] [--json]",
    .summary = "prove a plan correct, or name the rank, the operation and why not",
    .details = "Up to 512 ranks the proof is exact (sets of contributions); beyond, random "
               "fingerprints modulo 2^61-1 are used and the\n"
               "probability that a wrong plan passes is printed. FILE - is standard input. Exit "
               "status 1: not correct.",
    .examples = "tutti verify plan.json\n"
                "tutti plan --topo star:16 --size 1M | tutti verify -\n"
                "tutti verify --topo star:65536 --algo circulant --size 100M",
    .options = options,
    .max_words = 1,
    .run = verify_run,
};
