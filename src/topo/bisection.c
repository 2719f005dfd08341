/* bisection.c - the fewest cables that join two halves of the ranks.
 *
 * Known networks have known answers (ring, full, star, hypercube; tori and meshes whose largest
 * size is even: a cut across that dimension), and up to 18 ranks without switches all halves are
 * tried. Otherwise balanced cuts are tried in which the sides alternate every b ranks, for every
 * divisor b of half the ranks: halves of the numbering, rows, columns, even and odd. On a DLN of
 * 2^m ranks even against odd is the least of them: of the jumps only 1 joins the two. Any cut that
 * was found is an upper bound on the bisection, and is reported as such. Switches take the side of
 * most of their neighbours. Cables are counted, whatever their speeds.
 *
 *     b = 4   AAAABBBB      b = 2   AABBAABB      b = 1   ABABABAB */
#include "topo/topo_int.h"

#include <stdlib.h>

enum { ALL_HALVES = 18 };
static const uint64_t max_work = UINT64_C(1) << 28; /* cables visited */

/* ---- known answers ---- */

/* A cut across the largest dimension, the least one when its size is even. */
static bool known_grid(const struct tt_topo *t, uint64_t *ret)
{
    uint32_t most = 1;
    for (uint32_t d = 0; d < t->ndims; d++)
        most = t->dims[d] > most ? t->dims[d] : most;
    *ret = (uint64_t)t->ranks / most * (t->wrap && most > 2 ? 2 : 1);
    return most % 2 == 0;
}

/* True: *ret is the exact answer. Stars: the smaller half's own cables. */
static bool known(const struct tt_topo *t, uint64_t *ret)
{
    uint64_t small = t->ranks / 2, large = t->ranks - small;
    *ret = 0;
    if (t->ranks == 1)
        return true;
    if (tt_streq(t->kind, "torus") || tt_streq(t->kind, "mesh") || tt_streq(t->kind, "hypercube"))
        return known_grid(t, ret);
    *ret = tt_streq(t->kind, "ring")   ? (t->ranks > 2 ? 2 : 1)
           : tt_streq(t->kind, "full") ? small * large
                                       : small;
    return tt_streq(t->kind, "ring") || tt_streq(t->kind, "full") || t->routing == TT_ROUTE_STAR;
}

/* Every set of half the ranks: at most 2^18 sets. A count stops once it cannot be the least. */
static uint64_t try_all_halves(const struct tt_topo *t)
{
    uint64_t best = UINT64_MAX;
    int half = (int)(t->ranks / 2);
    for (uint32_t set = 0; set < UINT32_C(1) << t->ranks; set++) {
        uint64_t cut = 0;
        if (__builtin_popcount(set) != half)
            continue;
        for (uint32_t i = 0; i < t->nlinks && cut < best; i++)
            cut += (set >> t->links[i].a & 1) != (set >> t->links[i].b & 1);
        best = cut < best ? cut : best;
    }
    return best;
}

/* ---- cuts that are tried ---- */

/* Cables whose ends are on different sides. */
static uint64_t count_cut(const struct tt_topo *t, const uint8_t *side)
{
    uint64_t cut = 0;
    for (uint32_t i = 0; i < t->nlinks; i++)
        cut += side[t->links[i].a] != side[t->links[i].b];
    return cut;
}

/* Switches near the ranks take sides first: undecided (2) neighbours do not count. Further rounds
 * let switches change sides; they are bounded, since two switches may swap forever. */
static void place_switches(const struct tt_topo *t, uint8_t *side)
{
    for (uint32_t v = t->ranks; v < t->g.n; v++)
        side[v] = 2;
    for (uint32_t round = 0, changed = 1; round < 16 && changed; round++) {
        changed = 0;
        for (uint32_t v = t->ranks; v < t->g.n; v++) {
            uint32_t votes[3] = {0};
            for (uint32_t k = t->g.start[v]; k < t->g.start[v + 1]; k++)
                votes[side[t->g.head[k]]]++;
            if (votes[0] == votes[1])
                continue;
            uint8_t want = votes[1] > votes[0];
            changed += want != side[v];
            side[v] = want;
        }
    }
    for (uint32_t v = t->ranks; v < t->g.n; v++)
        side[v] = side[v] == 2 ? 0 : side[v];
}

/* The cut whose sides alternate every `turn` ranks. */
static uint64_t try_turns(const struct tt_topo *t, uint32_t turn, uint8_t *side)
{
    for (uint32_t r = 0; r < t->ranks; r++)
        side[r] = r / turn % 2;
    place_switches(t, side);
    return count_cut(t, side);
}

/* The halves of the numbering first; with an odd number of ranks nothing else, since turns of equal
 * length cannot split it. */
static uint64_t bisection_search(const struct tt_topo *t, uint8_t *side)
{
    uint32_t half = t->ranks / 2;
    uint64_t best = UINT64_MAX, work = 0;
    for (uint32_t r = 0; r < t->ranks; r++)
        side[r] = r >= half;
    place_switches(t, side);
    best = count_cut(t, side);
    for (uint32_t turn = half / 2; t->ranks % 2 == 0 && turn >= 1 && work < max_work; turn--) {
        if (half % turn)
            continue;
        uint64_t cut = try_turns(t, turn, side);
        best = cut < best ? cut : best;
        work += t->nlinks;
    }
    return best;
}

/* *ret_exact is false where only some cuts were tried. */
tutti_status tt_topo_bisection(const struct tt_topo *t, uint64_t *ret_links, bool *ret_exact,
                               struct tutti_error *err)
{
    *ret_exact = known(t, ret_links);
    if (*ret_exact)
        return TUTTI_OK;
    if (t->ranks <= ALL_HALVES && t->switches == 0) {
        *ret_links = try_all_halves(t);
        *ret_exact = true;
        return TUTTI_OK;
    }
    uint8_t *side = tt_zalloc(t->g.n, 1);
    if (!side)
        return tt_fail_memory(err, "bisection");
    *ret_links = bisection_search(t, side);
    free(side);
    return TUTTI_OK;
}
