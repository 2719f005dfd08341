/* compile.c - turns a rank's operations into runs of memory.
 *
 * Every operation becomes fragments: a number of elements, and for each buffer involved where they
 * begin. With one segment, chunks that touch in all buffers involved are one fragment; with more,
 * each chunk is its own fragment, because each chunk is cut in segments by itself (tt_xpart). Both
 * ends of a message list the same chunks in the same order, so its bytes are the same sequence at
 * both, however many fragments each end has.
 *
 *     receive-reduce of chunks 2, 3 (8 f32 each) into OUT:  code  16 | OUT+64 | IN+64
 *
 * Scratch: only places that some operation touches get memory; touching chunks of one buffer lie
 * side by side. Messages that may come before they can be used get a landing place. Own memory is
 * one block: scratch | landing and packing places.
 *
 * AVG: the last operation that writes a chunk of OUT divides, if it is a reducing one. In
 * collectives whose result exists only once (reduce-scatter, reduce) the last one divides whatever
 * its kind: a folded rank gets its finished sum from its partner, which had no place in OUT for it.
 *
 * Invariant: a reference (16 bits base, 48 bits offset) is valid before any address is known; a
 * start only fills in the bases. */
#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "exec/exec_int.h"

static bool compile_reduces(uint8_t kind)
{
    return kind == TT_OP_RECV_REDUCE || kind == TT_OP_REDUCE;
}

static bool receives(uint8_t kind)
{
    return kind == TT_OP_RECV || kind == TT_OP_RECV_REDUCE;
}

/* ---- the last writers of OUT ---- */

/* The last operation that writes each chunk of OUT; TT_XNO: none. Of a reduction only the first
 * span is a destination, and a send writes nothing. */
static tutti_status find_last_writers(struct tt_xcompile *x)
{
    x->last_writer = tt_alloc(x->shape->chunks, sizeof *x->last_writer);
    if (!x->last_writer)
        return tt_fail_memory(x->err, "last writers");
    for (uint32_t c = 0; c < x->shape->chunks; c++)
        x->last_writer[c] = TT_XNO;
    for (uint32_t i = 0; i < x->slice.nops; i++) {
        const struct tt_op *op = &x->slice.ops[i];
        uint32_t n = op->kind == TT_OP_SEND ? 0 : op->kind == TT_OP_REDUCE ? 1 : op->nspans;
        for (uint32_t k = 0; k < n; k++) {
            const struct tt_span *s = &x->slice.spans[op->span + k];
            for (uint32_t c = 0; s->buf == TT_BUF_OUT && c < s->reps * s->len; c++)
                x->last_writer[s->first + c / s->len * s->stride + c % s->len] = i;
        }
    }
    return TUTTI_OK;
}

/* Does this operation form the mean of this chunk? (See AVG above.) */
static bool divides(const struct tt_xcompile *x, uint32_t op, const struct tt_span *s,
                    uint32_t chunk)
{
    bool single = x->shape->coll == TUTTI_REDUCE_SCATTER || x->shape->coll == TUTTI_REDUCE;
    return x->p->divisor > 1 && s->buf == TT_BUF_OUT && x->last_writer[chunk] == op &&
           (single || compile_reduces(x->slice.ops[op].kind));
}

/* ---- scratch ---- */

