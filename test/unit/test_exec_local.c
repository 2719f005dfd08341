/* test_exec_local.c - the ranks of one host as threads: every algorithm and collective with buffers in the heap, ordinary ones (windows, or
 * read through the kernel) and both, apart and in place, in one segment and several, three requests in flight; no allocation between start
 * and completion; and operations are really carried out where memory can be reached. Then what is left of an operation in whose middle a
 * rank quits, and a schedule that only gets through when held operands are let go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "count_allocations.h"
#include "exec/exec_int.h"
#include "local_team.h"

enum { BATCH = 12, AHEAD = 3 };

/* ---- jobs that all ranks run ---- */

struct batch {
    struct team *team;
    struct exec_job jobs[BATCH];
    uint32_t n, seq; /* seq: of the last request */
    struct tt_carried carried;
};
struct member {
    struct batch *batch;
    uint32_t rank;
    unsigned allocations;
    bool failed;
    struct tt_carried carried;
};

static void start_job(struct member *m, uint32_t i)
{
    const struct exec_job *j = &m->batch->jobs[i];
    struct tutti_error err;
    struct tt_start s = {.program = j->program[m->rank],
                         .in = j->in[m->rank],
                         .out = j->out[m->rank],
                         .seq = m->batch->seq + 1 + i,
                         .fingerprint = m->batch->seq + 1 + i};
    m->failed = m->failed || tt_exec_context_start(m->batch->team->context[m->rank], &s, &err) != TUTTI_OK;
}

static void finish_job(struct member *m, uint32_t i)
{
    const struct team *t = m->batch->team;
    const struct tt_program *p = m->batch->jobs[i].program[m->rank];
    struct tutti_error err;
    struct tt_carried c;
    tutti_status st = TUTTI_IN_PROGRESS;
    for (unsigned idle = 0; !m->failed && (st = tt_exec_engine_test(t->engine[m->rank], p, &err)) == TUTTI_IN_PROGRESS;)
        team_progress(t, m->rank, &idle);
    m->failed = m->failed || st != TUTTI_OK;
    tt_exec_program_carried(p, &c);
    m->carried.message += c.message;
    m->carried.read += c.read;
    m->carried.write += c.write;
    m->carried.box += c.box;
}

static void *work(void *arg)
{
    struct member *m = arg;
    for (uint32_t i = 0; i < m->batch->n; i++)
        m->failed = m->failed || !case_prepare(m->batch->team->context[m->rank], m->batch->jobs[i].program[m->rank]);
    watched = 1;
    for (uint32_t i = 0; i < m->batch->n + AHEAD; i++) {
        if (i >= AHEAD)
            finish_job(m, i - AHEAD);
        if (i < m->batch->n)
            start_job(m, i);
    }
    watched = 0;
    m->allocations = allocations;
    return NULL;
}

/* What was taken for the messages of all requests has come back. */
static void check_clean(const struct team *t)
{
    for (uint32_t r = 0; r < t->n; r++) {
        const struct tt_engine *e = t->engine[r];
        assert_int_equal(e->units, UINT64_MAX);
        assert_int_equal(e->shared_units, 0);
        for (uint32_t q = 0; q < t->n; q++)
            assert_int_equal(e->near[q].units, 0);
        assert_true(!e->held && !e->held_bytes && !e->owing && !e->waiting && !t->context[r]->stashed && !e->ndeferred);
    }
}

/* TAKEN for a copy in a window may come after the request is done. */
static void settle(const struct team *t)
{
    for (unsigned quiet = 0; quiet < 3; quiet++)
        for (uint32_t r = 0; r < t->n; r++)
            while (tt_exec_engine_progress(t->engine[r]))
                quiet = 0;
}

