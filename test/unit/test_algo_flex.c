/* test_algo_flex.c - the hierarchy, shares, cells and schedules of flex: the linear program against closed forms and against random shares
 * that never beat it, bytes on every uplink against the formulas, the golden table of the notes, proofs on odd trees, refusals. */
#include "support.h"

#include "algo/flex/flex.h"
#include "bound/bound.h"
#include "cost/cost.h"
#include "sim/sim.h"

#include <math.h>

static struct tt_algo_args args(const struct tt_topo *t, tutti_coll coll, uint64_t count, const char *options)
{
    struct tt_algo_args a = {.problem = {.coll = coll, .ranks = t->ranks, .count = count, .dtype = TUTTI_F32}, .topo = t};
    char text[120];
    snprintf(text, sizeof text, "%s", options);
    for (char *save = NULL, *one = strtok_r(text, " ", &save); one; one = strtok_r(NULL, " ", &save))
        assert_int_equal(tt_algo_options_add(&a.options, one, NULL), TUTTI_OK);
    return a;
}

static void expect_near(double got, double want, double tolerance)
{
    if (!(fabs(got - want) <= tolerance * fabs(want) + 1e-12))
        print_error("got %.12g, want %.12g\n", got, want);
    assert_true(fabs(got - want) <= tolerance * fabs(want) + 1e-12);
}

static struct tt_flex_tree tree_of(const struct tt_topo *t)
{
    struct tt_flex_tree tree;
    assert_int_equal(tt_flex_tree_make(t, &tree, NULL), TUTTI_OK);
    return tree;
}

/* ---- the hierarchy ---- */

static void test_tree(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("tree:((4 4)(3) 1)@100Gbps/25Gbps/10Gbps");
    struct tt_flex_tree tree = tree_of(t);
    /* (3) and 1 have one child each: the group of 3 hangs on the slower of its two links, so does the single rank */
    assert_int_equal(tree.nnodes, 1 + 3 + 2 + 3 + 8);
    assert_int_equal(tree.node[0].count, 3);
    assert_int_equal(tree.node[0].leaves, 12);
    assert_int_equal(tree.node[0].height, 3);
    assert_int_equal(tree.node[1].leaves, 8);
    expect_near(tree.node[1].bw, 10e9 / 8, 0);
    assert_int_equal(tree.node[2].leaves, 3);
    assert_int_equal(tree.node[2].height, 1);
    expect_near(tree.node[2].bw, 10e9 / 8, 0);
    assert_int_equal(tree.node[3].rank, 11);
    expect_near(tree.node[3].bw, 25e9 / 8, 0); /* its group's height is 1 */
    tt_flex_tree_free(&tree);
    tt_topo_free(t);

    t = topo_of("star:5@10Gbps,1us,half");
    tree = tree_of(t);
    assert_int_equal(tree.nnodes, 6);
    expect_near(tree.node[5].bw, 10e9 / 16, 0);
    tt_flex_tree_free(&tree);
    tt_topo_free(t);
}

/* A file that is a tree without saying so: s0 - s1 - s2 with ranks 0, 1 and 2 3, as drawn in flex_tree.c, and a switch without ranks. */
static struct tt_topo *plain_tree(bool loop)
{
    static const uint32_t ends[][2] = {{0, 4}, {1, 5}, {2, 6}, {3, 6}, {4, 5}, {5, 6}, {7, 5}, {6, 4}};
    struct tt_topo *t = NULL;
    assert_int_equal(tt_topo_new("custom", 4, 4, &t, NULL), TUTTI_OK);
    for (uint32_t i = 0; i < 7; i++) {
        uint32_t k = loop && i == 6 ? 7 : i; /* a loop and a switch that nothing leads to: as many links as a tree has */
        struct tt_link l = {.a = ends[k][0], .b = ends[k][1], .bw = {1e9 * (k + 1), 2e9 * (k + 1)}, .latency_ps = 1000000};
        assert_int_equal(tt_topo_add_link(t, &l, NULL), TUTTI_OK);
    }
    if (tt_topo_finish(t, &t, NULL) != TUTTI_OK)
        return NULL;
    return t;
}

