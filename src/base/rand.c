/* rand.c - numbers that are random but the same everywhere, hashes, and a clock.
 *
 * xoshiro256** (Blackman and Vigna, 2018) seeded by splitmix64; bounded numbers by Lemire's
 * multiplication with rejection, so that they are exactly uniform. Bytes are hashed as
 * little-endian words, so that a hash does not depend on the machine. Nothing here resists an
 * adversary that knows the seed: proofs that need this take their seed from tt_entropy. */
#include "base/base.h"

#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#define GOLDEN UINT64_C(0x9e3779b97f4a7c15)
enum { LANES_FROM = 256 }; /* bytes: for shorter inputs four lanes do not pay */

TT_HOT uint64_t tt_mix64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

void tt_rng_seed(struct tt_rng *r, uint64_t seed)
{
    for (size_t i = 0; i < countof(r->s); i++)
        r->s[i] = tt_mix64(seed += GOLDEN);
}

static uint64_t rotl(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t tt_rng_next(struct tt_rng *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotl(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;

    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return result;
}

uint64_t tt_rng_below(struct tt_rng *r, uint64_t n)
{
    assert(n > 0);
    /* the lowest 2^64 mod n products would favour some results */
    uint64_t reject = (UINT64_MAX - n + 1) % n;
    unsigned __int128 product;

    do
        product = (unsigned __int128)tt_rng_next(r) * n;
    while ((uint64_t)product < reject);
    return (uint64_t)(product >> 64);
}

/* getrandom fails only where the kernel lacks it; time and process id then still distinguish two
 * runs. */
uint64_t tt_entropy(void)
{
    uint64_t x;
    ssize_t got;

    do
        got = getrandom(&x, sizeof x, 0);
    while (got < 0 && errno == EINTR);
    if (got == (ssize_t)sizeof x)
        return x;
    return tt_mix64(tt_now_ns() ^ ((uint64_t)getpid() << 40));
}

static uint64_t load_le(const unsigned char *p, size_t n)
{
    uint64_t w = 0;

    for (size_t i = 0; i < n; i++)
        w |= (uint64_t)p[i] << (8 * i);
    return w;
}

static uint64_t load_word(const unsigned char *p)
{
    uint64_t w;

    memcpy(&w, p, sizeof w);
    return __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? w : __builtin_bswap64(w);
}

/* Hashes long inputs in four independent lanes, which the CPU works on in parallel. */
static uint64_t hash_lanes(uint64_t h, const unsigned char *b, size_t groups)
{
    uint64_t lane[4] = {h, h + GOLDEN, h + 2 * GOLDEN, h + 3 * GOLDEN};

    for (size_t i = 0; i < groups; i++, b += 32)
        for (size_t k = 0; k < 4; k++)
            lane[k] = tt_mix64((lane[k] ^ load_word(b + 8 * k)) + GOLDEN);
    for (size_t k = 0; k < 4; k++)
        h = tt_mix64((h ^ lane[k]) + GOLDEN);
    return h;
}

uint64_t tt_hash_bytes(uint64_t seed, const void *p, size_t n)
{
    const unsigned char *b = p;
    /* the length distinguishes a text from the same text followed by zeros */
    uint64_t h = tt_mix64(seed + GOLDEN) ^ (uint64_t)n;

    if (n >= LANES_FROM) {
        h = hash_lanes(h, b, n / 32);
        b += n / 32 * 32;
        n %= 32;
    }
    for (; n >= 8; n -= 8, b += 8)
        h = tt_mix64((h ^ load_word(b)) + GOLDEN);
    return tt_mix64((h ^ load_le(b, n)) + GOLDEN);
}

TT_HOT uint64_t tt_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

unsigned tt_ceil_log2(uint64_t n)
{
    return n <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(n - 1);
}

uint64_t tt_floor_pow2(uint64_t n)
{
    assert(n > 0);
    return UINT64_C(1) << (63 - __builtin_clzll(n));
}
