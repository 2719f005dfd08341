/* api.h - what the files of api share: the objects behind the handles (handle.h), options,
 * files. */
#ifndef TT_API_H
#define TT_API_H

#include <stdatomic.h>
#include <tutti/tutti.h>

#include "api/handle.h"
#include "api/tool.h"
#include "bound/bound.h"
#include "kernel/kernel.h"
#include "plan/plan.h"
#include "sched/sched.h"
#include "topo/topo.h"

/* A topology lives until its handle is freed and nothing made from it needs it any more. */
struct api_topo {
    struct tt_topo *t;
    struct tt_plan_cache *plans; /* schedules synthesised for it; may be NULL */
    _Atomic uint32_t holders;
};
struct api_topo *tt_api_topo_hold(const struct api_topo *t);
void tt_api_topo_release(struct api_topo *t); /* accepts NULL */
/* A handle for t, which is freed on failure; plans: keep what is synthesised for it. */
tutti_status tt_api_topo_wrap(struct tt_topo *t, bool plans, struct tutti_topo **ret,
                              struct tutti_error *err);
/* The same for a schedule. */
tutti_status tt_api_schedule_wrap(struct tt_sched *s, struct tutti_schedule **ret,
                                  struct tutti_error *err);

/* A handle for a request of comm, which is freed on failure. */
struct tt_request;
tutti_status tt_api_request_wrap(const char *function, struct tt_request *r,
                                 const struct tutti_comm *comm, struct tutti_request **ret);

/* Functions without `err` say why they failed through their communicator: what tt_api_bad said last
 * in this thread becomes its last error, if st says that there is one. Returns the status to answer
 * (after a verdict, the verdict's). */
struct tt_comm;
tutti_status api_comm_refused(struct tt_comm *c, tutti_status st);
/* api_given for these: finds the communicator first. Pairs of name and pointer, then NULL. */
tutti_status api_comm_given(const char *function, const struct tutti_comm *comm, ...)
    __attribute__((sentinel));

struct api_plan {
    struct api_topo *topo; /* held */
    struct tt_plan *p;
    struct tt_tuning *tuning;
};

struct api_bound {
    struct tt_bounds b;
};

/* The caller's struct, which begins with its size, as this version knows it: fields that an older
 * caller does not have are zero; fields of a newer caller that this version does not have must be.
 * `own` points to the struct to fill. */
tutti_status tt_api_struct_of(const char *function, const char *name, const void *given, void *own,
                              size_t bytes, struct tutti_error *err);
#define api_struct(name, given, own, err) \
    tt_api_struct_of(__func__, "struct " name, (given), (own), sizeof *(own), (err))

/* What tutti_redop_create has made; NULL: it has not, or it was freed. */
const struct tt_userop *tt_api_userop(tutti_redop op);

/* Before closing: frees the memory that a communicator still has, but for what is kept. */
struct tt_comm;
void tt_api_memory_drop(struct tt_comm *c);

/* Picoseconds to the microseconds of the public interface. */
double tt_api_us(uint64_t ps);
void tt_api_sim_result(const struct tt_cost *c, struct tutti_sim_result *ret);
/* Opens for reading or writing; "-" is the standard stream. *ret_name is what errors call it. */
tutti_status tt_api_open(const char *path, const char *mode, FILE **ret, const char **ret_name,
                         struct tutti_error *err);
/* Closes what tt_api_open gave (flushes a standard stream); a write error shows here. */
tutti_status tt_api_close(FILE *f, const char *name, bool written, struct tutti_error *err);
/* TUTTI_ERR_ARG with a sentence unless there is such a data type. */
tutti_status tt_api_dtype(const char *function, tutti_dtype dtype, struct tutti_error *err);
/* Public options (from api_struct) to a problem on `ranks` ranks, and to the planner's. */
tutti_status tt_api_problem(const struct tutti_plan_options *o, uint32_t ranks,
                            struct tt_problem *ret, struct tutti_error *err);
tutti_status tt_api_options(const struct tutti_plan_options *o, struct tt_plan_options *ret,
                            struct tutti_error *err);
#endif
