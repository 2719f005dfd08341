/* gen_switched.c - networks of switches with ranks at the edge: star, fat-tree, BiGraph, dragonfly.
 *
 * The ranks' own cables come first: link r joins rank r (end a) with its switch. Then the cables
 * between switches, lower end first.
 *
 *     fattree:2,2      root level  s2  s3   m-ary, n levels: m^n ranks, m^(n-1) switches a level.
 *                                  | \/ |   Switch w (n-1 digits of base m) of level l has m cables
 *                      leaf level  s0  s1   to the switches of level l+1 that differ from it only
 *                                  /\  /\   in digit l, if at all. Any leaf reaches any root over
 *                                 0 1  2 3  exactly one way up.
 *     bigraph:1x4      s0 s1 (upper) each joined with s2 s3 (lower); rank v on switch v / hosts.
 *     dragonfly:3,2,1  groups (s0 s1) (s2 s3) (s4 s5), each fully joined; the cable between groups
 *                      i and j is on router k mod routers of each, where k counts the other groups
 *                      in order: round-robin.
 */
#include "topo/topo_int.h"

#include <assert.h>
/* Joins ranks 0..ranks-1 with switches 0, 1, ..., `per` ranks each. */
static tutti_status add_hosts(struct tt_topo *t, const struct tt_spec *s, uint32_t per,
                              struct tutti_error *err)
{
    struct tt_link l = s->link;
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; r < t->ranks && !st; r++) {
        l.a = r;
        l.b = t->ranks + r / per;
        st = tt_topo_add_link(t, &l, err);
    }
    return st;
}

/* A cable between two switches, counted from the first one. */
static tutti_status gen_switched_join(struct tt_topo *t, const struct tt_spec *s, uint32_t a,
                                      uint32_t b, struct tutti_error *err)
{
    struct tt_link l = s->link;
    l.a = t->ranks + a;
    l.b = t->ranks + b;
    return tt_topo_add_link(t, &l, err);
}

/* Hands t over if st is good, frees it otherwise. */
static tutti_status gen_switched_done(struct tt_topo *t, tutti_status st, struct tt_topo **ret)
{
    if (!st)
        *ret = t;
    else
        tt_topo_free(t);
    return st;
}

/* Routing of stars relies on the order of add_hosts: link r is rank r's. */
tutti_status tt_topo_gen_star(const struct tt_spec *s, struct tt_topo **ret,
                              struct tutti_error *err)
{
    static const uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    uint32_t n;
    struct tt_topo *t;
    tutti_status st = tt_topo_spec_want(s, 1, err);
    if (!st)
        st = tt_topo_spec_count(s, "number of ranks", tt_topo_spec_arg(s, 0), range, &n, err);
    if (!st)
        st = tt_topo_new(s->kind, n, 1, &t, err);
    if (st)
        return st;
    t->routing = TT_ROUTE_STAR;
    return gen_switched_done(t, add_hosts(t, s, n, err), ret);
}

/* ---- fat-tree ---- */

/* The product is compared after every factor, so it cannot overflow. */
bool tt_topo_fattree_make(uint64_t arity, uint64_t levels, struct tt_fattree *ret)
{
    uint64_t ranks = 1, row = 1;
    for (uint64_t l = 0; l < levels && ranks <= TT_TOPO_MAX_RANKS; l++) {
        row = ranks;
        ranks *= arity;
    }
    if (ranks > TT_TOPO_MAX_RANKS || levels > 20)
        return false;
    *ret = (struct tt_fattree){(uint32_t)arity, (uint32_t)levels, (uint32_t)row, (uint32_t)ranks,
                               (uint32_t)(levels * ranks)};
    return true;
}

/* Level 0 are the ranks' cables. Above, link `at` of a level belongs to switch w = at / arity, and
 * j = at % arity is the value that digit level-1 has at its upper end. */
