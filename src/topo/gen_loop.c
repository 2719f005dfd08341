/* gen_loop.c - switchless networks made of loops: ring, full mesh, torus, mesh, hypercube, DLN and
 * 2D-DLN.
 *
 * All are products of circulant graphs (or lines, for the mesh): along each axis every vertex has a
 * cable to the one `jump` further.
 *
 *     dln:8 (jumps 1 2 4), cables of vertex 0:     0 -- 1     0 -- 2     0 -- 4
 *                                                  (and from 7 and 6; 4 is its own inverse)
 *
 * DLN(N,t): ring plus the jumps ceil(N/2^k), k = 1..t; jumps j and N-j are the same cables, and
 * equal ones are merged. Without t: all levels, ceil(log2 N)-1. Shift halving-doubling uses exactly
 * these jumps: each of its messages is one link. Numbering: axis by axis, jump by jump (ascending),
 * vertex by vertex, so that a link's id is arithmetic (route_loop.c). */
#include "topo/topo_int.h"

uint32_t tt_topo_dln_jumps(uint32_t n, uint32_t t, uint32_t *jumps)
{
    uint32_t count = 0;
    if (n > 1)
        jumps[count++] = 1;
    /* ascending: ceil(n/2^t) is the shortest */
    for (uint32_t k = t; n > 1 && k >= 1; k--) {
        uint64_t pow2 = UINT64_C(1) << k, j = (n + pow2 - 1) / pow2;
        uint32_t jump = (uint32_t)(j > n - j ? n - j : j);
        if (jump > jumps[count - 1])
            jumps[count++] = jump;
    }
    return count;
}

/* Adds all cables of one jump along an axis, in the order that route_loop.c computes ids from. */
static tutti_status add_class(struct tt_topo *t, const struct tt_axis *x, uint32_t jump,
                              const struct tt_link *like, struct tutti_error *err)
{
    uint32_t n = tt_topo_axis_cables(x, jump);
    struct tt_link l = *like;
    tutti_status st = TUTTI_OK;
    for (uint32_t i = 0; i < n && !st; i++) {
        tt_topo_axis_ends(x, jump, i, &l.a, &l.b);
        st = tt_topo_add_link(t, &l, err);
    }
    return st;
}

/* Adds the cables of DLN(n, levels) along every axis; levels 0: the plain ring or line. Frees t on
 * failure. */
static tutti_status add_dln(struct tt_topo *t, const struct tt_spec *s, uint32_t levels,
                            struct tutti_error *err)
{
    struct tt_axis axes[TT_TOPO_MAX_DIMS];
    uint32_t naxes = tt_topo_axes(t, axes), jumps[33];
    tutti_status st = TUTTI_OK;
    for (uint32_t d = 0; d < naxes; d++) {
        uint32_t n = tt_topo_dln_jumps(axes[d].n, levels, jumps);
        for (uint32_t k = 0; k < n && !st; k++)
            st = add_class(t, &axes[d], jumps[k], &s->link, err);
    }
    if (st)
        tt_topo_free(t);
    return st;
}

/* The number of ranks as the only parameter. */
static tutti_status one_count(const struct tt_spec *s, uint32_t *ret, struct tutti_error *err)
{
    static const uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    tutti_status st = tt_topo_spec_want(s, 1, err);
    return st ? st
              : tt_topo_spec_count(s, "number of ranks", tt_topo_spec_arg(s, 0), range, ret, err);
}

/* A DLN without levels: only the jump 1. */
tutti_status tt_topo_gen_ring(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err)
{
    uint32_t n;
    tutti_status st = one_count(s, &n, err);
    if (!st)
        st = tt_topo_new(s->kind, n, 0, ret, err);
    if (st)
        return st;
    (*ret)->routing = TT_ROUTE_CIRCULANT;
    return add_dln(*ret, s, 0, err);
}

tutti_status tt_topo_gen_full(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err)
{
    uint32_t n;
    struct tt_axis axis;
    tutti_status st = one_count(s, &n, err);
    if (!st)
        /* The only kind whose links grow with the square of the ranks: refuse before allocating. */
        st = tt_topo_spec_limit(s, n, (uint64_t)n * (n - 1) / 2, err);
    if (!st)
        st = tt_topo_new(s->kind, n, 0, ret, err);
    if (st)
        return st;
    (*ret)->routing = TT_ROUTE_CIRCULANT;
    tt_topo_axes(*ret, &axis);
    for (uint32_t j = 1; j <= n / 2 && !st; j++)
        st = add_class(*ret, &axis, j, &s->link, err);
    if (st)
        tt_topo_free(*ret);
    return st;
}

/* A grid of the given sizes with DLN(size, levels) along each dimension. */
static tutti_status make_grid(const struct tt_spec *s, const struct tt_topo *shape, uint32_t levels,
                              struct tt_topo **ret, struct tutti_error *err)
{
    uint32_t ranks = 1;
    for (uint32_t d = 0; d < shape->ndims; d++)
        ranks *= shape->dims[d];
    tutti_status st = tt_topo_new(s->kind, ranks, 0, ret, err);
    if (st)
        return st;
    struct tt_topo *t = *ret;
    t->routing = TT_ROUTE_GRID;
    t->ndims = shape->ndims;
    t->wrap = shape->wrap;
    for (uint32_t d = 0; d < shape->ndims; d++)
        t->dims[d] = shape->dims[d];
    return add_dln(t, s, levels, err);
}

