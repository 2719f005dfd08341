/* train_sim.h - what the files of tutti train-sim share: the simulated steps and their reports. */
#ifndef CLI_TRAIN_SIM_H
#define CLI_TRAIN_SIM_H

#include "cli/cli.h"
#include "cli/output.h"

enum { TRAIN_SIM_MOST = 16 }; /* policies at once: at least the length of the policy table */

/* The simulated steps of one model on one network, one per policy. Strings and model are
 * borrowed. */
struct train_sim_answer {
    const char *topo, *level, *algo;
    const struct tutti_model *model;
    struct tutti_trainsim *sims[TRAIN_SIM_MOST];
    size_t n;
    bool all;     /* --policy all: an array in JSON */
    bool buckets; /* list the buckets of each policy */
};

/* Opens the model that --model, --batch and --flops describe; for this command and for replay.
 * Returns 0 or the exit code after a complaint; the caller frees *ret. */
int cli_train_sim_get_model(const struct cli_args *a, struct tutti_model **ret);

void cli_train_sim_print_json(const struct train_sim_answer *x);
void cli_train_sim_print_text(const struct train_sim_answer *x);
/* Lists the models, policies and ways of fusion that can be named. */
void cli_train_sim_list_text(void);
void cli_train_sim_list_json(void);
/* Writes the trace event format: per policy a track for compute, one for communication, one for
 * updates on shards. Write errors show in the stream. */
void cli_train_sim_write_timeline(const struct train_sim_answer *x, FILE *out);
/* The shortest step of all policies; the least limit of all: those with other collectives or
 * algorithms have other limits. */
double cli_train_sim_best(const struct train_sim_answer *x);
double cli_train_sim_limit(const struct train_sim_answer *x);
/* train_sim_html.c: the page. The simulations must have their spans. */
void cli_train_sim_page(const struct train_sim_answer *x, FILE *out);
#endif
