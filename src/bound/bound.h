/* bound.h - lower bounds on the time of a collective on a topology, each with a certificate that
 * a person can check.
 *
 * No schedule without reduction inside switches can be faster than any of them. */
#ifndef TT_BOUND_H
#define TT_BOUND_H

#include "base/base.h"
#include "topo/topo.h"

#define TT_BOUND_LIST(X)  \
    X(LATENCY, "latency") \
    X(ROUNDS, "rounds")   \
    X(VOLUME, "volume")   \
    X(CUT, "cut") X(PARTITION, "partition") X(REDUCTION, "reduction") X(OVERHEAD, "overhead")
enum tt_bound_kind {
#define TT_BOUND_ENUM(id, name) TT_BOUND_##id,
    TT_BOUND_LIST(TT_BOUND_ENUM)
#undef TT_BOUND_ENUM
        TT_BOUND_KINDS
};
const char *tt_bound_name(enum tt_bound_kind k);

/* One bound and the facts that prove it: all numbers needed to repeat the arithmetic. */
struct tt_bound {
    enum tt_bound_kind kind;
    bool applies;     /* false: proves nothing for this collective or topology (time_ps 0) */
    uint64_t time_ps; /* rounded down */
    /* CUT, PARTITION: all of them were considered; LATENCY: all pairs. false: still a valid
     * bound, but perhaps not the best of its kind */
    bool complete;
    /* LATENCY: the pair of ranks; VOLUME: the one rank whose ports limit it (UINT32_MAX: all
     * ranks together) */
    uint32_t from, to;
    uint32_t rounds, ports; /* ROUNDS: how many, and the declared ports per rank */
    /* ROUNDS: the least latency of one round; OVERHEAD: that between two ranks */
    uint64_t round_ps;
    /* VOLUME: bytes that must leave (or enter) the ranks; CUT: bytes that must cross; REDUCTION:
     * bytes of additions, of which `from` ranks can do less than they could sum, since they take
     * in too little */
    double bytes;
    /* VOLUME: sum of egress (ingress); CUT: capacity of the cut in the limiting direction,
     * bytes/s, links rounded up */
    double capacity;
    /* CUT, VOLUME, PARTITION: bytes and capacity count both directions together (half-duplex
     * links once) */
    bool both;
    /* CUT: side[v] = 1 for the vertices that the bytes leave; ranks + switches entries, owned */
    uint8_t *side;
    uint32_t side_ranks; /* CUT: ranks with side 1 */
    /* PARTITION: the number of parts; `bytes` pass between them, `capacity` is that of all links
     * out of and into parts */
    uint32_t parts;
    /* PARTITION: the part of each vertex, from 0 (UINT32_MAX: a switch in no part); ranks +
     * switches entries, owned */
    uint32_t *part;
    /* PARTITION: tree packings reach the bound in the limit of small segments (Tutte,
     * Nash-Williams) */
    bool tight;
    char text[400]; /* the certificate in words */
};

struct tt_bounds {
    struct tt_bound item[TT_BOUND_KINDS]; /* indexed by kind */
    enum tt_bound_kind best;
    uint64_t time_ps; /* time of the best */
};

/* Computes all bounds for the collective on `bytes` (the whole vector) and, where rooted,
 * `root`. Reduce-scatter, all-gather, gather and scatter assume equal blocks. The caller frees
 * *ret with tt_bound_free, which accepts NULL. */
tutti_status tt_bound_make(const struct tt_topo *t, tutti_coll coll, uint32_t root, uint64_t bytes,
                           struct tt_bounds *ret, struct tutti_error *err);
void tt_bound_free(struct tt_bounds *b);
#endif
