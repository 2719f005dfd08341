/* A job on loopback without a key: its ranks trust processes of their user and nobody else. The tests
 * with a second user need root, to become one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/un.h>

#include "boot_ranks.h"

enum { NOBODY = 65534 };

struct job {
    struct tt_boot_config config;
    uint32_t uid_of[3]; /* 0: as the test */
};

static void open_as(uint32_t rank, void *arg)
{
    const struct job *j = arg;
    struct tt_boot_config c = j->config;
    struct tt_boot *b = NULL;

    c.rank = rank;
    if (j->uid_of[rank] && setresuid(NOBODY, NOBODY, NOBODY) != 0)
        _exit(3);
    outcomes[rank].status = tt_boot_open(&c, &b, &outcomes[rank].err);
    if (b) /* all have one key, and it is not that of everybody */
        outcomes[rank].hash = tt_hash_bytes(1, tt_boot_config(b)->key, TT_BOOT_KEY);
    outcomes[rank].value = b && tt_boot_config(b)->has_key;
    tt_boot_close(b);
}

static void expect(uint32_t rank, tutti_status status, const char *text)
{
    const struct outcome *o = &outcomes[rank];

    if (o->status != status || (text && !strstr(o->err.text, text)))
        fail_msg("rank %u: %d \"%s\" instead of %d \"%s\"", rank, o->status, o->err.text, status, text ? text : "");
}

static bool second_user(void)
{
    if (geteuid() == 0)
        return true;
    print_message("skipped: only root can become a second user\n");
    return false;
}

/* A process of another user; ends when killed. `act` returns when it stands ready. */
static pid_t start_stranger(int (*act)(uint16_t port), uint16_t port)
{
    int ready[2];
    char c = 0;

    assert_int_equal(pipe(ready), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        alarm(60);
        if (setresuid(NOBODY, NOBODY, NOBODY) != 0 || act(port) < 0)
            _exit(1);
        if (write(ready[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ready[1]);
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    return pid;
}

static void end_stranger(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

static int local_name(uint16_t port, struct sockaddr_un *a)
{
    *a = (struct sockaddr_un){.sun_family = AF_UNIX};
    int n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "tutti/0/127.0.0.1:%u", port);

    return (int)offsetof(struct sockaddr_un, sun_path) + 1 + n;
}

/* Squats the name, and even offers a key. */
static int squat(uint16_t port)
{
    struct sockaddr_un a;
    socklen_t len = (socklen_t)local_name(port, &a);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

    return fd >= 0 && bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, 64) == 0 ? fd : -1;
}

/* Takes the port of the rendezvous. */
static int play_rank_zero(uint16_t port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    return fd >= 0 && bind(fd, (struct sockaddr *)&a, sizeof(a)) == 0 && listen(fd, 64) == 0 ? fd : -1;
}

static void one_user_meets(void **state)
{
    (void)state;
    uint8_t zeros[TT_BOOT_KEY] = {0};
    uint64_t first = 0;

    for (int round = 0; round < 2; round++) {
        uint16_t port = free_port();
        struct job j = {.config = loopback_config(3, port, 20000)};
        run_ranks(3, open_as, &j);
        for (uint32_t r = 0; r < 3; r++) {
            expect(r, TUTTI_OK, NULL);
            assert_int_equal(outcomes[r].value, 1);
            assert_true(outcomes[r].hash == outcomes[0].hash);
        }
        assert_true(outcomes[0].hash != tt_hash_bytes(1, zeros, sizeof(zeros)) && outcomes[0].hash != first);
        first = outcomes[0].hash;
    }
}

static void another_user_is_refused(void **state)
{
    (void)state;
    struct job j = {.config = loopback_config(2, free_port(), 4000), .uid_of = {0, NOBODY}};

    if (!second_user())
        skip();
    run_ranks(2, open_as, &j);
    expect(1, TUTTI_ERR_AUTH, "belongs to user root (uid 0), and this rank to user nobody (uid 65534)");
    expect(0, TUTTI_ERR_TIMEOUT, "rank 1 did not come");
}

static void a_squatted_name_is_told(void **state)
{
    (void)state;
    struct job j = {.config = loopback_config(2, free_port(), 10000)};
    uint16_t port = (uint16_t)atoi(strchr(j.config.rendezvous, ':') + 1);

    if (!second_user())
        skip();
    pid_t pid = start_stranger(squat, port);
    run_ranks(2, open_as, &j);
    end_stranger(pid);
    expect(0, TUTTI_ERR_AUTH, "a process of user nobody (uid 65534), not of yours, pretends to be rank 0 at 127.0.0.1:");
    expect(1, TUTTI_ERR_AUTH, "belongs to user nobody (uid 65534), and this rank to user root (uid 0)");
}

static void a_taken_port_is_told(void **state)
{
    (void)state;
    struct job j = {.config = loopback_config(2, free_port(), 10000)};
    uint16_t port = (uint16_t)atoi(strchr(j.config.rendezvous, ':') + 1);

    if (!second_user())
        skip();
    pid_t pid = start_stranger(play_rank_zero, port);
    run_ranks(2, open_as, &j);
    end_stranger(pid);
    expect(0, TUTTI_ERR_ARG, "is in use by a process of user nobody (uid 65534)");
    expect(1, TUTTI_ERR_AUTH, "belongs to user nobody (uid 65534), and this rank to user root (uid 0)");
}

/* Whoever connects from another user gets not a byte. */
static void strangers_get_no_key(void **state)
{
    (void)state;
    struct tt_place at = {.addr_be = htonl(INADDR_LOOPBACK), .port = free_port()};
    struct tt_offer o = {.mode = TT_OFFER_KEY, .key = {1}};
    struct tutti_error err = {0};
    int listener = -1, status = -1;

    if (!second_user())
        skip();
    assert_int_equal(tt_boot_local_listen(&at, &listener, &err), TUTTI_OK);
    for (int foreign = 0; foreign < 2; foreign++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct sockaddr_un a;
            socklen_t len = (socklen_t)local_name(at.port, &a);
            uint8_t got[128];
            alarm(20);
            int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
            if ((foreign && setresuid(NOBODY, NOBODY, NOBODY) != 0) || connect(fd, (struct sockaddr *)&a, len) != 0)
                _exit(9);
            ssize_t n = recv(fd, got, sizeof(got), 0);
            _exit(n == TT_OFFER ? 1 : n == 0 || errno == ECONNRESET ? 0 : 9);
        }
        struct pollfd p = {.fd = listener, .events = POLLIN};
        assert_int_equal(poll(&p, 1, 10000), 1);
        tt_boot_local_serve(listener, &o);
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), !foreign);
    }
    tt_boot_net_close(&listener);
}

