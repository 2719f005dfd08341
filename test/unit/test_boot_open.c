/* Ranks as processes on loopback: they meet, exchange and connect; and everything that can go wrong on the way ends in time, on every rank,
 * with the culprit's name. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <sched.h>

#include "boot_ranks.h"

/* What the ranks of a test are told; differs by rank through `odd`. */
struct job {
    struct tt_boot_config config;
    uint32_t odd; /* the rank that is told something else */
    struct tt_boot_config told;
    uint32_t absent; /* this one does not come; 0: all come */
    int what;        /* the test's own */
};

static struct job job_make(uint32_t size, uint64_t timeout_ms)
{
    struct job j = {.config = loopback_config(size, free_port(), timeout_ms), .odd = UINT32_MAX};

    j.told = j.config;
    return j;
}

static tutti_status open_rank(uint32_t rank, const struct job *j, struct tt_boot **ret)
{
    struct tt_boot_config c = rank == j->odd ? j->told : j->config;
    struct outcome *o = &outcomes[rank];

    c.rank = rank;
    o->status = tt_boot_open(&c, ret, &o->err);
    return o->status;
}

static void only_open(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_boot *b = NULL;

    if (j->absent && rank == j->absent)
        return;
    open_rank(rank, j, &b);
    tt_boot_close(b);
}

static void expect(uint32_t rank, tutti_status status, const char *text)
{
    const struct outcome *o = &outcomes[rank];

    if (o->status != status || (text && !strstr(o->err.text, text)))
        fail_msg("rank %u: %d \"%s\" instead of %d \"%s\"", rank, o->status, o->err.text, status, text ? text : "");
}

/* ---- the good case ---- */

static bool socket_is_right(int fd)
{
    int nodelay = 0, flags = fcntl(fd, F_GETFL), fdflags = fcntl(fd, F_GETFD);
    socklen_t len = sizeof(nodelay);

    return flags >= 0 && !(flags & O_NONBLOCK) && (fdflags & FD_CLOEXEC) && getsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &nodelay, &len) == 0 &&
           nodelay;
}

static bool exchange_numbers(struct tt_boot *b, size_t bytes)
{
    uint32_t size = tt_boot_config(b)->size, me = tt_boot_config(b)->rank;
    uint8_t *mine = malloc(bytes + 1), *all = malloc(bytes * size + 1);
    bool ok;

    for (size_t i = 0; i < bytes; i++)
        mine[i] = (uint8_t)(me * 31 + i);
    ok = tt_boot_exchange(b, mine, bytes, all, 0, &outcomes[me].err) == TUTTI_OK;
    for (uint32_t r = 0; r < size; r++)
        for (size_t i = 0; i < bytes && ok; i++)
            ok = all[r * bytes + i] == (uint8_t)(r * 31 + i);
    free(mine);
    free(all);
    return ok;
}

static int check_all(struct tt_boot *b, uint32_t rank)
{
    uint32_t size = tt_boot_config(b)->size;
    const struct tt_boot_peer *p = tt_boot_peers(b);

    for (uint32_t r = 0; r < size; r++) {
        outcomes[rank].hash =
            tt_hash_bytes(outcomes[rank].hash, &p[r].host_id, 8) ^ tt_hash_bytes(p[r].pid, &p[r].port, 2) ^ tt_boot_job(b);
        if (p[r].host_id != p[rank].host_id || (size > 1 && (p[r].addr_be != htonl(INADDR_LOOPBACK) || !p[r].port)))
            return 1;
        if ((tt_boot_line(b, r)->fd >= 0) != (r != rank && (rank == 0 || r == 0)))
            return 2;
        if (tt_boot_line(b, r)->fd >= 0 && !socket_is_right(tt_boot_line(b, r)->fd))
            return 3;
    }
    if (p[rank].pid != (uint32_t)getpid() || tt_boot_job(b) == 0)
        return 4;
    if (!exchange_numbers(b, 8) || !exchange_numbers(b, 0) || !exchange_numbers(b, 300000) || !exchange_numbers(b, 1))
        return 5;
    for (uint32_t r = 0; r < size; r++)
        if (tt_boot_probe(b, r, UINT64_C(5000000000)) != 0)
            return 6;
    return exchange_numbers(b, 3) ? 0 : 7; /* nobody leaves before all have probed */
}

