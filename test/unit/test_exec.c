/* test_exec.c - every algorithm of the table, run on all ranks over a transport that delays and reorders, against a direct computation. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec_case.h"
#include "fake_transport.h"

static struct fake_world *world;
static struct tt_engine *engines[CASE_RANKS];
static struct tt_context *contexts[CASE_RANKS];
static uint32_t seq;

/* Every other world has a context in which the ranks are numbered in another order. */
static void open_world(uint32_t ranks, uint64_t seed)
{
    struct tutti_error err;
    uint32_t members[CASE_RANKS];
    world = fake_world_make(ranks, seed);
    seq = (uint32_t)tt_mix64(seed);
    for (uint32_t r = 0; r < ranks; r++)
        members[r] = seed % 2 ? (r * 7 + 3) % ranks : r;
    bool shuffled = seed % 2 && ranks % 7;
    for (uint32_t r = 0; r < ranks; r++) {
        struct tt_engine_config c = {.transport = &world->rank[shuffled ? members[r] : r].base, .eager_bytes = seed % 3 == 0 ? 4096 : 0};
        struct tt_context_config x = {.key = seed, .members = members, .n = ranks, .rank = r};
        assert_int_equal(tt_exec_engine_make(&c, &engines[r], &err), TUTTI_OK);
        if (shuffled)
            assert_int_equal(tt_exec_context_open(engines[r], &x, &contexts[r], &err), TUTTI_OK);
        else
            contexts[r] = case_context(engines[r], ranks, r);
    }
}

static void close_world(void)
{
    assert_int_equal(world->held, 0);
    for (uint32_t r = 0; r < world->size; r++)
        tt_exec_engine_free(engines[r]);
    fake_world_free(world);
}

static void start_rank(struct exec_job *j, uint32_t r)
{
    struct tutti_error err = {0};
    struct tt_start s = {.program = j->program[r], .in = j->in[r], .out = j->out[r], .seq = seq, .fingerprint = 1000 + seq};
    if (tt_exec_context_start(contexts[r], &s, &err) != TUTTI_OK) {
        case_say(&j->c);
        fail_msg("start: %s", err.text);
    }
}

/* Ranks start in random order while the others run. */
static void run_job(struct exec_job *j)
{
    struct tutti_error err = {0};
    bool started[CASE_RANKS] = {false};
    uint32_t done = 0, p = j->c.ranks;
    seq++;
    for (uint64_t turn = 0; done < p; turn++) {
        uint32_t r = (uint32_t)tt_rng_below(&world->rng, p);
        if (!started[r] && (tt_rng_below(&world->rng, 4) == 0 || turn > 200)) {
            start_rank(j, r);
            started[r] = true;
        }
        tt_exec_engine_progress(engines[r]);
        if (turn > 4000000) {
            case_say(&j->c);
            fail_msg("stuck");
        }
        for (done = 0; done < p && started[done] && tt_exec_engine_test(engines[done], j->program[done], &err) == TUTTI_OK;)
            done++;
        if (done < p && started[done] && tt_exec_engine_test(engines[done], j->program[done], &err) < 0) {
            case_say(&j->c);
            fail_msg("%s", err.text);
        }
    }
}

static uint64_t runs;

static bool run_case(const struct exec_case *c)
{
    struct exec_job j;
    if (!case_make(c, &j))
        return false;
    run_job(&j);
    if (!case_check(&j))
        fail();
    if (runs++ % 5 == 0) { /* a program can be started again */
        case_fill(&j);
        run_job(&j);
        if (!case_check(&j))
            fail();
    }
    case_free(&j);
    return true;
}

static const tutti_dtype dtypes[] = {TUTTI_F32, TUTTI_I64, TUTTI_BF16};
static const tutti_redop redops[] = {TUTTI_SUM, TUTTI_AVG, TUTTI_MAX};
static const uint32_t segments[] = {1, 3, 0};

static bool is_rooted(tutti_coll c)
{
    return c == TUTTI_BROADCAST || c == TUTTI_REDUCE || c == TUTTI_GATHER || c == TUTTI_SCATTER;
}

