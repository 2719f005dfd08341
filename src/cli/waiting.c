/* waiting.c - a line on a terminal that counts seconds while something runs that cannot report its
 * progress, or only in large steps (the candidates of planning, the tables of an experiment); in
 * that case with an estimate of the rest.
 *
 * Threads: the caller works, a second thread prints. `lock` protects `over` and serves the
 * condition variable; `done` and `which` are atomics that the working thread sets without the
 * lock, at the next second they are printed. `what`, `running` and `thread` belong to the
 * caller, which sets them before the thread starts and after it has ended. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"

/* One line at a time: the state is the process's. */
static struct {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    pthread_t thread;
    const char *what;
    bool running, over;
    _Atomic double done; /* fraction; 0: not known */
    /* the candidate at work, or NULL; a string that lives as long as the program */
    _Atomic(const char *) which;
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER};

/* Prints the line over the one before. Runs in the printing thread. */
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

/* The printing thread: a line every second until the work is over. Work of less than a second
 * prints nothing. */
static void *waiting_count(void *unused)
{
    (void)unused;
    struct timespec at;
    unsigned seconds = 0;
    /* Conditions wait by CLOCK_REALTIME unless told otherwise. */
    clock_gettime(CLOCK_REALTIME, &at);
    pthread_mutex_lock(&waiting.lock);
    while (!waiting.over) {
        at.tv_sec++;
        /* 0 without `over` is a spurious wake-up: wait on until the same time. */
        while (!waiting.over && !pthread_cond_timedwait(&waiting.ended, &waiting.lock, &at)) {
        }
        if (!waiting.over)
            waiting_say(++seconds);
    }
    /* Erase the line. */
    if (seconds)
        fprintf(stderr, "\r%79s\r", "");
    pthread_mutex_unlock(&waiting.lock);
    return NULL;
}

void cli_wait_begin(const char *what)
{
    /* No terminal: `running` stays false and cli_wait_end does nothing. */
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

/* Returns when the thread has ended: the terminal is free again. */
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

/* Called by the planner before each candidate, in the thread that plans. The names are those of
 * the algorithm table, which lives as long as the program. */
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
