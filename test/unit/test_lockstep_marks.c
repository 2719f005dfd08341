/* test_lockstep_marks.c - lockstep's interpreter of compiled programs must be able to object: marks that lower.c would never make are set
 * by hand, and each must show as a race or a wrong result. And schedules whose marks are delicate: what must not be marked is not. */
#include "lowered.h"
#include "support.h"

#include "exec/exec_int.h"

enum { RANKS = 3, SEEDS = 60 };

static struct tt_builder begin(uint32_t chunks)
{
    struct tt_builder b;
    struct tt_shape shape = {
        .coll = TUTTI_ALLREDUCE, .ranks = RANKS, .chunks = chunks, .nbufs = 6, .segments = 1, .inplace = true, .algo = "hand-made"};
    tt_sched_build_begin(&b, &shape, 0);
    return b;
}

/* Ranks 1 and 2 send their vectors to rank 0, which reduces and sends the sum back. `extra`: rank 1 also sends its vector to rank 2, which
 * forgets it; `keep`: rank 0 also keeps a copy of what came from rank 1; `again`: rank 0 sends its result twice, the second time after
 * having written it once more. */
struct variant {
    bool extra, keep, again;
};

static void emit_root(struct tt_builder *b, struct variant v)
{
    struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 2), out = tt_sched_span_range(TT_BUF_OUT, 0, 2);
    struct tt_span s1 = tt_sched_span_range(2, 0, 2), s2 = tt_sched_span_range(3, 0, 2), kept = tt_sched_span_from(4, 2, 0, 2);
    struct tt_span sum[] = {out, tt_sched_span_from(0, in.buf, 0, 2), tt_sched_span_from(0, 2, 0, 2), tt_sched_span_from(0, 3, 0, 2)};
    struct tt_span same = tt_sched_span_from(5, TT_BUF_OUT, 0, 2), back = tt_sched_span_from(TT_BUF_OUT, 5, 0, 2);
    tt_sched_build_rank(b, 0);
    tt_sched_emit_recv(b, 0, 1, 0, &s1, 1);
    tt_sched_emit_recv(b, 0, 2, 0, &s2, 1);
    tt_sched_emit_reduce(b, 0, sum, 4);
    if (v.keep)
        tt_sched_emit_copy(b, 0, &kept, 1);
    tt_sched_emit_send(b, 1, 1, 0, &out, 1);
    if (!v.again)
        tt_sched_emit_send(b, 1, 2, 0, &out, 1);
    if (v.again) {
        tt_sched_emit_copy(b, 1, &same, 1);
        tt_sched_emit_copy(b, 2, &back, 1);
        tt_sched_emit_send(b, 3, 2, 0, &out, 1);
    }
}

static struct tt_sched *gather(struct variant v)
{
    struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 2), out = tt_sched_span_range(TT_BUF_OUT, 0, 2),
                   aside = tt_sched_span_range(4, 0, 2);
    struct tt_builder b = begin(2);
    emit_root(&b, v);
    for (uint32_t r = 1; r < RANKS; r++) {
        tt_sched_build_rank(&b, r);
        tt_sched_emit_send(&b, 0, 0, 0, &in, 1);
        if (v.extra && r == 1)
            tt_sched_emit_send(&b, 0, 2, 0, &in, 1);
        if (v.extra && r == 2)
            tt_sched_emit_recv(&b, 0, 1, 0, &aside, 1);
        tt_sched_emit_recv(&b, v.again && r == 2 ? 3 : 1, 0, 0, &out, 1);
    }
    return frozen(&b);
}

/* Everybody sends everything to everybody: a box; of one chunk, in several segments, a row. */
static struct tt_sched *exchange_of(uint32_t chunks)
{
    struct tt_builder b = begin(chunks);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, chunks), got[RANKS],
                       sum[1 + RANKS] = {tt_sched_span_range(TT_BUF_OUT, 0, chunks)};
        tt_sched_build_rank(&b, r);
        for (uint32_t q = 0; q < RANKS; q++) {
            got[q] = tt_sched_span_range(2 + q, 0, chunks);
            sum[1 + q] = tt_sched_span_from(0, q == r ? TT_BUF_IN : 2 + q, 0, chunks);
            if (q != r)
                tt_sched_emit_send(&b, 0, q, 0, &in, 1);
        }
        for (uint32_t q = 0; q < RANKS; q++)
            if (q != r)
                tt_sched_emit_recv(&b, 0, q, 0, &got[q], 1);
        tt_sched_emit_reduce(&b, 0, sum, 1 + RANKS);
    }
    return frozen(&b);
}

