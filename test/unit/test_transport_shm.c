/* The shared-memory transport between real processes and between threads: every byte, order, full rings, frames released in any order,
 * sleepers woken, deadlines, peers that end, are killed or write rubbish. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "local_ranks.h"
#include "transport/shm_ring.h"
#include "transport/transport.h"

static const uint64_t SECOND = 1000000000;

static struct tt_transport *open_shm(uint32_t me, uint32_t n, void *region, uint32_t ring, bool oversubscribed)
{
    uint32_t local[RANKS_MAX];
    struct tt_transport *t;
    struct tutti_error err;

    /* Local rank i is rank 3i + 1 of a larger communicator. */
    for (uint32_t i = 0; i < n; i++)
        local[i] = 3 * i + 1;
    struct tt_shm_config c = {.rank = local[me],
                              .size = 3 * n,
                              .nlocal = n,
                              .me = me,
                              .local = local,
                              .region = region,
                              .ring_bytes = ring,
                              .oversubscribed = oversubscribed};
    CHECK(tt_shm_open(&c, &t, &err) == TUTTI_OK);
    return t;
}

static uint32_t rank_of(uint32_t local)
{
    return 3 * local + 1;
}

static tutti_status send1(struct tt_transport *t, uint32_t peer, uint32_t message, const void *p, size_t bytes, uint64_t cookie)
{
    struct tt_tag tag = {.fingerprint = 0x1122334455667788, .request = 7, .message = message, .segment = 3, .comm = 5, .channel = 9};
    struct iovec iov[3] = {{.iov_base = (void *)(uintptr_t)p, .iov_len = bytes / 3},
                           {.iov_base = NULL, .iov_len = 0},
                           {.iov_base = (char *)(uintptr_t)p + bytes / 3, .iov_len = bytes - bytes / 3}};
    return t->ops->send(t, peer, &tag, iov, 3, cookie);
}

/* ---- everybody sends everybody messages of all sizes ---- */

struct traffic {
    uint32_t ring, messages;
    bool oversubscribed;
};

static uint32_t size_of(uint32_t from, uint32_t to, uint32_t k, uint32_t max)
{
    uint64_t h = tt_mix64(((uint64_t)from << 40) ^ ((uint64_t)to << 32) ^ k);
    static const uint32_t edges[] = {0, 1, 8, 31, 32, 33, 63, 64, 65, 127, 128, 129};

    if (k % 5 == 0)
        return edges[h % countof(edges)];
    if (k % 97 == 0)
        return max - (uint32_t)(h % 3);
    return (uint32_t)(h % (k % 3 ? 300 : max));
}

static unsigned char byte_of(uint32_t from, uint32_t k, uint32_t i)
{
    return (unsigned char)(from * 31 + k * 7 + i * 13 + (i >> 8));
}

static void check_data(const struct tt_event *ev, uint32_t me, uint32_t k, uint32_t max)
{
    uint32_t from = (ev->peer - 1) / 3;
    const unsigned char *p = ev->data;

    CHECK(ev->tag.message == k && ev->tag.fingerprint == 0x1122334455667788 && ev->tag.request == 7 && ev->tag.segment == 3);
    CHECK(ev->tag.comm == 5 && ev->tag.channel == 9);
    CHECK(ev->bytes == size_of(from, me, k, max) && p && (uintptr_t)p % 8 == 0);
    for (uint32_t i = 0; i < ev->bytes; i++)
        CHECK(p[i] == byte_of(from, k, i));
}

enum { HELD = 5 };
struct held {
    struct tt_event ev[HELD];
    uint32_t n;
};

/* Keeps a few frames back and releases a random one of them. */
static void hold(struct tt_transport *t, struct held *h, const struct tt_event *ev, struct tt_rng *rng, uint32_t ring)
{
    if (h->n < HELD && ev->bytes < ring / 16) {
        h->ev[h->n++] = *ev;
        return;
    }
    if (h->n) {
        uint32_t pick = (uint32_t)tt_rng_below(rng, h->n);
        t->ops->release(t, &h->ev[pick]);
        h->ev[pick] = h->ev[--h->n];
    }
    t->ops->release(t, ev);
}

