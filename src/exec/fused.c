/* The lowered all-reduce (reduce-scatter and all-gather: fused_blocks.c), and the queue of operations. Rank r owns elements [r*n/p,
 * (r+1)*n/p), cut to 64 bytes, and works through them in blocks that fit the first-level caches:
 *
 *     heap buffers      out[0][b] = out[1][b] = ... = in[0][b] + in[1][b] + ...      one pass, all outputs written; then "left" for all
 *     ordinary memory   read in[q][b] of each peer through the kernel, reduce, write out[r][b]; "reduced" for all; then read the other
 * slices from their owners; or through windows in shared memory (fused_stream.c)
 *
 * Invariant: between "entered" and "left" of all ranks nobody changes its input (the caller's promise) and nobody but the owner of a slice
 * writes it; a rank returns only when all have left, since until then somebody may still read or write its buffers. In place the owner's
 * writes hit only slices whose operands it has already read.
 *
 * A rank that fails returns earlier, after tt_direct_quit. Then the others write nothing into its buffers any more (their writes are a
 * lease), and do not take what they read from them for a result (they look for the abort after reading, before they say so). */
#include "exec/fused.h"

#include <stdlib.h>
#include <string.h>

#include "exec/fused_parts.h"

enum { BLOCK_BYTES = 16 << 10, PART_BYTES = 1 << 20 /* between two looks at who else wants the lock */, LANE = TT_LANE_STEPS };
enum { QUEUED, BOXED, ENTERED, STREAMING, REDUCING, REDUCED, FETCHING, LEFT, DONE };

tutti_status tt_fused_make(struct tt_direct *d, struct tt_fused **ret, struct tutti_error *err)
{
    struct tt_fused *f = tt_zalloc(1, sizeof *f);
    if (!f)
        return tt_fail_memory(err, "fused reductions");
    f->d = d;
    f->n = tt_direct_nlocal(d);
    f->me = tt_direct_me(d);
    f->last = &f->first;
    tt_fused_stream_limits(f);
    f->block = tt_alloc(f->n, TT_FUSED_READ_BYTES);
    f->src = tt_alloc(f->n, sizeof *f->src);
    f->dst = tt_alloc(f->n, sizeof *f->dst);
    f->in = tt_alloc(f->n, sizeof *f->in);
    f->out = tt_alloc(f->n, sizeof *f->out);
    f->late_ns = tt_zalloc(f->n, sizeof *f->late_ns);
    f->waited = tt_zalloc(f->n, sizeof *f->waited);
    if (!f->block || !f->src || !f->dst || !f->in || !f->out || !f->late_ns || !f->waited) {
        tt_fused_free(f);
        return tt_fail_memory(err, "fused reductions");
    }
    *ret = f;
    return TUTTI_OK;
}

void tt_fused_free(struct tt_fused *f)
{
    if (!f)
        return;
    free(f->block);
    free(f->src);
    free(f->dst);
    free(f->in);
    free(f->out);
    free(f->late_ns);
    free(f->waited);
    free(f);
}

uint64_t tt_fused_late_ns(const struct tt_fused *f, uint32_t peer)
{
    return f->late_ns[peer];
}

/* Around a wait for all to enter: what each peer's part of it was. Without a deadline nobody waits, and nothing is worth the clock. */
static void before_entry(struct tt_fused *f, uint64_t deadline_ns)
{
    for (uint32_t q = 0; deadline_ns && q < f->n; q++)
        f->waited[q] = tt_direct_waited_ns(f->d, q);
}

static void after_entry(struct tt_fused *f, uint64_t deadline_ns)
{
    for (uint32_t q = 0; deadline_ns && q < f->n; q++)
        f->late_ns[q] += tt_direct_waited_ns(f->d, q) - f->waited[q];
}

size_t tt_fused_elem_bytes(tutti_dtype t)
{
#define BYTES_OF(id, name, bytes) bytes,
    static const uint8_t size[] = {TUTTI_DTYPE_LIST(BYTES_OF)};
#undef BYTES_OF
    return size[t];
}

/* First element of rank r's slice, at a multiple of 64 bytes. */
static size_t slice_start(const struct tt_fused *f, const struct tt_fused_op *op, uint32_t r)
{
    size_t unit = 64 / tt_fused_elem_bytes(op->dtype), units = op->count / unit;
    return r == f->n ? op->count : (size_t)((unsigned __int128)units * r / f->n) * unit;
}

