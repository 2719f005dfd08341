/* bench_explain.h - bench --explain: what ran for one size, how it was carried out, and how well it
 * was predicted. */
#ifndef CLI_BENCH_EXPLAIN_H
#define CLI_BENCH_EXPLAIN_H

#include "cli/bench_data.h"

struct bench_explained {
    struct tutti_comm_explained plan; /* operations: of all ranks */
    /* measured time / predicted time; 0: nothing was predicted */
    double ratio;
};
/* Collective, after the calls of problem p, which took time_us each. */
tutti_status cli_bench_explain(struct tutti_comm *comm, const struct bench_problem *p,
                               double time_us, struct bench_explained *ret,
                               struct tutti_error *err);
/* The fields of a row's JSON object, and the line below a row of the table. Rank 0 only. */
void cli_bench_explain_json(struct tutti_json *j, const struct bench_explained *e);
void cli_bench_explain_text(const struct bench_explained *e, double time_us);
#endif
