/* exec_case.h - a collective as data: inputs, buffers and expected results of every rank, computed directly and not by the executor. */
#ifndef EXEC_CASE_H
#define EXEC_CASE_H

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "exec/exec.h"
#include "exec/exec_int.h"
#include "topo/topo.h"

enum { CASE_RANKS = 20 };

/* So that nothing is allocated while it runs. */
static inline bool case_prepare(struct tt_context *x, const struct tt_program *p)
{
    struct tutti_error err;
    while (x->engine->nblocks < x->n * x->engine->stash_blocks)
        if (!tt_exec_stash_grow(x->engine))
            return false;
    return tt_exec_context_prepare(x, p, &err) == TUTTI_OK;
}

/* The context of all ranks. */
static inline struct tt_context *case_context(struct tt_engine *e, uint32_t ranks, uint32_t rank)
{
    struct tt_context *x = NULL;
    struct tutti_error err;
    if (tt_exec_context_open(e, &(struct tt_context_config){.n = ranks, .rank = rank}, &x, &err) != TUTTI_OK)
        abort();
    return x;
}

struct exec_case {
    const char *algo, *option; /* option "k=v" or NULL */
    tutti_coll coll;
    uint32_t ranks, root;
    uint64_t count;
    tutti_dtype dtype;
    tutti_redop redop;
    uint32_t segments;
    int inplace; /* 0 no, 1 by the address of the part, 2 by that of the whole vector */
    bool blocks; /* exact, uneven blocks */
    bool rough;  /* inputs whose sums are rounded: only equality between ranks can be expected */
    /* ranks of one host (NULL, 0: not), and where buffers come from (NULL: malloc and free) */
    const uint32_t *places;
    size_t box_bytes, exchange_bytes;
    void *(*take)(uint32_t rank, size_t bytes);
    void (*give)(uint32_t rank, void *p);
};

struct exec_job {
    struct exec_case c;
    struct tt_topo *topo;
    struct tt_sched *sched;
    struct tt_bind bind;
    uint64_t *blocks;
    struct tt_program *program[CASE_RANKS];
    void *in[CASE_RANKS], *out[CASE_RANKS];      /* as given to start */
    void *memory[CASE_RANKS], *more[CASE_RANKS]; /* as allocated */
    uint64_t *own[CASE_RANKS], nown[CASE_RANKS]; /* collectives with parts: whole-vector elements of the part, in its order */
    uint8_t *owner;                              /* of each element */
};

/* ---- numbers ---- */

static inline double case_value(const struct exec_case *c, uint32_t rank, uint64_t element)
{
    if (c->rough)
        return (double)(tt_mix64(rank * 1000003ull + element) % 2000003) / 1000.0 - 1000.0;
    return (double)((rank * 5 + element * 3 + element / 7) % 8);
}

static inline void case_put(tutti_dtype t, void *buf, uint64_t i, double v)
{
    float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, sizeof bits);
    if (t == TUTTI_F32)
        ((float *)buf)[i] = f;
    else if (t == TUTTI_I64)
        ((int64_t *)buf)[i] = (int64_t)v;
    else
        ((uint16_t *)buf)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

static inline double case_get(tutti_dtype t, const void *buf, uint64_t i)
{
    uint32_t bits;
    float f;
    if (t == TUTTI_F32)
        return (double)((const float *)buf)[i];
    if (t == TUTTI_I64)
        return (double)((const int64_t *)buf)[i];
    bits = (uint32_t)((const uint16_t *)buf)[i] << 16;
    memcpy(&f, &bits, sizeof f);
    return (double)f;
}

/* What the ranks' values of an element become. */
static inline double case_reduced(const struct exec_case *c, uint64_t e)
{
    double sum = 0, most = -1e300;
    for (uint32_t r = 0; r < c->ranks; r++) {
        sum += case_value(c, r, e);
        most = fmax(most, case_value(c, r, e));
    }
    if (c->redop == TUTTI_MAX)
        return most;
    if (c->redop == TUTTI_SUM)
        return sum;
    return c->dtype == TUTTI_I64 ? trunc(sum / c->ranks) : (double)((float)sum / (float)c->ranks);
}

/* ---- which elements ---- */

static inline bool case_has_parts(tutti_coll c)
{
    return c == TUTTI_REDUCE_SCATTER || c == TUTTI_SCATTER || c == TUTTI_ALL_GATHER || c == TUTTI_GATHER;
}

static inline bool case_part_in(tutti_coll c)
{
    return c == TUTTI_ALL_GATHER || c == TUTTI_GATHER;
}

static inline uint64_t case_block_begin(const struct exec_job *j, uint32_t r)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < r; i++)
        at += j->blocks ? j->blocks[i] : 0;
    return j->blocks ? at : j->c.count * r / j->c.ranks;
}

