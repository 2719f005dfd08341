/* member.c - a rank of the fault campaign (campaign.py): opens, communicates until something fails, makes the faults that a rank makes
 * itself, and writes down what it was told and when.
 *
 *     member DIR PHASE KIND VICTIM AT COUNT TIMEOUT_MS RUN_MS PER_HOST
 *
 * PHASE is where the fault happens: open, split, trainer, many (call number AT; 0 is the first) or close. KIND is what rank VICTIM does
 * there; "-": nothing, the parent does it. With PER_HOST > 1 the program first becomes so many ranks. A line of DIR/RANK is a time of the
 * monotonic clock in nanoseconds and what happened:
 *
 *     at PHASE PID       the phase begins            told STATUS CLOSED TEXT    a call failed
 *     fault              the rank errs now           again STATUS TEXT          the call after that
 *     WRONG ...          a wrong sum, a buffer       end FDS THREADS            what is left behind after closing
 *                        that somebody still writes  child ...                  a process the rank made */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

static struct {
    const char *dir, *phase, *kind;
    unsigned victim, me;
    long at, timeout_ms, run_ms;
    size_t count;
    int log;
} job;
static struct tutti_comm *world;
static float *in, *out;

static unsigned long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (unsigned long long)t.tv_sec * 1000000000u + (unsigned long long)t.tv_nsec;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char line[2048];
    va_list args;
    int n = snprintf(line, sizeof line, "%llu ", now_ns());
    va_start(args, format);
    n += vsnprintf(line + n, sizeof line - 2 - (size_t)n, format, args);
    va_end(args);
    n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
    for (int i = 0; i < n; i++)
        line[i] = line[i] == '\n' ? ' ' : line[i];
    line[n++] = '\n';
    (void)!write(job.log, line, (size_t)n);
}

static bool is(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

static int entries(const char *dir)
{
    DIR *d = opendir(dir);
    int n = 0;
    while (d && readdir(d))
        n++;
    if (d)
        closedir(d);
    return n;
}

/* ---- altered bytes: what the library sends passes here ---- */

static atomic_bool flip; /* the next long enough record is altered */

#pragma GCC visibility push(default) /* in place of libc's */
ssize_t send(int fd, const void *data, size_t bytes, int flags)
{
    struct iovec v = {(void *)(uintptr_t)data, bytes};
    struct msghdr m = {.msg_iov = &v, .msg_iovlen = 1};
    return sendmsg(fd, &m, flags);
}

ssize_t sendmsg(int fd, const struct msghdr *m, int flags)
{
    static char copy[1 << 20];
    size_t bytes = 0;
    for (size_t i = 0; i < m->msg_iovlen; i++)
        bytes += m->msg_iov[i].iov_len;
    if (!atomic_load(&flip) || bytes < 64 || bytes > sizeof copy || !atomic_exchange(&flip, false))
        return syscall(SYS_sendmsg, fd, m, flags);
    for (size_t i = 0, k = 0; i < m->msg_iovlen; k += m->msg_iov[i++].iov_len)
        memcpy(copy + k, m->msg_iov[i].iov_base, m->msg_iov[i].iov_len);
    copy[bytes - 1 - now_ns() % (bytes / 2)] ^= (char)(1 << now_ns() % 8); /* behind the header, which no checksum covers */
    struct iovec v = {copy, bytes};
    struct msghdr altered = {.msg_iov = &v, .msg_iovlen = 1};
    ssize_t sent = syscall(SYS_sendmsg, fd, &altered, flags);
    say("fault");
    return sent;
}
#pragma GCC visibility pop

/* ---- what the victim does ---- */

static void limit(int what, rlim_t most)
{
    struct rlimit l;
    if (getrlimit(what, &l) == 0) {
        l.rlim_cur = most;
        setrlimit(what, &l);
    }
}

static void make_child(bool closes)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (closes) {
            float a = 1, b = 0;
            tutti_status st = tutti_allreduce(world, &a, &b, 1, TUTTI_F32, TUTTI_SUM);
            say("child called: %d %s", st, tutti_comm_last_error(world)->text);
            tutti_comm_close(world);
            _exit(0);
        }
        sleep(20);
        _exit(0);
    }
    say("child %d", (int)pid);
    if (closes)
        waitpid(pid, NULL, 0);
}