/* Each count with a third of the types x reductions x segments, another third at the next: all meet over counts and rank numbers. */
static void run_counts(struct exec_case c, uint32_t salt)
{
    const uint32_t p = c.ranks;
    const uint64_t counts[] = {0, 1, p - 1, p, p + 1, 131, 20000};
    for (size_t n = 0; n < countof(counts); n++)
        for (uint32_t k = 0; k < 27; k++) {
            uint32_t sparse = counts[n] == 20000 ? 27 : 9;
            if ((k + salt + n) % sparse != 0)
                continue;
            c.count = counts[n];
            c.dtype = dtypes[k % 3];
            c.redop = redops[k / 3 % 3];
            c.segments = segments[k / 9];
            for (c.inplace = 0; c.inplace < 3; c.inplace++) {
                c.blocks = c.inplace != 1 && (k + n) % 2 && (case_has_parts(c.coll) || c.coll == TUTTI_ALL_TO_ALL);
                if (c.inplace == 2 && !case_has_parts(c.coll))
                    continue;
                run_case(&c);
            }
        }
}

static void each_algorithm(uint32_t p)
{
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    uint32_t salt = p;
    for (size_t i = 0; i < n; i++)
        for (unsigned coll = 0; coll < TUTTI_COLL_COUNT; coll++) {
            struct exec_case c = {.algo = table[i]->name, .coll = (tutti_coll)coll, .ranks = p};
            if (!(table[i]->colls >> coll & 1u))
                continue;
            run_counts(c, salt++);
            c.root = p / 2;
            if (is_rooted(c.coll) && c.root)
                run_counts(c, salt++);
        }
}

static void test_all_algorithms(void **state)
{
#ifdef TT_SANITIZED
    static const uint32_t ranks[] = {1, 2, 3, 5, 8};
#else
    static const uint32_t ranks[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17};
#endif
    (void)state;
    for (size_t i = 0; i < countof(ranks); i++) {
        open_world(ranks[i], 11 + i);
        each_algorithm(ranks[i]);
        close_world();
    }
    assert_true(runs > 300 * countof(ranks));
}

/* Sums that are rounded: every rank must have the same bits whatever the algorithm. */
static void test_equal_bits(void **state)
{
    static const uint32_t ranks[] = {2, 3, 5, 8, 13};
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    (void)state;
    for (size_t k = 0; k < countof(ranks); k++) {
        open_world(ranks[k], 100 + k);
        for (size_t i = 0; i < n; i++)
            for (size_t t = 0; t < 9; t++) {
                struct exec_case c = {
                    .algo = table[i]->name, .ranks = ranks[k], .count = 777, .rough = true, .segments = 1 + (uint32_t)t % 2};
                c.dtype = dtypes[t % 3];
                c.redop = redops[t / 3];
                if (table[i]->colls & 1u)
                    run_case(&c);
            }
        close_world();
    }
}

/* Levels of a hierarchy, messages of several pieces, of many fragments, and long strided ones. */
static void test_large(void **state)
{
    (void)state;
    static const struct exec_case cases[] = {
        {.algo = "hierarchical", .option = "levels=2x4", .ranks = 8, .count = 30011},
        {.algo = "hierarchical", .option = "levels=4x2", .coll = TUTTI_REDUCE_SCATTER, .ranks = 8, .count = 30011, .inplace = 2},
        {.algo = "hierarchical", .option = "levels=2x4", .coll = TUTTI_ALL_GATHER, .ranks = 8, .count = 30011, .inplace = 2},
        {.algo = "halving-doubling", .ranks = 4, .count = 400003, .segments = 1},
        {.algo = "halving-doubling", .ranks = 4, .count = 400003, .dtype = TUTTI_I64},
        {.algo = "ring", .ranks = 3, .count = 500009, .inplace = 1},
        {.algo = "direct", .ranks = 3, .count = 500009, .redop = TUTTI_AVG},
        {.algo = "chain", .coll = TUTTI_BROADCAST, .ranks = 4, .count = 300007},
        {.algo = "swing", .ranks = 16, .count = 16 * 200, .segments = 16},
        {.algo = "circulant", .ranks = 17, .count = 17 * 40, .segments = 20},
    };
    for (size_t i = 0; i < countof(cases); i++)
        for (uint64_t seed = 0; seed < 3; seed++) {
            open_world(cases[i].ranks, 1000 * i + seed);
            assert_true(run_case(&cases[i]));
            close_world();
        }
}

/* ---- schedules made by hand ---- */