static struct tt_sched *exchange(void)
{
    return exchange_of(2);
}

/* Rank 0 holds what rank 1 sent it until rank 2's message comes; rank 2 waits for a second message of rank 1, which must not overwrite the
 * first one before rank 0 has used it. Messages alone get through: the receive of the first one waits for nothing. */
static struct tt_sched *knot(void)
{
    struct tt_builder b = begin(1);
    struct tt_span out = tt_sched_span_range(TT_BUF_OUT, 0, 1), s2 = tt_sched_span_range(2, 0, 1), s3 = tt_sched_span_range(3, 0, 1);
    struct tt_span take = tt_sched_span_from(2, TT_BUF_IN, 0, 1);
    struct tt_span sum[] = {out, tt_sched_span_from(0, TT_BUF_IN, 0, 1), tt_sched_span_from(0, 2, 0, 1), tt_sched_span_from(0, 3, 0, 1)};
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_recv(&b, 1, 1, 0, &s2, 1);
    tt_sched_emit_recv(&b, 5, 2, 0, &s3, 1);
    tt_sched_emit_reduce(&b, 5, sum, 4);
    tt_sched_emit_send(&b, 6, 1, 0, &out, 1);
    tt_sched_emit_send(&b, 6, 2, 0, &out, 1);
    tt_sched_build_rank(&b, 1);
    tt_sched_emit_copy(&b, 0, &take, 1);
    tt_sched_emit_send(&b, 1, 0, 0, &s2, 1);
    tt_sched_emit_copy(&b, 2, &take, 1);
    tt_sched_emit_send(&b, 3, 2, 0, &s2, 1);
    tt_sched_emit_recv(&b, 6, 0, 0, &out, 1);
    tt_sched_build_rank(&b, 2);
    tt_sched_emit_recv(&b, 3, 1, 0, &s2, 1);
    tt_sched_emit_copy(&b, 4, &take, 1);
    tt_sched_emit_send(&b, 5, 0, 0, &s2, 1);
    tt_sched_emit_recv(&b, 6, 0, 0, &out, 1);
    return frozen(&b);
}

struct job {
    struct tt_sched *s;
    struct tt_program *p[RANKS];
};

static struct job compile_in(struct tt_sched *s, bool box, uint32_t segments)
{
    static const uint32_t places[RANKS] = {0, 1, 2};
    struct job j = {.s = s};
    assert_int_equal(ls_prove(s).verdict, LS_CORRECT);
    for (uint32_t r = 0; r < RANKS; r++) {
        struct tutti_error err;
        struct tt_program_config c = {
            .sched = s, .rank = r, .count = 6, .segments = segments, .places = places, .box_bytes = box ? 1 << 16 : 0, .dtype = TUTTI_F32};
        assert_int_equal(tt_exec_program_make(&c, &j.p[r], &err), TUTTI_OK);
    }
    return j;
}

static struct job compile(struct tt_sched *s, bool box)
{
    return compile_in(s, box, 1);
}

/* How many of all runs object; *ret is the last objection. */
static unsigned objections(struct job *j, bool inplace, struct ls_result *ret, struct lw_counts *ret_counts)
{
    const struct tt_program *programs[RANKS] = {j->p[0], j->p[1], j->p[2]};
    struct lw *l = lw_open(j->s, programs, 6);
    unsigned n = 0;
    for (int form = LW_BYTES; form <= LW_MIXED; form++)
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            struct ls_result r = lw_run(
                l, &(struct lw_options){
                       .inplace = inplace, .form = (enum lw_form)form, .offers = form != LW_BYTES, .ordered = seed % 4 == 3, .seed = seed});
            n += r.verdict != LS_CORRECT;
            *ret = r.verdict != LS_CORRECT ? r : *ret;
        }
    *ret_counts = *lw_counts(l);
    lw_close(l);
    return n;
}

static void free_job(struct job *j)
{
    for (uint32_t r = 0; r < RANKS; r++)
        tt_exec_program_free(j->p[r]);
    tt_sched_free(j->s);
}

