/* test_verify.c - the verifier on small schedules written by hand, each with one kind of fault: is it seen, and where? */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "sched/sched.h"
#include "verify/verify.h"
#include "verify/verify_int.h"

enum { IN = TT_BUF_IN, OUT = TT_BUF_OUT, S0 = TT_BUF_SCRATCH, S1 = TT_BUF_SCRATCH + 1 };

static struct tt_shape shape_of(tutti_coll coll, uint32_t ranks, uint32_t chunks)
{
    return (struct tt_shape){.coll = coll, .ranks = ranks, .chunks = chunks, .nbufs = 4, .segments = 1, .count = chunks};
}

static struct tt_builder begin(struct tt_shape shape)
{
    struct tt_builder b;
    tt_sched_build_begin(&b, &shape, 0);
    return b;
}

static struct tt_sched *freeze(struct tt_builder *b)
{
    struct tt_sched *s = NULL;
    struct tutti_error err;
    assert_int_equal(tt_sched_build_freeze(b, &s, &err), TUTTI_OK);
    return s;
}

static struct tt_verify_result verify_with(struct tt_builder *b, enum tt_verify_method method)
{
    struct tt_sched *s = freeze(b);
    struct tt_verify_options o = {.method = method, .seed = 7};
    struct tt_verify_result r;
    struct tutti_error err;
    assert_int_equal(tt_verify(s, &o, &r, &err), TUTTI_OK);
    tt_sched_free(s);
    return r;
}

static struct tt_verify_result verify(struct tt_builder *b)
{
    return verify_with(b, TT_VERIFY_AUTO);
}

static void expect(struct tt_verify_result r, uint32_t rank, uint64_t op, const char *word)
{
    if (r.ok || r.rank != rank || r.op != op || !strstr(r.why, word))
        print_message("got ok=%d rank=%u op=%lu: %s\n", r.ok, r.rank, (unsigned long)r.op, r.ok ? "" : r.why);
    assert_false(r.ok);
    assert_non_null(strstr(r.why, word));
    assert_int_equal(r.rank, rank);
    assert_int_equal(r.op, op);
}

/* One-span operations. */
static void send(struct tt_builder *b, uint32_t step, uint32_t peer, uint32_t buf, uint32_t chunk)
{
    struct tt_span s = tt_sched_span_range(buf, chunk, 1);
    tt_sched_emit_send(b, step, peer, 0, &s, 1);
}

static void recv(struct tt_builder *b, uint32_t step, uint32_t peer, uint32_t buf, uint32_t chunk)
{
    struct tt_span s = tt_sched_span_range(buf, chunk, 1);
    tt_sched_emit_recv(b, step, peer, 0, &s, 1);
}

static void recv_reduce(struct tt_builder *b, uint32_t step, uint32_t peer, uint32_t buf, uint32_t src, uint32_t chunk)
{
    struct tt_span s = tt_sched_span_from(buf, src, chunk, 1);
    tt_sched_emit_recv_reduce(b, step, peer, 0, &s, 1);
}

static void copy(struct tt_builder *b, uint32_t step, uint32_t buf, uint32_t src, uint32_t first, uint32_t len)
{
    struct tt_span s = tt_sched_span_from(buf, src, first, len);
    tt_sched_emit_copy(b, step, &s, 1);
}

static void reduce(struct tt_builder *b, uint32_t step, uint32_t buf, uint32_t left, uint32_t right, uint32_t chunk)
{
    struct tt_span s[3] = {tt_sched_span_range(buf, chunk, 1), tt_sched_span_from(buf, left, chunk, 1),
                           tt_sched_span_from(buf, right, chunk, 1)};
    tt_sched_emit_reduce(b, step, s, 3);
}

