/* memory.c - the numbers: rows of elements allocated when first touched, inputs, garbage, and the results that must be there.
 *
 * A cell is one segment of a chunk: what an operation moves at once. Every cell remembers the step of its last write. */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

struct cell {
    uint64_t *value;
    uint32_t *stamp;
    uint64_t n; /* elements */
};

uint64_t ls_input(uint64_t seed, uint32_t rank, uint64_t element)
{
    return tt_mix64(tt_mix64(seed * 1000003 + rank + 1) + element);
}

static uint64_t input_of(const struct ls *l, uint32_t rank, uint64_t element)
{
    return ls_input(l->o.seed, rank, l->o.uniform ? 0 : element);
}

static uint64_t garbage(const struct ls *l, uint32_t rank, uint64_t place, uint64_t i)
{
    return tt_mix64(tt_mix64(l->o.seed ^ UINT64_C(0xabcdef1234567)) + ((uint64_t)rank << 40) + (place << 20) + i);
}

uint64_t ls_place(const struct ls *l, uint32_t buf, uint32_t chunk)
{
    const struct tt_shape *s = &l->s->shape;
    if (!l->o.inplace || buf != TT_BUF_OUT)
        return (uint64_t)buf * s->chunks + chunk;
    return (uint64_t)TT_BUF_IN * s->chunks + ls_alias(s, chunk);
}

static uint64_t cell_of(const struct ls *l, uint32_t chunk)
{
    return (uint64_t)chunk * l->s->shape.segments + l->segment;
}

static uint64_t cell_elems(const struct ls *l, uint32_t chunk)
{
    return l->offset[cell_of(l, chunk) + 1] - l->offset[cell_of(l, chunk)];
}

static struct cell cell_at(struct ls *l, uint32_t rank, uint32_t buf, uint32_t chunk)
{
    const struct tt_shape *s = &l->s->shape;
    uint64_t cells = (uint64_t)s->chunks * s->segments, place = ls_place(l, buf, chunk);
    uint64_t at = cell_of(l, (uint32_t)(place % s->chunks));
    struct ls_row *row = &l->rows[(uint64_t)rank * s->nbufs + place / s->chunks];
    if (!row->stamp) {
        row->value = ls_alloc(l->offset[cells], sizeof *row->value);
        row->stamp = ls_alloc(cells, sizeof *row->stamp);
    }
    return (struct cell){.value = row->value + l->offset[at], .stamp = row->stamp + at, .n = cell_elems(l, chunk)};
}

/* ---- beginning and end ---- */

/* Every chunk in `segments` parts, equal but for rounding. */
static bool set_offsets(struct ls *l)
{
    const struct tt_shape *s = &l->s->shape;
    uint64_t cells = (uint64_t)s->chunks * s->segments;
    struct tt_bind bind = {0};
    struct tutti_error err = {0};
    l->offset = ls_alloc(cells + 1, sizeof *l->offset);
    if (l->o.elements && tt_sched_bind_make(s, l->o.count, TUTTI_I64, &bind, &err))
        return ls_fault(&l->result, LS_MALFORMED, 0, 0, err.text);
    for (uint64_t c = 0; c <= cells; c++) {
        uint32_t chunk = (uint32_t)(c / s->segments), part = (uint32_t)(c % s->segments);
        uint64_t begin = l->o.elements ? tt_sched_bind_offset(&bind, chunk) : c;
        uint64_t elems = l->o.elements && part > 0 ? tt_sched_bind_offset(&bind, chunk + 1) - begin : 0;
        l->offset[c] = begin + elems * part / s->segments;
    }
    tt_sched_bind_free(&bind);
    return true;
}

/* Blocks of an all-to-all may differ in size; then they cannot change places. */
static bool check_inplace(struct ls *l)
{
    for (uint32_t c = 0; c < l->s->shape.chunks; c++)
        if (cell_elems(l, c) != cell_elems(l, ls_alias(&l->s->shape, c)))
            return ls_fault(&l->result, LS_MALFORMED, 0, 0, "in place, but blocks differ in size");
    return true;
}

static void set_inputs(struct ls *l, uint32_t rank)
{
    const struct tt_shape *s = &l->s->shape;
    for (uint32_t c = 0; c < s->chunks; c++) {
        if (!ls_has_input(s, rank, c))
            continue;
        struct cell cell = cell_at(l, rank, TT_BUF_IN, c);
        uint64_t first = l->offset[cell_of(l, c)];
        for (uint64_t i = 0; i < cell.n; i++)
            cell.value[i] = input_of(l, rank, first + i);
        *cell.stamp = LS_GIVEN;
    }
}

bool ls_memory_begin(struct ls *l)
{
    const struct tt_shape *s = &l->s->shape;
    ls_memory_end(l);
    l->rows = ls_alloc((uint64_t)s->ranks * s->nbufs, sizeof *l->rows);
    if (!set_offsets(l))
        return false;
    for (l->segment = 0; l->segment < s->segments; l->segment++) {
        if (l->o.inplace && !check_inplace(l))
            return false;
        for (uint32_t r = 0; r < s->ranks; r++)
            set_inputs(l, r);
    }
    return true;
}

