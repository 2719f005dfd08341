/* crowds.c - all hosts send at once: which pairs are slowed down, and how much passes in and out
 * of a group.
 *
 * A crowd is a permutation: the host at place k of a shuffled circle sends to the host s places
 * further.
 *
 *     order 2 0 3 1, s = 1:   2 -> 0 -> 3 -> 1 -> 2
 *
 * One shuffle with all s contains every ordered pair once. Several shuffles put a pair into
 * different company, since it is slowed down only when enough others cross the same uplink. s =
 * hosts / 2 is left out: there two hosts send to each other over one connection, on which
 * requests would wait behind data. The shuffles are the same on all ranks and in every run. */
#include "probe/probe_int.h"

#include <stdlib.h>

enum { FEWEST_SHUFFLES = 3, SHUFFLES_FEW = 10, SHUFFLES = 6, FEW_HOSTS = 6, TRIES = 6 };

static uint32_t crowds_leader(const struct tt_probe *p, uint32_t host)
{
    return p->list[p->host[host].first];
}

void tt_probe_shuffle(struct tt_rng *rng, uint32_t *order, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        order[i] = i;
    for (uint32_t i = n; i > 1; i--) {
        uint32_t j = (uint32_t)tt_rng_below(rng, i), x = order[i - 1];
        order[i - 1] = order[j];
        order[j] = x;
    }
}

uint32_t tt_probe_shuffles(uint32_t hosts)
{
    return hosts <= FEW_HOSTS ? SHUFFLES_FEW : SHUFFLES;
}

/* Keeps the rates of the last try if their sum is the best so far. Rates of different tries are
 * never mixed, because two flows that share a link may take turns. In the sum (*best) each flow
 * counts at most what it reaches alone. Returns whether some pair is still slowed down. */
static bool judge_try(const struct tt_probing *m, const uint32_t *order, uint32_t shift,
                      double *best)
{
    const struct tt_probe *p = m->p;
    bool suffers = false;
    double sum = 0;
    for (uint32_t k = 0; k < p->hosts; k++) {
        uint64_t bw = tt_probe_last_rate(tt_probe_flow(m, k)),
                 alone = tt_probe_alone(p, order[k], order[(k + shift) % p->hosts]);
        sum += (double)(bw < alone ? bw : alone);
    }
    for (uint32_t k = 0; k < p->hosts; k++) {
        struct tt_probe_flow *f = tt_probe_flow(m, k);
        f->bw = sum > *best ? tt_probe_last_rate(f) : f->kept;
        f->kept = f->bw;
        suffers = suffers || tt_probe_suffers(p, order[k], order[(k + shift) % p->hosts], f->bw);
    }
    *best = sum > *best ? sum : *best;
    return suffers;
}

/* Measures one crowd and notes for each of its pairs the least rate in any crowd. */
static tutti_status crowds_crowd(struct tt_probing *m, const uint32_t *order, uint32_t shift)
{
    struct tt_probe *p = m->p;
    tutti_status st = TUTTI_OK;
    double best = 0;
    bool more = true;
    m->flows.len = 0;
    for (uint32_t k = 0; k < p->hosts; k++) {
        uint32_t a = order[k], b = order[(k + shift) % p->hosts];
        m->idle_ns = tt_probe_pair(p, a, b)->lat_ps / 500;
        struct tt_probe_flow *f =
            tt_probe_add(m, crowds_leader(p, a), crowds_leader(p, b), tt_probe_alone(p, a, b));
        if (!f)
            return tt_fail_memory(m->err, "flows");
        f->pulled = true; /* an answer would wait behind the receiver's own data */
    }
    /* A host that was busy with something else looks like a narrow network: try again while some
     * pair seems slow. */
    for (int i = 0; !st && more && i < TRIES; i++) {
        st = i ? tt_probe_rates_again(m) : tt_probe_rates_once(m);
        more = !st && judge_try(m, order, shift, &best);
    }
    for (uint32_t k = 0; !st && k < p->hosts; k++) {
        struct tt_probe_pair *x = tt_probe_pair(p, order[k], order[(k + shift) % p->hosts]);
        uint64_t bw = tt_probe_flow(m, k)->bw;
        x->crowd = x->crowds++ && x->crowd < bw ? x->crowd : bw;
    }
    return st;
}

tutti_status tt_probe_crowds(struct tt_probing *m)
{
    uint32_t n = m->p->hosts, times = tt_probe_shuffles(n);
    uint32_t *order = tt_alloc(n, sizeof *order);
    tutti_status st = order ? TUTTI_OK : tt_fail_memory(m->err, "crowd");
    struct tt_rng rng;
    tt_rng_seed(&rng, TT_PROBE_SEED);
    /* Fewer than 4 hosts have no groups (cluster.c). */
    bool time = n >= 4;
    uint32_t done = 0;
    for (uint32_t i = 0; !st && time && i < times; i++) {
        tt_probe_shuffle(&rng, order, n);
        /* A shuffle counts as done only if time allowed all of its crowds. 95 %: the rest is for
         * the uplinks. */
        for (uint32_t s = 1; !st && s < n && (time = tt_probe_time_left(m, 95)); s++)
            if (2 * s != n)
                st = crowds_crowd(m, order, s);
        done += time;
    }
    m->p->crowded = done >= FEWEST_SHUFFLES;
    free(order);
    return st;
}

/* One flow from (or to) every host of the group; the hosts outside take turns as the other end. */
static tutti_status uplink_flows(struct tt_probing *m, uint32_t group, bool in)
{
    const struct tt_probe *p = m->p;
    uint32_t outside = p->hosts - p->group[group].hosts, o = 0;
    /* the most flows that one outside host takes part in */
    uint32_t each = (p->group[group].hosts + outside - 1) / outside;
    m->flows.len = 0;
    for (uint32_t h = 0; h < p->hosts; h++) {
        if (p->host[h].group != group)
            continue;
        /* Ends: with several groups there are hosts outside this one. */
        while (p->host[o].group == group)
            o = (o + 1) % p->hosts;
        uint32_t a = in ? o : h, b = in ? h : o;
        m->idle_ns = tt_probe_pair(p, a, b)->lat_ps / 500;
        if (!tt_probe_add(m, crowds_leader(p, a), crowds_leader(p, b),
                          tt_probe_alone(p, a, b) / each))
            return tt_fail_memory(m->err, "flows");
        o = (o + 1) % p->hosts;
    }
    return TUTTI_OK;
}

/* The sum that the flows of the round would reach if only their hosts' own links limited them. */
static uint64_t unhindered(const struct tt_probing *m)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < m->flows.len; i++)
        sum += tt_probe_flow(m, i)->guess;
    return sum;
}

/* Measures the uplink of each group with several hosts, both directions. Groups without any
 * uplink narrower than its hosts' links are refuted. */
tutti_status tt_probe_uplinks(struct tt_probing *m)
{
    struct tt_probe *p = m->p;
    tutti_status st = TUTTI_OK;
    bool narrow = p->groups == 1;
    for (uint32_t g = 0; !st && p->groups > 1 && g < p->groups; g++)
        for (int in = 0; !st && p->group[g].hosts > 1 && in < 2; in++) {
            uint64_t *bw = in ? &p->group[g].down : &p->group[g].up;
            st = uplink_flows(m, g, in);
            if (!st)
                st = tt_probe_joint(m, bw);
            narrow = narrow || (!st && *bw < unhindered(m) / 100 * 80);
        }
    if (!st && !narrow)
        tt_probe_ungroup(p);
    return st;
}
