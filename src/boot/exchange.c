/* exchange.c - an all-gather of a few bytes through rank 0, on the control connections.
 *
 *     rank 1 --give--> rank 0 <--give-- rank 2        each rank: one frame up, one frame down
 *     rank 1 <--all--- rank 0 ---all--> rank 2        rank 0: one of each per rank
 *
 * It is for setting things up, not for speed. Frames carry the number of the exchange and their
 * length, so ranks that are in different exchanges find out. Rank 0 waits for all ranks at once,
 * gives up at the earliest deadline of the ranks that have entered, and tells all ranks why; the
 * others wait a moment longer than their deadline for that reason. After a failure the streams are
 * out of step, so the object refuses further exchanges. */
#include <assert.h>

#include "boot/boot_int.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* One exchange. in, fds and missing are used on rank 0 only, one entry per rank. */
struct gathering {
    struct tt_boot *b;
    size_t bytes;
    uint64_t timeout_ns, deadline_ns;
    uint8_t *all;
    struct tt_frame_in *in; /* rank 0 only: by rank */
    struct pollfd *fds;
    bool *missing;
    uint32_t left;
};

/* The frame tells how much time its sender has left, because clocks differ between hosts. */
static void write_head(uint8_t out[TT_FRAME], enum tt_frame_kind kind, const struct gathering *g,
                       size_t length)
{
    uint64_t now = tt_now_ns(), ms = g->deadline_ns > now ? (g->deadline_ns - now) / 1000000 : 0;

    tt_boot_frame_write(
        &(struct tt_frame){.kind = kind,
                           .seq = g->b->seq,
                           .remaining_ms = ms < UINT32_MAX ? (uint32_t)ms : UINT32_MAX,
                           .length = length},
        out);
}

static tutti_status fail_left(const struct tt_boot *b, uint32_t r, int error,
                              struct tutti_error *err)
{
    return tt_fail(
        err, TUTTI_ERR_PEER, "rank %u (host %s, pid %u) ended its control connection: %s", r,
        b->peers[r].host, b->peers[r].pid, error ? strerror(error) : "it died or closed");
}

/* A whole frame of rank r has arrived, or its head shows that it is wrong (EMSGSIZE). */
static tutti_status check_give(struct gathering *g, uint32_t r, struct tutti_error *err)
{
    const struct tt_frame *f = &g->in[r].frame;
    uint64_t limit = tt_now_ns() + (uint64_t)f->remaining_ms * 1000000;

    if (f->kind != TT_FRAME_GIVE || f->seq != g->b->seq)
        return tt_fail(err, TUTTI_ERR_DIFFERS,
                       "rank %u is in exchange %u while rank 0 is in exchange %u", r, f->seq,
                       g->b->seq);
    if (f->length != g->bytes)
        return tt_fail(err, TUTTI_ERR_DIFFERS,
                       "rank %u gives %llu bytes to the exchange, rank 0 %zu", r,
                       (unsigned long long)f->length, g->bytes);
    if (limit < g->deadline_ns)
        g->deadline_ns = limit;
    assert(g->missing[r] && g->left > 0);
    g->missing[r] = false;
    g->left--;
    return TUTTI_OK;
}

static tutti_status take_from(struct gathering *g, uint32_t r, struct tutti_error *err)
{
    enum tt_net went = tt_boot_frame_fill(&g->b->control[r], &g->in[r]);
    int error = errno;

    if (went == TT_NET_AGAIN)
        return TUTTI_OK;
    if (went == TT_NET_OK || error == EMSGSIZE)
        return check_give(g, r, err);
    return fail_left(g->b, r, error, err);
}

static tutti_status fail_missing(const struct gathering *g, struct tutti_error *err)
{
    char ranks[160], span[32];

    return tt_fail(err, TUTTI_ERR_TIMEOUT, "%s did not enter exchange %u within %s",
                   tt_boot_ranks_text(g->missing, g->b->config.size, ranks, sizeof ranks),
                   g->b->seq, tt_boot_net_span(g->timeout_ns, span, sizeof span));
}

/* Rank 0: reads one frame from every other rank. Invariant: left is the number of ranks with
 * missing[r]. */
static tutti_status exchange_collect(struct gathering *g, struct tutti_error *err)
{
    uint32_t size = g->b->config.size;
    tutti_status st = TUTTI_OK;

    while (g->left > 0) {
        if (tt_now_ns() >= g->deadline_ns)
            return fail_missing(g, err);
        for (uint32_t r = 0; r < size; r++)
            g->fds[r] =
                (struct pollfd){.fd = g->missing[r] ? g->b->control[r].fd : -1, .events = POLLIN};
        tt_boot_net_poll(g->fds, size, g->deadline_ns);
        for (uint32_t r = 0; r < size && !st; r++)
            if (g->fds[r].revents)
                st = take_from(g, r, err);
        if (st)
            return st;
    }
    return st;
}

