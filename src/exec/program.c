/* program.c - makes a program: a rank's slice bound to count, type and reduction. Everything is
 * made once, so that running it needs no memory.
 *
 *     layout      where chunks lie                   layout.c
 *     fragments   operations as runs of memory       compile.c
 *     messages    numbers, links, lanes              messages.c
 *     tasks       dependencies, segments, marks      here, sched/deps.c, lower.c
 *     box         if all of it is an exchange        box.c, row.c
 *     state       what changes while it runs         here
 *
 * A task is one segment of one operation: task number = op * segments + segment. What the tasks
 * begin with is kept twice, for IN and OUT apart (mode 0) and for one memory (mode 1), and copied
 * at every start. Own memory (scratch, landing places) is mapped without being touched: what never
 * lands costs no page.
 *
 * Invariant: the order of the steps above. Each uses what the earlier ones made, and a program that
 * fails half-way is freed by tt_exec_program_free, which accepts every intermediate state. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "exec/exec_int.h"
#include "sched/deps.h"

/* Own memory from this size on is mapped: only pages that are touched cost memory. */
enum { MAP_FROM = 256 << 10 };

/* NORESERVE: landing places are sized for the worst case, and most are never used. */
void *tt_exec_map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void tt_exec_unmap(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

/* ---- tasks ---- */

/* The work of a task: pieces of a message, 1 for a local operation with something to do, else 0. A
 * task without work finishes as soon as it waits for nothing. */
static uint32_t work_of(const struct tt_xcompile *x, const struct tt_xop *op, uint32_t segment)
{
    uint64_t bytes = tt_exec_op_bytes(x->p, op, segment);
    if (x->shape->coll == TUTTI_BARRIER && op->kind <= TT_OP_RECV_REDUCE)
        return 1; /* empty, but must be sent */
    if (x->config->blocks && op->kind <= TT_OP_RECV_REDUCE && op->elems == 0)
        return segment == 0; /* both ends must agree that the block is empty */
    if (op->kind > TT_OP_RECV_REDUCE)
        return bytes ? 1 : 0;
    return (uint32_t)((bytes + TT_XPIECE - 1) / TT_XPIECE);
}

/* Segment k of an operation waits for segment k of the operations it depends on, so all segments of
 * an operation begin with the same count, which is first collected in segment 0. */
static void fill_tasks(struct tt_xcompile *x, const struct tt_vec *edges, struct tt_xtask *tasks)
{
    struct tt_program *p = x->p;
    const struct tt_edge *e = edges->data;
    for (size_t i = 0; i < edges->len; i++) {
        assert(e[i].from < e[i].to && e[i].to < p->nops);
        tasks[(size_t)e[i].to * p->segments].waits++;
    }
    for (uint32_t i = 0; i < p->nops; i++)
        for (uint32_t k = 0; k < p->segments; k++) {
            size_t t = (size_t)i * p->segments + k;
            tasks[t] =
                (struct tt_xtask){tasks[(size_t)i * p->segments].waits, work_of(x, &p->ops[i], k)};
        }
}

/* Lists the tasks that run at the start. A receive that expects bytes is started by its message and
 * is left out. Segments come in order: what the peers need to finish one segment is sent before
 * what they need for the next. */
static uint32_t fill_first(const struct tt_program *p, const struct tt_xtask *tasks,
                           uint32_t *first)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->segments; k++)
        for (uint32_t i = 0; i < p->nops; i++) {
            uint32_t t = i * p->segments + k;
            uint8_t kind = p->ops[i].kind;
            bool expects = tasks[t].left && (kind == TT_OP_RECV || kind == TT_OP_RECV_REDUCE);
            if (tasks[t].waits == 0 && !expects)
                first[n++] = t;
        }
    return n;
}

/* The edges are sorted by `to`; the successors are stored by `from`. A counting sort: succ[mode]
 * first marks the end of each operation's list, then moves down to its beginning while the edges
 * are placed from the last to the first, which keeps their order. */
static bool keep_successors(struct tt_program *p, const struct tt_vec *edges, uint32_t mode,
                            struct tt_vec *succ)
{
    const struct tt_edge *e = edges->data;
    uint32_t end = (uint32_t)succ->len;
    if (edges->len && !tt_vec_push(succ, NULL, edges->len))
        return false;
    for (size_t i = 0; i < edges->len; i++)
        p->ops[e[i].from].nsucc[mode]++;
    for (uint32_t i = 0; i < p->nops; i++)
        p->ops[i].succ[mode] = end += p->ops[i].nsucc[mode];
    for (size_t i = edges->len; i-- > 0;)
        ((uint32_t *)succ->data)[--p->ops[e[i].from].succ[mode]] = e[i].to;
    return true;
}

/* Tasks and successors of one mode. In place, copying a chunk onto itself touches nothing, unless
 * the mean is formed there: the dependencies must know those copies. */