static void meet_and_check(uint32_t rank, void *arg)
{
    struct tt_boot *b = NULL;

    if (open_rank(rank, arg, &b) == TUTTI_OK)
        outcomes[rank].value = check_all(b, rank);
    tt_boot_close(b);
}

static void meet(struct job *j)
{
    run_ranks(j->config.size, meet_and_check, j);
    for (uint32_t r = 0; r < j->config.size; r++) {
        expect(r, TUTTI_OK, NULL);
        if (outcomes[r].value)
            fail_msg("rank %u of %u: check %d: %s", r, j->config.size, outcomes[r].value, outcomes[r].err.text);
        assert_true(outcomes[r].hash == outcomes[0].hash);
    }
}

static void sizes_meet(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 8};

    for (size_t i = 0; i < countof(sizes); i++) {
        struct job j = job_make(sizes[i], 20000);
        j.config.settings = "algo=ring\n";
        meet(&j);
    }
}

/* All encrypt or none; and there must be a key to begin with. */
static void encryption_is_agreed(void **state)
{
    (void)state;
    struct job j = job_make(3, 20000);

    j.config.encrypt = true;
    meet(&j); /* with the key of the user's processes */
    j = job_make(3, 20000);
    j.config.encrypt = j.config.insecure = true;
    run_ranks(3, only_open, &j);
    for (uint32_t r = 0; r < 3; r++)
        expect(r, TUTTI_ERR_AUTH, "there is no job key to begin with");
    j.config.insecure = false;
    for (int some = 0; some < 2; some++) {
        j = job_make(3, 20000);
        memset(j.config.key, 7, sizeof(j.config.key));
        j.config.has_key = true;
        j.told = j.config;
        j.config.encrypt = some;
        j.told.encrypt = !some;
        j.odd = 2;
        run_ranks(3, only_open, &j);
        for (uint32_t r = 0; r < 3; r++)
            expect(r, TUTTI_ERR_DIFFERS,
                   some ? "encrypt is \"1\" on ranks 0, 1 but \"0\" on rank 2" : "encrypt is \"0\" on ranks 0, 1 but \"1\" on rank 2");
    }
}

static void variants_meet(void **state)
{
    (void)state;
    struct job j = job_make(3, 20000);

    memset(j.config.key, 7, sizeof(j.config.key));
    j.config.has_key = true;
    meet(&j);
    snprintf(j.config.rendezvous, sizeof(j.config.rendezvous), "127.0.0.1:%u", free_port());
    j.config.encrypt = true;
    meet(&j);
    j = job_make(3, 20000);
    strcpy(j.config.iface, "=lo");
    meet(&j);
    j = job_make(3, 20000);
    snprintf(j.config.rendezvous, sizeof(j.config.rendezvous), "localhost:%u", free_port());
    j.config.port_lo = 30000;
    j.config.port_hi = 30200;
    meet(&j);
}

/* ---- refusals ---- */

static void bad_configurations_are_refused(void **state)
{
    (void)state;
    char *long_settings = calloc(TT_BOOT_SETTINGS + 2, 1);
    struct tt_boot_config good = loopback_config(2, free_port(), 100);
    struct tt_boot *b = NULL;
    struct tutti_error err;
    static const struct {
        const char *place, *text;
    } places[] = {{"", "TUTTI_RENDEZVOUS"},
                  {"nonsense", "host:port"},
                  {"[::1]:500", "IPv6"},
                  {"0.0.0.0:500", "address of rank 0"},
                  {"10.1.2.3:500", "head -c 32 /dev/urandom > key"}};

    assert_non_null(long_settings);
    memset(long_settings, 'x', TT_BOOT_SETTINGS + 1);
    for (size_t i = 0; i < countof(places); i++) {
        struct tt_boot_config c = good;
        strcpy(c.rendezvous, places[i].place);
        assert_true(tt_boot_open(&c, &b, &err) < 0);
        assert_non_null(strstr(err.text, places[i].text));
    }
    for (int k = 0; k < 7; k++) {
        struct tt_boot_config c = good;
        c.rank = k == 0 ? 2 : 0;
        c.size = k == 1 ? 0 : k == 2 ? UINT32_MAX : 2;
        c.port_lo = k == 3 ? 9 : k == 4 ? 5 : 0;
        c.port_hi = k == 3 ? 8 : 0;
        c.settings = k == 5 ? long_settings : NULL;
        c.has_key = k == 6;
        assert_true(tt_boot_open(&c, &b, &err) < 0);
        assert_true(tt_boot_open(&c, &b, NULL) < 0);
    }
    free(long_settings);
}

