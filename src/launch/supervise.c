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
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cli/cli.h"
#include "launch/supervise_int.h"

#define SECOND UINT64_C(1000000000)
static const uint64_t settle_ns = SECOND / 10, blame_ns = SECOND, report_ns = SECOND,
                      end_ns = 2 * SECOND, kill_ns = 5 * SECOND, rest_ns = 2 * SECOND;
/* Signals of one kind within this time are one: timeout(1) sends its signal to us and then to our
 * group. A user who presses Ctrl-C twice takes longer. */
static const uint64_t one_term_ns = SECOND, one_interrupt_ns = SECOND / 20;

/* In the order of severity: a phase is only entered from a lower one, except back to RUNNING
 * from AWAITING. Comparisons like phase < SETTLING depend on it. */
enum phase { RUNNING, AWAITING, STOPPING, SETTLING, GRACE, ENDING, KILLING, RESTING, OVER };

/* The state of the supervisor. due_ns: when next_phase is called; 0: never. */
struct sup {
    const struct sup_job *job;
    struct sup_live *live;
    struct sup_screen screen;
    struct pollfd *fds;
    int signals;
    enum phase phase;
    uint64_t due_ns, failed_ns;
    uint32_t left;                          /* ranks that have not ended */
    uint32_t turns;                         /* rounds of waitpid so far */
    uint32_t culprit;                       /* the rank that was named; size: none yet */
    struct sup_blame blame;                 /* the notes when the culprit was named */
    int stopped_by;                         /* the signal that asked the job to end; 0: none */
    bool rested;                            /* leftovers of the ranks were killed */
    bool dropped;                           /* everything was sent SIGKILL directly */
    bool ended_by_us;                       /* ranks did not end in time by themselves */
    uint64_t terminated_ns, interrupted_ns; /* when SIGTERM, SIGINT came first; 0: not yet */
};

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void enter_phase(struct sup *s, enum phase phase, uint64_t due_ns)
{
    assert(phase >= s->phase || (phase == RUNNING && s->phase == AWAITING));
    s->phase = phase;
    s->due_ns = due_ns;
}

/* How long ranks have to end by themselves, in seconds, for messages. */
static double patience(const struct sup *s)
{
    return (double)(s->job->timeout_ns + report_ns) / (double)SECOND;
}

static bool failed(const struct sup_live *l)
{
    return l->ended && l->status != 0 && !l->lost;
}

/* Ranks that run, or have ended well. */
static uint32_t count_well(const struct sup *s)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < s->job->size; r++)
        n += !s->live[r].ended || s->live[r].status == 0;
    return n;
}

/* The signal that a rank died of; 0: it exited. The shell on another host reports a signal as
 * 128 + its number. */
static int death_of(const struct sup *s, uint32_t rank)
{
    int status = s->live[rank].status;
    if (WIFSIGNALED(status))
        return WTERMSIG(status);
    int code = WEXITSTATUS(status);
    return s->job->ranks[rank].remote && code > 128 && code <= 128 + SIGRTMAX ? code - 128 : 0;
}

/* ---- ranks that are started again ---- */

static const uint64_t pause_ns = SECOND / 10, longest_pause_ns = 30 * SECOND;

/* A rank that cannot be started again stays lost. */
static void start_again(struct sup *s, uint32_t r)
{
    struct sup_live *l = &s->live[r], next;
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

/* When the next rank will be started again; 0: none. Starts those that are due. */
static uint64_t restart_due(struct sup *s, uint64_t now)
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

/* Says whether the rank that failed will be started again, and ends the line. */
static void plan_restart(struct sup *s, uint32_t r)
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
        l->restart_ns = now_ns() + wait;
        fprintf(stderr, "; it is started again in %.3g s (restart %u of %u)",
                (double)wait / (double)SECOND, l->restarts + 1, job->restarts);
    }
    fputc('\n', stderr);
}

