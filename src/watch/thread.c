/* thread.c - the thread that communicates on the control connections.
 *
 *     rank 1 ---beat, trouble, answer--->  rank 0  <---beat, trouble, answer--- rank 2
 *     rank 1 <---beat, ask, verdict------  (board) ----beat, ask, verdict-----> rank 2
 *
 * It also serves boot's porter (links that ranks ask for, strangers at the listener). It sleeps in
 * poll, without the lock, at most until the next heartbeat or the end of a case. A case proceeds
 * like this: a rank reports its deadline; rank 0 asks all ranks; a living thread answers at once,
 * whatever its rank computes; when all have answered, or half a second later, rank 0 judges and
 * tells all. A rank that hears nothing from rank 0 meanwhile judges by itself. So every rank has a
 * verdict within about 0.8 s of its own deadline.
 *
 * Invariant: a rank that has said farewell is never dead. */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "boot/porter.h"
#include "watch/watch_int.h"

#define BEAT_NS     UINT64_C(250000000)
#define ANSWER_NS   UINT64_C(500000000) /* how long rank 0 waits for answers */
#define AGAIN_NS    UINT64_C(50000000)  /* and after how long it asks again */
#define ROOT_NS     UINT64_C(550000000) /* how long the others wait for a sign of rank 0 */
#define PROBE_NS    UINT64_C(120000000) /* for each of at most PROBES probes */
#define PROBES      2
#define FAREWELL_NS UINT64_C(300000000)
/* A farewell may still be on its way when the process has ended. */
#define ENDED_NS UINT64_C(100000000)

/* ---- what arrives; the lock is held ---- */

/* Answers to earlier questions are ignored. */
static void take_answer(struct tt_watch *w, uint32_t r, const struct tt_answer *a)
{
    struct tt_seat *s = &w->seats[r];
    if (w->rank != 0 || !tt_watch_has_case(w) || a->comm != w->trouble.op.comm ||
        a->seq != w->asked_seq)
        return;
    assert(r < w->nseats && w->reporter < w->size);
    s->answer = *a;
    s->answered = true;
}

/* Trouble that another rank reports to rank 0. */
static void take_trouble(struct tt_watch *w, uint32_t r, const struct tt_trouble *t)
{
    struct tt_verdict v;
    bool fresh = w->reporter == UINT32_MAX;
    if (w->rank != 0 || t->kind >= TT_TROUBLES)
        return;
    if (tt_watch_judge_is_word(t)) {
        tt_watch_judge_word(w, r, t, &v);
        tt_watch_settle(w, &v);
        return;
    }
    tt_watch_open_case(w, r, t);
    if (fresh)
        tt_watch_ask_all(w);
}

static void take_farewell(struct tt_watch *w, uint32_t r)
{
    w->seats[r].left = true;
    w->seats[r].line.fd = -1;
    pthread_cond_broadcast(&w->changed); /* a gather need not wait for it */
    if (w->rank != 0 && tt_watch_has_case(w))
        tt_watch_settle_alone(w);
}

/* The process of rank r has ended: tells rank 0, or waits ENDED_NS for its farewell before
 * judging. */
static void take_ended(struct tt_watch *w, uint32_t r)
{
    struct tt_note n = {.type = TT_NOTE_ENDED, .u.ended = r};
    if (w->rank != 0 && r != 0) {
        tt_watch_tell(w, &n);
    } else if (r < w->nseats && !w->seats[r].ended_ns) {
        w->seats[r].ended_ns = tt_now_ns();
        w->ends = true;
    }
}

/* Handles one note. False: it is invalid. */
static bool watch_thread_take(struct tt_watch *w, uint32_t r, struct tt_note *n)
{
    struct tt_note reply = {.type = TT_NOTE_ANSWER};
    switch ((enum tt_note_type)n->type) {
    case TT_NOTE_BEAT:
        w->seats[r].doing = n->u.beat;
        break;
    case TT_NOTE_ASK:
        reply.u.answer = tt_watch_posts_answer(&w->posts, n->u.answer.comm, n->u.answer.seq);
        tt_watch_line_put(&w->seats[r].line, &reply);
        break;
    case TT_NOTE_ANSWER:
        take_answer(w, r, &n->u.answer);
        break;
    case TT_NOTE_TROUBLE:
        take_trouble(w, r, &n->u.trouble);
        break;
    case TT_NOTE_VERDICT:
        if (w->rank != 0 && n->u.verdict.culprit < w->size && n->u.verdict.blame < TT_BLAMES)
            tt_watch_settle(w, &n->u.verdict);
        break;
    case TT_NOTE_ENDED:
        if (w->rank == 0)
            take_ended(w, n->u.ended);
        break;
    case TT_NOTE_PIECE:
        return tt_watch_gather_take(w, r, &n->u.piece);
    default:
        take_farewell(w, r);
    }
    return true;
}

