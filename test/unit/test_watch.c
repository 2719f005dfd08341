/* test_watch.c - the watch between real processes on loopback: every way to fail is named rightly, by everybody, in time.
 *
 * Ranks are forked and run one of the bodies below; the parent kills or stops some of them and compares what the others were told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "boot_ranks.h"
#include "watch/watch.h"

#define SECOND UINT64_C(1000000000)
#define GRACE  (SECOND * 9 / 10)

struct plan {
    uint32_t n;
    uint16_t port;
    uint32_t odd; /* the rank that behaves differently */
    void (*act)(struct tt_watch *w, uint32_t rank, const struct plan *p);
    struct tt_trouble trouble; /* the reporters' */
    uint64_t wait_ns;          /* before reporting */
    struct tt_boot *boot;      /* of the child */
};

static const struct tt_op_desc sum20 = {
    .count = 20, .seq = 5, .coll = TUTTI_ALLREDUCE, .dtype = TUTTI_F32, .redop = TUTTI_SUM, .print = 1, .busy = TT_OP_COLL};
static const struct tt_op_desc cast10 = {
    .count = 10, .seq = 5, .coll = TUTTI_BROADCAST, .dtype = TUTTI_F32, .print = 2, .busy = TT_OP_COLL};

/* ---- children ---- */

static void note(uint32_t rank, const struct tt_verdict *v)
{
    struct outcome *o = &outcomes[rank];
    o->value = (int)v->blame;
    o->hash = v->culprit;
    o->status = (tutti_status)v->seq;
    snprintf(o->err.text, sizeof o->err.text, "%s", v->text);
}

static void body(uint32_t rank, void *arg)
{
    struct plan p = *(const struct plan *)arg;
    struct tt_boot_config c = loopback_config(p.n, p.port, 10000);
    struct tt_watch *w = NULL;
    c.rank = rank;
    outcomes[rank].value = -1;
    if (tt_boot_open(&c, &p.boot, &outcomes[rank].err) || tt_watch_open(p.boot, SECOND, &w, &outcomes[rank].err))
        _exit(3);
    outcomes[rank].value = TT_BLAME_NONE;
    p.act(w, rank, &p);
    tt_watch_close(w);
    tt_boot_close(p.boot);
}

static void sleep_ns(uint64_t ns)
{
    struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    nanosleep(&t, NULL);
}

/* Everybody is as far as this. */
static void meet(uint32_t rank, const struct plan *p)
{
    reach_stage(rank, 1);
    for (uint32_t r = 0; r < p->n; r++)
        await_stage(r, 1);
}

/* Waits for a verdict that comes without this rank's doing. */
static void listen_for(struct tt_watch *w, uint32_t rank, uint64_t limit_ns)
{
    struct tt_verdict v;
    uint64_t until = tt_now_ns() + limit_ns;
    while (tt_now_ns() < until) {
        if (tt_watch_verdict(w, &v)) {
            note(rank, &v);
            return;
        }
        usleep(1000);
    }
}

static void report(struct tt_watch *w, uint32_t rank, const struct tt_trouble *t)
{
    struct tt_verdict v;
    uint64_t from = tt_now_ns();
    tt_watch_report(w, t);
    tt_watch_await(w, tt_now_ns() + GRACE, &v);
    note(rank, &v);
    if (tt_now_ns() - from > SECOND)
        snprintf(outcomes[rank].err.text, sizeof outcomes[rank].err.text, "late verdict");
}

/* Idle until somebody is gone. */
static void act_listen(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    (void)p;
    reach_stage(rank, 1);
    listen_for(w, rank, 5 * SECOND);
}

/* Enters the request and reports after a while. */
static void act_wait(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    tt_watch_enter(w, &p->trouble.op);
    meet(rank, p);
    sleep_ns(p->wait_ns);
    report(w, rank, &p->trouble);
}

/* The odd one has entered request 4 only, and has been heard in it. */
static void act_odd_lags(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc op = sum20;
    op.seq = rank == p->odd ? 4 : 5;
    tt_watch_enter(w, &op);
    if (rank == p->odd)
        sleep_ns(SECOND / 2); /* two heartbeats */
    meet(rank, p);
    listen_for(w, rank, 5 * SECOND);
}

/* Only the odd one waits for something. */
static void act_odd_waits(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    if (rank == p->odd) {
        act_wait(w, rank, p);
        return;
    }
    meet(rank, p);
    listen_for(w, rank, 3 * SECOND);
}

