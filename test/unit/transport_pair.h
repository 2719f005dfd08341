/* transport_pair.h - for the transport tests: real TCP connections on loopback, pieces whose content follows from their number, and a
 * driver that answers events and checks them. */
#ifndef TT_TEST_TRANSPORT_PAIR_H
#define TT_TEST_TRANSPORT_PAIR_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/transport.h"

enum { STRIPES_MAX = 4 };

/* What protects the sockets of all pairs opened from now on. */
enum guard { GUARD_NONE, GUARD_CHECKSUM, GUARD_AES, GUARD_CHACHA, GUARDS };
static enum guard guard;
static const char *const guard_names[GUARDS] = {"plain", "checksum", "AES-256-GCM", "ChaCha20-Poly1305"};

/* Of stripe k, seen from this rank; the same keys for the same k each time. */
static inline struct tt_tcp_guard guard_of(uint32_t rank, uint32_t k)
{
    struct tt_tcp_guard g = {.checksum = guard == GUARD_CHECKSUM};
    if (guard < GUARD_AES)
        return g;
    g.keys.cipher = guard == GUARD_AES ? TT_CIPHER_AES : TT_CIPHER_CHACHA;
    memset(rank ? g.keys.send : g.keys.recv, (int)(2 * k + 1), TT_SEAL_KEY);
    memset(rank ? g.keys.recv : g.keys.send, (int)(2 * k + 2), TT_SEAL_KEY);
    return g;
}

/* Runs the tests once for each way of protection that this machine has. */
static inline int run_guarded(const char *name, const struct CMUnitTest *tests, size_t n, enum guard first)
{
    int bad = 0;
    for (guard = first; guard < GUARDS; guard++) {
        char title[80];
        snprintf(title, sizeof title, "%s, %s", name, guard_names[guard]);
        if (guard == GUARD_AES && !tt_seal_has_aes())
            print_message("%s: not run, this CPU has no AES instructions\n", title);
        else
            bad += _cmocka_run_group_tests(title, tests, n, NULL, NULL);
    }
    return bad;
}

static bool in_child; /* where a failed check must not go on with the parent's tests */

static inline void connect_pair(int fd[2], int buffer)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(l >= 0 && fd[0] >= 0);
    for (int i = 0; buffer && i < 2; i++) {
        setsockopt(i ? l : fd[0], SOL_SOCKET, SO_SNDBUF, &buffer, sizeof buffer);
        setsockopt(i ? l : fd[0], SOL_SOCKET, SO_RCVBUF, &buffer, sizeof buffer);
    }
    assert_int_equal(bind(l, (void *)&a, len), 0);
    assert_int_equal(listen(l, 1), 0);
    assert_int_equal(getsockname(l, (void *)&a, &len), 0);
    assert_int_equal(connect(fd[0], (void *)&a, len), 0);
    fd[1] = accept(l, NULL, NULL);
    assert_true(fd[1] >= 0);
    close(l);
}

/* Ranks 0 and 1 of 2; buffer > 0 asks for small kernel buffers. */
struct setup {
    uint32_t stripes, queue;
    int buffer;
};

/* fds[rank][stripe * 2 + peer], as tt_tcp_open wants them. */
static inline void make_sockets(struct setup s, int fds[2][2 * STRIPES_MAX])
{
    for (uint32_t k = 0; k < s.stripes; k++) {
        int fd[2];
        connect_pair(fd, s.buffer);
        fds[0][2 * k] = fds[1][2 * k + 1] = -1;
        fds[0][2 * k + 1] = fd[0];
        fds[1][2 * k] = fd[1];
    }
}

static inline struct tt_transport *open_end(struct setup s, uint32_t rank, const int *fds)
{
    struct tt_transport *t = NULL;
    struct tt_tcp_guard guards[2 * STRIPES_MAX];
    for (uint32_t i = 0; i < 2 * s.stripes; i++)
        guards[i] = guard_of(rank, i / 2);
    struct tt_tcp_config c = {.rank = rank, .size = 2, .stripes = s.stripes, .fds = fds, .guards = guards, .queue = s.queue};
    assert_int_equal(tt_tcp_open(&c, &t, NULL), TUTTI_OK);
    return t;
}

