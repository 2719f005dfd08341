/* Frames of the tcp transport: any bytes from a peer become checked events or its end, never a crash, and the end comes once.
 *
 * Random bytes hardly ever pass the checksum, so the input is a little program: control byte, then
 *   even: (c / 2 % 64) bytes follow and are sent as they are;
 *   odd:  a valid header with the tag and length of the next bytes is sent, with the payload (repeated input, whole or cut by c). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "must.h"
#include "transport/tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { WIRE = 1 << 18, DESC = 12 };
static uint8_t wire[WIRE], place[TT_PIECE_MAX];

/* Appends a valid frame described by DESC bytes; returns its length in wire, 0 when there is no room. */
static size_t valid_frame(const uint8_t *d, uint8_t c, uint64_t number, uint8_t *out, size_t room)
{
    struct tt_tcp_frame f = {.number = number};
    uint32_t bytes;
    memcpy(&f.tag.fingerprint, d, 8);
    memcpy(&bytes, d + 8, 4);
    f.bytes = bytes % (c & 2 ? 100000 : 300);
    size_t n = TT_FRAME_HEADER + f.bytes + tt_frame_padding(f.bytes);
    if (n > room)
        return 0;
    tt_tcp_frame_encode(&f, out);
    for (size_t i = TT_FRAME_HEADER; i < n; i++)
        out[i] = d[i % DESC];
    return c & 4 ? n - n % 5 : n;
}

/* What the program in data writes. */
static size_t script(const uint8_t *data, size_t size)
{
    size_t n = 0;
    uint64_t number = 0;
    while (size > 0) {
        uint8_t c = *data++;
        size_t k = c & 1 ? DESC : c / 2 % 64;
        size--;
        if (k > size)
            k = size;
        if (c & 1 && k == DESC) {
            n += valid_frame(data, c, number++, wire + n, WIRE - n);
        } else if (k <= WIRE - n) {
            memcpy(wire + n, data, k);
            n += k;
        }
        data += k;
        size -= k;
    }
    return n;
}

/* Answers the event; true when it is the end. */
static bool answer(struct tt_transport *t, const struct tt_event *ev)
{
    struct iovec v = {place, ev->bytes};
    must(ev->peer == 1 && ev->bytes <= TT_PIECE_MAX);
    must(ev->kind != TT_EV_HEADER || !t->ops->accept(t, 1, ev->stream, &v, 1));
    if (ev->kind == TT_EV_DATA) {
        memcpy(place, ev->data, ev->bytes);
        t->ops->release(t, ev);
    }
    return ev->kind == TT_EV_CLOSED;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int fd[2], fds[2] = {-1};
    struct tt_transport *t;
    struct tt_event ev[3];
    struct tt_tcp_config c = {.rank = 0, .size = 2, .stripes = 1, .fds = fds, .queue = 4};
    size_t n = script(data, size), done = 0;
    int ends = 0;

    must(!socketpair(AF_UNIX, SOCK_STREAM, 0, fd));
    fds[1] = fd[0];
    must(!tt_tcp_open(&c, &t, NULL));
    bool open = true;
    while (ends == 0) {
        ssize_t put = open ? send(fd[1], wire + done, n - done, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
        done += put > 0 ? (size_t)put : 0;
        if (open && (done == n || (put < 0 && errno != EAGAIN)))
            open = close(fd[1]) != 0;
        for (size_t i = 0, got = t->ops->poll(t, ev, 3); i < got; i++)
            ends += answer(t, &ev[i]);
    }
    if (open) /* the transport gave up before it had read everything */
        close(fd[1]);
    must(ends == 1 && !t->ops->poll(t, ev, 3));
    must(t->ops->send(t, 1, &ev->tag, NULL, 0, 0) == TUTTI_ERR_IO);
    t->ops->close(t);
    return 0;
}
