/* test_exec_flow.c - many requests, late ranks, little credit, and peers that do not fit, over the fake transport in one thread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/exec_int.h"
#include "exec_case.h"
#include "fake_transport.h"

enum { RANKS = 4, JOBS = 12 };

static struct fake_world *world;
static struct tt_engine *engines[CASE_RANKS];
static struct tt_context *contexts[CASE_RANKS];

static void open_world(uint32_t ranks, uint64_t seed, uint32_t eager)
{
    struct tutti_error err;
    world = fake_world_make(ranks, seed);
    for (uint32_t r = 0; r < ranks; r++) {
        struct tt_engine_config c = {.transport = &world->rank[r].base, .max_requests = JOBS, .eager_bytes = eager};
        assert_int_equal(tt_exec_engine_make(&c, &engines[r], &err), TUTTI_OK);
        contexts[r] = case_context(engines[r], ranks, r);
    }
}

static void close_world(void)
{
    for (uint32_t r = 0; r < world->size; r++)
        tt_exec_engine_free(engines[r]);
    fake_world_free(world);
}

static tutti_status start(struct exec_job *j, uint32_t r, uint32_t seq, uint64_t fingerprint)
{
    struct tutti_error err = {0};
    struct tt_start s = {.program = j->program[r], .in = j->in[r], .out = j->out[r], .seq = seq, .fingerprint = fingerprint};
    return tt_exec_context_start(contexts[r], &s, &err);
}

static bool done(struct exec_job *j, uint32_t r)
{
    struct tutti_error err = {0};
    tutti_status st = tt_exec_engine_test(engines[r], j->program[r], &err);
    if (st < 0)
        fail_msg("rank %u: %s", r, err.text);
    return st == TUTTI_OK;
}

static void turn(uint32_t times)
{
    for (uint32_t i = 0; i < times; i++)
        tt_exec_engine_progress(engines[tt_rng_below(&world->rng, world->size)]);
}

static void until_done(struct exec_job *j, uint32_t r)
{
    for (int i = 0; !done(j, r); i++) {
        turn(world->size);
        assert_true(i < 200000);
    }
}

static uint32_t stash_blocks(uint32_t r)
{
    uint32_t most = 0;
    for (uint32_t i = 0; i < world->size; i++) {
        const struct tt_xpeer *pe = contexts[r]->peers[i];
        most = pe && pe->blocks_used > most ? pe->blocks_used : most;
    }
    return most;
}

/* Short and long requests of all kinds, each rank somewhere else in the list. */
static void test_many_in_flight(void **state)
{
    static const struct exec_case cases[JOBS] = {
        {.algo = "ring", .ranks = RANKS, .count = 5000},
        {.algo = "recursive-doubling", .ranks = RANKS, .count = 3},
        {.algo = "binomial", .coll = TUTTI_BROADCAST, .ranks = RANKS, .count = 100000},
        {.algo = "oneshot", .coll = TUTTI_BARRIER, .ranks = RANKS},
        {.algo = "direct", .coll = TUTTI_ALL_TO_ALL, .ranks = RANKS, .count = 30000},
        {.algo = "chain", .coll = TUTTI_REDUCE, .ranks = RANKS, .count = 60000, .root = 3},
        {.algo = "direct", .coll = TUTTI_GATHER, .ranks = RANKS, .count = 20000, .root = 2},
        {.algo = "direct", .ranks = RANKS, .count = 50000, .redop = TUTTI_AVG},
        {.algo = "oneshot", .ranks = RANKS, .count = 1},
        {.algo = "halving-doubling", .coll = TUTTI_REDUCE_SCATTER, .ranks = RANKS, .count = 40000, .inplace = 2},
        {.algo = "circulant", .coll = TUTTI_ALL_GATHER, .ranks = RANKS, .count = 40000, .inplace = 1},
        {.algo = "double-tree", .ranks = RANKS, .count = 80000},
    };
    static const uint32_t eager[] = {0, 1, 8192, 100000};
    (void)state;
    for (uint64_t seed = 0; seed < 24; seed++) {
        static struct exec_job jobs[JOBS];
        uint32_t next[RANKS] = {0}, left = RANKS * JOBS;
        open_world(RANKS, seed, eager[seed % countof(eager)]);
        for (uint32_t i = 0; i < JOBS; i++)
            assert_true(case_make(&cases[i], &jobs[i]));
        for (uint32_t turns = 0; left > 0; turns++) {
            uint32_t r = (uint32_t)tt_rng_below(&world->rng, RANKS);
            if (next[r] < JOBS && tt_rng_below(&world->rng, 30) == 0) {
                assert_int_equal(start(&jobs[next[r]], r, 4294967290u + next[r], next[r] + 1), TUTTI_OK); /* numbers wrap */
                next[r]++;
            }
            tt_exec_engine_progress(engines[r]);
            assert_true(turns < 2000000);
            left = RANKS * JOBS;
            for (uint32_t i = 0; i < RANKS * JOBS; i++)
                left -= i / RANKS < next[i % RANKS] && done(&jobs[i / RANKS], i % RANKS);
            for (uint32_t i = 0; i < RANKS; i++)
                assert_true(stash_blocks(i) <= engines[i]->stash_blocks);
        }
        assert_int_equal(world->held, 0);
        for (uint32_t i = 0; i < JOBS; i++) {
            assert_true(case_check(&jobs[i]));
            case_free(&jobs[i]);
        }
        close_world();
    }
}

