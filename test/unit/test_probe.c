/* Measured networks without a network: the tournament, groups found from crowds on a network that is only computed, what is said of slow
 * and asymmetric links, and the topology that comes out. Rates are those of a max-min fair network of hosts, groups and uplinks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "probe/probe_int.h"

enum { HOSTS = 12 };

/* A network: hosts with rates (MB/s), in groups with uplinks. */
struct net {
    uint32_t hosts, groups, group[HOSTS];
    double up[HOSTS], down[HOSTS], uplink[HOSTS];
};

static void test_tournament(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= 17; n++) {
        uint32_t met[17][17] = {{0}}, rounds = n - 1 + n % 2;
        for (uint32_t r = 0; r < rounds; r++)
            for (uint32_t i = 0, j, k; i < n; i++) {
                if (!tt_probe_match(n, r, i, &j))
                    continue;
                assert_true(j < n && j != i);
                assert_true(tt_probe_match(n, r, j, &k));
                assert_int_equal(k, i);
                met[i][j]++;
            }
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t j = 0; j < n; j++)
                assert_int_equal(met[i][j], i != j);
    }
}

/* Links of the computed network: out of host, into host, out of group, into group. */
static void links_of(const struct net *w, uint32_t a, uint32_t b, int ret[4])
{
    bool cross = w->group[a] != w->group[b];
    ret[0] = (int)a;
    ret[1] = (int)(HOSTS + b);
    ret[2] = cross ? (int)(2 * HOSTS + w->group[a]) : -1;
    ret[3] = cross ? (int)(3 * HOSTS + w->group[b]) : -1;
}

/* Max-min fair rates of the flows k -> to[k], by filling all at the same pace until links are full. */
static void fair(const struct net *w, const uint32_t *to, double *rate)
{
    double room[4 * HOSTS];
    bool fixed[HOSTS] = {false};
    for (uint32_t h = 0; h < HOSTS; h++) {
        room[h] = w->up[h];
        room[HOSTS + h] = w->down[h];
        room[2 * HOSTS + h] = room[3 * HOSTS + h] = w->uplink[h];
        rate[h] = 0;
    }
    for (uint32_t left = w->hosts; left;) {
        uint32_t users[4 * HOSTS] = {0};
        double pace = 1e300;
        int l[4];
        for (uint32_t k = 0; k < w->hosts; k++)
            for (int i = (links_of(w, k, to[k], l), 0); i < 4; i++)
                if (!fixed[k] && l[i] >= 0)
                    users[l[i]]++;
        for (int i = 0; i < 4 * HOSTS; i++)
            pace = users[i] && room[i] / users[i] < pace ? room[i] / users[i] : pace;
        for (int i = 0; i < 4 * HOSTS; i++)
            room[i] -= pace * users[i];
        for (uint32_t k = 0; k < w->hosts; k++) {
            bool full = false;
            links_of(w, k, to[k], l);
            rate[k] += fixed[k] ? 0 : pace;
            for (int i = 0; i < 4; i++)
                full = full || (l[i] >= 0 && room[l[i]] < 1e-6);
            if (!fixed[k] && full) {
                fixed[k] = true;
                left--;
            }
        }
    }
}

static struct tt_probe *measured(const struct net *w)
{
    uint32_t of[HOSTS], to[HOSTS];
    struct tt_probe *p = NULL;
    struct tutti_error err;
    double rate[HOSTS];
    for (uint32_t h = 0; h < w->hosts; h++)
        of[h] = h;
    assert_int_equal(tt_probe_new(w->hosts, of, &p, &err), TUTTI_OK);
    for (uint32_t a = 0; a < w->hosts; a++) {
        snprintf(p->host[a].name, TT_PROBE_NAME, "node%u", a);
        p->host[a].up = (uint64_t)(w->up[a] * 1e6);
        p->host[a].down = (uint64_t)(w->down[a] * 1e6);
        for (uint32_t b = 0; b < w->hosts; b++) {
            double bw = w->up[a] < w->down[b] ? w->up[a] : w->down[b];
            if (w->group[a] != w->group[b]) {
                bw = bw < w->uplink[w->group[a]] ? bw : w->uplink[w->group[a]];
                bw = bw < w->uplink[w->group[b]] ? bw : w->uplink[w->group[b]];
            }
            *tt_probe_pair(p, a, b) = (struct tt_probe_pair){.bw = a == b ? 0 : (uint64_t)(bw * 1e6), .lat_ps = a == b ? 0 : 50000000};
            p->pairs += a != b;
        }
    }
    struct tt_rng rng;
    tt_rng_seed(&rng, TT_PROBE_SEED);
    for (uint32_t t = 0; t < tt_probe_shuffles(w->hosts); t++) {
        tt_probe_shuffle(&rng, of, w->hosts);
        for (uint32_t s = 1; s < w->hosts; s++) {
            if (2 * s == w->hosts)
                continue;
            for (uint32_t k = 0; k < w->hosts; k++)
                to[of[k]] = of[(k + s) % w->hosts];
            fair(w, to, rate);
            for (uint32_t k = 0; k < w->hosts; k++) {
                struct tt_probe_pair *x = tt_probe_pair(p, k, to[k]);
                uint64_t bw = (uint64_t)(rate[k] * 1e6);
                x->crowd = x->crowds++ && x->crowd < bw ? x->crowd : bw;
            }
        }
    }
    p->crowded = true;
    tt_probe_cluster(p);
    for (uint32_t g = 0; g < p->groups && p->groups > 1; g++)
        p->group[g].up = p->group[g].down = (uint64_t)(w->uplink[g] * 1e6);
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    return p;
}