static void act_odd_stays_out(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc before = p->trouble.op;
    before.seq--;
    tt_watch_enter(w, &before);
    tt_watch_leave(w, before.comm);
    if (rank != p->odd) {
        act_wait(w, rank, p);
        return;
    }
    meet(rank, p);
    listen_for(w, rank, 3 * SECOND);
}

/* The odd one calls something else, and goes on to the next request before anybody complains. */
static void act_odd_calls_other(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc next = sum20;
    next.seq = 6;
    tt_watch_enter(w, rank == p->odd ? &cast10 : &sum20);
    if (rank == p->odd)
        tt_watch_enter(w, &next);
    meet(rank, p);
    report(w, rank, &p->trouble);
}

static void act_odd_aborts(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_trouble t = {.kind = TT_TROUBLE_ABORT, .peer = UINT32_MAX, .text = "loss is NaN"};
    if (rank == p->odd)
        tt_watch_report(w, &t);
    listen_for(w, rank, 3 * SECOND);
}

/* All leave, each a little later than the one before, and nobody is mourned. */
static void act_leave_in_turn(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    tt_watch_enter(w, &sum20);
    tt_watch_leave(w, 0);
    listen_for(w, rank, (rank == p->odd ? 1 : 3 + rank) * SECOND / 10);
}

static void act_odd_leaves(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    if (rank == p->odd)
        reach_stage(rank, 1);
    else
        act_wait(w, rank, p);
}

/* Says something on the control connection that the watch would never say. */
static void act_odd_babbles(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    char junk[4096];
    memset(junk, 0xa5, sizeof junk);
    if (rank == p->odd) {
        for (uint32_t r = 0; r < (rank ? 1 : p->n); r++)
            if (r != rank && send(tt_boot_line(p->boot, r)->fd, junk, sizeof junk, MSG_NOSIGNAL) < 0)
                _exit(4);
        sleep_ns(SECOND / 2);
    } else {
        listen_for(w, rank, 3 * SECOND);
    }
}

/* Who waits for whom: a chain that ends at rank 3, which computes. */
static void act_chain(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    static const uint32_t waits_for[] = {2, 0, 3};
    struct tt_trouble t = p->trouble;
    tt_watch_enter(w, &sum20);
    meet(rank, p);
    if (rank == 3) {
        listen_for(w, rank, 3 * SECOND);
        return;
    }
    t.peer = waits_for[rank];
    report(w, rank, &t);
}

/* Two groups of one split that are not equally far; rank 2 has not entered its group's request. */
static void act_split(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc op = p->trouble.op;
    op.comm = rank % 2 ? 77 : 88;
    op.seq = rank % 2 ? 2 : 9;
    tt_watch_join(w, op.comm);
    if (rank == 2) {
        tt_watch_enter(w, &sum20);
        meet(rank, p);
        listen_for(w, rank, 3 * SECOND);
        return;
    }
    tt_watch_enter(w, &op);
    meet(rank, p);
    if (rank == 0) {
        struct tt_trouble t = {.kind = TT_TROUBLE_DEADLINE, .peer = UINT32_MAX, .op = op};
        report(w, rank, &t);
    } else {
        listen_for(w, rank, 3 * SECOND);
    }
    tt_watch_part(w, op.comm);
}

/* Calls as fast as they can be written, while heartbeats read them; the last one is what all say. */
static void act_busy(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc op = sum20;
    uint64_t until = tt_now_ns() + SECOND;
    while (tt_now_ns() < until) {
        op.seq++;
        tt_watch_enter(w, &op);
        tt_watch_leave(w, 0);
    }
    op.seq = 1u << 30;
    if (rank == p->odd)
        op.count = 21;
    tt_watch_enter(w, &op);
    struct tt_trouble t = {.kind = TT_TROUBLE_DEADLINE, .peer = p->odd, .op = op};
    meet(rank, p);
    report(w, rank, &t);
}

enum { MUCH = 3000 };

/* One round of everybody's bytes for all; false: there was a verdict, which is noted. */
static bool gather(struct tt_watch *w, uint32_t rank, const struct plan *p, size_t bytes)
{
    static uint8_t mine[MUCH], all[RANKS_MAX * MUCH];
    static uint32_t steps;
    struct tt_op_desc op = {.comm = TT_COMM_OPENING, .seq = ++steps, .count = bytes, .busy = TT_OP_COLL, .why = TT_WHY_OPEN};
    struct tt_verdict v;
    memset(mine, (int)rank + 1, sizeof mine);
    if (!tt_watch_gather(w, &op, mine, bytes, all)) {
        outcomes[rank].value = -1;
        if (tt_watch_verdict(w, &v))
            note(rank, &v);
        return false;
    }
    for (size_t i = 0; i < bytes * p->n; i++)
        if (all[i] != i / bytes + 1)
            outcomes[rank].value = -2;
    return true;
}

