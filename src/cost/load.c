/* load.c - turns one step into time: the largest latency, the slowest transfer, the most reduced
 * bytes, the most messages.
 *
 * All arithmetic is on integers: bandwidths in 1/1024 bytes per second, gamma in 2^-20
 * picoseconds per byte, products 128 bits wide, so every machine computes the same picosecond.
 * Times are rounded up, so no step is priced below its cost. Invariant: sum[] is zero outside
 * touched[], so a step costs what it touches, not what the network has. */
#include "cost/load.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef unsigned __int128 u128;

#define PS_PER_S 1000000000000u
enum { RATE_UNIT = 1024, GAMMA_SHIFT = 20 };

uint64_t tt_cost_rate(double bytes_per_s)
{
    double r = bytes_per_s * RATE_UNIT;
    /* Written so that NaN becomes 1 too: a rate is never 0. */
    if (!(r >= 1))
        return 1;
    return r >= 0x1p62 ? UINT64_C(1) << 62 : (uint64_t)r;
}

uint64_t tt_cost_transfer_floor(uint64_t bytes, double bytes_per_s)
{
    u128 ps = (u128)bytes * RATE_UNIT * PS_PER_S / tt_cost_rate(bytes_per_s);
    return ps > UINT64_MAX ? UINT64_MAX : (uint64_t)ps;
}

void tt_cost_machine_host(struct tt_cost_machine *m, const struct tt_topo *t)
{
    double g = t->gamma * 1e12 * (double)(1 << GAMMA_SHIFT);
    m->gamma_fixed = g >= 0x1p62 ? UINT64_C(1) << 62 : g > 0 ? (uint64_t)(g + 0.5) : 0;
    m->overhead_ps = t->overhead_ps;
    m->ports = t->ports;
}

tutti_status tt_cost_load_open(struct tt_load *l, const struct tt_cost_machine *m, bool keep,
                               struct tutti_error *err)
{
    *l = (struct tt_load){.m = *m, .keep = keep};
    /* Without gamma, overhead or ports these loads cannot take time: their families become
     * empty. */
    if (!m->gamma_fixed)
        l->m.nreduce = 0;
    if (!m->overhead_ps && !m->ports)
        l->m.nmessage = 0;
    l->profile.latency.elem = l->profile.start.elem = l->profile.amount.elem = sizeof(uint64_t);
    l->profile.resource.elem = sizeof(uint32_t);
    l->profile.pattern.elem = sizeof(struct tt_pattern_ref);
    uint64_t n = (uint64_t)l->m.ntransfer + l->m.nreduce + l->m.nmessage + l->m.ncount;
    l->sum = n <= UINT32_MAX ? tt_zalloc((size_t)n + 1, sizeof *l->sum) : NULL;
    l->touched = n <= UINT32_MAX ? tt_alloc((size_t)n + 1, sizeof *l->touched) : NULL;
    uint64_t zero = 0;
    if (!l->sum || !l->touched || (keep && !tt_vec_push(&l->profile.start, &zero, 1))) {
        tt_cost_load_close(l);
        return tt_fail_memory(err, "loads of the links");
    }
    return TUTTI_OK;
}

void tt_cost_load_close(struct tt_load *l)
{
    free(l->m.rate);
    free(l->sum);
    free(l->touched);
    tt_vec_free(&l->profile.latency);
    tt_vec_free(&l->profile.start);
    tt_vec_free(&l->profile.resource);
    tt_vec_free(&l->profile.amount);
    tt_vec_free(&l->profile.pattern);
    if (l->patterns)
        tt_cost_patterns_close(l->patterns);
    free(l->patterns);
    free(l->ref);
    *l = (struct tt_load){0};
}

void tt_cost_load_add(struct tt_load *l, uint32_t resource, uint64_t amount)
{
    assert(resource < tt_machine_count(&l->m) + l->m.ncount);
    if (amount == 0)
        return;
    if (l->sum[resource] == 0)
        l->touched[l->ntouched++] = resource;
    if (__builtin_add_overflow(l->sum[resource], amount, &l->sum[resource])) {
        l->sum[resource] = UINT64_MAX;
        l->overflow = true;
    }
}

void tt_cost_load_latency(struct tt_load *l, uint64_t latency_ps)
{
    if (latency_ps > l->latency_ps)
        l->latency_ps = latency_ps;
}

/* Raises the peak of the resource's family to its load. Message counts of links give no time,
 * only the contention. */
