/* bound_int.h - what the files of bound/ share: the question, what must be moved to answer it,
 * and one function per kind of bound. */
#ifndef TT_BOUND_INT_H
#define TT_BOUND_INT_H

#include "bound/bound.h"

/* The prepared question. Capacities are whole multiples of 2^shift bytes/s, rounded up, so that
 * every bound stays a bound. */
struct tt_ask {
    const struct tt_topo *t;
    tutti_coll coll;
    uint32_t p, root;
    uint64_t bytes;
    uint64_t *cap;  /* per directed link: 2 i from a to b, 2 i + 1 back; owned by tt_bound_make */
    unsigned shift; /* 0 unless all capacities together exceed 2^59 bytes/s */
    bool half;      /* some link is half duplex */
    bool even;      /* every link has the same speed in both directions */
};

/* A time as bytes over capacity (in units of 2^shift bytes/s); compared exactly. */
struct tt_ratio {
    uint64_t bytes, cap;
};
static inline bool tt_ratio_more(struct tt_ratio a, struct tt_ratio b)
{
    return (unsigned __int128)a.bytes * b.cap > (unsigned __int128)b.bytes * a.cap;
}
/* The ratio in picoseconds, rounded down; fails if it exceeds 64 bits. */
tutti_status tt_bound_ratio_time(const struct tt_ask *q, struct tt_ratio r, uint64_t *ret_ps,
                                 struct tutti_error *err);
double tt_bound_ratio_capacity(const struct tt_ask *q, struct tt_ratio r); /* bytes/s */
/* Converts a rate to capacity units, rounded up. */
uint64_t tt_bound_cap(const struct tt_ask *q, double bytes_per_s);

/* ---- need.c: bytes that every schedule must move ---- */
/* nothing to do: one rank, or no data and no barrier */
bool tt_bound_need_nothing(const struct tt_ask *q);
/* every rank's block has at least one element */
bool tt_bound_need_all_blocks(const struct tt_ask *q);
/* the collective has a root */
bool tt_bound_need_root(const struct tt_ask *q);
/* bytes that must leave a set of this many ranks, 0 < ranks < p */
uint64_t tt_bound_need_cross(const struct tt_ask *q, uint32_t ranks, bool with_root);
/* bytes that must leave all ranks together */
uint64_t tt_bound_need_total(const struct tt_ask *q);

/* some rank needs data of all ranks, or all ranks need data of one */
bool tt_bound_need_spreads(const struct tt_ask *q);

/* rounds.c: the least latency between two different ranks; 0: they are not joined */
tutti_status tt_bound_least_latency(const struct tt_topo *t, uint64_t *ret_ps,
                                    struct tutti_error *err);

/* ---- one function per kind; b is zeroed but for kind and complete, and owns its side and part
 * ---- */
tutti_status tt_bound_latency(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err);
tutti_status tt_bound_rounds(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err);
tutti_status tt_bound_volume(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err);
tutti_status tt_bound_cut(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err);
tutti_status tt_bound_partition(const struct tt_ask *q, struct tt_bound *b,
                                struct tutti_error *err);
tutti_status tt_bound_reduction(const struct tt_ask *q, struct tt_bound *b,
                                struct tutti_error *err);
tutti_status tt_bound_overhead(const struct tt_ask *q, struct tt_bound *b, struct tutti_error *err);

/* ---- cut.c and flow.c ---- */

/* Capacities across a cut: out of the set, into it, and of half-duplex links; and the ranks
 * inside. */
struct tt_cut_sum {
    uint64_t out, in, half;
    uint32_t ranks;
    bool with_root;
};
/* The best cut so far; `ratio` is {0, 1} while there is none. */
struct tt_cut {
    struct tt_ratio ratio;
    bool both;
    uint8_t *side; /* 1: the bytes leave this vertex */
    uint32_t ranks;
};
/* What the cut proves and in which form: out of the set (0), into it (1), both together (2).
 * *ret_form is set only if it proves anything. */
struct tt_ratio tt_bound_cut_score(const struct tt_ask *q, const struct tt_cut_sum *s,
                                   int *ret_form);
/* Sums up the cut around the vertices with side 1. */
struct tt_cut_sum tt_bound_cut_measure(const struct tt_ask *q, const uint8_t *side);
/* Keeps a copy of the cut if it proves more than the best so far. */
void tt_bound_cut_offer(const struct tt_ask *q, struct tt_cut *best, const uint8_t *side);
/* Does the network look the same from every rank, with at most one link between two ranks and
 * one speed for all links? */
bool tt_bound_cut_transitive(const struct tt_ask *q);
/* The flow network of a topology: its links in both directions, a source (vertex n = ranks +
 * switches) with an arc to each rank, and a sink (n + 1) with an arc from each. */
tutti_status tt_bound_flow_make(const struct tt_topo *t, struct tt_maxflow **ret,
                                struct tutti_error *err);
/* Offers cuts found by maximum flow; *ret_complete: no cut proves more. */
tutti_status tt_bound_cut_by_flow(const struct tt_ask *q, struct tt_cut *best, bool *ret_complete,
                                  struct tutti_error *err);

/* ---- words.c: the certificates ---- */
void tt_bound_words_latency(const struct tt_ask *q, struct tt_bound *b, bool some_rank,
                            bool halved);
void tt_bound_words_rounds(const struct tt_ask *q, struct tt_bound *b);
void tt_bound_words_volume(const struct tt_ask *q, struct tt_bound *b, const char *verb);
void tt_bound_words_cut(const struct tt_ask *q, struct tt_bound *b);
void tt_bound_words_partition(const struct tt_ask *q, struct tt_bound *b);
void tt_bound_words_reduction(const struct tt_ask *q, struct tt_bound *b);
void tt_bound_words_overhead(const struct tt_ask *q, struct tt_bound *b);
#endif
