/* Contexts of one engine: several orders of requests at the same time, ranks numbered in other orders, contexts that are opened late,
 * closed while their traffic is under way, and opened thousands of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_case.h"
#include "fake_transport.h"

enum { RANKS = 6, GROUPS = 4, JOBS = 10 };

static struct fake_world *world;
static struct tt_engine *engines[RANKS]; /* by rank of the transport */

struct group {
    uint64_t key;
    uint32_t n, members[RANKS];
    struct tt_context *context[RANKS]; /* by rank of the group; NULL: not open there */
};

static void open_world(uint64_t seed)
{
    struct tutti_error err;
    world = fake_world_make(RANKS, seed);
    world->nstreams = 1; /* as real links: in order */
    for (uint32_t r = 0; r < RANKS; r++) {
        struct tt_engine_config c = {.transport = &world->rank[r].base, .eager_bytes = seed % 3 == 0 ? 4096 : 0};
        assert_int_equal(tt_exec_engine_make(&c, &engines[r], &err), TUTTI_OK);
    }
}

static void close_world(void)
{
    for (uint32_t r = 0; r < RANKS; r++)
        tt_exec_engine_free(engines[r]);
    fake_world_free(world);
}

static void open_group(struct group *g, uint32_t r)
{
    struct tt_context_config c = {.key = g->key, .members = g->key ? g->members : NULL, .n = g->n, .rank = r};
    struct tutti_error err;
    assert_int_equal(tt_exec_context_open(engines[g->members[r]], &c, &g->context[r], &err), TUTTI_OK);
}

static tutti_status start(struct group *g, uint32_t r, struct exec_job *j, uint32_t seq)
{
    struct tutti_error err = {0};
    struct tt_start s = {.program = j->program[r], .in = j->in[r], .out = j->out[r], .seq = seq, .fingerprint = g->key * 1000 + seq};
    return tt_exec_context_start(g->context[r], &s, &err);
}

static bool is_done(const struct group *g, uint32_t r, const struct exec_job *j)
{
    struct tutti_error err = {0};
    tutti_status st = tt_exec_engine_test(engines[g->members[r]], j->program[r], &err);
    if (st < 0)
        fail_msg("group %u, rank %u: %s", (unsigned)g->key, r, err.text);
    return st == TUTTI_OK;
}

static void turn(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        tt_exec_engine_progress(engines[tt_rng_below(&world->rng, RANKS)]);
}

/* Every rank of every group goes through its jobs at its own pace. */
struct course {
    struct group *g;
    uint32_t next[RANKS], done;
    struct exec_job jobs[JOBS];
};

static void step(struct course *c)
{
    struct group *g = c->g;
    uint32_t r = (uint32_t)tt_rng_below(&world->rng, g->n), i = c->next[r];
    if (!g->context[r]) {
        if (tt_rng_below(&world->rng, 20) == 0)
            open_group(g, r);
        return;
    }
    if (i < 2 * JOBS && i % 2 == 0) {
        assert_int_equal(start(g, r, &c->jobs[i / 2], 7 + i / 2), TUTTI_OK);
        c->next[r]++;
    } else if (i < 2 * JOBS && is_done(g, r, &c->jobs[i / 2])) {
        c->next[r]++;
        c->done += c->next[r] == 2 * JOBS;
    }
}

static const struct exec_case cases[] = {
    {.algo = "ring", .count = 5000},
    {.algo = "binomial", .coll = TUTTI_BROADCAST, .count = 60000},
    {.algo = "oneshot", .coll = TUTTI_BARRIER},
    {.algo = "direct", .count = 30000, .redop = TUTTI_AVG},
    {.algo = "recursive-doubling", .count = 3},
};

static void make_jobs(struct course *c)
{
    for (uint32_t i = 0; i < JOBS; i++) {
        struct exec_case one = cases[(i + c->g->key) % countof(cases)];
        one.ranks = c->g->n;
        assert_true(case_make(&one, &c->jobs[i]));
    }
}

static void test_side_by_side(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct group groups[GROUPS] = {{.key = 0, .n = 6, .members = {0, 1, 2, 3, 4, 5}},
                                       {.key = 10, .n = 3, .members = {4, 1, 2}},
                                       {.key = 11, .n = 4, .members = {5, 0, 3, 1}},
                                       {.key = 12, .n = 2, .members = {1, 4}}};
        static struct course courses[GROUPS];
        uint32_t left = GROUPS;
        open_world(seed);
        for (uint32_t i = 0; i < GROUPS; i++) {
            courses[i] = (struct course){.g = &groups[i]};
            make_jobs(&courses[i]);
        }
        for (uint32_t r = 0; r < RANKS; r++)
            open_group(&groups[0], r);
        for (uint32_t turns = 0; left; turns++) {
            step(&courses[tt_rng_below(&world->rng, GROUPS)]);
            turn(2);
            assert_true(turns < 2000000);
            left = 0;
            for (uint32_t i = 0; i < GROUPS; i++)
                left += courses[i].done < groups[i].n;
        }
        for (uint32_t i = 0; i < GROUPS; i++)
            for (uint32_t k = 0; k < JOBS; k++) {
                assert_true(case_check(&courses[i].jobs[k]));
                case_free(&courses[i].jobs[k]);
            }
        close_world();
    }
}

