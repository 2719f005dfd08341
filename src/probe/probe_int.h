/* probe_int.h - what the measuring files of probe share. */
#ifndef TT_PROBE_INT_H
#define TT_PROBE_INT_H

#include "probe/probe.h"

/* Rates: a part of a flow takes about this long; least and most bytes of a part, parts of a whole,
 * most tries. */
enum {
    TT_PROBE_PART_MS = 6,
    TT_PROBE_MIN_BYTES = 64 << 10,
    TT_PROBE_MAX_BYTES = 4 << 20,
    TT_PROBE_ROW = 6,
    TT_PROBE_TRIES = 10
};

/* A flow between two ranks with what is expected and what was found. */
struct tt_probe_flow {
    uint32_t from, to;
    uint64_t guess;             /* bytes/s */
    uint64_t idle_ns;           /* there and back of a short message; 0: not known */
    uint64_t bw, kept;          /* measured; kept: of the best try of a crowd */
    uint64_t ns;                /* of the last step: there and back */
    uint64_t part[2], whole[2]; /* ns: the best of all tries and the second best */
    uint64_t bytes;
    bool pulled;
};

struct tt_probing {
    struct tt_comm *c;
    struct tt_probe *p;
    void *data;
    uint64_t began_ns, used_ns; /* used: rank 0's clock at the last step, the same on all ranks */
    uint64_t budget_ns;
    uint64_t until_ns; /* tries that would make a figure better end here; 0: they do not */
    struct tt_speeds speeds;
    uint64_t part[2], whole[2]; /* of the slowest flow of each try: as in struct tt_probe_flow */
    uint64_t idle_ns;           /* for new flows */
    struct tt_vec flows;        /* struct tt_probe_flow of the current round */
    struct tt_vec wire;         /* struct tt_flow, as comm wants them */
    struct tt_vec answer;       /* int64_t, flows and the clock */
    struct tutti_error *err;
};

/* flows.c: all on the flows of the current round, at the same time. */
/* NULL: no memory */
struct tt_probe_flow *tt_probe_add(struct tt_probing *m, uint32_t from, uint32_t to,
                                   uint64_t guess);
/* sets ns: the best round trip of a short message */
tutti_status tt_probe_latency(struct tt_probing *m);
/* Sets bw. `guesses`: the guesses may be far too high, a short message corrects them. */
tutti_status tt_probe_rates(struct tt_probing *m, bool guesses);
/* The same a single time, and once more: better figures for the same flows. */
tutti_status tt_probe_rates_once(struct tt_probing *m);
tutti_status tt_probe_rates_again(struct tt_probing *m);
/* All flows as one: bytes/s of their sum, until the last has ended. */
tutti_status tt_probe_joint(struct tt_probing *m, uint64_t *ret_bw);
uint64_t tt_probe_last_rate(const struct tt_probe_flow *f); /* of the last try alone */
/* has less than this part of the budget been used? */
bool tt_probe_time_left(const struct tt_probing *m, unsigned percent);
struct tt_probe_flow *tt_probe_flow(const struct tt_probing *m, size_t i);

/* pairs.c, crowds.c: the phases. */
tutti_status tt_probe_memory(struct tt_probing *m);
tutti_status tt_probe_pairs(struct tt_probing *m);
tutti_status tt_probe_fans(struct tt_probing *m);
tutti_status tt_probe_crowds(struct tt_probing *m);
tutti_status tt_probe_uplinks(struct tt_probing *m);
/* crowds.c: the shuffled circles; TT_PROBE_SEED begins them. */
enum { TT_PROBE_SEED = 7 };
void tt_probe_shuffle(struct tt_rng *rng, uint32_t *order, uint32_t n);
uint32_t tt_probe_shuffles(uint32_t hosts);
/* pairs.c: who plays whom in round `round` of n players (the circle method: player n-1 stays, the
 * others turn). False: i has a pause. */
bool tt_probe_match(uint32_t n, uint32_t round, uint32_t i, uint32_t *ret);
#endif
