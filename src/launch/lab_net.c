/* lab_net.c - builds and removes the emulated network.
 *
 *    namespace tutti-lab-7-0     namespace tutti-lab-7-net (the switch)     namespace tutti-lab-7-1
 *   +-------------------+       +--------------------------------+        +-------------------+
 *   | eth0 10.77.0.1/24 |=veth==| p0 --.      bridge      .-- p1 |==veth==| eth0 10.77.0.2/24 |
 *   |  tbf: out of host |       |  tbf: into host 0              |        |  tbf: out of host |
 *   +-------------------+       +--------------------------------+        +-------------------+
 *
 * With groups every group has a bridge g0, g1, .. of its own, joined to the central bridge by a
 * cable u0 = v0 with a bucket at each end.
 *
 * The machine's own interfaces are not touched: even the bridge has a namespace of its own. A
 * token bucket at each end of a cable limits both directions. Its depth is a millisecond of the
 * rate: small, because a full bucket passes at the speed of memory, yet from 550 Mbit/s on
 * enough for a whole 64-KiB packet of the kernel's (a shallower one cuts them, which is right
 * but costs time) and for timers that come late. Its queue holds 20 ms, as a switch with deep
 * buffers. Like a switch, the bridge does not look into packets (by default the kernel passes
 * them through its packet filter, even when that is empty).
 *
 * The invariant that makes cleaning simple: everything we make lives in namespaces whose names
 * begin with tutti-lab- and our process number, and disappears with them. */
#include "launch/lab_net.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "launch/supervise.h"

extern char **environ;

static const char name_start[] = "tutti-lab-", names_dir[] = "/var/run/netns";
enum { TOOL_WORDS = 24 };

/* Runs a tool to its end, in a process group of its own: Ctrl-C must not interrupt building or
 * cleaning half-way. */