void tt_topo_fattree_ends(const struct tt_fattree *f, uint32_t i, uint32_t *ret_a, uint32_t *ret_b)
{
    uint32_t level = i / f->ranks, at = i % f->ranks;
    if (level == 0) {
        *ret_a = at;
        *ret_b = f->ranks + at / f->arity;
        return;
    }
    uint32_t w = at / f->arity, j = at % f->arity, pow = 1;
    for (uint32_t l = 1; l < level; l++)
        pow *= f->arity;
    uint32_t digit = w / pow % f->arity;
    *ret_a = f->ranks + (level - 1) * f->row + w;
    *ret_b = f->ranks + level * f->row + w - digit * pow + j * pow;
}

/* "1", "2.5": digits with at most one point, at most 15 digits, so that mantissa and scale are
 * exact and only the division rounds. */
static bool parse_decimal(const char *text, double *ret)
{
    uint64_t mantissa = 0, scale = 1;
    size_t digits = 0;
    bool point = false;
    for (const char *p = text; *p; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9' || ++digits > 15)
            return false;
        mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        scale = point ? scale * 10 : scale;
    }
    *ret = (double)mantissa / (double)scale;
    return digits > 0;
}

/* Reads arity, levels and oversubscription and checks the number of ranks. */
static tutti_status fattree_shape(const struct tt_spec *s, struct tt_fattree *f, double *over,
                                  struct tutti_error *err)
{
    static const uint64_t arities[2] = {2, TT_TOPO_MAX_RANKS}, levels[2] = {1, 20};
    uint32_t m, n;
    tutti_status st = tt_topo_spec_want(s, 2, err);
    if (!st)
        st = tt_topo_spec_count(s, "arity", tt_topo_spec_arg(s, 0), arities, &m, err);
    if (!st)
        st = tt_topo_spec_count(s, "number of levels", tt_topo_spec_arg(s, 1), levels, &n, err);
    if (st)
        return st;
    *over = 1;
    if (s->over && (!parse_decimal(s->over, over) || !(*over >= 1 && *over <= 1024)))
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "fattree: over (oversubscription) is \"%.40s\"; allowed are 1 to 1024",
                       s->over);
    if (!tt_topo_fattree_make(m, n, f))
        return tt_fail(err, TUTTI_ERR_LIMIT, "fattree: %u^%u ranks; at most %d are accepted", m, n,
                       TT_TOPO_MAX_RANKS);
    return TUTTI_OK;
}

/* Links are in the order of tt_topo_fattree_ends, which routing checks and computes ids from. */
tutti_status tt_topo_gen_fattree(const struct tt_spec *s, struct tt_topo **ret,
                                 struct tutti_error *err)
{
    struct tt_fattree f = {0};
    struct tt_topo *t;
    double over = 1;
    tutti_status st = fattree_shape(s, &f, &over, err);
    if (!st)
        st = tt_topo_new(s->kind, f.ranks, f.levels * f.row, &t, err);
    if (st)
        return st;
    t->routing = TT_ROUTE_FATTREE;
    for (uint32_t i = 0; i < f.nlinks && !st; i++) {
        struct tt_link l = s->link;
        tt_topo_fattree_ends(&f, i, &l.a, &l.b);
        if (i >= f.ranks) /* only links between switches are oversubscribed */
            l.bw[0] = l.bw[1] = s->bw[0] / over;
        st = tt_topo_add_link(t, &l, err);
    }
    return gen_switched_done(t, st, ret);
}

/* ---- BiGraph ---- */

/* Reads HOSTSxSWITCHES; the switches are the upper and the lower half together. */
static tutti_status bigraph_shape(const struct tt_spec *s, uint32_t *hosts, uint32_t *switches,
                                  struct tutti_error *err)
{
    uint32_t dims[TT_TOPO_MAX_DIMS], n;
    tutti_status st = tt_topo_spec_want(s, 1, err);
    if (!st)
        st = tt_topo_spec_dims(s, tt_topo_spec_arg(s, 0), dims, &n, err);
    if (st)
        return st;
    if (n != 2)
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "bigraph: \"%.40s\" is not HOSTSxSWITCHES, for example bigraph:4x8",
                       tt_topo_spec_arg(s, 0));
    if (dims[1] % 2)
        return tt_fail(
            err, TUTTI_ERR_RANGE,
            "bigraph: number of switches is %u; it must be even (an upper and a lower half)",
            dims[1]);
    *hosts = dims[0];
    *switches = dims[1];
    return tt_topo_spec_limit(s, (uint64_t)dims[0] * dims[1],
                              (uint64_t)dims[0] * dims[1] + (uint64_t)dims[1] * dims[1] / 4, err);
}

