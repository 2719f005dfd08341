/* tcp_leave.c - closes a transport whose peers are not done with it, without waiting for them.
 *
 * What was sent may still be in a queue here or in the kernel, and peers may still send messages
 * that nobody needs any more. A closed socket answers those with a reset, which throws away what
 * its peer has not received yet. So each socket goes through this:
 *
 *     send the rest -> shutdown(SHUT_WR) -> read and drop until the peer's end -> close
 *
 * One thread does that for all transports of the process, and ends when none is left. It sleeps
 * between passes, 1 to 128 ms: only peers whose data did not fit in the kernel wait for it.
 *
 * Threads: a transport belongs to its caller until tt_tcp_leave, then to the thread. `lock` guards
 * the list and `running`; the thread holds it during a pass. */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "transport/tcp.h"

enum { NAP_MIN = 1000000, NAP_MAX = 128000000 }; /* ns between two passes */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_tcp *leaving; /* list of transports; under the lock, like `running` */
static bool running;           /* the thread exists and will look at the list again */
/* The process (tt_fork_generation) that list and thread belong to; 0: none so far. */
static _Atomic uint32_t generation;

/* Both sides have ended, or the connection is broken. */
static void hang_up(struct tt_tcp_sock *s)
{
    assert(s->fd >= 0);
    tt_tcp_tx_drop(s);
    tt_fd_close(s->fd);
    s->fd = -1;
}

/* One pass over a socket; true: something moved. MSG_TRUNC drops bytes without copying them. */
static bool tcp_leave_serve(struct tt_tcp_sock *s)
{
    size_t before = s->tx.bytes;
    ssize_t got;
    if (s->fd < 0)
        return false;
    tt_tcp_tx_flush(s);
    bool moved = s->tx.bytes != before;
    if (!s->tx.bytes && !s->said) {
        shutdown(s->fd, SHUT_WR);
        s->said = moved = true;
    }
    do {
        got = recv(s->fd, NULL, 1 << 20, MSG_TRUNC | MSG_DONTWAIT);
        moved = moved || got > 0;
    } while (got > 0 || (got < 0 && errno == EINTR));
    if (got < 0 ? errno != EAGAIN && errno != EWOULDBLOCK : s->said)
        hang_up(s);
    return moved;
}

/* True: all sockets of the transport are closed. */
static bool serve_all(struct tt_tcp *t, bool *moved)
{
    bool ended = true;
    for (uint32_t i = 0; i < t->nsock; i++) {
        *moved = tcp_leave_serve(t->sock[i]) || *moved;
        ended = ended && t->sock[i]->fd < 0;
    }
    return ended;
}

/* One pass over the list, under the lock. Transports that are done are freed. */
static bool serve_list(void)
{
    bool moved = false;
    for (struct tt_tcp **at = &leaving; *at;) {
        struct tt_tcp *t = *at;
        if (!serve_all(t, &moved)) {
            at = &t->next;
            continue;
        }
        *at = t->next;
        t->base.ops->close(&t->base);
    }
    return moved;
}

/* The thread. It sets `running` to false under the same lock under which it found the list empty,
 * so that a transport that is added later starts a new thread. */
static void *tcp_leave_work(void *unused)
{
    uint64_t nap = NAP_MIN;
    (void)unused;
    pthread_setname_np(pthread_self(), "tutti-leave");
    pthread_mutex_lock(&lock);
    while (leaving) {
        bool moved = serve_list();
        pthread_mutex_unlock(&lock);
        nap = moved ? NAP_MIN : nap < NAP_MAX ? 2 * nap : nap;
        nanosleep(&(struct timespec){.tv_nsec = (long)nap}, NULL);
        pthread_mutex_lock(&lock);
    }
    running = false;
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* Makes sure that the thread runs; the lock is held. All signals are blocked in it: they are for
 * the program's own threads. False: no thread could be made. */
static bool tcp_leave_start(void)
{
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (!running && pthread_create(&thread, NULL, tcp_leave_work, NULL) == 0)
        running = pthread_detach(thread) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return running;
}

/* In a forked child the list and the thread are the parent's, and the lock may be held by a thread
 * that does not exist here: everything starts anew. */
static void disown(void)
{
    uint32_t mine = tt_fork_generation(), was = atomic_exchange(&generation, mine);
    if (!was || was == mine)
        return;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    leaving = NULL;
    running = false;
}

/* One pass is made by the caller: if that closes everything no thread is needed. Without a thread
 * the transport is closed at once, as tcp_close does. */
void tt_tcp_leave(struct tt_transport *base)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    bool moved = false;
    disown();
    if (t->source.close)
        /* the source must not be used after this call, and no more connections are made */
        t->source.close(t->source.ctx);
    t->source.close = NULL;
    if (serve_all(t, &moved)) {
        base->ops->close(base);
        return;
    }
    pthread_mutex_lock(&lock);
    bool kept = tcp_leave_start();
    if (kept) {
        t->next = leaving;
        leaving = t;
    }
    pthread_mutex_unlock(&lock);
    if (!kept)
        base->ops->close(base);
}