/* Lengths of none, one and many pieces; then, if there is an odd one, it does what the plan says. */
static void act_gather(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    gather(w, rank, p, 0);
    gather(w, rank, p, 1);
    gather(w, rank, p, 512);
    gather(w, rank, p, MUCH);
    meet(rank, p);
    if (p->odd == RANKS_MAX)
        return;
    if (rank != p->odd || p->wait_ns == 0)
        gather(w, rank, p, rank == p->odd ? 6 : 5);
    else
        listen_for(w, rank, p->wait_ns);
}

/* The odd one has another root in request 5; it shows in request 6 only, at a rank that waits for an innocent one. */
static void act_odd_before(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc first = cast10, next = sum20;
    first.root = rank == p->odd ? 1 : 2;
    next.seq = 6;
    tt_watch_enter(w, &first);
    tt_watch_leave(w, 0);
    tt_watch_enter(w, &next);
    meet(rank, p);
    if (rank == 0)
        report(w, rank, &(struct tt_trouble){.kind = TT_TROUBLE_MISMATCH, .peer = 1, .op = next});
    else
        listen_for(w, rank, 3 * SECOND);
}

/* The odd one and rank 1 are first, and rank 1 finds that they differ; the others come a moment later. */
static void act_odd_early(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    meet(rank, p);
    if (rank != p->odd && rank != 1)
        sleep_ns(SECOND / 5);
    tt_watch_enter(w, rank == p->odd ? &cast10 : &sum20);
    if (rank == 1) {
        sleep_ns(SECOND / 20);
        report(w, rank, &p->trouble);
    } else {
        listen_for(w, rank, 3 * SECOND);
    }
}

/* The odd one has another root in request 40, where rank 0 waits; the others have gone on, the further the higher, and the last reports. */
static void act_run_ahead(struct tt_watch *w, uint32_t rank, const struct plan *p)
{
    struct tt_op_desc op = cast10;
    for (op.seq = 1; op.seq <= 40 + 60 * rank; op.seq++) {
        op.root = rank == p->odd && op.seq == 40 ? 1 : 2;
        tt_watch_enter(w, &op);
    }
    op.seq--;
    meet(rank, p);
    if (rank + 1 == p->n)
        report(w, rank, &(struct tt_trouble){.kind = p->trouble.kind, .peer = 1, .op = op});
    else
        listen_for(w, rank, 3 * SECOND);
}

/* ---- parents ---- */

static void check_same(const struct plan *p, bool odd_too, enum tt_blame blame, uint32_t culprit)
{
    const char *text = NULL;
    for (uint32_t r = 0; r < p->n; r++) {
        if (r == p->odd && !odd_too)
            continue;
        check_clean(r);
        if (outcomes[r].value != (int)blame || outcomes[r].hash != culprit)
            fail_msg("rank %u of %u: %s, rank %u; expected %s, rank %u (%s)", r, p->n, tt_watch_blame_name((enum tt_blame)outcomes[r].value),
                     (unsigned)outcomes[r].hash, tt_watch_blame_name(blame), culprit, outcomes[r].err.text);
        text = text ? text : outcomes[r].err.text;
        if (blame != TT_BLAME_STUCK || culprit != 0) /* how long a stopped rank 0 has been silent each measures by itself */
            assert_string_equal(text, outcomes[r].err.text);
    }
}

static const char *text_of(uint32_t rank)
{
    return outcomes[rank].err.text;
}

/* All ranks run; the odd one gets the signal once everybody is at stage 1. */
static void run_with_signal(struct plan *p, int sig)
{
    pid_t pid[RANKS_MAX];
    ranks_setup();
    p->port = free_port();
    for (uint32_t r = 0; r < p->n; r++)
        pid[r] = rank_start(r, body, p);
    for (uint32_t r = 0; r < p->n; r++)
        if (!await_stage(r, 1))
            outcomes[r].hung = true;
    kill(pid[p->odd], sig);
    for (uint32_t r = 0; r < p->n; r++)
        if (r != p->odd)
            rank_end(r, pid[r], 0);
    kill(pid[p->odd], SIGKILL);
    rank_end(p->odd, pid[p->odd], SIGKILL);
}

