/* plan_int.h - what the files of plan/ share; no other module includes it. */
#ifndef TT_PLAN_INT_H
#define TT_PLAN_INT_H

#include "plan/plan.h"

enum { TT_PLAN_BUDGET_MS = 1000 };
enum { TT_PLAN_NEAR = 50 }; /* predictions within 1/TT_PLAN_NEAR of the least are ties */

/* ---- price.c: one candidate ---- */

/* What all candidates of one choice share. */
struct tt_pricing {
    /* Problem, topology and the algorithm's options (auto: at most segments=K). */
    struct tt_algo_args args;
    bool reproducible;
    uint64_t budget_ms, flow_ms;
    uint64_t bound_ps;
    struct tt_plan_cache *cache; /* of schedules; may be NULL */
    tt_plan_watch *watch;        /* may be NULL */
    void *watch_ctx;
};
/* How a candidate will be priced, and the work of it: a count that is the same on every machine. */
struct tt_way {
    bool by_symmetry; /* rank 0 stands for all ranks */
    uint64_t work;    /* work of this way */
    uint64_t whole;   /* work of building and pricing all ranks */
    bool splits;      /* some chunk has several elements, so several segments can be non-empty */
};
/* Searching the number of segments costs this many times the work of one price. */
enum { TT_SEARCH_COST = 8 };
/* Can the algorithm solve the problem, and how will it be priced? A refusal is TUTTI_OK with
 * c->refused and c->why; only a faulty question (a bad option) or lack of memory fails. Sets
 * every field of *ret on success. */
tutti_status tt_plan_price_probe(const struct tt_pricing *p, const struct tt_algo *al,
                                 struct tt_candidate *ret, struct tt_way *ret_way,
                                 struct tutti_error *err);
/* Prices a candidate that tt_plan_price_probe did not refuse: sets cost, segments, ratio and
 * why, on success only. A synthesised schedule stays with the candidate (built). Pipelined
 * algorithms get the best number of segments, others one. A price by symmetry can be an upper
 * bound; if so, all ranks are priced when `spare` work suffices (cost.by_symmetry is then
 * false). */
tutti_status tt_plan_price(const struct tt_pricing *p, const struct tt_way *way, uint64_t spare,
                           struct tt_candidate *c, struct tutti_error *err);

/* For a candidate priced with one segment: the least time that any number of segments could give
 * it. UINT64_MAX when nothing can be gained or the number was given. */
uint64_t tt_plan_price_hope(const struct tt_pricing *p, const struct tt_way *way,
                            const struct tt_candidate *c);
/* The work of searching its best number of segments, and the search itself. */
uint64_t tt_plan_price_search_work(const struct tt_way *way, const struct tt_candidate *c);
tutti_status tt_plan_price_search(const struct tt_pricing *p, struct tt_candidate *c,
                                  struct tutti_error *err);

/* Prices s, the candidate's schedule of all ranks, with k segments, which become its number. */
tutti_status tt_plan_price_again(const struct tt_pricing *p, const struct tt_sched *s, uint32_t k,
                                 struct tt_candidate *c, struct tutti_error *err);

/* ---- flow.c: candidates at flow level ---- */

/* The time to choose by: at flow level if it is known, else the step time. */
uint64_t tt_plan_flow_estimate(const struct tt_candidate *c);
/* Simulates the priced candidates that may be the fastest, and tries other numbers of segments
 * for the best, as far as p->flow_ms goes. Sets flow_ps, and cost, segments and why of those that
 * got another number. */
tutti_status tt_plan_flow(const struct tt_pricing *p, struct tt_plan *plan,
                          struct tutti_error *err);

/* ---- work.c ---- */

/* May the planner choose the number of segments? Is that search part of the first price, because
 * the algorithm is pipelined? */
bool tt_plan_way_searches(const struct tt_pricing *p, const struct tt_algo *al);
bool tt_plan_way_searches_first(const struct tt_pricing *p, const struct tt_algo *al);
/* Decides how a candidate is priced and counts the work of it. */
tutti_status tt_plan_way_choose(const struct tt_pricing *p, const struct tt_algo *al,
                                struct tt_way *ret, struct tutti_error *err);

/* ---- tuning.c ---- */

struct tt_tuning_rule {
    tutti_coll coll;
    uint64_t min_ranks, max_ranks, min_bytes, max_bytes; /* ranges include both ends */
    const struct tt_algo *algo;
    struct tt_options options;
    size_t number; /* position in the file, from 1 */
};
/* The first rule that covers a problem of this many bytes, or NULL. */
const struct tt_tuning_rule *tt_plan_tuning_match(const struct tt_tuning *t,
                                                  const struct tt_problem *p, uint64_t bytes);