static void test_graph(void **state)
{
    (void)state;
    struct tutti_error err;
    struct tt_topo *t = plain_tree(false);
    struct tt_flex_tree tree = tree_of(t);
    assert_int_equal(tree.nnodes, 1 + 3 + 2);
    uint32_t seen = 0;
    for (uint32_t i = 1; i < tree.nnodes; i++) {
        if (tree.node[i].rank == 0)
            expect_near(tree.node[i].bw, 1e9, 0);
        seen += tree.node[i].count == 2 && tree.node[i].bw == 6e9;
    }
    assert_int_equal(seen, 1);
    tt_flex_tree_free(&tree);
    struct tt_algo_args a = args(t, TUTTI_ALLREDUCE, 100, "");
    struct tt_sched *s = build_of(&tt_algo_flex, &a);
    expect_proved(s);
    tt_sched_free(s);
    tt_topo_free(t);

    t = plain_tree(true);
    if (t) { /* whether lonely switches are accepted is topo's affair */
        assert_int_equal(tt_flex_tree_make(t, &tree, &err), TUTTI_ERR_REFUSED);
        tt_topo_free(t);
    }
}

/* ---- shares ---- */

static double optimal_time(const char *spec)
{
    struct tt_topo *t = topo_of(spec);
    struct tt_flex_tree tree = tree_of(t);
    tt_flex_share(&tree, TT_FLEX_OPTIMAL);
    double time = tt_flex_time(&tree, true);
    tt_flex_tree_free(&tree);
    tt_topo_free(t);
    return time * 1e9 / 8; /* per Gbit/s */
}

/* T = max(1/min, 2(G-1)/sum), and the rates of sota.md 1.4. */
static void test_star_optimum(void **state)
{
    (void)state;
    expect_near(optimal_time("nics:4G,4G,4G,1G"), 1, 1e-12);
    expect_near(optimal_time("nics:25G,25G,25G,10G"), 0.1, 1e-12);
    expect_near(optimal_time("nics:100G,25G,25G,25G"), 0.04, 1e-12);
    expect_near(optimal_time("nics:3G,4G,4G,4G,4G"), 8.0 / 19, 1e-12);
    expect_near(optimal_time("nics:2G,3G,5G,7G,11G"), 0.5, 1e-12);
    expect_near(optimal_time("nics:4G,4G,4G,4G"), 1 / 2.6666666666666667, 1e-12);
    expect_near(optimal_time("nics:10G,5G"), 0.2, 1e-12);
    expect_near(optimal_time("star:7@2Gbps"), 12.0 / 14, 1e-12);

    struct tt_topo *t = topo_of("nics:3G,4G,4G,4G,4G");
    struct tt_flex_tree tree = tree_of(t);
    tt_flex_share(&tree, TT_FLEX_OPTIMAL);
    expect_near(tree.node[1].share, (3 * 8.0 / 19 - 1) / 3, 1e-9); /* 0.088 */
    expect_near(tree.node[2].share, (4 * 8.0 / 19 - 1) / 3, 1e-9); /* 0.228 */
    tt_flex_tree_free(&tree);
    tt_topo_free(t);
}

/* Two levels, equation (8) of the notes by bisection of its own; S = 1, leaf ports b, host NICs. */
static double two_levels(const uint32_t *m, const double *nic, uint32_t hosts, double b)
{
    double low = 0, high = 1e3;
    for (int i = 0; i < 200; i++) {
        double t = (low + high) / 2, sum = 0;
        bool ok = true;
        for (uint32_t g = 0; g < hosts; g++) {
            double cap = fmin(t * nic[g] - 1, m[g] * t * b - 2.0 * m[g] + 1);
            ok = ok && cap >= 0;
            sum += cap / (hosts - 2.0);
        }
        if (ok && sum >= 1)
            high = t;
        else
            low = t;
    }
    return high;
}

