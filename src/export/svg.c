/* svg.c - a schedule as a picture: ranks are rows, steps are columns, messages are arrows coloured
 * by their chunk.
 *
 *     rank 0  o---.     .---o
 *                  \   /
 *     rank 1  o-----`-x-----o
 *              step 0   step 1
 *
 * Text and grid follow the page's scheme, light or dark. */
#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "export/export.h"

enum {
    MESSAGES_MAX = 20000,
    LEFT = 70,
    TOP = 72,
    ROW = 44,
    COLUMN = 96,
    RIGHT = 30,
    BOTTOM = 40,
    WIDTH_MIN = 360
};

static double x_of(uint32_t step)
{
    return LEFT + COLUMN * (double)step;
}

static double y_of(uint32_t rank)
{
    return TOP + ROW * (double)rank;
}

/* Numbers the steps that hold a message from 0 in column[step]; the others get UINT32_MAX and no
 * column. Returns the number of columns. */
static uint32_t number_columns(const struct tt_sched *s, uint32_t *column)
{
    uint32_t n = 0;
    for (uint64_t i = 0; i < s->nops; i++)
        if (s->ops[i].kind == TT_OP_SEND)
            column[s->ops[i].step] = 1;
    for (uint32_t t = 0; t < s->nsteps; t++)
        column[t] = column[t] ? n++ : UINT32_MAX;
    return n;
}

/* A line per rank, and the numbers of the columns below. */
static void print_grid(const struct tt_sched *s, uint32_t columns, FILE *out)
{
    const double end = x_of(columns);
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        fprintf(out, "<text x=\"%d\" y=\"%.0f\" text-anchor=\"end\">rank %u</text>\n", LEFT - 12,
                y_of(r) + 4, r);
        fprintf(out, "<line class=\"grid\" x1=\"%d\" y1=\"%.0f\" x2=\"%.0f\" y2=\"%.0f\"/>\n", LEFT,
                y_of(r), end, y_of(r));
    }
    for (uint32_t t = 0; t < columns; t++)
        fprintf(out, "<text x=\"%.0f\" y=\"%.0f\" text-anchor=\"middle\">step %u</text>\n",
                x_of(t) + COLUMN / 2.0, y_of(s->shape.ranks - 1) + 30, t);
}

/* An arrow for each message, with a tooltip. It ends 7 pixels before the receiver's row, where
 * its head begins. */
static void print_messages(const struct tt_sched *s, const uint32_t *column, FILE *out)
{
    for (uint32_t r = 0; r < s->shape.ranks; r++) {
        const struct tt_slice sl = tt_sched_slice(s, r);
        for (size_t i = 0; i < sl.nops; i++) {
            const struct tt_op *op = &sl.ops[i];
            if (op->kind != TT_OP_SEND)
                continue;
            const struct tt_span *span = &sl.spans[op->span];
            const double x1 = x_of(column[op->step]) + 10, x2 = x1 + COLUMN - 22;
            const double y1 = y_of(r), y2 = y_of(op->peer), length = hypot(x2 - x1, y2 - y1);
            fprintf(out,
                    "<path stroke=\"%s\" fill=\"%s\" d=\"M%.1f %.1fL%.1f %.1f\" "
                    "marker-end=\"url(#a%u)\"><title>rank %u to rank %u, "
                    "chunk %u%s</title></path>\n",
                    tt_export_colour(span->first), tt_export_colour(span->first), x1, y1,
                    x2 - 7 * (x2 - x1) / length, y2 - 7 * (y2 - y1) / length,
                    (unsigned)(span->first % TT_EXPORT_COLOURS), r, op->peer, span->first,
                    tt_sched_span_chunks(span) > 1 || op->nspans > 1 ? " and more" : "");
        }
    }
}

static void print_head(const struct tt_sched *s, uint32_t columns, FILE *out)
{
    const double width = fmax(x_of(columns) + RIGHT, WIDTH_MIN),
                 height = y_of(s->shape.ranks - 1) + BOTTOM;
    fprintf(out,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 "
            "0 %.0f %.0f\" role=\"img\">\n",
            width, height, width, height);
    fprintf(out, "<title>%s by ", tt_sched_coll_name(s->shape.coll));
    tt_export_xml_text(s->shape.algo, out);
    fprintf(out, " on %u ranks</title>\n<style>\n", s->shape.ranks);
    fprintf(
        out,
        "text{font:13px "
        "sans-serif;fill:#222}.grid{stroke:#bbb}path{stroke-width:2;fill-opacity:1}\n"
        "@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#555}}\n</style>\n<defs>\n");
    for (unsigned i = 0; i < TT_EXPORT_COLOURS; i++)
        fprintf(out,
                "<marker id=\"a%u\" viewBox=\"0 0 8 8\" refX=\"2\" refY=\"4\" markerWidth=\"8\" "
                "markerHeight=\"8\" orient=\"auto\" "
                "markerUnits=\"userSpaceOnUse\"><path stroke=\"none\" fill=\"%s\" d=\"M0 0L8 4L0 "
                "8z\"/></marker>\n",
                i, tt_export_colour(i));
    fprintf(out, "</defs>\n<text x=\"12\" y=\"24\" font-weight=\"bold\">%s by ",
            tt_sched_coll_name(s->shape.coll));
    tt_export_xml_text(s->shape.algo, out);
    fprintf(out, ": %u ranks, %u step%s</text>\n", s->shape.ranks, s->steps,
            s->steps == 1 ? "" : "s");
    fprintf(out, "<text x=\"12\" y=\"44\">%u chunks; colour: first chunk of a message</text>\n",
            s->shape.chunks);
}

static tutti_status write_svg(const struct tt_sched *s, const struct tt_export_options *o,
                              uint32_t rank, FILE *out, struct tutti_error *err)
{
    (void)o;
    assert(rank == 0);
    if (s->nops > MESSAGES_MAX)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "svg: %llu operations are too many for a drawing (at most %d)",
                       (unsigned long long)s->nops, MESSAGES_MAX);
    uint32_t *column = tt_zalloc((size_t)s->nsteps + 1, sizeof *column);
    if (!column)
        return tt_fail_memory(err, "columns");
    const uint32_t columns = number_columns(s, column);
    print_head(s, columns, out);
    print_grid(s, columns, out);
    print_messages(s, column, out);
    fprintf(out, "</svg>\n");
    free(column);
    return TUTTI_OK;
}

const struct tt_export_format tt_export_svg = {
    .name = "svg",
    .desc = "a picture: ranks are rows, steps are columns, messages are arrows",
    .options = "",
    .write = write_svg,
};
