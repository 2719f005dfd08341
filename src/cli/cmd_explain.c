/* cmd_explain.c - tutti explain: every candidate with its predicted time and its ratio to the
 * bound, or the reason why it was refused.
 *
 * With a what-if (--slow, --degrade, --down) two plans are made: `before` on the network as
 * described and `p` on the changed one. The report is about p and says what the winner of `before`
 * would take after the change ("staying with ring would take ...").
 *
 *     $ tutti explain --topo star:4@1Gbps,50us --size 1M
 *     bound 12.58 ms (volume): allreduce of 1 MiB: 6 MiB must leave the 4 ranks together ...
 *       algorithm              predicted      at flow   x bound  why
 *       direct                  12.78 ms     12.78 ms     1.016  2 steps; latency 2%, ...
 *     * halving-doubling        12.98 ms     12.98 ms     1.032  4 steps; latency 3%, ...
 *
 * Times at flow level decide where they are known. The winner is not always the fastest: times
 * within 2 % are ties, and among those the candidate with the fewest messages wins. */
#include "cli/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/output.h"
#include "cli/whatif.h"

static const struct cli_option own[] = {
    {"envelope", 0, "MIN..MAX", "also the winners for sizes MIN to MAX, by factors of two"},
    {"option", 'O', "K=V", "segments=K for all candidates"},
    {"html", 0, "FILE",
     "also write a page for a browser (-: to standard output, and nothing else)"},
    {0}};
static const struct cli_option *const options[] = {cli_topo_options,
                                                   cli_size_options,
                                                   cli_coll_options,
                                                   cli_choice_options,
                                                   own,
                                                   cli_whatif_options,
                                                   cli_json_options,
                                                   NULL};

/* The time by which the plan was chosen. */
static double plan_us(const struct tutti_plan *p)
{
    double flow = tutti_plan_flow_us(p, SIZE_MAX);
    return flow > 0 ? flow : tutti_plan_predicted_us(p);
}

/* One line that compares both plans; it mentions the old winner only when it is not the new one. */
static void print_before(const struct explained *x)
{
    char a[64], b[64];
    double was = plan_us(x->before), is = plan_us(x->p);
    struct tutti_candidate stay;
    printf("without the what-if: %s, %s", tutti_plan_algo(x->before),
           tutti_format_us(was, a, sizeof a));
    if (was > 0)
        printf("; with it %.3f times as long", is / was);
    if (strcmp(tutti_plan_algo(x->before), tutti_plan_algo(x->p)) &&
        cli_explain_find_stay(x, &stay)) {
        if (stay.refused || stay.skipped)
            printf("; %s is %s then: %s", stay.algo, stay.refused ? "refused" : "skipped",
                   stay.why);
        else
            printf("; staying with %s would take %s", stay.algo,
                   tutti_format_us(stay.predicted_us, b, sizeof b));
    }
    printf("\n");
}

double cli_explain_us(const struct explain_line *x)
{
    return x->flow_us > 0 ? x->flow_us : x->c.predicted_us;
}

double cli_explain_ratio(const struct explain_line *x)
{
    return x->c.ratio_to_bound * (cli_explain_us(x) / x->c.predicted_us);
}

/* Priced candidates by time, the others after them. qsort is not stable, but the others have no
 * order to keep. */
static int by_time(const void *x, const void *y)
{
    const struct explain_line *a = x, *b = y;
    bool pa = !a->c.refused && !a->c.skipped, pb = !b->c.refused && !b->c.skipped;
    if (pa != pb)
        return pa ? -1 : 1;
    if (!pa || cli_explain_us(a) == cli_explain_us(b))
        return 0;
    return cli_explain_us(a) < cli_explain_us(b) ? -1 : 1;
}

size_t cli_explain_lines(const struct tutti_plan *p, struct explain_line *ret)
{
    size_t n = 0;
    for (; n < EXPLAIN_LINES && !tutti_plan_explain(p, n, &ret[n].c, NULL); n++)
        ret[n].flow_us = tutti_plan_flow_us(p, n);
    qsort(ret, n, sizeof ret[0], by_time);
    return n;
}

