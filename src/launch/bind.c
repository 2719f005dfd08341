/* bind.c - cores for the ranks of one machine. Each rank gets an equal share of the cores that
 * the launcher may use, in their order, when there is at least one for each. With fewer cores
 * than ranks no rank is bound: the kernel then spreads the load better than fixed places would. */
#include <sched.h>

#include "launch/job.h"

int launch_bind_share(const struct launch_place *p, const char **ret_what)
{
    cpu_set_t all, mine;
    *ret_what = "binding to cores";
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        return -1;
    uint32_t cores = (uint32_t)CPU_COUNT(&all), seen = 0;
    if (cores < p->local_size)
        return 0;
    /* Rank i of n gets cores [i * cores / n, (i + 1) * cores / n): the shares differ by at most
     * one. */
    uint32_t from = (uint32_t)((uint64_t)cores * p->local_rank / p->local_size);
    uint32_t to = (uint32_t)((uint64_t)cores * (p->local_rank + 1) / p->local_size);
    CPU_ZERO(&mine);
    for (size_t i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all))
            continue;
        if (seen >= from && seen < to)
            CPU_SET(i, &mine);
        seen++;
    }
    return sched_setaffinity(0, sizeof mine, &mine);
}
