/* optim_real.h - the loops of the optimizers, included by optim.c once per type REAL.
 *
 * Each loop is free of branches that depend on data and has restrict pointers, so that compilers
 * vectorise it. Gradients are scaled (loss scale, clipping) as they are read. */
static void NAME(sgd)(const struct coeffs *c, const struct tt_optim_data *d)
{
    REAL *restrict p = d->param, *restrict b = d->state[0];
    const REAL *restrict grad = d->grad;
    REAL scale = (REAL)c->scale, lr = (REAL)c->lr, decay = (REAL)c->decay, mu = (REAL)c->momentum,
         look = c->nesterov ? mu : 0;
    /* Without momentum there is no state array to read: half the memory traffic. */
    if (mu == 0) {
        for (size_t i = 0; i < d->n; i++)
            p[i] -= lr * (grad[i] * scale + decay * p[i]);
        return;
    }
    for (size_t i = 0; i < d->n; i++) {
        REAL g = grad[i] * scale + decay * p[i];
        b[i] = mu * b[i] + g;
        p[i] -= lr * (c->nesterov ? g + look * b[i] : b[i]);
    }
}

static void NAME(adam)(const struct coeffs *c, const struct tt_optim_data *d)
{
    REAL *restrict p = d->param, *restrict m = d->state[0], *restrict v = d->state[1];
    const REAL *restrict grad = d->grad;
    REAL scale = (REAL)c->scale, keep = c->adamw ? (REAL)(1 - c->lr * c->decay) : 1,
         decay = c->adamw ? 0 : (REAL)c->decay;
    REAL b1 = (REAL)c->beta1, b2 = (REAL)c->beta2, n1 = (REAL)(1 - c->beta1),
         n2 = (REAL)(1 - c->beta2);
    REAL size = (REAL)c->step_size, root = (REAL)c->root, eps = (REAL)c->eps;
    for (size_t i = 0; i < d->n; i++) {
        REAL x = p[i] * keep, g = grad[i] * scale + decay * x;
        m[i] = b1 * m[i] + n1 * g;
        v[i] = b2 * v[i] + n2 * g * g;
        p[i] = x - size * (m[i] / (ROOT(v[i]) / root + eps));
    }
}
