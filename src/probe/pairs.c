/* pairs.c - disjoint pairs in rounds, and fans.
 *
 * Rounds follow the circle method of tournaments. For 6 players: player 5 stays, the others move
 * one place per round; opposite players meet.
 *
 *     round 0: 5-0 1-4 2-3     round 1: 5-1 2-0 3-4     round 2: 5-2 3-1 4-0     ...
 *     n-1 rounds (n odd: n, and one player pauses in each)
 *
 * Every two players meet once, and n/2 pairs are measured at the same time, so the time grows
 * linearly with n, not quadratically. Between hosts the first rank of each takes part. The rate
 * of an interface is that of its pairs, or of its fan if that is higher: a host faster than each
 * of the others shows its rate only to several at once. */
#include "probe/probe_int.h"

#include <stdlib.h>

bool tt_probe_match(uint32_t n, uint32_t round, uint32_t i, uint32_t *ret)
{
    /* the players that move are 0 .. m-1; player m stays (with n odd there is none, and its
     * opponent pauses) */
    uint32_t odd = n % 2, m = n + odd - 1;
    uint32_t j;
    if (i == m)
        j = round;
    else if (i == round % m)
        j = m;
    else
        j = (2 * round + m - i) % m;
    if (j >= n)
        return false;
    *ret = j;
    return true;
}

static uint32_t pairs_leader(const struct tt_probe *p, uint32_t host)
{
    return p->list[p->host[host].first];
}

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- inside hosts ---- */

/* The pairs of ranks of all hosts in this round, as flows through memory. Smaller hosts have
 * fewer rounds and pause afterwards. */
static tutti_status memory_round(struct tt_probing *m, uint32_t round)
{
    const struct tt_probe *p = m->p;
    m->flows.len = 0;
    for (uint32_t h = 0; h < p->hosts; h++) {
        const struct tt_probe_host *x = &p->host[h];
        uint32_t rounds = x->nranks - 1 + x->nranks % 2;
        for (uint32_t i = 0, j; round < rounds && i < x->nranks; i++)
            if (tt_probe_match(x->nranks, round, i, &j) && i < j)
                if (!tt_probe_add(m, p->list[x->first + i], p->list[x->first + j],
                                  m->speeds.shm.bw))
                    return tt_fail_memory(m->err, "flows");
    }
    return TUTTI_OK;
}

static struct tt_probe_host *host_of(const struct tt_probe *p, uint32_t rank)
{
    for (uint32_t h = 0; h < p->hosts; h++)
        for (uint32_t i = 0; i < p->host[h].nranks; i++)
            if (p->list[p->host[h].first + i] == rank)
                return &p->host[h];
    return NULL;
}

/* The best bandwidth and latency of each host's memory. The first round is always run; the
 * others while the phase's share of the budget lasts. ns is there and back: 500 ps of latency
 * per ns. */
tutti_status tt_probe_memory(struct tt_probing *m)
{
    uint32_t largest = 0;
    tutti_status st = TUTTI_OK;
    for (uint32_t h = 0; h < m->p->hosts; h++)
        largest = m->p->host[h].nranks > largest ? m->p->host[h].nranks : largest;
    unsigned share = m->p->hosts > 1 ? 20 : 100;
    for (uint32_t r = 0; !st && r < largest && (r == 0 || tt_probe_time_left(m, share)); r++) {
        st = memory_round(m, r);
        if (!st)
            st = tt_probe_latency(m);
        for (size_t i = 0; !st && i < m->flows.len; i++) {
            struct tt_probe_host *x = host_of(m->p, tt_probe_flow(m, i)->from);
            uint64_t ps = tt_probe_flow(m, i)->ns * 500;
            x->memory_lat_ps = x->memory_lat_ps && x->memory_lat_ps < ps ? x->memory_lat_ps : ps;
            tt_probe_flow(m, i)->idle_ns = tt_probe_flow(m, i)->ns;
        }
        if (!st)
            st = tt_probe_rates(m, true);
        for (size_t i = 0; !st && i < m->flows.len; i++) {
            struct tt_probe_host *x = host_of(m->p, tt_probe_flow(m, i)->from);
            x->memory_bw = most(x->memory_bw, tt_probe_flow(m, i)->bw);
        }
    }
    return st;
}

