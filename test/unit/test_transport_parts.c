/* The transports that are built on others or on nothing: self, mux and fault. */
#include "transport_pair.h"

#include <errno.h>

/* ---- self ---- */

static void self_small(void **state)
{
    uint8_t p[3000];
    struct tt_transport *t;
    struct tt_event ev[64];
    (void)state;
    assert_int_equal(tt_self_open(2, 5, &t, NULL), TUTTI_OK);
    expect_silence(t);
    for (uint32_t i = 0; i < 64; i++) {
        fill(p, i * 40, i);
        assert_int_equal(send_one(t, 2, i, p, i * 40, i % 2 ? i : 0), TUTTI_OK);
    }
    assert_int_equal(send_one(t, 2, 0, p, 1, 1), TUTTI_IN_PROGRESS);
    assert_int_equal(send_one(t, 1, 0, p, 1, 1), TUTTI_ERR_ARG);
    assert_int_equal(t->ops->poll(t, ev, 64), 64);
    for (uint32_t i = 64; i-- > 0;) {
        assert_int_equal(ev[i].kind, TT_EV_DATA);
        assert_int_equal(ev[i].peer, 2);
        assert_int_equal(ev[i].bytes, i * 40);
        check_tag(&ev[i].tag);
        check_content(ev[i].data, ev[i].bytes, i);
        t->ops->release(t, &ev[i]);
    }
    assert_int_equal(t->ops->poll(t, ev, 64), 32);
    for (uint32_t i = 0; i < 32; i++) {
        assert_int_equal(ev[i].kind, TT_EV_SENT);
        assert_int_equal(ev[i].cookie, 2 * i + 1);
    }
    expect_silence(t);
    t->ops->close(t);
}

static void self_large(void **state)
{
    static uint8_t p[100001], place[100001];
    struct tt_tag tag = tag_of(4);
    struct tt_transport *t;
    (void)state;
    assert_int_equal(tt_self_open(0, 1, &t, NULL), TUTTI_OK);
    fill(p, sizeof p, 4);
    struct iovec out[2] = {{p, 60000}, {p + 60000, 40001}}, in[3] = {{place, 1}, {place + 1, 70000}, {place + 70001, 30000}};
    assert_int_equal(t->ops->send(t, 0, &tag, out, 2, 11), TUTTI_OK);
    assert_int_equal(send_one(t, 0, 5, p, 3, 0), TUTTI_OK);
    assert_int_equal(t->ops->accept(t, 0, 0, in, 3), TUTTI_ERR_ARG);
    assert_int_equal(next_event(t).kind, TT_EV_HEADER);
    expect_silence(t);
    assert_int_equal(t->ops->accept(t, 0, 0, in, 2), TUTTI_ERR_ARG);
    assert_int_equal(t->ops->accept(t, 0, 0, in, 3), TUTTI_OK);
    assert_int_equal(next_event(t).kind, TT_EV_RECEIVED);
    check_content(place, sizeof place, 4);
    struct tt_event ev = next_event(t);
    assert_int_equal(ev.kind, TT_EV_SENT);
    assert_int_equal(ev.cookie, 11);
    assert_int_equal(next_event(t).kind, TT_EV_DATA);
    t->ops->close(t);
}

/* ---- mux ---- */

/* Rank 0 of 3: itself, rank 1 and rank 2 by parts of their own; far[] are the two other ends, as ranks 1 and 2. */
static struct tt_transport *open_mux(struct tt_transport *far[2])
{
    static const uint8_t route[] = {1, 0, 2};
    struct tt_transport *part[3], *m;
    int fds[2][3];
    assert_int_equal(tt_self_open(0, 3, &part[1], NULL), TUTTI_OK);
    for (uint32_t i = 0; i < 2; i++) {
        int fd[2];
        connect_pair(fd, 0);
        for (int k = 0; k < 3; k++)
            fds[0][k] = fds[1][k] = -1;
        fds[0][i + 1] = fd[0];
        fds[1][0] = fd[1];
        struct tt_tcp_config here = {.rank = 0, .size = 3, .stripes = 1, .fds = fds[0]};
        struct tt_tcp_config there = {.rank = i + 1, .size = 3, .stripes = 1, .fds = fds[1]};
        assert_int_equal(tt_tcp_open(&here, &part[i ? 2 : 0], NULL), TUTTI_OK);
        assert_int_equal(tt_tcp_open(&there, &far[i], NULL), TUTTI_OK);
    }
    assert_int_equal(tt_mux_open(0, 3, part, 3, route, &m, NULL), TUTTI_OK);
    return m;
}

