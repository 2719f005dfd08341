/* finger.c - fingerprints: the value of a place is the sum of its contributors' random numbers
 * modulo the prime P = 2^61-1, and the number of contributions.
 *
 * Let contributor i be counted k_i times, and let n be the number of contributors. A place
 * passes when the k_i add up to n and sum (k_i - 1) h_i = 0 modulo P. If some k_i is not 1, then
 * |k_i - 1| < P: the count never exceeds n, because a sum that would exceed it contains a
 * contribution twice and is refused at once. Exactly one value of the random h_i then passes, so
 * the probability is 1/P for each place compared. Without the count, adding a place to itself 61
 * times would multiply it by 2^61 = 1 and pass. */
#include <assert.h>

#include "verify/verify_int.h"

static const uint64_t P = (UINT64_C(1) << 61) - 1;

uint64_t tt_verify_finger_add(uint64_t a, uint64_t b)
{
    uint64_t sum = a + b; /* no overflow: both are below 2^61 */
    return sum >= P ? sum - P : sum;
}

tutti_status tt_verify_finger_init(struct tt_vdomain *d, uint32_t contributors, uint64_t seed,
                                   struct tutti_error *err)
{
    struct tt_rng rng;
    uint64_t all[2] = {0, contributors};
    *d = (struct tt_vdomain){.contributors = contributors};
    d->values = (struct tt_vintern){.width = 2, .words = {.elem = sizeof(uint64_t)}};
    d->single = tt_alloc(contributors, sizeof *d->single);
    if (!d->single)
        return tt_fail_memory(err, "fingerprints");
    tt_rng_seed(&rng, seed);
    for (uint32_t i = 0; i < contributors; i++) {
        uint64_t one[2] = {tt_rng_below(&rng, P), 1};
        all[0] = tt_verify_finger_add(all[0], one[0]);
        d->single[i] = tt_verify_intern_add(&d->values, one);
        if (!d->single[i])
            return tt_fail_memory(err, "fingerprints");
    }
    d->full = tt_verify_intern_add(&d->values, all);
    return d->full ? TUTTI_OK : tt_fail_memory(err, "fingerprints");
}

enum tt_vcombined tt_verify_finger_combine(struct tt_vdomain *d, uint32_t a, uint32_t b,
                                           uint32_t *ret)
{
    assert(a != TT_VNOTHING && b != TT_VNOTHING);
    const uint64_t *x = tt_verify_intern_words(&d->values, a),
                   *y = tt_verify_intern_words(&d->values, b);
    uint64_t sum[2] = {tt_verify_finger_add(x[0], y[0]), x[1] + y[1]};
    /* More contributions than contributors: at least one is in it twice. Fewer repetitions are
     * found by the final comparison. */
    if (sum[1] > d->contributors)
        return TT_VTWICE;
    uint32_t joined = tt_verify_intern_add(&d->values, sum);
    if (!joined)
        return TT_VNO_MEMORY;
    *ret = joined;
    return TT_VJOINED;
}

double tt_verify_finger_error(uint64_t comparisons)
{
    /* the last factor covers P = 2^61-1 (not 2^61) and all rounding */
    double bound = (double)comparisons * 0x1p-61 * (1 + 0x1p-40);
    return bound < 1 ? bound : 1;
}
