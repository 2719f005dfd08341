/* exact.c - contribution sets: the value of a place is the set of contributors whose input went
 * into it, one bit each.
 *
 *     place A = {0, 1}    place B = {2, 3}    A + B = {0, 1, 2, 3}
 *     place A = {0, 1}    place C = {1, 2}    A + C: contributor 1 would be counted twice, a fault
 *
 * Adding two places unites their sets, which must be disjoint. Sets therefore never need counts,
 * and a result is right exactly when its set is the full one. Unions are remembered by the pair
 * of names, because ranks that do the same on many chunks unite the same sets. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "verify/verify_int.h"

tutti_status tt_verify_exact_init(struct tt_vdomain *d, uint32_t contributors,
                                  struct tutti_error *err)
{
    size_t width = ((size_t)contributors + 63) / 64;
    *d = (struct tt_vdomain){.exact = true, .contributors = contributors};
    d->values = (struct tt_vintern){.width = width, .words = {.elem = sizeof(uint64_t)}};
    d->single = tt_alloc(contributors, sizeof *d->single);
    d->scratch = tt_zalloc(width, sizeof *d->scratch);
    if (!d->single || !d->scratch)
        return tt_fail_memory(err, "contribution sets");
    /* Invariant: scratch is all zero between two contributors. */
    for (uint32_t i = 0; i < contributors; i++) {
        d->scratch[i / 64] = UINT64_C(1) << i % 64;
        d->single[i] = tt_verify_intern_add(&d->values, d->scratch);
        d->scratch[i / 64] = 0;
        if (!d->single[i])
            return tt_fail_memory(err, "contribution sets");
    }
    for (uint32_t i = 0; i < contributors; i++)
        d->scratch[i / 64] |= UINT64_C(1) << i % 64;
    d->full = tt_verify_intern_add(&d->values, d->scratch);
    return d->full ? TUTTI_OK : tt_fail_memory(err, "contribution sets");
}

enum tt_vcombined tt_verify_exact_combine(struct tt_vdomain *d, uint32_t a, uint32_t b,
                                          uint32_t *ret)
{
    assert(a != TT_VNOTHING && b != TT_VNOTHING);
    /* unordered: a + b is b + a */
    uint64_t key = a < b ? (uint64_t)a << 32 | b : (uint64_t)b << 32 | a;
    uint32_t known = tt_verify_map_get(&d->memo, key);
    if (known) {
        *ret = known;
        return TT_VJOINED;
    }
    const uint64_t *x = tt_verify_intern_words(&d->values, a),
                   *y = tt_verify_intern_words(&d->values, b);
    uint64_t shared = 0;
    for (size_t i = 0; i < d->values.width; i++) {
        shared |= x[i] & y[i];
        d->scratch[i] = x[i] | y[i];
    }
    /* Faults end the proof, so only successful unions are remembered. */
    if (shared)
        return TT_VTWICE;
    uint32_t joined = tt_verify_intern_add(&d->values, d->scratch);
    if (!joined || !tt_verify_map_put(&d->memo, key, joined))
        return TT_VNO_MEMORY;
    *ret = joined;
    return TT_VJOINED;
}

uint32_t tt_verify_exact_shared(const struct tt_vdomain *d, uint32_t a, uint32_t b)
{
    const uint64_t *x = tt_verify_intern_words(&d->values, a),
                   *y = tt_verify_intern_words(&d->values, b);
    size_t i = 0;
    while (i < d->values.width && (x[i] & y[i]) == 0)
        i++;
    assert(i < d->values.width);
    return (uint32_t)(i * 64) + (uint32_t)__builtin_ctzll(x[i] & y[i]);
}

void tt_verify_domain_free(struct tt_vdomain *d)
{
    free(d->single);
    free(d->scratch);
    tt_verify_intern_free(&d->values);
    tt_verify_map_free(&d->memo);
    *d = (struct tt_vdomain){0};
}
