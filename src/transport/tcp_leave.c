/* tcp_leave.c - the end of a transport whose peers have not come to theirs.
 *
 * What was sent may still be in a queue here or in the kernel, and peers may still send us words
 * that nobody needs any more. A socket that is closed answers those with a reset, which throws away
 * what its peer has not got yet. So each socket sends the rest, says that nothing more comes
 * (shutdown), and drops what it reads until the peer says the same; then it is closed. One thread
 * does that for all transports of the process, and ends when none is left. It sleeps between looks:
 * nobody waits for it but peers whose data did not fit in the kernel. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <time.h>

#include "transport/tcp.h"

enum { NAP_MIN = 1000000, NAP_MAX = 128000000 }; /* ns */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct tt_tcp *leaving; /* the first of them; under the lock, like the next two */
static bool running;
static _Atomic uint32_t generation; /* of the process that they belong to; 0: none so far */

static void hang_up(struct tt_tcp_sock *s)
{
    tt_tcp_tx_drop(s);
    tt_fd_close(s->fd);
    s->fd = -1;
}

/* One look at a socket; true when something moved. */
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

/* True when all its sockets are closed. */
static bool serve_all(struct tt_tcp *t, bool *moved)
{
    bool ended = true;
    for (uint32_t i = 0; i < t->nsock; i++) {
        *moved = tcp_leave_serve(t->sock[i]) || *moved;
        ended = ended && t->sock[i]->fd < 0;
    }
    return ended;
}

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

/* The lock is held. Signals are the program's business. */
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

/* What a forked child finds here is its parent's, and so is the thread. */
static void disown(void)
{
    uint32_t mine = tt_fork_generation(), was = atomic_exchange(&generation, mine);
    if (!was || was == mine)
        return;
    lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    leaving = NULL;
    running = false;
}

void tt_tcp_leave(struct tt_transport *base)
{
    struct tt_tcp *t = (struct tt_tcp *)base;
    bool moved = false;
    disown();
    if (t->source.close)
        /* it may not outlive this call, and no connection is made any more */
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
