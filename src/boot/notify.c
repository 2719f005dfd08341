/* notify.c - rank 0 sends the same bytes to all other ranks on the control connections.
 *
 * All are served at once: each gets as much as its socket takes, then all that are not done are
 * polled together. A rank that has stopped reading does not delay the others, and delays rank 0
 * until the deadline at most. Refusals are short and fit any idle connection; REFUSE_NS is for
 * connections that are not idle. */
#include "boot/boot_int.h"

#include <stdlib.h>
#include <string.h>

#define REFUSE_NS UINT64_C(500000000)

/* Continues head and body on one line; *sent counts both. */
static enum tt_net notify_push(const struct tt_boot_line *l, const struct tt_notice *n,
                               size_t *sent)
{
    enum tt_net went = TT_NET_OK;
    size_t body;

    if (*sent < n->head_len)
        went = tt_boot_line_write(l, n->head, n->head_len, sent);
    if (went != TT_NET_OK)
        return went;
    body = *sent - n->head_len;
    went = tt_boot_line_write(l, n->body, n->body_len, &body);
    *sent = n->head_len + body;
    return went;
}

/* One round over all ranks. Returns how many are not done; fds holds their sockets. sent[r] is
 * SIZE_MAX when a rank is done or lost. */
static uint32_t push_all(const struct tt_boot *b, const struct tt_notice *n, size_t *sent,
                         struct pollfd *fds, uint32_t *bad)
{
    uint32_t left = 0;

    for (uint32_t r = 0; r < b->config.size; r++) {
        fds[r] = (struct pollfd){.fd = -1, .events = POLLOUT};
        if (b->control[r].fd < 0 || sent[r] == SIZE_MAX)
            continue;
        enum tt_net went = notify_push(&b->control[r], n, &sent[r]);
        if (went == TT_NET_AGAIN) {
            fds[r].fd = b->control[r].fd;
            left++;
            continue;
        }
        if (went == TT_NET_END && r < *bad)
            *bad = r;
        sent[r] = SIZE_MAX;
    }
    return left;
}

tutti_status tt_boot_notify(const struct tt_boot *b, const struct tt_notice *n, uint64_t until_ns,
                            uint32_t *ret_bad, struct tutti_error *err)
{
    uint32_t size = b->config.size, bad = size;
    size_t *sent = tt_zalloc(size, sizeof *sent);
    struct pollfd *fds = tt_alloc(size, sizeof *fds);
    tutti_status st = TUTTI_OK;

    if (!sent || !fds) {
        st = tt_fail_memory(err, "notice");
        goto out;
    }
    while (push_all(b, n, sent, fds, &bad) > 0) {
        /* At the deadline the ranks that are not done count as unreachable. */
        if (tt_now_ns() >= until_ns) {
            for (uint32_t r = 0; r < bad; r++)
                if (fds[r].fd >= 0)
                    bad = r;
            break;
        }
        tt_boot_net_poll(fds, size, until_ns);
    }
    if (ret_bad)
        *ret_bad = bad;
out:
    free(sent);
    free(fds);
    return st;
}

/* A refusal as bytes: head and body. Returns their length. */
static size_t write_refusal(const struct tutti_error *why, uint8_t out[TT_FRAME + TT_REFUSAL_MAX])
{
    size_t n = tt_boot_refusal_write(why, out + TT_FRAME);

    tt_boot_frame_write(&(struct tt_frame){.kind = TT_FRAME_REFUSAL, .length = n}, out);
    return TT_FRAME + n;
}

void tt_boot_refuse_all(const struct tt_boot *b, const struct tutti_error *why)
{
    uint8_t text[TT_FRAME + TT_REFUSAL_MAX];
    struct tt_notice n = {.head = text, .head_len = write_refusal(why, text), .body = text};

    tt_boot_notify(b, &n, tt_now_ns() + REFUSE_NS, NULL, NULL);
}

void tt_boot_refuse_one(const struct tt_boot_line *l, const struct tutti_error *why)
{
    uint8_t text[TT_FRAME + TT_REFUSAL_MAX];
    size_t sent = 0, n = write_refusal(why, text);

    tt_boot_line_write(l, text, n, &sent);
}
