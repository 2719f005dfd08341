/* deps.c - which operations of a rank wait for which: the live meaning of a schedule (sched.h) as
 * edges.
 *
 * An operation waits for the earlier listed ones that touch the same place when one of the two
 * writes. It is enough to wait for the last writer (to read) and for the readers since then or else
 * the last writer (to write): all other conflicts follow through those.
 *
 * Only borders of accessed ranges matter, so the chunks are cut into cells at all borders that the
 * operations of the slice have. A place is (buffer, cell); it knows its last writer and the readers
 * since:
 *
 *     op 0 send 0..3     borders 0 4 6 8      cells  0..3 | 4..5 | 6..7
 *     op 1 recv 4..5                                   r0 |   w1 |
 *     op 2 send 4..7                                      |   r2 |   r2     waits for 1
 *     op 3 recv 0..7                                   w3 |   w3 |   w3     waits for 0 and 2
 *
 * Three stages: the uses (what operations read and write; in place, as the memory of IN), the
 * cells, the edges. Every mark carries the number of its slice, so that nothing is cleared between
 * slices: a simulator asks for thousands in a row, and each costs O(borders + places touched).
 * Invariant: after operation i the places describe operations up to i, and every conflict among
 * them is a path of edges. */
#include "sched/deps.h"

#include <assert.h>
#include <stdlib.h>

#include "sched/sched_int.h"

enum { NONE = UINT32_MAX };

struct tt_duse {
    struct tt_span at; /* chunks of at.buf; at.src is not used */
    uint32_t op;
    bool writes;
};
struct tt_dwindow { /* chunks [lo, hi) of a buffer have places */
    uint32_t epoch, lo, hi;
    /* the place of cell c is at + c (modulo 2^64: c counts from 0, the window's cells do not) */
    size_t at;
};
struct tt_dplace {
    uint32_t epoch; /* another slice's: the place is untouched */
    uint32_t writer, readers;
};
struct tt_dreader { /* a list per place, linked by index in d->readers */
    uint32_t op, next;
};

/* ---- cells ---- */

/* Space for one element, not initialised; failures are collected in d->failed. */
static void *room(struct tt_deps *d, struct tt_vec *v)
{
    void *p = tt_vec_room(v);
    if (!p)
        d->failed = true;
    return p;
}

/* Each border is listed once per slice. */
static inline void add_border(struct tt_deps *d, uint32_t chunk)
{
    if (d->mark[chunk] == d->epoch)
        return;
    d->mark[chunk] = d->epoch;
    uint32_t *border = room(d, &d->borders);
    if (border)
        *border = chunk;
}

/* The window of a buffer covers all its uses; the first use also lists the buffer. */
static inline void widen_window(struct tt_deps *d, uint32_t buf, uint32_t lo, uint32_t hi)
{
    struct tt_dwindow *w = &d->bufs[buf];
    assert(buf < d->shape->nbufs && lo < hi && hi <= d->shape->chunks);
    if (w->epoch == d->epoch) {
        w->lo = lo < w->lo ? lo : w->lo;
        w->hi = hi > w->hi ? hi : w->hi;
        return;
    }
    *w = (struct tt_dwindow){.epoch = d->epoch, .lo = lo, .hi = hi};
    uint32_t *used = room(d, &d->used);
    if (used)
        *used = buf;
}

static int by_value(const void *x, const void *y)
{
    uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
    return a < b ? -1 : a > b;
}

/* Numbers the cells in order: few borders are sorted, many are found again by a scan over all
 * chunks. */
static void number_cells(struct tt_deps *d)
{
    uint32_t *borders = d->borders.data, ncells = 0;
    size_t n = d->borders.len, chunks = d->shape->chunks;
    if (n > chunks / 32) {
        for (size_t c = 0; c <= chunks; c++)
            if (d->mark[c] == d->epoch)
                d->cell[c] = ncells++;
        return;
    }
    if (n)
        qsort(borders, n, sizeof *borders, by_value);
    for (size_t i = 0; i < n; i++)
        d->cell[borders[i]] = ncells++;
}

/* Each buffer has places only from its first cell to its last: an algorithm may use many buffers,
 * each for a single chunk. */
static void make_places(struct tt_deps *d)
{
    const uint32_t *used = d->used.data;
    size_t n = 0;
    for (size_t i = 0; i < d->used.len; i++) {
        struct tt_dwindow *w = &d->bufs[used[i]];
        assert(d->cell[w->lo] < d->cell[w->hi]); /* both are borders, in order */
        w->at = n - d->cell[w->lo];
        n += d->cell[w->hi] - d->cell[w->lo];
    }
    if (n <= d->nplaces)
        return;
    free(d->places);
    d->places = tt_zalloc(n, sizeof *d->places);
    d->nplaces = d->places ? n : 0;
    d->failed = d->failed || !d->places;
}

/* ---- uses ---- */

