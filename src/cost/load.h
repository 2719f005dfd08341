/* load.h - inside of cost/: what the steps of a schedule demand of the network's resources, and
 * how that becomes time.
 *
 * A resource is something whose use adds up when messages share it: a directed link (or a
 * half-duplex cable), a rank's ports, the arithmetic of a rank, the messages that a rank
 * handles. full.c (all ranks) and symmetric.c (rank 0) add amounts step by step; load.c turns a
 * step into time; wave.c turns many steps at once into the time of K segments. */
#ifndef TT_COST_LOAD_H
#define TT_COST_LOAD_H

#include "cost/cost.h"
#include "cost/pattern.h"

/* Resources are numbered family by family: transfers (bytes), reductions (bytes), messages, then
 * message counts of directed links, which give the contention of a step but no time.
 *
 *     | transfers | reductions | messages | counts |
 *       ntransfer   nreduce      nmessage   ncount */
struct tt_cost_machine {
    uint32_t ntransfer, nreduce, nmessage, ncount;
    uint64_t *rate;       /* of the transfers, in 1/1024 bytes per second; never 0 */
    uint64_t gamma_fixed; /* picoseconds per reduced byte, times 2^20 */
    uint64_t overhead_ps;
    uint32_t ports; /* declared; 0: no limit on messages in flight */
};

/* The loads of all steps, kept for waves: entries start[step] .. start[step+1]-1. */
struct tt_profile {
    uint32_t nsteps;
    struct tt_vec latency; /* uint64_t per step */
    struct tt_vec start;   /* uint64_t per step, and the end */
    struct tt_vec resource, amount;
    struct tt_vec pattern; /* struct tt_pattern_ref of each entry, if the load has patterns */
};

/* The loads being collected. The caller owns it once open, and closes it. */
struct tt_load {
    struct tt_cost_machine m;
    uint64_t *sum; /* per resource: its load in the step being filled */
    uint32_t *touched, ntouched;
    uint64_t latency_ps; /* largest route latency of that step */
    bool keep;           /* also fill the profile */
    struct tt_profile profile;
    bool overflow, nomem;
    struct tt_cost cost; /* of one segment, over the steps so far */
    /* Only by symmetry with unequal chunks, else NULL. A resource then stands for one at every
     * rank, and `sum` is the largest of them. Its pattern in the step being filled tells the
     * load of each, because the maximum over several steps together is less than the sum of
     * their maxima. */
    struct tt_patterns *patterns;
    struct tt_pattern_ref *ref;
};

/* Takes over m (its rate array), on failure too. Sets nreduce and nmessage to 0 if the machine
 * has no cost for them. */
tutti_status tt_cost_load_open(struct tt_load *l, const struct tt_cost_machine *m, bool keep,
                               struct tutti_error *err);
void tt_cost_load_close(struct tt_load *l);
/* Add to the step being filled; overflow is remembered and reported by tt_cost_load_status. */
void tt_cost_load_add(struct tt_load *l, uint32_t resource, uint64_t amount);
void tt_cost_load_latency(struct tt_load *l, uint64_t latency_ps);
/* Adds the time of the filled step and begins the next one. */
void tt_cost_load_step(struct tt_load *l);
/* After the last step: the error of the whole run, if there was one. */
tutti_status tt_cost_load_status(const struct tt_load *l, struct tutti_error *err);

/* First resource of each family. */
static inline uint32_t tt_machine_reduce(const struct tt_cost_machine *m)
{
    return m->ntransfer;
}
static inline uint32_t tt_machine_message(const struct tt_cost_machine *m)
{
    return m->ntransfer + m->nreduce;
}
static inline uint32_t tt_machine_count(const struct tt_cost_machine *m)
{
    return m->ntransfer + m->nreduce + m->nmessage;
}

/* Bandwidth as an exact integer, rounded down so that no time is too short. */
uint64_t tt_cost_rate(double bytes_per_s);
/* Picoseconds for so many bytes, rounded down. */
uint64_t tt_cost_transfer_floor(uint64_t bytes, double bytes_per_s);
/* Sets gamma, overhead and ports from the topology. */
void tt_cost_machine_host(struct tt_cost_machine *m, const struct tt_topo *t);

/* The most that is demanded of a resource of each family in one step or wave. */
struct tt_peak {
    uint64_t load, rate; /* of the transfer that takes longest */
    uint64_t reduced, messages, latency_ps;
};
/* Adds `times` waves of this peak to c, with all amounts divided by `segments`; false if the
 * time does not fit. */
bool tt_cost_peak_add(const struct tt_peak *p, const struct tt_cost_machine *m, uint32_t segments,
                      uint64_t times, struct tt_cost *c);
/* Do a bytes at rate ra take longer than b at rate rb? */
static inline bool tt_slower(uint64_t a, uint64_t ra, uint64_t b, uint64_t rb)
{
    return ra == rb ? a > b : (unsigned __int128)a * rb > (unsigned __int128)b * ra;
}

/* Computes the time parts of the profile in K segments into c, which gets l's other fields. */
tutti_status tt_cost_waves_run(const struct tt_load *l, uint32_t segments, struct tt_cost *c,
                               struct tutti_error *err);

/* Fill l from all ranks of s, or from rank 0, with the whole cost of one segment. On success l
 * is open and the caller closes it; on failure it is closed. */
tutti_status tt_cost_load_full(const struct tt_sched *s, const struct tt_topo *t,
                               const struct tt_bind *b, bool keep, struct tt_load *l,
                               struct tutti_error *err);
tutti_status tt_cost_load_symmetric(const struct tt_sched *s, const struct tt_topo *t,
                                    const struct tt_bind *b, bool keep, struct tt_load *l,
                                    struct tutti_error *err);
/* The bytes that op reduces if its destination has `bytes`. */
uint64_t tt_cost_reduced(const struct tt_op *op, uint64_t bytes);
/* memory.c: is the schedule a box here; turn c, the cost of one segment, into that inside the
 * topology's memory; the number of segments to use there. */
bool tt_cost_is_box(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b);
void tt_cost_in_memory(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b,
                       struct tt_cost *c);
uint32_t tt_cost_memory_segments(const struct tt_sched *s, const struct tt_topo *t,
                                 const struct tt_bind *b, uint64_t largest_elems);
#endif