static void wrong_hosts_are_refused(void **state)
{
    (void)state;
    struct job j = job_make(2, 700);

    j.config.insecure = true;
    strcpy(j.config.rendezvous, "203.0.113.9:29500"); /* reserved for documentation: nobody's */
    run_ranks(1, only_open, &j);
    expect(0, TUTTI_ERR_ARG, "203.0.113.9 is not an address of this host");
    strcpy(j.config.rendezvous, "no-such-host.invalid:29500");
    run_ranks(1, only_open, &j);
    assert_true(outcomes[0].status < 0);
    assert_non_null(strstr(outcomes[0].err.text, "no-such-host.invalid"));
    assert_true(outcomes[0].took_ns < UINT64_C(5000000000));
}

static void missing_ranks_are_named(void **state)
{
    (void)state;
    struct job j = job_make(4, 600);

    j.absent = 2;
    run_ranks(4, only_open, &j);
    for (uint32_t r = 0; r < 4; r++)
        if (r != 2)
            expect(r, TUTTI_ERR_TIMEOUT, "rank 2 did not come within 600 ms");
    j = job_make(2, 400);
    run_ranks(1, only_open, &j);
    expect(0, TUTTI_ERR_TIMEOUT, "rank 1 did not come within 400 ms");
}

/* The least patient rank decides, and still hears the reason. */
static void the_least_patient_is_answered(void **state)
{
    (void)state;
    struct job j = job_make(3, 20000);

    j.absent = 2;
    j.odd = 1;
    j.told.timeout_ns = 500000000;
    run_ranks(3, only_open, &j);
    expect(0, TUTTI_ERR_TIMEOUT, "rank 2 did not come");
    expect(1, TUTTI_ERR_TIMEOUT, "rank 2 did not come");
}

static void nobody_at_the_rendezvous(uint32_t rank, void *arg)
{
    only_open(rank + 1, arg);
    outcomes[0] = outcomes[1];
}

static void missing_rank_zero_is_named(void **state)
{
    (void)state;
    struct job j = job_make(2, 400);

    run_ranks(1, nobody_at_the_rendezvous, &j);
    expect(0, TUTTI_ERR_TIMEOUT, "rank 0 could not be reached at 127.0.0.1:");
    expect(0, TUTTI_ERR_TIMEOUT, "no process of yours meets others there");
    j.config.insecure = true;
    run_ranks(1, nobody_at_the_rendezvous, &j);
    expect(0, TUTTI_ERR_TIMEOUT, "rank 0 could not be reached");
    expect(0, TUTTI_ERR_TIMEOUT, "Connection refused");
}

static void wrong_keys_are_named(void **state)
{
    (void)state;
    struct job j = job_make(3, 1200);

    memset(j.config.key, 1, sizeof(j.config.key));
    j.config.has_key = true;
    j.odd = 2;
    j.told = j.config;
    j.told.key[5] = 9;
    run_ranks(3, only_open, &j);
    expect(0, TUTTI_ERR_TIMEOUT, "rank 2 did not come within 1.2 s; rank 2 came with another key than rank 0");
    expect(1, TUTTI_ERR_TIMEOUT, "rank 2 came with another key than rank 0");
    expect(2, TUTTI_ERR_AUTH, "rank 0 (127.0.0.1:");
    expect(2, TUTTI_ERR_AUTH, "did not accept our key");
    assert_true(outcomes[2].took_ns < outcomes[0].took_ns);
    j.told.has_key = false;
    run_ranks(3, only_open, &j);
    expect(2, TUTTI_ERR_AUTH, "we have none, set TUTTI_KEY_FILE");
    expect(0, TUTTI_ERR_TIMEOUT, "rank 2 came with another key than rank 0");
    j.config.has_key = false;
    j.config.insecure = true;
    run_ranks(3, only_open, &j);
    expect(2, TUTTI_ERR_AUTH, "runs with TUTTI_INSECURE=1 and this rank without");
    j.config.insecure = false;
    j.told.insecure = true;
    run_ranks(3, only_open, &j);
    expect(2, TUTTI_ERR_AUTH, "set TUTTI_KEY_FILE in place of TUTTI_INSECURE");
}

