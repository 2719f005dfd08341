/* bench_data.h - what bench sends and expects: small whole numbers that every data type holds
 * exactly, so that sums of any order have the same bits. */
#ifndef CLI_BENCH_DATA_H
#define CLI_BENCH_DATA_H

#include "cli/cli.h"

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
/* Elements of `out` that are not what they must be. */
uint64_t cli_bench_wrong(const struct bench_problem *p, const void *out);
#endif