static struct net even(uint32_t hosts, uint32_t per_group, double uplink)
{
    struct net w = {.hosts = hosts, .groups = (hosts + per_group - 1) / per_group};
    for (uint32_t h = 0; h < hosts; h++) {
        w.group[h] = h / per_group;
        w.up[h] = w.down[h] = 125;
        w.uplink[h] = uplink;
    }
    return w;
}

static bool says(const struct tt_probe *p, const char *text)
{
    for (size_t i = 0; i < p->said.len; i++)
        if (strstr(tt_vec_at(&p->said, i), text))
            return true;
    return false;
}

static void test_groups(void **state)
{
    (void)state;
    static const struct {
        uint32_t hosts, per_group;
        double uplink;
    } cases[] = {{4, 2, 125}, {6, 3, 125}, {8, 4, 125}, {8, 4, 200}, {8, 2, 100}, {12, 4, 180}, {12, 3, 60}, {9, 4, 125}};
    for (size_t i = 0; i < countof(cases); i++) {
        struct net w = even(cases[i].hosts, cases[i].per_group, cases[i].uplink);
        struct tt_probe *p = measured(&w);
        assert_false(p->unsure);
        assert_int_equal(p->groups, w.groups);
        for (uint32_t h = 0; h < w.hosts; h++)
            assert_int_equal(p->host[h].group, w.group[h]);
        assert_true(p->confidence > 0.999);
        assert_true(says(p, "shared uplink: "));
        tt_probe_free(p);
    }
}

/* Forgets all crowds. */
static void uncrowd(struct tt_probe *p)
{
    for (uint32_t i = 0; i < p->hosts * p->hosts; i++)
        p->pair[i].crowd = p->pair[i].crowds = 0;
    p->crowded = false;
}

/* Uplinks narrower than a host's link show in the pairs alone, even if one direction of a pair is disturbed. */
static void test_narrow(void **state)
{
    (void)state;
    struct net w = even(6, 3, 62.5);
    struct tt_probe *p = measured(&w);
    uncrowd(p);
    tt_probe_pair(p, 0, 1)->bw = 40000000;
    tt_probe_cluster(p);
    assert_false(p->unsure);
    assert_int_equal(p->groups, 2);
    for (uint32_t h = 0; h < w.hosts; h++)
        assert_int_equal(p->host[h].group, w.group[h]);
    tt_probe_free(p);
    w = even(6, 3, 125); /* as wide as a host's link: only crowds would tell */
    p = measured(&w);
    uncrowd(p);
    tt_probe_cluster(p);
    assert_int_equal(p->groups, 1);
    tt_probe_free(p);
}

/* The pairs of a round share uplinks: what they reach together is no fault of theirs. */
static void test_shared_round(void **state)
{
    (void)state;
    struct net w = even(4, 2, 125);
    struct tt_probe *p = measured(&w);
    struct tutti_error err;
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            if (w.group[a] != w.group[b])
                tt_probe_pair(p, a, b)->bw /= a + 1;
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    assert_int_equal(p->groups, 2);
    assert_false(says(p, "slow pair"));
    assert_false(says(p, "asymmetric pair"));
    assert_true(p->confidence > 0.999);
    tt_probe_pair(p, 0, 1)->bw /= 2; /* but inside a group it is */
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    assert_true(says(p, "slow pair: node0 (rank 0) -> node1 (rank 1)"));
    assert_true(p->confidence < 0.8);
    tt_probe_free(p);
}

/* Uplinks that suffer only when all four hosts cross at once: too rare for a certain answer, and then there is none. */
static void test_rare(void **state)
{
    (void)state;
    struct net w = even(12, 4, 250);
    struct tt_probe *p = measured(&w);
    assert_int_equal(p->groups, 1);
    assert_true(p->unsure);
    tt_probe_free(p);
}