/* All-reduce by a ring; chunk c is complete at rank c after p-1 steps. */
static struct tt_builder ring(uint32_t p, bool symmetric)
{
    struct tt_shape shape = shape_of(TUTTI_ALLREDUCE, p, p);
    shape.inplace = true;
    shape.symmetric = symmetric;
    struct tt_builder b = begin(shape);
    for (uint32_t r = 0; r < p; r++) {
        tt_sched_build_rank(&b, r);
        for (uint32_t t = 0; t < p - 1; t++) {
            send(&b, t, (r + 1) % p, t ? OUT : IN, (r + 2 * p - 1 - t) % p);
            recv_reduce(&b, t, (r + p - 1) % p, OUT, IN, (r + 2 * p - 2 - t) % p);
        }
        for (uint32_t t = 0; t < p - 1; t++) {
            send(&b, p - 1 + t, (r + 1) % p, OUT, (r + p - t) % p);
            recv(&b, p - 1 + t, (r + p - 1) % p, OUT, (r + 2 * p - 1 - t) % p);
        }
    }
    return b;
}

static void a_ring_is_correct(void **state)
{
    (void)state;
    struct tt_builder b = ring(5, true);
    struct tt_verify_result r = verify(&b);
    assert_true(r.ok);
    assert_int_equal(r.method, TT_VERIFY_EXACT);
    assert_true(r.error_probability == 0);
    assert_int_equal(r.ranks, 5);
    assert_int_equal(r.messages, 40);
    assert_int_equal(r.ops, 80);
    b = ring(5, true);
    r = verify_with(&b, TT_VERIFY_FINGERPRINT);
    assert_true(r.ok);
    assert_int_equal(r.method, TT_VERIFY_FINGERPRINT);
    /* 25 places, each wrong with at most 1/(2^61-1) */
    assert_true(r.error_probability > 25 / 2305843009213693951.0 && r.error_probability < 26 / 2305843009213693951.0);
}

static void method_depends_on_ranks(void **state)
{
    (void)state;
    for (uint32_t p = 512; p <= 513; p++) {
        struct tt_builder b = begin(shape_of(TUTTI_REDUCE, p, 1));
        for (uint32_t r = 0; r < p; r++) {
            tt_sched_build_rank(&b, r);
            if (r + 1 < p)
                recv_reduce(&b, p - 2 - r, r + 1, r ? S0 : OUT, IN, 0);
            if (r > 0)
                send(&b, p - 1 - r, r - 1, r + 1 < p ? S0 : IN, 0);
        }
        struct tt_verify_result r = verify(&b);
        assert_true(r.ok);
        assert_int_equal(r.method, p == 512 ? TT_VERIFY_EXACT : TT_VERIFY_FINGERPRINT);
    }
}

static void one_rank_copies(void **state)
{
    (void)state;
    struct tt_builder b = begin(shape_of(TUTTI_ALLREDUCE, 1, 3));
    tt_sched_build_rank(&b, 0);
    copy(&b, 0, OUT, IN, 0, 3);
    assert_true(verify(&b).ok);
    b = begin(shape_of(TUTTI_ALLREDUCE, 1, 3));
    tt_sched_build_rank(&b, 0);
    copy(&b, 0, OUT, IN, 0, 2);
    expect(verify(&b), 0, 1, "chunk 2 of the result never arrives at rank 0");
}

/* Two ranks, one chunk: exchange, then add. */
static struct tt_builder exchange(uint32_t first, uint32_t last)
{
    struct tt_builder b = begin(shape_of(TUTTI_ALLREDUCE, 2, 1));
    for (uint32_t r = first; r <= last; r++) {
        tt_sched_build_rank(&b, r);
        send(&b, 0, 1 - r, IN, 0);
        recv(&b, 0, 1 - r, S0, 0);
        reduce(&b, 0, OUT, IN, S0, 0);
    }
    return b;
}

static void half_a_schedule_is_refused(void **state)
{
    (void)state;
    struct tt_builder b = exchange(0, 0);
    struct tt_sched *s = freeze(&b);
    struct tt_verify_result r = {.rank = 77};
    struct tutti_error err = {0};
    assert_int_equal(tt_verify(s, NULL, &r, &err), TUTTI_ERR_ARG);
    assert_int_equal(r.rank, 77);
    assert_non_null(strstr(err.text, "all are needed"));
    tt_sched_free(s);
    b = exchange(0, 1);
    assert_true(verify(&b).ok);
}

