/* model.h - a model behind its handle: model.c makes it, simulated steps hold it (trainsim.c). */
#ifndef TT_API_MODEL_H
#define TT_API_MODEL_H

#include "api/api.h"
#include "trainsim/trainsim.h"

/* A model lives until its handle is freed and no simulated step needs it any more; `holders`
 * counts as in api_topo. */
struct api_model {
    struct tt_model *m;
    _Atomic uint32_t holders;
};

/* Frees with the last holder. */
void tt_api_model_release(struct api_model *model);

#endif