struct talk {
    uint32_t sent[RANKS_MAX], got[RANKS_MAX], done[RANKS_MAX], closed;
    struct held held[RANKS_MAX];
};

static void take_events(struct tt_transport *t, struct talk *k, uint32_t me, const struct traffic *c, struct tt_rng *rng)
{
    struct tt_event ev[7];
    size_t n = t->ops->poll(t, ev, countof(ev));

    for (size_t i = 0; i < n; i++) {
        uint32_t from = (ev[i].peer - 1) / 3;
        CHECK(ev[i].peer == rank_of(from) && ev[i].stream == 0);
        if (ev[i].kind == TT_EV_SENT) {
            CHECK(ev[i].cookie == 1000u + k->done[from]);
            k->done[from]++;
        } else if (ev[i].kind == TT_EV_CLOSED) {
            CHECK(ev[i].error == 0 && k->got[from] == c->messages);
            k->closed++;
        } else {
            CHECK(ev[i].kind == TT_EV_DATA);
            check_data(&ev[i], me, k->got[from]++, c->ring / 2);
            hold(t, &k->held[from], &ev[i], rng, c->ring);
        }
    }
}

static bool try_send(struct tt_transport *t, struct talk *k, uint32_t me, uint32_t to, const struct traffic *c, unsigned char *buf)
{
    uint32_t m = k->sent[to], bytes = size_of(me, to, m, c->ring / 2);

    for (uint32_t i = 0; i < bytes; i++)
        buf[i] = byte_of(me, m, i);
    tutti_status s = send1(t, rank_of(to), m, buf, bytes, 1000u + m);
    CHECK(s == TUTTI_OK || s == TUTTI_IN_PROGRESS);
    memset(buf, 0xee, bytes); /* copied: ours again at once */
    k->sent[to] += s == TUTTI_OK;
    return s == TUTTI_OK;
}

static void all_to_all(uint32_t me, uint32_t n, void *region, void *arg)
{
    const struct traffic *c = arg;
    struct tt_transport *t = open_shm(me, n, region, c->ring, c->oversubscribed);
    struct talk *k = calloc(1, sizeof *k);
    unsigned char *buf = malloc(c->ring);
    uint64_t deadline = tt_now_ns() + 60 * SECOND, left = (uint64_t)(n - 1) * c->messages * 3;
    struct tt_rng rng;

    CHECK(k && buf);
    tt_rng_seed(&rng, me);
    while (left) {
        bool moved = false;
        for (uint32_t to = 0; to < n; to++)
            if (to != me && k->sent[to] < c->messages)
                moved |= try_send(t, k, me, to, c, buf);
        take_events(t, k, me, c, &rng);
        left = 0;
        for (uint32_t r = 0; r < n; r++)
            left += r == me ? 0 : 3u * c->messages - k->sent[r] - k->got[r] - k->done[r];
        CHECK(tt_now_ns() < deadline);
        for (uint32_t r = 0; r < n; r++) /* what is held back must not block a sender for ever */
            while (!moved && k->held[r].n)
                t->ops->release(t, &k->held[r].ev[--k->held[r].n]);
        if (left && !moved)
            t->ops->wait(t, deadline);
    }
    CHECK(k->closed < n);
    free(buf);
    free(k);
    t->ops->close(t);
}

static void test_all_sizes(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 3, 4, 8};
    for (size_t i = 0; i < countof(counts); i++)
        for (uint32_t ring = 4096; ring <= 65536; ring *= 16) {
            struct traffic c = {.ring = ring, .messages = (ring > 4096 ? 300u : 1000u) / counts[i], .oversubscribed = counts[i] > 2};
            assert_int_equal(run_processes(counts[i], tt_shm_bytes(counts[i], ring), all_to_all, &c), 0);
            run_threads(counts[i], tt_shm_bytes(counts[i], ring), all_to_all, &c);
        }
}

/* ---- one process, both ends: exact ---- */

struct pair {
    void *region;
    struct tt_transport *t[2];
};

