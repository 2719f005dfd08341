/* train.h - simulated training steps for experiments: a network with the prices of one
 * algorithm, and models on it. Failures are kept in the report, as everywhere in experiments;
 * figures that could not be computed are NaN. */
#ifndef REPRO_TRAIN_H
#define REPRO_TRAIN_H

#include "repro/repro.h"

struct repro_net {
    struct tutti_topo *topo;
    struct tutti_prices *prices;
};
/* algo NULL: the planner's choice for every size. To be closed in any case, also after a
 * failure. */
void repro_net_open(struct repro_report *r, const char *spec, const char *algo,
                    struct repro_net *ret);
void repro_net_close(struct repro_net *n);
/* NULL when the report has failed. */
struct tutti_model *repro_model(struct repro_report *r, const char *name, uint32_t batch);
/* One step. All figures are NaN when it fails. Nothing is simulated with a NULL model. */
void repro_step(struct repro_report *r, const struct tutti_model *m, const struct repro_net *n,
                const struct tutti_trainsim_options *o, struct tutti_trainsim_info *ret);
/* The milliseconds of one step. */
double repro_step_ms(struct repro_report *r, const struct tutti_model *m, const struct repro_net *n,
                     const struct tutti_trainsim_options *o);

/* dear_fusion.c, a part of repro dear: the tuner against an exhaustive sweep. */
void repro_dear_fusion(struct repro_report *r);
extern const char *const repro_dear_models[5];
#endif