static int by_place(const void *x, const void *y)
{
    const struct tt_xplace *a = x, *b = y;
    if (a->buf != b->buf)
        return a->buf < b->buf ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

/* Every scratch range that an operation touches, as destination or source. */
static bool collect_scratch(struct tt_xcompile *x)
{
    for (size_t i = 0; i < x->slice.nspans; i++) {
        const struct tt_span *s = &x->slice.spans[i];
        for (uint32_t k = 0; k < s->reps; k++) {
            struct tt_xplace at = {.buf = s->buf, .first = s->first + k * s->stride};
            at.end = at.first + s->len;
            if (at.buf >= TT_BUF_SCRATCH && !tt_vec_push(&x->scratch, &at, 1))
                return false;
            at.buf = s->src;
            if (at.buf >= TT_BUF_SCRATCH && at.buf != s->buf && !tt_vec_push(&x->scratch, &at, 1))
                return false;
        }
    }
    return true;
}

/* Reserves bytes of own memory, beginning on a cache line of their own. */
static tutti_status compile_reserve(struct tt_xcompile *x, uint64_t bytes, uint64_t *ret_at)
{
    uint64_t at = x->own_bytes, end;
    if (__builtin_add_overflow(at, bytes, &end) || end > TT_XREF_OFFSET - 64)
        return tt_fail(x->err, TUTTI_ERR_LIMIT,
                       "the operations need more than 2^48 bytes of memory");
    assert(at % 64 == 0);
    *ret_at = at;
    x->own_bytes = (end + 63) / 64 * 64;
    return TUTTI_OK;
}

/* Merges the ranges that touch or overlap and gives each memory. Invariant: p[0 .. n) are merged
 * and sorted. */
static tutti_status place_scratch(struct tt_xcompile *x)
{
    size_t n = 0;
    tutti_status st = TUTTI_OK;
    if (!collect_scratch(x))
        return tt_fail_memory(x->err, "scratch places");
    struct tt_xplace *p = x->scratch.data;
    if (x->scratch.len)
        qsort(p, x->scratch.len, sizeof *p, by_place);
    for (size_t i = 0; i < x->scratch.len; i++) {
        if (n && p[n - 1].buf == p[i].buf && p[n - 1].end >= p[i].first)
            p[n - 1].end = p[i].end > p[n - 1].end ? p[i].end : p[n - 1].end;
        else
            p[n++] = p[i];
    }
    x->scratch.len = n;
    for (size_t i = 0; i < n && !st; i++)
        st = compile_reserve(
            x, (x->layout.sum[p[i].end] - x->layout.sum[p[i].first]) * x->p->elem_bytes, &p[i].at);
    return st;
}

/* The reference of a scratch place. Every place asked for was collected, so the search cannot miss.
 * Invariant: the range that holds it is in [lo, hi). */
static uint64_t scratch_ref(const struct tt_xcompile *x, uint32_t buf, uint32_t chunk)
{
    const struct tt_xplace *p = x->scratch.data;
    size_t lo = 0, hi = x->scratch.len;
    while (hi - lo > 1) {
        size_t mid = lo + (hi - lo) / 2;
        if (p[mid].buf < buf || (p[mid].buf == buf && p[mid].first <= chunk))
            lo = mid;
        else
            hi = mid;
    }
    assert(p[lo].buf == buf && p[lo].first <= chunk && chunk < p[lo].end);
    uint64_t at = p[lo].at + (x->layout.sum[chunk] - x->layout.sum[p[lo].first]) * x->p->elem_bytes;
    return (uint64_t)TT_XBASE_OWN << 48 | at;
}

/* ---- fragments ---- */

/* Where (buf, chunk) is; TT_XNOWHERE: this rank has no such place. */
static uint64_t ref_of(const struct tt_xcompile *x, uint32_t buf, uint32_t chunk)
{
    const struct tt_xlayout *l = &x->layout;
    if (buf >= TT_BUF_SCRATCH)
        return scratch_ref(x, buf, chunk);
    uint64_t at = buf == TT_BUF_IN ? l->in[chunk] : l->out[chunk];
    bool part = buf == TT_BUF_IN ? l->part_in : l->part_out;
    if (at == TT_XNOWHERE)
        return at;
    assert(!part || l->run[chunk] < l->runs.len);
    uint64_t base = part               ? TT_XBASE_RUNS + l->run[chunk]
                    : buf == TT_BUF_IN ? TT_XBASE_IN
                                       : TT_XBASE_OUT;
    return base << 48 | at * x->p->elem_bytes;
}

/* Makes the last fragment longer if the new one follows it in every buffer and both divide or
 * neither does. With several segments fragments stay apart (see above). */
static bool extends(const struct tt_xcompile *x, const struct tt_xop *o, const uint64_t *frag)
{
    if (o->nfrags == 0 || x->p->segments > 1)
        return false;
    uint64_t *last = (uint64_t *)x->code.data + x->code.len - 1 - o->width;
    uint64_t bytes = (last[0] & ~TT_XDIVIDE) * x->p->elem_bytes;
    if ((last[0] & TT_XDIVIDE) != (frag[0] & TT_XDIVIDE))
        return false;
    for (uint32_t i = 1; i <= o->width; i++)
        if (last[i] + bytes != frag[i])
            return false;
    last[0] += frag[0] & ~TT_XDIVIDE;
    return true;
}

/* Appends a chunk of span k as a fragment of op i. `frag` has room for 1 + width words. A reduction
 * has one source span for each operand, all with the same chunks. */
static tutti_status add_chunk(struct tt_xcompile *x, uint32_t i, uint32_t k, uint32_t chunk,
                              uint64_t *frag)
{
    const struct tt_op *op = &x->slice.ops[i];
    const struct tt_span *s = &x->slice.spans[op->span + k];
    struct tt_xop *o = &x->p->ops[i];
    bool divide = divides(x, i, s, chunk);
    assert(chunk < x->shape->chunks);
    frag[0] = tt_xlayout_elems(&x->layout, chunk);
    if (frag[0] == 0)
        return TUTTI_OK;
    o->elems += frag[0];
    o->divides = o->divides || divide;
    frag[0] |= divide ? TT_XDIVIDE : 0;
    frag[1] = ref_of(x, s->buf, chunk);
    for (uint32_t w = 2; w <= o->width; w++)
        frag[w] = ref_of(x, op->kind == TT_OP_REDUCE ? s[w - 1].src : s->src, chunk);
    for (uint32_t w = 1; w <= o->width; w++)
        if (frag[w] == TT_XNOWHERE)
            return tt_fail(x->err, TUTTI_ERR_INCORRECT,
                           "op %" PRIu32 " of rank %" PRIu32 " uses chunk %" PRIu32
                           ", which is not there",
                           i, x->config->rank, chunk);
    if (extends(x, o, frag))
        return TUTTI_OK;
    o->nfrags++;
    return tt_vec_push(&x->code, frag, 1 + (size_t)o->width) ? TUTTI_OK
                                                             : tt_fail_memory(x->err, "program");
}

/* References of a fragment: destination (SEND: source), then sources. */
static uint32_t width_of(const struct tt_op *op)
{
    if (op->kind == TT_OP_REDUCE)
        return op->nspans;
    return op->kind == TT_OP_RECV_REDUCE || op->kind == TT_OP_COPY ? 2 : 1;
}

/* Makes the fragments of one operation; marks of lower.c are none so far. Of a reduction only the
 * destination is walked, since add_chunk looks at the other spans with it. */
static tutti_status compile_op(struct tt_xcompile *x, uint32_t i, uint64_t *frag)
{
    const struct tt_op *op = &x->slice.ops[i];
    struct tt_xop *o = &x->p->ops[i];
    uint32_t n = op->kind == TT_OP_REDUCE ? 1 : op->nspans;
    tutti_status st = TUTTI_OK;
    *o = (struct tt_xop){.kind = op->kind,
                         .channel = op->channel,
                         .width = width_of(op),
                         .code = x->code.len,
                         .land = TT_XNOWHERE,
                         .holds = TT_XNO,
                         .held_by = TT_XNO,
                         .answer = TT_XNO,
                         .group = TT_XNO,
                         .offer = TT_XNO,
                         .sent = TT_XNO};
    for (uint32_t k = 0; k < n; k++) {
        const struct tt_span *s = &x->slice.spans[op->span + k];
        for (uint32_t c = 0; c < s->reps * s->len && !st; c++)
            st = add_chunk(x, i, k, s->first + c / s->len * s->stride + c % s->len, frag);
    }
    return st;
}

/* `operands` and `from` are arrays for one fragment at a time, as wide as the widest operation. */
static tutti_status compile_fragments(struct tt_xcompile *x)
{
    uint32_t widest = 0;
    tutti_status st = TUTTI_OK;
    for (size_t i = 0; i < x->slice.nops; i++)
        widest = width_of(&x->slice.ops[i]) > widest ? width_of(&x->slice.ops[i]) : widest;
    uint64_t *frag = tt_alloc(1 + (size_t)widest, sizeof *frag);
    x->p->operands = tt_alloc((size_t)widest + 1, sizeof *x->p->operands);
    x->p->from = tt_zalloc((size_t)widest + 1, sizeof *x->p->from);
    if (!frag || !x->p->operands || !x->p->from)
        st = tt_fail_memory(x->err, "program");
    for (uint32_t i = 0; i < x->slice.nops && !st; i++)
        st = compile_op(x, i, frag);
    free(frag);
    return st;
}

/* ---- pieces and landing places ---- */

/* Bytes of one segment of an operation: the sum over its fragments, each cut by itself. */
TT_HOT uint64_t tt_exec_op_bytes(const struct tt_program *p, const struct tt_xop *op,
                                 uint32_t segment)
{
    const uint64_t *word = p->code + op->code;
    assert(segment < p->segments);
    uint64_t elems = 0;
    if (p->segments == 1)
        return op->elems * p->elem_bytes;
    for (uint32_t i = 0; i < op->nfrags; i++, word += 1 + op->width) {
        uint64_t n = word[0] & ~TT_XDIVIDE;
        elems += tt_xpart(p, n, segment + 1) - tt_xpart(p, n, segment);
    }
    return elems * p->elem_bytes;
}

/* Sends of many fragments need a packing place. Receives need a landing place if their bytes cannot
 * always go straight to their place. */
static bool needs_memory(const struct tt_xcompile *x, const struct tt_xop *o, bool waits)
{
    bool scattered = o->nfrags > TT_IOV_MAX;
    if (o->kind == TT_OP_SEND)
        return scattered;
    return receives(o->kind) && (x->config->count || x->config->blocks) &&
           (scattered || waits || o->divides || o->kind == TT_OP_RECV_REDUCE);
}

tutti_status tt_exec_compile_room(struct tt_xcompile *x, uint32_t i, bool waits)
{
    struct tt_program *p = x->p;
    struct tt_xop *o = &p->ops[i];
    uint64_t longest = 0, total;
    for (uint32_t k = 0; k < p->segments; k++) {
        uint64_t bytes = tt_exec_op_bytes(p, o, k);
        longest = bytes > longest ? bytes : longest;
    }
    /* The piece number has 16 bits in a tag. */
    uint64_t pieces = (longest + TT_XPIECE - 1) / TT_XPIECE;
    if (pieces > UINT16_MAX)
        return tt_fail(x->err, TUTTI_ERR_LIMIT,
                       "a message of %" PRIu64 " bytes needs more segments", longest);
    o->npieces = pieces ? (uint32_t)pieces : 1;
    o->stride = (longest + 63) / 64 * 64;
    if (receives(o->kind)) {
        o->piece = p->npieces;
        p->npieces += (uint64_t)o->npieces * p->segments;
    }
    if (!needs_memory(x, o, waits))
        return TUTTI_OK;
    if (__builtin_mul_overflow(o->stride, (uint64_t)p->segments, &total))
        total = UINT64_MAX;
    return compile_reserve(x, total, &o->land);
}

tutti_status tt_exec_compile_ops(struct tt_xcompile *x)
{
    tutti_status st = find_last_writers(x);
    if (!st)
        st = place_scratch(x);
    if (!st)
        st = compile_fragments(x);
    if (st)
        return st;
    x->p->code = x->code.data; /* the program's from now on */
    x->code.data = NULL;
    return TUTTI_OK;
}
