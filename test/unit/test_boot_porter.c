/* Links on demand: whoever asks, both ends get exactly one, with fitting keys; also when all dial at
 * once, when threads ask, and while strangers come. A peer that is gone is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <sys/ioctl.h>

#include "boot/porter.h"
#include "boot_ranks.h"

enum { RANKS = 6, ROUNDS = 12, ROLE = 7 };

struct job {
    struct tt_boot_config config;
    int what;
};

static struct job job_make(uint32_t size, uint64_t timeout_ms)
{
    return (struct job){.config = loopback_config(size, free_port(), timeout_ms)};
}

static struct tt_boot *open_rank(uint32_t rank, const struct job *j)
{
    struct tt_boot_config c = j->config;
    struct tt_boot *b = NULL;

    c.rank = rank;
    outcomes[rank].status = tt_boot_open(&c, &b, &outcomes[rank].err);
    return b;
}

static struct tt_desk *open_desk(struct tt_boot *b, uint64_t role)
{
    struct tt_desk *d = NULL;

    if (b)
        outcomes[tt_boot_config(b)->rank].status = tt_boot_desk_open(b, role, tt_boot_config(b)->timeout_ns, &d, NULL);
    return d;
}

/* Serves until the bell rings; false at the limit. */
static bool serve_until_bell(struct tt_boot *b, const struct tt_desk *d, uint64_t limit_ns)
{
    struct pollfd fds[] = {{.fd = tt_boot_porter_fd(b), .events = POLLIN}, {.fd = tt_boot_desk_bell(d), .events = POLLIN}};

    while (tt_now_ns() < limit_ns) {
        uint64_t due = tt_boot_porter_due(b);
        tt_boot_net_poll(fds, 2, due < limit_ns ? due : limit_ns);
        tt_boot_porter_serve(b);
        if (fds[1].revents)
            return true;
    }
    return false;
}

static uint64_t soon(void)
{
    return tt_now_ns() + UINT64_C(15000000000);
}

/* Takes `n` links; fds by rank. False: too few in time, a failure, or a second link to a rank. */
static bool take_links(struct tt_boot *b, struct tt_desk *d, uint32_t n, struct tt_porter_link *links)
{
    uint32_t me = tt_boot_config(b)->rank;
    uint64_t limit = soon();
    struct tt_porter_link l;

    for (uint32_t got = 0; got < n;) {
        if (!tt_boot_desk_take(d, &l)) {
            if (!serve_until_bell(b, d, limit)) {
                tt_fail(&outcomes[me].err, TUTTI_ERR_TIMEOUT, "%u of %u links came", got, n);
                return false;
            }
            continue;
        }
        if (l.fd < 0 || links[l.peer].fd >= 0) {
            outcomes[me].err = l.why;
            if (l.fd >= 0)
                tt_fail(&outcomes[me].err, TUTTI_ERR_DIFFERS, "a second link to rank %u", l.peer);
            return false;
        }
        links[l.peer] = l;
        got++;
    }
    return true;
}

/* Says who it is and the key it sends with; hears the same of the other. */
static bool introduce(const struct tt_porter_link *l, uint32_t me, bool encrypt)
{
    uint8_t out[4 + TT_SEAL_KEY] = {(uint8_t)me}, in[sizeof(out)] = {0};
    int flags = fcntl(l->fd, F_GETFL);

    memcpy(out + 4, l->keys.send, TT_SEAL_KEY);
    return !(flags & O_NONBLOCK) && (l->keys.cipher != TT_CIPHER_NONE) == encrypt &&
           send(l->fd, out, sizeof(out), MSG_NOSIGNAL) == sizeof(out) && recv(l->fd, in, sizeof(in), MSG_WAITALL) == sizeof(in) &&
           in[0] == l->peer && memcmp(in + 4, l->keys.recv, TT_SEAL_KEY) == 0;
}

static bool introduce_all(const struct tt_boot *b, uint32_t rank, const struct tt_porter_link *links)
{
    for (uint32_t r = 0; r < RANKS; r++)
        if (r != rank && !introduce(&links[r], rank, tt_boot_config(b)->encrypt)) {
            tt_fail(&outcomes[rank].err, TUTTI_ERR_PEER, "rank %u did not introduce itself (%s)", r, strerror(errno));
            return false;
        }
    return true;
}

/* Notes the outcome, and closes the links when all ranks have used theirs. */
static void leave_links(uint32_t rank, bool ok, struct tt_porter_link *links)
{
    outcomes[rank].value = ok;
    reach_stage(rank, 1);
    for (uint32_t r = 0; ok && r < RANKS; r++)
        await_stage(r, 1);
    for (uint32_t r = 0; r < RANKS; r++)
        tt_boot_net_close(&links[r].fd);
}