void tt_fused_reduce(const struct tt_fused *f, const struct tt_fused_op *op, uint32_t ndst, size_t count)
{
    struct tt_reduce r = {.dtype = op->dtype,
                          .redop = op->redop,
                          .nsrc = f->n,
                          .ndst = ndst,
                          .src = f->src,
                          .dst = f->dst,
                          .count = count,
                          .divisor = op->redop == TUTTI_AVG ? f->n : 1};
    tt_reduce_run(&r);
}

/* ---- short vectors: everybody reduces all boxes ---- */

static tutti_status step_box(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    const void *const *all;
    before_entry(f, deadline_ns);
    tutti_status st = tt_direct_get(f->d, deadline_ns, &all, blame);
    after_entry(f, deadline_ns);
    if (st)
        return st;
    op->state = DONE;
    if (op->coll != TUTTI_ALLREDUCE) {
        tt_fused_blocks_boxed(f, op, all);
        return TUTTI_OK;
    }
    memcpy(f->src, all, f->n * sizeof *f->src);
    f->dst[0] = op->out;
    tt_fused_reduce(f, op, 1, op->count);
    return TUTTI_OK;
}

/* ---- long vectors: slices ---- */

static uint64_t counter(const struct tt_fused_op *op, unsigned step)
{
    return op->number * TT_STEPS + step;
}

void tt_fused_say(struct tt_fused *f, const struct tt_fused_op *op, unsigned step)
{
    tt_direct_post(f->d, LANE, counter(op, step));
}

void tt_fused_enter(struct tt_fused *f, struct tt_fused_op *op, struct tt_direct_desc *desc)
{
    op->number = f->number++;
    desc->fingerprint = op->fingerprint;
    desc->flags = op->background ? TT_FUSED_BACKGROUND : 0;
    desc->in_kind = tt_direct_kind_of(f->d, (const void *)(uintptr_t)desc->in, desc->in_bytes);
    desc->out_kind = tt_direct_kind_of(f->d, (const void *)(uintptr_t)desc->out, desc->out_bytes);
    tt_direct_describe(f->d, LANE, op->number & 1, desc);
    tt_fused_say(f, op, TT_STEP_ENTERED);
}

static void enter(struct tt_fused *f, struct tt_fused_op *op)
{
    size_t bytes = op->count * tt_fused_elem_bytes(op->dtype);
    bool boxed = bytes <= tt_direct_box_max(f->d);
    if (op->coll != TUTTI_ALLREDUCE) {
        boxed = tt_fused_blocks_enter(f, op);
    } else if (boxed) {
        tt_direct_put(f->d, op->in, bytes, op->fingerprint);
    } else {
        struct tt_direct_desc desc = {.in = (uintptr_t)op->in, .out = (uintptr_t)op->out, .in_bytes = bytes, .out_bytes = bytes};
        tt_fused_enter(f, op, &desc);
    }
    op->state = boxed ? BOXED : ENTERED;
}

static tutti_status look(struct tt_fused *f, const struct tt_fused_op *op, bool *ret_push, struct tt_direct_blame *blame)
{
    bool push = true, reach = true, background = false;
    for (uint32_t q = 0; q < f->n; q++) {
        const struct tt_direct_desc *d = tt_direct_described(f->d, LANE, op->number & 1, q);
        if (d->fingerprint != op->fingerprint) {
            *blame = (struct tt_direct_blame){.peer = q, .mine = op->fingerprint, .theirs = d->fingerprint};
            return TUTTI_ERR_DIFFERS;
        }
        f->in[q] = q == f->me ? op->in : d->in_kind == TT_DIRECT_HEAP ? tt_direct_resolve(f->d, q, d->in, d->in_bytes) : NULL;
        f->out[q] = q == f->me ? op->out : d->out_kind == TT_DIRECT_HEAP ? tt_direct_resolve(f->d, q, d->out, d->out_bytes) : NULL;
        push = push && d->out_kind == TT_DIRECT_HEAP;
        background = background || (d->flags & TT_FUSED_BACKGROUND);
        reach = reach && (d->in_kind == TT_DIRECT_HEAP || d->in_bytes == 0);
    }
    f->reach = reach;
    f->background = background;
    *ret_push = push;
    return TUTTI_OK;
}

/* Operands of `bytes` bytes at offset `at`: in place, or read into this peer's block. */
static tutti_status gather_operands(struct tt_fused *f, const struct tt_fused_op *op, size_t at, size_t bytes)
{
    for (uint32_t q = 0; q < f->n; q++) {
        f->src[q] = f->in[q] ? f->in[q] + at : f->block + (size_t)q * TT_FUSED_READ_BYTES;
        if (f->in[q])
            continue;
        const struct tt_direct_desc *d = tt_direct_described(f->d, LANE, op->number & 1, q);
        tutti_status st = tt_direct_read(f->d, q, d->in + at, f->block + (size_t)q * TT_FUSED_READ_BYTES, bytes);
        if (st)
            return st;
    }
    return TUTTI_OK;
}

