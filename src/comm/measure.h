/* measure.h - steps of a measurement: measure.c carries them out on every rank, measure_lead.c is
 * rank 0, which chooses them. */
#ifndef TT_COMM_MEASURE_H
#define TT_COMM_MEASURE_H

#include "comm/comm_int.h"

enum { TT_MEASURE_BYTES = 1 << 20 }; /* of the longest message */

enum step_kind { STEP_RALLY, STEP_BURST, STEP_HOST, STEP_BUSY, STEP_END };
struct step { /* sent by all to all, so it is short; rank 0's counts */
    uint64_t bytes;
    uint64_t ns; /* the result of rank `from` */
    uint32_t kind, from, peer, rounds;
};
struct figures { /* sent after END */
    struct tt_speeds speeds;
    uint32_t report, pad; /* rank 0 wants a report at the end */
};

struct measure {
    const struct tt_measure *how;
    struct tt_comm *c;
    struct step *all;
    struct tt_busy *busy; /* of all ranks, after BUSY */
    struct figures end;
    char *data;
    uint32_t from, peer; /* the pair that the schedules are for */
    struct tt_sched *there, *back;
    uint64_t ns; /* best round of the last step */
    struct tt_busy since;
    struct tutti_error *err;
};

/* measure_lead.c, measure.c */
tutti_status tt_comm_measure_exchange(struct measure *m, const struct step *mine);
/* Runs a step that all ranks know. Afterwards rank 0 has its duration in m->ns, even if rank `from`
 * timed it. */
tutti_status tt_comm_measure_run(struct measure *m, const struct step *s);
/* Rank 0: uses the kept figures if they are still plausible, else measures, and ends with
 * STEP_END. */
tutti_status tt_comm_measure_lead(struct measure *m);

#endif
