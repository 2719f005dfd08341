/* The tcp transport on real loopback connections: every size both ways, full queues, slow receivers, no allocation after opening. */
#include "count_allocations.h"
#include "transport_pair.h"

/* ---- a driver for traffic both ways ---- */

enum { HOLD_MAX = 12, INFLIGHT = 64 };

struct end {
    struct tt_transport *t;
    struct tt_rng rng;
    uint32_t next, sent, got, all; /* pieces: next to send, reported sent, received, in total each way */
    uint8_t *seen;                 /* [number]: received */
    uint8_t *out[INFLIGHT];        /* memory of pieces under way, by cookie - 1 */
    bool busy[INFLIGHT];
    uint8_t *in[STRIPES_MAX]; /* where large pieces land */
    struct tt_event held[HOLD_MAX];
    uint32_t nheld;
    size_t (*size_of)(uint32_t number);
};

static void begin(struct end *e, struct tt_transport *t, uint32_t all, size_t (*size_of)(uint32_t))
{
    *e = (struct end){.t = t, .all = all, .size_of = size_of, .seen = calloc(all, 1)};
    tt_rng_seed(&e->rng, t->rank + 1);
    for (int i = 0; i < INFLIGHT; i++)
        e->out[i] = malloc(TT_PIECE_MAX);
    for (int i = 0; i < STRIPES_MAX; i++)
        e->in[i] = malloc(TT_PIECE_MAX);
}

static void finish(struct end *e)
{
    for (int i = 0; i < INFLIGHT; i++)
        free(e->out[i]);
    for (int i = 0; i < STRIPES_MAX; i++)
        free(e->in[i]);
    free(e->seen);
}

/* Cuts [p, p + n) in up to five places, empty ones among them. */
static int cut(struct tt_rng *r, uint8_t *p, size_t n, struct iovec *iov)
{
    int pieces = 1 + (int)tt_rng_below(r, 5);
    for (int i = 0; i < pieces; i++) {
        size_t len = i == pieces - 1 ? n : (size_t)tt_rng_below(r, n + 1);
        iov[i] = (struct iovec){p, len};
        p += len;
        n -= len;
    }
    return pieces;
}

/* One more piece, if the queue takes it; every third small one without a cookie, whose memory is spoilt at once. */
static bool send_next(struct end *e)
{
    struct iovec iov[5];
    size_t n = e->size_of(e->next);
    uint64_t slot = 0, cookie;

    while (slot < INFLIGHT && e->busy[slot])
        slot++;
    if (e->next == e->all || slot == INFLIGHT)
        return false;
    cookie = n <= TT_INLINE_MAX && e->next % 3 == 0 ? 0 : slot + 1;
    fill(e->out[slot], n, e->next);
    struct tt_tag tag = tag_of(e->next);
    tutti_status status = e->t->ops->send(e->t, 1 - e->t->rank, &tag, iov, cut(&e->rng, e->out[slot], n, iov), cookie);
    if (status == TUTTI_IN_PROGRESS)
        return false;
    assert_int_equal(status, TUTTI_OK);
    e->next++;
    if (!cookie) {
        memset(e->out[slot], 0xee, n);
        e->sent++;
    }
    e->busy[slot] = cookie;
    return true;
}

static void note(struct end *e, const struct tt_event *ev)
{
    assert_int_equal(ev->peer, 1 - e->t->rank);
    check_tag(&ev->tag);
    assert_true(ev->tag.request < e->all);
    assert_int_equal(e->seen[ev->tag.request]++, 0);
    assert_int_equal(ev->bytes, e->size_of(ev->tag.request));
    e->got++;
}

/* Held events are checked when they are let go: they must not have moved or changed. */
static void let_go(struct end *e, uint32_t i)
{
    struct tt_event ev = e->held[i];
    e->held[i] = e->held[--e->nheld];
    check_content(ev.data, ev.bytes, ev.tag.request);
    e->t->ops->release(e->t, &ev);
}