/* Rank 0: sends the gathered bytes to all ranks at once. */
static tutti_status exchange_spread(const struct gathering *g, struct tutti_error *err)
{
    uint8_t head[TT_FRAME];
    struct tt_notice n = {.head = head,
                          .head_len = sizeof head,
                          .body = g->all,
                          .body_len = g->bytes * g->b->config.size};
    uint32_t bad = g->b->config.size;
    tutti_status st;

    write_head(head, TT_FRAME_ALL, g, n.body_len);
    st = tt_boot_notify(g->b, &n, g->deadline_ns, &bad, err);
    return !st && bad < g->b->config.size ? fail_left(g->b, bad, 0, err) : st;
}

static tutti_status exchange_serve(struct gathering *g, const void *mine, struct tutti_error *err)
{
    uint32_t size = g->b->config.size;
    tutti_status st;

    g->in = tt_zalloc(size, sizeof *g->in);
    g->fds = tt_alloc(size, sizeof *g->fds);
    g->missing = tt_zalloc(size, sizeof *g->missing);
    if (!g->in || !g->fds || !g->missing)
        return tt_fail_memory(err, "exchange");
    for (uint32_t r = 1; r < size; r++) {
        g->in[r].body = g->all + r * g->bytes;
        g->in[r].cap = g->bytes;
        g->missing[r] = true;
    }
    g->left = size - 1;
    if (g->bytes)
        memcpy(g->all, mine, g->bytes);
    st = exchange_collect(g, err);
    if (!st)
        st = exchange_spread(g, err);
    if (st)
        tt_boot_refuse_all(g->b, err);
    return st;
}

/* Reads rank 0's answer. The reason of a refusal may arrive a little after the deadline. */
static tutti_status take_all(struct gathering *g, size_t cap, struct tutti_error *err)
{
    struct tt_frame_in in = {.body = g->all, .cap = cap};
    uint64_t until = g->deadline_ns + TT_GRACE_NS;
    char span[32];
    enum tt_net went;

    while ((went = tt_boot_frame_fill(&g->b->control[0], &in)) == TT_NET_AGAIN) {
        struct pollfd p = {.fd = g->b->control[0].fd, .events = POLLIN};
        if (tt_now_ns() >= until)
            return tt_fail(err, TUTTI_ERR_TIMEOUT,
                           "rank 0 (host %s, pid %u) did not answer exchange %u within %s: it is "
                           "stopped, late or unreachable",
                           g->b->peers[0].host, g->b->peers[0].pid, g->b->seq,
                           tt_boot_net_span(g->timeout_ns, span, sizeof span));
        tt_boot_net_poll(&p, 1, until);
    }
    if (went == TT_NET_END && errno != EMSGSIZE)
        return fail_left(g->b, 0, errno, err);
    if (in.frame.kind == TT_FRAME_REFUSAL && went == TT_NET_OK) {
        tt_boot_refusal_parse(g->all, (size_t)in.frame.length, err);
        return err->status;
    }
    if (in.frame.kind != TT_FRAME_ALL || in.frame.seq != g->b->seq ||
        in.frame.length != g->bytes * g->b->config.size)
        return tt_fail(err, TUTTI_ERR_DIFFERS, "rank 0 answered exchange %u with something else",
                       g->b->seq);
    return TUTTI_OK;
}

/* A failed write is not reported: rank 0 may have sent its reason before it closed the
 * connection. */
static tutti_status exchange_give(struct gathering *g, const void *mine, size_t cap,
                                  struct tutti_error *err)
{
    uint8_t head[TT_FRAME];
    int error;

    write_head(head, TT_FRAME_GIVE, g, g->bytes);
    error = tt_boot_line_send(&g->b->control[0], head, sizeof head, g->deadline_ns);
    if (!error)
        tt_boot_line_send(&g->b->control[0], mine, g->bytes, g->deadline_ns);
    return take_all(g, cap, err);
}

tutti_status tt_boot_exchange(struct tt_boot *b, const void *mine, size_t bytes, void *ret_all,
                              uint64_t timeout_ns, struct tutti_error *err)
{
    struct gathering g = {
        .b = b, .bytes = bytes, .timeout_ns = timeout_ns ? timeout_ns : b->config.timeout_ns};
    struct tutti_error why = {0};
    size_t total, cap;
    tutti_status st;

    if (b->broken)
        return tt_fail(err, TUTTI_ERR_CONNECT, "an earlier exchange failed");
    if (__builtin_mul_overflow(bytes, (size_t)b->config.size, &total))
        return tt_fail(err, TUTTI_ERR_RANGE, "%zu bytes from each of %u ranks are too many", bytes,
                       b->config.size);
    g.deadline_ns = tt_boot_net_deadline(g.timeout_ns);
    /* The buffer must also hold a refusal, which may be longer than the data. */
    cap = total > TT_REFUSAL_MAX ? total : TT_REFUSAL_MAX;
    b->broken = true; /* until it has succeeded */
    g.all = tt_alloc(cap, 1);
    if (!g.all)
        return tt_fail_memory(err, "exchange");
    st = b->config.rank == 0 ? exchange_serve(&g, mine, &why) : exchange_give(&g, mine, cap, &why);
    b->seq++;
    b->broken = st != TUTTI_OK;
    if (!st && total)
        memcpy(ret_all, g.all, total);
    else if (st)
        tt_fail(err, st, "%s", why.text);
    free(g.all);
    free(g.in);
    free(g.fds);
    free(g.missing);
    return st;
}