static struct lw_counts expect_right(struct job *j)
{
    struct ls_result r = {0};
    struct lw_counts c = {0};
    for (int inplace = 0; inplace < 2; inplace++)
        if (objections(j, inplace, &r, &c))
            fail_msg("%s: %s", ls_verdict_name(r.verdict), r.why);
    return c;
}

/* The mutated programs: some order shows it. Frees the job. */
static void expect_wrong(struct job *j, bool inplace, enum ls_verdict want)
{
    struct ls_result r = {0};
    struct lw_counts c;
    assert_true(objections(j, inplace, &r, &c) > 0);
    if (r.verdict != want)
        fail_msg("%s, not %s: %s", ls_verdict_name(r.verdict), ls_verdict_name(want), r.why);
    free_job(j);
}

static uint32_t find(const struct tt_program *p, enum tt_op_kind kind, uint32_t nth)
{
    for (uint32_t i = 0; i < p->nops; i++)
        if (p->ops[i].kind == kind && nth-- == 0)
            return i;
    fail_msg("no such operation");
    return 0;
}

static void test_right(void **state)
{
    const struct variant variants[] = {{0}, {.extra = true}, {.keep = true}, {.again = true}};
    (void)state;
    for (size_t i = 0; i < countof(variants); i++) {
        struct job j = compile(gather(variants[i]), false);
        struct lw_counts c = expect_right(&j);
        const struct tt_program *p = j.p[0];
        assert_true(c.held > 0 && c.written > 0 && c.stalls == 0);
        assert_int_equal(p->ops[find(p, TT_OP_SEND, 0)].offer == TT_XNO, variants[i].keep);
        assert_int_equal(p->ops[find(p, TT_OP_RECV, 0)].held_by == TT_XNO, variants[i].keep);
        assert_int_equal(p->ops[find(p, TT_OP_SEND, 0)].nsends, variants[i].again ? 1 : 2);
        free_job(&j);
    }
    struct job j = compile(exchange(), true);
    assert_true(expect_right(&j).boxes > 0);
    free_job(&j);
}

static void test_knot(void **state)
{
    struct job j = compile(knot(), false);
    struct lw_counts c = expect_right(&j);
    (void)state;
    assert_true(c.held > 0 && c.stalls > 0);
    free_job(&j);
}

/* Rank 0 keeps what came from rank 1 besides: it must be received. */
static void test_hold_with_another_reader(void **state)
{
    struct job j = compile(gather((struct variant){.keep = true}), false);
    struct tt_program *p = j.p[0];
    uint32_t recv = find(p, TT_OP_RECV, 0), reduce = find(p, TT_OP_REDUCE, 0);
    (void)state;
    assert_true(p->ops[recv].held_by == TT_XNO && p->ops[reduce].holds != TT_XNO);
    p->ops[recv].held_by = reduce;
    p->holds[p->ops[reduce].holds + 1] = recv;
    expect_wrong(&j, false, LS_RACE);
}

/* The sum of rank 1's vector twice. */
static void test_hold_of_another(void **state)
{
    struct job j = compile(gather((struct variant){0}), false);
    struct tt_program *p = j.p[0];
    uint32_t *holds = p->holds + p->ops[find(p, TT_OP_REDUCE, 0)].holds;
    (void)state;
    holds[2] = holds[1];
    p->ops[find(p, TT_OP_RECV, 1)].held_by = TT_XNO;
    expect_wrong(&j, false, LS_WRONG);
}

/* The same numbers in another order: only bits show it. */
static void test_holds_exchanged(void **state)
{
    struct job j = compile(gather((struct variant){0}), false);
    struct tt_program *p = j.p[0];
    uint32_t *holds = p->holds + p->ops[find(p, TT_OP_REDUCE, 0)].holds, first = holds[1];
    (void)state;
    holds[1] = holds[2];
    holds[2] = first;
    expect_wrong(&j, false, LS_WRONG);
}

/* In place rank 1's place is still to be read by rank 2 when rank 0 writes it. */
static void test_offer_too_early(void **state)
{
    struct job j = compile(gather((struct variant){.extra = true}), false);
    uint32_t recv = find(j.p[1], TT_OP_RECV, 0);
    (void)state;
    assert_int_equal(j.p[1]->ops[recv].offers, 1);
    j.p[1]->ops[recv].offers |= 2;
    expect_wrong(&j, true, LS_RACE);
}