/* A stash whose credit is given back while pieces are still being filled into it: later ones wait, and nothing is lost. */
static void test_deferred(void **state)
{
    const struct exec_case c = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2, .count = 16384};
    uint32_t deferred = 0;
    (void)state;
    for (uint64_t seed = 0; seed < 20; seed++) {
        struct exec_job j[3];
        open_world(2, seed, 64 << 10);
        world->fill_delay = 2000;
        world->header_min = 64;
        engines[1]->stash_blocks = engines[1]->budget;
        for (uint32_t i = 0; i < 3; i++) {
            assert_true(case_make(&c, &j[i]));
            assert_int_equal(start(&j[i], 0, i, i), TUTTI_OK);
        }
        turn(100);
        for (uint32_t i = 0; i < 3; i++) {
            assert_int_equal(start(&j[i], 1, i, i), TUTTI_OK);
            for (int k = 0; k < 600; k++) {
                turn(1);
                deferred += engines[1]->ndeferred > 0;
            }
        }
        for (uint32_t i = 0; i < 3; i++) {
            until_done(&j[i], 0);
            until_done(&j[i], 1);
            assert_true(case_check(&j[i]));
            case_free(&j[i]);
        }
        assert_int_equal(stash_blocks(1), 0);
        close_world();
    }
    assert_true(deferred > 0);
}

/* Rank 2 has not even started request 1 when the others have finished request 2, in which it only receives. */
static void test_inverted(void **state)
{
    const struct exec_case first = {.algo = "ring", .ranks = 3, .count = 90000};
    const struct exec_case second = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 3, .count = 2000};
    (void)state;
    for (uint64_t seed = 0; seed < 6; seed++) {
        struct exec_job a, b;
        open_world(3, seed, 0);
        assert_true(case_make(&first, &a) && case_make(&second, &b));
        for (uint32_t r = 0; r < 2; r++) {
            assert_int_equal(start(&a, r, 1, 1), TUTTI_OK);
            assert_int_equal(start(&b, r, 2, 2), TUTTI_OK);
        }
        until_done(&b, 0);
        until_done(&b, 1);
        turn(5000);
        assert_false(done(&a, 0) || done(&a, 1));
        assert_int_equal(tt_exec_program_waiting(a.program[0]), 2);
        assert_true(stash_blocks(2) > 0);
        assert_int_equal(start(&a, 2, 1, 1), TUTTI_OK);
        until_done(&a, 0);
        until_done(&a, 2);
        assert_int_equal(start(&b, 2, 2, 2), TUTTI_OK);
        until_done(&b, 2);
        until_done(&a, 1);
        assert_true(case_check(&a) && case_check(&b));
        assert_int_equal(stash_blocks(2), 0);
        assert_int_equal(tt_exec_program_waiting(a.program[0]), UINT32_MAX);
        case_free(&a);
        case_free(&b);
        close_world();
    }
}