static void differing_settings_are_told_to_all(void **state)
{
    (void)state;
    struct job j = job_make(3, 10000);

    j.config.settings = "algo=ring\nplan=17\n";
    j.odd = 2;
    j.told.settings = "algo=direct\nplan=17\n";
    run_ranks(3, only_open, &j);
    for (uint32_t r = 0; r < 3; r++)
        expect(r, TUTTI_ERR_DIFFERS, "the ranks disagree: algo is \"ring\" on ranks 0, 1 but \"direct\" on rank 2");
}

static void another_size_is_refused(void **state)
{
    (void)state;
    struct job j = job_make(2, 800);

    j.odd = 1;
    j.told.size = 3;
    run_ranks(2, only_open, &j);
    expect(1, TUTTI_ERR_DIFFERS, "rank 1 was told that the job has 3 ranks, rank 0 was told 2");
    expect(0, TUTTI_ERR_TIMEOUT, "rank 1 came with another number of ranks");
}

static void missing_interface_is_refused(void **state)
{
    (void)state;
    struct job j = job_make(2, 500);

    j.odd = 1;
    strcpy(j.told.iface, "nosuch,neither");
    run_ranks(2, only_open, &j);
    expect(1, TUTTI_ERR_ARG, "no network interface matches \"nosuch,neither\"; this host has lo 127.0.0.1/8");
    expect(0, TUTTI_ERR_TIMEOUT, "rank 1 did not come");
}

static void a_full_port_range_is_named(void **state)
{
    (void)state;
    struct job j = job_make(2, 600);
    struct tt_listen l = {.addr_be = htonl(INADDR_LOOPBACK), .lo = 30300, .hi = 30900};
    struct tutti_error err;
    int fd[2] = {-1, -1};
    uint16_t port[2] = {0};
    char text[64];

    while (port[1] != port[0] + 1) { /* two neighbours */
        tt_boot_net_close(&fd[0]);
        fd[0] = fd[1];
        port[0] = port[1];
        assert_int_equal(tt_boot_listen_open(&l, &fd[1], &port[1], &err), TUTTI_OK);
        l.lo = port[1];
    }
    j.odd = 1;
    j.told.port_lo = port[0];
    j.told.port_hi = port[1];
    run_ranks(2, only_open, &j);
    snprintf(text, sizeof(text), "all ports %u-%u on 127.0.0.1 are in use", port[0], port[1]);
    expect(1, TUTTI_ERR_LIMIT, text);
    expect(0, TUTTI_ERR_TIMEOUT, "rank 1 came but left");
    close(fd[0]);
    close(fd[1]);
}

/* ---- two jobs, strangers ---- */

/* Waits until something listens on the job's port, without connecting to it. */
static void await_listener(uint16_t port)
{
    char want[32], line[256];
    bool found = false;

    snprintf(want, sizeof(want), "0100007F:%04X 00000000:0000 0A", port);
    for (int i = 0; i < 10000 && !found; i++, usleep(1000)) {
        FILE *f = fopen("/proc/net/tcp", "r");
        while (f && fgets(line, sizeof(line), f))
            found = found || strstr(line, want);
        if (f)
            fclose(f);
    }
    assert_true(found);
}

static uint16_t port_of(const struct job *j)
{
    return (uint16_t)atoi(strchr(j->config.rendezvous, ':') + 1);
}

/* Outcome 3 is the second job's. */
static void second_job(uint32_t rank, void *arg)
{
    struct job j = *(struct job *)arg;
    struct tt_boot_config c = j.config;
    struct tt_boot *b = NULL;

    c.rank = (uint32_t)j.what;
    outcomes[rank].status = tt_boot_open(&c, &b, &outcomes[rank].err);
    tt_boot_close(b);
}