static inline bool same_places(const struct tt_span *a, const struct tt_span *b)
{
    return a->first == b->first && a->len == b->len && a->stride == b->stride &&
           a->reps == b->reps && a->buf == b->buf;
}

/* Adds a use of the span's chunks in memory `buf`, whatever buffers the span itself names. Often
 * they are those of the use before (received, then sent on): then their borders are known. */
static inline void add_use(struct tt_deps *d, uint32_t op, bool writes, const struct tt_span *s,
                           uint32_t buf)
{
    struct tt_duse *use = room(d, &d->uses);
    if (!use)
        return;
    use->at = *s;
    use->at.buf = buf;
    use->op = op;
    use->writes = writes;
    if (d->uses.len > 1 && same_places(&use[-1].at, &use->at))
        return;
    for (uint32_t i = 0; i < s->reps; i++) {
        add_border(d, s->first + i * s->stride);
        add_border(d, s->first + i * s->stride + s->len);
    }
    widen_window(d, buf, s->first, s->first + (s->reps - 1) * s->stride + s->len);
}

/* The memory of a buffer: in place, OUT is IN; in all-to-all its chunks are at other positions. */
static inline void use_buffer(struct tt_deps *d, uint32_t op, bool writes, const struct tt_span *s,
                              uint32_t buf)
{
    if (!d->inplace || buf != TT_BUF_OUT) {
        add_use(d, op, writes, s, buf);
        return;
    }
    if (d->shape->coll != TUTTI_ALL_TO_ALL) {
        add_use(d, op, writes, s, TT_BUF_IN);
        return;
    }
    for (uint32_t i = 0; i < s->reps * s->len; i++) {
        struct tt_span one = {.len = 1,
                              .reps = 1,
                              .first = tt_sched_shape_alias(
                                  d->shape, s->first + i / s->len * s->stride + i % s->len)};
        add_use(d, op, writes, &one, TT_BUF_IN);
    }
}

/* Writing a place waits for everything that reading it waits for, so an operation that does both to
 * one buffer only writes. */
static inline void use_span(struct tt_deps *d, uint32_t op, struct tt_access a,
                            const struct tt_span *s)
{
    if (a.reads && !(a.writes && a.from == a.to))
        use_buffer(d, op, false, s, a.from);
    if (a.writes)
        use_buffer(d, op, true, s, a.to);
}

/* In place, a copied chunk that IN and OUT share stays as it is, unless it is changed; the other
 * chunks are used in runs. */
static void use_inplace_copy(struct tt_deps *d, uint32_t op, struct tt_access a,
                             const struct tt_span *s)
{
    for (uint32_t i = 0; i < s->reps; i++) {
        struct tt_span run = {.first = s->first + i * s->stride, .reps = 1};
        for (uint32_t c = run.first, end = c + s->len; c < end; c++) {
            bool changed =
                tt_sched_shape_alias(d->shape, c) != c || (d->changed_by && d->changed_by[c] == op);
            run.len += changed;
            if (run.len && (!changed || c + 1 == end))
                use_span(d, op, a, &run);
            if (!changed)
                run = (struct tt_span){.first = c + 1, .reps = 1};
        }
    }
}

/* In the order of the operations, which find_edges relies on. */
static void list_uses(struct tt_deps *d, const struct tt_slice *sl)
{
    for (uint32_t i = 0; i < sl->nops && !d->failed; i++) {
        const struct tt_op *op = &sl->ops[i];
        for (uint32_t k = 0; k < op->nspans; k++) {
            const struct tt_span *s = &sl->spans[op->span + k];
            if (d->inplace && op->kind == TT_OP_COPY && s->src == TT_BUF_IN && s->buf == TT_BUF_OUT)
                use_inplace_copy(d, i, tt_access_of(op, k, s), s);
            else
                use_span(d, i, tt_access_of(op, k, s), s);
        }
    }
}

/* ---- edges ---- */

/* `seen` drops duplicates: `from` was already given to this `to`. */
static inline void add_edge(struct tt_deps *d, uint32_t from, uint32_t to, struct tt_vec *edges)
{
    if (from == NONE || from == to || d->seen[from] == to + 1)
        return;
    assert(from < to); /* operations wait for earlier ones only: no circles */
    d->seen[from] = to + 1;
    struct tt_edge *e = room(d, edges);
    if (e)
        *e = (struct tt_edge){from, to};
}

/* A writer waits for the readers since the last write; they already wait for that writer. */
static inline void wait_for(struct tt_deps *d, struct tt_dplace *p, const struct tt_duse *u,
                            struct tt_vec *edges)
{
    const struct tt_dreader *readers = d->readers.data;
    if (p->epoch != d->epoch)
        *p = (struct tt_dplace){d->epoch, NONE, NONE};
    if (!u->writes || p->readers == NONE)
        add_edge(d, p->writer, u->op, edges);
    for (uint32_t r = u->writes ? p->readers : NONE; r != NONE; r = readers[r].next)
        add_edge(d, readers[r].op, u->op, edges);
}