static void ill_formed_points_at_the_op(void **state)
{
    (void)state;
    struct tt_builder b = exchange(0, 0);
    tt_sched_build_rank(&b, 1);
    send(&b, 0, 0, IN, 0);
    recv(&b, 0, 0, S0, 0);
    reduce(&b, 0, S0, IN, S0, 0);
    struct tt_verify_result r = verify(&b);
    expect(r, 1, 2, "step 0, reduce: writes what op 1 writes in the same step");
    assert_false(r.header);
    assert_null(strstr(r.why, "rank 1"));
    b = exchange(0, 1);
    b.shape.segments = 0;
    r = verify(&b);
    assert_true(r.header);
    expect(r, 0, 0, "segments is 0");
}

static void messages_must_have_partners(void **state)
{
    (void)state;
    struct tt_builder b = exchange(0, 0);
    tt_sched_build_rank(&b, 1);
    send(&b, 0, 0, IN, 0);
    expect(verify(&b), 0, 0,
           "send to rank 1 (chunk 0) has no partner: on channel 0 rank 0 sends 1 message to rank 1 and rank 1 receives 0");
    b = exchange(0, 0);
    tt_sched_build_rank(&b, 1);
    recv(&b, 0, 0, S0, 0);
    expect(verify(&b), 0, 1, "receive from rank 1 (chunk 0) has no partner");
    b = exchange(0, 0);
    tt_sched_build_rank(&b, 1);
    send(&b, 0, 0, IN, 0);
    recv(&b, 1, 0, S0, 0);
    expect(verify(&b), 0, 0, "meets op 1 of rank 1, which is of step 1");
}

static void channels_keep_messages_apart(void **state)
{
    (void)state;
    struct tt_builder b = exchange(0, 0);
    struct tt_span in = tt_sched_span_range(IN, 0, 1);
    tt_sched_build_rank(&b, 1);
    tt_sched_emit_send(&b, 0, 0, 3, &in, 1);
    recv(&b, 0, 0, S0, 0);
    expect(verify(&b), 0, 1, "no partner");
}

/* Rank 0 sends chunks in one order, rank 1 expects another. */
static void chunks_must_be_the_same_in_order(void **state)
{
    (void)state;
    struct tt_span split[3] = {tt_sched_span_range(IN, 2, 1), tt_sched_span_range(IN, 0, 1), tt_sched_span_range(IN, 1, 1)};
    struct tt_span joined[2] = {tt_sched_span_range(OUT, 2, 1), tt_sched_span_range(OUT, 0, 2)};
    for (int turned = 0; turned < 2; turned++) {
        struct tt_builder b = begin(shape_of(TUTTI_BROADCAST, 2, 3));
        struct tt_span first = joined[0];
        if (turned) {
            joined[0] = joined[1];
            joined[1] = first;
        }
        tt_sched_build_rank(&b, 0);
        tt_sched_emit_send(&b, 0, 1, 0, split, 3);
        copy(&b, 0, OUT, IN, 0, 3);
        tt_sched_build_rank(&b, 1);
        tt_sched_emit_recv(&b, 0, 0, 0, joined, 2);
        struct tt_verify_result r = verify(&b);
        if (!turned)
            assert_true(r.ok);
        else
            expect(r, 1, 0, "expects chunk 0-2, but rank 0 (its op 0) sends chunk 2, 0-1: first 2 in place of 0");
    }
}

static void reading_nothing_is_a_fault(void **state)
{
    (void)state;
    struct tt_builder b = exchange(0, 0);
    tt_sched_build_rank(&b, 1);
    send(&b, 0, 0, IN, 0);
    recv(&b, 0, 0, S0, 0);
    reduce(&b, 0, OUT, IN, S1, 0);
    expect(verify(&b), 1, 2, "step 0: reduce reads chunk 0 of scratch 1, which holds nothing yet");
}

/* Messages of a step see the state before it, so forwarding what arrives in the same step reads nothing. */
static void messages_read_the_start_of_the_step(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct tt_builder b = begin(shape_of(TUTTI_BROADCAST, 3, 1));
        tt_sched_build_rank(&b, 0);
        send(&b, 0, 1, IN, 0);
        copy(&b, 0, OUT, IN, 0, 1);
        tt_sched_build_rank(&b, 1);
        if (!late)
            send(&b, 0, 2, OUT, 0);
        recv(&b, 0, 0, OUT, 0);
        if (late)
            send(&b, 1, 2, OUT, 0);
        tt_sched_build_rank(&b, 2);
        recv(&b, late, 1, OUT, 0);
        struct tt_verify_result r = verify(&b);
        if (late)
            assert_true(r.ok);
        else
            expect(r, 1, 0, "send to rank 2 reads chunk 0 of the output, which holds nothing yet");
    }
}

