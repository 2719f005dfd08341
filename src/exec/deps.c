/* deps.c - which operations of a rank wait for which: the live meaning of a schedule (sched.h) as edges.
 *
 * An operation waits for the earlier listed ones that touch the same place when one of the two writes. It is enough to wait for the last
 * writer (to read) and for the readers since then or else the last writer (to write): everything else follows through them.
 *
 * The borders of all accessed chunk ranges cut every buffer into cells; a cell knows its last writer and the readers since:
 *
 *     op 0 send  IN  0..3      cells of IN     0 1 2 3 | 4 5 | 6 7
 *     op 1 recv  IN  4..5      (in place)      r0      | w1  |
 *     op 2 send  IN  4..7                              | r2  | r2      waits for 1
 *     op 3 recv  IN  0..7                       w3     | w3  | w3      waits for 0 and 2
 *
 * Invariant: after operation i the cells describe operations 0..i, and every conflict among them is a path of edges. */
#include <assert.h>
#include <stdlib.h>

#include "exec/parts.h"

struct access {
    uint32_t op, buf, first, end;
    bool writes;
};
struct reader {
    uint32_t op, next;
};
struct cell {
    uint32_t writer, readers; /* TT_XNO: none */
};
struct analysis {
    struct tt_xcompile *x;
    uint32_t mode;
    struct tt_vec accesses; /* struct access, by operation */
    struct tt_vec borders;  /* uint64_t buffer << 32 | chunk, sorted */
    struct tt_vec cells, readers;
    uint32_t *seen; /* seen[from] == to + 1: the edge exists */
    struct tt_vec *edges;
    bool failed;
};

bool tt_xcopies_itself(const struct tt_xcompile *x, uint32_t op, const struct tt_span *span, uint32_t chunk)
{
    return x->slice.ops[op].kind == TT_OP_COPY && span->buf == TT_BUF_OUT && span->src == TT_BUF_IN &&
           tt_shape_alias(x->shape, chunk) == chunk && !(x->p->divisor > 1 && x->last_writer[chunk] == op);
}

static void add(struct analysis *a, struct access acc)
{
    const uint64_t border[2] = {(uint64_t)acc.buf << 32 | acc.first, (uint64_t)acc.buf << 32 | acc.end};
    a->failed = a->failed || !tt_vec_push(&a->accesses, &acc, 1) || !tt_vec_push(&a->borders, border, 2);
}

/* Chunks [first, end) of a buffer; in mode 1 OUT is where the same data lie in IN. */
static void touch(struct analysis *a, struct access acc)
{
    if (!a->mode || acc.buf != TT_BUF_OUT) {
        add(a, acc);
        return;
    }
    acc.buf = TT_BUF_IN;
    if (a->x->shape->coll != TUTTI_ALL_TO_ALL) {
        add(a, acc);
        return;
    }
    for (uint32_t c = acc.first, end = acc.end; c < end; c++) {
        acc.first = tt_shape_alias(a->x->shape, c);
        acc.end = acc.first + 1;
        add(a, acc);
    }
}

/* Each repetition of the k-th span: what it writes and what it reads. */
static void touch_span(struct analysis *a, uint32_t op, uint32_t k)
{
    const struct tt_op *o = &a->x->slice.ops[op];
    const struct tt_span *s = &a->x->slice.spans[o->span + k];
    bool operand = o->kind == TT_OP_REDUCE && k > 0;
    bool writes = o->kind != TT_OP_SEND && !operand;
    bool reads = o->kind == TT_OP_SEND || o->kind == TT_OP_RECV_REDUCE || o->kind == TT_OP_COPY || operand;
    for (uint32_t i = 0; i < s->reps; i++) {
        struct access acc = {.op = op, .first = s->first + i * s->stride};
        acc.end = acc.first + s->len;
        if (a->mode && o->kind == TT_OP_COPY)
            while (acc.first < acc.end && tt_xcopies_itself(a->x, op, s, acc.first))
                acc.first++;
        if (acc.first == acc.end)
            continue;
        acc.buf = s->buf;
        acc.writes = true;
        if (writes)
            touch(a, acc);
        acc.buf = o->kind == TT_OP_SEND ? s->buf : s->src;
        acc.writes = false;
        if (reads)
            touch(a, acc);
    }
}

static int by_value(const void *x, const void *y)
{
    uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
    return a < b ? -1 : a > b;
}

