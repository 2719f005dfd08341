/* test_graph_arborescence.c - the cheapest arborescence against all choices of parents. */
#include "support.h"

#include "graph/graph.h"

static bool reaches(uint32_t n, uint32_t root, const uint32_t *parent, uint32_t v)
{
    for (uint32_t hops = 0; v != root; hops++) {
        if (hops > n)
            return false;
        v = parent[v];
    }
    return true;
}

static double cost_of(uint32_t n, uint32_t root, const double *w, bool inward, const uint32_t *parent)
{
    double sum = 0;
    for (uint32_t v = 0; v < n; v++) {
        if (!reaches(n, root, parent, v))
            return 1e300;
        if (v != root)
            sum += inward ? w[v * n + parent[v]] : w[parent[v] * n + v];
    }
    return sum;
}

static double brute_force(uint32_t n, uint32_t root, const double *w, bool inward)
{
    uint32_t parent[6] = {0}, all = 1;
    double best = 1e300;
    for (uint32_t v = 0; v < n; v++)
        all *= n;
    for (uint32_t code = 0; code < all; code++) {
        uint32_t rest = code;
        for (uint32_t v = 0; v < n; v++, rest /= n)
            parent[v] = rest % n;
        double c = cost_of(n, root, w, inward, parent);
        best = c < best ? c : best;
    }
    return best;
}

static void test_random(void **state)
{
    struct tt_rng rng;
    (void)state;
    tt_rng_seed(&rng, 7);
    for (int round = 0; round < 400; round++) {
        uint32_t n = 2 + (uint32_t)tt_rng_below(&rng, 4), root = (uint32_t)tt_rng_below(&rng, n), parent[6];
        bool inward = round % 2;
        double w[36];
        for (uint32_t i = 0; i < n * n; i++)
            w[i] = (double)tt_rng_below(&rng, round % 3 ? 1000 : 4); /* few values: ties */
        assert_int_equal(tt_graph_arborescence(n, root, w, inward, parent, NULL), TUTTI_OK);
        assert_int_equal(parent[root], UINT32_MAX);
        assert_true(cost_of(n, root, w, inward, parent) == brute_force(n, root, w, inward));
    }
}

/* The picture in arborescence.c. */
static void test_cycle(void **state)
{
    const double w[9] = {0, 5, 3, 9, 0, 2, 9, 1, 0};
    uint32_t parent[3];
    (void)state;
    assert_int_equal(tt_graph_arborescence(3, 0, w, false, parent, NULL), TUTTI_OK);
    assert_int_equal(parent[2], 0);
    assert_int_equal(parent[1], 2);
}

static void test_one(void **state)
{
    const double w[1] = {0};
    uint32_t parent[1] = {5};
    (void)state;
    assert_int_equal(tt_graph_arborescence(1, 0, w, false, parent, NULL), TUTTI_OK);
    assert_int_equal(parent[0], UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random), cmocka_unit_test(test_cycle), cmocka_unit_test(test_one)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