static void on_data(struct end *e, const struct tt_event *ev)
{
    note(e, ev);
    assert_non_null(ev->data);
    assert_int_equal((uintptr_t)ev->data % 8, 0);
    assert_true(ev->bytes <= TT_INLINE_MAX);
    e->held[e->nheld++] = *ev;
    while (e->nheld == HOLD_MAX || (e->nheld && tt_rng_below(&e->rng, 2)))
        let_go(e, (uint32_t)tt_rng_below(&e->rng, e->nheld));
}

static void on_event(struct end *e, const struct tt_event *ev)
{
    struct iovec iov[5];
    switch (ev->kind) {
    case TT_EV_DATA:
        on_data(e, ev);
        break;
    case TT_EV_HEADER:
        assert_true(ev->bytes > TT_INLINE_MAX);
        memset(e->in[ev->stream], 0x55, ev->bytes);
        assert_int_equal(e->t->ops->accept(e->t, ev->peer, ev->stream, iov, cut(&e->rng, e->in[ev->stream], ev->bytes, iov)), TUTTI_OK);
        break;
    case TT_EV_RECEIVED:
        note(e, ev);
        check_content(e->in[ev->stream], ev->bytes, ev->tag.request);
        break;
    case TT_EV_SENT:
        assert_true(e->busy[ev->cookie - 1]);
        memset(e->out[ev->cookie - 1], 0xdd, 64); /* the memory is ours again */
        e->busy[ev->cookie - 1] = false;
        e->sent++;
        break;
    default:
        fail_msg("closed: %s", strerror(ev->error));
    }
}

static bool step(struct end *e)
{
    struct tt_event ev[8];
    while (send_next(e))
        ;
    size_t n = e->t->ops->poll(e->t, ev, 1 + tt_rng_below(&e->rng, 8));
    for (size_t i = 0; i < n; i++)
        on_event(e, &ev[i]);
    while (!n && e->nheld)
        let_go(e, 0);
    return e->got == e->all && e->sent == e->all;
}

static void exchange(struct setup s, uint32_t all, size_t (*size_of)(uint32_t))
{
    struct tt_transport *t[2];
    struct end e[2];
    allocations = 0;
    watched = 1;
    open_pair(s, t);
    for (int r = 0; r < 2; r++)
        begin(&e[r], t[r], all, size_of);
#ifdef COUNTING
    assert_true(allocations > 0);
#endif
    unsigned before = allocations;
    for (bool done[2] = {false, false}; !done[0] || !done[1];)
        for (int r = 0; r < 2; r++)
            done[r] = step(&e[r]);
    assert_int_equal(allocations - before, 0);
    watched = 0;
    for (int r = 0; r < 2; r++) {
        while (e[r].nheld)
            let_go(&e[r], 0);
        finish(&e[r]);
    }
    close_pair(t);
}

/* ---- traffic ---- */

static size_t size_small(uint32_t number)
{
    return number;
}

static size_t size_edges(uint32_t number)
{
    static const size_t edge[] = {0,
                                  1,
                                  TT_INLINE_MAX - 1,
                                  TT_INLINE_MAX,
                                  TT_INLINE_MAX + 1,
                                  TT_INLINE_MAX + 8,
                                  (32 << 10) - 49,
                                  (32 << 10) - 48,
                                  (32 << 10) + 1,
                                  (128 << 10) - 3,
                                  128 << 10,
                                  (256 << 10) + 5,
                                  TT_PIECE_MAX - 7,
                                  TT_PIECE_MAX - 1,
                                  TT_PIECE_MAX};
    return edge[number % countof(edge)];
}

/* Half tiny, the rest spread over all magnitudes. */
static size_t size_random(uint32_t number)
{
    uint64_t h = tt_mix64(number + 77);
    size_t limit = h & 1 ? 64 : (size_t)1 << (h >> 1) % 21;
    return (size_t)(h >> 20) % (limit + 1);
}

static size_t size_inline(uint32_t number)
{
    return (size_t)tt_mix64(number) % (TT_INLINE_MAX + 1);
}

