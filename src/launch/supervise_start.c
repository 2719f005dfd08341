/* supervise_start.c - one rank: from its description to a process, and signals to it.
 *
 * Process groups. A rank leads a group of its own, so that the terminal's signals reach it once,
 * through us, and what it starts can be ended with it. The exception is rank 0 when standard input
 * is a terminal: only the foreground group may read that, so rank 0 (a debugger, a prompt) stays in
 * our group and gets the terminal's signals directly; we do not send them again. A rank behind ssh
 * gets signals by name through its standard input, and ends when that ends.
 *
 * Failures. The new process reports through a pipe, which closes on exec, what kept it from
 * becoming the program: a failed start is our error, not a rank's exit status. */
#include "launch/supervise_int.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* The descriptors that a new rank gets as 0, 1 and 2 (-1: keep ours), and the pipe for its
 * report. */
struct ends {
    int std[3];
    int report;
};

/* `held` is blocked while a job runs; `former` and `former_pipe` are what the ranks get back. */
static sigset_t held, former;
static struct sigaction former_pipe;
static const int forwarded[] = {SIGINT,  SIGQUIT, SIGTERM, SIGHUP,
                                SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT};

/* A signal that our parent made us ignore (nohup, a shell's background job) stays ignored: in
 * `held` it would reach us through the signalfd, even though it is blocked. */
void launch_hold_signals(void)
{
    sigemptyset(&held);
    sigaddset(&held, SIGCHLD);
    signal(SIGCHLD, SIG_DFL); /* if ignored, children would disappear unnoticed */
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++) {
        struct sigaction was;
        if (!sigaction(forwarded[i], NULL, &was) && was.sa_handler != SIG_IGN)
            sigaddset(&held, forwarded[i]);
    }
    sigprocmask(SIG_BLOCK, &held, &former);
    sigaction(SIGPIPE, &(struct sigaction){.sa_handler = SIG_IGN}, &former_pipe);
}

bool launch_is_stopped(void)
{
    static const int ending[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP};
    sigset_t waiting;
    bool stopped = false;
    sigpending(&waiting);
    for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++)
        stopped = stopped || (sigismember(&held, ending[i]) && sigismember(&waiting, ending[i]));
    return stopped;
}

const sigset_t *launch_held_signals(void)
{
    return &held;
}

static int supervise_start_fail(const char **ret_what, const char *what)
{
    *ret_what = what;
    return -1;
}

static int place_descriptors(const struct ends *e)
{
    for (int i = 0; i < 3; i++)
        if (e->std[i] >= 0 && dup2(e->std[i], i) < 0)
            return -1;
    return 0;
}

/* Everything between fork and exec, in the child. Returns only on failure, with errno. */
static int become(const struct sup_rank *r, const struct ends *e, pid_t launcher, bool own_group,
                  const char **ret_what)
{
    if (own_group)
        setpgid(0, 0);
    /* The kernel kills the rank when the launcher dies. If that happened before prctl, we have
     * another parent already. */
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) || getppid() != launcher)
        return supervise_start_fail(ret_what, "stay with the launcher");
    if (place_descriptors(e))
        return supervise_start_fail(ret_what, "set up standard input and output");
    if (r->enter && r->enter(r->ctx, ret_what))
        return -1;
    sigaction(SIGPIPE, &former_pipe, NULL);
    sigprocmask(SIG_SETMASK, &former, NULL);
    execvpe(r->argv[0], r->argv, r->env);
    return supervise_start_fail(ret_what, "start");
}

static void supervise_start_child(const struct sup_rank *r, const struct ends *e, pid_t launcher,
                                  bool own_group)
{
    struct sup_trouble t = {0};
    const char *what = "";
    become(r, e, launcher, own_group, &what);
    t.why = errno;
    snprintf(t.what, sizeof t.what, "%s", what);
    if (write(e->report, &t, sizeof t) < 0)
        _exit(126);
    _exit(127);
}

/* Opens the rank's end of one of its outputs; *ret stays -1 for an inherited one. */
static bool open_output(enum sup_output where, uint32_t rank, struct sup_screen *screen, int *ret)
{
    switch (where) {
    case SUP_INHERITED:
        return true;
    case SUP_DISCARDED:
        *ret = open("/dev/null", O_WRONLY | O_CLOEXEC);
        return *ret >= 0;
    case SUP_SHOWN_ON_STDOUT:
        return launch_screen_add(screen, rank, STDOUT_FILENO, ret);
    case SUP_SHOWN_ON_STDERR:
        return launch_screen_add(screen, rank, STDERR_FILENO, ret);
    }
    return false;
}

/* Remote: a pipe with the key in it. Otherwise only rank 0 has our standard input. */
static bool open_input(const struct sup_rank *r, uint32_t rank, int *ret, int *ret_control)
{
    if (r->remote) {
        int p[2];
        size_t len = strlen(r->hello);
        if (pipe2(p, O_CLOEXEC))
            return false;
        *ret = p[0];
        *ret_control = p[1];
        fcntl(p[1], F_SETFL, O_NONBLOCK);
        /* a pipe holds far more, so that it does not block */
        return write(p[1], r->hello, len) == (ssize_t)len;
    }
    if (rank > 0)
        *ret = open("/dev/null", O_RDONLY | O_CLOEXEC);
    return rank == 0 || *ret >= 0;
}

