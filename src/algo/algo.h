/* algo.h - algorithms: pure functions from (problem, topology, options) to a schedule, or a refusal
 * with its reason.
 *
 * One file per algorithm, one line in the table (table.c). An algorithm with a closed form lists
 * any single rank's operations by itself (`slice`, time proportional to that rank's own operations,
 * no topology-wide work); a synthesised one builds all ranks at once (`build`). Never both. */
#ifndef TT_ALGO_H
#define TT_ALGO_H

#include "base/base.h"
#include "sched/sched.h"
#include "topo/topo.h"

struct tt_problem {
    tutti_coll coll;
    uint32_t ranks, root;
    uint64_t count; /* elements of the whole vector */
    tutti_dtype dtype;
    tutti_redop redop; /* or TT_REDOP_USER */
    bool ordered;      /* the reduction does not commute: combine contributions in rank order */
};
/* Must one operation combine all contributions of an element, in rank order? So for reductions that
 * do not commute, and for averages of integers, whose partial sums would wrap. */
bool tt_algo_problem_ordered(const struct tt_problem *p);

enum { TT_MAX_OPTIONS = 8 };
struct tt_option_value {
    char key[24], value[40];
};
struct tt_options {
    size_t n;
    struct tt_option_value item[TT_MAX_OPTIONS];
};

struct tt_algo_args {
    struct tt_problem problem;
    /* may be NULL unless the algorithm's `needs_topo` is set; then ranks equal the problem's */
    const struct tt_topo *topo;
    struct tt_options options;
};

/* One option an algorithm understands: `values` is "a|b|c" (first is the default) or "N" for a
 * whole number, with min and max. A last entry that ends in ".." ("auto|AxB..") stands for any
 * text; the algorithm's probe judges it. */
struct tt_algo_option {
    const char *key, *values, *desc;
    uint64_t min, max; /* for "N" */
};

/* What a synthesiser knows of its own schedule, in the limit of many segments. */
struct tt_algo_report {
    double rate;      /* bytes of the vector per second; 0: not known */
    double dual_rate; /* no schedule of its kind has more; 0: not known */
};

/* A slow search result as bytes from which a later build can start. The bytes are never trusted:
 * damaged ones, or those of another version, are ignored. */
struct tt_algo_memo {
    /* 16 hexadecimal digits, '-' and a number: all that the bytes depend on; "": not wanted */
    char name[24];
    struct tt_vec known, found; /* bytes: given to build; given by it when it had to search */
};

/* Input and output of a synthesis besides the schedule. All zero: nothing known, nothing wanted. */
enum { TT_ALGO_MEMOS = 2 };
struct tt_synthesis {
    struct tt_algo_memo memo[TT_ALGO_MEMOS];
    struct tt_algo_report report;
};