static void peak_raise(struct tt_peak *p, struct tt_load *l, uint32_t resource)
{
    uint64_t v = l->sum[resource];
    if (resource < l->m.ntransfer) {
        if (tt_slower(v, l->m.rate[resource], p->load, p->rate)) {
            p->load = v;
            p->rate = l->m.rate[resource];
        }
    } else if (resource < tt_machine_message(&l->m)) {
        p->reduced = v > p->reduced ? v : p->reduced;
    } else if (resource < tt_machine_count(&l->m)) {
        p->messages = v > p->messages ? v : p->messages;
    } else if (v > l->cost.max_link_contention) {
        l->cost.max_link_contention = (uint32_t)v;
    }
}

/* Appends the step to the profile. Message counts of links are left out: waves do not need them. */
static void keep_step(struct tt_load *l)
{
    struct tt_profile *p = &l->profile;
    bool ok = tt_vec_push(&p->latency, &l->latency_ps, 1) != NULL;
    for (uint32_t i = 0; ok && i < l->ntouched; i++) {
        uint32_t r = l->touched[i];
        if (r >= tt_machine_count(&l->m))
            continue;
        ok = tt_vec_push(&p->resource, &r, 1) && tt_vec_push(&p->amount, &l->sum[r], 1);
        ok = ok && (!l->ref || tt_vec_push(&p->pattern, &l->ref[r], 1));
    }
    assert(!ok || p->resource.len == p->amount.len);
    uint64_t end = p->resource.len;
    if (!ok || !tt_vec_push(&p->start, &end, 1))
        l->nomem = true;
    else
        p->nsteps++;
}

void tt_cost_load_step(struct tt_load *l)
{
    struct tt_peak p = {.rate = 1, .latency_ps = l->latency_ps};
    for (uint32_t i = 0; i < l->ntouched; i++)
        peak_raise(&p, l, l->touched[i]);
    if (!tt_cost_peak_add(&p, &l->m, 1, 1, &l->cost))
        l->overflow = true;
    if (l->keep && !l->nomem)
        keep_step(l);
    /* Restores the invariant for the next step. */
    for (uint32_t i = 0; i < l->ntouched; i++) {
        l->sum[l->touched[i]] = 0;
        if (l->ref && l->touched[i] < tt_machine_count(&l->m))
            l->ref[l->touched[i]].id = TT_NO_PATTERN;
    }
    l->ntouched = 0;
    l->latency_ps = 0;
}

tutti_status tt_cost_load_status(const struct tt_load *l, struct tutti_error *err)
{
    if (l->nomem)
        return tt_fail_memory(err, "loads of the steps");
    if (l->overflow)
        return tt_fail(err, TUTTI_ERR_RANGE,
                       "the predicted time exceeds 2^64 picoseconds (213 days)");
    return TUTTI_OK;
}

/* Adds times * ceil(num / den) to *sum; false on overflow. */
static bool add_ratio(uint64_t *sum, u128 num, u128 den, uint64_t times)
{
    assert(den > 0);
    u128 q = (num + den - 1) / den;
    uint64_t part;
    if (q > UINT64_MAX || __builtin_mul_overflow((uint64_t)q, times, &part))
        return false;
    return !__builtin_add_overflow(*sum, part, sum);
}

bool tt_cost_peak_add(const struct tt_peak *p, const struct tt_cost_machine *m, uint32_t segments,
                      uint64_t times, struct tt_cost *c)
{
    assert(segments > 0 && p->rate > 0);
    /* With k ports, messages beyond k wait for a further turn and pay the latency again. */
    uint64_t turns =
        m->ports && p->messages > m->ports ? (p->messages + m->ports - 1) / m->ports : 1;
    bool ok = add_ratio(&c->latency_ps, (u128)p->latency_ps * turns, 1, times);
    ok = ok && add_ratio(&c->transfer_ps, (u128)p->load * PS_PER_S * RATE_UNIT,
                         (u128)p->rate * segments, times);
    /* reduced < 2^62 and gamma_fixed <= 2^62 keep the product within 128 bits. */
    ok = ok && (p->reduced >> 62) == 0 &&
         add_ratio(&c->reduce_ps, (u128)p->reduced * m->gamma_fixed, (u128)segments << GAMMA_SHIFT,
                   times);
    ok = ok && add_ratio(&c->overhead_ps, (u128)p->messages * m->overhead_ps, 1, times);
    if (!ok)
        return false;
    ok = !__builtin_add_overflow(c->latency_ps, c->transfer_ps, &c->time_ps);
    ok = ok && !__builtin_add_overflow(c->time_ps, c->reduce_ps, &c->time_ps);
    return ok && !__builtin_add_overflow(c->time_ps, c->overhead_ps, &c->time_ps);
}