/* Runs what is in the batch, and empties it. */
static void run_batch(struct batch *b)
{
    struct member members[TEAM];
    for (uint32_t r = 0; r < b->team->n; r++)
        members[r] = (struct member){.batch = b, .rank = r};
    team_run(b->team, work, members, sizeof *members);
    for (uint32_t r = 0; r < b->team->n; r++) {
        assert_false(members[r].failed);
        assert_int_equal(members[r].allocations, 0);
        b->carried.message += members[r].carried.message;
        b->carried.read += members[r].carried.read;
        b->carried.write += members[r].carried.write;
        b->carried.box += members[r].carried.box;
    }
    settle(b->team);
    check_clean(b->team);
    for (uint32_t i = 0; i < b->n; i++) {
        assert_true(case_check(&b->jobs[i]));
        case_free(&b->jobs[i]);
    }
    b->seq += b->n;
    b->n = 0;
}

static void add_case(struct batch *b, struct exec_case c)
{
    c.ranks = b->team->n;
    c.places = team_places;
    c.box_bytes = STAGE;
    c.take = team_take;
    c.give = team_give;
    if (!case_make(&c, &b->jobs[b->n]))
        return;
    if (++b->n == BATCH)
        run_batch(b);
}

/* ---- every algorithm and collective ---- */

static void add_variants(struct batch *b, struct exec_case c)
{
    static const uint64_t counts[] = {50, 3001, 20011};
    for (int inplace = 0; inplace < 3; inplace++) {
        c.inplace = inplace;
        c.segments = inplace == 1 ? 3 : 1;
        c.count = counts[(b->seq + b->n) % 3];
        if (c.coll == TUTTI_ALL_TO_ALL && inplace)
            c.count = c.count / b->team->n * b->team->n;
        c.redop = inplace == 2 ? TUTTI_AVG : TUTTI_SUM;
        c.blocks = inplace == 0 && case_has_parts(c.coll);
        if (c.coll == TUTTI_BARRIER)
            c.count = 0;
        add_case(b, c);
    }
}

static void add_table(struct batch *b)
{
    size_t n;
    const struct tt_algo *const *table = tt_algo_table(&n);
    for (size_t i = 0; i < n; i++)
        for (int c = 0; c < TUTTI_COLL_COUNT; c++)
            if (table[i]->colls & 1u << c)
                add_variants(b, (struct exec_case){.algo = table[i]->name, .coll = (tutti_coll)c, .root = b->team->n - 1});
    if (b->n)
        run_batch(b);
}

/* Messages of many pieces, and more of them than a ring or a window holds. */
static void add_large(struct batch *b)
{
    static const char *const algos[] = {"direct", "ring", "oneshot", "recursive-doubling", "halving-doubling"};
    for (int inplace = 0; inplace < 2; inplace++)
        for (size_t i = 0; i < countof(algos); i++)
            add_case(b, (struct exec_case){.algo = algos[i], .count = 300007, .inplace = inplace, .segments = inplace ? 0 : 1});
    add_case(b, (struct exec_case){.algo = "direct", .coll = TUTTI_REDUCE_SCATTER, .count = 400009, .inplace = 1});
    add_case(b, (struct exec_case){.algo = "direct", .coll = TUTTI_ALL_GATHER, .count = 400009, .inplace = 1});
    if (b->n)
        run_batch(b);
}

static struct tt_carried run_all(struct team t)
{
    struct batch *b = calloc(1, sizeof *b);
    b->team = &t;
    t.ref_bytes = 256;
    team_open(&t);
    add_table(b);
    add_large(b);
    team_close(&t);
    struct tt_carried c = b->carried;
    free(b);
    assert_true(c.box > 0 && c.read > 0 && c.message > 0);
    return c;
}

#if TT_SANITIZED == 2 /* threads */
static const uint32_t team_sizes[] = {3};
#elif TT_SANITIZED
static const uint32_t team_sizes[] = {3, 6};
#else
static const uint32_t team_sizes[] = {2, 3, 4, 6};
#endif

static void test_heap(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(team_sizes); i++)
        assert_true(run_all((struct team){.n = team_sizes[i], .in_heap = 0x3f}).write > 0);
}

static void test_windows(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(team_sizes); i++)
        assert_int_equal(run_all((struct team){.n = team_sizes[i]}).write, 0);
}

static void test_mixed(void **state)
{
    (void)state;
    for (size_t i = 0; i < countof(team_sizes); i++) {
        assert_true(run_all((struct team){.n = team_sizes[i], .in_heap = 0x15}).write > 0);
        run_all((struct team){.n = team_sizes[i], .in_heap = 0x2a});
    }
}

