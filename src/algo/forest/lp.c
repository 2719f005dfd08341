/* lp.c - weights of trees: maximise the sum of the weights so that no resource is used beyond 1.
 * Columns may be added later.
 *
 * Primal simplex on the condensed tableau: of the rows + columns variables (a slack per row, a
 * weight per column) `rows` are basic, and the table holds how each of them depends on the others,
 *
 *     basic[i]       = rhs[i] - sum over j of table[i][j] * other[j]
 *     sum of weights = value + sum over j of gain[j] * other[j]
 *
 * A pivot exchanges one basic variable with one other. A new column needs no factorisation: its use
 * of row i is found in the table as the column of slack i, or is a unit where that slack is still
 * basic. Limits get tiny distinct surcharges (below 1.3e-4), so that no two ratios tie and the
 * method cannot cycle; callers scale the weights to the true limits. Plain IEEE arithmetic in a
 * fixed order: every machine takes the same pivots. Invariant: rhs >= 0 up to rounding; the weights
 * are feasible between pivots. */
#include <stdlib.h>

#include "algo/forest/forest.h"

static const double TINY = 1e-9;

struct tt_forest_lp {
    uint32_t rows, cols, most;
    double *table; /* column by column */
    double *rhs, *gain;
    uint32_t *basic, *other; /* variables: below rows a slack, else rows + column */
};

void tt_forest_lp_free(struct tt_forest_lp *lp)
{
    if (!lp)
        return;
    free(lp->table);
    free(lp->rhs);
    free(lp->gain);
    free(lp->basic);
    free(lp->other);
    free(lp);
}

/* All slacks are basic at first: the weights are 0. The surcharges are fixed by the row number. */
struct tt_forest_lp *tt_forest_lp_make(uint32_t rows, uint32_t most)
{
    struct tt_forest_lp *lp = tt_zalloc(1, sizeof *lp);
    if (!lp)
        return NULL;
    lp->rows = rows;
    lp->most = most;
    lp->table = tt_alloc((size_t)rows * most + 1, sizeof *lp->table);
    lp->rhs = tt_alloc(rows, sizeof *lp->rhs);
    lp->gain = tt_alloc(most, sizeof *lp->gain);
    lp->basic = tt_alloc(rows, sizeof *lp->basic);
    lp->other = tt_alloc(most, sizeof *lp->other);
    if (!lp->table || !lp->rhs || !lp->gain || !lp->basic || !lp->other) {
        tt_forest_lp_free(lp);
        return NULL;
    }
    for (uint32_t i = 0; i < rows; i++) {
        lp->basic[i] = i;
        lp->rhs[i] = 1 + (double)(tt_mix64(i) >> 44) * 0x1p-33;
    }
    return lp;
}

static double *lp_column(const struct tt_forest_lp *lp, uint32_t j)
{
    return lp->table + (size_t)j * lp->rows;
}

bool tt_forest_lp_add(struct tt_forest_lp *lp, const double *use)
{
    if (lp->cols == lp->most)
        return false;
    double *col = lp_column(lp, lp->cols), gain = 1;
    for (uint32_t i = 0; i < lp->rows; i++)
        col[i] = lp->basic[i] < lp->rows ? use[lp->basic[i]] : 0;
    for (uint32_t j = 0; j < lp->cols; j++) {
        double u = lp->other[j] < lp->rows ? use[lp->other[j]] : 0;
        const double *slack = lp_column(lp, j);
        if (u == 0)
            continue;
        for (uint32_t i = 0; i < lp->rows; i++)
            col[i] += u * slack[i];
        gain += u * lp->gain[j];
    }
    lp->gain[lp->cols] = gain;
    lp->other[lp->cols] = lp->rows + lp->cols;
    lp->cols++;
    return true;
}

/* Row r leaves the basis for column s. */
static void pivot(struct tt_forest_lp *lp, uint32_t r, uint32_t s)
{
    double *enter = lp_column(lp, s), p = enter[r], g = lp->gain[s], b = lp->rhs[r] / p;
    for (uint32_t j = 0; j < lp->cols; j++) {
        double *col = lp_column(lp, j), t = col[r] / p;
        if (j == s || t == 0)
            continue;
        for (uint32_t i = 0; i < lp->rows; i++)
            col[i] -= enter[i] * t;
        col[r] = t;
        lp->gain[j] -= g * t;
    }
    for (uint32_t i = 0; i < lp->rows; i++) {
        if (i == r)
            continue;
        lp->rhs[i] -= enter[i] * b;
        lp->rhs[i] = lp->rhs[i] < 0 ? 0 : lp->rhs[i]; /* rounding */
        enter[i] = -enter[i] / p;
    }
    lp->rhs[r] = b;
    enter[r] = 1 / p;
    lp->gain[s] = -g / p;
    uint32_t leaving = lp->basic[r];
    lp->basic[r] = lp->other[s];
    lp->other[s] = leaving;
}

/* The variable that gains most per unit, cols when none does. */
static uint32_t entering(const struct tt_forest_lp *lp)
{
    uint32_t best = lp->cols;
    double most = TINY;
    for (uint32_t j = 0; j < lp->cols; j++)
        if (lp->gain[j] > most) {
            most = lp->gain[j];
            best = j;
        }
    return best;
}

/* The row that limits the entering variable most; rows when none does. */
static uint32_t leaving_row(const struct tt_forest_lp *lp, uint32_t s)
{
    const double *enter = lp_column(lp, s);
    uint32_t best = lp->rows;
    double least = 0;
    for (uint32_t i = 0; i < lp->rows; i++) {
        if (enter[i] <= TINY)
            continue;
        double ratio = lp->rhs[i] / enter[i];
        if (best == lp->rows || ratio < least) {
            least = ratio;
            best = i;
        }
    }
    return best;
}

/* Every pivot costs rows * cols; it is not begun when that is not left. */
bool tt_forest_lp_solve(struct tt_forest_lp *lp, uint64_t *work)
{
    uint64_t each = (uint64_t)lp->rows * lp->cols + 1;
    for (uint32_t s; (s = entering(lp)) < lp->cols; *work -= each) {
        uint32_t r = leaving_row(lp, s);
        if (r == lp->rows || *work < each)
            return false;
        pivot(lp, r, s);
    }
    return true;
}

double tt_forest_lp_weights(const struct tt_forest_lp *lp, double *weight)
{
    double sum = 0;
    for (uint32_t j = 0; j < lp->cols; j++)
        weight[j] = 0;
    for (uint32_t i = 0; i < lp->rows; i++)
        if (lp->basic[i] >= lp->rows) {
            weight[lp->basic[i] - lp->rows] = lp->rhs[i];
            sum += lp->rhs[i];
        }
    return sum;
}

/* A slack that is basic has room left: its price is 0. */
void tt_forest_lp_prices(const struct tt_forest_lp *lp, double *price)
{
    for (uint32_t i = 0; i < lp->rows; i++)
        price[i] = 0;
    for (uint32_t j = 0; j < lp->cols; j++)
        if (lp->other[j] < lp->rows)
            price[lp->other[j]] = lp->gain[j] < 0 ? -lp->gain[j] : 0;
}
