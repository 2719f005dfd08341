/* kinds.c - the table of network kinds. A new kind is a generator (gen_*.c) and a line here.
 *
 * A file may claim a kind too. The claim is checked against the links after the topology is
 * finished, because algorithms and bounds rely on the kind: a file cannot pass off any network as a
 * torus. The checks read the jumps that routing found along each axis (route_loop.c):
 *
 *     ring  1      full  1 2 .. n/2      dln  1 and ceil(n/2^k)      torus  1 along every axis */
#include "topo/topo_int.h"

#include <string.h>

/* name, form, example, description, keys, generator */
#define KINDS(X)                                                                                  \
    X("star", "star:N", "star:8@1Gbps,50us", "N ranks on one switch", "", tt_topo_gen_star)       \
    X("ring", "ring:N", "ring:16", "N ranks in a ring", "", tt_topo_gen_ring)                     \
    X("full", "full:N", "full:8", "a cable between every two of N ranks", "", tt_topo_gen_full)   \
    X("torus", "torus:AxBx...", "torus:8x8@16GB/s,150ns",                                         \
      "grid with wrap-around, any number of dimensions; a size of 2 is one cable", "",            \
      tt_topo_gen_torus)                                                                          \
    X("mesh", "mesh:AxBx...", "mesh:4x4", "grid without wrap-around", "", tt_topo_gen_mesh)       \
    X("hypercube", "hypercube:N", "hypercube:64",                                                 \
      "N = 2^k ranks, cables between numbers that differ in one bit", "", tt_topo_gen_hypercube)  \
    X("fattree", "fattree:ARITY,LEVELS[,over=F]", "fattree:8,2",                                  \
      "ARITY^LEVELS ranks under LEVELS levels of switches; over: links between switches have "    \
      "bandwidth/F",                                                                              \
      "over", tt_topo_gen_fattree)                                                                \
    X("bigraph", "bigraph:HOSTSxSWITCHES", "bigraph:4x8",                                         \
      "two halves of switches, every upper one joined with every lower one", "",                  \
      tt_topo_gen_bigraph)                                                                        \
    X("dln", "dln:N[,t=T][,h=H]", "dln:1024,t=3",                                                 \
      "distributed loop network: ring plus T levels of shortcuts of ceil(N/2), ceil(N/4), ... "   \
      "(all without t); h: H hosts on a switch "                                                  \
      "per position",                                                                             \
      "t h", tt_topo_gen_dln)                                                                     \
    X("dln2d", "dln2d:XxY[,t=T]", "dln2d:32x32,t=2",                                              \
      "a distributed loop network along each of two dimensions", "t", tt_topo_gen_dln2d)          \
    X("dsn", "dsn:N", "dsn:1024",                                                                 \
      "ring plus one shortcut per vertex, lengths N/2, N/4, ... taken in turn: an approximation " \
      "of distributed shortcut networks",                                                         \
      "", tt_topo_gen_dsn)                                                                        \
    X("tree", "tree:(GROUP GROUP...)", "tree:((4 4)(4 2))@100Gbps/25Gbps/10Gbps",                 \
      "hierarchy: a number is a switch with that many ranks; bandwidths from the ranks upwards, " \
      "GROUP:RATE sets one uplink, NxRATE is N "                                                  \
      "ranks of that rate on the switch around them: tree:((6x25G 2x10G):40G 8)",                 \
      "", tt_topo_gen_tree)                                                                       \
    X("nics", "nics:RATE,NxRATE,...", "nics:10G,10G,10G,2.5G",                                    \
      "a rank per rate (NxRATE: N ranks) on one switch", "", tt_topo_gen_nics)                    \
    X("dragonfly", "dragonfly:GROUPS,ROUTERS,HOSTS", "dragonfly:9,4,2",                           \
      "groups of fully joined routers with HOSTS ranks each, one cable between every two groups", \
      "", tt_topo_gen_dragonfly)

/* Two tables from one list: what help prints, and what only this module uses. */
#define KIND_PUBLIC(name, form, example, desc, keys, make) {name, form, example, desc},
#define KIND_MAKER(name, form, example, desc, keys, make)  {keys, make},
static const struct tt_topo_kind kinds[] = {KINDS(KIND_PUBLIC)};
static const struct tt_maker makers[] = {KINDS(KIND_MAKER)};

const struct tt_topo_kind *tt_topo_kinds(size_t *ret_n)
{
    if (ret_n)
        *ret_n = countof(kinds);
    return kinds;
}