static bool run_tool(const char *const *argv)
{
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid;
    int status = -1;
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
    int e = posix_spawnp(&pid, argv[0], NULL, &attr, (char *const *)argv, environ);
    if (e == ENOENT) { /* PATH of root may lack /usr/sbin */
        char path[64];
        snprintf(path, sizeof path, "/usr/sbin/%s", argv[0]);
        e = posix_spawn(&pid, path, NULL, &attr, (char *const *)argv, environ);
    }
    posix_spawnattr_destroy(&attr);
    if (e) {
        fprintf(stderr, "tutti lab: cannot start %s (package iproute2): %s\n", argv[0],
                strerror(e));
        return false;
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status == 0;
}

/* Runs a command line, split at its spaces; prints the one that failed (the tool itself has
 * printed why). */
__attribute__((format(printf, 1, 2))) static bool tool(const char *fmt, ...)
{
    char text[512], words[512], *at = words;
    const char *argv[TOOL_WORDS + 1] = {NULL};
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    memcpy(words, text, sizeof words);
    for (size_t n = 0; at && n < TOOL_WORDS; n++)
        argv[n] = strsep(&at, " ");
    if (run_tool(argv))
        return true;
    fprintf(stderr, "tutti lab: this failed: %s\n", text);
    return false;
}

/* ---- removing ---- */

/* Sends SIGKILL to every process in the namespace; returns how many there were. */
static unsigned kill_inside(const struct stat *netns)
{
    DIR *proc = opendir("/proc");
    struct dirent *d;
    unsigned found = 0;
    while (proc && (d = readdir(proc))) {
        char path[300];
        struct stat st;
        long pid = isdigit((unsigned char)d->d_name[0]) ? strtol(d->d_name, NULL, 10) : 0;
        snprintf(path, sizeof path, "/proc/%s/ns/net", d->d_name);
        if (pid <= 0 || pid == getpid() || stat(path, &st) || st.st_ino != netns->st_ino ||
            st.st_dev != netns->st_dev)
            continue;
        kill((pid_t)pid, SIGKILL);
        found++;
    }
    if (proc)
        closedir(proc);
    return found;
}

/* Kills until nothing is left inside (at most a second), then removes the name. */
static void remove_namespace(const char *name)
{
    char path[300];
    struct stat netns, dir;
    snprintf(path, sizeof path, "%s/%s", names_dir, name);
    /* otherwise it is only a name, without a namespace */
    bool mounted = !stat(path, &netns) && !stat(names_dir, &dir) && netns.st_dev != dir.st_dev;
    for (int tries = 0; mounted && tries < 50 && kill_inside(&netns); tries++)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    umount2(path, MNT_DETACH); /* as ip netns del does */
    if (unlink(path) && errno != ENOENT)
        fprintf(stderr, "tutti lab: %s cannot be removed: %s\n", path, strerror(errno));
}

/* The process that a namespace is named after; 0: it is not a lab's. */
static pid_t maker_of(const char *name)
{
    size_t start = sizeof name_start - 1;
    char *end;
    if (strncmp(name, name_start, start) || !isdigit((unsigned char)name[start]))
        return 0;
    long pid = strtol(name + start, &end, 10);
    return *end == '-' && pid > 0 && pid < INT32_MAX ? (pid_t)pid : 0;
}

static int of_own(const struct dirent *d)
{
    return maker_of(d->d_name) == getpid();
}

static int of_dead(const struct dirent *d)
{
    pid_t maker = maker_of(d->d_name);
    return maker > 0 && maker != getpid() && kill(maker, 0) && errno == ESRCH;
}

static void remove_all(int (*which)(const struct dirent *d))
{
    struct dirent **found = NULL;
    int n = scandir(names_dir, &found, which, alphasort);
    for (int i = 0; i < n; i++) {
        remove_namespace(found[i]->d_name);
        free(found[i]);
    }
    free(found);
}

void launch_lab_sweep(void)
{
    remove_all(of_dead);
    remove_all(of_own); /* left by a dead lab that had our process number */
}

void launch_lab_close(struct lab_net *net)
{
    for (uint32_t i = 0; net->nodes && i < net->count; i++)
        if (net->nodes[i].netns >= 0)
            close(net->nodes[i].netns);
    remove_all(of_own);
    free(net->nodes);
    free(net->hosts);
    *net = (struct lab_net){0};
}

/* ---- building ---- */

/* Limits what `dev` sends. 2e9: tc takes a 32-bit number. */
static bool lab_net_shape(const char *netns, const char *dev, double rate_bytes)
{
    double depth = rate_bytes * 1e-3 < 8192 ? 8192 : rate_bytes * 1e-3;
    double queue = rate_bytes * 20e-3 < 131072 ? 131072 : rate_bytes * 20e-3;
    return tool("tc -n %s qdisc add dev %s root tbf rate %.0fbit burst %.0fb limit %.0fb", netns,
                dev, rate_bytes * 8, depth, depth + queue < 2e9 ? depth + queue : 2e9);
}

/* Makes bridges of the namespace pass packets on without the packet filter. A child does it,
 * because entering the namespace changes the process; where there is no such filter there is
 * nothing to do. */
static void switch_filter_off(const char *net)
{
    static const char *const which[] = {"iptables", "ip6tables", "arptables"};
    char path[300];
    snprintf(path, sizeof path, "%s/%s", names_dir, net);
    pid_t pid = fork();
    if (pid > 0)
        while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
            ;
    if (pid)
        return;
    int netns = open(path, O_RDONLY | O_CLOEXEC);
    bool there = netns >= 0 && !setns(netns, CLONE_NEWNET);
    for (size_t i = 0; there && i < sizeof which / sizeof *which; i++) {
        snprintf(path, sizeof path, "/proc/sys/net/bridge/bridge-nf-call-%s", which[i]);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0 || write(fd, "0", 1) != 1)
            break;
        close(fd);
    }
    _exit(0);
}

static bool make_bridge(const char *net, const char *name)
{
    return tool("ip -n %s link add %s type bridge", net, name) &&
           tool("ip -n %s link set %s up", net, name);
}

