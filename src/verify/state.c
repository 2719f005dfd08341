/* state.c - what every place holds, row by row; a row is one buffer of one rank.
 *
 * Inputs never change and are computed, not stored. A written row starts as runs of equal values
 * (a window of 32,768 chunks with one partial sum is one run). It becomes a plain array when it
 * has so many runs that shifting them costs more than a word per chunk, while the budget for
 * plain rows lasts.
 *
 *     chunks    0 1 2 3 4 5 6 7        runs {0,nothing} {2,A} {5,B}
 *               - - A A A B B B        writing C to 4..5 gives {0,nothing} {2,A} {4,C} {6,B}
 *
 * Invariant of a row of runs: the first run starts at chunk 0, starts ascend, neighbours differ. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_int.h"

static const uint64_t DENSE_BYTES = UINT64_C(1) << 30, RUN_BYTES = UINT64_C(1) << 32;
enum {
    FEW_RUNS = 16,
    CHUNKS_PER_RUN = 16,
    /* chunks of a plain row that are compared or written in the time of one run */
    DENSE_PER_WORK = 8,
    RUNS_PER_WORK = 64, /* runs that are shifted in the time of one */
};

struct run {
    uint32_t first, value; /* holds up to the start of the next run */
};
struct row {
    struct run *runs;
    uint32_t n, cap;
    uint32_t *dense; /* plain form: if not NULL, it replaces the runs */
};

uint32_t tt_verify_source(const struct tt_shape *s, uint32_t chunk)
{
    assert(!tt_sched_coll_reduces(s->coll));
    if (s->coll == TUTTI_BROADCAST || s->coll == TUTTI_SCATTER)
        return s->root;
    return s->coll == TUTTI_ALL_TO_ALL ? chunk / s->ranks : tt_sched_shape_owner(s, chunk);
}

void tt_verify_state_init(struct tt_vstate *st, const struct tt_shape *shape,
                          const struct tt_vdomain *domain, uint64_t work)
{
    *st = (struct tt_vstate){.shape = shape,
                             .domain = domain,
                             .dense_left = DENSE_BYTES,
                             .runs_left = RUN_BYTES,
                             .work_left = work};
    st->rows.elem = sizeof(struct row);
    st->splice.elem = sizeof(struct run);
}

void tt_verify_state_free(struct tt_vstate *st)
{
    for (size_t i = 0; i < st->rows.len; i++) {
        struct row *row = tt_vec_at(&st->rows, i);
        free(row->runs);
        free(row->dense);
    }
    tt_vec_free(&st->rows);
    tt_vec_free(&st->splice);
    tt_verify_map_free(&st->index);
}

bool tt_verify_state_charge(struct tt_vstate *st, uint64_t work)
{
    st->over = st->over || work > st->work_left;
    assert(st->over || st->work_left >= work);
    st->work_left -= st->over ? 0 : work;
    return !st->over;
}

tutti_status tt_verify_state_fail(const struct tt_vstate *st, const char *what,
                                  struct tutti_error *err)
{
    if (!st->over)
        return tt_fail_memory(err, what);
    return tt_fail(
        err, TUTTI_ERR_LIMIT,
        "cannot verify: chunks that lie next to each other hold too many different things");
}

/* Inputs: all chunks hold the rank's own contribution, or, without reduction, that of their
 * source. tt_sched_check has found that the rank has these inputs. */
static bool read_input(const struct tt_vstate *st, uint32_t rank, uint32_t first, uint32_t len,
                       struct tt_vec *pieces)
{
    assert(rank < st->shape->ranks && (uint64_t)first + len <= st->shape->chunks);
    uint32_t contributor = tt_sched_coll_reduces(st->shape->coll) ? rank : 0;
    struct tt_vpiece p = {first, len, st->domain->single[contributor]};
    return tt_vec_push(pieces, &p, 1) != NULL;
}