static void mux_routes(void **state)
{
    static uint8_t p[50000], place[50000];
    struct tt_transport *far[2], *m = open_mux(far);
    (void)state;
    expect_silence(m);
    for (uint32_t r = 0; r < 3; r++) {
        struct tt_transport *to = r ? far[r - 1] : m;
        struct iovec v = {place, sizeof place};
        fill(p, sizeof p, r);
        assert_int_equal(send_one(m, r, r, p, sizeof p, 7), TUTTI_OK);
        struct tt_event ev = next_event(to);
        while (ev.kind == TT_EV_SENT)
            ev = next_event(to);
        assert_int_equal(ev.kind, TT_EV_HEADER);
        assert_int_equal(ev.peer, 0);
        assert_int_equal(to->ops->accept(to, 0, 0, &v, 1), TUTTI_OK);
        assert_int_equal(next_event(to).kind, TT_EV_RECEIVED);
        check_content(place, sizeof place, r);
        assert_int_equal(next_event(m).kind, TT_EV_SENT);
    }
    for (uint32_t r = 1; r < 3; r++) {
        assert_int_equal(send_one(far[r - 1], 0, r, p, 5, 0), TUTTI_OK);
        struct tt_event ev = next_event(m);
        assert_int_equal(ev.kind, TT_EV_DATA);
        assert_int_equal(ev.peer, r);
        m->ops->release(m, &ev);
    }
    assert_int_equal(send_one(m, 3, 0, p, 1, 0), TUTTI_ERR_ARG);
    far[1]->ops->close(far[1]);
    expect_closed(m, 2, 0);
    assert_int_equal(send_one(m, 2, 0, p, 1, 0), TUTTI_ERR_IO);
    assert_int_equal(send_one(m, 1, 0, p, 1, 0), TUTTI_OK);
    m->ops->close(m);
    far[0]->ops->close(far[0]);
}

static void wait_now(struct tt_transport *t)
{
    uint64_t deadline = tt_now_ns() + UINT64_C(10000000000);
    t->ops->wait(t, deadline);
    assert_true(tt_now_ns() < deadline);
}

/* News of the part that carries only this rank end a wait on the others. */
static void mux_wait_own(void **state)
{
    static uint8_t p[TT_INLINE_MAX + 1], place[TT_INLINE_MAX + 1];
    struct iovec v = {place, sizeof place};
    struct tt_transport *far[2], *m = open_mux(far);
    struct tt_event ev;
    (void)state;
    expect_silence(m);
    assert_int_equal(send_one(m, 0, 0, p, 5, 1), TUTTI_OK);
    wait_now(m);
    assert_int_equal(m->ops->poll(m, &ev, 1), 1);
    expect_silence(m);
    m->ops->release(m, &ev);
    wait_now(m);
    assert_int_equal(next_event(m).kind, TT_EV_SENT);
    assert_int_equal(send_one(m, 0, 0, p, sizeof p, 1), TUTTI_OK);
    assert_int_equal(next_event(m).kind, TT_EV_HEADER);
    expect_silence(m);
    assert_int_equal(m->ops->accept(m, 0, 0, &v, 1), TUTTI_OK);
    wait_now(m);
    assert_int_equal(next_event(m).kind, TT_EV_RECEIVED);
    m->ops->close(m);
    for (int i = 0; i < 2; i++)
        far[i]->ops->close(far[i]);
}

