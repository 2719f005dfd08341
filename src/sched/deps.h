/* deps.h - the live rule of a schedule (sched.h, "Meaning (live)") as edges: which operations of a
 * rank wait for which.
 *
 * The executor runs these edges and the simulator predicts them: nothing else in src/ decides what
 * waits. verify/wait.c searches for cycles of waits inside a step, and test/lockstep has an
 * implementation of its own to compare with. */
#ifndef TT_SCHED_DEPS_H
#define TT_SCHED_DEPS_H

#include "sched/sched.h"

/* Operation `to` waits for operation `from` < `to`, both numbers in one slice. With segments,
 * segment k of `to` waits for segment k of `from`. */
struct tt_edge {
    uint32_t from, to;
};

/* The caller sets the first three members; the others are memory that is kept from slice to slice.
 * Zero-initialise it; free it with tt_sched_deps_free. */
struct tt_deps {
    const struct tt_shape *shape;
    /* IN and OUT are one memory: OUT c is IN tt_sched_shape_alias(c). A copy of a chunk onto itself
     * touches nothing then, except those of changed_by */
    bool inplace;
    /* by chunk: the copy onto itself that changes the data, since it forms the mean; NULL: none */
    const uint32_t *changed_by;

    /* number of the slice: marks of other slices do not count, so that nothing is cleared between
     * slices */
    uint32_t epoch;
    /* per border of chunks: epoch when it is one; the number of the cell that begins there */
    uint32_t *mark, *cell;
    struct tt_vec borders;   /* uint32_t: those of the slice, as they are found */
    struct tt_dwindow *bufs; /* per buffer: the chunks that are used */
    struct tt_vec used;      /* uint32_t: buffers */
    struct tt_vec uses;      /* struct tt_duse: what each operation reads and writes */
    struct tt_dplace *places;
    struct tt_vec readers; /* struct tt_dreader */
    uint32_t *seen;        /* per operation: the last one that waits for it, + 1 */
    size_t nplaces, nseen; /* room */
    bool failed;
};

/* Appends the edges of a slice to ret_edges (struct tt_edge), by rising `to`, each once. They are
 * few: two conflicting operations are joined by an edge or a path of edges, and every edge is a
 * conflict. Requires that spans lie inside the vector and buffers are below shape->nbufs, nothing
 * else of tt_sched_check. */
tutti_status tt_sched_deps_find(struct tt_deps *d, const struct tt_slice *sl,
                                struct tt_vec *ret_edges, struct tutti_error *err);
void tt_sched_deps_free(struct tt_deps *d); /* what find has allocated */
#endif