static inline void open_pair(struct setup s, struct tt_transport *ret[2])
{
    int fds[2][2 * STRIPES_MAX];
    make_sockets(s, fds);
    for (uint32_t r = 0; r < 2; r++)
        ret[r] = open_end(s, r, fds[r]);
}

/* Rank 0 stays here, rank 1 is a new process that does `run` and ends. */
static inline struct tt_transport *fork_pair(struct setup s, void (*run)(struct tt_transport *), pid_t *ret_pid)
{
    int fds[2][2 * STRIPES_MAX];
    make_sockets(s, fds);
    *ret_pid = fork();
    assert_true(*ret_pid >= 0);
    uint32_t me = *ret_pid == 0;
    for (uint32_t k = 0; k < s.stripes; k++)
        close(fds[1 - me][2 * k + me]);
    struct tt_transport *t = open_end(s, me, fds[me]);
    if (!me)
        return t;
    in_child = true;
    run(t);
    t->ops->close(t);
    _exit(0);
}

static inline void close_pair(struct tt_transport *t[2])
{
    for (int r = 0; r < 2; r++)
        if (t[r])
            t[r]->ops->close(t[r]);
}

static inline void expect_exit(pid_t pid, int code)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), code);
}

/* ---- pieces ---- */

static inline struct tt_tag tag_of(uint32_t number)
{
    uint64_t h = tt_mix64(number + 1);
    return (struct tt_tag){.fingerprint = h,
                           .request = number,
                           .message = (uint32_t)(h >> 3),
                           .segment = (uint32_t)(h >> 7),
                           .comm = (uint16_t)(h >> 11),
                           .channel = (uint16_t)(h >> 17)};
}

static inline void fill(uint8_t *p, size_t n, uint32_t number)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(number * 31 + i * 7 + (i >> 8));
}

static inline void check_content(const uint8_t *p, size_t n, uint32_t number)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != (uint8_t)(number * 31 + i * 7 + (i >> 8)))
            fail_msg("piece %u of %zu bytes: byte %zu is wrong", (unsigned)number, n, i);
}

static inline void check_tag(const struct tt_tag *t)
{
    struct tt_tag want = tag_of(t->request);
    assert_memory_equal(t, &want, sizeof want);
}

static inline tutti_status send_one(struct tt_transport *t, uint32_t peer, uint32_t number, const void *p, size_t n, uint64_t cookie)
{
    struct tt_tag tag = tag_of(number);
    struct iovec v = {(void *)(uintptr_t)p, n};
    return t->ops->send(t, peer, &tag, &v, 1, cookie);
}

/* Polls one event, sleeping up to ten seconds for it. */
static inline struct tt_event next_event(struct tt_transport *t)
{
    struct tt_event ev;
    uint64_t deadline = tt_now_ns() + UINT64_C(10000000000);
    while (!t->ops->poll(t, &ev, 1)) {
        if (in_child && tt_now_ns() >= deadline)
            _exit(3);
        if (tt_now_ns() >= deadline)
            fail_msg("no event within ten seconds");
        t->ops->wait(t, deadline);
    }
    return ev;
}

static inline void expect_closed(struct tt_transport *t, uint32_t peer, int error)
{
    struct tt_event ev = next_event(t);
    assert_int_equal(ev.kind, TT_EV_CLOSED);
    assert_int_equal(ev.peer, peer);
    if (error >= 0)
        assert_int_equal(ev.error, error);
}

/* Nothing comes any more: a wait sleeps to its end, and polls stay empty. */
static inline void expect_silence(struct tt_transport *t)
{
    struct tt_event ev;
    uint64_t deadline = tt_now_ns() + 2000000;
    for (int i = 0; i < 50; i++)
        assert_int_equal(t->ops->poll(t, &ev, 1), 0);
    t->ops->wait(t, deadline);
    assert_true(tt_now_ns() >= deadline);
    assert_int_equal(t->ops->poll(t, &ev, 1), 0);
}
#endif
