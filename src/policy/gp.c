/* gp.c - regression by a Gaussian process in one dimension: n <= 64 points, a Matern 5/2 kernel
 *
 *     k(d) = s (1 + a + a^2/3) exp(-a),  a = sqrt(5) d / l
 *
 * The variance s is in closed form for each length l (the value of greatest likelihood given l); l
 * is the one of a short list with the greatest marginal likelihood. Noise is a fixed small share of
 * s: step times are means of several steps and vary by per mille. L is the Cholesky factor of K +
 * noise; weights = (K + noise)^-1 y; predictions follow from both. */
#include "policy/tuner.h"

#include <math.h>
#include <string.h>

#define NOISE 1e-4
static const double lengths[] = {0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9};

static double matern(double d, double length)
{
    double a = sqrt(5.0) * fabs(d) / length;
    return (1 + a + a * a / 3) * exp(-a);
}

/* L of the unit-variance kernel matrix with noise. The noise makes the matrix positive definite, so
 * the square roots are of positive numbers. */
static void factor(struct tt_gp *g)
{
    for (uint32_t i = 0; i < g->n; i++)
        for (uint32_t j = 0; j <= i; j++) {
            double sum = matern(g->x[i] - g->x[j], g->length) + (i == j ? NOISE : 0);
            for (uint32_t k = 0; k < j; k++)
                sum -= g->chol[i][k] * g->chol[j][k];
            g->chol[i][j] = i == j ? sqrt(sum > 1e-12 ? sum : 1e-12) : sum / g->chol[j][j];
        }
}

/* v := L^-1 v */
static void solve_lower(const struct tt_gp *g, double *v)
{
    for (uint32_t i = 0; i < g->n; i++) {
        for (uint32_t k = 0; k < i; k++)
            v[i] -= g->chol[i][k] * v[k];
        v[i] /= g->chol[i][i];
    }
}

/* v := L^-T v */
static void solve_upper(const struct tt_gp *g, double *v)
{
    for (uint32_t i = g->n; i-- > 0;) {
        for (uint32_t k = i + 1; k < g->n; k++)
            v[i] -= g->chol[k][i] * v[k];
        v[i] /= g->chol[i][i];
    }
}

/* Sets factor, scale and weights for one length; returns the logarithm of the marginal likelihood
 * without its constants. */
static double fit_length(struct tt_gp *g, const double *y, double length)
{
    double half[TT_TUNER_TRIALS], fit = 0, det = 0;
    g->length = length;
    factor(g);
    memcpy(half, y, g->n * sizeof *y);
    solve_lower(g, half);
    for (uint32_t i = 0; i < g->n; i++) {
        fit += half[i] * half[i];
        det += log(g->chol[i][i]);
    }
    g->scale = fit / g->n > 1e-12 ? fit / g->n : 1e-12;
    solve_upper(g, half);
    memcpy(g->weight, half, g->n * sizeof *half);
    return -0.5 * g->n * log(g->scale) - det;
}

void tt_policy_gp_fit(struct tt_gp *g, const double *x, const double *y, uint32_t n)
{
    double best = 0, likelihood = -HUGE_VAL;
    g->n = n;
    memcpy(g->x, x, n * sizeof *x);
    for (size_t i = 0; i < countof(lengths); i++) {
        double l = fit_length(g, y, lengths[i]);
        if (l > likelihood) {
            likelihood = l;
            best = lengths[i];
        }
    }
    fit_length(g, y, best); /* the loop left the factor of the last length */
}

void tt_policy_gp_predict(const struct tt_gp *g, double x, double *ret_mean, double *ret_deviation)
{
    double k[TT_TUNER_TRIALS], mean = 0, rest = 1;
    for (uint32_t i = 0; i < g->n; i++) {
        k[i] = matern(x - g->x[i], g->length);
        mean += k[i] * g->weight[i];
    }
    solve_lower(g, k);
    for (uint32_t i = 0; i < g->n; i++)
        rest -= k[i] * k[i];
    *ret_mean = mean;
    *ret_deviation = sqrt(g->scale * (rest > 0 ? rest : 0));
}