static bool idle_at(struct tt_desk *d)
{
    struct pollfd bell = {.fd = tt_boot_desk_bell(d), .events = POLLIN};
    struct tt_porter_link l;

    return !tt_boot_desk_take(d, &l) && poll(&bell, 1, 0) == 0;
}

enum { ALL_WANT, HIGHER_WANTS, LOWER_WANTS, ODD_WANTS, PATTERNS };

static bool wants(int pattern, uint32_t me, uint32_t peer)
{
    return pattern == ALL_WANT || (pattern == HIGHER_WANTS ? me > peer : pattern == LOWER_WANTS ? me < peer : (me + peer) % 2 || me > peer);
}

static void link_all(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_boot *b = open_rank(rank, j);
    struct tt_desk *d = open_desk(b, ROLE);
    struct tt_porter_link links[RANKS];
    bool ok = d != NULL;

    for (uint32_t r = 0; r < RANKS; r++)
        links[r].fd = -1;
    for (uint32_t k = 0; ok && k < RANKS; k++) { /* each in another order */
        uint32_t r = (rank + k) % RANKS;
        if (r != rank && wants(j->what, rank, r))
            ok = tt_boot_desk_want(d, r, &outcomes[rank].err) == TUTTI_OK;
        if (k % 3 == 0)
            tt_boot_porter_serve(b);
    }
    ok = ok && take_links(b, d, RANKS - 1, links);
    ok = ok && introduce_all(b, rank, links);
    for (uint32_t r = 0; ok && r < RANKS; r++) /* nothing is done twice */
        ok = r == rank || tt_boot_desk_want(d, r, NULL) == TUTTI_OK;
    if (ok)
        tt_boot_porter_serve(b);
    if (ok && !idle_at(d)) {
        tt_fail(&outcomes[rank].err, TUTTI_ERR_DIFFERS, "there is one link too many");
        ok = false;
    }
    leave_links(rank, ok, links);
    tt_boot_desk_close(d);
    tt_boot_close(b);
}

static void everybody_gets_one_link(void **state)
{
    (void)state;
    for (int round = 0; round < ROUNDS; round++) {
        struct job j = job_make(RANKS, 10000);
        j.what = round % PATTERNS;
        j.config.has_key = j.config.encrypt = round % 2 == 0;
        memset(j.config.key, j.config.has_key, sizeof(j.config.key));
        run_ranks(RANKS, link_all, &j);
        for (uint32_t r = 0; r < RANKS; r++) /* all of them: the first cause may be another rank's */
            if (!outcomes[r].value)
                print_message("round %d rank %u: %s\n", round, r, outcomes[r].err.text);
        for (uint32_t r = 0; r < RANKS; r++)
            if (!outcomes[r].value)
                fail_msg("round %d rank %u: %s", round, r, outcomes[r].err.text);
    }
}

/* ---- threads that ask while one serves ---- */

struct asking {
    struct tt_desk *d;
    uint32_t me;
};

static void *ask_everybody(void *arg)
{
    const struct asking *a = arg;

    for (uint32_t r = 0; r < RANKS; r++)
        if (r != a->me)
            tt_boot_desk_want(a->d, r, NULL);
    return NULL;
}

static void link_by_threads(uint32_t rank, void *arg)
{
    struct tt_boot *b = open_rank(rank, arg);
    struct tt_desk *d = open_desk(b, ROLE);
    struct tt_porter_link links[RANKS];
    struct asking a = {d, rank};
    pthread_t t[8];
    bool ok = d != NULL;

    for (uint32_t r = 0; r < RANKS; r++)
        links[r].fd = -1;
    for (size_t i = 0; ok && i < countof(t); i++)
        ok = pthread_create(&t[i], NULL, ask_everybody, &a) == 0;
    ok = ok && take_links(b, d, RANKS - 1, links);
    for (size_t i = 0; d && i < countof(t); i++)
        pthread_join(t[i], NULL);
    ok = ok && introduce_all(b, rank, links);
    leave_links(rank, ok, links);
    tt_boot_desk_close(d);
    tt_boot_close(b);
}

static void threads_may_ask(void **state)
{
    (void)state;
    struct job j = job_make(RANKS, 10000);

    run_ranks(RANKS, link_by_threads, &j);
    for (uint32_t r = 0; r < RANKS; r++)
        if (!outcomes[r].value)
            print_message("rank %u: %s\n", r, outcomes[r].err.text);
    for (uint32_t r = 0; r < RANKS; r++)
        if (!outcomes[r].value)
            fail_msg("rank %u: %s", r, outcomes[r].err.text);
}

/* ---- several desks ---- */