static void run_all(struct plan *p)
{
    p->port = free_port();
    run_ranks(p->n, body, p);
}

static void test_killed(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 4; n++)
        for (uint32_t odd = 0; odd < n; odd += n - 1) {
            char who[32];
            struct plan p = {.n = n, .odd = odd, .act = act_listen};
            run_with_signal(&p, SIGKILL);
            check_same(&p, false, TT_BLAME_DEAD, odd);
            snprintf(who, sizeof who, "rank %u (host ", odd);
            assert_non_null(strstr(text_of(odd ? 0 : 1), who));
            assert_non_null(strstr(text_of(odd ? 0 : 1), ") is dead: its connection closed before the first request"));
        }
}

static void test_killed_in_request(void **state)
{
    (void)state;
    struct plan p = {.n = 3, .odd = 2, .act = act_wait, .wait_ns = SECOND};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .peer = 2, .op = sum20};
    run_with_signal(&p, SIGKILL);
    check_same(&p, false, TT_BLAME_DEAD, 2);
    assert_non_null(strstr(text_of(0), "is dead: its connection closed "));
    assert_non_null(strstr(text_of(0), " request 5 (allreduce of 20 f32)"));
    assert_int_equal(outcomes[1].status, 5);
    p.act = act_odd_lags;
    run_with_signal(&p, SIGKILL);
    check_same(&p, false, TT_BLAME_DEAD, 2);
    assert_non_null(strstr(text_of(0), "closed while rank 0 was in request 5 (allreduce of 20 f32); it was last heard in request 4"));
}

static void test_stopped(void **state)
{
    (void)state;
    static const uint32_t who[][2] = {{3, 2}, {3, 0}, {2, 1}};
    for (size_t i = 0; i < countof(who); i++) {
        struct plan p = {.n = who[i][0], .odd = who[i][1], .act = act_wait, .wait_ns = SECOND};
        p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .peer = 1, .op = sum20};
        run_with_signal(&p, SIGSTOP);
        check_same(&p, false, TT_BLAME_STUCK, p.odd);
        assert_non_null(strstr(text_of(p.odd == 1 ? 0 : 1), "during request 5 (allreduce of 20 f32)"));
    }
}

static void test_not_entered(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 4; odd++) {
        struct plan p = {.n = odd ? 4 : 2, .odd = odd, .act = act_odd_stays_out};
        p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .peer = 1, .op = sum20};
        run_all(&p);
        check_same(&p, true, TT_BLAME_NOT_ENTERED, odd);
        assert_non_null(strstr(text_of(0), "has not entered request 5 (allreduce of 20 f32): it is past request 4"));
    }
}

static void test_mismatch(void **state)
{
    (void)state;
    static const uint32_t kinds[] = {TT_TROUBLE_MISMATCH, TT_TROUBLE_DEADLINE};
    for (uint32_t i = 0; i < 4; i++) {
        struct plan p = {.n = 3, .odd = i % 3, .act = act_odd_calls_other};
        p.trouble = (struct tt_trouble){.kind = kinds[i % 2], .peer = 1, .op = sum20};
        run_all(&p);
        check_same(&p, true, TT_BLAME_MISMATCHED, p.odd);
        assert_non_null(
            strstr(text_of(0), "called broadcast of 10 f32 (root 0) as request 5 while the others called allreduce of 20 f32 (sum)"));
    }
    struct plan two = {.n = 2, .odd = 0, .act = act_odd_calls_other};
    two.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .peer = 1, .op = sum20};
    run_all(&two);
    check_same(&two, true, TT_BLAME_MISMATCHED, 1);
    assert_non_null(strstr(text_of(1), "called allreduce of 20 f32 (sum) as request 5 while rank 0 called broadcast of 10 f32 (root 0)"));
}

static void test_abort(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 3; odd++) {
        struct plan p = {.n = 3, .odd = odd, .act = act_odd_aborts};
        run_all(&p);
        check_same(&p, true, TT_BLAME_ABORTED, odd);
        assert_non_null(strstr(text_of(0), "aborted: loss is NaN"));
    }
}

static void test_farewell(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 3; odd++) {
        struct plan p = {.n = 3, .odd = odd, .act = act_leave_in_turn};
        run_all(&p);
        check_same(&p, true, TT_BLAME_NONE, 0);
    }
    struct plan p = {.n = 3, .odd = 2, .act = act_odd_leaves, .wait_ns = SECOND / 2};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_CLOSED, .peer = 2, .op = sum20};
    run_all(&p);
    check_same(&p, false, TT_BLAME_NOT_ENTERED, 2);
    p.trouble.kind = TT_TROUBLE_DEADLINE;
    run_all(&p);
    check_same(&p, false, TT_BLAME_NOT_ENTERED, 2);
    assert_non_null(strstr(text_of(0), "it has closed its communicators"));
}