/* The first note in the file for which `fits` holds (NULL: any), and whether any note is
 * "unheard". Long lines come in pieces: only their beginnings are parsed. */
static struct sup_blame find_note(const struct sup *s,
                                  bool (*fits)(const struct sup *s, const struct sup_blame *b))
{
    char path[64], line[640];
    struct sup_blame best = {.rank = s->job->size}, b;
    bool begins = true; /* a line, not the rest of a long one */
    snprintf(path, sizeof path, "/proc/self/fd/%d", s->job->verdict_fd);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in)) {
        if (begins && launch_read_note(line, s->job->size, &b)) {
            bool unheard = best.unheard || b.unheard;
            best = *best.text || (fits && !fits(s, &b)) ? best : b;
            best.unheard = unheard;
        }
        begins = strchr(line, '\n');
    }
    if (in)
        fclose(in);
    return best;
}

/* The rank to name: the blamed one if it failed; else the first of those that were killed; else
 * the first of those that exited. Among those of one round of waitpid the lowest. */
static uint32_t find_culprit(const struct sup *s)
{
    uint32_t best = s->job->size;
    if (s->blame.rank < s->job->size && failed(&s->live[s->blame.rank]))
        return s->blame.rank;
    for (uint32_t r = 0; r < s->job->size; r++) {
        if (!failed(&s->live[r]))
            continue;
        bool worse = best < s->job->size && death_of(s, r) && !death_of(s, best);
        bool alike = best < s->job->size && !death_of(s, r) == !death_of(s, best);
        if (best == s->job->size || worse || (alike && s->live[r].turn < s->live[best].turn))
            best = r;
    }
    return best;
}

/* "rank 2 (host a, pid 4711)" */
static const char *name_rank(const struct sup *s, uint32_t r, char who[160])
{
    const struct sup_rank *rank = &s->job->ranks[r];
    if (rank->remote)
        snprintf(who, 160, "rank %u (host %s)", r, rank->host);
    else
        snprintf(who, 160, "rank %u (%s%s%spid %d)", r, rank->host ? "host " : "",
                 rank->host ? rank->host : "", rank->host ? ", " : "", (int)s->live[r].pid);
    return who;
}

/* Prints how a rank ended, without an end of line. */
static void say_end(const struct sup *s, uint32_t r)
{
    int sig = death_of(s, r);
    char who[160];
    name_rank(s, r, who);
    if (sig)
        fprintf(stderr, "tutti %s: %s was killed by signal %d (%s)", s->job->name, who, sig,
                strsignal(sig));
    else if (s->job->ranks[r].remote && WEXITSTATUS(s->live[r].status) == 255)
        fprintf(stderr, "tutti %s: %s exited with status 255, which may be ssh's own", s->job->name,
                who);
    else
        fprintf(stderr, "tutti %s: %s exited with status %d", s->job->name, who,
                WEXITSTATUS(s->live[r].status));
}

/* Prints one line about the culprit, and about the blamed rank when that is another. */
static void say_culprit(const struct sup *s)
{
    uint32_t r = s->culprit, blamed = s->blame.rank, well = count_well(s);
    char who[160];
    if (s->blame.all && !death_of(s, r)) {
        fprintf(stderr, "tutti %s: the ranks failed together: %s\n", s->job->name, s->blame.text);
        return;
    }
    say_end(s, r);
    if (s->job->least)
        fprintf(stderr, "; %u rank%s left, at least %u %s needed", well,
                well == 1 ? " is" : "s are", s->job->least, s->job->least == 1 ? "is" : "are");
    if (blamed < s->job->size && blamed != r && !s->live[blamed].lost)
        fprintf(stderr, "; the ranks blame %s, which %s", name_rank(s, blamed, who),
                s->live[blamed].ended ? "has ended without an error" : "is still running");
    fputc('\n', stderr);
}

/* Is the blamed rank still running? Then it may be about to fail itself. */
static bool awaits_blamed(const struct sup *s)
{
    struct sup_blame b = find_note(s, NULL);
    return b.rank < s->job->size && !s->live[b.rank].ended;
}