static void shut(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

/* Waits for exec or a report: end of file means that the program is running. Returns true then. */
static bool hear(int fd, struct sup_trouble *ret)
{
    ssize_t n;
    while ((n = read(fd, ret, sizeof *ret)) < 0 && errno == EINTR)
        ;
    return n != sizeof *ret;
}

/* Forks, and waits until the program runs or has failed to start. */
static bool supervise_start_launch(const struct sup_rank *r, const struct ends *e, int hear_fd,
                                   struct sup_live *l, struct sup_trouble *ret_trouble)
{
    pid_t launcher = getpid();
    int ear = e->report;
    l->pid = fork();
    if (l->pid < 0) {
        *ret_trouble = (struct sup_trouble){"make a process", errno};
        l->pid = 0;
        return false;
    }
    if (l->pid == 0)
        supervise_start_child(r, e, launcher, l->own_group);
    if (l->own_group)
        setpgid(l->pid, l->pid); /* both sides do it: whichever comes first */
    /* Close our copy of the writing end, or hear() would never see the end of file. */
    shut(&ear);
    if (hear(hear_fd, ret_trouble))
        return true;
    waitpid(l->pid, &l->status, 0);
    l->ended = true;
    return false;
}

bool launch_start(const struct sup_rank *r, uint32_t rank, struct sup_screen *screen,
                  struct sup_live *ret, struct sup_trouble *ret_trouble)
{
    struct ends e = {{-1, -1, -1}, -1};
    struct sup_live l = {.control = -1,
                         .own_group = rank > 0 || r->remote || !isatty(STDIN_FILENO)};
    int report[2] = {-1, -1};
    bool ok = !pipe2(report, O_CLOEXEC) && open_input(r, rank, &e.std[0], &l.control) &&
              open_output(r->out, rank, screen, &e.std[1]) &&
              open_output(r->err, rank, screen, &e.std[2]);
    if (ok) {
        e.report = report[1];
        ok = supervise_start_launch(r, &e, report[0], &l, ret_trouble);
    } else {
        *ret_trouble = (struct sup_trouble){"open pipes", errno};
        shut(&report[1]);
    }
    shut(&report[0]);
    for (int i = 0; i < 3; i++)
        shut(&e.std[i]);
    if (!ok)
        shut(&l.control);
    *ret = l;
    return ok;
}

enum { DOORS_MAX = 32 };

/* "TUTTI_JOIN=host:port,..": the latest addresses that ranks noted ("door 1 of 4: host:port"; they
 * may have ended meanwhile, but then nobody listens there), or the meeting point. */
static void find_doors(const struct sup_job *job, char *ret, size_t cap)
{
    char path[64], line[640], doors[DOORS_MAX][64];
    size_t n = 0, used;
    snprintf(path, sizeof path, "/proc/self/fd/%d", job->verdict_fd);
    FILE *in = fopen(path, "re");
    while (in && fgets(line, sizeof line, in))
        n += sscanf(line, "door %*u of %*u: %63[0-9.:]", doors[n % DOORS_MAX]) == 1;
    if (in)
        fclose(in);
    used = (size_t)snprintf(ret, cap, "TUTTI_JOIN=%s", n ? "" : job->meeting);
    for (size_t i = n; i-- > (n > DOORS_MAX ? n - DOORS_MAX : 0) && used < cap;)
        used += (size_t)snprintf(ret + used, cap - used, "%s%s", i + 1 < n ? "," : "",
                                 doors[i % DOORS_MAX]);
}

bool launch_start_again(const struct sup_job *job, uint32_t r, struct sup_screen *screen,
                        struct sup_live *ret, struct sup_trouble *ret_trouble)
{
    struct sup_rank rank = job->ranks[r];
    char join[DOORS_MAX * 64 + 300];
    size_t n = 0;
    while (rank.env[n])
        n++;
    char **env = calloc(n + 2, sizeof *env);
    *ret_trouble = (struct sup_trouble){"keep its variables", ENOMEM};
    if (!env)
        return false;
    memcpy(env, rank.env, n * sizeof *env);
    env[n] = join;
    find_doors(job, join, sizeof join);
    rank.env = env;
    bool ok = launch_start(&rank, r, screen, ret, ret_trouble);
    free(env);
    return ok;
}

/* The name as `kill -s` of every shell takes it. */
static const char *name_of(int sig)
{
    static const struct {
        int sig;
        const char *name;
    } names[] = {{SIGINT, "INT"},   {SIGQUIT, "QUIT"}, {SIGTERM, "TERM"}, {SIGHUP, "HUP"},
                 {SIGUSR1, "USR1"}, {SIGUSR2, "USR2"}, {SIGTSTP, "TSTP"}, {SIGCONT, "CONT"},
                 {SIGKILL, "KILL"}, {0, NULL}};
    size_t i = 0;
    while (names[i].name && names[i].sig != sig)
        i++;
    return names[i].name ? names[i].name : "TERM";
}

void launch_signal(struct sup_live *l, int sig, bool all)
{
    if (!l->pid || l->ended)
        return;
    if (l->control >= 0)
        dprintf(l->control, "%s\n", name_of(sig));
    else
        kill(all && l->own_group ? -l->pid : l->pid, sig);
}

/* Orphans of a rank are our children (we are the subreaper). While one of our children is in the
 * group, the group's number cannot have been reused, so that signalling it is safe. */
bool launch_signal_rest(const struct sup_live *l, int sig)
{
    siginfo_t info;
    if (!l->pid || !l->ended || !l->own_group ||
        waitid(P_PGID, (id_t)l->pid, &info, WEXITED | WNOHANG | WNOWAIT))
        return false;
    if (sig)
        kill(-l->pid, sig);
    return true;
}
