/* cost.c - answers the policy's question: the predicted time of a collective on the trainer's
 * communicator.
 *
 * Planning takes milliseconds and the policy asks for thousands of sizes. So only powers of two are
 * planned, and the time of a size between two of them is interpolated linearly: exact where time is
 * latency + bytes / bandwidth. The result is the same on all ranks, since it is computed in
 * integers from speeds that are the same on all ranks. */
#include "train/train_int.h"

enum { SMALLEST = 6 }; /* 64 bytes: smaller messages cost latency only */

/* The price of 2^power bytes, planned once; UINT64_MAX: there is no such plan. */
static uint64_t cost_ask(struct tt_train_costs *x, tutti_coll coll, enum tt_policy_algo algo,
                         unsigned power)
{
    uint64_t *kept = &x->grid[coll == TUTTI_ALLREDUCE        ? 0
                              : coll == TUTTI_REDUCE_SCATTER ? 1
                                                             : 2][algo][power];
    struct tutti_error err;
    if (*kept)
        return *kept;
    size_t elems = ((size_t)1 << power) / 4, ranks = tt_comm_size(x->comm);
    struct tt_call call = {.coll = coll,
                           .dtype = TUTTI_F32,
                           .algo = algo == TT_POLICY_AUTO ? NULL : tt_policy_algo_name(algo)};
    call.count = coll == TUTTI_ALLREDUCE ? elems : (elems + ranks - 1) / ranks;
    if (tt_comm_predict(x->comm, &call, kept, &err))
        *kept = UINT64_MAX;
    *kept += *kept == 0; /* one rank: free, but 0 means "not asked yet" */
    return *kept;
}

uint64_t tt_train_cost(void *costs, tutti_coll coll, enum tt_policy_algo algo, uint64_t bytes)
{
    unsigned power = bytes > 1 ? 63 - (unsigned)__builtin_clzll(bytes) : 0;
    if (power < SMALLEST)
        return cost_ask(costs, coll, algo, SMALLEST);
    uint64_t low = cost_ask(costs, coll, algo, power), from = (uint64_t)1 << power;
    if (bytes == from || low == UINT64_MAX)
        return low;
    uint64_t high = cost_ask(costs, coll, algo, power + 1);
    if (high == UINT64_MAX || high < low)
        return high == UINT64_MAX ? high : low;
    return low + (uint64_t)((__uint128_t)(high - low) * (bytes - from) / from);
}