static void every_small_size(void **state)
{
    (void)state;
    exchange((struct setup){.stripes = 1}, 1200, size_small);
}

static void edges(void **state)
{
    (void)state;
    for (uint32_t stripes = 1; stripes <= STRIPES_MAX; stripes++)
        exchange((struct setup){.stripes = stripes}, 45, size_edges);
}

static void random_sizes(void **state)
{
    (void)state;
    exchange((struct setup){.stripes = 1}, 1500, size_random);
    exchange((struct setup){.stripes = 3, .queue = 5}, 1500, size_random);
}

/* Kernel buffers of a few KiB: nearly every read and write is partial. */
static void tiny_kernel_buffers(void **state)
{
    (void)state;
    exchange((struct setup){.stripes = 1, .buffer = 4096, .queue = 3}, 300, size_random);
    exchange((struct setup){.stripes = 2, .buffer = 4096}, 30, size_edges);
    exchange((struct setup){.stripes = 2, .buffer = 2048}, 500, size_inline);
}

/* ---- a slow receiver ---- */

/* Fills the queue; returns how many pieces it took. */
static uint32_t fill_queue(struct tt_transport *t, const uint8_t *p, size_t n, bool cookies)
{
    uint32_t number = 0;
    tutti_status status;
    while (!(status = send_one(t, 1, number, p, n, cookies ? number + 1 : 0)))
        if (++number > 1000000)
            fail_msg("the queue never fills");
    assert_int_equal(status, TUTTI_IN_PROGRESS);
    return number;
}

static void full_queue(void **state)
{
    static uint8_t p[64 << 10];
    struct tt_transport *t[2];
    struct tt_event ev[4];
    (void)state;
    open_pair((struct setup){.stripes = 2, .queue = 8}, t);
    uint32_t took = fill_queue(t[0], p, sizeof p, true), sent = 0, got = 0;
    assert_true(took >= 16);
    assert_int_equal(send_one(t[0], 1, 0, p, 1, took), TUTTI_IN_PROGRESS);
    while (got < took || sent < took) {
        for (size_t i = 0, n = t[0]->ops->poll(t[0], ev, countof(ev)); i < n; i++)
            sent += ev[i].kind == TT_EV_SENT;
        for (size_t i = 0, n = t[1]->ops->poll(t[1], ev, countof(ev)); i < n; i++) {
            struct iovec v = {p, sizeof p};
            if (ev[i].kind == TT_EV_HEADER)
                assert_int_equal(t[1]->ops->accept(t[1], 0, ev[i].stream, &v, 1), TUTTI_OK);
            got += ev[i].kind == TT_EV_RECEIVED;
        }
    }
    expect_silence(t[0]);
    expect_silence(t[1]);
    close_pair(t);
}

/* Copied pieces: memory may change at once; when there is no room for the copy, the answer is "in progress", and wait returns when there is
 * room again although no event comes. */
static void full_queue_of_copies(void **state)
{
    uint8_t p[10000];
    struct tt_transport *t[2];
    (void)state;
    open_pair((struct setup){.stripes = 1, .buffer = 4096}, t);
    uint32_t took = 0, got = 0;
    for (;; took++) {
        fill(p, sizeof p, took);
        if (send_one(t[0], 1, took, p, sizeof p, 0))
            break;
        memset(p, 0, sizeof p);
    }
    assert_true(took >= 5);
    for (; got < took; got++) {
        struct tt_event ev;
        while (!t[1]->ops->poll(t[1], &ev, 1))
            assert_int_equal(t[0]->ops->poll(t[0], &ev, 1), 0);
        assert_int_equal(ev.tag.request, got);
        check_content(ev.data, ev.bytes, got);
        t[1]->ops->release(t[1], &ev);
    }
    assert_int_equal(send_one(t[0], 1, took, p, sizeof p, 0), TUTTI_OK);
    close_pair(t);
}

