/* work_deps.c - which operations of a rank wait for which: the live meaning of a schedule (sched.h) as edges, for all ranks.
 *
 * An operation waits for the last writer of what it reads, and to write for the readers since then (for the last writer when there are
 * none): every other conflict follows through these. Only borders of accessed ranges matter, so the chunks are cut into cells at all
 * borders that the rank's operations have; a place is (buffer used by the rank, cell):
 *
 *     op 0 send 0..3     borders 0 4 6 8      cells  0..3 | 4..5 | 6..7
 *     op 1 recv 4..5                                   r0 |   w1 |
 *     op 2 send 4..7                                      |   r2 |   r2     waits for 1
 *     op 3 recv 0..7                                   w3 |   w3 |   w3     waits for 0 and 2
 *
 * IN and OUT are taken apart (not in place). Places carry the rank that used them last, so that nothing is cleared between ranks: the cost
 * is O(chunks + places touched) per rank. Invariant: after operation i the places describe operations up to i, and every conflict among
 * them is a path of edges. */
#include <assert.h>
#include <stdlib.h>

#include "sim/parts.h"

enum { NONE = UINT32_MAX };

struct place {
    uint32_t rank; /* + 1; of another rank: as if untouched */
    uint32_t writer, readers;
};
struct reader {
    uint32_t op, next;
};
struct deps {
    struct tt_work *w;
    uint32_t rank;
    const uint32_t *number;   /* of the rank's operations; here they are counted from 0 */
    uint32_t *mark;           /* per chunk border: rank + 1 when it is one */
    uint32_t *cell;           /* per chunk border that is one: the number of the cell that begins there */
    uint32_t ncells;          /* cells of the rank */
    struct tt_vec borders;    /* uint32_t: the rank's, as they are found */
    uint32_t *buf_mark, *buf; /* per buffer: rank + 1 when used; its number among the used ones */
    uint32_t nbufs;           /* used by the rank */
    struct place *place;      /* buf * ncells + cell */
    size_t nplaces;           /* allocated */
    uint32_t *seen;           /* per operation of the rank: the last one that waits for it, + 1 */
    struct tt_vec readers;    /* struct reader */
    struct tt_vec from;       /* uint32_t: whom each operation waits for, rank after rank as listed; need[] tells how many are its own */
    bool failed;
};

/* ---- cells ---- */

static void border(struct deps *d, uint32_t chunk)
{
    if (d->mark[chunk] == d->rank + 1)
        return;
    d->mark[chunk] = d->rank + 1;
    uint32_t *room = tt_sim_room(&d->borders);
    if (room)
        *room = chunk;
    else
        d->failed = true;
}

static void use_buffer(struct deps *d, uint32_t buf)
{
    if (d->buf_mark[buf] == d->rank + 1)
        return;
    d->buf_mark[buf] = d->rank + 1;
    d->buf[buf] = d->nbufs++;
}

static void find_borders(struct deps *d, const struct tt_slice *sl)
{
    for (size_t i = 0; i < sl->nspans; i++) {
        const struct tt_span *s = &sl->spans[i];
        use_buffer(d, s->buf);
        use_buffer(d, s->src);
        for (uint32_t k = 0; k < s->reps; k++) {
            border(d, s->first + k * s->stride);
            border(d, s->first + k * s->stride + s->len);
        }
    }
}