static void pair_open(struct pair *p, uint32_t ring)
{
    p->region = shared_region(tt_shm_bytes(2, ring));
    for (uint32_t i = 0; i < 2; i++)
        p->t[i] = open_shm(i, 2, p->region, ring, false);
}

static void pair_close(struct pair *p, uint32_t ring)
{
    for (uint32_t i = 0; i < 2; i++)
        if (p->t[i])
            p->t[i]->ops->close(p->t[i]);
    munmap(p->region, tt_shm_bytes(2, ring));
}

static struct tt_event take1(struct tt_transport *t)
{
    struct tt_event ev = {.bytes = 0};
    assert_int_equal(t->ops->poll(t, &ev, 1), 1);
    return ev;
}

static void test_full_ring(void **state)
{
    (void)state;
    struct pair p;
    char buf[2048] = {1};
    struct tt_event ev[64];
    uint32_t n = 0;

    pair_open(&p, 4096);
    while (send1(p.t[0], 4, n, buf, 448, 0) == TUTTI_OK)
        n++;
    /* 512 bytes each, 4096 + 256 in all, one unit stays free. */
    assert_int_equal(n, 8);
    assert_int_equal(send1(p.t[0], 4, n, buf, 448, 0), TUTTI_IN_PROGRESS);
    assert_int_equal(p.t[1]->ops->poll(p.t[1], ev, 64), 8);
    assert_int_equal(send1(p.t[0], 4, n, buf, 448, 0), TUTTI_IN_PROGRESS);
    /* The second to last of them released first, the oldest last: only then is there room. */
    for (uint32_t i = 7; i > 0; i--) {
        p.t[1]->ops->release(p.t[1], &ev[i]);
        assert_int_equal(send1(p.t[0], 4, n, buf, 448, 0), TUTTI_IN_PROGRESS);
    }
    p.t[1]->ops->release(p.t[1], &ev[0]);
    /* Half a frame before the end is skipped: one frame less. */
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(send1(p.t[0], 4, 100 + i, buf, 448, 0), TUTTI_OK);
    assert_int_equal(send1(p.t[0], 4, n, buf, 448, 0), TUTTI_IN_PROGRESS);
    assert_int_equal(p.t[1]->ops->poll(p.t[1], ev, 64), 7);
    for (uint32_t i = 0; i < 7; i++)
        assert_int_equal(ev[i].tag.message, 100 + i);
    pair_close(&p, 4096);
}

/* The largest payload goes through from every position of the ring. */
static void test_largest_anywhere(void **state)
{
    (void)state;
    struct pair p;
    char buf[2048];

    memset(buf, 0x5a, sizeof buf);
    pair_open(&p, 4096);
    for (uint32_t k = 0; k < 300; k++) {
        size_t bytes = k % 2 ? 2048 : 64 * (k % 7);
        assert_int_equal(send1(p.t[0], 4, k, buf, bytes, 0), TUTTI_OK);
        struct tt_event ev = take1(p.t[1]);
        assert_int_equal(ev.bytes, bytes);
        assert_memory_equal(ev.data, buf, bytes);
        p.t[1]->ops->release(p.t[1], &ev);
    }
    assert_int_equal(send1(p.t[0], 4, 0, buf, 2049, 0), TUTTI_ERR_ARG);
    pair_close(&p, 4096);
}

static void test_out_of_order_release(void **state)
{
    (void)state;
    struct pair p;
    struct tt_event ev[4];
    char buf[1024] = {0};
    struct tt_rng rng;

    tt_rng_seed(&rng, 1);
    pair_open(&p, 8192);
    for (uint32_t round = 0; round < 500; round++) {
        for (uint32_t i = 0; i < 4; i++) {
            memset(buf, (int)(round + i), sizeof buf);
            assert_int_equal(send1(p.t[0], 4, i, buf, tt_rng_below(&rng, 1024), 0), TUTTI_OK);
        }
        assert_int_equal(p.t[1]->ops->poll(p.t[1], ev, 4), 4);
        for (uint32_t left = 4; left; left--) {
            uint32_t pick = (uint32_t)tt_rng_below(&rng, left);
            const unsigned char *data = ev[pick].data;
            for (uint32_t b = 0; b < ev[pick].bytes; b++)
                assert_int_equal(data[b], (round + ev[pick].tag.message) & 0xff);
            p.t[1]->ops->release(p.t[1], &ev[pick]);
            ev[pick] = ev[left - 1];
        }
    }
    pair_close(&p, 8192);
}