static void two_jobs_on_one_port(void **state)
{
    (void)state;
    struct job j = job_make(3, 15000);
    pid_t pid[4];
    char text[64];

    ranks_setup();
    pid[0] = rank_start(0, only_open, &j);
    await_listener(port_of(&j));
    pid[3] = rank_start(3, second_job, &j); /* a second rank 0 */
    rank_end(3, pid[3], 0);
    snprintf(text, sizeof(text), "port %u on 127.0.0.1 is in use", port_of(&j));
    expect(3, TUTTI_ERR_ARG, text);
    j.config.size = 5; /* a rank of a larger job */
    j.what = 4;
    pid[3] = rank_start(3, second_job, &j);
    rank_end(3, pid[3], 0);
    expect(3, TUTTI_ERR_DIFFERS, "5 ranks, rank 0 was told 3");
    j.config.size = 3; /* a rank that is there already: one of the two is told so */
    j.what = 1;
    pid[1] = rank_start(1, only_open, &j);
    pid[3] = rank_start(3, second_job, &j);
    while (waitpid(pid[1], NULL, WNOHANG) == 0 && waitpid(pid[3], NULL, WNOHANG) == 0)
        usleep(1000);
    pid[2] = rank_start(2, only_open, &j);
    for (uint32_t r = 0; r < 4; r++)
        rank_end(r, pid[r], 0);
    expect(0, TUTTI_OK, NULL);
    expect(2, TUTTI_OK, NULL);
    uint32_t loser = outcomes[1].status ? 1 : 3;
    expect(loser, TUTTI_ERR_DIFFERS, "a rank 1 has joined already");
    for (uint32_t r = 0; r < 4; r++)
        check_clean(r);
}

static int stranger(uint16_t port, const void *bytes, size_t n)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    return fd;
}

static void strangers_do_not_disturb(void **state)
{
    (void)state;
    enum { CROWD = 90 };
    struct job j = job_make(3, 20000);
    struct tt_greeting g = {.version = TT_BOOT_PROTOCOL, .kind = TT_CONN_MEET, .from = 1};
    uint8_t junk[4096], hello[TT_GREETING];
    int fd[CROWD];
    pid_t pid[3];
    char c;

    ranks_setup();
    pid[0] = rank_start(0, meet_and_check, &j);
    await_listener(port_of(&j));
    memset(junk, 0xff, sizeof(junk));
    tt_boot_greeting_write(&g, hello);
    for (int i = 0; i < CROWD; i++) /* nothing; random bytes; half a greeting; a greeting and no proof; a huge frame */
        fd[i] = i % 4 == 0   ? stranger(port_of(&j), junk, 0)
                : i % 4 == 1 ? stranger(port_of(&j), junk, sizeof(junk))
                : i % 4 == 2 ? stranger(port_of(&j), hello, TT_GREETING / 2)
                             : stranger(port_of(&j), hello, TT_GREETING);
    pid[1] = rank_start(1, meet_and_check, &j);
    pid[2] = rank_start(2, meet_and_check, &j);
    for (uint32_t r = 0; r < 3; r++)
        rank_end(r, pid[r], 0);
    for (uint32_t r = 0; r < 3; r++) {
        expect(r, TUTTI_OK, NULL);
        assert_int_equal(outcomes[r].value, 0);
        check_clean(r);
    }
    for (int i = 0; i < CROWD; i++) {
        if (i % 4 != 3) /* those who greeted were greeted; the others never hear a byte */
            assert_true(recv(fd[i], &c, 1, 0) <= 0);
        close(fd[i]);
    }
}

/* ---- ranks that die, stop or do something else ---- */

/* Without a key strangers can prove themselves, and then say nothing: more of them than there are places for guests, all at once. They
 * come again when they are sent away. */
