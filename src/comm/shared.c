/* shared.c - the one lock of the communicators that share wires and engine, and who is woken.
 *
 * A communicator and its twins have one engine, which one thread at a time uses. Whoever looks at
 * it does what has become possible for all of them, so that a thread which sleeps may find its
 * request done by another one:
 *
 *     trainer's thread   start |...sleeps....................| test: done
 *     a caller's thread         call | look, look: both done | unlock: wakes the other
 *
 * The lock is not a communicator's own any more, so that a collective call cannot keep it until it
 * ends: another rank may be in its trainer first. It leaves the lock to whoever wants it, and
 * sleeps without it, but no other call on its communicator begins meanwhile. A communicator without
 * twins keeps the lock: nobody could want it but other calls on it, and its helper.
 *
 * Invariant: a sleeper says that it sleeps, then looks whether anything was finished since its last
 * look (`told`); whoever has finished something says so, then looks who sleeps. */
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

void tt_comm_enter(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    if (pthread_mutex_trylock(&s->lock) == 0)
        return;
    atomic_fetch_add(&s->wanted, 1);
    pthread_mutex_lock(&s->lock);
    atomic_fetch_sub(&s->wanted, 1);
}

/* A mutex alone would let the thread that has just given it back take it again and again. */
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

void tt_comm_lock(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    tt_comm_enter(c);
    while (c->calling) {
        s->queued++;
        pthread_cond_wait(&s->turn, &s->lock);
        s->queued--;
    }
}

void tt_comm_unlock(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    if (s->sleepers)
        tt_comm_sleepers_tell(c);
    if (s->queued && !c->calling)
        pthread_cond_broadcast(&s->turn);
    pthread_mutex_unlock(&s->lock);
}

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
    if (!atomic_load_explicit(&c->shared->wanted, memory_order_relaxed))
        return;
    tt_comm_apart_begin(c, collective);
    while (atomic_load(&c->shared->wanted))
        sched_yield();
    tt_comm_apart_end(c, collective);
}

/* ---- who is woken ---- */

void tt_comm_sleepers_add(struct tt_comm *c, struct tt_waiting *w)
{
    w->next = c->shared->sleepers;
    c->shared->sleepers = w;
}

void tt_comm_sleepers_remove(struct tt_comm *c, struct tt_waiting *w)
{
    struct tt_waiting **at = &c->shared->sleepers;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
}

int tt_comm_bell_take(struct tt_shared *s)
{
    return s->nbells ? s->bells[--s->nbells] : tt_fd_own(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
}

void tt_comm_bell_give(struct tt_shared *s, int bell)
{
    if (bell >= 0 && s->nbells < TT_BELLS)
        s->bells[s->nbells++] = bell;
    else if (bell >= 0)
        tt_fd_close(bell);
}

/* Without twins the helper hears of what comes through a descriptor. In shared memory what a caller
 * has finished may have been what the next operation in the queue, which is the helper's, waited
 * for. */
void tt_comm_sleepers_tell(struct tt_comm *c)
{
    struct tt_shared *s = c->shared;
    uint64_t finished = tt_exec_engine_finished(c->engine);
    if (finished == atomic_load_explicit(&s->told, memory_order_relaxed))
        return;
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
