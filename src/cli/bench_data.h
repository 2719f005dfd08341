/* bench_data.h - the data that bench sends and the results it expects: small whole numbers that
 * every data type holds exactly, so that sums in any order have the same bits. */
#ifndef CLI_BENCH_DATA_H
#define CLI_BENCH_DATA_H

#include "cli/cli.h"

/* The measured call on one rank. Rooted collectives have root 0. */
struct bench_problem {
    tutti_coll coll;
    tutti_dtype dtype;
    tutti_redop op;
    uint32_t rank, ranks;
    size_t count; /* as the public functions count it */
    bool own;     /* buffers of tutti_mem_alloc */
};
size_t cli_bench_in_elems(const struct bench_problem *p);  /* elements of the input buffer */
size_t cli_bench_out_elems(const struct bench_problem *p); /* of the output buffer */
void cli_bench_fill(const struct bench_problem *p, void *in);
/* The number of elements of `out` that do not have the expected value. */
uint64_t cli_bench_wrong(const struct bench_problem *p, const void *out);
#endif
