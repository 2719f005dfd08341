/* top_http.c - tutti top --prometheus: the counters of running jobs as text at /metrics, over HTTP.
 *
 * One request at a time, one answer, then the connection is closed. A client gets two seconds for
 * its request and as many for taking the answer. By default only this host is listened to. */
#include <errno.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/top.h"

enum { REQUEST = 4096 };

/* ---- the text ---- */

/* A label's value: backslashes, quotes and ends of lines are escaped. */
static void put_label(FILE *out, const char *text)
{
    for (; *text; text++)
        if (*text == '\\' || *text == '"')
            fprintf(out, "\\%c", *text);
        else
            fputc((unsigned char)*text < 0x20 ? ' ' : *text, out);
}

static uint64_t get_calls(const struct tutti_top_rank *r)
{
    return r->calls;
}
static uint64_t get_call_bytes(const struct tutti_top_rank *r)
{
    return r->call_bytes;
}
static uint64_t get_call_ns(const struct tutti_top_rank *r)
{
    return r->call_ns;
}
static uint64_t get_wait_ns(const struct tutti_top_rank *r)
{
    return r->wait_ns;
}
static uint64_t get_idle_ns(const struct tutti_top_rank *r)
{
    return r->idle_ns;
}
static uint64_t get_sent(const struct tutti_top_rank *r)
{
    return r->sent_bytes;
}
static uint64_t get_received(const struct tutti_top_rank *r)
{
    return r->received_bytes;
}

static const struct metric {
    const char *name, *help;
    uint64_t (*get)(const struct tutti_top_rank *r);
    bool ns; /* written in seconds */
} metrics[] = {
    {"tutti_calls_total", "Collectives that have ended.", get_calls, false},
    {"tutti_call_bytes_total", "Bytes of their vectors.", get_call_bytes, false},
    {"tutti_call_seconds_total", "Time in them.", get_call_ns, true},
    {"tutti_wait_seconds_total", "Time in waits for requests.", get_wait_ns, true},
    {"tutti_idle_seconds_total", "Time with nothing to do until another rank sent.", get_idle_ns,
     true},
    {"tutti_sent_bytes_total", "Bytes of messages sent.", get_sent, false},
    {"tutti_received_bytes_total", "Bytes of messages received.", get_received, false},
};

static void put_metric(FILE *out, const struct tutti_top *top, const struct metric *m)
{
    struct tutti_top_rank r;
    fprintf(out, "# HELP %s %s\n# TYPE %s counter\n", m->name, m->help, m->name);
    for (size_t i = 0; tutti_top_rank(top, i, &r); i++) {
        uint64_t v = m->get(&r);
        fprintf(out, "%s{job=\"", m->name);
        put_label(out, r.job);
        fprintf(out, "\",rank=\"%u\",host=\"", r.rank);
        put_label(out, r.host);
        if (m->ns)
            fprintf(out, "\"} %llu.%09llu\n", (unsigned long long)(v / 1000000000),
                    (unsigned long long)(v % 1000000000));
        else
            fprintf(out, "\"} %llu\n", (unsigned long long)v);
    }
}

/* The caller frees *ret; false: out of memory, or the counters cannot be read. */
static bool make_text(char **ret, size_t *ret_len)
{
    struct tutti_top *top = NULL;
    struct tutti_error err;
    FILE *out = open_memstream(ret, ret_len);
    bool ok = out && !tutti_top_read(&top, &err);
    for (size_t i = 0; ok && i < sizeof metrics / sizeof metrics[0]; i++)
        put_metric(out, top, &metrics[i]);
    tutti_top_free(top);
    if (out && fclose(out))
        ok = false;
    return ok;
}

/* ---- HTTP ---- */

static void send_all(int fd, const char *data, size_t len)
{
    while (len) {
        ssize_t n = send(fd, data, len, MSG_NOSIGNAL);
        if (n <= 0)
            return;
        data += n;
        len -= (size_t)n;
    }
}

static void answer(int fd, const char *status, const char *body, size_t len)
{
    char head[256];
    int n = snprintf(head, sizeof head,
                     "HTTP/1.1 %s\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n"
                     "Content-Length: %zu\r\nConnection: close\r\n\r\n",
                     status, len);
    send_all(fd, head, (size_t)n);
    send_all(fd, body, len);
}

/* Reads up to the end of the head; false: too long, too late, or gone. */
static bool read_request(int fd, char *request)
{
    size_t len = 0;
    while (len < REQUEST - 1) {
        ssize_t n = recv(fd, request + len, REQUEST - 1 - len, 0);
        if (n <= 0)
            return false;
        len += (size_t)n;
        request[len] = 0;
        if (strstr(request, "\r\n\r\n") || strstr(request, "\n\n"))
            return true;
    }
    return false;
}

static void serve_one(int fd)
{
    static const struct timeval patience = {2, 0};
    char request[REQUEST], *text = NULL;
    size_t len = 0;
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    if (!read_request(fd, request))
        return;
    if (strncmp(request, "GET ", 4))
        answer(fd, "405 Method Not Allowed", "only GET\n", 9);
    else if (strncmp(request, "GET /metrics ", 13))
        answer(fd, "404 Not Found", "see /metrics\n", 13);
    else if (make_text(&text, &len))
        answer(fd, "200 OK", text, len);
    else
        answer(fd, "500 Internal Server Error", "no counters\n", 12);
    free(text);
}

/* "[HOST:]PORT" into a listening socket; -1 after a complaint. */
static int listen_at(const struct cli_args *a, const char *address)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found = NULL;
    char host[256] = "127.0.0.1";
    const char *colon = strrchr(address, ':'), *port = colon ? colon + 1 : address;
    int fd = -1, one = 1;
    if (colon)
        snprintf(host, sizeof host, "%.*s", (int)(colon - address), address);
    int why = getaddrinfo(host, port, &hints, &found);
    if (!why) {
        fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd >= 0)
            setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (fd >= 0 && (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 16))) {
            close(fd);
            fd = -1;
        }
    }
    if (fd < 0)
        cli_bad(a, "--prometheus %.200s: %s", address, why ? gai_strerror(why) : strerror(errno));
    if (found)
        freeaddrinfo(found);
    return fd;
}

int cli_top_serve(const struct cli_args *a, const char *address)
{
    int fd = listen_at(a, address);
    struct sockaddr_storage at;
    socklen_t len = sizeof at;
    char host[64] = "?", port[16] = "?";
    if (fd < 0)
        return CLI_USAGE;
    if (!getsockname(fd, (struct sockaddr *)&at, &len))
        getnameinfo((struct sockaddr *)&at, len, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV);
    printf("http://%s:%s/metrics\n", host, port);
    fflush(stdout);
    for (;;) {
        int client = accept4(fd, NULL, NULL, SOCK_CLOEXEC);
        if (client < 0) {
            if (errno == EINTR || errno == ECONNABORTED)
                continue;
            close(fd);
            return cli_bad(a, "--prometheus: %s", strerror(errno));
        }
        serve_one(client);
        close(client);
    }
}
