/* api.h - the opaque objects of include/tutti, as the module behind them sees them. */
#ifndef TT_API_H
#define TT_API_H

#include <tutti/tutti.h>
#include <tutti/unstable.h>

#include "bound/bound.h"
#include "plan/plan.h"
#include "sched/sched.h"
#include "topo/topo.h"

struct tutti_topo {
    struct tt_topo *t;
    struct tt_plan_cache *plans; /* schedules synthesised for it; may be NULL */
};

struct tutti_schedule {
    struct tt_sched *s;
};

struct tutti_plan {
    const struct tutti_topo *topo; /* borrowed */
    struct tt_plan *p;
    struct tt_tuning *tuning;
};

struct tutti_bound {
    struct tt_bounds b;
};

/* Picoseconds to the microseconds of the public interface. */
double api_us(uint64_t ps);
void api_sim_result(const struct tt_cost *c, struct tutti_sim_result *ret);
/* Opens for reading or writing; "-" is the standard stream. *ret_name is what errors call it. */
tutti_status api_open(const char *path, const char *mode, FILE **ret, const char **ret_name, struct tutti_error *err);
/* Closes what api_open gave (flushes a standard stream); a write error shows here. */
tutti_status api_close(FILE *f, const char *name, bool written, struct tutti_error *err);
/* Public options to a problem on `ranks` ranks and planner options. The struct's size field is checked. */
tutti_status api_problem(const struct tutti_plan_options *o, uint32_t ranks, struct tt_problem *ret, struct tutti_error *err);
tutti_status api_options(const struct tutti_plan_options *o, struct tt_plan_options *ret, struct tutti_error *err);
#endif
