/* cluster.c - groups of hosts behind shared uplinks, from what crowds did to pairs.
 *
 * When every host sends to one and receives from one, a flow inside a group has its two interfaces
 * for itself and is as fast as alone; a flow between groups shares uplinks and is slower whenever
 * enough others cross them. So: a pair that some crowd slowed down (either way) is *far*; a pair
 * that was in enough crowds and never suffered is *near*. A group is a set of hosts all near to
 * each other:
 *
 *     hosts 0 1 2 3, uplinks of {0 1} and {2 3} as fast as one host:
 *        0 -> 1 -> 0, 2 -> 3 -> 2      nobody suffers
 *        0 -> 2, 1 -> 3, 2 -> 0, 3 -> 1   all at half their rate: 02, 13 far
 *        0 -> 3, 1 -> 2, ...           the same: 03, 12 far          => {0 1} {2 3}
 *
 * Hosts are taken in order and join the first group whose members are all near. Far pairs inside a
 * group cannot happen then; near pairs of two groups can (crowds that happened not to cross there).
 * When more than a tenth of the pairs are such, groups do not explain what was measured: all hosts
 * stay one group, and the result is marked unsure; so when afterwards no uplink of a group proves
 * narrower than its hosts' own links together (crowds.c). All hosts alone says the same of a
 * network whose middle is narrow. Few hosts alone and all others together share nothing: what slows
 * their pairs down in a crowd is at those hosts (where fast ones send to a slow one its port has a
 * long queue, and what it sends itself waits for answers from behind it), so that nothing is left
 * to explain. Cost: hosts squared. */
#include "probe/probe.h"

enum { ENOUGH = 4, FEWEST_HOSTS = 4, FEW = 4 }; /* FEW: a quarter */

bool tt_probe_suffers(const struct tt_probe *p, uint32_t from, uint32_t to, uint64_t bw)
{
    return bw < tt_probe_alone(p, from, to) / 100 * 65;
}

static bool slowed(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    const struct tt_probe_pair *x = tt_probe_pair(p, a, b);
    return x->crowds && tt_probe_suffers(p, a, b, x->crowd);
}

static bool far(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    return slowed(p, a, b) || slowed(p, b, a);
}

static bool near(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    return !far(p, a, b) &&
           tt_probe_pair(p, a, b)->crowds + tt_probe_pair(p, b, a)->crowds >= ENOUGH;
}

static bool cluster_fits(const struct tt_probe *p, uint32_t h, uint32_t group)
{
    for (uint32_t q = 0; q < h; q++)
        if (p->host[q].group == group && !near(p, q, h))
            return false;
    return true;
}

static void one_group(struct tt_probe *p)
{
    p->groups = 1;
    p->group[0] = (struct tt_probe_group){.hosts = p->hosts};
    for (uint32_t h = 0; h < p->hosts; h++)
        p->host[h].group = 0;
}

/* Pairs of different groups that no crowd has separated. */
static uint64_t unexplained(const struct tt_probe *p)
{
    uint64_t n = 0;
    for (uint32_t a = 0; a < p->hosts; a++)
        for (uint32_t b = 0; b < a; b++)
            n += p->host[a].group != p->host[b].group && !far(p, a, b);
    return n;
}

static bool any_far(const struct tt_probe *p)
{
    for (uint32_t a = 0; a < p->hosts; a++)
        for (uint32_t b = 0; b < a; b++)
            if (far(p, a, b))
                return true;
    return false;
}

void tt_probe_ungroup(struct tt_probe *p)
{
    one_group(p);
    p->unsure = true;
}

/* Are there few hosts that are alone, and all others together? */
static bool at_few_hosts(const struct tt_probe *p)
{
    uint32_t alone = 0;
    for (uint32_t g = 0; g < p->groups; g++)
        alone += p->group[g].hosts == 1;
    return p->groups == alone + 1 && alone <= p->hosts / FEW;
}

void tt_probe_cluster(struct tt_probe *p)
{
    uint64_t pairs = (uint64_t)p->hosts * (p->hosts - 1) / 2;
    one_group(p);
    p->unsure = false;
    if (p->hosts < FEWEST_HOSTS || !p->crowded || !any_far(p))
        return;
    p->groups = 0;
    for (uint32_t h = 0; h < p->hosts; h++) {
        uint32_t g = 0;
        while (g < p->groups && !cluster_fits(p, h, g))
            g++;
        if (g == p->groups)
            p->group[p->groups++] = (struct tt_probe_group){0};
        p->host[h].group = g;
        p->group[g].hosts++;
    }
    if (at_few_hosts(p))
        one_group(p);
    else if (p->groups == 1 || p->groups == p->hosts || unexplained(p) * 10 > pairs)
        tt_probe_ungroup(p);
}
