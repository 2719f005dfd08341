/* cores.c - do ranks have to share cores? It decides how to wait: with a dedicated core a short
 * spin is the fastest wait, on a shared core it keeps the awaited rank from running.
 *
 * Ranks under one kernel share its cores, whatever network or container they are in, so machines
 * are identified by the kernel's boot id alone. A launcher may have bound every rank to a core.
 * Ranks whose sets of cores overlap, directly or through other ranks, form a cluster; a rank is
 * crowded if its cluster has more ranks than cores.
 *
 *     ranks 0 {0,1}  1 {1,2}  2 {5}  3 {5}        cluster {0,1}: 3 cores, fine; {2,3}: 1 core,
 * crowded */
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

#include "meter/meter.h"

static uint64_t machine_id(void)
{
    char id[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, sizeof id) : -1;
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        n = gethostname(id, sizeof id - 1) == 0 ? (ssize_t)strlen(id) : 0;
    return tt_hash_bytes(3, id, (size_t)n);
}

void tt_meter_cores_self(struct tt_cores *ret)
{
    cpu_set_t set;
    *ret = (struct tt_cores){.machine = machine_id()};
    if (sched_getaffinity(0, sizeof set, &set) != 0)
        return; /* more cores than a set holds: an empty mask is never crowded */
    for (size_t i = 0; i < CPU_SETSIZE && i < TT_CORES_MAX; i++)
        if (CPU_ISSET(i, &set))
            ret->mask[i / 64] |= UINT64_C(1) << (i % 64);
}

static bool touch(const struct tt_cores *a, const uint64_t *mask)
{
    uint64_t both = 0;
    for (size_t i = 0; i < countof(a->mask); i++)
        both |= a->mask[i] & mask[i];
    return both != 0;
}

/* Adds to `mask` the cores of every rank that shares one with it, until nothing is added. Returns
 * the number of those ranks. Ends because the count only grows, up to n. */
static uint32_t cores_gather(const struct tt_cores *all, uint32_t n, uint64_t machine,
                             uint64_t *mask)
{
    uint32_t ranks = 0, before;
    do {
        before = ranks;
        ranks = 0;
        for (uint32_t r = 0; r < n; r++) {
            if (all[r].machine != machine || !touch(&all[r], mask))
                continue;
            ranks++;
            for (size_t i = 0; i < countof(all[r].mask); i++)
                mask[i] |= all[r].mask[i];
        }
    } while (ranks != before);
    return ranks;
}

bool tt_meter_cores_crowded(const struct tt_cores *all, uint32_t n, uint32_t me)
{
    uint64_t mask[countof(all->mask)];
    uint32_t cores = 0;
    memcpy(mask, all[me].mask, sizeof mask);
    uint32_t ranks = cores_gather(all, n, all[me].machine, mask);
    for (size_t i = 0; i < countof(mask); i++)
        cores += (uint32_t)__builtin_popcountll(mask[i]);
    return ranks > cores;
}
