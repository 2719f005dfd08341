/* supervise.c - the life of a job, as phases with a time at which the next one begins:
 *
 *     RUNNING --a rank fails--> SETTLING --0.1 s--> GRACE --timeout + 1 s--> ENDING
 *      | | |                  (which was first?) (named; the others        (SIGTERM)
 *      | | |                                      may report)                  ^ |
 *      | | '--only stopped ranks are left, the ranks                           | '--2 s--> KILLING
 *      | |    blame one of them----> AWAITING --timeout + 1 s------------------'         (SIGKILL)
 *      | '--SIGTERM came--> STOPPING --timeout + 1 s--> KILLING --5 s--> (over)
 *      '--all ended--> RESTING --2 s--> (over)
 *             (what ranks left in their groups, output still in pipes)
 *
 * From every phase the end of the last rank leads to RESTING; from AWAITING a rank that goes on
 * leads back to RUNNING.
 *
 * Which rank is named: a rank that is killed takes its peers with it within microseconds (their
 * connections break and they exit with errors of their own), and the kernel does not tell in which
 * order children ended; hence SETTLING: of those that ended within a moment, one that was killed is
 * named before one that exited. A rank that raises an exception often ends after those that notice
 * it: when ranks have noted which rank is to blame, that one is named, and waited for a second.
 *
 * One thread and one loop: it waits for signals (signalfd), output and the time. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/supervise_int.h"

static const uint64_t settle_ns = SECOND / 10, blame_ns = SECOND, end_ns = 2 * SECOND,
                      kill_ns = 5 * SECOND, rest_ns = 2 * SECOND;
/* Signals of one kind within this time are one: timeout(1) sends its signal to us and then to our
 * group. A user who presses Ctrl-C twice takes longer. */
static const uint64_t one_term_ns = SECOND, one_interrupt_ns = SECOND / 20;

static void enter_phase(struct sup *s, enum phase phase, uint64_t due_ns)
{
    assert(phase >= s->phase || (phase == RUNNING && s->phase == AWAITING));
    s->phase = phase;
    s->due_ns = due_ns;
}

/* Starts the countdown for a rank that hangs, or ends it when the rank has gone on. */
static void weigh_hanging(struct sup *s)
{
    if (s->phase > AWAITING)
        return;
    bool hangs = launch_find_hanging(s).rank < s->job->size;
    if (hangs && s->phase == RUNNING)
        enter_phase(s, AWAITING, launch_now_ns() + s->job->timeout_ns + SUP_REPORT_NS);
    else if (!hangs && s->phase == AWAITING)
        enter_phase(s, RUNNING, 0);
}

/* Sends a signal that ends ranks, to them and all that they started. */
static void end_all(struct sup *s, int sig)
{
    for (uint32_t r = 0; r < s->job->size; r++) {
        s->live[r].told = s->live[r].told || !s->live[r].ended;
        launch_signal(&s->live[r], sig, true);
    }
}

/* SIGKILL to our own children only. The other side of an ssh learns it from the end of its
 * input. */
static void drop_all(struct sup *s)
{
    s->dropped = true;
    for (uint32_t r = 0; r < s->job->size; r++)
        if (s->live[r].pid && !s->live[r].ended)
            kill(s->live[r].own_group ? -s->live[r].pid : s->live[r].pid, SIGKILL);
}

/* Forwards a signal to all ranks. A rank in our own group has got the terminal's signals
 * (SI_KERNEL) already. */
static void supervise_forward(struct sup *s, const struct signalfd_siginfo *info)
{
    int sig = (int)info->ssi_signo;
    for (uint32_t r = 0; r < s->job->size; r++)
        if (s->live[r].own_group || info->ssi_code != SI_KERNEL)
            launch_signal(&s->live[r], sig, sig == SIGINT || sig == SIGTSTP || sig == SIGCONT);
}

/* The user insists: kill now. */
static void kill_all(struct sup *s)
{
    end_all(s, SIGKILL);
    if (s->phase < KILLING)
        enter_phase(s, KILLING, launch_now_ns() + kill_ns);
    else if (s->phase == RESTING)
        s->phase = OVER;
}

/* A second SIGINT or SIGTERM kills, unless it belongs to the first, which is forwarded. The first
 * ending signal is remembered as the reason, unless a rank had failed before it. */
