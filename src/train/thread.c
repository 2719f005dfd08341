/* thread.c - the thread that communicates: it starts the launches in their order, each as soon as
 * it is first in line and has what it needs, with at most `window` under way; it updates shards and
 * wakes waiters.
 *
 *     grad_ready -missing = 0, bell-> start ... test: done -> (update shard) -> news -> wait_param
 *                                           ^ next in line
 *
 * Timing never decides the order: two ranks whose hooks fire in different orders start the same
 * launches in the same order. Invariant: launches before `head` are started, `running` lists those
 * of them that are not done, and only this thread touches requests. */
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "train/train_int.h"

/* EAGAIN means that the counter is full: the thread has been woken long since. */
void tt_train_ring(struct tt_trainer *t)
{
    uint64_t one = 1;
    if (t->bell >= 0 && write(t->bell, &one, sizeof one) < 0)
        assert(errno == EAGAIN);
}

/* ---- the gate ---- */

/* The gate's input: the squares of the own blocks, and which tensors this rank used. */
static void fill_gate(struct tt_trainer *t)
{
    assert(t->nrunning == 0);
    t->gate_data[0] = t->options.clip_norm > 0 ? tt_train_squares(t) : 0;
    for (uint32_t i = 0; i < t->ntensors; i++)
        t->gate_data[1 + i] = t->tensors[i].used ? 1 : 0;
}

/* PyTorch's rule, its 1e-6 included. */
void tt_train_clip(struct tt_trainer *t, double squares)
{
    double limit = t->options.clip_norm;
    t->norm = sqrt(squares) * fabs(t->scale);
    t->clip = 1;
    if (limit > 0 && !(t->norm + 1e-6 <= limit)) /* true for NaN too: it must reach the update */
        t->clip = limit / (t->norm + 1e-6);
}

/* The gate's result: a tensor that no rank used is not updated, so begin's count is taken back. */
void tt_train_read_gate(struct tt_trainer *t)
{
    tt_train_clip(t, t->gate_data[0]);
    for (uint32_t i = 0; i < t->ntensors; i++) {
        t->tensors[i].used = t->gate_data[1 + i] > 0;
        assert(t->tensors[i].updates > 0);
        t->tensors[i].updates -= !t->tensors[i].used;
    }
}

/* The check's input: what this rank's parameters were before this step. */
static void fill_check(struct tt_trainer *t)
{
    assert(t->elastic.hashed + 1 == t->steps);
    t->elastic.card[0] = t->elastic.hashed;
    t->elastic.card[1] = t->elastic.hash;
}

/* ---- launches ---- */

/* Has the launch all it needs? `missing` is acquired: the gradients that callers wrote before they
 * counted it down are visible. With a gate no sharded update may start before it is done. */
static bool may_start(struct tt_trainer *t, const struct tt_launch *x)
{
    if (x->gate)
        return t->nrunning == 0 && atomic_load(&t->stepped);
    if (atomic_load_explicit(&x->missing, memory_order_acquire))
        return false;
    /* Until all ranks have begun this step, the means of the last one are kept (catchup.c). */
    if (t->check != TT_NO_LAUNCH && !x->check && !atomic_load(&t->launches[t->check].done))
        return false;
    if (x->l.needs_launch == TT_NO_LAUNCH)
        return true;
    bool update = x->l.coll == TUTTI_ALL_GATHER && tt_train_sharded(t) && t->gate != TT_NO_LAUNCH;
    return atomic_load(&t->launches[x->l.needs_launch].done) &&
           (!update || atomic_load(&t->launches[t->gate].done));
}

/* Starts launch k, the head of the line. An all-gather of parameters sends what the update wrote,
 * so a shard that is not updated yet is updated first. */
static tutti_status thread_start(struct tt_trainer *t, uint32_t k)
{
    struct tt_launch *x = &t->launches[k];
    assert(k == atomic_load(&t->head) && !atomic_load(&x->done));
    if (x->gate)
        fill_gate(t);
    else if (x->check)
        fill_check(t);
    else if (x->l.coll == TUTTI_ALL_GATHER && tt_train_sharded(t) &&
             !t->buckets[x->l.bucket].updated)
        tt_train_update_held(t, &t->buckets[x->l.bucket], &t->buckets[x->l.bucket].held);
    atomic_store_explicit(&x->start_ns, tt_now_ns(), memory_order_relaxed);
    tutti_status st = tt_comm_request_start(x->request);
    if (st)
        return st;
    assert(t->nrunning < t->options.window && t->options.window <= TT_TRAIN_WINDOW_MAX);
    t->running[t->nrunning++] = k;
    atomic_store(&t->under_way, t->nrunning);
    atomic_store(&t->head, k + 1);
    return TUTTI_OK;
}