static void run_once(struct group *g, struct exec_job *j)
{
    for (uint32_t r = 0; r < g->n; r++)
        assert_int_equal(start(g, r, j, 1), TUTTI_OK);
    for (uint32_t r = 0; r < g->n; r++)
        for (uint32_t i = 0; !is_done(g, r, j); i++) {
            turn(RANKS);
            assert_true(i < 100000);
        }
}

/* Nothing grows: tables, stored words, numbers. */
static void test_cycles(void **state)
{
    struct group g = {.n = 3, .members = {2, 0, 5}};
    struct exec_case c = {.algo = "ring", .ranks = 3, .count = 10};
    (void)state;
    open_world(1);
    for (g.key = 1; g.key <= 5000; g.key++) {
        struct exec_job j;
        assert_true(case_make(&c, &j));
        for (uint32_t r = 0; r < g.n; r++)
            open_group(&g, r);
        run_once(&g, &j);
        for (uint32_t r = 0; r < g.n; r++) {
            tt_exec_context_close(g.context[(r + g.key) % g.n]);
            turn((uint32_t)(g.key % 3));
        }
        case_free(&j);
    }
    turn(1000);
    for (uint32_t r = 0; r < RANKS; r++) {
        const struct tt_engine *e = engines[r];
        assert_true(e->ncontexts <= 64 && e->hellos.len == 0 && !e->due && e->slabs.len <= 2);
        for (uint32_t i = 0; i < e->ncontexts; i++)
            assert_null(e->contexts[i]);
    }
    close_world();
}

/* A rank that has closed is named, by its number in the transport. */
static void test_closed(void **state)
{
    struct group g = {.key = 3, .n = 3, .members = {4, 0, 2}};
    struct exec_case c = {.algo = "ring", .ranks = 3, .count = 10};
    struct exec_job j, k;
    struct tutti_error err;
    (void)state;
    open_world(2);
    assert_true(case_make(&c, &j) && case_make(&c, &k));
    for (uint32_t r = 0; r < g.n; r++)
        open_group(&g, r);
    run_once(&g, &j);
    tt_exec_context_close(g.context[2]);
    turn(500);
    assert_int_equal(start(&g, 0, &k, 2), TUTTI_ERR_PEER);
    assert_int_equal(tt_exec_engine_fault(engines[4])->kind, TT_FAULT_CLOSED);
    assert_int_equal(tt_exec_engine_fault(engines[4])->peer, 2);
    assert_int_equal(start(&g, 1, &k, 2), TUTTI_ERR_PEER);
    assert_int_equal(tt_exec_engine_test(engines[0], k.program[1], &err), TUTTI_ERR_PEER);
    case_free(&j);
    case_free(&k);
    close_world();
}

/* What was sent to a context that is closed by now disturbs nobody: neither bytes nor announced payloads. */
static void test_late(void **state)
{
    struct group g = {.key = 3, .n = 2, .members = {3, 1}}, other = {.key = 4, .n = 2, .members = {3, 1}};
    struct exec_case first = {.algo = "ring", .ranks = 2, .count = 10}, root = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2};
    (void)state;
    for (uint64_t seed = 0; seed < 40; seed++) {
        struct exec_job j, k, l;
        open_world(seed);
        root.count = seed % 2 ? 100000 : 10;
        assert_true(case_make(&first, &j) && case_make(&root, &k) && case_make(&first, &l));
        for (uint32_t r = 0; r < 2; r++)
            open_group(&g, r);
        run_once(&g, &j);
        assert_int_equal(start(&g, 0, &k, 2), TUTTI_OK); /* the root sends ahead */
        for (uint64_t i = 0; i < seed / 2; i++)
            tt_exec_engine_progress(engines[1]);
        tt_exec_context_close(g.context[1]);
        for (uint32_t r = 0; r < 2; r++)
            open_group(&other, r);
        for (uint32_t i = 0; i < 300; i++)
            tt_exec_engine_progress(engines[1]);
        assert_int_equal(tt_exec_engine_fault(engines[1])->kind, TT_FAULT_NONE);
        assert_null(engines[1]->orphans);
        assert_int_equal(world->held, 0);
        if (seed % 2 == 0) /* otherwise the root waits for a rank that has closed: that is an error */
            run_once(&other, &l);
        tt_exec_engine_kill(engines[3], &(struct tt_exec_engine_fault){.peer = 1});
        case_free(&j);
        case_free(&k);
        case_free(&l);
        close_world();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_side_by_side),
        cmocka_unit_test(test_cycles),
        cmocka_unit_test(test_closed),
        cmocka_unit_test(test_late),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