static void counting_twice_names_the_rank(void **state)
{
    (void)state;
    for (int m = TT_VERIFY_EXACT; m <= TT_VERIFY_FINGERPRINT; m++) {
        struct tt_builder b = exchange(0, 1);
        reduce(&b, 1, S1, OUT, IN, 0); /* rank 1: in+0 + in again */
        expect(verify_with(&b, (enum tt_verify_method)m), 1, 3, "step 1: reduce counts the contribution of rank 1 to chunk 0 twice");
    }
}

/* 61 doublings multiply by 2^61 = 1 modulo 2^61-1: a fingerprint alone would not see them. */
static void doubling_61_times_is_seen(void **state)
{
    (void)state;
    struct tt_builder b = exchange(0, 1);
    for (uint32_t i = 0; i < 61; i++)
        reduce(&b, i + 1, i % 2 ? OUT : S1, i % 2 ? S1 : OUT, i % 2 ? S1 : OUT, 0);
    copy(&b, 62, OUT, S1, 0, 1);
    expect(verify_with(&b, TT_VERIFY_FINGERPRINT), 1, 3, "twice");
}

/* All-reduce of n ranks by a chain up to rank n-1 and back. Rank `odd` does something else. */
enum oddity { ADDS_TWICE, FORGETS_ITS_OWN, DROPS_THE_SUM };
static struct tt_builder chain(uint32_t n, uint32_t odd, enum oddity what)
{
    struct tt_builder b = begin(shape_of(TUTTI_ALLREDUCE, n, 1));
    for (uint32_t r = 0; r < n; r++) {
        tt_sched_build_rank(&b, r);
        bool is = r == odd;
        if (r > 0 && is && what == FORGETS_ITS_OWN)
            recv(&b, r - 1, r - 1, OUT, 0);
        else if (r > 0)
            recv_reduce(&b, r - 1, r - 1, is && what == DROPS_THE_SUM ? S0 : OUT, IN, 0);
        if (is && what == ADDS_TWICE)
            reduce(&b, r - 1, S1, OUT, IN, 0);
        if (r + 1 < n) {
            send(&b, r, r + 1, is && what == ADDS_TWICE ? S1 : is && what == DROPS_THE_SUM ? IN : r ? OUT : IN, 0);
            recv(&b, 2 * n - 3 - r, r + 1, OUT, 0);
        }
        if (r > 0)
            send(&b, 2 * n - 2 - r, r - 1, OUT, 0);
    }
    return b;
}

static struct tt_verify_result chain_result(uint32_t n, uint32_t odd, enum oddity what)
{
    struct tt_builder b = chain(n, odd, what);
    return verify(&b);
}

/* Fingerprints see a fault only at the end; the blame must still reach the operation far back. */
static void fingerprints_find_the_culprit(void **state)
{
    (void)state;
    uint32_t sizes[] = {9, 700};
    for (size_t i = 0; i < countof(sizes); i++) {
        uint32_t n = sizes[i];
        struct tt_builder b = chain(n, n, ADDS_TWICE);
        struct tt_verify_result r = verify(&b);
        assert_true(r.ok);
        assert_int_equal(r.method, n > 512 ? TT_VERIFY_FINGERPRINT : TT_VERIFY_EXACT);
        char word[64];
        snprintf(word, sizeof word, "contribution of rank %u to chunk 0 twice", n / 2);
        expect(chain_result(n, n / 2, ADDS_TWICE), n / 2, 1, word);
        snprintf(word, sizeof word, "rank %u never uses this chunk of its input", n / 2);
        expect(chain_result(n, n / 2, FORGETS_ITS_OWN), n / 2, 0, word);
        snprintf(word, sizeof word, "without the contribution of rank %u: ", 0u);
        r = chain_result(n, n / 2, DROPS_THE_SUM);
        expect(r, n / 2, 0, word);
        assert_non_null(strstr(r.why, "nobody reads it"));
    }
}

