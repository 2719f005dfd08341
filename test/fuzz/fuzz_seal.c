/* Sealed sockets of the tcp transport: from an edited stream exactly those pieces are delivered
 * that came whole and untouched before the first edit, as they were sent; then the end comes, once.
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "edit.h"
#include "must.h"
#include "transport/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { PIECES = 6, WIRE = 1 << 17, STREAMS = 4 };
/* Short pieces for speed; streams 1 and 3 have long ones, with several records. */
static const uint32_t sizes[2][PIECES] = {{5, 0, 300, 8, 17, 1}, {9, 16385, 0, 40000, 3, 20000}};
static struct stream {
    uint8_t bytes[WIRE];
    size_t ends[PIECES]; /* of each piece */
} genuine[STREAMS];
static uint8_t payload[40000], place[40000], wire[WIRE];

/* Stream k: its pieces, its cipher. */
static const uint32_t *sizes_of(int k)
{
    return sizes[k & 1];
}

static struct tt_tcp_guard guard_of(int k, bool sender)
{
    struct tt_tcp_guard g = {.keys.cipher = k < 2 && tt_seal_has_aes() ? TT_CIPHER_AES : TT_CIPHER_CHACHA};
    memset(sender ? g.keys.send : g.keys.recv, 7, TT_SEAL_KEY);
    memset(sender ? g.keys.recv : g.keys.send, 8, TT_SEAL_KEY);
    return g;
}

static struct tt_transport *open_end(int k, int fd, bool sender)
{
    int fds[2] = {sender ? -1 : fd, sender ? fd : -1};
    struct tt_tcp_guard guards[2] = {guard_of(k, sender), guard_of(k, sender)};
    struct tt_tcp_config c = {.rank = sender ? 0 : 1, .size = 2, .stripes = 1, .fds = fds, .guards = guards, .queue = 4};
    struct tt_transport *t;
    must(!tt_tcp_open(&c, &t, NULL));
    return t;
}

static size_t listen_in(int fd, uint8_t *out, size_t n)
{
    for (ssize_t got; (got = recv(fd, out + n, WIRE - n, MSG_DONTWAIT)) > 0;)
        n += (size_t)got;
    return n;
}

static void record(int k)
{
    int fd[2];
    size_t n = 0;
    must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
    struct tt_transport *t = open_end(k, fd[0], true);
    for (uint32_t i = 0; i < PIECES; i++) {
        struct tt_tag tag = {.fingerprint = 77, .request = i};
        struct iovec v = {payload, sizes_of(k)[i]};
        struct tt_event ev;
        must(!t->ops->send(t, 1, &tag, &v, 1, 1));
        for (size_t told = 0; !told; told = t->ops->poll(t, &ev, 1))
            n = listen_in(fd[1], genuine[k].bytes, n);
        genuine[k].ends[i] = n = listen_in(fd[1], genuine[k].bytes, n);
    }
    t->ops->close(t);
    close(fd[1]);
}

static void record_all(void)
{
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)(i * 7 + (i >> 8));
    for (int k = 0; k < STREAMS; k++)
        record(k);
}

/* Answers the event; true when it is the end. */
static bool answer(struct tt_transport *t, const struct tt_event *ev, int k, uint32_t *got)
{
    struct iovec v[2] = {{place, ev->bytes / 2}, {place + ev->bytes / 2, ev->bytes - ev->bytes / 2}};
    if (ev->kind == TT_EV_CLOSED)
        return true;
    must(*got < PIECES && ev->tag.request == *got && ev->tag.fingerprint == 77 && ev->bytes == sizes_of(k)[*got]);
    if (ev->kind == TT_EV_HEADER) {
        must(!t->ops->accept(t, 0, ev->stream, v, 2));
        return false;
    }
    must(!memcmp(ev->kind == TT_EV_DATA ? ev->data : place, payload, ev->bytes));
    t->ops->release(t, ev);
    ++*got;
    return false;
}

/* Long streams take long: one in sixteen. */
static int stream_of(uint8_t c)
{
    return (c & 16 ? 2 : 0) + !(c & 15);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd[2], k = size ? stream_of(data[0]) : 0;
    struct tt_event ev[3];
    size_t same, done = 0;
    uint32_t got = 0, whole = 0, ends = 0;

    if (!genuine[0].ends[0])
        record_all();
    const struct stream *g = &genuine[k];
    size_t n = edit(data + 1, size ? size - 1 : 0, g->bytes, g->ends[PIECES - 1], wire, WIRE, &same);
    while (whole < PIECES && g->ends[whole] <= same)
        whole++;
    must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
    struct tt_transport *t = open_end(k, fd[0], false);
    bool open = true;
    while (!ends) {
        ssize_t put = open ? send(fd[1], wire + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        done += put > 0 ? (size_t)put : 0;
        if (open && (done == n || (put < 0 && errno != EAGAIN)))
            open = close(fd[1]) != 0;
        for (size_t i = 0, m = t->ops->poll(t, ev, 3); i < m; i++)
            ends += answer(t, &ev[i], k, &got);
    }
    if (open) /* the transport gave up before it had read everything */
        close(fd[1]);
    must(ends == 1 && got == whole && !t->ops->poll(t, ev, 3));
    t->ops->close(t);
    return 0;
}
