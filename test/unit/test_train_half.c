/* test_train_half.c - f16 and bf16 in the trainer: conversions against the definition, updates against those of f32 tensors with the same
 * values, and what the state is in the middle of an accumulation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "one_rank.h"
#include "train/train_int.h"

/* ---- conversions ---- */

/* By the definition of the format. */
static double meaning(tutti_dtype d, uint16_t h)
{
    int bits = d == TUTTI_F16 ? 10 : 7, bias = d == TUTTI_F16 ? 15 : 127, most = d == TUTTI_F16 ? 31 : 255;
    int exponent = (h & 0x7fff) >> bits, fraction = h & ((1 << bits) - 1);
    double sign = h & 0x8000 ? -1 : 1;
    if (exponent == most)
        return fraction ? NAN : sign * INFINITY;
    return sign * (exponent ? ldexp((1 << bits) + fraction, exponent - bias - bits) : ldexp(fraction, 1 - bias - bits));
}

static uint16_t narrow(tutti_dtype d, float f)
{
    uint16_t h;
    tt_train_half_narrow(d, &f, &h, 1);
    return h;
}

/* Every value there is; and between two neighbours the nearer one, in the middle the even one. */
static void all_values(tutti_dtype d)
{
    unsigned infinity = d == TUTTI_F16 ? 0x7c00 : 0x7f80;
    for (unsigned h = 0; h < 0x10000; h++) {
        uint16_t one = (uint16_t)h;
        float f, next;
        tt_train_half_widen(d, &one, &f, 1);
        double want = meaning(d, one);
        if (isnan(want)) {
            assert_true(isnan(f) && isnan(meaning(d, narrow(d, f))));
            continue;
        }
        assert_true((double)f == want && !signbit(f) == !(h & 0x8000));
        assert_int_equal(narrow(d, f), h);
        if ((h & 0x7fff) >= infinity - 1)
            continue;
        uint16_t up = (uint16_t)(h + 1);
        tt_train_half_widen(d, &up, &next, 1);
        float middle = (float)(((double)f + next) / 2);
        assert_int_equal(narrow(d, middle), h % 2 ? h + 1 : h);
        assert_int_equal(narrow(d, nextafterf(middle, f)), h);
        assert_int_equal(narrow(d, nextafterf(middle, next)), h + 1);
    }
}

static void conversions(void **state)
{
    (void)state;
    all_values(TUTTI_F16);
    all_values(TUTTI_BF16);
    assert_int_equal(narrow(TUTTI_F16, 65519.99f), 0x7bff);
    assert_int_equal(narrow(TUTTI_F16, 65520), 0x7c00);
    assert_int_equal(narrow(TUTTI_F16, -1e30f), 0xfc00);
    assert_int_equal(narrow(TUTTI_F16, 1e-30f), 0);
    assert_int_equal(narrow(TUTTI_BF16, 3.4e38f), 0x7f80);
}

/* ---- updates ---- */

enum { N = 3000, STEPS = 40 };

static struct tt_trainer *make(tutti_dtype d, enum tt_optimizer kind, enum tt_policy_kind policy, double clip)
{
    struct tutti_error err;
    struct tt_trainer *t;
    uint32_t index;
    struct tt_train_options o = {.policy = {.kind = policy}, .optimizer = kind, .clip_norm = clip};
    assert_int_equal(tt_train_open(comm, &o, &t, &err), TUTTI_OK);
    assert_int_equal(tt_train_add(t, &(struct tt_train_tensor){.name = "a", .count = N, .dtype = d}, &index, &err), TUTTI_OK);
    struct tt_train_group g = {.lr = 1e-4, .weight_decay = 0.01, .momentum = kind == TT_OPT_SGD ? 0.9 : 0, .eps = 1e-8};
    g.beta1 = 0.9;
    g.beta2 = 0.999;
    assert_int_equal(tt_train_set_group(t, 0, &g, &err), TUTTI_OK);
    assert_int_equal(tt_train_freeze(t, &err), TUTTI_OK);
    return t;
}

static void put(tutti_dtype d, void *a, size_t i, float v)
{
    if (tt_train_half(d))
        tt_train_half_narrow(d, &v, (uint16_t *)a + i, 1);
    else
        ((float *)a)[i] = v;
}

/* Multiples of 1/64: the same in all types. */
static void fill(tutti_dtype d, void *a, unsigned seed)
{
    for (size_t i = 0; i < N; i++)
        put(d, a, i, ((float)((seed * 7919 + i * 104729) % 127) - 63) / 64);
}

static void train(struct tt_trainer *t, tutti_dtype d)
{
    fill(d, tt_train_param(t, 0), 99);
    assert_int_equal(tt_train_reload(t), TUTTI_OK);
    for (unsigned s = 0; s < STEPS; s++) {
        assert_int_equal(tt_train_wait(t, 0), TUTTI_OK);
        fill(d, tt_train_grad(t, 0), s);
        assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
        assert_int_equal(tt_train_step(t), TUTTI_OK);
    }
    assert_int_equal(tt_train_flush(t), TUTTI_OK);
}

