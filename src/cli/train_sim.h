/* train_sim.h - what the files of tutti train-sim share. */
#ifndef CLI_TRAIN_SIM_H
#define CLI_TRAIN_SIM_H

#include "cli/cli.h"
#include "cli/output.h"

enum { TRAIN_SIM_MOST = 16 }; /* policies at once */

/* Simulated steps of one model on one network. */
struct train_sim_answer {
    const char *topo, *level, *algo;
    const struct tutti_model *model;
    struct tutti_trainsim *sims[TRAIN_SIM_MOST];
    size_t n;
    bool all;     /* --policy all */
    bool buckets; /* list them */
};

/* --model, --batch and --flops, of this command and of replay: 0, or the exit code after a
 * complaint. */
int cli_train_sim_get_model(const struct cli_args *a, struct tutti_model **ret);

void cli_train_sim_print_json(const struct train_sim_answer *x);
void cli_train_sim_print_text(const struct train_sim_answer *x);
/* Models, policies and ways of fusion. */
void cli_train_sim_list_text(void);
void cli_train_sim_list_json(void);
/* The trace event format: a track for compute, one for communication, one for updates on shards. */
void cli_train_sim_write_timeline(const struct train_sim_answer *x, FILE *out);
#endif
