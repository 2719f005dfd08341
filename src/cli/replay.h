/* replay.h - what the files of tutti replay share: the run, and one measured policy.
 *
 *     cmd_replay.c: options, loop over policies --> replay_run.c: steps of one policy --> a row */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "cli/cli.h"

/* The most policies of one run. */
enum { REPLAY_MOST = 16 };

struct replay {
    const struct cli_args *a;
    struct tutti_comm *comm;
    /* borrowed */
    const struct tutti_model *model;
    struct tutti_trainer_options options; /* without the policy */
    uint64_t steps;
    double comm_us; /* one all-reduce of all bytes, measured */
};

/* One policy, as measured. */
struct replay_row {
    /* the trainer's own figures, with the step time that the model predicts at the measured
     * speeds */
    struct tutti_trainer_info info;
    double iteration_us;      /* mean of the steps, slowest rank */
    double best_us, worst_us; /* shortest and longest step; the maximum over ranks of each */
    double comm_us;           /* one all-reduce of all bytes, measured or modelled, the shorter */
    double exposed_us;        /* step - compute */
    double ideal_us;          /* the policy's formula */
    double limit_us;          /* max(comm, compute) */
};

/* Collective: sets r->comm_us, the best of three all-reduces of as many bytes as the model has. */
tutti_status cli_replay_comm(struct replay *r, struct tutti_error *err);
/* Collective: runs all steps of one policy on r->comm. */
tutti_status cli_replay_policy(const struct replay *r, const char *policy, struct replay_row *ret,
                               struct tutti_error *err);
#endif
