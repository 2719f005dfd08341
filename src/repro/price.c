/* price.c - plans the cases of experiments, and prices them by the planner (level step); sim.c
 * simulates them. The last plan is kept, since what is priced is often simulated next. */
#include "repro/report_int.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

void repro_forget_plan(struct repro_report *r)
{
    tutti_plan_free(r->plan);
    tutti_topo_free(r->topo);
    r->plan = NULL;
    r->topo = NULL;
    r->planned[0] = 0;
}

bool repro_has_algo(const char *name)
{
    struct tutti_algo_info info;
    for (size_t i = 0; tutti_algo_get(i, &info); i++)
        if (!strcmp(info.name, name))
            return true;
    return false;
}

tutti_status repro_plan(struct repro_report *r, const struct repro_case *c,
                        const struct tutti_topo **ret_topo, const struct tutti_plan **ret,
                        struct tutti_error *err)
{
    struct tutti_plan_options o = {
        .size = sizeof o, .count = c->bytes / 4, .algo = c->algo, .options = c->options};
    char name[REPRO_CASE];
    int len = snprintf(name, sizeof name, "%s %s %s %llu", c->spec, c->algo,
                       c->options ? c->options : "", (unsigned long long)c->bytes);
    tutti_status st = TUTTI_OK;
    assert(len > 0 && (size_t)len < sizeof name);
    if (strcmp(name, r->planned) != 0) {
        repro_forget_plan(r);
        st = tutti_topo_parse(c->spec, &r->topo, err);
        if (!st)
            st = tutti_plan_make(r->topo, &o, &r->plan, err);
        if (!st)
            snprintf(r->planned, sizeof r->planned, "%s", name);
    }
    *ret_topo = r->topo;
    *ret = r->plan;
    return st;
}

bool repro_price_why(struct repro_report *r, const struct repro_case *c,
                     struct tutti_sim_result *ret, struct repro_answer *answer)
{
    const struct tutti_topo *t;
    const struct tutti_plan *p;
    struct tutti_plan_info info;
    struct tutti_error err;
    tutti_status st;
    if (r->failed)
        return false;
    *answer = (struct repro_answer){0};
    /* Counting: any result will do, as long as it looks like success. */
    if (repro_counts(r)) {
        *ret = (struct tutti_sim_result){0};
        return true;
    }
    st = repro_plan(r, c, &t, &p, &err);
    if (!st) {
        tutti_plan_simulate(p, ret);
        tutti_plan_info(p, NULL, &info);
        answer->at_most = !info.exact;
    } else if (st != TUTTI_ERR_REFUSED) {
        repro_fail(r, &err);
    } else {
        snprintf(answer->why, sizeof answer->why, "%.*s", (int)sizeof answer->why - 1, err.text);
    }
    return !st;
}

bool repro_price(struct repro_report *r, const char *spec, const char *algo, const char *options,
                 uint64_t bytes, struct tutti_sim_result *ret)
{
    struct repro_answer unused;
    return repro_price_why(r, &(struct repro_case){spec, algo, options, bytes}, ret, &unused);
}