static void swallow(struct tt_transport *t)
{
    for (;;) {
        struct tt_event ev = next_event(t);
        if (ev.kind == TT_EV_CLOSED)
            return;
        t->ops->release(t, &ev);
    }
}

/* Pieces in as many places as allowed, with padding: the list of places is full before the queue is. */
static void many_places(void **state)
{
    enum { EACH = 333, N = TT_IOV_MAX * EACH, ALL = 40 };
    static uint8_t p[ALL][N], place[N];
    struct iovec v[TT_IOV_MAX], in = {place, N};
    struct tt_transport *t[2];
    struct tt_event ev;
    (void)state;
    open_pair((struct setup){.stripes = 1, .buffer = 4096, .queue = 8}, t);
    for (uint32_t next = 0, got = 0; got < ALL;) {
        struct tt_tag tag = tag_of(next);
        for (int i = 0; next < ALL && i < TT_IOV_MAX; i++)
            v[i] = (struct iovec){p[next] + i * EACH, EACH};
        if (next < ALL)
            fill(p[next], N, next);
        if (next < ALL && !t[0]->ops->send(t[0], 1, &tag, v, TT_IOV_MAX, 1))
            next++;
        t[0]->ops->poll(t[0], &ev, 1);
        if (!t[1]->ops->poll(t[1], &ev, 1))
            continue;
        if (ev.kind == TT_EV_HEADER)
            assert_int_equal(t[1]->ops->accept(t[1], 0, 0, &in, 1), TUTTI_OK);
        else
            check_content(place, N, got++);
    }
    close_pair(t);
}

static void wait_sees_room(void **state)
{
    static uint8_t p[12000];
    pid_t pid;
    (void)state;
    struct tt_transport *t = fork_pair((struct setup){.stripes = 1, .buffer = 4096}, swallow, &pid);
    for (int i = 0; i < 500; i++)
        while (send_one(t, 1, 0, p, sizeof p, 0) == TUTTI_IN_PROGRESS) {
            struct tt_event ev;
            uint64_t deadline = tt_now_ns() + UINT64_C(10000000000);
            assert_int_equal(t->ops->poll(t, &ev, 1), 0);
            t->ops->wait(t, deadline);
            assert_true(tt_now_ns() < deadline);
        }
    t->ops->close(t);
    expect_exit(pid, 0);
}

/* Events that are not released fill the buffer; nothing moves, nothing more comes, and nobody spins. */
static void unreleased_data(void **state)
{
    enum { N = 40 };
    uint8_t p[9001];
    struct tt_transport *t[2];
    struct tt_event ev[N];
    uint32_t got = 0;
    (void)state;
    open_pair((struct setup){.stripes = 1}, t);
    for (uint32_t i = 0; i < N; i++) {
        fill(p, sizeof p, i);
        assert_int_equal(send_one(t[0], 1, i, p, sizeof p, 0), TUTTI_OK);
    }
    for (int i = 0; i < 1000; i++)
        got += (uint32_t)t[1]->ops->poll(t[1], ev + got, N - got);
    assert_true(got >= 10 && got < 16);
    expect_silence(t[1]);
    for (uint32_t first = 0; first < N;) {
        for (uint32_t i = first; i < got; i++)
            check_content(ev[i].data, ev[i].bytes, i);
        for (uint32_t i = got; i-- > first;)
            t[1]->ops->release(t[1], &ev[i]);
        first = got;
        while (got < N && got == first)
            got += (uint32_t)t[1]->ops->poll(t[1], ev + got, N - got);
    }
    close_pair(t);
}