/* Groups that are not neighbours in rank order. */
static void test_scattered_groups(void **state)
{
    (void)state;
    struct net w = even(8, 4, 125);
    for (uint32_t h = 0; h < 8; h++)
        w.group[h] = h % 2;
    struct tt_probe *p = measured(&w);
    assert_int_equal(p->groups, 2);
    for (uint32_t h = 0; h < 8; h++)
        assert_int_equal(p->host[h].group, h % 2);
    tt_probe_free(p);
}

/* Uplinks that hold everybody, and uneven hosts, make no groups. */
static void test_star(void **state)
{
    (void)state;
    struct tutti_error err;
    struct net w = even(4, 4, 1000);
    w.up[3] = w.down[3] = 31.25;
    struct tt_probe *p = measured(&w);
    assert_int_equal(p->groups, 1);
    assert_false(p->unsure);
    assert_int_equal(p->said.len, 1);
    assert_true(says(p, "slow link: node3 (rank 3) sends 250 Mbit/s and receives 250 Mbit/s; half of the hosts reach 1 Gbit/s"));
    for (uint32_t h = 0; h < 3; h++) /* the long queue before a slow host slows what it sends and receives in a crowd */
        tt_probe_pair(p, h, 3)->crowd = tt_probe_pair(p, 3, h)->crowd = 10000000;
    tt_probe_cluster(p);
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    assert_int_equal(p->groups, 1);
    assert_false(p->unsure);
    assert_int_equal(p->said.len, 1);
    tt_probe_free(p);
    w = even(8, 4, 500);
    p = measured(&w);
    assert_int_equal(p->groups, 1);
    assert_int_equal(p->said.len, 0);
    tt_probe_free(p);
}

/* Everybody suffers with everybody: no grouping explains it, and that is said. */
static void test_unsure(void **state)
{
    (void)state;
    struct net w = even(6, 6, 1000);
    struct tt_probe *p = measured(&w);
    struct tutti_error err;
    for (uint32_t i = 0; i < 36; i++)
        p->pair[i].crowd /= 2;
    tt_probe_cluster(p);
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    assert_int_equal(p->groups, 1);
    assert_true(p->unsure);
    assert_true(says(p, "no groups of hosts explain it"));
    tt_probe_free(p);
}

static void test_findings(void **state)
{
    (void)state;
    struct net w = even(4, 4, 1000);
    struct tt_probe *p = measured(&w);
    struct tutti_error err;
    tt_probe_pair(p, 0, 1)->bw = 110000000; /* within 20 %: nothing */
    tt_probe_pair(p, 1, 2)->bw = 50000000;
    tt_probe_pair(p, 0, 3)->bw = 98000000;
    p->host[2].down = 80000000;
    p->host[2].up = 160000000;
    p->pairs = 11;
    p->crowded = false;
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    assert_true(says(p, "slow pair: node1 (rank 1) -> node2 (rank 2) reaches 400 Mbit/s; its ends reach 640 Mbit/s with others"));
    assert_true(says(p, "asymmetric pair: node0 (rank 0) -> node3 (rank 3) 784 Mbit/s, back 1 Gbit/s"));
    assert_true(says(p, "node2 (rank 2) sends 1.28 Gbit/s and receives 640 Mbit/s"));
    assert_true(says(p, "11 of 12 pairs"));
    assert_true(says(p, "no time for crowds"));
    assert_false(says(p, "node0 (rank 0) -> node1"));
    assert_true(p->confidence < 0.9 && p->confidence > 0.5);
    tt_probe_free(p);
}

/* Written, read back, the same; rates and latencies on the links. */
static struct tt_topo *through_file(const struct tt_topo *t)
{
    struct tt_topo *again = NULL;
    struct tutti_error err;
    char *text = NULL;
    size_t len = 0;
    FILE *f = open_memstream(&text, &len);
    assert_non_null(f);
    assert_int_equal(tt_topo_write(t, f, &err), TUTTI_OK);
    fclose(f);
    assert_int_equal(tt_topo_read_memory(text, len, "measured.json", &again, &err), TUTTI_OK);
    free(text);
    assert_true(again->hash == t->hash);
    assert_string_equal(again->spec, t->spec);
    return again;
}