/* A peer that comes by the wrong part gets its end, once and as the last word, although the right part goes on. */
static void mux_stray(void **state)
{
    struct tt_transport *right[2], *wrong[2], *m;
    int closed = 0;
    (void)state;
    open_pair((struct setup){.stripes = 1}, right);
    open_pair((struct setup){.stripes = 1}, wrong);
    struct tt_transport *part[2] = {right[0], wrong[0]};
    assert_int_equal(tt_mux_open(0, 2, part, 2, (const uint8_t[]){1, 2}, &m, NULL), TUTTI_ERR_ARG);
    assert_int_equal(tt_mux_open(2, 2, part, 2, (const uint8_t[]){1, 0}, &m, NULL), TUTTI_ERR_ARG);
    assert_int_equal(tt_mux_open(0, 2, part, 2, (const uint8_t[]){1, 0}, &m, NULL), TUTTI_OK);
    for (uint32_t i = 0; i < 10; i++) {
        assert_int_equal(send_one(wrong[1], 0, i, "stray", 5, 0), TUTTI_OK);
        assert_int_equal(send_one(right[1], 0, i, "right", 5, 0), TUTTI_OK);
    }
    m->ops->wait(m, tt_now_ns() + UINT64_C(10000000000));
    for (int i = 0; i < 100; i++) {
        struct tt_event ev;
        if (!m->ops->poll(m, &ev, 1))
            continue;
        assert_int_equal(closed, 0);
        closed = ev.kind == TT_EV_CLOSED;
        assert_int_equal(ev.error, closed ? EPROTO : 0);
        m->ops->release(m, &ev);
    }
    assert_int_equal(closed, 1);
    m->ops->close(m);
    right[1]->ops->close(right[1]);
    wrong[1]->ops->close(wrong[1]);
}

/* ---- fault ---- */

enum { PIECES = 400 };

/* What came of PIECES pieces of 100 bytes that rank 0 sent through a fault transport. */
struct outcome {
    uint32_t sent, whole, cut, flipped, early; /* early: before one with a lower number */
    uint8_t got[PIECES];
};

static void take(struct tt_transport *t, const struct tt_event *ev, struct outcome *o, uint32_t *newest)
{
    struct tt_tag want = tag_of(ev->tag.request);
    bool flipped = want.fingerprint != ev->tag.fingerprint;
    assert_int_equal(ev->kind, TT_EV_DATA);
    check_content(ev->data, ev->bytes, ev->tag.request);
    assert_int_equal(o->got[ev->tag.request]++, 0);
    o->flipped += flipped;
    o->cut += ev->bytes == 99;
    o->whole += ev->bytes == 100 && !flipped;
    o->early += ev->tag.request < *newest;
    *newest = ev->tag.request > *newest ? ev->tag.request : *newest;
    t->ops->release(t, ev);
}

static struct outcome run_faults(struct tt_fault_config c)
{
    struct tt_transport *t[2], *f;
    struct outcome o = {0};
    struct tt_event ev;
    uint8_t p[100];
    uint32_t newest = 0;
    open_pair((struct setup){.stripes = 1}, t);
    assert_int_equal(tt_fault_open(t[0], &c, &f, NULL), TUTTI_OK);
    for (uint32_t i = 0; i < PIECES;) {
        static uint8_t kept[PIECES][100];
        fill(kept[i], 100, i);
        fill(p, 100, i);
        tutti_status status = send_one(f, 1, i, i % 2 ? kept[i] : p, 100, i % 2 ? i : 0);
        i += status == TUTTI_OK;
        if (f->ops->poll(f, &ev, 1))
            o.sent++;
        while (t[1]->ops->poll(t[1], &ev, 1))
            take(t[1], &ev, &o, &newest);
    }
    for (uint64_t until = tt_now_ns() + 30000000; tt_now_ns() < until;) {
        o.sent += f->ops->poll(f, &ev, 1) > 0;
        while (t[1]->ops->poll(t[1], &ev, 1))
            take(t[1], &ev, &o, &newest);
        f->ops->wait(f, tt_now_ns() + 500000);
    }
    f->ops->close(f);
    t[1]->ops->close(t[1]);
    return o;
}

static void fault_none(void **state)
{
    (void)state;
    struct outcome o = run_faults((struct tt_fault_config){.seed = 1});
    assert_int_equal(o.whole, PIECES);
    assert_int_equal(o.sent, PIECES / 2);
    assert_int_equal(o.early, 0);
}