/* ---- whose link is it? ---- */

/* Can no host except this one be reached? Checks the interface, then probes up to two hosts other
 * than rank 0's. Each rank starts with those that follow it, so that not all probe the same ones.
 * False if there are none to probe. */
static bool ask_around(const struct tt_watch *w)
{
    const struct tt_boot_peer *me = &w->peers[w->rank];
    uint64_t seen = me->host_id;
    int asked = 0;
    if (tt_boot_link_down(w->boot))
        return true;
    for (uint32_t i = 1; i < w->size && asked < PROBES; i++) {
        uint32_t r = (w->rank + i) % w->size;
        if (w->peers[r].host_id == me->host_id || w->peers[r].host_id == w->peers[0].host_id ||
            w->peers[r].host_id == seen)
            continue;
        seen = w->peers[r].host_id;
        asked++;
        int error = tt_boot_probe(w->boot, r, PROBE_NS);
        if (error == 0 || error == ECONNREFUSED)
            return false;
    }
    return asked > 0;
}

/* Probes may take a moment, so the lock is released for them. `asking` tells waiting calls to be
 * patient. */
static bool lonely(struct tt_watch *w)
{
    assert(tt_watch_locked(w));
    w->asking = true;
    pthread_mutex_unlock(&w->lock);
    bool alone = ask_around(w);
    pthread_mutex_lock(&w->lock);
    w->asking = false;
    return alone;
}

/* Nothing has arrived from rank 0 since the report: judges rank 0, or this rank's own link. */
static void judge_root(struct tt_watch *w)
{
    struct tt_verdict v;
    assert(w->rank != 0 && tt_watch_has_case(w));
    bool cut = tt_watch_line_cut(w->seats[0].line.fd), alone = cut && lonely(w);
    struct tt_note n = {
        .type = TT_NOTE_TROUBLE,
        .u.trouble = {.kind = TT_TROUBLE_LINK, .peer = UINT32_MAX, .op = w->trouble.op}};
    tt_watch_judge_silent_root(w, cut, alone, &v);
    tt_watch_settle(w, &v);
    if (alone)
        tt_watch_tell(w, &n); /* the link may be cut in one direction only */
}

/* An end of the connection without farewell is judged at once: it needs no case. */
void tt_watch_read(struct tt_watch *w, uint32_t r)
{
    assert(tt_watch_locked(w) && r < w->nseats);
    struct tt_line *l = &w->seats[r].line;
    struct tt_verdict v;
    enum tt_line_state s;
    int error = 0;
    while ((s = tt_watch_line_take(l, &error)) == TT_LINE_NOTE)
        if (!watch_thread_take(w, r, &l->in)) {
            s = TT_LINE_END;
            error = EBADMSG;
            break;
        }
    if (s != TT_LINE_END)
        return;
    bool alone = w->rank != 0 && !tt_watch_judge_is_death(error) && lonely(w);
    l->fd = -1;
    tt_watch_judge_end(w, r, error, alone, &v);
    tt_watch_settle(w, &v);
}

/* ---- what is due; the lock is held ---- */

/* A line that still has something to send needs no heartbeat: what it sends shows that this rank
 * lives. */
static void watch_thread_beat(struct tt_watch *w)
{
    struct tt_note n = {.type = TT_NOTE_BEAT, .u.beat = tt_watch_posts_latest(&w->posts)};
    for (uint32_t r = 0; r < w->nseats; r++)
        if (w->seats[r].line.out_len == 0)
            tt_watch_line_put(&w->seats[r].line, &n);
}

/* Judges ranks whose processes have ended without farewell although their connections are open.
 * Returns when the next one is due. */
static uint64_t watch_thread_bury(struct tt_watch *w)
{
    uint64_t due = UINT64_MAX, now = tt_now_ns();
    struct tt_verdict v;
    for (uint32_t r = 0; w->ends && r < w->nseats; r++) {
        struct tt_seat *s = &w->seats[r];
        if (!s->ended_ns || s->left || s->line.fd < 0)
            continue;
        if (now >= s->ended_ns + ENDED_NS) {
            s->line.fd = -1;
            tt_watch_judge_end(w, r, 0, false, &v);
            tt_watch_settle(w, &v);
        } else if (s->ended_ns + ENDED_NS < due) {
            due = s->ended_ns + ENDED_NS;
        }
    }
    w->ends = due < UINT64_MAX;
    return due;
}