/* Rank 0 asks for links of two roles before rank 1 has a desk for either; rank 1 opens them in the other order. A link of a role whose
 * desk is closed does not come to the next one. */
static void two_desks(uint32_t rank, void *arg)
{
    struct tt_boot *b = open_rank(rank, arg);
    struct tt_desk *d[3] = {NULL};
    struct tt_porter_link links[3][2];
    bool ok = b != NULL;
    uint64_t limit = soon();

    for (uint32_t k = 0; k < 3; k++)
        links[k][0].fd = links[k][1].fd = -1;
    for (uint32_t k = 0; ok && rank == 0 && k < 2; k++) {
        d[k] = open_desk(b, ROLE + k);
        ok = d[k] && tt_boot_desk_want(d[k], 1, NULL) == TUTTI_OK;
    }
    if (ok && rank == 0)
        ok = take_links(b, d[0], 1, links[0]) && take_links(b, d[1], 1, links[1]);
    reach_stage(rank, 1);
    while (ok && rank == 1 && tt_now_ns() < limit && b->early.len < 2)
        tt_boot_porter_serve(b);
    for (uint32_t k = 2; ok && rank == 1 && k-- > 0;) {
        d[k] = open_desk(b, ROLE + k);
        ok = d[k] && take_links(b, d[k], 1, links[k]) && idle_at(d[k]);
    }
    for (uint32_t k = 0; ok && k < 2; k++) {
        uint8_t out = (uint8_t)(10 * rank + k), in = 0;
        int fd = links[k][!rank].fd;
        ok = send(fd, &out, 1, 0) == 1 && recv(fd, &in, 1, MSG_WAITALL) == 1 && in == 10 * (1 - rank) + k;
    }
    tt_boot_desk_close(d[0]);
    d[0] = NULL;
    d[2] = ok ? open_desk(b, ROLE + 2) : NULL;
    ok = ok && d[2] && idle_at(d[2]) && (rank == 0 || tt_boot_desk_want(d[2], 0, NULL) == TUTTI_OK) && take_links(b, d[2], 1, links[2]);
    outcomes[rank].value = ok;
    reach_stage(rank, 2);
    await_stage(!rank, 2);
    for (uint32_t k = 0; k < 3; k++) {
        tt_boot_net_close(&links[k][!rank].fd);
        tt_boot_desk_close(d[k]);
    }
    tt_boot_close(b);
}

static void desks_do_not_mix(void **state)
{
    (void)state;
    struct job j = job_make(2, 10000);

    run_ranks(2, two_desks, &j);
    for (uint32_t r = 0; r < 2; r++)
        if (!outcomes[r].value)
            fail_msg("rank %u: %s", r, outcomes[r].err.text);
}

/* ---- what cannot be linked ---- */

static void want_the_lost(uint32_t rank, void *arg)
{
    struct tt_boot *b = open_rank(rank, arg);
    struct tt_porter_link l = {.fd = -1};
    struct tt_desk *d = open_desk(b, ROLE);

    if (!d)
        return;
    if (rank == 1) { /* leaves at once; rank 2 never serves */
        tt_boot_desk_close(d);
        tt_boot_close(b);
        reach_stage(1, 1);
        return;
    }
    if (rank == 0) {
        uint32_t *failed = &(uint32_t){0};
        outcomes[0].value = await_stage(1, 1) && tt_boot_desk_want(d, 1, NULL) == TUTTI_OK && tt_boot_desk_want(d, 2, NULL) == TUTTI_OK &&
                            tt_boot_desk_want(d, 0, NULL) == TUTTI_ERR_ARG && tt_boot_desk_want(d, 3, NULL) == TUTTI_ERR_ARG;
        while (outcomes[0].value && *failed < 2) {
            if (!tt_boot_desk_take(d, &l)) {
                outcomes[0].value = serve_until_bell(b, d, soon());
                continue;
            }
            bool gone = l.peer == 1 && l.why.status == TUTTI_ERR_PEER && strstr(l.why.text, "rank 1 (host");
            bool late = l.peer == 2 && l.why.status == TUTTI_ERR_TIMEOUT && strstr(l.why.text, "within 400 ms");
            outcomes[0].value = l.fd < 0 && (gone || late) && strstr(l.why.text, gone ? "is gone" : "cannot be reached");
            outcomes[0].err = l.why;
            ++*failed;
        }
        reach_stage(0, 1);
    }
    await_stage(0, 1);
    tt_boot_desk_close(d);
    tt_boot_close(b);
}

static void the_lost_are_named(void **state)
{
    (void)state;
    struct job j = job_make(3, 400);

    run_ranks(3, want_the_lost, &j);
    if (!outcomes[0].value)
        fail_msg("%s", outcomes[0].err.text);
}