static void test_sent_events(void **state)
{
    (void)state;
    struct pair p;
    struct tt_event ev[8];
    uint32_t n = 0, got = 0;

    pair_open(&p, 65536);
    assert_int_equal(send1(p.t[0], 4, 0, "x", 1, 0), TUTTI_OK);
    assert_int_equal(p.t[0]->ops->poll(p.t[0], ev, 8), 0); /* cookie 0 */
    while (send1(p.t[0], 4, n, "x", 1, 77 + n) == TUTTI_OK)
        n++;
    assert_int_equal(n, 512); /* the queue of completions, not the ring */
    p.t[0]->ops->wait(p.t[0], UINT64_MAX);
    for (size_t k; (k = p.t[0]->ops->poll(p.t[0], ev, 8)) > 0;)
        for (size_t i = 0; i < k; i++, got++) {
            assert_int_equal(ev[i].kind, TT_EV_SENT);
            assert_int_equal(ev[i].cookie, 77 + got);
            assert_int_equal(ev[i].peer, 4);
        }
    assert_int_equal(got, n);
    assert_int_equal(send1(p.t[0], 4, n, "x", 1, 1), TUTTI_OK);
    pair_close(&p, 65536);
}

static void test_close(void **state)
{
    (void)state;
    struct pair p;
    struct tt_event ev;

    pair_open(&p, 4096);
    assert_int_equal(send1(p.t[0], 4, 1, "bye", 3, 0), TUTTI_OK);
    p.t[0]->ops->close(p.t[0]);
    p.t[0] = NULL;
    ev = take1(p.t[1]);
    assert_int_equal(ev.kind, TT_EV_DATA);
    struct tt_event end = take1(p.t[1]);
    assert_int_equal(end.kind, TT_EV_CLOSED);
    assert_int_equal(end.error, 0);
    assert_int_equal(end.peer, 1);
    assert_memory_equal(ev.data, "bye", 3); /* still ours */
    p.t[1]->ops->release(p.t[1], &ev);
    assert_int_equal(p.t[1]->ops->poll(p.t[1], &ev, 1), 0);
    assert_int_equal(send1(p.t[1], 1, 1, "x", 1, 0), TUTTI_ERR_IO);
    pair_close(&p, 4096);
}

static void rubbish(uint32_t state_word, uint32_t bytes)
{
    struct pair p;
    struct tt_event ev;

    pair_open(&p, 4096);
    /* Ring 0 -> 1 follows the two doors; its frames follow the tail's line. */
    uint32_t *frame = (uint32_t *)(void *)((char *)p.region + 3 * TT_LINE);
    frame[1] = bytes;
    frame[0] = state_word;
    ev = take1(p.t[1]);
    assert_int_equal(ev.kind, TT_EV_CLOSED);
    assert_int_equal(ev.error, EPROTO);
    assert_int_equal(p.t[1]->ops->poll(p.t[1], &ev, 1), 0);
    assert_int_equal(send1(p.t[1], 1, 1, "x", 1, 0), TUTTI_ERR_IO);
    pair_close(&p, 4096);
}

static void test_rubbish(void **state)
{
    (void)state;
    rubbish(0xdeadbeef, 8);
    rubbish(0x53, 8);          /* a skip at the beginning */
    rubbish(0x44, UINT32_MAX); /* data longer than the ring */
    rubbish(0x44, 4000);
}

