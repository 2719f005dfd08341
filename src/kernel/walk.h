/* walk.h - inside src/kernel: the kernel of one data type and one reduction; a template, included
 * once per pair (table.h).
 *
 * Given: TYPE (F32, ...), OP (SUM, PROD, MIN, ...) and ELEM_BYTES. Positions are byte offsets, the
 * same in every buffer:
 *
 *      0        off            4 vectors at a time              end
 *      | edge    | quad | quad | quad | quad | ...  | edge       |
 *
 * A quad is loaded from every source once, combined in registers, and stored to every destination,
 * all loads before all stores: this lets a destination be a source. The edges go one vector at a
 * time, the last one in part. Every condition on TYPE and OP is a constant, and so is `known` after
 * inlining: straight code remains. */
#define PASTE(f, type, op)  f##_##type##_##op
#define EXPAND(f, type, op) PASTE(f, type, op)
#define NAME(f)             EXPAND(f, TYPE, OP)
#define JOIN(a, b)          a##b
#define MAKE(a, b)          JOIN(a, b)
#define T                   MAKE(TUTTI_, TYPE)
#define R                   MAKE(TUTTI_, OP)
#define ARITH               MAKE(ARITH_, TYPE)
#define ORDER               MAKE(ORDER_, TYPE)
/* Sums that are limited by memory also have straight code for 3, 4 and 8 sources; f16 that is
 * converted in software is not among them. */
#define STRAIGHT (R == TUTTI_SUM && IS_FLOAT(T) && (T != TUTTI_F16 || HAS_F16))

INLINE struct acc NAME(widen)(vec v)
{
    if (T == TUTTI_F16)
        return f16_widen(v);
    if (T == TUTTI_BF16)
        return bf16_widen(v);
    return (struct acc){v, v};
}

/* Averages of integers are computed in average.c: here only floats are divided. */
INLINE vec NAME(finish)(vec v, uint32_t divisor)
{
    if (T == TUTTI_F64)
        return f64_finish(v, divisor);
    return IS_FLOAT(T) ? f32_finish(v, divisor) : v;
}

INLINE vec NAME(narrow)(struct acc a, uint32_t divisor)
{
    a.lo = NAME(finish)(a.lo, divisor);
    if (!IS_HALF(T))
        return a.lo;
    a.hi = NAME(finish)(a.hi, divisor);
    return T == TUTTI_F16 ? f16_narrow(a) : bf16_narrow(a);
}

/* The smaller one. When neither is smaller, the OR of both: the value itself, -0 for two zeros,
 * a NaN for a NaN. */
INLINE vec NAME(lesser)(vec a, vec b)
{
    return (a & ~(vec)((ORDER)b < (ORDER)a)) | (b & ~(vec)((ORDER)a < (ORDER)b));
}

INLINE vec NAME(greater)(vec a, vec b)
{
    const vec sign = SIGN_BITS(T);
    if (IS_FLOAT(T))
        return NAME(lesser)(a ^ sign, b ^ sign) ^ sign;
    return pick((vec)((ORDER)a < (ORDER)b), b, a);
}

/* Truth values: all bits of every lane that is not 0. */
INLINE vec NAME(truth)(vec v)
{
    return (vec)((ARITH)v != 0);
}

/* Keeps the lowest bit of every lane, so that a truth value is 1. */
INLINE vec NAME(as_one)(vec v)
{
    return v & (vec)((ARITH){0} + 1);
}

INLINE vec NAME(logic)(vec a, vec b)
{
    if (R == TUTTI_BAND)
        return a & b;
    if (R == TUTTI_BOR)
        return a | b;
    if (R == TUTTI_BXOR)
        return a ^ b;
    if (R == TUTTI_LAND)
        return NAME(as_one)(NAME(truth)(a) & NAME(truth)(b));
    if (R == TUTTI_LOR)
        return NAME(as_one)(NAME(truth)(a | b));
    return NAME(as_one)(NAME(truth)(a) ^ NAME(truth)(b));
}

INLINE vec NAME(both)(vec a, vec b)
{
    if (R >= TUTTI_BAND)
        return NAME(logic)(a, b);
    if (R == TUTTI_PROD)
        return (vec)((ARITH)a * (ARITH)b);
    if (R == TUTTI_MIN)
        return NAME(lesser)(a, b);
    if (R == TUTTI_MAX)
        return NAME(greater)(a, b);
    return (vec)((ARITH)a + (ARITH)b);
}

INLINE struct acc NAME(combine)(struct acc a, struct acc b)
{
    a.lo = NAME(both)(a.lo, b.lo);
    if (IS_HALF(T))
        a.hi = NAME(both)(a.hi, b.hi);
    return a;
}

INLINE struct acc NAME(load)(const char *from)
{
    vec v;
    memcpy(&v, from, sizeof v);
    return NAME(widen)(v);
}