const char *tt_plan_tuning_name(const struct tt_tuning *t);
/* Hash of name and rules; 0 for NULL. */
uint64_t tt_plan_tuning_hash(const struct tt_tuning *t);
const struct tt_vec *tt_plan_tuning_list(const struct tt_tuning *t); /* of struct tt_tuning_rule */
uint64_t tt_plan_tuning_hash_rules(const char *name, const struct tt_vec *rules);
/* tuning_read.c: appends the rules of a document, to its end. The caller closes r. */
struct tt_json_reader;
tutti_status tt_plan_tuning_rules_read(struct tt_json_reader *r, struct tt_vec *rules,
                                       struct tutti_error *err);

/* ---- plan.c ---- */

/* Checks the question: sets the problem as planned (a barrier has no elements) and the bytes of
 * its vector; refuses what no algorithm could solve. */
tutti_status tt_plan_check(const struct tt_topo *t, const struct tt_problem *p,
                           struct tt_problem *ret, uint64_t *ret_bytes, struct tutti_error *err);
/* Chooses into an empty plan; p holds problem, topology and bound_ps, which the ratios refer to. */
tutti_status tt_plan_choose(struct tt_pricing *p, const struct tt_plan_options *o, uint64_t bytes,
                            struct tt_plan *plan, struct tutti_error *err);
/* The best of all algorithms, into an empty plan (choose_auto.c). */
tutti_status tt_plan_choose_auto(const struct tt_pricing *p, struct tt_plan *plan,
                                 struct tutti_error *err);
/* What both files of choosing use (choose.c). list: the whole table as candidates, in table order;
 * the plan owns them. segments: finds the best number if `spare` work suffices, else the price with
 * one stays. settle: the candidate's decision and schedule become the plan's. */
tutti_status tt_plan_choose_list(struct tt_plan *plan, struct tutti_error *err);
tutti_status tt_plan_choose_segments(const struct tt_pricing *p, const struct tt_way *way,
                                     uint64_t spare, struct tt_candidate *c,
                                     struct tutti_error *err);
tutti_status tt_plan_choose_settle(struct tt_plan *plan, const struct tt_pricing *p,
                                   struct tt_candidate *c, struct tutti_error *err);
uint64_t tt_plan_budget_work(uint64_t budget_ms); /* the budget as work; saturates */
enum { TT_PLAN_WORDS = 40 };
/* A number of operations for people: "41.3 million". */
const char *tt_plan_count_words(uint64_t n, char text[TT_PLAN_WORDS]);
/* A deep copy without the built schedule. `vertices` is the length of the bounds' side arrays:
 * ranks + switches of the network. */
tutti_status tt_plan_copy(const struct tt_plan *p, size_t vertices, struct tt_plan **ret,
                          struct tutti_error *err);
void tt_plan_clear(struct tt_plan *p); /* frees what the plan owns, not the plan */

/* ---- built.c ---- */

void tt_plan_built_free(struct tt_built *b); /* accepts an empty one */
/* Finds the schedule in the cache and adapts it to exactly these args; false: it is not there. */
bool tt_plan_built_find(struct tt_plan_cache *c, const struct tt_algo *al,
                        const struct tt_algo_args *a, struct tt_built *ret);
/* Turns b into the schedule of these args, which may differ from its own only in size, type,
 * reduction or segments. */
tutti_status tt_plan_built_adapt(struct tt_built *b, const struct tt_algo *al,
                                 const struct tt_algo_args *a, struct tutti_error *err);

/* ---- cache.c ---- */

/* Everything that a plan depends on, as text. The cache copies key and plan; a full set drops
 * its oldest entry. */
tutti_status tt_plan_key(const struct tt_topo *t, const struct tt_problem *p,
                         const struct tt_plan_options *o, struct tt_str *ret_key,
                         struct tutti_error *err);
/* *ret: a copy owned by the caller; NULL: not known. */
tutti_status tt_plan_cache_find(struct tt_plan_cache *c, const struct tt_str *key, size_t vertices,
                                struct tt_plan **ret, struct tutti_error *err);
tutti_status tt_plan_cache_put(struct tt_plan_cache *c, const struct tt_str *key,
                               const struct tt_plan *p, size_t vertices, struct tutti_error *err);
/* Schedules of algorithms with any_size, shared with their users. A schedule found has the size
 * that it was put with; the caller adapts it. */
bool tt_plan_cache_find_built(struct tt_plan_cache *c, const struct tt_algo *al,
                              const struct tt_algo_args *a, struct tt_built *ret);
void tt_plan_cache_put_built(struct tt_plan_cache *c, const struct tt_algo *al,
                             const struct tt_algo_args *a, const struct tt_built *b);

/* ---- disk.c: memos in files, by name; what fails, fails in silence ---- */
enum { TT_DISK_PATH = 512 };
/* false: no directory for files is known */
bool tt_plan_disk_path(const char *name, char *buf, size_t cap);
/* true: *ret holds the memo; the caller frees it */
bool tt_plan_disk_read(const char *name, struct tt_vec *ret);
void tt_plan_disk_write(const char *name, const struct tt_vec *bytes);
#endif