struct tt_algo {
    const char *name;
    const char *desc;  /* one line, printed by `tutti algos` */
    const char *needs; /* what it demands: "any number of ranks", "a torus or mesh", ... */
    /* kinds of networks it was made for, "dln dln2d"; NULL: none in particular. There it is priced
     * first */
    const char *home;
    unsigned colls; /* bit set of 1u << tutti_coll */
    bool needs_topo;
    /* works without a topology, but uses one where it is given */
    bool uses_topo;
    /* computes chunk weights in floating point: one rank does that for all */
    bool weighs;
    bool pipelined;  /* gains from segments: the planner searches K */
    bool rank_order; /* sums in rank order: qualifies for `reproducible` */
    /* ended by key NULL; may be NULL. segments=K is understood for all and not listed here */
    const struct tt_algo_option *options;
    /* With these options it runs in one segment: the planner does not search for a better number.
     * NULL: never. */
    bool (*one_segment)(const struct tt_algo_args *a);
    /* TUTTI_OK, or TUTTI_ERR_REFUSED with the reason. Options are already checked against
     * `options`. May be NULL: accepts everything. */
    tutti_status (*probe)(const struct tt_algo_args *a, struct tutti_error *why);
    /* Chunks, weights, owners, buffers, flags. The caller has filled coll, ranks, root, segments,
     * algo, options, count, dtype, redop; inplace = true. */
    tutti_status (*shape)(const struct tt_algo_args *a, struct tt_shape *s,
                          struct tutti_error *err);
    /* b->shape is the shape */
    void (*slice)(const struct tt_algo_args *a, uint32_t rank, struct tt_builder *b);
    /* All ranks, in order. May refine b->shape before it lists anything: fewer chunks than the
     * shape announced, weights, buffers. */
    void (*build)(const struct tt_algo_args *a, struct tt_synthesis *y, struct tt_builder *b);
    /* The result of `build` does not depend on count, dtype, redop or segments=K: one schedule
     * serves all of them. */
    bool any_size;
    /* Names the memos of such a build; NULL: it has none. */
    void (*memos)(const struct tt_algo_args *a, struct tt_synthesis *y);
    /* Operations of one rank, roughly (for budgets); NULL: slice of rank 0 is counted. */
    uint64_t (*estimate_ops)(const struct tt_algo_args *a);
};

const struct tt_algo *const *tt_algo_table(size_t *ret_n);
const struct tt_algo *tt_algo_find(const char *name); /* NULL when unknown */
/* A hash of everything in which another build may differ: name, collectives, options and their
 * values. */
uint64_t tt_algo_hash(const struct tt_algo *al);
/* "no algorithm 'rnig'; did you mean ring?" as an error. */
tutti_status tt_algo_unknown(const char *name, struct tutti_error *err);

/* Options: parse "k=v" into o; check against the algorithm's list (and segments=K); look up with
 * defaults. */
tutti_status tt_algo_options_add(struct tt_options *o, const char *key_value,
                                 struct tutti_error *err);
tutti_status tt_algo_options_check(const struct tt_algo *al, const struct tt_options *o,
                                   struct tutti_error *err);
/* The value, or the default; the default's text is valid until the thread's next call. */
const char *tt_algo_option_text(const struct tt_algo *al, const struct tt_options *o,
                                const char *key);
uint64_t tt_algo_option_number(const struct tt_algo *al, const struct tt_options *o,
                               const char *key, uint64_t dflt);
/* sorted "k=v,k=v" */
void tt_algo_options_format(const struct tt_options *o, char *buf, size_t cap);

/* Can al solve the problem? Collective offered, root in range, options known, topology fits, then
 * its own probe. */
tutti_status tt_algo_probe(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tutti_error *why);
/* The shape alone; all ranks; one rank; ranks first..first+n-1 (a synthesised algorithm builds all
 * and ignores the range). */
tutti_status tt_algo_shape(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_shape *ret, struct tutti_error *err);
tutti_status tt_algo_build(const struct tt_algo *al, const struct tt_algo_args *a,
                           struct tt_sched **ret, struct tutti_error *err);
tutti_status tt_algo_slice(const struct tt_algo *al, const struct tt_algo_args *a, uint32_t first,
                           uint32_t n, struct tt_sched **ret, struct tutti_error *err);
/* All ranks by a synthesised algorithm. The caller owns y: it names the memos (tt_algo_name_memos),
 * fills in what it knows, keeps what was found and frees y with tt_algo_synthesis_free. */
tutti_status tt_algo_synthesise(const struct tt_algo *al, const struct tt_algo_args *a,
                                struct tt_synthesis *y, struct tt_sched **ret,
                                struct tutti_error *err);
/* Probes, then sets the names in y; none when the algorithm has no memos. */
tutti_status tt_algo_name_memos(const struct tt_algo *al, const struct tt_algo_args *a,
                                struct tt_synthesis *y, struct tutti_error *err);
void tt_algo_synthesis_free(struct tt_synthesis *y);
#endif