/* ---- how one operation is carried out ---- */

static struct tt_carried carried_by(struct team t, struct exec_case c)
{
    struct batch *b = calloc(1, sizeof *b);
    b->team = &t;
    t.ref_bytes = 256;
    team_open(&t);
    add_case(b, c);
    run_batch(b);
    team_close(&t);
    struct tt_carried ret = b->carried;
    free(b);
    return ret;
}

/* A rank that only sends has no event but its sends, and a deadline that must follow them. */
static void test_moved(void **state)
{
    struct team t = {.n = 3, .ref_bytes = 256};
    struct batch *b = calloc(1, sizeof *b);
    (void)state;
    b->team = &t;
    team_open(&t);
    uint64_t before = tt_exec_context_moved(t.context[0]);
    add_case(b, (struct exec_case){.algo = "binomial", .coll = TUTTI_BROADCAST, .count = 400009});
    run_batch(b);
    assert_true(b->carried.read > 8); /* pieces, all of root 0, which hears two words of credit */
    assert_true(tt_exec_context_moved(t.context[0]) >= before + b->carried.read);
    team_close(&t);
    free(b);
}

/* Nothing goes as bytes that can be reached, and each message is counted once. */
static void test_carried(void **state)
{
    const struct exec_case large = {.algo = "direct", .count = 3 * 8192}, small = {.algo = "oneshot", .count = 60};
    (void)state;
    struct tt_carried c = carried_by((struct team){.n = 3, .in_heap = 7}, large);
    assert_int_equal(c.message, 0);
    assert_int_equal(c.box, 0);
    assert_int_equal(c.read + c.write, 12); /* 6 operands, 6 results */
    assert_true(c.read >= 6);
    c = carried_by((struct team){.n = 3}, large);
    assert_true(c.read == 12 && !c.message && !c.write && !c.box);
    c = carried_by((struct team){.n = 3}, small);
    assert_true(c.box == 6 && !c.message && !c.read && !c.write);
}

/* An input that is longer than exchanges may be is not copied into a box: peers read it in the heap, or in windows of a row, and no message
 * is sent. The same input in boxes, if exchanges may be longer. */
static void test_long_exchange(void **state)
{
    static const tutti_coll colls[] = {TUTTI_REDUCE_SCATTER, TUTTI_ALL_GATHER};
    (void)state;
    for (size_t i = 0; i < countof(colls); i++)
        for (uint32_t heaps = 0; heaps < 8; heaps += 7) {
            struct exec_case c = {.algo = "direct", .coll = colls[i], .count = 3 * 300};
            struct tt_carried in_box = carried_by((struct team){.n = 3, .in_heap = heaps}, c);
            c.exchange_bytes = 1000;
            struct tt_carried read = carried_by((struct team){.n = 3, .in_heap = heaps}, c);
            assert_true(in_box.box == 6 && !in_box.read && !in_box.message);
            assert_true(read.read == 6 && !read.box && !read.write && !read.message);
        }
}

/* A unit of the window that has come back is given out again only after a turn: it is still in the cache of the peer that read it. */
static void test_window_turn(void **state)
{
    struct team t = {.n = 2, .ref_bytes = 256};
    (void)state;
    team_open(&t);
    struct tt_engine *e = t.engine[0];
    uint32_t units = (uint32_t)((e->turn + e->unit_bytes - 1) / e->unit_bytes);
    assert_true(units > 8 && units < TT_XUNITS);
    for (uint32_t k = 0; k < 3 * units; k++) {
        const struct tt_xslot key = {.near = TT_XNO, .seq = k};
        struct tt_xslot *s = tt_exec_window_take(e, &key, e->unit_bytes, 1);
        assert_non_null(s);
        assert_int_equal(s->unit, k % units);
        tt_exec_window_sent(e, s, false);
    }
    assert_true(e->units == UINT64_MAX && e->shared_units == 0);
    team_close(&t);
}

/* ---- held operands that must be let go ---- */

/* Like the one of test_lockstep_marks.c: rank 0 holds rank 1's OUT until rank 2 speaks, and rank 2 waits for rank 1's next message, which
 * leaves from the same place. */