static void take_signal(struct sup *s, const struct signalfd_siginfo *info)
{
    int sig = (int)info->ssi_signo;
    if (sig == SIGINT || sig == SIGQUIT || sig == SIGTERM || sig == SIGHUP)
        s->stopped_by = s->culprit == s->job->size && !s->stopped_by ? sig : s->stopped_by;
    uint64_t now = launch_now_ns(), one_ns = sig == SIGINT ? one_interrupt_ns : one_term_ns;
    uint64_t *first_ns = sig == SIGINT    ? &s->interrupted_ns
                         : sig == SIGTERM ? &s->terminated_ns
                                          : NULL;
    bool again = first_ns && *first_ns;
    if (again && now - *first_ns < one_ns)
        return;
    if (first_ns && !again)
        *first_ns = now;
    if (again || (sig == SIGINT && s->phase == RESTING)) {
        kill_all(s);
        return;
    }
    supervise_forward(s, info);
    if (sig == SIGTERM && s->phase < STOPPING)
        enter_phase(s, STOPPING, now + s->job->timeout_ns + SUP_REPORT_NS);
    if (sig == SIGTSTP)
        raise(SIGSTOP); /* SIGCONT, which wakes us, is forwarded in its turn */
}

/* Notes the end of a rank. A pid that is no rank's is an orphan of one (we are the subreaper)
 * and needs nothing more. */
static void supervise_bury(struct sup *s, pid_t pid, int status)
{
    for (uint32_t r = 0; r < s->job->size; r++) {
        struct sup_live *l = &s->live[r];
        if (l->pid != pid || l->ended)
            continue;
        l->ended = true;
        l->status = status;
        l->turn = s->turns;
        assert(s->left > 0 && s->left <= s->job->size);
        s->left--;
        /* A rank that was killed could not clean up after itself. */
        if (WIFSIGNALED(status))
            launch_signal_rest(l, SIGKILL);
        l->lost = status != 0 && s->phase < STOPPING && !s->stopped_by && s->job->least &&
                  launch_count_well(s) >= s->job->least;
        if (l->lost) {
            launch_say_end(s, r);
            fprintf(stderr, "; the others may go on: %u of at least %u", launch_count_well(s),
                    s->job->least);
            launch_plan_restart(s, r);
        }
        if (launch_rank_failed(l) && s->phase < SETTLING) {
            s->failed_ns = launch_now_ns();
            enter_phase(s, SETTLING, s->failed_ns + settle_ns);
        }
    }
}

/* SIGCHLD comes also when a rank stops or goes on. */
static void reap(struct sup *s)
{
    int status;
    pid_t pid;
    s->turns++;
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
        supervise_bury(s, pid, status);
    weigh_hanging(s);
}

static void serve_signals(struct sup *s)
{
    struct signalfd_siginfo info;
    while (read(s->signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGCHLD)
            reap(s);
        else
            take_signal(s, &info);
    }
}

/* Signals what is left in the ranks' groups (0: only looks); true when nothing is. */
static bool groups_empty(const struct sup *s, int sig)
{
    bool empty = true;
    for (uint32_t r = 0; r < s->job->size; r++)
        empty = !launch_signal_rest(&s->live[r], sig) && empty;
    return empty;
}

static void ask_to_end(struct sup *s, uint64_t now)
{
    s->ended_by_us = true;
    end_all(s, SIGTERM);
    enter_phase(s, ENDING, now + end_ns);
}

/* The rank that kept up the job is named and ended, unless it goes on. */
static void end_hanging(struct sup *s, uint64_t now)
{
    struct sup_blame hanging = launch_find_hanging(s);
    if (hanging.rank == s->job->size) {
        enter_phase(s, RUNNING, 0);
        return;
    }
    launch_name_hanging(s, &hanging);
    ask_to_end(s, now);
}

/* A blamed rank that still runs gets a second to fail by itself. */
static void end_settling(struct sup *s, uint64_t now)
{
    if (now < s->failed_ns + blame_ns && launch_awaits_blamed(s)) {
        s->due_ns = now + settle_ns;
        return;
    }
    launch_name_culprit(s);
    enter_phase(s, GRACE, s->failed_ns + s->job->timeout_ns + SUP_REPORT_NS);
}

/* The time of the present phase is over. */
static void next_phase(struct sup *s, uint64_t now)
{
    assert(s->due_ns && s->due_ns <= now);
    switch (s->phase) {
    case AWAITING:
        end_hanging(s, now);
        break;
    case STOPPING:
        s->ended_by_us = true;
        end_all(s, SIGKILL);
        enter_phase(s, KILLING, now + kill_ns);
        break;
    case SETTLING:
        end_settling(s, now);
        break;
    case GRACE:
        ask_to_end(s, now);
        break;
    case ENDING:
        end_all(s, SIGKILL);
        enter_phase(s, KILLING, now + kill_ns);
        break;
    /* an ssh whose other side does not answer is killed here, once; after that nothing helps */
    case KILLING:
        if (s->dropped)
            enter_phase(s, OVER, 0);
        else
            enter_phase(s, KILLING, now + kill_ns);
        drop_all(s);
        break;
    case RESTING: /* output that has arrived is still shown, however slow its reader is */
        groups_empty(s, SIGKILL);
        launch_screen_cut(&s->screen);
        s->due_ns = s->rested ? 0 : now + SECOND;
        s->rested = true;
        break;
    case RUNNING:
    case OVER:
        break;
    }
}