/* Effects come before `done`: a waiter that sees it (acquire) sees the update or the norm too. */
static tutti_status thread_finish(struct tt_trainer *t, uint32_t k)
{
    struct tt_launch *x = &t->launches[k];
    struct tutti_error err;
    if (x->check && tt_train_compare(t, t->elastic.cards, &err))
        return tt_train_fail(t, &err);
    assert(!atomic_load(&x->done) && k < atomic_load(&t->head));
    atomic_store_explicit(&x->end_ns, tt_now_ns(), memory_order_relaxed);
    tt_train_trace_launch(t, k);
    if (x->gate)
        tt_train_read_gate(t);
    else if (x->l.coll == TUTTI_REDUCE_SCATTER && tt_train_sharded(t) && t->gate == TT_NO_LAUNCH)
        tt_train_update_held(t, &t->buckets[x->l.bucket], &t->buckets[x->l.bucket].held);
    pthread_mutex_lock(&t->lock);
    t->moved_ns = tt_now_ns();
    atomic_store(&x->done, true);
    pthread_cond_broadcast(&t->news);
    pthread_mutex_unlock(&t->lock);
    return TUTTI_OK;
}

bool tt_train_all_done(struct tt_trainer *t)
{
    bool all = true;
    for (uint32_t k = 0; t->launches && k < t->nlaunches; k++)
        all = all && atomic_load(&t->launches[k].done);
    return all;
}

/* May the next launch in line start? Where a step is resumed (catchup.c), what is done is left
 * out, by all ranks alike. When the last of it is, a caller may begin the next step: the exchange
 * fails then. The first launch is never left out. */
static bool next_may_start(struct tt_trainer *t)
{
    uint32_t head = atomic_load(&t->head);
    while (head > 0 && head < t->nlaunches && atomic_load(&t->launches[head].done))
        if (atomic_compare_exchange_strong(&t->head, &head, head + 1))
            head++;
    return head < t->nlaunches && may_start(t, &t->launches[head]);
}

/* Only the head is ever considered: a later launch that is ready waits, as on every other rank. */
static tutti_status start_all(struct tt_trainer *t, bool *ret_moved)
{
    tutti_status st = TUTTI_OK;
    while (!st && t->nrunning < t->options.window && next_may_start(t)) {
        st = thread_start(t, atomic_load(&t->head));
        *ret_moved = true;
    }
    return st;
}

/* Polls what is under way. Removal keeps the order: running[0] stays the oldest launch. */
static tutti_status test_all(struct tt_trainer *t, bool *ret_moved)
{
    for (uint32_t r = 0; r < t->nrunning;) {
        uint32_t k = t->running[r];
        tutti_status st = tt_comm_request_test(t->launches[k].request);
        if (st < 0)
            return st;
        if (st == TUTTI_IN_PROGRESS) {
            r++;
            continue;
        }
        t->nrunning--;
        for (uint32_t q = r; q < t->nrunning; q++)
            t->running[q] = t->running[q + 1];
        st = thread_finish(t, k);
        atomic_store(&t->under_way, t->nrunning);
        *ret_moved = true;
        if (st)
            return st;
    }
    return TUTTI_OK;
}

/* Fails when a caller has waited, and nothing has moved, for longer than the deadline allows. */
static tutti_status check_deadline(struct tt_trainer *t, uint64_t moved_ns)
{
    pthread_mutex_lock(&t->lock);
    bool over = t->waiters && tt_now_ns() > tt_comm_deadline(t->comm, t->waiting_ns, moved_ns);
    pthread_mutex_unlock(&t->lock);
    return over && t->nrunning ? tt_comm_request_overdue(t->launches[t->running[0]].request)
                               : TUTTI_OK;
}

/* A dropped step is communicated as far as its gradients allow, so that ranks that close together
 * agree on what was sent. */
static bool thread_ended(struct tt_trainer *t)
{
    return atomic_load(&t->closing) &&
           (atomic_load(&t->failed) || (t->nrunning == 0 && !next_may_start(t)));
}

