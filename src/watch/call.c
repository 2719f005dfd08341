/* call.c - the roll call on real connections: links, clocks, and proofs that a rank has ended.
 *
 * One loop in the thread of the caller. The rank that leads wants a link to every other, the others
 * to the one that they expect to lead; links are made by boot's porter, so that a rank that has yet
 * to come has them waiting. What is known of a rank:
 *
 *     nobody listens at its address any more     it has ended: proof (boot/succeed.c)
 *     its link ends, or cannot be made           asked again until one of the others applies
 *     it has spoken and is silent for a while    quiet: not waited for, until it speaks again
 *     it has not come within the timeout         quiet
 *
 * A rank that cannot reach enough others for a quorum waits until the deadline and fails. */
#include <assert.h>

#include "watch/call.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "boot/porter.h"
#include "watch/watch_int.h"

#define BEAT_NS   UINT64_C(100000000)
#define AGAIN_NS  UINT64_C(20000000)   /* between two attempts to reach a rank */
#define SILENT_NS UINT64_C(1000000000) /* or an eighth of the timeout */

struct peer {
    struct tt_boot_line line;
    bool linked, wanted, spoke;
    uint64_t heard_ns, retry_ns;
    size_t got, sent; /* of `in`, of `out` */
    struct tt_roll_note in;
    struct tt_vec out; /* bytes */
};

struct call {
    struct tt_boot *b;
    struct tt_desk *desk;
    uint32_t n, me;
    uint64_t begin_ns, come_ns, deadline_ns, beat_ns; /* come_ns: until then ranks may come */
    uint64_t silent_ns;
    struct tt_roll roll;
    struct peer *peers;
    struct pollfd *fds;
};

/* ---- sending ---- */

static bool queue(struct peer *p, const struct tt_roll_note *m)
{
    return !p->linked || tt_vec_push(&p->out, m, sizeof *m);
}

/* Messages to ranks without a link are dropped: tt_roll_linked says again what is needed. */
static bool hand_out(struct call *c)
{
    struct tt_roll_out *list = c->roll.out.data;
    bool ok = !c->roll.short_of_memory;
    for (size_t i = 0; i < c->roll.out.len; i++)
        ok = queue(&c->peers[list[i].to], &list[i].note) && ok;
    c->roll.out.len = 0;
    return ok;
}

static void push(struct peer *p)
{
    if (!p->linked || !p->out.len)
        return;
    if (tt_boot_line_write(&p->line, p->out.data, p->out.len, &p->sent) == TT_NET_AGAIN)
        return;
    p->out.len = p->sent = 0; /* sent, or the link has ended, which reading will show */
}

static void push_all(struct call *c)
{
    for (uint32_t q = 0; q < c->n; q++)
        push(&c->peers[q]);
}

static bool beat(struct call *c, enum tt_roll_kind kind)
{
    struct tt_roll_note m = {.magic = TT_ROLL_MAGIC, .kind = kind, .dead = c->roll.dead};
    bool ok = true;
    for (uint32_t q = 0; q < c->n; q++)
        ok = (c->peers[q].out.len && kind == TT_ROLL_BEAT) || (queue(&c->peers[q], &m) && ok);
    return ok;
}

/* ---- links ---- */

static void drop(struct call *c, uint32_t q)
{
    struct peer *p = &c->peers[q];
    assert(q != c->me && p->linked);
    tt_boot_line_close(&p->line);
    p->linked = p->wanted = false;
    p->got = p->sent = p->out.len = 0;
    p->retry_ns = tt_now_ns() + AGAIN_NS;
    tt_boot_desk_forget(c->desk, q);
}

static tutti_status want_links(struct call *c, struct tutti_error *err)
{
    uint32_t leader = tt_roll_leader(&c->roll);
    uint64_t now = tt_now_ns();
    for (uint32_t q = 0; q < c->n; q++) {
        struct peer *p = &c->peers[q];
        bool useful = leader == c->me || leader == q;
        if (q == c->me || p->linked || p->wanted || !useful || now < p->retry_ns ||
            tt_set_has(&c->roll.dead, q))
            continue;
        tutti_status st = tt_boot_desk_want(c->desk, q, err);
        if (st)
            return st;
        p->wanted = true;
    }
    return TUTTI_OK;
}

/* A link, or the reason why there is none. Its own lack of descriptors ends the call. */
static tutti_status take_link(struct call *c, struct tt_porter_link *l, struct tutti_error *err)
{
    struct peer *p = &c->peers[l->peer];
    assert(l->peer < c->n);
    p->wanted = false;
    p->retry_ns = tt_now_ns() + AGAIN_NS;
    if (l->fd >= 0) {
        bool ok = tt_boot_line_open(&p->line, l->fd, &l->keys);
        explicit_bzero(&l->keys, sizeof l->keys);
        p->linked = true; /* so that a line without memory is closed too */
        p->heard_ns = tt_now_ns();
        if (!ok)
            return tt_fail_memory(err, "roll call");
        tt_roll_linked(&c->roll, l->peer);
    } else if (l->why.status == TUTTI_ERR_PEER) {
        tt_roll_dead(&c->roll, l->peer);
    } else if (l->why.status == TUTTI_ERR_TIMEOUT) {
        tt_roll_quiet(&c->roll, l->peer);
    } else {
        return tt_fail(err, l->why.status, "%s", l->why.text);
    }
    return TUTTI_OK;
}