/* Only dims and ndims of the shape are set. */
static tutti_status parse_shape(const struct tt_spec *s, struct tt_topo *shape,
                                struct tutti_error *err)
{
    tutti_status st = tt_topo_spec_want(s, 1, err);
    return st ? st : tt_topo_spec_dims(s, tt_topo_spec_arg(s, 0), shape->dims, &shape->ndims, err);
}

/* The plain ring along every dimension. */
tutti_status tt_topo_gen_torus(const struct tt_spec *s, struct tt_topo **ret,
                               struct tutti_error *err)
{
    struct tt_topo shape = {.wrap = true};
    tutti_status st = parse_shape(s, &shape, err);
    return st ? st : make_grid(s, &shape, 0, ret, err);
}

/* The plain line along every dimension. */
tutti_status tt_topo_gen_mesh(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err)
{
    struct tt_topo shape = {.wrap = false};
    tutti_status st = parse_shape(s, &shape, err);
    return st ? st : make_grid(s, &shape, 0, ret, err);
}

/* A torus of size 2 along every dimension; the first dimension is the highest bit. */
tutti_status tt_topo_gen_hypercube(const struct tt_spec *s, struct tt_topo **ret,
                                   struct tutti_error *err)
{
    struct tt_topo shape = {.wrap = true};
    uint32_t n;
    tutti_status st = one_count(s, &n, err);
    if (st)
        return st;
    if (n & (n - 1))
        return tt_fail(
            err, TUTTI_ERR_RANGE,
            "hypercube: number of ranks is %u; it must be a power of two, for example %llu", n,
            (unsigned long long)tt_floor_pow2(n));
    shape.ndims = n == 1 ? 1 : tt_ceil_log2(n);
    for (uint32_t d = 0; d < shape.ndims; d++)
        shape.dims[d] = n == 1 ? 1 : 2;
    return make_grid(s, &shape, 0, ret, err);
}

/* t of a DLN whose longest loop has n vertices: at most ceil(log2 n)-1, which is the default. */
static tutti_status parse_t(const struct tt_spec *s, uint32_t n, uint32_t *ret,
                            struct tutti_error *err)
{
    uint64_t range[2] = {0, tt_ceil_log2(n)};
    if (range[1] > 0)
        range[1]--;
    *ret = (uint32_t)range[1];
    return s->t ? tt_topo_spec_count(s, "t (levels of shortcuts, at most ceil(log2 N)-1)", s->t,
                                     range, ret, err)
                : TUTTI_OK;
}

/* h hosts per position: link r joins rank r with the switch of position r / h; the loops join the
 * switches. With h = 1 there are no switches. Frees t on failure. */
static tutti_status add_hosts(struct tt_topo *t, const struct tt_spec *s, struct tutti_error *err)
{
    tutti_status st = TUTTI_OK;
    struct tt_link l = s->link;
    for (uint32_t r = 0; t->switches && r < t->ranks && !st; r++) {
        l.a = r;
        l.b = t->ranks + r / (t->ranks / t->switches);
        st = tt_topo_add_link(t, &l, err);
    }
    if (st)
        tt_topo_free(t);
    return st;
}

tutti_status tt_topo_gen_dln(const struct tt_spec *s, struct tt_topo **ret, struct tutti_error *err)
{
    uint32_t n, t, h = 1;
    uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    tutti_status st = one_count(s, &n, err);
    if (!st)
        st = parse_t(s, n, &t, err);
    if (!st && s->h)
        st = tt_topo_spec_count(s, "h (hosts per position)", s->h, range, &h, err);
    if (!st)
        st = tt_topo_spec_limit(s, (uint64_t)n * h, 0, err);
    if (!st)
        st = tt_topo_new(s->kind, n * h, h > 1 ? n : 0, ret, err);
    if (st)
        return st;
    (*ret)->routing = TT_ROUTE_CIRCULANT;
    st = add_hosts(*ret, s, err);
    return st ? st : add_dln(*ret, s, t, err);
}

/* Both loops have t levels; a loop that is too short for t has all its levels. */
tutti_status tt_topo_gen_dln2d(const struct tt_spec *s, struct tt_topo **ret,
                               struct tutti_error *err)
{
    struct tt_topo shape = {.wrap = true};
    uint32_t t;
    tutti_status st = parse_shape(s, &shape, err);
    if (st)
        return st;
    if (shape.ndims != 2)
        return tt_fail(
            err, TUTTI_ERR_RANGE,
            "dln2d: %u dimensions in \"%.40s\"; exactly 2 are needed, for example dln2d:32x32,t=2",
            shape.ndims, tt_topo_spec_arg(s, 0));
    st = parse_t(s, shape.dims[0] > shape.dims[1] ? shape.dims[0] : shape.dims[1], &t, err);
    return st ? st : make_grid(s, &shape, t, ret, err);
}