static void overwriting_is_blamed(void **state)
{
    (void)state;
    struct tt_builder b = begin(shape_of(TUTTI_REDUCE, 3, 1));
    tt_sched_build_rank(&b, 0);
    copy(&b, 0, S0, IN, 0, 1);
    recv_reduce(&b, 1, 1, S0, S0, 0);
    recv(&b, 2, 2, S0, 0); /* should add */
    copy(&b, 3, OUT, S0, 0, 1);
    tt_sched_build_rank(&b, 1);
    send(&b, 1, 0, IN, 0);
    tt_sched_build_rank(&b, 2);
    send(&b, 2, 0, IN, 0);
    struct tt_verify_result r = verify(&b);
    expect(r, 0, 2, "overwrites it before it is read");
    assert_non_null(strstr(r.why, "chunk 0 ends at rank 0 without the contribution of rank 0"));
}

static struct tt_builder scatter_reduce(uint32_t owner0, uint32_t owner1)
{
    struct tt_shape shape = shape_of(TUTTI_REDUCE_SCATTER, 2, 2);
    shape.owner = malloc(2 * sizeof *shape.owner);
    shape.owner[0] = owner0;
    shape.owner[1] = owner1;
    struct tt_builder b = begin(shape);
    for (uint32_t r = 0; r < 2; r++) { /* chunk 1-r ends at rank r */
        tt_sched_build_rank(&b, r);
        send(&b, 0, 1 - r, IN, r);
        recv_reduce(&b, 0, 1 - r, OUT, IN, 1 - r);
    }
    return b;
}

static void owners_are_proved(void **state)
{
    (void)state;
    struct tt_builder b = scatter_reduce(1, 0);
    assert_true(verify(&b).ok);
    b = scatter_reduce(0, 1);
    expect(verify(&b), 0, 1, "output");
    b = scatter_reduce(1, 1); /* nobody owns chunk 1 but rank 1 */
    expect(verify(&b), 0, 1, "output");
}

static void gather_needs_all_at_the_root(void **state)
{
    (void)state;
    for (uint32_t whole = 0; whole < 2; whole++) {
        struct tt_shape shape = shape_of(TUTTI_GATHER, 3, 3);
        shape.root = 1;
        struct tt_builder b = begin(shape);
        tt_sched_build_rank(&b, 0);
        send(&b, 0, 1, IN, 0);
        tt_sched_build_rank(&b, 1);
        recv(&b, 0, 0, OUT, 0);
        if (whole)
            recv(&b, 0, 2, OUT, 2);
        copy(&b, 0, OUT, IN, 1, 1);
        tt_sched_build_rank(&b, 2);
        if (whole)
            send(&b, 0, 1, IN, 2);
        struct tt_verify_result r = verify(&b);
        if (whole)
            assert_true(r.ok);
        else
            expect(r, 1, 2, "chunk 2 of the result never arrives at rank 1");
    }
}

/* ---- deadlock ---- */

/* Both send OUT and receive into OUT: each receive waits for the own send, which waits for the other's receive. */
static struct tt_builder head_on(uint32_t n, bool inplace, uint32_t sent)
{
    struct tt_shape shape = shape_of(TUTTI_ALLREDUCE, n, 1);
    shape.inplace = inplace;
    struct tt_builder b = begin(shape);
    for (uint32_t r = 0; r < n; r++) {
        tt_sched_build_rank(&b, r);
        if (sent == OUT)
            copy(&b, 0, OUT, IN, 0, 1);
        send(&b, 1, (r + 1) % n, sent, 0);
        recv_reduce(&b, 1, (r + n - 1) % n, OUT, sent, 0);
    }
    return b;
}

static void head_on_exchange_deadlocks(void **state)
{
    (void)state;
    struct tt_builder b = head_on(2, false, OUT);
    struct tt_verify_result r = verify(&b);
    assert_non_null(strstr(r.why, "deadlock of 2 messages"));
    assert_non_null(strstr(r.why, "1->0 waits for 0->1 (rank 0 receives chunk 0 where it still has to send it)"));
    expect(r, r.rank, 2, "step 1");
}

static void in_place_makes_the_difference(void **state)
{
    (void)state;
    struct tt_builder b = head_on(2, true, IN);
    assert_non_null(strstr(verify(&b).why, "deadlock"));
    b = head_on(2, false, IN);
    assert_true(verify(&b).ok);
}