/* The communicator's error, prefixed with what was being communicated. */
static void give_up(struct tt_trainer *t)
{
    struct tutti_error err = *tt_comm_last_error(t->comm);
    const struct tt_launch *x = t->nrunning ? &t->launches[t->running[0]] : NULL;
    if (x && !x->gate && !x->check) {
        const struct tt_policy_bucket *b = &t->policy->buckets[x->l.bucket];
        tt_fail_prefix(&err, "step %llu, %s of %s%s%s", (unsigned long long)t->steps,
                       tt_sched_coll_name(x->l.coll), t->tensors[b->first].v.name,
                       b->last > b->first ? " to " : "",
                       b->last > b->first ? t->tensors[b->last].v.name : "");
    }
    tt_train_fail(t, &err);
}

/* The thread: one round of the communicator, poll, start; sleeps inside the round when idle, until
 * the network or the bell wakes it. */
static void *thread_work(void *arg)
{
    struct tt_trainer *t = arg;
    struct tt_waiting w;
    tutti_status st = TUTTI_OK;
    pthread_setname_np(pthread_self(), "tutti-train");
    tt_comm_thread_begin();
    tt_comm_waiting_begin(t->comm, t->bell, &w);
    while (!st && !thread_ended(t)) {
        bool moved = false;
        st = tt_comm_round(t->comm, &w);
        if (!st)
            st = test_all(t, &moved);
        if (!st)
            st = start_all(t, &moved);
        if (moved)
            w.since_ns = w.idle = 0;
        else if (!st && w.since_ns)
            st = check_deadline(t, w.since_ns);
    }
    tt_comm_waiting_end(t->comm, &w);
    if (st)
        give_up(t);
    return NULL;
}

tutti_status tt_train_thread_start(struct tt_trainer *t, struct tutti_error *err)
{
    sigset_t all, before; /* signals are for the program's own threads */
    t->bell = tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (t->bell < 0)
        return tt_fail(err, TUTTI_ERR_IO, "no event descriptor for the trainer's thread");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->thread_made = pthread_create(&t->thread, NULL, thread_work, t) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return t->thread_made ? TUTTI_OK
                          : tt_fail(err, TUTTI_ERR_IO, "the trainer's thread cannot be started");
}

void tt_train_thread_end(struct tt_trainer *t)
{
    if (t->thread_made) {
        /* Counts as a waiter, so that what is under way gets the deadline of any wait. */
        pthread_mutex_lock(&t->lock);
        t->waiters++;
        t->waiting_ns = tt_now_ns();
        pthread_mutex_unlock(&t->lock);
        atomic_store(&t->closing, true);
        tt_train_ring(t);
        pthread_join(t->thread, NULL);
        t->thread_made = false;
        t->waiters--;
        t->nrunning = 0;
        atomic_store(&t->under_way, 0);
        atomic_store(&t->closing, false);
    }
    if (t->bell >= 0)
        tt_fd_close(t->bell);
    t->bell = -1;
}

/* Sleeps for news, at most until this rank's own deadline. While requests are under way the thread
 * watches their deadline, and the sleep is only prolonged by a second at a time. Holds `lock`. */
static tutti_status sleep_on(struct tt_trainer *t, uint64_t since)
{
    uint64_t now = tt_now_ns(), end = tt_comm_deadline(t->comm, since, t->moved_ns);
    if (now >= end && atomic_load(&t->under_way) == 0)
        return TUTTI_ERR_TIMEOUT;
    end = now >= end ? now + 1000000000 : end;
    struct timespec ts = {(time_t)(end / 1000000000), (long)(end % 1000000000)};
    pthread_cond_timedwait(&t->news, &t->lock, &ts);
    return TUTTI_OK;
}

tutti_status tt_train_await(struct tt_trainer *t, uint32_t launch)
{
    const struct tt_launch *x = &t->launches[launch];
    assert(launch < t->nlaunches);
    /* Acquire pairs with the store in thread_finish: what the launch brought is visible. */
    if (atomic_load_explicit(&x->done, memory_order_acquire))
        return TUTTI_OK;
    pthread_mutex_lock(&t->lock);
    if (t->waiters++ == 0)
        t->waiting_ns = tt_now_ns();
    uint64_t since = tt_now_ns();
    tutti_status st = TUTTI_OK;
    while (!st && !atomic_load(&x->done) && !atomic_load(&t->failed))
        st = sleep_on(t, since);
    assert(t->waiters > 0);
    t->waiters--;
    if (atomic_load(&t->failed))
        st = t->error.status;
    pthread_mutex_unlock(&t->lock);
    tt_train_trace_wait(t, launch, since);
    /* The launch never started: this rank never handed over what it needs. */
    return st == TUTTI_ERR_TIMEOUT
               ? tt_train_blame(t, "launch %u has not begun within the deadline", launch)
               : st;
}