tutti_status tt_fused_reduce_span(struct tt_fused *f, const struct tt_fused_op *op, const struct tt_fused_span *s)
{
    bool far = false;
    for (uint32_t q = 0; q < f->n; q++)
        far = far || !f->in[q];
    size_t step = far ? TT_FUSED_READ_BYTES : BLOCK_BYTES;
    for (size_t at = s->at; at < s->end; at += step) {
        size_t bytes = s->end - at < step ? s->end - at : step;
        tutti_status st = gather_operands(f, op, at, bytes);
        if (st)
            return st;
        uint32_t ndst = 0;
        f->dst[ndst++] = s->out + (at - s->at);
        for (uint32_t q = 0; s->push && q < f->n; q++)
            if (q != f->me)
                f->dst[ndst++] = f->out[q] + at;
        tt_fused_reduce(f, op, ndst, bytes / tt_fused_elem_bytes(op->dtype));
        if (tt_direct_aborted(f->d))
            return TUTTI_ERR_ABORTED;
    }
    return TUTTI_OK;
}

/* Writing into others' outputs is a lease, which they can end. */
static tutti_status reduce_part(struct tt_fused *f, struct tt_fused_op *op, bool *ret_all)
{
    size_t each = tt_fused_elem_bytes(op->dtype), end = slice_start(f, op, f->me + 1) * each;
    size_t at = slice_start(f, op, f->me) * each + op->done;
    struct tt_fused_span s = {
        .at = at, .end = end - at > PART_BYTES ? at + PART_BYTES : end, .out = (char *)op->out + at, .push = op->push};
    if (op->push && !tt_direct_lease(f->d))
        return TUTTI_ERR_ABORTED;
    tutti_status st = tt_fused_reduce_span(f, op, &s);
    if (op->push)
        tt_direct_release(f->d);
    op->done += st ? 0 : s.end - s.at;
    *ret_all = s.end == end;
    return st;
}

static tutti_status fetch(struct tt_fused *f, const struct tt_fused_op *op, uint32_t owner, size_t at, size_t bytes)
{
    const struct tt_direct_desc *d = tt_direct_described(f->d, LANE, op->number & 1, owner);
    if (!f->out[owner])
        return tt_direct_read(f->d, owner, d->out + at, (char *)op->out + at, bytes);
    memcpy((char *)op->out + at, f->out[owner] + at, bytes);
    return TUTTI_OK;
}

/* The next part of the other slices from their owners, each rank beginning behind itself so that they do not all read from one. */
static tutti_status fetch_part(struct tt_fused *f, struct tt_fused_op *op, bool *ret_all)
{
    size_t each = tt_fused_elem_bytes(op->dtype), skip = op->done, bytes = 0;
    tutti_status st = TUTTI_OK;
    for (uint32_t i = 1; i < f->n && !bytes; i++) {
        uint32_t q = (f->me + i) % f->n;
        size_t at = slice_start(f, op, q) * each, all = slice_start(f, op, q + 1) * each - at;
        if (skip < all) {
            bytes = all - skip < PART_BYTES ? all - skip : PART_BYTES;
            st = fetch(f, op, q, at + skip, bytes);
        }
        skip -= skip < all ? skip : all;
    }
    if (!st && tt_direct_aborted(f->d))
        st = TUTTI_ERR_ABORTED;
    op->done += st ? 0 : bytes;
    *ret_all = !bytes;
    return st;
}

static tutti_status await(struct tt_fused *f, const struct tt_fused_op *op, unsigned step, uint64_t deadline_ns,
                          struct tt_direct_blame *blame)
{
    return tt_direct_await_all(f->d, LANE, counter(op, step), deadline_ns, &blame->peer);
}

tutti_status tt_fused_meet(struct tt_fused *f, const struct tt_fused_op *op, uint64_t deadline_ns, bool *ret_push,
                           struct tt_direct_blame *blame)
{
    before_entry(f, deadline_ns);
    tutti_status st = await(f, op, TT_STEP_ENTERED, deadline_ns, blame);
    after_entry(f, deadline_ns);
    return st ? st : look(f, op, ret_push, blame);
}

