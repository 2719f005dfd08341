/* measure_rates.c - how fast every host sends and receives: messages between hosts, two by two, all
 * pairs of a round at once.
 *
 * Between hosts i and j the rate is the lower of what i can send and what j can receive. So each
 * host meets a few others in turn, in both directions, and the best of these counts:
 *
 *     round 0   0 - 3   1 - 2         out[i] = max over j of rate(i -> j)
 *     round 1   1 - 3   0 - 2          in[j] = max over i of rate(i -> j)
 *     round 2   2 - 3   0 - 1         the first rank of a host stands for it
 *
 * A host looks slow when all that it met are slow, which takes several slow hosts. The receiver
 * takes the time between the first message and the last: the first one bears what connections,
 * windows and traffic shapers do at the beginning. Messages are as long as a measured pair needs
 * MESSAGE_NS for. Rounds end when rank 0 has spent LIMIT_NS. All ranks see all times and compute
 * the same rates. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "comm/measure.h"

enum { ROUNDS = 3, MORE = 4, LEAST_BYTES = 64 << 10 };
static const int64_t NOBODY = -1;
static const uint64_t MESSAGE_NS = 2000000, LIMIT_NS = 400000000;

struct note {          /* sent by all to all after a run */
    uint64_t ns;       /* of MORE messages; 0: this rank received nothing */
    uint64_t spent_ns; /* since the beginning; rank 0's counts */
};
struct rates {
    struct measure *m;
    struct tt_hosts hosts;
    struct note *all;
    uint64_t bytes, begin_ns;
};

/* Whom a host meets in a round; NOBODY: it pauses. A tournament: in round k, i meets j when i + j =
 * 2k modulo an odd number; one that would meet itself meets the last host. */
static int64_t partner(uint32_t host, uint32_t hosts, uint32_t round)
{
    const uint32_t odd = (hosts - 1) | 1;
    if (host == odd)
        return round % odd;
    uint32_t other = (2 * round % odd + odd - host) % odd;
    if (other != host)
        return other;
    return odd < hosts ? (int64_t)odd : NOBODY;
}

/* Does `host` send in this run, given its partner? Both directions come one after the other. */
static bool sends(uint32_t host, int64_t other, bool back)
{
    return (host < other) != back;
}

/* The message of this rank: its own pair, or two other ranks, whose message it takes no part in. */
static void find_pair(const struct rates *x, uint32_t round, bool back, uint32_t ret[2])
{
    const uint32_t rank = x->m->c->rank, host = x->hosts.of[rank];
    const int64_t other = x->hosts.first[host] == rank ? partner(host, x->hosts.n, round) : NOBODY;
    if (other == NOBODY) {
        ret[0] = (rank + 1) % x->m->c->size;
        ret[1] = (rank + 2) % x->m->c->size;
        return;
    }
    const uint32_t peer = x->hosts.first[other];
    ret[0] = sends(host, other, back) ? rank : peer;
    ret[1] = sends(host, other, back) ? peer : rank;
}

/* MORE + 1 messages of every pair; the time of all but the first. */
static tutti_status rates_run(struct rates *x, uint32_t round, bool back)
{
    struct measure *m = x->m;
    struct tt_sched *s = NULL;
    struct note mine = {0};
    uint32_t pair[2];
    uint64_t first_ns = 0;
    find_pair(x, round, back, pair);
    tutti_status st = tt_comm_message_sched(m->c->size, m->c->rank, pair, &s, m->err);
    for (int i = 0; !st && i <= MORE; i++) {
        st = tt_comm_measure_pass(m, s, x->bytes);
        first_ns = i ? first_ns : tt_now_ns();
    }
    tt_sched_free(s);
    mine.ns = pair[1] == m->c->rank ? tt_now_ns() - first_ns : 0;
    mine.spent_ns = tt_now_ns() - x->begin_ns;
    return st ? st : m->how->exchange(m->how->ctx, &mine, sizeof mine, x->all, m->err);
}