static void a_circle_of_five_deadlocks(void **state)
{
    (void)state;
    struct tt_builder b = head_on(5, false, OUT);
    struct tt_verify_result r = verify(&b);
    assert_false(r.ok);
    assert_non_null(strstr(r.why, "deadlock of 5 messages"));
    assert_non_null(strstr(r.why, "; ..."));
}

/* Waiting in a row is no circle: 0 -> 1 -> 2, each receiving where it still has to send. */
static void waiting_in_a_row_is_fine(void **state)
{
    (void)state;
    struct tt_builder b = begin(shape_of(TUTTI_REDUCE, 3, 1));
    tt_sched_build_rank(&b, 0);
    copy(&b, 0, OUT, IN, 0, 1);
    recv_reduce(&b, 1, 1, OUT, OUT, 0);
    recv_reduce(&b, 2, 1, OUT, OUT, 0);
    tt_sched_build_rank(&b, 1);
    copy(&b, 0, S0, IN, 0, 1);
    send(&b, 1, 0, S0, 0);
    recv(&b, 1, 2, S0, 0);
    send(&b, 2, 0, S0, 0);
    tt_sched_build_rank(&b, 2);
    send(&b, 1, 1, IN, 0);
    assert_true(verify(&b).ok);
}

/* Rank 0 sends x, then y to rank 1; rank 1 sends x and y to rank 0 and receives x where it still has to send it; rank 0 receives y where
 * it still has to send it. On one channel y cannot overtake x: a circle of three. */
static struct tt_builder overtaking(uint16_t channel)
{
    struct tt_builder b = begin(shape_of(TUTTI_ALLREDUCE, 2, 2));
    struct tt_span x_in = tt_sched_span_range(IN, 0, 1), x_out = tt_sched_span_range(OUT, 0, 1), y_out = tt_sched_span_range(OUT, 1, 1);
    struct tt_span both_from[2] = {x_out, tt_sched_span_range(IN, 1, 1)}, both_to[2] = {tt_sched_span_range(S0, 0, 1), y_out};
    struct tt_span y_s0 = tt_sched_span_range(S0, 1, 1);
    tt_sched_build_rank(&b, 0);
    copy(&b, 0, OUT, IN, 1, 1);
    tt_sched_emit_send(&b, 1, 1, 0, &x_in, 1);
    tt_sched_emit_send(&b, 1, 1, channel, &y_out, 1);
    tt_sched_emit_recv(&b, 1, 1, 0, both_to, 2);
    tt_sched_build_rank(&b, 1);
    copy(&b, 0, OUT, IN, 0, 1);
    tt_sched_emit_send(&b, 1, 0, 0, both_from, 2);
    tt_sched_emit_recv(&b, 1, 0, 0, &x_out, 1);
    tt_sched_emit_recv(&b, 1, 0, channel, &y_s0, 1);
    return b;
}

static void turns_on_a_channel_count(void **state)
{
    (void)state;
    struct tt_builder b = overtaking(0);
    struct tt_verify_result r = verify(&b);
    assert_non_null(strstr(r.why, "deadlock of 3 messages"));
    assert_non_null(strstr(r.why, "(earlier on the channel)"));
    b = overtaking(1);
    r = verify(&b);
    assert_false(r.ok); /* the rest of this schedule is nonsense, but not a deadlock */
    assert_null(strstr(r.why, "deadlock"));
}

/* ---- symmetry ---- */

static void broken_symmetry_is_seen(void **state)
{
    (void)state;
    struct tt_shape shape = shape_of(TUTTI_ALL_GATHER, 3, 3);
    shape.symmetric = true;
    for (uint32_t broken = 0; broken < 3; broken++) {
        struct tt_builder b = begin(shape);
        for (uint32_t r = 0; r < 3; r++) {
            tt_sched_build_rank(&b, r);
            uint32_t next = (r + 1) % 3, last = (r + 2) % 3;
            bool odd = broken == 1 && r == 1, via = broken == 2 && r == 2;
            if (via) /* the own chunk is sent from a copy: another kind of buffer, one step later than in rank 0 */
                copy(&b, 0, S0, IN, r, 1);
            send(&b, 1, odd ? last : next, via ? S0 : IN, r);
            send(&b, 1, odd ? next : last, via ? S0 : IN, r);
            recv(&b, 1, last, OUT, last);
            recv(&b, 1, next, OUT, next);
            copy(&b, 1, OUT, IN, r, 1);
        }
        struct tt_verify_result r = verify(&b);
        if (broken < 2)
            assert_true(r.ok); /* order within a step does not matter */
        else
            expect(r, 2, 1, "not symmetric as declared: chunks or buffers of send to rank 0");
    }
}