/* What every test of these does: programs, buffers, one run, results. */
static void run_by_hand(struct tt_builder *b, const struct exec_case *c, uint64_t seed)
{
    struct tutti_error err;
    struct exec_job j = {.c = *c};
    assert_int_equal(tt_sched_build_freeze(b, &j.sched, &err), TUTTI_OK);
    assert_int_equal(tt_sched_check(j.sched, NULL, &err), TUTTI_OK);
    assert_int_equal(tt_sched_bind_make(&j.sched->shape, c->count, c->dtype, &j.bind, &err), TUTTI_OK);
    if (case_has_parts(c->coll))
        case_parts(&j);
    open_world(c->ranks, seed);
    for (uint32_t r = 0; r < c->ranks; r++) {
        struct tt_program_config pc = {
            .sched = j.sched, .rank = r, .count = c->count, .dtype = c->dtype, .redop = c->redop, .segments = c->segments};
        assert_int_equal(tt_exec_program_make(&pc, &j.program[r], &err), TUTTI_OK);
        case_place(&j, r);
    }
    case_fill(&j);
    run_job(&j);
    assert_true(case_check(&j));
    close_world();
    case_free(&j);
}

/* More fragments than a transport takes in one message: packed at the sender, landed at the receiver. */
static void test_scattered(void **state)
{
    enum { CHUNKS = 400 };
    (void)state;
    for (uint32_t seed = 0; seed < 6; seed++) {
        const struct exec_case c = {.algo = "scattered",
                                    .ranks = 2,
                                    .count = CHUNKS * 100,
                                    .inplace = (int)(seed % 2),
                                    .redop = seed % 3 ? TUTTI_SUM : TUTTI_AVG,
                                    .segments = 1 + seed / 2};
        struct tt_builder b;
        struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 2, .chunks = CHUNKS, .nbufs = 3, .segments = 1, .inplace = true};
        tt_sched_build_begin(&b, &shape, 0);
        for (uint32_t r = 0; r < 2; r++) {
            struct tt_span even = {.len = 1, .stride = 2, .reps = CHUNKS / 2, .buf = TT_BUF_IN, .src = TT_BUF_IN}, odd = even;
            odd.first = 1;
            struct tt_span both[2] = {even, odd}, sum[2] = {even, odd};
            sum[0].buf = sum[1].buf = TT_BUF_OUT;
            tt_sched_build_rank(&b, r);
            tt_sched_emit_send(&b, 0, 1 - r, 0, both, 2);
            tt_sched_emit_recv_reduce(&b, 0, 1 - r, 0, sum, 2);
        }
        run_by_hand(&b, &c, seed);
    }
}

/* Own chunks that do not touch: the part is packed, or, in place, where the whole vector is. */
static void test_parts_apart(void **state)
{
    enum { CHUNKS = 10 };
    (void)state;
    for (uint32_t seed = 0; seed < 12; seed++) {
        const bool gather = seed % 2;
        const struct exec_case c = {.algo = "apart",
                                    .coll = gather ? TUTTI_ALL_GATHER : TUTTI_REDUCE_SCATTER,
                                    .ranks = 2,
                                    .count = seed < 6 ? 37 : 5000,
                                    .inplace = (int)(seed / 2 % 3),
                                    .segments = 1 + seed % 3};
        struct tt_builder b;
        struct tt_shape shape = {.coll = c.coll, .ranks = 2, .chunks = CHUNKS, .nbufs = 2, .segments = 1, .inplace = true};
        shape.owner = tt_alloc(CHUNKS, sizeof(uint32_t));
        for (uint32_t i = 0; i < CHUNKS; i++)
            shape.owner[i] = i % 2;
        tt_sched_build_begin(&b, &shape, 0);
        for (uint32_t r = 0; r < 2; r++) {
            struct tt_span mine = {.first = r, .len = 1, .stride = 2, .reps = CHUNKS / 2, .buf = TT_BUF_OUT, .src = TT_BUF_IN},
                           theirs = mine;
            theirs.first = 1 - r;
            struct tt_span give = gather ? mine : theirs, take = gather ? theirs : mine;
            give.buf = TT_BUF_IN;
            take.src = gather ? TT_BUF_OUT : TT_BUF_IN;
            tt_sched_build_rank(&b, r);
            tt_sched_emit_send(&b, 0, 1 - r, 0, &give, 1);
            if (gather)
                tt_sched_emit_recv(&b, 0, 1 - r, 0, &take, 1);
            else
                tt_sched_emit_recv_reduce(&b, 0, 1 - r, 0, &take, 1);
            if (gather)
                tt_sched_emit_copy(&b, 0, &mine, 1);
        }
        run_by_hand(&b, &c, seed);
    }
}

