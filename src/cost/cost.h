/* cost.h - the alpha-beta-gamma time of a schedule on a topology: `predicted_us` and `tutti sim
 * --level step`.
 *
 * The model is bulk-synchronous. A step takes the sum of four parts:
 *
 *     latency    the largest route latency of its messages
 *     transfer   the largest load / bandwidth of a directed link (half-duplex links add both
 *                directions) or, with declared ports, the longest time that a rank's ports are busy
 *     reduce     gamma times the most bytes that one rank reduces
 *     overhead   host overhead times the messages of the busiest rank: the larger of the m that it
 *                sends and the m that it receives
 *
 * With `ports=k` declared, the latency is paid ceil(m/k) times, m as above, and a message keeps
 * a port of each end busy as long as the slowest link of its route needs for it. Without ports,
 * only a rank's links limit it.
 *
 * K segments: in wave w segment k does step w-k. A wave takes what its active steps take
 * together: the largest latency, the sum of their loads (each a K-th of the step's), the sum of
 * their messages. A message counts even if it is empty. All times are integer picoseconds, and
 * every part of a step or wave is rounded up, so every machine agrees on the order of
 * candidates. */
#ifndef TT_COST_H
#define TT_COST_H

#include "base/base.h"
#include "sched/sched.h"
#include "topo/topo.h"

struct tt_cost {
    uint64_t time_ps;
    /* the four parts; they add up to time_ps */
    uint64_t latency_ps, transfer_ps, reduce_ps, overhead_ps;
    uint32_t steps;
    /* directed link with the most bytes per bandwidth over the whole schedule */
    uint32_t busiest_link;
    uint64_t busiest_bytes;
    /* most messages on one directed link in one step of the schedule, whatever K is */
    uint32_t max_link_contention;
    uint64_t messages, bytes; /* totals over all ranks */
    bool by_symmetry;         /* computed from rank 0 alone */
    /* false: all times and busiest_bytes are upper bounds, see tt_cost_symmetric */
    bool exact;
};

/* Prices a schedule that holds all ranks, for `count` elements. Fails with TUTTI_ERR_MISMATCH if
 * the numbers of ranks differ. The functions below only read their arguments. */
tutti_status tt_cost_sched(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                           tutti_dtype dtype, struct tt_cost *ret, struct tutti_error *err);
/* The same from rank 0's slice alone, for a symmetric schedule (shape.symmetric, equal weights)
 * on a rotational topology, or one symmetric along a torus (shape.grid) on that torus.
 * Reductions are assumed to be shifted like the messages. If ret->exact is true, the result
 * equals that of tt_cost_sched in every field except by_symmetry: always with equal chunks,
 * otherwise unless the network is a torus or too many different sums of chunks would have to be
 * compared (counted, so the same on every machine). If it is false, each message counts with its
 * largest size among the ranks, and no time is below that of tt_cost_sched. */
tutti_status tt_cost_symmetric(const struct tt_sched *rank0, const struct tt_topo *t,
                               uint64_t count, tutti_dtype dtype, struct tt_cost *ret,
                               struct tutti_error *err);
/* Finds the number of segments with the least time_ps for schedule s, and its cost: the best
 * power of two, or the better of 3/4 and 3/2 of it; at most `max` and tt_cost_most_segments. Of
 * the powers of two that take at most 0.1 % longer the smallest is taken: every message costs a
 * host something that a topology may not state, and without latency more segments are always
 * faster. s holds all ranks, or rank 0 as for tt_cost_symmetric. */
tutti_status tt_cost_best_segments(const struct tt_sched *s, const struct tt_topo *t,
                                   uint64_t count, tutti_dtype dtype, uint32_t max, uint32_t *ret_k,
                                   struct tt_cost *ret, struct tutti_error *err);
/* The largest sensible number of segments: those of the largest chunk have 64 bytes at least, and
 * there are 4096 at most. */
tutti_status tt_cost_most_segments(const struct tt_sched *s, uint64_t count, tutti_dtype dtype,
                                   uint32_t *ret, struct tutti_error *err);
/* The number of segments that a schedule has in this memory if its largest chunk has so many
 * bytes and it is not a box. */
uint32_t tt_cost_segments_of(const struct tt_sched *s, const struct tt_memory *m,
                             uint64_t largest_bytes);
/* On a shared-memory topology: the time if all buffers are memory that the ranks map from each
 * other; c is what tt_cost_sched returned for a vector of `bytes`. Elsewhere c's own time. */
uint64_t tt_cost_own_memory(const struct tt_cost *c, const struct tt_topo *t, uint64_t bytes);
/* A lower bound over all numbers of segments if one segment costs `one`: a step's latency and
 * messages are paid in the wave in which the first segment does it, and the busiest link must
 * carry everything. 0 if `one` is not exact. */
uint64_t tt_cost_segments_floor(const struct tt_cost *one, const struct tt_topo *t);
#endif
