/* judge.c - how far the figures of a probe can be trusted, and what is slow or odd, by name.
 *
 * Confidence is the share of the judged pairs whose rate the topology predicts within 15 %. The
 * prediction of a pair is the narrowest of its two interfaces and, between groups, of the two
 * uplinks. A pair well below its prediction is named, with the rates that its ends reach with
 * others. A pair that was measured while another one crossed the same uplink (pairs of a round
 * run together, pairs.c) had only a share of it and is not judged. */
#include "probe/probe_int.h"

#include <stdarg.h>
#include <stdlib.h>

enum { MAX_FINDINGS = 64 };

/* Adds a finding. Findings beyond MAX_FINDINGS are dropped; false: no memory. */
__attribute__((format(printf, 2, 3))) static bool say(struct tt_probe *p, const char *fmt, ...)
{
    char text[TT_PROBE_TEXT];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return p->said.len >= MAX_FINDINGS || tt_vec_push(&p->said, text, 1);
}

static uint64_t judge_least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The rate that the topology predicts for one flow a -> b with nothing else under way. */
static uint64_t predicted(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    const struct tt_probe_group *from = &p->group[p->host[a].group],
                                *to = &p->group[p->host[b].group];
    uint64_t bw = tt_probe_alone(p, a, b);
    if (from == to)
        return bw;
    bw = from->up ? judge_least(bw, from->up) : bw;
    return to->down ? judge_least(bw, to->down) : bw;
}

/* Does x -> y of the same round cross an uplink that a -> b crosses? */
static bool in_the_way(const struct tt_probe *p, uint32_t a, uint32_t b, uint32_t x, uint32_t y)
{
    uint32_t from = p->host[x].group, to = p->host[y].group;
    return x != a && from != to && (from == p->host[a].group || to == p->host[b].group);
}

/* Was the pair measured while others of its round crossed an uplink of its groups? */
static bool disturbed(const struct tt_probe *p, uint32_t a, uint32_t b)
{
    uint32_t round = 0, other, y;
    if (p->host[a].group == p->host[b].group)
        return false;
    /* Ends: the tournament has a round in which a meets b. */
    while (!tt_probe_match(p->hosts, round, a, &other) || other != b)
        round++;
    /* (x < y) == (a < b): measured in the same direction, thus at the same time. */
    for (uint32_t x = 0; x < p->hosts; x++)
        if (tt_probe_match(p->hosts, round, x, &y) && (x < y) == (a < b) &&
            in_the_way(p, a, b, x, y))
            return true;
    return false;
}

/* Do a and b differ by at most this percentage of the larger? */
static bool within(uint64_t a, uint64_t b, unsigned percent)
{
    uint64_t apart = a > b ? a - b : b - a, most = a > b ? a : b;
    return (double)apart <= (double)most * percent / 100;
}

/* Sets `judged` and `confidence`. Disturbed pairs say nothing about the rate of one alone and
 * are left out. */
static void judge_agree(struct tt_probe *p)
{
    uint64_t good = 0, n = 0;
    for (uint32_t a = 0; a < p->hosts; a++)
        for (uint32_t b = 0; b < p->hosts; b++) {
            uint64_t bw = a == b || disturbed(p, a, b) ? 0 : tt_probe_pair(p, a, b)->bw;
            n += bw != 0;
            good += bw && within(bw, predicted(p, a, b), 15);
        }
    p->judged = (uint32_t)n;
    p->confidence = n ? (double)good / (double)n : p->hosts < 2;
}