/* Two ranks swap their blocks: in place when these have one size. */
static void build_swap(struct tt_builder *b)
{
    struct tt_shape shape = {.coll = TUTTI_ALL_TO_ALL, .ranks = 2, .chunks = 4, .nbufs = 2, .segments = 1, .inplace = true};
    tt_sched_build_begin(b, &shape, 0);
    for (uint32_t r = 0; r < 2; r++) {
        struct tt_span give = tt_sched_span_range(TT_BUF_IN, 2 * r + 1 - r, 1), take = tt_sched_span_range(TT_BUF_OUT, 2 * (1 - r) + r, 1);
        struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 3 * r, 1);
        tt_sched_build_rank(b, r);
        tt_sched_emit_send(b, 0, 1 - r, 0, &give, 1);
        tt_sched_emit_recv(b, 0, 1 - r, 0, &take, 1);
        tt_sched_emit_copy(b, 0, &own, 1);
    }
}

static void test_swap(void **state)
{
    struct tutti_error err;
    struct tt_builder b;
    struct tt_sched *s;
    struct tt_program *p;
    float buf[7] = {0};
    (void)state;
    for (uint32_t seed = 0; seed < 8; seed++) {
        const struct exec_case c = {
            .algo = "swap", .coll = TUTTI_ALL_TO_ALL, .ranks = 2, .count = seed / 2 ? 60000 : 6, .inplace = (int)(seed % 2)};
        build_swap(&b);
        run_by_hand(&b, &c, seed);
    }
    build_swap(&b);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
    struct tt_program_config pc = {.sched = s, .rank = 1, .count = 7};
    assert_int_equal(tt_exec_program_make(&pc, &p, &err), TUTTI_OK);
    open_world(2, 1);
    struct tt_start start = {.program = p, .in = buf, .out = buf, .seq = 1};
    assert_int_equal(tt_exec_context_start(contexts[1], &start, &err), TUTTI_ERR_ARG); /* blocks of 3 and 4 */
    tt_exec_program_free(p);
    tt_sched_free(s);
    close_world();
}

static tutti_status make(struct tt_program_config pc, struct tutti_error *err)
{
    struct tt_program *p = NULL;
    tutti_status st = tt_exec_program_make(&pc, &p, err);
    tt_exec_program_free(p);
    return st;
}

static void test_refusals(void **state)
{
    struct tutti_error err;
    struct tt_sched *ring, *rs;
    struct tt_algo_args a = {.problem = {TUTTI_ALLREDUCE, 4, 0, 100, TUTTI_F32, TUTTI_SUM, false}};
    const uint64_t counts[] = {25, 25, 25, 24};
    (void)state;
    assert_int_equal(tt_algo_slice(tt_algo_find("ring"), &a, 1, 2, &ring, &err), TUTTI_OK);
    a.problem.coll = TUTTI_REDUCE_SCATTER;
    assert_int_equal(tt_algo_build(tt_algo_find("ring"), &a, &rs, &err), TUTTI_OK);
    struct tt_program_config ok = {.sched = ring, .rank = 1, .count = 100}, c = ok;
    assert_int_equal(make(c, &err), TUTTI_OK);
    c.rank = 0;
    assert_int_equal(make(c, &err), TUTTI_ERR_ARG);
    c = ok, c.dtype = 99;
    assert_int_equal(make(c, &err), TUTTI_ERR_ARG);
    c = ok, c.segments = TT_MAX_SEGMENTS + 1;
    assert_int_equal(make(c, &err), TUTTI_ERR_LIMIT);
    c = ok, c.count = UINT64_MAX / 3;
    assert_int_equal(make(c, &err), TUTTI_ERR_LIMIT);
    c = ok, c.count = UINT64_C(1) << 50;
    assert_int_equal(make(c, &err), TUTTI_ERR_LIMIT);
    c = ok, c.block_counts = counts;
    assert_int_equal(make(c, &err), TUTTI_ERR_ARG); /* an allreduce has no blocks */
    c.sched = rs;
    assert_int_equal(make(c, &err), TUTTI_ERR_ARG); /* 99 elements, not 100 */
    assert_non_null(strstr(err.text, "99"));
    c.count = 99;
    assert_int_equal(make(c, &err), TUTTI_OK);
    tt_sched_free(ring);
    tt_sched_free(rs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_algorithms), cmocka_unit_test(test_equal_bits),  cmocka_unit_test(test_large),
        cmocka_unit_test(test_scattered),      cmocka_unit_test(test_parts_apart), cmocka_unit_test(test_swap),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
