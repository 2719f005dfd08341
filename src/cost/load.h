/* load.h - inside of cost/: what the steps of a schedule ask of the network's resources, and how
 * that becomes time.
 *
 * A resource is something whose use adds up while messages share it: a directed link (or a
 * half-duplex cable), a rank's ports, the arithmetic of a rank, the messages a rank handles.
 * Whoever knows the schedule (full.c: all ranks; symmetric.c: rank 0) adds amounts step by step;
 * load.c turns a step into time, wave.c many steps at once into the time of K segments. */
#ifndef TT_COST_LOAD_H
#define TT_COST_LOAD_H

#include "cost/cost.h"
#include "cost/pattern.h"

/* Resources are numbered family after family: transfers (bytes), reductions (bytes), messages, then
 * message counts of directed links, which give the contention of a step but no time. */
struct tt_machine {
    uint32_t ntransfer, nreduce, nmessage, ncount;
    uint64_t *rate;       /* of the transfers, in 1/1024 bytes per second */
    uint64_t gamma_fixed; /* picoseconds per reduced byte, times 2^20 */
    uint64_t overhead_ps;
    uint32_t ports; /* declared; 0: no limit on messages in flight */
};

/* What a step was asked for, kept for waves: entries start[step] .. start[step+1]-1. */
struct tt_profile {
    uint32_t nsteps;
    struct tt_vec latency; /* uint64_t per step */
    struct tt_vec start;   /* uint64_t per step, and the end */
    struct tt_vec resource, amount;
    struct tt_vec pattern; /* struct tt_pattern_ref of each entry, when the load has patterns */
};

struct tt_load {
    struct tt_machine m;
    uint64_t *sum; /* per resource, of the step being filled */
    uint32_t *touched, ntouched;
    uint64_t latency_ps; /* largest route of the step being filled */
    bool keep;           /* also fill the profile */
    struct tt_profile profile;
    bool overflow, nomem;
    struct tt_cost cost; /* of one segment, the steps so far */
    /* By symmetry with unequal chunks (else NULL): a resource stands for one at every rank, `sum`
     * is the most of them, and its pattern in the step being filled tells how much each has,
     * because the most of several steps together is less than the sum of the most. */
    struct tt_patterns *patterns;
    struct tt_pattern_ref *ref;
};

/* Takes over m (its rate array) in any case. nreduce, nmessage are made 0 when the machine makes no
 * use of them. */
tutti_status tt_cost_load_open(struct tt_load *l, const struct tt_machine *m, bool keep,
                               struct tutti_error *err);
void tt_cost_load_close(struct tt_load *l);
void tt_cost_load_add(struct tt_load *l, uint32_t resource, uint64_t amount);
void tt_cost_load_latency(struct tt_load *l, uint64_t latency_ps);
/* Adds the time of the step that was filled and begins the next one. */
void tt_cost_load_step(struct tt_load *l);
/* After the last step: the error of the whole run, if any. */
tutti_status tt_cost_load_status(const struct tt_load *l, struct tutti_error *err);

/* First resource of each family. */
static inline uint32_t tt_machine_reduce(const struct tt_machine *m)
{
    return m->ntransfer;
}
static inline uint32_t tt_machine_message(const struct tt_machine *m)
{
    return m->ntransfer + m->nreduce;
}
static inline uint32_t tt_machine_count(const struct tt_machine *m)
{
    return m->ntransfer + m->nreduce + m->nmessage;
}

/* Bandwidth as an exact integer, rounded down so that no time is too short. */
uint64_t tt_cost_rate(double bytes_per_s);
/* Picoseconds of so many bytes, rounded down. */
uint64_t tt_cost_transfer_floor(uint64_t bytes, double bytes_per_s);
/* The gamma, overhead and ports of a topology. */
void tt_cost_machine_host(struct tt_machine *m, const struct tt_topo *t);

/* The most that is asked of a resource of each family in one step or wave. */
struct tt_peak {
    uint64_t load, rate; /* of the transfer that takes longest */
    uint64_t reduced, messages, latency_ps;
};
/* Adds `times` waves of this peak, with all amounts divided by `segments`, to c; false when the
 * time does not fit. */
bool tt_cost_peak_add(const struct tt_peak *p, const struct tt_machine *m, uint32_t segments,
                      uint64_t times, struct tt_cost *c);
/* Is a at rate ra slower than b at rate rb? */
static inline bool tt_slower(uint64_t a, uint64_t ra, uint64_t b, uint64_t rb)
{
    return ra == rb ? a > b : (unsigned __int128)a * rb > (unsigned __int128)b * ra;
}

/* The time parts of the profile run in K segments into c (which keeps its other fields). */
tutti_status tt_cost_waves_run(const struct tt_load *l, uint32_t segments, struct tt_cost *c,
                               struct tutti_error *err);

/* Fill l from all ranks of s, or from rank 0; everything of the cost for one segment. Open l is the
 * result, to be closed by the caller. */
tutti_status tt_cost_load_full(const struct tt_sched *s, const struct tt_topo *t,
                               const struct tt_bind *b, bool keep, struct tt_load *l,
                               struct tutti_error *err);
tutti_status tt_cost_load_symmetric(const struct tt_sched *s, const struct tt_topo *t,
                                    const struct tt_bind *b, bool keep, struct tt_load *l,
                                    struct tutti_error *err);
/* Bytes op reduces when its destination has `bytes`. */
uint64_t tt_cost_reduced(const struct tt_op *op, uint64_t bytes);
/* memory.c: c, the cost of one segment, becomes that inside the topology's memory; the segments to
 * use there. */
bool tt_cost_is_box(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b);
void tt_cost_in_memory(const struct tt_sched *s, const struct tt_topo *t, const struct tt_bind *b,
                       struct tt_cost *c);
uint32_t tt_cost_memory_segments(const struct tt_sched *s, const struct tt_topo *t,
                                 const struct tt_bind *b, uint64_t largest_elems);
#endif
