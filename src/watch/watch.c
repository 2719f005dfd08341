/* watch.c - the watch as others call it.
 *
 * It is a monitor: everything except the posts and the flag of the verdict is guarded by one lock,
 * which is never held while waiting. A call that reports trouble can therefore put the note on the
 * wire itself and continue at once. If there is a case there will be a verdict: from rank 0, from
 * this rank's thread, or at the latest from the thread that awaits it. */
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "boot/porter.h"
#include "watch/watch_int.h"

/* How late a wake-up must be to show that the machine was too busy, and how much longer to wait
 * then. */
#define STALL_NS UINT64_C(50000000)
#define EXTRA_NS UINT64_C(300000000)

void tt_watch_wake(const struct tt_watch *w)
{
    uint64_t one = 1;
    ssize_t n = write(w->wake, &one, sizeof one);
    (void)n; /* a full counter means that it is awake */
}

/* ---- opening and closing ---- */

static void make_lock(struct tt_watch *w)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->changed, &attr);
    pthread_condattr_destroy(&attr);
    pthread_mutex_init(&w->lock, NULL);
}

static tutti_status watch_start(struct tt_watch *w, struct tutti_error *err)
{
    sigset_t all, old;
    int error;
    sigfillset(&all); /* signals are for the program's own threads */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    pthread_mutex_lock(&w->lock);
    error = pthread_create(&w->thread, NULL, tt_watch_run, w);
    w->running = error == 0;
    pthread_mutex_unlock(&w->lock);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error ? tt_fail(err, TUTTI_ERR_IO, "a thread cannot be started: %s", strerror(error))
                 : TUTTI_OK;
}

/* A rank to which there is no control line did not come when the line was made anew
 * (tt_boot_rejoin). */
static void judge_missing(struct tt_watch *w)
{
    struct tt_verdict v;
    pthread_mutex_lock(&w->lock);
    for (uint32_t r = 0; r < w->nseats; r++)
        if (r != w->rank && tt_boot_line(w->boot, r)->fd < 0) {
            tt_watch_judge_end(w, r, 0, false, &v);
            tt_watch_settle(w, &v);
        }
    pthread_mutex_unlock(&w->lock);
}

tutti_status tt_watch_open(struct tt_boot *b, uint64_t timeout_ns, struct tt_watch **ret,
                           struct tutti_error *err)
{
    const struct tt_boot_config *c = tt_boot_config(b);
    struct tt_watch *w = tt_zalloc(1, sizeof *w);
    tutti_status st = TUTTI_OK;
    if (!w)
        return tt_fail_memory(err, "watch");
    make_lock(w);
    w->boot = b;
    w->peers = tt_boot_peers(b);
    w->rank = c->rank;
    w->size = c->size;
    w->timeout_ns = timeout_ns;
    w->reporter = UINT32_MAX;
    w->trouble.peer = UINT32_MAX;
    w->nseats = w->rank == 0 ? w->size : 1;
    w->wake = tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    w->seats = tt_zalloc(w->nseats, sizeof *w->seats);
    w->fds = tt_alloc((size_t)w->nseats + 3, sizeof *w->fds);
    w->pids = w->size > 1 ? tt_watch_pids_open(w->peers, w->rank, w->size) : NULL;
    if (!w->seats || !w->fds || w->wake < 0)
        st = w->wake < 0 ? tt_fail(err, TUTTI_ERR_IO, "eventfd: %s", strerror(errno))
                         : tt_fail_memory(err, "watch");
    for (uint32_t r = 0; !st && r < w->nseats; r++)
        w->seats[r].line = (struct tt_line){
            .io = tt_boot_line(b, r), .fd = tt_boot_line(b, r)->fd, .read_ns = tt_now_ns()};
    tt_watch_posts_join(&w->posts, 0);
    tt_watch_posts_join(&w->posts, TT_COMM_OPENING);
    if (!st && tt_boot_porter_fd(b) >= 0) /* alone, it has nothing to watch but newcomers */
        st = watch_start(w, err);
    if (!st)
        judge_missing(w);
    if (st) {
        tt_watch_close(w);
        return st;
    }
    *ret = w;
    return TUTTI_OK;
}

