/* multitree.h - the trees of MultiTree: one per rank, grown together over a network, step by step.
 * Internal to src/algo.
 *
 * An edge hands chunk `tree` from `parent` to `child` in step `step`, over links that no other edge
 * of the step uses beyond their slots. Edges are in the order they were made, so steps never
 * decrease. Everything is deterministic: equal topologies (by hash) and options give equal trees on
 * every machine. */
#ifndef TT_MULTITREE_H
#define TT_MULTITREE_H

#include "algo/algo.h"

/* More ranks have more pairs than a schedule can hold: 16.7 million edges make 67 million
 * operations. */
enum { TT_MULTITREE_RANKS = 4096 };

struct tt_multitree_options {
    /* a step ends as in the published code: when the last root in turn finds nothing */
    bool paper_ending;
    /* roots take turns as in the published code with its mesh distance, not by number */
    bool paper_order;
    /* for the reversed trees of a reduce-scatter: a link has the speed of its other direction */
    bool inward;
};

struct tt_multitree_edge {
    uint32_t tree, parent, child, step;
    uint32_t path; /* its first directed link in links[]; the next edge's path ends it */
};

struct tt_multitree_trees {
    uint32_t ranks, steps, nedges;
    struct tt_multitree_edge *edges; /* nedges + 1: the last has only `path` */
    uint32_t *links;                 /* directed link ids, parent to child */
};

/* Grows the trees on the best of some step lengths (tt_multitree_bases); *ret is the caller's. */
tutti_status tt_multitree_make(const struct tt_topo *t, const struct tt_multitree_options *o,
                               struct tt_multitree_trees *ret, struct tutti_error *err);
void tt_multitree_free(struct tt_multitree_trees *f); /* accepts an empty one */
/* Do both directions have the same trees: is every link equally fast both ways? */
bool tt_multitree_symmetric(const struct tt_topo *t);

/* ---- bytes.c: trees as bytes, for callers that keep them ---- */
/* All that the trees depend on, as a memo's name. */
void tt_multitree_name(const struct tt_topo *t, const struct tt_multitree_options *o, char *buf,
                       size_t cap);
/* Are these trees slower to grow than a file is to read? */
bool tt_multitree_worth_keeping(const struct tt_topo *t);
bool tt_multitree_encode(const struct tt_topo *t, const struct tt_multitree_options *o,
                         const struct tt_multitree_trees *f, struct tt_vec *ret);
/* True, and *ret, when the bytes are whole trees of this network. */
bool tt_multitree_decode(const struct tt_topo *t, const struct tt_multitree_options *o,
                         const struct tt_vec *bytes, struct tt_multitree_trees *ret);
/* The trees that the memo knows, else grown ones; a memo with a name gets those as `found`. */
tutti_status tt_multitree_get(const struct tt_topo *t, const struct tt_multitree_options *o,
                              struct tt_algo_memo *m, struct tt_multitree_trees *ret,
                              struct tutti_error *err);

/* ---- net.c: the capacity of a network in one step ---- */

/* Slots: how many messages of the step's length a link can carry in one step; 0: too slow to be
 * used. A step lasts as long as one message on a link of `base` bytes/s. Neighbours of a vertex are
 * in the order in which they are tried. */
struct tt_multitree_net {
    const struct tt_topo *t;
    uint32_t ranks, vertices, words; /* words: of a bit set of ranks */
    uint32_t *start, *head, *link;   /* start[v] .. start[v+1]-1: neighbour and directed link */
    uint32_t *slot;                  /* the same link's place in slots[] */
    /* start[v] .. inner[v]-1 lead to ranks, the others to switches */
    uint32_t *inner;
    /* per directed link; of a half-duplex cable the even one counts for both */
    uint32_t *slots;
    uint32_t *inject, *eject; /* per rank: messages of a step */
    uint64_t *hosts;          /* wide vertices: bit set of neighbouring ranks, words each */
    /* which bit set; UINT32_MAX: none, neighbours are tried in their own order */
    uint32_t *wide;
    /* neighbours of switches from the first on, as published; else from the sender on */
    bool rank_order;
    /* a step first reaches for new switches, then for the own ones, then for any; else any at
     * once */
    bool once;
};
/* The speeds that a step may be measured by, at most TT_MULTITREE_BASES, falling; at least the
 * slowest is among them. */
enum { TT_MULTITREE_BASES = 6 };
size_t tt_multitree_bases(const struct tt_topo *t, double ret[TT_MULTITREE_BASES]);
tutti_status tt_multitree_net_make(const struct tt_topo *t, const struct tt_multitree_options *o,
                                   double base, struct tt_multitree_net *ret,
                                   struct tutti_error *err);
void tt_multitree_net_free(struct tt_multitree_net *n);
/* The index of a directed link's slots. */
uint32_t tt_multitree_slot(const struct tt_topo *t, uint32_t link);

/* ---- grow.c ---- */

/* The trees on this network. *ret_stuck: some rank cannot be reached by links that have slots; then
 * there are none, and no error. */
tutti_status tt_multitree_grow(const struct tt_multitree_net *n,
                               const struct tt_multitree_options *o, struct tt_multitree_trees *ret,
                               bool *ret_stuck, struct tutti_error *err);

/* ---- search.c: the next edge of one tree ---- */

/* On which switches a child may be: those that have no member yet; the sender's own; any. */
enum tt_multitree_reach { TT_MULTITREE_NEW, TT_MULTITREE_OWN, TT_MULTITREE_ANY };

/* What is left of the step's slots, and the members of every tree. */
struct tt_multitree_step {
    const struct tt_multitree_net *n;
    uint32_t number;
    enum tt_multitree_reach reach;
    uint32_t *slots, *inject, *eject;
    uint32_t senders;  /* ranks that may still send */
    uint64_t *may_get; /* bit set of ranks that may still receive */
    uint64_t *may_put; /* bit set of ranks that may still send */
    uint64_t *members; /* per tree a bit set of ranks */
    /* per tree and switch: `era` when its ranks have nothing more to offer, era + 1: nor has
     * anything beyond it */
    uint32_t *spent;
    uint32_t era;                        /* 2, 4, ...: changes when more is allowed than before */
    uint32_t *queue, *via, *seen, stamp; /* of a search */
    uint32_t *path, npath;               /* the edge found: its links */
    /* nothing was found and nothing ever will be: all neighbours of the parent are members */
    bool surrounded;
};
tutti_status tt_multitree_step_open(const struct tt_multitree_net *n, struct tt_multitree_step *ret,
                                    struct tutti_error *err);
void tt_multitree_step_close(struct tt_multitree_step *s);
/* `used`: the links of the step before, whose slots are free again. */
void tt_multitree_step_begin(struct tt_multitree_step *s, uint32_t number, const uint32_t *used,
                             size_t nused);
/* The next reach, as far as slots are left. */
void tt_multitree_step_widen(struct tt_multitree_step *s);
static inline bool tt_multitree_has(const struct tt_multitree_step *s, uint32_t tree, uint32_t rank)
{
    return s->members[(size_t)tree * s->n->words + rank / 64] >> (rank % 64) & 1;
}
/* The rank to which `parent` can hand the chunk of `tree` now, by s->path; UINT32_MAX: none in this
 * step (s->surrounded: never again). */
uint32_t tt_multitree_find(struct tt_multitree_step *s, uint32_t tree, uint32_t parent);
/* Uses the slots of the edge that was found, and makes `child` a member. */
void tt_multitree_take(struct tt_multitree_step *s, uint32_t tree, uint32_t parent, uint32_t child);
#endif
