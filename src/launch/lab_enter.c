/* lab_enter.c - a process moves into an emulated host, just before it becomes the program.
 *
 * Besides the network it gets what else makes a host: a name of its own, an /etc/hosts that knows
 * the others (programs look up their own address by name), a /dev/shm and System V objects that
 * other hosts do not see, and a /sys that shows its interfaces. These live in namespaces of the
 * process and vanish with it. The hosts use cubic or reno whatever the machine uses: hosts on an
 * ordinary network do, and a machine's BBR would pause every ten seconds to measure a round trip
 * that is next to nothing here. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "launch/lab_net.h"

static int lab_enter_fail(const char **ret_what, const char *what)
{
    *ret_what = what;
    return -1;
}

static bool write_file(const char *path, int flags, const char *text)
{
    int fd = open(path, flags | O_WRONLY | O_CLOEXEC, 0644);
    size_t len = strlen(text);
    bool ok = fd >= 0 && write(fd, text, len) == (ssize_t)len;
    if (fd >= 0)
        close(fd);
    return ok;
}

/* Conveniences: a host still has a network when one of them fails, so that failures are ignored. */
static void lab_enter_furnish(const struct lab_node *n)
{
    static const char hosts[] = "/dev/shm/hosts";
    static const char control[] = "/proc/sys/net/ipv4/tcp_congestion_control";
    /* The order matters: hosts is written to the new /dev/shm, then bound over /etc/hosts. */
    bool own_shm = !mount("tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777");
    if (own_shm && write_file(hosts, O_CREAT | O_EXCL, n->hosts)) {
        mount(hosts, "/etc/hosts", NULL, MS_BIND, NULL);
        unlink(hosts); /* the mount keeps it */
    }
    mount("sysfs", "/sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL);
    if (!write_file(control, 0, "cubic"))
        write_file(control, 0, "reno");
}

/* Runs in the new process between fork and exec. */
int launch_lab_enter(const void *node, const char **ret_what)
{
    const struct lab_node *n = node;
    if (setns(n->netns, CLONE_NEWNET))
        return lab_enter_fail(ret_what, "enter its network namespace");
    if (unshare(CLONE_NEWNS | CLONE_NEWIPC | CLONE_NEWUTS))
        return lab_enter_fail(ret_what, "make namespaces of its own");
    /* Slave, so that our mounts do not reach the machine; without it they would appear there. */
    if (mount("", "/", NULL, MS_SLAVE | MS_REC, NULL))
        return lab_enter_fail(ret_what, "keep its mounts to itself");
    if (sethostname(n->host, strlen(n->host)))
        return lab_enter_fail(ret_what, "set its host name");
    lab_enter_furnish(n);
    return 0;
}