static tutti_status make_mode(struct tt_xcompile *x, uint32_t mode, struct tt_vec *succ)
{
    struct tt_program *p = x->p;
    struct tt_vec edges = {.elem = sizeof(struct tt_edge)};
    struct tt_deps deps = {
        .shape = x->shape, .inplace = mode, .changed_by = p->divisor > 1 ? x->last_writer : NULL};
    struct tt_xtask *tasks = tt_zalloc(p->ntasks, sizeof *tasks);
    uint32_t *first = tt_alloc(p->ntasks, sizeof *first);
    p->fresh[mode] = tasks;
    p->first[mode] = first;
    tutti_status st = tt_sched_deps_find(&deps, &x->slice, &edges, x->err);
    if (!st && (!tasks || !first || !keep_successors(p, &edges, mode, succ)))
        st = tt_fail_memory(x->err, "tasks");
    if (!st) {
        fill_tasks(x, &edges, tasks);
        p->nfirst[mode] = fill_first(p, tasks, first);
    }
    tt_sched_deps_free(&deps);
    tt_vec_free(&edges);
    return st;
}

/* Landing places depend on whether a receive can have to wait in either mode, so both modes are
 * made before them. */
static tutti_status make_tasks(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    struct tt_vec succ = {.elem = sizeof(uint32_t)};
    tutti_status st = make_mode(x, 0, &succ);
    if (!st && p->inplace)
        st = make_mode(x, 1, &succ);
    p->succ = succ.data;
    for (uint32_t i = 0; i < p->nops && !st; i++) {
        const struct tt_xtask *t0 = &p->fresh[0][(size_t)i * p->segments];
        const struct tt_xtask *t1 = p->inplace ? &p->fresh[1][(size_t)i * p->segments] : t0;
        st = tt_exec_compile_room(x, i, t0->waits || t1->waits);
    }
    if (!st)
        st = tt_exec_lower(x);
    return st;
}

/* ---- the whole ---- */

static tutti_status check_config(const struct tt_program_config *c, struct tutti_error *err)
{
    const struct tt_sched *s = c->sched;
    if ((unsigned)c->dtype >= TUTTI_DTYPE_COUNT || (unsigned)c->redop > TT_REDOP_USER)
        return tt_fail(err, TUTTI_ERR_ARG, "unknown data type or reduction");
    if (c->user && c->user->elem_bytes != tt_sched_dtype_bytes(c->dtype))
        return tt_fail(err, TUTTI_ERR_ARG,
                       "the reduction is for elements of %" PRIu32 " bytes, not for %s",
                       c->user->elem_bytes, tt_sched_dtype_name(c->dtype));
    if (c->rank < s->first_rank || c->rank - s->first_rank >= s->nslices)
        return tt_fail(err, TUTTI_ERR_ARG, "the schedule does not hold rank %" PRIu32, c->rank);
    if (c->segments > TT_MAX_SEGMENTS)
        return tt_fail(err, TUTTI_ERR_LIMIT, "%" PRIu32 " segments: at most %d", c->segments,
                       (int)TT_MAX_SEGMENTS);
    return TUTTI_OK;
}

/* The limits keep task numbers in 32 bits and byte offsets in a reference's 48. */
static tutti_status bind_sizes(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    const struct tt_xlayout *l = &x->layout;
    uint64_t bytes;
    p->segments = x->config->segments ? x->config->segments : x->shape->segments;
    p->nops = (uint32_t)x->slice.nops;
    if (x->slice.nops > UINT32_MAX / 2 / p->segments)
        return tt_fail(x->err, TUTTI_ERR_LIMIT, "%zu operations of %" PRIu32 " segments",
                       x->slice.nops, p->segments);
    p->ntasks = p->nops * p->segments;
    if (__builtin_mul_overflow(l->sum[l->chunks], (uint64_t)p->elem_bytes, &bytes) ||
        bytes > TT_XREF_OFFSET / 2)
        return tt_fail(x->err, TUTTI_ERR_LIMIT, "%" PRIu64 " elements: at most 2^47 bytes",
                       l->sum[l->chunks]);
    p->in_elems = l->in_elems;
    p->out_elems = l->out_elems;
    p->part_in = l->part_in;
    p->part_out = l->part_out;
    p->nruns = (uint32_t)l->runs.len;
    /* An all-to-all in place needs each block at one place on both sides of the transposition. */
    p->inplace = x->shape->inplace && (x->shape->coll != TUTTI_ALL_TO_ALL || l->even);
    p->ops = tt_zalloc(x->slice.nops, sizeof *p->ops);
    return p->ops ? TUTTI_OK : tt_fail_memory(x->err, "operations");
}