static void keep_best(uint64_t *best, uint64_t rate)
{
    *best = rate > *best ? rate : *best;
}

static void take_run(const struct rates *x, uint32_t round, bool back, struct tt_speeds *s)
{
    for (uint32_t to = 0; to < x->hosts.n; to++) {
        const int64_t from = partner(to, x->hosts.n, round);
        const uint64_t ns = x->all[x->hosts.first[to]].ns;
        if (from == NOBODY || sends(to, from, back) || !ns)
            continue;
        const double rate = (double)(x->bytes * MORE) / (double)ns * 1e9;
        keep_best(&s->host[from].out, (uint64_t)rate + 1);
        keep_best(&s->host[to].in, (uint64_t)rate + 1);
    }
}

/* ---- equal rates ---- */

static int by_rate(const void *a, const void *b)
{
    const uint64_t x = **(uint64_t *const *)a, y = **(uint64_t *const *)b;
    return x < y ? -1 : x > y;
}

/* Rates within an eighth of each other get their middle one: small differences are the
 * measurement's, and equal hosts are easier to plan for. */
static void level(struct tt_speeds *s)
{
    uint64_t *all[2 * TT_SPEEDS_HOSTS];
    size_t n = 0;
    for (size_t i = 0; i < s->nhosts; i++) {
        all[n++] = &s->host[i].out;
        all[n++] = &s->host[i].in;
    }
    qsort(all, n, sizeof *all, by_rate);
    for (size_t from = 0, to; from < n; from = to) {
        for (to = from + 1; to < n && *all[to] - *all[from] <= *all[from] / 8;)
            to++;
        const uint64_t middle = *all[from + (to - from) / 2];
        for (size_t i = from; i < to; i++)
            *all[i] = middle;
    }
}

/* A host that was in no run keeps the rate of the measured pair. */
static void rates_finish(struct tt_speeds *s, uint32_t hosts, uint64_t bw)
{
    s->nhosts = hosts;
    for (uint32_t i = 0; i < hosts; i++) {
        s->host[i].out = s->host[i].out ? s->host[i].out : bw;
        s->host[i].in = s->host[i].in ? s->host[i].in : bw;
    }
    level(s);
}

static uint64_t message_bytes(uint64_t bw)
{
    const double bytes = (double)bw * (double)MESSAGE_NS / 1e9;
    return bytes < LEAST_BYTES        ? LEAST_BYTES
           : bytes > TT_MEASURE_BYTES ? TT_MEASURE_BYTES
                                      : (uint64_t)bytes;
}

bool tt_comm_measure_rates_wanted(const struct tt_comm *c, const struct tt_hosts *h)
{
    return h->n > 2 && h->n <= TT_SPEEDS_HOSTS && !tt_comm_apart(&c->config) && tt_comm_is_world(c);
}

tutti_status tt_comm_measure_rates(struct measure *m, uint64_t bw)
{
    struct rates x = {.m = m, .begin_ns = tt_now_ns(), .bytes = message_bytes(bw)};
    struct tt_speeds *s = &m->end.speeds;
    tutti_status st = tt_comm_hosts_find(m->c, &x.hosts, m->err);
    x.all = tt_zalloc(m->c->size, sizeof *x.all);
    if (!st && !x.all)
        st = tt_fail_memory(m->err, "measuring");
    assert(st || tt_comm_measure_rates_wanted(m->c, &x.hosts));
    memset(s->host, 0, sizeof s->host);
    for (uint32_t run = 0; !st && run < 2 * ROUNDS && run / 2 < x.hosts.n - 1; run++) {
        if (run && x.all[0].spent_ns > LIMIT_NS)
            break;
        st = rates_run(&x, run / 2, run % 2);
        if (!st)
            take_run(&x, run / 2, run % 2, s);
    }
    if (!st)
        rates_finish(s, x.hosts.n, bw);
    tt_comm_hosts_free(&x.hosts);
    free(x.all);
    return st;
}
