/* waiting.c - a line that counts seconds on a terminal while something runs that cannot say how far
 * it is, or only in large steps (the candidates of planning, the tables of an experiment): then
 * with an estimate. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    pthread_t thread;
    const char *what;
    bool running, over;
    _Atomic double done;         /* fraction; 0: not known */
    _Atomic(const char *) which; /* of what; may be NULL */
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

static void waiting_say(unsigned seconds)
{
    char left[48];
    double done = atomic_load(&waiting.done);
    const char *which = atomic_load(&waiting.which), *of = which ? ": " : "";
    which = which ? which : "";
    if (done > 0 && done <= 1)
        fprintf(stderr, "\r%s%s%s, %.0f%%, %u s, %-30s", waiting.what, of, which, 100 * done,
                seconds, cli_time_left(seconds, done, left, sizeof left));
    else
        fprintf(stderr, "\r%s%s%s, %u s%-30s", waiting.what, of, which, seconds, "");
}

/* Says something every second until the work is over; a second's work says nothing. */
static void *waiting_count(void *unused)
{
    (void)unused;
    struct timespec at;
    unsigned seconds = 0;
    clock_gettime(CLOCK_REALTIME, &at);
    pthread_mutex_lock(&waiting.lock);
    while (!waiting.over) {
        at.tv_sec++;
        while (!waiting.over && !pthread_cond_timedwait(&waiting.ended, &waiting.lock, &at)) {
        }
        if (!waiting.over)
            waiting_say(++seconds);
    }
    if (seconds)
        fprintf(stderr, "\r%79s\r", "");
    pthread_mutex_unlock(&waiting.lock);
    return NULL;
}

void cli_wait_begin(const char *what)
{
    if (!isatty(STDERR_FILENO))
        return;
    waiting.what = what;
    waiting.over = false;
    atomic_store(&waiting.done, 0);
    atomic_store(&waiting.which, NULL);
    waiting.running = !pthread_create(&waiting.thread, NULL, waiting_count, NULL);
}

void cli_wait_done(double fraction)
{
    atomic_store(&waiting.done, fraction);
}

void cli_wait_end(void)
{
    if (!waiting.running)
        return;
    pthread_mutex_lock(&waiting.lock);
    waiting.over = true;
    pthread_cond_signal(&waiting.ended);
    pthread_mutex_unlock(&waiting.lock);
    pthread_join(waiting.thread, NULL);
    waiting.running = false;
}

/* Names are those of the algorithm table, which lives as long as the program. */
static void next_candidate(void *unused, const char *algo, double done)
{
    (void)unused;
    atomic_store(&waiting.which, algo);
    atomic_store(&waiting.done, done);
}

tutti_status cli_plan_make(const struct tutti_topo *t, const struct tutti_plan_options *o,
                           struct tutti_plan **ret, struct tutti_error *err)
{
    cli_wait_begin("planning");
    tutti_plan_watched(next_candidate, NULL);
    tutti_status st = tutti_plan_make(t, o, ret, err);
    tutti_plan_watched(NULL, NULL);
    cli_wait_end();
    return st;
}