/* An unanswered announcement stops its stream only, and does not keep the waiting rank awake. */
static void unanswered_header(void **state)
{
    static uint8_t big[100001], place[100001];
    struct tt_transport *t[2];
    struct iovec v = {place, sizeof place};
    (void)state;
    open_pair((struct setup){.stripes = 2}, t);
    fill(big, sizeof big, 7);
    assert_int_equal(send_one(t[0], 1, 7, big, sizeof big, 1), TUTTI_OK);
    struct tt_event head = next_event(t[1]);
    assert_int_equal(head.kind, TT_EV_HEADER);
    assert_int_equal(head.bytes, sizeof big);
    expect_silence(t[1]);
    for (uint32_t i = 0; i < 2; i++)
        assert_int_equal(send_one(t[0], 1, 8, big, 3, 0), TUTTI_OK);
    struct tt_event other = next_event(t[1]);
    assert_int_equal(other.kind, TT_EV_DATA);
    assert_true(other.stream != head.stream);
    t[1]->ops->release(t[1], &other);
    expect_silence(t[1]);
    v.iov_len--;
    assert_int_equal(t[1]->ops->accept(t[1], 0, head.stream, &v, 1), TUTTI_ERR_ARG);
    assert_int_equal(t[1]->ops->accept(t[1], 0, other.stream, &v, 1), TUTTI_ERR_ARG);
    v.iov_len++;
    assert_int_equal(t[1]->ops->accept(t[1], 0, head.stream, &v, 1), TUTTI_OK);
    struct tt_event done = next_event(t[1]);
    assert_int_equal(done.kind, TT_EV_RECEIVED);
    check_tag(&done.tag);
    check_content(place, sizeof place, 7);
    assert_int_equal(next_event(t[1]).kind, TT_EV_DATA);
    close_pair(t);
}

/* ---- two processes that sleep ---- */

static void echo(struct tt_transport *t)
{
    static uint8_t place[TT_PIECE_MAX];
    for (;;) {
        struct tt_event ev = next_event(t);
        struct iovec v = {place, ev.bytes};
        if (ev.kind == TT_EV_CLOSED)
            return;
        if (ev.kind == TT_EV_HEADER && t->ops->accept(t, 0, ev.stream, &v, 1))
            _exit(1);
        if (ev.kind == TT_EV_DATA)
            memcpy(place, ev.data, ev.bytes);
        t->ops->release(t, &ev);
        if ((ev.kind == TT_EV_DATA || ev.kind == TT_EV_RECEIVED) && t->ops->send(t, 0, &ev.tag, &v, 1, 9))
            _exit(2);
    }
}

/* Sends a piece and checks what comes back. */
static void ask_echo(struct tt_transport *t, uint32_t number, uint8_t *p, size_t n)
{
    struct iovec v = {p + TT_PIECE_MAX, n};
    fill(p, n, number);
    assert_int_equal(send_one(t, 1, number, p, n, 3), TUTTI_OK);
    for (int left = 2; left > 0;) {
        struct tt_event ev = next_event(t);
        if (ev.kind == TT_EV_HEADER) {
            assert_int_equal(t->ops->accept(t, 1, ev.stream, &v, 1), TUTTI_OK);
            continue;
        }
        left--;
        if (ev.kind == TT_EV_DATA)
            check_content(ev.data, n, number);
        if (ev.kind == TT_EV_RECEIVED)
            check_content(v.iov_base, n, number);
        t->ops->release(t, &ev);
    }
}

static void two_processes(void **state)
{
    uint8_t *p = malloc(2 * TT_PIECE_MAX);
    pid_t pid;
    (void)state;
    struct tt_transport *t = fork_pair((struct setup){.stripes = 2}, echo, &pid);
    for (uint32_t i = 0; i < 400; i++)
        ask_echo(t, i, p, size_random(i));
    t->ops->close(t);
    expect_exit(pid, 0);
    free(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_small_size),    cmocka_unit_test(edges),         cmocka_unit_test(random_sizes),
        cmocka_unit_test(tiny_kernel_buffers), cmocka_unit_test(full_queue),    cmocka_unit_test(full_queue_of_copies),
        cmocka_unit_test(wait_sees_room),      cmocka_unit_test(many_places),   cmocka_unit_test(unreleased_data),
        cmocka_unit_test(unanswered_header),   cmocka_unit_test(two_processes),
    };
    return run_guarded("transport tcp", tests, countof(tests), GUARD_NONE);
}
