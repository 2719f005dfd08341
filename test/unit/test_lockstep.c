/* test_lockstep.c - the tests' own interpreter must be able to object: small hand-made schedules, one for every verdict, and the meanings
 * that a real schedule may never show (in place, segments, order of summation). */
#include "support.h"

static struct tt_builder begin(tutti_coll coll, uint32_t ranks, uint32_t chunks)
{
    struct tt_builder b;
    struct tt_shape shape = {
        .coll = coll, .ranks = ranks, .chunks = chunks, .nbufs = 4, .segments = 1, .inplace = true, .algo = "hand-made"};
    tt_sched_build_begin(&b, &shape, 0);
    return b;
}

static void expect(struct tt_sched *s, struct ls_options o, enum ls_verdict want)
{
    struct ls_result r = ls_run_once(s, &o);
    if (r.verdict != want)
        fail_msg("%s, not %s: %s", ls_verdict_name(r.verdict), ls_verdict_name(want), r.why);
    if (want != LS_CORRECT)
        assert_true(r.rank < s->shape.ranks && strlen(r.why) > 10);
}

static void expect_and_free(struct tt_sched *s, struct ls_options o, enum ls_verdict want)
{
    expect(s, o, want);
    tt_sched_free(s);
}

/* An all-reduce of two ranks and two chunks: both swap their vectors into scratch and add them up, in rank order or own vector first. */
static struct tt_sched *swap(bool rank_order)
{
    struct tt_builder b = begin(TUTTI_ALLREDUCE, 2, 2);
    for (uint32_t r = 0; r < 2; r++) {
        struct tt_span mine = tt_sched_span_range(TT_BUF_IN, 0, 2), theirs = tt_sched_span_range(TT_BUF_SCRATCH, 0, 2);
        uint32_t first = rank_order && r == 1 ? TT_BUF_SCRATCH : TT_BUF_IN, second = TT_BUF_IN + TT_BUF_SCRATCH - first;
        struct tt_span sum[] = {tt_sched_span_range(TT_BUF_OUT, 0, 2), tt_sched_span_from(0, first, 0, 2),
                                tt_sched_span_from(0, second, 0, 2)};
        tt_sched_build_rank(&b, r);
        tt_sched_emit_send(&b, 0, 1 - r, 0, &mine, 1);
        tt_sched_emit_recv(&b, 0, 1 - r, 0, &theirs, 1);
        tt_sched_emit_reduce(&b, 0, sum, 3);
    }
    return frozen(&b);
}

static void test_correct(void **state)
{
    (void)state;
    struct tt_sched *s = swap(true);
    assert_int_equal(ls_prove(s).verdict, LS_CORRECT);
    for (uint64_t count = 0; count < 9; count++)
        expect(s, (struct ls_options){.elements = true, .count = count}, LS_CORRECT);
    for (s->shape.segments = 2; s->shape.segments < 6; s->shape.segments++) {
        assert_int_equal(ls_prove(s).verdict, LS_CORRECT);
        expect(s, (struct ls_options){.elements = true, .count = 7}, LS_CORRECT);
    }
    tt_sched_free(s);
}

static void test_other_bits(void **state)
{
    (void)state;
    struct tt_sched *s = swap(false);
    expect(s, (struct ls_options){0}, LS_CORRECT);
    expect(s, (struct ls_options){.sum = ls_tree_sum}, LS_CORRECT);
    expect(s, (struct ls_options){.sum = ls_ordered_sum}, LS_WRONG);
    struct ls_result r = ls_prove(s);
    assert_int_equal(r.verdict, LS_WRONG);
    expect_says(r.why, "ordered sum");
    tt_sched_free(s);
}

