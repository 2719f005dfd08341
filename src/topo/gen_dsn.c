/* gen_dsn.c - a network in the manner of the distributed shortcut networks (DSN): a ring and one
 * shortcut per vertex, constant degree.
 *
 * The full DLN gives every vertex all of the log2 N shortcuts; here p = ceil(log2 N) neighbours on
 * the ring share them, one each: vertex i has level l = i mod p + 1, and for l < p a shortcut to
 * the nearest vertex at or beyond i + ceil(N/2^l) (around the ring) whose level is l+1. Walking p
 * steps along the ring finds every length. Degree: 2 for the ring, 1 for the own shortcut, and the
 * shortcuts that end here: at most 2, except where the levels are cut short at the end of the ring.
 *
 *     dsn:8, p = 3    vertex  0  1  2  3  4  5  6  7
 *                     level   1  2  3  1  2  3  1  2
 *     shortcuts: 0 (level 1, at least 4) -> 4;  1 (level 2, at least 2) -> 5;  3 -> 7;
 *                4 -> 2 (6 is level 1); ...
 *
 * This is an approximation: the definition follows the idea of the paper (ICPP 2013), not its text,
 * and its custom routing is replaced by routes of fewest links. A shortcut that would repeat a
 * cable (also of the ring) is left out. */
#include "topo/topo_int.h"

static uint32_t level_of(uint32_t i, uint32_t p)
{
    return i % p + 1;
}

/* The vertex where i's shortcut ends; i itself when it has none. */
static uint32_t shortcut(uint32_t n, uint32_t p, uint32_t i)
{
    uint32_t l = level_of(i, p);
    if (l >= p)
        return i;
    uint64_t pow2 = UINT64_C(1) << l, length = (n + pow2 - 1) / pow2;
    /* Levels repeat every p vertices; at the end of the ring one run is cut short, hence 2p. */
    for (uint32_t k = 0; k < 2 * p; k++) {
        uint32_t j = (uint32_t)((i + length + k) % n);
        if (level_of(j, p) == l + 1)
            return j;
    }
    return i;
}

/* Is i - j a cable already: on the ring, or as j's own shortcut, made earlier? */
static bool is_known(uint32_t n, uint32_t p, uint32_t i, uint32_t j)
{
    uint32_t apart = i > j ? i - j : j - i;
    return apart <= 1 || apart == n - 1 || (j < i && shortcut(n, p, j) == i);
}

tutti_status tt_topo_gen_dsn(const struct tt_spec *s, struct tt_topo **ret, struct tutti_error *err)
{
    static const uint64_t range[2] = {1, TT_TOPO_MAX_RANKS};
    uint32_t n = 0;
    tutti_status st = tt_topo_spec_want(s, 1, err);
    if (!st)
        st = tt_topo_spec_count(s, "number of ranks", tt_topo_spec_arg(s, 0), range, &n, err);
    if (!st)
        st = tt_topo_new(s->kind, n, 0, ret, err);
    if (st)
        return st;
    uint32_t p = tt_ceil_log2(n), cables = n == 2 ? 1 : n > 2 ? n : 0;
    struct tt_link l = s->link;
    for (uint32_t i = 0; i < cables && !st; i++) {
        l.a = i;
        l.b = (i + 1) % n;
        st = tt_topo_add_link(*ret, &l, err);
    }
    /* Up to three ranks the ring already joins every pair. */
    for (uint32_t i = 0; n > 3 && i < n && !st; i++) {
        l.a = i;
        l.b = shortcut(n, p, i);
        if (!is_known(n, p, l.a, l.b))
            st = tt_topo_add_link(*ret, &l, err);
    }
    if (st)
        tt_topo_free(*ret);
    return st;
}
