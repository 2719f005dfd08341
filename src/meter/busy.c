/* busy.c - did other processes use the cores while speeds were measured?
 *
 * The kernel counts the CPU time of all processes of a machine, and each process its own. The
 * machine's total minus that of the ranks is the use by others. It matters only as far as it takes
 * cores that the ranks want:
 *
 *     4 cores, 2 ranks, others use 1.5    |rank|rank|others|oth.|    nothing lost: taken 0
 *     2 cores, 4 ranks, others use 0.5    |ranks         |others|    a quarter: taken 250 per mille
 *
 * The kernel counts in ticks of 10 ms, which is accurate enough for measurements of 100 ms and
 * more. Without /proc/stat nothing is known, and the result is 0. */
#include <inttypes.h>
#include <time.h>
#include <unistd.h>

#include "meter/meter.h"

/* User, nice and system time of all cores together, in ns; 0: not known. */
static uint64_t used_by_all(void)
{
    uint64_t user, nice, system;
    long hz = sysconf(_SC_CLK_TCK);
    FILE *in = fopen("/proc/stat", "re");
    int n = in ? fscanf(in, "cpu %" SCNu64 " %" SCNu64 " %" SCNu64, &user, &nice, &system) : 0;
    if (in)
        fclose(in);
    return n == 3 && hz > 0 ? (user + nice + system) * (1000000000u / (uint64_t)hz) : 0;
}

static uint64_t used_by_us(void)
{
    struct timespec t = {0};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void tt_meter_busy_now(struct tt_busy *ret)
{
    struct tt_cores cores;
    long n = sysconf(_SC_NPROCESSORS_ONLN);
    tt_meter_cores_self(&cores);
    *ret = (struct tt_busy){.machine = cores.machine,
                            .wall_ns = tt_now_ns(),
                            .own_ns = used_by_us(),
                            .all_ns = used_by_all(),
                            .cores = n > 0 ? (uint32_t)n : 1};
}

void tt_meter_busy_since(struct tt_busy *b)
{
    struct tt_busy now;
    tt_meter_busy_now(&now);
    b->wall_ns = now.wall_ns - b->wall_ns;
    b->own_ns = now.own_ns - b->own_ns;
    b->all_ns = b->all_ns && now.all_ns > b->all_ns ? now.all_ns - b->all_ns : 0;
}

/* Per mille of the CPU time wanted by the ranks on rank r's machine that others used. */
static uint64_t taken_at(const struct tt_busy *all, uint32_t n, uint32_t r)
{
    const struct tt_busy *b = &all[r];
    uint64_t own = 0, ranks = 0;
    for (uint32_t i = 0; i < n; i++) {
        own += all[i].machine == b->machine ? all[i].own_ns : 0;
        ranks += all[i].machine == b->machine;
    }
    uint64_t have = b->cores * b->wall_ns,
             want = (ranks < b->cores ? ranks : b->cores) * b->wall_ns;
    uint64_t others = b->all_ns > own ? b->all_ns - own : 0;
    uint64_t lost = others + want > have ? others + want - have : 0;
    return !want ? 0 : lost > want ? 1000 : lost * 1000 / want;
}

uint32_t tt_meter_busy_taken(const struct tt_busy *all, uint32_t n)
{
    uint64_t most = 0;
    for (uint32_t r = 0; r < n; r++) {
        bool first = true; /* of its machine */
        for (uint32_t i = 0; i < r && first; i++)
            first = all[i].machine != all[r].machine;
        uint64_t taken = first ? taken_at(all, n, r) : 0;
        most = taken > most ? taken : most;
    }
    return (uint32_t)most;
}