/* Another root's schedule claimed as this one; a reduction to the root claimed as one to all. */
static void test_claims(void **state)
{
    (void)state;
    struct tt_algo_args a = {.problem = {.coll = TUTTI_BROADCAST, .ranks = 4, .root = 1, .count = 9}};
    struct tt_sched *s = build_of(&tt_algo_chain, &a);
    s->shape.root = 0;
    expect(s, (struct ls_options){0}, LS_EMPTY);
    expect_and_free(s, (struct ls_options){.lenient = true}, LS_WRONG);
    a.problem = (struct tt_problem){.coll = TUTTI_REDUCE, .ranks = 4, .count = 9};
    s = build_of(&tt_algo_binomial, &a);
    s->shape.coll = TUTTI_ALLREDUCE;
    expect(s, (struct ls_options){0}, LS_WRONG);
    expect_and_free(s, (struct ls_options){.live = true}, LS_WRONG);
}

/* A broadcast of two chunks from rank 0 to rank 1 that goes wrong in one way or another. */
struct mishap {
    uint32_t recv_step, recv_first, recv_len, channel;
    bool no_send, no_recv;
};
static struct tt_sched *broadcast(struct mishap m)
{
    struct tt_builder b = begin(TUTTI_BROADCAST, 2, 2);
    struct tt_span out = tt_sched_span_range(TT_BUF_IN, 0, 2), in = tt_sched_span_range(TT_BUF_OUT, m.recv_first, m.recv_len);
    struct tt_span keep = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 2);
    tt_sched_build_rank(&b, 0);
    if (!m.no_send)
        tt_sched_emit_send(&b, 0, 1, 0, &out, 1);
    tt_sched_emit_copy(&b, 0, &keep, 1);
    tt_sched_build_rank(&b, 1);
    if (!m.no_recv)
        tt_sched_emit_recv(&b, m.recv_step, 0, (uint16_t)m.channel, &in, 1);
    return frozen(&b);
}

static void test_unmatched(void **state)
{
    (void)state;
    struct ls_options lock = {0}, live = {.live = true};
    expect_and_free(broadcast((struct mishap){.recv_len = 2}), lock, LS_CORRECT);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .no_send = true}), lock, LS_UNMATCHED);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .no_send = true}), live, LS_STUCK);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .no_recv = true}), lock, LS_UNMATCHED);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .no_recv = true}), live, LS_STUCK);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .channel = 1}), lock, LS_UNMATCHED);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .channel = 1}), live, LS_STUCK);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .recv_step = 1}), lock, LS_UNMATCHED);
    expect_and_free(broadcast((struct mishap){.recv_len = 2, .recv_step = 1}), live, LS_CORRECT); /* steps are not seen live */
    expect_and_free(broadcast((struct mishap){.recv_len = 1}), lock, LS_UNMATCHED);
    expect_and_free(broadcast((struct mishap){.recv_len = 1, .recv_first = 1}), live, LS_UNMATCHED);
}

/* Two ranks send their input and add what they receive to it. In place the receive of a rank writes what its send still reads, so that it
 * waits for the send, which waits for the other's receive: fine in lockstep, stuck by themselves. */
static void test_stuck(void **state)
{
    (void)state;
    struct tt_builder b = begin(TUTTI_ALLREDUCE, 2, 1);
    for (uint32_t r = 0; r < 2; r++) {
        struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 1), sum = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 1);
        tt_sched_build_rank(&b, r);
        tt_sched_emit_send(&b, 0, 1 - r, 0, &in, 1);
        tt_sched_emit_recv_reduce(&b, 0, 1 - r, 0, &sum, 1);
    }
    struct tt_sched *s = frozen(&b);
    expect(s, (struct ls_options){0}, LS_CORRECT);
    expect(s, (struct ls_options){.live = true}, LS_CORRECT);
    expect(s, (struct ls_options){.inplace = true}, LS_CORRECT);
    expect_and_free(s, (struct ls_options){.live = true, .inplace = true}, LS_STUCK);
}

