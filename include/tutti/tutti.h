/* tutti.h - the public interface: networks, plans and schedules.
 *
 * A topology describes a network. A plan is the choice of an algorithm for a collective on a topology, with its predicted time and a
 * lower bound. A schedule is the program of every rank; it can be proved, priced, written and read.
 *
 * Conventions. Functions that can fail return a tutti_status (0 is success) and describe the failure in *err when err is not NULL;
 * outputs come last, are named ret_*, and are set only on success. make/parse/read pair with free; every free accepts NULL. Objects are
 * read-only once made: any number of threads may read one object at the same time; one thread frees it. No function prints. */
#ifndef TUTTI_H
#define TUTTI_H

#include <stdbool.h>
#include <tutti/types.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

const char *tutti_version(void);
/* A fixed text for any status value. */
const char *tutti_strerror(tutti_status status);

/* ---- topologies ---- */
struct tutti_topo;

/* From a spec ("star:8@1Gbps,50us") or, when the text is not a spec, from the file of that name ("-": standard input). */
tutti_status tutti_topo_parse(const char *spec, struct tutti_topo **ret_topo, struct tutti_error *err);
/* From a topology file only. */
tutti_status tutti_topo_load(const char *path, struct tutti_topo **ret_topo, struct tutti_error *err);
/* From parts: kind "torus", params "8x8", link "16GB/s,150ns" (NULL: the default link). */
tutti_status tutti_topo_generate(const char *kind, const char *params, const char *link, struct tutti_topo **ret_topo,
                                 struct tutti_error *err);
/* Writes the topology file; "-" is standard output. */
tutti_status tutti_topo_write(const struct tutti_topo *topo, const char *path, struct tutti_error *err);
uint32_t tutti_topo_ranks(const struct tutti_topo *topo);
void tutti_topo_free(struct tutti_topo *topo);

/* ---- plans ---- */
struct tutti_plan;
struct tutti_schedule;

/* What is wanted. Zero-initialise, set `size` to sizeof(struct tutti_plan_options); zero fields mean the defaults in brackets. */
struct tutti_plan_options {
    size_t size;
    tutti_coll coll;     /* [allreduce] */
    uint32_t root;       /* rooted collectives */
    tutti_dtype dtype;   /* [f32] */
    tutti_redop redop;   /* [sum] */
    uint64_t count;      /* elements of the whole vector */
    const char *algo;    /* [auto] */
    const char *options; /* the algorithm's options, "k=v,k=v" [none] */
    bool reproducible;   /* only algorithms that sum in rank order */
    uint64_t budget_ms;  /* planning budget of auto [1000] */
    const char *tuning;  /* a tuning file [none] */
};

/* The plan refers to `topo`, which must outlive it. The options are copied. */
tutti_status tutti_plan_make(const struct tutti_topo *topo, const struct tutti_plan_options *options, struct tutti_plan **ret_plan,
                             struct tutti_error *err);
void tutti_plan_free(struct tutti_plan *plan);
const char *tutti_plan_algo(const struct tutti_plan *plan);
double tutti_plan_predicted_us(const struct tutti_plan *plan);
double tutti_plan_bound_us(const struct tutti_plan *plan);
/* The schedule of all ranks; independent of the plan and the topology afterwards. */
tutti_status tutti_plan_schedule(const struct tutti_plan *plan, struct tutti_schedule **ret_schedule, struct tutti_error *err);

/* One considered algorithm. Texts live as long as the plan. */
struct tutti_candidate {
    const char *algo;
    bool refused;          /* it does not apply; `why` says why */
    bool skipped;          /* not priced: the planning budget would not suffice */
    double predicted_us;   /* when neither refused nor skipped */
    double ratio_to_bound; /* 0: the bound is 0 */
    uint32_t segments;
    uint32_t steps;
    const char *why; /* the reason of a refusal, or what decides the time */
};
/* The i-th candidate of an automatic choice, in table order; TUTTI_ERR_RANGE past the last one (none when the algorithm was named). */
tutti_status tutti_plan_explain(const struct tutti_plan *plan, size_t i, struct tutti_candidate *ret_candidate, struct tutti_error *err);

/* ---- schedules ---- */
/* Reads (and checks) or writes the JSON text form; "-" is standard input or output. */
tutti_status tutti_schedule_read(const char *path, struct tutti_schedule **ret_schedule, struct tutti_error *err);
tutti_status tutti_schedule_write(const struct tutti_schedule *schedule, const char *path, struct tutti_error *err);
void tutti_schedule_free(struct tutti_schedule *schedule);

struct tutti_verdict {
    bool ok;
    bool exact;               /* false: by fingerprints, with ... */
    double error_probability; /* ... at most this chance that an incorrect schedule passes */
    uint32_t ranks;
    uint64_t ops, messages;
    uint32_t rank; /* when not ok: the rank, ... */
    uint64_t op;   /* ... the operation in its list (its length: only the end result is wrong) ... */
    char why[400]; /* ... and why */
};
/* Proves the schedule, or names what is wrong with it. "Not correct" is TUTTI_OK with ok false. */
tutti_status tutti_schedule_verify(const struct tutti_schedule *schedule, struct tutti_verdict *ret_verdict, struct tutti_error *err);

struct tutti_sim_result {
    double time_us;
    double latency_us, transfer_us, reduce_us, overhead_us; /* the parts of time_us */
    uint32_t steps;
    uint64_t bytes_on_busiest_link;
    uint32_t busiest_link;        /* directed link: 2*link or 2*link+1 */
    uint32_t max_link_contention; /* messages on one directed link in one step */
    uint64_t messages;
};
/* Time of the schedule on a topology, bulk-synchronous (level "step"): what predicted_us is. */
tutti_status tutti_schedule_simulate(const struct tutti_schedule *schedule, const struct tutti_topo *topo, uint64_t count,
                                     tutti_dtype dtype, struct tutti_sim_result *ret_result, struct tutti_error *err);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
