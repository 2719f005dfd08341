/* iface.c - which of this host's addresses the other ranks are given.
 *
 * The default is the source address that the kernel itself would use towards the rendezvous, found
 * with a connected UDP socket, which sends nothing. It is what `ip route get` prints, and it is
 * loopback only if the rendezvous is. A filter in NCCL's syntax narrows the choice: "eth,ib" (names
 * with these prefixes), "=eth0" (exact names), "^docker,lo" (all except these), "^=eth0"; or
 * networks, "10.0.0.0/8,192.168.1.7", with "^" for all except these. */
#include "boot/boot_int.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Parses "10.0.0.0/8" or "10.0.0.7", n characters long. */
static bool parse_network(const char *text, size_t n, uint32_t *ret_net_be, uint32_t *ret_mask_be)
{
    char buf[INET_ADDRSTRLEN + 4];
    uint64_t bits = 32;
    struct in_addr a;

    if (n >= sizeof buf)
        return false;
    memcpy(buf, text, n);
    buf[n] = 0;
    char *slash = strchr(buf, '/');
    if (slash) {
        *slash = 0;
        if (tt_parse_u64(slash + 1, 0, 32, &bits, NULL))
            return false;
    }
    if (inet_pton(AF_INET, buf, &a) != 1)
        return false;
    *ret_mask_be = htonl(bits ? UINT32_MAX << (32 - bits) : 0);
    *ret_net_be = a.s_addr & *ret_mask_be;
    return true;
}

/* Does one item of the list match the interface? An item with a slash must be a network; a plain
 * address is one too. */
static tutti_status match_item(const char *item, size_t n, bool exact, const struct tt_iface *i,
                               bool *ret, struct tutti_error *err)
{
    uint32_t net, mask;

    if (parse_network(item, n, &net, &mask)) {
        *ret = (i->addr_be & mask) == net;
        return TUTTI_OK;
    }
    if (memchr(item, '/', n))
        return tt_fail(err, TUTTI_ERR_PARSE,
                       "interface filter: \"%.*s\" is not a network like 10.0.0.0/8", (int)n, item);
    *ret = n > 0 && strncmp(item, i->name, n) == 0 && (!exact || strlen(i->name) == n);
    return TUTTI_OK;
}

tutti_status tt_boot_iface_match(const char *filter, const struct tt_iface *i, bool *ret,
                                 struct tutti_error *err)
{
    const char *item = filter;
    bool except = item[0] == '^', exact, any = false;

    item += except;
    exact = item[0] == '=';
    item += exact;
    if (!filter[0]) {
        *ret = true;
        return TUTTI_OK;
    }
    if (!item[0])
        return tt_fail(err, TUTTI_ERR_PARSE, "interface filter \"%s\" names nothing", filter);
    /* Invariant: `any` says whether an item before `item` matched. */
    for (;; item++) {
        size_t n = strcspn(item, ",");
        bool hit = false;
        tutti_status st = match_item(item, n, exact, i, &hit, err);
        if (st)
            return st;
        any = any || hit;
        item += n;
        if (!*item)
            break;
    }
    *ret = any != except;
    return TUTTI_OK;
}

/* The IPv4 interfaces that are up, one entry per address. The caller frees *ret. */
static tutti_status list_all(struct tt_vec *ret, struct tutti_error *err)
{
    struct tt_vec list = {.elem = sizeof(struct tt_iface)};
    struct ifaddrs *all = NULL;

    if (getifaddrs(&all) != 0)
        return tt_fail(err, TUTTI_ERR_IO, "cannot list the network interfaces: %s",
                       strerror(errno));
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct tt_iface i = {0};
        struct sockaddr_in in;
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET || !(a->ifa_flags & IFF_UP))
            continue;
        snprintf(i.name, sizeof i.name, "%s", a->ifa_name);
        memcpy(&in, a->ifa_addr, sizeof in);
        i.addr_be = in.sin_addr.s_addr;
        if (a->ifa_netmask) {
            memcpy(&in, a->ifa_netmask, sizeof in);
            i.mask_be = in.sin_addr.s_addr;
        }
        if (!tt_vec_push(&list, &i, 1)) {
            freeifaddrs(all);
            tt_vec_free(&list);
            return tt_fail_memory(err, "interfaces");
        }
    }
    freeifaddrs(all);
    *ret = list;
    return TUTTI_OK;
}

static void iface_describe(const struct tt_vec *list, struct tt_str *out)
{
    for (size_t k = 0; k < list->len; k++) {
        const struct tt_iface *i = tt_vec_at(list, k);
        char ip[TT_NET_TEXT];
        tt_str_printf(out, "%s%s %s/%d", k ? ", " : "", i->name,
                      tt_boot_net_text(i->addr_be, 0, ip), __builtin_popcount(i->mask_be));
    }
}

void tt_boot_iface_list(struct tt_str *out)
{
    struct tt_vec list = {0};

    if (list_all(&list, NULL))
        return;
    iface_describe(&list, out);
    tt_vec_free(&list);
}