/* The thread says farewell before it ends (thread.c). */
void tt_watch_close(struct tt_watch *w)
{
    if (!w)
        return;
    if (w->running) {
        pthread_mutex_lock(&w->lock);
        w->stop = true;
        pthread_mutex_unlock(&w->lock);
        tt_watch_wake(w);
        pthread_join(w->thread, NULL);
    }
    tt_fd_close(w->wake);
    tt_watch_pids_close(w->pids);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
    for (uint32_t r = 0; w->seats && r < w->nseats; r++)
        free(w->seats[r].parcel.data);
    free(w->seats);
    free(w->fds);
    free(w);
}

/* ---- the calls ---- */

void tt_watch_join(struct tt_watch *w, uint32_t comm)
{
    pthread_mutex_lock(&w->lock);
    if (comm)
        tt_watch_posts_join(&w->posts, comm);
    pthread_mutex_unlock(&w->lock);
}

void tt_watch_part(struct tt_watch *w, uint32_t comm)
{
    pthread_mutex_lock(&w->lock);
    if (comm)
        tt_watch_posts_part(&w->posts, comm);
    pthread_mutex_unlock(&w->lock);
}

void tt_watch_enter(struct tt_watch *w, const struct tt_op_desc *op)
{
    tt_watch_posts_enter(&w->posts, op);
}

void tt_watch_leave(struct tt_watch *w, uint32_t comm)
{
    tt_watch_posts_leave(&w->posts, comm);
}

void tt_watch_talk(struct tt_watch *w, bool begins)
{
    tt_watch_posts_talk(&w->posts, begins);
}

/* Trouble of this rank: opens a case if it is the first, and gets it going. The lock is held. */
static void raise_trouble(struct tt_watch *w, const struct tt_trouble *t)
{
    assert(tt_watch_locked(w) && !w->judged);
    struct tt_note n = {.type = TT_NOTE_TROUBLE, .u.trouble = *t};
    bool fresh = w->reporter == UINT32_MAX;
    tt_watch_open_case(w, w->rank, t);
    if (!fresh)
        return;
    if (!w->running || (w->rank != 0 && w->seats[0].line.fd < 0))
        tt_watch_settle_alone(w);
    else if (w->rank == 0)
        tt_watch_ask_all(w);
    else
        tt_watch_tell(w, &n);
}

/* An abort or the like needs no questions: this rank's statement is the verdict. */
static void raise_word(struct tt_watch *w, const struct tt_trouble *t)
{
    struct tt_note n = {.type = TT_NOTE_TROUBLE, .u.trouble = *t};
    struct tt_verdict v;
    tt_watch_judge_word(w, w->rank, t, &v);
    tt_watch_settle(w, &v);
    if (w->rank != 0)
        tt_watch_tell(w, &n);
}

void tt_watch_report(struct tt_watch *w, const struct tt_trouble *t)
{
    pthread_mutex_lock(&w->lock);
    if (atomic_load_explicit(&w->judged, memory_order_relaxed))
        ;
    else if (tt_watch_judge_is_word(t))
        raise_word(w, t);
    else
        raise_trouble(w, t);
    pthread_mutex_unlock(&w->lock);
    tt_watch_wake(w);
}

/* The acquire load pairs with the release store in tt_watch_settle: the verdict is complete, and
 * never changes. */
bool tt_watch_verdict(const struct tt_watch *w, struct tt_verdict *ret)
{
    if (!atomic_load_explicit(&w->judged, memory_order_acquire))
        return false;
    *ret = w->verdict;
    return true;
}

static void sleep_for_verdict(struct tt_watch *w, uint64_t until_ns)
{
    struct timespec t = {.tv_sec = (time_t)(until_ns / 1000000000),
                         .tv_nsec = (long)(until_ns % 1000000000)};
    while (!w->judged && tt_now_ns() < until_ns)
        pthread_cond_timedwait(&w->changed, &w->lock, &t);
}

void tt_watch_await(struct tt_watch *w, uint64_t deadline_ns, struct tt_verdict *ret)
{
    struct tt_verdict v;
    pthread_mutex_lock(&w->lock);
    sleep_for_verdict(w, deadline_ns);
    uint64_t now = tt_now_ns();
    /* if this thread was not scheduled, the watch's thread probably was not either */
    if (w->asking || (w->running && now > deadline_ns + STALL_NS))
        sleep_for_verdict(w, now + EXTRA_NS);
    if (!w->judged && w->rank == 0 && tt_watch_has_case(w) && tt_watch_judge_case(w, true, &v))
        tt_watch_settle(w, &v);
    else if (!w->judged)
        tt_watch_settle_alone(w);
    pthread_mutex_unlock(&w->lock);
    *ret = w->verdict;
}