/* A write ends the list of readers; the list itself stays in d->readers until the next slice. */
static inline void deps_note(struct tt_deps *d, struct tt_dplace *p, const struct tt_duse *u)
{
    if (u->writes) {
        p->writer = u->op;
        p->readers = NONE;
        return;
    }
    struct tt_dreader *r = room(d, &d->readers);
    if (r)
        *r = (struct tt_dreader){u->op, p->readers};
    p->readers = (uint32_t)d->readers.len - 1;
}

/* The places of repetition i. */
static inline struct tt_dplace *places_of(const struct tt_deps *d, const struct tt_duse *u,
                                          uint32_t i, struct tt_dplace **ret_end)
{
    uint32_t first = u->at.first + i * u->at.stride;
    struct tt_dplace *base = d->places + (d->bufs[u->at.buf].at + d->cell[first]);
    *ret_end = base + (d->cell[first + u->at.len] - d->cell[first]);
    return base;
}

enum { WAIT = 1, NOTE = 2 }; /* what touch does at each place */

/* `what` is constant at each call, so that inlining removes the tests: there are millions. */
static inline __attribute__((always_inline)) void touch(struct tt_deps *d, const struct tt_duse *u,
                                                        int what, struct tt_vec *edges)
{
    struct tt_dplace *end;
    for (uint32_t i = 0; i < u->at.reps && !d->failed; i++)
        for (struct tt_dplace *p = places_of(d, u, i, &end); p < end; p++) {
            if (what & WAIT)
                wait_for(d, p, u, edges);
            if (what & NOTE)
                deps_note(d, p, u);
        }
}

/* All uses of an operation see the state before it, hence two passes. A place that it both reads
 * and writes names it as writer, in whatever order the uses are noted. */
static void touch_all(struct tt_deps *d, const struct tt_duse *u, size_t n, struct tt_vec *edges)
{
    for (size_t i = 0; i < n; i++)
        touch(d, &u[i], WAIT, edges);
    for (size_t i = 0; i < n; i++)
        touch(d, &u[i], NOTE, edges);
}

static void find_edges(struct tt_deps *d, struct tt_vec *edges)
{
    const struct tt_duse *u = d->uses.data;
    for (size_t i = 0, end; i < d->uses.len && !d->failed; i = end) {
        for (end = i + 1; end < d->uses.len && u[end].op == u[i].op;)
            end++;
        assert(end == d->uses.len || u[end].op > u[i].op); /* uses are listed by operation */
        if (end == i + 1)
            touch(d, &u[i], WAIT | NOTE, edges);
        else
            touch_all(d, &u[i], end - i, edges);
    }
}

/* ---- the whole ---- */

/* Memory for this slice. mark and bufs are zeroed once: epoch 0 is never a slice. */
static bool make_room(struct tt_deps *d, size_t nops)
{
    size_t borders = (size_t)d->shape->chunks + 1;
    if (!d->epoch) {
        d->borders.elem = d->used.elem = sizeof(uint32_t);
        d->uses.elem = sizeof(struct tt_duse);
        d->readers.elem = sizeof(struct tt_dreader);
        d->mark = tt_zalloc(borders, sizeof *d->mark);
        d->cell = tt_alloc(borders, sizeof *d->cell);
        d->bufs = tt_zalloc(d->shape->nbufs, sizeof *d->bufs);
    }
    if (nops > d->nseen) {
        free(d->seen);
        d->seen = tt_alloc(nops, sizeof *d->seen);
        d->nseen = nops;
    }
    d->borders.len = d->used.len = d->uses.len = d->readers.len = 0;
    d->epoch++;
    return d->mark && d->cell && d->bufs && (d->seen || !nops);
}

tutti_status tt_sched_deps_find(struct tt_deps *d, const struct tt_slice *sl,
                                struct tt_vec *ret_edges, struct tutti_error *err)
{
    assert(sl->nops < NONE && d->epoch < NONE && ret_edges->elem == sizeof(struct tt_edge));
    d->failed = d->failed || !make_room(d, sl->nops);
    for (size_t i = 0; i < sl->nops && !d->failed; i++)
        d->seen[i] = 0;
    list_uses(d, sl);
    if (!d->failed && d->uses.len) {
        number_cells(d);
        make_places(d);
        find_edges(d, ret_edges);
    }
    return d->failed ? tt_fail_memory(err, "dependencies") : TUTTI_OK;
}

void tt_sched_deps_free(struct tt_deps *d)
{
    free(d->mark);
    free(d->cell);
    free(d->bufs);
    free(d->places);
    free(d->seen);
    tt_vec_free(&d->borders);
    tt_vec_free(&d->used);
    tt_vec_free(&d->uses);
    tt_vec_free(&d->readers);
}
