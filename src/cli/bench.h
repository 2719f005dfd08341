/* bench.h - what the files of tutti bench share: the state of a run, a row of its table, and the
 * functions that measure and print them.
 *
 *     cmd_bench.c: options, loop over sizes
 *         |--> bench_measure.c: times of one size --> bench_data.c: input, check of the output
 *         |--> bench_explain.c: what ran (--explain)
 *         |--> bench_html.c: the page of all rows (--html)
 *         '--> bench_print.c: a row */
#ifndef CLI_BENCH_H
#define CLI_BENCH_H

#include "cli/bench_explain.h"

/* One run of bench on one rank. All ranks parse the same command line and hold the same values,
 * apart from `rank`, the buffers and what only rank 0 prints. */
struct bench {
    const struct cli_args *a;
    struct tutti_comm *comm;
    struct bench_problem p;
    /* sizes in bytes from begin to end, each `factor` times the one before; iters 0: chosen by
     * time */
    uint64_t begin, end, factor, iters, warmup;
    /* mem_tutti: buffers of tutti_mem_alloc; warmup_given: --warmup was given, even as 0 */
    bool check, mem_tutti, explain, warmup_given;
    bool places[2];      /* [0]: measure out of place, [1]: in place */
    char plan_ranks[16]; /* ranks that the file of --plan is for; "": no --plan */
    bool plan_apart;     /* that plan needs input and output apart */
    void *in, *out;      /* each large enough for input and for output */
    struct tutti_json *json;
    char doubts[2][200];    /* on rank 0: why predictions may be off, a sentence each, or "" */
    struct bench_row *rows; /* on rank 0, for --html */
    size_t nrows;
    /* sums over the rows so far */
    uint64_t wrong, measured;
    double busbw_sum;
};

/* One measurement. `known` is false when this way was not measured; then the rest is 0. */
struct bench_time {
    bool known;
    uint64_t wrong;
    /* per call; GB/s of bytes / time, and corrected by the bus factor */
    double time_us, algbw, busbw;
};

struct bench_row {
    uint64_t bytes;             /* of the whole vector, rounded to what was really moved */
    struct bench_time place[2]; /* out of place, in place */
    struct tutti_comm_plan_info plan;
    struct bench_explained explained; /* with --explain */
};

/* bench_measure.c: both ways of calling a collective. cli_bench_measure is collective, fills
 * r->place[in_place], and reads r->bytes. */
bool cli_bench_runs_in_place(tutti_coll coll);
tutti_status cli_bench_measure(const struct bench *b, bool in_place, struct bench_row *r);

/* bench_html.c, on rank 0: keeps a row for the page; writes the page. Return 0 or the exit code. */
int cli_bench_keep(struct bench *b, const struct bench_row *r);
int cli_bench_page(const struct bench *b);

/* bench_print.c: only rank 0 prints. print_head is collective (it gathers the hosts of all
 * ranks); the other two are called by rank 0 alone. */
tutti_status cli_bench_print_head(struct bench *b);
void cli_bench_print_row(const struct bench *b, const struct bench_row *r);
void cli_bench_print_end(struct bench *b);
#endif
