/* find.c - the slowest rank and link from the notes of all ranks, and why: pure arithmetic on
 * tables.
 *
 * Arrived late. Rank q waits in a call from wait_q to end_q; until start_r rank r had not even
 * entered it. Three ranks, of which rank 1 works longer (=) than the others before the call:
 *
 *     rank 0   ==|--------------|-->     waits (-) for rank 1 from its own entry to rank 1's
 *     rank 1   =================|-->     entered last: awaited by 0 and 2, because of its own work
 *     rank 2   ====|------------|-->
 *
 * A rank may also enter late because the previous call ended late for it (a slow link). That counts
 * as awaited, but as late only as far as it worked longer between the calls than the median rank.
 *
 * Sent slowly. A link's rate is that of payloads under way (tcp_link.c), so that one slow host does
 * not make the links behind it look slow. A rank whose fastest link, in or out, is slower than
 * usual sits on a slow link; otherwise a slow link is attributed to its sender. Only the worst of a
 * rank's links counts, since all may have been used at the same time.
 *
 * Both are times that the job lost, so the larger one decides. No rank is named for less than a
 * fiftieth of the time in calls, or for being late if the median rank is nearly as late. */
#include "meter/meter.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t MIN_BYTES = 256 << 10, MIN_LOST_NS = 1000000;
static const uint64_t MIN_SHARE = 50; /* one part in so many */
/* Fractions of the usual rate; a single link varies more by chance. */
static const double SLOW_RANK = 2.0 / 3, SLOW_LINK = 1.0 / 3;

/* ---- clocks ---- */

/* What to add to r's clock to get rank 0's. No barrier ends before all ranks have begun it; seen
 * from both sides this bounds the offset, and the middle of the bounds is used. */
static int64_t offset(const struct tt_log_beat *zero, const struct tt_log_beat *r)
{
    int64_t low = INT64_MIN, high = INT64_MAX;
    for (int i = 0; i < TT_LOG_BEATS; i++) {
        int64_t a = zero[i].start_ns - r[i].end_ns, b = zero[i].end_ns - r[i].start_ns;
        low = a > low ? a : low;
        high = b < high ? b : high;
    }
    return low + (high - low) / 2;
}

/* Offsets were measured at the beginning and at the end; in between the clock is assumed to drift
 * linearly. */
static void shift_clock(const struct tt_evidence *e, uint32_t r)
{
    int64_t o[2], t[2];
    for (int i = 0; i < 2; i++) {
        o[i] = offset(e->beats[0][i], e->beats[r][i]);
        t[i] = e->beats[r][i][TT_LOG_BEATS - 1].end_ns;
    }
    double drift = t[1] > t[0] ? (double)(o[1] - o[0]) / (double)(t[1] - t[0]) : 0;
    for (uint32_t k = 0; k <= e->calls; k++) {
        struct tt_log_call *c = &e->log[(size_t)r * (e->calls + 1) + k];
        int64_t add = o[0] + (int64_t)((double)(c->start_ns - t[0]) * drift);
        c->start_ns += add;
        c->wait_ns += add;
        c->end_ns += add;
    }
}

/* ---- late ---- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* The lower of the two middle values; sorts x. */
static int64_t median(int64_t *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[(n - 1) / 2];
}

/* The upper of the two middle values: in a ring a slow link slows its neighbours' links, so of four
 * ranks two may look slow where one is. */
static int64_t upper_median(int64_t *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_value);
    return x[n / 2];
}

static const struct tt_log_call *call_of(const struct tt_evidence *e, uint32_t r, uint32_t k)
{
    return &e->log[(size_t)r * (e->calls + 1) + k];
}

/* Rank r's own work between call k - 1 and call k: the time not blocked in calls. */
static int64_t work_of(const struct tt_evidence *e, uint32_t r, uint32_t k)
{
    const struct tt_log_call *c = call_of(e, r, k), *before = call_of(e, r, k - 1);
    return c->start_ns - before->start_ns - (c->blocked_ns - before->blocked_ns);
}

/* How long q waited in call k before r had entered it. */
static int64_t wait_for(const struct tt_log_call *q, const struct tt_log_call *r)
{
    bool waited = q->end_ns >= r->start_ns && r->start_ns > q->wait_ns;
    return waited ? r->start_ns - q->wait_ns : 0;
}

/* Adds call k to every rank's sums: the average wait of the others for it, and how much of that is
 * its own fault. */
static void judge_call(const struct tt_evidence *e, uint32_t k, int64_t usual_work,
                       struct tt_rank_finding *f)
{
    assert(e->ranks > 1); /* a single rank waits for none */
    for (uint32_t r = 0; r < e->ranks; r++) {
        const struct tt_log_call *c = call_of(e, r, k);
        int64_t sum = 0, more = work_of(e, r, k) - usual_work;
        for (uint32_t q = 0; q < e->ranks; q++)
            sum += q == r ? 0 : wait_for(call_of(e, q, k), c);
        int64_t awaited = sum / (int64_t)(e->ranks - 1), late = more < awaited ? more : awaited;
        f[r].in_calls_ns += (uint64_t)(c->end_ns - c->wait_ns);
        f[r].awaited_ns += (uint64_t)awaited;
        if (late <= 0)
            continue;
        f[r].late_ns += (uint64_t)late;
        f[r].late_calls++;
    }
}

static void find_late(const struct tt_evidence *e, int64_t *scratch, struct tt_rank_finding *f)
{
    for (uint32_t k = 1; k <= e->calls; k++) {
        for (uint32_t r = 0; r < e->ranks; r++)
            scratch[r] = work_of(e, r, k);
        judge_call(e, k, median(scratch, e->ranks), f);
    }
}