static bool make_cells(struct analysis *a)
{
    uint64_t *b = a->borders.data;
    size_t n = 0;
    if (a->borders.len)
        qsort(b, a->borders.len, sizeof *b, by_value);
    for (size_t i = 0; i < a->borders.len; i++)
        if (!n || b[n - 1] != b[i])
            b[n++] = b[i];
    a->borders.len = n;
    struct cell *cells = tt_vec_push(&a->cells, NULL, n);
    for (size_t i = 0; cells && i < n; i++)
        cells[i] = (struct cell){TT_XNO, TT_XNO};
    return cells || !n;
}

static size_t find_cell(const struct analysis *a, uint32_t buf, uint32_t chunk)
{
    const uint64_t *b = a->borders.data, key = (uint64_t)buf << 32 | chunk;
    size_t lo = 0, hi = a->borders.len;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (b[mid] <= key)
            lo = mid;
        else
            hi = mid;
    }
    assert(b[lo] == key);
    return lo;
}

static void edge(struct analysis *a, uint32_t from, uint32_t to)
{
    struct tt_xedge e = {from, to};
    if (from == to || from == TT_XNO || a->seen[from] == to + 1)
        return;
    a->seen[from] = to + 1;
    a->failed = a->failed || !tt_vec_push(a->edges, &e, 1);
}

static void wait_for(struct analysis *a, const struct access *acc, const struct cell *c)
{
    const struct reader *readers = a->readers.data;
    if (!acc->writes || c->readers == TT_XNO)
        edge(a, c->writer, acc->op);
    for (uint32_t r = acc->writes ? c->readers : TT_XNO; r != TT_XNO; r = readers[r].next)
        edge(a, readers[r].op, acc->op);
}

static void note(struct analysis *a, const struct access *acc, struct cell *c)
{
    struct reader r = {acc->op, c->readers};
    if (acc->writes) {
        *c = (struct cell){acc->op, TT_XNO};
    } else if (c->writer != acc->op) {
        c->readers = (uint32_t)a->readers.len;
        a->failed = a->failed || !tt_vec_push(&a->readers, &r, 1);
    }
}

static void each_cell(struct analysis *a, const struct access *acc, bool noting)
{
    const uint64_t *b = a->borders.data, end = (uint64_t)acc->buf << 32 | acc->end;
    for (size_t i = find_cell(a, acc->buf, acc->first); b[i] < end && !a->failed; i++) {
        struct cell *c = (struct cell *)a->cells.data + i;
        if (noting)
            note(a, acc, c);
        else
            wait_for(a, acc, c);
    }
}

/* All accesses of one operation see the state before it; its writes are noted last, so that they hide its own reads. */
static void analyse(struct analysis *a)
{
    const struct access *acc = a->accesses.data;
    for (size_t i = 0, end; i < a->accesses.len && !a->failed; i = end) {
        for (end = i; end < a->accesses.len && acc[end].op == acc[i].op; end++)
            each_cell(a, &acc[end], false);
        for (size_t k = i; k < end; k++)
            if (!acc[k].writes)
                each_cell(a, &acc[k], true);
        for (size_t k = i; k < end; k++)
            if (acc[k].writes)
                each_cell(a, &acc[k], true);
    }
}

static int by_from(const void *x, const void *y)
{
    const struct tt_xedge *a = x, *b = y;
    if (a->from != b->from)
        return a->from < b->from ? -1 : 1;
    return a->to < b->to ? -1 : a->to > b->to;
}

tutti_status tt_xdeps(struct tt_xcompile *x, uint32_t mode, struct tt_vec *ret_edges, struct tutti_error *err)
{
    struct analysis a = {.x = x,
                         .mode = mode,
                         .accesses = {.elem = sizeof(struct access)},
                         .borders = {.elem = sizeof(uint64_t)},
                         .cells = {.elem = sizeof(struct cell)},
                         .readers = {.elem = sizeof(struct reader)},
                         .edges = ret_edges};
    a.seen = tt_zalloc(x->slice.nops, sizeof *a.seen);
    a.failed = !a.seen && x->slice.nops;
    for (uint32_t i = 0; i < x->slice.nops && !a.failed; i++)
        for (uint32_t k = 0; k < x->slice.ops[i].nspans; k++)
            touch_span(&a, i, k);
    if (!a.failed)
        a.failed = !make_cells(&a);
    if (!a.failed)
        analyse(&a);
    if (ret_edges->len)
        qsort(ret_edges->data, ret_edges->len, sizeof(struct tt_xedge), by_from);
    free(a.seen);
    tt_vec_free(&a.accesses);
    tt_vec_free(&a.borders);
    tt_vec_free(&a.cells);
    tt_vec_free(&a.readers);
    return a.failed ? tt_fail_memory(err, "dependencies") : TUTTI_OK;
}
