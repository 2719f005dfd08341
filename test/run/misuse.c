/* Bad arguments, given by one rank after the other while all the others are in the right call already: each is an error on that rank alone
 * that says what is wrong, it disturbs nobody, and the right call that follows has the right sum. So do strangers that connect to the
 * ranks' ports, some silent, some sending random bytes, while the job runs and opens further connections. Run it with `tutti run -n N`. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { COUNT = 5000, STRANGERS = 80 };
static struct tutti_comm *comm;
static uint32_t rank, ranks;
static float in[COUNT * 8], out[COUNT * 8];

static void die(const char *what, const char *why)
{
    fprintf(stderr, "rank %u: FAILED: %s (%s)\n", rank, what, why);
    exit(1);
}

/* ---- the right call ---- */

static void sum(struct tutti_comm *c, size_t count, float expected)
{
    for (size_t i = 0; i < count; i++)
        in[i] = (float)(rank + 1);
    memset(out, 0, sizeof out);
    if (tutti_allreduce(c, in, out, count, TUTTI_F32, TUTTI_SUM))
        die("allreduce", tutti_comm_last_error(c)->text);
    for (size_t i = 0; i < count; i++)
        if (out[i] != expected)
            die("allreduce", "wrong sum");
}

static float of_all(void)
{
    return (float)(ranks * (ranks + 1) / 2);
}

/* ---- bad arguments ---- */

static struct tutti_request *request;

static tutti_status null_in(void)
{
    return tutti_allreduce(comm, NULL, out, COUNT, TUTTI_F32, TUTTI_SUM);
}
static tutti_status null_out(void)
{
    return tutti_allreduce(comm, in, NULL, 1, TUTTI_F32, TUTTI_SUM);
}
static tutti_status null_blocks(void)
{
    return tutti_all_gather(comm, in, NULL, 10, TUTTI_F32);
}
static tutti_status null_request(void)
{
    return tutti_allreduce_init(comm, NULL, out, COUNT, TUTTI_F32, TUTTI_SUM, &request);
}
static tutti_status overlap_long(void)
{
    return tutti_allreduce(comm, in, in + COUNT - 1, COUNT, TUTTI_F32, TUTTI_SUM);
}
static tutti_status overlap_short(void)
{
    return tutti_allreduce(comm, in + 1, in, 2, TUTTI_F32, TUTTI_SUM);
}
static tutti_status overlap_blocks(void)
{
    return tutti_all_to_all(comm, in, in + 3, 10, TUTTI_F32);
}
static tutti_status overlap_request(void)
{
    tutti_status st = tutti_allreduce_init(comm, in, in + 1, COUNT, TUTTI_F32, TUTTI_SUM, &request);
    if (!st) {
        st = tutti_request_start(request);
        tutti_request_free(request);
    }
    return st;
}
static tutti_status count_huge(void)
{
    return tutti_allreduce(comm, in, out, SIZE_MAX, TUTTI_F32, TUTTI_SUM);
}
static tutti_status count_bytes(void)
{
    return tutti_allreduce(comm, in, out, SIZE_MAX / 4 + 2, TUTTI_F32, TUTTI_SUM);
}
static tutti_status count_blocks(void)
{
    return tutti_all_gather(comm, in, out, SIZE_MAX / ranks + 1, TUTTI_U8);
}
static tutti_status count_each(void)
{
    size_t counts[64];
    for (uint32_t r = 0; r < 64; r++)
        counts[r] = SIZE_MAX / 2 + 1;
    return tutti_all_gather_v(comm, in, out, counts, TUTTI_F32);
}
static tutti_status dtype(void)
{
    return tutti_allreduce(comm, in, out, 1, (tutti_dtype)99, TUTTI_SUM);
}
static tutti_status dtype_negative(void)
{
    return tutti_broadcast(comm, in, out, 1, (tutti_dtype)-1, 0);
}
static tutti_status redop(void)
{
    return tutti_allreduce(comm, in, out, 1, TUTTI_F32, (tutti_redop)77);
}
static tutti_status root(void)
{
    return tutti_broadcast(comm, in, out, 1, TUTTI_F32, ranks);
}
static tutti_status send_null(void)
{
    return tutti_send(comm, NULL, 1, TUTTI_F32, (rank + 1) % ranks);
}
static tutti_status send_self(void)
{
    return tutti_send(comm, in, 1, TUTTI_F32, rank);
}
static tutti_status recv_nobody(void)
{
    return tutti_recv(comm, in, 1, TUTTI_F32, ranks + 7);
}
static tutti_status recv_dtype(void)
{
    return tutti_recv(comm, in, 1, (tutti_dtype)99, (rank + 1) % ranks);
}
static tutti_status send_huge(void)
{
    return tutti_send(comm, in, SIZE_MAX / 2, TUTTI_F64, (rank + 1) % ranks);
}
static tutti_status memory_huge(void)
{
    struct tutti_error err;
    void *p;
    return tutti_mem_alloc(comm, SIZE_MAX - 10, &p, &err);
}