/* Reading OUT before anything is there; and a place whose garbage never reaches a result. */
static void test_empty(void **state)
{
    (void)state;
    struct tt_builder b = begin(TUTTI_BROADCAST, 1, 1);
    struct tt_span keep = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 1),
                   noise = tt_sched_span_from(TT_BUF_SCRATCH, TT_BUF_SCRATCH + 1, 0, 1);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_copy(&b, 0, &keep, 1);
    tt_sched_emit_copy(&b, 0, &noise, 1);
    struct tt_sched *s = frozen(&b);
    expect(s, (struct ls_options){0}, LS_EMPTY);
    expect(s, (struct ls_options){.live = true}, LS_EMPTY);
    expect(s, (struct ls_options){.lenient = true}, LS_CORRECT);
    expect_and_free(s, (struct ls_options){.lenient = true, .live = true}, LS_CORRECT);
}

/* One rank; the given copies in the given steps. */
static struct tt_sched *copies(tutti_coll coll, const struct tt_span *spans, const uint32_t *steps, size_t n)
{
    struct tt_builder b = begin(coll, 1, 2);
    tt_sched_build_rank(&b, 0);
    for (size_t i = 0; i < n; i++)
        tt_sched_emit_copy(&b, steps[i], &spans[i], 1);
    return frozen(&b);
}

static void test_malformed_copies(void **state)
{
    (void)state;
    struct tt_span all = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 2), over = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 1, 2);
    struct tt_span input = tt_sched_span_from(TT_BUF_IN, TT_BUF_OUT, 0, 2), buffer = tt_sched_span_from(9, TT_BUF_IN, 0, 2);
    struct tt_span folded = {.first = 0, .len = 2, .stride = 1, .reps = 2, .buf = TT_BUF_SCRATCH};
    struct tt_span huge = {.first = 1, .len = 1, .stride = UINT32_MAX, .reps = UINT32_MAX, .buf = TT_BUF_SCRATCH};
    const struct {
        struct tt_span spans[2];
        uint32_t steps[2];
        enum ls_verdict want;
    } cases[] = {{{all, all}, {0, 1}, LS_CORRECT},      {{all, all}, {0, 0}, LS_MALFORMED},   {{all, all}, {1, 0}, LS_MALFORMED},
                 {{all, over}, {0, 1}, LS_MALFORMED},   {{all, input}, {0, 1}, LS_MALFORMED}, {{all, buffer}, {0, 1}, LS_MALFORMED},
                 {{all, folded}, {0, 1}, LS_MALFORMED}, {{all, huge}, {0, 1}, LS_MALFORMED}};
    for (size_t i = 0; i < countof(cases); i++)
        expect_and_free(copies(TUTTI_BROADCAST, cases[i].spans, cases[i].steps, 2), (struct ls_options){0}, cases[i].want);
    expect_and_free(copies(TUTTI_BROADCAST, (struct tt_span[]){all, all}, (uint32_t[]){0, 0}, 2), (struct ls_options){.inplace = true},
                    LS_CORRECT); /* in place such copies write nothing */
}

static void test_malformed_messages(void **state)
{
    (void)state;
    struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 1), out = tt_sched_span_range(TT_BUF_OUT, 0, 1);
    for (int bad = 0; bad < 4; bad++) {
        struct tt_builder b = begin(TUTTI_REDUCE, 2, 1);
        tt_sched_build_rank(&b, 0);
        if (bad == 0)
            tt_sched_emit_send(&b, 0, 0, 0, &in, 1); /* to itself */
        if (bad == 1)
            tt_sched_emit_recv(&b, 0, 2, 0, &out, 1); /* from nobody */
        tt_sched_build_rank(&b, 1);
        if (bad == 2)
            tt_sched_emit_recv(&b, 0, 0, 0, &out, 1); /* only the root has an output */
        if (bad == 3)
            tt_sched_emit_reduce(&b, 0, &out, 1); /* of nothing */
        expect_and_free(frozen(&b), (struct ls_options){0}, LS_MALFORMED);
    }
}