/* ---- between hosts ---- */

/* The pairs of a round as flows from the lower to the higher host, or, with `back`, in the other
 * direction. */
static tutti_status pair_round(struct tt_probing *m, uint32_t round, bool back)
{
    const struct tt_probe *p = m->p;
    m->flows.len = 0;
    for (uint32_t i = 0, j; i < p->hosts; i++) {
        if (!tt_probe_match(p->hosts, round, i, &j) || j < i)
            continue;
        uint32_t a = back ? j : i, b = back ? i : j;
        m->idle_ns = tt_probe_pair(p, a, b)->lat_ps / 500;
        if (!tt_probe_add(m, pairs_leader(p, a), pairs_leader(p, b), m->speeds.tcp.bw))
            return tt_fail_memory(m->err, "flows");
    }
    return TUTTI_OK;
}

/* Stores the rates of a round; goes through the pairs in the order of pair_round. */
static void keep_round(struct tt_probing *m, uint32_t round, bool back)
{
    struct tt_probe *p = m->p;
    size_t at = 0;
    for (uint32_t i = 0, j; i < p->hosts; i++) {
        if (!tt_probe_match(p->hosts, round, i, &j) || j < i)
            continue;
        uint32_t a = back ? j : i, b = back ? i : j;
        uint64_t bw = tt_probe_flow(m, at++)->bw;
        tt_probe_pair(p, a, b)->bw = bw;
        p->host[a].up = most(p->host[a].up, bw);
        p->host[b].down = most(p->host[b].down, bw);
        p->pairs++;
    }
}

/* Latency is measured once for both directions: a round trip contains both. */
static tutti_status pair_latency(struct tt_probing *m, uint32_t round)
{
    struct tt_probe *p = m->p;
    size_t at = 0;
    tutti_status st = pair_round(m, round, false);
    if (!st)
        st = tt_probe_latency(m);
    for (uint32_t i = 0, j; !st && i < p->hosts; i++)
        if (tt_probe_match(p->hosts, round, i, &j) && i < j)
            tt_probe_pair(p, i, j)->lat_ps = tt_probe_pair(p, j, i)->lat_ps =
                tt_probe_flow(m, at++)->ns * 500;
    return st;
}

tutti_status tt_probe_pairs(struct tt_probing *m)
{
    uint32_t n = m->p->hosts, rounds = n - 1 + n % 2;
    tutti_status st = TUTTI_OK;
    for (uint32_t r = 0; !st && r < rounds && (r == 0 || tt_probe_time_left(m, 50)); r++) {
        /* each round has its share of the time */
        m->until_ns = m->budget_ns / 2 / rounds * (r + 1);
        st = pair_latency(m, r);
        for (int back = 0; !st && back < 2; back++) {
            st = pair_round(m, r, back);
            if (!st)
                st = tt_probe_rates(m, true);
            if (!st)
                keep_round(m, r, back);
        }
    }
    m->until_ns = 0;
    return st;
}

/* ---- fans ---- */

enum { FAN_HOSTS = 8, FAN_FLOWS = 16, NEAR_MAX = 32 };

static uint32_t fan_peers(const struct tt_probe *p)
{
    return p->hosts - 1 < FAN_HOSTS ? p->hosts - 1 : FAN_HOSTS;
}

/* The k-th host of h's fan, never h itself; spread over all hosts. */
static uint32_t fan_peer(const struct tt_probe *p, uint32_t h, uint32_t k)
{
    uint32_t peers = fan_peers(p), stride = (p->hosts - 1) / peers;
    return (h + 1 + k % peers * stride) % p->hosts;
}

