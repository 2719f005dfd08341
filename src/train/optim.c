/* optim.c - the optimizers, element by element: SGD with momentum (Nesterov's too), Adam, AdamW.
 * The formulas are PyTorch's, in its order of operations: coefficients in double precision,
 * elements in their own type.
 *
 *     SGD     g += wd p;  b = mu b + g;  p -= lr (nesterov ? g + mu b : b)
 *     Adam    g += wd p;  m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g g;
 *             p -= lr/(1-b1^t) m / (sqrt v / sqrt(1-b2^t) + eps)
 *     AdamW   p *= 1 - lr wd, then as Adam without weight decay
 *
 * f16 and bf16: the same in f32, on an f32 copy of the parameter that is part of the state; the
 * parameter is the rounded copy.
 *
 * Powers are repeated products, not pow(3): every machine gets the same bits. */
#include "train/train_int.h"

#include <assert.h>
#include <math.h>

enum { WIDE = 1024 }; /* elements in f32 at a time */

struct coeffs {
    double scale, lr, decay, momentum, beta1, beta2, eps, step_size, root;
    bool nesterov, adamw;
};

#define REAL    float
#define NAME(x) x##_f32
#define ROOT    sqrtf
#include "train/optim_real.h"
#undef REAL
#undef NAME
#undef ROOT
#define REAL    double
#define NAME(x) x##_f64
#define ROOT    sqrt
#include "train/optim_real.h"
#undef REAL
#undef NAME
#undef ROOT

uint32_t tt_train_optim_states(enum tt_optimizer kind)
{
    return kind == TT_OPT_NONE ? 0 : kind == TT_OPT_SGD ? 1 : 2;
}

size_t tt_train_state_each(tutti_dtype dtype)
{
    return dtype == TUTTI_F64 ? 8 : 4;
}

/* x^n by squaring. */
static double optim_power(double x, uint64_t n)
{
    double r = 1;
    for (; n; n >>= 1, x *= x)
        r = n & 1 ? r * x : r;
    return r;
}

static void optim_run(enum tt_optimizer kind, const struct coeffs *c, const struct tt_optim_data *d)
{
    assert(d->dtype == TUTTI_F32 || d->dtype == TUTTI_F64);
    if (kind == TT_OPT_SGD && d->dtype == TUTTI_F32)
        sgd_f32(c, d);
    else if (kind == TT_OPT_SGD)
        sgd_f64(c, d);
    else if (d->dtype == TUTTI_F32)
        adam_f32(c, d);
    else
        adam_f64(c, d);
}

/* Widens the gradient block by block on the stack: no memory is allocated in a step. */
static void run_half(enum tt_optimizer kind, const struct coeffs *c, const struct tt_optim_data *d)
{
    float grad[WIDE], *master = d->state[TT_STATE_MASTER];
    for (size_t at = 0; at < d->n; at += WIDE) {
        size_t n = d->n - at < WIDE ? d->n - at : WIDE;
        struct tt_optim_data wide = {
            .dtype = TUTTI_F32, .param = master + at, .grad = grad, .n = n};
        for (uint32_t s = 0; s < TT_STATE_MASTER; s++)
            wide.state[s] = d->state[s] ? (float *)d->state[s] + at : NULL;
        tt_train_half_widen(d->dtype, (const uint16_t *)d->grad + at, grad, n);
        optim_run(kind, c, &wide);
        if (d->param)
            tt_train_half_narrow(d->dtype, master + at, (uint16_t *)d->param + at, n);
    }
}

void tt_train_optim_run(const struct tt_optim *o, const struct tt_optim_data *d)
{
    const struct tt_train_group *g = o->g;
    struct coeffs c = {.scale = o->scale,
                       .lr = g->lr,
                       .decay = g->weight_decay,
                       .momentum = g->momentum,
                       .beta1 = g->beta1,
                       .beta2 = g->beta2,
                       .eps = g->eps,
                       .nesterov = g->nesterov,
                       .adamw = o->kind == TT_OPT_ADAMW};
    /* Bias corrections depend on the step only: once per call, not per element. */
    if (o->kind != TT_OPT_SGD) {
        c.step_size = g->lr / (1 - optim_power(g->beta1, o->step));
        c.root = sqrt(1 - optim_power(g->beta2, o->step));
    }
    if (tt_train_half(d->dtype))
        run_half(o->kind, &c, d);
    else
        optim_run(o->kind, &c, d);
}