static void test_bad_arguments(void **state)
{
    (void)state;
    struct pair p;
    struct tutti_error err;
    struct tt_transport *t = NULL;
    uint32_t local[2] = {0, 2}, wrong[2] = {2, 0};
    _Alignas(128) static char region[1 << 20];
    struct tt_shm_config good = {.rank = 2, .size = 4, .nlocal = 2, .me = 1, .local = local, .region = region, .ring_bytes = 4096}, c;

    assert_int_equal(tt_shm_bytes(0, 4096), 0);
    assert_int_equal(tt_shm_bytes(2, 5000), 0);
    assert_int_equal(tt_shm_bytes(2, 64), 0);
    assert_true(tt_shm_bytes(1, 4096) > 0);
    c = good, c.me = 2;
    assert_int_equal(tt_shm_open(&c, &t, &err), TUTTI_ERR_ARG);
    c = good, c.rank = 1;
    assert_int_equal(tt_shm_open(&c, &t, &err), TUTTI_ERR_ARG);
    c = good, c.size = 2;
    assert_int_equal(tt_shm_open(&c, &t, &err), TUTTI_ERR_ARG);
    c = good, c.local = wrong, c.me = 0;
    assert_int_equal(tt_shm_open(&c, &t, &err), TUTTI_ERR_ARG);
    c = good, c.region = region + 8;
    assert_int_equal(tt_shm_open(&c, &t, &err), TUTTI_ERR_ARG);
    assert_null(t);
    pair_open(&p, 4096);
    assert_int_equal(send1(p.t[0], 1, 0, "x", 1, 0), TUTTI_ERR_ARG); /* myself */
    assert_int_equal(send1(p.t[0], 2, 0, "x", 1, 0), TUTTI_ERR_ARG); /* not local */
    assert_int_equal(send1(p.t[0], 99, 0, "x", 1, 0), TUTTI_ERR_ARG);
    assert_int_equal(p.t[0]->ops->accept(p.t[0], 4, 0, NULL, 0), TUTTI_ERR_ARG);
    assert_string_equal(tt_transport_name(p.t[0]), "shm");
    pair_close(&p, 4096);
}

/* ---- waiting ---- */

static void until_sleeping(void *region, uint32_t rank, uint32_t why)
{
    struct tt_door *doors = region;
    uint64_t deadline = tt_now_ns() + 30 * SECOND;

    while ((atomic_load(&doors[rank].sleeping) & why) != why) {
        CHECK(tt_now_ns() < deadline);
        usleep(100);
    }
}

/* Rank 0 sleeps for data, then for room; rank 1 acts only when it sees it sleep. */
static void sleepers(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_transport *t = open_shm(me, n, region, 4096, *(bool *)arg);
    uint64_t start = tt_now_ns(), deadline = start + 60 * SECOND;
    struct tt_event ev;
    char buf[1024] = {0};

    if (me == 0) {
        t->ops->wait(t, deadline);
        CHECK(t->ops->poll(t, &ev, 1) == 1 && ev.kind == TT_EV_DATA && ev.bytes == 5);
        while (send1(t, rank_of(1), 0, buf, sizeof buf, 0) == TUTTI_OK)
            continue;
        t->ops->wait(t, deadline);
        CHECK(send1(t, rank_of(1), 0, buf, sizeof buf, 0) == TUTTI_OK);
        CHECK(tt_now_ns() < deadline);
        t->ops->release(t, &ev);
    } else {
        until_sleeping(region, 0, TT_WAKE_DATA);
        CHECK(send1(t, rank_of(0), 0, "hello", 5, 0) == TUTTI_OK);
        until_sleeping(region, 0, TT_WAKE_DATA | TT_WAKE_SPACE);
        for (uint32_t i = 0; i < 2; i++) {
            CHECK(t->ops->poll(t, &ev, 1) == 1);
            t->ops->release(t, &ev);
        }
    }
    t->ops->close(t);
}

static void test_sleepers(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool oversubscribed = i;
        assert_int_equal(run_processes(2, tt_shm_bytes(2, 4096), sleepers, &oversubscribed), 0);
        run_threads(2, tt_shm_bytes(2, 4096), sleepers, &oversubscribed);
    }
}

