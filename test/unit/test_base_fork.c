/* What a forked child finds: our descriptors closed, those of others open, objects foreign. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

static int exit_status(pid_t pid)
{
    int status = -1;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The end of a connection is seen although a child lives. */
static void children_keep_no_connection_open(void **state)
{
    (void)state;
    int link[2], life[2];
    char c;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, link), 0);
    assert_int_equal(pipe(life), 0);
    assert_int_equal(tt_fd_own(link[0]), link[0]);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(life[1]);
        _exit(read(life[0], &c, 1) == 0 && fcntl(link[0], F_GETFD) < 0 && fcntl(link[1], F_GETFD) >= 0 ? 0 : 1);
    }
    tt_fd_close(link[0]);
    struct pollfd p = {.fd = link[1], .events = POLLIN};
    assert_int_equal(poll(&p, 1, 5000), 1);
    assert_int_equal(recv(link[1], &c, 1, MSG_DONTWAIT), 0);
    close(life[1]);
    assert_int_equal(exit_status(pid), 0);
    close(life[0]);
    close(link[1]);
}

/* A number that was closed behind our back and used again is somebody else's. */
static void descriptors_of_others_stay(void **state)
{
    (void)state;
    int link[2], owned, other;

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, link), 0);
    owned = tt_fd_own(link[0]);
    close(owned);
    other = open("/dev/null", O_RDONLY);
    assert_int_equal(other, owned);
    pid_t pid = fork();
    if (pid == 0)
        _exit(fcntl(other, F_GETFD) >= 0 ? 0 : 1);
    assert_int_equal(exit_status(pid), 0);
    tt_fd_close(other); /* closes, owned or not */
    assert_int_equal(fcntl(other, F_GETFD), -1);
    close(link[1]);
    assert_int_equal(tt_fd_own(-1), -1);
    tt_fd_close(-1);
}

static int look_from_child(uint32_t mine)
{
    bool foreign = tt_fork_foreign(mine);
    uint32_t own = tt_fork_generation();

    return foreign && own != mine && own > 0 && !tt_fork_foreign(own) && tt_fork_foreign(mine) ? 0 : 1;
}

static void objects_are_foreign_in_children(void **state)
{
    (void)state;
    uint32_t mine = tt_fork_generation();

    assert_true(mine > 0);
    assert_int_equal(tt_fork_generation(), mine);
    assert_false(tt_fork_foreign(mine));
    for (int raw = 0; raw < 2; raw++) {
        pid_t pid = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
        if (pid == 0) {
            int bad = look_from_child(mine);
            uint32_t own = tt_fork_generation();
            pid_t grandchild = raw ? (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL) : fork();
            if (grandchild == 0)
                _exit(tt_fork_foreign(mine) ? look_from_child(own) : 1);
            int status = -1;
            waitpid(grandchild, &status, 0);
            _exit(bad || status);
        }
        assert_int_equal(exit_status(pid), 0);
        assert_false(tt_fork_foreign(mine));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_keep_no_connection_open),
        cmocka_unit_test(descriptors_of_others_stay),
        cmocka_unit_test(objects_are_foreign_in_children),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
