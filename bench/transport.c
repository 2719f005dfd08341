/* transport.c - what a piece costs on loopback TCP: round trip of 8 bytes and one-way bandwidth of 256 KiB pieces between two processes, by
 * the tcp transport and by plain blocking read and write of the same sizes, with the CPU time of both processes.
 *
 * "spin" polls without sleeping, "sleep" waits in the kernel between polls as a rank with nothing else to do does. Usage:
 * bench_transport [ROUND_TRIPS [PIECES]]. "checksum" and the ciphers: the same on guarded sockets (bench/seal). */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "transport/transport.h"

enum { PING = 8, PIECE = 256 << 10, STRIPES_MAX = 4 };

static _Noreturn void die(const char *what)
{
    perror(what);
    exit(1);
}

static void connect_pair(int fd[2])
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    int one = 1, l = socket(AF_INET, SOCK_STREAM, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (l < 0 || fd[0] < 0 || bind(l, (void *)&a, len) || listen(l, 1) || getsockname(l, (void *)&a, &len) ||
        connect(fd[0], (void *)&a, len))
        die("loopback");
    fd[1] = accept(l, NULL, NULL);
    close(l);
    for (int i = 0; i < 2; i++)
        if (fd[i] < 0 || setsockopt(fd[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof one))
            die("loopback");
}

/* One process's end of a measurement: `n` round trips or pieces. */
struct job {
    int rank;
    uint32_t stripes;
    const int *fds; /* of this rank, one per stripe */
    uint64_t n;
    bool sleep;
    bool checksum;
    enum tt_cipher cipher;
};

static void read_all(int fd, uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t got = read(fd, p, n);
        if (got <= 0)
            die("read");
        p += got;
        n -= (size_t)got;
    }
}

static void raw_ping(const struct job *j)
{
    uint8_t b[PING] = {0};
    for (uint64_t i = 0; i < j->n; i++) {
        if (j->rank == 0 && write(j->fds[0], b, sizeof b) != sizeof b)
            die("write");
        read_all(j->fds[0], b, sizeof b);
        if (j->rank == 1 && write(j->fds[0], b, sizeof b) != sizeof b)
            die("write");
    }
}

static void raw_flood(const struct job *j)
{
    static uint8_t b[PIECE];
    memset(b, 1, sizeof b);
    for (uint64_t i = 0; i < j->n; i++) {
        if (j->rank == 1)
            read_all(j->fds[0], b, sizeof b);
        else if (write(j->fds[0], b, sizeof b) != sizeof b)
            die("write");
    }
    if (j->rank == 0)
        read_all(j->fds[0], b, 1);
    else if (write(j->fds[0], b, 1) != 1)
        die("write");
}

static struct tt_transport *open_tcp(const struct job *j)
{
    int fds[2 * STRIPES_MAX];
    struct tt_transport *t;
    struct tt_tcp_guard guards[2 * STRIPES_MAX];
    struct tt_tcp_config c = {.rank = (uint32_t)j->rank, .size = 2, .stripes = j->stripes, .fds = fds, .guards = guards};
    for (uint32_t i = 0; i < 2 * j->stripes; i++) {
        guards[i] = (struct tt_tcp_guard){.checksum = j->checksum, .keys.cipher = j->cipher};
        memset(j->rank ? guards[i].keys.send : guards[i].keys.recv, 1, TT_SEAL_KEY); /* the other way: zeros */
    }
    for (uint32_t k = 0; k < j->stripes; k++) {
        fds[2 * k + (uint32_t)j->rank] = -1;
        fds[2 * k + 1 - (uint32_t)j->rank] = dup(j->fds[k]);
    }
    if (tt_tcp_open(&c, &t, NULL))
        die("tt_tcp_open");
    return t;
}

static void send_piece(struct tt_transport *t, uint8_t *p, size_t n, uint64_t cookie)
{
    struct tt_tag tag = {0};
    struct iovec v = {p, n};
    if (t->ops->send(t, 1 - t->rank, &tag, &v, 1, cookie))
        die("send");
}

/* Polls until something came. */
static size_t next(struct tt_transport *t, bool sleep, struct tt_event *ev, size_t max)
{
    for (;;) {
        size_t n = t->ops->poll(t, ev, max);
        if (n)
            return n;
        if (sleep)
            t->ops->wait(t, UINT64_MAX);
    }
}

static void tcp_ping(const struct job *j)
{
    struct tt_transport *t = open_tcp(j);
    uint8_t b[PING] = {0};
    struct tt_event ev;
    for (uint64_t i = 0; i < j->n; i++) {
        if (j->rank == 0)
            send_piece(t, b, sizeof b, 0);
        do
            next(t, j->sleep, &ev, 1);
        while (ev.kind != TT_EV_DATA);
        t->ops->release(t, &ev);
        if (j->rank == 1)
            send_piece(t, b, sizeof b, 0);
    }
    t->ops->close(t);
}

static void tcp_flood_out(struct tt_transport *t, const struct job *j)
{
    static uint8_t b[PIECE];
    struct tt_event ev[16];
    uint64_t begun = 0, inflight = 0;
    bool answered = false;
    memset(b, 1, sizeof b);
    while (!answered) {
        for (; begun < j->n && inflight < 8; begun++, inflight++)
            send_piece(t, b, sizeof b, 1);
        size_t n = next(t, j->sleep, ev, countof(ev));
        for (size_t i = 0; i < n; i++) {
            inflight -= ev[i].kind == TT_EV_SENT;
            answered |= ev[i].kind == TT_EV_DATA;
        }
    }
}