static void test_two_levels(void **state)
{
    (void)state;
    expect_near(optimal_time("tree:(4 2 3)@2Gbps/1Gbps"), two_levels((const uint32_t[]){4, 2, 3}, (const double[]){1, 1, 1}, 3, 2), 1e-9);
    expect_near(optimal_time("tree:(4:3G 2:1G 3:2G 8:5G)@2Gbps"),
                two_levels((const uint32_t[]){4, 2, 3, 8}, (const double[]){3, 1, 2, 5}, 4, 2), 1e-9);
    expect_near(optimal_time("tree:(6 6 6 6)@1Gbps/4Gbps"), two_levels((const uint32_t[]){6, 6, 6, 6}, (const double[]){4, 4, 4, 4}, 4, 1),
                1e-9);
}

static double random_unit(struct tt_rng *rng)
{
    return (double)(tt_rng_next(rng) >> 11) / 9007199254740992.0;
}

/* Random shares of random trees with random links never beat the optimum; its own loads keep to it. */
static void test_optimum_holds(void **state)
{
    (void)state;
    static const char *const specs[] = {"tree:((4 4)(4 2))", "tree:((8 8 8)(8))", "tree:((1 3)(2) 1)", "tree:(((2 1) 1)(1 (2 3)) 4)",
                                        "tree:(8 4 2 1)"};
    struct tt_rng rng;
    tt_rng_seed(&rng, 7);
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_flex_tree tree = tree_of(t);
        for (int links = 0; links < 40; links++) {
            for (uint32_t v = 1; v < tree.nnodes; v++)
                tree.node[v].bw = 1e9 * (0.05 + random_unit(&rng));
            tt_flex_share(&tree, TT_FLEX_OPTIMAL);
            double best = tt_flex_time(&tree, true);
            for (int tries = 0; tries < 50; tries++) {
                for (uint32_t v = 0; v < tree.nnodes; v++) {
                    double sum = 0;
                    for (uint32_t k = 0; k < tree.node[v].count; k++)
                        sum += tree.node[tree.node[v].first + k].share += (tries + 1) * 0.02 * random_unit(&rng);
                    for (uint32_t k = 0; k < tree.node[v].count; k++)
                        tree.node[tree.node[v].first + k].share /= sum;
                }
                assert_true(tt_flex_time(&tree, true) >= best * (1 - 1e-9));
            }
        }
        tt_flex_tree_free(&tree);
        tt_topo_free(t);
    }
}

/* Symmetric trees: nothing but equal shares. P1 learner shares of the notes. */
static void test_branch_shares(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("tree:(8 4 2 1)@100Gbps/10Gbps");
    struct tt_algo_args a = args(t, TUTTI_REDUCE_SCATTER, 1000, "shares=branch");
    struct tt_shape s;
    assert_int_equal(tt_algo_shape(&tt_algo_flex, &a, &s, NULL), TUTTI_OK);
    double share[15] = {0}, total = 0;
    for (uint32_t c = 0; c < s.chunks; c++) {
        share[tt_sched_shape_owner(&s, c)] += s.weights ? s.weights[c] : 1;
        total += s.weights ? s.weights[c] : 1;
    }
    for (uint32_t r = 0; r < 15; r++)
        expect_near(share[r] / total, r < 8 ? 1.0 / 32 : r < 12 ? 1.0 / 16 : r < 14 ? 1.0 / 8 : 1.0 / 4, 1e-15);
    assert_false(tt_sched_shape_equal_blocks(&s));
    tt_sched_shape_free(&s);
    a = args(t, TUTTI_REDUCE_SCATTER, 1000, "");
    assert_int_equal(tt_algo_shape(&tt_algo_flex, &a, &s, NULL), TUTTI_OK);
    assert_true(tt_sched_shape_equal_blocks(&s)); /* alone, blocks are equal */
    tt_sched_shape_free(&s);
    tt_topo_free(t);

    t = topo_of("tree:((4 4)(4 4))@100Gbps/25Gbps/10Gbps");
    a = args(t, TUTTI_ALLREDUCE, 1000, "");
    assert_int_equal(tt_algo_shape(&tt_algo_flex, &a, &s, NULL), TUTTI_OK);
    assert_int_equal(s.chunks, 16);
    assert_null(s.weights);
    tt_sched_shape_free(&s);
    tt_topo_free(t);
}