/* A rank that sends what makes no sense is treated like one whose link broke. */
static void read_from(struct call *c, uint32_t q)
{
    struct peer *p = &c->peers[q];
    enum tt_net went = TT_NET_OK;
    while (p->linked && went == TT_NET_OK) {
        went = tt_boot_line_read(&p->line, &p->in, sizeof p->in, &p->got);
        if (went == TT_NET_OK && !tt_roll_sane(&p->in, c->n))
            went = TT_NET_END;
        if (went != TT_NET_OK)
            continue;
        p->got = 0;
        p->spoke = true;
        p->heard_ns = tt_now_ns();
        tt_roll_take(&c->roll, q, &p->in);
    }
    if (went == TT_NET_END)
        drop(c, q);
}

/* ---- the loop ---- */

static void find_silent(struct call *c)
{
    uint64_t now = tt_now_ns();
    for (uint32_t q = 0; q < c->n; q++) {
        const struct peer *p = &c->peers[q];
        bool late = p->spoke ? now >= p->heard_ns + c->silent_ns : now >= c->come_ns;
        if (q != c->me && late && !tt_set_has(&c->roll.quiet, q) && !tt_set_has(&c->roll.dead, q))
            tt_roll_quiet(&c->roll, q);
    }
}

/* Sleeps until something arrives or is due. */
static void doze(struct call *c, uint64_t until)
{
    struct timespec t;
    uint64_t due = tt_boot_porter_due(c->b), now = tt_now_ns(), left;
    until = due < until ? due : until;
    left = until > now ? until - now : 0;
    t = (struct timespec){.tv_sec = (time_t)(left / 1000000000),
                          .tv_nsec = (long)(left % 1000000000)};
    for (uint32_t q = 0; q < c->n; q++)
        c->fds[q] =
            (struct pollfd){.fd = c->peers[q].linked ? c->peers[q].line.fd : -1,
                            .events = (short)(POLLIN | (c->peers[q].out.len ? POLLOUT : 0))};
    c->fds[c->n] = (struct pollfd){.fd = tt_boot_porter_fd(c->b), .events = POLLIN};
    c->fds[c->n + 1] = (struct pollfd){.fd = tt_boot_desk_bell(c->desk), .events = POLLIN};
    if (ppoll(c->fds, c->n + 2, &t, NULL) < 0)
        for (uint32_t q = 0; q < c->n; q++)
            c->fds[q].revents = 0;
    tt_boot_porter_serve(c->b);
}

static tutti_status turn(struct call *c, struct tutti_error *err)
{
    struct tt_porter_link l;
    uint64_t now = tt_now_ns(), next = now + AGAIN_NS;
    tutti_status st = want_links(c, err);
    bool ok = true;
    if (now >= c->beat_ns) {
        ok = beat(c, TT_ROLL_BEAT);
        c->beat_ns = now + BEAT_NS;
    }
    push_all(c);
    if (st || !ok)
        return st ? st : tt_fail_memory(err, "roll call");
    doze(c, next < c->beat_ns ? next : c->beat_ns);
    while (!st && tt_boot_desk_take(c->desk, &l))
        st = take_link(c, &l, err);
    for (uint32_t q = 0; q < c->n; q++)
        if (c->fds[q].revents)
            read_from(c, q);
    find_silent(c);
    ok = hand_out(c);
    push_all(c);
    return st || ok ? st : tt_fail_memory(err, "roll call");
}

/* "rank 2 has ended, ranks 0, 1 answered, rank 3 did not" */
static tutti_status fail_alone(const struct call *c, struct tutti_error *err)
{
    bool *here = tt_zalloc(c->n, 1), *ended = tt_zalloc(c->n, 1), *away = tt_zalloc(c->n, 1);
    char a[100] = "some", b[100] = "some", d[100] = "some", span[32];
    uint32_t nended = 0, naway = 0, nhere = 0;
    for (uint32_t q = 0; here && ended && away && q < c->n; q++) {
        nended += ended[q] = tt_set_has(&c->roll.dead, q);
        nhere += here[q] = !ended[q] && (q == c->me || c->peers[q].spoke);
        naway += away[q] = !ended[q] && !here[q];
    }
    if (here && ended && away) {
        tt_boot_ranks_text(here, c->n, a, sizeof a);
        tt_boot_ranks_text(ended, c->n, b, sizeof b);
        tt_boot_ranks_text(away, c->n, d, sizeof d);
    }
    free(here);
    free(ended);
    free(away);
    snprintf(span, sizeof span, "%.1f s", (double)(tt_now_ns() - c->begin_ns) * 1e-9);
    return tt_fail(err, TUTTI_ERR_TIMEOUT,
                   "no agreement on which ranks go on within %s: %s %s here%s%s%s%s%s; to go on, "
                   "all others must "
                   "have ended, or more than half of the %u ranks must be here (or half of them "
                   "with rank 0)%s",
                   span, a, nhere == 1 ? "is" : "are", nended ? ", " : "", nended ? b : "",
                   nended ? (nended == 1 ? " has ended" : " have ended") : "",
                   naway ? ", no sign of " : "", naway ? d : "", c->n,
                   c->roll.doubtful
                       ? "; this rank was stopped or late, so that the others may have gone on "
                         "without it"
                       : "");
}