/* Invariant on return: either the phase is OVER, or due_ns or an event will change it. */
static void supervise_advance(struct sup *s)
{
    uint64_t now = launch_now_ns();
    if (s->left == 0 && s->phase < RESTING) {
        if (s->phase >= SETTLING && s->culprit == s->job->size)
            launch_name_culprit(s);
        else if (s->phase < SETTLING)
            launch_name_unheard(s);
        enter_phase(s, RESTING, now + rest_ns);
    }
    if (s->due_ns && now >= s->due_ns)
        next_phase(s, now);
    if (s->phase == RESTING && launch_screen_idle(&s->screen) && (!s->due_ns || groups_empty(s, 0)))
        enter_phase(s, OVER, 0);
}

/* Milliseconds until due_ns or the next restart for poll, rounded up so that it does not return
 * early. */
static int wait_ms(struct sup *s)
{
    uint64_t now = launch_now_ns(), restart = launch_restart_due(s, now), due = s->due_ns;
    due = restart && (!due || restart < due) ? restart : due;
    if (!due)
        return -1;
    if (due <= now)
        return 0;
    uint64_t ms = (due - now + 999999) / 1000000;
    return ms < 60000 ? (int)ms : 60000;
}

static void watch(struct sup *s)
{
    while (supervise_advance(s), s->phase != OVER) {
        size_t n = launch_screen_poll(&s->screen, s->fds + 1);
        s->fds[0] = (struct pollfd){.fd = s->signals, .events = POLLIN};
        if (poll(s->fds, n + 1, wait_ms(s)) < 0)
            continue;
        if (s->fds[0].revents)
            serve_signals(s);
        launch_screen_serve(&s->screen, s->fds + 1, n);
    }
}

/* Starts all ranks, or none: after a failure those already started are killed and reaped. */
static bool start_all(struct sup *s)
{
    const struct sup_job *job = s->job;
    struct sup_trouble t;
    for (uint32_t r = 0; r < job->size; r++) {
        if (launch_start(&job->ranks[r], r, &s->screen, &s->live[r], &t)) {
            s->left++;
            continue;
        }
        if (!strcmp(t.what, "start"))
            fprintf(stderr, "tutti %s: cannot start %s: %s\n", job->name, job->ranks[r].argv[0],
                    strerror(t.why));
        else
            fprintf(stderr, "tutti %s: rank %u: cannot %s: %s\n", job->name, r, t.what,
                    strerror(t.why));
        drop_all(s);
        for (uint32_t k = 0; k < r; k++)
            waitpid(s->live[k].pid, &s->live[k].status, 0);
        return false;
    }
    return true;
}

/* As a subreaper we become the parent of the ranks' orphans, so that they can be found and
 * ended. */
static bool supervise_prepare(struct sup *s)
{
    size_t n = s->job->size;
    s->signals = signalfd(-1, launch_held_signals(), SFD_CLOEXEC | SFD_NONBLOCK);
    s->live = calloc(n, sizeof *s->live);
    size_t lives = n * (1 + s->job->restarts); /* each has pipes of its own */
    s->fds = calloc(2 * lives + 3, sizeof *s->fds);
    s->screen.streams = calloc(2 * lives, sizeof *s->screen.streams);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    return s->signals >= 0 && s->live && s->fds && s->screen.streams;
}

/* The exit code, after the last messages. */
static int verdict(struct sup *s)
{
    bool spared = s->job->least && !s->stopped_by && launch_count_well(s) >= s->job->least;
    bool well = (s->culprit == s->job->size || spared) && !s->left && !s->blame.unheard;
    int code = well                                     ? CLI_OK
               : launch_is_told(s) && !s->blame.unheard ? WEXITSTATUS(s->live[0].status)
                                                        : CLI_NO;
    if (s->left)
        fprintf(stderr, "tutti %s: %u rank%s could not be ended\n", s->job->name, s->left,
                cli_s(s->left));
    if (s->culprit < s->job->size)
        launch_say_rest(s);
    return code;
}

int launch_supervise(const struct sup_job *job)
{
    struct sup s = {.job = job, .signals = -1, .culprit = job->size, .blame = {.rank = job->size}};
    int code = CLI_USAGE;
    fflush(stdout);
    if (!supervise_prepare(&s)) {
        fprintf(stderr, "tutti %s: %s\n", job->name, strerror(errno));
    } else if (start_all(&s)) {
        watch(&s);
        code = verdict(&s);
    }
    for (uint32_t r = 0; s.live && r < job->size; r++)
        if (s.live[r].control >= 0 && s.live[r].pid)
            close(s.live[r].control);
    launch_screen_close(&s.screen);
    if (s.signals >= 0)
        close(s.signals);
    free(s.fds);
    free(s.live);
    return code;
}