/* ---- bytes and times ---- */

/* What the reduce-scatter puts on each uplink, counted from the schedule, against out(v) and in(v). */
static void expect_loads(const char *spec, const char *options)
{
    enum { UNITS = 5040 * 64 };
    struct tt_topo *t = topo_of(spec);
    struct tt_algo_args a = args(t, TUTTI_REDUCE_SCATTER, UNITS, options);
    struct tt_sched *s = build_of(&tt_algo_flex, &a);
    struct tt_flex_tree tree = tree_of(t);
    struct tt_bind bind;
    assert_int_equal(tt_sched_bind_make(&s->shape, UNITS, TUTTI_F32, &bind, NULL), TUTTI_OK);
    tt_flex_share(&tree, strstr(options, "branch") ? TT_FLEX_BRANCH : TT_FLEX_EVEN);
    uint64_t *up = calloc(tree.nnodes, sizeof *up), *down = calloc(tree.nnodes, sizeof *down);
    uint32_t leaf[64];
    for (uint32_t v = 0; v < tree.nnodes; v++)
        if (tree.node[v].rank != UINT32_MAX)
            leaf[tree.node[v].rank] = v;
    for (uint32_t r = 0; r < t->ranks; r++) {
        struct tt_slice sl = tt_sched_slice(s, r);
        for (size_t i = 0; i < sl.nops; i++) {
            uint32_t x = leaf[r], y = leaf[sl.ops[i].peer];
            uint64_t bytes = tt_sched_bind_op_bytes(&bind, &sl, &sl.ops[i]);
            while (sl.ops[i].kind == TT_OP_SEND && x != y) { /* parents have lower numbers */
                if (x > y) {
                    up[x] += bytes;
                    x = tree.node[x].parent;
                } else {
                    down[y] += bytes;
                    y = tree.node[y].parent;
                }
            }
        }
    }
    for (uint32_t v = 1; v < tree.nnodes; v++) {
        double out, in;
        tt_flex_load(&tree, v, &out, &in);
        expect_near((double)up[v], out * UNITS * 4, 2e-3);
        expect_near((double)down[v], in * UNITS * 4, 2e-3);
    }
    free(up);
    free(down);
    tt_sched_bind_free(&bind);
    tt_flex_tree_free(&tree);
    tt_sched_free(s);
    tt_topo_free(t);
}

static void test_loads(void **state)
{
    (void)state;
    static const char *const specs[] = {"tree:(4 2)",        "tree:(8 4 2 1)",    "tree:((4 4)(4 2))",
                                        "tree:((1 3)(2) 1)", "tree:((8 8 8)(8))", "tree:(((2 1) 1)(1 (2 3)))"};
    for (size_t i = 0; i < countof(specs); i++) {
        expect_loads(specs[i], "shares=branch phases=direct");
        expect_loads(specs[i], "shares=even phases=direct");
    }
}

/* Time at level step with the best number of segments unless options say one. */
static double step_time(const struct tt_algo *al, const struct tt_topo *t, uint64_t bytes, const char *options, bool search)
{
    struct tt_algo_args a = args(t, TUTTI_ALLREDUCE, bytes / 4, options);
    struct tt_sched *s = build_of(al, &a);
    struct tt_cost c;
    uint32_t k;
    if (search)
        assert_int_equal(tt_cost_best_segments(s, t, bytes / 4, TUTTI_F32, 4096, &k, &c, NULL), TUTTI_OK);
    else
        assert_int_equal(tt_cost_sched(s, t, bytes / 4, TUTTI_F32, &c, NULL), TUTTI_OK);
    tt_sched_free(s);
    return (double)c.time_ps * 1e-12;
}