static void test_broken_connection(void **state)
{
    (void)state;
    struct plan p = {.n = 3, .odd = 2, .act = act_wait};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_CLOSED, .peer = 2, .op = sum20};
    run_all(&p);
    check_same(&p, true, TT_BLAME_UNREACHABLE, 2);
    assert_non_null(strstr(text_of(0), "the connection between them broke during request 5"));
}

static void test_babble(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 2; odd++) {
        struct plan p = {.n = 3, .odd = odd, .act = act_odd_babbles};
        run_all(&p);
        check_same(&p, false, TT_BLAME_DEAD, odd);
    }
}

static void test_chain(void **state)
{
    (void)state;
    struct plan p = {.n = 4, .odd = 3, .act = act_chain};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .op = sum20};
    run_all(&p);
    check_same(&p, true, TT_BLAME_STUCK, 3);
    assert_non_null(strstr(text_of(0), "is stuck in request 5 (allreduce of 20 f32): nothing came from it within 1 s"));
}

static void test_split(void **state)
{
    (void)state;
    struct plan p = {.n = 4, .odd = 2, .act = act_split};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .op = sum20};
    run_all(&p);
    check_same(&p, true, TT_BLAME_NOT_ENTERED, 2);
    assert_non_null(
        strstr(text_of(0), "has not entered request 9 (allreduce of 20 f32) of a split or trainer: it has not called anything yet"));
}

static void test_message(void **state)
{
    (void)state;
    struct plan p = {.n = 2, .odd = 0, .act = act_odd_waits};
    struct tt_op_desc op = {.count = 7, .seq = 3, .root = 1, .dtype = TUTTI_I32, .busy = TT_OP_RECEIVING};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .peer = 1, .op = op};
    run_all(&p);
    check_same(&p, true, TT_BLAME_NOT_ENTERED, 1);
    assert_non_null(strstr(text_of(0), "the other side of message 3 (receive of 7 i32 from rank 1) of rank 0"));
}

/* Nobody in particular is waited for: the one that waits is named. */
static void test_message_of_anybody(void **state)
{
    (void)state;
    struct plan p = {.n = 2, .odd = 0, .act = act_odd_waits};
    struct tt_op_desc op = {.count = 7, .seq = 3, .root = UINT32_MAX, .print = 5, .dtype = TUTTI_I32, .busy = TT_OP_RECEIVING};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_DEADLINE, .peer = UINT32_MAX, .op = op};
    run_all(&p);
    check_same(&p, true, TT_BLAME_NOT_ENTERED, 0);
    assert_non_null(strstr(text_of(1), "waited 1 s for message 3 (receive of 7 i32 from any rank, tag 5): no rank has sent it"));
}

/* What differs is said in the reporter's words, whatever the number of the message means elsewhere. */
static void test_message_differs(void **state)
{
    (void)state;
    struct plan p = {.n = 2, .odd = 0, .act = act_odd_waits};
    struct tt_op_desc op = {.count = 7, .seq = 3, .root = 1, .dtype = TUTTI_I32, .busy = TT_OP_RECEIVING};
    p.trouble = (struct tt_trouble){.kind = TT_TROUBLE_MISMATCH, .peer = 1, .op = op, .text = "sends 8 i32 where rank 0 receives 7 i32"};
    run_all(&p);
    check_same(&p, true, TT_BLAME_MISMATCHED, 1);
    assert_non_null(strstr(text_of(1), "calls are mismatched: rank 1 ("));
    assert_non_null(strstr(text_of(1), ") sends 8 i32 where rank 0 receives 7 i32"));
}

static void test_busy(void **state)
{
    (void)state;
    struct plan p = {.n = 3, .odd = 1, .act = act_busy};
    run_all(&p);
    check_same(&p, true, TT_BLAME_MISMATCHED, 1);
    assert_non_null(
        strstr(text_of(2), "called allreduce of 21 f32 (sum) as request 1073741824 while the others called allreduce of 20 f32"));
}