static void print_line(const struct explain_line *x, const char *winner)
{
    const struct tutti_candidate *c = &x->c;
    char t[64], f[64] = "-", ratio[32] = "-";
    if (c->refused || c->skipped) {
        printf("  %-19s %12s %12s %9s  %s\n", c->algo, c->refused ? "refused" : "skipped", "", "",
               c->why);
        return;
    }
    if (c->ratio_to_bound > 0)
        snprintf(ratio, sizeof ratio, "%.3f", cli_explain_ratio(x));
    if (x->flow_us > 0)
        tutti_format_us(x->flow_us, f, sizeof f);
    printf("%c %-19s %12s %12s %9s  %s\n", strcmp(c->algo, winner) ? ' ' : '*', c->algo,
           tutti_format_us(c->predicted_us, t, sizeof t), f, ratio, c->why);
}

/* A table by time, with * at the winner. */
static void print_candidates(const struct tutti_plan *p, const char *winner)
{
    struct explain_line all[EXPLAIN_LINES];
    size_t n = cli_explain_lines(p, all);
    printf("  %-19s %12s %12s %9s  %s\n", "algorithm", "predicted", "at flow", "x bound", "why");
    for (size_t i = 0; i < n; i++)
        print_line(&all[i], winner);
}

/* Does any priced candidate have a lower time than the winner, whose time is `us`? */
static bool beaten(const struct tutti_plan *p, double us)
{
    struct explain_line x;
    bool lower = false;
    for (size_t i = 0; !tutti_plan_explain(p, i, &x.c, NULL); i++) {
        x.flow_us = tutti_plan_flow_us(p, i);
        lower |= !x.c.refused && !x.c.skipped && cli_explain_us(&x) < us;
    }
    return lower;
}

/* "winner: flex segments=128, predicted 217.7 ms; chosen by its 217.5 ms at flow level" */
static void print_winner(const struct tutti_plan *p, const struct tutti_plan_info *i)
{
    char a[64], b[64];
    double flow = tutti_plan_flow_us(p, SIZE_MAX);
    printf("winner: %s%s%s%s, predicted %s", i->algo, *i->options ? " " : "", i->options,
           i->from_tuning ? " (by the tuning file)" : "",
           tutti_format_us(i->predicted_us, a, sizeof a));
    if (flow > 0)
        printf("; chosen by its %s at flow level", tutti_format_us(flow, b, sizeof b));
    printf("\n");
    if (!i->from_tuning && beaten(p, flow > 0 ? flow : i->predicted_us))
        printf("times within 2 %% are ties: the winner of those has the fewest messages\n");
}

/* The bound, the candidates, the winner, and why a cheaper candidate may not have won. */
static void print_text(const struct explained *x)
{
    const struct tutti_plan *p = x->p;
    const struct tutti_envelope_piece *e = x->envelope;
    struct tutti_plan_info i;
    char a[64], b[64], c[64], d[64];
    tutti_plan_info(p, NULL, &i);
    printf("bound %s (%s): %s\n", tutti_format_us(i.bound_us, a, sizeof a), i.bound_kind,
           i.certificate);
    print_candidates(p, i.algo);
    print_winner(p, &i);
    if (x->before)
        print_before(x);
    cli_say_skipped(p, x->problem->o.budget_ms);
    for (size_t k = 0; k < x->npieces; k++)
        printf("%s %10s .. %-10s %-19s %s .. %s\n", k ? "        " : "envelope",
               tutti_format_size(e[k].from_bytes, a, sizeof a),
               tutti_format_size(e[k].to_bytes, b, sizeof b), e[k].algo,
               tutti_format_us(e[k].from_us, c, sizeof c),
               tutti_format_us(e[k].to_us, d, sizeof d));
}

/* Plans all sizes of --envelope MIN..MAX. *ret stays NULL without the option; the caller frees
 * it. */
static int get_envelope(const struct cli_args *a, const struct tutti_topo *t,
                        const struct tutti_plan_options *o, struct tutti_envelope_piece **ret,
                        size_t *ret_n)
{
    const char *text = cli_value(a, "envelope");
    if (!text)
        return 0;
    uint64_t min = 0, max = 0;
    struct tutti_error err = {0};
    int code = cli_get_range(a, "envelope", text, &min, &max);
    if (code)
        return code;
    cli_wait_begin("planning all sizes");
    tutti_status st = tutti_plan_envelope(t, o, min, max, ret, ret_n, &err);
    cli_wait_end();
    return st ? cli_fail(a, &err) : 0;
}

