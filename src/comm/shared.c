/* shared.c - the one lock of the communicators that share transport and engine, and which threads
 * are woken.
 *
 * A communicator and its twins have one engine, which one thread at a time uses. A thread that
 * polls it makes progress for all of them, so a sleeping thread may find its request done by
 * another one:
 *
 *     trainer's thread   start |...sleeps....................| test: done
 *     a caller's thread         call | poll, poll: both done | unlock: wakes the other
 *
 * The lock does not belong to one communicator, so a collective call must not keep it until it
 * ends: another rank may be in its trainer first. The call lets other threads have the lock and
 * sleeps without it, but no other call on its communicator may begin meanwhile. A communicator
 * without twins keeps the lock: only other calls on it, and its helper, could want it.
 *
 * Invariant: a sleeper announces that it sleeps, then checks whether anything was finished since
 * its last poll (`told`); a thread that has finished something publishes `told`, then checks for
 * sleepers. All four accesses are sequentially consistent, so at least one of the two sees the
 * other and no wake-up is lost. */
#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "comm/comm_int.h"

struct tt_shared *tt_comm_shared_make(void)
{
    struct tt_shared *s = tt_zalloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->users = 1;
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->turn, NULL);
    pthread_mutex_init(&s->news_lock, NULL);
    pthread_cond_init(&s->news, NULL);
    return s;
}

void tt_comm_shared_free(struct tt_shared *s)
{
    if (!s)
        return;
    assert(s->nbells <= TT_BELLS && !s->sleepers && !s->joiners);
    while (s->nbells)
        tt_fd_close(s->bells[--s->nbells]);
    pthread_cond_destroy(&s->news);
    pthread_mutex_destroy(&s->news_lock);
    pthread_cond_destroy(&s->turn);
    pthread_mutex_destroy(&s->lock);
    free(s);
}

bool tt_comm_has_twin(struct tt_comm *c)
{
    tt_comm_enter(c);
    bool twin = c->shared->users > 1;
    tt_comm_unlock(c);
    return twin;
}

/* ---- the lock ---- */

/* `wanted` counts waiters only when the lock is not free, so the fast path has no shared write but
 * the mutex. */
TT_HOT void tt_comm_enter(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    if (pthread_mutex_trylock(&s->lock) == 0)
        return;
    atomic_fetch_add(&s->wanted, 1);
    pthread_mutex_lock(&s->lock);
    atomic_fetch_sub(&s->wanted, 1);
}

/* A mutex alone would let the thread that has just released it take it again and again. */
void tt_comm_enter_last(struct tt_comm *c)
{
    while (atomic_load(&c->shared->wanted))
        sched_yield();
    pthread_mutex_lock(&c->shared->lock);
}

bool tt_comm_enter_now(struct tt_comm *c)
{
    return pthread_mutex_trylock(&c->shared->lock) == 0;
}

TT_HOT void tt_comm_lock(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    tt_comm_enter(c);
    while (c->calling) {
        s->queued++;
        pthread_cond_wait(&s->turn, &s->lock);
        s->queued--;
    }
}

/* Wakes sleepers for what was finished under the lock, and calls that queue for their turn. */
TT_HOT void tt_comm_unlock(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    if (s->sleepers)
        tt_comm_sleepers_tell(c);
    if (s->queued && !c->calling)
        pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

/* `calling` keeps other calls out (tt_comm_lock) while the lock is free. */
void tt_comm_apart_begin(struct tt_comm *c, bool collective)
{
    c->calling = c->calling || collective;
    tt_comm_unlock(c);
}

void tt_comm_apart_end(struct tt_comm *c, bool collective)
{
    tt_comm_enter(c);
    c->calling = c->calling && !collective;
}

void tt_comm_give_way(struct tt_comm *c, bool collective)
{
    /* Relaxed: a missed waiter is noticed in the next round. */
    if (!atomic_load_explicit(&c->shared->wanted, memory_order_relaxed))
        return;
    tt_comm_apart_begin(c, collective);
    while (atomic_load(&c->shared->wanted))
        sched_yield();
    tt_comm_apart_end(c, collective);
}

/* ---- which threads are woken ---- */

void tt_comm_sleepers_add(struct tt_comm *c, struct tt_waiting *w)
{
    assert(tt_comm_locked(c) && w != c->shared->sleepers);
    w->next = c->shared->sleepers;
    c->shared->sleepers = w;
}

void tt_comm_sleepers_remove(struct tt_comm *c, struct tt_waiting *w)
{
    struct tt_waiting **at = &c->shared->sleepers;
    while (*at != w)
        at = &(*at)->next;
    assert(tt_comm_locked(c));
    *at = w->next;
}

/* Bells are kept for reuse, because a call may sleep often. */
int tt_comm_bell_take(struct tt_shared *s)
{
    assert(s->nbells <= TT_BELLS);
    return s->nbells ? s->bells[--s->nbells] : tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void tt_comm_bell_give(struct tt_shared *s, int bell)
{
    if (bell >= 0 && s->nbells < TT_BELLS)
        s->bells[s->nbells++] = bell;
    else if (bell >= 0)
        tt_fd_close(bell);
}

/* Without twins the helper learns from its descriptor what arrives. In shared memory, though, what
 * a caller has finished may be what the next operation in the queue, which is the helper's, was
 * waiting for. */
void tt_comm_sleepers_tell(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    uint64_t finished = tt_exec_engine_finished(c->engine);
    if (finished == atomic_load_explicit(&s->told, memory_order_relaxed))
        return;
    /* news_lock: a joiner that has compared `told` but does not wait yet must not miss the
     * broadcast. */
    pthread_mutex_lock(&s->news_lock);
    atomic_store(&s->told, finished);
    if (s->joiners)
        pthread_cond_broadcast(&s->news);
    pthread_mutex_unlock(&s->news_lock);
    for (struct tt_waiting *w = s->sleepers; w && (s->users > 1 || c->wire.one_host); w = w->next)
        if (w->working)
            tt_comm_waiting_wake(c, w);
}

uint64_t tt_comm_news_told(struct tt_comm *c)
{
    return atomic_load(&c->shared->told);
}

void tt_comm_news_await(struct tt_comm *c, uint64_t seen, uint64_t until_ns)
{
    struct tt_shared *s = c->shared;
    struct timespec t = {(time_t)(until_ns / 1000000000), (long)(until_ns % 1000000000)};
    int late = 0;
    pthread_mutex_lock(&s->news_lock);
    s->joiners++;
    while (atomic_load(&s->told) == seen && !late)
        late = pthread_cond_clockwait(&s->news, &s->news_lock, CLOCK_MONOTONIC, &t);
    s->joiners--;
    pthread_mutex_unlock(&s->news_lock);
}