/* A watch that has not begun, or has nobody to watch, still answers. */
static void test_alone(void **state)
{
    (void)state;
    struct tt_boot_config c = {.size = 1, .local_rank = -1};
    struct tutti_error err;
    struct tt_boot *b;
    struct tt_watch *w;
    struct tt_verdict v;
    struct tt_trouble t = {.kind = TT_TROUBLE_DEADLINE, .peer = UINT32_MAX, .op = sum20};
    assert_int_equal(tt_boot_open(&c, &b, &err), TUTTI_OK);
    assert_int_equal(tt_watch_open(b, SECOND, &w, &err), TUTTI_OK);
    assert_false(tt_watch_verdict(w, &v));
    tt_watch_report(w, &t);
    assert_true(tt_watch_verdict(w, &v));
    assert_int_equal(v.blame, TT_BLAME_STUCK);
    assert_int_equal(v.culprit, 0);
    assert_int_equal(v.seq, 5);
    tt_watch_close(w);
    assert_int_equal(tt_watch_open(b, SECOND, &w, &err), TUTTI_OK);
    tt_watch_await(w, tt_now_ns(), &v);
    assert_int_equal(v.blame, TT_BLAME_STUCK);
    tt_watch_close(w);
    tt_watch_close(NULL);
    tt_boot_close(b);
}

static void test_gather(void **state)
{
    (void)state;
    struct plan p = {.n = 5, .odd = RANKS_MAX, .act = act_gather};
    run_all(&p);
    check_same(&p, false, TT_BLAME_NONE, 0);
}

static void test_gather_fails(void **state)
{
    (void)state;
    for (uint32_t odd = 1; odd < 4; odd += 2) {
        struct plan killed = {.n = 4, .odd = odd, .act = act_gather, .wait_ns = 20 * SECOND};
        run_with_signal(&killed, SIGKILL);
        check_same(&killed, false, TT_BLAME_DEAD, odd);
        assert_non_null(strstr(text_of(0), "the opening of the communicator"));
    }
    struct plan stopped = {.n = 4, .odd = 2, .act = act_gather, .wait_ns = 20 * SECOND};
    run_with_signal(&stopped, SIGSTOP);
    check_same(&stopped, false, TT_BLAME_STUCK, 2);
    struct plan late = {.n = 4, .odd = 1, .act = act_gather, .wait_ns = 3 * SECOND};
    run_all(&late);
    check_same(&late, true, TT_BLAME_NOT_ENTERED, 1);
    struct plan other = {.n = 4, .odd = 2, .act = act_gather};
    run_all(&other);
    check_same(&other, true, TT_BLAME_MISMATCHED, 2);
}

static void test_odd_one(void **state)
{
    (void)state;
    for (uint32_t odd = 0; odd < 4; odd += 3) {
        struct plan before = {.n = 4, .odd = odd, .act = act_odd_before};
        run_all(&before);
        check_same(&before, true, TT_BLAME_MISMATCHED, odd);
        assert_non_null(strstr(text_of(1), "(root 1) as request 5 while the others called broadcast of 10 f32 (root 2)"));
        struct plan early = {.n = 4, .odd = odd, .act = act_odd_early};
        early.trouble = (struct tt_trouble){.kind = TT_TROUBLE_MISMATCH, .peer = odd, .op = sum20};
        run_all(&early);
        check_same(&early, true, TT_BLAME_MISMATCHED, odd);
        struct plan ahead = {.n = 4, .odd = odd, .act = act_run_ahead};
        for (ahead.trouble.kind = TT_TROUBLE_DEADLINE; ahead.trouble.kind <= TT_TROUBLE_MISMATCH; ahead.trouble.kind++) {
            run_all(&ahead);
            check_same(&ahead, true, TT_BLAME_MISMATCHED, odd);
            assert_non_null(strstr(text_of(1), "(root 1) as request 40 while the others called broadcast of 10 f32 (root 2)"));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_gather),
        cmocka_unit_test(test_gather_fails),
        cmocka_unit_test(test_odd_one),
        cmocka_unit_test(test_killed),
        cmocka_unit_test(test_killed_in_request),
        cmocka_unit_test(test_stopped),
        cmocka_unit_test(test_not_entered),
        cmocka_unit_test(test_mismatch),
        cmocka_unit_test(test_abort),
        cmocka_unit_test(test_farewell),
        cmocka_unit_test(test_broken_connection),
        cmocka_unit_test(test_babble),
        cmocka_unit_test(test_chain),
        cmocka_unit_test(test_split),
        cmocka_unit_test(test_message),
        cmocka_unit_test(test_message_of_anybody),
        cmocka_unit_test(test_message_differs),
        cmocka_unit_test(test_busy),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
