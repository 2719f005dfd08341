/* resolve.c - from the text of the rendezvous to an address.
 *
 * Names are resolved by glibc's asynchronous resolver, because the plain one waits for a silent
 * name server as long as resolv.conf says. Many distributions map a host's own name to 127.0.1.1,
 * which no other host can reach: an address that is not loopback is preferred. If the name server
 * does not answer (or a pod's name is not published yet), it is asked again until the deadline; a
 * name that does not exist is not asked for again. */
#include "boot/boot_int.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

enum { ASK_AGAIN_NS = 200000000 };

/* One lookup: everything that the resolver's thread accesses. */
struct lookup {
    struct gaicb cb;
    struct addrinfo hints;
    char host[TT_BOOT_HOST * 2];
};

tutti_status tt_boot_rendezvous_parse(const char *text, char host[TT_BOOT_HOST * 2],
                                      uint16_t *ret_port, struct tutti_error *err)
{
    const char *colon = strrchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : 0;
    uint64_t port;

    if (text[0] == '[' || (colon && memchr(text, ':', len)))
        return tt_fail(
            err, TUTTI_ERR_PARSE,
            "rendezvous %s: IPv6 is not supported yet, give an IPv4 address or a name and a port",
            text);
    if (len == 0 || len >= TT_BOOT_HOST * 2)
        return tt_fail(err, TUTTI_ERR_PARSE, "rendezvous \"%s\" is not host:port", text);
    if (tt_parse_u64(colon + 1, 1, UINT16_MAX, &port, err)) {
        tt_fail_prefix(err, "port of the rendezvous %s", text);
        return TUTTI_ERR_PARSE;
    }
    memcpy(host, text, len);
    host[len] = 0;
    *ret_port = (uint16_t)port;
    return TUTTI_OK;
}

static struct timespec span(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000),
                             .tv_nsec = (long)(ns % 1000000000)};
}

/* Waits until the lookup is over; false: the deadline came first. */
static bool resolve_await(struct lookup *l, uint64_t deadline_ns)
{
    const struct gaicb *list[1] = {&l->cb};

    while (gai_error(&l->cb) == EAI_INPROGRESS) {
        uint64_t now = tt_now_ns();
        if (now >= deadline_ns)
            return false;
        struct timespec left = span(deadline_ns - now);
        gai_suspend(list, 1, &left);
    }
    return true;
}

/* The first IPv4 address that is not loopback, else the first; 0: none. */
static uint32_t pick(const struct addrinfo *found)
{
    uint32_t first = 0;

    for (const struct addrinfo *a = found; a; a = a->ai_next) {
        struct sockaddr_in in;
        if (a->ai_family != AF_INET || a->ai_addrlen < sizeof in)
            continue;
        memcpy(&in, a->ai_addr, sizeof in);
        if (!tt_boot_net_loopback(in.sin_addr.s_addr))
            return in.sin_addr.s_addr;
        if (!first)
            first = in.sin_addr.s_addr;
    }
    return first;
}

/* Asks once. Returns the resolver's code; EAI_INPROGRESS if no answer came in time. */
static int resolve_ask(const char *host, uint64_t deadline_ns, uint32_t *ret_addr_be)
{
    struct lookup *l = tt_zalloc(1, sizeof *l);
    struct gaicb *list[1];
    int answer;

    if (!l)
        return EAI_MEMORY;
    assert(strlen(host) < sizeof l->host);
    snprintf(l->host, sizeof l->host, "%s", host);
    l->hints = (struct addrinfo){.ai_family = AF_INET, .ai_socktype = SOCK_STREAM};
    l->cb = (struct gaicb){.ar_name = l->host, .ar_request = &l->hints};
    list[0] = &l->cb;
    answer = getaddrinfo_a(GAI_NOWAIT, list, 1, NULL);
    if (answer == 0 && !resolve_await(l, deadline_ns) && gai_cancel(&l->cb) == EAI_NOTCANCELED)
        /* The resolver's thread still uses l: leaking it is better than a use after free. */
        return EAI_INPROGRESS;
    if (answer == 0)
        answer = gai_error(&l->cb);
    if (answer == 0)
        *ret_addr_be = pick(l->cb.ar_result);
    if (l->cb.ar_result)
        freeaddrinfo(l->cb.ar_result);
    free(l);
    return answer;
}

tutti_status tt_boot_resolve(const char *host, uint64_t deadline_ns, uint32_t *ret_addr_be,
                             struct tutti_error *err)
{
    struct in_addr a;
    uint32_t found = 0;
    int answer;

    if (strcasecmp(host, "localhost") == 0)
        host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &a) == 1) {
        if (a.s_addr == INADDR_ANY || a.s_addr == INADDR_BROADCAST || ntohl(a.s_addr) >> 28 == 14)
            return tt_fail(err, TUTTI_ERR_ARG, "rendezvous %s: give the address of rank 0's host",
                           host);
        *ret_addr_be = a.s_addr;
        return TUTTI_OK;
    }
    while ((answer = resolve_ask(host, deadline_ns, &found)) == EAI_AGAIN &&
           tt_now_ns() + ASK_AGAIN_NS < deadline_ns)
        nanosleep(&(struct timespec){.tv_nsec = ASK_AGAIN_NS}, NULL);
    if (answer == EAI_INPROGRESS || answer == EAI_CANCELED || answer == EAI_AGAIN)
        return tt_fail(err, TUTTI_ERR_TIMEOUT,
                       "the name server did not answer where %s (the rendezvous) is", host);
    if (answer != 0)
        return tt_fail(err, TUTTI_ERR_ARG, "host %s of the rendezvous: %s", host,
                       gai_strerror(answer));
    if (!found)
        return tt_fail(err, TUTTI_ERR_ARG, "host %s of the rendezvous has no IPv4 address", host);
    *ret_addr_be = found;
    return TUTTI_OK;
}