static void too_many_messages_break_symmetry(void **state)
{
    (void)state;
    struct tt_shape shape = shape_of(TUTTI_ALL_GATHER, 2, 2);
    shape.symmetric = true;
    struct tt_builder b = begin(shape);
    for (uint32_t r = 0; r < 2; r++) {
        tt_sched_build_rank(&b, r);
        send(&b, 0, 1 - r, IN, r);
        recv(&b, 0, 1 - r, OUT, 1 - r);
        copy(&b, 0, OUT, IN, r, 1);
        if (r == 0)
            send(&b, 1, 1, IN, 0);
        else
            recv(&b, 1, 0, S0, 0);
    }
    expect(verify(&b), 1, 3, "not symmetric");
}

/* ---- the rest ---- */

static void count_calls(void *ctx, double fraction)
{
    double *last = ctx;
    assert_true(fraction > *last && fraction <= 1);
    *last = fraction;
}

static void progress_rises(void **state)
{
    (void)state;
    struct tt_builder b = ring(5, false);
    struct tt_sched *s = freeze(&b);
    double last = 0;
    struct tt_verify_options o = {.progress = count_calls, .ctx = &last};
    struct tt_verify_result r;
    struct tutti_error err;
    assert_int_equal(tt_verify(s, &o, &r, &err), TUTTI_OK);
    assert_true(r.ok && last == 1);
    tt_sched_free(s);
}

/* Chunks that alternate, sent back and forth whole: a small file that would take hours is not judged. */
static void too_much_work_is_not_judged(void **state)
{
    (void)state;
    enum { CHUNKS = 1 << 20, TIMES = 1000 };
    struct tt_builder b = begin(shape_of(TUTTI_ALLREDUCE, 2, CHUNKS));
    struct tt_span even = {.first = 0, .len = 1, .stride = 2, .reps = CHUNKS / 2, .buf = IN, .src = IN}, odd = even;
    odd.first = 1;
    odd.buf = S0;
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_send(&b, 0, 1, 0, &even, 1);
    for (uint32_t i = 0; i < TIMES; i++)
        tt_sched_emit_recv(&b, 2 + i, 1, 0, &(struct tt_span){.len = CHUNKS, .reps = 1, .buf = S1, .src = S1}, 1);
    tt_sched_build_rank(&b, 1);
    even.buf = even.src = S0;
    tt_sched_emit_recv(&b, 0, 0, 0, &even, 1);
    tt_sched_emit_copy(&b, 1, &odd, 1);
    for (uint32_t i = 0; i < TIMES; i++)
        tt_sched_emit_send(&b, 2 + i, 0, 0, &(struct tt_span){.len = CHUNKS, .reps = 1, .buf = S0, .src = S0}, 1);
    struct tt_sched *s = freeze(&b);
    struct tt_verify_result r;
    struct tutti_error err;
    assert_int_equal(tt_verify(s, NULL, &r, &err), TUTTI_ERR_LIMIT);
    assert_non_null(strstr(err.text, "cannot verify"));
    tt_sched_free(s);
}

/* Four billion chunks in two spans: every collective is judged without looking at each. */
static void blocks_are_judged_whole(void **state)
{
    (void)state;
    const uint32_t half = UINT32_C(1) << 31, rest = half - 2;
    struct tt_builder b = begin(shape_of(TUTTI_SCATTER, 2, half + rest));
    struct tt_span own = tt_sched_span_from(OUT, IN, 0, half - 1), other = tt_sched_span_range(IN, half - 1, half - 1);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_send(&b, 0, 1, 0, &other, 1);
    tt_sched_emit_copy(&b, 0, &own, 1);
    tt_sched_build_rank(&b, 1);
    other.buf = other.src = OUT;
    tt_sched_emit_recv(&b, 0, 0, 0, &other, 1);
    assert_true(verify(&b).ok);
}