/* A copy from before a write serves a send after it. */
static void test_group_across_a_write(void **state)
{
    struct job j = compile(gather((struct variant){.again = true}), false);
    struct tt_program *p = j.p[0];
    (void)state;
    p->ops[find(p, TT_OP_SEND, 1)].group = find(p, TT_OP_SEND, 0);
    expect_wrong(&j, false, LS_RACE);
}

/* The reduction writes for a send of another place. */
static void test_written_for_another(void **state)
{
    struct job j = compile(gather((struct variant){.again = true}), false);
    struct tt_program *p = j.p[0];
    uint32_t copy = find(p, TT_OP_COPY, 0), send = find(p, TT_OP_SEND, 1);
    (void)state;
    for (uint32_t k = 0; k < p->ops[find(p, TT_OP_REDUCE, 0)].nsucc[0]; k++) {
        uint32_t *next = &p->succ[p->ops[find(p, TT_OP_REDUCE, 0)].succ[0] + k];
        if (*next == copy) /* the copy of the result is left out, the later send takes its turn */
            *next = send;
    }
    p->ops[send].offer = 0;
    expect_wrong(&j, false, LS_RACE);
}

/* A reduction that does not wait for one of its operands. */
static void test_wait_forgotten(void **state)
{
    struct job j = compile(gather((struct variant){.keep = true}), false);
    struct tt_program *p = j.p[0];
    struct tt_xtask *fresh = (struct tt_xtask *)(uintptr_t)p->fresh[0];
    uint32_t recv = find(p, TT_OP_RECV, 0), reduce = find(p, TT_OP_REDUCE, 0);
    (void)state;
    assert_int_equal(p->succ[p->ops[recv].succ[0]], reduce);
    p->succ[p->ops[recv].succ[0]] = find(p, TT_OP_COPY, 0);
    fresh[reduce].waits--;
    fresh[find(p, TT_OP_COPY, 0)].waits++;
    expect_wrong(&j, false, LS_RACE);
}

/* One that waits for itself. */
static void test_stuck(void **state)
{
    struct job j = compile(gather((struct variant){0}), false);
    struct tt_xtask *fresh = (struct tt_xtask *)(uintptr_t)j.p[0]->fresh[0];
    (void)state;
    fresh[find(j.p[0], TT_OP_REDUCE, 0)].waits++;
    expect_wrong(&j, false, LS_STUCK);
}

static void test_box(void **state)
{
    (void)state;
    struct job j = compile(exchange(), true);
    assert_non_null(j.p[1]->box);
    j.p[1]->box->taken[0].from += 4;
    expect_wrong(&j, false, LS_UNMATCHED);
    j = compile(exchange(), true);
    j.p[2]->box->taken[0].rank = 2;
    expect_wrong(&j, false, LS_WRONG);
    struct job other = compile(exchange(), false);
    j = compile(exchange(), true);
    struct tt_program *p = j.p[0];
    j.p[0] = other.p[0];
    other.p[0] = p;
    free_job(&other);
    expect_wrong(&j, false, LS_MALFORMED);
}

/* In place the sums of a rank that is ahead go where its vector was, which others still read: it must be copied. */
static void test_row(void **state)
{
    (void)state;
    struct job j = compile_in(exchange_of(1), true, 2);
    assert_true(j.p[0]->box && j.p[0]->box->row);
    assert_true(expect_right(&j).rows > 0);
    struct tt_xrowop *send = &j.p[1]->box->row->ops[find(j.p[1], TT_OP_SEND, 0)];
    assert_true(send->copies[1] && !send->copies[0]);
    send->copies[1] = false;
    expect_wrong(&j, true, LS_RACE);
    j = compile_in(exchange_of(1), true, 2);
    j.p[2]->box->row->ops[find(j.p[2], TT_OP_SEND, 0)].at += 4; /* what goes to another rank lies there, too */
    expect_wrong(&j, false, LS_WRONG);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_right),
        cmocka_unit_test(test_knot),
        cmocka_unit_test(test_hold_with_another_reader),
        cmocka_unit_test(test_hold_of_another),
        cmocka_unit_test(test_holds_exchanged),
        cmocka_unit_test(test_offer_too_early),
        cmocka_unit_test(test_group_across_a_write),
        cmocka_unit_test(test_written_for_another),
        cmocka_unit_test(test_wait_forgotten),
        cmocka_unit_test(test_stuck),
        cmocka_unit_test(test_box),
        cmocka_unit_test(test_row),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