/* Rank 0 receives twice in one step: into one place, or adding to what the first message wrote. */
static void test_receives_of_one_step(void **state)
{
    (void)state;
    for (int bad = 0; bad < 2; bad++) {
        struct tt_builder b = begin(TUTTI_ALLREDUCE, 3, 1);
        struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 1), first = tt_sched_span_from(TT_BUF_SCRATCH, TT_BUF_IN, 0, 1);
        struct tt_span second = bad ? tt_sched_span_from(TT_BUF_OUT, TT_BUF_SCRATCH, 0, 1) : first;
        tt_sched_build_rank(&b, 0);
        tt_sched_emit_recv_reduce(&b, 0, 1, 0, &first, 1);
        tt_sched_emit_recv_reduce(&b, 0, 2, 0, &second, 1);
        for (uint32_t r = 1; r < 3; r++) {
            tt_sched_build_rank(&b, r);
            tt_sched_emit_send(&b, 0, 0, 0, &in, 1);
        }
        struct tt_sched *s = frozen(&b);
        struct ls_result r = ls_run_once(s, &(struct ls_options){.lenient = true});
        assert_int_equal(r.verdict, LS_MALFORMED);
        assert_int_equal(r.rank, 0);
        assert_int_equal(r.op, 1);
        expect_says(r.why, bad ? "earlier message" : "second write");
        tt_sched_free(s);
    }
}

static void test_malformed_shape(void **state)
{
    (void)state;
    struct tt_sched *s = swap(true);
    struct tt_shape good = s->shape;
    struct tt_shape bad[] = {good, good, good, good};
    bad[0].root = 2;
    bad[1].coll = TUTTI_ALL_TO_ALL; /* two ranks have four chunks then */
    bad[2].segments = 0;
    bad[3].owner = (uint32_t[]){0, 2};
    for (size_t i = 0; i < countof(bad); i++) {
        s->shape = bad[i];
        expect(s, (struct ls_options){0}, LS_MALFORMED);
    }
    s->shape = good;
    s->nslices = 1;
    expect(s, (struct ls_options){0}, LS_MALFORMED);
    s->nslices = 2;
    expect_and_free(s, (struct ls_options){0}, LS_CORRECT);
}

/* All-to-all: out of place right; in place what arrives overwrites what is still to be sent one step later, unless sent at once. */
static void test_all_to_all_inplace(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct tt_builder b = begin(TUTTI_ALL_TO_ALL, 2, 4);
        for (uint32_t r = 0; r < 2; r++) {
            struct tt_span out = tt_sched_span_range(TT_BUF_IN, 2 * r + 1 - r, 1), in = tt_sched_span_range(TT_BUF_OUT, 2 * (1 - r) + r, 1);
            struct tt_span own = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 3 * r, 1);
            tt_sched_build_rank(&b, r);
            if (r == 0 || !late)
                tt_sched_emit_send(&b, 0, 1 - r, 0, &out, 1);
            if (r == 1 || !late)
                tt_sched_emit_recv(&b, 0, 1 - r, 0, &in, 1);
            if (r == 1 && late)
                tt_sched_emit_send(&b, 1, 1 - r, 0, &out, 1);
            if (r == 0 && late)
                tt_sched_emit_recv(&b, 1, 1 - r, 0, &in, 1);
            tt_sched_emit_copy(&b, late, &own, 1);
        }
        struct tt_sched *s = frozen(&b);
        expect(s, (struct ls_options){0}, LS_CORRECT);
        expect(s, (struct ls_options){.live = true}, LS_CORRECT);
        expect(s, (struct ls_options){.inplace = true}, late ? LS_WRONG : LS_CORRECT);
        expect(s, (struct ls_options){.inplace = true, .elements = true, .count = 6}, late ? LS_WRONG : LS_CORRECT);
        expect_and_free(s, (struct ls_options){.inplace = true, .elements = true, .count = 5}, LS_MALFORMED); /* blocks of 2 and 3 */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_correct),
        cmocka_unit_test(test_other_bits),
        cmocka_unit_test(test_claims),
        cmocka_unit_test(test_unmatched),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_malformed_copies),
        cmocka_unit_test(test_malformed_messages),
        cmocka_unit_test(test_receives_of_one_step),
        cmocka_unit_test(test_malformed_shape),
        cmocka_unit_test(test_all_to_all_inplace),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