/* Applies the what-ifs: *t becomes the changed network (the old one is freed) and *ret_before
 * the plan without them. Without what-ifs both stay as they are. */
static int change(const struct cli_args *a, const struct tutti_plan_options *o,
                  struct tutti_topo **t, struct tutti_plan **ret_before)
{
    struct cli_whatif w = {0};
    struct tutti_topo *changed = NULL;
    struct tutti_error err;
    /* Without a what-if one plan is enough. */
    if (!cli_value(a, "slow") && !cli_value(a, "degrade") && !cli_value(a, "down"))
        return 0;
    if (cli_plan_make(*t, o, ret_before, &err))
        return cli_fail(a, &err);
    int code = cli_whatif_down(a, t);
    if (!code)
        code = cli_whatif_get(a, *t, &w);
    if (!code)
        code = cli_whatif_apply(a, *t, &w, &changed);
    cli_whatif_free(&w);
    if (code)
        return code;
    tutti_topo_free(*t);
    *t = changed;
    return 0;
}

/* The page first: a report is never seen without it. A page on standard output stands alone. */
static int deliver(const struct cli_args *a, const struct explained *x, struct cli_output *html)
{
    bool alone = html->f && html->f == stdout;
    int code = 0;
    if (html->f)
        code = cli_explain_page(a, x, html->f);
    if (!code)
        code = cli_output_keep(a, html);
    if (code || alone)
        return code;
    if (cli_flag(a, "json"))
        cli_explain_json(x);
    else
        print_text(x);
    return 0;
}

static int explain_run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    struct tutti_plan *p = NULL, *before = NULL;
    struct explained x = {0};
    struct cli_problem problem;
    struct tutti_error err;
    struct cli_output html = {0};
    int code = cli_get_problem(a, &problem);
    if (!code)
        code = cli_get_topo(a, &t);
    if (code)
        return code;
    cli_output_guard();
    /* Explaining compares all candidates; TUTTI_ALGO must not fix one. */
    problem.o.algo = NULL;
    code = cli_output_open(a, "html", &html);
    if (!code && html.f == stdout && cli_flag(a, "json"))
        code = cli_bad(a, "only one of --json and --html - can go to standard output");
    if (!code)
        code = change(a, &problem.o, &t, &before);
    if (!code && cli_plan_make(t, &problem.o, &p, &err))
        code = cli_fail(a, &err);
    if (!code)
        code = get_envelope(a, t, &problem.o, &x.envelope, &x.npieces);
    x.p = p;
    x.before = before;
    x.problem = &problem;
    x.t = t;
    if (!code)
        code = deliver(a, &x, &html);
    cli_output_drop(&html);
    free(x.envelope);
    tutti_plan_free(p);
    tutti_plan_free(before);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_explain = {
    .name = "explain",
    .synopsis = "explain --topo SPEC --size SIZE [--coll COLL] [--envelope MIN..MAX] [--slow "
                "rank=R,factor=F] [--degrade "
                "link=A-B,factor=F] [--down "
                "link=A-B] [--html FILE] [--json]",
    .summary = "all candidates: predicted time, ratio to the bound, refusals with reasons, winner",
    .details = "--slow, --degrade and --down ask what if: bound and candidates are then those of "
               "the changed network, with what the network as\n"
               "described would take beside them. Links are named as in the reports: 'rank "
               "3-switch 0' (both directions), 'rank 3 -> switch 0',\n"
               "or a cable's number. A slow rank's links are slower by its factor; tutti sim "
               "--slow also slows its overhead and reductions.",
    .examples =
        "tutti explain --topo star:8@1Gbps,50us --size 64K\n"
        "tutti explain --topo torus:4x4 --size 1M --envelope 1K..256M\n"
        "tutti explain --topo torus:4x4 --size 64M --down 'link=rank 0-rank 1'\n"
        "tutti explain --topo torus:4x4 --size 64M --degrade 'link=rank 5-rank 6,factor=4'\n"
        "tutti explain --topo star:8@1Gbps,50us --size 8M --slow rank=3,factor=2\n"
        "tutti explain --topo torus:4x4 --size 64M --html explain.html",
    .options = options,
    .run = explain_run,
};