/* IFF_RUNNING is cleared when the carrier is lost. An address that no interface has does not count
 * as down. */
bool tt_boot_iface_down(uint32_t addr_be)
{
    struct ifaddrs *all = NULL;
    bool down = false;

    if (getifaddrs(&all) != 0)
        return false;
    for (const struct ifaddrs *a = all; a; a = a->ifa_next) {
        struct sockaddr_in in;
        if (!a->ifa_addr || a->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&in, a->ifa_addr, sizeof in);
        if (in.sin_addr.s_addr == addr_be)
            down = (a->ifa_flags & (IFF_UP | IFF_RUNNING)) != (IFF_UP | IFF_RUNNING);
    }
    freeifaddrs(all);
    return down;
}

/* 192.0.2.1 is reserved for documentation: an address that only the default route reaches */
#define OUTWARD_BE htonl(0xc0000201)

/* The source address of packets to dst, as the kernel's routing table gives it. Nothing is sent. */
static tutti_status route_source(uint32_t dst_be, uint32_t *ret, struct tutti_error *err)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(9)};
    socklen_t len = sizeof a;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    char ip[TT_NET_TEXT];
    bool ok;

    a.sin_addr.s_addr = dst_be;
    ok = fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0 &&
         getsockname(fd, (struct sockaddr *)&a, &len) == 0;
    if (!ok)
        tt_fail(err, TUTTI_ERR_CONNECT, "no route to the rendezvous %s: %s",
                tt_boot_net_text(dst_be, 0, ip), strerror(errno));
    tt_boot_net_close(&fd);
    if (!ok)
        return TUTTI_ERR_CONNECT;
    *ret = a.sin_addr.s_addr;
    return TUTTI_OK;
}

/* The best of the admitted addresses, 0 if there is none: the routed one, else the first that
 * leaves the host, else the first. */
static tutti_status best_of(const struct tt_vec *list, const char *filter, uint32_t routed,
                            uint32_t *ret, struct tutti_error *err)
{
    uint32_t best = 0;

    for (size_t k = 0; k < list->len; k++) {
        const struct tt_iface *i = tt_vec_at(list, k);
        bool admitted = false;
        tutti_status st = tt_boot_iface_match(filter, i, &admitted, err);
        if (st)
            return st;
        if (!admitted)
            continue;
        if (i->addr_be == routed) {
            best = routed;
            break;
        }
        if (!best || (tt_boot_net_loopback(best) && !tt_boot_net_loopback(i->addr_be)))
            best = i->addr_be;
    }
    *ret = best;
    return TUTTI_OK;
}

static tutti_status fail_nothing(const char *filter, const struct tt_vec *list,
                                 struct tutti_error *err)
{
    struct tt_str have = {0};

    iface_describe(list, &have);
    tt_fail(err, TUTTI_ERR_ARG, "no network interface matches \"%s\"; this host has %s", filter,
            have.s ? have.s : "none");
    tt_str_free(&have);
    return TUTTI_ERR_ARG;
}

tutti_status tt_boot_iface_choose(const char *filter, uint32_t dst_be, uint32_t *ret_addr_be,
                                  struct tutti_error *err)
{
    struct tt_vec list = {0};
    uint32_t routed = 0, best = 0;
    tutti_status st = route_source(dst_be, &routed, err);

    if (st)
        return st;
    /* The filter is checked even if dst is loopback, so that a bad one is always reported. */
    if (filter[0]) {
        st = list_all(&list, err);
        if (!st)
            st = best_of(&list, filter, routed, &best, err);
        if (!st && !best)
            st = fail_nothing(filter, &list, err);
        tt_vec_free(&list);
    }
    if (!st)
        *ret_addr_be = filter[0] && !tt_boot_net_loopback(dst_be) ? best : routed;
    return st;
}

uint32_t tt_boot_iface_outward(const char *filter)
{
    struct tt_vec list = {0};
    uint32_t routed = 0, best = 0;

    (void)route_source(OUTWARD_BE, &routed, NULL); /* a private network may have no default route */
    if (list_all(&list, NULL) || best_of(&list, filter, routed, &best, NULL))
        best = 0;
    tt_vec_free(&list);
    return tt_boot_net_loopback(best) ? 0 : best;
}

void tt_boot_iface_sources(uint32_t ret_be[TT_BOOT_SOURCES])
{
    struct tt_vec list = {.elem = sizeof(struct tt_iface)};
    uint32_t first = 0;
    size_t n = 0;

    memset(ret_be, 0, TT_BOOT_SOURCES * sizeof *ret_be);
    if (!route_source(OUTWARD_BE, &first, NULL))
        ret_be[n++] = first;
    if (list_all(&list, NULL))
        return;
    for (size_t k = 0; k < list.len && n < TT_BOOT_SOURCES; k++) {
        const struct tt_iface *i = tt_vec_at(&list, k);
        if (!tt_boot_net_loopback(i->addr_be) && i->addr_be != first)
            ret_be[n++] = i->addr_be;
    }
    tt_vec_free(&list);
}