static void tcp_flood_in(struct tt_transport *t, const struct job *j)
{
    static uint8_t b[STRIPES_MAX][PIECE];
    struct tt_event ev[16];
    memset(b, 1, sizeof b);
    for (uint64_t got = 0; got < j->n;) {
        size_t n = next(t, j->sleep, ev, countof(ev));
        for (size_t i = 0; i < n; i++) {
            struct iovec v = {b[ev[i].stream], PIECE};
            if (ev[i].kind == TT_EV_HEADER && t->ops->accept(t, 0, ev[i].stream, &v, 1))
                die("accept");
            got += ev[i].kind == TT_EV_RECEIVED;
        }
    }
    send_piece(t, b[0], 1, 0);
}

static void tcp_flood(const struct job *j)
{
    struct tt_transport *t = open_tcp(j);
    if (j->rank == 0)
        tcp_flood_out(t, j);
    else
        tcp_flood_in(t, j);
    t->ops->close(t);
}

static double cpu_s(int who)
{
    struct rusage u;
    getrusage(who, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + 1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/* Runs both ends; prints time per unit and the CPU time both together spent on it. */
static void measure(const char *name, void (*run)(const struct job *), struct job j, double mib)
{
    int fd[STRIPES_MAX][2], mine[STRIPES_MAX], theirs[STRIPES_MAX];
    for (uint32_t k = 0; k < j.stripes; k++) {
        connect_pair(fd[k]);
        mine[k] = fd[k][0];
        theirs[k] = fd[k][1];
    }
    double cpu = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN);
    pid_t pid = fork();
    if (pid < 0)
        die("fork");
    j.rank = pid == 0;
    j.fds = pid ? mine : theirs;
    uint64_t start = tt_now_ns();
    run(&j);
    double s = 1e-9 * (double)(tt_now_ns() - start);
    if (!pid)
        _exit(0);
    waitpid(pid, NULL, 0);
    cpu = cpu_s(RUSAGE_SELF) + cpu_s(RUSAGE_CHILDREN) - cpu;
    if (mib > 0)
        printf("%-33s %10.0f MiB/s %10.2f us CPU per MiB\n", name, mib / s, 1e6 * cpu / mib);
    else
        printf("%-33s %10.2f us    %10.2f us CPU per round trip\n", name, 1e6 * s / (double)j.n, 1e6 * cpu / (double)j.n);
    fflush(stdout);
    for (uint32_t k = 0; k < j.stripes; k++) {
        close(fd[k][0]);
        close(fd[k][1]);
    }
}

int main(int argc, char **argv)
{
    uint64_t pings = argc > 1 ? strtoull(argv[1], NULL, 10) : 50000, pieces = argc > 2 ? strtoull(argv[2], NULL, 10) : 16000;
    double mib = (double)pieces * PIECE / (1 << 20);
    printf("# loopback TCP, two processes: round trip of %d bytes, one-way bandwidth of %d KiB pieces\n", PING, PIECE >> 10);
    measure("ping read/write", raw_ping, (struct job){.stripes = 1, .n = pings}, 0);
    measure("ping tcp spin", tcp_ping, (struct job){.stripes = 1, .n = pings}, 0);
    measure("ping tcp sleep", tcp_ping, (struct job){.stripes = 1, .n = pings, .sleep = true}, 0);
    measure("ping tcp spin 4 stripes", tcp_ping, (struct job){.stripes = 4, .n = pings}, 0);
    measure("flood read/write", raw_flood, (struct job){.stripes = 1, .n = pieces}, mib);
    measure("flood tcp spin", tcp_flood, (struct job){.stripes = 1, .n = pieces}, mib);
    measure("flood tcp sleep", tcp_flood, (struct job){.stripes = 1, .n = pieces, .sleep = true}, mib);
    measure("flood tcp sleep 2 stripes", tcp_flood, (struct job){.stripes = 2, .n = pieces, .sleep = true}, mib);
    measure("flood tcp sleep 4 stripes", tcp_flood, (struct job){.stripes = 4, .n = pieces, .sleep = true}, mib);
    measure("ping tcp spin checksum", tcp_ping, (struct job){.stripes = 1, .n = pings, .checksum = true}, 0);
    measure("flood tcp sleep checksum", tcp_flood, (struct job){.stripes = 1, .n = pieces, .sleep = true, .checksum = true}, mib);
    for (enum tt_cipher k = tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA; k <= TT_CIPHER_CHACHA; k++) {
        char name[2][64];
        snprintf(name[0], sizeof name[0], "ping tcp spin %s", tt_seal_cipher_name(k));
        snprintf(name[1], sizeof name[1], "flood tcp sleep %s", tt_seal_cipher_name(k));
        measure(name[0], tcp_ping, (struct job){.stripes = 1, .n = pings, .cipher = k}, 0);
        measure(name[1], tcp_flood, (struct job){.stripes = 1, .n = pieces, .sleep = true, .cipher = k}, mib);
    }
    return 0;
}
