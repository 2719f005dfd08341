/* tcp_link.c - how fast the link from a peer is, measured where it counts: while this rank waits
 * for the rest of a large payload.
 *
 * Bytes over elapsed time would tell how fast a schedule was, not a link: in a ring every rank
 * sends at the pace of the slowest. But a payload is queued by its sender as a whole. From the
 * moment the kernel has run out of its bytes until the last one has come, only the link between the
 * two ranks determines the time:
 *
 *     header   bytes that were there   | nothing left: clock starts   the rest comes |
 *     ---------------------------------+------------ rate = rest / time -------------+--> header
 *
 * A rank that is not scheduled for a while makes some of these rates too low, so the figure is the
 * median, weighted by bytes, from a histogram with eight steps per factor of two. Cost: two clock
 * readings per payload that did not come at once. */
#include <assert.h>

#include "transport/tcp.h"

enum { LOW = 10, STEPS = 8 }; /* the histogram begins at 2^LOW bytes/s */

/* The step of a rate: position of its top bit, then the three bits below it. */
static uint32_t step_of(uint64_t rate)
{
    uint32_t top = rate ? 63 - (uint32_t)__builtin_clzll(rate) : 0;
    if (top < LOW)
        return 0;
    uint32_t step = (top - LOW) * STEPS + (uint32_t)(rate >> (top - 3) & (STEPS - 1));
    return step < TT_LINK_STEPS ? step : TT_LINK_STEPS - 1;
}

/* The middle of a step: the inverse of step_of. */
static uint64_t rate_of(uint32_t step)
{
    uint64_t unit = UINT64_C(1) << (LOW + step / STEPS - 4);
    return unit * (2 * STEPS + 2 * (step % STEPS) + 1);
}

/* Only the first call of a payload counts. */
void tt_tcp_starved(struct tt_tcp_sock *s)
{
    if (s->starved_ns)
        return;
    s->starved_ns = tt_now_ns();
    s->starved_bytes = s->rx.left;
}

void tt_tcp_complete(struct tt_tcp_sock *s)
{
    struct tt_tcp_rates *r = &s->rates;
    if (!s->starved_ns)
        return;
    uint64_t ns = tt_now_ns() - s->starved_ns;
    ns = ns ? ns : 1;
    r->busy_ns += ns;
    r->bytes[step_of((uint64_t)((double)s->starved_bytes * 1e9 / (double)ns))] += s->starved_bytes;
    s->starved_ns = 0;
}

/* Adds up the histograms of all stripes and walks to the median. Invariant: `below` is the sum of
 * the steps before `step`. */
bool tt_tcp_link(struct tt_transport *base, uint32_t peer, struct tt_link_stats *ret)
{
    const struct tt_tcp *t = (const struct tt_tcp *)base;
    struct tt_link_stats stats = {0};
    uint64_t bytes[TT_LINK_STEPS] = {0}, below = 0;
    uint32_t step = 0;
    for (uint32_t k = 0; peer < base->size && k < t->stripes; k++) {
        const struct tt_tcp_sock *s = t->at[(size_t)k * base->size + peer];
        for (uint32_t i = 0; s && i < TT_LINK_STEPS; i++) {
            bytes[i] += s->rates.bytes[i];
            stats.bytes += s->rates.bytes[i];
        }
        stats.busy_ns += s ? s->rates.busy_ns : 0;
    }
    if (!stats.bytes)
        return false;
    while ((below += bytes[step]) * 2 < stats.bytes)
        step++;
    assert(step < TT_LINK_STEPS);
    stats.rate = rate_of(step);
    *ret = stats;
    return true;
}