/* ---- addresses ---- */

static void known_addresses_are_listed(void **state)
{
    (void)state;
    struct tt_boot_peer peers[3] = {{.addr_be = 5, .sources_be = {9, 7}}, {.addr_be = 7}, {.addr_be = 1, .sources_be = {5}}};
    uint32_t list[3 * (1 + TT_BOOT_SOURCES)];
    static const uint32_t right[] = {1, 5, 7, 9};

    assert_int_equal(tt_boot_known_addresses(peers, 3, list), 4);
    assert_memory_equal(list, right, sizeof(right));
}

/* Gives loopback further addresses, in a network of our own. */
static bool add_address(int fd, const char *alias, const char *text)
{
    struct ifreq r = {0};
    struct sockaddr_in a = {.sin_family = AF_INET};

    snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", alias);
    inet_pton(AF_INET, text, &a.sin_addr);
    memcpy(&r.ifr_addr, &a, sizeof(a));
    if (ioctl(fd, SIOCSIFADDR, &r) != 0)
        return false;
    r.ifr_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK;
    return ioctl(fd, SIOCSIFFLAGS, &r) == 0;
}

/* Is a connection from `source` still there when the gate has seen it? -1: it could not be tried. */
static int survives(struct tt_gate *g, const struct tt_listen *at, uint16_t port, const char *source)
{
    struct tt_arrival come[TT_GATE_TURN];
    struct pollfd p = {.fd = -1, .events = POLLIN}, gate = {.fd = g->epoll, .events = POLLIN};
    struct in_addr from;
    uint64_t limit = soon();
    size_t n;

    inet_pton(AF_INET, source, &from);
    if (tt_boot_net_connect(at->addr_be, port, from.s_addr, &p.fd) != 0)
        return -1;
    tt_boot_net_poll(&gate, 1, soon());
    if (tt_boot_gate_serve(g, come, &n, &outcomes[0].err) != TUTTI_OK)
        return -1;
    bool stays = g->n == 1;
    if (!stays)
        tt_boot_net_poll(&p, 1, soon());
    bool closed = p.revents && recv(p.fd, &n, 1, MSG_DONTWAIT) <= 0;
    tt_boot_net_close(&p.fd);
    while (g->n > 0 && tt_now_ns() < limit) /* it hears that we hung up */
        tt_boot_gate_serve(g, come, &n, &outcomes[0].err);
    return stays ? 1 : closed ? 0 : -1;
}

static void from_two_addresses(uint32_t rank, void *arg)
{
    struct tt_boot_config *c = &((struct job *)arg)->config;
    struct tt_trust trust = {.key = c->key, .rank = 0, .job = 1, .kind = TT_CONN_DATA};
    struct tt_listen at = {0};
    static struct tt_gate g;
    int fd = socket(AF_INET, SOCK_DGRAM, 0), listener = -1;
    uint16_t port;

    outcomes[rank].value = 1;
    if (unshare(CLONE_NEWNET) != 0)
        outcomes[rank].value = 0;
    close(fd);
    if (!outcomes[rank].value)
        return;
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    bool ok = add_address(fd, "lo", "127.0.0.1") && add_address(fd, "lo:1", "10.9.0.1") && add_address(fd, "lo:2", "10.9.0.2");
    close(fd);
    inet_pton(AF_INET, "10.9.0.1", &at.addr_be);
    ok = ok && tt_boot_listen_open(&at, &listener, &port, &outcomes[rank].err) == TUTTI_OK &&
         tt_boot_gate_open(&g, listener, &trust, &outcomes[rank].err) == TUTTI_OK;
    ok = ok && survives(&g, &at, port, "10.9.0.2") == 1; /* while the ranks meet nobody is known */
    g.known_be = &at.addr_be;
    g.nknown = 1;
    ok = ok && survives(&g, &at, port, "10.9.0.1") == 1 && survives(&g, &at, port, "10.9.0.2") == 0;
    outcomes[rank].value = ok ? 2 : 3;
    tt_boot_gate_close(&g);
    tt_boot_net_close(&listener);
}

static void unknown_addresses_are_dropped_at_once(void **state)
{
    (void)state;
    struct job j = job_make(2, 1000);

    run_ranks(1, from_two_addresses, &j);
    if (outcomes[0].value == 0) {
        print_message("skipped: no network namespaces without root\n");
        skip();
    }
    assert_int_equal(outcomes[0].value, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(everybody_gets_one_link),    cmocka_unit_test(threads_may_ask),
        cmocka_unit_test(desks_do_not_mix),           cmocka_unit_test(the_lost_are_named),
        cmocka_unit_test(known_addresses_are_listed), cmocka_unit_test(unknown_addresses_are_dropped_at_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
