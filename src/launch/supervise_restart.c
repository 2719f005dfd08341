/* supervise_restart.c - ranks that failed and are started again (`--restarts`). Each time the pause
 * before it doubles, up to half a minute, so that a rank that cannot live does not take the
 * machine. Nothing is started once the job is about to end. */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli/cli.h"
#include "launch/supervise_int.h"

uint64_t launch_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static const uint64_t pause_ns = SECOND / 10, longest_pause_ns = 30 * SECOND;

/* A rank that cannot be started again stays lost. */
static void start_again(struct sup *s, uint32_t r)
{
    struct sup_live *l = &s->live[r], next;
    assert(l->ended && l->lost && s->left < s->job->size);
    struct sup_trouble t;
    l->restart_ns = 0;
    if (!launch_start_again(s->job, r, &s->screen, &next, &t)) {
        fprintf(stderr, "tutti %s: rank %u cannot be started again: %s: %s\n", s->job->name, r,
                t.what, strerror(t.why));
        return;
    }
    next.restarts = l->restarts + 1;
    *l = next;
    s->left++;
}

uint64_t launch_restart_due(struct sup *s, uint64_t now)
{
    uint64_t due = 0;
    for (uint32_t r = 0; r < s->job->size; r++) {
        struct sup_live *l = &s->live[r];
        if (!l->restart_ns || s->phase >= STOPPING || s->stopped_by || !s->left)
            continue;
        if (now >= l->restart_ns)
            start_again(s, r);
        else
            due = !due || l->restart_ns < due ? l->restart_ns : due;
    }
    return due;
}

void launch_plan_restart(struct sup *s, uint32_t r)
{
    struct sup_live *l = &s->live[r];
    const struct sup_job *job = s->job;
    uint64_t wait = pause_ns << (l->restarts < 9 ? l->restarts : 9);
    wait = wait < longest_pause_ns ? wait : longest_pause_ns;
    if (job->restarts && job->ranks[r].remote)
        fprintf(stderr, "; ranks on other hosts are not started again");
    else if (job->restarts && l->restarts >= job->restarts)
        fprintf(stderr, "; it is not started again after %u restart%s", l->restarts,
                cli_s(l->restarts));
    else if (job->restarts) {
        l->restart_ns = launch_now_ns() + wait;
        fprintf(stderr, "; it is started again in %.3g s (restart %u of %u)",
                (double)wait / (double)SECOND, l->restarts + 1, job->restarts);
    }
    fputc('\n', stderr);
}
