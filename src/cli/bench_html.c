/* bench_html.c - the page of tutti bench: bus bandwidth by size, time beside its prediction,
 * measured time in multiples of the bound, and the table. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/bench.h"
#include "cli/html.h"
#include "cli/output.h"
#include "cli/plot.h"

int cli_bench_keep(struct bench *b, const struct bench_row *r)
{
    struct bench_row *more = realloc(b->rows, (b->nrows + 1) * sizeof *more);
    if (!more)
        return cli_bad(b->a, "out of memory");
    b->rows = more;
    b->rows[b->nrows++] = *r;
    return CLI_OK;
}

static const char *const ways[] = {"out of place", "in place"};

/* The points of one picture: at most three lines over all sizes. */
struct points {
    double *x, *y;
    const char **line;
    size_t n;
};

static bool points_open(const struct bench *b, struct points *p)
{
    size_t most = 3 * b->nrows + 1;
    *p = (struct points){calloc(most, sizeof *p->x), calloc(most, sizeof *p->y),
                         calloc(most, sizeof *p->line), 0};
    return p->x && p->y && p->line;
}

static void points_free(struct points *p)
{
    free(p->x);
    free(p->y);
    free(p->line);
}

static void point(struct points *p, const char *line, uint64_t bytes, double y)
{
    p->x[p->n] = (double)bytes;
    p->y[p->n] = y;
    p->line[p->n++] = line;
}

enum picture { BUSBW, TIME, RATIO };

static void fill(const struct bench *b, enum picture what, struct points *p)
{
    p->n = 0;
    for (size_t i = 0; i < b->nrows; i++) {
        const struct bench_row *r = &b->rows[i];
        for (int k = 0; k < 2; k++)
            if (r->place[k].known)
                point(p, ways[k], r->bytes,
                      what == BUSBW  ? r->place[k].busbw
                      : what == TIME ? r->place[k].time_us
                                     : r->place[k].time_us / r->plan.bound_us);
        if (what == TIME)
            point(p, "predicted", r->bytes, r->plan.predicted_us);
        else if (what == RATIO)
            point(p, "predicted", r->bytes, r->plan.predicted_us / r->plan.bound_us);
    }
}

static void draw(FILE *out, const struct bench *b, enum picture what, struct points *p)
{
    static const char *const titles[] =
        {"Bus bandwidth", "Time of a call",
         "Time in multiples of the bound, by the speeds that this job has measured"},
                             *const labels[] = {"GB/s", "time", "x bound"};
    fill(b, what, p);
    cli_plot_draw(out,
                  &(struct cli_plot){titles[what],
                                     {"size of the vector", CLI_PLOT_BYTES, p->x, false},
                                     {labels[what], what == TIME ? CLI_PLOT_US : CLI_PLOT_NUMBER,
                                      p->y, what == BUSBW},
                                     p->n,
                                     p->line});
}

static void put_rows(FILE *out, const struct bench *b)
{
    char size[64];
    cli_html_table(out, "size|way|time (us)|algbw (GB/s)|busbw (GB/s)|wrong|plan|predicted (us)|"
                        "bound (us)|measured / predicted");
    for (size_t i = 0; i < b->nrows; i++)
        for (int k = 0; k < 2; k++) {
            const struct bench_row *r = &b->rows[i];
            const struct bench_time *t = &r->place[k];
            if (!t->known)
                continue;
            cli_html_row(out, false);
            cli_html_cell(out, true, "%s", tutti_format_size(r->bytes, size, sizeof size));
            cli_html_cell(out, false, "%s", ways[k]);
            cli_html_cell(out, true, "%.2f", t->time_us);
            cli_html_cell(out, true, "%.3f", t->algbw);
            cli_html_cell(out, true, "%.3f", t->busbw);
            if (b->check)
                cli_html_cell(out, true, "%llu", (unsigned long long)t->wrong);
            else
                cli_html_cell(out, true, "not checked");
            cli_html_cell(out, false, "%s", r->plan.algo);
            cli_html_cell(out, true, "%.1f", r->plan.predicted_us);
            cli_html_cell(out, true, "%.1f", r->plan.bound_us);
            cli_html_cell(out, true, "%.2f",
                          r->plan.predicted_us > 0 ? t->time_us / r->plan.predicted_us : 0);
        }
    cli_html_table_end(out);
}

/* The largest bus bandwidth of all rows, or what a barrier takes. */
static void put_verdict(FILE *out, const struct bench *b)
{
    const struct bench_row *best = NULL;
    double busbw = 0;
    char size[64], us[64];
    for (size_t i = 0; i < b->nrows; i++)
        for (int k = 0; k < 2; k++)
            if (b->rows[i].place[k].busbw > busbw) {
                busbw = b->rows[i].place[k].busbw;
                best = &b->rows[i];
            }
    if (best)
        cli_html_verdict(
            out, "Up to %.3g GB/s of bus bandwidth, at %s; the smallest size takes %s.", busbw,
            tutti_format_size(best->bytes, size, sizeof size),
            tutti_format_us(b->rows[0].place[!b->rows[0].place[0].known].time_us, us, sizeof us));
    else if (b->nrows)
        cli_html_verdict(out, "%s a call.",
                         tutti_format_us(b->rows[0].place[0].time_us, us, sizeof us));
    if (b->wrong)
        cli_html_verdict(out, "%llu wrong values: FAILED.", (unsigned long long)b->wrong);
}

static bool has_bound(const struct bench *b)
{
    for (size_t i = 0; i < b->nrows; i++)
        if (b->rows[i].plan.bound_us > 0)
            return true;
    return false;
}

static void put_pictures(FILE *out, const struct bench *b, struct points *p)
{
    cli_html_section(out, "By size");
    draw(out, b, BUSBW, p);
    draw(out, b, TIME, p);
    if (has_bound(b))
        draw(out, b, RATIO, p);
    cli_html_section_end(out);
}

int cli_bench_page(const struct bench *b)
{
    struct cli_output page = {0};
    struct points p = {0};
    char title[200], guard[64];
    int code = cli_output_open(b->a, "html", &page);
    if (code)
        return code;
    if (!points_open(b, &p)) {
        points_free(&p);
        cli_output_drop(&page);
        return cli_bad(b->a, "out of memory");
    }
    tutti_comm_guard(b->comm, guard, sizeof guard);
    snprintf(title, sizeof title, "%s on %u rank%s, measured", tutti_coll_name(b->p.coll),
             b->p.ranks, cli_s(b->p.ranks));
    cli_html_begin(page.f, title);
    put_verdict(page.f, b);
    for (size_t i = 0; i < sizeof b->doubts / sizeof b->doubts[0]; i++)
        if (b->doubts[i][0])
            cli_html_note(page.f, "Beware: %s.", b->doubts[i]);
    cli_html_note(page.f,
                  "%s, %s buffers; sockets: %s. Best of 3 means, slowest rank; bus bandwidth is "
                  "bytes / time x what every link must carry (10^9 bytes/s). Bound and prediction "
                  "are those of the network that this job has measured.",
                  tutti_dtype_name(b->p.dtype), b->mem_tutti ? "tutti_mem_alloc'd" : "malloc'd",
                  guard);
    if (b->p.coll != TUTTI_BARRIER)
        put_pictures(page.f, b, &p);
    cli_html_section(page.f, "Table");
    put_rows(page.f, b);
    cli_html_section_end(page.f);
    cli_html_end(page.f);
    points_free(&p);
    code = cli_output_keep(b->a, &page);
    cli_output_drop(&page);
    return code;
}