static tutti_status make_own(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    assert(x->own_bytes % 64 == 0); /* as aligned_alloc wants it */
    p->own_bytes = x->own_bytes ? (size_t)x->own_bytes : 64;
    p->own_mapped = p->own_bytes >= MAP_FROM;
    p->own = p->own_mapped ? tt_exec_map(p->own_bytes) : aligned_alloc(64, p->own_bytes);
    if (!p->own)
        return tt_fail(x->err, TUTTI_ERR_MEMORY, "out of memory (%zu bytes of scratch)",
                       p->own_bytes);
    return TUTTI_OK;
}

/* Allocates what changes while the program runs. `to` has room for the own place, every link's
 * offer and a window. */
static tutti_status make_state(struct tt_xcompile *x)
{
    struct tt_program *p = x->p;
    p->tasks = tt_alloc(p->ntasks, sizeof *p->tasks);
    p->next = tt_alloc(p->ntasks, sizeof *p->next);
    p->work = tt_alloc(p->ntasks, sizeof *p->work);
    p->pieces = tt_zalloc((size_t)p->npieces, 1);
    p->base = tt_zalloc(TT_XBASE_RUNS + (size_t)p->nruns, sizeof *p->base);
    p->to = tt_alloc((size_t)p->nlinks + 2, sizeof *p->to);
    p->runs = x->layout.runs.data;
    x->layout.runs.data = NULL; /* the program's from now on */
    if (!p->tasks || !p->next || !p->work || !p->pieces || !p->base || !p->to)
        return tt_fail_memory(x->err, "program");
    tt_exec_messages_count(p, p->fresh[0]);
    return make_own(x);
}

/* Later steps use what the earlier ones made: boxes need the marks of lower.c, and the state needs
 * the links. */
static tutti_status program_compile(struct tt_xcompile *x)
{
    tutti_status st = tt_exec_layout_make(x->config, &x->layout, x->err);
    if (!st)
        st = bind_sizes(x);
    if (!st)
        st = tt_exec_compile_ops(x);
    if (!st)
        st = tt_exec_messages(x);
    if (!st)
        st = make_tasks(x);
    if (!st)
        st = tt_exec_box_make(x);
    if (!st)
        st = make_state(x);
    return st;
}

tutti_status tt_exec_program_make(const struct tt_program_config *c, struct tt_program **ret,
                                  struct tutti_error *err)
{
    tutti_status st = check_config(c, err);
    if (st)
        return st;
    struct tt_program *p = tt_zalloc(1, sizeof *p);
    if (!p)
        return tt_fail_memory(err, "program");
    struct tt_xcompile x = {.config = c,
                            .shape = &c->sched->shape,
                            .slice = tt_sched_slice(c->sched, c->rank),
                            .code = {.elem = sizeof(uint64_t)},
                            .scratch = {.elem = sizeof(struct tt_xplace)},
                            .p = p,
                            .err = err};
    p->dtype = c->dtype;
    p->redop = c->redop;
    if (c->user)
        p->user = *c->user;
    p->elem_bytes = tt_sched_dtype_bytes(c->dtype);
    assert(p->elem_bytes && (p->elem_bytes & (p->elem_bytes - 1)) == 0);
    p->elem_shift = (uint32_t)__builtin_ctz(p->elem_bytes);
    p->divisor = c->redop == TUTTI_AVG && !c->user ? x.shape->ranks : 1;
    st = program_compile(&x);
    tt_exec_layout_free(&x.layout);
    tt_vec_free(&x.code);
    tt_vec_free(&x.scratch);
    free(x.last_writer);
    if (!st)
        *ret = p;
    else
        tt_exec_program_free(p);
    return st;
}

void tt_exec_program_free(struct tt_program *p)
{
    if (!p)
        return;
    assert(p->state != TT_XRUNNING);
    for (int m = 0; m < 2; m++) {
        free((void *)(uintptr_t)p->fresh[m]);
        free((void *)(uintptr_t)p->first[m]);
    }
    if (p->own_mapped)
        tt_exec_unmap(p->own, p->own_bytes);
    else
        free(p->own);
    free(p->runs);
    free(p->ops);
    free(p->code);
    free(p->succ);
    free(p->lanes);
    free(p->lane_ops);
    free(p->links);
    free(p->tasks);
    free(p->next);
    free(p->work);
    free(p->pieces);
    free(p->base);
    free(p->operands);
    free(p->from);
    free(p->to);
    free(p->holds);
    free(p->refs);
    free(p->offers);
    free(p->sent);
    free(p->box_from);
    tt_exec_box_free(p->box);
    free(p);
}

void tt_exec_program_carried(const struct tt_program *p, struct tt_carried *ret)
{
    *ret = p->carried;
}

uint32_t tt_exec_program_segments(const struct tt_program *p)
{
    return p->segments;
}

uint64_t tt_exec_program_in_elems(const struct tt_program *p)
{
    return p->in_elems;
}

uint64_t tt_exec_program_out_elems(const struct tt_program *p)
{
    return p->out_elems;
}