static struct tt_sched *knot(void)
{
    struct tt_builder b;
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 3, .chunks = 1, .nbufs = 4, .segments = 1, .algo = "knot"};
    struct tt_span out = tt_sched_span_range(TT_BUF_OUT, 0, 1), s2 = tt_sched_span_range(2, 0, 1), s3 = tt_sched_span_range(3, 0, 1);
    struct tt_span take = tt_sched_span_from(2, TT_BUF_IN, 0, 1), again = tt_sched_span_from(TT_BUF_OUT, TT_BUF_IN, 0, 1);
    struct tt_span sum[] = {out, tt_sched_span_from(0, TT_BUF_IN, 0, 1), tt_sched_span_from(0, 2, 0, 1), tt_sched_span_from(0, 3, 0, 1)};
    struct tt_sched *s = NULL;
    struct tutti_error err;
    tt_sched_build_begin(&b, &shape, 0);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_recv(&b, 1, 1, 0, &s2, 1);
    tt_sched_emit_recv(&b, 5, 2, 0, &s3, 1);
    tt_sched_emit_reduce(&b, 5, sum, 4);
    tt_sched_emit_send(&b, 6, 1, 0, &out, 1);
    tt_sched_emit_send(&b, 6, 2, 0, &out, 1);
    tt_sched_build_rank(&b, 1);
    tt_sched_emit_copy(&b, 0, &again, 1);
    tt_sched_emit_send(&b, 1, 0, 0, &out, 1);
    tt_sched_emit_copy(&b, 2, &again, 1);
    tt_sched_emit_send(&b, 3, 2, 0, &out, 1);
    tt_sched_emit_recv(&b, 6, 0, 0, &out, 1);
    tt_sched_build_rank(&b, 2);
    tt_sched_emit_recv(&b, 3, 1, 0, &s2, 1);
    tt_sched_emit_copy(&b, 4, &take, 1);
    tt_sched_emit_send(&b, 5, 0, 0, &s2, 1);
    tt_sched_emit_recv(&b, 6, 0, 0, &out, 1);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
    return s;
}

/* An all-reduce that is not in the table. */
static void make_job(const struct team *t, struct tt_sched *sched, uint64_t count, uint32_t segments, struct exec_job *j)
{
    struct tutti_error err;
    *j = (struct exec_job){.c = {.ranks = t->n, .count = count, .algo = sched->shape.algo, .take = team_take, .give = team_give},
                           .sched = sched};
    assert_int_equal(tt_sched_bind_make(&sched->shape, count, j->c.dtype, &j->bind, &err), TUTTI_OK);
    for (uint32_t r = 0; r < t->n; r++) {
        struct tt_program_config pc = {.sched = sched, .rank = r, .count = count, .segments = segments, .places = team_places};
        assert_int_equal(tt_exec_program_make(&pc, &j->program[r], &err), TUTTI_OK);
        case_place(j, r);
    }
    case_fill(j);
}

static struct tt_carried run_schedule(struct team t, struct tt_sched *sched, uint64_t count, uint32_t segments)
{
    struct batch *b = calloc(1, sizeof *b);
    team_open(&t);
    b->team = &t;
    b->n = 1;
    make_job(&t, sched, count, segments, &b->jobs[0]);
    run_batch(b);
    struct tt_carried c = b->carried;
    free(b);
    team_close(&t);
    return c;
}

static void test_knot(void **state)
{
    (void)state;
    struct tt_carried c = run_schedule((struct team){.n = 3, .in_heap = 7, .ref_bytes = 64}, knot(), 70000, 1);
    assert_true(c.read > 0);
}

/* Starts j as request `seq` of a context. */
static void start_in(struct tt_context *x, const struct exec_job *j, uint32_t seq)
{
    uint32_t r = x->rank;
    struct tt_start s = {.program = j->program[r], .in = j->in[r], .out = j->out[r], .seq = seq, .fingerprint = seq};
    struct tutti_error err;
    assert_int_equal(tt_exec_context_start(x, &s, &err), TUTTI_OK);
}