/* Link i joins upper switch i / half with lower switch i % half. */
tutti_status tt_topo_gen_bigraph(const struct tt_spec *s, struct tt_topo **ret,
                                 struct tutti_error *err)
{
    uint32_t hosts = 0, switches = 0;
    struct tt_topo *t;
    tutti_status st = bigraph_shape(s, &hosts, &switches, err);
    if (!st)
        st = tt_topo_new(s->kind, hosts * switches, switches, &t, err);
    if (st)
        return st;
    st = add_hosts(t, s, hosts, err);
    for (uint32_t i = 0; i < switches * (switches / 2) / 2 && !st; i++)
        st = gen_switched_join(t, s, i / (switches / 2), switches / 2 + i % (switches / 2), err);
    return gen_switched_done(t, st, ret);
}

/* ---- dragonfly ---- */

/* groups, routers, hosts; limits are checked before anything is allocated. */
static tutti_status dragonfly_shape(const struct tt_spec *s, uint32_t shape[3],
                                    struct tutti_error *err)
{
    static const char *const what[3] = {"number of groups", "number of routers per group",
                                        "number of hosts per router"};
    static const uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    tutti_status st = tt_topo_spec_want(s, 3, err);
    for (size_t i = 0; i < 3 && !st; i++)
        st = tt_topo_spec_count(s, what[i], tt_topo_spec_arg(s, i), range, &shape[i], err);
    if (st)
        return st;
    uint64_t g = shape[0], r = shape[1], h = shape[2];
    if (g * r > TT_TOPO_MAX_RANKS) /* before the third factor: no overflow */
        return tt_topo_spec_limit(s, g * r, 0, err);
    st = tt_topo_spec_limit(s, g * r * h, 0, err);
    return st ? st
              : tt_topo_spec_limit(s, g * r * h,
                                   g * r * h + g * (r * (r - 1) / 2) + g * (g - 1) / 2, err);
}

/* Inside every group all pairs of routers; then one cable for every pair of groups. Seen from group
 * i, group j > i is number j-1 of the others; seen from j, i is number i. */
static tutti_status add_groups(struct tt_topo *t, const struct tt_spec *s, const uint32_t shape[3],
                               struct tutti_error *err)
{
    uint32_t groups = shape[0], routers = shape[1];
    tutti_status st = TUTTI_OK;
    assert(routers > 0);
    for (uint32_t g = 0; g < groups; g++)
        for (uint32_t i = 0; i < routers; i++)
            for (uint32_t j = i + 1; j < routers && !st; j++)
                st = gen_switched_join(t, s, g * routers + i, g * routers + j, err);
    for (uint32_t i = 0; i < groups; i++)
        for (uint32_t j = i + 1; j < groups && !st; j++)
            st = gen_switched_join(t, s, i * routers + (j - 1) % routers, j * routers + i % routers,
                                   err);
    return st;
}

/* Routing is shortest: there is no closed form here. */
tutti_status tt_topo_gen_dragonfly(const struct tt_spec *s, struct tt_topo **ret,
                                   struct tutti_error *err)
{
    uint32_t shape[3];
    struct tt_topo *t;
    tutti_status st = dragonfly_shape(s, shape, err);
    if (!st)
        st = tt_topo_new(s->kind, shape[0] * shape[1] * shape[2], shape[0] * shape[1], &t, err);
    if (st)
        return st;
    st = add_hosts(t, s, shape[2], err);
    if (!st)
        st = add_groups(t, s, shape, err);
    return gen_switched_done(t, st, ret);
}
