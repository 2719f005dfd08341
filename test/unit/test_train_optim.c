/* test_train_optim.c - the optimizers against values computed by hand from the formulas of PyTorch's documentation (one element, a few
 * steps, double precision), f32 against f64, and that nothing depends on how a vector is cut. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "train/train_int.h"

static double run(enum tt_optimizer kind, const struct tt_train_group *g, unsigned steps)
{
    double p = 1, state[2] = {0, 0};
    for (unsigned s = 1; s <= steps; s++) {
        double grad = s % 2 ? 1 : -0.5; /* scaled by 1/2 below */
        struct tt_optim o = {.kind = kind, .g = g, .scale = 0.5, .step = s};
        tt_train_optim_run(
            &o, &(struct tt_optim_data){.dtype = TUTTI_F64, .param = &p, .grad = &grad, .state = {&state[0], &state[1]}, .n = 1});
    }
    return p;
}

static void near(double have, double want)
{
    if (!(fabs(have - want) < 1e-12))
        fail_msg("%.17g, not %.17g", have, want);
}

static void sgd(void **state)
{
    (void)state;
    struct tt_train_group g = {.lr = 0.1};
    near(run(TT_OPT_SGD, &g, 1), 0.95);
    near(run(TT_OPT_SGD, &g, 2), 0.975);
    g.weight_decay = 0.5; /* 1 - 0.1 (0.5 + 0.5) = 0.9; 0.9 - 0.1 (-0.25 + 0.45) = 0.88 */
    near(run(TT_OPT_SGD, &g, 2), 0.88);
    g = (struct tt_train_group){.lr = 0.1, .momentum = 0.5}; /* b 0.5, 0: 0.95, 0.95 */
    near(run(TT_OPT_SGD, &g, 2), 0.95);
    g.nesterov = true; /* 1 - 0.1 (0.5 + 0.25) = 0.925; b = 0, g = -0.25: 0.95 */
    near(run(TT_OPT_SGD, &g, 1), 0.925);
    near(run(TT_OPT_SGD, &g, 2), 0.95);
}

/* The first step of Adam is lr g / (|g| + eps) whatever g is. Step 2: m = 0.9 0.05 - 0.025 = 0.02, / 0.19; v = 0.999 0.00025 + 0.0000625 =
 * 0.00031225, / 0.001999. */
static void adam(void **state)
{
    (void)state;
    struct tt_train_group g = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8};
    double first = 1 - 0.1 * 0.5 / (0.5 + 1e-8);
    near(run(TT_OPT_ADAM, &g, 1), first);
    near(run(TT_OPT_ADAM, &g, 2), first - 0.1 * (0.02 / 0.19) / (sqrt(0.00031225 / 0.001999) + 1e-8));
    g.weight_decay = 0.5; /* Adam: g = 0.5 + 0.5; AdamW: p = 0.95 first */
    near(run(TT_OPT_ADAM, &g, 1), 1 - 0.1 / (1 + 1e-8));
    near(run(TT_OPT_ADAMW, &g, 1), 0.95 - 0.1 * 0.5 / (0.5 + 1e-8));
}

enum { N = 1003 };

static void fill(float *p, float *grad)
{
    for (int i = 0; i < N; i++) {
        p[i] = (float)(i % 37) / 7;
        grad[i] = (float)(i % 23 - 11) / 5;
    }
}

/* Any cut gives the same bits; f32 stays close to f64. */
static void cuts(void **state)
{
    (void)state;
    struct tt_train_group g = {.lr = 0.1, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .momentum = 0.9};
    for (enum tt_optimizer kind = TT_OPT_SGD; kind < TT_OPT_COUNT; kind++) {
        static float p[2][N], grad[N], a[2][N], b[2][N];
        double wide = 2.0 / 7, wide_grad = (double)(2 - 11) / 5, wide_state[2] = {0, 0};
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
        fill(p[0], grad);
        fill(p[1], grad);
        for (uint64_t s = 1; s <= 5; s++) {
            struct tt_optim o = {.kind = kind, .g = &g, .scale = 1, .step = s};
            tt_train_optim_run(&o, &(struct tt_optim_data){TUTTI_F32, p[0], grad, {a[0], b[0]}, N});
            for (size_t at = 0, n; at < N; at += n) {
                n = at % 13 + 1 < N - at ? at % 13 + 1 : N - at;
                tt_train_optim_run(&o, &(struct tt_optim_data){TUTTI_F32, p[1] + at, grad + at, {a[1] + at, b[1] + at}, n});
            }
            tt_train_optim_run(&o, &(struct tt_optim_data){TUTTI_F64, &wide, &wide_grad, {&wide_state[0], &wide_state[1]}, 1});
        }
        assert_memory_equal(p[0], p[1], sizeof p[0]);
        assert_true(fabs((double)p[0][2] - wide) < 1e-5);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(sgd), cmocka_unit_test(adam), cmocka_unit_test(cuts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