int tt_topo_kind_find(const char *name)
{
    for (size_t i = 0; i < countof(kinds); i++)
        if (tt_streq(kinds[i].name, name))
            return (int)i;
    return -1;
}

const struct tt_maker *tt_topo_kind_maker(int kind)
{
    return &makers[kind];
}

/* Empty when no kind is spelled alike. */
char *tt_topo_kind_near(const char *name, char *buf, size_t cap)
{
    const char *names[countof(kinds)];
    for (size_t i = 0; i < countof(kinds); i++)
        names[i] = kinds[i].name;
    return tt_near_matches(name, names, countof(kinds), buf, cap);
}

/* ---- does a file have the links of the kind it claims? ---- */

/* The cables of the loop are exactly those of the given jumps. */
static bool has_jumps(const struct tt_loop *l, const uint32_t *jumps, uint32_t n)
{
    return l->njumps == n && (n == 0 || memcmp(l->jump, jumps, n * sizeof *jumps) == 0);
}

/* A loop of one vertex has no cable. */
static bool is_ring(const struct tt_loop *l)
{
    uint32_t one = 1;
    return has_jumps(l, &one, l->axis.n > 1);
}

/* Every jump from 1 to n/2: a cable between any two vertices. */
static bool is_full(const struct tt_loop *l)
{
    if (l->njumps != l->axis.n / 2)
        return false;
    for (uint32_t k = 0; k < l->njumps; k++)
        if (l->jump[k] != k + 1)
            return false;
    return true;
}

/* Is every loop DLN(n, t) for one t? Loops that are too short for t levels have all levels. */
static bool is_dln(const struct tt_topo *t)
{
    for (uint32_t levels = 0; levels < 32; levels++) {
        bool fits = true;
        for (uint32_t d = 0; d < t->routes->nloops && fits; d++) {
            uint32_t jumps[33], n = tt_topo_dln_jumps(t->routes->loop[d].axis.n, levels, jumps);
            fits = has_jumps(&t->routes->loop[d], jumps, n);
        }
        if (fits)
            return true;
    }
    return false;
}

/* A grid whose every axis is a plain ring (or line, without wrap). */
static bool all_rings(const struct tt_topo *t, bool wrap)
{
    if (t->routing != TT_ROUTE_GRID || t->wrap != wrap)
        return false;
    for (uint32_t d = 0; d < t->routes->nloops; d++)
        if (!is_ring(&t->routes->loop[d]))
            return false;
    return true;
}

/* A torus of size 2 along every dimension; one rank alone has the single dimension 1. */
static bool is_hypercube(const struct tt_topo *t)
{
    for (uint32_t d = 0; d < t->ndims; d++)
        if (t->dims[d] != 2 && t->ranks > 1)
            return false;
    return all_rings(t, true);
}

/* Kinds that promise nothing about their links (bigraph, dsn, dragonfly) are always accepted. */
static bool has_links_of(const struct tt_topo *t, const char *kind)
{
    bool circulant = t->routing == TT_ROUTE_CIRCULANT;
    if (tt_streq(kind, "ring"))
        return circulant && t->switches == 0 && is_ring(&t->routes->loop[0]);
    if (tt_streq(kind, "full"))
        return circulant && t->switches == 0 && is_full(&t->routes->loop[0]);
    if (tt_streq(kind, "dln"))
        return circulant && is_dln(t);
    if (tt_streq(kind, "dln2d"))
        return t->routing == TT_ROUTE_GRID && t->ndims == 2 && t->wrap && is_dln(t);
    if (tt_streq(kind, "torus") || tt_streq(kind, "mesh"))
        return all_rings(t, tt_streq(kind, "torus"));
    if (tt_streq(kind, "hypercube"))
        return is_hypercube(t);
    if (tt_streq(kind, "star") || tt_streq(kind, "nics"))
        return t->routing == TT_ROUTE_STAR;
    if (tt_streq(kind, "fattree"))
        return t->routing == TT_ROUTE_FATTREE;
    return !tt_streq(kind, "tree") || t->tree;
}

tutti_status tt_topo_kind_check(const struct tt_topo *t, struct tutti_error *err)
{
    if (has_links_of(t, t->kind))
        return TUTTI_OK;
    return tt_fail(
        err, TUTTI_ERR_MISMATCH,
        "this is no %s: its \"routing\", \"dims\", \"tree\" or links are not those of that kind",
        t->kind);
}

const char *tt_topo_words(const struct tt_topo *t)
{
    return tt_streq(t->kind, "custom") ? "a network without a named form" : t->kind;
}
