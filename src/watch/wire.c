/* wire.c - notes on one control connection.
 *
 * A note is a head and a body whose length follows from the type, so nothing that a peer sends
 * decides how much is read. Nothing here waits. What the socket does not take at once stays in a
 * small buffer, and a note without room is dropped: heartbeats to a rank that has stopped reading,
 * and a second long answer, which is asked for again. Longer data (parcels) goes in pieces when the
 * buffer is empty, so that it delays no other note. Both ends run the same build on machines of one
 * byte order; any other would not know the magic number, and its connection is treated as ended. */
#include <assert.h>
#include <errno.h>
#include <linux/tcp.h> /* the C library's tcp_info lacks tcpi_segs_out */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "watch/watch_int.h"

/* CUT_MS: no acknowledgement for so long means cut. LOST_MIN, LOST_OF: lossy if at least LOST_MIN
 * segments, and more than one in LOST_OF, were sent again. */
enum {
    MAGIC = 0x54745761,
    HEAD = offsetof(struct tt_note, u),
    CUT_MS = 400,
    LOST_MIN = 3,
    LOST_OF = 20,
    TCP_CLOSED = 7 /* the kernel's number */
};

static const size_t sizes[TT_NOTE_TYPES] = {
    [TT_NOTE_BEAT] = HEAD + sizeof(struct tt_op_desc),
    [TT_NOTE_ASK] = HEAD + offsetof(struct tt_answer, member),
    [TT_NOTE_ANSWER] = HEAD + sizeof(struct tt_answer),
    [TT_NOTE_TROUBLE] = HEAD + sizeof(struct tt_trouble),
    [TT_NOTE_VERDICT] = HEAD + sizeof(struct tt_verdict),
    [TT_NOTE_FAREWELL] = HEAD,
    [TT_NOTE_ENDED] = HEAD + sizeof(uint32_t),
    [TT_NOTE_PIECE] = HEAD + sizeof(struct tt_piece),
};

/* Sends what the socket takes; the rest moves to the front of the buffer. */
static enum tt_net watch_wire_push(struct tt_line *l)
{
    size_t sent = 0;
    enum tt_net went = tt_boot_line_write(l->io, l->out, l->out_len, &sent);
    assert(sent <= l->out_len);
    l->out_len -= sent;
    memmove(l->out, l->out + sent, l->out_len);
    return went;
}

/* Puts the next piece of the parcel into the empty buffer. An empty parcel is one empty piece. */
static void cut_piece(struct tt_line *l)
{
    uint64_t at = l->parcel.done, left = l->parcel.total - at,
             n = left < TT_PIECE ? left : TT_PIECE;
    assert(!l->out_len && l->parcel.here && at <= l->parcel.total);
    struct tt_note note = {.magic = MAGIC,
                           .type = TT_NOTE_PIECE,
                           .u.piece = {.seq = l->parcel.seq, .at = at, .total = l->parcel.total}};
    if (n)
        memcpy(note.u.piece.data, l->parcel.data + at, n);
    memcpy(l->out, &note, sizes[TT_NOTE_PIECE]);
    l->out_len = sizes[TT_NOTE_PIECE];
    l->parcel.done += n;
    l->parcel.here = l->parcel.done < l->parcel.total;
}

void tt_watch_line_push(struct tt_line *l)
{
    enum tt_net went = TT_NET_OK;
    while (l->fd >= 0 && went == TT_NET_OK && tt_watch_line_busy(l)) {
        if (!l->out_len)
            cut_piece(l);
        went = watch_wire_push(l);
    }
    if (went != TT_NET_END)
        return;
    l->error = l->error ? l->error : errno;
    /* the reader of this line will find the end, and before it what the peer still sent */
    l->out_len = 0;
    l->parcel.here = false;
}

void tt_watch_line_send(struct tt_line *l, uint32_t seq, const void *data, uint64_t bytes)
{
    assert(!l->parcel.here); /* one parcel at a time */
    l->parcel.data = data;
    l->parcel.seq = seq;
    l->parcel.done = 0;
    l->parcel.total = bytes;
    l->parcel.here = true;
    tt_watch_line_push(l);
}

bool tt_watch_line_busy(const struct tt_line *l)
{
    return l->out_len || l->parcel.here;
}

void tt_watch_line_put(struct tt_line *l, struct tt_note *n)
{
    assert(n->type >= TT_NOTE_BEAT && n->type < TT_NOTE_TYPES);
    size_t bytes = sizes[n->type];
    n->magic = MAGIC;
    if (l->fd < 0 || bytes > sizeof l->out - l->out_len)
        return;
    memcpy(l->out + l->out_len, n, bytes);
    l->out_len += bytes;
    tt_watch_line_push(l);
}

/* Reads until `want` bytes of the note have arrived in total. */
static enum tt_line_state watch_wire_fill(struct tt_line *l, size_t want, int *ret_errno)
{
    assert(want <= sizeof l->in && l->in_got <= sizeof l->in);
    enum tt_net went = tt_boot_line_read(l->io, &l->in, want, &l->in_got);
    if (went == TT_NET_OK)
        return TT_LINE_NOTE;
    if (went == TT_NET_AGAIN)
        return TT_LINE_EMPTY;
    *ret_errno = errno ? errno : l->error;
    return TT_LINE_END;
}

/* Terminates strings that came from a peer. */
static void seal(struct tt_note *n)
{
    if (n->type == TT_NOTE_TROUBLE)
        n->u.trouble.text[sizeof n->u.trouble.text - 1] = 0;
    if (n->type == TT_NOTE_VERDICT) {
        n->u.verdict.host[sizeof n->u.verdict.host - 1] = 0;
        n->u.verdict.text[sizeof n->u.verdict.text - 1] = 0;
    }
}

enum tt_line_state tt_watch_line_take(struct tt_line *l, int *ret_errno)
{
    enum tt_line_state s;
    if (l->fd < 0)
        return TT_LINE_EMPTY;
    s = watch_wire_fill(l, HEAD, ret_errno);
    if (s == TT_LINE_NOTE &&
        (l->in.magic != MAGIC || l->in.type < TT_NOTE_BEAT || l->in.type >= TT_NOTE_TYPES)) {
        *ret_errno = EBADMSG;
        s = TT_LINE_END;
    }
    if (s == TT_LINE_NOTE)
        s = watch_wire_fill(l, sizes[l->in.type], ret_errno);
    if (s != TT_LINE_NOTE)
        return s;
    l->in_got = 0;
    l->read_ns = tt_now_ns();
    seal(&l->in);
    return s;
}

bool tt_watch_line_cut(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    /* Data from the peer carries acknowledgements too, even if none of ours arrives; the kernel
     * then sends ours again. */
    bool waiting = info.tcpi_last_ack_recv >= CUT_MS || info.tcpi_retransmits > 0;
    return info.tcpi_state == TCP_CLOSED || (info.tcpi_unacked > 0 && waiting);
}

bool tt_watch_line_lossy(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof info;
    if (fd < 0 || getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return false;
    return info.tcpi_total_retrans >= LOST_MIN &&
           (uint64_t)info.tcpi_total_retrans * LOST_OF > info.tcpi_segs_out;
}