/* A sender far ahead: what the receiver has to keep is bounded, the rest waits at the sender, and comes when it may. */
static void test_bounded_stash(void **state)
{
    const struct exec_case large = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2, .count = 200000};
    const struct exec_case cut = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2, .count = 200000, .segments = 64};
    (void)state;
    for (uint64_t seed = 0; seed < 12; seed++) {
        struct exec_job j[4];
        open_world(2, seed, 64 << 10);
        for (uint32_t i = 0; i < 4; i++) {
            assert_true(case_make(seed % 2 ? &large : &cut, &j[i]));
            assert_int_equal(start(&j[i], 0, i, i), TUTTI_OK);
        }
        turn(20000);
        assert_true(stash_blocks(1) <= engines[1]->budget);
        assert_true(world->bytes <= 64 << 10);
        assert_true(seed % 2 || world->bytes > 32 << 10); /* but what may go does go */
        assert_false(done(&j[0], 0));
        for (uint32_t i = 0; i < 4; i++) {
            assert_int_equal(start(&j[i], 1, i, i), TUTTI_OK);
            until_done(&j[i], 1);
            assert_true(case_check(&j[i]));
        }
        for (uint32_t i = 0; i < 4; i++) {
            until_done(&j[i], 0);
            case_free(&j[i]);
        }
        close_world();
    }
}

/* Thousands of requests in which one side only sends: it never gets stuck, and hears of the other now and then, not every time. */
static void test_one_way(void **state)
{
    const struct exec_case tiny = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2, .count = 2};
    struct exec_job j[4];
    (void)state;
    open_world(2, 5, 16 << 10);
    for (uint32_t i = 0; i < 4; i++)
        assert_true(case_make(&tiny, &j[i]));
    for (uint32_t i = 0; i < 3000; i++) {
        until_done(&j[i % 4], 0);
        assert_int_equal(start(&j[i % 4], 0, i, i), TUTTI_OK);
        if (i % 4 < 3)
            continue;
        for (uint32_t k = i - 3; k <= i; k++) {
            assert_int_equal(start(&j[k % 4], 1, k, k), TUTTI_OK);
            until_done(&j[k % 4], 1);
        }
    }
    assert_true(world->control > 100 && world->control <= 3000 / engines[0]->quarter + 1);
    for (uint32_t i = 0; i < 4; i++)
        case_free(&j[i]);
    close_world();
}

static void expect_fault(uint32_t r, int kind, uint32_t peer, uint64_t mine, uint64_t theirs)
{
    const struct tt_exec_engine_fault *f = tt_exec_engine_fault(engines[r]);
    for (int i = 0; i < 20000 && f->kind == TT_FAULT_NONE; i++)
        turn(world->size);
    assert_int_equal(f->kind, kind);
    assert_int_equal(f->peer, peer);
    assert_int_equal(f->mine, mine);
    assert_int_equal(f->theirs, theirs);
}