INLINE struct quad NAME(quad_load)(const char *from)
{
    return (struct quad){NAME(load)(from), NAME(load)(from + TT_VEC_BYTES),
                         NAME(load)(from + 2 * TT_VEC_BYTES), NAME(load)(from + 3 * TT_VEC_BYTES)};
}

INLINE struct quad NAME(quad_add)(struct quad q, const char *from)
{
    q.a = NAME(combine)(q.a, NAME(load)(from));
    q.b = NAME(combine)(q.b, NAME(load)(from + TT_VEC_BYTES));
    q.c = NAME(combine)(q.c, NAME(load)(from + 2 * TT_VEC_BYTES));
    q.d = NAME(combine)(q.d, NAME(load)(from + 3 * TT_VEC_BYTES));
    return q;
}

INLINE struct quad NAME(gather_known)(const struct sources *s, uint32_t n, size_t off)
{
    struct quad q = NAME(quad_load)(s->p[0] + off);
    if (n > 1)
        q = NAME(quad_add)(q, s->p[1] + off);
    if (n > 2)
        q = NAME(quad_add)(q, s->p[2] + off);
    if (n > 3)
        q = NAME(quad_add)(q, s->p[3] + off);
    if (n > 4)
        q = NAME(quad_add)(q, s->p[4] + off);
    if (n > 5)
        q = NAME(quad_add)(q, s->p[5] + off);
    if (n > 6)
        q = NAME(quad_add)(q, s->p[6] + off);
    if (n > 7)
        q = NAME(quad_add)(q, s->p[7] + off);
    return q;
}

INLINE struct quad NAME(gather_any)(const struct tt_reduce *r, size_t off)
{
    struct quad q = NAME(quad_load)(source(r, 0) + off);
    for (uint32_t s = 1; s < r->nsrc; s++)
        q = NAME(quad_add)(q, source(r, s) + off);
    return q;
}

INLINE struct bits NAME(quad_narrow)(struct quad q, uint32_t divisor)
{
    return (struct bits){NAME(narrow)(q.a, divisor), NAME(narrow)(q.b, divisor),
                         NAME(narrow)(q.c, divisor), NAME(narrow)(q.d, divisor)};
}

/* Whole quads of [off, end) from `known` sources (ANY: r->nsrc); returns where it stopped.
 * Invariant: everything before off is stored. */
INLINE size_t NAME(quads)(const struct tt_reduce *r, uint32_t known, size_t off, size_t end)
{
    const struct sources s = first_sources(r, known);
    const uint32_t divisor = r->divisor, ndst = r->ndst;
    const bool stream = r->nontemporal;
    char *const first = r->dst[0];
    for (; end - off >= QUAD_BYTES; off += QUAD_BYTES) {
        const struct quad q =
            known == ANY ? NAME(gather_any)(r, off) : NAME(gather_known)(&s, known, off);
        const struct bits v = NAME(quad_narrow)(q, divisor);
        quad_store(v, first + off, stream);
        for (uint32_t d = 1; d < ndst; d++)
            quad_store(v, (char *)r->dst[d] + off, stream);
    }
    return off;
}

INLINE size_t NAME(quads_by_count)(const struct tt_reduce *r, size_t off, size_t end)
{
    if (r->nsrc == 2)
        return NAME(quads)(r, 2, off, end);
    if (STRAIGHT && r->nsrc == 3)
        return NAME(quads)(r, 3, off, end);
    if (STRAIGHT && r->nsrc == 4)
        return NAME(quads)(r, 4, off, end);
    if (STRAIGHT && r->nsrc == MOST)
        return NAME(quads)(r, MOST, off, end);
    return NAME(quads)(r, ANY, off, end);
}

/* [off, end) one vector at a time, the last one in part. Lanes beyond the end hold zeros and are
 * not stored. */
static void NAME(edge)(const struct tt_reduce *r, size_t off, size_t end)
{
    while (off < end) {
        const size_t n = end - off < TT_VEC_BYTES ? end - off : TT_VEC_BYTES;
        struct acc a = NAME(widen)(load_upto(source(r, 0) + off, n));
        for (uint32_t s = 1; s < r->nsrc; s++)
            a = NAME(combine)(a, NAME(widen)(load_upto(source(r, s) + off, n)));
        const vec v = NAME(narrow)(a, r->divisor);
        for (uint32_t d = 0; d < r->ndst; d++)
            store_upto((char *)r->dst[d] + off, v, n);
        off += n;
    }
}

static void NAME(run)(const struct tt_reduce *r)
{
    const size_t end = r->count * ELEM_BYTES;
    size_t off = 0;
    if (r->nontemporal) {
        off = -(uintptr_t)r->dst[0] & 63; /* streams begin at a cache line */
        NAME(edge)(r, 0, off);
    }
    off = NAME(quads_by_count)(r, off, end);
    NAME(edge)(r, off, end);
    if (r->nontemporal)
        stream_fence();
}

#undef PASTE
#undef EXPAND
#undef NAME
#undef JOIN
#undef MAKE
#undef T
#undef R
#undef ARITH
#undef ORDER
#undef STRAIGHT
