/* api.h - what the files of api share: the objects behind the handles (handle.h), options, files.
 *
 *     caller: struct tutti_x *  = a handle --(api_find, api_need)--> struct api_x or tt_x
 *
 * Naming: tutti_* is public, tt_api_* and api_* are between the files of this module. */
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

/* A topology lives until its handle is freed and no plan, simulation or list of prices made from
 * it needs it any more: `holders` counts the handle and those. */
struct api_topo {
    struct tt_topo *t;
    struct tt_plan_cache *plans; /* schedules synthesised for it; NULL: none are kept */
    _Atomic uint32_t holders;
};
/* hold counts one more holder and returns t; release counts one less, and the last one frees.
 * Any thread may call them. */
struct api_topo *tt_api_topo_hold(const struct api_topo *t);
void tt_api_topo_release(struct api_topo *t); /* accepts NULL */
/* Makes a handle for t and takes it over (it is freed on failure). plans: keep the schedules
 * that are synthesised for it. */
tutti_status tt_api_topo_wrap(struct tt_topo *t, bool plans, struct tutti_topo **ret,
                              struct tutti_error *err);
/* The same for a schedule: s is freed on failure. */
tutti_status tt_api_schedule_wrap(struct tt_sched *s, struct tutti_schedule **ret,
                                  struct tutti_error *err);

/* Makes a handle for a request of comm; r is freed on failure. */
struct tt_request;
tutti_status tt_api_request_wrap(const char *function, struct tt_request *r,
                                 const struct tutti_comm *comm, struct tutti_request **ret);

/* Functions without `err` report through their communicator: the last sentence of tt_api_bad in
 * this thread becomes the communicator's last error, when st is a failure. Returns the status to
 * answer; once the communicator has failed for all ranks, that is the status of that failure. */
struct tt_comm;
tutti_status tt_api_comm_refused(struct tt_comm *c, tutti_status st);
/* api_given for such functions: finds the communicator first, then checks the pointers.
 * Arguments are pairs of name and pointer, then NULL. */
tutti_status tt_api_comm_given(const char *function, const struct tutti_comm *comm, ...)
    __attribute__((sentinel));

/* A plan with what it needs: the topology (held) and the rules that fixed the choice, or NULL. */
struct api_plan {
    struct api_topo *topo; /* held */
    struct tt_plan *p;
    struct tt_tuning *tuning;
};

struct api_bound {
    struct tt_bounds b;
};

/* Copies the caller's struct, which begins with its size, into *own of this version (`bytes`
 * long). Fields that an older caller does not have become zero; fields of a newer caller that
 * this version does not know must be zero, else TUTTI_ERR_ARG. */
tutti_status tt_api_struct_of(const char *function, const char *name, const void *given, void *own,
                              size_t bytes, struct tutti_error *err);
#define api_struct(name, given, own, err) \
    tt_api_struct_of(__func__, "struct " name, (given), (own), sizeof *(own), (err))

/* The reduction that tutti_redop_create has made; NULL when there is none of that number any
 * more. */
const struct tt_userop *tt_api_userop(tutti_redop op);

/* Before closing: frees the memory that a communicator still owns, except what tutti_mem_keep
 * keeps. */
struct tt_comm;
void tt_api_memory_drop(struct tt_comm *c);

/* The writer under a document, for a value that the caller writes at once and whole. */
struct tt_json_writer;
struct tt_json_writer *tt_api_json_value(struct tutti_json *j, const char *key,
                                         const char *function);

/* Picoseconds to the microseconds of the public interface. */
double tt_api_us(uint64_t ps);
void tt_api_sim_result(const struct tt_cost *c, struct tutti_sim_result *ret);
/* Opens a file for reading or writing; "-" is the standard stream. *ret_name is its name in
 * errors. */
tutti_status tt_api_open(const char *path, const char *mode, FILE **ret, const char **ret_name,
                         struct tutti_error *err);
/* Closes what tt_api_open gave; a standard stream is only flushed. Write errors show here. */
tutti_status tt_api_close(FILE *f, const char *name, bool written, struct tutti_error *err);
/* TUTTI_ERR_ARG with a sentence when there is no such data type. */
tutti_status tt_api_dtype(const char *function, tutti_dtype dtype, struct tutti_error *err);
/* Public options (copied by api_struct) to a problem on `ranks` ranks, and to the planner's
 * options. */
tutti_status tt_api_problem(const struct tutti_plan_options *o, uint32_t ranks,
                            struct tt_problem *ret, struct tutti_error *err);
tutti_status tt_api_options(const struct tutti_plan_options *o, struct tt_plan_options *ret,
                            struct tutti_error *err);

/* ---- trainer.c, for trainer_state.c ---- */

struct tt_trainer;
/* An index that does not fit becomes UINT32_MAX, which does not exist either. */
uint32_t tt_api_trainer_index(size_t index);
/* The trainer behind a handle, or NULL with a sentence. */
struct tt_trainer *tt_api_trainer_find(struct tutti_trainer *trainer, const char *function,
                                       struct tutti_error *err);
/* The trainer behind a handle, for functions without a status: aborts on a bad one. */
struct tt_trainer *tt_api_trainer_see(const struct tutti_trainer *trainer, const char *function);

#endif