/* Before its call. What is left for the call itself is in misplaced_call. */
static void misbehave(void)
{
    const char *k = job.kind;
    if (is(k, "-"))
        return;
    if (is(k, "fork"))
        make_child(false);
    if (is(k, "flip")) {
        atomic_store(&flip, true); /* says "fault" when it happens */
        return;
    }
    say("fault");
    if (is(k, "exit"))
        _exit(0);
    if (is(k, "fork"))
        raise(SIGKILL);
    if (is(k, "exec"))
        execlp("sleep", "sleep", "20", (char *)NULL);
    if (is(k, "child"))
        make_child(true);
    if (is(k, "late"))
        usleep((useconds_t)(job.timeout_ms + 700) * 1000);
    if (is(k, "slow"))
        usleep((useconds_t)job.timeout_ms * 300);
    if (is(k, "abort"))
        tutti_comm_abort(world, "because the campaign says so");
    if (is(k, "leave")) {
        tutti_comm_close(world);
        _exit(0);
    }
    if (is(k, "memory")) /* what there is and a little more */
        limit(RLIMIT_AS, (rlim_t)job.at << 20);
    if (is(k, "file"))
        limit(RLIMIT_FSIZE, (rlim_t)job.at << 10);
    if (is(k, "descriptors"))
        limit(RLIMIT_NOFILE, (rlim_t)entries("/proc/self/fd") - 3 + (rlim_t)job.at);
    if (is(k, "key")) {
        char path[4096];
        snprintf(path, sizeof path, "%s/otherkey", job.dir);
        setenv("TUTTI_KEY_FILE", path, 1);
    }
    if (is(k, "size"))
        setenv("TUTTI_SIZE", "9", 1);
}

static tutti_status misplaced_call(bool wrong)
{
    const char *k = wrong ? job.kind : "";
    unsigned root = is(k, "root") ? 1 : 0;
    if (is(job.kind, "root")) /* all reduce to a root */
        return tutti_reduce(world, in, out, job.count, TUTTI_F32, TUTTI_SUM, root);
    if (is(k, "call"))
        return tutti_barrier(world);
    return tutti_allreduce(world, in, out, is(k, "count") ? job.count / 2 : job.count, is(k, "type") ? TUTTI_I32 : TUTTI_F32,
                           is(k, "op") ? TUTTI_MAX : TUTTI_SUM);
}

/* ---- what everybody does ---- */

static float share(size_t i, long call)
{
    return (float)((i + (size_t)call) % 7 + 1);
}

/* One all-reduce with its check. The first element is the number of ranks that want to stop. */
static tutti_status reduce(struct tutti_comm *c, long call, bool stop, bool wrong, bool *ret_stop)
{
    unsigned n = tutti_comm_size(c);
    tutti_status st;
    in[0] = stop;
    for (size_t i = 1; i < job.count; i++)
        in[i] = share(i, call) * (float)(job.me + 1);
    memset(out, 0, job.count * sizeof *out);
    st = c == world ? misplaced_call(wrong) : tutti_allreduce(c, in, out, job.count, TUTTI_F32, TUTTI_SUM);
    if (st || wrong || (is(job.kind, "root") && job.me != 0))
        return st;
    for (size_t i = 1; i < job.count; i++)
        if (out[i] != share(i, call) * (float)(n * (n + 1) / 2)) {
            say("WRONG sum of call %ld: element %zu of %zu is %g", call, i, job.count, (double)out[i]);
            break;
        }
    *ret_stop = out[0] > 0;
    return TUTTI_OK;
}

static tutti_status split(long call, bool stop, bool *ret_stop, struct tutti_error *err)
{
    struct tutti_comm *c;
    tutti_status st = tutti_comm_split(world, 0, 0, &c, err);
    if (st)
        return st;
    st = reduce(c, call, stop, false, ret_stop);
    if (st)
        *err = *tutti_comm_last_error(c);
    tutti_comm_close(c);
    return st;
}

static tutti_status train(struct tutti_error *err)
{
    struct tutti_trainer_options options = {.size = sizeof options, .optimizer = TUTTI_OPTIMIZER_SGD};
    struct tutti_tensor tensor = {.size = sizeof tensor, .name = "w", .count = job.count, .dtype = TUTTI_F32};
    struct tutti_trainer *t;
    size_t index;
    tutti_status st = tutti_trainer_open(world, &options, &t, err);
    if (st)
        return st;
    st = tutti_trainer_add(t, &tensor, &index, err);
    if (!st)
        st = tutti_trainer_freeze(t, err);
    if (!st && ((st = tutti_trainer_grad_ready(t, index)) || (st = tutti_trainer_step(t)) || (st = tutti_trainer_flush(t))))
        *err = *tutti_trainer_last_error(t);
    tutti_trainer_close(t);
    return st;
}

/* The operation has failed: nobody may write into this rank's output any more. */
static void check_left_alone(void)
{
    memset(out, 0x5a, job.count * sizeof *out);
    usleep(20000);
    for (size_t i = 0; i < job.count * sizeof *out; i++)
        if (((const unsigned char *)out)[i] != 0x5a) {
            say("WRONG: somebody writes into the output of a call that has failed");
            return;
        }
}