/* Both sides learn of it with both values, whether the message came before or after the start, and also when one side only sends. */
static void test_mismatch(void **state)
{
    static const struct exec_case cases[] = {
        {.algo = "ring", .ranks = 2, .count = 10},
        {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2, .count = 10},
        {.algo = "direct", .ranks = 2, .count = 90000},
        {.algo = "chain", .coll = TUTTI_REDUCE, .ranks = 2, .count = 50000, .root = 1},
    };
    struct tutti_error err;
    (void)state;
    for (uint64_t seed = 0; seed < 16; seed++) {
        struct exec_job j;
        open_world(2, seed, 0);
        assert_true(case_make(&cases[seed % 4], &j));
        assert_int_equal(start(&j, 0, 5, 111), TUTTI_OK);
        turn(seed / 4 % 2 ? 2000 : 0);
        tutti_status st = start(&j, 1, 5, 222);
        assert_true(st == TUTTI_OK || st == TUTTI_ERR_DIFFERS);
        expect_fault(1, TT_FAULT_MISMATCH, 0, 222, 111);
        expect_fault(0, TT_FAULT_MISMATCH, 1, 111, 222);
        assert_int_equal(tt_exec_engine_test(engines[1], j.program[1], &err), TUTTI_ERR_DIFFERS);
        assert_non_null(strstr(err.text, "00000000000000de"));
        assert_non_null(strstr(err.text, "000000000000006f"));
        assert_int_equal(start(&j, 0, 6, 1), TUTTI_ERR_DIFFERS);
        case_free(&j);
        close_world();
    }
}

/* A peer may leave when it has given and got everything, not before. */
static void test_closed(void **state)
{
    const struct exec_case c = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 3, .count = 100};
    const struct exec_case both = {.algo = "ring", .ranks = 3, .count = 100};
    struct tutti_error err;
    struct exec_job j, k;
    (void)state;
    open_world(3, 3, 0);
    assert_true(case_make(&c, &j) && case_make(&both, &k));
    assert_int_equal(start(&j, 0, 1, 1), TUTTI_OK);
    until_done(&j, 0);
    world->rank[0].base.ops->close(&world->rank[0].base);
    turn(500);
    assert_int_equal(start(&j, 1, 1, 1), TUTTI_OK); /* its part is in the stash */
    until_done(&j, 1);
    assert_int_equal(start(&k, 1, 2, 2), TUTTI_ERR_PEER);
    assert_int_equal(tt_exec_engine_fault(engines[1])->kind, TT_FAULT_CLOSED);
    assert_int_equal(tt_exec_engine_fault(engines[1])->peer, 0);
    assert_int_equal(tt_exec_engine_test(engines[1], j.program[1], &err), TUTTI_OK); /* done is done */
    case_free(&j);
    case_free(&k);
    close_world();
}

static void test_closed_while_waiting(void **state)
{
    const struct exec_case both = {.algo = "ring", .ranks = 3, .count = 100};
    struct tutti_error err;
    struct exec_job k;
    (void)state;
    open_world(3, 4, 0);
    assert_true(case_make(&both, &k));
    assert_int_equal(start(&k, 1, 1, 1), TUTTI_OK);
    assert_int_equal(start(&k, 2, 1, 1), TUTTI_OK);
    turn(1000);
    world->rank[0].base.ops->close(&world->rank[0].base);
    expect_fault(1, TT_FAULT_CLOSED, 0, 0, 0);
    expect_fault(2, TT_FAULT_CLOSED, 0, 0, 0);
    assert_int_equal(tt_exec_engine_test(engines[2], k.program[2], &err), TUTTI_ERR_PEER);
    case_free(&k);
    close_world();
}

static void send_raw(uint32_t from, uint32_t to, struct tt_tag tag, uint32_t bytes)
{
    static char zeros[64];
    const struct iovec iov = {.iov_base = zeros, .iov_len = bytes};
    assert_int_equal(fake_send(&world->rank[from].base, to, &tag, &iov, 1, 0), TUTTI_OK);
}

