/* host.c - what this process is: host name, process id, and ids that tell whether two ranks can
 * share memory.
 *
 * Two processes share memory if they run on one kernel (its boot id is new at every boot) and see
 * the same IPC objects, process ids and files (namespaces). The network namespace counts too: ranks
 * of one machine in different network namespaces are hosts of an emulated network and must
 * communicate through it. Loopback needs only the kernel and the network namespace: ranks in two
 * containers with the host's network reach each other.
 *
 *     net_id  = hash(boot id, net)        host_id = hash(net_id, ipc, pid, mnt) */
#include "boot/boot_int.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Without /proc the host name stands in for the boot id. */
static uint64_t hash_boot_id(const char *host)
{
    char id[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, id, sizeof id) : -1;

    tt_boot_net_close(&fd);
    return n > 0 ? tt_hash_bytes(1, id, (size_t)n) : tt_hash_bytes(2, host, strlen(host));
}

/* Without /proc only the name is hashed: the namespaces then count as equal. */
static uint64_t hash_namespace(uint64_t seed, const char *name)
{
    char path[64];
    struct stat st = {0};

    snprintf(path, sizeof path, "/proc/self/ns/%s", name);
    if (stat(path, &st) != 0)
        return tt_hash_bytes(seed, name, strlen(name));
    return tt_hash_bytes(seed, &st.st_ino, sizeof st.st_ino);
}

void tt_boot_host_self(struct tt_boot_peer *ret, uint64_t *ret_net_id)
{
    static const char *const shared[] = {"ipc", "pid", "mnt"};
    struct tt_boot_peer p = {.pid = (uint32_t)getpid()};

    if (gethostname(p.host, sizeof p.host - 1) != 0 || !p.host[0])
        strcpy(p.host, "unknown");
    /* Host names end up in messages: no control characters. */
    for (char *c = p.host; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            *c = '?';
    *ret_net_id = hash_namespace(hash_boot_id(p.host), "net");
    p.host_id = *ret_net_id;
    for (size_t i = 0; i < countof(shared); i++)
        p.host_id = hash_namespace(p.host_id, shared[i]);
    tt_boot_iface_sources(p.sources_be);
    *ret = p;
}

const char *tt_boot_busy_text(char buf[TT_BUSY_TEXT])
{
    double load = 0;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    buf[0] = 0;
    if (getloadavg(&load, 1) == 1 && cores > 0 && load > (double)cores)
        snprintf(buf, TT_BUSY_TEXT, "; this host is busy (load %.1f on %ld cores)", load, cores);
    return buf;
}