static tutti_status call_run(struct call *c, struct tutti_error *err)
{
    uint64_t end;
    tutti_status st = hand_out(c) ? TUTTI_OK : tt_fail_memory(err, "roll call");
    while (!st && !c->roll.decided) {
        if (tt_now_ns() >= c->deadline_ns)
            st = fail_alone(c, err);
        else
            st = turn(c, err);
    }
    if (!c->roll.decided)
        beat(c, TT_ROLL_LEAVE);
    /* What was said last is on its way before the links are closed. */
    for (end = tt_now_ns() + BEAT_NS; tt_now_ns() < end;) {
        bool busy = false;
        push_all(c);
        for (uint32_t q = 0; q < c->n; q++)
            busy = busy || (c->peers[q].linked && c->peers[q].out.len);
        if (!busy)
            break;
        poll(NULL, 0, 1);
    }
    return st;
}

static void call_free(struct call *c)
{
    for (uint32_t q = 0; c->peers && q < c->n; q++) {
        if (c->peers[q].linked)
            tt_boot_line_close(&c->peers[q].line);
        tt_vec_free(&c->peers[q].out);
    }
    tt_boot_desk_close(c->desk);
    tt_roll_free(&c->roll);
    free(c->peers);
    free(c->fds);
}

static tutti_status call_open(struct call *c, const struct tt_standing *s, uint64_t timeout_ns,
                              struct tutti_error *err)
{
    c->begin_ns = c->beat_ns = tt_now_ns();
    c->silent_ns = timeout_ns / 8 > SILENT_NS ? timeout_ns / 8 : SILENT_NS;
    c->come_ns = c->begin_ns + timeout_ns;
    c->deadline_ns = c->come_ns + timeout_ns / 2 + SILENT_NS;
    c->peers = tt_zalloc(c->n, sizeof *c->peers);
    c->fds = tt_alloc((size_t)c->n + 2, sizeof *c->fds);
    if (!c->peers || !c->fds)
        return tt_fail_memory(err, "roll call");
    for (uint32_t q = 0; q < c->n; q++)
        c->peers[q].out.elem = 1;
    tt_roll_begin(&c->roll, &(struct tt_roll_start){c->n, c->me, s->doubtful, s->newcomers});
    if (s->suspect < c->n)
        tt_roll_quiet(&c->roll, s->suspect);
    /* A link that cannot be made is no reason to wait longer than for a rank that is silent. */
    return tt_boot_desk_open(c->b, TT_ROLE_ROLL, c->silent_ns, &c->desk, err);
}

tutti_status tt_watch_call_roll(struct tt_boot *b, const struct tt_standing *s, uint64_t timeout_ns,
                                struct tt_roll_note *ret, struct tutti_error *err)
{
    struct call c = {.b = b, .n = tt_boot_config(b)->size, .me = tt_boot_config(b)->rank};
    tutti_status st;
    if (c.n > TT_ROLL_RANKS)
        return tt_fail(err, TUTTI_ERR_LIMIT,
                       "%u ranks cannot agree on which of them go on: at most %d", c.n,
                       TT_ROLL_RANKS);
    st = c.n > 1 ? call_open(&c, s, timeout_ns, err) : TUTTI_OK;
    if (c.n == 1)
        tt_roll_begin(&c.roll, &(struct tt_roll_start){.n = 1, .newcomers = s->newcomers});
    else if (!st)
        st = call_run(&c, err);
    if (!st)
        *ret = (struct tt_roll_note){.magic = TT_ROLL_MAGIC,
                                     .kind = TT_ROLL_COMMIT,
                                     .view = c.roll.view,
                                     .dead = c.roll.dead};
    call_free(&c);
    return st;
}

/* The verdict is known to all ranks at about the same time. */
void tt_watch_standing(struct tt_watch *w, struct tt_standing *ret)
{
    struct tt_verdict v;
    *ret = (struct tt_standing){.suspect = UINT32_MAX, .doubtful = w->stood};
    if (!tt_watch_verdict(w, &v))
        return;
    bool absent =
        v.blame == TT_BLAME_DEAD || v.blame == TT_BLAME_STUCK || v.blame == TT_BLAME_UNREACHABLE;
    if (v.culprit == w->rank)
        ret->doubtful = ret->doubtful || absent || v.blame == TT_BLAME_NOT_ENTERED;
    else if (absent)
        ret->suspect = v.culprit;
    if (tt_now_ns() > w->judged_ns + w->timeout_ns)
        ret->doubtful = true;
}
