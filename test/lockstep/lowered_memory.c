/* lowered_memory.c - memory of compiled programs as cells, one per element: where references point, what is there at the start, what each
 * read must find, and what results must be.
 *
 *     apart      IN | OUT | own            in place      one vector | own
 *
 * What a read must find follows from the listed order of the operations alone: each sees the last earlier write of the cell. Where inputs
 * lie and results must be is computed from the schedule's shape, not taken from the program. */
#include <stdlib.h>
#include <string.h>

#include "lowered_int.h"

/* ---- places ---- */

static uint64_t base_cell(const struct lw_rank *k, uint32_t base)
{
    const struct tt_program *p = k->p;
    if (base == TT_XBASE_IN)
        return k->in;
    if (base == TT_XBASE_OUT)
        return k->out;
    if (base == TT_XBASE_OWN)
        return k->own;
    const struct tt_xrun *run = &p->runs[base - TT_XBASE_RUNS];
    return k->mode ? run->whole : (p->part_in ? k->in : k->out) + run->packed;
}

uint64_t lw_cell_at(const struct lw_rank *k, uint64_t ref)
{
    return base_cell(k, (uint32_t)(ref >> 48)) + (ref & TT_XREF_OFFSET) / k->p->elem_bytes;
}

/* ---- elements of operations ---- */

static bool onto_itself(const struct tt_program *p, uint32_t op, const struct lw_op *o, uint64_t i)
{
    return p->ops[op].kind == TT_OP_COPY && !o->divide[i] && o->at[i * 2] == o->at[i * 2 + 1];
}

static void place_elements(struct lw *l, struct lw_rank *k, uint32_t op)
{
    const struct tt_xop *x = &k->p->ops[op];
    struct lw_op *o = &k->ops[op];
    const uint64_t *word = k->p->code + x->code;
    uint64_t i = 0;
    for (uint32_t f = 0; f < x->nfrags; f++, word += 1 + x->width) {
        uint64_t n = word[0] & ~TT_XDIVIDE;
        for (uint32_t w = 0; w < x->width; w++)
            if (lw_cell_at(k, word[1 + w]) + n > k->ncells)
                abort(); /* outside of all memory */
        for (uint64_t e = 0; e < n; e++, i++) {
            o->segment[i] = (uint32_t)(e * l->segments / n);
            o->divide[i] = (word[0] & TT_XDIVIDE) != 0;
            for (uint32_t w = 0; w < x->width; w++)
                o->at[i * x->width + w] = lw_cell_at(k, word[1 + w]) + e;
        }
    }
}

/* Goes through the list as if operations ran one after the other. */
static void find_wants(struct lw_rank *k)
{
    const struct tt_program *p = k->p;
    uint32_t *tag = ls_alloc(k->ncells, sizeof *tag);
    for (uint64_t c = 0; c < k->ncells; c++)
        tag[c] = k->cells[c].tag;
    for (uint32_t op = 0; op < p->nops; op++) {
        struct lw_op *o = &k->ops[op];
        for (uint64_t i = 0; i < o->n * o->width; i++)
            o->want[i] = tag[o->at[i]];
        for (uint64_t i = 0; p->ops[op].kind != TT_OP_SEND && i < o->n; i++)
            if (!onto_itself(p, op, o, i))
                tag[o->at[i * o->width]] = op;
    }
    free(tag);
}

/* ---- where the collective's data are ---- */

static uint64_t chunk_elems(const struct lw *l, uint32_t chunk)
{
    return tt_sched_bind_offset(&l->bind, chunk + 1) - tt_sched_bind_offset(&l->bind, chunk);
}

static bool has(const struct lw *l, uint32_t rank, bool out, uint32_t chunk)
{
    return out ? ls_has_output(&l->s->shape, rank, chunk) : ls_has_input(&l->s->shape, rank, chunk);
}

/* The cell of the first element of (IN or OUT, chunk). Parts, and rows and columns of all-to-all, hold their chunks one after the other. */
static uint64_t chunk_cell(const struct lw *l, uint32_t rank, bool out, uint32_t chunk)
{
    const struct lw_rank *k = &l->rank[rank];
    bool part = out ? k->p->part_out : k->p->part_in, packed = l->s->shape.coll == TUTTI_ALL_TO_ALL || (part && !k->mode);
    uint64_t at = out ? k->out : k->in;
    if (!packed)
        return at + tt_sched_bind_offset(&l->bind, chunk);
    for (uint32_t c = 0; c < chunk; c++)
        at += has(l, rank, out, c) ? chunk_elems(l, c) : 0;
    return at;
}

