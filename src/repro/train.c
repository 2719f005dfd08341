/* train.c - simulated training steps for experiments. Failures are kept in the report; figures
 * that could not be computed are NaN, which every table prints as "-". */
#include "repro/train.h"

#include <math.h>

void repro_net_open(struct repro_report *r, const char *spec, const char *algo,
                    struct repro_net *ret)
{
    struct tutti_error err;
    *ret = (struct repro_net){0};
    if (tutti_topo_parse(spec, &ret->topo, &err) ||
        tutti_prices_open(ret->topo, algo, false, &ret->prices, &err))
        repro_fail(r, &err);
}

void repro_net_close(struct repro_net *n)
{
    tutti_prices_close(n->prices);
    tutti_topo_free(n->topo);
}

struct tutti_model *repro_model(struct repro_report *r, const char *name, uint32_t batch)
{
    struct tutti_error err;
    struct tutti_model *m = NULL;
    if (tutti_model_open(name, batch, 0, &m, &err))
        repro_fail(r, &err);
    return m;
}

/* A NULL model or missing prices mean that the report has failed: nothing is simulated. */
void repro_step(struct repro_report *r, const struct tutti_model *m, const struct repro_net *n,
                const struct tutti_trainsim_options *o, struct tutti_trainsim_info *ret)
{
    struct tutti_error err;
    struct tutti_trainsim *s = NULL;
    double none = (double)NAN;
    *ret = (struct tutti_trainsim_info){.policy = "",
                                        .fusion = "",
                                        .order = "",
                                        .iteration_us = none,
                                        .forward_us = none,
                                        .backward_us = none,
                                        .comm_us = none,
                                        .stream_us = none,
                                        .exposed_comm_us = none,
                                        .ideal_us = none,
                                        .limit_us = none};
    if (!m || !n->prices || repro_counts(r))
        return;
    if (tutti_trainsim_run(m, n->prices, o, &s, &err))
        repro_fail(r, &err);
    else
        tutti_trainsim_info(s, ret);
    tutti_trainsim_free(s);
}

double repro_step_ms(struct repro_report *r, const struct tutti_model *m, const struct repro_net *n,
                     const struct tutti_trainsim_options *o)
{
    struct tutti_trainsim_info i;
    repro_step(r, m, n, o, &i);
    return i.iteration_us / 1e3;
}
