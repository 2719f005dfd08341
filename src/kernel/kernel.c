/* kernel.c - which kernels this CPU can run, and the entry to them.
 *
 * The best level is found at the first use and remembered in one atomic pointer. Threads that race
 * there store the same value, so that relaxed order is enough: what it points to is constant. All
 * levels give the same bits (vec.h says how), so that the choice never shows in results. */
#include "kernel/kernel.h"

#include <assert.h>
#include <stdatomic.h>
#include <string.h>

#include "kernel/level.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Below this size the fence costs more than the cache lines that streaming saves. */
#define STREAM_MIN_BYTES 4096u

/* A level and the test whether this CPU has it. */
struct choice {
    const char *name;
    bool (*usable)(void);
    const struct tt_kernel_level *level;
};

static bool always(void)
{
    return true;
}

#if defined(__x86_64__)
/* CPUID is asked directly: not every compiler's __builtin_cpu_supports knows this name. */
static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

static bool has_avx2(void)
{
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && has_f16c();
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

/* Best first. */
static const struct choice choices[] = {
#if defined(__x86_64__)
    {"avx512", has_avx512, &tt_kernel_avx512},
    {"avx2", has_avx2, &tt_kernel_avx2},
#elif defined(__ARM_NEON)
    {"neon", always, &tt_kernel_generic},
#endif
    {"generic", always, &tt_kernel_generic},
};

static _Atomic(const struct choice *) chosen;

TT_HOT static const struct choice *current(void)
{
    const struct choice *c = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (c)
        return c;
    for (c = choices; !c->usable(); c++)
        ;
    atomic_store_explicit(&chosen, c, memory_order_relaxed);
    return c;
}

const char *tt_kernel_isa(void)
{
    return current()->name;
}

bool tt_kernel_force(const char *isa)
{
    for (size_t i = 0; i < countof(choices); i++) {
        if (strcmp(choices[i].name, isa) != 0 || !choices[i].usable())
            continue;
        atomic_store_explicit(&chosen, &choices[i], memory_order_relaxed);
        return true;
    }
    return false;
}

static size_t elem_bytes(tutti_dtype dtype)
{
#define BYTES(id, name, bytes) bytes,
    static const uint8_t sizes[] = {TUTTI_DTYPE_LIST(BYTES)};
#undef BYTES
    return sizes[dtype];
}

static bool is_source(const struct tt_reduce *r, const void *p)
{
    for (uint32_t s = 0; s < r->nsrc; s++) {
        if (r->src[s] == p)
            return true;
    }
    return false;
}

/* Streaming stores need destinations that are aligned alike (they reach the start of a cache
 * line at the same element), and lines that loading has not brought into the cache anyway. */
static bool can_stream(const struct tt_reduce *r)
{
    const size_t elem = elem_bytes(r->dtype);
    const uintptr_t first = (uintptr_t)r->dst[0];
    if (r->count < STREAM_MIN_BYTES / elem || first % elem != 0)
        return false;
    for (uint32_t d = 0; d < r->ndst; d++) {
        if (((uintptr_t)r->dst[d] - first) % 64 != 0 || is_source(r, r->dst[d]))
            return false;
    }
    return true;
}

/* One source and no division: the bits are copied as they are, including signalling NaNs.
 * Returns true when nothing is left to do; otherwise r has become a copy of bytes. */
static bool copied(struct tt_reduce *r)
{
    r->count *= elem_bytes(r->dtype);
    r->dtype = TUTTI_I8;
    r->redop = TUTTI_SUM;
    if (r->ndst > 1 || r->nontemporal)
        return false;
    if (r->dst[0] != r->src[0])
        memcpy(r->dst[0], r->src[0], r->count);
    return true;
}

static bool is_bitwise(tutti_redop op)
{
    return op == TUTTI_BAND || op == TUTTI_BOR || op == TUTTI_BXOR;
}

TT_HOT void tt_kernel_reduce_run(const struct tt_reduce *reduce)
{
    struct tt_reduce r = *reduce;
    assert(r.nsrc >= 1 && r.ndst >= 1 && (unsigned)r.dtype < TUTTI_DTYPE_COUNT &&
           (unsigned)r.redop < TUTTI_REDOP_COUNT);
    if (r.count == 0)
        return;
    if (r.divisor > 1 && tt_dtype_is_integer(r.dtype)) {
        tt_kernel_average(&r);
        return;
    }
    r.nontemporal = r.nontemporal && can_stream(&r);
    if (r.nsrc == 1 && r.divisor <= 1 && copied(&r))
        return;
    if (r.user && r.nsrc > 1) {
        tt_kernel_user(&r);
        return;
    }
    /* Bits do not depend on the element size: one kernel, that of bytes, serves all types. */
    if (is_bitwise(r.redop)) {
        r.count *= elem_bytes(r.dtype);
        r.dtype = TUTTI_U8;
    }
    assert(current()->level->fn[r.dtype][r.redop]); /* callers have asked tt_redop_fits */
    current()->level->fn[r.dtype][r.redop](&r);
}

void tt_kernel_reduce_two(tutti_dtype dtype, tutti_redop redop, void *dst, const void *a,
                          const void *b, size_t count)
{
    const void *const src[] = {a, b};
    void *const to[] = {dst};
    const struct tt_reduce r = {.dtype = dtype,
                                .redop = redop,
                                .nsrc = 2,
                                .ndst = 1,
                                .src = src,
                                .dst = to,
                                .count = count};
    tt_kernel_reduce_run(&r);
}