/* The table of the notes, section 1.4: time * NIC / S, no latency, leaf ports 1000 times faster. */
static void test_golden(void **state)
{
    (void)state;
    static const struct {
        const char *hosts;
        double ring, even, branch;
    } rows[] = {
        {"(4 2)", 10.0 / 6, 4.0 / 3, 1},          {"(8 4)", 22.0 / 12, 4.0 / 3, 1},   {"(8 1)", 16.0 / 9, 16.0 / 9, 1},
        {"(4 4 2)", 18.0 / 10, 8.0 / 5, 4.0 / 3}, {"(8 4 2 1)", 28.0 / 15, 3.2, 1.5}, {"(4 4 4 4)", 30.0 / 16, 1.5, 1.5},
    };
    const uint64_t bytes = UINT64_C(100) << 20;
    const double unit = (double)bytes / (1e9 / 8);
    for (size_t i = 0; i < countof(rows); i++) {
        char spec[80];
        snprintf(spec, sizeof spec, "tree:%s@1000Gbps/1Gbps,0", rows[i].hosts);
        struct tt_topo *t = topo_of(spec);
        expect_near(step_time(&tt_algo_ring, t, bytes, "", false) / unit, rows[i].ring, 1e-3);
        expect_near(step_time(&tt_algo_flex, t, bytes, "shares=even", false) / unit, rows[i].even, 1e-3);
        expect_near(step_time(&tt_algo_flex, t, bytes, "shares=branch", true) / unit, rows[i].branch, 1e-3);
        expect_near(step_time(&tt_algo_flex, t, bytes, "", true) / unit, rows[i].branch, 1e-3);
        tt_topo_free(t);
    }
}

/* Symmetric: never slower than the ring or BlueConnect by more than 1 %. Asymmetric: faster than the ring. */
static void test_rivals(void **state)
{
    (void)state;
    static const char *const trees[] = {"(4 4 4 4)", "((4 4)(4 4))", "(4 4)", "((4 4)(4 2))", "((8 8 8)(8))", "(4 4 2)", "(8 1)"};
    for (size_t i = 0; i < countof(trees); i++)
        for (uint64_t bytes = 64 << 10; bytes <= 256 << 20; bytes *= 16) {
            char spec[80];
            snprintf(spec, sizeof spec, "tree:%s@100Gbps/25Gbps%s", trees[i], strstr(trees[i], "((") ? "/10Gbps" : "");
            struct tt_topo *t = topo_of(spec);
            double flex = step_time(&tt_algo_flex, t, bytes, "", true), ring = step_time(&tt_algo_ring, t, bytes, "", true);
            assert_true(flex < ring * (i < 3 ? 1.01 : 1));
            if (i < 3)
                assert_true(flex < step_time(&tt_algo_hierarchical, t, bytes, "", true) * 1.01);
            tt_topo_free(t);
        }
}

/* At level flow, 256 MiB, within 2 % of the bound; 1.4 times as fast as the even split. */
static double flow_time(const struct tt_topo *t, uint64_t bytes, const char *options)
{
    struct tt_algo_args a = args(t, TUTTI_ALLREDUCE, bytes / 4, options);
    struct tt_sched *s = build_of(&tt_algo_flex, &a);
    struct tt_sim_report *r = NULL;
    assert_int_equal(tt_sim_run(s, t, bytes / 4, TUTTI_F32, &(struct tt_sim_options){0}, &r, NULL), TUTTI_OK);
    double time = (double)r->time_ps;
    tt_sim_report_free(r);
    tt_sched_free(s);
    return time;
}

