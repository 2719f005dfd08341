/* replay.h - what the files of tutti replay share. */
#ifndef CLI_REPLAY_H
#define CLI_REPLAY_H

#include "cli/cli.h"

enum { REPLAY_MOST = 16 };

struct replay {
    const struct cli_args *a;
    struct tutti_comm *comm;
    const struct tutti_model *model;
    struct tutti_trainer_options options; /* but for the policy */
    uint64_t steps;
    double comm_us; /* one all-reduce of all bytes, measured */
};

/* One policy, as measured. */
struct replay_row {
    /* with what the model predicts from the communicator's speeds */
    struct tutti_trainer_info info;
    double iteration_us;      /* mean of the steps, slowest rank */
    double best_us, worst_us; /* steps, on the slowest rank */
    double comm_us, exposed_us, ideal_us, limit_us;
};

/* The best of a few all-reduces of as many bytes as the model has. */
tutti_status cli_replay_comm(struct replay *r, struct tutti_error *err);
tutti_status cli_replay_policy(const struct replay *r, const char *policy, struct replay_row *ret,
                               struct tutti_error *err);
#endif