/* Flows between host h and several others, using all of h's ranks in turn. The guesses are
 * scaled such that all flows end together if h's own link is as wide as its best pair showed. */
static tutti_status fan_flows(struct tt_probing *m, uint32_t h, bool in)
{
    const struct tt_probe *p = m->p;
    const struct tt_probe_host *x = &p->host[h];
    uint32_t peers = fan_peers(p), n = x->nranks > peers ? x->nranks : peers;
    uint64_t own = in ? x->down : x->up, sum = 0;
    n = n < FAN_FLOWS ? n : FAN_FLOWS;
    m->flows.len = 0;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t other = fan_peer(p, h, k);
        const struct tt_probe_host *y = &p->host[other];
        m->idle_ns = tt_probe_pair(p, h, other)->lat_ps / 500;
        uint32_t mine = p->list[x->first + k % x->nranks],
                 theirs = p->list[y->first + k / peers % y->nranks];
        uint64_t guess = in ? y->up : y->down;
        guess = guess < own ? guess : own;
        sum += guess;
        struct tt_probe_flow *f = tt_probe_add(m, in ? theirs : mine, in ? mine : theirs, guess);
        if (!f)
            return tt_fail_memory(m->err, "flows");
        f->pulled = in; /* incoming flows are all timed by h's own clock */
    }
    for (size_t i = 0; i < m->flows.len; i++) {
        struct tt_probe_flow *f = tt_probe_flow(m, i);
        f->guess = 1 + (uint64_t)((double)f->guess * (double)own / (double)(sum + !sum));
    }
    return TUTTI_OK;
}

static int pairs_rising(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* The rate of an interface from its pairs and its fan. If the fan is well above the best pair,
 * the interface is wider than any partner's and the fan counts. Otherwise the median of all
 * figures near the best counts, since the best alone is the luckiest. */
static uint64_t pairs_settle(const struct tt_probe *p, uint32_t h, bool in, uint64_t fan)
{
    uint64_t best = in ? p->host[h].down : p->host[h].up, near[NEAR_MAX], n = 0;
    if (fan > best / 100 * 115)
        return fan;
    for (uint32_t q = 0; q < p->hosts && n + 1 < NEAR_MAX; q++) {
        uint64_t bw = (in ? tt_probe_pair(p, q, h) : tt_probe_pair(p, h, q))->bw;
        if (bw > best / 100 * 85)
            near[n++] = bw;
    }
    if (fan > best / 100 * 85)
        near[n++] = fan;
    qsort(near, n, sizeof near[0], pairs_rising);
    return n ? (near[(n - 1) / 2] + near[n / 2]) / 2 : best;
}

/* `reach`: what the fan's partners could take (or give) together. If h comes near that, the
 * partners may have been the limit, and its rate is only "at least". */
static void keep_fan(struct tt_probe *p, uint32_t h, bool in, uint64_t total)
{
    struct tt_probe_host *x = &p->host[h];
    uint64_t *own = in ? &x->down : &x->up, reach = 0;
    for (uint32_t k = 0; k < fan_peers(p); k++) {
        const struct tt_probe_host *y = &p->host[fan_peer(p, h, k)];
        reach += in ? y->up : y->down;
    }
    *own = pairs_settle(p, h, in, total);
    *(in ? &x->down_at_least : &x->up_at_least) = *own > reach / 100 * 85;
}

tutti_status tt_probe_fans(struct tt_probing *m)
{
    uint64_t total = 0;
    tutti_status st = TUTTI_OK;
    /* With two hosts the fan is the pair. */
    for (uint32_t h = 0; !st && m->p->hosts > 2 && h < m->p->hosts && tt_probe_time_left(m, 70);
         h++)
        for (int in = 0; !st && in < 2; in++) {
            st = fan_flows(m, h, in);
            if (!st)
                st = tt_probe_joint(m, &total);
            if (!st)
                keep_fan(m->p, h, in, total);
        }
    return st;
}