static int judge_rising(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Sorts v; the upper median when n is even. */
static uint64_t judge_median(uint64_t *v, uint32_t n)
{
    qsort(v, n, sizeof *v, judge_rising);
    return v[n / 2];
}

static uint32_t rank_of(const struct tt_probe *p, uint32_t host)
{
    return p->list[p->host[host].first];
}

/* Compares a host with the median host, then its two directions with each other. */
static bool judge_host(struct tt_probe *p, uint32_t h, uint64_t usual)
{
    const struct tt_probe_host *x = &p->host[h];
    char up[32], down[32], other[32];
    tt_format_rate((double)x->up, up, sizeof up);
    tt_format_rate((double)x->down, down, sizeof down);
    tt_format_rate((double)usual, other, sizeof other);
    if (judge_least(x->up, x->down) < usual / 10 * 8)
        return say(p,
                   "slow link: %s (rank %u) sends %s and receives %s; half of the hosts reach %s",
                   x->name, rank_of(p, h), up, down, other);
    if (!within(x->up, x->down, 20))
        return say(p, "asymmetric link: %s (rank %u) sends %s and receives %s", x->name,
                   rank_of(p, h), up, down);
    return true;
}

static bool judge_hosts(struct tt_probe *p)
{
    uint64_t *rates = tt_alloc(p->hosts, sizeof *rates);
    bool ok = rates;
    for (uint32_t h = 0; ok && h < p->hosts; h++)
        rates[h] = judge_least(p->host[h].up, p->host[h].down);
    uint64_t usual = ok ? judge_median(rates, p->hosts) : 0;
    for (uint32_t h = 0; ok && h < p->hosts; h++)
        ok = judge_host(p, h, usual);
    free(rates);
    return ok;
}

/* Each direction alone, then both compared. A difference that the hosts' own links explain is
 * not reported as the pair's. */
static bool judge_pair(struct tt_probe *p, uint32_t a, uint32_t b)
{
    uint64_t there = tt_probe_pair(p, a, b)->bw, back = tt_probe_pair(p, b, a)->bw,
             want = predicted(p, a, b), other = predicted(p, b, a);
    char x[32], y[32];
    const char *from = p->host[a].name, *to = p->host[b].name;
    if (there && there < want / 4 * 3)
        return say(
            p, "slow pair: %s (rank %u) -> %s (rank %u) reaches %s; its ends reach %s with others",
            from, rank_of(p, a), to, rank_of(p, b), tt_format_rate((double)there, x, sizeof x),
            tt_format_rate((double)want, y, sizeof y));
    if (a < b && there && back && !within(there, back, 20) && within(want, other, 20))
        return say(p, "asymmetric pair: %s (rank %u) -> %s (rank %u) %s, back %s", from,
                   rank_of(p, a), to, rank_of(p, b), tt_format_rate((double)there, x, sizeof x),
                   tt_format_rate((double)back, y, sizeof y));
    return true;
}

/* Reports groups whose uplink is narrower than the sum of their hosts' links. */
static bool judge_groups(struct tt_probe *p)
{
    char x[32], y[32];
    bool ok = true;
    for (uint32_t g = 0; ok && g < p->groups; g++) {
        uint64_t up = 0;
        for (uint32_t h = 0; h < p->hosts; h++)
            up += p->host[h].group == g ? p->host[h].up : 0;
        if (p->group[g].up && p->group[g].up < up / 10 * 8)
            ok = say(
                p, "shared uplink: the %u hosts of group %u reach %s together; their own links %s",
                p->group[g].hosts, g, tt_format_rate((double)p->group[g].up, x, sizeof x),
                tt_format_rate((double)up, y, sizeof y));
    }
    if (ok && p->unsure)
        ok = say(p, "crowds are slowed down and no groups of hosts explain it: a narrow middle of "
                    "the network, busy hosts, or others' traffic; "
                    "the topology does not have it");
    return ok;
}

tutti_status tt_probe_judge(struct tt_probe *p, struct tutti_error *err)
{
    uint64_t all = (uint64_t)p->hosts * (p->hosts - 1);
    judge_agree(p);
    p->said.len = 0;
    bool ok = p->hosts < 2 || judge_hosts(p);
    for (uint32_t a = 0; ok && a < p->hosts; a++)
        for (uint32_t b = 0; ok && b < p->hosts; b++)
            ok = a == b || disturbed(p, a, b) || judge_pair(p, a, b);
    ok = ok && judge_groups(p);
    if (ok && p->pairs < all)
        ok = say(p, "%u of %llu pairs were measured in the time given", p->pairs,
                 (unsigned long long)all);
    if (ok && p->hosts >= 4 && !p->crowded)
        ok =
            say(p, "there was no time for crowds: shared uplinks that are as wide as a host's link "
                   "would not have been seen; --time gives more");
    return ok ? TUTTI_OK : tt_fail_memory(err, "findings");
}