void ls_memory_end(struct ls *l)
{
    const struct tt_shape *s = &l->s->shape;
    for (uint64_t i = 0; l->rows && i < (uint64_t)s->ranks * s->nbufs; i++) {
        free(l->rows[i].value);
        free(l->rows[i].stamp);
    }
    free(l->rows);
    free(l->offset);
    l->rows = NULL;
    l->offset = NULL;
}

/* ---- operations ---- */

uint64_t ls_op_elems(const struct ls *l, uint32_t rank, const struct ls_op *o)
{
    const struct ls_item *it = ls_op_items(&l->rank[rank], o);
    uint64_t n = 0;
    for (size_t i = 0; i < o->n; i++)
        n += cell_elems(l, it[i].chunk);
    return n;
}

static bool read_cell(struct ls *l, uint32_t rank, uint32_t buf, uint32_t chunk, uint64_t *to)
{
    struct cell cell = cell_at(l, rank, buf, chunk);
    if (*cell.stamp == 0 && !l->o.lenient)
        return false;
    for (uint64_t i = 0; i < cell.n; i++)
        to[i] = *cell.stamp ? cell.value[i] : garbage(l, rank, ls_place(l, buf, chunk), i);
    return true;
}

uint64_t *ls_read(struct ls *l, uint32_t rank, const struct ls_op *o, uint32_t operand)
{
    const struct ls_item *it = ls_op_items(&l->rank[rank], o);
    uint64_t *data = ls_alloc(ls_op_elems(l, rank, o), sizeof *data), at = 0;
    for (size_t i = 0; i < o->n; i++) {
        uint32_t buf = operand ? o->spans[operand].src : it[i].src;
        if (!read_cell(l, rank, buf, it[i].chunk, data + at)) {
            ls_fault(&l->result, LS_EMPTY, rank, (size_t)(o - l->rank[rank].ops), "reads a place that holds nothing");
            free(data);
            return NULL;
        }
        at += cell_elems(l, it[i].chunk);
    }
    return data;
}

bool ls_write(struct ls *l, uint32_t rank, const struct ls_op *o, const uint64_t *data)
{
    const struct ls_item *it = ls_op_items(&l->rank[rank], o);
    for (size_t i = 0; i < o->n; i++) {
        struct cell cell = cell_at(l, rank, it[i].buf, it[i].chunk);
        bool nothing = o->op->kind == TT_OP_COPY && ls_place(l, it[i].buf, it[i].chunk) == ls_place(l, it[i].src, it[i].chunk);
        if (!nothing && l->now != LS_GIVEN && *cell.stamp == l->now)
            return ls_fault(&l->result, LS_MALFORMED, rank, (size_t)(o - l->rank[rank].ops), "a second write of one place in a step");
        if (!nothing) {
            memcpy(cell.value, data, cell.n * sizeof *data);
            *cell.stamp = l->now;
        }
        data += cell.n;
    }
    return true;
}

bool ls_operand_is_new(struct ls *l, uint32_t rank, const struct ls_op *o)
{
    const struct ls_item *it = ls_op_items(&l->rank[rank], o);
    for (size_t i = 0; i < o->n; i++)
        if (*cell_at(l, rank, it[i].src, it[i].chunk).stamp == l->now)
            return true;
    return false;
}

/* ---- results ---- */

/* What a cell must hold, element by element. Under another than the plain sum a reduction is compared with the first rank that has it. */
static void expect_cell(struct ls *l, uint32_t chunk, uint64_t *want)
{
    const struct tt_shape *s = &l->s->shape;
    uint64_t first = l->offset[cell_of(l, chunk)], n = cell_elems(l, chunk);
    uint32_t holder = 0;
    while (!ls_has_output(s, holder, chunk))
        holder++;
    for (uint64_t i = 0; i < n; i++) {
        if (!ls_reduces(s)) {
            want[i] = input_of(l, ls_source(s, chunk), first + i);
        } else if (l->o.sum != ls_plain_sum) {
            want[i] = cell_at(l, holder, TT_BUF_OUT, chunk).value[i];
        } else {
            want[i] = 0;
            for (uint32_t r = 0; r < s->ranks; r++)
                want[i] += input_of(l, r, first + i);
        }
    }
}

static bool check_cell(struct ls *l, uint32_t chunk)
{
    const struct tt_shape *s = &l->s->shape;
    uint64_t *want = ls_alloc(cell_elems(l, chunk), sizeof *want);
    bool ok = true;
    expect_cell(l, chunk, want);
    for (uint32_t r = 0; ok && r < s->ranks; r++) {
        if (!ls_has_output(s, r, chunk))
            continue;
        struct cell cell = cell_at(l, r, TT_BUF_OUT, chunk);
        char what[64];
        snprintf(what, sizeof what, "chunk %u ends wrong", chunk);
        if (*cell.stamp == 0 || memcmp(want, cell.value, cell.n * sizeof *want) != 0)
            ok = ls_fault(&l->result, LS_WRONG, r, l->rank[r].n, what);
    }
    free(want);
    return ok;
}

bool ls_check_results(struct ls *l)
{
    for (l->segment = 0; l->segment < l->s->shape.segments; l->segment++)
        for (uint32_t c = 0; c < l->s->shape.chunks; c++)
            if (!check_cell(l, c))
                return false;
    return true;
}

uint64_t ls_output(struct ls *l, uint32_t rank, uint32_t chunk)
{
    l->segment = 0;
    return *cell_at(l, rank, TT_BUF_OUT, chunk).value;
}