/* The same beside another context that never rests: the knot is let go although the engine always has something to do. All ranks in one
 * thread, so that nothing stands still but the knot. */
static void test_knot_beside(void **state)
{
    struct team t = {.n = 3, .in_heap = 7, .ref_bytes = 64};
    struct tt_context *other[TEAM];
    struct exec_job j, busy;
    struct tutti_error err;
    uint32_t rounds[TEAM] = {0}, done = 0;
    (void)state;
    team_open(&t);
    struct exec_case c = {.algo = "ring", .ranks = 3, .count = 300, .places = team_places, .take = team_take, .give = team_give};
    make_job(&t, knot(), 70000, 1, &j);
    assert_true(case_make(&c, &busy));
    for (uint32_t r = 0; r < t.n; r++) {
        struct tt_context_config x = {.key = 5, .n = t.n, .rank = r};
        assert_int_equal(tt_exec_context_open(t.engine[r], &x, &other[r], &err), TUTTI_OK);
        start_in(t.context[r], &j, 1);
        start_in(other[r], &busy, ++rounds[r]);
    }
    /* A rank begins another round unless all are done with the knot; the others follow. */
    uint64_t until = tt_now_ns() + UINT64_C(10000000000);
    for (uint32_t last = 1; (done < t.n || rounds[0] + rounds[1] + rounds[2] < 3 * last) && tt_now_ns() < until;) {
        done = 0;
        for (uint32_t r = 0; r < t.n; r++) {
            tt_exec_engine_progress(t.engine[r]);
            done += tt_exec_engine_test(t.engine[r], j.program[r], &err) == TUTTI_OK;
        }
        for (uint32_t r = 0; r < t.n; r++)
            if (tt_exec_engine_test(t.engine[r], busy.program[r], &err) == TUTTI_OK && (done < t.n || rounds[r] < last)) {
                start_in(other[r], &busy, ++rounds[r]);
                last = rounds[r] > last ? rounds[r] : last;
            }
    }
    assert_int_equal(done, t.n);
    assert_true(rounds[0] > 10);
    for (uint32_t r = 0; r < t.n; r++)
        while (tt_exec_engine_test(t.engine[r], busy.program[r], &err) == TUTTI_IN_PROGRESS)
            for (uint32_t q = 0; q < t.n; q++)
                tt_exec_engine_progress(t.engine[q]);
    assert_true(case_check(&j));
    settle(&t);
    check_clean(&t);
    case_free(&j);
    case_free(&busy);
    team_close(&t);
}

/* Rank 0 reduces two chunks, which with segments are two fragments, and sends them to one peer: as bytes. */
static void test_fragments(void **state)
{
    struct tt_builder b;
    struct tt_shape shape = {.coll = TUTTI_ALLREDUCE, .ranks = 2, .chunks = 2, .nbufs = 3, .segments = 1, .algo = "fragments"};
    struct tt_span in = tt_sched_span_range(TT_BUF_IN, 0, 2), out = tt_sched_span_range(TT_BUF_OUT, 0, 2),
                   got = tt_sched_span_range(2, 0, 2);
    struct tt_span sum[] = {out, tt_sched_span_from(0, TT_BUF_IN, 0, 2), tt_sched_span_from(0, 2, 0, 2)};
    struct tt_sched *s = NULL;
    struct tutti_error err;
    (void)state;
    tt_sched_build_begin(&b, &shape, 0);
    tt_sched_build_rank(&b, 0);
    tt_sched_emit_recv(&b, 0, 1, 0, &got, 1);
    tt_sched_emit_reduce(&b, 0, sum, 3);
    tt_sched_emit_send(&b, 1, 1, 0, &out, 1);
    tt_sched_build_rank(&b, 1);
    tt_sched_emit_send(&b, 0, 0, 0, &in, 1);
    tt_sched_emit_recv(&b, 1, 0, 0, &out, 1);
    assert_int_equal(tt_sched_build_freeze(&b, &s, &err), TUTTI_OK);
    struct tt_carried c = run_schedule((struct team){.n = 2, .ref_bytes = 64}, s, 20000, 3);
    assert_int_equal(c.message, 6);
}

/* ---- a rank that quits ---- */

