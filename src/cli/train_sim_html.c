/* train_sim_html.c - the page of tutti train-sim: the step of every policy as compute and the
 * communication that shows, one step of the best policies as tracks of time, the buckets. */
#include <stdlib.h>
#include <string.h>

#include "cli/html.h"
#include "cli/plot.h"
#include "cli/train_sim.h"

enum { TRACKED = 6 }; /* the policies whose steps are drawn: the shortest ones */

/* What a step consists of, by colour: those of the page of a run (steps.js); orange and amber are
 * for waiting. */
static const char *const kinds[] = {"backward", "",        "reduce-scatter", "all-gather",
                                    "",         "forward", "update",         "allreduce"};

static struct tutti_trainsim_info info_of(const struct train_sim_answer *x, size_t k)
{
    struct tutti_trainsim_info i;
    tutti_trainsim_info(x->sims[k], &i);
    return i;
}

/* Policies by the length of their steps; equal ones keep the order of the table. */
static void sort_policies(const struct train_sim_answer *x, size_t *order)
{
    for (size_t k = 0; k < x->n; k++) {
        size_t at = k;
        double us = info_of(x, k).iteration_us;
        for (; at && info_of(x, order[at - 1]).iteration_us > us; at--)
            order[at] = order[at - 1];
        order[at] = k;
    }
}

static void draw_steps(FILE *out, const struct train_sim_answer *x, const size_t *order)
{
    static const char *const parts[] = {"forward and backward",
                                        "communication that is not hidden, updates"};
    const char *name[TRAIN_SIM_MOST], *text[TRAIN_SIM_MOST];
    char buf[TRAIN_SIM_MOST][96], us[64], more[64];
    double v[2 * TRAIN_SIM_MOST];
    for (size_t k = 0; k < x->n; k++) {
        struct tutti_trainsim_info i = info_of(x, order[k]);
        name[k] = i.policy;
        v[2 * k] = i.forward_us + i.backward_us;
        v[2 * k + 1] = i.iteration_us - v[2 * k];
        snprintf(buf[k], sizeof buf[k], "%s, %s exposed",
                 tutti_format_us(i.iteration_us, us, sizeof us),
                 tutti_format_us(i.exposed_comm_us, more, sizeof more));
        text[k] = buf[k];
    }
    cli_bars_draw(out, &(struct cli_bars){.title = "One training step, the shortest first",
                                          .label = "time",
                                          .unit = CLI_PLOT_US,
                                          .n = x->n,
                                          .parts = 2,
                                          .name = name,
                                          .part = parts,
                                          .v = v,
                                          .text = text,
                                          .mark = cli_train_sim_limit(x),
                                          .mark_text = "none of these can be shorter"});
}

/* All spans of one policy's step, on rows compute, network and (where it has some) updates. */
static size_t copy_spans(const struct tutti_trainsim *s, struct cli_span *ret, size_t *ret_rows)
{
    struct tutti_trainsim_span e;
    size_t n = 0;
    *ret_rows = 2;
    for (; tutti_trainsim_span(s, n, &e); n++) {
        size_t kind = sizeof kinds / sizeof kinds[0] - 1;
        while (kind && strcmp(e.what, kinds[kind]) != 0)
            kind--;
        size_t row = e.stream ? 1 : e.beside ? 2 : 0;
        *ret_rows = row == 2 ? 3 : *ret_rows;
        if (ret)
            ret[n] = (struct cli_span){row, kind, (double)e.start_ps / 1e6, (double)e.end_ps / 1e6};
    }
    return n;
}

static void draw_tracks(FILE *out, const struct train_sim_answer *x, size_t k, double end_us)
{
    static const char *const rows[] = {"compute", "network", "updates"};
    struct tutti_trainsim_info i = info_of(x, k);
    char title[200], us[64];
    size_t nrows, n = copy_spans(x->sims[k], NULL, &nrows);
    struct cli_span *span = calloc(n + 1, sizeof *span);
    snprintf(title, sizeof title, "%s: %s", i.policy,
             tutti_format_us(i.iteration_us, us, sizeof us));
    if (span) {
        copy_spans(x->sims[k], span, &nrows);
        cli_tracks_draw(out, &(struct cli_tracks){.title = title,
                                                  .nrows = nrows,
                                                  .nkinds = sizeof kinds / sizeof kinds[0],
                                                  .nspans = n,
                                                  .row = rows,
                                                  .kind = kinds,
                                                  .span = span,
                                                  .end_us = end_us});
    }
    free(span);
}