/* Judges what can be judged; returns when to check again at the latest. */
static uint64_t go_on(struct tt_watch *w)
{
    struct tt_verdict v;
    uint64_t end = w->case_ns + (w->rank == 0 ? ANSWER_NS : ROOT_NS), now = tt_now_ns();
    if (!tt_watch_has_case(w))
        return UINT64_MAX;
    if (w->rank == 0 && (now >= end || !tt_watch_ask_further(w)) &&
        tt_watch_judge_case(w, now >= end, &v))
        tt_watch_settle(w, &v);
    else if (w->rank != 0 && w->seats[0].line.read_ns >= w->case_ns)
        return UINT64_MAX; /* rank 0 lives: its verdict will come */
    else if (w->rank != 0 && now >= end)
        judge_root(w);
    if (!tt_watch_has_case(w))
        return UINT64_MAX;
    if (w->rank == 0 && now >= w->asked_ns + AGAIN_NS) /* ranks may enter while the case is open */
        tt_watch_ask_all(w);
    return w->rank == 0 && w->asked_ns + AGAIN_NS < end ? w->asked_ns + AGAIN_NS : end;
}

/* ---- the thread ---- */

/* Polls everything that this thread serves. The lock is released while it sleeps and while the
 * porter is served. */
static void sleep_until(struct tt_watch *w, struct pollfd *fds, uint64_t until)
{
    uint64_t now = tt_now_ns(), due = tt_boot_porter_due(w->boot), end = due < until ? due : until,
             left = end > now ? end - now : 0;
    struct timespec t = {.tv_sec = (time_t)(left / 1000000000),
                         .tv_nsec = (long)(left % 1000000000)};
    assert(tt_watch_locked(w));
    for (uint32_t r = 0; r < w->nseats; r++)
        fds[r] = (struct pollfd){
            .fd = w->seats[r].line.fd,
            .events = (short)(POLLIN | (tt_watch_line_busy(&w->seats[r].line) ? POLLOUT : 0))};
    fds[w->nseats] = (struct pollfd){.fd = w->wake, .events = POLLIN};
    fds[w->nseats + 1] = (struct pollfd){.fd = tt_boot_porter_fd(w->boot), .events = POLLIN};
    fds[w->nseats + 2] = (struct pollfd){.fd = tt_watch_pids_fd(w->pids), .events = POLLIN};
    pthread_mutex_unlock(&w->lock);
    if (ppoll(fds, w->nseats + 3, &t, NULL) < 0)
        for (uint32_t r = 0; r < w->nseats + 3; r++)
            fds[r].revents = 0;
    tt_boot_porter_serve(w->boot);
    pthread_mutex_lock(&w->lock);
}

static void watch_thread_serve(struct tt_watch *w, const struct pollfd *fds)
{
    uint64_t count;
    uint32_t ended;
    if (fds[w->nseats].revents && read(w->wake, &count, sizeof count) < 0)
        count = 0; /* another wake-up consumed it */
    for (uint32_t r = 0; r < w->nseats; r++) {
        if (fds[r].revents & POLLOUT) {
            tt_watch_line_push(&w->seats[r].line);
            pthread_cond_broadcast(&w->changed); /* a parcel may have been sent */
        }
        if (fds[r].revents & ~POLLOUT)
            tt_watch_read(w, r);
    }
    while (tt_watch_pids_take(w->pids, &ended))
        take_ended(w, ended);
}

/* Sends a farewell to all ranks that are still connected, and waits a moment until it is sent. */
static void take_leave(struct tt_watch *w, struct pollfd *fds)
{
    struct tt_note n = {.type = TT_NOTE_FAREWELL};
    uint64_t until = tt_now_ns() + FAREWELL_NS;
    bool waiting = true;
    tt_watch_tell(w, &n);
    while (waiting && tt_now_ns() < until) {
        waiting = false;
        for (uint32_t r = 0; r < w->nseats; r++)
            waiting =
                waiting || (w->seats[r].line.fd >= 0 && tt_watch_line_busy(&w->seats[r].line));
        if (waiting) {
            sleep_until(w, fds, until);
            watch_thread_serve(w, fds);
        }
    }
    for (uint32_t r = 0; r < w->nseats; r++)
        if (w->seats[r].line.fd >= 0)
            shutdown(w->seats[r].line.fd, SHUT_WR);
}

void *tt_watch_run(void *arg)
{
    struct tt_watch *w = arg;
    struct pollfd *fds = w->fds;
    uint64_t next = tt_now_ns(), last = next;
    pthread_setname_np(pthread_self(), "tutti-watch");
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        uint64_t now = tt_now_ns(), due = watch_thread_bury(w), later = go_on(w);
        if (now > last + w->timeout_ns / 2) /* it never sleeps so long */
            atomic_store(&w->stood, true);
        last = now;
        due = later < due ? later : due;
        if (now >= next) {
            watch_thread_beat(w);
            next = now + BEAT_NS;
        }
        if (w->stop)
            break;
        sleep_until(w, fds, due < next ? due : next);
        watch_thread_serve(w, fds);
    }
    take_leave(w, fds);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}