/* Has a signal stopped the rank? Of one on another host it is not known. */
static bool is_stopped(const struct sup *s, uint32_t rank)
{
    return !s->live[rank].ended && !s->job->ranks[rank].remote &&
           launch_is_suspended(s->live[rank].pid);
}

static bool blames_stopped(const struct sup *s, const struct sup_blame *b)
{
    return !b->unheard && b->rank < s->job->size && is_stopped(s, b->rank);
}

static bool is_unheard(const struct sup *s, const struct sup_blame *b)
{
    (void)s;
    return b->unheard;
}

/* The note about a rank that keeps up the job, though it does nothing: ranks have ended, those left
 * are stopped, and this one is blamed. A blamed rank that runs may be well and busy: an old note
 * does not tell. .rank is size when there is none. */
static struct sup_blame find_hanging(const struct sup *s)
{
    struct sup_blame none = {.rank = s->job->size};
    if (!s->left || s->left == s->job->size)
        return none;
    for (uint32_t r = 0; r < s->job->size; r++)
        if (!s->live[r].ended && !is_stopped(s, r))
            return none;
    return find_note(s, blames_stopped);
}

/* Starts the countdown for a rank that hangs, or ends it when the rank has gone on. */
static void weigh_hanging(struct sup *s)
{
    if (s->phase > AWAITING)
        return;
    bool hangs = find_hanging(s).rank < s->job->size;
    if (hangs && s->phase == RUNNING)
        enter_phase(s, AWAITING, now_ns() + s->job->timeout_ns + report_ns);
    else if (!hangs && s->phase == AWAITING)
        enter_phase(s, RUNNING, 0);
}

static void name_hanging(struct sup *s, const struct sup_blame *b)
{
    char who[160];
    s->blame = *b;
    s->culprit = b->rank;
    fprintf(stderr,
            "tutti %s: %s, which the other ranks blame, is still stopped %.3g s after they have "
            "ended: %s\n",
            s->job->name, name_rank(s, s->culprit, who), patience(s), s->blame.text);
}

/* All ranks have exited with status 0: did one note that results are wrong? */
static void name_unheard(struct sup *s)
{
    s->blame = find_note(s, is_unheard);
    if (!s->blame.unheard)
        return;
    s->culprit = s->blame.rank;
    fprintf(stderr, "tutti %s: the ranks exited with status 0, but results are wrong: %s\n",
            s->job->name, s->blame.text);
}

/* Ranks of this tool that all exited with the same status have printed their reason themselves. */
static bool is_told(const struct sup *s)
{
    const struct sup_live *first = &s->live[0];
    bool alike = s->job->own && first->ended && WIFEXITED(first->status);
    for (uint32_t r = 0; alike && r < s->job->size; r++)
        alike = s->live[r].ended && s->live[r].status == first->status;
    return alike;
}

static void name_culprit(struct sup *s)
{
    s->blame = find_note(s, NULL);
    s->culprit = find_culprit(s);
    if (s->stopped_by)
        fprintf(stderr, "tutti %s: stopped by signal %d (%s)\n", s->job->name, s->stopped_by,
                strsignal(s->stopped_by));
    else if (!is_told(s))
        say_culprit(s);
}

/* Writes "0, 1, 3 and 12 more": the ranks, without the culprit, for which `is` holds. False when
 * there are none. */
static bool list_ranks(const struct sup *s, bool (*is)(const struct sup_live *l), char *buf,
                       size_t cap)
{
    size_t used = 0, count = 0, shown = 0;
    for (uint32_t r = 0; r < s->job->size; r++) {
        if (r == s->culprit || !is(&s->live[r]))
            continue;
        count++;
        if (shown >= 8)
            continue;
        used += (size_t)snprintf(buf + used, cap - used, "%s%u", shown++ ? ", " : "", r);
    }
    if (count > shown)
        snprintf(buf + used, cap - used, " and %zu more", count - shown);
    return count > 0;
}