/* Returns the last run that starts at or before the chunk. Invariant: it is in [lo, hi). */
static uint32_t find_run(const struct row *row, uint32_t chunk)
{
    assert(row->n > 0 && row->runs[0].first == 0);
    uint32_t lo = 0, hi = row->n;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (row->runs[mid].first <= chunk)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

/* Invariant: run i holds chunk `first`. */
static bool read_runs(const struct row *row, uint32_t first, uint32_t len, struct tt_vec *pieces)
{
    uint32_t end = first + len;
    for (uint32_t i = find_run(row, first); first < end; i++) {
        uint32_t stop =
            i + 1 < row->n && row->runs[i + 1].first < end ? row->runs[i + 1].first : end;
        struct tt_vpiece p = {first, stop - first, row->runs[i].value};
        if (!tt_vec_push(pieces, &p, 1))
            return false;
        first = stop;
    }
    return true;
}

static bool read_dense(const struct row *row, uint32_t first, uint32_t len, struct tt_vec *pieces)
{
    uint32_t end = first + len;
    while (first < end) {
        uint32_t stop = first + 1;
        while (stop < end && row->dense[stop] == row->dense[first])
            stop++;
        struct tt_vpiece p = {first, stop - first, row->dense[first]};
        if (!tt_vec_push(pieces, &p, 1))
            return false;
        first = stop;
    }
    return true;
}

bool tt_verify_state_read(struct tt_vstate *st, struct tt_vplaces at, struct tt_vec *pieces)
{
    size_t before = pieces->len;
    assert(at.len > 0 && at.first < st->shape->chunks && at.len <= st->shape->chunks - at.first);
    if (at.buf == TT_BUF_IN)
        return read_input(st, at.rank, at.first, at.len, pieces);
    uint32_t index = tt_verify_map_get(&st->index, (uint64_t)at.rank << 32 | at.buf);
    /* A row that was never written holds nothing. */
    if (index == 0) {
        struct tt_vpiece nothing = {at.first, at.len, TT_VNOTHING};
        return tt_vec_push(pieces, &nothing, 1) != NULL;
    }
    const struct row *row = tt_vec_at(&st->rows, index - 1);
    bool ok = row->dense ? read_dense(row, at.first, at.len, pieces)
                         : read_runs(row, at.first, at.len, pieces);
    return ok && tt_verify_state_charge(st, pieces->len - before +
                                                (row->dense ? at.len / DENSE_PER_WORK : 0));
}

/* Finds or makes the row of a buffer; NULL: out of memory or of the budget for runs. */
static struct row *row_for_writing(struct tt_vstate *st, uint32_t rank, uint32_t buf)
{
    uint64_t key = (uint64_t)rank << 32 | buf;
    uint32_t index = tt_verify_map_get(&st->index, key);
    if (index)
        return tt_vec_at(&st->rows, index - 1);
    struct row fresh = {.n = 1, .cap = 4};
    if (st->runs_left < fresh.cap * sizeof *fresh.runs)
        return NULL;
    fresh.runs = tt_alloc(fresh.cap, sizeof *fresh.runs);
    if (!fresh.runs)
        return NULL;
    fresh.runs[0] = (struct run){0, TT_VNOTHING};
    struct row *row = tt_vec_push(&st->rows, &fresh, 1);
    if (!row || !tt_verify_map_put(&st->index, key, (uint32_t)st->rows.len)) {
        st->rows.len -= row != NULL;
        free(fresh.runs);
        return NULL;
    }
    st->runs_left -= fresh.cap * sizeof *fresh.runs;
    return row;
}

/* The budget is charged for capacity, which is what takes memory. */
static bool grow_runs(struct tt_vstate *st, struct row *row, uint32_t need)
{
    assert(need > row->cap);
    uint32_t cap = need + need / 2;
    uint64_t more = (uint64_t)(cap - row->cap) * sizeof *row->runs;
    struct run *runs = more <= st->runs_left ? tt_resize(row->runs, cap, sizeof *runs) : NULL;
    if (!runs)
        return false;
    st->runs_left -= more;
    row->runs = runs;
    row->cap = cap;
    return true;
}

/* Replaces runs lo .. hi-1 by those in `splice`. Shifting the runs behind them is charged as
 * work. */
static bool replace_runs(struct tt_vstate *st, struct row *row, uint32_t lo, uint32_t hi)
{
    uint32_t n = (uint32_t)st->splice.len, total = row->n - (hi - lo) + n;
    assert(lo <= hi && hi <= row->n);
    if (total > row->cap && !grow_runs(st, row, total))
        return false;
    if (!tt_verify_state_charge(st, (row->n - hi) / RUNS_PER_WORK))
        return false;
    memmove(row->runs + lo + n, row->runs + hi, (row->n - hi) * sizeof *row->runs);
    if (n)
        memcpy(row->runs + lo, st->splice.data, n * sizeof *row->runs);
    row->n = total;
    return true;
}

/* Writes adjacent values. Runs lo .. hi-1 are those touched; the part of the first one before
 * `first` stays, the part of the last one from `end` on becomes a run of its own (`rest`). Equal
 * neighbours are merged, which keeps the invariant. */
static bool write_runs(struct tt_vstate *st, struct row *row, const struct tt_vpiece *pieces,
                       size_t n)
{
    uint32_t first = pieces[0].first, end = pieces[n - 1].first + pieces[n - 1].len;
    assert(first < end && end <= st->shape->chunks);
    uint32_t lo = find_run(row, first), hi = find_run(row, end - 1) + 1;
    /* what holds from `end` on, if the last touched run extends further */
    uint32_t rest = row->runs[hi - 1].value;
    uint32_t rest_end = hi < row->n ? row->runs[hi].first : st->shape->chunks;
    bool any = lo > 0;
    if (row->runs[lo].first < first) {
        lo++;
        any = true;
    }
    /* value before the next run in splice; meaningless while !any */
    uint32_t last = any ? row->runs[lo - 1].value : 0;
    st->splice.len = 0;
    for (size_t i = 0; i < n; i++) {
        struct run r = {pieces[i].first, pieces[i].value};
        if ((!any || r.value != last) && !tt_vec_push(&st->splice, &r, 1))
            return false;
        any = true;
        last = r.value;
    }
    if (end < rest_end && rest != last) {
        struct run r = {end, rest};
        if (!tt_vec_push(&st->splice, &r, 1))
            return false;
    }
    /* The run behind the written range has the value just written: merge it. */
    if (end == rest_end && hi < row->n && row->runs[hi].value == last)
        hi++;
    return replace_runs(st, row, lo, hi);
}

/* Turns a row with too many runs into a plain one. Lack of memory is no failure: the runs stay
 * valid. */
static void consider_dense(struct tt_vstate *st, struct row *row)
{
    uint32_t chunks = st->shape->chunks;
    uint64_t bytes = (uint64_t)chunks * sizeof *row->dense;
    if (row->n <= FEW_RUNS || row->n <= chunks / CHUNKS_PER_RUN || bytes > st->dense_left)
        return;
    row->dense = tt_alloc(chunks, sizeof *row->dense);
    if (!row->dense)
        return;
    st->dense_left -= bytes;
    for (uint32_t i = 0; i < row->n; i++) {
        uint32_t stop = i + 1 < row->n ? row->runs[i + 1].first : chunks;
        for (uint32_t c = row->runs[i].first; c < stop; c++)
            row->dense[c] = row->runs[i].value;
    }
    st->runs_left += row->cap * sizeof *row->runs;
    free(row->runs);
    row->runs = NULL;
    row->cap = 0;
}

bool tt_verify_state_write(struct tt_vstate *st, uint32_t rank, uint32_t buf,
                           const struct tt_vpiece *pieces, size_t n)
{
    assert(n > 0 && buf != TT_BUF_IN);
    struct row *row = row_for_writing(st, rank, buf);
    if (!row || !tt_verify_state_charge(st, n))
        return false;
    if (!row->dense) {
        if (!write_runs(st, row, pieces, n))
            return false;
        consider_dense(st, row);
        return true;
    }
    uint64_t len = 0;
    for (size_t i = 0; i < n; i++) {
        for (uint32_t c = 0; c < pieces[i].len; c++)
            row->dense[pieces[i].first + c] = pieces[i].value;
        len += pieces[i].len;
    }
    return tt_verify_state_charge(st, len / DENSE_PER_WORK);
}
