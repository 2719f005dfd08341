/* tutti explain: every candidate with its predicted time, its ratio to the bound, or the reason why it was refused. */
#include "cli/cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct cli_option own[] = {{"envelope", 0, "MIN..MAX", "also the winners for sizes MIN to MAX, by factors of two"},
                                        {"option", 'O', "K=V", "segments=K for all candidates"},
                                        {0}};
static const struct cli_option *const options[] = {cli_topo_options, cli_problem_options, cli_choice_options, own, cli_json_options, NULL};

static void json_candidates(struct tutti_json *j, const struct tutti_plan *p)
{
    struct tutti_candidate c;
    tutti_json_array(j, "candidates");
    for (size_t i = 0; !tutti_plan_explain(p, i, &c, NULL); i++) {
        bool priced = !c.refused && !c.skipped;
        tutti_json_object(j, NULL);
        tutti_json_string(j, "algo", c.algo);
        tutti_json_bool(j, "refused", c.refused);
        tutti_json_bool(j, "skipped", c.skipped);
        if (priced) {
            tutti_json_real(j, "predicted_us", c.predicted_us);
            tutti_json_real(j, "ratio_to_bound", c.ratio_to_bound);
            tutti_json_u64(j, "segments", c.segments);
            tutti_json_u64(j, "steps", c.steps);
        } else {
            tutti_json_null(j, "predicted_us");
            tutti_json_null(j, "ratio_to_bound");
        }
        tutti_json_string(j, "why", c.why);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

static void json_envelope(struct tutti_json *j, const struct tutti_envelope_piece *e, size_t n)
{
    tutti_json_array(j, "envelope");
    for (size_t i = 0; i < n; i++) {
        tutti_json_object(j, NULL);
        tutti_json_u64(j, "from_bytes", e[i].from_bytes);
        tutti_json_u64(j, "to_bytes", e[i].to_bytes);
        tutti_json_string(j, "algo", e[i].algo);
        tutti_json_real(j, "from_us", e[i].from_us);
        tutti_json_real(j, "to_us", e[i].to_us);
        tutti_json_end(j);
    }
    tutti_json_end(j);
}

static void print_json(const struct tutti_plan *p, const struct tutti_envelope_piece *e, size_t n)
{
    struct tutti_plan_info i;
    struct tutti_json *j = tutti_json_open(stdout);
    tutti_plan_info(p, NULL, &i);
    tutti_json_object(j, NULL);
    tutti_json_string(j, "winner", i.algo);
    tutti_json_real(j, "predicted_us", i.predicted_us);
    tutti_json_real(j, "bound_us", i.bound_us);
    tutti_json_string(j, "bound_kind", i.bound_kind);
    tutti_json_string(j, "certificate", i.certificate);
    tutti_json_bool(j, "from_tuning", i.from_tuning);
    json_candidates(j, p);
    if (e)
        json_envelope(j, e, n);
    tutti_json_end(j);
    tutti_json_close(j);
}

/* Priced candidates by time, the others after them in table order. */
static int by_time(const void *x, const void *y)
{
    const struct tutti_candidate *a = x, *b = y;
    bool pa = !a->refused && !a->skipped, pb = !b->refused && !b->skipped;
    if (pa != pb)
        return pa ? -1 : 1;
    if (!pa || a->predicted_us == b->predicted_us)
        return 0;
    return a->predicted_us < b->predicted_us ? -1 : 1;
}

static void print_candidates(const struct tutti_plan *p, const char *winner)
{
    struct tutti_candidate all[64];
    size_t n = 0;
    while (n < 64 && !tutti_plan_explain(p, n, &all[n], NULL))
        n++;
    qsort(all, n, sizeof all[0], by_time);
    printf("  %-19s %12s %9s  %s\n", "algorithm", "predicted", "x bound", "why");
    for (size_t i = 0; i < n; i++) {
        char t[64], ratio[32] = "-";
        const struct tutti_candidate *c = &all[i];
        if (c->refused || c->skipped) {
            printf("  %-19s %12s %9s  %s\n", c->algo, c->refused ? "refused" : "skipped", "", c->why);
            continue;
        }
        if (c->ratio_to_bound > 0)
            snprintf(ratio, sizeof ratio, "%.3f", c->ratio_to_bound);
        printf("%c %-19s %12s %9s  %s\n", strcmp(c->algo, winner) ? ' ' : '*', c->algo, tutti_format_us(c->predicted_us, t, sizeof t),
               ratio, c->why);
    }
}

/* Does any candidate have a lower price? */
static bool beaten(const struct tutti_plan *p, double predicted_us)
{
    struct tutti_candidate c;
    bool lower = false;
    for (size_t i = 0; !tutti_plan_explain(p, i, &c, NULL); i++)
        lower |= !c.refused && !c.skipped && c.predicted_us < predicted_us;
    return lower;
}

static void print_text(const struct tutti_plan *p, uint64_t budget_ms, const struct tutti_envelope_piece *e, size_t n)
{
    struct tutti_plan_info i;
    char a[64], b[64], c[64], d[64];
    tutti_plan_info(p, NULL, &i);
    printf("bound %s (%s): %s\n", tutti_format_us(i.bound_us, a, sizeof a), i.bound_kind, i.certificate);
    print_candidates(p, i.algo);
    printf("winner: %s%s%s%s, predicted %s\n", i.algo, *i.options ? " " : "", i.options, i.from_tuning ? " (by the tuning file)" : "",
           tutti_format_us(i.predicted_us, a, sizeof a));
    if (!i.from_tuning && beaten(p, i.predicted_us))
        printf("predictions within 2 %% are ties: the winner of those has the fewest messages\n");
    cli_say_skipped(p, budget_ms);
    for (size_t k = 0; k < n; k++)
        printf("%s %10s .. %-10s %-19s %s .. %s\n", k ? "        " : "envelope", tutti_format_size(e[k].from_bytes, a, sizeof a),
               tutti_format_size(e[k].to_bytes, b, sizeof b), e[k].algo, tutti_format_us(e[k].from_us, c, sizeof c),
               tutti_format_us(e[k].to_us, d, sizeof d));
}

/* "MIN..MAX" of --envelope. */
static int get_envelope(const struct cli_args *a, const struct tutti_topo *t, const struct tutti_plan_options *o,
                        struct tutti_envelope_piece **ret, size_t *ret_n)
{
    const char *text = cli_value(a, "envelope");
    if (!text)
        return 0;
    uint64_t min = 0, max = 0;
    struct tutti_error err = {0};
    int code = cli_get_range(a, "envelope", text, &min, &max);
    if (code)
        return code;
    return tutti_plan_envelope(t, o, min, max, ret, ret_n, &err) ? cli_fail(a, &err) : 0;
}

static int run(const struct cli_args *a)
{
    struct tutti_topo *t = NULL;
    struct tutti_plan *p = NULL;
    struct tutti_envelope_piece *e = NULL;
    size_t n = 0;
    struct cli_problem problem;
    struct tutti_error err;
    int code = cli_get_problem(a, &problem);
    if (!code)
        code = cli_get_topo(a, &t);
    if (code)
        return code;
    problem.o.algo = NULL;
    if (tutti_plan_make(t, &problem.o, &p, &err))
        code = cli_fail(a, &err);
    else
        code = get_envelope(a, t, &problem.o, &e, &n);
    if (!code && cli_flag(a, "json"))
        print_json(p, e, n);
    else if (!code)
        print_text(p, problem.o.budget_ms, e, n);
    free(e);
    tutti_plan_free(p);
    tutti_topo_free(t);
    return code;
}

const struct cli_command cli_explain = {
    .name = "explain",
    .synopsis = "explain --topo SPEC --size SIZE [--coll COLL] [--envelope MIN..MAX] [--json]",
    .summary = "all candidates: predicted time, ratio to the bound, refusals with reasons, winner",
    .examples = "tutti explain --topo star:8@1Gbps,50us --size 64K\ntutti explain --topo torus:4x4 --size 1M --envelope 1K..256M",
    .options = options,
    .run = run,
};