static void a_crowd_of_guests_does_not_disturb(void **state)
{
    (void)state;
    enum { CROWD = 700 };
    struct job j = job_make(3, 20000);
    struct tt_trust t = {.key = j.config.key, .rank = 1, .kind = TT_CONN_MEET};
    static struct tt_dial d[CROWD];
    static struct pollfd fds[CROWD];
    pid_t pid[3];
    size_t proved = 0;

    j.config.insecure = true;
    ranks_setup();
    pid[0] = rank_start(0, meet_and_check, &j);
    await_listener(port_of(&j));
    for (size_t i = 0; i < CROWD; i++) {
        d[i] = (struct tt_dial){.addr_be = htonl(INADDR_LOOPBACK), .port = port_of(&j), .epoll = -1};
        tt_boot_dial_begin(&d[i], tt_now_ns());
    }
    for (uint64_t limit = tt_now_ns() + UINT64_C(5000000000); proved < CROWD && tt_now_ns() < limit;) {
        for (size_t i = 0; i < CROWD; i++)
            fds[i] = tt_boot_dial_fd(&d[i]);
        tt_boot_net_poll(fds, CROWD, tt_now_ns() + 2000000);
        proved = 0;
        for (size_t i = 0; i < CROWD; i++) {
            tt_boot_dial_serve(&d[i], &t, fds[i].revents);
            proved += d[i].state == TT_DIAL_DONE;
        }
    }
    assert_int_equal(proved, CROWD);
    pid[1] = rank_start(1, meet_and_check, &j);
    pid[2] = rank_start(2, meet_and_check, &j);
    for (uint32_t r = 0; r < 3; r++)
        rank_end(r, pid[r], 0);
    for (size_t i = 0; i < CROWD; i++)
        tt_boot_dial_abort(&d[i]);
    for (uint32_t r = 0; r < 3; r++) {
        expect(r, TUTTI_OK, NULL);
        assert_int_equal(outcomes[r].value, 0);
        check_clean(r);
    }
}

static void rank_zero_dies(void **state)
{
    (void)state;
    struct job j = job_make(3, 6000);
    pid_t pid[2];

    ranks_setup();
    pid[0] = rank_start(0, only_open, &j);
    await_listener(port_of(&j));
    pid[1] = rank_start(1, only_open, &j);
    usleep(200000); /* let it join: both moments are answered with rank 0's name */
    kill(pid[0], SIGKILL);
    rank_end(0, pid[0], SIGKILL);
    rank_end(1, pid[1], 0);
    check_clean(1);
    assert_true(outcomes[1].status < 0);
    assert_non_null(strstr(outcomes[1].err.text, "rank 0"));
}

/* Joins by hand, and is gone before the table comes. */
static void join_and_leave(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_trust t = {.key = j->config.key, .rank = rank, .kind = TT_CONN_MEET};
    struct tt_dial d = {.addr_be = htonl(INADDR_LOOPBACK), .port = port_of(j), .epoll = -1};
    struct tt_boot_join me = {.size = j->config.size, .version = "any", .settings = ""};
    struct tt_boot_line l;
    uint8_t text[TT_FRAME + TT_JOIN_MAX];
    size_t n;

    tt_boot_host_self(&me.peer, &me.net_id);
    me.peer.addr_be = d.addr_be;
    me.peer.port = 1;
    tt_boot_dial_begin(&d, tt_now_ns());
    while (d.state != TT_DIAL_DONE) {
        struct pollfd p = tt_boot_dial_fd(&d);
        tt_boot_net_poll(&p, 1, tt_now_ns() + 10000000);
        tt_boot_dial_serve(&d, &t, p.revents);
    }
    n = tt_boot_join_write(&me, text + TT_FRAME);
    tt_boot_frame_write(&(struct tt_frame){.kind = TT_FRAME_JOIN, .remaining_ms = 20000, .length = n}, text);
    if (tt_boot_line_open(&l, d.shake.fd, &d.shake.keys))
        tt_boot_line_send(&l, text, TT_FRAME + n, tt_now_ns() + 1000000000);
    tt_boot_line_close(&l);
}

static void a_joined_rank_dies(void **state)
{
    (void)state;
    struct job j = job_make(3, 20000);
    pid_t pid[2];

    j.config.insecure = true;
    ranks_setup();
    pid[0] = rank_start(0, only_open, &j);
    pid[1] = rank_start(1, join_and_leave, &j);
    for (uint32_t r = 0; r < 2; r++) {
        rank_end(r, pid[r], 0);
        check_clean(r);
    }
    expect(0, TUTTI_ERR_PEER, "rank 1 (host ");
    expect(0, TUTTI_ERR_PEER, "is gone: its connection ended while the ranks met");
}

