/* cost.h - the alpha-beta-gamma time of a schedule on a topology: `predicted_us` and `tutti sim
 * --level step`.
 *
 * Bulk-synchronous: a step takes the largest route latency of its messages, plus the largest
 * load/bandwidth of a directed link (half-duplex links add both directions) or, with declared
 * ports, the longest that a rank's k ports are busy, plus gamma times the most bytes one rank
 * reduces, plus host overhead times the messages of the busiest rank: the larger of the m it sends
 * and the m it receives. With `ports=k` declared, the latency is paid ceil(m/k) times, m as above,
 * and a message keeps a port of each end busy as long as the slowest link of its route needs for
 * it; without, a rank's links are all that limits it. K segments: in wave w segment k does step
 * w-k; a wave takes what its active steps take together: the largest latency, the sum of their
 * loads (each a K-th of the step's), the sum of their messages. A message counts although it may be
 * empty. All times are integer picoseconds, every part of a step or wave rounded up, so that every
 * machine agrees on the order of candidates. */
#ifndef TT_COST_H
#define TT_COST_H

#include "base/base.h"
#include "sched/sched.h"
#include "topo/topo.h"

struct tt_cost {
    uint64_t time_ps;
    /* the parts; they add up to time_ps */
    uint64_t latency_ps, transfer_ps, reduce_ps, overhead_ps;
    uint32_t steps;
    /* directed link id with the most bytes per bandwidth over the whole schedule */
    uint32_t busiest_link;
    uint64_t busiest_bytes;
    /* messages on one directed link in one step of the schedule, whatever K is */
    uint32_t max_link_contention;
    uint64_t messages, bytes; /* totals over all ranks */
    bool by_symmetry;         /* computed from rank 0 alone */
    /* false: an upper bound of all times and of busiest_bytes, see tt_cost_symmetric */
    bool exact;
};

/* Cost of a schedule that holds all ranks, for `count` elements. Refuses (TUTTI_ERR_MISMATCH) when
 * the rank counts differ. */
tutti_status tt_cost_sched(const struct tt_sched *s, const struct tt_topo *t, uint64_t count,
                           tutti_dtype dtype, struct tt_cost *ret, struct tutti_error *err);
/* The same from rank 0's slice alone, for a symmetric schedule (shape.symmetric, equal weights) on
 * a rotational topology, or one that is symmetric on a torus (shape.grid) there; reductions are
 * taken to be shifted like the messages. The result is that of tt_cost_sched in every field (but
 * by_symmetry) when ret->exact is true: always with equal chunks, and otherwise unless it is a
 * torus or too many different sums of chunks would have to be compared (a count, the same on every
 * machine). Then each message counts with its largest size among the ranks, and no time is below
 * that of tt_cost_sched. */
tutti_status tt_cost_symmetric(const struct tt_sched *rank0, const struct tt_topo *t,
                               uint64_t count, tutti_dtype dtype, struct tt_cost *ret,
                               struct tutti_error *err);
/* The segment count (the best power of two 2^i, or the better of 3/4 and 3/2 of it; at most `max`
 * and the elements of the largest chunk; the smallest of equals) with the least time_ps for
 * schedule s, and its cost. s holds all ranks, or rank 0 as for tt_cost_symmetric. */
tutti_status tt_cost_best_segments(const struct tt_sched *s, const struct tt_topo *t,
                                   uint64_t count, tutti_dtype dtype, uint32_t max, uint32_t *ret_k,
                                   struct tt_cost *ret, struct tutti_error *err);
/* In one memory: the time when all buffers are memory that the ranks map from each other; c is what
 * tt_cost_sched said of a vector of `bytes`. Elsewhere the same time. */
/* How many segments a schedule has in this memory whose largest chunk has so many bytes, unless it
 * is a box. */
uint32_t tt_cost_segments_of(const struct tt_sched *s, const struct tt_memory *m,
                             uint64_t largest_bytes);
uint64_t tt_cost_own_memory(const struct tt_cost *c, const struct tt_topo *t, uint64_t bytes);
/* No number of segments makes a schedule faster than this, if one segment costs `one`: a step's
 * latency and messages are paid in the wave in which the first segment does it, and the busiest
 * link must carry everything. 0 when `one` is not exact. */
uint64_t tt_cost_segments_floor(const struct tt_cost *one, const struct tt_topo *t);
#endif
