/* bench.h - what the files of tutti bench share: the run, a row of its table, how both are made and
 * printed. */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/bench_explain.h"

struct bench {
    const struct cli_args *a;
    struct tutti_comm *comm;
    struct bench_problem p;
    uint64_t begin, end, factor, iters, warmup;
    bool check, mem_tutti, explain, warmup_given;
    bool places[2];      /* out of place, in place: is it measured? */
    char plan_ranks[16]; /* of --plan: how many it is for; "": none */
    bool plan_apart;     /* it needs input and output apart */
    void *in, *out;      /* each large enough for either */
    struct tutti_json *json;
    /* so far */
    uint64_t wrong, measured;
    double busbw_sum;
};

struct bench_time {
    bool known;
    uint64_t wrong;
    double time_us, algbw, busbw;
};

struct bench_row {
    uint64_t bytes;             /* of the whole vector, as many as were moved */
    struct bench_time place[2]; /* out of place, in place */
    struct tutti_comm_plan_info plan;
    struct bench_explained explained; /* with --explain */
};

/* bench_measure.c. Collective. */
bool cli_bench_runs_in_place(tutti_coll coll);
tutti_status cli_bench_measure(const struct bench *b, bool in_place, struct bench_row *r);

/* bench_print.c: rank 0 prints; head and ranks are collective. */
tutti_status cli_bench_print_head(struct bench *b);
void cli_bench_print_row(const struct bench *b, const struct bench_row *r);
void cli_bench_print_end(struct bench *b);
#endif