/* Rows against a plain array, with few and with many runs, so that both forms and the change between them are met. */
static void rows_hold_what_was_written(void **state)
{
    (void)state;
    enum { CHUNKS = 700 };
    struct tt_shape shape = shape_of(TUTTI_ALLREDUCE, 1, CHUNKS);
    for (uint32_t longest = 2; longest <= CHUNKS; longest *= 7) {
        uint32_t model[CHUNKS] = {0};
        struct tt_vdomain d = {0};
        struct tt_vstate st;
        struct tt_vec pieces = {.elem = sizeof(struct tt_vpiece)};
        struct tt_rng rng;
        tt_rng_seed(&rng, longest);
        tt_verify_state_init(&st, &shape, &d, UINT64_MAX);
        for (int i = 0; i < 2000; i++) {
            uint32_t first = (uint32_t)tt_rng_below(&rng, CHUNKS), room = CHUNKS - first;
            uint32_t len = 1 + (uint32_t)tt_rng_below(&rng, room < longest ? room : longest), cut = (uint32_t)tt_rng_below(&rng, len);
            struct tt_vpiece p[2] = {{first, cut, 1 + (uint32_t)tt_rng_below(&rng, 3)}, {first + cut, len - cut, 0}};
            p[1].value = (uint32_t)tt_rng_below(&rng, 3);
            for (uint32_t c = first; c < first + len; c++)
                model[c] = c < first + cut ? p[0].value : p[1].value;
            assert_true(tt_verify_state_write(&st, 0, OUT, cut ? p : p + 1, cut ? 2 : 1));
            pieces.len = 0;
            first = (uint32_t)tt_rng_below(&rng, CHUNKS);
            len = 1 + (uint32_t)tt_rng_below(&rng, CHUNKS - first);
            assert_true(tt_verify_state_read(&st, (struct tt_vplaces){0, OUT, first, len}, &pieces));
            for (size_t k = 0; k < pieces.len; k++) {
                const struct tt_vpiece *q = tt_vec_at(&pieces, k);
                assert_int_equal(q->first, first);
                assert_true(k == 0 || q[-1].value != q->value);
                for (uint32_t c = q->first; c < q->first + q->len; c++)
                    assert_int_equal(q->value, model[c]);
                first += q->len;
                len -= q->len;
            }
            assert_int_equal(len, 0);
        }
        tt_vec_free(&pieces);
        tt_verify_state_free(&st);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_is_correct),
        cmocka_unit_test(method_depends_on_ranks),
        cmocka_unit_test(one_rank_copies),
        cmocka_unit_test(half_a_schedule_is_refused),
        cmocka_unit_test(ill_formed_points_at_the_op),
        cmocka_unit_test(messages_must_have_partners),
        cmocka_unit_test(channels_keep_messages_apart),
        cmocka_unit_test(chunks_must_be_the_same_in_order),
        cmocka_unit_test(reading_nothing_is_a_fault),
        cmocka_unit_test(messages_read_the_start_of_the_step),
        cmocka_unit_test(counting_twice_names_the_rank),
        cmocka_unit_test(doubling_61_times_is_seen),
        cmocka_unit_test(fingerprints_find_the_culprit),
        cmocka_unit_test(overwriting_is_blamed),
        cmocka_unit_test(owners_are_proved),
        cmocka_unit_test(gather_needs_all_at_the_root),
        cmocka_unit_test(head_on_exchange_deadlocks),
        cmocka_unit_test(in_place_makes_the_difference),
        cmocka_unit_test(a_circle_of_five_deadlocks),
        cmocka_unit_test(waiting_in_a_row_is_fine),
        cmocka_unit_test(turns_on_a_channel_count),
        cmocka_unit_test(broken_symmetry_is_seen),
        cmocka_unit_test(too_many_messages_break_symmetry),
        cmocka_unit_test(progress_rises),
        cmocka_unit_test(too_much_work_is_not_judged),
        cmocka_unit_test(blocks_are_judged_whole),
        cmocka_unit_test(rows_hold_what_was_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