/* ---- slow links ---- */

double tt_meter_link_rate(const struct tt_link_stats *s)
{
    return s->bytes >= MIN_BYTES ? (double)s->rate : 0;
}

static const struct tt_link_stats *link_of(const struct tt_evidence *e, uint32_t from, uint32_t to)
{
    return &e->links[(size_t)to * e->ranks + from];
}

/* The fastest link of every rank, the slowest of all links, and the usual rate: the upper median of
 * the former. */
static void find_rates(const struct tt_evidence *e, int64_t *scratch, struct tt_findings *f)
{
    uint32_t known = 0;
    for (uint32_t a = 0; a < e->ranks; a++)
        for (uint32_t b = 0; b < e->ranks; b++) {
            double rate = a == b ? 0 : tt_meter_link_rate(link_of(e, a, b));
            f->rank[a].rate = rate > f->rank[a].rate ? rate : f->rank[a].rate;
            f->rank[b].rate = rate > f->rank[b].rate ? rate : f->rank[b].rate;
            if (rate > 0 && (f->link_rate <= 0 || rate < f->link_rate)) {
                f->link_rate = rate;
                f->link_from = a;
                f->link_to = b;
            }
        }
    for (uint32_t r = 0; r < e->ranks; r++)
        if (f->rank[r].rate > 0)
            scratch[known++] = (int64_t)f->rank[r].rate;
    f->usual_rate = known ? (double)upper_median(scratch, known) : 0;
}

static bool is_slow(const struct tt_findings *f, uint32_t r)
{
    return f->rank[r].rate > 0 && f->rank[r].rate < SLOW_RANK * f->usual_rate;
}

/* Time beyond what a link of the usual rate would have taken, if the link is slower than `share` of
 * that rate. */
static uint64_t excess(const struct tt_findings *f, const struct tt_link_stats *s, double share)
{
    double rate = tt_meter_link_rate(s);
    bool slow = rate > 0 && rate < share * f->usual_rate;
    return slow ? (uint64_t)((double)s->bytes * 1e9 * (1 / rate - 1 / f->usual_rate)) : 0;
}

/* Of a slow rank all links count; of any other those it sends on, except to a slow rank. */
static void find_sending(const struct tt_evidence *e, struct tt_findings *f)
{
    for (uint32_t r = 0; r < e->ranks; r++)
        for (uint32_t q = 0; q < e->ranks; q++) {
            bool host = is_slow(f, r);
            if (q == r || (is_slow(f, q) && !host))
                continue;
            uint64_t out = excess(f, link_of(e, r, q), host ? 1 : SLOW_LINK),
                     in = host ? excess(f, link_of(e, q, r), 1) : 0;
            uint64_t worst = out > in ? out : in;
            f->rank[r].slow_ns = worst > f->rank[r].slow_ns ? worst : f->rank[r].slow_ns;
        }
}

/* ---- the verdict ---- */

/* The rank to name for slow links: the rank whose fastest link is slowest; if every rank has a
 * usual one, the sender on the worst of the others. */
static uint32_t slowest_sender(const struct tt_evidence *e, const struct tt_findings *f)
{
    uint32_t worst = 0;
    for (uint32_t r = 1; r < e->ranks; r++) {
        const struct tt_rank_finding *x = &f->rank[r], *y = &f->rank[worst];
        bool host = is_slow(f, r), other = is_slow(f, worst);
        bool worse = host && x->rate != y->rate ? x->rate < y->rate : x->slow_ns > y->slow_ns;
        if (host != other ? host : worse)
            worst = r;
    }
    return worst;
}

static uint32_t latest(const struct tt_evidence *e, const struct tt_findings *f)
{
    uint32_t worst = 0;
    for (uint32_t r = 1; r < e->ranks; r++)
        if (f->rank[r].late_ns > f->rank[worst].late_ns)
            worst = r;
    return worst;
}

/* Names a rank only if the loss is worth it; otherwise ret->why stays 0. */
static void find_decide(const struct tt_evidence *e, int64_t *scratch, struct tt_findings *f)
{
    uint64_t in_calls = 0;
    for (uint32_t r = 0; r < e->ranks; r++) {
        in_calls += f->rank[r].in_calls_ns / e->ranks;
        scratch[r] = (int64_t)f->rank[r].late_ns;
    }
    uint64_t usual = (uint64_t)median(scratch, e->ranks), least = in_calls / MIN_SHARE;
    uint32_t a = latest(e, f), b = slowest_sender(e, f);
    uint64_t late = f->rank[a].late_ns > 2 * usual ? f->rank[a].late_ns : 0,
             slow = f->rank[b].slow_ns;
    if ((late > slow ? late : slow) < (least > MIN_LOST_NS ? least : MIN_LOST_NS))
        return;
    f->slowest = late >= slow ? a : b;
    f->why = late >= slow ? TT_SLOW_LATE : TT_SLOW_SENDING;
}

void tt_meter_find_slow(const struct tt_evidence *e, int64_t *scratch, struct tt_findings *ret)
{
    struct tt_rank_finding *rank = ret->rank;
    *ret = (struct tt_findings){.rank = rank};
    memset(rank, 0, e->ranks * sizeof *rank);
    for (uint32_t r = 1; r < e->ranks; r++)
        if (!e->same_clock[r])
            shift_clock(e, r);
    find_late(e, scratch, rank);
    find_rates(e, scratch, ret);
    find_sending(e, ret);
    find_decide(e, scratch, ret);
}