/* The part of a rank: its block, or the chunks the schedule gives it. */
static inline void case_own(struct exec_job *j, uint32_t r)
{
    const struct tt_shape *s = &j->sched->shape;
    j->own[r] = malloc((j->c.count + 1) * sizeof(uint64_t));
    if (j->blocks) {
        for (uint64_t i = 0; i < j->blocks[r]; i++)
            j->own[r][j->nown[r]++] = case_block_begin(j, r) + i;
        return;
    }
    for (uint32_t c = 0; c < s->chunks; c++)
        if (tt_sched_shape_owner(s, c) == r)
            for (uint64_t e = tt_sched_bind_offset(&j->bind, c), end = tt_sched_bind_offset(&j->bind, c + 1); e < end; e++)
                j->own[r][j->nown[r]++] = e;
}

static inline void case_parts(struct exec_job *j)
{
    j->owner = malloc(j->c.count + 1);
    for (uint32_t r = 0; r < j->c.ranks; r++) {
        case_own(j, r);
        for (uint64_t i = 0; i < j->nown[r]; i++)
            j->owner[j->own[r][i]] = (uint8_t)r;
    }
}

/* Elements of IN and OUT, and of element i the value it has. */
static inline uint64_t case_in_elems(const struct exec_job *j, uint32_t r)
{
    const struct exec_case *c = &j->c;
    if (c->coll == TUTTI_BARRIER || ((c->coll == TUTTI_BROADCAST || c->coll == TUTTI_SCATTER) && r != c->root))
        return 0;
    return case_part_in(c->coll) ? j->nown[r] : c->count;
}

static inline uint64_t case_out_elems(const struct exec_job *j, uint32_t r)
{
    const struct exec_case *c = &j->c;
    if (c->coll == TUTTI_BARRIER || ((c->coll == TUTTI_REDUCE || c->coll == TUTTI_GATHER) && r != c->root))
        return 0;
    if (c->coll == TUTTI_ALL_TO_ALL)
        return (uint64_t)c->ranks * (case_block_begin(j, r + 1) - case_block_begin(j, r));
    return c->coll == TUTTI_REDUCE_SCATTER || c->coll == TUTTI_SCATTER ? j->nown[r] : c->count;
}

static inline double case_in_value(const struct exec_job *j, uint32_t r, uint64_t i)
{
    return case_value(&j->c, r, case_part_in(j->c.coll) ? j->own[r][i] : i);
}

static inline double case_out_value(const struct exec_job *j, uint32_t r, uint64_t i)
{
    const struct exec_case *c = &j->c;
    uint64_t n;
    switch (c->coll) {
    case TUTTI_REDUCE_SCATTER:
        return case_reduced(c, j->own[r][i]);
    case TUTTI_SCATTER:
        return case_value(c, c->root, j->own[r][i]);
    case TUTTI_ALL_GATHER:
    case TUTTI_GATHER:
        return case_value(c, j->owner[i], i);
    case TUTTI_BROADCAST:
        return case_value(c, c->root, i);
    case TUTTI_ALL_TO_ALL:
        n = case_block_begin(j, r + 1) - case_block_begin(j, r);
        return case_value(c, (uint32_t)(i / n), case_block_begin(j, r) + i % n);
    default:
        return case_reduced(c, i);
    }
}

/* ---- the job ---- */

static inline bool case_contiguous(const struct exec_job *j, uint32_t r)
{
    return j->nown[r] == 0 || j->own[r][j->nown[r] - 1] - j->own[r][0] + 1 == j->nown[r];
}

static inline void *case_take(const struct exec_case *c, uint32_t r, size_t bytes)
{
    return c->take ? c->take(r, bytes) : malloc(bytes);
}

static inline void case_give(const struct exec_case *c, uint32_t r, void *p)
{
    if (c->give)
        c->give(r, p);
    else
        free(p);
}

/* In place: both buffers are in one, with room for the whole vector. */
static inline void case_place(struct exec_job *j, uint32_t r)
{
    const struct exec_case *c = &j->c;
    size_t eb = tt_sched_dtype_bytes(c->dtype);
    uint64_t nin = case_in_elems(j, r), nout = case_out_elems(j, r), at = j->nown[r] ? j->own[r][0] : 0;
    bool shared = c->inplace && nin && nout && j->sched->shape.inplace, parts = case_has_parts(c->coll);
    bool whole = shared && parts && (c->inplace == 2 || !case_contiguous(j, r));
    if (!shared) {
        j->in[r] = j->memory[r] = case_take(c, r, nin * eb);
        j->out[r] = j->more[r] = case_take(c, r, nout * eb);
        return;
    }
    j->in[r] = j->out[r] = j->memory[r] = case_take(c, r, c->count * eb);
    if (parts && !whole)
        *(case_part_in(c->coll) ? &j->in[r] : &j->out[r]) = (char *)j->memory[r] + at * eb;
}

/* Where element i of IN (OUT) is in the buffer given to start. */
static inline uint64_t case_index(const struct exec_job *j, uint32_t r, bool in, uint64_t i)
{
    bool part = case_has_parts(j->c.coll) && in == case_part_in(j->c.coll);
    bool whole = j->in[r] == j->out[r] && case_in_elems(j, r) && case_out_elems(j, r);
    return part && whole ? j->own[r][i] : i;
}