static bool failed_too(const struct sup_live *l)
{
    return failed(l) && !l->told;
}

static bool was_told(const struct sup_live *l)
{
    return l->told;
}

/* Says what became of the other ranks. */
static void say_rest(struct sup *s)
{
    char which[160];
    if (s->stopped_by)
        s->culprit = s->job->size; /* list all ranks below */
    else if (is_told(s) || (s->blame.all && !death_of(s, s->culprit)))
        return;
    if (!s->stopped_by && list_ranks(s, failed_too, which, sizeof which))
        fprintf(stderr, "tutti %s: failed too: %s\n", s->job->name, which);
    if (s->ended_by_us && list_ranks(s, was_told, which, sizeof which))
        fprintf(stderr, "tutti %s: still running %.3g s later and ended: %s\n", s->job->name,
                patience(s), which);
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
        enter_phase(s, KILLING, now_ns() + kill_ns);
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
    uint64_t now = now_ns(), one_ns = sig == SIGINT ? one_interrupt_ns : one_term_ns;
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
        enter_phase(s, STOPPING, now + s->job->timeout_ns + report_ns);
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
        assert(s->left > 0);
        s->left--;
        /* A rank that was killed could not clean up after itself. */
        if (WIFSIGNALED(status))
            launch_signal_rest(l, SIGKILL);
        l->lost = status != 0 && s->phase < STOPPING && !s->stopped_by && s->job->least &&
                  count_well(s) >= s->job->least;
        if (l->lost) {
            say_end(s, r);
            fprintf(stderr, "; the others may go on: %u of at least %u", count_well(s),
                    s->job->least);
            plan_restart(s, r);
        }
        if (failed(l) && s->phase < SETTLING) {
            s->failed_ns = now_ns();
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

/* The time of the present phase is over. */
static void next_phase(struct sup *s, uint64_t now)
{
    struct sup_blame hanging;
    switch (s->phase) {
    case AWAITING:
        hanging = find_hanging(s);
        if (hanging.rank == s->job->size) { /* it goes on */
            enter_phase(s, RUNNING, 0);
            break;
        }
        name_hanging(s, &hanging);
        s->ended_by_us = true;
        end_all(s, SIGTERM);
        enter_phase(s, ENDING, now + end_ns);
        break;
    case STOPPING:
        s->ended_by_us = true;
        end_all(s, SIGKILL);
        enter_phase(s, KILLING, now + kill_ns);
        break;
    case SETTLING:
        if (now < s->failed_ns + blame_ns && awaits_blamed(s)) {
            s->due_ns = now + settle_ns;
            break;
        }
        name_culprit(s);
        enter_phase(s, GRACE, s->failed_ns + s->job->timeout_ns + report_ns);
        break;
    case GRACE:
        s->ended_by_us = true;
        end_all(s, SIGTERM);
        enter_phase(s, ENDING, now + end_ns);
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
    uint64_t now = now_ns();
    if (s->left == 0 && s->phase < RESTING) {
        if (s->phase >= SETTLING && s->culprit == s->job->size)
            name_culprit(s);
        else if (s->phase < SETTLING)
            name_unheard(s);
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
    uint64_t now = now_ns(), restart = restart_due(s, now), due = s->due_ns;
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
    bool spared = s->job->least && !s->stopped_by && count_well(s) >= s->job->least;
    bool well = (s->culprit == s->job->size || spared) && !s->left && !s->blame.unheard;
    int code = well                              ? CLI_OK
               : is_told(s) && !s->blame.unheard ? WEXITSTATUS(s->live[0].status)
                                                 : CLI_NO;
    if (s->left)
        fprintf(stderr, "tutti %s: %u rank%s could not be ended\n", s->job->name, s->left,
                cli_s(s->left));
    if (s->culprit < s->job->size)
        say_rest(s);
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