static void put_policies(FILE *out, const struct train_sim_answer *x, const size_t *order)
{
    char a[64], b[64], c[64], d[64];
    double limit = cli_train_sim_limit(x);
    cli_html_table(out,
                   "policy|step|exposed|its ideal|all-reduce of everything|x limit|buckets|order");
    for (size_t k = 0; k < x->n; k++) {
        struct tutti_trainsim_info i = info_of(x, order[k]);
        cli_html_row(out, k == 0);
        cli_html_cell(out, false, "%s", i.policy);
        cli_html_cell(out, true, "%s", tutti_format_us(i.iteration_us, a, sizeof a));
        cli_html_cell(out, true, "%s", tutti_format_us(i.exposed_comm_us, b, sizeof b));
        cli_html_cell(out, true, "%s", tutti_format_us(i.ideal_us, c, sizeof c));
        cli_html_cell(out, true, "%s", tutti_format_us(i.comm_us, d, sizeof d));
        cli_html_cell(out, true, "%.3f", limit > 0 ? i.iteration_us / limit : 1);
        cli_html_cell(out, true, "%u", i.buckets);
        cli_html_cell(out, false, "%s", i.order);
    }
    cli_html_table_end(out);
}

static void put_buckets(FILE *out, const struct tutti_trainsim *s)
{
    struct tutti_trainsim_bucket b;
    char size[64];
    cli_html_table(out, "bucket|first tensor|last tensor|tensors|bytes|algorithm");
    for (size_t i = 0; tutti_trainsim_bucket(s, i, &b); i++) {
        cli_html_row(out, false);
        cli_html_cell(out, true, "%zu", i);
        cli_html_cell(out, false, "%s", b.first);
        cli_html_cell(out, false, "%s", b.last);
        cli_html_cell(out, true, "%u", b.tensors);
        cli_html_cell(out, true, "%s", tutti_format_size(b.bytes, size, sizeof size));
        cli_html_cell(out, false, "%s%s", b.algo, b.decoupled ? ", in two halves" : "");
    }
    cli_html_table_end(out);
}

void cli_train_sim_page(const struct train_sim_answer *x, FILE *out)
{
    struct tutti_model_info m;
    size_t order[TRAIN_SIM_MOST];
    char title[400], us[64], exposed[64], limit[64], bytes[64];
    sort_policies(x, order);
    tutti_model_info(x->model, &m);
    struct tutti_trainsim_info best = info_of(x, order[0]);
    snprintf(title, sizeof title, "A training step of %.100s on %.200s", m.name, x->topo);
    cli_html_begin(out, title);
    cli_html_verdict(out,
                     "%s takes %s a step; %s of that is communication that compute does not "
                     "hide.",
                     best.policy, tutti_format_us(best.iteration_us, us, sizeof us),
                     tutti_format_us(best.exposed_comm_us, exposed, sizeof exposed));
    cli_html_note(out,
                  "%s, batch %u a rank, %llu parameters (%s); times %s. Computed by the model, "
                  "nothing was measured; no policy of this page can be shorter than %s.",
                  m.name, m.batch, (unsigned long long)m.parameters,
                  tutti_format_size(m.bytes, bytes, sizeof bytes), m.source,
                  tutti_format_us(cli_train_sim_limit(x), limit, sizeof limit));
    cli_html_section(out, "Policies");
    draw_steps(out, x, order);
    put_policies(out, x, order);
    cli_html_section_end(out);
    cli_html_section(out, "One step of the steady state, from the start of a backward pass");
    size_t tracked = x->n < TRACKED ? x->n : TRACKED;
    for (size_t k = 0; k < tracked; k++)
        draw_tracks(out, x, order[k], info_of(x, order[tracked - 1]).iteration_us);
    cli_html_section_end(out);
    snprintf(title, sizeof title, "Buckets of %s", best.policy);
    cli_html_section(out, title);
    put_buckets(out, x->sims[order[0]]);
    cli_html_section_end(out);
    cli_html_end(out);
}
