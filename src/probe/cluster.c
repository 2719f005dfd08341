/* cluster.c - finds groups of hosts behind shared uplinks from what crowds did to pairs, and from
 * pairs that are slow by themselves.
 *
 * In a crowd every host sends to one host and receives from one. A flow inside a group then has
 * its two interfaces to itself and is as fast as alone; a flow between groups shares uplinks and
 * is slower whenever enough others cross them. A pair that some crowd slowed down, in either
 * direction, is *far*. A pair that was in enough crowds and was never slowed down is *near*. A
 * group is a set of hosts that are all near to each other:
 *
 *     hosts 0 1 2 3, uplinks of {0 1} and {2 3} as fast as one host:
 *        0 -> 1 -> 0, 2 -> 3 -> 2         no pair is slowed down
 *        0 -> 2, 1 -> 3, 2 -> 0, 3 -> 1   all at half their rate: 02, 13 far
 *        0 -> 3, 1 -> 2, ...              the same: 03, 12 far          => {0 1} {2 3}
 *
 * An uplink that is narrower than its hosts' links slows pairs down without a crowd: a pair that is
 * slow in both directions, although both its ends are faster with others, is far too. That needs no
 * more time than the pairs themselves. On a busy machine there may be none for crowds; then near is
 * what is not far, and only such uplinks are seen.
 *
 * Hosts are taken in order; each joins the first group whose members are all near to it. A group
 * therefore contains no far pair. Two groups may have near pairs between them, where no crowd
 * happened to fill the uplink. If these are more than a tenth of all pairs, groups do not
 * explain the measurements: all hosts stay one group and the result is marked unsure. The same
 * happens when every host ends up alone (a network with a narrow middle), and when later no
 * uplink proves narrower than its hosts' own links together (crowds.c).
 *
 * If a few hosts are alone and all others are together, no uplink is shared: the cause lies at
 * those hosts. (Where fast hosts send to a slow one, its port has a long queue, and what the
 * slow host sends waits for answers behind that queue.) There is then nothing left to explain.
 *
 * Cost: hosts squared. */
#include "probe/probe.h"

/* FEW: a quarter of the hosts; ENOUGH: crowds of a pair */
enum { ENOUGH = 4, FEWEST_HOSTS = 4, FEW = 4 };

/* 65 %: two flows that share a link get half of it each. */
bool tt_probe_suffers(const struct tt_probe *p, uint32_t from, uint32_t to, uint64_t bw)
{
    return bw < tt_probe_alone(p, from, to) / 100 * 65;
}

static bool slowed(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    const struct tt_probe_pair *x = tt_probe_pair(p, a, b);
    return x->crowds && tt_probe_suffers(p, a, b, x->crowd);
}

/* Both directions: a busy moment of the machine slows down one. */
static bool narrow(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    const uint64_t there = tt_probe_pair(p, a, b)->bw, back = tt_probe_pair(p, b, a)->bw;
    return there && back && tt_probe_suffers(p, a, b, there) && tt_probe_suffers(p, b, a, back);
}

static bool far(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    return slowed(p, a, b) || slowed(p, b, a) || narrow(p, a, b);
}

/* Not far, and seen in enough crowds that this means something; without crowds, measured. */
static bool near(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    const struct tt_probe_pair *x = tt_probe_pair(p, a, b), *y = tt_probe_pair(p, b, a);
    return !far(p, a, b) && (p->crowded ? x->crowds + y->crowds >= ENOUGH : x->bw && y->bw);
}

/* Is host h near to every member of the group among the hosts placed so far, 0 .. h-1? */
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

/* Pairs of different groups that no crowd has slowed down. */
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

/* Are few hosts alone and all others in one group? */
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
    if (p->hosts < FEWEST_HOSTS || !any_far(p))
        return;
    p->groups = 0;
    /* Invariant: hosts 0 .. h-1 are placed, and all pairs inside a group are near. */
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