struct quitter {
    const struct team *team;
    struct exec_job *job;
    uint32_t rank, looks; /* rank 1 quits after so many looks */
    char *after;          /* its result at that time */
    bool same;
};

static void *quit_or_not(void *arg)
{
    struct quitter *q = arg;
    const struct team *t = q->team;
    struct exec_job *j = q->job;
    struct tt_start s = {.program = j->program[q->rank], .in = j->in[q->rank], .out = j->out[q->rank], .seq = 1, .fingerprint = 1};
    struct tutti_error err;
    size_t bytes = (size_t)case_out_elems(j, q->rank) * tt_sched_dtype_bytes(j->c.dtype);
    unsigned idle = 0;
    bool quits = q->rank == 1;
    tutti_status st = tt_exec_context_start(t->context[q->rank], &s, &err) == TUTTI_OK ? TUTTI_IN_PROGRESS : TUTTI_ERR_ARG;
    uint64_t limit = tt_now_ns() + UINT64_C(20000000);
    for (uint32_t i = 0; st == TUTTI_IN_PROGRESS && (quits ? i < q->looks : tt_now_ns() < limit); i++) {
        team_progress(t, q->rank, &idle);
        st = tt_exec_engine_test(t->engine[q->rank], s.program, &err);
    }
    if (quits)
        tt_direct_quit(t->direct[1]);
    if (quits)
        memcpy(q->after, j->out[1], bytes);
    tt_exec_engine_kill(t->engine[q->rank], &(struct tt_exec_engine_fault){.kind = TT_FAULT_CLOSED, .peer = 1, .seq = 1});
    return NULL;
}

/* Others go on for a while without knowing: what they find ends them, or they write nothing. */
static void test_quit(void **state)
{
    (void)state;
    for (uint32_t round = 0; round < 24; round++) {
        struct team t = {.n = 3, .in_heap = 7, .ref_bytes = 256};
        struct exec_job j;
        struct quitter q[TEAM];
        team_open(&t);
        struct exec_case c = {.algo = round % 2 ? "direct" : "ring",
                              .ranks = 3,
                              .count = 500000,
                              .inplace = (int)(round / 2 % 2),
                              .places = team_places,
                              .take = team_take,
                              .give = team_give};
        assert_true(case_make(&c, &j));
        size_t bytes = (size_t)case_out_elems(&j, 1) * tt_sched_dtype_bytes(c.dtype);
        char *after = malloc(bytes);
        for (uint32_t r = 0; r < 3; r++)
            q[r] = (struct quitter){.team = &t, .job = &j, .rank = r, .looks = round * round, .after = after};
        team_run(&t, quit_or_not, q, sizeof *q);
        assert_memory_equal(after, j.out[1], bytes);
        free(after);
        case_free(&j);
        team_close(&t);
    }
}

/* References come from a peer: one to a slot that no window has is not resolved. */
static void test_bad_slot(void **state)
{
    struct team t = {.n = 2, .ref_bytes = 64};
    (void)state;
    team_open(&t);
    struct tt_xpeer *pe = tt_exec_context_peer(t.context[0], 1);
    for (unsigned slot = TT_XUNITS - 1; slot <= TT_XUNITS; slot++) {
        struct tt_xref ref = {.kind = TT_XKIND_WINDOW, .slot = (uint8_t)slot};
        struct tt_event ev = {.kind = TT_EV_DATA, .peer = 1, .bytes = sizeof ref, .data = &ref};
        struct tt_xkept k;
        assert_int_equal(tt_exec_resolve(t.engine[0], pe, &ev, 64, &k), slot < TT_XUNITS);
    }
    team_close(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_allocations), cmocka_unit_test(test_carried),   cmocka_unit_test(test_knot),
        cmocka_unit_test(test_knot_beside),   cmocka_unit_test(test_fragments), cmocka_unit_test(test_moved),
        cmocka_unit_test(test_quit),          cmocka_unit_test(test_heap),      cmocka_unit_test(test_windows),
        cmocka_unit_test(test_mixed),         cmocka_unit_test(test_bad_slot),  cmocka_unit_test(test_long_exchange),
        cmocka_unit_test(test_window_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