static const struct {
    const char *name;
    tutti_status (*call)(void);
    tutti_status status;
    const char *says; /* NULL: not on the communicator */
} mistakes[] = {
    {"NULL input", null_in, TUTTI_ERR_ARG, "the input buffer is NULL"},
    {"NULL output", null_out, TUTTI_ERR_ARG, "the output buffer is NULL"},
    {"NULL output of blocks", null_blocks, TUTTI_ERR_ARG, "the output buffer is NULL"},
    {"NULL input of a request", null_request, TUTTI_ERR_ARG, "the input buffer is NULL"},
    {"overlap by one element", overlap_long, TUTTI_ERR_ARG, "overlap"},
    {"overlap of a short vector", overlap_short, TUTTI_ERR_ARG, "overlap"},
    {"overlap of blocks", overlap_blocks, TUTTI_ERR_ARG, "overlap"},
    {"overlap in a request", overlap_request, TUTTI_ERR_ARG, "overlap"},
    {"largest count", count_huge, TUTTI_ERR_RANGE, "more than memory can hold"},
    {"count whose bytes overflow", count_bytes, TUTTI_ERR_RANGE, "more than memory can hold"},
    {"count that overflows times ranks", count_blocks, TUTTI_ERR_RANGE, "overflows"},
    {"counts that overflow together", count_each, TUTTI_ERR_RANGE, "together overflow"},
    {"unknown data type", dtype, TUTTI_ERR_ARG, "no data type 99"},
    {"negative data type", dtype_negative, TUTTI_ERR_ARG, "no data type -1"},
    {"unknown reduction", redop, TUTTI_ERR_ARG, "no reduction 77"},
    {"root out of range", root, TUTTI_ERR_RANGE, "is not one of the"},
    {"send of NULL", send_null, TUTTI_ERR_ARG, "the buffer is NULL"},
    {"send to itself", send_self, TUTTI_ERR_RANGE, "another one of the"},
    {"receive from nobody", recv_nobody, TUTTI_ERR_RANGE, "another one of the"},
    {"receive of an unknown type", recv_dtype, TUTTI_ERR_ARG, "no data type 99"},
    {"send of too much", send_huge, TUTTI_ERR_RANGE, "more than memory can hold"},
    {"more memory than there is", memory_huge, TUTTI_ERR_MEMORY, NULL},
};

static void make_mistakes(void)
{
    for (size_t i = 0; i < sizeof mistakes / sizeof mistakes[0]; i++) {
        if (i % ranks == rank) {
            tutti_status st = mistakes[i].call();
            const char *text = tutti_comm_last_error(comm)->text;
            if (st != mistakes[i].status || (mistakes[i].says && !strstr(text, mistakes[i].says))) {
                fprintf(stderr, "status %d: ", st);
                die(mistakes[i].name, text);
            }
        }
        sum(comm, i % 2 ? COUNT : 7, of_all());
    }
}

/* ---- strangers ---- */

/* The port of this process's listening socket; 0: none. */
static uint16_t own_port(void)
{
    uint16_t port = 0;
    for (int fd = 3; fd < 256 && !port; fd++) {
        struct sockaddr_in a;
        socklen_t len = sizeof a, size = sizeof(int);
        int listening = 0;
        if (!getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &size) && listening && !getsockname(fd, (struct sockaddr *)&a, &len) &&
            a.sin_family == AF_INET)
            port = ntohs(a.sin_port);
    }
    return port;
}

static int stranger(uint16_t port, size_t bytes)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned char junk[4096];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    for (size_t i = 0; i < sizeof junk; i++)
        junk[i] = (unsigned char)(rand() >> 5);
    if (connect(fd, (struct sockaddr *)&a, sizeof a) == 0 || bytes) {
        usleep(1000);
        if (bytes && send(fd, junk, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
            return fd; /* not connected yet: a silent one */
    }
    return fd;
}

static void bear_strangers(void)
{
    struct tutti_error err;
    struct tutti_comm *half;
    int fds[STRANGERS];
    uint16_t port = own_port();
    float x = (float)rank, y = -1, expected = 0;
    if (!port)
        die("strangers", "no listening socket found");
    for (int i = 0; i < STRANGERS; i++)
        fds[i] = stranger(port, i % 3 ? (size_t)(i * 50) : 0);
    sum(comm, COUNT, of_all());
    if (tutti_comm_split(comm, (int)rank % 2, 0, &half, &err))
        die("split among strangers", err.text);
    for (uint32_t r = rank % 2; r < ranks; r += 2)
        expected += (float)(r + 1);
    sum(half, COUNT, expected);
    tutti_comm_close(half);
    if (rank < 2 && ranks > 1 && (rank ? tutti_recv(comm, &y, 1, TUTTI_F32, 0) : tutti_send(comm, &x, 1, TUTTI_F32, 1)))
        die("a message among strangers", tutti_comm_last_error(comm)->text);
    if (rank == 1 && y != 0)
        die("a message among strangers", "another value");
    sum(comm, 7, of_all());
    for (int i = 0; i < STRANGERS; i++)
        close(fds[i]);
}

int main(void)
{
    struct tutti_error err;
    if (tutti_comm_open(NULL, &comm, &err))
        die("open", err.text);
    rank = tutti_comm_rank(comm);
    ranks = tutti_comm_size(comm);
    make_mistakes();
    if (ranks > 1)
        bear_strangers();
    tutti_comm_close(comm);
    return 0;
}