static void test_uneven_nics(void **state)
{
    (void)state;
    static const char *const specs[] = {"nics:4G,4G,4G,1G", "nics:25G,25G,25G,10G", "nics:100G,25G,25G,25G", "nics:3G,4G,4G,4G,4G",
                                        "nics:2G,3G,5G,7G,11G"};
    const uint64_t bytes = 256 << 20;
    for (size_t i = 0; i < countof(specs); i++) {
        struct tt_topo *t = topo_of(specs[i]);
        struct tt_bounds b;
        assert_int_equal(tt_bound_make(t, TUTTI_ALLREDUCE, 0, bytes, &b, NULL), TUTTI_OK);
        double best = flow_time(t, bytes, "segments=192"), even = flow_time(t, bytes, "shares=even");
        assert_true(best < 1.02 * (double)b.time_ps);
        assert_true(best >= (double)b.time_ps);
        assert_true(even > best * (i < 2 ? 1.4 : 1.2));
        tt_bound_free(&b);
        tt_topo_free(t);
    }
}

/* ---- proofs ---- */

static void test_proofs(void **state)
{
    (void)state;
    static const char *const specs[] = {
        "tree:(1 1)",
        "tree:(2 1)",
        "tree:((1 3)(2) 1)",
        "tree:(((2 1) 1)(1 (2 3)))",
        "tree:((4 4)(4 2))",
        "tree:(8 4 2 1)",
        "tree:((5:1G 3:7G)(2:3G 7:2G) 1)@40G",
        "tree:((((1 1) 1) 1) 1)",
        "nics:1G,1G,9G",
        "nics:100G,25G,25G,25G",
        "star:1",
        "star:2",
        "star:9",
        "tree:(3)",
        "tree:(1 (1 (1 (1 (1 (1 (1 (1 1))))))))",
    };
    static const char *const options[] = {
        "",          "shares=even", "shares=branch", "phases=circulant", "phases=circulant shares=even", "shares=leader", "shares=broke",
        "segments=3"};
    static const tutti_coll colls[] = {TUTTI_ALLREDUCE, TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER};
    for (size_t i = 0; i < countof(specs); i++)
        for (size_t o = 0; o < countof(options); o++)
            for (size_t c = 0; c < countof(colls); c++) {
                struct tt_topo *t = topo_of(specs[i]);
                struct tt_algo_args a = args(t, colls[c], o % 2 ? 5 : 1009, options[o]); /* also fewer elements than ranks */
                struct tt_sched *s = build_of(&tt_algo_flex, &a);
                expect_proved(s);
                tt_sched_free(s);
                tt_topo_free(t);
            }
}

/* Hosts that pay per message: small vectors take the circulant phases, large ones the direct ones. */
static void test_phases(void **state)
{
    (void)state;
    struct tt_topo *t = topo_of("nics:10G,10G,10G,10G,10G,10G,10G,2G,overhead=5us@1us");
    struct tt_algo_args small = args(t, TUTTI_ALLREDUCE, 256, ""), large = args(t, TUTTI_ALLREDUCE, 1 << 24, "");
    struct tt_sched *a = build_of(&tt_algo_flex, &small), *b = build_of(&tt_algo_flex, &large);
    assert_int_equal(a->steps, 6);
    assert_int_equal(b->steps, 2);
    tt_sched_free(a);
    tt_sched_free(b);
    tt_topo_free(t);
}

static void test_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *spec, *why;
    } cases[] = {{"torus:4x4", "no hierarchy"}, {"ring:4", "no hierarchy"}, {"fattree:2,3", "no hierarchy"}, {"star:5000", "at most 4096"}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct tt_topo *t = topo_of(cases[i].spec);
        struct tt_algo_args a = args(t, TUTTI_ALLREDUCE, 100, "");
        struct tutti_error why;
        assert_int_equal(tt_algo_probe(&tt_algo_flex, &a, &why), TUTTI_ERR_REFUSED);
        expect_says(why.text, cases[i].why);
        tt_topo_free(t);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree),        cmocka_unit_test(test_graph),         cmocka_unit_test(test_star_optimum),
        cmocka_unit_test(test_two_levels),  cmocka_unit_test(test_optimum_holds), cmocka_unit_test(test_branch_shares),
        cmocka_unit_test(test_loads),       cmocka_unit_test(test_golden),        cmocka_unit_test(test_rivals),
        cmocka_unit_test(test_uneven_nics), cmocka_unit_test(test_proofs),        cmocka_unit_test(test_phases),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