/* Calls until something fails or time is up. */
static tutti_status work(struct tutti_error *err)
{
    unsigned long long end = now_ns() + (unsigned long long)job.run_ms * 1000000u;
    bool splits = is(job.phase, "split"), trains = is(job.phase, "trainer"), mine = job.me == job.victim, stop = false;
    bool limits = is(job.kind, "memory") || is(job.kind, "file") || is(job.kind, "descriptors");
    tutti_status st = TUTTI_OK;
    for (long call = 0; !st && !stop; call++) {
        bool errs = mine && (limits ? call == 3 : call == job.at) && !is(job.phase, "close") && !is(job.phase, "open");
        if (call == job.at && !is(job.phase, "close"))
            say("at %s %d", job.phase, (int)getpid());
        if (errs)
            misbehave();
        if (trains && (st = train(err)))
            break;
        /* On a slow machine time may be up before the fault, which others may make a moment later: it must happen first. */
        if (call == job.at && !limits && end < now_ns() + (unsigned long long)job.run_ms * 250000u)
            end = now_ns() + (unsigned long long)job.run_ms * 250000u;
        bool over = now_ns() > end && (limits || call >= job.at);
        if (splits)
            st = split(call, over, &stop, err);
        else if ((st = reduce(world, call, over, errs && !limits, &stop)))
            *err = *tutti_comm_last_error(world);
        if (is(job.phase, "close") && call == job.at)
            break;
    }
    return st;
}

static void run(void)
{
    struct tutti_error err = {0};
    tutti_status st;
    say("at open %d", (int)getpid());
    if (is(job.phase, "open") && job.me == job.victim)
        misbehave();
    st = tutti_comm_open(NULL, &world, &err);
    if (st) {
        say("told %d 0 %s", st, err.text);
        return;
    }
    say("opened");
    if ((st = work(&err))) {
        bool stop;
        say("told %d 1 %s", st, err.text);
        check_left_alone();
        st = reduce(world, 0, false, false, &stop);
        say("again %d %s", st, tutti_comm_last_error(world)->text);
    }
    if (is(job.phase, "close")) {
        say("at close %d", (int)getpid());
        if (job.me == job.victim)
            misbehave();
    }
    tutti_comm_close(world);
}

/* One process of a host becomes its ranks. */
static int be_host(int per_host, char **argv)
{
    const char *host = getenv("TUTTI_RANK"), *hosts = getenv("TUTTI_SIZE");
    int bad = 0, status;
    char text[16];
    for (int i = 0; host && hosts && i < per_host; i++)
        if (fork() == 0) {
            snprintf(text, sizeof text, "%d", atoi(host) * per_host + i);
            setenv("TUTTI_RANK", text, 1);
            snprintf(text, sizeof text, "%d", atoi(hosts) * per_host);
            setenv("TUTTI_SIZE", text, 1);
            snprintf(text, sizeof text, "%d", i);
            setenv("TUTTI_LOCAL_RANK", text, 1);
            argv[9] = "1";
            execv("/proc/self/exe", argv);
            _exit(127);
        }
    while (wait(&status) > 0)
        bad |= status;
    return bad != 0;
}

int main(int argc, char **argv)
{
    char text[4096];
    const char *rank = getenv("TUTTI_RANK") ? getenv("TUTTI_RANK") : getenv("OMPI_COMM_WORLD_RANK");
    if (argc != 10 || !rank) {
        fprintf(stderr, "member: campaign.py starts this\n");
        return 2;
    }
    if (atoi(argv[9]) > 1)
        return be_host(atoi(argv[9]), argv);
    job.dir = argv[1];
    job.phase = argv[2];
    job.kind = argv[3];
    job.victim = (unsigned)atoi(argv[4]);
    job.me = (unsigned)atoi(rank);
    job.at = atol(argv[5]);
    job.count = (size_t)atol(argv[6]);
    job.timeout_ms = atol(argv[7]);
    job.run_ms = atol(argv[8]);
    snprintf(text, sizeof text, "%ldms", job.timeout_ms);
    setenv("TUTTI_TIMEOUT", text, 1);
    snprintf(text, sizeof text, "%s/%u", job.dir, job.me);
    job.log = open(text, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    in = malloc(job.count * sizeof *in);
    out = malloc(job.count * sizeof *out);
    if (job.log < 0 || !in || !out)
        return 2;
    int fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    run();
    int left = 1;
    for (int i = 0; left > 0 && i < 100; i++) { /* a thread that was joined may stay in the list for a moment */
        left = entries("/proc/self/task") - threads;
        if (left > 0)
            usleep(10000);
    }
    say("end %d %d", entries("/proc/self/fd") - fds, left);
    free(in);
    free(out);
    return 0;
}