static void offers_round_trip(void **state)
{
    (void)state;
    uint8_t bytes[TT_OFFER + 1] = {0};
    struct tt_offer o = {.mode = TT_OFFER_KEY}, back;

    memset(o.key, 5, sizeof(o.key));
    tt_boot_offer_write(&o, bytes);
    assert_true(tt_boot_offer_parse(bytes, TT_OFFER, &back));
    assert_memory_equal(back.key, o.key, TT_BOOT_KEY);
    for (size_t n = 0; n <= TT_OFFER + 1; n++)
        assert_int_equal(tt_boot_offer_parse(bytes, n, &back), n == TT_OFFER);
    for (size_t i = 0; i < 16; i++) { /* head and mode: any change is refused, or another mode without key */
        bytes[i] ^= 1;
        assert_false(tt_boot_offer_parse(bytes, TT_OFFER, &back));
        bytes[i] ^= 1;
    }
    o.mode = TT_OFFER_FILE;
    tt_boot_offer_write(&o, bytes);
    for (size_t i = 16; i < TT_OFFER; i++)
        assert_int_equal(bytes[i], 0);
    o.mode = TT_OFFER_KEY;
    memset(o.key, 0, sizeof(o.key)); /* a key of zeros is none */
    tt_boot_offer_write(&o, bytes);
    assert_false(tt_boot_offer_parse(bytes, TT_OFFER, &back));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(offers_round_trip),       cmocka_unit_test(one_user_meets),       cmocka_unit_test(another_user_is_refused),
        cmocka_unit_test(a_squatted_name_is_told), cmocka_unit_test(a_taken_port_is_told), cmocka_unit_test(strangers_get_no_key),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