static uint64_t input_of(const struct lw *l, uint32_t rank, uint64_t element)
{
    return ls_input(l->o.seed, rank, l->o.ordered ? 0 : element);
}

static void fill_inputs(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    for (uint32_t c = 0; c < l->s->shape.chunks; c++)
        for (uint64_t e = 0, n = has(l, rank, false, c) ? chunk_elems(l, c) : 0; e < n; e++)
            k->cells[chunk_cell(l, rank, false, c) + e] =
                (struct lw_cell){.value = input_of(l, rank, tt_sched_bind_offset(&l->bind, c) + e), .tag = LW_INPUT};
}

void lw_memory_begin(struct lw *l, uint32_t rank)
{
    struct lw_rank *k = &l->rank[rank];
    const struct tt_program *p = k->p;
    k->mode = l->o.inplace && p->inplace && p->in_elems && p->out_elems;
    k->in = 0;
    k->out = k->mode ? 0 : p->in_elems;
    k->own = k->out + (k->mode && p->in_elems > p->out_elems ? p->in_elems : p->out_elems);
    k->ncells = k->own + p->own_bytes / p->elem_bytes;
    k->cells = ls_alloc(k->ncells, sizeof *k->cells);
    for (uint64_t c = 0; c < k->ncells; c++)
        k->cells[c] = (struct lw_cell){.value = tt_mix64(l->o.seed + c), .tag = LW_NOTHING};
    fill_inputs(l, rank);
    for (uint32_t op = 0; op < p->nops; op++)
        place_elements(l, k, op);
    find_wants(k);
}

void lw_memory_end(struct lw_rank *k)
{
    for (uint32_t op = 0; op < k->p->nops; op++) {
        free(k->data[op]);
        free(k->copy[op]);
        k->data[op] = k->copy[op] = NULL;
    }
    free(k->cells);
    free(k->box);
    k->cells = k->box = NULL;
}

/* ---- results ---- */

static uint64_t expected(const struct lw *l, uint32_t chunk, uint64_t e)
{
    const struct tt_shape *s = &l->s->shape;
    uint64_t element = tt_sched_bind_offset(&l->bind, chunk) + e, sum = 0;
    if (!ls_reduces(s))
        return input_of(l, ls_source(s, chunk), element);
    for (uint32_t r = 0; r < s->ranks; r++)
        sum += input_of(l, r, element);
    return sum;
}

static bool check_chunk(struct lw *l, struct ls *lockstep, uint32_t rank, uint32_t chunk)
{
    const struct lw_rank *k = &l->rank[rank];
    bool mean = k->p->divisor > 1 && ls_reduces(&l->s->shape);
    char what[80];
    for (uint64_t e = 0, n = chunk_elems(l, chunk), at = chunk_cell(l, rank, true, chunk); e < n; e++) {
        const struct lw_cell *c = &k->cells[at + e];
        uint64_t want = lockstep ? ls_output(lockstep, rank, chunk) : expected(l, chunk, e);
        const char *why = c->tag == LW_NOTHING ? "is not written"
                          : c->value != want   ? "is wrong"
                          : c->divided != mean ? "is divided or not, wrongly"
                                               : NULL;
        snprintf(what, sizeof what, "element %llu of chunk %u %s", (unsigned long long)e, chunk, why ? why : "");
        if (why)
            return ls_fault(&l->result, LS_WRONG, rank, k->p->nops, what);
    }
    return true;
}

bool lw_check_results(struct lw *l)
{
    const struct tt_shape *s = &l->s->shape;
    struct ls *lockstep = l->o.ordered ? ls_open(l->s) : NULL;
    bool ok = true;
    if (lockstep) {
        struct ls_result r = ls_run(lockstep, &(struct ls_options){.sum = ls_ordered_sum, .uniform = true, .seed = l->o.seed});
        ok = r.verdict == LS_CORRECT || ls_fault(&l->result, r.verdict, r.rank, r.op, r.why);
    }
    for (uint32_t r = 0; r < s->ranks; r++)
        for (uint32_t c = 0; ok && c < s->chunks; c++)
            ok = !ls_has_output(s, r, c) || s->coll == TUTTI_BARRIER || check_chunk(l, lockstep, r, c);
    ls_close(lockstep);
    return ok;
}