static bool streams(const struct tt_fused *f, const struct tt_fused_op *op)
{
    size_t elems = op->coll == TUTTI_ALLREDUCE ? op->count : tt_fused_start(op, f->n), bytes = elems * tt_fused_elem_bytes(op->dtype);
    bool reach = op->coll != TUTTI_ALLREDUCE && f->reach; /* blocks are only read */
    bool far = bytes >= f->far && !(f->background && tt_direct_can_read(f->d));
    return !reach && (bytes <= f->near || far);
}

static tutti_status on_entered(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    tutti_status st = tt_fused_meet(f, op, deadline_ns, &op->push, blame);
    if (st)
        return st;
    op->round = op->copied = op->done = 0;
    op->reduced = false;
    op->state = !op->push && streams(f, op) ? STREAMING : REDUCING;
    return TUTTI_OK;
}

static tutti_status on_reducing(struct tt_fused *f, struct tt_fused_op *op)
{
    bool blocks = op->coll != TUTTI_ALLREDUCE, all = true;
    tutti_status st = blocks ? tt_fused_blocks(f, op) : reduce_part(f, op, &all);
    if (st || !all)
        return st;
    tt_fused_say(f, op, op->push || blocks ? TT_STEP_LEFT : TT_STEP_REDUCED);
    op->state = op->push || blocks ? LEFT : REDUCED;
    return TUTTI_OK;
}

/* Nobody reads or writes another rank's buffers, so nobody has to wait for the others to leave. */
static tutti_status on_streaming(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    tutti_status st =
        op->coll == TUTTI_ALLREDUCE ? tt_fused_stream(f, op, deadline_ns, blame) : tt_fused_blocks_stream(f, op, deadline_ns, blame);
    if (st)
        return st;
    tt_fused_say(f, op, TT_STEP_LEFT);
    op->state = DONE;
    return TUTTI_OK;
}

static tutti_status on_reduced(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    tutti_status st = await(f, op, TT_STEP_REDUCED, deadline_ns, blame);
    if (st)
        return st;
    op->done = 0;
    op->state = FETCHING;
    return TUTTI_OK;
}

static tutti_status on_fetching(struct tt_fused *f, struct tt_fused_op *op)
{
    bool all;
    tutti_status st = fetch_part(f, op, &all);
    if (st || !all)
        return st;
    tt_fused_say(f, op, TT_STEP_LEFT);
    op->state = LEFT;
    return TUTTI_OK;
}

static tutti_status on_left(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    tutti_status st = await(f, op, TT_STEP_LEFT, deadline_ns, blame);
    if (!st)
        op->state = DONE;
    return st;
}

static tutti_status step_first(struct tt_fused *f, uint64_t deadline_ns, struct tt_direct_blame *blame)
{
    struct tt_fused_op *op = f->first;
    switch (op->state) {
    case QUEUED:
        enter(f, op);
        return TUTTI_OK;
    case BOXED:
        return step_box(f, op, deadline_ns, blame);
    case ENTERED:
        return on_entered(f, op, deadline_ns, blame);
    case STREAMING:
        return on_streaming(f, op, deadline_ns, blame);
    case REDUCING:
        return on_reducing(f, op);
    case REDUCED:
        return on_reduced(f, op, deadline_ns, blame);
    case FETCHING:
        return on_fetching(f, op);
    default:
        return on_left(f, op, deadline_ns, blame);
    }
}

void tt_fused_begin(struct tt_fused *f, struct tt_fused_op *op)
{
    op->state = QUEUED;
    op->next = NULL;
    *f->last = op;
    f->last = &op->next;
    if (f->first == op)
        enter(f, op);
}

static void drop_finished(struct tt_fused *f)
{
    if (f->first->state != DONE)
        return;
    f->first = f->first->next;
    f->last = f->first ? f->last : &f->first;
    f->finished++;
}

tutti_status tt_fused_step(struct tt_fused *f, struct tt_fused_op *op, uint64_t deadline_ns, struct tt_direct_blame *ret_blame)
{
    while (op->state != DONE) {
        tutti_status st = step_first(f, deadline_ns, ret_blame);
        if (st)
            return st;
        drop_finished(f);
    }
    return TUTTI_OK;
}

bool tt_fused_progress(struct tt_fused *f)
{
    struct tt_direct_blame blame;
    bool moved = false, worked = false;
    while (f->first && !worked) {
        worked = f->first->state == REDUCING || f->first->state == FETCHING;
        if (step_first(f, 0, &blame) != TUTTI_OK)
            break;
        drop_finished(f);
        moved = true;
    }
    return moved;
}

bool tt_fused_done(const struct tt_fused_op *op)
{
    return op->state == DONE;
}

uint64_t tt_fused_finished(const struct tt_fused *f)
{
    return f->finished;
}
