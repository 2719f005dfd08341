/* pack.c - one rank's slice of a schedule as bytes, for a rank that did not build the schedule
 * itself.
 *
 *     head | weights (when there are any) | owners (when there are any) | operations | spans
 *
 * Fields are copied as they are in memory: the ranks have compared that they have one version and
 * byte order. The reader trusts nothing: lengths are checked against the bytes there are, and the
 * result is checked like a file. Declared routes are left out: only pricing needs them. */
#include <assert.h>

#include "sched/sched_int.h"

#include <stdlib.h>
#include <string.h>

#define MAGIC UINT64_C(0x3165636c73747475)

struct head {
    uint64_t magic, bytes; /* bytes: of everything */
    uint64_t nops, nspans;
    uint32_t rank, pad;
    uint32_t weights, owners;    /* present? */
    uint32_t inplace, symmetric; /* of the shape: a bool read from damaged bytes is undefined */
    struct tt_shape shape;       /* without the two flags; pointers NULL */
};

/* Offsets of the parts. */
struct parts {
    size_t weights, owners, ops, spans, end;
};

/* False: the counts of h are too large to be valid; sums of smaller ones cannot overflow. */
static bool lay_out(const struct head *h, struct parts *ret)
{
    const uint64_t most = UINT64_C(1) << 40, list = (uint64_t)h->shape.chunks * sizeof(uint32_t);
    if (h->nops > most || h->nspans > most)
        return false;
    ret->weights = sizeof *h;
    ret->owners = ret->weights + (h->weights ? list : 0);
    ret->ops = ret->owners + (h->owners ? list : 0);
    ret->ops = (ret->ops + 7) / 8 * 8; /* aligned for operations */
    ret->spans = ret->ops + h->nops * sizeof(struct tt_op);
    ret->end = ret->spans + h->nspans * sizeof(struct tt_span);
    return true;
}

static struct head head_of(const struct tt_sched *s, uint32_t rank)
{
    struct tt_slice sl = tt_sched_slice(s, rank);
    struct head h;
    struct parts p;
    memset(&h, 0, sizeof h); /* padding too: equal slices are equal bytes */
    h.magic = MAGIC;
    h.nops = sl.nops;
    h.nspans = sl.nspans;
    h.rank = rank;
    h.weights = s->shape.weights != NULL;
    h.owners = s->shape.owner != NULL;
    h.shape = s->shape;
    h.shape.weights = h.shape.owner = NULL;
    h.shape.grid = false;
    h.inplace = s->shape.inplace;
    h.symmetric = s->shape.symmetric;
    lay_out(&h, &p);
    h.bytes = p.end;
    return h;
}

size_t tt_sched_packed_bytes(const struct tt_sched *s, uint32_t rank)
{
    return (size_t)head_of(s, rank).bytes;
}

static void pack_put(char *out, const void *from, size_t bytes)
{
    if (bytes)
        memcpy(out, from, bytes);
}

void tt_sched_pack(const struct tt_sched *s, uint32_t rank, char *out)
{
    struct head h = head_of(s, rank);
    struct tt_slice sl = tt_sched_slice(s, rank);
    struct parts p;
    lay_out(&h, &p);
    assert(p.end == h.bytes);
    memset(out, 0, (size_t)h.bytes);
    pack_put(out, &h, sizeof h);
    pack_put(out + p.weights, s->shape.weights, h.weights ? p.owners - p.weights : 0);
    pack_put(out + p.owners, s->shape.owner,
             h.owners ? (size_t)s->shape.chunks * sizeof(uint32_t) : 0);
    pack_put(out + p.ops, sl.ops, sl.nops * sizeof *sl.ops);
    pack_put(out + p.spans, sl.spans, sl.nspans * sizeof *sl.spans);
}

static tutti_status fail_damaged(struct tutti_error *err)
{
    return tt_fail(err, TUTTI_ERR_PARSE, "the packed schedule is damaged");
}

static uint32_t *take_list(const char *from, uint32_t n)
{
    uint32_t *list = tt_alloc(n, sizeof *list);
    if (list)
        pack_put((char *)list, from, (size_t)n * sizeof *list);
    return list;
}

/* The shape with lists of its own, which the builder takes over. */
static tutti_status take_shape(const char *data, const struct head *h, const struct parts *p,
                               struct tt_shape *ret, struct tutti_error *err)
{
    struct tt_shape s = h->shape;
    s.weights = h->weights ? take_list(data + p->weights, s.chunks) : NULL;
    s.owner = h->owners ? take_list(data + p->owners, s.chunks) : NULL;
    s.inplace = h->inplace != 0;
    s.symmetric = h->symmetric != 0;
    s.grid = false;
    /* Texts from damaged bytes must end. */
    s.algo[sizeof s.algo - 1] = s.options[sizeof s.options - 1] = 0;
    s.network[sizeof s.network - 1] = 0;
    if ((h->weights && !s.weights) || (h->owners && !s.owner)) {
        tt_sched_shape_free(&s);
        return tt_fail_memory(err, "schedule");
    }
    *ret = s;
    return TUTTI_OK;
}

/* Operations are copied one by one, because the bytes may be unaligned. */
static tutti_status list_ops(const char *data, const struct head *h, const struct parts *p,
                             struct tt_builder *b, struct tutti_error *err)
{
    struct tt_span *spans = tt_alloc((size_t)h->nspans + 1, sizeof *spans);
    if (!spans)
        return tt_fail_memory(err, "schedule");
    pack_put((char *)spans, data + p->spans, (size_t)h->nspans * sizeof *spans);
    tutti_status st = TUTTI_OK;
    tt_sched_build_rank(b, h->rank);
    for (uint64_t i = 0; i < h->nops && !st; i++) {
        struct tt_op op;
        memcpy(&op, data + p->ops + i * sizeof op, sizeof op);
        if (op.span > h->nspans || op.nspans > h->nspans - op.span)
            st = fail_damaged(err);
        else
            tt_sched_emit(b, op, spans + op.span, op.nspans);
    }
    free(spans);
    return st;
}

/* Everything that sizes an allocation is compared with len before it is used. */
tutti_status tt_sched_unpack(const char *data, size_t len, struct tt_sched **ret,
                             struct tutti_error *err)
{
    struct head h;
    struct parts p;
    struct tt_shape shape;
    struct tt_builder b;
    struct tt_sched *s = NULL;
    if (len < sizeof h)
        return fail_damaged(err);
    memcpy(&h, data, sizeof h);
    if (h.magic != MAGIC || h.bytes > len || !lay_out(&h, &p) || p.end != h.bytes ||
        h.rank >= h.shape.ranks)
        return fail_damaged(err);
    tutti_status st = take_shape(data, &h, &p, &shape, err);
    if (st)
        return st;
    tt_sched_build_begin(&b, &shape, h.rank);
    b.verbatim = true;
    st = list_ops(data, &h, &p, &b, err);
    if (st)
        tt_sched_build_abandon(&b);
    else
        st = tt_sched_build_freeze(&b, &s, err);
    if (!st)
        st = tt_sched_check(s, NULL, err);
    if (st)
        tt_sched_free(s);
    else
        *ret = s;
    return st;
}