/* Pieces that fit nowhere. */
static void test_protocol(void **state)
{
    const struct exec_case c = {.algo = "oneshot", .ranks = 2, .count = 4};
    const struct tt_tag good = {.fingerprint = 9, .request = 1};
    struct {
        struct tt_tag tag;
        uint32_t bytes;
    } bad[] = {{good, 12}, {good, 16}, {good, 16}, {good, 16}, {good, 16}, {good, 16}, {good, 16}, {good, 4}};
    (void)state;
    bad[1].tag.message = 1;
    bad[2].tag.segment = 1;
    bad[3].tag.segment = 1 << 16;
    bad[4].tag.comm = UINT16_MAX; /* of no context, and no word that is known */
    bad[5].tag.request = 0;
    bad[6].tag.channel = 3;
    bad[7].tag.channel = TT_CH_CONTROL + 9;
    for (size_t i = 0; i <= countof(bad); i++) {
        struct exec_job j;
        open_world(2, i, 0);
        assert_true(case_make(&c, &j));
        assert_int_equal(start(&j, 0, 1, 9), TUTTI_OK);
        if (i < countof(bad))
            send_raw(1, 0, bad[i].tag, bad[i].bytes);
        else
            tt_exec_engine_kill(engines[0], &(struct tt_exec_engine_fault){.peer = 1});
        struct tutti_error err;
        turn(200);
        assert_int_equal(tt_exec_engine_fault(engines[0])->kind, i < countof(bad) ? TT_FAULT_PROTOCOL : TT_FAULT_NONE);
        assert_int_equal(tt_exec_engine_test(engines[0], j.program[0], &err), i < countof(bad) ? TUTTI_ERR_PEER : TUTTI_ERR_ABORTED);
        case_free(&j);
        close_world();
    }
}

/* A short letter that is longer than short letters are, and than the stash has blocks for one. */
static void test_long_envelope(void **state)
{
    const uint32_t bytes = 1 << 20;
    struct tt_event ev = {
        .kind = TT_EV_DATA, .peer = 1, .bytes = bytes, .tag = {.fingerprint = bytes, .channel = TT_XCH_LETTER}, .data = calloc(1, bytes)};
    (void)state;
    open_world(2, 1, 0);
    world->held++; /* as if the transport had delivered it */
    assert_true(tt_exec_letter_arrived(tt_exec_context_peer(contexts[0], 1), &ev));
    assert_int_equal(tt_exec_engine_fault(engines[0])->kind, TT_FAULT_PROTOCOL);
    close_world();
}

/* The same piece twice. */
static void test_twice(void **state)
{
    const struct exec_case c = {.algo = "oneshot", .ranks = 3, .count = 4};
    const struct tt_tag tag = {.fingerprint = 9, .request = 1};
    struct exec_job j;
    (void)state;
    open_world(3, 8, 0);
    assert_true(case_make(&c, &j));
    assert_int_equal(start(&j, 0, 1, 9), TUTTI_OK);
    send_raw(1, 0, tag, 16);
    turn(200);
    assert_int_equal(tt_exec_engine_fault(engines[0])->kind, TT_FAULT_NONE);
    send_raw(1, 0, tag, 16);
    expect_fault(0, TT_FAULT_PROTOCOL, 1, 0, 0);
    case_free(&j);
    close_world();
}

/* Nobody leaves a barrier before all have come. */
static void test_barrier(void **state)
{
    static const char *const algos[] = {"oneshot", "recursive-doubling"};
    (void)state;
    for (size_t i = 0; i < countof(algos); i++) {
        const struct exec_case c = {.algo = algos[i], .coll = TUTTI_BARRIER, .ranks = 5};
        struct exec_job j;
        open_world(5, i, 0);
        assert_true(case_make(&c, &j));
        for (uint32_t r = 0; r < 4; r++)
            assert_int_equal(start(&j, r, 1, 1), TUTTI_OK);
        turn(3000);
        for (uint32_t r = 0; r < 4; r++)
            assert_false(done(&j, r));
        assert_int_equal(start(&j, 4, 1, 1), TUTTI_OK);
        for (uint32_t r = 0; r < 5; r++)
            until_done(&j, r);
        case_free(&j);
        close_world();
    }
}