/* Makes the switch of a group and its uplink. */
static bool make_group(const char *net, uint32_t g, double uplink_bytes)
{
    char name[16], up[16], down[16];
    snprintf(name, sizeof name, "g%u", g);
    snprintf(up, sizeof up, "u%u", g);
    snprintf(down, sizeof down, "v%u", g);
    return make_bridge(net, name) &&
           tool("ip -n %s link add %s type veth peer name %s", net, up, down) &&
           lab_net_shape(net, up, uplink_bytes) && lab_net_shape(net, down, uplink_bytes) &&
           tool("ip -n %s link set %s master %s up", net, up, name) &&
           tool("ip -n %s link set %s master bridge up", net, down);
}

/* Connects node i to the switch `at`: a veth cable, shaped at both ends. */
static bool connect_node(const struct lab_node *n, uint32_t i, const char *net, const char *at)
{
    char port[16];
    snprintf(port, sizeof port, "p%u", i);
    return tool("ip -n %s link add eth0 type veth peer name %s netns %s", n->name, port, net) &&
           tool("ip -n %s address add %s/24 dev eth0", n->name, n->address) &&
           lab_net_shape(n->name, "eth0", n->rate_bytes) &&
           lab_net_shape(net, port, n->rate_bytes) &&
           tool("ip -n %s link set %s master %s up", net, port, at) &&
           tool("ip -n %s link set lo up", n->name) && tool("ip -n %s link set eth0 up", n->name);
}

/* Makes the namespace and keeps a descriptor of it, with which ranks enter it. */
static bool make_node(struct lab_node *n)
{
    char path[128];
    if (!tool("ip netns add %s", n->name))
        return false;
    snprintf(path, sizeof path, "%s/%s", names_dir, n->name);
    n->netns = open(path, O_RDONLY | O_CLOEXEC);
    if (n->netns < 0)
        fprintf(stderr, "tutti lab: %s: %s\n", path, strerror(errno));
    return n->netns >= 0;
}

/* Sets names, addresses and the text of /etc/hosts. The text is complete only after fclose. */
static bool name_nodes(struct lab_net *net, const double *rates)
{
    size_t len;
    FILE *hosts = open_memstream(&net->hosts, &len);
    if (!hosts)
        return false;
    fputs("127.0.0.1 localhost\n", hosts);
    for (uint32_t i = 0; i < net->count; i++) {
        struct lab_node *n = &net->nodes[i];
        n->netns = -1;
        n->rate_bytes = rates[i];
        snprintf(n->name, sizeof n->name, "%s%d-%u", name_start, (int)getpid(), i);
        snprintf(n->host, sizeof n->host, "node%u", i);
        snprintf(n->address, sizeof n->address, "10.77.0.%u", (i + 1) & 255);
        fprintf(hosts, "%s %s\n", n->address, n->host);
    }
    if (fclose(hosts))
        return false;
    for (uint32_t i = 0; i < net->count; i++)
        net->nodes[i].hosts = net->hosts;
    return true;
}

/* After a failure the caller still calls launch_lab_close, which removes what was made so far. */
bool launch_lab_open(struct lab_net *ret, const struct lab_want *want)
{
    char net[48], at[16] = "bridge";
    *ret = (struct lab_net){.nodes = calloc(want->nodes, sizeof *ret->nodes), .count = want->nodes};
    if (!ret->nodes || !name_nodes(ret, want->rates)) {
        fputs("tutti lab: out of memory\n", stderr);
        return false;
    }
    snprintf(net, sizeof net, "%s%d-net", name_start, (int)getpid());
    if (!tool("ip netns add %s", net))
        return false;
    switch_filter_off(net);
    if (!make_bridge(net, "bridge"))
        return false;
    for (uint32_t g = 0; g < want->groups; g++)
        if (!make_group(net, g, want->uplink))
            return false;
    for (uint32_t i = 0; i < want->nodes; i++) {
        if (want->groups)
            snprintf(at, sizeof at, "g%u", want->group_of[i]);
        if (launch_is_stopped() || !make_node(&ret->nodes[i]) ||
            !connect_node(&ret->nodes[i], i, net, at))
            return false;
    }
    return true;
}