static void test_topology_groups(void **state)
{
    (void)state;
    struct net w = even(4, 2, 125);
    struct tt_probe *p = measured(&w);
    struct tt_topo *t = NULL, *again;
    struct tutti_error err;
    for (uint32_t a = 0; a < 4; a++)
        for (uint32_t b = 0; b < 4; b++)
            if (a / 2 != b / 2)
                tt_probe_pair(p, a, b)->lat_ps = 90000000;
    p->overhead_ps = 4000000;
    p->gamma_fs = 30000;
    assert_int_equal(tt_probe_topology(p, &t, &err), TUTTI_OK);
    again = through_file(t);
    assert_int_equal(again->ranks, 4);
    assert_int_equal(again->switches, 3);
    assert_int_equal(again->nlinks, 6);
    assert_string_equal(again->names[4], "group 0");
    assert_string_equal(again->names[6], "network");
    for (uint32_t i = 0; i < 4; i++) { /* (50 - 2) / 2 us each */
        assert_int_equal(again->links[i].latency_ps, 24000000);
        assert_true(again->links[i].bw[0] > 124.9e6 && again->links[i].bw[0] < 125.1e6);
        assert_int_equal(again->links[i].b, 4 + i / 2);
    }
    assert_int_equal(again->links[4].latency_ps, 20000000);
    assert_int_equal(again->overhead_ps, 4000000);
    assert_true(again->gamma > 2.99e-11 && again->gamma < 3.01e-11);
    tt_topo_free(t);
    tt_topo_free(again);
    tt_probe_free(p);
}

/* Ranks 0 2 on one host, 1 3 4 on another, uneven interfaces, one far away. */
static void test_topology_hosts(void **state)
{
    (void)state;
    static const uint32_t of[] = {0, 1, 0, 1, 1, 2};
    struct tt_probe *p = NULL;
    struct tt_topo *t = NULL, *again;
    struct tutti_error err;
    assert_int_equal(tt_probe_new(6, of, &p, &err), TUTTI_OK);
    assert_int_equal(p->hosts, 3);
    for (uint32_t h = 0; h < 3; h++) {
        snprintf(p->host[h].name, TT_PROBE_NAME, "h%u", h);
        p->host[h].up = 100 + h;
        p->host[h].down = 200 + h;
        p->host[h].memory_bw = h < 2 ? 5000 : 0;
        p->host[h].memory_lat_ps = h < 2 ? 2000000 : 0;
        for (uint32_t q = 0; q < 3; q++)
            tt_probe_pair(p, h, q)->lat_ps = h == q ? 0 : h == 2 || q == 2 ? 1020000000 : 40000000;
    }
    assert_int_equal(tt_probe_topology(p, &t, &err), TUTTI_OK);
    again = through_file(t);
    assert_int_equal(again->switches, 3);
    assert_int_equal(again->nlinks, 5 + 3);
    assert_string_equal(again->names[6], "h0");
    assert_int_equal(again->links[0].a, 0);
    assert_int_equal(again->links[1].a, 2);
    assert_int_equal(again->links[2].a, 1);
    assert_int_equal(again->links[4].a, 4);
    assert_int_equal(again->links[4].latency_ps, 1000000);
    assert_int_equal(again->links[5].latency_ps, 19000000); /* 20 us, of which the memory's link is 1 */
    assert_int_equal(again->links[7].latency_ps, 1000000000);
    assert_int_equal(again->links[7].a, 5);
    assert_true(again->links[6].bw[0] > 100.5 && again->links[6].bw[0] < 101.5 && again->links[6].bw[1] > 200.5);
    tt_topo_free(t);
    tt_topo_free(again);
    tt_probe_free(p);
}

static void test_one_rank(void **state)
{
    (void)state;
    uint32_t of = 0;
    struct tt_probe *p = NULL;
    struct tt_topo *t = NULL;
    struct tutti_error err;
    assert_int_equal(tt_probe_new(1, &of, &p, &err), TUTTI_OK);
    tt_probe_cluster(p);
    assert_int_equal(tt_probe_judge(p, &err), TUTTI_OK);
    assert_int_equal(p->said.len, 0);
    assert_int_equal(tt_probe_topology(p, &t, &err), TUTTI_OK);
    struct tt_topo *again = through_file(t);
    assert_int_equal(again->ranks, 1);
    assert_int_equal(again->nlinks, 0);
    tt_topo_free(t);
    tt_topo_free(again);
    tt_probe_free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tournament),       cmocka_unit_test(test_groups),   cmocka_unit_test(test_shared_round),
        cmocka_unit_test(test_scattered_groups), cmocka_unit_test(test_rare),     cmocka_unit_test(test_star),
        cmocka_unit_test(test_unsure),           cmocka_unit_test(test_findings), cmocka_unit_test(test_topology_groups),
        cmocka_unit_test(test_topology_hosts),   cmocka_unit_test(test_one_rank), cmocka_unit_test(test_narrow),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