static void test_start_refusals(void **state)
{
    const struct exec_case c = {.algo = "direct", .coll = TUTTI_ALL_TO_ALL, .ranks = 2, .count = 8};
    struct tutti_error err;
    struct exec_job j;
    (void)state;
    open_world(2, 1, 0);
    assert_true(case_make(&c, &j));
    struct tt_start s = {.program = j.program[0], .in = j.in[0], .out = j.in[0], .seq = 1};
    assert_int_equal(tt_exec_context_start(contexts[0], &s, &err), TUTTI_ERR_ARG); /* not in place */
    s.out = (char *)j.in[0] + 4;
    assert_int_equal(tt_exec_context_start(contexts[0], &s, &err), TUTTI_ERR_ARG); /* overlap */
    s.out = NULL;
    assert_int_equal(tt_exec_context_start(contexts[0], &s, &err), TUTTI_ERR_ARG);
    s.out = j.out[0];
    assert_int_equal(tt_exec_context_start(contexts[0], &s, &err), TUTTI_OK);
    s.seq = 2;
    assert_int_equal(tt_exec_context_start(contexts[0], &s, &err), TUTTI_ERR_ARG); /* still running */
    assert_int_equal(start(&j, 1, 1, 0), TUTTI_OK);
    until_done(&j, 0);
    until_done(&j, 1);
    s.seq = 3;
    assert_int_equal(tt_exec_context_start(contexts[0], &s, &err), TUTTI_ERR_ARG); /* not the next one */
    assert_true(case_check(&j));
    case_free(&j);
    close_world();
}

/* Who is waited for shows in the numbers. */
static void test_stats(void **state)
{
    const struct exec_case c = {.algo = "ring", .ranks = 3, .count = 300000, .segments = 8};
    struct tt_peer_stats s;
    struct exec_job j;
    (void)state;
    open_world(3, 2, 0);
    assert_true(case_make(&c, &j));
    assert_int_equal(start(&j, 0, 1, 1), TUTTI_OK);
    assert_int_equal(start(&j, 1, 1, 1), TUTTI_OK);
    turn(300);
    uint64_t from = tt_now_ns();
    while (tt_now_ns() - from < 20000000)
        turn(10);
    assert_int_equal(start(&j, 2, 1, 1), TUTTI_OK);
    for (uint32_t r = 0; r < 3; r++)
        until_done(&j, r);
    tt_exec_context_stats(contexts[0], 2, &s);
    assert_true(s.wait_ns >= 15000000 && s.late_ns >= 15000000);
    assert_true(s.bytes_in == 4 * 400000 && s.bytes_out == 0);
    assert_true(s.recv_bytes > s.bytes_in / 2 && s.recv_ns > 0);
    tt_exec_context_stats(contexts[1], 0, &s);
    assert_true(s.late_ns < 15000000);
    case_free(&j);
    close_world();
}

static void test_stats_late(void **state)
{
    const struct exec_case c = {.algo = "oneshot", .coll = TUTTI_BROADCAST, .ranks = 2, .count = 10};
    struct tt_peer_stats s;
    struct exec_job j;
    (void)state;
    open_world(2, 2, 0);
    assert_true(case_make(&c, &j));
    assert_int_equal(start(&j, 1, 1, 1), TUTTI_OK);
    turn(10);
    uint64_t from = tt_now_ns();
    while (tt_now_ns() - from < 20000000)
        turn(10);
    assert_int_equal(start(&j, 0, 1, 1), TUTTI_OK);
    until_done(&j, 1);
    tt_exec_context_stats(contexts[1], 0, &s);
    assert_true(s.late_ns >= 15000000 && s.late_ns == s.wait_ns);
    case_free(&j);
    close_world();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_many_in_flight), cmocka_unit_test(test_inverted),
        cmocka_unit_test(test_deferred),       cmocka_unit_test(test_bounded_stash),
        cmocka_unit_test(test_one_way),        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_closed),         cmocka_unit_test(test_closed_while_waiting),
        cmocka_unit_test(test_protocol),       cmocka_unit_test(test_twice),
        cmocka_unit_test(test_long_envelope),  cmocka_unit_test(test_barrier),
        cmocka_unit_test(test_stats_late),     cmocka_unit_test(test_start_refusals),
        cmocka_unit_test(test_stats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
