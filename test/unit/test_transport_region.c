/* Shared memory between processes: only what tt_shm_region_make made is mapped, whatever a key says; and a limit
 * of file sizes is an error, not a signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/shm_region.h"

enum { BYTES = 3 * 4096 };

static struct tt_region_key key_of(int fd)
{
    struct stat st;

    assert_int_equal(fstat(fd, &st), 0);
    return (struct tt_region_key){.bytes = (uint64_t)st.st_size, .dev = st.st_dev, .ino = st.st_ino, .pid = (uint32_t)getpid(), .fd = fd};
}

static void what_was_made_is_shared(void **state)
{
    (void)state;
    struct tt_region a = {0}, b = {0};
    struct tt_region_key key;
    struct tutti_error err;

    assert_int_equal(tt_shm_region_make(BYTES - 5, &a, &err), TUTTI_OK);
    assert_int_equal(a.bytes, BYTES);
    assert_int_equal(tt_shm_region_describe(&a, &key, &err), TUTTI_OK);
    assert_int_equal(tt_shm_region_join(&key, &b, &err), TUTTI_OK);
    strcpy(a.base, "word");
    assert_string_equal(b.base, "word");
    assert_int_equal(ftruncate(a.fd, 4096), -1); /* no access can end in SIGBUS */
    assert_int_equal(ftruncate(a.fd, 1 << 20), -1);
    tt_shm_region_seal(&a);
    tt_shm_region_free(&b);
    assert_int_equal(tt_shm_region_join(&key, &b, &err), TUTTI_ERR_CONNECT);
    tt_shm_region_free(&a);
    tt_shm_region_free(&a);
}

static void expect_refused(const char *what, struct tt_region_key key)
{
    struct tt_region r = {0};
    struct tutti_error err = {0};

    if (tt_shm_region_join(&key, &r, &err) != TUTTI_ERR_CONNECT)
        fail_msg("%s was mapped", what);
    if (!strstr(err.text, "is not the shared memory it should be"))
        fail_msg("%s: %s", what, err.text);
}

/* Files of the victim, unsealed memory, sealed memory of another size, devices, pipes: all named by a peer. */
static void nothing_else_is_mapped(void **state)
{
    (void)state;
    char path[] = "/tmp/tutti-region-XXXXXX", shm[] = "/dev/shm/tutti-region-XXXXXX";
    int file = mkstemp(path), tmpfs = mkstemp(shm), zero = open("/dev/zero", O_RDWR), pipes[2];
    int plain = memfd_create("plain", MFD_CLOEXEC), half = memfd_create("half", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    struct tt_region r;
    struct tt_region_key key;

    assert_true(file >= 0 && tmpfs >= 0 && zero >= 0 && plain >= 0 && half >= 0);
    assert_int_equal(pipe(pipes), 0);
    assert_int_equal(ftruncate(file, BYTES) | ftruncate(tmpfs, BYTES) | ftruncate(plain, BYTES) | ftruncate(half, BYTES), 0);
    assert_int_equal(fcntl(half, F_ADD_SEALS, F_SEAL_GROW), 0);
    expect_refused("a file", key_of(file));
    expect_refused("a file in memory", key_of(tmpfs));
    expect_refused("memory that cannot be sealed", key_of(plain));
    expect_refused("memory that can be cut", key_of(half));
    expect_refused("a device", key_of(zero));
    expect_refused("a pipe", key_of(pipes[0]));
    assert_int_equal(tt_shm_region_make(BYTES, &r, NULL), TUTTI_OK);
    assert_int_equal(tt_shm_region_describe(&r, &key, NULL), TUTTI_OK);
    for (int what = 0; what < 3; what++) {
        struct tt_region_key other = key;
        other.bytes += what == 0 ? 4096 : 0;
        other.ino += what == 1;
        other.dev += what == 2;
        expect_refused("another region", other);
    }
    if (geteuid() == 0) {
        assert_int_equal(fchown(r.fd, 65534, 65534), 0);
        expect_refused("memory of another user", key);
    }
    tt_shm_region_free(&r);
    unlink(path);
    unlink(shm);
    for (int fd = 0; fd < 2; fd++)
        close(pipes[fd]);
    close(file), close(tmpfs), close(zero), close(plain), close(half);
}

static int under_limit(void)
{
    struct rlimit l = {.rlim_cur = 4096, .rlim_max = 4096};
    struct tt_region r;
    struct tutti_error err = {0};
    sigset_t pending;

    signal(SIGXFSZ, SIG_DFL);
    if (setrlimit(RLIMIT_FSIZE, &l) != 0 || tt_shm_region_make(BYTES, &r, &err) != TUTTI_ERR_LIMIT)
        return 1;
    if (!strstr(err.text, "may have 4096 bytes, raise ulimit -f"))
        return 2;
    sigpending(&pending);
    return sigismember(&pending, SIGXFSZ) ? 3 : 0;
}

static int joins_from_closed_process(const struct tt_region_key *key)
{
    struct tt_region r;
    struct tutti_error err = {0};

    if (geteuid() == 0 && setresuid(65534, 65534, 65534) != 0) /* root may look into all processes */
        return 9;
    return tt_shm_region_join(key, &r, &err) == TUTTI_ERR_CONNECT && strstr(err.text, "cannot be opened: ") ? 0 : 1;
}

static int run_child(int (*act)(const void *), const void *arg)
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(act(arg));
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

static int limited(const void *arg)
{
    (void)arg;
    return under_limit();
}

static int closed(const void *arg)
{
    return joins_from_closed_process(arg);
}

static void a_file_size_limit_is_an_error(void **state)
{
    (void)state;
    assert_int_equal(run_child(limited, NULL), 0);
}

static void a_closed_process_is_an_error(void **state)
{
    (void)state;
    struct tt_region r;
    struct tt_region_key key;

    assert_int_equal(tt_shm_region_make(BYTES, &r, NULL), TUTTI_OK);
    assert_int_equal(tt_shm_region_describe(&r, &key, NULL), TUTTI_OK);
    assert_int_equal(prctl(PR_SET_DUMPABLE, 0), 0);
    int got = run_child(closed, &key);
    prctl(PR_SET_DUMPABLE, 1);
    assert_int_equal(got, 0);
    tt_shm_region_free(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_made_is_shared),
        cmocka_unit_test(nothing_else_is_mapped),
        cmocka_unit_test(a_file_size_limit_is_an_error),
        cmocka_unit_test(a_closed_process_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
