/* sets.c - the offsets that move in a step of shift halving-doubling, as few runs.
 *
 * In a step every level is free (its digit may be 0 or 1), done (0) or the one being taken away
 * (1). The offsets are listed by going down the levels: at level k the numbers below m (m <= c, the
 * distance of the level before) are still open; those with digit 0 are the numbers below min(m, d),
 * those with digit 1 are d + the numbers below m - d.
 *
 *     n = 12: distances 6 3 2 1.   6 first: 6..11 leave.
 *             then 1: of 0..5 = 0, 1, 2, 3, 3+1, 3+2 those with the 1: 1 and 4 leave
 *
 * As soon as all lower levels are free, what is left is one run; where c is a power of two and m =
 * c, digits are bits, and free levels above fixed ones above free ones are one strided run. */
#include "algo/shd/shd.h"

#include <assert.h>

enum digit { FREE, ZERO, ONE };

struct listing {
    const struct tt_shd_loop *l;
    enum digit digit[TT_SHD_LEVELS];
    uint32_t fixed_end; /* levels from here on are free */
    tt_shd_sink sink;
    void *ctx;
};

struct tt_shd_loop tt_shd_loop_make(uint32_t n)
{
    struct tt_shd_loop l = {.n = n};
    for (uint32_t c = n; c > 1; c = l.jump[l.levels++])
        l.jump[l.levels] = c / 2 + c % 2;
    assert(l.levels == tt_ceil_log2(n));
    return l;
}

static void sets_give(const struct listing *x, uint32_t first, uint32_t len, uint32_t stride,
                      uint32_t reps)
{
    struct tt_shd_run run = {first, len, reps > 1 ? stride : 0, reps};
    if (len > 0)
        x->sink(x->ctx, &run);
}

/* Levels k.. are free, then fixed, then free. */
static bool is_striped(const struct listing *x, uint32_t k)
{
    while (k < x->fixed_end && x->digit[k] == FREE)
        k++;
    while (k < x->fixed_end && x->digit[k] != FREE)
        k++;
    return k == x->fixed_end;
}

/* All of [0,c) from level k on, c a power of two: the digits are bits. */
static void give_striped(const struct listing *x, uint32_t k, uint32_t base, uint32_t c)
{
    uint32_t reps = 1, value = 0;
    for (; x->digit[k] == FREE; k++) {
        reps *= 2;
        c /= 2;
    }
    uint32_t stride = c;
    for (; k < x->fixed_end; k++) {
        c /= 2;
        value += x->digit[k] == ONE ? c : 0;
    }
    sets_give(x, base + value, c, stride, reps);
}

/* The numbers base + [0,m) whose digits from level k on are as demanded. */
static void sets_list(const struct listing *x, uint32_t k, uint32_t base, uint32_t m)
{
    uint32_t c = k == 0 ? x->l->n : x->l->jump[k - 1];
    assert(m <= c);
    if (m == 0)
        return;
    if (k >= x->fixed_end) {
        sets_give(x, base, m, 0, 1);
        return;
    }
    if (m == c && (c & (c - 1)) == 0 && is_striped(x, k)) {
        give_striped(x, k, base, c);
        return;
    }
    uint32_t d = x->l->jump[k];
    if (x->digit[k] != ONE)
        sets_list(x, k + 1, base, m < d ? m : d);
    if (x->digit[k] != ZERO && m > d)
        sets_list(x, k + 1, base + d, m - d);
}

void tt_shd_leaving(const struct tt_shd_loop *l, const struct tt_shd_order *o, uint32_t step,
                    tt_shd_sink sink, void *ctx)
{
    struct listing x = {.l = l, .sink = sink, .ctx = ctx};
    assert(step < l->levels);
    for (uint32_t i = 0; i <= step; i++) {
        uint32_t k = o->step[i];
        x.digit[k] = i == step ? ONE : ZERO;
        x.fixed_end = k + 1 > x.fixed_end ? k + 1 : x.fixed_end;
    }
    sets_list(&x, 0, 0, l->n);
}

/* Level k is taken away first: of the numbers below m with digit 0, those below m - d have a
 * partner with digit 1. */
static void list_untouched(const struct listing *x, uint32_t level, uint32_t base, uint32_t m)
{
    uint32_t k = x->fixed_end - 1, d = x->l->jump[level], has = m > d ? m - d : 0,
             zero = m < d ? m : d;
    if (level == k) {
        sets_give(x, base + has, zero - has, 0, 1);
        return;
    }
    list_untouched(x, level + 1, base, zero);
    if (has > 0)
        list_untouched(x, level + 1, base + d, has);
}

void tt_shd_untouched(const struct tt_shd_loop *l, const struct tt_shd_order *o, tt_shd_sink sink,
                      void *ctx)
{
    struct listing x = {.l = l, .sink = sink, .ctx = ctx, .fixed_end = o->step[0] + 1u};
    if ((l->n & (l->n - 1)) != 0) /* powers of two: every digit can be set */
        list_untouched(&x, 0, 0, l->n);
}