static void fault_drop_and_corrupt(void **state)
{
    (void)state;
    struct tt_fault_config c = {.seed = 5, .drop_permille = 200, .corrupt_permille = 300};
    struct outcome o = run_faults(c), again = run_faults(c);
    uint32_t came = o.whole + o.cut + o.flipped;
    assert_in_range(came, PIECES * 7 / 10, PIECES * 9 / 10);
    assert_in_range(o.cut, came / 10, came / 5);
    assert_in_range(o.flipped, came / 10, came / 5);
    assert_int_equal(o.sent, PIECES / 2); /* the sender never learns */
    assert_memory_equal(o.got, again.got, sizeof o.got);
    c.seed++;
    again = run_faults(c);
    assert_memory_not_equal(o.got, again.got, sizeof o.got);
}

static void fault_delay(void **state)
{
    (void)state;
    struct outcome o = run_faults((struct tt_fault_config){.seed = 3, .delay_permille = 300, .delay_ns = 200000});
    assert_int_equal(o.whole, PIECES);
    assert_int_equal(o.sent, PIECES / 2);
    assert_true(o.early > 10);
}

/* A wait ends when a delayed piece is due, and with news of the fault transport's own. */
static void fault_wait(void **state)
{
    struct tt_transport *t[2], *f;
    struct tt_event ev;
    (void)state;
    open_pair((struct setup){.stripes = 1}, t);
    assert_int_equal(tt_fault_open(t[0], &(struct tt_fault_config){.delay_permille = 1000, .delay_ns = 5000000}, &f, NULL), TUTTI_OK);
    expect_silence(f);
    assert_int_equal(send_one(f, 1, 0, "abc", 3, 1), TUTTI_OK);
    assert_int_equal(f->ops->poll(f, &ev, 1), 0);
    wait_now(f);
    assert_int_equal(next_event(f).kind, TT_EV_SENT);
    assert_int_equal(next_event(t[1]).kind, TT_EV_DATA);
    f->ops->close(f);
    t[1]->ops->close(t[1]);

    open_pair((struct setup){.stripes = 1}, t);
    assert_int_equal(tt_fault_open(t[0], &(struct tt_fault_config){.drop_permille = 1000}, &f, NULL), TUTTI_OK);
    expect_silence(f);
    assert_int_equal(send_one(f, 1, 0, "abc", 3, 1), TUTTI_OK);
    wait_now(f);
    assert_int_equal(next_event(f).kind, TT_EV_SENT);
    expect_silence(t[1]);
    f->ops->close(f);
    t[1]->ops->close(t[1]);
}

static void fault_close(void **state)
{
    struct tt_transport *t[2], *f;
    (void)state;
    open_pair((struct setup){.stripes = 2}, t);
    assert_int_equal(tt_fault_open(t[0], &(struct tt_fault_config){.close_after = 3}, &f, NULL), TUTTI_OK);
    assert_int_equal(send_one(t[1], 0, 0, "abc", 3, 0), TUTTI_OK);
    struct tt_event kept = next_event(f);
    for (uint32_t i = 0; i < 3; i++)
        assert_int_equal(send_one(f, 1, i, "abc", 3, i), TUTTI_OK);
    assert_int_equal(send_one(f, 1, 3, "abc", 3, 0), TUTTI_ERR_IO);
    expect_closed(f, 1, ECONNRESET);
    expect_silence(f);
    assert_memory_equal(kept.data, "abc", 3);
    f->ops->release(f, &kept);
    struct tt_event ev;
    do {
        ev = next_event(t[1]);
        t[1]->ops->release(t[1], &ev);
    } while (ev.kind != TT_EV_CLOSED);
    f->ops->close(f);
    t[1]->ops->close(t[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(self_small),  cmocka_unit_test(self_large),  cmocka_unit_test(mux_routes),
        cmocka_unit_test(mux_stray),   cmocka_unit_test(fault_none),  cmocka_unit_test(fault_drop_and_corrupt),
        cmocka_unit_test(fault_delay), cmocka_unit_test(fault_close), cmocka_unit_test(mux_wait_own),
        cmocka_unit_test(fault_wait),
    };
    return cmocka_run_group_tests_name("transport parts", tests, NULL, NULL);
}
