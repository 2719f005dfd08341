/* check.c - tries which ways to share memory between processes the kernel allows here, and says why
 * not. Each is tried with a child process in the role of a second rank, with the same user and
 * namespaces.
 *
 *     parent   make a region, write WORD -> fork -> wait for the child's exit status
 *     child    map it through /proc/<pid>/fd/<n>, as a rank would, and look for WORD */
#include "transport/check.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/direct_int.h"
#include "transport/shm_region.h"

enum { SMALL = 1 << 16, WORD = 0x7574 };

/* Runs f in a child: 0, or the errno that it returns (256: it crashed). The exit status has 8 bits,
 * which is enough for errno values. */
static int in_child(int (*f)(const void *arg), const void *arg)
{
    int status = 0;
    pid_t pid = fork();
    if (pid < 0)
        return errno;
    if (pid == 0)
        _exit(f(arg) & 0xff);
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 256;
}

static const char *why(int error)
{
    return error == 256 ? "the trying process crashed" : strerror(error);
}

/* In the child: maps the region as another rank would and looks for WORD. 0 or an errno. */
static int check_join(const void *arg)
{
    struct tt_region r = {.fd = -1};
    errno = 0;
    if (tt_shm_region_join(arg, &r, NULL))
        return errno ? errno : EIO;
    return *(const volatile uint32_t *)r.base == WORD ? 0 : EIO;
}

/* Shares `bytes` of memory between two processes; false: ret->text says why not. */
static bool check_share(size_t bytes, struct tt_check *ret)
{
    struct tt_region r = {.fd = -1};
    struct tt_region_key key;
    struct tutti_error err;
    tutti_status st = tt_shm_region_make(bytes, &r, &err);
    int error = 0;
    if (!st)
        st = tt_shm_region_describe(&r, &key, &err);
    if (!st) {
        *(volatile uint32_t *)r.base = WORD;
        error = in_child(check_join, &key);
    }
    tt_shm_region_free(&r);
    if (st)
        snprintf(ret->text, sizeof ret->text, "%s", err.text);
    else if (error)
        snprintf(ret->text, sizeof ret->text,
                 "/proc/<pid>/fd cannot be opened by another process: %s", why(error));
    return !st && !error;
}

static void check_shm(struct tt_check *ret)
{
    ret->ok = check_share(SMALL, ret);
    if (ret->ok)
        snprintf(ret->text, sizeof ret->text,
                 "memfd_create works, and other processes map it through /proc/<pid>/fd");
}

/* ---- the heap of tutti_mem_alloc ---- */

/* Tries to map as much as opening would use for the heap of one rank: the host's memory, or less if
 * the address space is limited. */
static void check_heap(struct tt_check *ret)
{
    struct sysinfo info;
    struct rlimit limit;
    char size[32];
    size_t bytes = sysinfo(&info) == 0 ? (size_t)info.totalram * info.mem_unit : SMALL;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur / 4 < bytes) /* as opening does */
        bytes = limit.rlim_cur / 4;
    ret->ok = check_share(bytes, ret);
    if (ret->ok)
        snprintf(ret->text, sizeof ret->text, "a process can map %s of another one",
                 tt_format_size(bytes, size, sizeof size));
}

/* The table of checks; each runs when it is asked for. */
bool tt_transport_check(size_t i, struct tt_check *ret)
{
    static const struct {
        const char *name;
        bool needed;
        void (*run)(struct tt_check *ret);
    } checks[] = {{"shared memory", true, check_shm}, {"shared heap", false, check_heap}};
    if (i >= countof(checks))
        return false;
    *ret = (struct tt_check){.name = checks[i].name, .needed = checks[i].needed};
    checks[i].run(ret);
    return true;
}