/* Answers come around the moment when the other falls asleep: a lost wake-up would last until the deadline. */
static void drowsy(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_transport *t = open_shm(me, n, region, 4096, true);
    uint64_t deadline = tt_now_ns() + 60 * SECOND;
    struct tt_event ev;
    struct tt_rng rng;

    (void)arg;
    tt_rng_seed(&rng, me);
    for (uint32_t k = 0; k < 400; k++) {
        if (k % 2 == me) {
            uint64_t until = tt_now_ns() + 150000 + tt_rng_below(&rng, 120000);
            while (tt_now_ns() < until)
                continue;
            CHECK(send1(t, rank_of(1 - me), k, "x", 1, 0) == TUTTI_OK);
            continue;
        }
        while (t->ops->poll(t, &ev, 1) == 0) {
            t->ops->wait(t, deadline);
            CHECK(tt_now_ns() < deadline);
        }
        CHECK(ev.tag.message == k);
        t->ops->release(t, &ev);
    }
    t->ops->close(t);
}

static void test_no_lost_wake_up(void **state)
{
    (void)state;
    assert_int_equal(run_processes(2, tt_shm_bytes(2, 4096), drowsy, NULL), 0);
    run_threads(2, tt_shm_bytes(2, 4096), drowsy, NULL);
}

static void test_deadline(void **state)
{
    (void)state;
    struct pair p;
    struct tt_event ev;

    pair_open(&p, 4096);
    p.t[0]->ops->wait(p.t[0], 0);
    p.t[0]->ops->wait(p.t[0], 1);
    for (uint64_t wait_ns = 1000; wait_ns <= 100000000; wait_ns *= 10) {
        uint64_t deadline = tt_now_ns() + wait_ns;
        p.t[0]->ops->wait(p.t[0], deadline);
        assert_true(tt_now_ns() >= deadline);
    }
    assert_int_equal(p.t[0]->ops->poll(p.t[0], &ev, 1), 0);
    pair_close(&p, 4096);
}

static uint64_t cpu_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

/* A rank that waits in short slices (several transports at once) sleeps too: a ratio of core time to
 * time, not a speed. */
static void test_slices_sleep(void **state)
{
    (void)state;
    struct pair p;

    pair_open(&p, 4096);
    p.t[0]->ops->wait(p.t[0], tt_now_ns() + 10000000);
    uint64_t start = tt_now_ns(), cpu = cpu_ns();
    for (int i = 0; i < 100; i++)
        p.t[0]->ops->wait(p.t[0], tt_now_ns() + 500000);
    assert_true(cpu_ns() - cpu < (tt_now_ns() - start) / 4);
    pair_close(&p, 4096);
}

/* Rank 1 is killed while rank 0 sleeps and rank 2 is full of unread frames: both come back at their deadlines. */
static void bereaved(uint32_t me, uint32_t n, void *region, void *arg)
{
    struct tt_transport *t = open_shm(me, n, region, 4096, true);
    char buf[1024] = {0};
    struct tt_event ev;

    (void)arg;
    if (me == 1) {
        until_sleeping(region, 0, TT_WAKE_DATA);
        until_sleeping(region, 2, TT_WAKE_DATA | TT_WAKE_SPACE);
        raise(SIGKILL);
    }
    while (me == 2 && send1(t, rank_of(1), 0, buf, sizeof buf, 0) == TUTTI_OK)
        continue;
    uint64_t deadline = tt_now_ns() + SECOND / 2;
    t->ops->wait(t, deadline);
    CHECK(tt_now_ns() >= deadline && t->ops->poll(t, &ev, 1) == 0);
    /* Not closed: that would be an event for the other survivor. */
}

static void test_killed_peer(void **state)
{
    (void)state;
    assert_int_equal(run_processes(3, tt_shm_bytes(3, 4096), bereaved, NULL), 1u << 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_full_ring),
        cmocka_unit_test(test_largest_anywhere),
        cmocka_unit_test(test_out_of_order_release),
        cmocka_unit_test(test_sent_events),
        cmocka_unit_test(test_close),
        cmocka_unit_test(test_rubbish),
        cmocka_unit_test(test_bad_arguments),
        cmocka_unit_test(test_sleepers),
        cmocka_unit_test(test_deadline),
        cmocka_unit_test(test_slices_sleep),
        cmocka_unit_test(test_no_lost_wake_up),
        cmocka_unit_test(test_killed_peer),
        cmocka_unit_test(test_all_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
