/* probe_int.h - what the measuring files of probe share. Functions that take a struct tt_probing
 * run flows and are collective, except for tt_probe_add, tt_probe_time_left and tt_probe_flow. */
#ifndef TT_PROBE_INT_H
#define TT_PROBE_INT_H

#include "probe/probe.h"

/* Rates: the duration of a part, the least and most bytes of a part, parts of a whole, and the
 * maximal number of tries. */
enum {
    TT_PROBE_PART_MS = 6,
    TT_PROBE_MIN_BYTES = 64 << 10,
    TT_PROBE_MAX_BYTES = 4 << 20,
    TT_PROBE_ROW = 6,
    TT_PROBE_TRIES = 10
};

/* A flow between two ranks: what is expected of it and what was measured. */
struct tt_probe_flow {
    uint32_t from, to;
    uint64_t guess;             /* expected rate, bytes/s; decides how long messages are */
    uint64_t idle_ns;           /* round trip of a short message; 0: not known */
    uint64_t bw, kept;          /* bytes/s; kept: from the best try of a crowd */
    uint64_t ns;                /* round trip in the last step */
    uint64_t part[2], whole[2]; /* ns: best and second best of all tries */
    uint64_t bytes;
    bool pulled;
};

/* The state of a probe under way; the same on all ranks except c, data, began_ns and err. */
struct tt_probing {
    struct tt_comm *c;
    struct tt_probe *p;
    void *data;
    uint64_t began_ns, used_ns; /* used: rank 0's clock at the last step, the same on all ranks */
    uint64_t budget_ns;
    uint64_t until_ns; /* no further tries to confirm a figure after this time; 0: no limit */
    struct tt_speeds speeds;
    uint64_t part[2], whole[2]; /* as in struct tt_probe_flow, for the slowest flow of each try */
    uint64_t idle_ns;           /* idle_ns of the flows added next */
    struct tt_vec flows;        /* struct tt_probe_flow of the current round */
    struct tt_vec wire;         /* struct tt_comm_flow: the flows in comm's form */
    struct tt_vec answer;       /* int64_t: one per flow, then the clock */
    struct tutti_error *err;
};

/* flows.c: these work on all flows of the current round, which run at the same time. */
/* Appends a flow to the round; NULL: no memory. */
struct tt_probe_flow *tt_probe_add(struct tt_probing *m, uint32_t from, uint32_t to,
                                   uint64_t guess);
/* Sets ns: the best round trip of a short message. */
tutti_status tt_probe_latency(struct tt_probing *m);
/* Sets bw. `guesses`: guesses may be far too high and are first corrected by a short message. */
tutti_status tt_probe_rates(struct tt_probing *m, bool guesses);
/* The first try of a round, and one more try for the same flows, which can only improve the
 * figures. */
tutti_status tt_probe_rates_once(struct tt_probing *m);
tutti_status tt_probe_rates_again(struct tt_probing *m);
/* All flows as one: bytes/s of their sum until the last one has ended. */
tutti_status tt_probe_joint(struct tt_probing *m, uint64_t *ret_bw);
uint64_t tt_probe_last_rate(const struct tt_probe_flow *f); /* from the whole of the last try */
/* Has less than this share of the budget been used? */
bool tt_probe_time_left(const struct tt_probing *m, unsigned percent);
struct tt_probe_flow *tt_probe_flow(const struct tt_probing *m, size_t i);

/* pairs.c, crowds.c: the phases, in their order. */
tutti_status tt_probe_memory(struct tt_probing *m);
tutti_status tt_probe_pairs(struct tt_probing *m);
tutti_status tt_probe_fans(struct tt_probing *m);
tutti_status tt_probe_crowds(struct tt_probing *m);
tutti_status tt_probe_uplinks(struct tt_probing *m);
/* crowds.c: the shuffled circles, the same on every rank (TT_PROBE_SEED), and their number. */
enum { TT_PROBE_SEED = 7 };
void tt_probe_shuffle(struct tt_rng *rng, uint32_t *order, uint32_t n);
uint32_t tt_probe_shuffles(uint32_t hosts);
/* pairs.c: the opponent of i in round `round` among n players (the circle method: player n-1
 * stays, the others move). false: i pauses. */
bool tt_probe_match(uint32_t n, uint32_t round, uint32_t i, uint32_t *ret);
#endif