static int by_value(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* Numbers the cells in order: a few borders are sorted, many are found again by looking at all chunks. */
static void number_cells(struct deps *d)
{
    const uint32_t *borders = d->borders.data;
    size_t n = d->borders.len, chunks = d->w->s->shape.chunks;
    d->ncells = 0;
    if (n > chunks / 32) {
        for (size_t c = 0; c <= chunks; c++)
            if (d->mark[c] == d->rank + 1)
                d->cell[c] = d->ncells++;
        return;
    }
    qsort(d->borders.data, n, sizeof *borders, by_value);
    for (size_t i = 0; i < n; i++)
        d->cell[borders[i]] = d->ncells++;
}

static void make_cells(struct deps *d, const struct tt_slice *sl)
{
    d->nbufs = 0;
    d->borders.len = 0;
    find_borders(d, sl);
    if (d->failed || !d->borders.len)
        return;
    number_cells(d);
    uint64_t n = (uint64_t)d->nbufs * d->ncells;
    if (n <= d->nplaces)
        return;
    free(d->place);
    d->place = tt_zalloc((size_t)n, sizeof *d->place);
    d->nplaces = d->place ? (size_t)n : 0;
    d->failed = d->failed || !d->place;
}

/* ---- edges ---- */

static void add_edge(struct deps *d, uint32_t from, uint32_t to)
{
    if (from == to || from == NONE || d->seen[from] == to + 1)
        return;
    uint32_t *edge = tt_sim_room(&d->from);
    if (!edge) {
        d->failed = true;
        return;
    }
    *edge = d->number[from];
    d->seen[from] = to + 1;
    d->w->op[*edge].after++;
    d->w->op[d->number[to]].need++;
}

static void wait_for(struct deps *d, struct place *p, uint32_t op, bool writes)
{
    const struct reader *readers = d->readers.data;
    assert(p);
    if (p->rank != d->rank + 1)
        *p = (struct place){d->rank + 1, NONE, NONE};
    if (!writes || p->readers == NONE)
        add_edge(d, p->writer, op);
    for (uint32_t r = writes ? p->readers : NONE; r != NONE; r = readers[r].next)
        add_edge(d, readers[r].op, op);
}

static void note(struct deps *d, struct place *p, uint32_t op, bool writes)
{
    if (writes) {
        p->writer = op;
        p->readers = NONE;
        return;
    }
    if (p->writer == op)
        return;
    struct reader *r = tt_sim_room(&d->readers);
    if (!r) {
        d->failed = true;
        return;
    }
    *r = (struct reader){op, p->readers};
    p->readers = (uint32_t)d->readers.len - 1;
}

enum phase { WAIT, NOTE_READS, NOTE_WRITES };

static void touch(struct deps *d, uint32_t op, const struct tt_span *s, uint32_t buf, bool writes, enum phase phase)
{
    struct place *places = d->place + (size_t)d->buf[buf] * d->ncells;
    if (phase != WAIT && writes != (phase == NOTE_WRITES))
        return;
    for (uint32_t k = 0; k < s->reps; k++) {
        uint32_t first = s->first + k * s->stride;
        for (uint32_t i = d->cell[first], end = d->cell[first + s->len]; i < end && !d->failed; i++) {
            if (phase == WAIT)
                wait_for(d, &places[i], op, writes);
            else
                note(d, &places[i], op, writes);
        }
    }
}

static void touch_spans(struct deps *d, uint32_t id, const struct tt_op *op, const struct tt_span *spans, enum phase phase)
{
    for (uint32_t k = 0; k < op->nspans; k++) {
        bool operand = op->kind == TT_OP_REDUCE && k > 0;
        bool writes = op->kind != TT_OP_SEND && !operand;
        bool reads = op->kind == TT_OP_SEND || op->kind == TT_OP_RECV_REDUCE || op->kind == TT_OP_COPY || operand;
        if (reads)
            touch(d, id, &spans[k], op->kind == TT_OP_SEND ? spans[k].buf : spans[k].src, false, phase);
        if (writes)
            touch(d, id, &spans[k], spans[k].buf, true, phase);
    }
}

static struct place *places_of(const struct deps *d, uint32_t buf, const struct tt_span *s)
{
    return d->place + (size_t)d->buf[buf] * d->ncells + d->cell[s->first];
}

/* The same for the usual operation on one plain range. */
static void touch_range(struct deps *d, uint32_t id, const struct tt_op *op, const struct tt_span *s)
{
    uint32_t n = d->cell[s->first + s->len] - d->cell[s->first];
    struct place *read = op->kind == TT_OP_RECV ? NULL : places_of(d, op->kind == TT_OP_SEND ? s->buf : s->src, s);
    struct place *write = op->kind == TT_OP_SEND ? NULL : places_of(d, s->buf, s);
    for (uint32_t i = 0; read && i < n; i++)
        wait_for(d, &read[i], id, false);
    for (uint32_t i = 0; write && i < n; i++)
        wait_for(d, &write[i], id, true);
    for (uint32_t i = 0; read && i < n; i++)
        note(d, &read[i], id, false);
    for (uint32_t i = 0; write && i < n; i++)
        note(d, &write[i], id, true);
}

static void rank_deps(struct deps *d)
{
    struct tt_slice sl = tt_sched_slice(d->w->s, d->rank);
    d->readers.len = 0;
    make_cells(d, &sl);
    for (size_t i = 0; i < sl.nops; i++)
        d->seen[i] = 0;
    for (uint32_t i = 0; i < sl.nops && !d->failed; i++) {
        const struct tt_op *op = &sl.ops[i];
        const struct tt_span *spans = sl.spans + op->span;
        if (op->nspans == 1 && spans->reps == 1) {
            touch_range(d, i, op, spans);
            continue;
        }
        for (enum phase phase = WAIT; phase <= NOTE_WRITES; phase++)
            touch_spans(d, i, op, spans, phase);
    }
    d->number += sl.nops;
}

/* The edges, grouped by where they come from: op[].after holds their number and becomes the end, then the start of the group. */
static bool group_edges(struct deps *d, const uint32_t *number)
{
    struct tt_work *w = d->w;
    const uint32_t *from = d->from.data;
    uint32_t end = 0;
    if (d->from.len == 0) /* every group is empty */
        return (w->succ = tt_alloc(1, sizeof *w->succ)) != NULL;
    assert(from);
    if (d->from.len >= NONE || !(w->succ = tt_alloc(d->from.len + 1, sizeof *w->succ)))
        return false;
    for (uint32_t i = 0; i < w->nops; i++)
        w->op[i].after = end += w->op[i].after;
    w->op[w->nops].after = end;
    for (size_t i = w->nops, k = d->from.len; i-- > 0;)
        for (uint32_t n = w->op[number[i]].need; n > 0; n--)
            w->succ[--w->op[from[--k]].after] = number[i];
    return true;
}

static size_t longest_slice(const struct tt_work *w)
{
    size_t most = 0;
    for (uint32_t r = 0; r < w->ranks; r++)
        most = tt_sched_slice(w->s, r).nops > most ? tt_sched_slice(w->s, r).nops : most;
    return most;
}

tutti_status tt_work_deps(struct tt_work *w, const uint32_t *number, struct tutti_error *err)
{
    struct deps d = {.w = w,
                     .number = number,
                     .borders = {.elem = sizeof(uint32_t)},
                     .readers = {.elem = sizeof(struct reader)},
                     .from = {.elem = sizeof(uint32_t)}};
    size_t chunks = (size_t)w->s->shape.chunks + 1, bufs = w->s->shape.nbufs;
    d.mark = tt_zalloc(chunks, sizeof *d.mark);
    d.cell = tt_alloc(chunks, sizeof *d.cell);
    d.buf_mark = tt_zalloc(bufs, sizeof *d.buf_mark);
    d.buf = tt_alloc(bufs, sizeof *d.buf);
    d.seen = tt_alloc(longest_slice(w) + 1, sizeof *d.seen);
    d.failed = !d.mark || !d.cell || !d.buf_mark || !d.buf || !d.seen;
    for (; d.rank < w->ranks && !d.failed; d.rank++)
        rank_deps(&d);
    d.failed = d.failed || !group_edges(&d, number);
    free(d.mark);
    free(d.cell);
    free(d.buf_mark);
    free(d.buf);
    free(d.place);
    free(d.seen);
    tt_vec_free(&d.borders);
    tt_vec_free(&d.readers);
    tt_vec_free(&d.from);
    return d.failed ? tt_fail_memory(err, "dependencies") : TUTTI_OK;
}