/* The f32 copy goes the way of an f32 tensor, bit by bit; the parameter is what it rounds to. Steps are far below the spacing of the small
 * types, so that without a copy most of them would be lost. */
static void compare(tutti_dtype d, enum tt_optimizer kind, enum tt_policy_kind policy, double clip)
{
    struct tt_trainer *wide = make(TUTTI_F32, kind, policy, clip), *t = make(d, kind, policy, clip);
    static float master[N], state[N];
    static uint16_t rounded[N];
    struct tutti_error err;
    uint32_t k = tt_train_optim_states(kind);
    train(wide, TUTTI_F32);
    train(t, d);
    assert_string_equal(tt_train_state_name(t, 0, k), "master_param");
    assert_null(tt_train_state_name(wide, 0, k));
    assert_int_equal(tt_train_state_get(t, 0, k, master, &err), TUTTI_OK);
    assert_memory_equal(master, tt_train_param(wide, 0), sizeof master);
    tt_train_half_narrow(d, master, rounded, N);
    assert_memory_equal(rounded, tt_train_param(t, 0), sizeof rounded);
    assert_int_equal(tt_train_state_get(t, 0, 0, master, &err), TUTTI_OK);
    assert_int_equal(tt_train_state_get(wide, 0, 0, state, &err), TUTTI_OK);
    assert_memory_equal(master, state, sizeof state);
    assert_true(tt_train_norm(t) == tt_train_norm(wide) && (clip > 0) == (tt_train_norm(t) > 0));
    tt_train_close(wide);
    tt_train_close(t);
}

static void updates(void **state)
{
    (void)state;
    for (int policy = 0; policy < 2; policy++)
        for (int kind = TT_OPT_SGD; kind < TT_OPT_COUNT; kind++)
            for (int half = 0; half < 2; half++)
                compare(half ? TUTTI_F16 : TUTTI_BF16, (enum tt_optimizer)kind, policy ? TT_POLICY_DEAR_SHARDED : TT_POLICY_SYNC,
                        half ? 3.5 : 0);
}

/* A copy that is set shows in the parameter; one that is taken anew forgets what rounding had cut off. */
static void masters(void **state)
{
    struct tt_trainer *t = make(TUTTI_BF16, TT_OPT_SGD, TT_POLICY_DEAR_SHARDED, 0);
    static float in[N], out[N];
    struct tutti_error err;
    (void)state;
    for (size_t i = 0; i < N; i++)
        in[i] = 1 + (float)i / 65536;
    assert_int_equal(tt_train_state_set(t, 0, 1, in, &err), TUTTI_OK);
    assert_int_equal(((uint16_t *)tt_train_param(t, 0))[N - 1], narrow(TUTTI_BF16, in[N - 1]));
    assert_int_equal(tt_train_state_get(t, 0, 1, out, &err), TUTTI_OK);
    assert_memory_equal(in, out, sizeof in);
    assert_int_equal(tt_train_reload(t), TUTTI_OK);
    assert_int_equal(tt_train_state_get(t, 0, 1, out, &err), TUTTI_OK);
    assert_memory_equal(in, out, sizeof in); /* they round to the parameter: they know more */
    ((uint16_t *)tt_train_param(t, 0))[1] = narrow(TUTTI_BF16, 2);
    assert_int_equal(tt_train_reload(t), TUTTI_OK);
    assert_int_equal(tt_train_state_get(t, 0, 1, out, &err), TUTTI_OK);
    assert_true(out[1] == 2 && out[0] == in[0] && out[2] == in[2]);
    tt_train_close(t);
}

/* Micro-batches that are not handed over are no update yet. */
static void in_the_middle(void **state)
{
    struct tt_trainer *t = make(TUTTI_F32, TT_OPT_ADAM, TT_POLICY_SYNC, 0);
    struct tutti_error err;
    (void)state;
    assert_int_equal(tt_train_sync(t, false), TUTTI_OK);
    assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
    assert_int_equal(tt_train_updates(t, 0), 0);
    assert_int_equal(tt_train_set_updates(t, 0, 7, &err), TUTTI_OK);
    assert_int_equal(tt_train_updates(t, 0), 7);
    assert_int_equal(tt_train_sync(t, true), TUTTI_OK);
    assert_int_equal(tt_train_ready(t, 0), TUTTI_OK);
    assert_int_equal(tt_train_step(t), TUTTI_OK);
    assert_int_equal(tt_train_updates(t, 0), 8);
    tt_train_close(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(conversions), cmocka_unit_test(updates), cmocka_unit_test(masters),
                                       cmocka_unit_test(in_the_middle)};
    return cmocka_run_group_tests(tests, open_comm, close_comm);
}