static inline void case_fill(struct exec_job *j)
{
    for (uint32_t r = 0; r < j->c.ranks; r++) {
        uint64_t nin = case_in_elems(j, r), nout = case_out_elems(j, r);
        for (uint64_t i = 0; i < nout; i++)
            case_put(j->c.dtype, j->out[r], case_index(j, r, false, i), 99);
        for (uint64_t i = 0; i < nin; i++)
            case_put(j->c.dtype, j->in[r], case_index(j, r, true, i), case_in_value(j, r, i));
    }
}

static inline void case_free(struct exec_job *j)
{
    for (uint32_t r = 0; r < j->c.ranks; r++) {
        tt_exec_program_free(j->program[r]);
        case_give(&j->c, r, j->memory[r]);
        case_give(&j->c, r, j->more[r]);
        free(j->own[r]);
    }
    tt_sched_bind_free(&j->bind);
    tt_sched_free(j->sched);
    tt_topo_free(j->topo);
    free(j->blocks);
    free(j->owner);
}

static inline bool case_schedule(struct exec_job *j)
{
    const struct exec_case *c = &j->c;
    struct tutti_error err;
    struct tt_algo_args a = {.problem = {c->coll, c->ranks, c->root, c->count, c->dtype, c->redop, false}};
    char spec[64];
    uint32_t d = 1;
    for (uint32_t i = 2; i * i <= c->ranks; i++)
        d = c->ranks % i == 0 ? i : d;
    snprintf(spec, sizeof spec, "torus:%ux%u", d, c->ranks / d);
    if (tt_topo_parse(spec, &j->topo, &err) != TUTTI_OK)
        return false;
    a.topo = j->topo;
    if (c->option && tt_algo_options_add(&a.options, c->option, &err) != TUTTI_OK)
        return false;
    return tt_algo_build(tt_algo_find(c->algo), &a, &j->sched, &err) == TUTTI_OK;
}

/* False: the algorithm refuses. Everything else that fails ends the test. */
static inline bool case_make(const struct exec_case *c, struct exec_job *j)
{
    struct tutti_error err = {0};
    *j = (struct exec_job){.c = *c};
    if (!case_schedule(j)) {
        case_free(j);
        return false;
    }
    if (tt_sched_bind_make(&j->sched->shape, c->count, c->dtype, &j->bind, &err) != TUTTI_OK)
        abort();
    if (c->blocks) {
        j->blocks = calloc(c->ranks, sizeof *j->blocks);
        for (uint64_t e = 0; e < c->count; e++) /* uneven, some empty */
            j->blocks[tt_mix64(e * e + c->ranks) % c->ranks / 2 * 2 % c->ranks]++;
    }
    if (case_has_parts(c->coll))
        case_parts(j);
    for (uint32_t r = 0; r < c->ranks; r++) {
        struct tt_program_config pc = {.sched = j->sched,
                                       .rank = r,
                                       .count = c->count,
                                       .dtype = c->dtype,
                                       .redop = c->redop,
                                       .segments = c->segments,
                                       .block_counts = j->blocks,
                                       .places = c->places,
                                       .box_bytes = c->box_bytes,
                                       .exchange_bytes = c->exchange_bytes};
        if (tt_exec_program_make(&pc, &j->program[r], &err) != TUTTI_OK) {
            fprintf(stderr, "%s %s rank %u: %s\n", c->algo, tt_sched_coll_name(c->coll), r, err.text);
            abort();
        }
        assert(tt_exec_program_in_elems(j->program[r]) == case_in_elems(j, r));
        assert(tt_exec_program_out_elems(j->program[r]) == case_out_elems(j, r));
        case_place(j, r);
    }
    case_fill(j);
    return true;
}

static inline void case_say(const struct exec_case *c)
{
    fprintf(stderr, "%s %s %s ranks %u root %u count %llu %s %s segments %u in place %d blocks %d\n", c->algo, c->option ? c->option : "",
            tt_sched_coll_name(c->coll), c->ranks, c->root, (unsigned long long)c->count, tt_sched_dtype_name(c->dtype),
            tt_sched_redop_name(c->redop), c->segments, c->inplace, c->blocks);
}

/* Are all results right (rough: the same on all ranks)? */
static inline bool case_check(const struct exec_job *j)
{
    const struct exec_case *c = &j->c;
    for (uint32_t r = 0; r < c->ranks; r++)
        for (uint64_t i = 0, n = case_out_elems(j, r); i < n; i++) {
            double got = case_get(c->dtype, j->out[r], case_index(j, r, false, i)), want;
            if (c->rough && c->coll != TUTTI_ALLREDUCE)
                continue;
            if (c->rough) {
                want = case_get(c->dtype, j->out[0], i);
            } else {
                uint64_t word = 0;
                case_put(c->dtype, &word, 0, case_out_value(j, r, i));
                want = case_get(c->dtype, &word, 0);
            }
            if (got != want) {
                case_say(c);
                fprintf(stderr, "rank %u element %llu: %g, expected %g\n", r, (unsigned long long)i, got, want);
                return false;
            }
        }
    return true;
}
#endif