enum { GIVE_OTHER, STAY_AWAY, DIE };

static void exchange_with_trouble(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_boot *b = NULL;
    struct outcome *o = &outcomes[rank];
    uint8_t mine[600] = {0}, all[1800];
    size_t bytes = rank == 2 && j->what == GIVE_OTHER ? 600 : 8;

    if (open_rank(rank, j, &b) != TUTTI_OK)
        return;
    reach_stage(rank, 1);
    if (rank == 2 && j->what == DIE) {
        await_stage(1, 1); /* not while somebody still waits for the table */
        await_stage(0, 1);
        kill(getpid(), SIGKILL);
    }
    if (rank == 2 && j->what == STAY_AWAY)
        await_stage(0, 2);
    else
        o->status = tt_boot_exchange(b, mine, bytes, all, UINT64_C(600000000), &o->err);
    if (o->status)
        o->value = tt_boot_exchange(b, mine, bytes, all, 0, NULL);
    reach_stage(rank, 2);
    tt_boot_close(b);
}

static void troubled_exchanges_name_the_rank(void **state)
{
    (void)state;
    static const struct {
        int what;
        tutti_status status;
        const char *text;
    } table[] = {{GIVE_OTHER, TUTTI_ERR_DIFFERS, "rank 2 gives 600 bytes to the exchange, rank 0 8"},
                 {STAY_AWAY, TUTTI_ERR_TIMEOUT, "rank 2 did not enter exchange 0 within 600 ms"},
                 {DIE, TUTTI_ERR_PEER, "rank 2 (host "}};

    for (size_t i = 0; i < countof(table); i++) {
        struct job j = job_make(3, 10000);
        pid_t pid[3];
        j.what = table[i].what;
        ranks_setup();
        for (uint32_t r = 0; r < 3; r++)
            pid[r] = rank_start(r, exchange_with_trouble, &j);
        for (uint32_t r = 0; r < 3; r++)
            rank_end(r, pid[r], r == 2 && j.what == DIE ? SIGKILL : 0);
        for (uint32_t r = 0; r < (j.what == GIVE_OTHER ? 3u : 2u); r++) {
            expect(r, table[i].status, table[i].text);
            check_clean(r);
            assert_int_equal(outcomes[r].value, TUTTI_ERR_CONNECT); /* and no exchange after that */
        }
    }
}

static void probe_after(uint32_t rank, void *arg)
{
    struct tt_boot *b = NULL;

    if (open_rank(rank, arg, &b) != TUTTI_OK)
        return;
    if (rank == 0) {
        await_stage(1, 1);
        outcomes[0].value = tt_boot_probe(b, 1, UINT64_C(5000000000));
    }
    tt_boot_close(b);
    reach_stage(rank, 1);
}

static void probes_tell_who_is_gone(void **state)
{
    (void)state;
    struct job j = job_make(2, 10000);

    run_ranks(2, probe_after, &j);
    assert_int_equal(outcomes[0].value, ECONNREFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_meet),
        cmocka_unit_test(variants_meet),
        cmocka_unit_test(encryption_is_agreed),
        cmocka_unit_test(bad_configurations_are_refused),
        cmocka_unit_test(wrong_hosts_are_refused),
        cmocka_unit_test(missing_ranks_are_named),
        cmocka_unit_test(the_least_patient_is_answered),
        cmocka_unit_test(missing_rank_zero_is_named),
        cmocka_unit_test(wrong_keys_are_named),
        cmocka_unit_test(differing_settings_are_told_to_all),
        cmocka_unit_test(another_size_is_refused),
        cmocka_unit_test(missing_interface_is_refused),
        cmocka_unit_test(a_full_port_range_is_named),
        cmocka_unit_test(two_jobs_on_one_port),
        cmocka_unit_test(strangers_do_not_disturb),
        cmocka_unit_test(a_crowd_of_guests_does_not_disturb),
        cmocka_unit_test(rank_zero_dies),
        cmocka_unit_test(a_joined_rank_dies),
        cmocka_unit_test(troubled_exchanges_name_the_rank),
        cmocka_unit_test(probes_tell_who_is_gone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
